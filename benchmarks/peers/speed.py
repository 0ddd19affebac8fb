"""
How fast paor and other libraries keep each step of an agent: ``python benchmarks/peers/speed.py [NAME ...]``.

The work is the same for all: a run of N iterations of five phases, which do nothing but leave a record of 332 bytes of
JSON. It is in a SQLite file before the next phase begins. The measure is the same, too: the raw floor (`../floor.py`),
one INSERT and one COMMIT a phase. Each library takes turns with it, in a process of its own. Opening and closing are not
timed. After each run the records in the file are counted, so that nobody is measured who has not kept every step.

paor does more than the others in this time: it builds a prompt for each question to its scripted model, parses the reply,
checks a tool's arguments, and stores prompts and replies as well. In one thing it does less: two of the five phases share
a COMMIT, so it waits for the disk four times an iteration. LangGraph has two COMMITs a phase, the others have one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

sys.path.insert(0, str(Path(__file__).parents[1]))
from floor import PHASES, RAW_BYTES, SYNCHRONOUS, run_raw_floor

TEXT = "x" * (RAW_BYTES - len('{"text": ""}'))
CYCLE = (*PHASES, PHASES[0])
Runs = Iterator[Callable[[], object]]
"""What a function below yields: once, what makes the run. After that it closes the file."""


class Peer(NamedTuple):
    """A library: what to install, where its file has the records, and what prepares a run."""

    packages: tuple[str, ...]
    table: str
    column: str
    prepared: Callable[[Path, str, int], AbstractContextManager[Callable[[], object]]]


PEERS: dict[str, Peer] = {}


def peer(name: str, table: str, column: str, *packages: str) -> Callable[[Callable[..., Runs]], None]:
    """Register the decorated function as what prepares a run: in a file, with a durability, of so many steps."""
    return lambda prepared: PEERS.update({name: Peer(packages, table, column, contextmanager(prepared))})


def _opened(path: Path, durability: str) -> sqlite3.Connection:
    """Return a connection like the floor's, for those who take one."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
    return connection


@peer("by hand", "log", "body", "transitions")
def _by_hand(path: Path, durability: str, steps: int) -> Runs:
    """A machine of `transitions`; an INSERT and a COMMIT before each of its transitions."""
    from transitions import Machine

    moves = [["advance", source, dest] for source, dest in pairwise(CYCLE)]
    machine: Any = Machine(states=list(PHASES), transitions=moves, initial=PHASES[0])

    def run() -> None:
        for _ in range(steps):
            record = machine.state, json.dumps({"text": TEXT})
            connection.execute("INSERT INTO log (phase, body) VALUES (?, ?)", record)
            connection.commit()
            machine.advance()

    with closing(_opened(path, durability)) as connection:
        connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, phase TEXT, body TEXT)")
        yield run


@peer("eventsourcing", "stored_events", "state", "eventsourcing")
def _eventsourcing(path: Path, durability: str, steps: int) -> Runs:
    """One aggregate; a phase is an event, and each is saved. There is no machine: the loop names the phase."""
    from eventsourcing.application import Application
    from eventsourcing.domain import Aggregate, event
    from eventsourcing.utils import clear_topic_cache

    clear_topic_cache()  # it has the class that the last call made

    class Agent(Aggregate):
        @event("Ended")
        def end(self, phase: str, text: str) -> None:
            self.phase = phase

    def run() -> None:
        for step in range(steps):
            agent.end(phase=PHASES[step % 5], text=TEXT)
            kept.save(agent)

    kept: Any = Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)})
    with kept.factory.datastore.get_connection(commit=True) as connection:  # the only one of the pool
        connection.cursor().execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
    agent = Agent()
    kept.save(agent)
    yield run
    kept.close()


@peer("pydantic-graph", "log", "body", "pydantic-graph")
def _pydantic_graph(path: Path, durability: str, steps: int) -> Runs:
    """A graph of five steps and a decision. The package has no store, so the loop over its tasks keeps each step."""
    from pydantic_graph import EndMarker, GraphBuilder

    async def phase(context: Any) -> int:
        done: int = context.inputs + 1
        return done

    builder: Any = GraphBuilder(input_type=int, output_type=int)
    nodes = [builder.step(phase, node_id=name) for name in PHASES]
    more = builder.match(int, matches=lambda done: done < steps).to(nodes[0])
    again = builder.decision(node_id="again").branch(more).branch(builder.match(int).to(builder.end_node))
    edges = [builder.edge_from(source).to(dest) for source, dest in pairwise((*nodes, again))]
    builder.add(builder.edge_from(builder.start_node).to(nodes[0]), *edges)
    graph = builder.build()

    async def run() -> None:
        async with graph.iter(inputs=0) as tasks:
            async for task in tasks:
                if not isinstance(task, EndMarker) and task[0].node_id in (*PHASES[1:], "again"):
                    record = task[0].node_id, task[0].inputs, json.dumps({"text": TEXT})
                    connection.execute("INSERT INTO log (next, inputs, body) VALUES (?, ?, ?)", record)
                    connection.commit()

    with closing(_opened(path, durability)) as connection:
        connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, next TEXT, inputs INTEGER, body TEXT)")
        yield lambda: asyncio.run(run())


@peer("unhinged", "c_default", "state", "unhinged")
def _unhinged(path: Path, durability: str, steps: int) -> Runs:
    """One durable task whose steps are the phases; its worker runs in this thread."""
    from unhinged import Unhinged

    host = Unhinged(str(path), synchronous=durability)

    @host.register_task("agent")
    def agent(_: Any, context: Any) -> None:
        for step in range(steps):
            context.step(PHASES[step % 5], lambda: {"text": TEXT})

    host.spawn("agent")
    yield host.run_until_idle
    host.close()


@peer("burr", "burr_state", "state", "apache-burr")
def _burr(path: Path, durability: str, steps: int) -> Runs:
    """A state machine of five actions with its persister for SQLite, which stores the state after each."""
    from burr.core import ApplicationBuilder, action
    from burr.core.persistence import SQLitePersister

    @action(reads=[], writes=["text"])
    def phase(state: Any) -> Any:
        return state.update(text=TEXT)

    with closing(_opened(path, durability)) as connection:
        persister: Any = SQLitePersister(str(path), connection=connection)
        persister.initialize()
        builder: Any = ApplicationBuilder().with_actions(**dict.fromkeys(PHASES, phase))
        builder = builder.with_transitions(*pairwise(CYCLE)).with_entrypoint(PHASES[0])
        application = builder.with_state_persister(persister).with_identifiers(app_id="1").build()
        yield lambda: [application.step() for _ in range(steps)]


@peer("langgraph", "checkpoints", "checkpoint", "langgraph", "langgraph-checkpoint-sqlite")
def _langgraph(path: Path, durability: str, steps: int) -> Runs:
    """A graph of five nodes with its checkpointer for SQLite; a node starts when the last checkpoint is stored."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    class Shared(TypedDict):
        text: str
        done: int

    builder: Any = StateGraph(Shared)
    for source, dest in pairwise((START, *PHASES)):
        builder.add_node(dest, lambda state: {"text": TEXT, "done": state["done"] + 1})
        builder.add_edge(source, dest)
    builder.add_conditional_edges(PHASES[-1], lambda state: PHASES[0] if state["done"] < steps else END)
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": steps + 1}
    with closing(_opened(path, durability)) as connection:
        graph = builder.compile(checkpointer=SqliteSaver(connection))
        yield lambda: graph.invoke({"text": "", "done": 0}, config, durability="sync")


@peer("paor", "rows", '"row"', "paor")
def _paor(path: Path, durability: str, steps: int) -> Runs:
    """The scripted run of `../workload.py` with a tool that returns one word; prompts and replies are stored, too."""
    import workload

    workload.DOCUMENT = "read"
    with workload.engine(path, durability=durability, iterations=steps // 5) as host:
        yield lambda: host.run("Read all pages of the contract", ["every page is read"])


def _costs(peer: Peer, path: Path, durability: str, steps: int) -> tuple[float, float]:
    """Return the seconds and the processor's seconds of one run, once its file is found to hold all records."""
    with peer.prepared(path, durability, steps) as run:
        started, used = time.perf_counter(), time.process_time()
        run()
        seconds, used = time.perf_counter() - started, time.process_time() - used
    with closing(sqlite3.connect(path)) as connection:
        counted = f"SELECT count(*), sum(length(CAST({peer.column} AS BLOB))) FROM {peer.table}"
        records, size = connection.execute(counted).fetchone()
    assert records >= steps and size >= steps * len(TEXT), f"{records} records, {size} bytes of {steps} steps"
    return seconds, used


def measured(name: str, durability: str, steps: int, pairs: int) -> list[float]:
    """Return the floor's seconds by a library's, its processor time by the floor's, the floor's us a step; medians."""
    figures = []
    for _ in range(pairs + 1):
        with tempfile.TemporaryDirectory(prefix="paor-speed-") as folder:
            seconds, used = _costs(PEERS[name], Path(folder, "own.db"), durability, steps)
            floor, floor_used = run_raw_floor(Path(folder, "floor.db"), steps, durability)
        figures.append((floor / seconds, used / floor_used, floor / steps * 1e6))
    return [statistics.median(values) for values in zip(*figures[1:], strict=True)]  # the first pair warms up


def main() -> None:
    """Measure the libraries named on the command line, or all, and print their table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(PEERS)}; default all")
    parser.add_argument("--iterations", type=int, default=200, help="iterations of five phases; default 200")
    parser.add_argument("--pairs", type=int, default=5, help="runs beside the floor; default 5")
    options = parser.parse_args()
    line = "{:<15} {:<8} {:>14} {:>18} {:>12} {:>16}".format
    columns = "library", "version", "share (normal)", "processor (normal)", "share (full)", "processor (full)"
    table = [line(*columns)]
    floors = []
    for name in options.names or PEERS:
        try:
            versions = [version(package) for package in PEERS[name].packages]
        except PackageNotFoundError:
            print(f"{name} is left out: pip install {' '.join(PEERS[name].packages)}", flush=True)
            continue
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            work = [(name, mode, 5 * options.iterations, options.pairs) for mode in ("normal", "full")]
            figures = list(process.map(measured, *zip(*work, strict=True)))
        shown = [text for share, ratio, _ in figures for text in (f"{share:.2f}", f"{ratio:.1f}x")]
        table.append(line(name, versions[0], *shown))
        floors.append([floor for *_, floor in figures])
    print(*table, sep="\n")
    if floors:
        normal, full = (statistics.median(values) for values in zip(*floors, strict=True))
        print(f"a step of the floor: {normal:.0f} us (normal), {full:.0f} us (full)")


if __name__ == "__main__":
    main()
