"""The testing kit itself: near misses are what they say, every invariant fails on an engine that is broken on purpose."""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings

import paor.fsm.machine.decide
import paor.fsm.machine.machine
from paor import Engine, Journal, Usage
from paor.errors import UsageError
from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.machine import Machine
from paor.fsm.machine.stop_rules import STOP_REACHED, first_stop
from paor.fsm.machine.table import TABLE
from paor.fsm.runtime.calls import Returned
from paor.fuzz import (
    KINDS,
    EngineMachine,
    Repro,
    Said,
    Violation,
    World,
    arguments,
    families,
    load,
    near_arguments,
    near_miss,
    repro_of,
    search,
)
from paor.fuzz.failing_case import save_case
from paor.fuzz.machine import AIMED
from paor.fuzz.oracles import invariants
from paor.fuzz.oracles.invariants import OTHERS, REST, ROW
from paor.fuzz.repro import step_lines
from paor.fuzz.sample_engine import TOOLS, sample_engine
from paor.fuzz.world.test_doubles import WatchedTool
from paor.states.records.outcomes import NO_USAGE
from paor.tools.schema.parameters import ParameterSchema

from .planted_bugs import planted

# -- near misses ---------------------------------------------------------------------------------------------------

GOOD = [
    Said("selection", '{"action": "notes.read", "actionObjective": "x"}', means={"action": "notes.read"}),
    Said("selection", '{"action": null, "answer": "x"}'),
    Said("parameters", '{"schema": "parameters_v1", "parameters": {"page": 1}}'),
    Said(
        "refinement",
        '{"decision": "stop", "reason": "x"}',
        means={"decision": "stop", "answer": ""},
    ),
    Said("review", '{"status": "success", "improvements": []}', means={"status": "success"}),
    Said("plan", '{"steps": [{"type": "tool", "name": "notes.read", "args": {"page": 1}}]}'),
    Said("plan", '{"steps": [], "answer": "All is read."}'),
    Said("turn", '{"text": "", "calls": [{"id": "1", "name": "notes_read", "arguments": {"page": 1}}]}'),
    Said("turn", "It is on page 1."),
    Said("answer", '{"answer": "x"}', means={"answer": "x"}),
    Said("phase", '{"verdict": "fine"}', means={"value": {"verdict": "fine"}}),
    Said("task_plan", '{"overview": "x", "tasks": [{"id": "a", "objective": "x"}]}'),
]


def test_every_family_changes_what_is_said() -> None:
    """Of at least one good reply of its kind; a family that changes nothing would test nothing."""
    for kind in KINDS:
        if kind in ("text", "summary"):  # free texts
            continue
        for family in families(kind):
            texts_of = [(said.text, near_miss(said, family)) for said in GOOD if said.kind == kind]
            assert any(text != said.text or said.finish != "stop" for text, said in texts_of), family


# -- arguments -----------------------------------------------------------------------------------------------------

SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {"q": {"type": "string", "minLength": 3, "maxLength": 5}},
        "required": ["q"],
    },
    {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 3, "maximum": 4},
            "step": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "even": {"type": "integer", "multipleOf": 2, "minimum": 7},
            "kind": {"enum": ["a", "b", None]},
            "code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"},
            "when": {"type": "string", "format": "date-time"},
            "page_url": {"type": "string"},
        },
        "required": ["count", "kind", "code", "even"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/node"},
            "any": {},
            "one": {"anyOf": [{"type": "null"}, {"const": 3}]},
        },
        "required": ["node"],
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "name": {"type": ["string", "null"]},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
                },
                "required": ["name"],
            }
        },
    },
    {
        "allOf": [
            {"properties": {"a": {"type": "boolean"}}, "required": ["a"]},
            {
                "properties": {
                    "b": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": True}
                }
            },
        ]
    },
    {
        "oneOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {}}, "required": ["b"]},
        ]
    },
    {},
    *[tool.spec().parameters for tool in TOOLS],
]


@pytest.mark.parametrize("place", range(len(SCHEMAS)))
def test_arguments_fit_their_schema_and_near_ones_say_whether_they_do(place: int) -> None:
    """As the engine's own compiled schema judges them."""
    schema = SCHEMAS[place]
    compiled = ParameterSchema(schema)

    @settings(max_examples=25, database=None)
    @given(arguments(schema), near_arguments(schema))
    def judged(values: dict[str, Any], near: tuple[str, dict[str, Any], bool | None]) -> None:
        assert compiled.check(values) == ()
        assert (compiled.check(near[1]) == ()) is (near[2] is None)

    judged()


def test_known_values_are_drawn_most_of_the_time() -> None:
    """So that a tool that knows ids is not only asked for ids that nobody has."""
    schema = {"properties": {"order": {"type": "string"}}, "required": ["order"]}
    drawn: list[str] = []

    @settings(max_examples=60, database=None)
    @given(arguments(schema, {"order": ["A-1", "A-2"]}))
    def draw(values: dict[str, Any]) -> None:
        drawn.append(values["order"])

    draw()
    assert {"A-1", "A-2"} < set(drawn)


# -- from the table ------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_is_aimed_at_or_follows_by_itself() -> None:
    """A new row needs an aim, or a reason to have none."""
    by_itself = {
        ("Specifying", "wait"): "the policy or a plan's step asks, not the reply",
        ("Executing", "fail"): "a cancellation; it has a move of its own",
        ("Reviewing", "format"): "a success with a final format",
    }
    rows = {(row.source, row.trigger) for row in TABLE}
    assert rows - AIMED.keys() == by_itself.keys()


# -- broken on purpose ---------------------------------------------------------------------------------------------


def start(**options: Any) -> dict[str, Any]:
    """Return the step that starts a run."""
    return {"do": "start", **options}


def say(kind: str, *, good: bool | None = True, means: Any = None, **data: Any) -> dict[str, Any]:
    """Return the step of one reply."""
    said = Said(kind, json.dumps(data), good=good, means=means or {})
    return {"do": "row", "said": [said.wire()]}


def choose(tool: str = "notes.read") -> dict[str, Any]:
    """Return the step that selects a tool."""
    return say("selection", action=tool, actionObjective="go", means={"action": tool})


def give(tool: str = "notes.read", **values: Any) -> dict[str, Any]:
    """Return the step that settles its parameters."""
    return say("parameters", parameters=values, means={"tool": tool, "arguments": values})


def judge(kind: str, word: str) -> dict[str, Any]:
    """Return the step of a refinement or a review."""
    if kind == "refinement":
        return say(kind, decision=word, reason="so", means={"decision": word, "answer": ""})
    return say(kind, status=word, improvements=[], means={"status": word})


ROW_STEP = {"do": "row"}
ITERATION = [choose(), give(page=1), ROW_STEP, ROW_STEP]
SAVED = [choose("notes.save"), give("notes.save", page=1), ROW_STEP, ROW_STEP]
GO = judge("refinement", "continue")
STOP = judge("refinement", "stop")
END = {"do": "finish", "how": "polite"}


def broken(script: list[dict[str, Any]], make: Callable[[Journal], Engine] = sample_engine) -> str:
    """Return the name of what a script violates, empty for nothing."""
    world = World(make)
    try:
        world.play(script)
    except Violation as violation:
        assert violation.script and violation.told
        return violation.invariant
    finally:
        world.close()
    return ""


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a guard always say the same, in the deciding machine."""

    guards = dict(GUARDS)

    def says(name: str, value: bool) -> None:
        guards[name] = lambda case: value
        monkeypatch.setattr(paor.fsm.machine.machine, "MACHINE", Machine(guards=guards))

    return says


SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "whole": [start(), *ITERATION, GO, *SAVED, STOP, judge("review", "success")],
    "repeated": [
        start(),
        *ITERATION,
        GO,
        *ITERATION,
        GO,
        choose(),
        give(page=1),
        say("answer", answer="x", means={"answer": "x"}),
    ],
    "repeated turn": [  # of the profile native the tools are withheld after any tool's repeat
        start(stage="native"),
        say("turn", text="", calls=[{"id": "1", "name": "notes.save", "arguments": {"page": 1}}]),
        *[ROW_STEP] * 4,
        say("turn", text="", calls=[{"id": "2", "name": "notes.save", "arguments": {"page": 1}}]),
        ROW_STEP,
        END,
    ],
    "crashes": [
        start(),
        choose(),
        {"do": "crash"},
        give(page=1),
        ROW_STEP | {"lost": True},
        ROW_STEP,
        ROW_STEP,
        END,
    ],
    "denied": [start(), choose("notes.delete") | {}, END],
    "approved": [
        start(policy={"approvals": ["*"]}),
        choose(),
        give(page=1),
        {"do": "answer", "answer": {"approve": True}},
        END,
    ],
    "cancelled": [start(), choose(), {"do": "cancel"}, {"do": "look"}],
    "planned": [start(mode="batch"), END],
    "workflow": [start(mode="workflow"), END],
    "silent": [start(), {"do": "finish", "how": "silence"}],
    "retried": [start(), {"do": "finish", "how": "retry"}],
    "clocks": [start(), choose(), {"do": "clock", "wall_us": -(10**12), "active_us": 10**9}, END],
    "wrong answers": [
        start(policy={"approvals": ["*"]}),
        choose(),
        give(page=1),
        {"do": "answer", "answer": "yes"},
        {"do": "look"},
        END,
    ],
}


BEFORE: dict[str, list[dict[str, Any]]] = {
    "selection": [start()],
    "parameters": [start(), choose()],
    "refinement": [start(), *ITERATION],
    "review": [start(), *ITERATION, STOP],
    "plan": [start(mode="batch")],
    "turn": [start(stage="native")],
    "answer": SCRIPTS["repeated"][:-1],
    "task_plan": [start(mode="workflow")],
}
"""Steps after which a run needs a reply of a kind; phases are in tests/fuzz/test_own_machine.py."""


@pytest.mark.parametrize(
    "good",
    [good for good in GOOD if good.kind in BEFORE],
    ids=[f"{good.kind}{place}" for place, good in enumerate(GOOD) if good.kind in BEFORE],
)
def test_every_family_is_read_or_refused_as_it_says(good: Said) -> None:
    """The engine takes what a family says is good, and refuses what it says is not; the world holds it to that."""
    for family in families(good.kind):
        said = near_miss(good, family)
        assert broken([*BEFORE[good.kind], {"do": "row", "said": [said.wire()]}]) == "", family


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "denied"])
def test_a_whole_engine_violates_nothing(name: str) -> None:
    """The scripts with which it is broken below, and some more."""
    assert broken(SCRIPTS[name]) == ""


BREAKS: dict[str, tuple[str, bool, list[dict[str, Any]]]] = {
    "steps_within_bounds": (
        "steps_left",
        True,
        [start(limits={"max_steps": 1}), *ITERATION, STOP, judge("review", "retry"), choose()],
    ),
    "retries_within_bounds": (
        "retries_left",
        True,
        [start(limits={"max_retries": 0}), *ITERATION, STOP, judge("review", "retry")],
    ),
    "asked_again_within_bounds": (
        "selection_retries_left",
        True,
        [start(), {"do": "finish", "how": "silence"}],
    ),
    "duplicates_are_blocked": (
        "duplicate",
        False,
        [
            start(limits={"consecutive_limit": 2}),
            *SAVED,
            GO,
            choose("notes.save"),
            give("notes.save", page=1),
        ],
    ),
    "blocked_only_if_repeated": ("duplicate", True, [start(), choose(), give(page=1)]),
    "replies_are_read_rightly": ("reply_invalid", True, [start(), *ITERATION, GO]),
    "done_only_after_success": (
        "review_success",
        True,
        [start(), *ITERATION, STOP, judge("review", "failed")],
    ),
    "effects_are_not_made_again": (
        "duplicate",
        False,
        [
            start(),
            choose("notes.send"),
            give("notes.send", text="hi"),
            ROW_STEP,
            ROW_STEP,
            GO,
            choose("notes.send"),
            give("notes.send", text="hi"),
        ],
    ),
    "said_is_what_counts": ("review_success", False, [start(), *ITERATION, STOP, judge("review", "success")]),
    "denied_never_begun": (
        "action_allowed",
        True,
        [
            start(mode="batch"),
            *[say("plan", steps=[{"type": "tool", "name": "notes.delete", "args": {"page": 1}}], good=None)],
            ROW_STEP,
            ROW_STEP,
        ],
    ),
    "approved_before_it_begins": (
        "approval_needed",
        False,
        [start(policy={"approvals": ["*"]}), choose(), give(page=1)],
    ),
    "only_declared_retries": (
        "step_retries_left",
        True,
        [
            start(),
            choose(),
            give(page=1),
            *[ROW_STEP | {"happened": [{"do": "raise", "what": "TimeoutError"}]}] * 2,
        ],
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_an_invariant_fails_on_a_guard_that_lies(
    name: str, guard: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One guard says always the same; without that the same script violates nothing."""
    lying, value, script = BREAKS[name]
    assert broken(script) == ""
    guard(lying, value)
    if name in ROW:  # others see it, too
        monkeypatch.setattr(invariants, "ROW", {name: ROW[name]})
    assert broken(script) == name


def turn(tool: str, **values: Any) -> dict[str, Any]:
    """Return the step of a native turn that calls a tool."""
    call = {"id": "c", "name": tool.replace(".", "_"), "arguments": values}
    means = {"steps": [{"id": "c", "name": call["name"], "args": values}]}
    return say("turn", text="", calls=[call], means=means)


def test_native_withholds_after_any_tool_and_two_stages_only_after_a_reading_one(
    guard: Callable[..., None],
) -> None:
    """The kit knows both rules: nothing is withheld whose result is not known."""
    begin, last = start(mode="react", stage="native"), Said("turn", "It is sent.", means={"answer": "x"})
    sent = [turn("notes.send", text="hi"), *[ROW_STEP] * 4]
    native = [
        begin,
        *sent,
        turn("notes.send", text="hi"),
        ROW_STEP,
        {"do": "row", "said": [last.wire()]},
        END,
    ]
    assert broken(native) == ""
    guard("result_known", True)
    assert (
        broken([start(), choose("notes.send"), give("notes.send", text="hi")]) == "effects_are_not_made_again"
    )


def test_questions_beyond_their_bound_are_found(guard: Callable[..., None]) -> None:
    """Two guards lie: nothing stops the run, and there is always another question."""
    limits, policy = {"max_elicitations": 0}, {"approvals": ["*"]}
    script = [start(limits=limits, policy=policy), choose(), give(page=1)]
    assert broken(script) == ""
    guard("hard_stop", False)
    guard("elicitations_left", True)
    assert broken(script) == "questions_within_bounds"


def test_invariants_of_usage_ends_and_errors_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that are not counted, an end without words, an engine that raises."""
    counted = paor.fsm.machine.summary.with_usage
    with monkeypatch.context() as patch:
        patch.setattr(
            paor.fsm.machine.decide,
            "with_usage",
            lambda counters, usage, moment, **details: counted(counters, NO_USAGE, moment, **details),
        )
        assert broken([start(), choose()]) == "usage_adds_up"
    with monkeypatch.context() as patch:
        patch.setattr("paor.states.run.budgets.token_budget_used_up", lambda *args: False)
        script = [start(limits={"token_budget": 15}), choose(), give(page=1)]
        assert broken(script) == "budgets_never_overspent"
    with monkeypatch.context() as patch:
        patch.setattr("paor.fsm.machine.updates.final_answer", lambda *args, **more: "  ")
        assert broken(SCRIPTS["whole"]) == "every_end_says_why"
    with monkeypatch.context() as patch:
        patch.setattr(paor.fsm.machine.decide, "with_usage", lambda *args, **more: 1 / 0)
        assert broken([start(), choose()]) == "raises_nothing"
    assert Usage(1, 1, 1) != NO_USAGE


def test_invariants_of_effects_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A once effect that is repeated after a crash; a tool called with other arguments than were committed."""
    lost = [start(), choose("notes.send"), give("notes.send", text="a"), ROW_STEP | {"lost": True}, ROW_STEP]

    def certain(*args: Any) -> Any:
        return None
        yield

    assert broken(lost) == ""
    with monkeypatch.context() as patch:
        patch.setattr("paor.fsm.runtime.tool_calls._settle_doubt", certain)
        assert broken(lost) == "once_never_repeats"
    invoke = WatchedTool.invoke
    with monkeypatch.context() as patch:
        patch.setattr(
            WatchedTool, "invoke", lambda self, arguments, context: invoke(self, {"page": 9}, context)
        )
        assert broken([start(), choose(), give(page=1), ROW_STEP]) == "intent_before_effect"
    with monkeypatch.context() as patch:
        patch.setattr("paor.fsm.decision.interpret.denial", lambda *args: None)
        patch.setitem(ROW, "denied_never_begun", lambda seen: True)
        script = [
            start(),
            say("selection", action="notes.delete", actionObjective="go", good=None),
            give("notes.delete", page=1),
            ROW_STEP,
        ]
        assert broken(script) == "denied_never_called"


HANGING = [start(limits={"tool_timeout_s": 0.5}), choose("notes.send"), give("notes.send", text="a")]


@pytest.mark.parametrize("kind", ["hang", "late"])
def test_a_call_past_its_deadline_is_given_up_and_its_late_result_is_found_when_it_is_accepted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without anybody waiting for it; a driver that takes what comes late breaks the invariant, for every effect."""
    for tool, values in (("notes.send", {"text": "a"}), ("notes.read", {"page": 1})):
        script = [HANGING[0], choose(tool), give(tool, **values), ROW_STEP | {"happened": [{"do": kind}]}]
        world = World(sample_engine)
        world.play(script)
        (row,) = [
            item for seen in world.seen.values() for item in seen.rows if item.request["kind"] == "tool"
        ]
        assert row.outcome.get("error", row.outcome.get("why")) in ("timeout", "deadline")
        assert row.outcome.get("left", 0) == (1 if kind == "hang" else 0)
        world.close()
        with monkeypatch.context() as patch:
            patch.setattr("paor.fsm.runtime.timed_calls.TimedOut", lambda left: Returned("too late"))
            assert broken(script) == "late_results_are_dropped"
    assert broken([start(), *HANGING[1:], ROW_STEP | {"happened": [{"do": kind}]}]) == "", (
        "without a deadline"
    )


def test_invariants_of_the_journal_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is altered, a run that is told otherwise than it was driven, a replay that derives something else."""

    def altered(world: World) -> None:
        if world.need == "refinement":
            world.journal.reader.query(
                """UPDATE rows SET "row" = json_set("row", '$.step', 7) WHERE id & 4294967295 = 1"""
            )

    world = World(sample_engine, altered)
    with pytest.raises(Violation, match=r"chain_verifies|journal_tells_the_state|raises_nothing"):
        world.play([*SCRIPTS["whole"]])
    world.close()
    state = {"live": True}
    decide = paor.fsm.machine.decide.decide
    with monkeypatch.context() as patch:

        def other(*args: Any, **more: Any) -> Any:
            from msgspec.structs import replace

            decision = decide(*args, **more)
            return (
                replace(decision, counters=replace(decision.counters, stale=3)) if state["live"] else decision
            )

        patch.setattr("paor.fsm.runtime.loop.decide", other)
        assert broken(SCRIPTS["whole"]) == "replays_to_the_same"


def test_a_cancelled_run_that_goes_on_and_an_end_that_changes_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Held by the world itself."""
    with monkeypatch.context() as patch:
        patch.setattr("paor.fsm.engine.Engine.cancel", lambda self, run_id: None)
        assert broken(SCRIPTS["cancelled"]) == "a_cancel_ends_the_run"


def test_a_review_that_is_needless_and_tools_that_come_back_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An engine that asks for a review of an answered run, one that asks for none, one that withholds nothing."""
    stop = say(
        "refinement", decision="stop", reason="so", answer="x", means={"decision": "stop", "answer": "x"}
    )
    answered = [start(), *ITERATION, stop, judge("review", "success")]
    assert broken(answered) == ""
    with monkeypatch.context() as patch:
        patch.setattr("paor.states.reviewing.decided_by_rules", lambda run: False)
        assert broken(answered) == "reviews_are_asked_when_due"
    with monkeypatch.context() as patch:
        for place in ("states.reviewing", "fsm.decision.interpret"):
            patch.setattr(f"paor.{place}.decided_by_rules", lambda run: True)
        assert broken([start(), *ITERATION, STOP, ROW_STEP]) == "reviews_are_asked_when_due"
    again = [*SCRIPTS["repeated"][:-1], choose("notes.save"), END]
    with monkeypatch.context() as patch:
        for place in ("states.planning", "fsm.decision.interpret"):
            patch.setattr(f"paor.{place}.tools_withheld", lambda run: False)
        assert broken(again) == "withheld_tools_stay_withheld"


def test_every_invariant_has_a_break() -> None:
    """A claim that was never seen to fail proves nothing."""
    of_the_model = {
        "seq_without_gap",
        "nothing_after_an_end",
        "only_rows_of_the_table",
        "counters_tell_the_rows",
    }
    seen = {
        *BREAKS,
        "usage_adds_up",
        "budgets_never_overspent",
        "a_cancel_ends_the_run",
        "every_end_says_why",
        "raises_nothing",
        "once_never_repeats",
        "late_results_are_dropped",
    }
    seen |= {"intent_before_effect", "denied_never_called", "chain_verifies", "replays_to_the_same"}
    seen |= {"journal_tells_the_state", "ends_within_bounds", "an_end_stays", "wrong_answers_change_nothing"}
    seen |= {name for bug in planted() for name in bug.seen_by}  # each by an edit, see test_planted_bugs
    seen |= {"check", "goes_on_only_without_a_reason", "reviews_are_asked_when_due"}
    seen |= {"host_functions_never_raise"}  # tests/fuzz/test_own_machine.py
    seen |= {"never_happens"}  # tests/check/test_properties.py
    assert {*ROW, *REST, *OTHERS} <= seen | of_the_model


def test_a_run_that_goes_on_beyond_its_limits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is a reason to stop for this engine, so that it goes on after its last step."""
    script = [start(limits={"max_steps": 1}), *ITERATION, judge("refinement", "continue")]
    assert broken(script) == ""
    monkeypatch.setattr(
        "paor.fsm.machine.stop_rules.first_stop",
        lambda case, guard: first_stop(case, guard) if guard != STOP_REACHED else None,
    )
    assert broken(script) == "goes_on_only_without_a_reason"


# -- machines ------------------------------------------------------------------------------------------------------


class Fragile(EngineMachine):
    """Claims something that does not hold: that nothing is ever saved."""

    repro_folder: ClassVar[str | None] = None

    def check(self, world: World) -> None:
        """Fail once a page is saved."""
        assert not any(call.tool == "notes.save" for call in world.watch.calls), "a page was saved"


@pytest.mark.whole
def test_a_search_is_the_same_each_time_and_shrinks_to_few_rows() -> None:
    """The same seed gives the same case; it is small, and it fails again."""
    one, other = (search(Fragile, examples=60, number=3) for _ in range(2))
    assert one.repro is not None and one.repro == other.repro
    assert one.repro.invariant == "check" and len(one.repro.rows) <= 6
    again = one.repro.run(Fragile)
    assert again is not None and (again.invariant, again.seq) == ("check", one.repro.seq)
    assert one.repro.run(sample_engine) is None


@pytest.mark.whole
def test_a_test_case_fails_with_the_steps_and_the_command(tmp_path: Path) -> None:
    """Under unittest as under pytest; the file is where the note says."""

    class Saved(Fragile):
        app = "here:Saved"
        modes: ClassVar[tuple[str, ...]] = ("react",)  # a plan would have no selection
        repro_folder = str(tmp_path)

    result = unittest.TestResult()
    Saved.TestCase().run(result)
    ((_, told),) = result.failures + result.errors
    (path,) = tmp_path.iterdir()
    assert f"paor replay --repro {path} --app here:Saved" in told
    assert "selection" in told and load(path).invariant == "check"
    assert "Falsifying" not in told and "Draw" not in told and "a page was saved" in told


@pytest.mark.whole
def test_a_saved_case_names_the_class_where_the_present_folder_can_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nowhere else: a command that cannot work is no help."""
    text = "from tests.fuzz.test_kit import Fragile\nclass Desk(Fragile):\n    repro_folder = 'cases'\n"
    (tmp_path / "desk_of_mine.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    desk = import_module("desk_of_mine").Desk
    violation = search(Fragile, examples=60, number=3, shrink=False).violation
    assert violation is not None
    for folder, named in ((tmp_path, "desk_of_mine:Desk"), (tmp_path.parent, "MODULE:ENGINE")):
        monkeypatch.chdir(folder)
        desk.repro_folder = str(tmp_path / "cases")
        assert save_case(desk, violation).endswith(f" --app {named}")

    class Local(Fragile):
        repro_folder = str(tmp_path / "cases")

    assert save_case(Local, violation).endswith(" --app MODULE:ENGINE")


def test_a_case_that_was_found_is_not_lost_when_somebody_stops_its_shrinking() -> None:
    """Ctrl-C then means: enough of it, show me."""

    def stop(seen: Any) -> None:
        if seen.failed:
            raise KeyboardInterrupt

    found = search(Fragile, examples=60, number=3, progress=stop)
    assert found.repro is not None and found.repro.invariant == "check"


def test_a_case_is_told_in_words_that_a_stranger_understands() -> None:
    """What was said, what the tool did, and where the process died; never a line that says nothing."""
    script = (
        start(mode="react"),
        ROW_STEP | {"happened": [{"do": "call"}], "lost": True},
        ROW_STEP | {"happened": [{"do": "raise", "what": "TimeoutError"}]},
        ROW_STEP | {"happened": [{"do": "raise_after", "what": "KeyError"}]},
        ROW_STEP | {"happened": [{"do": "return", "value": {"paid": 2}}]},
        ROW_STEP | {"happened": [{"do": "ask", "message": "Which\npage?"}]},
        ROW_STEP,
    )
    told = step_lines(Repro("", "check", 1, "", script))
    assert [line.split(None, 2)[1] for line in told] == ["start", *["row"] * 6]
    assert [line.split(None, 2)[2] for line in told[1:]] == [
        "the tool is called; the process is lost before the row is written",
        "the tool is not called and raises TimeoutError",
        "the tool is called and then raises KeyError",
        'the tool is not called and returns {"paid": 2}',
        r"the tool asks: Which\npage?",
        "nothing is asked",
    ]


def test_a_file_holds_the_case_and_nothing_else_is_taken_for_one(tmp_path: Path) -> None:
    """Long replies go compressed; what is none is refused in one line."""
    violation = Violation("check", 1, "x", "told")
    long = Said("selection", "[" * 100_000 + "\ud800", "brackets", False)
    violation.script = [start(limits={"max_steps": 1}), {"do": "row", "said": [long.wire()], "happened": []}]
    repro = repro_of(violation, "a:b")
    path = repro.save(tmp_path)
    assert path.stat().st_size < 3000
    assert load(path) == repro and repro.save(tmp_path) == path
    whole = json.loads(path.read_text())
    bad: list[Any] = [
        *([], 7, {}, whole | {"version": 2}, whole | {"script": [{"do": "import", "module": "os"}]}),
        whole | {"script": [{"do": "row", "said": [{"kind": "selection"}]}]},
        whole | {"script": [{"do": "row", "happened": [{"do": "raise", "what": "os.system"}]}]},
        whole | {"script": [{"do": "row", "shell": "rm"}]},
        whole | {"script": [{"do": "clock", "wall_us": "x"}]},
        whole | {"script": [{"do": "row", "said": [{"kind": "selection", "zlib": "!"}]}]},
        whole | {"violated": {"invariant": "../x", "seq": 1, "told": ""}},
    ]
    for item in bad:
        path.write_text(json.dumps(item))
        with pytest.raises(UsageError, match="is not a repro file"):
            load(path)
    for text in ("", "{", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(UsageError):
            load(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "nowhere.json")


@pytest.mark.whole
def test_nothing_is_found_in_the_shipped_engine() -> None:
    """Through the machine as a user would have it; `paor fuzz` takes more examples."""
    found = search(sample_engine, examples=40, number=1)
    assert found.violation is None, str(found.violation)
    assert len(found.coverage.missing_rows) < 8


class Stages(EngineMachine):
    """The shipped engine, asked in two stages."""

    modes = ("react",)


@pytest.mark.whole
@pytest.mark.parametrize("number", [1, 2])
def test_nothing_is_found_in_two_stages(number: int) -> None:
    """What the kit calls a good reply is read as one, also of a tool that gets exactly what is said of it."""
    found = search(Stages, examples=200, number=number, shrink=False)
    assert found.violation is None, str(found.violation)
