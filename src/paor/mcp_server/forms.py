"""
What of the story's JSON goes to a coding agent: the forms of the answers, and the sieve that holds every value to its form.

A form says of each key what may stand there. A name, a number and a sentence of paor's own are shown as they are, and only in the form of
one: a file that was changed may hold anything anywhere. Every other text is somebody else's. It is shown where that was asked for, under
the key ``untrusted``, without keys and passwords, bounded, with every character that cannot be seen as an escape; else it is null.
What no form declares is not shown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ..fsm.explain.story import LEFT_OUT, name_of
from ..fsm.machine.guards import GUARDS
from ..fsm.machine.table import TABLE
from ..fsm.transfer.redaction import OutgoingText
from ..prompts.clients.settings import outgoing_secrets
from ..states.run.phase_names import PHASES
from ..states.run.reasons import REASONS

CHARS, CHARS_MAX = 1_500, 20_000
"""Characters of one text, unless the caller asks for another number; and most that can be asked for."""
TOTAL_CHARS = 60_000
"""Characters of all texts of an answer together: about 15,000 tokens."""

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls but tab and line feed, and what shows nothing: direction, width, tags, variation selectors, lone surrogates."""


def visible(text: str) -> str:
    r"""Return *text* with every hidden character as ``\u{200b}``."""
    return _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def without_secrets(text: str) -> str:
    """Return *text* without the keys of the environment and what looks like a key, a token or a password."""
    return OutgoingText(outgoing_secrets())(text)


class Texts:
    """
    Shows the texts of one answer, or none.

    Args:
        shown: Whether any is shown.
        chars: Characters of one text at most.
        tools: Names of tools that are known; any other one is a text.
    """

    def __init__(self, shown: bool, chars: int = CHARS, tools: Iterable[str] = ()) -> None:
        self.shown, self.tools = shown, frozenset(tools)
        self._chars, self._left = chars, TOTAL_CHARS
        self._outgoing = OutgoingText(outgoing_secrets())

    def __call__(self, value: object) -> dict[str, Any] | None:
        """Return a text, or data as JSON, as it is shown; None where none is, also for one that was erased."""
        if not self.shown or value is None:
            return None
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        room = min(self._chars, self._left)
        safe = visible(self._outgoing.beginning(text, room))
        told = safe[:room]
        self._left -= len(told)
        return {"untrusted": told, "left_out": len(safe) - len(told) + max(0, len(text) - room)}

    def unless_in(self, known: Collection[object], value: object) -> Any:
        """Return a value that is known as it is, any other as a text."""
        return value if value in known else self(value)


Form = Callable[[Texts, Any], Any] | Mapping[str, Any] | list[Any]
"""Of an object the forms by key, of a list that of its items, else what returns a value as it is shown."""

_SENTENCES = frozenset(
    (
        *(row.meaning for row in TABLE),
        *(" ".join((guard.__doc__ or "").split("\n\n")[0].split()) for guard in GUARDS.values()),
        *REASONS.values(),
        *(f"{name}: {meaning}" for name, meaning in REASONS.items()),
        "what the guards looked at was erased; their values stand in the journal",
        "the immutable columns do not fit their hash",
        "key and metadata are not what its spec says",
        "its derived columns are not what the rows say",
        "its number is out of range",
    )
)
"""Sentences that are paor's own, whatever a journal holds."""

_PLACE = re.compile(r"[a-z_]+(?: [a-z_]+){0,2}(?: -?\d+)?")
_STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}(?:\[\d+\])?")


def as_facts(texts: Texts, value: Any) -> Any:
    """Return a JSON column of a row, every text in it in the form of a name."""
    if isinstance(value, Mapping):
        return {name_of(name): as_facts(texts, item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_facts(texts, item) for item in value]
    return value and name_of(value) if isinstance(value, str) else _KINDS["number"](texts, value)


def as_field(_: Texts, value: Any) -> Any:
    """Return the place of a difference without the keys of foreign data: the first two steps of ``change.intent.arguments.city``."""
    return value and ".".join(step if _STEP.fullmatch(step) else LEFT_OUT for step in value.split(".")[:2])


def as_part(_: Texts, value: Any) -> Any:
    """Return the name of a part in which two runs differ, without names that the host's values have."""
    if value.startswith("values."):
        return "values"
    head, mark, rest = value.partition(": ")
    if mark:
        return f"{name_of(head)}: {', '.join(map(name_of, rest.split(', ')))}"
    return value if all(name_of(word) == word for word in value.split(" ")) else LEFT_OUT


def as_defect(texts: Texts, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is wrong with a place; of a changed file even the names in it may be text of somebody else."""
    place, problem = str(value["place"]), str(value["problem"])
    foreign = place.startswith(("file", "view runs", "specs")) or any(mark in problem for mark in "('\"")
    foreign = foreign or problem.endswith(" is not in the table here")
    return {
        "run_id": name_of(value["run_id"]) if value["run_id"] else "",
        "place": place if _PLACE.fullmatch(place) else LEFT_OUT,
        "problem": texts.unless_in(_SENTENCES, problem) if foreign else problem,
    }


def sieved(texts: Texts, value: Any, form: Form) -> Any:
    """Return JSON data as it is shown."""
    if value is None:
        return None
    if isinstance(form, list):
        return [sieved(texts, item, form[0]) for item in value]
    if not isinstance(form, Mapping):
        return form(texts, value)
    data = value if isinstance(value, Mapping) else value.__dict__
    return {name: sieved(texts, item, form[name]) for name, item in data.items() if name in form}


_KINDS: Mapping[str, Callable[[Texts, Any], Any]] = {
    "own": lambda texts, value: value,
    "name": lambda texts, value: value if value == "" else name_of(value),
    "number": lambda texts, value: value if isinstance(value, int) or _is_finite(value) else None,
    "guard": lambda texts, value: " ".join(map(name_of, value.split(" "))),
    "text": Texts.__call__,
    "sentence": lambda texts, value: texts.unless_in(_SENTENCES, value),
    "tool": lambda texts, value: texts.unless_in({*texts.tools, *PHASES}, value),
    "facts": as_facts,
    "field": as_field,
    "part": as_part,
    "defect": as_defect,
}
"""
How values are shown: what paor has said itself; a name, or the empty text; a number, or true or false; a guard, perhaps after ``not``; a text of
somebody; a sentence of paor's own, else a text; a tool or phase that is known, else a text; and what the functions above return.
"""


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _form(parts: Mapping[str, Form] = MappingProxyType({}), /, **kinds: str) -> dict[str, Form]:
    """Return the form of an object: the kind of each key, with ``*`` that of the items of its list, and *parts* as they are."""
    found: dict[str, Form] = {}
    for kind, names in kinds.items():
        for name in names.split():
            form: Form = _KINDS[kind]
            for _ in range(name.count("*")):
                form = [form]
            found[name.rstrip("*")] = form
    return found | dict(parts)


_QUESTION = _form(
    name="run_id id kind effect approval key", text="message arguments schema", tool="tool", number="asked_at"
)
_RUN = _form(
    {"called_by": _form(name="run_id", number="action")},
    name="run_id workflow_id parent_run_id spec state status reason head_hash",
    number="run round task parent_seq created_at ended_at head_seq",
    text="key metadata conversation objective driver",
)
_ROW = _form(
    guard="decided*",
    number="seq at step action attempt tokens_in tokens_out cost_micro time_us",
    name="trigger source dest asked model judge marks*",
    text="said actor",
    tool="tool",
    own="came",
)
_WAY = _form(
    {"guards": [_form(name="guard", number="wanted value", sentence="fact")]},
    name="trigger dest fate",
    sentence="meaning",
)
_CALL = _form(
    {"decided": [_form(own="decision", number="at seq", text="actor reason")]},
    number="seq last step action asked_at started_at ended_at documents_count",
    name="effect caller key",
    text="arguments asked result label decision documents*",
    tool="tool",
    own="outcome",
)
_DOCUMENT = _form(
    number="number position bytes given erased", text="label name mime reference text base64", name="digest"
)
_SPEC = _form(
    text="objective language context values success_criteria*",
    name="task_type mode model final_format engine machine",
    facts="limits profile",
    tool="tools*",
)
_STORY = _form(
    {
        "run": _RUN,
        "spec": _SPEC,
        "policy": _form(text="never* only* asks*", tool="offered* denied**"),
        "used": [_form(own="name", name="counter unit", number="used allowed")],
        "criteria": [_form(text="criterion evidence", number="met")],
        "waiting_for": _QUESTION,
        "documents": [_DOCUMENT],
        "erasures": [_form(number="number at", text="rule payloads reason", name="hash")],
        "calls": [_CALL],
        "rows": [_ROW],
    },
    name="called**",
    sentence="means",
    text="answer",
    own="more",
)
WHY = _form(
    {
        "told": _ROW,
        "candidates": [_WAY],
        "question": _QUESTION,
        "not": _form({"candidates": [_WAY]}, name="phase", text="answer"),
    },
    name="run_id source trigger dest",
    number="seq decided waiting",
    own="request",
    sentence="note",
)
_ONE_ROW = _form(
    {
        "row": _form(
            number="run seq at step action retries tokens_in tokens_out cost_micro time_us",
            name="trigger source dest prev_hash hash",
            facts="guards request outcome change counters",
        ),
        "why": WHY,
    },
    text="thought reply answer set prompt* inner*",
    name="roles*",
    number="replied erased",
)
SHOW = {**_STORY, **_ONE_ROW, **_DOCUMENT}
"""The story of a run; one row; or one document."""

RUNS = _form({"runs": [{**_RUN, "waiting_for": _QUESTION, "used": as_facts}]}, own="more")
_SIDE = _form(name="run_id state status reason", number="transitions steps tokens cost seconds", text="text")
DIFF = _form(
    {"left": _SIDE, "right": _SIDE},
    field="field",
    number="identical shared seq line decision_seq same_end same_answer",
    name="source cause",
    text="detail",
    part="parts* others*",
)
_DIFFERENCE = _form(field="field", number="seq", text="expected found where why")
VERIFY = _form(defect="defects* unchecked*", number="ok runs transitions heads", own="more")
REPLAY = _form(
    {
        "divergences": [_DIFFERENCE],
        "unchecked": [_DIFFERENCE],
        "changed": [_form(part="part", facts="visited", number="may_visit")],
        "accepted": [_form(number="seq", part="parts*")],
    },
    number="transitions identical",
    name="run_id",
    text="error",
    own="more",
)
