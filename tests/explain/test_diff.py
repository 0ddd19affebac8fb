"""Diff: two runs part at a row, and what made them is named; every cause is constructed here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, Policy, Reply, ScriptedModel, Tool, Usage, diff, tool
from paor.audit import RunDiff, bisect_runs
from paor.errors import ToolError, UnknownRun, UsageError
from paor.testing import SeededIds, SteppingClock

from ..support.effort import examples
from ..support.forging import forge
from ..support.journeys import BY_NAME, JOURNEYS, Journey, Lost, losing, play
from ..support.worlds import (
    CONTINUE,
    JOURNAL,
    PARAMETERS,
    READ,
    REFINE,
    SELECT,
    STOP,
    SUCCESS,
    engine,
    template,
)

SCRIPT = (*READ(1), CONTINUE, *READ(2), CONTINUE, *READ(3), STOP, SUCCESS)
KINDS = ("selection", "parameters", "refinement") * 3 + ("review",)
"""What each reply of the script answers."""

STRICT = {"profile": "strict"}
"""Whose requests are reports: only of these a limit of the history changes the prompts."""


def reading(texts: Mapping[int, str], **options: Any) -> Tool:
    """Return a tool that reads a page; of some it says something else."""

    options.setdefault("label", "page")

    @tool("notes.read", effect="read", **options)
    def read(page: int) -> str:
        """Read one page of the notes."""
        if texts.get(page) == "torn":
            raise ToolError("torn out")
        return texts.get(page, f"Page {page} of the notes.")

    return read


def drive(folder: Path, seed: str, **change: Any) -> str:
    """Run the script with something changed, on the journal in *folder*, and return the run's id."""
    options = {name: change.pop(name) for name in ("policy", "prompts", "limits") if name in change}
    replies = change.pop("replies", SCRIPT)
    clock = SteppingClock(**change.pop("clock", {}))
    tools = [reading(change.pop("texts", {}), **change.pop("tool", {}))]
    objective, criteria = change.pop("objective", "Read the notes"), change.pop("criteria", ["names the day"])
    documents = change.pop("documents", [("a.txt", "first")])
    with Engine(
        ScriptedModel(replies),
        tools,
        Journal(folder / JOURNAL, "off"),
        builtins=False,
        ids=SeededIds(seed),
        clock=clock,
        **options,
    ) as scripted:
        return scripted.run(objective, criteria, documents, **change).run_id


def compared(folder: Path, one: str, other: str) -> RunDiff:
    """Return the difference of two runs; the other way round it is the same one."""
    with Journal(folder / JOURNAL, read_only=True) as journal:
        found, turned = diff(journal, one, other), diff(journal, other, one)
        assert (found.seq, found.cause, found.field) == (turned.seq, turned.cause, turned.field)
        assert (found.left, found.right) == (turned.right, turned.left)
        assert found.wire() == json.loads(json.dumps(found.wire()))
        assert found.identical or found.cause
        return found


def parted(folder: Path, **change: Any) -> RunDiff:
    """Return how a run differs from the script's own."""
    base = dict(change.pop("base", {}))
    return compared(folder, drive(folder, "one", **base), drive(folder, "other", **(base | change)))


# -- nothing differs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])
def test_the_same_journey_twice_is_identical(journey: Journey, tmp_path: Path) -> None:
    """Whatever happened in it: other ids, other salts, another time; also from two files, and with itself."""
    other = tmp_path / "other"
    other.mkdir()
    with journey.engine(tmp_path) as scripted:
        one = play(journey, scripted).run_id
    with journey.engine(other, ids=SeededIds("other"), clock=SteppingClock(start_us=5_000_000)) as scripted:
        two = play(journey, scripted).run_id
    assert one != two
    with (
        Journal(tmp_path / JOURNAL, read_only=True) as first,
        Journal(other / JOURNAL, read_only=True) as second,
    ):
        found = diff(first, one, two, second)
        assert found.identical and found.shared == 0, found
        assert found.same_end and found.same_answer and found.cause == "" and found.seq is None
        itself = diff(first, one, one)
        assert itself.identical and itself.shared == itself.left.transitions


# -- every cause -----------------------------------------------------------------------------------------------------


def test_model_output(tmp_path: Path) -> None:
    """Another reply to the same prompt; and what follows from it is told."""
    found = parted(tmp_path, replies=[*SCRIPT[:5], STOP, SUCCESS])
    assert (found.cause, found.seq, found.field) == ("model_output", 9, "outcome.reply")
    assert (found.parts, found.source) == (("scripted",), "Reviewing")
    assert '"continue"' in found.left.text and '"stop"' in found.right.text
    assert (found.decision_seq, found.same_end, found.same_answer) == (9, True, True)
    assert (found.left.steps, found.right.steps) == (3, 2)


def test_another_model_is_named_where_it_says_something_else(tmp_path: Path) -> None:
    """Not where it says the same."""

    def asked(name: str, replies: Any) -> ScriptedModel:
        model = ScriptedModel(replies)
        model.name = name
        return model

    one, same, other = (
        drive(tmp_path, name, model=asked(name, replies))
        for name, replies in (("a", SCRIPT), ("b", SCRIPT), ("c", [*SCRIPT[:2], STOP, SUCCESS]))
    )
    assert compared(tmp_path, one, same).identical
    found = compared(tmp_path, one, other)
    assert (found.cause, found.parts, found.seq) == ("model_output", ("a", "c"), 4)
    assert "not the same model" in found.detail


def test_what_a_model_says_within_a_tool_is_model_output(tmp_path: Path) -> None:
    """A request of the tool, answered otherwise."""
    journey = BY_NAME["documents"]
    replies = list(journey.replies)
    replies[2] = "Another picture."
    ids = []
    for seed, script in (("one", journey.replies), ("other", replies)):
        with engine(tmp_path, script, journey.tools(), ids=SeededIds(seed)) as scripted:
            ids.append(scripted.run("Scan", **journey.run).run_id)
    found = compared(tmp_path, *ids)
    assert (found.cause, found.field) == ("model_output", "outcome.texts[0].reply")
    assert "request of notes.scan" in found.detail
    with engine(
        tmp_path,
        journey.replies,
        journey.tools(),
        ids=SeededIds("b"),
        prompts={"text": template("text", "\nBriefly.")},
    ) as scripted:
        ids.append(scripted.run("Scan", **journey.run).run_id)
    found = compared(tmp_path, ids[0], ids[2])
    assert (found.cause, found.field, found.parts) == (
        "prompt",
        "outcome.texts[0].prompt",
        ("templates.text",),
    )


@pytest.mark.parametrize(
    "answers", [[{"approve": True}, {"approve": False}], [{"approve": True}, {"action": "cancel"}]]
)
def test_answer(answers: list[Any], tmp_path: Path) -> None:
    """What a person answered to the same question."""
    replies = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="hi"), STOP, SUCCESS]
    ids = []
    for seed, answer in zip(("one", "other"), answers, strict=True):
        policy = Policy(approvals=("*",))
        with engine(tmp_path, replies, policy=policy, ids=SeededIds(seed)) as scripted:
            run_id = scripted.run("Send").run_id
            ids.append(scripted.resume(run_id, answer=answer).run_id)
    found = compared(tmp_path, *ids)
    assert (found.cause, found.seq) == ("answer", 2)


def stops_always(case: object, guard: str) -> str | None:
    """Read the table of stops as one that ends a run after every action."""
    return "model_stop" if guard == "stop_reached" else None


def test_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is recorded of what decides is the same, and yet it was decided otherwise."""
    one = drive(tmp_path, "one")
    with monkeypatch.context() as patch:
        patch.setattr("paor.fsm.machine.stop_rules.nothing_concludes", lambda case: False)
        patch.setattr("paor.fsm.machine.stop_rules.first_stop", stops_always)
        other = drive(tmp_path, "other", replies=[*SCRIPT[:3], SUCCESS])
    found = compared(tmp_path, one, other)
    assert (found.cause, found.seq, found.field) == ("code", 4, "trigger")
    assert "is the same" in found.detail


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"limits": Limits(max_steps=1)}, "limits.max_steps"),
        ({"base": STRICT, "limits": Limits(history_chars=30)}, "limits.history_chars"),
        ({"language": "de"}, "language"),
        ({"objective": "Read all notes"}, "objective"),
        ({"criteria": ["names the day", "and the place"]}, "success_criteria"),
        ({"context": "It is Monday."}, "context"),
        ({"tool": {"label": "leaf"}}, "tools: notes.read"),
        ({"documents": [("a.txt", "first"), ("b.txt", "second")]}, "documents"),
    ],
)
def test_config(change: dict[str, Any], part: str, tmp_path: Path) -> None:
    """Settings of the run or the engine, by name, as soon as anything follows from them."""
    found = parted(tmp_path, **change)
    assert found.cause == "config", found
    assert found.parts == (part,)


def test_budget(tmp_path: Path) -> None:
    """A smaller one, or the same one used up earlier; in both the numbers are told."""
    found = parted(tmp_path, limits=Limits(token_budget=1500))
    assert (found.cause, found.parts) == ("budget", ("limits.token_budget",))
    assert not found.same_end and found.right.reason == "token_budget"
    costly = [Reply(json.dumps(reply), Usage(1, 400, 5)) for reply in SCRIPT]
    cheap = [Reply(json.dumps(reply), Usage(1, 4, 5)) for reply in SCRIPT]
    ids = [
        drive(tmp_path, name, replies=replies, limits=Limits(token_budget=1200))
        for name, replies in (("cheap", cheap), ("costly", costly))
    ]
    found = compared(tmp_path, *ids)
    assert (found.cause, found.parts, found.seq) == ("budget", ("used tokens",), 5), found
    ids = [drive(tmp_path, name, replies=replies) for name, replies in (("c", cheap), ("d", costly))]
    found = compared(tmp_path, *ids)
    assert (found.cause, found.field, found.seq) == ("budget", "outcome.tokens_in", 0)
    assert not found.identical and found.same_end and found.decision_seq is None


def test_clock(tmp_path: Path) -> None:
    """The same time budget, and a slower machine."""
    found = parted(tmp_path, base={"limits": Limits(time_budget_s=2)}, clock={"step_us": 400_000})
    assert (found.cause, found.parts) == ("clock", ("used active time",)), found
    assert found.right.reason == "time_budget"
    (tmp_path / "more").mkdir()
    assert parted(tmp_path / "more", clock={"step_us": 400_000}).identical


def test_crash(tmp_path: Path) -> None:
    """A driver was lost in a once effect, and somebody had to say how it ended."""
    ids = []
    replies = [SELECT("notes.lose"), PARAMETERS(page=1), STOP, SUCCESS]
    for seed, times in (("one", 0), ("other", 1)):
        with engine(tmp_path, replies, [losing(times)], ids=SeededIds(seed)) as scripted:
            try:
                ids.append(scripted.run("Lose it").run_id)
            except Lost:
                ids.append(scripted.journal.runs()[0].run_id)
                scripted.resume(ids[-1])
                scripted.resume(ids[-1], outcome="done", result="page 1 is gone")
    found = compared(tmp_path, *ids)
    assert (found.cause, found.seq, found.parts) == ("crash", 2, ("notes.lose",))
    assert found.same_end


def test_cancelled_and_unfinished(tmp_path: Path) -> None:
    """One was cancelled, one has not gone on."""
    base = drive(tmp_path, "base")
    with engine(tmp_path, SCRIPT, [reading({})], ids=SeededIds("cut")) as scripted:
        events = scripted.stream("Read the notes", ["names the day"], [("a.txt", "first")], on_close="stop")
        for event in events:
            if getattr(event, "seq", 0) == 6:
                break
        events.close()
        cut = scripted.journal.runs()[0].run_id
        found = compared(tmp_path, base, cut)
        assert (found.cause, found.field) == ("unfinished", "trigger")
        assert found.seq == found.right.transitions == found.decision_seq
        scripted.cancel(cut)
    found = compared(tmp_path, base, cut)
    assert found.cause == "cancelled" and not found.same_end


def test_forks_know_what_they_share(tmp_path: Path) -> None:
    """And what was changed for one of them."""
    with engine(tmp_path, SCRIPT, [reading({})]) as scripted:
        run_id = scripted.run("Read the notes").run_id
        same = scripted.fork(run_id, 4).run_id
        less = scripted.fork(run_id, 9, limits={"max_steps": 2}).run_id
        found = diff(scripted.journal, run_id, same)
        assert found.identical and found.shared == 5
        found = diff(scripted.journal, same, less)
        assert (found.shared, found.seq, found.cause) == (5, 10, "config")
        assert found.parts == ("limits.max_steps",)


def test_other_parts_that_differ_are_named_as_no_cause(tmp_path: Path) -> None:
    """A limit that was never reached beside a reply that was another one."""
    found = parted(tmp_path, limits=Limits(max_plans=3), replies=[*SCRIPT[:5], STOP, SUCCESS])
    assert (found.cause, found.others) == ("model_output", ("limits.max_plans",))


def test_what_was_erased_counts_as_the_same(tmp_path: Path) -> None:
    """And what still differs is found."""
    one = drive(tmp_path, "one")
    other = drive(tmp_path, "other", texts={3: "Another page."}, replies=SCRIPT)
    with closing(forge(tmp_path / JOURNAL)) as connection, connection:
        connection.execute("UPDATE payloads SET body = NULL, salt = NULL WHERE run = 1 AND n < 12")
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        found = diff(journal, one, other)
        assert (found.cause, found.seq) == ("tool_output", 12)


def test_what_cannot_be_compared_is_told(tmp_path: Path) -> None:
    """No such run; no journal."""
    one = drive(tmp_path, "one")
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        with pytest.raises(UnknownRun):
            diff(journal, one, "none-such")
        with pytest.raises(UsageError):
            diff("runs.db", one, one)  # type: ignore[arg-type]


# -- random single changes -------------------------------------------------------------------------------------------


def rows_of(kind: str, number: int) -> int:
    """Return the row at which the *number*-th reply of the script comes in."""
    step, place = divmod(number, 3)
    return 15 if kind == "review" else step * 5 + (0, 1, 4)[place]


REPLIES = st.integers(0, len(SCRIPT) - 1).flatmap(
    lambda number: st.sampled_from(["no JSON", json.dumps(REFINE("stop", answer="x")), "{}", '{"a": 1}']).map(
        lambda text: (
            "model_output",
            {"replies": [*SCRIPT[:number], text, *SCRIPT[number + 1 :], *SCRIPT]},
            rows_of(KINDS[number], number),
        )
    )
)
TEXTS = st.tuples(st.integers(1, 3), st.text("abc ", min_size=1, max_size=30)).map(
    lambda pair: ("tool_output", {"texts": {pair[0]: f"Other: {pair[1]}"}}, pair[0] * 5 - 3)
)
PROMPTS = st.tuples(
    st.sampled_from(["selection", "parameters", "refinement", "review"]), st.text("abc", min_size=1)
).map(
    lambda pair: (
        "prompt",
        {"prompts": {pair[0]: template(pair[0], f"\n{pair[1]}")}},
        {"selection": 0, "parameters": 1, "refinement": 4, "review": 15}[pair[0]],
    )
)
CONFIG = st.one_of(
    st.integers(1, 30).map(lambda number: {"base": STRICT, "limits": Limits(history_chars=number)}),
    st.sampled_from(["de", "fr", "it"]).map(lambda language: {"language": language}),
    st.text("abc", min_size=1).map(lambda text: {"objective": f"Read the notes {text}"}),
    st.text("abc", min_size=1).map(lambda text: {"criteria": [f"names the day {text}"]}),
    st.text("abc", min_size=1).map(lambda text: {"context": text}),
).map(lambda change: ("config", change, None))
POLICIES = st.sampled_from(
    [{"deny": ("notes.*",)}, {"approvals": ("notes.read",)}, {"allow": ("other.*",), "missing_ok": True}]
).map(
    lambda change: ("policy", {"policy": Policy(**change)}, None)  # type: ignore[arg-type]
)
BUDGETS = st.integers(1, 2500).map(lambda number: ("budget", {"limits": Limits(token_budget=number)}, None))


@settings(max_examples=examples(40))
@given(change=st.one_of(REPLIES, TEXTS, PROMPTS, CONFIG, POLICIES, BUDGETS))
def test_any_single_change_is_the_cause_that_is_named(change: tuple[str, dict[str, Any], int | None]) -> None:
    """Whatever is changed alone is found, with its cause and, where it is known, at its row."""
    cause, options, seq = change
    with tempfile.TemporaryDirectory() as folder:
        found = parted(Path(folder), **options)
    assert not found.identical
    assert found.cause == cause, found
    assert seq is None or found.seq == seq, found


def test_tools_are_compared_as_a_resume_has_accepted_them(tmp_path: Path) -> None:
    """Two runs that were started with other words, and asked with the same, part by what their models said."""

    def engine(says: str, path: Path, *words: str) -> Engine:
        read = Tool(
            "notes.read",
            run=lambda: "nothing",
            description=says,
            parameters={"type": "object"},
            effect="read",
        )
        return Engine(ScriptedModel(words), [read], path, builtins=False, profile="native")

    runs = []
    for number, says in enumerate(("Read one.", "Read another.")):
        path = tmp_path / f"{number}.db"
        with engine(says, path) as host:
            run_id = host.submit("Read").run_id
        with engine("Read.", path, f"Answer {number}") as host:
            assert host.resume(run_id, accept_changes=True).state == "Done"
        runs.append((Journal(path, read_only=True), run_id))
    (journal, good), (theirs, bad) = runs
    with journal, theirs:
        found = diff(journal, good, bad, theirs)
        assert found.cause == "model_output" and found.field.startswith("outcome"), found


@pytest.mark.parametrize("changed", ["description", "parameters"])
def test_tools_that_a_provider_alone_is_told_of_make_two_runs_part(changed: str, tmp_path: Path) -> None:
    """No prompt holds them: a difference in them is that of the request, and not the model's."""

    def native(says: str, **more: Any) -> tuple[Journal, str]:
        given = {"description": "Read.", "parameters": {"type": "object"}, "effect": "read", **more}
        tools = [Tool("notes.read", run=lambda: "nothing", **given)]
        path = tmp_path / f"{says}.db"
        with Engine(ScriptedModel([says]), tools, path, builtins=False, profile="native") as host:
            return Journal(path, read_only=True), host.run("Read").run_id

    other = {"description": "Read a page.", "parameters": {"type": "object", "maxProperties": 0}}[changed]
    (journal, good), (theirs, bad) = native("Yes"), native("No", **{changed: other})
    with journal, theirs:
        found = diff(journal, good, bad, theirs)
        assert (found.seq, found.cause, found.parts) == (0, "config", ("tools: notes.read",))
        assert found.field == "request.tools.notes_read" and found.left.text != found.right.text
        bisected = bisect_runs(journal, good, bad, theirs)
        assert bisected.seq == 0
        assert [(part.part, part.name) for part in bisected.parts] == [("tool schema", "notes.read")]
