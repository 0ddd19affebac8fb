"""
What an evaluation has paid for and found, kept in one SQLite file: an evaluation that was interrupted asks nothing twice.

A table of lines that only grows: replies, errors and scores, each with the hash of the line before it in its own. The digest of a
request finds its reply: the model's name, the messages, the tools, the schema and the limit of the reply. The words of a request are
not kept, since they can be derived again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from ...prompts.clients.background_loop import ask
from ...prompts.clients.settings import said_scrubber
from ...prompts.model import Model, ModelCall, ModelUnavailable, Reply, checked_reply, estimated_usage
from ...states.base.errors import JournalBusy, JournalDamaged, JournalError, UsageError
from ...states.records.outcomes import NO_USAGE, Usage
from ..runtime.ports import SystemClock
from ..runtime.tool_results import message_of

DEFAULT = "evaluation.db"
APPLICATION_ID = 0x7061_6576
"""``paev``: how a file of an evaluation says what it is."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS lines"
    " (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, hash BLOB NOT NULL);"
    " CREATE INDEX IF NOT EXISTS by_key ON lines (kind, key)"
)


class Kept:
    """
    The file of an evaluation.

    Args:
        path: Of the file; ``:memory:`` keeps it in this process.
        create: Whether a file that is missing is created, and can be written; else it counts as empty.

    Raises:
        UsageError: It is another kind of file, or cannot be opened or written.
        JournalDamaged: A line was changed, or one before the last is gone.
    """

    def __init__(self, path: str | os.PathLike[str] = DEFAULT, *, create: bool = True) -> None:
        self.path = os.fspath(path)
        self._clock = SystemClock()
        with self._told():
            place = self.path if create or os.path.exists(self.path) else ":memory:"
            self._file = sqlite3.connect(place, timeout=30, isolation_level=None)
            self._check(create or place != self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check(self, write: bool) -> None:
        (tables,) = self._file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (own,) = self._file.execute("PRAGMA application_id").fetchone()
        if own != APPLICATION_ID and (tables or own or not write):
            raise UsageError(f"{self.path}: is no file of an evaluation")
        if write:  # now, and not behind a reply that was paid for
            self._file.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; {_TABLE}; COMMIT"
            )
        last = b""
        lines = self._file.execute("SELECT id, kind, key, data, hash FROM lines ORDER BY id")
        for number, *line, found in lines:
            last = _hash(last, *line)
            if last != found:
                raise JournalDamaged(f"{self.path}: line {number} does not fit its hash")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "") or ""
            if name.startswith("SQLITE_BUSY"):
                raise JournalBusy(f"{self.path}: another process holds it") from error
            no_use = name.startswith(("SQLITE_NOTADB", "SQLITE_CANTOPEN", "SQLITE_READONLY"))
            kind = UsageError if no_use else JournalError
            raise kind(f"{self.path}: cannot be used as the file of an evaluation ({error})") from error

    def latest(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return the newest line of a *kind* with a *key*, None where there is none."""
        told = "SELECT data FROM lines WHERE kind = ? AND key = ? ORDER BY id DESC LIMIT 1"
        with self._told():
            found = self._file.execute(told, (kind, key)).fetchone()
        return json.loads(found[0]) if found else None

    def append(self, kind: str, key: str, data: Mapping[str, Any]) -> None:
        """Add a line; it is durable afterwards."""
        text = json.dumps(data, sort_keys=True)
        with self._told():
            self._file.execute("BEGIN IMMEDIATE")
            try:
                last = self._file.execute("SELECT hash FROM lines ORDER BY id DESC LIMIT 1").fetchone()
                line = kind, key, text, _hash(last[0] if last else b"", kind, key, text)
                self._file.execute("INSERT INTO lines (kind, key, data, hash) VALUES (?, ?, ?, ?)", line)
                self._file.execute("COMMIT")
            except BaseException:
                self._file.execute("ROLLBACK")
                raise

    def ask(
        self, model: Model, call: ModelCall, check: Callable[[Reply], object] = lambda reply: None
    ) -> Reply:
        """
        Return the reply to a request: the kept one, else the model's, which is kept then; what it used is 0 for a kept one.

        Args:
            model: That is asked.
            call: The request.
            check: Raises `ModelUnavailable` for a reply that is of no use; it is kept as an error, and asked for again.

        Raises:
            ModelUnavailable: There is none; a later call asks again.
        """
        key = request_key(model.name, call)
        found = self.latest("reply", key)
        if found is not None:
            return Reply(found["text"], NO_USAGE, found["finish"])
        about = {"model": model.name, "run_id": call.run_id, "seq": call.seq}
        reply, usage = None, NO_USAGE
        try:
            reply = _asked(model, call)
            usage = reply.usage or estimated_usage(call, reply.text)
            check(reply)
        except ModelUnavailable as error:
            told = {"code": error.code, "message": error.message, "text": reply.text if reply else None}
            self._note("error", key, about | told, error.usage or usage)
            raise
        self._note("reply", key, about | {"text": reply.text, "finish": reply.finish}, usage)
        return replace(reply, usage=usage)

    def _note(self, kind: str, key: str, data: dict[str, Any], usage: Usage) -> None:
        used = {name: value for name, value in asdict(usage).items() if value}
        self.append(kind, key, data | {"at_us": self._clock.now_us(), "usage": used})


def _asked(model: Model, call: ModelCall) -> Reply:
    """Return a model's reply without keys; whatever it raises is a `ModelUnavailable`."""
    try:
        reply = checked_reply(ask(model, call))
        return replace(reply, text=said_scrubber(model).of_said(reply.text))
    except ModelUnavailable as error:
        words = said_scrubber(model).of_said(error.message)
        raise ModelUnavailable(error.code, words, error.usage) from None
    except Exception as error:
        told = f"{type(error).__name__}: {message_of(error, model)}"
        raise ModelUnavailable("unexpected", told) from None


def request_key(name: str, call: ModelCall) -> str:
    """Return the digest by which the reply of the model *name* to a request is found."""
    told = name, call.kind, call.messages, call.schema, call.tools, call.may_call, call.max_tokens
    return sha256(json.dumps(to_builtins(told), sort_keys=True).encode()).hexdigest()


def _hash(last: bytes, *texts: str) -> bytes:
    return sha256(last + b"\0".join(text.encode("utf-8", "surrogatepass") for text in texts)).digest()
