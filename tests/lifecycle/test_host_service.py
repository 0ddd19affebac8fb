"""The example service, as two real processes that are killed: nothing is lost or paid twice, and it is short and typed."""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..support.pages import ROOT, environment

EXAMPLES = ROOT / "examples"
HARNESS = ROOT / "benchmarks" / "peers" / "hosts.py"
FILES = ("host_service.py", "host_bank.py", "host_model.py")
SOURCES = tuple(f"examples/{name}" for name in FILES)
LINES_MAX = 100


def _harness() -> Any:
    spec = importlib.util.spec_from_file_location("paor_hosts", HARNESS)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hosts = _harness()
SCENARIOS = {scenario.name: scenario for scenario in hosts.scenarios()}


def play(name: str) -> Any:
    """Play a scenario with ten runs at once; return what it came to."""
    return hosts.played("paor", SCENARIOS[name])


def faults(seen: Any) -> dict[str, Any]:
    """Return what should not have been."""
    told = dataclasses.asdict(seen)
    return {name: value for name, value in told.items() if value and name not in ("in_doubt", "kills")}


@pytest.mark.whole
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_kill_loses_nothing_and_pays_nothing_twice(name: str) -> None:
    """
    The approval comes from the other process; a bank that does not tell is one more question, and never a guess.

    Killed before, in and after a payment, in either process; answered twice at once; restarted beside a payment.
    """
    seen = play(name)
    assert faults(seen) == {}
    assert not seen.in_doubt or name.startswith("silent")
    if name == "both killed while runs wait":
        assert seen.kills
    if name == "silent bank: approved, killed in the payment":
        assert seen.kills and seen.in_doubt


@pytest.fixture(name="service")
def make_service(tmp_path: Path) -> Iterator[Any]:
    """Return one process of the service that nothing goes wrong in."""
    service = hosts.Service("paor", tmp_path, hosts.Fault())
    yield service
    service.kill()


def test_what_it_says_over_http(service: Any) -> None:
    """The exact call is shown to the person, the decision is typed, who decided is kept; what cannot be is refused."""
    small, large = {"order_id": "O-1", "amount": 50}, {"order_id": "O-2", "amount": 250}
    status, paid = service.call("/refunds", small, "message-1")
    assert (status, paid["status"], paid["decided_by"]) == (200, "done", [])
    assert paid["decision"] == {"order_id": "O-1", "refunded": 50, "note": "50 paid back"}
    assert service.call("/refunds", small, "message-1") == (200, paid)
    assert service.call("/refunds", large, "message-1")[0] == 409
    assert service.call("/refunds", {"order_id": "O-1", "amount": 0}, "message-0")[0] == 422

    run_id = service.call("/refunds", large, "message-2")[1]["id"]
    (question,) = service.call("/questions")[1]
    assert (question["run_id"], question["tool"], question["arguments"]) == (run_id, "orders.refund", large)
    answer = {"question": question["id"], "actor": "ann", "answer": {"approve": False}}
    status, denied = service.call(f"/questions/{run_id}", answer)
    assert (denied["decision"]["refunded"], denied["decided_by"]) == (0, ["ann"])
    assert service.call(f"/questions/{run_id}", answer)[0] == 409
    assert service.call("/refunds/0000-none")[0] == 404
    rows = service.call("/refunds")[1]
    assert [(row["order_id"], row["status"]) for row in rows] == [("O-2", "done"), ("O-1", "done")]
    assert (service.folder / "ledger.txt").read_text().split()[1:] == ["O-1", "50"]


@pytest.fixture(name="copied")
def make_copy(tmp_path: Path) -> Path:
    """Return a folder with the example alone, as a stranger has it."""
    for name in FILES:
        shutil.copy(EXAMPLES / name, tmp_path)
    return tmp_path


def checked(folder: Path, *command: str) -> str:
    """Return what a checker says of the example."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.whole
def test_mypy_has_nothing_to_say(copied: Path) -> None:
    """Strict, without a cast and without an ignored line."""
    assert checked(copied, "mypy", "--strict", "--no-error-summary", "host_service.py") == ""
    wrong = (copied / "host_service.py").read_text().replace("result.output,", "result.output.paid,")
    (copied / "host_service.py").write_text(wrong)
    assert '"Decision | None" has no attribute "paid"' in checked(
        copied, "mypy", "--strict", "host_service.py"
    )


@pytest.mark.whole
def test_pyright_has_nothing_to_say(copied: Path) -> None:
    """Strict, too; pyright fetches itself when it is first run."""
    (copied / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    said = checked(copied, "pyright", "--pythonpath", sys.executable, *FILES)
    if " errors, " not in said and " error, " not in said:
        pytest.skip(f"pyright does not run here: {said[-200:]}")
    assert "0 errors, 0 warnings" in said, said


def test_it_is_short() -> None:
    """With imports, blank lines and docstring."""
    assert len((EXAMPLES / "host_service.py").read_text(encoding="utf-8").splitlines()) < LINES_MAX
