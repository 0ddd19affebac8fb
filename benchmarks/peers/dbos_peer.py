"""DBOS, for the comparison: crash in an effect, recovery, a changed record, changed code. See README.md here."""

import base64
import os
import signal
import sqlite3
import sys
import time
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from dbos._error import DBOSUnexpectedStepError

LEDGER = Path("ledger.txt")


@DBOS.step()
def choose() -> str:
    return "A-1"


@DBOS.step()
def pay(order: str) -> str:
    with LEDGER.open("a") as file:
        file.write(f"paid {order}\n")
    if "crash" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {order}"


@DBOS.step()
def other(order: str) -> str:
    return f"other {order}"


@DBOS.step()
def tell(order: str) -> str:
    if "crash-later" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"told about {order}"


@DBOS.workflow()
def agent(prompt: str) -> str:
    order = choose()
    if "changed-step" in sys.argv:
        other(order)
    else:
        pay("Z-0" if "changed-argument" in sys.argv else order)
    return tell(order)


def tamper():
    """Change the order that the record of a finished step names; by default it is a pickle in base64."""
    with sqlite3.connect("dbos.db") as file:
        rows = file.execute("SELECT rowid, function_name, output FROM operation_outputs").fetchall()
        for row, name, output in rows:
            changed = base64.b64decode(output).replace(b"A-1", b"B-9")
            print(name, output, "->", changed)
            file.execute(
                "UPDATE operation_outputs SET output = ? WHERE rowid = ?",
                (base64.b64encode(changed).decode(), row),
            )


if __name__ == "__main__":
    if sys.argv[1] == "tamper":
        tamper()
        sys.exit()
    DBOS(
        config={
            "name": "peer",
            "system_database_url": "sqlite:///dbos.db",
            "application_version": "1",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    DBOS.launch()  # recovers what was pending
    try:
        with SetWorkflowID("1"):
            handle = DBOS.start_workflow(agent, "pay the first order")
        print(handle.get_result(), LEDGER.exists() and LEDGER.read_text().split("\n")[:-1])
    except DBOSUnexpectedStepError as error:
        print(type(error).__name__, str(error)[:300])
    time.sleep(0.2)
    DBOS.destroy()
