"""`paor validate`: what is wrong with a plan or workflow file, each defect with its place."""

from __future__ import annotations

import click

from ...fsm.workflow.source import CHARS_MAX
from ...fsm.workflow.validate import Kind, Report
from ...fsm.workflow.validate import validate as check
from ...tools.catalog import Catalog
from ..support.app import tools_of
from ..support.json_input import standard_input, text_file
from ..support.options import app_option, command
from ..support.streams import OK, USAGE, say, say_json, tell
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
@click.option("--kind", type=click.Choice(["plan", "workflow"]), help="Default: what its keys say.")
@app_option("Check against its tools.")
def validate(file: str, kind: Kind | None, app: str | None, journal: str, as_json: bool) -> int:
    """
    Check a plan or workflow file, and list every defect with its line and column.

    FILE is YAML or JSON; - reads standard input. Nothing in it is executed. Tool names and arguments are checked only
    with --app, against the tools that it has.

    Exit codes: 0 it can be used, warnings or not; 2 with a line for each defect.
    """
    name = "standard input" if file == "-" else file
    text = standard_input(BYTES_MAX) if file == "-" else text_file(file, BYTES_MAX)
    catalog = Catalog([tool.spec() for tool in tools_of(app)]) if app is not None else None
    report = check(text, kind=kind, tools=catalog)
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
