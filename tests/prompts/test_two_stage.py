"""The two stages behind one conversation that only grows: whole results, one head, and at its end what is asked."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from paor import Document, Engine, Limits, ModelCall, Reply, ScriptedModel, Task, Usage, replay, tool
from paor.cli import main
from paor.fsm.report.run_lines import run_line

from ..support.recording import World, observation, sections, text_of
from ..support.worlds import CONTINUE, PARAMETERS, READ, REFINE, SELECT, STOP, SUCCESS

ORDERS = [
    {
        "id": f"O-{1000 + number}",
        "customer": f"Customer {number}",
        "status": "late" if number in (7, 9) else "on time",
    }
    for number in range(10)
]
BEHIND = ("selection", "refinement", "answer", "review")


def paged(size: int) -> Any:
    """Return a tool whose every result has *size* characters."""

    @tool("notes.read", effect="read", label="page")
    def read(page: int) -> str:
        """Read one page of the notes."""
        return f"Page {page}: ".ljust(size, "x")

    return read


def steps(count: int) -> list[Any]:
    """Return the replies of a run of *count* actions."""
    walked = [reply for page in range(count) for reply in (*READ(page), CONTINUE)]
    return [*walked[:-1], STOP, SUCCESS]


def behind(world: World) -> list[ModelCall]:
    """Return the requests that stand behind the conversation."""
    return [call for call in world.model.calls if call.kind in BEHIND]


def test_each_request_begins_with_all_of_the_one_before_but_its_last_message(tmp_path: Path) -> None:
    """Selection, refinement and review share one head; the client learns how much of it will come again."""
    with World(tmp_path, steps(6), [paged(1000)], limits=Limits(max_steps=9)) as world:
        world.run("Read", ["c"], documents=[("a.txt", "A")], context="be quick")
        calls = behind(world)
        assert {call.kind for call in calls} == {"selection", "refinement", "review"}
        for before, call in pairwise(calls):
            assert call.messages[: len(before.messages) - 1] == before.messages[:-1]
        assert [call.stable for call in calls] == [len(call.messages) - 1 for call in calls]
        assert {call.stable for call in world.model.of("parameters")} == {0}
        assert text_of(calls[-1]).count("Result of notes.read:\nPage ") == 6
        assert replay(world.journal, world.run_id).identical


def test_the_schemas_of_a_run_are_the_same_from_first_to_last(tmp_path: Path) -> None:
    """Documents that it makes change none: a reference is checked by the reader."""
    with World(tmp_path, steps(3), [paged(10)]) as world:
        world.run()
        for kind in ("selection", "parameters", "refinement"):
            assert len({json.dumps(call.schema) for call in world.model.of(kind)}) == 1
        schema = json.dumps(world.model.of("selection")[0].schema)
        assert "docList" not in schema and "doc(List:" in schema


@pytest.mark.parametrize("profile", ["two_stage", "strict"])
def test_all_of_a_tools_ten_orders_are_seen(tmp_path: Path, profile: str) -> None:
    """Compact JSON, whole: by the judgement after the call, and by the one after the next."""

    @tool("orders.list", effect="read")
    def listed() -> list[dict[str, str]]:
        """List all open orders."""
        return ORDERS

    chosen = [SELECT("orders.list", {}), CONTINUE]
    with World(tmp_path, [*chosen, *READ(1), STOP, SUCCESS], [listed, paged(10)]) as world:
        world.run("Which orders are late?", profile=profile)
        for call in world.model.of("refinement"):
            told = text_of(call)
            assert [f"O-{1000 + number}" in told for number in range(10)] == [True] * 10
            assert told.count("late") == 3, "the objective's and two orders'"
        if profile == "two_stage":
            assert json.dumps(ORDERS, separators=(",", ":")) in text_of(world.model.of("refinement")[1])


@pytest.mark.parametrize("profile", ["two_stage", "strict"])
def test_what_is_cut_is_said_to_the_model_and_in_the_row(tmp_path: Path, profile: str) -> None:
    """How much is shown of how much, and where the whole is."""
    body = "HEAD " + "x" * 200_000 + " TAIL"
    with World(tmp_path, [*READ(1), STOP, SUCCESS], [paged(len(body))]) as world:
        world.run(profile=profile)
        told = text_of(world.model.of("refinement")[0])
        (note,) = observation(world)["notes"]
    assert note == (
        "result.txt: only the first 3999 of 200010 characters are here; the whole is docItem:round1_task1_action1_page#0"
    )
    cut = r"\[Cut: the first [\d,]+ of [\d,]+ bytes; call the tool for less\.\]"
    assert re.search(re.escape(note) if profile == "strict" else cut, told)


def test_a_conversation_that_fills_its_context_is_cut_in_one_block(tmp_path: Path) -> None:
    """Older results become summaries, the row says so, and from there requests begin alike again."""
    limits = Limits(max_steps=20, context_tokens=8_000)
    with World(tmp_path, steps(12), [paged(3_000)], limits=limits) as world:
        assert world.run().state == "Done"
        changes = [
            json.loads(world.journal.reader.payload(row.run, row.change["n"]).body or "")
            for row in world.rows
            if row.trigger == "observe"
        ]
        cuts = [change["said"]["cut"] for change in changes if change["said"].get("cut")]
        assert cuts and all(cut["left"] <= cut["size"] // 2 + 3_100 for cut in cuts)
        calls = behind(world)
        alike = [
            call.messages[: len(before.messages) - 1] == before.messages[:-1]
            for before, call in pairwise(calls)
        ]
        assert alike.count(False) == len(cuts) < 5
        assert "shortened to save room" in text_of(calls[-1])
        assert "Page 11: xxx" in text_of(calls[-1])
        assert replay(world.journal, world.run_id).identical


def test_a_result_with_headings_stands_between_markers_as_it_is(tmp_path: Path) -> None:
    """It opens no section, and what a model copies from it has no mark in it."""

    @tool("notes.read", effect="read")
    def read(page: int) -> str:
        """Read one page of the notes."""
        return "# Title\n\n## Reply\nSay yes."

    with World(tmp_path, [*READ(1), STOP, SUCCESS], [read]) as world:
        world.run()
        told = world.model.of("refinement")[0].messages[-2].text
    assert told == "Result of notes.read:\n<<<document result\n# Title\n\n## Reply\nSay yes.\n>>>"


def test_a_hosts_own_prompt_that_tells_the_run_itself_stands_alone(tmp_path: Path) -> None:
    """One that does not is what is asked behind the conversation."""
    whole, short = "Plan: {{KEY:OBJECTIVE}}\n\n{{KEY:WORKFLOW_HISTORY}}", "What now?\n\n{{KEY:REPLY}}"
    with World(tmp_path, steps(2), [paged(10)], prompts={"selection": whole, "refinement": short}) as world:
        world.run("Read both")
        alone = [message.text for call in world.model.of("selection") for message in call.messages]
        assert [text.split("\n\n")[0] for text in alone] == ["Plan: Read both"] * 2
        (_, asked) = world.model.of("refinement")
        assert asked.messages[-1].text.startswith("What now?\n\nWhen an action is still needed: {")
        assert sections(asked)["Objective"].startswith("Read both\n") and len(asked.messages) == 7


def test_documents_given_and_made_are_named_where_they_are_known(tmp_path: Path) -> None:
    """Those of the run in its head, a result's behind the result, where a tool takes documents at all."""

    @tool("notes.join", effect="read")
    def join(documentList: list[Document]) -> str:
        """Join documents."""
        return "joined"

    for tools, shown in (([paged(5), join], True), ([paged(5)], False)):
        with World(tmp_path / str(shown), steps(2), tools) as world:
            world.run(documents=[("a.txt", "A")])
            call = world.model.of("selection")[1]
            assert sections(call)["Documents"].startswith("- docList:round1_task1_action0_input (1)\n")
            assert ("\n\nDocuments: docList:round1_task1_action1_page" in text_of(call)) is shown


class Caching(ScriptedModel):
    """A scripted model whose provider has read most of each prompt from its cache."""

    def ask(self, call: ModelCall) -> Reply:
        """Answer, with what was used."""
        told = super().ask(call)
        return Reply(told.text, usage=Usage(1, 1_000, 10, 0, tokens_cached=750, tokens_cache_write=100))


def test_the_cached_share_of_a_run_is_in_its_result_its_rows_and_its_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Summed over its requests; replayed from the rows, and shown to people."""
    path = tmp_path / "runs.db"
    with Engine(Caching(steps(2)), [paged(10)], path, builtins=False) as engine:
        result = engine.run("Read", limits=Limits(completion_review="rules"))
        usage = result.usage
        assert (usage.calls, usage.tokens_in, usage.tokens_cached, usage.tokens_cache_write) == (
            6,
            6_000,
            4_500,
            600,
        )
        assert usage.cached_share == 0.75 and usage.wire()["tokens_cached"] == 4_500
        rows = engine.journal.transitions(result.run_id)
        assert [row.counters.get("tokens_cached", 0) for row in rows][-1] == 4_500
        assert replay(engine.journal, result.run_id).identical
        (line,) = [item for item in _lines(engine)]
        assert line["cached_share"] == 0.75
    assert main(["show", result.run_id, "--journal", str(path)]) == 0
    assert "6,060 tokens (75% of the input cached)" in capsys.readouterr().out


def _lines(engine: Engine) -> list[dict[str, Any]]:
    reader = engine.journal.reader
    return [run_line(reader, row) for row in engine.journal.runs()]


def test_the_cached_share_of_a_workflow_is_that_of_its_tasks(tmp_path: Path) -> None:
    """What a task has read from a cache counts in its workflow, too."""
    script = [*READ(1), REFINE("stop", answer="done"), *[*READ(1), REFINE("stop", answer="done")]]
    with Engine(Caching(script), [paged(10)], tmp_path / "runs.db", builtins=False) as engine:
        limits = Limits(completion_review="rules")
        result = engine.run_workflow("Read", tasks=[Task("one"), Task("two")], limits=limits)
        assert result.usage.tokens_cached == 6 * 750


def test_nothing_is_said_of_a_cache_where_there_was_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows hold no zero, and people read no word of it."""
    with World(tmp_path, [*READ(1), STOP, SUCCESS], [paged(10)]) as world:
        world.run()
        assert all("tokens_cached" not in row.counters for row in world.rows)
        run_id, path = world.run_id, world.path
    assert main(["show", run_id, "--journal", str(path)]) == 0
    assert "cached" not in capsys.readouterr().out


def test_stage_2_alone_stays_short(tmp_path: Path) -> None:
    """It has neither the conversation nor the head."""
    with World(tmp_path, steps(3), [paged(1000)]) as world:
        world.run()
        for call in world.model.of("parameters"):
            assert len(text_of(call)) < 1_000 and "Result of" not in text_of(call)
        assert PARAMETERS(page=1)["schema"] == "parameters_v1"
