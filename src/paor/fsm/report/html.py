"""
One HTML text of the page's parts: the file that `paor report` writes, and the page that `paor inspect` serves.

The page's own code is the style sheet and the scripts in ``assets``, of which the comments and indents are left out. It may run, and
nothing else: a content security policy names the digests of its style and its scripts, and forbids every request, or every one but to
the server that serves the page. Both are packed as the parts are (gzip, base64); a few lines unpack them. Data is never
code: a part is text of base64, which holds no character that HTML or JavaScript could take for markup. The story of the run that
the file opens with is the element ``#story``, for other programs: the JSON of ``paor show --json``, with each ``<``, ``>`` and ``&`` as an escape.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import cache
from importlib import resources
from typing import Any

import orjson

from ...states.base.errors import UsageError
from ..journal.places.opening import open_store
from ..journal.read_ahead import ReadAhead
from ..journal.reader import JournalReader, Readable, reader_of
from ..journal.rows import RunRow
from ..transfer.export import export_runs, line_bytes
from ..transfer.importer import import_lines
from ..transfer.redaction import Redaction, redaction_of
from ..verify.verify import RunDefects
from .run_view import CHUNK, RunView
from .view import JournalView

SCRIPTS = (
    "dom",
    "store",
    "chain",
    "diff",
    "list",
    "lanes",
    "machine",
    "row",
    "head",
    "calls",
    "find",
    "transcript",
    "limits",
    "compare",
    "overview",
    "runs",
    "inbox",
    "main",
)
"""Files of the page's code by subject, in the order in which they are put together; all have one scope."""

_LOADER = """\
"use strict";
(async () => {
const policy = globalThis.trustedTypes?.createPolicy("paor-code", {createScript: text => text});
const unpacked = async id => {
const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), sign => sign.charCodeAt(0));
return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
const [style, code] = [document.createElement("style"), document.createElement("script")];
style.textContent = await unpacked("style");
const text = await unpacked("code");
code.text = policy ? policy.createScript(text) : text;
document.head.append(style, code);
})().catch(error => {
document.getElementById("app").textContent = "This page needs a browser that can unpack gzip and run its own script: " + error.message;
});
"""

_PAGE = """\
<!doctype html>
<html lang="en"{live}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>paor</title>
</head>
<body>
<noscript>This page shows a run of paor with JavaScript, and needs nothing else.</noscript>
<div id="app"></div>
<script type="text/plain" id="style">{style}</script>
<script type="text/plain" id="code">{code}</script>
"""

_START = "<script>{loader}</script>\n"
_END = "</body>\n</html>\n"


def page_html(parts: Mapping[str, Any], *, live: str = "") -> str:
    """Return the page of some parts as one text; see `page_texts`."""
    return "".join(page_texts(parts.items(), live=live))


def page_texts(parts: Iterable[tuple[str, Any]], *, live: str = "") -> Iterator[str]:
    """
    Yield the page piece by piece, together one HTML text; same parts, same bytes.

    Args:
        parts: Name and data of what the page shows, as `view.JournalView.part` gives it: ``index``, ``run/ID``, ``rows/ID/CHUNK``, ``diff``;
            and ``story``, that of the run that the page opens with, which is not in its ``run/ID`` then. A run may have the name of a part, such as ``machine/0``, in the place of its machine. The page begins to work before the first part
            of rows, so ``index`` and what is opened first stand before them.
        live: Where the page asks for its parts instead, a path that ends with a slash such as ``/``; empty: it asks for nothing.
    """
    yield _PAGE.format(
        live=f' data-live="{html.escape(live)}"' if live else "",
        policy=html.escape(content_policy(live=bool(live))),
        style=_code_packed(_style()),
        code=_code_packed(_code()),
    )
    start = _START.format(loader=_LOADER)
    for name, part in parts:
        if name.startswith("rows/") and start:
            yield start
            start = ""
        if name == "story":
            data = json.dumps(part, separators=(",", ":"), allow_nan=False)
            for sign in "<>&":
                data = data.replace(sign, f"\\u{ord(sign):04x}")
            yield f'<script type="application/json" id="story">{data}</script>\n'
        else:
            yield f'<script type="text/plain" data-part="{html.escape(name)}">{packed(_json(part))}</script>\n'
    yield start + _END


def content_policy(*, live: bool) -> str:
    """Return the content security policy of the page, without what only a header can say (``frame-ancestors``)."""
    rules = [
        "default-src 'none'",
        f"style-src {_digest(_style())}",
        f"script-src {_digest(_LOADER)} {_digest(_code())}",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types paor paor-code",
    ]
    return "; ".join([*rules, "connect-src 'self'"] if live else rules)


def packed(text: bytes, level: int = 5) -> str:
    """Return a text as the page unpacks it: UTF-8, gzip without a time, base64."""
    return base64.b64encode(gzip.compress(text, level, mtime=0)).decode()


@cache
def _code_packed(text: str) -> str:
    """Return a part of the page's own code, packed once and as small as can be."""
    return packed(text.encode(), 9)


def _json(part: Any) -> bytes:
    try:
        return orjson.dumps(part)
    except TypeError:  # half of a surrogate pair, a number of more than 64 bits
        return json.dumps(part, separators=(",", ":"), allow_nan=False).encode()


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _style() -> str:
    return _lean(_asset("page.css"))


@cache
def _code() -> str:
    """Return the scripts as one, in a scope of its own."""
    lines = "".join(_lean(_asset(f"{name}.js")) for name in SCRIPTS)
    return f'"use strict";(()=>{{\n{lines}}})();\n'


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _lean(source: str) -> str:
    """Return a source without indents, empty lines, and lines that only comment; no text of the assets goes over several lines."""
    lines = (line.strip() for line in source.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith(("//", "/*")))


def report(
    journal: Readable,
    run: str | None = None,
    *,
    diff: str | None = None,
    redact: Redaction | Mapping[str, str] | bool | None = None,
) -> str:
    """
    Return a page of one run, of two that are compared, or of all runs of a journal, as the text of one HTML file.

    It shows everything that the journal knows, needs no server and no network, and is the same for the same journal. Keys of the
    environment stand nowhere in it. The page computes the hash chain again and says so. The run that it opens with is also there for other
    programs: the element ``#story`` holds the JSON that ``paor show --json`` prints of it.

    Args:
        journal: That holds the runs.
        run: The run; None: all of them, with a list that can be filtered.
        diff: A second run, shown beside *run* up to their first difference.
        redact: As for `Journal.export`: what is left out there is not in the page either.

    Raises:
        UsageError: A second run without a first one, rules that cannot be used, or a journal without runs.
        UnknownRun: There is no such run.
        JournalDamaged: A row cannot be read.
    """
    return "".join(report_texts(journal, run, diff=diff, redact=redact))


def report_texts(
    journal: Readable,
    run: str | None = None,
    *,
    diff: str | None = None,
    redact: Redaction | Mapping[str, str] | bool | None = None,
) -> Iterator[str]:
    """Yield the page of `report` piece by piece, so that a page of many runs is never in memory as a whole."""
    reader = reader_of(journal, "report takes a Journal, such as report(engine.journal, run_id)")
    if diff is not None and run is None:
        raise UsageError("diff= names a second run, to be compared with run=")
    rules = redaction_of(redact)
    with ExitStack() as stack:
        name = reader.name
        still = stack.enter_context(reader.snapshot())
        if run is None:
            rows = sorted(still.runs(), key=lambda row: (row.created_at, row.run_id), reverse=True)
        else:
            rows = [still.run(item) for item in (run, diff) if item is not None]
        rows = list({row.run_id: row for row in rows}.values())
        if not rows:
            raise UsageError(
                f"{reader.path}: the journal holds no run yet; start one with: paor run OBJECTIVE"
            )
        if rules is not None:
            still = _redacted(stack, still, [row.run_id for row in rows], rules)
            rows = [still.run(row.run_id) for row in rows]
        ahead = ReadAhead(still.source, still.with_objectives(rows))
        yield from page_texts(
            _parts(ahead, rows, compared=diff is not None, redacted=rules is not None, name=name)
        )


def _redacted(
    stack: ExitStack, reader: JournalReader, run_ids: Sequence[str], rules: Redaction
) -> JournalReader:
    """Return a reader of a copy in memory that holds what a redacted export of the runs holds, and no more."""
    store = open_store(":memory:", "off")
    stack.callback(store.close)
    import_lines(store, map(line_bytes, export_runs(reader, run_ids, rules)))
    return store.reader


def _parts(
    reader: JournalReader, rows: Sequence[RunRow], *, compared: bool, redacted: bool, name: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every part of the page by its name; the runs by their numbers, as the journal is read."""
    view = JournalView(reader, name=name)
    index = view.index(rows) | {"compared": compared} | ({"open": rows[0].run_id} if compared else {})
    yield "index", index
    lines = {line["id"]: line for line in index["runs"]}
    if compared:
        yield "diff", view.difference(rows[0].run_id, rows[-1].run_id)
    machines: list[Mapping[str, Any]] = []
    talks: dict[str, str] = {}
    with closing(RunDefects(reader)) as defects:
        for row in sorted(rows, key=lambda row: row.run):
            run = RunView(reader, row.run_id, defects=defects.of)
            head = run.head(lines[row.run_id])
            machine = head.pop("machine")
            if row.run_id == index["open"]:
                yield "story", view.clean(head.pop("story"))
            place = next((place for place, item in enumerate(machines) if item is machine), len(machines))
            if place == len(machines):
                machines.append(machine)
                yield f"machine/{place}", view.clean(machine)
            shared = {"machine": f"machine/{place}"}
            if row.conversation is not None:
                if row.conversation not in talks:
                    talks[row.conversation] = f"talk/{len(talks)}"
                    yield talks[row.conversation], view.talk(row.conversation)
                shared["talk"] = talks[row.conversation]
            yield f"run/{row.run_id}", view.clean(head) | shared | {"redacted": redacted}
            for number in range(-(-run.count // CHUNK)):
                yield f"rows/{row.run_id}/{number}", view.clean(run.chunk(number))
