"""
The engine: what a host embeds. It checks arguments, and a `fsm.lifecycle.runner.Runner` creates, takes up, drives and releases the runs.

One engine serves any number of runs, from threads and from asyncio. All state of a run is in the journal; an engine
holds only what it was constructed with.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, Unpack

from ..prompts.model import Model
from ..states.base.errors import LeaseHeld, UsageError
from ..states.run.spec import Mode, Spec
from ..states.run.state import Run
from ..states.settings.limits import Limits
from ..states.settings.policy import Policy
from ..states.settings.profile import Profile
from ..tools.tool import Tool
from .journal_api import Journal
from .lifecycle.acceptance import changes_now
from .lifecycle.answer import answer_run
from .lifecycle.arguments import DocumentLike, hooks_of
from .lifecycle.background import Background, OnClose, on_close_of
from .lifecycle.callbacks import attach_journal, callbacks_of
from .lifecycle.cancel import acancel, cancel
from .lifecycle.fork import fork_acquisition
from .lifecycle.instructions import Instructions
from .lifecycle.keyed_start import run_of_key
from .lifecycle.listening import abatches, checked_after, each, listen
from .lifecycle.look import result_now, waiting_results
from .lifecycle.model_facts import Pending
from .lifecycle.options import (
    AnswerOptions,
    ForkOptions,
    OutputType,
    ResumeOptions,
    RunOptions,
    T,
    run_options,
)
from .lifecycle.output_type import typed, typed_event, with_output
from .lifecycle.recover import Recovery, arecover, recover
from .lifecycle.resume import aperformed, aresume, aresuming_events, performed, resume, resuming_events
from .lifecycle.runner import Runner, compile_catalogs
from .lifecycle.settings import EngineSettings, settings_of
from .lifecycle.start import NewRun, new_run
from .lifecycle.subrun_runner import SubrunDriver, new_workflow
from .lifecycle.subruns import Task, as_list, run_tool
from .lifecycle.told import Earlier
from .lifecycle.turns import Start, abegun_events, begun_events, submit
from .machine.machine import Machine
from .runtime.events import Event
from .runtime.ports import Clock, Ids, RandomIds, SystemClock, ValuesPort
from .runtime.result import Result

if TYPE_CHECKING:
    from .journal.rows import RunRow
    from .versioning.changes import ChangedPart


class Engine:
    """
    Run agents: every step is checked against the table of the machine, and written to the journal before anything acts on it.

    Args:
        model: A model, or the name of one: ``openai:NAME``, ``anthropic:NAME``, ``offline``, ``script:FILE``, or ``auto``
            (default): a key in the environment decides, else ``offline``.
        tools: The host's tools, offered beside the built-in ones.
        journal: Path of the journal, or a `Journal`; default ``paor.db``.
        limits: Limits of every run, over the defaults of its mode; a run can change some of them.
        policy: What runs may do.
        prompts: Templates by name that replace the shipped ones.
        rules: One to seven business rules of one line each, instead of the shipped five in selection prompts.
        hooks: Functions called with every event, after its row is durable; an exception in one is logged. An object with a method
            ``attach_journal``, such as `paor.otel.OpenTelemetry`, is given the journal first.
        clock, ids: Sources of time, ids and salts; by default the system's clocks and random ids.
        builtins: True offers the built-in tools in every run, False in none. By default they are offered to runs that have
            documents, begin with those of earlier rounds, or have the offline model; to others as far as the run's ``tools`` name
            them or the patterns of its task type do (``*`` names none). The tools that a workflow file calls are always there.
        profile: Of runs in react mode that bring none: ``auto`` (default), ``native``, ``two_stage``, ``strict``, or a `Profile`;
            see `RunOptions`.
        instructions: What the model is told in every request, before the rules: a text, or a pure function that gets an
            `InstructionsContext` and returns one. It is called when a run starts, and the run's spec records the text.
        deps: What tools get as `ToolContext.deps` in runs that bring none, such as a pool of connections; never journaled.
        machine: The machine that runs walk, with the host's own guards, phases and rows; by default the standard one. Runs of
            workflow files walk the standard one in any case, and so does the run of a workflow; its tasks walk this one.
        values: Called with a run's id and its phase where the machine's `ask_values` says so; gives values for guards, which are
            journaled. A coroutine function is awaited. What it raises ends the drive, not the run: a resume asks again.
        never: What no run may do, such as ``["Done without Verifying", "pay.* without approval"]``, in the language of
            ``docs/checking.md``. A row that would do it is refused with `ForbiddenRow`, before anything is written or called.

    Raises:
        UsageError: An unusable model, tool, template, schema, or machine, with everything that is wrong with it.
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
        builtins: bool | None = None,
        profile: Profile | str = "auto",
        instructions: Instructions | None = None,
        rules: Sequence[str] | None = None,
        deps: Any = None,
        machine: Machine | None = None,
        values: ValuesPort | None = None,
        never: str | Sequence[str] = (),
    ) -> None:
        settings = settings_of(
            model,
            tools,
            limits,
            policy,
            prompts,
            rules,
            builtins=builtins,
            profile=profile,
            instructions=instructions,
            deps=deps,
            machine=machine,
            values=values,
            never=never,
        )
        catalogs, listeners = compile_catalogs(settings), (*hooks_of(hooks), *callbacks_of(settings.machine))
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
        self._background = Background(self._runner.listening)
        attach_journal(listeners, self.journal)

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
        listeners = hooks_of(hooks)
        attach_journal(listeners, self.journal)
        self._runner.hooks = listeners

    @property
    def limits(self) -> Limits:
        """The limits of every run in react mode that is started without its own; see `limits_of`."""
        return self._runner.settings.limits

    @property
    def machine(self) -> Machine:
        """The machine that runs walk."""
        return self._runner.settings.machine or Machine.standard()

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
        other._background = Background(other._runner.listening)
        return other

    def run(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions[T]],
    ) -> Result[T]:
        """
        Run an objective to its end, or until it waits for an answer.

        Args:
            objective: What to reach, in the user's words.
            success_criteria: Statements that must hold at the end.
            documents: Paths, `Document` values, or (name, content) pairs.
            **options: See `RunOptions`; every other way to start a run takes the same.

        Returns:
            The result; a model or tool that fails ends in Failed with a reason, never in an exception. With a *key* that
            names a run, the result of that run: as it is if it has ended or waits; else it is continued.

        Raises:
            UsageError: A bad argument; nothing was started.
            UnknownOption: An option that no run takes; the nearest one that it takes is named. Nothing was started.
            MissingExtra: A library that a document needs is not installed; nothing was started.
            KeyConflict: The key names a run that was started otherwise; nothing was started.
            ConversationBusy: Another round of the conversation runs or waits for a person, and *queue* does not wait for it; nothing was
                started.
            LeaseHeld: The key names a run that another driver has.
            JournalError: The journal could not be written; the run can be resumed.
        """
        start = self._new(objective, success_criteria, documents, options)
        return typed(performed(self._runner, start.begun()), options)

    async def arun(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions[T]],
    ) -> Result[T]:
        """Do the same as `run` on the running event loop."""
        start = self._new(objective, success_criteria, documents, options)
        return typed(await aperformed(self._runner, await start.abegun()), options)

    def submit(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        not_before: datetime | None = None,
        **options: Unpack[RunOptions[T]],
    ) -> Result[T]:
        """
        Write a run and queue it; a worker (`paor.worker.Worker`, ``paor worker``) of any process takes it up and drives it.

        Args:
            objective, success_criteria, documents: See `run`.
            not_before: When it may be taken up; by default at once.
            **options: See `RunOptions`, but for connections and deps, which are never written: a worker's engine has its own.

        Returns:
            The run as it stands: ``running`` in Planning, and nobody has driven it. `result` looks at it again. With a *key* that
            names a run, that run as it is now.

        Raises:
            UsageError: A bad argument; nothing was written.
            KeyConflict: The key names a run that was started otherwise; nothing was written.
            JournalError: The journal could not be written.
        """
        start = self._new(objective, success_criteria, documents, options)
        return typed(submit(self._runner, start, not_before), options)

    async def asubmit(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        not_before: datetime | None = None,
        **options: Unpack[RunOptions[T]],
    ) -> Result[T]:
        """Do the same as `submit` without holding up the running event loop."""
        return await asyncio.to_thread(
            lambda: self.submit(objective, success_criteria, documents, not_before=not_before, **options)
        )

    def stream(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        on_close: OnClose = "detach",
        **options: Unpack[RunOptions],
    ) -> Generator[Event, None, None]:
        """
        Start a run (`start`) and listen to it (`events`) until it has ended or waits; the last event is `RunEnded`.

        Args:
            objective, success_criteria, documents, **options: See `run`.
            on_close: What becomes of the run when you stop reading before its end. ``detach``: nothing, it goes on in the background.
                ``stop``: the run is driven by whoever reads the events, in that thread, and is left at the row that was read last,
                where `resume` continues it; a `once` call that had begun is then in doubt.

        Raises:
            UsageError, ConversationBusy, KeyConflict, LeaseHeld: See `run`; the last two with ``stop``, and of `astream`, come with the
                first event.
        """
        start = self._new(objective, success_criteria, documents, options)
        return _typed(self._background.stream(begun_events(self._runner, start), on_close), options)

    def astream(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        on_close: OnClose = "detach",
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[Event, None]:
        """Do the same as `stream` on the running event loop; the run is started when the first event is asked for."""
        new = self._new(objective, success_criteria, documents, options)
        stream = self._background.astream(abegun_events(self._runner, new), on_close_of(on_close))
        return _atyped(stream, options)

    def start(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions],
    ) -> str:
        """
        Write a run, drive it in the background and return its id at once; `events` listens to it, from any process.

        It is driven in a thread of its own, until it ends or waits. The interpreter does not exit before that; `close`
        leaves it after its current call.

        Args:
            objective, success_criteria, documents, **options: See `run`.

        Returns:
            The id. With a *key* that names a run, that run's: it is continued, unless it has ended, waits, or somebody drives it.

        Raises:
            UsageError: A bad argument, or the engine has been drained; nothing was started.
            ConversationBusy: Another round of the conversation runs or waits; with *queue* the start itself waits for its turn.
            MissingExtra: A library that a document needs is not installed; nothing was started.
            KeyConflict: The key names a run that was started otherwise; nothing was started.
            JournalError: The journal could not be written.
        """
        new = self._new(objective, success_criteria, documents, options)
        try:
            return self._background.start(begun_events(self._runner, new))
        except LeaseHeld:
            return run_of_key(self.journal.reader, options.get("key"))

    async def astart(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        **options: Unpack[RunOptions],
    ) -> str:
        """Do the same as `start`; the run is driven by a task of its own on the running event loop."""
        new = self._new(objective, success_criteria, documents, options)
        try:
            return await self._background.astart(abegun_events(self._runner, new))
        except LeaseHeld:
            return run_of_key(self.journal.reader, options.get("key"))

    def continue_run(self, run_id: str, **options: Unpack[ResumeOptions]) -> str:
        """
        Do the same as `resume` in the background: what `resume` refuses is refused at once, and the run is driven as by `start`.

        Args:
            run_id: Its id, or an unambiguous prefix.
            **options: See `resume`.

        Returns:
            The id of the run that is driven first: of a workflow whose task takes the answer, the task's.
        """
        return self._background.start(resuming_events(self._runner, run_id, options))

    async def acontinue_run(self, run_id: str, **options: Unpack[ResumeOptions]) -> str:
        """Do the same as `continue_run`; the run is driven by a task of its own on the running event loop."""
        return await self._background.astart(aresuming_events(self._runner, run_id, options))

    def events(self, run_id: str, after: int | None = None) -> Generator[Event, None, None]:
        """
        Listen to a run: yield the events of its rows from its journal, then live to its end; the last one is `RunEnded`.

        Anybody may listen, in any process, as often as they like; leaving the loop changes nothing for the run. A run that waits
        is listened to until it goes on and ends, whoever drives it. Rows come to each listener once and in order. A listener that
        is slow does not slow the run: it gets the rows from the journal later. What a model says while it answers comes where the run
        is driven in this process; of that a slow listener is told what it missed (`ModelNotice`).

        Args:
            run_id: Its id, or an unambiguous prefix.
            after: Only rows after this one, such as the ``seq`` of the last event that you have seen of a row. The events of one
                row share its number. None: all, with `RunStarted` before them.

        Raises:
            UnknownRun: There is no such run; at once.
            UsageError: *after* is not the number of a row; at once.
            JournalDamaged: The run cannot be read.
        """
        return listen(self._runner.listening, self.journal.reader.run(run_id).run_id, checked_after(after))

    def aevents(self, run_id: str, after: int | None = None) -> AsyncGenerator[Event, None]:
        """Do the same as `events` on the running event loop."""
        run_id, after = self.journal.reader.run(run_id).run_id, checked_after(after)
        return each(abatches(self._runner.listening, run_id, after))

    def _new(
        self,
        objective: str,
        success_criteria: Sequence[str],
        documents: Sequence[DocumentLike],
        options: Mapping[str, Any],
        tasks: Sequence[Task] | None = None,
        *,
        whole: bool = False,
    ) -> Start:
        """Check the arguments of a run, or of a workflow and its tasks; nothing of it is written yet."""
        runner, settings, given = self._runner, self._runner.settings, run_options(options)
        said = (objective, as_list(success_criteria), as_list(documents))
        planned = as_list(tasks)

        def make(earlier: Earlier | None) -> Pending[NewRun]:
            if whole:
                return new_workflow(runner, *said, planned, given, earlier)
            return Pending(new_run(settings, runner.ids.salt, *said, given, earlier=earlier))

        return Start(runner, make, given)

    def resume(self, run_id: str, **options: Unpack[ResumeOptions[T]]) -> Result[T]:
        """
        Go on with a run where its journal ends.

        Args:
            run_id: Its id, or an unambiguous prefix.
            **options: See `ResumeOptions`; every other way to go on with a run takes the same.

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
        return typed(resume(self._runner, run_id, **options), options)

    async def aresume(self, run_id: str, **options: Unpack[ResumeOptions[T]]) -> Result[T]:
        """Do the same as `resume` on the running event loop."""
        return typed(await aresume(self._runner, run_id, **options), options)

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> Tool:
        """
        Return this engine's runs as a tool for another engine: each call of it is a run of its own, linked to the call.

        The run is driven with this engine's model, tools, policy and prompts, and stands in the journal of the run that calls it
        (`RunRow.called_by`). Of its budgets it has no more than what is left of the caller's; what it used
        counts in the caller's. A cancel of the caller cancels it, and its open question is the caller's. After a crash the same call
        finds its run again and starts none twice.

        Args:
            name: Of the tool: ``method.name``; a name without a method gets ``run``, as in ``run.research``.
            description: What it is for, for the model.
            parameters: JSON Schema of other parameters than ``objective``. The run's objective is the argument ``objective``, or
                without one *description*, with all other arguments in lines of their own.
            **options: What each of the runs is started with, see `RunOptions`; but for those of a single run: key, conversation, after,
                queue. A run without a language has its caller's.

        Raises:
            UsageError: A name, a description, a schema or an option that cannot be used.
        """
        return run_tool(self._runner, name, description, parameters, run_options(options))

    def resume_stream(
        self, run_id: str, *, on_close: OnClose = "detach", **options: Unpack[ResumeOptions]
    ) -> Generator[Event, None, None]:
        """
        Go on with a run in the background (`continue_run`) and listen until it has ended or waits; the last event is `RunEnded`.

        Of a run that has ended, or still waits, these are `RunStarted` and `RunEnded`, and hooks hear nothing.

        Args:
            run_id: Its id, or an unambiguous prefix.
            on_close: See `stream`. What `resume` refuses is refused at once; with ``stop``, and of `aresume_stream`, with the first
                event.
            **options: See `resume`.
        """
        events = resuming_events(self._runner, run_id, options)
        return _typed(self._background.stream(events, on_close), options)

    def aresume_stream(
        self, run_id: str, *, on_close: OnClose = "detach", **options: Unpack[ResumeOptions]
    ) -> AsyncGenerator[Event, None]:
        """Do the same as `resume_stream` on the running event loop."""
        events = aresuming_events(self._runner, run_id, options)
        return _atyped(self._background.astream(events, on_close_of(on_close)), options)

    def answer(self, run_id: str, *, question: str, **options: Unpack[AnswerOptions]) -> tuple[str, int]:
        """
        Write the answer to what a run waits for, as one row, and drive nothing: `resume` or `recover`, in any process, goes on.

        Args:
            run_id: Its id, or an unambiguous prefix.
            question: Id of the question that this answers (`Result.waiting_for`).
            **options: See `AnswerOptions`.

        Returns:
            Id of the run that has taken the answer, of a workflow its task, and the number of the row.

        Raises:
            UnknownRun: There is no such run.
            LeaseHeld: Somebody drives the run, perhaps with another answer.
            AlreadyAnswered: The question is settled; nothing was changed.
            InvalidAnswer: The answer does not fit, or the run does not ask this; nothing was changed.
            RunChanged: What decides the run has changed in parts that matter to it; nothing was changed.
            JournalDamaged: The run's chain is broken.
        """
        return answer_run(self._runner, run_id, question, **options)

    async def aanswer(
        self, run_id: str, *, question: str, **options: Unpack[AnswerOptions]
    ) -> tuple[str, int]:
        """Do the same as `answer` without holding up the running event loop."""
        return await asyncio.to_thread(lambda: self.answer(run_id, question=question, **options))

    def result(self, run_id: str, output_type: OutputType[T] = None) -> Result[T]:
        """
        Look at a run: its result as it is now, whatever it does.

        Nothing is driven, no lease is taken and nothing is written.

        Args:
            run_id: Its id, or an unambiguous prefix.
            output_type: As for `resume`.

        Returns:
            The result. ``status`` is ``running`` before the end, whether or not anybody drives the run; of a workflow
            whose task waits, ``waiting_for`` is what that task asks.

        Raises:
            UnknownRun: There is no such run.
            JournalDamaged: The run's chain is broken.
            Erased: What this needs was erased.
        """
        return with_output(result_now(self.journal.reader, run_id), output_type)

    async def aresult(self, run_id: str, output_type: OutputType[T] = None) -> Result[T]:
        """Do the same as `result` without holding up the running event loop."""
        return await asyncio.to_thread(lambda: self.result(run_id, output_type))

    def waiting(self) -> list[Result]:
        """
        Return the runs of the journal that wait for a person, the one that has waited longest first.

        ``waiting_for`` of each is its question, to be answered with `resume` of its ``run_id``. A workflow stands for its task
        that waits. A question that counts as declined by its age (`Limits.elicitation_timeout_s`) is among them until its run
        goes on. A run that cannot be read any more is left out and logged.
        """
        return waiting_results(self.journal.reader)

    async def awaiting(self) -> list[Result]:
        """Do the same as `waiting` without holding up the running event loop."""
        return await asyncio.to_thread(self.waiting)

    def recover(self, options: Callable[[RunRow], ResumeOptions] | None = None) -> Recovery:
        """
        Go on with every run of the journal that has not ended, waits for nobody and has no driver; the oldest first.

        For the start of a process, after others were lost. A workflow goes on with its tasks, a question that counts as
        declined by its age is declined, and a fallback that a crash prevented is started. Processes that recover at once
        share the runs and drive none twice. A run that was created and never driven is continued, too.

        Args:
            options: Called with each run before it goes on; returns what `resume` takes beside the id, such as
                ``{"connections": {...}}`` or ``{"accept_changes": True}``. What it raises as a `PaorError` refuses the run.

        Returns:
            The results, a run's after it has ended or waits; and beside them, as ``refused``, the error of each run that
            cannot go on (`RunChanged`, `JournalDamaged`, ...), which does not stop the others. A run that was erased before
            its end is left out.
        """
        return recover(self._runner, options)

    async def arecover(
        self, options: Callable[[RunRow], ResumeOptions] | None = None, *, at_once: int = 8
    ) -> Recovery:
        """
        Do the same as `recover` on the running event loop, with several runs at a time.

        Args:
            options: See `recover`.
            at_once: How many.
        """
        if type(at_once) is not int or at_once < 1:
            raise UsageError(f"at_once {at_once!a:.60}: expected a whole number from 1")
        return await arecover(self._runner, options, at_once=at_once)

    def fork(self, run_id: str, at_seq: int, *, drive: bool = True, **options: Unpack[ForkOptions]) -> Result:
        """
        Start a new run that shares the rows of another one up to *at_seq*, and continue it from there.

        The fork refers to the shared rows and does not copy them; its root hash covers the last of them. Steps,
        tokens, cost and time continue from their values there. The fork makes its own calls. If it shares the
        intent of a call but not its outcome, the call counts as interrupted: a `once` effect is then in doubt, even
        if its tool says that it did not happen, because the parent may be about to make the call.

        Args:
            run_id: Id of the parent, or an unambiguous prefix; it may still be running.
            at_seq: Number of the last row to share, from 0; not the row that ended the parent.
            drive: Whether to continue at once; otherwise the fork is only created, and `resume` continues it.
            **options: See `ForkOptions`.

        Returns:
            The result of the fork; ``running`` or ``waiting`` if it was only created.

        Raises:
            UnknownRun: There is no such run.
            InvalidFork: It cannot be forked at this row.
            RunChanged: Parts that decide it have changed since it was recorded, and *current* does not accept them.
            InvalidAnswer: The answer does not fit; nothing was created.
            JournalDamaged: The chain of the shared rows is broken.
        """
        acquire = fork_acquisition(self._runner, run_id, at_seq, **options)
        if not drive:
            return self._runner.created_only(acquire)
        return self._runner.result(acquire, resumed=True)

    async def afork(
        self, run_id: str, at_seq: int, *, drive: bool = True, **options: Unpack[ForkOptions]
    ) -> Result:
        """Do the same as `fork` on the running event loop."""
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
        **options: Unpack[RunOptions[T]],
    ) -> Result[T]:
        """
        Run an objective as a workflow: planned as tasks, each driven as a run of its own, reviewed as a whole.

        Args:
            objective: What to reach.
            success_criteria: Statements that must hold when all tasks are done.
            documents: What every task gets.
            tasks: The tasks, if the host knows them; None: the model plans them.
            **options: See `RunOptions`; they apply to each task, ``output_type`` to the whole. Without ``language`` the model detects it in the
                objective.

        Returns:
            The result of the whole, with the documents of all tasks. If a task waits, the status is ``waiting``;
            `resume` of either run takes the answer.

        Raises:
            UsageError: A bad argument; nothing was started.
        """
        start = self._new(objective, success_criteria, documents, options, tasks, whole=True)
        return typed(performed(self._runner, start.begun()), options)

    async def arun_workflow(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        tasks: Sequence[Task] | None = None,
        **options: Unpack[RunOptions[T]],
    ) -> Result[T]:
        """Do the same as `run_workflow` on the running event loop; its tasks run there, too."""
        start = self._new(objective, success_criteria, documents, options, tasks, whole=True)
        return typed(await aperformed(self._runner, await start.abegun()), options)

    def submit_workflow(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        tasks: Sequence[Task] | None = None,
        not_before: datetime | None = None,
        **options: Unpack[RunOptions[T]],
    ) -> Result[T]:
        """
        Write a workflow and queue it; a worker takes it up and drives its tasks, one after the other.

        Args:
            objective, success_criteria, documents, tasks: See `run_workflow`.
            not_before, **options: See `submit`.

        Returns:
            The run of the whole as it stands.

        Raises:
            UsageError, KeyConflict, JournalError: See `submit`.
        """
        start = self._new(objective, success_criteria, documents, options, tasks, whole=True)
        return typed(submit(self._runner, start, not_before), options)

    async def asubmit_workflow(
        self,
        objective: str,
        success_criteria: Sequence[str] = (),
        documents: Sequence[DocumentLike] = (),
        *,
        tasks: Sequence[Task] | None = None,
        not_before: datetime | None = None,
        **options: Unpack[RunOptions[T]],
    ) -> Result[T]:
        """Do the same as `submit_workflow` without holding up the running event loop."""
        return await asyncio.to_thread(
            lambda: self.submit_workflow(
                objective, success_criteria, documents, tasks=tasks, not_before=not_before, **options
            )
        )

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
        return cancel(self._runner, run_id)

    async def acancel(self, run_id: str) -> Result:
        """Do the same as `cancel` on the running event loop."""
        return await acancel(self._runner, run_id)

    def machine_for(self, spec: Spec) -> Machine | None:
        """Return the machine that a run with *spec* walks, with this engine's functions; None for the standard one."""
        return self._runner.settings.machine_for(spec)

    def current_spec(self, spec: Spec) -> Spec:
        """
        Return *spec* as this engine would write it now: its own templates, tool schemas, policy and rules.

        What this engine was not given stays as it was recorded: a policy, rules, a template that another engine brought.
        So does a tool that it does not have, so that the difference shows where the tool is used.
        """
        return self._runner.settings.current_spec(spec)

    def trial_spec(self, spec: Spec) -> Spec:
        """
        Return *spec* with all of this engine's settings in the place of those of the engine that recorded it.

        A policy, rules, instructions, a machine, a template that this engine does not have are gone. Its limits hold as far as it
        was given any, also where the run brought others. The run keeps its list of tools without those that this engine does not
        have; an engine without tools of its own leaves the list as it is.

        Args:
            spec: What a run was started with.
        """
        return self._runner.settings.current_spec(spec, whole=True)

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

    @property
    def never(self) -> tuple[Any, ...]:
        """The properties that no run may break; `str` of one is its text as it was given."""
        return self._runner.settings.never

    def drain(self, seconds: float) -> tuple[str, ...]:
        """
        Start no more runs in the background, and wait for those that are on their way; for the end of a process.

        Those that have neither ended nor wait after *seconds* are left after their current call; `recover`, in any process, goes
        on with them.

        Args:
            seconds: How long they may take.

        Returns:
            The ids of the runs that are still driven then.
        """
        return self._background.drain(seconds)

    async def adrain(self, seconds: float) -> tuple[str, ...]:
        """Do the same as `drain` without holding up the running event loop."""
        return await asyncio.to_thread(self.drain, seconds)

    def close(self) -> None:
        """
        Leave each run in the background after its current call, then close the journal, including one that was passed in.

        It waits for these calls, but not for runs of the event loop that runs in this thread: there use ``async with``, or
        `adrain` first. Those who listen hear no more.
        """
        self._background.close()
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.to_thread(self.close)


def _typed(stream: Generator[Event, None, None], options: Mapping[str, Any]) -> Generator[Event, None, None]:
    """Yield events, the end with the answer as the type that was asked for."""
    with closing(stream) as events:
        for event in events:
            yield typed_event(event, options)


async def _atyped(
    stream: AsyncGenerator[Event, None], options: Mapping[str, Any]
) -> AsyncGenerator[Event, None]:
    async with aclosing(stream) as events:
        async for event in events:
            yield typed_event(event, options)
