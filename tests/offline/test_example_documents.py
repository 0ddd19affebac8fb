"""The example documents: the script still makes them."""

import subprocess
import sys
from pathlib import Path

import pytest

from paor.documents import read

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "documents"

pytestmark = pytest.mark.whole


def test_example_documents_can_be_made_again(tmp_path: Path) -> None:
    """The committed files are what the script writes, so texts and files cannot drift apart."""
    script = ROOT / "examples" / "make_documents.py"
    for folder in ("one", "two"):
        subprocess.run([sys.executable, str(script), str(tmp_path / folder)], check=True, capture_output=True)
    for path in sorted(EXAMPLES.iterdir()):
        once, again = ((tmp_path / folder / path.name).read_bytes() for folder in ("one", "two"))
        assert once == again
        assert read(path.name, once).text == read(path).text
