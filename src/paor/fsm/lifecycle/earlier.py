"""
What a round of a conversation is told of the rounds before: read from the run that it follows, and copied into its own.

A round is a run of its own, which replays, is exported and is erased alone. So it holds copies, each text a payload of its own that
nothing else of the run refers to, and each with the id of the run in which it was said: when that one is erased, its texts go here, too
(`fsm.transfer.erasure`). A copy of a copy is the same bytes, so a request begins as the one of the round before ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace as replaced
from functools import partial
from itertools import pairwise

from ...prompts.building.conversation import SpokenItems, earlier_turns, piece_text, step_text
from ...states.base.errors import ConversationBusy, UsageError
from ...states.records.actions import StoredText
from ...states.records.conversation import EFFECT_ENDS, SUMMARY_ENDS, Item, Piece
from ...states.run.budgets import BYTES_PER_TOKEN
from ...states.run.spec import Spec
from ...states.run.state import REFERENCES_MAX, Run
from ..decision.conversation import NOT_MADE, pending
from ..journal.payloads import as_text
from ..journal.prompts import prompt_places
from ..journal.reader import JournalReader
from ..journal.rows import RunRow
from ..replay.restore import restore_run
from .start import WorkflowPosition
from .subruns import documents_from, runs_of
from .told import Earlier, Told

Texts = Callable[[StoredText], "str | None"]


def earlier_rounds(journal: JournalReader, conversation: str, after: str | None = None) -> Earlier:
    """
    Return what the next round of a conversation goes on from.

    Args:
        journal: That holds it.
        conversation: Its id; of a new one nothing is told.
        after: Id of the run to follow, in place of the conversation's newest: for a new conversation that branches off another one.

    Raises:
        ConversationBusy: Its newest round has not ended.
        UnknownRun: There is no run *after*.
        UsageError: It is none to follow.
    """
    base = round_before(journal, conversation, after)
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
    """Return the run that the next round of a conversation follows, None for the first one; raises as `earlier_rounds` says."""
    newest = journal.newest_round(conversation)
    if newest is not None and after not in (None, newest):
        raise UsageError(
            f"after: conversation {conversation!a:.60} has its newest round in run {newest}, which the next one follows; a new"
            " conversation may follow another run"
        )
    base = newest or after
    if base is not None and (row := journal.run(base)).status not in ("done", "failed"):
        raise ConversationBusy(conversation, row.run_id, row.status)
    return base


def before_again(journal: JournalReader, run: Run) -> Earlier:
    """Return what a run that stands in for a failed one is told: the same as that."""
    told = _copied(run.spec.earlier, _texts_of(journal, run), run.run_id)
    return Earlier(run.spec.conversation, told=tuple(told))


def before_task(journal: JournalReader, workflow: Run, position: WorkflowPosition) -> Earlier:
    """Return what a task of a workflow is told: the rounds before, the whole request, and the earlier tasks with their answers."""
    spec, texts = workflow.spec, _texts_of(journal, workflow)
    found = [*_copied(spec.earlier, texts, workflow.run_id), _user(spec.objective, workflow.run_id)]
    newest = {
        task: run
        for run, _, task in runs_of(journal, position.workflow_id, position.round)
        if task < position.task
    }
    for task, run_id in sorted(newest.items()):
        if task > 0:
            run, _ = restore_run(journal, run_id)
            found.append(_user(run.spec.objective, run_id))
            found += _copied([_words("assistant", run.memory.answer or "")], texts, run_id)
    return Earlier(spec.conversation, round=position.round, told=tuple(_within(found, spec)))


def _user(text: str, run_id: str) -> Told:
    return Told(Item(role="user", size=len(text.encode()), run=run_id), text, asked=text)


def _within(told: Sequence[Told], spec: Spec) -> Sequence[Told]:
    """
    Return what is told within half of the model's context: if it is more, whole rounds from the oldest on are left out, to a quarter.

    Of one that writes summaries it is the whole context: the first request of the next round asks for one.
    """
    room = spec.context_tokens * BYTES_PER_TOKEN // (2 if spec.limits.compaction == "code" else 1)
    left = sum(item.size for item in told)
    if left <= room:
        return told
    begins = [place for place, item in enumerate(told) if item.asked is not None]
    for start, end in pairwise(begins):
        if left <= room // 2:
            return told[start:]
        left -= sum(item.size for item in told[start:end])
    return told[begins[-1] :] if begins else ()


def told_by(journal: JournalReader, row: RunRow, run: Run) -> list[Told]:
    """Return what a run that has ended was told of the rounds before it, and what was said in it."""
    spec, texts = run.spec, _texts_of(journal, run)
    held = run.memory.conversation if spec.converses else ()
    before = [item for item in held if item.run] if spec.native and spec.converses else spec.earlier
    found = [*_copied(before, texts, row.run_id), *_transcript(spec, row.run_id)]
    asked = _asked_as(journal, row, spec)
    found.append(replaced(_user(asked, row.run_id), asked=spec.objective))
    own = [item for item in held if not item.run] if spec.converses else list(_reported(run))
    own += [
        Item.of(
            {"role": "tool", "call": call, "size": len(NOT_MADE) + len(call), "pieces": [{"words": NOT_MADE}]}
        )
        for call in pending(tuple(own))
    ]
    answer = run.memory.answer or ""
    if answer and not spec.native and own and own[-1].role == "assistant":
        own.pop()  # the answer in the form in which it was asked for
    found += _copied(own, texts, row.run_id)
    if answer and not _ends_with(own, answer, texts):
        found += _copied([_words("assistant", answer)], texts, row.run_id)
    return found


def _words(role: str, words: str) -> Item:
    return Item.of({"role": role, "size": len(words.encode()), "pieces": [{"words": words}]})


def _reported(run: Run) -> Iterator[Item]:
    """Yield the actions of a run that holds no conversation, each with its result, as far as its history reaches."""
    for message in run.memory.history:
        step = step_text(message, message.shown)
        yield _words("assistant", step.action.text)
        yield _words("user", step.result.text)


def _ends_with(items: Sequence[Item], answer: str, texts: Texts) -> bool:
    """Whether the last message is the model's, and what the run has answered."""
    if not items or items[-1].role != "assistant" or items[-1].calls:
        return False
    said = [message.text.strip() for message in SpokenItems().told(tuple(items[-1:]), texts, "")[0]]
    return said == [answer.strip()]


def _transcript(spec: Spec, run_id: str) -> Iterator[Told]:
    """Yield the conversation that a run was given, as its own requests tell it."""
    for message in earlier_turns(spec.transcript, spec.context_tokens):
        asked = message.text if message.role == "user" else None
        yield Told(
            Item.of({"role": message.role, "size": message.size, "run": run_id}), message.text, asked=asked
        )


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


def _texts_of(journal: JournalReader, run: Run) -> Texts:
    """Return what reads the stored texts of a run, those of its conversation at once."""
    items = (*run.spec.earlier, *run.memory.conversation)
    wanted = {place.n: place.digest for item in items for place in item.places}
    bodies = journal.intact_bodies(run.number, wanted)
    return lambda place: as_text(bodies[place.n])


def _copied(items: Iterable[Item], texts: Texts, run_id: str) -> Iterator[Told]:
    """Yield items as the next round is told them; calls of which nobody knows any more, with their results, are left out."""
    unknown: set[str] = set()
    for item in items:
        if item.role == "tool" and item.call in unknown:
            continue
        if item.run and any(piece.text is not None and texts(piece.text) is None for piece in item.pieces):
            unknown.update(item.calls)  # its round was erased
            continue
        reply = item.pieces[0].text if item.calls or len(item.pieces) == 1 else None
        if reply is not None and item.role == "assistant" and texts(reply) is None:
            unknown.update(item.calls)
            continue
        data = item.role == "user" and not item.run
        text = "".join(piece_text(piece, texts, data=data) for piece in item.pieces)
        read = partial(_read, texts)
        brief = read(item.brief)
        if item.summary:
            brief = f"{item.summary}{EFFECT_ENDS if item.effect else SUMMARY_ENDS}"
        parts = read(item.parts)
        yield Told(
            Item(
                role=item.role,
                pieces=(Piece(),) if reply is not None else (),
                size=item.size,
                calls=item.calls,
                call=item.call,
                model=item.model if parts is not None else "",
                effect=item.effect,
                run=item.run or run_id,
            ),
            text,
            brief,
            parts,
            read(item.asked),
        )


def _read(texts: Texts, place: StoredText | None) -> str | None:
    return None if place is None else texts(place)
