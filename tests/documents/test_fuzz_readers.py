"""The fuzz of readers: a small one finds nothing, and one of broken readers finds each of them, once, and can be repeated."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from paor import Journal
from paor.tools.documents.convert.registry import convert

from .fuzz_readers import Campaign, main
from .fuzzed_readers import readers

BROKEN = """
import sys
from pathlib import Path

from paor.tools.documents.convert import registry
from tests import fuzz_readers

def hang(data, charset):
    while True:
        pass

def fall(data, charset):
    raise KeyboardInterrupt


registry._READERS |= {"application/rtf": hang, "text/csv": fall}
fuzz_readers.serve(Path(sys.argv[1]), float(sys.argv[2]))
"""


def test_a_few_inputs_for_each_reader_find_nothing(tmp_path: Path) -> None:
    """The same ones every time; more with ``python -m tests.documents.fuzz_readers``."""
    assert main(["--inputs", "4", "--seed", "0", "--save", str(tmp_path)]) == 0, list(tmp_path.iterdir())


def test_every_sample_is_read_as_it_is(tmp_path: Path) -> None:
    """One that is refused would make nothing but inputs that are refused at the same place."""
    known = readers(tmp_path)
    for name in known.keys() - {"import", "forged", "verify", "journal", "command"}:
        assert all(convert(f"a.{name}", sample).text for sample in known[name].samples)
    assert len(known["import"].samples) > 9
    for sample in known["import"].samples:
        with Journal(":memory:") as journal:
            assert journal.import_lines(sample.splitlines(keepends=True))


def test_inputs_are_made_of_their_seed(tmp_path: Path) -> None:
    """Of every reader."""
    known, other = readers(tmp_path), readers(tmp_path)
    for name, reader in known.items():
        assert [reader.make(f"{name}{n}") for n in range(3)] == [
            other[name].make(f"{name}{n}") for n in range(3)
        ]


def test_readers_that_were_broken_are_found_once_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that never ends and one that raises; what is saved repeats them, and the readers as they are pass."""
    (tmp_path / "broken.py").write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\n{BROKEN}"
    )
    campaign = Campaign(tmp_path, (sys.executable, str(tmp_path / "broken.py")), clock_s=0.3)
    campaign.run(["rtf", "csv", "md"], 0, inputs=1)
    kinds = {finding.reader: finding.kind for finding in campaign.findings.values()}
    assert kinds.keys() == {"rtf", "csv"} and campaign.tallies["md"].inputs == 1
    assert kinds["rtf"].startswith("over time in ") and kinds["csv"].startswith("KeyboardInterrupt in ")
    assert campaign.one("csv", "0:csv:0") in kinds.values() and len(campaign.findings) == 2
    campaign.end()
    campaign.save(tmp_path / "found")
    saved = sorted((tmp_path / "found").glob("*.finding"))
    assert len(saved) == 2
    assert [main(["--replay", str(file)]) for file in saved] == [0, 0]
