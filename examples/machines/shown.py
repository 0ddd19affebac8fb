"""What the examples in this folder share: printing a walk, and asking a replay whether it comes to the same."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from paor import Engine, Journal, Question, Result, replay


def show(engine: Engine, result: Result) -> None:
    """Print a run's rows, its end, and whether it replays: with the engine's machine, and from the journal alone."""
    for row in engine.journal.transitions(result.run_id):
        print(f"{row.seq:>4}  {row.trigger:<9} {row.source} -> {row.dest}")
    print(f"      {result.state} ({result.reason}): {' '.join(result.answer.split())}")
    whole, alone = replay(engine.journal, result.run_id, engine), replay(engine.journal, result.run_id)
    code = sum("code" in item.why for item in alone.unchecked)
    print(f"      replay: {'identical' if whole.identical else 'DIVERGED'};", end=" ")
    print(
        f"without this code: {len(alone.divergences)} differences, {code} values taken as they are recorded"
    )


def ask(question: Question | None, who: str, answer: dict[str, object]) -> dict[str, object]:
    """Show *who* the question and what *who* answers; return what `Engine.resume` takes."""
    assert question is not None
    print(f"  asked: {question.message}")
    print(f"    {who}: {answer}")
    return {"question": question.id, "answer": answer, "actor": who}


def play(*acts: Callable[[Journal, Path], None]) -> None:
    """Play each act, one of its docstring's name, with a journal and a folder of its own."""
    for act in acts:
        print((act.__doc__ or "").splitlines()[0])
        with tempfile.TemporaryDirectory(prefix="machines-") as name:
            folder = Path(name)
            with Journal(folder / "runs.db") as journal:
                act(journal, folder)
