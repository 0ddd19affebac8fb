"""What a host allows, as data; `tools.policy` decides with it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import Settings

Pattern = Annotated[str, Field(min_length=1)]
"""An empty one, as a configuration that was split may hold, would match nothing: deny nothing, or allow nothing."""


class ApprovalRule(Settings):
    """
    Calls that need an approval, by tool and arguments.

    Attributes:
        tool: Pattern of tool names.
        arguments: Patterns by the path of an argument (``amount``, ``to.address``), with ``*`` for any characters.
            Numbers and other values are compared as JSON; in a list one matching element is enough. A leading ``!``
            negates a pattern: the value does not match, or is missing. The rule applies to a call if all patterns
            hold.

    Raises:
        UsageError: No pattern, or an unknown name.
    """

    tool: Pattern
    arguments: dict[Pattern, Pattern] = Field(default_factory=dict)


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
        private_hosts: Whether URL arguments may name private, loopback or link-local hosts. Metadata services of
            clouds, which give credentials to any caller, are never allowed.

    Raises:
        UsageError: A value that is not a list of patterns, or an unknown name.

    Source: the specification in docs/spec-coverage.md, on policies and on "Security Considerations".
    """

    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()
    task_types: dict[str, tuple[Pattern, ...]] = Field(default_factory=dict)
    approvals: tuple[Pattern | ApprovalRule, ...] = ()
    approval_valid_s: float = Field(default=3600, gt=0, le=31_536_000, allow_inf_nan=False)
    url_schemes: tuple[Pattern, ...] = ("http", "https")
    private_hosts: bool = False
    file_roots: tuple[Annotated[str, Field(pattern=r"^/[^\x00]*$")], ...] = ()
