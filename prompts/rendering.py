"""
Turn findings into Markdown that fits a given room.

What comes from a source is data: it is put in so that it shows as plain words and cannot become a heading, a link, HTML, a
fence or an open emphasis that swallows what follows. Sections share the room: one that needs less than its share leaves the
rest to the others, and what does not fit is counted.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .corpus import Corpus
from .merging import Entry

CITED_CHARS_MAX: Final = 70
_CONTROL: Final = dict.fromkeys(
    [
        *range(0x20),
        *range(0x7F, 0xA0),
        0xAD,
        0x200B,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2060, 0x206A),
        0xFEFF,
    ]
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STRONG = re.compile(r"(\*\*|__)(?=\S)([^*_]{1,300}?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*\\])([*_])(?=[^\s*_])([^*_]{1,300}?)(?<=[^\s*_])\1(?![\w*])")
_LINK = re.compile(r"!?\[([^\[\]]{0,200})\]\(([^()\s]{0,300})(?: \"[^\"]{0,100}\")?\)")
_SPECIAL = re.compile(r"[*\[\]]|\\(?=[!-/:-@\[-`{-~]|$)|(?<!\w)_|_(?!\w)|~~")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_START = re.compile(r"(?:#{1,6}(?=\s|$)|>|[-+](?=\s|$)|[-=~]{3,}|\d{1,9}(?=[.)](?:\s|$)))")
_TAIL = re.compile(r"[;,](?: (?:and|or|und|oder|et|ou|y|o|e|en|of))?$")
_QUOTED = re.compile(r" (?:> ?)+")


@dataclass(frozen=True, slots=True)
class Section:
    """
    One section of an answer before it is fitted into its room.

    Attributes:
        heading: Its name as it is shown, without marks.
        notes: What is said before the findings.
        entries: The findings in order.
        level: The depth of its heading.
        hidden: How many findings were left out already.
    """

    heading: str
    notes: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    level: int = 2
    hidden: int = 0


def escape(text: str, *, start: bool = True) -> str:
    """
    Return *text* as Markdown that shows its words and nothing else.

    Code spans stay; links show their target as text; bold and italic marks around words go.

    Args:
        text: One line of a source.
        start: Whether it may come to stand at the start of a line, where more is special.

    Returns:
        One line without control characters.
    """
    text = _SURROGATE.sub("\ufffd", " ".join(text.split()).translate(_CONTROL))
    parts = text.split("`")
    if len(parts) % 2 == 0 or any(not part for part in parts[1:-1]):
        parts = [_plain(text).replace("`", r"\`")]
    else:
        parts = [part if number % 2 else _plain(part) for number, part in enumerate(parts)]
    line = "`".join(parts)
    mark = _START.match(line) if start else None
    if mark is None:
        return line
    return line[: mark.end()] + "\\" + line[mark.end() :] if mark.group()[0].isdigit() else "\\" + line


def names_in(names: Sequence[str], table: Mapping[str, str]) -> str:
    """Return *names* as an enumeration in words, the first three by name and the others by number."""
    shown = [escape(name) for name in names[:3]]
    if len(names) > 3:
        return table["others"].format(names=", ".join(shown), count=len(names) - 3)
    if len(shown) < 2:
        return "".join(shown)
    return table["and"].format(names=", ".join(shown[:-1]), last=shown[-1])


def lines_of(entry: Entry, corpus: Corpus, table: Mapping[str, str]) -> str:
    """Return *entry* as a list item with its sources, and below it what other sources say differently."""
    first = f"- {_words(entry.place, corpus, context=entry.context)} *({_cite([entry.place, *entry.same], corpus)})*"
    others = [
        f"  - {_words(place, corpus)} *({_cite([place], corpus)}; {table['differs']})*"
        for place in entry.differing
    ]
    return "\n".join([first, *others])


def render(
    sections: Sequence[Section], corpus: Corpus, table: Mapping[str, str], *, chars_max: int
) -> tuple[str, list[Entry]]:
    """
    Write *sections* in at most *chars_max* characters.

    Args:
        sections: What is to be said.
        corpus: Where the findings are.
        table: The phrases of the answer's language.
        chars_max: The room.

    Returns:
        The Markdown, and the entries that are in it.
    """
    kept = list(sections)
    while len(kept) > 1 and _fixed(kept, table) > chars_max:
        kept.pop()
    texts = [[lines_of(entry, corpus, table) for entry in section.entries] for section in kept]
    rooms = _share([sum(len(text) + 1 for text in lines) for lines in texts], chars_max - _fixed(kept, table))
    blocks: list[str] = []
    shown: list[Entry] = []
    for section, lines, room in zip(kept, texts, rooms, strict=True):
        fitting = _fitting(section.entries, lines, room)
        shown.extend(section.entries[number] for number in fitting)
        blocks.append(_block(section, [lines[number] for number in fitting], table))
    text = "\n\n".join(blocks)
    if len(text) <= chars_max:
        return text, shown
    return text[: max(0, chars_max)].rstrip(), []


def _block(section: Section, lines: Sequence[str], table: Mapping[str, str]) -> str:
    """Return one section with the *lines* that fit."""
    hidden = section.hidden + len(section.entries) - len(lines)
    parts = [
        f"{'#' * section.level} {section.heading}" if section.heading else "",
        *section.notes,
        "\n".join(lines),
    ]
    if hidden:
        parts.append(table["more"].format(count=hidden))
    return "\n\n".join(part for part in parts if part)


def _fixed(sections: Sequence[Section], table: Mapping[str, str]) -> int:
    """Return the room that all but the findings needs, with a count of what is left out in every section."""
    more = len(table["more"]) + 4
    size = sum(
        len(section.heading)
        + section.level
        + 3
        + sum(len(note) + 2 for note in section.notes)
        + (more if section.entries else 0)
        + 4
        for section in sections
    )
    return size


def _share(needs: Sequence[int], room: int) -> list[int]:
    """Share *room* evenly, but give nobody more than it needs."""
    rooms = [0] * len(needs)
    open_ = sorted(range(len(needs)), key=lambda number: (needs[number], number))
    left = max(0, room)
    while open_:
        number = open_.pop(0)
        rooms[number] = min(needs[number], left // (len(open_) + 1))
        left -= rooms[number]
    return rooms


def _fitting(entries: Sequence[Entry], lines: Sequence[str], room: int) -> list[int]:
    """Return which entries go into *room*: the best first, in the order in which they are shown."""
    order = sorted(range(len(entries)), key=lambda number: (-entries[number].score, number))
    kept: list[int] = []
    for number in order:
        size = len(lines[number]) + 1
        if size <= room:
            kept.append(number)
            room -= size
    return sorted(kept)


def _words(place: int, corpus: Corpus, *, context: bool = True) -> str:
    """Return what a unit says, with what introduces its list, ready to be a list item."""
    unit = corpus.units[place]
    text = corpus.passage(place, context=context)
    text = _QUOTED.sub(" ", text) if unit.quoted else text
    if unit.form == "code" and "`" not in text:
        return f"`{' '.join(text.split()).translate(_CONTROL)}`"
    if unit.form in ("item", "task"):
        text = _TAIL.sub("", text)
    return escape(f"{unit.intro} {text}" if unit.intro and not unit.cells else text)


def _cite(places: Sequence[int], corpus: Corpus) -> str:
    """Return the names of the sources of *places* with the headings that they stand under."""
    cited: dict[str, None] = {}
    for place in places:
        heading = corpus.units[place].heading
        name = escape(corpus.names[corpus.origin[place]], start=False)
        cited[f"{name}, {escape(_short(heading), start=False)}" if heading else name] = None
    return "; ".join(cited)


def _short(heading: str) -> str:
    return heading if len(heading) <= CITED_CHARS_MAX else heading[:CITED_CHARS_MAX].rsplit(" ", 1)[0] + " …"


def _plain(text: str) -> str:
    """Escape *text*, which holds no code span."""
    text = _replace(
        _LINK,
        text,
        lambda match: f"{match[1]} ({match[2]})" if match[2] and match[1] != match[2] else match[1],
    )
    text = _STRONG.sub(r"\2", text)
    text = _EMPHASIS.sub(r"\2", text)
    text = _SPECIAL.sub(lambda match: "\\" + match.group(), text)
    return _TAG.sub("&lt;", text)


def _replace(pattern: re.Pattern[str], text: str, by: Callable[[re.Match[str]], str]) -> str:
    return pattern.sub(by, text) if "](" in text else text
