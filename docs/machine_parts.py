"""
The parts of the page about own machines: what a guard and a phase take, and what a phase's prompt may name.

Lines are counted between ``# lines: WHAT`` and ``# end`` in the examples, blank ones left out.
"""

from __future__ import annotations

import re
from pathlib import Path

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
