"""
Read RTF with striprtf: the text, and tables row by row.

Headers, notes, comments, boxes, hidden and changed text, which striprtf leaves out or runs together, are put into the text before it reads
it. Pictures and embedded objects are counted.
"""

import re
from collections import Counter
from itertools import groupby
from typing import Any

from . import noted
from .conversion import ConversionError, Converted, cell_of, one_line, table_of, tidy

MIME = "application/rtf"
_TITLE = re.compile(r"\{\\title ([^{}\\]{1,300})\}")
_FONTS = re.compile(r"\{[^{}]*\\fonttbl")
_FONTS_STEPS_MAX = 50_000_000
"""Steps of the search for fonts in their table; 300 fonts on one line take 10 million of them."""
_FONTS_REST_MAX = 300
"""Characters after the last semicolon of the table; the search takes their cube."""

_SWITCHES = ("deleted", "revised", "v", "strike", "super")
"""Words that begin something until the same with a 0, or ``plain``, or the end of the group."""
_SILENT = frozenset(("stylesheet", "fonttbl", "info", "listtable"))
_GROUP = re.compile(
    r"\\[\\{}]|\{((?:\\\*|\\[a-zA-Z]{1,32}-?\d{0,10} ?)*+)|\}|\\(deleted|revised|v|strike|super|nosupersub|plain)(\d?)(?![a-zA-Z\d-]) ?"
)
_WORD = re.compile(r"\\\*|\\([a-zA-Z]+)(-?\d*) ?")
_HEADS = ("header", "headerl", "headerr", "headerf")
_SHOWN = {
    **dict.fromkeys(_HEADS, ("\\par Page header: ", "\\par ", noted.HEADS)),
    **dict.fromkeys(
        (name.replace("head", "foot") for name in _HEADS), ("\\par Page footer: ", "\\par ", noted.HEADS)
    ),
    "footnote": (" [note: ", "]", ""),
    "annotation": (" [comment: ", "]", noted.COMMENTS),
    "atnauthor": (" [by ", "] ", ""),
    **dict.fromkeys(("shp", "shpinst", "do", "pntext"), ("", "", "")),
    **dict.fromkeys(("shptxt", "dptxbxtext"), ("\\par ", "\\par ", "")),
    "deleted": ("[deleted: ", "]", noted.TRACKED),
    "revised": ("[inserted: ", "]", noted.TRACKED),
    "v": ("[hidden: ", "]", noted.HIDDEN),
    "strike": ("[struck out: ", "]", ""),
    "super": ("", "", "raised text, written on the line"),
}
"""By the control word of a group, what is written before and after its text, and what it is counted as."""
_COUNTED = {"pict": noted.PICTURES, "object": noted.FILES, "moMath": noted.FORMULAS}


def read_rtf(data: bytes, charset: str = "") -> Converted:
    """
    Turn an RTF file into text with its tables as Markdown.

    Raises:
        ConversionError: ``broken`` when its table of fonts is made to take very long.
    """
    from striprtf.striprtf import rtf_to_text

    source = data.decode("latin-1")
    fonts = _font_table(source)
    steps = sum(len("".join(re.findall(r"\\f(\d+)", line))) * len(line) for line in fonts.split("\n"))
    if steps > _FONTS_STEPS_MAX or len(fonts) - fonts.rfind(";") > _FONTS_REST_MAX:
        raise ConversionError(
            "broken", "has a table of fonts that does not end, or that no program would write"
        )
    source, seen = _opened(source)
    seen["merged cells, whose text is in the first of them"] += len(re.findall(r"\\clv?mgf\b", source))
    read: Any = rtf_to_text  # it says that it is typed and is not
    lines = str(read(source, errors="replace")).split("\n")
    parts: list[str] = []
    for is_table, found in groupby(lines, lambda line: line.rstrip().endswith("|")):
        group = list(found)
        rows = [[cell_of(cell) for cell in line.rstrip()[:-1].split("|")] for line in group]
        parts += ["", table_of(rows, max(map(len, rows))), ""] if is_table else group
    stated = _TITLE.search(source[:100_000])
    return Converted(
        tidy("\n".join(parts)), MIME, one_line(stated[1]) if stated else None, notes=noted.counted(seen)
    )


def _opened(source: str) -> tuple[str, Counter[str]]:
    """Return *source* with that as plain text which a reader sees, in groups or between words that switch it, and how many of each kind there are."""
    parts: list[str] = []
    seen: Counter[str] = Counter()
    groups: list[dict[str, str]] = [{}]
    """Of each that is open, what began in it, with what is written where that ends."""
    begun = Counter[str]()
    last = silent = 0
    """The depth of the group whose text is none of the document's; 0 outside of one."""
    for found in _GROUP.finditer(source):
        if found[0] == "}":
            closed = groups.pop() if len(groups) > 1 else {}
            begun.subtract(closed.keys())
            parts += [source[last : found.start()], *reversed(closed.values())]
            last = found.start()
            silent = silent if silent <= len(groups) else 0
        elif found[1] is not None:
            words = {word[1]: word[2] for word in _WORD.finditer(found[1]) if word[2] != "0"}
            groups.append({})
            silent = silent or (len(groups) if not _SILENT.isdisjoint(words) else 0)
            key = "" if silent else next((word for word in words if word in _SHOWN), "")
            seen.update(_COUNTED[word] for word in words if word in _COUNTED)
            if key:
                head = "".join(
                    word[0] for word in _WORD.finditer(found[1]) if word[1] and word[1] not in _SHOWN
                )
                before, groups[-1][key], what = _SHOWN[key]
                seen[what] += bool(what)
                begun[key] += 1
                parts += [source[last : found.start()], "{", head, " " * bool(head), before]
                last = found.end()
        elif found[2] and not silent:
            own = groups[-1]
            if found[2] in _SWITCHES and found[3] != "0":
                after = []
                if not begun[found[2]]:
                    before, own[found[2]], what = _SHOWN[found[2]]
                    seen[what] += bool(what)
                    begun[found[2]] += 1
                    after = [before]
            else:
                names = {"plain": _SWITCHES, "nosupersub": ("super",)}.get(found[2], (found[2],))
                ended = [name for name in names if name in own]
                begun.subtract(ended)
                after = [own.pop(name) for name in ended]
            if any(after):
                parts += [source[last : found.start()], *after, found[0] * (found[2] == "plain")]
                last = found.end()
    return "".join([*parts, source[last:]]), seen


def _font_table(source: str) -> str:
    """Return the group of fonts, up to the end of the file where it is not closed; nothing without one."""
    found = _FONTS.search(source)
    if found is None:
        return ""
    group, depth = source[found.end() :], 1
    for brace in re.finditer("[{}]", group):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return group[: brace.end()]
    return group
