"""
The whole promise in four short acts, with real output.

    python examples/four_claims.py

1. A live run: every step is a guarded transition, on disk before anything acts on it.
2. A strict replay: derived again from the journal alone, compared field by field; no socket, no write.
3. A kill (SIGKILL, a real process) inside a refund, right after the money has moved; another process finishes the run, and no
   order is refunded twice.
4. A prompt and a policy that were changed: each is named with the first row and field that differs, and a run that is in the
   middle is not resumed with them unless a person accepts that, which is journaled.

A script stands in for the model, so the acts are the same every time. Everything happens in a temporary folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Policy, ScriptedModel, Tool, ToolContext, replay, tool
from paor.errors import RunChanged
from paor.events import RunEnded, TransitionTaken
from paor.prompts.building.templates import default_templates
from paor.testing import SeededIds, SteppingClock

OBJECTIVE = "Refund every order that arrived broken"
ORDERS = {"A-1": "arrived broken", "A-2": "arrived well", "A-3": "arrived broken"}


@tool("orders.lookup", effect="read")
def lookup(order_id: str) -> str:
    """Say how an order arrived."""
    return f"order {order_id} {ORDERS[order_id]}"


def refund_tool(ledger: Path, dies_at: str | None) -> Tool:
    """Return a tool that moves money: each call leaves one line in *ledger*, and must not happen twice."""

    def refund(order_id: str, context: ToolContext) -> str:
        with ledger.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"order": order_id, "key": context.idempotency_key}) + "\n")
        if order_id == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)  # the money has moved, and no row says so
        return f"order {order_id} is refunded"

    def reconcile(key: str) -> str | None:
        entries = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
        found = [entry["order"] for entry in entries if entry["key"] == key]
        return f"order {found[0]} is refunded" if found else None

    parameters = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
    return Tool("orders.refund", "Refund one order.", parameters, refund, effect="once", reconcile=reconcile)


def script() -> list[dict[str, Any]]:
    """Return what the model says: look at every order, refund the broken ones, stop."""
    calls = [("orders.lookup", order) for order in ORDERS]
    calls += [("orders.refund", order) for order, how in ORDERS.items() if how == "arrived broken"]
    replies: list[dict[str, Any]] = []
    for action, order in calls:
        replies.append({"action": action, "actionObjective": f"{action} {order}", "parametersContext": order})
        replies.append({"parameters": {"order_id": order}})
        replies.append({"decision": "continue", "reason": "there are more orders"})
    replies[-1] = {"decision": "stop", "reason": "every broken order is refunded"}
    return [*replies, {"status": "success", "improvements": [], "answer": "A-1 and A-3 are refunded."}]


def shop(folder: Path, name: str, *, dies_at: str | None = None, **changes: Any) -> Engine:
    """Return the engine of the shop on the journal *name*, with its ledger beside it."""
    tools = [lookup, refund_tool(folder / f"{name}.ledger", dies_at)]
    journal = Journal(folder / f"{name}.db", lease_s=1)
    ports = {"clock": SteppingClock(), "ids": SeededIds(name)}
    return Engine(ScriptedModel(script()), tools, journal, builtins=False, **ports, **changes)


def live(folder: Path) -> str:
    """Act 1; return the run's id."""
    print("1. A live run: every step is a guarded transition, committed before anything acts on it.")
    with shop(folder, "live") as engine:
        for event in engine.stream(OBJECTIVE):
            if isinstance(event, TransitionTaken) and (event.seq < 5 or event.dest == "Done"):
                told = f"{event.seq:>4}  {event.trigger:<8} {event.source} -> {event.dest}"
                print(f"{told:<42} {event.detail}")
            elif isinstance(event, TransitionTaken) and event.seq == 5:
                print("      ...")
            elif isinstance(event, RunEnded):
                result = event.result
    print(f"      {result.state}: {result.answer}")
    return result.run_id


def replayed(folder: Path, run_id: str) -> None:
    """Act 2."""
    print("2. A strict replay: derived again from the journal alone, compared field by field.")
    file = folder / "live.db"
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    touched: list[str] = []
    watching = [True]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        """Note every socket, process and file opened for writing."""
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if watching[0] and (event.startswith(("socket.", "subprocess.", "os.exec")) or writes):
            touched.append(event)

    sys.addaudithook(watch)
    with Journal(file, read_only=True) as journal:
        found = replay(journal, run_id)
    watching[0] = False
    same = hashlib.sha256(file.read_bytes()).hexdigest() == before
    print(f"      {found.transitions} transitions, {'identical' if found.identical else 'DIVERGED'}")
    print(
        f"      sockets, processes and writes: {len(touched)}; the file is the same: {'yes' if same else 'NO'}"
    )


def killed(folder: Path) -> None:
    """Act 3."""
    print("3. A kill in the middle, and a resume that repeats no effect.")
    child = [sys.executable, str(Path(__file__)), "--child", str(folder)]
    ended = subprocess.run(child, check=False)
    with shop(folder, "killed") as engine:
        (run,) = engine.journal.runs()
        print(
            f"      the process ended by signal {-ended.returncode} in {run.state}, after {run.head_seq + 1} transitions"
        )
        result = engine.resume(run.run_id)
        whole = replay(engine.journal, run.run_id)
    entries = (folder / "killed.ledger").read_text(encoding="utf-8").splitlines()
    refunded = [json.loads(entry)["order"] for entry in entries]
    print(f"      another process went on: {result.state}, {whole.transitions} transitions, {result.answer}")
    print(f"      the ledger: {', '.join(f'{order} refunded once' for order in refunded)}")
    assert sorted(refunded) == sorted(set(refunded)), "an order was refunded twice"


def changed(folder: Path, run_id: str) -> None:
    """Act 4."""
    print("4. What was changed since is named and refused.")
    prompt = default_templates()["selection"].replace("the one next action", "one good next action", 1)
    with shop(folder, "live", prompts={"selection": prompt}) as engine:
        first = replay(engine.journal, run_id, engine).divergences[0]
        print(f"      a changed prompt: row {first.seq}, {first.field}")
        print(f"        recorded  {first.expected[:76]}...")
        print(f"        derived   {first.found[:76]}...")
    with shop(folder, "live", policy=Policy(deny=("orders.refund",))) as engine:
        first = next(
            item for item in replay(engine.journal, run_id, engine).divergences if "guards" in item.field
        )
        print(
            f"      a changed policy: row {first.seq}, {first.field} was {first.expected}, is {first.found}"
        )
    with shop(folder, "half") as engine:
        events = engine.stream(OBJECTIVE, on_close="stop")
        half = next(event.run_id for event in events if isinstance(event, TransitionTaken) and event.seq == 6)
        events.close()
    with shop(folder, "half", prompts={"selection": prompt}) as engine:
        try:
            engine.resume(half)
        except RunChanged as error:
            print("      a run in the middle is not resumed with it:")
            print(*(f"        {part}" for part in error.parts), sep="\n")
        result = engine.resume(half, accept_changes=True)
        accepted = [row.seq for row in engine.journal.transitions(half) if "spec" in row.request]
        print(f"      accepted: journaled with row {accepted[0]}, then {result.state}")


def child(folder: Path) -> None:
    """Drive the run of act 3 until the second refund kills this process."""
    with shop(folder, "killed", dies_at="A-3") as engine:
        engine.run(OBJECTIVE)


def main(arguments: Sequence[str] = ()) -> None:
    """Play the four acts, or be the process that dies in the third."""
    if len(arguments) == 2 and arguments[0] == "--child":
        child(Path(arguments[1]))
        return
    with tempfile.TemporaryDirectory(prefix="four-claims-") as name:
        folder = Path(name)
        run_id = live(folder)
        replayed(folder, run_id)
        killed(folder)
        changed(folder, run_id)


if __name__ == "__main__":
    main(sys.argv[1:])
