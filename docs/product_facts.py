"""
Facts about the product that pages repeat: commands, extras, stores. Each list comes from the product itself.

``docs/generate.py`` writes the marked parts from here, and ``tests/project/test_docs.py`` holds hand-written sentences to the
same lists.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from paor.cli import _group

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = ("dev", "docs")
"""Extras that users do not need."""

EXTRAS = {
    "documents": "reads PDF, Office, HTML and RTF files",
    "workflow": "reads workflow files",
    "mcp": "uses tools of MCP servers, and is one (`paor mcp`)",
    "web": "searches, scrapes and crawls",
    "openai": "asks OpenAI's models and servers like them",
    "anthropic": "asks Anthropic's models",
    "otel": "sends traces by OpenTelemetry",
    "test": "adds pytest for the plugin",
    "fuzz": "adds hypothesis for `paor fuzz`",
    "postgres": "keeps journals in PostgreSQL",
    "temporal": "lets Temporal place runs",
    "sign": "signs heads",
    "inspect": "serves `paor inspect`",
    "all": "has them all",
}
"""What each extra does; the names are those of ``pyproject.toml``."""

STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
"""How pages name the stores of a journal, by the folder under ``src/paor/fsm/journal`` that has a schema."""


def commands() -> list[str]:
    """Return the names of paor's commands in the order of ``paor --help``."""
    group = _group()
    return group.list_commands(click.Context(group))


def extras() -> list[str]:
    """Return the extras for users, in the order of ``pyproject.toml``."""
    return [name for name in PROJECT["optional-dependencies"] if name not in FOR_DEVELOPERS]


def stores() -> list[str]:
    """Return the stores of a journal, as pages name them."""
    schemas = (ROOT / "src" / "paor" / "fsm" / "journal").glob("*/schema.sql")
    return [STORES[path.parent.name] for path in sorted(schemas, reverse=True)]


def command_names() -> str:
    """Return a sentence with every command."""
    listed = ", ".join(f"`{name}`" for name in commands())
    return f"{listed}; each has `--help`, `--json` and `--journal`."


def extras_list() -> str:
    """Return a sentence with every extra and what it does."""
    return "; ".join(f"`{name}` {EXTRAS[name]}" for name in extras()) + "."


def facts_table() -> str:
    """Return a table of this version's stores, extras and commands."""
    rows = {
        "version": f"{PROJECT['version']}, Python {PROJECT['requires-python']}",
        "journals in": ", ".join(stores()),
        "extras": ", ".join(f"`{name}`" for name in extras()),
        "commands": ", ".join(f"`{name}`" for name in commands()),
    }
    return "\n".join(
        ["| paor | has |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows.items())]
    )
