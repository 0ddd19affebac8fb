"""Back-tests: a planted change is named with its row and its guard, and nothing is named that nobody has planted."""

from __future__ import annotations

import json
import shutil
import time
import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paor import (
    ApprovalRule,
    Engine,
    Journal,
    Limits,
    Machine,
    ModelCall,
    Phase,
    Policy,
    ScriptedModel,
    Tool,
    replay,
    tool,
)
from paor.audit import Transition, TrialFinding, backtest, bisect, bisect_runs
from paor.errors import JournalDamaged, UsageError
from paor.machine import GuardContext
from paor.prompts.clients.prices import Price
from paor.testing import call_tools, step

from ..support.forging import forge
from ..support.inside import trials
from ..support.journeys import BY_NAME, JOURNEYS, Journey, play
from ..support.own_machines import triage
from ..support.pages import ROOT
from ..support.worlds import JOURNAL, TOOLS, engine, template

FILES = sorted((ROOT / "tests" / "fixtures" / "journals").glob("schema*.db"))


class Silent(ScriptedModel):
    """A model that must not be asked."""

    def ask(self, call: ModelCall) -> Any:
        raise AssertionError("a back-test asks nobody")


def forbidden(**arguments: Any) -> str:
    """Fail: a back-test performs nothing."""
    raise AssertionError("a back-test performs nothing")


def inert(tools: Sequence[Tool]) -> list[Tool]:
    """Return the same tools with functions that must not be called."""
    names = ("name", "description", "parameters", "effect", "label", "repeat_allowed", "retries")
    return [Tool(run=forbidden, **{name: getattr(item, name) for name in names}) for item in tools]


class Recording(NamedTuple):
    """A journal with one journey, read-only, and its rows."""

    journey: Journey
    journal: Journal
    rows: Sequence[Transition]


def given(value: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that limits or a policy were made with, and others; patterns are added."""
    own = {} if value is None else {name: getattr(value, name) for name in value.model_fields_set}
    return own | {
        name: (*own.get(name, ()), *item) if isinstance(item, tuple) else item for name, item in more.items()
    }


Change = Callable[[Mapping[str, Any]], dict[str, Any]]


def policy(**more: Any) -> Change:
    """Return what adds to a journey's policy."""
    return lambda options: {
        **options,
        "policy": Policy(**given(options.get("policy"), {**more, "missing_ok": True})),
    }


def limits(**more: Any) -> Change:
    """Return what adds to a journey's limits."""
    return lambda options: {**options, "limits": Limits(**given(options.get("limits"), more))}


def required(trigger: str, guard: Callable[[GuardContext], bool]) -> Change:
    """Return what gives a journey a machine with one more guard."""
    return lambda options: {**options, "machine": Machine.standard().require(trigger, guard)}


def first_page(case: GuardContext) -> bool:
    """Only the first page may be read."""
    return case.call is None or case.call.arguments.get("page", 1) == 1


def never(case: GuardContext) -> bool:
    """It is never good enough."""
    return False


def always(case: GuardContext) -> bool:
    """It is good enough."""
    return True


def broken(case: GuardContext) -> bool:
    """It cannot say."""
    raise RuntimeError("it can always be: no such page")


Hits = Callable[[Recording], list[int]]


def where(holds: Callable[[Transition, Any], object]) -> Hits:
    """Return what finds the rows of which, with what they set, something holds."""

    def find(seen: Recording) -> list[int]:
        changes = [seen.journal.reader.change(row.run, json.dumps(dict(row.change))) for row in seen.rows]
        return [row.seq for row, change in zip(seen.rows, changes, strict=True) if holds(row, change)]

    return find


def taken(*triggers: str, source: str = "") -> Hits:
    """Return what finds the rows with one of *triggers*."""
    return where(lambda row, change: row.trigger in triggers and source in ("", row.source))


def selects(tool: str) -> Hits:
    """Return what finds the rows that select *tool*, alone or in a plan."""

    def holds(row: Transition, change: Any) -> bool:
        planned = [step.name for step in change.plan.steps] if change.plan else []
        return row.trigger == "select" and tool in (change.selection.tool, *planned)

    return where(holds)


class Plant(NamedTuple):
    """
    A change of an engine's settings.

    Attributes:
        name: For test ids.
        guards: One of them decides it.
        change: The options of a journey's engine with the change.
        hits: The rows of a recorded run that it decides otherwise. The first one is sure; what follows may never come.
    """

    name: str
    guards: tuple[str, ...]
    change: Change
    hits: Hits


PLANTS = (
    Plant("deny", ("action_allowed",), policy(deny=("notes.send",)), selects("notes.send")),
    Plant(
        "approve",
        ("approval_needed",),
        policy(approvals=("notes.read",)),
        where(lambda row, change: row.trigger == "specify" and change.intent.tool == "notes.read"),
    ),
    Plant(
        "no_reselect",
        ("selection_retries_left", "selection_valid"),
        limits(selection_retries=0),
        taken("reselect"),
    ),
    Plant("no_respecify", ("parameter_retries_left",), limits(parameter_retries=0), taken("respecify")),
    Plant("no_reassess", ("review_retries_left",), limits(review_retries=0), taken("reassess")),
    Plant("no_retry", ("retries_left",), limits(max_retries=0), taken("retry")),
    Plant("never", ("never",), required("finish", never), taken("finish", source="Reviewing")),
    Plant(
        "first_page",
        ("first_page",),
        required("specify", first_page),
        where(lambda row, change: row.trigger == "specify" and change.intent.arguments.get("page", 1) != 1),
    ),
    Plant(
        "no_questions",
        ("hard_stop", "elicitations_left"),
        limits(max_elicitations=0),
        where(lambda row, change: row.trigger == "wait" and row.outcome["kind"] != "in_doubt"),
    ),
    Plant(
        "one_step",
        ("stop_reached", "steps_left"),
        limits(max_steps=1),
        where(
            lambda row, change: (
                row.trigger == "next_step" or (row.trigger in ("proceed", "retry") and row.step == 1)
            )
        ),
    ),
)


def record(journey: Journey, folder: Path, objective: str = "") -> Recording:
    """Play a journey, and open its journal for reading only."""
    folder.mkdir()
    run = {**journey.run, "objective": objective} if objective else journey.run
    with journey.engine(folder) as scripted:
        run_id = play(replace(journey, run=run), scripted).run_id
    journal = Journal(folder / JOURNAL, read_only=True)
    return Recording(journey, journal, journal.transitions(run_id))


def tried(seen: Recording, options: Mapping[str, Any]) -> list[TrialFinding]:
    """Return what a back-test with an engine with *options* finds; its model may not be asked, its tools may not be called."""
    nowhere, tools = Journal(":memory:"), inert(seen.journey.tools())
    with Engine(Silent([]), tools, nowhere, builtins=False, **options) as other:
        return list(backtest(other, seen.journal))


def check(plant: Plant, seen: Recording) -> int:
    """Compare what is found with what was planted; return how many rows of the run it decides otherwise."""
    found, hits = tried(seen, plant.change(seen.journey.options)), plant.hits(seen)
    decides = [item for item in found if item.kind == "decides"]
    assert [item.seq for item in decides[:1]] == hits[:1], (plant.name, seen.journey.name, found)
    assert {item.seq for item in decides} <= {*hits}
    for item in decides:
        row = seen.rows[item.seq]
        assert item.row == f"{row.source}.{row.trigger}" and item.was == f"{row.trigger} to {row.dest}"
        assert item.guard in plant.guards and item.now != item.was
    unknown = [item for item in found if item.kind == "unknown"]
    assert len(unknown) <= bool(decides) and all(item == found[-1] for item in unknown)
    assert plant.name == "deny" or all(item.kind != "asks" for item in found), "no prompt tells it"
    return len(decides)


FEW = ("two_pages", "reselected", "retried_run", "approved", "batch", "planner")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Recording]]:
    """Return a few journeys of all modes."""
    folder = tmp_path_factory.mktemp("few")
    found = [record(BY_NAME[name], folder / name) for name in FEW]
    yield found
    for seen in found:
        seen.journal.close()


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.name for plant in PLANTS])
def test_a_planted_change_is_named_with_its_row_and_its_guard(plant: Plant, few: list[Recording]) -> None:
    """And no other row, in no other run; no model is asked, no tool is called, and nothing is written."""
    files = [Path(seen.journal.path).read_bytes() for seen in few]
    named = sum(check(plant, seen) for seen in few)
    assert named or plant.name in ("no_respecify", "no_reassess")
    assert files == [Path(seen.journal.path).read_bytes() for seen in few]


@pytest.mark.whole
def test_ten_planted_changes_are_named_in_two_hundred_recorded_runs(tmp_path: Path) -> None:
    """Every journey four times: each change is named in each run that it touches, and in no other."""
    for number in range(4):
        for journey in JOURNEYS:
            seen = record(journey, tmp_path / f"{journey.name}_{number}", f"Go round {number}")
            with seen.journal:
                assert tried(seen, journey.options) == []
                for plant in PLANTS:
                    check(plant, seen)
    assert 4 * len(JOURNEYS) >= 200


@pytest.mark.parametrize("name", FEW)
def test_the_same_engine_decides_nothing_otherwise(name: str, few: list[Recording]) -> None:
    """Nor does one with a new guard that holds."""
    seen = next(item for item in few if item.journey.name == name)
    assert tried(seen, seen.journey.options) == []
    assert tried(seen, required("finish", always)(seen.journey.options)) == []


class Denying:
    """Settings as they were recorded, but for a policy that denies everything."""

    model = None
    never = ()

    def __init__(self, **policy: Any) -> None:
        self._policy = policy

    def trial_spec(self, spec: Any) -> Any:
        """Return *spec* with the policy."""
        return spec.model_copy(update={"policy": Policy(**self._policy)} if self._policy else {})

    def machine_for(self, spec: Any) -> None:
        """Return None: the code of the recorded machines is not here."""


def _calls(row: Transition, change: Any) -> bool:
    return row.trigger == "select" and change.selection.tool != "elicitation"


@pytest.mark.parametrize("golden", FILES, ids=[file.stem for file in FILES])
def test_the_golden_journals_are_derived_again(golden: Path, tmp_path: Path) -> None:
    """As they are nothing is decided otherwise; a denial of everything is named at each first selection; erased texts are unknown."""
    path = Path(shutil.copy(golden, tmp_path))
    with Journal(path, read_only=True) as journal:
        erased = {row.run_id for row in journal.runs() if journal.erasures(row.run_id)}
        found = list(backtest(Denying(), journal))
        assert {(item.run_id, item.kind) for item in found} == {(run, "unknown") for run in erased} and erased
        assert all(item.was == "erased" for item in found)
        denied = list(backtest(Denying(deny=("*",)), journal))
        decides = {item.run_id: item.seq for item in reversed(denied) if item.kind == "decides"}
        for row in journal.runs():
            seen = Recording(JOURNEYS[0], journal, journal.transitions(row.run_id))
            # a workflow calls its tasks whatever the policy says, and a plan may ask a person
            free = row.task == 0 or row.run_id in erased
            first = [] if free else where(_calls)(seen)[:1]
            assert [decides[row.run_id]] == first if row.run_id in decides else not first, row.run_id
        assert len(decides) > 10


# -- prompts, prices, and what was not recorded --------------------------------------------------------------------


def test_another_prompt_asks_otherwise_and_decides_nothing(few: list[Recording]) -> None:
    """At every row that asks a model, with the line that differs."""
    for seen in few:
        found = tried(seen, {**seen.journey.options, "instructions": "Be brief."})
        asked = [row.seq for row in seen.rows if "prompt" in row.request]
        assert [(item.seq, item.kind, item.guard) for item in found] == [(seq, "asks", "") for seq in asked]
        assert all("Be brief." in item.now and "Be brief." not in item.was for item in found)


def test_an_approval_that_is_not_needed_any_more_is_left_out(few: list[Recording]) -> None:
    """The recorded result of the same call counts; what was declined was not called, so the rest is unknown."""
    seen = next(item for item in few if item.journey.name == "approved")
    waits = [row.seq for row in seen.rows if row.trigger == "wait"]
    found = tried(seen, {})
    assert [(item.kind, item.seq) for item in found[:2]] == [("decides", seq) for seq in waits]
    assert (found[2].kind, found[2].seq, found[2].now) == ("unknown", waits[1] + 1, "notes.send") and len(
        found
    ) == 3


def test_a_result_counts_for_the_very_call_alone(tmp_path: Path) -> None:
    """A plan whose first call is refused goes on with the second one, and the recorded result is the first one's."""
    seen = record(BY_NAME["batch_skipped"], tmp_path / "skipped")
    with seen.journal:
        found = tried(seen, required("specify", first_page)(seen.journey.options))
    assert [(item.kind, item.seq, item.was, item.now) for item in found] == [
        ("decides", 1, "specify to Executing", "refuse to Observing"),
        ("unknown", 2, "notes.read", "notes.read, asked otherwise"),
    ]


def test_other_tools_of_a_native_turn_ask_otherwise(tmp_path: Path) -> None:
    """They are in no message: a provider is told of them beside the prompt."""
    script = [call_tools(step("notes.read", page=1)), "Page 1 is read."]
    folder = tmp_path / "native"
    folder.mkdir()
    with engine(folder, script, profile="native") as scripted:
        run = scripted.run("Read page 1")
        assert run.state == "Done", run
    with Journal(folder / JOURNAL, read_only=True) as journal:
        journey = replace(BY_NAME["two_pages"], options={"profile": "native"})
        seen = Recording(journey, journal, journal.transitions(run.run_id))
        assert tried(seen, journey.options) == []
        other = [*inert(TOOLS[:1]), replace(inert(TOOLS[1:2])[0], description="Send it."), *inert(TOOLS[2:])]
        found = tried(seen._replace(journey=replace(journey, tools=lambda: other)), journey.options)
        assert {item.kind for item in found} == {"asks"} and len(found) == 2
        assert all("cannot be taken back" in item.was and "Send it." in item.now for item in found), found
        denied = tried(seen, policy(deny=("notes.read",))(journey.options))
        assert [item.seq for item in denied if item.kind == "decides"] == [1]


class Priced(ScriptedModel):
    """A model with a price."""

    def __init__(self, replies: Sequence[Any], price: int) -> None:
        super().__init__(replies)
        self.price = Price(price, price, price, price)


@pytest.mark.parametrize(
    ("price", "ends"), [(1_000_000, []), (900_000_000, [("Planning.select", "hard_stop", "fail to Failed")])]
)
def test_prices_of_the_model_that_was_asked_count(
    price: int, ends: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    """A budget of money ends a run where the tokens that were recorded cost more than it."""
    bounds: dict[str, Any] = {"limits": Limits(cost_budget=0.5)}
    seen = record(replace(BY_NAME["two_pages"], options=bounds), tmp_path / "priced")
    with (
        seen.journal,
        Engine(Priced([], price), TOOLS, Journal(":memory:"), builtins=False, **bounds) as other,
    ):
        found = [item for item in backtest(other, seen.journal) if item.kind == "decides"]
    assert [(item.row, item.guard, item.now) for item in found] == ends


@pytest.mark.parametrize(
    ("change", "end"),
    [
        (required("specify", first_page), 6),  # what the refused call would have been followed by is unknown
        (required("specify", broken), 0),
        (limits(token_budget=300), 10),
    ],
)
def test_what_is_not_spent_is_compared_as_far_as_the_trial_goes(
    change: Change, end: int, few: list[Recording]
) -> None:
    """The recorded rows after it are no savings; where the trial has an end of its own, all of them count."""
    seen = few[0]
    with Engine(Silent([]), inert(TOOLS), ":memory:", builtins=False, **change({})) as other:
        ((found,),) = trials([other], seen.journal)
    last = seen.rows[end]
    calls = sum(row.trigger == "execute" for row in seen.rows[: end + 1])
    assert found.was == (calls, last.counters["calls"], last.tokens_in + last.tokens_out, last.cost_micro)
    assert found.known is (last is seen.rows[-1])
    assert (found.now == found.was) is not found.known and found.now <= found.was


def test_a_guard_that_raises_is_named(few: list[Recording]) -> None:
    """With what it said, whatever other guard that names; the run is not derived any further."""
    machine = Machine.standard().require("specify", always).require("specify", broken)
    (found,) = tried(few[0], {"machine": machine})
    assert (found.kind, found.seq, found.guard, found.was) == ("decides", 1, "broken", "specify to Executing")
    assert found.now == "the host's function broken raised RuntimeError: it can always be: no such page"


@pytest.mark.parametrize("name", ["notes.read", "notes.send"])
def test_what_an_engine_never_lets_happen_is_tried(name: str, few: list[Recording]) -> None:
    """The row is refused where the property is broken, and only there: what the recorded rows did before counts."""

    def called(row: Transition) -> bool:
        return row.trigger == "execute" and row.request.get("tool") == name and bool(row.outcome["ok"])

    refused = 0
    for seen in few:
        found = tried(seen, {**seen.journey.options, "never": [f"Done without ever {name}"]})
        ends = [] if any(map(called, seen.rows)) else taken("finish")(seen)
        assert [(item.kind, item.seq, item.guard, item.was) for item in found] == [
            ("decides", seq, "", "finish to Done") for seq in ends
        ]
        refusal = "finish in Reviewing is refused, since it would break what never happens: "
        assert all(item.now == f"{refusal}Done without ever {name}" for item in found)
        refused += len(ends)
    assert 0 < refused < len(few)


@tool("notes.mail", effect="once")
def mail() -> str:
    """Mail."""
    return "mailed"


@tool("notes.look", effect="read")
def look() -> str:
    """Look."""
    return "seen"


class AsRecorded(NamedTuple):
    """Settings as they were recorded, with the functions of a machine, and what never happens."""

    machine: Machine
    never: Any
    model: Any = None

    def trial_spec(self, spec: Any) -> Any:
        """Return *spec*."""
        return spec

    def machine_for(self, spec: Any) -> Machine | None:
        """Return the machine where the run has one."""
        return self.machine if spec.host_machine else None


def test_a_fork_is_held_to_what_never_happens_by_its_own_machine() -> None:
    """A guard that its machine has for looks alone says nothing of a mail; its parent's machine has no such guard."""
    machine = Machine.standard().require("specify", always, tool="notes.look")
    model: list[Any] = [call_tools(step("notes.mail")), "Mailed."]
    with Journal(":memory:", "off") as journal:
        parent = Engine(ScriptedModel(model), [mail, look], journal, builtins=False).run("Mail")
        host = Engine(ScriptedModel(model), [mail, look], journal, builtins=False, machine=machine)
        fork = host.fork(parent.run_id, 0, current=True).run_id
        refusing = Engine(
            Silent([]), [mail, look], journal, machine=machine, never=["Done without ever always"]
        )
        tries = AsRecorded(machine, refusing.never)
        (found,) = backtest(tries, journal, [journal.run(fork)])
        assert (found.kind, found.row, found.was) == ("decides", "Reviewing.finish", "finish to Done")
        assert "Done without ever always" in found.now


def rated(rate: int, guard: Callable[[GuardContext], bool]) -> dict[str, Any]:
    """Return the options of an engine whose guard may look at a rate."""
    machine = Machine.standard().require("specify", guard).ask_values("specify")
    return {"machine": machine, "values": lambda run_id, phase: {"rate": rate}}


def high(case: GuardContext) -> bool:
    """The rate is high."""
    return bool(case.values["rate"] == 9)


def test_values_that_nobody_recorded_are_unknown(few: list[Recording]) -> None:
    """A guard that looks at the engine's ``values`` port is not asked with others, also after a row that is decided otherwise."""
    (found,) = tried(few[0], rated(1, always))
    assert (found.kind, found.seq) == ("unknown", 1) and "values" in found.now
    machine = before_the_end(tool="notes.read", arguments={"page": 1}).ask_values("leave")
    found, last = tried(few[0], {"machine": machine, "values": lambda run_id, phase: {"rate": 1}})
    assert (found.kind, found.now) == ("decides", "close to Closing")
    assert (last.kind, last.row) == ("unknown", "Closing") and "values" in last.now


def test_values_that_were_recorded_count(tmp_path: Path) -> None:
    """Not those that the engine that is tried would give now."""
    seen = record(replace(BY_NAME["two_pages"], options=rated(1, always)), tmp_path / "rated")
    with seen.journal:
        assert tried(seen, rated(9, always)) == []
        found = tried(seen, rated(9, high))
        assert (found[0].seq, found[0].guard, found[0].now) == (1, "high", "refuse to Observing")


def before_the_end(**phase: Any) -> Machine:
    """Return the standard machine with a phase before it is Done."""
    return (
        Machine.standard()
        .phase(Phase("Closing", **phase))
        .row("Reviewing", "close", "Closing", when="review_success", before="finish")
        .row("Closing", "leave", "Done", when="succeeded")
        .row("Closing", "give_up", "Failed")
    )


def asking_last(question: str, schema: Mapping[str, Any], approvals: Sequence[Any]) -> dict[str, Any]:
    """Return the options of an engine that asks a person in the end, and for approvals."""

    def asked(case: GuardContext) -> str:
        return question

    machine = before_the_end(question=asked, answer=schema)
    return {"machine": machine, "policy": Policy(approvals=tuple(approvals))}


YES, OPEN = {"approve": True}, {"type": "object"}
CLOSED = {"type": "object", "properties": {"why": {"type": "string"}}}
SECOND = ApprovalRule(tool="notes.send", arguments={"text": "again"})


@pytest.mark.parametrize(
    ("question", "schema", "approvals", "kinds"),
    [
        ("Close?", OPEN, [], "decides decides"),
        ("Close?", OPEN, [SECOND], "decides"),
        ("Shut?", OPEN, [], "decides decides unknown"),
        ("Close?", CLOSED, [SECOND], "decides unknown"),
        ("Shut?", OPEN, ["notes.send"], "asks"),
    ],
)
def test_after_another_decision_an_answer_counts_for_the_same_question(
    question: str,
    schema: Mapping[str, Any],
    approvals: Sequence[Any],
    kinds: str,
    tmp_path: Path,
) -> None:
    """With the same words and the same form of an answer; of any other it is unknown. Before that, other words are just asked otherwise."""
    answers: list[dict[str, Any]] = [{"answer": YES}, {"answer": YES}, {"answer": {}}]
    journey = replace(
        BY_NAME["approved"], answers=answers, options=asking_last("Close?", OPEN, ["notes.send"])
    )
    seen = record(journey, tmp_path / "closing")
    with seen.journal:
        found = tried(seen, asking_last(question, schema, approvals))
    assert [item.kind for item in found] == kinds.split()
    last = found[-1]
    assert last.kind != "unknown" or (last.row, last.now) == ("Closing.provide", f"an answer: {question}")


@pytest.mark.parametrize("name", ["two_pages", "approved"])
def test_after_another_decision_a_reply_counts_for_the_same_prompt(name: str, few: list[Recording]) -> None:
    """One that says something else of the run, such as how many steps it has taken, has no reply; the same one has, whatever the new settings add to it."""
    seen = next(item for item in few if item.journey.name == name)
    other = {"instructions": "Be brief.", "rules": ["Be kind."], "limits": Limits(max_steps=4, previews=1)}
    machine = Machine.standard().row(
        "Reviewing", "again", "Planning", when="steps_left", before="next_step", at_most=1
    )
    found = tried(seen, {"machine": machine} if name == "two_pages" else other)
    decides = [item.seq for item in found if item.kind == "decides"]
    last = found[-1]
    if name == "two_pages":
        assert (decides, last.kind, last.row, last.seq) == ([4], "unknown", "Planning.select", 5)
    else:
        assert len(decides) == 2 and (last.kind, last.now) == ("unknown", "notes.send")


def test_after_another_decision_the_prompt_is_that_of_the_mode_that_the_run_has_chosen(
    tmp_path: Path,
) -> None:
    """And of its limits, where a template names one."""
    choice, approved = {"mode": "react", "limits": {"max_steps": 3}}, BY_NAME["approved"]
    own = {"machine": triage(choice), "prompts": {"refinement": template("refinement", "\n{{KEY:STEPS}}")}}
    replies = [choice, *approved.replies]  # a script is read by the number of the request
    seen = record(
        replace(approved, replies=replies, options={**approved.options, **own}), tmp_path / "chosen"
    )
    with seen.journal:
        *decides, last = tried(seen, own)
    waits = [row.seq for row in seen.rows if row.trigger == "wait"]
    assert [(item.kind, item.seq) for item in decides] == [("decides", seq) for seq in waits]
    assert (last.kind, last.seq, last.now) == ("unknown", waits[1] + 1, "notes.send")


@pytest.mark.parametrize("state", ["whole", "changed", "empty"])
def test_what_is_no_engine_no_journal_and_no_run_is_one_error(state: str, tmp_path: Path) -> None:
    """The same of a journal that is whole, one with a changed row and one without runs: what was given counts before what is read."""
    file = tmp_path / "seen" / JOURNAL
    record(BY_NAME["answered"], file.parent).journal.close()
    if state == "empty":
        file = tmp_path / "empty.db"
        Journal(file).close()
    if state == "changed":
        with closing(forge(file)) as connection, connection:
            connection.execute("UPDATE transitions SET step = step + 1")
    wrong: Any = "x"
    with Journal(file, read_only=True) as journal, Engine(Silent([]), journal=":memory:") as other:
        for call in (
            lambda: list(backtest(wrong, journal)),
            lambda: list(backtest(other, wrong)),
            lambda: list(backtest(other, journal, [wrong])),
            lambda: bisect(wrong, other, journal),
            lambda: bisect(other, wrong, journal),
            lambda: bisect(other, other, wrong),
            lambda: bisect(other, other, journal, [wrong]),
            lambda: bisect_runs(wrong, "last", "last"),
            lambda: bisect_runs(journal, "last", "last", wrong),
        ):
            with pytest.raises(UsageError, match=r"(backtest|bisect|bisect_runs) takes") as caught:
                call()
            assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_a_changed_row_is_damage(tmp_path: Path) -> None:
    """One that does not fit the chain, and a text that does not fit its digest."""
    for number, change in enumerate(
        (
            "UPDATE transitions SET step = step + 1 WHERE seq = 3",
            "UPDATE payloads SET body = body || ' ' WHERE typeof(body) = 'text' AND n > 2",
        )
    ):
        seen = record(BY_NAME["two_pages"], tmp_path / f"{number}")
        seen.journal.close()
        with closing(forge(tmp_path / f"{number}" / JOURNAL)) as connection, connection:
            connection.execute(change)
        journal = Journal(tmp_path / f"{number}" / JOURNAL, read_only=True)
        with journal, pytest.raises(JournalDamaged):
            tried(seen._replace(journal=journal), {})


# -- as quick as a replay ------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_a_backtest_takes_at_most_half_as_long_again_as_a_replay(tmp_path: Path) -> None:
    """It derives the same rows; the best of five times of both is compared, in one process."""
    with BY_NAME["two_pages"].engine(tmp_path) as scripted:
        for number in range(100):
            scripted.model = ScriptedModel(BY_NAME["two_pages"].replies)
            scripted.run(f"Round {number}", ["every page is read", "the dates are listed"])
        runs = scripted.journal.runs()

        def replayed() -> None:
            for row in runs:
                assert replay(scripted.journal, row.run_id, scripted).identical

        def derived() -> None:
            assert not list(backtest(scripted, scripted.journal))

        seconds = []
        for work in (replayed, derived):
            best = min(timeit.repeat(work, number=1, repeat=5, timer=time.process_time))
            seconds.append(best)
    assert seconds[1] < 1.5 * seconds[0], seconds
