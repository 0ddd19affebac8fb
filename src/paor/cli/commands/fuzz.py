"""`paor fuzz`, and `paor replay --repro`: a failing case of an engine searched for, and taken again."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ...fsm.engine import Engine
from ...fuzz.oracles.reachable_rows import parted
from ...fuzz.repro import FOLDER, load, step_lines
from ...fuzz.sample_engine import sample_engine
from ...fuzz.world.engine_under_test import PROCESS
from ...states.base.errors import MissingExtra, UsageError
from ..support.app import app_of, is_machine, made_engine
from ..support.options import app_option, command, option
from ..support.streams import DIVERGED, OK, RUN_FAILED, say, say_either, say_json, tell
from ..support.text import count, facts, folded, styled, width

if TYPE_CHECKING:
    from ...fsm.explain.coverage import Coverage, RowCoverage
    from ...fuzz.campaign import Found, SearchProgress
    from ...fuzz.machine import EngineMachine
    from ...fuzz.world.world import Make

SHOWN = 8
"""Rows of the table that were never taken and are named; the rest is counted."""


def _folder(context: click.Context, option: click.Parameter, value: str) -> str:
    """Refuse what can be no folder before a search that would be lost with it."""
    if not value.strip():
        raise click.UsageError("--save: expected the name of a folder")
    if os.path.exists(value) and not os.path.isdir(value):
        raise click.UsageError(f"--save {value}: is no folder")
    return value


@command(
    "fuzz",
    "paor fuzz --examples 20",
    "paor fuzz --app shop:make_engine --examples 500 --seed 7",
    "paor fuzz --app shop_fuzz:ShopMachine --json",
)
@app_option(after="Or a subclass of EngineMachine.")
@option("--examples", "N", "Default 300.", type=click.IntRange(1, 1_000_000), default=300)
@option("--steps", "N", "Steps of an example; default 20.", type=click.IntRange(1, 1_000), default=20)
@option("--seed", "S", "Seed of the search; default 0.", type=click.IntRange(0, 2**64 - 1), default=0)
@option("--save", "FOLDER", f"Where a failing case goes; default {FOLDER}.", default=FOLDER, callback=_folder)
def fuzz(
    app: str | None, examples: int, steps: int, seed: int, save: str, journal: str, as_json: bool
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
        tell(
            f"paor fuzz: a search did not end, or still runs: {other} holds the case of its last call of a tool"
        )
    file = Path(save, f"unfinished-{os.getpid()}.json")
    settings: dict[str, Any] = {"examples": examples, "steps": steps, "number": seed, "unfinished": file}
    with _show_progress(examples) as progress:
        found = search(make, app=app or "", progress=progress, **settings)
    path = str(found.repro.save(save)) if found.repro is not None else None
    modes: Sequence[str] = getattr(make, "modes", ())
    if as_json:
        say_json(_json(found, path, modes, app=app, seed=seed))
    else:
        say(*_result(found, path, app=app, seed=seed), "", *_coverage_lines(found, modes))
    return RUN_FAILED if found.repro is not None else OK


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
            status.update(f"{seen.examples:,} {words}, {count(seen.rows, 'row')}")

        yield show


def _coverage_lines(found: Found, modes: Sequence[str] = ()) -> list[str]:
    """Return what a search over runs of *modes*, all without them, has covered, for people."""
    near = [number for name, number in found.families.items() if name not in ("good", "closing")]
    requests = ", ".join(f"{number:,} {kind}" for kind, number in found.requests.items())
    pairs = [
        ("asked", requests or "nothing", ""),
        ("near misses", f"{count(sum(near), 'reply')} of {len(near)} families", ""),
    ]
    pairs += [("no success", f"{name}: {why}", "") for name, why in found.without_success.items()]
    for table in found.coverage.tables:
        pairs += _table_facts(table, modes)
    return facts(pairs)


def _table_facts(table: Coverage, modes: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return what of one machine was covered; no mode is known to leave out rows of a host's own machine."""
    is_own = bool(table.own_rows)
    missing, other = parted(table.missing_rows, () if is_own else modes)
    possible = len(table.rows) - len(other)
    pairs = [("machine", table.name, "")] if is_own else []
    pairs += [
        ("rows taken", f"{possible - len(missing)} of {possible} of the table", ""),
        ("guards", f"{table.guards_percent:g} % of their values seen, true and false", ""),
    ]
    if missing:
        own = frozenset(row.key for row in table.own_rows)
        pairs.append(
            ("never taken", _row_names(sorted(missing, key=lambda row: row.key not in own), table), "dim")
        )
    if other:
        runs = f"no run of {' or '.join(dict.fromkeys(modes))} takes"
        pairs.append(("left out", f"{runs} {_row_names(other, table)}", "dim"))
    return pairs


def _row_names(rows: Sequence[RowCoverage], table: Coverage) -> str:
    several = Counter((row.source, row.trigger) for row in table.rows)
    names = [
        row.name if several[row.source, row.trigger] > 1 else f"{row.source} {row.trigger}" for row in rows
    ]
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _result(found: Found, path: str | None, *, app: str | None, seed: int) -> list[str]:
    """Return what a search has found, for people."""
    repro = found.repro
    if repro is None or path is None:
        message = (
            f"{count(found.examples, 'example')}, {count(found.rows, 'row')}, seed {seed}: nothing found"
        )
        return [f"{styled('ok', 'good')}  {message}"]
    lines = [f"{styled('found', 'bad')}  {repro.invariant} at seq {repro.seq}"]
    lines += [f"  {line}" for line in folded(repro.told, width() - 2)]
    size = f"{count(len(repro.script), 'step')} and {count(len(repro.rows), 'row')}"
    lines += ["", f"after {count(found.examples, 'example')}; the smallest case has {size}:"]
    for line in step_lines(repro):
        first, *more = folded(line, width() - 14) or [""]
        lines += [first, *(f"{'':14}{item}" for item in more)]
    lines += ["", f"saved   {path}", f"replay  {_command(path, app)}"]
    return lines


def _command(path: str, app: str | None) -> str:
    named = f" --app {shlex.quote(app)}" if app else ""
    return f"paor replay --repro {shlex.quote(path)}{named}"


def _json(
    found: Found, path: str | None, modes: Sequence[str], *, app: str | None, seed: int
) -> dict[str, Any]:
    table, repro = found.coverage, found.repro
    missing, other = parted(table.missing_rows, modes)
    failing = None
    if repro is not None and path is not None:
        failing = repro.wire()["violated"] | {
            "repro": path,
            "replay": _command(path, app),
            "rows": len(repro.rows),
            "steps": step_lines(repro),
        }
    own = [
        {
            "machine": one.name,
            "rows_percent": one.rows_percent,
            "guards_percent": one.guards_percent,
            "never_taken": [row.name for row in one.missing_rows],
        }
        for one in table.own
    ]
    return {
        "app": app,
        "covered": ({"own_machines": own} if own else {})
        | {
            "families": found.families,
            "guards_percent": table.guards_percent,
            "requests": found.requests,
            "rows_percent": table.rows_percent,
            "without_success": found.without_success,
            "never_taken": [row.name for row in missing],
            "of_other_modes": [row.name for row in other],
        },
        "examples": found.examples,
        "found": failing,
        "rows": found.rows,
        "seed": seed,
    }


def replay_repro(path: str, app: str | None, *, as_json: bool) -> int:
    """Take the steps of a repro file again; what it names is imported only if *app* names it, too."""
    repro = load(path)
    if app is None and repro.app:
        raise UsageError(
            f"{path}: was found with --app {repro.app[:200]}; nothing that a file names is imported unless you name it"
        )
    make = _make_of(app)
    if repro.invariant == "check" and not isinstance(make, type):
        raise UsageError(
            f"{path}: violates the claim of an EngineMachine, so --app has to name one, not {app or 'nothing'}"
        )
    if repro.invariant == PROCESS:
        tell("paor replay: if nothing follows, this process has ended, too")
    with redirect_stdout(sys.stderr):  # tools are a host's own, and may print
        violation = repro.run(make)
    if violation is not None and violation.machine != repro.machine:
        tell("paor replay: the machine of this engine is not the one that the case was found with")
    data: dict[str, Any] = {"file": path, "fails": violation is not None, "now": None}
    data["violated"] = repro.wire()["violated"]
    if violation is None:
        line = f"{styled('no longer fails', 'good')}: {repro.invariant} was violated at seq {repro.seq}"
        return say_either(as_json, data, [line])
    data["now"] = {"invariant": violation.invariant, "seq": violation.seq, "told": violation.told}
    word = "still fails" if violation.invariant == repro.invariant else "fails in another way"
    say_either(as_json, data, [f"{styled(word, 'bad')}: {violation.invariant} at seq {violation.seq}"])
    if not as_json:
        tell(*folded(violation.told))
    return DIVERGED
