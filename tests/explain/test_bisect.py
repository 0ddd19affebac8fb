"""Bisect: of all settings that two versions or two runs differ in, the one that makes the difference is named, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, Machine, ModelCall, Phase, Policy, ScriptedModel, Tool, diff, tool
from paor.audit import Bisection, TrialFinding, backtest, bisect, bisect_runs
from paor.machine import GuardContext
from paor.prompts.clients.prices import Price
from paor.testing import call_tools, step

from ..support.journeys import BY_NAME, Journey, play
from ..support.worlds import JOURNAL, SELECT, TOOLS, template
from .inside import apart, parts_between, spec_places

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


def a_noise(case: GuardContext) -> bool:
    """It always holds, too, and its name comes first."""
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


def escaping(before: str | None = "proceed") -> Machine:
    """Return a machine that may stop after the first step."""
    return Machine.standard().row(
        "Reviewing", "escape", "Failed", when="steps_left", before=before, at_most=1
    )


class Recorded:
    """The settings that a run was recorded with."""

    model = None
    never = ()

    def trial_spec(self, spec: Any) -> Any:
        """Return *spec* as it is."""
        return spec

    def machine_for(self, spec: Any) -> None:
        """Return None: it is the standard one."""


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
LONG = "Be brief, " * 20
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
    Planted("two_pages", {"machine": requiring("finish", a_noise)}, {"machine": requiring("finish", never)}, "guard", "never", 10),
    Planted("two_pages", {"machine": requiring("finish", never)}, {"machine": requiring("finish", a_noise)}, "guard", "never", 10),
    Planted("two_pages", NOTHING, {"machine": requiring("finish", a_noise).require("finish", never)}, "guard", "never", 10),
    Planted("two_pages", {"machine": requiring("select", a_noise)}, {"machine": requiring("select", never)}, "guard", "never", 0),
    Planted("two_pages", NOTHING, {"machine": escaping().require("retry", noise)}, "row", "Reviewing.escape", 4),
    Planted("two_pages", {"machine": escaping(None)}, {"machine": escaping().require("retry", noise)}, "row order", "Reviewing", 4),
    Planted("two_pages", {"rules": ["Be kind.", "Be exact."]}, {"rules": ["Be exact.", "Be kind."], **limits(max_plans=3)}, "prompt line", "rules: order", 0),
    Planted("two_pages", {"rules": [f"{LONG}kind."]}, {"rules": [f"{LONG}kind.", f"{LONG}rude."]}, "prompt line", f"rules: {LONG}rude.", 0),
    Planted("two_pages", NOTHING, {"machine": checking().require("retry", noise)}, "phase", "Checking", 10),
    Planted("two_pages", NOTHING, {"tools": without("notes.read")}, "tool schema", "notes.read", 0),
    Planted("two_pages", NOTHING, {"tools": changed("notes.read", parameters={"type": "object", "properties": {"page": {"type": "integer", "maximum": 1}}})}, "tool schema", "notes.read", 6),
    Planted("two_pages", NOTHING, {"tools": changed("notes.send", description="Send it.")}, "tool schema", "notes.send", 0),
    Planted("two_pages", NOTHING, {"instructions": "Be brief."}, "prompt line", "instructions, line 1", 0),
    Planted("two_pages", {"instructions": f"Be good.{LATE}"}, {"instructions": f"Be good.{LATE.replace('kind', 'rude')}"}, "prompt line", "instructions, line 3", 0),
    Planted("two_pages", NOTHING, {"prompts": {"parameters": template("parameters", "\nBe brief.")}}, "prompt line", "parameters, line ", 1),
    Planted("two_pages", limits(cost_budget=0.5) | {"model": silent(1_000)}, limits(cost_budget=0.5) | {"model": silent(900_000_000)}, "price", "scripted", 5),
    Planted("two_pages", {"never": ["notes.send"]}, {"never": ["notes.fail", "Done without ever notes.send"]}, "never", "Done without ever notes.send", 10),
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
    "planted", PLANTED, ids=[f"{item.part} {item.name[:40]} {number}" for number, item in enumerate(PLANTED)]
)
def test_a_planted_difference_of_two_engines_is_named(
    planted: Planted, journals: Callable[[str], Journal]
) -> None:
    """With its row; other differences of the engines that do nothing here are left out."""
    found = compared(journals(planted.journey), planted.one, planted.two)
    assert (found.differs, found.seq) == (True, planted.seq), found
    assert len(found.parts) == 1 and found.was != found.now
    assert (found.parts[0].part, found.parts[0].name[: len(planted.name)]) == (planted.part, planted.name)


def test_settings_that_do_nothing_here_differ_in_nothing(journals: Callable[[str], Journal]) -> None:
    """Whatever they are; and no planted difference is lost."""
    assert len(PLANTED) == 38
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


@pytest.mark.parametrize(
    "planted", PLANTED, ids=[f"{item.part} {item.name[:40]} {number}" for number, item in enumerate(PLANTED)]
)
def test_each_place_at_which_two_specs_differ_is_named_once_and_all_of_them_make_the_other(
    planted: Planted, journals: Callable[[str], Journal]
) -> None:
    """For a bisection, which changes it, and for the difference of two runs, which names it as a part."""
    journal = journals(planted.journey)
    spec = journal.reader.spec(journal.runs()[0].run_id)
    usual: Options = {"model": Silent([]), "tools": TOOLS, "builtins": False, "journal": ":memory:"}
    with Engine(**{**usual, **planted.one}) as first, Engine(**{**usual, **planted.two}) as second:
        one, two = first.trial_spec(spec), second.trial_spec(spec)
    places, mixed = list(spec_places(one, two)), one
    for place in places:
        assert place.left != place.right
        mixed = place.put(mixed, place.right)
    assert list(spec_places(mixed, two)) == [] and list(spec_places(two, two)) == []
    assert len({place.name for place in places}) == len(places)
    held = [one.model_copy(update={"values": values}) for values in ({"b": None}, {"a": 1}, {"a": None}, {})]
    for before, after in permutations(held, 2):
        made = before
        for place in spec_places(before, after):
            made = place.put(made, place.right)
        assert made == after
    named = {part.name.partition(":")[0] for part in parts_between(one, two) if part.cause != "machine"}
    hosts = {"host_machine", "phase_tools", "machine", "fingerprints"}
    assert named - hosts == {place.name for place in places} - hosts
    assert places or planted.part in ("price", "never") or one == two


class Fickle(Recorded):
    """Settings that deny everything the first time only, and keep more previews after it."""

    def __init__(self) -> None:
        self.asked = 0

    def trial_spec(self, spec: Any) -> Any:
        """Return *spec* with other settings than the last time."""
        self.asked += 1
        policy = Policy(deny=("*",)) if self.asked == 1 else spec.policy
        return spec.model_copy(
            update={"policy": policy, "limits": spec.limits.model_copy(update={"previews": 3})}
        )


def test_settings_that_do_not_make_the_difference_are_not_named(journals: Callable[[str], Journal]) -> None:
    """Where no mixture of both sides does what the second has done, nothing is said of the settings."""
    found = bisect(Recorded(), Fickle(), journals("two_pages"))
    assert (found.seq, found.parts) == (0, ()) and found.was != found.now


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


# -- long texts ------------------------------------------------------------------------------------------------------

LEAD = "This much is said of it, whoever asks. " * 10


def closing(**phase: Any) -> Options:
    """Return a machine with one more phase before it is Done."""
    machine = (
        Machine.standard()
        .phase(Phase("Closing", **phase))
        .row("Reviewing", "close", "Closing", when="review_success", before="finish")
        .row("Closing", "finish", "Done", when="succeeded")
        .row("Closing", "give_up", "Failed")
    )
    return {"machine": machine}


def closing_question(end: str) -> Options:
    """Return one that asks a person."""

    def asked(context: GuardContext) -> str:
        return f"{LEAD}{end}"

    return closing(question=asked, answer={"type": "object"})


def sending(end: str) -> Options:
    """Return one that calls a tool."""
    return closing(tool="notes.send", arguments={"text": f"{LEAD}{end}"})


def described(end: str) -> Options:
    """Return the tools of a native run, one of which has a long description."""
    tools = [
        replace(item, description=f"{LEAD}{end}") if item.name == "notes.send" else item for item in TOOLS
    ]
    return {"profile": "native", "tools": tools}


NATIVE = replace(USUAL, run={}, replies=[call_tools(step("notes.read", page=1)), "Page 1 is read."])
LONG_TEXTS: dict[str, tuple[Callable[[str], Options], Journey]] = {
    "a line of a prompt": (lambda end: {"instructions": f"{LEAD}{end}"}, USUAL),
    "a question": (closing_question, replace(USUAL, answers=[{"answer": {}}])),
    "what a row sets": (sending, USUAL),
    "a tool of a native turn": (described, NATIVE),
}


def recorded(place: str, end: str, folder: Path) -> Journal:
    """Return the journal of the journey with such a text."""
    change, journey = LONG_TEXTS[place]
    options = change(end)
    tools = options.pop("tools", TOOLS)
    return played(replace(journey, options=options, tools=lambda: tools), folder / end)


def parted(was: str, now: str, found: TrialFinding | Bisection) -> bool:
    """Whether a difference shows where the texts part, and little else."""
    return was in found.was and now in found.now and max(len(found.was), len(found.now)) < 180


@pytest.mark.parametrize("place", LONG_TEXTS)
def test_long_texts_are_shown_from_where_two_engines_part(place: str, tmp_path: Path) -> None:
    """By a back-test and by a bisection, of which both sides part from the record at the same place."""
    usual: Options = {"model": Silent([]), "tools": TOOLS, "builtins": False, "journal": ":memory:"}
    change, _ = LONG_TEXTS[place]
    with recorded(place, "first", tmp_path) as journal:
        assert journal.runs()[0].state == "Done"
        with Engine(**{**usual, **change("second")}) as engine:
            found = list(backtest(engine, journal))
        assert found and all(parted("first", "second", item) for item in found if item.kind != "unknown")
        assert parted("second", "third", compared(journal, change("second"), change("third")))


@pytest.mark.parametrize("place", LONG_TEXTS)
def test_two_engines_that_part_from_a_record_alike_and_then_from_one_another_differ(
    place: str, tmp_path: Path
) -> None:
    """Though what is shown of each is the same: what is compared is the whole text."""
    change, _ = LONG_TEXTS[place]
    with recorded(place, "first", tmp_path) as journal:
        sides = [change(f"now {LEAD}{end}") for end in ("second", "third")]
        assert compared(journal, *sides).parts
        assert not compared(journal, sides[0], change(f"now {LEAD}second")).differs


@pytest.mark.parametrize("place", [place for place, (_, journey) in LONG_TEXTS.items() if journey != NATIVE])
def test_long_texts_are_shown_from_where_two_runs_part(place: str, tmp_path: Path) -> None:
    """By their difference and by a bisection."""
    with recorded(place, "first", tmp_path) as one, recorded(place, "second", tmp_path) as two:
        good, bad = (journal.runs()[0].run_id for journal in (one, two))
        assert parted("first", "second", bisect_runs(one, good, bad, two))
        told = diff(one, good, bad, two)
    assert "first" in told.left.text and "second" in told.right.text
    assert max(len(told.left.text), len(told.right.text)) < 180


@given(st.text("ab \n", max_size=200), st.integers(1, 30), *[st.text("ab \n", max_size=300)] * 2)
def test_two_texts_that_differ_are_shown_as_two_lines_that_differ(
    same: str, times: int, one: str, two: str
) -> None:
    """However long what they have in common is; blanks count as one where something else differs."""
    before, after = same * times + one, same * times + two
    texts = [" ".join(text.split()) for text in (before, after)]
    lines = apart(before, after)
    assert (lines[0] != lines[1]) is (before != after)
    assert all(len(line) <= 163 and "\n" not in line for line in lines)
    assert max(map(len, texts)) > 120 or texts[0] == texts[1] or [*lines] == texts
    assert apart(1, "1") == ("1", "'1'")
