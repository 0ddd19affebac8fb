"""`paor diagram`: the machine, a run, a coverage, or the difference of two runs, as a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from ...fsm.diagrams.graph import Overlay
from ...fsm.diagrams.overlays import coverage_of, difference_of, drawn, joined, machine_walked, walk
from ...fsm.explain.coverage import Coverage
from ...fsm.machine.machine import MACHINE
from ...states.base.errors import UsageError
from ..support import terminal as io
from ..support.app import engine_alone
from ..support.journals import find_run, reading, two_runs
from ..support.json_input import text_file
from ..support.options import APP, YOURS, Other, Output, command

SEVERAL = "add them up with --coverage, or compare two with: paor diagram A --diff B"
FILE_ENDING = ".json"
"""What tells a coverage file from a run."""


@command(
    "paor diagram --format svg --output machine.svg",
    "paor diagram last",
    "paor diagram --coverage all --format svg --output coverage.svg",
    "paor diagram --coverage coverage.json",
    "paor diagram last~1 --diff last",
    "paor diagram --app shop:engine --format svg --output shop.svg",
)
def diagram(
    names: Annotated[tuple[str, ...], "[RUN]..."],
    form: Annotated[
        Literal["mermaid", "dot", "svg", "json"],
        "--format",
        "Default mermaid; json: the machine as data, see Machine.to_dict.",
        {"default": "mermaid"},
    ],
    covers: Annotated[bool, "--coverage", "What the RUNs have covered of the machine."],
    second: Annotated[str | None, "--diff B", "How RUN and the run B differ."],
    app: Annotated[str | None, APP, f"{YOURS} Its machine is drawn."],
    other: Other,
    output: Output,
    journal: str,
) -> int:
    """
    Draw the state machine, or what runs did on it.

    Without RUN it draws the standard machine, or with --app the machine of your engine, and reads no journal. With
    RUN it draws the path of that run on the machine that it has: how often it took each edge, and in which order.
    Phases and rows that a host has added stand out. --coverage draws what several runs have covered (without RUN, or with the word
    all, every run of the journal): rows never taken and guard outcomes never seen stand out. With it a RUN that
    ends in .json is a coverage file, as --json of this command and the pytest plugin write it; several are added
    up. --diff draws where two runs differ, and why. With --format json the machine itself is printed, in the form that
    the markup extension of transitions has.

    Exit codes: 0 drawn, 2 no such run, file or engine, or nothing to draw, 4 a row cannot be read.
    """
    of_run = bool(names) and not covers
    pictures = "--coverage and --diff are two pictures: draw one after the other"
    of_engine = "--app draws the machine of an engine: a run is drawn on the machine that it has"
    io.unless_wrong(
        (covers and (second or other), pictures),
        (other and not second, "--other names the journal of the run that --diff names"),
        (of_run and len(names) > 1, f"{len(names)} runs: {SEVERAL}"),
        (second and not names, "--diff needs the run to compare with: paor diagram A --diff B"),
        (app and (second or of_run), of_engine),
        (
            form == "json" and (covers or second),
            "--format json is the machine: it goes with RUN or --app alone",
        ),
    )
    overlay: Overlay | None = None
    machine = MACHINE
    if app is not None:
        with engine_alone(app) as engine:
            machine = engine.machine
    data: dict[str, Any] = {"run_id": None}
    if covers:
        overlay, coverage = _coverage_overlay(names, journal)
        data |= {"coverage": coverage.wire(), "percent": coverage.percent}
    elif second is not None:
        with two_runs(journal, names[0], second, other) as (opened, one, another, two):
            overlay, found = difference_of(opened.reader, one.run_id, two.run_id, another.reader)
            walked = machine_walked(opened.reader, one.run_id), machine_walked(another.reader, two.run_id)
            machine = joined(*walked)
        data = {"run_id": one.run_id, "diff": found.wire()}
    elif names:
        with reading(journal) as opened:
            data["run_id"] = find_run(opened, names[0]).run_id
            overlay = walk(opened.reader, data["run_id"])
            machine = machine_walked(opened.reader, data["run_id"])
    if form == "json":
        io.say_or_write(
            output, [(json.dumps(machine.to_dict(), ensure_ascii=False, indent=2) + "\n").encode()]
        )
        return io.OK
    text = drawn(form, overlay, machine)
    if output is not None or not io.wants_json():
        io.say_or_write(output, [text.encode()])
    if io.wants_json():
        io.say_json(data | {"format": form, "diagram": text})
    return io.OK


def _coverage_overlay(names: Sequence[str], journal: str) -> tuple[Overlay, Coverage]:
    """Return the sum of the files and of the runs that are named."""
    runs = [name for name in names if not name.endswith(FILE_ENDING)]
    found = [_from_file(name) for name in names if name.endswith(FILE_ENDING)]
    if runs or not found:
        with reading(journal) as opened:
            everything = not runs or "all" in runs
            ids = None if everything else [find_run(opened, name).run_id for name in runs]
            found.append(coverage_of(opened.reader, ids))
    total = sum(found[1:], start=found[0])
    if not total.transitions:
        raise UsageError("nothing to draw: not one transition was recorded")
    return total.tables[0], total


def _from_file(name: str) -> Coverage:
    """Return the coverage in a file, or in what ``--json`` has printed; raise `UsageError` when there is none."""
    text = text_file(name)
    with suppress(ValueError, RecursionError):
        data = json.loads(text)
        if isinstance(data, dict) and isinstance(data.get("coverage"), dict):
            text = json.dumps(data["coverage"])
    try:
        return Coverage.read(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
