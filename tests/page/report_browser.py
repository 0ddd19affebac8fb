"""A browser without a network for tests of the page, and made-up parts of it: a run of any length with a true chain."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paor import Machine

from .inside import page_html

CHROMIUM = "/usr/bin/chromium"
RUN_ID = "01a212d5-3826-7e7d-8b0c-15c876992281"
WAITING_ID = "01a212d5-3822-75ed-bb4e-a7327940ef57"
BEGIN_US = 1_779_181_322_000_137
CHUNK = 256
REFUSED, INVALID, WAITS, ANSWERED = 1, 2, 4, 8


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


# -- made-up parts -------------------------------------------------------------------------------------------------

# trigger, source, dest, kind of request, work in ms, flags, guards; the prompt is there for kinds that a model answers
_SELECT = ("select", "Planning", "Specifying", "selection", 1200, 0)
_SPECIFY = ("specify", "Specifying", "Executing", "parameters", 800, 0)
_EXECUTE = ("execute", "Executing", "Observing", "tool", 300, 0)
_OBSERVE = ("observe", "Observing", "Reviewing", "recall", 0, 0)
_PROCEED = ("proceed", "Reviewing", "Planning", "refinement", 900, 0)
_RESPECIFY = ("respecify", "Specifying", "Specifying", "parameters", 700, INVALID)
_REFUSE = ("refuse", "Specifying", "Observing", "parameters", 600, REFUSED)
_WAIT = ("wait", "Specifying", "Specifying", "parameters", 500, WAITS)
_PROVIDE = ("provide", "Specifying", "Specifying", "none", 0, ANSWERED)
_FINISH = ("finish", "Reviewing", "Done", "review", 400, 0)

_STEPS = (
    (_SELECT, _SPECIFY, _EXECUTE, _OBSERVE, _PROCEED),
    (_SELECT, _RESPECIFY, _SPECIFY, _EXECUTE, _OBSERVE, _PROCEED),
    (_SELECT, _REFUSE, _OBSERVE, _PROCEED),
    (_SELECT, _WAIT, _PROVIDE, _SPECIFY, _EXECUTE, _OBSERVE, _PROCEED),
)
_TOOLS = ("orders.find", "orders.find", "orders.purge", "payments.refund")
_GUARDS: dict[str, dict[str, bool]] = {
    "select": {
        "hard_stop": False,
        "elicitation_requested": False,
        "answer_present": False,
        "selection_valid": True,
        "action_allowed": True,
        "steps_left": True,
    },
    "refuse": {
        "hard_stop": False,
        "result_known": False,
        "approval_needed": False,
        "argument_missing": False,
        "parameters_valid": True,
        "parameters_safe": True,
        "action_allowed": False,
        "parameters_ok": True,
    },
    "wait": {"hard_stop": False, "result_known": False, "approval_needed": True, "elicitations_left": True},
    "provide": {"answer_valid": True},
}


class SyntheticRun:
    """
    A run that was never made: its rows fit the standard machine, its chain is true.

    Args:
        rows: About how many; the last one ends it.
        run_id: Its id.
        text: Put into every free text of it.
        objective: What it is for.
    """

    def __init__(
        self, rows: int = 40, *, run_id: str = RUN_ID, text: str = "", objective: str = "Refund order O-1004"
    ) -> None:
        self.id, self.text, self.objective = run_id, text, objective + text
        self.plan: list[tuple[Any, ...]] = []
        self.calls: list[dict[str, Any]] = []
        while len(self.plan) < rows - 6:
            self._step()
        self.plan += [*(_SELECT, _SPECIFY, _EXECUTE, _OBSERVE), _FINISH]
        self._call(len(self.plan) - 5, len(self.plan) - 3, 0)
        self.tables: dict[str, list[str]] = {
            name: [] for name in ("trigger", "phase", "kind", "tool", "model")
        }
        self.columns: dict[str, list[int]] = {}
        self.rows: list[dict[str, Any]] = []
        self.texts: list[dict[str, dict[str, Any]]] = []
        self.root = json.dumps({"run_id": run_id, "spec": "digest"}, sort_keys=True, separators=(",", ":"))
        self.hash = hashlib.sha256(self.root.encode()).hexdigest()
        self._write()

    def _step(self) -> None:
        kind = len(self.calls) % len(_STEPS)
        first, steps = len(self.plan), _STEPS[kind]
        self.plan += steps
        self._call(first, first + max(1, len(steps) - 3), kind)

    def _call(self, first: int, last: int, kind: int) -> None:
        refused, asked, tool = kind == 2, kind == 3, _TOOLS[kind]
        decided = {
            "decision": "approve",
            "actor": f"Dana Okafor{self.text}",
            "reason": f"the photo shows it{self.text}",
            "at": BEGIN_US,
            "after_us": 372_000_000,
            "seq": first + 2,
        }
        self.calls.append(
            {
                "seq": first,
                "last": last,
                "step": len(self.calls),
                "action": len(self.calls),
                "tool": tool + self.text,
                "effect": "once" if asked else "read",
                "args": [[f"order_id{self.text}", f"O-{1000 + len(self.calls)}{self.text}"]],
                "outcome": "refused" if refused else "ok",
                "result": ("denied by policy" if refused else "found it") + self.text,
                "key": f"{self.id}-{len(self.calls)}{self.text}",
                "took_us": 0 if refused else 300_000,
                "cost_micro": 1200,
                "caller": "",
                "decided": [decided] if asked else [],
            }
        )

    def _place(self, table: str, name: str) -> int:
        names = self.tables[table]
        if name not in names:
            names.append(name)
        return names.index(name)

    def _write(self) -> None:
        at, previous = BEGIN_US, {"": -1}
        columns: dict[str, list[int]] = {
            name: [] for name in (*("at", "took", "trigger", "source", "dest", "kind", "tool"), *_REST)
        }
        call_of = {seq: call for call in self.calls for seq in range(call["seq"], call["last"] + 1)}
        for seq, (trigger, source, dest, kind, work_ms, flags) in enumerate(self.plan):
            wait_us = 372_000_000 if flags & ANSWERED else 0
            step_us = work_ms * 1000 + wait_us + 500
            at += step_us
            asks = kind in ("selection", "parameters", "refinement", "review")
            tool = call_of[seq]["tool"] if seq in call_of and source != "Planning" else None
            values = {
                "at": at if seq == 0 else step_us,
                "took": work_ms * 1000,
                "trigger": self._place("trigger", trigger),
                "source": self._place("phase", source),
                "dest": self._place("phase", dest),
                "kind": self._place("kind", kind),
                "tool": self._place("tool", tool) if tool else -1,
                "model": self._place("model", "scripted" + self.text) if asks else -1,
                "tokens_in": 180 if asks else 0,
                "tokens_out": 30 if asks else 0,
                "cost": 640 if asks else 0,
                "step": seq // 5,
                "flags": flags,
            }
            for name, value in values.items():
                columns[name].append(value)
            self._row(seq, at, (trigger, source, dest), kind if asks else "", previous)
        self.columns = columns

    def _row(
        self, seq: int, at: int, edge: tuple[str, str, str], kind: str, previous: dict[str, int]
    ) -> None:
        trigger, source, dest = edge
        if seq % CHUNK == 0:
            self.texts.append({})
        texts, guards = self.texts[-1], _GUARDS.get(trigger, {"hard_stop": False})
        canonical = json.dumps(
            {
                "at": at,
                "dest": dest,
                "guards": json.dumps(guards),
                "seq": seq,
                "source": source,
                "trigger": trigger,
            },
            sort_keys=True,
            separators=(",", ":"),
        )
        before = self.hash
        self.hash = hashlib.sha256(bytes.fromhex(before) + canonical.encode()).hexdigest()
        row: dict[str, Any] = {
            "seq": seq,
            "run": 1,
            "canonical": canonical,
            "prev": before,
            "hash": self.hash,
            "asked": f"{kind or 'nothing'}{self.text}",
            "came": f"a reply{self.text}",
            "fact": "",
            "words": {name: f"what {name} looked at{self.text}" for name in guards},
            "note": "",
            "prompt": [],
            "previous": None,
            "reply": None,
            "documents": [],
            "guards": guards,
            "counters": [["retries", 1], ["blocked", 2], ["same_key", 1]],
            "values": None,
        }
        if kind:
            prompt, reply = f"1.{2 * seq}", f"1.{2 * seq + 1}"
            texts[prompt] = {"text": self._prompt(seq, kind), "type": "text/plain"}
            texts[reply] = {"text": f'{{"n":{seq}.0,"say":"row {seq}"}}{self.text}', "type": "text/plain"}
            row |= {
                "prompt": [prompt],
                "reply": reply,
                "previous": previous.get(kind),
                "set": f"1.{100_000 + seq}",
            }
            texts[f"1.{100_000 + seq}"] = {
                "text": f'{{"amount":34.0,"seq":{seq}}}',
                "type": "application/json",
            }
            previous[kind] = seq
        self.rows.append(row)

    def _prompt(self, seq: int, kind: str) -> str:
        lines = [
            f"# {kind}",
            "## Objective",
            self.objective,
            *(f"rule {number}: keep it short" for number in range(12)),
        ]
        return "\n".join([*lines, f"You are at row {seq} of it", f"order O-{seq}{self.text}"])

    # -- as parts --------------------------------------------------------------------------------------------------

    def line(self, **changed: Any) -> dict[str, Any]:
        """Return the line of the run in the list."""
        n, text = len(self.rows), self.text
        return {
            "id": self.id,
            "objective": self.objective,
            "state": "Done",
            "status": "done",
            "reason": "criteria_met",
            "verdict": "Done: every success criterion is met",
            "model": f"scripted{text}",
            "mode": "react",
            "created_at": BEGIN_US,
            "ended_at": BEGIN_US + 10**9,
            "rows": n,
            "steps": n // 5,
            "calls": len(self.calls),
            "refused": 1,
            "tokens": n * 100,
            "cost_micro": 36_600,
            "time_us": 43_300_000,
            "waits_for": "",
            "parent": None,
            "workflow": None,
            "key": f"ticket-7{text}",
            "metadata": {f"team{text}": f"returns{text}"},
            "tools": sorted({call["tool"] for call in self.calls}),
        } | changed

    def run(self) -> dict[str, Any]:
        """Return the part ``run/ID``."""
        text = self.text
        return {
            "line": self.line(),
            "criteria": [
                {"criterion": f"the refund has a receipt{text}", "met": True, "evidence": f"R-20418{text}"},
                {"criterion": "the customer was told", "met": None, "evidence": None},
            ],
            "answer": f"34.00 EUR were paid back.{text}",
            "tone": "done",
            "facts": [["paor", "0.1.0"], [f"mode{text}", f"react{text}"]],
            "chain": {
                "parts": [{"run_id": self.id, "root": self.root, "before": "", "first": 0}],
                "head": self.hash,
                "hashed": [],
            },
            "replay": {
                "identical": True,
                "rows": len(self.rows),
                "divergences": [],
                "unchecked": [],
                "changed": [],
            },
            "verify": {"defects": [], "count": 0},
            "machine": machine_part(),
            "chunk": CHUNK,
            "rows": {"n": len(self.rows), "tables": self.tables, **self.columns},
            "calls": self.calls,
            "limits": [
                {"name": "steps", "counter": "step", "used": 5, "allowed": 8, "unit": "count"},
                {"name": "retries", "counter": "retries", "used": 1, "allowed": 2, "unit": "count"},
                {"name": "cost", "counter": "cost", "used": 0.0366, "allowed": 0.25, "unit": "money"},
            ],
            "policy": {
                "only": [],
                "never": [f"*.purge{text}"],
                "asks": ["payments.refund"],
                "offered": ["orders.find"],
                "uncalled": [f"rules.read{text}"],
                "refused": [{"tool": f"mail.send{text}", "why": f"its result is known{text}", "seq": 2}],
                "denied": [[f"orders.purge{text}", "denied by policy"]],
            },
            "cost": {
                "kind": [[f"selection{text}", 9, 900, 90, 9000, 9_000_000]],
                "tool": [[f"orders.find{text}", 9, 0, 900_000, 0]],
                "model": [[f"scripted{text}", 9, 900, 90, 9000, 9_000_000]],
            },
            "documents": [
                {
                    "number": 1,
                    "label": f"result{text}",
                    "name": "r.txt",
                    "mime": "text/plain",
                    "bytes": 22,
                    "digest": "c29a",
                    "given": False,
                    "erased": False,
                }
            ],
            "erasures": [{"at": BEGIN_US, "reason": f"asked for{text}", "payloads": "1-4"}],
            "amendments": [{"seq": 1, "parts": [f"limits{text}"]}],
            "forks": [{"id": WAITING_ID, "seq": 3}],
            "tasks": [],
            "redacted": False,
        }

    def chunks(self) -> dict[str, Any]:
        """Return the parts ``rows/ID/K``."""
        return {
            f"rows/{self.id}/{number}": {
                "first": number * CHUNK,
                "rows": self.rows[number * CHUNK : (number + 1) * CHUNK],
                "texts": texts,
            }
            for number, texts in enumerate(self.texts)
        }

    def parts(self, *others: dict[str, Any], waits: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """Return every part of a page of this run; *others* are lines of further runs in its list."""
        index = {
            "version": "0.1.0",
            "live": False,
            "journal": "runs.db",
            "title": "",
            "open": self.id,
            "runs": [self.line(), *others],
            "waits": waits if waits is not None else [approval(self.text), doubt(self.text)],
        }
        return {"index": index, f"run/{self.id}": self.run(), **self.chunks()}


_REST = ("model", "tokens_in", "tokens_out", "cost", "step", "flags")


MACHINE = Machine.standard()


def machine_part() -> dict[str, Any]:
    """Return the standard machine as a page draws and explains it."""
    rows = [
        {
            "source": row.source,
            "trigger": row.trigger,
            "dest": row.dest,
            "meaning": row.meaning,
            "guards": [
                [guard.removeprefix("not "), not guard.startswith("not ")]
                for guard in (*row.conditions, *(f"not {name}" for name in row.unless))
            ],
            "when": "both" if row.guards == ("hard_stop",) else "waiting" if row.answers else "going",
            "host": False,
        }
        for row in MACHINE.rows
    ]
    guards = {
        name: " ".join((guard.__doc__ or "").split("\n\n")[0].split())
        for name, guard in MACHINE.guards.items()
    }
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 60" role="img" aria-label="The machine">'
        '<g id="m-e0" class="edge"><path id="m-e0-line" class="line" d="M60 30H140"/></g><text id="m-e0-0" class="label" x="90" y="20">select</text>'
        '<g id="m-n0" class="node"><rect class="rim" x="5" y="15" width="55" height="30"/><text class="name" x="10" y="34">Planning</text></g>'
        '<g id="m-n1" class="node"><rect class="rim" x="140" y="15" width="55" height="30"/><text class="name" x="142" y="34">Specifying</text></g></svg>'
    )
    edges = {"Planning|select|Specifying": ["m-e0", "m-e0-line", "m-e0-0"]}
    return {
        "svg": svg,
        "edges": edges,
        "nodes": {"Planning": "m-n0", "Specifying": "m-n1"},
        "rows": rows,
        "guards": guards,
    }


def approval(text: str = "", **changed: Any) -> dict[str, Any]:
    """Return a question whether a call may be made."""
    return {
        "run": WAITING_ID,
        "seq": 6,
        "name": "6-0123456789abcdef01234567",
        "kind": "approval",
        "message": f"May payments.refund be called?{text}",
        "since": BEGIN_US,
        "objective": f"T-119: Refund the late order{text}",
        "tool": f"payments.refund{text}",
        "effect": "once",
        "description": f"Pay money back.{text}",
        "arguments": [["order_id", f"O-1011{text}"], ["amount", "58.50"]],
        "wanted_for": f"pay it back{text}",
        "why": [f"payments.refund needs an approval{text}"],
        "counts_for": "this call with these arguments, once",
        "rows": 7,
        "tokens": 2086,
        "cost_micro": 7546,
        "call_key": f"{WAITING_ID}-2",
        "schema": {},
        "choices": [],
        "safe_to_retry": "",
        "command": f"paor resume {WAITING_ID} --answer yes{text}",
    } | changed


def doubt(text: str = "") -> dict[str, Any]:
    """Return a question whether a call has happened."""
    told = {
        "seq": 2,
        "kind": "in_doubt",
        "tool": f"shipping.book{text}",
        "message": f"The carrier did not answer.{text}",
    }
    return approval(text, **told, safe_to_retry="only if it certainly did not happen")
