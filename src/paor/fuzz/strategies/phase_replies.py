"""Strategies of replies to the host's own phases: objects by the phase's own schema, values that nearly fit it, near misses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ...states.run.spec import Mode
from ...states.settings.limits import LOWERABLE
from ...tools.schema.parameters import ParameterSchema
from .json_schema import arguments, near_arguments
from .reply_builder import Said
from .setting import Setting

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
