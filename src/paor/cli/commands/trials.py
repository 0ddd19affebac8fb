"""`paor backtest` and `paor bisect`: what recorded runs would do with other settings, and which setting makes a difference."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import click

from ...fsm.evaluation.asked import COMPARED
from ...fsm.evaluation.evaluation import (
    FAILURES_MAX,
    SAMPLE,
    SAMPLE_MAX,
    AskedRow,
    Estimate,
    Evaluation,
)
from ...fsm.evaluation.kept import DEFAULT
from ...fsm.explain.bisect import Bisection, bisect_runs
from ...fsm.explain.bisect import bisect as compare
from ...fsm.journal_api import Journal
from ...fsm.replay.backtest import trials
from ...fsm.replay.trial import Spent, Trial, TrialFinding
from ...states.base.errors import UsageError
from ...states.records.outcomes import Usage
from ..support import terminal as io
from ..support.app import EngineOptions, engine_of
from ..support.journals import find_run, reading, short_id, two_runs
from ..support.options import APP, KEPT, YOURS, Run, Since, command, journal_given, refuse

SHOWN = 40
"""Lines of findings that are shown to people on a terminal."""

_ASK = "Put requests that would have other words to this model, and compare its replies."
_SAMPLE = f"With --ask: the requests of so many rows; default {SAMPLE}."
_MOST = "With --ask: ask if all of it costs at most so much."
_KEPT = f"With --ask: where replies are kept, and not asked for again; default {DEFAULT}."

_STYLES = {"decides": "bad", **dict.fromkeys((*COMPARED, "error"), "bad"), "asks": "warn", "unknown": "dim"}


@contextmanager
def _opened(app: str, journal: str) -> Iterator[Journal]:
    """Open the journal that is named, or else the app's own, for reading only."""
    with reading(journal) if journal_given() else EngineOptions(journal, app=app).looking() as reader:
        yield reader


@command(
    "paor backtest --app shop_next:engine",
    "paor backtest --app shop_next:engine --journal runs.db --since 30d --json",
    "paor backtest --app shop_next:engine --output backtest.html",
    "paor backtest --app shop_next:engine --ask openai:gpt-6-luna --sample 50 --max-price 0.25",
)
def backtest(
    app: Annotated[str | None, APP, f"The engine whose settings are tried. {YOURS}"],
    since: Since,
    output: Annotated[str | None, "--output PAGE.html", "Write a page with every finding there, too.", KEPT],
    ask: Annotated[str | None, "--ask MODEL", _ASK],
    sample: Annotated[int, "--sample N", _SAMPLE, {"type": click.IntRange(1, SAMPLE_MAX), "default": SAMPLE}],
    max_price: Annotated[float | None, "--max-price AMOUNT", _MOST, {"type": click.FloatRange(0, 1_000_000)}],
    yes: Annotated[bool, "--yes", "With --ask: ask, whatever it costs."],
    kept: Annotated[str, "--kept FILE", _KEPT, {**KEPT, "default": DEFAULT}],
    journal: str,
) -> int:
    """
    Derive every recorded run again with the policy, limits, guards, machine, prices, prompts and tools of another engine.

    Outcomes come from the journal: no model is asked, no tool is called, and the journal is only read. A row that is
    decided otherwise is named with the guard that decides it; a request with another prompt asks otherwise, and is no
    decision. Where something would be asked for that was not recorded, the rest of the run is unknown.

    With --ask the new requests of a sample of rows are put to a model, once it is said what they cost at most. A reply is
    compared with the recorded one in form, action, arguments and verdict. Nothing that it chooses is done.

    With --json a list of objects with run_id, seq, kind (decides, asks, unknown; of a reply form, action, arguments, verdict,
    error), row, guard, was and now.

    Exit codes: 0 no run decides otherwise and no reply differs, 1 one does, or the model gave an error, 2 bad usage, app or
    journal, or a price above --max-price, 4 a run whose record cannot be read.
    """
    if app is None:
        raise click.UsageError("--app MODULE:ENGINE is needed: the engine whose settings are tried")
    if ask is None and (max_price is not None or yes):
        raise click.UsageError("--max-price and --yes go with --ask")
    evaluation, asked = None, list[AskedRow]()
    with _opened(app, journal) as reader:
        engine, rows = engine_of(app, reader), reader.runs(since=since)
        if ask is not None:
            evaluation = Evaluation(engine, reader, ask, sample=sample, runs=rows, kept=kept)
            _say_price(evaluation.estimate, max_price, yes=yes)
            asked += evaluation.rows()
        found = evaluation.trials if evaluation else [run for (run,) in trials([engine], reader, rows)]
        findings = [finding for item in found for finding in item.findings]
        findings += [row.finding for row in asked if row.finding is not None]
        names = {item.run_id: short_id(reader, item.run_id) for item in findings}
    told = _told(asked, evaluation.estimate.rows) if evaluation and evaluation.estimate.rows else []
    io.say_either(findings, _lines(findings, found, names, told))
    if io.wants_json():
        io.tell(*told)
    if output is not None:
        io.say_or_write(output, [page(app, findings, found, told).encode()])
    return io.OK if all(item.kind in ("asks", "unknown") for item in findings) else io.RUN_FAILED


def _say_price(estimate: Estimate, max_price: float | None, *, yes: bool) -> None:
    """Say what is asked and what it costs at most; raise `UsageError` where that may not be spent."""
    most, costs = max_price, estimate.cost_micro
    if yes or estimate.requests == 0 or (most is not None and costs is not None and costs <= most * 1e6):
        io.tell(f"paor: {estimate}")
        return
    if most is None or costs is None:
        way = "--yes asks" if costs is None else "--max-price AMOUNT asks up to a price, --yes at any"
        raise UsageError(f"nothing was asked: {estimate}; {way}")
    raise UsageError(f"nothing was asked: {estimate}; that is above --max-price {most:g}")


def _told(asked: Sequence[AskedRow], size: int) -> list[str]:
    """Return what came of a sample of so many rows."""
    kinds = [row.finding.kind if row.finding is not None else "alike" for row in asked]
    counts = [f"{kinds.count(kind)} {kind}" for kind in ("alike", *COMPARED, "error") if kind in kinds]
    used = Usage()
    for row in asked:
        used += row.usage
    spent = f"{used.tokens_in + used.tokens_out:,} tokens, {used.cost:,.4f} cost"
    left = (
        f"; {size - len(asked)} not asked after {FAILURES_MAX} errors in a row" if len(asked) < size else ""
    )
    return [f"{io.count(len(asked), 'reply')}: {', '.join(counts)}; {spent}{left}"]


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


def _lines(
    findings: Sequence[TrialFinding], found: Sequence[Trial], names: dict[str, str], told: Sequence[str]
) -> Iterator[str]:
    brief = [*_brief(findings)]
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
    yield from (*_summary(found), *told)


def _summary(found: Sequence[Trial]) -> Iterator[str]:
    """Yield how many runs go otherwise, and what these would not have called, asked and spent."""
    kinds: dict[str, set[str]] = {
        kind: {item.run_id for run in found for item in run.findings if item.kind == kind} for kind in _WORDS
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


def page(app: str, findings: Sequence[TrialFinding], found: Sequence[Trial], told: Sequence[str] = ()) -> str:
    """Return a page of a back-test: one HTML text without scripts that asks for nothing; every text of others is escaped."""
    scrub = io.scrubber()

    def escaped(text: str) -> str:
        return html.escape(io.one_line(scrub(text)))

    rows = []
    for item, more in _brief(findings):
        kind = item.kind if more == 1 else f"{item.kind} ({more} rows)"
        cells = (item.run_id, f"{item.seq}", kind, item.row, item.guard, item.was, item.now)
        rows.append(f'<tr class="{item.kind}">{"".join(f"<td>{escaped(cell)}</td>" for cell in cells)}</tr>')
    summary = "\n".join(f"<p>{escaped(line)}</p>" for line in (*_summary(found), *told))
    heads = "".join(
        f'<th scope="col">{name}</th>' for name in ["run", "seq", "kind", "row", "guard", "was", "now"]
    )
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
