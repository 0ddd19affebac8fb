"""LangGraph, for the comparison: crash in an effect, resume, a changed state, a bad graph. See README.md here."""

import operator
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

LEDGER = Path("ledger.txt")


class State(TypedDict):
    order: str
    notes: Annotated[list, operator.add]


def choose(state):
    return {"order": "A-1", "notes": ["chosen"]}


def pay(state):
    with LEDGER.open("a") as file:
        file.write(f"paid {state['order']}\n")
    if "crash" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"notes": ["paid"]}


def tell(state):
    return {"notes": [f"told about {state['order']}"]}


def graph(saver):
    builder = StateGraph(State)
    for node in (choose, pay, tell):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "choose")
    builder.add_edge("choose", "pay")
    builder.add_edge("pay", "tell")
    builder.add_edge("tell", END)
    return builder.compile(checkpointer=saver)


def drive(start):
    with SqliteSaver.from_conn_string("langgraph.db") as saver:
        config = {"configurable": {"thread_id": "1"}}
        state = graph(saver).invoke({"order": "", "notes": []} if start else None, config, durability="sync")
        print(state, LEDGER.read_text().split("\n")[:-1])


def tamper():
    """Change the order that the stored state names."""
    with sqlite3.connect("langgraph.db") as file:
        for table, column in (("checkpoints", "checkpoint"), ("writes", "value")):
            for row, blob in file.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
                changed = bytes(blob).replace(b"A-1", b"B-9")
                file.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))


def static():
    """Compile graphs that are wrong; say which are refused."""

    def wrong(change):
        builder = StateGraph(State)
        for node in (choose, pay, tell):
            builder.add_node(node.__name__, node)
        builder.add_edge(START, "choose")
        change(builder)
        return builder.compile()

    cases = {
        "a node that nothing leads to": lambda b: b.add_edge("choose", "pay"),
        "an edge to a node that is not there": lambda b: b.add_edge("choose", "nowhere"),
        "a loop without an end": lambda b: (b.add_edge("choose", "pay"), b.add_edge("pay", "choose")),
    }
    for name, change in cases.items():
        try:
            wrong(change)
            print(f"{name}: accepted")
        except ValueError as error:
            print(f"{name}: refused, {error}")


if __name__ == "__main__":
    {"start": lambda: drive(True), "resume": lambda: drive(False), "tamper": tamper, "static": static}[
        sys.argv[1]
    ]()
