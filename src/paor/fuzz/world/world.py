"""
A world: one engine on a journal in memory, moved row by row by steps that are plain JSON.

The steps are everything that comes from outside: what a model says, what happens in tools, what people answer, jumps of
the clock, crashes. A world writes every step down as it happened, so that the same steps move another world, in any
process, to the same rows. After every row it holds the run to `invariants`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

from pydantic import ValidationError

from ...fsm.lifecycle.model_facts import Pending
from ...fsm.lifecycle.options import run_options
from ...fsm.lifecycle.resume import Continuation, continuation
from ...fsm.lifecycle.runner import Acquisition
from ...fsm.lifecycle.start import new_run
from ...fsm.lifecycle.subrun_runner import new_workflow
from ...fsm.machine.decide import request_of
from ...fsm.replay.callers import waiting_called
from ...fsm.replay.restore import restore_run
from ...fsm.runtime.events import TransitionTaken
from ...fsm.runtime.loop import Steps
from ...fsm.runtime.run_context import RunContext
from ...prompts.model import ModelCall
from ...states.base.errors import ForbiddenRow, HostFunctionError, IllegalEvent, InvalidAnswer, UsageError
from ...states.records.questions import Question
from ...states.records.requests import ModelRequest, Nothing, Recall
from ...states.run.spec import ToolSpec
from ...states.run.state import Run
from ...states.settings.limits import Limits
from ...states.settings.policy import Policy
from ..oracles.invariants import chain_verifies, journal_tells_the_state
from ..oracles.seen import Violation
from ..strategies.injected_faults import CALL, check_happening
from ..strategies.near_misses import families, near_miss
from ..strategies.reply_builder import Said, faulty
from .engine_under_test import Make, Step, SystemUnderTest, rows_allowed
from .error_attribution import is_foreign
from .test_doubles import Lost


def closing(call: ModelCall, how: str, echoes: Mapping[str, Said]) -> Said:
    """
    Return what is said to bring a run to its end.

    Args:
        call: What is asked.
        how: ``polite``: it stops at once; ``silence``: nothing is said; ``echo``: the last good reply of the kind is said
            again and again, as far as there was one; ``retry``: so are selections and parameters, and every review asks
            for more; a number: near misses, another family with every request, beginning with that one.
        echoes: Those.
    """
    if how == "silence" and call.kind != "text":
        return Said(call.kind, "", "empty", False)
    again = how == "echo" or (
        how == "retry" and call.kind in ("selection", "parameters", "plan", "turn", "phase")
    )
    if again and call.kind in echoes:
        return echoes[call.kind]._replace(good=None)
    status = "retry" if how == "retry" else "success"
    polite: dict[str, tuple[Any, dict[str, Any]]] = {
        "selection": ({"action": None, "answer": "It is known."}, {"answer": "It is known."}),
        "parameters": ({"schema": "parameters_v1", "parameters": {}}, {}),
        "refinement": ({"decision": "stop", "reason": "enough"}, {"decision": "stop", "answer": ""}),
        "review": ({"status": status, "improvements": []}, {"status": status}),
        "plan": ({"steps": [], "answer": "It is known."}, {}),
        "answer": ({"answer": "It is known."}, {"answer": "It is known."}),
        "task_plan": ({"overview": "one", "tasks": [{"id": "a", "objective": "Read"}]}, {}),
        "turn": ("It is known.", {}),
        "phase": (_fitting(call.schema or {}), {}),
        "text": ("A text.", {}),
        "summary": ("A summary.", {}),
    }
    reply, means = polite[call.kind]
    text = reply if isinstance(reply, str) else json.dumps(reply)
    unsure = call.kind in ("parameters", "phase")
    chosen = Said(call.kind, text, "closing", None if unsure else True, means)
    if not how.isdecimal():
        return chosen
    names = sorted(families(call.kind))
    return near_miss(chosen, names[(int(how) + call.number) % len(names)])


def _fitting(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain object with what *schema* needs, as far as types and choices tell."""
    parts = schema.get("properties", {})
    return {name: _plain_value(parts.get(name, {})) for name in schema.get("required", ())}


def _plain_value(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("type") == "object":
        return _fitting(schema)
    return {"array": [], "integer": 1, "number": 1, "boolean": True}.get(schema.get("type", ""), "a text")


def in_turn(replies: Sequence[Said]) -> Callable[[ModelCall], Said]:
    left = list(replies)

    def tell(call: ModelCall) -> Said:
        for place, item in enumerate(left):
            if item.kind == call.kind:
                return left.pop(place)
        return faulty(call.kind, "script_exhausted")

    return tell


def given_in_turn(given: Sequence[Mapping[str, Any]]) -> Callable[..., Any]:
    """Return what gives the values of a script in their turn, and then those of the engine's own port."""
    left = list(given)
    return lambda port, run_id, phase: left.pop(0) if left else port(run_id, phase)


def happening_in_turn(happened: Sequence[Mapping[str, Any]]) -> Callable[..., Mapping[str, Any]]:
    left = list(happened)
    return lambda tool, arguments: left.pop(0) if left else CALL


__all__ = ["DOS", "Make", "Step", "World"]

DOS = ("start", "row", "answer", "settle", "cancel", "crash", "clock", "look", "finish")
"""What a step can do."""


class World(SystemUnderTest):
    """
    One engine, moved row by row; see `SystemUnderTest` for its arguments and what can be read of it.

    Attributes:
        need: What is needed next: ``start``, a kind of model request, ``tool``, ``recall``, ``nothing``, ``question``, ``end``.
    """

    @property
    def run(self) -> Run | None:
        """The run as it stands, None before the first."""
        if not self.run_id:
            return None
        if self.live is not None:
            return self.live
        if self._restored is None:
            self._restored = restore_run(self.journal.reader, self.run_id)[0]
        return self._restored

    @property
    def need(self) -> str:
        """What is needed next."""
        run = self.run
        if run is None:
            return "start"
        if run.final:
            return "end"
        if run.waiting_for is not None:
            return "question"
        match request_of(run):
            case ModelRequest(kind=kind):
                return kind
            case Recall():
                return "recall"
            case Nothing():
                return "nothing"
        return "tool"

    @property
    def question(self) -> Question | None:
        """The question that the run waits for; of a workflow that of its task."""
        run = self.run
        if run is None or run.final or run.waiting_for is None:
            return None
        called = waiting_called(self.journal.reader, self.journal.run(run.run_id))
        return (
            restore_run(self.journal.reader, called)[0].waiting_for if called is not None else run.waiting_for
        )

    @property
    def may_be_late(self) -> bool:
        """Whether the question counts as declined after some time."""
        run = self.run
        late = run is not None and run.spec.limits.elicitation_timeout_s is not None
        return late and self.need == "question"

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
        self._add(dict(step))
        self.clock.home = get_ident()
        try:
            getattr(self, f"_{kind}")(step)
            self._raise_broken()
            self._hold_to_check()
        except Violation as violation:
            raise self._with_script(violation) from violation.__cause__
        except (KeyboardInterrupt, UsageError) as error:
            if not isinstance(error, IllegalEvent):  # what no row takes is no mistake of whoever uses the kit
                raise
            raise self._with_script(self._violation("raises_nothing", f"{error!s:.500}")) from error
        except Exception as error:
            if is_foreign(error):
                raise
            name, message = type(error).__name__, str(error)
            raise self._with_script(self._violation("raises_nothing", f"{name}: {message:.500}")) from error
        except BaseException as error:
            self._interrupt()  # to the run the process is lost
            if is_foreign(error) or isinstance(error, Lost | SystemExit):
                raise  # hypothesis stops it in the middle of a call
            message = f"{type(error).__name__}, which is no Exception and ends the process: {error!s:.500}"
            raise self._with_script(self._violation("raises_nothing", message)) from error

    def _interrupt(self) -> None:
        """Lose the process in the middle of a step, so that the run can still be brought to its end."""
        self._step["lost"], self.journal.store.lose, self._pending = True, False, []
        self._drop()
        self.engine = self._process()

    def _hold_to_check(self) -> None:
        """Hold the world to what its user claims."""
        if self._check is None:
            return
        try:
            self._check(self)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.fail raises no Exception
            if is_foreign(error):
                raise
            message = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise self._violation("check", message) from error

    def play(self, script: Sequence[Mapping[str, Any]]) -> None:
        """
        Take the steps of a script as they were written down.

        Raises:
            Violation: As `do`.
        """
        for step in script:
            replies = [Said.of(item) for item in step.get("said", ())]
            happened = [check_happening(item) for item in step.get("happened", ())]
            self.tell = in_turn(replies)
            self.choose = happening_in_turn(happened)
            self.gives = given_in_turn(step.get("gave", ()))
            self.do({name: value for name, value in step.items() if name not in ("said", "happened", "gave")})

    def close(self) -> None:
        """Release the run and close the journal."""
        self._drop()
        self.clock.let_go()
        self.journal.store.discard()

    def _start(self, step: Mapping[str, Any]) -> None:
        """Start a run; a step that the engine refuses starts nothing."""
        self._drop()
        names = ("mode", "final_format", "task_type", "stage", "values")
        options: dict[str, Any] = {name: step[name] for name in names if step.get(name)}
        try:
            if step.get("limits") is not None:
                options["limits"] = Limits(**{**self.engine.limits.model_dump(), **step["limits"]})
            drawn = Policy(**step["policy"]) if step.get("policy") is not None else None
            documents = [(str(name), str(text)) for name, text in step.get("documents", ())]
        except UsageError:
            raise
        except (ValidationError, TypeError, ValueError) as error:
            raise UsageError(f"limits, policy or documents of a step: {error}") from None
        self._tighter = (drawn.deny, drawn.approvals) if drawn is not None else None
        self.engine = self._process()
        given = (str(step.get("objective", "Read the notes")), tuple(step.get("criteria", ())), documents)
        runner = self.engine._runner
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a mode that is old and works
            if options.get("mode") == "workflow":
                del options["mode"]
                new = new_workflow(runner, *given, None, run_options(options)).unasked()
            else:
                new = Pending(
                    new_run(runner.settings, runner.ids.salt, *given, run_options(options))
                ).unasked()
        self.run_id, self._cancelled = "", None
        self._hold(runner.creation(new), resumed=False)
        self._advance(until_row=False)

    def task_tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that every task of the workflow is offered: without those for documents where it has none."""
        run = self.live
        reads = run is not None and bool(run.spec.documents)
        offered = self.engine._runner.settings.offered(None, None, documents=reads)
        return tuple(tool.spec() for tool in offered)

    def _row(self, step: Mapping[str, Any]) -> None:
        """Go on by one row; with ``lost`` the process is lost before that is committed."""
        self.journal.store.lose = bool(step.get("lost"))
        try:
            with self._host_raising(step):
                if self._stream is None:
                    self._go_on({})
                self._advance()
        except Lost:
            self._crash(step)
        self.journal.store.lose = False

    def _answer(self, step: Mapping[str, Any]) -> None:
        actor = {"actor": step["actor"]} if step.get("actor") and step.get("answer") is not None else {}
        self._resume_with({"answer": step.get("answer")} | actor, step)

    def _settle(self, step: Mapping[str, Any]) -> None:
        question = self.question
        if step.get("outcome") == "retry" and question is not None and question.key is not None:
            self.allowed[question.key] += 1
        self._resume_with({"outcome": step.get("outcome"), "result": step.get("result")}, step)

    def _resume_with(self, options: dict[str, Any], step: Mapping[str, Any]) -> None:
        if self.need != "question":
            return
        before, question = self._heads(), self.question
        if question is not None and (options.get("answer") is not None or options.get("outcome") is not None):
            options = {**options, "question": question.id}
        asking = [seen for seen in self.seen.values() if seen.rows and seen.row.trigger == "wait"]
        if question is not None and question.kind == "approval":
            answer = options.get("answer")
            content = answer.get("content", answer) if isinstance(answer, Mapping) else None
            for seen in asking:  # of a workflow the run and its task
                seen.approved = isinstance(content, Mapping) and content.get("approve") is True
        try:
            with self._host_raising(step):
                self._go_on(options)
                self._look_at_rows()  # a task has gone on by itself, perhaps to its next question
                self.journal.store.lose = bool(step.get("lost"))
                self._advance()
        except InvalidAnswer as error:
            self._step["refused"] = True
            for seen in asking:
                seen.approved = False
            if self._heads() != before:
                raise self._violation("wrong_answers_change_nothing", str(error)) from None
        except Lost:
            self._crash(step)
        self.journal.store.lose = False

    @contextmanager
    def _host_raising(self, step: Mapping[str, Any]) -> Iterator[None]:
        """Have the functions of the host's own machine and its port for values raise, where the step says so; nothing may come of it."""
        before, host = self._heads(), self.host
        host.failing, host.failed = bool(step.get("raises")), False
        try:
            yield
        except ForbiddenRow as error:
            raise self._violation("never_happens", str(error)) from error
        except HostFunctionError as error:
            if not host.failed:
                raise self._violation("host_functions_never_raise", str(error)) from error
            self._step["refused"] = True
            self._pending = []
            self._drop()
            if self._heads() != before:
                raise self._violation("host_errors_change_nothing", f"rows were written: {error}") from None
            self._rest(chain_verifies, journal_tells_the_state)
        else:
            self._raise_broken()
            if host.failed and not step.get("lost"):
                message = "a function of the host raised, and the run went on"
                raise self._violation("host_errors_change_nothing", message)
        finally:
            host.failing = False

    def _cancel(self, step: Mapping[str, Any]) -> None:
        """Ask for the run's end, from beside the driver if there is one."""
        if self.need in ("start", "end"):
            return
        self._restored, self._cancelled = None, 0
        with suppress(Lost):  # what was broken is raised when the step ends
            self.engine.cancel(self.run_id)
            self._restored = None
            if self._stream is not None:
                self._drain()
        self._raise_broken()
        self._look_at_rows()
        # a run that can go on no further ends for that reason, also when it is cancelled in the same moment
        if (run := self.run) is not None and run.reason not in ("cancelled", "stuck", "workflow_error"):
            raise self._violation("a_cancel_ends_the_run", f"it was cancelled in {run.state}, and goes on")
        self._rest()

    def _crash(self, step: Mapping[str, Any]) -> None:
        """Lose the process where it stands; another one takes over with the next step."""
        self._drop()
        self._pending = []
        if self._path != ":memory:":
            self.journal.store.discard()
            self.journal = self._open()
        self.engine = self._process()
        self._look_at_rows()
        self._rest(journal_tells_the_state)

    def _clock(self, step: Mapping[str, Any]) -> None:
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
                message = "asking for an ended run gave another result or new rows"
                raise self._violation("an_end_stays", message)
        elif self._heads() != before:
            raise self._violation("an_end_stays", "looking at a run that waits wrote rows")

    def _finish(self, step: Mapping[str, Any]) -> None:
        """Bring the run to its end as ``how`` says, and hold it to its bounds; each row is a step of the script."""
        if self.need in ("start", "end"):
            return
        how, count = step.get("how", "polite"), 0
        echoes = self.echoes
        self.tell = lambda call: closing(call, how, echoes)
        self.choose = lambda tool, arguments: CALL
        self.gives = given_in_turn(())
        run, last = self.run, self.script.pop()
        most = rows_allowed(run.spec) if run is not None else 0
        while self.need not in ("start", "end"):
            if self.need == "question":
                question = self.question
                doubt = question is not None and question.kind == "in_doubt"
                options = {"outcome": "fail"} if doubt else {"answer": {"action": "decline"}}
                self._add({"do": "settle" if doubt else "answer"} | options)
                self._resume_with(options, {})
            else:
                self._add({"do": "row"})
                self._row({})
            self._raise_broken()
            count += 1
            if count > most:
                self._add(last)
                raise self._violation("ends_within_bounds", f"after {count} more rows the run has not ended")
        self._rest()

    def _add(self, step: Step) -> None:
        self._step = step
        self.script.append(step)

    # -- driving ---------------------------------------------------------------------------------------------------

    def _hold(self, acquire: Acquisition, *, resumed: bool) -> None:
        def held() -> tuple[RunContext, Steps]:
            self._drive, walk = acquire()
            return self._drive, walk

        self._stream = self.engine._runner.drive(held, resumed=resumed)

    def _go_on(self, options: dict[str, Any]) -> None:
        """Take the run up again where its journal ends."""
        self._drop()
        given = options.get("answer") is not None or options.get("outcome") is not None
        called = waiting_called(self.journal.reader, self.journal.run(self.run_id)) if given else None
        if called is not None:
            self.engine.resume(called, **options)
            options = {}
        found = continuation(self.engine._runner, self.run_id, **options)
        if isinstance(found, Continuation):
            self._hold(found.acquire, resumed=found.resumed)

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
        self._restored = None
        for _ in self._stream or ():
            pass
        self._stream = None

    def _drop(self) -> None:
        """Let go of the driver as it stands: between two rows."""
        self._restored = None
        self.host.forget()
        if self._stream is not None:
            self._stream.close()  # type: ignore[attr-defined]
        self._stream = None

    @property
    def echoes(self) -> dict[str, Said]:
        """The last good reply of each kind in this world, for a run that is brought to its end."""
        replies = [Said.of(item) for step in self.script for item in step.get("said", ())]
        return {item.kind: item for item in replies if item.good}
