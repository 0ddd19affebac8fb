"""The same support desk with pydantic-ai: conversations in files, the answer streamed by the request that asked."""

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Header
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CancellationToken,
    Conversation,
    ConversationTypeAdapter,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    UsageLimits,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


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


model = OpenAIChatModel(
    "local", provider=OpenAIProvider(base_url=os.environ.get("LLM", "http://127.0.0.1:9471/v1"), api_key="x")
)
agent = Agent(
    model,
    deps_type=Bank,
    output_type=[str, DeferredToolRequests],
    instructions="You are a support desk.",
    tool_timeout=10,
)


@agent.tool_plain(name="orders_find")
async def find(order_id: str) -> dict[str, str]:
    """Find an order."""
    await asyncio.sleep(0.3)
    return {"order": order_id, "city": "Leeds"}


@agent.tool(name="orders_refund")
def refund(context: RunContext[Bank], order_id: str, amount: int) -> str:
    """Pay money back."""
    if amount > 10 and not context.tool_call_approved:
        raise ApprovalRequired()
    context.deps.paid[context.tool_call_id or ""] = amount
    return f"{amount} paid back"


bank, running, app, FOLDER = Bank(), {}, FastAPI(), Path("pai")
FOLDER.mkdir(exist_ok=True)


def load(conversation: str) -> Conversation:
    file = FOLDER / f"{conversation}.json"
    return (
        ConversationTypeAdapter.validate_json(file.read_bytes())
        if file.exists()
        else Conversation(conversation_id=conversation)
    )


async def sse(conversation: str, prompt: str | None, results: DeferredToolResults | None = None) -> Any:
    token = running[conversation] = CancellationToken()
    async with agent.run_stream_events(
        prompt,
        conversation=load(conversation),
        deferred_tool_results=results,
        deps=bank,
        usage_limits=UsageLimits(total_tokens_limit=50_000),
        cancellation_token=token,
    ) as events:
        async for event in events:
            if event.event_kind == "part_start" and event.part.part_kind == "text":
                yield f"event: token\ndata: {json.dumps(event.part.content)}\n\n"
            elif event.event_kind == "part_delta" and hasattr(event.delta, "content_delta"):
                yield f"event: token\ndata: {json.dumps(event.delta.content_delta)}\n\n"
            elif event.event_kind == "function_tool_result":
                yield f"event: tool\ndata: {json.dumps([event.part.tool_name, str(event.part.content)])}\n\n"
            elif event.event_kind == "agent_run_result":
                r = event.result
                (FOLDER / f"{conversation}.json").write_bytes(
                    ConversationTypeAdapter.dump_json(r.conversation)
                )
                if isinstance(r.output, DeferredToolRequests):
                    for c in r.output.approvals:
                        yield f"event: question\ndata: {json.dumps([conversation, c.tool_call_id, c.tool_name, c.args_as_dict()])}\n\n"
                u = r.usage() if callable(r.usage) else r.usage
                yield f"event: end\ndata: {json.dumps([str(r.output)[:200], u.requests, u.input_tokens, u.output_tokens])}\n\n"


@app.post("/chat/{conversation}")
async def chat(conversation: str, said: Said, user: str = Header()) -> StreamingResponse:
    return StreamingResponse(sse(conversation, said.text), media_type="text/event-stream")


@app.post("/decide/{conversation}")
async def decide(conversation: str, said: Said) -> dict[str, Any]:
    r = await agent.run(said.text, output_type=Decision, conversation=load(conversation), deps=bank)
    return {"output": r.output}


@app.get("/inbox")
async def inbox() -> list[dict[str, Any]]:
    waiting = ((f.stem, load(f.stem).deferred_tool_requests) for f in FOLDER.glob("*.json"))
    return [
        {"run": n, "id": c.tool_call_id, "arguments": c.args_as_dict()}
        for n, d in waiting
        if d
        for c in d.approvals
    ]


@app.post("/answer/{conversation}")
async def answer(conversation: str, given: Given, user: str = Header()) -> Any:
    asked = load(conversation).deferred_tool_requests
    if not asked or given.question not in {c.tool_call_id for c in asked.approvals}:
        return JSONResponse({"detail": "settled"}, 409)
    return StreamingResponse(
        sse(conversation, None, DeferredToolResults(approvals={given.question: given.approve})),
        media_type="text/event-stream",
    )


@app.post("/cancel/{conversation}")
async def cancel(conversation: str) -> None:
    if conversation in running:
        running[conversation].cancel()
