"""A browser without a network for tests of the page, and runs of a desk to look at, of any length."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Limits, Policy, ScriptedModel, tool
from paor.errors import EffectUnknown
from paor.testing import SeededIds, call, refine, review

from .inside import CHUNK, JournalView, page_html

CHROMIUM = "/usr/bin/chromium"
LOST = "O-1011"
"""The order whose refund the bank does not answer."""


# -- the browser ---------------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """
    A page in a browser that has no network.

    Attributes:
        page: The page, of playwright.
        requests: What it asked for, but for its own file.
        errors: What the console and the page's scripts complained of.
    """

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        """Return what an element shows."""
        return str(self.page.locator(selector).first.inner_text())

    def until(self, expression: str, wanted: object) -> None:
        """Wait until an expression has a value; the page's policy forbids playwright to wait within it."""
        for _ in range(1200):
            found = self.page.evaluate(expression)
            if found == wanted:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{expression} is {found!r}, not {wanted!r}")

    def ready(self) -> None:
        """Wait until the page shows something."""
        self.page.wait_for_selector("main", state="attached")

    def later(self, milliseconds: int = 0) -> None:
        """Wait by a timer of the page itself: those that were set before with a shorter time, and a frame, have been."""
        self.page.evaluate(
            f"new Promise(done => requestAnimationFrame(() => setTimeout(done, {milliseconds})))"
        )

    def row(self) -> str:
        """Return the name and number of the selected row, once its details are there."""
        self.later()
        self.until(SHOWN, wanted=True)
        return self.text(".detail .top .line")

    def silent(self) -> None:
        """Assert that nothing was asked for and nothing went wrong."""
        assert self.requests == []
        assert self.errors == []


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Give a browser for the tests of a file, or skip them with the reason; playwright's event loop must not outlive them."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the browser tests need: pip install playwright"
    )
    if not Path(CHROMIUM).exists():
        pytest.skip(f"the browser tests need Debian's chromium at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


SHOWN = r"""(() => {
  const number = /row ([\d,]+)/.exec(document.querySelector("output")?.textContent ?? "")?.[1].replaceAll(",", "");
  const detail = document.querySelector(".detail");
  return number !== undefined && detail?.dataset.shown === number && detail.querySelector(".blk") !== null;
})()"""
"""Whether the details are those of the row that is selected."""


@contextmanager
def opened(
    browser: Any, file: Path, place: str = "", *, width: int = 1440, height: int = 900, dark: bool = False
) -> Iterator[Watched]:
    """Open a file in a browser context of its own, without a network; its address ends with *place*."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        offline=True,
        bypass_csp=False,
        reduced_motion="reduce",
    )
    context.set_default_timeout(15_000)
    try:
        watched = Watched(context.new_page())
        address = file.as_uri()
        watched.page.on("request", lambda request: _note(watched, request.url, address))
        watched.page.on(
            "console",
            lambda message: watched.errors.append(message.text) if message.type == "error" else None,
        )
        watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
        watched.page.goto(address + place, wait_until="commit")
        watched.ready()
        yield watched
    finally:
        context.close()


def _note(watched: Watched, url: str, address: str) -> None:
    if url.partition("#")[0] != address:
        watched.requests.append(url)


def written(folder: Path, parts: Mapping[str, Any], name: str = "run.html") -> Path:
    """Write the page of *parts* and return its file."""
    file = folder / name
    file.write_text(page_html(parts), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def axe() -> str:
    """Give axe-core as one script, the file that AXE_CORE names or that of a package; or skip with the reason."""
    given = os.environ.get("AXE_CORE")
    if given:
        return Path(given).read_text(encoding="utf-8")
    package = pytest.importorskip(
        "axe_core_python", reason="the accessibility tests need: pip install axe-core-python"
    )
    found = sorted(Path(next(iter(package.__path__))).rglob("axe.min.js"))
    if not found:
        pytest.skip("axe-core-python has no axe.min.js")
    return found[0].read_text(encoding="utf-8")


def violations(seen: Watched, axe: str) -> list[str]:
    """Return what axe-core says of a page, one line for each element."""
    seen.page.evaluate(axe)
    found = seen.page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
    return [f"{item['id']}: {node['html'][:160]}" for item in found for node in item["nodes"]]


# -- runs to look at -----------------------------------------------------------------------------------------------


@tool("orders.find", effect="read", repeat_allowed=True)
def find(order_id: str, day: float) -> str:
    """Find an order."""
    return f"{order_id} of {day}"


@tool("orders.purge", effect="once")
def purge() -> str:
    """Delete all orders."""
    return "gone"


@tool("payments.refund", effect="once", repeat_allowed=True)
def refund(order_id: str, amount: float) -> str:
    """Pay money back."""
    if order_id == LOST:
        raise EffectUnknown("The bank did not answer.")
    return "paid"


def replies(rows: int, *, asks: bool = True) -> list[Any]:
    """Return what a model says in a run of at least so many rows: it looks, is corrected, is refused a tool, and pays."""
    said: list[Any] = []
    made = 5
    for number in range(rows):
        if made >= rows:
            break
        selection, values = call("orders.find", order_id=f"O-{number}", day=34.0)
        selection["actionObjective"] = f"find order {number}"
        paid = call("payments.refund", order_id=f"O-{number}", amount=34.0)
        steps: list[tuple[list[Any], int]] = [
            ([selection, values, refine("continue")], 5),
            ([selection, "no JSON", values, refine("continue")], 6),
            (call("orders.purge")[:1], 1),
            ([*paid, refine("continue")], 7),
        ]
        replies, taken = steps[number % (4 if asks else 2)]
        said, made = [*said, *replies], made + taken
    met = [{"criterion": "the refund has a receipt", "met": True, "evidence": "R-20418"}]
    last = call("orders.find", order_id="O-1004", day=1.0)
    return [
        *said,
        *last,
        refine("stop", answer="Paid."),
        review("success", answer="Paid back.", criteria=met),
    ]


def desk_engine(said: Sequence[Any], ids: str = "desk") -> Engine:
    """Return an engine with the tools of a desk and these replies; a refund needs an approval, and nothing is purged."""
    return Engine(
        ScriptedModel([reply if isinstance(reply, str) else json.dumps(reply) for reply in said]),
        tools=[find, purge, refund],
        journal=":memory:",
        policy=Policy(deny=("*.purge",), approvals=("payments.refund",)),
        limits=Limits(max_steps=3000, max_retries=2, max_elicitations=99, cost_budget=0.25),
        ids=SeededIds(ids),
    )


def ended(engine: Engine, objective: str) -> str:
    """Run to the end, with every refund approved; return the run's id."""
    run = engine.run(objective, ["the refund has a receipt"])
    while run.waiting_for is not None:
        told: dict[str, Any] = {
            "question": run.waiting_for.id,
            "actor": "Dana Okafor",
            "reason": "the photo shows it",
        }
        run = engine.resume(run.run_id, answer={"approve": True}, **told)
    assert run.state == "Done", run
    return run.run_id


class DeskRun:
    """
    A run of an engine as parts of a page.

    Args:
        rows: At least how many; a long one asks nobody.
    """

    def __init__(self, rows: int = 40) -> None:
        with desk_engine(replies(rows, asks=rows <= 100)) as engine:
            self.id = ended(engine, "Refund order O-1004")
            view = JournalView(engine.journal)
            self._head: dict[str, Any] = view.part(f"run/{self.id}")
            self._line: dict[str, Any] = view.line(self.id)
            names = [
                f"rows/{self.id}/{number}" for number in range(-(-len(self._head["story"]["rows"]) // CHUNK))
            ]
            self._chunks: dict[str, Any] = {name: view.part(name) for name in names}
        self.rows: list[dict[str, Any]] = self._head["story"]["rows"]
        self.calls: list[dict[str, Any]] = self._head["story"]["calls"]

    def line(self, **changed: Any) -> dict[str, Any]:
        """Return the run as the list shows it."""
        return self._line | changed

    def run(self) -> dict[str, Any]:
        """Return the part ``run/ID``."""
        return deepcopy(self._head)

    def chunks(self) -> dict[str, Any]:
        """Return the parts ``rows/ID/K``."""
        return deepcopy(self._chunks)

    def parts(self, *others: dict[str, Any]) -> dict[str, Any]:
        """Return every part of a page of this run; *others* are lines of further runs in its list."""
        index = {"version": "0.1.0", "live": False, "journal": "runs.db", "title": "", "open": self.id}
        index |= {"runs": [self.line(), *others], "waits": [approval(), doubt()]}
        run = self.run()
        return {"index": index, "story": run.pop("story"), f"run/{self.id}": run, **self.chunks()}


@cache
def _questions() -> list[dict[str, Any]]:
    with desk_engine(call("payments.refund", order_id=LOST, amount=58.5), "asks") as engine:
        run = engine.run("T-119: Refund the late order")
        engine.run("T-119: Refund the late order")
        assert run.waiting_for is not None
        engine.resume(run.run_id, answer={"approve": True}, question=run.waiting_for.id)
        found: list[dict[str, Any]] = JournalView(engine.journal).waits()
    return sorted(found, key=lambda question: str(question["kind"]))


def approval(**changed: Any) -> dict[str, Any]:
    """Return a question whether a call may be made."""
    return deepcopy(_questions()[0]) | changed


def doubt() -> dict[str, Any]:
    """Return a question whether a call has happened."""
    return deepcopy(_questions()[1])
