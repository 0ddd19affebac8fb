"""What a server returns, as documents and notes; secrets that it was given are taken out again. Pure."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from typing import Any

from ...states.base.errors import ToolError
from ...states.base.secrets import REDACTED, Scrubber
from ..tool import Document, ToolOutput
from .naming import one_line
from .wire import structured_of

_BLOCKS_MAX = 200
_LINKS_MAX = 100
_ENDINGS = {
    "text/plain": "txt",
    "text/markdown": "md",
    "application/json": "json",
    "image/jpeg": "jpg",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
}


class Redactor:
    """
    Takes secrets out of texts and bytes.

    Args:
        secrets: The longest are taken out first, so that no part of one is left.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        forms: dict[str, None] = {}
        for secret in secrets:
            forms |= dict.fromkeys(
                (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
            )
        self._secrets = tuple(sorted(forms, key=lambda form: -len(form)))
        self._hidden = Scrubber(secrets)

    def text(self, text: str) -> str:
        """Return *text* without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return self._hidden(text)

    def data(self, data: bytes) -> bytes:
        """Return *data* without secrets in their UTF-8 form."""
        for secret in self._secrets:
            data = data.replace(secret.encode(), REDACTED.encode())
        return data

    def json(self, value: Any) -> Any:
        """Return JSON-able *value* without secrets in any text or key of it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.json(item) for key, item in value.items()}
        return [self.json(item) for item in value] if isinstance(value, list | tuple) else value


def output_of(result: Any, redactor: Redactor, notes: Sequence[str] = ()) -> ToolOutput:
    """
    Return a `CallToolResult` as documents and notes.

    Args:
        result: Of the ``mcp`` package.
        redactor: For everything that it holds.
        notes: On it, to which those on its parts are added.

    Raises:
        ToolError: The server says that the call failed; its words are the message.
    """
    blocks = list(result.content)[:_BLOCKS_MAX]
    if result.is_error:
        words = [block.text for block in blocks if block.type == "text"]
        reason = redactor.text(one_line(" ".join(words), 2000))
        raise ToolError(reason or "the server says that the call failed, and not why")
    reader = _Blocks(redactor, notes)
    has_structured, structured = structured_of(result)
    if has_structured:
        inner = _unwrap(structured, [block.text for block in blocks if block.type == "text"])
        blocks = [
            block
            for block in blocks
            if not (block.type == "text" and _repeats(block.text, structured, inner))
        ]
        if isinstance(inner, str):
            reader.add("result.txt", inner, "text/plain")
        else:
            text = json.dumps(redactor.json(structured), ensure_ascii=False, indent=2)
            reader.add("result.json", text, "application/json")
    for block in blocks:
        reader.read(block)
    return reader.output(dropped=len(result.content) - _BLOCKS_MAX)


def _unwrap(structured: Any, said: Sequence[str]) -> Any:
    """Return the one member of an object if it is ``result``, as servers wrap what is none, or a text that is *said* too; else None."""
    if not isinstance(structured, dict) or len(structured) != 1:
        return None
    ((key, value),) = structured.items()
    return value if key == "result" or (isinstance(value, str) and value in said) else None


def _repeats(text: str, structured: Any, inner: Any) -> bool:
    """Whether a text says the same as the structured content, as servers are asked to do for old clients."""
    if isinstance(inner, str) and text == inner:
        return True
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(found == structured or (inner is not None and found == inner))


class _Blocks:
    """Collects the documents and notes of one result."""

    def __init__(self, redactor: Redactor, notes: Sequence[str]) -> None:
        self._redactor = redactor
        self._documents: list[Document] = []
        self._notes = list(notes)
        self._links: list[str] = []
        self._readers: dict[str, Callable[[Any], None]] = {
            "text": lambda block: self.add("result.txt", block.text, "text/plain"),
            "image": self._media,
            "audio": self._media,
            "resource": lambda block: self._resource(block.resource),
            "resource_link": self._link,
        }

    def read(self, block: Any) -> None:
        """Add one content block."""
        reader = self._readers.get(block.type)
        if reader is None:
            self._notes.append(f"a part of an unknown kind was left out: {one_line(str(block.type), 40)}")
        else:
            reader(block)

    def add(self, name: str, data: str | bytes, mime: str) -> None:
        """Add a document, under a name of its own."""
        name, mime = self._redactor.text(one_line(name, 120)), one_line(mime, 100)
        taken = {document.name for document in self._documents}
        stem, dot, ending = name.rpartition(".") if "." in name else (name, "", "")
        numbered = (f"{stem}-{number}{dot}{ending}" for number in count(2))
        unique = next(one for one in chain((name,), numbered) if one not in taken)
        body = self._redactor.text(data) if isinstance(data, str) else self._redactor.data(data)
        self._documents.append(Document(unique, body, mime))

    def output(self, *, dropped: int) -> ToolOutput:
        """Return everything that was added."""
        if self._links:
            head = "# Resources that the result links to\n\n"
            self.add("links.md", head + "\n".join(self._links[:_LINKS_MAX]) + "\n", "text/markdown")
        if dropped > 0:
            self._notes.append(f"{dropped} more parts of the result were left out")
        if not self._documents and not self._notes:
            self._notes.append("the tool returned nothing")
        return ToolOutput(self._documents, [self._redactor.text(note) for note in self._notes])

    def _media(self, block: Any) -> None:
        mime = block.mime_type
        ending = _ENDINGS.get(mime) or (mimetypes.guess_extension(mime) or ".bin").removeprefix(".")
        self._binary(f"an {block.type}", f"{block.type}.{ending}", block.data, mime)

    def _resource(self, resource: Any) -> None:
        name = _name_of(str(resource.uri))
        text = getattr(resource, "text", None)
        if text is not None:
            self.add(name, text, resource.mime_type or "text/plain")
        else:
            self._binary(name, name, resource.blob, resource.mime_type or "application/octet-stream")

    def _binary(self, what: str, name: str, data: str, mime: str) -> None:
        try:
            self.add(name, base64.b64decode(data, validate=True), mime)
        except ValueError:
            self._notes.append(f"{what} was left out: its data is no base64")

    def _link(self, link: Any) -> None:
        facts: Iterable[str | None] = (
            link.mime_type,
            f"{link.size} bytes" if link.size is not None else None,
            one_line(link.description or "", 300) or None,
        )
        about = ", ".join(fact for fact in facts if fact)
        title = one_line(link.title or link.name, 120)
        self._links.append(f"- {title}: <{one_line(str(link.uri), 2000)}>" + (f" ({about})" if about else ""))


def _name_of(uri: str) -> str:
    """Return a file name from the end of a URI."""
    path = uri.partition("?")[0].partition("#")[0].rstrip("/")
    return one_line(path.rpartition("/")[2], 120) or "resource"
