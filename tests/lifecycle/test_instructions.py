"""A host's instructions: in the system text of every prompt, recorded with the run, compared when it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Engine, InstructionsContext, Journal, ModelCall, Reply, ScriptedModel, Task, replay
from paor.errors import UsageError

from ..support.worlds import ANSWER, PARAMETERS, SELECT, STOP, SUCCESS, TOOLS

SHORT = "Answer like a pilot."
TURN = {"text": "", "calls": [{"id": "c1", "name": "notes_read", "arguments": {"page": 1}}]}
STAGES = [SELECT(), PARAMETERS(page=1), STOP, SUCCESS]
PLANNED = [{"steps": [{"type": "tool", "name": "notes.read", "args": {"page": 1}}]}, SUCCESS]
REVIEWED: dict[str, Any] = {"limits": {"completion_review": "model"}}
ASKED = {"selection", "parameters", "refinement", "review"}
WRITTEN = [SELECT("ai.process", {}), PARAMETERS(aiPrompt="it"), "A text.", STOP, SUCCESS]


class Heard(ScriptedModel):
    """A script that keeps what it was asked."""

    def __init__(self, replies: Any) -> None:
        super().__init__(replies)
        self.asked: list[ModelCall] = []

    def ask(self, call: ModelCall) -> Reply:
        self.asked.append(call)
        return super().ask(call)


def host(tmp_path: Path, model: Any, **options: Any) -> Engine:
    options.setdefault("journal", Journal(tmp_path / "runs.db", "off"))
    return Engine(model, list(TOOLS), **options)


def told(call: ModelCall) -> str:
    """Return the system text of a request."""
    first = call.messages[0]
    assert first.role == "system"
    return first.text


@pytest.mark.parametrize(
    ("script", "options", "kinds"),
    [
        (STAGES, {}, ASKED),
        ([{"action": {"method": "notes", "name": "read"}}, *STAGES[1:]], {"stage": "single"}, ASKED),
        ([TURN, "It is on page 1.", SUCCESS], REVIEWED, {"turn", "review"}),
        (PLANNED, {"mode": "batch"}, {"plan", "review"}),
        ([PLANNED[0], {"steps": []}, SUCCESS], {"mode": "planner", **REVIEWED}, {"plan", "review"}),
        (WRITTEN, {"tools": ["ai.process"]}, {*ASKED, "text"}),
    ],
    ids=["two stages", "single", "native", "batch", "planner", "a text"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_they_are_in_every_prompt_once(
    tmp_path: Path, script: Any, options: dict[str, Any], kinds: set[str]
) -> None:
    """The engine's first, then the run's; of every kind of request."""
    model = Heard(script)
    with host(tmp_path, model, instructions="Be exact.") as engine:
        result = engine.run("Read page 1", instructions=SHORT, **options)
        assert model.asked and replay(engine.journal, result.run_id, engine).identical
        spec = engine.journal.spec(result.run_id)
    assert (spec.instructions, spec.own_instructions) == ("Be exact.", SHORT)
    for call in model.asked:
        assert f"Be exact.\n\n{SHORT}" in told(call), call.kind
        assert sum(message.text.count(SHORT) for message in call.messages) == 1, call.kind
    assert {call.kind for call in model.asked} == kinds


def test_they_stand_before_the_rules_and_are_taken_as_they_are(tmp_path: Path) -> None:
    """A placeholder in them is none, a heading stays one."""
    text = "## House style\nWrite {{KEY:OBJECTIVE}} nowhere."
    model = Heard([ANSWER()])
    with host(tmp_path, model, instructions=text, rules=["Be brief."]) as engine:
        engine.run("Read page 1")
    system = told(model.asked[0])
    assert text in system and system.index(text) < system.index("## Rules\n- Be brief.")


def test_a_hosts_own_template_of_one_part_gets_a_system_message(tmp_path: Path) -> None:
    """It needs no placeholder for them."""
    model = Heard([ANSWER()])
    with host(tmp_path, model, instructions=SHORT, prompts={"selection": "Do {{KEY:OBJECTIVE}}"}) as engine:
        engine.run("Read page 1")
    assert [message.text for message in model.asked[0].messages] == [SHORT, "Do Read page 1"]


def test_a_function_gets_what_the_run_is_started_with(tmp_path: Path) -> None:
    """Once for each run; tasks of a workflow are runs."""
    seen: list[InstructionsContext] = []

    def ours(context: InstructionsContext) -> str:
        seen.append(context)
        return f"You work for {context.metadata.get('tenant', 'nobody')}; task {context.task}."

    with host(tmp_path, Heard([ANSWER()]), instructions=ours) as engine:
        result = engine.run(
            "Read page 1", ["named"], metadata={"tenant": "acme"}, values={"credit": 5}, language="de"
        )
        assert engine.journal.spec(result.run_id).instructions == "You work for acme; task 1."
        (context,) = seen
        assert (context.objective, context.success_criteria) == ("Read page 1", ("named",))
        assert (context.language, context.mode, context.round) == ("de", "react", 1)
        assert dict(context.values) == {"credit": 5}
        with pytest.raises(TypeError):
            context.metadata["tenant"] = "other"  # type: ignore[index]
        engine.model = Heard([ANSWER(), {"status": "success", "answer": "Done."}])
        whole = engine.run_workflow("Say both", tasks=[Task("Say it")], instructions=SHORT)
        specs = [
            engine.journal.spec(row.run_id) for row in engine.journal.runs() if row.run_id != result.run_id
        ]
        assert {(spec.task, spec.instructions) for spec in specs} == {
            (0, "You work for nobody; task 0."),
            (1, "You work for nobody; task 1."),
        }
        assert {spec.own_instructions for spec in specs} == {SHORT}
        with pytest.raises(UsageError, match="a function belongs to Engine"):
            engine.run_workflow("Say both", tasks=[Task("Say it")], instructions=ours)
        assert whole.state == "Done"


async def _later(context: InstructionsContext) -> str:
    return "late"


def _fails(context: InstructionsContext) -> str:
    raise KeyError("tenant")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "not int"),
        (_later, r"\(not async\)"),
        ("x" * 100_001, "at most 100,000"),
        (lambda context: None, "returned a NoneType"),
        (lambda context: "x" * 100_001, "at most 100,000"),
        (_fails, "raised KeyError"),
    ],
    ids=["a number", "async", "too long", "no text", "a long text", "an error"],
)
def test_what_gives_none_is_refused_in_one_line(tmp_path: Path, given: Any, words: str) -> None:
    """Before anything is started."""
    with host(tmp_path, Heard([])) as engine:
        with pytest.raises(UsageError, match=words) as refused:
            engine.run("Read page 1", instructions=given)
        assert "\n" not in str(refused.value) and engine.journal.runs() == []


def test_changed_instructions_of_the_engine_are_named(tmp_path: Path) -> None:
    """As a changed prompt is; an engine without any goes on with those that were recorded, a run's own stay."""
    with host(tmp_path, Heard(STAGES), instructions="Be exact.") as engine:
        result = engine.run("Read page 1", instructions=SHORT)
        assert engine.changes(result.run_id) == ()
    for given, named in ((None, False), ("Be exact.", False), (lambda context: "Be brief.", True)):
        with host(tmp_path, Heard(STAGES), instructions=given) as engine:
            changes = engine.changes(result.run_id)
            assert [change.part for change in changes] == (["prompt.instructions"] if named else [])
            assert all(change.visited for change in changes)
            spec = engine.current_spec(engine.journal.spec(result.run_id))
            assert spec.own_instructions == SHORT
