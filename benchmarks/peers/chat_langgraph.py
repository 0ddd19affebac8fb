"""The chat of examples/chat_service.py with LangGraph: an agent with checkpoints in SQLite, rounds and events in tables."""

import asyncio
import json
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from chat_world import PAGE, Order, find, pay
from fastapi import Body, FastAPI, Header, HTTPException
from fastapi.responses import HTMLResponse, StreamingResponse
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

DB = sqlite3.connect("chat.db", isolation_level=None)
DB.row_factory = sqlite3.Row
DB.execute("PRAGMA journal_mode = WAL")
DB.execute(
    "CREATE TABLE IF NOT EXISTS rounds (number INTEGER PRIMARY KEY, run UNIQUE, chat, user, text,"
    " status DEFAULT 'running', asked, answer, decided_by)"
)
DB.execute("CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, run, kind, data)")


@tool
async def orders_find(order_id: str) -> Order:
    """Find an order."""
    return await find(order_id)


@tool
def orders_refund(order_id: str, amount: int) -> str:
    """Pay money back."""
    return pay(order_id, amount)


def build(saver: AsyncSqliteSaver) -> Any:
    dear = InterruptOnConfig(
        allowed_decisions=["approve", "reject"],
        when=lambda request: request.tool_call["args"]["amount"] > 100,
    )
    return create_agent(
        init_chat_model("openai:scripted"),
        [orders_find, orders_refund],
        system_prompt="You work at a support desk. Answer in one or two sentences.",
        middleware=[HumanInTheLoopMiddleware({"orders_refund": dear})],
        checkpointer=saver,
    )


TASKS: dict[str, asyncio.Task[None]] = {}


def update(run: str, **values: Any) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    DB.execute(f"UPDATE rounds SET {names} WHERE run = ?", (*values.values(), run))


def publish(run: str, kind: str, **data: Any) -> None:
    DB.execute("INSERT INTO events (run, kind, data) VALUES (?, ?, ?)", (run, kind, json.dumps(data)))


def round_of(run: str) -> sqlite3.Row:
    row = DB.execute("SELECT * FROM rounds WHERE run = ?", (run,)).fetchone()
    if row is None:
        raise HTTPException(404, "there is no such run")
    return row


def end(run: str, status: str, answer: str) -> None:
    update(run, status=status)
    publish(run, "complete", result={"status": status, "answer": answer})


def start(run: str) -> None:
    TASKS[run] = asyncio.create_task(drive(run))


async def drive(run: str) -> None:
    """Drive a round from its beginning, from the answer to its question, or from the last checkpoint."""
    row, agent = round_of(run), app.state.agent
    config: RunnableConfig = {"configurable": {"thread_id": row["chat"]}}
    state = await agent.aget_state(config)
    given: Any = None
    if run not in [message.id for message in state.values.get("messages", [])]:
        given = {"messages": [*closed(state.values), HumanMessage(row["text"], id=run)]}
    elif state.interrupts:
        given = Command(resume={"decisions": [{"type": row["answer"]}]})
    message, seq = "", -1
    try:
        async for mode, data in agent.astream(
            given, config, stream_mode=["messages", "updates"], durability="sync"
        ):
            if mode == "updates":
                show(run, data)
            elif isinstance(data[0], AIMessageChunk) and data[0].text:
                if data[0].id != message:
                    message = data[0].id
                    seq = DB.execute("SELECT max(seq) FROM events").fetchone()[0] or 0
                publish(run, "model_text", seq=seq, text=data[0].text)
        state = await agent.aget_state(config)
        if not state.interrupts:
            end(run, "done", state.values["messages"][-1].text)
    except asyncio.CancelledError:
        end(run, "failed", "")
    except Exception as error:
        end(run, "failed", str(error))


def closed(values: dict[str, Any]) -> list[ToolMessage]:
    """Return an answer to each call that a cancelled round has left open; a provider refuses a history without one."""
    last = next(iter(values.get("messages", [])[-1:]), None)
    calls = last.tool_calls if isinstance(last, AIMessage) else []
    return [ToolMessage("cancelled", tool_call_id=call["id"]) for call in calls]


def show(run: str, nodes: dict[str, Any]) -> None:
    for node, changed in nodes.items():
        if node == "__interrupt__":
            (call,) = changed[0].value["action_requests"]
            update(run, status="waiting", asked=changed[0].id)
            question = {"id": changed[0].id, "message": f"May {call['name']} be called?"}
            publish(run, "waiting", question={**question, "arguments": call["args"]})
        elif node == "tools":
            for message in changed["messages"]:
                publish(run, "step", tool=message.name, summary=message.text)


async def recover() -> None:
    """Go on with the rounds of a process that was killed."""
    for row in DB.execute("SELECT run FROM rounds WHERE status = 'running'").fetchall():
        start(row["run"])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncSqliteSaver.from_conn_string("graph.db") as saver:
        app.state.agent = build(saver)
        await recover()
        yield


app = FastAPI(lifespan=lifespan)
User = Annotated[str, Header()]
Text = Annotated[str, Body(embed=True)]


@app.post("/chats/{chat}")
async def say(chat: str, text: Text, user: User) -> str:
    run = str(uuid.uuid4())
    began = DB.execute(
        "INSERT INTO rounds (run, chat, user, text) SELECT ?1, ?2, ?3, ?4"
        " WHERE NOT EXISTS (SELECT 1 FROM rounds WHERE chat = ?2 AND status IN ('running', 'waiting'))",
        (run, chat, user, text),
    )
    if not began.rowcount:
        raise HTTPException(409, "a round of this chat runs or waits")
    start(run)
    return run


@app.get("/chats/{chat}")
async def look(chat: str, user: User) -> tuple[list[tuple[str, str]], list[str]]:
    rounds = DB.execute("SELECT run, text FROM rounds WHERE chat = ? ORDER BY number", (chat,))
    mine = DB.execute("SELECT DISTINCT chat FROM rounds WHERE user = ?", (user,))
    return [(row["run"], row["text"]) for row in rounds], [row["chat"] for row in mine]


async def follow(run: str, after: int) -> AsyncIterator[str]:
    while True:
        rows = DB.execute("SELECT * FROM events WHERE run = ? AND seq > ? ORDER BY seq", (run, after))
        for row in rows.fetchall():
            after = row["seq"]
            yield f"id: {after}\nevent: {row['kind']}\ndata: {row['data']}\n\n"
            if row["kind"] == "complete":
                return
        await asyncio.sleep(0.05)


@app.get("/runs/{run}/events")
async def events(run: str, last_event_id: Annotated[int, Header()] = -1) -> StreamingResponse:
    round_of(run)
    return StreamingResponse(follow(run, last_event_id), media_type="text/event-stream")


@app.post("/runs/{run}/answer")
async def answer(run: str, question: Text, answer: Annotated[dict[str, bool], Body()], user: User) -> str:
    if round_of(run)["user"] == user:
        raise HTTPException(403, "Another person decides: open this page with another ?user=NAME.")
    given = DB.execute(
        "UPDATE rounds SET status = 'running', asked = NULL, answer = ?, decided_by = ?"
        " WHERE run = ? AND status = 'waiting' AND asked = ?",
        ("approve" if answer["approve"] else "reject", user, run, question),
    )
    if not given.rowcount:
        raise HTTPException(409, "the run does not ask this")
    publish(run, "transition")
    start(run)
    return run


@app.post("/runs/{run}/cancel")
async def cancel(run: str) -> str:
    row = round_of(run)
    if row["status"] == "running":
        TASKS[run].cancel()
    elif row["status"] == "waiting":
        end(run, "failed", "")
    return row["status"]


app.get("/")(lambda: HTMLResponse(PAGE))
