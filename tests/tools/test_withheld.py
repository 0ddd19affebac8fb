"""Where the duplicate rule blocks a reading call whose result is known, the tools are withheld and the answer is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paor import Limits, Policy, Tool, ToolContext, tool
from paor.errors import ToolError

from ..machine.test_spec_guard import WIDE
from ..support.planning import PLAN, STEP, World, check, ends
from ..support.recording import sections
from ..support.stored import blocked_steps
from ..support.worlds import CONTINUE, MET, PARAMETERS, READ, REFINE, REVIEW, SELECT, STOP, SUCCESS
from .inside import answer_form

SAID = {"answer": "Page 1 says ten days."}
AGAIN = [*READ(1), CONTINUE, *READ(1), CONTINUE, *READ(1)]
"""The same page three times."""

ANSWER = 'No further action is taken. Answer now, from the results only.\n\n## Reply\n{"answer": "..."}'
"""What is asked behind the conversation; neither the words nor the form offer an action."""

REVIEWED = Limits(completion_review="model")


def reading(calls: list[int], fails: Callable[[int], bool] = lambda action: False, **options: Any) -> Tool:
    """Return ``notes.read`` that keeps its pages in *calls*; its n-th action fails where *fails* says so."""

    @tool("notes.read", **{"effect": "read", "label": "page", **options})
    def read(context: ToolContext, page: int) -> str:
        """Read."""
        calls.append(page)
        if fails(context.action):
            raise ToolError("torn")
        return f"page {page}"

    return read


# -- what happens --------------------------------------------------------------------------------------------------


def test_the_answer_is_asked_for_instead_of_the_same_call(tmp_path: Path) -> None:
    """Two calls, one request for the answer behind their results, and the run ends with what it says."""
    calls: list[int] = []
    with World(tmp_path, [*AGAIN, SAID], [reading(calls)]) as world:
        result = world.run("When do they deliver?")
        check(world)
    assert (result.state, result.reason, result.answer) == ("Done", "model_stop", SAID["answer"])
    assert (calls, result.steps, blocked_steps(world.path)) == ([1, 1], 3, [])
    assert world.triggers[-4:] == ["select", "withhold", "answer", "finish"]
    row = world.rows[-3]
    assert (row.source, row.dest, row.counters["withheld"]) == ("Specifying", "Planning", 1)
    assert row.guards | {"result_known": True, "action_allowed": True, "tools_offered": True} == row.guards
    asked = world.model.calls[-1]
    assert (asked.kind, asked.schema) == ("answer", answer_form().schema)
    assert list(sections(asked)) == ["Objective", "Reply"]
    assert [message.text for message in asked.messages[-2:]] == ["Result of notes.read:\npage 1", ANSWER]


def test_an_answer_that_cannot_be_read_is_asked_again_once(tmp_path: Path) -> None:
    """An action is no answer: it is not executed, the feedback says what is wanted, twice is the end."""
    calls: list[int] = []
    with World(tmp_path / "once", [*AGAIN, SELECT(), SAID], [reading(calls)]) as world:
        assert world.run().answer == SAID["answer"]
        check(world)
    assert [call.kind for call in world.model.calls[-2:]] == ["answer", "answer"]
    assert "`answer`" in sections(world.model.calls[-1])["Your last reply could not be used"]
    with World(tmp_path / "twice", [*AGAIN, SELECT(), SELECT()], [reading(calls)]) as world:
        assert world.run().reason == "selection_invalid"
        check(world)
    assert calls == [1, 1] * 2


# -- once in each attempt ---------------------------------------------------------------------------------------------


def test_after_a_retry_the_tools_are_offered_and_can_be_withheld_again(tmp_path: Path) -> None:
    """The review may ask for more: then there is an action to choose again, and the same call is withheld once more."""
    calls: list[int] = []
    more, last = REVIEW("retry", "read page 2 as well"), REVIEW("success", answer="Both.")
    script = [*AGAIN, SAID, more, *READ(1), SAID, more, *READ(2), STOP, last]
    with World(tmp_path, script, [reading(calls)], limits=REVIEWED) as world:
        assert world.run().answer == "Both."
        check(world)
        world.model.assert_all_used()
    assert calls == [1, 1, 2]
    kinds = [kind for kind in world.model.kinds if kind in ("selection", "answer", "review")]
    first = [*["selection"] * 3, "answer", "review"]
    assert kinds == [*first, "selection", "answer", "review", "selection", "review"]
    assert [row.counters["withheld"] for row in world.rows if row.trigger == "withhold"] == [1, 2]


def test_withholding_is_bounded_by_the_attempts(tmp_path: Path) -> None:
    """A model that only ever repeats itself, and a review that only ever asks for more, come to an end."""
    script = [*AGAIN, *[reply for _ in range(9) for reply in (SAID, REVIEW("retry", "more"), *READ(1))]]
    with World(
        tmp_path, script, [reading([])], limits=REVIEWED.model_copy(update={"max_retries": 2, "max_steps": 9})
    ) as world:
        result = world.run()
        check(world)
    assert (result.state, result.reason) == ("Failed", "retries_exhausted")
    assert world.count("withhold") == 3


# -- which calls ------------------------------------------------------------------------------------------------------

OTHERS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "an idempotent tool": ({"effect": "idempotent"}, [1, 1]),
    "a tool that may be repeated": ({"repeat_allowed": True}, [1, 1, 1]),
    "a tool with limits of its own": ({"duplicate_limits": {"consecutive_limit": 4}}, [1, 1, 1]),
}
"""Options of a tool, and which calls are made of three equal ones."""


@pytest.mark.parametrize("case", OTHERS)
def test_the_tools_are_withheld_for_reading_calls_that_are_blocked(tmp_path: Path, case: str) -> None:
    """Another call is refused, so that its model may choose again; and a host may say how often a tool may be repeated."""
    calls: list[int] = []
    options, made = OTHERS[case]
    with World(tmp_path, [*AGAIN, STOP, SUCCESS], [reading(calls, **options)]) as world:
        assert world.run().state == "Done"
        check(world)
    assert (calls, world.count("withhold"), world.count("refuse")) == (made, 0, 3 - len(made))


def test_a_call_that_found_nothing_is_withheld_too(tmp_path: Path) -> None:
    """Nothing is a result, too; the prompt for the answer shows it."""
    calls: list[int] = []

    @tool("notes.read", effect="read")
    def read(page: int) -> None:
        """Read."""
        calls.append(page)

    with World(tmp_path, [*AGAIN, SAID], [read]) as world:
        assert world.run().answer == SAID["answer"]
        check(world)
    assert world.model.calls[-1].messages[-2].text == "Result of notes.read:\nthe tool returned nothing"
    assert (calls, world.count("withhold")) == ([1, 1], 1)


@pytest.mark.parametrize("mode", ["planner", "batch"])
@pytest.mark.filterwarnings("ignore:mode='batch':DeprecationWarning")
def test_a_plans_steps_are_made_as_they_are_planned(tmp_path: Path, mode: str) -> None:
    """A plan that names a call three times has the third one refused, as the guard says; its other steps are made."""
    calls: list[int] = []
    script = ends(mode, PLAN(STEP(page=1), STEP(page=1), STEP(page=1), STEP(page=2)))
    with World(tmp_path, script, [reading(calls)]) as world:
        assert world.run(mode=mode).state == "Done"
        check(world)
    assert (calls, world.count("withhold"), world.count("refuse")) == ([1, 1, 2], 0, 1)


def test_a_run_that_may_ask_nobody_is_not_stuck_for_a_call_that_is_not_made(tmp_path: Path) -> None:
    """The two questions that it may ask were for the calls that were made; the third one needs no yes."""
    policy, limits = Policy(approvals=("notes.*",)), Limits(max_elicitations=2)
    with World(tmp_path, [*AGAIN, SAID], [reading([])], policy=policy, limits=limits) as world:
        result = world.run()
        for _ in range(2):
            asked = result.waiting_for
            assert asked is not None
            result = world.engine.resume(result.run_id, answer={"approve": True}, question=asked.id)
        check(world)
    assert (result.state, result.answer) == ("Done", SAID["answer"])
    assert world.triggers.count("wait") == 2


# -- any sequence, any place ------------------------------------------------------------------------------------------


def told(sequence: str) -> tuple[str, bool]:
    """
    Return the calls that are executed, and whether the tools are withheld then, from the words of the rule.

    A small letter is the same call as its capital, and fails.
    """
    text, executed = "", ""
    for call in sequence:
        key = call.upper()
        pair = {(x + key) * 4 for x in text}
        blocked = text.endswith(key * 2) or text[-8:].count(key) >= 4 or (text + key)[-8:] in pair - {key * 8}
        if key in executed and blocked:
            return executed, True
        if not blocked:
            text, executed = text + key, executed + call
    return executed, False


@pytest.mark.whole
@settings(max_examples=60)
@given(sequence=st.text(alphabet="ABabC", min_size=1, max_size=14))
@example(sequence="AbA")
@example(sequence="ABABABAB")
@example(sequence="aaaA")
@example(sequence="AAaA")
@example(sequence="AAA")
def test_any_sequence_of_calls_is_withheld_as_the_words_say(sequence: str) -> None:
    """On real runs, with calls that fail; the call at which the tools are withheld is not made, and the replay agrees."""
    executed, withheld = told(sequence)
    calls: list[int] = []
    spoken = list(sequence)
    with tempfile.TemporaryDirectory() as folder:
        script: list[Any] = []
        for call in sequence:
            script += [SELECT(), PARAMETERS(page=ord(call.upper())), CONTINUE]
        world = World(
            Path(folder),
            [
                *(_until(script, sequence) if withheld else [*script[:-1], STOP]),
                SAID if withheld else SUCCESS,
            ],
            [reading(calls, lambda action: spoken[action - 1].islower())],
            limits=Limits(**WIDE),
        )
        with world:
            result = world.run()
            check(world)
        assert result.state == "Done", result
        assert "".join(map(chr, calls)) == executed.upper()
        assert world.count("withhold") == withheld


def _until(script: list[Any], sequence: str) -> list[Any]:
    """Return the replies up to the call at which the tools are withheld."""
    length = next(n for n in range(1, len(sequence) + 1) if told(sequence[:n])[1])
    return script[: 3 * length - 1]


def test_a_criterion_is_judged_after_a_withheld_answer(tmp_path: Path) -> None:
    """The answer is a draft like any other: with success criteria the model reviews it."""
    script = [*AGAIN, SAID, REVIEW("success", criteria=[MET("names the days")])]
    with World(tmp_path, script, [reading([])]) as world:
        result = world.run("Read", ["names the days"])
        check(world)
    assert (result.state, result.answer, world.model.kinds[-1]) == ("Done", SAID["answer"], "review")
    assert SAID["answer"] in sections(world.model.calls[-1])["Draft answer"]


def test_a_withheld_answer_is_newer_than_what_was_noted_on_the_way(tmp_path: Path) -> None:
    """A refinement that went on with an answer does not win over it."""
    script = [*READ(1), CONTINUE, *READ(1), REFINE("continue", answer="five days?"), *READ(1), SAID]
    with World(tmp_path, script, [reading([])]) as world:
        assert world.run().answer == SAID["answer"]
