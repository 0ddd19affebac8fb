"""
What each row adds to a run's conversation. Pure: from the case that was decided, whatever machine decided it.

A conversation only grows: every item is made here, once, by the row that brought it, and a request is all of it behind a head that
never changes (`prompts.building.conversation`). So each request begins with the bytes of the one before it. When it would no longer
fit the model's context it is cut in one block, to half of its room.

Source: DESIGN section 9; what providers require of continued turns: each call of a turn has its result before the next turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...prompts.building.conversation import RESULT
from ...prompts.building.fencing import FENCE_BYTES
from ...prompts.building.history import ARGUMENTS_CHARS, first_bytes
from ...prompts.parsing.json_reading import after_thinking
from ...prompts.parsing.turns import spoken
from ...states.base.wire import json_text
from ...states.records.actions import ToolResult
from ...states.records.conversation import Cut, Item, Piece, Role, Spoken, cut_of, size_of
from ...states.records.observations import CUT, RESULT_CHARS, clean, cut
from ...states.records.outcomes import Answered, Replied
from ...states.records.plans import Step
from ...states.run.budgets import steps_left, tools_withheld
from ...states.run.phase_names import OBSERVING, PHASES, PLANNING, REVIEWING
from ...states.run.state import Change, Run
from .guard_context import GuardContext
from .observation import TURN_CHARS, answer_text, line, shown_arguments
from .plan_mode import NO_CALLS, fitting, step_of, steps_left_in_plan
from .run_resources import RunResources

UNUSABLE = "Your last reply could not be used: {}"
GO_ON = "Go on: call a tool, or answer."
KNOWN = "Not made again: its result is above."
ANSWER_NOW = "Answer the user now in one or two sentences."
AGAIN = "You have that result already. Answer now in one or two sentences."
FAILED_AGAIN = "That failed before. Try another tool, or answer."
NO_STEP = "Not made: no step is left."
LAST_WORDS = "No step is left. Answer now in one or two sentences."
WAITS = "Not made: it was written before the results above were seen. Call it again if it is still right."
NOT_MADE = "Not made."
NOT_ENOUGH = "That is not enough yet. Go on."
ROOM_LEAST = 200
"""Bytes of a result that there is always room for, see `fsm.decision.plan_mode.fitting`."""

EFFECT_CHARS = 500
"""Characters of the beginning, and of the end, of what an effect has brought that a cut leaves: a receipt may be in either."""


def said_by(case: GuardContext, trigger: str, dest: str, change: Change, kit: RunResources) -> Spoken | None:
    """
    Return what a row adds to the conversation of its run; None for nothing, and in a run that holds none.

    Args:
        case: That the row was decided on.
        trigger, dest: The row.
        change: What else it sets.
        kit: Of the run.
    """
    run = case.run
    if not kit.converses or run.counters.formatted or not (kit.plans or run.state == OBSERVING):
        return None
    most = kit.room // 4
    items = tuple([_within(item, most) for item in _items(case, trigger, dest, change, kit)])
    if not items:
        return None
    # where a model writes summaries, the next request cuts what is too much; this is for a run that makes none behind it
    room = kit.room if run.spec.limits.compaction == "code" else 2 * kit.room
    return Spoken(items, _cut(run.memory.conversation, items, room))


def _cut(before: tuple[Item, ...], items: tuple[Item, ...], room: int) -> Cut | None:
    """Return what is cut: as a request was already that had less room than those before it, where that is enough."""
    added = size_of(items)
    size = size_of(before) + added
    if size <= room:
        return None
    shown = cut_of(before, room)
    if shown is not None and shown.left + added <= room:
        return Cut(shown.dropped, shown.shortened, size, shown.left + added)
    return cut_of((*before, *items), room)


def _within(item: Item, room: int) -> Item:
    """Return an item of the engine's own words within *room* bytes; any other as it is."""
    if item.size <= room or item.calls or not item.pieces:
        return item
    if any(piece.text is not None for piece in item.pieces):
        return item
    words = first_bytes("".join(piece.words for piece in item.pieces), max(0, room - len(CUT.encode())))
    return _words(item.role, words + CUT, call=item.call)


def _items(case: GuardContext, trigger: str, dest: str, change: Change, kit: RunResources) -> Iterator[Item]:
    outcome, run = case.outcome, case.run
    if not kit.plans:
        if case.result is not None:
            yield _words("assistant", _action(change))
            yield _result(case, case.result, change, kit)
        return
    if (
        isinstance(outcome, Replied) and run.state != REVIEWING
    ):  # what a judge asks for is told when the run goes on
        if run.state not in PHASES:
            yield _words("user", kit.phase_words(run))
        yield from _turn(case, outcome, trigger, dest, kit)
    elif isinstance(outcome, Answered) and run.state == PLANNING:
        yield _words("user", _answered(outcome))
    elif run.state == OBSERVING and case.result is not None:
        yield _result(case, case.result, change, kit)
    if trigger == "conclude" and case.stop_reason == "max_steps" and steps_left_in_plan(run):
        yield _words("user", _steps_not_taken(run))
    if dest != PLANNING or run.state == PLANNING:
        return
    if trigger == "withhold":
        step = step_of(run)
        yield from _unmade(run, NOT_MADE, known=step.id if step is not None else "")
        yield _words("user", ANSWER_NOW)
    elif run.state == REVIEWING and trigger == "proceed":
        yield from _next_turn(run)
    else:
        yield from _unmade(run, NOT_MADE)
        asked = [line(text) for text in change.improvements or ()]
        if run.state not in PHASES:  # what a phase of the host's own came to is no reproach
            yield _words("user", "\n".join((*asked, "Go on.")))
        else:
            yield _words("user", "\n- ".join(("That is not enough yet.", *asked)) if asked else NOT_ENOUGH)


def _steps_not_taken(run: Run) -> str:
    """Return which steps of a plan were not made, since none was left: the completion review reads it."""
    plan = run.memory.plan
    assert plan is not None, "steps are left in a plan"
    told = []
    for step in plan.steps[run.counters.plan_step + 1 :]:
        arguments = f" {cut(json_text(step.args), ARGUMENTS_CHARS)}" if step.args else ""
        told.append(f"- {line(step.name or step.type)}{arguments}")
    return "\n".join((NO_STEP, *told))


def _action(change: Change) -> str:
    """Return an action as the two stages together have asked for it; what was learnt by then belongs to it."""
    message = change.message
    assert message, "an observed action leaves a message"
    told: dict[str, object] = {"action": message.tool, "parameters": message.arguments or {}}
    if message.learnings:
        told = {"learnings": message.learnings, **told}
    return json_text(told)


def _next_turn(run: Run) -> Iterator[Item]:
    """Yield what is said between two turns: of calls that were not made, and that no step is left."""
    last = not steps_left(run)
    yield from _unmade(run, NO_STEP if last else WAITS)
    if last and run.spec.native and not tools_withheld(run):
        yield _words("user", LAST_WORDS)


def _turn(case: GuardContext, outcome: Replied, trigger: str, dest: str, kit: RunResources) -> Iterator[Item]:
    """Yield the model's turn and, where it is asked again, why."""
    if case.problem is not None and case.problem.code == NO_CALLS:
        yield from _calls_at_the_end(case, outcome, dest, kit)
        return
    asked_again = trigger == "reselect" or (case.run.state == PLANNING and case.problem is not None)
    native = (
        case.run.spec.native and case.run.state in PHASES
    )  # else calls are a plan, which is told as it came
    if not asked_again and (case.calls or outcome.finish != "tool_calls" or not native):
        yield _whole_turn(case, outcome, kit)
        return
    text = spoken(outcome.text) if native else after_thinking(outcome.text)
    said = cut(clean(text.strip()), TURN_CHARS)  # calls of a turn that are not made are no part of it
    silent = outcome.parts if not said and outcome.finish != "tool_calls" else None
    if said:
        yield _words("assistant", said)
    elif silent is not None and silent.bytes <= kit.room // 2:
        yield Item(role="assistant", size=silent.bytes, parts=silent, model=outcome.model)
    if asked_again and dest == PLANNING:
        yield _words("user", GO_ON if silent is not None else UNUSABLE.format(line(_problem(case))))


def _calls_at_the_end(case: GuardContext, outcome: Replied, dest: str, kit: RunResources) -> Iterator[Item]:
    """Yield a turn that calls tools where words were asked for, a result for each of its calls, and what is asked once more."""
    turn, last = _whole_turn(case, outcome, kit), not steps_left(case.run)
    yield turn
    for call in turn.calls:
        yield _words("tool", NO_STEP if last else NOT_MADE, call=call)
    if dest == PLANNING:
        yield _words("user", LAST_WORDS if last else ANSWER_NOW)


def _whole_turn(case: GuardContext, outcome: Replied, kit: RunResources) -> Item:
    """Return the model's turn as it came; one that leaves no room for its results without its provider's form, or shortened."""
    payload, parts, room = outcome.payload, outcome.parts, kit.room // 2
    pieces: tuple[Piece, ...] = (Piece(text=payload),)
    calls = case.calls
    too_long = payload.bytes > room or len(fitting(calls, kit.room)) < len(calls)
    if too_long and calls and case.plan is not None:
        steps = case.plan.steps
        pieces = (Piece(_shortened_turn(spoken(outcome.text).strip(), steps, len(calls), room)),)
        calls = tuple(step.id for step in steps)
        return Item(role="assistant", pieces=pieces, size=_size(pieces), calls=calls, whole=payload.bytes)
    if too_long:
        pieces = Piece(text=payload, bytes=min(room, payload.bytes)), Piece(CUT)
        return Item(role="assistant", pieces=pieces, size=_size(pieces), whole=payload.bytes)
    if parts is not None and (parts.bytes > room or (outcome.finish == "tool_calls" and not calls)):
        parts = None  # calls that have no result under their ids are refused
    size = max(payload.bytes, parts.bytes if parts is not None else 0)
    model = outcome.model if parts is not None else ""
    return Item(role="assistant", pieces=pieces, size=size, calls=calls, parts=parts, model=model)


def _shortened_turn(text: str, steps: tuple[Step, ...], count: int, room: int) -> str:
    """Return a turn in the form of turns with long values of its arguments cut, and only the calls that are made."""
    if count > len(steps):
        text = f"{text}\n[{count - len(steps)} more calls are left out and not made.]".strip()
    for chars in (TURN_CHARS, 400, 100, 0):
        calls = [
            {
                "id": step.id,
                "name": step.name,
                "arguments": shown_arguments(step.args, chars) if chars else {},
            }
            for step in steps
        ]
        told = json_text({"text": cut(clean(text), chars), "calls": calls})
        if len(told.encode()) <= room:
            break
    return told


def _problem(case: GuardContext) -> str:
    if case.problem is not None:
        return case.problem.message
    return case.denied or "; ".join(case.vetoes) or "it cannot be followed"


def _answered(outcome: Answered) -> str:
    if outcome.answer.action == "decline":
        return "(declined to answer)"
    return clean(answer_text(outcome.answer.content)) or "(an empty answer)"


def _unmade(run: Run, words: str, known: str = "") -> Iterator[Item]:
    """Yield a result for every call of the newest turn that has none; of the call *known* its result was told before."""
    for call in pending(run.memory.conversation):
        yield _words("tool", KNOWN if call == known else words, call=call)


def pending(items: tuple[Item, ...]) -> tuple[str, ...]:
    """Return the ids of the newest turn's calls that have no result, in their order."""
    answered: set[str] = set()
    for item in reversed(items):
        if item.role == "tool":
            answered.add(item.call)
        elif item.role == "assistant":
            return tuple(call for call in item.calls if call not in answered)
    return ()


def _words(role: Role, words: str, *, call: str = "") -> Item:
    size = len(words.encode()) + len(call.encode())
    return Item(role=role, call=call, size=size, pieces=(Piece(words),))


# -- results -----------------------------------------------------------------------------------------------------


def _result(case: GuardContext, result: ToolResult, change: Change, kit: RunResources) -> Item:
    """Return a call's result as its model reads it: whole as far as there is room, and once."""
    run, step = case.run, step_of(case.run)
    call = step.id if step is not None and run.spec.native else ""
    lead = "" if call else _lead(case, result, step)
    pieces, size, whole = _fitted(case, result, change, lead, _share(run, call, kit), kit)
    if call and _is_known(case, result, pieces, kit):
        pieces += (Piece(f"\n\n{AGAIN if result.ok else FAILED_AGAIN}"),)
        size += pieces[-1].size
    intent = run.memory.intent
    effect = result.ok and intent is not None and intent.effect != "read"
    return Item(
        role="tool" if call else "user",
        pieces=pieces,
        size=size + (len(call.encode()) if call else FENCE_BYTES + len(RESULT)),
        call=call,
        summary=f"{lead}{_summary(case, change, effect=effect)}" if result.ok else "",
        effect=effect,
        whole=whole,
    )


def _summary(case: GuardContext, change: Change, *, effect: bool) -> str:
    """Return what stands in the place of a result after a cut: of an effect its beginning and its end."""
    assert change.observation, "what is observed leaves an observation"
    text = next((text for text in case.recalled if text is not None), "").strip() if effect else ""
    if not effect or len(text) <= RESULT_CHARS:
        return change.message.summary if change.message else change.observation.summary
    if len(text) <= 2 * EFFECT_CHARS:
        return clean(text)
    return clean(f"{text[:EFFECT_CHARS].rstrip()} {CUT} {text[-EFFECT_CHARS:].lstrip()}")


def _is_known(case: GuardContext, result: ToolResult, pieces: tuple[Piece, ...], kit: RunResources) -> bool:
    """Return whether the same call brought the same before, and its tool is none that is meant to be repeated."""
    memory, tool = case.run.memory, kit.catalog.find(result.tool)
    if tool is None or tool.repeat_allowed:
        return False
    intent = memory.intent  # none of a call that was refused: what was wrong with it tells which it is
    made = memory.window.count(intent.key) > 1 if intent is not None else not result.ok
    told = _told(pieces)
    return made and any(_told(item.pieces) == told for item in memory.conversation if item.role == "tool")


def _told(pieces: tuple[Piece, ...]) -> object:
    """Return by what two results are the same: the texts that were stored, however much of them is shown, else the words."""
    stored = [(piece.words, piece.text) for piece in pieces if piece.text is not None]
    return stored or [piece.words for piece in pieces]


def _lead(case: GuardContext, result: ToolResult, step: Step | None) -> str:
    """Return how a result begins that stands in no tool's message: of which call it is."""
    intent = case.run.memory.intent
    arguments = intent.arguments if intent is not None else step.args if step is not None else {}
    told = f"{'Result' if result.ok else 'Error'} of {result.tool}"
    if step is not None and step.id:
        told += f" ({line(step.id)})"
    if arguments and step is not None:
        told += f", called with {cut(json_text(arguments), ARGUMENTS_CHARS)}"
    return f"{told}:\n"


def _size(pieces: Sequence[Piece]) -> int:
    return sum([piece.size for piece in pieces])


def _fitted(
    case: GuardContext, result: ToolResult, change: Change, lead: str, share: int, kit: RunResources
) -> tuple[tuple[Piece, ...], int, int]:
    """Return what is told of a result within *share* bytes, its bytes and, where it is cut, those of the whole; else 0."""
    after = _after(case, result, change, kit)
    tail = "".join([f"\n\n{text}" for text in after])
    tail_size = len(tail.encode())
    if tail_size > share // 3:
        tail = first_bytes(tail, share // 3) + CUT
        tail_size = len(tail.encode())
    pieces = list(_pieces(case, result, lead))
    if not pieces:
        pieces = [Piece(lead + (tail.lstrip("\n") or "(no result)"))]
        return tuple(pieces), _size(pieces), 0
    size = _size(pieces) + tail_size
    if size <= share:
        return (*pieces, *([Piece(tail)] if tail else [])), size, 0
    room = share - tail_size
    room -= len(_rest(result, room, size, kit).encode())
    cut_off = [*_first(pieces, room), Piece(_rest(result, room, size, kit)), *([Piece(tail)] if tail else [])]
    return tuple(cut_off), _size(cut_off), size


def _first(pieces: Sequence[Piece], room: int) -> Iterator[Piece]:
    """Yield the beginning of *pieces* that has *room* bytes."""
    for piece in pieces:
        if piece.size <= room:
            yield piece
            room -= piece.size
            continue
        words = first_bytes(piece.words, max(0, room))
        left = room - len(words.encode())
        yield Piece(words, piece.text, left) if left > 0 and words == piece.words else Piece(words)
        return


def _pieces(case: GuardContext, result: ToolResult, lead: str) -> Iterator[Piece]:
    """Yield what a result brought, whole."""
    if not result.ok:
        code = result.error_code or "error"
        told = result.error or code
        yield Piece(f"{lead}{'' if lead else 'Error: '}{told if code == 'tool_error' else f'{code}: {told}'}")
        if result.echo is not None and any(text is not None for text in case.recalled):
            yield Piece("\n\nIts result was:\n", result.echo)
        return
    before, many = lead, len(result.documents) > 1
    for document in result.documents:
        words = f"{document.reference} {document.name}:\n" if many else ""
        if document.text:
            yield Piece(before + words, document.payload)
        else:
            size, sees = document.payload.bytes, case.run.spec.pictures
            told = f"{before}{document.name}: {document.mime}, {size:,} bytes"
            if sees is None or not document.is_picture:
                yield Piece(f"{told}, not text")
            else:
                yield (
                    Piece(told, picture=document.payload)
                    if sees
                    else Piece(f"{told}, a picture that you are not shown")
                )
        before = "\n\n"


def _after(case: GuardContext, result: ToolResult, change: Change, kit: RunResources) -> list[str]:
    """Return what follows a result's texts: the user's answer, what is known of its pages, notes, and where documents are."""
    if not result.ok and result.echo is None:
        return [*result.notes]
    told = [clean(result.answer)] if result.answer else []
    if case.run.spec.revision > 1 and (pages := _pages(change)):
        told.append(pages)
    told += [note for note in result.notes if not note.endswith("not text")]
    if result.ok and result.documents and kit.takes_documents:
        told.append(f"Documents: docList:{result.documents[0].label}")
    return told


def _pages(change: Change) -> str:
    """Return what enrichment found of a result's pages; scores alone, in whose order they come anyway, are left out."""
    found = change.observation.web if change.observation else ()
    known = [fact.wire() for fact in found or () if fact.key_points or fact.entities]
    return f"Pages: {json_text(known)}" if known else ""


def _rest(result: ToolResult, shown: int, size: int, kit: RunResources) -> str:
    """Return what is said of a result that is cut: how much is shown, and how to read the rest."""
    if shown < ROOM_LEAST // 2:
        return f"\n[Cut: no room for {size:,} bytes.]"
    how = "call the tool for less"
    if result.documents and kit.takes_documents:
        first = result.documents[0]
        how = f"read the rest from {first.reference if len(result.documents) == 1 else f'docList:{first.label}'}"
    return f"\n[Cut: the first {shown:,} of {size:,} bytes; {how}.]"


def _share(run: Run, call: str, kit: RunResources) -> int:
    """
    Return the bytes that one result may have: a quarter of the room, less where its turn has filled that already.

    What is left in the room is shared by the calls of the turn that have no result yet; an eighth of it is for the engine's words.
    """
    turn, items = 0, run.memory.conversation
    for item in reversed(items):
        turn += item.size
        if item.role == "assistant":
            break
    calls = len(pending(items)) if call else 1 + steps_left_in_plan(run)
    left = (kit.room - kit.room // 8 - turn) // max(1, calls) - len(call.encode())
    return max(ROOM_LEAST, min(kit.room // 4, left))
