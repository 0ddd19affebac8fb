"""A support desk over paor: chat with memory, words as they come, approvals, typed answers, cancel, recovery, traces, two models."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import FastAPI, Header
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

import paor.inspect
from paor import (
    ApprovalRule,
    Engine,
    Limits,
    ModelCall,
    OpenAIModel,
    Policy,
    Question,
    Reply,
    ToolContext,
    tool,
)
from paor.errors import PaorError
from paor.events import sse
from paor.otel import OpenTelemetry


@dataclass
class Bank:
    paid: dict[str, int] = field(default_factory=dict)


class Decision(BaseModel):
    order_id: str
    refunded: int
    note: str


class Said(BaseModel):
    text: str


class Given(BaseModel):
    question: str
    approve: bool


@tool("orders.find", effect="read", timeout_s=10)
async def find(order_id: str) -> dict[str, str]:
    """Find an order."""
    await asyncio.sleep(0.3)
    return {"order": order_id, "city": "Leeds"}


@tool("orders.refund", effect="once")
def refund(order_id: str, amount: int, context: ToolContext[Bank]) -> str:
    """Pay money back."""
    context.deps.paid[context.idempotency_key] = amount
    return f"{amount} paid back"


class TwoModels:
    """One model for the turns, another that judges."""

    name, streams, stops, calls_tools = "turns-and-reviews", True, True, True

    def __init__(self, turns: OpenAIModel, reviews: OpenAIModel) -> None:
        self.turns, self.reviews = turns, reviews

    async def aask(self, call: ModelCall) -> Reply:
        return await (self.reviews if call.kind == "review" else self.turns).aask(call)

    def ask(self, call: ModelCall) -> Reply:
        return (self.reviews if call.kind == "review" else self.turns).ask(call)


def build(model: Any = None, journal: str = "desk.db", hooks: Any = ()) -> Engine:
    url = os.environ.get("LLM", "http://127.0.0.1:9471/v1")
    return Engine(
        model or TwoModels(OpenAIModel("big", base_url=url), OpenAIModel("judge", base_url=url)),
        [find, refund],
        journal,
        policy=Policy(approvals=(ApprovalRule(tool="orders.refund", arguments={"amount": {"gt": 10}}),)),
        limits=Limits(max_steps=8, token_budget=50_000),
        deps=Bank(),
        hooks=hooks,
        profile="native",
        instructions="You are a support desk.",
    )


engine = build(hooks=[OpenTelemetry(os.environ.get("OTLP", "http://127.0.0.1:4318"))])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with engine, asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.arecover())
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/runs", paor.inspect.app(engine, token=False))
User = Annotated[str, Header()]


@app.post("/chat/{conversation}")
async def chat(
    conversation: str, said: Said, user: User, key: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    run = await engine.astart(said.text, conversation=conversation, metadata={"user": user}, key=key)
    return await events(run)


@app.get("/events/{run}")
async def events(run: str, last_event_id: Annotated[str | None, Header()] = None) -> StreamingResponse:
    return StreamingResponse(sse(engine, run, last_event_id), media_type="text/event-stream")


@app.post("/decide/{conversation}")
async def decide(conversation: str, said: Said) -> dict[str, Any]:
    r = await engine.arun(said.text, output_type=Decision, conversation=conversation)
    return {"run": r.run_id, "status": r.status, "output": r.output, "reason": r.reason}


@app.get("/inbox")
async def inbox() -> list[Question]:
    return [r.waiting_for for r in await engine.awaiting() if r.waiting_for]


@app.post("/answer/{run}")
async def answer(run: str, given: Given, user: User) -> str:
    said = {"approve": given.approve}
    return await engine.acontinue_run(run, answer=said, question=given.question, actor=user)


@app.post("/cancel/{run}")
async def cancel(run: str) -> dict[str, str]:
    return {"status": (await engine.acancel(run)).status}


@app.exception_handler(PaorError)
async def refuse(request: Any, error: PaorError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 409)
