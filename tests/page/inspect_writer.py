"""A process that drives a run and says when each row was committed: for tests of what another process shows of it."""

from __future__ import annotations

import sys
import time
from typing import Any

from paor import Engine, Limits, ScriptedModel, tool
from paor.events import Event
from paor.testing import call, refine, review


@tool("notes.read", effect="read", repeat_allowed=True)
def read(page: int) -> str:
    """Read one page."""
    time.sleep(0.01)
    return f"page {page}"


def main(path: str, pages: int, pause_s: float) -> None:
    """Read *pages* pages in one run, with a pause after each row; print each row and the time at which it was durable."""

    def hook(event: Event) -> None:
        if event.kind == "transition":
            print(event.seq, time.time(), flush=True)
            time.sleep(pause_s)

    script: list[Any] = []
    for page in range(pages):
        script += [*call("notes.read", page=page), refine("continue" if page < pages - 1 else "stop")]
    model = ScriptedModel([*script, review("success", answer="All is read.")])
    with Engine(model, [read], path, limits=Limits(max_steps=pages), hooks=[hook]) as engine:
        sys.stdin.readline()
        engine.run("Read all pages")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
