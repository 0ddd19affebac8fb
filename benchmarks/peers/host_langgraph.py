"""The refund service of README.md with LangGraph: checkpoints in SQLite, `interrupt` for approvals."""

import asyncio
import fcntl
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Annotated, Any

import aiosqlite
from fastapi import FastAPI, Header, HTTPException
from host_bank import Bank
from host_models import langgraph_model
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.types import Command, StateSnapshot, interrupt
from pydantic import BaseModel

BANK = Bank("ledger.txt")


class Refund(BaseModel):
    order_id: str
    amount: int


class Decision(BaseModel):
    order_id: str
    refunded: int
    note: str


class Answer(BaseModel):
    question: str
    actor: str
    answer: dict[str, bool]


class State(MessagesState):
    decided_by: list[str]
    decision: dict[str, Any]


@tool
def find_order(order_id: str) -> str:
    """Return one order."""
    return str(BANK.order(order_id))


@tool
def refund(order_id: str, amount: int, runtime: ToolRuntime) -> Command:
    """Pay money back; a person approves more than 100."""
    decided_by = []
    if amount > 100:
        answer = interrupt({"tool": "refund", "arguments": {"order_id": order_id, "amount": amount}})
        decided_by = [answer["by"]]
        if not answer["approve"]:
            return observed(runtime, "denied", decided_by)
    key = f"{runtime.config['configurable']['thread_id']}-{runtime.tool_call_id}"
    with suppress(ConnectionError):  # the node runs again after a crash, so look first
        if (receipt := BANK.receipt(key)) is not None:
            return observed(runtime, receipt, decided_by)
    return observed(runtime, BANK.pay(key, order_id, amount), decided_by)


def observed(runtime: ToolRuntime, text: str, decided_by: list[str]) -> Command:
    message = ToolMessage(text, tool_call_id=runtime.tool_call_id)
    return Command(update={"messages": [message], "decided_by": decided_by})


TOOLS = [find_order, refund]
MODEL = langgraph_model().bind_tools(TOOLS)


async def ask(state: State) -> dict[str, Any]:
    return {"messages": [await MODEL.ainvoke(state["messages"])]}


def conclude(state: State) -> dict[str, Any]:
    return {"decision": Decision.model_validate_json(state["messages"][-1].text).model_dump()}


def build(saver: AsyncSqliteSaver) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_node("conclude", conclude)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", tools_condition, {"tools": "tools", END: "conclude"})
    builder.add_edge("tools", "ask")
    builder.add_edge("conclude", END)
    return builder.compile(checkpointer=saver)


@contextmanager
def lease(run_id: str) -> Iterator[None]:
    """Keep every other driver away from a run, here and in other processes; a kill lets go of it."""
    with open(f"{run_id}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HTTPException(409, "the run has a driver") from None
        yield


def config(run_id: str) -> Any:
    return {"configurable": {"thread_id": run_id}}


async def go_on(run_id: str, order_id: str, amount: int) -> None:
    """Start a run, or go on with it where its checkpoints end; one that waits asks again, or has its answer already."""
    with lease(run_id):
        state = await app.state.graph.aget_state(config(run_id))
        given = None
        if state.created_at is None:
            given = {"messages": [("user", f"Refund {amount} for order {order_id}")]}
        elif not state.next:
            return
        await app.state.graph.ainvoke(given, config(run_id), durability="sync")


async def rows(query: str, *values: Any) -> list[Any]:
    async with app.state.db.execute(query, values) as cursor:
        found = await cursor.fetchall()
    await app.state.db.commit()
    return list(found)


async def recover() -> None:
    found = await rows("SELECT id, order_id, amount FROM runs")
    await asyncio.gather(*(go_on(*row) for row in found), return_exceptions=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with aiosqlite.connect("refunds.db") as db, AsyncSqliteSaver.from_conn_string("graph.db") as saver:
        app.state.db, app.state.graph = db, build(saver)
        await rows("CREATE TABLE IF NOT EXISTS runs (id PRIMARY KEY, key UNIQUE, order_id, amount)")
        recovery = asyncio.create_task(recover())
        yield
        await recovery


app = FastAPI(lifespan=lifespan)


def view(run_id: str, state: StateSnapshot) -> dict[str, Any]:
    status = "waiting" if state.interrupts else "running" if state.next or not state.created_at else "done"
    decided = state.values.get("decided_by", [])
    return {"id": run_id, "status": status, "decision": state.values.get("decision"), "decided_by": decided}


@app.post("/refunds")
async def start(asked: Refund, idempotency_key: Annotated[str, Header()]) -> dict[str, Any]:
    new = (str(uuid.uuid4()), idempotency_key, asked.order_id, asked.amount)
    await rows("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?)", *new)
    [(run_id, *was)] = await rows("SELECT id, order_id, amount FROM runs WHERE key = ?", idempotency_key)
    if was != [asked.order_id, asked.amount]:
        raise HTTPException(409, "the key was used for another refund")
    await go_on(run_id, asked.order_id, asked.amount)
    return await show(run_id)


@app.get("/refunds")
async def refunds() -> list[dict[str, Any]]:
    return [await show(run_id) for (run_id,) in await rows("SELECT id FROM runs")]


@app.get("/refunds/{run_id}")
async def show(run_id: str) -> dict[str, Any]:
    if not await rows("SELECT 1 FROM runs WHERE id = ?", run_id):
        raise HTTPException(404, "there is no such run")
    return view(run_id, await app.state.graph.aget_state(config(run_id)))


@app.get("/questions")
async def questions() -> list[dict[str, Any]]:
    found = []
    for (run_id,) in await rows("SELECT id FROM runs"):
        for asked in (await app.state.graph.aget_state(config(run_id))).interrupts:
            found.append({"run_id": run_id, "id": asked.id, "kind": "approval", **asked.value})
    return found


@app.post("/questions/{run_id}")
async def answer(run_id: str, given: Answer) -> dict[str, Any]:
    with lease(run_id):
        state = await app.state.graph.aget_state(config(run_id))
        if given.question not in [asked.id for asked in state.interrupts]:
            raise HTTPException(409, "the run does not ask this")
        # a plain value: an answer by the question's id is not stored before the node runs
        resume = Command(resume={"by": given.actor, **given.answer})
        await app.state.graph.ainvoke(resume, config(run_id), durability="sync")
    return await show(run_id)
