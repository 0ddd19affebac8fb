"""
A service that pays refunds: an agent behind FastAPI, and any number of processes on one journal.

    uvicorn host_service:app --port 8001          # and another with --port 8002, in the same folder

A killed process goes on with its runs at the next start. A refund that was perhaps paid is looked up at the bank, or a person is asked.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse
from host_bank import Bank
from host_model import ClerkModel
from pydantic import BaseModel, PositiveInt

from paor import ApprovalRule, Engine, Policy, Question, Result, ToolContext, tool
from paor.errors import PaorError, UnknownRun


class Refund(BaseModel):
    order_id: str
    amount: PositiveInt


class Decision(BaseModel):
    order_id: str
    refunded: int
    note: str


class Answer(BaseModel):
    question: str
    actor: str
    answer: dict[str, bool] | None = None
    outcome: Literal["done", "retry", "fail"] | None = None


bank = Bank("ledger.txt")
find = tool("orders.find", effect="read")(bank.order)


@tool("orders.refund", effect="once", reconcile=bank.receipt)
def refund(order_id: str, amount: int, context: ToolContext[Bank]) -> str:
    """Pay money back."""
    return context.deps.pay(context.idempotency_key, order_id, amount)


large = ApprovalRule(tool="orders.refund", arguments={"amount": {"gt": 100}})
engine = Engine(ClerkModel(), [find, refund], "refunds.db", policy=Policy(approvals=(large,)), deps=bank)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with engine, asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.arecover())
        yield


app = FastAPI(lifespan=lifespan)


def view(result: Result[Decision]) -> dict[str, object]:
    people = [decided.actor for call in engine.journal.calls(result.run_id) for decided in call.decided]
    return {"id": result.run_id, "status": result.status, "decision": result.output, "decided_by": people}


@app.post("/refunds")
async def start(asked: Refund, idempotency_key: Annotated[str, Header()]) -> dict[str, object]:
    objective, named = f"Refund {asked.amount} for order {asked.order_id}", asked.model_dump()
    return view(await engine.arun(objective, key=idempotency_key, metadata=named, output_type=Decision))


@app.get("/refunds")
def refunds() -> list[dict[str, object]]:
    return [{"id": row.run_id, "status": row.status, **row.metadata} for row in engine.journal.runs()]


@app.get("/refunds/{run_id}")
def show(run_id: str) -> dict[str, object]:
    return view(engine.result(run_id, Decision))


@app.get("/questions")
def questions() -> list[Question]:
    return [result.waiting_for for result in engine.waiting() if result.waiting_for]


@app.post("/questions/{run_id}")
async def answer(run_id: str, given: Answer) -> dict[str, object]:
    return view(await engine.aresume(run_id, output_type=Decision, **given.model_dump()))


@app.exception_handler(PaorError)
async def refuse(request: Request, error: PaorError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 404 if isinstance(error, UnknownRun) else 409)
