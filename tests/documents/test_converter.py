"""Documents are read by a process of their own: what ends it, what it sees, and that the text is the same."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Limits, ModelCall, Reply, Result, ScriptedModel, replay
from paor.errors import UsageError

from .inside import ChildProcess, ConversionError, Converter, convert
from .inside import converter_module as module
from .test_pdf import hand_made, paper

EXAMPLES = Path(__file__).parents[2] / "examples" / "documents"
PAGE = b"<p>Some <b>words</b>.</p>"
"""Of 0.6 MB; the parser's time grows with the square."""
SLOW_PAGES = hand_made(b"q 1 0 0 1 0 0 cm Q " * 250_000, pages=4000)
"""Pages that share one stream: a small file, and minutes of work."""


def failure(name: str, data: bytes, limits: Limits | None = None, **given: object) -> ConversionError:
    """Return the error that a document gives."""
    with Converter(limits, **given) as read, pytest.raises(ConversionError) as raised:  # type: ignore[arg-type]
        read(name, data)
    assert "\n" not in raised.value.message
    return raised.value


@pytest.mark.parametrize(
    "name",
    [
        "contract.pdf",
        *(
            pytest.param(name, marks=pytest.mark.whole)
            for name in ("minutes.docx", "notes.html", "prices.csv")
        ),
    ],
)
def test_the_text_is_the_same_as_without_a_process(name: str) -> None:
    """Titles, pages and notes too."""
    data = (EXAMPLES / name).read_bytes()
    with Converter() as read:
        assert read(name, data) == convert(name, data)


class Processes:
    """The processes that were begun to read documents, and a signal whenever one is asked for a text."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[ChildProcess] = []
        self.ended: list[ChildProcess] = []
        self.asked = threading.Semaphore(0)
        begin, ask, end = ChildProcess.__init__, ChildProcess.ask, ChildProcess.end

        def noted(process: ChildProcess, *given: Any, **options: Any) -> None:
            begin(process, *given, **options)
            self.begun.append(process)

        def asking(process: ChildProcess, *given: Any) -> bytes:
            self.asked.release()
            return ask(process, *given)

        def ending(process: ChildProcess) -> int:
            self.ended.append(process)
            return end(process)

        monkeypatch.setattr(ChildProcess, "end", ending)
        monkeypatch.setattr(ChildProcess, "__init__", noted)
        monkeypatch.setattr(ChildProcess, "ask", asking)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """Note the processes of this test."""
    return Processes(monkeypatch)


def test_one_process_reads_the_documents_of_a_call_and_ends_with_it(processes: Processes) -> None:
    """After an error the next document gets a new one."""
    with Converter() as read:
        for name in ("a.html", "b.html"):
            assert read(name, PAGE).text == "Some words."
        assert len(processes.begun) == 1
        with pytest.raises(ConversionError, match="damaged"):
            read("c.pdf", b"%PDF-1.4")
        assert read("d.html", PAGE).text == "Some words."
        assert len(processes.begun) == 2
    assert processes.ended == processes.begun


def test_small_plain_texts_need_no_process(processes: Processes) -> None:
    """What takes long for its size, or is large, is read by one."""
    texts = {"a.txt": b"x", "a.md": b"# x", "a.csv": b"a,b\n1,2", "a.json": b"[1]", "a.xml": b"<a>x</a>"}
    with Converter() as read:
        for name, data in texts.items():
            assert read(name, data) == convert(name, data)
        with pytest.raises(ConversionError, match="is empty"):
            read("a.pdf", b"")
        assert not processes.begun
        assert read("a.txt", b"many words " * 100_000).text == convert("a.txt", b"many words " * 100_000).text
        assert len(processes.begun) == 1


def test_a_file_that_takes_too_long_is_given_up() -> None:
    """With the limit's name."""
    error = failure("a.pdf", SLOW_PAGES, Limits(document_time_s=1))
    assert error.code == "too_slow" and "document_time_s" in error.message


def test_reading_stops_when_the_run_does() -> None:
    """Before the process starts, and while it reads."""
    assert (
        failure("a.html", PAGE, stopped=lambda: "the run is cancelled").message
        == "'a.html' was not read: the run is cancelled"
    )
    reasons = iter([None, None, "the time budget is used up"])
    error = failure("a.pdf", SLOW_PAGES, stopped=lambda: next(reasons))
    assert (error.code, error.message) == (
        "stopped",
        "'a.pdf' was not read to its end: the time budget is used up",
    )


@pytest.mark.whole
def test_a_file_that_needs_too_much_memory_is_given_up() -> None:
    """Whether Python or a library in C finds none."""
    bomb = hand_made(b"\0" * 150_000_000)
    assert len(bomb) < 500_000
    least = Limits(document_memory_bytes=200_000_000)
    assert failure("a.pdf", bomb, least).code in ("too_large", "broken", "scanned")
    error = failure("a.txt", b"x" * 49_000_000, least)
    assert (error.code, "memory" in error.message) == ("too_large", True)


def test_a_process_that_dies_is_an_error_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a library in C may, on a file that is made for it."""
    monkeypatch.setattr(module, "MODULE", "this")  # prints poetry and ends
    error = failure("a.html", PAGE)
    assert (error.code, "ended the process" in error.message) == ("broken", True)


def test_the_process_sees_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment holds what a Python needs to start, and nothing of the host's."""
    (tmp_path / "spy.py").write_text(
        "import json, os\nprint(json.dumps({'code': 'broken', 'message': ' '.join(os.environ)}))"
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module, "MODULE", "spy")
    seen = set(failure("a.html", PAGE).message.split())
    assert seen <= {*module.KEPT, "PYTHONPATH", "PYTHONHASHSEED", "PYTHONUTF8", "LC_CTYPE"}


# -- within a run ----------------------------------------------------------------------------------------------------

LABEL = "docList:round1_task1_action0_input"
SCRIPT: list[Any] = [
    {"action": "document.extract", "actionObjective": "read", "requiredInputDocuments": [LABEL]},
    {"schema": "parameters_v1", "parameters": {"documentList": [LABEL]}},
    {"decision": "stop", "reason": "all is read"},
    {"status": "success", "improvements": [], "answer": "It is read."},
]


def extracted(folder: Path, limits: Limits) -> tuple[Result, str]:
    """Return the result of a run that extracts a slow document, and what its tool said."""
    with Engine(ScriptedModel(SCRIPT), journal=folder / "a.db", limits=limits) as engine:
        result = engine.run("Extract", documents=[("a.pdf", SLOW_PAGES)])
        told = str(engine.journal.reader.query("SELECT body FROM payloads"))
        assert replay(engine.journal, result.run_id)
        return result, told


def test_a_cancel_reaches_a_document_that_is_read(tmp_path: Path, processes: Processes) -> None:
    """The process ends, the row says why, and the run is cancelled."""

    def cancel() -> None:
        assert processes.asked.acquire(timeout=60)
        with Engine(ScriptedModel([]), journal=tmp_path / "a.db") as other:
            other.cancel(other.journal.runs()[0].run_id)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    result, told = extracted(tmp_path, Limits(document_time_s=20))
    canceller.join(60)
    assert (result.state, result.reason) == ("Failed", "cancelled")
    assert "takes more than" not in told


def test_the_model_is_told_that_a_document_takes_too_long(tmp_path: Path) -> None:
    """In one line, as an error of its call; the run goes on."""
    result, told = extracted(tmp_path, Limits(document_time_s=0.5))
    assert result.state == "Done"
    assert "takes more than 0.5 seconds" in told


def test_a_resumed_run_converts_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is in the journal."""
    data = bytes(paper("The supplier shall deliver.").output())

    class Dying(ScriptedModel):
        def ask(self, call: ModelCall) -> Reply:
            if call.number == 2:  # after the tool
                raise KeyboardInterrupt
            return super().ask(call)

    with Engine(Dying(SCRIPT), journal=tmp_path / "a.db") as engine, suppress(KeyboardInterrupt):
        engine.run("Extract", documents=[("a.pdf", data)])
    monkeypatch.setattr(module, "MODULE", "no.such.module")
    with Engine(ScriptedModel(SCRIPT), journal=tmp_path / "a.db") as engine:
        result = engine.resume(engine.journal.runs()[0].run_id)
        assert (result.state, [item.read() for item in result.documents]) == (
            "Done",
            ["The supplier shall deliver."],
        )


@pytest.mark.parametrize(
    "given", [{"document_time_s": 0}, {"document_memory_bytes": 1}, {"document_time_s": float("inf")}]
)
def test_the_bounds_have_bounds(given: dict[str, float]) -> None:
    """A process needs some memory and time to begin with."""
    with pytest.raises(UsageError):
        Limits(**given)  # type: ignore[arg-type]
