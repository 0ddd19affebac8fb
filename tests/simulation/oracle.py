"""What must hold at the end of a world: of the file, of what happened outside, and of both together."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from paor import Journal, replay

from .outside import ONCE, TIMED, Call
from .people import Message

if TYPE_CHECKING:
    from .world import World

ANSWERS = """
SELECT t.run, t.seq, t.outcome, p.body FROM transitions t
LEFT JOIN payloads p ON p.run = t.run AND p.n = json_extract(t.outcome, '$.answer.n')
WHERE t.trigger = 'provide' ORDER BY t.id
"""
DOCUMENTS = """
SELECT d.run, d.label, p.body FROM documents d JOIN payloads p ON p.run = d.run AND p.n = d.payload ORDER BY d.id
"""


class Oracle:
    """
    The judgement on one world after its end.

    Args:
        world: Which; all its runs were brought to their end.
        journal: Its journal, opened anew.
    """

    def __init__(self, world: World, journal: Journal) -> None:
        self.world, self.journal, self.watch = world, journal, world.watch
        self.say = world.watch.say
        self.accepted: list[tuple[int, Message]] = []

    def judge(self) -> None:
        """Hold everything to the promises."""
        self.file_holds()
        self.nothing_is_lost()
        self.messages_count_once()
        self.effects_happen_once()
        self.results_are_true()

    def file_holds(self) -> None:
        """It verifies, and every run follows from its rows."""
        for defect in self.journal.verify():
            self.say(f"verify: {defect}")
        for row in self.journal.runs():
            found = replay(self.journal, row.run_id)
            if not found.identical:
                self.say(f"replay: run {row.run}: {found.divergences[:1]}")

    def nothing_is_lost(self) -> None:
        """Every row that was committed is there as it was, and no other; every run has ended."""
        found = {
            (run, seq): digest
            for run, seq, digest in self.journal.reader.query("SELECT run, seq, hash FROM transitions")
        }
        if found != self.watch.rows:
            lost = sorted(self.watch.rows.keys() - found.keys())
            self.say(f"lost: rows {lost[:3]}, or others than were committed")
        for row in self.journal.runs():
            if row.status not in ("done", "failed"):
                self.say(f"stuck: run {row.run} is {row.status} in {row.state}")

    def messages_count_once(self) -> None:
        """Each message settles the one question that it was for, if any."""
        by_words = {message.words: message for message in self.world.people.messages}
        settled: set[str] = set()
        for run, seq, outcome, body in self.journal.reader.query(ANSWERS):
            words = json.loads(body).get("reason") if body else None
            if words is None:
                if json.loads(outcome).get("action") != "decline":
                    self.say(f"answer: run {run} row {seq} has an answer that nobody gave")
                continue
            message = by_words[words]
            self.accepted.append((run, message))
            if words in settled:
                self.say(f"answer: {words} has settled two questions")
            settled.add(words)
            asked = message.question.id.partition("-")[0]
            if self.watch.run_ids[run] != message.run_id or int(asked) != seq - 1:
                self.say(
                    f"answer: {words} to row {asked} of {message.run_id} has settled run {run} row {seq}"
                )

    def effects_happen_once(self) -> None:
        """A once call begins once, and once more for each time that somebody said so; attempts of an action share its key."""
        retries = Counter(message.question.key for _, message in self.accepted if message.decision == "retry")
        effects: Counter[str] = Counter()
        keys: dict[tuple[str, int], set[str]] = {}
        for call in self.world.outside.calls:
            if call.tool in ONCE:
                effects[call.key] += len(call.effects)
            keys.setdefault((call.tool, call.page), set()).add(call.key)
        for key, count in effects.items():
            asked = len(
                {
                    run
                    for run, message in self.accepted
                    if (message.decision, message.question.key) == ("accept", key)
                }
            )
            if count > retries[key] + max(
                1, asked
            ):  # a fork asks anew whether a call may be made that it shares
                self.say(
                    f"once: the effect under {key} happened {count} times, {retries[key]} were asked for"
                )
        for (name, page), found in keys.items():
            runs = Counter(key.rpartition("-")[0] for key in found)
            if any(count > 1 for count in runs.values()):
                self.say(f"key: {name} {page} was called under {sorted(found)}")

    def results_are_true(self) -> None:
        """What the journal says was done has happened under that key, in time, and was taken in once."""
        calls = {token: call for call in self.world.outside.calls for token in call.effects}
        messages = self.world.people.messages
        said = {f"said in {message.words}" for message in messages if message.decision == "done"}
        times: Counter[tuple[int, str]] = Counter()
        for run, label, body in self.journal.reader.query(DOCUMENTS):
            text = body if isinstance(body, str) else body.decode()
            call = calls.get(text)
            if call is None:
                if text not in said:
                    self.say(f"result: {label} of run {run} says {text!r}, which nobody did")
                continue
            times[run, text] += 1
            if times[run, text] > 1 and call.tool in ONCE:
                self.say(f"result: {text!r} is twice in run {run}")
            self._in_time(run, call, text)

    def _in_time(self, run: int, call: Call, text: str) -> None:
        from .outside import BOUND_S

        if call.tool not in TIMED or call.tool == "bank.transfer":  # that can be asked later
            return
        if not call.ended_us or call.ended_us - call.began_us > BOUND_S * 1e6:
            self.say(f"late: run {run} has accepted {text!r} after its deadline")


def totals(world: World) -> dict[str, Any]:
    """Return what a world came to, in numbers."""
    return {
        "runs": len(world.watch.run_ids),
        "rows": len(world.watch.rows),
        "calls": len(world.outside.calls),
        "messages": len(world.people.messages),
        "kills": world.kills,
        "faults": world.disk.faults,
        "points": world.schedule.points,
        "processes": len(world.table.all),
    }
