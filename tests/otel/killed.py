"""
An agent that is killed after each of its rows, and resumed: a script, because its processes are copies of one that has no threads.

    python -m tests.otel.killed FOLDER URL

It prints one JSON line a case: the row, whether what was over had been sent before, and the run's id.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Limits, Policy, ScriptedModel
from paor.otel import OpenTelemetry

from ..support.journey import CALL, SEND, scan
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS, flaky

SCRIPT: list[Any] = [
    *READ(1),
    CONTINUE,
    *CALL("notes.flaky"),
    CONTINUE,
    SELECT("notes.scan"),
    PARAMETERS(page=1),
    "A page with a drawing.",
    CONTINUE,
    *SEND("hello"),
    CONTINUE,
    *CALL("notes.fail"),
    STOP,
    SUCCESS,
]


def agent(folder: Path, **options: Any) -> Engine:
    """Return an engine whose run retries, waits for an approval, and has a tool that asks the model."""
    return Engine(
        ScriptedModel(SCRIPT),
        [*TOOLS, flaky(1, retries=2), scan],
        Journal(folder / JOURNAL, "off"),
        builtins=False,
        policy=Policy(approvals=("notes.send",)),
        limits=Limits(max_steps=9),
        **options,
    )


def go(folder: Path, url: str, *, kill_at: int | None = None, sent: bool = False) -> None:
    """Start the run or go on with it, to its end or until this process is killed right after a row."""
    hook = OpenTelemetry(url, interval_s=0.01)

    def killer(event: Any) -> None:
        if event.kind == "transition" and event.seq == kill_at:
            if sent:
                hook.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    with agent(folder, hooks=[hook, killer]) as engine:
        known = engine.journal.runs()
        result = engine.resume(known[0].run_id) if known else engine.run("Read the notes")
        while result.status == "waiting":
            assert result.waiting_for is not None
            doubt = result.waiting_for.kind == "in_doubt"
            given: Any = {"outcome": "retry"} if doubt else {"answer": {"approve": True}}
            result = engine.resume(result.run_id, question=result.waiting_for.id, **given)
        assert result.status in ("done", "failed"), result
    hook.close()


def in_child(*arguments: Any, **options: Any) -> int:
    """Do `go` in a copy of this process, and return its exit status."""
    child = os.fork()
    if not child:
        code = 1
        try:
            go(*arguments, **options)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def main(folder: Path, url: str) -> None:
    """Kill the agent after every row, once with what was over sent before and once as it comes."""
    with agent(
        folder
    ) as engine:  # whatever is made on first use is there before the first copy, and no thread is left
        engine.run("Read the notes")
    OpenTelemetry(url).close()  # imports what sends, before the first copy is made
    whole = folder / "whole"
    whole.mkdir()
    assert in_child(whole, url) == 0
    with Journal(whole / JOURNAL, read_only=True) as journal:
        count = journal.runs()[0].head_seq + 1
    for row in range(count):
        for sent in (False, True):
            case = folder / f"{row}-{sent}"
            case.mkdir()
            assert in_child(case, url, kill_at=row, sent=sent) == signal.SIGKILL
            assert in_child(case, url) == 0
            with Journal(case / JOURNAL, read_only=True) as journal:
                told = {"row": row, "sent": sent, "run_id": journal.runs()[0].run_id, "folder": str(case)}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
