"""Test doubles of a world: tools that report their calls, a model with given replies, a clock, a journal."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from queue import SimpleQueue
from threading import Event, get_ident
from typing import Any, NamedTuple, TypeVar

from ...fsm.decision.guard_context import GuardContext
from ...fsm.decision.host_machine import ASKS
from ...fsm.journal.backend import Entry
from ...fsm.journal.sqlite.backend import SqliteBackend
from ...fsm.journal.store import JournalStore
from ...fsm.journal_api import Journal
from ...fsm.machine.host_rows import HostGuard
from ...fsm.machine.machine import Machine
from ...fsm.runtime.calls import Timing
from ...fsm.runtime.ports import ValuesPort
from ...prompts.model import Model, ModelCall, ModelUnavailable, Reply
from ...states.base.errors import AnswerNeeded, NotStarted
from ...states.phase import Phase
from ...states.records.outcomes import Usage
from ...states.run.spec import Spec, machine_data
from ...tools.tool import Tool, ToolContext
from ..strategies.injected_faults import HANGS, RAISED, RETURNED, exception_of
from ..strategies.reply_builder import Said

Answer = TypeVar("Answer")

START_US = 1_767_225_600_000_000
"""Where every world's clock begins: 1 January 2026."""


class Lost(BaseException):
    """The process is gone: nothing in it goes on."""


class Hung(NamedTuple):
    """A call that hangs: how, and until when."""

    kind: str
    released: Event


def _answer(work: Callable[[], Any], answer: Future[Any]) -> None:
    try:
        answer.set_result(work())
    except BaseException as error:  # noqa: BLE001 - whoever asked raises it
        answer.set_exception(error)


class TestClock:
    """
    A clock that goes on by a millisecond with every reading, and jumps on demand.

    Attributes:
        wall_us, active_us_now: What the next readings go on from.
        home: The thread that moves the world.
    """

    __test__ = False

    def __init__(self) -> None:
        self.wall_us = START_US
        self.active_us_now = 0
        self.home = get_ident()
        self._requests: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._hung: Hung | None = None
        self._given_up: Hung | None = None
        self._left: list[Hung] = []

    def now_us(self) -> int:
        """Return the next reading of the wall clock; it may have gone back."""
        self.wall_us += 1000
        return self.wall_us

    def active_us(self) -> int:
        """Return the next reading of the other clock."""
        self.active_us_now += 1000
        return self.active_us_now

    @property
    def timing(self) -> Timing:
        """How calls with a deadline are waited for: without waiting, and by what the calls say."""
        return Timing(self._wait, lambda: self.active_us_now / 1_000_000)

    def in_driver(self, work: Callable[[], Answer]) -> Answer:
        """Do *work* in the thread of the world, which waits for a call if this is another: all that is drawn is drawn there."""
        if self.home == get_ident():
            return work()
        answer: Future[Answer] = Future()
        self._requests.put((work, answer))
        return answer.result()

    def hang(self, kind: str) -> None:
        """Have a call hang, until its deadline and beyond; see `injected_faults.HANGS`."""
        self._hung = Hung(kind, Event())
        self._left.append(self._hung)
        self._requests.put(None)
        self._hung.released.wait(60)

    def let_go(self) -> None:
        """Let everything end that hangs."""
        while self._left:
            self._left.pop().released.set()

    def _wait(self, over: Future[Any], seconds: float | None) -> None:
        """Wait for a call, or until it hangs and its time is over; then once more, for the end of what was given up."""
        given_up, self._given_up = self._given_up, None
        if given_up is not None:
            if given_up.kind == "hang":
                return
            given_up.released.set()
        over.add_done_callback(lambda _: self._requests.put(None))
        while not over.done() and self._given_up is None:
            request = self._requests.get()
            if request is not None:
                _answer(*request)
            self._given_up, self._hung = self._hung, None
        if self._given_up is not None:
            self.active_us_now += round((seconds or 0) * 1_000_000)

    def jump(self, wall_us: int, active_us: int) -> None:
        """Move both clocks; the wall clock stays within the years 1970 to 2200."""
        self.wall_us = min(max(0, self.wall_us + wall_us), 7_258_118_400_000_000)
        self.active_us_now = max(0, self.active_us_now + active_us)


class WorldStore(JournalStore):
    """
    A store for any number of engines one after the other, in memory unless a file is named.

    Args:
        path: Of the file.

    Attributes:
        lose: Whether the process is lost instead of the next commit.
        committed: Called with the number of the run for every row, after its commit.
    """

    def __init__(self, path: str) -> None:
        backend = SqliteBackend(path, "off", busy_timeout_s=30.0, read_only=False)
        super().__init__(backend, durability="off")
        self.lose = False
        self.committed: Callable[[int], None] = lambda run: None

    def append(self, entry: Entry) -> None:
        """Commit one transition, or lose the process with it."""
        if self.lose:
            self.lose = False
            raise Lost
        super().append(entry)
        for _ in range(1 if entry.before is None else 2):
            self.committed(entry.place[0])

    def close(self) -> None:
        """Stay open: an engine that closes its journal ends, the file does not."""

    def discard(self) -> None:
        """Close it for good."""
        super().close()


class WorldJournal(Journal):
    """A journal that holds a `WorldStore`."""

    store: WorldStore

    def __init__(self, path: str = ":memory:") -> None:
        self.store = WorldStore(path)


class FakeModel:
    """
    A model whose replies are given.

    Args:
        tell: Called with every request; returns what is said.
        name: For the journal; that of the model that it stands in for.
    """

    def __init__(self, tell: Callable[[ModelCall], Said], name: str = "fuzz") -> None:
        self._tell = tell
        self.name = name

    def ask(self, call: ModelCall) -> Reply:
        """Answer."""
        reply = self._tell(call)
        usage = Usage(1, *reply.tokens, reply.cost_micro)
        if reply.fault:
            raise ModelUnavailable(reply.fault, "the model cannot be reached", usage)
        return Reply(reply.text, usage, reply.finish)  # type: ignore[arg-type]

    async def aask(self, call: ModelCall) -> Reply:
        """Answer; nothing is waited for."""
        return self.ask(call)


class ObservedCall(NamedTuple):
    """
    One call of a tool's function, or what was put in its place.

    Attributes:
        tool: Its name.
        effect: Its effect class.
        run_id, key: The run, and the idempotency key.
        arguments: What it got.
        happening: What came of it.
    """

    tool: str
    effect: str
    run_id: str
    key: str
    arguments: Mapping[str, Any]
    happening: Mapping[str, Any]


class ToolWatch:
    """
    What watched tools report to.

    Args:
        choose: Called with a tool, its arguments and its context before it is called; returns what is to happen.

    Attributes:
        calls: Every call so far.
        ended: Calls whose own function has ended: tool, arguments, and what it returned, or the exception that it raised.
        late: The call that hangs past its deadline, until its row is there.
        not_begun: Idempotency keys by how often their effect certainly did not begin.
    """

    def __init__(
        self, choose: Callable[[Tool, Mapping[str, Any], ToolContext], Mapping[str, Any]], clock: TestClock
    ) -> None:
        self.choose = choose
        self._clock = clock
        self.late: ObservedCall | None = None
        self.calls: list[ObservedCall] = []
        self.ended: list[tuple[str, Mapping[str, Any], Any]] = []
        self.not_begun: Counter[str] = Counter()

    def begins(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Note a call; return what is to happen in it."""
        return self._clock.in_driver(lambda: self._begins(tool, arguments, context))

    def hang(self, kind: str, context: ToolContext) -> str:
        """Hang past the deadline of a call and return something then; raise where it has none."""
        if context.timeout_s is None:
            raise RAISED["TimeoutError"]()
        self.late = self.calls[-1]
        self._clock.hang(kind)
        return "too late"

    def _begins(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        self.late, happening = None, self.choose(tool, arguments, context)
        call = ObservedCall(
            tool.name, tool.effect, context.run_id, context.idempotency_key, dict(arguments), happening
        )
        self.calls.append(call)
        self.not_begun[call.key] += happening["do"] == "ask" or (
            happening["do"] == "raise" and happening["what"] == "NotStarted"
        )
        return happening


@dataclasses.dataclass(frozen=True, eq=False)
class WatchedTool(Tool):
    """
    A user's tool whose calls are watched, and in whose place something else may happen.

    Attributes:
        watch: What it reports to.
    """

    watch: ToolWatch = dataclasses.field(default=None, repr=False)  # type: ignore[assignment]

    def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the function as a run does, or do what happens in its place."""
        happening = self.watch.begins(self, arguments, context)
        kind = happening["do"]
        if kind in HANGS:
            return self.watch.hang(kind, context)
        if kind in ("raise", "ask"):
            raise exception_of(happening)
        if kind == "return":
            return happening["value"] if "value" in happening else RETURNED[happening["what"]]()
        given = dict(arguments)
        with self._noting(given, context):
            value = super().invoke(arguments, context)
        if inspect.isawaitable(value):
            return self._await(value, given, happening, context)
        return self._end(value, given, happening)

    async def _await(self, value: Any, given: Any, happening: Mapping[str, Any], context: ToolContext) -> Any:
        with self._noting(given, context):
            value = await value
        return self._end(value, given, happening)

    def _end(self, value: Any, given: Mapping[str, Any], happening: Mapping[str, Any]) -> Any:
        self.watch.ended.append((self.name, given, value))
        if happening["do"] == "raise_after":
            raise exception_of(happening)
        return value

    @contextmanager
    def _noting(self, given: Mapping[str, Any], context: ToolContext) -> Iterator[None]:
        """Note what the tool's own function raises."""
        try:
            yield
        except Exception as error:
            self.watch.ended.append((self.name, given, error))
            self.watch.not_begun[context.idempotency_key] += isinstance(error, NotStarted | AnswerNeeded)
            raise


def watch_tool(tool: Tool, watch: ToolWatch) -> WatchedTool:
    """Return *tool* with its calls reported to *watch*; its reconciliation, too."""
    given = {field.name: getattr(tool, field.name) for field in dataclasses.fields(Tool)}
    if tool.reconcile is not None:
        given["reconcile"] = _reconciling(tool.reconcile, watch)
    return WatchedTool(**given, watch=watch)


def _reconciling(reconcile: Callable[[str], Any], watch: ToolWatch) -> Callable[[str], Any]:
    """Return a reconciliation that reports when it says that nothing has happened."""

    def noted(key: str, value: Any) -> Any:
        watch.not_begun[key] += value is None
        return value

    async def later(key: str, value: Any) -> Any:
        return noted(key, await value)

    def asked(key: str) -> Any:
        value = reconcile(key)
        return later(key, value) if inspect.isawaitable(value) else noted(key, value)

    return asked


NO_ROW = ("", -1)


class HostFault(RuntimeError):
    """What a function of the host raises when it is made to."""


class HostWatch:
    """
    What the host's functions report to while a world drives its engine.

    Args:
        gives: Called with the host's own port for values, a run's id and its phase; returns what the port gives.

    Attributes:
        failing: Whether they raise instead of being called.
        failed: Whether one of them did since that was set.
        place: Run and row of the newest decision.
        values: What the host's guards said in it, by name.
        given: What the port gave for it, None where it was not asked.
        twice: Names of guards that were asked twice in one decision.
        strangers: Phases whose visit a guard could see though it was about another call.
    """

    def __init__(self, gives: Callable[[ValuesPort, str, str], Any]) -> None:
        self._gives = gives
        self._decided: tuple[Any, Any] = (None, None)
        self.failing = self.failed = False
        self.place = NO_ROW
        self.values: dict[str, bool] = {}
        self.given: Any = None
        self.twice: list[str] = []
        self.strangers: list[str] = []

    def forget(self) -> None:
        """Begin with the next row: what was seen of the decision before is done with."""
        self._decided, self.place, self.given = (None, None), NO_ROW, None
        self.values, self.twice, self.strangers = {}, [], []

    def call(self, name: str, function: Callable[[GuardContext], Any], context: GuardContext) -> Any:
        """Return what a function of the host says, noted where it is a guard; raise where it is made to."""
        self._raise(name)
        decided = context.run, context.outcome  # of each function's own copy these are the same
        if any(one is not other for one, other in zip(decided, self._decided, strict=True)):
            self._decided, self.values = decided, {}
            self.place = context.run.run_id, context.run.seq
        value = function(context)
        if isinstance(value, bool):
            if name in self.values:
                self.twice.append(name)
            self.values[name] = value
            self._look_at_visits(context)
        return value

    def _look_at_visits(self, context: GuardContext) -> None:
        key = context.call.idempotency_key if context.call is not None else ""
        for phase in context.run.memory.visits:
            visit = context.visited(phase)
            if visit is not None and visit.call not in ("", key):
                self.strangers.append(phase)

    def ask(self, port: ValuesPort, run_id: str, phase: str) -> Any:
        """Return what the port gives, noted; raise where it is made to."""
        self._raise("values")
        self.given = self._gives(port, run_id, phase)
        return self.given

    def _raise(self, name: str) -> None:
        if self.failing:
            self.failed = True
            self.forget()
            raise HostFault(f"{name} raised on purpose")


def watch_port(port: ValuesPort | None, watch: HostWatch) -> ValuesPort | None:
    """Return a host's port for values, reporting to *watch*."""
    return None if port is None else functools.partial(watch.ask, port)


def watch_machine(machine: Machine | None, watch: HostWatch, model: Model) -> Machine | None:
    """Return an own machine whose functions report to *watch*, and whose phases ask *model*; None for the standard one."""
    if machine is None:
        return None
    host = machine.host

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(context: GuardContext) -> Any:
            return watch.call(function.__name__, function, context)

        return call

    guards = {
        name: HostGuard(name, watched(guard.function), guard.tools) for name, guard in host.guards.items()
    }
    tells = {place: watched(tell) for place, tell in host.tells.items()}
    phases = {name: _watched_phase(phase, watched, model) for name, phase in host.phases.items()}
    return Machine(
        machine.table, machine.waiting, host=replace(host, guards=guards, tells=tells, phases=phases)
    )


def _watched_phase(phase: Phase, watched: Callable[[Any], Any], model: Model) -> Phase:
    given: dict[str, Any] = {name: getattr(phase, name) for name in ASKS}
    for name in ("arguments", "question"):
        if callable(given[name]):
            given[name] = watched(given[name])
    if given["model"] is not None:
        given["model"] = model
    return Phase(phase.name, **given)


class OwnCode:
    """
    The host's code for a replay, unwatched; templates, policy and limits are those that a run has recorded.

    Attributes:
        machine: The host's own.
        text: The same as a spec records it.
    """

    def __init__(self, machine: Machine, text: str) -> None:
        self.machine, self.text = machine, text

    def current_spec(self, spec: Spec) -> Spec:
        """Return *spec* as it is."""
        return spec

    def machine_for(self, spec: Spec) -> Machine | None:
        """Return the machine that *spec* tells with the host's functions, None for the standard one."""
        if spec.host_machine == self.text:
            return self.machine
        data: Mapping[str, Any] = machine_data(spec.host_machine)
        return Machine.from_dict(data, self.machine) if data else None
