"""
The typed answer of a run: the JSON Schema of a Python type, and the answer as a value of it.

The schema is in the run's spec, and what the type refuses beside it, by validators of its own, is journaled with the reply that it
refuses: so the same answer is taken in a replay without the host's code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ...states.base.errors import InvalidOutput, UsageError
from ...tools.schema.canonical import NotJson, plain
from ...tools.schema.references import SchemaError
from ...tools.signature import UntitledSchema
from ..decision.run_resources import output_checker
from ..runtime.events import Event, RunEnded
from ..runtime.ports import refusal_words
from ..runtime.result import Result


def output_schema_of(output_type: Any) -> dict[str, Any] | None:
    """
    Return the JSON Schema of an answer, None for a text.

    Args:
        output_type: A type that pydantic knows (a model, a dataclass, a TypedDict, ``list[int]``), a JSON Schema as a mapping,
            or None.

    Raises:
        UsageError: It has no JSON Schema, or is one that cannot be used.
    """
    if output_type is None:
        return None
    try:
        schema = plain(output_type if isinstance(output_type, Mapping) else _schema_of_type(output_type))
        output_checker(schema)
    except (SchemaError, NotJson) as error:
        raise UsageError(f"output_type: {error}") from None
    return dict(schema)


def _schema_of_type(output_type: Any) -> dict[str, Any]:
    with _usable(output_type, "has no JSON Schema"):
        return TypeAdapter(output_type).json_schema(schema_generator=UntitledSchema)


@contextmanager
def _usable(output_type: Any, wrong: str) -> Iterator[None]:
    """Raise `UsageError`, with what is *wrong*, for what pydantic cannot use as a type of an answer, or must not."""
    try:
        if inspect.isroutine(output_type):
            raise TypeError("it is a function")  # pydantic would take its arguments for the type
        if isinstance(output_type, str):
            raise TypeError("it is a text")  # pydantic would evaluate it as Python
        yield
    except Exception as error:  # a type may bring its own schema, and raise anything
        raise UsageError(
            f"output_type {_said(ascii, output_type):.80} {wrong} ({_said(str, error).partition(chr(10))[0]}); expected a type such as a"
            " pydantic model, or a JSON Schema"
        ) from None


def _said(form: Callable[[object], str], value: object) -> str:
    """Return a host's value as text, by the name of its type where it fails at that."""
    try:
        return form(value)
    except Exception:  # what a host's own method raises
        return type(value).__name__


def typed(result: Result[Any], options: Mapping[str, Any]) -> Result[Any]:
    """Return *result* with its output as the ``output_type`` among *options*, as `with_output` does."""
    return with_output(result, options.get("output_type"))


def typed_event(event: Event, options: Mapping[str, Any]) -> Event:
    """Return *event*; the last one of a run with its result as `typed` gives it."""
    if not isinstance(event, RunEnded):
        return event
    return replace(event, result=typed(event.result, options))


def with_output(result: Result[Any], output_type: Any) -> Result[Any]:
    """
    Return *result* with its output as a value of *output_type*; as it is without a type, for a schema, and without an output.

    Raises:
        UsageError: It is no type.
        InvalidOutput: It is another type than the run's, or the run was driven without it and a validator of its own refuses the output.
    """
    if output_type is None or isinstance(output_type, Mapping) or result.output is None:
        return result
    with _usable(output_type, "cannot be used"):
        adapter = TypeAdapter[Any](output_type)
    try:
        return replace(result, output=adapter.validate_json(result.answer))
    except ValidationError as error:
        raise InvalidOutput(
            f"run {result.run_id}: its output does not become {_said(ascii, output_type):.80}: {refusal_words(error)[:500]};"
            " Engine.result without output_type gives it as JSON data"
        ) from None
