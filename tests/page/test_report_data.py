"""The data of a page: each figure is the journal's, each explanation that of `paor.why`, and nothing is in it that must not be."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Policy, ScriptedModel, tool, why
from paor.errors import EffectUnknown, UnknownRun, UsageError
from paor.events import TransitionTaken
from paor.testing import answer, call, call_tools, refine, review, step

from ..support.forging import forge
from ..support.journeys import JOURNEYS, Journey, play
from .inside import CHUNK, JournalView, RunView

NAMES = [journey.name for journey in JOURNEYS]


def everything(view: JournalView, run_id: str) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """Return the head of a run, all of its rows, and all of their texts."""
    head = view.part(f"run/{run_id}")
    rows: list[dict[str, Any]] = []
    texts: dict[str, Any] = {}
    for number in range(-(-len(head["story"]["rows"]) // CHUNK)):
        chunk = view.part(f"rows/{run_id}/{number}")
        assert chunk["first"] == len(rows)
        rows += chunk["rows"]
        texts |= chunk["texts"]
    return head, rows, texts


def chained(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Return the hash of the last row as a page computes it: from the roots' texts and the rows' canonical texts alone."""
    roots = {part["run"]: part["root"] for part in head["chain"]["parts"]}
    here, before = None, b""
    for number in roots if not rows else []:
        before = hashlib.sha256(before + roots[number].encode()).digest()
    for row in rows:
        if row["run"] != here:
            here = row["run"]
            before = hashlib.sha256(before + roots[here].encode()).digest()
        assert row["prev"] == before.hex()
        before = hashlib.sha256(before + row["canonical"].encode()).digest()
        assert row["hash"] == before.hex()
    return before.hex()


# -- every kind of run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("journey", JOURNEYS, ids=NAMES)
def test_every_figure_is_the_journals(journey: Journey, tmp_path: Path) -> None:
    """What rows used sums up to the counters, rows chain up to the head, and what the guards saw is what `why` says."""
    with journey.engine(tmp_path) as scripted:
        run_id = play(journey, scripted).run_id
        journal = scripted.journal
        head, rows, texts = everything(JournalView(journal), run_id)
        transitions, story = journal.transitions(run_id), head["story"]
        told, last = story["rows"], transitions[-1]
        assert len(told) == len(transitions) == len(rows)
        for name in ("tokens_in", "tokens_out", "cost_micro", "time_us"):
            assert sum(row[name] for row in told) == getattr(last, name)
        for name in ("at", "trigger", "source", "dest", "step"):
            assert [row[name] for row in told] == [getattr(row, name) for row in transitions]
        assert chained(head, rows) == head["chain"]["head"] == journal.run(run_id).head_hash.hex()
        assert head["replay"]["identical"] and not head["verify"]["defects"]
        known = {row["trigger"] for row in head["machine"]["rows"]}
        for row, transition in zip(rows, transitions, strict=True):
            found = why(journal, run_id, row["seq"])
            facts = {guard.guard: guard.fact for item in found.candidates for guard in item.guards}
            assert row["words"].items() <= facts.items()
            assert row["words"].keys() <= row["guards"].keys()
            assert found.told is not None and found.told.wire() == told[row["seq"]]
            assert row["guards"] == dict(transition.guards) and list(row["guards"]) == list(transition.guards)
            assert transition.trigger in known
            for name in (*row["prompt"], row["reply"], row["set"], row["answer"]):
                assert name is None or texts[name]["text"] is not None
        assert story["calls"] == [item.wire() for item in journal.calls(run_id)]
        used = {item["name"]: item["used"] for item in story["used"]}
        assert used["steps"] == last.step and used["tokens"] == last.tokens_in + last.tokens_out


@pytest.mark.parametrize("journey", JOURNEYS[:12], ids=NAMES[:12])
def test_a_view_read_on_row_by_row_is_a_view_read_at_once(journey: Journey, tmp_path: Path) -> None:
    """What a live page reads after each commit adds up to what a page of the whole run has."""
    with journey.engine(tmp_path) as scripted:
        live = JournalView(scripted.journal, live=True)
        seen: list[dict[str, Any]] = []

        def follow(event: Any) -> None:
            if isinstance(event, TransitionTaken) and not event.run_id.startswith("none"):
                seen.extend(live.run(event.run_id).entries(event.seq, 1))

        scripted.hooks = (*scripted.hooks, follow)
        run_id = play(journey, scripted).run_id
        whole = RunView(scripted.journal.reader, run_id)
        mine = live.run(run_id).entries(0)
        assert mine == whole.entries(0)
        assert live.part(f"run/{run_id}") | live.checks(run_id) == JournalView(scripted.journal).part(
            f"run/{run_id}"
        )
        assert live.part(f"rows/{run_id}/0") == JournalView(scripted.journal).part(f"rows/{run_id}/0")
        assert [item["trigger"] for item in mine] == [
            row.trigger for row in scripted.journal.transitions(run_id)
        ]
        assert seen


# -- one run that has everything -------------------------------------------------------------------------------------


@tool("desk.find", effect="read")
def find(order: str) -> str:
    """Find an order."""
    return f"order {order}"


@tool("desk.pay", effect="once")
def pay(order: str, amount: float) -> str:
    """Pay an order back."""
    raise EffectUnknown("the bank did not answer")


@tool("desk.purge", effect="once")
def purge() -> str:
    """Delete all orders."""
    return "gone"


def scripted_engine(path: Path, *replies: Any) -> Engine:
    """Return an engine with the desk's tools and these replies."""
    return Engine(
        ScriptedModel([item if isinstance(item, str) else json.dumps(item) for item in replies]),
        tools=[find, pay, purge],
        journal=path / "desk.db",
        policy=Policy(deny=("*.purge",), approvals=("desk.pay",)),
        limits=Limits(max_steps=9, token_budget=100_000, cost_budget=1.0),
    )


MET = [{"criterion": "the money is back", "met": True, "evidence": "receipt R-1"}]


@pytest.fixture
def desk(tmp_path: Path) -> tuple[Engine, str]:
    """Give an engine and a run that was refused a tool, asked again, approved by a person, in doubt, settled and done."""
    engine = scripted_engine(
        tmp_path,
        call("desk.purge")[0],
        call("desk.find", order="O-1")[0],
        "no JSON at all",
        call("desk.find", order="O-1")[1],
        refine("continue", reason="look again"),
        *call("desk.pay", order="O-1", amount=34.0),
        refine("stop", reason="paid", answer="Paid."),
        review("success", answer="Paid back.", criteria=MET),
    )
    run = engine.run("Pay O-1 back", ["the money is back"])
    for _ in range(3):
        if run.waiting_for is None:
            break
        doubt = run.waiting_for.kind == "in_doubt"
        given: dict[str, Any] = (
            {"outcome": "done", "result": "R-1"} if doubt else {"answer": {"approve": True}}
        )
        given |= {"question": run.waiting_for.id, "actor": "Dana", "reason": "I looked"}
        run = engine.resume(run.run_id, **given)
    assert run.state == "Done", run
    return engine, run.run_id


def test_a_run_with_everything(desk: tuple[Engine, str]) -> None:
    """Its flags, its calls with who decided, its criteria with their evidence, its limits and its policy."""
    engine, run_id = desk
    head, rows, _ = everything(JournalView(engine.journal), run_id)
    story = head["story"]
    marks = {mark for row in story["rows"] for mark in row["marks"]}
    assert marks == {"refused", "invalid", "waits", "answered", "in_doubt"}
    assert story["criteria"] == [{"criterion": "the money is back", "met": True, "evidence": "receipt R-1"}]
    assert story["answer"] == "Paid back." and story["run"]["status"] == "done"
    paid = next(item for item in story["calls"] if item["tool"] == "desk.pay")
    assert (
        head["exact"][str(paid["seq"])] == [["order", "O-1"], ["amount", "34.0"]] and paid["effect"] == "once"
    )
    assert [(item["decision"], item["actor"], item["reason"]) for item in paid["decided"]] == [
        ("approved", "Dana", "I looked"),
        ("done", "Dana", "I looked"),
    ]
    answered = [item["seq"] for item in paid["decided"]]
    assert [rows[seq]["canonical"].count('"trigger":"provide"') for seq in answered] == [1, 1]
    assert paid["key"] == f"{run_id}-{paid['action']}"
    policy = story["policy"]
    refused = [row for row in story["rows"] if "refused" in row["marks"]]
    assert [row["seq"] for row in refused] == [0] and "desk.purge" in refused[0]["said"]
    assert policy["never"] == ["*.purge"] and policy["asks"] == ["desk.pay"]
    assert ["desk.purge", "desk.purge is denied by policy"] in policy["denied"]
    assert "shipping" not in head["line"]["tools"] and head["line"]["refused"] == len(refused) == 1
    assert {"desk.find", "desk.pay"} <= set(head["line"]["tools"])  # a call that a person settled, too
    assert "desk.purge" not in policy["offered"]
    limits = {item["name"]: (item["used"], item["allowed"]) for item in story["used"]}
    assert limits["steps"][1] == 9 and limits["tokens"][1] == 100_000 and limits["cost"][1] == 1.0
    assert limits["questions"][0] == 1


def test_the_last_prompt_of_a_kind_is_named(desk: tuple[Engine, str]) -> None:
    """So that a page can show what is new in a prompt."""
    engine, run_id = desk
    head, rows, texts = everything(JournalView(engine.journal), run_id)
    kinds = [row["asked"] for row in head["story"]["rows"]]
    for row in rows:
        if row["previous"] is not None:
            assert kinds[row["previous"]] == kinds[row["seq"]] and rows[row["previous"]]["prompt"]
            assert kinds[row["seq"]] not in kinds[row["previous"] + 1 : row["seq"]]
        elif row["prompt"]:
            assert kinds[row["seq"]] not in kinds[: row["seq"]]
    assert "Pay O-1 back" in texts[rows[0]["prompt"][1]]["text"]


def test_earlier_rounds_are_shown_message_by_message(tmp_path: Path) -> None:
    """Each with its role and a text of its own."""
    replies: list[Any] = [call_tools(step("desk.find", order="O-1")), "It is in Leeds.", "Bye."]
    with Engine(
        ScriptedModel(replies, calls_tools=True), [find], Journal(tmp_path / "runs.db", "off")
    ) as host:
        for words in ("Where is O-1?", "Say bye"):
            run_id = host.run(words, conversation="c").run_id
        _, rows, texts = everything(JournalView(host.journal), run_id)
    told = [
        (role, texts[name]["text"]) for role, name in zip(rows[0]["roles"], rows[0]["prompt"], strict=True)
    ]
    assert [role for role, _ in told] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert told[1][1] == "Where is O-1?" and told[4][1] == "It is in Leeds." and told[5][1] == "Say bye"


def test_what_waits_is_in_the_inbox(tmp_path: Path) -> None:
    """The exact call, why it asks, what the answer counts for, and the command that gives it."""
    engine = scripted_engine(tmp_path, *call("desk.pay", order="O-2", amount=1.5))
    waiting = engine.run("Pay O-2 back", metadata={"desk": "north"})
    view = JournalView(engine.journal)
    (item,) = view.waits()
    assert view.index()["waits"] == [item]
    assert item["run"] == waiting.run_id and waiting.waiting_for and item["name"] == waiting.waiting_for.id
    assert item["arguments"] == [["order", "O-2"], ["amount", "1.5"]] and item["effect"] == "once"
    assert item["kind"] == "approval" and item["why"] == [
        "desk.pay needs an approval, and nobody has given it yet"
    ]
    assert item["description"] == "Pay an order back." and item["call_key"]
    assert json.loads(item["given"]) == {"order": "O-2", "amount": 1.5} and item["metadata"] == {
        "desk": "north"
    }
    assert item["command"] == f"paor resume {waiting.run_id} --answer yes --journal desk.db  # or no"
    live = JournalView(engine.journal, live=True)
    assert str(tmp_path / "desk.db") in live.waits()[0]["command"]
    line = view.line(waiting.run_id)
    assert line["waits_for"] == "approval" and line["tools"] == ["desk.pay"]


def test_a_run_shows_which_runs_it_has_called_and_who_has_called_it(tmp_path: Path) -> None:
    """A run as a tool: its line names the caller and the action, the caller's page lists it."""
    clerk = scripted_engine(tmp_path, answer("It is paid."))
    replies = [*call("run.clerk", objective="Pay"), refine("stop", answer="Done.")]
    desk = Engine(ScriptedModel(replies), [clerk.as_tool("clerk", "Pays.")], journal=":memory:")
    outer = desk.run("Have it paid").run_id
    view = JournalView(desk.journal)
    (inner,) = view.part(f"run/{outer}")["tasks"]
    assert inner["workflow"] == {"id": outer, "action": 1} and inner["status"] == "done"
    assert view.line(outer)["workflow"] is None


# -- forks, erasures, redaction --------------------------------------------------------------------------------------


def test_a_fork_shows_the_rows_that_it_shares(desk: tuple[Engine, str]) -> None:
    """As rows of their own chain, marked as shared, and the parent names its fork."""
    engine, run_id = desk
    forked = engine.fork(run_id, at_seq=3)
    view = JournalView(engine.journal)
    head, rows, _ = everything(view, forked.run_id)
    assert chained(head, rows) == head["chain"]["head"]
    assert [part["first"] for part in head["chain"]["parts"]] == [0, 4] and len(rows) > 4
    assert head["line"]["parent"] == [run_id, 3]
    assert view.part(f"run/{run_id}")["forks"] == [{"id": forked.run_id, "seq": 3}]


def test_what_was_erased_is_nowhere(desk: tuple[Engine, str]) -> None:
    """Its rows stand with their values; every text is None, and the page says when and why."""
    engine, run_id = desk
    engine.journal.erase(run_id, reason="T-7")
    head, rows, texts = everything(JournalView(engine.journal), run_id)
    told = json.dumps([head, rows, texts])
    for word in ("Pay O-1", "O-1", "Dana", "receipt", "34.0", "I looked", "bank did not"):
        assert word not in told, word
    assert all(item["text"] is None for item in texts.values())
    assert chained(head, rows) == head["chain"]["head"]
    assert head["story"]["erasures"][0]["reason"] == "T-7" and head["line"]["objective"] is None
    assert all(row["erased"] for row in rows)
    assert all(row["note"] and row["words"] == {} for row in rows) and any(row["guards"] for row in rows)
    assert (
        not head["replay"]["identical"] and head["replay"]["unchecked"] and not head["replay"]["divergences"]
    )


def test_a_row_that_lacks_one_text_is_marked(desk: tuple[Engine, str]) -> None:
    """A prompt, a reply or what was set: the rows that name it, and no other; a fork's row by the text that its parent stored."""
    engine, run_id = desk
    forked = engine.fork(run_id, at_seq=3, drive=False).run_id
    rows = engine.journal.transitions(run_id)
    reply = rows[2].outcome["reply"]["n"]
    engine.journal.erase(run_id, payloads=[reply], force=True, others="keep")
    view = JournalView(engine.journal)
    marked = [row["erased"] for row in view.part(f"rows/{run_id}/0")["rows"]]
    assert marked == [row.seq == 2 for row in rows]
    shared = view.part(f"rows/{forked}/0")["rows"]
    assert [row["erased"] for row in shared] == [seq == 2 for seq in range(4)]


def test_all_defects_are_counted_and_the_first_are_named(desk: tuple[Engine, str], tmp_path: Path) -> None:
    """However many there are."""
    engine, run_id = desk
    engine.journal.close()
    with closing(forge(tmp_path / "desk.db")) as file, file:
        file.execute("UPDATE payloads SET body = body || ' ' WHERE typeof(body) = 'text'")
    with Journal(tmp_path / "desk.db", read_only=True) as journal:
        found = JournalView(journal).run(run_id).checks()["verify"]
        known = [item for item in journal.verify() if item.run_id == run_id]
    assert found["count"] == len(known) > len(found["defects"]) == 50


def test_keys_of_the_environment_are_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a prompt, an argument, a result or the objective, and neither backwards."""
    secret = "sk-test-4a7Bd91kQz55"
    engine = scripted_engine(
        tmp_path,
        *call("desk.find", order=secret),
        refine("stop", reason=f"saw {secret[::-1]}", answer=f"The order is {secret}"),
    )
    named = {
        "root": secret,
        "canonical": secret,
        "head": secret,
        "svg": secret,
        secret: "a key",
        "list": [1, secret],
    }
    run_id = engine.run(f"Find {secret}", metadata=named).run_id
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    view = JournalView(engine.journal)
    told = json.dumps([view.index(), *everything(view, run_id)])
    assert [text in told for text in (secret, secret[::-1], "[secret redacted]")] == [False, False, True]
    head, rows, _ = everything(view, run_id)
    assert chained(head, rows) == head["chain"]["head"]


def test_a_fault_is_marked(tmp_path: Path) -> None:
    """Of a model, and of a tool."""
    run_id = scripted_engine(tmp_path).run("Nothing to say").run_id
    with Journal(tmp_path / "desk.db") as journal:
        head, rows, _ = everything(JournalView(journal), run_id)
    assert head["story"]["run"]["status"] == "failed" and len(rows) == 1
    last = head["story"]["rows"][-1]
    assert list(last["marks"]) == ["fault"] and "fault script_exhausted" in last["came"]


# -- what there is not -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "",
        "run",
        "run/",
        "rows",
        "rows/{id}",
        "rows/{id}/",
        "rows/{id}/-1",
        "rows/{id}/9",
        "rows/{id}/x",
        "rows/{id}/1/2",
        "Index",
        "run/{id}/x",
        "run/{id}/",
        "run/{id}/0/0",
        "../index",
        "rows/{id}/\u0661",
        "rows/{id}/99999999999",
    ],
)
def test_a_part_that_there_is_not(name: str, desk: tuple[Engine, str]) -> None:
    """One clear line."""
    engine, run_id = desk
    with pytest.raises((UsageError, UnknownRun)):
        JournalView(engine.journal).part(name.replace("{id}", run_id))


def test_a_changed_row_is_told(desk: tuple[Engine, str], tmp_path: Path) -> None:
    """The head names the defect, the rows no longer chain."""
    engine, run_id = desk
    engine.journal.close()
    with closing(forge(tmp_path / "desk.db")) as file, file:
        file.execute("UPDATE transitions SET at = at + 1 WHERE seq = 4")
    with Journal(tmp_path / "desk.db", read_only=True) as journal:
        head, rows, _ = everything(JournalView(journal), run_id)
    assert any("4" in item for item in head["verify"]["defects"])
    with pytest.raises(AssertionError):
        chained(head, rows)
