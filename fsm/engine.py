"""
The engine: what a host embeds. It builds a run's spec, opens the journal, and lets a driver walk the loop.

One engine serves any number of runs, from threads and from asyncio. All state of a run is in the journal; an engine
holds only what it was constructed with.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from ..prompts.model import Model
from ..states.actions import DocumentRef
from ..states.errors import InvalidAnswer, JournalError, LeaseHeld, UsageError
from ..states.events import Event, RunEnded, RunStarted
from ..states.limits import Limits
from ..states.outcomes import Answered, Cancelled
from ..states.phase import EXECUTING
from ..states.plans import TASKS_MAX
from ..states.policy import Policy
from ..states.profile import Profile, Stage
from ..states.run import Run, initial_run, label_of
from ..states.spec import TASK_TOOL, Mode, Spec
from ..states.waiting import Answer
from ..tools.catalog import Catalog, folded
from ..tools.documents import generate_report
from ..tools.tool import Document, Tool
from .drivers import WriterPool, aperform, perform
from .fallback import fallback_of, fallback_spec, warn_of_legacy
from .intake import (
    DocumentLike,
    RunOptions,
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
from .loop import Drive, Steps, steps, transition
from .observe import cut, line
from .payloads import JSON, Stager
from .ports import Clock, Ids, RandomIds, SystemClock
from .result import Result, result_of_run
from .resuming import answer_of, restaged, restored, timed_out
from .starting import PLANNER_STEPS, mode_of, placed, spec_of
from .workflows import (
    Place,
    Task,
    TaskCall,
    grouped,
    listed,
    next_round,
    task_options,
    task_tool,
    unfinished_tasks,
    waiting_task,
    workflow_place,
)

if TYPE_CHECKING:
    from .flow_start import GivenWorkflow, WorkflowLike

_PLACE = ("workflow_id", "round", "task", "history")
Start = Callable[[], tuple[Drive, Steps]]
"""Takes hold of a run: called when the first event is asked for, so that nobody holds a run without driving it."""

LOGGER = logging.getLogger("paor")


class Engine:
    """
    Run objectives as a guarded, journaled state machine.

    Args:
        model: A model, or ``offline`` / ``script:FILE`` / ``auto`` (default).
        tools: The host's tools, offered beside the built-in ones.
        journal: Path of the journal, or a `Journal`; default ``paor.db``.
        limits: Bounds of every run unless a run brings its own.
        policy: What runs may do.
        prompts: Templates by name that replace the shipped ones.
        rules: One to seven business rules of one line each, instead of the shipped five in selection prompts.
        hooks: Functions called with every event, after its row is durable; an exception in one is logged.
        clock, ids: Ports for time, ids and salts.
        builtins: Whether the built-in tools are offered.

    Raises:
        UsageError: An unusable model, tool, template, or schema.
    """

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
        self.policy = policy if policy is not None else Policy()
        self._tools = toolbox(tools, builtins=builtins)
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

    # -- public ------------------------------------------------------------------------------------------------

    def run(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions],
    ) -> Result:
        """
        Run an objective to its end, or until it waits for an answer.

        Args:
            objective: What to reach, in the user's words.
            success_criteria: Statements that must hold at the end.
            documents: Paths, `Document` values, or (name, content) pairs.
            **options: See `stream`, which takes the same.

        Returns:
            The result; a model or tool that fails ends in Failed with a reason, never in an exception.

        Raises:
            UsageError: A bad argument; nothing was started.
            JournalError: The journal could not be written; the run can be resumed.
        """
        start = self._prepared(objective, success_criteria, documents, **options)
        return _last_result(self._driven(start, resumed=False, listening=bool(self._hooks)))

    async def arun(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions],
    ) -> Result:
        """Do the same as `run` on the running event loop."""
        start = self._prepared(objective, success_criteria, documents, **options)
        return await _alast_result(self._adriven(start, resumed=False, listening=bool(self._hooks)))

    def stream(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        language: str | None = None,
        user_language: str | None = None,
        task_type: str | None = None,
        mode: Mode | None = None,
        react_mode: bool | None = None,
        workflow_mode: str | None = None,
        connections: Mapping[str, Any] | None = None,
        context: str | None = None,
        tools: Sequence[str] | None = None,
        model: Model | str | None = None,
        prompt_template: str | None = None,
        transcript: Sequence[Mapping[str, str]] = (),
        final_format: str | None = None,
        limits: Limits | None = None,
        profile: Profile | str | None = None,
        stage: Stage | None = None,
        fallback: Literal["batch"] | None = None,
        workflow: WorkflowLike | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Iterator[Event]:
        """
        Run an objective and yield its events as they become durable; the last one is `RunEnded`.

        Args:
            objective: What to reach.
            success_criteria: Statements that must hold at the end.
            documents: Paths, `Document` values, or (name, content) pairs.
            language: Language of the answer; wins over *user_language*, the user's profile; else English.
            task_type: A key of `Policy.task_types`.
            mode: ``react`` (default): one action at a time; ``batch``: one plan, reviewed when its steps are used up;
                ``planner``: plans until one is empty.
            react_mode, workflow_mode: The same under other names: True or ``React``, False or ``Actionplan`` for batch.
            connections: Values by label; only labels reach prompts and journal.
            context: Extra context for selection prompts.
            tools: Names of the tools this run may use; None offers all.
            model: Instead of the engine's.
            prompt_template: Instead of the template that plans: ``selection`` in react mode, else ``plan``.
            transcript: The conversation before, for a planner: mappings with ``role`` and ``content``.
            final_format: ``md`` or ``txt``: one last formatting action after a successful review.
            limits: Instead of the engine's.
            profile: ``lenient`` (default) takes every form of a reply that the documents have, ``strict`` one; or a
                `Profile`. For react mode.
            stage: ``two_stage`` (default) asks for document 003's whole Stage 1, ``single`` for 002's bare choice.
            fallback: ``batch``: when this react run fails (not cancelled, out of budget or without its model), the task
                is started once more as a batch run of the same workflow, whose result counts. Each has its own bounds.
            workflow: A workflow file, its text, or a `Workflow`; implies the mode ``planner``.
            variables: Values of the workflow's variables, JSON; they win over those of the file.

        Raises:
            UsageError: A bad argument; nothing was started.
        """
        options = {name: value for name, value in locals().items() if name in _OPTIONS}
        start = self._prepared(objective, success_criteria, documents, **options)
        return self._driven(start, resumed=False)

    def astream(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Event]:
        """Do the same as `stream` on the running event loop."""
        start = self._prepared(objective, success_criteria, documents, **options)
        return self._adriven(start, resumed=False)

    def resume(
        self,
        run_id: str,
        *,
        answer: Any = None,
        outcome: str | None = None,
        result: Any = None,
        connections: Mapping[str, Any] | None = None,
        model: Model | str | None = None,
    ) -> Result:
        """
        Go on with a run where its journal ends.

        Args:
            run_id: Its id, or an unambiguous prefix.
            answer: For a run that waits for a question or an approval: ``{"approve": true}``, the accepted values,
                or ``{"action": "decline"}``.
            outcome: For an effect in doubt: ``done`` (with *result*), ``retry`` or ``fail``.
            result: What the effect returned, for ``done``.
            connections: Values by label, as for `run`; they are never in the journal.
            model: Instead of the engine's, for a run that was started with its own.

        Returns:
            The result. Of a finished run it is read, and of a run that waits without an answer the status is
            ``waiting``; in both cases nothing is appended. A question that is older than
            `Limits.elicitation_timeout_s` is declined instead, and the run goes on.

        Raises:
            UnknownRun: There is none.
            LeaseHeld: Another driver is alive.
            InvalidAnswer: The answer does not fit; the run goes on waiting.
            JournalDamaged: The run's chain is broken.
        """
        task = self._task_to_answer(run_id, answer, outcome)
        if task is not None:
            self.resume(
                task, answer=answer, outcome=outcome, result=result, connections=connections, model=model
            )
            answer = outcome = result = None
        drive, walk = self._resumed(run_id, answer, outcome, result, connections, model)
        if walk is None:
            return self._settled(result_of_run(drive.run, self.journal))
        return self._settled(_last_result(self._driven(lambda: (drive, walk), resumed=True)))

    async def aresume(
        self,
        run_id: str,
        *,
        answer: Any = None,
        outcome: str | None = None,
        result: Any = None,
        connections: Mapping[str, Any] | None = None,
        model: Model | str | None = None,
    ) -> Result:
        """Do the same as `resume` on the running event loop."""
        task = self._task_to_answer(run_id, answer, outcome)
        if task is not None:
            await self.aresume(
                task, answer=answer, outcome=outcome, result=result, connections=connections, model=model
            )
            answer = outcome = result = None
        drive, walk = self._resumed(run_id, answer, outcome, result, connections, model)
        if walk is None:
            return self._settled(result_of_run(drive.run, self.journal))
        return self._settled(await _alast_result(self._adriven(lambda: (drive, walk), resumed=True)))

    def run_workflow(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        tasks: Sequence[Task] | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """
        Run an objective as a workflow: planned as tasks, each driven as a run of its own, reviewed as a whole.

        Args:
            objective: What to reach.
            success_criteria: Statements that must hold when all tasks are done.
            documents: What every task gets.
            tasks: The tasks, if the host knows them; None: the model plans them.
            **options: See `stream`; they are those of each task. Without a language it is the one that the model
                detects in the objective.

        Returns:
            The result of the whole; its documents are those of the tasks. ``waiting`` when a task waits: `resume` of
            either run takes the answer.

        Raises:
            UsageError: A bad argument; nothing was started.
        """
        start = self._workflow(objective, success_criteria, documents, tasks, task_options(options))
        return self._settled(_last_result(self._driven(start, resumed=False, listening=bool(self._hooks))))

    async def arun_workflow(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        tasks: Sequence[Task] | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Do the same as `run_workflow` on the running event loop; its tasks are driven there, too."""
        start = self._workflow(objective, success_criteria, documents, tasks, task_options(options))
        events = self._adriven(start, resumed=False, listening=bool(self._hooks))
        return self._settled(await _alast_result(events))

    def follow_up(self, run_id: str, text: str, **options: Unpack[RunOptions]) -> Result:
        """
        Open the next round of a finished run or workflow: a new objective with the history and documents so far.

        Args:
            run_id: Any run of the workflow.
            text: What the user wants next.
            **options: See `stream`; mode, language, tools, limits and task type are by default those of the last round.

        Raises:
            UsageError: A run of the workflow is not finished.
        """
        place, spec, documents = next_round(self.journal, run_id)
        given: dict[str, Any] = dict(options)
        if given.get("language") is None and given.get("user_language") is None:
            given["language"] = spec.language or None
        if place.task == 0:
            start = self._workflow(text, (), documents, None, task_options(given, place.options), place)
        else:
            same = spec.workflow is not None and given.get("mode") in (None, spec.mode)
            last = (_followed(spec) if same else {}) | self._bounds_of(spec)
            start = self._prepared(text, (), documents, place=place, **task_options(given, last))
        return self._settled(_last_result(self._driven(start, resumed=False, listening=bool(self._hooks))))

    def _bounds_of(self, spec: Spec) -> dict[str, Any]:
        """Return what a next round inherits: no round is freer than the one before it."""
        names = {folded(tool.name) for tool in spec.tools}
        offered = [name for name in self._tools if folded(name) in names]
        bounds = {"mode": spec.mode, "limits": spec.limits.model_dump(), "task_type": spec.task_type}
        return bounds | ({"tools": offered} if len(offered) < len(self._tools) else {})

    def drive_task(self, workflow: Drive, call: TaskCall) -> Result:
        """Drive one task of a workflow to its end, or until it waits; what `fsm.workflows` calls."""
        if call.known is not None:
            return self.resume(call.known, connections=workflow.connections, model=workflow.model)
        start = self._task(workflow, call)
        return _last_result(self._driven(start, resumed=False, listening=bool(self._hooks)))

    async def adrive_task(self, workflow: Drive, call: TaskCall) -> Result:
        """Do the same as `drive_task` on the running event loop."""
        if call.known is not None:
            return await self.aresume(call.known, connections=workflow.connections, model=workflow.model)
        start = self._task(workflow, call)
        return await _alast_result(self._adriven(start, resumed=False, listening=bool(self._hooks)))

    def _task(self, workflow: Drive, call: TaskCall) -> Start:
        """Return the start of a task; a workflow that is cancelled meanwhile cancels it, too."""
        start = self._prepared(
            call.objective,
            call.success_criteria,
            call.documents,
            place=call.place,
            model=workflow.model,
            **call.options,
        )

        def begin() -> tuple[Drive, Steps]:
            drive, walk = start()
            drive.cancelled = self.journal.leases.cancel_requested(workflow.run.number)
            return drive, walk

        return begin

    def _workflow(
        self,
        objective: str,
        success_criteria: Sequence[str],
        documents: Sequence[DocumentLike],
        tasks: Sequence[Task] | None,
        options: dict[str, Any],
        place: Place | None = None,
    ) -> Start:
        """Check the arguments of a workflow, those of its tasks included."""
        if options.get("workflow") is not None:
            raise UsageError("a workflow file is for one run; a workflow of several tasks has none")
        success_criteria = listed(success_criteria)
        self._prepared(objective, success_criteria, (), **options)  # the tasks will be started with them
        at = workflow_place(tasks, options)
        if place is not None:
            at = replace(at, **{name: getattr(place, name) for name in _PLACE})
        own = ("language", "user_language", "context", "model", "connections")
        kept = {name: options[name] for name in own if name in options}
        chosen = options.get("limits") or self.limits
        bounds = chosen.model_copy(update={"max_steps": TASKS_MAX})
        return self._prepared(
            objective, success_criteria, documents, place=at, mode="batch", limits=bounds, **kept
        )

    def _settled(self, result: Result) -> Result:
        """Return *result*; of a workflow whose task waits, with what that task asks."""
        waiting = waiting_task(self.journal, self.journal.run(result.run_id))
        if waiting is None:
            return result
        question = restored(self.journal, waiting)[0].waiting_for
        return dataclasses.replace(result, waiting_for=question)

    def _task_to_answer(self, run_id: str, answer: Any, outcome: str | None) -> str | None:
        """Return the task that an answer to its workflow is for, or None."""
        if answer is None and outcome is None:
            return None
        return waiting_task(self.journal, self.journal.run(run_id))

    def cancel(self, run_id: str) -> Result:
        """
        Ask a run to stop, from any thread or process.

        A run that is driven stops before its next effect; one that nobody drives ends at once in
        Failed(cancelled). With a workflow its unfinished tasks are cancelled. Of a finished run the result is
        returned unchanged.
        """
        row = self.journal.run(run_id)
        if row.status in ("done", "failed"):
            return result_of_run(restored(self.journal, row.run_id)[0], self.journal)
        self.journal.leases.request_cancel(row.run)
        for task in unfinished_tasks(self.journal, row):
            self.cancel(task)
        try:
            drive = self._taken(row.run_id)
        except LeaseHeld:
            return result_of_run(restored(self.journal, row.run_id)[0], self.journal)
        drive.cancelled = True
        waiting = drive.run.waiting_for is not None
        walk = transition(drive, {"kind": "none"}, Cancelled()) if waiting else steps(drive)
        return _last_result(self._driven(lambda: (drive, walk), resumed=True))

    def current_spec(self, spec: Spec) -> Spec:
        """
        Return *spec* as this engine would write it now: its own templates, tool schemas and policy.

        A tool that this engine does not have keeps its recorded form, so that the difference shows where it is used.
        """
        templates = templates_of(self._prompts, stage=spec.profile.stage)
        templates |= {name: spec.templates[name] for name in spec.own_templates}
        if spec.task == 0:  # a workflow calls its tasks whatever the policy says; the tasks obey it
            return spec.model_copy(update={"templates": templates})
        own = {folded(name): tool.spec() for name, tool in self._tools.items()}
        tools = tuple(own.get(folded(tool.name), tool) for tool in spec.tools)
        own_parts = {"templates": templates, "tools": tools, "policy": self.policy, "rules": self._rules}
        return spec.model_copy(update=own_parts)

    def limits_of(self, mode: Mode) -> Limits:
        """Return the bounds of a run that brings none: the engine's own, else the defaults of *mode* (SPEC D14)."""
        if self._limits is None and mode == "planner":
            return Limits(max_steps=PLANNER_STEPS)
        return self.limits

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that a run is offered unless it names some, a host's own before the built-in ones."""
        return tuple(self._tools.values())

    def close(self) -> None:
        """Close the journal, also one that was passed in, and end the writer threads."""
        self._writers.close()
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- starting ----------------------------------------------------------------------------------------------

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
            if name not in _OPTIONS:
                raise TypeError(f"run() got an unexpected keyword argument {name!r}")
        if connections is not None and not isinstance(connections, Mapping):
            raise UsageError("connections must be a mapping of labels to values")
        if not isinstance(options.get("limits"), Limits | None):
            raise UsageError("limits must be a Limits value, such as Limits(max_steps=3)")
        chosen = model_of(model) if model is not None else self.model
        flow = _given_flow(options.pop("workflow", None), options.pop("variables", None))
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
            connections=tuple(connections or ()),
            key_salt=self._ids.salt().hex(),
            **options,
        )
        if flow is not None:
            listed = [tool.name for tool in offered] if names is not None else None
            spec, chosen = flow.begun(spec, chosen, tools=listed, own_model=model is not None)
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

    def _created(
        self, spec: Spec, inputs: Sequence[Document], model: Model, connections: dict[str, Any]
    ) -> Drive:
        run_id = self._ids.run_id()
        stager = Stager(0, self._ids.salt)
        own = label_of(spec, 0, "input")
        within = bool(
            spec.workflow_id
        )  # documents of a workflow keep the labels under which they were produced
        placed_inputs = grouped(inputs if within else [replace(item, label="") for item in inputs], own)
        references = tuple(
            DocumentRef(
                number=number,
                label=label,
                position=position,
                name=cut(line(document.name), 200) or "document",
                mime=cut(line(document.mime), 100),
                payload=stager.stage(document.data, cut(line(document.mime), 100)),
            )
            for number, (label, position, document) in enumerate(placed_inputs)
        )
        spec = spec.model_copy(update={"documents": references, "workflow_id": spec.workflow_id or run_id})
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

    # -- resuming ----------------------------------------------------------------------------------------------

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

    def _resumed(
        self,
        run_id: str,
        answer: Any,
        outcome: str | None,
        result: Any,
        connections: Mapping[str, Any] | None,
        model: Model | str | None,
    ) -> tuple[Drive, Steps | None]:
        """Return the drive of a run and what to walk: None when there is nothing to do."""
        chosen = model_of(model) if model is not None else self.model
        row = self.journal.run(run_id)
        given = answer is not None or outcome is not None
        if row.task == 0 and row.status == "waiting" and not given:
            task = waiting_task(self.journal, row)
            if task is None or self._timed_out(restored(self.journal, task)[0]) is not None:
                outcome, given = "retry", True  # its task waits no more: the workflow goes on
        if row.status in ("done", "failed") or (row.status == "waiting" and not given):
            run, head = restored(self.journal, row.run_id)
            if self._timed_out(run) is None:
                stager = Stager(self.journal.next_payload(row.run), self._ids.salt)
                return self._drive(run, head, 0, Kit(run.spec), self.model, stager, {}), None
        if given and row.status != "waiting":
            raise InvalidAnswer(f"run {row.run_id} waits for nothing; it is {row.status} in {row.state}")
        drive = self._taken(row.run_id)
        drive.connections.update(connections or {})
        drive.model = chosen
        if not given:
            declined = self._timed_out(drive.run)
            return drive, steps(drive) if declined is None else self._answered(drive, declined)
        try:
            question = drive.run.waiting_for
            if question is None:
                raise InvalidAnswer(
                    f"run {row.run_id} waits for nothing any more; somebody else has answered"
                )
            reply = answer_of(question, answer, outcome, result)
        except BaseException:
            self.journal.leases.release(drive.run.number, drive.fence)
            raise
        return drive, self._answered(drive, reply)

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

    # -- driving -----------------------------------------------------------------------------------------------

    def _driven(self, start: Start, *, resumed: bool, listening: bool = True) -> Iterator[Event]:
        drive, walk = start()
        drive.listening = listening
        try:
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

    def _told(self, event: Event) -> Event:
        """Hand *event* to the hooks; a hook that raises is logged and changes nothing."""
        for hook in self._hooks:
            try:
                hook(event)
            except Exception:
                LOGGER.exception("run %s: a hook raised on %s", event.run_id, event.kind)
        return event


_OPTIONS = frozenset(RunOptions.__annotations__)


def _given_flow(given: WorkflowLike | None, variables: Mapping[str, Any] | None) -> GivenWorkflow | None:
    """Return a workflow file, None without one; what reads it is imported on first use."""
    if given is None and variables is None:
        return None
    from .flow_start import given_workflow

    return given_workflow(given, variables)


def _followed(spec: Spec) -> dict[str, Any]:
    """Return the options with which a next round follows the workflow file of a run."""
    from .flow_start import followed

    return followed(spec)


def _last_result(events: Iterator[Event]) -> Result:
    result: Result | None = None
    for event in events:
        if isinstance(event, RunEnded):
            result = event.result
    assert result is not None, "a stream ends with RunEnded"
    return result


async def _alast_result(events: AsyncIterator[Event]) -> Result:
    result: Result | None = None
    async for event in events:
        if isinstance(event, RunEnded):
            result = event.result
    assert result is not None, "a stream ends with RunEnded"
    return result
