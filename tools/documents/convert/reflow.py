"""
Turn the lines of printed pages into running text.

A PDF file knows where each line stands, not what it belongs to. This module decides, from position, type
size and wording, which lines are one paragraph, a heading, an item, a table row or code, which repeat on
every page, and which words were split at a line's end. It is pure: lines go in, text and offsets come out.

Rules in short: a paragraph goes on unless something says otherwise. It ends at a larger gap, a change of
type size, an indent after a full stop, or a short line after a full stop. A line that stops early without
a full stop, before a capital, is a row of its own. A line that begins with a small letter continues what is
unfinished before it, also over a column's or page's end.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

_FINISHED = re.compile(r"[.!?:;][\"'”’»)\]¹²³⁴⁵⁶⁷⁸⁹⁰]*$")
_BULLET = re.compile(r"(?:[•‣▪●○◦■□➢✓·]|[-–—*](?=\s))\s*")
_NUMBER = re.compile(
    r"(?:\d{1,3}(?:\.\d{1,3})*[.)]|\d{1,3}(?:\.\d{1,3})+|\((?:\d{1,3}|[a-z]{1,4})\)|[a-z]\))\s"
)
_SPLIT_WORD = re.compile(r"([^\W\d_]+)-([⁰¹²³⁴⁵⁶⁷⁸⁹]*)$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_STRAY_END = re.compile(r"([\w(‘“]) ([b-hj-z][¹²³⁴⁵⁶⁷⁸⁹⁰]*|[-)])$")
_PAGE_NUMBER = re.compile(r"^\W{0,2}(\d{1,4})(?=[\s–—-]|$)|(?<![\d.,])(\d{1,4})\W{0,2}$")
_NO_NUMBERS = -1_000_000
_EDGE_LINES = 3
_WORD_MAX = 80
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
Marked = tuple[PageLine, str, str]
"""A line with the key it has near the edge of a page and the key it has as an outermost line."""


@dataclass(frozen=True, slots=True)
class TextFlow:
    """
    Running text of all pages.

    Attributes:
        text: The text.
        page_starts: Offset at which each page begins.
        left_out: Number of different headers and footers that were dropped.
    """

    text: str
    page_starts: tuple[int, ...]
    left_out: int


def flow(pages: Sequence[Page]) -> TextFlow:
    """
    Join the lines of all pages to running text.

    Args:
        pages: Lines of each page in reading order; a page without text is an empty list.

    Returns:
        Paragraphs separated by blank lines, items, rows and code by line breaks; a paragraph that goes on
        over a page's end is not interrupted.
    """
    bare, left_out = drop_running_heads(pages)
    mended = mend_stray_ends(bare)
    usual = _Usual(mended)
    pieces: list[tuple[int, str, str]] = []  # page, what joins it to the piece before, text
    last: PageLine | None = None
    for number, page in enumerate(mended):
        for index, line in enumerate(page):
            text, joint = _BULLET.sub("- ", line.text, count=1) if _is_bullet(line) else line.text, ""
            if last is not None:
                joint = usual.joint(last, line) if index else _page_joint(last, line)
                before, joint, text = usual.mend(pieces[-1][2], joint, text)
                pieces[-1] = (*pieces[-1][:2], before)
            pieces.append((number, joint, text))
            last = line
    return TextFlow(*_assemble(pieces, len(pages)), left_out)


def _assemble(pieces: Iterable[tuple[int, str, str]], pages: int) -> tuple[str, tuple[int, ...]]:
    starts: list[int] = []
    parts: list[str] = []
    length = 0
    for page, joint, text in pieces:
        length += len(joint)
        starts.extend([length] * (page + 1 - len(starts)))
        parts += (joint, text)
        length += len(text)
    starts.extend([length] * (pages - len(starts)))
    return "".join(parts), tuple(starts)


class _Usual:
    """What is usual in one document: distance between lines, length of lines, words."""

    def __init__(self, pages: Sequence[Page]) -> None:
        gaps: defaultdict[int, list[float]] = defaultdict(list)
        lengths: defaultdict[int, list[int]] = defaultdict(list)
        self._words: set[str] = set()
        for page in pages:
            for line in page:
                lengths[round(line.size)].append(len(line.text))
                for word in _WORD.findall(_without_split_word(line.text).lower()):
                    self._words.update((word, *word.split("-")))
            for above, below in pairwise(page):
                gap = above.y - below.y
                if round(above.size) == round(below.size) and 0.8 < gap / below.size < 3:
                    gaps[round(below.size)].append(gap)
        self._leading = {size: _pitch(found) for size, found in gaps.items()}
        self._length = {size: sorted(found)[int(len(found) * 0.9)] for size, found in lengths.items()}

    def joint(self, above: PageLine, below: PageLine) -> str:
        """Return what is between two lines of one page: nothing, a space, one line break or two."""
        leading = self._leading.get(round(below.size), below.size * 1.2)
        gap = above.y - below.y
        apart = not -0.5 * below.size < gap < _GAP * leading
        stray_row = above.row != below.row and _goes_on(above, below)  # a line spread out to fill its width
        if above.code or below.code or ((above.row or below.row) and not stray_row):
            alike = above.code == below.code and above.row == below.row
            return "\n" if alike else "\n\n"
        if _is_bullet(below):
            return "\n"
        if _NUMBER.match(below.text) and (apart or self._ends(above)):
            return "\n\n" if apart else "\n"
        if not _same_size(above, below):
            return "\n\n"
        if _goes_on(above, below) and gap < 3 * leading:
            return " "
        if apart or above.bold != below.bold:
            return "\n\n"
        return self._joint_in_block(above, below, gap)

    def _joint_in_block(self, above: PageLine, below: PageLine, gap: float) -> str:
        finished = _FINISHED.search(above.text) is not None
        if abs(gap) < 0.3 * below.size:
            return " "
        if (
            finished
            and abs(below.x - above.x) > 0.7 * below.size
            and not (below.x > above.x and _is_item(above))
        ):
            return "\n\n" if below.x > above.x else "\n"
        if self._is_short(above):
            return "\n\n" if finished else "\n"
        return " "

    def _is_short(self, line: PageLine) -> bool:
        return len(line.text) < _SHORT * self._length[round(line.size)]

    def _ends(self, line: PageLine) -> bool:
        return _FINISHED.search(line.text) is not None or self._is_short(line)

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
        first = _FIRST_WORD.match(after)
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


def _without_split_word(text: str) -> str:
    split = _SPLIT_WORD.search(text, max(0, len(text) - _WORD_MAX))
    return text[: split.start()] if split else text


def _pitch(gaps: list[float]) -> float:
    """Return the smallest gap that is frequent: the distance of lines inside paragraphs."""
    counted = Counter(round(gap * 2) / 2 for gap in gaps)
    return min(
        gap for gap, count in counted.items() if count * 7 >= len(gaps) or count == max(counted.values())
    )


def _page_joint(above: PageLine, below: PageLine) -> str:
    if (above.code and below.code) or (above.row and below.row):
        return "\n"
    plain = not (above.code or below.code or above.row or below.row)
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

    A line near the top or bottom counts when it is there on most pages, or as the outermost line at
    one height on three pages or more. Numbers in it must be the same each time or, in an outermost line,
    count the pages. An outermost line also counts when its page number goes on from page to page, whatever
    else it says. Large type is a title: it must stand on most pages, word for word.

    Args:
        pages: Lines of each page.

    Returns:
        The pages without these lines, and how many different ones there were. Pages that would lose most
        of their text stay as they are.
    """
    sizes = sorted(line.size for page in pages for line in page) or [0.0]
    marked = [_edge_keys(page, _HEAD_SIZE * sizes[len(sizes) // 2]) for page in pages]
    filled = sum(map(bool, pages))
    heads = _head_keys(marked, filled)
    first = _first_page_number(marked, filled)
    bare: list[Page] = []
    dropped: set[str] = set()
    for number, marks in enumerate(marked):
        bare.append([])
        for line, *keys in marks:
            if heads.intersection(keys) or (keys[1] and number + first in _end_numbers(line)):
                dropped.add(re.sub(r"\d+", "#", line.text))
            else:
                bare[-1].append(line)
    if _chars(bare) < _BODY_SHARE_MIN * _chars(pages):
        return list(pages), 0
    return bare, len(dropped)


def _chars(pages: Iterable[Page]) -> int:
    return sum(len(line.text) for page in pages for line in page)


def _head_keys(marked: Iterable[Iterable[Marked]], filled: int) -> set[str]:
    """Return the keys of the lines that repeat."""
    near: defaultdict[str, list[tuple[int, list[int]]]] = defaultdict(list)
    outermost: defaultdict[str, list[tuple[int, list[int]]]] = defaultdict(list)
    for number, marks in enumerate(marked):
        for line, key, outer_key in marks:
            found = (number, [int(digits) for digits in re.findall(r"\d{1,9}", line.text)])
            if key:
                near[key].append(found)
            if outer_key:
                outermost[outer_key].append(found)
    heads = {key for key, found in near.items() if _repeats(found, max(2, filled // 2 + 1))}
    return heads | {key for key, found in outermost.items() if _repeats(found, 3)}


def _first_page_number(marked: Iterable[Iterable[Marked]], filled: int) -> int:
    """Return the number printed on the first page if the outermost lines count most pages."""
    offsets: Counter[int] = Counter()
    for number, marks in enumerate(marked):
        offsets.update({value - number for line, _, outer in marks if outer for value in _end_numbers(line)})
    offset, count = max(offsets.items(), key=lambda item: (item[1], -item[0]), default=(0, 0))
    return offset if count >= 3 and count * 2 > filled else _NO_NUMBERS


def _end_numbers(line: PageLine) -> set[int]:
    """Return the numbers that *line* begins and ends with; no dates, sums or section numbers."""
    return {int(begin or end) for begin, end in _PAGE_NUMBER.findall(line.text)}


def _edge_keys(page: Page, size_max: float) -> list[Marked]:
    """Return each line with its key if it is near an edge and if it is outermost, else empty keys."""
    heights = sorted({round(line.y) for line in page})
    ranks = {height: min(rank, len(heights) - 1 - rank) for rank, height in enumerate(heights)}
    marked = []
    for line in page:
        rank = ranks[round(line.y)]
        large = line.size > size_max
        near = outer = ""
        if rank < _EDGE_LINES:
            wording = f"{round(line.size)} {''.join(line.text.split())}"
            counted = re.sub(r"\d+|(?<= )[ivxlc]{1,7}$", "#", wording)
            if len(heights) > _EDGE_LINES:
                near = wording if rank or large else counted
            outer = "" if rank or large else f"{round(line.y / 3)} {counted}"
        marked.append((line, near, outer))
    return marked


def _repeats(found: list[tuple[int, list[int]]], pages_min: int) -> bool:
    if len({page for page, _ in found}) < pages_min:
        return False
    for numbers in zip(*(numbers for _, numbers in found), strict=False):
        same = Counter(numbers).most_common(1)[0][1]
        counting = Counter(n - page for n, (page, _) in zip(numbers, found, strict=True)).most_common(1)[0][1]
        if max(same, counting) < 0.6 * len(found):
            return False
    return True


def mend_stray_ends(pages: Sequence[Page]) -> list[Page]:
    """
    Undo a habit of some PDF writers: the last letter of a justified line set apart, as in "and th e".

    Args:
        pages: Lines of each page.

    Returns:
        The same pages; mended only when one line in ten ends so, which no honest text does.
    """
    total = sum(map(len, pages))
    stray = sum(_STRAY_END.search(line.text) is not None for page in pages for line in page)
    if stray < 5 or stray * 10 < total:
        return list(pages)
    return [[replace(line, text=_STRAY_END.sub(r"\1\2", line.text)) for line in page] for page in pages]
