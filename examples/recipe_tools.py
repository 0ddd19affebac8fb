"""
Restrict or extend the tools of a run.

    python examples/recipe_tools.py

An engine has its host's tools and the built-in ones. A run may be given a list: only these are offered, and only these are
executed, whatever the model asks for. A policy goes further: what it denies is never executed, under any name. On the command
line the list is ``--tools calc.days,document.extract``.
"""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

from paor import Engine, Journal, Policy, ScriptedModel, tool
from paor.errors import UsageError


@tool("calc.days", effect="read")
def days(start: str, end: str) -> str:
    """Count the days between two dates."""
    between = datetime.date.fromisoformat(end) - datetime.date.fromisoformat(start)
    return f"{between.days} days"


@tool("mail.send")
def send(text: str) -> str:
    """Send a mail."""
    return "sent"


SEND = {"action": "mail.send", "actionObjective": "tell them", "parametersContext": "the number of days"}
COUNT = {
    "action": "calc_days",
    "actionObjective": "count the days",
    "parametersContext": "1 May to 1 June 2026",
}
SCRIPT = [
    SEND,
    COUNT,
    {"parameters": {"start": "2026-05-01", "end": "2026-06-01"}},
    {"decision": "stop", "reason": "the days are counted"},
    {"status": "success", "improvements": [], "answer": "31 days."},
]
"""The model wants to send a mail first; asked again, it counts. ``calc_days`` is ``calc.days`` in another spelling."""


def main() -> None:
    """Run with a list, with a policy, and with a list that names a tool that is not there."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "runs.db", "off")
        model = ScriptedModel(SCRIPT)
        with Engine(model=model, tools=[days, send], journal=journal) as engine:
            result = engine.run("How many days is it?", tools=["calc.days"])
            print(f"with a list: {result.state}, {result.answer}")
            taken = [row.trigger for row in engine.journal.transitions(result.run_id)]
            print(f"the mail was {'not sent' if taken[0] == 'reselect' else 'sent'}")
            try:
                engine.run("How many days is it?", tools=["calc.dates"])
            except UsageError as error:
                print(f"refused: {error}")
        journal = Journal(Path(folder) / "other.db", "off")
        with Engine(model, [days, send], journal, policy=Policy(deny=("mail.*",))) as engine:
            result = engine.run("How many days is it?")
            print(f"with a policy: {result.state}, {result.answer}")


if __name__ == "__main__":
    main()
