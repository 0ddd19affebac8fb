"""The refund service of README.md with pydantic-ai: deferred tools for approvals, the conversation kept in SQLite after each node."""

import asyncio
import fcntl
import json
import sqlite3
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException
from host_bank import Bank
from host_models import pydantic_ai_model
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, RunContext
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter


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


@dataclass
class Desk:
    run_id: str
    bank: Bank


agent = Agent(pydantic_ai_model(), deps_type=Desk, output_type=[Decision, DeferredToolRequests])


@agent.tool
def find_order(context: RunContext[Desk], order_id: str) -> str:
    """Return one order."""
    return str(context.deps.bank.order(order_id))


@agent.tool
def refund(context: RunContext[Desk], order_id: str, amount: int) -> str:
    """Pay money back; a person approves more than 100."""
    if amount > 100 and not context.tool_call_approved:
        raise ApprovalRequired
    bank, key = context.deps.bank, f"{context.deps.run_id}-{context.tool_call_id}"
    with suppress(ConnectionError):  # the call is made again after a crash, so look first
        if (receipt := bank.receipt(key)) is not None:
            return receipt
    return bank.pay(key, order_id, amount)


DB = sqlite3.connect("refunds.db", timeout=30, isolation_level=None)
DB.row_factory = sqlite3.Row
DB.execute("PRAGMA journal_mode = WAL")
DB.execute(
    "CREATE TABLE IF NOT EXISTS runs"
    " (id PRIMARY KEY, key UNIQUE, order_id, amount, conversation, answer, decided_by, decision)"
)


@contextmanager
def lease(run_id: str) -> Iterator[None]:
    """Keep every other driver away from a run, here and in other processes; a kill lets go of it."""
    with open(f"{run_id}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HTTPException(409, "the run has a driver") from None
        yield


def row_of(run_id: str) -> sqlite3.Row:
    row = DB.execute("SELECT * FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        raise HTTPException(404, "there is no such run")
    return row


def conversation_of(row: sqlite3.Row) -> Conversation:
    if row["conversation"] is None:
        return Conversation(conversation_id=row["id"])
    return ConversationTypeAdapter.validate_json(row["conversation"])


def save(run_id: str, conversation: Conversation, decision: Decision | None = None) -> None:
    text = ConversationTypeAdapter.dump_json(conversation).decode()
    said = decision.model_dump_json() if decision is not None else None
    DB.execute(
        "UPDATE runs SET conversation = ?, decision = ?, answer = NULL WHERE id = ?", (text, said, run_id)
    )


async def go_on(run_id: str) -> None:
    """Start a run, or go on with it where its conversation ends, unless it waits or has ended."""
    with lease(run_id):
        await drive(row_of(run_id))


async def drive(row: sqlite3.Row) -> None:
    """Drive a run that this process has the lease of, and store its conversation before each node."""
    conversation = conversation_of(row)
    asked, results = conversation.deferred_tool_requests, None
    if row["decision"] is not None or (asked is not None and row["answer"] is None):
        return
    if asked is not None:
        results = asked.build_results(approvals=json.loads(row["answer"]))
    stored = len(conversation.messages)
    prompt = None if stored else f"Refund {row['amount']} for order {row['order_id']}"
    desk = Desk(row["id"], Bank("ledger.txt"))
    async with agent.iter(prompt, conversation=conversation, deferred_tool_results=results, deps=desk) as run:
        async for node in run:
            messages = run.all_messages()
            if Agent.is_model_request_node(node):
                messages = [*messages, node.request]  # the results of the tools
            if len(messages) > stored:
                stored = len(messages)
                save(row["id"], Conversation(conversation_id=row["id"], messages=messages))
        assert run.result is not None
        output = run.result.output
        save(row["id"], run.result.conversation, output if isinstance(output, Decision) else None)


async def recover() -> None:
    found = DB.execute("SELECT id FROM runs WHERE decision IS NULL").fetchall()
    await asyncio.gather(*(go_on(row["id"]) for row in found), return_exceptions=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    recovery = asyncio.create_task(recover())
    yield
    await recovery


app = FastAPI(lifespan=lifespan)


def view(row: sqlite3.Row) -> dict[str, Any]:
    waits = row["answer"] is None and conversation_of(row).deferred_tool_requests is not None
    status = "waiting" if waits else "running" if row["decision"] is None else "done"
    decision = json.loads(row["decision"] or "null")
    decided = [row["decided_by"]] if row["decided_by"] else []
    return {"id": row["id"], "status": status, "decision": decision, "decided_by": decided}


@app.post("/refunds")
async def start(asked: Refund, idempotency_key: Annotated[str, Header()]) -> dict[str, Any]:
    new = (str(uuid.uuid4()), idempotency_key, asked.order_id, asked.amount)
    DB.execute("INSERT OR IGNORE INTO runs (id, key, order_id, amount) VALUES (?, ?, ?, ?)", new)
    row = DB.execute("SELECT * FROM runs WHERE key = ?", (idempotency_key,)).fetchone()
    if (row["order_id"], row["amount"]) != (asked.order_id, asked.amount):
        raise HTTPException(409, "the key was used for another refund")
    await go_on(row["id"])
    return view(row_of(row["id"]))


@app.get("/refunds")
async def refunds() -> list[dict[str, Any]]:
    return [view(row) for row in DB.execute("SELECT * FROM runs").fetchall()]


@app.get("/refunds/{run_id}")
async def show(run_id: str) -> dict[str, Any]:
    return view(row_of(run_id))


@app.get("/questions")
async def questions() -> list[dict[str, Any]]:
    found = []
    for row in DB.execute("SELECT * FROM runs WHERE decision IS NULL AND answer IS NULL").fetchall():
        asked = conversation_of(row).deferred_tool_requests
        for call in asked.approvals if asked is not None else ():
            question = {"run_id": row["id"], "id": call.tool_call_id, "kind": "approval"}
            found.append(question | {"tool": call.tool_name, "arguments": call.args_as_dict()})
    return found


@app.post("/questions/{run_id}")
async def answer(run_id: str, given: Answer) -> dict[str, Any]:
    with lease(run_id):
        row = row_of(run_id)
        asked = conversation_of(row).deferred_tool_requests
        if (
            asked is None
            or row["answer"]
            or given.question not in [call.tool_call_id for call in asked.approvals]
        ):
            raise HTTPException(409, "the run does not ask this")
        said = json.dumps({given.question: given.answer["approve"]})
        DB.execute("UPDATE runs SET answer = ?, decided_by = ? WHERE id = ?", (said, given.actor, run_id))
        await drive(row_of(run_id))
    return view(row_of(run_id))
