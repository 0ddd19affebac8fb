"""A run in the browser from top to bottom: what was said and done, rows by step, words and filters within it, time and playing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from paor import ScriptedModel, report
from paor.testing import call_tools, step

from .report_browser import DeskRun, desk_engine, ended, opened, replies, written

pytestmark = pytest.mark.whole

ENTRIES = "[...document.querySelectorAll('.entry')]"


def flat(text: str) -> str:
    """Return a text with single spaces."""
    return re.sub(r"\s+", " ", text)


def test_a_run_is_read_from_top_to_bottom(chromium: Any, file: Path) -> None:
    """The objective, each reply with its fields, each call with arguments and result, who approved, and the end."""
    with opened(chromium, file, height=6000) as seen:
        seen.row()
        seen.until(f"{ENTRIES}.some(entry => entry.innerText.includes('O-0 of 34.0'))", True)
        told = [flat(text) for text in seen.page.locator(".entry").all_inner_texts()]
        assert told[0].startswith("user") and "Refund order O-1004" in told[0]
        assert "○ the refund has a receipt" in told[0]
        assert told[1].startswith("Step 1 ") and "actionObjective find order 0" in told[1]
        assert "parameters order_id: O-0, day: 34.0" in told[2]
        assert "orders.find ✓ ran" in told[3] and told[3].endswith("order_id O-0 day 34.0 O-0 of 34.0")
        assert any("Dana Okafor approved" in text and "the photo shows it" in text for text in told)
        assert any("refused" in text and "orders.purge is denied by policy" in text for text in told)
        assert told[-1].endswith("Done · the model decided to stop Paid back.")
        seen.silent()


def test_an_ended_run_opens_at_its_beginning_also_on_a_phone(chromium: Any, file: Path) -> None:
    """The page is not scrolled, and the first thing to read is what the run was given; the row itself is one tab away."""
    for width, height in ((1440, 900), (390, 844)):
        with opened(chromium, file, width=width, height=height) as seen:
            seen.row()
            seen.until("scrollY", 0)
            assert seen.page.evaluate("document.querySelector('.of-said .list').scrollTop") == 0
            assert seen.text(".entry").startswith("user")
    with opened(chromium, file, width=390, height=844) as seen:
        seen.row()
        assert not seen.page.locator(".detail").is_visible()
        seen.page.get_by_role("button", name="Row", exact=True).click()
        assert seen.page.locator(".detail").is_visible()
        seen.page.get_by_role("button", name="Rows", exact=True).click()
        seen.page.locator(".row", has_text="respecify").first.click()
        seen.page.get_by_role("button", name="Transcript").click()
        assert "no JSON" in seen.text(".entry[aria-current=true]")


def test_rows_stand_in_their_steps(chromium: Any, file: Path, run: DeskRun) -> None:
    """Each step has one head, with its tools, above its first row."""
    with opened(chromium, file, height=3000) as seen:
        seen.row()
        heads = [flat(text) for text in seen.page.locator(".step-head b").all_inner_texts()]
        assert heads == [f"Step {number}" for number in sorted({row["step"] for row in run.rows})]
        assert "orders.find" in seen.text(".step-head")


def test_words_and_filters_find_rows(chromium: Any, file: Path, run: DeskRun) -> None:
    """All of the words, in what the story says or in the texts of the same row; a filter for trouble, people and each tool."""
    count = "document.querySelector('.find p').textContent"
    with opened(chromium, file) as seen:
        seen.row()
        words = seen.page.get_by_label("Words in this run")
        words.fill("DENIED policy")
        refused = [row["seq"] for row in run.rows if "refused" in row["marks"]]
        shown = "[...document.querySelectorAll('.row .no')].map(no => Number(no.textContent))"
        seen.until(shown, refused)
        words.fill("parametersContext orders.purge")  # of its reply alone
        seen.until(shown, refused)
        words.fill("no such words")
        seen.until(count, f"0 of {len(run.rows)} rows")
        words.fill("")
        seen.page.get_by_label("Which rows").select_option("people")
        turns = [row["seq"] for row in run.rows if {"waits", "answered"} & set(row["marks"])]
        seen.until(shown, turns)
        assert seen.page.locator(".entry").count() == len(turns)
        seen.page.get_by_label("Which rows").select_option("payments.refund")
        calls = [call for call in run.calls if call["tool"] == "payments.refund"]
        seen.until(f"{shown}.length", sum(call["last"] - call["seq"] + 1 for call in calls))
        seen.page.get_by_label("Which rows").select_option("everything")
        seen.until(count, f"{len(run.rows)} rows")


def test_a_run_plays_by_steps_at_a_speed(chromium: Any, file: Path, run: DeskRun) -> None:
    """Forward and back go to the last row of a step; the arrow keys stay at rows."""
    lasts = [
        row["seq"]
        for row, after in zip(run.rows, [*run.rows[1:], {}], strict=True)
        if row["step"] != after.get("step")
    ]
    with opened(chromium, file, "#row-0") as seen:
        seen.row()
        seen.page.get_by_label("Play by").select_option("steps")
        for last in lasts[:3]:
            seen.page.get_by_role("button", name="Forward").click()
            assert f"row {last} " in flat(seen.row()) + " "
        seen.page.get_by_role("button", name="Back").click()
        assert f"row {lasts[1]} " in flat(seen.row()) + " "
        seen.page.get_by_label("Speed").select_option("20×")
        seen.page.get_by_role("button", name="Play", exact=True).click()
        seen.until("document.querySelector('output').textContent", f"row {lasts[-1]} of {lasts[-1]}")
        seen.page.get_by_role("button", name="Play", exact=True).wait_for()


def test_the_timeline_has_a_scale_and_durations(chromium: Any, tmp_path: Path) -> None:
    """Round steps of work above the lanes, the length of a bar that has room for it, and both ends told apart within seconds."""
    run = DeskRun(10)
    parts = run.parts()
    at = parts["story"]["rows"][0]["at"]
    for row in parts["story"]["rows"]:
        row["time_us"] = 400_000 if row["model"] else 0
        row["at"] = at = at + row["time_us"]
    with opened(chromium, written(tmp_path, parts)) as seen:
        seen.page.wait_for_selector(".lanes .tick", state="attached")
        models = sum(bool(row["model"]) for row in parts["story"]["rows"])
        stamps = seen.page.locator(".lanes text.stamp").all_text_contents()
        assert stamps[0] in ("200 ms", "500 ms") and "0" in stamps
        assert all(re.fullmatch(r"\d\d:\d\d:\d\d\.\d\d\d", text) for text in stamps[-2:])
        assert stamps[-1] != stamps[-2]
        assert seen.page.locator(".lanes text.long").all_text_contents() == ["400 ms"] * models
        assert f"{models * 0.4:.1f} s of work" in seen.text(".time")


def test_a_run_that_failed_ends_in_red(chromium: Any, tmp_path: Path) -> None:
    """In the drawing, in the list of rows and in the transcript."""
    file = tmp_path / "failed.html"
    with desk_engine(["no JSON"] * 9) as engine:
        run = engine.run("Refund order O-1004")
        file.write_text(report(engine.journal, run.run_id), encoding="utf-8")
    red = "getComputedStyle(document.documentElement).getPropertyValue('--bad-fill')"
    with opened(chromium, file) as seen:
        seen.row()
        assert seen.page.locator(".row.off", has_text="fail").count() == 1
        assert "Failed · the model selected no usable action" in seen.text(".entry.off:last-child")
        seen.page.get_by_role("button", name="Machine").click()
        fill = "getComputedStyle(document.querySelector('.node.now.lost .rim')).fill"
        wanted = seen.page.evaluate(red).lstrip("#")
        assert (
            seen.page.evaluate(fill)
            == f"rgb({', '.join(str(int(wanted[k : k + 2], 16)) for k in (0, 2, 4))})"
        )


def test_json_within_json_is_not_escaped_twice(chromium: Any, tmp_path: Path) -> None:
    """A text that is JSON itself stands as it is; numbers and keys as they were written."""
    file = tmp_path / "native.html"
    said = [json.dumps(call_tools(step("orders.find", order_id="O-1", day=34.0))), "It is O-1."]
    with desk_engine(replies(5)) as engine:
        engine.model = ScriptedModel(said)
        run = engine.run("Find order O-1", profile="native")
        file.write_text(report(engine.journal, run.run_id), encoding="utf-8")
    with opened(chromium, file, "#row-0") as seen:
        seen.row()
        told = seen.text(".part:has-text('What was read') pre")
        assert '\\"' not in told and re.search(r'"content": “\{\n', told)
        assert '"day": 34.0' in told
        assert "orders.find(order_id: O-1, day: 34.0)" in seen.text(".entry .asked")


def test_a_long_run_keeps_its_place_and_finds_words_at_its_end(chromium: Any, tmp_path: Path) -> None:
    """Two thousand rows: the entry of the last row is shown, and words in its texts are found."""
    with desk_engine(replies(2000, asks=False)) as engine:
        run_id = ended(engine, "Refund order O-1004")
        rows = len(engine.journal.transitions(run_id))
        file = tmp_path / "long.html"
        file.write_text(report(engine.journal, run_id), encoding="utf-8")
    with opened(chromium, file, "#row-0") as seen:
        seen.row()
        seen.page.keyboard.press("End")
        assert f"row {rows - 1:,}" in seen.row()
        seen.until(
            "document.querySelector('.entry[aria-current=true]')?.innerText.includes('Paid back.')", True
        )
        box = seen.page.locator(".of-said .list").bounding_box()
        place = seen.page.locator(".entry[aria-current=true]").bounding_box()
        assert box["y"] <= place["y"] and place["y"] + place["height"] <= box["y"] + box["height"] + 1
        seen.page.get_by_label("Words in this run").fill("R-20418 success")
        seen.until("document.querySelector('.find p').textContent", f"1 of {rows:,} rows")
        seen.silent()
