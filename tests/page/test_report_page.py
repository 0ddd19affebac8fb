"""The page of a run in a browser without a network: journeys, hostile texts, broken chains, long runs, accessibility."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path
from typing import Any

import pytest

from paor import Engine
from paor.fsm.report.html import content_policy, page_html, report

from ..support.hostile_texts import HOSTILE, UNSEEN, visible
from ..support.journeys import JOURNEYS, Journey, play
from .report_browser import RUN_ID, WAITING_ID, SyntheticRun, axe, chromium, opened, violations, written
from .test_report_data import desk

__all__ = ["axe", "chromium", "desk"]

CODE_BYTES_MAX = 60_000
VIEWS = ("#row-8", "#inbox", "#runs")


@pytest.fixture(scope="module")
def run() -> SyntheticRun:
    """Give a run of about forty rows."""
    return SyntheticRun(40)


@pytest.fixture(scope="module")
def file(run: SyntheticRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give its page, with two more runs in the list."""
    other = run.line(id=WAITING_ID, objective="T-119: Refund the late order", status="waiting", reason=None)
    failed = run.line(
        id="01a2-3", objective="Look for it", status="failed", reason="max_steps", tools=["mail.send"]
    )
    return written(
        tmp_path_factory.mktemp("page"), run.parts(other | {"verdict": "Waits for a person"}, failed)
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the page of two runs that part at once."""
    left, right = SyntheticRun(30), SyntheticRun(45, run_id=WAITING_ID, objective="Refund order O-2000")
    parts = left.parts(right.line(), waits=[])
    difference = {
        "left": RUN_ID,
        "right": WAITING_ID,
        "identical": False,
        "shared": 0,
        "seq": 0,
        "source": "Planning",
        "field": "request.prompt",
        "line": 3,
        "cause": "config",
        "parts": ["objective"],
        "detail": "asked otherwise because of objective",
        "left_text": "a",
        "right_text": "b",
        "decision_seq": 26,
        "same_end": True,
        "same_answer": True,
        "others": ["limits.max_steps"],
    }
    return written(
        tmp_path_factory.mktemp("compared"),
        {
            "index": parts.pop("index"),
            "diff": difference,
            f"run/{WAITING_ID}": right.run(),
            **parts,
            **right.chunks(),
        },
    )


# -- what is delivered -----------------------------------------------------------------------------------------------


def test_the_code_of_the_page_is_at_most_60_kilobytes() -> None:
    """Markup, style and scripts together as they stand in the file, where style and scripts are packed; unpacked they are twice that."""
    assert len(page_html({}).encode()) <= CODE_BYTES_MAX


def test_the_same_parts_give_the_same_bytes(run: SyntheticRun) -> None:
    """A report can be compared and signed; an iterable of pairs gives what a mapping gives."""
    parts = run.parts()
    assert page_html(parts) == page_html(iter(parts.items()))


def test_a_part_cannot_end_its_element() -> None:
    """Whatever a run or its id holds, the file has the scripts that the page has, and no more."""
    hostile = '"></script><script>alert(1)</script>'
    text = page_html({"index": {"runs": [hostile]}, f"run/{hostile}": {"x": hostile}})
    assert text.count("<script") == text.count("</script>") == 5
    assert "alert(1)" not in text.replace("&quot;&gt;&lt;/script&gt;&lt;script&gt;alert(1)", "")


def test_only_a_live_page_may_reach_its_server() -> None:
    """The policy of a file allows no request at all."""
    assert "connect-src" not in page_html({})
    assert "connect-src &#x27;self&#x27;" in page_html({}, live="/")
    assert 'data-live="/a/&quot;"' in page_html({}, live='/a/"')
    assert "unsafe" not in page_html({}, live="/")
    assert content_policy(live=True).startswith("default-src 'none'; ")


ATTEMPTS = """async () => {
  const told = new Set();
  document.addEventListener('securitypolicyviolation', event => told.add(event.effectiveDirective));
  await fetch('https://example.org/').catch(() => 0);
  new Image().src = 'https://example.org/x.png';
  const style = document.createElement('style');
  style.textContent = 'body { display: none }';
  document.head.append(style);
  try { document.body.innerHTML = '<b>x</b>'; } catch { told.add('innerHTML'); }
  const frame = document.createElement('iframe');
  frame.src = 'https://example.org/';
  document.body.append(frame);
  const form = document.createElement('form');
  form.action = 'https://example.org/';
  document.body.append(form);
  form.submit();
  await new Promise(done => setTimeout(done, 200));
  return [...told].sort();
}"""


def test_the_policy_of_a_file_holds_in_the_browser(chromium: Any, file: Path) -> None:
    """Even a script that got in could send nothing, load nothing and make no markup of a text."""
    with opened(chromium, file) as seen:
        seen.row()
        kept = seen.page.evaluate(ATTEMPTS)
    wanted = {"connect-src", "form-action", "frame-src", "img-src", "style-src-elem", "innerHTML"}
    assert wanted <= set(kept)


# -- journeys --------------------------------------------------------------------------------------------------------


def test_a_run_opens_at_its_end_with_verdict_and_checked_chain(
    chromium: Any, file: Path, run: SyntheticRun
) -> None:
    """The first screen says whether it worked, and whether that may be believed."""
    with opened(chromium, file) as seen:
        seen.page.get_by_text(f"✓ {len(run.rows)} rows hold").wait_for()
        assert "every success criterion is met" in seen.text(".pill")
        assert seen.row().split() == ["finish", "row", str(len(run.rows) - 1), *seen.row().split()[3:]]
        assert seen.page.title().startswith("Refund order")
        seen.silent()


def test_keys_step_through_a_run(chromium: Any, file: Path, run: SyntheticRun) -> None:
    """Home, right, left and End select; list, drawing, lanes and address follow."""
    with opened(chromium, file, "#row-9") as seen:
        assert seen.row().startswith("observe")
        for key, row in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
            seen.page.keyboard.press(key)
            assert f"row {row}" in seen.row()
        seen.until("location.hash", "#row-1")
        assert seen.page.locator("#m-e0.walked").count() == 1
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
        seen.page.wait_for_timeout(900)
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


def test_why_shows_the_guard_that_closed_each_row_before(
    chromium: Any, file: Path, run: SyntheticRun
) -> None:
    """Of a refused call: the row taken first, then those tried before it with the guard that closed them, the forward one in red."""
    refused = next(row["seq"] for row in run.rows if '"refuse"' in row["canonical"])
    with opened(chromium, file, f"#row-{refused}") as seen:
        seen.row()
        assert seen.text(".taken").startswith("refuse")
        kept = [text.split()[0] for text in seen.page.locator(".kept > div:first-child").all_inner_texts()]
        assert kept == ["fail", "withhold", "wait", "wait", "specify", "respecify"]
        assert "action_allowed" in seen.text(".kept.way .g.stop")
        closed = seen.page.locator(".kept.way details")
        assert not closed.get_by_text("what parameters_valid looked at").is_visible()
        closed.locator("summary").click()
        assert closed.get_by_text("what parameters_valid looked at").is_visible()


def test_the_prompt_shows_what_is_new_against_the_last_of_its_kind(
    chromium: Any, file: Path, run: SyntheticRun
) -> None:
    """Changed lines and words are marked, the rest is folded and one click away."""
    with opened(chromium, file, "#row-6") as seen:
        seen.row()
        prompt = seen.page.locator(".part", has_text="Prompt").first
        assert re.search(r"\d+ new lines since row \d+", re.sub(r"\s+", " ", prompt.inner_text()))
        assert prompt.locator("pre .new").count() == prompt.locator("pre .gone").count() == 2
        assert prompt.locator("pre .new b").first.inner_text() == "6"
        assert "lines as before" in prompt.inner_text()
        prompt.get_by_role("button", name="whole prompt").click()
        assert "rule 7: keep it short" in prompt.inner_text()


def test_numbers_stay_as_they_were_written(chromium: Any, file: Path) -> None:
    """Indenting must not read: 34.0 is not 34."""
    with opened(chromium, file, "#row-5") as seen:
        seen.row()
        assert '"amount": 34.0,' in seen.text(".part:has-text('What was read') pre")


def test_a_call_selects_its_row_and_a_row_its_call(chromium: Any, file: Path, run: SyntheticRun) -> None:
    """Selecting follows through the panes."""
    with opened(chromium, file) as seen:
        seen.page.locator(".call", has_text="orders.purge").first.click()
        assert seen.row().startswith("refuse")
        seen.page.get_by_role("button", name="Rows").click()
        seen.page.locator(".row", has_text="provide").first.click()
        assert seen.row().startswith("provide")
        seen.page.get_by_role("button", name="Calls").click()
        assert "payments.refund" in seen.text(".call.on")


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
        assert "58.50" in seen.text(".ask .exact")
        assert seen.page.locator("form").count() == 0
        assert f"paor resume {WAITING_ID} --answer yes" in seen.text(".ask .block")


def test_two_runs_are_compared_to_their_first_difference(chromium: Any, compared: Path) -> None:
    """The cause stands on top, the rows of both below."""
    with opened(chromium, compared, "#compare") as seen:
        seen.page.get_by_role("heading", name="They part at row 0").wait_for()
        assert "asked otherwise because of objective" in seen.text(".cause")
        assert seen.page.locator("pre .gone b").first.inner_text() == "1004"
        seen.page.locator(".pairs td:nth-child(3) a").nth(4).click()
        assert "row 4" in seen.row()
        assert WAITING_ID in seen.page.url
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
        tab_to("[aria-label=Calls].list")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        here = seen.row()
        tab_to(".lanes")
        page.keyboard.press("PageDown")
        assert seen.row() != here
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"


# -- what is not to be believed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["guards", "trigger", "at", "hash", "prev"])
def test_one_changed_byte_breaks_the_chain(chromium: Any, tmp_path: Path, column: str) -> None:
    """A row that does not fit is named on the whole page, and every later row is marked."""
    run = SyntheticRun(40)
    row = run.rows[13]
    if column in ("hash", "prev"):
        row[column] = ("0" if row[column][0] != "0" else "1") + row[column][1:]
    else:
        place = row["canonical"].index(f'"{column}":') + len(column) + 4
        old = row["canonical"][place]
        row["canonical"] = (
            row["canonical"][:place] + ("7" if old != "7" else "8") + row["canonical"][place + 1 :]
        )
    with opened(chromium, written(tmp_path, run.parts())) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert "broken at row 13" in seen.text(".alarm")
        assert "row 13 does not fit" in seen.text(".facts")
        seen.page.get_by_role("button", name="Rows").click()
        seen.page.wait_for_selector(".row.broken")


@pytest.mark.parametrize("column", ["trigger", "source", "dest", "at"])
def test_a_list_that_says_otherwise_than_its_rows_is_named(
    chromium: Any, tmp_path: Path, column: str
) -> None:
    """The chain holds for what was hashed; what is listed must be that."""
    run = SyntheticRun(40)
    parts = run.parts()
    rows = parts[f"run/{RUN_ID}"]["rows"]
    rows[column][7] += 1 if column == "at" else 1 if rows[column][7] == 0 else -1
    with opened(chromium, written(tmp_path, parts)) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert "broken at row 7. What this page lists is not what was hashed" in seen.text(".alarm")


def test_a_row_that_was_written_anew_is_betrayed_by_the_next(chromium: Any, tmp_path: Path) -> None:
    """Its own hash fits; the row after it follows another one."""
    run = SyntheticRun(40)
    row = run.rows[13]
    row["canonical"] = row["canonical"].replace('"guards":"{', '"guards":"{ ')
    row["hash"] = hashlib.sha256(bytes.fromhex(row["prev"]) + row["canonical"].encode()).hexdigest()
    with opened(chromium, written(tmp_path, run.parts())) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert "broken at row 14. It does not follow from the row before" in seen.text(".alarm")


def test_a_row_that_was_taken_out_is_missed(chromium: Any, tmp_path: Path) -> None:
    parts = SyntheticRun(40).parts()
    del parts[f"rows/{RUN_ID}/0"]["rows"][13]
    with opened(chromium, written(tmp_path, parts)) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert "broken at row 13. It is missing" in seen.text(".alarm")


def test_another_beginning_is_no_beginning_of_this_run(chromium: Any, tmp_path: Path) -> None:
    parts = SyntheticRun(40).parts()
    parts[f"run/{RUN_ID}"]["chain"]["parts"][0]["root"] += " "
    with opened(chromium, written(tmp_path, parts)) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert "broken at row 0. It does not follow" in seen.text(".alarm")


def test_defects_that_verification_found_stand_above_the_page(chromium: Any, tmp_path: Path) -> None:
    """As many as there are, also when only the first are named."""
    parts = SyntheticRun(40).parts()
    parts[f"run/{RUN_ID}"]["verify"] = {"defects": ["row 3: payload 7 was changed"] * 50, "count": 60}
    with opened(chromium, written(tmp_path, parts)) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert "Checking found 60 defects." in seen.text(".alarm")
        assert "60 defects" in seen.text(".facts") and "payload 7 was changed" in seen.text(".findings")


def test_a_row_has_its_counters_beside_their_limits(chromium: Any, file: Path) -> None:
    """As they stood then: steps and money of the rows so far, the others as the row has them."""
    with opened(chromium, file, "#row-6") as seen:
        seen.row()
        meters = re.sub(r"\s+", " ", seen.text(".part:has-text('Counters and budget') .meters"))
        assert "steps" in meters and " of 8" in meters and "retries 1 of 2" in meters
        assert "cost" in meters and "of 0.2500" in meters
        assert "same_key" in seen.text(".part:has-text('Counters and budget')")


def test_a_shortened_run_does_not_pass(chromium: Any, tmp_path: Path) -> None:
    """The head is that of the journal: rows cut off at the end are missed."""
    parts = SyntheticRun(40).parts()
    parts[f"run/{RUN_ID}"]["chain"]["head"] = "ab" * 32
    with opened(chromium, written(tmp_path, parts)) as seen:
        seen.page.get_by_role("alert").wait_for()
        assert "not the head" in seen.text(".alarm")


LONG = ("x" * 1_000_000, "\u202e" * 100_000, "line\n" * 20_000, "<b>" * 200_000, "word " * 200_000)
BATCH = 20


def test_there_are_three_hundred_hostile_texts() -> None:
    """All of them different."""
    assert len(set(HOSTILE)) == len(HOSTILE) >= 300


@pytest.mark.whole
@pytest.mark.parametrize("first", range(0, len(HOSTILE), BATCH))
def test_hostile_texts_in_every_field_are_shown_and_not_executed(
    chromium: Any, tmp_path: Path, first: int
) -> None:
    """They stand in every free text of all views: nothing runs or is asked for, and each character is there or named by its code."""
    text = " ".join(HOSTILE[first : first + BATCH])
    run = SyntheticRun(20, text=f" {text}")
    parts = run.parts(run.line(id=WAITING_ID, objective=text))
    with opened(chromium, written(tmp_path, parts)) as seen:
        page = seen.page
        for place in ("#row-0", "#row-7", "#inbox", "#runs"):
            page.evaluate("hash => { location.hash = hash; }", place)
            page.wait_for_timeout(120)
            assert page.evaluate("window.hacked") is None
            assert not UNSEEN.search(page.evaluate("document.body.innerText"))
            if place == "#row-0":
                looked = f"what elicitation_requested looked at {text}"
                assert visible(looked) in shown(page, ".kept:nth-child(2) .g")
            if place == "#row-7":
                assert shown(page, "h1") == visible(f"Refund order O-1004 {text}")
                assert shown(page, ".crit li span span:not(.mark)") == visible(f"R-20418 {text}")
                assert visible(text) in shown(page, ".part pre:has(.gone), .part:nth-of-type(2) pre")
            if place == "#inbox":
                assert visible(f"O-1020 {text}".replace("1020", "1011")) in shown(page, ".ask .exact dd")
        assert page.locator("img, iframe, object, a[href^=javascript], [onerror], [onmouseover]").count() == 0
        seen.silent()


def shown(page: Any, selector: str) -> str:
    """Return the text of an element as the page has it, marks and all."""
    return str(page.locator(selector).first.evaluate("node => node.textContent"))


@pytest.mark.whole
@pytest.mark.parametrize("number", range(len(LONG)))
def test_a_text_of_a_megabyte_is_bounded_until_it_is_asked_for(
    chromium: Any, tmp_path: Path, number: int
) -> None:
    """Its beginning is there at once, all of it after a click; the page stays usable."""
    text = LONG[number]
    run = SyntheticRun(20)
    run.texts[0]["1.0"]["text"] = run.texts[0]["1.1"]["text"] = text
    run.objective = text
    with opened(chromium, written(tmp_path, run.parts()), "#row-0") as seen:
        seen.row()
        assert len(seen.page.evaluate("document.body.innerText")) < 60_000
        more = seen.page.locator(".part:has-text('Reply') .more", has_text="show all").first
        more.click()
        whole = shown(seen.page, ".part:has-text('Reply') pre")
        assert len(whole.replace("\n", "")) >= len(text.replace("\n", ""))
        seen.page.keyboard.press("End")
        assert "row 0" not in seen.row()
        seen.silent()


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


@pytest.mark.whole
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

FRAMES = """async () => {
  const box = document.querySelector('[aria-label=Rows].list'), times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < 90; i += 1) {
    box.scrollTop += i % 30 === 29 ? 200000 : 900;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times.sort((a, b) => a - b);
}"""


@pytest.mark.whole
def test_fifty_thousand_rows_open_at_once_and_scroll(
    chromium: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what can be seen is in the page. The times are printed and not held: those of a busy machine say nothing."""
    run = SyntheticRun(50_000)
    file = written(tmp_path, run.parts())
    began = time.perf_counter()
    with opened(chromium, file) as seen:
        opened_s = time.perf_counter() - began
        seen.row()
        shown_s = time.perf_counter() - began
        seen.page.get_by_role("button", name="Rows").click()
        seen.page.wait_for_selector(".row")
        frames = seen.page.evaluate(FRAMES)
        steps = seen.page.evaluate(STEPS)
        nodes = seen.page.evaluate("document.querySelectorAll('*').length")
        assert seen.page.locator(".row").count() < 120
        assert seen.page.locator(".lanes path.b").count() == 3
        seen.page.get_by_text(f"✓ {len(run.rows):,} rows hold").wait_for(timeout=60_000)
        checked_s = time.perf_counter() - began
    with capsys.disabled():
        print(
            f"\n{len(run.rows):,} rows, {file.stat().st_size / 1e6:.1f} MB: page after {opened_s:.2f} s, row after {shown_s:.2f} s, "
            f"chain after {checked_s:.1f} s; {nodes} elements; scrolling: median frame {frames[45]:.1f} ms, 95 % {frames[85]:.1f} ms; "
            f"a step {steps:.1f} ms"
        )
    assert nodes < 4000


STEPS = """async () => {
  const begin = performance.now();
  for (let i = 0; i < 40; i += 1) {
    document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}));
    await new Promise(requestAnimationFrame);
  }
  return (performance.now() - begin) / 40;
}"""


def test_a_long_run_is_at_most_a_page_of_elements(chromium: Any, tmp_path: Path) -> None:
    """A run of five thousand rows has as many elements as one of five hundred."""

    def elements(rows: int) -> int:
        with opened(chromium, written(tmp_path, SyntheticRun(rows).parts(), f"{rows}.html")) as seen:
            seen.row()
            return int(seen.page.evaluate("document.querySelectorAll('body *').length"))

    assert abs(elements(5000) - elements(500)) < 300


# -- for everybody -----------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_no_violation(
    chromium: Any, file: Path, compared: Path, axe: str, *, width: int, dark: bool
) -> None:
    """Names, roles, order and contrast of every view hold in both schemes and at both widths."""
    for place in (*VIEWS, "#compare"):
        shown_file = compared if place == "#compare" else file
        with opened(chromium, shown_file, place, width=width, dark=dark) as seen:
            seen.page.wait_for_timeout(200)
            assert violations(seen, axe) == [], place


@pytest.mark.parametrize("width", [1440, 1100, 390])
@pytest.mark.parametrize("place", [*VIEWS, "#compare"])
def test_no_view_scrolls_sideways(chromium: Any, file: Path, compared: Path, width: int, place: str) -> None:
    """Whatever the width, text wraps; only drawings scroll, in their own frame."""
    with opened(chromium, compared if place == "#compare" else file, place, width=width) as seen:
        seen.page.wait_for_timeout(100)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_has_every_call(chromium: Any, file: Path, run: SyntheticRun) -> None:
    """What is printed is complete, though the list on the screen is not."""
    with opened(chromium, file) as seen:
        seen.row()
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        seen.page.emulate_media(media="print")
        assert seen.page.locator(".call").count() == len(run.calls)
        assert not seen.page.locator(".player").is_visible()
