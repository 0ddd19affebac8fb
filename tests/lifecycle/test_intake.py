"""What a host hands in wrongly: refused before anything is started, in one line of paor's own errors."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from paor import Document, Engine, Journal, ScriptedModel, Tool, diagram, diff, replay, tool, why
from paor.errors import JournalError, MissingExtra, ModelUnavailable, UnknownRun, UsageError

from ..project.test_dependencies import imported
from ..support.cases import short
from ..support.inside import registry
from ..support.worlds import STOP, SUCCESS

ANSWERED = [{"action": None, "answer": "8 o'clock"}, SUCCESS]
CALLED = [{"action": "a.b", "actionObjective": "x", "parametersSchema": {"fields": []}}, STOP, SUCCESS]


class Named(ScriptedModel):
    """A model of a host's own with some name."""

    def __init__(self, name: Any) -> None:
        super().__init__(ANSWERED)
        self.name = name


def made(**options: Any) -> Engine:
    """Return an engine in memory."""
    usual: dict[str, Any] = {"model": ScriptedModel(ANSWERED), "journal": Journal(":memory:", "off")}
    return Engine(**(usual | options))


def one_line(error: pytest.ExceptionInfo[UsageError], words: str) -> None:
    """Assert that an error is short, says *words* and was made for people."""
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": None}, "tools must be a list of tools"),
        ({"tools": Tool(name="a.b", run=print)}, "tools must be a list of tools"),
        ({"hooks": print}, "hooks must be a list of functions"),
        ({"hooks": ["x"]}, "hooks must be a list of functions"),
        ({"hooks": [asyncio.sleep]}, "functions, not async"),
        ({"prompts": ["x"]}, "prompts must be a mapping"),
        (
            {"prompts": {"review": "{{KEY:ANSWR}}"}},
            "prompt review: nothing is ever put in place of 'ANSWR'; there are: CATALOG",
        ),
        ({"prompts": {"review": "{{KEY:objective}}"}}, "nothing is ever put in place of 'objective'"),
        ({"journal": 5}, "a journal is named by its path, not by 5"),
        ({"model": Named(None)}, "a model's name is 1 to 200 printable ASCII characters"),
        ({"model": Named("a\nb")}, "a model's name is"),
        ({"model": Named("")}, "a model's name is"),
        ({"model": 7}, "int is not a model"),
        ({"model": "hal:9000"}, "unknown model 'hal:9000'"),
        ({"tools": [Tool(name=name, run=print) for name in ("a_b.c", "a.b.c")]}, "two tools named a.b.c"),
        ({"tools": [print]}, "is not a tool"),
        ({"tools": [Tool(name="a.b")]}, "tool a.b: run= is missing"),
        ({"tools": [Tool(name="a.b", run=print, parameters={"type": "array"})]}, 'expected "object"'),
        ({"prompts": {"salutation": "Dear model"}}, "unknown prompt 'salutation'"),
        ({"prompts": {"review": ""}}, "review: the template is empty"),
        ({"prompts": {"review": 7}}, "prompt review: expected text"),
    ],
    ids=short,
)
def test_an_engine_refuses_what_it_cannot_use(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        made(**options)
    one_line(error, words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": ""}, "the objective must be a non-empty text"),
        ({"objective": " \n"}, "the objective must be a non-empty text"),
        ({"objective": 7}, "the objective must be a non-empty text"),
        ({"mode": "chat"}, "mode 'chat' is unknown"),
        ({"transcript": [{"content": "x"}]}, "transcript must be a list"),
        ({"success_criteria": None}, "success_criteria must be a list"),
        ({"success_criteria": "names the day"}, "success_criteria must be a list"),
        ({"success_criteria": [""]}, "success_criteria must be a list"),
        ({"success_criteria": [" "]}, "success_criteria must be a list"),
        ({"success_criteria": [1]}, "success_criteria must be a list"),
        ({"success_criteria": 5}, "success_criteria must be a list"),
        ({"success_criteria": {"a": 1}}, "success_criteria must be a list"),
        ({"documents": None}, "documents must be a list"),
        ({"documents": {"a.txt": "x"}}, "documents must be a list"),
        ({"documents": "a.txt"}, "documents must be a list"),
        ({"documents": ["/nowhere/a.txt"]}, "/nowhere/a.txt: there is no such file"),
        ({"documents": [("a.txt", "")]}, "a.txt: the document is empty"),
        ({"documents": [None]}, "a document is a path, a Document or (name, content)"),
        ({"documents": [("a.txt", 5)]}, "a.txt: a document's content is text or bytes, not int"),
        ({"documents": [Document(None, "x")]}, "a document's name and mime are texts"),  # type: ignore[arg-type]
        ({"documents": [Document("a", "x", None)]}, "a document's name and mime are texts"),  # type: ignore[arg-type]
        ({"tools": [5]}, "tools of a run must be a list of names"),
        ({"tools": 5}, "tools of a run must be a list of names"),
        ({"tools": "a.b"}, "tools of a run must be a list of names"),
        ({"connections": {5: 1}}, "labels of connections must be printable texts"),
        ({"connections": {"a\nb": 1}}, "labels of connections must be printable texts"),
        ({"connections": {"\ud800": 1}}, "labels of connections must be printable texts"),
        (
            {"prompt_template": "{{KEY:CATALOGUE}}"},
            "prompt selection: nothing is ever put in place of 'CATALOGUE'",
        ),
        ({"prompt_template": " "}, "the template is empty"),
        ({"final_format": 5}, "final_format 5: use one of"),
        ({"final_format": "pdf"}, "final_format 'pdf': use one of"),
        ({"tools": ["notes.shred"]}, "unknown tool 'notes.shred'"),
        ({"model": Named(5)}, "a model's name is"),
        ({"model": "gpt"}, "unknown model 'gpt'"),
        ({"model": object()}, "object is not a model"),
    ],
    ids=short,
)
def test_a_run_refuses_what_it_cannot_use(options: dict[str, Any], words: str) -> None:
    """Sync and async alike, and nothing is in the journal."""
    with made() as engine:
        for start in (engine.run, lambda *given, **more: asyncio.run(engine.arun(*given, **more))):
            with pytest.raises(UsageError) as error:
                start(**({"objective": "When do you open?"} | options))
            one_line(error, words)
        with pytest.raises(TypeError):
            engine.run("When do you open?", temperature=1)  # type: ignore[call-arg]
        assert engine.journal.runs() == []


@pytest.mark.parametrize(
    "ask", [Engine.resume, Engine.cancel, lambda engine, name: replay(engine.journal, name)]
)
def test_a_run_that_is_named_by_no_text_is_unknown(ask: Callable[..., object]) -> None:
    with made() as engine:
        for name in (None, 5, b"x"):
            with pytest.raises(UnknownRun, match="named by its id as a text"):
                ask(engine, name)


@pytest.mark.parametrize("ask", [replay, why, partial(diff, right="y"), diagram])
def test_what_reads_a_journal_takes_nothing_else(tmp_path: Path, ask: Callable[..., object]) -> None:
    for given in (str(tmp_path), None):
        with pytest.raises(UsageError, match=r"^\w+ takes a Journal"):
            ask(given, "x")


@pytest.mark.parametrize("ask", [replay, why, lambda journal, run: diff(journal, run, run, journal), diagram])
def test_a_snapshot_is_read_as_its_journal(ask: Callable[..., object]) -> None:
    with made() as engine:
        run_id = engine.run("Say hello").run_id
        with engine.journal.snapshot() as still:
            assert ask(still, run_id) == ask(engine.journal, run_id)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Journal(":memory:", lease_s=0), "lease_s: expected seconds from 0.001 to a year, not 0"),
        (lambda: Journal(":memory:", lease_s=float("nan")), "lease_s: expected seconds"),
        (lambda: Journal(":memory:", busy_timeout_s=-1), "busy_timeout_s: expected seconds from 0"),
        (lambda: Journal(":memory:", busy_timeout_s="x"), "busy_timeout_s: expected seconds"),  # type: ignore[arg-type]
        (lambda: Journal("a\0b"), "is not a file name"),
        (lambda: ScriptedModel(None), "takes a list of replies"),  # type: ignore[arg-type]
        (lambda: Tool(name=5), "tool name 5: expected method.name"),  # type: ignore[arg-type]
        (lambda: Tool(name="a.b", description=5), "description must be a text"),  # type: ignore[arg-type]
        (lambda: Tool(name="a.b", label=5), "label 5 may hold"),  # type: ignore[arg-type]
        (lambda: Tool(name="a.b", reconcile=5), "reconcile must be a function"),  # type: ignore[arg-type]
        (lambda: Tool(name="a.b", repeat_allowed="no"), "repeat_allowed must be True or False"),  # type: ignore[arg-type]
        (lambda: tool(made), '@tool needs a name, such as @tool("orders.lookup")'),  # type: ignore[arg-type]
    ],
)
def test_parts_refuse_what_they_cannot_use(make: Callable[[], object], words: str) -> None:
    """A lease that has run out at once would let two drivers into one run."""
    with pytest.raises(UsageError) as error:
        make()
    one_line(error, words)


def test_a_description_that_is_no_utf8_is_mended() -> None:
    with made(tools=[Tool(name="a.b", description="\ud800", run=print)]) as engine:
        assert engine.run("When do you open?").state == "Done"


def test_criteria_may_come_from_an_iterator() -> None:
    """They were checked and then gone, and the run went on without them."""
    with made() as engine:
        result = engine.run("When do you open?", (text for text in ["names a time"]))  # type: ignore[arg-type]
        assert [item.criterion for item in result.criteria] == ["names a time"]


def test_documents_are_given_as_the_third_argument() -> None:
    """By position, as a pair of name and content."""
    with made() as engine:
        result = engine.run("When do you open?", [], [("hours.txt", "We open at 8.")])
        assert [document.name for document in engine.journal.documents(result.run_id)] == ["hours.txt"]


def test_a_models_fault_without_words_is_recorded() -> None:
    with made(model=ScriptedModel([ModelUnavailable("timeout", None)])) as engine:  # type: ignore[arg-type]
        result = engine.run("When do you open?")
        assert (result.state, result.reason) == ("Failed", "model_error")


def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    with made(
        tools=[Tool(name="a.b", run=dict)], model=ScriptedModel(CALLED), journal=tmp_path / "a.db"
    ) as engine:
        result = engine.run("Call it")
    with pytest.raises(JournalError, match=r"a\.db: the journal has been closed; open it again"):
        result.documents[0].read()


def test_a_result_goes_to_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its documents, which are read from the file there; wherever that process works."""
    monkeypatch.chdir(tmp_path)
    with made(tools=[Tool(name="a.b", run=dict)], model=ScriptedModel(CALLED), journal="a.db") as engine:
        result = engine.run("Call it")
        copied = copy.deepcopy(result)  # takes the same way as pickle
    monkeypatch.chdir("/")
    assert copied == result
    assert copied.documents[0].read() == "{}"


# -- what tools return and are ---------------------------------------------------------------------------------------


def called(function: Any, effect: Any = "once") -> tuple[bool, str]:
    """Return whether a call of *function* within a run was ok, and what it returned or was told."""
    with made(model=ScriptedModel(CALLED), tools=[Tool(name="a.b", run=function, effect=effect)]) as engine:
        result = engine.run("Call it")
        row = next(row for row in engine.journal.transitions(result.run_id) if row.trigger == "execute")
        number = engine.journal.run(result.run_id).run
        told = engine.journal.payload(number, row.change["n"]).body
        body = result.documents[0].read() if result.documents else told
        assert isinstance(body, str)
        return bool(row.outcome["ok"]), body


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"a": [object()]}, "object"),
        ({"a": print}, "builtin_function_or_method"),
        (iter([1]), "list_iterator"),
    ],
    ids=["object", "function", "iterator"],
)
def test_what_has_no_json_form_is_named(value: object, name: str) -> None:
    """The one value within the result, and that the call was made all the same: of one that happens once the rest is kept."""
    ok, told = called(lambda: value, "read")
    assert not ok
    assert f"the tool ran and returned a {name}, which has no JSON form" in told
    ok, told = called(lambda: value)
    assert ok and f"<{name}>" in told


def test_an_object_with_an_async_call_is_awaited() -> None:
    class Client:
        async def __call__(self) -> str:
            await asyncio.sleep(0)
            return "awaited"

    assert Tool(name="a.b", run=Client()).is_async
    assert called(Client()) == (True, "awaited")


# -- documents whose library is not installed ------------------------------------------------------------------------

LIBRARY_NEEDED: dict[str, tuple[str | bytes, str]] = {
    "a.pdf": (b"%PDF-1.4", "pypdfium2"),
    "renamed.txt": (b"%PDF-1.4", "pypdfium2"),
    "a.html": ("<p>A page.", "bs4, markdownify"),
    "a.docx": (b"PK\x03\x04", "lxml"),
    "a.xlsx": (b"PK\x03\x04", "openpyxl"),
    "a.pptx": (b"PK\x03\x04", "pptx"),
    "a.epub": (b"PK\x03\x04", "bs4, markdownify"),
    "a.rtf": (b"{\\rtf1 x}", "striprtf"),
}
NO_LIBRARY_NEEDED: dict[str, str | bytes] = {
    "a.txt": b"A text.",
    "a.md": "# A text",
    "a.csv": b"a,b\n1,2\n",
    "a.json": b"{}",
    "a.xml": b"<a>1</a>",
    "a.odt": b"PK\x03\x04",
    "a.eml": b"From: a@example.org\nSubject: x\n\nA text.\n",
    "page.txt": "<html>is a text here</html>",
}


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a Python of this one in which no library of the extra ``documents`` is found."""
    found, hidden = (
        importlib.util.find_spec,
        {name for names in registry.LIBRARIES.values() for name in names},
    )
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name in hidden else found(name, *more)
    )


@pytest.mark.parametrize("name", LIBRARY_NEEDED)
def test_a_document_that_nothing_here_can_read_starts_no_run(name: str, without_extra: None) -> None:
    """By its content; one line names the document, the library and what to install, and the journal stays empty."""
    data, needed = LIBRARY_NEEDED[name]
    with made() as engine:
        for start in (
            engine.run,
            lambda *given, **more: next(iter(engine.stream(*given, **more, on_close="stop"))),
        ):
            with pytest.raises(MissingExtra) as error:
                start("x", documents=[("a.txt", "A text."), (name, data)])
            told = f"'{name}' cannot be read without {needed}: pip install \"paor[documents]\""
            assert str(error.value) == told
        assert engine.journal.runs() == []


@pytest.mark.parametrize("name", NO_LIBRARY_NEEDED)
def test_a_document_that_needs_no_library_is_taken(name: str, without_extra: None) -> None:
    """Whatever is installed."""
    with made() as engine:
        assert engine.run("x", documents=[(name, NO_LIBRARY_NEEDED[name])]).state == "Done"


def test_a_host_that_reads_its_documents_itself_needs_no_library(without_extra: None) -> None:
    """None of the built-in tools is offered in its runs, or in this one."""

    @tool("own.read", effect="read")
    def read() -> str:
        """Read."""
        return "read"

    given: Any = {"documents": [("a.pdf", b"%PDF-1.4")]}
    with made(tools=[read], builtins=False) as engine:
        assert engine.run("x", **given).state == "Done"
    with made(tools=[read]) as engine:
        assert engine.run("x", tools=["own.read"], **given).state == "Done"
        with pytest.raises(MissingExtra, match="pypdfium2"):
            engine.run("x", **given)


def test_the_table_of_libraries_has_what_the_readers_import() -> None:
    """All of it, and nothing else."""
    folder = Path(registry.__file__).parent
    used = {
        module.partition(".")[0]
        for path in folder.glob("*.py")
        for module, first in imported(path)
        if not first and module.partition(".")[0] not in sys.stdlib_module_names
    }
    guesses = {"chardet"}  # of encodings; a text is read without it, with a poorer guess that is noted
    assert used == guesses | {name for names in registry.LIBRARIES.values() for name in names}
