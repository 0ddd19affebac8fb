"""
Replay: derive every request, guard, decision and counter of a run again, and compare with what was recorded.

Offline: outcomes come from the journal, nothing is asked or performed. Without an engine the spec's own templates,
policy and schemas are used, so a difference means that the journal was altered or paor decides differently now.
With an engine its templates, policy and schemas are used, so a changed prompt or guard is named. It fails closed: a
record that is missing is a divergence.
"""

from __future__ import annotations

from ..journal.reader import Readable, damage_told, reader_of
from ..versioning.changes import ChangedPart, changes_of
from .comparison import Difference, Divergence, Unchecked, compare_documents, compare_head
from .payload_window import PayloadWindow
from .row_columns import column_problems, erased_numbers
from .walk import Replay, ReplayWalk, SpecSource, spec_of_part


def replay(journal: Readable, run_id: str, engine: SpecSource | None = None) -> Replay:
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
        JournalDamaged: Its spec or a row cannot be read.
    """
    journal = reader_of(journal, "replay takes a Journal, such as replay(engine.journal, run_id)")
    row = journal.run(run_id)
    with damage_told(row.run_id):
        parts = {part.run: (part, spec_of_part(journal, part.run_id)) for part in journal.lineage(row.run)}
        transitions = [item for item in journal.transitions(row.run_id) if item.seq <= row.head_seq]
        first = next(iter(parts.values()))[1]
        gone = erased_numbers(journal, row.run)
        walk = ReplayWalk(PayloadWindow(journal), engine, parts, transitions)
        if gone:
            walk.found.extend(column_problems(journal, row, transitions, gone))
        run = walk.replay()
        changed: tuple[ChangedPart, ...] = ()
        if run is not None and first is not None and not gone:
            walk.found.extend(compare_documents(journal, row, first, run, transitions))
            walk.found.extend(compare_head(row, run, transitions))
            recorded = run.under(walk.recorded)
            changed = changes_of(journal, recorded, walk.spec, [tool.name for tool in walk.recorded.tools])
        found = tuple(sorted(dict.fromkeys(walk.found), key=_seq))
        unchecked = tuple(sorted(dict.fromkeys(walk.unchecked), key=_seq))
        identical = not found and not unchecked
        return Replay(row.run_id, len(transitions), identical, found, unchecked, changed, tuple(walk.amended))


def _seq(item: Difference) -> int:
    return item.seq


__all__ = ["Divergence", "Replay", "Unchecked", "replay"]
