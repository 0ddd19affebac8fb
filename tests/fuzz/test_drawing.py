"""What the testing kit draws: as often as its weights say, far enough, and nothing where nothing fits."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, Policy, Question, Tool, tool
from paor.fuzz import (
    EngineMachine,
    Said,
    Setting,
    World,
    answers,
    arguments,
    families,
    near_misses,
    replies,
    search,
)
from paor.fuzz.strategies.json_schema import weighted
from paor.fuzz.strategies.outcomes import tighter
from paor.fuzz.strategies.replies import calls_again
from paor.states.records.questions import QuestionRecord
from paor.states.run.spec import ToolSpec


def drawn_from(strategy: st.SearchStrategy[Any]) -> list[Any]:
    """Return a few hundred values; many at a time, since of small choices hypothesis draws each once."""
    drawn: list[Any] = []

    @settings(max_examples=20, database=None, phases=[Phase.generate], derandomize=True)
    @given(st.lists(strategy, min_size=30, max_size=30))
    def draw(values: list[Any]) -> None:
        drawn.extend(values)

    draw()
    return drawn


def test_weights_are_kept() -> None:
    """Hypothesis's own choice counts a strategy that stands several times once, and a choice within as its parts."""
    drawn = drawn_from(weighted((8, st.just(0)), (1, st.integers(1, 3)), (0, st.just(9))))
    assert drawn.count(0) > len(drawn) * 0.7
    assert {1, 2, 3} & set(drawn)
    assert 9 not in drawn


def test_most_approvals_are_given() -> None:
    """Else no run gets to what happens after one."""
    drawn = drawn_from(answers(Question.of(QuestionRecord(kind="approval", message="May it?"), "r", 1)))
    assert drawn.count({"approve": True}) > len(drawn) * 0.45
    assert {"approve": False} in drawn


@pytest.mark.parametrize(
    ("bounds", "least", "most"), [({}, -90, 90), ({"minimum": 1}, 1, 90), ({"maximum": 5}, -90, 5)]
)
def test_numbers_without_a_bound_are_large_and_negative_too(
    bounds: dict[str, Any], least: int, most: int
) -> None:
    """An amount that nobody has means nothing to an agent that only ever sees small ones."""
    schema = {"properties": {"euros": bounds | {"type": "integer"}}, "required": ["euros"]}
    drawn = [values["euros"] for values in drawn_from(arguments(schema))]
    assert min(drawn) <= least
    assert max(drawn) >= most


PAGE = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
FAR = PAGE | {"properties": {"page": {"type": "integer", "minimum": 0, "maximum": 10**9}}}
READ, SAVE = ToolSpec(name="notes.read", parameters=PAGE), ToolSpec(name="notes.saveAll", parameters=PAGE)
MADE = (("notes.read", {"page": 71}), ("notes.read", {"page": 72}), ("notes.saveAll", {"page": 73}))


def test_any_call_of_the_run_is_made_again() -> None:
    """In a selection and its parameters, and in a native turn; a plan has no call but its own to repeat."""
    setting = Setting((READ, SAVE), tool=READ, parameters=PAGE, made=MADE)
    selections = [json.loads(said.text) for said in drawn_from(calls_again("selection", setting))]
    assert {data["action"] for data in selections} == {"notes.read", "notes.saveAll"}
    values = [json.loads(said.text) for said in drawn_from(calls_again("parameters", setting))]
    assert {data["parameters"]["page"] for data in values} == {71, 72}
    called = [step for said in drawn_from(replies("turn", setting, "select")) for step in steps_of(said)]
    for made in MADE:
        assert any((step["name"], step["args"]) == made for step in called)


@pytest.mark.parametrize("kind", ["plan", "turn"])
def test_a_call_stands_twice_in_one_reply(kind: str) -> None:
    """With arguments that would hardly be drawn twice by chance."""
    setting = Setting((ToolSpec(name="notes.read", parameters=FAR),))
    drawn = [steps_of(said) for said in drawn_from(replies(kind, setting, "select"))]
    pages = [[step["args"]["page"] for step in steps if _large(step)] for steps in drawn]
    assert any(len(set(numbers)) < len(numbers) for numbers in pages)


def steps_of(said: Said) -> list[dict[str, Any]]:
    """Return the calls of a plan or a turn, as far as they are known."""
    return list(said.means.get("steps", ()))


def _large(step: dict[str, Any]) -> bool:
    page = step["args"].get("page") if isinstance(step.get("args"), dict) else None
    return isinstance(page, int) and page > 1000


def test_denied_tools_are_drawn_in_several_spellings() -> None:
    setting = Setting((READ, SAVE), frozenset({"notes.saveAll"}))
    drawn = drawn_from(replies("selection", setting, "reselect"))
    denied = [said for said in drawn if said.good is False and said.means.get("action") == "notes.saveAll"]
    named = [json.dumps(json.loads(said.text)["action"]) for said in denied]
    assert len(named) > 60
    assert {'"notes.saveAll"', '"notes_saveAll"', '{"method": "notes", "name": "saveAll"}'} <= set(named)


@pytest.mark.parametrize(
    ("names", "least", "most"), [(["a.x", "b.x", "c.x"], 0.12, 0.4), (["a.x"], 0.01, 0.2)]
)
def test_a_policy_denies_more_in_many_runs(names: list[str], least: float, most: float) -> None:
    """In fewer where there is hardly anything else to do."""
    drawn = drawn_from(tighter(Policy(), names))
    assert len(drawn) * least < sum(bool(item and item["deny"]) for item in drawn) < len(drawn) * most


@pytest.mark.whole
def test_runs_make_a_call_again_that_is_not_their_last_one() -> None:
    """A rule about calls that are not in a row is else hardly reached; and the last one is repeated, too."""
    seen = {True: 0, False: 0}

    class Calls(EngineMachine):
        modes = ("react",)
        repro_folder = None
        vary_policy = vary_limits = False
        runs = 8

        def engine(self, journal: Journal) -> Engine:
            tools = [
                Tool(f"bank.{name}", "Move money.", FAR, lambda page: "done", effect="once")
                for name in ("pay", "take")
            ]
            return Engine("offline", tools, journal, Limits(max_steps=8), builtins=False)

        def teardown(self) -> None:
            for run in self.world.seen.values():
                for place, call in enumerate(run.calls):
                    if call in run.calls[:place] and len(call[1]) > len('{"page": 1000}'):
                        seen[call == run.calls[place - 1]] += 1
            super().teardown()

    assert search(Calls, examples=20, steps=60, number=1).violation is None
    assert min(seen.values()) >= 4, seen


@pytest.mark.whole
def test_a_bug_behind_an_approval_and_two_ids_is_found() -> None:
    """A transfer of a negative amount overdraws the account that gets it."""
    book: dict[str, int] = {}

    @tool("account.transfer", effect="idempotent")
    def transfer(source: str, target: str, euros: int) -> str:
        """Move money."""
        assert source in book and target in book and book[source] >= euros
        book[source] -= euros
        book[target] += euros
        return "moved"

    class Bank(EngineMachine):
        modes = ("react",)
        repro_folder = None
        values: ClassVar = {"source": ["ann", "bob"], "target": ["ann", "bob"]}

        def prepare(self) -> None:
            book.update(ann=100, bob=50)

        def engine(self, journal: Journal) -> Engine:
            policy = Policy(approvals=("account.*",))
            return Engine("offline", [transfer], journal, builtins=False, policy=policy)

        def check(self, world: World) -> None:
            assert min(book.values()) >= 0, "overdrawn"

    found = search(Bank, examples=300, number=1)
    assert found.repro is not None
    assert (found.repro.invariant, found.repro.told) == ("check", "overdrawn")


@pytest.mark.whole
def test_a_schema_that_nothing_fits_is_no_fault_of_the_engine() -> None:
    """One that asks for itself has no values."""
    node = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "required": ["n"]}
    endless = {"type": "object"} | {
        "properties": {"n": {"$ref": "#/$defs/N"}},
        "required": ["n"],
        "$defs": {"N": node},
    }

    class Endless(EngineMachine):
        repro_folder = None

        def engine(self, journal: Journal) -> Engine:
            only = Tool("a.endless", "Go on.", endless, lambda n: "done", effect="read")
            return Engine("offline", [only], journal, builtins=False)

    assert search(Endless, examples=3).violation is None


def test_a_family_of_near_misses_is_not_drawn_again_while_there_are_others() -> None:
    """Else a search sees few of them: hypothesis likes to draw the same again."""
    left = {"two_objects", "truncated"}
    setting = Setting((READ,), families=frozenset(families("selection").keys() - left))
    drawn = {said.family for said in drawn_from(near_misses("selection", setting))}
    assert drawn == left
    every = Setting((READ,), families=frozenset(families("selection")))
    assert len({said.family for said in drawn_from(near_misses("selection", every))}) > 20
