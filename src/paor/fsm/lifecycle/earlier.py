"""
What a round of a conversation is told of the rounds before: read from the run that it follows, and copied into its own.

A round is a run of its own, which replays, is exported and is erased alone. So it holds copies: texts with all messages of one earlier round,
or of several short ones, each a payload that nothing else of the run refers to, and each with the ids of the runs in which that was said:
when one of these is erased, the text goes here, too (`fsm.transfer.erasure`), and for the next round the others' are made again from
their own runs. A text that is full is copied from round to round as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, zip_longest
from operator import attrgetter

from msgspec.structs import replace

from ...prompts.building.conversation import (
    TOGETHER,
    RoundMessage,
    Texts,
    earlier_turns,
    round_text,
    step_text,
)
from ...states.base.errors import ConversationBusy, Erased, UnknownRun, UsageError
from ...states.records.conversation import EFFECT_ENDS, SUMMARY_ENDS, Item
from ...states.run.budgets import BYTES_PER_TOKEN
from ...states.run.spec import Spec
from ...states.run.state import REFERENCES_MAX, Run
from ..decision.conversation import NOT_MADE, pending
from ..journal.payloads import Payload, as_text
from ..journal.prompts import prompt_places
from ..journal.reader import JournalReader
from ..journal.rows import RunRow
from ..replay.callers import runs_of
from ..replay.restore import restore_run
from .start import WorkflowPosition
from .subruns import documents_from
from .told import Earlier, Told


def earlier_rounds(journal: JournalReader, conversation: str, base: str | None) -> Earlier:
    """
    Return what a round of a conversation goes on from.

    Args:
        journal: That holds it.
        conversation: Its id.
        base: Id of the run that it follows, as `round_before` gives it; None: nothing is told.
    """
    if base is None:
        return Earlier(conversation)
    row = journal.run(base)
    run, _ = restore_run(journal, row.run_id)
    count = len(run.spec.documents)
    given = documents_from(journal, row.run_id, 0, count)
    return Earlier(
        conversation,
        row.run_id,
        run.spec.round + 1,
        tuple(_within(told_by(journal, row, run), run.spec)),
        run.spec.asked_before + run.counters.calls,
        run.spec.language,
        tuple(given[-REFERENCES_MAX:]),
        tuple(documents_from(journal, row.run_id, count, 2**31)[-REFERENCES_MAX:]),
    )


def round_before(journal: JournalReader, conversation: str, after: str | None) -> str | None:
    """
    Return the run that the next round of a conversation follows, None for the first one.

    Args:
        journal: That holds it.
        conversation: Its id.
        after: Id of the run to follow, in place of the conversation's newest: for a new conversation that branches off another one.

    Raises:
        ConversationBusy: Its newest round has not ended.
        UnknownRun: There is no run *after*.
        UsageError: It is none to follow.
    """
    newest = journal.newest_round(conversation)
    if newest is not None and after not in (None, newest):
        raise UsageError(
            f"after: conversation {conversation!a:.60} has its newest round in run {newest}, which the next one follows; a new"
            " conversation may follow another run"
        )
    base = newest or after
    return None if base is None else _ended(journal, conversation, base)


def turn_of(journal: JournalReader, spec: Spec) -> str | None:
    """
    Return the run that a round follows which has waited in line, None where nothing before it is left.

    Raises:
        ConversationBusy: The round before it has not ended.
    """
    base = journal.newest_round(spec.conversation, spec.round)
    if base is None:  # it follows a run of another conversation, or one that is not here any more
        with suppress(Erased, UnknownRun):
            journal.spec(spec.follows)
            base = spec.follows
    return None if base is None else _ended(journal, spec.conversation, base)


def _ended(journal: JournalReader, conversation: str, base: str) -> str:
    if (row := journal.run(base)).status not in ("done", "failed"):
        raise ConversationBusy(conversation, row.run_id, row.status)
    return row.run_id


def before_start(journal: JournalReader, spec: Spec) -> Earlier:
    """
    Return what the start of a round was made with besides its arguments, for one that comes again to be compared with it.

    Documents are left out: those of the start itself are compared. What the round before says is read only where the spec has it in its
    transcript; one that waits in line waits once more.
    """
    told: tuple[Told, ...] = ()
    language = ""
    if spec.follows and not spec.in_line:
        language = spec.language  # as that of a round whose texts are gone has to be
        with suppress(Erased, UnknownRun):
            language = journal.spec(spec.follows).language
            if spec.workflow is not None:
                told = earlier_rounds(journal, spec.conversation, spec.follows).told
    return Earlier(spec.conversation, told=told, asked=min(spec.asked_before, 0), language=language)


def before_again(journal: JournalReader, run: Run) -> Earlier:
    """Return what a run that stands in for a failed one is told: the same as that."""
    return Earlier(run.spec.conversation, told=tuple(_before(journal, run, run.spec.earlier)))


def before_task(journal: JournalReader, workflow: Run, position: WorkflowPosition) -> Earlier:
    """Return what a task of a workflow is told: the rounds before, the whole request, and the earlier tasks with their answers."""
    spec = workflow.spec
    found = [
        *_before(journal, workflow, spec.earlier),
        _told(workflow.run_id, [RoundMessage("asked", spec.objective)]),
    ]
    newest = {
        task: run
        for run, _, task in runs_of(journal, position.workflow_id, position.round)
        if task < position.task
    }
    for task, run_id in sorted(newest.items()):
        if task > 0:
            run, _ = restore_run(journal, run_id)
            said = (
                RoundMessage("asked", run.spec.objective),
                RoundMessage("assistant", run.memory.answer or ""),
            )
            found.append(_told(run_id, said))
    return Earlier(spec.conversation, round=position.round, told=tuple(_within(found, spec)))


def _told(run_id: str, said: Sequence[RoundMessage]) -> Told:
    return Told((run_id,), round_text(run_id, said))


def _within(rounds: Iterable[Told], spec: Spec) -> Sequence[Told]:
    """
    Return what is told, short rounds together, within half of the model's context: if it is more, the oldest are left out, to a quarter.

    Of one that writes summaries it is the whole context: the first request of the next round asks for one.
    """
    told: list[Told] = []
    for one in rounds:
        if told and len(told[-1].text.encode()) + len(one.text.encode()) <= TOGETHER:
            one = told.pop().and_then(one)
        told.append(one)
    room = spec.context_tokens * BYTES_PER_TOKEN // (2 if spec.limits.compaction == "code" else 1)
    sizes = [len(one.text.encode()) for one in told]
    left, start = sum(sizes), 0
    while left > room // (2 if start else 1) and start < len(told) - 1:
        left -= sizes[start]
        start += 1
    return told[start:]


def told_by(journal: JournalReader, row: RunRow, run: Run) -> list[Told]:
    """Return what a run that has ended was told of the rounds before it, and what was said in it."""
    held = run.memory.conversation if run.spec.native and run.spec.converses else run.spec.earlier
    return [
        *_before(journal, run, [item for item in held if item.run]),
        _round(journal, row, run),
    ]


def _round(journal: JournalReader, row: RunRow, run: Run) -> Told:
    """Return what was said in a run that has ended."""
    spec = run.spec
    own = [item for item in run.memory.conversation if not item.run]
    texts = _texts(_read(journal, run, own))
    own = list(_known(own, texts))
    said = [RoundMessage.by(item, texts) for item in own] if spec.converses else list(_reported(run))
    said += [RoundMessage("tool", NOT_MADE, call=call) for call in pending(tuple(own))]
    answer = run.memory.answer or ""
    if answer and not spec.native and said and said[-1].role in ("assistant", "reply"):
        del said[-1], own[len(said) :]  # the answer in the form in which it was asked for
    if answer and not _ends_with(said, answer):
        said.append(RoundMessage("assistant", answer))
    asked = _asked_as(journal, row, spec)
    words = "" if asked == spec.objective else spec.objective
    first = [*_transcript(spec), RoundMessage("asked", asked, words=words)]
    brief = [_in_brief(one, item) for one, item in zip_longest(said, own) if one is not None]
    return _told(row.run_id, [*first, *said])._replace(
        brief=round_text(row.run_id, [*first, *brief]) if brief != said else None,
        effect=any(item.effect for item in own),
    )


def _in_brief(said: RoundMessage, item: Item | None) -> RoundMessage:
    """Return a result with its summary in its place; itself where that is none, or no shorter."""
    if item is None or not item.summary:
        return said
    brief = f"{item.summary}{EFFECT_ENDS if item.effect else SUMMARY_ENDS}"
    return replace(said, text=brief) if len(brief.encode()) < len(said.text.encode()) else said


def _reported(run: Run) -> Iterator[RoundMessage]:
    """Yield the actions of a run that holds no conversation, each with its result, as far as its history reaches."""
    for message in run.memory.history:
        step = step_text(message, message.shown)
        yield RoundMessage("assistant", step.action.text)
        yield RoundMessage("user", step.result.text)


def _ends_with(said: Sequence[RoundMessage], answer: str) -> bool:
    """Whether the last message is the model's, and what the run has answered."""
    last = said[-1] if said else None
    if last is None or last.role not in ("assistant", "reply") or last.calls:
        return False
    message = last.message("")
    return message is not None and message.text.strip() == answer.strip()


def _transcript(spec: Spec) -> Iterator[RoundMessage]:
    """Yield the conversation that a run was given, as its own requests tell it."""
    for message in earlier_turns(spec.transcript, spec.context_tokens):
        yield RoundMessage("asked" if message.role == "user" else "assistant", message.text)


def _asked_as(journal: JournalReader, row: RunRow, spec: Spec) -> str:
    """Return the user's message as the requests of a run hold it: of one with a provider's own calls to the letter."""
    if not (spec.native and spec.converses):
        return spec.objective
    rows = journal.transitions(row.run_id)
    first = next((item for item in rows if item.request.get("kind") == "turn"), None)
    places = prompt_places(rows, first) if first is not None else []
    if not places or places[-1].role != "user":
        return spec.objective
    body = journal.payload(places[-1].run, places[-1].place["n"]).body
    return spec.objective if body is None else as_text(body) or spec.objective


def _read(journal: JournalReader, run: Run, items: Iterable[Item]) -> Mapping[int, Payload]:
    """Return the stored texts of items, all at once."""
    places = {place.n: place.digest for item in items for place in item.places}
    return journal.intact_payloads(run.number, places)


def _texts(payloads: Mapping[int, Payload]) -> Texts:
    return lambda place: as_text(payloads[place.n].body)


def _before(journal: JournalReader, run: Run, items: Sequence[Item]) -> Iterator[Told]:
    """Yield the rounds that a run is told, for the next one; without what was erased."""
    payloads = _read(journal, run, items)
    texts = _texts(payloads)
    for run_id, some in groupby(items, attrgetter("run")):
        alone: list[Item] = []  # summaries, or messages of a round
        for item in some:
            held = [payloads[place.n] for place in item.places]
            if item.role != "round":
                alone.append(item)
            elif not held or any(payload.body is None for payload in held):
                yield from _again(journal, item.runs)
            else:
                yield Told(item.runs, held[0], held[-1] if item.brief is not None else None, item.effect)
        if said := [RoundMessage.by(item, texts) for item in _known(alone, texts)]:
            yield _told(run_id, said)


def _known(items: Iterable[Item], texts: Texts) -> Iterator[Item]:
    """Yield items without what was erased of earlier rounds, and without calls of which nobody knows any more, with their results."""
    unknown: set[str] = set()
    for item in items:
        erased = any(piece.text is not None and texts(piece.text) is None for piece in item.pieces)
        if erased and (item.run or item.role == "assistant"):
            unknown.update(item.calls)
        elif item.call not in unknown:
            yield item


def _again(journal: JournalReader, run_ids: Iterable[str]) -> Iterator[Told]:
    """Yield rounds as their own runs have them, without those that were erased, or are in no journal here."""
    for run_id in run_ids:
        with suppress(Erased, UnknownRun):
            yield _round(journal, journal.run(run_id), restore_run(journal, run_id)[0])
