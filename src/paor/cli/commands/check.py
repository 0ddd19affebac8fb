"""`paor check` and `paor validate`: what is wrong with an engine, a plan or a workflow, before it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pprint import pformat
from typing import TYPE_CHECKING, Annotated, Any, cast

import click

from ...fsm.check.checker import MODES
from ...fsm.check.checker import check as examined
from ...fsm.check.findings import Check, Finding
from ...fsm.machine.machine import Machine
from ...fsm.machine.updates import CHANGES
from ...fsm.replay.happened import broken_rows, known_machines, recorded_properties
from ...fsm.workflow.source import CHARS_MAX
from ...fsm.workflow.validate import Kind, Report
from ...fsm.workflow.validate import validate as validated
from ...states.base.errors import Erased, UsageError
from ...tools.catalog import Catalog
from ..support import terminal as io
from ..support.app import engine_alone
from ..support.journals import reading
from ..support.json_input import standard_input, text_file
from ..support.options import APP, YOURS, App, command, journal_given

if TYPE_CHECKING:
    from ...fsm.check.bounded_specs import Form


@command(
    "paor check",
    "paor check --app shop:engine --mode react --json",
    "paor check --app shop:engine --never 'pay.* without approval'",
    "paor check --journal runs.db --always 'refund.* before mail.send'",
)
def check(
    app: App,
    mode: Annotated[
        str | None,
        "--mode",
        "Explore the runs of one mode, or native ones; default all.",
        {"type": click.Choice(MODES)},
    ],
    never: Annotated[
        tuple[str, ...], "--never PROPERTY", "What no run may do: A, or A without [ever] B; repeatable."
    ],
    always: Annotated[
        tuple[str, ...], "--always PROPERTY", "What comes before what: B before A; repeatable."
    ],
    journal: str,
) -> int:
    """
    Check an engine: its policy, and by exhaustive exploration its machine; or the runs of a journal.

    Policy: it finds rules that can never fire, and notes tools that no run can use. Machine, with the engine's
    limits: every phase is reached and can reach an end, every outcome has a row, no row is useless, every loop
    has a limit, Done follows a review, and nothing is executed unchecked. Of a machine of your own this holds whatever
    its guards say; its functions are called, too, and may neither raise nor change anything. Without --app the
    engine of the command line is checked. Nothing is run, and no journal is opened.

    A and B of a property are phases, triggers, guards and patterns of tools, B of a tool's call also approval. A without B: A
    is never entered, taken or called unless B was since the last call with an effect. A property that does not hold
    is shown with a shortest run that breaks it, as rows and as a pytest case. With --journal the properties are held to its
    runs, and nothing else is checked.

    Exit codes: 0 nothing found; 1 with a line for each finding, and below it a path that leads to it; 2 for a property
    or an option that is none.
    """
    if journal_given():
        if not never and not always:
            raise UsageError("check --journal holds its runs to --never and --always: give one of them")
        return _recorded(app, never, always, journal)
    with engine_alone(app) as engine:
        modes = MODES if mode is None else (cast("Form", mode),)
        found = examined(engine, modes=modes, never=never, always=always)
        tools, machine = len(engine.tools), engine.machine
    cases = {item.place: _test_of(app, item) for item in found.findings if item.code == "forbidden"}
    data = {**found.wire(), "machine": _own_parts(machine), "tools": tools}
    held = [f"ok  never {text}" for text in never] + [f"ok  always {text}" for text in always]
    lines = _lines(found, cases) if not found.ok else [*_proven(found, tools), *_own_lines(machine), *held]
    explored = f"{found.states:,} states and {found.edges:,} edges explored"
    notes = [f"paor check: {io.count(len(found.findings), 'finding')}; {explored}"] if not found.ok else []
    data |= {"tests": cases} if cases else {}
    return io.say_either(data, lines, *notes, code=io.OK if found.ok else io.RUN_FAILED)


def _lines(found: Check, cases: Mapping[str, str]) -> Iterator[str]:
    """Yield each finding with the steps of the walk that shows it, and its case for pytest."""
    for finding in found.findings:
        yield str(finding)
        for number, step in enumerate(finding.path.steps if finding.path is not None else ()):
            taken = f"{step.trigger} -> {step.dest}" if step.trigger else "nothing"
            held = [name if value else f"not {name}" for name, value in sorted(step.guards.items())]
            again = "  (the loop begins)" if finding.path is not None and finding.path.loop == number else ""
            call = f" of {step.move['as'][0]}" if "as" in step.move else ""
            yield f"  {number} {step.phase}: {step.move['move']}{call}: {taken}  [{', '.join(held)}]{again}"
        if finding.code == "forbidden":
            yield from ("", cases[finding.place])
    yield from (f"note  {note}" for note in found.notes)


def _recorded(app: str | None, never: Sequence[str], always: Sequence[str], path: str) -> int:
    """Hold the runs of a journal to properties."""
    with reading(path) as journal:
        machines, tools = known_machines(journal.reader)
        if app is not None:
            with engine_alone(app) as engine:
                machines, tools = [engine.machine], {tool.name for tool in engine.tools}
        held = recorded_properties(machines, tools, never, always)
        broken, unknown, runs = list[dict[str, Any]](), list[str](), journal.runs()
        for run in runs:
            try:
                for prop, row in broken_rows(journal.reader, run.run_id, held):
                    place = {"run_id": run.run_id, "seq": row.seq, "property": prop.text}
                    broken.append({**place, "row": f"{row.source}.{row.trigger}", "dest": row.dest})
            except Erased:
                unknown.append(run.run_id)
    lines = ["{run_id} row {seq}: {row} to {dest} breaks: {property}".format(**item) for item in broken]
    lines += [f"note  {run_id}: what it called is erased, so nothing is known of it" for run_id in unknown]
    in_runs, notes = f"in {io.count(len(runs), 'run')}", []
    if broken:
        notes.append(f"paor check: {io.count(len(broken), 'broken property')} {in_runs}")
    else:
        lines += [f"ok  {prop.text}: {in_runs}" for prop in held]
    data = {"ok": not broken, "runs": len(runs), "broken": broken, "erased": unknown}
    return io.say_either(data, lines, *notes, code=io.RUN_FAILED if broken else io.OK)


def _test_of(app: str | None, finding: Finding) -> str:
    """Return the walk of a broken property as a pytest case."""
    name = re.sub(r"\W+", "_", finding.place.replace("*", "any")).strip("_").lower()
    made = "machine = Machine.standard()"
    if app is not None:
        module, _, attribute = app.partition(":")
        made = (
            f"found = import_module({module!r}).{attribute}\n"
            '    with Journal(":memory:") as journal:\n'
            "        machine = (found if isinstance(found, Engine) else found(journal)).machine"
        )
    needs, before, happens = finding.place.partition(" before ")
    never = f"{happens} without ever {needs}" if before else finding.place
    assert finding.path is not None, "a broken property has its walk"
    # of a step only what came back: the rest follows, or does no longer
    path = {"world": finding.path.world, "steps": [{"move": step.move} for step in finding.path.steps]}
    shown = pformat(path, width=110, sort_dicts=False)
    return _TEST.format(name=name, made=made, text=never, path=shown)


_TEST = '''from importlib import import_module

from paor import Engine, Journal, Machine
from paor.machine import breaks


def test_never_{name}() -> None:
    """A walk that `paor check` found no longer does what never happens."""
    {made}
    assert not breaks(machine, {text!r}, PATH)


PATH = {path}
'''


def _own_parts(machine: Machine) -> dict[str, list[str]]:
    """Return the names of what a host's own machine has more than the standard one."""
    rows = (row for row in machine.rows if row.host and (row.source, row.trigger) not in CHANGES)
    return {
        "guards": sorted(machine.host.guards),
        "phases": list(machine.host.phases),
        "rows": list(dict.fromkeys(f"{row.source}.{row.trigger}" for row in rows)),
    }


def _own_lines(machine: Machine) -> Iterator[str]:
    """Yield the lines on a host's own machine: what was taken as it may be, and what of it was called."""
    parts = _own_parts(machine)
    if not any(parts.values()):
        return
    bounds = {f"{row.source}.{row.trigger}": row.at_most for row in machine.rows if row.at_most}
    rows = [f"{name} (at most {bounds[name]:,})" if name in bounds else name for name in parts["rows"]]
    yield "    own machine, proven for whatever its guards say:"
    for name, told in (("phases", parts["phases"]), ("rows", rows), ("guards", parts["guards"])):
        if told:
            yield f"      {name}: {', '.join(told)}"


def _proven(found: Check, tools: int) -> Iterator[str]:
    """Yield the lines on a sound engine: its policy, what of its machine was explored, and what was cut."""
    yield from (f"note  {note}" for note in found.notes)
    unused = sum(note.code == "never_allowed" for note in found.notes)
    usable = f"{io.count(tools - unused, 'tool')} of {tools}" if unused else "every tool"
    yield f"ok  policy and {io.count(tools, 'tool')}: every rule can fire, {usable} can be used"
    explored = f"{found.states:,} states, {found.edges:,} edges"
    yield f"ok  machine: {explored}; every run ends, no loop without a bound, no call past policy and approval"
    for world in found.worlds:
        yield f"    {world.world}: {world.states:,} states, {world.edges:,} edges"
    beyond = {name: value for world in found.worlds for name, value in world.beyond.items()}
    if beyond:
        message = ", ".join(f"{name} {value:,}" for name, value in sorted(beyond.items()))
        yield f"    for limits of any size by saturation: {message}"
    if found.unused:
        yield f"    with these limits never taken: {', '.join(found.unused)}"


BYTES_MAX = 4 * CHARS_MAX
"""Most bytes that are read of a file; UTF-8 has at most four for a character."""


@command(
    "paor validate plan.yaml",
    "paor validate - --kind plan --json",
    "paor validate flow.yaml --app shop:engine",
)
def validate(
    file: Annotated[str, "FILE"],
    kind: Annotated[Kind | None, "--kind", "Of the file; by default its keys decide."],
    app: Annotated[str | None, APP, f"Check against its tools. {YOURS}"],
    journal: str,
) -> int:
    """
    Check a plan or workflow file, and list every defect with its line and column.

    FILE is YAML or JSON; - reads standard input. Nothing in it is executed. Tool names and arguments are checked only
    with --app, against the tools that it has.

    Exit codes: 0 it can be used, warnings or not; 2 with a line for each defect.
    """
    name = "standard input" if file == "-" else file
    text = standard_input(BYTES_MAX) if file == "-" else text_file(file, BYTES_MAX)
    catalog = None
    if app is not None:
        with engine_alone(app) as engine:
            catalog = Catalog([tool.spec() for tool in engine.tools])
    report = validated(text, kind=kind, tools=catalog)
    defects = [item.wire() for item in report.defects]
    errors, shown = sum(item.severity == "error" for item in report.defects), io.one_line(name)
    lines = [f"{shown}:{item}" for item in report.defects]
    lines += [] if errors else [f"{shown}: {_summary(report)}"]
    notes = [f"paor validate: {shown}: {io.count(errors, 'error')}"] if errors else []
    data = {"file": name, "kind": report.kind, "ok": report.ok, "defects": defects}
    return io.say_either(data, lines, *notes, code=io.USAGE if errors else io.OK)


def _summary(report: Report) -> str:
    """Return what a usable file is."""
    if report.plan is not None:
        return f"a plan with {io.count(len(report.plan.steps), 'step')}, ok"
    tasks = list(report.workflow.walk()) if report.workflow is not None else []
    return f"a workflow with {io.count(sum(not task.tasks for task in tasks), 'task')}, ok"
