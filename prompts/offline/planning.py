"""How the offline model plans: extract, process, report, one by one as selections or as the steps of one plan."""

import json
import re
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


def selection_reply(sections: Sections) -> str:
    """Choose an action in the form that is asked for: as one text, or as an object of method and name."""
    data = _selection(sections)
    if data["action"] is not None and '"method":' in sections.get("Reply", ""):
        method, _, name = data["action"].partition(".")
        data["action"] = {"method": method, "name": name}
    return dumps(**data)


def _selection(sections: Sections) -> dict[str, Any]:
    """Choose the next of extract, process, report that has not succeeded yet, as far as the catalog has them."""
    offered = re.findall(r"(?m)^- ([\w.-]+)\(", sections.get("Actions", ""))
    history, objective = sections.get("History, newest first", ""), sections.get("Objective", "")
    done = {tool for tool, outcome in tried_in(history) if outcome == "ok"}
    failed = {tool for tool, outcome in tried_in(history) if outcome == "failed"}
    inputs = [
        f"docList:{label}" for label in _LABEL.findall(sections.get("Documents", "")) if "_action0_" in label
    ]
    newest = [f"docList:{label}" for label in _LABEL.findall(history)[:1]]
    summary = re.search(r"(?m)^  Summary: (.*)$", history)
    if not inputs:
        return {"action": None, "answer": NO_DOCUMENTS}
    if not {EXTRACT, PROCESS} & set(offered):
        return {"action": None, "answer": NO_TOOLS}
    if EXTRACT in offered and EXTRACT not in done | failed:
        return _action(EXTRACT, inputs, "", {})
    if EXTRACT in failed - done or (
        not {EXTRACT, PROCESS} & done and (PROCESS not in offered or PROCESS in failed)
    ):
        why = summary[1].removeprefix("tool_error: ") if summary else ""
        return {"action": None, "answer": f"The documents could not be read: {why or 'no details'}"}
    if PROCESS in offered and PROCESS not in done | failed:
        criteria = numbered(criteria_of(sections))
        fields = {"aiPrompt": "what to write", "customInstructions": "criteria to check"}
        return _action(PROCESS, newest or inputs, "\n".join(filter(None, (objective, criteria))), fields)
    if REPORT in offered and REPORT not in done and PROCESS in done and "Final formatting" not in sections:
        return _action(REPORT, newest, title_of(objective), {"title": "its title"})
    return {
        "action": None,
        "answer": summary[1] if summary else "The documents were read; there is nothing more to do.",
    }


def _action(action: str, documents: list[str], context: str, fields: dict[str, str]) -> dict[str, Any]:
    """Return the selection of *action*, its parameters prepared in *context* and described in *fields*."""
    schema = [{"name": n, "type": "string", "required": False, "description": d} for n, d in fields.items()]
    return {
        "action": action,
        "actionObjective": _REASONS[action],
        "learnings": [],
        "requiredInputDocuments": documents,
        "requiredConnection": None,
        "parametersContext": context,
        "parametersSchema": {"fields": schema},
    }


def parameters_reply(sections: Sections) -> str:
    """Fill what the selection prepared in the parameters context; everything else keeps its default."""
    action, context = (sections.get(name, "").strip() for name in ("Selected action", "Parameters context"))
    objective, *rest = re.split(r"(?m)^(?=Criterion \d+: )", context)
    values: dict[str, str] = {}
    if action == PROCESS:
        values["aiPrompt"] = objective.strip() or sections.get("Objective", "")
        if rest:
            values["customInstructions"] = "".join(rest)
    elif action == REPORT and context:
        values["title"] = context
    return dumps(schema="parameters_v1", parameters=values)


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
    wanted = [EXTRACT] if EXTRACT in offered and EXTRACT not in done else []
    if PROCESS in offered:
        wanted += [PROCESS, REPORT] if REPORT in offered and "Final formatting" not in sections else [PROCESS]
    if PROCESS in done | failed or EXTRACT in failed:
        wanted = []
    criteria, objective = numbered(criteria_of(sections)), sections.get("Objective", "")
    args = {
        EXTRACT: {},
        PROCESS: {"aiPrompt": objective} | ({"customInstructions": criteria} if criteria else {}),
        REPORT: {"title": title_of(objective)},
    }
    current = [f"docList:{label}" for label, _, number in labels if number != "0"][:1] or inputs
    steps: list[dict[str, Any]] = []
    for name in wanted:
        arguments = {"documentList": current, **args[name]}
        steps.append({"type": "tool", "name": name, "args": arguments, "reason": _REASONS[name]})
        current = [
            f"docList:{labels[0][1]}_action{len(results) + len(steps)}_text"
        ]  # what this step will leave
    return dumps(intention="answer from the documents" if steps else "", steps=steps)


def _results(text: str) -> list[dict[str, Any]]:
    """Return the outcomes of the steps before, the oldest first; lines that are no objects are left out."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict):
            found.append(data)
    return found
