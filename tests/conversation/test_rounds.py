"""A run in a conversation is a round, and is told of those before it: what, in which form, and at which cost."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Reply, ScriptedModel, Task, Usage, replay, tool
from paor.errors import UsageError
from paor.testing import SteppingClock, call_tools, step

from .talk import Clerk, desk, find, holds

MODES: dict[str, dict[str, Any]] = {
    "native": {"profile": "native"},
    "two_stage": {"profile": "two_stage"},
    "strict": {"profile": "strict"},
    "single": {"stage": "single"},
    "planner": {"mode": "planner"},
    "batch": {"mode": "batch"},
}
EACH = pytest.mark.parametrize("mode", MODES)
pytestmark = pytest.mark.filterwarnings("ignore:mode='batch'")


@EACH
def test_every_mode_is_told_what_user_and_model_have_said(mode: str, tmp_path: Path) -> None:
    """Whole, and in every request of the round's first kind."""
    model, long = Clerk(), "Say " + "word " * 300
    with desk(tmp_path / "runs.db", model) as host:
        for words in ("Say my name is Ann", long, "Say bye"):
            result = host.run(words, conversation="c", **MODES[mode])
            assert (
                result.status == "done" and result.objective == words.strip() and result.conversation == "c"
            )
        told = model.told()
        assert "Say my name is Ann" in told and "You said: Say my name is Ann" in told
        assert f"You said: {long.strip()}" in told
        assert [row.round for row in host.journal.runs()] == [3, 2, 1]
        holds(host.journal)


@EACH
def test_a_transcript_is_told_in_every_mode(mode: str, tmp_path: Path) -> None:
    """Of every role; and the rounds after are told of it, too."""
    model = Clerk()
    transcript = [
        {"role": "user", "content": "My order is O-77"},
        {"role": "assistant", "content": "Noted as seventy-seven"},
        {"role": "tool", "content": "ledger says paid"},
        {"role": "system", "content": "be brief about ledgers"},
    ]
    with desk(tmp_path / "runs.db", model) as host:
        host.run("Say it", transcript=transcript, conversation="c", **MODES[mode])
        assert all(turn["content"] in model.told() for turn in transcript)
        host.run("Say it again", conversation="c", **MODES[mode])
        assert all(turn["content"] in model.told() for turn in transcript[:2])
        holds(host.journal)


def test_a_round_of_calls_is_told_as_it_was(tmp_path: Path) -> None:
    """The model's call and its result, as messages of the roles that they had."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        host.run("find O-1", conversation="c")
        host.run("Say it again", conversation="c")
        roles = [message.role for message in model.calls[-1].messages]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
        _, asked, made, result, answer, _ = model.calls[-1].messages
        assert (asked.text, made.calls[0].arguments) == ("find O-1", {"order_id": "O-1"})
        assert (result.text, answer.text) == ("Order O-1 is in Leeds.", "Found: Order O-1 is in Leeds.")
        assert made.calls[0].id == result.call_id
        holds(host.journal)


def test_results_of_an_earlier_round_become_their_summaries_before_it_goes(tmp_path: Path) -> None:
    """Where the context is full: its words stay, and the round after is told the same."""

    @tool("orders.all", effect="read", repeat_allowed=True)
    def listed(page: int) -> str:
        """List orders."""
        return f"Page {page}: " + f"order {page} is in Leeds; " * 200

    def calls(*pages: int) -> list[Any]:
        return [call_tools(step("orders.all", page=page)) for page in pages]

    seen: list[Any] = []

    class Seen(ScriptedModel):
        def ask(self, call: Any) -> Reply:
            seen.append(call)
            return super().ask(call)

    model = Seen([*calls(1, 2, 3), "All seen.", *calls(4), "More seen.", "Bye."], calls_tools=True)
    limits = Limits(context_tokens=4_000)
    with Engine(model, [listed], Journal(tmp_path / "runs.db", "off"), builtins=False, limits=limits) as host:
        for words in ("Look at all", "Look at more", "Say bye"):
            assert host.run(words, conversation="c").status == "done"
        for call in seen[-2:]:
            told = "\n".join(message.body for message in call.messages)
            assert "Look at all" in told and "All seen." in told and "order 1 is in Leeds; " * 40 not in told
            assert told.count("(shortened to save room") >= 3
        holds(host.journal)


def test_of_the_users_message_the_words_alone_are_told_as_history(tmp_path: Path) -> None:
    """What stood around them in a prompt with a provider's own calls goes on as a message only; nor is it taken for a round of its own."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        said = [{"role": "user", "content": "Hi there"}]
        host.run("Say a", ["It is short"], transcript=said, conversation="c", profile="native")
        host.run("Say b", conversation="c", profile="native")
        assert "It is short" in model.told()
        host.run("Say c", conversation="c", profile="two_stage")
        assert "user: Say a\n" in model.told() and "It is short" not in model.told()
        assert model.told().count("- Earlier round") == 2
        holds(host.journal)


def test_calls_that_were_erased_are_told_without_their_results(tmp_path: Path) -> None:
    """No message of a tool stands without its call."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        first = host.run("find O-1", conversation="c").run_id
        reply = next(
            row.outcome["reply"] for row in host.journal.transitions(first) if "reply" in row.outcome
        )
        host.journal.erase(first, payloads=[reply["n"]], others="keep")
        host.run("Say b", conversation="c")
        assert [message.role for message in model.calls[-1].messages] == [
            "system",
            "user",
            "assistant",
            "user",
        ]
        holds(host.journal)


def test_a_provider_gets_its_own_turns_back_in_later_rounds(tmp_path: Path) -> None:
    """And another model gets them without."""
    parts = ({"type": "thinking", "thinking": "hm", "signature": "s1"}, {"type": "text", "text": "One"})
    model = ScriptedModel(
        [Reply("One", Usage(1, 1, 1), parts=parts, api="a"), "Two", "Three"], calls_tools=True
    )
    seen: list[Any] = []

    class Seen(ScriptedModel):
        def ask(self, call: Any) -> Reply:
            seen.append(call)
            return super().ask(call)

    model.__class__ = Seen
    other = Seen(["-", "-", "Three"], calls_tools=True, name="other")
    with desk(tmp_path / "runs.db", model) as host:
        host.run("Say one", conversation="c")
        host.run("Say two", conversation="c")
        assert [message.parts for message in seen[-1].messages if message.role == "assistant"] == [parts]
        host.run("Say three", conversation="c", model=other)
        assert [message.parts for message in seen[-1].messages if message.role == "assistant"] == [(), ()]
        holds(host.journal)


def test_another_mode_goes_on_with_the_same_conversation(tmp_path: Path) -> None:
    """Each after each: what one has said, the others are told."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        host.run("find O-1", conversation="c", profile="native")
        for number, mode in enumerate((*MODES, *reversed(MODES))):
            host.run(f"Say {number}", conversation="c", **MODES[mode])
            told = model.told()
            assert "Order O-1 is in Leeds." in told and "find O-1" in told
            assert all(f"You said: Say {earlier}" in told for earlier in range(number))
        holds(host.journal)


def test_a_round_is_told_newest_first_and_its_own_actions_before(tmp_path: Path) -> None:
    """In the documents' own protocol, where history is one section."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        for number in range(3):
            host.run(f"Say {number}", conversation="c", profile="strict")
        told = model.calls[-1].messages[-1].text
        assert told.index("user: Say 1") < told.index("user: Say 0")


def test_requests_begin_with_those_of_the_round_before(tmp_path: Path) -> None:
    """To the byte, over two hundred rounds, but for a cut: then in one block, to a part of what there was."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model, limits=Limits(context_tokens=8_000)) as host:
        for number in range(200):
            host.run(f"Say {number} {'and so on ' * 8}", conversation="c")
    bodies = [[message.body for message in call.messages] for call in model.calls]
    cuts, shared, whole = 0, 0, 0
    for before, after in pairwise(bodies):
        if after[: len(before)] == before:
            shared += sum(map(len, before))
        else:
            cuts += 1
            assert after[1].startswith("Say") and after[1] in before, "a cut leaves out whole rounds"
        whole += sum(map(len, after))
    assert len(model.calls) == 200 and 1 <= cuts <= 6 and shared / whole > 0.9
    assert max(sum(map(len, body)) for body in bodies) < 8_000 * 4


def test_a_round_of_a_long_conversation_stores_no_more_than_its_context(tmp_path: Path) -> None:
    """So the cost of a round has a bound, whatever number it has."""
    with desk(tmp_path / "runs.db", limits=Limits(context_tokens=4_000)) as host:
        sizes = []
        for number in range(60):
            run = host.run(f"Say {number} {'and so on ' * 10}", conversation="c").run_id
            row = host.journal.run(run)
            sizes.append(
                sum(len(payload.body or "") for payload in host.journal.reader.iterate_payloads(row.run, 99))
            )
        assert max(sizes[30:]) <= max(sizes[:30]) + 200, "but for the digits of the numbers"


def test_short_rounds_are_held_as_one_text(tmp_path: Path) -> None:
    """With the runs in which they were said, so that a round copies and reads one payload for all of them."""
    with desk(tmp_path / "runs.db") as host:
        runs = [host.run(f"Say {number}", conversation="c").run_id for number in range(13)]
        (told,) = host.journal.spec(runs[-1]).earlier
        assert told.runs == tuple(runs[:-1]) and len(list(told.places)) == 1
        host.run("Say " + "long " * 1_000, conversation="c")
        last = host.run("Say it", conversation="c").run_id
        assert [len(item.runs) for item in host.journal.spec(last).earlier] == [13, 1], "a long one is alone"
        holds(host.journal)


@pytest.mark.whole
@pytest.mark.parametrize("mode", ["native", "two_stage"])
def test_the_two_hundredth_round_costs_about_what_the_fifth_does(mode: str, tmp_path: Path) -> None:
    """Less than twice as much, counted in calls of functions, with the limits that a run has by itself."""

    def cost(number: int) -> int:
        calls = [0]

        def called(_frame: Any, event: str, _argument: Any) -> None:
            calls[0] += event in ("call", "c_call")

        sys.setprofile(called)
        try:
            host.run(f"Say {number} {'and so on ' * 18}", conversation="c", **MODES[mode])
        finally:
            sys.setprofile(None)
        return calls[0]

    with desk(tmp_path / "runs.db") as host:
        costs = {}
        for number in range(1, 201):
            if number in (4, 5, 6, 198, 199, 200):
                costs[number] = cost(number)
            else:
                host.run(f"Say {number} {'and so on ' * 18}", conversation="c", **MODES[mode])
        assert host.journal.runs(limit=1)[0].round == 200
    assert min(costs[number] for number in (198, 199, 200)) < 2 * min(costs[number] for number in (4, 5, 6))


def test_a_round_holds_each_text_that_it_is_told_once(tmp_path: Path) -> None:
    """Whether it is the user's or the model's, and whichever request shows it."""
    with desk(tmp_path / "runs.db") as host:
        for number in range(3):
            run = host.run(f"Say {number}", conversation="c").run_id
        reader = host.journal.reader
        held = str([payload.body for payload in reader.iterate_payloads(reader.run(run).run, 99)])
        told = [f"{begin}Say {number}" for number in range(2) for begin in ("", "You said: ")]
        assert [held.count(f'"{text}"') for text in told] == [1] * 4


def test_a_script_counts_its_replies_over_the_conversation(tmp_path: Path) -> None:
    """Also where another engine goes on with it; a run in none begins anew."""
    replies = ["one", "two", "three"]
    for number in range(3):
        with desk(tmp_path / "runs.db", ScriptedModel(replies, calls_tools=True)) as host:
            assert host.run("Say", conversation="c").answer == replies[number]
            assert host.run("Say").answer == "one"


def test_a_branch_goes_on_from_any_round(tmp_path: Path) -> None:
    """As its own conversation; the other one goes on as if there were none."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        runs = [host.run(f"Say {number}", conversation="c").run_id for number in range(3)]
        branch = host.run("Say other", conversation="d", after=runs[1][:18])
        assert "Say 1" in model.told() and "Say 2" not in model.told()
        assert host.journal.run(branch.run_id).round == 3
        host.run("Say on", conversation="c")
        assert "Say 2" in model.told() and "Say other" not in model.told()
        with pytest.raises(UsageError, match="its newest round"):
            host.run("Say no", conversation="c", after=runs[0])
        fork = host.fork(runs[2], 0)
        assert host.journal.run(fork.run_id).conversation is None
        host.run("Say after the fork", conversation="e", after=fork.run_id)
        assert "Say 2" in model.told()
        holds(host.journal)


@pytest.mark.parametrize("wrong", ["", " ", 5, "x" * 201, "a\nb"])
def test_a_conversation_has_a_printable_name(wrong: Any, tmp_path: Path) -> None:
    """And what belongs to one is refused without."""
    with desk(tmp_path / "runs.db") as host:
        with pytest.raises(UsageError, match="conversation"):
            host.run("Say", conversation=wrong)
        for options in ({"queue": True}, {"after": "x"}):
            with pytest.raises(UsageError, match="belong to a start with a conversation"):
                host.run("Say", **options)
        assert host.journal.runs() == []


def test_every_start_takes_a_conversation(tmp_path: Path) -> None:
    """Sync, async, streamed, submitted, and as a workflow of tasks."""
    model = Clerk()

    async def rounds(host: Engine) -> None:
        await host.arun("Say a", conversation="c")
        async for _ in host.astream("Say b", conversation="c"):
            pass
        await host.arun_workflow("Say c", tasks=[Task("Say d")], conversation="c")

    with desk(tmp_path / "runs.db", model) as host:
        host.run("Say e", conversation="c")
        list(host.stream("Say f", conversation="c"))
        asyncio.run(rounds(host))
        host.run_workflow("Say g", tasks=[Task("Say h"), Task("Say i")], conversation="c")
        queued = host.submit("Say j", conversation="c")
        host.resume(queued.run_id)
        assert [
            message.text for message in host.journal.conversation("c").messages if message.role == "user"
        ] == [f"Say {letter}" for letter in "efabcgj"]
        assert all(f"Say {letter}" in model.told() for letter in "efabcgj")
        holds(host.journal)


def test_documents_of_the_rounds_before_are_there(tmp_path: Path) -> None:
    """By their labels, which name the round."""
    with desk(tmp_path / "runs.db") as host:
        host.run("Say a", documents=[("one.txt", "first")], conversation="c")
        host.run("Say b", documents=[("two.txt", "second")], conversation="c")
        last = host.run("Say c", conversation="c")
        found = [
            (item.label, host.journal.document(last.run_id, item.number))
            for item in host.journal.documents(last.run_id)
        ]
        assert found == [("round1_task1_action0_input", "first"), ("round2_task1_action0_input", "second")]
        holds(host.journal)


def test_a_round_that_failed_or_was_cancelled_is_told(tmp_path: Path) -> None:
    """The user's words are lost in no case."""
    model = Clerk()
    with desk(tmp_path / "runs.db", ScriptedModel([])) as host:
        assert host.run("Say lost", conversation="c").status == "failed"
        host.model = model
        host.run("Say on", conversation="c")
        assert "Say lost" in model.told()
        holds(host.journal)


def test_a_fallback_is_the_same_round(tmp_path: Path) -> None:
    """And what failed is not told a second time."""

    class Fails(Clerk):
        def _said(self, call: Any) -> str:
            return "{" if call.kind in ("selection", "turn") else super()._said(call)

    model = Fails()
    with desk(tmp_path / "runs.db", model) as host:
        host.run("Say a", conversation="c", mode="planner")
        result = host.run("Say b", conversation="c", profile="two_stage", fallback="batch")
        assert result.status == "done" and "Say a" in model.told()
        assert [row.round for row in host.journal.runs(conversation="c")] == [2, 2, 1]
        host.run("Say c", conversation="c", mode="planner")
        assert model.told().count("user: Say b") == 1
        holds(host.journal)


def test_what_it_is_told_is_the_runs_own(tmp_path: Path) -> None:
    """It replays, and is exported and imported, alone."""
    from ..support.inside import line_bytes

    with desk(tmp_path / "runs.db") as host:
        for number in range(3):
            last = host.run(f"Say {number}", conversation="c").run_id
        lines = [line_bytes(line) for line in host.journal.export(last)]
    with Journal(tmp_path / "other.db") as other:
        other.import_lines(lines)
        assert other.verify() == [] and replay(other, last).identical
        assert [row.run_id for row in other.conversation("c").runs] == [last]
    with desk(tmp_path / "other.db", model := Clerk()) as host:
        host.run("Say on", conversation="c")
        assert all(f"Say {number}" in model.told() for number in range(3)), "it goes on there"
        holds(host.journal)


def test_a_kept_clock_makes_the_same_rounds(tmp_path: Path) -> None:
    """The same words come to the same bytes, whatever file they are in."""
    from paor.testing import SeededIds

    exports = []
    for name in ("a", "b"):
        journal = Journal(tmp_path / f"{name}.db", "off")
        with Engine(
            Clerk(), [find], journal, builtins=False, clock=SteppingClock(), ids=SeededIds("x")
        ) as host:
            for number in range(3):
                host.run(f"find O-{number}", conversation="c")
            exports.append(json.dumps([list(journal.export(row.run_id)) for row in journal.runs()]))
    assert exports[0] == exports[1]
