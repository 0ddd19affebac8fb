"""The chat of examples/chat_service.py with pydantic-ai: rounds and events in SQLite, steps and effects kept by StepPersistence."""

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
from pydantic_ai import (
    Agent,
    AgentRunResultEvent,
    ApprovalRequired,
    CancellationToken,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RunCancelled,
    RunContext,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.messages import repair_messages
from pydantic_ai_harness import StepPersistence
from pydantic_ai_harness.step_persistence import SqliteStepStore

DB = sqlite3.connect("chat.db", isolation_level=None)
DB.row_factory = sqlite3.Row
DB.execute("PRAGMA journal_mode = WAL")
DB.execute(
    "CREATE TABLE IF NOT EXISTS rounds (number INTEGER PRIMARY KEY, run UNIQUE, chat, user, text,"
    " status DEFAULT 'running', attempt, asked, answer, decided_by, messages)"
)
DB.execute("CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, run, kind, data)")
STORE = SqliteStepStore(database="steps.db")

agent = Agent(
    "openai-chat:scripted",
    output_type=[str, DeferredToolRequests],
    instructions="You work at a support desk. Answer in one or two sentences.",
    capabilities=[StepPersistence(store=STORE)],
)


@agent.tool_plain
async def orders_find(order_id: str) -> Order:
    """Find an order."""
    return await find(order_id)


@agent.tool
def orders_refund(context: RunContext, order_id: str, amount: int) -> str:
    """Pay money back."""
    if amount > 100 and not context.tool_call_approved:
        raise ApprovalRequired
    return pay(order_id, amount)


TOKENS: dict[str, CancellationToken] = {}
TASKS: set[asyncio.Task[None]] = set()


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


def end(run: str, status: str, answer: str, messages: list[ModelMessage] | None = None) -> None:
    kept = ModelMessagesTypeAdapter.dump_json(repair_messages(messages)) if messages is not None else None
    update(run, status=status, messages=kept)
    publish(run, "complete", result={"status": status, "answer": answer})


def history(row: sqlite3.Row) -> list[ModelMessage]:
    """Return the messages of a round that waits, else those of the rounds before it."""
    kept = DB.execute(
        "SELECT messages FROM rounds WHERE chat = ? AND number <= ? AND messages IS NOT NULL ORDER BY number DESC",
        (row["chat"], row["number"]),
    ).fetchone()
    return ModelMessagesTypeAdapter.validate_json(kept["messages"]) if kept is not None else []


def start(run: str) -> None:
    task = asyncio.create_task(drive(run))
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)


async def drive(run: str) -> None:
    """Drive a round from its beginning, from the answer to its question, or from the last step that was kept."""
    row = round_of(run)
    prompt, messages, results = row["text"], history(row), None
    if row["answer"] is not None:
        prompt, results = None, DeferredToolResults(approvals=json.loads(row["answer"]))
    snapshot = await STORE.latest_snapshot(run_id=row["attempt"]) if row["attempt"] else None
    if snapshot is not None:
        prompt, messages, results = None, snapshot.messages, None
    attempt, token, seq = str(uuid.uuid4()), CancellationToken(), -1
    TOKENS[run] = token
    update(run, attempt=attempt)
    asked = agent.run_stream_events(
        prompt,
        message_history=messages,
        deferred_tool_results=results,
        conversation_id=row["chat"],
        run_id=attempt,
        cancellation_token=token,
    )
    try:
        async with asked as events:
            async for event in events:
                if isinstance(event, PartStartEvent):
                    seq = DB.execute("SELECT max(seq) FROM events").fetchone()[0] or 0
                show(run, event, seq)
    except RunCancelled as cancelled:
        end(run, "failed", "", cancelled.all_messages())
    except Exception as error:
        end(run, "failed", str(error), events.all_messages())


def show(run: str, event: Any, seq: int) -> None:
    match event:
        case (
            PartStartEvent(part=TextPart(content=text))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
        ):
            publish(run, "model_text", seq=seq, text=text)
        case FunctionToolResultEvent(part=part):
            publish(run, "step", tool=part.tool_name, summary=part.model_response_str())
        case AgentRunResultEvent(result=result) if isinstance(result.output, DeferredToolRequests):
            (call,) = result.output.approvals
            kept = ModelMessagesTypeAdapter.dump_json(result.all_messages())
            update(run, status="waiting", asked=call.tool_call_id, messages=kept)
            question = {"id": call.tool_call_id, "message": f"May {call.tool_name} be called?"}
            publish(run, "waiting", question={**question, "arguments": call.args_as_dict()})
        case AgentRunResultEvent(result=result):
            end(run, "done", result.output, result.all_messages())


async def recover() -> None:
    """Go on with the rounds of a process that was killed; one that may have paid ends, and says so."""
    for row in DB.execute("SELECT * FROM rounds WHERE status = 'running'").fetchall():
        open_calls = await STORE.list_unresolved_tool_effects(run_id=row["attempt"] or "")
        if any(call.tool_name == "orders_refund" for call in open_calls):
            words = "The refund may have been paid, or not: look into the ledger before you ask again."
            end(row["run"], "failed", words, [*history(row), ModelResponse(parts=[TextPart(words)])])
        else:
            start(row["run"])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
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
        "UPDATE rounds SET status = 'running', attempt = NULL, asked = NULL, answer = ?, decided_by = ?"
        " WHERE run = ? AND status = 'waiting' AND asked = ?",
        (json.dumps({question: answer["approve"]}), user, run, question),
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
        TOKENS[run].cancel()
    elif row["status"] == "waiting":
        end(run, "failed", "", history(row))
    return row["status"]


app.get("/")(lambda: HTMLResponse(PAGE))
