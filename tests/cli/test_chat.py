"""
`paor chat`: at a terminal, which is a real one (a pseudo-terminal), and with lines of standard input.

At the terminal each step of a test waits for what the screen shows. The model is a script, or a server on 127.0.0.1 that waits within
a reply until the screen shows what it has sent so far.
"""

from __future__ import annotations

import json
import termios
import threading
from collections.abc import Sequence

import pytest

from paor import Journal
from paor.testing import call_tools, step

from ..support.cli_support import Shell
from ..support.model_server import KEY, ModelServer
from ..support.screen import Screen, held, screen
from ..support.screen import said as replied
from .inside import login_name

SHOP = """
import pathlib
import threading

from paor import Engine, Policy, tool


def wait(word):
    if word == "slow" and not pathlib.Path("go").exists():
        threading.Event().wait(60)  # until Ctrl-C, or killed


@tool("shop.look", effect="read")
def look(word: str) -> str:
    print("looking")
    wait(word)
    return "seen \\x1b[31mtea"


@tool("shop.buy")
def buy(item: str, count: int = 1) -> str:
    pathlib.Path("bought").write_text(f"{count} {item}")
    print("buying\\x20now")
    wait(item)
    return "bought"


def engine(journal):
    return Engine("offline", tools=[look, buy], journal=journal, policy=Policy(approvals=("shop.buy",)))


def free(journal):
    return Engine("offline", tools=[look, buy], journal=journal)
"""
C_C = b"\x03\r"
"""Ctrl-C, and Enter: a signal that comes just before the prompt waits for keys is noticed with the next line."""
LOOK = (
    {"action": "shop.look", "actionObjective": "look tea up", "parametersContext": "tea"},
    {"parameters": {"word": f"tea {KEY}"}},
)
BUY = call_tools(step("shop.buy", item="tea"))


@pytest.fixture(name="talk")
def make_talk(shell: Shell) -> Shell:
    """Return a shell with a shop, whose model has to be named."""
    shell.write("teashop.py", SHOP)
    return shell


def told(shell: Shell, *replies: object, app: str = "engine") -> tuple[str, ...]:
    """Return a chat with a script."""
    model = shell.script(*replies)
    return "chat", "--app", f"teashop:{app}", "--profile", "native", "--conversation", "c", "--model", model


def messages(shell: Shell, conversation: str = "c") -> list[str]:
    """Return what was said in a conversation."""
    with Journal(shell.folder / "paor.db") as journal:
        return [message.text for message in journal.conversation(conversation).messages]


def statuses(shell: Shell, conversation: str = "c") -> list[tuple[str, str | None]]:
    """Return how the rounds of a conversation are, the oldest first."""
    with Journal(shell.folder / "paor.db") as journal:
        return [(row.status, row.reason) for row in journal.conversation(conversation).runs]


def leave(shown: Screen) -> int:
    """Press Ctrl-D at the prompt, and return the exit code."""
    shown.wait_for_prompt("> ")
    shown.type(b"\x04")
    return shown.end()


# -- at a terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_words_are_shown_as_they_come_and_calls_stay(talk: Shell) -> None:
    """The first half of an answer is there before the second is sent; a call is a line with its outcome, other rows are none."""
    seen = threading.Event()
    server = ModelServer()
    try:
        answer = f"Tea is here,\x1b[2J {KEY} and it is fresh."
        end = held({"status": "success", "improvements": [], "answer": answer}, seen, "here,")
        server.script(
            replied(LOOK[0]), replied(LOOK[1]), replied({"decision": "stop", "reason": "found"}), end
        )
        more = {"OPENAI_BASE_URL": f"{server.url}/v1"}
        chat = "chat", "--app", "teashop:free", "--profile", "two_stage", "--model", "openai:small"
        with screen(talk, *chat, "--conversation", "c", **more) as shown:
            shown.wait_for_prompt("> ")
            shown.type(b"Is there tea?\r")
            shown.wait_for("│ answer: Tea is here,")
            assert "fresh" not in shown.text
            seen.set()
            shown.wait_for("and it is fresh.")
            assert leave(shown) == 0
            assert 'shop.look(word="tea [secret redacted]")' in shown.text and "✓ shop.look: " in shown.text
            assert "Planning →" not in shown.text and KEY not in shown.text
            assert b"\x1b[2J" not in shown.raw and b"\x1b[31mtea" not in shown.raw
    finally:
        seen.set()
        server.close()


@pytest.mark.whole
def test_what_a_round_asks_is_answered_in_place(talk: Shell) -> None:
    """What does not answer is told and asked again; other arguments are those of the call, and the journal has who answered."""
    end = {"status": "success", "improvements": [], "answer": "Not bought."}
    chat = told(talk, BUY, "Bought.", BUY, "Not bought.", end)
    with screen(talk, *chat, "Buy tea") as shown:
        shown.wait_for_prompt("answer> ")
        assert "item: tea" in shown.text and "answer with: yes, no," in shown.text
        shown.type(b"perhaps\r")
        shown.wait_for("paor: perhaps: expected one of yes, no, ")
        shown.wait_for_prompt("answer> ")
        shown.type(b"/why\r")
        shown.wait_for("waits for  approval")
        shown.wait_for_prompt("answer> ")
        shown.type(b'{"approve": true, "arguments": {"item": "tea", "count": 3}}\r')
        shown.wait_for("Bought.")
        assert (talk.folder / "bought").read_text() == "3 tea"
        (talk.folder / "bought").unlink()
        shown.wait_for_prompt("> ")
        shown.type(b"Buy more\r")
        shown.wait_for_prompt("answer> ")
        shown.type(b"no\r")
        shown.wait_for("Not bought.")
        assert leave(shown) == 0
    assert not (talk.folder / "bought").exists()
    decided = talk("show", "last~1", "--json").json["calls"][0]["decided"]
    assert [item["actor"] for item in decided] == [login_name()]
    assert messages(talk) == ["Buy tea", "Bought.", "Buy more", "Not bought."]


@pytest.mark.whole
def test_ctrl_c_cancels_the_round_and_not_the_chat(talk: Shell) -> None:
    """Within a call, whose effect is then in doubt and named; at a question; and twice at the prompt, which ends the chat."""
    slow = call_tools(step("shop.buy", item="slow"))
    with screen(talk, *told(talk, slow, "Hello.", app="free"), "Buy") as shown:
        shown.wait_for("buying now")
        shown.type(b"\x03")
        shown.wait_for("paor: interrupted inside shop.buy (once)")
        shown.wait_for("paor: the round is cancelled")
        shown.wait_for_prompt("> ")
        shown.type(b"Hello\r")
        shown.wait_for("Hello.")
        shown.wait_for_prompt("> ")
        shown.type(C_C)
        shown.wait_for("Ctrl-C again, or Ctrl-D, ends the chat")
        shown.wait_for_prompt("> ")
        shown.type(C_C)
        assert shown.end() == 0 and "Traceback" not in shown.text
        assert termios.tcgetattr(shown.other) == shown.before
    assert [status for status, _ in statuses(talk)] == ["failed", "done"]


@pytest.mark.whole
def test_ctrl_c_within_a_reply_cancels_the_round(talk: Shell) -> None:
    """The half reply is given up, and the model is asked for the next message."""
    never, server = threading.Event(), ModelServer()
    try:
        half = held({"action": None, "answer": "Tea is here, and more."}, never, "here,")
        server.script(half, replied({"action": None, "answer": "Coffee is out."}))
        more = {"OPENAI_BASE_URL": f"{server.url}/v1"}
        chat = "chat", "--app", "teashop:free", "--profile", "two_stage", "--model", "openai:small"
        with screen(talk, *chat, "--conversation", "c", "Tea?", **more) as shown:
            shown.wait_for("│ answer: Tea is here,")
            shown.type(b"\x03")
            shown.wait_for("paor: the round is cancelled")
            shown.wait_for_prompt("> ")
            shown.type(b"Coffee?\r")
            shown.wait_for("\nCoffee is out.")
            assert leave(shown) == 0
        assert statuses(talk) == [("failed", "cancelled"), ("done", "model_stop")]
    finally:
        never.set()
        server.close()


@pytest.mark.whole
def test_a_question_is_cancelled_with_ctrl_c_and_left_open_with_ctrl_d(talk: Shell) -> None:
    """One that is left is asked when the chat goes on, here without a terminal."""
    with screen(talk, *told(talk, BUY, BUY, "Bought."), "Buy tea") as shown:
        shown.wait_for_prompt("answer> ")
        shown.type(C_C)
        shown.wait_for("paor: the round is cancelled")
        shown.wait_for_prompt("> ")
        shown.type(b"Buy it all the same\r")
        shown.wait_for_prompt("answer> ")
        shown.type(b"\x04")
        assert shown.end() == 5
        assert "paor resume" in shown.text and "paor chat --conversation c" in shown.text
    assert [status for status, _ in statuses(talk)] == ["failed", "waiting"]
    later = talk(*told(talk, BUY, BUY, "Bought."), stdin=b"yes\n")
    assert later.code == 0 and later.out.splitlines()[-1] == "Bought.", later
    assert (talk.folder / "bought").read_text() == "1 tea"


@pytest.mark.whole
def test_the_history_has_the_messages_of_the_conversation(talk: Shell) -> None:
    """Arrow up brings back what was said, also in an earlier chat; nothing but the journal keeps it."""
    chat = told(talk, "Hello.", "Hello again.")
    assert talk(*chat, "Good morning").out == "Hello.\n"
    files = talk.files()
    with screen(talk, *chat) as shown:
        shown.wait_for("(1 round so far)")
        shown.wait_for_prompt("> ")
        shown.type(b"\x1b[A")
        shown.wait_for("> Good morning")
        shown.type(b"\r")
        shown.wait_for("Hello again.")
        assert leave(shown) == 0
    assert messages(talk) == ["Good morning", "Hello.", "Good morning", "Hello again."]
    assert talk.files() == files


@pytest.mark.whole
def test_an_error_is_one_line_and_the_chat_goes_on(talk: Shell) -> None:
    """At a terminal a person tries again."""
    with screen(talk, *told(talk, "Hello.")) as shown:
        for line, error in (("/nope", "/nope: no such command"), ("/undo", "/undo: there is no round yet")):
            shown.wait_for_prompt("> ")
            shown.type(line.encode() + b"\r")
            shown.wait_for(f"paor: {error}")
        shown.wait_for_prompt("> ")
        shown.type(b"Hello\r")
        shown.wait_for("Hello.\n")
        assert leave(shown) == 0


# -- with lines of standard input ----------------------------------------------------------------------------------------


def test_lines_are_messages_and_answers(talk: Shell) -> None:
    """The exit code is that of the last round; results as JSON are a line each."""
    chat = told(talk, "Hello.", BUY, "Bought.", "Bye.")
    said = talk(*chat, "--json", stdin=b"Hello\n\nBuy tea\nyes\n")
    results = [json.loads(line) for line in said.out.splitlines()]
    assert [item["status"] for item in results] == ["done", "waiting", "done"] and said.code == 0
    last = talk(*chat, stdin=b"Bye\n")
    assert last.out == "Bye.\n"
    assert last.err.endswith(
        f"go on with: paor chat --conversation c --app teashop:engine --model {chat[-1]}\n"
    )
    assert talk(*chat, stdin=b"The script has ended\n").code == 1
    assert talk("chat", "--conversation", "c", stdin=b"").code == 0


def test_calls_are_lines_also_without_a_terminal(talk: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for the call and one for its outcome, however wide, on standard error: harmless, without keys, and none of other rows."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    word = "tea " * 60 + KEY
    chat = told(talk, call_tools(step("shop.look", word=word)), "Seen.", "Bye.")
    said = talk(*chat, stdin=b"Look\n")
    assert (said.code, said.out) == (0, "Seen.\n")
    call, outcome = (line.strip() for line in said.err.splitlines() if "shop.look" in line)
    shown = word.replace(KEY, "[secret redacted]")
    assert call == f'shop.look(word="{shown}")' and outcome == "✓ shop.look: 1 document: seen ␛[31mtea", (
        said.err
    )
    assert "Executing" not in said.err and "\x1b" not in said.err
    assert "shop.look" not in talk(*chat, "--quiet", stdin=b"Look\n").err


def test_input_that_ends_at_a_question_leaves_it_open(talk: Shell) -> None:
    """With the command that answers it; the next chat in the conversation asks it before anything else."""
    chat = told(talk, BUY, "Bought.", "Bye.")
    said = talk(*chat, "Buy tea")
    assert said.code == 5 and "paor resume" in said.err and statuses(talk) == [("waiting", None)]
    later = talk(*chat, "Bye", stdin=b"yes\n")
    assert later.code == 0 and later.out.splitlines()[-2:] == ["Bought.", "Bye."], later


def test_undo_branches_off_before_the_last_round(talk: Shell) -> None:
    """The new conversation follows the round before, or none; the old one stays, and documents of the first round are given again."""
    talk.write("note.txt", "Tea is due on Monday.")
    lines = b"One\nTwo\n/undo\nThree\n/undo\n/undo\nFour\n"
    said = talk(*told(talk, "First.", "Second."), "--document", "note.txt", stdin=lines)
    assert said.code == 0 and said.out == "First.\nSecond.\nSecond.\nFirst.\n", said
    assert "now conversation c+2, a branch from before it; c keeps it" in said.err
    assert messages(talk) == ["One", "First.", "Two", "Second."]
    assert (messages(talk, "c+2"), messages(talk, "c+3")) == (["Three", "Second."], ["Four", "First."])
    with Journal(talk.folder / "paor.db") as journal:
        runs = {name: journal.conversation(name).runs for name in ("c", "c+2", "c+3")}
        follows = {name: journal.spec(rows[0].run_id).follows for name, rows in runs.items()}
        given = [len(journal.documents(rows[0].run_id)) for rows in (runs["c"], runs["c+3"])]
    assert follows == {"c": "", "c+2": runs["c"][0].run_id, "c+3": ""} and given == [1, 1]


def test_the_last_round_is_shown_and_explained(talk: Shell) -> None:
    """With the words of the commands of the same names."""
    chat = told(talk, "Hello.")
    said = talk(*chat, stdin=b"Good morning\n/show\n/why 0\n/help\n")
    assert said.code == 0, said
    assert talk("show", "last").out in said.out and talk("why", "last", "0").out in said.out
    assert "/undo" in said.out and messages(talk) == ["Good morning", "Hello."]


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        ((), b"/nope\n", ("/nope: no such command", "/undo")),
        ((), b"/undo\n", ("there is no round yet",)),
        ((), b"\xff\xfe\n", ("not UTF-8",)),
        (("Hello",), b"/why x\n", ("/why x", "number of a row")),
        (("Hello",), b"/why 99\n", ("99",)),
        ((" ",), b"", ("empty",)),
        (("a", "b"), b"", ("MESSAGE is one argument",)),
        (("--conversation", ""), b"", ("conversation",)),
        (("--tools", "shop.lok", "x"), b"", ("shop.lok",)),
        (("--max-steps", "-1", "x"), b"", ("max_steps",)),
    ],
)
def test_bad_input_is_one_line(
    talk: Shell, arguments: Sequence[str], stdin: bytes, words: tuple[str, ...]
) -> None:
    """And the exit code 2, which ends a chat without a terminal."""
    said = talk(*told(talk, "Hello."), "--quiet", *arguments, stdin=stdin)
    lines = [line for line in said.err.splitlines() if not line.startswith("help:")]
    assert said.code == 2 and len(lines) == 1 and lines[0].startswith("paor"), said
    assert all(word in lines[0] for word in words), said


def test_an_unknown_tool_is_said_before_the_conversation_begins(talk: Shell) -> None:
    """In the one line that there is."""
    said = talk(*told(talk, "Hello."), "--tools", "shop.lok", stdin=b"Hello\n")
    (line,) = [line for line in said.err.splitlines() if not line.startswith("help:")]
    assert said.code == 2 and "shop.lok" in line and "conversation" not in said.err, said


@pytest.mark.whole
def test_a_round_that_another_process_drives_is_left_to_it(talk: Shell) -> None:
    """The chat does not begin beside it, and goes on with one that was killed."""
    process = talk.start(*told(talk, call_tools(step("shop.look", word="slow")), "Seen.", app="free"), "Look")
    try:
        assert process.stderr is not None and any(line == b"looking\n" for line in process.stderr)
        chat = told(talk, call_tools(step("shop.look", word="slow")), "Seen.", "Bye.", app="free")
        busy = talk(*chat, "--quiet", stdin=b"Bye\n")
        assert busy.code == 2 and "conversation 'c'" in busy.err and len(busy.err.splitlines()) == 1, busy
    finally:
        process.kill()
        process.communicate()
    talk.write("go", "")
    after = talk(*chat, stdin=b"Bye\n")
    assert after.code == 0 and after.out == "Seen.\nBye.\n", after
    assert messages(talk) == ["Look", "Seen.", "Bye", "Bye."]


def test_the_offline_model_says_what_it_cannot_do(talk: Shell) -> None:
    """Once, in one line, before the first message."""
    said = talk("chat", "--model", "offline", stdin=b"")
    told_lines = [line for line in said.err.splitlines() if "offline model" in line]
    assert said.code == 0 and len(told_lines) == 1 and "holds no conversation" in told_lines[0]
    assert "offline model" not in talk("chat", "--model", "offline", "--quiet", stdin=b"").err


def test_nothing_that_is_said_controls_the_terminal_or_shows_a_key(
    talk: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controls become pictures, and keys of the environment are taken out of answers and questions."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    buy = call_tools(step("shop.buy", item=f"\x1b[2J{KEY}"))
    said = talk(*told(talk, buy, f"It is \x1b[31m{KEY}\x07."), stdin=b"Buy\nyes\n")
    assert said.code == 0 and "It is ␛[31m" in said.out, said
    assert KEY not in said.out + said.err and "\x1b" not in said.out and "\x07" not in said.out
