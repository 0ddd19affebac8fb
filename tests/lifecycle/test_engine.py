"""The engine from outside: what it takes and refuses, what tools and models may do, what a host hears of it."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, field_serializer

from paor import (
    Document,
    Engine,
    Journal,
    Limits,
    ModelCall,
    Reply,
    ScriptedModel,
    Tool,
    ToolContext,
    ToolOutput,
    Usage,
    replay,
    tool,
)
from paor.errors import ModelUnavailable, ScriptExhausted, ToolError, UsageError
from paor.web import WebFact

from ..support.cases import short
from ..support.recording import World, observation, sections
from ..support.worlds import (
    ANSWER,
    CONTINUE,
    READ,
    SELECT,
    STOP,
    SUCCESS,
)

ONE_STEP = [*READ(1), STOP, SUCCESS]
CALL = [SELECT("host.call", {}), STOP, SUCCESS]


def calling(function: Callable[[], Any], **options: Any) -> Tool:
    """Return a tool ``host.call`` around *function*."""
    return Tool(name="host.call", run=function, effect="read", **options)


# -- every row is reached ------------------------------------------------------------------------------------------


# -- what a tool may return ----------------------------------------------------------------------------------------


class Point(BaseModel):
    """A model of a host."""

    x: int
    name: str


@dataclasses.dataclass
class Pair:
    """A dataclass of a host."""

    left: int
    right: Point


class Sour(BaseModel):
    """A model that cannot be written."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    x: object

    @field_serializer("x")
    def spoil(self, value: object) -> object:
        """Raise."""
        raise RuntimeError("no")


RETURNS: dict[str, tuple[Any, list[tuple[str, str, Any]]]] = {
    "text": ("hello", [("result.txt", "text/plain", "hello")]),
    "no text": ("", [("result.txt", "text/plain", "")]),
    "nothing": (None, []),
    "bytes": (b"\0\xff", [("result.bin", "application/octet-stream", b"\0\xff")]),
    "a bytearray": (bytearray(b"ab"), [("result.bin", "application/octet-stream", b"ab")]),
    "a dict": (
        {"b": 1, "a": [True, None]},
        [("result.json", "application/json", {"b": 1, "a": [True, None]})],
    ),
    "an empty list": ([], [("result.json", "application/json", [])]),
    "a number": (7, [("result.json", "application/json", 7)]),
    "a boolean": (False, [("result.json", "application/json", False)]),
    "not a number": ({"a": float("nan")}, [("result.json", "application/json", {"a": None})]),
    "a date": (datetime.date(2026, 3, 1), [("result.json", "application/json", "2026-03-01")]),
    "a length of time": ([datetime.timedelta(hours=1)], [("result.json", "application/json", ["PT1H"])]),
    "a path": ({"file": PurePosixPath("a/b")}, [("result.json", "application/json", {"file": "a/b"})]),
    "a decimal": (
        {"total": Decimal("12.50")},
        [("result.json", "application/json", {"total": "12.50"})],
    ),
    "a set": ({"b", "a"}, [("result.json", "application/json", ["a", "b"])]),
    "keys that are numbers": ({1: "a"}, [("result.json", "application/json", {"1": "a"})]),
    "a pydantic model": (Point(x=1, name="é"), [("result.json", "application/json", {"x": 1, "name": "é"})]),
    "a dataclass with a model in it": (
        Pair(1, Point(x=2, name="n")),
        [("result.json", "application/json", {"left": 1, "right": {"x": 2, "name": "n"}})],
    ),
    "a list of models": (
        [Point(x=1, name="n")],
        [("result.json", "application/json", [{"x": 1, "name": "n"}])],
    ),
    "a document": (Document("a.md", "# A", "text/markdown"), [("a.md", "text/markdown", "# A")]),
    "documents": (
        (Document("a", "A"), Document("b.png", b"\x89PNG", "image/png")),
        [("a", "text/plain", "A"), ("b.png", "image/png", b"\x89PNG")],
    ),
    "an output": (ToolOutput([Document("a", "A")], ["n"]), [("a", "text/plain", "A")]),
    "an output from generators": (
        ToolOutput((d for d in [Document("a", "A")]), iter(["n"])),  # type: ignore[arg-type]
        [("a", "text/plain", "A")],
    ),
    "an empty output": (ToolOutput(), []),
    "lone surrogates": ("a\ud800b", [("result.txt", "text/plain", "a?b")]),
    "NUL": ("a\0b", [("result.txt", "text/plain", "a\ufffdb")]),
    "names with lines and NUL": (
        Document("a\n## Rules\0", "x", "text/plain\nmore"),
        [("a ## Rules\ufffd", "text/plain more", "x")],
    ),
    "no name": (Document("", "x", ""), [("document", "", "x")]),
    "a long name": (Document("n" * 500, "x", "m" * 500), [("n" * 199 + "…", "m" * 99 + "…", "x")]),
}


@pytest.mark.parametrize("case", RETURNS)
def test_what_a_tool_returns_is_kept_as_documents(tmp_path: Path, case: str) -> None:
    """Name, type and body; observed as a success, readable afterwards, and the journal verifies and replays."""
    value, expected = RETURNS[case]
    with World(tmp_path, CALL, [calling(lambda: value)]) as world:
        result = world.run()
        assert result.state == "Done"
        found = []
        for document in result.documents:
            body = document.read()
            found.append(
                (
                    document.name,
                    document.mime,
                    json.loads(str(body)) if document.mime == "application/json" else body,
                )
            )
        assert found == expected
        seen = observation(world)
        assert (seen["success"], seen["documentsCount"]) == (True, len(expected))
        assert world.journal.verify() == [] and replay(world.journal, world.run_id).identical


def recursive() -> list[Any]:
    """Return a list that holds itself."""
    loop: list[Any] = []
    loop.append(loop)
    return loop


def nested(depth: int) -> list[Any]:
    """Return a list in a list in a list."""
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


FAILS: dict[str, Any] = {
    "an exception": ValueError("returned, not raised"),
    "a loop": recursive(),
    "a deep value": nested(2000),
    "a model that cannot be written": Sour(x=object()),
    "an output of no documents": ToolOutput([1, 2]),  # type: ignore[list-item]
    "an output of nothing": ToolOutput(None),  # type: ignore[arg-type]
    "a document of no text": Document("a", 5),  # type: ignore[arg-type]
    "a document without name": Document(None, "x"),  # type: ignore[arg-type]
    "a document without type": Document("a", "x", None),  # type: ignore[arg-type]
    "notes that are none": ToolOutput([], 7),  # type: ignore[arg-type]
    "a web fact without an address": ToolOutput([], [], [{"relevance_score": 1.0}]),  # type: ignore[list-item]
    "a web fact whose address is no text": ToolOutput([], [], [WebFact(url=5)]),  # type: ignore[arg-type]
    "a web fact with other parts": ToolOutput([], [], [{"url": "u", "entities": "x"}]),  # type: ignore[list-item]
    "a web fact that is a number": ToolOutput([], [], [7]),  # type: ignore[list-item]
}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"a": 2**70}, '{"a":1180591620717411303424}'),
        ({"a": "\ud800"}, '{"a":"?"}'),
        ([Sour(x=1)], '[{"x":1}]'),
    ],
    ids=["a number beyond 64 bits", "surrogates in JSON", "a model that cannot write itself"],
)
def test_what_json_can_hold_is_kept_in_the_form_that_it_has(tmp_path: Path, value: Any, kept: str) -> None:
    """Where the usual writer of JSON, or of a model, gives up."""
    with World(tmp_path, CALL, [calling(lambda: value)]) as world:
        assert [document.read() for document in world.run().documents] == [kept]
        assert observation(world)["success"]


@pytest.mark.parametrize("case", FAILS)
def test_what_cannot_be_kept_is_a_tool_error(tmp_path: Path, case: str) -> None:
    """One line for the model; the run goes on and nothing of a host's object gets into an exception."""
    with World(tmp_path, CALL, [calling(lambda: FAILS[case])]) as world:
        result = world.run()
        assert (result.state, result.documents) == ("Done", ())
        seen = observation(world)
        assert not seen["success"] and seen["notes"][0].startswith("tool_error: ")
        assert world.journal.verify() == [] and replay(world.journal, world.run_id).identical


@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.binary()
        | st.dates()
        | st.decimals(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
        max_leaves=8,
    )
    | st.builds(Document, st.text(), st.text() | st.binary(), st.text())
    | st.builds(ToolOutput, st.lists(st.builds(Document, st.text(), st.text())), st.lists(st.text()))
)
def test_nothing_that_a_tool_returns_gets_past(value: Any) -> None:
    """For any value: a result or an error, an observation within its cap, and a sound journal."""
    with Engine(
        ScriptedModel(CALL), [calling(lambda: value)], Journal(":memory:", "off"), builtins=False
    ) as own:
        result = own.run("Call it")
        assert result.state == "Done"
        assert own.journal.verify() == [] and replay(own.journal, result.run_id).identical


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"document_bytes": 10}, True),
        ({"document_bytes": 9}, False),
        ({"result_bytes": 20}, True),
        ({"result_bytes": 19}, False),
    ],
    ids=short,
)
def test_sizes_are_bounded(tmp_path: Path, limits: dict[str, Any], kept: bool) -> None:
    """Of one document and of one call's result, in bytes of UTF-8; what is too large is an error that says so."""
    documents = [Document("a", "é" * 5), Document("b", b"0123456789")]
    with World(tmp_path, CALL, [calling(lambda: documents)], limits=Limits(**limits)) as world:
        assert len(world.run().documents) == (2 if kept else 0)
        if not kept:
            assert "are kept" in observation(world)["notes"][0]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_an_async_tool_raises_is_one_line_of_an_observation(tmp_path: Path, is_async: bool) -> None:
    """Also a cancellation that comes from within the tool."""
    errors = {
        "CancelledError:": asyncio.CancelledError(),
        "SystemExit: 1": SystemExit(1),
        "ToolError": ToolError(),
    }
    for number, (note, error) in enumerate(errors.items()):

        async def fail(error: BaseException = error) -> None:
            raise error

        failing = Tool(name="host.call", run=fail, effect="read")
        with World(tmp_path / str(number), CALL, [failing]) as world:
            result = asyncio.run(world.engine.arun("Call it")) if is_async else world.run()
            assert result.state == "Done"
            assert observation(world)["notes"] == [f"tool_error: {note}"]


def test_an_error_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    """As an error, and again as a note."""

    def fail() -> None:
        raise ToolError("x" * 1_000_000)

    with World(tmp_path, CALL, [calling(fail)]) as world:
        world.run()
        assert len(observation(world)["notes"][0]) == Limits().note_chars


# -- sync and async ------------------------------------------------------------------------------------------------


async def slowly() -> str:
    """Return a text after letting others run."""
    await asyncio.sleep(0)
    return "slowly"


def test_a_context_reaches_sync_and_async_tools(tmp_path: Path) -> None:
    """What the run is about, which action it is, and the model for a text; recorded with the call."""
    seen: list[Any] = []

    @tool("notes.sync", effect="read")
    def one(context: ToolContext) -> str:
        """Ask."""
        seen.append((context.objective, context.success_criteria, context.language, context.action))
        return context.ask("one?")

    @tool("notes.async", effect="read")
    async def other(context: ToolContext) -> str:
        """Ask."""
        seen.append((context.objective, context.success_criteria, context.language, context.action))
        return await context.aask("other?")

    script = [SELECT("notes.sync", {}), "first", CONTINUE, SELECT("notes.async", {}), "second", STOP, SUCCESS]
    for number in range(2):
        with World(tmp_path / str(number), script, [one, other]) as world:
            options: dict[str, Any] = {"success_criteria": ["c"], "language": "de"}
            run = (
                world.engine.run("O", **options) if number else asyncio.run(world.engine.arun("O", **options))
            )
            assert [document.read() for document in run.documents] == ["first", "second"]
            assert [sections(call)["Request"] for call in world.model.of("text")] == ["one?", "other?"]
            rows = [row for row in world.rows if row.trigger == "execute"]
            assert all(len(row.outcome["texts"]) == 1 and row.outcome["tokens_in"] for row in rows)
            assert run.usage.calls == 7
    assert seen == [("O", ("c",), "de", 1), ("O", ("c",), "de", 2)] * 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply("no", finish="refusal"), "declined"),
        (Reply("   "), "wrote nothing"),
        (ModelUnavailable("timeout", "too late"), "too late"),
    ],
    ids=["refusal", "nothing", "unavailable"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_text_that_does_not_come_is_a_tool_error(
    tmp_path: Path, reply: Any, error: str, is_async: bool
) -> None:
    """The tool may catch it; otherwise the call failed, with what was used on record."""

    @tool("notes.sync", effect="read")
    def one(context: ToolContext) -> str:
        """Ask."""
        return context.ask("?")

    @tool("notes.async", effect="read")
    async def other(context: ToolContext) -> str:
        """Ask."""
        return await context.aask("?")

    name = "notes.async" if is_async else "notes.sync"
    stop = STOP if not isinstance(reply, Exception) else None
    script = [SELECT(name, {}), reply, *([stop, SUCCESS] if stop else [])]
    with World(tmp_path, script, [one, other]) as world:
        result = world.run()
        execute = next(row for row in world.rows if row.trigger == "execute")
        assert execute.outcome["error"] == "tool_error"
        assert (
            error
            in json.loads(str(world.journal.payload(execute.run, execute.change["n"]).body))["result"][
                "error"
            ]
        )
        assert result.status in ("done", "failed")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(Limits(token_budget=50), "token_budget"), (Limits(cost_budget=0.000050), "cost_budget")],
    ids=["tokens", "cost"],
)
def test_a_tools_requests_stop_at_a_budget(tmp_path: Path, limits: Limits, reason: str) -> None:
    """A tool that asks in a loop is bounded like everything else."""
    texts: list[str] = []

    @tool("notes.greedy", effect="read")
    def greedy(context: ToolContext) -> str:
        """Ask on and on."""
        while len(texts) < 50:
            texts.append(context.ask("more?"))
        return "stopped by itself"

    usage = Usage(1, 10, 0, 10)
    replies = [Reply(json.dumps(SELECT("notes.greedy", {})), usage), *[Reply("x", usage)] * 99]
    with World(tmp_path, replies, [greedy], limits=limits) as world:
        result = world.run()
        assert (result.reason, len(texts), result.usage.tokens_in) == (reason, 4, 50)


# -- models --------------------------------------------------------------------------------------------------------


class HostModel:
    """A model of a host that answers with whatever it was given."""

    name = "host"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def ask(self, call: ModelCall) -> Reply:
        """Answer or raise."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ModelUnavailable("timeout", "too late"), "timeout"),
        (ModelUnavailable("a new code", "strange"), "unexpected"),
        (ModelUnavailable("timeout", "late", Usage(2, 10, 0)), "timeout"),
        (RuntimeError("broken"), "unexpected"),
        (RuntimeError("\ud800"), "unexpected"),
        (None, "unexpected"),
        (7, "unexpected"),
        (Reply(None), "unexpected"),  # type: ignore[arg-type]
        (Reply(b"{}"), "unexpected"),  # type: ignore[arg-type]
        ({"not": "a reply"}, "unexpected"),
        (Reply("x", finish="\ud800"), "unexpected"),  # type: ignore[arg-type]
        (Reply("x", finish="free text of a model"), "unexpected"),  # type: ignore[arg-type]
        (Reply("x", Usage(1, True, 0)), "unexpected"),
        (Reply("x", Usage(1, -5, 0)), "unexpected"),
        (Reply("x", Usage(1, 1.5, 0)), "unexpected"),  # type: ignore[arg-type]
        (Reply("x", Usage(1, 2**60, 0)), "unexpected"),
    ],
    ids=short,
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_model_that_fails_or_answers_nonsense_fails_the_run(
    tmp_path: Path, answer: Any, code: str, is_async: bool
) -> None:
    """Failed(model_error) with a code from the closed list, the message kept as a payload, never an exception."""
    with World(tmp_path, []) as world:
        model = HostModel(answer)
        result = asyncio.run(world.engine.arun("Read", model=model)) if is_async else world.run(model=model)
        assert (result.state, result.reason) == ("Failed", "model_error")
        assert result.answer
        assert world.rows[-1].outcome["code"] == code
        assert world.journal.verify() == [] and replay(world.journal, world.run_id).identical


def test_plain_text_is_a_reply_too(tmp_path: Path) -> None:
    """A host's model may return a str; its usage is estimated."""
    with World(tmp_path, []) as world:
        result = world.run(model=HostModel(json.dumps(ANSWER("known"))))
        assert (result.state, result.answer) == ("Done", "known")
        assert result.usage.tokens_in > 100 and result.usage.calls == 1


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
def test_a_refusal_is_an_invalid_reply_that_is_named(tmp_path: Path, finish: Any) -> None:
    """Asked again once; what the model said is kept."""
    refusal = Reply("I cannot do that.", finish=finish)
    with World(tmp_path, [refusal, *ONE_STEP]) as world:
        assert world.run().state == "Done"
        assert world.rows[0].outcome["invalid"] == finish
        assert (
            sections(world.model.of("selection")[1])["Your last reply could not be used"]
            == "the model declined to answer"
        )


def test_a_usable_reply_counts_however_it_finished(tmp_path: Path) -> None:
    """A provider's label does not make a good object bad."""
    with World(tmp_path, [Reply(json.dumps(SELECT()), finish="length"), *ONE_STEP[1:]]) as world:
        assert world.run().state == "Done"


def test_a_script_that_is_used_up_fails_the_run_and_names_the_request(tmp_path: Path) -> None:
    """And unused replies can be asserted."""
    with World(tmp_path, READ(1)) as world:
        world.run()
        message = world.journal.payload(world.rows[-1].run, world.rows[-1].outcome["message"]["n"]).body
        assert message == "the script has 2 replies and was asked for reply 3 (refinement)"
        world.model.assert_all_used()
    script = ScriptedModel([ANSWER(), "more"])
    with World(tmp_path / "b", []) as world:
        world.run(model=script)
    with pytest.raises(ScriptExhausted, match="reply 2 of 2"):
        script.assert_all_used()


def test_a_script_can_start_over(tmp_path: Path) -> None:
    """`cycle` for long runs from few replies."""
    with World(tmp_path, []) as world:
        model = ScriptedModel([*READ(1), CONTINUE, *READ(2), CONTINUE], cycle=True)
        result = world.run(
            model=model, limits=Limits(max_steps=9, max_blocked_calls=99, window_freq_limit=99)
        )
        assert result.steps == 9


@pytest.mark.parametrize(
    "replies",
    ["text", {"a": 1}, [7], [{"a": object()}], [None]],
    ids=["text", "mapping", "number", "no JSON", "nothing"],
)
def test_a_script_that_is_none_is_refused(replies: Any) -> None:
    """At construction, naming the position."""
    with pytest.raises(UsageError):
        ScriptedModel(replies)


# -- arguments -----------------------------------------------------------------------------------------------------


def test_all_bad_documents_are_named_at_once(tmp_path: Path) -> None:
    """So that a caller corrects them in one go."""
    with World(tmp_path, ONE_STEP) as world:
        with pytest.raises(UsageError, match=r"/nowhere/a\.txt.*; /nowhere/b\.txt"):
            world.run(documents=["/nowhere/a.txt", "/nowhere/b.txt"])
        with pytest.raises(UsageError, match="directory"):
            world.run(documents=[tmp_path])
        with pytest.raises(UsageError, match="at most 3"):
            world.run(documents=[("a", "1234")], limits=Limits(document_bytes=3))


def test_a_hosts_tool_replaces_the_builtin_one_of_its_name(tmp_path: Path) -> None:
    """In any spelling; the others stay."""
    own = Tool(name="ai_x.process", run=lambda: "own", effect="read")
    mine = Tool(name="ai.process", run=lambda: "mine", effect="read")
    with World(tmp_path, [SELECT("ai.process", {}), STOP, SUCCESS], [own, mine], builtins=True) as world:
        assert world.run().documents[0].read() == "mine"


def test_only_the_tools_of_a_run_are_offered_and_executable(tmp_path: Path) -> None:
    """A tool that the engine has but the run was not given is an unknown action."""
    with World(tmp_path, [SELECT("notes.send", {}), "?"]) as world:
        assert world.run(tools=["notes_read"]).reason == "selection_invalid"
        feedback = sections(world.model.of("selection")[1])["Your last reply could not be used"]
        assert feedback == "there is no action 'notes.send'; choose one of: notes.read"


def test_texts_of_a_caller_are_cleaned_not_refused(tmp_path: Path) -> None:
    """Lone surrogates and NUL, as they come from file names and terminals."""
    with World(tmp_path, ONE_STEP) as world:
        result = world.run(
            "Read \ud800\0", ["c\udfff"], context="x\ud800", documents=[("n\ud800\n", "b\ud800")]
        )
        assert result.state == "Done"
        assert result.criteria[0].criterion == "c?"
        assert world.journal.verify() == [] and replay(world.journal, world.run_id).identical


def test_documents_of_a_caller_are_read_and_referred_to(tmp_path: Path) -> None:
    """Paths, documents and pairs; text and bytes; each under one label, in order."""
    path = tmp_path / "contract.txt"
    path.write_bytes(b"from a file")
    got: list[Any] = []

    @tool("notes.take", effect="read")
    def take(context: ToolContext, documentList: list[str]) -> str:
        """Take."""
        got.extend(
            (item.name, item.data, item.label, item.position) for item in context.documents(documentList)
        )
        return "taken"

    label = "round1_task1_action0_input"
    references = [f"docList:{label}", f"docItem:{label}#1"]
    with World(
        tmp_path, [SELECT("notes.take", {}, requiredInputDocuments=references), STOP, SUCCESS], [take]
    ) as world:
        world.run(documents=[path, ("b.bin", b"\0"), Document("c.md", "# C", "text/markdown")])
    assert got == [
        ("contract.txt", b"from a file", label, 0),
        ("b.bin", b"\0", label, 1),
        ("c.md", "# C", label, 2),
    ]


@pytest.mark.parametrize(
    "reference",
    [
        "docItem:round1_task1_action0_input#7",
        "docItem:round1_task1_action0_input#x",
        "docList:elsewhere",
        "x",
        "",
    ],
)
def test_a_tool_cannot_reach_beyond_a_label(tmp_path: Path, reference: str) -> None:
    """References that a tool makes up itself are checked as well: an error, not somebody else's document."""

    @tool("notes.take", effect="read")
    def take(context: ToolContext) -> list[Any]:
        """Take."""
        return [item.name for item in context.documents([reference])]

    with World(tmp_path, [SELECT("notes.take", {}), STOP, SUCCESS], [take]) as world:
        world.run(documents=[("a", "A"), ("b", "B")])
        seen = observation(world)
        assert not seen["success"] and "names no document of this run" in seen["notes"][0]


def test_a_result_is_json(tmp_path: Path) -> None:
    """Its wire form has its attributes as keys and nothing that JSON does not know."""
    with World(tmp_path, ONE_STEP) as world:
        result = world.run("Read", ["c"])
        data = json.loads(json.dumps(result.wire()))
        assert list(data) == [
            *("run_id", "state", "status", "reason", "answer", "output", "documents", "steps"),
            *("usage", "criteria"),
            *("waiting_for", "key", "metadata", "variables", "objective", "conversation"),
        ]
        assert data["criteria"] == [{"criterion": "c", "met": False}]
        assert data["documents"][0]["label"] == "round1_task1_action1_page"
        assert result.documents[0].reference == "docItem:round1_task1_action1_page#0"
