"""The main job, end to end: a question and real files in, a report out whose statements stand in those files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from paor import Engine
from paor.documents import read
from paor.testing import SeededIds, SteppingClock

from ..documents.real_documents import fetch
from ..support.cli_support import Shell

EXAMPLES = Path(__file__).parents[2] / "examples" / "documents"
OBJECTIVE = "Summarise the obligations and list every deadline"


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys, monkeypatch)


def words(text: str) -> str:
    """Return *text* as plain words: Markdown marks, escapes and spacing aside."""
    return " ".join(re.sub(r"[*_`#|>\\]", " ", text).split())


def statements(report: str) -> list[str]:
    """Return the quoted statements of a report, without their source and Markdown's escapes."""
    found = []
    for line in report.splitlines():
        item = re.match(r"- (.*?) \*\(.*\)\*$", line)
        if item is not None:
            found.append(re.sub(r"\\([^\w\s])", r"\1", item.group(1)))
    return found


def check_report(report: str, files: list[Path], *, least: int) -> None:
    """
    Assert that every statement of *report* is found in *files*, sentence by sentence.

    A list item may stand after the sentence that introduces its list, which need not be next to it in the file; table
    rows are rephrased as "Header: value; ..." and left out here, those of two cells as "cell: cell", which is "cell | cell" in the file.
    """
    source = words("\n".join(read(file).text for file in files))
    quoted = [text for text in statements(report) if "; " not in text]
    assert len(quoted) >= least
    told = [text for text in quoted if words(text.replace(": ", " | ", 1)) not in source]
    sentences = [piece for text in told for piece in re.split(r"(?<=[.:!?])\s+", words(text))]
    missing = [sentence for sentence in sentences if sentence not in source]
    assert missing == []


def look_at(shell: Shell) -> None:
    """Assert that the journal's tools work on what the run left."""
    for arguments in (("show", "last"), ("show", "last", "--steps"), ("replay",), ("verify",)):
        looked = shell(*arguments)
        assert looked.code == 0 and looked.out.strip(), looked.err
    for form, mark in (("mermaid", "stateDiagram-v2"), ("dot", "digraph"), ("svg", "<svg")):
        drawn = shell("diagram", "last", "--format", form)
        assert drawn.code == 0 and mark in drawn.out


def run_job(shell: Shell, objective: str, files: list[Path]) -> str:
    """Run the main job on *files* and return its report."""
    documents = [argument for file in files for argument in ("--document", str(file))]
    done = shell("run", objective, *documents, "--output", "report.md", "--json")
    assert done.code == 0, done.err
    assert done.json["state"] == "Done" and done.json["answer"].strip()
    return (shell.folder / "report.md").read_text(encoding="utf-8")


def test_the_main_job_on_the_examples(shell: Shell) -> None:
    """The README's command: obligations and deadlines of a PDF and an HTML page."""
    files = [EXAMPLES / "contract.pdf", EXAMPLES / "notes.html"]
    report = run_job(shell, OBJECTIVE, files)
    check_report(report, files, least=20)
    for deadline in ("within 30 days of receiving it", "90 days before the end", "31 October 2026"):
        assert deadline in report
    look_at(shell)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("names", "objective", "least"),
    [
        (["law.pdf"], OBJECTIVE, 10),
        (["manual.pdf"], "How do I create a bitstring, and how do I find a pattern in it?", 3),
        (["manual.html", "list.docx"], "Summarise the documents", 3),
    ],
    ids=["18 pages of law", "133 pages of manual", "HTML and DOCX"],
)
def test_the_main_job_on_documents_of_others(
    shell: Shell, names: list[str], objective: str, least: int
) -> None:
    """Manuals that nobody wrote for this project end in a report that quotes them."""
    files = [fetch(name) for name in names]
    report = run_job(shell, objective, files)
    check_report(report, files, least=least)
    look_at(shell)


def test_the_same_run_twice_exports_the_same_bytes(tmp_path: Path) -> None:
    """With the same ports the journal's rows are byte-identical."""
    exports = []
    for name in ("one.db", "two.db"):
        with Engine(journal=str(tmp_path / name), clock=SteppingClock(), ids=SeededIds()) as engine:
            result = engine.run(OBJECTIVE, documents=[EXAMPLES / "notes.html"], final_format="md")
            exports.append([json.dumps(line) for line in engine.journal.export(result.run_id)])
    assert len(exports[0]) > 30
    assert exports[0] == exports[1]
