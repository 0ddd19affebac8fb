"""The world outside of a journal: effects, requests and what a caller has seen, each on disk before anything goes on."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from paor import Document, Event, ModelCall, Reply, Tool, ToolContext, ToolOutput, Usage, tool
from paor.events import TransitionTaken

from ..support.recording import sections, user_text

CALL_US, EFFECT_US = 7_000, 11_000
"""How long a model takes, and a tool: the only way in which time passes."""


class WorkClock:
    """
    A clock that stands still but for the work that is done; so the time of a run is a sum of its calls.

    Args:
        start_us: The wall clock's first reading; later for later processes.
    """

    def __init__(self, start_us: int = 1_767_225_600_000_000) -> None:
        self._start = start_us
        self._worked = 0

    def work(self, us: int) -> None:
        """Let time pass."""
        self._worked += us

    def now_us(self) -> int:
        """Return the wall clock."""
        return self._start + self._worked

    def active_us(self) -> int:
        """Return the active clock."""
        return self._worked


class Log:
    """
    JSON lines in a file, each there to stay before `add` returns.

    Args:
        path: Of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, **entry: Any) -> None:
        """Write a line."""
        os.write(self._file, json.dumps(entry, sort_keys=True).encode() + b"\n")
        os.fsync(self._file)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()])

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Outside:
    """
    Everything that one process's engine touches beside its journal.

    Args:
        folder: Where the files are, the same for all processes of a case.
        clock: Which the work moves.

    Attributes:
        pause: Called within each effect, after it took place.
    """

    def __init__(self, folder: Path, clock: WorkClock) -> None:
        self.clock = clock
        self.pause: Callable[[], None] = lambda: None
        self.effects = Log(folder / "effects.jsonl")
        self.asked = Log(folder / "asked.jsonl")
        self.seen = Log(folder / "seen.jsonl")

    def close(self) -> None:
        """Close the files."""
        for log in (self.effects, self.asked, self.seen):
            log.close()

    def hook(self, event: Event) -> None:
        """Keep what a caller is told."""
        if isinstance(event, TransitionTaken):
            self.seen.add(run=event.run_id, seq=event.seq, trigger=event.trigger, dest=event.dest)
        else:
            self.seen.add(run=event.run_id, kind=event.kind)

    def effect(self, name: str, page: int, key: str, value: Any) -> Any:
        """Take effect outside: one line, with what the call comes to."""
        self.effects.add(tool=name, page=page, key=key, value=value)
        self.clock.work(EFFECT_US)
        self.pause()
        return value

    def value_of(self, key: str) -> Any:
        """Return what the call with this key came to, None when it certainly did not happen."""
        values = [entry["value"] for entry in self.effects if entry["key"] == key]
        return values[-1] if values else None

    def tools(self) -> list[Tool]:
        """Return tools of all classes of effect."""

        @tool("notes.read", effect="read", label="page")
        def read(context: ToolContext, page: int) -> str:
            """Read one page."""
            said: str = self.effect("notes.read", page, context.idempotency_key, f"page {page}")
            return said

        @tool("notes.scan", effect="read", label="scan")
        def scan(context: ToolContext, page: int) -> ToolOutput:
            """Return documents of a page, one of them written by the model."""
            written = context.ask(
                f"Describe page {page} for: {context.objective}", [("page", f"page {page}")]
            )
            self.effect("notes.scan", page, context.idempotency_key, written)
            documents = [
                Document("text.md", written, "text/markdown"),
                Document("scan.bin", bytes(range(99))),
            ]
            return ToolOutput(documents=documents, notes=["two documents"])

        @tool("crm.put", effect="idempotent", label="note")
        def put(context: ToolContext, page: int) -> dict[str, Any]:
            """Keep a page under a key."""
            kept: dict[str, Any] = self.effect("crm.put", page, context.idempotency_key, {"kept": page})
            return kept

        @tool("mail.send", effect="once", label="receipt")
        def send(context: ToolContext, page: int) -> str:
            """Send a page; it cannot be taken back, and nobody can say whether it was sent."""
            said: str = self.effect("mail.send", page, context.idempotency_key, f"sent {page}")
            return said

        @tool("bank.pay", effect="once", label="payment", reconcile=self.value_of)
        def pay(context: ToolContext, page: int) -> dict[str, Any]:
            """Pay; the bank can say whether it was paid."""
            paid: dict[str, Any] = self.effect("bank.pay", page, context.idempotency_key, {"paid": page})
            return paid

        return [read, scan, put, send, pay]

    def problems(self) -> list[str]:
        """Return everything that was done otherwise than the classes of effect allow."""
        calls: dict[tuple[str, int], list[str]] = {}
        for entry in self.effects:
            calls.setdefault((entry["tool"], entry["page"]), []).append(entry["key"])
        found = []
        for (name, page), keys in calls.items():
            if name in ONCE and len(keys) > 1:
                found.append(f"{name}({page}) ran {len(keys)} times")
            if len(set(keys)) > 1:
                found.append(f"{name}({page}) had the keys {sorted(set(keys))}")
        return found

    def effect_counts(self) -> Counter[tuple[str, int]]:
        """Return how often each call took effect."""
        return Counter((entry["tool"], entry["page"]) for entry in self.effects)


ONCE = ("mail.send", "bank.pay")


class Speaker:
    """
    A model with a script for each objective; its n-th request in a run gets the n-th reply, in whichever process.

    Args:
        scripts: Replies by objective; ``OBJECTIVE/batch`` for its plans and reviews, where there is such a script.
        outside: Where requests are kept.
    """

    name = "speaker"

    def __init__(self, scripts: dict[str, list[Any]], outside: Outside) -> None:
        self._scripts = scripts
        self._outside = outside

    def ask(self, call: ModelCall) -> Reply:
        """Answer."""
        objective = sections(call).get("Objective", "").strip()
        text = user_text(call)
        name = objective if objective in self._scripts else next(n for n in self._scripts if n in text)
        if call.kind in ("plan", "review") and f"{name}/batch" in self._scripts:
            name = f"{name}/batch"
        self._outside.asked.add(objective=name, kind=call.kind, number=call.number)
        self._outside.clock.work(CALL_US)
        reply = self._scripts[name][call.number]
        said = reply if isinstance(reply, str) else json.dumps(reply)
        return Reply(said, Usage(1, 100 + call.number, 10 + len(said) % 7, 13 + call.number))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)
