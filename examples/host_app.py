"""
An order desk that embeds paor: one engine, sixteen tools, one journal, 120 tickets.

    python examples/host_app.py [JOURNAL]

The tickets go through the engine one by one, in eight threads, and in asyncio. A person (here: a rule) approves,
declines or cancels what waits. Then the journal is verified and every run is replayed. No key, no network: the model
is a script. With JOURNAL the journal stays, and the command line reads it: ``paor runs --journal JOURNAL``.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from host_desk import Desk
from host_tickets import Ticket, tickets
from host_tools import host_tools

from paor import Engine, Journal, Limits, ModelCall, Policy, Question, Reply, Result, ScriptedModel, replay

THREADS = 8


class TicketModel:
    """
    A model that has a script for each ticket; which one, it reads in the prompt.

    It keeps no state of a run: the number of a request comes from the journal, so a run that waits can go on later,
    in another thread or process.
    """

    name = "tickets"

    def __init__(self, given: Sequence[Ticket]) -> None:
        self.scripts = {ticket.number: ScriptedModel(ticket.replies) for ticket in given}

    def ask(self, call: ModelCall) -> Reply:
        """Answer from the script of the ticket that the prompt is about."""
        found = re.search(r"T-\d{3}", "\n".join(message.text for message in call.messages))
        if found is None:
            raise ValueError("the prompt names no ticket")
        return self.scripts[found[0]].ask(call)

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same; a real model would await its server here."""
        return self.ask(call)


def make_engine(journal: Journal | str, desk: Desk | None = None, given: Sequence[Ticket] = ()) -> Engine:
    """Return the desk's engine; ``paor tools --app host_app:make_engine`` shows its tools."""
    return Engine(
        model=TicketModel(given or tickets()),
        tools=host_tools(desk or Desk()),
        journal=journal,
        limits=Limits(max_steps=5),
        policy=Policy(deny=("*.purge",), approvals=("payments.refund",)),
        builtins=False,
    )


def decide(ticket: Ticket, question: Question) -> dict[str, bool]:
    """Show the person in charge (here: a rule) what would be done, and return the answer."""
    told = ", ".join(f"{name}={value!r}" for name, value in (question.arguments or {}).items())
    print(f"  {ticket.number}: {question.tool}({told}), {question.effect}: {ticket.decision}")
    return {"approve": ticket.decision == "approve"}


def work(engine: Engine, ticket: Ticket) -> Result:
    """Drive one ticket to its end in this thread."""
    result = engine.run(ticket.objective, **ticket.options)
    if (question := result.waiting_for) is not None:
        if ticket.decision == "cancel":
            return engine.cancel(result.run_id)
        return engine.resume(result.run_id, question=question.id, answer=decide(ticket, question))
    return result


async def awork(engine: Engine, ticket: Ticket) -> Result:
    """Drive one ticket to its end on the running event loop."""
    result = await engine.arun(ticket.objective, **ticket.options)
    if (question := result.waiting_for) is not None:
        if ticket.decision == "cancel":
            return await asyncio.to_thread(engine.cancel, result.run_id)
        return await engine.aresume(result.run_id, question=question.id, answer=decide(ticket, question))
    return result


def drive(engine: Engine, given: Sequence[Ticket]) -> list[tuple[Ticket, Result]]:
    """Drive all tickets: two fifths one by one, two fifths in threads, the rest in asyncio."""
    first, second = 2 * len(given) // 5, 4 * len(given) // 5

    async def rest() -> list[Result]:
        return await asyncio.gather(*(awork(engine, ticket) for ticket in given[second:]))

    results = [work(engine, ticket) for ticket in given[:first]]
    with ThreadPoolExecutor(THREADS) as pool:
        results += pool.map(lambda ticket: work(engine, ticket), given[first:second])
    results += asyncio.run(rest())
    counts = (first, second - first, len(given) - second)
    print("{} tickets one by one, {} in {} threads, {} in asyncio".format(*counts[:2], THREADS, counts[2]))
    return list(zip(given, results, strict=True))


def summary(done: Sequence[tuple[Ticket, Result]], engine: Engine) -> int:
    """Print what came of it; return how many tickets ended otherwise than they should."""
    for state in ("Done", "Failed"):
        reasons = Counter(result.reason for _, result in done if result.state == state)
        told = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items(), key=str))
        print(f"  {state:<7}{sum(reasons.values()):>4}  {told}")
    surprises = [pair for pair in done if (pair[1].state, pair[1].reason) != (pair[0].state, pair[0].reason)]
    for ticket, result in surprises:
        print(f"  {ticket.number} ({ticket.shape}): {result.state} ({result.reason}), run {result.run_id}")
    print(f"ended as they should: {len(done) - len(surprises)} of {len(done)}")
    tokens = sum(result.usage.tokens_in + result.usage.tokens_out for _, result in done)
    rows = sum(row.head_seq + 1 for row in engine.journal.runs())
    print(f"{sum(result.steps for _, result in done):,} steps, {rows:,} transitions, {tokens:,} tokens")
    return len(surprises)


def check(engine: Engine) -> int:
    """Verify the journal and replay every run, offline and against this engine; return the number of defects."""
    defects = engine.journal.verify()
    print(f"verify: {len(defects)} defects")
    runs = engine.journal.runs()
    replays = [replay(engine.journal, row.run_id, engine) for row in runs]
    identical = sum(item.identical for item in replays)
    print(f"replay: {identical} of {len(runs)} runs identical")
    return len(defects) + len(runs) - identical


def main(journal: Path) -> int:
    """Drive, report and check; return the exit code."""
    given = tickets()
    with make_engine(str(journal), Desk(), given) as engine:
        done = drive(engine, given)
        wrong = summary(done, engine)
        wrong += check(engine)
        for script in engine.model.scripts.values() if isinstance(engine.model, TicketModel) else ():
            script.assert_all_used()
    print(f"journal: {journal.stat().st_size / 1e6:.1f} MB")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(main(Path(folder, "desk.db")))
