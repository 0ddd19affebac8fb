"""
The runner: one run taken hold of, driven and let go of. `fsm.engine.Engine` is its public side.

A run comes to a runner in one of two ways, created from arguments or taken up from its journal; both come to a `Drive`
and the steps to walk, which the sync and the async driver perform alike.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from ..prompts.model import Model
from ..states.errors import InvalidAnswer, JournalError, UsageError
from ..states.events import Event, RunEnded, RunStarted
from ..states.limits import Limits
from ..states.outcomes import Answered
from ..states.phase import EXECUTING
from ..states.policy import Policy
from ..states.run import Run, initial_run
from ..states.spec import TASK_TOOL, Mode, Spec
from ..states.waiting import Answer
from ..tools.catalog import Catalog
from ..tools.documents import generate_report
from ..tools.reports import check_report_format
from ..tools.tool import Document, Tool
from .accepting import accept, refusal
from .changed_parts import changes_of
from .drive import Drive
from .drivers import WriterPool, aperform, perform
from .fallback import fallback_of, fallback_spec, is_owed, warn_of_legacy
from .fingerprints import fingerprints_of
from .intake import (
    DocumentLike,
    ResumeOptions,
    RunOptions,
    check_priced,
    documents_of,
    hooks_of,
    model_of,
    planning_template,
    profile_of,
    restricted,
    rules_of,
    templates_of,
    toolbox,
)
from .journal import Journal
from .kit import Kit
from .listening import tell
from .logs import LOGGER, log_start
from .loop import Steps, steps, transition
from .payloads import JSON, Stager
from .ports import Clock, Ids, RandomIds, SystemClock
from .restore import restaged, restored
from .result import Result, result_of_run
from .resuming import answer_of, timed_out
from .starting import FORMATS, PLANNER_STEPS, input_references, mode_of, placed, spec_of
from .workflows import (
    Place,
    TaskCall,
    task_tool,
    unfinished_tasks,
    waiting_task,
)

if TYPE_CHECKING:
    from .changed_parts import ChangedPart
    from .flow_start import GivenWorkflow, WorkflowLike


Start = Callable[[], tuple[Drive, Steps]]
"""Takes hold of a run: called when the first event is asked for, so that nobody holds a run without driving it."""

OPTIONS = frozenset(RunOptions.__annotations__)
"""Names of what a run takes by keyword."""


RESUME_OPTIONS = frozenset(ResumeOptions.__annotations__)
"""Names of what a resume takes by keyword."""

NOTHING_GIVEN: ResumeOptions = {"answer": None, "outcome": None, "result": None, "reason": None}
"""What is left for a workflow when its answer went to the task that waits."""


class Going(NamedTuple):
    """How a run goes on: where it stands in its journal (*resumed*), or with the fallback that it is owed."""

    start: Start
    resumed: bool


class Runner(ABC):
    """Everything that an engine holds, and how it starts, resumes and drives one run."""

    @abstractmethod
    def drive_task(self, workflow: Drive, call: TaskCall) -> Result:
        """Drive one task of a workflow to its end, or until it waits."""

    @abstractmethod
    def current_spec(self, spec: Spec) -> Spec:
        """Return *spec* as this engine would write it now."""

    @abstractmethod
    async def adrive_task(self, workflow: Drive, call: TaskCall) -> Result:
        """Do the same as `drive_task` on the running event loop."""

    def __init__(
        self,
        model: Model | str | None = None,
        tools: Sequence[Tool] = (),
        journal: Journal | str | os.PathLike[str] | None = None,
        limits: Limits | None = None,
        policy: Policy | None = None,
        prompts: Mapping[str, str] | None = None,
        hooks: Sequence[Callable[[Event], None]] = (),
        clock: Clock | None = None,
        ids: Ids | None = None,
        *,
        builtins: bool = True,
        rules: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(limits, Limits | None) or not isinstance(policy, Policy | None):
            raise UsageError("limits and policy must be a Limits and a Policy value")
        self.model = model_of(model)
        self._limits = limits
        self.limits = limits if limits is not None else Limits()
        self._policy = policy
        self.policy = policy if policy is not None else Policy()
        self._tools = toolbox(tools, builtins=builtins)
        if policy is not None:
            self._warn_of_typing_errors(policy)
        templates_of(prompts)
        self._prompts = dict(prompts or {})
        self._rules = rules_of(rules)
        self._catalogs: dict[tuple[str, ...], Catalog] = {}
        self._catalog(tuple(self._tools.values()))
        self._hooks = hooks_of(hooks)
        self._clock = clock if clock is not None else SystemClock()
        self._ids = ids if ids is not None else RandomIds()
        self.journal = journal if isinstance(journal, Journal) else Journal(journal or "paor.db")
        self._writers = WriterPool(self.journal)

    def _warn_of_typing_errors(self, policy: Policy) -> None:
        """Warn of a name in the policy that is nearly a tool's; `paor check` looks closer."""
        from ..tools.policy_typos import mistyped

        for told in mistyped(policy, self._tools.keys()):
            warnings.warn(told, stacklevel=3)

    def limits_of(self, mode: Mode) -> Limits:
        """
        Return the bounds of a run that brings none: the engine's own, else the defaults of its mode.

        Args:
            mode: ``react``, ``batch`` or ``planner``; a planner may take 1,000 steps by default, the others 5.

        Source: docs/spec-coverage.md, D14.
        """
        if self._limits is None and mode == "planner":
            return Limits(max_steps=PLANNER_STEPS)
        return self.limits

    def _prepared(
        self,
        objective: str,
        success_criteria: Sequence[str],
        documents: Sequence[DocumentLike] = (),
        *,
        model: Model | str | None = None,
        connections: Mapping[str, Any] | None = None,
        place: Place | None = None,
        **options: Any,
    ) -> Start:
        """Check every argument now; what is returned creates the run when the first event is asked for."""
        for name in options:
            if name not in OPTIONS:
                raise TypeError(f"run() got an unexpected keyword argument {name!r}")
        if connections is not None and not isinstance(connections, Mapping):
            raise UsageError("connections must be a mapping of labels to values")
        if not isinstance(options.get("limits"), Limits | None):
            raise UsageError("limits must be a Limits value, such as Limits(max_steps=3)")
        chosen = model_of(model) if model is not None else self.model
        flow = _given_flow(options.pop("workflow", None), options.pop("variables", None))
        if isinstance(options.get("final_format"), str):
            check_report_format(FORMATS.get(options["final_format"].lower().lstrip(".")))
        modes = {name: options.pop(name, None) for name in ("mode", "react_mode", "workflow_mode")}
        mode = options["mode"] = mode_of(**modes) if flow is None else flow.mode(modes)
        limits, template = options.pop("limits", None), options.pop("prompt_template", None)
        limits = limits or self.limits_of(mode)
        whole = place is not None and place.task == 0
        if not whole:
            warn_of_legacy(mode)
        options["fallback"] = fallback_of(options.get("fallback"), mode)
        profile = profile_of(options.pop("profile", None), options.pop("stage", None))
        inputs = documents_of(documents, size_max=limits.document_bytes)
        names = options.pop("tools", None)
        offered = restricted(self._tools, names)
        spec = spec_of(
            objective,
            success_criteria,
            limits=limits,
            policy=self.policy if not whole else Policy(),
            model=chosen,
            offered=() if whole else offered if flow is None else flow.offered(self._tools, offered),
            templates=templates_of(self._prompts, template, mode=mode, stage=profile.stage),
            profile=profile,
            rules=self._rules,
            own_templates=(planning_template(mode),) if template else (),
            host_templates=tuple(sorted(self._prompts)),
            connections=tuple(connections or ()),
            key_salt=self._ids.salt().hex(),
            **options,
        )
        if flow is not None:
            listed = [tool.name for tool in offered] if names is not None else None
            spec, chosen = flow.begun(spec, chosen, tools=listed, own_model=model is not None)
        check_priced(chosen, spec.limits)
        if place is not None:
            spec = placed(
                spec, place, detect=whole and not (options.get("language") or options.get("user_language"))
            )
        return self._start(spec, inputs, chosen, dict(connections or {}))

    def _start(
        self, spec: Spec, inputs: Sequence[Document], model: Model, connections: dict[str, Any]
    ) -> Start:
        def start() -> tuple[Drive, Steps]:
            drive = self._created(spec, inputs, model, connections)
            return drive, steps(drive)

        return start

    def _fallback(self, drive: Drive) -> Start | None:
        """Return the start of the run that stands in for one that has failed, None when there is to be none."""
        if drive.run.spec.fallback is None:
            return None
        spec = fallback_spec(drive.run, self._ids.salt().hex())
        if spec is None:
            return None
        inputs = self._documents(drive.run.number, 0, len(spec.documents))
        return self._start(spec, inputs, drive.model, drive.connections)

    def _owed(self, drive: Drive) -> Start | None:
        """Return the start of the run that was to stand in for one that has ended, and that a crash has kept from it."""
        owed = not self.journal.read_only and is_owed(self.journal, drive.run)
        return self._fallback(drive) if owed else None

    def _created(
        self, spec: Spec, inputs: Sequence[Document], model: Model, connections: dict[str, Any]
    ) -> Drive:
        run_id = self._ids.run_id()
        stager = Stager(0, self._ids.salt)
        references = input_references(spec, inputs, stager)
        spec = spec.model_copy(update={"documents": references, "workflow_id": spec.workflow_id or run_id})
        spec = spec.model_copy(update={"fingerprints": fingerprints_of(spec)})
        place = stager.stage(spec.model_dump_json(), JSON)
        number, root, fence = self.journal.create(
            run_id,
            spec,
            created_at=self._clock.now_us(),
            place=place,
            payloads=stager.taken(),
            documents=references,
        )
        run = initial_run(run_id, number, spec)
        kit = Kit(spec)
        if spec.task:
            kit = Kit(spec, self._catalog(restricted(self._tools, [tool.name for tool in spec.tools])))
        return self._drive(run, root, fence, kit, model, stager, connections)

    def _catalog(self, tools: tuple[Tool, ...]) -> Catalog:
        """Return the compiled catalog of *tools*; compiled once for each selection of tools."""
        key = tuple(tool.name for tool in tools)
        if key not in self._catalogs:
            if len(self._catalogs) >= 64:
                self._catalogs.clear()
            self._catalogs[key] = Catalog([tool.spec() for tool in tools])
        return self._catalogs[key]

    def _drive(
        self,
        run: Run,
        head: bytes,
        fence: int,
        kit: Kit,
        model: Model,
        stager: Stager,
        connections: dict[str, Any],
    ) -> Drive:
        tools = dict(self._tools)
        if run.spec.formatter is not None:
            tools.setdefault(generate_report.name, generate_report)
        drive = Drive(
            run=run,
            head=head,
            fence=fence,
            kit=kit,
            model=model,
            tools=tools,
            connections=connections,
            stager=stager,
            journal=self.journal,
            clock=self._clock,
            mark_us=self._clock.active_us(),
            first=run.seq,
        )
        drive.load = lambda first, count: self._documents(run.number, first, count)
        if run.spec.task == 0:
            drive.tools[TASK_TOOL.name] = task_tool(self, drive)
        return drive

    def _documents(self, number: int, first: int, count: int) -> list[Document]:
        found = self.journal.documents_at(number, first, count)
        return [
            Document(item.name, body, item.mime, item.label, item.position)
            for item, body in found
            if body is not None
        ]

    def _taken(self, run_id: str) -> Drive:
        """Take the lease of a run, then read it; nobody can append in between."""
        row = self.journal.run(run_id)
        fence = self.journal.leases.acquire(row.run)
        try:
            run, head = restored(self.journal, row.run_id)
            stager = restaged(self.journal, row.run, self._ids.salt)
            kit = Kit(run.spec)
            drive = self._drive(run, head, fence, kit, self.model, stager, {})
            drive.resumed = run.state == EXECUTING
            drive.cancelled = self.journal.leases.cancel_requested(row.run)
            return drive
        except BaseException:
            self.journal.leases.release(row.run, fence)
            raise

    def _going_on(self, run_id: str, **options: Unpack[ResumeOptions]) -> Going | Result:
        """Return how a run goes on, or its result when there is nothing to do."""
        drive, walk = self._resumed(run_id, **options)
        if walk is not None:
            return Going(lambda: (drive, walk), resumed=True)
        if (again := self._owed(drive)) is not None:
            return Going(again, resumed=False)
        return result_of_run(drive.run, self.journal)

    def _resumed(
        self,
        run_id: str,
        *,
        answer: Any = None,
        outcome: str | None = None,
        result: Any = None,
        connections: Mapping[str, Any] | None = None,
        model: Model | str | None = None,
        reason: str | None = None,
        accept_changes: bool = False,
    ) -> tuple[Drive, Steps | None]:
        """Return the drive of a run and what to walk: None when there is nothing to do."""
        chosen = model_of(model) if model is not None else self.model
        row = self.journal.run(run_id)
        given = answer is not None or outcome is not None
        if reason is not None and not given:
            raise InvalidAnswer("a reason comes with an answer or with the outcome of an effect in doubt")
        if row.task == 0 and row.status == "waiting" and not given:
            task = waiting_task(self.journal, row)
            if task is None or self._timed_out(restored(self.journal, task)[0]) is not None:
                outcome, given = "retry", True  # its task waits no more: the workflow goes on
        if row.status in ("done", "failed") or (row.status == "waiting" and not given):
            run, head = restored(self.journal, row.run_id)
            if self._timed_out(run) is None:
                stager = Stager(self.journal.next_payload(row.run), self._ids.salt)
                return self._drive(run, head, 0, Kit(run.spec), chosen, stager, {**(connections or {})}), None
        if given and row.status != "waiting":
            raise InvalidAnswer(f"run {row.run_id} waits for nothing; it is {row.status} in {row.state}")
        drive = self._taken(row.run_id)
        drive.connections.update(connections or {})
        drive.model = chosen
        try:
            check_priced(chosen, drive.run.spec.limits)
            self._check_unchanged(drive, accept_changes)
            if not given:
                declined = self._timed_out(drive.run)
                return drive, steps(drive) if declined is None else self._answered(drive, declined)
            question = drive.run.waiting_for
            if question is None:
                raise InvalidAnswer(
                    f"run {row.run_id} waits for nothing any more; somebody else has answered"
                )
            reply = answer_of(question, answer, outcome, result, reason)
        except BaseException:
            self.journal.leases.release(drive.run.number, drive.fence)
            raise
        return drive, self._answered(drive, reply)

    def _check_unchanged(self, drive: Drive, accept_changes: bool) -> None:
        """
        Refuse a run whose parts have changed, or those of its unfinished tasks; or have them in force from now on.

        Raises:
            RunChanged: They matter to it and nobody has accepted them.
        """
        run, drive.accepting = drive.run, accept_changes
        changes = self.changes(run)
        if changes and accept_changes:
            accept(drive, self.current_spec(run.spec))
        elif any(change.relevant for change in changes):
            raise refusal(run.run_id, changes)
        for task in unfinished_tasks(self.journal, self.journal.run(run.run_id)):
            inner = self.changes(restored(self.journal, task)[0])
            if not accept_changes and any(change.relevant for change in inner):
                raise refusal(task, inner)

    def changes(self, run: Run | str) -> tuple[ChangedPart, ...]:
        """
        Return the parts in which this engine would decide a run otherwise than it was recorded, those that matter first.

        Args:
            run: Its id, or the run as it stands.
        """
        run = restored(self.journal, run)[0] if isinstance(run, str) else run
        return changes_of(self.journal, run, self.current_spec(run.spec), self._tools)

    def _timed_out(self, run: Run) -> Answer | None:
        """Return the decline that a run's unanswered question counts as by now, None while it may wait."""
        if run.waiting_for is None or run.spec.limits.elicitation_timeout_s is None:
            return None
        return timed_out(run, self.journal.rows(run.number), self._clock.now_us())

    def _answered(self, drive: Drive, reply: Answer) -> Steps:
        payload = drive.stager.stage(reply.wire_json(), JSON)
        yield from transition(drive, {"kind": "none"}, Answered(reply, payload))
        drive.resumed = False
        yield from steps(drive)

    def _driven(self, start: Start, *, resumed: bool, listening: bool = True) -> Iterator[Event]:
        drive, walk = start()
        drive.listening = listening
        try:
            log_start(drive.run, resumed=resumed)
            yield self._told(RunStarted(drive.run.run_id, drive.run.spec.objective, resumed))
            for event in perform(walk, self.journal):
                yield self._told(event)
        finally:
            walk.close()
            self._let_go(drive)
        result = result_of_run(drive.run, self.journal)
        yield self._told(RunEnded(result.run_id, result))
        if (again := self._fallback(drive)) is not None:
            yield from self._driven(again, resumed=False, listening=listening)

    async def _adriven(self, start: Start, *, resumed: bool, listening: bool = True) -> AsyncIterator[Event]:
        drive, walk = start()
        drive.listening = listening
        if drive.run.spec.task == 0:
            drive.tools[TASK_TOOL.name] = task_tool(self, drive, is_async=True)
        try:
            log_start(drive.run, resumed=resumed)
            yield self._told(RunStarted(drive.run.run_id, drive.run.spec.objective, resumed))
            async for event in aperform(walk, self._writers.writer()):
                yield self._told(event)
        finally:
            walk.close()
            self._let_go(drive)
        result = result_of_run(drive.run, self.journal)
        yield self._told(RunEnded(result.run_id, result))
        if (again := self._fallback(drive)) is not None:
            async for event in self._adriven(again, resumed=False, listening=listening):
                yield event

    def _let_go(self, drive: Drive) -> None:
        """Give the lease back; a journal that cannot be written now must not hide why the driver stops."""
        try:
            self.journal.leases.release(drive.run.number, drive.fence)
        except JournalError as error:
            LOGGER.warning("run %s: the lease could not be released: %s", drive.run.run_id, error)
        tell(self.journal, drive.run.number, drive.first)

    def _told(self, event: Event) -> Event:
        """Hand *event* to the hooks; a hook that raises is logged and changes nothing."""
        for hook in self._hooks:
            try:
                hook(event)
            except Exception:  # a hook is the host's own  # noqa: BLE001
                LOGGER.exception("run %s: a hook raised on %s", event.run_id, event.kind)
        return event


def _given_flow(given: WorkflowLike | None, variables: Mapping[str, Any] | None) -> GivenWorkflow | None:
    """Return a workflow file, None without one; what reads it is imported on first use."""
    if given is None and variables is None:
        return None
    from .flow_start import given_workflow

    return given_workflow(given, variables)
