"""Before a run goes on: is what decides it still what it was recorded with, and if not, who has accepted that?"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..states.errors import RunChanged
from ..states.run import Run
from ..states.spec import TASK_TOOL, Spec
from ..tools.catalog import folded
from .amending import amendment
from .fingerprints import UNREADABLE, fingerprints_of, given_fingerprints
from .kit import Kit
from .payloads import JSON
from .table import fingerprint
from .version import VERSION

if TYPE_CHECKING:
    from .changed_parts import ChangedPart
    from .drive import Drive
    from .journal_reading import JournalReader


def changes_of(
    journal: JournalReader, run: Run, present: Spec, tools: Collection[str]
) -> tuple[ChangedPart, ...]:
    """
    Return the parts that decide a run otherwise than when it was recorded, those that matter to it first.

    Args:
        journal: That holds it.
        run: As it stands, with the spec in force.
        present: That spec as the engine would write it now.
        tools: Names of the engine's tools; one that is missing matters where the run has called it or will.
    """
    recorded = run.spec.fingerprints or given_fingerprints(run.spec)
    now = fingerprints_of(present)
    if UNREADABLE in (*recorded, *now):  # code cannot be compared: the same version counts as the same code
        recorded, now = _by_version(recorded, run.spec.engine), _by_version(now, VERSION)
    there = {*map(folded, tools), TASK_TOOL.name}
    lacking = {f"tool.{tool.name}" for tool in run.spec.tools if folded(tool.name) not in there}
    now = {part: digest for part, digest in now.items() if part not in lacking}
    if now == recorded:
        return ()
    from .changed_parts import changed_parts

    rows = journal.rows(run.number)
    found = changed_parts(run, rows, recorded, now, lambda column: journal.change(run.number, column))
    offered = {part for part in lacking if not _needs(run, part.removeprefix("tool."))}
    return tuple(item for item in found if item.part not in offered or item.visited)


def _needs(run: Run, tool: str) -> bool:
    """Whether what a run works on names a tool; that it could be chosen does not count here."""
    memory = run.memory
    named = [memory.selection.tool] if memory.selection is not None else []
    named += [memory.intent.tool] if memory.intent is not None else []
    return tool in named


def _by_version(parts: dict[str, str], version: str) -> dict[str, str]:
    kept = {
        part: text for part, text in parts.items() if part.partition(".")[0] not in ("phase", "guard", "core")
    }
    return kept | {UNREADABLE: version}


def refusal(
    run_id: str, changes: tuple[ChangedPart, ...], how: str = "accept_changes, --accept-changes"
) -> RunChanged:
    """Return the error that names every part, and *how* they are accepted."""
    parts = tuple(map(str, changes))
    told = "".join(f"\n  {part}" for part in parts)
    return RunChanged(
        f"run {run_id} was recorded with other parts; nothing was done. Accept them ({how})"
        f" or go on with the engine that it had:{told}",
        parts,
    )


def accept(drive: Drive, present: Spec) -> None:
    """Let *present* be in force in a run from its next row on, which will say so."""
    spec = drive.run.spec
    present = present.model_copy(
        update={"fingerprints": fingerprints_of(present), "engine": VERSION, "machine": fingerprint()}
    )
    drive.amended = drive.stager.stage(amendment(spec, present), JSON)
    drive.run = replace(drive.run, spec=present)
    drive.kit = Kit(present)
