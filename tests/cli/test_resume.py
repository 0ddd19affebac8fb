"""`paor resume` and `paor cancel`: answers, effects in doubt, kills, Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest

from paor import Journal
from paor.events import Event

from ..support.cli_support import (
    APP,
    APPS,
    DONE,
    SUCCESS,
    Shell,
    killed,
    until_looking,
)
from .inside import Watch

# -- resume, cancel ----------------------------------------------------------------------------------------------


def test_a_waiting_run_asks_and_tells_the_exact_command(shell: Shell, shop: str) -> None:
    said = shell("run", "Buy tea", "--app", f"{shop}:engine")
    assert said.code == 5
    assert said.out == "May shop.buy be called?\n\n  shop.buy (once)\n  item: tea␛[2J\n  count: 1\n"
    lines = said.err.splitlines()
    assert lines[:2] == [f"model: scripted (from --app {shop}:engine)", "looking"]
    assert "Specifying (waits: approval)" in lines[2]
    commands = [line.strip() for line in lines if line.startswith("  paor")]
    assert len(commands) == 2
    assert re.search(
        rf"--app {shop}:engine --question \d+-[0-9a-f]{{24}} --answer '{{\"approve\": true}}'$", commands[0]
    )
    assert shell("resume", "last").code == 5
    assert shell("resume", "last", "--json").json["waiting_for"]["kind"] == "approval"


def test_the_printed_command_answers_the_question(shell: Shell, shop: str) -> None:
    import shlex

    asked = shell("run", "Buy tea", "--app", f"{shop}:engine")
    command = next(line for line in asked.err.splitlines() if "true" in line)
    said = shell(*shlex.split(command)[1:])
    assert (said.code, said.out) == (0, "All is bought.\n"), said
    assert [item["outcome"] for item in shell("show", "--steps", "--json").json] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        *[("yes", "ok"), ("Approve", "ok"), (" YES ", "ok"), ("no", "refused"), ("DENY", "refused")],
        ('{"approve": false}', "refused"),
    ],
)
def test_a_word_answers_an_approval(shell: Shell, shop: str, word: str, outcome: str) -> None:
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    said = shell("resume", "last", "--answer", word, "--app", f"{shop}:engine")
    assert said.code == 0, said
    assert [item["outcome"] for item in shell("show", "--steps", "--json").json] == ["ok", outcome]


def test_a_fork_takes_the_same_answers(shell: Shell, shop: str) -> None:
    """To the question at its row."""
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    row = (
        "fork",
        "last",
        "--at",
        str(shell("show", "--json").json["rows"][-1]["seq"]),
        "--app",
        f"{shop}:engine",
    )
    shell(*row, "--answer", "maybe").refused("it takes --answer yes")
    assert shell(*row, "--answer", "yes").code == 0
    assert [item["outcome"] for item in shell("show", "last", "--steps", "--json").json] == ["ok", "ok"]


def test_an_answer_that_does_not_fit_leaves_the_run_waiting(shell: Shell, shop: str) -> None:
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    app = ("--app", f"{shop}:engine")
    shell("resume", "last", "--answer", '"yes"', *app).refused('{"approve": true}')
    shell("resume", "last", "--answer", "maybe", *app).refused(
        "--answer maybe: an approval is answered with", "it takes --answer yes, --answer approve, --answer no"
    )
    shell("resume", "last", "--outcome", "done", *app).refused("waits for an answer")
    shell("resume", "last", "--answer", "{", *app).refused("--answer: is not JSON", "--answer yes")
    shell("resume", "last", "--answer", "null", *app).refused("decline", lines=2)
    shell("resume", "last", "--answer", "1", "--outcome", "done").refused("exclude each other", lines=2)
    shell("resume", "last", "--result", "1").refused("--outcome", lines=2)
    shell("resume", "last", "--outcome", "done", "--result", "NaN", *app).refused("--result: is not JSON")
    assert shell("resume", "last").code == 5


def test_an_approval_with_other_arguments(shell: Shell, shop: str) -> None:
    """What does not fit is one line and exit code 2, and the question stays; both calls are shown afterwards."""
    app = ("--app", f"{shop}:engine")
    assert shell("run", "Buy tea", *app).code == 5
    shell("resume", "last", "--answer", '{"approve": true, "arguments": {"count": 2}}', *app).refused("item")
    assert shell("resume", "last", *app).code == 5
    given = '{"approve": true, "arguments": {"item": "coffee", "count": 2}}'
    assert shell("resume", "last", "--answer", given, "--actor", "ann", *app).code == 0
    said = shell("show", "last").out
    assert "item: coffee" in said and "count: 2" in said
    assert "a person changed its arguments, which were:" in said and "approved by ann" in said


def test_a_run_with_a_hosts_tools_needs_its_app(shell: Shell, shop: str) -> None:
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    for model in ((), ("--model", "offline")):
        said = shell("resume", "last", "--answer", '{"approve": true}', *model)
        said.refused("shop.look, shop.buy", "--app MODULE:ENGINE")


def test_a_model_that_cannot_be_made_from_its_name_has_to_be_named(shell: Shell) -> None:
    model = shell.script({"action": None, "answer": "x"}, SUCCESS)
    assert shell("run", "Write it", "--model", model).code == 0
    shell.sql("DELETE FROM transitions WHERE seq > 0")
    shell("resume", "last").refused("had the model 'scripted'", "--model script:FILE")
    assert shell("resume", "last", "--model", model).code == 0


@pytest.mark.whole
def test_a_killed_run_goes_on_where_it_was(shell: Shell, shop: str) -> None:
    killed(shell, "run", "Look", "--app", f"{shop}:plain")
    said = shell("show")
    assert "Executing (nobody drives it)" in said.out
    assert re.search(r"go on: paor resume [0-9a-f-]+\n", said.err)
    assert shell("show", "--steps").out.split()[:4] == ["1", "shop.look", "(read)", "running"]
    assert "Executing (nobody drives it)" in shell("runs").out
    said = shell("resume", "last", "--app", f"{shop}:plain", "--output", "report.txt")
    assert (said.code, said.out) == (0, "All is bought.\n"), said
    assert (shell.folder / "report.txt").read_text() == "All is bought.\n"


@pytest.mark.whole
def test_an_effect_in_doubt_is_settled_by_its_outcome(shell: Shell, shop: str) -> None:
    shell.write("doubt.py", APP.replace('"shop.look", effect="read"', '"shop.look"'))
    killed(shell, "run", "Look", "--app", "doubt:plain")
    asked = shell("resume", "last", "--app", "doubt:plain")
    assert asked.code == 5
    assert "in doubt: begun" in shell("show").out
    assert "shop.look may or may not" in asked.out
    assert sum("--outcome" in line for line in asked.err.splitlines()) == 3
    assert "in doubt" in shell("show", "--steps").out
    assert "waits for" in shell("show").out
    said = shell("resume", "last", "--outcome", "done", "--result", '"seen"', "--app", "doubt:plain")
    assert (said.code, said.out) == (0, "All is bought.\n"), said


@pytest.mark.whole
def test_ctrl_c_ends_with_130_and_the_command_to_go_on(shell: Shell, shop: str) -> None:
    process = shell.start("run", "Look", "--app", f"{shop}:plain", "--journal", "my runs.db", SHOP_HOLD="1")
    until_looking(shell, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err
    assert re.search(
        rb"go on with: paor resume [0-9a-f-]+ --journal 'my runs.db' --app shop\d+:plain\n", err
    ), err
    said = shell("resume", "last", "--journal", "my runs.db", "--app", f"{shop}:plain")
    assert said.code == 0, said


@pytest.mark.whole
def test_ctrl_c_inside_a_once_tool_names_the_call_that_is_in_doubt(shell: Shell, shop: str) -> None:
    """With its arguments and key, and how to settle it; the command that is printed asks for the outcome."""
    shell.write("doubt.py", APP.replace('"shop.look", effect="read"', '"shop.look"'))
    process = shell.start("run", "Look", "--app", "doubt:plain", SHOP_HOLD="1")
    until_looking(shell, process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    err = told.decode()
    assert process.returncode == 130 and "what was done is safe" not in err
    assert (
        "interrupted inside shop.look (once), which may or may not have taken effect:\n  word: tea\n" in err
    )
    assert re.search(r"key: [0-9a-f-]+-1\n", err) and "done (with --result), retry or fail" in err
    command = re.search(r"Go on with: paor (resume [0-9a-f-]+ --app doubt:plain)\n", err)
    assert command is not None
    asked = shell(*command[1].split())
    assert asked.code == 5 and "shop.look (once)" in asked.out and "word: tea" in asked.out
    assert (
        shell("resume", "last", "--outcome", "done", "--result", '"seen"', "--app", "doubt:plain").code == 0
    )


@pytest.mark.parametrize("after", [0, 1, 3])
def test_ctrl_c_at_any_event(shell: Shell, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    usual = Watch.__call__
    seen = iter(range(1000))

    def interrupted(self: Watch, event: Event) -> None:
        if next(seen) == after:
            raise KeyboardInterrupt
        usual(self, event)

    monkeypatch.setattr(Watch, "__call__", interrupted)
    said = shell.run()
    assert (said.code, said.out) == (130, "")
    if after == 0:
        assert said.err == "\npaor: interrupted while starting; to see what was started: paor runs\n"
    else:
        assert re.search(r"go on with: paor resume [0-9a-f-]+\n", said.err)
    monkeypatch.setattr(Watch, "__call__", usual)
    said = shell("resume", "last", "--model", shell.script(*DONE))
    assert (said.code, said.out) == (0, "It is **done**.\n")


@pytest.mark.whole
def test_a_run_that_goes_on_can_be_followed_from_before(shell: Shell, shop: str) -> None:
    process = shell.start("run", "Look", "--app", f"{shop}:plain", SHOP_HOLD="1")
    until_looking(shell, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    follower = shell.start("show", "--follow", "--json")
    assert follower.stdout is not None
    assert json.loads(follower.stdout.readline())["seq"] == 0
    assert shell("resume", "last", "--app", f"{shop}:plain").code == 0
    rows = [json.loads(line)["seq"] for line in follower.stdout]  # what was read ahead is in its buffer
    assert (rows, follower.wait(timeout=60)) == (list(range(1, 6)), 0)


@pytest.mark.whole
def test_a_run_whose_driver_died_is_told_from_one_that_is_driven(shell: Shell, shop: str) -> None:
    """In the list and in `show`: which runs want a resume is seen at a glance."""
    killed(shell, "run", "Look", "--app", f"{shop}:plain")
    assert "Executing (nobody drives it)" in shell("runs").out
    assert "nobody drives it; go on: paor resume" in shell("show", "last").err
    (shell.folder / "looking").unlink()
    process = shell.start("resume", "last", "--app", f"{shop}:plain", SHOP_HOLD="1")
    until_looking(shell, process)
    assert "Executing (running)" in shell("runs").out
    assert "a process drives it; later: paor resume" in shell("show", "last").err
    process.kill()
    process.communicate()


def test_cancel_ends_a_run_that_nobody_drives(shell: Shell, shop: str) -> None:
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    said = shell("cancel", "last")
    assert said.code == 0
    assert "Failed (cancelled)" in said.out
    assert "ended at once" in said.out
    again = shell("cancel", "last")
    assert (again.code, "had ended already" in again.out) == (0, True)
    assert shell("cancel", "last", "--json").json["reason"] == "cancelled"
    shell("resume", "last", "--answer", "1").refused("has ended in Failed and takes no answer")
    assert shell("resume", "last").code == 1


@pytest.mark.whole
def test_cancel_stops_a_run_of_another_process_before_its_next_effect(shell: Shell, shop: str) -> None:
    process = shell.start("run", "Look", "--app", f"{shop}:plain", SHOP_HOLD="1")
    until_looking(shell, process)
    said = shell("cancel", "last")
    assert said.code == 0
    assert "asked to stop" in said.out
    shell("resume", "last", "--app", f"{shop}:plain").refused("is driven by process")
    (shell.folder / "go").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert b"Failed (cancelled)" in err


def test_runs_are_found_by_prefix_and_by_last(shell: Shell) -> None:
    first, second = (shell.run("--json").json["run_id"] for _ in range(2))
    unique = next(place for place, pair in enumerate(zip(first, second, strict=True), 1) if len({*pair}) == 2)
    assert shell("resume", first[:unique], "--json").json["run_id"] == first
    assert shell("resume", "last", "--json").json["run_id"] == second
    shell("resume", first[:4]).refused("2 runs start with")
    shell("resume", "ffffffff").refused("there is no run 'ffffffff'")


def test_output_of_a_waiting_run_is_named_in_the_next_command(shell: Shell, shop: str) -> None:
    said = shell("run", "Buy tea", "--app", f"{shop}:engine", "--output", "a b.md")
    assert "a b.md: not written yet; the run waits" in said.err
    assert "--output 'a b.md' --question" in said.err


# -- questions of other kinds ------------------------------------------------------------------------------------

ASKING = """
from paor import Engine, ScriptedModel, ToolContext, tool
from paor.errors import AnswerNeeded

@tool("shop.where", effect="read")
def where(context: ToolContext) -> str:
    "Say where."
    if context.resumption is None:
        raise AnswerNeeded("Which city?", SCHEMA)
    return f"It goes to {context.resumption.content!r}."

REPLIES = [
    {"action": "shop.where", "actionObjective": "ask"},
    {"decision": "stop", "reason": "asked", "answer": "Told."},
    {"status": "success", "improvements": [], "answer": "Told."},
]

def engine(journal):
    return Engine(ScriptedModel(REPLIES), [where], journal)
"""
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "text", "recorded"),
    [
        (TEXT, "Leeds", "Leeds"),
        (TEXT, '"Leeds"', "Leeds"),
        (TEXT, "12", "12"),
        (TEXT, "true", "true"),
        ({}, "to Leeds, by rail", "to Leeds, by rail"),
        ({}, "12", 12),
        ({"enum": ["York", "Leeds"]}, "Leeds", "Leeds"),
        ({"type": "integer"}, "12", 12),
        (CITY, '{"city": "Leeds"}', {"city": "Leeds"}),
    ],
)
def test_a_text_answers_a_question_that_takes_one(
    shell: Shell, schema: dict[str, Any], text: str, recorded: Any
) -> None:
    """As it stands, unless it is JSON that fits."""
    name = f"asking{next(APPS)}"
    shell.write(f"{name}.py", ASKING.replace("SCHEMA", repr(schema)))
    app = ("--app", f"{name}:engine")
    assert shell("run", "Send it", *app).code == 5
    said = shell("resume", "last", "--answer", text, *app)
    assert said.code == 0, said
    assert f"It goes to {recorded!r}." in shell("show", "--content", "0").out


@pytest.mark.parametrize(
    ("schema", "text", "told", "form"),
    [
        (CITY, "Leeds", "the answer does not fit", '--answer \'{"city": "..."}\''),
        (CITY, '{"city": 1}', "the answer does not fit", '--answer \'{"city": "..."}\''),
        (CITY, '{"city": "Leeds"', "--answer: is not JSON", '--answer \'{"city": "..."}\''),
        (TEXT, '["Leeds"]', "the answer does not fit", "--answer ..."),
        ({"enum": ["York", "Leeds"]}, "Hull", "the answer does not fit", "--answer York"),
        ({"type": "integer"}, "twelve", "the answer does not fit", "--answer 1"),
        ({}, "null", "answers nothing", "decline"),
        ({}, '{"city"', "--answer: is not JSON", '{"action": "decline"}'),
    ],
)
def test_an_answer_in_no_form_is_told_which_there_are(
    shell: Shell, schema: dict[str, Any], text: str, told: str, form: str
) -> None:
    """In one line, and the question stays open."""
    name = f"asking{next(APPS)}"
    shell.write(f"{name}.py", ASKING.replace("SCHEMA", repr(schema)))
    app = ("--app", f"{name}:engine")
    assert shell("run", "Send it", *app).code == 5
    shell("resume", "last", "--answer", text, *app).refused(told, form)
    assert shell("resume", "last", *app).code == 5


def test_a_word_is_no_answer_to_another_question(shell: Shell, shop: str) -> None:
    """One that is named and not open, or none at all: the engine says what is so."""
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    app = ("--app", f"{shop}:engine")
    shell("resume", "last", "--answer", "yes", "--question", "1-" + "0" * 24, *app).refused("does not ask")
    assert shell("resume", "last", "--answer", "no", *app).code == 0
    shell("resume", "last", "--answer", "yes", *app).refused("takes no answer")


@pytest.fixture(name="unsure")
def make_unsure(shell: Shell, shop: str) -> tuple[str, str]:
    """Return the option for an app whose once tool does not know whether it did anything; a run of it waits."""
    text = APP.replace('"shop.look", effect="read"', '"shop.look"').replace(
        "    return f", '    raise EffectUnknown("who knows")\n    return f'
    )
    shell.write(f"unsure_{shop}.py", f"from paor.errors import EffectUnknown\n{text}")
    app = ("--app", f"unsure_{shop}:plain")
    assert shell("run", "Look", *app).code == 5
    return app


def test_why_an_effect_was_settled_so_is_kept_and_shown(shell: Shell, unsure: tuple[str, str]) -> None:
    """With the outcome, never alone; beside it in the rows, and why it was in doubt."""
    assert "in doubt: begun, and its tool cannot say what it did: who knows" in " ".join(
        shell("show").out.split()
    )
    shell("resume", "last", "--answer", "done", *unsure).refused("--outcome done", "--outcome fail")
    shell("resume", "last", "--reason", "seen").refused(
        "--reason and --question come with --answer or --outcome", lines=2
    )
    flags = ("--outcome", "done", "--result", '"seen"', *unsure)
    shell("resume", "last", *flags, "--reason", " ").refused("the reason must be a text")
    said = shell("resume", "last", *flags, "--reason", "stands in the outbox, J. Doe")
    assert (said.code, said.out) == (0, "All is bought.\n"), said
    shown = " ".join(shell("show").out.split())
    assert "answer done by " in shown and ": stands in the outbox, J. Doe" in shown


@pytest.mark.parametrize(("approve", "words"), [("true", "approved"), ("false", "not approved")])
def test_who_decided_is_kept_and_shown(shell: Shell, shop: str, approve: str, words: str) -> None:
    """By the name that was given, else by the login name; with an answer only."""
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    app = ("--app", f"{shop}:engine")
    shell("resume", "last", "--actor", "ann", *app).refused("--actor comes with --answer", lines=2)
    flags = ("--answer", f'{{"approve": {approve}}}', *app)
    shell("resume", "last", *flags, "--actor", " ").refused("the actor must be a text")
    shell("resume", "last", *flags, "--actor", "x" * 201).refused("at most 200")
    assert shell("resume", "last", *flags, "--actor", "ann \x1b[2J Doe", "--reason", "seen").code == 0
    shown = shell("show").out
    assert f"answer {words} by ann ␛[2J Doe: seen" in " ".join(shown.split()), shown
    with Journal("paor.db", read_only=True) as journal:
        run_id = journal.runs()[0].run_id
        row = next(row for row in journal.transitions(run_id) if row.trigger == "provide")
    told = shell("why", "last", str(row.seq)).out
    assert f"answer {words} by ann ␛[2J Doe: seen" in told, told
    assert shell("replay", "last").code == 0


def test_the_login_name_decides_unless_another_is_named(
    shell: Shell, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "clerk")
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    assert shell("resume", "last", "--answer", '{"approve": true}', "--app", f"{shop}:engine").code == 0
    assert "answer approved by clerk" in shell("show").out


def test_cancelling_a_run_in_doubt_says_so(shell: Shell, unsure: tuple[str, str]) -> None:
    """At once, since nobody drives it; the row names the doubt, and the answer the tool."""
    said = shell("cancel", "last", *unsure)
    assert said.code == 0 and "Failed (cancelled)" in said.out
    shown = shell("show").out
    assert "cancelled, effect in doubt" in shown and "[hard_stop]" in shown
    assert "shop.look had been started" in shell("resume", "last", "--json").json["answer"]
