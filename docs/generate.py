"""
Write the parts of the documentation that the code knows better: ``python docs/generate.py``.

A page holds a marked part for each of them: ``<!-- generated: NAME -->`` to ``<!-- end -->``. Nothing else of a page
is touched. The pages under ``docs/reference`` are written as a whole, from docstrings (``reference_pages.py``).
``tests/project/test_docs.py`` holds all of it to what would be written now.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import product_facts
import reference_pages
from formats_table import formats_table
from guarantees_table import breakage_table, guarantee_table
from machine_parts import lines_table, phase_placeholders, stops_markdown, stops_mermaid, table_markdown
from pictures import pictures
from planted_bugs_table import planted_table
from rooms_picture import rooms_svg, rooms_table
from spec_coverage import coverage
from trace_tables import attributes_table, contents_table, spans_table
from wires_table import wires_table

from paor.cli import main as command_line
from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.stop_rules import PREDICATES
from paor.prompts.building.templates import default_templates, parse_template
from paor.states.run.reasons import REASONS
from paor.web import WebSettings

DOCS = Path(__file__).resolve().parent
PAGES = (
    "../README.md",
    "comparison.md",
    "index.md",
    "machine.md",
    "howto/prompts.md",
    "howto/machine.md",
    "models.md",
    "howto/traces.md",
    "cli.md",
    "web.md",
    "documents.md",
    "spec-coverage.md",
    "guarantees.md",
    "diagrams.md",
    "planted-bugs.md",
    "rooms.md",
)
PART = re.compile(r"(?ms)(^<!-- generated: (\w+) -->\n).*?(^<!-- end -->$)")
HELP_COLUMNS = "98"


def main() -> None:
    """Bring every page up to date; print the ones that changed."""
    for name in PAGES:
        path = DOCS / name
        before = path.read_text(encoding="utf-8")
        after = current(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"wrote {name}")
    written = reference_pages.pages() | {
        name: text for name, text in pictures().items() if name.endswith(".svg")
    }
    written["rooms.svg"] = rooms_svg()
    for name, text in written.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")


def current(page: str) -> str:
    """Return *page* with each marked part as it should be now."""
    return PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[3]}", page)


def guards() -> str:
    """Return every guard and when it holds, in the order of the table."""
    return _table("guard", "holds when", {name: guard.__doc__ or "" for name, guard in GUARDS.items()})


def reasons() -> str:
    """Return the closed list of reasons."""
    return _table("reason", "meaning", REASONS)


def stops() -> str:
    """Return why a run stops, in the order in which it is asked, as a table and as a picture."""
    return f"{stops_markdown()}\n```mermaid\n{stops_mermaid()}```"


def predicates() -> str:
    """Return every predicate of the table of stops and when it holds, in the order of the table."""
    return _table("predicate", "holds when", {name: item.__doc__ or "" for name, item in PREDICATES.items()})


def web_settings() -> str:
    """Return every bound of the web tools with its default and its meaning."""
    told = _attributes(WebSettings.__doc__ or "")
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for field in dataclasses.fields(WebSettings):
        lines.append(f"| `{field.name}` | {_number(field.default)} | {_cell(told[field.name])} |")
    return "\n".join(lines)


def placeholders() -> str:
    """Return every template with the placeholders that the shipped one has."""
    templates = {name: parse_template(text, name) for name, text in default_templates().items()}
    names = {name: ", ".join(f"`{key}`" for key in sorted(item.keys)) for name, item in templates.items()}
    return _table("template", "placeholders", names)


def commands() -> str:
    """Return the help page of every command."""
    parts = [f"```text\n{_help()}```"]
    parts += [f"## paor {name}\n\n```text\n{_help(name)}```" for name in product_facts.commands()]
    return "\n\n".join(parts)


def difference() -> str:
    """Return the Mermaid form of the difference of the two runs in the pictures."""
    return f"```mermaid\n{pictures()['difference.mermaid']}```"


def _help(*command: str) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = HELP_COLUMNS
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            command_line([*command, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return output.getvalue()


def _attributes(docstring: str) -> dict[str, str]:
    """Return the entries of a docstring's ``Attributes:`` section."""
    section = docstring.partition("Attributes:\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for entry in re.split(r"\n\s{8}(?=\w+: )", f"\n{section.rstrip()}")[1:]:
        name, _, text = entry.partition(": ")
        found[name.strip()] = " ".join(text.split())
    return found


def _number(value: object) -> str:
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _table(first: str, second: str, rows: dict[str, str]) -> str:
    lines = [f"| {first} | {second} |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {_cell(text)} |" for name, text in rows.items())])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


PARTS: dict[str, Callable[[], str]] = {
    "table": table_markdown,
    "guards": guards,
    "reasons": reasons,
    "stops": stops,
    "predicates": predicates,
    "web_settings": web_settings,
    "formats": formats_table,
    "wires": wires_table,
    "placeholders": placeholders,
    "phase_placeholders": phase_placeholders,
    "machine_lines": lines_table,
    "commands": commands,
    "command_names": product_facts.command_names,
    "extras": product_facts.extras_list,
    "facts": product_facts.facts_table,
    "coverage": coverage,
    "guarantees": guarantee_table,
    "breakages": breakage_table,
    "reference": reference_pages.index,
    "planted": planted_table,
    "difference": difference,
    "rooms": rooms_table,
    "trace_spans": spans_table,
    "trace_attributes": attributes_table,
    "trace_contents": contents_table,
}
"""What is written, by the name in the marker."""

if __name__ == "__main__":
    main()
