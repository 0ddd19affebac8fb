"""
Two runs' rows made comparable: what differs between any two runs, whatever they did, is taken out of them.

That is ids, times, salts and what is made of them: run ids within texts, digests and numbers of payloads (their content
takes their place), duplicate and idempotency keys, the ids of plans that came without one.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from ...states.records.actions import DocumentRef
from ..journal.lineage import SharedPart
from ..journal.payloads import content_key
from ..journal.reader import JournalReader
from ..journal.rows import Transition

ERASED = "(erased)"
"""In the place of a text that is not there any more; it is like every text."""

_OWN_KEYS = frozenset({"key", "idempotency_key", "salt", "approval", "run_id", "at"})
_PLAN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_BODY_MAX = 2000
"""Characters of a text that stand in a comparable value; of a longer one its digest."""

_FIRST = {
    name: place for place, name in enumerate(("kind", "trigger", "dest", "guards", "outcome", "counters"))
}
"""What is told first when several things differ; the others follow by name."""

USAGE = ("tokens_in", "tokens_out", "cost_micro")


class Reader:
    """
    One run as comparable rows.

    Args:
        journal: That holds it.
        run_id: Its whole id.
    """

    def __init__(self, journal: JournalReader, run_id: str) -> None:
        self.journal = journal
        self.row = journal.run(run_id)
        self.parts: tuple[SharedPart, ...] = journal.lineage(self.row.run)
        self.rows: list[Transition] = journal.transitions(self.row.run_id)
        self._ids = [part.run_id for part in self.parts]

    def text(self, row: Transition, place: Any) -> str:
        """Return the text of a payload that a row refers to, without ids of the run."""
        body = self.journal.payload(row.run, place["n"]).body
        if body is None:
            return ERASED
        return self.plain(body if isinstance(body, str) else body.decode("utf-8", "backslashreplace"))

    def plain(self, text: str) -> str:
        """Return *text* without the ids of the run and of plans that it made itself."""
        for run_id in self._ids:
            text = text.replace(run_id, "RUN")
        return _PLAN_ID.sub("PLAN", text)

    def input(self, document: DocumentRef) -> str | bytes | None:
        """Return the body of a document that the run was given."""
        return self.journal.payload(self.parts[0].run, document.payload.n).body

    def prompt(self, row: Transition) -> list[str]:
        """Return the messages of a model request."""
        return [self.text(row, place) for place in row.request.get("prompt", ())]

    def request_facts(self, row: Transition) -> dict[str, Any]:
        """Return a row's request without its prompt and without the model's name."""
        kept = {name: value for name, value in row.request.items() if name not in ("prompt", "model")}
        if "payloads" in kept:
            kept["payloads"] = [self.value(row, {"n": number}) for number in kept["payloads"]]
        return kept

    def outcome_facts(self, row: Transition) -> dict[str, Any]:
        """Return a row's outcome as far as it came from outside: texts, codes, how it ended; no usage, no label."""
        facts = row.outcome
        found: dict[str, Any] = {"kind": facts["kind"]}
        for name in ("reply", "message", "answer"):
            if isinstance(facts.get(name), dict):
                found[name] = self.text(row, facts[name])
        for name in ("finish", "code", "action"):
            if name in facts:
                found[name] = facts[name]
        for index, (prompt, reply) in enumerate(facts.get("texts", ())):
            found[f"texts[{index}].prompt"] = self.text(row, prompt)
            found[f"texts[{index}].reply"] = self.text(row, reply)
        if facts["kind"] == "result":
            change_facts = self.change_facts(row)
            found["result"] = change_facts if isinstance(change_facts, str) else change_facts.get("result")
        return found

    def decision_facts(self, row: Transition) -> dict[str, Any]:
        """Return what was decided at a row: the transition, its guards, what it set, its counters; no usage."""
        facts = {
            name: row.outcome.get(name) for name in ("invalid", "stop", "duplicate", "skipped", "dropped")
        }
        counters = {name: value for name, value in row.counters.items() if name != "calls"}
        return {
            "trigger": row.trigger,
            "dest": row.dest,
            "guards": dict(row.guards),
            "outcome": {name: value for name, value in facts.items() if value is not None},
            "counters": counters | {"step": row.step, "action": row.action, "retries": row.retries},
            "change": self.change_facts(row),
        }

    def change_facts(self, row: Transition) -> Any:
        """Return what a row set, as a mapping of slots."""
        body = self.journal.payload(row.run, row.change["n"]).body
        return ERASED if body is None else self.value(row, orjson.loads(body))

    def value(self, row: Transition, data: Any) -> Any:
        """Return JSON with the content of payloads in the place of their numbers, and without keys of the run's own."""
        if isinstance(data, dict):
            if type(data.get("n")) is int and set(data) <= {"n", "bytes", "digest"}:
                return self._content(row, data["n"])
            kept = {name: item for name, item in data.items() if name not in _OWN_KEYS}
            return {name: self.value(row, item) for name, item in kept.items()}
        if isinstance(data, list):
            return [self.value(row, item) for item in data]
        return self.plain(data) if isinstance(data, str) else data

    def _content(self, row: Transition, number: int) -> str:
        found = self.journal.find_payload(row.run, number)
        if found is None or found.body is None:
            return ERASED
        if isinstance(found.body, str) and len(found.body) <= _BODY_MAX:
            return self.plain(found.body)
        return content_key(found.body).hex()


def alike(one: Any, other: Any) -> bool:
    """Whether two comparable values are the same; what was erased is like anything."""
    if any(isinstance(value, str) and value == ERASED for value in (one, other)):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) and type(one) is type(other)


def first_place(one: Any, other: Any, name: str = "") -> tuple[str, Any, Any]:
    """Return the place of the first difference within two comparable values, and what is there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=_rank):
            if key not in one or key not in other or not alike(one[key], other[key]):
                return first_place(one.get(key), other.get(key), f"{name}.{key}" if name else str(key))
    if isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            if not alike(left, right):
                return first_place(left, right, f"{name}[{index}]")
        if len(one) != len(other):
            index = min(len(one), len(other))
            missing = (one[index] if index < len(one) else None, other[index] if index < len(other) else None)
            return f"{name}[{index}]", *missing
    return name, one, other


def _rank(key: str) -> tuple[int, str]:
    """Order the keys of a mapping: how it came out first, then what a tool asked of a model, then the rest."""
    return (1 if key.startswith("texts[") else _FIRST.get(key, len(_FIRST)) + 1 if key != "kind" else 0), key


def first_line(one: Any, other: Any) -> tuple[int, str, str]:
    """Return number (from 1) and text of the first line in which two values differ; one that says something, if any."""
    before, after = _lines(one), _lines(other)
    blank: tuple[int, str, str] | None = None
    for index in range(max(len(before), len(after))):
        left = before[index] if index < len(before) else "(end)"
        right = after[index] if index < len(after) else "(end)"
        if left == right:
            continue
        if left.strip() not in ("", "(end)") or right.strip() not in ("", "(end)"):
            return index + 1, left, right
        blank = blank or (index + 1, left, right)
    return blank or (1, before[0], after[0])


def _lines(value: Any) -> list[str]:
    if value is None:
        return ["(nothing)"]
    return (value if isinstance(value, str) else orjson.dumps(value).decode()).split("\n")
