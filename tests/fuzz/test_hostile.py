"""The testing kit with agents, machines and saved cases as they should not be: one clear line, nobody blamed wrongly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis.stateful import invariant

from paor import Engine, Journal, Policy, ScriptedModel, Tool
from paor.errors import UsageError
from paor.fuzz import EngineMachine, Repro, World, load, search
from paor.fuzz.sample_engine import sample_engine
from paor.testing import call, refine, review

OBJECT: dict[str, Any] = {"type": "object"}


class Ends(BaseException):
    """What a tool raises that is no exception."""


def _ends() -> str:
    raise Ends("gone")


class Machine(EngineMachine):
    """A machine of one tool."""

    modes: ClassVar[Any] = ("react",)
    faults = False
    repro_folder = None
    tool: ClassVar[Tool] = Tool("a.tool", "Do it.", OBJECT, lambda: "done", effect="read")

    def engine(self, journal: Journal) -> Engine:
        """Return it."""
        return Engine("offline", [self.tool], journal, builtins=False)


# -- tools ---------------------------------------------------------------------------------------------------------


def test_a_tool_that_raises_no_exception_is_named() -> None:
    """It ends the process that the engine is in; the search goes on to tell it."""

    class Ending(Machine):
        tool = Tool("a.end", "End it.", OBJECT, _ends, effect="idempotent")

    found = search(Ending, examples=30)
    assert found.violation is not None
    assert found.violation.told == "Ends, which is no Exception and ends the process: gone"


def test_a_tool_may_change_what_it_gets() -> None:
    """Tried again, it gets what the journal says, and not what the first attempt has left of it."""
    got: list[list[str]] = []

    def eat(words: list[str]) -> str:
        got.append(list(words))
        words.clear()
        if len(got) == 1:
            raise TimeoutError
        return "eaten"

    schema = OBJECT | {"properties": {"words": {"type": "array", "items": {"type": "string"}}}}
    eater = Tool("words.eat", "Eat.", schema, eat, effect="read", retries=1)
    script = [*call("words.eat", words=["a", "b"]), refine("stop"), review("success")]
    with Engine(ScriptedModel(script), [eater], Journal(":memory:", "off")) as engine:
        assert engine.run("Eat them").state == "Done"
    assert got == [["a", "b"], ["a", "b"]]


def test_whoever_interrupts_a_search_is_not_told_of_a_bug() -> None:
    """The row that was being written never comes, and the run is not said to go on for ever."""
    times: list[int] = []

    def interrupted() -> str:
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        return "done"

    class Interrupted(Machine):
        tool = Tool("a.tool", "Do it.", OBJECT, interrupted, effect="read")

    with pytest.raises(KeyboardInterrupt):
        search(Interrupted, examples=30)


# -- machines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("modes", (), "modes of the machine are empty"),
        ("modes", ("react", "reakt"), "'reakt', expected react, batch, planner, native, workflow"),
        ("values", {"page": 3}, "values.'page'. of the machine are of type int, expected a list"),
        ("values", {"page": "three"}, "values.'page'. of the machine are of type str, expected a list"),
        ("values", ["page"], "values of the machine are of type list, expected lists by name"),
        ("fakes", "orders.*", "fakes of the machine are of type str, expected a list"),
        ("runs", 101, "runs of the machine are 101, expected 1 to 100"),
        ("runs", "3", "runs of the machine are '3', expected 1 to 100"),
        ("documents", [("name",)], "documents of a step"),
    ],
)
def test_an_attribute_that_no_machine_can_have_is_named(name: str, value: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        search(type("Wrong", (Machine,), {name: value}), examples=10)


@pytest.mark.whole
def test_what_a_machine_itself_does_wrong_is_told_as_that() -> None:
    """Not as a bug of paor, and not as a failing case."""

    class NoEngine(Machine):
        def engine(self, journal: Journal) -> Engine:
            raise ValueError("no database")

    class NoPrepare(Machine):
        def prepare(self) -> None:
            raise ValueError("no folder")

    class Unmade(Machine):
        def __init__(self, more: int) -> None:
            super().__init__()

    class Leaves(Machine):
        def engine(self, journal: Journal) -> Engine:
            raise SystemExit(3)

    class OnceOnly(Machine):
        def prepare(self) -> None:
            self.made = 0

        def engine(self, journal: Journal) -> Engine:
            self.made += 1
            if self.made > 1:
                raise ValueError("the file is locked")
            return super().engine(journal)

    class Claims(Machine):
        @invariant()
        def short(self) -> None:
            assert len(self.world.script) < 3, "too long"

    told = {
        NoEngine: "NoEngine.engine raised ValueError: no database",
        NoPrepare: "engine of the machine raised ValueError: no folder",
        Unmade: "Unmade cannot be made: TypeError: .*'more'",
        Leaves: "Leaves.engine raised SystemExit: 3",
        OnceOnly: "OnceOnly.engine raised ValueError: the file is locked; it was call 2 of it in this case",
        Claims: "invariant of Claims raised AssertionError: too long; only what check raises is saved",
    }
    for machine, words in told.items():
        with pytest.raises(UsageError, match=words):
            search(machine, examples=10)


def test_an_app_that_raises_once_and_never_again_is_told_as_that() -> None:
    """Hypothesis takes an example again and finds that it goes on: that alone would be told."""
    calls = count(1)

    def make(journal: Journal) -> Engine:
        if next(calls) == 3:
            raise RuntimeError("out of connections")
        return sample_engine(journal)

    with pytest.raises(UsageError, match="engine raised RuntimeError: out of connections"):
        search(make, examples=10)


@pytest.mark.parametrize("how", [SystemExit, pytest.param(pytest.fail.Exception, marks=pytest.mark.whole)])
def test_a_claim_may_fail_in_any_way(how: Any) -> None:
    """`pytest.fail` raises no Exception, and an exit must not end the search."""

    class Claims(Machine):
        def check(self, world: World) -> None:
            if world.watch.calls:
                raise how("never")

    found = search(Claims, examples=20, shrink=False)
    assert found.repro is not None
    assert (found.repro.invariant, found.repro.told) == ("check", "never")


# -- saved cases ---------------------------------------------------------------------------------------------------


def test_a_saved_case_of_too_many_runs_is_refused(tmp_path: Path) -> None:
    """All of them share one journal, and each is held to all of it; no machine may have as many."""

    def saved(runs: int) -> Path:
        script: tuple[Mapping[str, Any], ...] = ({"do": "start"}, {"do": "cancel"}) * runs
        return Repro("", "check", 0, "", script).save(tmp_path)

    assert len(load(saved(100)).script) == 2 * 100
    with pytest.raises(UsageError, match="101 of its steps start a run, at most 100 are taken"):
        load(saved(100 + 1))


def test_a_saved_case_cannot_loosen_a_policy() -> None:
    """It may come from anybody, and its calls reach real tools: what its steps deny is denied beside the engine's own."""
    called: list[str] = []

    class Guarded(Machine):
        def engine(self, journal: Journal) -> Engine:
            tools = [
                Tool(name, "Do it.", OBJECT | {"properties": {"url": {}}}, lambda url="": called.append(url))
                for name in ("a.denied", "a.asked", "a.free")
            ]
            policy = Policy(deny=("a.denied",), approvals=("a.asked",))
            return Engine("offline", tools, journal, builtins=False, policy=policy)

    wide = {"deny": [], "approvals": [], "private_hosts": True, "url_schemes": ["file", "http"]}

    def steps(name: str, **values: Any) -> tuple[Mapping[str, Any], ...]:
        action = {"action": name, "actionObjective": "do it"}
        said = [("selection", action), ("parameters", {"schema": "parameters_v1", "parameters": values})]
        rows = [
            {"do": "row", "said": [{"kind": kind, "text": json.dumps(item), "good": None}]}
            for kind, item in said
        ]
        return {"do": "start", "objective": "x", "policy": wide}, *rows, {"do": "row"}

    for name, values in (("a.denied", {}), ("a.asked", {}), ("a.free", {"url": "http://127.0.0.1/"})):
        assert Repro("", "check", 0, "", steps(name, **values)).run(Guarded) is None
        assert called == []
    assert Repro("", "check", 0, "", steps("a.free", url="free")).run(Guarded) is None
    assert called == ["free"]


@pytest.mark.parametrize("change", [{"good": "maybe"}, {"means": {"met": 3}}, {"means": {"met": [1]}}])
def test_what_a_saved_reply_means_is_checked(tmp_path: Path, change: Mapping[str, Any]) -> None:
    """So that a file edited by hand is named, not the engine blamed."""
    said = {"kind": "refinement", "text": "{}"} | dict(change)
    case = Repro("", "check", 0, "", ({"do": "row", "said": [said]},))
    path = case.save(tmp_path)
    with pytest.raises(UsageError, match="does not say what it means"):
        load(path)
