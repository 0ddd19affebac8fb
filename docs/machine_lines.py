"""What an own guard and an own phase take: the lines between ``# lines: WHAT`` and ``# end`` in the examples, blank ones left out."""

from __future__ import annotations

import re
from pathlib import Path

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
