"""
Everything beyond the engine: tools whose effects are noted as they happen, and a model that says anything.

The tools are made once; what they do is decided by the world that is simulated now.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from paor import ModelCall, Reply, Tool, ToolContext, Usage, tool
from paor.errors import AnswerNeeded, EffectUnknown, ModelUnavailable, NotStarted, ToolError

from ..support.planning import END, PLAN, STEP
from ..support.worlds import ANSWER, PARAMETERS, REFINE, REVIEW, SELECT
from .processes import Process
from .schedule import Schedule

BOUND_S = 5.0
"""Seconds that a call of a tool with a deadline may take."""

ONCE = frozenset({"desk.send", "bank.pay", "desk.wait", "bank.transfer", "desk.ask"})
TIMED = frozenset({"desk.wait", "desk.fetch", "bank.transfer"})
NAMES = ("notes.read", "desk.put", "desk.fetch", *sorted(ONCE))


@dataclass(eq=False)
class Call:
    """
    One call of a tool that was begun.

    Attributes:
        tool, key, run_id, page: What was called, under which idempotency key, for which run.
        began_us, ended_us: True times; 0 while it runs.
        effects: What tells its effects from all others; empty when it had none.
        is_unknown: Whether it said that it does not know what it did.
    """

    tool: str
    key: str
    run_id: str
    page: int
    began_us: int
    ended_us: int = 0
    effects: list[str] = field(default_factory=list)
    is_unknown: bool = False


class Outside:
    """
    The ledger and the moods of one world.

    Args:
        schedule: Time and turns.
        chance: Decides.
        on_call, on_ask: Called when a call begins, and when the model is asked for a run.
    """

    def __init__(
        self,
        schedule: Schedule,
        chance: random.Random,
        on_call: Callable[[Process, Call], None],
        on_ask: Callable[[Process, str], None],
    ) -> None:
        self.schedule, self.chance = schedule, chance
        self._on_call, self._on_ask = on_call, on_ask
        self.calls: list[Call] = []
        self.happened: dict[str, list[str]] = {}
        self.tool_fault, self.model_fault = 0.0, 0.0
        self.slow = 0.1
        self.names: tuple[str, ...] = NAMES
        self._pages = 0

    def use(self, name: str, context: ToolContext, page: int) -> str:
        """Do what a tool does: take time, perhaps fail before or after its effect."""
        schedule, chance = self.schedule, self.chance
        assert schedule.current is not None, "only an actor calls tools"
        call = Call(name, context.idempotency_key, context.run_id, page, schedule.now_us)
        self.calls.append(call)
        token = f"{name} {page} effect {len(self.calls)}"
        self._on_call(schedule.current.process, call)
        schedule.point(f"call {name} {page}")
        fault = chance.random() if chance.random() < self.tool_fault else 1.0
        try:
            schedule.wait(self._seconds(name))
            if fault < 0.5:
                raise _before(chance)
            call.effects.append(token)
            self.happened.setdefault(call.key, []).append(token)
            schedule.point(f"effect {name} {page}")
            if chance.random() < 0.5:
                schedule.wait(self._seconds(name))
            if fault < 0.9:
                raise EffectUnknown("no answer came") if fault < 0.7 else OSError("the line broke")
            return token
        except EffectUnknown:
            call.is_unknown = True
            raise
        finally:
            call.ended_us = schedule.now_us

    def _seconds(self, name: str) -> float:
        if name in TIMED and self.chance.random() < self.slow:
            return self.chance.choice((BOUND_S - 0.1, BOUND_S + 0.01, 9.0, 400.0))
        return self.chance.choice((0.01, 0.5, 3.0 if name not in TIMED else 1.0))

    def look(self, key: str) -> str | None:
        """Say whether the effect under a key happened, as far as that can be told now."""
        self.schedule.point("reconcile")
        self.schedule.wait(0.1)
        if self.chance.random() < self.tool_fault:
            raise OSError("the books are closed")
        found = self.happened.get(key)
        return found[0] if found else None

    def say(self, call: ModelCall) -> Any:
        """Answer a request of the engine, or fail."""
        chance = self.chance
        assert self.schedule.current is not None, "only an actor asks"
        self._on_ask(self.schedule.current.process, call.run_id)
        self.schedule.point(f"ask {call.kind}")
        self.schedule.wait(chance.choice((0.05, 1.0, 12.0)))
        self.schedule.point(f"answer {call.kind}")
        if chance.random() < self.model_fault:
            return _fault(chance)
        said = self._reply(call)
        return Reply(said if isinstance(said, str) else json.dumps(said), Usage(1, 5, 5))

    def page(self) -> int:
        """Return a number that no call has had."""
        self._pages += 1
        return self._pages

    def _reply(self, call: ModelCall) -> Any:
        chance = self.chance
        if call.kind == "plan":
            if call.number >= chance.choice((1, 1, 2, 3)):
                return END("All is done.")
            names = [chance.choice(self.names) for _ in range(chance.choice((1, 1, 2, 3)))]
            return PLAN(*(STEP(name, page=self.page()) for name in names))
        if call.kind == "selection":
            return SELECT(chance.choice(self.names)) if call.number < 6 else ANSWER()
        if call.kind == "parameters":
            return PARAMETERS(page=self.page())
        if call.kind == "refinement":
            return REFINE("continue" if chance.random() < 0.5 and call.number < 6 else "stop")
        return REVIEW("success", answer="All is done.")


def _before(chance: random.Random) -> Exception:
    """Return why a call fails before it has done anything."""
    return chance.choice(
        (
            NotStarted("the line is busy"),
            ToolError("no such page"),
            OSError("no route"),
            EffectUnknown("lost"),
        )
    )


def _fault(chance: random.Random) -> Any:
    """Raise or return what a server does that cannot answer."""
    kind = chance.random()
    if kind < 0.5:
        return Reply("?", Usage(1, 5, 1))
    if kind < 0.6:
        return None  # what no client may return
    if kind < 0.7:
        raise RuntimeError("the client has a bug")
    raise ModelUnavailable(
        chance.choice(("timeout", "rate_limited", "server_error", "cut_stream")), "no answer"
    )


class Speaker:
    """The model of all engines."""

    name = "speaker"

    def ask(self, call: ModelCall) -> Any:
        """Answer."""
        return NOW.outside.say(call)

    async def aask(self, call: ModelCall) -> Any:
        """Do the same."""
        return self.ask(call)


class Now:
    """The world that is simulated now."""

    outside: Outside


NOW = Now()


def _made(name: str, **options: Any) -> Tool:
    @tool(name, label="result", repeat_allowed=True, **options)
    def use(context: ToolContext, page: int) -> str:
        """Use it."""
        return NOW.outside.use(name, context, page)

    return use


@tool("desk.ask", effect="once", label="result")
def ask(context: ToolContext, page: int) -> str:
    """Ask somebody first; do nothing when it is declined."""
    NOW.outside.schedule.point(f"ask {page}")
    if context.resumption is None or (context.resumption.again and not context.resumption.accepted):
        raise AnswerNeeded("May this be done?", {"type": "object"}, {"page": page})
    if not context.resumption.accepted:
        raise ToolError("somebody declined")
    return NOW.outside.use("desk.ask", context, page)


def _look(key: str) -> str | None:
    return NOW.outside.look(key)


TOOLS: tuple[Tool, ...] = (
    _made("notes.read", effect="read"),
    _made("desk.put", effect="idempotent", retries=1),
    _made("desk.fetch", effect="idempotent", timeout_s=BOUND_S),
    _made("desk.send", effect="once", retries=1),
    _made("bank.pay", effect="once", reconcile=_look),
    _made("desk.wait", effect="once", timeout_s=BOUND_S),
    _made("bank.transfer", effect="once", retries=1, timeout_s=BOUND_S, reconcile=_look),
    ask,
)
"""Every class of effect, with and without a deadline, with and without somebody who can be asked."""
