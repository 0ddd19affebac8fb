"""
The runner: creates a run or takes one up from its journal, drives it, and releases it.

Whichever way a run is acquired, a `RunContext` and the steps to walk come of it, which the sync and the async driver perform alike.
Nobody holds a run without driving it: an `Acquisition` is called when the first event is asked for, so a stream that is
never read leaves no lease behind.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypedDict

from ...prompts.clients.settings import said_scrubber
from ...prompts.model import Model, Notice
from ...states.base.errors import ConversationBusy, JournalError, LeaseHeld
from ...states.records.actions import DocumentRef, StoredText
from ...states.records.outcomes import Answered
from ...states.records.questions import Answer
from ...states.run.phase_names import EXECUTING
from ...states.run.spec import Spec
from ...states.run.state import Run, initial_run
from ...tools.catalog import Catalog
from ...tools.documents.tools import generate_report
from ...tools.schema.secret_values import hidden
from ...tools.tool import Document, Tool
from ..decision.run_resources import RunResources
from ..journal.payloads import JSON, Payload, Stager
from ..journal.rows import RunRow
from ..journal.run_queue import RunQueue
from ..journal.store import JournalStore
from ..machine.decide import machine_of
from ..machine.properties import Promises
from ..replay.callers import caller_of, pending_call
from ..replay.happened import recorded
from ..replay.restore import restore_run, stager_of
from ..runtime.channel import Channel
from ..runtime.drivers import aperform, perform
from ..runtime.events import Event, ModelNotice, ModelText, RunEnded, RunStarted, RunWaiting, TransitionTaken
from ..runtime.logs import LOGGER, log_start
from ..runtime.loop import Steps, cancel_steps, steps, transition
from ..runtime.ports import Clock, Ids
from ..runtime.result import Result, result_of_run
from ..runtime.run_context import Leaves, RunContext
from ..versioning.fingerprints import fingerprints_of
from .arguments import Hook, offered_tools
from .callbacks import tell, traceparent_from
from .earlier import before_again, earlier_rounds, turn_of
from .fallback import fallback_spec, is_owed
from .listening import listening_of
from .settings import EngineSettings
from .start import NewRun, in_turn, input_references
from .subruns import TASKS, RunDriver, RunTool, bound_tool
from .told import Earlier

Acquisition = Callable[[], tuple[RunContext, Steps]]
"""Creates a run or takes its lease, and returns what to walk."""

Catalogs = dict[tuple[str, ...], Catalog]
"""Compiled selections of tools by the tools' names."""

CATALOGS_MAX = 64
"""Compiled selections of tools that are kept."""


class Staged(TypedDict):
    """What is staged of a new run, as `JournalStore.create` takes it."""

    place: StoredText
    payloads: list[Payload]
    documents: tuple[DocumentRef, ...]


class Left(BaseException):
    """A driver has left its run where the journal ends, as it was told to; no error of any call that it is within."""


def leaving(acquire: Acquisition, leaves: Leaves | None) -> Acquisition:
    """Return what acquires a run for a driver that may be told to leave it; `Runner.adrive` raises `Left` then."""

    def begin() -> tuple[RunContext, Steps]:
        drive, walk = acquire()
        drive.leaves = leaves
        return drive, walk

    return begin


def compile_catalogs(settings: EngineSettings) -> Catalogs:
    """
    Return the catalog of all tools of an engine, compiled.

    Raises:
        UsageError: A schema that cannot be used.
    """
    tools = settings.tools.values()
    return {tuple(tool.name for tool in tools): Catalog([tool.spec() for tool in tools])}


class Runner:
    """
    The life of one run after the other, for any number of threads and event loops at once.

    Args:
        settings: What runs are decided and performed with.
        journal: Where they are recorded.
        clock, ids: Ports.
        hooks: Called with every event, after its row is durable.
        called: Makes what drives the runs that tools call, given this runner.
        catalogs: As `compile_catalogs` gives them for the settings' tools.
    """

    def __init__(
        self,
        settings: EngineSettings,
        journal: JournalStore,
        clock: Clock,
        ids: Ids,
        hooks: Sequence[Hook],
        called: Callable[[Runner], RunDriver],
        catalogs: Catalogs,
    ) -> None:
        self.settings, self.journal = settings, journal
        self.clock, self.ids = clock, ids
        self.hooks = tuple(hooks)
        self.queue = RunQueue(journal.backend)
        self.listening = listening_of(journal)
        self._called, self._make_called = called(self), called
        self._catalogs = catalogs
        self._secrets: dict[str, dict[str, Any]] = {}

    def with_ports(self, settings: EngineSettings, journal: JournalStore, clock: Clock, ids: Ids) -> Runner:
        """Return a runner as another process would have it, with the same hooks."""
        return Runner(settings, journal, clock, ids, self.hooks, self._make_called, self._catalogs)

    # -- creating --------------------------------------------------------------------------------------------------

    def creation(self, new: NewRun) -> Acquisition:
        """Return what creates a run when it is called."""

        def create() -> tuple[RunContext, Steps]:
            drive = self._create(new)
            return drive, steps(drive)

        return create

    def submitted(self, new: NewRun, ready_at: int) -> str:
        """
        Write a run for a worker to take up, and return its id.

        Args:
            new: The run.
            ready_at: Microseconds since the epoch: not before then.
        """
        self.queue.prepare()
        run_id, *_ = self._written(new, ready_at)
        self.journal.backend.signal()
        return run_id

    def _create(self, new: NewRun) -> RunContext:
        run_id, spec, stager, (number, root, fence) = self._written(new)
        run = initial_run(run_id, number, spec)
        offered = offered_tools(self.settings.tools, [tool.name for tool in spec.tools]) if spec.task else ()
        kit = self.resources(spec, self._catalog(offered) if spec.task else None)
        drive = self.hold(run, root, fence, kit, new.model, stager, new.connections)
        drive.deps, drive.notices, drive.output_type = new.deps, new.notices, new.output_type
        return drive

    def _written(
        self, new: NewRun, queued_at: int | None = None
    ) -> tuple[str, Spec, Stager, tuple[int, bytes, int]]:
        """Write a new run; return its id, its spec, what stages its texts, and what `JournalStore.create` returns."""
        run_id = self.ids.run_id()
        spec = new.spec.model_copy(update={"workflow_id": new.spec.workflow_id or run_id})
        spec, stager, staged = self._staged(spec, new.documents, new.earlier)
        # spec, documents and lease are one transaction, so a crash leaves either no run or one that any process can take up
        made = self.journal.create(
            run_id, spec, created_at=self.clock.now_us(), queued_at=queued_at, **staged
        )
        return run_id, spec, stager, made

    def _staged(
        self, spec: Spec, documents: Sequence[Document], earlier: Earlier | None
    ) -> tuple[Spec, Stager, Staged]:
        """Return a spec with what it is told and its documents, what has staged their texts, and these, for the journal."""
        stager = Stager(0, self.ids.salt)
        references = input_references(spec, documents, stager)
        told = tuple(item.staged(stager) for item in earlier.told) if earlier is not None else ()
        spec = spec.model_copy(update={"documents": references, "earlier": told})
        spec = spec.model_copy(update={"fingerprints": fingerprints_of(spec)})
        place = stager.stage(spec.model_dump_json(), JSON)  # the last, since it names the documents' payloads
        return spec, stager, {"place": place, "payloads": stager.taken(), "documents": references}

    def _take_turn(self, row: RunRow, fence: int) -> None:
        """
        Write a round that has waited in line with what it is told, as it is begun.

        Raises:
            ConversationBusy: The round before it has not ended.
        """
        spec = self.journal.reader.spec(row.run_id)
        if spec.in_line:
            earlier = earlier_rounds(
                self.journal.reader, spec.conversation, turn_of(self.journal.reader, spec)
            )
            given = self._documents(row.run, 0, len(spec.documents))
            spec, given, earlier = in_turn(self.settings, spec, given, earlier)
            spec, _, staged = self._staged(spec, given, earlier)
            self.journal.write_anew(row.run, fence, spec, **staged)

    def resources(self, spec: Spec, catalog: Catalog | None = None) -> RunResources:
        """Return what a run with *spec* is decided with, the host's own machine with its functions among it."""
        return RunResources(spec, catalog, self.settings.machine_for(spec))

    def _catalog(self, tools: tuple[Tool, ...]) -> Catalog:
        """Return the compiled catalog of *tools*; compiled once for each selection of tools."""
        key = tuple(tool.name for tool in tools)
        if key not in self._catalogs:
            if len(self._catalogs) >= CATALOGS_MAX:
                self._catalogs.clear()
            self._catalogs[key] = Catalog([tool.spec() for tool in tools])
        return self._catalogs[key]

    # -- taking up -------------------------------------------------------------------------------------------------

    def take(self, run_id: str) -> RunContext:
        """
        Take the lease of a run, then read it.

        Raises:
            LeaseHeld: Another driver is alive.
            ConversationBusy: It is a round whose turn has not come.
            JournalDamaged: The run's chain is broken.
        """
        row = self.journal.reader.run(run_id)
        stands = row.head_seq < 0 and row.conversation is not None
        if stands and (spec := self.journal.reader.spec(row.run_id)).in_line:
            turn_of(self.journal.reader, spec)  # before the lease: whoever comes now finds the run free
        # the lease comes first: read before it, a row that the last driver still appends would be missing here, and
        # this driver would decide it a second time
        fence = self.journal.leases.acquire(row.run)
        try:
            if stands:
                self._take_turn(row, fence)
            run, head = restore_run(self.journal.reader, row.run_id)
            stager = stager_of(self.journal.reader, row.run, self.ids.salt)
            drive = self.hold(run, head, fence, self.resources(run.spec), self.settings.model, stager, {})
            # an effect whose intent is recorded and whose end is not was begun by a driver that is gone, but for one that an
            # answer has let go on and that nobody has taken up since
            fresh = self.journal.leases.is_first_after(row.run, fence, run.seq - 1)
            drive.resumed = run.state == EXECUTING and not fresh
            drive.may_be_made = self.journal.leases.may_be_made(row.run, fence, run.seq - 1)
            drive.cancelled = self.journal.leases.cancel_requested(row.run)
            return drive
        except BaseException:
            self.journal.leases.release(row.run, fence)
            raise

    def cancelling(self, run_id: str) -> Acquisition | None:
        """Return what takes a run up and ends it as cancelled; None while another driver has it, or its turn has not come: the request is seen then."""
        try:
            drive = self.take(run_id)
        except (LeaseHeld, ConversationBusy):
            return None
        drive.cancelled = True
        walk = cancel_steps(drive) if drive.run.waiting_for is not None else steps(drive)
        return lambda: (drive, walk)

    def _cancelled_late(self, drive: RunContext) -> Acquisition | None:
        """
        Return what ends a run whose cancellation was requested after the last row of the driver that has just released it.

        Whoever requests it writes the request, then tries to take the lease; the driver releases the lease, then looks for a request. So one
        of both ends the run.
        """
        run = drive.run
        if run.final or not self.journal.leases.cancel_requested(run.number):
            return None
        return self.cancelling(run.run_id)

    def hold(
        self,
        run: Run,
        head: bytes,
        fence: int,
        kit: RunResources,
        model: Model,
        stager: Stager,
        connections: Mapping[str, Any],
    ) -> RunContext:
        """Return everything that a run is driven with; *fence* is the token of its lease, 0 to look at it only."""
        tools = dict(self.settings.tools)
        if run.spec.formatter is not None:
            tools.setdefault(generate_report.name, generate_report)
        drive = RunContext(
            run=run,
            head=head,
            fence=fence,
            kit=kit,
            model=model,
            tools=tools,
            connections=dict(connections),
            stager=stager,
            journal=self.journal,
            clock=self.clock,
            mark_us=self.clock.active_us(),
            first=run.seq,
            values=self.settings.values,
            secrets=self._secrets.get(run.run_id, {}),
            traceparent=traceparent_from(self.hooks),
            promises=self._promises(run, kit),
        )
        drive.load = lambda first, count: self._documents(run.number, first, count)
        if run.spec.task == 0:
            drive.tools[TASKS.name] = TASKS
        self._bind(drive)
        return drive

    def _promises(self, run: Run, kit: RunResources) -> Promises | None:
        """Return what the engine holds the rows of *run* to, those that it has counted; None where it was given nothing."""
        if not self.settings.never:
            return None
        promises = Promises(self.settings.never, machine_of(run, kit))
        for _, _, taken in recorded(self.journal.reader, run.run_id) if run.seq else ():
            if taken is not None:
                promises.note(taken)
        return promises

    def _bind(self, drive: RunContext, *, is_async: bool = False) -> None:
        """Let the tools that call runs do so for *drive*."""
        for name, tool in drive.tools.items():
            if isinstance(tool, RunTool):
                drive.tools[name] = bound_tool(tool, self._called, drive, is_async=is_async)

    def runner_of(self, row: RunRow) -> Runner:
        """Return what drives a run that others have called: of `Engine.as_tool` the engine of the tool, however deep; else this one."""
        reader = self.journal.reader
        name = None if self.settings.as_recorded else pending_call(reader, row)
        if name is None or row.called_by is None:
            return self
        above = self.runner_of(reader.run(row.called_by.run_id))
        tool = above.settings.tools.get(name)
        return above._called.runner_for(tool) if isinstance(tool, RunTool) else self

    def _documents(self, number: int, first: int, count: int) -> list[Document]:
        found = self.journal.reader.documents_at(number, first, count)
        return [
            Document(item.name, body, item.mime, item.label, item.position)
            for item, body in found
            if body is not None
        ]

    # -- driving ---------------------------------------------------------------------------------------------------

    def drive(self, acquire: Acquisition, *, resumed: bool, listening: bool = True) -> Iterator[Event]:
        """
        Acquire a run, drive it to its end or until it waits, and yield its events; then the run that it falls back to.

        Args:
            acquire: Creates it or takes it up.
            resumed: What its first event says.
            listening: Whether the caller wants the events of its rows; those who listen to the run get them in any case.

        Raises:
            Left: The driver was told to leave the run (`leaving`).
        """
        drive, walk = acquire()
        self.journal.leases.acting(drive.run.number, drive.fence)
        drive.listening = listening or drive.leaves is not None
        drive.channel = self.listening.driving(drive.run)
        try:
            log_start(drive.run, resumed=resumed)
            yield self._notify(_started(drive.run, resumed=resumed))
            for notice in _first_notices(drive):
                yield self._said(drive.channel, _noticed(drive.run, notice))
            for event in perform(walk, self.journal):
                yield self._said(drive.channel, event)
                if drive.leaves is not None and _is_between_calls(event) and drive.leaves():
                    raise Left
        finally:
            walk.close()  # before the lease goes: what the steps clean up belongs to this driver
            try:
                if drive.together is not None:
                    drive.together.close()
            finally:
                self.release(drive)
                self.listening.left(drive.run, drive.channel)
        if (end := self._cancelled_late(drive)) is not None:
            yield from self.drive(end, resumed=True, listening=listening)
            return
        # the lease is free before the last event, so that whoever sees the end can go on with the run at once
        result = result_of_run(drive.run, self.journal.reader)
        yield self._notify(RunEnded(result.run_id, drive.run.seq - 1, result))
        if (again := self._fallback(drive)) is not None:
            yield from self.drive(leaving(again, drive.leaves), resumed=False, listening=listening)
        elif drive.run.final:
            self.queue.let_on(drive.run.run_id, drive.run.spec.fallback_for)

    async def adrive(
        self, acquire: Acquisition, *, resumed: bool, listening: bool = True
    ) -> AsyncGenerator[Event, None]:
        """
        Do the same as `drive` on the running event loop; the order of its lines is that of `drive`.
        """
        drive, walk = acquire()
        self.journal.leases.acting(drive.run.number, drive.fence)
        drive.listening = listening or drive.leaves is not None
        drive.channel = self.listening.driving(drive.run)
        self._bind(drive, is_async=True)
        try:
            log_start(drive.run, resumed=resumed)
            yield self._notify(_started(drive.run, resumed=resumed))
            for notice in _first_notices(drive):
                yield self._said(drive.channel, _noticed(drive.run, notice))
            async for event in aperform(walk, self.journal):
                yield self._said(drive.channel, event)
                if drive.leaves is not None and _is_between_calls(event) and drive.leaves():
                    raise Left
        finally:
            walk.close()
            try:
                if drive.together is not None:
                    await drive.together.aclose()
            finally:
                self.release(drive)
                self.listening.left(drive.run, drive.channel)
        if (end := self._cancelled_late(drive)) is not None:
            async for event in self.adrive(end, resumed=True, listening=listening):
                yield event
            return
        result = result_of_run(drive.run, self.journal.reader)
        yield self._notify(RunEnded(result.run_id, drive.run.seq - 1, result))
        if (again := self._fallback(drive)) is not None:
            again = leaving(again, drive.leaves)
            async for event in self.adrive(again, resumed=False, listening=listening):
                yield event
        elif drive.run.final:
            self.queue.let_on(drive.run.run_id, drive.run.spec.fallback_for)

    def result(self, acquire: Acquisition, *, resumed: bool, listening: bool | None = None) -> Result:
        """Drive a run and return its result, of one that fell back that of the other run; by default only hooks listen."""
        heard = bool(self.hooks) if listening is None else listening
        result: Result | None = None
        for event in self.drive(acquire, resumed=resumed, listening=heard):
            if isinstance(event, RunEnded):
                result = event.result
        assert result is not None, "a stream ends with RunEnded"
        return result

    async def aresult(self, acquire: Acquisition, *, resumed: bool, listening: bool | None = None) -> Result:
        """Do the same as `result` on the running event loop."""
        heard = bool(self.hooks) if listening is None else listening
        result: Result | None = None
        async for event in self.adrive(acquire, resumed=resumed, listening=heard):
            if isinstance(event, RunEnded):
                result = event.result
        assert result is not None, "a stream ends with RunEnded"
        return result

    def answered(self, drive: RunContext, answer: Answer) -> Steps:
        """Walk on from the question of a run with its answer, which is a row of its own before anything follows from it."""
        question = drive.run.waiting_for
        if question is not None and question.kind != "approval" and answer.action == "accept":
            told, found = hidden(answer.content, question.schema, question.id)
            answer = answer.model_copy(update={"content": told})
            drive.secrets |= found
            if found:  # until the run has ended: it may wait for something else before the tool is called
                self._secrets[drive.run.run_id] = drive.secrets
        yield from _provided(drive, answer)
        drive.resumed = False
        yield from steps(drive)

    def answered_only(self, drive: RunContext, answer: Answer) -> None:
        """Write the answer to a run's question as its row and go no further: any process goes on with a resume."""
        drive.listening = bool(self.hooks)
        for event in perform(_provided(drive, answer), self.journal):
            self._notify(event)

    def release(self, drive: RunContext, *, answered: int | None = None) -> None:
        """
        Give the lease back; a journal that cannot be written now must not hide why the driver stops.

        Args:
            drive: That has it.
            answered: See `LeaseBook.release`.
        """
        try:
            self.journal.leases.release(drive.run.number, drive.fence, answered=answered)
        except JournalError as error:
            LOGGER.warning("run %s: the lease could not be released: %s", drive.run.run_id, error)
        if drive.run.final:
            self._secrets.pop(drive.run.run_id, None)
        if drive.run.memory.question is not None:
            self._signal(drive)
        tell(self.journal.reader, drive.run.number, drive.first)
        try:
            self._wake_callers(drive.run)
        except JournalError as error:
            LOGGER.warning("run %s: its caller could not be woken: %s", drive.run.run_id, error)

    def _wake_callers(self, run: Run) -> None:
        """Have a worker look at the callers of a run that went on by other hands than those of their driver."""
        if run.spec.task == 0 or run.spec.workflow_id == run.run_id or not self.queue.is_there():
            return
        for row in self._callers(run):
            if not self.journal.leases.is_driven(row.run):
                self.queue.release(row.run)

    def come_up(self, run: Run) -> None:
        """Have a worker look, within a lease, whether a run that is about to take an answer is still driven; and at its callers."""
        if self.queue.is_there():
            numbers = [run.number, *(row.run for row in self._callers(run))]
            self.queue.bring_forward(numbers, self.journal.leases.lease_s)

    def _callers(self, run: Run) -> Iterator[RunRow]:
        """Yield the runs that wait for a called one: its caller, the caller of that, and so on."""
        reader = self.journal.reader
        row = caller_of(reader, reader.run(run.run_id))
        while row is not None:
            yield row
            row = caller_of(reader, row)

    def _signal(self, drive: RunContext) -> None:
        """Wake whoever waits for runs that ask; what it misses it sees with its next look."""
        try:
            self.journal.backend.signal()
        except JournalError as error:
            LOGGER.warning("run %s: nobody could be told that it asks: %s", drive.run.run_id, error)

    def created_only(self, acquire: Acquisition) -> Result:
        """Create a run and release it without a step; its result says where it is."""
        drive, walk = acquire()
        walk.close()
        self.release(drive)
        return result_of_run(drive.run, self.journal.reader)

    def _said(self, channel: Channel, event: Event) -> Event:
        """Tell those who listen what a model says; rows they are told by the steps themselves. Then do the same as `_notify`."""
        if isinstance(event, ModelText | ModelNotice):
            channel.say(event)
        return self._notify(event)

    def _notify(self, event: Event) -> Event:
        """Hand a copy of *event* to each hook; one that raises, or changes its copy, changes nothing."""
        for hook in self.hooks:
            try:
                hook(_own_copy(event))
            except Exception:  # a hook is the host's own
                LOGGER.exception("run %s: a hook raised on %s", event.run_id, event.kind)
        return event

    # -- falling back ----------------------------------------------------------------------------------------------

    def _fallback(self, drive: RunContext) -> Acquisition | None:
        """Return what starts the run that replaces one that has failed, None when there is to be none."""
        if drive.run.spec.fallback is None:
            return None
        spec: Spec | None = fallback_spec(drive.run, self.ids.salt().hex())
        if spec is None:
            return None
        inputs = self._documents(drive.run.number, 0, len(spec.documents))
        earlier = before_again(self.journal.reader, drive.run)
        new = NewRun(
            spec,
            inputs,
            drive.model,
            drive.connections,
            drive.deps,
            earlier=earlier,
            output_type=drive.output_type,
        )
        return self.creation(new)

    def owed_fallback(self, drive: RunContext) -> Acquisition | None:
        """Return what starts the run that was to replace an ended one, and that a crash right after its end has prevented."""
        owed = not self.journal.read_only and is_owed(self.journal.reader, drive.run)
        return self._fallback(drive) if owed else None


_HOLDING_DATA = (TransitionTaken, RunWaiting, RunEnded)
"""Events with containers, which a hook could change; all others are texts and numbers."""


def _own_copy(event: Event) -> Event:
    """Return *event* as a hook may change it; its documents, which nobody can change, read from the journal that is open."""
    if not isinstance(event, _HOLDING_DATA):
        return event
    documents = event.result.documents if isinstance(event, RunEnded) else ()
    return deepcopy(event, {id(document): document for document in documents})


def _provided(drive: RunContext, answer: Answer) -> Steps:
    """Walk the one row in which a run takes the answer to its question, without keys."""
    data = answer.wire()
    clean = said_scrubber(drive.model, drive.given).of_data(data)
    answer = answer if clean == data else Answer.model_validate(clean)
    payload = drive.stager.stage(answer.wire_json(), JSON)
    yield from transition(drive, {"kind": "none"}, Answered(answer, payload))


def _started(run: Run, *, resumed: bool) -> RunStarted:
    return RunStarted(run.run_id, run.spec.objective, resumed, run.seq - 1)


def _first_notices(drive: RunContext) -> tuple[Notice, ...]:
    """Return what was found about the model, and that its context is too small for what every request begins with."""
    told = drive.kit.crowded
    return (*drive.notices, Notice("context", "crowded", told)) if told else drive.notices


def _noticed(run: Run, notice: Notice) -> ModelNotice:
    """Return the event of what was found about a model before its first request, and log it."""
    LOGGER.info(
        "run %s %s %s",
        run.run_id,
        notice.kind,
        notice.code,
        extra={"paor": {"run_id": run.run_id, notice.kind: notice.code}},
    )
    return ModelNotice(
        run.run_id, run.seq, "", notice.kind, notice.code, notice.text, notice.attempt, notice.wait_us
    )


def _is_between_calls(event: Event) -> bool:
    """Whether a run can be left at an event: not between an intent and its call, since nobody could know that it was never begun."""
    return isinstance(event, TransitionTaken) and event.dest != EXECUTING
