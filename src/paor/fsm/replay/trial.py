"""
A trial: a recorded run derived again with other settings, from its recorded outcomes alone.

While every row is decided as it was recorded, the outcome of the next row is the recorded one; a prompt that differs is noted, and the
recorded reply counts as the reply to it. From the first row that is decided otherwise on, a recorded outcome counts only for the very
request that it was recorded for: the same call, the same prompt, the same question. Where none was recorded, the trial ends there:
what would follow is unknown. Nothing is asked or called. Pure, but for reading the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol

import orjson
from msgspec.structs import replace

from ...prompts.model import prompt_bytes
from ...states.base.errors import ForbiddenRow, HostFunctionError, IllegalEvent, JournalDamaged
from ...states.records.actions import Intent
from ...states.records.outcomes import NoOutcome, Outcome, Recalled, Replied, Unaffordable, Usage
from ...states.records.requests import ModelRequest, Nothing, Recall, Request, ToolRequest
from ...states.run.budgets import reservation, shortage
from ...states.run.phase_names import EXECUTING, FAILED
from ...states.run.spec import Spec
from ...states.run.state import Change, Run
from ..decision.run_resources import RunResources
from ..journal.lineage import SharedPart
from ..journal.payloads import recalled_text
from ..journal.prompts import with_summary
from ..journal.reader import JournalReader, damage_told
from ..journal.rows import RunRow, Transition, transition_of
from ..machine.decide import Moment, decide, machine_of, request_of
from ..machine.fold import applied
from ..machine.properties import Promises, happened
from ..machine.summary import ASKED, after, asking
from ..machine.updates import Decision
from ..versioning.amendments import amend_spec
from .comparison import Divergence, apart, built_prompt, compare_prompt, short, told_tools
from .payload_window import PayloadWindow
from .recorded_outcome import RecordedHost, recorded_host, recorded_outcome
from .restore import checked_parts, continue_with
from .walk import UNREADABLE, request_at, spec_of_part

Kind = Literal["decides", "asks", "unknown", "form", "action", "arguments", "verdict", "error"]


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """
    One place at which a recorded run would go otherwise with the settings that are tried.

    Attributes:
        run_id: The run.
        seq: Number of its row.
        kind: ``decides``: the row is decided otherwise; ``asks``: its request to a model, or its question to a person, has other words;
            ``unknown``: from here on nothing can be said, since what would be asked for was not recorded, or was erased. From an
            `Evaluation` how a model's reply to the new request differs from the recorded one: in its ``form``, its ``action``, its
            ``arguments`` or its ``verdict``; ``error``: the model gave none.
        row: The recorded row, as ``PHASE.TRIGGER``; of one that was not recorded the phase alone.
        guard: The guard that decides it; empty where none does.
        was: As recorded.
        now: As derived.
    """

    run_id: str
    seq: int
    kind: Kind
    row: str
    guard: str
    was: str
    now: str


class Spent(NamedTuple):
    """
    What a run has used.

    Attributes:
        calls: Calls of tools.
        requests: Requests to models.
        tokens: Tokens of these.
        cost_micro: Their cost in millionths of the currency unit.
    """

    calls: int = 0
    requests: int = 0
    tokens: int = 0
    cost_micro: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """
    What a trial of one run has found.

    Attributes:
        run_id: The run.
        findings: In the order of the rows.
        was: What the run has used as recorded, up to where the trial ends.
        now: What it has used in the trial, as far as that goes.
        known: Whether the trial goes as far as the run does, or to an end of its own.
        digests: For each finding the digest of the prompt, question or change of which `now` shows a part; empty for other findings.
    """

    run_id: str
    findings: tuple[TrialFinding, ...]
    was: Spent
    now: Spent
    known: bool
    digests: tuple[bytes, ...] = ()


class TrialSettings(Protocol):
    """What is tried: an engine, or a mixture of two."""

    def trial_spec(self, spec: Spec) -> Spec:
        """
        Return *spec* with the settings that are tried.

        Args:
            spec: What a run was started with.
        """
        ...

    def machine_for(self, spec: Spec) -> object:
        """
        Return the machine of a run, with the host's functions; None for the standard one, or where they are not here.

        Args:
            spec: As `trial_spec` gave it.
        """
        ...

    @property
    def model(self) -> Any:
        """The model; where it has the name of the recorded one, its price counts."""
        ...

    @property
    def never(self) -> tuple[Any, ...]:
        """The properties that no row may break."""
        ...


_WORDS = frozenset(
    ("observation", "check", "message", "feedback", "hint", "improvements", "said", "turn", "ahead", "result")
)
"""Slots of a change that decide nothing: what a model is told, which shows in its next prompt, and what came back."""

_FREE = ("none", "recalled", "answer")
"""Outcomes that cost nothing: their rows may be left out by a trial that has no use for them."""


def trial(journal: JournalReader, row: RunRow, settings: TrialSettings, heard: Heard | None = None) -> Trial:
    """
    Derive a run again with other settings.

    Args:
        journal: That holds it; it is only read.
        row: The run.
        settings: What is tried.
        heard: Called with each request to a model that would have other words, and whose reply was recorded.

    Raises:
        JournalDamaged: The chain does not hold, or a row or a text cannot be read.
    """
    with damage_told(row.run_id):
        walk = _Walk(journal, row, settings, heard)
        walk.go()
        used = _recorded(walk.rows if walk.whole else walk.rows[: walk.at]), walk.spent
        return Trial(row.run_id, tuple(walk.findings), *used, walk.whole, tuple(walk.digests))


def _recorded(rows: list[Transition]) -> Spent:
    if not rows:
        return _NOTHING
    last = rows[-1]
    calls = sum(row.trigger == "execute" for row in rows)
    return Spent(calls, last.counters.get("calls", 0), last.tokens_in + last.tokens_out, last.cost_micro)


@dataclass(frozen=True, slots=True)
class NewRequest:
    """
    A request that would have other words than the one that was recorded, and how a reply to it is read.

    Attributes:
        run: That asks; its memory has a summary that was asked for just before.
        row: As recorded.
        request: What is asked.
        outcome: The recorded reply.
        kit: What rows are derived with.
        store: Payloads.
        decided: Returns what a reply means for the run.
    """

    run: Run
    row: Transition
    request: ModelRequest
    outcome: Replied
    kit: RunResources
    store: PayloadWindow
    decided: Callable[[Replied], Decision]


Heard = Callable[[NewRequest], None]


class _Unknown(Exception):
    """
    What would come next was not recorded.

    Attributes:
        was: What was recorded there.
        now: What is needed.
    """

    def __init__(self, was: str, now: str) -> None:
        super().__init__(was, now)
        self.was, self.now = was, now


_NOTHING = Spent()


@dataclass(slots=True)
class _Walk:
    """
    The walk of a trial.

    Attributes:
        journal, row, settings, heard: See `trial`.
        findings, digests: So far; see `Trial`.
        parts, rows: All that were recorded; parts by the number of the run that each belongs to.
        at: How many of them the trial has used, or left out.
        parted: Whether a row was decided otherwise.
        same: Whether the last one was decided as it was recorded.
        whole: Whether nothing became unknown.
        spent: So far.
        state: Phase that the last row has led to.
        recorded: Spec in force, as recorded.
        kit: What rows are derived with.
        promises: What rows are held to.
        store: Payloads.
        offers: Tools that a provider is told of, as recorded and as tried, where they are not the same, with a digest of the latter.
    """

    journal: JournalReader
    row: RunRow
    settings: TrialSettings
    heard: Heard | None = None
    findings: list[TrialFinding] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    parts: dict[int, SharedPart] = field(default_factory=dict)
    rows: list[Transition] = field(default_factory=list)
    at: int = 0
    parted: bool = False
    same: bool = True
    whole: bool = True
    spent: Spent = _NOTHING
    state: str = ""
    recorded: Spec = field(init=False)
    kit: RunResources = field(init=False)
    promises: Promises = field(init=False)
    store: PayloadWindow = field(init=False)
    offers: tuple[str, str, bytes] | None = None

    def go(self) -> None:
        """Walk to the end of the run, or of what was recorded."""
        self.store = PayloadWindow(self.journal)
        for part, rows, _ in checked_parts(self.journal, self.row.run, self.row.head_seq):
            self.parts[part.run] = part
            self.rows += map(transition_of, rows)
        try:
            first = self._hand_over(None, next(iter(self.parts)))
            self.promises = Promises(self.settings.never, machine_of(first, self.kit))
            run: Run | None = first
            while run is not None and not run.final:
                run = self._next(run)
        except _Unknown as found:
            self.whole, row = False, self._coming()
            seq = row.seq if row is not None else len(self.rows)
            place = f"{row.source}.{row.trigger}" if row is not None else self.state
            again = ", asked otherwise" if found.was == found.now else ""
            self._tell("unknown", seq, place, "", found.was, f"{found.now}{again}")

    # -- the settings in force -------------------------------------------------------------------------------------

    def _hand_over(self, run: Run | None, number: int) -> Run:
        """Return the run that goes on with the part of run *number*."""
        part = self.parts[number]
        spec = spec_of_part(self.journal, part.run_id)
        if spec is None:
            raise _Unknown("erased", "what it was started with is needed")
        return continue_with(run, part, self._take(spec))

    def _take(self, spec: Spec) -> Spec:
        self.recorded = spec
        tried = self.settings.trial_spec(spec)
        self._compile(tried)
        self.offers = None
        if tried.native and (spec.tools, spec.policy) != (tried.tools, tried.policy):
            was, now = told_tools(spec), told_tools(tried, self.kit.catalog)
            changed = next((name for name in (*was, *now) if was.get(name) != now.get(name)), None)
            if changed is not None:
                told = apart(was.get(changed, "(none)"), now.get(changed, "(none)"))
                digest = _digest("\0".join(now.values()))
                self.offers = f"tool {changed}: {told[0]}", f"tool {changed}: {told[1]}", digest
        return tried

    def _compile(self, spec: Spec) -> None:
        self.kit = RunResources(spec, None, self.settings.machine_for(spec))

    def _under(self, run: Run, row: Transition) -> Run:
        """Return *run* as *row* finds it: under the name and the settings in force from there on."""
        if row.run != run.number:
            run = self._hand_over(run, row.run)
        if "spec" in row.request:
            body = self.store.payload(run.number, row.request["spec"]["n"]).body
            if body is None:
                raise _Unknown("erased", "what was accepted here is needed")
            run = run.under(self._take(amend_spec(self.recorded, body)))
        return run

    # -- one row ---------------------------------------------------------------------------------------------------

    def _next(self, run: Run) -> Run | None:
        """Return the run after its next row; None where nothing more is recorded, or known."""
        row = self._coming()
        if row is not None and (row.run != run.number or "spec" in row.request):
            run = self._under(run, row)
        if self.kit.spec is not run.spec:  # its first phase has chosen the mode or the limits
            self._compile(run.spec)
        if not self.parted:
            if row is None:
                return None
            request = request_at(run, row)
        else:
            request = request_of(run)
            row = self._fitting(run, request)
            if row is None:
                return self._decide(run, None, request, self._needless(run, request), Moment(run.at, 0))
        self.store.missed = False
        try:
            return self._take_row(run, row, request)
        except JournalDamaged:
            if not self.store.missed:
                raise
            raise _Unknown("erased", _need(run, request)) from None
        except UNREADABLE as error:
            raise JournalDamaged(
                f"row {row.seq} cannot be derived: {type(error).__name__}: {error}"
            ) from None

    def _coming(self) -> Transition | None:
        return self.rows[self.at] if self.at < len(self.rows) else None

    def _take_row(self, run: Run, row: Transition, request: Request) -> Run | None:
        """Return the run after *row*, as it is decided now."""
        if not self._fits(run, request, row):  # such as a budget that is used up before the recorded request
            return self._decide(run, row, request, self._needless(run, request), Moment(run.at, 0))
        self._need_values(run, row)
        *beside, own = with_summary(row)
        block, summary, seen = asking(run, request, self.kit), None, run
        if block is not None and not beside:
            raise _Unknown(_had(row), "summary")
        if block is not None:
            self._ask(block, beside[0], ASKED)
            summary = self._priced(recorded_outcome(self.store, run, beside[0]), row)
            seen, _, _ = after(run, summary, self.kit)
        outcome: Outcome | None = None
        told = len(self.findings)
        if isinstance(request, ModelRequest) and own.outcome["kind"] != "cancelled":
            short = self._ask(seen, own, request)
            if short is None and own.outcome["kind"] == "unaffordable":
                raise _Unknown("not asked: no budget is left", _need(run, request))
            outcome = Unaffordable(short) if short is not None else None
            if self.store.missed:
                raise _Unknown("erased", _need(run, request))
        if outcome is None:
            outcome = self._priced(recorded_outcome(self.store, run, row), row)
        if self.store.missed:
            raise _Unknown("erased", _need(run, request))
        before = self.rows[self.at - 1].time_us if self.at else 0
        moment = Moment(row.at, max(0, row.time_us - before))
        if len(self.findings) > told and isinstance(request, ModelRequest):
            self._hear(run, seen, row, request, outcome, moment, summary)
        return self._decide(run, row, request, outcome, moment, summary)

    def _hear(
        self,
        run: Run,
        seen: Run,
        row: Transition,
        request: ModelRequest,
        outcome: Outcome,
        moment: Moment,
        summary: Outcome | None,
    ) -> None:
        """Hand over a request that has other words, if somebody listens and its reply was recorded."""
        if self.heard is None or not isinstance(outcome, Replied):
            return
        given, fresh = recorded_host(self.store, run, row)
        decided = partial(
            decide,
            run,
            moment=moment,
            kit=self.kit,
            request=request,
            given=given,
            fresh=fresh,
            summary=summary,
        )
        self.heard(NewRequest(seen, row, request, outcome, self.kit, self.store, decided))

    def _decide(
        self,
        run: Run,
        row: Transition | None,
        request: Request,
        outcome: Outcome,
        moment: Moment,
        summary: Outcome | None = None,
    ) -> Run | None:
        given, fresh = recorded_host(self.store, run, row) if row is not None else RecordedHost()
        self.promises.walks(machine_of(run, self.kit))
        try:
            found = decide(run, outcome, moment, self.kit, request, given=given, fresh=fresh, summary=summary)
            self.promises.check(run, found)
        except (HostFunctionError, IllegalEvent, ForbiddenRow) as error:
            seq = row.seq if row is not None else run.seq
            told = f"{error}".partition(": ")[2]  # before it the run and its row
            guards = machine_of(run, self.kit).host.guards
            name = next((guard for guard in guards if told.startswith(f"the host's function {guard} ")), "")
            self._tell("decides", seq, _place(run, row), name, _led(row), short(told))
            self.whole = False
            return None
        self.promises.note(happened(run, found))
        self.same = False
        if row is not None:
            self._compare(run, row, found)
            self.at += 1
        counters, self.state = found.counters, found.row.dest
        calls = self.spent.calls + (found.row.trigger == "execute")
        tokens = counters.tokens_in + counters.tokens_out
        self.spent = Spent(calls, counters.calls, tokens, counters.cost_micro)
        return applied(run, found, moment.at_us)

    def _compare(self, run: Run, row: Transition, found: Decision) -> None:
        """Note where *row* is decided otherwise."""
        if (row.trigger, row.dest) != (found.row.trigger, found.row.dest):
            now = f"{found.row.trigger} to {found.row.dest}"
            self._tell("decides", row.seq, _place(run, row), self._guard(run, row, found), _led(row), now)
            self.parted = True
            return
        body, derived = self.store.payload(row.run, row.change["n"]).body, found.change_text
        self.same = True
        if body is None or body == derived:
            return
        old, new = orjson.loads(body), orjson.loads(derived)
        words = [(item.get("question") or {}).pop("message", None) for item in (old, new)]
        for item in (
            old,
            new,
        ):  # an approval is for the whole policy, and its answer for the question that is asked now
            for slot in ("question", "reply"):
                (item.get(slot) or {}).pop("approval", None)
        own = ("answer",) if row.dest == FAILED else ()  # paor's own words on why it failed
        names = sorted({*old, *new} - _WORDS.union(own))
        differ = [name for name in names if _bare(old, name) != _bare(new, name)]
        self.same = not differ and words[0] == words[1]
        if self.parted:
            return
        if differ:
            texts = _text(old.get(differ[0])), _text(new.get(differ[0]))
            was, now = (f"{differ[0]}: {text}" for text in apart(*texts))
            self._tell("decides", row.seq, _place(run, row), "", was, now, _digest(texts[1]))
            self.parted = True
        elif words[0] != words[1]:
            asked = f"{words[1]}"
            self._tell("asks", row.seq, _place(run, row), "", *apart(f"{words[0]}", asked), _digest(asked))

    def _guard(self, run: Run, row: Transition, found: Decision) -> str:
        """Return the guard for which another row is taken than *row*."""
        tried = machine_of(run, self.kit).rows_of(run.state, waiting=run.memory.question is not None)
        alike = [item for item in tried if (item.trigger, item.dest) == (row.trigger, row.dest)]
        held = (item for item in alike if all(row.guards.get(name, True) for name in item.conditions))
        recorded = next(chain(held, alike), None)
        refused = recorded is not None and tried.index(recorded) < tried.index(found.row)
        looked = recorded if recorded is not None and refused else found.row
        names = [name for name in (*looked.conditions, *looked.unless) if name in found.guards]
        if refused:  # one of its guards does not hold any more
            names = [name for name in names if found.guards[name] is not (name in looked.conditions)]
        changed = [name for name in names if row.guards.get(name) is not found.guards[name]]
        return next(iter((*changed, *names)), "")

    # -- requests and what was recorded for them -------------------------------------------------------------------

    def _ask(
        self, run: Run, row: Transition, request: ModelRequest
    ) -> Literal["token_budget", "cost_budget"] | None:
        """Note where a request has another prompt; return the budget for which it is not made at all."""
        messages, whole = built_prompt(self.store, self.kit, run, row, request)
        size = 0
        if run.spec.limits.reply_tokens is not None:
            size = prompt_bytes(messages, self.kit.offered(request.kind, run))
        budget = shortage(run, reservation(run.spec.limits, run.counters, size))
        if budget is not None:
            return budget
        differences = compare_prompt(self.store, run, self.rows, row, request, messages, whole=whole)
        first = next(iter(differences), None)
        if isinstance(first, Divergence):
            digest = _digest("\0".join(message.body for message in messages))
            self._tell("asks", row.seq, _place(run, row), "", first.expected, first.found, digest)
        elif first is None and self.offers is not None:
            self._tell("asks", row.seq, _place(run, row), "", *self.offers)
        return None

    def _fits(self, run: Run, request: Request, row: Transition) -> bool:
        """Return whether the outcome of *row* is what *request* came to."""
        kind = row.outcome["kind"]
        if row.source != run.state:
            return False
        if kind == "cancelled":
            return not self.parted
        if run.memory.question is not None or kind == "answer":
            return run.memory.question is not None and kind == "answer" and (self.same or not self.parted)
        if isinstance(request, Recall):
            return bool(
                kind == "recalled" and row.request["payloads"] == [place.n for place in request.payloads]
            )
        if isinstance(request, ToolRequest):
            made = row.request.get("kind") == "tool"
            return made and (not self.parted or self._intent() == request.intent)
        if isinstance(request, ModelRequest):
            asked = (
                row.request.get("kind") == request.kind and row.request.get("attempt", 0) == request.attempt
            )
            return asked and (not self.parted or self._same_prompt(run, request, row))
        return bool(row.request.get("kind") == "none") and (not self.parted or kind == "none")

    def _same_prompt(self, run: Run, request: ModelRequest, row: Transition) -> bool:
        """Return whether *row* has asked for the same: with the recorded settings the prompt would be the recorded one."""
        if "summary" in row.request or asking(run, request, self.kit) is not None:
            return False
        run = run.under(self.recorded)  # but for what its first phase has chosen
        kit = RunResources(run.spec)
        messages, whole = built_prompt(self.store, kit, run, row, request)
        differences = compare_prompt(self.store, run, self.rows, row, request, messages, whole=whole)
        return next(iter(differences), None) is None

    def _intent(self) -> Intent | None:
        """Return the call that the recorded run was about to make at the coming row."""
        for row in reversed(self.rows[: self.at]):
            body = self.store.payload(row.run, row.change["n"]).body
            if intent := Change.read(body or "{}").intent:
                return intent
        return None

    def _fitting(self, run: Run, request: Request) -> Transition | None:
        """Return the recorded row with the outcome of *request*, None where there is none; rows that cost nothing are left out."""
        start = self.at
        while (row := self._coming()) is not None:
            if self._fits(run, request, row):
                return row
            if row.outcome["kind"] not in _FREE:
                break
            self.at += 1
        self.at = start
        return None

    def _needless(self, run: Run, request: Request) -> Outcome:
        """Return the outcome of a request that needs nothing from outside; of any other it was not recorded."""
        row = self._coming()
        if run.memory.question is None:
            self._need_values(run, None)
            if isinstance(request, Recall):
                bodies = [self.store.payload(run.number, place.n).body for place in request.payloads]
                if None in bodies:
                    raise _Unknown("erased", _need(run, request))
                texts = tuple(recalled_text(body, run.spec.revision) for body in bodies)
                return Recalled(texts, tuple(place.n for place in request.payloads))
            if isinstance(request, Nothing) and run.state != EXECUTING:
                return NoOutcome()
        raise _Unknown(_had(row), _need(run, request))

    def _need_values(self, run: Run, row: Transition | None) -> None:
        """Raise `_Unknown` where rows that are tried now look at values of the host that were not recorded."""
        machine = machine_of(run, self.kit)
        if not machine.host.fresh or (row is not None and "values" in row.request):
            return
        tried = machine.rows_of(run.state, waiting=run.memory.question is not None)
        if any(item.trigger in machine.host.fresh for item in tried):
            raise _Unknown("no values of the host", "guards look at values of the host")

    def _priced(self, outcome: Any, row: Transition) -> Any:
        """Return an outcome with what its tokens cost now, where the model that is tried is the recorded one."""
        model, usage = self.settings.model, outcome.usage
        price = getattr(model, "price", None)
        asked = row.request.get("model", self.recorded.model)
        if price is None or model.name != asked or not isinstance(usage, Usage) or not usage.calls:
            return outcome
        return replace(outcome, usage=replace(usage, cost_micro=price.of(usage)))

    # -- what is told ----------------------------------------------------------------------------------------------

    def _tell(
        self, kind: Kind, seq: int, row: str, guard: str, was: str, now: str, digest: bytes = b""
    ) -> None:
        self.findings.append(TrialFinding(self.row.run_id, seq, kind, row, guard, was, now))
        self.digests.append(digest)


def _place(run: Run, row: Transition | None) -> str:
    return f"{row.source}.{row.trigger}" if row is not None else run.state


def _led(row: Transition | None) -> str:
    return f"{row.trigger} to {row.dest}" if row is not None else "nothing"


def _had(row: Transition | None) -> str:
    """Return what a row has recorded an outcome of."""
    if row is None:
        return "nothing more"
    kind = row.request.get("kind", "none")
    told = row.outcome["kind"] if kind == "none" else row.request.get("tool", kind)
    return f"{told}"


def _need(run: Run, request: Request) -> str:
    """Return what a run needs from outside."""
    if run.memory.question is not None:
        return f"an answer: {short(run.memory.question.message)}"
    if isinstance(request, ModelRequest):
        return f"{request.kind}"
    return f"{request.intent.tool}" if isinstance(request, ToolRequest) else "nothing"


def _bare(change: Mapping[str, Any], name: str) -> Any:
    """Return a slot without what is null in it: what a row does not say and what it says is null are the same."""
    found = change.get(name)
    return (
        {key: value for key, value in found.items() if value is not None}
        if isinstance(found, dict)
        else found
    )


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
