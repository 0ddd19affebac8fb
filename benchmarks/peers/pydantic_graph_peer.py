"""pydantic-graph, for the comparison: crash in an effect, starting again, a bad graph. See README.md here."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from pydantic_graph import GraphBuilder
from pydantic_graph.exceptions import GraphValidationError

LEDGER = Path("ledger.txt")


def note(order):
    with LEDGER.open("a") as file:
        file.write(f"paid {order}\n")


def parts():
    builder = GraphBuilder(output_type=str)

    @builder.step
    async def choose(context) -> str:
        return "A-1"

    @builder.step
    async def pay(context) -> str:
        note(context.inputs)
        if "crash" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        return context.inputs

    @builder.step
    async def tell(context) -> str:
        return f"told about {context.inputs}"

    return builder, choose, pay, tell


def drive():
    """Nothing is stored, so a second start begins at the beginning."""
    builder, choose, pay, tell = parts()
    builder.add(
        builder.edge_from(builder.start_node).to(choose),
        builder.edge_from(choose).to(pay),
        builder.edge_from(pay).to(tell),
        builder.edge_from(tell).to(builder.end_node),
    )
    print(asyncio.run(builder.build().run()), LEDGER.read_text().split("\n")[:-1])


def static():
    """Build graphs that are wrong; say which are refused."""

    def edges(case):
        builder, choose, pay, tell = parts()
        builder.add(builder.edge_from(builder.start_node).to(choose))
        if case == "a node that nothing leads to":
            builder.add(
                builder.edge_from(choose).to(builder.end_node), builder.edge_from(pay).to(builder.end_node)
            )
        elif case == "a node that leads nowhere":
            builder.add(builder.edge_from(choose).to(pay), builder.edge_from(tell).to(builder.end_node))
        elif case == "a loop without an end":
            builder.add(builder.edge_from(choose).to(pay), builder.edge_from(pay).to(choose))
        return builder.build()

    for case in ("a node that nothing leads to", "a node that leads nowhere", "a loop without an end"):
        try:
            edges(case)
            print(f"{case}: accepted")
        except GraphValidationError as error:
            print(f"{case}: refused, {str(error).partition(' If this')[0]}")


if __name__ == "__main__":
    {"start": drive, "resume": drive, "static": static}[sys.argv[1]]()
