"""The tools of ``verifying.py``: one writes the patched file, one runs its tests in a process that can be killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from paor import ToolContext, tool
from paor.errors import ToolError

TESTS = """
import unittest
from price import price


class Prices(unittest.TestCase):
    def test_one_piece(self):
        self.assertEqual(price(1), 10)

    def test_ten_pieces_are_cheaper(self):
        self.assertEqual(price(10), 90)

    def test_nothing_costs_nothing(self):
        self.assertEqual(price(0), 0)
"""


@tool("patch.write", effect="idempotent")
def write(text: str, context: ToolContext[Path]) -> str:
    """Write the module price.py."""
    (context.deps / "price.py").write_text(text, encoding="utf-8")
    return f"price.py has {len(text)} characters"


@tool("tests.run", effect="read", timeout_s=30, process=True)
def run_tests(folder: str) -> str:
    """Run the tests of price.py."""
    if not Path(folder, "price.py").is_absolute():
        raise ToolError("start the run with values={'folder': PATH}: the folder of price.py")
    Path(folder, "test_price.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-B", "-m", "unittest", "test_price"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines()
    if done.returncode:
        told = [line for line in lines if line.startswith(("FAIL:", "ERROR:")) or "Error: " in line]
        raise ToolError("; ".join(told) or "the tests do not run")
    return lines[-3] if len(lines) > 2 else "ok"
