"""The page of a run: what is delivered, its policy, and how it opens in a browser without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .inside import content_policy, page_html, page_texts
from .report_browser import DeskRun, opened

CODE_BYTES_MAX = 66_000


# -- what is delivered -----------------------------------------------------------------------------------------------


def test_the_code_of_the_page_is_at_most_66_kilobytes() -> None:
    """Markup, style and scripts together as they stand in the file, where style and scripts are packed; unpacked they are twice that."""
    assert len(page_html({}).encode()) <= CODE_BYTES_MAX


def test_the_same_parts_give_the_same_bytes(run: DeskRun) -> None:
    """A report can be compared and signed; an iterable of pairs gives what a mapping gives."""
    parts = run.parts()
    assert page_html(parts) == "".join(page_texts(parts.items()))


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


WANTED = ["connect-src", "form-action", "frame-src", "img-src", "style-src-elem", "innerHTML"]
ATTEMPTS = """async wanted => {
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
  for (let turn = 0; wanted.some(one => !told.has(one)) && turn < 600; turn += 1) await new Promise(done => setTimeout(done, 100));
  return [...told].sort();
}"""


def test_the_policy_of_a_file_holds_in_the_browser(chromium: Any, file: Path) -> None:
    """Even a script that got in could send nothing, load nothing and make no markup of a text."""
    with opened(chromium, file) as seen:
        seen.row()
        kept = seen.page.evaluate(ATTEMPTS, WANTED)
    assert {*WANTED} <= set(kept)


# -- journeys --------------------------------------------------------------------------------------------------------


def test_a_run_opens_at_its_end_with_verdict_and_checked_chain(
    chromium: Any, file: Path, run: DeskRun
) -> None:
    """The first screen says whether it worked, and whether that may be believed."""
    with opened(chromium, file) as seen:
        seen.page.get_by_text(f"✓ {len(run.rows)} rows hold").wait_for()
        assert "the model decided to stop" in seen.text(".pill")
        assert seen.row().split() == ["finish", "row", str(len(run.rows) - 1), *seen.row().split()[3:]]
        assert seen.page.title().startswith("Refund order")
        seen.silent()
