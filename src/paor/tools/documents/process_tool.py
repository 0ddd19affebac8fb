"""ai.process: have the run's model write something from documents."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from ...states.base.errors import ToolError
from ..tool import Document, ToolContext, ToolOutput, tool
from .tools import readable

MIMES = {
    "md": "text/markdown",
    "txt": "text/plain",
    "json": "application/json",
    "csv": "text/csv",
    "html": "text/html",
}


@tool("ai.process", effect="read", label="text")
def process(
    context: ToolContext,
    documentList: Annotated[list[str] | None, Field(description="references of the input documents")] = None,
    aiPrompt: Annotated[str | None, Field(description="what to write")] = None,
    processingMode: Annotated[
        Literal["basic", "advanced"] | None, Field(description="advanced for analysis, basic for look-ups")
    ] = None,
    includeMetadata: Annotated[bool | None, Field(description="name documents with type and size")] = None,
    customInstructions: Annotated[str | None, Field(description="further instructions")] = None,
    expectedDocumentFormats: Annotated[
        list[str] | None,
        # a list of what there is, small models fill in as it stands: a text for each, minutes on a machine of one's own
        Field(
            description="only where the objective asks for another format than Markdown: txt, json, csv, html"
        ),
    ] = None,
) -> ToolOutput:
    """Write a text from documents: a summary, an answer, a comparison, a list."""
    documents, notes = readable(context, context.documents(documentList or []))
    named = [
        (f"{item.title} ({item.mime}, {item.size_bytes} bytes)" if includeMetadata else item.title, item.text)
        for item in documents
    ]
    formats = expectedDocumentFormats or ["md"]
    unknown = [form for form in formats if form.lower().lstrip(".") not in MIMES]
    if unknown:
        raise ToolError(f"ai.process cannot write {', '.join(unknown)}; use {', '.join(MIMES)}")
    produced = []
    for form in dict.fromkeys(form.lower().lstrip(".") for form in formats):
        text = context.ask(
            aiPrompt or context.objective,
            named,
            instructions=customInstructions or "",
            format=form,
        )
        if form == "json":
            try:
                json.loads(text)
            except ValueError:
                notes.append("the model's text is not JSON although JSON was asked for")
                continue
        produced.append(Document(f"text.{form}", text, MIMES[form]))
    if not produced:
        raise ToolError(notes[-1])
    return ToolOutput(documents=produced, notes=notes)
