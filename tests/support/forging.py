"""
A journal's file with views that can be written, for tests that change by hand what a file says.

A file has one text a row; `transitions` and `payloads` are views of it. Triggers of one connection, which are not in the file, carry a change
of the views into the tables, whatever it says: a forger keeps to no rule.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .inside import GUARD_LETTERS

COLUMNS = (
    *("action", "at", "change", "cost_micro", "counters", "dest", "guards", "outcome", "request", "retries"),
    *("seq", "source", "step", "time_us", "tokens_in", "tokens_out", "trigger"),
)
"""Columns of a row that its text has, in their order."""

_JSON = ("change", "counters", "guards", "outcome", "request")
_NOTHING = {"counters": {}, "outcome": {"kind": "none"}, "request": {"kind": "none"}} | dict.fromkeys(
    ("action", "cost_micro", "retries", "step", "time_us", "tokens_in", "tokens_out"), 0
)


def stored_row(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object in a row's text for what its columns say, those that are JSON as data: as docs/journal-format.md has it."""
    row = {name: value for name, value in columns.items() if (name, value) not in _NOTHING.items()}
    held = row.pop("guards")
    if not isinstance(held, dict) or not all(isinstance(value, bool) for value in held.values()):
        return row | {"guards": held}
    letters = {name: letter for letter, name in GUARD_LETTERS.items()}
    told = [
        sorted(letters[name] for name in held if name in letters and held[name] is value)
        for value in (True, False)
    ]
    if any(told):
        row["guards"] = "-".join("".join(part) for part in told)
    if own := {name: value for name, value in held.items() if name not in letters}:
        row["own_guards"] = own
    return row


def _row_text(*values: Any) -> str:
    """Return a row's text as a forger writes it: a column that is no JSON as a text, bytes, which JSON cannot hold, in hex."""
    columns = {}
    for name, value in zip(COLUMNS, values, strict=True):
        columns[name] = value.hex() if isinstance(value, bytes) else value
        if name in _JSON:
            with suppress(TypeError, ValueError):
                columns[name] = json.loads(columns[name])
    return json.dumps(stored_row(columns), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


_ROW = f"row_text({', '.join(f'NEW.{chr(34)}{name}{chr(34)}' for name in COLUMNS)})"


def _held(name: str) -> str:
    """Return in SQL a column of the changed payload as JSON can hold it; a digest that is as it was is not in it."""
    if name == "digest":
        return "CASE WHEN NEW.digest IS OLD.digest AND NEW.salt IS NOT NULL THEN NULL ELSE NEW.digest END"
    if name == "media_type":
        return "CASE NEW.media_type WHEN 'application/json' THEN NULL ELSE NEW.media_type END"
    return f"CASE typeof(NEW.{name}) WHEN 'blob' THEN hex(NEW.{name}) ELSE NEW.{name} END"


_SAME = "value ->> '$[0]' = OLD.n"
_OTHERS = "SELECT coalesce(json_group_array(json(value)), '[]') FROM json_each(texts) WHERE NOT " + _SAME
_CHANGED = (
    "SELECT json_group_array(CASE WHEN "
    + _SAME
    + " THEN json_array("
    + ", ".join(map(_held, ("n", "media_type", "digest", "salt", "body")))
    + ") ELSE json(value) END) FROM json_each(texts)"
)
_HOLDS = f"id BETWEEN OLD.run << 32 AND OLD.run << 32 | 4294967295 AND EXISTS (SELECT 1 FROM json_each(texts) WHERE {_SAME})"

TRIGGERS = f"""
CREATE TEMP TRIGGER forge_row INSTEAD OF UPDATE ON main.transitions BEGIN
  UPDATE rows SET "row" = {_ROW}, hash = NEW.hash WHERE id = OLD.id;
  UPDATE rows SET id = CASE WHEN NEW.id <> OLD.id THEN NEW.id ELSE NEW.run << 32 | NEW.seq END
    WHERE id = OLD.id AND (NEW.id <> OLD.id OR NEW.run <> OLD.run OR NEW.seq <> OLD.seq);
END;
CREATE TEMP TRIGGER forge_no_row INSTEAD OF DELETE ON main.transitions BEGIN
  DELETE FROM rows WHERE id = OLD.id;
END;
CREATE TEMP TRIGGER forge_new_row INSTEAD OF INSERT ON main.transitions BEGIN
  INSERT INTO rows (id, "last", "row", hash, texts)
    VALUES (NEW.id, NEW.id >> 32 << 32 | NEW.change ->> '$.n', {_ROW}, NEW.hash, '[]');
END;
CREATE TEMP TRIGGER forge_payload INSTEAD OF UPDATE ON main.payloads BEGIN
  UPDATE texts SET id = CASE WHEN NEW.id <> OLD.id THEN NEW.id ELSE NEW.run << 32 | NEW.n END, media_type = NEW.media_type,
    digest = NEW.digest, salt = NEW.salt, body = NEW.body WHERE id = OLD.id;
  INSERT INTO texts SELECT OLD.id, NEW.media_type, NEW.digest, NEW.salt, NEW.body FROM rows WHERE typeof(NEW.body) = 'blob' AND {_HOLDS};
  UPDATE rows SET texts = CASE typeof(NEW.body) WHEN 'blob' THEN ({_OTHERS}) ELSE ({_CHANGED}) END WHERE {_HOLDS};
END;
CREATE TEMP TRIGGER forge_new_payload INSTEAD OF INSERT ON main.payloads BEGIN
  INSERT INTO texts VALUES (NEW.id, NEW.media_type, NEW.digest, NEW.salt, NEW.body);
END;
CREATE TEMP TRIGGER forge_no_payload INSTEAD OF DELETE ON main.payloads BEGIN
  DELETE FROM texts WHERE id = OLD.id;
  UPDATE rows SET texts = ({_OTHERS}) WHERE {_HOLDS};
END;
"""


def writable(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection to a journal whose views it can write; only on it, and once. What is no journal has none."""
    known = {
        name
        for (name,) in connection.execute(
            "SELECT name FROM main.sqlite_master UNION SELECT name FROM temp.sqlite_master"
        )
    }
    if "forge_row" not in known and {"transitions", "payloads"} <= known:
        connection.create_function("row_text", len(COLUMNS), _row_text)
        connection.executescript(TRIGGERS)
    return connection


def change(connection: sqlite3.Connection, statement: str, *values: object) -> int:
    """Carry a statement out and return how many rows of the tables it has changed; a view's own count is always none."""
    before = connection.total_changes
    connection.execute(statement, values)
    return connection.total_changes - before


def forge(path: str | Path) -> sqlite3.Connection:
    """Return a new connection to the journal at *path* whose views it can write."""
    return writable(sqlite3.connect(path))
