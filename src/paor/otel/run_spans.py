"""
From rows to spans: the fold that gives a run's spans, one row after the other.

A row ends what was asked for before it: a request to a model, a call of a tool, a wait for a person. So a span is over with a row, and
everything in it comes from the rows up to that one: whoever folds the same rows gets the same spans, live or years later. What a crash
interrupted is not in the rows, and so it is in no span; a call that was begun again is one call.

Times are those of the rows, never going back. A request begins as much earlier than its row as the row has active time (``time_us``);
a call begins with the row of its intent, a wait with the row that asks, the run when it was created. Rows that a fork shares give spans
of its parent only; what they leave open begins in the fork when the fork was created.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..fsm.explain.calls import change_of, decision_words
from ..fsm.explain.story import RowReader, StoryRow, spec_of
from ..fsm.journal.prompts import Known, prompt_places, told_messages, with_summary
from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import RunRow, Transition
from ..fsm.replay.callers import caller_of, outermost
from ..states.run.phase_names import EXECUTING, FAILED, FINAL
from ..states.run.spec import Spec
from ..states.run.state import Change
from .content import Cleaner, PayloadTexts, compact, messages, roles_of
from .span import (
    Kind,
    Link,
    Span,
    SpanEvent,
    Value,
    content_names,
    conventions,
    keys,
    limit,
    model_names,
    span_id_of,
    trace_id_of,
)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """
    A run before its rows.

    Attributes:
        row: The run.
        trace_id: Of the trace that it belongs to.
        parent_id: Of a workflow's task the span of the call that started it, else None.
        spec: What it was started with; None once erased.
        forked: Of a fork the run and the number of the last row that it shares, with that run's trace; else None.
        replaces: The run that failed and that it was started instead of, with that run's trace; else None.
    """

    row: RunRow
    trace_id: str
    parent_id: str | None
    spec: Spec | None = field(repr=False)
    forked: tuple[str, int, str] | None = None
    replaces: tuple[str, str] | None = None


def facts_of(reader: JournalReader, row: RunRow) -> RunFacts:
    """
    Return what the spans of a run need beside its rows; none of it changes while the run goes on.

    Raises:
        JournalDamaged: It cannot be read.
    """
    spec = spec_of(reader, row.run_id)
    forked = replaces = None
    if row.parent_run_id is not None and row.parent_seq is not None:
        parent = reader.run(row.parent_run_id)
        forked = parent.run_id, row.parent_seq, trace_of_row(reader, parent)
    elif spec is not None and spec.fallback_for:
        replaces = spec.fallback_for, trace_of_row(reader, row)
    return RunFacts(
        row,
        trace_of_row(reader, row),
        _calling_span(reader, row),
        spec,
        forked,
        replaces,
    )


def _calling_span(reader: JournalReader, row: RunRow) -> str | None:
    """Return the span of the call that started a run: its intent is there before the run is."""
    caller = caller_of(reader, row)
    if caller is None:
        return None
    wanted = row.called_by.action if row.called_by is not None else row.task
    for seq, dest, action in reader.columns(caller.run, ("seq", "dest", "action"), ("specify",)):
        if dest == EXECUTING and action == wanted:
            return span_id_of(caller.run_id, seq, "tool")
    return None


def trace_of_row(reader: JournalReader, row: RunRow) -> str:
    """Return the trace that a run belongs to: of one that was called that of its caller."""
    first = outermost(reader, row)
    return trace_id_of(first.workflow_id, first.round)


AGENT_SEQ = -1
"""Row number in the id of a run's own span."""

_WAITS = {
    "approval_needed": "approval",
    "argument_missing": "parameter",
    "in_doubt": "in_doubt",
    "input_required": "tool",
    "elicitation_requested": "planner",
}
"""What a run waits for, by the guard that made it wait; anything else is a question of a phase of the host's own."""

_USAGE = ("tokens_in", "tokens_out", "tokens_cached", "tokens_cache_write", "tokens_reasoning")


@dataclass(slots=True)
class _Open:
    """A span that is not over."""

    kind: Kind
    seq: int
    start: int
    parent: str | None
    target: str = ""
    found: dict[str, Any] = field(default_factory=dict)
    events: deque[SpanEvent] = field(default_factory=lambda: deque(maxlen=limit("events")))
    links: list[Link] = field(default_factory=list)
    taken: int = 0

    def add(self, events: list[SpanEvent]) -> None:
        """Take *events*, which nobody else has then; the oldest are left out where there are too many."""
        self.events.extend(events)
        self.taken += len(events)
        events.clear()


class RunSpans:
    """
    The spans of one run.

    Args:
        run: What is known of it beside its rows.
        content: Whether texts are exported.
        cleaner: What every text goes through.
    """

    def __init__(self, run: RunFacts, *, content: bool, cleaner: Cleaner) -> None:
        self.run = run
        self.next_seq = 0
        self._content = content
        self._cleaner = cleaner
        self._rows: RowReader | None = None
        self._before: Transition | None = None
        self._now = run.row.created_at
        self._begun = False
        self._agent = _Open("agent", AGENT_SEQ, run.row.created_at, run.parent_id)
        self._call: _Open | None = None
        self._wait: _Open | None = None
        self._resumed: list[Link] = []
        self._prompts: Known = {}
        self._used = dict.fromkeys(_USAGE[:2], 0)

    def take(self, row: Transition, reader: JournalReader) -> list[Span]:
        """
        Return the spans of this run that are over with *row*, its next one; rows that a fork shares give none.

        Raises:
            JournalDamaged, ValueError, TypeError, LookupError, AttributeError: A row that cannot be read.
        """
        if self._rows is None:
            self._rows = RowReader(reader)
        self._rows.reader, change = reader, change_of(reader, row)
        told = self._rows.add(row, change)
        own, texts = row.run == self.run.row.run, PayloadTexts(reader, self.run.row.run, self._cleaner)
        if own and not self._begun:
            self._begin()
        earlier, self._now = self._now, max(self._now, row.at) if own else self._now
        spans = list(self._spans(row, told, change, earlier, texts, own=own))
        self._before, self.next_seq = row, row.seq + 1
        return spans if own else []

    def _begin(self) -> None:
        """Begin with the run's own rows; what a fork has taken over open began with it, and follows from nothing of its own."""
        self._begun = True
        for open_ in (self._call, self._wait):
            if open_ is not None:
                open_.links.clear()
        self._resumed = []
        self._used = dict.fromkeys(self._used, 0)
        if self.run.forked is not None:
            run_id, seq, trace_id = self.run.forked
            kind, place = self._place_of_last()
            self._agent.links.append(_link("forked", trace_id, run_id, place, kind, seq))
        if self.run.replaces is not None:
            run_id, trace_id = self.run.replaces
            self._agent.links.append(_link("replaces", trace_id, run_id, AGENT_SEQ, "agent"))

    def _place_of_last(self) -> tuple[Kind, int]:
        """Return kind and row of the parent's span that a shared last row is in."""
        row = self._before
        if self._wait is not None:
            return "wait", self._wait.seq
        if self._call is not None:
            return "tool", self._call.seq
        if row is not None and _asks_model(row):
            return "model", row.seq
        return "agent", AGENT_SEQ

    # -- one row -------------------------------------------------------------------------------------------------------

    def _spans(
        self, row: Transition, told: StoryRow, change: Change, earlier: int, texts: PayloadTexts, *, own: bool
    ) -> Iterator[Span]:
        events = [self._event(row, told)] if own else []
        begun = max(earlier, self._now - max(0, told.time_us))  # as long before its row as that was worked on
        if self._wait is not None:
            wait, self._wait = self._wait, None
            wait.add(events)
            yield self._waited(wait, row, change, texts)
        for asked in filter(_asks_model, with_summary(row)):
            request = self._request(asked, begun, texts)
            request.add(events if asked.request["kind"] != "summary" else [])
            yield self._over(request, asked)
        if self._call is not None:
            if (inner := self._tool_request(row, begun, texts)) is not None:
                yield self._over(inner, row)
            self._call.add(events)
            if row.dest != EXECUTING:
                call, self._call = self._call, None
                yield self._called(call, row, change, texts)
        elif row.dest == EXECUTING != row.source:
            self._call = self._begin_call(row, change, texts)
        if row.trigger == "wait":
            self._wait = self._begin_wait(row)
            self._wait.add(events)
        self._agent.add(events)
        if row.dest in FINAL:
            yield self._ended(row, change)

    def _event(self, row: Transition, told: StoryRow) -> SpanEvent:
        found = {
            "row": told.seq,
            "trigger": told.trigger,
            "source": told.source,
            "dest": told.dest,
            "guards": told.taken,
            "stop": row.outcome.get("stop"),
            "duplicate": row.outcome.get("duplicate"),
        }
        name = conventions()["events"]["transition"]["name"]
        return SpanEvent(name, _nanoseconds(self._now), self._attributes(found))

    def _request(self, row: Transition, begun: int, texts: PayloadTexts) -> _Open:
        """Return the request to a model that *row* ends."""
        outcome, kind = row.outcome, row.outcome["kind"]
        span = _Open("model", row.seq, begun, self._agent_id())
        provider, span.target = model_names(str(row.request["model"]))
        span.links, self._resumed = self._resumed, []
        span.found = {"provider": provider, "model": span.target, "request": row.request["kind"]}
        span.found |= {"attempt": row.request.get("attempt"), "requests": _requests(row)}
        span.found |= {"response_id": outcome.get("request_id"), "invalid": outcome.get("invalid")}
        if kind == "reply":
            span.found["finish_reasons"] = (str(outcome.get("finish", "stop")),)
        else:
            span.found["error"] = outcome.get("code", kind)
        self._count(span, outcome)
        if self._content:
            self._add_prompt(span, row, texts)
        return span

    def _add_prompt(self, span: _Open, row: Transition, texts: PayloadTexts) -> None:
        """Add prompt and reply, as far as they are not erased."""
        before = self._prompts if row.request["kind"] != "summary" else None
        places = prompt_places(texts.rows(row), row, before)
        told = list(told_messages(places, lambda found: texts.body(found.place)))
        said = [None if text is None else self._cleaner.content(text) for _, text in told]
        system, rest = (said[:1], said[1:]) if len(said) > 1 else ([], said)
        if system and system[0] is not None:
            span.found["system"] = compact([{"type": "text", "content": system[0]}])
        known = [role for role, _ in told[len(system) :]]
        roles = known if all(known) else roles_of(str(row.request["kind"]), rest)
        shown = [(role, text) for role, text in zip(roles, rest, strict=True) if text is not None]
        span.found["input"] = messages(shown)
        if (reply := texts.shown(row.outcome.get("reply"))) is not None:
            span.found["output"] = messages([("assistant", reply)], str(row.outcome.get("finish", "stop")))

    def _tool_request(self, row: Transition, begun: int, texts: PayloadTexts) -> _Open | None:
        """Return what the tool itself has asked models for up to *row*, as one request, because the row has their sum."""
        outcome, call = row.outcome, self._call
        used = any(outcome.get(name) for name in (*_USAGE, "cost_micro", "texts", "calls"))
        if not used or call is None or _asks_model(row):
            return None
        if not outcome.get(
            "calls", len(outcome.get("texts", ()))
        ):  # it is what a run that was called has used
            return None
        span = _Open("model", row.seq, begun, self._id(call))
        provider, span.target = model_names(self.run.spec.model if self.run.spec is not None else "")
        span.found = {"provider": provider, "model": span.target or None, "request": "text"}
        span.found["requests"] = outcome.get("calls", len(outcome.get("texts", ())))
        span.found["request_ids"] = tuple(map(str, outcome.get("request_ids", ())))
        self._count(span, outcome)
        if self._content and (pairs := outcome.get("texts")):
            prompts = [text for prompt, _ in pairs if (text := texts.shown(prompt)) is not None]
            replies = [text for _, reply in pairs if (text := texts.shown(reply)) is not None]
            span.found["input"] = messages([("user", text) for text in prompts])
            span.found["output"] = messages([("assistant", text) for text in replies], "stop")
        return span

    def _count(self, span: _Open, outcome: Mapping[str, Any]) -> None:
        for name in _USAGE:
            least = 0 if name in self._used else None
            span.found[name] = outcome.get(name) or least
        for name in self._used:
            self._used[name] += span.found[name]
        span.found["cost"] = outcome.get("cost_micro") or None

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _begin_call(self, row: Transition, change: Change, texts: PayloadTexts) -> _Open:
        """Begin the call whose intent *row* is."""
        call = _Open("tool", row.seq, self._now, self._agent_id())
        call.found = {
            "call_id": f"{texts.owner(row.run)}-{row.action}",
            "first_row": row.seq,
            "tool_type": "function",
        }
        if intent := change.intent:
            call.target = intent.tool
            call.found |= {"effect": intent.effect, "label": intent.label}
            if self._content:
                call.found["arguments"] = compact(self._cleaner.data(intent.arguments))
        call.links, self._resumed = self._resumed, []
        return call

    def _called(self, call: _Open, row: Transition, change: Change, texts: PayloadTexts) -> Span:
        """End a call."""
        outcome = row.outcome
        call.target = str(row.request.get("tool") or call.target or "unknown")
        call.found |= {"tool": call.target, "ok": bool(outcome.get("ok"))}
        for name in ("label", "documents", "reconciled"):
            call.found[name] = outcome.get(name, call.found.get(name))
        call.found["effect"] = row.request.get("effect", call.found.get("effect"))
        if not outcome.get("ok"):
            call.found["error"] = (
                "in_doubt" if outcome.get("in_doubt") else outcome.get("error") or outcome["kind"]
            )
        if self._content:
            error = change.result.error if change.result else None
            shown = texts.shown(outcome.get("output"))
            call.found["result"] = self._cleaner.content(error) if error else shown
        return self._over(call, row)

    # -- waits ---------------------------------------------------------------------------------------------------------

    def _begin_wait(self, row: Transition) -> _Open:
        """Begin to wait for the answer to what *row* asks."""
        parent = self._agent_id() if self._call is None else self._id(self._call)
        wait = _Open("wait", row.seq, self._now, parent)
        held = {name for name, value in row.guards.items() if value}
        wait.target = next((kind for guard, kind in _WAITS.items() if guard in held), "phase")
        if row.outcome["kind"] == "in_doubt" and self._call is not None:
            self._call.found["doubt"] = row.outcome.get("why") or "driver_lost"
        wait.found = {"wait": wait.target, "first_row": row.seq, "asked": row}
        wait.links, self._resumed = self._resumed, []
        return wait

    def _waited(self, wait: _Open, row: Transition, change: Change, texts: PayloadTexts) -> Span:
        """End a wait; what comes next is linked to it."""
        answered = row.outcome["kind"] == "answer"
        wait.found["answer"] = row.outcome.get("action") if answered else row.outcome["kind"]
        asked = wait.found.pop("asked")
        if answered:
            link = _link("resumed", self.run.trace_id, self.run.row.run_id, wait.seq, "wait")
            (self._resumed if self._call is None else self._call.links).append(link)
        if self._content:
            question = change_of(texts.reader, asked).question  # which may have been erased meanwhile
            wait.found["question"] = self._cleaner.content(question.message) if question else None
            if reply := change.reply:
                wait.found["actor"] = self._cleaner.content(reply.actor) if reply.actor else None
                told = {"decision": decision_words(reply), "content": reply.content, "reason": reply.reason}
                wait.found["answer_text"] = compact(self._cleaner.data(told))
        return self._over(wait, row)

    # -- the run -------------------------------------------------------------------------------------------------------

    def _ended(self, row: Transition, change: Change) -> Span:
        """End the run's own span."""
        run, agent, spec = self.run, self._agent, self.run.spec
        agent.target = conventions()["agent"]
        agent.links, self._resumed = [*agent.links, *self._resumed], []
        reason = row.counters.get("stop")
        agent.found = {"agent_name": agent.target, **self._used, "state": row.dest, "reason": reason}
        agent.found |= {"rows": row.seq + 1, "head": row.hash, "active": row.time_us, "cost": row.cost_micro}
        agent.found |= {"round": run.row.round, "task": run.row.task, "steps": row.step}
        agent.found["error"] = (reason or "failed") if row.dest == FAILED else None
        if spec is not None:
            agent.found["provider"], agent.found["model"] = model_names(spec.model)
            agent.found |= {"mode": spec.mode, "max_steps": spec.limits.max_steps}
            agent.found |= {"token_budget": spec.limits.token_budget, "cost_budget": spec.limits.cost_budget}
            agent.found["time_budget"] = spec.limits.time_budget_s
        if self._content:
            if spec is not None:
                agent.found["input"] = messages([("user", self._cleaner.content(spec.objective))])
            if change.answer:
                agent.found["output"] = messages(
                    [("assistant", self._cleaner.content(change.answer))], "stop"
                )
        return self._over(agent, row)

    # -- spans ---------------------------------------------------------------------------------------------------------

    def _over(self, span: _Open, row: Transition) -> Span:
        """Return an open span as it is once *row* has ended it."""
        named = conventions()["spans"][span.kind]
        found = {
            "run": self.run.row.run_id,
            "conversation": (self.run.spec and self.run.spec.conversation) or self.run.row.workflow_id,
            "row": row.seq,
            **span.found,
        }
        if span.kind != "wait":
            found["operation"] = named["name"]
        start = min(span.start, self._now)
        return Span(
            self.run.trace_id,
            self._id(span),
            span.parent,
            self._cleaner.name(f"{named['name']} {span.target}".strip()),
            named["kind"],
            _nanoseconds(start),
            _nanoseconds(self._now),
            self._attributes(found),
            tuple(span.events),
            tuple(span.links),
            found.get("error") is not None,
            span.taken - len(span.events),
        )

    def _id(self, span: _Open) -> str:
        asked = span.found.get("request")
        kind = asked if asked in ("text", "summary") else span.kind
        return span_id_of(self.run.row.run_id, span.seq, kind)

    def _agent_id(self) -> str:
        return span_id_of(self.run.row.run_id, AGENT_SEQ, "agent")

    def _attributes(self, found: Mapping[str, Any]) -> dict[str, Value]:
        """Return what is known under the keys of the conventions, sorted by key."""
        known, contents = keys(), content_names()
        named: dict[str, Value] = {}
        for name, value in found.items():
            if isinstance(value, str):
                named[known[name]] = value if name in contents else self._cleaner.name(value)
            elif isinstance(value, tuple):
                if value:
                    named[known[name]] = tuple(self._cleaner.name(str(item)) for item in value)
            elif isinstance(value, bool | float):
                named[known[name]] = value
            elif isinstance(value, int):
                named[known[name]] = max(-(2**63), min(value, 2**63 - 1))
            elif value is not None:
                named[known[name]] = self._cleaner.name(str(value))
        return {key: named[key] for key in sorted(named)}


def _asks_model(row: Transition) -> bool:
    """Whether a row ends a request that was made to a model."""
    return "model" in row.request and row.outcome.get("kind") != "unaffordable"


def _requests(row: Transition) -> int:
    """Return how many requests to a model a row stands for, failed attempts included."""
    outcome = row.outcome
    return int(outcome.get("calls", outcome.get("attempts", 1)) or 1)


def _link(how: str, trace_id: str, run_id: str, seq: int, kind: str, row: int | None = None) -> Link:
    """Return a link to the span of a run that stands for *kind* at row *seq*."""
    known, place = keys(), seq if row is None else row
    attributes: dict[str, Value] = {known["link"]: conventions()["links"][how]["value"], known["run"]: run_id}
    if place >= 0:
        attributes[known["row"]] = place
    return Link(trace_id, span_id_of(run_id, seq, kind), attributes)


def _nanoseconds(at: int) -> int:
    """Return microseconds since the epoch as nanoseconds that a trace can hold; a damaged journal may have any number."""
    return max(0, min(at, (2**63 - 1) // 1000)) * 1000
