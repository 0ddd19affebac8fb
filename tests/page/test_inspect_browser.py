"""`paor inspect` in Debian's Chromium: what a person does with it, how fast a row is on the screen, and what a page of others can do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Engine, Result, ScriptedModel
from paor.inspect import app
from paor.testing import call_tools, step

from .inspect_kit import Browser, bank, paying, rows_of, running
from .test_inspect_answers import ended
from .test_inspect_events import Writer, go, writer

pytestmark = pytest.mark.whole


@contextmanager
def window(chromium: Any) -> Iterator[tuple[Any, list[str]]]:
    """Give a page in a context of its own, and what it complained of."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(20_000)
    page, errors = context.new_page(), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        yield page, errors
    finally:
        context.close()


def until(page: Any, expression: str, wanted: object = True) -> None:
    """Wait until an expression has a value; the page's policy forbids playwright to wait within it."""
    found = None
    for _ in range(2400):
        found = page.evaluate(expression)
        if found == wanted:
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"{expression} is {found!r}, not {wanted!r}")


def test_a_person_approves_and_sees_the_run_go_on(tmp_path: Path, chromium: Any) -> None:
    """From the printed address to the end of the run, without a reload; the token is in the address no more."""
    paid: list[int] = []
    with (
        bank(tmp_path / "runs.db", paid, 5) as engine,
        running(app(engine)) as address,
        window(chromium) as (page, errors),
    ):
        run_id = engine.run("Pay five").run_id
        page.goto(address)
        page.get_by_role("link", name="answer").click()
        assert "token" not in page.url and page.url.endswith("#inbox")
        card = page.locator("article.ask")
        assert "bank.pay" in card.inner_text() and "amount" in card.inner_text()
        card.get_by_label("Who answers").fill("ann")
        card.get_by_label("Reason").fill("seen the invoice")
        card.get_by_role("button", name="Approve").click()
        ended(engine.journal, run_id)
        until(page, "document.querySelector('article.ask')?.innerText.includes('approved by ann')")
        (decided,) = engine.journal.calls(run_id)[0].decided
        assert (decided.actor, decided.reason, paid) == ("ann", "seen the invoice", [5])
        page.goto(f"{address.partition('?')[0]}#run/{run_id}")
        until(page, "document.body.innerText.includes('All is paid.')")
        assert errors == []


def test_the_page_misses_nothing_between_its_index_and_its_events(tmp_path: Path, chromium: Any) -> None:
    """A run changes, and another page is told of it, while the first request for events is on its way; the newest of the list tell nothing of it."""
    with (
        bank(tmp_path / "runs.db", [], 5) as engine,
        running(app(engine.journal)) as address,
        window(chromium) as (page, errors),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("paor.inspect.live_events.NEWEST", 1)
        old, *_ = [engine.run(f"Pay {number}").run_id for number in range(3)]
        held: list[Any] = []
        page.route("**/events?*", lambda route: held.append(route))
        page.goto(f"{address}#runs")
        until(page, "document.body.innerText.includes('Pay 0')")
        assert "cancelled" not in page.inner_text("body")
        while not held:
            page.wait_for_timeout(25)
        with Browser(address).events("events") as others:
            next(others)
            engine.cancel(old)
            assert [line["id"] for line in next(others)[2]["runs"]] == [old]
            held[0].continue_()
            until(page, "document.body.innerText.includes('cancelled')")
        assert errors == []


def test_two_browsers_see_another_process_write(tmp_path: Path, chromium: Any) -> None:
    """Forty runs; one browser has opened the oldest, the other one stays at the list; neither is loaded again."""
    path = tmp_path / "runs.db"
    replies: list[Any] = [call_tools(step("bank.pay", amount=5)), "It is paid."] * 40
    with (
        Engine(ScriptedModel(replies), [paying([])], path, profile="native") as engine,
        writer(path, 3) as process,
        running(app(engine.journal)) as address,
        window(chromium) as (first, errors),
        window(chromium) as (second, others),
    ):
        oldest, *_ = [engine.run(f"Is {number} paid?").run_id for number in range(40)]
        for page in (first, second):
            page.goto(f"{address}#runs")
            until(page, "document.body.innerText.includes('Is 39 paid?')")
        first.goto(f"{address.partition('?')[0]}#run/{oldest}")
        until(first, "document.querySelector('.status')?.textContent", "ended")
        go(process)
        process.communicate(timeout=60)
        until(second, "document.body.innerText.includes('Read all pages')")
        first.get_by_role("link", name="Runs").first.click()
        until(first, "document.body.innerText.includes('Read all pages')")
        assert errors == others == []


def test_words_are_on_the_page_while_the_model_writes(tmp_path: Path, chromium: Any) -> None:
    """At the end of the transcript, until the row with the whole reply takes their place."""
    model = Writer()
    with (
        Engine(model, [model.tool], tmp_path / "runs.db", profile="native") as engine,
        running(app(engine)) as address,
        window(chromium) as (page, errors),
        ThreadPoolExecutor(1) as pool,
    ):
        driving: Future[Result] = pool.submit(engine.run, "Pay five")
        try:
            page.goto(address)
            until(page, "document.querySelector('.status')?.textContent", "live")
            until(page, "document.querySelector('.entry')?.innerText.includes('Pay five')")
            model.first.set()
            until(page, "document.querySelectorAll('.entry.tool').length", 1)
            model.second.set()
            until(
                page, "document.querySelector('.draft')?.innerText.includes('It was sk-live-1234567890 paid')"
            )
            until(page, "document.querySelectorAll('.entry.tool').length", 2)
            assert not driving.done()
            model.rest.set()
            until(page, "document.querySelector('.status')?.textContent", "ended")
            until(page, "document.querySelectorAll('.draft').length", 0)
            until(page, "document.querySelector('.entry:last-child')?.innerText.includes('paid for.')")
            assert errors == []
        finally:
            model.end()


def test_two_runs_are_compared_while_one_goes_on(tmp_path: Path, chromium: Any) -> None:
    """From one run the other is chosen in the list; the comparison follows what is written, without a reload."""
    with (
        bank(tmp_path / "runs.db", [], 5, 6) as engine,
        running(app(engine)) as address,
        window(chromium) as (page, errors),
    ):
        one, other = engine.run("Pay Ann"), engine.run("Pay Bob")
        page.goto(f"{address}#run/{one.run_id}")
        page.get_by_role("link", name="Compare").click()
        page.locator(".note", has_text="Choose the run to be compared with Pay Ann").wait_for()
        page.locator(".one", has_text="Pay Bob").click()
        page.get_by_role("heading", name="They part at row 0").wait_for()
        until(page, "location.hash", f"#compare/{one.run_id}/{other.run_id}")
        assert "asked otherwise because of objective" in page.inner_text(".cause")
        assert "neither has ended" in page.inner_text(".cause")
        for run in (one, other):
            result = run
            while result.waiting_for is not None:
                question = result.waiting_for.id
                result = engine.resume(run.run_id, answer={"approve": True}, question=question)
        until(page, "document.querySelector('.cause')?.innerText.includes('both end alike')")
        until(page, "document.querySelectorAll('.side .pill.done').length", 2)
        page.goto(f"{address.partition('?')[0]}#compare/{one.run_id}/{one.run_id[:4]}")
        page.get_by_role("heading", name="Not to be shown").wait_for()
        assert [text for text in errors if "404" not in text] == []


def test_runs_are_found_by_words_of_their_texts_and_of_their_metadata(tmp_path: Path, chromium: Any) -> None:
    """One word is in a reply that only the server reads, the other in what the page has."""
    said = ["The parcel is in Lyon.", "The parcel is in Ghent.", "The letter is in Lyon."]
    with (
        Engine(ScriptedModel([]), [], tmp_path / "runs.db", profile="native") as engine,
        running(app(engine.journal)) as address,
        window(chromium) as (page, errors),
    ):
        for number, tenant in enumerate(("acme", "acme", "globex")):
            engine.model = ScriptedModel([said[number]])
            engine.run(f"Question {number}", metadata={"tenant": tenant})
        page.goto(f"{address}#runs")
        until(page, "document.querySelectorAll('.one').length", 3)
        page.get_by_label("search").fill("lyon tenant:acme")
        until(page, "[...document.querySelectorAll('.one b')].map(b => b.textContent).join()", "Question 0")
        page.get_by_label("search").fill('lyon "letter is"')
        until(page, "[...document.querySelectorAll('.one b')].map(b => b.textContent).join()", "Question 2")
        assert errors == []


HIDE = """hidden => {
  Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Has a page believe that it is seen or not, as when another tab is chosen."""


def test_a_page_that_nobody_sees_listens_to_nothing_and_misses_nothing(tmp_path: Path, chromium: Any) -> None:
    """So any number of pages can be open, although a browser has six connections to one server."""
    with (
        bank(tmp_path / "runs.db", [], 5) as engine,
        running(app(engine.journal)) as address,
        window(chromium) as (page, errors),
    ):
        result = engine.run("Pay five")
        assert result.waiting_for is not None
        page.goto(address)
        pages = [page, *(page.context.new_page() for _ in range(7))]
        for number, other in enumerate(pages):
            for hidden in pages[:number]:
                hidden.evaluate(HIDE, True)
            other.goto(f"{address.partition('?')[0]}#run/{result.run_id}")
            until(other, "document.querySelector('.status')?.textContent", "live")
        engine.resume(result.run_id, answer={"approve": True}, question=result.waiting_for.id)
        until(pages[-1], "document.body.innerText.includes('All is paid.')")
        assert "All is paid." not in page.inner_text("body")
        pages[-1].evaluate(HIDE, True)
        page.evaluate(HIDE, False)
        until(page, "document.body.innerText.includes('All is paid.')")
        until(page, "document.querySelector('.status')?.textContent", "ended")
        assert errors == []


# -- a page of others ----------------------------------------------------------------------------------------------

EVIL = """<!doctype html><title>evil</title><body><script>
window.found = {};
const base = "BASE", note = (name, value) => { found[name] = String(value).slice(0, 400); };
const body = JSON.stringify({name: "QUESTION", answer: {approve: true}});
const tried = [
  fetch(base + "data/index", {credentials: "include"}).then(answer => answer.text()).then(text => note("read", text)).catch(() => 0),
  fetch(base + "data/index", {credentials: "include", mode: "no-cors"}).then(answer => note("opaque read", answer.type)).catch(() => 0),
  fetch(base, {credentials: "include"}).then(answer => answer.text()).then(text => note("page", text)).catch(() => 0),
  ...["answer", "cancel", "fork"].flatMap(action => ["text/plain", "application/json", "application/x-www-form-urlencoded"].flatMap(type =>
    ["cors", "no-cors"].map(mode => fetch(base + action + "/RUN", {method: "POST", mode, credentials: "include", body, headers: {"Content-Type": type}})
      .then(answer => answer.type === "opaque" ? 0 : note(action + type + mode, answer.status)).catch(() => 0)))),
  fetch(base + "answer/RUN", {method: "POST", credentials: "include", body, headers: {"Content-Type": "application/json", "X-Paor-Token": "x"}})
    .then(answer => note("preflighted", answer.status)).catch(() => 0),
  new Promise(done => { const source = new EventSource(base + "events", {withCredentials: true}); source.onmessage = event => note("events", event.data);
    source.addEventListener("runs", event => note("events", event.data)); source.onerror = () => { source.close(); done(); }; }),
  new Promise(done => { try { const socket = new WebSocket(base.replace("http", "ws") + "events"); socket.onopen = () => { note("socket", "open"); done(); };
    socket.onerror = done; } catch { done(); } }),
  new Promise(done => { const script = document.createElement("script"); script.src = base + "data/index"; script.onload = () => { note("script", "loaded"); done(); };
    script.onerror = done; document.body.append(script); }),
  new Promise(done => { const image = new Image(); image.src = base + "cancel/RUN"; image.onload = () => { note("image", "loaded"); done(); }; image.onerror = done; }),
];
navigator.sendBeacon(base + "answer/RUN", new Blob([body], {type: "text/plain"}));
for (const action of ["answer", "cancel", "fork"]) for (const enctype of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
  const frame = document.createElement("iframe"), form = document.createElement("form"), input = document.createElement("input");
  frame.name = action + enctype;
  Object.assign(form, {method: "POST", enctype, action: base + action + "/RUN", target: frame.name});
  Object.assign(input, {name: body.slice(0, -1) + ',"x":"', value: '"}'});
  form.append(input);
  document.body.append(frame, form);
  form.submit();
}
for (const target of ["", "data/index", "?token=TOKEN"]) {
  const frame = document.createElement("iframe");
  frame.src = base + target;
  frame.onload = () => { try { if (frame.contentDocument?.body?.innerText) note("frame " + target, frame.contentDocument.body.innerText); } catch {} };
  document.body.append(frame);
}
Promise.all(tried).then(() => setTimeout(() => { window.over = true; }, 800));
</script></body>"""


@contextmanager
def other_site(words: dict[str, str]) -> Iterator[int]:
    """Serve a page of somebody else's, at another port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Give the page."""
            text = EVIL
            for name, value in words.items():
                text = text.replace(name, value)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_page_of_others_reads_and_writes_nothing(name: str, tmp_path: Path, chromium: Any) -> None:
    """In the browser that has the cookie: of another site, and of the same one at another port, which gets the cookie along."""
    path = tmp_path / "runs.db"
    with bank(path, [], 5) as engine, running(app(engine)) as address, window(chromium) as (page, _):
        result = engine.run("Pay five")
        assert result.waiting_for is not None
        page.goto(address)
        until(page, "document.querySelector('.status')?.textContent", "live")
        base, _, token = address.partition("?token=")
        words = {"BASE": base, "RUN": result.run_id, "QUESTION": result.waiting_for.id, "TOKEN": token}
        before = rows_of(path)
        with other_site(words) as port:
            evil = page.context.new_page()
            frames: list[str] = []
            evil.on("framenavigated", lambda frame: frames.append(frame.url))
            evil.goto(f"http://{name}:{port}/")
            until(evil, "window.over")
            found = evil.evaluate("window.found")
            shown = [
                frame.evaluate("document.body?.innerText ?? ''")
                for frame in evil.frames[1:]
                if frame.url.startswith("http")
            ]
        assert {key: value for key, value in found.items() if key != "opaque read"} == {}, found
        assert not [text for text in shown if "Pay five" in text or "Waits" in text], shown
        assert rows_of(path) == before
        assert (
            page.evaluate("document.querySelector('.status').textContent") == "live"
        )  # its own page goes on


def test_a_link_to_the_page_from_elsewhere_shows_nothing_of_it(tmp_path: Path, chromium: Any) -> None:
    """The browser sends no cookie along with it, and a window that was opened so cannot be reached."""
    with (
        bank(tmp_path / "runs.db", [], 5) as engine,
        running(app(engine)) as address,
        window(chromium) as (page, _),
    ):
        engine.run("Pay five")
        page.goto(address)
        with other_site({"BASE": "http://127.0.0.1:1/"}) as port:
            evil = page.context.new_page()
            evil.goto(f"http://localhost:{port}/")
            with page.context.expect_page() as opened:
                evil.evaluate(f"window.other = window.open('{address.partition('?')[0]}')")
            opened.value.wait_for_load_state()
            assert "open the address with its token" in opened.value.inner_text("body")
            until(evil, "window.other.closed")  # cut off by Cross-Origin-Opener-Policy
