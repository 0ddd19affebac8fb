"""Many runs in the browser: several words, metadata, and an overview of success, latency, waits and cost."""

from __future__ import annotations

import re
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, ScriptedModel, report
from paor.testing import call_tools, step

from ..support.forging import forge
from .inside import JournalView
from .inspect_kit import bank
from .report_browser import DeskRun, Watched, find, opened, violations, written

pytestmark = pytest.mark.whole

HOUR = 3_600_000_000
SHOWN = "[...document.querySelectorAll('.one b')].map(b => b.textContent)"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a page of six runs of two tenants, an hour between each and the next."""
    run = DeskRun()
    at = 1_779_181_200_000_000
    facts: list[tuple[str, str, str, str | None, int, int, int]] = [
        ("late order of Ann", "acme", "done", "model_stop", 4, 0, 2000),
        ("late order of Bob", "globex", "failed", "max_steps", 8, 0, 4000),
        ("broken order of Ann", "acme", "done", "model_stop", 66, 60, 2000),
        ("lost order of Cem", "acme", "failed", "model_error", 2, 0, 0),
        ("broken order of Dee", "globex", "done", "model_stop", 6, 0, 2000),
        ("late order of Dee", "globex-2", "waiting", None, 0, 0, 2000),
    ]
    lines = [
        run.line(
            id=f"0000000{number}-a",
            objective=objective,
            metadata={"tenant": tenant, "order": {"day": number}},
            status=status,
            reason=reason,
            created_at=at + number * HOUR,
            ended_at=None if status == "waiting" else at + number * HOUR + took * 1_000_000,
            waited_us=waited * 1_000_000,
            asked_at=at + (number - 2) * HOUR if status == "waiting" else None,
            cost_micro=cost,
            tools=["orders.find"] if status == "failed" else ["orders.find", "payments.refund"],
        )
        for number, (objective, tenant, status, reason, took, waited, cost) in enumerate(facts)
    ]
    index = run.parts()["index"] | {"runs": lines, "open": "", "waits": []}
    return written(tmp_path_factory.mktemp("many"), {"index": index})


def table(seen: Watched, by: str) -> dict[str, list[str]]:
    """Return the rows of the overview's table by their names."""
    seen.page.get_by_role("button", name=by, exact=True).click()
    lines = seen.text(".overview tbody").split("\n")
    cells = [re.split(r"\s*\t\s*", line.strip()) for line in lines if line.strip()]
    return {row[0]: row[1:] for row in cells}


def test_runs_are_found_by_several_words_and_by_metadata(chromium: Any, file: Path) -> None:
    """Each word anywhere, words in quotes as one, and a name of the metadata with its value."""
    wanted = {
        "dee late": ["late order of Dee"],
        "order ACME late": ["late order of Ann"],
        '"order of ann" broken': ["broken order of Ann"],
        "tenant:globex failed": [],  # its status is no word, its verdict is
        "tenant:globex max_steps": ["late order of Bob"],
        'order:{"day":3}': ["lost order of Cem"],
    }
    with opened(chromium, file, "#runs") as seen:
        for words, runs in wanted.items():
            seen.page.get_by_label("search").fill(words)
            seen.until(SHOWN, runs)
        seen.until("location.hash.startsWith('#runs?q=order')", True)
        seen.page.reload()
        seen.until(SHOWN, ["lost order of Cem"])
        seen.silent()


def test_the_overview_counts_what_the_list_shows(chromium: Any, file: Path) -> None:
    """Success, latency without waits, waits and cost, of all runs and of those that are filtered; a name narrows the list."""
    with opened(chromium, file, "#runs?view=overview") as seen:
        seen.page.get_by_role("heading", name="Latency").wait_for()
        charts = [re.sub(r"\s+", " ", text) for text in seen.page.locator(".chart").all_inner_texts()]
        assert "60 % 3 done 2 failed 1 waiting" in charts[0]
        assert "half within 6.0 s" in charts[1] and "95 % within 8.0 s" in charts[1]
        assert "half within 2 h 95 % within 2 h" in charts[2]  # one waits still, for two hours
        assert "0.0120 in all, 0.0020 a run" in charts[3]
        titles = seen.page.locator(".chart").first.locator("title").all_text_contents()
        assert len([text for text in titles if "1 run" in text]) == 6
        reasons = table(seen, "reason")
        assert reasons["model_stop"][:6] == ["3", "3", "0", "100 %", "6.0 s", "6.0 s"]
        assert set(reasons) == {"model_stop", "max_steps", "model_error", "waiting"}
        assert table(seen, "tool")["payments.refund"][:4] == ["4", "3", "0", "100 %"]
        assert table(seen, "tenant")["globex"][:4] == ["2", "1", "1", "50 %"]
        assert table(seen, "tenant")["globex-2"][0] == "1"
        seen.page.get_by_label("reason").select_option("max_steps")
        assert "0 % 1 failed" in re.sub(r"\s+", " ", seen.text(".chart"))
        seen.page.get_by_label("reason").select_option("")
        seen.page.get_by_role("button", name="reason", exact=True).click()
        seen.page.get_by_role("button", name="waiting", exact=True).click()
        seen.until(SHOWN, ["late order of Dee"])
        seen.page.get_by_role("button", name="Overview").click()
        seen.page.get_by_role("button", name="Clear").click()
        seen.page.get_by_role("button", name="tenant", exact=True).click()
        seen.page.get_by_role("button", name="globex", exact=True).click()
        seen.until(SHOWN, ["broken order of Dee", "late order of Bob"])  # and none of globex-2
        assert seen.page.evaluate("document.activeElement.getAttribute('aria-label')") == "Runs"
        seen.silent()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_no_violation_in_the_overview(
    chromium: Any, file: Path, axe: str, *, width: int, dark: bool
) -> None:
    """And nothing scrolls sideways but the table in its frame."""
    with opened(chromium, file, "#runs?view=overview", width=width, dark=dark) as seen:
        seen.page.get_by_role("heading", name="Latency").wait_for()
        assert violations(seen, axe) == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_line_says_how_long_a_run_has_waited(tmp_path: Path) -> None:
    """For each answer the time since its question; a fork has not waited for what its parent was answered."""
    with bank(tmp_path / "runs.db", [], 5, 6) as engine:
        run = engine.run("Pay")
        while run.waiting_for is not None:
            run = engine.resume(run.run_id, answer={"approve": True}, question=run.waiting_for.id)
        rows = engine.journal.transitions(run.run_id)
        waits = [after.at - row.at for row, after in pairwise(rows) if row.trigger == "wait"]
        fork = engine.fork(run.run_id, at_seq=rows[-3].seq)
        asks = engine.run("Pay").run_id
        found = {line["id"]: line for line in _index(engine)["runs"]}
        assert len(waits) == 2 and found[run.run_id]["waited_us"] == sum(waits) > 0
        assert found[fork.run_id]["waited_us"] == 0 and found[run.run_id]["asked_at"] is None
        assert found[asks]["asked_at"] == engine.journal.transitions(asks)[-1].at


def _index(engine: Engine) -> Any:
    return JournalView(engine.journal).index()


def test_a_damaged_round_keeps_no_page_from_being_made(chromium: Any, tmp_path: Path) -> None:
    """Neither its own nor that of another round, which says why the others are not there."""
    path, file = tmp_path / "runs.db", tmp_path / "talk.html"
    with Engine(ScriptedModel(["Hello Ann.", "Bye."]), journal=path, profile="native") as engine:
        runs = [engine.run(words, conversation="ann").run_id for words in ("I am Ann.", "Thank you.")]
    with closing(forge(path)) as connection, connection:
        connection.execute("UPDATE transitions SET at = at + 1 WHERE run = 1 AND seq = 0")
    with Journal(path, read_only=True) as journal:
        for run_id in runs:
            file.write_text(report(journal, run_id), encoding="utf-8")
    with opened(chromium, file) as seen:
        assert "other rounds of the conversation cannot be read" in seen.text(
            "p.note:has-text('other rounds')"
        )


def test_a_conversation_is_read_with_its_other_rounds(chromium: Any, tmp_path: Path) -> None:
    """What was said before this round stands above it, what came later below it, each with its run."""
    file = tmp_path / "talk.html"
    said: list[Any] = [
        "Hello Ann.",
        call_tools(step("orders.find", order_id="O-1", day=1.0)),
        "It is there.",
        "Bye.",
    ]
    with Engine(ScriptedModel(said), [find], ":memory:", profile="native") as engine:
        for question in ("I am Ann.", "Where is O-1?", "Thank you."):
            engine.run(question, conversation="ann")
        second = sorted(engine.journal.runs(), key=lambda row: row.round)[1].run_id
        file.write_text(report(engine.journal, second), encoding="utf-8")
    with opened(chromium, file, "#row-0", height=2000) as seen:
        seen.until("document.querySelectorAll('.entry.round').length", 4)
        seen.until("document.querySelector('.entry[aria-current=true]')?.innerText.includes('row 0')", True)
        told = [re.sub(r"\s+", " ", text) for text in seen.page.locator(".entry").all_inner_texts()]
        words = [
            re.sub(
                r"^(user|answer|scripted).*? (its run )?\d{4}-\S+ \S+ (.*?)( instructions)?$", r"\1: \3", text
            )
            for text in told
        ]
        assert words[:3] == ["user: I am Ann.", "answer: Hello Ann.", "user: Where is O-1?"]
        assert words[-2:] == ["user: Thank you.", "answer: Bye."]
        assert any("orders.find" in text for text in words[3:-2])
        seen.page.get_by_label("Words in this run").fill("ann")
        seen.until("document.querySelectorAll('.entry.round').length", 0)
