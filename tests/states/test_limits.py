"""Every limit below, at and above its number: where it ends a run, with which reason, and what is not asked any more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Policy, Reply, ScriptedModel, Usage, replay
from paor.errors import UsageError

from ..support.cases import short
from ..support.recording import World, observation, sections
from ..support.worlds import (
    CONTINUE,
    MET,
    PARAMETERS,
    READ,
    REFINE,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
)

ONE_STEP = [*READ(1), STOP, SUCCESS]


def paid(replies: list[Any], *, tokens: int = 100, cost_micro: int = 0) -> list[Reply]:
    """Return *replies* with a price on each: half of *tokens* in, half out."""
    texts = [reply if isinstance(reply, str) else json.dumps(reply) for reply in replies]
    return [Reply(text, Usage(1, tokens // 2, tokens - tokens // 2, cost_micro)) for text in texts]


def steps(count: int, last: Any = STOP, **keys: Any) -> list[Any]:
    """Return a script of *count* iterations on different pages, the last one with *last* as its refinement."""
    replies: list[Any] = []
    for page in range(1, count + 1):
        replies += [*READ(page), CONTINUE | keys]
    return [*replies[:-1], last]


class ManualClock:
    """A clock that stands still unless somebody moves it."""

    def __init__(self) -> None:
        self.us = 1_767_225_600_000_000

    def now_us(self) -> int:
        """Return where it stands."""
        return self.us

    def active_us(self) -> int:
        """Return the same."""
        return self.us


class SlowModel(ScriptedModel):
    """A scripted model that takes *seconds* for each reply."""

    def __init__(self, replies: list[Any], clock: ManualClock, seconds: float) -> None:
        super().__init__(replies)
        self.clock, self.seconds, self.asked = clock, seconds, 0

    def ask(self, call: Any) -> Reply:
        """Take the time, then answer."""
        self.asked += 1
        self.clock.us += round(self.seconds * 1_000_000)
        return super().ask(call)


# -- budgets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 99, 100, 101, 199, 200, 201, 299, 300, 301, 399, 400, 401])
def test_A046_A081_A093_the_token_budget_at_below_and_above(tmp_path: Path, budget: int) -> None:
    """Requests of 100 tokens: no further one is asked once what was spent reaches the budget."""
    with World(tmp_path, paid(ONE_STEP), limits=Limits(token_budget=budget)) as world:
        result = world.run()
        asked = min(4, -(-budget // 100))
        assert world.model.kinds == ["selection", "parameters", "refinement", "review"][:asked]
        assert result.usage.tokens_in + result.usage.tokens_out == 100 * asked < budget + 100
        if asked == 4:
            assert (result.state, result.reason) == ("Done", "model_stop")
        else:
            assert (result.state, result.reason) == ("Failed", "token_budget")
            assert "token budget" in result.answer


def test_a_tool_that_was_decided_still_runs_when_its_parameters_used_up_the_budget(tmp_path: Path) -> None:
    """A budget stops requests to models; what it pays for has been paid."""
    with World(tmp_path, paid(ONE_STEP), limits=Limits(token_budget=200)) as world:
        result = world.run()
        assert world.triggers == ["select", "specify", "execute", "observe", "fail"]
        assert (result.reason, len(result.documents)) == ("token_budget", 1)


@pytest.mark.parametrize(("budget", "asked"), [(0.000299, 3), (0.0003, 3), (0.000301, 4), (0.5, 4)])
def test_the_cost_budget_at_below_and_above(tmp_path: Path, budget: float, asked: int) -> None:
    """In the currency of the price list, kept as whole millionths."""
    replies = paid(ONE_STEP, cost_micro=100)
    with World(tmp_path, replies, limits=Limits(cost_budget=budget)) as world:
        result = world.run()
        assert len(world.model.calls) == asked
        assert result.usage.cost == pytest.approx(asked * 0.0001)
        assert result.reason == ("model_stop" if asked == 4 else "cost_budget")


@pytest.mark.parametrize(
    ("budget", "asked"), [(0.5, 1), (1.0, 1), (1.000001, 2), (2.0, 2), (3.5, 4), (9.0, 4)]
)
def test_the_time_budget_at_below_and_above(tmp_path: Path, budget: float, asked: int) -> None:
    """Active seconds; a request that was begun is waited for."""
    clock = ManualClock()
    model = SlowModel(ONE_STEP, clock, 1.0)
    with World(tmp_path, [], limits=Limits(time_budget_s=budget), clock=clock) as world:
        result = world.run(model=model)
        assert model.asked == asked
        assert result.usage.seconds == pytest.approx(asked)
        assert result.reason == ("model_stop" if asked == 4 else "time_budget")


def test_waiting_for_a_person_costs_no_time(tmp_path: Path) -> None:
    """An approval after a week does not use up a budget of seconds."""
    clock = ManualClock()
    limits, policy = Limits(time_budget_s=10), Policy(approvals=("notes.*",))
    with World(tmp_path, ONE_STEP, limits=limits, policy=policy, clock=clock) as world:
        run = world.run()
        clock.us += 7 * 86_400 * 1_000_000
        result = world.engine.resume(run.run_id, answer={"approve": True})
        assert (result.state, result.usage.seconds) == ("Done", 0.0)


def test_a_budget_that_is_used_up_with_all_criteria_met_is_done(tmp_path: Path) -> None:
    """What was wanted is there; only the review could not be paid any more."""
    met = REFINE("continue", criteria=[MET("names the day")])
    with World(tmp_path, paid([*READ(1), met]), limits=Limits(token_budget=300)) as world:
        result = world.run("Read", ["names the day"])
        assert (result.state, result.reason) == ("Done", "criteria_met")
        assert world.triggers[-2:] == ["conclude", "finish"]
        assert result.answer


def test_a_budget_used_up_by_parameters_with_criteria_met_before_is_done(tmp_path: Path) -> None:
    """The criteria were met in an earlier iteration: a retry that runs out of money takes nothing back."""
    met = REFINE("stop", criteria=[MET("names the day")])
    script = paid([*READ(1), met, REVIEW("retry", "say more"), *READ(2)])
    with World(tmp_path, script, limits=Limits(token_budget=600)) as world:
        result = world.run("Read", ["names the day"])
        assert (result.state, result.reason) == ("Done", "token_budget")
        assert world.model.kinds[-1] == "parameters"
        assert replay(world.journal, world.run_id).identical


# -- steps -------------------------------------------------------------------------------------------------------


def test_A019_a_successful_review_after_max_steps_is_done(tmp_path: Path) -> None:
    """max_steps ends nothing by itself: the review says whether what there is suffices; the reason tells."""
    with World(tmp_path, [*steps(3, CONTINUE), SUCCESS], limits=Limits(max_steps=3)) as world:
        result = world.run()
        assert (result.state, result.reason, result.steps) == ("Done", "max_steps", 3)


def test_a_retry_after_max_steps_fails_with_that_reason(tmp_path: Path) -> None:
    """There is no step left to retry with."""
    script = [*steps(2, CONTINUE), REVIEW("retry", "read page 3")]
    with World(tmp_path, script, limits=Limits(max_steps=2)) as world:
        result = world.run()
        assert (result.state, result.reason) == ("Failed", "max_steps")
        assert "step limit" in result.answer


def test_refused_and_blocked_calls_are_steps_too(tmp_path: Path) -> None:
    """What counts is what was selected, so that a run of refusals ends as well."""
    bad = [SELECT(), PARAMETERS(page="x"), PARAMETERS(page="y"), CONTINUE]
    limits = Limits(max_steps=2, max_consecutive_refused=9)
    with World(tmp_path, [*bad, *bad, REVIEW("failed")], limits=limits) as world:
        result = world.run()
        assert (result.steps, world.count("refuse"), world.count("execute")) == (2, 2, 0)


@pytest.mark.parametrize("steps_max", [0, -1, 1_000_001, 2.5, "many", None])
def test_A072_max_steps_is_validated(steps_max: Any) -> None:
    """Zero is refused at construction, and so is everything that is not a whole number within the ceiling."""
    with pytest.raises(UsageError, match=r"^Limits: max_steps: must be "):
        Limits(max_steps=steps_max)


@pytest.mark.parametrize(
    "values",
    [
        {"token_budget": 0},
        {"time_budget_s": 0},
        {"time_budget_s": float("nan")},
        {"cost_budget": -1},
        {"cost_budget": float("inf")},
        {"max_blocked_calls": 0},
        {"consecutive_limit": 1},
        {"window_freq_limit": 10_001},
        {"observation_chars": 399},
        {"no_such_limit": 1},
    ],
    ids=short,
)
def test_a_limit_that_bounds_nothing_is_refused(values: Mapping[str, Any]) -> None:
    """A loop without a bound is a bug, and so is a misspelt limit."""
    with pytest.raises(UsageError, match=f"^Limits: .*{next(iter(values))}"):
        Limits(**values)


class Unprintable:
    """A value of a host's own that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("kind", "values", "told"),
    [
        (Limits, {"max_steps": 0}, "Limits: max_steps: must be greater than or equal to 1, not 0"),
        (Limits, {"max_step": 3}, "Limits: unknown field 'max_step'; did you mean max_steps?"),
        (Limits, {"max_steps": 0, "previews": -1}, "not 0; previews: must be greater"),
        (Limits, dict.fromkeys(list(Limits.model_fields)[:7], -1), "; and 2 more"),
        (Limits, {"max_steps": "x" * 500}, "xxx..."),
        (Limits, {"max_steps": Unprintable()}, "not a value of type Unprintable"),
        (Policy, {"deny": "crm.delete"}, "Policy: deny: must be a list, not 'crm.delete'"),
        (Policy, {"deny": [""]}, "Policy: deny.0: string should have at least 1 character, not ''"),
        (Policy, {"zz": ()}, "Policy: unknown field 'zz'; there are: allow, deny, "),
    ],
    ids=["range", "name", "two", "many", "long", "unprintable", "policy", "empty", "policy_name"],
)
def test_a_bad_limit_or_policy_is_one_line(kind: Any, values: dict[str, Any], told: str) -> None:
    """What a host set wrongly is an error of paor's own tree that says field, rule and value."""
    with pytest.raises(UsageError) as caught:
        kind(**values)
    assert isinstance(caught.value, ValueError)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


# -- no improvement ------------------------------------------------------------------------------------------------


def scored(*scores: float | None) -> list[Any]:
    """Return iterations whose refinements carry these scores and always go on."""
    replies: list[Any] = []
    for page, score in enumerate(scores, 1):
        replies += [*READ(page), CONTINUE | ({} if score is None else {"score": score})]
    return replies


@pytest.mark.parametrize(
    ("scores", "stops_after"),
    [
        ((0.5, 0.5, 0.5, 0.9), 3),
        ((0.5, 0.4, 0.3, 0.9), 3),
        ((0.5, 0.4, 0.6, 0.6, 0.5), 5),
        ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), None),
        ((None, None, None, None, None, None), None),
        ((0.5, None, 0.5, None, 0.5, None), None),
        ((0.5, 0.5, None, 0.5, 0.5), 5),
        ((0, 0, 0), 3),
        ((-1, -0.5, -0.6, -0.5), 4),
    ],
    ids=short,
)
def test_A018_scores_that_do_not_rise_stop_the_run(
    tmp_path: Path, scores: tuple[float | None, ...], stops_after: int | None
) -> None:
    """Two in a row without a gain over the best so far; a refinement without a score breaks the row."""
    script = scored(*scores)
    if stops_after is not None:
        script = [*script[: 3 * stops_after], SUCCESS]
    with World(tmp_path, script, limits=Limits(max_steps=50)) as world:
        result = world.run()
        if stops_after is None:
            assert (result.reason, result.steps) == ("model_error", len(scores)), (
                "went on to the script's end"
            )
        else:
            assert (result.state, result.reason, result.steps) == ("Done", "no_improvement", stops_after)


def test_A018_a_gain_of_a_millionth_counts(tmp_path: Path) -> None:
    """Scores are compared as whole millionths, so that no float is in a row."""
    with World(
        tmp_path, [*scored(0.5, 0.500001, 0.500002), STOP], limits=Limits(no_improvement_limit=1)
    ) as world:
        assert world.run().steps == 3
    below = [*scored(0.5, 0.5000001), SUCCESS]
    with World(tmp_path / "other", below, limits=Limits(no_improvement_limit=1)) as world:
        assert world.run().reason == "no_improvement"


# -- retries of the completion review ----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_A041_completion_reviews_that_say_retry_are_counted(tmp_path: Path, limit: int) -> None:
    """Up to max_retries the run goes on with the improvements; the next one is Failed(retries_exhausted)."""
    script: list[Any] = []
    for page in range(1, limit + 2):
        script += [*READ(page), STOP, REVIEW("retry", f"read page {page + 1} too")]
    with World(tmp_path, script, limits=Limits(max_steps=50, max_retries=limit)) as world:
        result = world.run()
        assert (result.state, result.reason) == ("Failed", "retries_exhausted")
        assert world.rows[-1].retries == limit
        assert world.count("retry") == limit
        for page, call in enumerate(world.model.of("selection")[1:], 1):
            assert f"read page {page + 1} too" in sections(call)["Improvements asked for"]


# -- errors and refusals in a row ----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_calls_refused_for_their_parameters_in_a_row_are_stuck(tmp_path: Path, limit: int) -> None:
    """Invalid and unsafe ones alike; nothing was executed."""
    invalid = [SELECT(), PARAMETERS(page="x"), PARAMETERS(page="y"), CONTINUE]
    url = {"text": "http://127.0.0.1/"}
    unsafe = [SELECT("notes.send", {"text": "string"}), PARAMETERS(**url), PARAMETERS(**url), CONTINUE]
    script = [*invalid, *unsafe, *invalid]
    with World(tmp_path, script, limits=Limits(max_steps=50, max_consecutive_refused=limit)) as world:
        result = world.run()
        assert (result.state, result.reason, result.steps) == ("Failed", "stuck", limit)
        assert world.count("execute") == 0


def test_an_executed_call_breaks_the_row_of_refusals(tmp_path: Path) -> None:
    """The model has found its way again."""
    invalid = [SELECT(), PARAMETERS(page="x"), PARAMETERS(page="y"), CONTINUE]
    script = [*invalid, *invalid, *READ(1), CONTINUE, *invalid, *invalid[:-1], STOP, SUCCESS]
    with World(tmp_path, script, limits=Limits(max_steps=50)) as world:
        assert world.run().state == "Done"
        assert world.count("refuse") == 4


# -- asking again ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_selection_retries_can_be_set(tmp_path: Path, limit: int) -> None:
    """Asked 1 + selection_retries times, then Failed(selection_invalid)."""
    with World(tmp_path, ["nothing"] * 9, limits=Limits(selection_retries=limit)) as world:
        result = world.run()
        assert (result.state, result.reason, result.steps) == ("Failed", "selection_invalid", 0)
        assert world.model.kinds == ["selection"] * (1 + limit)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_parameter_retries_can_be_set(tmp_path: Path, limit: int) -> None:
    """Asked 1 + parameter_retries times, then the call is refused and observed; the run goes on."""
    script = [SELECT(), *[PARAMETERS(page="x")] * (1 + limit), STOP, SUCCESS]
    with World(tmp_path, script, limits=Limits(parameter_retries=limit)) as world:
        assert world.run().state == "Done"
        assert world.model.kinds.count("parameters") == 1 + limit
        assert observation(world)["notes"][0].startswith("invalid_parameters: ")
        assert "Your last reply could not be used" not in sections(world.model.of("parameters")[0])
        for call in world.model.of("parameters")[1:]:
            assert "page" in sections(call)["Your last reply could not be used"]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_review_retries_can_be_set(tmp_path: Path, limit: int) -> None:
    """Both judgements are asked 1 + review_retries times; an invalid review at last is Failed(review_failed)."""
    script = [*READ(1), *["what?"] * (1 + limit), *["well."] * (1 + limit)]
    with World(tmp_path, script, limits=Limits(review_retries=limit)) as world:
        result = world.run()
        assert (result.state, result.reason) == ("Failed", "review_failed")
        assert world.model.kinds.count("refinement") == world.model.kinds.count("review") == 1 + limit
        assert result.answer
