"""The writer of the offline model: what it finds in documents, what it says when there is nothing, and that no text can break it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from paor.prompts.offline import corpus
from paor.prompts.offline.corpus import Corpus, Source
from paor.prompts.offline.kinds import kinds_of
from paor.prompts.offline.request import parse
from paor.prompts.offline.units import Unit, fold, is_english, split, stem, units
from paor.prompts.offline.writer import Written, escape, find_evidence, write
from paor.tools.documents.convert.registry import convert

from ..support.effort import examples

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
MINUTES = """# Project meeting, 12 January 2027

The budget for 2027 was discussed. It was agreed to postpone the second server until March.

There is a risk that the old licence expires on 28 February before the new system is live.

## Action items

- Anna Keller to send the revised budget to all by Friday
- [ ] Bob: prepare the test plan

| Task | Owner | Due |
|---|---|---|
| Book the training room | Dana | 1 February |
| Archive old minutes | - | - |
"""
PRICES = """| item | category | unit | price_eur |
|---|---|---|---|
| Object storage | Storage | GB/month | 0.021 |
| Small server | Compute | month | 12.00 |
"""
LEASE = """Mietvertrag

§ 2 Mietzeit und Kündigung
(1) Das Mietverhältnis beginnt am 1. April 2026 und läuft auf unbestimmte Zeit.
(2) Der Mieter kann mit einer Frist von drei Monaten zum Monatsende kündigen.

§ 3 Miete
Der Mieter ist verpflichtet, eine Kaution von 2.940 EUR innerhalb von 14 Tagen zu leisten.
"""
contract, minutes = Source("contract.pdf", CONTRACT), Source("minutes.docx", MINUTES)
prices, lease = Source("prices.csv", PRICES), Source("mietvertrag.pdf", LEASE)


def section(written: Written, heading: str) -> str:
    """Return the text under *heading*."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^##|\Z)", written.text, re.DOTALL | re.MULTILINE)
    assert found, f"no section {heading!r} in:\n{written.text}"
    return found[1]


def example(name: str) -> Source:
    """Return an example document as the tools read it."""
    return Source(name, convert(name, (EXAMPLES / name).read_bytes()).text)


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


def test_the_room_of_a_report_holds_all_deadlines_of_the_example() -> None:
    """In the size that a report has nothing of the deadlines is left out."""
    written = write(JOB, [example("contract.pdf"), example("notes.html")])
    assert "Not shown" not in section(written, "Deadlines")
    assert section(written, "Deadlines").count("\n- ") >= 30


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
        ("What are the termination terms?", [("Termination terms", "question")]),
        ("Summarise the document", [("Summary", "summary")]),
        ("What is this document about?", [("Summary", "summary")]),
        ("Which orders are late?", [("Which orders are late?", "question")]),
        ("When must the buyer pay?", [("When must the buyer pay?", "question")]),
        ("storage", [("Storage", "question")]),
        ("- list all risks\n- list all duties", [("Risks", "question"), ("Duties", "list")]),
        ("Wann ist die Miete fällig?", [("Wann ist die Miete fällig?", "question")]),
        ("", [("Summary", "summary")]),
        ("!!!", [("Summary", "summary")]),
    ],
)  # fmt: skip
def test_a_request_is_read_into_parts(request_: str, expected: list[tuple[str, str]]) -> None:
    """Headings come from its own words; another language is one question."""
    assert [(part.heading, part.shape) for part in parse(request_)] == expected


# -- findings ----------------------------------------------------------------------------------------------------


def test_a_list_item_carries_its_introduction() -> None:
    """Alone it lacks its verb."""
    text = write("List all obligations", [contract]).text
    assert "3.1 The Supplier shall: deliver the storage platform by 31 May 2026 *(" in text
    assert "governed by the laws" not in text


def test_a_sentence_that_refers_back_is_quoted_with_the_one_before() -> None:
    """And the one before not a second time."""
    text = write("What interest do late invoices bear?", [contract]).text
    assert "within 30 days of receipt. They bear interest" in text


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
    ],
)
def test_kinds_of_sentences(text: str, expected: set[str]) -> None:
    """By their words."""
    assert kinds_of(Unit(text, "sentence")) == expected


def test_kinds_by_heading_and_form() -> None:
    """A heading speaks for items, and for what has a date."""
    assert "obligation" in kinds_of(Unit("Paint the door", "item", "Duties of the tenant"))
    assert "obligation" not in kinds_of(Unit("Paint is wet.", "sentence", "Duties of the tenant"))
    assert "deadline" in kinds_of(Unit("Launch: 3 May 2027", "item", "Key dates"))
    assert kinds_of(Unit("must", "code")) == frozenset()


@pytest.mark.parametrize(
    "text",
    ["by 31 March 2027", "until March 31, 2027", "before 2027-03-31", "due 31/03/2027", "no later than 31.03.2027",
     "by the end of Q2 2027", "by the end of June", "by Friday", "by 17:00", "within thirty (30) days of receipt",
     "at least 3 months' notice", "no later than the handover", "the notice period is one month",
     "moved from 3 May 2026 to 4 June 2026"],
)  # fmt: skip
def test_deadlines(text: str) -> None:
    """A date or period with a word that makes it a deadline."""
    assert "deadline" in kinds_of(Unit(text, "sentence"))


@pytest.mark.parametrize(
    "text",
    ["for five years", "The Agreement of 3 March 2026", "in version 3.11.2", "for 30 days after delivery"],
)
def test_no_deadlines(text: str) -> None:
    """A date or period alone is none."""
    assert "deadline" not in kinds_of(Unit(text, "sentence"))


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
    """Its main passages under a note, not an empty list."""
    text = write("List every deadline", [lease]).text
    assert "known in English only" in text and "*(mietvertrag.pdf" in text


def test_english_is_told_by_its_words() -> None:
    """And what has no words counts as English."""
    assert (
        is_english("The Supplier shall deliver by Friday") and is_english("") and is_english("A-4711 12.50")
    )
    for text in (
        LEASE,
        "Quelles sont les échéances ?",
        "¿Cuáles son los plazos?",
        "Wat zijn de termijnen voor het huis?",
    ):
        assert not is_english(text)


def test_stems() -> None:
    """Endings go, short words and numbers stay."""
    assert stem("invoices") == stem("invoicing") and stem("deliveries") == stem("delivered") == stem(
        "delivery"
    )
    assert [stem(word) for word in ("days", "2026", "gas")] == ["day", "2026", "gas"]


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


def test_a_repetition_in_one_document_is_left_out() -> None:
    """Once is enough."""
    assert len(write("List all obligations", [Source("a", f"{CLAUSE}\n\n{CLAUSE}")]).findings) == 1


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


@pytest.mark.whole
def test_the_answer_does_not_depend_on_the_order_of_sets() -> None:
    """In processes with other hashes of texts the same bytes come out."""
    code = (
        "import sys; from paor.prompts.offline.writer import Source, write\n"
        "text = sys.stdin.read()\n"
        "for request in ('Summarise it and list every deadline', 'Compare them', 'When must invoices be paid?'):\n"
        "    print(write(request, [Source('a', text), Source('b', text[:2000].replace('2026', '2027'))]).text)"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=example("contract.pdf").text,
            env={"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(answers) == 1 and "30 days" in answers.pop()


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
    """Found where it is, None where it is not or cannot be judged."""
    text = write(f"{JOB}. What is the liability cap?", [contract]).text
    found = find_evidence(criterion, text)
    assert (found is not None) is holds
    assert found is None or found in fold(text)


def test_what_was_not_found_is_no_evidence() -> None:
    """Neither our own sentence nor another's."""
    assert (
        find_evidence("names the liability cap", write("What is the liability cap?", [prices]).text) is None
    )
    assert find_evidence("mentions deadlines", "The documents do not mention any deadlines.") is None
    close = "## Warranty\n\nNo passage of a.pdf answers this directly; the closest:\n\n- The warranty is ours. *(a.pdf)*"
    assert find_evidence("states the warranty", close) is None
    assert find_evidence("cites its sources", "Pay by 3 May.") is None


def test_what_a_criterion_asks_for_is_added() -> None:
    """What the request does not bring is looked for, once; what is not there is not invented."""
    criteria = ["names the liability cap", "states the monthly fee", "mentions unicorns"]
    written = write("List every deadline", [contract], criteria=criteria)
    assert written.covered == (True, True, False)
    assert "EUR 50,000" in written.text and "unicorn" not in written.text


# -- units -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See No. 5 of the list. It costs 3.5 EUR.", 2),
        ("Acme Inc. The Buyer pays.", 2),
        ("Mr. Smith met J. Doe at 5 p.m. on Monday.", 1),
        ("Er endet am 31. März 2027. Gemäß § 5. Der Preis.", 3),
        ("the fees of clause 6.1. The limit does not apply.", 2),
        ("4.1. The Supplier pays.", 1),
        ("一。二。三！", 3),
        ("the U.S. law applies. lower case goes on.", 1),
    ],
)
def test_sentences(text: str, expected: int) -> None:
    """Abbreviations, dates and numbers do not end one."""
    assert len(split(text)) == expected


@given(st.text(alphabet="ab AB.!?1 §。\n", max_size=200), st.integers(20, 60))
def test_sentences_are_the_text(text: str, chars_max: int) -> None:
    """Nothing is lost or added but blanks, and none is too long."""
    pieces = split(text, chars_max=chars_max)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= chars_max for piece in pieces)


def test_headings() -> None:
    """Marked, underlined, bold, numbered, in capitals; page numbers are none."""
    text = (
        "# Marked #\none.\n\nUnderlined\n----------\ntwo.\n\n**Bold**\nthree.\nCAPITAL LETTERS\nfour.\n§ 5 Paragraph\nFive.\n"
        "ARTICLE 6\nSix.\n7. Numbered\nSeven.\n\nPage 2\n\nEight.\n"
    )
    assert {unit.text: unit.heading for unit in units(text, units_max=99)[0]} == {
        "one.": "Marked",
        "two.": "Underlined",
        "three.": "Bold",
        "four.": "CAPITAL LETTERS",
        "Five.": "§ 5 Paragraph",
        "Six.": "ARTICLE 6",
        "Seven.": "7. Numbered",
        "Eight.": "7. Numbered",
    }


@pytest.mark.parametrize(
    "line",
    ["4. lower case", "12 March 2027", "4.1 He must pay 5 EUR", "Ends with a colon:", "a | b", "3 May 2027"],
)
def test_what_is_no_heading(line: str) -> None:
    """What is lost as a heading is never quoted."""
    assert units(f"{line}\n\nSome text.", units_max=9)[0][-1].heading == ""


@pytest.mark.parametrize(
    "text", ["Payment by Friday", "Some text.\n\nARTICLE 6", "He\n**must pay**\nat once."]
)
def test_words_are_not_lost_as_a_heading(text: str) -> None:
    """Neither the last line nor bold words in the middle of a paragraph."""
    assert " ".join(unit.text for unit in units(text, units_max=9)[0]) == fold(text)


def test_a_long_name_is_cut_to_a_heading() -> None:
    """After a word, if there are any."""
    assert parse("pumps " * 30)[0].heading.endswith("pumps …")
    assert parse("泵" * 100)[0].heading == "泵" * 70 + " …"


def test_lists_and_tables() -> None:
    """Items with their introduction, check boxes, rows with their headers, lists of properties, code."""
    text = "To do:\n- first\n- [x] done\n\nEnd.\n\n| A | B |\n|---|---|\n| x | 5 |\n| - | 6 |\n\n```\ncode()\n```\n> quoted\n> line."
    assert [(unit.form, unit.text, unit.intro) for unit in units(text, units_max=99)[0]] == [
        ("intro", "To do:", ""),
        ("item", "first", "To do:"),
        ("item", "done", "To do:"),
        ("sentence", "End.", ""),
        ("row", "A: x; B: 5", ""),
        ("row", "B: 6", ""),
        ("code", "code()", ""),
        ("sentence", "quoted line.", ""),
    ]
    found = units("| Present | Anna, Bob, Chen, Li and Max |\n|---|---|\n| Place | Rome |", units_max=9)[0]
    assert [unit.text for unit in found] == ["Present: Anna, Bob, Chen, Li and Max", "Place: Rome"]
    assert units("one. Two. Three. Four.", units_max=3)[1] is False


def test_rare_words_weigh_more_and_unknown_ones_find_nothing() -> None:
    """The share of a query that a unit covers."""
    found = Corpus([Source("a", "Alpha beta.\n\nAlpha gamma.\n\nAlpha.\n\n# Beta\n\nDelta alpha.")])
    shares = found.search(["beta", "alpha"])
    assert shares[0] == 1.0 and shares[0] > shares[3] > shares[2]
    assert found.search(["zebra"]) == {}


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Payment.** The *fee* is due", "Payment. The fee is due"),
        ("see [the list](http://a.b/c)", "see the list (http://a.b/c)"),
        ("`a*b` and 2 * 3", "`a*b` and 2 \\* 3"),
        ("- x", "\\- x"),
        ("# x", "\\# x"),
        ("12. x", "12\\. x"),
        ("snake_case _x_", "snake_case x"),
        ("5 < 6 <b>", "5 < 6 &lt;b>"),
        ("a \ud800", "a \ufffd"),
    ],
)
def test_escape(text: str, expected: str) -> None:
    """As little as needed."""
    assert escape(text) == expected


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
