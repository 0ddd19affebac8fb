"""
The react loop, row by row: what the source documents require, each proven on a real engine.

The id of a row of docs/spec-coverage.md is in the name of its test, so ``pytest -k A058`` runs it.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from paor import (
    Document,
    Event,
    Limits,
    Policy,
    Reply,
    Tool,
    ToolContext,
    ToolOutput,
    Usage,
    replay,
    tool,
)
from paor.errors import NotStarted, ToolError, UsageError
from paor.events import RunEnded, RunStarted, StepCompleted, TransitionTaken
from paor.machine import Observation

from ..support.cases import ActionParameters, ActionSelection, short
from ..support.journey import answered
from ..support.recording import World, observation, sections, text_of, user_text
from ..support.worlds import (
    ANSWER,
    CONTINUE,
    MET,
    PARAMETERS,
    READ,
    REFINE,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
    TOOLS,
    engine,
    read,
)

ONE_STEP = [*READ(1), STOP, SUCCESS]
TWO_STEPS = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]
CRITERIA = ["names the day", "names the place"]


def returning(value: Any, **options: Any) -> Tool:
    """Return a tool ``notes.read`` that returns *value*."""
    options.setdefault("effect", "read")
    options.setdefault("label", "page")

    @tool("notes.read", **options)
    def give(page: int) -> Any:
        """Give."""
        return value

    return give


def keeping(calls: list[dict[str, Any]], name: str = "notes.keep", **options: Any) -> Tool:
    """Return a tool with many parameters that keeps its arguments in *calls*."""

    @tool(name, effect="read", filled=["language"], **options)
    def keep(
        text: str,
        documentList: list[str] | None = None,
        connectionReference: str | None = None,
        language: str | None = None,
        depth: int = 2,
    ) -> str:
        """Keep."""
        calls.append(
            {
                "text": text,
                "documentList": documentList,
                "connectionReference": connectionReference,
                "language": language,
                "depth": depth,
            }
        )
        return "kept"

    return keep


KEEP = {"text": "string"}
KEEP_FIELD = {"fields": [{"name": "text", "type": "string"}]}


# -- A1: plan, act, observe, refine --------------------------------------------------------------------------------


def test_A001_one_action_is_selected_executed_and_observed_before_the_next(tmp_path: Path) -> None:
    """The journal walks Planning, Specifying, Executing, Observing, Reviewing, again and again."""
    with World(tmp_path, TWO_STEPS) as world:
        world.run()
        round_trip = ["Planning", "Specifying", "Executing", "Observing", "Reviewing"]
        assert [row.source for row in world.rows] == [*round_trip, *round_trip, "Reviewing"]
        assert world.rows[-1].dest == "Done"


def test_A003_the_selection_prompt_has_its_five_parts_and_no_document_text(tmp_path: Path) -> None:
    """Objective, criteria, tiny catalog, documents and connections, short rules; never a body."""
    body = "The secret body of the contract."
    with World(tmp_path, ONE_STEP, builtins=True) as world:
        world.run(
            "Find the day",
            CRITERIA,
            documents=[Document("contract.txt", body)],
            connections={"mail": object()},
        )
        call = world.model.of("selection")[0]
        found = sections(call)
        assert found["Objective"] == "Find the day"
        assert found["Success criteria"] == "- [open] names the day\n- [open] names the place"
        assert found["Documents"].splitlines() == [
            "- docList:round1_task1_action0_input (1)",
            "  - docItem:round1_task1_action0_input#0 contract.txt (text/plain, 32 bytes)",
        ]
        assert found["Connections"].splitlines()[0] == "- mail"
        system = text_of(call).partition("=== user ===")[0]
        assert (
            "## Rules" in system and "## Actions\n- notes.read(page): Read one page of the notes.\n" in system
        )
        for each in world.model.calls:
            assert body not in text_of(each)


TWO_ACTIONS = {
    "a list of actions": json.dumps(SELECT() | {"action": ["notes.read", "notes.send"]}),
    "a list of selections": json.dumps([SELECT(), SELECT("notes.send")]),
    "two objects": json.dumps(SELECT()) + "\n" + json.dumps(SELECT("notes.send")),
}


@pytest.mark.parametrize("case", TWO_ACTIONS)
def test_A005_A028_a_reply_with_two_actions_is_invalid_and_runs_nothing(tmp_path: Path, case: str) -> None:
    """Exactly one action per iteration; which of two was meant is not guessed."""
    with World(tmp_path, [TWO_ACTIONS[case]] * 2) as world:
        result = world.run()
        assert (result.state, result.reason, result.steps) == ("Failed", "selection_invalid", 0)
        assert world.triggers == ["reselect", "fail"]


def test_A006_A067_stage_2_is_about_the_selected_action_only(tmp_path: Path) -> None:
    """The parameter prompt names exactly that action; no other tool's name occurs."""
    for schema in ({"fields": [{"name": "page", "type": "number"}]}, None):
        script = [SELECT(parametersSchema=schema), PARAMETERS(page=1), STOP, SUCCESS]
        with World(tmp_path / str(schema is None), script) as world:
            world.run()
            (call,) = world.model.of("parameters")
            assert sections(call)["Selected action"] == "notes.read"
            assert not [other for other in ("notes.send", "notes.fail") if other in text_of(call)]


def test_A008_A060_validated_then_filled_then_executed(tmp_path: Path) -> None:
    """The intent row holds what was said and filled before the handler gets exactly that; the rest is the function's own."""
    calls: list[dict[str, Any]] = []
    with World(
        tmp_path, [SELECT("notes.keep", KEEP), PARAMETERS(text="x"), STOP, SUCCESS], [keeping(calls)]
    ) as world:
        world.run(language="de")
        assert world.triggers[:3] == ["select", "specify", "execute"]
        specify = world.rows[1]
        change = json.loads(str(world.journal.payload(specify.run, specify.change["n"]).body))
        merged = {
            "text": "x",
            "documentList": None,
            "connectionReference": None,
            "language": "de",
            "depth": 2,
        }
        assert calls == [merged]
        assert change["intent"]["arguments"] == {"text": "x", "language": "de"}


def test_A009_A039_a_megabyte_stays_out_of_every_prompt(tmp_path: Path) -> None:
    """A share of the context at most, and it is said; the observation's JSON keeps under its cap; neither tail nor middle is shown."""
    body = "HEAD " + "x" * 500_000 + " MIDDLE " + "y" * 500_000 + " TAIL"
    with World(tmp_path, TWO_STEPS, [returning(body)]) as world:
        world.run()
        call = world.model.of("refinement")[0]
        (told,) = (message.text for message in call.messages if message.text.startswith("Result of"))
        assert told.startswith("Result of notes.read:\nHEAD x") and "[Cut: the first " in told
        assert len(json.dumps(observation(world))) <= Limits().observation_chars
        for each in world.model.calls:
            assert "TAIL" not in text_of(each) and "MIDDLE" not in text_of(each)
            assert len(text_of(each)) < 32_000 * 4 // 2, (
                "no more than half of the context of an unknown model"
            )
        assert world.result is not None and world.result.documents[0].read() == body


def test_A012_A013_the_count_is_the_true_total_and_previews_are_few(tmp_path: Path) -> None:
    """12 documents, 5 previews of exactly name, mime and snippet."""
    documents = [Document(f"page-{n}.md", f"text {n}", "text/markdown") for n in range(12)]
    with World(tmp_path, ONE_STEP, [returning(documents)]) as world:
        assert len(world.run().documents) == 12
        seen = observation(world)
        assert seen["documentsCount"] == 12
        assert seen["previews"] == [
            {"name": f"page-{n}.md", "mime": "text/markdown", "snippet": f"text {n}"} for n in range(5)
        ]
        assert "7 more documents without preview" in seen["notes"]


def test_A014_notes_are_short_facts(tmp_path: Path) -> None:
    """Strings, each under the note cap, on one line."""
    notes: list[Any] = ["3 pages", "x" * 5000, "two\nlines", 7]
    with World(
        tmp_path, ONE_STEP, [returning(ToolOutput(notes=notes))], limits=Limits(note_chars=50)
    ) as world:
        world.run()
        seen = observation(world)["notes"]
        assert seen[0] == "3 pages" and seen[1] == "x" * 49 + "…" and seen[2:] == ["two lines", "7"]
        assert all(isinstance(note, str) and len(note) <= 50 for note in seen)


# -- A2: catalog, rules, defaults ------------------------------------------------------------------------------------


def rules_of(world: World) -> list[str]:
    """Return the rules in a selection prompt."""
    text = text_of(world.model.of("selection")[0])
    return text.partition("## Rules\n")[2].partition("\n\n")[0].splitlines()


def test_A027_A071_five_rules_without_provider_specifics(tmp_path: Path) -> None:
    """Five lines, one rule each, in no more words than a prompt can spare."""
    with World(tmp_path, ONE_STEP, builtins=True) as world:
        world.run()
        rules = rules_of(world)
        assert len(rules) == 5
        assert all(rule.startswith("- ") and len(rule) < 130 for rule in rules)
        for name in ("openai", "anthropic", "tavily", "google", "bing", "gpt", "claude"):
            assert name not in " ".join(rules).lower()


@pytest.mark.parametrize(
    "words",
    [
        ("exactly one action per step", "only its parameters"),
        ("objective and criteria", "user's language", "recency only if freshness is implied"),
        ("machine-readable formats only when explicitly required", "Markdown"),
        ("parameters minimal", "connector-specific", "chain outputs"),
        ("Stop when the criteria are met", "new single action"),
    ],
    ids=["A028", "A029", "A030", "A031", "A032"],
)
def test_A028_A030_A031_A032_each_business_rule_is_in_the_prompt(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Document 000's five bullets, each in one line."""
    with World(tmp_path, ONE_STEP, builtins=True) as world:
        world.run()
        assert [rule for rule in rules_of(world) if all(word in rule for word in words)]


@pytest.mark.parametrize(
    ("options", "given", "language"),
    [
        ({}, {}, None),
        ({"user_language": "de"}, {}, "de"),
        ({"language": "de", "user_language": "en"}, {}, "de"),
        ({"user_language": "de"}, {"language": "fr"}, "fr"),
    ],
    ids=["nothing", "profile", "workflow over profile", "explicit"],
)
def test_A033_A075_the_language_is_filled_by_code(
    tmp_path: Path, options: dict[str, Any], given: dict[str, Any], language: str | None
) -> None:
    """Workflow over user over none; what the model sets stays."""
    calls: list[dict[str, Any]] = []
    fields = KEEP | ({"language": "string"} if given else {})
    script = [SELECT("notes.keep", fields), PARAMETERS(text="x", **given), STOP, SUCCESS]
    with World(tmp_path, script, [keeping(calls)]) as world:
        world.run(**options)
    assert [call["language"] for call in calls] == [language]


@pytest.mark.parametrize(
    ("formats", "expected"),
    [(None, ["md"]), (["json"], ["json"]), (["csv"], ["csv"]), (["md", "csv"], ["md", "csv"])],
    ids=short,
)
def test_A036_A076_ai_process_writes_markdown_unless_asked(
    tmp_path: Path, formats: list[str] | None, expected: list[str]
) -> None:
    """Missing: one Markdown document; explicit formats stay as they are."""
    values = {"aiPrompt": "list it"} | ({"expectedDocumentFormats": formats} if formats else {})
    texts = ["{}" if form == "json" else "text" for form in expected]
    script = [SELECT("ai.process", parametersSchema=None), PARAMETERS(**values), *texts, STOP, SUCCESS]
    with World(tmp_path, script, [], builtins=True) as world:
        result = world.run()
        assert [document.name for document in result.documents] == [f"text.{form}" for form in expected]
        assert [sections(call)["Format"] for call in world.model.of("text")] == expected


# -- A3: state, failure, limits, final output ------------------------------------------------------------------------


def test_A037_A063_counters_survive_a_restart(tmp_path: Path) -> None:
    """Round, task, action and step are the journal's; another process goes on with them."""
    script = [*READ(1), CONTINUE, *READ(2), CONTINUE, *READ(3), STOP, SUCCESS]
    with engine(tmp_path, script) as first:
        events = first.stream("Read", on_close="stop")
        for event in events:
            if isinstance(event, TransitionTaken) and (event.trigger, event.step) == ("specify", 3):
                break
        events.close()
        run_id = event.run_id
    with engine(tmp_path, script) as second:
        result = second.resume(run_id)
        assert (result.steps, result.documents[-1].label) == (3, "round1_task1_action3_page")


def test_A063_the_step_is_the_number_of_started_iterations(tmp_path: Path) -> None:
    """Counted when an action is selected, also for one that is refused afterwards."""
    script = [SELECT(), PARAMETERS(), PARAMETERS(), CONTINUE, *READ(2), STOP, SUCCESS]
    with World(tmp_path, script) as world:
        assert world.run().steps == 2
        assert [row.step for row in world.rows if row.trigger == "select"] == [1, 2]
        assert max(row.action for row in world.rows) == 2


def test_A040_A064_every_iteration_has_a_review_by_code_and_a_progress_row(tmp_path: Path) -> None:
    """Success or retry with the error as improvement; the criteria stand in the row of each iteration."""
    script = [
        SELECT("notes.fail"),
        PARAMETERS(page=1),
        CONTINUE,
        *READ(2),
        REFINE("stop", criteria=[MET("names the day")]),
    ]
    with World(tmp_path, [*script, SUCCESS]) as world:
        world.run("Read", CRITERIA)
        checks = []
        for row in world.rows:
            if row.trigger == "observe":
                checks.append(json.loads(str(world.journal.payload(row.run, row.change["n"]).body))["check"])
        assert [check["status"] for check in checks] == ["retry", "success"]
        assert checks[0]["improvements"] == ["tool_error: page 1 is torn out"]
        progress = [row.counters["criteria"] for row in world.rows if row.trigger in ("proceed", "conclude")]
        assert progress == ["00", "10"]


@pytest.mark.parametrize(
    ("policy", "task_type", "allowed"),
    [
        (Policy(), None, True),
        (Policy(task_types={"lookup": ("notes.read",)}), None, True),
        (Policy(task_types={"lookup": ("notes.read",)}), "lookup", False),
        (Policy(), "report", True),
        (Policy(task_types={"lookup": ("notes.*",)}), "lookup", True),
        (Policy(task_types={"lookup": ("notes.*",)}, deny=("notes.send",)), "lookup", False),
        (Policy(deny=("*_send",)), None, False),
        (Policy(allow=("notes.read",)), None, False),
        (Policy(allow=("notes.send",), task_types={"lookup": ("notes.read",)}), "lookup", False),
    ],
    ids=short,
)
def test_A043_A044_A091_policy_decides_what_may_be_selected(
    tmp_path: Path, policy: Policy, task_type: str | None, allowed: bool
) -> None:
    """Deny wins over the task type, which wins over the rest; what is not allowed is an invalid selection."""
    sent: list[str] = []

    @tool("notes.send")
    def watch(text: str) -> str:
        """Send."""
        sent.append(text)
        return "sent"

    chosen = SELECT("notes.send", KEEP)
    script = [chosen, PARAMETERS(text="x"), STOP, SUCCESS] if allowed else [chosen, *READ(1), STOP, SUCCESS]
    if policy.allow and "notes.read" not in policy.allow:
        script = [chosen, chosen]
    with World(tmp_path, script, [read, watch], policy=policy) as world:
        world.run(task_type=task_type)
        assert sent == (["x"] if allowed else [])
        assert (world.triggers[0] == "select") is allowed
        if not allowed and len(script) > 2:
            assert (
                "notes.send" in sections(world.model.of("selection")[1])["Your last reply could not be used"]
            )


def test_A047_observations_are_cut_between_characters(tmp_path: Path) -> None:
    """Multibyte text is cut on a character boundary, with a marker."""
    body = "日本語のテキスト🙂" * 200
    limits = Limits(snippet_chars=100)
    with World(tmp_path, ONE_STEP, [returning(body)], limits=limits) as world:
        world.run()
        snippet = observation(world)["previews"][0]["snippet"]
        assert len(snippet) == 100 and snippet.endswith("…") and body.startswith(snippet[:-1])


ENDS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "model_stop": (ONE_STEP, {}),
    "criteria_met": (
        [*READ(1), REFINE("continue", criteria=[MET("c")]), SUCCESS],
        {"success_criteria": ["c"]},
    ),
    "max_steps": ([*READ(1), CONTINUE, SUCCESS], {"limits": Limits(max_steps=1)}),
    "no_improvement": (
        [*READ(1), CONTINUE | {"score": 1}, *READ(2), CONTINUE | {"score": 1}, REVIEW("retry")],
        {"limits": Limits(no_improvement_limit=1)},
    ),
    "token_budget": (ONE_STEP, {"limits": Limits(token_budget=1)}),
    "selection_invalid": (["?", "?"], {}),
    "review_failed": ([*READ(1), STOP, REVIEW("failed")], {}),
    "retries_exhausted": ([*READ(1), STOP, REVIEW("retry")], {"limits": Limits(max_retries=0)}),
    "model_error": ([*READ(1)], {}),
    "stuck": ([SELECT(), PARAMETERS(), PARAMETERS()], {"limits": Limits(max_consecutive_refused=1)}),
    "consecutive_errors": (
        [SELECT("notes.fail"), PARAMETERS(page=1)],
        {"limits": Limits(max_consecutive_errors=1)},
    ),
}


@pytest.mark.parametrize("reason", ENDS)
def test_A048_every_end_has_a_final_message(tmp_path: Path, reason: str) -> None:
    """By the model where it gave one, else by code, in the record of the end as well as in the result."""
    script, options = ENDS[reason]
    with World(tmp_path, script) as world:
        result = world.run(**options)
        assert result.reason == reason
        assert result.answer.strip()
        last = world.rows[-1]
        change = json.loads(str(world.journal.payload(last.run, last.change["n"]).body))
        assert change["answer"] == result.answer


def test_A048_the_message_is_the_reviews_else_the_refinements_else_codes(tmp_path: Path) -> None:
    """Composed by code it tells what happened, why it ended and what there is to use."""
    stop = REFINE("stop", answer="From the refinement.")
    for review, expected in (
        (REVIEW("success", answer=" From the review. "), "From the review."),
        (REVIEW("success"), "From the refinement."),
    ):
        with World(
            tmp_path / expected, [*READ(1), stop, review], limits=Limits(completion_review="model")
        ) as world:
            assert world.run().answer == expected
    with World(tmp_path / "auto", [*READ(1), stop]) as world:
        assert world.run().answer == "From the refinement."
    with World(tmp_path / "code", [*READ(1), STOP, REVIEW("success", answer="  ")]) as world:
        answer = world.run().answer
        assert answer.splitlines()[0] == "Done: the model decided to stop."
        assert "notes.read: 1 document: Page 1: the supplier delivers" in answer


def test_A049_one_formatting_action_runs_before_the_end(tmp_path: Path) -> None:
    """Exactly one more execution, of the report, after a successful review; not counted as a step."""
    with World(tmp_path, ONE_STEP, limits=Limits(max_steps=1)) as world:
        result = world.run("Read page 1", final_format="md")
        assert (result.state, result.steps) == ("Done", 1)
        assert world.count("format") == 1 and world.count("execute") == 2
        report = result.documents[-1]
        assert report.label == "round1_task1_action2_final_format"
        assert str(report.read()).startswith("# Read page 1\n\nPage 1: the supplier delivers")
        assert result.answer == "All is read."
        assert "formats its result as md" in text_of(world.model.of("selection")[0])


def test_A049_a_direct_answer_is_formatted_as_well(tmp_path: Path) -> None:
    """Without any document the answer is what the report holds."""
    with World(tmp_path, [ANSWER("It is the 3rd."), REVIEW("success")]) as world:
        result = world.run("Which day?", final_format="markdown")
        assert str(result.documents[0].read()) == "# Which day?\n\nIt is the 3rd.\n"


def test_A049_a_formatting_that_fails_leaves_the_answer(tmp_path: Path) -> None:
    """The run ends Done all the same, with a note; it never loops."""
    binary = Document("scan.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 64, "image/png")
    with World(tmp_path, ONE_STEP, [returning([binary])]) as world:
        result = world.run(final_format="md")
        assert (result.state, len(result.documents)) == ("Done", 1)
        assert result.answer.startswith("All is read.") and "formatting failed" in result.answer
        assert world.triggers[-5:] == ["format", "specify", "execute", "observe", "finish"]


def test_A049_no_formatting_after_a_failure(tmp_path: Path) -> None:
    """Only after a successful review."""
    with World(tmp_path, [*READ(1), STOP, REVIEW("failed")]) as world:
        assert world.run(final_format="md").state == "Failed"
        assert world.count("format") == 0


def test_A044_deny_wins_over_the_final_formatting(tmp_path: Path) -> None:
    """A denied tool is never executed, whatever else allows it; the run ends Done with a note."""
    policy = Policy(deny=("document.*",))
    with World(tmp_path, ONE_STEP, policy=policy) as world:
        result = world.run(final_format="md")
        assert (result.state, world.count("execute")) == ("Done", 1)
        assert "formatting failed" in result.answer


@pytest.mark.parametrize("approve", [True, False])
def test_A049_the_final_formatting_can_need_an_approval(tmp_path: Path, approve: bool) -> None:
    """Asked like any other call; declined, the run still ends Done with its answer and a note."""
    with World(tmp_path, ONE_STEP, policy=Policy(approvals=("document.*",))) as world:
        waiting = world.run(final_format="md")
        assert (waiting.state, waiting.status) == ("Specifying", "waiting")
        result = world.engine.resume(waiting.run_id, answer={"approve": approve})
        assert (result.state, len(result.documents)) == ("Done", 2 if approve else 1)
        assert ("formatting failed" in result.answer) is not approve


def test_A049_the_final_formatting_can_be_cancelled(tmp_path: Path) -> None:
    """After a successful review only finish or a cancellation is left."""
    with World(tmp_path, ONE_STEP, policy=Policy(approvals=("document.*",))) as world:
        result = world.engine.cancel(world.run(final_format="md").run_id)
        assert (result.state, result.reason, result.answer) == ("Failed", "cancelled", "All is read.")


def test_A049_the_final_formatting_is_beyond_steps_and_budgets(tmp_path: Path) -> None:
    """The review has succeeded; what it cost stops nothing any more."""
    limits = Limits(max_steps=1, token_budget=100_000, max_blocked_calls=1, consecutive_limit=2)
    script = [*READ(1), STOP, Reply(json.dumps(SUCCESS), Usage(1, 100_000, 0))]
    with World(tmp_path, script, limits=limits) as world:
        result = world.run(final_format="md")
        assert (result.state, world.count("execute")) == ("Done", 2)


@pytest.mark.parametrize("how", ["run", "run_workflow"])
def test_A043_an_unknown_task_type_starts_nothing(tmp_path: Path, how: str) -> None:
    """A misspelt one would be a type without rules, and allow every tool."""
    policy = Policy(task_types={"lookup": ("notes.read",)})
    with World(tmp_path, [*READ(1), STOP, SUCCESS], policy=policy) as world:
        first = world.run(task_type="lookup")
        begin: Any = getattr(world.engine, how)
        with pytest.raises(UsageError, match=r"'lookpu' is not in Policy\.task_types; there are: lookup"):
            begin("Read", task_type="lookpu")
        assert [row.run_id for row in world.journal.runs()] == [first.run_id]


def test_A043_a_task_types_list_is_not_for_the_final_formatting(tmp_path: Path) -> None:
    """The caller asked for it; lists of what a model may choose do not forbid what code was told to do."""
    policy = Policy(allow=("notes.*",), task_types={"lookup": ("notes.read",)})
    with World(tmp_path, ONE_STEP, policy=policy) as world:
        assert len(world.run(final_format="txt", task_type="lookup").documents) == 2


# -- A4: the implementation specification ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {"method": 1, "name": "x"},
        {"method": "x"},
        [],
    ],
)
def test_A050_a_selection_is_two_strings(value: Any) -> None:
    """Anything else is a validation error."""
    with pytest.raises(ValueError, match="validation error"):
        ActionSelection.model_validate(value)
    assert ActionSelection(method="web", name="scrape").tool == "web.scrape"


@pytest.mark.parametrize("value", [{"parameters": []}, {}])
def test_A051_parameters_are_an_object(value: Any) -> None:
    """A list is a validation error."""
    with pytest.raises(ValueError, match="validation error"):
        ActionParameters.model_validate(value)


def test_A052_A015_an_observation_round_trips_through_json() -> None:
    """Wire names on both sides; what a tool does not know is absent, not null."""
    data: dict[str, Any] = {
        "success": True,
        "resultLabel": "round1_task2_action3_results",
        "documentsCount": 3,
        "previews": [{"name": "a", "mime": "application/json", "snippet": "{}"}],
        "notes": ["one"],
    }
    assert Observation.of(data).wire() == data
    assert json.loads(Observation.of(data).wire_json()) == data
    web = {"url": "https://example.org", "relevance_score": 0.5, "key_points": ["a"], "entities": ["b"]}
    assert Observation.of(data | {"web": [web]}).wire() == data | {"web": [web]}


@pytest.mark.parametrize(
    "wrong",
    [{"documentsCount": -1}, {"success": "yes"}, {"notes": "one"}, {"previews": [{"name": "a"}]}],
    ids=short,
)
def test_A052_an_observation_is_strict(wrong: dict[str, Any]) -> None:
    """A count is not negative, a string is no boolean, a preview has all its keys."""
    data: dict[str, Any] = {"success": True, "resultLabel": "x", "documentsCount": 0}
    assert Observation.of(data).notes == ()
    with pytest.raises(ValueError, match=r"Expected|missing required field"):
        Observation.of(data | wrong)


def test_A056_A057_A059_A061_the_requests_of_an_iteration_in_their_order(tmp_path: Path) -> None:
    """Selection, parameters, refinement, and once the review; the kind is in every row that asked."""
    with World(tmp_path, TWO_STEPS) as world:
        world.run()
        one = ["selection", "parameters", "refinement"]
        assert world.model.kinds == [*one, *one, "review"]
        kinds = [row.request["kind"] for row in world.rows]
        assert [kind for kind in kinds if kind not in ("none", "tool", "recall")] == world.model.kinds
        assert kinds[2] == "tool"


@pytest.mark.parametrize(
    "bad", [SELECT("notes.shred"), SELECT("notes.read", actionObjective=""), "I would read."], ids=short
)
def test_A058_invalid_selection_is_asked_again_once(tmp_path: Path, bad: Any) -> None:
    """bad, good runs good; bad, bad is Failed(selection_invalid) with two selection calls and no execution."""
    with World(tmp_path / "good", [bad, *ONE_STEP]) as world:
        assert world.run().state == "Done"
        assert sections(world.model.of("selection")[1])["Your last reply could not be used"]
    with World(tmp_path / "bad", [bad, bad, *ONE_STEP]) as world:
        result = world.run()
        assert (result.state, result.reason) == ("Failed", "selection_invalid")
        assert world.model.kinds == ["selection", "selection"]
        assert (world.count("execute"), result.steps) == (0, 0)


def test_A061_the_refinement_sees_the_observation(tmp_path: Path) -> None:
    """In the strict profile as one JSON object, else as the text that it was; behind the action that was done with its arguments."""
    with World(tmp_path / "strict", ONE_STEP) as world:
        world.run(profile="strict")
        (call,) = world.model.of("refinement")
        assert [message.role for message in call.messages] == ["system", "user", "assistant", "user"]
        assert json.loads(call.messages[2].text) == {"action": "notes.read", "parameters": {"page": 1}}
        lead, _, observed = call.messages[3].text.partition(": ")
        assert lead == "Result of notes.read"
        assert json.loads(observed)["resultLabel"] == "round1_task1_action1_page"
    with World(tmp_path / "two_stage", ONE_STEP) as world:
        world.run()
        (call,) = world.model.of("refinement")
        assert [message.role for message in call.messages] == ["system", "user", "assistant", "user", "user"]
        assert json.loads(call.messages[2].text) == {"action": "notes.read", "parameters": {"page": 1}}
        text = world.journal.reader.document(world.run_id, 0)
        assert isinstance(text, str) and call.messages[3].text == f"Result of notes.read:\n{text}"


def test_a_refinement_template_can_tell_the_observation_itself(tmp_path: Path) -> None:
    """Then no conversation follows it."""
    template = "{{KEY:LAST_ACTION}}\n\n{{KEY:EARLIER_STEPS}}\n\n{{KEY:OBSERVATION}}\n\n{{KEY:STEPS}}"
    with World(tmp_path, TWO_STEPS, prompts={"refinement": template}) as world:
        world.run()
        (message,) = world.model.of("refinement")[1].messages
        action, step, observed, steps = message.text.split("\n\n")
        assert action == 'notes.read: use notes.read\nArguments: {"page":2}'
        assert step.startswith("- Step 1: notes.read [ok]")
        assert json.loads(observed)["resultLabel"] == "round1_task1_action2_page"
        assert steps == "2 of at most 5"


def test_A062_messages_at_iteration_granularity(tmp_path: Path) -> None:
    """Two iterations: one start, two steps, one complete, in this order; both labels can be resolved."""
    events: list[Event] = []
    with World(tmp_path, TWO_STEPS, hooks=[events.append]) as world:
        result = world.run()
        told = [event for event in events if not isinstance(event, TransitionTaken)]
        assert [event.kind for event in told] == ["start", "step", "step", "complete"]
        started, *done, ended = told
        assert isinstance(started, RunStarted) and isinstance(ended, RunEnded)
        labels = [event.label for event in done if isinstance(event, StepCompleted)]
        assert labels == [document.label for document in result.documents]
        assert all(document.read() for document in result.documents)
        assert ended.result == result


@pytest.mark.parametrize(
    "bad", [REFINE("maybe"), {"decision": "continue"}, REFINE("continue", reason=""), "go on"], ids=short
)
def test_A068_another_decision_is_asked_again_once_then_stops_safely(tmp_path: Path, bad: Any) -> None:
    """After the one retry the run stops as if the model had, and the completion review decides."""
    with World(tmp_path / "good", [*READ(1), bad, CONTINUE, *READ(2), STOP, SUCCESS]) as world:
        assert world.run().steps == 2
        assert sections(world.model.of("refinement")[1])["Your last reply could not be used"]
    with World(tmp_path / "bad", [*READ(1), bad, bad, SUCCESS]) as world:
        result = world.run()
        assert (result.state, result.reason, result.steps) == ("Done", "model_stop", 1)
        assert world.model.kinds.count("refinement") == 2


def test_A080_tokens_and_time_stand_in_the_row_of_every_request(tmp_path: Path) -> None:
    """Cumulative in columns, this request's own in the outcome."""
    with World(tmp_path, TWO_STEPS) as world:
        world.run()
        tokens = time_us = 0
        for row in world.rows:
            tokens += row.outcome.get("tokens_in", 0) + row.outcome.get("tokens_out", 0)
            assert row.tokens_in + row.tokens_out == tokens
            assert row.time_us > time_us
            time_us = row.time_us
            if row.request["kind"] in ("selection", "parameters", "refinement", "review"):
                assert row.outcome["tokens_in"] > 0 < row.outcome["tokens_out"]


def test_A082_events_tell_step_and_reason(tmp_path: Path) -> None:
    """Step n of max, and why: of the choice, of the decision, of the end."""
    events: list[Event] = []
    with World(tmp_path, TWO_STEPS, hooks=[events.append]) as world:
        world.run()
        taken = [event for event in events if isinstance(event, TransitionTaken)]
        assert [event.trigger for event in taken] == world.triggers
        assert {(event.step, event.max_steps) for event in taken} == {(1, 5), (2, 5)}
        details = {event.trigger: event.detail for event in taken}
        assert details["proceed"] == "continue: the script says continue"
        assert details["conclude"] == "stop: the script says stop"
        assert "use notes.read" in details["select"]
        assert all(event.detail for event in taken)
        assert taken[-1].tokens == world.rows[-1].tokens_in + world.rows[-1].tokens_out


def test_A089_a_research_task_end_to_end(tmp_path: Path) -> None:
    """Two sources are read, a text is written from both, the report is made: iterations, labels, final output."""
    process = SELECT(
        "ai.process",
        {"aiPrompt": "string"},
        requiredInputDocuments=["docList:round1_task1_action1_page", "docItem:round1_task1_action2_page#0"],
    )
    script = [
        *[*READ(1), CONTINUE],
        *[*READ(2), CONTINUE],
        *[process, PARAMETERS(aiPrompt="compare"), "Page 1 says 10 days, page 2 says 20."],
        REFINE("stop", criteria=[MET("names the day"), MET("names the place")]),
        REVIEW("success", answer="10 or 20 days."),
    ]
    with World(tmp_path, script, builtins=True) as world:
        result = world.run("How long does delivery take?", CRITERIA, final_format="md")
        assert (result.state, result.reason, result.steps) == ("Done", "criteria_met", 3)
        assert [document.label for document in result.documents] == [
            "round1_task1_action1_page",
            "round1_task1_action2_page",
            "round1_task1_action3_text",
            "round1_task1_action4_final_format",
        ]
        asked = user_text(world.model.of("text")[0])
        assert "Page 1: the supplier" in asked and "Page 2: the supplier" in asked
        assert result.answer == "10 or 20 days."
        assert str(result.documents[-1].read()).startswith("# How long does delivery take?\n")
        world.model.assert_all_used()
        assert world.journal.verify() == [] and replay(world.journal, world.run_id).identical


# -- A5: two-stage prompting -------------------------------------------------------------------------------------

FULL = {
    "action": "notes.join",
    "actionObjective": "join what was read",
    "learnings": ["page 1 is short", "page 2 is long"],
    "requiredInputDocuments": ["docList:round1_task1_action1_page"],
    "requiredConnection": "mail",
    "parametersContext": "Join with a semicolon.",
    "parametersSchema": {
        "fields": [{"name": "glue", "type": "string", "required": True, "description": "between the parts"}]
    },
}


def joining(got: list[dict[str, Any]]) -> Tool:
    """Return a tool that takes documents, a connection and one business parameter."""

    @tool("notes.join", effect="read", label="joined")
    def join(
        context: ToolContext, documentList: list[str], glue: str, connectionReference: str | None = None
    ) -> str:
        """Join."""
        documents = [document.data for document in context.documents(documentList)]
        got.append(
            {
                "documentList": documentList,
                "glue": glue,
                "connectionReference": connectionReference,
                "connection": context.connection,
                "documents": documents,
            }
        )
        return glue.join(map(str, documents))

    return join


def joined(tmp_path: Path, got: list[dict[str, Any]], values: Any = None, **changes: Any) -> World:
    """Return a world that reads page 1, joins (with *values* as Stage 2's reply), and stops."""
    values = PARAMETERS(glue="; ") if values is None else values
    script = [*READ(1), CONTINUE, FULL | changes, values, STOP, SUCCESS]
    return World(tmp_path, script, [read, joining(got)])


def test_A100_stage_1_gets_prompt_methods_documents_and_history(tmp_path: Path) -> None:
    """Four sections, the index of documents growing with what was produced."""
    with World(tmp_path, TWO_STEPS) as world:
        world.run("Read both", documents=[("a.txt", "A"), ("b.txt", "B")], profile="strict")
        call = world.model.of("selection")[1]
        found = sections(call)
        assert found["Objective"] == "Read both" and "## Actions" in text_of(call)
        assert "docList:round1_task1_action0_input (2)" in found["Documents"]
        assert "docList:round1_task1_action1_page (1 from notes.read)" in found["Documents"]
        assert found["History, newest first"].startswith("- Step 1: notes.read [ok]")


STAGE_1_FAULTS: dict[str, tuple[Any, str]] = {
    "A103 a number": (SELECT() | {"action": 7}, "action_name"),
    "A104 no objective": ({"action": "notes.read"}, "objective"),
    "A105 learnings that are no list": (SELECT(learnings="short"), "wrong_type"),
    "A107 a number as connection": (SELECT(requiredConnection=1), "wrong_type"),
    "A109 another type": (
        SELECT(parametersSchema={"fields": [{"name": "d", "type": "date"}]}),
        "schema_fields",
    ),
    "A112 a context that is no text": (SELECT(parametersContext=["x"]), "wrong_type"),
}


@pytest.mark.parametrize("case", STAGE_1_FAULTS)
def test_A103_A104_A105_A107_A109_stage_1_is_validated(tmp_path: Path, case: str) -> None:
    """Each fault is rejected, named in the row and to the model, and uses the one retry."""
    reply, code = STAGE_1_FAULTS[case]
    with World(tmp_path, [reply, *ONE_STEP]) as world:
        result = world.run(documents=[("a.txt", "A")], connections={"mail": None})
        assert result.state == "Done"
        assert (world.rows[0].trigger, world.rows[0].outcome["invalid"]) == ("reselect", code)
        assert sections(world.model.of("selection")[1])["Your last reply could not be used"]


def test_A066_A113_A115_the_template_asks_for_the_whole_object_without_parameters(tmp_path: Path) -> None:
    """In the strict profile every key of document 003 from the first request on, in two stages those that the run has a use for."""
    for profile in ("strict", "two_stage"):
        with World(tmp_path / profile, TWO_STEPS) as world:
            world.run(connections={"mail": 1}, profile=profile)
            first, later = (sections(call)["Reply"] for call in world.model.of("selection"))
            text = text_of(world.model.of("selection")[0])
            assert "Never write `parameters`." in text and '"parameters":' not in text
            said = '"parametersContext": "the values, names and texts from which its parameters are set"'
            assert said in first and said in later
            absent = [{key for key in FULL if f'"{key}"' not in reply} for reply in (first, later)]
            if profile == "strict":
                assert absent == [set(), set()]
    assert absent == [{"parametersSchema", "learnings", "requiredInputDocuments"}, {"parametersSchema"}]


def test_A116_an_unknown_key_survives_in_the_journal(tmp_path: Path) -> None:
    """It is carried, not understood, and no failure."""
    with World(tmp_path, [SELECT(userMessage="I read page 1 now"), *ONE_STEP[1:]]) as world:
        assert world.run().state == "Done"
        reply = world.journal.payload(world.rows[0].run, world.rows[0].outcome["reply"]["n"]).body
        assert json.loads(str(reply))["userMessage"] == "I read page 1 now"


STAGE_2_FAULTS: dict[str, tuple[Any, str]] = {
    "A117 another schema": ({"schema": "parameters_v2", "parameters": {"page": 1}}, "schema_name"),
    "A117 a number as schema": ({"schema": 1, "parameters": {"page": 1}}, "wrong_type"),
    "A051 a list": ({"parameters": [1]}, "wrong_type"),
    "A007 no wrapper": ({"page": 1}, "no_wrapper"),
    "prose": ("page one", "no_json"),
}


@pytest.mark.parametrize("case", STAGE_2_FAULTS)
def test_A007_A117_stage_2_is_validated(tmp_path: Path, case: str) -> None:
    """Each fault is asked again once and named; the journal keeps the reply."""
    reply, code = STAGE_2_FAULTS[case]
    with World(tmp_path, [SELECT(), reply, PARAMETERS(page=1), STOP, SUCCESS]) as world:
        assert world.run().state == "Done"
        row = world.rows[1]
        assert (row.trigger, row.outcome["invalid"]) == ("respecify", code)
        kept = world.journal.payload(row.run, row.outcome["reply"]["n"]).body
        assert kept == (reply if isinstance(reply, str) else json.dumps(reply))


def test_A122_after_a_bare_choice_stage_2_gets_the_fuller_prompt(tmp_path: Path) -> None:
    """Objective, criteria, language, documents, the tool's own parameters and history; not after one with a purpose."""
    got: list[dict[str, Any]] = []
    with joined(tmp_path / "told", got, parametersSchema=None) as world:
        world.run("Join them", CRITERIA, connections={"mail": 1}, language="de")
        assert "Objective" not in sections(world.model.of("parameters")[1])
    bare = {"action": {"method": "notes", "name": "join"}, "actionObjective": None, "parametersSchema": None}
    with joined(tmp_path / "bare", got, **bare) as world:
        world.run("Join them", CRITERIA, connections={"mail": 1}, language="de")
        found = sections(world.model.of("parameters")[1])
        assert list(found) == [
            *("Objective", "Success criteria", "Language", "Selected action", "Input documents"),
            *("Parameters context", "Parameters schema", "History, newest first", "Reply"),
        ]
        assert found["Input documents"] == "- docList:round1_task1_action1_page"
        assert "- glue (text; required)" in found["Parameters schema"]
        assert "documentList" not in found["Parameters schema"], (
            "Stage 2 must not be shown what it may not set"
        )


def test_A123_A128_smuggled_values_do_not_replace_stage_2(tmp_path: Path) -> None:
    """Whatever Stage 1 hides in other keys, Stage 2 is asked, once, and its values count."""
    seen: list[int] = []

    @tool("notes.read", effect="read")
    def watch(page: int) -> str:
        """Read."""
        seen.append(page)
        return "x"

    smuggled = SELECT(
        arguments={"page": 9}, values={"page": 9}, origin="format", params={"page": 9}, tool="notes.x"
    )
    with World(tmp_path, [smuggled, PARAMETERS(page=1), STOP, SUCCESS], [watch]) as world:
        world.run()
        assert seen == [1]
        assert world.model.kinds.count("parameters") == 1


def test_D10_an_action_without_parameters_has_no_stage_2(tmp_path: Path) -> None:
    """As amended: the tool's schema says whether there is anything to ask for, whatever Stage 1 says of fields."""
    nothing = Tool(name="notes.none", run=lambda: "done", effect="read")
    hints: dict[str, Any] = {"an empty list": {"fields": []}, "no schema": None, "a field": KEEP_FIELD}
    for name, fields in hints.items():
        chosen = SELECT("notes.none", parametersSchema=fields)
        with World(tmp_path / name, [chosen, STOP, SUCCESS], [nothing]) as world:
            assert world.run().state == "Done"
            assert "parameters" not in world.model.kinds
            assert (world.rows[1].trigger, world.rows[1].request) == ("specify", {"kind": "none"})
    with World(tmp_path / "page", [SELECT("notes.read", {}), *ONE_STEP[1:]]) as world:
        assert world.run().state == "Done"
        assert world.model.kinds.count("parameters") == 1, "an empty list does not settle a parameter"
    named = {"properties": {"page": {"type": "integer"}}, "required": ["page"]}
    others: dict[str, Any] = {"choice": {"anyOf": [named]}, "pattern": {"patternProperties": {"^p": {}}}}
    for name, schema in others.items():
        got: list[Any] = []
        take = Tool(
            name="notes.take", parameters=schema, run=lambda got=got, **keys: got.append(keys), effect="read"
        )
        with World(tmp_path / name, [SELECT("notes.take", {}), *ONE_STEP[1:]], [take]) as world:
            assert world.run().state == "Done"
        assert got == [{"page": 1}], "parameters that only a choice or a pattern names are asked for, too"


def test_C31_documents_of_a_failed_or_empty_action_cannot_be_referred_to(tmp_path: Path) -> None:
    """In the strict profile an explicit error before Stage 2, naming the reference."""
    nothing = Tool(name="notes.none", run=lambda: None, effect="read", label="nil")
    failed = SELECT(requiredInputDocuments=["docList:round1_task1_action1_result"])
    empty = SELECT(requiredInputDocuments=["docList:round1_task1_action2_nil"])
    script = [
        SELECT("notes.fail"),
        PARAMETERS(page=1),
        CONTINUE,
        SELECT("notes.none", {}),
        CONTINUE,
        failed,
        empty,
    ]
    with World(tmp_path, script, [*TOOLS, nothing]) as world:
        assert world.run(profile="strict").reason == "selection_invalid"
        feedback = sections(world.model.calls[-1])["Your last reply could not be used"]
        assert "docList:round1_task1_action1_result' names no document" in feedback
        last = world.rows[-2]
        assert last.outcome["invalid"] == "reference"


# -- effects and errors of tools -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "attempts"), [(NotStarted("busy"), 3), (ToolError("gone"), 1), (OSError("?"), 1)]
)
def test_a_once_effect_is_tried_again_only_if_it_certainly_did_not_begin(
    tmp_path: Path, error: Exception, attempts: int
) -> None:
    """NotStarted says so; any other error of a once tool is its outcome."""
    tried: list[str] = []

    @tool("notes.send", retries=2)
    def post(text: str) -> str:
        """Send."""
        tried.append(text)
        raise error

    with World(tmp_path, [SELECT("notes.send", KEEP), PARAMETERS(text="x"), STOP, SUCCESS], [post]) as world:
        world.run()
        assert len(tried) == attempts
        assert observation(world)["success"] is False


def test_the_idempotency_key_is_one_per_action(tmp_path: Path) -> None:
    """The same for every attempt of an action, another one for the next action."""
    keys: list[str] = []

    @tool("notes.read", effect="idempotent", retries=1)
    def keyed(context: ToolContext, page: int) -> str:
        """Read."""
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            raise OSError("again")
        return "x"

    with World(tmp_path, TWO_STEPS, [keyed]) as world:
        world.run()
        assert keys[0] == keys[1] != keys[2]
        assert world.run_id in keys[0]


# -- approvals -----------------------------------------------------------------------------------------------------

APPROVALS = Policy(approvals=("notes.send",))
SEND = [SELECT("notes.send", KEEP), PARAMETERS(text="hello"), STOP, SUCCESS]


def sending(sent: list[str]) -> Tool:
    """Return a once tool that keeps what it sent."""

    @tool("notes.send")
    def post(text: str) -> str:
        """Send."""
        sent.append(text)
        return "sent"

    return post


def test_an_approval_is_waited_for_before_the_intent(tmp_path: Path) -> None:
    """The run waits in Specifying; no action number is given and nothing was executed."""
    sent: list[str] = []
    with World(tmp_path, SEND, [sending(sent)], policy=APPROVALS) as world:
        result = world.run()
        assert (result.state, result.status, result.reason, result.answer) == (
            "Specifying",
            "waiting",
            None,
            "",
        )
        assert result.waiting_for is not None
        assert (result.waiting_for.kind, result.waiting_for.tool) == ("approval", "notes.send")
        assert "approve" in result.waiting_for.schema["properties"]
        assert (sent, world.rows[-1].action) == ([], 0)


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        ({"approve": True}, True),
        ({"approve": False}, False),
        ({"action": "accept", "content": {"approve": True}}, True),
        ({"action": "decline"}, False),
        ({"action": "decline", "content": {"approve": True}}, False),
    ],
    ids=short,
)
def test_only_a_clear_yes_approves(tmp_path: Path, answer: Any, runs: bool) -> None:
    """Everything else denies this call; the model learns that it was not approved and the run goes on."""
    sent: list[str] = []
    with World(tmp_path, SEND, [sending(sent)], policy=APPROVALS) as world:
        waiting = world.run()
        result = world.engine.resume(waiting.run_id, answer=answer)
        assert result.state == "Done"
        assert sent == (["hello"] if runs else [])
        assert world.model.kinds.count("parameters") == 1, "what was approved is what runs"
        seen = observation(world)
        assert seen["success"] is runs
        if not runs:
            assert seen["notes"] == ["denied: the call was not approved"]
        assert replay(world.journal, result.run_id).identical


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_beyond_the_limit_of_questions_a_run_is_stuck_and_nothing_runs_unapproved(
    tmp_path: Path, limit: int
) -> None:
    """The call that could not be asked for is not made: Failed(stuck)."""
    sent: list[str] = []
    script: list[Any] = []
    for n in range(4):
        script += [SELECT("notes.send", KEEP), PARAMETERS(text=f"note {n}"), CONTINUE]
    limits = Limits(max_elicitations=limit)
    with World(tmp_path, script, [sending(sent)], policy=APPROVALS, limits=limits) as world:
        result = world.run()
        for _ in range(limit):
            result = answered(world.engine, result.run_id, answer={"approve": True})
        assert (result.state, result.reason) == ("Failed", "stuck")
        assert sent == [f"note {n}" for n in range(limit)]


def test_a_call_that_is_refused_anyway_is_not_asked_about(tmp_path: Path) -> None:
    """Nobody approves what is unsafe or a duplicate."""
    sent: list[str] = []
    bad = PARAMETERS(text="http://127.0.0.1/")
    script = [SELECT("notes.send", KEEP), bad, bad, STOP, SUCCESS]
    with World(tmp_path, script, [sending(sent)], policy=APPROVALS) as world:
        assert (world.run().state, sent, world.count("wait")) == ("Done", [], 0)


# -- logs ----------------------------------------------------------------------------------------------------------


def test_C2_25_nothing_of_a_run_goes_to_stdout_or_logs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """No secret, argument or result is printed by the engine."""
    caplog.set_level(logging.DEBUG)
    with World(tmp_path, TWO_STEPS) as world:
        world.run()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert "supplier" not in caplog.text and "Read the notes" not in caplog.text


def test_what_a_refinement_has_learnt_stands_in_the_next_selections_history(tmp_path: Path) -> None:
    """Kept with the row, bounded; anything that is no list of texts is none, and makes no reply invalid."""
    first = {
        "decision": "continue",
        "reason": "more",
        "learnings": ["page 1 names O-1004", 7, " ", "x" * 999, "c", "d", "e", "too many"],
    }
    second = {"decision": "continue", "reason": "more", "learnings": "a text"}
    script = [*READ(1), first, *READ(2), second, *READ(3), STOP, SUCCESS]
    with World(tmp_path, script, [read]) as world:
        assert world.run().state == "Done"
        shown = [sections(call).get("Learnt so far") for call in world.model.of("selection")]
        assert shown == [None, f"page 1 names O-1004; {'x' * 200}; c; d; e", None]
    with World(tmp_path / "strict", script, [read]) as world:
        assert world.run(profile="strict").state == "Done"
        before, then, after = (
            sections(call).get("History, newest first", "") for call in world.model.of("selection")
        )
    assert then.startswith("- Learnt from these: page 1 names O-1004; " + "x" * 200 + "; c; d; e\n- Step 1")
    assert "Learnt" not in before + after
