"""
Replay: derive every request, guard, decision and counter of a run again, and compare with what was recorded.

Offline: outcomes come from the journal, nothing is asked or performed. Without an engine the spec's own templates,
policy and schemas are used, so a difference means that the journal was altered or paor decides differently now.
With an engine its templates, policy and schemas are used, so a changed prompt or guard is named. It fails closed: a
record that is missing is a divergence.
"""

from __future__ import annotations

from ...states.base.errors import UsageError
from ..journal.reader import JournalReader
from .erased import erased_numbers, replay_erased
from .payload_window import PayloadWindow
from .run_comparison import Divergence, compare_documents, compare_head
from .walk import Replay, ReplayWalk, SpecSource, changed_since, replay_rows, spec_of_part


def replay(journal: JournalReader, run_id: str, engine: SpecSource | None = None) -> Replay:
    """
    Derive a run again from its recorded outcomes and compare field by field.

    Args:
        journal: The `Journal` that holds it.
        run_id: Its id.
        engine: Compare with this engine's templates, policy and schemas; None: with the spec's own.

    Returns:
        Every difference; `Replay.raise_if_diverged` turns the first into an error.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: Its spec cannot be read.
    """
    if not isinstance(journal, JournalReader):
        raise UsageError("replay takes a Journal, such as replay(engine.journal, run_id)")
    row = journal.run(run_id)
    if gone := erased_numbers(journal, row.run):
        return replay_erased(journal, row, engine, gone)
    parts = {part.run: (part, spec_of_part(journal, part.run_id)) for part in journal.lineage(row.run)}
    transitions = [item for item in journal.transitions(row.run_id) if item.seq <= row.head_seq]
    first = next(iter(parts.values()))[1]
    walk = ReplayWalk(PayloadWindow(journal), engine, parts, transitions)
    run = replay_rows(walk, transitions)
    if run is not None:
        walk.found.extend(compare_documents(journal, row, first, run, transitions))
        walk.found.extend(compare_head(row, run, transitions))
    present = walk.spec if engine is not None else walk.recorded
    changed = changed_since(journal, run, walk.recorded, present) if run is not None else ()
    found = tuple(walk.found)
    return Replay(row.run_id, len(transitions), not found, found, (), changed, tuple(walk.amended))


__all__ = ["Divergence", "Replay", "replay"]
