"""Forks of journeys: forked at any row and given again what the journey was given, until they end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from paor import Engine, Journal, Result, ScriptedModel, replay
from paor.testing import SeededIds, SteppingClock

from .journey import answered
from .journeys import Journey, Lost
from .worlds import JOURNAL

Given = dict[str, Any] | None
"""What a waiting run is given: arguments of `Engine.resume`, or None to cancel it."""


def given_after(journal: Journal, run_id: str, seq: int) -> list[Given]:
    """Return what a run was given by people after one of its rows, in order."""
    return _given(journal, journal.transitions(run_id)[seq + 1 :])


def given_until(journal: Journal, run_id: str, seq: int) -> list[Given]:
    """Return what a run was given by people up to one of its rows, in order."""
    return _given(journal, journal.transitions(run_id)[: seq + 1])


def _given(journal: Journal, rows: Sequence[Any]) -> list[Given]:
    found: list[Given] = []
    for row in rows:
        if row.outcome["kind"] == "cancelled":
            found.append(None)
        elif row.outcome["kind"] == "answer":
            body = journal.payload(row.run, row.outcome["answer"]["n"]).body
            assert isinstance(body, str)
            answer = json.loads(body)
            if answer["action"] in ("done", "retry", "fail"):
                found.append({"outcome": answer["action"], "result": answer.get("content")})
            else:
                found.append({"answer": {"action": answer["action"], "content": answer.get("content")}})
    return found


class Forker:
    """
    An engine like a journey's, with fresh tools, that forks its runs.

    Args:
        journey: What is forked.
        folder: Of its journal.
        seed: Of the ids, another one for each.
    """

    def __init__(self, journey: Journey, folder: Path, seed: str, **options: Any) -> None:
        self.engine = Engine(
            ScriptedModel(options.pop("replies", journey.replies)),
            options.pop("tools", None) or list(journey.tools()),
            Journal(folder / JOURNAL, "off"),
            builtins=False,
            ids=SeededIds(seed),
            clock=SteppingClock(),
            **{**journey.options, **options},
        )
        self.journal = self.engine.journal

    def fork(self, run_id: str, seq: int, **options: Any) -> str:
        """Create a fork, without driving it, and return its id."""
        return self.engine.fork(run_id, seq, drive=False, **options).run_id

    def finish(self, run_id: str, given: list[Given], before: Given = None) -> Result:
        """
        Drive a run to its end; an effect in doubt that nobody was asked about is tried again.

        Args:
            run_id: The run.
            given: Answers, in order.
            before: What its parent was given right before; of an approval it was for the parent's call, so the run asks.
        """
        left = list(given)
        result = self._go(run_id, {})
        if before is not None and result.waiting_for is not None and result.waiting_for.kind == "approval":
            result = self._go(run_id, before)
        while result.status == "waiting":
            question = result.waiting_for
            assert question is not None
            doubt = question.kind == "in_doubt"
            step: Given = left[0] if left else {}
            if doubt and step is not None and "outcome" not in step:
                step = {"outcome": "retry"}
            else:
                left.pop(0)
            result = self.engine.cancel(run_id) if step is None else self._go(run_id, step)
        return result

    def _go(self, run_id: str, given: dict[str, Any]) -> Result:
        try:
            return answered(self.engine, run_id, **given) if given else self.engine.resume(run_id)
        except Lost:
            return self.engine.resume(run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.engine.close()


def holds(journal: Journal, run_id: str) -> None:
    """Assert that a run's rows are without a gap and replay as they were recorded."""
    rows = journal.transitions(run_id)
    assert [row.seq for row in rows] == list(range(len(rows)))
    found = replay(journal, run_id)
    assert found.divergences == () and found.transitions == len(rows)
