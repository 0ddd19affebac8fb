"""
Which behaviour of the source documents is proven by which test: the tables of ``docs/spec-coverage.md``.

Rows stand in ``docs/spec-rows.csv``: the behaviour in a sentence, the documents it comes from, the modules that do
it, and what is still missing. Which tests prove a row is read off their names: ``test_A001_A002_...`` proves A001
and A002, ``test_C2_1_...`` item 1 of part C.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "spec-rows.csv"
COLUMNS = ["id", "documents", "modules", "missing", "statement"]
PARTS_OF_C = {"2": range(1, 11), "3": range(11, 26), "4": range(26, 32)}
"""Items of part C by section; section 1 is one rule without items."""

DRIVING = {"Engine", "World", "engine", "Shell"}
"""Names that a file of tests imports when it drives the real engine."""

_ID = re.compile(r"A\d{3}|D\d{1,2}|C\d{1,2}")


@dataclass(frozen=True, slots=True)
class SpecRow:
    """
    One behaviour.

    Attributes:
        id: ``A001`` to ``A168``, ``C1``, ``C2.1`` to ``C4.31``, ``D1`` to ``D22``.
        documents: Numbers of the source documents.
        modules: Files that do it, from the root; none while nothing does.
        missing: What is still missing, or nothing.
        statement: What holds.
    """

    id: str
    documents: tuple[str, ...]
    modules: tuple[str, ...]
    missing: str
    statement: str


def rows() -> list[SpecRow]:
    """
    Return every row.

    Raises:
        ValueError: A column too many or too few, an id twice, out of order or left out, or a module that does not exist.
    """
    with ROWS.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter=";"))
    if lines[0] != COLUMNS or any(len(line) != len(COLUMNS) for line in lines):
        raise ValueError(f"{ROWS.name}: every line has the columns {', '.join(COLUMNS)}")
    found = [
        SpecRow(id, tuple(documents.split()), tuple(modules.split()), missing, statement)
        for id, documents, modules, missing, statement in lines[1:]
    ]
    if [row.id for row in found] != list(known_ids()):
        raise ValueError(f"{ROWS.name}: the ids are not those of parts A, C and D in their order")
    for row in found:
        if gone := [name for name in row.modules if not (ROOT / name).is_file()]:
            raise ValueError(f"{ROWS.name}: {row.id} names {', '.join(gone)}, which does not exist")
    return found


def known_ids() -> Iterator[str]:
    """Yield every id in order."""
    yield from (f"A{number:03}" for number in range(1, 169))
    yield "C1"
    yield from (f"C{part}.{number}" for part, numbers in PARTS_OF_C.items() for number in numbers)
    yield from (f"D{number}" for number in range(1, 23))


def ids_of(name: str) -> list[str]:
    """Return the ids that the name of a test function begins with."""
    words = name.split("_")[1:]
    found = []
    while words and _ID.fullmatch(words[0]):
        word = words.pop(0)
        if word[1:] in PARTS_OF_C and word[0] == "C" and words and words[0].isdigit():
            word = _item(int(words.pop(0)))
        elif word[0] == "C" and word != "C1":
            word = _item(int(word[1:]))
        found.append(word)
    return found


def _item(number: int) -> str:
    part = next((part for part, numbers in PARTS_OF_C.items() if number in numbers), "?")
    return f"C{part}.{number}"


@dataclass(frozen=True, slots=True)
class Proof:
    """
    One test that carries an id.

    Attributes:
        file, name: Where it stands.
        driving: Whether its file drives the real engine.
    """

    file: str
    name: str
    driving: bool = True


def tests() -> dict[str, list[Proof]]:
    """Return the tests that carry an id, by id; read without importing them."""
    found: dict[str, list[Proof]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        imported = {name.name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names}
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for id in ids_of(node.name):
                    proof = Proof(
                        path.relative_to(ROOT / "tests").as_posix(),
                        node.name,
                        not DRIVING.isdisjoint(imported),
                    )
                    found.setdefault(id, []).append(proof)
    return found


def coverage() -> str:
    """
    Return the tables with their sums.

    Raises:
        ValueError: See `rows`; or a test carries an id that no row has.
    """
    listed, proven = rows(), tests()
    if strange := sorted(set(proven) - {row.id for row in listed}):
        raise ValueError(f"tests carry ids that no row has: {', '.join(strange)}")
    parts = {letter: [row for row in listed if row.id.startswith(letter)] for letter in "ACD"}
    texts = [
        _sum(parts["A"], proven, "rows of part A"),
        _table(parts["A"], proven),
        f"## Part C: edge cases\n\n{_sum(parts['C'], proven, 'items')}",
        _table(parts["C"], proven),
        f"## Part D: where the documents disagree\n\n{_sum(parts['D'], proven, 'decisions')}",
        _table(parts["D"], proven),
    ]
    return "\n\n".join(texts)


def _lacking(row: SpecRow, proofs: list[Proof]) -> str:
    """Return what a row with tests still lacks, or nothing."""
    if row.missing or any(proof.driving for proof in proofs):
        return row.missing
    return "a test on the real engine"


def _sum(listed: list[SpecRow], proven: dict[str, list[Proof]], what: str) -> str:
    tested = [row for row in listed if row.id in proven]
    partly = sum(bool(_lacking(row, proven[row.id])) for row in tested)
    return (
        f"**{len(tested) - partly} of {len(listed)} {what} are covered**, {partly} more in part, "
        f"{len(listed) - len(tested)} are open."
    )


def _table(listed: list[SpecRow], proven: dict[str, list[Proof]]) -> str:
    lines = ["| id | doc | behaviour | tests | done by |", "|---|---|---|---|---|"]
    for row in listed:
        proofs = proven.get(row.id, [])
        statement = row.statement
        if proofs and (lacking := _lacking(row, proofs)):
            statement += f" *In part; missing: {lacking}.*"
        cells = [
            row.id,
            ", ".join(row.documents),
            statement.replace("|", "\\|"),
            "<br>".join(f"`{proof.file}::{proof.name}`" for proof in proofs) or "open",
            "<br>".join(f"`{name}`" for name in row.modules),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
