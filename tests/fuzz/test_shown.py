"""Values that an agent shows by itself: what is collected, what is learned, and that an example stays the same when it is taken again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, Found, Said, World, arguments, search
from paor.fuzz.sample_engine import sample_engine
from paor.fuzz.strategies.shown import Learned, Shown, of_agent, words

from . import hosts


def found_in(name: str, seed: int, examples: int = 300) -> Found:
    """Return what a search without hints finds in one of the hosts' agents."""
    agent = import_module(f"{hosts.__name__}.{name}").Agent
    return search(agent, examples=examples, number=seed, shrink=False)


FOUND = tuple(name for name in (*hosts.LOOKED_AT, *hosts.NOT_LOOKED_AT) if name not in hosts.OPEN)


@pytest.mark.whole
@pytest.mark.parametrize("name", FOUND)
def test_faults_of_several_calls_are_found_within_300_examples(name: str) -> None:
    """With two of three seeds at least; the saved case holds the values, so it fails again without a search."""
    found = [case for seed in (1, 2, 3) if (case := found_in(name, seed).repro) is not None]
    assert len(found) >= 2
    for case in found:
        assert case.invariant == "check"
        assert case.run(import_module(f"{hosts.__name__}.{name}").Agent) is not None


def test_the_same_seed_learns_the_same() -> None:
    """What is learned comes from the examples before, in their order, so that a search can be made again."""
    one, other = (found_in("payments", 1, 3) for _ in range(2))
    assert one.repro == other.repro
    assert (one.rows, one.requests, one.without_success) == (
        other.rows,
        other.requests,
        other.without_success,
    )


def values_of(items: Iterable[Shown]) -> set[Any]:
    """Return the values of what was shown."""
    return {value for _, value in items}


LATE, PRICES = "late-fee", {"gold": 500, "silver": 20}


def rate(plan: str) -> int:
    """Return a price, as a helper of a tool does."""
    return PRICES.get(plan, 17)


def test_what_a_function_is_made_of_and_refers_to_is_shown_with_its_names() -> None:
    """Its module's data, what its helpers use, constants of its code; of words for people only those that look like a name."""
    orders = {"A-17": {"cents": 250}}

    def pay(order: str) -> str:
        """Pay an order, such as X-1."""
        if order == LATE or orders[order]["cents"] > 9_000:
            raise ToolError("the order is not known; try B-2 later")
        return str(rate(order))

    shown = of_agent([], [pay])
    assert {"late-fee", "gold", 500, "silver", 20, 17, "A-17", 250, 9_000, "B-2"} <= values_of(shown)
    assert not {"known", "the order is not known; try B-2 later", "X-1"} & values_of(shown)
    assert (words("PRICES") | {"gold"}, 500) in shown


def test_schemas_and_descriptions_show_choices_examples_and_names() -> None:
    @tool("orders.find", effect="read")
    def find(order: str, state: str = "open") -> str:
        """Find an order, such as A-17 or 'quick one'."""
        return order

    shown = of_agent([find.spec()], [])
    assert {"A-17", "quick one", "open"} <= values_of(shown)
    assert "Find" not in values_of(shown)


def test_results_and_errors_show_what_they_do_not_repeat() -> None:
    """A tool that gives back what it was given would teach nothing."""
    learned = Learned()
    learned.add(
        "orders.find", {"text": "late ones"}, {"text": "late ones", "orders": [{"id": "DE-7", "cents": 500}]}
    )
    assert values_of(learned.shown) == {"DE-7", 500}
    assert (words("orders.find") | {"cent"}, 500) in learned.shown
    learned.add("orders.find", {"text": "none"}, ToolError("no 'none'; there are DE-8, AT-42"))
    assert values_of(learned.shown) == {"DE-7", 500, "DE-8", "AT-42"}


def drawn_first(learned: Learned, name: str, kind: type) -> list[Any]:
    """Return the values that are drawn most often for an argument."""
    return next(
        group for weight, group in learned.choices(name, lambda value: type(value) is kind) if weight == 3
    )


def test_an_argument_gets_first_what_was_shown_under_its_words_and_numbers_near_what_was_taken() -> None:
    learned = Learned().of({}, ((words("mail"), "x"), (words("order_id"), "A-17"), (words("total"), 500)))
    assert drawn_first(learned, "order", str) == ["A-17", "x"]
    learned.add("orders.pay", {"cents": 300}, "paid")
    numbers = {
        value for _, group in learned.choices("cents", lambda value: type(value) is int) for value in group
    }
    assert {300, 301, 299, 600, 500, 501, 200, 201} <= numbers


def test_a_value_with_which_calls_fail_comes_behind_those_that_were_not_tried() -> None:
    """And one that a tool has taken under any name comes first."""
    learned = Learned().of({}, tuple((frozenset[str](), value) for value in ("A-1", "A-2", "A-3")))
    for _ in range(2):
        learned.add("orders.pay", {"order": "A-1"}, ToolError("no"))
    learned.add("orders.look", {"number": "A-3"}, None)
    assert drawn_first(learned, "order", str) == ["A-3", "A-2", "A-1"]


def test_the_call_that_got_furthest_is_changed_first_until_one_succeeds() -> None:
    """Where a call ended is the line that raised, however the words read."""

    def pay(order: str, cents: int) -> str:
        if order != "A-1":
            raise ToolError(f"no order {order}")
        if cents > 500:
            raise ToolError("too much")
        return "paid"

    learned = Learned(about="orders.pay")
    calls: list[dict[str, Any]] = [
        {"order": "x", "cents": 900},
        {"order": "A-1", "cents": 900},
        {"order": "y", "cents": 1},
    ]
    for call in calls:
        with pytest.raises(ToolError) as raised:
            pay(**call)
        learned.add("orders.pay", call, raised.value)
    assert learned.seeds() == [calls[1], calls[2]]
    learned.add("orders.pay", {"order": "A-1", "cents": 5}, pay("A-1", 5))
    assert learned.seeds()[0] == {"order": "A-1", "cents": 5}


def test_arguments_are_those_of_an_earlier_call_or_what_was_shown_and_fit_the_schema() -> None:
    """One of an earlier call's is changed at most; what does not fit is never drawn."""
    learned = Learned({}, ((words("order"), "A-2"), (words("order"), "far too long for it")), "orders.pay")
    learned.add("orders.pay", {"order": "A-1", "cents": 300}, "paid")
    properties = {"order": {"type": "string", "maxLength": 8}, "cents": {"type": "integer", "minimum": 1}}
    schema = {"properties": properties, "required": ["order", "cents"]}
    drawn: list[tuple[str, int]] = []

    @settings(max_examples=100, database=None, derandomize=True)
    @given(arguments(schema, learned))
    def draw(values: dict[str, Any]) -> None:
        drawn.append((values["order"], values["cents"]))

    draw()
    assert {("A-1", 300), ("A-2", 300), ("A-1", 301)} <= set(drawn)
    assert all(len(order) <= 8 and cents >= 1 for order, cents in drawn)
    assert sum(order == "A-1" or cents == 300 for order, cents in drawn) > len(drawn) / 2


def test_a_search_says_which_tools_never_succeeded_and_what_to_list() -> None:
    class Shut(EngineMachine):
        repro_folder = None

        def engine(self, journal: Journal) -> Engine:
            @tool("vault.open")
            def open_vault(code: str) -> str:
                """Open the vault."""
                raise ToolError("this is not the code")

            @tool("vault.look", effect="read")
            def look() -> str:
                """Look at the vault."""
                return "it is shut"

            return Engine("offline", [open_vault, look], journal, builtins=False)

    assert search(Shut, examples=3, number=1, shrink=False).without_success == {
        "vault.open": "failed each time, at last: this is not the code; list in values what it takes: code"
    }


# -- false alarms that came to light -------------------------------------------------------------------------------


def turn(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the step of a native turn."""
    steps = [{"id": f"c{place}", "name": name, "args": values} for place, (name, values) in enumerate(calls)]
    made = [{"id": step["id"], "name": step["name"], "arguments": step["args"]} for step in steps]
    said = Said("turn", json.dumps({"text": "", "calls": made}), means={"steps": steps})
    return {"do": "row", "said": [said.wire()]}


ROW: dict[str, Any] = {"do": "row"}
READ = ("notes.read", {"page": 1})
LOST = ("notes.save", {"page": -1})
SEND = ("notes.send", {"text": "hi"})

ANSWER = {"do": "row", "said": [Said("turn", "It is known.", means={"answer": "It is known."}).wire()]}
NATIVE = {"do": "start", "stage": "native"}

ALARMS: dict[str, list[dict[str, Any]]] = {
    "plans: calls for which a small context has no room": [
        NATIVE | {"limits": {"context_tokens": 1_000}},
        turn(*[("notes.read", {"page": page}) for page in range(6)]),
    ],
    "plans: a call behind one whose error was seen": [NATIVE, turn(LOST), *[ROW] * 5, turn(LOST, SEND)],
    "reviews: a failed call with an effect before the last one": [
        NATIVE | {"limits": {"completion_review": "rules"}},
        *(turn(LOST), *[ROW] * 5, turn(READ), *[ROW] * 4, ANSWER),
    ],
}


@pytest.mark.parametrize("steps", ALARMS.values(), ids=ALARMS)
def test_invariants_are_right_about_turns_that_are_cut_and_calls_that_failed(
    steps: list[dict[str, Any]],
) -> None:
    """The engine leaves out what has no room, lets an effect wait for nothing that is known, and has a model review what code cannot."""
    world = World(sample_engine)
    try:
        world.play([*steps, {"do": "finish", "how": "polite"}])
    finally:
        world.close()
    assert world.seen[1].rows[-1].trigger == "finish"
