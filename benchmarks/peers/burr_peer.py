"""Burr, for the comparison: crash in an effect, resume, a changed state, a bad graph. See README.md here."""

import os
import signal
import sqlite3
import sys
from pathlib import Path

from burr.core import ApplicationBuilder, action
from burr.core.persistence import SQLLitePersister

LEDGER = Path("ledger.txt")


@action(reads=[], writes=["order"])
def choose(state):
    return state.update(order="A-1")


@action(reads=["order"], writes=["paid"])
def pay(state):
    with LEDGER.open("a") as file:
        file.write(f"paid {state['order']}\n")
    if "crash" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return state.update(paid=True)


@action(reads=["order"], writes=["told"])
def tell(state):
    return state.update(told=f"told about {state['order']}")


def application(transitions=(("choose", "pay"), ("pay", "tell"))):
    persister = SQLLitePersister(db_path="burr.db")
    persister.initialize()
    return (
        ApplicationBuilder()
        .with_actions(choose, pay, tell)
        .with_transitions(*transitions)
        .initialize_from(persister, resume_at_next_action=True, default_state={}, default_entrypoint="choose")
        .with_state_persister(persister)
        .with_identifiers(app_id="1", partition_key="1")
        .build()
    )


def drive():
    *_, state = application().run(halt_after=["tell"])
    print(state.get_all(), LEDGER.read_text().split("\n")[:-1])


def tamper():
    """Change the order that the stored state names."""
    with sqlite3.connect("burr.db") as file:
        file.execute("UPDATE burr_state SET state = replace(state, 'A-1', 'B-9')")


def static():
    """Build graphs that are wrong; say which are refused."""
    cases = {
        "a node that nothing leads to": [("choose", "pay")],
        "an edge to a node that is not there": [("choose", "nowhere")],
        "a loop without an end": [("choose", "pay"), ("pay", "choose")],
    }
    for name, transitions in cases.items():
        try:
            application(transitions)
            print(f"{name}: accepted")
        except ValueError as error:
            print(f"{name}: refused, {str(error).splitlines()[0]}")


if __name__ == "__main__":
    {"start": drive, "resume": drive, "tamper": tamper, "static": static}[sys.argv[1]]()
