"""Values that an agent shows by itself: what is collected, what is learned, and that an example stays the same when it is taken again."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, Found, Said, World, search
from paor.fuzz.sample_engine import sample_engine
from paor.fuzz.strategies.shown import Learned, Pool, Shown, of_code, of_error, of_result, of_schemas, words

from .hosts import payments


def found_in(name: str, seed: int, examples: int = 300) -> Found:
    """Return what a search without hints finds in one of the hosts' agents."""
    agent = import_module(f"tests.fuzz.hosts.{name}").Agent
    return search(agent, examples=examples, number=seed, shrink=False)


def test_a_fault_of_two_calls_is_found_without_hints() -> None:
    """The host lists no value at all."""
    found = found_in("payments", 1, 60)
    assert found.repro is not None and found.repro.invariant == "check"
    assert found.repro.run(payments.Agent) is not None


def test_a_test_case_needs_no_search_to_draw_what_is_shown() -> None:
    """Under pytest hypothesis runs alone; what an example learns there is its own."""
    machine = payments.Agent()
    shown = machine._known().shown
    machine.world.close()
    assert {"A-1001", 99_900} <= values_of(shown)


FOUND = ("gift_cards", "payments", "subscriptions", "warehouse")
"""Agents whose faults are found with three seeds; the others are open."""


@pytest.mark.whole
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", FOUND)
def test_faults_of_several_calls_are_found_within_300_examples(name: str, seed: int) -> None:
    """With any of three seeds."""
    found = found_in(name, seed)
    assert found.repro is not None and found.repro.invariant == "check"


def test_the_same_seed_learns_the_same() -> None:
    """What is learned comes from the examples before, in their order, so that a search can be made again."""
    one, other = (found_in("payments", 5, 5) for _ in range(2))
    assert one.repro == other.repro
    assert (one.rows, one.requests, one.tools) == (other.rows, other.requests, other.tools)


def values_of(items: Any) -> set[Any]:
    """Return the values of what was shown."""
    return {item.value for item in items}


def test_the_constants_of_a_hosts_modules_are_read_with_their_names() -> None:
    """But not what is only said: docstrings, names of tools, messages of errors."""
    shown = of_code([payments.Agent])
    assert {"A-1001", 12_950, "B-2001", 99_900} <= values_of(shown)
    assert not {"orders.pay", "mail.send", "that is more than the order costs"} & values_of(shown)
    assert next(item for item in shown if item.value == "A-1001").names == words("TOTALS")


def test_schemas_and_descriptions_show_choices_examples_and_names() -> None:
    @tool("orders.find", effect="read")
    def find(order: str, state: str = "open") -> str:
        """Find an order, such as A-17 or 'quick one'."""
        return order

    assert {"A-17", "quick one", "open"} <= values_of(of_schemas([find.spec()]))


def test_results_and_errors_show_what_they_do_not_repeat() -> None:
    """A tool that gives back what it was given would teach nothing."""
    call = ("orders.find", {"text": "late ones"})
    shown = of_result(call, {"text": "late ones", "orders": [{"id": "A-17", "cents": 500}]})
    assert values_of(shown) == {"A-17", 500}
    assert next(item for item in shown if item.value == 500).names == words("orders.find") | {"cent"}
    assert values_of(of_error(call, "no 'late ones'; there are DE-7, AT-42")) == {"DE-7", "AT-42"}


def test_an_argument_gets_what_was_shown_under_its_words_and_numbers_near_what_was_taken() -> None:
    taken = Shown(words("cents"), 300)
    pool = Pool(
        {},
        (taken,),
        (Shown(words("order_id"), "A-17"), Shown(words("mail"), "x"), Shown(words("total"), 500)),
    )
    texts = pool.choices("order", lambda value: isinstance(value, str))
    assert (3, ["A-17"]) in texts
    numbers = {
        number for _, group in pool.choices("cents", lambda value: isinstance(value, int)) for number in group
    }
    assert {300, 301, 299, 600, 500, 501, 200, 201} <= numbers


def test_a_value_with_which_calls_only_fail_is_not_drawn_again() -> None:
    learned = Learned()
    pay = ("orders.pay", {"order": "by", "cents": 5})
    learned.add([("orders.pay", {"order": "A-1", "cents": 5})], [pay] * 3, [])
    assert learned.now().refused == {("order", "by")}
    shown = (Shown(frozenset(), "by"), Shown(frozenset(), "A-2"))
    pool = Pool({}, (), shown, learned.now().refused)
    drawn = {
        value for _, group in pool.choices("order", lambda value: isinstance(value, str)) for value in group
    }
    assert drawn == {"A-2"}


def test_a_search_says_which_tools_never_succeeded_and_what_they_lack() -> None:
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

    tools = search(Shut, examples=5, number=1, shrink=False).tools
    assert tools["vault.look"].succeeded > 0
    shut = tools["vault.open"]
    assert shut.calls > 0 and not shut.succeeded
    assert (shut.error, shut.arguments) == ("this is not the code", ("code",))


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

ALARMS: dict[str, list[dict[str, Any]]] = {
    "calls for which a small context has no room": [
        {"do": "start", "stage": "native", "limits": {"context_tokens": 1_000}},
        turn(*[("notes.read", {"page": page}) for page in range(6)]),
    ],
    "a call behind one whose error was seen": [
        {"do": "start", "stage": "native"},
        turn(LOST),
        *[ROW] * 5,
        turn(LOST, SEND),
    ],
}


@pytest.mark.parametrize("name", ALARMS)
def test_plans_are_followed_is_right_about_turns_that_are_cut(name: str) -> None:
    """The engine leaves out what has no room, and lets an effect wait for nothing that is known."""
    world = World(sample_engine)
    try:
        world.play([*ALARMS[name], {"do": "finish", "how": "polite"}])
    finally:
        world.close()
    begun = [row.trigger for row in world.seen[1].rows]
    assert begun.count("select") == name.count("error") + 1
