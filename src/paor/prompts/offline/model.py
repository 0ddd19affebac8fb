"""
OfflineModel: a deterministic planner and extractive writer without any language model.

It speaks the same two-stage protocol as every model: it gets the prompts, reads their sections, and answers with JSON. It
plans extract, process, report (`planning`); writes by quoting the documents (`writer`); judges criteria by the evidence that
it found; and stops. It invents nothing, and says what it is in every text that it writes.
"""

import json
import re
from dataclasses import asdict
from typing import Any

from ..building.fencing import DRAFT, without_note
from ..model import ModelCall, ModelUnavailable, Reply
from .planning import (
    EXTRACT,
    PROCESS,
    REPORT,
    SIGNATURE,
    Sections,
    criteria_of,
    dumps,
    last_step,
    parameters_reply,
    plan_reply,
    sections_of,
    selection_reply,
    tasks_reply,
    told_sections,
    tried_in,
    turn_reply,
)

_FENCE = re.compile(r"<<<document (.*)\n((?:.*\n)*?)>>>(?:\n|\Z)")
_COVERED = re.compile(r"\*Success criteria with evidence: ([0-9, ]+|none) of (\d+)\*")
_SHOWN_CHARS = 500
"""Longest text that is an answer as it is; of a longer one the answer is the beginning."""

_ANSWER_CHARS = 350
"""What such an answer shows, its first statement aside."""


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
        answers = {
            "plan": plan_reply,
            "selection": selection_reply,
            "parameters": parameters_reply,
            "refinement": _refine,
            "review": _review,
            "task_plan": tasks_reply,
        }
        if call.kind not in answers and call.kind not in ("text", "turn"):
            raise ModelUnavailable("bad_request", f"the offline model cannot answer {call.kind} requests")
        prompt = "\n".join(message.text for message in call.messages)
        # Fenced texts go first: what looks like a section in a document is none.
        sections, fences = sections_of(_FENCE.sub("", prompt)), _FENCE.findall(prompt)
        sections |= told_sections(call.messages)
        if call.kind == "refinement":
            sections |= last_step(call.messages)
        if call.kind == "turn":
            return Reply(turn_reply(call, sections))
        if call.kind == "text":
            return Reply(_text(sections, fences))
        if drafts := [body for name, body in fences if name == DRAFT]:
            sections["Draft answer"] = drafts[-1]
        return Reply(answers[call.kind](sections))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same as `ask`; short enough to run on the event loop."""
        return self.ask(call)


def _refine(sections: Sections) -> str:
    """Stop after the last action that is useful here; say which criteria the written text holds evidence for."""
    observation = _observation(sections)
    tool = sections.get("Last action", "").partition(":")[0]
    reply: dict[str, Any] = {"decision": "continue"}
    if not observation.get("success"):
        reply["reason"] = f"{tool} failed: {'; '.join(observation.get('notes', ())) or 'no details'}"
    elif tool == EXTRACT:
        reply["reason"] = "the documents are read, the answer is not written yet"
        reply["hint"] = "write the answer from the extracted text"
    elif tool == PROCESS and "Final formatting" not in sections:
        reply["reason"] = "the answer is written, the report is not"
        reply["hint"] = "put the answer into a report"
        reply["answer"] = _answer(observation)
    else:
        reply = {"decision": "stop", "reason": "the result is written", "answer": _answer(observation)}
    # Texts of other tools are the documents' own: what they say of criteria proves nothing.
    return dumps(**reply, criteria=_checks(sections, observation) if tool == PROCESS else [])


def _observation(sections: Sections) -> dict[str, Any]:
    """Return the observation of the last action; nothing if it cannot be read."""
    try:
        data = json.loads(sections.get("Observation") or sections.get("Last observation") or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _checks(sections: Sections, observation: dict[str, Any]) -> list[dict[str, Any]]:
    """Read which criteria the written text says it has evidence for."""
    snippet = "\n".join(preview.get("snippet", "") for preview in observation.get("previews", ()))
    found = _COVERED.search(snippet)
    return _evidence(sections, found) if found is not None and observation.get("success") else []


def _evidence(sections: Sections, found: re.Match[str]) -> list[dict[str, Any]]:
    met = set(re.findall(r"\d+", found.group(1)))
    return [
        {"criterion": text, "met": str(number) in met, "evidence": "evidence in the written text"}
        for number, text in enumerate(criteria_of(sections), 1)
    ]


def _answer(observation: dict[str, Any]) -> str:
    """Return the beginning of the written text, as far as the observation shows it, from its first statement on."""
    previews = observation.get("previews", ())
    snippet = next((str(preview["snippet"]) for preview in previews if preview.get("snippet")), "")
    if len(snippet) > _SHOWN_CHARS:
        snippet = f"{snippet[: _SHOWN_CHARS - 1]}…"
    shown = [line for line in snippet.split("\n") if not (line.startswith("# ") or _COVERED.search(line))]
    text = "\n".join(shown).strip()
    if not snippet.endswith("…"):
        return text
    body, signed, _ = text.partition("\n---\n")
    lines, partial = body.split("\n"), not signed  # then the last line is cut in its middle
    # Less than a snippet has is kept, so that a title above makes no difference.
    while any(line and line[0] != "#" for line in lines[:-1]):
        if not partial and len("\n".join(lines)) <= _ANSWER_CHARS:
            break
        lines.pop()
        partial = False
    text, label = "\n".join(lines).strip(), observation.get("resultLabel", "")
    # The signature at the end is cut, too: the answer has to say by itself what it is.
    return f"{text}\n\nThe whole text stands in {label}.\n\n---\n{SIGNATURE}" if label else text


def _review(sections: Sections) -> str:
    """Success when something was written and no criterion is open; there is no second way to try."""
    tried = tried_in(sections.get("Results, newest first", ""))
    draft = sections.get("Draft answer", "").strip()
    checks: list[dict[str, Any]] = []
    if not draft:  # of a plan, whose steps are not refined one by one
        draft, checks = _drafted(sections, tried)
    elif found := _COVERED.search(draft):  # the answer of a turn, whose calls are not refined either
        draft, checks = draft.replace(found.group(), "").strip(), _evidence(sections, found)
    met = {check["criterion"] for check in checks if check["met"]}
    missing = "; ".join(text for text in criteria_of(sections, marks="open") if text not in met)
    written = any(outcome == "ok" and tool != EXTRACT for tool, outcome in tried)
    status, improvements, answer = "failed", [], draft or "Nothing could be written from the documents."
    if missing and (written or not draft):
        answer = f"{draft}\n\nNo evidence was found in the documents for: {missing}".strip()
    elif written:
        status, answer = "success", draft
    elif any(outcome == "ok" for _, outcome in tried):
        status, improvements, answer = "retry", ["write the answer from the extracted text"], draft
    criteria = {"criteria": checks} if checks else {}
    return dumps(status=status, improvements=improvements, answer=answer, **criteria)


def _drafted(sections: Sections, tried: list[tuple[str, str]]) -> tuple[str, list[dict[str, Any]]]:
    """Return the answer that the last step of a plan left, with its criteria; else why its first one failed."""
    observation = _observation(sections)
    if observation.get("success") and tried and tried[0][0] in (PROCESS, REPORT):
        return _answer(observation), _checks(sections, observation)
    if tried and tried[-1] == (EXTRACT, "failed"):
        summaries = re.findall(r"(?m)^  Summary: (.*)$", sections.get("Results, newest first", ""))
        return f"The documents could not be read: {summaries[-1].removeprefix('tool_error: ')}", []
    return "", []


def _text(sections: Sections, documents: list[tuple[str, str]]) -> str:
    from .corpus import Source
    from .writer import write  # on the first text: the patterns take time to compile

    request = sections.get("Request", "").strip()
    criteria = re.findall(r"(?m)^Criterion \d+: (.*)$", sections.get("Instructions", ""))
    read = ((name, *without_note(text)) for name, text in documents)
    sources = [Source(name, text.rstrip("\n"), whole) for name, text, whole in read]
    written = write(request, sources, criteria=criteria)
    if sections.get("Format", "md").strip() == "json":
        findings = [asdict(finding) for finding in written.findings]
        return json.dumps({"request": request, "findings": findings}, ensure_ascii=False, indent=2)
    text = written.text.strip()
    if criteria:
        met = ", ".join(str(number) for number, ok in enumerate(written.covered, 1) if ok) or "none"
        text = f"*Success criteria with evidence: {met} of {len(criteria)}*\n\n{text}"
    return f"{text}\n\n---\n{SIGNATURE}\n"
