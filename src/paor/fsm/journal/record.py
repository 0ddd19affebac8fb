"""
One row of the journal as a value, the text that it is stored as, and its place in the hash chain.

The text is a JSON object with sorted keys: ASCII keys, short ASCII texts from closed lists, digests and whole numbers below 2^53; no free
text of a user, a model or a tool. So the bytes **are** its RFC 8785 (JCS) form. They are stored as they are hashed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any

import orjson
from msgspec import MsgspecError, Raw, defstruct
from msgspec.json import Decoder, Encoder

from .rows import Transition

COLUMNS = Transition._fields
"""Columns of the view `transitions` without the key, in its order."""

Row = tuple[Any, ...]
"""
One row as values: the columns of `Transition` in their order, but those that are JSON as their canonical text, and the two hashes as 32
bytes. A plain tuple: a run of many rows is read, checked and written as such.
"""

PREV_HASH = COLUMNS.index("prev_hash")
"""Place of the first hash; what is before it is given to `chain_hash`."""

HASHED = COLUMNS[1:PREV_HASH]
"""Columns under the hash: not the two hashes, and not the run's number, which another file may give to another run."""

GUARD_LETTERS: Mapping[str, str] = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHI",
        [
            "action_allowed",
            "answer_present",
            "answer_valid",
            "approval_needed",
            "argument_missing",
            "budget_used_up",
            "concluded",
            "criteria_met",
            "duplicate",
            "elicitation_requested",
            "elicitations_left",
            "final_action_pending",
            "hard_stop",
            "in_doubt",
            "input_required",
            "parameter_retries_left",
            "parameters_ok",
            "parameters_safe",
            "parameters_valid",
            "plan_has_steps",
            "reply_invalid",
            "result_known",
            "retries_left",
            "retryable",
            "review_retries_left",
            "review_retry",
            "review_success",
            "selection_ok",
            "selection_retries_left",
            "selection_valid",
            "should_continue",
            "step_retries_left",
            "steps_left",
            "stop_reached",
            "tools_offered",
        ],
        strict=True,
    )
)
"""By letter the guards that a row names by it. A new guard gets the next letter, also in both schemas; a letter never gets another name."""

_LETTER_OF = {name: letter for letter, name in GUARD_LETTERS.items()}

_JSON = ("guards", "request", "outcome", "change", "counters")
_JSON_AT = tuple(HASHED.index(name) for name in _JSON)
_GUARDS_AT = HASHED.index("guards")
_NONE = '{"kind":"none"}'
_DEFAULTS: dict[str, Any] = {
    "action": 0,
    "cost_micro": 0,
    "counters": Raw("{}"),
    "guards": "",
    "outcome": Raw(_NONE),
    "own_guards": Raw("{}"),
    "request": Raw(_NONE),
    "retries": 0,
    "step": 0,
    "time_us": 0,
    "tokens_in": 0,
    "tokens_out": 0,
}
"""What a row's text leaves out, by key."""

_TYPES: dict[str, Any] = {"trigger": str, "source": str, "dest": str, "guards": str, "change": Raw}


def _type_of(key: str) -> Any:
    return _TYPES.get(key, Raw if type(_DEFAULTS.get(key)) is Raw else int)


RowText = defstruct(
    "RowText",
    [
        (key, _type_of(key), _DEFAULTS[key]) if key in _DEFAULTS else (key, _type_of(key))
        for key in sorted((*HASHED, "own_guards"))
    ],
    gc=False,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
)
"""The object in a row's text: its keys in their order, those that are JSON as `msgspec.Raw`."""

_encode_row = Encoder().encode
decode_row: Callable[[str | bytes], Any] = Decoder(RowText).decode
_columns = attrgetter(*HASHED)
_left_out = {name: (bytes(raw), raw) for name, raw in _DEFAULTS.items() if type(raw) is Raw}


def encode_row(row: Any) -> bytes:
    """Return the one text of what `decode_row` gave."""
    for name, (text, raw) in _left_out.items():
        if bytes(getattr(row, name)) == text:  # written out, as no row is
            setattr(row, name, raw)
    return _encode_row(row)


@lru_cache(maxsize=4096)
def told_guards(guards: str) -> tuple[str, str]:
    """
    Return how a row's text tells of its guards: paor's own by their letters, and the host's as canonical JSON.

    Args:
        guards: The column, a JSON object of names and whether they held.

    Raises:
        ValueError: It is none.
    """
    held, own = orjson.loads(guards), {}
    letters: tuple[list[str], list[str]] = ([], [])
    if type(held) is not dict:
        raise ValueError("guards is no object")
    for name, value in held.items():
        if type(value) is not bool:
            raise ValueError(f"the guard {name!a:.80} is neither true nor false")
        if name in _LETTER_OF:
            letters[not value].append(_LETTER_OF[name])
        else:
            own[name] = value
    told = "-".join("".join(sorted(some)) for some in letters) if letters != ([], []) else ""
    return told, canonical(own)


@lru_cache(maxsize=4096)
def guards_column(letters: str, own: str) -> str:
    """
    Return the column ``guards`` of a row.

    Args:
        letters: Those of the guards of paor's own that held, a hyphen, those of the ones that did not; empty for none.
        own: The host's guards, a JSON object.

    Raises:
        ValueError: No row says it so.
    """
    held, _, failed = letters.partition("-")
    try:
        values = {GUARD_LETTERS[letter]: True for letter in held}
        values |= {GUARD_LETTERS[letter]: False for letter in failed}
        column = canonical(values | orjson.loads(own))
    except (KeyError, TypeError) as error:
        raise ValueError(f"its guards cannot be read: {error}") from None
    if told_guards(column) != (letters, own):
        raise ValueError("its guards are not written as guards are")
    return column


def row_text(values: Row) -> bytes:
    """
    Return the text of a row, as it is stored and hashed, of its columns in the order of `COLUMNS` up to the hashes.

    Raises:
        ValueError: Its guards are none.
        MsgspecError: A column that is JSON is none.
    """
    told: dict[str, Any] = dict(zip(HASHED, values[1:], strict=False))
    told["guards"], told["own_guards"] = told_guards(told["guards"])
    told["change"] = Raw(told["change"])
    for name, (text, raw) in _left_out_texts.items():
        column = told[name]
        told[name] = raw if column == text else Raw(column)
    return _encode_row(RowText(**told))


_left_out_texts = {name: (text.decode(), raw) for name, (text, raw) in _left_out.items()}


def row_of(run: int, text: str | bytes, prev_hash: bytes, hash: bytes) -> Row:
    """
    Return a row as values.

    Args:
        run: Number of the run that it belongs to.
        text: As it is stored.
        prev_hash, hash: Of the chain.

    Raises:
        ValueError: The text is no row.
    """
    try:
        row = decode_row(text)
        values = list(_columns(row))
        values[_GUARDS_AT] = guards_column(row.guards, str(memoryview(row.own_guards), "utf-8"))
    except (MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    for at in _JSON_AT:
        if at != _GUARDS_AT:
            values[at] = str(memoryview(values[at]), "utf-8")
    return (run, *values, prev_hash, hash)


def chain_hash(prev_hash: bytes, values: Row) -> bytes:
    """Return the hash of a row after *prev_hash*: SHA-256(prev_hash || the row's text)."""
    return hashlib.sha256(prev_hash + row_text(values)).digest()


def last_text(run: int, change: str) -> int:
    """
    Return the key of a row's last text, which is its change: run << 32 | number; by it a text is found without reading other rows.

    Raises:
        ValueError: The column ``change`` names no text.
    """
    try:
        number: Any = orjson.loads(change)["n"]
        if type(number) is int and 0 <= number < 2**32:
            return run << 32 | number
    except (LookupError, TypeError):
        pass
    raise ValueError("its change names no text")


def canonical(data: dict[str, Any]) -> str:
    """Return *data* as canonical JSON text: sorted keys, no spaces, ASCII values."""
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


Labels = tuple[str | None, str, str | None]
"""Key, metadata and conversation of a run, as columns."""

NO_LABELS: Labels = (None, "{}", None)
"""Those of a run that has none, or whose spec is erased."""

_sorted_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
"""As the independent script writes it, to the last digit of a fraction."""


def label_columns(spec: Mapping[str, Any], *, fork: bool = False) -> Labels:
    """
    Return the columns ``key``, ``metadata`` and ``conversation`` of a run, which are derived from its spec and go when that is erased.

    A fork is a run of its own and has none; neither is a task of a workflow a round of its conversation.

    Args:
        spec: As JSON data; one that was erased is empty.
        fork: Whether the run is a fork.

    Raises:
        TypeError: What the spec says has no canonical form.
    """
    if fork:
        return NO_LABELS
    conversation = None if spec.get("task_id") else spec.get("conversation")
    return spec.get("key"), _sorted_json(spec.get("metadata", {})), conversation or None


def root_hash(record: dict[str, Any], before: bytes = b"") -> bytes:
    """
    Return the hash that the first own row follows: of the run's immutable columns, the spec's digest among them.

    Args:
        record: The columns.
        before: Of a fork the hash of the last row that it shares, so that its chain goes on where the parent's stood.
    """
    return hashlib.sha256(before + orjson.dumps(record, option=orjson.OPT_SORT_KEYS)).digest()
