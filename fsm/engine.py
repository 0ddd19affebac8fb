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
        limits: Limits of every run, over the defaults of its mode; a run can change some of them.
        policy: What runs may do.
        prompts: Templates by name that replace the shipped ones.
        rules: One to seven business rules of one line each, instead of the shipped five in selection prompts.
        hooks: Functions called with every event, after its row is durable; an exception in one is logged.
        clock, ids: Sources of time, ids and salts; by default the system's clocks and random ids.
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
            self.journal.store,
            clock if clock is not None else SystemClock(),
            ids if ids is not None else RandomIds(),
            listeners,
            SubrunDriver,
            catalogs,
        )

    @property
    def model(self) -> Model:
        """The model of every run that is started without its own."""
        return self._runner.settings.model

    @model.setter
    def model(self, model: Model) -> None:
        self._runner.settings = replace(self._runner.settings, model=model)

    @property
    def hooks(self) -> tuple[Callable[[Event], None], ...]:
        """Functions called with every event of every run."""
        return self._runner.hooks

    @hooks.setter
    def hooks(self, hooks: Sequence[Callable[[Event], None]]) -> None:
        self._runner.hooks = hooks_of(hooks)

    @property
    def limits(self) -> Limits:
        """The limits of every run in react mode that is started without its own; see `limits_of`."""
        return self._runner.settings.limits

    @property
    def policy(self) -> Policy:
        """What runs may do."""
        return self._runner.settings.policy

    def limits_of(self, mode: Mode) -> Limits:
        """
        Return the limits of a run that is started without its own: the defaults of its mode with the engine's.

        Args:
            mode: ``react``, ``batch`` or ``planner``; a planner may take 1,000 steps by default, the others 5.

        Source: docs/spec-coverage.md, row D14: steps are always bounded.
        """
        return self._runner.settings.limits_of(mode)

    def _with_ports(self, settings: EngineSettings, journal: Journal, clock: Clock, ids: Ids) -> Self:
        """Return this engine as another process would make it, with other settings and ports; for the fuzz kit."""
        other = copy.copy(self)
        other.journal, other._runner = journal, self._runner.with_ports(settings, journal.store, clock, ids)
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
        limits: Limits | Mapping[str, Any] | None = None,
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
            react_mode, workflow_mode: Other names for ``mode``: True or ``React`` for react, False or
                ``Actionplan`` for batch.
            connections: Values by label; only labels reach prompts and journal.
            context: Extra context for selection prompts.
            tools: Names of the tools this run may use; None offers all.
            model: Instead of the engine's.
            prompt_template: Instead of the template that plans: ``selection`` in react mode, else ``plan``.
            transcript: The conversation before, for a planner: mappings with ``role`` and ``content``.
            final_format: ``md``, ``txt``, ``html`` or ``docx``: one last formatting action after a successful review.
            limits: The limits that change, as a `Limits` value or a mapping such as ``{"max_steps": 9}``; all others stay the
                engine's. The same rule holds for `fork` (over the parent's) and `follow_up` (over the last round's). A run
                that is resumed keeps its limits.
            profile: ``lenient`` (default) accepts every documented form of a reply, ``strict`` only one; or a
                `Profile`. For react mode.
            stage: ``two_stage`` (default) asks for the action with its objective and inputs, ``single`` only for
                the choice of the action.
            fallback: ``batch``: if this react run fails, the task is started again as a batch run of the same
                workflow, and its result counts. Each run has its own limits. A run that was cancelled, ran out of
                budget or lost its model is not started again.
            workflow: A workflow file, its text, or a `Workflow`; implies the mode ``planner``.
            variables: Values of the workflow's variables, as JSON data; they take precedence over those of the
                file.

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
        question: str | None = None,
        connections: Mapping[str, Any] | None = None,
        model: Model | str | None = None,
        reason: str | None = None,
        actor: str | None = None,
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
            question: Id of the question that this answers (`Result.waiting_for`), so that a message that is delivered
                twice settles nothing else; an approval may hold it as ``"approval"``. Only the first question of a
                run may be answered without.
            connections: Values by label, as for `run`; they are never in the journal.
            model: Instead of the engine's, for a run that was started with its own.
            reason: Why this answer or outcome was chosen; stored in the journal with it.
            actor: Who approved, answered or settled it, such as the name of a user of the host; stored in the journal with
                it and shown by ``paor show`` and ``paor why``. paor does not check the name.
            accept_changes: Continue even if parts that decide the run have changed since it was recorded. The next
                row records this, and from it on this engine's prompts, tools and policy apply (`changes` lists the
                parts).

        Returns:
            The result. For a finished run it is read from the journal; for a run that still waits, the status is
            ``waiting``. In both cases nothing is appended. A question that is older than
            `Limits.elicitation_timeout_s` counts as declined, and the run continues. If a crash prevented the
            fallback of a failed run, the fallback is started now.

        Raises:
            UnknownRun: There is no such run.
            LeaseHeld: Another driver is alive.
            AlreadyAnswered: The question is settled, or none is named and an earlier one is; nothing was changed.
            InvalidAnswer: The answer does not fit, or the run waits for nothing; nothing was changed.
            RunChanged: Prompts, tools, policy or paor's own decisions have changed in parts that matter to the run.
            JournalDamaged: The run's chain is broken.
        """
        return resume(
            self._runner,
            run_id,
            answer=answer,
            outcome=outcome,
            result=result,
            question=question,
            connections=connections,
            model=model,
            reason=reason,
            actor=actor,
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
        actor: str | None = None,
        connections: Mapping[str, Any] | None = None,
        model: Model | str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        prompt_template: str | None = None,
        current: bool = False,
        drive: bool = True,
    ) -> Result:
        """
        Start a new run that shares the rows of another one up to *at_seq*, and continue it from there.

        The fork refers to the shared rows and does not copy them; its root hash covers the last of them. Steps,
        tokens, cost and time continue from their values there. The fork makes its own calls. If it shares the
        intent of a call but not its outcome, the call counts as interrupted: a `once` effect is then in doubt, even
        if its tool says that it did not happen, because the parent may be about to make the call.

        Args:
            run_id: Id of the parent, or an unambiguous prefix; it may still be running.
            at_seq: Number of the last row to share, from 0; not the row that ended the parent.
            answer, outcome, result, actor, connections: As for `resume`, if the parent waited at this row.
            model: Used instead of the engine's; if its name differs from the parent's, the fork's own spec records
                it.
            limits: The limits that change for the fork's own rows, as for `run`; all others stay the parent's.
            policy, prompt_template: Used instead of the parent's for the fork's own rows.
            current: Take this engine's prompts, rules, tool schemas and policy instead of those that the parent
                recorded.
            drive: Whether to continue at once; otherwise the fork is only created, and `resume` continues it.

        Returns:
            The result of the fork; ``running`` or ``waiting`` if it was only created.

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
            actor=actor,
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
            **options: See `stream`; they apply to each task. Without ``language`` the model detects it in the
                objective.

        Returns:
            The result of the whole, with the documents of all tasks. If a task waits, the status is ``waiting``;
            `resume` of either run takes the answer.

        Raises:
            UsageError: A bad argument; nothing was started.
        """
        runner, own = self._runner, task_options(options)
        new = new_workflow(runner, objective, success_criteria, documents, tasks, own)
        return with_question(self.journal.reader, runner.result(runner.creation(new), resumed=False))

    async def arun_workflow(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        tasks: Sequence[Task] | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Do the same as `run_workflow` on the running event loop; its tasks run there, too."""
        runner, own = self._runner, task_options(options)
        new = new_workflow(runner, objective, success_criteria, documents, tasks, own)
        return with_question(self.journal.reader, await runner.aresult(runner.creation(new), resumed=False))

    def follow_up(self, run_id: str, text: str, **options: Unpack[RunOptions]) -> Result:
        """
        Open the next round of a finished run or workflow: a new objective with the history and documents so far.

        Args:
            run_id: Any run of the workflow.
            text: What the user wants next.
            **options: See `stream`; mode, language, tools and task type are by default those of the last round, and so are
                the limits that are not given.

        Raises:
            UsageError: A run of the workflow is not finished.
        """
        runner = self._runner
        new = new_round(runner, run_id, text, options)
        return with_question(self.journal.reader, runner.result(runner.creation(new), resumed=False))

    def cancel(self, run_id: str) -> Result:
        """
        Ask a run to stop, from any thread or process.

        A run with a driver stops before its next effect; a run without one ends at once in Failed(cancelled).
        Cancelling a workflow cancels its unfinished tasks.

        Args:
            run_id: Its id, or an unambiguous prefix.

        Returns:
            The result as it is now: for a finished run unchanged; perhaps ``running`` if another process has the
            run.

        Raises:
            UnknownRun: There is no such run.
        """
        row = self.journal.run(run_id)
        if row.status in ("done", "failed"):
            return result_of_run(restore_run(self.journal.reader, row.run_id)[0], self.journal.reader)
        # the request first, then the lease: a driver that is alive sees it with its next row, and if there is none, or it
        # ends between the two, the lease can be taken here and the end written
        self.journal.store.leases.request_cancel(row.run)
        for task in unfinished_tasks(self.journal.reader, row):
            self.cancel(task)
        try:
            drive = self._runner.take(row.run_id)
        except LeaseHeld:
            return result_of_run(restore_run(self.journal.reader, row.run_id)[0], self.journal.reader)
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
        Return the parts of this engine that differ from those a run was recorded with, those that matter to it
        first.

        Args:
            run: Its id, or the run as it is now.
        """
        return changes_now(self._runner, run)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that a run can use unless it names some: the host's own, then the built-in ones."""
        return tuple(self._runner.settings.tools.values())

    def close(self) -> None:
        """Close the journal, including one that was passed in, and end the writer threads."""
        self._runner.close()
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
