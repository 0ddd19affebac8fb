"""Hostile inputs: valid bytes of one format changed at random, in their structure or anywhere, from a `random.Random`."""

from __future__ import annotations

import io
import json
import random
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..support.forging import writable
from ..verify.tampering import Tamperer, other_json, update

Change = Callable[[bytes, random.Random], bytes]

WORDS = (
    *(b"0", b"-1", b"65536", b"4294967296", b"9223372036854775808", b"1e999", b"NaN", b"1" * 5000),
    *(b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x80\xae", b"&#0;", b"&#xD800;", b"../../x", b"A" * 20_000),
    *(b"<!DOCTYPE a [<!ENTITY b 'bbbb'><!ENTITY c '&b;&b;&b;'>]>", b"&c;", b"<![CDATA[", b"]]>", b"<!--", b"\r\n\r\n"),
)  # fmt: skip
MAIL = (
    *(b"Content-Type: multipart/mixed; boundary=x\n", b"Content-Type: message/rfc822\n", b"\n--x\n", b"\n "),
    *(b"=?utf-8?B?//8=?=", b"=?x?Q?=ZZ?=", b"charset=utf-7", b"charset*0*=x'", b"filename*=utf-8''%ff", b"Subject: a\n"),
    *(b"Content-Transfer-Encoding: base64\n", b"Date: Mon, 99 Foo 99999 99:99:99 +99999\n", b"charset=undefined"),
)  # fmt: skip
PDF = (
    *(b"1 0 R", b"3 0 R", b"<<", b">>", b"[", b"]", b"(", b"BT", b"ET", b"Tj", b"Do", b"cm", b"q"),
    *(b"/Kids", b"/Length", b"/Filter[/FlateDecode/FlateDecode]", b"/Encrypt<<>>", b"/ToUnicode 3 0 R"),
)
RTF = (
    *(b"{", b"}", b"\\u-1", b"\\u99999", b"\\'zz"),
    *(b"\\bin9999999", b"\\cell", b"\\row", b"\\ansicpg99999", b"\\uc99999"),
)
HTML = (
    *(b"<table>", b"<td colspan=9999999>", b"<svg>", b"</p>", b"<pre>"),
    *(b"<li>", b"<h1>", b"<template>", b"<a href='", b"<!---->", b"<?xml a>", b"<!doctype "),
)
CSV = (b'"', b",", b"\n", b";", b"\t", b'""', b"\r")
_PIECE = re.compile(rb"<[^<>]*>|\\[a-z]+-?\d*|\d+|[\w-]+|\s+|.", re.DOTALL)
_CLOSES = {b"{": b"}", b"[": b"]", b"(": b")", b"<<": b">>"}
_WINDOW = 4000
_GROWTH = 300_000
"""Most bytes that one change adds."""


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Flip, take away, double and cut bytes, wherever they stand."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8, 40))):
        place, length = chance.randrange(len(changed) + 1), chance.randrange(1, 40)
        what = chance.randrange(8)
        if what < 4 and place < len(changed):
            changed[place] = chance.choice(
                (0, 255, chance.randrange(256), changed[place] ^ 1 << chance.randrange(8))
            )
        elif what == 4:
            del changed[place : place + length]
        elif what == 5:
            changed[place:place] = changed[place : place + length] * chance.choice((1, 1, 1000))
        elif what == 6:
            other = chance.randrange(len(changed) + 1)
            changed[place : place + length] = changed[other : other + length]
        elif chance.random() < 0.2:
            del changed[place:]
    return bytes(changed)


def rearranged(words: Sequence[bytes]) -> Change:
    """Return a change of pieces, as tags, words and numbers: lost, repeated, moved, nested, or replaced by one of *words*."""

    def change(data: bytes, chance: random.Random) -> bytes:
        begin = chance.randrange(max(1, len(data) - _WINDOW))
        pieces = _PIECE.findall(data[begin : begin + _WINDOW]) or [b""]
        for _ in range(chance.choice((1, 1, 2, 6))):
            place, other = chance.randrange(len(pieces)), chance.randrange(len(pieces))
            piece, word = (
                pieces[place],
                chance.choice((*WORDS, *words) if chance.random() < 0.6 else words or WORDS),
            )
            times = min(chance.choice((2, 30, 3000, 100_000)), _GROWTH // max(1, len(piece)))
            what = chance.randrange(6)
            if what == 0:
                pieces[place] = word
            elif what == 1:
                pieces.insert(place, word * min(chance.choice((1, 1, 3000)), _GROWTH // max(1, len(word))))
            elif what == 2:
                pieces[place] = b""
            elif what == 3:
                pieces[place], pieces[other] = pieces[other], piece
            elif what == 4:
                pieces[place] = piece * times
            else:
                closing_piece = _closing(piece)
                pieces[place], pieces[other] = piece * times, pieces[other] + closing_piece * times
        return data[:begin] + b"".join(pieces) + data[begin + _WINDOW :]

    return change


def _closing(piece: bytes) -> bytes:
    tag = re.match(rb"<([\w:.-]+)", piece)
    return b"</%b>" % tag[1] if tag else _CLOSES.get(piece, b"")


_rearranged_xml = rearranged(())


def repacked(data: bytes, chance: random.Random) -> bytes:
    """Change the members of an archive: their text, their names, which there are."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    for _ in range(chance.choice((1, 1, 3))):
        place = chance.randrange(len(members))
        (name, body), (other, taken) = members[place], chance.choice(members)
        what = chance.randrange(12)
        if what < 7:
            members[place] = (name, _rearranged_xml(body, chance))
        elif what == 7:
            members[place] = (name, damaged(body, chance))
        elif what == 8 and len(members) > 1:
            del members[place]
        elif what == 9:
            members[place] = (chance.choice((other, f"../{name}", name.upper(), f"{name}\0x")), body)
        elif what == 10:
            members[place] = (name, taken)
        else:
            members[place] = (
                name,
                body + chance.choice((b" ", b"<a>", b"\0")) * chance.choice((1000, 3_000_000)),
            )
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, body in members:
            archive.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED, 1)
    return written.getvalue()


_rearranged_pdf = rearranged(PDF)


def restreamed(data: bytes, chance: random.Random) -> bytes:
    """Change what a stream of a PDF file holds packed."""
    found = list(re.finditer(rb"stream\r?\n(.*?)\r?\nendstream", data, re.DOTALL))
    stream = chance.choice(found) if found else None
    if stream is None:
        return _rearranged_pdf(data, chance)
    body = stream[1]
    with suppress(zlib.error):
        body = zlib.decompress(body)
    body = zlib.compress(_rearranged_pdf(body, chance))
    return data[: stream.start(1)] + body + data[stream.end(1) :]


def relined(data: bytes, chance: random.Random) -> bytes:
    """Change JSON lines: one lost, doubled or moved, a value of one retyped, or the value of one deep within."""
    lines = data.splitlines(keepends=True)
    for _ in range(chance.choice((1, 1, 1, 3))):
        place = chance.randrange(len(lines))
        what = chance.randrange(10)
        if what == 0:
            lines.insert(chance.randrange(len(lines)), lines.pop(place))
        elif what == 1:
            lines.insert(place, chance.choice(lines))
        elif what == 2:
            del lines[place : None if chance.random() < 0.3 else place + 1]
        elif what == 3:
            lines[place] = damaged(lines[place], chance)
        else:
            with suppress(ValueError):
                lines[place] = (json.dumps(retyped(json.loads(lines[place]), chance)) + "\n").encode()
        lines = lines or [b"\n"]
    return b"".join(lines)


def retyped(data: Any, chance: random.Random) -> Any:
    """Return JSON of which one value, however deep, is another one, is gone, or is new."""
    items = (
        list(data.items())
        if isinstance(data, dict)
        else list(enumerate(data))
        if isinstance(data, list)
        else []
    )
    if items and chance.random() < 0.85:
        name, value = chance.choice(items)
        if chance.random() < 0.2:
            rest = {key: kept for key, kept in items if key != name}
            return rest if isinstance(data, dict) else list(rest.values())
        copy: Any = dict(items) if isinstance(data, dict) else list(data)
        copy[name] = retyped(value, chance)
        return copy
    if isinstance(data, str) and data[:1] in ("{", "[") and chance.random() < 0.8:
        with suppress(ValueError):
            return json.dumps(retyped(json.loads(data), chance), sort_keys=True, separators=(",", ":"))
    deep: Any = []
    for _ in range(chance.choice((3, 900))):
        deep = [deep]
    numbers = (0, -1, 2**32, 2**53 + 1, 2**63, 10**400, 1.5, float("inf"), float("nan"))
    return chance.choice(
        (*numbers, None, True, "", "\ud800", "\0", "x" * 9000, {}, {"n": 1}, {"n": 2**63}, deep, data)
    )


# -- journal files ---------------------------------------------------------------------------------------------------


def repaged(data: bytes, chance: random.Random) -> bytes:
    """Change pages of an SQLite file: their bytes, their places, their number."""
    pages = [bytearray(data[at : at + 4096]) for at in range(0, len(data), 4096)]
    for _ in range(chance.choice((1, 1, 2, 5))):
        place, other = chance.randrange(len(pages)), chance.randrange(len(pages))
        what = chance.randrange(9)
        if what < 3:
            pages[place] = bytearray(damaged(bytes(pages[place]), chance)[:4096].ljust(4096, b"\0"))
        elif what == 3:
            pages[place], pages[other] = pages[other], pages[place]
        elif what == 4:
            pages[place] = bytearray(pages[other])
        elif what == 5:
            pages[0][chance.randrange(100)] = chance.randrange(256)
        elif what == 6:  # the head of a page: its kind, its cells
            pages[place][chance.randrange(12)] = chance.randrange(256)
        elif what == 7:
            pages[place] = bytearray(4096)
        elif len(pages) > 2 and chance.random() < 0.3:
            del pages[place:]
    whole = b"".join(pages)
    return whole[: chance.randrange(len(whole))] if chance.random() < 0.03 else whole


def reproved(data: bytes, chance: random.Random, path: Path) -> bytes:
    """Change the JSON of a row and make the run's hashes anew, as somebody could who wants a journal that verifies."""

    def change(tamperer: Tamperer, connection: sqlite3.Connection) -> None:
        row = chance.choice(tamperer.rows["transitions"])
        column = chance.choice(
            ("guards", "request", "outcome", "change", "counters", "trigger", "source", "dest", "at")
        )
        with suppress(ValueError, TypeError):
            other = chance.choice((retyped, other_json))(json.loads(row[column]), chance)
            text = json.dumps(other, sort_keys=True, separators=(",", ":"))
            update(connection, "transitions", row, {column: text})
        if column in ("trigger", "source", "dest"):
            update(
                connection,
                "transitions",
                row,
                {column: chance.choice(("", "Done", "Reviewing", "wait", "x"))},
            )
        columns = 'SELECT id, "row" FROM rows WHERE id >> 32 = ? ORDER BY id'
        head = next(
            found["prev_hash"] for found in tamperer.rows["transitions"] if found["run"] == row["run"]
        )
        for key, text in connection.execute(columns, (row["run"],)).fetchall():
            head = sha256(head + text.encode()).digest()
            connection.execute("UPDATE rows SET hash = ? WHERE id = ?", (head, key))

    return _by_sql(data, path, change)


_tamperers: dict[int, Tamperer] = {}


def _by_sql(data: bytes, path: Path, change: Callable[[Tamperer, sqlite3.Connection], object]) -> bytes:
    path.write_bytes(data)
    tamperer = _tamperers.setdefault(hash(data), Tamperer(path))
    with closing(writable(sqlite3.connect(path, isolation_level=None))) as connection:
        for pragma in ("ignore_check_constraints = ON", "synchronous = OFF", "journal_mode = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        change(tamperer, connection)
    return path.read_bytes()
