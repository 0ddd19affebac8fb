"""Read a docstring's sections, and write their texts as Markdown."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Source):(.*)")
_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*): (?P<text>.*)")
_TWIN = re.compile(r"(?:^| )(?:Do the same as `\w+`|Answer as `Model.ask` says)")


@dataclass
class Docstring:
    """
    What a docstring says.

    Attributes:
        text: Everything before and between its sections, as Markdown.
        named: Arguments or attributes with what is said of them.
        returns: What comes back.
        raises: Errors with when they are raised.
        source: Where a rule comes from.
        like: Whether it is a twin of something else, whose arguments are described there.
    """

    text: str = ""
    named: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    raises: list[tuple[str, str]] = field(default_factory=list)
    source: str = ""

    @property
    def like(self) -> bool:
        return _TWIN.search(self.text) is not None


def parsed(docstring: str) -> Docstring:
    """Return the sections of a docstring."""
    made, paragraphs = Docstring(), []
    section, lines = "", list[str]()
    for line in [*inspect.cleandoc(docstring).splitlines(), "Source:"]:
        found = _SECTION.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        _take(made, paragraphs, section, lines)
        section, lines = found[1], [found[2].strip()] if found[2].strip() else []
    made.text = _markdown("\n".join(paragraphs).strip())
    return made


def _take(made: Docstring, paragraphs: list[str], section: str, lines: list[str]) -> None:
    """Put the *lines* of a section where they belong; what is not indented after it is text again."""
    inside = [line for line in lines if not line or line.startswith(" ")] if section != "Source" else lines
    if section in ("", "Args", "Attributes", "Raises", "Returns", "Yields"):
        kept = lines if not section else [line for line in lines if line and not line.startswith(" ")]
        paragraphs.extend([*kept, ""])
    block = inspect.cleandoc("\n".join(["", *inside]))
    if section in ("Args", "Attributes"):
        for names, text in _entries(block):
            for name in names.split(", "):
                made.named[name.lstrip("*")] = text
    elif section == "Raises":
        made.raises = _entries(block)
    elif section in ("Returns", "Yields"):
        made.returns = _markdown(" ".join(block.split()))
    elif section == "Source" and lines:
        made.source = _markdown(" ".join(" ".join(lines).split()))


def _entries(block: str) -> list[tuple[str, str]]:
    """Return ``name: text`` entries, each with the lines that are indented below it."""
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            found.append((entry["names"], entry["text"]))
        elif found and line.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return [(names, _markdown(text)) for names, text in found]


def _markdown(text: str) -> str:
    """Return a docstring's text as Markdown: code in single backticks, stars of arguments as code."""
    text = re.sub(r"``(.+?)``", r"`\1`", text, flags=re.DOTALL)
    return re.sub(r"(?<![*\w`])\*(\w+)\*(?![*\w`])", r"`\1`", text)


def cell(text: str) -> str:
    """Return a text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
