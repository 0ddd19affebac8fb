"""Ways into a run and out of every loop: templates by each route, references in every kind of tool, caps that hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Profile, ScriptedModel, Tool, ToolContext, tool
from paor.errors import ToolError

from ..support.cli_support import Shell
from ..support.recording import World, observation
from ..support.stored import labels, parts, prompts, query, started_with, triggers
from ..support.worlds import (
    ANSWER,
    CONTINUE,
    JOURNAL,
    PARAMETERS,
    READ,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
    TOOLS,
    engine,
    read,
)

TEMPLATE = "Plan for {{KEY:OBJECTIVE}}.\n\nChoose from\n{{KEY:CATALOG}}\n"
OTHER = "Not this one: {{KEY:OBJECTIVE}}"


# -- A158, A159, D19: the planning template --------------------------------------------------------------------


def asked(shell: Shell, *arguments: str) -> str:
    """Return the first prompt of a run that the command line started with *arguments*."""
    file = shell.folder / "asked.db"
    for end in ("", "-wal", "-shm"):
        Path(f"{file}{end}").unlink(missing_ok=True)
    shell("run", *arguments, "--model", shell.script(), "--journal", "asked.db")
    return prompts(file, "selection")[0]["user"]


def test_A158_A159_D19_C3_16_every_route_gives_the_same_prompt(shell: Shell, tmp_path: Path) -> None:
    """An option with a file, JSON with the text or the file, a call: the same template, rendered the same."""
    (shell.folder / "plan.md").write_text(TEMPLATE, encoding="utf-8")
    (shell.folder / "other.md").write_text(OTHER, encoding="utf-8")
    fields = {"objective": "the day", "tools": ["ai.process"]}
    routes = {
        "option": ("the day", "--tools", "ai.process", "--prompt-template", "plan.md"),
        "JSON text": ("--input", json.dumps(fields | {"promptTemplate": TEMPLATE})),
        "JSON file": ("--input", json.dumps(fields | {"promptTemplateFile": "plan.md"})),
        "the text wins": (
            "--input",
            json.dumps(fields | {"promptTemplate": TEMPLATE, "promptTemplateFile": "other.md"}),
        ),
        "the option wins": (
            *("--prompt-template", "plan.md"),
            *("--input", json.dumps(fields | {"promptTemplate": OTHER})),
        ),
    }
    texts = {name: asked(shell, *arguments) for name, arguments in routes.items()}
    model = ScriptedModel([])
    with engine(tmp_path, [], (), builtins=None) as host:
        host.run("the day", prompt_template=TEMPLATE, model=model, tools=["ai.process"])
    texts["call"] = prompts(tmp_path / JOURNAL, "selection")[0]["user"]
    assert len(set(texts.values())) == 1, texts
    assert texts["call"].startswith("Plan for the day.\n\nChoose from\n- ai.process(documentList,")


@pytest.mark.parametrize("empty", ["", None])
def test_A158_an_empty_template_falls_back_to_the_shipped_one(tmp_path: Path, empty: str | None) -> None:
    """By call and by JSON alike the prompt is the one without any template."""
    texts = []
    for number, options in enumerate([{}, {"prompt_template": empty}]):
        with World(tmp_path / str(number), [ANSWER(), SUCCESS], builtins=True) as world:
            world.run("the day", **options)
        texts.append(prompts(world.path, "selection")[0])
    assert texts[0] == texts[1]
    assert "## Rules" in texts[0]["system"]


# -- A098: one resolver --------------------------------------------------------------------------------------------


def test_A098_a_reference_means_the_same_documents_to_every_tool(tmp_path: Path) -> None:
    """A host's tool and a built-in one, a whole label and one item: what the selection's check counted is what they get."""
    got: list[list[str]] = []

    @tool("notes.join", effect="read", label="joined")
    def join(context: ToolContext, documentList: list[str]) -> str:
        """Join."""
        got.append([str(document.data) for document in context.documents(documentList)])
        return "joined"

    references = ["docItem:round1_task1_action0_input#1", "docList:round1_task1_action1_page"]
    chosen = [
        SELECT(name, {}, requiredInputDocuments=references) for name in ("notes.join", "document.extract")
    ]
    script = [*READ(1), CONTINUE, chosen[0], CONTINUE, chosen[1], PARAMETERS(), STOP, SUCCESS]
    with World(tmp_path, script, [read, join], builtins=True) as world:
        result = world.run(documents=[("a.txt", "Alpha."), ("b.txt", "Beta.")])
        assert result.state == "Done"
        extracted = [str(document.read()) for document in result.documents if "action3" in document.label]
    page = "Page 1: the supplier delivers within 10 days of the order."
    assert got == [["Beta.", page]]
    assert [text.strip() for text in extracted] == ["Beta.", page]


def test_D3_A011_A038_labels_have_underscores_and_stand_so_in_every_place(tmp_path: Path) -> None:
    """In the documents' table, the observation, the next prompt and the event: one spelling."""
    with World(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as world:
        world.run(profile="strict")
        seen = observation(world)["resultLabel"]
    assert labels(world.path)[0] == f"{seen}#0" == "round1_task1_action1_page#0"
    assert f"docList:{seen} (1" in parts(prompts(world.path, "selection")[1])["Documents"]
    statement = """SELECT outcome ->> '$.label' FROM transitions WHERE "trigger" = 'execute'"""
    assert query(world.path, statement)[0] == (seen,)


# -- D14, D20, C3.23: caps and errors ------------------------------------------------------------------------------


def test_D14_steps_are_bounded_without_asking_for_it(tmp_path: Path) -> None:
    """Five by default, and never none."""
    script = [reply for page in range(9) for reply in (*READ(page), CONTINUE)]
    with World(tmp_path, [*script[:15], REVIEW("failed")]) as world:
        assert world.run().steps == 5
    assert started_with(world.path)["limits"]["max_steps"] == 5


FOR_EVER: dict[str, list[Any]] = {
    "goes on": [*READ(1), CONTINUE],
    "never selects": ["?"],
    "repeats a bad selection between good ones": ["?", *READ(1), CONTINUE],
    "never finds parameters": [SELECT(), PARAMETERS(), PARAMETERS(), CONTINUE],
    "always fails": [SELECT("notes.fail"), PARAMETERS(page=1), CONTINUE],
    "always asks for another attempt": [ANSWER(), REVIEW("retry", "again")],
    "acts and asks for another attempt": [*READ(1), STOP, REVIEW("retry", "again")],
    "cannot judge": [*READ(1), "?", "?"],
    "answers and cannot review": [ANSWER(), "?"],
}


@pytest.mark.parametrize("case", FOR_EVER)
def test_C3_23_D14_whatever_a_model_repeats_for_ever_the_run_ends(tmp_path: Path, case: str) -> None:
    """Within a number of requests that follows from the limits, with a reason and a message."""
    limits = Limits(max_steps=20, max_consecutive_errors=6)
    with engine(tmp_path, [], TOOLS, limits=limits) as host:
        result = host.run("Read", model=ScriptedModel(FOR_EVER[case], cycle=True))
    assert result.status in ("done", "failed") and result.reason and result.answer
    assert result.usage.calls <= 20 * (2 + 2 + 2) + 3 * 2


def test_D20_A002_a_tools_error_is_a_result_that_the_model_sees_and_goes_on_from(tmp_path: Path) -> None:
    """In the refinement's observation, in the next history, with the error's own words; the run ends well."""
    left = [1]

    @tool("notes.read", effect="read", label="page")
    def torn(page: int) -> str:
        """Fail once."""
        left[0] -= 1
        if left[0] == 0:
            raise ToolError("page 1 is torn out")
        return "page 2"

    with World(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], [torn]) as world:
        assert world.run(profile="strict").state == "Done"
        seen = observation(world)
    assert (seen["success"], seen["notes"]) == (False, ["tool_error: page 1 is torn out"])
    second = parts(prompts(world.path, "selection")[1])
    assert "Summary: tool_error: page 1 is torn out" in second["History, newest first"]
    assert second["Improvements asked for"] == "- tool_error: page 1 is torn out"
    assert labels(world.path) == ["round1_task1_action2_page#0"]
    assert triggers(world.path).count("execute") == 2


def test_A024_A025_A026_A020_the_catalog_in_a_prompt_has_the_documents_lines(tmp_path: Path) -> None:
    """
    Word for word between a host's tools and nothing else, in a prompt that was really sent.

    In a report of a run without a document those that read one are not offered; with a short catalog each has a line of description
    (A020 as amended).
    """
    host = Tool(
        name="orders.find", run=lambda: "x", parameters={"properties": {"b": {}, "a": {"type": "integer"}}}
    )
    catalogs = []
    for number, (documents, profile) in enumerate(
        [
            ([("a.txt", "A")], Profile(catalog="names")),
            ([("a.txt", "A")], Profile()),
            ([], Profile(catalog="names", strict=True)),
            ([], Profile(catalog="names")),
        ]
    ):
        with World(tmp_path / str(number), [ANSWER(), SUCCESS], [host], builtins=True) as world:
            world.run(documents=documents, profile=profile)
        system = prompts(world.path, "selection")[0]["system"]
        catalogs.append(system.partition("## Actions\n")[2].partition("\n\n")[0].splitlines())
    names, described, without, converse = catalogs
    assert converse == names, "a conversation begins with what may be of use later"
    assert [line.partition(": ")[0] for line in described] == names
    assert all(": " in line for line in described[1:]), "the built-in tools have descriptions"
    assert without == names[:2]
    assert names == [
        "- orders.find(b,a)",
        "- ai.process(documentList,aiPrompt,processingMode,includeMetadata,customInstructions,expectedDocumentFormats)",
        "- document.extract(documentList,aiPrompt)",
        "- document.generateReport(documentList,title)",
    ]
