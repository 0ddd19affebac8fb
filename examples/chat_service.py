"""
A support desk in a browser: conversations, words as they come, tools at the same time, approvals by another person, cancel.

    uvicorn chat_service:app          # then open http://127.0.0.1:8000

A page may be closed, reloaded or opened twice at any moment, and the process be killed: the runs go on, and each page goes on where it was.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel

from paor import ApprovalRule, Engine, Policy, tool
from paor.errors import PaorError, UnknownRun
from paor.events import sse


class Order(BaseModel):
    order_id: str
    city: str
    amount: int


@tool("orders.find", effect="read")
async def find(order_id: str) -> Order:
    """Find an order."""
    await asyncio.sleep(0.1)
    return Order(order_id=order_id, city="Leeds", amount=250)


@tool("orders.refund", effect="once")
def refund(order_id: str, amount: int) -> str:
    """Pay money back."""
    return f"{amount} paid back for {order_id}"


engine = Engine(
    "auto",
    [find, refund],
    "chat.db",
    policy=Policy(approvals=(ApprovalRule(tool="orders.refund", arguments={"amount": {"gt": 100}}),)),
    profile="native",
    instructions="You work at a support desk. Answer in one or two sentences.",
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with engine, asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.arecover())
        yield


app = FastAPI(lifespan=lifespan)
User = Annotated[str, Header()]
Text = Annotated[str, Body()]
Answer = Annotated[dict[str, bool] | None, Body()]
Outcome = Annotated[Literal["done", "retry", "fail"] | None, Body()]


@app.post("/chats/{chat}")
async def say(chat: str, text: Annotated[str, Body(embed=True)], user: User) -> str:
    return await engine.astart(text, conversation=chat, metadata={"chat": chat, "user": user})


@app.get("/chats/{chat}")
def rounds(chat: str) -> list[dict[str, str]]:
    runs = reversed(engine.journal.runs(metadata={"chat": chat}))
    return [{"run": row.run_id, "text": row.objective or ""} for row in runs]


@app.get("/runs/{run}/events")
async def events(run: str, last_event_id: Annotated[str | None, Header()] = None) -> StreamingResponse:
    return StreamingResponse(sse(engine, run, last_event_id), media_type="text/event-stream")


@app.post("/runs/{run}/answer")
async def answer(
    run: str, question: Text, answer: Answer = None, outcome: Outcome = None, *, user: User
) -> str:
    return await engine.acontinue_run(run, question=question, answer=answer, outcome=outcome, actor=user)


@app.post("/runs/{run}/cancel")
async def cancel(run: str) -> str:
    return (await engine.acancel(run)).status


@app.exception_handler(PaorError)
async def refuse(request: Request, error: PaorError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 404 if isinstance(error, UnknownRun) else 409)


PAGE = """<!doctype html><meta charset=utf-8><title>Chat</title><style>body{max-width:40em;margin:auto;font:16px sans-serif}</style>
<main></main><form><input size=50 autofocus> <button>Send</button></form><script>
const at = new URLSearchParams(location.search), chat = at.get("chat") || crypto.randomUUID(), user = at.get("user") || "guest"
history.replaceState(0, "", `?chat=${chat}&user=${user}`)
const send = (url, data) => fetch(url, {method: "POST", headers: {user, "content-type": "application/json"}, body: JSON.stringify(data)}).then(
    async answer => answer.ok ? answer.json() : alert((await answer.json()).detail))
const add = (to, tag, text) => { const made = to.appendChild(document.createElement(tag)); made.textContent = text || ""; return made }
function show(run, text) {
  const box = add(document.querySelector("main"), "section"), from = new EventSource(`/runs/${run}/events`), data = event => JSON.parse(event.data)
  add(box, "b", text); const notes = add(box, "ul"), words = add(box, "p"), stop = add(box, "button", "Cancel"); let seq = -1, ask
  stop.onclick = () => send(`/runs/${run}/cancel`, {})
  from.addEventListener("model_text", event => { if (data(event).seq > seq) words.textContent = ""; seq = data(event).seq; words.textContent += data(event).text })
  from.addEventListener("step", event => add(notes, "li", `${data(event).tool}: ${data(event).summary}`))
  from.addEventListener("transition", event => ask?.remove())
  from.addEventListener("waiting", event => { const question = data(event).question; ask = add(notes, "li", question.message + " ")
    const given = question.kind == "in_doubt" ? {Done: {outcome: "done"}, Retry: {outcome: "retry"}, Failed: {outcome: "fail"}} : {Approve: {answer: {approve: true}}, Decline: {answer: {approve: false}}}
    for (const name in given) add(ask, "button", name).onclick = () => send(`/runs/${run}/answer`, {question: question.id, ...given[name]}) })
  from.addEventListener("complete", event => { from.close(); stop.remove(); const {result} = data(event); words.textContent = result.answer; box.className = result.status })
}
document.querySelector("form").onsubmit = async event => { event.preventDefault(); const input = document.querySelector("input"), text = input.value
  const run = await send(`/chats/${chat}`, {text}); if (run) { show(run, text); input.value = "" } }
fetch(`/chats/${chat}`).then(answer => answer.json()).then(rounds => rounds.forEach(round => show(round.run, round.text)))
</script>"""
app.get("/")(lambda: HTMLResponse(PAGE))
