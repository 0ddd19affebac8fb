"""Erasing: what goes is nowhere in the file any more, what stays verifies, and the record says what was done."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Result, Task, replay, tool
from paor.errors import Erased, JournalBusy, JournalError, LeaseHeld, UnknownRun, UsageError
from paor.testing import SeededIds

from ..support.forging import forge, writable
from ..support.inside import EXCERPT, Excerpts, Scan, form
from ..support.journeys import BY_NAME, JOURNEYS, Journey, play
from ..support.pages import ROOT
from ..support.stored import file_of, query
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS, engine

EACH = pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])
LETTER = (
    "Dear Ms Example, the parcel of the third of May was left with your neighbour at number twelve.\n"
    'She asks you to call before six: "after that I am out", she says \N{EM DASH} until Monday.\n\tGr\xfc\xdfe'
)
PIECE = 24


def bytes_of(path: Path) -> bytes:
    """Return everything that is in a journal's file, its log and its index."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


def pieces(text: str | bytes) -> Iterator[bytes]:
    """Yield every stretch of a text that holds more than blanks and digits, and all of a short one."""
    data = text if isinstance(text, bytes) else text.encode()
    for start in range(max(1, len(data) - PIECE + 1)):
        piece = data[start : start + PIECE]
        if len(piece.split()) == 1 or not piece.strip():
            continue
        yield piece


def escaped(text: str, *, ascii_only: bool) -> str:
    """Return a text as it is within a string of JSON."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def assert_gone(path: Path, *texts: str | bytes) -> None:
    """No piece of the texts is anywhere in the file, in their own form or as JSON writes them."""
    data = bytes_of(path)
    for text in texts:
        forms = {text}
        if isinstance(text, str):
            forms |= {*(within := [escaped(text, ascii_only=only) for only in (True, False)])}
            forms |= {escaped(one, ascii_only=False) for one in within}  # JSON within a row's texts
        for form_ in forms:
            found = [piece for piece in pieces(form_) if piece in data]
            assert not found, found[0]


def assert_sound(path: Path) -> None:
    """The package and the script find nothing wrong."""
    with Journal(path, read_only=True) as journal:
        assert journal.verify() == []
    script = [sys.executable, str(ROOT / "docs" / "verify_journal.py"), str(path)]
    assert subprocess.run(script, check=False, capture_output=True).returncode == 0


def bodies(path: Path, condition: str = "1") -> list[Any]:
    """Return the bodies and salts of payloads."""
    found = query(path, f"SELECT body, salt FROM payloads WHERE {condition} AND body IS NOT NULL")
    return [value for row in found for value in row]


# -- by run --------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@EACH
def test_a_run_that_is_erased_is_nowhere_in_the_file(journey: Journey, tmp_path: Path) -> None:
    """Neither bodies nor salts, in no table, page, log or index; chain and columns hold, and the record says so."""
    path = tmp_path / JOURNAL
    with journey.engine(tmp_path) as scripted:
        run_id = play(journey, scripted).run_id
        salts = [salt for (salt,) in query(path, "SELECT salt FROM payloads")]
        texts = [
            text
            for (body,) in query(path, "SELECT body FROM payloads")
            for text in (strings(body) if isinstance(body, str) else [body])
        ]
        head = scripted.journal.run(run_id)
        done = scripted.journal.erase(run_id, reason="TICKET-17", at=12, others="erase")
        assert done.payloads == len(salts) and done.scrubbed and done.kept == ()
        assert_gone(path, *texts)
        data = bytes_of(path)
        assert not [salt for salt in salts if salt.encode() in data]
        assert scripted.journal.run(run_id) == head._replace(objective=None)
        (record,) = scripted.journal.erasures(run_id)
        assert (record.by, record.at, record.reason) == ("run", 12, "TICKET-17")
        assert json.loads(record.payloads) == [[0, len(salts) - 1]]
    assert_sound(path)
    assert_gone(path, *texts)


def strings(body: str) -> list[str]:
    """Return the texts of people, models and tools within a body: of JSON its values, without ids, labels and digests."""
    try:
        data = json.loads(body)
    except ValueError:
        return [body]
    found, left = [], [data]
    while left:
        item = left.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict | list):
            left += item.values() if isinstance(item, dict) else item
    return [text for text in found if len(text.split()) > 1]


def test_erasing_again_does_nothing_and_says_so(tmp_path: Path) -> None:
    """No second record, no error."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        scripted.journal.erase(run_id)
        again = scripted.journal.erase(run_id)
        assert again.erased == {} and again.payloads == 0
        assert len(scripted.journal.erasures(run_id)) == 1


# -- by document -----------------------------------------------------------------------------------------------------


def told(tmp_path: Path, *, follow: bool = False) -> tuple[Engine, Result]:
    """Return an engine with a run that quotes the letter in a reply, reads it by reference, and speaks of else too."""

    @tool("notes.translate", effect="read", label="translation")
    def translate(letter: str) -> str:
        """Say it in other words."""
        return "A consignment was handed to somebody living next door, at the house with the number 12."

    label = "round1_task1_action0_input"
    replies = [
        SELECT("notes.translate", {"letter": "string"}, requiredInputDocuments=[f"docItem:{label}#0"]),
        PARAMETERS(letter=f"docItem:{label}#0"),
        CONTINUE | {"hint": f"it says: {LETTER[20:70]}"},
        *READ(7),
        STOP,
        SUCCESS,
    ]
    scripted = engine(tmp_path, replies, (*TOOLS, translate))
    given = [("letter.txt", LETTER), ("other.txt", "Nothing of interest stands in this second one.")]
    return scripted, scripted.run("What became of it?", documents=given)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE payloads SET body = CAST(x'7b22ff22' AS TEXT) WHERE run = 2 AND n = 0",
        "UPDATE payloads SET body = '[' WHERE run = 2 AND n = 0",
        """UPDATE transitions SET change = '{"n":[1]}' WHERE run = 1 AND "trigger" = 'execute'""",
        """UPDATE transitions SET change = 'x' WHERE run = 1 AND "trigger" = 'execute'""",
    ],
)
def test_damage_keeps_nothing_from_being_erased(damage: str, tmp_path: Path) -> None:
    """In another run, and in rows of its own."""
    path = tmp_path / JOURNAL
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id, other = (scripted.run(objective).run_id for objective in ("Read", "Read more"))
        with closing(writable(sqlite3.connect(path, isolation_level=None))) as connection:
            connection.execute(damage)
        assert scripted.journal.erase(run_id).erased.keys() == {run_id}
        assert scripted.journal.run(other).status == "done"
    assert query(path, "SELECT count(*) FROM payloads WHERE run = 1 AND body IS NOT NULL") == [(0,)]


def test_a_document_goes_with_what_quotes_it_and_what_calls_made_of_it(tmp_path: Path) -> None:
    """The reply that quotes it, the prompt with its hint, and the translation; what has nothing to do with it stays."""
    path = tmp_path / JOURNAL
    scripted, result = told(tmp_path)
    with scripted:
        salts = [salt for (salt,) in query(path, "SELECT salt FROM payloads WHERE n = 0")]
        done = scripted.journal.erase(result.run_id, documents=["docItem:round1_task1_action0_input#0"])
        assert 3 < done.payloads < scripted.journal.reader.next_payload(1)
        assert_gone(path, LETTER, "A consignment was handed to somebody living next door", *salts)
        left = "\n".join(str(body) for body in bodies(path))
        assert "Nothing of interest" in left and "Page 7: the supplier" in left
        (record,) = scripted.journal.erasures(result.run_id)
        assert json.loads(record.rule) == {"by": "document", "documents": [0]}
        assert scripted.journal.document(result.run_id, 0) is None
        found = replay(scripted.journal, result.run_id)
        assert found.divergences == () and found.unchecked and not found.identical
    assert_sound(path)


@pytest.mark.parametrize("name", [0, "0", "round1_task1_action0_input", "round1_task1_action0_input#0"])
def test_a_document_is_named_by_number_label_or_reference(name: str | int, tmp_path: Path) -> None:
    """A label names all that stand under it."""
    scripted, result = told(tmp_path)
    with scripted:
        scripted.journal.erase(result.run_id, documents=[name])
        gone = [scripted.journal.document(result.run_id, number) is None for number in (0, 1)]
        assert gone == [True, name == "round1_task1_action0_input"]


def test_arguments_that_quote_a_document_take_the_salt_of_the_keys_with_them(tmp_path: Path) -> None:
    """Else a guess of the arguments could be checked against the key that stays in the row."""
    path = tmp_path / JOURNAL
    replies = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text=LETTER[:80]), STOP, SUCCESS]
    with engine(tmp_path, replies) as scripted:
        run_id = scripted.run("Send it", documents=[("letter.txt", LETTER)]).run_id
        salt = scripted.journal.spec(run_id).key_salt
        scripted.journal.erase(run_id, documents=[0])
        assert salt.encode() not in bytes_of(path)
        with pytest.raises(Erased, match="its spec has been erased"):
            scripted.journal.spec(run_id)


@pytest.mark.parametrize("shape", ["escaped", "lines", "case", "within", "cut"])
def test_an_excerpt_is_found_in_any_dress(shape: str) -> None:
    """JSON within JSON, other line breaks, other case, in the middle, cut at its end."""
    excerpt = LETTER[95:150]
    dresses = {
        "escaped": json.dumps(json.dumps({"deep": [excerpt]})),
        "lines": "> " + excerpt.replace(" ", " \n\t"),
        "case": excerpt.upper(),
        "within": f"and he said {excerpt}, which is true",
        "cut": f"the letter says: {excerpt[:36]}...",
    }
    index = Excerpts([LETTER])
    assert index.stand_in(dresses[shape]) and index.stand_in(dresses[shape].encode())
    assert not index.stand_in("nothing of it")


def test_an_excerpt_begins_at_its_length() -> None:
    """Of one less nothing is said; of a short text all must be there."""
    text = form("".join(chr(97 + (number * 7 + number // 26) % 26) for number in range(200)))
    for start in range(0, 170, 13):
        assert Excerpts([text]).stand_in(f"0{text[start : start + EXCERPT]}1")
        assert not Excerpts([text]).stand_in(f"0{text[start : start + EXCERPT - 1]}1")
    assert Excerpts(["short one"]).stand_in("a SHORT \\n one") and not Excerpts(["short one"]).stand_in(
        "short on"
    )


def test_the_text_of_a_document_that_is_converted_counts_too(tmp_path: Path) -> None:
    """Of a page: what is between its tags, cut into one by the conversion."""
    page = "<html><body><p>The par<b>cel was le</b>ft with <i>your</i> neighbour</p></body></html>"
    path = tmp_path / JOURNAL
    with engine(
        tmp_path,
        [*READ(1), CONTINUE | {"hint": "parcel was left with your neighbour"}, *READ(2), STOP, SUCCESS],
    ) as scripted:
        run_id = scripted.run("Read", documents=[("page.html", page)]).run_id
        scripted.journal.erase(run_id, documents=[0])
        assert b"left with your" not in bytes_of(path)


# -- by payload ------------------------------------------------------------------------------------------------------


def test_payloads_are_erased_by_number_and_nothing_else_is(tmp_path: Path) -> None:
    """The one way to erase less than what hangs together."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        assert scripted.journal.erase(run_id, payloads=[2, 5]).erased == {run_id: 2}
        assert scripted.journal.erasures(run_id)[0].payloads == "[[2,2],[5,5]]"
        with pytest.raises(UsageError, match="has those from 0 to"):
            scripted.journal.erase(run_id, payloads=[99])


# -- other runs ------------------------------------------------------------------------------------------------------


def workflow(tmp_path: Path) -> tuple[Engine, str]:
    """Return an engine and a workflow whose tasks got the letter, with a second round."""
    scripted = engine(tmp_path, [], ids=SeededIds("flow"))
    from ..modes.test_fallback import ByKind

    model = ByKind(selection=[SELECT()], parameters=[PARAMETERS(page=1)], refinement=[STOP], review=[SUCCESS])
    tasks = [Task("Read the letter"), Task("Read it again", dependencies=["task_1"])]
    flow = scripted.run_workflow("Handle it", tasks=tasks, documents=[("letter.txt", LETTER)], model=model)
    return scripted, flow.run_id


def test_other_runs_that_hold_a_document_are_named_and_nothing_is_erased(tmp_path: Path) -> None:
    """The choice is the caller's: there too, or named and kept."""
    path = tmp_path / JOURNAL
    scripted, flow = workflow(tmp_path)
    with scripted:
        runs = [row.run_id for row in scripted.journal.runs()]
        before = bodies(path)
        for what in ({}, {"documents": [0]}):
            with pytest.raises(
                UsageError, match=r"nothing was erased, since other runs .*--others erase"
            ) as raised:
                scripted.journal.erase(flow, **what)  # type: ignore[arg-type]
            assert all(run in str(raised.value) for run in runs if run != flow)
        assert bodies(path) == before
        kept = scripted.journal.erase(flow, documents=[0], others="keep")
        assert list(kept.erased) == [flow] and sorted([*kept.kept, flow]) == sorted(runs)
        assert LETTER[:40].encode() in bytes_of(path)
        done = scripted.journal.erase(runs[0], documents=[0], others="erase")
        assert flow not in done.erased and set(done.erased) <= set(runs)
        assert_gone(path, LETTER)
        assert json.loads(scripted.journal.erasures(kept.kept[0])[0].rule)["by"] == "document"
    assert_sound(path)


def test_a_run_by_itself_that_was_given_the_same_document_is_found_too(tmp_path: Path) -> None:
    """Excerpts of a document are looked for in the whole file."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        one, two = (scripted.run(f"Read {n}", documents=[("l.txt", LETTER + n)]).run_id for n in "ab")
        with pytest.raises(UsageError, match=two):
            scripted.journal.erase(one, documents=[0])
        assert set(scripted.journal.erase(one, documents=[0], others="erase").erased) == {one, two}
        assert_gone(tmp_path / JOURNAL, LETTER)
        assert json.loads(scripted.journal.erasures(two)[0].rule) == {
            "by": "document",
            "documents": [0],
            "of": one,
        }


def test_a_fork_holds_what_its_parent_holds(tmp_path: Path) -> None:
    """What it shares is under its parent: erasing by either asks for the other; afterwards both say so."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        parent = scripted.run("Read the letter", documents=[("letter.txt", LETTER)], context=LETTER).run_id
        fork = scripted.fork(parent, 4).run_id
        for run_id in (parent, fork):
            with pytest.raises(UsageError, match="other runs belong to it"):
                scripted.journal.erase(run_id)
        done = scripted.journal.erase(fork, documents=[0], others="erase")
        assert parent in done.erased
        assert_gone(tmp_path / JOURNAL, LETTER)
        for run_id in (parent, fork):
            found = replay(scripted.journal, run_id)
            assert found.unchecked and not found.divergences
    assert_sound(tmp_path / JOURNAL)


# -- who may, and when -------------------------------------------------------------------------------------------------


def test_a_run_that_is_driven_is_never_erased(tmp_path: Path) -> None:
    """By nobody, by no force; afterwards it is."""
    path, reached, go = tmp_path / JOURNAL, threading.Event(), threading.Event()

    @tool("notes.wait", effect="read")
    def wait(page: int) -> str:
        """Wait."""
        reached.set()
        assert go.wait(60)
        return "done"

    with engine(tmp_path, [SELECT("notes.wait"), PARAMETERS(page=1), STOP, SUCCESS], (wait,)) as scripted:
        driver = threading.Thread(target=scripted.run, args=("Wait",))
        driver.start()
        assert reached.wait(60)
        with Journal(path) as other:
            run_id = other.runs()[0].run_id
            try:
                for force in (False, True):
                    with pytest.raises(LeaseHeld, match="is driven by"):
                        other.erase(run_id, force=force)
            finally:
                go.set()
                driver.join()
            assert other.run(run_id).status == "done" and other.erase(run_id).payloads > 0


def test_a_run_that_has_not_ended_is_erased_by_force_only(tmp_path: Path) -> None:
    """It cannot go on afterwards, and says so in one line."""
    journey = BY_NAME["approved"]
    with journey.engine(tmp_path) as scripted:
        run_id = scripted.run("Send").run_id
        with pytest.raises(UsageError, match=r"has not ended \(waiting\).*--force"):
            scripted.journal.erase(run_id)
        assert scripted.journal.erase(run_id, force=True).payloads > 0
        with pytest.raises(Erased, match="can be verified, not resumed"):
            scripted.resume(run_id, answer={"approve": True})
        assert scripted.journal.verify() == []


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"documents": ["none"]}, "has no such document"),
        ({"documents": [True]}, "named by its label or number"),
        ({"payloads": [-1]}, "has those from 0"),
        ({"payloads": [0], "documents": [0]}, "one of them at a time"),
        ({"reason": "He asked us to"}, "a code such as a ticket's number"),
        ({"reason": "supplier"}, "the reason stands in what is to be erased"),
        ({"others": "maybe"}, "expected one of refuse, erase, keep"),
    ],
)
def test_what_cannot_be_erased_is_told_and_nothing_is(
    what: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """One line that says what was expected."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        before = bodies(tmp_path / JOURNAL)
        with pytest.raises(UsageError, match=message):
            scripted.journal.erase(run_id, **what)
        assert bodies(tmp_path / JOURNAL) == before and scripted.journal.erasures(run_id) == []
        with pytest.raises(UnknownRun):
            scripted.journal.erase("none-such")
    with (
        Journal(tmp_path / JOURNAL, read_only=True) as journal,
        pytest.raises(UsageError, match="reading only"),
    ):
        journal.erase(run_id)


def test_a_dry_run_erases_nothing_and_tells_what_would_be(tmp_path: Path) -> None:
    """Also which other runs."""
    scripted, flow = workflow(tmp_path)
    with scripted:
        before = bodies(tmp_path / JOURNAL)
        told = scripted.journal.erase(flow, documents=[0], dry_run=True)
        assert told.payloads > 0 and len(told.kept) == 2 and not told.scrubbed
        assert bodies(tmp_path / JOURNAL) == before


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_reader_of_an_old_moment_keeps_copies_alive_and_finish_removes_them(tmp_path: Path) -> None:
    """One clear line; the erasure stands, and is completed when the reader has gone."""
    path = tmp_path / JOURNAL
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read", documents=[("letter.txt", LETTER)]).run_id
    with Journal(path, busy_timeout_s=0) as journal:
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM specs").fetchone()
            with pytest.raises(JournalBusy, match=r"the erasure is recorded.*paor erase --finish"):
                journal.erase(run_id)
            assert journal.erasures(run_id) and journal.store.unscrubbed() == [run_id]
            assert journal.verify() == []
            assert LETTER[:30].encode() in bytes_of(path)
        assert journal.finish_erasing() and not journal.finish_erasing()
        assert journal.store.unscrubbed() == []
        assert_gone(path, LETTER)


def test_whoever_has_read_a_snapshot_holds_nothing_of_the_file(tmp_path: Path) -> None:
    """Not even what was read in bulk and given up half way: its statement is closed, whenever the collector comes."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS, *READ(1), STOP, SUCCESS]) as scripted:
        first = scripted.run("Read", documents=[("letter.txt", LETTER)])
        scripted.run("Read")
    with Journal(tmp_path / JOURNAL, busy_timeout_s=0) as journal:
        with journal.snapshot() as still:
            scan = Scan(still, "rows", 1)  # kept beyond its snapshot, as whatever is in a circle is
            assert scan.take(2**63 - 1)
        assert journal.erase(first.run_id).scrubbed
        with pytest.raises(JournalError, match="closed"):
            scan.take(2**63 - 1)


def test_an_older_copy_in_free_pages_goes_too(tmp_path: Path) -> None:
    """What somebody deleted before, without paor and without overwriting it, is not left behind either."""
    path = tmp_path / JOURNAL
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
    with closing(forge(path)) as connection:
        connection.execute("PRAGMA secure_delete=OFF")
        connection.execute("CREATE TABLE other (body TEXT)")
        connection.executemany("INSERT INTO other VALUES (?)", [(LETTER * 200,)] * 3)
        connection.commit()
        connection.execute("DROP TABLE other")
    assert LETTER[:30].encode() in bytes_of(path)
    with Journal(path) as journal:
        journal.erase(run_id)
        assert_gone(path, LETTER)


def test_others_write_before_and_after_and_lose_nothing(tmp_path: Path) -> None:
    """Runs that are driven by other threads while one is erased again and again."""
    path = tmp_path / JOURNAL
    with Journal(path, "off") as journal:
        ended: list[str] = []

        def drive(seed: str) -> None:
            own = engine(
                tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], journal=journal, ids=SeededIds(seed)
            )
            ended.extend(own.run(f"Read {seed} {number}").run_id for number in range(4))

        threads = [threading.Thread(target=drive, args=(seed,)) for seed in "abc"]
        for thread in threads:
            thread.start()
        erased = set()
        while any(thread.is_alive() for thread in threads):
            for run_id in ended[:]:
                if run_id not in erased:
                    journal.erase(run_id)
                    erased.add(run_id)
        for thread in threads:
            thread.join()
        assert journal.verify() == [] and len(journal.runs()) == 12
        assert {row.run_id for row in journal.runs() if row.status == "done"} == set(ended)


@pytest.mark.whole
def test_a_kill_at_any_point_leaves_the_old_or_what_can_be_completed(tmp_path: Path) -> None:
    """Before and within every statement, the rewriting of the file among them: all or nothing, then finished."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read", documents=[("letter.txt", LETTER)]).run_id
    whole = (tmp_path / JOURNAL).read_bytes()
    total = _killed(tmp_path, whole, run_id, None)
    seen = set()
    for at in sorted({*range(0, total, max(1, total // 16)), *range(total - 4, total)}):
        path = tmp_path / "killed" / JOURNAL
        assert _killed(tmp_path, whole, run_id, at) == 0
        with Journal(path, "off") as journal:
            assert journal.verify() == [], at
            records, open_ = len(journal.erasures(run_id)), journal.store.unscrubbed()
            seen.add((records, bool(open_)))
            if not records:
                assert query(path, "SELECT count(*) FROM payloads WHERE body IS NULL") == [(0,)]
                journal.erase(run_id)
            else:
                assert query(path, "SELECT count(*) FROM payloads WHERE body IS NOT NULL") == [(0,)]
                journal.finish_erasing()
            assert_gone(path, LETTER)
    assert_sound(path)
    assert seen >= {(0, False), (1, True)}


def _killed(folder: Path, whole: bytes, run_id: str, at: int | None) -> int:
    """
    Erase a run in a child of this process, which is killed at one of many points.

    Returns:
        Without *at* how many points there are; else 0 once it was killed there.
    """
    target = folder / "killed"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    (target / JOURNAL).write_bytes(whole)
    child = os.fork()
    if child == 0:
        try:
            _erase_and_die(target, run_id, at)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if at is None:
        assert status == 0
        return int((target / "points").read_text())
    return status + signal.SIGKILL


def _erase_and_die(target: Path, run_id: str, at: int | None) -> None:
    """Count statements and stretches of their work; be killed at one of them."""
    count = 0

    def point(statement: str = "") -> int:
        nonlocal count
        count += 1
        if at is not None and count > at:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    with Journal(target / JOURNAL) as journal:
        connection = file_of(journal).connection
        connection.set_progress_handler(point, 100)
        connection.set_trace_callback(point)
        journal.erase(run_id)
        (target / "points").write_text(str(count))
    os._exit(0)


def test_no_value_of_a_connection_or_key_gets_into_a_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels only; a tool that uses the value and says nothing of it leaves nothing either."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment-key-0123456789")
    seen = []
    from paor import ToolContext

    @tool("notes.fetch", effect="read")
    def fetch(context: ToolContext, page: int) -> str:
        """Use the connection."""
        seen.append(context.connection)
        return f"page {page}"

    script = [SELECT("notes.fetch", requiredConnection="crm"), PARAMETERS(page=1), STOP, SUCCESS]
    with engine(tmp_path, script, (fetch,), limits=Limits(max_steps=3)) as scripted:
        run_id = scripted.run("Fetch", connections={"crm": "hunter2-the-password"}).run_id
        assert seen == ["hunter2-the-password"]
        lines = json.dumps(list(scripted.journal.export(run_id)))
        data = bytes_of(tmp_path / JOURNAL) + lines.encode()
    for secret in (b"hunter2", b"environment-key"):
        assert secret not in data
    assert b'connections":["crm"]' in data
