"""
Forking: a new run that shares the beginning of another one, by reference, and goes on from there.

What is shared is not copied (see `fsm.journal.lineage`); the root hash of the fork commits to the last shared row, so the chain
that proves the parent's rows proves them for the fork, too. With changed options the fork has a spec of its own: the
shared rows were decided with the parent's, its own rows are decided with this one, and a replay does the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import orjson
from msgspec.structs import replace

from ...prompts.clients.settings import said_scrubber
from ...prompts.model import Model
from ...states.base.errors import Erased, InvalidAnswer, InvalidFork, JournalDamaged, UsageError
from ...states.base.version import VERSION
from ...states.records.actions import StoredText
from ...states.records.questions import Answer
from ...states.run.phase_names import EXECUTING, PHASES
from ...states.run.spec import Spec
from ...states.run.state import Run
from ...states.settings.limits import merged_limits
from ...states.settings.policy import Policy
from ..journal.lineage import part_with
from ..journal.payloads import JSON, Stager
from ..journal.reader import JournalReader
from ..machine.decide import machine_told
from ..machine.table import fingerprint
from ..replay.restore import restore_run, stager_of
from ..runtime.loop import Steps, steps
from ..runtime.run_context import RunContext
from ..versioning.fingerprints import fingerprints_of
from .acceptance import changes_now, refusal
from .arguments import check_deps, check_priced, model_of, planning_template, templates_of
from .options import ForkOptions, checked_options
from .resume import answer_of, check_approved, named
from .runner import Acquisition, Runner
from .settings import EngineSettings, check_policy


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """
    Where a fork leaves its parent.

    Attributes:
        run: As it stood after the last shared row, under the parent's name and with the parent's spec.
        head: Hash of that row.
        spec_place: Payload of the parent's spec.
        next_payload: Number of the fork's first own payload.
    """

    run: Run
    head: bytes
    spec_place: StoredText
    next_payload: int

    @property
    def seq(self) -> int:
        """Number of the last shared row."""
        return self.run.seq - 1


def fork_point(journal: JournalReader, run_id: str, at_seq: int) -> ForkPoint:
    """
    Return the state of a run after one of its rows, for a fork to go on with.

    Args:
        journal: The journal that holds it.
        run_id: Its id, or an unambiguous prefix. It may be driven by somebody at the same time.
        at_seq: Number of the last row to share. A row that the run itself shares belongs to its parent: then that is
            what is forked.

    Raises:
        UnknownRun: There is no such run.
        InvalidFork: There is no such row, it ends the run, what it needs was erased, or the run is a workflow.
        JournalDamaged: The chain up to the row does not hold.
    """
    row = journal.run(run_id)
    name = f"run {row.run_id}"
    if isinstance(at_seq, bool) or not isinstance(at_seq, int):
        raise UsageError(f"a fork is made at the number of a row, such as 4, not at {at_seq!a:.40}")
    if row.head_seq < 0:
        raise InvalidFork(f"{name} has no row yet, so there is nothing to share")
    if not 0 <= at_seq <= row.head_seq:
        raise InvalidFork(f"{name} has rows 0 to {row.head_seq}; there is no row {at_seq} to fork at")
    if row.task == 0:
        raise InvalidFork(f"{name} is a workflow, which only calls its tasks; fork the run of one of them")
    part = part_with(journal.lineage(row.run), "first_seq", at_seq)
    try:
        run, head = restore_run(journal, part.run_id, at_seq)
    except (Erased, JournalDamaged) as error:
        if isinstance(error, JournalDamaged) and "erased" not in str(error):
            raise
        raise InvalidFork(
            f"{name}: what rows 0 to {at_seq} need was erased, so it cannot be forked there"
        ) from None
    if run.final:
        raise InvalidFork(
            f"{name} ended with row {at_seq} in {run.state} ({run.reason}); fork it at an earlier row"
        )
    columns = journal.root_columns(part.run)
    last = journal.own_rows(part.run, at_seq, at_seq)[0]
    spec_place = StoredText(columns["spec_payload"], columns["spec"], 0)
    return ForkPoint(run, head, spec_place, orjson.loads(last[9])["n"] + 1)


def amended_spec(
    parent: Spec,
    run_id: str,
    options: ForkOptions,
    *,
    stored: Spec,
    now: Spec | None,
    settings: EngineSettings,
    asked: Model,
) -> Spec | None:
    """
    Return the spec of a fork, None when it is the parent's as it is.

    Args:
        parent: What is in force in the parent at this row.
        run_id: Of the fork.
        options: Of the fork.
        stored: What the parent was started with, which a fork can refer to.
        now: The parent's spec as the engine would write it now, if that is wanted.
        settings: Of the engine.
        asked: The model that goes on, whose context may be smaller.

    Raises:
        UsageError: A template that is none, or a limit that is unknown or out of its range.
    """
    spec = parent if now is None else now
    update: dict[str, Any] = {}
    if (limits := options.get("limits")) is not None:
        update["limits"] = merged_limits(parent.limits, limits)
    if (policy := options.get("policy")) is not None:
        update["policy"] = policy
    if options.get("model") is not None and asked.name != parent.model:
        update["model"] = asked.name
    if (prompt_template := options.get("prompt_template")) is not None:
        name = planning_template(parent.mode, parent.profile.stage)
        own = templates_of({}, prompt_template, mode=parent.mode, profile=parent.profile)[name]
        update["templates"] = {**spec.templates, name: own}
        update["own_templates"] = tuple(dict.fromkeys((*spec.own_templates, name)))
    changed = settings.readable(
        settings.in_context_of(spec.model_copy(update=update | {"model": parent.model}), asked), before=spec
    ).model_copy(update={"model": update.get("model", spec.model)})
    parts = fingerprints_of(changed) if parent.fingerprints else {}
    if changed == stored and (now is None or parts == stored.fingerprints):
        return None
    own_parts = {
        "fingerprints": parts,
        "engine": VERSION,
        "machine": fingerprint(machine_told(changed.host_machine).rows),
    }
    return changed.model_copy(update={"workflow_id": run_id, "key": None, "metadata": {}, **own_parts})


def answer_at(run: Run, options: ForkOptions) -> Answer | None:
    """
    Return what somebody answers to the question at which a run is forked, None when nothing is answered.

    Raises:
        InvalidAnswer: It waits for nothing there, or the answer does not fit.
    """
    answer = options.get("answer")
    if answer is None and options.get("outcome") is None:
        if options.get("actor") is not None or options.get("reason") is not None:
            raise InvalidAnswer(
                "an actor or a reason comes with an answer or the outcome of an effect in doubt"
            )
        return None
    if run.waiting_for is None:
        raise InvalidAnswer(
            f"run {run.run_id} waits for nothing at row {run.seq - 1}; leave the answer out, or fork it where it waits"
        )
    if named({"answer": answer}, run.waiting_for) is not None:
        raise InvalidAnswer(
            "what was told to another run does not count for a fork, which asks anew; name no approval"
        )
    return answer_of(run.waiting_for, options, own=run.state not in PHASES)


def fork_acquisition(runner: Runner, run_id: str, at_seq: int, **options: Unpack[ForkOptions]) -> Acquisition:
    """
    Check everything that a fork takes, and return what creates it; the options are those of `fsm.engine.Engine.fork`.

    Raises:
        UsageError, InvalidFork, InvalidAnswer, RunChanged, UnknownRun, JournalDamaged: As `fsm.engine.Engine.fork` says;
            nothing was created.
    """
    options = checked_options(options, ForkOptions, "a fork")
    policy = options.get("policy")
    if not isinstance(policy, Policy | None):
        raise UsageError("policy must be a Policy value")
    check_policy(policy, runner.settings.tools)
    model = options.get("model")
    chosen = model_of(model) if model is not None else runner.settings.model
    point = fork_point(runner.journal.reader, run_id, at_seq)
    parent, own = point.run.spec, runner.ids.run_id()
    changes, current = changes_now(runner, point.run), options.get("current", False)
    if not current and any(change.relevant for change in changes):
        raise refusal(point.run.run_id, changes, "current, --current")
    reply = answer_at(point.run, options)
    spec = amended_spec(
        parent,
        own,
        options,
        stored=runner.journal.reader.spec(point.run.run_id),
        now=runner.settings.current_spec(parent) if current else None,
        settings=runner.settings,
        asked=chosen,
    )
    if reply is not None:
        kit = runner.resources(parent)
        check_approved(point.run, kit, reply, said_scrubber(chosen), runner.clock)
    check_priced(chosen, (spec or parent).limits)
    deps = options.get("deps") if options.get("deps") is not None else runner.settings.deps
    names = {tool.name for tool in parent.tools}
    check_deps([tool for tool in runner.settings.tools.values() if tool.name in names], deps)

    def create() -> tuple[RunContext, Steps]:
        drive = _create_fork(runner, point, own, spec)
        drive.model = chosen
        drive.connections.update(options.get("connections") or {})
        drive.deps = deps
        return drive, steps(drive) if reply is None else runner.answered(drive, reply)

    return create


def _create_fork(runner: Runner, point: ForkPoint, run_id: str, spec: Spec | None) -> RunContext:
    """Create a fork, which takes its lease; with *spec* it has its own, without its parent's."""
    journal, parent = runner.journal, point.run
    if spec is None:
        place, payloads = point.spec_place, []
    else:
        stager = Stager(point.next_payload, runner.ids.salt)
        place = stager.stage(spec.model_dump_json(), JSON)
        payloads = stager.taken()
    number, root, fence = journal.create(
        run_id,
        (spec or parent.spec).model_copy(update={"workflow_id": run_id}),
        created_at=runner.clock.now_us(),
        place=place,
        payloads=payloads,
        documents=(),
        parent=(parent.run_id, point.seq),
        before=point.head,
    )
    # it exists and its lease is held: a fault from here on gives that back, so that a resume can go on with the fork
    try:
        run = replace(parent, run_id=run_id, number=number).under(journal.reader.spec(run_id))
        stager = stager_of(journal.reader, number, runner.ids.salt)
        drive = runner.hold(run, root, fence, runner.resources(run.spec), runner.settings.model, stager, {})
    except BaseException:
        journal.leases.release(number, fence)
        raise
    # a call whose intent is shared was begun by the parent's driver, which is not this one
    drive.resumed = run.state == EXECUTING
    return drive


def calls_after(journal: JournalReader, run_id: str, seq: int) -> list[str]:
    """
    Return the tools of the `once` calls that a run has begun after one of its rows, in order.

    A fork at that row decides anew and may make the same calls again; whoever forks should know. A call that has begun
    and not ended yet is among them.
    """
    run = journal.run(run_id)
    names = []
    for row in journal.rows(run.run, seq + 1):
        request = orjson.loads(row[7])
        if row[3] in ("execute", "wait", "fail") and request.get("effect") == "once":
            names.append(request["tool"])
    if run.state == "Executing" and run.head_seq > seq and run.status == "running":
        intent = restore_run(journal, run_id)[0].memory.intent
        if intent is not None and intent.effect == "once":
            names.append(intent.tool)
    return names
