"""The writing engine: what it finds in documents, what it says when there is nothing, and that no text can break it."""

import re
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from paor.prompts import corpus
from paor.prompts.blocks import Unit, units
from paor.prompts.dates import facts, times
from paor.prompts.extractive import Finding, Source, Written, evidence, write
from paor.prompts.kinds import kinds_of
from paor.prompts.languages import ALGORITHMS, STOP_WORDS, detect, known
from paor.prompts.lexicon import KINDS, PATTERNS
from paor.prompts.objectives import Part, parse
from paor.prompts.phrases import labels, phrases
from paor.prompts.ranking import Index, Stemmer, Term, query_terms
from paor.prompts.rendering import escape
from paor.prompts.request_words import REQUEST_WORDS
from paor.prompts.sentences import fold, split
from paor.prompts.vocabulary import ASKS

CONTRACT = """# Services Agreement

between **Northwind Storage Ltd.** (the "Supplier") and **Contoso GmbH** (the "Customer"), dated 3 March 2026.

## 1 Definitions

1.1 "Services" means the storage and backup services described in Annex A.

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

## 6 Termination

6.1 Either party may terminate this Agreement with immediate effect if the other party breaches a material obligation.
6.2 The Supplier shall return all data within 14 days.

## 7 Governing law

This Agreement shall be governed by the laws of Ireland.
"""

MINUTES = """# Project meeting, 12 January 2027

Present: Anna Keller, Bob Ruiz, Chen Li

## 1. Budget

The budget for 2027 was discussed. It was agreed to postpone the second server until March.

## 2. Migration

There is a risk that the old licence expires on 28 February before the new system is live.
Chen will ask the vendor for an extension by 20 January.

## Action items

- Anna Keller to send the revised budget to all by Friday
- [ ] Bob: prepare the test plan
- Chen Li will ask the vendor for a licence extension by 20 January

| Task | Owner | Due |
|---|---|---|
| Book the training room | Dana | 1 February |
| Archive old minutes | - | - |

## Open questions

1. Who pays for the room?
"""

PRICES = """| item | category | unit | price_eur |
|---|---|---|---|
| Object storage | Storage | GB/month | 0.021 |
| Archive storage | Storage | GB/month | 0.004 |
| Small server | Compute | month | 12.00 |
| Large server | Compute | month | 96.00 |
| Support premium | Support | month | 250.00 |
"""

LEASE = """Mietvertrag

§ 1 Mietsache
Der Vermieter vermietet dem Mieter die Wohnung im 2. Obergeschoss, z. B. einschließlich Keller.

§ 2 Mietzeit und Kündigung
(1) Das Mietverhältnis beginnt am 1. April 2026 und läuft auf unbestimmte Zeit.
(2) Der Mieter kann mit einer Frist von drei Monaten zum Monatsende kündigen. Die Kündigungsfrist für den Vermieter
verlängert sich nach fünf Jahren auf sechs Monate.

§ 3 Miete
(1) Die monatliche Miete beträgt 980,00 EUR und ist bis zum dritten Werktag eines jeden Monats zu zahlen.
(2) Der Mieter ist verpflichtet, eine Kaution von 2.940 EUR innerhalb von 14 Tagen zu leisten.

§ 4 Rückgabe
Der Mieter hat alle Schlüssel bis zum 31. März 2029 zurückzugeben. Er muss Schäden unverzüglich anzeigen.
"""

CONVENTION = """# Convention

Le prestataire s'engage à fournir les services décrits en annexe. Il doit livrer la première version avant le 15 mars
2027.

## Paiement

Le client paie 4 500 € par mois. Les factures sont payables dans un délai de 30 jours à compter de leur réception.

## Résiliation

Chaque partie peut résilier la convention moyennant un préavis de trois mois.
"""

OFFER_A = """# Offer Alpha

Alpha offers office cleaning for your site in Bern.

## Price
The monthly price is CHF 1,850 excluding VAT.
Window cleaning costs CHF 400 per visit.

## Terms
Invoices are payable within 30 days.
The offer follows the general terms of the cleaning association.
"""

OFFER_B = """# Offer Bright

Bright offers office cleaning for your site in Bern.

## Price
The monthly price is CHF 1,620 excluding VAT.

## Terms
Invoices are payable within 10 days.
The offer follows the general terms of the cleaning association.
A deposit of CHF 1,000 is due on signature.
"""

EMAIL = """Subject: Office move

Hi all,

quick update on the office move. The movers charge 2,300 EUR plus VAT; they need our inventory no later than 20 May.
Tom, could you please finish the inventory by Friday? Please tell me until Thursday who needs parking.

Open: who waters the plants?

Best
Maria
"""

POLICY = """# Reisekostenrichtlinie

## 1. Genehmigung

Dienstreisen sind vor Antritt zu genehmigen. Der Antrag muss mindestens 5 Arbeitstage vor Reisebeginn gestellt werden.

## 2. Erstattung

Für Übernachtungen werden höchstens 140 EUR pro Nacht erstattet. Die Kilometerpauschale beträgt 0,30 EUR. Belege müssen
bis zum 15. des Folgemonats eingereicht werden.

## 3. Zuständigkeiten

| Aufgabe | Zuständig | Frist |
|---|---|---|
| Prüfung der Belege | Frau Ohm | 5 Arbeitstage |

## 4. Verstöße

Wer falsche Angaben macht, muss mit Konsequenzen rechnen.
"""

ALQUILER = """CONTRATO DE ARRENDAMIENTO

Segunda. Duración
El contrato tendrá una duración de cinco años y vence el 31 de diciembre de 2030.

Tercera. Obligaciones
El arrendatario debe constituir una fianza de 2.400 € en un plazo de 10 días. El arrendador está obligado a reparar la
instalación eléctrica.
"""

contract = Source("contract.pdf", CONTRACT)
email = Source("email.txt", EMAIL)
policy = Source("policy.docx", POLICY)
minutes = Source("minutes.docx", MINUTES)
prices = Source("prices.csv", PRICES)
lease = Source("mietvertrag.pdf", LEASE)
convention = Source("convention.html", CONVENTION)


def section(written: Written, heading: str) -> str:
    """Return the text under *heading*."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", written.text, re.DOTALL | re.MULTILINE)
    assert found, f"no section {heading!r} in:\n{written.text}"
    return found[1]


def kinds(
    text: str, language: str = "en", form: str = "sentence", heading: str | None = None
) -> frozenset[str]:
    return kinds_of(Unit(text, form, heading), language)


class TestParts:
    """An objective is read into what it asks for."""

    @pytest.mark.parametrize(
        ("objective", "expected"),
        [
            (
                "Summarise the obligations and list every deadline",
                [("Obligations", "list"), ("Deadlines", "list")],
            ),
            (
                "List obligations, deadlines and prices",
                [("Obligations", "list"), ("Deadlines", "list"), ("Prices", "list")],
            ),
            (
                "Who is responsible for what, and by when?",
                [("Who is responsible for what, and by when?", "list")],
            ),
            ("What does the price list say about storage?", [("Storage", "question")]),
            ("What are the termination terms?", [("Termination terms", "question")]),
            ("Summarise the document", [("Summary", "summary")]),
            ("What is this document about?", [("Summary", "summary")]),
            ("Compare the two offers", [("Comparison", "compare")]),
            ("List all action items with owners", [("Action items with owners", "list")]),
            ("List all tasks, owners and due dates", [("Tasks, owners and due dates", "list")]),
            ("Give me an overview including all risks", [("Summary", "summary"), ("Risks", "list")]),
            ("List all risks and who owns them", [("Risks", "list")]),
            (
                "Explain the payment terms and the warranty",
                [("Payment terms", "question"), ("Warranty", "question")],
            ),
            ("Give me the five most important risks", [("Five most important risks", "list")]),
            ("Which orders are late?", [("Which orders are late?", "question")]),
            ("Which deadlines apply?", [("Deadlines", "list")]),
            ("storage", [("Storage", "question")]),
            ("Compare the prices between A and the fees of B", [("Comparison", "compare")]),
            ("The difference between price and the cost", [("Comparison", "compare")]),
            (
                "What happens between the supplier and the customer?",
                [("What happens between the supplier and the customer?", "question")],
            ),
            ("When are the obligations?", [("When are the obligations?", "list")]),
            ("When?", [("Deadlines", "list")]),
            ("When do my rights end?", [("When do my rights end?", "question")]),
            ("please " * 12 + "list risks", [("Please please please please list risks", "list")]),
            ("Please read the attached document.", [("Summary", "summary")]),
            ("- list all risks\n- list all decisions", [("Risks", "list"), ("Decisions", "list")]),
            ("", [("Summary", "summary")]),
            ("!!!", [("Summary", "summary")]),
        ],
    )
    def test_english(self, objective: str, expected: list[tuple[str, str]]) -> None:
        """Headings come from the objective's own words."""
        assert [(part.heading, part.shape) for part in parse(objective)] == expected

    @pytest.mark.parametrize(
        ("language", "objective", "headings"),
        [
            ("de", "Wie lauten die Kündigungsfristen?", ["Kündigungsfristen"]),
            ("de", "Fasse die Pflichten zusammen und liste alle Fristen auf", ["Pflichten", "Fristen"]),
            (
                "de",
                "Wer ist wofür verantwortlich und bis wann?",
                ["Wer ist wofür verantwortlich und bis wann?"],
            ),
            ("fr", "Quelles sont les échéances ?", ["Échéances"]),
            ("fr", "Résume les obligations et liste tous les délais", ["Obligations", "Délais"]),
            ("es", "¿Cuáles son los plazos?", ["Plazos"]),
            ("it", "Quali sono le scadenze?", ["Scadenze"]),
            ("pt", "Quais são os prazos?", ["Prazos"]),
            ("nl", "Wat zijn de opzegtermijnen?", ["Opzegtermijnen"]),
        ],
    )
    def test_other_languages(self, language: str, objective: str, headings: list[str]) -> None:
        """The same in the other languages."""
        assert [part.heading for part in parse(objective, language=language)] == headings

    def test_a_shared_topic_belongs_to_both_parts(self) -> None:
        """ "Obligations and deadlines of the supplier" is about the supplier twice."""
        assert [part.terms for part in parse("List all obligations and deadlines of the supplier")] == [
            ("supplier",)
        ] * 2

    def test_what_asks_for_nothing_is_left_out_beside_a_request(self) -> None:
        """Politeness is no part."""
        parts = parse("We met the vendor yesterday in Rome. Please list all risks.")
        assert [part.heading for part in parts] == ["Risks"]

    def test_limits(self) -> None:
        """A number of findings is understood in several forms."""
        assert [
            parse(text)[0].limit
            for text in ("top 5 risks", "the three main risks", "List risks in 4 bullet points")
        ] == [5, 3, 4]

    def test_long_headings_are_cut(self) -> None:
        """A heading stays short."""
        part = parse("What happens if " + "the supplier who has not been named yet " * 5 + "is late?")[0]
        assert part.heading.endswith("…?") and len(part.heading) < 80

    def test_an_each_quantifier_gives_the_plural_label(self) -> None:
        """ "Every deadline" is a list of deadlines."""
        assert parse("Extract every price")[0].heading == "Amounts"
        assert parse("Extract every deadline of delivery")[0].heading == "Deadline of delivery"


class TestContract:
    """The contract: obligations, deadlines, questions."""

    def test_obligations_and_deadlines(self) -> None:
        """Both parts are answered; clauses that oblige nobody are not obligations."""
        written = write("Summarise the obligations and list every deadline", [contract])
        duties, deadlines = section(written, "Obligations"), section(written, "Deadlines")
        assert (
            "- 4.1 The Customer shall pay a monthly fee of EUR 2,400 plus VAT. *(contract.pdf, 4 Fees)*"
            in duties
        )
        assert "governed by" not in duties and "commence" not in duties
        for text in (
            "31 May 2026",
            "15 June 2026",
            "10 Business Days",
            "30 days of receipt",
            "3 months' written notice",
            "14 days",
        ):
            assert text in deadlines
        assert "three years" not in deadlines

    def test_list_items_carry_their_introduction(self) -> None:
        """An item without its verb says nothing."""
        text = write("List every deadline", [contract]).text
        assert (
            "- 3.1 The Supplier shall: deliver the storage platform by 31 May 2026 *(contract.pdf, 3 Delivery)*"
            in text
        )

    def test_a_sentence_that_refers_back_is_quoted_with_the_one_before(self) -> None:
        """ "They bear interest" needs to say what."""
        written = write("What is the interest?", [contract])
        assert "Invoices are payable within 30 days of receipt. They bear interest" in written.text
        assert written.findings[0].text in fold(CONTRACT)

    def test_obligations_of_one_party(self) -> None:
        """Only where the party is the subject."""
        text = write("List all obligations of the customer", [contract]).text
        assert "4.1 The Customer shall pay" in text and "train two administrators" not in text

    def test_an_unknown_topic_is_said_and_all_are_listed(self) -> None:
        """The reader learns that the restriction did not work."""
        text = write("List all obligations of the astronaut", [contract]).text
        assert (
            "No passage of this kind mentions “astronaut”; all of this kind:" in text
            and "4.1 The Customer" in text
        )

    def test_a_question_names_the_section_it_is_about(self) -> None:
        """All of a short section is quoted when its heading is what is asked about."""
        written = write("What are the termination terms?", [contract])
        assert [finding.heading for finding in written.findings][:2] == ["6 Termination"] * 2
        assert "6.2 The Supplier shall return all data" in written.text

    def test_synonyms(self) -> None:
        """ "Cap" finds "limited"."""
        assert "limited to EUR 50,000" in write("What is the liability cap?", [contract]).text

    def test_nothing_found_is_said(self) -> None:
        """No answer is invented."""
        written = write("What is the capital of France?", [contract])
        assert written.text == "## Capital of France\n\nNo passage of contract.pdf answers this."
        assert written.findings == ()

    def test_the_closest_passage_is_marked_as_such(self) -> None:
        """Half an answer is not sold as one."""
        text = write("What is the penalty for late delivery?", [contract]).text
        assert "answers this directly; the closest:" in text

    def test_no_finding_of_a_kind_falls_back_to_what_the_question_word_asks(self) -> None:
        """Without decisions there is still an honest sentence."""
        assert "No passage of contract.pdf answers this." in write("List all decisions", [contract]).text

    def test_a_limit_is_kept_and_the_rest_counted(self) -> None:
        """ "Top 2" gives two."""
        written = write("List the top 2 deadlines", [contract])
        assert len(written.findings) == 2 and "Not shown: " in written.text

    def test_when_prefers_dates(self) -> None:
        """A question for a time is answered by a time."""
        assert [f.text for f in write("When is the storage platform delivered?", [contract]).findings] == [
            "deliver the storage platform by 31 May 2026;"
        ]

    def test_how_to(self) -> None:
        """Commands are quoted as code."""
        guide = "# Pump\n\n## Installation\n\nRun the installer as root:\n\n```\ninstall-pump --all\n```\n"
        assert (
            "- `install-pump --all` *(guide, Installation)*"
            in write("How do I install the pump?", [Source("guide", guide)]).text
        )

    def test_summary(self) -> None:
        """The summary keeps the order of the document and has no near duplicates."""
        written = write("Summarise the document", [contract])
        places = [fold(CONTRACT).index(finding.text) for finding in written.findings]
        assert places == sorted(places) and 4 <= len(places) <= 10

    def test_a_summary_of_a_topic(self) -> None:
        """Only what is about the topic."""
        assert {f.heading for f in write("Summarise the liability", [contract]).findings} == {"5 Liability"}
        assert "No passage" in write("Summarise the astronauts", [contract]).text


class TestMinutes:
    """Minutes: who does what."""

    def test_action_items_with_owners(self) -> None:
        """From sentences, bullets, boxes and tables; the same task is named once, dashes in a table are no value."""
        written = write("List all action items with owners", [minutes])
        assert written.text.splitlines()[2:] == [
            "- Chen Li will ask the vendor for a licence extension by 20 January *(minutes.docx, Action items)*",
            "- Anna Keller to send the revised budget to all by Friday *(minutes.docx, Action items)*",
            "- Bob: prepare the test plan *(minutes.docx, Action items)*",
            "- Task: Book the training room; Owner: Dana; Due: 1 February *(minutes.docx, Action items)*",
            "- Task: Archive old minutes *(minutes.docx, Action items)*",
        ]

    def test_responsibilities_decisions_risks_and_questions(self) -> None:
        """Each kind is found where it stands."""
        written = write("Who is responsible for what, and by when?", [minutes])
        assert "Owner: Dana" in written.text and "postpone" not in written.text
        text = write("List decisions, risks and open questions", [minutes]).text
        assert (
            "agreed to postpone" in text
            and "old licence expires" in text
            and "Who pays for the room?" in text
        )

    def test_an_email(self) -> None:
        """A polite question is a task with a deadline, and no open question."""
        deadlines = write("List every deadline", [email]).text
        assert "by Friday?" in deadlines and "until Thursday" in deadlines and "20 May" in deadlines
        questions = write("List all open questions", [email]).text
        assert "plants" in questions and "Tom" not in questions
        assert "could you please" in write("Who has to do what?", [email]).text
        assert "## Summary" in write("Summarise the email", [email]).text

    def test_a_question_word_brings_what_answers_it(self) -> None:
        """Without risks with a time, what has a time is offered as the closest."""
        text = write("Who is in charge?", [Source("a", "The hall is blue. Tea costs 3 EUR.")]).text
        assert "No passage of a answers this." in text

    def test_kinds_of_a_finding(self) -> None:
        """A finding tells all that it is."""
        findings = {f.text: f for f in write("List all action items", [minutes]).findings}
        row = findings["Task: Book the training room; Owner: Dana; Due: 1 February"]
        assert {"action", "owner", "deadline"} <= row.kinds
        assert isinstance(row, Finding) and row.source == "minutes.docx" and row.heading == "Action items"


class TestTables:
    """Tables: rows with their headers."""

    def test_matching_rows(self) -> None:
        """A question about a product gives its rows, from the document that the question names."""
        written = write("What does the price list say about storage?", [prices, contract])
        assert [f.source for f in written.findings] == ["prices.csv"] * 2
        assert (
            "- item: Object storage; category: Storage; unit: GB/month; price_eur: 0.021 *(prices.csv)*"
            in written.text
        )

    def test_one_row(self) -> None:
        """The row and no other."""
        text = write("How much does premium support cost?", [prices]).text
        assert text.count("\n- ") == 1 and "250.00" in text

    def test_a_table_is_described_in_a_summary(self) -> None:
        """Beside text, a table is only described."""
        text = write("Summarise the documents", [prices, minutes]).text
        assert "prices.csv: a table of 5 rows with the columns item, category, unit, price_eur." in text
        assert "- item:" not in text
        assert "- item:" in write("Summarise the document", [prices]).text

    def test_other_tables(self) -> None:
        """Tables without a row of dashes, with properties instead of headers, without headers, with pipes in cells."""
        plain = units(
            "D. Deliverable | Date\nD1 Spec | 3 May 2027\nD2 Code | 4 May 2027\n\nend", units_max=9
        )[0]
        assert [unit.text for unit in plain[:2]] == [
            "D. Deliverable: D1 Spec; Date: 3 May 2027",
            "D. Deliverable: D2 Code; Date: 4 May 2027",
        ]
        listed = units("| Present | Anna, Bob and Chen Li |\n|---|---|\n| Date | 3 May |\n", units_max=9)[0]
        assert [unit.text for unit in listed] == ["Present: Anna, Bob and Chen Li", "Date: 3 May"]
        bare = units("| a1 | b\\|c | " + "x " * 200 + "|\n| 4 | 5 | 6 |\n", units_max=9)[0]
        assert (
            bare[0].text.startswith("a1; b|c; x x")
            and bare[0].text.endswith("x …")
            and bare[1].text == "4; 5; 6"
        )

    def test_the_line_before_a_table_says_what_its_rows_are(self) -> None:
        """ "Shall deliver the following by the dates stated" makes each row a deadline."""
        text = (
            "The Supplier shall deliver the following:\n\n| Part | On |\n|---|---|\n| Pump | 3 May 2027 |\n"
        )
        row = units(text, units_max=9)[0][1]
        assert kinds_of(row, "en") >= {"obligation", "deadline"}
        assert "- Part: Pump; On: 3 May 2027 *(x)*" in write("List every deadline", [Source("x", text)]).text


class TestLanguages:
    """Other languages than English."""

    def test_german(self) -> None:
        """Notice periods are found although the word is a compound, and the sentence has another form of the verb."""
        written = write("Wie lauten die Kündigungsfristen?", [lease], language="de")
        text = section(written, "Kündigungsfristen")
        assert "mit einer Frist von drei Monaten zum Monatsende kündigen" in text and "sechs Monate" in text
        assert "Schlüssel" not in text and "(mietvertrag.pdf, § 2 Mietzeit und Kündigung)" in text

    def test_german_obligations(self) -> None:
        """ "hat ... zurückzugeben", "ist ... zu zahlen", "muss", "ist verpflichtet"."""
        text = write("Liste alle Pflichten auf", [lease], language="de").text
        for words in ("zurückzugeben", "zu zahlen", "Er muss Schäden", "ist verpflichtet"):
            assert words in text

    def test_french(self) -> None:
        """Headings and findings are French."""
        written = write("Quelles sont les échéances ?", [convention], language="fr")
        assert written.text.startswith("## Échéances\n")
        for words in ("avant le 15 mars 2027", "30 jours", "préavis de trois mois"):
            assert words in written.text
        assert "4 500 € par mois" in write("Combien paie le client ?", [convention], language="fr").text

    def test_a_german_policy(self) -> None:
        """Questions that want a number, a date, a person or a section."""
        said = {
            objective: write(objective, [policy], language="de").text
            for objective in (
                "Wie hoch ist die Kilometerpauschale?",
                "Bis wann müssen Belege eingereicht werden?",
                "Wer ist zuständig?",
                "Was passiert bei Verstößen?",
                "Fasse die Richtlinie zusammen",
            )
        }
        for words, text in zip(
            ("0,30 EUR", "15. des Folgemonats", "Frau Ohm", "Konsequenzen"), said.values(), strict=False
        ):
            assert words in text and "am nächsten kommt" not in text
        assert "zu genehmigen" not in said["Wer ist zuständig?"]
        assert said["Fasse die Richtlinie zusammen"].startswith("## Zusammenfassung\n\n- ")

    def test_spanish(self) -> None:
        """Two parties whose names share their stem are told apart; a short line over a long one is a heading."""
        source = Source("contrato.pdf", ALQUILER)
        written = write("¿Cuáles son las obligaciones del arrendador?", [source], language="es")
        assert [finding.heading for finding in written.findings] == ["Tercera. Obligaciones"]
        assert "instalación eléctrica" in written.text and "fianza" not in written.text
        text = write("¿Cuánto es la fianza?", [source], language="es").text
        assert text.startswith("## ¿Cuánto es la fianza?\n") and "2.400 €" in text

    def test_across_languages(self) -> None:
        """A German question finds an English clause, an English one a German clause."""
        assert (
            "6 Termination" in write("Wie kann der Vertrag gekündigt werden?", [contract], language="de").text
        )
        assert "drei Monaten" in write("What are the notice periods?", [lease]).text

    def test_fixed_phrases(self) -> None:
        """Every language of the table says it in its own words, others in English."""
        said = {code: write("xyzzy", [contract], language=code).text for code in (*ALGORITHMS, "xx")}
        assert "Keine Stelle in contract.pdf" in said["de"] and "Aucun passage" in said["fr"]
        assert said["xx"] == said["en"] and len(set(said.values())) == len(ALGORITHMS)
        assert write("", [contract], language="it").text.startswith("## Sintesi\n")

    def test_detection(self) -> None:
        """By function words; a table without words gets the default."""
        assert detect(LEASE) == "de" and detect(CONVENTION) == "fr" and detect(CONTRACT) == "en"
        assert detect("12.00 | 13.00", default="nl") == "nl"
        assert known("de-CH") == "de" and known("Klingon") == "en"


class TestTogether:
    """Several documents."""

    def test_the_same_clause_is_quoted_once_with_both_sources(self) -> None:
        """One line, two sources, two findings."""
        clause = "The Supplier shall deliver the storage platform in good order to the site of the Customer."
        written = write("List all obligations", [Source("a.md", clause), Source("b.md", clause)])
        assert written.text == f"## Obligations\n\n- {clause} *(a.md; b.md)*"
        assert [f.source for f in written.findings] == ["a.md", "b.md"]

    def test_a_changed_date_keeps_both_versions(self) -> None:
        """The changed deadline is what the reader needs."""
        old = "The Supplier shall deliver the storage platform to the site of the Customer by 31 May 2026."
        written = write(
            "List every deadline", [Source("a.md", old), Source("b.md", old.replace("31 May", "30 June"))]
        )
        assert written.text.endswith(
            f"- {old} *(a.md)*\n  - {old.replace('31 May', '30 June')} *(b.md; differs)*"
        )
        assert len(written.findings) == 2

    def test_a_repetition_in_one_document_is_left_out(self) -> None:
        """Word for word."""
        text = "Bob must pay the rent.\n\nBob must pay the rent.\n"
        assert write("List all obligations", [Source("a", text)]).text.count("Bob must") == 1

    def test_compare(self) -> None:
        """What differs side by side, what one has alone, what both have."""
        written = write(
            "Compare the two offers", [Source("offer_alpha.md", OFFER_A), Source("offer_bright.md", OFFER_B)]
        )
        different = section(written, "Different")
        assert (
            "- The monthly price is CHF 1,850" in different
            and "\n  - The monthly price is CHF 1,620" in different
        )
        assert "Window cleaning" in section(written, "Only in offer_alpha.md")
        assert "deposit" in section(written, "Only in offer_bright.md")
        assert "general terms" in section(written, "The same in all")
        changed = Source("c.md", OFFER_B.replace("offer follows", "offer never follows"))
        text = write("Compare the two offers", [Source("a.md", OFFER_A), changed]).text
        assert "never follows" in text and "The same in all" not in text

    def test_compare_a_topic(self) -> None:
        """Only the prices."""
        written = write(
            "Compare the prices of the offers", [Source("a.md", OFFER_A), Source("b.md", OFFER_B)]
        )
        assert "1,850" in written.text and "general terms" not in written.text
        written = write(
            "Compare the cleaning association", [Source("a.md", OFFER_A), Source("b.md", OFFER_B)]
        )
        assert "general terms" in written.text and "1,850" not in written.text

    def test_compare_needs_two(self) -> None:
        """With one document it is summarised, or searched for what is to be compared."""
        assert "There is only one document" in write("Compare the documents", [contract]).text
        assert "Small server" in write("Compare small and large servers", [prices]).text

    def test_long_documents_are_compared_by_their_central_units(self) -> None:
        """And what is left out is counted."""
        long = "\n\n".join(
            f"The number {n} machine costs {n} EUR and runs in hall {n % 7}." for n in range(400)
        )
        text = write("Compare the documents", [Source("a", long), Source("b", OFFER_A)], chars_max=4000).text
        assert "Not shown: " in text and len(text) <= 4000

    def test_documents_are_chosen_by_name(self) -> None:
        """ "The minutes" are the minutes."""
        assert {
            f.source for f in write("List all deadlines in the minutes", [contract, minutes]).findings
        } == {"minutes.docx"}

    def test_a_name_is_no_topic(self) -> None:
        """ "Of the lease" names the document; no sentence in it needs to say "lease"."""
        sources = [
            Source("lease.txt", "Bob must pay by 3 May 2027."),
            Source("b.txt", "Eve must pay by 4 May 2027."),
        ]
        assert write("List all deadlines of the lease", sources).text.endswith(
            "\n\n- Bob must pay by 3 May 2027. *(lease.txt)*"
        )

    def test_a_name_hides_nothing(self) -> None:
        """What another document says on the topic is listed too."""
        sources = [Source("supplier.txt", "The firm must pay."), Source("b.txt", "The supplier must dance.")]
        assert "must dance" in write("List all obligations of the supplier", sources).text

    def test_the_most_alike_clause_that_belongs_together(self) -> None:
        """A like clause of the same document does not hide the one of another."""
        one = "The Supplier must repair every pump of class {} in the northern hall of the Customer at its own cost."
        sources = [Source("a", one.format("A") + "\n\n" + one.format("B")), Source("b", one.format("B"))]
        text = write("List all obligations", sources).text
        assert text.count("\n- ") == 2 and text.endswith("*(a; b)*")

    def test_what_only_sounds_alike_is_not_merged(self) -> None:
        """ "May" and "may not" are small words, but not the same."""
        one = "The Supplier may only repair the pump in the northern hall of the Customer."
        text = write("List all obligations", [Source("a", one), Source("b", one.replace("only", "not"))]).text
        assert "(a)*" in text and "may not repair" in text and "(b; differs)*" in text

    def test_many_names(self) -> None:
        """Three are named, the others counted."""
        sources = [Source(f"n{number}", "Nothing here.") for number in range(5)]
        assert "No passage of n0, n1, n2 and 2 more answers this." in write("zebra", sources).text
        assert "No passage of n0 and n1 answers this." in write("zebra", sources[:2]).text


class TestRoom:
    """The length of an answer."""

    def test_without_sources(self) -> None:
        """There is no document to answer from, or none with text."""
        assert write("List all risks", [], criteria=["x"]) == Written(
            "There is no document to answer from.", (), (False,)
        )
        assert (
            write("List all risks", [Source("a.pdf", " \n- \n")]).text
            == "a.pdf has no readable text to answer from."
        )

    @pytest.mark.parametrize("chars_max", [-5, 0, 1, 20, 60, 150, 400, 900, 12_000])
    def test_is_kept(self, chars_max: int) -> None:
        """What does not fit is counted, and findings are only those that are there."""
        written = write("Summarise the obligations and list every deadline", [contract], chars_max=chars_max)
        assert len(written.text) <= max(0, chars_max)
        assert all(finding.text.rstrip("; and") in written.text for finding in written.findings)

    def test_the_rest_is_counted(self) -> None:
        """Honestly."""
        whole = len(write("List every deadline", [contract]).findings)
        written = write("List every deadline", [contract], chars_max=400)
        assert f"Not shown: {whole - len(written.findings)} more." in written.text

    def test_too_many_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The beginning is read, and the answer says so."""
        monkeypatch.setattr(corpus, "UNITS_MAX", 50)
        text = write("List all obligations", [Source("log", "Bob must pay.\n\n" * 60)]).text
        assert "Only the beginning of log was read: 50 passages." in text

    def test_more_sources_than_can_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The others are not read at all, and that is said too."""
        monkeypatch.setattr(corpus, "SOURCES_MAX", 1)
        text = write(
            "List all obligations", [Source("a", "Bob must pay."), Source("b", "Eve must pay.")]
        ).text
        assert "Only the beginning of b was read: 0 passages." in text and "Eve" not in text

    def test_instructions(self) -> None:
        """A length and further kinds are taken from them; what they forbid is not."""
        assert (
            len(write("Summarise the document", [contract], instructions="At most 3 sentences.").findings)
            == 3
        )
        assert len(write("Summarise the document", [contract], instructions="Keep it brief.").findings) == 5
        assert (
            "## Risks" in write("Summarise the document", [minutes], instructions="Also list all risks.").text
        )
        assert "## Risks" not in write("Summarise it", [minutes], instructions="Do not list risks.").text


class TestEvidence:
    """Judging a finished answer by its criteria."""

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
            ("The answer must be in English", True),
            ("written in German", False),
            ("at most 900 words", True),
            ("no more than 20 characters", False),
            ("Each finding names its source", True),
            ("cites the source of the storage platform delivery", True),
            ("Every deadline is listed with its source", True),
            ("", False),
            ("The answer is complete and correct", False),
            ("Nennt alle Fristen", True),
            ("Alle Fristen sind aufgelistet", True),
        ],
    )
    def test_on_an_answer(self, criterion: str, holds: bool) -> None:
        """Found where it is, None where it is not or cannot be judged."""
        text = write(
            "Summarise the obligations and list every deadline. What is the liability cap?", [contract]
        ).text
        found = evidence(criterion, text)
        assert (found is not None) is holds
        assert found is None or found in fold(text)

    def test_sources(self) -> None:
        """Without a source there is no evidence for one."""
        assert evidence("cites its sources", "Pay by 3 May.") is None
        assert evidence("Every deadline has its source", "- Pay by 3 May.") is None

    def test_what_was_not_found_is_no_evidence(self) -> None:
        """Neither our own sentence nor another's."""
        assert (
            evidence("names the liability cap", write("What is the liability cap?", [minutes]).text) is None
        )
        assert evidence("mentions deadlines", "The documents do not mention any deadlines.") is None
        close = "## Warranty\n\nNo passage of a.pdf answers this directly; the closest:\n\n- The warranty is ours. *(a.pdf)*"
        assert evidence("states the warranty", close) is None

    def test_a_heading_counts_half(self) -> None:
        """It names the topic, but says nothing on it."""
        text = "## Liability cap\n\n- It is 50,000 EUR.\n"
        assert evidence("names the liability cap", text) is None
        assert evidence("states the cap in EUR", text) is not None

    def test_covered_and_further_sections(self) -> None:
        """What the objective does not bring but a criterion asks for is added, once."""
        criteria = [
            "names the liability cap",
            "states the monthly fee",
            "mentions unicorns",
            "states the monthly fee!",
        ]
        written = write("List every deadline", [contract], criteria=criteria)
        assert written.covered == (True, True, False, True)
        assert "EUR 50,000" in section(written, "Liability cap") and "unicorn" not in written.text

    def test_an_empty_text(self) -> None:
        """Holds nothing."""
        assert evidence("anything", "") is None


class TestKinds:
    """What single sentences are."""

    @pytest.mark.parametrize(
        ("text", "language", "expected"),
        [
            ("The Supplier shall deliver the goods.", "en", {"obligation"}),
            ("This Agreement shall be governed by Irish law.", "en", set()),
            ("Shall we deliver?", "en", {"open"}),
            ("Tenants may not keep dogs.", "en", {"obligation"}),
            ("You will receive a copy.", "en", {"obligation"}),
            ("Either party may terminate it.", "en", {"right"}),
            ("Anna Keller will write the report.", "en", {"action", "owner"}),
            ("Access to the site is free.", "en", set()),
            ("The rent is £ 900 a month.", "en", {"amount"}),
            ("Write to jane@example.org.", "en", {"contact"}),
            ("The server might fail.", "en", {"risk"}),
            ("Der Käufer hat den Preis zu zahlen.", "de", {"obligation"}),
            ("Der Käufer darf die Ware nicht verkaufen.", "de", {"obligation"}),
            ("Frau Roth erstellt den Bericht.", "de", {"action", "owner"}),
            ("El proveedor deberá entregar los bienes.", "es", {"obligation"}),
            ("Il fornitore è tenuto a consegnare.", "it", {"obligation"}),
            ("O fornecedor deve entregar.", "pt", {"obligation"}),
            ("De huurder is verplicht te betalen.", "nl", {"obligation"}),
        ],
    )
    def test_by_words(self, text: str, language: str, expected: set[str]) -> None:
        """By the patterns of its language."""
        assert kinds(text, language) == expected

    def test_by_heading_and_form(self) -> None:
        """A heading speaks for items, and for sentences where the kind is a topic."""
        assert "action" in kinds("Paint the door", form="item", heading="Action items")
        assert "action" not in kinds("Paint is wet.", heading="Action items")
        assert "risk" in kinds("The roof is old.", heading="Risks")
        assert "deadline" in kinds("Launch: 3 May 2027", form="item", heading="Key dates")
        assert "action" in kinds("Paint the door", form="task")
        assert kinds("must", form="code") == frozenset()

    @pytest.mark.parametrize(
        ("language", "text"),
        [
            ("en", "by 31 March 2027"),
            ("en", "until March 31, 2027"),
            ("en", "before 2027-03-31"),
            ("en", "due 31/03/2027"),
            ("en", "no later than 31.03.2027"),
            ("en", "by the end of Q2 2027"),
            ("en", "by the end of June"),
            ("en", "by Friday"),
            ("en", "by 17:00"),
            ("en", "within thirty (30) days of receipt"),
            ("en", "at least 3 months' notice"),
            ("en", "no later than the handover"),
            ("en", "the notice period is one month"),
            ("en", "moved from 3 May 2026 to 4 June 2026"),
            ("de", "bis spätestens 31.03.2027"),
            ("de", "innerhalb von 14 Tagen"),
            ("de", "Die Kündigungsfrist beträgt drei Monate"),
            ("de", "bis zum 31. März 2027"),
            ("fr", "dans un délai de 30 jours"),
            ("fr", "avant le 15 mars 2027"),
            ("fr", "au plus tard le 1er juin 2027"),
            ("es", "en un plazo de 30 días"),
            ("it", "entro il 31 marzo 2027"),
            ("pt", "até 31 de março de 2027"),
            ("nl", "binnen 30 dagen na ontvangst"),
        ],
    )
    def test_deadlines(self, language: str, text: str) -> None:
        """A date or period with a word that makes it a deadline."""
        assert times(text, language).deadline

    @pytest.mark.parametrize(
        "text",
        [
            "for five years",
            "The Agreement of 3 March 2026",
            "in version 3.11.2",
            "for 30 days after delivery",
        ],
    )
    def test_no_deadlines(self, text: str) -> None:
        """A date or period alone is none."""
        assert not times(text, "en").deadline

    def test_a_date_in_an_obligation_is_a_deadline(self) -> None:
        """Although no word says so."""
        assert "deadline" in kinds("The Supplier shall present it on 3 May 2027.")
        assert "deadline" not in kinds("The Supplier presented it on 3 May 2027.")
        assert "deadline" in kinds("The Supplier shall report it immediately.")

    def test_facts(self) -> None:
        """Numbers and months tell near duplicates apart."""
        assert facts("On Friday, 3 March, 2,400 EUR", "en") == {"fri", "mar", "3", "2,400"}
        assert facts("eine Frist von drei Monaten", "de") == {"drei"}

    def test_tables_have_every_language_and_kind(self) -> None:
        """A language lacks nothing."""
        special = {"deadline", "date", "amount", "contact"}
        for code in ALGORITHMS:
            assert set(ASKS[code]) == set(KINDS) and set(PATTERNS[code]) == set(KINDS) - special | {"exempt"}
            assert code in REQUEST_WORDS and code in STOP_WORDS
            assert labels(code).keys() == labels("en").keys() and phrases(code).keys() == phrases("en").keys()


class TestSentences:
    """Cutting text into sentences."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("See No. 5 of the list. It costs 3.5 EUR.", 2),
            ("Acme Inc. The Buyer pays.", 2),
            ("Mr. Smith met J. Doe at 5 p.m. on Monday.", 1),
            ("Er endet am 31. März 2027. Gemäß § 5. Der Preis.", 3),
            ("Nach Art. 12 gilt z. B. Die Kosten im 2. Quartal.", 1),
            ('He said "Stop." Then he left. Is it? Yes! (Note.) Next... And more.', 7),
            ("4.1. The Supplier pays. 4.2 Then he goes.", 2),
            ("一。二。三！", 3),
            ("the U.S. law applies. lower case goes on.", 1),
        ],
    )
    def test_split(self, text: str, expected: int) -> None:
        """Abbreviations, dates and numbers do not end one."""
        assert len(split(text)) == expected

    def test_long_sentences_are_cut(self) -> None:
        """At a mark, or anywhere."""
        assert [len(piece) for piece in split("a" * 50, chars_max=20)] == [20, 20, 10]
        assert split("one two, three four; five", chars_max=20) == ["one two,", "three four; five"]

    @given(st.text(alphabet="ab AB.!?1 §。\n", max_size=200))
    def test_pieces_are_the_text(self, text: str) -> None:
        """Nothing is lost or added but blanks."""
        assert "".join("".join(split(text)).split()) == "".join(text.split())


class TestBlocks:
    """Reading Markdown and text from PDFs."""

    def test_headings(self) -> None:
        """Marked, underlined, bold, numbered, in capitals, alone; page numbers are none."""
        text = """Title Alone

# Marked <a name="x"></a>#
one.

Underlined
----------
two.

**Bold**
three.
CAPITAL LETTERS
four.
§ 5 Paragraph
Five.
ARTICLE 6
Six.
7. Numbered
Seven.

  8. Ended.

  Eight.

# Page 2

Nine.
"""
        found = {unit.text: unit.heading for unit in units(text, units_max=99)[0]}
        assert found == {
            "one.": "Marked",
            "two.": "Underlined",
            "three.": "Bold",
            "four.": "CAPITAL LETTERS",
            "Five.": "§ 5 Paragraph",
            "Six.": "ARTICLE 6",
            "Seven.": "7. Numbered",
            "Eight.": "8. Ended.",
            "Nine.": "8. Ended.",
        }

    def test_what_is_no_heading(self) -> None:
        """What is lost as a heading is never quoted."""
        for line in (
            "4. lower case",
            "12 March 2027",
            "4.1 He must pay 5 EUR",
            "Ends with a colon:",
            "a | b",
            "3 May 2027",
        ):
            assert units(f"{line}\n\nSome text.", units_max=9)[0][-1].heading is None

    def test_lists(self) -> None:
        """Items, boxes, nested lists and numbered lists, which are no headings."""
        text = "To do:\n- first:\n  - inner\n- [x] done\n- second\n\n1. Open it\n2. Close it\n\nEnd of it."
        found = [(unit.form, unit.text, unit.intro) for unit in units(text, units_max=99)[0]]
        assert found == [
            ("intro", "To do:", ""),
            ("intro", "first:", "To do:"),
            ("item", "inner", "To do: first:"),
            ("task", "done", "To do:"),
            ("item", "second", "To do:"),
            ("item", "Open it", "To do:"),
            ("item", "Close it", "To do:"),
            ("sentence", "End of it.", ""),
        ]

    def test_long_items_are_cut_into_sentences(self) -> None:
        """Only the first needs the introduction."""
        item = "It is so. " * 40
        found = units(f"Note:\n- {item}", units_max=99)[0]
        assert len(found) == 41 and found[1].intro == "Note:" and found[2].intro == ""

    def test_other_blocks(self) -> None:
        """Quotes, fences, rules, pages, keys, directives."""
        text = """> quoted line
> goes on.

```
code()
```
***
Page 3 of 9
- 4 -
Date: 3 May
Place: Rome
(1) First paragraph.
(2) Second paragraph.
.. directive:: x
...
"""
        found = [(unit.form, unit.text) for unit in units(text, units_max=99)[0]]
        assert found == [
            ("sentence", "quoted line > goes on."),
            ("code", "code()"),
            ("sentence", "Date: 3 May"),
            ("sentence", "Place: Rome"),
            ("sentence", "(1) First paragraph."),
            ("sentence", "(2) Second paragraph."),
            ("code", ".. directive:: x"),
        ]
        assert "quoted line goes on. *(q)*" in write("quoted", [Source("q", text)]).text
        assert "`code()` *(q)*" in write("code", [Source("q", text)]).text

    def test_the_number_of_units_is_bounded(self) -> None:
        """And the reader is told."""
        found, whole = units("one.\n\n" * 9, units_max=3)
        assert len(found) == 3 and not whole
        found, whole = units("one. Two. Three. Four.", units_max=3)
        assert len(found) == 3 and not whole


class TestRanking:
    """The index."""

    def test_without_fts5_the_words_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The answer is the same kind of answer."""

        class NoFts:
            def execute(self, *_: object) -> None:
                raise sqlite3.OperationalError("no such module: fts5")

            def close(self) -> None:
                pass

        monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: NoFts())
        assert "limited to EUR 50,000" in write("What is the liability cap?", [contract]).text

    def test_scores(self) -> None:
        """Rare words weigh more; unknown words find nothing."""
        index = Index([["a", "b"], ["a", "c"], ["a"]], [[], [], ["b"]])
        assert index.bm25([Term(frozenset("b"))]).keys() == {0, 2}
        assert index.bm25([Term(frozenset("x"))]) == {}
        shares = index.coverage([Term(frozenset("b")), Term(frozenset("x"), frozenset("c"))])
        assert shares[0] > shares[2] > 0 and 0 < shares[1] < 1
        index.close()
        index.close()

    def test_terms(self) -> None:
        """Compounds in German, one letter in all languages, synonyms, numbers as they are."""
        stemmer = Stemmer()
        index = Index([["lagerkost", "deliveri", "deliv", "17", "175"]], [[]])
        found = query_terms(["lager", "delivery", "17"], index, stemmer, spoken="de", languages=["en"])
        assert "lagerkost" in found[0].own and "deliv" in found[1].stems and found[2].own == {"17"}

    def test_hostile_queries(self) -> None:
        """Query syntax in an objective is only words."""
        for text in (
            '" OR 1=1 --',
            "NEAR(a b)",
            "a* ^b -c +d",
            'units MATCH "x"',
            "'; DROP TABLE units",
            "col:val AND NOT x",
        ):
            assert write(text, [contract]).text


def hostile() -> Iterator[str]:
    yield "[link](javascript:alert(1)) ![img](http://x.y/z) <script>alert(1)</script> shall"
    yield "# not a heading must be"
    yield "must *open emphasis and `open code and **strong"
    yield "1. must be 2) and - this | that \\< x \\"
    yield "must &lt;b&gt; ~~gone~~ __under__ _score_ snake_case"
    yield "\u202emust be reversed\u202c \x1b[31mred\x00"


class TestMarkdown:
    """What a source can do to the answer: nothing."""

    @pytest.mark.parametrize("text", list(hostile()))
    def test_no_injection(self, text: str) -> None:
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
    def test_escape(self, text: str, expected: str) -> None:
        """As little as needed."""
        assert escape(text) == expected

    @given(st.text(max_size=120))
    def test_shows_no_markup(self, text: str) -> None:
        """Any text shows as text."""
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


WORDS = st.sampled_from(
    [
        "The",
        "Supplier",
        "shall",
        "deliver",
        "by",
        "31",
        "March",
        "2027",
        ".",
        "within",
        "30",
        "days",
        "must",
        "pay",
        "€",
        "5",
        "|",
        "-",
        "#",
        "*",
        ">",
        "```",
        "\n",
        "\n\n",
        "1.",
        "(a)",
        "a:",
        "Nr.",
        "z.",
        "B.",
        "Frist",
        "muss",
        "risk",
        "Anna",
        "will",
        "send",
        "Owner",
        "|",
        "---",
        "|",
        "```",
        "[x](y)",
        "<b>",
        "§",
        "4",
        "ist",
        "zu",
        "zahlen",
    ]
)
DOCUMENTS = st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=80).map(" ".join))
OBJECTIVES = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        [
            "Summarise it and list every deadline",
            "Compare them",
            "Who does what by when?",
            "price of storage",
            "Liste alle Fristen auf",
        ]
    ),
)


class TestAnything:
    """Whatever goes in."""

    @settings(max_examples=150, deadline=None)
    @given(
        objective=OBJECTIVES,
        texts=st.lists(DOCUMENTS, max_size=3),
        room=st.integers(-1, 3000),
        language=st.sampled_from(["en", "de", "fr", ""]),
    )
    def test_an_answer_comes_out(self, objective: str, texts: list[str], room: int, language: str) -> None:
        """It never raises, keeps its room, quotes verbatim and is the same every time."""
        sources = [Source(f"s{number}.md", text) for number, text in enumerate(texts)]
        options = {"criteria": [objective], "language": language, "instructions": objective}
        written = write(objective, sources, chars_max=room, **options)  # type: ignore[arg-type]
        assert written == write(objective, sources, chars_max=room, **options)  # type: ignore[arg-type]
        assert len(written.text) <= max(0, room) and len(written.covered) == 1
        for finding in written.findings:
            source = next(source for source in sources if source.name == finding.source)
            assert finding.text in fold(source.text) or "|" in source.text

    @settings(max_examples=100, deadline=None)
    @given(criterion=OBJECTIVES, text=DOCUMENTS)
    def test_evidence_is_in_the_text(self, criterion: str, text: str) -> None:
        """Whatever it is."""
        found = evidence(criterion, text)
        assert found is None or found in fold(text) or "|" in text

    @settings(max_examples=150, deadline=None)
    @given(text=st.text(max_size=200))
    def test_parts(self, text: str) -> None:
        """Any objective has at least one part."""
        parts = parse(text)
        assert parts and all(isinstance(part, Part) and part.heading for part in parts)

    @pytest.mark.parametrize(
        "text",
        [
            "a" * 100_000,
            "a." * 50_000,
            "a. " * 30_000,
            "| " * 50_000,
            "|a|b|\n" * 15_000,
            "- " * 50_000,
            "-" * 100_000,
            "> " * 50_000,
            "(" * 100_000 + "[" * 100_000,
            "`" * 200_000,
            "hat " * 25_000,
            "shall by 31 March within 30 days of " * 3_000,
            "\n" * 100_000,
            "1. A\n" * 15_000,
            "A:\n- b\n" * 13_000,
            "*" * 100_000 + "_" * 100_000,
        ],
        ids=range(16),
    )
    def test_hostile_texts_end(self, text: str) -> None:
        """No pattern runs away; a runaway would take minutes, so the suite's own patience is the limit."""
        written = write(
            "Summarise it and list every deadline, obligation, owner and risk", [Source("x", text)]
        )
        assert len(written.text) <= 12_000


def test_the_facts_of_a_passage_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pairs of passages are compared: a contract of dated clauses took minutes."""
    looked: list[str] = []

    def counted(text: str, language: str) -> frozenset[str]:
        looked.append(text)
        return facts(text, language)

    monkeypatch.setattr(corpus, "facts", counted)
    clauses = [
        f"Clause {n}: the Carrier shall ship container {n} by {n % 28 + 1} May 2026." for n in range(120)
    ]
    written = write("List every deadline", [Source("a.txt", "\n\n".join(clauses))], language="en")
    assert written.findings and looked
    assert len(looked) == len(set(looked))
