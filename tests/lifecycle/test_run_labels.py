"""Key and metadata of a run: kept in its spec, searched by columns that follow it, gone with it; they decide nothing."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paor import Journal, Result, diff, replay
from paor.audit import RunRow
from paor.errors import JournalConflict, JournalDamaged, UsageError
from paor.testing import RandomIds, SystemClock

from ..support.effort import examples
from ..support.inside import export_runs, in_order, line_bytes, metadata_of
from ..support.pages import ROOT
from ..support.worlds import ANSWER, JOURNAL, SELECT, SUCCESS, engine

SECRET = "maria.example@post.example"
LABELS: dict[str, Any] = {
    "key": f"mail {SECRET}",
    "metadata": {"customer": SECRET, "n": 1, "deep": [{"b": None, "a": 0.1}]},
}
ONE = [ANSWER(), SUCCESS]


def started(folder: Path, *, replies: Any = ONE, **options: Any) -> Result:
    """Return the result of a run of the folder's journal."""
    with engine(folder, replies, ids=RandomIds()) as scripted:
        return scripted.run("Read", **options)


def defects(path: Path) -> tuple[list[str], int]:
    """Return what `verify` finds, and the exit code of the independent script."""
    with Journal(path, read_only=True) as journal:
        found = [str(defect) for defect in journal.verify()]
    script = [sys.executable, str(ROOT / "docs" / "verify_journal.py"), str(path)]
    return found, subprocess.run(script, check=False, capture_output=True).returncode


def exported(path: Path, **options: Any) -> list[bytes]:
    """Return all runs of a journal as lines."""
    with Journal(path, read_only=True) as journal:
        redaction = options.pop("redaction", None)
        return [line_bytes(line) for line in export_runs(journal.reader, in_order(journal.reader), redaction)]


# -- what may be given ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "  ", "a\nb", "x" * 201, 7, b"x", "\ud800"])
def test_a_key_that_is_none_is_one_line_and_starts_nothing(tmp_path: Path, key: Any) -> None:
    """A text of 1 to 200 printable characters."""
    with engine(tmp_path, ONE) as scripted:
        with pytest.raises(
            UsageError, match=r"^key .*: expected a text of 1 to 200 printable characters"
        ) as found:
            scripted.run("Read", key=key)
        assert "\n" not in str(found.value) and scripted.journal.runs() == []


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ("tenant=acme", "must be a mapping"),
        ([("a", 1)], "must be a mapping"),
        ({1: "a"}, "the name 1 is not"),
        ({"": "a"}, "the name '' is not"),
        ({"a b": "a"}, "the name 'a b' is not"),
        ({'"': "a"}, "is not 1 to 64 of"),
        ({"x" * 65: "a"}, "is not 1 to 64 of"),
        ({"a": float("nan")}, "metadata a: a float like this has no JSON form"),
        ({"a": object()}, "metadata a: a object like this has no JSON form"),
        ({"a": "\ud800"}, "metadata a: a str like this has no JSON form"),
        ({"a": 2**70}, "metadata a: a int like this has no JSON form"),
        ({"a": datetime.now(UTC)}, "metadata a: a datetime like this has no JSON form"),
        ({"a": "x" * 4096}, "4098 bytes of JSON; at most 4096 are kept"),
    ],
)
def test_metadata_that_is_none_is_one_line_and_starts_nothing(
    tmp_path: Path, metadata: Any, words: str
) -> None:
    """Names that need no quotes, values that JSON knows, 4,096 bytes in all."""
    with engine(tmp_path, ONE) as scripted:
        with pytest.raises(UsageError, match=r"^metadata") as found:
            scripted.run("Read", metadata=metadata)
        assert words in str(found.value) and "\n" not in str(found.value)
        assert scripted.journal.runs() == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc\u00e9"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
METADATA = st.dictionaries(st.from_regex(r"[a-z_][a-zA-Z0-9_.:/-]{0,4}", fullmatch=True), JSON, max_size=4)


@given(METADATA)
@example({"_": 5.960464477539063e-08})
@settings(max_examples=examples(20))
def test_any_metadata_comes_back_verifies_twice_travels_and_is_found(metadata: dict[str, Any]) -> None:
    """As result, row and spec say; after an export and an import the same bytes; by each of its values."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = started(folder, key="k", metadata=metadata)
        assert json.dumps(result.metadata, sort_keys=True) == json.dumps(metadata, sort_keys=True)
        with Journal(folder / JOURNAL, read_only=True) as journal:
            row = journal.run(result.run_id)
            assert (row.key, row.metadata) == ("k", result.metadata)
            assert journal.spec(result.run_id).metadata == result.metadata
            for part in ({name: value} for name, value in metadata.items()):
                assert journal.runs(metadata=part) == [row]
            assert journal.runs(metadata=metadata) == [row]
        assert defects(folder / JOURNAL) == ([], 0)
        lines = exported(folder / JOURNAL)
        with Journal(folder / "other.db", "off") as other:
            other.import_lines(lines)
            assert other.runs(key="k")[0].metadata == result.metadata
        assert exported(folder / "other.db") == lines
        assert defects(folder / "other.db") == ([], 0)


# -- what they do not do -------------------------------------------------------------------------------------------


def test_they_are_in_no_prompt_no_row_and_no_fingerprint_and_no_difference(tmp_path: Path) -> None:
    """Only the spec's payload and the two columns hold them."""
    with engine(tmp_path, ONE, ids=RandomIds()) as scripted:
        one, two = scripted.run("Read", **LABELS), scripted.run("Read")
        journal = scripted.journal
        bodies = journal.reader.query("SELECT body FROM payloads WHERE instr(body, ?)", (SECRET,))
        assert len(bodies) == 1 and '"objective":"Read"' in bodies[0][0]
        rows = journal.reader.query("SELECT * FROM transitions")
        assert SECRET not in repr(rows)
        assert journal.spec(one.run_id).fingerprints == journal.spec(two.run_id).fingerprints
        found = diff(journal, one.run_id, two.run_id)
        assert (found.cause, found.others) == ("", ())
        assert scripted.changes(one.run_id) == ()
        assert replay(journal, one.run_id, scripted).identical


# -- verifying -----------------------------------------------------------------------------------------------------

FORGERIES = (
    "UPDATE specs SET \"key\" = 'other'",
    'UPDATE specs SET "key" = NULL',
    "UPDATE specs SET metadata = '{}'",
    "UPDATE specs SET metadata = replace(metadata, 'maria', 'mario')",
    "UPDATE specs SET metadata = replace(metadata, '\"n\":1', '\"n\":1.0')",
    "UPDATE specs SET metadata = replace(metadata, '\"n\":1', '\"n\":true')",
    "UPDATE specs SET metadata = metadata || ' '",
    "UPDATE specs SET metadata = 'no JSON'",
)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_changed_key_or_metadata_is_found_by_both_verifiers(tmp_path: Path, forgery: str) -> None:
    """They are compared with the spec, which the chain covers."""
    result = started(tmp_path, **LABELS)
    with closing(sqlite3.connect(tmp_path / JOURNAL)) as connection:
        connection.execute(forgery)
        connection.commit()
    found, code = defects(tmp_path / JOURNAL)
    assert f"run {result.run_id}, specs: its labels are not what its spec says" in found and code == 4


@pytest.mark.parametrize("change", ["DROP INDEX specs_place", "DROP INDEX rows_ended"])
def test_a_missing_index_is_found_by_both_verifiers(tmp_path: Path, change: str) -> None:
    """Without it lists are right and slow; with another one under its name they may be wrong."""
    started(tmp_path)
    with closing(sqlite3.connect(tmp_path / JOURNAL)) as connection:
        connection.execute(change)
    found, code = defects(tmp_path / JOURNAL)
    assert len(found) == 1 and "is missing" in found[0] and code == 4
    with closing(sqlite3.connect(tmp_path / JOURNAL)) as connection:
        connection.execute(f"CREATE INDEX {change.split()[2]} ON rows (id) WHERE dest = 'Done'")
    found, code = defects(tmp_path / JOURNAL)
    assert len(found) == 1 and "its schema was changed" in found[0] and code == 4


@pytest.mark.parametrize("metadata", ["no JSON", "[]", "null", '{"a"'])
def test_metadata_that_cannot_be_read_is_damage_with_one_line(tmp_path: Path, metadata: str) -> None:
    """Wherever a row of the run is read."""
    started(tmp_path)
    with closing(sqlite3.connect(tmp_path / JOURNAL)) as connection:
        connection.execute("UPDATE specs SET metadata = ?", (metadata,))
        connection.commit()
    with (
        Journal(tmp_path / JOURNAL, read_only=True) as journal,
        pytest.raises(JournalDamaged, match=r"its metadata cannot be read.*paor verify") as found,
    ):
        journal.runs()
    assert "\n" not in str(found.value)


# -- forks, imports, erasing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [None, {"max_steps": 9}], ids=["the parent's spec", "a spec of its own"])
def test_a_fork_has_neither(tmp_path: Path, limits: Any) -> None:
    """It is a run of its own; that its parent's spec is shared changes nothing of that."""
    replies = [SELECT(fields={}), ANSWER(), SUCCESS]
    with engine(tmp_path, replies, ids=RandomIds()) as scripted:
        parent = scripted.run("Read", **LABELS)
        fork = scripted.fork(parent.run_id, 0, limits=limits, drive=False)
        again = scripted.fork(fork.run_id, 0, drive=False)
        for child in (fork, again):
            assert (child.key, child.metadata) == (None, {})
            row = scripted.journal.run(child.run_id)
            assert (row.key, row.metadata) == (None, {})
            assert scripted.result(child.run_id).key is None
        assert [row.run_id for row in scripted.journal.runs(key=LABELS["key"])] == [parent.run_id]
    assert defects(tmp_path / JOURNAL) == ([], 0)
    lines = exported(tmp_path / JOURNAL)
    with Journal(tmp_path / "other.db", "off") as other:
        assert len(other.import_lines(lines)) == 3
    assert exported(tmp_path / "other.db") == lines and defects(tmp_path / "other.db") == ([], 0)


def test_an_import_does_not_give_a_key_twice(tmp_path: Path) -> None:
    """Neither to a run that is here, nor to two of one export; nothing of it is imported."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        started(folder, key="order-17")
    started(there, key="order-18")
    before = (here / JOURNAL).read_bytes()
    lines = exported(there / JOURNAL)
    with (
        Journal(here / JOURNAL) as journal,
        pytest.raises(
            JournalConflict, match=r"line 2: run .* has the key 'order-17', which run .* has in .*runs.db"
        ),
    ):
        journal.import_lines(lines)
    assert (here / JOURNAL).read_bytes() == before
    both = exported(here / JOURNAL) + lines
    with (
        Journal(tmp_path / "new.db") as journal,
        pytest.raises(JournalConflict, match=r"line \d+: .* has in the same export; nothing was imported"),
    ):
        journal.import_lines(both)
    with Journal(tmp_path / "new.db") as journal:
        assert journal.runs() == []
        journal.import_lines(lines)
        assert [done.how for done in journal.import_lines(lines)] == ["known", "known"]


def test_a_spec_that_is_redacted_arrives_without_them(tmp_path: Path) -> None:
    """They come from the spec alone, so nothing of them is beside it."""
    started(tmp_path, key="sk-proj-abcdefghijklmnopqrstuvwxyz", metadata={"a": 1})
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        (run_id,) = (row.run_id for row in journal.runs())
        lines = [line_bytes(line) for line in journal.export(run_id, redact=True)]
    assert b"abcdefghijklm" not in b"".join(lines)
    with Journal(tmp_path / "other.db", "off") as other:
        other.import_lines(lines)
        assert [(row.key, row.metadata) for row in other.runs()] == [(None, {})]
    assert defects(tmp_path / "other.db") == ([], 0)


@pytest.mark.parametrize("what", ["run", "spec"])
def test_erasing_leaves_nothing_of_them_in_the_file_and_frees_the_key(tmp_path: Path, what: str) -> None:
    """The columns go with the spec that they come from; both verifiers are content, and the key starts a new run."""
    result = started(tmp_path, **LABELS)
    with Journal(tmp_path / JOURNAL) as journal:
        payloads = [journal.reader.root_columns(1)["spec_payload"]] if what == "spec" else []
        journal.erase(result.run_id, payloads=payloads)
        assert [(row.key, row.metadata) for row in journal.runs()] == [(None, {})]
        assert journal.runs(metadata={"customer": SECRET}) == []
    assert SECRET.encode() not in (tmp_path / JOURNAL).read_bytes()
    assert defects(tmp_path / JOURNAL) == ([], 0)
    assert started(tmp_path, **LABELS).run_id != result.run_id
    assert defects(tmp_path / JOURNAL) == ([], 0)


def test_what_was_erased_cannot_be_written_back(tmp_path: Path) -> None:
    """A key beside an erased spec proves itself by nothing."""
    result = started(tmp_path, **LABELS)
    with Journal(tmp_path / JOURNAL) as journal:
        journal.erase(result.run_id)
    with closing(sqlite3.connect(tmp_path / JOURNAL)) as connection:
        connection.execute("UPDATE specs SET \"key\" = 'forged'")
        connection.commit()
    found, code = defects(tmp_path / JOURNAL)
    assert len(found) == 1 and code == 4


# -- lists ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a journal with runs of every status, some with key and metadata."""
    folder = tmp_path_factory.mktemp("many")
    replies: dict[str, Any] = {
        "done": ONE,
        "failed": ["no JSON"] * 4,
        "running": [SELECT(fields={}), ANSWER(), SUCCESS],
    }
    for number in range(24):
        status = ("done", "failed", "running")[number % 3]
        options: dict[str, Any] = {}
        if number % 2:
            options["key"] = f"key {number}"
        if number % 4:
            options["metadata"] = {"tenant": "ab"[number % 5 % 2], "n": number % 4, "flag": number % 2 == 0}
        with engine(folder, replies[status], ids=RandomIds(), clock=SystemClock()) as scripted:
            if status != "running":
                scripted.run("Read", **options)
            else:
                events = scripted.stream("Read", **options, on_close="stop")
                for _ in range(2 + number % 2):
                    next(events)
                events.close()
    return folder / JOURNAL


FILTERS: dict[str, tuple[Any, Callable[[RunRow, Any], bool]]] = {
    "status": (st.sampled_from(["running", "waiting", "done", "failed"]), lambda row, value: row.status == value),
    "state": (st.sampled_from(["Planning", "Specifying", "Done", "Failed"]), lambda row, value: row.state == value),
    "key": (st.sampled_from(["key 1", "key 7", "key 2", "no"]), lambda row, value: row.key == value),
    "metadata": (
        st.dictionaries(st.sampled_from(["tenant", "n", "flag", "none"]), st.sampled_from(["a", "b", 1, 1.0, 2, True, False]), max_size=2),
        lambda row, value: all(
            name in row.metadata and json.dumps(row.metadata[name]) == json.dumps(one) for name, one in value.items()
        ),
    ),
}  # fmt: skip


@given(data=st.data(), names=st.sets(st.sampled_from(list(FILTERS))), limit=st.none() | st.integers(1, 30))
@settings(max_examples=examples(80))
def test_a_list_is_what_a_look_at_every_run_says(
    many: Path, data: st.DataObject, names: set[str], limit: int | None
) -> None:
    """Each condition by itself and all together, newest first."""
    wanted = {name: data.draw(FILTERS[name][0]) for name in names}
    with Journal(many, read_only=True) as journal:
        rows = journal.runs()
        since = data.draw(st.none() | st.sampled_from([row.created_at for row in rows]))
        expected = [
            row
            for row in rows
            if all(FILTERS[name][1](row, value) for name, value in wanted.items())
            and (since is None or row.created_at >= since)
        ]
        assert journal.runs(**wanted, since=since, limit=limit) == expected[:limit]
    assert len(rows) == 24 and rows == sorted(rows, key=lambda row: -row.run)


def test_since_is_a_moment_in_any_time_zone(many: Path) -> None:
    """Of a local one without a time zone, too."""
    with Journal(many, read_only=True) as journal:
        rows = journal.runs()
        moment = datetime.fromtimestamp(rows[5].created_at / 1e6, UTC)
        assert journal.runs(since=moment) == rows[:6]
        assert journal.runs(since=moment.astimezone().replace(tzinfo=None)) == rows[:6]
        assert journal.runs(since=moment + timedelta(days=9)) == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"status": "finished"}, "expected one of running, waiting, done, failed"),
        ({"state": "Sleeping"}, "expected one of Planning, "),
        ({"limit": 0}, "expected a whole number from 1"),
        ({"limit": True}, "expected a whole number from 1"),
        ({"limit": 2**70}, "expected a whole number from 1"),
        ({"key": ""}, "expected a text of 1 to 200"),
        ({"metadata": "a=b"}, "metadata must be a mapping"),
        ({"metadata": {"a'b": 1}}, "is not 1 to 64 of"),
        ({"metadata": {"a": object()}}, "has no JSON form"),
        ({"since": "today"}, "expected a datetime"),
        ({"since": 1.5}, "expected a datetime"),
        ({"since": 2**60}, "expected a datetime"),
    ],
)
def test_a_condition_that_no_run_can_meet_is_one_line(many: Path, wanted: Any, words: str) -> None:
    """Before anything is read."""
    with Journal(many, read_only=True) as journal, pytest.raises(UsageError) as found:
        journal.runs(**wanted)
    assert words in str(found.value) and "\n" not in str(found.value)


def test_runs_that_have_not_ended_are_found_without_reading_the_others(many: Path) -> None:
    """By the index on rows that end a run: the plan looks at no row of theirs."""
    with Journal(many, read_only=True) as journal:
        plan = journal.reader.query(
            "EXPLAIN QUERY PLAN SELECT * FROM runs WHERE run NOT IN"
            " (SELECT run FROM transitions WHERE dest IN ('Done', 'Failed'))"
        )
        assert any("rows_ended" in row[3] for row in plan)
        plan = journal.reader.query(
            "EXPLAIN QUERY PLAN SELECT run_id FROM specs WHERE workflow_id = '' AND round = 1"
        )
        assert any("specs_place" in row[3] for row in plan)


def test_metadata_is_sorted_once_and_for_all() -> None:
    """So that its column, its spec and its export are the same bytes whoever writes them."""
    assert list(metadata_of({"b": {"z": 1, "a": 2}, "a": 0})) == ["a", "b"]
    assert list(metadata_of({"b": {"z": 1, "a": 2}})["b"]) == ["a", "z"]
