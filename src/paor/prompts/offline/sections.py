"""Read the sections, labels and criteria of the shipped prompts, and write replies as JSON."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from ..model import PromptMessage

EXTRACT, PROCESS, REPORT = "document.extract", "ai.process", "document.generateReport"
SIGNATURE: Final = (
    "*Selected from the documents by paor's offline model: quoted sentences, no language model.*"
)
_HEADINGS: Final = (
    "Actions|Tools|Objective|Success criteria|Language|Documents|History, newest first|Results, newest first"
    "|Results so far, oldest first|Conversation|Final formatting|Selected action|Action objective|Parameters context"
    "|Parameters schema|Last action|Observation|Last observation|Draft answer|Steps|Why the run stopped|Request|Instructions"
    "|Format|Reply|Rules|Context|Connections|Improvements asked for|Hint for the next step|Input documents"
    "|Your last reply could not be used"
)
"""Headings of the shipped prompts; any other one belongs to the text around it, such as a draft with headings."""
_HEADING = re.compile(rf"(?m)^## ({_HEADINGS})[ \t]*$")

_RESULT = re.compile(r"(?:Result|Error) of (\S+): (\{.*\})")

Sections = dict[str, str]
"""The sections of a prompt by heading."""


def sections_of(prompt: str) -> Sections:
    """Return the sections of a prompt by heading; the first one of a name counts."""
    found: Sections = {}
    parts = _HEADING.split(prompt)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        found.setdefault(heading, body.strip("\n"))
    return found


def last_step(messages: Sequence[PromptMessage]) -> Sections:
    """Return the last action and its observation of a conversation, nothing where it has none."""
    for message in reversed(messages):
        if found := _RESULT.fullmatch(message.text):
            return {"Last action": found[1], "Observation": found[2]}
    return {}


def criteria_of(sections: Sections, *, marks: str = "met|open") -> list[str]:
    """Return the criteria of a prompt that have one of *marks*, in order."""
    return re.findall(rf"(?m)^- \[(?:{marks})\] (.*)$", sections.get("Success criteria", ""))


def numbered(criteria: list[str]) -> str:
    """Return *criteria* as lines of the instructions for a text."""
    return "\n".join(f"Criterion {number}: {text}" for number, text in enumerate(criteria, 1))


def title_of(objective: str) -> str:
    """Return an objective as the title of a report."""
    first = " ".join(objective.split())
    return first if len(first) <= 90 else first[:87].rsplit(" ", 1)[0] + "..."


def tried_in(history: str) -> list[tuple[str, str]]:
    """Return the tools that *history* says were executed, the newest first, each with "ok" or "failed"."""
    return re.findall(r"(?m)^- Step \d+: (\S+) \[(ok|failed)\]", history)


def dumps(**data: Any) -> str:
    """Return *data* as a reply."""
    return json.dumps(data, ensure_ascii=False)
