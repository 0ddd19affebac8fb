"""
A world: one engine on a journal in memory, moved row by row by steps that are plain JSON.

The steps are everything that comes from outside: what a model says, what happens in tools, what people answer, jumps of
the clock, crashes. A world writes every step down as it happened, so that the same steps move another world, in any
process, to the same rows. After every row it holds the run to `invariants`.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ...prompts.model import ModelCall
from ...states.errors import InvalidAnswer, UsageError
from ...states.events import Event, RunEnded, TransitionTaken
from ...states.limits import Limits
from ...states.policy import Policy
from ...states.requests import ModelRequest, Nothing, Recall
from ...states.run import Run
from ...states.waiting import Question
from ...tools.tool import Tool
from ..drivers import WriterPool
from ..engine import Engine
from ..journal import Journal
from ..journal_rows import transition_of
from ..loop import Drive, Steps
from ..machine import request_of
from ..ports import SeededIds
from ..result import Result, result_of_run
from ..resuming import restored
from ..runner import Going, Start
from ..workflows import waiting_task
from .happenings import CALL, checked_happening
from .invariants import (
    REST,
    Seen,
    Violation,
    broken_by,
    canonical,
    denied,
    journal_tells_the_state,
)
from .model import RunModel
from .said import Said, faulty
from .watched import Lost, TestClock, ToldModel, Watch, WorldJournal, watched

Make = Callable[[Journal], Engine]
Step = dict[str, Any]
ROWS_MAX = 2_000
"""Most rows of a run whose limits would allow more."""

DOS = ("start", "row", "answer", "settle", "cancel", "crash", "clock", "look", "finish")
"""What a step can do."""


class World:
    """
    One engine, moved row by row.

    Args:
        make: Returns the engine under test for a journal, as ``--app`` takes it; called again after every crash. Its
            tools, policy, limits, prompts and hooks are its own; model, clock, ids and journal are the world's.
        path: Of the journal's file; by default it stays in memory. With one, every new process opens it anew.
        check: Called with the world after every step; whatever it raises is a violation of the name ``check``.

    Attributes:
        script: Every step so far, as it happened.
        seen: What was seen of every run, by its number.
        tell: Called with every request to the model; returns what is said.
        choose: Called with every call of a tool; returns what happens.
    """

    def __init__(
        self, make: Make, check: Callable[[World], None] | None = None, *, path: str = ":memory:"
    ) -> None:
        self._make = make
        self._check = check
        self._path = path
        self.journal = self._opened()
        self.clock = TestClock()
        self.script: list[Step] = []
        self.seen: dict[int, Seen] = {}
        self.tell: Callable[[ModelCall], Said] = lambda call: faulty(call.kind, "script_exhausted")
        self.choose: Callable[[Tool, Mapping[str, Any]], Mapping[str, Any]] = lambda tool, arguments: CALL
        self.watch = Watch(self._begins)
        self.model = ToldModel(self._asked)
        self.run_id = ""
        self.allowed: dict[str, int] = {}
        self._policy: Policy | None = None
        self._processes = 0
        self._pending: list[Said] = []
        self._committed: dict[int, list[list[Said]]] = {}
        self._stream: Iterator[Event] | None = None
        self._drive: Drive | None = None
        self._hashes: dict[int, list[str]] = {}
        self._step: Step = {}
        self._broken: BaseException | None = None
        self._restored: Run | None = None
        self.engine = self._process()

    # -- what it is ------------------------------------------------------------------------------------------------

    def _process(self) -> Engine:
        """Return the engine as a new process would make it, with the world's own ports."""
        made = self._make(self.journal)
        if not isinstance(made, Engine):
            raise UsageError(f"the engine under test is of type {type(made).__name__}, expected an Engine")
        engine = copy.copy(made)
        self._processes += 1
        engine.model, engine.journal = self.model, self.journal
        engine._clock, engine._ids = self.clock, SeededIds(f"process {self._processes}")
        engine._writers = WriterPool(self.journal)
        engine._tools = {name: watched(tool, self.watch) for name, tool in made._tools.items()}
        if self._policy is not None:
            engine._policy = engine.policy = self._policy
        return engine

    def _opened(self) -> WorldJournal:
        """Return the journal as a new process opens it."""
        journal = WorldJournal(self._path)
        journal.committed = self._committed_row
        return journal

    def _committed_row(self, run: int) -> None:
        """Note with every row that is committed what was said for it."""
        said, self._pending = self._pending, []
        self._committed.setdefault(run, []).append(said)

    @property
    def live(self) -> Run | None:
        """The run as its driver holds it, None without a driver."""
        return self._drive.run if self._drive is not None and self._stream is not None else None

    @property
    def run(self) -> Run | None:
        """The run as it stands, None before the first."""
        if not self.run_id:
            return None
        if self.live is not None:
            return self.live
        if self._restored is None:
            self._restored = restored(self.journal, self.run_id)[0]
        return self._restored

    @property
    def need(self) -> str:
        """
        What is needed next: ``start``, a kind of model request, ``tool``, ``recall``, ``nothing``, ``question`` or ``end``.
        """
        run = self.run
        if run is None:
            return "start"
        if run.final:
            return "end"
        if run.waiting_for is not None:
            return "question"
        request = request_of(run)
        if isinstance(request, ModelRequest):
            return request.kind
        return (
            "recall" if isinstance(request, Recall) else "nothing" if isinstance(request, Nothing) else "tool"
        )

    @property
    def question(self) -> Question | None:
        """What somebody is asked; of a workflow what its task asks."""
        run = self.run
        if run is None or run.final or run.waiting_for is None:
            return None
        task = waiting_task(self.journal, self.journal.run(run.run_id))
        return restored(self.journal, task)[0].waiting_for if task is not None else run.waiting_for

    @property
    def may_be_late(self) -> bool:
        """Whether what somebody is asked counts as declined after a time."""
        run = self.run
        return (
            self.need == "question" and run is not None and run.spec.limits.elicitation_timeout_s is not None
        )

    def result_of(self, run_id: str) -> Result:
        """Return what a run came to, from the journal alone."""
        return result_of_run(restored(self.journal, run_id)[0], self.journal)

    # -- steps -----------------------------------------------------------------------------------------------------

    def do(self, step: Mapping[str, Any]) -> None:
        """
        Take one step; what happened in it is added to the script.

        Args:
            step: ``do`` names it, see `DOS`; the other keys are those of the method.

        Raises:
            Violation: Something that always holds did not.
        """
        kind = step.get("do")
        if kind not in DOS:
            raise UsageError(f"a step of a world that is none: {kind!a:.80}")
        self._step = dict(step)
        self.script.append(self._step)
        try:
            getattr(self, f"_{kind}")(step)
            self._raise_broken()
            self._hold_to_check()
        except Violation as violation:
            raise self._told(violation) from violation.__cause__
        except (KeyboardInterrupt, UsageError):
            raise
        except Exception as error:
            if _is_foreign(error):
                raise
            name, told = type(error).__name__, str(error)
            raise self._told(self._violation("raises_nothing", f"{name}: {told:.500}")) from error

    def _hold_to_check(self) -> None:
        """Hold the world to what its user claims."""
        if self._check is None:
            return
        try:
            self._check(self)
        except Exception as error:
            if _is_foreign(error):
                raise
            told = (str(error) or type(error).__name__).splitlines()[0]
            raise self._violation("check", told) from error

    def _raise_broken(self) -> None:
        """Raise what was found in the middle of a call; the engine would take it for the call's own error."""
        broken, self._broken = self._broken, None
        if broken is not None:
            raise broken

    def _kept(self, error: BaseException) -> Lost:
        """Keep *error* for the end of the step, and return what ends the call without anybody catching it."""
        self._broken = self._broken or error
        return Lost()

    def play(self, script: Sequence[Mapping[str, Any]]) -> None:
        """
        Take the steps of a script as they were written down.

        Raises:
            Violation: As `do`.
        """
        for step in script:
            said = [Said.of(item) for item in step.get("said", ())]
            happened = [checked_happening(item) for item in step.get("happened", ())]
            self.tell = _in_turn(said)
            self.choose = _happening_in_turn(happened)
            self.do({name: value for name, value in step.items() if name not in ("said", "happened")})

    def close(self) -> None:
        """Let go of the run and the journal."""
        self._drop()
        self.journal.discard()

    def _start(self, step: Mapping[str, Any]) -> None:
        """Start a run; a step that the engine refuses starts nothing."""
        self._drop()
        options = {
            name: step[name] for name in ("mode", "final_format", "task_type", "stage") if step.get(name)
        }
        try:
            if step.get("limits") is not None:
                options["limits"] = Limits(**{**self.engine.limits.model_dump(), **step["limits"]})
            if step.get("policy") is not None:
                self._policy = Policy(**step["policy"])
                self.engine._policy = self.engine.policy = self._policy
        except (ValidationError, TypeError) as error:
            raise UsageError(f"limits or policy of a step: {error}") from None
        documents = [(str(name), str(text)) for name, text in step.get("documents", ())]
        given = (str(step.get("objective", "Read the notes")), tuple(step.get("criteria", ())), documents)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a mode that is old and works
            if options.get("mode") == "workflow":
                del options["mode"]
                start = self.engine._workflow(*given, None, options)
            else:
                start = self.engine._prepared(*given, **options)
        self.run_id = ""
        self._hold(start, resumed=False)
        self._advance(until_row=False)

    def _row(self, step: Mapping[str, Any]) -> None:
        """Go on by one row; with ``lost`` the process is lost before that is committed."""
        self.journal.lose = bool(step.get("lost"))
        try:
            if self._stream is None:
                self._go_on({})
            self._advance()
        except Lost:
            self._crash(step)
        self.journal.lose = False

    def _answer(self, step: Mapping[str, Any]) -> None:
        """Answer a question; a wrong answer changes nothing."""
        self._given({"answer": step.get("answer")}, step)

    def _settle(self, step: Mapping[str, Any]) -> None:
        """Say what became of an effect in doubt."""
        question = self.question
        if step.get("outcome") == "retry" and question is not None and question.key is not None:
            self.allowed[question.key] = self.allowed.get(question.key, 0) + 1
        self._given({"outcome": step.get("outcome"), "result": step.get("result")}, step)

    def _given(self, options: dict[str, Any], step: Mapping[str, Any]) -> None:
        if self.need != "question":
            return
        before, row = self._heads(), self.seen[self._number()]
        question = self.question
        try:
            self._go_on(options)
        except InvalidAnswer as error:
            self._step["refused"] = True
            if self._heads() != before:
                raise self._violation("wrong_answers_change_nothing", str(error)) from None
            return
        if question is not None and question.kind == "approval":
            answer = options.get("answer")
            content = answer.get("content", answer) if isinstance(answer, Mapping) else None
            row.approved = isinstance(content, Mapping) and content.get("approve") is True
        self.journal.lose = bool(step.get("lost"))
        try:
            self._advance()
        except Lost:
            self._crash(step)
        self.journal.lose = False

    def _cancel(self, step: Mapping[str, Any]) -> None:
        """Ask for the run's end, from beside the driver if there is one."""
        if self.need in ("start", "end"):
            return
        self._restored = None
        self.engine.cancel(self.run_id)
        self._restored = None
        if self._stream is not None:
            self._drain()
        self._look_at_rows()
        if self.run is not None and not self.run.final:
            raise self._violation("ends_within_bounds", "the run was cancelled and goes on")
        self._rest()

    def _crash(self, step: Mapping[str, Any]) -> None:
        """Lose the process where it stands; another one takes over with the next step."""
        self._drop()
        self._pending = []
        if self._path != ":memory:":
            self.journal.discard()
            self.journal = self._opened()
        self.engine = self._process()
        self._look_at_rows()
        self._rest(journal_tells_the_state)

    def _clock(self, step: Mapping[str, Any]) -> None:
        """Have the clocks jump."""
        self.clock.jump(int(step.get("wall_us", 0)), int(step.get("active_us", 0)))

    def _look(self, step: Mapping[str, Any]) -> None:
        """Ask for a run that has ended or waits, and answer what nobody asked: nothing changes."""
        if self.need not in ("end", "question") or self.may_be_late:
            return
        before = self._heads()
        first = self.engine.resume(self.run_id)
        if self.need == "end":
            again = self.engine.cancel(self.run_id)
            if again.wire() != first.wire() or self._heads() != before:
                raise self._violation(
                    "an_end_stays", "asking for an ended run gave another result or new rows"
                )
        elif self._heads() != before:
            raise self._violation("an_end_stays", "looking at a run that waits wrote rows")

    def _finish(self, step: Mapping[str, Any]) -> None:
        """Bring the run to its end as ``how`` says, and hold it to its bounds."""
        if self.need in ("start", "end"):
            return
        how, count = step.get("how", "polite"), 0
        self.tell = lambda call: closing(call, how, self._echoes)
        self.choose = lambda tool, arguments: CALL
        most = self._rows_allowed()
        while self.need not in ("start", "end"):
            if self.need == "question":
                question = self.question
                doubt = question is not None and question.kind == "in_doubt"
                options = {"outcome": "fail"} if doubt else {"answer": {"action": "decline"}}
                self._given(options, {})
            else:
                self._row({})
            count += 1
            if count > most:
                raise self._violation("ends_within_bounds", f"after {count} more rows the run has not ended")
        self._rest()

    # -- driving ---------------------------------------------------------------------------------------------------

    def _hold(self, start: Start, *, resumed: bool) -> None:
        def held() -> tuple[Drive, Steps]:
            self._drive, walk = start()
            return self._drive, walk

        self._stream = self.engine._driven(held, resumed=resumed)

    def _go_on(self, options: dict[str, Any]) -> None:
        """Take the run up again where its journal ends."""
        self._drop()
        task = self.engine._task_to_answer(self.run_id, options.get("answer"), options.get("outcome"))
        if task is not None:
            self.engine.resume(task, **options)
            options = {}
        going = self.engine._going_on(self.run_id, **options)
        if isinstance(going, Going):
            self._hold(going.start, resumed=going.resumed)

    def _advance(self, *, until_row: bool = True) -> None:
        """Have the driver go on to its next row, and to its end when that was the last one."""
        if self._stream is None:
            return
        for event in self._stream:
            if not self.run_id:
                self.run_id = event.run_id
            if isinstance(event, TransitionTaken) or not until_row:
                break
        self._look_at_rows()
        run = self.live
        if run is not None and (run.final or run.waiting_for is not None):
            self._drain()
            self._rest()

    def _drain(self) -> None:
        """Let the driver end."""
        self._restored = None
        if self._stream is not None:
            for event in self._stream:
                if isinstance(event, RunEnded) and event.run_id == self.run_id:
                    self._last = event.result
            self._stream = None

    def _drop(self) -> None:
        """Let go of the driver as it stands: between two rows."""
        self._restored = None
        if self._stream is not None:
            self._stream.close()  # type: ignore[attr-defined]
        self._stream = None

    # -- the outside -----------------------------------------------------------------------------------------------

    def _asked(self, call: ModelCall) -> Said:
        try:
            said = self.tell(call)
        except Exception as error:  # noqa: BLE001 - raised again when the step ends
            raise self._kept(error) from None
        self._pending.append(said)
        if self._step.get("do") != "finish":
            self._step.setdefault("said", []).append(said.wire())
        return said

    def _begins(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Hold a call of a tool to what must be true before it begins; return what happens in it."""
        run = self.live
        if run is not None and run.spec.task != 0 and not run.counters.formatted:
            spec, intent = run.spec, run.memory.intent
            if denied(spec.policy, spec.task_type, tool.name):
                raise self._kept(self._violation("denied_never_called", f"{tool.name} was called"))
            head = self.journal.run(run.run_id)
            wanted = (intent.tool, canonical(intent.arguments)) if intent is not None else ("", "")
            if head.state != "Executing" or wanted != (tool.name, canonical(arguments)):
                told = f"{tool.name} was called in {head.state} without a committed intent for this call"
                raise self._kept(self._violation("intent_before_effect", told))
            if intent is not None and tool.effect == "once":
                self._begins_once(intent.idempotency_key, tool)
        try:
            happening = dict(self.choose(tool, arguments))
        except Exception as error:  # noqa: BLE001 - raised again when the step ends
            raise self._kept(error) from None
        if self._step.get("do") != "finish":
            self._step.setdefault("happened", []).append(happening)
        return happening

    def _begins_once(self, key: str, tool: Tool) -> None:
        begun = sum(call.key == key for call in self.watch.calls)
        free = self.allowed.get(key, 0) + self.watch.not_begun.get(key, 0)
        if begun > free:
            told = f"{tool.name} has the effect once and was begun {begun + 1} times, {free} of them freely"
            raise self._kept(self._violation("once_never_repeats", told))

    # -- looking ---------------------------------------------------------------------------------------------------

    def _heads(self) -> list[tuple[int, int]]:
        return [(row.run, row.head_seq) for row in self.journal.runs()]

    def _number(self) -> int:
        return self.journal.run(self.run_id).run

    def _look_at_rows(self) -> None:
        """Read what was committed since, and hold every row to what always holds."""
        for head in reversed(self.journal.runs()):
            seen = self.seen.get(head.run)
            if seen is None:
                spec = self.journal.spec(head.run_id)
                seen = self.seen[head.run] = Seen(head.run_id, spec, RunModel(spec.limits))
            said = self._committed.pop(head.run, [])
            rows = self.journal.own_rows(head.run, len(seen.rows))
            for place, values in enumerate(rows):
                seen.said = said[place] if place < len(said) else []
                seen.rows.append(transition_of(values))
                self._take(seen)

    def _take(self, seen: Seen) -> None:
        """Go on with one row of a run."""
        row = seen.row
        self._count(seen)
        run = self.live
        if run is not None and run.run_id == seen.run_id and run.memory.intent is not None:
            seen.call = run.memory.intent.tool, run.memory.intent.arguments
        elif row.trigger in ("specify", "refuse"):
            seen.call = None
        for name, told in broken_by(seen):
            raise self._violation(name, told, seen)
        if row.trigger in ("specify", "refuse"):
            seen.approved = False
        if row.trigger == "execute" and seen.call is not None:
            seen.calls.append((seen.call[0], canonical(seen.call[1])))

    def _count(self, seen: Seen) -> None:
        """Go on with what the model said: tokens, success, criteria."""
        row, reply = seen.row, seen.reply
        if row.outcome["kind"] in ("reply", "fault", "result") or not seen.said:
            used = [said.tokens for said in seen.said]
            if seen.tokens is not None and seen.spec.task != 0:
                seen.tokens = (
                    seen.tokens[0] + sum(item[0] for item in used),
                    seen.tokens[1] + sum(item[1] for item in used),
                )
        else:
            seen.tokens = None
        if seen.spec.task == 0 or (row.outcome["kind"] in ("reply", "fault") and not seen.said):
            seen.tokens = None
        if reply is not None and reply.good is not False:
            seen.success = seen.success or reply.means.get("status") == "success" or reply.good is None
            seen.met |= set(reply.means.get("met", ()))
            if reply.good is None:
                seen.met |= set(seen.spec.success_criteria)

    def _rest(self, *checks: Callable[[World], Iterator[str]]) -> None:
        """Hold the whole journal to what always holds when nothing moves, or to some of it."""
        for check in checks or tuple(REST.values()):
            for told in check(self):
                raise self._violation(check.__name__, told)
        for head in self.journal.runs():
            hashes = [row.hash for row in self.journal.transitions(head.run_id)]
            before = self._hashes.get(head.run, [])
            if hashes[: len(before)] != before:
                raise self._violation("rows_never_change", "a row is not what it was")
            self._hashes[head.run] = hashes

    def _violation(self, name: str, told: str, seen: Seen | None = None) -> Violation:
        if seen is None:
            found = [item for item in self.seen.values() if item.run_id == self.run_id]
            seen = found[0] if found else None
        seq = seen.rows[-1].seq if seen is not None and seen.rows else -1
        return Violation(name, seq, seen.run_id if seen is not None else "", told)

    def _told(self, violation: Violation) -> Violation:
        """Return *violation* with the script and the rows that led to it."""
        violation.script = copy.deepcopy(self.script)
        violation.rows = [
            {"run": number, "seq": row.seq, "trigger": row.trigger, "source": row.source, "dest": row.dest}
            for number, seen in sorted(self.seen.items())
            for row in seen.rows
        ]
        return violation

    @property
    def _echoes(self) -> dict[str, Said]:
        """The last good reply of each kind in this world, for a run that is brought to its end."""
        said = [Said.of(item) for step in self.script for item in step.get("said", ())]
        return {item.kind: item for item in said if item.good}

    def _rows_allowed(self) -> int:
        """Return how many rows a run may still have by its limits, generously counted."""
        run = self.run
        if run is None:
            return 0
        limits = run.spec.limits
        again = limits.selection_retries + limits.parameter_retries + limits.review_retries
        tools = max((tool.step_retries for tool in run.spec.tools), default=0)
        per_step = 8 + again + tools + 2
        ends = (limits.max_retries + 1) * (6 + again) + 2 * limits.max_elicitations + 20
        return min(ROWS_MAX, (limits.max_steps + 1) * per_step + ends)


def closing(call: ModelCall, how: str, echoes: Mapping[str, Said]) -> Said:
    """
    Return what is said to bring a run to its end.

    Args:
        call: What is asked.
        how: ``polite``: it stops at once; ``retry``: every review asks for more; ``silence``: nothing is said;
            ``echo``: the last good reply of the kind is said again and again, as far as there was one.
        echoes: Those.
    """
    if how == "silence" and call.kind != "text":
        return Said(call.kind, "", "empty", False)
    if how == "echo" and call.kind in echoes:
        return echoes[call.kind]._replace(good=None)
    status = "retry" if how == "retry" else "success"
    polite: dict[str, tuple[Any, dict[str, Any]]] = {
        "selection": ({"action": None, "answer": "It is known."}, {}),
        "parameters": ({"schema": "parameters_v1", "parameters": {}}, {}),
        "refinement": ({"decision": "stop", "reason": "enough"}, {"decision": "stop"}),
        "review": ({"status": status, "improvements": []}, {"status": status}),
        "plan": ({"steps": [], "answer": "It is known."}, {}),
        "task_plan": ({"overview": "one", "tasks": [{"id": "a", "objective": "Read"}]}, {}),
        "text": ("A text.", {}),
    }
    reply, means = polite[call.kind]
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return Said(call.kind, text, "closing", None if call.kind == "parameters" else True, means)


def _in_turn(said: Sequence[Said]) -> Callable[[ModelCall], Said]:
    left = list(said)

    def tell(call: ModelCall) -> Said:
        for place, item in enumerate(left):
            if item.kind == call.kind:
                return left.pop(place)
        return faulty(call.kind, "script_exhausted")

    return tell


def _happening_in_turn(happened: Sequence[Mapping[str, Any]]) -> Callable[..., Mapping[str, Any]]:
    left = list(happened)
    return lambda tool, arguments: left.pop(0) if left else CALL


def _is_foreign(error: Exception) -> bool:
    """Whether an error is the test machinery's own, not the engine's: hypothesis stops an example by raising."""
    return type(error).__module__.startswith("hypothesis") or isinstance(error, Violation)
