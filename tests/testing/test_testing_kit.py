"""The scripted worlds that users have: replies, tools with given outcomes, what a run did, told so that one line asserts it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Policy, ScriptedModel, Tool
from paor.errors import AnswerNeeded, Erased, NotStarted, ToolError, UsageError
from paor.testing import (
    Asks,
    SeededIds,
    SteppingClock,
    answer,
    call,
    listen,
    parameters,
    plan,
    play,
    problems,
    refine,
    review,
    scripted_tool,
    select,
    step,
    walk,
)

from ..support.forging import forge
from ..support.worlds import JOURNAL

END = [refine("stop"), review("success", answer="All is known.")]


def world(tmp_path: Path, replies: Sequence[object], tools: list[Tool], **options: object) -> Engine:
    """Return an engine on a script."""
    journal = Journal(tmp_path / JOURNAL, "off")
    fixed = {"clock": SteppingClock(), "ids": SeededIds(), "builtins": False}
    return Engine(ScriptedModel(replies), tools, journal, **{**fixed, **options})  # type: ignore[arg-type]


def test_a_call_with_arguments_of_every_type_reaches_its_tool(tmp_path: Path) -> None:
    """The replies name the types that the arguments have."""
    given = {"text": "a", "number": 2, "flag": True, "object": {"a": 1}, "list": [1, "b"], "half": 0.5}
    tool = scripted_tool("notes.read", ["seen"])
    with world(tmp_path, [*call("notes.read", **given), *END], [tool]) as engine:
        seen = play(engine, {"objective": "Read"})
    assert seen.calls[0].arguments == given
    assert (seen.calls[0].ok, seen.calls[0].output, seen.tools) == (True, "seen", ("notes.read",))
    assert seen.kinds == ("selection", "parameters", "refinement", "review")
    assert seen.phases == (
        *("Planning", "Specifying", "Executing", "Observing", "Reviewing"),
        "Done",
    )
    assert seen.triggers[-1] == "finish" and seen.answer == "All is known."


def test_outcomes_come_in_turn_and_one_too_few_is_an_error_of_the_tool(tmp_path: Path) -> None:
    """A value, an exception, and nothing any more."""
    tool = scripted_tool("notes.read", ["first", ToolError("torn out")])
    replies = [reply for page in (1, 2, 3) for reply in (*call("notes.read", page=page), refine("continue"))]
    with world(tmp_path, [*replies, answer("No more."), review("success")], [tool]) as engine:
        seen = play(engine, {"objective": "Read"})
    assert [item.error for item in seen.calls] == [
        None,
        "torn out",
        "the script of notes.read has no outcome 3",
    ]


def test_a_tool_that_asks_the_model_takes_its_replies_from_the_script(tmp_path: Path) -> None:
    """Its texts stand among the requests, and one that fails stops nothing."""
    tool = scripted_tool("notes.scan", [Asks(2, "scanned")])
    replies = [*call("notes.scan", page=1), "A text.", "", *END]
    with world(tmp_path, replies, [tool]) as engine:
        seen = play(engine, {"objective": "Scan"})
    assert seen.kinds == ("selection", "parameters", "text", "text", "refinement", "review")
    assert (seen.asked[2].reply, seen.calls[0].output) == ("A text.", "scanned")


def test_a_run_that_waits_is_given_its_answers(tmp_path: Path) -> None:
    """An approval, and a tool that asks; too few answers and too many are told."""
    tool = scripted_tool("mail.send", [AnswerNeeded("Which copy?"), "sent"] * 2, effect="once")
    options = {"policy": Policy(approvals=("mail.*",))}
    answers: list[dict[str, object]] = [{"answer": {"approve": True}}, {"answer": "the second"}]
    with world(tmp_path, [*call("mail.send", to="a"), *END], [tool], **options) as engine:
        seen = play(engine, {"objective": "Send"}, answers)
        assert seen.state == "Done"
        assert [item.ok for item in seen.calls] == [None, True]
        with pytest.raises(AssertionError, match="was to wait for answer 3"):
            play(engine, {"objective": "Send"}, [*answers, {"answer": "again"}])
        assert play(engine, {"objective": "Send"}, [{"cancel": True}]).reason == "cancelled"


def test_a_run_that_waits_too_often_is_told(tmp_path: Path) -> None:
    """An answer that was not expected is not made up."""
    tool = scripted_tool("mail.send", [AnswerNeeded("Which copy?")], effect="once")
    options = {"policy": Policy(approvals=("mail.*",))}
    with (
        world(tmp_path, [*call("mail.send", to="a"), *END], [tool], **options) as engine,
        pytest.raises(AssertionError, match="once more than there are answers"),
    ):
        play(engine, {"objective": "Send"}, [{"answer": {"approve": True}}])


def test_a_plan_of_steps_is_walked(tmp_path: Path) -> None:
    """In batch mode the script begins with a plan."""
    tools = [
        scripted_tool("notes.read", ["one"]),
        scripted_tool("notes.keep", [NotStarted("busy"), "kept"], retries=1),
    ]
    script = [plan(step("notes.read", page=1), step("notes.keep")), review("success", answer="Kept.")]
    with world(tmp_path, list(script), tools) as engine:
        seen = play(engine, {"objective": "Keep", "mode": "batch"})
    assert seen.tools[:2] == ("notes.read", "notes.keep")
    assert (seen.state, seen.answer) == ("Done", "Kept.")


def test_what_was_erased_cannot_be_walked_and_says_so(tmp_path: Path) -> None:
    """Nothing is made up in its place."""
    tool = scripted_tool("notes.read", ["a text that goes"])
    with world(tmp_path, [*call("notes.read", page=1), *END], [tool]) as engine:
        run_id = engine.run("Read").run_id
        assert walk(engine.journal, run_id[:13]).run_id == run_id
        engine.journal.erase(run_id)
        with pytest.raises(Erased):
            walk(engine.journal, run_id)


def test_problems_names_a_row_that_was_altered(tmp_path: Path) -> None:
    """The chain and the replay are both asked."""
    with world(tmp_path, [answer("Known."), review("success")], []) as engine:
        run_id = engine.run("Say").run_id
        assert problems(engine.journal) == []
    with closing(forge(tmp_path / JOURNAL)) as file, file:
        file.execute("UPDATE transitions SET guards = '{}' WHERE seq = 0")
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        found = problems(journal, [run_id])
    assert any("hash" in line for line in found), found
    assert any("replay: row 0, guards" in line for line in found), found


@pytest.mark.parametrize("outcomes", ["text", b"bytes", {"a": 1}, 3])
def test_outcomes_that_are_no_list_are_refused(outcomes: object) -> None:
    """A text would be an outcome for each letter."""
    with pytest.raises(UsageError, match="outcomes must be a list"):
        scripted_tool("notes.read", outcomes)  # type: ignore[arg-type]


def test_a_selection_without_fields_asks_for_no_parameters() -> None:
    """So a call without arguments is one reply."""
    assert call("notes.read") == [select("notes.read")]
    assert call("notes.read", page=1)[1] == parameters(page=1)


def test_a_listener_hears_of_every_run_until_it_is_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever way a driver lets go, and the rows that it wrote; what a listener raises is logged."""
    heard: list[tuple[int, int]] = []
    stop = listen(lambda journal, run, first: heard.append((run, first)))

    def raising(journal: Any, run: int, first: int) -> None:
        raise ZeroDivisionError

    wrong = listen(raising)
    try:
        tool = scripted_tool("mail.send", ["sent"], effect="once")
        options = {"policy": Policy(approvals=("mail.*",)), "limits": Limits(max_steps=3)}
        with (
            caplog.at_level(logging.ERROR, logger="paor"),
            world(tmp_path, [*call("mail.send", to="a"), *END], [tool], **options) as engine,
        ):
            result = engine.run("Send")
            engine.resume(result.run_id, answer={"approve": True})
            events: Any = engine.stream("Send", on_close="stop")
            next(events)
            events.close()
            stop()
            stop()
            engine.run("Send")
    finally:
        wrong()
    assert heard == [(1, 0), (1, 2), (2, 0)]
    assert caplog.text.count("a listener raised") == 4
