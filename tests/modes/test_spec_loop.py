"""Rows of the loop, proven on a real engine and its journal file: results, stops, limits, modes, literal examples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from paor import Document, Limits, Reply, Tool, ToolOutput, Usage, replay, tool
from paor.errors import UsageError

from ..support.cli_support import Shell
from ..support.recording import World, observation
from ..support.stored import parts, prompts, query, started_with, triggers
from ..support.worlds import (
    CONTINUE,
    MET,
    PARAMETERS,
    READ,
    REFINE,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
)

ONE_STEP = [*READ(1), STOP, SUCCESS]
CRITERIA = ["names the day", "names the place"]


def giving(value: Any, name: str = "notes.read") -> Tool:
    """Return a read tool with one parameter that returns *value*, or raises it."""

    @tool(name, effect="read", label="page")
    def give(page: int) -> Any:
        """Give."""
        if isinstance(value, Exception):
            raise value
        return value

    return give


# -- modes, limits and entry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "react"}, {"react_mode": True}, {"workflow_mode": "React"}, {"workflow_mode": "REACT"}],
    ids=["nothing", "mode", "reactMode", "workflowMode", "workflowMode in capitals"],
)
def test_A053_D12_steps_and_mode_are_read_validated_and_journaled(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """Whatever the mode was called, the run's spec in the file holds it and the maximum of steps."""
    with World(tmp_path, ONE_STEP) as world:
        assert world.run(limits=Limits(max_steps=7), **options).state == "Done"
    spec = started_with(world.path)
    assert (spec["mode"], spec["limits"]["max_steps"]) == ("react", 7)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "chat"}, "mode 'chat' is unknown"),
        ({"react_mode": "yes"}, "react_mode must be True or False"),
        ({"workflow_mode": "Dynamic"}, "workflow_mode 'Dynamic' is unknown; use React or Actionplan"),
        ({"workflow_mode": 1}, "workflow_mode 1 is unknown"),
        ({"mode": "react", "react_mode": False}, "mode says react, react_mode says batch"),
        ({"mode": "batch", "react_mode": True}, "mode says batch, react_mode says react"),
        (
            {"react_mode": True, "workflow_mode": "Actionplan"},
            "react_mode says react, workflow_mode says batch",
        ),
        ({"mode": "planner", "workflow_mode": "React"}, "mode says planner, workflow_mode says react"),
    ],
)
def test_A053_D12_names_that_disagree_are_an_error(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    """Nothing is started on a guess which of the two was meant."""
    with World(tmp_path, ONE_STEP) as world:
        with pytest.raises(UsageError, match=words):
            world.run(**options)
        assert world.journal.runs() == []


@pytest.mark.parametrize("options", [{"react_mode": False}, {"workflow_mode": "actionplan"}], ids=str)
def test_A053_D12_the_old_flag_means_batch(tmp_path: Path, options: dict[str, Any]) -> None:
    """False is not react: the run asks for one plan, and its spec says why."""
    with World(tmp_path, []) as world:
        world.run(**options)
        assert world.model.kinds == ["plan"]
    assert started_with(world.path)["mode"] == "batch"


def test_A053_D12_the_command_line_takes_the_documents_names(shell: Shell) -> None:
    """``maxSteps`` and ``reactMode`` as they stand in the document."""
    fields = {"objective": "Write it", "model": shell.script(), "maxSteps": 3, "reactMode": True}
    assert shell("run", "--input", json.dumps(fields), "--journal", "a.db").code == 1
    spec = started_with(shell.folder / "a.db")
    assert (spec["mode"], spec["limits"]["max_steps"]) == ("react", 3)
    for change, words in (
        ({"reactMode": "true"}, "reactMode must be true or false"),
        ({"maxSteps": 0}, "max_steps"),
        ({"workflowMode": "Actionplan"}, "react_mode says react, workflow_mode says batch"),
    ):
        shell("run", "--input", json.dumps(fields | change), "--journal", "a.db").refused(words)
    assert len(query(shell.folder / "a.db", "SELECT run FROM specs")) == 1


@pytest.mark.parametrize("steps_max", [1, 3])
def test_A019_A072_the_step_that_is_one_too_many_is_never_asked_for(tmp_path: Path, steps_max: int) -> None:
    """The model always goes on; exactly max_steps selections are asked, and the last word is the review's."""
    script = [reply for page in range(1, 9) for reply in (*READ(page), CONTINUE)]
    with World(tmp_path, [*script[: 3 * steps_max], REVIEW("retry", "more")]) as world:
        result = world.run(limits=Limits(max_steps=steps_max))
        assert (result.state, result.reason) == ("Failed", "max_steps")
    assert len(prompts(world.path, "selection")) == triggers(world.path).count("execute") == steps_max


# -- A054: what a tool may return ----------------------------------------------------------------------------------


class Page(BaseModel):
    """A host's own model."""

    number: int
    text: str


FORMS: dict[str, tuple[Any, list[tuple[str, str, int]]]] = {
    "text": ("ten", [("result.txt", "text/plain", 3)]),
    "data": ({"a": [1]}, [("result.json", "application/json", 9)]),
    "a list of data": ([1, 2], [("result.json", "application/json", 5)]),
    "bytes": (b"\0\1", [("result.bin", "application/octet-stream", 2)]),
    "nothing": (None, []),
    "a model": (Page(number=1, text="x"), [("result.json", "application/json", 23)]),
    "name and data": (Document("a.txt", "x"), [("a.txt", "text/plain", 1)]),
    "name, data and type": (Document("a.md", "é", "text/markdown"), [("a.md", "text/markdown", 2)]),
    "by name": (Document(mime="text/csv", data="a,b", name="a.csv"), [("a.csv", "text/csv", 3)]),
    "a list": (
        [Document("a", "x"), Document("b", b"yz")],
        [("a", "text/plain", 1), ("b", "text/plain", 2)],
    ),
    "a tuple": ((Document("a", "x"),), [("a", "text/plain", 1)]),
    "an output": (ToolOutput([Document("a", "x")], ["a note"]), [("a", "text/plain", 1)]),
    "an empty output": (ToolOutput(), []),
}


@pytest.mark.parametrize("form", FORMS)
def test_A054_every_form_that_a_tool_may_return_is_stored_as_it_was(tmp_path: Path, form: str) -> None:
    """Constructors by position and by name keep working; name, type and size stand in the journal's table."""
    value, expected = FORMS[form]
    with World(tmp_path, ONE_STEP, [giving(value)]) as world:
        result = world.run()
        assert (result.state, observation(world)["success"]) == ("Done", True)
        found = query(world.path, "SELECT name, mime, bytes FROM documents ORDER BY number")
        assert found == expected
        assert [(item.name, item.mime, item.bytes) for item in result.documents] == expected
        assert replay(world.journal, world.run_id).identical


# -- A015, A079: web facts -----------------------------------------------------------------------------------------

SCORES = [0.1, 0.9, None, 0.5, 0.95, 0.2, None, 0.3, 0.9, 0.0]


def web_facts(**names: str) -> list[dict[str, Any]]:
    """Return ten facts in no order, under the given names of their fields."""
    score, points = names.get("score", "relevance_score"), names.get("points", "key_points")
    return [
        {"url": f"https://example.org/{n}", points: [f"point {n}"], "entities": ["Leeds"]}
        | ({} if value is None else {score: value})
        for n, value in enumerate(SCORES)
    ]


@pytest.mark.parametrize(
    "names",
    [{}, {"score": "relevance", "points": "keyPoints"}, {"score": "relevanceScore"}],
    ids=["002", "000", "camel"],
)
@pytest.mark.parametrize(("top", "expected"), [(3, [4, 1, 8]), (1, [4]), (9, [4, 1, 8, 3, 7, 5, 0, 9, 2])])
def test_A079_A015_D7_the_best_pages_come_first(
    tmp_path: Path, names: dict[str, str], top: int, expected: list[int]
) -> None:
    """The top k by relevance, equal ones in the tool's order, unknown ones last; under document 002's names."""
    given = ToolOutput([Document("a", "x")], web=web_facts(**names))  # type: ignore[arg-type]
    with World(tmp_path, ONE_STEP, [giving(given)], limits=Limits(previews=top)) as world:
        world.run()
        seen = observation(world)["web"]
    assert [fact["url"][-1] for fact in seen] == [str(number) for number in expected]
    assert seen[0] == {
        "url": "https://example.org/4",
        "relevance_score": 0.95,
        "key_points": ["point 4"],
        "entities": ["Leeds"],
    }
    judging = next(call for call in world.model.calls if call.kind == "refinement")
    told = "\n".join(message.text for message in judging.messages)
    assert re.findall(r"point (\d)", told) == [str(number) for number in expected], told


def test_C26_a_binary_document_is_told_by_type_and_size(tmp_path: Path) -> None:
    """No snippet, and no made-up text; documents beside it are shown as ever."""
    values = [Document("scan.png", b"\x89PNG" * 100, "image/png"), Document("a.txt", "text")]
    with World(tmp_path, ONE_STEP, [giving(values)]) as world:
        world.run()
        seen = observation(world)
    assert [preview["snippet"] for preview in seen["previews"]] == ["", "text"]
    assert seen["notes"] == ["scan.png: image/png, 400 bytes, not text"]
    assert seen["documentsCount"] == 2


# -- A016 to A018, A065, D4: why a run goes on or stops ------------------------------------------------------------

ALL_MET = {"criteria": [MET(text) for text in CRITERIA]}
ONE_MET = {"criteria": [MET(CRITERIA[0])]}


def costly(reply: dict[str, Any]) -> Reply:
    """Return *reply* with a price of 10,000 tokens."""
    return Reply(json.dumps(reply), Usage(1, 9_000, 1_000))


DECISIONS: dict[str, tuple[list[Any], dict[str, Any], tuple[str, str]]] = {
    "criteria over the model's stop": ([REFINE("stop", **ALL_MET), SUCCESS], {}, ("Done", "criteria_met")),
    "a stop with criteria open": ([REFINE("stop", **ONE_MET), SUCCESS], {}, ("Done", "model_stop")),
    "a failed review over criteria": (
        [REFINE("stop", **ALL_MET), REVIEW("failed")],
        {},
        ("Failed", "review_failed"),
    ),
    "a limit over the model's stop": (
        [costly(REFINE("stop", **ONE_MET))],
        {"token_budget": 10_000},
        ("Failed", "token_budget"),
    ),
    "criteria met when a limit ends the run": (
        [costly(REFINE("continue", **ALL_MET))],
        {"token_budget": 10_000},
        ("Done", "criteria_met"),
    ),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_A017_A065_D4_C29_limits_then_review_then_criteria_then_the_models_wish(
    tmp_path: Path, case: str
) -> None:
    """The order in which reasons are read, each pair put against each other."""
    after, limits, expected = DECISIONS[case]
    with World(tmp_path, [*READ(1), *after], limits=Limits(**limits)) as world:
        result = world.run("Read", CRITERIA)
        assert (result.state, result.reason) == expected
        assert replay(world.journal, world.run_id).identical
        world.model.assert_all_used()


@pytest.mark.parametrize(
    ("limits", "iteration", "reason"),
    [
        ({"max_consecutive_errors": 1}, [SELECT("notes.read"), PARAMETERS(page=1)], "consecutive_errors"),
        ({"max_consecutive_refused": 1}, [SELECT(), PARAMETERS(), PARAMETERS()], "stuck"),
    ],
    ids=["errors", "refused"],
)
def test_A065_a_hard_failure_goes_on_with_nothing(
    tmp_path: Path, limits: dict[str, Any], iteration: list[Any], reason: str
) -> None:
    """No refinement is asked whether to go on, although the script would say so."""
    with World(tmp_path, [*iteration, CONTINUE], [giving(OSError("x"))], limits=Limits(**limits)) as world:
        assert world.run().reason == reason
        assert "refinement" not in world.model.kinds


def test_A016_C3_17_the_answer_is_the_last_one_and_not_a_heap_of_all(tmp_path: Path) -> None:
    """Drafts of earlier iterations and attempts are gone from it."""
    script = [
        *[*READ(1), REFINE("continue", answer="draft one")],
        *[*READ(2), REFINE("stop", answer="draft two"), REVIEW("retry", "again", answer="draft three")],
        *[*READ(3), REFINE("stop", answer="final words"), REVIEW("success")],
    ]
    with World(tmp_path, script, limits=Limits(completion_review="model")) as world:
        assert world.run().answer == "final words"


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_A073_A041_each_finish_is_reviewed_exactly_once(tmp_path: Path, retries: int) -> None:
    """An attempt that is sent back is a finish of its own: one review each, and the counter says how many."""
    script = [reply for page in range(retries) for reply in (*READ(page + 1), STOP, REVIEW("retry", "more"))]
    with World(tmp_path, [*script, *READ(9), STOP, SUCCESS]) as world:
        assert world.run().state == "Done"
        world.model.assert_all_used()
    taken = triggers(world.path)
    assert taken.count("conclude") == len(prompts(world.path, "review")) == retries + 1
    assert query(world.path, "SELECT max(retries) FROM transitions") == [(retries,)]


def test_A042_A064_progress_is_in_a_row_of_every_iteration_and_never_taken_back(tmp_path: Path) -> None:
    """Read from the file: one row an iteration; what was met in attempt 1 is met in attempt 2's prompts."""
    unmet = {"criteria": [MET(text, met=False) for text in CRITERIA]}
    script = [
        *[*READ(1), REFINE("stop", **ONE_MET), REVIEW("retry", "the place")],
        *[*READ(2), REFINE("continue", **unmet), *READ(3), REFINE("stop", **unmet), SUCCESS],
    ]
    with World(tmp_path, script) as world:
        world.run("Read", CRITERIA)
    statement = """SELECT step, counters ->> '$.criteria' FROM transitions
                   WHERE "trigger" IN ('proceed', 'conclude') ORDER BY seq"""
    assert query(world.path, statement) == [(1, "10"), (2, "10"), (3, "10")]
    for prompt in prompts(world.path, "selection")[1:]:
        assert parts(prompt)["Success criteria"] == "- [met] names the day\n- [open] names the place"


# -- A094: the appendix, verbatim ----------------------------------------------------------------------------------


def test_A094_A004_A051_the_literals_of_the_appendix_drive_a_run(tmp_path: Path) -> None:
    """Selection, parameters and refinement as they stand in document 002, sent by a model word for word."""
    calls: list[dict[str, Any]] = []
    properties = {"query": {"type": "string"}, "maxResults": {"type": "integer"}, "language": {}}
    scrape = Tool(
        name="web.scrape",
        parameters={"type": "object", "properties": properties},
        run=lambda **values: calls.append(values) or "found",  # type: ignore[func-returns-value]
        effect="read",
    )
    script = [
        '{"action":{"method":"web","name":"scrape"}}',
        '{"parameters":{"query":"...","maxResults":10,"language":"de"}}',
        '{"decision":"continue","reason":"Need more sources on Q3 2024"}',
        *['{"action":{"method":"web","name":"scrape"}}', '{"parameters":{"query":"Q3","maxResults":10}}'],
        *[STOP, SUCCESS],
    ]
    with World(tmp_path, script, [scrape]) as world:
        assert world.run().state == "Done"
        assert triggers(world.path).count("reselect") == triggers(world.path).count("respecify") == 0
        seen = observation(world)
    assert calls[0] == {"query": "...", "maxResults": 10, "language": "de"}
    assert list(seen) == ["success", "resultLabel", "documentsCount", "previews", "notes"]
    assert (seen["resultLabel"], seen["notes"]) == ("round1_task1_action1_result", [])
