"""`paor fuzz`, and `paor replay --repro`: a failing case of an engine searched for, and taken again."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import click

from ...fsm.engine import Engine
from ...fuzz.oracles.reachable_rows import parted
from ...fuzz.repro import FOLDER, load, step_lines
from ...fuzz.sample_engine import sample_engine
from ...fuzz.world.engine_under_test import PROCESS
from ...states.base.errors import MissingExtra
from ..support import terminal as io
from ..support.app import app_of, is_machine, made_engine
from ..support.options import APP, YOURS, command, refuse

if TYPE_CHECKING:
    from ...fuzz.campaign import Found, SearchProgress
    from ...fuzz.machine import EngineMachine
    from ...fuzz.world.world import Make

SHOWN = 8
"""Rows of the table that were never taken and are named; the rest is counted."""


def _folder(context: click.Context, option: click.Parameter, value: str) -> str:
    """Refuse what can be no folder before a search that would be lost with it."""
    refuse((not value.strip(), "--save: expected the name of a folder"))
    refuse((os.path.exists(value) and not os.path.isdir(value), f"--save {value}: is no folder"))
    return value


def _number(least: int, most: int, usual: int) -> dict[str, Any]:
    return {"type": click.IntRange(least, most), "default": usual}


_SAVE = {"default": FOLDER, "callback": _folder}


@command(
    "paor fuzz --examples 20",
    "paor fuzz --app shop:make_engine --examples 500 --seed 7",
    "paor fuzz --app shop_fuzz:ShopMachine --json",
)
def fuzz(
    app: Annotated[str | None, APP, f"{YOURS} Or a subclass of EngineMachine."],
    examples: Annotated[int, "--examples N", "Default 300.", _number(1, 1_000_000, 300)],
    steps: Annotated[int, "--steps N", "Steps of an example; default 20.", _number(1, 1_000, 20)],
    seed: Annotated[int, "--seed S", "Seed of the search; default 0.", _number(0, 2**64 - 1, 0)],
    save: Annotated[str, "--save FOLDER", f"Where a failing case goes; default {FOLDER}.", _SAVE],
    journal: str,
) -> int:
    """
    Search for cases in which an engine goes wrong: with replies, tool outcomes, answers, crashes and clocks that
    hypothesis generates.

    The engine keeps its tools, policy and limits, and its tools are really called. Its model, clock, ids and
    journal are replaced, so no model is asked and no journal is written. After every row the invariants are
    checked. The first failing case is shrunk and saved. Needs paor[fuzz].

    Exit codes: 0 nothing found, 1 a failing case was found and saved, 2 usage.
    """
    try:
        from ...fuzz.campaign import search
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "hypothesis":
            raise
        raise MissingExtra('paor fuzz needs hypothesis: pip install "paor[fuzz]"') from None
    make = _make_of(app)
    for other in sorted(Path(save).glob("unfinished-*.json")):
        io.tell(
            f"paor fuzz: a search did not end, or still runs: {other} holds the case of its last call of a tool"
        )
    file = Path(save, f"unfinished-{os.getpid()}.json")
    settings: dict[str, Any] = {"examples": examples, "steps": steps, "number": seed, "unfinished": file}
    with _show_progress(examples) as progress:
        found = search(make, app=app or "", progress=progress, **settings)
    path = str(found.repro.save(save)) if found.repro is not None else ""
    covered = _covered(found, getattr(make, "modes", ()))
    data = {"app": app, "covered": covered, "examples": found.examples, "found": None}
    data |= {"rows": found.rows, "seed": seed}
    if found.repro is not None:
        command = f"paor replay --repro {shlex.quote(path)}{f' --app {shlex.quote(app)}' if app else ''}"
        more = {"rows": len(found.repro.rows), "steps": step_lines(found.repro)}
        data["found"] = found.repro.wire()["violated"] | {"repro": path, "replay": command} | more
    return io.say_either(data, _lines(data), code=io.RUN_FAILED if found.repro is not None else io.OK)


def _make_of(app: str | None) -> Make | type[EngineMachine]:
    """Return what makes the engine under test: a function, an engine that is there already, a machine."""
    if app is None:
        return sample_engine
    found = app_of(app)
    if isinstance(found, Engine):
        return lambda journal: found
    if is_machine(found):
        return cast("type[EngineMachine]", found)
    return lambda journal: made_engine(app, found, journal)


@contextmanager
def _show_progress(examples: int) -> Iterator[Callable[[SearchProgress], None] | None]:
    """Give what shows on a terminal how far a search is; None where there is none."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(file=sys.stderr, highlight=False).status("starting") as status:

        def show(seen: SearchProgress) -> None:
            words = "a case was found, shrinking it" if seen.failed else f"of {examples:,} examples"
            status.update(f"{seen.examples:,} {words}, {io.count(seen.rows, 'row')}")

        yield show


def _covered(found: Found, modes: Sequence[str]) -> dict[str, Any]:
    """Return what a search over runs of *modes*, all without them, has covered; of a host's own machine no mode leaves out rows."""
    table = found.coverage
    missing, other = parted(table.missing_rows, modes)
    apart = {row.key for row in other}
    could = replace(table, rows=tuple(row for row in table.rows if row.key not in apart), own=())

    def shares(table: Any, missing: Any) -> dict[str, Any]:
        told = {"guards_percent": table.guards_percent, "rows_percent": table.rows_percent}
        return told | {"never_taken": [row.name for row in missing]}

    own = [{"machine": one.name} | shares(one, one.missing_rows) for one in table.own]
    data = {"families": found.families, "requests": found.requests, "without_success": found.without_success}
    data |= shares(could, missing) | {"of_other_modes": [row.name for row in other]}
    return ({"own_machines": own} if own else {}) | data


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a search has found and covered, for people."""
    failing, covered = data["found"], data["covered"]
    searched = io.count(data["examples"], "example")
    if failing is None:
        told = f"{searched}, {io.count(data['rows'], 'row')}, seed {data['seed']}: nothing found"
        yield f"{io.styled('ok', 'good')}  {told}"
    else:
        yield f"{io.styled('found', 'bad')}  {failing['invariant']} at seq {failing['seq']}"
        yield from (f"  {line}" for line in io.folded(failing["told"], io.width() - 2))
        size = f"{io.count(len(failing['steps']), 'step')} and {io.count(failing['rows'], 'row')}"
        yield from ("", f"after {searched}; the smallest case has {size}:")
        for step in failing["steps"]:
            first, *more = io.folded(step, io.width() - 14) or [""]
            yield from (first, *(f"{'':14}{item}" for item in more))
        yield from ("", f"saved   {failing['repro']}", f"replay  {failing['replay']}")
    asked = ", ".join(f"{number:,} {kind}" for kind, number in covered["requests"].items())
    near = [number for name, number in covered["families"].items() if name not in ("good", "closing")]
    missed = f"{io.count(sum(near), 'reply')} of {len(near)} families"
    pairs = [("asked", asked or "nothing", ""), ("near misses", missed, "")]
    pairs += [("no success", f"{name}: {why}", "") for name, why in covered["without_success"].items()]
    own = covered.get("own_machines", [])
    for table in own if own and not covered["rows_percent"] else [covered, *own]:
        pairs += [
            ("machine", table.get("machine", ""), ""),
            ("rows taken", f"{table['rows_percent']:g} % of those that such runs can take", ""),
            ("guards", f"{table['guards_percent']:g} % of their values seen, true and false", ""),
            ("never taken", _names(table["never_taken"]), "dim"),
            ("other modes", _names(table.get("of_other_modes", ())), "dim"),
        ]
    yield from ("", *io.facts(pairs, lines_max=12))


def _names(rows: Sequence[str]) -> str:
    return ", ".join(rows[:SHOWN]) + (f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")


def replay_repro(path: str, app: str | None) -> int:
    """Take the steps of a repro file again; what it names is imported only if *app* names it, too."""
    repro = load(path)
    unnamed = "nothing that a file names is imported unless you name it"
    found_with = f"{path}: was found with --app {repro.app[:200]}; {unnamed}"
    io.unless_wrong((app is None and repro.app, found_with))
    make = _make_of(app)
    claim = f"violates the claim of an EngineMachine, so --app has to name one, not {app or 'nothing'}"
    io.unless_wrong((repro.invariant == "check" and not isinstance(make, type), f"{path}: {claim}"))
    if repro.invariant == PROCESS:
        io.tell("paor replay: if nothing follows, this process has ended, too")
    with redirect_stdout(sys.stderr):  # tools are a host's own, and may print
        violation = repro.run(make)
    if violation is not None and violation.machine != repro.machine:
        io.tell("paor replay: the machine of this engine is not the one that the case was found with")
    data: dict[str, Any] = {"file": path, "fails": violation is not None, "now": None}
    data["violated"] = repro.wire()["violated"]
    if violation is None:
        line = f"{io.styled('no longer fails', 'good')}: {repro.invariant} was violated at seq {repro.seq}"
        return io.say_either(data, [line])
    data["now"] = {"invariant": violation.invariant, "seq": violation.seq, "told": violation.told}
    word = "still fails" if violation.invariant == repro.invariant else "fails in another way"
    line = f"{io.styled(word, 'bad')}: {violation.invariant} at seq {violation.seq}"
    return io.say_either(data, [line], *io.folded(violation.told), code=io.DIVERGED)
