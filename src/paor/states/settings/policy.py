"""What a host allows, as data; `tools.policy` decides with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    GetPydanticSchema,
    Tag,
    model_serializer,
    model_validator,
)

from ..base.sealed import SealedDict
from ..base.wire import SEALED
from .base import Settings

Pattern = Annotated[str, Field(min_length=1)]
"""An empty one, as a configuration that was split may hold, would match nothing: deny nothing, or allow nothing."""


NUMBER_MAX = 2**53
"""Largest number that is compared: beyond it, the program that gets a number may read another one."""


def is_number(value: object) -> bool:
    """Return whether *value* is a number that all programs read alike: finite, no bool, at most `NUMBER_MAX`."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and -NUMBER_MAX <= value <= NUMBER_MAX
    )


def _number(value: object) -> object:
    if not is_number(value):
        raise ValueError("must be a number of at most 2**53")
    return value


def _scalar(value: object) -> object:
    if not (value is None or isinstance(value, bool | str) or is_number(value)):
        raise ValueError("must be a text, a number of at most 2**53, true, false or null")
    return value


def _not_empty(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("must name at least one value")
    return values


Number = Annotated[Any, AfterValidator(_number)]
Scalar = Annotated[Any, AfterValidator(_scalar)]
Scalars = Annotated[tuple[Scalar, ...], AfterValidator(_not_empty)]


class Condition(Settings):
    """
    What an `ApprovalRule` asks of one argument: all operators that are given must hold.

    A text alone is the operator ``pattern``: ``"urgent"`` is ``{"pattern": "urgent"}``.

    Attributes:
        gt, ge, lt, le: The argument is a number greater than, at least, less than, at most this one.
        eq, ne: It is, or is not, exactly this text, number, ``True``, ``False`` or ``None``.
        is_in: Given as ``in``: it is one of these.
        pattern: It fits this pattern as a whole, ``*`` being any characters. Other values than texts are compared as JSON.
            A leading ``!`` negates the pattern.

    Raises:
        UsageError: No operator, an unknown one, one with a value of the wrong type, or numbers between which none lies.
    """

    gt: Number = None
    ge: Number = None
    lt: Number = None
    le: Number = None
    eq: Scalar = None
    ne: Scalar = None
    is_in: Scalars = Field(default=(), alias="in")
    pattern: Pattern = ""

    @property
    def operators(self) -> dict[str, Any]:
        """The operators that were given, by their names."""
        return {
            field.alias or name: getattr(self, name)
            for name, field in type(self).model_fields.items()
            if name in self.model_fields_set
        }

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        return self.operators.items()

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"pattern": data}
        if not (isinstance(data, Mapping) and data and all(name in _OPERATORS for name in data)):
            raise ValueError(f"must be a pattern or operators out of {', '.join(_OPERATORS)}")
        return data

    @model_validator(mode="after")
    def _can_hold(self) -> Condition:
        given = self.operators
        low = max((given[name] for name in ("gt", "ge") if name in given), default=-NUMBER_MAX)
        high = min((given[name] for name in ("lt", "le") if name in given), default=NUMBER_MAX)
        if low > high or (low == high and (given.get("gt") == low or given.get("lt") == high)):
            raise ValueError("must leave a number between its bounds")
        return self

    @model_serializer
    def _as_given(self) -> Any:
        given = self.operators
        return given["pattern"] if list(given) == ["pattern"] else given


_OPERATORS = tuple(field.alias or name for name, field in Condition.model_fields.items())


PatternOrOperators = Annotated[Any, GetPydanticSchema(lambda _, handler: handler(Condition))]
"""A condition in any of its forms, for type checkers; what is made of it is a `Condition`."""


def _path(path: str) -> str:
    if not all(path.split(".")):
        raise ValueError("must be names of arguments with dots between them")
    return path


ArgumentPath = Annotated[str, AfterValidator(_path)]


class ApprovalRule(Settings):
    """
    Calls that need an approval, by tool and arguments.

    Attributes:
        tool: Pattern of tool names.
        arguments: By the path of an argument (``amount``, ``to.address``) a pattern for it (``"urgent"``, ``"!*@example.org"``)
            or operators: ``{"gt": 100}``, ``{"ge": 1, "lt": 5}``, ``{"ne": "EUR"}``, ``{"in": ["DE", "AT"]}``; see
            `Condition`. The rule applies to a call if all of them hold; of a list one element is enough. What cannot be
            compared counts as holding, so that the call is asked about: an argument that is missing, a value of
            another type, such as a text where a number is compared, and a number beyond 2**53.

    Raises:
        UsageError: No tool pattern, an unknown name or operator, or a value that an operator cannot compare.
    """

    tool: Pattern
    arguments: Annotated[dict[ArgumentPath, PatternOrOperators], SEALED] = Field(default_factory=SealedDict)


PatternOrRule = Annotated[
    Annotated[Pattern, Tag("pattern")] | Annotated[ApprovalRule, Tag("rule")],
    Discriminator(lambda given: "pattern" if isinstance(given, str) else "rule"),
]


class Policy(Settings):
    """
    Which tools a run may use; deny wins over the task type, which wins over the run's own tools list.

    Patterns are tool names with ``*`` for any run of characters: ``web.*``, ``*.delete``.

    Attributes:
        allow: Patterns; empty allows every tool that is offered.
        deny: Patterns that are never executed, whatever else allows them.
        task_types: For a task type, the patterns it may use. If there are any, a run with another type is refused; without a type
            it is not restricted by these.
        approvals: Patterns of tools, or `ApprovalRule` values, whose calls need a typed approval, one for each call.
        approval_valid_s: Seconds for which an approval is valid; if the call has not begun by then, paor asks
            again.
        url_schemes: Schemes a URL argument may have.
        file_roots: Absolute folders. Arguments whose names look like paths must lie under one of them, with links
            resolved; relative paths start at the first. Empty: only the form of such arguments is checked.
        missing_ok: Whether a pattern may fit no tool of an engine, because the policy is for more than one engine. An engine
            is otherwise not made: a misspelt name would forbid nothing. Not recorded, since it decides nothing about a call.
        private_hosts: Whether URL arguments may name private, loopback or link-local hosts. Metadata services of
            clouds, which give credentials to any caller, are never allowed.

    Raises:
        UsageError: A value that is not a list of patterns, or an unknown name.

    Source: the specification in docs/spec-coverage.md, on policies and on "Security Considerations".
    """

    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()
    task_types: Annotated[dict[str, tuple[Pattern, ...]], SEALED] = Field(default_factory=SealedDict)
    approvals: tuple[PatternOrRule, ...] = ()
    approval_valid_s: float = Field(default=3600, gt=0, le=31_536_000, allow_inf_nan=False)
    url_schemes: tuple[Pattern, ...] = ("http", "https")
    private_hosts: bool = False
    file_roots: tuple[Annotated[str, Field(pattern=r"^/[^\x00]*$")], ...] = ()
    missing_ok: bool = Field(default=False, exclude=True)
