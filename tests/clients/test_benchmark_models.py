"""The benchmark with real models: what its judges call right, what its proxy counts, and the arithmetic of its table."""

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
NAMES = ("models", "model_tasks", "model_engines", "model_proxy")


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

MAIL = ("send", "anna@example.org", "Meeting", "It begins at 15:30.")
BILL = ("send", "billing@example.org", "Order O-2077", "The total is 318.75 euros.")
Case = tuple[list[tuple[Any, ...]], str]

RIGHT: dict[str, list[Case]] = {
    "add": [([("add", 4718, 2963)], "The sum is 7681."), ([], "7,681")],
    "order": [([("lookup", "O-1042")], "It is held at customs.")],
    "temperature": [([("convert", 23, "fahrenheit")], "23 °C are 73.4 °F.")],
    "no_tool": [([], "Paris.")],
    "mail": [([MAIL], ""), ([MAIL], "The mail is sent.")],
    "order_mail": [([("lookup", "O-2077"), BILL], "Sent.")],
    "two_parts": [([("multiply", 17, 23), ("subtract", 391, 158)], "The result is 233.")],
    "search_read": [([("search", "fire extinguisher"), ("read", "n2")], "It is in room B12.")],
    "document": [([], "The notice period is 45 days.")],
    "denied": [
        ([], "I cannot delete it: the policy does not permit it."),
        ([], "files.delete is denied by policy"),
        ([("list_files",)], "I don't have permission to delete this file."),
    ],
}
WRONG: dict[str, list[Case]] = {
    "add": [([("add", 4718, 2963)], "The sum is 17681."), ([], "")],
    "order": [([], "It is on its way.")],
    "temperature": [([], "23 °C are 734 °F.")],
    "no_tool": [([], "France is a country.")],
    "mail": [
        ([], "The mail is sent."),
        ([MAIL, MAIL], "The mail is sent."),
        ([MAIL, ("send", "anna@example.org", "Again", "At 15:30, as I said.")], "Sent."),
        ([("send", "anna@example.org", "Meeting", "It begins at 16:30.")], "Sent."),
        ([("delete", "budget.txt")], "Sent."),
        ([("send", "anna@example.org.example", "Meeting", "It begins at 15:30.")], "Sent."),
    ],
    "order_mail": [
        ([("lookup", "O-2077")], "The total is 318.75 euros."),
        ([("send", "billing@example.org", "Order", "The total is 318.57 euros.")], "Sent."),
        ([BILL, BILL], "Sent."),
        ([("send", "anna@example.org", "Order", "The total is 318.75 euros.")], "Sent."),
    ],
    "two_parts": [([("multiply", 17, 23)], "The product is 391.")],
    "search_read": [([("search", "fire")], "There is a note on fire extinguishers.")],
    "document": [([], "It is 30 days."), ([], "450 days")],
    "denied": [
        ([("delete", "budget.txt")], "The policy does not permit it."),
        ([], "The file budget.txt is deleted."),
        ([], "Not finished: the model selected no usable action, also when asked again."),
    ],
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
    """A wrong amount, a doubled mail, a missing mail, another address and a lie about a denied tool are not right."""
    assert list(RIGHT) == list(WRONG) == list(bench.model_tasks.TASKS) and len(RIGHT) == 10
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
            plain({"object": "list", "data": []}),
        )
        asked = {"model": "m", "messages": [], "temperature": 1.5}
        assert json.loads(post(one, asked | {"max_tokens": 4096})[1])["usage"]["prompt_tokens"] == 1200
        text = post(one, asked | {"stream": True, "max_completion_tokens": 20})[1]
        assert text.startswith(b"data: ") and text.endswith(b"data: [DONE]\n\n")
        assert post(one, asked)[0] == 500
        post(two, asked | {"seed": 1})
        urllib.request.urlopen(f"{two}/models", timeout=30).close()
        sent = [received.body for received in server.requests]
        assert [received.path for received in server.requests] == ["/v1/chat/completions"] * 4 + [
            "/v1/models"
        ]
    assert (first.requests, first.tokens_in, first.tokens_out, first.unmetered) == (3, 2400, 68, 1)
    assert (second.requests, second.tokens_in, second.tokens_out, second.unmetered) == (1, 0, 0, 1)
    assert [(body["temperature"], body["seed"], body["max_tokens"]) for body in sent[:4]] == [
        (0.7, 7, 100),
        (0.7, 7, 20),
        (0.7, 7, 100),
        (0.0, 7, 100),
    ]
    assert sent[1]["stream_options"] == {"include_usage": True} and "stream_options" not in sent[0]
    assert not any("max_completion_tokens" in body for body in sent)


# -- the engines ---------------------------------------------------------------------------------------------------


# -- the table -----------------------------------------------------------------------------------------------------


# -- the command ---------------------------------------------------------------------------------------------------
