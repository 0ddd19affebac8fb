"""
OfflineModel: a deterministic planner and extractive writer without any language model.

It speaks the same two-stage protocol as every model: it gets the prompts, reads their sections, and answers with
the documents' JSON. It plans extract, process, report; fills the parameters; writes by selecting sentences of the
documents (`prompts.extractive`); judges criteria by the evidence it found; and stops. It invents nothing, and says
what it is in every text that it writes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .fencing import DRAFT, without_note
from .model import ModelCall, ModelUnavailable, Reply

EXTRACT, PROCESS, REPORT = "document.extract", "ai.process", "document.generateReport"
SIGNATURE = "*Selected from the documents by paor's offline model: quoted sentences, no language model.*"
NO_DOCUMENTS = (
    "I am paor's offline model: I answer from documents only, and this run has none that I can read. "
    "Give documents (--document FILE), in a prompt that names them if the template is your own, or use a language model."
)
NO_TOOLS = f"I am paor's offline model: I work with {EXTRACT} and {PROCESS}, and this run offers neither."
_STEP = re.compile(r"(?m)^- Step \d+: (\S+) \[(ok|failed)\]")
_LABEL = re.compile(r"(?m)^(?:- |  Documents: )docList:(\S+) \((\d+)")
_FENCE = re.compile(r"<<<document (.*)\n((?:.*\n)*?)>>>(?:\n|\Z)")
_COVERED = re.compile(r"\*Success criteria with evidence: ([0-9, ]+|none) of (\d+)\*")


_HEADINGS = (
    "Actions",
    "Tools",
    "Objective",
    "Success criteria",
    "Language",
    "Documents",
    "History, newest first",
    "Results, newest first",
    "Results so far, oldest first",
    "Conversation",
    "Final formatting",
    "Selected action",
    "Action objective",
    "Parameters context",
    "Parameters schema",
    "Last action",
    "Observation",
    "Last observation",
    "Draft answer",
    "Steps",
    "Why the run stopped",
    "Request",
    "Instructions",
    "Format",
    "Reply",
    "Rules",
    "Context",
    "Connections",
    "Improvements asked for",
    "Hint for the next step",
    "Input documents",
    "Your last reply could not be used",
)
"""Headings of the shipped prompts; any other one belongs to the text around it, such as a draft with headings."""

_HEADING = re.compile(rf"(?m)^## ({'|'.join(map(re.escape, _HEADINGS))})[ \t]*$")


class OfflineModel:
    """The embedded default model; no key, no network, the same answer every time."""

    name = "offline"

    def ask(self, call: ModelCall) -> Reply:
        """Answer as `Model.ask` says: selections, parameters, refinements, reviews, plans, texts; no other kind."""
        from .offline_plans import plan_reply

        answers = {
            "plan": plan_reply,
            "selection": _select,
            "parameters": _parameters,
            "refinement": _refine,
            "review": _review,
            "task_plan": _tasks,
        }
        answer = answers.get(call.kind, _review)
        if call.kind not in answers and call.kind != "text":
            raise ModelUnavailable("bad_request", f"the offline model cannot answer {call.kind} requests")
        prompt = "\n".join(message.text for message in call.messages)
        sections, fences = sections_of(_FENCE.sub("", prompt)), _FENCE.findall(prompt)
        if call.kind == "text":
            return Reply(_write(sections, fences))
        for name, body in fences:
            if name == DRAFT:
                sections["Draft answer"] = body
        return Reply(answer(sections))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same as `ask`; short enough to run on the event loop."""
        return self.ask(call)


def sections_of(prompt: str) -> dict[str, str]:
    """Return the sections of a prompt by heading; the first one of a name counts."""
    found: dict[str, str] = {}
    parts = _HEADING.split(prompt)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        found.setdefault(heading, body.strip("\n"))
    return found


def _select(sections: dict[str, str]) -> str:
    """Choose an action in the form that is asked for: document 003's text, or 002's object of method and name."""
    reply = _chosen(sections)
    if '"method":' not in sections.get("Reply", ""):
        return reply
    data = json.loads(reply)
    if data["action"] is not None:
        method, _, name = data["action"].partition(".")
        data["action"] = {"method": method, "name": name}
    return json.dumps(data, ensure_ascii=False)


def _dumps(**data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def _tasks(sections: dict[str, str]) -> str:
    """Return the whole objective as one task: what to divide it into takes a language model."""
    objective, criteria = sections.get("Objective", ""), criteria_of(sections)
    task = {"id": "task_1", "objective": objective, "success_criteria": criteria, "dependencies": []}
    return _dumps(overview="one task", tasks=[task])


def _chosen(sections: dict[str, str]) -> str:
    """Choose the next of extract, process, report that has not succeeded yet, as far as the catalog has them."""
    offered = re.findall(r"(?m)^- ([\w.-]+)\(", sections.get("Actions", ""))
    history = sections.get("History, newest first", "")
    tried = _STEP.findall(history)
    done = {tool for tool, outcome in tried if outcome == "ok"}
    index = sections.get("Documents", "")
    inputs = [f"docList:{label}" for label, _ in _LABEL.findall(index) if "_action0_" in label]
    if not inputs:
        return _dumps(action=None, answer=NO_DOCUMENTS)
    if EXTRACT not in offered and PROCESS not in offered:
        return _dumps(action=None, answer=NO_TOOLS)
    failed = [tool for tool, outcome in tried if outcome == "failed"]
    objective = sections.get("Objective", "")
    criteria = criteria_of(sections)
    if EXTRACT in offered and EXTRACT not in done and failed.count(EXTRACT) < 1:
        return _choice(EXTRACT, "read the text of the given documents", inputs, "", [])
    if PROCESS in offered and PROCESS not in done and failed.count(PROCESS) < 1:
        if EXTRACT in failed and EXTRACT not in done:
            return _gave_up(history)
        context = objective + "".join(f"\nCriterion {n}: {text}" for n, text in enumerate(criteria, 1))
        fields = [("aiPrompt", "what to write"), ("customInstructions", "criteria to check")]
        return _choice(
            PROCESS, "write the answer from the extracted text", _newest(history) or inputs, context, fields
        )
    if REPORT in offered and REPORT not in done and PROCESS in done and "Final formatting" not in sections:
        title = title_of(objective)
        return _choice(
            REPORT, "put the answer into a report", _newest(history), title, [("title", "its title")]
        )
    if PROCESS not in done and EXTRACT not in done:
        return _gave_up(history)
    return _dumps(
        action=None, answer=_summary(history) or "The documents were read; there is nothing more to do."
    )


def _choice(
    action: str, objective: str, documents: list[str], context: str, fields: list[tuple[str, str]]
) -> str:
    return _dumps(
        action=action,
        actionObjective=objective,
        learnings=[],
        requiredInputDocuments=documents,
        requiredConnection=None,
        parametersContext=context,
        parametersSchema={
            "fields": [
                {"name": name, "type": "string", "required": False, "description": description}
                for name, description in fields
            ]
        },
    )


def _gave_up(history: str) -> str:
    why = _summary(history).removeprefix("tool_error: ") or "no details"
    return _dumps(action=None, answer=f"The documents could not be read: {why}")


def _newest(history: str) -> list[str]:
    """Return the reference of the newest documents in history."""
    found = _LABEL.search(history)
    return [f"docList:{found.group(1)}"] if found else []


def _summary(history: str) -> str:
    found = re.search(r"(?m)^  Summary: (.*)$", history)
    return found.group(1) if found else ""


def criteria_of(sections: dict[str, str]) -> list[str]:
    """Return the criteria of a prompt, in order."""
    return re.findall(r"(?m)^- \[(?:met|open)\] (.*)$", sections.get("Success criteria", ""))


def title_of(objective: str) -> str:
    """Return an objective as the title of a report."""
    first = " ".join(objective.split())
    return first if len(first) <= 90 else first[:87].rsplit(" ", 1)[0] + "..."


def _parameters(sections: dict[str, str]) -> str:
    """Fill what Stage 1 prepared in the parameters context; everything else keeps its default."""
    action = sections.get("Selected action", "").strip()
    context = sections.get("Parameters context", "").strip()
    objective, *rest = re.split(r"(?m)^Criterion (?=\d+: )", context)
    values: dict[str, str] = {}
    if action == PROCESS:
        values["aiPrompt"] = objective.strip() or sections.get("Objective", "")
        if rest:
            values["customInstructions"] = "".join(f"Criterion {line}" for line in rest)
    elif action == REPORT and context:
        values["title"] = context
    return _dumps(schema="parameters_v1", parameters=values)


def _refine(sections: dict[str, str]) -> str:
    """Stop after the last action that is useful here; say which criteria the written text holds evidence for."""
    observation = _observation(sections)
    tool = sections.get("Last action", "").partition(":")[0]
    checks = _checks(sections, observation) if tool == PROCESS else []  # other texts are the documents' own
    if not observation.get("success"):
        notes = "; ".join(observation.get("notes", ())) or "no details"
        return _dumps(decision="continue", reason=f"{tool} failed: {notes}", criteria=checks)
    if tool == EXTRACT:
        return _dumps(
            decision="continue",
            reason="the documents are read, the answer is not written yet",
            hint="write the answer from the extracted text",
            criteria=checks,
        )
    if tool == PROCESS and "Final formatting" not in sections:
        return _dumps(
            decision="continue",
            reason="the answer is written, the report is not",
            hint="put the answer into a report",
            criteria=checks,
            answer=_answer(observation),
        )
    return _dumps(
        decision="stop", reason="the result is written", criteria=checks, answer=_answer(observation)
    )


def _observation(sections: dict[str, str]) -> dict[str, Any]:
    try:
        data = json.loads(sections.get("Observation") or sections.get("Last observation") or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _checks(sections: dict[str, str], observation: dict[str, Any]) -> list[dict[str, Any]]:
    """Read which criteria the written text says it has evidence for."""
    snippet = "\n".join(preview.get("snippet", "") for preview in observation.get("previews", ()))
    found = _COVERED.search(snippet)
    if found is None or not observation.get("success"):
        return []
    met = set(re.findall(r"\d+", found.group(1)))
    return [
        {"criterion": text, "met": str(number) in met, "evidence": "evidence in the written text"}
        for number, text in enumerate(criteria_of(sections), 1)
    ]


def _answer(observation: dict[str, Any]) -> str:
    """Return the beginning of the written text, as far as the observation shows it, from its first statement on."""
    previews = observation.get("previews", ())
    snippet = next((str(preview["snippet"]) for preview in previews if preview.get("snippet")), "")
    lines = [line for line in snippet.split("\n") if not line.startswith("# ") and not _COVERED.search(line)]
    while lines and not lines[0].strip():
        lines.pop(0)
    statements = [line for line in lines if line.strip() and not line.startswith("#")]
    if snippet.endswith("…") and len(statements) > 1:
        lines.pop()  # cut in its middle; what stands before it is whole
    label = observation.get("resultLabel", "")
    cut = label and snippet.endswith("…")  # and so is the signature at its end
    more = f"\n\nThe whole text stands in {label}.\n\n---\n{SIGNATURE}" if cut else ""
    return "\n".join(lines).strip() + more


def _review(sections: dict[str, str]) -> str:
    """Success when something was written and no criterion is open; there is no second way to try."""
    history = sections.get("Results, newest first", "")
    tried = _STEP.findall(history)
    draft = sections.get("Draft answer", "").strip()
    checks: list[dict[str, Any]] = []
    if not draft:  # of a plan, whose steps are not refined one by one
        draft, checks = _drafted(sections, tried)
    met = {check["criterion"] for check in checks if check["met"]}
    open_criteria = re.findall(r"(?m)^- \[open\] (.*)$", sections.get("Success criteria", ""))
    open_criteria = [text for text in open_criteria if text not in met]
    written = any(outcome == "ok" and tool != EXTRACT for tool, outcome in tried)
    judged = {"criteria": checks} if checks else {}
    if open_criteria and (written or not draft):
        missing = "; ".join(open_criteria)
        answer = f"{draft}\n\nNo evidence was found in the documents for: {missing}".strip()
        return _dumps(status="failed", improvements=[], answer=answer, **judged)
    if written:
        return _dumps(status="success", improvements=[], answer=draft, **judged)
    if any(outcome == "ok" for _, outcome in tried):
        return _dumps(status="retry", improvements=["write the answer from the extracted text"], answer=draft)
    return _dumps(
        status="failed", improvements=[], answer=draft or "Nothing could be written from the documents."
    )


def _drafted(sections: dict[str, str], tried: list[tuple[str, str]]) -> tuple[str, list[dict[str, Any]]]:
    """Return the answer that the last step of a plan left, with its criteria; else why its first one failed."""
    observation = _observation(sections)
    if observation.get("success") and tried and tried[0][0] in (PROCESS, REPORT):
        return _answer(observation), _checks(sections, observation)
    if tried and tried[-1] == (EXTRACT, "failed"):
        summaries = re.findall(r"(?m)^  Summary: (.*)$", sections.get("Results, newest first", ""))
        return f"The documents could not be read: {summaries[-1].removeprefix('tool_error: ')}", []
    return "", []


def _write(sections: dict[str, str], documents: list[tuple[str, str]]) -> str:
    """Write a text from the fenced documents (name and text)."""
    from .extractive import Source, write

    instructions = sections.get("Instructions", "")
    criteria = re.findall(r"(?m)^Criterion \d+: (.*)$", instructions)
    read = [(name, *without_note(text)) for name, text in documents]
    sources = [Source(name, text.rstrip("\n"), whole) for name, text, whole in read]
    request = sections.get("Request", "").strip()
    written = write(
        request,
        sources,
        criteria=criteria,
        language=sections.get("Language", "en").strip() or "en",
        instructions="" if criteria else instructions,
    )
    form = sections.get("Format", "md").strip()
    if form == "json":
        findings = [
            {"text": item.text, "source": item.source, "heading": item.heading} for item in written.findings
        ]
        return json.dumps({"request": request, "findings": findings}, ensure_ascii=False, indent=2)
    text = written.text.strip()
    if criteria:
        met = ", ".join(str(number) for number, ok in enumerate(written.covered, 1) if ok) or "none"
        text = f"*Success criteria with evidence: {met} of {len(criteria)}*\n\n{text}"
    return f"{text}\n\n---\n{SIGNATURE}\n"
