"""Before a run goes on: is what decides it still what it was recorded with, and if not, who has accepted that?"""

from __future__ import annotations

from ...states.base.errors import RunChanged
from ...states.base.version import VERSION
from ...states.run.spec import Spec
from ...states.run.state import Run
from ..journal.payloads import JSON
from ..machine.decide import machine_told
from ..machine.table import fingerprint
from ..replay.callers import unfinished_called
from ..replay.restore import restore_run
from ..runtime.run_context import RunContext
from ..versioning.amendments import amendment
from ..versioning.changes import ChangedPart, changes_of
from ..versioning.fingerprints import fingerprints_of
from .runner import Runner


def refusal(
    run_id: str, changes: tuple[ChangedPart, ...], how: str = "accept_changes, --accept-changes"
) -> RunChanged:
    """Return the error that names every part, and *how* they are accepted."""
    parts = tuple(map(str, changes))
    named = "".join(f"\n  {part}" for part in parts)
    return RunChanged(
        f"run {run_id} was recorded with other parts; nothing was done. Accept them ({how})"
        f" or go on with the engine that it had:{named}",
        parts,
    )


def accept(runner: Runner, drive: RunContext, present: Spec) -> None:
    """Let *present* be in force in a run from its next row on, which will say so."""
    spec = drive.run.spec
    parts = fingerprints_of(present)
    if (
        drive.run.memory.choice is not None
    ):  # the spec that is amended has the limits that the run was started with
        parts["limits"] = spec.fingerprints.get("limits", parts["limits"])
    present = present.model_copy(
        update={
            "fingerprints": parts,
            "engine": VERSION,
            "machine": fingerprint(machine_told(present.host_machine).rows),
        }
    )
    drive.amended = drive.stager.stage(amendment(spec, present), JSON)
    drive.run = drive.run.under(present)
    drive.kit = runner.resources(drive.run.spec)


def changes_now(runner: Runner, run: Run | str) -> tuple[ChangedPart, ...]:
    """Return the parts in which a runner would decide a run otherwise than it was recorded; see `fsm.engine.Engine.changes`."""
    run = restore_run(runner.journal.reader, run)[0] if isinstance(run, str) else run
    settings = runner.settings
    tools = [tool.name for tool in run.spec.tools] if settings.as_recorded else settings.tools
    return changes_of(runner.journal.reader, run, settings.current_spec(run.spec), tools)


def _check_machine(runner: Runner, run: Run, *, accept_changes: bool) -> None:
    """
    Refuse a run of a host's own machine that an engine without it cannot go on with, or should not unasked.

    Raises:
        RunChanged: In one line: every row of the machine would be told as another one otherwise.
    """
    present = runner.settings.current_spec(run.spec).host_machine
    here = run.state in machine_told(present).states
    if here and (accept_changes or present or not run.spec.host_machine):
        return
    told = f"it stands in {run.state}, a phase that the machine of this engine does not have"
    told = told if present or not here else "it walks a host's own machine, and this engine has none"
    how = "" if not here else ", or accept that it goes on with paor's own (accept_changes, --accept-changes)"
    raise RunChanged(
        f"run {run.run_id} cannot go on here, and nothing was done: {told}; give Engine(machine=...) the one that it was started with{how}",
        ("the host's own machine is not there any more",),
    )


def check_unchanged(runner: Runner, drive: RunContext, *, accept_changes: bool) -> None:
    """
    Refuse a run whose parts have changed, or those of its unfinished tasks; or have them in force from now on.

    The context of the model that goes on is in force without a word of anybody: it has no other.

    Raises:
        RunChanged: They matter to it and nobody has accepted them.
    """
    run, drive.accepting = drive.run, accept_changes
    changes = changes_now(runner, run)
    if changes:
        _check_machine(runner, run, accept_changes=accept_changes)
    accepted = bool(changes) and accept_changes
    if not accepted and any(change.relevant for change in changes):
        raise refusal(run.run_id, changes)
    present = runner.settings.current_spec(run.spec) if accepted else run.spec
    present = runner.settings.in_context_of(present, drive.model)
    if present is not run.spec:
        accept(runner, drive, present)
    # what it has called too, before it goes on: else it would be refused in the middle of one of its steps
    reader = runner.journal.reader
    for called in unfinished_called(reader, reader.run(run.run_id)):
        inner = changes_now(runner.runner_of(reader.run(called)), called)
        if not accept_changes and any(change.relevant for change in inner):
            raise refusal(called, inner)
