"""The rows of a run as `paor show` shows them: the request, the outcome, and the guard that decided."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...fsm.explain.calls import decision_words
from ...fsm.explain.thoughts import thought_in
from ...fsm.journal.prompts import MessagePlace, prompt_places
from ...fsm.journal.reader import JournalReader
from ...fsm.journal.rows import Transition
from ...fsm.journal_api import Journal
from ...fsm.machine.table import ROWS, Row
from ...prompts.clients.settings import environment_secrets
from ...states.base.errors import Erased, JournalDamaged
from ...states.base.secrets import Scrubber
from ...states.records.visits import Visit
from ...states.run.phase_names import PHASES, PLANNING, REVIEWING, SPECIFYING
from .run_summary import change_of
from .text import NARROW, SLIM, Cell, Column, arrow, count, cut, duration, harmless, one_line, styled, width


@dataclass(frozen=True, slots=True)
class RowTexts:
    """
    What was said to a model in one row and what it said.

    Attributes:
        prompt: The messages, None for one that was erased.
        before: Those of the last row that asked for the same; empty for the first.
        reply: None without one, or once it was erased.
        replied: Whether there was one.
        roles: Who speaks in each message, where the row says it.
        thought: What the model has thought before its reply, as far as its provider has given it.
    """

    prompt: tuple[str | None, ...] = ()
    before: tuple[str | None, ...] = ()
    reply: str | None = None
    replied: bool = False
    roles: tuple[str, ...] = ()
    thought: str = ""

    def wire(self) -> dict[str, Any]:
        """Return the JSON form: the texts."""
        told: dict[str, Any] = {"roles": list(self.roles)} if any(self.roles) else {}
        told |= {"thought": self.thought} if self.thought else {}
        return {"prompt": list(self.prompt), "reply": self.reply} | told

    def lines(self) -> Iterator[str]:
        """Yield the texts for people: keys of the environment taken out, new lines of a prompt marked."""
        scrub = Scrubber(environment_secrets())
        for number, text in enumerate(self.prompt, 1):
            of = f" {number} of {len(self.prompt)}" if len(self.prompt) > 1 else ""
            who = f", {self.roles[number - 1]}" if any(self.roles) else ""
            yield from ("", styled(f"prompt{of}{who}", "strong"))
            last = self.before[number - 1] if number <= len(self.before) else None
            known = set((last or "").split("\n")) if self.before else None
            for line in harmless(scrub("(erased)" if text is None else text)).split("\n"):
                new = known is not None and line.strip() and line not in known
                yield styled(f"+ {line}", "good") if new else f"  {line}".rstrip()
        if self.thought:
            yield from ("", styled("thought", "strong"))
            yield from (f"  {line}" for line in harmless(scrub(self.thought)).split("\n"))
        if self.replied:
            yield from ("", styled("reply", "strong"))
            said = "(erased)" if self.reply is None else self.reply
            yield from (f"  {line}" for line in harmless(scrub(said)).split("\n"))


def row_texts(journal: Journal, rows: Sequence[Transition], row: Transition) -> RowTexts:
    """Return what was said in *row*, one of *rows*, and in the last prompt of its kind before."""
    places = prompt_places(rows, row)
    prompt, roles = _bodies(journal, places), tuple(place.role for place in places)
    kind = row.request.get("kind")
    earlier = (item for item in reversed(rows[: row.seq]) if item.request.get("kind") == kind)
    last = next(earlier, None) if prompt else None
    place = row.outcome.get("reply")
    reply = _body(journal, row.run, place) if place else None
    before = _bodies(journal, prompt_places(rows, last)) if last else ()
    parts = _body(journal, row.run, row.outcome["parts"]) if "parts" in row.outcome else None
    return RowTexts(prompt, before, reply, bool(place), roles, thought_in(parts))


def _bodies(journal: Journal, places: Sequence[MessagePlace]) -> tuple[str | None, ...]:
    return tuple(_body(journal, found.run, found.place) for found in places)


def _body(journal: Journal, run: int, place: Mapping[str, Any]) -> str | None:
    body = journal.payload(run, place["n"]).body
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else body


def cut_words(outcome: Mapping[str, Any]) -> str:
    """Return what a row has cut of its run's conversation, empty for nothing."""
    told = []
    if shown := outcome.get("shown"):
        told.append(f"shown to the model: {shown[0]:,} of {shown[1]:,} bytes")
    if cut := outcome.get("cut"):
        told.append(f"conversation cut: {count(cut[0], 'message')} left out, {cut[1]:,} shortened")
    if summary := outcome.get("summary"):
        unused = str(summary.get("unused", "")).replace("_", " ")
        told.append(f"summary not used: {unused}" if unused else "summarized by the model")
    return ", ".join(told)


TRIGGER_STYLES = {"finish": "good", "fail": "bad", "wait": "warn"} | dict.fromkeys(
    ("reselect", "withhold", "respecify", "refuse", "retry_step", "reassess", "retry"), "warn"
)


FAULT_CELLS = 200
"""Cells of a model's fault that are shown; the rest is in the journal."""


def row_columns() -> list[Column]:
    """Return the columns of the rows' table; the same widths for every row, since they may come one by one."""
    narrow = width() < NARROW
    return [
        Column("seq", right=True, least=3),
        Column("trigger", least=10),
        Column("to" if narrow else f"from {arrow()} to", least=12 if narrow else 24),
        Column("step", right=True, least=4, from_width=SLIM),
        Column("tokens", right=True, least=6, from_width=SLIM),
        Column("time", right=True, least=6, from_width=SLIM),
        Column("detail", wide=True),
    ]


def row_cells(journal: Journal, row: Transition, before: Transition | None) -> list[Cell]:
    """Return one row of a run as cells; tokens and time are its own, not the run's."""
    tokens = row.tokens_in + row.tokens_out
    time_us = row.time_us
    if before is not None:
        tokens -= before.tokens_in + before.tokens_out
        time_us -= before.time_us
    way = row.dest if width() < NARROW else f"{row.source} {arrow()} {row.dest}"
    return [
        Cell(str(row.seq), "dim"),
        Cell(row.trigger, TRIGGER_STYLES.get(row.trigger, "strong")),
        Cell(way),
        Cell(str(row.step) if row.step else "", "dim"),
        Cell(f"{tokens:,}" if tokens else "", "dim"),
        Cell(duration(time_us / 1e6) if time_us >= 500 else "", "dim"),
        Cell(detail_of(journal, row)),
    ]


def detail_of(journal: Journal, row: Transition) -> str:
    """Return request, outcome and the guard that decided, in a few words."""
    request, outcome = row.request, row.outcome
    kind = str(request.get("kind", "none"))
    parts = [] if kind in ("none", "tool") else [kind]
    if kind in ("selection", "parameters", "turn") or row.trigger in ("specify", "wait", "format", "refuse"):
        change = change_of(journal, row)
        chosen = change.selection or change.intent or change.result
        parts += [chosen.tool + change.ahead_words] if chosen else []
    if request.get("tool"):
        parts.append(str(request["tool"]))
    if request.get("attempt"):
        parts.append(f"attempt {request['attempt'] + 1}")
    parts += [
        f"{name} {outcome[name]}" for name in ("invalid", "error", "stop", "duplicate") if outcome.get(name)
    ]
    if outcome.get("kind") == "fault":
        parts.append(f"fault {outcome.get('code')}{_fault_of(journal, row)}")
    if outcome.get("kind") in ("cancelled", "in_doubt", "asked"):
        parts.append(str(outcome["kind"]).replace("_", " "))
        parts += [str(outcome["why"]).replace("_", " ")] if outcome.get("why") else []
        parts += ["effect in doubt"] if outcome.get("in_doubt") else []
    parts += ["left running"] if outcome.get("left") else []
    if outcome.get("kind") == "unaffordable":
        parts.append(f"not asked, {request.get('reserved')} tokens reserved")
    if outcome.get("reconciled"):
        parts.append(f"reconciled {str(outcome['reconciled']).replace('_', ' ')}")
    if outcome.get("kind") == "answer":
        reply = change_of(journal, row).reply
        why = f": {cut(reply.reason, FAULT_CELLS)}" if reply and reply.reason else ""
        by = f" by {cut(reply.actor, FAULT_CELLS)}" if reply and reply.actor else ""
        said = decision_words(reply) if reply else outcome.get("action")
        parts.append(f"answer {said}{by}{why}")
    if row.trigger == "execute" and outcome.get("ok"):
        parts.append(count(int(outcome.get("documents", 0)), "document"))
    if row.source == REVIEWING and (refinement := change_of(journal, row).refinement):
        parts.append(refinement.words)
    if row.guards.get("review_success") and kind == "none" and not row.counters.get("formatted"):
        parts.append("judged by code")
    parts += [cut_words(outcome)]
    parts += [visit_words(journal, row)] if row.dest not in PHASES or row.source not in PHASES else []
    guards = deciding(row.source, row.trigger, row.dest, row.guards, _table_of(journal.reader, row.run))
    parts = [part for part in parts if part]
    return ", ".join(parts) + (f" [{', '.join(guards)}]" if guards else "")


@lru_cache(maxsize=8)
def _table_of(journal: JournalReader, run: int) -> Sequence[Row]:
    """Return the rows of the machine that the run with this number walks, the standard ones where its spec cannot be read any more."""
    try:
        if not journal.spec(journal.root_columns(run)["run_id"]).host_machine:
            return ROWS
        from ...fsm.replay.machines import (
            machine_of_run,  # with the machine, which the standard rows do without
        )

        machine = machine_of_run(journal, run)
    except (JournalDamaged, Erased):
        return ROWS
    return ROWS if machine is None else machine.rows


def _fault_of(journal: Journal, row: Transition) -> str:
    """Return what the model's fault says, with a colon before; nothing once erased."""
    place = row.outcome.get("message")
    body = journal.payload(row.run, place["n"]).body if isinstance(place, dict) else None
    return f": {cut(body, FAULT_CELLS)}" if isinstance(body, str) and body.strip() else ""


_EXPECTED = frozenset(
    {"select", "answer", "specify", "execute", "observe", "proceed", "conclude", "provide", "format"}
)


_WITHIN = frozenset({"wait", "provide", "call", "observe", "reask"})
"""Rows that a phase of the host's own brings with it; they lead on from nothing."""

_GRANTED = ("action_allowed", "tools_offered")
"""Guards that say no more than that nothing was in the way."""

_LEADING_ON = {
    PLANNING: ("select", "reselect"),
    SPECIFYING: ("specify", "respecify"),
    REVIEWING: ("reassess", "retry", "finish"),
}
"""Rows before the last one of a phase that would have led on; their guards say why it was the last."""


def visit_words(journal: Journal, row: Transition) -> str:
    """Return what a phase of the host's own came to by this row, in a few words; nothing where it is asked anew or not one of those."""
    visit = change_of(journal, row).visit
    if not isinstance(visit, Visit) or visit.phase != row.source:
        return ""
    told = visit.value if isinstance(visit.value, str) else json.dumps(visit.value, ensure_ascii=False)
    by = f" by {cut(visit.actor, FAULT_CELLS)}" if visit.actor else ""
    came = "" if visit.value in (None, "", {}, []) else f": {cut(one_line(told), FAULT_CELLS)}"
    return f"{'succeeded' if visit.ok else 'did not succeed'}{by}{came}"


def deciding(
    source: str, trigger: str, dest: str, guards: Mapping[str, bool], table: Sequence[Row] = ROWS
) -> list[str]:
    """
    Return the guards that explain why a row was taken, as ``NAME`` and ``not NAME``; nothing for the usual way.

    For a row with guards its own, without those that only say that nothing was in the way; for the last row of a phase
    those that kept the rows before from fitting.

    Args:
        source, trigger, dest, guards: Of the row.
        table: Rows of the machine that the run walks.
    """
    own = source not in PHASES or any(
        row.host and (row.source, row.trigger, row.dest) == (source, trigger, dest) for row in table
    )
    if trigger in (_WITHIN if own else _EXPECTED):
        return []
    facts = {name if value else f"not {name}" for name, value in guards.items()}
    for row in table:
        if (row.source, row.trigger, row.dest) == (source, trigger, dest) and facts.issuperset(row.guards):
            if row.guards:
                return [name for name in row.guards if name not in _GRANTED and not name.endswith("_left")]
            break
    rows = [row for row in table if row.source == source and row.is_tried(waits=False)]
    near: tuple[str, ...] = _LEADING_ON.get(source, ())
    if own:
        near = tuple(
            dict.fromkeys(row.trigger for row in rows if row.host and row.trigger not in (*_WITHIN, "fail"))
        )
    if source == REVIEWING and not own:
        near = (
            near[:1] if guards.get("reply_invalid") else near[1:2] if guards.get("review_retry") else near[2:]
        )
    names: dict[str, None] = {}
    for name in near:
        row = next(row for row in rows if row.trigger == name)
        names |= {f"not {guard}": None for guard in row.conditions if guards.get(guard) is False}
        names |= {guard: None for guard in row.unless if guards.get(guard) and not guard.endswith("_ok")}
    return list(names)
