"""paor, the same as for the others: crash in an effect, resume, a changed journal, changed code. See README.md here."""

import os
import signal
import sqlite3
import sys
from pathlib import Path

from paor import Engine, Journal, ScriptedModel, replay, tool

LEDGER = Path("ledger.txt")


@tool("orders.pay", effect="once")
def pay() -> str:
    """Pay the first order."""
    with LEDGER.open("a") as file:
        file.write("paid A-1\n")
    if "crash" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid A-1"


REPLIES = [
    {"action": "orders.pay", "actionObjective": "pay", "parametersSchema": {"fields": []}},
    {"decision": "stop", "reason": "paid"},
    {"status": "success", "improvements": [], "answer": "told about A-1"},
]


def engine(**options):
    return Engine(ScriptedModel(REPLIES), tools=[pay], journal="paor.db", **options)


def drive():
    with engine() as driver:
        runs = driver.journal.runs()
        outcome = {"outcome": "done", "result": "paid A-1"} if "done" in sys.argv else {}
        result = driver.resume(runs[0].run_id, **outcome) if runs else driver.run("Pay the first order")
        asked = result.waiting_for.kind if result.waiting_for else result.answer
        print(result.state, result.status, asked, LEDGER.read_text().split("\n")[:-1])


def tamper():
    """Change which order the journal speaks of."""
    with sqlite3.connect("paor.db") as file:
        changed = 0
        for table, column in (("rows", "texts"), ("texts", "body")):
            where = f"{column} LIKE '%first%'"
            changed += file.execute(
                f"UPDATE {table} SET {column} = replace({column}, 'first', 'third') WHERE {where}"
            ).rowcount
        print(changed, "texts changed")
    with Journal("paor.db", read_only=True) as journal:
        print([str(defect) for defect in journal.verify()])


def changed():
    """Replay with another prompt."""
    from paor.prompts.building.templates import default_templates

    prompts = {"review": default_templates()["review"].replace("task", "job", 1)}
    with engine(prompts=prompts) as other:
        found = replay(other.journal, other.journal.runs()[0].run_id, other)
        print(found.identical, found.divergences[0].seq, found.divergences[0].field)


if __name__ == "__main__":
    {"start": drive, "resume": drive, "tamper": tamper, "changed": changed}[sys.argv[1]]()
