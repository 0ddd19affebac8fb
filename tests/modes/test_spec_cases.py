"""Edge cases that earlier systems got wrong: guards' memory, attempts, readers, lists, crashes, labels, references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import (
    Document,
    Engine,
    Limits,
    Policy,
    Reply,
    ScriptedModel,
    Tool,
    ToolContext,
    Usage,
    replay,
    tool,
)
from paor.errors import NotStarted, UsageError
from paor.tools.schema.canonical import canonical_arguments
from paor.tools.schema.parameters import ParameterSchema

from ..support.recording import World, observations, sections
from ..support.stored import blocked_steps, labels, parts, prompts, query, triggers
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, engine, read

ONE_STEP = [*READ(1), STOP, SUCCESS]


def counting(calls: list[int], value: Any = "x", **options: Any) -> Tool:
    """Return ``notes.read`` that keeps its pages in *calls* and returns *value*, or raises it."""

    @tool("notes.read", **({"effect": "idempotent", "label": "page"} | options))
    def count(page: int) -> Any:
        """Count."""
        calls.append(page)
        if isinstance(value, Exception):
            raise value
        return value

    return count


def walking(*pages: int) -> list[Any]:
    """Return a script that reads these pages and then stops."""
    replies = [reply for page in pages for reply in (*READ(page), CONTINUE)]
    return [*replies[:-1], STOP, SUCCESS]


def cancelled_by(host: Callable[[], Engine]) -> Tool:
    """Return ``notes.read`` whose run is cancelled by its host while it reads."""

    @tool("notes.read", effect="read", label="page")
    def cancelled(context: ToolContext, page: int) -> str:
        """Read."""
        host().cancel(context.run_id)
        return f"page {page}"

    return cancelled


# -- C2: the plumbing of the duplicate guard -------------------------------------------------------------------


def test_C2_2_the_guard_remembers_what_prompts_have_forgotten(tmp_path: Path) -> None:
    """No history reaches a prompt, and the repeats still count: in a row, and over more actions than are kept."""
    limits = Limits(history_chars=0, max_steps=100, window_size=80, window_freq_limit=3, max_blocked_calls=9)
    pages = [1, *range(100, 130), 1, *range(130, 160), 1, *range(160, 165), 1]
    with World(tmp_path, walking(*pages), [counting([])], limits=limits) as world:
        assert world.run().state == "Done"
    assert blocked_steps(world.path) == [len(pages)]
    newest = parts(prompts(world.path, "selection")[-1])
    assert "- Step 1:" not in newest.get("History, newest first", "")


@pytest.mark.parametrize("value", ["x", OSError("torn")], ids=["after a success", "after an error"])
def test_C2_7_a_blocked_call_leaves_exactly_one_result(tmp_path: Path, value: Any) -> None:
    """One row, one observation with the marker, no document; as many refinements as steps."""
    with World(tmp_path, walking(1, 1, 1, 1), [counting([], value)]) as world:
        world.run()
        seen = observations(world)
    assert triggers(world.path).count("observe") == len(seen) == 4
    assert blocked_steps(world.path) == [3, 4]
    for blocked in seen[2:]:
        assert blocked["success"] is False and blocked["documentsCount"] == 0
        assert [note.partition(":")[0] for note in blocked["notes"]] == ["duplicate_call_blocked"]
    assert len(labels(world.path)) == (0 if isinstance(value, Exception) else 2)


@pytest.mark.parametrize("value", ["", None, "nothing found"])
def test_C2_10_equal_results_of_different_calls_are_no_duplicates(tmp_path: Path, value: Any) -> None:
    """Ten searches that find nothing are ten calls."""
    calls: list[int] = []
    with World(tmp_path, walking(*range(10)), [counting(calls, value)], limits=Limits(max_steps=10)) as world:
        assert world.run().state == "Done"
    assert (calls, blocked_steps(world.path)) == (list(range(10)), [])


def test_C2_4_C2_3_one_call_in_many_spellings_is_one_call(tmp_path: Path) -> None:
    """Order of keys, whole floats and transient ids do not make a new call; texts and lists do."""
    calls: list[Any] = []
    schema = {"type": "object", "properties": {"q": {}, "n": {}, "call_id": {}}}
    look = Tool(name="web.look", parameters=schema, run=lambda **got: calls.append(got), effect="idempotent")
    same = [{"q": {"a": 1, "b": [1, 2]}, "n": 1}, {"n": 1.0, "q": {"b": [1, 2], "a": 1}, "call_id": "c7"}]
    other = [{"q": {"a": "1", "b": [1, 2]}, "n": 1}, {"q": {"a": 1, "b": [2, 1]}, "n": 1}]
    script: list[Any] = []
    for values in (*same, same[0], *other):
        script += [SELECT("web.look", parametersSchema=None), PARAMETERS(**values), CONTINUE]
    with World(tmp_path, [*script[:-1], STOP, SUCCESS], [look]) as world:
        world.run()
    assert blocked_steps(world.path) == [3]
    assert len(calls) == 4


# -- C3: attempts, errors, readers, lists --------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_C3_14_attempts_are_one_more_than_the_retries(tmp_path: Path, retries: int) -> None:
    """Of a call that always fails: retries + 1 attempts, one result."""
    calls: list[int] = []
    failing = counting(calls, OSError("down"), retries=retries)
    with World(tmp_path, ONE_STEP, [failing]) as world:
        world.run()
    assert len(calls) == retries + 1
    assert triggers(world.path).count("observe") == 1


def test_C3_14_nothing_is_tried_again_after_a_denial_or_invalid_values(tmp_path: Path) -> None:
    """Retries are for a tool that was called, not for a call that was refused."""
    calls: list[int] = []
    bad = PARAMETERS(page="one")
    fields = {"fields": [{"name": "page", "type": "string"}]}
    script = [SELECT(parametersSchema=fields), bad, bad, STOP, SUCCESS]
    with World(tmp_path / "invalid", script, [counting(calls, retries=3)]) as world:
        world.run()
    assert (calls, triggers(world.path).count("retry_step")) == ([], 0)
    policy = Policy(approvals=("notes.read",))
    with World(tmp_path / "denied", ONE_STEP, [counting(calls, retries=3)], policy=policy) as world:
        world.engine.resume(world.run().run_id, answer={"approve": False})
    assert (calls, triggers(world.path).count("retry_step")) == ([], 0)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_C3_15_errors_in_a_row_end_the_run_at_their_limit(tmp_path: Path, limit: int) -> None:
    """The limit is reached, not only declared; a success in between starts the count anew."""
    limits = Limits(max_consecutive_errors=limit, max_steps=50)
    failing = counting([], OSError("down"))
    with World(tmp_path / "row", walking(*range(9)), [failing], limits=limits) as world:
        result = world.run()
        assert (result.reason, result.steps) == ("consecutive_errors", limit)
    fine = Tool(name="notes.fine", run=lambda: "x", effect="idempotent")
    script: list[Any] = []
    for page in range(3):
        for n in range(limit - 1):
            script += [*READ(10 * page + n), CONTINUE]
        script += [SELECT("notes.fine", {}, actionObjective=f"look {page}"), CONTINUE]
    limits = Limits(max_consecutive_errors=limit, max_steps=50, consecutive_limit=9)
    with World(tmp_path / "broken", [*script[:-1], STOP, SUCCESS], [failing, fine], limits=limits) as world:
        assert world.run().state == "Done"


GOOD = json.dumps(SELECT())
READINGS: dict[str, tuple[str, bool]] = {
    "prose around it": (f"I choose this: {GOOD} because it fits.", True),
    "braces in a text": (json.dumps(SELECT(parametersContext="} { {} ```")), True),
    "cut off in a text": (GOOD[: GOOD.index("learnings")], False),
    "no JSON at all": ("I would read page 1 {of the notes}.", False),
}


@pytest.mark.parametrize("case", READINGS)
def test_C3_19_json_is_found_by_a_scanner_and_a_reply_that_is_cut_off_is_asked_again(
    tmp_path: Path, case: str
) -> None:
    """Neither the outermost braces nor what can be guessed of half an object counts; half a reply is no answer."""
    text, usable = READINGS[case]
    with World(tmp_path, [text, *(ONE_STEP[1:] if usable else ONE_STEP)]) as world:
        assert world.run().state == "Done"
    assert triggers(world.path)[0] == ("select" if usable else "reselect")


@pytest.mark.parametrize("spelling", ["notes_read", "notes:read", "Notes.Read", "notes/read"])
def test_C3_20_D21_a_denied_tool_is_denied_under_every_name(tmp_path: Path, spelling: str) -> None:
    """In the selection as well as in the policy's list."""
    calls: list[int] = []
    for number, policy in enumerate([Policy(deny=("notes.read",)), Policy(deny=(spelling,))]):
        with World(tmp_path / str(number), [SELECT(spelling)] * 2, [counting(calls)], policy=policy) as world:
            assert world.run().reason == "selection_invalid"
    assert calls == []


def test_C3_20_what_is_offered_is_asked_about_again_before_it_is_executed(tmp_path: Path) -> None:
    """The guard is in the row that leads to Executing, with its value, beside the one at the selection."""
    with World(tmp_path, ONE_STEP) as world:
        world.run()
    statement = 'SELECT guards ->> ? FROM transitions WHERE "trigger" IN (?, ?)'
    assert query(world.path, statement, "$.action_allowed", "select", "specify") == [(1,), (1,)]


@pytest.mark.parametrize("names", [["notes.reed"], ["notes.read", "web.search"], ["*"], "notes.read"])
def test_C3_20_A160_an_unknown_tool_in_the_list_fails_at_once(tmp_path: Path, names: Any) -> None:
    """Nothing is started, and the message says which tools there are."""
    with World(tmp_path, ONE_STEP) as world:
        with pytest.raises(UsageError, match=r"there are: notes\.read|must be a list"):
            world.run(tools=names)
        assert world.journal.runs() == []


def test_A160_only_the_listed_tools_are_offered_and_executable(tmp_path: Path) -> None:
    """Under any spelling in the list; another one does not stand in the prompt and cannot be selected."""
    calls: list[int] = []
    other = Tool(name="notes.other", run=lambda: "x", effect="read")
    with World(tmp_path, [SELECT("notes.other", {}), *ONE_STEP], [counting(calls), other]) as world:
        assert world.run(tools=["notes_read"]).state == "Done"
        feedback = sections(world.model.of("selection")[1])["Your last reply could not be used"]
        assert feedback == "there is no action 'notes.other'; choose one of: notes.read"
    assert "notes.other" not in prompts(world.path, "selection")[0]["system"]
    assert (calls, triggers(world.path)[:2]) == ([1], ["reselect", "select"])


@pytest.mark.parametrize("cut", range(2, 14))
def test_C3_24_a_call_whose_outcome_is_committed_is_never_made_again(tmp_path: Path, cut: int) -> None:
    """The driver is lost after any row; each page is read once, or twice where its outcome was not yet durable."""
    calls: list[int] = []
    with engine(tmp_path, walking(1, 2), [counting(calls)]) as first:
        events = first.stream("Read", on_close="stop")
        for _ in range(cut):
            next(events, None)
        events.close()
        run_id = first.journal.runs()[0].run_id
        done = [row.trigger for row in first.journal.transitions(run_id)].count("execute")
    assert calls == [1, 2][: len(calls)]
    before = len(calls)
    with engine(tmp_path, walking(1, 2), [counting(calls)]) as second:
        assert second.resume(run_id).state == "Done"
        assert replay(second.journal, run_id).identical
    assert calls[before:] == [1, 2][done:]


def test_C3_24_a_run_cancelled_within_a_tool_keeps_what_the_tool_brought(tmp_path: Path) -> None:
    """Its outcome is recorded and its document kept; nothing else is asked, and a resume does nothing more."""
    with World(tmp_path, walking(1, 2), [cancelled_by(lambda: world.engine)]) as world:
        result = world.run()
        assert (result.state, result.reason) == ("Failed", "cancelled")
        assert [document.read() for document in result.documents] == ["page 1"]
        assert world.model.kinds == ["selection", "parameters"]
        rows = len(world.rows)
        assert world.engine.resume(result.run_id) == result
        assert len(world.rows) == rows


# -- C4: labels, budgets, references -------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["a b", "a/b", "..", "é", "", "x" * 61, "a#0", "a\n"])
def test_C4_27_a_label_that_could_be_misread_is_refused(label: str) -> None:
    """When the tool is made, before any run."""
    with pytest.raises(UsageError, match="label"):
        Tool(name="notes.read", run=lambda: "x", label=label)


def test_C4_27_A038_labels_stay_unique_through_retries_refusals_and_odd_document_names(
    tmp_path: Path,
) -> None:
    """Names of documents are not part of a label; a retried call has one label, a refused one uses up its number."""
    left = [1]

    @tool("notes.read", effect="read", label="page", retries=1)
    def shaky(page: int) -> list[Document]:
        """Read."""
        left[0] -= 1
        if left[0] == 0:
            raise NotStarted("busy")
        return [Document("a/b c é.txt", "x"), Document("a/b c é.txt", "y")]

    script = [*READ(1), CONTINUE, SELECT(), PARAMETERS(), PARAMETERS(), CONTINUE, *READ(3), STOP, SUCCESS]
    with World(tmp_path, script, [shaky]) as world:
        assert world.run().state == "Done"
    page = "round1_task1_action{}_page#{}"
    assert labels(world.path) == [page.format(action, place) for action in (1, 3) for place in (0, 1)]


@pytest.mark.parametrize("stage", ["selection", "parameters"])
def test_C4_30_A081_a_budget_that_ends_at_a_stage_leaves_no_half_action(tmp_path: Path, stage: str) -> None:
    """Used up by Stage 1 or by Stage 2 of step 2: the end says why, and no number is given without an action."""
    price = Usage(1, 9_000, 1_000)
    second = [
        Reply(json.dumps(reply), price if kind == stage else None)
        for kind, reply in zip(("selection", "parameters"), READ(2), strict=True)
    ]
    script = [*READ(1), CONTINUE, *second, STOP]
    with World(tmp_path, script, limits=Limits(token_budget=10_000)) as world:
        result = world.run("Read")
        assert (result.state, result.reason) == ("Failed", "token_budget")
        assert replay(world.journal, world.run_id).identical
    actions = 1 if stage == "selection" else 2
    assert query(world.path, "SELECT max(action) FROM transitions") == [(actions,)]
    assert len(labels(world.path)) == triggers(world.path).count("execute") == actions
    assert triggers(world.path)[-1] == "fail"


def test_C4_31_documents_of_another_run_cannot_be_referred_to(tmp_path: Path) -> None:
    """Also not when the other run is in the same file and its label is known."""
    taking: list[Any] = []

    @tool("notes.join", effect="read")
    def join(documentList: list[str]) -> str:
        """Join."""
        taking.append(documentList)
        return "joined"

    reference = "docList:round1_task1_action1_page"
    chosen = SELECT("notes.join", {}, requiredInputDocuments=[reference])
    with World(tmp_path, [chosen, chosen], [read, join]) as world:
        other = world.run(model=ScriptedModel(ONE_STEP))
        assert reference.endswith(other.documents[0].label)
        assert world.run().reason == "selection_invalid"
        assert reference in sections(world.model.of("selection")[1])["Your last reply could not be used"]
    assert taking == []
    assert len(query(tmp_path / JOURNAL, "SELECT run FROM specs")) == 2


# -- A085, A088: caps and validators ---------------------------------------------------------------------------


def test_A088_A077_validators_name_everything_that_is_wrong() -> None:
    """Missing, unknown and wrong values in one go, each with its place; a good call has no problem."""
    schema = ParameterSchema(
        {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": "integer"},
                "tags": {"type": "array"},
            },
            "required": ["query", "tags"],
        }
    )
    problems = schema.check({"limit": "ten", "page": 1})
    assert [(item.code, item.path) for item in problems] == [
        ("missing", "query"),
        ("missing", "tags"),
        ("unknown", "page"),
        ("type", "limit"),
    ]
    assert schema.check({"query": "x", "tags": [], "limit": 1}) == ()
    assert canonical_arguments({"b": 1.0, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'
