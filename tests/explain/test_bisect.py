"""Bisect: of all settings that two versions or two runs differ in, the one that makes the difference is named, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paor import Engine, Journal, Limits, Machine, ModelCall, Phase, Policy, ScriptedModel, Tool, tool
from paor.audit import Bisection, bisect, bisect_runs
from paor.machine import GuardContext
from paor.prompts.clients.prices import Price

from ..support.journeys import BY_NAME, Journey, play
from ..support.worlds import JOURNAL, SELECT, TOOLS, template

Options = dict[str, Any]


class Silent(ScriptedModel):
    """A model that must not be asked, with a price."""

    price: Price | None = None

    def ask(self, call: ModelCall) -> Any:
        raise AssertionError("a bisection asks nobody")


def silent(price: int) -> Silent:
    """Return one that costs *price* for a million tokens."""
    model = Silent([])
    model.price = Price(price, price, price, price)
    return model


def inert(item: Tool, **changes: Any) -> Tool:
    """Return a tool that must not be called, with other values of what a model is told."""

    def forbidden(**arguments: Any) -> str:
        raise AssertionError("a bisection calls nothing")

    names = ("name", "description", "parameters", "effect", "label", "repeat_allowed", "retries")
    return Tool(run=forbidden, **({name: getattr(item, name) for name in names} | changes))


def without(name: str) -> list[Tool]:
    """Return the tools but for one."""
    return [inert(item) for item in TOOLS if item.name != name]


def changed(name: str, **changes: Any) -> list[Tool]:
    """Return the tools, one of them with other values."""
    return [inert(item, **(changes if item.name == name else {})) for item in TOOLS]


def first_page(case: GuardContext) -> bool:
    """Only the first page may be read."""
    return case.call is None or case.call.arguments.get("page", 1) == 1


def any_page(case: GuardContext) -> bool:
    """Any page may be read."""
    return True


any_page.__name__ = "first_page"


def never(case: GuardContext) -> bool:
    """It never is."""
    return False


def noise(case: GuardContext) -> bool:
    """It always holds."""
    return True


def requiring(trigger: str, guard: Callable[[GuardContext], bool]) -> Machine:
    """Return the standard machine with a guard."""
    return Machine.standard().require(trigger, guard)


def checking() -> Machine:
    """Return a machine that calls a tool before it is Done."""
    return (
        Machine.standard()
        .phase(Phase("Checking", tool="notes.read", arguments={"page": 1}))
        .row("Reviewing", "check", "Checking", when="review_success", before="finish")
        .row("Checking", "finish", "Done", when="succeeded")
        .row("Checking", "give_up", "Failed")
    )


def escaping() -> Machine:
    """Return a machine that may stop after the first step."""
    return Machine.standard().row(
        "Reviewing", "escape", "Failed", when="steps_left", before="proceed", at_most=1
    )


class Planted(NamedTuple):
    """
    A difference of two engines.

    Attributes:
        journey: The recorded run.
        one, two: Options of the engines.
        part, name: What is to be named.
        seq: The row.
    """

    journey: str
    one: Options
    two: Options
    part: str
    name: str
    seq: int


def limits(**values: Any) -> Options:
    """Return the option."""
    return {"limits": Limits(**values)}


def policy(**values: Any) -> Options:
    """Return the option."""
    return {"policy": Policy(**values)}


LATE = "\nBe brief.\nBe kind.\nBe exact."
NOTHING: Options = {}
PLANTED = (
    Planted("two_pages", NOTHING, policy(deny=("notes.fail", "notes.read")), "policy rule", "policy.deny: notes.read", 0),
    Planted("two_pages", policy(deny=("notes.read", "notes.fail")), policy(deny=("notes.fail",)), "policy rule", "policy.deny: notes.read", 0),
    Planted("two_pages", NOTHING, policy(allow=("notes.send",)), "policy rule", "policy.allow: notes.send", 0),
    Planted("two_pages", NOTHING, policy(approvals=("notes.send", "notes.read")), "policy rule", "policy.approvals: notes.read", 1),
    Planted("approved", policy(approvals=("notes.send",)), NOTHING, "policy rule", "policy.approvals: notes.send", 1),
    Planted("two_pages", NOTHING, limits(max_steps=1, max_plans=3), "limit", "limits.max_steps", 4),
    Planted("reselected", NOTHING, limits(selection_retries=0, previews=3), "limit", "limits.selection_retries", 0),
    Planted("respecified", NOTHING, limits(parameter_retries=0, previews=3), "limit", "limits.parameter_retries", 1),
    Planted("reassessed", NOTHING, limits(review_retries=0, window_size=4), "limit", "limits.review_retries", 4),
    Planted("retried_run", NOTHING, limits(max_retries=0, note_chars=40), "limit", "limits.max_retries", 5),
    Planted("tool_error", NOTHING, limits(max_consecutive_errors=1, max_plans=3), "limit", "limits.max_consecutive_errors", 4),
    Planted("two_pages", NOTHING, limits(token_budget=300, max_plans=3), "limit", "limits.token_budget", 4),
    Planted("blocked", limits(consecutive_limit=2), limits(consecutive_limit=3), "limit", "limits.consecutive_limit", 6),
    Planted("no_improvement", NOTHING, limits(no_improvement_limit=1), "limit", "limits.no_improvement_limit", 9),
    Planted("answered", NOTHING, limits(completion_review="model", max_plans=3), "limit", "limits.completion_review", 1),
    Planted("approved", policy(approvals=("notes.send",)), policy(approvals=("notes.send",)) | limits(max_elicitations=1), "limit", "limits.max_elicitations", 8),
    Planted("two_pages", NOTHING, {"machine": requiring("specify", first_page)}, "guard", "first_page", 6),
    Planted("two_pages", {"machine": requiring("specify", first_page)}, NOTHING, "guard", "first_page", 6),
    Planted("two_pages", {"machine": requiring("specify", any_page)}, {"machine": requiring("specify", first_page)}, "guard", "first_page", 6),
    Planted("two_pages", NOTHING, {"machine": requiring("finish", never).require("retry", noise)}, "guard", "never", 10),
    Planted("two_pages", NOTHING, {"machine": requiring("select", never)}, "guard", "never", 0),
    Planted("two_pages", NOTHING, {"machine": escaping().require("retry", noise)}, "row", "Reviewing.escape", 4),
    Planted("two_pages", NOTHING, {"machine": checking().require("retry", noise)}, "phase", "Checking", 10),
    Planted("two_pages", NOTHING, {"tools": without("notes.read")}, "tool schema", "notes.read", 0),
    Planted("two_pages", NOTHING, {"tools": changed("notes.read", parameters={"type": "object", "properties": {"page": {"type": "integer", "maximum": 1}}})}, "tool schema", "notes.read", 6),
    Planted("two_pages", NOTHING, {"tools": changed("notes.send", description="Send it.")}, "tool schema", "notes.send", 0),
    Planted("two_pages", NOTHING, {"instructions": "Be brief."}, "prompt line", "instructions, line 1", 0),
    Planted("two_pages", {"instructions": f"Be good.{LATE}"}, {"instructions": f"Be good.{LATE.replace('kind', 'rude')}"}, "prompt line", "instructions, line 3", 0),
    Planted("two_pages", NOTHING, {"prompts": {"parameters": template("parameters", "\nBe brief.")}}, "prompt line", "parameters, line ", 1),
    Planted("two_pages", limits(cost_budget=0.5) | {"model": silent(1_000)}, limits(cost_budget=0.5) | {"model": silent(900_000_000)}, "price", "scripted", 5),
)  # fmt: skip


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Journal]]:
    """Return what gives the journal of a journey, each recorded once and opened for reading only."""
    folder, known = tmp_path_factory.mktemp("bisect"), dict[str, Journal]()

    def journal(name: str) -> Journal:
        if name not in known:
            (folder / name).mkdir()
            with BY_NAME[name].engine(folder / name) as scripted:
                play(BY_NAME[name], scripted)
            known[name] = Journal(folder / name / JOURNAL, read_only=True)
        return known[name]

    yield journal
    for opened in known.values():
        opened.close()


def compared(journal: Journal, one: Options, two: Options) -> Bisection:
    """Return the bisection of two engines that may ask and call nothing."""
    usual: Options = {"model": Silent([]), "tools": [inert(item) for item in TOOLS], "builtins": False}
    with (
        Engine(**{**usual, **one}, journal=Journal(":memory:")) as first,
        Engine(**{**usual, **two}, journal=Journal(":memory:")) as second,
    ):
        return bisect(first, second, journal)


@pytest.mark.parametrize(
    "planted", PLANTED, ids=[f"{item.part} {item.name} {number}" for number, item in enumerate(PLANTED)]
)
def test_a_planted_difference_of_two_engines_is_named(
    planted: Planted, journals: Callable[[str], Journal]
) -> None:
    """With its row; other differences of the engines that do nothing here are left out. Thirty of them."""
    found = compared(journals(planted.journey), planted.one, planted.two)
    assert (found.differs, found.seq) == (True, planted.seq), found
    assert len(found.parts) == 1 and found.was != found.now
    assert (found.parts[0].part, found.parts[0].name[: len(planted.name)]) == (planted.part, planted.name)


def test_thirty_are_planted(journals: Callable[[str], Journal]) -> None:
    """And the same settings differ in nothing, whatever else differs."""
    assert len(PLANTED) == 30
    other = {"machine": requiring("retry", noise), **limits(max_plans=3), **policy(deny=("web.*",))}
    found = compared(journals("two_pages"), NOTHING, other)
    assert not found.differs and found == Bisection() and found.wire()["seq"] is None


def test_two_settings_that_only_together_make_a_difference_are_both_named(
    journals: Callable[[str], Journal],
) -> None:
    """A limit on its own changes nothing here, nor does a guard."""

    def few_steps(case: GuardContext) -> bool:
        """Few steps are allowed."""
        return case.limits.max_plans > 10

    def any_steps(case: GuardContext) -> bool:
        """Any number of steps is allowed."""
        return True

    any_steps.__name__ = "few_steps"
    one = {"machine": requiring("specify", any_steps)}
    two = {
        "machine": requiring("specify", few_steps).require("retry", noise),
        **limits(max_plans=3, previews=2),
    }
    found = compared(journals("two_pages"), one, two)
    assert (found.seq, {(item.part, item.name) for item in found.parts}) == (
        1,
        {("guard", "few_steps"), ("limit", "limits.max_plans")},
    )


def test_of_two_prompts_that_both_differ_from_the_recorded_one_the_line_is_named(
    journals: Callable[[str], Journal],
) -> None:
    """Where a decision differs, too, that is what counts."""
    one, two = ({"instructions": f"Be good.\nBe {word}."} for word in ("kind", "rude"))
    found = compared(journals("two_pages"), one, two)
    assert (found.row, found.was, found.now) == ("Planning.select", "Be kind.", "Be rude.")
    assert (
        compared(journals("two_pages"), one, {**two, **limits(max_steps=1)}).parts[0].name
        == "limits.max_steps"
    )


# -- two runs ------------------------------------------------------------------------------------------------------


@tool("notes.read", effect="idempotent", label="page")
def other_read(page: int) -> str:
    """Read one page of the notes."""
    return f"Page {page} is gone."


USUAL = BY_NAME["two_pages"]
APPROVED = BY_NAME["approved"]
DECLINED = [{"answer": {"action": "decline"}}, {"answer": {"action": "decline"}}]
LESS = {**limits(max_steps=2, max_retries=1, previews=2), **policy(deny=("web.*",))}
RUNS: tuple[tuple[Journey, Journey, str, str, int], ...] = (
    (USUAL, replace(USUAL, replies=[*USUAL.replies[:4], SELECT("notes.fail")]), "model reply", "scripted", 6),
    (USUAL, replace(USUAL, tools=lambda: (other_read, *TOOLS[1:])), "tool result", "notes.read", 2),
    (APPROVED, replace(APPROVED, answers=DECLINED), "answer", "outcome.action", 2),
    (USUAL, replace(USUAL, options=limits(max_steps=1, previews=2)), "limit", "limits.max_steps", 4),
    (replace(USUAL, options={"instructions": "Be good."}), replace(USUAL, options={"instructions": "Be bad.", **LESS}), "prompt line", "instructions, line 1", 0),
    (USUAL, replace(USUAL, tools=lambda: changed("notes.send", description="Send it.")), "tool schema", "notes.send", 0),
    (replace(APPROVED, options=policy(approvals=("notes.send",))), replace(APPROVED, options=policy(approvals=("*.lose",), missing_ok=True), answers=()), "policy rule", "policy.approvals: notes.send", 1),
    (USUAL, replace(USUAL, run={"success_criteria": ["every page is read"]}), "setting", "success_criteria", 0),
    (USUAL, replace(USUAL, options={"machine": requiring("specify", first_page).require("retry", noise)}), "guard", "first_page", 6),
)  # fmt: skip


def played(journey: Journey, folder: Path) -> Journal:
    """Return the journal of a journey, whatever becomes of it."""
    folder.mkdir()
    with journey.engine(folder) as scripted:
        try:
            play(journey, scripted)
        except AssertionError:
            assert scripted.journal.runs(), "it has begun"
    return Journal(folder / JOURNAL, read_only=True)


@pytest.mark.parametrize(
    ("good", "bad", "part", "name", "seq"), RUNS, ids=[f"{item[2]} {item[3]}" for item in RUNS]
)
def test_what_makes_two_runs_differ_is_named(
    good: Journey, bad: Journey, part: str, name: str, seq: int, tmp_path: Path
) -> None:
    """A setting is what cannot be left out of all in which the runs differ; what came from outside is its own cause."""
    with played(good, tmp_path / "good") as one, played(bad, tmp_path / "bad") as two:
        found = bisect_runs(one, one.runs()[0].run_id, two.runs()[0].run_id, two)
        assert bisect_runs(one, one.runs()[0].run_id, one.runs()[0].run_id) == Bisection()
    assert (found.seq, [(item.part, item.name[: len(name)]) for item in found.parts]) == (
        seq,
        [(part, name)],
    ), found
