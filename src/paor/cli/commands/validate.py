"""`paor validate`: what is wrong with a plan or workflow file, each defect with its place."""

from __future__ import annotations

import sys

import click

from ...fsm.journal_api import Journal
from ...fsm.workflow.source import CHARS_MAX
from ...fsm.workflow.validate import Kind, Report
from ...fsm.workflow.validate import validate as check
from ...states.base.errors import UsageError
from ...tools.catalog import Catalog
from ..support.app import APP_HELP, engine_of
from ..support.streams import OK, USAGE, command, reason, say, say_json, tell
from ..support.text import count, one_line

BYTES_MAX = 4 * CHARS_MAX
"""Most bytes that are read of a file; UTF-8 has at most four for a character."""


@command(
    "validate",
    "paor validate plan.yaml",
    "paor validate - --kind plan --json",
    "paor validate flow.yaml --app shop:engine",
)
@click.argument("file")
@click.option(
    "--kind", type=click.Choice(["plan", "workflow"]), help="Kind of the file; by default its keys decide."
)
@click.option("--app", metavar="MODULE:ENGINE", help=f"Check against its tools. {APP_HELP}")
def validate(file: str, kind: Kind | None, app: str | None, journal: str, as_json: bool) -> int:
    """
    Check a plan or workflow file, and list every defect with its line and column.

    FILE is YAML or JSON; - reads standard input. Nothing in it is executed. Tool names and arguments are checked only
    with --app, against the tools that it has.

    Exit codes: 0 it can be used, warnings or not; 2 with a line for each defect.
    """
    name = "standard input" if file == "-" else file
    report = check(_text(file), kind=kind, tools=_catalog(app))
    if as_json:
        defects = [item.wire() for item in report.defects]
        say_json({"file": name, "kind": report.kind, "ok": report.ok, "defects": defects})
        return OK if report.ok else USAGE
    say(*(f"{one_line(name)}:{item}" for item in report.defects))
    errors = sum(item.severity == "error" for item in report.defects)
    if errors:
        tell(f"paor validate: {one_line(name)}: {count(errors, 'error')}")
        return USAGE
    say(f"{one_line(name)}: {_summary(report)}")
    return OK


def _summary(report: Report) -> str:
    """Return what a usable file is."""
    if report.plan is not None:
        return f"a plan with {count(len(report.plan.steps), 'step')}, ok"
    tasks = list(report.workflow.walk()) if report.workflow is not None else []
    return f"a workflow with {count(sum(not task.tasks for task in tasks), 'task')}, ok"


def _catalog(app: str | None) -> Catalog | None:
    if app is None:
        return None
    with Journal(":memory:") as nowhere:
        return Catalog([tool.spec() for tool in engine_of(app, nowhere).tools])


def _text(file: str) -> str:
    """
    Return the text of a file, or of standard input for ``-``.

    Raises:
        UsageError: It is missing, unreadable, larger than can be used, or not UTF-8.
    """
    name = "standard input" if file == "-" else file
    try:
        if file == "-":
            data = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with open(file, "rb") as opened:
                data = opened.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}: cannot be read ({reason(error)})") from None
    if len(data) > BYTES_MAX:
        raise UsageError(f"{name}: is larger than {BYTES_MAX:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: is not UTF-8 text") from None
