"""How the offline model plans: extract, process, report as the steps of one plan, as it chooses them one by one."""

from __future__ import annotations

import json
import re
from typing import Any

from .offline import EXTRACT, NO_DOCUMENTS, PROCESS, REPORT, criteria_of, title_of

_TOOL = re.compile(r"(?m)^- ([\w.-]+): ")
_LABEL = re.compile(r"(?m)^- docList:((\S+)_action(\d+)_\S+) \(")
_WRITES = "text"
"""Label under which both reading and writing leave their documents."""


def plan_reply(sections: dict[str, str]) -> str:
    """Return a plan of what has not been done yet, a plan of nothing when there is nothing left, or why there is none."""
    labels = _LABEL.findall(sections.get("Documents", ""))
    inputs = [f"docList:{label}" for label, _, action in labels if action == "0"]
    if not inputs:
        return _dumps([], NO_DOCUMENTS)
    results = _results(sections)
    done = {str(result.get("name")) for result in results if "error" not in result}
    failed = {str(result.get("name")) for result in results} - done
    if PROCESS in done | failed or EXTRACT in failed:
        return _dumps([])
    written = [f"docList:{label}" for label, _, action in labels if action != "0"]
    place, number = labels[0][1], len(results)
    steps: list[dict[str, Any]] = []
    offered = _TOOL.findall(sections.get("Tools", ""))
    current = written[:1] or inputs

    def add(name: str, reason: str, **args: str) -> None:
        steps.append(_step(name, reason, documentList=current, **args))

    objective = sections.get("Objective", "")
    if EXTRACT in offered and EXTRACT not in done:
        add(EXTRACT, "read the text of the given documents")
        current = [f"docList:{place}_action{number + len(steps)}_{_WRITES}"]
    if PROCESS in offered:
        criteria = "\n".join(f"Criterion {n}: {text}" for n, text in enumerate(criteria_of(sections), 1))
        instructions = {"customInstructions": criteria} if criteria else {}
        add(PROCESS, "write the answer from the extracted text", aiPrompt=objective, **instructions)
        current = [f"docList:{place}_action{number + len(steps)}_{_WRITES}"]
        if REPORT in offered and "Final formatting" not in sections:
            add(REPORT, "put the answer into a report", title=title_of(objective))
    return _dumps(steps)


def _step(name: str, reason: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool", "name": name, "args": args, "reason": reason}


def _dumps(steps: list[dict[str, Any]], answer: str = "") -> str:
    data: dict[str, Any] = {"intention": "answer from the documents" if steps else "", "steps": steps}
    return json.dumps(data | ({"answer": answer} if answer else {}), ensure_ascii=False)


def _results(sections: dict[str, str]) -> list[dict[str, Any]]:
    """Return what the steps before came to, the oldest first."""
    found: list[dict[str, Any]] = []
    for line in sections.get("Results so far, oldest first", "").splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict):
            found.append(data)
    return found
