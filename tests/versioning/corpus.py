"""
A corpus of journals that together visit what decides: the journeys, and runs that were made to come to what those leave out.

`record` writes them into a folder, a folder each, always the same ones.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Limits, Policy, Reply, Result, Task, Tool, tool
from paor.states.base.errors import InvalidAnswer, PaorError
from paor.testing import SeededIds, SteppingClock

from ..support.flows import PLAN as PAGES
from ..support.flows import Calls, fixture
from ..support.journey import BAD, CALL, CRITERIA, SEND, Journey, answered
from ..support.journeys import JOURNEYS, play
from ..support.planning import ABORT, ASK, END, NOOP, NOTHING, PLAN, STEP
from ..support.recording import sections
from ..support.worlds import (
    ANSWER,
    CONTINUE,
    JOURNAL,
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
)

DECLINE: dict[str, Any] = {"answer": {"action": "decline"}}
INPUT = "round1_task1_action0_input"
DOCUMENTS = [("a.txt", "first"), ("b.txt", "second")]


@tool("notes.fetch", effect="read")
def fetch(url: str = "https://example.org/", links: list[str] | None = None, path: str = "a.txt") -> str:
    """Fetch something."""
    return f"from {url}"


@tool("notes.long", effect="read", label="long")
def long(page: int) -> str:
    """Return a text that no observation holds."""
    return "\n".join(f"{page}. " + "a long line of many words " * 12 for _ in range(60))


TYPED = Tool(
    name="notes.typed",
    description="Take everything.",
    parameters={
        "type": "object",
        "properties": {
            "documentList": {"type": "array", "items": {"type": "string"}},
            "connectionReference": {"type": "string"},
            "kind": {"enum": ["short", "long"], "default": "short"},
            "count": {"type": "integer", "default": 3, "description": "how many"},
            "language": {"type": "string"},
            "nested": {"type": "object", "properties": {"deep": {"type": "boolean", "default": True}}},
        },
        "required": ["documentList", "kind"],
    },
    run=lambda **values: {key: values[key] for key in sorted(values) if key != "documentList"},
    effect="read",
    duplicate_limits={"consecutive_limit": 2},
)
EVERY = (*TOOLS, fetch, long, TYPED)


def TYPE(*documents: str, **keys: Any) -> list[dict[str, Any]]:
    """Return the replies that call the tool with documents and a connection."""
    chosen = SELECT("notes.typed", {"kind": "string"}, requiredInputDocuments=list(documents), **keys)
    return [chosen, PARAMETERS(kind="long")]


def CHOOSE(method: str, name: str, **keys: Any) -> dict[str, Any]:
    """Return the bare choice of a single stage."""
    return {"action": {"method": method, "name": name}, **keys}


URLS = (
    *(
        "file:///etc/passwd",
        "http://localhost/x",
        "http://2130706433/",
        "gopher://a.org",
        "http://10.0.0.1/a",
    ),
    *("http://0x7f.1/", "javascript:alert(1)", "//example.org", "https://user:pass@example.org/"),
)
UNSAFE: tuple[dict[str, Any], ...] = (
    *({"url": url} for url in URLS),
    *({"path": path} for path in ("../../etc/passwd", "/etc/passwd", "~/x", "C:\\x", "a/../b")),
    {"links": ["https://example.org", "http://[::1]/"]},
    {"url": "https://example.org/fine", "path": "b.txt", "links": []},
)
STRICT: dict[str, Any] = {"profile": "strict", "limits": Limits(selection_retries=9, parameter_retries=3)}
PLANNER: dict[str, Any] = {
    "mode": "planner",
    "limits": Limits(max_steps=30, selection_retries=9, max_plans=30, max_consecutive_refused=9),
}
NATIVE = {"tool_calls": [{"id": "c", "function": {"name": "notes_read", "arguments": {"page": 3}}}]}

EXTRA = (
    Journey(
        "odd_choices",
        [
            {"answer": "no action"},
            {"action": None},
            {"action": ["a", "b"]},
            {"action": "read"},
            {"action": {"method": "notes.read", "name": "read"}, "parametersSchema": {"fields": "x"}},
            {"action": {"method": "notes", "name": "notes.read"}, "actionObjective": 7},
            {"action": {"method": "a.b", "name": "c"}},
            SELECT(actionObjective=""),
            SELECT(requiredInputDocuments=["a.txt"]),
            SELECT(requiredInputDocuments=[f"docItem:{INPUT}"]),
            SELECT(requiredInputDocuments=[f"docList:{INPUT}#0"]),
            SELECT(requiredInputDocuments=[f"docItem:{INPUT}#2"]),
            SELECT(requiredInputDocuments=["docList:none"]),
            SELECT(requiredConnection="other"),
            SELECT("notes.typed"),
            SELECT(parametersSchema={"fields": [{"name": "history", "type": "string"}]}),
            SELECT(learnings="one"),
            Reply('{"action": "no', finish="length"),
            Reply("I decline.", finish="refusal"),
            {
                "action": {"method": "notes.read", "name": "read"},
                "requiredInputDocuments": [f"docItem:{INPUT}#1"],
            },
            PARAMETERS(page=1, history="x", documents=[]),
            REFINE("stop", hint="none"),
            SUCCESS,
        ],
        "model_stop",
        tools=lambda: EVERY,
        options={"limits": Limits(selection_retries=30)},
        run={"documents": DOCUMENTS, "connections": {"main": 1, "spare": 2}, "context": "In haste."},
    ),
    Journey(
        "typed",
        [
            *TYPE(f"docList:{INPUT}", requiredConnection="main"),
            CONTINUE,
            *TYPE(f"docItem:{INPUT}#0"),
            CONTINUE,
            *TYPE(f"docItem:{INPUT}#0"),
            CONTINUE,
            SELECT("notes.typed", {}, requiredInputDocuments=["docList:round1_task1_action1_result"]),
            REFINE("continue", score=0.25),
            SELECT("notes.typed", {"kind": "enum"}, requiredInputDocuments=[f"docList:{INPUT}"]),
            PARAMETERS(kind="other"),
            PARAMETERS(kind="short", count="many"),
            PARAMETERS(kind="short", count=1),
            REFINE("stop", score=0.5),
            REVIEW("retry", "take all", "and more"),
            ANSWER("All of it."),
            SUCCESS,
        ],
        "model_stop",
        tools=lambda: EVERY,
        options={"limits": Limits(max_steps=9, parameter_retries=2), "rules": ["Be brief.", "Be kind."]},
        run={"documents": DOCUMENTS, "connections": {"main": 1}, "language": "de"},
    ),
    Journey(
        "unsafe",
        [
            item
            for value in UNSAFE
            for item in [SELECT("notes.fetch", {"url": "string"}), PARAMETERS(**value), CONTINUE]
        ],
        None,
        tools=lambda: EVERY,
        options={"limits": Limits(max_steps=40, parameter_retries=0, max_consecutive_refused=40)},
    ),
    Journey(
        "alternating",
        [item for page in (1, 2, 1, 2, 1, 2, 1, 2) for item in [*READ(page), CONTINUE]],
        None,
        options={"limits": Limits(max_steps=20, window_freq_limit=9)},
    ),
    Journey(
        "frequent",
        [item for page in (1, 2, 1, 3, 1, 4, 1) for item in [*READ(page), CONTINUE]],
        "stuck",
        "Failed",
        options={"limits": Limits(max_steps=20, window_freq_limit=2, window_size=6, max_blocked_calls=2)},
    ),
    Journey(
        "repeated_success",
        [
            *READ(1),
            CONTINUE,
            *READ(1),
            CONTINUE,
            *CALL("notes.fail"),
            CONTINUE,
            *CALL("notes.fail"),
            STOP,
            SUCCESS,
        ],
        "model_stop",
        options={"limits": Limits(block_repeated_success=True)},
    ),
    Journey(
        "long_outputs",
        [
            *CALL("notes.long", 1),
            CONTINUE,
            *CALL("notes.long", 2),
            CONTINUE,
            *CALL("notes.long", 3),
            STOP,
            SUCCESS,
        ],
        "model_stop",
        tools=lambda: EVERY,
        options={
            "limits": Limits(observation_chars=700, snippet_chars=300, note_chars=60, history_chars=500)
        },
    ),
    Journey(
        "single_stage",
        [
            "notes",
            CHOOSE("notes", "read"),
            PARAMETERS(page=1),
            CONTINUE,
            CHOOSE("notes", "typed", requiredInputDocuments=[f"docList:{INPUT}"]),
            PARAMETERS(kind="long"),
            STOP,
            SUCCESS,
        ],
        "model_stop",
        tools=lambda: EVERY,
        run={"stage": "single", "documents": DOCUMENTS, **CRITERIA},
    ),
    Journey(
        "strict",
        [
            CHOOSE("notes", "read"),
            SELECT("read"),
            SELECT(
                parametersSchema={
                    "fields": [{"name": "page", "type": "array", "required": True, "description": "x"}]
                }
            ),
            {key: value for key, value in SELECT().items() if key != "learnings"},
            SELECT(),
            {"parameters": {"page": 1}, "more": 1},
            PARAMETERS(page=1, history="x"),
            PARAMETERS(page=1),
            STOP,
            SUCCESS,
        ],
        "model_stop",
        run=STRICT,
    ),
    Journey(
        "strict_single",
        [
            CHOOSE("notes.read", "read"),
            SELECT(),
            CHOOSE("notes", "notes.read"),
            CHOOSE("notes", "read"),
            PARAMETERS(page=1),
            STOP,
            SUCCESS,
        ],
        "model_stop",
        run={**STRICT, "stage": "single"},
    ),
    Journey(
        "task_type",
        [SELECT("notes.send"), SELECT("notes.fail"), *READ(1), STOP, SUCCESS],
        "model_stop",
        options={
            "policy": Policy(task_types={"look": ("notes.read", "notes.send")}, deny=("notes.send",)),
            "limits": Limits(selection_retries=4),
        },
        run={"task_type": "look"},
    ),
    Journey(
        "allowed_only",
        [SELECT("notes.send"), *READ(1), STOP, SUCCESS],
        "model_stop",
        options={"policy": Policy(allow=("notes.read",))},
    ),
    Journey(
        "criteria_one_by_one",
        [
            *READ(1),
            REFINE("continue", criteria=[MET("every page is read")], answer="So far."),
            *READ(2),
            REFINE("stop", criteria=[MET("the dates are listed", met=False)], score=1),
            REVIEW("failed", "nothing helps", criteria=[MET("the dates are listed", met=False)]),
        ],
        "review_failed",
        "Failed",
        run=CRITERIA,
    ),
    Journey(
        "retry_after_no_improvement",
        [
            *READ(1),
            REFINE("continue", score=0.5),
            *READ(2),
            REFINE("continue", score=0.5),
            *READ(3),
            REFINE("continue", score=0.5),
            REVIEW("retry", "more"),
        ],
        "no_improvement",
        "Failed",
        options={"limits": Limits(max_steps=9)},
    ),
    Journey(
        "formatted_after_refusal",
        [*CALL("notes.fail"), CONTINUE, *READ(1), STOP, REVIEW("success")],
        "model_stop",
        options={"policy": Policy(deny=("document.*",))},
        run={"final_format": "txt"},
    ),
    Journey(
        "asked_past_the_bound",
        [*SEND("a"), CONTINUE, *SEND("b")],
        "stuck",
        "Failed",
        options={"policy": Policy(approvals=("notes.send",)), "limits": Limits(max_elicitations=1)},
        answers=[{"answer": {"approve": False}}],
    ),
    Journey(
        "planner_forms",
        [
            BAD[:0],
            {"plan": {"steps": [STEP(page=1)]}},
            {"plan": [STEP(page=2)], "answer": "x"},
            json.dumps([STEP(page=3)]),
            STEP(page=4),
            NATIVE | {"role": "assistant", "content": None},
            {"name": "notes.read", "arguments": {"page": 1}},
            {"function": "notes.read"},
            {"answer": ""},
            {"steps": "none"},
            {"steps": [{"type": "tool"}]},
            {"steps": [{"type": "other", "name": "x"}]},
            {"steps": [STEP("no.such", page=1)]},
            {"plan": None, "elicitation": {"message": "Which?", "requestedSchema": {"type": "object"}}},
            'Words before {"steps": []} and after',
            SUCCESS,
        ],
        None,
        run=PLANNER,
        answers=[{"answer": {"page": 5}}],
    ),
    Journey("planner_null", [PLAN(STEP(page=1)), "null", SUCCESS], None, run=PLANNER),
    Journey("planner_object", [{}, SUCCESS], None, run=PLANNER),
    Journey(
        "planner_elicits",
        [{"type": "elicitation", "message": "Which?"}, END(), SUCCESS],
        None,
        run=PLANNER,
        answers=[{"answer": "the first"}],
    ),
    Journey(
        "planner_cut_off",
        [Reply('{"steps": [', finish="length"), Reply('{"other": 1}', finish="length"), END(), SUCCESS],
        None,
        run=PLANNER,
    ),
    Journey(
        "placeholders",
        [
            PLAN(
                STEP("notes.fail", page=1),
                STEP("notes.send", text="$step[0].output"),
                STEP("notes.read", page=2),
                STEP("notes.send", text="$step[2].output.missing"),
                STEP("notes.send", text="$step[9].output"),
                STEP("notes.send", text="$step[4].output"),
                STEP("notes.send", text="all of $step[2].output"),
                NOOP,
            ),
            PLAN(
                STEP("notes.typed", documentList=["docList:round1_task1_action3_page"]),
                STEP("notes.typed", documentList=["docList:none"], kind="long"),
            ),
            PLAN(
                STEP("notes.typed", kind="long"),
                ASK("Which?", page="integer"),
                STEP("notes.read", page="$step[1].output.page"),
            ),
            END(),
            SUCCESS,
        ],
        None,
        tools=lambda: EVERY,
        run=PLANNER,
        answers=[
            {"answer": {"documentList": ["docList:round1_task1_action3_page"]}},
            {"answer": {"page": 1}},
        ],
    ),
    Journey(
        "planner_denied",
        [PLAN(STEP("notes.send", text="x")), PLAN(STEP(page=1), ABORT)],
        None,
        options={"policy": Policy(task_types={"look": ("notes.read",)})},
        run={**PLANNER, "task_type": "look"},
    ),
    Journey("batch_fallback", [BAD, BAD, PLAN(STEP(page=1)), SUCCESS], None, run={"fallback": "batch"}),
    Journey(
        "batch_criteria",
        [
            PLAN(STEP(page=1), STEP("notes.send", text="x"), STEP("notes.long", page=1)),
            REVIEW("retry", "again"),
            PLAN(STEP(page=2)),
            REVIEW("success", criteria=[MET("every page is read")]),
        ],
        None,
        tools=lambda: EVERY,
        run={"mode": "batch", "documents": DOCUMENTS, **CRITERIA},
    ),
    Journey(
        "batch_max_plans",
        [PLAN(STEP(page=1)), REVIEW("retry", "again"), PLAN(STEP(page=2))],
        None,
        run={"mode": "batch", "limits": Limits(max_plans=1)},
    ),
    Journey(
        "batch_budget",
        [PLAN(STEP(page=1), STEP(page=2)), SUCCESS],
        None,
        run={"mode": "batch", "limits": Limits(token_budget=100)},
    ),
)
"""Runs of one objective each; how they end is told by what they are compared with, not by this list, where it is None."""

ASKS = """
stage:
  ask:
    elicitation: {message: "Which page of ${query}?", schema: {type: object}}
    post: {page: "${answer.page}"}
  plan: {action: "llm/core:plan", input: {context: "page ${page ?? 0}"}}
"""
FLOWS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "flow_document": (fixture("workflow.yaml"), [PAGES(1, 2), PAGES(3), NOTHING, SUCCESS], {}),
    "flow_shipped": ("", [PAGES(1), {**NOTHING, "answer": "page one"}, SUCCESS], {"context": "in haste"}),
    "flow_after": (
        fixture("post_processing.yaml"),
        [PAGES(1), PAGES(13), NOTHING, REVIEW("retry", "more"), PAGES(2), NOTHING, SUCCESS],
        {},
    ),
    "flow_loop": (
        fixture("loop_limit.yaml"),
        [PAGES(1), {"elicitation": {"message": "Which?"}}, PAGES(2), PAGES(3), SUCCESS],
        {},
    ),
    "flow_hook": (fixture("on_error.yaml"), [PAGES(13), SUCCESS], {}),
    "flow_hook_spared": (fixture("on_error.yaml"), [PAGES(1), NOTHING, SUCCESS], {}),
    "flow_abort": ("", [PLAN(STEP(page=1), ABORT)], {}),
    "flow_invalid": ("", [BAD, {"steps": 7}, {"steps": 7}], {}),
    "flow_answered": ("", ["It is known.", SUCCESS], {}),
    "flow_listed": (
        "",
        [PAGES(1, name="notes.data"), PAGES(2), NOTHING, SUCCESS],
        {"variables": {}, "tools": ["notes.read"]},
    ),
    "flow_asks": (ASKS, [NOTHING, SUCCESS], {}),
    "flow_asks_answered": (ASKS, [NOTHING, SUCCESS], {"answers": [{"answer": {"page": 2}}]}),
    "flow_hooks_fail": (fixture("on_error.yaml"), [PAGES(13), SUCCESS], {"broken": True}),
    "flow_max_steps": (
        fixture("loop_limit.yaml"),
        [PAGES(1, 2, 3), REVIEW("retry", "x")],
        {"limits": Limits(max_steps=2)},
    ),
}
"""Workflow files with their scripts; those that cannot be followed are left out while recording."""


class Office:
    """A model that answers by kind of request, for workflows of tasks."""

    name = "office"

    def __init__(self, *reviews: dict[str, Any]) -> None:
        self._reviews = list(reviews)

    def ask(self, call: Any) -> Reply:
        """Answer."""
        replies: dict[str, Any] = {
            "task_plan": {
                "overview": "Find both.",
                "languageUserDetected": "de",
                "tasks": [
                    {"id": "pen", "objective": "find the pen", "success_criteria": ["a pen is found"]},
                    {"id": "ink", "objective": "find the ink", "dependencies": ["pen"]},
                ],
            },
            "selection": SELECT(),
            "parameters": PARAMETERS(page=2 if "ink" in sections(call).get("Objective", "") else 1),
            "refinement": STOP,
        }
        if call.kind == "review":
            return Reply(json.dumps(self._reviews.pop(0) if self._reviews else SUCCESS))
        return Reply(json.dumps(replies[call.kind]))

    async def aask(self, call: Any) -> Reply:
        """Do the same."""
        return self.ask(call)


def record(folder: Path) -> list[Path]:
    """Write the corpus into *folder*; return its journals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for journey in JOURNEYS:
            with journey.engine(_made(folder / journey.name)) as scripted:
                play(journey, scripted)
        for journey in EXTRA:
            _walk_extra(folder, journey)
        for name, (text, script, options) in FLOWS.items():
            _walk_flow(folder, name, text, script, dict(options))
        _walk_tasks(folder)
    return sorted(folder.glob(f"*/{JOURNAL}"))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _walk_extra(folder: Path, journey: Journey) -> None:
    """Walk a run to its end, whichever that is; a step that cannot be taken leaves what was recorded before it."""
    with journey.engine(_made(folder / journey.name)) as scripted:
        result = scripted.run(f"Journey {journey.name}", **journey.run)
        _answered(scripted, result, list(journey.answers))


def _answered(scripted: Engine, result: Result, answers: list[Any]) -> Result:
    while result.status == "waiting":
        try:
            result = answered(scripted, result.run_id, **(answers.pop(0) if answers else DECLINE))
        except InvalidAnswer:
            result = answered(scripted, result.run_id, **DECLINE)
    return result


def _walk_flow(folder: Path, name: str, text: str, script: list[Any], options: dict[str, Any]) -> None:
    calls = Calls(broken=bool(options.pop("broken", False)))
    answers = list(options.pop("answers", ()))
    with engine(_made(folder / name), script, calls.tools) as scripted:
        _answered(scripted, scripted.run("Read the notes", workflow=text, **options), answers)


def _walk_tasks(folder: Path) -> None:
    """Record workflows of tasks: planned and given ones, one that is retried, and the next rounds."""
    for name, tasks, reviews in (
        ("tasks_planned", None, ()),
        ("tasks_given", [Task("Read page 1"), Task("Read page 2", ["it is read"])], ()),
        ("tasks_retried", None, (SUCCESS, SUCCESS, REVIEW("retry", "once more"))),
        ("tasks_failed", None, (SUCCESS, REVIEW("failed", "no ink"), REVIEW("failed", "no ink"))),
    ):
        journal = Journal(_made(folder / name) / JOURNAL, "off")
        options: dict[str, Any] = {
            "journal": journal,
            "builtins": False,
            "clock": SteppingClock(),
            "ids": SeededIds(),
        }
        with Engine(model=Office(*reviews), tools=list(TOOLS), **options) as office:
            result = office.run_workflow(
                "Find the pen and the ink", ["both are found"], DOCUMENTS, tasks=tasks
            )
            with suppress(PaorError):
                office.follow_up(result.run_id, "And the paper?")


def runs_of(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """Yield every run of the corpus, with its journal."""
    for path in paths:
        with Journal(path, read_only=True) as journal:
            for row in journal.runs():
                yield path, row.run_id
