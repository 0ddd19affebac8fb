"""
The parameter schema of a typed Python function, and its call with JSON arguments.

pydantic does the work: one model per function, with a field for each parameter, gives the JSON Schema and converts
arguments to the annotated types (enums, dataclasses, TypedDicts, models, dates). Conversion follows pydantic's
strict rules for JSON: a date is written as text, but the text ``"1"`` is no number.

A parameter annotated with a class that is called ``ToolContext``, or with ``ToolContext[Deps]``, gets the run's context; it is no
part of the schema.

A `typing.TypedDict`, which pydantic refuses before Python 3.12, is replaced by an equal one of typing_extensions (`modern`).
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, is_dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from math import inf
from textwrap import dedent
from types import UnionType
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from weakref import WeakKeyDictionary

import orjson
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from ..states.base.errors import ToolError
from .schema.canonical import NotJson, plain
from .schema.problems import Problem, foreign, misfit, missing, unknown
from .schema.references import SchemaError


def modern(annotation: Any) -> Any:
    """
    Return *annotation* with every `typing.TypedDict` in it replaced by an equal one that pydantic takes.

    Raises:
        RecursionError: A `typing.TypedDict` that refers to itself.
    """
    if is_typeddict(annotation):
        return _copy(annotation) if type(annotation).__module__ == "typing" else annotation
    origin, inner = get_origin(annotation), get_args(annotation)
    if not inner or origin is Literal:
        return annotation
    if origin is Annotated:
        return Annotated[(modern(inner[0]), *inner[1:])]
    changed = tuple(map(modern, inner))
    if all(new is old for new, old in zip(changed, inner, strict=True)):
        return annotation
    if origin in (Union, UnionType):
        return Union[changed]  # noqa: UP007 - a tuple of types
    return origin[changed]


def _copy(annotation: Any) -> Any:
    """Return a TypedDict of the same name, keys and types."""
    fields = {}
    for name, kind in get_type_hints(annotation, include_extras=True).items():
        if get_origin(kind) in (Required, NotRequired):
            kind = get_args(kind)[0]
        mark = Required if name in annotation.__required_keys__ else NotRequired
        fields[name] = mark[modern(kind)]
    made: Any = TypedDict  # to the type checker the names of a TypedDict are literals
    return made(annotation.__name__, fields)


__all__ = ["BindError", "SchemaError", "bind", "context_parameter", "needs_deps", "schema_of", "summary_of"]

CONTEXT = "ToolContext"
"""Name of the class that marks the parameter for the run's context."""

_CONTEXT_TEXT = re.compile(
    rf"(?:[\w.]*Optional\[)?\s*[\"']?(?:\w+\.)*{CONTEXT}(?:\[.+\])?[\"']?\s*\]?\s*(?:\|\s*None)?"
)
_SECTION = re.compile(
    r"^( *)(?:Args|Arguments|Parameters):[ \t]*\n((?:\1[ \t]+\S.*\n?|[ \t]*\n)+)", re.MULTILINE
)
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)\n]*\))?\s*:", re.MULTILINE)
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

Function = Callable[..., Any]


class BindError(ToolError, ValueError):
    """
    Arguments that fit the schema but not the Python types: the tool was not called.

    Attributes:
        problems: What is wrong, as `ParameterSchema.check` says it.
    """

    def __init__(self, message: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(message, problems)
        self.problems = problems

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class _Signature:
    """
    What is known of a function, without the function.

    Attributes:
        schema: JSON Schema of its parameters.
        model: A model with a field for each parameter.
        names: Field names of the model with the parameters' names.
    """

    schema: dict[str, Any]
    model: type[BaseModel]
    names: tuple[tuple[str, str], ...]


_signatures: WeakKeyDictionary[Function, _Signature] = WeakKeyDictionary()


def schema_of(function: Function) -> dict[str, Any]:
    """
    Return the JSON Schema of a typed function's parameters.

    Defaults are in it if JSON has a form for them; descriptions come from ``Annotated[..., Field(description=...)]``,
    else from the ``Args:`` section of the docstring. Further properties are not allowed.

    Args:
        function: Function, bound method, or other callable; ``self`` and the context are no parameters.

    Raises:
        SchemaError: ``*args``, a positional-only or unannotated parameter, an annotation that cannot be resolved or
            has no JSON form; the message names function and parameter.
    """
    return deepcopy(_signature(function).schema)


def summary_of(function: Function) -> str:
    """Return the first paragraph of the docstring on one line; empty without a docstring."""
    text = inspect.getdoc(_core(function)) or ""
    return " ".join(re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0].split())


def context_parameter(function: Function) -> str | None:
    """Return the name of the parameter that gets the run's context, or None; any callable is answered."""
    found = _context(function)
    return found.name if found is not None else None


def is_unbound(function: Function) -> bool:
    """Return whether *function* is a method of a class that is not bound to an object: it needs its ``self`` as well."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (ValueError, TypeError, NameError):
        return False
    named = (
        first is not None and first.name in ("self", "cls") and first.annotation is inspect.Parameter.empty
    )
    return named and not inspect.ismethod(function)


def needs_deps(function: Function) -> bool:
    """Return whether the parameter that gets the run's context is annotated with the type of its ``deps``."""
    found = _context(function)
    return found is not None and _names_deps(found.annotation)


def _context(function: Function) -> inspect.Parameter | None:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError, NameError):
        return None
    found = (item for item in parameters if item.kind in _BY_KEYWORD and _is_context(item.annotation))
    return next(found, None)


def bind(function: Function, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the keyword arguments for *function*: *arguments* converted to its annotated types.

    Args:
        function: As for `schema_of`.
        arguments: JSON values that the schema allows. What is not given is not in the result, so that the function's
            own defaults hold.

    Raises:
        BindError: A value that the Python type refuses (a model's own validator, for example), or no JSON.
        SchemaError: As for `schema_of`.
    """
    signature = _signature(function)
    parse = signature.model.__pydantic_validator__.validate_json
    try:
        try:
            model = parse(orjson.dumps(arguments))
        except (TypeError, ValidationError):
            # A number beyond 64 bits, or 1.0 for an int: JSON Schema calls it an integer, pydantic does not.
            model = parse(json.dumps(plain(arguments)))
    except ValidationError as error:
        problems = tuple(
            _problem(details) for details in error.errors(include_url=False, include_context=False)
        )
        words = "; ".join(problem.message for problem in problems[:10])
        raise BindError(f"wrong arguments for {_name(function)}: {words}", problems) from None
    except NotJson as error:
        problem = foreign(error.code, error.path, error.reason)
        raise BindError(f"wrong arguments for {_name(function)}: {problem.message}", (problem,)) from None
    if (lost := next(_lost(arguments, model, ()), None)) is not None:
        raise BindError(f"wrong arguments for {_name(function)}: {lost.message}", (lost,))
    values, given = model.__dict__, model.__pydantic_fields_set__
    return {name: values[field] for field, name in signature.names if field in given}


def _lost(said: object, held: object, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield what of the JSON value *said* is not in the Python value *held* that was made of it; a host's own conversions may differ."""
    if isinstance(held, RootModel):
        yield from _lost(said, held.root, path)
    elif isinstance(said, Mapping):
        yield from _lost_names(said, held, path)
    elif isinstance(said, list) and isinstance(held, list | tuple | deque):
        for index, pair in enumerate(zip(said, held, strict=False)):
            yield from _lost(*pair, (*path, index))
    elif isinstance(said, list) and isinstance(held, set | frozenset):
        for index, item in enumerate(said):
            if item not in list(held):
                yield from (problem for value in held for problem in _lost(item, value, (*path, index)))
    elif _is_rounded(said, held):
        yield misfit("value", path, "hold a number or a time that the tool's type cannot hold exactly", said)


def _lost_names(said: Mapping[str, Any], held: object, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield which names of an object are not in *held*, and what of their values is not."""
    if isinstance(held, Mapping):
        if len(said) > len(held):
            gone = [name for name in said if name not in held] or list(said)
            yield unknown((*path, gone[0]))
        for name, (key, value) in zip(said, held.items(), strict=False):
            if _is_rounded(name, key):
                yield unknown((*path, name))
            yield from _lost(said[name], held.get(name, value), (*path, name))
        return
    names: Mapping[str, str] = {}
    if isinstance(held, BaseModel):
        names = _names_of(type(held))
        arrived = held.__pydantic_fields_set__ | (held.__pydantic_extra__ or {}).keys()
        if len(said) > len(arrived):
            gone = [name for name in said if name not in names] or list(said)
            yield unknown((*path, gone[0]))
    elif is_dataclass(held):
        kind: type = type(held)
        names = _names_of(kind)
    for key, value in said.items():
        found = getattr(held, names.get(key, key), None)
        if type(value) is not type(found) or type(value) not in _EXACT or value != found:
            yield from _lost(value, found, (*path, key))


_EXACT = frozenset((str, int, bool))
"""Types of JSON values that are the same in Python."""


@lru_cache(maxsize=1024)
def _names_of(kind: type) -> dict[str, str]:
    """Return the names of a model's fields by the keys under which they are given."""
    fields: Mapping[str, FieldInfo] = getattr(kind, "__pydantic_fields__", {})
    return {key: name for name, field in fields.items() for key in _keys_of(name, field)}


def _keys_of(name: str, field: FieldInfo) -> list[str]:
    """Return the keys under which a field is given."""
    alias = field.validation_alias or field.alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return [choice for choice in choices if isinstance(choice, str)] + [name]


_PARTS_OF_MICROSECONDS = re.compile(r"[.,]\d{6}0*[1-9]")


def _is_rounded(said: object, held: object) -> bool:
    """Return whether *held* is the nearest value of its type to the number, the time or the key *said*, and another one."""
    if isinstance(held, datetime | time | timedelta):
        text = format(_decimal(said), "f") if isinstance(said, float) else str(said)
        return _PARTS_OF_MICROSECONDS.search(text) is not None
    if isinstance(said, bool) or isinstance(held, bool):
        return False
    if isinstance(said, str) and isinstance(held, float):  # a key
        with suppress(ArithmeticError):
            return Decimal(said) not in (_decimal(held), Decimal(held))
    if isinstance(said, int) and isinstance(held, float):
        return held != said and held == _as_float(said)
    if isinstance(said, float) and isinstance(held, int):
        return held == said and held != _decimal(said)
    return False


def _decimal(number: float) -> Decimal:
    """Return the number that a float's shortest form says."""
    return Decimal(repr(number))


def _as_float(value: int) -> float:
    return float(value) if value.bit_length() < 1024 else inf


def _problem(details: Mapping[str, Any]) -> Problem:
    """Return one of pydantic's errors as ours."""
    kind, words, path = str(details["type"]), str(details["msg"]), details["loc"]
    if kind == "missing":
        return missing(path)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return unknown(path)
    words = (
        words.replace("Input should be", "must be", 1)
        if words.startswith("Input should be")
        else f"is wrong: {words}"
    )
    return misfit("type" if kind.endswith("_type") else "value", path, words, details["input"])


def _signature(function: Function) -> _Signature:
    """Return what is known of *function*, learnt once."""
    key = getattr(function, "__func__", function)  # a bound method is made anew at every access
    try:
        return _signatures[key]
    except (KeyError, TypeError):
        signature = _learnt(function)
    with suppress(TypeError):  # What is not hashable or cannot be referred to weakly is learnt at each call.
        _signatures[key] = signature
    return signature


def _learnt(function: Function) -> _Signature:
    """Build the model of a function's parameters, and the schema of that."""
    parameters = _parameters(function)
    kinds = {item.name: _resolve_annotation(function, item) for item in parameters}
    names = tuple((f"p{index}", item.name) for index, item in enumerate(parameters))
    defaults = {field: item.default for (field, _), item in zip(names, parameters, strict=True)}
    required = [name for field, name in names if defaults[field] is inspect.Parameter.empty]
    fields: dict[str, Any] = {field: (kinds[name], _field(name, required)) for field, name in names}
    try:
        model: type[BaseModel] = create_model("Parameters", __config__=_CONFIG, **fields)
        made = model.model_json_schema(schema_generator=_ArgumentSchema)
    except (PydanticUserError, TypeError) as error:
        raise _culprit(function, kinds, error) from None
    schema: dict[str, Any] = {"type": "object", "properties": made.get("properties", {})}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if "$defs" in made:
        schema["$defs"] = made["$defs"]
    for name, words in _argument_docs(function).items():
        if name in schema["properties"] and words:
            schema["properties"][name].setdefault("description", words)
    for field, name in names:
        if name not in required:
            schema["properties"][name].update(_default(model, field, name, defaults[field]))
    return _Signature(schema, model, names)


def _field(name: str, required: list[str]) -> Any:
    return Field(alias=name) if name in required else Field(alias=name, default_factory=lambda: None)


_CONFIG = ConfigDict(extra="forbid", strict=True)


class UntitledSchema(GenerateJsonSchema):
    """Leaves out what only costs tokens: titles that repeat a field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: a field's title is its name again."""
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Do nothing: a nested default without a JSON form is left out silently."""


class _ArgumentSchema(UntitledSchema):
    """Says of every class that drops unknown keys that it takes none: what a call says arrives, or it is not made."""

    def model_schema(self, schema: Any) -> Any:
        """Return the schema of a model."""
        made = super().model_schema(schema)
        return made if schema.get("root_model") else {"additionalProperties": False} | made

    def dataclass_schema(self, schema: Any) -> Any:
        """Return the schema of a dataclass."""
        return {"additionalProperties": False} | super().dataclass_schema(schema)

    def typed_dict_schema(self, schema: Any) -> Any:
        """Return the schema of a TypedDict."""
        return {"additionalProperties": False} | super().typed_dict_schema(schema)


def _parameters(function: Function) -> list[inspect.Parameter]:
    """Return the parameters that arguments are for, all of them to be passed by keyword."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError, NameError) as error:
        raise SchemaError(f"function {_name(function)}: its signature cannot be read: {error}") from None
    bare = inspect.Parameter.empty
    if found and found[0].name in ("self", "cls") and found[0].annotation is bare:
        del found[0]
    parameters = []
    contexts = 0
    for item in found:
        if item.kind not in _BY_KEYWORD:
            reason = f"is {item.kind.description}; expected one that can be passed by keyword"
        elif item.annotation is bare:
            reason = "has no annotation; expected a type"
        elif isinstance(item.default, FieldInfo):
            reason = "has Field(...) as its default; expected Annotated[type, Field(...)] and a plain default"
        elif not _is_context(item.annotation):
            parameters.append(item)
            continue
        elif not contexts:
            contexts += 1
            continue
        else:
            reason = f"is a second {CONTEXT}; expected at most one"
        raise SchemaError(f"function {_name(function)}: parameter {item.name} {reason}")
    return parameters


def _resolve_annotation(function: Function, item: inspect.Parameter) -> Any:
    """Return a parameter's annotation as a type, also if it was written as text."""
    core = _core(function)
    owner = type("Parameters", (), {"__annotations__": {item.name: item.annotation}})
    try:
        kind = get_type_hints(owner, getattr(core, "__globals__", {}), {}, include_extras=True)[item.name]
        return modern(kind)
    except (NameError, SyntaxError, TypeError, AttributeError, RecursionError) as error:
        raise SchemaError(
            f"function {_name(function)}: parameter {item.name}: its annotation cannot be resolved: {error}"
        ) from None


def _is_context(annotation: Any) -> bool:
    """Return whether an annotation, as a type or as text, is the context or None."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return _CONTEXT_TEXT.fullmatch(annotation.strip()) is not None
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return any(map(_is_context, get_args(annotation)))
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and kind.__name__ == CONTEXT


def _names_deps(annotation: Any) -> bool:
    """Return whether the annotation of a context says of which type its ``deps`` are: ``ToolContext[Deps]``."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return f"{CONTEXT}[" in annotation
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return any(map(_names_deps, get_args(annotation)))
    return _is_context(annotation) and bool(get_args(annotation))


def _culprit(function: Function, kinds: Mapping[str, Any], error: Exception) -> SchemaError:
    """Return the error for the first parameter that has no JSON Schema of its own."""
    for name, kind in kinds.items():
        try:
            TypeAdapter(kind).json_schema()
        except (PydanticUserError, TypeError) as reason:
            words = str(reason).partition("\n")[0]
            return SchemaError(f"function {_name(function)}: parameter {name}: {words}")
    return SchemaError(f"function {_name(function)}: {str(error).partition(chr(10))[0]}")


def _default(model: type[BaseModel], field: str, name: str, default: object) -> dict[str, Any]:
    """Return ``{"default": ...}`` with a default as JSON, or nothing if it does not come back from there as it was."""
    try:
        holder = model.model_construct(None, **{field: default})
        made = plain(holder.model_dump(mode="json", include={field}, warnings="error")[field])
        if getattr(model.model_validate_json(json.dumps({name: made})), field) != default:
            return {}
    except ValidationError as error:  # Also for the required parameters, which are not given here.
        if any(details["loc"][0] == name for details in error.errors(include_url=False)):
            return {}
    except Exception:  # noqa: BLE001 - a serializer of the host can raise anything; then there is no such form
        return {}
    return {"default": made}


def _argument_docs(function: Function) -> dict[str, str]:
    """Return the entries of the ``Args:`` section of a Google-style docstring, each on one line."""
    section = _SECTION.search(inspect.getdoc(_core(function)) or "")
    if section is None:
        return {}
    _, *entries = _ENTRY.split(dedent(section[2]))
    return {name: " ".join(words.split()) for name, words in zip(entries[::2], entries[1::2], strict=True)}


def _core(function: Function) -> Any:
    """Return the plain function that is behind partials, wrappers, methods and callable objects."""
    core: Any = function
    while isinstance(core, partial):
        core = core.func
    core = inspect.unwrap(core)
    if (
        not hasattr(core, "__globals__")
        and not isinstance(core, type)
        and hasattr(type(core).__call__, "__globals__")
    ):
        core = type(core).__call__
    return getattr(core, "__func__", core)


def _name(function: Function) -> str:
    core = _core(function)
    return str(getattr(core, "__qualname__", type(core).__qualname__))


def importable_name(function: object) -> str | None:
    """Return ``module:qualname`` of a function that another process can import by it, None for any other."""
    if not inspect.isfunction(function) or "<" in function.__qualname__:
        return None
    module: str | None = function.__module__
    if module == "__main__":  # of a program that runs as a module, the module's name
        module = getattr(getattr(sys.modules[module], "__spec__", None), "name", None)
    return f"{module}:{function.__qualname__}" if module else None
