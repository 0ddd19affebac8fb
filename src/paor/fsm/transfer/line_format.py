"""
The lines of an export as values of closed types; whatever else comes in is refused with the number of its line.

Nothing is trusted: types are strict, keys closed, sizes and numbers bounded. What a line says is checked against
hashes and digests by `fsm.transfer.importer`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ...states.base.errors import UsageError
from ..journal.payloads import Payload

FORMAT = "paor-export"
VERSION = 2
"""That before it had other hashes of rows, and was never released."""
LINE_BYTES_MAX = 1_500_000_000
"""Most bytes of one line: the largest document as Base64."""

Number = Annotated[int, Meta(ge=0, lt=2**32)]
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Hex32 = Annotated[str, Meta(pattern="^[0-9a-f]{64}\\Z")]
Hex16 = Annotated[str, Meta(pattern="^[0-9a-f]{32}\\Z")]
Name = Annotated[str, Meta(pattern="^[!-~]{1,200}\\Z")]


class Line(Struct, tag_field="line", forbid_unknown_fields=True, gc=False, kw_only=True):
    """Base of all lines; their fields are in the order of the columns that they hold."""


class HeaderLine(Line, tag="header"):
    """Begins a run."""

    format: str
    version: int


class RunLine(Line, tag="run"):
    """The columns of `specs`."""

    run_id: Name
    workflow_id: Name
    round: Whole
    task: Whole
    parent_run_id: Name | None
    parent_seq: Whole | None
    spec: Hex32
    spec_payload: Number
    created_at: Whole


class PayloadLine(Line, tag="payload"):
    """One row of `payloads`."""

    n: Number
    media_type: str
    digest: Hex32
    salt: Hex16 | None
    text: str | UnsetType | None = UNSET
    base64: str | UnsetType = UNSET


class TransitionLine(Line, tag="transition"):
    """One row of `transitions`; its JSON columns are texts here too."""

    seq: Number
    at: Whole
    trigger: str
    source: str
    dest: str
    guards: str
    request: str
    outcome: str
    change: str
    step: Whole
    action: Whole
    retries: Whole
    tokens_in: Whole
    tokens_out: Whole
    cost_micro: Whole
    time_us: Whole
    counters: str
    prev_hash: Hex32
    hash: Hex32


class DocumentLine(Line, tag="document"):
    """One row of `documents`."""

    number: Number
    label: str
    position: Whole
    name: str
    mime: str
    bytes: Whole
    digest: Hex32
    payload: Number


class ErasureLine(Line, tag="erasure"):
    """One row of `erasures`."""

    number: Number
    at: Whole
    rule: str
    payloads: str
    reason: str | None
    hash: Hex32


class HeadLine(Line, tag="head"):
    """Ends a run: what the rows come to."""

    state: str
    status: str
    reason: str | None
    ended_at: Whole | None
    head_seq: Whole
    head_hash: Hex32


AnyLine = HeaderLine | RunLine | PayloadLine | TransitionLine | DocumentLine | ErasureLine | HeadLine
_decode = msgspec.json.Decoder(AnyLine).decode
_FOLLOWS: dict[type[Line] | None, tuple[type[Line], ...]] = {
    None: (HeaderLine,),
    HeaderLine: (RunLine,),
    RunLine: (PayloadLine, HeadLine),  # a fork that has done nothing has no payload of its own
    PayloadLine: (PayloadLine, TransitionLine, DocumentLine, ErasureLine, HeadLine),
    TransitionLine: (TransitionLine, DocumentLine, ErasureLine, HeadLine),
    DocumentLine: (DocumentLine, ErasureLine, HeadLine),
    ErasureLine: (ErasureLine, HeadLine),
    HeadLine: (HeaderLine, RunLine),
}
"""Which lines may come after which."""


def read_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, AnyLine, bytes]]:
    """
    Yield number, value and bytes of every line.

    Raises:
        UsageError: With the number of the first line that is none, is not in order, or that ends too early.
    """
    last: type[Line] | None = None
    number = 0
    for number, text in enumerate(lines, 1):
        line = _line(number, text)
        if type(line) not in _FOLLOWS[last]:
            expected = " or ".join(str(kind.__struct_config__.tag) for kind in _FOLLOWS[last])
            raise UsageError(f"line {number}: a {line.__struct_config__.tag} line, expected {expected}")
        if isinstance(line, HeaderLine) and line.format != FORMAT:
            raise UsageError(f"line {number}: the format is {line.format!a:.60}, expected {FORMAT}")
        if isinstance(line, HeaderLine) and line.version != VERSION:
            raise UsageError(
                f"line {number}: version {line.version} of the export; this paor knows version {VERSION}"
                + ("; upgrade paor to read it" if line.version > VERSION else "")
            )
        last = type(line)
        yield number, line, text
    if number == 0:
        raise UsageError("line 1: there is none; an export begins with its header")
    if last is not HeadLine:
        raise UsageError(f"line {number + 1}: the export ends within a run; a part of it is missing")


def _line(number: int, text: bytes) -> AnyLine:
    if not isinstance(text, bytes):
        raise UsageError(f"line {number}: expected bytes, not {type(text).__name__}")
    if len(text) > LINE_BYTES_MAX:
        raise UsageError(f"line {number}: is longer than {LINE_BYTES_MAX:,} bytes")
    try:
        line: AnyLine = _decode(text)
        return line
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        told = "nested too deeply" if isinstance(error, RecursionError) else ascii(str(error))[1:-1][:160]
        raise UsageError(f"line {number}: is no line of an export ({told})") from None


def payload_of(number: int, line: PayloadLine) -> Payload:
    """
    Return the payload of a line as the journal has it.

    Raises:
        UsageError: It has no body or two, or one that is no Base64.
    """
    if (line.text is UNSET) is (line.base64 is UNSET):
        raise UsageError(f"line {number}: expected either text or base64")
    body: str | bytes | None = line.text if line.text is not UNSET else None
    if line.base64 is not UNSET:
        try:
            body = base64.b64decode(line.base64, validate=True)
        except ValueError as error:
            raise UsageError(f"line {number}: {ascii(str(error))[1:-1][:160]}") from None
    if (body is None) is not (line.salt is None):
        raise UsageError(f"line {number}: expected both salt and body, or neither")
    salt = bytes.fromhex(line.salt) if line.salt is not None else None
    return Payload(line.n, line.media_type, bytes.fromhex(line.digest), salt, body)
