"""`paor recover`, conditions of `paor runs`, `paor run --key`, and the journal that `--app` works on."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from paor import Engine

from ..support.cli_support import (
    DONE,
    OUT_OF_STEPS,
    Shell,
)


def lost(shell: Shell, rows: int, *, journal: str = "paor.db", replies: Any = DONE, **options: Any) -> str:
    """Return a run that stands after some rows and that nobody drives."""
    shell.script(*replies)
    with Engine("script:script.json", journal=shell.folder / journal, builtins=True) as engine:
        stream = engine.stream("Write it", **options, on_close="stop")
        run_id = next(stream).run_id
        for _ in range(rows):
            next(stream)
        stream.close()
    return run_id


# -- recover -------------------------------------------------------------------------------------------------------


def test_recover_goes_on_with_every_run_and_says_how_each_ended(shell: Shell) -> None:
    """Exit code 0 however they ended; a second time there is nothing."""
    done, failed = lost(shell, 1, key="order-17"), lost(shell, 2, replies=[*DONE[:3], "no JSON"])
    said = shell("recover", "--model", shell.script(*DONE))
    assert said.code == 0, said
    first, second = said.out.splitlines()
    assert first.startswith(f"run {done}  Done (model_stop)  1 step  key order-17")
    assert second.startswith(f"run {failed}  Done (model_stop)  1 step")
    assert f"run {done}: goes on in Specifying after 1 transition" in said.err
    again = shell("recover", "--model", "offline", "--json")
    assert (again.code, again.json) == (0, {"results": [], "refused": []})
    said = shell("recover", "--quiet")
    assert (said.code, said.out) == (0, "") and "no run is left without a driver" in said.err


def test_recover_as_json_is_the_results_and_the_refusals(shell: Shell, shop: str) -> None:
    """A run whose tools are missing is named with what to do, and stops no other; exit code 2."""
    with Engine("offline", journal=shell.folder / "paor.db") as empty:
        empty.journal.runs()
    sys.path.insert(0, str(shell.folder))
    try:
        host = __import__(shop).plain(shell.folder / "paor.db")
    finally:
        sys.path.remove(str(shell.folder))
    with host:
        stream = host.stream("Look", on_close="stop")
        needs = next(stream).run_id
        next(stream)
        stream.close()
    mine = lost(shell, 1)
    said = shell("recover", "--model", shell.script(*DONE), "--json")
    assert said.code == 2
    assert [item["run_id"] for item in said.json["results"]] == [mine]
    assert said.json["results"][0]["status"] == "done" and said.json["results"][0]["metadata"] == {}
    (refused,) = said.json["refused"]
    assert refused["run_id"] == needs and "--app MODULE:ENGINE" in refused["error"]
    assert f"{needs} cannot go on: run {needs} uses shop.look" in said.err and "look: paor show" in said.err
    assert "Traceback" not in said.err
    said = shell("recover", "--app", f"{shop}:plain")
    assert said.code == 0 and said.out.startswith(f"run {needs}  Done"), said


def test_recover_goes_on_with_the_model_that_each_run_had(shell: Shell) -> None:
    """As `paor resume` does; one that cannot be made from its name is refused with a line."""
    lost(shell, 1)
    with Engine("offline", journal=shell.folder / "paor.db") as engine:
        stream = engine.stream("Read it", documents=[("a.txt", "All is said here.")], on_close="stop")
        offline = next(stream).run_id
        stream.close()
    said = shell("recover")
    assert said.code == 2
    assert said.out.startswith(f"run {offline}") and "name the one to go on with: --model" in said.err


def test_recover_of_changed_and_damaged_runs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2 for one that has changed, which --accept-changes goes on with; 4 for a damaged one."""
    changed = lost(shell, 1, prompt_template="Choose for {{KEY:OBJECTIVE}}.")
    with monkeypatch.context() as patch:
        patch.setattr("paor.fsm.lifecycle.acceptance.changes_now", _always_changed)
        said = shell("recover", "--model", shell.script(*DONE))
        assert (
            said.code == 2
            and f"{changed} cannot go on: run {changed} was recorded with other parts" in said.err
        )
    damaged = lost(shell, 3)
    shell.sql("UPDATE transitions SET at = at + 1 WHERE id = 2 << 32")
    said = shell("recover", "--model", shell.script(*DONE), "--accept-changes")
    assert said.code == 4 and said.out.startswith(f"run {changed}  Done")
    assert f"{damaged} cannot go on" in said.err and "paor verify" in said.err


def _always_changed(runner: Any, run: Any) -> Any:
    from paor.audit import ChangedPart

    return (ChangedPart("prompt.selection", "a", "b", (0,), True),)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--journal", "none.db"), "there is no such journal"),
        (("--journal", "script.json"), "is not"),
        (("--model", "nobody:x"), "nobody"),
        (("--app", "nowhere_at_all:engine"), "No module named"),
        (("last",), "unexpected extra argument"),
    ],
)
def test_recover_with_bad_input_is_one_line_and_creates_nothing(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2."""
    shell.script(*DONE)
    lost(shell, 1)
    before = shell.files()
    shell("recover", *arguments).refused(words, lines=2)
    assert {name for name in shell.files() if not name.endswith(("-wal", "-shm"))} == before


# -- keys ----------------------------------------------------------------------------------------------------------


def test_a_run_with_a_key_is_started_once(shell: Shell) -> None:
    """By options and as JSON; a second command prints the result, whatever model it names; another objective is refused."""
    first = shell.run("--key", "order-17", "--metadata", "tenant=acme", "--metadata", "n=1", "--json")
    assert first.code == 0 and first.json["key"] == "order-17"
    assert first.json["metadata"] == {"n": "1", "tenant": "acme"}
    again = shell("run", "Write it", "--model", "offline", "--key", "order-17", "--json")
    assert (again.code, again.json) == (0, first.json)
    given = json.dumps(
        {"objective": "Write it", "key": "order-17", "metadata": {"other": 1}, "model": "offline"}
    )
    assert shell("run", "--input", given, "--json").json == first.json
    said = shell("run", "Write another", "--model", "offline", "--key", "order-17")
    said.refused(f"key 'order-17' is that of run {first.json['run_id']}", "other objective", lines=2)
    said = shell("run", "Write it", "--model", "offline", "--key", "order-17", "--max-steps", "7")
    said.refused("other limits", lines=2)
    assert len(shell("runs", "--json").json) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--key", ""), "expected a text of 1 to 200"),
        (("--metadata", "tenant"), "expected NAME=VALUE"),
        (("--metadata", "a b=c"), "expected NAME=VALUE"),
        (("--metadata", "a=b", "--metadata", "a=c"), "a stands twice"),
        (("--metadata", f"a={'x' * 5000}"), "at most 4096 are kept"),
        (("--input", '{"objective": "x", "metadata": "a"}'), "metadata must be an object"),
        (("--input", '{"objective": "x", "key": 1}'), "key must be a text"),
    ],
)
def test_a_key_or_metadata_that_is_none_is_refused(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    """With one line; no run is started."""
    objective = () if "--input" in arguments else ("Write it",)
    shell("run", *objective, "--model", "offline", *arguments).refused(words, lines=2)
    assert "paor.db" not in shell.files() or shell("runs", "--json").json == []


# -- conditions of a list ------------------------------------------------------------------------------------------


def test_runs_are_listed_by_their_conditions(shell: Shell) -> None:
    """All of them must hold; a value of metadata is a text or JSON."""
    shell.run("--key", "a", "--metadata", "tenant=acme", "--metadata", "n=1")
    given = {"objective": "x", "metadata": {"tenant": "acme", "n": 1}, "tools": ["ai.process"]}
    shell("run", "--input", json.dumps(given), "--model", shell.script(*OUT_OF_STEPS))
    lost(shell, 1)

    def listed(*arguments: str) -> list[int]:
        said = shell("runs", *arguments, "--json")
        assert said.code == 0, said
        return [row["run"] for row in said.json]

    assert listed() == [3, 2, 1]
    assert listed("--status", "done") == [1] and listed("--status", "running") == [3]
    assert listed("--state", "Specifying") == [3] and listed("--state", "Failed") == [2]
    assert listed("--key", "a") == [1] and listed("--key", "b") == []
    assert listed("--metadata", "tenant=acme") == [2, 1] and listed("--metadata", "n=1") == [2, 1]
    assert listed("--metadata", "tenant=acme", "--status", "failed") == [2]
    assert listed("--metadata", 'tenant="acme"') == [2, 1] and listed("--metadata", "n=2") == []
    assert listed("--since", "1h") == [3, 2, 1] and listed("--since", "2000-01-01") == [3, 2, 1]
    assert listed("--since", "2999-01-01T10:00") == [] and listed("--limit", "2") == [3, 2]
    said = shell("runs", "--status", "failed")
    assert said.out.count("\n") == 2 and "Failed" in said.out
    said = shell("runs", "--status", "waiting")
    assert (said.code, said.out) == (0, "") and "holds no such run" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--status", "finished"), "'finished' is not one of 'running', 'waiting', 'done', 'failed'"),
        (("--state", "Sleeping"), "'Sleeping' is not one of 'Planning'"),
        (("--since", "yesterday"), "expected a date, a time such as"),
        (("--since", ""), "expected a date, a time such as"),
        (("--since", "999999d"), "expected a date, a time such as"),
        (("--metadata", "x"), "expected NAME=VALUE"),
        (("--key", ""), "expected a text of 1 to 200"),
        (("--limit", "-1"), "-1"),
    ],
)
def test_a_condition_that_is_none_is_one_line(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    """Exit code 2."""
    shell.run()
    shell("runs", *arguments).refused(words, lines=2)


# -- the journal of an app -----------------------------------------------------------------------------------------

OWN = """
import {shop}

def own(journal):
    return {shop}.engine("own.db")

def by_path(journal):
    return {shop}.engine(journal.path)
"""


def test_a_function_whose_engine_has_its_own_journal_is_followed_in_every_command(
    shell: Shell, shop: str
) -> None:
    """Run, list by resume, answer, replay, fork, cancel, recover: all in that file, and no other is created."""
    shell.write(f"own_{shop}.py", OWN.format(shop=shop))
    app = ("--app", f"own_{shop}:own")
    said = shell("run", "Look", *app)
    assert said.code == 5 and "--journal own.db" in said.err, said
    assert shell("resume", "last", *app).code == 5
    assert shell("replay", "last", *app).code == 0
    assert shell("fork", "last", "--at", "1", "--no-run", *app).code == 0
    said = shell("recover", *app)
    assert said.code == 0 and "waits: approval" in said.out, said
    assert shell("resume", "last~1", "--answer", '{"approve": true}', *app).code == 0
    assert shell("cancel", "last", *app).code == 0
    assert "paor.db" not in shell.files()
    rows = shell("runs", "--journal", "own.db", "--json").json
    assert [row["status"] for row in rows] == ["failed", "done"]


def test_a_journal_that_is_named_beside_another_one_is_refused(
    shell: Shell, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line that names both; the environment gives way to the engine, as a default does."""
    shell.write(f"own_{shop}.py", OWN.format(shop=shop))
    app = ("--app", f"own_{shop}:own")
    assert shell("run", "Look", *app).code == 5
    for words in (
        ("run", "Look"),
        ("resume", "last"),
        ("replay", "last"),
        ("fork", "last", "--at", "1"),
        ("cancel", "last"),
        ("recover",),
    ):
        shell(*words, *app, "--journal", "other.db").refused("has the journal own.db, not other.db")
    monkeypatch.setenv("PAOR_JOURNAL", "other.db")
    assert shell("replay", "last", *app).code == 0 and "other.db" not in shell.files()


# -- an answer to a run that has ended -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [("--answer", '{"approve": true}'), ("--answer", "1"), ("--outcome", "retry"), ("--outcome", "done")],
)
def test_an_answer_to_a_run_that_has_ended_is_exit_code_2(shell: Shell, given: tuple[str, ...]) -> None:
    """One line, with --json too; nothing is written, and its result can still be printed."""
    shell.run()
    shell.run(replies=["no JSON"] * 3)
    for run in ("last", "last~1"):
        for more in ((), ("--json",)):
            said = shell("resume", run, *given, *more)
            said.refused("has ended in", "takes no answer")
    assert shell("resume", "last~1").code == 0
