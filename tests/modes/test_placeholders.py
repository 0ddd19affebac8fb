"""Placeholders of a plan's arguments: what they stand for, and every way in which they stand for nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.fsm.workflow.step_references import (
    DEPTH_MAX,
    PlaceholderDefect,
    StepOutput,
    has_placeholders,
    placeholder_defects,
    resolve_arguments,
)

from ..support.cases import Step

OUTPUTS = (
    StepOutput({"items": [{"url": "https://a"}, {"url": "https://b"}], "a key": 1, "n": None, "a-b": 5}),
    StepOutput('{"page": {"title": "Tea"}}'),
    StepOutput("plain text"),
    StepOutput(error="no route to host"),
    None,
    StepOutput([1, [2]]),
    StepOutput('{"half": 0.5}'),
    StepOutput('{"half": 1e999}'),
    StepOutput('{"half": NaN}'),
    StepOutput("[broken"),
)


def resolved(value: Any, index: int = 10) -> Any:
    """Return what one argument resolves to, or the code of its only defect."""
    found = resolve_arguments({"x": value}, index, OUTPUTS)
    if isinstance(found, dict):
        return found["x"]
    (defect,) = found
    assert defect.message.isascii() and defect.message.isprintable() and len(defect.message) <= 300
    return defect.code


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("$step[0].output", OUTPUTS[0].value),
        ("$step[0].output.items[0].url", "https://a"),
        ('$step[0].output["a key"]', 1),
        ("$step[0].output.n", None),
        ("$step[1].output", '{"page": {"title": "Tea"}}'),
        ("$step[1].output.page.title", "Tea"),
        ("$step[2].output", "plain text"),
        ("$step[5].output[1][0]", 2),
        ("see $step[0].output.items[0].url. Then $step[2].output!", "see https://a. Then plain text!"),
        ("$step[6].output.half", 0.5),
        ("n: $step[0].output.n, $step[5].output", "n: , [1,[2]]"),
        ("$$step[0].output", "$step[0].output"),
        ("$$step[x and $step[5].output[0]", "$step[x and 1"),
        ("", ""),
        (["$step[5].output[0]", {"y": "$step[2].output"}, 7], [1, {"y": "plain text"}, 7]),
        ({"$step[0].output": True}, {"$step[0].output": True}),
    ],
)
def test_a_placeholder_stands_for_an_earlier_output(argument: Any, value: Any) -> None:
    """Alone it keeps its type, in a text it becomes text; at any depth, never in keys."""
    assert resolved(argument) == value


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ("$step[10].output", "unknown_step"),
        ("$step[3].output", "no_output"),
        ("$step[4].output", "no_output"),
        ("$step[0].output.missing", "missing_path"),
        ("$step[0].output.items[2]", "missing_path"),
        ("$step[0].output.items.url", "wrong_type"),
        ("$step[0].output.n.x", "wrong_type"),
        ("$step[2].output.x", "wrong_type"),
        ("$step[8].output.half", "wrong_type"),
        ("$step[9].output[0]", "wrong_type"),
        ("$step[-1].output", "bad_placeholder"),
        ("$step[0]", "bad_placeholder"),
        ("$step[0].error", "bad_placeholder"),
        ("$step[0].output.items[x]", "bad_placeholder"),
    ],
)
def test_what_has_no_value_is_a_typed_defect(argument: str, code: str) -> None:
    """Alone and within a text; the argument is never passed on with a placeholder in it."""
    assert resolved(argument) == code
    assert resolved(f"a {argument} b") == code


def test_later_steps_and_the_step_itself_cannot_be_used() -> None:
    """What has not run has no output, also when a journal already holds one of another plan."""
    assert resolved("$step[2].output", index=2) == "forward_reference"
    assert resolved("$step[5].output", index=2) == "forward_reference"
    assert resolved("$step[1].output.page.title", index=2) == "Tea"


def test_every_defect_is_listed_with_its_place() -> None:
    """One round with the planner repairs them all."""
    arguments = {
        "a": "$step[12].output",
        "b": [0, {"c": "$step[3].output and $step[12].output"}],
        "d": "$step[2].output",
    }
    assert resolve_arguments(arguments, 10, OUTPUTS[:10]) == (
        PlaceholderDefect("unknown_step", ("a",), "there is no step 12; the plan has steps 0 to 9"),
        PlaceholderDefect("no_output", ("b", 1, "c"), "step 3 failed: no route to host"),
    )
    assert arguments["a"] == "$step[12].output"


def test_a_plan_is_checked_before_anything_runs() -> None:
    """What no output can repair: order, number, form, and steps that have no output."""
    steps = [
        Step(name="a", args={"x": "$step[1].output"}),
        Step(name="b", args={"x": "$step[1].output"}),
        Step(type="noop"),
        Step(type="elicitation"),
        Step(name="c", args={"x": ["$step[2].output", "$step[3].output.key", "$step[0].output.any.path"]}),
        Step(name="d", args={"x": "$step[7].output $step[x]"}),
    ]
    found = [(index, defect.code, defect.path) for index, defect in placeholder_defects(steps)]
    assert found == [
        (0, "forward_reference", ("x",)),
        (1, "forward_reference", ("x",)),
        (4, "no_output", ("x", 0)),
        (5, "unknown_step", ("x",)),
        (5, "bad_placeholder", ("x",)),
    ]
    messages = [defect.message for _, defect in placeholder_defects(steps)]
    assert messages[:2] == ["step 0 refers to step 1, which comes later", "step 1 refers to itself"]
    assert has_placeholders({"x": ["$step[0].output"]}) and not has_placeholders({"$step[0]": "step"})


def test_outputs_are_never_read_for_placeholders() -> None:
    """Text of a tool or document cannot reach into the outputs of other steps."""
    outputs = (StepOutput("$step[1].output"), StepOutput("secret"))
    assert resolve_arguments({"x": "$step[0].output", "y": "a $step[0].output"}, 2, outputs) == {
        "x": "$step[1].output",
        "y": "a $step[1].output",
    }


def test_sizes_are_bounded() -> None:
    """A text that would grow beyond bounds is a defect; what is nested too deep is left alone."""
    outputs = (StepOutput("x" * 600_000), StepOutput(["x" * 1_000_001]))
    for text in ("$step[0].output$step[0].output", "a $step[1].output"):
        found = resolve_arguments({"x": text}, 2, outputs)
        assert isinstance(found, tuple) and found[0].code == "wrong_type"
    deep: Any = "$step[0].output"
    for _ in range(DEPTH_MAX + 5):
        deep = [deep]
    assert resolve_arguments({"x": deep}, 2, outputs) == {"x": deep}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
KEYS = st.text(alphabet="abc é", min_size=1, max_size=4)


@given(JSON, st.lists(KEYS | st.integers(0, 2), max_size=4))
def test_a_path_leads_where_it_was_laid(value: Any, path: list[str | int]) -> None:
    """Build an output around a value, and find the value again."""
    output = value
    for part in reversed(path):
        output = {part: output, "other": 1} if isinstance(part, str) else [0] * part + [output]
    words = "".join(f"[{part}]" if isinstance(part, int) else f'["{part}"]' for part in path)
    found = resolve_arguments({"x": f"$step[0].output{words}"}, 1, [StepOutput(output)])
    assert found == {"x": value}


@given(st.text(max_size=50) | st.text(alphabet="$step[012].output\"' x", max_size=40), JSON)
def test_any_text_is_resolved_or_a_defect(text: str, value: Any) -> None:
    """Never an exception; a text without the mark stays as it is."""
    for whole in (text, f"$step[0].output{text}", f"$step[{text}"):
        found = resolve_arguments({"x": whole}, 1, [StepOutput(value), None])
        assert isinstance(found, dict) or all(defect.path == ("x",) for defect in found)
        assert "$step[" in whole or found == {"x": whole}
