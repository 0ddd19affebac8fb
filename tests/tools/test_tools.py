"""Tools: how they are declared, and what the built-in ones make of documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paor import Document, Limits, Policy, Tool, ToolContext, ToolOutput, builtin_tools, tool
from paor.errors import ToolError, UsageError

from ..support.cases import short
from ..support.recording import World, observation, sections
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS
from .inside import extract, generate_report, process, readable

LABEL = "docList:round1_task1_action0_input"


class Desk:
    """A `ToolContext` that a test fills: documents by reference, and texts to answer with."""

    run_id = "run-1"
    action = 1
    language = "en"
    objective = "Find the day"
    success_criteria: tuple[str, ...] = ()
    idempotency_key = "run-1-1"
    policy = Policy()
    connection: Any = None
    deps: Any = None
    final_format: str | None = None
    timeout_s: float | None = None
    limits = Limits()
    takes_pictures = False
    resumption: Any = None
    traceparent = ""

    def __init__(
        self, documents: Sequence[Document] = (), texts: Sequence[str] = (), answer: str = ""
    ) -> None:
        self.given, self.texts, self.answer = list(documents), list(texts), answer
        self.asked: list[dict[str, Any]] = []

    def stopped(self) -> str | None:
        """Never."""
        return None

    def documents(self, references: Sequence[str]) -> list[Document]:
        """Return all documents if any are asked for."""
        return self.given if references else []

    def ask(
        self,
        request: str,
        documents: Sequence[tuple[str, str | bytes]] = (),
        *,
        instructions: str = "",
        format: str = "",
    ) -> str:
        """Return the next text."""
        self.asked.append(
            {"request": request, "documents": list(documents), "instructions": instructions, "format": format}
        )
        return self.texts.pop(0)

    async def aask(
        self, request: str, documents: Sequence[tuple[str, str | bytes]] = (), **given: str
    ) -> str:
        """Do the same."""
        return self.ask(request, documents, **given)


def used(own: Tool, desk: Desk, **arguments: Any) -> ToolOutput:
    """Call *own* as a run does."""
    context: ToolContext = desk
    output = own.invoke(arguments, context)
    assert isinstance(output, ToolOutput)
    return output


# -- declaring -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["read", "notes.", "no tes.read", "notes.réad", "1notes.read", 7],
)
def test_a_tools_name_is_a_compound_name(name: Any) -> None:
    """`method.name`, in ASCII, since it is in journals and prompts."""
    with pytest.raises(UsageError):
        Tool(name=name, run=print)


@pytest.mark.parametrize(
    "wrong",
    [
        {"effect": "twice"},
        {"run": 7},
        {"label": "a b"},
        {"label": "x" * 61},
        {"retries": "1"},
    ],
    ids=short,
)
def test_what_a_tool_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    """When it is declared, with its name."""
    good: dict[str, Any] = {"name": "notes.read", "run": print}
    with pytest.raises(UsageError, match=r"notes\.read"):
        Tool(**(good | wrong))


def test_a_decorated_function_stays_a_function() -> None:
    """It can be called and tested by itself; schema and description come from it."""

    @tool("notes.add", effect="read", label="sum", retries=2, repeat_allowed=True)
    def add(one: int, other: int = 2) -> int:
        """
        Add two numbers.

        And nothing else.
        """
        return one + other

    assert add(1) == 3 and add(1, other=5) == 6
    spec = add.spec()
    assert (spec.name, spec.label, spec.step_retries, spec.repeat_allowed, spec.effect) == (
        "notes.add",
        "sum",
        2,
        True,
        "read",
    )
    assert spec.description.startswith("Add two numbers.")
    assert list(spec.parameters["properties"]) == ["one", "other"] and spec.parameters["required"] == ["one"]


def test_arguments_are_converted_to_the_annotations() -> None:
    """A typed function gets what it declares; a tool with a schema of its own gets JSON as it is."""
    seen: list[Any] = []

    @tool("notes.take")
    def take(path: Path, *, context: ToolContext) -> None:
        """Take."""
        seen.append((path, context.objective))

    take.invoke({"path": "a/b"}, Desk())
    raw = Tool(name="notes.raw", parameters={"properties": {"path": {}}}, run=lambda path: seen.append(path))
    raw.invoke({"path": "a/b"}, Desk())
    assert seen == [(Path("a/b"), "Find the day"), "a/b"]


def needing(context: ToolContext, order: str, note: str = "") -> None:
    """Take an order."""


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"note": {}}}, "its function needs 'order', which its schema does not have"),
        ({}, "its function needs 'order'"),
        (
            {"properties": {"order": {}, "x": {}}, "required": ["x"]},
            "does not take 'x', which its schema requires",
        ),
        ({"properties": {"order": {}, "context": {}}}, "'context' is its function's ToolContext"),
    ],
    ids=short,
)
def test_a_function_that_its_schema_cannot_call_is_refused(schema: dict[str, Any], words: str) -> None:
    """When it is declared and not when a model first chooses it."""
    with pytest.raises(UsageError, match=words):
        Tool(name="notes.take", parameters=schema, run=needing)


@pytest.mark.parametrize(
    ("schema", "function"),
    [
        ({"properties": {"order": {}, "extra": {}}, "required": ["order"]}, needing),
        ({"$ref": "#/$defs/all", "$defs": {"all": {"properties": {"order": {}}}}}, needing),
        ({"additionalProperties": {"type": "string"}}, needing),
        ({"properties": {"a": {}}, "required": "a"}, needing),
    ],
    ids=short,
)
def test_a_function_that_its_schema_may_call_is_taken(schema: dict[str, Any], function: Any) -> None:
    """Only what can never work is refused here."""
    assert Tool(name="notes.take", parameters=schema, run=function).run is function


# -- readable ------------------------------------------------------------------------------------------------------

BROKEN = Document("scan.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 64, "image/png")


def test_readable_texts_are_taken_as_they_are_and_others_converted() -> None:
    """Markdown and text unchanged, HTML to Markdown, whatever type it claims."""
    page = Document("page.html", "<h1>Title</h1><p>Body &amp; more</p>", "text/html")
    texts, notes = readable(Desk(), [Document("a.md", "# A\n", "text/markdown"), page])
    assert texts[0].text == "# A\n"
    assert "Title" in texts[1].text and "Body & more" in texts[1].text and "<p>" not in texts[1].text
    assert notes == []


def test_C26_what_cannot_be_read_is_a_note_as_long_as_something_can() -> None:
    """The error surfaces; only when nothing at all can be read is the call an error."""
    texts, notes = readable(Desk(), [BROKEN, Document("a.txt", "A")])
    assert [item.name for item in texts] == ["a.txt"]
    assert len(notes) == 1 and notes[0].startswith("'scan.png' is a picture")
    with pytest.raises(ToolError, match=r"scan\.png.*; .*scan\.png"):
        readable(Desk(), [BROKEN, BROKEN])
    assert readable(Desk(), []) == ([], [])


# -- document.extract ----------------------------------------------------------------------------------------------


def test_A025_extract_reads_every_document_by_code() -> None:
    """No model is asked without a prompt; one text per document, named after it."""
    desk = Desk([Document("a.md", "# A", "text/markdown"), Document("b.txt", "one two"), BROKEN])
    output = used(extract, desk, documentList=["x"])
    assert [(item.name, item.data, item.mime) for item in output.documents] == [
        ("a.md", "# A", "text/markdown"),
        ("b.txt.md", "one two", "text/markdown"),
    ]
    assert output.notes[0] == "2 documents, 4 words read" and "scan.png" in output.notes[1]
    assert desk.asked == []


def test_extract_with_a_prompt_asks_the_model() -> None:
    """About the texts, once; what it writes is the one document."""
    desk = Desk([Document("a.txt", "A")], ["The day is the 3rd."])
    output = used(extract, desk, documentList=["x"], aiPrompt="Which day?")
    assert [(item.name, item.data) for item in output.documents] == [("extract.md", "The day is the 3rd.")]
    assert desk.asked == [
        {"request": "Which day?", "documents": [("a.txt", "A")], "instructions": "", "format": "md"}
    ]


# -- ai.process ----------------------------------------------------------------------------------------------------


def test_A024_process_writes_one_document_per_format() -> None:
    """From the documents' texts, with the instructions; json is checked to be json."""
    desk = Desk([Document("a.txt", "A")], ["# M", '{"a": 1}', "a,b"])
    output = used(
        process,
        desk,
        documentList=["x"],
        aiPrompt="list",
        customInstructions="briefly",
        expectedDocumentFormats=["md", ".JSON", "csv"],
    )
    assert [(item.name, item.mime, item.data) for item in output.documents] == [
        ("text.md", "text/markdown", "# M"),
        ("text.json", "application/json", '{"a": 1}'),
        ("text.csv", "text/csv", "a,b"),
    ]
    assert [asked["format"] for asked in desk.asked] == ["md", "json", "csv"]
    assert {asked["instructions"] for asked in desk.asked} == {"briefly"}


def test_what_is_no_json_leaves_the_other_formats() -> None:
    """A text of minutes is not thrown away for it; a format that is named twice is written once."""
    output = used(process, Desk(texts=["# M", "not json"]), expectedDocumentFormats=["md", ".md", "json"])
    assert [item.name for item in output.documents] == ["text.md"]
    assert output.notes == ["the model's text is not JSON although JSON was asked for"]


def test_A030_process_writes_markdown_about_the_objective_by_default() -> None:
    """Without documents, prompt and formats."""
    desk = Desk(texts=["text"])
    output = used(process, desk)
    assert output.documents[0].name == "text.md"
    assert desk.asked == [{"request": "Find the day", "documents": [], "instructions": "", "format": "md"}]


@pytest.mark.parametrize(
    ("arguments", "texts", "error"),
    [
        ({"expectedDocumentFormats": ["pdf", "docx"]}, [], "pdf, docx"),
        ({"expectedDocumentFormats": ["json"]}, ["not json"], "not JSON"),
        ({"documentList": ["x"]}, [], "scan.png"),
    ],
    ids=short,
)
def test_process_says_what_it_cannot_do(arguments: dict[str, Any], texts: list[str], error: str) -> None:
    """As an error that a model can act upon."""
    with pytest.raises(ToolError, match=error):
        used(process, Desk([BROKEN], texts), **arguments)


# -- document.generateReport ---------------------------------------------------------------------------------------


def test_A026_a_report_has_one_title_and_a_part_per_document() -> None:
    """Headings of the parts are moved below it, those inside code are left alone."""
    body = "# One\n\ntext\n\n```\n# a comment\n```\n\n###### deep"
    desk = Desk([Document("a.pdf.md", body, "text/markdown"), Document("b.txt", "B")])
    output = used(generate_report, desk, documentList=["x"], title="The\n report ")
    (report,) = output.documents
    assert (report.name, report.mime) == ("report.md", "text/markdown")
    lines = str(report.data).splitlines()
    assert lines[0] == "# The report"
    assert [line for line in lines if line.startswith("# ")] == ["# The report", "# a comment"]
    assert [line.lstrip("# ") for line in lines if line.startswith("##")] == ["a.pdf", "One", "deep", "b.txt"]
    assert lines[-1] == "B" and "text" in lines
    assert output.notes[0] == "report of 2 documents"


def test_a_report_of_one_document_needs_no_part() -> None:
    """Its own title goes one level down; without a title the objective is one."""
    output = used(
        generate_report, Desk([Document("a.md", "# One\n\ntext", "text/markdown")]), documentList=["x"]
    )
    assert output.documents[0].data == "# Find the day\n\n## One\n\ntext\n"


# -- in a run ------------------------------------------------------------------------------------------------------


def test_the_builtin_tools_in_one_run(tmp_path: Path) -> None:
    """Extract, process, report: each takes what the one before has made."""
    script = [
        SELECT("document.extract", {}, requiredInputDocuments=[LABEL]),
        PARAMETERS(),
        CONTINUE,
        SELECT(
            "ai.process", {"aiPrompt": "string"}, requiredInputDocuments=["docList:round1_task1_action1_text"]
        ),
        PARAMETERS(aiPrompt="Which day?"),
        "It is the *3rd*.",
        CONTINUE,
        SELECT(
            "document.generateReport",
            {"title": "string"},
            requiredInputDocuments=["docList:round1_task1_action2_text", "docList:round1_task1_action1_text"],
        ),
        PARAMETERS(title="Days"),
        STOP,
        SUCCESS,
    ]
    with World(tmp_path, script, [], builtins=True) as world:
        result = world.run("Find the day", documents=[("page.html", "<p>The 3rd of May</p>")])
        assert [document.name for document in result.documents] == ["page.html.md", "text.md", "report.md"]
        assert "The 3rd of May" in sections(world.model.of("text")[0])["Documents"]
        report = str(result.documents[-1].read())
        assert report.startswith("# Days\n\n## text.md\n\nIt is the *3rd*.\n\n## page.html\n\n")
        assert observation(world, 2)["notes"] == ["report of 2 documents"]


def test_the_builtin_tools_only_read() -> None:
    """So they may run again after a crash, and none of them needs a label of its own kind twice."""
    tools = builtin_tools()
    assert {own.effect for own in tools} == {"read"}
    assert [own.name for own in tools] == ["ai.process", "document.extract", "document.generateReport"]
