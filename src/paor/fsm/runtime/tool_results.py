"""What a tool returned, raised or asked, as data: documents, notes, errors. Total: nothing a tool does gets past."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from ...prompts.clients.settings import environment_secrets, said_scrubber
from ...states.base.errors import AnswerNeeded, NotStarted, ToolError
from ...states.base.secrets import Scrubber
from ...states.records.actions import DocumentRef, Intent, ToolResult, WebFact
from ...states.records.observations import clean, cut
from ...states.records.outcomes import Asked
from ...states.records.questions import Asking
from ...states.settings.limits import Limits
from ...tools.kept_values import OF_ITS_CLASS, exact, exact_document, json_of, rescued
from ...tools.tool import Document, ToolOutput
from ..decision.observation import line
from ..journal.payloads import JSON, Stager, is_text

ERROR_CHARS = 500
QUESTION_CHARS = 4000
"""Longest question of a tool; a person is to read it."""


Kept = tuple[list[Document], tuple[str, ...], tuple[WebFact, ...]]
"""Documents, notes and web facts as a journal has them."""


def output_of(value: Any) -> ToolOutput:
    """
    Return a tool's return value as documents and notes.

    Text becomes a text document, JSON-able data a JSON document (models, dataclasses, decimals, dates and paths
    too, whole numbers of any size), bytes a binary one, None nothing at all.

    Raises:
        ToolError: The value has none of these forms.
    """
    if isinstance(value, ToolOutput):
        return value
    if value is None:
        return ToolOutput(notes=("the tool returned nothing",))
    if isinstance(value, str):
        return ToolOutput(documents=(Document("result.txt", value, "text/plain"),))
    if isinstance(value, bytes | bytearray):
        return ToolOutput(documents=(Document("result.bin", bytes(value), "application/octet-stream"),))
    if isinstance(value, Document):
        return ToolOutput(documents=(value,))
    if isinstance(value, list | tuple) and value and all(isinstance(item, Document) for item in value):
        return ToolOutput(documents=tuple(value))
    text, notes = json_of(value)
    return ToolOutput(documents=(Document("result.json", text, "application/json"),), notes=notes)


def is_empty(value: Any) -> bool:
    """Return whether a tool returned nothing at all: what a plan's step with retries tries again."""
    try:
        if isinstance(value, ToolOutput):
            return not value.web and not any(document.data for document in value.documents)
        if isinstance(value, Document):
            return not value.data
        return value is None or (
            isinstance(value, str | bytes | bytearray | Sequence | Mapping) and not value
        )
    except OF_ITS_CLASS:
        return False


def result_of(
    intent: Intent,
    value: Any,
    *,
    first: int,
    limits: Limits,
    stager: Stager,
    scrub: Scrubber,
    model: object = None,
    given: Iterable[str] = (),
) -> ToolResult:
    """
    Return the result of a call that returned *value*, its documents staged.

    A ``once`` call that came back is done, whatever it returned: what cannot be kept is noted.

    Args:
        intent: The call.
        value: What the function returned.
        first: Number of its first document within the run.
        limits: Sizes.
        stager: Takes the bodies.
        scrub: Takes keys out of them.
        model: The run's, whose keys are taken out of an error.
        given: Secrets that somebody has answered with, which are taken out of one too.
    """
    try:
        if type(value) is str:  # as most tools return
            kept: Kept = [_kept_text(value, limits, scrub)], (), ()
        else:
            kept = _kept(output_of(value), limits, scrub)
    except OF_ITS_CLASS as error:  # a tool may put anything into a `ToolOutput` or a `Document`
        if intent.effect != "once":
            return error_of(intent, error, model=model, given=given)
        kept = _kept(rescued(value, limits), limits, scrub)
    documents, notes, web = kept
    references = tuple(
        DocumentRef(
            first + position,
            intent.label,
            position,
            document.name,
            document.mime,
            stager.stage(document.data, document.mime),
            text=is_text(document.data),
        )
        for position, document in enumerate(documents)
    )
    return ToolResult(intent.tool, ok=True, documents=references, notes=notes, web=web)


def _binary_notes(documents: Sequence[Document], limits: Limits) -> tuple[str, ...]:
    """Return what an observation says of binary documents, since they have no snippet."""
    return tuple(
        cut(f"{document.name}: {document.mime}, {document.size_bytes} bytes, not text", limits.note_chars)
        for document in documents
        if not is_text(document.data)
    )


_OLD_NAMES = {"relevance": "relevance_score", "relevanceScore": "relevance_score", "keyPoints": "key_points"}
"""Document 000's names of what a web tool knows of a page."""


def _best_first(facts: Sequence[Any]) -> tuple[WebFact, ...]:
    """Return web facts by falling relevance; those without one keep their order behind the others."""
    read = [_web_fact(fact) for fact in facts]
    read.sort(key=lambda fact: float("inf") if fact.relevance_score is None else -fact.relevance_score)
    return tuple(read)


def _web_fact(fact: Any) -> WebFact:
    """Return what a tool says of one URL; both a record and a mapping are checked, since a tool made them."""
    if isinstance(fact, WebFact):
        return WebFact.of(fact.wire())
    if isinstance(fact, Mapping):
        fact = {_OLD_NAMES.get(name, name): value for name, value in fact.items()}
    return WebFact.of(fact)


def _within_size(documents: Sequence[Document], limits: Limits) -> list[Document]:
    """Return documents as a journal can have them; raise `ToolError` where they have more bytes than are kept."""
    total, documents = 0, list(documents)
    for document in documents:
        size = document.size_bytes
        total += size
        if size > limits.document_bytes:
            raise ToolError(
                f"the document {document.name} has {size} bytes; at most {limits.document_bytes} are kept"
            )
    if total > limits.result_bytes:
        raise ToolError(f"the call returned {total} bytes; at most {limits.result_bytes} are kept")
    return [_clean_document(document) for document in documents]


def _kept_text(text: str, limits: Limits, scrub: Scrubber) -> Document:
    """Return a text that a tool returned as it is kept."""
    document = Document("result.txt", text)
    if 4 * len(text) > min(limits.document_bytes, limits.result_bytes):
        (document,) = _within_size([document], limits)
    said = scrub.of_said(clean(text))
    return document if said is text else Document("result.txt", said)


def _clean_document(document: Document) -> Document:
    """Return *document* with a name, a type and a text that can stand in a journal; itself if it has them."""
    name = cut(line(document.name), 200) or "document"
    mime = cut(line(document.mime), 100)
    data = document.data if isinstance(document.data, bytes) else clean(document.data)
    if name == document.name and mime == document.mime and data is document.data:
        return document
    return dataclasses.replace(document, name=name, mime=mime, data=data)


def _kept(output: ToolOutput, limits: Limits, scrub: Scrubber) -> Kept:
    """Return documents, notes and web facts as they are kept, without keys."""
    exactly = [exact_document(document) for document in output.documents]
    documents = [without_keys(document, scrub) for document in _within_size(exactly, limits)]
    notes = tuple(cut(line(scrub(exact(str(note)))), limits.note_chars) for note in list(output.notes)[:20])
    notes += _binary_notes(documents[: limits.previews], limits)
    facts = [orjson.loads(json_of(fact.wire())[0]) for fact in _best_first(output.web)]
    web = tuple(WebFact.of(scrub.of_data(fact)) for fact in facts)
    return documents, notes, web


def without_keys(document: Document, scrub: Scrubber) -> Document:
    """Return a document without keys, in its name and in what it says; itself where there are none."""
    data = document.data
    clean_data = scrub.of_bytes(data) if isinstance(data, bytes) else _said(data, document.mime, scrub)
    name, mime = scrub(document.name), scrub(document.mime)
    if (name, mime, clean_data) == (document.name, document.mime, data):
        return document
    return dataclasses.replace(document, name=name, mime=mime, data=clean_data)


def _said(text: str, mime: str, scrub: Scrubber) -> str:
    """Return a text without keys; JSON stays JSON where a number was one."""
    said = scrub.of_said(text)
    if said == text or mime != JSON or _is_json(said) or not _is_json(text):
        return said
    return scrub.of_said(orjson.dumps(scrub.of_data(orjson.loads(text))).decode())


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def question_from(
    error: AnswerNeeded,
    limits: Limits,
    stager: Stager,
    model: object = None,
    given: Iterable[str] = (),
    *,
    noted: bool = False,
) -> Asked:
    """
    Return what a tool asks in the form of the journal, staged, without keys; nobody is asked where it is *noted* only.

    Raises:
        ToolError: It asks nothing, or what it wants back has no JSON form or is too large.
    """
    message = cut(clean(str(error.message)).strip(), QUESTION_CHARS)
    if not message:
        raise ToolError("the tool needs an answer and asks no question")
    asking = {"message": message, "answerSchema": error.schema, "state": error.state}
    asking |= {"looksOnly": True} if error.looks_only else {}
    asking |= {"noted": True} if noted else {}
    try:
        asked = orjson.loads(orjson.dumps(asking))
        text = orjson.dumps(said_scrubber(model, given).of_data(asked)).decode()
        read = Asking.model_validate_json(text)
    except (ValueError, TypeError):
        raise ToolError("the tool's question has a schema or a state that is not valid JSON") from None
    if len(text) > limits.document_bytes:
        raise ToolError(
            f"the tool's question has {len(text)} bytes; at most {limits.document_bytes} are kept"
        )
    return Asked(read, stager.stage(text, JSON))


def message_of(error: object, model: object = None, given: Iterable[str] = ()) -> str:
    """
    Return an exception's words without keys; none when its class, a host's own, cannot say them.

    Args:
        error: What a tool or a host's model raised.
        model: The run's; its own keys are taken out beside those of the environment.
        given: Secrets that somebody has answered with.
    """
    try:
        text = exact(str(error))
    except OF_ITS_CLASS:
        return ""
    own = getattr(model, "secrets", None)  # a host's own model may mean something else by it
    keys = {key for key in own if isinstance(key, str)} if isinstance(own, set | frozenset) else set()
    return Scrubber(environment_secrets().union(keys, given))(text)


def error_of(
    intent: Intent,
    error: BaseException,
    *,
    code: str = "tool_error",
    model: object = None,
    given: Iterable[str] = (),
) -> ToolResult:
    """Return the result of a call that raised *error*: one line, no traceback, no key of the environment or of *model*."""
    name, text = type(error).__name__, message_of(error, model, given)
    text = cut(line(text if isinstance(error, ToolError) else f"{name}: {text}"), ERROR_CHARS) or name
    retryable = isinstance(error, NotStarted) or intent.effect != "once"
    return ToolResult(tool=intent.tool, ok=False, error=text, error_code=code, retryable=retryable)
