"""The offline model in batch and planner mode: the same work as in react mode, planned at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, ModelCall, OfflineModel, Result, replay
from paor.models import PromptMessage

from .inside import Plan, read_plan

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "documents").iterdir())
OBJECTIVE = "Summarise the obligations and list every deadline"
NOTES = ("notes.txt", "The supplier shall deliver within ten days. The buyer pays 300 EUR by 1 May 2026.\n")


Texts = list[tuple[str, str, str | bytes | None]]


def came_to(folder: Path, mode: Any, *args: Any, **options: Any) -> tuple[Result, Any, Texts]:
    """Run offline in one mode; return the result, its judgement and its documents."""
    with Engine(OfflineModel(), journal=Journal(folder / f"{mode}.db", "off")) as engine:
        result = engine.run(OBJECTIVE, *args, mode=mode, **options)
        assert engine.journal.verify() == []
        assert replay(engine.journal, result.run_id, engine).identical
        answer = re.sub(r"round1_task1_action\d_\w+", "LABEL", result.answer or "")
        criteria = [(check.criterion, check.met) for check in result.criteria]
        texts = [(document.name, document.label, document.read()) for document in result.documents]
    return result, (result.state, answer, criteria), texts


@pytest.mark.whole
@pytest.mark.parametrize("mode", ["batch", "planner"])
@pytest.mark.parametrize("files", [EXAMPLES[:1], EXAMPLES[1:2], EXAMPLES], ids=["one", "another", "all"])
def test_A084_A131_a_plan_comes_to_what_single_actions_come_to(
    tmp_path: Path, mode: str, files: list[Path]
) -> None:
    """The same answer and criteria; a plan has a report, too, where single actions stop once every criterion is met."""
    criteria = ["the deadlines are listed", "the obligations are named"]
    (_, react, texts), (result, planned, more) = (
        came_to(tmp_path, name, criteria, files) for name in ("react", mode)
    )
    assert planned == react and more[: len(texts)] == texts
    assert (result.state, result.steps, more[-1][0]) == ("Done", 3, "report.md")


@pytest.mark.parametrize("mode", ["batch", "planner"])
@pytest.mark.parametrize(
    ("criteria", "documents", "options", "state"),
    [
        ([], [NOTES], {}, "Done"),
        (["the price of tin in Chile in 1904"], [NOTES], {}, "Failed"),
        ([], [], {}, "Failed"),
        ([], [("scan.bin", b"\x00\xff\x01" * 50)], {}, "Failed"),
        (["who pays"], [NOTES], {"final_format": "md"}, "Done"),
        ([], [NOTES], {"tools": ["ai.process"]}, "Done"),
        ([], [NOTES], {"tools": ["document.extract", "ai.process"]}, "Done"),
    ],
    ids=["notes", "no evidence", "no documents", "unreadable", "formatted", "process only", "no report"],
)
def test_A084_A131_odd_tasks_end_as_in_react_mode(
    tmp_path: Path, mode: str, criteria: list[str], documents: Any, options: Any, state: str
) -> None:
    """Also where there is nothing to write, or not every tool."""
    (first, _, texts), (second, _, planned) = (
        came_to(tmp_path, name, criteria, documents, **options) for name in ("react", mode)
    )
    assert first.state == second.state == state
    assert [text for name, _, text in texts if name == "text.md"] == [
        text for name, _, text in planned if name == "text.md"
    ]
    assert second.answer is not None and second.answer.strip()


@pytest.mark.parametrize("results", ["", "no JSON", "[1]", '{"name": "document.extract", "result": "x"}'])
def test_A131_the_offline_planner_answers_any_prompt_with_a_plan(results: str) -> None:
    """Of a host's own template, too."""
    prompt = (
        f"## Documents\n- docList:round2_task3_action0_input (1)\n## Results so far, oldest first\n{results}"
    )
    tools = "## Tools\n- document.extract: Read. Arguments: {}\n- ai.process: Write. Arguments: {}\n"
    call = ModelCall("plan", (PromptMessage("system", tools), PromptMessage("user", prompt)), 0, None)
    plan = read_plan(OfflineModel().ask(call).text, chars_max=10_000)
    assert isinstance(plan, Plan) and [step.name for step in plan.steps][-1:] == ["ai.process"]


@pytest.mark.parametrize("profile", ["two_stage", "strict"])
@pytest.mark.parametrize("stage", ["two_stage", "single"])
def test_D1_the_offline_model_speaks_every_profile(tmp_path: Path, profile: Any, stage: Any) -> None:
    """The same answer in each."""
    with Engine(OfflineModel(), journal=Journal(tmp_path / "runs.db", "off")) as engine:
        result = engine.run(OBJECTIVE, documents=[NOTES], profile=profile, stage=stage)
        assert (result.state, result.steps) == ("Done", 3)
        assert "ten days" in (result.answer or "")
