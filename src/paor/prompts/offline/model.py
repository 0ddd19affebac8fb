"""
OfflineModel: a deterministic planner and extractive writer without any language model.

It answers the same prompts as every model: extract, process, report, one by one or as one plan. It writes by quoting the
documents (`writer`), judges criteria by the evidence that it found, and stops. It invents nothing, and every text says who
wrote it.
"""

import json
import re
from collections.abc import Callable
from textwrap import shorten
from typing import Any, Final

from ..building.fencing import without_note
from ..model import ModelCall, ModelUnavailable, Reply
from .reading import Brief, DoneStep, read_brief

EXTRACT, PROCESS, REPORT = "document.extract", "ai.process", "document.generateReport"
SIGNATURE: Final = (
    "*Selected from the documents by paor's offline model: quoted sentences, no language model.*"
)
NO_DOCUMENTS: Final = (
    "I am paor's offline model: I answer from documents only, and this run has none that I can read. "
    "Give documents (--document FILE), in a prompt that names them if the template is your own, or use a language model."
)
NO_TOOLS: Final = (
    f"I am paor's offline model: I work with {EXTRACT} and {PROCESS}, and this run offers neither."
)
_REASONS: Final = {
    EXTRACT: "read the text of the given documents",
    PROCESS: "write the answer from the extracted text",
    REPORT: "put the answer into a report",
}
_PARAMETER: Final = {PROCESS: "customInstructions", REPORT: "title"}
_COVERED = re.compile(r"\*Success criteria with evidence: ([0-9, ]+|none) of (\d+)\*")
_WHOLE_CHARS: Final = 500
"""Longest text that is an answer as it is; of a longer one the answer is the beginning."""
_BEGINNING_CHARS: Final = 350
"""Length of such a beginning; its first statement is kept whole."""


class OfflineModel:
    """The embedded default model; no key, no network, the same answer every time."""

    name = "offline"
    completion_review = "model"
    """Its review costs nothing, and knows better than its draft whether something was written."""
    calls_tools = False
    quotes_only = True
    """It can write no JSON of a host's own form, and works with the built-in tools, which it is offered in every run."""

    def ask(self, call: ModelCall) -> Reply:
        """Answer as `Model.ask` says: selections, parameters, refinements, reviews, plans, turns, texts; no other kind."""
        if call.kind not in _REPLIES:
            raise ModelUnavailable("bad_request", f"the offline model cannot answer {call.kind} requests")
        reply = _REPLIES[call.kind](read_brief(call))
        return Reply(reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same as `ask`; short enough to run on the event loop."""
        return self.ask(call)


def _todo(brief: Brief) -> list[str] | str:
    """Return which of extract, process, report are left to do; if none, the answer."""
    done, failed = brief.done, {step.tool: step.text for step in brief.steps if not step.ok}
    if not brief.inputs:
        return NO_DOCUMENTS
    if not {EXTRACT, PROCESS} & brief.offered.keys():
        return NO_TOOLS
    if EXTRACT in failed.keys() - done:
        return f"The documents could not be read: {failed[EXTRACT] or 'no details'}"
    left = [tool for tool in _REASONS if tool in brief.offered and tool not in done | failed.keys()]
    if REPORT in left and ("Final formatting" in brief.sections or PROCESS not in {*left, *done}):
        left.remove(REPORT)  # a report is made only of a text, and only if the run makes none itself
    told = (step.text for step in brief.steps[::-1] if step.ok)
    return left or next(told, "The documents were read; there is nothing more to do.")


def _value(tool: str, brief: Brief) -> str:
    """Return the one parameter of *tool* besides its documents; what to write is the run's objective."""
    if tool == PROCESS:
        return "\n".join(f"Criterion {number}: {text}" for number, text in enumerate(brief.criteria(), 1))
    return shorten(brief.sections.get("Objective", ""), 90, placeholder="...") if tool == REPORT else ""


def _select(brief: Brief) -> dict[str, Any]:
    """Choose the next action."""
    todo = _todo(brief)
    if isinstance(todo, str):
        return {"action": None, "answer": todo}
    tool, action = todo[0], todo[0]
    field = {"name": _PARAMETER.get(tool), "type": "string", "required": False, "description": "as prepared"}
    in_parts = '"method":' in brief.sections.get("Reply", "")
    return {
        "action": dict(zip(("method", "name"), tool.split(".", 1), strict=True)) if in_parts else action,
        "actionObjective": _REASONS[tool],
        "learnings": [],
        "requiredInputDocuments": brief.inputs if tool == EXTRACT else brief.newest,
        "requiredConnection": None,
        "parametersContext": _value(tool, brief),
        "parametersSchema": {"fields": [field] if tool in _PARAMETER else []},
    }


def _parameters(brief: Brief) -> dict[str, Any]:
    """Fill what the selection prepared in the parameters context; everything else keeps its default."""
    action, context = (
        brief.sections.get(name, "").strip() for name in ("Selected action", "Parameters context")
    )
    name = _PARAMETER.get(action)
    return {"schema": "parameters_v1", "parameters": {name: context} if name and context else {}}


def _plan(brief: Brief) -> dict[str, Any]:
    """Return a plan of what has not been done yet, a plan of nothing when there is nothing left, or why there is none."""
    todo, steps, current = _todo(brief), list[dict[str, Any]](), brief.newest
    if isinstance(todo, str):
        return {"intention": "", "steps": []} | ({} if brief.steps else {"answer": todo})
    for tool in todo:
        value = _value(tool, brief)
        args = {"documentList": current} | ({_PARAMETER[tool]: value} if value else {})
        steps.append({"type": "tool", "name": tool, "args": args, "reason": _REASONS[tool]})
        made = f"{brief.inputs[0].partition('_action')[0]}_action{len(brief.steps) + len(steps)}_text"
        current = [made]  # the label that the step's document will have
    return {"intention": "answer from the documents", "steps": steps}


def _tasks(brief: Brief) -> dict[str, Any]:
    """Return the whole objective as one brief: dividing it takes a language model."""
    objective = brief.sections.get("Objective", "")
    one = {"id": "task_1", "objective": objective, "success_criteria": brief.criteria(), "dependencies": []}
    return {"overview": "one task", "tasks": [one]}


def _turn(brief: Brief) -> dict[str, Any] | str:
    """Call extract, then process; then answer with what the last one returned."""
    todo = _todo(brief)
    if isinstance(todo, str):
        return todo
    if todo[0] == REPORT or not brief.may_call or (brief.steps and not brief.steps[-1].ok):
        return brief.steps[-1].text if brief.steps else ""
    value = _value(todo[0], brief)
    arguments = {"documentList": brief.newest} | ({_PARAMETER[todo[0]]: value} if value else {})
    return {"text": "", "calls": [{"id": "", "name": brief.offered[todo[0]], "arguments": arguments}]}


def _refine(brief: Brief) -> dict[str, Any]:
    """Stop after the last action that is useful here; say which criteria the written text holds evidence for."""
    last = brief.steps[-1] if brief.steps else DoneStep("", ok=False)
    reply: dict[str, Any] = {"decision": "continue"}
    if not last.ok:
        reply["reason"] = f"{last.tool} failed: {last.text or 'no details'}"
    elif last.tool == EXTRACT:
        reply["reason"] = "the documents are read, the answer is not written yet"
        reply["hint"] = _REASONS[PROCESS]
    elif last.tool == PROCESS and "Final formatting" not in brief.sections:
        reply["reason"] = "the answer is written, the report is not"
        reply |= {"hint": _REASONS[REPORT], "answer": _answer(last)}
    else:
        reply = {"decision": "stop", "reason": "the result is written", "answer": _answer(last)}
    # Texts of other tools are the documents' own: they prove nothing about criteria.
    checks = _checks(brief, last.text) if last.ok and last.tool == PROCESS else []
    return reply | {"criteria": checks}


def _review(brief: Brief) -> dict[str, Any]:
    """Success when something was written and no criterion is open; there is no second way to try."""
    last = brief.steps[-1] if brief.steps else DoneStep("", ok=False)
    draft, checks = _COVERED.sub("", brief.draft).strip(), _checks(brief, brief.draft)
    if not draft and last.ok and last.tool in (PROCESS, REPORT):  # of a plan, whose steps are not refined
        draft, checks = _answer(last), _checks(brief, last.text)
    elif not draft and len(brief.steps) == 1 and last.tool == EXTRACT:
        draft = f"The documents could not be read: {last.text}"
    met = {check["criterion"] for check in checks if check["met"]}
    missing = "; ".join(text for text in brief.criteria("open") if text not in met)
    written = bool(brief.done - {EXTRACT})
    reply: dict[str, Any] = {"status": "failed", "improvements": [], "answer": draft}
    if missing and (written or not draft):
        reply["answer"] = f"{draft}\n\nNo evidence was found in the documents for: {missing}".strip()
    elif written:
        reply["status"] = "success"
    elif brief.done:
        reply |= {"status": "retry", "improvements": [_REASONS[PROCESS]]}
    elif not draft:
        reply["answer"] = "Nothing could be written from the documents."
    return reply | ({"criteria": checks} if checks else {})


def _checks(brief: Brief, text: str) -> list[dict[str, Any]]:
    """Return each criterion with whether *text*, which the writer made, says that it has evidence for it."""
    if (found := _COVERED.search(text)) is None:
        return []
    met = set(re.findall(r"\d+", found[1]))
    return [
        {"criterion": text, "met": str(number) in met, "evidence": "evidence in the written text"}
        for number, text in enumerate(brief.criteria(), 1)
    ]


def _answer(step: DoneStep) -> str:
    """Return the text that *step* wrote, without title and marks; of a long one the beginning, and where the rest is."""
    lines = [line for line in step.text.split("\n") if not (line.startswith("# ") or _COVERED.search(line))]
    text = "\n".join(lines).strip()
    if len(step.text) <= _WHOLE_CHARS and not text.endswith("…"):
        return text
    body, signed, _ = text.partition("\n---\n")
    lines = body.split("\n")
    kept, size = list[str](), 0
    for line in lines if signed else lines[:-1]:  # unsigned, the last line is cut
        size += len(line) + 1
        if size > _BEGINNING_CHARS and any(one and one[0] != "#" for one in kept):
            break
        kept.append(line)
    while kept and (not kept[-1] or kept[-1][0] == "#"):
        kept.pop()
    shown = "\n".join(kept) or body
    # The signature at the end is cut, too: the answer has to say by itself who wrote it.
    return f"{shown}\n\nThe whole text stands in {step.label}.\n\n---\n{SIGNATURE}" if step.label else shown


def _text(brief: Brief) -> str:
    """Write the text that a tool asks for."""
    from .corpus import Source
    from .writer import write  # on the first text: the patterns take time to compile

    request, criteria = brief.sections.get("Request", "").strip(), brief.sections.get("Instructions", "")
    wanted = re.findall(r"(?m)^Criterion \d+: (.*)$", criteria)
    read = ((name, *without_note(text)) for name, text in brief.documents)
    sources = [Source(name, text.rstrip("\n"), whole) for name, text, whole in read]
    written = write(request, sources, criteria=wanted)
    if brief.sections.get("Format", "md").strip() == "json":
        findings = [finding._asdict() for finding in written.findings]
        return json.dumps({"request": request, "findings": findings}, ensure_ascii=False, indent=2)
    text = written.text.strip()
    if wanted:
        met = ", ".join(str(number) for number, ok in enumerate(written.covered, 1) if ok) or "none"
        text = f"*Success criteria with evidence: {met} of {len(wanted)}*\n\n{text}"
    return f"{text}\n\n---\n{SIGNATURE}\n"


_REPLIES: Final[dict[str, Callable[[Brief], dict[str, Any] | str]]] = {
    "plan": _plan,
    "selection": _select,
    "parameters": _parameters,
    "refinement": _refine,
    "review": _review,
    "task_plan": _tasks,
    "turn": _turn,
    "text": _text,
}
"""How each kind of request is answered."""
