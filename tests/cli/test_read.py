"""The commands that only read: what they show, their JSON, their exit codes."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from ..support.cli_support import (
    DONE,
    Shell,
    given_run,
    killed,
    words,
)

DETERMINISTIC = (
    ("runs", "--json"),
    ("show", "--json"),
    ("show", "--steps", "--json"),
    ("show", "--documents", "--json"),
    ("show", "--content", "0", "--json"),
    ("show", "--follow", "--json"),
    ("verify", "--json"),
    ("replay", "--json"),
    ("replay", "last", "--json"),
    ("export",),
    ("export", "--json"),
    ("diagram", "--json"),
    ("diagram", "last", "--format", "svg", "--json"),
    ("tools", "--json"),
    ("doctor", "--json"),
    ("resume", "last", "--json"),
    ("cancel", "last", "--json"),
    ("why", "--json"),
    ("why", "last", "1", "--not", "Done", "--json"),
    ("diff", "last", "last", "--json"),
)


@pytest.mark.whole
@pytest.mark.parametrize("arguments", DETERMINISTIC, ids=" ".join)
def test_json_is_the_same_bytes_in_another_process(shell: Shell, arguments: tuple[str, ...]) -> None:
    given_run(shell)
    assert shell(*arguments) == shell.process(*arguments)


def test_json_is_json_and_the_same_bytes_each_time(shell: Shell) -> None:
    given_run(shell)
    for arguments in DETERMINISTIC:
        first = shell(*arguments)
        assert first.code == 0 and first.out == shell(*arguments).out, arguments
        several = arguments[0] == "export" or "--follow" in arguments
        for line in first.out.splitlines() if several else [first.out]:
            json.loads(line)


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 140])
def test_tables_fit_the_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    given_run(shell)
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in ((), ("--steps",), ("--documents",), ("--follow",)):
        longest = max(map(len, shell("show", *arguments).out.splitlines()))
        assert longest <= columns or columns < 60, arguments
    for command in ("runs", "tools", "doctor"):
        assert max(map(len, shell(command).out.splitlines())) <= max(columns, 72)


# -- runs --------------------------------------------------------------------------------------------------------


def test_runs_of_an_empty_journal(shell: Shell) -> None:
    from paor import Journal

    Journal("paor.db").close()
    said = shell("runs")
    assert (said.code, said.out, said.err) == (0, "", "paor.db: the journal holds no run yet\n")
    assert shell("runs", "--json").json == []
    assert shell("replay", "--json").json == []
    assert "holds no run yet" in shell("replay").err
    assert shell("verify").code == 0
    shell("show").refused("holds no run yet; start one with: paor run OBJECTIVE")


def test_runs_lists_the_newest_first(shell: Shell) -> None:
    shell.run("--max-steps", "1")
    shell("run", "Something\nelse \x1b[31m", "--model", shell.script())
    lines = shell("runs").out.splitlines()
    assert lines[0].split() == ["run", "started", "state", "rows", "objective"]
    assert "Failed (model_error)" in lines[1] and "Something else ␛[31m" in lines[1]
    assert "Done (model_stop)" in lines[2] and "Write it" in lines[2]


def test_runs_json_has_the_columns_of_the_view(shell: Shell) -> None:
    shell.run()
    shell.run()
    found = shell("runs", "--json").json
    assert list(found[0]) == [
        *("run", "run_id", "workflow_id", "round", "task", "parent_run_id", "parent_seq", "spec", "state"),
        *("status", "reason", "created_at", "ended_at", "head_seq", "head_hash", "key", "metadata"),
        *("conversation", "objective", "driver", "called_by", "waiting_for", "used"),
    ]
    assert [row["run"] for row in found] == [2, 1]
    assert shell("runs", "--json", "--limit", "1").json == found[:1]


def test_runs_shows_twenty_unless_told_otherwise(shell: Shell) -> None:
    from paor import Engine, ScriptedModel

    with Engine(model=ScriptedModel([]), journal="paor.db") as engine:
        for number in range(22):
            engine.run(f"Number {number}")
    said = shell("runs")
    assert len(said.out.splitlines()) == 21
    assert "2 older runs: paor runs --limit 0" in said.err
    assert len(shell("runs", "--limit", "0").out.splitlines()) == 23
    assert len(shell("runs", "--limit", "3").out.splitlines()) == 4
    names = [line.split()[0] for line in shell("runs", "--limit", "0").out.splitlines()[1:]]
    assert len(set(names)) == 22
    assert all(shell("show", name).code == 0 for name in names[:5])


# -- verify, replay ----------------------------------------------------------------------------------------------


def test_verify_and_replay_of_a_sound_journal(shell: Shell) -> None:
    given_run(shell)
    said = shell("verify")
    assert (said.code, said.err) == (0, "")
    assert said.out == "ok  1 run, 6 transitions: chain, payloads and columns hold\n"
    said = shell("replay")
    assert said.code == 0
    assert re.fullmatch(r"run [0-9a-f-]{36}  identical  6 transitions\n", said.out)


def test_verify_lists_every_defect_with_exit_4(shell: Shell) -> None:
    given_run(shell)
    shell.sql("UPDATE transitions SET at = at + 1 WHERE seq = 2")
    said = shell("verify")
    assert said.code == 4
    assert "transitions seq 2: the row does not fit its hash" in said.out
    assert "paor.db: 1 defect" in said.err
    found = shell("verify", "--json").json
    assert (found["ok"], found["runs"], found["transitions"]) == (False, 1, 6)
    assert found["defects"][0]["place"] == "transitions seq 2"
    shell("resume", "last").refused("paor verify", code=4)


def test_replay_shows_the_first_difference_and_lists_all_as_json(shell: Shell) -> None:
    given_run(shell)
    given_run(shell)
    shell.sql("UPDATE transitions SET step = 9 WHERE run = 1 AND seq = 2")
    said = shell("replay")
    assert said.code == 3
    lines = said.out.splitlines()
    assert lines[0].endswith("diverged  6 transitions")
    assert lines[1:4] == ["  row 2, step", "    recorded  9", "    derived   1"]
    assert lines[-1].endswith("identical  6 transitions")
    assert shell("replay", "last").code == 0
    first = shell("replay", "--json").json[0]
    assert first["divergences"][0] == {"seq": 2, "field": "step", "where": "", "expected": "9", "found": "1"}


# -- export, diagram ---------------------------------------------------------------------------------------------


def test_export_is_json_lines_of_the_newest_run(shell: Shell) -> None:
    given_run(shell)
    said = shell("export")
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert lines[0] == {"line": "header", "format": "paor-export", "version": 2}
    assert lines[-1]["line"] == "head"
    assert shell("export", "last", "--output", "run.jsonl").err.startswith("wrote run.jsonl (")
    assert (shell.folder / "run.jsonl").read_text() == said.out
    shell("export", "--output", "nowhere/run.jsonl").refused("nowhere/run.jsonl: cannot be written")
    assert shell("export", "--output", "/dev/null").code == 0


def test_diagram_of_the_machine_needs_no_journal(shell: Shell) -> None:
    said = shell("diagram")
    assert said.out.startswith("stateDiagram-v2\n")
    assert shell("diagram", "--format", "dot").out.startswith("digraph paor {")
    assert shell.files() == set()
    assert shell("diagram", "--json").json["format"] == "mermaid"


def test_diagram_of_a_run_is_a_picture_with_its_title(shell: Shell) -> None:
    shell.write("note.txt", "Tea.")
    objective = "Write " + "a long letter " * 20
    shell("run", objective, "--tools", "ai.process", "--model", shell.script(*DONE))
    assert "…: done · model_stop" in shell("diagram", "last", "--format", "dot").out
    said = shell("diagram", "last", "--format", "svg", "--output", "run.svg")
    assert (said.out, said.err.startswith("wrote run.svg (")) == ("", True)
    assert ElementTree.parse(shell.folder / "run.svg").getroot().tag.endswith("svg")


# -- tools, doctor, help -----------------------------------------------------------------------------------------


def test_tools_are_listed_as_a_model_sees_them(shell: Shell, shop: str) -> None:
    said = shell("tools")
    assert said.code == 0
    assert "document.extract(documentList, aiPrompt)\n" in said.out
    assert "Effect: read." in said.out
    said = shell("tools", "--app", f"{shop}:plain")
    assert said.out.startswith("shop.look(word)\n    Look a word up. Effect: read.\nshop.buy(item, count)\n")
    found = shell("tools", "--app", f"{shop}:plain", "--json").json
    assert list(found[0]) == ["name", "description", "effect", "parameters"]
    assert found[1]["effect"] == "once"
    assert shell.files() == {f"{shop}.py"}


def findings(shell: Shell) -> dict[str, Any]:
    """Return the findings of the doctor by name."""
    return {item["name"]: item for item in shell("doctor", "--json").json["findings"]}


def test_doctor_of_a_sound_machine(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    said = shell("doctor")
    assert said.code == 0
    assert [line.split()[1] for line in said.out.splitlines() if line[:2] in ("ok", "--", "no")] == [
        *words("""
        paor python sqlite paor[anthropic] paor[documents] paor[fuzz] paor[inspect] paor[mcp]
        paor[openai] paor[otel] paor[postgres] paor[sign] paor[temporal] paor[test] paor[web] paor[workflow] openai
        anthropic prices model web journal
    """)
    ]
    assert "paor.db: not there yet" in said.out
    assert shell.files() == set()
    given_run(shell)
    assert "paor.db: 1 run, " in shell("doctor").out
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    found = findings(shell)["model"]["text"]
    assert found.startswith(
        "openai:gpt-6.1-sol, as the environment says (OPENAI_API_KEY); the provider's own server"
    )
    assert "a key is set" in found and "2 in, 10 out for a million tokens" in found
    assert "secret" not in found
    monkeypatch.setenv("PAOR_MODEL", "openai:local")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:sk-secret@127.0.0.1:9/v1?key=sk-secret")
    found = findings(shell)["model"]["text"]
    assert "as PAOR_MODEL says; http://127.0.0.1:9/v1, a key is set" in found and "secret" not in found
    assert "price not known" in found


@pytest.mark.whole
def test_doctor_asks_only_when_told_to(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question; what a model cannot do is said with its code, and the exit code is 2."""
    from ..support.model_server import WIRES, model_server, plain

    with model_server() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        wire = WIRES[2]
        server.script(
            plain(wire.body("ready")), plain(wire.body("", "length")), plain(wire.error("no"), status=401)
        )
        assert shell("doctor", "--model", "anthropic:local").code == 0 and server.requests == []
        said = shell("doctor", "--ask", "--model", "anthropic:local")
        assert said.code == 0 and "the model answers, 1,200 tokens in and 34 out" in said.out
        said = shell("doctor", "--ask", "--model", "anthropic:local")
        assert said.code == 2 and "answered nothing (it ended by length)" in said.out
        said = shell("doctor", "--ask", "--model", "anthropic:local")
        assert said.code == 2 and "HTTP 401: no; set a key" in " ".join(said.out.split())
    assert shell("doctor", "--ask", "--model", "offline").code == 0


def test_doctor_says_what_the_environment_sets_and_what_it_lacks(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of variables, addresses without passwords, the price list; never a key."""
    found = findings(shell)
    assert found["openai"] == {
        "name": "openai",
        "state": "missing",
        "text": "none of OPENAI_API_KEY, OPENAI_BASE_URL is set",
    }
    assert found["prices"]["state"] == "ok" and "shipped" in found["prices"]["text"]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:hidden-password@127.0.0.1:9/v1?key=hidden-key-1")
    found = findings(shell)
    assert found["openai"]["text"] == "OPENAI_BASE_URL is http://127.0.0.1:9/v1"
    assert "name a model: --model openai:NAME or PAOR_MODEL" in found["model"]["text"]
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "hidden-token-1")
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    monkeypatch.setenv("PAOR_PRICES", "nowhere.json")
    said = shell("doctor", "--json", "--model", "offline")
    found = {item["name"]: item for item in said.json["findings"]}
    assert found["anthropic"]["text"] == "ANTHROPIC_AUTH_TOKEN is set"
    assert found["openai"]["text"].startswith("OPENAI_BASE_URL must be an http or https URL")
    assert "nowhere.json: cannot be read" in found["prices"]["text"]
    assert said.code == 0 and "hidden" not in said.out


def test_doctor_of_a_model_that_cannot_be_made(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no SDK, no such name: one line says what to do."""
    said = shell("doctor", "--model", "openai:gpt-6.1-sol")
    assert said.code == 2 and "set OPENAI_API_KEY" in said.out
    assert "unknown model" in shell("doctor", "--model", "gpt").out
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr("paor.prompts.clients.client.find_spec", lambda _: None)
    assert 'pip install "paor[openai]"' in shell("doctor").out


def test_doctor_of_a_machine_that_lacks_something(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def missing(name: str) -> str:
        if name in ("pypdfium2", "chardet"):
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr("paor.cli.commands.doctor.metadata.version", missing)
    found = findings(shell)["paor[documents]"]
    assert found["state"] == "missing"
    assert found["text"] == 'without pypdfium2, chardet: pip install "paor[documents]"'
    assert "--  paor[documents]" in shell("doctor").out
    assert shell("doctor").code == 0

    def unknown(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("paor.cli.commands.doctor.metadata.metadata", unknown)
    assert findings(shell)["extras"]["state"] == "missing"


def test_doctor_of_an_old_sqlite(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        sqlite_version = "3.30.1"
        sqlite_version_info = (3, 30, 1)

    monkeypatch.setattr("paor.cli.commands.doctor.sqlite3", Old)
    said = shell("doctor")
    assert said.code == 2
    assert "no  sqlite" in said.out


def test_doctor_reports_a_journal_that_is_none(shell: Shell, shop: str) -> None:
    shell.write("text.db", "hello")
    said = shell("doctor", "--journal", "text.db")
    assert said.code == 2
    assert "no  journal" in said.out
    shell("run", "Buy", "--app", f"{shop}:engine")
    assert "1 not ended" in shell("doctor").out


def test_every_command_has_help_with_an_example_and_the_common_options(shell: Shell) -> None:
    listed = shell("--help").out
    names = words("""
        run chat resume recover worker cancel fork runs show verify heads replay why diff backtest bisect query export
        import erase report inspect trace mcp diagram validate check fuzz tools doctor completion
    """)
    commands = listed.partition("Commands:\n")[2].splitlines()
    assert tuple(line.split()[0] for line in commands) == names
    assert not any("..." in line for line in commands)
    for name in names:
        said = shell(name, "--help")
        assert said.code == 0
        assert f"Examples:\n    paor {name}" in said.out
        assert "--journal FILE" in said.out and "--json" in said.out
        assert max(map(len, said.out.splitlines())) <= 96
    assert shell("-h").out == listed
    assert shell().out == listed
    assert shell.process().out == listed


def test_version(shell: Shell) -> None:
    from paor import __version__

    assert shell("--version").out == f"paor {__version__}\n"


@pytest.mark.whole
def test_a_killed_run_can_be_read_while_its_log_is_left_over(shell: Shell, shop: str) -> None:
    killed(shell, "run", "Look", "--app", f"{shop}:plain")
    before = shell.files()
    assert "paor.db-wal" in before
    assert shell("verify").code == 0
    assert shell("replay").code == 0
    assert shell.files() == before
