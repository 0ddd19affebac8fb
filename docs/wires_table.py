"""The table of what servers do, by the interface that they speak, with its tests, from ``wires.toml``."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOM = DOCS.parent / "tests" / "clients"


def wires_table() -> str:
    """Return the table: a row for each situation, with its tests."""
    data = tomllib.loads((DOCS / "wires.toml").read_text(encoding="utf-8"))
    names = data["wires"]
    lines = [
        f"| situation | {' | '.join(names.values())} | test in `tests/clients` |",
        "|---|---|---|---|---|",
    ]
    for what, wires, tests in rows():
        cells = ("yes" if wire in wires else "" for wire in names)
        lines.append(f"| {what} | {' | '.join(cells)} | {', '.join(f'`{test}`' for test in tests)} |")
    return "\n".join(lines)


def rows() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each situation with its interfaces and its tests, in which ``WIRE`` stands for one."""
    data = tomllib.loads((DOCS / "wires.toml").read_text(encoding="utf-8"))
    every = list(data["wires"])
    for row in data["row"]:
        yield row["what"], row.get("wires", every), [row["test"]]
    for name in situations():
        yield name, every, [data["endings"][key].replace("NAME", name) for key in ("test", "also")]


def situations() -> list[str]:
    """Return the names of the situations that end a run, as the tests have them."""
    tree = ast.parse((ROOM / "test_endings.py").read_text(encoding="utf-8"))
    (found,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "SITUATIONS"
    )
    assert isinstance(found, ast.Dict)
    return [ast.literal_eval(key) for key in found.keys if key is not None]
