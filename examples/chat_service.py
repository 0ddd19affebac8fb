"""
A support desk in a browser: conversations, words as they come, tools at the same time, their typed results, approvals by another person, cancel.
A page may be closed, reloaded or opened twice, and the process be killed: the runs go on. `uvicorn chat_service:app`, then open http://127.0.0.1:8000
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import Body, FastAPI, Header, HTTPException, Request
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


policy = Policy(approvals=(ApprovalRule(tool="orders.refund", arguments={"amount": {"gt": 100}}),))
desk = "You work at a support desk. Answer in one or two sentences."
engine = Engine("auto", [find, refund], "chat.db", policy=policy, profile="native", instructions=desk)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with engine, asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.arecover())
        yield


app, journal = FastAPI(lifespan=lifespan), engine.journal
User = Annotated[str, Header()]
Text = Annotated[str, Body(embed=True)]
Answer = Annotated[dict[str, bool] | None, Body()]
Outcome = Annotated[Literal["done", "retry", "fail"] | None, Body()]


@app.post("/chats/{chat}")
async def say(chat: str, text: Text, user: User) -> str:
    return await engine.astart(text, conversation=chat, metadata={"user": user})


@app.get("/chats/{chat}")
def look(chat: str, user: User) -> tuple[list[tuple[str, str | None]], list[str]]:
    rounds, mine = journal.runs(conversation=chat), journal.conversations(metadata={"user": user})
    return [(row.run_id, row.objective) for row in reversed(rounds)], [found.id for found in reversed(mine)]


@app.get("/runs/{run}/events")
async def events(run: str, last_event_id: Annotated[str | None, Header()] = None) -> StreamingResponse:
    return StreamingResponse(sse(engine, run, last_event_id), media_type="text/event-stream")


@app.get("/runs/{run}/orders")
def orders(run: str) -> list[Order]:
    found = [item for item in journal.documents(run) if item.mime == "application/json"]
    return [Order.model_validate_json(journal.document(run, item.number) or "") for item in found]


@app.post("/runs/{run}/answer")
async def answer(run: str, question: Text, user: User, answer: Answer = None, outcome: Outcome = None) -> str:
    if journal.run(run).metadata.get("user") == user:
        raise HTTPException(403, "Another person decides, from a page with another ?user=NAME.")
    return await engine.acontinue_run(run, question=question, answer=answer, outcome=outcome, actor=user)


@app.exception_handler(PaorError)
async def refuse(request: Request, error: PaorError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 404 if isinstance(error, UnknownRun) else 409)


PAGE = """<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width"><link rel=icon href="data:,">
<title>Support desk</title><style>body{max-width:40em;margin:1em auto;padding:0 1em;font:16px/1.4 sans-serif}li{color:#555}nav a{margin-right:1em}section p{white-space:pre-line}td{padding:0 1em 0 0}td:last-child{text-align:right}
html{scroll-padding-bottom:5em}form{position:sticky;bottom:0;padding:1em 0;background:#fff}input{width:75%}main:has(section:not([class]))+form button{visibility:hidden}</style>
<nav></nav><main aria-live=polite></main><form><input aria-label=Message placeholder="Where is order O-1?" autofocus required> <button>Send</button></form><script>
const at = new URLSearchParams(location.search), chat = at.get("chat") || crypto.randomUUID(), user = at.get("user") || "guest", shown = new Set()
history.replaceState(0, "", `?chat=${chat}&user=${user}`); const find = name => document.querySelector(name), request = {headers: {user, "content-type": "application/json"}}
const told = async answer => answer.ok ? answer.json() : alert((await answer.json()).detail), lost = () => alert("The server does not answer.")
const send = (url, data) => fetch(url, {...request, method: "POST", body: JSON.stringify(data)}).then(told, lost)
const add = (to, tag, text) => { const made = to.appendChild(document.createElement(tag)); made.textContent = text || ""; return made }
function show(run, text) {
  if (shown.has(run)) return; shown.add(run); let seq = -1, ask; const box = add(find("main"), "section"), from = new EventSource(`/runs/${run}/events`)
  const notes = (add(box, "b", text), add(box, "ul")), side = add(box, "table"), words = add(box, "p"), stop = add(box, "button", "Cancel")
  const on = (kind, handle) => from.addEventListener(kind, event => { handle(JSON.parse(event.data)); stop.scrollIntoView({block: "nearest"}) })
  stop.onclick = () => send(`/runs/${run}/cancel`); on("transition", () => ask?.remove())
  on("model_text", event => { if (event.seq > seq) words.textContent = ""; seq = event.seq; words.textContent += event.text })
  on("step", async event => { add(notes, "li", `${event.tool}: ${event.summary}`); const found = await fetch(`/runs/${run}/orders`).then(told, lost) || []
    side.replaceChildren(); for (const {order_id, city, amount} of found) { const row = add(side, "tr"); [order_id, city, amount].forEach(cell => add(row, "td", String(cell))) } })
  on("waiting", ({question}) => { ask = add(notes, "li", `${question.message} ${JSON.stringify(question.arguments)} `)
    const given = question.kind == "in_doubt" ? {Done: {outcome: "done"}, Retry: {outcome: "retry"}, Failed: {outcome: "fail"}} : {Approve: {answer: {approve: true}}, Decline: {answer: {approve: false}}}
    for (const name in given) add(ask, "button", name).onclick = () => send(`/runs/${run}/answer`, {question: question.id, ...given[name]}) })
  on("complete", ({result}) => { from.close(); stop.remove(); words.textContent = result.answer; box.className = result.status })
}
find("form").onsubmit = async event => { event.preventDefault(); const input = find("input"), text = input.value, run = await send(`/chats/${chat}`, {text})
  if (run) { show(run, text); input.value = "" } }
const look = () => fetch(`/chats/${chat}`, request).then(answer => answer.json()).then(([rounds, mine]) => { rounds.forEach(round => show(...round))
  mine.slice(find("nav").childElementCount).forEach(id => add(find("nav"), "a", id.slice(0, 8)).href = `?chat=${id}&user=${user}`) }, () => {})
look(); setInterval(look, 2000)</script>"""
app.get("/")(lambda: HTMLResponse(PAGE))
app.post("/runs/{run}/cancel")(lambda run: engine.cancel(run).status)  # a result is no JSON for every FastAPI
