"""`paor backtest` and `paor bisect`: what recorded runs would do with other settings, and which setting makes a difference."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import click

from ...fsm.explain.bisect import Bisection, bisect_runs
from ...fsm.explain.bisect import bisect as compare
from ...fsm.journal_api import Journal
from ...fsm.replay.backtest import trials
from ...fsm.replay.trial import Spent, Trial, TrialFinding
from ..support import terminal as io
from ..support.app import EngineOptions, engine_of
from ..support.journals import find_run, reading, short_id, two_runs
from ..support.options import APP, KEPT, YOURS, Run, Since, command, journal_given, refuse

SHOWN = 40
"""Lines of findings that are shown to people on a terminal."""

_STYLES = {"decides": "bad", "asks": "warn", "unknown": "dim"}


@contextmanager
def _opened(app: str, journal: str) -> Iterator[Journal]:
    """Open the journal that is named, or else the app's own, for reading only."""
    with reading(journal) if journal_given() else EngineOptions(journal, app=app).looking() as reader:
        yield reader


@command(
    "paor backtest --app shop_next:engine",
    "paor backtest --app shop_next:engine --journal runs.db --since 30d --json",
    "paor backtest --app shop_next:engine --output backtest.html",
)
def backtest(
    app: Annotated[str | None, APP, f"The engine whose settings are tried. {YOURS}"],
    since: Since,
    output: Annotated[str | None, "--output PAGE.html", "Write a page with every finding there, too.", KEPT],
    journal: str,
) -> int:
    """
    Derive every recorded run again with the policy, limits, guards, machine, prices, prompts and tools of another engine.

    Outcomes come from the journal: no model is asked, no tool is called, and the journal is only read. A row that is
    decided otherwise is named with the guard that decides it; a request with another prompt asks otherwise, and is no
    decision. Where something would be asked for that was not recorded, the rest of the run is unknown.

    With --json a list of objects with run_id, seq, kind (decides, asks, unknown), row, guard, was and now.

    Exit codes: 0 no run decides otherwise, 1 one does, 2 bad usage, app or journal, 4 a run whose record cannot be read.
    """
    if app is None:
        raise click.UsageError("--app MODULE:ENGINE is needed: the engine whose settings are tried")
    with _opened(app, journal) as reader:
        found = [run for (run,) in trials([engine_of(app, reader)], reader, reader.runs(since=since))]
        names = {item.run_id: short_id(reader, item.run_id) for item in found if item.findings}
    findings = [finding for item in found for finding in item.findings]
    io.say_either(findings, _lines(found, names))
    if output is not None:
        io.say_or_write(output, [page(app, found).encode()])
    return io.RUN_FAILED if any(item.kind == "decides" for item in findings) else io.OK


def _brief(findings: Sequence[TrialFinding]) -> Iterator[tuple[TrialFinding, int]]:
    """Yield findings, those of one run that ask otherwise as their first with how many there are."""
    asks = Counter(item.run_id for item in findings if item.kind == "asks")
    seen = set[str]()
    for item in findings:
        if item.kind != "asks":
            yield item, 1
        elif item.run_id not in seen:
            seen.add(item.run_id)
            yield item, asks[item.run_id]


def _lines(found: Sequence[Trial], names: dict[str, str]) -> Iterator[str]:
    brief = [pair for item in found for pair in _brief(item.findings)]
    # what decides otherwise first: of a prompt that has changed every run says the same
    brief.sort(key=lambda pair: tuple(_STYLES).index(pair[0].kind))
    cells: list[list[io.Cell]] = []
    for item, more in brief[:SHOWN]:
        change = f"{item.was} {io.arrow()} {item.now}" + (f"  (and {more - 1} more)" if more > 1 else "")
        kind = (item.kind, _STYLES[item.kind])
        cells.append([names[item.run_id], f"{item.seq}", kind, item.row, item.guard, change])
    if cells:
        columns = io.columns("run", "seq>", "kind", "row", "guard", "was, now*")
        yield from (*io.table(columns, cells), "")
    if len(brief) > SHOWN:
        yield io.styled(f"{io.count(len(brief) - SHOWN, 'more line')}: --json, or --output PAGE.html", "dim")
    yield from _summary(found)


def _summary(found: Sequence[Trial]) -> Iterator[str]:
    """Yield how many runs go otherwise, and what these would not have called, asked and spent."""
    kinds = {
        kind: {item.run_id for run in found for item in run.findings if item.kind == kind} for kind in _STYLES
    }
    told = [f"{len(kinds[kind])} {word}" for kind, word in _WORDS.items() if kinds[kind]]
    yield f"{io.count(len(found), 'run')}: {', '.join(told) or 'none goes otherwise'}"
    decided = kinds["decides"]
    ended = [run for run in found if run.run_id in decided and run.known]
    open_ = [run for run in found if run.run_id in decided and not run.known]
    for runs, words in ((ended, "that end otherwise"), (open_, "up to where the trial ends")):
        if runs:
            yield f"  {io.count(len(runs), 'run')} {words}: {_change(*_sums(runs))}"
    was, now = _sums([run for run in found if run.run_id not in decided and run.known])
    if was.cost_micro != now.cost_micro:
        yield f"  the others: {_cost(was, now)}"


_WORDS = {"decides": "decided otherwise", "asks": "asked otherwise", "unknown": "unknown from a row on"}


def _sums(runs: Sequence[Trial]) -> tuple[Spent, Spent]:
    """Return what some runs have spent together, as they were and as they would go now."""
    none = Spent(*(0 for _ in Spent._fields))
    was, now = ([none, *(run.was for run in runs)], [none, *(run.now for run in runs)])
    return Spent(*map(sum, zip(*was, strict=True))), Spent(*map(sum, zip(*now, strict=True)))


def _change(was: Spent, now: Spent) -> str:
    words = zip(was, now, ("calls", "requests", "tokens"), strict=False)
    parts = [f"{before:,} {io.arrow()} {after:,} {word}" for before, after, word in words]
    return ", ".join([*parts, _cost(was, now)] if was.cost_micro or now.cost_micro else parts)


def _cost(was: Spent, now: Spent) -> str:
    return f"{was.cost_micro / 1e6:,.4f} {io.arrow()} {now.cost_micro / 1e6:,.4f} cost"


_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem; padding: 0 1rem; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }}
td {{ overflow-wrap: anywhere; }}
td:first-child, td:nth-child(4) {{ white-space: nowrap; }}
.decides {{ font-weight: bold; }}
</style>
</head>
<body>
<h1>{title}</h1>
{summary}
<div tabindex="0">
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
</body>
</html>
"""


def page(app: str, found: Sequence[Trial]) -> str:
    """Return a page of a back-test: one HTML text without scripts that asks for nothing; every text of others is escaped."""
    scrub = io.scrubber()

    def escaped(text: str) -> str:
        return html.escape(io.one_line(scrub(text)))

    rows = []
    for item, more in (pair for run in found for pair in _brief(run.findings)):
        kind = item.kind if more == 1 else f"{item.kind} ({more} rows)"
        cells = (item.run_id, f"{item.seq}", kind, item.row, item.guard, item.was, item.now)
        rows.append(f'<tr class="{item.kind}">{"".join(f"<td>{escaped(cell)}</td>" for cell in cells)}</tr>')
    heads = "".join(
        f'<th scope="col">{name}</th>' for name in ["run", "seq", "kind", "row", "guard", "was", "now"]
    )
    summary = "\n".join(f"<p>{escaped(line)}</p>" for line in _summary(found))
    return _PAGE.format(
        title=escaped(f"Back-test of {app}"), summary=summary, heads=heads, rows="\n".join(rows)
    )


@command(
    "paor bisect --good 0199d2b4-6f1e --bad last",
    "paor bisect --app shop:engine --app shop_next:engine",
    "paor bisect --app shop:engine --app shop_next:engine last --json",
)
def bisect(
    name: Run,
    good: Annotated[str | None, "--good RUN", "A run that did right."],
    bad: Annotated[str | None, "--bad RUN", "A run that went otherwise."],
    other: Annotated[str | None, "--other FILE", "Journal of the bad run, if it is another one."],
    apps: Annotated[tuple[str, ...], APP, "Twice: the engines that are compared."],
    journal: str,
) -> int:
    """
    Name the first row at which two runs or two versions of an engine differ, and the part that makes the difference.

    With --app twice, the recorded runs, or RUN alone, are derived again with both engines; the first one that they decide
    differently is derived again with settings of the second engine in the first, until no setting can be left out. With
    --good and --bad likewise with the settings that these runs were recorded with. No model is asked, no tool is called.

    A part is a guard, a row or phase of the machine, a prompt line, a tool schema, a policy rule, a limit, a price,
    what never happens, a model reply, a tool result, and so on.

    Exit codes: 0 nothing differs, 1 a difference, 2 bad usage, app, journal or run, 4 a run whose record cannot be read.
    """
    refuse((apps and other is not None, "--other goes with --bad"))
    if good is not None and bad is not None and not apps:
        refuse((name is not None, "RUN goes with --app"))
        with two_runs(journal, good, bad, other) as (reader, one, second, two):
            found = bisect_runs(reader, one.run_id, two.run_id, second)
    elif good is not None or bad is not None or len(apps) != 2:
        raise click.UsageError("expected --good RUN and --bad RUN, or --app twice")
    else:
        with _opened(apps[0], journal) as reader:
            rows = reader.runs() if name is None else [find_run(reader, name)]
            one_engine, two_engine = (engine_of(app, reader) for app in apps)
            found = compare(one_engine, two_engine, reader, rows)
    code = io.RUN_FAILED if found.differs else io.OK
    return io.say_either(found.wire(), _bisected(found), code=code)


def _bisected(found: Bisection) -> Iterator[str]:
    if not found.differs:
        yield io.styled("nothing differs", "good")
        return
    guard = f" by {found.guard}" if found.guard else ""
    yield f"run {found.run_id}, row {found.seq}: {io.styled(io.one_line(found.row), 'strong')}{guard}"
    yield from io.facts([("first", found.was, ""), ("second", found.now, "")])
    if not found.parts:
        yield from ("", io.styled("no settings of the second side make this difference in the first", "warn"))
    for part in found.parts:
        yield from ("", io.styled(io.one_line(f"{part.part} {part.name}"), "warn"))
        yield from io.facts([("first", part.was, ""), ("second", part.now, "")])
