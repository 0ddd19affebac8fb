"""The page of a run in a browser without a network: journeys, broken chains, long runs, accessibility."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, report

from ..support.journeys import JOURNEYS, Journey, play
from .report_browser import (
    DeskRun,
    approval,
    desk_engine,
    ended,
    opened,
    replies,
    violations,
    written,
)
from .test_report_data import desk

__all__ = ["desk"]

pytestmark = pytest.mark.whole

Parts = dict[str, Any]
Change = Callable[[Parts], None]
"""What somebody does to the parts of a run before its page is written."""
VIEWS = ("#row-8", "#inbox", "#runs")


@pytest.fixture(scope="module")
def file(run: DeskRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give its page, with two more runs in the list."""
    other = run.line(
        id=approval()["run"], objective="T-119: Refund the late order", status="waiting", reason=None
    )
    failed = run.line(
        id="01a2-3", objective="Look for it", status="failed", reason="max_steps", tools=["mail.send"]
    )
    return written(
        tmp_path_factory.mktemp("page"), run.parts(other | {"verdict": "Waits for a person"}, failed)
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the page of two runs that part at once."""
    file = tmp_path_factory.mktemp("compared") / "run.html"
    with desk_engine(replies(20)) as engine:
        left, right = ended(engine, "Refund order O-1004"), ended(engine, "Refund order O-2000")
        file.write_text(report(engine.journal, left, diff=right), encoding="utf-8")
    return file


def test_keys_step_through_a_run(chromium: Any, file: Path, run: DeskRun) -> None:
    """Home, right, left and End select; list, drawing, lanes and address follow."""
    with opened(chromium, file, "#row-9") as seen:
        assert seen.row().startswith("observe")
        for key, row in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
            seen.page.keyboard.press(key)
            assert f"row {row}" in seen.row()
        seen.until("location.hash", "#row-1")
        assert seen.page.locator(".edge.walked").count() == 2
        seen.page.keyboard.press("End")
        assert f"row {len(run.rows) - 1}" in seen.row()
        seen.silent()


def test_space_plays_and_stops(chromium: Any, file: Path) -> None:
    """Playing takes one row after the other until it is stopped."""
    with opened(chromium, file, "#row-2") as seen:
        seen.row()
        seen.page.keyboard.press(" ")
        seen.until("document.querySelector('output').textContent.slice(0, 6)", "row 4 ")
        seen.page.keyboard.press(" ")
        here = seen.text("output")
        seen.later(900)
        assert seen.text("output") == here


def test_a_link_to_a_row_survives_reload_and_back(chromium: Any, file: Path) -> None:
    """Deep links are addresses like any other."""
    with opened(chromium, file, "#row-7") as seen:
        assert "row 7" in seen.row()
        seen.page.reload()
        assert "row 7" in seen.row()
        seen.page.goto(seen.page.url.replace("#row-7", "#inbox"))
        seen.page.get_by_role("heading", name="2 questions wait").wait_for()
        seen.page.go_back()
        assert "row 7" in seen.row()


def test_why_shows_the_guard_that_closed_each_row_before(chromium: Any, file: Path, run: DeskRun) -> None:
    """Of a refused call: the row taken first, then those tried before it with the guard that closed them, the forward one in red."""
    refused = next(row["seq"] for row in run.rows if row["trigger"] == "reselect")
    with opened(chromium, file, f"#row-{refused}") as seen:
        seen.row()
        assert seen.text(".detail .taken").startswith("reselect")
        kept = [text.split()[0] for text in seen.page.locator(".kept > div:first-child").all_inner_texts()]
        assert kept == ["fail", "wait", "answer", "select"]
        assert "action_allowed" in seen.text(".kept.way .g.stop")
        closed = seen.page.locator(".kept.way details")
        assert not closed.get_by_text("step 2 of").is_visible()
        closed.locator("summary").click()
        assert closed.get_by_text("step 2 of").is_visible()


def test_the_prompt_shows_what_is_new_against_the_last_of_its_kind(
    chromium: Any, file: Path, run: DeskRun
) -> None:
    """Changed lines and words are marked, the rest is folded and one click away."""
    with opened(chromium, file, "#row-6") as seen:
        seen.row()
        prompt = seen.page.locator(".part", has_text="Prompt").first
        assert re.search(r"1 new line since row 1 ", re.sub(r"\s+", " ", prompt.inner_text()))
        assert prompt.locator("pre .new").count() == prompt.locator("pre .gone").count() == 1
        assert prompt.locator("pre .new b").first.inner_text() == "1"
        assert "lines as before" in prompt.inner_text()
        prompt.get_by_role("button", name="whole prompt").click()
        assert "- order_id (text; required)" in prompt.inner_text()


def test_numbers_stay_as_they_were_written(chromium: Any, file: Path) -> None:
    """Indenting must not read: 34.0 is not 34."""
    with opened(chromium, file, "#row-1") as seen:
        seen.row()
        assert '"day": 34.0' in seen.text(".part:has-text('What was read') pre")


def test_an_entry_selects_its_row_and_a_row_its_entry(chromium: Any, file: Path, run: DeskRun) -> None:
    """Selecting follows through the panes; a row that nobody has said anything in has the entry before it."""
    with opened(chromium, file) as seen:
        seen.page.locator(".entry.tool", has_text="orders.find").first.click()
        assert seen.row().startswith("execute")
        seen.page.locator(".row", has_text="provide").first.click()
        assert seen.row().startswith("provide")
        assert "Dana Okafor approved" in seen.text(".entry[aria-current=true]").replace("\n", " ")
        seen.page.locator(".row", has_text="proceed").nth(1).click()
        assert seen.row().startswith("proceed")


def test_runs_are_filtered_and_the_filter_is_an_address(chromium: Any, file: Path) -> None:
    """Text, status, reason, tool and date narrow the list; a reload keeps them."""
    with opened(chromium, file, "#runs") as seen:
        seen.until("document.querySelectorAll('.one').length", 3)
        seen.page.get_by_label("search").fill("late order")
        seen.until("document.querySelectorAll('.one').length", 1)
        seen.page.get_by_label("search").fill("")
        seen.page.get_by_label("reason").select_option("max_steps")
        assert "Look for it" in seen.text(".one")
        seen.until("location.hash", "#runs?reason=max_steps")
        seen.page.reload()
        seen.until("document.querySelectorAll('.one').length", 1)
        seen.page.get_by_role("button", name="Clear").click()
        seen.page.get_by_label("from").fill("2031-01-01")
        seen.until("document.querySelectorAll('.one').length", 0)


def test_the_inbox_of_a_file_shows_the_call_and_the_command(chromium: Any, file: Path) -> None:
    """In a file nothing can be answered; what to type is there."""
    with opened(chromium, file, "#inbox") as seen:
        seen.page.get_by_role("heading", name="May payments.refund be called?").wait_for()
        assert "58.5" in seen.text(".ask .exact")
        assert seen.page.locator("form").count() == 0
        assert f"paor resume {approval()['run']} --answer yes" in seen.text(".ask .block")


def test_two_runs_are_compared_to_their_first_difference(chromium: Any, compared: Path) -> None:
    """The cause stands on top, the rows of both below."""
    with opened(chromium, compared, "#compare") as seen:
        seen.page.get_by_role("heading", name="They part at row 0").wait_for()
        assert "asked otherwise because of objective" in seen.text(".cause")
        assert seen.page.locator("pre .gone b").first.inner_text() == "1004"
        seen.page.locator(".pairs td:nth-child(3) a").nth(4).click()
        assert "row 4" in seen.row()
        assert "O-2000" in seen.text("h1")
        seen.silent()


def test_a_run_is_reached_by_keyboard_alone(chromium: Any, file: Path) -> None:
    """From the list to a run, its calls, the lanes and back, without a pointer."""
    with opened(chromium, file, "#runs") as seen:
        page = seen.page

        def tab_to(selector: str) -> None:
            for _ in range(60):
                page.keyboard.press("Tab")
                if page.evaluate("s => document.activeElement.matches(s)", selector):
                    return
            raise AssertionError(f"no tab stop {selector}")

        tab_to(".list")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        seen.row()
        tab_to("[aria-label=Rows].list")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        here = seen.row()
        tab_to(".lanes")
        page.keyboard.press("PageUp")
        assert seen.row() != here
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"


# -- what is not to be believed ------------------------------------------------------------------------------------------


def head_of(parts: Parts) -> Any:
    return parts[f"run/{parts['index']['open']}"]


def chunk_of(parts: Parts) -> Any:
    return parts[f"rows/{parts['index']['open']}/0"]


def _changed_byte(column: str) -> Change:
    def change(parts: Parts) -> None:
        row = chunk_of(parts)["rows"][13]
        if column in ("hash", "prev"):
            row[column] = ("0" if row[column][0] != "0" else "1") + row[column][1:]
        else:
            place = row["canonical"].index(f'"{column}":') + len(column) + 4
            new = "7" if row["canonical"][place] != "7" else "8"
            row["canonical"] = row["canonical"][:place] + new + row["canonical"][place + 1 :]

    return change


def _other_list(key: str) -> Change:
    def change(parts: Parts) -> None:
        row = parts["story"]["rows"][7]
        row[key] = row[key] + 1 if key == "at" else "other"

    return change


def _written_anew(parts: Parts) -> None:
    row = chunk_of(parts)["rows"][13]
    row["canonical"] = row["canonical"].replace('"guards":"{', '"guards":"{ ')
    row["hash"] = hashlib.sha256(bytes.fromhex(row["prev"]) + row["canonical"].encode()).hexdigest()


def _taken_out(parts: Parts) -> None:
    del chunk_of(parts)["rows"][13]


def _another_beginning(parts: Parts) -> None:
    head_of(parts)["chain"]["parts"][0]["root"] += " "


def _shortened(parts: Parts) -> None:
    head_of(parts)["chain"]["head"] = "ab" * 32


OTHERWISE = "broken at row 7. What this page lists is not what was hashed"
BROKEN: dict[str, tuple[Change, str]] = {
    **{
        name: (_changed_byte(name), "broken at row 13")
        for name in ("guards", "trigger", "at", "hash", "prev")
    },
    **{f"list of {name}": (_other_list(name), OTHERWISE) for name in ("trigger", "source", "dest", "at")},
    "a row written anew": (_written_anew, "broken at row 14. It does not follow from the row before"),
    "a row taken out": (_taken_out, "broken at row 13. It is missing"),
    "another beginning": (_another_beginning, "broken at row 0. It does not follow"),
    "another head": (_shortened, "not the head"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_chain_that_does_not_hold_is_named(chromium: Any, tmp_path: Path, name: str) -> None:
    """A row that does not fit is named on the whole page, and what follows is marked."""
    change, told = BROKEN[name]
    parts = DeskRun().parts()
    change(parts)
    with opened(chromium, written(tmp_path, parts)) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert told in seen.text(".alarm")
        if told == "broken at row 13":
            assert "row 13 does not fit" in seen.text(".facts")
            seen.page.wait_for_selector(".row.broken")


def test_defects_that_verification_found_stand_above_the_page(chromium: Any, tmp_path: Path) -> None:
    """As many as there are, also when only the first are named."""
    parts = DeskRun().parts()
    head_of(parts)["verify"] = {"defects": ["row 3: payload 7 was changed"] * 50, "count": 60}
    with opened(chromium, written(tmp_path, parts)) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert "Checking found 60 defects." in seen.text(".alarm")
        assert "60 defects" in seen.text(".facts") and "payload 7 was changed" in seen.text(".findings")


def test_a_row_has_its_counters_beside_their_limits(chromium: Any, file: Path) -> None:
    """As they stood then: steps and money of the rows so far, the others as the row has them."""
    with opened(chromium, file, "#row-17") as seen:
        seen.row()
        meters = re.sub(r"\s+", " ", seen.text(".part:has-text('Counters and budget') .meters"))
        assert "steps 3 of 3,000" in meters and "questions 1 of 99" in meters
        assert "cost" in meters and "of 0.2500" in meters
        assert "same_key" in seen.text(".part:has-text('Counters and budget')")


def test_cost_is_counted_by_kind_tool_and_model(chromium: Any, file: Path, run: DeskRun) -> None:
    """Requests and tokens of each kind and model, made and failed calls of each tool, as the story's rows and calls have them."""

    def rows(name: str) -> dict[str, list[str]]:
        seen.page.get_by_role("button", name=name, exact=True).click()
        told = [line.split("\t") for line in seen.text(".cost tbody").splitlines()]
        return {line[0].strip(): [cell.strip() for cell in line[1:]] for line in told}

    def asked(key: str, name: str) -> list[dict[str, Any]]:
        return [row for row in run.rows if row[key] == name]

    with opened(chromium, file) as seen:
        seen.row()
        seen.page.get_by_role("button", name="Limits").click()
        for name, key in (("kind", "asked"), ("model", "model")):
            shown = rows(name)
            assert shown.keys() == {row[key] for row in run.rows if row[key] not in (None, "", "recall")}
            for one, (count, tokens, *_) in shown.items():
                found = asked(key, one)
                used = [sum(row[column] for row in found) for column in ("tokens_in", "tokens_out")]
                assert (int(count), tokens) == (len(found), f"{used[0]:,} in, {used[1]:,} out")
        shown = rows("tool")
        made = [call for call in run.calls if call["started_at"] is not None]
        assert shown.keys() == {call["tool"] for call in made}
        for one, (count, *_) in shown.items():
            assert int(count) == sum(call["tool"] == one for call in made)


def test_a_model_without_a_price_has_no_cost_of_0(chromium: Any, file: Path) -> None:
    """Neither at the head nor by kind, tool or model; what a budget allows is shown with what was counted."""
    with opened(chromium, file) as seen:
        assert re.search(r"cost\s*–", seen.text(".facts"))
        seen.page.get_by_role("button", name="Limits").click()
        for name in ("kind", "tool", "model"):
            seen.page.get_by_role("button", name=name, exact=True).click()
            assert "–" in seen.text(".cost table") and "0.0000" not in seen.text(".cost")


# -- runs of the engine ------------------------------------------------------------------------------------------------

WALK = """async () => {
  const told = [], list = document.querySelector('output').textContent.match(/of ([\\d,]+)/)[1];
  for (let i = 0; i <= Number(list.replace(',', '')); i += 1) {
    location.hash = '#row-' + i;
    for (let turn = 0; turn < 1000; turn += 1) {
      await new Promise(done => setTimeout(done, 5));
      const at = document.querySelector('.detail .line .sub').textContent;
      if (at === 'row ' + i && document.querySelector('.detail').dataset.shown === String(i)) break;
    }
    told.push([document.querySelector('.detail h2').textContent, document.querySelectorAll('.taken').length > 0]);
  }
  return told;
}"""


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_every_row_of_a_run_of_the_engine_is_explained(
    chromium: Any, journey: Journey, tmp_path: Path
) -> None:
    """The chain of every kind of run holds as the browser computes it, and each row shows what was taken, as `why` does."""
    file = tmp_path / "run.html"
    with journey.engine(tmp_path) as engine:
        run_id = play(journey, engine).run_id
        rows = engine.journal.transitions(run_id)
        file.write_text(report(engine.journal, run_id), encoding="utf-8")
    with opened(chromium, file) as seen:
        seen.row()
        told = seen.page.evaluate(WALK)
        assert told == [[row.trigger, True] for row in rows]
        many = "row holds" if len(rows) == 1 else "rows hold"
        seen.page.get_by_text(f"✓ {len(rows)} {many}").wait_for()
        seen.silent()


def test_forks_and_erased_runs_are_shown(
    chromium: Any, desk: tuple[Engine, str], tmp_path: Path, axe: str
) -> None:
    """A fork's chain goes through its parent's rows; what was erased is said to be, and the values of guards stand."""
    engine, run_id = desk
    forked = engine.fork(run_id, at_seq=3)
    file = tmp_path / "fork.html"
    file.write_text(report(engine.journal, forked.run_id), encoding="utf-8")
    with opened(chromium, file, "#row-2") as seen:
        seen.row()
        seen.page.get_by_text("rows hold").wait_for()
        assert "forked from" in seen.text(".detail .blk")
    engine.journal.erase(run_id, reason="T-7", others="keep")
    file.write_text(report(engine.journal, run_id), encoding="utf-8")
    with opened(chromium, file, "#row-2") as seen:
        seen.row()
        seen.page.get_by_text("rows hold").wait_for()
        assert "(the objective was erased)" in seen.text("h1")
        assert "erased" in seen.text(".detail .blk") and seen.page.locator(".taken").count() > 0
        assert "T-7" in seen.text(".around")
        assert violations(seen, axe) == []
        seen.silent()


# -- long runs -----------------------------------------------------------------------------------------------------------


def test_a_long_run_is_at_most_a_page_of_elements(chromium: Any, tmp_path: Path) -> None:
    """A run of five thousand rows has as many elements as one of five hundred."""

    def elements(rows: int) -> int:
        with opened(chromium, written(tmp_path, DeskRun(rows).parts(), f"{rows}.html")) as seen:
            seen.row()
            return int(seen.page.evaluate("document.querySelectorAll('body *').length"))

    assert abs(elements(5000) - elements(500)) < 300


# -- for everybody -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_no_violation(
    chromium: Any, file: Path, compared: Path, axe: str, *, width: int, dark: bool
) -> None:
    """Names, roles, order and contrast of every view hold in both schemes and at both widths."""
    for place in (*VIEWS, "#compare"):
        shown_file = compared if place == "#compare" else file
        with opened(chromium, shown_file, place, width=width, dark=dark) as seen:
            seen.later(200)
            assert violations(seen, axe) == [], place
            for tab in seen.page.locator(".tabs button:visible").all():
                tab.click()
                seen.later(100)
                assert violations(seen, axe) == [], (place, tab.inner_text())
                assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1440, 1100, 390])
@pytest.mark.parametrize("place", [*VIEWS, "#compare"])
def test_no_view_scrolls_sideways(chromium: Any, file: Path, compared: Path, width: int, place: str) -> None:
    """Whatever the width, text wraps; only drawings scroll, in their own frame."""
    with opened(chromium, compared if place == "#compare" else file, place, width=width) as seen:
        seen.later(100)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_has_every_row_and_all_that_was_said(chromium: Any, file: Path, run: DeskRun) -> None:
    """What is printed is complete, though the lists on the screen are not, with machine and limits."""
    with opened(chromium, file) as seen:
        seen.row()
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        seen.page.emulate_media(media="print")
        assert seen.page.locator(".row").count() == len(run.rows)
        ran = sum(call["outcome"] == "ok" for call in run.calls)
        assert seen.page.locator(".entry.tool").count() == ran
        assert seen.page.locator(".draw").is_visible() and seen.page.locator(".limits").is_visible()
        assert not seen.page.locator(".player").is_visible()
