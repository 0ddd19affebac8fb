"""`paor erase`, `paor export` and `paor import` as a shell sees them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from paor import Engine, Journal, Policy, ScriptedModel, tool
from paor.testing import call, refine

from ..support.cli_support import PARAMETERS, SELECT, STOP, SUCCESS, Shell

SECRET = "sk-proj-Zm9vYmFyYmF6cXV4MTIz"


def given_run(shell: Shell) -> str:
    """Run with a document that holds a secret, and return the run's id."""
    shell.write("letter.txt", f"Dear Ms Example, the parcel was left with your neighbour. Key: {SECRET}")
    quoting = f"Ms Example, the parcel was left with your neighbour, it says, and the key is {SECRET}."
    assert (
        shell.run("--document", "letter.txt", replies=[SELECT, PARAMETERS, quoting, STOP, SUCCESS]).code == 0
    )
    found: str = shell("runs", "--json").json[0]["run_id"]
    return found


def everything(shell: Shell) -> bytes:
    """Return the bytes of the journal's files."""
    return b"".join(path.read_bytes() for path in sorted(shell.folder.glob("paor.db*")))


def test_a_document_is_erased_and_the_journal_says_so(shell: Shell) -> None:
    """What, when, by which rule and why; show and replay tell it, and nothing else is asked of the reader."""
    run_id = given_run(shell)
    told = shell("erase", "last", "--document", "0", "--dry-run")
    assert told.code == 0 and "would be erased" in told.out and b"your neighbour" in everything(shell)
    said = shell("erase", "last", "--document", "round1_task1_action0_input#0", "--reason", "TICKET-17")
    assert said.code == 0 and said.out.startswith(f"run {run_id}  ") and "payloads erased" in said.out
    assert b"your neighbour" not in everything(shell)
    shown = shell("show", "last").out
    assert "by document" in shown and "TICKET-17" in shown
    (record,) = shell("show", "last", "--json").json["erasures"]
    assert (
        json.loads(record["rule"]) == {"by": "document", "documents": [0]} and record["reason"] == "TICKET-17"
    )
    replayed = shell("replay")
    assert replayed.code == 0
    assert (
        "identical as far as it was not erased" in replayed.out
        and "not checked since it was erased" in replayed.out
    )
    found = shell("replay", "last", "--json").json
    assert found["identical"] is False and found["divergences"] == [] and found["unchecked"]
    assert shell("verify").code == 0
    shell("show", "last", "--content", "0").refused("has been erased")


def test_a_run_is_erased_as_a_whole_and_every_command_copes(shell: Shell) -> None:
    """One clear line or `(erased)`, no traceback; a second time there is nothing left."""
    run_id = given_run(shell)
    done = shell("erase", run_id[:13], "--all", "--json").json
    assert list(done["erased"]) == [run_id] and done["scrubbed"] is True and done["dry_run"] is False
    assert shell("erase", "last", "--all").out == f"run {run_id}  nothing is left to erase\n"
    for command in ("runs", "show", "verify", "replay", "export", "doctor"):
        said = shell(command)
        assert said.code == 0 and "Traceback" not in said.out + said.err, command
    for words in (("show", "--steps"), ("show", "--documents"), ("diagram", "last"), ("why", "last")):
        assert "Traceback" not in shell(*words).err
    assert "objective  (erased)" in shell("show").out and "(erased)" in shell("runs").out
    assert "(erased)" in shell("show", "--steps").out and shell("show", "--json").json["spec"] is None
    shell("resume", "last").refused("its spec has been erased; it can be verified, not resumed")


@pytest.mark.parametrize(
    "arguments",
    [
        ("erase", "last"),
        ("erase", "--all"),
        ("erase", "last", "--finish"),
        ("erase", "last", "--all", "--document", "0"),
        ("erase", "last", "--document", "none"),
        ("erase", "last", "--document", "0", "--payload", "1"),
        ("erase", "last", "--payload", "999"),
        ("erase", "last", "--payload", "x"),
        ("erase", "last", "--all", "--reason", "because he asked"),
        ("erase", "none-such", "--all"),
        ("export", "last", "--all"),
        ("export", "--redact", "no-such-file"),
        ("import", "no-such-file"),
        ("import", "."),
        ("import", "paor.db"),
    ],
)
def test_what_cannot_be_done_is_a_line_and_exit_code_2(arguments: tuple[str, ...], shell: Shell) -> None:
    """And nothing is erased or imported."""
    given_run(shell)
    before = shell("export").out
    said = shell(*arguments)
    assert said.code == 2 and said.out == "" and 1 <= said.err.count("\n") <= 2
    assert shell("export").out == before


@pytest.mark.parametrize("command", [("erase", "last", "--all"), ("erase", "--finish"), ("export", "--all")])
def test_a_journal_that_is_not_there_is_not_created(command: tuple[str, ...], shell: Shell) -> None:
    """Only an import makes one."""
    before = shell.files()
    shell(*command).refused("there is no such journal")
    assert shell.files() == before


def test_an_erasure_that_others_hold_up_is_finished_later(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what to do, and doing it ends it."""
    monkeypatch.setenv("PAOR_BUSY_TIMEOUT_S", "0")
    given_run(shell)
    with closing(sqlite3.connect(shell.folder / "paor.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM specs").fetchone()
        shell("erase", "last", "--all").refused("paor erase --finish")
    assert shell("erase", "--finish").out == "no old copies are left\n"
    assert b"your neighbour" not in everything(shell)
    assert shell("erase", "--finish").out == "nothing was left to do\n"
    assert shell("erase", "--finish", "--json").json == {"runs": [], "scrubbed": False}


def test_runs_are_carried_from_one_journal_to_another(shell: Shell) -> None:
    """By a file or a pipe; the second time nothing is written, and the export is the same."""
    run_id = given_run(shell)
    assert shell.run().code == 0
    assert shell("export", "--all", "--output", "runs.jsonl").code == 0
    text = (shell.folder / "runs.jsonl").read_bytes()
    said = shell("import", "runs.jsonl", "--journal", "to.db")
    assert said.code == 0 and said.out.count("imported, ") == 2
    again = shell("import", "-", "--journal", "to.db", stdin=text)
    assert again.code == 0 and again.out.count("is here already, nothing was written") == 2
    assert shell("export", "--all", "--journal", "to.db").out.encode() == text
    assert shell("import", "runs.jsonl", "--journal", "to.db", "--json").json[0] == {
        "run_id": run_id,
        "how": "known",
        "transitions": 0,
    }
    assert shell("verify", "--journal", "to.db").code == shell("replay", "--journal", "to.db").code == 0


def test_an_import_that_does_not_prove_itself_is_exit_code_4(shell: Shell) -> None:
    """Also a run that is told otherwise here; a line that is none is 2."""
    given_run(shell)
    text = shell("export").out
    for changed, code, message in (
        (text.replace('"tokens_in":', '"tokens_in":1', 1), 4, "does not fit its hash"),
        (text.replace('"version":2', '"version":3'), 2, "version 3 of the export; this paor knows version 2"),
        (text[:-9], 2, "is no line of an export"),
        ("", 2, "line 1: there is none"),
    ):
        said = shell("import", "-", "--journal", "to.db", stdin=changed.encode())
        assert (said.code, said.err.count("\n"), message in said.err) == (code, 1, True), said.err
        assert not (shell.folder / "to.db").exists(), "nothing was imported"
    assert shell("import", "-", "--journal", "to.db", stdin=text.encode()).code == 0


def test_secrets_are_left_out_on_request(shell: Shell) -> None:
    """By the shipped rules and by a file of one's own."""
    given_run(shell)
    assert SECRET in shell("export").out
    shell.write("rules.txt", "# whom it is about\nname: Ms [A-Z][a-z]+\n")
    for rules, gone in ((["default"], [SECRET]), (["rules.txt"], [SECRET, "Ms Example"])):
        said = shell("export", *[part for name in rules for part in ("--redact", name)])
        assert said.code == 0 and not any(text in said.out for text in gone)
        assert shell("import", "-", "--journal", f"{rules[0]}.db", stdin=said.out.encode()).code == 0
        assert shell("verify", "--journal", f"{rules[0]}.db").code == 0
    shell.write("bad.txt", "no rule at all\n")
    shell("export", "--redact", "bad.txt").refused("bad.txt, line 1: expected NAME: REGULAR EXPRESSION")


def test_an_import_that_fails_leaves_no_new_journal_behind(shell: Shell) -> None:
    """Nor does it take away one that was there."""
    (shell.folder / "bad.jsonl").write_bytes(b"\0\xff not a line")
    assert shell("import", "bad.jsonl", "--journal", "new.db").code == 2
    assert not list(shell.folder.glob("new.db*"))
    assert shell("run", "Say something", "--model", "offline", "--journal", "kept.db").code in (0, 1)
    before = shell("runs", "--journal", "kept.db", "--json").json
    assert shell("import", "bad.jsonl", "--journal", "kept.db").code == 2
    assert shell("runs", "--journal", "kept.db", "--json").json == before != []


def test_a_file_of_heads_that_is_something_else_is_told_in_one_short_line(shell: Shell) -> None:
    """Whatever is in it."""
    (shell.folder / "heads.txt").write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 100)
    assert shell("run", "Say something", "--model", "offline").code in (0, 1)
    said = shell("verify", "--heads", "heads.txt")
    assert said.code == 2 and len(said.err) < 200 and len(said.err.splitlines()) == 1


def test_runs_that_ended_long_ago_are_erased_and_others_stay(shell: Shell) -> None:
    """One that has not ended stays, however old; a second time nothing is due."""
    for objective in ("The first secret", "The second secret"):
        assert shell("run", objective, "--model", "offline").code in (0, 1)
    old, new = (row["run_id"] for row in reversed(shell("runs", "--json").json))
    with Journal(shell.folder / "paor.db") as journal:
        ended = journal.run(old).ended_at
        assert ended is not None
        nothing = journal.erase_older_than(180 * 86_400)
        (found,) = journal.erase_older_than(0, dry_run=True, at=ended + 1)
        assert nothing == [] and found.run_id == old and found.erased[old] > 0
        (done,) = journal.erase_older_than(0, reason="RETENTION", at=ended + 1)
        assert (done.run_id, done.scrubbed) == (old, True)
        assert journal.erase_older_than(0, at=ended + 1) == [] and journal.verify() == []
        assert journal.run(new).objective == "The second secret" and journal.run(old).objective is None
    assert b"first secret" not in (shell.folder / "paor.db").read_bytes()


def test_what_a_run_that_has_not_ended_shares_is_not_erased_for_its_age(tmp_path: Path) -> None:
    """A fork that waits needs the texts of the run that it was forked from, however long ago that one ended."""

    @tool("bank.pay", effect="once")
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    script = [*call("bank.pay", amount=5), refine("stop", answer="paid")]
    policy = Policy(approvals=("bank.*",))
    with Engine(ScriptedModel(script), [pay], tmp_path / "runs.db", policy=policy) as engine:
        waits = engine.run("Pay").run_id
        engine.resume(waits, answer={"approve": True})
        at = next(row.seq for row in engine.journal.transitions(waits) if row.trigger == "wait")
        fork = engine.fork(waits, at)
        assert fork.status == "waiting"
        later = engine.journal.run(waits).ended_at
        assert later is not None
        assert engine.journal.erase_older_than(0, at=later + 1) == []
        assert engine.resume(fork.run_id, answer={"approve": True}).state == "Done"
        erased = engine.journal.erase_older_than(0, at=later + 10**12)
        assert {one.run_id for one in erased} == {waits, fork.run_id} and engine.journal.verify() == []


def test_an_age_below_the_least_one_erases_nothing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be set, and is told."""
    assert shell("run", "Say something", "--model", "offline").code in (0, 1)
    shell("erase", "--older-than", "29d").refused("--older-than 29d is below --min-age 30d", code=2)
    said = shell("erase", "--older-than", "30d")
    assert (said.code, said.out) == (
        0,
        "no run is due\n",
    ) and "older than 30d (at least 30d): 0 runs" in said.err
    monkeypatch.setenv("PAOR_ERASE_MIN_AGE", "52w")
    shell("erase", "--older-than", "180d").refused("is below --min-age 364d", code=2)
    assert (
        shell("erase", "--older-than", "0s", "--min-age", "0s", "--dry-run", "--json").json[0]["dry_run"]
        is True
    )
    for wrong in ("x", "-1d", "1", "1y", "1.5d", "9999999d"):
        assert shell("erase", "--older-than", wrong).code == 2
    assert shell("erase", "last", "--older-than", "40d").code == 2
    assert shell("erase", "--older-than", "400d", "--force").code == 2
