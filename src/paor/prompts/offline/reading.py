"""What the offline model reads of a prompt: its sections, the tools and documents of the run, and the steps done so far."""

import json
import re
from contextlib import suppress
from typing import Any, NamedTuple

from ..building.fencing import DRAFT
from ..model import ModelCall, PromptMessage

_FENCE = re.compile(r"<<<document (.*)\n((?:.*\n)*?)>>>(?:\n|\Z)")
_HEADING = re.compile(r"(?m)^## (.*)$")
_RESULT = re.compile(
    r"(Result|Error) of (\S+?)(?: \([^\n]*?\))?(?:, called with [^\n]*)?:\s(.*?)(?:\n\nDocuments: docList:(\S+))?",
    re.DOTALL,
)
_FENCED = re.compile(r"<<<document result\n(.*?)\n>>>(?:\n\n.*)?", re.DOTALL)
_STEP = re.compile(r"- Step \d+: (\S+) \[(ok|failed)\]")


class DoneStep(NamedTuple):
    """One executed call: its tool, whether it succeeded, its text or error, and the label of its documents."""

    tool: str
    ok: bool
    text: str = ""
    label: str = ""


class Brief(NamedTuple):
    """
    What one prompt says: its *sections* by heading (the first of a name counts), the *documents* in it with their names, the
    tools *offered* with their names in the request, references to the documents that the run was given (*inputs*), the *steps*
    done, the oldest first, the *draft* to review, and whether a tool may still be called.
    """

    sections: dict[str, str]
    documents: list[tuple[str, str]]
    offered: dict[str, str]
    inputs: list[str]
    steps: list[DoneStep]
    draft: str
    may_call: bool

    @property
    def done(self) -> set[str]:
        """The tools that succeeded at least once."""
        return {step.tool for step in self.steps if step.ok}

    @property
    def newest(self) -> list[str]:
        """The documents that a next step works on: those of the newest step that made some, else those of the run."""
        return [f"docList:{step.label}" for step in self.steps[::-1] if step.label][:1] or self.inputs

    def criteria(self, marks: str = "met|open") -> list[str]:
        """Return the criteria of the prompt that have one of *marks*, in order."""
        lines = re.findall(r"(?m)^- (?:\[(met|open)\] )?(.*)$", self.sections.get("Success criteria", ""))
        return [text for mark, text in lines if mark in ("", *marks.split("|"))]


def read_brief(call: ModelCall) -> Brief:
    """Return what the prompt of *call* says. Results and fenced texts are data: what looks like a section in them is none."""
    names = {made.id: made.name.replace("_", ".") for message in call.messages for made in message.calls}
    steps, said, draft = list[DoneStep](), list[str](), ""
    for message in call.messages:
        if step := _told(message, names):
            steps.append(step)
        elif message.role != "assistant":
            said.append(message.text)
        elif call.tools and not message.calls:
            draft = message.text
    prompt = "\n".join(said)
    parts, documents = _HEADING.split(_FENCE.sub("", prompt)), _FENCE.findall(prompt)
    sections = {
        name.strip(): body.strip("\n") for name, body in [*zip(parts[1::2], parts[2::2], strict=True)][::-1]
    }
    drafts = [body for name, body in documents if name == DRAFT] or [sections.get("Draft answer", draft)]
    catalog = sections.get("Actions", "") + "\n" + sections.get("Tools", "")
    offered = {name: name for name in re.findall(r"(?m)^- ([\w.-]+)[(:]", catalog)}
    return Brief(
        sections,
        documents,
        offered | {tool.name.replace("_", "."): tool.name for tool in call.tools},
        re.findall(r"(?m)^- (docList:\S+_action0_\S+) \(\d+", sections.get("Documents", "")),
        steps or _listed(sections),
        drafts[-1].strip(),
        call.may_call,
    )


def _told(message: PromptMessage, names: dict[str, str]) -> DoneStep | None:
    """Return the step whose result *message* is, or None for another message."""
    if message.call_id:
        text, _, label = message.text.partition("\n\nDocuments: docList:")
        failed, tool = text.startswith("Error: "), names.get(message.call_id, "")
        return DoneStep(tool, not failed, text.removeprefix("Error: "), label.partition(",")[0])
    if not (found := _RESULT.fullmatch(message.text)):
        return None
    kind, tool, text, label = found.groups()
    if (seen := _observed(text)) is not None:
        return seen._replace(tool=tool)
    fenced = _FENCED.fullmatch(text)
    return DoneStep(tool, kind == "Result", fenced[1] if fenced else text, label or "")


def _observed(text: str) -> DoneStep | None:
    """Return the step whose observation *text* is as JSON, without its tool; None if it is something else."""
    with suppress(ValueError):
        seen: Any = json.loads(text)
        if isinstance(seen, dict) and "success" in seen:
            shown = [preview["snippet"] for preview in seen.get("previews", ()) if preview.get("snippet")]
            body = shown[0] if shown else "; ".join(seen.get("notes", ()))
            return DoneStep("", bool(seen["success"]), body, seen.get("resultLabel") or "")
    return None


def _listed(sections: dict[str, str]) -> list[DoneStep]:
    """Return the steps that a section of the prompt lists: a history, newest first, or a plan's results as JSON lines."""
    steps = list[DoneStep]()
    history = sections.get("History, newest first") or sections.get("Results, newest first", "")
    for block in re.split(r"(?m)^(?=- Step \d+: )", history)[::-1]:
        if head := _STEP.match(block):
            label = re.search(r"(?m)^  Documents: docList:(\S+) \(", block)
            summary = re.search(r"(?m)^  Summary: (.*)$", block)
            text = summary[1].removeprefix("tool_error: ") if summary else ""
            steps.append(DoneStep(head[1], head[2] == "ok", text, label[1] if label else ""))
    for line in sections.get("Results so far, oldest first", "").splitlines():
        with suppress(ValueError, AttributeError):
            data: Any = json.loads(line)
            steps.append(DoneStep(str(data.get("name")), "error" not in data))
    return steps
