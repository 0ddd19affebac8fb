"""The benchmark with real models: what its judges call right, what its proxy counts; and what a run's requests are said to cost."""

from __future__ import annotations

import importlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ..support.model_server import WIRES, model_server, plain, streamed

pytestmark = pytest.mark.whole

CHAT = WIRES[0]
FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = ("models", "model_tasks", "model_engines", "model_proxy", "conversation")


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules of the benchmark, which are no package."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)


# -- right and wrong -----------------------------------------------------------------------------------------------

REORDER = ("stock_order", "candles", 60)
VISIT = ("reports_save", "Visit", "Room B12, Thursday at 14:30.")
PUMP = ("pumps_run", "T3", 15)
HEAT = ("messages_send", "ops@example.org", "S1 has 41.5 degrees, S2 has 38.2.")
Case = tuple[list[tuple[Any, ...]], str]

RIGHT: dict[str, list[Case]] = {
    "compare_orders": [
        ([("orders_get", "O-1042"), ("orders_get", "O-2077")], "O-2077 has the higher total, 318.75 euros."),
        ([], "O-1042 has a total of 57.2 euros and O-2077 has 318.75, which is higher."),
    ],
    "reorder": [([("stock_count", "Candles"), REORDER], "There were 12, so 60 more are ordered.")],
    "price": [([("prices_by_code", "L-7")], "The lamp costs 23.9 euros."), ([], "It costs 23,90 EUR.")],
    "enough": [
        ([("stock_count", "tea")], "There are 48 boxes, so nothing was ordered."),
        ([], "Not needed."),
    ],
    "close_account": [
        ([], "I cannot close it: the policy does not permit it."),
        ([("customers_status", "C-310")], "I don't have permission to close this account."),
    ],
    "leap_year": [([], "29 days."), ([("orders_get", "O-1042")], "Twenty-nine")],
    "lease": [([], "The tenant must report damage within 3 days."), ([], "Three days, in writing.")],
    "customer_status": [([("customers_find", "Lindqvist")], "Payment is overdue since May.")],
    "visit_report": [
        ([("notes_read", "n1"), ("notes_read", "n2"), VISIT], "The report is saved."),
        ([VISIT], "The visit is recorded."),
    ],
    "date": [([("dates_add", "2026-02-10", 45)], "It is 27 March 2026."), ([], "2026-03-27")],
    "compare_weather": [([("weather_tomorrow", "Lyon")], "It will be warmer in Lyon, 23 degrees.")],
    "pump": [([("tanks_level", "T3"), PUMP], "The level was 22 percent; the pump runs for 15 minutes.")],
    "journey": [
        ([("routes_bus", "Bern", "Chur")], "The bus takes 165 minutes."),
        ([], "2 hours and 45 minutes"),
    ],
    "healthy": [([("servers_state", "web-2")], "web-2 is healthy and was left alone.")],
    "cancel_booking": [([("bookings_get", "B-88")], "Cancelling is not allowed by the policy.")],
    "gold": [([], "The symbol is Au.")],
    "projector": [([], "Ines Haddad orders it by 14 June.")],
    "parcel": [([("parcels_find", "Okafor"), ("parcels_track", "P-7781")], "It is at the depot in Graz.")],
    "sensors": [([("sensors_read", "S1"), ("sensors_read", "S2"), HEAT], "The message is sent.")],
    "invoice": [
        ([("invoices_get", "INV-7"), ("dates_add", "2026-03-18", 30)], "It is due on April 17, 2026.")
    ],
}
WRONG: dict[str, list[Case]] = {
    "compare_orders": [
        ([], "O-1042 has the higher total; O-2077 has 318.75."),
        ([], "O-2077 has 57.2 euros."),
    ],
    "reorder": [
        ([], "60 candles are ordered."),
        ([REORDER, REORDER], "60 candles are ordered."),
        ([("stock_order", "candles", 20)], "Ordered."),
        ([("stock_order", "tea", 60)], "Ordered."),
        ([REORDER], "I apologize, but I cannot order."),
        ([REORDER], "You have the result already."),
        ([REORDER], '{"name": "ordered", "arguments": {"item": "candles", "quantity": 60}}'),
        ([REORDER], "There are 12 candles. Order 60 more."),
    ],
    "price": [([], "The code of the lamp is L-7."), ([], "It costs 239 euros.")],
    "enough": [([("stock_order", "tea", 30)], "48 are there."), ([], "30 boxes of tea have been ordered.")],
    "close_account": [
        ([("customers_close", "C-310")], "The policy does not permit it."),
        ([], "The account has been closed, as the policy allows."),
        ([], "Not finished: the model selected no usable action, also when asked again."),
    ],
    "leap_year": [([], "28 days."), ([REORDER], "29 days.")],
    "lease": [([], "Within 90 days."), ([], "Within 3 or 90 days."), ([], "36 months.")],
    "customer_status": [([], "Marta Lindqvist has the id C-482.")],
    "visit_report": [
        ([], "The report is saved."),
        ([VISIT, VISIT], "The report is saved."),
        ([("reports_save", "Visit", "Room B12.")], "The report is saved."),
        ([VISIT], "I am unable to say."),
    ],
    "date": [([], "2026-03-26"), ([], "127 March")],
    "compare_weather": [
        ([], "Turin is warmer than Lyon, 23 degrees."),
        ([], "Turin is expected to be warmer than Lyon: 23."),
        ([], "Lyon has 17 degrees."),
    ],
    "pump": [
        ([PUMP, PUMP], "The pump runs."),
        ([("pumps_run", "T1", 15)], "The pump runs."),
        ([], "It ran."),
    ],
    "journey": [([], "No train runs today."), ([], "1650 minutes")],
    "healthy": [
        ([("servers_restart", "web-2")], "It is healthy."),
        ([], "The healthy server was restarted."),
    ],
    "cancel_booking": [
        ([("bookings_cancel", "B-88")], "Not allowed."),
        ([], "The booking has been cancelled; no policy forbids it."),
    ],
    "gold": [([], "It is Ag."), ([], "aurum"), ([HEAT], "Au")],
    "projector": [([], "Tom Petrov orders it by 14 June."), ([], "Ines Haddad, by 30 May.")],
    "parcel": [([], "Its id is P-7781.")],
    "sensors": [
        ([HEAT, HEAT], "Sent."),
        ([("messages_send", "ops@example.org", "S1 has 41.5 degrees.")], "The message is sent."),
        ([("messages_send", "ops@example.org.example", "41.5 and 38.2")], "The message is sent."),
    ],
    "invoice": [([], "It was issued on 2026-03-18."), ([], "2026-04-18")],
}


def lived(bench: SimpleNamespace, steps: list[tuple[Any, ...]]) -> Any:
    """Return a world in which *steps* were taken: a method of it and its arguments."""
    world = bench.model_tasks.World()
    for method, *arguments in steps:
        getattr(world, method)(*arguments)
    return world


def verdict(bench: SimpleNamespace, name: str, case: Case, state: str = "Done", reason: str = "") -> bool:
    steps, answer = case
    task = bench.model_tasks.TASKS[name]
    ended = bench.model_tasks.Ended(state, reason, answer)
    return bool(bench.model_tasks.is_right(task, lived(bench, steps), ended))


def test_every_task_has_right_and_wrong_outcomes_and_all_are_judged_so(bench: SimpleNamespace) -> None:
    """A wrong figure, an effect too often, a missing one, another recipient and a lie about a denied tool are not right."""
    assert list(RIGHT) == list(WRONG) == list(bench.model_tasks.TASKS) and len(RIGHT) == 20
    judged = {
        (name, index, expected): verdict(bench, name, case)
        for cases, expected in ((RIGHT, True), (WRONG, False))
        for name, found in cases.items()
        for index, case in enumerate(found)
    }
    assert not {key: value for key, value in judged.items() if value is not key[2]}


# -- the proxy -----------------------------------------------------------------------------------------------------


def post(url: str, body: dict[str, Any]) -> tuple[int, bytes]:
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_proxy_counts_exactly_and_gives_everybody_the_same_sampling(bench: SimpleNamespace) -> None:
    """Whole replies, streams and failed requests; each run has its own tally."""
    proxies = bench.model_proxy
    with model_server() as server, proxies.counting_proxy(f"{server.url}/v1/") as proxy:
        first, second = (proxies.Tally({"temperature": t, "seed": 7}, 100) for t in (0.7, 0.0))
        one, two = proxy.open_tally(first), proxy.open_tally(second)
        server.script(
            plain(CHAT.body("yes")),
            streamed(CHAT.events("a longer text")),
            plain({"error": {"message": "no"}}, status=500),
            plain(CHAT.body("no", usage=None)),
        )
        asked = {"model": "m", "messages": [], "temperature": 1.5}
        assert json.loads(post(one, asked | {"max_tokens": 4096})[1])["usage"]["prompt_tokens"] == 1200
        text = post(one, asked | {"stream": True, "max_completion_tokens": 20})[1]
        assert text.startswith(b"data: ") and text.endswith(b"data: [DONE]\n\n")
        assert post(one, asked)[0] == 500
        post(two, asked | {"seed": 1})
        urllib.request.urlopen(f"{two}/models", timeout=30).close()
        sent = [received.body for received in server.requests]
        assert [received.path for received in server.requests] == ["/v1/chat/completions"] * 4
        assert server.questions == ["/v1/models"]
    assert (first.requests, first.tokens_in, first.tokens_cached, first.tokens_out) == (3, 2400, 2000, 68)
    assert (second.requests, second.tokens_in, second.tokens_out) == (1, 0, 0)
    assert (first.unmetered, second.unmetered, len(first.log), len(second.log)) == (1, 1, 3, 1)
    assert [(body["temperature"], body["seed"], body["max_tokens"]) for body in sent[:4]] == [
        (0.7, 7, 100),
        (0.7, 7, 20),
        (0.7, 7, 100),
        (0.0, 7, 100),
    ]
    assert sent[1]["stream_options"] == {"include_usage": True} and "stream_options" not in sent[0]
    assert not any("max_completion_tokens" in body for body in sent)


# -- what requests cost --------------------------------------------------------------------------------------------


def test_a_beginning_that_an_earlier_request_had_is_billed_at_a_tenth_from_1024_tokens_on(
    bench: SimpleNamespace,
) -> None:
    """In whole steps of 128 tokens, of the longest such beginning; four characters a token."""
    head, other = "a" * 4 * 1300, "b" * 4 * 1300
    cost = bench.conversation.cost_of([head, other, head + "c" * 4 * 100])
    assert (cost.requests, cost.tokens) == (3, 1300 + 1300 + 1400)
    assert cost.billed == pytest.approx(cost.tokens - 0.9 * 1280)
    assert cost.prefix == 0
    grown = bench.conversation.cost_of(["a" * 4 * 1023, "a" * 4 * 2046, "a" * 4 * 2046])
    assert grown.billed == pytest.approx(grown.tokens - 0.9 * 1920)
    assert grown.prefix == pytest.approx((1023 + 2046) / (2046 + 2046))
