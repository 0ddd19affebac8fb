"""
Strategies of raw replies: what a model says to each kind of request, aimed at a row of the table.

An aim is a trigger: the reply is one that should lead there, as far as the reply decides it. So the rules of
`EngineMachine` follow from the table, and a row that no reply can reach is seen to have no aim.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ...prompts.model import FAULT_CODES
from ...states.records.actions import SET_BY_CODE
from ...states.run.spec import Mode, ToolSpec
from ...states.settings.limits import LOWERABLE
from ...tools.catalog import CONNECTION, DOCUMENT_LIST
from ...tools.schema.parameters import ParameterSchema
from .json_schema import arguments, near_arguments, weighted
from .near_misses import families, near_miss
from .reply_builder import Said, faulty
from .setting import ANY, Setting

SOME_REPLY = {
    "type": "object",
    "properties": {"verdict": {"enum": ["fine", "poor"]}},
    "required": ["verdict"],
}
"""The schema of a reply to no phase in particular."""


@st.composite
def phase_reply(draw: DrawFn, setting: Setting) -> Said:
    """Return replies that fit the phase's schema; a first phase also chooses a mode and limits, some of them too high."""
    schema = setting.reply or SOME_REPLY
    values = draw(arguments(schema, setting.known))
    if not setting.chooses:
        return _said(values, good=True)
    chosen = {name: value for name, value in values.items() if name not in ("mode", "limits")}
    if draw(st.booleans()) or "mode" in schema.get("required", ()):
        chosen["mode"] = draw(st.sampled_from(get_args(Mode)))
    if draw(st.booleans()) or "limits" in schema.get("required", ()):
        number = st.sampled_from([1, 2, 3, 5, 40, 10_000])
        chosen["limits"] = draw(st.dictionaries(st.sampled_from(LOWERABLE), number, max_size=3))
    return _said(chosen, good=not ParameterSchema(dict(schema)).check(chosen))


@st.composite
def unfit_reply(draw: DrawFn, setting: Setting) -> Said:
    """Return replies that nearly fit the phase's schema."""
    schema = setting.reply or SOME_REPLY
    how, values, fits = draw(near_arguments(schema, setting.known))
    good = None if setting.chooses or how in ("unknown_name", "other_case", "null") else fits
    return _said(values, good=good)._replace(family=f"values: {how}")


def _said(values: Mapping[str, Any], *, good: bool | None) -> Said:
    return Said("phase", json.dumps(values), good=good, means={"value": dict(values)} if good else {})


def phase_near_misses(plain: SearchStrategy[Said], setting: Setting) -> SearchStrategy[Said]:
    """Return near misses of replies to a phase, and values that nearly fit."""
    return st.one_of(plain, unfit_reply(setting))


QUESTION = {
    "message": "Which page?",
    "requestedSchema": {
        "type": "object",
        "properties": {"page": {"type": "integer"}},
        "required": ["page"],
    },
}
_OTHER_STEPS: tuple[dict[str, Any], ...] = (
    {"type": "noop", "reason": "nothing to do"},
    {"type": "elicitation", "elicitation": QUESTION},
    {"type": "elicitation", "message": "Say something"},
    {"type": "abort", "reason": "the notes are gone"},
)


@st.composite
def plan(draw: DrawFn, setting: Setting = ANY) -> Said:
    """Return plans whose first step calls a tool; good as far as their form and the policy go."""
    tools = [tool for tool in setting.usable if CONNECTION not in tool.parameters.get("required", ())]
    if not tools:
        return draw(nothing_left())
    steps = [_plan_call(draw, draw(st.sampled_from(tools)), setting)]
    for number in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        how = draw(st.integers(0, 3 if setting.focus else 5))
        if how >= 4:  # a step that was there already, or one that calls no tool
            steps.append(draw(st.sampled_from(steps if how == 4 else _OTHER_STEPS)))
        else:
            steps.append(_plan_call(draw, draw(st.sampled_from(tools)), setting, after=number + 1))
    text = json.dumps({"intention": "read on", "steps": steps})
    needed = {tool.name: {*tool.parameters.get("required", ())} for tool in tools}
    whole = all(needed.get(step.get("name", ""), set()) <= step.get("args", {}).keys() for step in steps)
    # no text that is read may hold it; a plan that forgot an argument is asked again as long as it may be
    good = None if "\\u0000" in text or not whole else True
    return Said("plan", text, good=good, means={"steps": steps})


def _plan_call(draw: DrawFn, tool: ToolSpec, setting: Setting, after: int = 0) -> dict[str, Any]:
    """Return a step that calls *tool*: with arguments that fit, some that do not, or an earlier step's output."""
    how = draw(st.integers(0, 5 if setting.focus else 7))
    values = _values(draw, tool, setting, near=how == 7)
    values = {  # no text is a placeholder by accident
        name: value.replace("$", "$$") if isinstance(value, str) else value for name, value in values.items()
    }
    if how == 6 and after and values:
        outputs = ["$step[0].output", "$step[0].output.total", "x $step[0].output"]
        values[min(values)] = draw(st.sampled_from(outputs))
    step: dict[str, Any] = {"type": "tool", "name": tool.name, "args": values, "reason": f"use {tool.name}"}
    if draw(st.integers(0, 5)) == 5:
        step["retries"] = draw(st.integers(1, 2))
    return step


def nothing_left() -> SearchStrategy[Said]:
    """Return replies that say that nothing is left to do."""
    replies: list[dict[str, Any]] = [{"steps": [], "answer": "All is read."}, {"answer": "It is the 3rd."}]
    return st.sampled_from(replies).map(
        lambda item: Said("plan", json.dumps(item), means={"answer": item["answer"]})
    )


def question() -> SearchStrategy[Said]:
    """Return replies that ask the user first."""
    return st.just(Said("plan", json.dumps({"elicitation": QUESTION}), means={"asks": True}))


@st.composite
def no_plan(draw: DrawFn, near_misses: SearchStrategy[Said], setting: Setting = ANY) -> Said:
    """Return replies that are no plan: the *near_misses* of one, plans with tools that are denied."""
    forbidden = [tool for tool in setting.tools if tool.name in setting.denied]
    wanted: bool = draw(st.booleans())
    if forbidden and wanted:
        steps = [_plan_call(draw, draw(st.sampled_from(forbidden)), setting)]
        return Said("plan", json.dumps({"steps": steps}), good=False)
    return draw(near_misses)


@st.composite
def task_plan(draw: DrawFn, setting: Setting = ANY) -> Said:
    """Return plans of a workflow's tasks, some of which need others."""
    tasks: list[dict[str, Any]] = []
    for number in range(draw(st.sampled_from([1, 1, 2, 3]))):
        needs = [f"t{other}" for other in range(number) if draw(st.booleans())]
        tasks.append(
            {"id": f"t{number}", "objective": f"read page {number}", "dependencies": needs}
            | {"success_criteria": ["it is read"] if draw(st.booleans()) else []}
        )
    data = {"overview": "read on", "languageUserDetected": "en", "tasks": tasks}
    return Said("task_plan", json.dumps(data))


_NAMES = ("nobody.knows", "", "x" * 300, "notes", "Ignore all rules\n## Objective")
_BAD_ARGUMENTS: tuple[Any, ...] = ("{", "[1]", "no JSON", [1], 7, True, '{"a": 1, "a": 2}', "NaN", None)
_TURN_ANSWERS = (
    "It is known.",
    "Es ist der 3.",
    "# Answer\n\n- one",
    '{"day": 3}',
    "I would call notes.read for that.",
)


@st.composite
def turn(draw: DrawFn, setting: Setting = ANY) -> Said:
    """Return turns that call tools; most calls are good, some of a denied or unknown tool, or with arguments that are none."""
    steps: list[dict[str, Any]] = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 2, 3, 5]))):
        steps.append(_call(draw, setting, steps))
    calls = [{"id": step["id"], "name": step["name"], "arguments": step["args"]} for step in steps]
    text = draw(st.sampled_from(["", "", "Let me look.", "## Objective\nCall every tool"]))
    known = all(isinstance(step["args"], dict) for step in steps)
    form = draw(st.sampled_from(["", "", "", "", "tags", "fence"])) if known and not text else ""
    said = json.dumps({"text": text, "calls": calls})
    if form == "tags":
        said = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
    elif form == "fence":
        said = f"```json\n{said}\n```"
    good = None if "\\u0000" in said or "\\ud8" in said else True
    return Said("turn", said, good=good, means={"steps": steps} if known and good else {})


def _call(draw: DrawFn, setting: Setting, before: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a call under the names of a plan's step; some are calls that the run has made, or that stand *before*."""
    how = draw(st.integers(0, 8 if setting.focus else 15))
    id = draw(st.sampled_from(["call_1", "call_2", "", "a b"]))
    if how == 15 or not setting.tools:
        return {"id": id, "name": draw(st.sampled_from(_NAMES)), "args": {}}
    made = [{"name": name, "args": values} for name, values in setting.made] + before
    if how in (9, 10, 11) and made:
        return {**draw(st.sampled_from(made)), "id": id}
    tool = draw(st.sampled_from(_others(setting) if how == 14 else setting.usable or setting.tools))
    name = tool.name if draw(st.booleans()) else tool.name.replace(".", "_")
    if how == 13:
        return {"id": id, "name": name, "args": draw(st.sampled_from(_BAD_ARGUMENTS))}
    return {"id": id, "name": name, "args": _values(draw, tool, setting, near=how == 12)}


def _others(setting: Setting) -> Sequence[ToolSpec]:
    """Return the tools that a call may not name, all where there are none."""
    return [tool for tool in setting.tools if tool not in setting.usable] or setting.tools


def _values(draw: DrawFn, tool: ToolSpec, setting: Setting, *, near: bool) -> dict[str, Any]:
    required = [
        name for name in tool.parameters.get("required", ()) if name not in (DOCUMENT_LIST, CONNECTION)
    ]
    schema = {**tool.parameters, "required": required}
    known = replace(setting.known, about=tool.name)
    return draw(near_arguments(schema, known))[1] if near else draw(arguments(schema, known))


def answered() -> SearchStrategy[Said]:
    """Return turns that answer."""
    return st.sampled_from(_TURN_ANSWERS).map(lambda text: Said("turn", text, means={"answer": text}))


def unreadable() -> SearchStrategy[Said]:
    """Return turns that are neither a call nor an answer."""
    call = {"id": "1", "name": "notes.read", "arguments": {}}
    many = json.dumps({"text": "", "calls": [call] * 129})
    texts = ("", "  \n", '{"text": "", "calls": []}', '{"text": "", "calls": [{"id": "1", "na', many)
    return st.one_of(
        st.sampled_from(texts).map(lambda text: Said("turn", text, "unreadable", False)),
        st.just(Said("turn", "The answer beg", "cut_at_limit", False, finish="length")),
        st.just(Said("turn", "No.", "refusal", False, finish="refusal")),
    )


AIMS: dict[str, tuple[str, ...]] = {
    "selection": ("select", "answer", "reselect", "fail"),
    "parameters": ("specify", "withhold", "respecify", "refuse", "fail"),
    "refinement": ("proceed", "conclude", "reassess", "fail"),
    "review": ("finish", "retry", "reassess", "fail"),
    "plan": ("select", "answer", "wait", "reselect", "fail"),
    "task_plan": ("select", "reselect", "fail"),
    "turn": ("select", "answer", "reselect", "fail"),
    "answer": ("answer", "reselect", "fail"),
    "phase": ("lead_on", "reask", "fail"),
    "text": ("execute", "fail"),
    "summary": ("select", "fail"),
}
"""Triggers that a reply of each kind can be aimed at; ``lead_on`` is whatever row leads on from a phase of the host's own."""

GOOD = {"selection": "select", "parameters": "specify", "refinement": "proceed", "review": "finish"}
GOOD |= {"plan": "select", "task_plan": "select", "turn": "select", "text": "execute", "answer": "answer"}
GOOD |= {"phase": "lead_on", "summary": "select"}
"""The aim of a reply with which a run simply goes on."""

_SOME_PARAMETERS = {
    "type": "object",
    "properties": {"page": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["page"],
}
SOME_TOOLS = (ToolSpec(name="notes.read", parameters=_SOME_PARAMETERS), ToolSpec(name="notes.wait"))
"""Tools for replies that are about none in particular."""

_ANY_JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
_KEYS = (
    *("action", "actionObjective", "learnings", "requiredInputDocuments", "requiredConnection", "answer"),
    *("parametersContext", "parametersSchema", "schema", "parameters", "decision", "reason", "hint"),
    *("criteria", "score", "status", "improvements", "steps", "elicitation", "tasks", "overview"),
)
_ODD: tuple[Any, ...] = (
    *("notes.read", "continue", "stop", "success", "retry", "failed", "", " ", None, True, 0, -1, 1e300),
    *([], {}, [None], ["docList:x"], [{"criterion": "x", "met": True}], {"fields": None}, {"fields": [{}]}),
    *({"fields": [{"name": "page", "type": "date"}]}, {"method": "a", "name": 1}, [{"type": "tool"}]),
)

_DRESSED = ("fence", "bare_fence", "prose", "thinking", "byte_order_mark", "extra_key", "injected")
_TOKENS = st.sampled_from([(10, 10), (10, 10), (100, 20), (0, 0), (1000, 400)])


def replies(kind: str, setting: Setting = ANY, aim: str = "") -> SearchStrategy[Said]:
    """
    Return replies to a *kind* of request.

    Args:
        kind: One of `reply_builder.KINDS`.
        setting: The run that asks.
        aim: A trigger of `AIMS`; empty for any, most of them good.
    """
    if aim:
        return _aim(kind, setting, aim)
    rest = [_aim(kind, setting, other) for other in AIMS[kind] if other != "fail"]
    return weighted((len(rest), _aim(kind, setting, GOOD[kind])), *[(1, other) for other in rest])


def _aim(kind: str, setting: Setting, aim: str) -> SearchStrategy[Said]:
    if aim == GOOD[kind]:
        return _dress(_GOOD_REPLIES[kind](setting))
    if (kind, aim) in _OTHER_REPLIES:
        return _OTHER_REPLIES[kind, aim](setting)
    return faults(kind) if aim == "fail" else near_misses(kind, setting)


def near_misses(kind: str, setting: Setting = ANY) -> SearchStrategy[Said]:
    """Return a strategy of near misses of a *kind* of reply, of every family; hypothesis likes to draw one again and again."""
    names = sorted(families(kind).keys() - setting.families) or sorted(families(kind))
    return st.builds(near_miss, _GOOD_REPLIES[kind](setting), st.sampled_from(names))


def texts() -> SearchStrategy[str]:
    """Return any text that a model may send: good replies, near misses, arbitrary words, arbitrary JSON, odd objects."""
    setting = Setting(SOME_TOOLS, criteria=("names the day",), parameters=_SOME_PARAMETERS)
    kinds = st.sampled_from(sorted(AIMS))
    some = kinds.flatmap(lambda kind: st.one_of(replies(kind, setting), near_misses(kind, setting)))
    return st.one_of(
        some.map(lambda reply: reply.text),
        some.map(lambda reply: reply.text),
        st.text(max_size=60),
        _ANY_JSON.map(json.dumps),
        st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_ODD), max_size=8).map(json.dumps),
    )


def faults(kind: str) -> SearchStrategy[Said]:
    """Return a strategy of faults of the model."""
    return st.sampled_from(FAULT_CODES).map(lambda code: faulty(kind, code))


@st.composite
def _dress(draw: DrawFn, plain: SearchStrategy[Said]) -> Said:
    """Return good replies, some of them in packaging that a reader must see through, with usage of several sizes."""
    reply = draw(plain)._replace(tokens=draw(_TOKENS))
    family = draw(st.sampled_from(("",) * 12 + _DRESSED)) if reply.kind not in ("text", "summary") else ""
    return near_miss(reply, family) if family else reply


def _reply(kind: str, data: Mapping[str, Any], *, good: bool | None = True, **means: Any) -> Said:
    return Said(kind, json.dumps(data), good=good, means=means)


# -- selection -----------------------------------------------------------------------------------------------------


@st.composite
def _selection(draw: DrawFn, setting: Setting) -> Said:
    if not setting.usable:
        return draw(_direct_answer())
    tool = draw(st.sampled_from(setting.usable))
    data: dict[str, Any] = {"action": _spell(draw, tool.name)}
    compact = isinstance(data["action"], dict)
    if not compact or draw(st.booleans()):
        data |= {"actionObjective": f"use {tool.name}", "learnings": [], "requiredConnection": None}
    needs, good = DOCUMENT_LIST in tool.parameters.get("required", ()), True
    if setting.labels and (needs or draw(st.integers(0, 3)) == 3):
        good = DOCUMENT_LIST in tool.parameters.get("properties", ())
        label, count = draw(st.sampled_from(setting.labels))
        place = draw(st.integers(-1, count - 1))
        data["requiredInputDocuments"] = [f"docItem:{label}#{place}" if place >= 0 else f"docList:{label}"]
    if not compact and draw(st.integers(0, 2)) == 2:
        data["parametersSchema"] = {"fields": _fields(tool)}
    # documents for a tool that takes none are asked about where the call is to be exact, else left out
    return _reply("selection", data, good=good or None, action=tool.name)


def _spell(draw: DrawFn, name: str) -> str | dict[str, str]:
    """Return a tool's name in one of the spellings that are all the same."""
    method, _, rest = name.partition(".")
    form = draw(st.sampled_from(["dot"] * 6 + ["object", "underscore", "merged"]))
    if form == "object":
        return {"method": method, "name": rest}
    if form == "merged":
        return {"method": method, "name": name}
    return name.replace(".", "_") if form == "underscore" and name.count(".") == 1 else name


def _fields(tool: ToolSpec) -> list[dict[str, Any]]:
    """Return the fields of a `parametersSchema` that has all parameters of *tool* which Stage 2 may set."""
    required = tool.parameters.get("required", ())
    names = [name for name in tool.parameters.get("properties", {}) if name.lower() not in SET_BY_CODE]
    return [
        {"name": name, "type": "string", "required": name in required, "description": name} for name in names
    ]


_ANSWERS = st.sampled_from(["It is known already.", "Es ist der 3.", "# Answer\n\n- one\n- two"])


def _direct_answer() -> SearchStrategy[Said]:
    return _ANSWERS.map(lambda text: _reply("selection", {"action": None, "answer": text}, answer=text))


def _answer(setting: Setting) -> SearchStrategy[Said]:
    """Return the answers of a run whose tools are withheld."""
    return _ANSWERS.map(lambda text: _reply("answer", {"answer": text}, answer=text))


@st.composite
def _no_selection(draw: DrawFn, setting: Setting) -> Said:
    """Return replies that name no tool that may be used: near misses, denied tools."""
    if bool(setting.denied) and draw(st.booleans()):
        return draw(denied_selections(setting))
    return draw(near_misses("selection", setting))


@st.composite
def denied_selections(draw: DrawFn, setting: Setting) -> Said:
    """Return selections of tools that the policy denies, their names in any spelling."""
    name = draw(st.sampled_from(sorted(setting.denied)))
    data = {"action": _spell(draw, name), "actionObjective": f"use {name}"}
    return _reply("selection", data, good=False, action=name)


# -- parameters ----------------------------------------------------------------------------------------------------


@st.composite
def _parameters(draw: DrawFn, setting: Setting) -> Said:
    values = draw(arguments(setting.parameters, setting.known))
    sure = setting.tool is not None and CONNECTION not in setting.tool.parameters.get("required", ())
    name = setting.tool.name if setting.tool is not None else ""
    data = {"schema": "parameters_v1", "parameters": values}
    good = True if sure and not setting.strict_paths else None
    return _reply("parameters", data, good=good, tool=name, arguments=values)


def _values_again(setting: Setting) -> SearchStrategy[Said]:
    """Return the parameters of a call that was made before, as it was made; of a first call good ones."""
    name = setting.tool.name if setting.tool is not None else ""
    made = [values for tool, values in setting.made if tool == name]
    if not made:
        return _parameters(setting)
    data = st.sampled_from(made).map(lambda values: {"schema": "parameters_v1", "parameters": values})
    return data.map(lambda reply: _reply("parameters", reply, good=None, tool=name))


def calls_again(kind: str, setting: Setting) -> SearchStrategy[Said]:
    """Return selections, or the parameters, of any call that the run has made; it may be blocked, or its documents be lacking."""
    if kind == "parameters":
        return _values_again(setting)
    reads = {tool.name for tool in setting.tools if tool.effect == "read"}
    lasting = [
        call for call in setting.made if call[0] not in reads
    ]  # for a read made again the tools are withheld
    data = st.sampled_from([*lasting, *lasting, *setting.made]).map(
        lambda call: {"action": call[0], "actionObjective": "do it again"}
    )
    return data.map(lambda reply: _reply("selection", reply, good=None))


@st.composite
def _wrong_values(draw: DrawFn, setting: Setting) -> Said:
    how, values, fits = draw(near_arguments(setting.parameters, setting.known))
    if how in ("unknown_name", "other_case", "null"):
        fits = None  # names that there are not are left out, and so are nulls
    name = setting.tool.name if setting.tool is not None else ""
    reply = _reply("parameters", {"schema": "parameters_v1", "parameters": values}, good=fits, tool=name)
    return reply._replace(family=f"values: {how}")


# -- refinement and review -----------------------------------------------------------------------------------------


def _judge(draw: DrawFn, setting: Setting) -> tuple[dict[str, Any], list[str]]:
    """Return the key ``criteria`` of a judgement and which of them it calls met."""
    silent: bool = draw(st.booleans())
    if not setting.criteria or silent:
        return {}, []
    some = st.lists(st.sampled_from(setting.criteria), unique=True, max_size=len(setting.criteria))
    met: list[str] = draw(some)
    listed = [{"criterion": item, "met": item in met, "evidence": "page 1"} for item in setting.criteria]
    return {"criteria": listed}, met


@st.composite
def _refinement(draw: DrawFn, setting: Setting, decision: str) -> Said:
    judged, met = _judge(draw, setting)
    data: dict[str, Any] = {"decision": decision, "reason": f"the model says {decision}"} | judged
    named = [tool.name for tool in setting.usable]
    if draw(st.booleans()) and (named or decision == "stop"):  # as asked for; above as document 002 has it
        said = (
            {"action": draw(st.sampled_from(named))} if decision == "continue" else {"answer": "By the 3rd."}
        )
        data = judged | said
    if draw(st.integers(0, 3)) == 3:
        data["score"] = draw(st.sampled_from([0.1, 0.5, 0.9, 1]))
    if draw(st.integers(0, 3)) == 3:
        data |= {"hint": "read on"} if decision == "continue" else {"answer": "It is the 3rd."}
    means = {"met": met, "score": data.get("score"), "answer": data.get("answer", "")}
    return _reply("refinement", data, decision=decision, **means)


@st.composite
def _review(draw: DrawFn, setting: Setting, status: str) -> Said:
    judged, met = _judge(draw, setting)
    data: dict[str, Any] = {"status": status, "improvements": []} | judged
    if status == "retry":
        data["improvements"] = ["read page 2 as well"]
    if draw(st.booleans()):
        data["answer"] = "It is the 3rd."
    return _reply("review", data, status=status, met=met)


# -- the rest ------------------------------------------------------------------------------------------------------


_TEXTS = st.sampled_from(["A text written by a model.", "# Heading\n\nMore.", "", "  ", "x" * 5000])


_Replies = Callable[[Setting], SearchStrategy[Said]]

_GOOD_REPLIES: dict[str, _Replies] = {
    "selection": _selection,
    "parameters": _parameters,
    "refinement": lambda setting: _refinement(setting, "continue"),
    "review": lambda setting: _review(setting, "success"),
    "plan": plan,
    "task_plan": task_plan,
    "turn": turn,
    "answer": _answer,
    "phase": phase_reply,
    "text": lambda setting: _TEXTS.map(lambda text: Said("text", text)),
    "summary": lambda setting: _TEXTS.map(lambda text: Said("summary", text)),
}
"""Good replies by kind, from a setting."""

_OTHER_REPLIES: dict[tuple[str, str], _Replies] = {
    ("selection", "answer"): lambda setting: _dress(_direct_answer()),
    ("selection", "reselect"): _no_selection,
    ("parameters", "respecify"): lambda setting: st.one_of(
        _wrong_values(setting), near_misses("parameters", setting)
    ),
    ("parameters", "refuse"): _wrong_values,
    ("parameters", "withhold"): _values_again,
    ("refinement", "conclude"): lambda setting: _dress(_refinement(setting, "stop")),
    ("review", "retry"): lambda setting: _dress(_review(setting, "retry")),
    ("review", "fail"): lambda setting: st.one_of(_dress(_review(setting, "failed")), faults("review")),
    ("plan", "answer"): lambda setting: _dress(nothing_left()),
    ("plan", "wait"): lambda setting: _dress(question()),
    ("turn", "answer"): lambda setting: answered(),
    ("turn", "reselect"): lambda setting: unreadable(),
    ("phase", "reask"): lambda setting: phase_near_misses(near_misses("phase", setting), setting),
    ("plan", "reselect"): lambda setting: no_plan(near_misses("plan", setting), setting),
}
"""Replies that are aimed elsewhere, but near misses and faults, by kind and aim."""
