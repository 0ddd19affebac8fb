"""
The parts of the pages about the machine: its table and its stops; what an own guard and phase take, and what a prompt may name.

Lines are counted between ``# lines: WHAT`` and ``# end`` in the examples, blank ones left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from paor.fsm.machine.table import CONCLUDED, ROWS, STOPS, Row, Stop
from paor.prompts.building.builder import PLACEHOLDERS

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "machines"
_PART = re.compile(r"(?ms)^ *# lines: ([^\n]+)\n(.*?)^ *# end$")


def machine_lines() -> dict[str, tuple[str, int]]:
    """Return what is counted, with the file that it stands in and its lines, the shortest first."""
    found: dict[str, tuple[str, int]] = {}
    for path in sorted(EXAMPLES.glob("*.py")):
        for what, text in _PART.findall(path.read_text(encoding="utf-8")):
            found[what] = path.name, sum(bool(line.strip()) for line in text.splitlines())
    return dict(sorted(found.items(), key=lambda item: item[1][1]))


def lines_table() -> str:
    """Return them as a table, each with a link to the example."""
    rows = [
        f"| {what} | {lines} | [`{name}`](../../examples/machines/{name}) |"
        for what, (name, lines) in machine_lines().items()
    ]
    return "\n".join(["| what | lines | in |", "|---|---|---|", *rows])


MEANINGS = {
    "OBJECTIVE": "what the run is for, in the user's words",
    "REPLY": "the form of the reply, from the phase's schema",
    "FEEDBACK": "what was wrong with the last reply; empty at first",
    "CALL": "the call that is being specified, or was made last: tool and complete arguments, as JSON",
    "OBSERVATION": "what was observed last, as JSON",
    "VISITS": "what the last stay in each of your own phases came to, as JSON",
    "VALUES": "the run's own values, as JSON; not those of the port",
    "DRAFT_ANSWER": "the answer so far",
    "WORKFLOW_HISTORY": "the actions so far, a line each",
    "CRITERIA": "the success criteria, with those that are met",
    "IMPROVEMENTS": "what the last review, or a row to Planning, has asked for",
    "HINT": "the hint of the last refinement",
    "STEPS": "how many steps are taken, of how many",
    "CONTEXT": "the extra context of `run(context=...)`",
    "LANGUAGE": "the language of the answer",
    "CATALOG": "the tools on offer, as Stage 1 sees them",
    "DENIED": "the tools that the policy denies",
    "DOCUMENTS_INDEX": "the documents of the run, by reference",
    "CONNECTIONS_INDEX": "the connections, by label",
    "FINAL_FORMAT": "which report is made at the end, if one is",
    "RULES": "the business rules of the selection",
}
"""Of each placeholder that a phase's prompt may have what stands there."""


def phase_placeholders() -> str:
    """Return them as a table."""
    assert {*MEANINGS} == {*PLACEHOLDERS["phase"]}, "a placeholder without a meaning"
    rows = [f"| `{{{{KEY:{name}}}}}` | {meaning} |" for name, meaning in MEANINGS.items()]
    return "\n".join(["| placeholder | what stands there |", "|---|---|", *rows])


def table_markdown(rows: Sequence[Row] = ROWS) -> str:
    """Return the table as Markdown, in the order in which its rows are tried."""
    lines = ["| from | trigger | to | guards | meaning |", "|---|---|---|---|---|"]
    for row in rows:
        guards = ", ".join(f"`{_cell(guard)}`" for guard in row.guards)
        cells = (_cell(row.source), f"`{_cell(row.trigger)}`", _cell(row.dest), guards, _cell(row.meaning))
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def stops_markdown(stops: Sequence[Stop] = STOPS, rows: Sequence[Row] = ROWS) -> str:
    """Return the table of stops as Markdown, numbered in the order in which they are read."""
    lines = ["| | read in | when | reason | leads to | meaning |", "|---|---|---|---|---|---|"]
    for number, stop in enumerate(stops, 1):
        when = ", ".join(f"`{_cell(name)}`" for name in stop.when) or "no other stop holds"
        reason = f"`{_cell(stop.reason)}`" if stop.reason != CONCLUDED else "as recorded"
        where, leads = _cell(", ".join(stop.phases)), _led_to(stop, rows)
        cells = (str(number), where, when, reason, leads, _cell(stop.meaning))
        lines.append("|" + "|".join(f" {cell} " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _led_to(stop: Stop, rows: Sequence[Row]) -> str:
    """Return the transition that a stop makes a run take, with the guard that it makes hold."""
    if not stop.guard:
        return "the last `fail`"
    trigger = next(row.trigger for row in rows if row.guards[:1] == (stop.guard,))
    return f"`{_cell(trigger)}`, by `{_cell(stop.guard)}`"


def stops_mermaid(stops: Sequence[Stop] = STOPS) -> str:
    """Return the order in which stops are read as a Mermaid flowchart: one chain for each guard that they make hold."""
    lines = ["flowchart LR"]
    for guard in dict.fromkeys(stop.guard for stop in stops):
        title = guard or "no other row fits"
        lines.append(f'  subgraph {guard or "last"}["{title}"]')
        chain = [(number, stop) for number, stop in enumerate(stops, 1) if stop.guard == guard]
        for number, stop in chain:
            lines.append(f'    s{number}["{number} {stop.reason or "as recorded"}"]')
        if len(chain) > 1:
            lines.append("    " + " --> ".join(f"s{number}" for number, _ in chain))
        lines.append("  end")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
