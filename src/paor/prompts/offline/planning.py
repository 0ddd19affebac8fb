"""How the offline model plans: extract, process, report, one by one as selections or as the steps of one plan."""

import json
import re
from contextlib import suppress
from typing import Any, Final

from .sections import EXTRACT, PROCESS, REPORT, Sections, criteria_of, dumps, numbered, title_of, tried_in

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
        requiredInputDocuments=inputs if tool == EXTRACT else newest or inputs,
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
    labels = re.findall(r"(?m)^- docList:((\S+)_action(\d+)_\S+) \(", sections.get("Documents", ""))
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
