"""
One contract: what the wire schema of a request admits, the reader takes and the machine can act on.

Replies are drawn from the schemas that a run with random tools, documents, connections and criteria sends; none may be
refused for its shape. The words of the prompt come from the same definition.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paor import Limits, Profile, Usage
from paor.fsm.lifecycle.arguments import templates_of
from paor.fsm.machine.stop_rules import read_case
from paor.fuzz import arguments
from paor.machine import Replied, Selection
from paor.prompts.building.templates import default_templates
from paor.prompts.parsing.plans import read_task_plan
from paor.prompts.parsing.provider_schema import strict_schema, wrapped

from ..support.cases import (
    PLANNING,
    REVIEWING,
    SPECIFYING,
    DocumentRef,
    Memory,
    Moment,
    RequestKind,
    Run,
    RunResources,
    Spec,
    StoredText,
    ToolSpec,
    decide,
    initial_run,
)
from ..support.effort import examples

LEAVES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "enum": ["celsius", "fahrenheit"]},
    {"type": "integer", "minimum": 1, "maximum": 50},
    {"type": "number"},
    {"type": "boolean", "default": True},
    {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
    {"enum": ["one", 2, None]},
    {"$ref": "#/$defs/place"},
]
PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "near": {"$ref": "#/$defs/place"}},
    "required": ["city"],
}
NAMES = st.sampled_from(["a", "unit", "order_id", "limit", "address", "history", "documents"])
PROFILES = [Profile(), Profile(strict=True, forbidden="reject"), Profile(stage="single")]


@st.composite
def parameters(draw: st.DrawFn) -> dict[str, Any]:
    """Return the schema of one tool: perhaps with documents and a connection."""
    properties = draw(st.dictionaries(NAMES, st.sampled_from(LEAVES), max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    for name, schema in (
        ("documentList", {"type": "array", "items": {"type": "string"}}),
        ("connectionReference", {"type": "string"}),
    ):
        if draw(st.booleans()):
            properties[name] = schema
            required += [name] if draw(st.booleans()) else []
    schema = {"type": "object", "properties": properties, "required": required, "$defs": {"place": PLACE}}
    return schema | draw(
        st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": True}])
    )


@st.composite
def kits(draw: st.DrawFn) -> RunResources:
    """Return what a run is decided with: a random catalog, documents, connections, criteria and a profile."""
    schemas = draw(st.lists(parameters(), min_size=1, max_size=4))
    tools = tuple(
        ToolSpec(
            name=f"tools.t{number}", description=draw(st.sampled_from(["", "Does it."])), parameters=schema
        )
        for number, schema in enumerate(schemas)
    )
    count, profile = draw(st.integers(0, 3)), draw(st.sampled_from(PROFILES))
    label = "round1_task1_action0_inputs"
    documents = tuple(
        DocumentRef(place, label, place, f"{place}.txt", "text/plain", StoredText(place, "00", 1))
        for place in range(count)
    )
    spec = Spec(
        objective="do it",
        success_criteria=tuple(draw(st.lists(st.sampled_from(["it is done", "it is kept"]), unique=True))),
        connections=tuple(draw(st.lists(st.sampled_from(["mail", "crm"]), unique=True))),
        tools=tools,
        documents=documents,
        profile=profile,
        mode=draw(st.sampled_from(["react", "planner"])) if profile.stage == "two_stage" else "react",
        limits=Limits(completion_review="model"),
        templates=templates_of(None, profile=profile),
        key_salt="00",
    )
    return RunResources(spec)


def replied(text: str) -> Replied:
    """Return the outcome of a request."""
    return Replied(text, StoredText(9, "00", len(text)), "stop", Usage(1, 1, 1, 0), None, 1)


def drawn(data: st.DataObject, kit: RunResources, kind: RequestKind, run: Run) -> str:
    """Draw one reply from the schema that a server is held to, with or without the key around alternatives."""
    schema = kit.reply_schema(kind, run)
    assert schema is not None
    reply = data.draw(arguments(wrapped(schema)))
    if "anyOf" in schema and data.draw(st.booleans()):
        reply = reply["reply"]
    return json.dumps(reply)


@given(st.data())
@settings(max_examples=examples(60))
def test_stage_1_and_stage_2(data: st.DataObject) -> None:
    """Whatever the schema admits is an answer or a selection; then whatever its tool's schema admits is its parameters."""
    kit = data.draw(kits())
    run = initial_run("r", 1, kit.spec)
    if kit.spec.mode != "react":
        return
    text = drawn(data, kit, "selection", run)
    if '"requiredInputDocuments"' in text:
        text = _with_references_there_are(text, run)
    case = read_case(run, replied(text), kit)
    if (
        case.problem is not None
    ):  # a schema that stays the same for a run cannot say that there is no document yet
        assert case.problem.code in ("reference", "no_documents"), (text, case.problem)
        assert not run.memory.references
        return
    assert (case.answer is None) is not (case.selection is None)
    assert case.dropped == () or not run.memory.references
    if case.selection is None:
        assert decide(run, replied(text), Moment(0, 0), kit).row.dest == REVIEWING
        return
    assert decide(run, replied(text), Moment(0, 0), kit).row.dest == SPECIFYING
    _parameters_are_taken(data, kit, run, case.selection)


def _with_references_there_are(text: str, run: Run) -> str:
    """Return a reply whose references, which match the schema's pattern, name documents of the run where it has any."""
    known = run.memory.references

    def mended(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        named = value.get("requiredInputDocuments")
        told = {name: mended(item) for name, item in value.items()}
        if named and known:
            told["requiredInputDocuments"] = [known[place % len(known)] for place in range(len(named))]
        return told

    return json.dumps(mended(json.loads(text)))


def _parameters_are_taken(data: st.DataObject, kit: RunResources, run: Run, selection: Selection) -> None:
    chosen = replace(
        run,
        state=SPECIFYING,
        memory=Memory(selection=selection, labels=run.memory.labels, references=run.memory.references),
    )
    if selection.arguments is not None:
        assert selection.arguments == {}
        return
    text = drawn(data, kit, "parameters", chosen)
    case = read_case(chosen, replied(text), kit)
    assert (case.problem, case.invalid) == (None, None), (text, case.problem, case.invalid)
    assert case.dropped == () and case.intent is not None


@given(st.data())
@settings(max_examples=examples(60))
def test_judgements_answers_and_plans(data: st.DataObject) -> None:
    """The same for refinement, completion review, plan, tasks, and the answer that is asked for without tools."""
    kit = data.draw(kits())
    run = initial_run("r", 1, kit.spec)
    if kit.spec.mode == "planner":
        case = read_case(run, replied(drawn(data, kit, "plan", run)), kit)
        assert case.problem is None or case.problem.code in ("unknown_reference", "placeholder"), case.problem
        return
    reviewing = replace(run, state=REVIEWING)
    case = read_case(reviewing, replied(drawn(data, kit, "refinement", run)), kit)
    assert case.problem is None and case.refinement is not None
    concluded = replace(reviewing, counters=replace(run.counters, concluded=1, stop="model_stop"))
    case = read_case(concluded, replied(drawn(data, kit, "review", run)), kit)
    assert case.problem is None and case.review is not None
    withheld = replace(run, counters=replace(run.counters, withheld=1))
    case = read_case(withheld, replied(drawn(data, kit, "answer", run)), kit)
    assert case.problem is None and case.answer is not None
    tasks = read_task_plan(drawn(data, kit, "task_plan", run), chars_max=10**6)
    # which tasks depend on which is no matter of shape
    assert not hasattr(tasks, "code") or tasks.code in ("duplicate_task", "dependency")


@given(kits())
def test_the_words_and_the_schema_name_the_same_keys(kit: RunResources) -> None:
    """A key stands in the prompt exactly where the schema has it, but for what a run does not have yet; what it cannot have is in neither."""
    run = initial_run("r", 1, kit.spec)
    kinds: list[RequestKind] = ["selection", "refinement", "review", "plan", "task_plan", "answer"]
    for kind in kinds:
        form, schema = kit.form(kind, run), kit.reply_schema(kind, run)
        assert form is not None and schema is not None
        names = {name for one in schema.get("anyOf", [schema]) for name in one["properties"]}
        told = {name for name in names if f'"{name}":' in form.words}
        assert names - told <= ({"learnings", "requiredInputDocuments"} if kind == "selection" else set())
        assert ("criteria" in names) <= bool(kit.spec.success_criteria)
    offered = json.dumps(kit.reply_schema("selection", run))
    every = kit.spec.profile.strict and kit.spec.profile.stage == "two_stage"  # has every key in every run
    assert ("docList" in _words(kit, run, "selection")) <= bool(kit.spec.documents) or every
    assert ("requiredConnection" in offered) <= bool(kit.spec.connections) or every
    catalog = [f"- {kit.catalog.line(tool)}" for tool in kit.catalog if f'"{tool.name}' in offered]
    shown = kit.messages("selection", run)[0].text.splitlines()
    if kit.spec.two_stage:
        assert [line.split(": ")[0] for line in shown if line.startswith("- tools.")] == catalog
    place = -1 if kit.spec.two_stage else 0
    assert _words(kit, run, "refinement") in kit.messages("refinement", run)[place].text


def _words(kit: RunResources, run: Run, kind: RequestKind) -> str:
    form = kit.form(kind, run)
    assert form is not None
    return form.words


@given(kits())
def test_a_provider_that_takes_no_alternatives_gets_one_object(kit: RunResources) -> None:
    """The strict form of every schema that the run sends is one closed object."""
    run = initial_run("r", 1, kit.spec)
    kinds: list[RequestKind] = ["selection", "refinement", "review", "task_plan", "answer"]
    for kind in kinds:
        strict = strict_schema(kit.reply_schema(kind, run) or {}, optional="null", limits=True)
        assert strict is not None and strict["type"] == "object" and strict["additionalProperties"] is False


@pytest.mark.parametrize(
    ("reply", "tool"),
    [
        ({"action": "tools.t0(a)", "actionObjective": "x"}, "tools.t0"),
        ({"action": "tools.t0(a, b)\n", "actionObjective": "x"}, "tools.t0"),
        ({"action": "null", "answer": "done"}, None),
        (
            {"action": "tools.t0", "actionObjective": "x", "requiredInputDocuments": ["docList:nothing"]},
            "tools.t0",
        ),
        ({"action": "tools.t0", "actionObjective": "x", "requiredConnection": "LABEL"}, "tools.t0"),
        ({"reply": {"action": None, "answer": "done"}}, None),
    ],
)
def test_readable_replies_are_taken_and_strict_ones_refused(reply: dict[str, Any], tool: str | None) -> None:
    """What small models write, and what it means; the strict profile asks again for all but the wrapped one."""
    tools = (
        ToolSpec(name="tools.t0", parameters={"type": "object", "properties": {"a": {"type": "integer"}}}),
    )
    for profile in PROFILES[:2]:
        spec = Spec(objective="x", tools=tools, profile=profile, templates=default_templates(), key_salt="00")
        run = initial_run("r", 1, spec)
        case = read_case(run, replied(json.dumps(reply)), RunResources(spec))
        if profile.strict and "reply" not in reply:
            assert case.problem is not None
        elif tool is None:
            assert (case.problem, case.answer) == (None, "done")
        else:
            assert case.problem is None and case.selection is not None
            assert (case.selection.tool, case.selection.documents, case.selection.connection) == (
                tool,
                (),
                None,
            )
            assert len(case.dropped) == ("requiredInputDocuments" in reply) + ("requiredConnection" in reply)


@pytest.mark.parametrize(
    ("connections", "given_", "meant"),
    [
        ((), "mail", None),
        (("mail",), None, "mail"),
        (("mail",), "fax", "mail"),
        (("mail", "crm"), "crm", "crm"),
        (("mail", "crm"), None, None),
        (("mail", "crm"), "fax", None),
    ],
)
def test_an_action_that_needs_a_connection_is_not_chosen_without(
    connections: tuple[str, ...], given_: str | None, meant: str | None
) -> None:
    """The only connection of a run is meant; else the model is asked again, in both stages' forms and in native turns."""
    schema = {
        "type": "object",
        "properties": {"connectionReference": {"type": "string"}},
        "required": ["connectionReference"],
    }
    spec = Spec(
        objective="x",
        connections=connections,
        tools=(ToolSpec(name="tools.send", parameters=schema),),
        templates=default_templates(),
        key_salt="00",
    )
    run, kit = initial_run("r", 1, spec), RunResources(spec)
    offered = kit.reply_schema("selection", run) or {}
    assert ("tools.send" in json.dumps(offered)) is bool(connections)
    if connections:
        keys = offered["anyOf"][0]["properties"]["requiredConnection"], offered["anyOf"][0]["required"]
        assert keys == ({"enum": list(connections)}, ["action", "actionObjective", "requiredConnection"])
    reply = {"action": "tools.send", "actionObjective": "x", "requiredConnection": given_}
    case = read_case(run, replied(json.dumps(reply)), kit)
    if meant is not None:
        assert case.problem is None and case.selection is not None and case.selection.connection == meant
    else:
        assert case.problem is not None and case.problem.code == "no_connection"
        assert all(label in case.problem.message for label in connections)


def test_references_are_mended_and_the_one_input_is_meant() -> None:
    """``docList:L#0`` for ``docItem:L#0``, a bare label, and no reference at all where the run has one document."""
    schema = {
        "type": "object",
        "properties": {"documentList": {"type": "array"}},
        "required": ["documentList"],
    }
    label = "round1_task1_action0_inputs"
    documents = (DocumentRef(0, label, 0, "a.txt", "text/plain", StoredText(0, "00", 1)),)
    spec = Spec(
        objective="x",
        tools=(ToolSpec(name="tools.t0", parameters=schema),),
        documents=documents,
        templates=default_templates(),
        key_salt="00",
    )
    run, kit = initial_run("r", 1, spec), RunResources(spec)
    for given_, meant in (
        ([f"docList:{label}#0"], f"docItem:{label}#0"),
        ([f"docItem:{label}"], f"docList:{label}"),
        ([label], f"docList:{label}"),
        ([], f"docItem:{label}#0"),
        (["docItem:none#3"], f"docItem:{label}#0"),
    ):
        reply = {"action": "tools.t0", "actionObjective": "x", "requiredInputDocuments": given_}
        case = read_case(run, replied(json.dumps(reply)), kit)
        assert case.problem is None and case.selection is not None, case.problem
        assert case.selection.documents == (meant,)
        assert case.selection.arguments == {}  # nothing is left for Stage 2 to set
        assert run.state == PLANNING
