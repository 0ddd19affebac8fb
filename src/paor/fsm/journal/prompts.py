"""
The prompt of a row: its messages, of which a conversation's rows name only those that are new.

A row's request has ``prompt``, references to messages, in a conversation with ``roles``, one letter each, and, where the run's prompt
before began with the same ones, ``after: [seq, count]``: the first *count* messages of the prompt of row *seq* stand before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...prompts.building.conversation import round_messages
from ...states.base.errors import JournalDamaged
from ...states.records.outcomes import USED
from ...states.run.state import Run
from .reader import JournalReader
from .rows import Transition

ROLES = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "r": "round"}
"""Who speaks, by the letter in a row."""


class MessagePlace(NamedTuple):
    """
    Where a message of a prompt is.

    Attributes:
        run: Number of the run whose row refers to it.
        place: How that row does.
        role: Who speaks; empty where the row does not say it.
    """

    run: int
    place: Mapping[str, Any]
    role: str = ""


def with_summary(row: Transition) -> list[Transition]:
    """
    Return a row as the requests that it holds: before its own, where there is one, the one for a summary of its conversation.

    Each has its own usage; of the row itself it is the sum.
    """
    if (asked := row.request.get("summary")) is None:
        return [row]
    came, outcome = row.outcome["summary"], dict(row.outcome)
    del outcome["summary"]
    for name in USED:
        if name in came:
            outcome[name] -= came[name]
    if (calls := outcome.pop("calls", 1)) > 1 and "reply" not in outcome:
        outcome["calls"] = calls - 1
    request = {name: value for name, value in row.request.items() if name != "summary"}
    return [row._replace(request=asked, outcome=came), row._replace(request=request, outcome=outcome)]


def inner_places(row: Transition) -> list[list[Mapping[str, Any]]]:
    """Return where the texts of requests beside a row's own are, prompt and reply: of its tool, and for a summary, whose last message is the question."""
    pairs = [list(pair) for pair in row.outcome.get("texts", ())]
    for one in with_summary(row)[:-1]:
        came = one.outcome.get("reply") or one.outcome.get("message")
        pairs.append([place for place in (one.request["prompt"][-1], came) if place])
    return pairs


class EarlierRows(Mapping[int, Transition]):
    """
    The rows of a run by number, each read when it is asked for.

    Args:
        journal: That holds them.
        run_id: Id of the run.
    """

    def __init__(self, journal: JournalReader, run_id: str) -> None:
        self._journal, self._run_id = journal, run_id

    def __getitem__(self, seq: int) -> Transition:
        found = self._journal.transitions(self._run_id, seq, seq)
        if not found:
            raise KeyError(seq)
        return found[0]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return self._journal.run(self._run_id).head_seq + 1


Known = dict[int, list[MessagePlace]]
"""By number of a row the places of its prompt, of the rows whose prompts were asked for last."""

_KNOWN = 8


def prompt_places(
    rows: Sequence[Transition] | Mapping[int, Transition], row: Transition, known: Known | None = None
) -> list[MessagePlace]:
    """
    Return where the messages of a row's prompt are, in order; none for a row that asked no model.

    Args:
        rows: By number, those before *row* that asked a model; those that a fork shares included.
        row: Of the same run.
        known: Prompts that were found before in the same run, for one who asks for row after row; this one is added.

    Raises:
        JournalDamaged: It refers to a prompt that is not there.
    """
    asked, known = row.seq, {} if known is None else known
    parts: list[list[MessagePlace]] = []
    count: int | None = None
    while row.seq not in known:
        roles = row.request.get("roles", "")
        own = [
            MessagePlace(row.run, place, ROLES.get(roles[number : number + 1], ""))
            for number, place in enumerate(row.request.get("prompt", ()))
        ]
        seq, before = row.request.get("after") or (-1, 0)
        if count is not None:
            own, before = own[: max(0, count - before)], min(before, count)
        parts.append(own)
        if not before:
            break
        try:
            earlier = rows[seq] if 0 <= seq < row.seq else None
        except LookupError:
            earlier = None
        if earlier is None or earlier.seq != seq:
            raise JournalDamaged(f"row {row.seq}: its prompt begins as that of row {seq}, which is not there")
        row, count = earlier, before
    else:
        parts.append(known[row.seq][:count])
    while len(known) >= _KNOWN:
        del known[next(iter(known))]
    known[asked] = [place for part in reversed(parts) for place in part]
    return known[asked]


def told_messages(
    places: Iterable[MessagePlace], text_of: Callable[[MessagePlace], str | None]
) -> Iterator[tuple[str, str | None]]:
    """
    Yield role and text of a prompt's messages, those of an earlier round one by one.

    Args:
        places: Of the messages.
        text_of: Reads one; None once it is erased.
    """
    for place in places:
        text = text_of(place)
        if place.role != "round" or text is None:
            yield place.role, text
            continue
        for message in round_messages(text):
            yield message.role, message.body


def last_prompt(journal: JournalReader, run: Run) -> tuple[int, list[str]]:
    """Return the number of the row with the newest request of a run's conversation, and its messages; -1 and none for none."""
    rows = journal.transitions(run.run_id) if run.seq else []
    row = next((item for item in reversed(rows) if "roles" in item.request), None)
    if row is None:
        return -1, []
    bodies = [journal.payload(found.run, found.place["n"]).body for found in prompt_places(rows, row)]
    return row.seq, [body if isinstance(body, str) else "" for body in bodies]
