"""
Agents of users, for the tests of the public crash matrix: sound ones, and some that are broken in a way of their own.

Each is named as ``tests.crash.agents:NAME`` and imported in every process of a matrix; the current folder is the case's.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Limits, Policy, Result, ScriptedModel, Task, Tool, ToolContext, tool
from paor.errors import AnswerNeeded, NotStarted
from paor.fsm.journal.record import COLUMNS
from paor.fsm.journal.sqlite.backend import SqliteBackend
from paor.fsm.journal.store import JournalStore
from paor.testing import answer, call, refine, review

SENT = Path("sent.txt")


def sent(text: str) -> str:
    """Send something: a line in a file of the case."""
    with SENT.open("a") as file:
        file.write(f"{text}\n")
    return f"sent {text}"


def world() -> list[str]:
    """Return what was sent."""
    return SENT.read_text().splitlines() if SENT.exists() else []


@tool("notes.read", effect="read")
def read(page: int) -> str:
    """Read a page."""
    return f"page {page}"


@tool("mail.send", effect="once")
def send(to: str) -> str:
    """Send a mail."""
    return sent(to)


@tool("mail.send", effect="read")
def wrongly_labelled(to: str) -> str:
    """Send a mail, which is taken for reading."""
    return sent(to)


@tool("mail.send", effect="idempotent")
def not_idempotent(to: str) -> str:
    """Send a mail, whatever the key."""
    return sent(to)


@tool("mail.send", effect="once")
def send_bytes(to: str) -> bytes:
    """Send a mail, and return what nobody could type in."""
    return sent(to).encode()


@tool("mail.send", effect="once")
async def send_async(to: str, context: ToolContext) -> dict[str, Any]:
    """Send a mail, after asking who it is from; the answer is data."""
    if context.resumption is None:
        raise AnswerNeeded("Who is it from?")
    await asyncio.sleep(0)
    return {"sent": sent(f"{to} from {context.resumption.content}")}


@tool("mail.send", effect="once", retries=1)
def send_later(to: str) -> str:
    """Send a mail on the second attempt."""
    if not Path("busy").exists():
        Path("busy").touch()
        raise NotStarted("the line is busy")
    return sent(to)


@tool("notes.read", effect="read", timeout_s=0.05)
async def read_slowly(page: int) -> str:
    """Read a page, if anybody waits for it."""
    await asyncio.sleep(3600)
    return f"page {page}"


@tool("mail.send", effect="once", timeout_s=0.05)
async def send_slowly(to: str) -> str:
    """Send a mail, if anybody waits for it."""
    await asyncio.sleep(3600)
    return sent(to)


SEND = [*call("mail.send", to="a@example.org"), refine("stop"), review("success", answer="Sent.")]
SCRIPT = [*call("notes.read", page=1), refine("continue"), *SEND]


def sound(journal: Journal) -> Engine:
    """Return an agent that reads and sends."""
    return Engine(ScriptedModel(SCRIPT), [read, send], journal, builtins=False)


def timing_out(journal: Journal) -> Engine:
    """Return an agent whose every call is given up at its deadline: an error, and a doubt."""
    return Engine(ScriptedModel(SCRIPT), [read_slowly, send_slowly], journal, builtins=False)


def _with(sender: Tool, script: list[Any] = SEND, **options: Any) -> Any:
    return lambda journal: Engine(ScriptedModel(script), [read, sender], journal, builtins=False, **options)


mislabelled = _with(wrongly_labelled)
repeating = _with(not_idempotent)
silent = _with(send_bytes)
asking = _with(send_async, policy=Policy(approvals=("mail.*",)))


def start_async(engine: Engine) -> Result:
    """Start the run on an event loop."""
    return asyncio.run(engine.arun("Send it"))


TASKS = [Task("Send the first"), Task("Send the second")]


def start_tasks(engine: Engine) -> Result:
    """Start a workflow of two tasks."""
    return engine.run_workflow("Send both", tasks=TASKS)


def of_tasks(journal: Journal) -> Engine:
    """Return an agent whose two tasks send the same, each once; the whole is reviewed by the same script's end."""

    class Model(ScriptedModel):
        def ask(self, request: Any) -> Any:
            whole = request.kind == "review" and request.number == 0
            return self.whole.ask(request) if whole else super().ask(request)

        whole = ScriptedModel([review("success", answer="Both are sent.")])

    return Engine(Model(SEND), [send], journal, builtins=False)


REVIEWED, BY_MODEL = [answer("Known."), review("success")], Limits(completion_review="model")
"""An answer that a second request reviews: two rows, so that a run can be lost between them."""


class LateStore(JournalStore):
    """A store that keeps a row for itself until the next one comes: faster, and not durable."""

    kept: list[Any]

    def append(self, entry: Any) -> None:
        """Keep every third row back."""
        self.kept = [*getattr(self, "kept", []), entry]
        row = dict(zip(COLUMNS, entry.row, strict=True))
        if row["seq"] % 3 or row["dest"] in ("Done", "Failed"):
            entries, self.kept = self.kept, []
            for each in entries:
                super().append(each)


def late(journal: Journal) -> Engine:
    """Return an agent on a journal that loses a row."""
    journal.close()
    own = Journal("late.db", "normal")
    own.store.close()
    backend = SqliteBackend("late.db", "normal", busy_timeout_s=30.0, read_only=False)
    own.store = LateStore(backend, durability="normal")
    return Engine(ScriptedModel(REVIEWED), [], own, builtins=False, limits=BY_MODEL)


def forgetful(journal: Journal) -> Engine:
    """Return an agent whose script goes on where the process left it, not where the run stands."""

    class Model(ScriptedModel):
        count = 0

        def ask(self, request: Any) -> Any:
            self.count += 1
            return self._replies[(self.count - 1) % len(self._replies)]

    return Engine(Model(REVIEWED), [], journal, builtins=False, limits=BY_MODEL)


def wandering(journal: Journal) -> Engine:
    """Return an agent that never says the same twice."""
    known = answer(f"Known since {time.time_ns()} by {os.getpid()}.")
    return Engine(ScriptedModel([known]), [], journal, builtins=False)


def hanging(journal: Journal) -> Engine:
    """Return an agent whose second process never ends."""
    if Path("started").exists():
        time.sleep(600)
    Path("started").touch()
    return sound(journal)


def leaving(journal: Journal) -> Engine:
    """Return an engine that leaves a process behind, which holds whatever this one had open."""
    left = subprocess.Popen(["sleep", "60"])
    Path("left.txt").write_text(str(left.pid))
    return sound(journal)


def not_an_engine(journal: Journal) -> object:
    """Return something else."""
    journal.close()
    return 3


def absolute(journal: Journal) -> Engine:
    """Return an agent on a journal that all cases would share."""
    journal.close()
    return Engine(ScriptedModel(SCRIPT), [read, send], Journal(":memory:", "off"))


def start_nothing(engine: Engine) -> object:
    """Return no result."""
    return None


def resume_newest(engine: Engine) -> Result:
    """Go on as this agent's own program does: always with a run that was started anew."""
    return engine.run("Send it")
