"""The example documents: key sentences are found, pages are known, and the script still makes them."""

import subprocess
import sys
from pathlib import Path

import pytest

from .inside import convert

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "documents"


@pytest.mark.parametrize(
    ("name", "title", "sentences"),
    [
        (
            "contract.pdf",
            "Services Agreement: Berth Planning System for the Port of Sandmere",
            (
                (
                    "2.1 The Supplier shall present a project plan with milestones and named staff within 10 "
                    "working days of the Effective Date."
                ),
                "D4 | Migration of the planning data of 2023 to 2026 | 28 August 2026 | 44,000",
                "The Client shall pay each undisputed invoice within 30 days of receiving it.",
                "by giving 60 days' written notice.",
                "limited to EUR 480,000 in total, which is one and a half times the fees of clause 6.1.",
            ),
        ),
        (
            "minutes.docx",
            "Minutes of the Steering Meeting No. 4",
            (
                "| 3 | Draft change note CN-02 with a new date for D4 | Omar Rees | 29 May 2026 |",
                "Objections to these minutes must reach Piet Hallam within 7 days.",
            ),
        ),
        ("prices.csv", None, ('| D-602 | Wall chart "Berths at a glance" | piece | 24.50 |',)),
        (
            "notes.html",
            "Berth Planning System: working notes",
            (
                "moved deliverable D4 from 28 August 2026 to 18 September 2026, because",
                "| Acceptance tests | Jonas Adeyemi (from 1 July 2026) | B 206 |",
            ),
        ),
    ],
)
def test_key_sentences_of_the_examples_are_found(
    name: str, title: str | None, sentences: tuple[str, ...]
) -> None:
    """What the examples are about can be quoted word for word."""
    converted = convert(name, (EXAMPLES / name).read_bytes())
    assert converted.title == title
    for sentence in sentences:
        assert sentence in converted.text
    for noise in ("Confidential\n", "Page 2", "Canteen", "tracker", "cookie"):
        assert noise not in converted.text


@pytest.mark.whole
def test_example_documents_can_be_made_again(tmp_path: Path) -> None:
    """The committed files are what the script writes, so texts and files cannot drift apart."""
    script = ROOT / "examples" / "make_documents.py"
    for folder in ("one", "two"):
        subprocess.run([sys.executable, str(script), str(tmp_path / folder)], check=True, capture_output=True)
    for path in sorted(EXAMPLES.iterdir()):
        once, again = ((tmp_path / folder / path.name).read_bytes() for folder in ("one", "two"))
        assert once == again
        assert convert(path.name, once).text == convert(path.name, path.read_bytes()).text
