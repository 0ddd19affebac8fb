"""The writer of the offline model: what it finds in documents, what it says when there is nothing, and that no text can break it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from paor.documents import read

from ..support.effort import examples
from .inside import (
    Source,
    Unit,
    Written,
    escape,
    fold,
    kinds_of,
    parse,
    write,
)
from .inside import corpus_module as corpus

EXAMPLES = Path(__file__).parents[2] / "examples" / "documents"
JOB = "Summarise the obligations and list every deadline"

CONTRACT = """# Services Agreement

between **Northwind Storage Ltd.** (the "Supplier") and **Contoso GmbH** (the "Customer"), dated 3 March 2026.

## 2 Term

2.1 This Agreement shall commence on 1 April 2026 and shall remain in force for three years.
2.2 It renews automatically for one year unless either party gives at least 3 months' written notice before the end
of the current term.

## 3 Delivery

3.1 The Supplier shall:
(a) deliver the storage platform by 31 May 2026;
(b) provide test documentation no later than 15 June 2026; and
(c) train two administrators of the Customer.

3.2 The Customer shall test the platform within 10 Business Days of delivery and must report defects in writing.

## 4 Fees

4.1 The Customer shall pay a monthly fee of EUR 2,400 plus VAT.
4.2 Invoices are payable within 30 days of receipt. They bear interest of 8 % per annum when late.

## 5 Liability

The total liability of the Supplier is limited to EUR 50,000 per year.

## 7 Governing law

This Agreement shall be governed by the laws of Ireland.
"""
LEASE = """Mietvertrag

§ 2 Mietzeit und Kündigung
(1) Das Mietverhältnis beginnt am 1. April 2026 und läuft auf unbestimmte Zeit.
(2) Der Mieter kann mit einer Frist von drei Monaten zum Monatsende kündigen.

§ 3 Miete
Der Mieter ist verpflichtet, eine Kaution von 2.940 EUR innerhalb von 14 Tagen zu leisten.
"""
contract, lease = Source("contract.pdf", CONTRACT), Source("mietvertrag.pdf", LEASE)


def section(written: Written, heading: str) -> str:
    """Return the text under *heading*."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^##|\Z)", written.text, re.DOTALL | re.MULTILINE)
    assert found, f"no section {heading!r} in:\n{written.text}"
    return found[1]


def example(name: str) -> Source:
    """Return an example document as the tools read it."""
    return Source(name, read(EXAMPLES / name).text)


# -- the README's job ---------------------------------------------------------------------------------------------


def test_the_deadlines_and_obligations_of_the_example_contract_are_found() -> None:
    """What the report of the README must hold, each one literally."""
    written = write(JOB, [example("contract.pdf"), example("notes.html")], chars_max=40_000)
    deadlines = section(written, "Deadlines")
    for words in (
        "within 10 working days of the Effective Date",
        "on the last working day of each month",
        "inform the Client in writing within 3 working days",
        "within 24 hours of becoming aware",
        "present the certificate by 28 February 2026",
        "by 15 April 2026",
        "within 5 working days of each request",
        "comment on every draft within 7 days",
        "Delivery date: 27 February 2026",
        "Delivery date: 30 September 2026",
        "within 15 working days of its delivery",
        "correct defects of class A (the System cannot be used) within 2 working days",
        "pay each undisputed invoice within 30 days of receiving it",
        "any objection within 14 days",
        "escrow agent by 31 October 2026",
        "report a defect within 20 days of finding it",
        "delete test data within 60 days",
        "at least 90 days before the end of the current period",
        "giving 60 days' written notice",
        "Within 30 days of the end of this Agreement",
        "moved the source code deposit from 31 October 2026 to 15 December 2026",
        "moved deliverable D4 from 28 August 2026 to 18 September 2026",
        "Objections to an invoice must be sent within 14 days",
    ):
        assert words in deadlines, words
    obligations = section(
        write("List all obligations", [example("contract.pdf")], chars_max=40_000), "Obligations"
    )
    for words in (
        "The Supplier shall develop, deliver and introduce a berth planning system",
        "The Supplier shall present a project plan",
        "The Supplier shall appoint a project manager",
        "The Supplier shall report progress in writing",
        "The Supplier must report every security incident",
        "The Client shall hand over the berth plans",
        "The Client shall give the Supplier's staff access",
        "The Client shall comment on every draft",
        "The Client shall name at least two planners",
        "The Client shall test each deliverable",
        "The Supplier shall correct defects of class A",
        "The Client shall pay each undisputed invoice",
        "Each party shall keep secret",
    ):
        assert words in obligations, words


@pytest.mark.parametrize(
    ("request_", "names", "holds"),
    [
        ("When must invoices be paid?", ["contract.pdf"], ["within 30 days of receiving it"]),
        ("What is the liability cap?", ["contract.pdf"], ["limited to EUR 480,000"]),
        ("What are the termination terms?", ["contract.pdf"], ["60 days' written notice", "material breach"]),
        ("How much does a trainer cost?", ["prices.csv"], ["Trainer; unit: day; price_eur: 980.00"]),
        ("List all action items with their owners and due dates", ["minutes.docx"], ["Owner: Ruth Castellan; Due: 5 June 2026"]),
        ("Who is responsible for what, and by when?", ["minutes.docx"], ["Owner: Omar Rees"]),
        ("List all risks", ["minutes.docx"], ["insurance certificate of clause 2.6"]),
    ],
)  # fmt: skip
def test_other_requests_about_the_examples(request_: str, names: list[str], holds: list[str]) -> None:
    """Questions, tables, minutes, and what two documents say differently."""
    text = write(request_, [example(name) for name in names]).text
    for words in holds:
        assert words in text, f"{words!r} not in\n{text}"


# -- requests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (JOB, [("Obligations", "list"), ("Deadlines", "list")]),
        ("List obligations, deadlines and prices", [("Obligations", "list"), ("Deadlines", "list"), ("Prices", "question")]),
        ("What are the termination terms?", [("What are the termination terms?", "question")]),
        ("Summarise the document", [("Summary", "summary")]),
        ("What is this document about?", [("Summary", "summary")]),
        ("Which orders are late?", [("Which orders are late?", "question")]),
        ("When must the buyer pay?", [("When must the buyer pay?", "question")]),
        ("storage", [("Storage", "question")]),
        ("- list all risks\n- list all duties", [("List all risks", "question"), ("Obligations", "list")]),
        ("Wann ist die Miete fällig?", [("Wann ist die Miete fällig?", "question")]),
        ("", [("Summary", "summary")]),
        ("!!!", [("Summary", "summary")]),
    ],
)  # fmt: skip
def test_a_request_is_read_into_parts(request_: str, expected: list[tuple[str, str]]) -> None:
    """Headings come from its own words; another language is one question."""
    assert [(part.heading, part.shape) for part in parse(request_)] == expected


# -- findings ----------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_said() -> None:
    """Never a guess without that name."""
    assert (
        "No passage of contract.pdf answers this." in write("What colour is the submarine?", [contract]).text
    )
    assert (
        "No passage of this kind mentions “unicorns”"
        in write("List all obligations about unicorns", [contract]).text
    )
    assert write("x", []).text == "There is no document to answer from."
    assert write("x", [Source("a.pdf", " \n- \n")]).text == "a.pdf has no readable text to answer from."
    assert (
        "n0, n1, n2 and 2 more" in write("zebra", [Source(f"n{n}", "Nothing here.") for n in range(5)]).text
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Supplier shall deliver the goods.", {"obligation"}),
        ("This Agreement shall be governed by Irish law.", set()),
        ("Shall we deliver?", set()),
        ("Tenants may not keep dogs.", {"obligation"}),
        ("The server might fail.", set()),
        ("The Supplier shall present it on 3 May 2027.", {"obligation", "deadline", "date"}),
        ("The Supplier presented it on 3 May 2027.", {"date"}),
        ("The Supplier shall report it immediately.", {"obligation", "deadline"}),
        ("Do not file a public issue.", {"obligation"}),
        ("The team is obligated to keep the name secret.", {"obligation"}),
        ("All complaints will be reviewed.", {"obligation"}),
        ("The chair is expected to keep order.", {"obligation"}),
        ("The proposal passes if nobody objects after 72 hours.", {"deadline"}),
        ("Before each meeting the chair will share the agenda.", {"obligation", "deadline"}),
        ("The embargo is set 72 hours from the time of issue.", {"deadline"}),
        ("They met again after the fair.", set()),
        ("Report them to the chair.", {"obligation"}),
        ("Report Quality", set()),
        ("If you move, please tell us.", {"obligation"}),
        ("Use of the hall", set()),
        ("A member should pay the fee.", {"obligation"}),
        ("Should the member fail, nothing is paid.", set()),
        ("You may copy it, provided that you keep the notices.", {"obligation"}),
        ("Such use shall not be construed as a gift.", set()),
        ("Any question that requires an answer is read.", set()),
        ("In no event and under no theory shall a member be liable.", set()),
    ],
)
def test_kinds_of_sentences(text: str, expected: set[str]) -> None:
    """By their words."""
    assert kinds_of(Unit(text, "sentence")) == expected


def test_an_item_is_an_order_where_its_list_is() -> None:
    """It says nothing alone."""
    assert kinds_of(Unit("Their names.", "item", intro="Include in the report:")) == {"obligation"}
    assert kinds_of(Unit("Their names.", "item", intro="The report has:")) == set()


def test_deadlines() -> None:
    """A date or period with a word that makes it a deadline, or a phrase."""
    texts = (
        "by 31 March 2027", "until March 31, 2027", "before 2027-03-31", "due 31/03/2027", "no later than 31.03.2027",
        "by the end of Q2 2027", "by the end of June", "by Friday", "by 17:00", "within thirty (30) days of receipt",
        "at least 3 months' notice", "no later than the handover", "the notice period is one month", "moved from 3 May 2026 to 4 June 2026",
    )  # fmt: skip
    assert [text for text in texts if "deadline" not in kinds_of(Unit(text, "sentence"))] == []


# -- other languages -----------------------------------------------------------------------------------------------


def test_a_question_in_another_language_gets_ranked_quotes_in_it() -> None:
    """By its words, with compounds; what is not there is not answered."""
    assert "14 Tagen" in write("Wie hoch ist die Kaution und wann ist sie zu leisten?", [lease]).text
    assert "drei Monaten" in write("Mit welcher Frist kann der Mieter kündigen?", [lease]).text
    assert (
        "No passage of mietvertrag.pdf answers this"
        in write("Welche Farbe hat das Unterseeboot?", [lease]).text
    )


def test_a_list_of_a_document_in_another_language_says_what_it_cannot() -> None:
    """A note, not an empty list."""
    assert "known in English only" in write("List every deadline", [lease]).text


# -- several documents ----------------------------------------------------------------------------------------------

CLAUSE = "The Supplier must repair every pump of class A in the northern hall of the Customer within 5 days."


def test_the_same_clause_is_quoted_once_with_both_sources() -> None:
    """Two documents that say the same."""
    text = write("List all obligations", [Source("a", CLAUSE), Source("b", CLAUSE)]).text
    assert text.count("\n- ") == 1 and text.endswith("*(a; b)*")


@pytest.mark.parametrize(("old", "new"), [("5 days", "9 days"), ("must", "may not"), ("class A", "class B")])
def test_a_changed_number_or_small_word_keeps_both_versions(old: str, new: str) -> None:
    """The difference is what the reader is looking for."""
    text = write("List all obligations", [Source("a", CLAUSE), Source("b", CLAUSE.replace(old, new))]).text
    assert new in text and text.count("*(a)*") == text.count("*(b)*") == 1


# -- room and bounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chars_max", [-5, 0, 1, 20, 60, 150, 400, 900, 12_000])
def test_the_room_is_kept(chars_max: int) -> None:
    """What does not fit is counted, and findings are only those that are there."""
    written = write(JOB, [contract], chars_max=chars_max)
    assert len(written.text) <= max(0, chars_max)
    assert all(finding.text.rstrip("; and") in written.text for finding in written.findings)
    whole = len(write("List every deadline", [contract]).findings)
    less = write("List every deadline", [contract], chars_max=400)
    assert f"Not shown: {whole - len(less.findings)} more." in less.text


def test_what_was_not_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many units, too many sources, and a document that came cut."""
    monkeypatch.setattr(corpus, "UNITS_MAX", 50)
    text = write("List all obligations", [Source("log", "Bob must pay.\n\n" * 60)]).text
    assert "Only the beginning of log was read: 50 passages." in text
    monkeypatch.setattr(corpus, "SOURCES_MAX", 1)
    text = write("List all obligations", [Source("a", "Bob must pay."), Source("b", "Eve must pay.")]).text
    assert "Only the beginning of b was read: 0 passages." in text and "Eve" not in text
    assert "Only the beginning" in write("x", [Source("a", "Bob must pay.", whole=False)]).text


@pytest.mark.whole
@pytest.mark.parametrize(
    "text",
    ["a" * 100_000, "a." * 50_000, "a. " * 30_000, "| " * 50_000, "|a|b|\n" * 15_000, "- " * 50_000, "-" * 100_000,
     "> " * 50_000, "(" * 100_000 + "[" * 100_000, "`" * 200_000, "shall " * 25_000, "A" * 100_000, "Aa " * 30_000,
     "shall by 31 March within 30 days of " * 3_000, "\n" * 100_000, "1. A\n" * 15_000, "A:\n- b\n" * 13_000,
     "*" * 100_000 + "_" * 100_000, "no change " * 10_000, "1" * 100_000, "=" * 1000 + "\n", "x\n=\n" * 20_000],
    ids=range(22),
)  # fmt: skip
def test_hostile_texts_end(text: str) -> None:
    """No pattern runs away: a runaway takes minutes, the longest of these a few seconds."""
    start = time.perf_counter()
    written = write("Summarise it and list every deadline, obligation, owner and risk", [Source("x", text)])
    assert len(written.text) <= 12_000
    assert time.perf_counter() - start < 60


# -- grounding -------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["The", "Supplier", "shall", "deliver", "by", "31", "March", "2027", ".", "within", "30", "days", "must", "pay", "€", "5",
     "|", "-", "#", "*", "```", "\n", "\n\n", "1.", "(a)", "a:", "Nr.", "Frist", "muss", "risk", "Anna", "will", "Owner",
     "|", "---", "[x](y)", "<b>", "§", "4", "It", "is"]
)  # fmt: skip
DOCUMENTS = st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=80).map(" ".join))
REQUESTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from([JOB, "Compare them", "Are there conflicts?", "Who does what by when?", "price of storage", "Liste alle Fristen auf"]),
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(request_=REQUESTS, texts=st.lists(DOCUMENTS, max_size=3), room=st.integers(-1, 3000))
def test_whatever_goes_in_an_answer_quotes_the_sources(request_: str, texts: list[str], room: int) -> None:
    """It never raises, keeps its room, quotes word for word and is the same every time."""
    sources = [Source(f"s{number}.md", text) for number, text in enumerate(texts)]
    written = write(request_, sources, criteria=[request_], chars_max=room)
    assert written == write(request_, sources, criteria=[request_], chars_max=room)
    assert len(written.text) <= max(0, room) and len(written.covered) == 1
    for finding in written.findings:
        source = next(source for source in sources if source.name == finding.source)
        assert finding.text in fold(source.text) or "|" in source.text or ">" in source.text


# -- criteria --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "holds"),
    [
        ("Every deadline is listed", True),
        ("names the liability cap", True),
        ("The answer must state the monthly fee", True),
        ("mentions the fee of EUR 2,400", True),
        ("mentions the fee of EUR 9,999", False),
        ("lists obligations and deadlines", True),
        ("lists obligations and risks of earthquakes", False),
        ("mentions the capital of France", False),
        ("does not mention prices", False),
        ("No invented facts", False),
        ("Each finding names its source", True),
        ("Every deadline is listed with its source", True),
        ("", False),
        ("The answer is complete and correct", False),
    ],
)
def test_evidence_for_criteria(criterion: str, holds: bool) -> None:
    """Where it is in the answer; not where it is not, or cannot be judged."""
    written = write(f"{JOB}. What is the liability cap?", [contract], criteria=[criterion])
    assert written.covered == (holds,)


def test_what_a_criterion_asks_for_is_added() -> None:
    """What the request does not bring is looked for, once; what is not there is not invented."""
    criteria = ["names the liability cap", "states the monthly fee", "mentions unicorns"]
    written = write("List every deadline", [contract], criteria=criteria)
    assert written.covered == (True, True, False)
    assert "EUR 50,000" in written.text and "unicorn" not in written.text


# -- Markdown --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[link](javascript:alert(1)) ![img](http://x.y/z) <script>alert(1)</script> shall",
        "# not a heading must be",
        "must *open emphasis and `open code and **strong",
        "1. must be 2) and - this | that \\< x \\",
        "must &lt;b&gt; ~~gone~~ __under__ _score_ snake_case",
        "\u202emust be reversed\u202c \x1b[31mred\x00",
    ],
)
def test_no_source_can_put_markup_into_the_answer(text: str) -> None:
    """One item and its source, no link, image, HTML or fence."""
    written = write("List all obligations", [Source("a*b`<i>.md", f"- {text}\n")])
    tokens = MarkdownIt("commonmark").parse(written.text)
    allowed = {"heading_open", "heading_close", "inline", "bullet_list_open", "bullet_list_close", "list_item_open",
               "list_item_close", "paragraph_open", "paragraph_close"}  # fmt: skip
    assert {token.type for token in tokens} <= allowed
    inner = {child.type for token in tokens for child in token.children or ()}
    assert inner <= {"text", "em_open", "em_close", "code_inline", "text_special"}
    assert not re.search(r"[\x00-\x08\x1b\u202e]", written.text)


@given(st.text(max_size=120))
def test_any_text_shows_as_text(text: str) -> None:
    """No markup of any kind."""
    tokens = MarkdownIt("commonmark").parse(f"- {escape(text)} *(x)*")
    types = {token.type for token in tokens} | {
        child.type for token in tokens for child in token.children or ()
    }
    assert not types & {
        "html_block",
        "html_inline",
        "link_open",
        "image",
        "fence",
        "heading_open",
        "hr",
        "code_block",
    }


def test_a_quote_names_its_clause() -> None:
    """Also from the second sentence of one, which does not begin with the number."""
    text = "## Delivery\n\n4.1 The goods are pumps.\n\n4.2 Both parties agree to the plan. The Supplier shall deliver within 30 days.\n\n## Notes\n\nThe Client shall pay at once."
    answer = write("List all obligations", [Source("contract.docx", text)]).text
    assert "The Supplier shall deliver within 30 days. *(contract.docx, Delivery, clause 4.2)*" in answer
    assert "The Client shall pay at once. *(contract.docx, Notes)*" in answer
