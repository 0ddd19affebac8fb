"""`--app`, and what a terminal shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..support.cli_support import (
    DONE,
    SELECT,
    STOP,
    SUCCESS,
    Shell,
    Terminal,
    on_terminal,
)

# -- --app -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("{shop}:angry", "angry(journal) raised RuntimeError: no shop today"),
        ("{shop}:leaving", "raised SystemExit: bye"),
        ("{shop}:nothing", "returned a value of type NoneType"),
        ("{shop}:NUMBER", "is of type int"),
        ("{shop}:missing", "has no missing"),
        ("{shop}:NUMBER.deeper", "has no NUMBER.deeper"),
        ("shop", "expected MODULE:ENGINE"),
        ("shop:", "expected MODULE:ENGINE"),
        (":engine", "expected MODULE:ENGINE"),
        ("nowhere_at_all:engine", "No module named 'nowhere_at_all'"),
        ("torn:engine", "SyntaxError"),
        ("quitting:engine", "SystemExit"),
    ],
)
def test_an_app_that_cannot_be_used_is_one_line(shell: Shell, shop: str, app: str, words: str) -> None:
    shell.write("torn.py", "def (:")
    shell.write("quitting.py", "raise SystemExit(3)")
    said = shell("run", "x", "--app", app.replace("{shop}", shop))
    assert (said.code, said.out) == (2, "") and words in said.err
    assert (
        said.err.removeprefix("imported\n").count("\n") == 1
    )  # what the module printed itself, and the message


def test_what_tools_print_never_reaches_standard_output(shell: Shell, shop: str) -> None:
    said = shell("run", "Look", "--app", f"{shop}:plain", "--json")
    assert said.json["status"] == "done"
    assert "looking" in said.err


# -- on a terminal -----------------------------------------------------------------------------------------------


class Releasing(Terminal):
    """A terminal that lets the shop's tool go on once it shows that the tool is running."""

    def write(self, text: str) -> int:
        """Write, and look at what is shown by now."""
        written = super().write(text)
        if "running shop.look" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue()):
            Path("go").touch()
        return written


def test_a_terminal_gets_progress_colours_and_wrapped_lines(
    shell: Shell, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_HOLD", "1")
    out, err = on_terminal(shell, monkeypatch, "run", "Look", "--app", f"{shop}:plain", err=Releasing())
    assert out == "All is bought.\n"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err)
    assert "✓ shop.look: 1 document: seen ␛[31mtea" in plain
    assert "→ Executing" in plain and 'shop.look(word="tea")' in plain
    assert "Executing: running shop.look" in plain
    assert "step 1 of 5" in plain
    assert "\x1b[32mDone (model_stop)\x1b[0m\n    1 step, 6 transitions" in err
    longest = SUCCESS | {"answer": "word " * 40 + "\n- item " + "word " * 30}
    out, _ = on_terminal(
        shell,
        monkeypatch,
        "run",
        "x",
        "--tools",
        "ai.process",
        "--model",
        shell.script(*DONE[:4], longest),
        columns=60,
    )
    assert max(map(len, out.splitlines())) <= 60
    assert "\n- item word" in out
    assert "\n  word word" in out


def test_a_failed_action_is_marked_on_a_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = SELECT | {
        "action": "document.extract",
        "requiredInputDocuments": ["docList:round1_task1_action0_input"],
    }
    shell.write("torn.pdf", "%PDF-1.4 torn")
    replies = [bad, {"parameters": {}}, STOP, SUCCESS]
    script = shell.script(*replies)
    _, err = on_terminal(
        shell, monkeypatch, "run", "x", "--model", script, "--document", "torn.pdf", columns=200
    )
    assert "✗" in err
    assert "  1 step, " in err.splitlines()[-1] or "  1 step, " in err


def test_no_color_and_dumb_terminals_get_plain_text(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.run()
    assert "\x1b[" in on_terminal(shell, monkeypatch, "show")[0]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in on_terminal(shell, monkeypatch, "show")[0]


def test_a_waiting_run_on_a_terminal_wraps_its_question(
    shell: Shell, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = on_terminal(
        shell, monkeypatch, "run", "Buy", "--app", f"{shop}:engine", "--output", "a.md", columns=40
    )
    assert out.splitlines()[0] == "May shop.buy be called?"
