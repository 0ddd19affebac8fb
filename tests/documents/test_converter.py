"""Documents are read by a process of their own: what ends it, what it sees, and that the text is the same."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paor import Engine, Limits, ModelCall, Reply, Result, ScriptedModel, replay
from paor.errors import JournalError, UsageError
from paor.tools.documents.convert import converter as module
from paor.tools.documents.convert.conversion import ConversionError, Converted
from paor.tools.documents.convert.converter import Converter
from paor.tools.documents.convert.registry import convert
from paor.tools.documents.convert.worker import serve

from .test_pdf import hand_made, paper

EXAMPLES = Path(__file__).parents[2] / "examples" / "documents"
PAGE = b"<p>Some <b>words</b>.</p>"
SLOW_MAIL = b'From: a@b.c\nMessage-ID: <1@b>\nContent-Type: text/plain; a="' + b'\\";' * 200_000 + b"\n\nx"
"""Of 0.6 MB; the parser's time grows with the square."""
SLOW_PAGES = hand_made(b"q 1 0 0 1 0 0 cm Q " * 250_000, pages=4000)
"""Pages that share one stream: a small file, and minutes of work."""


def failure(name: str, data: bytes, limits: Limits | None = None, **given: object) -> ConversionError:
    """Return the error that a document gives."""
    with Converter(limits, **given) as read, pytest.raises(ConversionError) as raised:  # type: ignore[arg-type]
        read(name, data)
    assert "\n" not in raised.value.message
    return raised.value


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_the_text_is_the_same_as_without_a_process(name: str) -> None:
    """Titles, pages and notes too."""
    data = (EXAMPLES / name).read_bytes()
    with Converter() as read:
        assert read(name, data) == convert(name, data)


def test_one_process_reads_the_documents_of_a_call_and_ends_with_it() -> None:
    """After an error the next document gets a new one."""
    with Converter() as read:
        assert read("a.html", PAGE).text == "Some words."
        first = read._process
        assert read("b.html", PAGE).text == "Some words."
        assert first is not None and read._process is first
        with pytest.raises(ConversionError, match="damaged"):
            read("c.pdf", b"%PDF-1.4")
        assert read("d.html", PAGE).text == "Some words."
        assert first._process.poll() is not None and read._process is not first
        last = read._process
    assert last is not None and last._process.poll() is not None


def test_small_plain_texts_need_no_process() -> None:
    """What takes long for its size, or is large, is read by one."""
    with Converter() as read:
        for name, data in {
            "a.txt": b"x",
            "a.md": b"# x",
            "a.csv": b"a,b\n1,2",
            "a.json": b"[1]",
            "a.xml": b"<a>x</a>",
        }.items():
            assert read(name, data) == convert(name, data)
        with pytest.raises(ConversionError, match="is empty"):
            read("a.pdf", b"")
        assert read._process is None
        assert read("a.txt", b"many words " * 100_000).text == convert("a.txt", b"many words " * 100_000).text
        assert read._process is not None


@pytest.mark.parametrize(("name", "data"), [("a.eml", SLOW_MAIL), ("a.pdf", SLOW_PAGES)])
def test_a_file_that_takes_too_long_is_given_up(name: str, data: bytes) -> None:
    """With the limit's name."""
    error = failure(name, data, Limits(document_time_s=1))
    assert error.code == "too_slow" and "document_time_s" in error.message


def test_reading_stops_when_the_run_does() -> None:
    """Before the process starts, and while it reads."""
    assert (
        failure("a.html", PAGE, stopped=lambda: "the run is cancelled").message
        == "'a.html' was not read: the run is cancelled"
    )
    reasons = iter([None, None, "the time budget is used up"])
    error = failure("a.eml", SLOW_MAIL, stopped=lambda: next(reasons))
    assert (error.code, error.message) == (
        "stopped",
        "'a.eml' was not read to its end: the time budget is used up",
    )


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
    monkeypatch.setattr(module, "_MODULE", "this")  # prints poetry and ends
    error = failure("a.html", PAGE)
    assert (error.code, "ended the process" in error.message) == ("broken", True)


def test_the_process_sees_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment holds what a Python needs to start, and nothing of the host's."""
    (tmp_path / "spy.py").write_text(
        "import json, os\nprint(json.dumps({'code': 'broken', 'message': ' '.join(os.environ)}))"
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module, "_MODULE", "spy")
    seen = set(failure("a.html", PAGE).message.split())
    assert seen <= {*module._KEPT, "PYTHONPATH", "PYTHONHASHSEED", "PYTHONUTF8", "LC_CTYPE"}


def test_the_worker_answers_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a name that no file system would take; its own bounds are left out here."""
    monkeypatch.setitem(sys.modules, "resource", None)
    asked = b""
    for name, data in (("a\ud800.html", PAGE), ("b.pdf", b"%PDF-1.4")):
        asked += json.dumps({"name": name, "mime": None, "bytes": len(data)}).encode() + b"\n" + data
    answers = io.BytesIO()
    serve(io.BytesIO(asked), answers, 5.0, 10**9)
    first, second = map(json.loads, answers.getvalue().splitlines())
    assert Converted(**first | {"notes": ()}) == convert("a.html", PAGE)
    assert second["code"] == "broken"


ENDINGS = (
    "pdf",
    "docx",
    "xlsx",
    "pptx",
    "odt",
    "ods",
    "odp",
    "epub",
    "rtf",
    "html",
    "eml",
    "txt",
    "csv",
    "json",
    "md",
    "xml",
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ENDINGS), st.binary(max_size=300)), min_size=1, max_size=4))
def test_any_bytes_are_text_or_a_conversion_error(documents: list[tuple[str, bytes]]) -> None:
    """As they are without a process, and in any order."""
    with Converter(Limits(document_time_s=20)) as read:
        for ending, data in documents:
            try:
                expected: Converted | str = convert(f"a.{ending}", data)
            except ConversionError as error:
                expected = str(error)
            try:
                assert read(f"a.{ending}", data) == expected
            except ConversionError as error:
                assert str(error) == expected


# -- within a run ----------------------------------------------------------------------------------------------------

LABEL = "docList:round1_task1_action0_input"
SCRIPT: list[Any] = [
    {"action": "document.extract", "actionObjective": "read", "requiredInputDocuments": [LABEL]},
    {"schema": "parameters_v1", "parameters": {"documentList": [LABEL]}},
    {"decision": "stop", "reason": "all is read"},
    {"status": "success", "improvements": [], "answer": "It is read."},
]


def extracted(
    folder: Path, name: str, data: bytes, limits: Limits, cancel_after_s: float | None = None
) -> tuple[Result, str]:
    """Return the result of a run that extracts a document, and what its tool said."""
    with Engine(ScriptedModel(SCRIPT), journal=folder / "a.db", limits=limits) as engine:

        def cancel() -> None:
            while not engine.journal.runs():
                time.sleep(0.01)
            time.sleep(cancel_after_s or 0)
            with suppress(JournalError):  # closed: the run has ended in another way
                engine.cancel(engine.journal.runs()[0].run_id)

        if cancel_after_s is not None:
            threading.Thread(target=cancel).start()
        result = engine.run("Extract", documents=[(name, data)])
        told = str(engine.journal.reader.query("SELECT body FROM payloads"))
        assert replay(engine.journal, result.run_id)
        return result, told


def test_a_cancel_reaches_a_document_that_is_read(tmp_path: Path) -> None:
    """The process ends, the row says why, and the run is cancelled."""
    result, told = extracted(tmp_path, "a.eml", SLOW_MAIL, Limits(document_time_s=20), cancel_after_s=1.0)
    assert (result.state, result.reason) == ("Failed", "cancelled")
    assert "takes more than" not in told


def test_the_time_budget_reaches_a_document_that_is_read(tmp_path: Path) -> None:
    """So does it when nobody cancels."""
    result, told = extracted(tmp_path, "a.eml", SLOW_MAIL, Limits(document_time_s=20, time_budget_s=1))
    assert (result.state, result.reason) == ("Failed", "time_budget")
    assert "takes more than" not in told


def test_the_model_is_told_that_a_document_takes_too_long(tmp_path: Path) -> None:
    """In one line, as an error of its call; the run goes on."""
    result, told = extracted(tmp_path, "a.eml", SLOW_MAIL, Limits(document_time_s=0.5))
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
    monkeypatch.setattr(module, "_MODULE", "no.such.module")
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
