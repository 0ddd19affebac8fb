"""One run as the page shows it, read as far as it has come; a run that goes on is read on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

import orjson
from pydantic import ValidationError

from ...states.base.errors import Erased, JournalDamaged, PaorError, UsageError
from ...states.run.spec import Spec
from ...states.run.state import Run
from ..decision.guard_context import GuardContext
from ..decision.run_resources import RunResources
from ..diagrams.drawing import playable
from ..diagrams.graph import graph_of
from ..explain.calls import RunCall, change_of
from ..explain.story import criteria_of, is_given, used_of
from ..explain.why import not_derived
from ..journal.erasure_log import numbers_of, ranges_of
from ..journal.lineage import SharedPart, part_with
from ..journal.reader import JournalReader, damage_told
from ..journal.rows import StoredDocument, Transition, transition_of
from ..lifecycle.subruns import called_runs
from ..machine.machine import MACHINE, Machine
from ..machine.stop_rules import read_case
from ..replay.machines import machines_of
from ..replay.recorded_outcome import recorded_outcome
from ..replay.replay import replay
from ..replay.restore import run_after, run_at, run_before
from ..verify.references import references
from ..verify.verify import Defect, run_defects
from ..versioning.amendments import amend_spec
from .run_limits import cost_of, policy_with_calls
from .run_lines import arguments_of, run_line, spec_data
from .run_rows import RowDetails, RunRows

UNREADABLE = (Erased, JournalDamaged, ValidationError, ValueError, LookupError, TypeError)
"""What reading a record can raise that was erased, or is not as paor wrote it."""


class RunStates:
    """
    States of a run by row, without the host's code.

    Args:
        journal: That holds it.
        run_id: Its id.
        parts: Of which it consists, by the number of the run that each belongs to.

    A state that needs an erased text is not there, nor is any later one: `note` says why.
    """

    def __init__(self, journal: JournalReader, run_id: str, parts: Mapping[int, SharedPart]) -> None:
        self.journal, self.run_id, self.parts = journal, run_id, parts
        self.kept: dict[int, Run] = {}
        self.derived: list[GuardContext] = []
        self.note = ""
        self.ends = 2**32
        self._resources: tuple[object, RunResources] | None = None

    def cases(self, rows: Sequence[Transition]) -> Iterator[tuple[Transition, GuardContext | None]]:
        """Yield each of *rows*, which follow each other, with its case as the machine read it; None where it cannot be derived."""
        if rows and rows[-1].seq < len(self.derived):  # by the replay
            yield from zip(rows, self.derived[rows[0].seq :], strict=False)
            return
        run: Run | None = None
        for row in rows:
            case = None
            if row.seq < self.ends:
                try:
                    run = run_at(
                        self.journal, run if run is not None else self._state(row.seq), row, self.parts
                    )
                    case = self._case(run, row)
                    run, _ = run_after(self.journal, run, row)
                except UNREADABLE as error:
                    self._end(row.seq, error)
            yield row, case
        if run is not None and rows[-1].seq < self.ends:
            self.kept[rows[-1].seq + 1] = run

    def _state(self, seq: int) -> Run:
        """Return the run before row *seq*: kept from the rows before, or read from the journal."""
        return self.kept[seq] if seq in self.kept else run_before(self.journal, self.run_id, seq)

    def _end(self, seq: int, error: Exception) -> None:
        self.ends, self.note = seq, not_derived(error)

    def _case(self, run: Run, row: Transition) -> GuardContext:
        if self._resources is None or self._resources[0] is not run.spec:
            self._resources = run.spec, RunResources(run.spec)
        return read_case(run, recorded_outcome(self.journal, run, row), self._resources[1], row.at)


CHUNK = 256
"""Rows that the page loads together."""

_BATCH = 2000


class RunView:
    """
    One run.

    Args:
        journal: That holds it.
        run_id: Its id, or an unambiguous prefix.
        checked: Whether `head` says what `checks` finds; a page that follows the journal asks for that by itself.
        defects: Finds what is wrong with a run by its number; by default in a pass for each.

    Attributes:
        rows: Its columns, as far as they were read.
    """

    def __init__(
        self,
        journal: JournalReader,
        run_id: str,
        *,
        checked: bool = True,
        defects: Callable[[int], Sequence[Defect]] | None = None,
    ) -> None:
        self.journal, self.checked = journal, checked
        self._defects_of = defects or partial(run_defects, journal)
        self.row = journal.run(run_id)
        self.run_id = self.row.run_id
        self.parts = {part.run: part for part in journal.lineage(self.row.run)}
        self._begin()
        self.advance()

    def _begin(self) -> None:
        """Forget every row."""
        self.rows = RunRows(self.row.run)
        self._states = RunStates(self.journal, self.run_id, self.parts)
        self._breaks: list[Transition] = []
        self._machines: list[Machine | None] = []
        self._documents_at: tuple[int, list[StoredDocument]] = (-1, [])
        self._newest: list[tuple[tuple[Any, ...], Transition]] = []
        self._gone = self._erased()

    # -- reading on ------------------------------------------------------------------------------------------------

    def advance(self) -> int:
        """Read the rows that have come since, and all of them again once a text was erased; return how many are new."""
        before = self.rows.count
        self.row = self.journal.run(self.run_id)
        erased = self._erased()
        if erased != self._gone:
            self._begin()
            self._gone = (
                erased  # as it was read before the rows: what is erased from here on is noticed the next time
            )
        with damage_told(self.run_id):
            while self.rows.count <= self.row.head_seq:
                values = self._values(self.rows.count, min(self.rows.count + _BATCH, self.row.head_seq + 1))
                if not values:
                    break
                self._newest = [(item, transition_of(item)) for item in values]
                for _, row in self._newest:
                    if "spec" in row.request or not self._breaks or self._breaks[-1].run != row.run:
                        self._breaks.append(row)
                    self.rows.add(row, change_of(self.journal, row), erased=self._lacks(row, erased))
            if len(self._machines) != len(self._breaks) + 1:
                self._machines = machines_of(self.journal, self.row.run, self._breaks)
        return self.rows.count - before

    def _values(self, first: int, end: int) -> list[tuple[Any, ...]]:
        """Return the plain rows from *first* to before *end*, shared ones too."""
        found: list[tuple[Any, ...]] = []
        starts = [*(part.first_seq for part in self.parts.values()), 2**32]
        for part, limit in zip(self.parts.values(), starts[1:], strict=True):
            low, high = max(first, part.first_seq), min(end, limit) - 1
            if low <= high:
                found += self.journal.own_rows(part.run, low, high)
        return found

    def _erased(self) -> dict[int, frozenset[int]]:
        """Return the numbers of the texts that were erased, by the run that each belongs to."""
        return {part: frozenset(numbers_of(self.journal.erasures(part))) for part in self.parts}

    def _lacks(self, row: Transition, erased: Mapping[int, frozenset[int]]) -> bool:
        """Return whether a text of a row was erased; of a fork's own row also one that its parent stored."""
        if not any(erased.values()):
            return False
        numbers = [item["n"] for item in references([row.request, row.outcome, row.change])]
        parts = tuple(self.parts.values())
        return any(number in erased[part_with(parts, "first_payload", number).run] for number in numbers)

    def _machine(self, seq: int) -> Machine | None:
        """Return the machine that decided row *seq*; None once its record was erased."""
        found = self._machines[-1] if not self._breaks else self._machines[0]
        for row, machine in zip(self._breaks, self._machines, strict=False):
            if row.seq <= seq:
                found = machine
        return found

    # -- rows ------------------------------------------------------------------------------------------------------

    def chunk(self, number: int) -> dict[str, Any]:
        """
        Return the rows of one chunk with their texts.

        Raises:
            UsageError: There is no such chunk.
            JournalDamaged: A row or a text of it cannot be read.
        """
        with damage_told(self.run_id):
            return self._chunk(number)

    def _chunk(self, number: int) -> dict[str, Any]:
        first = number * CHUNK
        if not 0 <= first <= max(self.rows.count - 1, 0):
            raise UsageError(f"run {self.run_id} has no rows {first:,} and later")
        found = self._newest
        if first or not len(found) == self.rows.count <= CHUNK:
            values = self._values(first, min(first + CHUNK, self.rows.count))
            found = [(item, transition_of(item)) for item in values]
        details = RowDetails(self.journal, self.row, self.rows, self._stored())
        cases = self._states.cases([row for _, row in found])
        rows = [
            details.row(plain, row, case, self._machine(row.seq) or MACHINE, self._states.note)
            for (plain, _), (row, case) in zip(found, cases, strict=True)
        ]
        return {"first": first, "rows": rows, "texts": details.texts}

    def entries(self, first: int) -> list[dict[str, Any]]:
        """Return the rows from *first* on as the list of rows has them."""
        return [{"seq": seq, "entry": self.rows.entry(seq)} for seq in range(first, self.rows.count)]

    # -- the run as a whole ----------------------------------------------------------------------------------------

    def head(self, line: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """
        Return everything about the run but its rows one by one.

        Args:
            line: Its line of the list of runs, where that was made before.

        Raises:
            JournalDamaged: It cannot be read.
        """
        with damage_told(self.run_id):
            return self._head(line)

    def _head(self, line: Mapping[str, Any] | None) -> dict[str, Any]:
        row, spec = self.row, self._spec()
        calls = self.rows.reader.calls
        return {
            "line": line or run_line(self.journal, row),
            "criteria": criteria_of(spec, self.rows.last, self.rows.evidence),
            "answer": self.rows.answer,
            "tone": _TONES[row.status],
            "facts": self._facts(),
            "chain": self._chain(),
            **(self.checks() if self.checked else {"replay": None, "verify": None}),
            "machine": machine_data(self._machines[-1] or MACHINE),
            "chunk": CHUNK,
            "rows": self.rows.wire(),
            "calls": [self._call(index, call) for index, call in enumerate(calls)],
            "limits": [asdict(item) for item in used_of(spec, self.rows.last)] if spec is not None else [],
            "policy": policy_with_calls(spec, calls, self.rows.refused) if spec is not None else None,
            "cost": cost_of(self.rows, calls),
            "documents": self._documents(),
            "erasures": self._erasures(),
            "amendments": self._amendments(),
            "forks": self._forks(),
            "tasks": self._tasks(),
        }

    def _spec(self) -> Spec | None:
        """Return the spec in force, None once erased."""
        try:
            spec = self.journal.spec(self.run_id)
            for row in self._breaks:
                if "spec" in row.request and row.run == self.row.run:
                    spec = amend_spec(spec, self.journal.payload(row.run, row.request["spec"]["n"]).body)
        except UNREADABLE:
            return None
        return spec

    def _facts(self) -> list[list[str]]:
        data = spec_data(self.journal, self.row)
        profile = data.get("profile")
        stage = profile.get("stage") if isinstance(profile, dict) else None
        told = [
            ("paor", data.get("engine")),
            ("mode", data.get("mode")),
            ("stage", stage),
            ("language", data.get("language")),
            ("task type", data.get("task_type")),
            ("machine", "the host's own" if data.get("host_machine") else None),
            ("context", data.get("context")),
        ]
        return [[name, str(value)] for name, value in told if value]

    def _chain(self) -> dict[str, Any]:
        parts = [
            {
                "run_id": part.run_id,
                "run": number,
                "root": orjson.dumps(self.journal.root_columns(number), option=orjson.OPT_SORT_KEYS).decode(),
                "first": part.first_seq,
            }
            for number, part in self.parts.items()
        ]
        return {"parts": parts, "head": self.row.head_hash.hex()}

    def checks(self) -> dict[str, Any]:
        """Return what a replay and a verification of the run find; takes about a millisecond a row."""
        defects = self._defects()
        return {"replay": self._replay(), "verify": {"defects": defects[:_SHOWN], "count": len(defects)}}

    def _replay(self) -> dict[str, Any]:
        cases: list[GuardContext] | None = [] if self.rows.count <= CHUNK else None
        try:
            found = replay(self.journal, self.run_id, cases=cases)
        except PaorError as error:
            return {
                "identical": False,
                "rows": 0,
                "divergences": [],
                "count": 0,
                "unchecked": [],
                "changed": [],
                "error": str(error),
            }
        if found.identical and cases and not any(case.given or case.fresh for case in cases):
            self._states.derived = cases
        return {
            "identical": found.identical,
            "rows": found.transitions,
            "divergences": [
                {
                    "seq": item.seq,
                    "field": item.field,
                    "recorded": item.expected,
                    "derived": item.found,
                }
                for item in found.divergences[:_SHOWN]
            ],
            "count": len(found.divergences),
            "unchecked": [
                {"seq": item.seq, "field": item.field, "why": item.why} for item in found.unchecked[:_SHOWN]
            ],
            "changed": [str(item) for item in found.changed],
        }

    def _defects(self) -> list[str]:
        try:
            return [str(item) for number in self.parts for item in self._defects_of(number)]
        except PaorError as error:
            return [str(error)]

    def _call(self, index: int, call: RunCall) -> dict[str, Any]:
        rows, place = self.rows, self.rows.decided_at[index]
        asked = call.asked_at
        return {
            "seq": call.seq,
            "last": rows.ends[index],
            "step": call.step,
            "action": call.action,
            "tool": call.tool,
            "effect": call.effect,
            "args": arguments_of(call.arguments),
            "outcome": call.outcome,
            "result": call.result,
            "key": rows.keys[index],
            "took_us": call.ended_at - call.started_at if call.ended_at and call.started_at else None,
            "cost_micro": rows.costs[index],
            "caller": call.caller,
            "decided": [
                {
                    "decision": item.decision,
                    "actor": item.actor,
                    "reason": item.reason,
                    "at": item.at,
                    "after_us": item.at - asked if asked else None,
                    "seq": place[order] if order < len(place) else None,
                }
                for order, item in enumerate(call.decided)
            ],
        }

    def _stored(self) -> list[StoredDocument]:
        """Return the documents, read again once there are more rows."""
        if self._documents_at[0] != self.rows.count:
            self._documents_at = self.rows.count, self.journal.documents(self.run_id)
        return self._documents_at[1]

    def _documents(self) -> list[dict[str, Any]]:
        found = []
        for item in self._stored():
            payload = self.journal.find_payload(self.row.run, item.payload)
            found.append(
                {
                    "number": item.number,
                    "label": item.label,
                    "name": item.name,
                    "mime": item.mime,
                    "bytes": item.bytes,
                    "digest": item.digest,
                    "given": is_given(self.row, item.label),
                    "erased": payload is None or payload.body is None,
                    "text": f"{self.row.run}.{item.payload}",
                }
            )
        return found

    def _erasures(self) -> list[dict[str, Any]]:
        return [
            {"at": item.at, "reason": item.reason, "by": item.by, "payloads": _ranges(item.payloads)}
            for part in self.parts
            for item in self.journal.erasures(part)
        ]

    def _amendments(self) -> list[dict[str, Any]]:
        found = []
        for row in self._breaks:
            if "spec" in row.request:
                body = self.journal.payload(row.run, row.request["spec"]["n"]).body
                data = orjson.loads(body) if body is not None else {}
                found.append({"seq": row.seq, "parts": sorted(data) if isinstance(data, dict) else []})
        return found

    def _forks(self) -> list[dict[str, Any]]:
        return [{"id": run_id, "seq": seq} for run_id, seq in self.journal.forks(self.run_id)]

    def _tasks(self) -> list[dict[str, Any]]:
        return [run_line(self.journal, row) for row in called_runs(self.journal, self.row)]


_SHOWN = 50
"""Differences and defects that are named; all are counted."""

_TONES = {"done": "done", "failed": "failed", "waiting": "waits", "running": "runs"}
"""By status of a run how the page colours it."""


def _ranges(text: str) -> str:
    try:
        return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges_of(text))
    except ValueError:
        return ""


@lru_cache(maxsize=32)
def machine_data(machine: Machine) -> dict[str, Any]:
    """Return a machine as the page draws and explains it; not to be changed, since it is drawn once for all of its runs."""
    sentences = {
        name: " ".join((guard.__doc__ or "").split("\n\n")[0].split())
        for name, guard in machine.guards.items()
    }
    return {
        **playable(graph_of(machine.rows, None, machine.host))._asdict(),
        "rows": [
            {
                "source": row.source,
                "trigger": row.trigger,
                "dest": row.dest,
                "meaning": row.meaning,
                "guards": [[name, True] for name in row.conditions] + [[name, False] for name in row.unless],
                "when": "both" if row.guards == ("hard_stop",) else "waiting" if row.answers else "going",
                "host": row.host,
            }
            for row in machine.rows
        ],
        "guards": sentences,
    }


__all__ = ["CHUNK", "RunView", "machine_data"]
