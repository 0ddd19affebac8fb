"""
Tampering: any change of a journal's tables by somebody who may write the file, from a seed, with the places it must show at.

A journal of many runs is read into memory once; a case copies it, changes it, and says by which of the places, each as
``table number`` within a run, the change must be named. The place is the row that was changed, or, where that row now
fits itself, the first one whose chain breaks as a consequence.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paor.testing import SeededIds

from ..support.forging import forge
from ..support.forks import Forker, given_after
from ..support.inside import COLUMNS, PREV_HASH, chain_hash, salted_digest
from ..support.journeys import BY_NAME, play
from ..support.worlds import JOURNAL

NUMBERS = {"transitions": "seq", "payloads": "n", "documents": "number", "erasures": "number"}
TABLES = {"transitions": "rows", "payloads": "texts"}
"""Where the rows of a view are, but for most payloads, which are with their rows."""

PLAYED = (
    "documents",
    "tool_error",
    "in_doubt_done",
    "formatted",
    "batch",
    "planner",
    "planner_asked",
    "odd_texts",
)
"""Runs of every mode, with documents, errors, waits, an effect in doubt, and texts that are no ASCII."""


def build(folder: Path) -> Path:
    """Write the journal that is tampered with: the runs above, and one that waits."""
    for name in PLAYED:
        with BY_NAME[name].engine(folder, ids=SeededIds(name)) as scripted:
            play(BY_NAME[name], scripted)
    with BY_NAME["approved"].engine(folder, ids=SeededIds("approved")) as scripted:
        assert scripted.run("Send").status == "waiting"
    _fork_and_erase(folder)
    return folder / JOURNAL


def _fork_and_erase(folder: Path) -> None:
    """Add a run with a fork, and one whose prompts were erased, the first of them by a record of its own."""
    journey = BY_NAME["two_pages"]
    with journey.engine(folder, ids=SeededIds("forked")) as scripted:
        parent = play(journey, scripted).run_id
    with Forker(journey, folder, "tampering") as forker:
        forker.finish(forker.fork(parent, 4), given_after(forker.journal, parent, 4))
    with BY_NAME["documents"].engine(folder, ids=SeededIds("erased")) as scripted:
        run_id, journal = play(BY_NAME["documents"], scripted).run_id, scripted.journal
        prompts = {item["n"] for row in journal.transitions(run_id) for item in row.request.get("prompt", ())}
        first, *others = sorted(prompts)
        journal.erase(run_id, payloads=[first], reason="T-1")
        journal.erase(run_id, payloads=others)


@dataclass(frozen=True)
class Case:
    """
    One change.

    Attributes:
        seed: Makes it again.
        kind: Of change.
        what: The statement or columns, for messages.
        places: Regular expression of ``run_id place`` for the places of which one must be named by both verifiers.
        runs: Ids of the runs that may be named at all; empty for any.
        head: Whether only a head that was kept elsewhere can tell.
    """

    seed: int
    kind: str
    what: str
    places: str
    runs: tuple[str, ...]
    head: bool = False


Row = dict[str, Any]


class Tamperer:
    """Makes cases from seeds, on connections to copies of one journal."""

    def __init__(self, path: Path) -> None:
        connection = forge(path)
        connection.row_factory = sqlite3.Row
        self.rows: dict[str, list[Row]] = {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1")]
            for table in ("specs", *NUMBERS)
        }
        self.views = [
            tuple(row)
            for row in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'")
        ]
        self.tables = [
            tuple(row)
            for row in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        ]
        self.stored = [
            (row[0], row[0] >> 32, row[0] & (2**32 - 1), column)
            for row in connection.execute("SELECT id FROM rows ORDER BY id")
            for column in ("last", "row", "texts")
        ]
        connection.close()
        self.ids = {spec["run"]: spec["run_id"] for spec in self.rows["specs"]}
        self.last = {
            run: max(row["seq"] for row in self.rows["transitions"] if row["run"] == run) for run in self.ids
        }

        specs = self.rows["specs"]
        self.forks = {
            spec["parent_run_id"]: spec["run_id"] for spec in specs if spec["parent_run_id"] is not None
        }
        erased = {row["run"] for row in self.rows["erasures"]}
        related = {*self.forks, *self.forks.values()}
        self.alone = [run for run, run_id in self.ids.items() if run not in erased and run_id not in related]
        """Runs of which an end can be cut, or all of them taken away, and nothing that stays tells."""

    def case(self, seed: int, connection: sqlite3.Connection) -> Case:
        """Apply the change of *seed* to the journal behind *connection* and tell where it must show."""
        chance = random.Random(seed)
        while True:
            connection.execute("SAVEPOINT attempt")
            made = chance.choice(KINDS)(self, chance, connection)
            if made is None:  # which may have been written all the same: a view writes a row anew
                connection.execute("ROLLBACK TO attempt")
            connection.execute("RELEASE attempt")
            if made is not None:
                kind, what, places, runs, head = made
                blamed = (*runs, *(self.forks[run_id] for run_id in runs if run_id in self.forks))
                return Case(seed, kind, what, places, blamed, head)  # a fork shares what does not hold

    # -- edits -------------------------------------------------------------------------------------------------

    def edit(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """One value of one row: a bit, a number, a letter, a type, a JSON member."""
        table = chance.choice(tuple(self.rows))
        row = chance.choice(self.rows[table])
        column = chance.choice(list(row))
        if column in ("made", "prev_hash") or (table, column) == ("payloads", "id"):
            return None  # which the view makes of other columns
        if column == "media_type" and row["body"] is None:
            return None  # what proved it is gone
        value = other_value(row[column], chance)
        if table in TABLES and column in ("id", "run", NUMBERS[table]) and not isinstance(value, int):
            return None
        if not update(db, table, row, {column: value}):
            return None
        return (
            "edit",
            f"{table}.{column} = {value!a:.60}",
            self.place(table, row, column),
            self.blamed(row, column, value),
            False,
        )

    def edit_json(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """One member of a JSON column or payload changed, added or taken away."""
        table = chance.choice(("transitions", "payloads"))
        row = chance.choice(self.rows[table])
        column = (
            chance.choice(("guards", "request", "outcome", "change", "counters"))
            if table == "transitions"
            else "body"
        )
        try:
            data = json.loads(row[column])
        except (TypeError, ValueError):
            return None
        text = json.dumps(other_json(data, chance), sort_keys=True, separators=(",", ":"))
        if text == row[column] or not update(db, table, row, {column: text}):
            return None
        return (
            "edit_json",
            f"{table}.{column}",
            self.place(table, row, column),
            (self.ids[row["run"]],),
            False,
        )

    def edit_rehashed(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """A row changed and its own hash made anew: the next one does not follow it; at the end only a head tells."""
        row = chance.choice(self.rows["transitions"])
        column = chance.choice(("at", "step", "tokens_in", "cost_micro", "time_us"))
        changed = row | {column: row[column] + chance.randrange(1, 9)}
        after = chain_hash(row["prev_hash"], tuple(changed[name] for name in COLUMNS[:PREV_HASH]))
        assert update(db, "transitions", row, {column: changed[column], "hash": after})
        run = self.ids[row["run"]]
        if row["seq"] == self.last[row["run"]]:
            return "edit_rehashed", "last", rf"{run} head seq {row['seq']}\b", (run,), True
        return "edit_rehashed", column, rf"{run} transitions seq {row['seq'] + 1}\b", (run,), False

    def edit_redigested(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """A payload with a body of its own, and the digest made anew: what refers to it says another one."""
        row = chance.choice(self.rows["payloads"])
        body, salt = f"{row['body']} ", chance.randbytes(16)
        media_type = chance.choice((row["media_type"], "text/x-forged"))
        digest = salted_digest(salt, body, media_type).hex()
        changed = {"body": body, "salt": salt.hex(), "digest": digest, "media_type": media_type}
        assert update(db, "payloads", row, changed)
        run = self.ids[row["run"]]
        return (
            "edit_redigested",
            f"n {row['n']}",
            rf"{run} (payloads n {row['n']}|documents number \d+)\b",
            (run,),
            False,
        )

    def edit_stored(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """One character of a row's text or of the texts beside it, or the number by which these are found."""
        key, run, seq, column = chance.choice(self.stored)
        (old,) = db.execute(f'SELECT "{column}" FROM rows WHERE id = ?', (key,)).fetchone()
        if column == "last":
            value = old + chance.choice((-1, 1, 2**20))
        else:
            at = chance.randrange(len(old))
            value = f"{old[:at]}{chance.choice('x0 {]')}{old[at + chance.randrange(2) :]}"
        if value == old or (column == "texts" and same_texts(old, value)):
            return None
        try:
            db.execute(f'UPDATE rows SET "{column}" = ? WHERE id = ?', (value, key))
        except (
            sqlite3.IntegrityError,
            sqlite3.OperationalError,
        ):  # of a row that is no JSON, or a number twice
            return None
        places = rf"{self.ids[run]} (transitions seq {seq}|payloads n \d+|payloads|documents number \d+)$|^ (view runs|file)$"
        return "edit_stored", f"{column} of {seq}", places, (self.ids[run],), False

    # -- rows --------------------------------------------------------------------------------------------------

    def delete(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """One row taken away; the last row of a run leaves its payloads behind."""
        table = chance.choice(tuple(NUMBERS))
        row = chance.choice(self.rows[table])
        if table == "transitions" and row["seq"] == self.last[row["run"]]:
            return None  # its texts go with it, as if it were cut off
        db.execute(f"DELETE FROM {table} WHERE id = ?", (row["id"],))
        assert db.execute(f"SELECT 1 FROM {table} WHERE id = ?", (row["id"],)).fetchone() is None
        run, number = self.ids[row["run"]], row[NUMBERS[table]]
        places = {
            "transitions": rf"{run} (transitions seq {number + 1}\b|payloads$)",
            "payloads": rf"{run} payloads( n ({number}|{number + 1})$|$)",
            "documents": rf"{run} documents number {number}$",
            "erasures": rf"{run} (erasures number {number + 1}|payloads n \d+)$",
        }
        return "delete", f"{table} {number}", places[table], (run,), False

    def delete_run(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """A run's first columns, with or without everything else of it."""
        whole = chance.random() < 0.5
        run = chance.choice(self.alone if whole else list(self.ids))
        for table in ("leases", *NUMBERS) if whole else ():
            db.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
        db.execute("DELETE FROM specs WHERE run = ?", (run,))
        if whole:
            return "delete_run", "whole", rf"{self.ids[run]} head seq \d+$", (self.ids[run],), True
        return "delete_run", "specs", rf"^ (rows|texts) run {run}$", (self.ids[run],), False

    def cut(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """The last rows of a run, with the payloads and documents that came with them: nothing but a head tells."""
        run = chance.choice(self.alone)
        seq = chance.randrange(0, self.last[run] + 1)
        rows = [row for row in self.rows["transitions"] if row["run"] == run]
        count = json.loads(rows[seq - 1]["change"])["n"] if seq else self.spec_payload(run)
        given = sum(row["run"] == run and row["label"].endswith("_input") for row in self.rows["documents"])
        executed = [
            json.loads(row["outcome"])["documents"] for row in rows[:seq] if row["trigger"] == "execute"
        ]
        pending = bool(seq) and rows[seq - 1]["trigger"] == "execute"
        first = given + sum(executed[:-1] if pending else executed)
        db.execute("DELETE FROM transitions WHERE run = ? AND seq >= ?", (run, seq))
        db.execute("DELETE FROM payloads WHERE run = ? AND n > ?", (run, count))
        db.execute("DELETE FROM documents WHERE run = ? AND number >= ?", (run, first))
        return (
            "cut",
            f"from seq {seq}",
            rf"{self.ids[run]} head seq {self.last[run]}$",
            (self.ids[run],),
            True,
        )

    def insert(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """A copy of a row as the next one of a run, or of a run that does not exist."""
        table = chance.choice(tuple(NUMBERS))
        row = chance.choice(self.rows[table])
        key = NUMBERS[table]
        run = chance.choice([*self.ids, 99])
        number = 1 + max((own[key] for own in self.rows[table] if own["run"] == run), default=-1)
        copy = row | {"id": run << 32 | number, "run": run, key: number}
        marks = ", ".join("?" * len(copy))
        try:
            db.execute(f"INSERT INTO {table} VALUES ({marks})", tuple(copy.values()))
        except sqlite3.IntegrityError:  # its change is the last text of another row already
            return None
        if run == 99:
            return "insert", f"{table} of no run", rf"^ {TABLES.get(table, table)} run 99$", ("",), False
        places = rf"{self.ids[run]} ({table} {key} {number}$|payloads$)"
        return "insert", f"{table} {number}", places, (self.ids[run],), False

    def swap(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """Two rows of a run, or of two runs, in each other's place; bodies of payloads too."""
        table = chance.choice(tuple(NUMBERS))
        one, two = chance.sample(self.rows[table], 2)
        if chance.random() < 0.5:
            same = [row for row in self.rows[table] if row["run"] == one["run"] and row["id"] != one["id"]]
            two = chance.choice(same) if same else two
        key = NUMBERS[table]
        names = [name for name in one if name not in ("id", "run", key)]
        if table == "payloads" and chance.random() < 0.5:
            names = chance.choice((["body"], ["salt"], ["digest"], ["media_type"], ["body", "media_type"]))
        first, second = {name: one[name] for name in names}, {name: two[name] for name in names}
        if first == second:
            return None
        assert update(db, table, one, second) and update(db, table, two, first)
        runs = tuple({self.ids[one["run"]], self.ids[two["run"]]})
        places = "|".join(f"{self.ids[row['run']]} {table} {key} {row[key]}$" for row in (one, two))
        return "swap", f"{table} {one[key]} and {two[key]}: {names[:2]}", places, runs, False

    # -- the schema --------------------------------------------------------------------------------------------

    def schema(self, chance: random.Random, db: sqlite3.Connection) -> Made:
        """A view or a table made anew with other words, or a trigger."""
        what = chance.choice(("view", "table", "trigger"))
        if what == "trigger":
            table = chance.choice(("rows", "texts", "documents", "erasures"))
            verb = chance.choice(("DELETE", "INSERT", "UPDATE"))
            db.execute(f"CREATE TRIGGER t{chance.randrange(9)} AFTER {verb} ON {table} BEGIN SELECT 1; END")
            return "schema", f"trigger on {table}", r"^ trigger t\d$", ("",), False
        name, sql = chance.choice(self.views if what == "view" else self.tables)
        words = re.findall(r"[a-z_]{3,}|\d+|'\w+'", sql[20:])
        word = chance.choice(words)
        changed = sql[:20] + re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", f"{word} ", sql[20:], count=1)
        if chance.random() < 0.3:
            changed = re.sub(r" (STRICT|NOT NULL|CHECK [^,]*|UNIQUE)", "", sql, count=1)
        if changed == sql:
            return None
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = ? WHERE type = ? AND name = ?", (changed, what, name))
        return "schema", f"{what} {name}", rf"^ ({what}|schema of) {name}$|^ file$", (), False

    # -- where it shows ----------------------------------------------------------------------------------------

    def place(self, table: str, row: Row, column: str) -> str:
        """Return the places of which at least one must be named for an edit of a column."""
        run = self.ids[row["run"]]
        if table == "specs":
            more = {
                "run": r"|^ (rows|texts|specs) run \d+$|.* specs run -?\d+$",
                "run_id": "|.* specs$",
            }
            spec = rf"|{run} payloads( n \d+)?$" if column in ("spec", "spec_payload") else ""
            return rf"{run} specs$|^ specs id {row['run']}$" + more.get(column, "") + spec
        key, number = NUMBERS[table], row[NUMBERS[table]]
        own = rf"{run} {table} {key} {number}$|^ {TABLES.get(table, table)} id {row['id']}$"
        if table == "payloads" and column in ("digest", "salt", "media_type"):
            own += rf"|{run} payloads n \d+$"  # of those of a row that cannot be read the last is named
        if column in ("id", "run", key):  # the row is somewhere else now, or its key and its numbers disagree
            next_row = rf"{run} {table} {key} {number + 1}$|{run} {table} {key} -?\d+$"
            stray = TABLES.get(table, table)
            moved = rf"^ {stray} (id|run) -?\d+$|.* {table} {key} -?\d+$|{run} payloads( n \d+)?$"
            return f"{own}|{next_row}|{moved}"
        if table == "erasures":
            return rf"{own}|{run} payloads n \d+$"
        if table == "documents" and column in ("payload", "digest", "bytes"):
            return rf"{own}|{run} payloads n {row['payload']}$"
        return own

    def blamed(self, row: Row, column: str, value: Any) -> tuple[str, ...]:
        """Return the runs that may be named: the row's own, unless it went to another one."""
        return () if column in ("id", "run", "run_id", "workflow_id") else (self.ids[row["run"]], "")

    def spec_payload(self, run: int) -> int:
        """Return the number of a run's spec."""
        return next(int(spec["spec_payload"]) for spec in self.rows["specs"] if spec["run"] == run)


Made = tuple[str, str, str, tuple[str, ...], bool] | None
"""Kind, what, places, runs, head; None when the change cannot be made or changes nothing."""

KINDS: tuple[Callable[[Tamperer, random.Random, sqlite3.Connection], Made], ...] = (
    *(Tamperer.edit,) * 6,
    *(Tamperer.edit_json,) * 3,
    *(Tamperer.edit_rehashed,) * 2,
    *(Tamperer.edit_stored,) * 3,
    Tamperer.edit_redigested,
    *(Tamperer.delete,) * 2,
    Tamperer.delete_run,
    Tamperer.cut,
    *(Tamperer.insert,) * 2,
    *(Tamperer.swap,) * 3,
    Tamperer.schema,
)


def update(db: sqlite3.Connection, table: str, row: Row, values: Row) -> bool:
    """Write other values; return whether SQLite took them and they are stored differently."""
    key = "run" if table == "specs" else "id"
    sets = ", ".join(f'"{name}" = ?' for name in values)
    try:
        db.execute(f"UPDATE {table} SET {sets} WHERE {key} = ?", (*values.values(), row[key]))
    except (
        sqlite3.IntegrityError,
        sqlite3.OperationalError,
        OverflowError,
    ):  # NOT NULL, UNIQUE, another type, what JSON cannot hold, or no number of SQLite's
        return False
    where = values.get(key, row[key])
    found = db.execute(
        f"SELECT {', '.join(map(repr_name, values))} FROM {table} WHERE {key} = ?", (where,)
    ).fetchone()
    before = [row[name] for name in values]
    return found is None or [*map(typed, found)] != [*map(typed, before)]


def _told(texts: str) -> list[list[Any]]:
    """Return a row's texts, of those that are erased without the media type, which nothing proves any more."""
    try:
        return [item if item[4] is not None else [*item[:1], *item[2:]] for item in json.loads(texts)]
    except (LookupError, TypeError, ValueError):
        return [[texts]]


def same_texts(one: str, other: str) -> bool:
    """Return whether two columns of texts say the same, as far as anything can tell."""
    return _told(one) == _told(other)


def repr_name(name: str) -> str:
    """Return a column as SQL names it."""
    return f'"{name}"'


def typed(value: Any) -> tuple[type, Any]:
    """Return a value that is equal to another only if both are stored alike."""
    return type(value), value


def other_value(old: Any, chance: random.Random) -> Any:
    """Return something that could stand in place of *old*."""
    if old is None:
        return chance.choice(("x", 7, b"x", "{}", 0))
    if isinstance(old, int):
        return chance.choice((old + 1, old - 1, -old, old ^ 1 << chance.randrange(62), 2**62, 0, None))
    data = old if isinstance(old, bytes) else old.encode()
    place = chance.randrange(len(data) or 1)
    flipped = bytes([(data or b"x")[place] ^ 1 << chance.randrange(8)])
    bits = data[:place] + flipped + data[place + 1 :]
    if isinstance(old, bytes):
        return chance.choice((bits, bits, data[:-1], data + b"x", b"", None, data.hex()))
    letter = chance.choice('x0 "{}[]:,\N{SNOWMAN}\0\n')
    texts = (
        old[:place] + letter + old[place + 1 :],
        old[:place] + letter + old[place:],
        old[:-1],
        f"{old} ",
        "",
        "{}",
    )
    return chance.choice((*texts, bits.decode("utf-8", "replace"), old.swapcase(), data, None))


def other_json(data: Any, chance: random.Random) -> Any:
    """Return JSON in which one member is another, is gone, or is new."""
    if isinstance(data, dict) and data:
        name = chance.choice(sorted(data))
        if chance.random() < 0.2:
            return {key: value for key, value in data.items() if key != name}
        if chance.random() < 0.2:
            return data | {f"{name}x": data[name]}
        return data | {name: other_json(data[name], chance)}
    if isinstance(data, list) and data:
        place = chance.randrange(len(data))
        return [*data[:place], other_json(data[place], chance), *data[place + 1 :]]
    if isinstance(data, bool):
        return not data
    if isinstance(data, int):
        return data + chance.choice((-1, 1, 7))
    if isinstance(data, str):
        return f"{data}x"
    return chance.choice((1, "x", {}, None, [0]))
