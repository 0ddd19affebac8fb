"""`paor check`: what can be proven wrong about an engine before it has run."""

from __future__ import annotations

import click

from ._cli_app import APP_HELP, engine_of
from ._cli_io import OK, USAGE, command, say, say_json, tell
from ._cli_text import count
from .fsm.engine import Engine
from .fsm.journal import Journal
from .fsm.policy_check import policy_findings


@command("check", "paor check", "paor check --app shop:engine", "paor check --app shop:engine --json")
@click.option("--app", metavar="MODULE:ENGINE", help=APP_HELP)
def check(app: str | None, journal: str, as_json: bool) -> int:
    """
    Check an engine: rules of its policy that can never fire, and tools that no run can ever use.

    Without --app the engine of the command line is checked. Nothing is run, and no journal is opened.

    Exit codes: 0 nothing found; 2 with a line for each finding.
    """
    with Journal(":memory:") as nowhere:
        engine = engine_of(app, nowhere) if app is not None else Engine("offline", journal=nowhere)
        specs = [tool.spec() for tool in engine.tools]
        findings = policy_findings(engine.policy, specs)
    if as_json:
        say_json({"findings": [item.wire() for item in findings], "ok": not findings, "tools": len(specs)})
        return USAGE if findings else OK
    say(*map(str, findings))
    if findings:
        tell(f"paor check: {count(len(findings), 'finding')}")
        return USAGE
    say(f"ok  policy and {count(len(specs), 'tool')}: every rule can fire, every tool can be used")
    return OK
