"""What the commands share, seen from inside: text for people, names of runs, exit codes, examples of answers."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import termios
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from paor import Engine, Question, ScriptedModel, errors
from paor.testing import SeededIds

from ..support.cli_support import DONE, Terminal
from .inside import (
    Cell,
    Column,
    _requirement,
    _wrapped,
    answers_to,
    arrow,
    count,
    cut,
    deciding,
    duration,
    exit_code_of,
    facts,
    folded,
    harmless,
    json_text,
    local_time,
    one_line,
    short_id,
    size,
    table,
    width,
)


@given(st.text())
def test_nothing_harmless_controls_a_terminal(text: str) -> None:
    for char in harmless(text):
        assert char in "\n\t" or (char.isprintable() or ord(char) > 0x9F)
    assert "\n" not in one_line(text)
    harmless(text).encode()


@given(st.text(), st.integers(8, 60))
def test_cut_and_folded_lines_fit(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width
    assert all(cell_len(line) <= width for line in folded(text, width))


@given(st.text(alphabet="ab 漢\n-1.", max_size=200), st.integers(8, 40))
def test_folding_loses_nothing_but_spaces(text: str, width: int) -> None:
    assert "".join("".join(folded(text, width)).split()) == "".join(text.split())


def test_folding_hangs_list_items_under_their_text() -> None:
    assert folded("- one two three four", 12) == ["- one two", "  three four"]
    assert folded("  12. one two three", 12) == ["  12. one", "      two", "      three"]
    assert folded("x" * 20, 8) == ["xxxxxxxx", "xxxxxxxx", "xxxx"]
    assert folded("", 8) == [""]


def test_numbers_have_their_units() -> None:
    assert [count(1, "step"), count(5210, "token"), count(2, "query")] == [
        "1 step",
        "5,210 tokens",
        "2 queries",
    ]
    assert [duration(value) for value in (0, 0.085, 0.9996, 1.24, 59.96, 125, 3720)] == [
        "0 ms",
        "85 ms",
        "1.0 s",
        "1.2 s",
        "1 min 00 s",
        "2 min 05 s",
        "1 h 02 min",
    ]
    assert [size(value) for value in (0, 312, 4100, 12_000, 12_000_000, 5_000_000_000)] == [
        "0 B",
        "312 B",
        "4.1 kB",
        "12 kB",
        "12 MB",
        "5.0 GB",
    ]


def test_a_table_leaves_empty_columns_out_and_wraps_the_wide_one() -> None:
    columns = [Column("#", right=True), Column("none"), Column("text", wide=True)]
    rows: list[list[Cell]] = [["1", "", "one two three"], ["12", "", ("漢字", "good")]]
    lines = [click.unstyle(line) for line in table(columns, rows, 14, wrap=True)]
    assert lines == [" #  text", " 1  one two", "    three", "12  漢字"]
    assert click.unstyle(table(columns, rows, 14, head=False)[0]) == " 1  one two t…"


@pytest.mark.parametrize("width", [30, 80])
def test_facts_leave_empty_values_out_and_are_bounded(width: int) -> None:
    lines = [click.unstyle(line) for line in facts([("a", "", ""), ("bc", "word " * 200, "")], width)]
    assert len(lines) == 4
    assert lines[0].startswith("bc  word")
    assert lines[-1].endswith("…")
    assert max(map(len, lines)) <= width


def test_a_value_with_too_many_lines_ends_with_a_mark_of_its_own() -> None:
    """The first words of a line that is not shown would look like a part of the one before."""
    assert facts([("a", "- one\n- two\n- three", "")], 40, lines_max=2)[-1].endswith("- two …")


def test_a_table_that_does_not_fit_shrinks_its_wide_column_only() -> None:
    """On a very narrow terminal its lines are longer than that, since no number may be lost."""
    columns = [Column("tokens", right=True), Column("label"), Column("text", wide=True)]
    row: list[Cell] = [("5,210", "dim"), ("round1_task1_action1_text", "strong"), "words " * 20]
    lines = [click.unstyle(line) for line in table(columns, [row], 20)]
    assert lines == ["tokens  label                      text", " 5,210  round1_task1_action1_text  words w…"]


@given(st.text(), st.integers(20, 60))
def test_no_cell_breaks_a_table_or_controls_a_terminal(text: str, width: int) -> None:
    """Whatever is in it: one line a row, no markup, no escape but colours."""
    lines = table([Column("#"), Column("text", wide=True)], [["1", (text, "good")]], width)
    assert len(lines) == 2 and click.unstyle(lines[0]).split() == ["#", "text"]
    assert all(char.isprintable() or ord(char) > 0x9F for char in click.unstyle(lines[1]))
    assert cell_len(click.unstyle(lines[1])) <= width


def test_text_is_no_markup_and_separators_of_lines_are_line_feeds() -> None:
    assert table([Column("a", wide=True)], [["[bold]x[/bold] :smile:"]], 60)[1] == "[bold]x[/bold] :smile:"
    assert harmless("one\u2028two\u2029three\u202e") == "one\ntwo\nthree\ufffd"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029"])
def test_line_separators_reach_no_output(separator: str) -> None:
    """For people they are line feeds, in JSON they are escaped: some programs take them for the end of a line."""
    text = f"a{separator}b"
    assert (harmless(text), one_line(text), folded(text)) == ("a\nb", "a b", ["a", "b"])
    assert json_text({"a": text}) == f'{{"a": "a\\u{ord(separator):04x}b"}}'


@pytest.mark.parametrize("letter", ["\u202e", "\u2066", "\u200f", "\u061c", "\x9b"])
def test_what_turns_around_or_controls_is_escaped_in_json(letter: str) -> None:
    """It is the same data, and shows as it is."""
    text = json_text({"a": f"x{letter}y"})
    assert text == f'{{"a": "x\\u{ord(letter):04x}y"}}' and json.loads(text) == {"a": f"x{letter}y"}


def test_the_width_and_the_arrow_are_what_the_stream_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = pty.openpty()
    with open(theirs, "w") as terminal, open(ours, "rb"), open(os.devnull, "w") as nowhere:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 77, 0, 0))
        assert (width(terminal), width(nowhere)) == (77, 100)
        for columns, shown in (("66", 66), ("3", 40)):
            monkeypatch.setenv("COLUMNS", columns)
            assert width(terminal) == shown
    for encoding, sign in (("ascii", "->"), ("utf-8", "→"), ("no such encoding", "->")):
        stream = Terminal()
        stream.encoding = encoding
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", stream)
            assert arrow() == sign


def test_moments_and_requirements_are_read() -> None:
    assert local_time(10**30) == "?"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", local_time(0))
    assert _requirement('pypdf>=5; extra == "documents"') == ("pypdf", "documents")
    assert _requirement("click>=8.1") == ("click", "")
    assert _requirement("; odd") == ("; odd", "")


def test_the_guards_that_decided_are_those_of_the_row_that_was_taken() -> None:
    for row, guards, told in (
        (("Planning", "fly", "Done"), {}, []),
        (("Specifying", "refuse", "Observing"), {"duplicate": True, "parameters_valid": True}, ["duplicate"]),
        (
            ("Executing", "retry_step", "Executing"),
            {"step_retries_left": True, "retryable": True},
            ["retryable"],
        ),
    ):
        assert deciding(*row, guards) == told


@given(
    st.text(
        st.sampled_from("abc .,\N{CJK UNIFIED IDEOGRAPH-8A9E}\N{COMBINING ACUTE ACCENT}\u00e4\u20ac"),
        min_size=1,
        max_size=120,
    ),
    st.integers(8, 40),
)
def test_a_text_is_wrapped_as_rich_wraps_it(text: str, cells: int) -> None:
    """At its spaces, a word that is longer than a line within it, and wide signs count as two."""
    text = " ".join(text.split())
    wanted = Text(text).wrap(Console(width=cells), cells, overflow="fold")
    assert _wrapped(text, cells) == [line.plain.rstrip() for line in wanted] or not text


def test_short_ids_are_as_long_as_they_need_to_be(tmp_path: Path) -> None:
    class Given(SeededIds):
        """Gives the ids of a list."""

        def __init__(self, *ids: str) -> None:
            super().__init__()
            self._left = iter(ids)

        def run_id(self) -> str:
            """Return the next one."""
            return next(self._left)

    ids = ("0123456789ab-cd-1", "0123456789ab-cd-2", "0123456789aX-cd-2", "short")
    for name, made, shown in (
        ("several", ids, ("0123456789ab-cd-1", "0123456789ab-cd-2", "0123456789aX", "short")),
        ("one", ("only-one-here-there-is",), ("only-one-here",)),
    ):
        with Engine(ScriptedModel([]), journal=tmp_path / f"{name}.db", ids=Given(*made)) as engine:
            for _ in made:
                engine.run("Write it")
            assert tuple(short_id(engine.journal.reader, run_id) for run_id in made) == shown


def test_a_run_that_ends_while_it_is_looked_at_is_not_told_to_be_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between the two reads, of the run and of its lease."""
    replies: list[Any] = list(DONE)
    with Engine(ScriptedModel(replies), journal=tmp_path / "a.db") as host:
        events = host.stream("Write it", on_close="stop")
        while next(events).kind != "transition":
            pass
        [row] = host.journal.runs()
        assert row.status == "running" and row.driver is not None
        leases = host.journal.store.leases
        drivers = leases.drivers
        monkeypatch.setattr(leases, "drivers", lambda runs: list(events) and drivers(runs))
        row = host.journal.run(row.run_id)
        assert row.driver is None and row.ended_at is not None


def test_every_error_of_paor_has_an_exit_code() -> None:
    found: dict[int, set[str]] = {}
    for name in errors.__all__:
        given = ("timeout", "") if name == "ModelUnavailable" else ("",)
        found.setdefault(exit_code_of(getattr(errors, name)(*given)), set()).add(name)
    assert found[4] == {"JournalDamaged", "JournalConflict"} and found[3] == {"ReplayDiverged"}
    ours = {"PaorError", "InternalError", "ModelError", "ScriptExhausted", "ToolError", "NotStarted"}
    ours |= {"EffectUnknown", "AnswerNeeded", "TimedOut", "ModelUnavailable", "CallStopped"}
    assert found[1] == ours
    assert found.keys() == {1, 2, 3, 4}


def test_example_answers_fit_the_schema_of_a_question() -> None:
    properties: dict[str, Any] = {
        "name": {"type": "string"},
        "sure": {"type": "boolean"},
        "count": {"type": "integer"},
        "size": {"enum": ["s", "m"]},
        "any": True,
    }
    asked = Question("r", "4-x", "elicitation", "Who?", None, None, None, 0, None, {"properties": properties})
    example = {"name": "...", "sure": True, "count": 1, "size": "s", "any": "..."}
    assert answers_to(asked) == [
        f"--question 4-x --answer '{json.dumps(example)}'",
        """--question 4-x --answer '{"action": "decline"}'""",
    ]
