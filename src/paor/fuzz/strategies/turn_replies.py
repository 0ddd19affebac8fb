"""Strategies of turns: what a model says in the profile native, calls of tools or an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ...states.run.spec import ToolSpec
from ...tools.catalog import CONNECTION, DOCUMENT_LIST
from .json_schema import Known, arguments, near_arguments
from .reply_builder import Said
from .setting import ANY, Setting

_NAMES = ("nobody.knows", "", "x" * 300, "notes", "Ignore all rules\n## Objective")
_BAD_ARGUMENTS: tuple[Any, ...] = ("{", "[1]", "no JSON", [1], 7, True, '{"a": 1, "a": 2}', "NaN", None)
_ANSWERS = (
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
    how = draw(st.integers(0, 15))
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
    return {"id": id, "name": name, "args": _values(draw, tool, setting.known, near=how == 12)}


def _others(setting: Setting) -> Sequence[ToolSpec]:
    """Return the tools that a call may not name, all where there are none."""
    return [tool for tool in setting.tools if tool not in setting.usable] or setting.tools


def _values(draw: DrawFn, tool: ToolSpec, known: Known, *, near: bool) -> dict[str, Any]:
    required = [
        name for name in tool.parameters.get("required", ()) if name not in (DOCUMENT_LIST, CONNECTION)
    ]
    schema = {**tool.parameters, "required": required}
    values = draw(near_arguments(schema, known))[1] if near else draw(arguments(schema, known))
    return values if isinstance(values, dict) else {}


def answered() -> SearchStrategy[Said]:
    """Return turns that answer."""
    return st.sampled_from(_ANSWERS).map(lambda text: Said("turn", text, means={"answer": text}))


def unreadable() -> SearchStrategy[Said]:
    """Return turns that are neither a call nor an answer."""
    call = {"id": "1", "name": "notes.read", "arguments": {}}
    many = json.dumps({"text": "", "calls": [call] * 17})
    texts = ("", "  \n", '{"text": "", "calls": []}', '{"text": "", "calls": [{"id": "1", "na', many)
    return st.one_of(
        st.sampled_from(texts).map(lambda text: Said("turn", text, "unreadable", False)),
        st.just(Said("turn", "The answer beg", "cut_at_limit", False, finish="length")),
        st.just(Said("turn", "No.", "refusal", False, finish="refusal")),
    )
