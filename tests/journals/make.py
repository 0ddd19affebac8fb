"""
Write the golden journal of the present schema: ``python tests/journals/make.py``.

A journal that was released is never made again; a new schema gets a file of its own. Clock and ids are fixed, so the
runs are the same whenever this is run by the same version of paor. Beside the file stands its export as text, and
``digests.txt`` holds what the tests compare both with.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Policy, Reply, Task, Tool, tool
from paor.errors import ToolError
from paor.fsm.journal.sqlite.migrations import newest
from paor.fsm.transfer.export import export_runs, in_order, line_bytes
from paor.prompts.building.templates import DIVIDER, default_templates, parse_template
from paor.testing import SeededIds, SteppingClock

HERE = Path(__file__).resolve().parent
ERASED_AT = 1_767_225_900_000_000
LETTER = (
    "Dear Ms Example,\nthe parcel of 3 May was left with the neighbour at number 12.\n"
    'She asks you to call before six: "after that I am out", she says \N{EM DASH} until Monday.\n'
)


SHORT = {
    name: f"The {name}, in JSON.\n{DIVIDER}\n"
    + "\n\n".join(f"{{{{KEY:{key}}}}}" for key in sorted(parse_template(text).keys))
    for name, text in default_templates().items()
}
"""Prompts for most of the runs, since the shipped ones would be most of the file; the first run has those."""


class Lost(BaseException):
    """The process ends here, as far as the engine can tell."""


@tool("notes.read", effect="read", label="page")
def read(page: int) -> str:
    """Read one page of the notes."""
    return f"Page {page}: the supplier delivers within {page * 10} days of the order."


@tool("notes.fail", effect="read")
def fail(page: int) -> str:
    """Fail."""
    raise ToolError(f"page {page} is torn out")


@tool("notes.send", effect="once", label="receipt")
def send(text: str) -> str:
    """Send a note."""
    return f"sent: {text}"


@tool("notes.lose", effect="once")
def lose(page: int) -> str:
    """Take the driver along, after the effect."""
    raise Lost


class ByKind:
    """A model that answers by the kind of the request, one reply after the other; the last one stays."""

    name = "golden"

    def __init__(self, **replies: Sequence[Any]) -> None:
        self._replies = {kind: list(given) for kind, given in replies.items()}

    def ask(self, call: Any) -> Reply:
        """Answer."""
        given = self._replies[call.kind]
        reply = given.pop(0) if len(given) > 1 else given[0]
        return Reply(reply if isinstance(reply, str) else json.dumps(reply))

    async def aask(self, call: Any) -> Reply:
        """Do the same."""
        return self.ask(call)


def select(name: str = "notes.read", **fields: str) -> dict[str, Any]:
    """Return a selection."""
    schema = [
        {"name": key, "type": kind, "required": True} for key, kind in (fields or {"page": "number"}).items()
    ]
    return {
        "action": name,
        "actionObjective": f"use {name}",
        "learnings": [],
        "requiredInputDocuments": [],
        "requiredConnection": None,
        "parametersContext": "as the objective says",
        "parametersSchema": {"fields": schema},
    }


def values(**given: Any) -> dict[str, Any]:
    """Return parameters."""
    return {"schema": "parameters_v1", "parameters": given}


def step(name: str = "notes.read", **args: Any) -> dict[str, Any]:
    """Return a plan's step."""
    return {"type": "tool", "name": name, "args": args, "reason": ""}


GOES_ON = {"decision": "continue", "reason": "there is more", "hint": "read on"}
STOPS = {"decision": "stop", "reason": "enough", "answer": "It takes 20 days."}
SUCCESS = {"status": "success", "improvements": [], "answer": "It takes 20 days."}
ASKS = {
    "intention": "ask",
    "steps": [
        {
            "type": "elicitation",
            "elicitation": {
                "message": "Which page?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"page": {"type": "integer"}},
                    "required": ["page"],
                },
            },
        }
    ],
}
REACT: Mapping[str, Sequence[Any]] = {
    "selection": [select()],
    "parameters": [values(page=1), values(page=2)],
    "refinement": [GOES_ON, STOPS],
    "review": [SUCCESS],
}


def make(folder: Path) -> dict[str, Path]:
    """Write journal, export and digests of the present schema into *folder*; return the first two by their endings."""
    path, text = folder / f"schema{newest()}.db", folder / f"schema{newest()}.jsonl"
    for old in (path, text):
        old.unlink(missing_ok=True)
    with Journal(path) as journal:
        _runs(journal)
    with Journal(path, read_only=True) as journal:
        defects = journal.verify()
        assert not defects, defects
        text.write_bytes(
            b"".join(line_bytes(line) for line in export_runs(journal.reader, in_order(journal.reader)))
        )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
        connection.execute(
            "PRAGMA journal_mode=DELETE"
        )  # so that no log is beside it; a writer makes it WAL again
    write_digests(folder)
    return {"db": path, "jsonl": text}


def write_digests(folder: Path) -> None:
    """Write the digests of all journals and exports of a folder."""
    lines = [
        f"{digest(path)}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.suffix in (".db", ".jsonl")
    ]
    (folder / "digests.txt").write_text("".join(lines), encoding="utf-8")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _runs(journal: Journal) -> None:
    clock, ids = SteppingClock(), SeededIds("golden")

    def engine(replies: Mapping[str, Sequence[Any]], *tools: Tool, **options: Any) -> Engine:
        ports: dict[str, Any] = {"clock": clock, "ids": ids, "builtins": False, "prompts": SHORT}
        return Engine(ByKind(**replies), [read, *tools], journal, **{**ports, **options})

    _of_every_mode(engine)
    _that_did_not_end(engine)
    _of_workflows(engine)
    _erased(journal, engine)


def _of_every_mode(engine: Any) -> None:
    """React, batch and planner; failed, refused, repeated and formatted."""
    criteria = ["every page is read", "the dates are listed"]
    first = engine(REACT, prompts=None).run(
        "How long does a delivery take?",
        success_criteria=criteria,
        language="en",
        key="question \N{SNOWMAN} 1",
        metadata={"tenant": "acme", "share": 0.1, "tiny": 1e-7, "tags": ["b", {"z": 1, "a": None}]},
    )
    engine({**REACT, "answer": [{"answer": "Ten days."}]}, prompts=None).fork(first.run_id, 4)
    refused = [values(page=1), values(page="one")]
    engine({**REACT, "selection": [select("notes.fail"), select()], "parameters": refused}, fail).run(
        "Read \N{SNOWMAN}"
    )
    engine({"selection": ["no JSON"]}).run("Fail")
    plan = {"intention": "read", "steps": [step(page=1), step("notes.send", text="$step[0].output")]}
    engine({"plan": [plan, {"steps": []}], "review": [SUCCESS]}, send).run(
        "Plan", mode="planner", final_format="md"
    )
    failing = {"selection": ["no JSON"], "plan": [plan], "review": [SUCCESS]}
    engine(failing, send).run("Fall back", fallback="batch", key="fall back", metadata={"tries": 2})


def _that_did_not_end(engine: Any) -> None:
    """One waits for an approval, one for an answer, one is in doubt; one of each was answered."""
    sends = {
        **REACT,
        "selection": [select("notes.send", text="string")],
        "parameters": [values(text="hello")],
    }
    policy = Policy(approvals=("notes.send",))
    engine(sends, send, policy=policy).run("Wait for an approval")
    answered = engine({**sends, "refinement": [STOPS]}, send, policy=policy)
    answered.resume(answered.run("Be approved").run_id, answer={"approve": True})
    engine({"plan": [ASKS], "review": [SUCCESS]}).run("Wait for an answer", mode="planner")
    losing = {**REACT, "selection": [select("notes.lose")], "refinement": [STOPS]}
    for outcome in (None, "done"):
        lost = engine(losing, lose)
        try:
            lost.run("Lose the driver")
        except Lost:
            result = lost.resume(lost.journal.runs()[0].run_id)
            assert result.status == "waiting", result
            if outcome is not None:
                lost.resume(result.run_id, outcome=outcome, result="it arrived")


def _of_workflows(engine: Any) -> None:
    """Two rounds of tasks; the second round gets what the first produced."""
    once = {**REACT, "refinement": [STOPS]}
    tasks = [Task("Read page one"), Task("Read page two", dependencies=["task_1"])]
    flow = engine(once).run_workflow("Read both pages", tasks=tasks)
    task_plan = {"tasks": [{"id": "again", "objective": "Read page one again"}]}
    engine({**once, "task_plan": [task_plan]}).follow_up(flow.run_id, "And once more")


def _erased(journal: Journal, engine: Any) -> None:
    """By run, by document and by payload; twice of one run."""
    kinds: tuple[dict[str, Any], ...] = ({}, {"documents": [0]}, {"payloads": [2]})
    for number, what in enumerate(kinds):
        once = engine({**REACT, "refinement": [STOPS]})
        result = once.run(
            "Answer the letter",
            documents=[("letter.txt", LETTER + str(number))],
            context=LETTER[40:110],
            key=f"letter-{number}",
            metadata={"letter": number},
        )
        erase: dict[str, Any] = {"others": "keep", "reason": f"TICKET-{number}", "at": ERASED_AT + number}
        journal.erase(result.run_id, **what, **erase)
        if number == 2:
            journal.erase(result.run_id, payloads=[3], **(erase | {"reason": None}))


if __name__ == "__main__":
    for made in make(HERE).values():
        sys.stdout.write(f"{made.name}: {made.stat().st_size:,} bytes\n")
