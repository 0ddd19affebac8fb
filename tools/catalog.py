"""The tools that one run is offered: found by name, shown as names and parameter names only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from ..states.base.errors import UsageError
from ..states.run.spec import ToolSpec
from .schema.parameters import ParameterSchema, SchemaError

_SEPARATORS = re.compile(r"[._:/-]+")

DOCUMENT_LIST = "documentList"
CONNECTION = "connectionReference"
RESOLVED = (DOCUMENT_LIST, CONNECTION)
"""Parameters whose values come from Stage 1's references, never from Stage 2."""


@lru_cache(maxsize=4096)
def fold_name(name: str) -> str:
    """Return the key under which ``web.fetch``, ``web_fetch`` and ``web:fetch`` are one tool."""
    return _SEPARATORS.sub(".", name.strip()).lower()


@lru_cache(maxsize=1024)
def _compile(schema: bytes) -> ParameterSchema:
    """Return a schema from its JSON text, compiled once: runs, resumes and replays all begin with a catalog."""
    return ParameterSchema(orjson.loads(schema))


def compiled_schema(schema: Mapping[str, Any]) -> ParameterSchema:
    """
    Return *schema* compiled, the same value for the same text.

    Raises:
        SchemaError: It is not JSON Schema.
    """
    try:
        text = orjson.dumps(schema)
    except TypeError:  # not JSON as it stands, or nested too deep: the compiler knows what to say
        return ParameterSchema(schema)
    return _compile(text) if orjson.loads(text) == schema else ParameterSchema(schema)


class Catalog:
    """
    Tools by name, with their compiled schemas.

    Args:
        tools: In the order in which they are offered.

    Raises:
        UsageError: Two tools that only differ in separators.
        SchemaError: A schema that is not JSON Schema.
    """

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools: dict[str, ToolSpec] = {}
        self._named = {tool.name: tool for tool in tools}
        self._schemas: dict[str, ParameterSchema] = {}
        for tool in tools:
            key = fold_name(tool.name)
            if key in self._tools:
                raise UsageError(f"tools {self._tools[key].name} and {tool.name} have the same name")
            self._tools[key] = tool
            try:
                self._schemas[tool.name] = compiled_schema(tool.parameters)
            except SchemaError as error:
                raise SchemaError(f"tool {tool.name}: {error}") from None

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def find(self, name: str) -> ToolSpec | None:
        """Return the tool called *name*, in any of its spellings, or None."""
        return self._named.get(name) or self._tools.get(fold_name(name))

    def schema(self, tool: ToolSpec) -> ParameterSchema:
        """Return the compiled schema of a tool of this catalog."""
        return self._schemas[tool.name]

    def line(self, tool: ToolSpec) -> str:
        """Return ``method.name(first,second)``: names only, no types and no descriptions."""
        return f"{tool.name}({','.join(self.schema(tool).names)})"

    def lines(self) -> list[str]:
        """Return the tiny catalog, one line per tool."""
        return [self.line(tool) for tool in self]
