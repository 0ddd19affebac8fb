"""What the testing kit draws: as often as its weights say, far enough, and nothing where nothing fits."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Policy, Tool, tool
from paor.fuzz import EngineMachine, World, search
from paor.fuzz.strategies.json_schema import arguments, weighted
from paor.fuzz.strategies.outcomes import answers
from paor.states.records.questions import Question


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
    drawn = drawn_from(answers(Question(kind="approval", message="May it?")))
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


@pytest.mark.rotates(data=["src/paor/fuzz/"])
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


@pytest.mark.rotates(data=["src/paor/fuzz/"])
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
