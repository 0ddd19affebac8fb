"""Before a run goes on: is what decides it still what it was recorded with, and if not, who has accepted that?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..states.errors import RunChanged
from ..states.spec import Spec
from .amending import amendment
from .fingerprints import fingerprints_of
from .kit import Kit
from .payloads import JSON
from .table import fingerprint
from .version import VERSION

if TYPE_CHECKING:
    from .changed_parts import ChangedPart
    from .drive import Drive


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
