"""
The engine: what a host embeds. It checks arguments, and a `fsm.lifecycle.runner.Runner` creates, takes up, drives and releases the runs.

One engine serves any number of runs, from threads and from asyncio. All state of a run is in the journal; an engine
holds only what it was constructed with.
"""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from ..prompts.model import Model
from ..states.base.errors import LeaseHeld
from ..states.records.events import Event
from ..states.run.spec import Mode, Spec
from ..states.run.state import Run
from ..states.settings.limits import Limits
from ..states.settings.policy import Policy
from ..states.settings.profile import Profile, Stage
from ..tools.tool import Tool
from .journal_api import Journal
from .lifecycle.acceptance import changes_now
from .lifecycle.arguments import OPTIONS, DocumentLike, ForkOptions, ResumeOptions, RunOptions, hooks_of
from .lifecycle.fork import fork_acquisition
from .lifecycle.result import Result, result_of_run
from .lifecycle.resume import aresume, resume
from .lifecycle.runner import Acquisition, Runner, compile_catalogs
from .lifecycle.settings import EngineSettings, settings_of
from .lifecycle.start import new_run
from .lifecycle.subrun_runner import SubrunDriver, new_round, new_workflow
from .lifecycle.subruns import Task, task_options, unfinished_tasks, with_question
from .replay.restore import restore_run
from .runtime.loop import cancel_steps, steps
from .runtime.ports import Clock, Ids, RandomIds, SystemClock

if TYPE_CHECKING:
    from .lifecycle.workflow_start import WorkflowLike
    from .versioning.changes import ChangedPart


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
        clock, ids: Ports for time, ids and salts; by default the machine's clocks and random ids.
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
        settings = settings_of(model, tools, limits, policy, prompts, rules, builtins=builtins)
        catalogs, listeners = compile_catalogs(settings), hooks_of(hooks)
        # the journal is opened last: an argument that cannot be used leaves no file and no connection behind
        self.journal = journal if isinstance(journal, Journal) else Journal(journal or "paor.db")
        self._runner = Runner(
            settings,
            self.journal,
            clock if clock is not None else SystemClock(),
            ids if ids is not None else RandomIds(),
            listeners,
            SubrunDriver,
            catalogs,
        )

    @property
    def model(self) -> Model:
        """What runs that bring no model of their own ask."""
        return self._runner.settings.model

    @model.setter
    def model(self, model: Model) -> None:
        self._runner.settings = replace(self._runner.settings, model=model)

    @property
    def limits(self) -> Limits:
        """Bounds of every run unless it brings its own."""
        return self._runner.settings.limits

    @property
    def policy(self) -> Policy:
        """What runs may do."""
        return self._runner.settings.policy

    def limits_of(self, mode: Mode) -> Limits:
        """
        Return the bounds of a run that brings none: the engine's own, else the defaults of its mode.

        Args:
            mode: ``react``, ``batch`` or ``planner``; a planner may take 1,000 steps by default, the others 5.

        Source: docs/spec-coverage.md, D14.
        """
        return self._runner.settings.limits_of(mode)

    def _with_ports(self, settings: EngineSettings, journal: Journal, clock: Clock, ids: Ids) -> Self:
        """Return this engine as another process would make it, with other settings and ports; for the fuzz kit."""
        other = copy.copy(self)
        other.journal, other._runner = journal, self._runner.with_ports(settings, journal, clock, ids)
        return other

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
        return self._runner.result(self._new(objective, success_criteria, documents, options), resumed=False)

    async def arun(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions],
    ) -> Result:
        """Do the same as `run` on the running event loop."""
        new = self._new(objective, success_criteria, documents, options)
        return await self._runner.aresult(new, resumed=False)

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
            language: Language of the answer, such as ``de``; default: *user_language*, else English.
            user_language: Language of the user's profile, for a run without a language of its own.
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
            final_format: ``md``, ``txt``, ``html`` or ``docx``: one last formatting action after a successful review.
            limits: Instead of the engine's.
            profile: ``lenient`` (default) takes every form of a reply that the documents have, ``strict`` one; or a
                `Profile`. For react mode.
            stage: ``two_stage`` (default) asks for the action with its objective and inputs, ``single`` for the bare choice.
            fallback: ``batch``: when this react run fails (not cancelled, out of budget or without its model), the task
                is started once more as a batch run of the same workflow, whose result counts. Each has its own bounds.
            workflow: A workflow file, its text, or a `Workflow`; implies the mode ``planner``.
            variables: Values of the workflow's variables, JSON; they win over those of the file.

        Raises:
            UsageError: A bad argument; nothing was started.
        """
        options = {name: value for name, value in locals().items() if name in OPTIONS}
        return self._runner.drive(self._new(objective, success_criteria, documents, options), resumed=False)

    def astream(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Event]:
        """Do the same as `stream` on the running event loop."""
        return self._runner.adrive(self._new(objective, success_criteria, documents, options), resumed=False)

    def _new(
        self,
        objective: str,
        success_criteria: Sequence[str],
        documents: Sequence[DocumentLike],
        options: Mapping[str, Any],
    ) -> Acquisition:
        """Check the arguments of a run now; what is returned creates it when the first event is asked for."""
        settings, salt = self._runner.settings, self._runner.ids.salt
        new = new_run(settings, salt, objective, success_criteria, documents, **options)
        return self._runner.creation(new)

    def resume(
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
    ) -> Result:
        """
        Go on with a run where its journal ends.

        Args:
            run_id: Its id, or an unambiguous prefix.
            answer: For a run that waits for a question or an approval: ``{"approve": true}``, the accepted values,
                or ``{"action": "decline"}``.
            outcome: For an effect in doubt: ``done`` (with *result*), ``retry`` or ``fail``.
            result: What the effect returned, for ``done``; for ``fail`` a text that says what went wrong.
            connections: Values by label, as for `run`; they are never in the journal.
            model: Instead of the engine's, for a run that was started with its own.
            reason: Why the answer or outcome is what it is, and who says so; kept in the journal beside it.
            accept_changes: Go on also when parts that decide the run are other ones than it was recorded with. The next
                row says so, and from it on this engine's prompts, tools and policy are in force (`changes` lists them).

        Returns:
            The result. Of a finished run it is read, and of a run that waits without an answer the status is
            ``waiting``; in both cases nothing is appended. A question that is older than
            `Limits.elicitation_timeout_s` is declined instead, and the run goes on. A run that failed, and whose
            fallback a crash has kept from starting, is now started once more.

        Raises:
            UnknownRun: There is none.
            LeaseHeld: Another driver is alive.
            InvalidAnswer: The answer does not fit; the run goes on waiting.
            RunChanged: Prompts, tools, policy or paor's own decisions have changed in parts that matter to the run.
            JournalDamaged: The run's chain is broken.
        """
        return resume(
            self._runner,
            run_id,
            answer=answer,
            outcome=outcome,
            result=result,
            connections=connections,
            model=model,
            reason=reason,
            accept_changes=accept_changes,
        )

    async def aresume(self, run_id: str, **options: Unpack[ResumeOptions]) -> Result:
        """Do the same as `resume` on the running event loop."""
        return await aresume(self._runner, run_id, **options)

    def fork(
        self,
        run_id: str,
        at_seq: int,
        *,
        answer: Any = None,
        outcome: str | None = None,
        result: Any = None,
        connections: Mapping[str, Any] | None = None,
        model: Model | str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        prompt_template: str | None = None,
        current: bool = False,
        drive: bool = True,
    ) -> Result:
        """
        Start a new run that shares the rows of another one up to *at_seq*, and drive it from there.

        The shared rows are referred to, not copied; the fork's root hash commits to the last of them. Steps, tokens,
        cost and time go on from their values there. What the fork does, it does itself, with effects of its own:
        a call whose intent is shared and whose end is not counts as begun by a driver that is gone. A `once` effect is
        then in doubt, also when its tool says that it did not happen, since the parent may be about to do it.

        Args:
            run_id: Id of the parent, or an unambiguous prefix; it may still be running.
            at_seq: Number of the last row to share, from 0; not the row that ended the parent.
            answer, outcome, result, connections: As for `resume`, where the parent waited at this row.
            model: Instead of the engine's; another name than the parent's is recorded in the fork's own spec.
            limits, policy, prompt_template: Instead of the parent's, for the fork's own rows; of the limits also those
                alone that change, such as ``{"max_steps": 9}``.
            current: Take this engine's prompts, rules, tool schemas and policy instead of those the parent has recorded.
            drive: Whether to go on at once; else it is only created, and `resume` goes on.

        Returns:
            The result of the fork; ``running`` or ``waiting`` when it was only created.

        Raises:
            UnknownRun: There is no such run.
            InvalidFork: It cannot be forked at this row.
            RunChanged: Parts that decide it have changed since it was recorded, and *current* does not accept them.
            InvalidAnswer: The answer does not fit; nothing was created.
            JournalDamaged: The chain of the shared rows is broken.
        """
        acquire = fork_acquisition(
            self._runner,
            run_id,
            at_seq,
            answer=answer,
            outcome=outcome,
            result=result,
            connections=connections,
            model=model,
            limits=limits,
            policy=policy,
            prompt_template=prompt_template,
            current=current,
        )
        if not drive:
            return self._runner.created_only(acquire)
        return self._runner.result(acquire, resumed=True)

    async def afork(
        self, run_id: str, at_seq: int, *, drive: bool = True, **options: Unpack[ForkOptions]
    ) -> Result:
        """Do the same as `fork` on the running event loop."""
        for name in options:
            if name not in ForkOptions.__annotations__:
                raise TypeError(f"afork() got an unexpected keyword argument {name!r}")
        acquire = fork_acquisition(self._runner, run_id, at_seq, **options)
        if not drive:
            return self._runner.created_only(acquire)
        return await self._runner.aresult(acquire, resumed=True)

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
        runner, own = self._runner, task_options(options)
        new = new_workflow(runner, objective, success_criteria, documents, tasks, own)
        return with_question(self.journal, runner.result(runner.creation(new), resumed=False))

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
        runner, own = self._runner, task_options(options)
        new = new_workflow(runner, objective, success_criteria, documents, tasks, own)
        return with_question(self.journal, await runner.aresult(runner.creation(new), resumed=False))

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
        runner = self._runner
        new = new_round(runner, run_id, text, options)
        return with_question(self.journal, runner.result(runner.creation(new), resumed=False))

    def cancel(self, run_id: str) -> Result:
        """
        Ask a run to stop, from any thread or process.

        A run that is driven stops before its next effect; one that nobody drives ends at once in
        Failed(cancelled). With a workflow its unfinished tasks are cancelled.

        Args:
            run_id: Its id, or an unambiguous prefix.

        Returns:
            The result as it is now: of a finished run unchanged, of one that another process drives perhaps ``running``.

        Raises:
            UnknownRun: There is none.
        """
        row = self.journal.run(run_id)
        if row.status in ("done", "failed"):
            return result_of_run(restore_run(self.journal, row.run_id)[0], self.journal)
        # the request first, then the lease: a driver that is alive sees it with its next row, and if there is none, or it
        # ends between the two, the lease can be taken here and the end written
        self.journal.leases.request_cancel(row.run)
        for task in unfinished_tasks(self.journal, row):
            self.cancel(task)
        try:
            drive = self._runner.take(row.run_id)
        except LeaseHeld:
            return result_of_run(restore_run(self.journal, row.run_id)[0], self.journal)
        drive.cancelled = True
        walk = cancel_steps(drive) if drive.run.waiting_for is not None else steps(drive)
        return self._runner.result(lambda: (drive, walk), resumed=True)

    def current_spec(self, spec: Spec) -> Spec:
        """
        Return *spec* as this engine would write it now: its own templates, tool schemas, policy and rules.

        What this engine was not given stays as it was recorded: a policy, rules, a template that another engine brought.
        So does a tool that it does not have, so that the difference shows where the tool is used.
        """
        return self._runner.settings.current_spec(spec)

    def changes(self, run: Run | str) -> tuple[ChangedPart, ...]:
        """
        Return the parts in which this engine would decide a run otherwise than it was recorded, those that matter first.

        Args:
            run: Its id, or the run as it is now.
        """
        return changes_now(self._runner, run)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that a run is offered unless it names some, a host's own before the built-in ones."""
        return tuple(self._runner.settings.tools.values())

    def close(self) -> None:
        """Close the journal, also one that was passed in, and end the writer threads."""
        self._runner.close()
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
