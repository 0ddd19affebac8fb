"""``--mcp``: tools of MCP servers on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import click

from ...states.base.errors import ToolError, UsageError
from ...tools.tool import Tool
from .options import Decorator, option
from .streams import tell
from .text import one_line

MCP_OPTIONS: tuple[Decorator, ...] = (
    option(
        "--mcp",
        "COMMAND|URL",
        "Offer the tools of an MCP server; starts the command, without a shell. Repeatable.",
        multiple=True,
    ),
    option("--mcp-env", "NAME", "Environment variable to pass to the command.", multiple=True),
    option(
        "--mcp-header",
        "NAME=VARIABLE",
        "Header for the URL, its value from an environment variable.",
        multiple=True,
    ),
    click.option("--mcp-trust", is_flag=True, help="Trust the servers' hints about the effects of tools."),
)


@contextmanager
def mcp_offered(
    servers: Sequence[str], env: Sequence[str], headers: Sequence[str], *, trust: bool
) -> Iterator[tuple[Tool, ...]]:
    """
    Connect to the servers and yield their tools; the connections end with the block.

    Args:
        servers: Commands and URLs.
        env: Names of variables that the one command is given.
        headers: ``NAME=VARIABLE``: headers of the one URL, with the variables that hold their values.
        trust: Whether the servers' own hints on effects count.

    Raises:
        MissingExtra: The extra is not installed.
        UsageError: The options do not fit together, or a server cannot be used.
    """
    urls = sum(_is_url(target) for target in servers)
    if env and len(servers) - urls != 1:
        raise UsageError("--mcp-env comes with one --mcp command: no server gets another one's secrets")
    if headers and urls != 1:
        raise UsageError("--mcp-header comes with one --mcp URL: no server gets another one's secrets")
    if trust and not servers:
        raise UsageError("--mcp-trust comes with --mcp")
    if not servers:
        yield ()
        return
    from ...tools.mcp.toolset import McpServer

    offered: list[Tool] = []
    prefixes: set[str] = set()
    with ExitStack() as stack:
        for target in servers:
            if _is_url(target):
                secrets = {"headers": _headers(headers)}
            else:
                secrets = {"env": {name: _variable(name, "--mcp-env") for name in env}}
            try:
                server = stack.enter_context(McpServer(target, trust_annotations=trust, **secrets))
                tools = server.tools()
                first, number = server.prefix, 2
                while server.prefix.lower() in prefixes:
                    tools = server.rename(f"{first}_{number}")
                    number += 1
            except ToolError as error:
                raise UsageError(f"--mcp {one_line(target)}: {error}") from None
            except UsageError as error:
                if not str(error).startswith("McpServer: "):
                    raise
                words = str(error).removeprefix("McpServer: ")
                raise UsageError(f"--mcp {one_line(target)!a}: {words}") from None
            prefixes.add(server.prefix.lower())
            offered += tools
            for name, reason in server.skipped.items():
                tell(
                    f"paor: --mcp {server.prefix}: the tool {one_line(name)} is left out: {one_line(reason)}"
                )
        yield tuple(offered)


def _is_url(target: str) -> bool:
    return target.lower().startswith(("http://", "https://"))


def _headers(given: Sequence[str]) -> dict[str, str]:
    headers = {}
    for item in given:
        name, mark, variable = item.partition("=")
        if not (name and mark and variable):
            raise UsageError(
                f"--mcp-header {one_line(name)}: expected NAME=VARIABLE, such as Authorization=MY_TOKEN"
            )
        headers[name] = _variable(variable, "--mcp-header")
    return headers


def _variable(name: str, option: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise UsageError(f"{option} {one_line(name)}: there is no such variable in the environment")
    return value
