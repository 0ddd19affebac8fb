"""
A server made with the SDK that asks in the way of protocol 2026-07-28: ``python mcp_modern_server.py EFFECTS [PORT]``.

With a port it serves streamable HTTP there instead of standard input and output.
"""

from __future__ import annotations

import sys
from typing import Annotated

from mcp.server.mcpserver import Elicit, ElicitationResult, MCPServer, Resolve
from pydantic import BaseModel

server = MCPServer("modern", version="1")


class Confirm(BaseModel):
    """What is asked."""

    ok: bool
    note: str = ""


class Colour(BaseModel):
    """What is asked next."""

    colour: str


class Sum(BaseModel):
    """A result with a schema."""

    total: int


def effect(what: str) -> None:
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(f"{what}\n")


def ask(path: str) -> Elicit[Confirm]:
    return Elicit(f"Delete {path}?", Confirm)


def ask_colour(path: str) -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def delete(path: str, answer: Annotated[ElicitationResult[Confirm], Resolve(ask)]) -> str:
    """Delete a file, after asking."""
    effect(f"delete {path}")
    return f"{answer.action} {path} {getattr(getattr(answer, 'data', None), 'note', '')}"


@server.tool()
def paint(
    path: str,
    answer: Annotated[ElicitationResult[Confirm], Resolve(ask)],
    colour: Annotated[ElicitationResult[Colour], Resolve(ask_colour)],
) -> str:
    """Paint, after asking two things."""
    effect(f"paint {path}")
    return f"{answer.action} {getattr(getattr(colour, 'data', None), 'colour', '')}"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run()
