"""`paor show`: rows, steps, documents, content, follow."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from paor import Engine, Policy, ScriptedModel, tool
from paor.testing import call_tools, step

from ..support import worlds
from ..support.cli_support import (
    CONTINUE,
    DONE,
    PARAMETERS,
    SELECT,
    STOP,
    SUCCESS,
    TEXT,
    Shell,
    given_run,
    on_terminal,
    until_looking,
)

# -- show --------------------------------------------------------------------------------------------------------


LOADED = """import sys
from paor.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code
print(sorted(sys.modules), file=sys.stderr)
"""

DRIVES = {
    "asyncio",
    "rich.console",
    "paor.fsm.engine",
    "paor.fsm.lifecycle",
    "paor.fsm.runtime",
    "paor.tools.tool",
}
DECIDES = {"transitions", "paor.fsm.machine.machine", "paor.fsm.replay.restore", "paor.fsm.diagrams"}


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        ("show", DRIVES | DECIDES),
        ("runs", DRIVES | DECIDES),
        ("verify", DRIVES | DECIDES),
        ("export", DRIVES | DECIDES),
        ("why last", DRIVES),
        ("replay", DRIVES),
        ("report --output page.html", DRIVES),
    ],
)
def test_reading_a_run_loads_nothing_that_drives_one(shell: Shell, words: str, unwanted: set[str]) -> None:
    """Most of what a look at a run costs is what it loads: no engine and no event loop, and no machine where nothing is derived."""
    given_run(shell)
    command = [sys.executable, "-c", LOADED, *words.split()]
    done = subprocess.run(command, cwd=shell.folder, capture_output=True, text=True, check=True)
    loaded = set(re.findall(r"'([\w.]+)'", done.stderr))
    assert "paor.fsm.journal_api" in loaded
    assert not loaded & unwanted


def test_show_names_the_runs_that_a_run_has_called_and_who_has_called_it(shell: Shell) -> None:
    """Each under the other, and in JSON."""
    with (
        Engine(ScriptedModel(["Paid."]), journal=":memory:", profile="native") as clerk,
        Engine(
            ScriptedModel([call_tools(step("run.clerk", objective="Pay")), "Done."]),
            [clerk.as_tool("clerk", "Pays.")],
            shell.folder / "paor.db",
            profile="native",
        ) as desk,
    ):
        outer = desk.run("Have it paid").run_id
        (inner,) = [row.run_id for row in desk.journal.runs() if row.called_by]
    assert f"run {inner}, done" in " ".join(shell("show", outer).out.split())
    assert f"called by action 1 of run {outer}" in " ".join(shell("show", inner).out.split())
    assert shell("show", inner, "--json").json["run"]["called_by"] == {"run_id": outer, "action": 1}
    assert f"[called by {outer[:13]}]" in shell("runs").out


def test_show_tells_what_a_run_did(shell: Shell) -> None:
    given_run(shell, "--max-steps", "3", "--token-budget", "50000", "--time-budget", "90")
    said = shell("show")
    text = " ".join(said.out.split())
    for words in (
        "objective Write it",
        "state Done (model_stop: the model decided to stop)",
        "model scripted",
        "used 1 of 3 steps, ",
        " of 50,000 tokens, ",
        " of 1 min 30 s",
        "documents 1 given, 1 produced",
        "criteria not met: is done",
        "answer It is **done**.",
        "0 select Planning → Specifying 1 ",
        "selection, ai.process",
        "1 specify Specifying → Executing",
        "parameters, ai.process",
        "ai.process, 1 document",
        "refinement, stop model_stop",
        "review, success [review_success]",
    ):
        assert words in text, (words, said.out)
    assert said.err == ""


def test_show_names_what_was_wrong(shell: Shell) -> None:
    replies = [
        "no json at all",
        SELECT,
        {"parameters": {"processingMode": "wild"}},
        {"parameters": {"processingMode": "wilder"}},
        "neither",
        CONTINUE,
        SELECT,
        PARAMETERS,
        TEXT,
        STOP,
        {"status": "retry", "improvements": ["shorter"]},
        {"action": None, "answer": "As it was."},
        SUCCESS,
    ]
    said = shell.run(replies=replies)
    text = " ".join(shell("show").out.split())
    assert said.code == 0, (said, text)
    for words in (
        "[not selection_ok]",
        "selection, ai.process, attempt 2",
        "respecify Specifying → Specifying",
        "refuse Specifying → Observing 1",
        "parameters, ai.process, attempt 2",
        "[not parameters_valid, not parameter_retries_left]",
        "reassess Reviewing → Reviewing",
        "refinement, attempt 2",
        "review, retry: shorter [review_retry]",
        "used 2 of 5 steps, 1 of 2 retries",
    ):
        assert words in text, (words, text)
    outcomes = [item["outcome"] for item in shell("show", "--steps", "--json").json]
    assert outcomes == ["refused", "ok"]
    assert "refused" in shell("show", "--steps").out


def test_show_names_the_last_guard_of_a_failure(shell: Shell) -> None:
    shell.run(replies=["no", "no again"])
    assert "[not selection_valid, not selection_retries_left]" in " ".join(shell("show").out.split())
    shell.run("--max-steps", "1", replies=[*DONE[:3], CONTINUE, {"status": "retry", "improvements": []}])
    assert "review [not steps_left]" in " ".join(shell("show").out.split())
    shell.run(replies=[*DONE[:4], "neither", "nor"])
    assert "review, attempt 2, invalid" in " ".join(shell("show").out.split())
    assert "[not review_retries_left]" in " ".join(shell("show").out.split())
    shell.run(replies=[*DONE[:4], {"status": "failed", "improvements": []}])
    assert "review [not review_success]" in " ".join(shell("show").out.split())
    shell.run("--token-budget", "1")
    assert "hard_stop" in " ".join(shell("show").out.split())


def test_show_of_money(shell: Shell) -> None:
    replies = {"replies": DONE}
    shell.write("paid.py", PAID + f"DATA = {replies!r}\n")
    said = shell("run", "x", "--app", "paid:engine")
    assert re.search(r"tokens, 0\.2500 cost, ", said.err), said
    assert "0.2500 cost" in shell("show").out
    said = shell("run", "--input", '{"objective": "x", "limits": {"cost_budget": 9}}', "--app", "paid:engine")
    assert "0.2500 of 9.00 cost" in shell("show").out


PAID = """
import json
from paor import Engine, Reply, ScriptedModel, Usage

def engine(journal):
    replies = [Reply(item if isinstance(item, str) else json.dumps(item), Usage(1, 10, 10, 50_000)) for item in DATA["replies"]]
    return Engine(model=ScriptedModel(replies), journal=journal, builtins=True)

"""


def test_show_prefers_one_view_at_a_time(shell: Shell) -> None:
    given_run(shell)
    shell("show", "--follow", "--content", "0").refused("exclude each other", lines=2)


def test_show_of_a_run_without_rows_or_actions(shell: Shell, shop: str) -> None:
    shell.run(replies=[])
    assert "has taken no action" in shell("show", "--steps").err
    assert "has no documents" in shell("show", "--documents").err
    assert shell("show", "--steps", "--json").json == []
    shell.sql("DELETE FROM transitions")
    said = shell("show")
    assert "state      Planning (nobody drives it)" in said.out
    assert "seq" not in said.out
    assert "used       0 of 5 steps, 0 tokens, 0 ms" in said.out
    assert "Planning (nobody drives it)" in shell("runs").out


def test_steps_is_each_call_with_what_came_of_it(shell: Shell) -> None:
    """As `show` has them above the rows, with what the model decided then."""
    given_run(shell)
    head, *lines = shell("show", "--steps").out.splitlines()
    assert head.split()[:4] == ["1", "ai.process", "(read)", "ok"]
    assert lines[-3:] == [
        f"     result: 1 document: {TEXT}",
        "     label: round1_task1_action1_text",
        "     then: stop: enough",
    ]
    assert "\n".join([head, *lines]) in shell("show").out
    [action] = shell("show", "--steps", "--json").json
    assert action["documents"] == ["docItem:round1_task1_action1_text#0 text.md"]
    assert action["result"] == f"1 document: {TEXT}" and action["decision"] == "stop: enough"


def test_documents_lists_references_that_content_takes(shell: Shell) -> None:
    given_run(shell)
    said = shell("show", "--documents")
    assert "0  given     round1_task1_action0_input#0" in said.out
    assert "1  produced  round1_task1_action1_text#0" in said.out
    assert "print one: paor show " in said.err
    for name in (
        "1",
        "round1_task1_action1_text#0",
        "round1_task1_action1_text",
        "docItem:round1_task1_action1_text#0",
    ):
        assert shell("show", "--content", name).out == TEXT
    for name in ("7", "nope", "round1_task1_action1_text#7", "round1_task1_action1_text#", "-1"):
        shell("show", f"--content={name}").refused("has no such document")


def test_content_of_several_documents_under_one_label_needs_the_position(shell: Shell) -> None:
    shell.write("a.txt", "A")
    shell.write("b.bin.txt", "B")
    shell.run("--document", "a.txt", "--document", "b.bin.txt")
    shell("show", "--content", "round1_task1_action0_input").refused(
        "there are 2 documents under it; add #0 to #1"
    )
    assert shell("show", "--content", "round1_task1_action0_input#1").out == "B"


@pytest.mark.whole
def test_content_is_exact_in_a_pipe_and_harmless_on_a_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = b"%PDF-1.4 \x00\xff\x1b[2J"
    shell.write("a.pdf", raw)
    text = "red \x1b[31m\r\nline\n"
    shell.write("b.txt", text)
    shell.run("--document", "a.pdf", "--document", "b.txt")
    import subprocess
    import sys

    command = [sys.executable, "-m", "paor", "show", "--content"]
    done = subprocess.run([*command, "0"], capture_output=True, check=True, cwd=shell.folder)
    assert done.stdout == raw
    done = subprocess.run([*command, "1"], capture_output=True, check=True, cwd=shell.folder)
    assert done.stdout == text.encode()
    assert on_terminal(shell, monkeypatch, "show", "--content", "1")[0] == "red ␛[31m\nline\n\n"
    out, err = on_terminal(shell, monkeypatch, "show", "--content", "0")
    assert (out, err) == (
        "",
        "paor: a.pdf: is not text (application/pdf, 15 B); send it to a file with > FILE\n",
    )
    found = shell("show", "--content", "0", "--json").json
    assert (found["mime"], found["base64"]) == ("application/pdf", "JVBERi0xLjQgAP8bWzJK")


def test_show_of_a_damaged_run_is_one_line(shell: Shell) -> None:
    given_run(shell)
    shell.sql("UPDATE payloads SET body = '{}' WHERE n = (SELECT spec_payload FROM specs)")
    shell("show").refused("payload 1 was changed", "paor verify", code=4)
    shell("runs").refused("its spec cannot be read", code=4)
    assert shell("replay").code == 4
    assert "not readable" in shell("replay").out
    assert shell("replay", "last", "--json").json["error"] is not None
    shell.sql("DELETE FROM payloads WHERE n > 2")
    shell("show", "--steps").refused("paor verify", code=4)


@pytest.mark.whole
def test_follow_prints_rows_as_they_come_and_ends_with_the_run(shell: Shell, shop: str) -> None:
    """Those of a run whose tool works while they are read, and the rest once it has gone on."""
    process = shell.start("run", "Look", "--app", f"{shop}:plain", SHOP_HOLD="1")
    until_looking(shell, process)
    follower = shell.start("show", "--follow", "--json")
    assert follower.stdout is not None
    rows = [json.loads(follower.stdout.readline())["seq"] for _ in range(2)]
    (shell.folder / "go").touch()
    rows += [json.loads(line)["seq"] for line in follower.stdout]
    assert (rows, follower.wait(timeout=60)) == (list(range(6)), 0)
    process.communicate(timeout=60)
    lines = shell("show", "--follow").out.splitlines()
    assert [int(line.split()[0]) for line in lines if re.match(r"\s+\d", line)] == rows
    assert lines[-2].startswith("state  Done (model_stop")


def test_follow_stops_at_a_question(shell: Shell, shop: str) -> None:
    shell("run", "Buy", "--app", f"{shop}:engine")
    said = shell("show", "--follow")
    assert "waits for  approval: May shop.buy be called?" in said.out
    assert "what it waits for: paor resume" in said.err


@pytest.mark.parametrize("columns", [60, 70])
def test_a_narrow_terminal_keeps_the_texts(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Numbers of single rows and dates go first, so that no name is broken and each row says what it was."""
    given_run(shell)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shell("show").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.endswith("selection, ai.process") for line in lines)
    head = next(line for line in lines if line.startswith("seq"))
    assert head.split() == ["seq", "trigger", "to", "detail"]
    assert shell("show", "--documents").out.splitlines()[0].split() == [
        "#",
        "reference",
        "type",
        "size",
        "name",
    ]
    assert shell("runs").out.splitlines()[0].split() == ["run", "state", "rows", "objective"]


def test_an_answer_that_is_cut_comes_with_the_command_for_all_of_it(shell: Shell) -> None:
    lines = [
        f"The Supplier shall deliver part {n} by {n} May 2026, in full and in good order."
        for n in range(1, 29)
    ]
    shell.write("plan.txt", "\n\n".join(lines).encode())
    said = shell("run", "List every deadline", "--document", "plan.txt")
    assert "The whole text stands in" in said.out
    command = re.search(r"whole text: paor (show \S+ --content \d+)\n", said.err)
    assert command is not None, said.err
    assert "28 May 2026" in shell(*command[1].split()).out


SHOWING = (
    *("runs", "show last", "show last --row 0", "diff last last~1", "bisect --good last --bad last~1"),
    *("query SELECT(body)FROM(payloads)", "query SELECT(hex(body))FROM(payloads)"),
)
"""Commands that show texts of a run."""


@pytest.mark.parametrize(
    "words",
    [
        *(f"{command}{form}" for command in SHOWING for form in ("", " --json")),
        *(f"{command} --csv" for command in SHOWING if command.startswith("query")),
        "show last --content 0 --json",
    ],
)
def test_no_form_shows_a_key_of_the_environment(
    words: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was no key while the run was written."""
    key = "sk-later-0123456789abcdefghij"
    shell.write("plan.txt", f"It is {key}.".encode())
    for objective in (f"Look up {key}", f"Look for {key}"):
        shell("run", objective, "--model", "offline", "--document", "plan.txt")
    shown = shell(*words.split()).out
    monkeypatch.setenv("OPENAI_API_KEY", key)
    hidden = shell(*words.split()).out
    assert "[secret redacted]" in hidden and "[secret redacted]" not in shown
    assert not any(form in hidden.lower() for form in (key, key.encode().hex()))


@pytest.mark.parametrize(
    "words", ["runs", "diff last last~1", "query SELECT(body)FROM(payloads)", "show last"]
)
@pytest.mark.parametrize("columns", ["60", "110", "300"])
def test_a_long_key_is_gone_before_a_line_is_cut_or_folded(
    columns: str, words: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of it is left, however wide the terminal is."""
    key = "sk-later-" + "".join(f"{number:03}q" for number in range(36))
    for objective in (f"Look up {key}", f"Look for {key}"):
        shell("run", objective, "--model", "offline")
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("COLUMNS", columns)
    hidden = "".join(shell(*words.split()).out.split())
    assert [at for at in range(0, len(key) - 12, 4) if key[at : at + 12] in hidden] == []


@pytest.mark.parametrize(
    "words",
    ["show last", "show last --row 0", "show last --row 5", "show last --row 6", "runs --status waiting"],
)
def test_a_key_in_two_lines_is_shown_in_no_part_of_a_run(
    words: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a prompt and in what is new in it, a reply, and the arguments of a call that waits for an approval."""
    key = "sk-later-0123456789abcdefghij"
    said = f"{key[:16]}\n{key[16:]}"

    @tool("shop.look", effect="read")
    def look() -> str:
        """Look."""
        return f"It is\n\n\n{said}"

    @tool("shop.buy", effect="once")
    def buy(item: str) -> str:
        """Buy."""
        raise AssertionError("it waits")

    script = [
        worlds.SELECT("shop.look", {}),
        CONTINUE,
        worlds.SELECT("shop.buy", {"item": "string"}),
        worlds.PARAMETERS(item=said),
    ]
    policy = Policy(approvals=("shop.buy",))
    with Engine(ScriptedModel(script), [look, buy], shell.folder / "paor.db", policy=policy) as engine:
        assert engine.run(f"Buy it.\nIt is {said}.").status == "waiting"
    shown = shell(*words.split()).out
    assert key[16:] in shown or key[:14] in shown
    monkeypatch.setenv("OPENAI_API_KEY", key)
    hidden = shell(*words.split()).out
    assert "[secret redacted]" in hidden and not {key[:14], key[16:]} & {*re.findall(r"[\w-]+", hidden)}
