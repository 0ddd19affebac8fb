"""
The engine under test: with the world's own ports, what comes in through them, and what is read of its rows.

What others choose (a model's replies, what happens in tools) is passed on and written into the step that is taken; rows
are read from the journal, never from the driver, and checked against `invariants` one by one.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

from ...fsm.decision.host_machine import recorded_phases
from ...fsm.engine import Engine
from ...fsm.journal.rows import RunRow, transition_of
from ...fsm.journal_api import Journal
from ...fsm.replay.restore import restore_run, run_before
from ...fsm.runtime.events import Event
from ...fsm.runtime.ports import SeededIds, ValuesPort
from ...fsm.runtime.result import Result, result_of_run
from ...fsm.runtime.run_context import RunContext
from ...prompts.model import ModelCall
from ...prompts.parsing.json_reading import read_object
from ...states.run.budgets import may_call
from ...states.run.spec import Spec
from ...states.run.state import Run
from ...states.settings.policy import Policy
from ...tools.schema.parameters import ParameterSchema
from ...tools.tool import Tool, ToolContext
from ..oracles.invariants import REST, broken_by, canonical, denied, fits
from ..oracles.own_machine import seen_of
from ..oracles.own_run import OwnRun
from ..oracles.seen import Seen, Violation
from ..strategies.injected_faults import CALL
from ..strategies.reply_builder import Said, faulty
from .error_attribution import blaming, make_engine
from .test_doubles import (
    FakeModel,
    HostWatch,
    Lost,
    OwnCode,
    TestClock,
    ToolWatch,
    WorldJournal,
    watch_machine,
    watch_port,
    watch_tool,
)

ROWS_MAX = 2_000
"""Most rows of a run whose limits would allow more."""

MARGIN = 200
"""Rows beyond those that the limits allow: effects in doubt are asked about as often as processes are lost."""

PROCESS = "process_goes_on"
"""What a case violates whose process ended; nobody can see it happen, so it is no part of `INVARIANTS`."""

Make = Callable[[Journal], Engine]
Step = dict[str, Any]


class SystemUnderTest:
    """
    The engine that a `World` moves.

    Args:
        make: Returns the engine under test for a journal, as ``--app`` takes it; called again after every crash. Its
            tools, policy, limits, prompts and hooks are its own; model, clock, ids and journal are the world's.
        check: Called with the world after every step; whatever it raises is a violation of the name ``check``.
        path: Of the journal's file; by default it stays in memory. With one, every new process opens it anew.

    Attributes:
        script: Every step so far, as it happened.
        seen: What was seen of every run, by its number.
        tell: Called with every request to the model; returns what is said.
        choose: Called with every call of a tool; returns what happens.
        watch: Every call of a tool so far.
        host: What the functions of the host's own machine said for the newest row.
        gives: Called with the engine's own port for values, a run's id and its phase; returns what the port gives.
        calling: Called before a tool's own function is, with the case as it stands if that ends the process.
        allowed: How often a person allowed an effect to be tried again, by its key.
    """

    def __init__(
        self, make: Make, check: Callable[[Any], None] | None = None, *, path: str = ":memory:"
    ) -> None:
        self._make = make
        self._check = check
        self._path = path
        self.journal = self._open()
        self.clock = TestClock()
        self.script: list[Step] = []
        self.seen: dict[int, Seen] = {}
        self.tell: Callable[[ModelCall], Said] = lambda call: faulty(call.kind, "script_exhausted")
        self.choose: Callable[[Tool, Mapping[str, Any]], Mapping[str, Any]] = lambda tool, arguments: CALL
        self.watch = ToolWatch(self._begins, self.clock)
        self.model = FakeModel(self._ask)
        self.host = HostWatch(self._values)
        self.gives: Callable[[ValuesPort, str, str], Any] = _asked_port
        self.code: OwnCode | None = None
        self.run_id = ""
        self.allowed: Counter[str] = Counter()
        self.calling: Callable[[Violation], None] | None = None
        self._tighter: tuple[Sequence[Any], Sequence[Any]] | None = None
        self._processes = 0
        self._pending: list[Said] = []
        self._committed: dict[int, list[list[Said]]] = {}
        self._stream: Iterator[Event] | None = None
        self._drive: RunContext | None = None
        self._hashes: dict[int, list[str]] = {}
        self._held_at: dict[int, int] = {}
        self._written: Counter[int] = Counter()
        self._specs: dict[int, Spec] = {}
        self._step: Step = {}
        self._broken: BaseException | None = None
        self._restored: Run | None = None
        self._cancelled: int | None = None
        self.engine = self._process()

    # -- what it is ------------------------------------------------------------------------------------------------

    def _process(self) -> Engine:
        """Return the engine as a new process would make it, with the world's own ports."""
        own = make_engine(self._make, self.journal, self._processes)
        self._processes += 1
        settings = own._runner.settings
        tools = {name: watch_tool(tool, self.watch) for name, tool in settings.tools.items()}
        settings = replace(settings, model=self.model, tools=tools)
        if settings.machine is not None:
            self.code = OwnCode(settings.machine, settings.host_machine)
            machine = watch_machine(settings.machine, self.host, self.model)
            settings = replace(settings, machine=machine, values=watch_port(settings.values, self.host))
        if self._tighter is not None:
            settings = replace(settings, given_policy=_tighten(own.policy, *self._tighter))
        return own._with_ports(settings, self.journal, self.clock, SeededIds(f"process {self._processes}"))

    def _open(self) -> WorldJournal:
        journal = WorldJournal(self._path)
        journal.store.committed = self._committed_row
        return journal

    def _committed_row(self, run: int) -> None:
        """Note with every row that is committed what was said for it."""
        self.clock.let_go()
        replies, self._pending = self._pending, []
        self._committed.setdefault(run, []).append(replies)
        self._cancelled = self._cancelled + 1 if self._cancelled is not None else None
        live = self.live
        if live is not None and live.number != run:  # a task: its workflow looks at it only when it has ended
            try:
                self._look_at_rows()
            except Violation as violation:
                raise self._keep(violation) from None
        self._hold_to_deadline(run)
        self._written[run] += 1
        if run not in self._specs:
            self._specs |= {row.run: self.journal.spec(row.run_id) for row in self.journal.runs()}
        if self._written[run] > MARGIN + rows_allowed(
            self._specs[run]
        ):  # a task, in one step of its workflow
            self._break("ends_within_bounds", f"after {self._written[run]} rows the run has not ended")

    @property
    def live(self) -> Run | None:
        """The run as its driver holds it, None without a driver."""
        return self._drive.run if self._drive is not None and self._stream is not None else None

    @property
    def held(self) -> Run | None:
        """The run as the last driver held it after its last row."""
        return self._drive.run if self._drive is not None else None

    def result_of(self, run_id: str) -> Result:
        """Return the result of a run, from the journal alone."""
        return result_of_run(restore_run(self.journal.reader, run_id)[0], self.journal.reader)

    # -- the outside -----------------------------------------------------------------------------------------------

    def _ask(self, call: ModelCall) -> Said:
        return self.clock.in_driver(lambda: self._asked(call))

    def _asked(self, call: ModelCall) -> Said:
        self._hold_to_cancel(f"the model was asked for a {call.kind}", rows=1)
        with self._drawing(f"a reply to {call.kind}"):
            reply = self.tell(call)
        reply = worth(reply, self.live)
        self._pending.append(reply)
        if self._step.get("do") != "finish":
            self._step.setdefault("said", []).append(reply.wire())
        return reply

    def _values(self, port: ValuesPort, run_id: str, phase: str) -> Any:
        """Return what the engine's own port gives, written into the step, so that the same comes in when it is taken again."""
        with self._drawing("the values of the port"):
            given = self.gives(port, run_id, phase)
        if self._step.get("do") != "finish" and isinstance(given, Mapping):
            self._step.setdefault("gave", []).append(dict(given))
        return given

    def _begins(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
        """Hold a call of a tool to what must be true before it begins; return what happens in it."""
        self._hold_to_cancel(f"{tool.name} was called", rows=0)
        live = self.live
        own = live is not None and live.run_id == context.run_id
        run = live if own and live is not None else restore_run(self.journal.reader, context.run_id)[0]
        if not run.counters.formatted:
            self._hold_to_intent(run, tool, arguments, context.idempotency_key)
        with self._drawing(f"what happens in {tool.name}"):
            happening = dict(self.choose(tool, arguments))
        if self._step.get("do") != "finish":
            self._step.setdefault("happened", []).append(happening)
        if self.calling is not None and happening.get("do") in ("call", "raise_after"):
            message = f"the process ended while {tool.name} was called, or soon after it"
            self.calling(self._with_script(self._violation(PROCESS, message)))
        return happening

    @contextmanager
    def _drawing(self, what: str) -> Iterator[None]:
        """Keep an error for the end of the step."""
        try:
            with blaming(f"{what} could not be drawn:"):
                yield
        except Exception as error:  # noqa: BLE001 - raised again when the step ends
            raise self._keep(error) from None

    def _hold_to_cancel(self, message: str, *, rows: int) -> None:
        """A driver learns with its next row that its run was cancelled; no tool, and after that row nothing, begins."""
        if self._cancelled is not None and self._cancelled >= rows:
            self._break("nothing_begins_after_a_cancel", f"{message} after the run was cancelled")

    def _hold_to_intent(self, run: Run, tool: Tool, arguments: Mapping[str, Any], key: str) -> None:
        """A call is allowed, is the one that was committed, has its key, and is not begun again by itself."""
        selected = run.memory.selection
        is_phases = selected is not None and bool(
            selected.caller
        )  # a list of allowed tools does not name it, a ban holds
        if fits(tool.name, run.spec.policy.deny) or (
            not is_phases and denied(run.spec.policy, run.spec.task_type, tool.name)
        ):
            self._break("denied_never_called", f"{tool.name} was called")
        state, intent = self.journal.run(run.run_id).state, run.memory.intent
        wanted = (intent.tool, canonical(intent.arguments)) if intent is not None else ("", "")
        if state != "Executing" or wanted != (tool.name, canonical(arguments)):
            message = f"{tool.name} was called in {state} without a committed intent for this call"
            self._break("intent_before_effect", message)
        if intent is not None and key != intent.idempotency_key:
            message = f"{tool.name} got the key {key}, its intent has {intent.idempotency_key}"
            self._break("one_key_for_a_call", message)
        begun = sum(call.key == key for call in self.watch.calls)
        free = self.allowed[key] + self.watch.not_begun[key]
        if tool.effect == "once" and begun > free:
            message = (
                f"{tool.name} has the effect once and was begun {begun + 1} times, {free} of them freely"
            )
            self._break("once_never_repeats", message)

    def _hold_to_deadline(self, run: int) -> None:
        """What a call returned after its deadline is not accepted: it is an error, or nobody knows what it did."""
        call = self.watch.late
        if call is None:
            return
        # the observation may have come with the row of the call
        newest = map(transition_of, self.journal.reader.own_rows(run)[-2:])
        told = [row for row in newest if row.request["kind"] == "tool"]
        if not told:
            return
        self.watch.late, facts = None, told[-1].outcome
        settled = facts["kind"] in ("in_doubt", "cancelled") or "reconciled" in facts
        is_error = facts.get("error") == "timeout"
        if not settled and not (is_error and (call.effect != "once" or self.watch.not_begun[call.key])):
            message = f"{call.tool} ({call.effect}) hung past its deadline, and its row says {dict(facts)}"
            self._break("late_results_are_dropped", message)

    # -- looking ---------------------------------------------------------------------------------------------------

    def _heads(self) -> list[tuple[int, int]]:
        return [(row.run, row.head_seq) for row in self.journal.runs()]

    def moved(self) -> list[RunRow]:
        """
        Return the runs with new rows since the whole journal was last checked.

        Checks of rows and payloads alone need no repetition for the others: `chain_verifies` and
        `rows_never_change` check that those did not change.
        """
        return [row for row in self.journal.runs() if self._held_at.get(row.run) != row.head_seq]

    def _look_at_rows(self) -> None:
        """Read what was committed since, and hold every row to what always holds."""
        for head in reversed(self.journal.runs()):
            seen = self.seen.get(head.run)
            if seen is None:
                spec = self.journal.spec(head.run_id)
                seen = self.seen[head.run] = seen_of(head.run_id, spec)
            replies = self._committed.pop(head.run, [])
            rows = self.journal.reader.own_rows(head.run, len(seen.rows))
            for place, values in enumerate(rows):
                seen.replies = replies[place] if place < len(replies) else []
                seen.rows.append(transition_of(values))
                self._take(seen)

    def _take(self, seen: Seen) -> None:
        row = seen.row
        self._count(seen)
        if seen.own is not None:
            self._take_own(seen, seen.own)
        run = self.live
        if run is None and row.trigger in ("specify", "refuse"):  # the driver is gone, its row is there
            run = run_before(self.journal.reader, seen.run_id, row.seq + 1)
        if run is not None and run.run_id == seen.run_id and run.memory.intent is not None:
            seen.call = run.memory.intent.tool, run.memory.intent.arguments
        elif row.trigger in ("specify", "refuse"):
            seen.call = None
        for name, message in broken_by(seen):
            raise self._violation(name, message, seen)
        if row.trigger in ("specify", "refuse"):
            seen.approved = False
        if row.trigger == "execute" and seen.call is not None:
            seen.calls.append((seen.call[0], canonical(seen.call[1])))
            if row.outcome.get("ok"):
                seen.known.add(seen.calls[-1])

    def _take_own(self, seen: Seen, own: OwnRun) -> None:
        """Hold a row of an own machine to what only such a machine has, and go on with what its first phase chose."""
        row, host = seen.row, self.host
        live = self.live is not None and self.live.run_id == seen.run_id
        watched = live and host.place == (seen.run_id, row.seq)
        body = None
        if "values" in row.request:
            body = self.journal.reader.payload(row.run, row.request["values"]["n"]).body
        own.asked = host.values if watched else None
        own.twice, own.strangers = tuple(host.twice), tuple(host.strangers)
        own.given = host.given if live else None
        own.recorded = json.loads(body) if body is not None else None
        host.forget()
        if own.chooses(row):
            chosen = run_before(self.journal.reader, seen.run_id, row.seq + 1).spec
            own.choice_is_kept(seen.spec, seen.reply, chosen)

    def _count(self, seen: Seen) -> None:
        """Go on with what the model said: tokens, success, criteria."""
        kind, used = seen.row.outcome["kind"], [reply.tokens for reply in seen.replies]
        unknown = not used if kind in ("reply", "fault") else used and kind != "result"
        if unknown or seen.spec.task == 0:
            seen.tokens = None
        elif seen.tokens is not None:
            seen.tokens = (
                seen.tokens[0] + sum(sent for sent, _ in used),
                seen.tokens[1] + sum(received for _, received in used),
            )
        reply = seen.reply
        if reply is not None and reply.good is not False:
            seen.success = seen.success or reply.means.get("status") == "success" or reply.good is None
            seen.met |= set(reply.means.get("met", ()))
            if reply.good is None:
                seen.met |= set(seen.spec.success_criteria)

    def _rest(self, *checks: Callable[[SystemUnderTest], Iterator[str]]) -> None:
        """Hold the whole journal to what always holds when nothing moves, or to some of it."""
        for check in checks or tuple(REST.values()):
            for message in check(self):
                raise self._violation(check.__name__, message)
        for head in self.journal.runs():
            hashes = [row.hash for row in self.journal.transitions(head.run_id)]
            before = self._hashes.get(head.run, [])
            if hashes[: len(before)] != before:
                raise self._violation("rows_never_change", "a row is not what it was")
            self._hashes[head.run] = hashes
        if not checks:
            self._held_at = dict(self._heads())

    def _violation(self, name: str, message: str, seen: Seen | None = None) -> Violation:
        seen = seen or next((item for item in self.seen.values() if item.run_id == self.run_id), None)
        seq = seen.rows[-1].seq if seen is not None and seen.rows else -1
        return Violation(name, seq, seen.run_id if seen is not None else "", message)

    def _with_script(self, violation: Violation) -> Violation:
        """Return *violation* with the script and the rows that led to it."""
        violation.script = copy.deepcopy(self.script)
        violation.machine = self.code.machine.to_dict() if self.code is not None else {}
        violation.rows = [
            {"run": number, "seq": row.seq, "trigger": row.trigger, "source": row.source, "dest": row.dest}
            for number, seen in sorted(self.seen.items())
            for row in seen.rows
        ]
        return violation

    def _raise_broken(self) -> None:
        """Raise what was found in the middle of a call; the engine would take it for the call's own error."""
        broken, self._broken = self._broken, None
        if broken is not None:
            raise broken

    def _break(self, name: str, message: str) -> NoReturn:
        """Break an invariant in the middle of a call."""
        raise self._keep(self._violation(name, message))

    def _keep(self, error: BaseException) -> Lost:
        """Keep *error* for the end of the step, and return what ends the call without anybody catching it."""
        self._broken = self._broken or error
        return Lost()


def _asked_port(port: ValuesPort, run_id: str, phase: str) -> Any:
    return port(run_id, phase)


def _tighten(policy: Policy, deny: Sequence[Any], approvals: Sequence[Any]) -> Policy:
    """
    Return *policy* with more that is denied and more that needs a yes.

    Nothing else of a step's policy counts: a saved case may come from anywhere, and its calls reach real tools.
    """
    denied = (*policy.deny, *(rule for rule in deny if rule not in policy.deny))
    asked = (*policy.approvals, *(rule for rule in approvals if rule not in policy.approvals))
    return policy.model_copy(update={"deny": denied, "approvals": asked})


def _worth_in_phase(reply: Said, run: Run) -> Said:
    """Return a reply to a phase with what is known of it there: it may have been made for another one; of a task nothing is known."""
    phase = recorded_phases(run.spec.host_machine).get(run.state)
    told = None if reply.good or reply.family.startswith("values: ") else False
    if phase is None:
        return reply._replace(good=told)
    if told is None:
        said = read_object(reply.text)
        fits_it = isinstance(said, dict) and not ParameterSchema(phase.reply or {}).check(said)
        told = reply.good if fits_it is bool(reply.good) else None
    return reply._replace(good=told)


def rows_allowed(spec: Spec) -> int:
    """Return how many rows a run may have by its limits, generously counted."""
    limits = spec.limits
    again = limits.selection_retries + limits.parameter_retries + limits.review_retries
    tools = max((tool.step_retries for tool in spec.tools), default=0)
    per_step = 8 + again + tools + 2
    ends = (limits.max_retries + 1) * (6 + again) + 2 * limits.max_elicitations + 20
    return min(ROWS_MAX, (limits.max_steps + 1) * per_step + ends)


def worth(reply: Said, run: Run | None) -> Said:
    """
    Return a reply with what is known of it in *run*: in a script with fewer steps it may answer another request.

    A reply that was made for another tool, for another policy or with documents that are not there may be read either way.
    """
    if run is not None and reply.kind == "phase" and reply.good is not None:
        return _worth_in_phase(reply, run)
    if run is None or run.spec.task == 0 or reply.good is None:
        return reply
    names = [reply.means.get("action")]
    if reply.kind == "parameters":
        selected, tool = run.memory.selection, reply.means.get("tool")
        sure = not tool or selected is None or selected.tool == tool
        return reply if sure else reply._replace(good=None)
    if reply.kind == "turn":
        return reply if may_call(run) else reply._replace(good=None)  # calls have to stop then
    if reply.kind == "plan" and reply.family == "good":
        names = re.findall(r'"name": "([^"]+)"', reply.text)
    is_denied = any(denied(run.spec.policy, run.spec.task_type, name) for name in names if name)
    sure = is_denied is (reply.good is False) or not any(names)
    if reply.good and reply.kind == "selection":
        labels = re.findall(r'doc(?:List|Item):([^"#]+)', reply.text)
        sure = sure and all(label in run.memory.labels for label in labels)
    return reply if sure else reply._replace(good=None)
