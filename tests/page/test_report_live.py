"""The live page in a browser: rows that come, a server that goes away, answers that are sent, refused, or given by somebody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .report_browser import Watched, approval, doubt, violations
from .report_server import LiveRun, served

pytestmark = pytest.mark.whole


@contextmanager
def looked_at(
    browser: Any, address: str, *, width: int = 1440, color_scheme: str = "light"
) -> Iterator[Watched]:
    """Open a live page; whatever it asks of another server is noted."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, reduced_motion="reduce", color_scheme=color_scheme
    )
    context.set_default_timeout(15_000)
    try:
        watched = Watched(context.new_page())
        base = address.partition("#")[0]
        watched.page.on(
            "request",
            lambda request: None if request.url.startswith(base) else watched.requests.append(request.url),
        )
        watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
        watched.page.goto(address)
        watched.ready()
        yield watched
    finally:
        context.close()


def sent(live: LiveRun, count: int) -> list[tuple[str, str | None, str]]:
    """Return what was sent once there is as much of it."""
    with live.posting:
        assert live.posting.wait_for(lambda: len(live.posted) >= count, 60)
    return live.posted


def test_rows_come_without_moving_what_is_read(chromium: Any) -> None:
    """At the end the page follows; elsewhere it says how many have come, and stays."""
    live = LiveRun(20)
    with served(live) as (address, _), looked_at(chromium, address) as seen:
        assert "row 19" in seen.row()
        seen.page.get_by_text("live", exact=True).wait_for()
        live.grow(2)
        seen.until("document.querySelector('output').textContent", "row 21 of 21")
        seen.page.keyboard.press("Home")
        assert "row 0" in seen.row()
        seen.page.get_by_role("button", name="Why").click()
        before = seen.page.evaluate("document.querySelector('.detail .scroll').scrollTop")
        live.grow(3)
        pill = seen.page.get_by_role("button", name="3 new rows")
        pill.wait_for()
        assert "row 0" in seen.row()
        assert seen.page.evaluate("document.querySelector('.detail .scroll').scrollTop") == before
        assert seen.text("output") == "row 0 of 24"
        pill.click()
        assert "row 24" in seen.row()
        assert not pill.is_visible()
        seen.page.get_by_text("✓ 25 rows hold").wait_for()
        seen.silent()


def test_rows_that_come_are_found_by_the_words_that_stand_there(chromium: Any) -> None:
    """Those that fit are listed, in the story and in the texts; those that were found before stay."""
    live = LiveRun(20)
    found = [row["seq"] for row in live.run.rows if "refused" in row["marks"]]
    with served(live) as (address, _), looked_at(chromium, address) as seen:
        seen.row()
        seen.page.get_by_text("live", exact=True).wait_for()
        for words in ("denied policy", "parametersContext orders.purge"):
            live.n = 20
            seen.page.reload()
            seen.row()
            seen.page.get_by_text("live", exact=True).wait_for()
            seen.page.get_by_label("Words in this run").fill(words)
            count = "document.querySelector('.find p').textContent"
            before = sum(seq < 20 for seq in found)
            seen.until(count, f"{before} of 20 rows")
            live.grow(20)
            after = sum(seq < 40 for seq in found)
            assert after > before
            seen.until(count, f"{after} of 40 rows")
            shown = "[...document.querySelectorAll('.row .no')].map(no => Number(no.textContent))"
            seen.until(shown, [seq for seq in found if seq < 40])
        seen.silent()


def test_rows_that_came_with_a_load_are_counted_too(chromium: Any) -> None:
    """One is told, and before the page has loaded the run's calls again two more are there."""
    live = LiveRun(20)
    with served(live) as (address, _), looked_at(chromium, address) as seen:
        seen.page.get_by_text("live", exact=True).wait_for()
        seen.page.keyboard.press("Home")
        live.grow(1)
        live.n += 2
        seen.page.get_by_role("button", name="3 new rows").wait_for()
        assert "row 0" in seen.row()
        seen.page.get_by_role("button", name="3 new rows").click()
        assert "row 22" in seen.row()
        seen.silent()


def test_a_lost_server_is_told_and_rows_meanwhile_are_caught_up(chromium: Any) -> None:
    """The header says reconnecting; afterwards no row is missing or there twice."""
    live = LiveRun(20)
    with served(live) as (address, handler), looked_at(chromium, address) as seen:
        seen.page.get_by_text("live", exact=True).wait_for()
        live.grow()
        seen.until("document.querySelector('output').textContent", "row 20 of 20")
        handler.down = True
        live.drop()
        seen.page.get_by_text("reconnecting").wait_for()
        live.grow(4)
        handler.down = False
        seen.page.get_by_text("live", exact=True).wait_for()
        seen.until("document.querySelector('output').textContent", "row 24 of 24")
        live.grow(len(live.run.rows) - 25)
        seen.page.get_by_text("ended", exact=True).wait_for()
        seen.page.get_by_text(f"✓ {len(live.run.rows)} rows hold").wait_for()
        assert "Done" in seen.text(".pill")


def test_what_is_erased_meanwhile_leaves_the_page_with_the_next_row(chromium: Any) -> None:
    """Also from rows that it had read before; the page says when, why and how much."""
    live = LiveRun(40)
    why = next(f"refused: {row['said']}" for row in live.run.rows if "refused" in row["marks"])
    with served(live) as (address, _), looked_at(chromium, address) as seen:
        seen.row()
        seen.page.get_by_role("button", name="Limits").click()
        assert why in seen.text(".limits")
        live.erased = True
        live.grow()
        seen.page.get_by_text("payloads 3-5 7").wait_for()
        assert why not in seen.text(".limits")
        assert "row 40" in seen.row()
        seen.silent()


def test_an_answer_is_pending_until_its_row_is_there(chromium: Any) -> None:
    """The page sends what was decided with its token, and says so until the question is gone."""
    live = LiveRun(20)
    with served(live) as (address, _), looked_at(chromium, address + "#inbox") as seen:
        card = seen.page.locator(".ask")
        card.get_by_label("Reason").fill('the photo "shows" it')
        card.get_by_label("Who answers").fill("Ida")
        card.get_by_role("button", name="Approve").click()
        card.get_by_text("Its row has not come yet").wait_for()
        assert card.get_by_role("button", name="Deny").is_disabled()
        ((path, token, body),) = sent(live, 1)
        assert path == f"/answer/{live.waits[0]['run']}" and token == "page-token"
        assert json.loads(body) == {
            "name": live.waits[0]["name"],
            "answer": {"approve": True},
            "reason": 'the photo "shows" it',
            "actor": "Ida",
        }
        live.tell("events", "runs", {"runs": [], "waits": []})
        card.get_by_text("the row of your answer is there").wait_for()
        seen.page.get_by_role("heading", name="Nothing waits").wait_for()


def test_the_answer_of_somebody_else_is_named(chromium: Any) -> None:
    """What was typed stays to be read, and nothing of it is sent."""
    live = LiveRun(20)
    live.waits = [approval(run=live.run.id, seq=18)]
    with served(live) as (address, _), looked_at(chromium, address + "#inbox") as seen:
        card = seen.page.locator(".ask")
        card.get_by_label("Reason").fill("half typed")
        live.decided = [
            {"decision": "denied", "actor": "Olu", "reason": "too much", "at": 1, "after_us": 1, "seq": 19}
        ]
        live.tell("events", "runs", {"runs": [], "waits": []})
        card.get_by_text("denied by Olu: too much").wait_for()
        assert card.get_by_label("Reason").input_value() == "half typed"
        assert live.posted == []


def test_a_refused_answer_can_be_given_again(chromium: Any) -> None:
    """What the server says is shown as it is, markup and all."""
    live = LiveRun(20)
    live.answers = [(409, {"error": "answered already by <b>Olu</b>\u202e"})]
    with served(live) as (address, _), looked_at(chromium, address + "#inbox") as seen:
        card = seen.page.locator(".ask")
        card.get_by_role("button", name="Deny").click()
        card.get_by_text("Not answered: who answers? A name is needed").wait_for()
        assert live.posted == []
        card.get_by_label("Who answers").fill("Ida")
        card.get_by_role("button", name="Deny").click()
        card.get_by_text("Not answered: answered already by <b>Olu</b>").wait_for()
        assert card.locator(".note .mark").inner_text() == "U+202E"
        assert not card.get_by_role("button", name="Deny").is_disabled()


def test_a_doubt_is_settled_with_its_result(chromium: Any) -> None:
    """No outcome looks like the default; a result goes as it was written, a text as a text."""
    live = LiveRun(20)
    live.waits = [doubt()]
    live.answers = [(422, {"error": "no"})]
    with served(live) as (address, _), looked_at(chromium, address + "#inbox") as seen:
        card = seen.page.locator(".ask")
        assert card.locator(".btn.pri").count() == 0
        card.get_by_label("Who answers").fill("Ida")
        card.get_by_label("result").fill('{"amount": 34.0')
        card.get_by_role("button", name="It happened").click()
        card.get_by_text("result is not JSON").wait_for()
        assert live.posted == []
        card.get_by_label("result").fill('{"amount": 34.0}')
        card.get_by_role("button", name="It happened").click()
        card.get_by_text("Not answered: no").wait_for()
        assert '"outcome":"done","result":{"amount": 34.0}' in sent(live, 1)[0][2]
        card.get_by_role("button", name="Try again").click()
        card.get_by_text("Its row has not come yet").wait_for()
        told = json.loads(sent(live, 2)[1][2])
        assert told["outcome"] == "retry" and not told.keys() & {"answer", "result"}


def test_an_answer_by_a_schema_has_its_fields(chromium: Any) -> None:
    """Texts, numbers, choices and yes or no each have their field; what is needed and missing is said."""
    live = LiveRun(20)
    schema = {
        "type": "object",
        "properties": {
            "day": {"type": "string", "description": "when"},
            "amount": {"type": "number", "minimum": 1, "exclusiveMaximum": 20},
            "size": {"enum": ["small", "large"]},
            "again": {"type": "boolean"},
            "more": {"type": "object"},
        },
        "required": ["amount", "size"],
    }
    live.waits = [approval(kind="elicitation", message="How much?", tool=None, schema=schema)]
    with served(live) as (address, _), looked_at(chromium, address + "#inbox") as seen:
        seen.page.get_by_role("heading", name="How much?").wait_for()
        card = seen.page.locator(".ask")
        assert "at least 1, less than 20" in card.inner_text()
        card.get_by_label("Who answers").fill("Ida")
        card.get_by_role("button", name="Answer", exact=True).click()
        card.get_by_text("amount is needed").wait_for()
        card.get_by_label("amount").fill("12.5")
        card.get_by_role("button", name="Answer", exact=True).click()
        card.get_by_text("size is needed").wait_for()
        card.get_by_label("amount").fill("12,5")
        card.get_by_role("button", name="Answer", exact=True).click()
        card.get_by_text("amount is a number").wait_for()
        card.get_by_label("amount").fill("1e400")
        card.get_by_label("size").select_option("large")
        card.get_by_label("again").select_option("false")
        card.get_by_role("button", name="Answer", exact=True).click()
        card.get_by_text("Its row has not come yet").wait_for()
        assert '"answer":{"amount":1e400,"size":"large","again":false}' in sent(live, 1)[0][2]


def test_axe_finds_no_violation_in_what_only_a_live_page_has(chromium: Any, axe: str) -> None:
    """Forms, pending and refused answers, the pill of new rows, the run's own buttons."""
    live = LiveRun(20)
    live.waits = [
        approval(),
        doubt(),
        approval(seq=9, kind="argument", schema={"properties": {"amount": {"type": "number"}}}),
    ]
    live.answers = [(409, {"error": "answered already"})]
    with served(live) as (address, _), looked_at(chromium, address) as seen:
        seen.row()
        seen.page.keyboard.press("Home")
        live.grow(2)
        seen.page.get_by_role("button", name="2 new rows").wait_for()
        live.tell(f"events/{live.run.id}", "said", {"text": "Half a", "anew": True})
        seen.page.keyboard.press("End")
        seen.page.locator(".draft", has_text="Half a").wait_for()
        assert violations(seen, axe) == []
        seen.page.get_by_role("link", name="Inbox").click()
        for name in seen.page.get_by_label("Who answers").all():
            name.fill("Ida")
        seen.page.get_by_role("button", name="Deny").click()
        seen.page.get_by_text("Not answered: answered already").wait_for()
        seen.page.get_by_role("button", name="Try again").click()
        seen.page.get_by_text("Its row has not come yet").wait_for()
        assert violations(seen, axe) == []


def _asked(seq: int, since: int, **changed: Any) -> dict[str, Any]:
    return approval(seq=seq, since=since, **changed)


def test_the_inbox_shows_the_oldest_question_first_and_finds_by_tool_and_metadata(chromium: Any) -> None:
    """A card that comes later takes its place without moving the others; what is chosen stands in the address."""
    live = LiveRun(20)
    day = 86_400_000_000
    live.waits = [
        _asked(9, 5 * day, message="third", kind="elicitation", metadata={"tenant": "globex", "desk": 2}),
        _asked(
            7, 2 * day, message="first", kind="elicitation", tool="mail.send", metadata={"tenant": "acme"}
        ),
    ]
    headings = "[...document.querySelectorAll('.ask:not([hidden]) h2')].map(h => h.textContent)"
    with served(live) as (address, _), looked_at(chromium, address + "#inbox") as seen:
        seen.until(headings, ["first", "third"])
        assert "tenant" in seen.text(".ask") and "acme" in seen.text(".ask")
        seen.page.locator(".ask").last.get_by_label("Reason").fill("half typed")
        live.waits = [
            _asked(8, 3 * day, message="second", kind="elicitation", metadata={"tenant": "acme"}),
            *live.waits,
        ]
        live.tell("events", "runs", {"runs": [], "waits": live.waits})
        seen.until(headings, ["first", "second", "third"])
        assert seen.page.locator(".ask").last.get_by_label("Reason").input_value() == "half typed"
        seen.page.get_by_label("metadata").fill("ACME")
        seen.until(headings, ["first", "second"])
        assert seen.text("h1") == "2 of 3 questions"
        seen.page.get_by_label("tool").select_option("mail.send")
        seen.until(headings, ["first"])
        seen.until("location.hash", "#inbox?tool=mail.send&metadata=ACME")
        seen.page.reload()
        seen.until(headings, ["first"])
        seen.page.get_by_label("tool").select_option("")
        seen.page.get_by_label("metadata").fill("globex 2")
        seen.until(headings, ["third"])
        seen.silent()


def test_other_arguments_are_approved_as_they_were_written(chromium: Any) -> None:
    """Unchanged ones are not sent; what is no JSON object is refused by the page, and a number goes as it stands."""
    live = LiveRun(20)
    live.waits = [approval(given='{"order_id": "O-1", "amount": 34.0}')]
    live.answers = [(422, {"error": "amount must be at most 20"})]
    with served(live) as (address, _), looked_at(chromium, address + "#inbox") as seen:
        card = seen.page.locator(".ask")
        card.get_by_label("Who answers").fill("Ida")
        card.get_by_text("Change the arguments").click()
        given = card.get_by_label("All arguments")
        assert json.loads(given.input_value()) == {"order_id": "O-1", "amount": 34.0}
        for wrong in ("[]", "{", "null"):
            given.fill(wrong)
            card.get_by_role("button", name="Approve").click()
            card.get_by_text("the arguments are no JSON object").wait_for()
            card.locator(".note").evaluate("note => note.replaceChildren()")
        assert live.posted == []
        given.fill('{"order_id": "O-1", "amount": 12.50}')
        card.get_by_role("button", name="Approve").click()
        card.get_by_text("Not answered: amount must be at most 20").wait_for()
        assert (
            '"answer":{"approve":true,"arguments":{"order_id": "O-1", "amount": 12.50}}'
            in sent(live, 1)[0][2]
        )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_no_violation_in_an_inbox_with_filters(
    chromium: Any, axe: str, *, width: int, dark: bool
) -> None:
    """Several cards with their metadata, the arguments open to be changed; nothing scrolls sideways."""
    live = LiveRun(20)
    long = {"tenant": "acme", "note": "x" * 300}
    live.waits = [
        approval(given='{"amount": 34.0}', metadata=long),
        doubt(),
        approval(
            seq=9, kind="argument", schema={"properties": {"size": {"enum": ["s"]}}, "required": ["size"]}
        ),
    ]
    scheme = "dark" if dark else "light"
    with (
        served(live) as (address, _),
        looked_at(chromium, address + "#inbox", width=width, color_scheme=scheme) as seen,
    ):
        seen.page.get_by_text("Change the arguments").click()
        assert violations(seen, axe) == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_run_is_cancelled_only_when_asked_twice(chromium: Any) -> None:
    """One press asks; so it is with a fork, which names its row."""
    live = LiveRun(20)
    with served(live) as (address, _), looked_at(chromium, address) as seen:
        seen.row()
        seen.page.get_by_role("button", name="Cancel the run").click()
        assert live.posted == []
        seen.page.get_by_role("button", name="Really cancel?").click()
        seen.page.get_by_text("Cancelling is asked for").wait_for()
        live.answers = [(200, {"ok": True, "run": "01a2-fork"})]
        seen.page.get_by_role("button", name="fork from this row").click()
        assert len(live.posted) == 1
        seen.page.get_by_role("button", name="Really start a new run from row 19?").click()
        seen.page.get_by_role("link", name="the fork").wait_for()
        assert [(path, body) for path, _, body in live.posted] == [
            (f"/cancel/{live.run.id}", "{}"),
            (f"/fork/{live.run.id}", '{"seq":19}'),
        ]
