"""The fuzz of readers: a small one finds nothing, and one of broken readers finds each of them, once, and can be repeated."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from paor import Journal

from .fuzz_readers import Campaign, main
from .fuzzed_readers import Reader, readers
from .inside import convert

pytestmark = pytest.mark.whole


def test_a_few_inputs_for_each_reader_find_nothing(tmp_path: Path) -> None:
    """The same ones every time; more with ``python -m tests.documents.fuzz_readers``."""
    assert main(["--inputs", "4", "--seed", "0", "--save", str(tmp_path)]) == 0, list(tmp_path.iterdir())


def test_every_sample_is_read_as_it_is_and_every_input_is_made_of_its_seed(tmp_path: Path) -> None:
    """A sample that is refused would make nothing but inputs that are refused at the same place."""
    known, other = readers(tmp_path), readers(tmp_path)
    for name, reader in known.items():
        assert [reader.make(f"{name}{n}") for n in range(3)] == [
            other[name].make(f"{name}{n}") for n in range(3)
        ]
    for name in known.keys() - {"kind", "import", "forged", "verify", "journal", "command"}:
        assert all(convert(f"a.{name}", sample).text for sample in known[name].samples)
    for sample in known["import"].samples:
        with Journal(":memory:") as journal:
            assert journal.import_lines(sample.splitlines(keepends=True))


def test_a_reader_that_is_broken_is_found_once_and_its_finding_can_be_repeated(tmp_path: Path) -> None:
    """With its first seed, and with the bytes that were read."""

    def fall(data: bytes, chance: random.Random) -> None:
        raise KeyboardInterrupt

    known = {"fall": Reader((b"abc",), (lambda data, chance: data,), fall)}
    campaign = Campaign(known)
    campaign.run(["fall"], 0, inputs=3)
    (finding,) = campaign.findings.values()
    assert (finding.times, finding.seed) == (3, "0:fall:0") and "KeyboardInterrupt in " in finding.kind
    campaign.save(tmp_path)
    (saved,) = tmp_path.glob("*.finding")
    assert saved.read_bytes().endswith(b"\nabc")
