"""Replay of what is left of an erased run: it is compared, and what cannot be is named."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paor import Journal, replay
from paor.audit import Unchecked

from ..support.erasing import erase_by_hand
from ..support.forging import forge, writable
from ..support.inside import COLUMNS, HASHED, PREV_HASH, ROOT_COLUMNS, chain_hash, column_problems, root_hash
from ..support.journeys import BY_NAME, JOURNEYS, Journey, play
from ..support.stored import file_of
from ..support.worlds import JOURNAL

EACH = pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])


@EACH
def test_what_needs_no_text_holds_of_every_run(journey: Journey, tmp_path: Path) -> None:
    """Chain, places, choices by guards and sums: with nothing erased nothing is wrong with them either."""
    with journey.engine(tmp_path) as scripted:
        row = scripted.journal.run(play(journey, scripted).run_id)
        transitions = scripted.journal.transitions(row.run_id)
        assert list(column_problems(scripted.journal.reader, row, transitions, {})) == []


KINDS = ("spec", "documents", "prompts", "replies", "messages", "answers", "changes", "asked", "everything")


def payloads_of(journal: Journal, run_id: str, kind: str) -> set[int]:
    """Return the numbers of the payloads of one kind."""
    row, rows = journal.run(run_id), journal.transitions(run_id)
    if kind == "everything":
        return set(range(journal.reader.next_payload(row.run)))
    if kind == "spec":
        return {journal.reader.root_columns(row.run)["spec_payload"]}
    if kind == "documents":
        return {document.payload for document in journal.documents(run_id)}
    places = {
        "prompts": [place for item in rows for place in item.request.get("prompt", ())],
        "changes": [item.change for item in rows],
        "asked": [place for item in rows for pair in item.outcome.get("texts", ()) for place in pair],
    }
    names = {"replies": "reply", "messages": "message", "answers": "answer"}
    if kind in names:
        places[kind] = [item.outcome[names[kind]] for item in rows if names[kind] in item.outcome]
    return {place["n"] for place in places[kind]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["two_pages", "documents", "planner", "blocked", "approved", "batch"])
def test_whatever_is_erased_no_false_alarm_is_given(name: str, kind: str, tmp_path: Path) -> None:
    """What differs for lack of a text is no difference; and it is never called identical."""
    with BY_NAME[name].engine(tmp_path) as scripted:
        run_id = play(BY_NAME[name], scripted).run_id
        numbers = payloads_of(scripted.journal, run_id, kind)
        with closing(forge(tmp_path / JOURNAL)) as connection, connection:
            erase_by_hand(connection, f"n IN ({', '.join(map(str, sorted(numbers)))})")
        found = replay(scripted.journal, run_id)
        assert found.divergences == ()
        assert found.identical is not bool(found.unchecked)
        assert not numbers or found.unchecked or kind == "documents"
        found.raise_if_diverged()


@pytest.mark.parametrize("kind", ["prompts", "replies", "changes"])
def test_a_forged_row_beside_erased_texts_is_found(kind: str, tmp_path: Path) -> None:
    """A text of the last row is erased, and every row before it has a guard more, with a fresh chain."""
    with BY_NAME["two_pages"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["two_pages"], scripted).run_id
        number = max(payloads_of(scripted.journal, run_id, kind))
    with closing(forge(tmp_path / JOURNAL)) as connection, connection:
        erase_by_hand(connection, "n = ?", number)
        connection.execute(
            "UPDATE transitions SET guards = json_set(guards, '$.made_up', json('true')) WHERE dest <> 'Done'"
        )
        rehashed(connection)
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        found = replay(journal, run_id)
        *rows, last = [row.seq for row in journal.transitions(run_id)]
    assert [item.seq for item in found.divergences if item.field == "guards.made_up"] == rows
    assert {item.seq for item in found.unchecked} == {last}


def test_rows_whose_texts_are_there_are_compared_in_full(tmp_path: Path) -> None:
    """One erased reply: only that row's decision is left open, since its change tells the way on."""
    with BY_NAME["two_pages"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["two_pages"], scripted).run_id
        row = scripted.journal.transitions(run_id)[4]
        scripted.journal.erase(run_id, payloads=[row.outcome["reply"]["n"]])
        assert replay(scripted.journal, run_id).unchecked == (Unchecked(4, "outcome"),)


def test_a_change_that_was_erased_is_derived_again(tmp_path: Path) -> None:
    """Its reply is there, so everything after it is compared all the same."""
    with BY_NAME["two_pages"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["two_pages"], scripted).run_id
        row = scripted.journal.transitions(run_id)[0]
        scripted.journal.erase(run_id, payloads=[row.change["n"]])
        assert replay(scripted.journal, run_id).unchecked == (Unchecked(0, "change"),)


def rehashed(connection: sqlite3.Connection) -> None:
    """Make the chain of the only run anew, as somebody would who knows the format."""
    connection.row_factory = sqlite3.Row
    spec = connection.execute("SELECT * FROM specs").fetchone()
    head = root_hash({name: spec[name] for name in ROOT_COLUMNS})
    for row in connection.execute("SELECT * FROM transitions ORDER BY id").fetchall():
        values: tuple[Any, ...] = tuple(row[name] for name in COLUMNS)
        new = chain_hash(head, (*values[:PREV_HASH],))
        connection.execute("UPDATE transitions SET hash = ? WHERE id = ?", (new, row["id"]))
        head = new
    assert HASHED


@pytest.mark.parametrize(
    ("field", "statement", "rehash"),
    [
        ("hash", "UPDATE transitions SET at = at + 1 WHERE seq = 3", False),
        ("guards", "UPDATE transitions SET guards = replace(guards, 'true', 'false') WHERE seq = 0", True),
        ("tokens_in", "UPDATE transitions SET tokens_in = tokens_in + 1 WHERE seq = 5", True),
        ("step", "UPDATE transitions SET step = step + 2 WHERE seq >= 5", True),
        ("time_us", "UPDATE transitions SET time_us = 0 WHERE seq = 6", True),
        ("place", "UPDATE transitions SET source = 'Reviewing' WHERE seq = 1", True),
    ],
    ids=["hash", "guards", "tokens_in", "step", "time_us", "place"],
)
def test_what_is_left_of_an_erased_run_is_still_checked(
    field: str, statement: str, rehash: bool, tmp_path: Path
) -> None:
    """Without any text: the chain, places, choices by guards and sums, also when the chain was made anew."""
    with BY_NAME["two_pages"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["two_pages"], scripted).run_id
        scripted.journal.erase(run_id)
    with closing(forge(tmp_path / JOURNAL)) as connection, connection:
        connection.execute(statement)
        if rehash:
            rehashed(connection)
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        found = replay(journal, run_id)
    assert field in {item.field for item in found.divergences}, found


def test_a_difference_before_what_was_erased_is_one(tmp_path: Path) -> None:
    """A changed reply with a fresh chain: named, although later rows were erased."""
    with BY_NAME["two_pages"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["two_pages"], scripted).run_id
        rows = scripted.journal.transitions(run_id)
        scripted.journal.erase(run_id, payloads=[rows[-1].outcome["reply"]["n"]])
        reply = rows[1].outcome["reply"]["n"]
        body = json.dumps({"schema": "parameters_v1", "parameters": {"page": 2}})
        writable(file_of(scripted.journal).connection).execute(
            "UPDATE payloads SET body = ? WHERE n = ?", (body, reply)
        )
        found = replay(scripted.journal, run_id)
        assert found.divergences[0].seq == 1 and found.unchecked == (Unchecked(len(rows) - 1, "outcome"),)
