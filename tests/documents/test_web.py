"""HTML as it really is: tags left open, crossing, nested too deep, hidden, or made to cost time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .inside import Balancer, convert, tokens
from .inside import registry_ConversionError as ConversionError


def text_of(html: str) -> str:
    """Return the text that *html* converts to."""
    return convert("page.html", html.encode()).text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h1>A</h1><p>one<p>two", "# A\n\none\n\ntwo"),
        ("<h2><div>Inner</div></h2>x", "## Inner\n\nx"),
        ("<ul><li>one<li>two<ul><li>deep</ul><li>three</ul>", "- one\n- two\n  - deep\n- three"),
        ("<ol start=5><li>five<li>six</ol>", "5. five\n6. six"),
        ("<ol start=x><li>one</ol>", "1. one"),
        ("<p>see <a href='evil'>the link</a> <b>now</b></p>", "see the link now"),
        ("<p>over\n   two\n lines</p>", "over two lines"),
        ("<pre>a\n  b</pre>", "```\na\n  b\n```"),
        ("<p>x</p><pre> \n\n  a\n \n b\n \n</pre>", "x\n\n```\n  a\n\n b\n```"),
        ("<p>x</p><pre>\n \n</pre>", "x"),
        ("a<br>b", "a  \nb".replace("  ", "")),
        ("<table><tr><th>a<th>b<tr><td>1<td>x|y</table>", "| a | b |\n| --- | --- |\n| 1 | x\\|y |"),
        ("<table><tr><td>a<td><table><tr><td>x<td>y</table></table>", "| a | x y |\n| --- | --- |"),
        ("<table><tr><td>a</p></div><td>b</table>c", "| a | b |\n| --- | --- |\n\nc"),
        ("<table><tr></tr><tr><tr><td>a<tr></table>", "| a |\n| --- |"),
        ("<dl><dt>T<dd>D<dt>U<dd>E</dl>", None),
        ("<p>a &amp; b &lt;c&gt; &eacute;", "a & b <c> é"),
        ("1 < 2 and <3", "1 < 2 and <3"),
        ("x <y", "x <y"),
        ("<p>a</x></p></p>b", "a\n\nb"),
        ("<a title='it's'>x</a>y<p class=a/>z", "xy\n\nz"),
        ("a<!-- c --><?php x ?><![CDATA[d]]>b<!-- open", "ab"),
        ("<body><nav>menu</nav><main>text</main><footer>foot</footer>", "text"),
        ("<div role=navigation>menu</div><h2>T<a class=headerlink>¶</a></h2>", "## T"),
        ("<script>if (a < b) { '</p>' }</script>x<style>p{}</style><noscript>n</noscript>", "x"),
        ("<svg><title>icon</title></svg>x<select><option>o</select>", "x"),
        ("<textarea>a <b> c</textarea>x<xmp>raw <b></xmp>", "a <b> c xraw <b>"),
        ("<p>a<hr>b<img src=x>", "a\n\n---\n\nb"),
    ],
)
def test_readable_parts_of_a_page_become_markdown(html: str, text: str | None) -> None:
    """Structure survives missing end tags; what is around the text is dropped."""
    assert text is None or text_of(html) == text
    assert text_of(html)


def test_hidden_parts_are_left_out_with_a_note() -> None:
    """Text that a person would not see must not reach a model unnoticed."""
    page = b"<p>seen<span style='display: none'>un<span>se</span>en</span>"
    page += b"<div hidden><p hidden>x</p></div><p style='visibility:hidden'>y</p><input hidden>"
    converted = convert("a.html", page)
    assert converted.text == "seen"
    assert converted.notes == ("hidden parts, left out: 3",)


def test_title_and_character_set_of_a_page() -> None:
    """The page's own words decide, after the server's."""
    page = "<meta charset='iso-8859-1'><title> A &amp;\n B </title><p>Käse".encode("latin-1")
    converted = convert("a.html", page)
    assert (converted.title, converted.text, converted.notes) == ("A & B", "Käse", ())
    assert convert("a.html", "<meta charset=utf-16><p>Käse".encode()).text == "Käse"
    assert convert("a.html", "<meta charset=hex><p>Käse".encode()).text == "Käse"
    assert convert("a.html", b"<h1>A <i>b</i></h1>text").title == "A b"
    assert convert("a.html", b"<p>x").title is None
    with pytest.raises(ConversionError, match="binary"):
        convert("a.html", b"<html>\x00\x01", mime="text/html")


def test_deep_pages_lose_structure_but_no_text() -> None:
    """Neither the depth of a page nor its open tags may exhaust the stack."""
    converted = convert(
        "a.html", b"<div>" * 5000 + b"<p>deep</p>" + b"<script>x</script>" + b"<span hidden>" * 400
    )
    assert converted.text == "deep"
    assert converted.notes == (
        "hidden parts, left out: 1",
        "elements nested more than 100 levels deep, whose structure is lost: 4,901",
    )


@pytest.mark.whole
@pytest.mark.parametrize("piece", ["<!--", "<a ", "<a '", '<a ="', "</", "<![", "&", "<script>", "<td>", "<"])
def test_hostile_pages_cost_no_more_than_their_length(piece: str) -> None:
    """The standard library's tokenizer took two minutes for some of these."""
    begun = time.perf_counter()
    Balancer().balance(f"<p>x{piece * (60_000 // len(piece))}")
    assert time.perf_counter() - begun < 5


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["<p>", "</p>", "<li>", "<ul>", "</ul>", "<td>", "<table>", "</table>", "<tr>", "x "])
    )
)
def test_balanced_pages_are_balanced(pieces: list[str]) -> None:
    """Every tag that is opened is closed in the right order, and no text is lost."""
    page = "".join(pieces)
    balanced = Balancer().balance(page)
    depth: list[str] = []
    for kind, name, _ in tokens(balanced):
        if kind == "start":
            depth.append(name)
        elif kind == "end":
            assert depth.pop() == name
    assert depth == []
    assert balanced.count("x") == page.count("x")


@pytest.mark.parametrize(
    ("style", "is_hidden"),
    [
        ("display: none", True),
        ("color:red;DISPLAY:none !important", True),
        ("/*x*/visibility : hidden", True),
        ("backface-visibility: hidden", False),
        ("--display:none", False),
        ("display:block", False),
    ],
)
def test_what_a_style_hides_is_left_out_and_nothing_else(style: str, is_hidden: bool) -> None:
    """The name of another property may end alike: what turns over is seen from its front."""
    found = convert("a.html", f"<p>shown</p><p style='{style}'>words</p>".encode())
    assert ("words" not in found.text) == is_hidden == any(note.startswith("hidden") for note in found.notes)


@pytest.mark.parametrize("style", ["list-style-type: lower-alpha", "list-style:lower-latin inside"])
def test_a_list_is_numbered_as_its_style_says(style: str) -> None:
    assert "- b. two" in convert("a.html", f"<ol style='{style}'><li>one<li>two</ol>".encode()).text
