"""Two-stage prompting, read off the prompts and replies that the journal file holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from paor import Document, Limits, Tool, ToolContext, ToolOutput, tool
from paor.errors import ToolError
from paor.events import StepCompleted
from paor.tools.schema.parameters import ParameterSchema

from ..support.planning import World, check
from ..support.recording import observation
from ..support.stored import parts, prompts, query, triggers
from ..support.worlds import CONTINUE, PARAMETERS, READ, REFINE, SELECT, STOP, SUCCESS, read

ONE_STEP = [*READ(1), STOP, SUCCESS]
FORBIDDEN = ["documentList", "connectionReference", "history", "documents", "connections"]
SECTIONS = ["Action objective", "Selected action", "Parameters context", "Parameters schema", "Reply"]


def taking(got: list[dict[str, Any]]) -> Tool:
    """Return a tool that takes documents, a connection and a business parameter."""

    @tool("notes.take", effect="read", label="taken")
    def take(
        context: ToolContext, documentList: list[str], title: str, connectionReference: str | None = None
    ) -> str:
        """Take."""
        texts = [str(document.data) for document in context.documents(documentList)]
        got.append(
            {"references": documentList, "texts": texts, "title": title, "connection": context.connection}
        )
        return f"{title}: {' '.join(texts)}"

    return take


def replies(file: Path, kind: str) -> list[Any]:
    """Return every stored reply to a kind of request."""
    statement = (
        "SELECT run, outcome ->> '$.reply.n' FROM transitions WHERE request ->> '$.kind' = ? ORDER BY seq"
    )
    body = "SELECT body FROM payloads WHERE run = ? AND n = ?"
    return [json.loads(query(file, body, *place)[0][0]) for place in query(file, statement, kind)]


FULL = {
    "action": "notes.take",
    "actionObjective": "take both inputs",
    "learnings": ["the inputs are short", "the second is newer"],
    "requiredInputDocuments": ["docItem:round1_task1_action0_input#1", "docList:round1_task1_action0_input"],
    "requiredConnection": "mail",
    "parametersContext": "Title it as the objective says.\nUse no quotes.",
    "parametersSchema": {
        "fields": [{"name": "title", "type": "string", "required": True, "description": "the title"}]
    },
}
INPUTS = [("a.txt", "Alpha"), ("b.txt", "Beta")]


def taken(
    folder: Path, got: list[dict[str, Any]], stage_1: Any = None, *stage_2: Any, **options: Any
) -> World:
    """Run Stage 1's *stage_1* and the replies *stage_2* to an end; return the world, closed."""
    values = stage_2 or (PARAMETERS(title="T"),)
    script = [FULL if stage_1 is None else stage_1, *values, STOP, SUCCESS]
    profile = options.pop("profile", None)
    with World(folder, script, [taking(got), read], **options) as world:
        connections = {"mail": "the box", "fax": "the line"}
        world.run("Title: T", documents=INPUTS, connections=connections, profile=profile)
    return world


def test_A095_A105_A107_A111_A126_stage_1s_whole_object_reaches_tool_journal_and_history(
    tmp_path: Path,
) -> None:
    """References in their order and each document once, the connection's value, learnings in later history."""
    got: list[dict[str, Any]] = []
    world = taken(tmp_path, got)
    assert got == [
        {
            "references": FULL["requiredInputDocuments"],
            "texts": ["Beta", "Alpha"],
            "title": "T",
            "connection": "the box",
        }
    ]
    assert replies(world.path, "selection") == [FULL] and "parameters" not in FULL
    told = prompts(world.path, "review")[0]["user"]
    assert '{"learnings":["the inputs are short","the second is newer"],"action":"notes.take"' in told
    strict = taken(tmp_path / "strict", [], profile="strict")
    history = parts(prompts(strict.path, "review")[0])["Results, newest first"]
    assert "Learnings: the inputs are short; the second is newer" in history
    assert b"the box" not in world.path.read_bytes(), "a connection's value is never in the file"


def test_A097_A112_A120_A121_A127_D8_stage_2_holds_four_sections_of_stage_1_and_nothing_else(
    tmp_path: Path,
) -> None:
    """The stored prompt in one snapshot: objective with the user's words, action, context word for word, schema, form."""
    world = taken(tmp_path, [])
    (prompt,) = prompts(world.path, "parameters")
    found = parts(prompt)
    assert list(found) == SECTIONS
    assert list(found.values()) == [
        "The user asked: Title: T\ntake both inputs",
        "notes.take",
        FULL["parametersContext"],
        "- title (text; required): the title",
        '{"schema": "parameters_v1", "parameters": {"NAME": "value"}}',
    ]
    told = prompt["user"]
    for other in (
        "Alpha",
        "Beta",
        "a.txt",
        "round1_task1",
        "mail",
        "inputs are short",
        "notes.read",
    ):
        assert other not in told


def test_A110_A112_A113_A121_strict_is_document_003_to_the_letter(tmp_path: Path) -> None:
    """Stage 2 holds four sections of Stage 1 and nothing else, also behind a result that Stage 1 refers to; the schema is Stage 1's."""
    got: list[str] = []

    @tool("orders.find", effect="read", label="order")
    def find(order_id: str, limit: int = 9) -> str:
        """Find an order."""
        got.append(f"{order_id} {limit}")
        return f"{order_id} is in Leeds"

    fields = [{"name": "order_id", "type": "string", "required": True, "description": "which one"}]
    chosen: dict[str, Any] = FULL | {
        "action": "orders.find",
        "requiredInputDocuments": [],
        "requiredConnection": None,
        "parametersSchema": {"fields": fields},
    }
    again = chosen | {"requiredInputDocuments": ["docList:round1_task1_action1_order"]}
    go_on = {"decision": "continue", "reason": "more"}
    script = [chosen, PARAMETERS(order_id="O-1"), go_on, again, PARAMETERS(order_id="O-2", limit=7)]
    script += [PARAMETERS(order_id="O-2"), STOP, SUCCESS]
    with World(tmp_path, script, [find]) as world:
        assert world.run("Where are they?", profile="strict").state == "Done"
        check(world)
        last = world.model.of("parameters")[-1]
    assert got == ["O-1 9", "O-2 9"], (
        "what Stage 1 has not listed is asked again, and the function's own default holds"
    )
    prompt = prompts(world.path, "parameters")[1]
    assert parts(prompt) == {
        "Action objective": FULL["actionObjective"],
        "Selected action": "orders.find",
        "Parameters context": FULL["parametersContext"],
        "Parameters schema": "- order_id (string; required): which one",
        "Reply": '{"schema": "parameters_v1", "parameters": {"NAME": "value"}}',
    }
    assert last.schema is not None and list(last.schema["properties"]["parameters"]["properties"]) == [
        "order_id"
    ]


@pytest.mark.parametrize("key", sorted(FULL))
def test_A106_A113_strict_asks_again_for_a_key_of_stage_1_that_is_missing(tmp_path: Path, key: str) -> None:
    """Each of those that document 003 prints."""
    lacking = {name: value for name, value in FULL.items() if name != key}
    world = taken(tmp_path, [], lacking, FULL, PARAMETERS(title="T"), profile="strict")
    assert triggers(world.path)[:2] == ["reselect", "select"]
    assert key in parts(prompts(world.path, "selection")[1])["Your last reply could not be used"]


@pytest.mark.parametrize("key", ["name", "type", "required", "description"])
def test_A110_strict_asks_again_for_a_key_of_a_field_that_is_missing(tmp_path: Path, key: str) -> None:
    """As document 003 prints them."""
    schema: Any = FULL["parametersSchema"]
    (field,) = schema["fields"]
    lacking = FULL | {"parametersSchema": {"fields": [{k: v for k, v in field.items() if k != key}]}}
    world = taken(tmp_path, [], lacking, FULL, PARAMETERS(title="T"), profile="strict")
    assert triggers(world.path)[:2] == ["reselect", "select"]


@pytest.mark.parametrize("listed", [[], ["title", "colour"]], ids=str)
def test_A110_strict_asks_again_for_fields_that_are_not_those_of_the_tool(
    tmp_path: Path, listed: list[str]
) -> None:
    """Stage 2 fills what is listed and nothing else: a required parameter must be listed, an unknown one cannot be."""
    fields = [{"name": name, "type": "string", "required": True, "description": "it"} for name in listed]
    wrong = FULL | {"parametersSchema": {"fields": fields}}
    world = taken(tmp_path, [], wrong, FULL, PARAMETERS(title="T"), profile="strict")
    assert triggers(world.path)[:2] == ["reselect", "select"]


@pytest.mark.parametrize("name", ["order_id", "$filter", "max-results", "größe", "x" * 200])
def test_A110_every_name_that_a_tool_can_have_can_be_listed(tmp_path: Path, name: str) -> None:
    """In the schema that a server holds Stage 1 to, and by the reader."""
    got: list[Any] = []
    parameters = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}

    def seen(**values: Any) -> str:
        got.append(values)
        return "seen"

    look = Tool("notes.look", "Look.", parameters, seen, "read")
    fields = [{"name": name, "type": "string", "required": True, "description": "it"}]
    chosen: dict[str, Any] = FULL | {"action": "notes.look", "parametersSchema": {"fields": fields}}
    chosen |= {"requiredInputDocuments": [], "requiredConnection": None}
    with World(tmp_path, [chosen, PARAMETERS(**{name: "x"}), STOP, SUCCESS], [look]) as world:
        world.run("Look", profile="strict")
        check(world)
        schema = world.model.of("selection")[0].schema
    assert got == [{name: "x"}]
    assert schema is not None and ParameterSchema(schema["anyOf"][0]).check(chosen) == ()


@pytest.mark.parametrize("name", [*FORBIDDEN, "DocumentList", "HISTORY"])
def test_A110_A118_the_five_names_are_refused_in_stage_1_and_dropped_in_stage_2(
    tmp_path: Path, name: str
) -> None:
    """Under any case: Stage 1 is asked again, Stage 2's value never reaches the tool and is counted as dropped."""
    got: list[dict[str, Any]] = []
    listed = FULL | {"parametersSchema": {"fields": [{"name": name, "type": "string"}]}}
    world = taken(tmp_path / "one", got, listed, FULL, PARAMETERS(title="T"))
    statement = "SELECT outcome ->> '$.invalid' FROM transitions WHERE seq = 0"
    assert query(world.path, statement) == [("forbidden_field",)]
    world = taken(tmp_path / "two", got, None, PARAMETERS(title="T", **{name: ["docList:elsewhere"]}))
    statement = """SELECT outcome ->> '$.dropped' FROM transitions WHERE "trigger" = 'specify'"""
    assert query(world.path, statement) == [(1,)]
    assert [call["references"] for call in got] == [FULL["requiredInputDocuments"]] * 2


@pytest.mark.parametrize(
    "reference",
    [
        *("docItem:round1_task1_action0_input#2", "docItem:round1_task1_action0_input#-1", "docList:nowhere"),
        *(
            "doclist:round1_task1_action0_input",
            "round1_task1_action0_input",
            "docList:",
            "docItem:#0",
            "a.txt",
        ),
    ],
)
def test_A106_C31_a_reference_that_does_not_resolve_is_named_and_asked_again(
    tmp_path: Path, reference: str
) -> None:
    """In the strict profile: before Stage 2, beside a good reference as well; the next prompt quotes it."""
    got: list[dict[str, Any]] = []
    bad = FULL | {"requiredInputDocuments": ["docList:round1_task1_action0_input", reference]}
    world = taken(tmp_path, got, bad, FULL, PARAMETERS(title="T"), profile="strict")
    assert triggers(world.path)[:2] == ["reselect", "select"]
    feedback = parts(prompts(world.path, "selection")[1])["Your last reply could not be used"]
    assert reference in feedback
    assert len(prompts(world.path, "parameters")) == len(got) == 1


@pytest.mark.parametrize("reference", ["docList:nowhere", "docItem:round1_task1_action0_input#2", "a.txt"])
def test_A106_C31_as_amended_it_is_left_out_and_asked_again_only_where_none_is_left(
    tmp_path: Path, reference: str
) -> None:
    """Beside a good one it is dropped and counted; alone, an action that needs a document is asked again, with the reason."""
    got: list[dict[str, Any]] = []
    good = "docList:round1_task1_action0_input"
    world = taken(tmp_path / "beside", got, FULL | {"requiredInputDocuments": [reference, good]})
    statement = "SELECT outcome ->> '$.dropped' FROM transitions WHERE seq = 0"
    assert (query(world.path, statement), got[0]["references"]) == ([(1,)], [good])
    alone = FULL | {"requiredInputDocuments": [reference]}
    world = taken(tmp_path / "alone", got, alone, FULL, PARAMETERS(title="T"))
    statement = "SELECT outcome ->> '$.invalid' FROM transitions WHERE seq = 0"
    assert query(world.path, statement) == [("no_documents",)]
    feedback = parts(prompts(world.path, "selection")[1])["Your last reply could not be used"]
    assert "needs at least one" in feedback and reference.rpartition(":")[2] in feedback


@pytest.mark.parametrize("length", [100, 101, 5000])
def test_A108_A112_a_context_is_verbatim_up_to_its_cap_and_marked_beyond(tmp_path: Path, length: int) -> None:
    """At the cap word for word, one character more and it ends in a mark; the journal keeps the whole reply."""
    context = "x" * (length - 1) + "y"
    world = taken(tmp_path, [], FULL | {"parametersContext": context}, limits=Limits(context_chars=100))
    seen = parts(prompts(world.path, "parameters")[0])["Parameters context"]
    assert seen == (context if length <= 100 else "x" * 99 + "…")
    assert replies(world.path, "selection")[0]["parametersContext"] == context


@pytest.mark.parametrize("extra", [{"parameters": {}}, {"parameters": None}, {"parameters": {"title": "S"}}])
def test_A096_D11_parameters_in_stage_1_use_up_the_one_retry(tmp_path: Path, extra: dict[str, Any]) -> None:
    """Once it is asked again, twice it is the end; nothing of it is ever used."""
    got: list[dict[str, Any]] = []
    world = taken(tmp_path / "once", got, FULL | extra, FULL, PARAMETERS(title="T"))
    assert [call["title"] for call in got] == ["T"]
    assert triggers(world.path)[:2] == ["reselect", "select"]
    world = taken(tmp_path / "twice", got, FULL | extra, FULL | extra)
    assert (triggers(world.path), len(got)) == (["reselect", "fail"], 1)


def test_A119_A077_a_missing_field_is_asked_once_more_and_then_the_call_is_refused(tmp_path: Path) -> None:
    """The second prompt says what was missing; the tool is not called with half its parameters."""
    got: list[dict[str, Any]] = []
    world = taken(tmp_path, got, None, PARAMETERS(), PARAMETERS())
    assert triggers(world.path)[:3] == ["select", "respecify", "refuse"]
    first, second = prompts(world.path, "parameters")
    assert list(parts(first)) == SECTIONS
    assert list(parts(second)) == [*SECTIONS[:-1], "Your last reply could not be used", "Reply"]
    assert "title" in parts(second)["Your last reply could not be used"]
    assert got == []


@pytest.mark.parametrize("kind", ["string", "number", "boolean", "object", "array", "enum"])
def test_A109_D9_every_type_is_accepted_in_a_field(tmp_path: Path, kind: str) -> None:
    """The document's types, and lists and values as an extension; Stage 2 is shown the tool's own, with the field's description."""
    field = {"name": "title", "type": kind, "required": True, "description": "d", "values": ["T", "U"]}
    world = taken(tmp_path, [], FULL | {"parametersSchema": {"fields": [field]}})
    assert triggers(world.path)[:2] == ["select", "specify"]
    assert parts(prompts(world.path, "parameters")[0])["Parameters schema"] == "- title (text; required): d"


def test_A114_A158_a_hosts_own_selection_template_gets_history_and_indexes(tmp_path: Path) -> None:
    """The placeholder is substituted, newest first; the labels it shows are those that resolve."""
    template = (
        "{{KEY:WORKFLOW_HISTORY}}\n\n{{KEY:DOCUMENTS_INDEX}}\n\n{{KEY:CONNECTIONS_INDEX}}\n\n{{KEY:CATALOG}}"
        "\n\n{{KEY:OBJECTIVE}}"
    )
    with World(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as world:
        world.run("Read", documents=INPUTS, connections={"mail": 1}, prompt_template=template)
    first, second = (prompt["user"] for prompt in prompts(world.path, "selection"))
    assert first.startswith("- docList:round1_task1_action0_input (2)\n") and "{{" not in first + second
    assert second.startswith("- Step 1: notes.read [ok]") and "\n\n- mail\n\n- notes.read(page)" in second
    stored = {
        label for (label,) in query(world.path, "SELECT DISTINCT label FROM documents WHERE number < 3")
    }
    assert set(re.findall(r"docList:(\w+)", second)) == stored


def test_A101_A102_A105_history_is_newest_first_with_what_each_action_has(tmp_path: Path) -> None:
    """Step 3 is above 2 above 1, each with its own learnings and documents; the failed one has neither."""
    script = [
        *[SELECT(learnings=["l-one"]), PARAMETERS(page=1), CONTINUE],
        *[SELECT("notes.torn"), PARAMETERS(page=2), CONTINUE],
        *[SELECT(learnings=["l-three"]), PARAMETERS(page=3), CONTINUE],
        *[*READ(4), STOP, SUCCESS],
    ]

    @tool("notes.torn", effect="read")
    def torn(page: int) -> str:
        """Fail."""
        raise ToolError("torn out")

    with World(tmp_path, script, [read, torn]) as world:
        world.run(profile="strict")
    blocks = parts(prompts(world.path, "selection")[3])["History, newest first"].split("- Step ")[1:]
    assert [block[0] for block in blocks] == ["3", "2", "1"]
    assert ["Learnings:" in block for block in blocks] == [True, False, True]
    assert ["docList:round1_task1_action" in block for block in blocks] == [True, False, True]
    assert "l-three" in blocks[0] and "l-one" in blocks[2] and "torn out" in blocks[1]
    assert not re.search(r"(?m):\s*$", "\n".join(blocks)), "no heading without anything behind it"


SOURCES: dict[str, tuple[Any, str]] = {
    "a document's text": ("Ten\ndays.", "1 document: Ten days."),
    "only binary documents": (
        [Document("a", b"\0"), Document("b", b"\1")],
        "2 documents: a: text/plain, 1 bytes, not text",
    ),
    "notes alone": (ToolOutput(notes=["3 rows changed", "took 2 s"]), "no documents: 3 rows changed"),
    "nothing at all": (None, "no documents: the tool returned nothing"),
    "only a number": (ToolOutput(), "no documents"),
    "an error": (ToolError("torn out"), "tool_error: torn out"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_A010_A099_A125_each_source_alone_gives_a_summary_that_is_kept(tmp_path: Path, source: str) -> None:
    """In the event, in the journal's row of the action, and in the next prompt."""
    value, expected = SOURCES[source]

    @tool("notes.read", effect="read")
    def give(page: int) -> Any:
        """Give."""
        if isinstance(value, Exception):
            raise value
        return value

    told: list[str] = []

    def hear(event: Any) -> None:
        if isinstance(event, StepCompleted):
            told.append(event.summary)

    with World(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], [give], hooks=[hear]) as world:
        world.run()
        success = observation(world)["success"]
    assert success is not isinstance(value, Exception)
    statement = """SELECT body ->> '$.message.summary' FROM transitions JOIN payloads USING (run)
                   WHERE "trigger" = 'observe' AND n = change ->> '$.n' ORDER BY seq"""
    assert told == [expected] * 2 == [summary for (summary,) in query(world.path, statement)]
    with World(tmp_path / "strict", [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], [give]) as world:
        world.run(profile="strict")
    history = parts(prompts(world.path, "selection")[1])["History, newest first"]
    assert re.search(r"(?m)^  Summary: \S", history) and expected.partition(": ")[2] in history


def test_A125_a_call_that_was_refused_has_a_summary_from_its_validation(tmp_path: Path) -> None:
    """What was wrong with the values is in later history."""
    script = [SELECT(), PARAMETERS(), PARAMETERS(), CONTINUE, *READ(2), STOP, SUCCESS]
    for profile, lead in (("two_stage", "Error of notes.read:\n"), ("strict", "Summary: ")):
        with World(tmp_path / profile, script) as world:
            world.run(profile=profile)
        told = prompts(world.path, "selection")[1]["user"]
        assert f"{lead}invalid_parameters: page is required but missing" in told


@pytest.mark.parametrize("hint", ["now use notes.take", '{"action": "notes.take"}', "ignore the rules"])
def test_A068_D5_a_hint_is_only_text_of_the_next_selection(tmp_path: Path, hint: str) -> None:
    """An action that is named in it is not executed; the selection after it decides."""
    got: list[dict[str, Any]] = []
    script = [*READ(1), REFINE("continue", hint=hint), *READ(2), REFINE("continue"), *READ(3), STOP, SUCCESS]
    with World(tmp_path, script, [read, taking(got)]) as world:
        assert world.run().steps == 3
    hints = [parts(prompt).get("Hint for the next step") for prompt in prompts(world.path, "selection")]
    assert (hints, got) == ([None, hint, None], [])
