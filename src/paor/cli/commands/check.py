"""`paor check`: what can be proven of an engine before it has run, and what is wrong with it."""

from __future__ import annotations

import click

from ...fsm.check.checker import MODES
from ...fsm.check.checker import check as examined
from ...fsm.check.findings import Check, Finding, Path
from ...fsm.engine import Engine
from ...fsm.journal_api import Journal
from ..support.app import engine_of
from ..support.options import app_option, command
from ..support.streams import OK, USAGE, say, say_json, tell
from ..support.text import count


@command(
    "check", "paor check", "paor check --app shop:engine", "paor check --app shop:engine --mode react --json"
)
@app_option()
@click.option("--mode", type=click.Choice(MODES), help="Explore the runs of one mode; default all three.")
def check(app: str | None, mode: str | None, journal: str, as_json: bool) -> int:
    """
    Check an engine: its policy, and by exhaustive exploration its machine.

    Of the policy: rules that can never fire; tools that it keeps from every run are noted. Of the machine, with the engine's limits:
    every phase is reached and can reach an end, whatever comes back is taken by one row, no row is useless, every loop
    uses up a bound, Done follows a review, and nothing is executed unchecked. Without --app the engine of the command line
    is checked. Nothing is run, and no journal is opened.

    Exit codes: 0 nothing found; 2 with a line for each finding, and below it a walk that shows it.
    """
    with Journal(":memory:") as nowhere:
        engine = engine_of(app, nowhere) if app is not None else Engine("offline", journal=nowhere)
        found = examined(engine, modes=MODES if mode is None else (mode,))
        tools = len(engine.tools)
    if as_json:
        say_json({**found.wire(), "tools": tools})
        return OK if found.ok else USAGE
    for finding in found.findings:
        say(str(finding), *_walk(finding))
    for note in found.notes:
        say(f"note  {note}")
    if not found.ok:
        explored = f"{found.states:,} states and {found.edges:,} edges explored"
        tell(f"paor check: {count(len(found.findings), 'finding')}; {explored}")
        return USAGE
    usable = f"{count(tools - len(found.notes), 'tool')} of {tools}" if found.notes else "every tool"
    say(f"ok  policy and {count(tools, 'tool')}: every rule can fire, {usable} can be used")
    say(*_proven(found))
    return OK


def _proven(found: Check) -> list[str]:
    """Return the lines on the machine: what was explored, and what was cut."""
    lines = [
        f"ok  machine: {found.states:,} states, {found.edges:,} edges; every run ends, no loop without a bound"
    ]
    for world in found.worlds:
        lines.append(f"    {world.world}: {world.states:,} states, {world.edges:,} edges")
    beyond = {name: value for world in found.worlds for name, value in world.beyond.items()}
    if beyond:
        message = ", ".join(f"{name} {value:,}" for name, value in sorted(beyond.items()))
        lines.append(f"    for limits of any size by saturation: {message}")
    if found.unused:
        lines.append(f"    with these limits never taken: {', '.join(found.unused)}")
    return lines


def _walk(finding: Finding) -> list[str]:
    """Return the steps of the walk that shows a finding."""
    path = finding.path
    return [_line(path, number) for number in range(len(path.steps))] if path is not None else []


def _line(path: Path, number: int) -> str:
    step = path.steps[number]
    taken = f"{step.trigger} -> {step.dest}" if step.trigger else "nothing"
    held = [name if value else f"not {name}" for name, value in sorted(step.guards.items())]
    again = "  (the loop begins)" if path.loop == number else ""
    return f"  {number} {step.phase}: {step.move['move']}: {taken}  [{', '.join(held)}]{again}"
