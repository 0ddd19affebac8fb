"""How the offline model plans: extract, process, report, one by one as selections or as the steps of one plan."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from ..model import ModelCall, PromptMessage

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
_FENCED = re.compile(r"<<<document result\n(.*?)\n>>>(?:\n\n.*)?", re.DOTALL)
_BROUGHT = re.compile(
    r"(Result|Error) of (\S+?)(?: \([^\n]*?\))?(?:, called with [^\n]*)?:\n(.*?)(?:\n\nDocuments: docList:(\S+))?",
    re.DOTALL,
)

Sections = dict[str, str]
"""The sections of a prompt by heading."""


def sections_of(prompt: str) -> Sections:
    """Return the sections of a prompt by heading; the first one of a name counts."""
    found: Sections = {}
    parts = _HEADING.split(prompt)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        found.setdefault(heading, body.strip("\n"))
    return found


def told_sections(messages: Sequence[PromptMessage]) -> Sections:
    """Return what a conversation of actions tells as the sections of a report: its history, and the last action with its observation."""
    steps = [found for message in messages if (found := _BROUGHT.fullmatch(message.text))]
    if not steps:
        return {}
    lines = []
    for number, step in reversed([*enumerate(steps, 1)]):
        kind, tool, text, label = step.groups()
        lines.append(f"- Step {number}: {tool} [{'ok' if kind == 'Result' else 'failed'}]")
        lines += [f"  Documents: docList:{label} (1)"] if label else []
        lines.append(f"  Summary: {' '.join(_unfenced(text).split())}")
    kind, tool, text, label = steps[-1].groups()
    ok, text = kind == "Result", _unfenced(text)
    seen = {"success": ok, "resultLabel": label, "previews": [{"snippet": text}] if ok else []}
    history = "\n".join(lines)
    return {
        "History, newest first": history,
        "Results, newest first": history,
        "Last action": tool,
        "Observation": dumps(**seen, notes=[] if ok else [text]),
        "Results so far, oldest first": "\n".join(
            dumps(name=step[2], **{"result" if step[1] == "Result" else "error": step[3]}) for step in steps
        ),
        "Documents made": "\n".join(f"- docList:{step[4]} (1)" for step in reversed(steps) if step[4]),
    }


def _unfenced(text: str) -> str:
    """Return a result without the markers that it stands between where it has headings, and without notes behind them."""
    found = _FENCED.fullmatch(text)
    return found[1] if found else text


def last_step(messages: Sequence[PromptMessage]) -> Sections:
    """Return the last action and its observation of a conversation, nothing where it has none."""
    for message in reversed(messages):
        if found := _RESULT.fullmatch(message.text):
            return {"Last action": found[1], "Observation": found[2]}
    return {}


def criteria_of(sections: Sections, *, marks: str = "met|open") -> list[str]:
    """Return the criteria of a prompt that have one of *marks*, in order."""
    lines = re.findall(r"(?m)^- (?:\[(met|open)\] )?(.*)$", sections.get("Success criteria", ""))
    return [text for mark, text in lines if mark in ("", *marks.split("|"))]


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


NO_DOCUMENTS: Final = (
    "I am paor's offline model: I answer from documents only, and this run has none that I can read. "
    "Give documents (--document FILE), in a prompt that names them if the template is your own, or use a language model."
)
NO_TOOLS: Final = (
    f"I am paor's offline model: I work with {EXTRACT} and {PROCESS}, and this run offers neither."
)
_LABEL = re.compile(r"(?m)^(?:- |  Documents: )docList:(\S+) \(\d+")
_REASONS: Final = {
    EXTRACT: "read the text of the given documents",
    PROCESS: "write the answer from the extracted text",
    REPORT: "put the answer into a report",
}
_PARAMETER: Final = {PROCESS: "customInstructions", REPORT: "title"}


def selection_reply(sections: Sections) -> str:
    """Choose the next of extract, process, report that has not succeeded yet, as far as the catalog has them."""
    offered = re.findall(r"(?m)^- ([\w.-]+)\(", sections.get("Actions", ""))
    history = sections.get("History, newest first", "")
    tried, summaries = tried_in(history), re.findall(r"(?m)^  Summary: (.*)$", history)
    done = {tool for tool, outcome in tried if outcome == "ok"}
    failed = {tool for tool, outcome in tried if outcome == "failed"}
    labels = _LABEL.findall(sections.get("Documents", ""))
    inputs = [f"docList:{label}" for label in labels if "_action0_" in label]
    newest = [f"docList:{label}" for label in _LABEL.findall(history)[:1]]
    wanted = _wanted(sections, offered, done, failed)
    if not inputs:
        return dumps(action=None, answer=NO_DOCUMENTS)
    if not {EXTRACT, PROCESS} & set(offered):
        return dumps(action=None, answer=NO_TOOLS)
    if EXTRACT in failed - done or not {EXTRACT, PROCESS} & {*wanted, *done}:
        why = summaries[0].removeprefix("tool_error: ") if summaries else ""
        return dumps(action=None, answer=f"The documents could not be read: {why or 'no details'}")
    if not wanted:
        told = (text for (_, outcome), text in zip(tried, summaries, strict=False) if outcome == "ok")
        return dumps(action=None, answer=next(told, "The documents were read; there is nothing more to do."))
    tool = wanted[0]
    action: Any = tool
    if '"method":' in sections.get("Reply", ""):  # it is asked for as an object
        action = dict(zip(("method", "name"), tool.split(".", 1), strict=True))
    field = {"name": _PARAMETER.get(tool), "type": "string", "required": False, "description": "as prepared"}
    return dumps(
        action=action,
        actionObjective=_REASONS[tool],
        learnings=[],
        requiredInputDocuments=inputs if tool == EXTRACT else newest or inputs,
        requiredConnection=None,
        parametersContext=_value(tool, sections),
        parametersSchema={"fields": [field] if tool in _PARAMETER else []},
    )


def _wanted(sections: Sections, offered: list[str], done: set[str], failed: set[str]) -> list[str]:
    """Return which of *offered* are left of extract, process, report; a report only of a text, and if the run makes none itself."""
    wanted = [tool for tool in (EXTRACT, PROCESS, REPORT) if tool in offered and tool not in done | failed]
    if REPORT in wanted and ("Final formatting" in sections or PROCESS not in {*wanted, *done}):
        wanted.remove(REPORT)
    return wanted


def _value(tool: str, sections: Sections) -> str:
    """Return the one parameter of *tool* besides its documents; what to write is the run's objective."""
    if tool == PROCESS:
        return numbered(criteria_of(sections))
    return title_of(sections.get("Objective", "")) if tool == REPORT else ""


def parameters_reply(sections: Sections) -> str:
    """Fill what the selection prepared in the parameters context; everything else keeps its default."""
    action, context = (sections.get(name, "").strip() for name in ("Selected action", "Parameters context"))
    name = _PARAMETER.get(action)
    return dumps(schema="parameters_v1", parameters={name: context} if name and context else {})


def tasks_reply(sections: Sections) -> str:
    """Return the whole objective as one task: what to divide it into takes a language model."""
    objective, criteria = sections.get("Objective", ""), criteria_of(sections)
    task = {"id": "task_1", "objective": objective, "success_criteria": criteria, "dependencies": []}
    return dumps(overview="one task", tasks=[task])


def plan_reply(sections: Sections) -> str:
    """Return a plan of what has not been done yet, a plan of nothing when there is nothing left, or why there is none."""
    documents = "\n".join(sections.get(name, "") for name in ("Documents made", "Documents"))
    labels = re.findall(r"(?m)^- docList:((\S+)_action(\d+)_\S+) \(", documents)
    inputs = [f"docList:{label}" for label, _, number in labels if number == "0"]
    if not inputs:
        return dumps(intention="", steps=[], answer=NO_DOCUMENTS)
    results = _results(sections.get("Results so far, oldest first", ""))
    done = {str(result.get("name")) for result in results if "error" not in result}
    failed = {str(result.get("name")) for result in results} - done
    offered = re.findall(r"(?m)^- ([\w.-]+): ", sections.get("Tools", ""))
    tried = PROCESS in done | failed or EXTRACT in failed
    wanted = [] if tried else _wanted(sections, offered, done, failed)
    current = [f"docList:{label}" for label, _, number in labels if number != "0"][:1] or inputs
    steps: list[dict[str, Any]] = []
    for name in wanted:
        value = _value(name, sections)
        args = {"documentList": current} | ({_PARAMETER[name]: value} if value else {})
        steps.append({"type": "tool", "name": name, "args": args, "reason": _REASONS[name]})
        current = [f"docList:{labels[0][1]}_action{len(results) + len(steps)}_text"]  # what it will leave
    return dumps(intention="answer from the documents" if steps else "", steps=steps)


def _results(text: str) -> list[dict[str, Any]]:
    """Return the outcomes of the steps before, the oldest first; lines that are no objects are left out."""
    found: list[Any] = []
    for line in text.splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return [data for data in found if isinstance(data, dict)]


_MARK = "\n\nDocuments: docList:"


def turn_reply(call: ModelCall, sections: Sections) -> str:
    """Call the next of extract and process that was not called yet, or answer with what the last one has come to."""
    offered = {tool.name.replace("_", "."): tool.name for tool in call.tools}
    made = [(told.name.replace("_", "."), message) for told, message in _made(call.messages)]
    given = [line for line in sections.get("Documents", "").splitlines() if line.startswith("- docList:")]
    inputs = [line.removeprefix("- ").partition(" ")[0] for line in given]
    if not inputs:
        return NO_DOCUMENTS
    if not {EXTRACT, PROCESS} & offered.keys():
        return NO_TOOLS
    last = made[-1][1].text if made else ""
    if last.startswith("Error: "):
        return f"The documents could not be read: {last.removeprefix('Error: ')}"
    text, _, label = last.partition(_MARK)
    done = {name for name, _ in made}
    tool = next((name for name in (EXTRACT, PROCESS) if name in offered and name not in done), None)
    if PROCESS in done or tool is None or not call.may_call:
        return text
    arguments: dict[str, Any] = {"documentList": [f"docList:{label.partition(',')[0]}"] if label else inputs}
    if tool == PROCESS and (wanted := numbered(criteria_of(sections))):
        arguments["customInstructions"] = wanted
    return dumps(text="", calls=[{"id": "", "name": offered[tool], "arguments": arguments}])


def _made(messages: tuple[PromptMessage, ...]) -> list[Any]:
    """Return every call of a conversation with the message that holds its result."""
    results = {message.call_id: message for message in messages if message.call_id}
    calls = (call for message in messages for call in message.calls)
    return [(call, results[call.id]) for call in calls if call.id in results]
