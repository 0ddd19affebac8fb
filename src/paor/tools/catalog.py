"""The tools that one run is offered: found by name, and shown in a line each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    def lines(self, tools: Iterable[ToolSpec] | None = None, form: str = "names") -> list[str]:
        """
        Return the catalog, one line per tool.

        Args:
            tools: Some of its tools; all by default.
            form: ``names`` of tools and parameters, ``described`` with a line of description, ``auto`` described while
                all lines together have at most `DESCRIBED_CHARS` characters.
        """
        names = [self.line(tool) for tool in (self if tools is None else tools)]
        if form == "names":
            return names
        about = [" ".join(tool.description.split()) for tool in (self if tools is None else tools)]
        told = [
            f"{line}: {cut_line(words)}" if words else line for line, words in zip(names, about, strict=True)
        ]
        return told if form == "described" or sum(map(len, told)) <= DESCRIBED_CHARS else names


DESCRIBED_CHARS = 2_000
"""Most characters of a described catalog that is chosen by itself; the documents want a small prompt."""

DESCRIPTION_CHARS = 160


def cut_line(text: str) -> str:
    """Return the beginning of a description: its first sentence if that is short enough."""
    first = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    return first if len(first) <= DESCRIPTION_CHARS else first[: DESCRIPTION_CHARS - 1] + "…"
