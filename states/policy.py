"""What a host allows, as data; `tools.policy` decides with it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .settings import Settings

Pattern = Annotated[str, Field(min_length=1)]
"""An empty one, as a configuration that was split may hold, would match nothing: deny nothing, or allow nothing."""


class Policy(Settings):
    """
    Which tools a run may use; deny wins over the task type, which wins over the run's own tools list.

    Patterns are tool names with ``*`` for any run of characters: ``web.*``, ``*.delete``.

    Attributes:
        allow: Patterns; empty allows every tool that is offered.
        deny: Patterns that are never executed, whatever else allows them.
        task_types: For a task type, the patterns it may use; a type that is not listed here is not restricted.
        approvals: Patterns that need a typed approval before each call.
        url_schemes: Schemes a URL argument may have.
        private_hosts: Whether URL arguments may name private, loopback or link-local hosts.

    Raises:
        UsageError: Something that is no list of patterns, or an unknown name.

    Source: SPEC A043, A044, D21; document 002, section "Security Considerations".
    """

    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()
    task_types: dict[str, tuple[Pattern, ...]] = Field(default_factory=dict)
    approvals: tuple[Pattern, ...] = ()
    url_schemes: tuple[Pattern, ...] = ("http", "https")
    private_hosts: bool = False
