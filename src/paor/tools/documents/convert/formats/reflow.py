"""
Turn the lines of printed pages into running text.

A PDF file knows where each line is, not what it belongs to. This module decides, from position, type
size and wording, which lines are one paragraph, a heading, an item, a table row or code, which repeat on
every page, and which words were split at a line's end. It is pure: lines go in, text comes out.

Rules in short: a paragraph goes on unless something says otherwise. It ends at a larger gap, a change of
type size, an indent after a full stop, or a short line after a full stop. A line that stops early without
a full stop is a row of its own. A line that begins with a small letter continues what is unfinished before
it, also over a column's or page's end.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_FINISHED = re.compile(r"[.!?:;][\"'”’»)\]¹²³⁴⁵⁶⁷⁸⁹⁰]*$")
_BULLET = re.compile(r"(?:[•‣▪●○◦■□➢✓·]|[-–—*](?=\s))\s*")
_NUMBER = re.compile(
    r"(?:\d{1,3}(?:\.\d{1,3})*[.)]|\d{1,3}(?:\.\d{1,3})+|\((?:\d{1,3}|[a-z]{1,4})\)|[a-z]\))\s"
)
_SPLIT_WORD = re.compile(r"([^\W\d_]+)-([⁰¹²³⁴⁵⁶⁷⁸⁹]*)$")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_PAGE_NUMBER = re.compile(r"^\W{0,2}(\d{1,4})(?=[\s–—-]|$)|(?<![\d.,])(\d{1,4})\W{0,2}$")
_EDGE_LINES = 3
_WORD_MAX = 80
_HEAD_CHARS = 300
"""Longest line in which each number is tried as one that counts the pages; that takes its length once for each."""
_SHORT = 0.65
"""A line this much shorter than the usual one ends early on purpose."""
_BODY_SHARE_MIN = 0.4
"""If less than this is left, the pages are copies of one another and not headed alike."""
_HEAD_SIZE = 1.25
_SAME_SIZE = 1.07
_GAP = 1.4
"""Paragraphs are set apart by more than this many times the usual distance between lines."""


@dataclass(frozen=True, slots=True)
class PageLine:
    """
    One printed line.

    Attributes:
        text: What it says; never blank.
        x: Where it begins, in points from the left, along the reading direction.
        y: Height of its base line in points; larger is higher up on the page.
        size: Type size in points of most of the line.
        bold: All of it is in bold type.
        code: All of it is in type of fixed width.
        row: It has cells, set apart by " | ".
    """

    text: str
    x: float
    y: float
    size: float
    bold: bool = False
    code: bool = False
    row: bool = False


Page = list[PageLine]


def flow(pages: Sequence[Page]) -> tuple[str, int]:
    """
    Join the lines of all pages to running text.

    Args:
        pages: Lines of each page in reading order; a page without text is an empty list.

    Returns:
        Paragraphs separated by blank lines, items, rows and code by line breaks; a paragraph that goes on
        over a page's end is not interrupted. And how many different headers and footers were left out.
    """
    bare, left_out = drop_running_heads(pages)
    usual = _Usual(bare)
    parts: list[str] = []
    last: PageLine | None = None
    for page in bare:
        for index, line in enumerate(page):
            text, joint = _BULLET.sub("- ", line.text, count=1) if _is_bullet(line) else line.text, ""
            if last is not None:
                joint = usual.joint(last, line) if index else _page_joint(last, line)
                parts[-1], joint, text = usual.mend(parts[-1], joint, text)
            parts += (joint, text)
            last = line
    return "".join(parts), left_out


class _Usual:
    """What is usual in one document: distance between lines, length of lines, words."""

    def __init__(self, pages: Sequence[Page]) -> None:
        gaps: defaultdict[int, list[float]] = defaultdict(list)
        lengths: defaultdict[int, list[int]] = defaultdict(list)
        self._words: set[str] = set()
        for page in pages:
            for line in page:
                lengths[round(line.size)].append(len(line.text))
                split = _SPLIT_WORD.search(line.text, max(0, len(line.text) - _WORD_MAX))
                for word in _WORD.findall(line.text[: split.start()] if split else line.text):
                    self._words.update((word.lower(), *word.lower().split("-")))
            for above, below in pairwise(page):
                gap = above.y - below.y
                if round(above.size) == round(below.size) and 0.8 < gap / below.size < 3:
                    gaps[round(below.size)].append(gap)
        self._leading = {size: sorted(found)[len(found) // 4] for size, found in gaps.items()}
        self._length = {size: sorted(found)[int(len(found) * 0.9)] for size, found in lengths.items()}

    def joint(self, above: PageLine, below: PageLine) -> str:
        """Return what is between two lines of one page: nothing, a space, one line break or two."""
        leading = self._leading.get(round(below.size), below.size * 1.2)
        gap = above.y - below.y
        apart = not -0.5 * below.size < gap < _GAP * leading
        goes_on = _goes_on(above, below)
        stray_row = above.row != below.row and goes_on  # a line spread out to fill its width
        if above.code or below.code or ((above.row or below.row) and not stray_row):
            return "\n" if _kind(above) == _kind(below) else "\n\n"
        if _is_bullet(below):
            return "\n"
        finished = _FINISHED.search(above.text) is not None
        short = len(above.text) < _SHORT * self._length[round(above.size)]
        if _NUMBER.match(below.text) and (apart or finished or short):
            return "\n\n" if apart else "\n"
        if not _same_size(above, below):
            return "\n\n"
        if goes_on and gap < 3 * leading:
            return " "
        if apart or above.bold != below.bold:
            return "\n\n"
        if abs(gap) < 0.3 * below.size:
            return " "
        indent = below.x - above.x
        if finished and abs(indent) > 0.7 * below.size and not (indent > 0 and _is_item(above)):
            return "\n\n" if indent > 0 else "\n"
        if short:
            return "\n\n" if finished else "\n"
        return " "

    def mend(self, before: str, joint: str, after: str) -> tuple[str, str, str]:
        """
        Undo a split at a line's end: "circumvent-" and "ing" become one word, "third-" and "party" too.

        Args:
            before: Text up to the line's end.
            joint: What :meth:`joint` answered; only after a space can there be a split word.
            after: Text of the next line.

        Returns:
            The three with the hyphen gone where the document's own words speak against it.
        """
        split = _SPLIT_WORD.search(before, max(0, len(before) - _WORD_MAX))
        first = re.match(r"[^\W\d_]+", after)
        if joint != " " or split is None:
            return before, joint, after
        if first is None or not first[0][0].islower():
            return before, "", after
        left, right = split[1].lower(), first[0].lower()
        known = self._words
        hard = f"{left}-{right}" in known or (len(left) > 2 and left in known and right in known)
        if hard and left + right not in known:
            return before, "", after
        return before[: split.start()] + split[1], "", first[0] + split[2] + after[first.end() :]


def _kind(line: PageLine) -> tuple[bool, bool]:
    return line.code, line.row


def _page_joint(above: PageLine, below: PageLine) -> str:
    if _kind(above) == _kind(below) != (False, False):
        return "\n"
    plain = _kind(above) == _kind(below)
    return " " if plain and _same_size(above, below) and _goes_on(above, below) else "\n\n"


def _same_size(above: PageLine, below: PageLine) -> bool:
    return max(above.size, below.size) <= _SAME_SIZE * min(above.size, below.size)


def _goes_on(above: PageLine, below: PageLine) -> bool:
    return below.text[0].islower() and _FINISHED.search(above.text) is None and not _is_bullet(below)


def _is_bullet(line: PageLine) -> bool:
    return not line.code and _BULLET.match(line.text) is not None


def _is_item(line: PageLine) -> bool:
    return _is_bullet(line) or _NUMBER.match(line.text) is not None


def drop_running_heads(pages: Sequence[Page]) -> tuple[list[Page], int]:
    """
    Leave out what is printed on page after page: headers, footers and page numbers.

    A line near the top or bottom counts when it is there on most pages, or as the outermost line on three
    pages or more. Numbers in it must be the same each time, but for one that counts the pages. An outermost
    line also counts when its page number goes on over most pages, whatever else it says. Large type is a
    title: it must be there on most pages, word for word.

    Args:
        pages: Lines of each page.

    Returns:
        The pages without these lines, and how many different ones there were. Pages that would lose most
        of their text stay as they are.
    """
    sizes = sorted(line.size for page in pages for line in page) or [0.0]
    size_max = _HEAD_SIZE * sizes[len(sizes) // 2]
    marked = [list(_edge_keys(page, number, size_max)) for number, page in enumerate(pages)]
    found: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for number, marks in enumerate(marked):
        for _, keys in marks:
            for key in keys:
                found[key].add(number)
    most = sum(map(bool, pages)) // 2 + 1
    least = {"near": max(2, most), "outermost": 3, "page": max(3, most)}
    heads = {key for key, on_pages in found.items() if len(on_pages) >= least[key[0]]}
    bare = [[line for line, keys in marks if heads.isdisjoint(keys)] for marks in marked]
    if _chars(bare) < _BODY_SHARE_MIN * _chars(pages):
        return list(pages), 0
    dropped = (line for marks in marked for line, keys in marks if not heads.isdisjoint(keys))
    return bare, len({re.sub(r"\d+", "#", line.text) for line in dropped})


def _chars(pages: Iterable[Page]) -> int:
    return sum(len(line.text) for page in pages for line in page)


def _edge_keys(page: Page, number: int, size_max: float) -> Iterator[tuple[PageLine, list[tuple[str, ...]]]]:
    """Yield each line with what a line of another page has in common with it if both are a running head."""
    heights = sorted({round(line.y) for line in page})
    ranks = {height: min(rank, len(heights) - 1 - rank) for rank, height in enumerate(heights)}
    for line in page:
        rank = ranks[round(line.y)]
        keys: list[tuple[str, ...]] = []
        if rank < _EDGE_LINES:
            outermost = rank == 0 and line.size <= size_max
            wording = f"{round(line.size)} {' '.join(line.text.split())}"
            is_counted = outermost and len(wording) <= _HEAD_CHARS
            wordings = _counted(wording, number) if is_counted else {wording}
            if len(heights) > _EDGE_LINES:
                keys += [("near", text) for text in wordings]
            if outermost:
                keys += [("outermost", str(round(line.y / 3)), text) for text in wordings]
                ends = _PAGE_NUMBER.findall(line.text)
                keys += [("page", str(int(begin or end) - number)) for begin, end in ends]
        yield line, keys


def _counted(wording: str, number: int) -> set[str]:
    """Return *wording* as it is, and with each number in it, and a Roman one at its end, as it counts the pages."""
    counted = {wording, re.sub(r"(?<= )[ivxlc]{1,7}$", "#", wording)}
    for digits in re.finditer(r"(?<=\D)\d{1,9}", wording):
        place = f"#{int(digits[0]) - number}"
        counted.add(wording[: digits.start()] + place + wording[digits.end() :])
    return counted
