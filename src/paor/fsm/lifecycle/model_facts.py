"""
What a run has to know of its model before it starts: whether it calls tools, and how long its context is.

A model says both itself, or its server has to be asked. What checks a run's arguments does no I/O, so it is written as steps
that pause at the model to be asked; `Pending` performs them for the sync and the async caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from ...prompts.clients.background_loop import BACKGROUND
from ...prompts.model import Model
from ...states.settings.limits import CONTEXT_FLOOR, REPLY_CEILING
from ..runtime.logs import LOGGER

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """
    What is known of a model.

    Attributes:
        calls_tools: Whether it answers with calls of the tools that it is offered; None where its server has to say.
        context_tokens: Size of its context; None where nobody says.
        takes_pictures: Whether it is shown pictures; None where its server is asked with the first one.
    """

    calls_tools: bool | None = None
    context_tokens: int | None = None
    takes_pictures: bool | None = False


Looking: TypeAlias = Generator[tuple[Model, bool], ModelFacts, T]
"""Steps to a value, with a pause at each model whose server is to be asked, and whether for more than its context."""


def said_by(source: Any) -> ModelFacts:
    """Return what a model says of itself, or what its ``look`` has returned; anything of a wrong type says nothing."""
    calls, context = getattr(source, "calls_tools", False), getattr(source, "context_tokens", None)
    if type(context) is not int or context < 1:
        context = None
    else:
        context = min(max(context, CONTEXT_FLOOR), REPLY_CEILING)
    sees = getattr(source, "takes_pictures", False)
    return ModelFacts(
        calls if calls is None else calls is True, context, sees if sees is None else sees is True
    )


def facts_of(model: Model, *, calls: bool, context: bool) -> Looking[tuple[ModelFacts, bool]]:
    """
    Return what a run has to know of *model*, and whether its server was asked whether it calls tools.

    Args:
        model: That will answer.
        calls: Whether the run has to know if it calls tools.
        context: Whether the run has to know how long its context is.
    """
    said = said_by(model)
    ask_calls = calls and said.calls_tools is None
    if not (ask_calls or (context and said.context_tokens is None)) or not _can_look(model):
        return said, False
    found = yield model, ask_calls
    known = said.calls_tools if said.calls_tools is not None else found.calls_tools
    sees = said.takes_pictures if said.takes_pictures is not None else found.takes_pictures
    return ModelFacts(known, said.context_tokens or found.context_tokens, sees), ask_calls


def _can_look(model: Model) -> bool:
    return hasattr(model, "look") or hasattr(model, "alook")


class Pending(Generic[T]):
    """
    A value on the way: all that can be checked without asking a server is checked when this is made.

    Args:
        steps: To the value.
    """

    def __init__(self, steps: Looking[T]) -> None:
        self._steps = steps
        self._asked: tuple[Any, bool] | None = None
        self._value: T | None = None
        self._advance(None)

    def _advance(self, facts: ModelFacts | None) -> None:
        try:
            self._asked = self._steps.send(cast("ModelFacts", facts))
        except StopIteration as end:
            self._asked, self._value = None, end.value

    def looked(self) -> T:
        """Return the value; servers are asked where that is needed."""
        while self._asked is not None:
            (model, calls), found = self._asked, None
            with _told(model):
                if hasattr(model, "look"):
                    found = model.look(calls=calls)
                else:
                    found = BACKGROUND.wait(model.alook(calls=calls), lambda: False)
            self._advance(said_by(found))
        return cast("T", self._value)

    async def alooked(self) -> T:
        """Do the same as `looked` without blocking the running event loop."""
        while self._asked is not None:
            (model, calls), found = self._asked, None
            with _told(model):
                if hasattr(model, "alook"):
                    found = await model.alook(calls=calls)
                else:
                    found = await asyncio.to_thread(model.look, calls=calls)
            self._advance(said_by(found))
        return cast("T", self._value)

    def unasked(self) -> T:
        """Return the value as it is where servers say nothing; none is asked."""
        while self._asked is not None:
            self._advance(ModelFacts(takes_pictures=None))
        return cast("T", self._value)


@contextmanager
def _told(model: Model) -> Iterator[None]:
    """Log what a model raises that was asked about its server: nothing is known then, and the run starts all the same."""
    try:
        yield
    except Exception:  # a model is the host's own, and may raise anything
        LOGGER.exception("model %s: its server could not be asked", model.name)
