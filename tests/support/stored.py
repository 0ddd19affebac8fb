"""What a journal file holds, read with SQL alone: specs, rows, prompts, replies, documents."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from paor import Journal
from paor.fsm.journal.sqlite.backend import SqliteBackend


def file_of(journal: Journal) -> SqliteBackend:
    """Return the file that a journal has open."""
    backend = journal.store.backend
    assert isinstance(backend, SqliteBackend)
    return backend


def query(file: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement, values).fetchall()


def started_with(file: Path) -> dict[str, Any]:
    """Return the newest run's spec."""
    statement = "SELECT body FROM specs JOIN payloads ON payloads.run = specs.run AND n = spec_payload"
    spec: dict[str, Any] = json.loads(query(file, f"{statement} ORDER BY specs.run DESC LIMIT 1")[0][0])
    return spec


def triggers(file: Path) -> list[str]:
    """Return the triggers of the newest run."""
    newest = "(SELECT max(run) FROM specs)"
    return [
        row[0] for row in query(file, f'SELECT "trigger" FROM transitions WHERE run = {newest} ORDER BY seq')
    ]


def prompts(file: Path, kind: str) -> list[dict[str, str]]:
    """Return every stored prompt of one kind, oldest first: the system's text, and all others as the user's."""
    statement = "SELECT run, seq FROM transitions WHERE request ->> '$.kind' = ? ORDER BY run, seq"
    found, known = [], dict[tuple[int, int], list[str]]()
    for run, seq in query(file, statement, kind):
        texts = [*_messages(file, run, seq, known)]
        said = {"system": texts.pop(0)} if len(texts) > 1 else {}
        found.append(said | {"user": "\n\n".join(texts)})
    return found


def _messages(file: Path, run: int, seq: int, known: dict[tuple[int, int], list[str]]) -> list[str]:
    """Return the messages of a row's prompt, those included that it shares with an earlier one, which are known then."""
    if (run, seq) not in known:
        statement = "SELECT request FROM transitions WHERE run = ? AND seq = ?"
        request = json.loads(query(file, statement, run, seq)[0][0])
        before, count = request.get("after", (0, 0))
        shared = _messages(file, run, before, known)[:count] if count else []
        body = "SELECT body FROM payloads WHERE run = ? AND n = ?"
        known[run, seq] = shared + [query(file, body, run, part["n"])[0][0] for part in request["prompt"]]
    return known[run, seq]


def parts(prompt: dict[str, str]) -> dict[str, str]:
    """Return the sections of a stored prompt's user message by heading, in order."""
    split = re.split(r"(?m)^## (.*)$", prompt["user"])
    return {name: body.strip("\n") for name, body in zip(split[1::2], split[2::2], strict=True)}


def blocked_steps(file: Path) -> list[int]:
    """Return the steps of the newest run whose call the duplicate guard blocked."""
    newest = "(SELECT run_id FROM specs ORDER BY run DESC LIMIT 1)"
    statement = f"SELECT step FROM v_actions WHERE run_id = {newest} AND error = 'duplicate_call_blocked'"
    return [row[0] for row in query(file, f"{statement} ORDER BY seq")]


def labels(file: Path) -> list[str]:
    """Return label and position of every document in the file."""
    return [f"{label}#{place}" for label, place in query(file, "SELECT label, position FROM documents")]
