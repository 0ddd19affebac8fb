"""What is asked of many runs at once: their order, places in workflows, forks, ends and heads, erasures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import orjson

from .rows import MARK, called_places, caller_at

Query = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]

_AT_ONCE = 500
"""Numbers of runs in one statement."""

_ENDED = "SELECT run FROM transitions WHERE dest IN ('Done', 'Failed')"
"""With these two names in this order an index has the answer."""

_OPEN = (
    "SELECT run FROM specs WHERE NOT EXISTS"
    " (SELECT 1 FROM transitions AS ended WHERE ended.run = specs.run AND ended.dest IN ('Done', 'Failed'))"
)

_NEWEST_ROW = "(SELECT max(id) FROM rows WHERE id BETWEEN specs.run << 32 AND specs.run << 32 | 4294967295)"
_SPEC_BODY = "LEFT JOIN texts ON texts.id = (specs.run << 32 | spec_payload)"


class PlacedRun(NamedTuple):
    """
    A run and its place in its workflow.

    Attributes:
        run, run_id: Its number in this file, and its id.
        round, task: From 1; task 0 is the workflow itself.
    """

    run: int
    run_id: str
    round: int
    task: int


class RunIndex:
    """
    The runs of a journal, as they are now.

    Args:
        query: Returns the rows of a statement.
    """

    def __init__(self, query: Query) -> None:
        self._query = query

    # -- names and order -----------------------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """Return the ids of all runs in the order in which they came into this file."""
        return self._column("SELECT run_id FROM specs ORDER BY run")

    def ids_by_time(self) -> list[str]:
        """Return the ids of all runs in an order that does not depend on the file they are in: by time, then by id."""
        return self._column("SELECT run_id FROM specs ORDER BY created_at, run_id")

    def numbers(self) -> list[int]:
        """Return the numbers of all runs, rising."""
        return self._column("SELECT run FROM specs ORDER BY run")

    def last_number(self) -> int:
        """Return the number of the newest run, 0 without one."""
        found: int = self._query("SELECT coalesce(max(run), 0) FROM specs", ())[0][0]
        return found

    def names(self, runs: Collection[int]) -> dict[int, str]:
        """Return the ids of runs by their numbers, of those that are there."""
        return {
            run: run_id
            for some in _parts(runs)
            for run, run_id in self._query(f"SELECT run, run_id FROM specs WHERE run IN ({some})", ())
        }

    def newest(self, back: int = 0) -> str | None:
        """Return the id of the newest run, or of the one that came *back* runs before it; None when there is none."""
        found = self._column("SELECT run_id FROM specs ORDER BY run DESC LIMIT 1 OFFSET ?", back)
        return found[0] if found else None

    def near(self, run_id: str) -> list[str]:
        """Return the ids right before and after *run_id* in the order of their texts."""
        before = self._column("SELECT max(run_id) FROM specs WHERE run_id < ?", run_id)
        after = self._column("SELECT min(run_id) FROM specs WHERE run_id > ?", run_id)
        return [other for other in (*before, *after) if other is not None]

    def counts(self) -> tuple[int, int]:
        """Return how many runs there are, and rows; those that a fork shares are its parent's."""
        sql = "SELECT count(*), coalesce(sum(head_seq - coalesce(parent_seq, -1)), 0) FROM runs"
        ((runs, rows),) = self._query(sql, ())
        return runs, rows

    def objectives(self, runs: Collection[int]) -> dict[int, str]:
        """Return what runs were started with, of those that have a spec of their own which is not erased."""
        sql = f"SELECT specs.run, {_of_spec('objective')} FROM specs {_SPEC_BODY} WHERE specs.run IN"
        found = (row for some in _parts(runs) for row in self._query(f"{sql} ({some})", ()))
        return {run: objective for run, objective in found if isinstance(objective, str)}

    # -- workflows and forks -------------------------------------------------------------------------------------------

    def of_workflow(
        self, workflow_id: str, *, round: int | None = None, task: int | None = None, after: int = 0
    ) -> list[PlacedRun]:
        """
        Return runs of a workflow in the order in which they were started.

        Args:
            workflow_id: The workflow.
            round, task: Only those there.
            after: Number of a run: only those with a larger one.
        """
        wanted = {"workflow_id": workflow_id, "round": round, "task": task}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        sql = f"SELECT run, run_id, round, task FROM specs WHERE {where} AND run > ? ORDER BY run"
        return [PlacedRun(*row) for row in self._query(sql, (*given.values(), after))]

    def called_by(self, run_id: str) -> list[str]:
        """Return the ids of the runs that the tools of a run have started, in the order in which they were started."""
        sql = "SELECT run_id FROM specs WHERE workflow_id >= ? AND workflow_id < ? ORDER BY run"
        return self._column(sql, *called_places(run_id))

    def called(self) -> list[tuple[str, str]]:
        """Return of every run that a tool of another one has started the other one's id and its own, in the order in which they were started."""
        sql = f"SELECT workflow_id, run_id FROM specs WHERE workflow_id LIKE '%{MARK}%' ORDER BY run"
        places = ((caller_at(workflow_id), run_id) for workflow_id, run_id in self._query(sql, ()))
        return [(place.run_id, run_id) for place, run_id in places if place is not None]

    def forks(self) -> list[tuple[int, str, str, int]]:
        """Return of every run that is a fork its number and id, its parent's id and the last row that it shares."""
        sql = "SELECT run, run_id, parent_run_id, parent_seq FROM specs WHERE parent_run_id IS NOT NULL ORDER BY run"
        return [(*row,) for row in self._query(sql, ())]

    def links(self) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Yield number and id of every run, and the ids that it was made from: workflow, parent, the run that it replaces."""
        sql = f"SELECT specs.run, run_id, workflow_id, parent_run_id, {_of_spec('fallback_for')} FROM specs {_SPEC_BODY}"
        for run, run_id, *others in self._query(sql, ()):
            made_from = (other for other in others if isinstance(other, str) and other)
            yield (
                run,
                run_id,
                tuple(found.run_id if (found := caller_at(other)) else other for other in made_from),
            )

    def of_conversation(self, id: str) -> list[str]:
        """Return the ids of the runs of a conversation, those of its workflows' tasks among them, by time."""
        sql = (
            "SELECT run_id FROM specs WHERE workflow_id IN (SELECT workflow_id FROM specs WHERE conversation = ?)"
            " ORDER BY created_at, run_id"
        )
        return self._column(sql, id)

    def told_of(self, run_id: str) -> list[int]:
        """Return the numbers of the runs that hold texts of another one as a round before them."""
        sql = (
            f"SELECT specs.run FROM specs {_SPEC_BODY} WHERE {_of_spec('earlier')} LIKE ? ORDER BY specs.run"
        )
        return self._column(sql, f'%"{run_id}"%')

    # -- ends and heads ------------------------------------------------------------------------------------------------

    def open(self) -> list[int]:
        """Return the numbers of the runs that have not ended."""
        return self._column(_OPEN)

    def newest_and_open(self, count: int) -> list[str]:
        """Return the ids of the newest runs and of the newest that have not ended, *count* of each, oldest first."""
        sql = f"SELECT run, run_id FROM specs WHERE run IN (SELECT run FROM specs ORDER BY run DESC LIMIT ?) OR run IN ({_OPEN} ORDER BY run DESC LIMIT ?)"
        return [run_id for _, run_id in sorted(self._query(sql, (count, count)))]

    def ended(self, runs: Collection[int]) -> set[int]:
        """Return which of *runs* have ended."""
        found: set[int] = set()
        for some in _parts(runs):
            found.update(self._column(f"{_ENDED} AND run IN ({some})"))
        return found

    def heads(self, runs: Collection[int], after: int) -> list[tuple[int, str, int | None]]:
        """Return number, id and the key of the newest row, None without one, of *runs* and of those with a number above *after*."""
        rows = self._query(f"SELECT run, run_id, {_NEWEST_ROW} FROM specs WHERE run > ?", (after,))
        for some in _parts([run for run in runs if run <= after]):
            rows += self._query(f"SELECT run, run_id, {_NEWEST_ROW} FROM specs WHERE run IN ({some})", ())
        return [(run, run_id, head) for run, run_id, head in rows]

    def ends(self) -> list[tuple[str, int, bytes]]:
        """Return id, number of the last row and its hash of every run, in the order of the ids."""
        return [
            (*row,) for row in self._query("SELECT run_id, head_seq, head_hash FROM runs ORDER BY run_id", ())
        ]

    def beginning(self, run_id: str) -> tuple[int, int, bytes] | None:
        """Return number of a run, of the last row that it shares (-1 without one), and its root hash; None when there is no such run."""
        sql = "SELECT run, coalesce(parent_seq, -1), root_hash FROM specs WHERE run_id = ?"
        found = self._query(sql, (run_id,))
        return (*found[0],) if found else None

    def maybe_replaced(self) -> list[str]:
        """Return failed runs that may have been about to be started again in another mode when their driver was lost."""
        sql = (
            f"SELECT run_id FROM specs {_SPEC_BODY}"
            f" WHERE specs.run IN ({_ENDED} AND dest = 'Failed')"
            f" AND (parent_run_id IS NOT NULL OR {_of_spec('fallback')} IS NOT NULL)"
            " AND NOT EXISTS (SELECT 1 FROM specs AS later WHERE later.workflow_id = specs.workflow_id"
            " AND later.round = specs.round AND later.task = specs.task AND later.run > specs.run)"
        )
        return self._column(sql)

    def left_calls(self) -> list[tuple[str, str]]:
        """Return tool and run id of every call that was given up and still ran, the newest first."""
        sql = (
            "SELECT request, run_id FROM transitions JOIN specs ON specs.run = transitions.run"
            """ WHERE outcome LIKE '%"left":1%' ORDER BY transitions.at DESC"""
        )
        return [(str(_told(request).get("tool") or "?"), run_id) for request, run_id in self._query(sql, ())]

    # -- erasures ------------------------------------------------------------------------------------------------------

    def count_erasures(self) -> int:
        """Return how many records of erasures there are."""
        return int(self._query("SELECT count(*) FROM erasures", ())[0][0])

    def erasures(self) -> set[int]:
        """Return the keys of all records of erasures: the run's number << 32 | the record's."""
        return set(self._column("SELECT id FROM erasures"))

    def _column(self, sql: str, *values: Any) -> list[Any]:
        return [value for (value,) in self._query(sql, values)]


def _of_spec(key: str) -> str:
    """Return what stands under a key of a spec that can be read; the whole of it may be large."""
    return f"CASE WHEN json_valid(body) THEN body ->> '$.{key}' END"


def _parts(runs: Collection[int]) -> Iterator[str]:
    """Yield numbers of runs as lists for a statement."""
    numbers = sorted(runs)
    for at in range(0, len(numbers), _AT_ONCE):
        yield ", ".join(map(str, numbers[at : at + _AT_ONCE]))


def _told(text: object) -> dict[str, Any]:
    """Return the JSON object that a text holds, an empty one for anything else."""
    try:
        data = orjson.loads(text) if isinstance(text, str | bytes) else None
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}
