"""A text that is shown elsewhere by its place is gone everywhere once it is erased."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from paor import Engine, Journal, ScriptedModel, replay
from paor.testing import call_tools, scripted_tool, step

PAGE = (
    "The supplier shall deliver the goods within thirty days of the order, and tell the buyer of any delay."
)


def test_an_erased_document_is_in_no_observation(tmp_path: Path) -> None:
    """Its number alone is given; the row that observed it has none of its words, and verifies and replays as far as it goes."""
    model = ScriptedModel([call_tools(step("notes.read")), "Read."])
    with Journal(tmp_path / "runs.db") as journal:
        engine = Engine(
            model=model, tools=[scripted_tool("notes.read", [PAGE])], journal=journal, profile="native"
        )
        run_id = engine.run("Read the notes.").run_id
        seen = next(row for row in journal.transitions(run_id) if row.trigger == "observe")
        change = journal.reader.change(seen.run, f'{{"n":{seen.change["n"]}}}')
        assert change.observation and change.observation.previews[0].snippet == PAGE
        (number,) = seen.request["payloads"]
        journal.erase(run_id, payloads=[number])
        assert not journal.verify()
        found = replay(journal, run_id)
        assert not found.divergences and {item.seq for item in found.unchecked} >= {seen.seq}
    with sqlite3.connect(tmp_path / "runs.db") as file:
        bodies = [body for (body,) in file.execute("SELECT body FROM payloads WHERE typeof(body) = 'text'")]
    assert bodies and not [body for body in bodies if PAGE[10:60] in body]
