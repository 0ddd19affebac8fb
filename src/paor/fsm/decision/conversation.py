"""
What each row adds to a run's conversation. Pure: from the case that was decided, whatever machine decided it.

A conversation only grows: every item is made here, once, by the row that brought it, and a request is all of it behind a head that
never changes (`prompts.building.conversation`). So each request begins with the bytes of the one before it. When it would no longer
fit the model's context it is cut in one block, to half of its room.

Source: DESIGN section 9; what providers require of continued turns: each call of a turn has its result before the next turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...prompts.parsing.turns import spoken
from ...states.base.wire import json_text
from ...states.records.actions import StoredText, ToolResult
from ...states.records.conversation import Item, Piece, Spoken, cut_of
from ...states.records.outcomes import Answered, Replied
from ...states.records.plans import Step
from ...states.run.budgets import steps_left, tools_withheld
from ...states.run.phase_names import OBSERVING, PHASES, PLANNING, REVIEWING
from ...states.run.state import Change, Run
from .guard_context import GuardContext
from .observation import TURN_CHARS, answer_text, clean, cut, line, summary_of
from .plan_mode import step_of
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
ROOM_LEAST = 2_000
"""Least bytes of a result that are shown, however little room there is."""


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
    if not run.spec.converses or run.counters.formatted:
        return None
    items = tuple(_items(case, trigger, dest, change, kit))
    return Spoken(items, cut_of((*run.memory.conversation, *items), kit.room)) if items else None


def _items(case: GuardContext, trigger: str, dest: str, change: Change, kit: RunResources) -> Iterator[Item]:
    outcome, run = case.outcome, case.run
    if not run.spec.plans:
        if run.state == OBSERVING and case.result is not None:
            yield _words("assistant", _action(change))
            yield _result(case, case.result, change, kit)
        return
    if (
        isinstance(outcome, Replied) and run.state != REVIEWING
    ):  # what a judge asks for is told when the run goes on
        if run.state not in PHASES:
            yield _words("user", kit.phase_words(run))
        yield from _turn(case, outcome, trigger, dest)
    elif isinstance(outcome, Answered) and run.state == PLANNING:
        yield _words("user", _answered(outcome))
    elif run.state == OBSERVING and case.result is not None:
        yield _result(case, case.result, change, kit)
    if dest != PLANNING or run.state == PLANNING:
        return
    if trigger == "withhold":
        yield from _unmade(run, KNOWN)
        yield _words("user", ANSWER_NOW)
    elif run.state == REVIEWING and trigger == "proceed":
        yield from _next_turn(run)
    else:
        yield from _unmade(run, NOT_MADE)
        asked = "\n".join(f"- {line(text)}" for text in change.improvements or ())
        yield _words("user", f"That is not enough yet.\n{asked}" if asked else NOT_ENOUGH)


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


def _turn(case: GuardContext, outcome: Replied, trigger: str, dest: str) -> Iterator[Item]:
    """Yield the model's turn and, where it is asked again, why."""
    asked_again = trigger == "reselect" or (case.run.state == PLANNING and case.problem is not None)
    if not asked_again and (case.calls or outcome.finish != "tool_calls"):
        size = max(outcome.payload.bytes, outcome.parts.bytes if outcome.parts is not None else 0)
        model = outcome.model if outcome.parts is not None else ""
        yield Item(
            role="assistant",
            pieces=(Piece(text=outcome.payload),),
            size=size,
            calls=case.calls,
            parts=outcome.parts,
            model=model,
        )
        return
    said = cut(clean(spoken(outcome.text).strip()), TURN_CHARS)  # calls that are not made are no part of it
    silent = outcome.parts if not said and outcome.finish != "tool_calls" else None
    if said:
        yield _words("assistant", said)
    elif silent is not None:
        yield Item(role="assistant", size=silent.bytes, parts=silent, model=outcome.model)
    if asked_again and dest == PLANNING:
        yield _words("user", GO_ON if silent is not None else UNUSABLE.format(line(_problem(case))))


def _problem(case: GuardContext) -> str:
    if case.problem is not None:
        return case.problem.message
    return case.denied or "; ".join(case.vetoes) or "it cannot be followed"


def _answered(outcome: Answered) -> str:
    if outcome.answer.action == "decline":
        return "(declined to answer)"
    return clean(answer_text(outcome.answer.content)) or "(an empty answer)"


def _unmade(run: Run, words: str) -> Iterator[Item]:
    """Yield a result for every call of the newest turn that has none."""
    for call in pending(run.memory.conversation):
        yield _words("tool", words, call=call)


def pending(items: tuple[Item, ...]) -> tuple[str, ...]:
    """Return the ids of the newest turn's calls that have no result, in their order."""
    answered: set[str] = set()
    for item in reversed(items):
        if item.role == "tool":
            answered.add(item.call)
        elif item.role == "assistant":
            return tuple(call for call in item.calls if call not in answered)
    return ()


def _words(role: str, words: str, *, call: str = "") -> Item:
    return Item.of({"role": role, "call": call, "size": len(words.encode()), "pieces": [{"words": words}]})


# -- results -----------------------------------------------------------------------------------------------------


def _result(case: GuardContext, result: ToolResult, change: Change, kit: RunResources) -> Item:
    """Return a call's result as its model reads it: whole as far as there is room, and once."""
    step, native = step_of(case.run), case.run.spec.native
    call = step.id if step is not None and native else ""
    lead = "" if call else _lead(case, result, step)
    pieces = tuple(_pieces(case, result, change, lead, kit))
    if call and _is_known(case, result, pieces, kit):
        pieces += (Piece(f"\n\n{AGAIN if result.ok else FAILED_AGAIN}"),)
    summary = f"{lead}{summary_of(change.observation)}" if result.ok and change.observation else ""
    return Item(
        role="tool" if call else "user", pieces=pieces, size=_size(pieces), call=call, summary=summary
    )


def _is_known(case: GuardContext, result: ToolResult, pieces: tuple[Piece, ...], kit: RunResources) -> bool:
    """Return whether the same call brought the same before, and its tool is none that is meant to be repeated."""
    memory, tool = case.run.memory, kit.catalog.find(result.tool)
    if tool is None or tool.repeat_allowed:
        return False
    intent = memory.intent  # none of a call that was refused: what was wrong with it tells which it is
    made = memory.window.count(intent.key) > 1 if intent is not None else not result.ok
    return made and any(item.pieces == pieces for item in memory.conversation if item.role == "tool")


def _lead(case: GuardContext, result: ToolResult, step: Step | None) -> str:
    """Return how a result begins that stands in no tool's message: of which call it is."""
    intent = case.run.memory.intent
    arguments = intent.arguments if intent is not None else step.args if step is not None else {}
    told = f"{'Result' if result.ok else 'Error'} of {result.tool}"
    if step is not None and step.id:
        told += f" ({line(step.id)})"
    if arguments and step is not None:
        told += f", called with {json_text(arguments)}"
    return f"{told}:\n"


def _size(pieces: tuple[Piece, ...]) -> int:
    size = 0
    for piece in pieces:
        size += len(piece.words.encode())
        if piece.text is not None:
            size += piece.chars or piece.text.bytes
    return size


def _pieces(
    case: GuardContext, result: ToolResult, change: Change, lead: str, kit: RunResources
) -> Iterator[Piece]:
    if not result.ok:
        code = result.error_code or "error"
        told = result.error or code
        told = told if code == "tool_error" else f"{code}: {told}"
        yield Piece("\n\n".join((f"{lead}{'' if lead else 'Error: '}{told}", *result.notes)))
        if result.echo is None:
            return
        yield Piece("\n\nIts result was:\n")
        lead, places = "", [("", result.echo, True)]
    else:
        many = len(result.documents) > 1
        places = [
            (
                f"{document.reference} {document.name}:\n" if many else "",
                document.payload,
                not _is_binary(case, number, document.mime),
            )
            for number, document in enumerate(result.documents)
        ]
    share, first = _share(case.run, kit), lead
    for number, (words, place, readable) in enumerate(places):
        before = first if number == 0 else "\n\n"
        first = ""
        if not readable:
            document = result.documents[number]
            yield Piece(f"{before}{document.name}: {document.mime}, {place.bytes:,} bytes, not text")
            continue
        if place.bytes <= share:
            share -= place.bytes
            yield Piece(before + words, place)
            continue
        chars = max(200, share * _chars_per_1000(case, number, place) // 1000)
        share = 0
        yield Piece(before + words, place, chars)
        yield Piece(_rest(result, number, place, chars, kit))
    yield from _after(case, result, change, kit, said=bool(places), lead=lead)


def _after(
    case: GuardContext, result: ToolResult, change: Change, kit: RunResources, *, said: bool, lead: str
) -> Iterator[Piece]:
    """Yield what follows a result's texts: the user's answer, what is known of its pages, notes, and where documents are."""
    told = [clean(result.answer)] if result.answer else []
    if case.run.spec.revision > 1 and (pages := _pages(change)):
        told.append(pages)
    told += [note for note in result.notes if not note.endswith("not text")]
    if result.ok and result.documents and kit.takes_documents:
        label = result.documents[0].label
        told.append(f"Documents: docList:{label}")
    if not said and not told:
        told.append("(no result)")
    for number, text in enumerate(told):
        yield Piece(f"{lead if not said and number == 0 else chr(10) * 2}{text}")


def _pages(change: Change) -> str:
    """Return what enrichment found of a result's pages; scores alone, in whose order they come anyway, are left out."""
    found = change.observation.web if change.observation else ()
    known = [fact.wire() for fact in found or () if fact.key_points or fact.entities]
    return f"Pages: {json_text(known)}" if known else ""


def _rest(result: ToolResult, number: int, place: StoredText, chars: int, kit: RunResources) -> str:
    """Return what is said of a text that is cut: how much is shown, and how to read the rest."""
    how = "call the tool for less"
    if result.documents and kit.takes_documents:
        how = f"read the rest from {result.documents[number].reference}"
    return f"\n[Cut: the first {chars:,} characters of {place.bytes:,} bytes; {how}.]"


def _is_binary(case: GuardContext, number: int, mime: str) -> bool:
    recalled = case.recalled
    if number < len(recalled):
        return recalled[number] is None
    return not (mime.startswith("text/") or mime.endswith(("json", "xml", "yaml", "csv")))


def _chars_per_1000(case: GuardContext, number: int, place: StoredText) -> int:
    """Return how many characters a thousand bytes of a text are, as far as it was recalled."""
    text = case.recalled[number] if number < len(case.recalled) else None
    return len(text) * 1000 // max(1, place.bytes) if text else 1000


def _share(run: Run, kit: RunResources) -> int:
    """Return the bytes that one result may have: a quarter of the context, less where its turn has filled that already."""
    turn = 0
    for item in reversed(run.memory.conversation):
        turn += item.size
        if item.role == "assistant":
            break
    return max(ROOM_LEAST, min(kit.room // 4, kit.room - turn - kit.room // 8))
