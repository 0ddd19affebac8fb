"""The table of what each document format can hold and what becomes of it, from ``formats.toml``."""

import tomllib
from pathlib import Path


def formats_table() -> str:
    """Return the table: a row for each kind of part, a column for each format."""
    formats = tomllib.loads((Path(__file__).parent / "formats.toml").read_text(encoding="utf-8"))
    features = formats.pop("features")
    lines = [f"| | {' | '.join(formats)} |", f"|---|{'---|' * len(formats)}"]
    for name, words in features.items():
        cells = (_cell(held.get(name, {})) for held in formats.values())
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(told: dict[str, str]) -> str:
    return ", ".join(word for key, word in (("shown", "read"), ("noted", "counted")) if key in told)
