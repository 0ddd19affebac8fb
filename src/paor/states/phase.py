"""
The class that every phase is an instance of: the seven of paor, and those that a host adds.

A phase is a `transitions.State`; it answers one question, purely: what does a run in this phase need from the
outside before it can be decided? It never touches anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transitions import State

from .base.errors import UsageError
from .base.sealed import sealed
from .records.requests import NOTHING, ModelRequest, Request
from .run.budgets import limit_reached
from .run.state import Run

Arguments = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
"""Of a phase's call: values, or a pure function from the guard context to values."""

Words = str | Callable[[Any], str]
"""Of a phase's question: a text, or a pure function from the guard context to a text."""

_WITHIN = (
    "the machine was changed after it was made, and nothing is called within a decision: machine = machine.on_enter(...)"
    " and machine.on_exit(...) call yours after the commit"
)


class Phase(State):
    """
    One phase of a run: a state of the machine that knows what it needs next.

    A host's own phase asks for one thing at most: a model's reply (*prompt* and *reply*), a call of a tool (*tool* and
    *arguments*) or a person's answer (*question*). `Machine.phase` adds it to a machine, with the rows that asking takes.

    Args:
        name: One word, such as ``Verifying``; not one of the seven.
        final: Whether nothing leads on from it; only `Done` and `Failed` are.
        prompt: Template of a model request, with the placeholders of ``docs/howto/machine.md``.
        reply: JSON Schema of the model's reply, an object; a reply that does not fit is asked for again, `Limits.review_retries` times.
        model: Which model is asked; None for the run's own.
        chooses: Whether the reply's ``mode`` and ``limits`` are those of the run from then on; no limit rises. Only in the machine's
            first phase.
        tool: Name of the tool that is called, one of the engine's.
        arguments: Its arguments: values, or a pure function of the guard context. The call goes through Specifying, Executing and
            Observing like any other, with its policy, approval, intent row and doubt, and comes back here; it is no step of the run.
        question: What a person is asked: a text, or a pure function of the guard context that gives one.
        answer: JSON Schema of the answer; None for any.
        on_enter, on_exit: Called with the `TransitionTaken` event once a row that leads to the phase, or on from it, is durable.
    """

    def __init__(
        self,
        name: str,
        *,
        final: bool = False,
        prompt: str | None = None,
        reply: Mapping[str, Any] | None = None,
        model: Any = None,
        chooses: bool = False,
        tool: str | None = None,
        arguments: Arguments | None = None,
        question: Words | None = None,
        answer: Mapping[str, Any] | None = None,
        on_enter: Callable[[Any], object] | None = None,
        on_exit: Callable[[Any], object] | None = None,
    ) -> None:
        super().__init__(name, final=final, ignore_invalid_triggers=False)
        self.prompt, self.reply, self.model, self.chooses = prompt, sealed(reply), model, chooses
        self.tool, self.arguments = tool, sealed(arguments)
        self.question, self.answer = question, sealed(answer)
        given = (("on_enter", on_enter), ("on_exit", on_exit))
        for kind, callback in given:
            if callback is not None and not callable(callback):
                raise UsageError(f"{name}: {kind} is one function, which is called with the event of the row")
        self.callbacks = tuple((kind, name, callback) for kind, callback in given if callback is not None)

    def enter(self, event_data: object) -> None:
        """Call nothing, and refuse what was put into the library's list: no effect hangs on entering a phase."""
        if self.on_enter:
            raise UsageError(f"{self._name}.on_enter: {_WITHIN}")

    def exit(self, event_data: object) -> None:
        """Call nothing likewise."""
        if self.on_exit:
            raise UsageError(f"{self._name}.on_exit: {_WITHIN}")

    def request(self, run: Run) -> Request:
        """Return what *run*, which is in this phase, needs from the outside; touch nothing."""
        if self.prompt is None or limit_reached(run):
            return NOTHING
        return ModelRequest("phase", run.counters.review_retries)
