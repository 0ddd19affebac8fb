"""
Strategies of raw replies: what a model says to each kind of request, aimed at a row of the table.

An aim is a trigger: the reply is one that should lead there, as far as the reply decides it. So the rules of
`EngineMachine` follow from the table, and a row that no reply can reach is seen to have no aim.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ...prompts.model import FAULT_CODES
from ...states.records.actions import SET_BY_CODE
from ...states.run.spec import ToolSpec
from ...tools.catalog import CONNECTION, DOCUMENT_LIST
from . import phase_replies, plan_replies, turn_replies
from .json_schema import arguments, near_arguments, weighted
from .near_misses import families, near_miss
from .reply_builder import Said, faulty
from .setting import ANY, Setting

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
}
"""Triggers that a reply of each kind can be aimed at; ``lead_on`` is whatever row leads on from a phase of the host's own."""

GOOD = {"selection": "select", "parameters": "specify", "refinement": "proceed", "review": "finish"}
GOOD |= {"plan": "select", "task_plan": "select", "turn": "select", "text": "execute", "answer": "answer"}
GOOD |= {"phase": "lead_on"}
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
    family = draw(st.sampled_from(("",) * 12 + _DRESSED)) if reply.kind != "text" else ""
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
    needs = DOCUMENT_LIST in tool.parameters.get("required", ())
    if setting.labels and (needs or draw(st.integers(0, 3)) == 3):
        label, count = draw(st.sampled_from(setting.labels))
        place = draw(st.integers(-1, count - 1))
        data["requiredInputDocuments"] = [f"docItem:{label}#{place}" if place >= 0 else f"docList:{label}"]
    if not compact and draw(st.integers(0, 2)) == 2:
        data["parametersSchema"] = {"fields": _fields(tool)}
    return _reply("selection", data, action=tool.name)


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
    "plan": plan_replies.plan,
    "task_plan": plan_replies.task_plan,
    "turn": turn_replies.turn,
    "answer": _answer,
    "phase": phase_replies.phase_reply,
    "text": lambda setting: _TEXTS.map(lambda text: Said("text", text)),
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
    ("plan", "answer"): lambda setting: _dress(plan_replies.nothing_left()),
    ("plan", "wait"): lambda setting: _dress(plan_replies.question()),
    ("turn", "answer"): lambda setting: turn_replies.answered(),
    ("turn", "reselect"): lambda setting: turn_replies.unreadable(),
    ("phase", "reask"): lambda setting: phase_replies.phase_near_misses(
        near_misses("phase", setting), setting
    ),
    ("plan", "reselect"): lambda setting: plan_replies.no_plan(near_misses("plan", setting), setting),
}
"""Replies that are aimed elsewhere, but near misses and faults, by kind and aim."""
