"""Reports as web pages and Word documents: what they hold, that they are safe, and that their bytes depend on the text."""

from __future__ import annotations

import io
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, replay
from paor.errors import MissingExtra, UsageError

from ..support.cli_support import Shell
from ..support.effort import examples
from ..support.worlds import READ, REVIEW, STOP
from ..support.worlds import engine as scripted
from .inside import MIMES, convert, render_report

TEXT = """# Plan & "offers" <script>alert(1)</script>

The price holds until **15 March** and *no longer*; see [the offer](https://example.org/a?b=1&c="2"),
[not this](javascript:alert(1)), [nor this](file:///etc/passwd), `code`, ~~old~~ and
![a picture](http://example.org/spy.png).

## Duties

1. First
2. Second
   - nested
     1. deep
3. Third

Between.

1. New list
2. Two

| Item | Day | Price |
| --- | :---: | ---: |
| Bolts \\| nuts | 1 March | 10.50 |

> The supplier delivers on time.

```
def f(x): return "<b>"
```

---

<b>raw</b> <img src=x onerror=alert(1)> &amp; 6 < 7
"""


def page(text: str = TEXT, **options: str) -> str:
    """Return *text* as a web page."""
    made = render_report(text, "html", **options)
    assert isinstance(made, str)
    return made


def word(text: str = TEXT, **options: str) -> bytes:
    """Return *text* as a Word document."""
    made = render_report(text, "docx", **options)
    assert isinstance(made, bytes)
    return made


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and whether they are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


_TAGS = "html head meta title style body main h1 h2 h3 h4 h5 h6 p ul ol li table thead tbody tr th td blockquote pre"
SAFE = {*_TAGS.split(), "code", "em", "strong", "s", "hr", "br", "a", "div"}


def check_safe(html: str) -> None:
    """Known tags only, balanced; no scripts, no handlers, no address but http, https and mail."""
    found = Tags(html)
    assert not found.open
    for tag, attributes in found.tags:
        assert tag in SAFE, tag
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert re.match(r"(https?://|mailto:)", attributes.get("href") or "https://", re.IGNORECASE)
    assert "default-src 'none'" in html


def test_a_page_holds_everything_and_runs_nothing() -> None:
    """HTML in the text is text; links lead to where links may lead; a picture is named and not fetched."""
    html = page(title="Plan", language="de")
    check_safe(html)
    assert '<html lang="de">' in html and "<title>Plan</title>" in html
    assert (
        "<h1>Plan &amp; &quot;offers&quot; &lt;script&gt;" in html
        or '<h1>Plan &amp; "offers" &lt;script&gt;' in html
    )
    assert (
        '<a href="https://example.org/a?b=1&amp;c=%222%22" rel="noopener noreferrer nofollow">the offer</a>'
        in html
    )
    assert "javascript:" not in re.sub(r"\[not this\]\(javascript:alert\(1\)\)", "", html)
    assert 'href="file' not in html and "[picture: a picture]" in html and "<img" not in html
    assert '<td style="text-align:right">10.50</td>' in html and "<td>Bolts | nuts</td>" in html
    assert '<pre><code>def f(x): return "&lt;b&gt;"\n</code></pre>' in html


def test_a_word_document_holds_everything() -> None:
    """Headings, lists with numbers of their own, tables, links; read back by another library."""
    document: Any = docx.Document(io.BytesIO(word(title="Plan", language="de")))
    styles = [paragraph.style.name for paragraph in document.paragraphs]
    assert (
        styles[0] == "Title"
        and "Heading 2" in styles
        and "List Number" in styles
        and "List Bullet 2" in styles
    )
    assert document.core_properties.title == "Plan" and document.core_properties.author == "paor"
    (table,) = document.tables
    assert [cell.text for cell in table.rows[1].cells] == ["Bolts | nuts", "1 March", "10.50"]
    text = convert("a.docx", word()).text
    assert "1. First\n2. Second\n   - nested" in text.replace("\n\n", "\n") or "1. First" in text
    links = [item.target_ref for item in document.part.rels.values() if item.reltype.endswith("/hyperlink")]
    assert links == ["https://example.org/a?b=1&c=%222%22"]
    numbered = [p._p.pPr.numPr.numId.val for p in document.paragraphs if p.style.name == "List Number"]
    assert len(set(numbered)) == 2, "the second list begins at one again"


def test_word_insists_on_the_order_of_properties() -> None:
    """A shading or border that is in the wrong place makes Word call the file damaged."""
    order = ["pStyle", "keepNext", "keepLines", "numPr", "pBdr", "shd", "spacing", "ind", "jc", "rPr"]
    table_order = ["tblStyle", "tblW", "jc", "tblBorders", "tblLayout", "tblLook"]
    document: Any = docx.Document(io.BytesIO(word()))
    body = document.element.body
    for name, expected in (("pPr", order), ("tblPr", table_order)):
        for element in body.iter(f"{{{body.nsmap['w']}}}{name}"):
            names = [child.tag.partition("}")[2] for child in element]
            assert names == sorted(names, key=expected.index), names


@pytest.mark.parametrize("form", ["html", "docx"])
def test_the_same_text_is_the_same_bytes(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it is written: neither file says when it was made."""
    import time

    first = render_report(TEXT, form, title="Plan")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 1e8)
    monkeypatch.setattr(time, "localtime", lambda *given: real_localtime(given[0] if given else real() + 1e8))
    assert render_report(TEXT, form, title="Plan") == first
    if isinstance(first, bytes):
        parts = zipfile.ZipFile(io.BytesIO(first)).infolist()
        assert {part.date_time for part in parts} == {(1980, 1, 1, 0, 0, 0)}
        assert not [part for part in parts if "thumbnail" in part.filename]


import time as _time

real_localtime = _time.localtime

WORDS = st.text(st.sampled_from("ab<>&\"'`*_~#|-+.!()[]{}\\/:=1 \n\t\x00\x0b\ud800é"), max_size=200)


@pytest.mark.whole
@settings(max_examples=examples(200))
@given(text=WORDS, title=WORDS, language=st.text(max_size=8))
def test_any_text_becomes_a_safe_page_and_a_document(text: str, title: str, language: str) -> None:
    """Whatever a model wrote."""
    check_safe(page(text, title=title, language=language))
    docx.Document(io.BytesIO(word(text, title=title, language=language)))


@pytest.mark.parametrize("form", ["html", "docx", "md"])
def test_a_run_ends_with_a_report_in_its_format(form: str, tmp_path: Path) -> None:
    """The final formatting writes it once; the run replays identically."""
    replies = [*READ(1), STOP, REVIEW("success", answer="# The answer\n\n| a |\n| - |\n| b |")]
    with scripted(tmp_path, replies) as engine:
        result = engine.run("Read page 1", final_format=form, language="de")
        assert result.state == "Done"
        last = result.documents[-1]
        assert (
            last.label.endswith("_final_format")
            and last.name == f"report.{form}"
            and last.mime == MIMES[form]
        )
        body = last.read()
        if form == "html":
            assert isinstance(body, str) and "<h1>Read page 1</h1>" in body and 'lang="de"' in body
        assert engine.journal.verify() == [] and replay(engine.journal, result.run_id).identical


def test_a_format_whose_library_is_missing_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after a whole run."""
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "docx" else found(name, *more)
    )
    with (
        Engine(journal=Journal(":memory:")) as engine,
        pytest.raises(MissingExtra, match=r"paor\[documents\]"),
    ):
        engine.run("Read", final_format="docx")
    with Engine(journal=Journal(":memory:")) as engine, pytest.raises(UsageError, match="use one of md"):
        engine.run("Read", final_format="odt")


@pytest.mark.parametrize("ending", ["html", pytest.param("docx", marks=pytest.mark.whole)])
def test_output_writes_a_page_or_a_document(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--output`, with the offline model, twice: the same bytes."""
    monkeypatch.chdir(tmp_path)
    shell = Shell(tmp_path, capsys, monkeypatch)
    (tmp_path / "a.md").write_text("# Contract\n\nThe supplier delivers by 15 March 2026.\n")
    for name in ("one", "two"):
        said = shell("run", "List every deadline", "--document", "a.md", "--output", f"{name}.{ending}")
        assert said.code == 0, said.err
    data = (tmp_path / f"one.{ending}").read_bytes()
    assert data == (tmp_path / f"two.{ending}").read_bytes()
    assert "15 March 2026" in convert(f"one.{ending}", data).text
    assert shell("run", "x", "--output", "a.odt").code == 2
