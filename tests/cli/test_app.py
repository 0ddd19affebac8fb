"""`--app`, and what a terminal shows."""

from __future__ import annotations

import re

import pytest

from ..support.cli_support import (  # noqa: F401 - the fixtures `shell` and `shop`
    DONE,
    SELECT,
    STOP,
    SUCCESS,
    Shell,
    make_shell,
    make_shop,
    on_terminal,
)

# -- --app -------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("angry", "angry(journal) raised RuntimeError: no shop today"),
        ("leaving", "raised SystemExit: bye"),
        ("nothing", "returned a value of type NoneType"),
        ("NUMBER", "is of type int"),
        ("missing", "has no missing"),
        ("NUMBER.deeper", "has no NUMBER.deeper"),
    ],
)
def test_an_app_that_cannot_be_used_is_one_line(shell: Shell, shop: str, name: str, words: str) -> None:
    shell("run", "x", "--app", f"{shop}:{name}").refused(words)
    said = shell.process("run", "x", "--app", f"{shop}:{name}", SHOP_TALKS="1")
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 2  # what the module printed itself, and the message


@pytest.mark.parametrize("app", ["shop", "shop:", ":engine"])
def test_an_app_is_module_and_engine(shell: Shell, app: str) -> None:
    shell("run", "x", "--app", app).refused("expected MODULE:ENGINE")


def test_a_module_that_does_not_import_is_one_line(shell: Shell) -> None:
    shell("run", "x", "--app", "nowhere_at_all:engine").refused("No module named 'nowhere_at_all'")
    shell.write("torn.py", "def (:")
    shell("run", "x", "--app", "torn:engine").refused("SyntaxError")
    shell.write("quitting.py", "raise SystemExit(3)")
    shell("run", "x", "--app", "quitting:engine").refused("SystemExit")


@pytest.mark.whole
def test_an_engine_with_its_own_journal_keeps_it(shell: Shell, shop: str) -> None:
    shell.write("own.py", f"import {shop}\nengine = {shop}.plain('own.db')\n")
    said = shell.process("run", "Look", "--app", "own:engine")
    assert said.code == 0, said
    assert "--journal own.db" in said.err
    assert "paor.db" not in shell.files()
    assert shell.process("resume", "last", "--app", "own:engine").code == 0
    assert shell.process("replay", "last", "--app", "own:engine").code == 0
    assert shell.process("run", "Look", "--app", "own:engine", "--journal", "own.db").code == 0
    said = shell.process("run", "Look", "--app", "own:engine", "--journal", "other.db")
    assert said.code == 2
    assert "has the journal own.db, not other.db" in said.err


def test_an_engine_with_its_own_journal_in_this_process(shell: Shell, shop: str) -> None:
    shell.write(f"own_{shop}.py", f"import {shop}\nengine = {shop}.engine('own.db')\n")
    app = ("--app", f"own_{shop}:engine")
    shell("resume", "last", "--journal", "other.db", *app).refused("has the journal own.db, not other.db")
    shell("run", "Look", "--journal", "other.db", *app).refused("has the journal own.db, not other.db")
    said = shell("run", "Look", *app)
    assert said.code == 5, said
    assert f"--journal own.db --app own_{shop}:engine" in said.err


def test_what_tools_print_never_reaches_standard_output(shell: Shell, shop: str) -> None:
    said = shell("run", "Look", "--app", f"{shop}:plain", "--json")
    assert said.json["status"] == "done"
    assert "looking" in said.err


# -- on a terminal -----------------------------------------------------------------------------------------------


def test_a_terminal_gets_progress_colours_and_wrapped_lines(
    shell: Shell, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_SLEEP_S", "0.3")
    out, err = on_terminal(shell, monkeypatch, "run", "Look", "--app", f"{shop}:plain")
    assert out == "All is bought.\n"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err)
    assert "✓ shop.look: 1 document: seen ␛[31mtea" in plain
    assert "→ Executing" in plain and 'shop.look(word="tea")' in plain
    assert "Executing: running shop.look" in plain
    assert "step 1 of 5" in plain
    assert "\x1b[32mDone (model_stop)\x1b[0m\n    1 step, 6 transitions" in err
    longest = SUCCESS | {"answer": "word " * 40 + "\n- item " + "word " * 30}
    out, _ = on_terminal(
        shell, monkeypatch, "run", "x", "--model", shell.script(*DONE[:4], longest), columns=60
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


def test_the_width_is_the_terminals_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import pty

    from paor.cli.support.text import width

    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    with open(theirs, "w") as terminal, open(ours, "rb"), open(os.devnull, "w") as nowhere:
        termios_size(theirs, 77)
        assert width(terminal) == 77
        assert width(nowhere) == 100
        monkeypatch.setenv("COLUMNS", "66")
        assert width(terminal) == 66
        monkeypatch.setenv("COLUMNS", "3")
        assert width(terminal) == 40


def termios_size(terminal: int, columns: int) -> None:
    """Set the size of a terminal."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
