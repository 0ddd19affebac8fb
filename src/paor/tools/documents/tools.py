"""document.extract and document.generateReport: real work on real files, without a model where code can do it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ...states.base.errors import MissingExtra, ToolError
from ...states.base.pictures import is_picture
from ..defaults import FORMATS
from ..tool import Document, Tool, ToolContext, ToolOutput, tool
from .reports import ENDINGS, MIMES, render_report

if TYPE_CHECKING:
    from .convert.converter import Converter

EXTRACTED = ".md"
"""What document.extract adds to a file's name: ``contract.pdf`` becomes ``contract.pdf.md``."""

_NOTES_MAX = 18
"""Notes on documents that one call gives; an observation holds 20."""
PAGES_SHOWN = 8
"""Most pictures that one call shows a model, pages of PDF files among them."""
_TRANSCRIBE = (
    "Write down all the text of these pictures as it stands there, and in brackets what else they show."
)
TEXT_MIMES = ("text/plain", "text/markdown")


@dataclass(frozen=True, slots=True)
class Readable:
    """A document as text, or as pictures with their names, with what it was before."""

    name: str
    text: str
    mime: str
    size_bytes: int
    pictures: tuple[tuple[str, bytes], ...] = ()

    def given(self, title: str = "") -> list[tuple[str, str | bytes]]:
        """Return what a model is given of it: its text under a *title*, else its name, or its pictures."""
        return [*self.pictures] or [(title or self.title, self.text)]

    @property
    def title(self) -> str:
        """The name to cite: that of the source file, also for the text that was extracted from it."""
        stem = self.name.removesuffix(EXTRACTED)
        return stem if "." in stem else self.name


def readable(
    context: ToolContext, documents: Sequence[Document], *, looks: bool = False, pages: Sequence[int] = ()
) -> tuple[list[Readable], list[str]]:
    """
    Return *documents* as texts and notes on those that could not be read or only in part; reading ends when the run does.

    Args:
        context: Of the call.
        documents: To be read.
        looks: Whether pictures and scans are given as pictures, to a model that takes them; at most `PAGES_SHOWN` in all.
        pages: Of PDF files that are given so, whatever text they have; of a scan the first ones where none are named.

    Raises:
        ToolError: There are documents and none of them can be read.
    """
    from .convert.conversion import ConversionError
    from .convert.converter import Converter

    texts: list[Readable] = []
    notes: list[str] = []
    errors: list[str] = []
    with Converter(context.limits, context.stopped) as convert:
        for document in documents:
            if isinstance(document.data, str) and document.mime in TEXT_MIMES:
                texts.append(Readable(document.name, document.data, document.mime, document.size_bytes))
                continue
            data = (
                document.data.encode("utf-8", "replace") if isinstance(document.data, str) else document.data
            )
            room = PAGES_SHOWN - sum(len(item.pictures) for item in texts)
            try:
                found = _pictures(convert, document, data, pages, room, notes) if looks else ()
                converted = None if found else convert(document.name, data)
            except ConversionError as error:
                named = document.name in error.message
                told = error.message if named else f"{document.name}: {error.message}"
                found = ()
                if looks and error.code == "scanned" and not pages:
                    with suppress(ConversionError):  # which says no more than the one before
                        found = _pictures(convert, document, data, None, room, notes)
                if not found:
                    errors.append(told)
                    continue
                converted = None
            if converted is None:
                texts.append(Readable(document.name, "", document.mime, document.size_bytes, found))
                continue
            notes += _told(document.name, converted.notes, context.limits.note_chars)
            texts.append(Readable(document.name, converted.marked, converted.mime, document.size_bytes))
    if errors and not texts:
        raise ToolError("; ".join(errors))
    notes = errors + notes
    if len(notes) > _NOTES_MAX:
        notes[_NOTES_MAX - 1 :] = [
            f"{len(notes) - _NOTES_MAX + 1} more notes on documents are left out: read fewer at a time"
        ]
    return texts, notes


_NEXT = r"\s*(?:,\s*and\b|,|&|-|\u2013|and\b|to\b|through\b)\s*"
_PAGES = re.compile(rf"\bpages?\s+(\d{{1,5}}\b(?:{_NEXT}\d{{1,5}}\b)*)", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)\s*(?:-|\u2013|to|through)\s*(\d+)|(\d+)", re.IGNORECASE)


def pages_in(request: str) -> tuple[int, ...]:
    """Return the pages that a request names, ``page 3`` or ``pages 2, 4-6 and 9``; of a range the first ones, one more than are shown."""
    found: dict[int, None] = {}
    for named in _PAGES.finditer(request[:10_000]):
        for first, last, one in _RANGE.findall(named[1]):
            low, high = sorted((int(first or one), int(last or one)))
            found |= dict.fromkeys(range(low, min(high, low + PAGES_SHOWN) + 1))
    return tuple(found)


def _pictures(
    convert: Converter,
    document: Document,
    data: bytes,
    pages: Sequence[int] | None,
    room: int,
    notes: list[str],
) -> tuple[tuple[str, bytes], ...]:
    """Return what is shown of a picture, or of *pages* of a PDF file (None: the first ones), at most *room*; nothing of any other document."""
    from .convert.registry import sniff_mime

    kind, name = sniff_mime(document.name, data), document.name
    if is_picture(kind, len(data)):
        return ((name, data),) if room > 0 else ()
    named = sorted(set(pages)) if pages is not None else [*range(1, PAGES_SHOWN + 1)]
    if kind != "application/pdf" or not named:
        return ()
    count, found = convert.pictures(name, data, named[: max(room, 0)])
    there = [number for number in named if 0 < number <= count]
    drawn = {number: one for number, one in zip(there, found, strict=False) if one}
    for words, numbers in (
        ("pages shown to the model as pictures, in shades of grey", drawn),
        ("pages that cannot be drawn", [number for number in there[: len(found)] if number not in drawn]),
        (f"pages left out, since one call shows {PAGES_SHOWN}", there[len(found) :]),
        (
            "pages that it does not have",
            [number for number in named if number not in there and pages is not None],
        ),
    ):
        notes += [f"{name}: {words}: {', '.join(map(str, numbers))} of {count}"] * bool(numbers)
    return tuple((f"{name}, page {number}", one) for number, one in drawn.items())


def _told(name: str, notes: Sequence[str], chars_max: int) -> list[str]:
    """Return the notes on a document in as few lines as their length allows, each with its name."""
    lines: list[str] = []
    for note in notes:
        if lines and len(lines[-1]) + len(note) + 2 <= chars_max:
            lines[-1] += f"; {note}"
        else:
            lines.append(f"{name}: {note}")
    return lines


@tool("document.extract", effect="read", label="text")
def extract(
    context: ToolContext,
    documentList: Annotated[list[str], Field(description="references of the documents to read")],
    aiPrompt: Annotated[
        str | None,
        Field(
            description="what to extract, of a PDF also from which pages: 'page 3'; leave out for the whole text"
        ),
    ] = None,
) -> ToolOutput:
    """Read the text of documents: text, Markdown, HTML, CSV, JSON, PDF, Office and OpenDocument files, EPUB, RTF, EML; pictures and scans where the model takes pictures."""
    documents = context.documents(documentList)
    if not documents:
        raise ToolError("document.extract: documentList names no document")
    texts, notes = readable(context, documents, looks=context.takes_pictures, pages=pages_in(aiPrompt or ""))
    if aiPrompt:
        given = [one for item in texts for one in item.given(item.name)]
        answer = context.ask(aiPrompt, given, format="md")
        return ToolOutput(documents=[Document("extract.md", answer, "text/markdown")], notes=notes)
    texts = [
        replace(item, text=context.ask(_TRANSCRIBE, item.pictures, format="md")) if item.pictures else item
        for item in texts
    ]
    produced = []
    for item in texts:
        is_markdown = item.name.lower().endswith((".md", ".markdown"))
        name = item.name if is_markdown else item.name + EXTRACTED
        produced.append(Document(name, item.text, "text/markdown"))
    words = sum(len(item.text.split()) for item in texts)
    return ToolOutput(documents=produced, notes=[f"{len(texts)} documents, {words} words read", *notes])


@tool("document.generateReport", effect="read", label="report")
def generate_report(
    context: ToolContext,
    documentList: Annotated[list[str], Field(description="references of the documents to put into it")],
    title: Annotated[str | None, Field(description="title of the report")] = None,
) -> ToolOutput:
    """Put documents together as one report with a title: Markdown, or the format that the run ends with."""
    texts, notes = readable(context, context.documents(documentList))
    if not texts and context.answer:
        texts = [Readable("answer", context.answer, "text/markdown", len(context.answer))]
    if not texts:
        raise ToolError("document.generateReport: documentList names no document")
    heading = " ".join((title or context.objective).split()) or "Report"
    parts = [f"# {heading}"]
    for item in texts:
        if len(texts) > 1:
            parts.append(f"## {item.title}")
        parts.append(_nested(item.text.strip(), 1 if len(texts) > 1 else 0))
    form = context.final_format or "md"
    body = render_report("\n\n".join(parts) + "\n", form, title=heading, language=context.language)
    return ToolOutput(
        documents=[Document(f"report.{ENDINGS[form]}", body, MIMES[form])],
        notes=[f"report of {len(texts)} documents", *notes],
    )


def _nested(text: str, by: int) -> str:
    """Return Markdown *text* with its headings moved down, so that the report keeps one title."""
    lines = []
    fence = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fence = not fence
        marks = re.match(r"(#{1,6}) ", line)
        if marks and not fence:
            level = min(6, max(2, len(marks.group(1)) + by))
            line = "#" * level + line[len(marks.group(1)) :]
        lines.append(line)
    return "\n".join(lines)


PROCESS_MIMES = {
    "md": "text/markdown",
    "txt": "text/plain",
    "json": "application/json",
    "csv": "text/csv",
    "html": "text/html",
}


@tool("ai.process", effect="read", label="text", filled=(FORMATS,))
def process(
    context: ToolContext,
    documentList: Annotated[list[str] | None, Field(description="references of the input documents")] = None,
    aiPrompt: Annotated[str | None, Field(description="what to write")] = None,
    processingMode: Annotated[
        Literal["basic", "advanced"] | None, Field(description="advanced for analysis, basic for look-ups")
    ] = None,
    includeMetadata: Annotated[bool | None, Field(description="name documents with type and size")] = None,
    customInstructions: Annotated[str | None, Field(description="further instructions")] = None,
    expectedDocumentFormats: Annotated[
        list[str] | None,
        # a list of what there is, small models fill in as it stands: a text for each, minutes on a machine of one's own
        Field(
            description="only where the objective asks for another format than Markdown: txt, json, csv, html"
        ),
    ] = None,
) -> ToolOutput:
    """Write a text from documents: a summary, an answer, a comparison, a list."""
    documents, notes = readable(context, context.documents(documentList or []), looks=context.takes_pictures)
    named = [
        one
        for item in documents
        for one in item.given(
            f"{item.title} ({item.mime}, {item.size_bytes} bytes)" if includeMetadata else ""
        )
    ]
    formats = expectedDocumentFormats or ["md"]
    unknown = [form for form in formats if form.lower().lstrip(".") not in PROCESS_MIMES]
    if unknown:
        raise ToolError(f"ai.process cannot write {', '.join(unknown)}; use {', '.join(MIMES)}")
    produced = []
    for form in dict.fromkeys(form.lower().lstrip(".") for form in formats):
        text = context.ask(
            aiPrompt or context.objective,
            named,
            instructions=customInstructions or "",
            format=form,
        )
        if form == "json":
            try:
                json.loads(text)
            except ValueError:
                notes.append("the model's text is not JSON although JSON was asked for")
                continue
        produced.append(Document(f"text.{form}", text, PROCESS_MIMES[form]))
    if not produced:
        raise ToolError(notes[-1])
    return ToolOutput(documents=produced, notes=notes)


def builtin_tools() -> tuple[Tool, ...]:
    """Return the built-in tools in catalog order."""
    return (process, extract, generate_report)


def is_builtin(tool: Tool) -> bool:
    """Return whether *tool* is one of the built-in tools."""
    return any(tool is own for own in builtin_tools())


def check_documents(documents: Iterable[Document], offered: Sequence[Tool]) -> None:
    """
    Check that the built-in tools, if any of them is *offered*, can read *documents*; imports no library.

    Raises:
        MissingExtra: A library for one of them is not installed.
    """
    if not any(map(is_builtin, offered)):
        return
    to_convert = [
        document
        for document in documents
        if not (isinstance(document.data, str) and document.mime in TEXT_MIMES)
    ]
    if not to_convert:
        return
    from .convert.registry import absent_libraries, shown  # 40 modules

    for document in to_convert:
        data = document.data if isinstance(document.data, bytes) else document.data.encode("utf-8", "replace")
        if absent := absent_libraries(document.name, data):
            raise MissingExtra(
                f'{shown(document.name)} cannot be read without {", ".join(absent)}: pip install "paor[documents]"'
            )
