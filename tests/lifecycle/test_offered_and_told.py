"""What stands in a prompt only where it is of use: a language, the shipped rules, the built-in tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, ModelCall, OfflineModel, Policy, Result, Task, builtin_tools, tool
from paor.states.run.spec import Spec

from ..support.recording import Recorder, sections, text_of
from ..support.worlds import ANSWER, SUCCESS, TOOLS

TURN: dict[str, Any] = {"text": "", "calls": [{"id": "c1", "name": "notes_read", "arguments": {"page": 1}}]}
NATIVE = [TURN, "It is on page 1."]
OURS = [item.name for item in TOOLS]
BUILT_IN = [item.name for item in builtin_tools()]
TEXT = [("a.txt", "Alpha.")]


def host(tmp_path: Path, model: Any, tools: Any = TOOLS, **options: Any) -> Engine:
    return Engine(model, list(tools), Journal(tmp_path / "runs.db", "off"), **options)


def one(
    tmp_path: Path, replies: Any, own: Any = TOOLS, given: Any = None, **options: Any
) -> tuple[Spec, ModelCall]:
    """Return the spec of one run, and its first request."""
    model = Recorder(replies)
    with host(tmp_path, model, own, **(given or {})) as engine:
        return engine.journal.spec(engine.run("Wo ist O-1?", **options).run_id), model.calls[0]


# -- the language ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replies", [[ANSWER()], NATIVE], ids=["two stages", "native"])
def test_nobody_asked_for_a_language_and_no_prompt_names_one(tmp_path: Path, replies: Any) -> None:
    """The user's own words decide; it said ``en`` to a question in German."""
    spec, asked = one(tmp_path, replies)
    assert spec.language == "" and "anguage" not in sections(asked)
    assert "en" not in text_of(asked).split() and "Answer in:" not in text_of(asked)


@pytest.mark.parametrize(
    ("options", "language"),
    [
        ({"user_language": "de"}, "de"),
        ({"language": "fr", "user_language": "de"}, "fr"),
        ({"language": "en"}, "en"),
    ],
)
@pytest.mark.parametrize("replies", [[ANSWER()], NATIVE], ids=["two stages", "native"])
def test_a_language_that_is_asked_for_is_told(
    tmp_path: Path, replies: Any, options: dict[str, Any], language: str
) -> None:
    """The run's own over the user's."""
    spec, asked = one(tmp_path, replies, **options)
    assert spec.language == language
    told = (
        sections(asked).get("Language", "").partition("\n")[0]
        or text_of(asked).partition("Answer in: ")[2].splitlines()[0]
    )
    assert told == language


def begins(language: str) -> Callable[[ModelCall], Any]:
    """Return the first reply of a workflow of one task, in which a language was detected, and of that task."""
    plan = {"tasks": [{"id": "a", "objective": "Finde O-1"}], "languageUserDetected": language}
    return lambda call: plan if call.kind == "task_plan" else ANSWER()


def test_the_planner_of_tasks_that_detects_a_language_tells_it_to_the_rest(tmp_path: Path) -> None:
    """To the review of the whole and to each task; without one, to nobody."""
    for number, language in enumerate(("de", "")):
        model = Recorder([begins(language), SUCCESS])  # each run counts its own requests
        folder = tmp_path / str(number)
        folder.mkdir()
        with host(folder, model) as engine:
            engine.run_workflow("Wo ist O-1?")
            (task,) = [engine.journal.spec(row.run_id) for row in engine.journal.runs() if row.task]
        assert task.language == language
        review = next(call for call in model.calls if call.kind == "review")
        assert sections(review).get("Language", "") == language


# -- the shipped rules -----------------------------------------------------------------------------------------


@tool("web.find", effect="read")
def find(text: str) -> str:
    """Look it up."""
    return text


@pytest.mark.parametrize(
    ("tools", "options", "there"),
    [
        (TOOLS, {}, False),
        (TOOLS, {"documents": TEXT}, True),
        ([*TOOLS, find], {}, True),
        (TOOLS, {"profile": "strict"}, True),
    ],
    ids=["the host's tools", "documents", "the web", "strict"],
)
def test_the_shipped_rules_stand_where_they_say_something(
    tmp_path: Path, tools: Any, options: dict[str, Any], there: bool
) -> None:
    """They are about documents and the web."""
    _, asked = one(tmp_path, [ANSWER()], tools, **options)
    assert ("Derive parameters from objective" in text_of(asked)) is there
    assert ("## Rules" in text_of(asked)) is there


def test_a_hosts_own_rules_stand_always(tmp_path: Path) -> None:
    """They are for its own tools."""
    _, asked = one(tmp_path, [ANSWER()], given={"rules": ["Never ring twice."]})
    assert "## Rules\n- Never ring twice.\n\n" in text_of(asked)


@tool("ai.process", effect="read")
def process(text: str) -> str:
    """Do it ourselves."""
    return text


# -- the built-in tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "options", "offered"),
    [
        ({}, {}, OURS),
        ({}, {"documents": TEXT}, [*OURS, *BUILT_IN]),
        ({}, {"tools": ["ai.process", "notes.read"]}, ["ai.process", "notes.read"]),
        ({"builtins": True}, {}, [*OURS, *BUILT_IN]),
        ({"builtins": False}, {"documents": TEXT}, OURS),
        ({"policy": Policy(task_types={"t": ("document.*",)})}, {"task_type": "t"}, [*OURS, *BUILT_IN[1:]]),
        ({"policy": Policy(task_types={"t": ("*",)})}, {"task_type": "t"}, OURS),
        ({"policy": Policy(task_types={"t": ("document.*",), "u": ("*",)})}, {"task_type": "u"}, OURS),
    ],
    ids=[
        "nothing",
        "documents",
        "named",
        "asked for",
        "left out",
        "a task type",
        "any tool",
        "another task type",
    ],
)
def test_built_in_tools_are_offered_where_there_is_use_for_them(
    tmp_path: Path, given: dict[str, Any], options: dict[str, Any], offered: list[str]
) -> None:
    """Documents, or somebody who names them."""
    spec, _ = one(tmp_path, [ANSWER()], given=given, **options)
    assert [item.name for item in spec.tools] == offered


def test_a_host_that_puts_them_among_its_tools_has_them_always(tmp_path: Path) -> None:
    """They are its own then; so is one of the same name."""
    spec, _ = one(tmp_path, [ANSWER()], [*TOOLS, *builtin_tools()])
    assert [item.name for item in spec.tools] == [*OURS, *BUILT_IN]
    (tmp_path / "own").mkdir()
    spec, _ = one(tmp_path / "own", [ANSWER()], [process])
    assert [item.name for item in spec.tools] == ["ai.process"]


def test_the_offline_model_has_them_always(tmp_path: Path) -> None:
    """It plans with nothing else."""
    with host(tmp_path, OfflineModel()) as engine:
        spec = engine.journal.spec(engine.run("Say it").run_id)
    assert [item.name for item in spec.tools] == [*OURS, *BUILT_IN]


def test_a_next_round_and_a_task_have_them_once_there_are_documents(tmp_path: Path) -> None:
    """Those that an earlier round was given count."""
    model = Recorder([ANSWER()], cycle=True)
    with host(tmp_path, model) as engine:

        def names(result: Result) -> list[str]:
            return [item.name for item in engine.journal.spec(result.run_id).tools]

        engine.run("One", conversation="free")
        assert names(engine.run("Two", conversation="free")) == OURS
        engine.run("One", documents=TEXT, conversation="read")
        assert names(engine.run("Two", conversation="read")) == [*OURS, *BUILT_IN]
        engine.model = Recorder([ANSWER(), SUCCESS])
        for documents, offered in (([], OURS), (TEXT, [*OURS, *BUILT_IN])):
            whole = engine.run_workflow("Both", documents=documents, tasks=[Task("First")])
            (task,) = [row for row in engine.journal.runs() if row.workflow_id == whole.run_id and row.task]
            assert names(engine.result(task.run_id)) == offered
