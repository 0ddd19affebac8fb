"""The example host: 120 tasks of 24 shapes through one engine end as they must, replay identical, and verify."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import paor
from paor import Journal, replay
from paor.audit import Transition

from ..support.pages import ROOT, environment

EXAMPLES = ROOT / "examples"
VERIFIER = ROOT / "docs" / "verify_journal.py"

EXPECTED = {
    "find": ("Done", "criteria_met", "select specify execute observe conclude finish"),
    "three steps": (
        "Done",
        "model_stop",
        "select specify execute observe proceed " * 2 + "select specify execute observe conclude finish",
    ),
    "answer only": ("Done", "model_stop", "answer finish"),
    "create": ("Done", "model_stop", "select specify execute observe conclude finish"),
    "reserve": ("Done", "model_stop", "select specify execute observe conclude finish"),
    "quote": ("Done", "model_stop", "select specify execute observe conclude finish"),
    "corrected": ("Done", "model_stop", "select respecify specify execute observe conclude finish"),
    "refused, then right": (
        "Done",
        "model_stop",
        "select respecify refuse observe proceed select specify execute observe conclude finish",
    ),
    "denied, then other": (
        "Done",
        "model_stop",
        "reselect select specify execute observe conclude finish",
    ),
    "refund approved": (
        "Done",
        "model_stop",
        "select wait provide specify execute observe conclude finish",
    ),
    "refund declined": ("Done", "model_stop", "select wait provide refuse observe conclude finish"),
    "tool fails": (
        "Done",
        "model_stop",
        "select specify execute observe proceed select specify execute observe conclude finish",
    ),
    "carrier busy": ("Done", "model_stop", "select specify retry_step execute observe conclude finish"),
    "polling": (
        "Done",
        "model_stop",
        "select specify execute observe proceed " * 2 + "select specify execute observe conclude finish",
    ),
    "unsafe link": ("Done", "model_stop", "select respecify refuse observe conclude finish"),
    "mail": ("Done", "model_stop", "select specify execute observe conclude finish"),
    "list and report": (
        "Done",
        "model_stop",
        "select specify execute observe conclude format specify execute observe finish",
    ),
    "second attempt": (
        "Done",
        "model_stop",
        "select specify execute observe conclude retry select specify execute observe conclude finish",
    ),
    "last step is enough": ("Done", "max_steps", "select specify execute observe conclude finish"),
    "max steps": (
        "Failed",
        "max_steps",
        "select specify execute observe proceed select specify execute observe conclude fail",
    ),
    "denied": ("Failed", "selection_invalid", "reselect fail"),
    "refund cancelled": ("Failed", "cancelled", "select wait fail"),
    "stuck": (
        "Failed",
        "stuck",
        "select specify execute observe proceed " * 2 + "select refuse observe fail",
    ),
    "model down": ("Failed", "model_error", "fail"),
}
"""Per shape of a task: state, reason, and the triggers of its walk."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Run all tickets once: the desk, its engine, and every ticket with its result."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        app: Any = importlib.import_module("host_app")
        desks: Any = importlib.import_module("host_desk")
    finally:
        sys.path.remove(str(EXAMPLES))
    path = tmp_path_factory.mktemp("host") / "desk.db"
    given, desk = app.tickets(), desks.Desk()
    with closing(app.make_engine(Journal(path, "normal"), desk, given)) as engine:
        done = app.drive(engine, given)
        yield SimpleNamespace(path=path, desk=desk, engine=engine, done=done, journal=engine.journal)


def _results(host: SimpleNamespace, shape: str) -> list[Any]:
    return [result for ticket, result in host.done if ticket.shape == shape]


def _walk(host: SimpleNamespace, run_id: str) -> list[Transition]:
    return list(host.journal.transitions(run_id))


@pytest.mark.parametrize("shape", EXPECTED)
def test_a_shape_ends_as_it_must_and_walks_as_it_must(host: SimpleNamespace, shape: str) -> None:
    """Final state, reason, a message, and every transition in between."""
    state, reason, walk = EXPECTED[shape]
    results = _results(host, shape)
    assert len(results) == 5
    for result in results:
        assert (result.state, result.reason) == (state, reason)
        assert result.answer.strip()
        assert result.waiting_for is None
        assert [row.trigger for row in _walk(host, result.run_id)] == walk.split()


def test_nothing_happened_that_was_denied_declined_or_cancelled(host: SimpleNamespace) -> None:
    """The world agrees with the journal: five refunds in full, five mails, nothing deleted."""
    approved = [
        ticket.replies[1]["parameters"]["order_id"] for ticket, _ in host.done if ticket.decision == "approve"
    ]
    assert sorted(entry["order"] for entry in host.desk.refunds.values()) == sorted(approved)
    assert len(host.desk.sent) == 5 and all("has left" in mail for mail in host.desk.sent)
    assert host.desk.purged == []
    assert sum(order["status"] == "cancelled" for order in host.desk.orders.values()) == 10
    assert len(host.desk.orders) == 200 + 5


def test_results_of_tools_reach_the_documents(host: SimpleNamespace) -> None:
    """Nested arguments arrive whole, defaults are filled, a list is read, a report is made."""
    quote = json.loads(_results(host, "quote")[0].documents[0].read())
    assert quote == {"service": "express", "price": 31.94}
    created = json.loads(_results(host, "create")[0].documents[0].read())
    assert created["total"] == 4 * 80 + 240 and created["priority"] == "normal" and created["city"] == "Leeds"
    listed = _results(host, "list and report")[0].documents
    assert [item.name for item in listed] == ["result.json", "report.md"]
    assert listed[-1].read().startswith("# T-017")
    assert json.loads(_results(host, "second attempt")[0].documents[-1].read())["refunds"] == []


def test_every_reply_was_used(host: SimpleNamespace) -> None:
    """No run asked less or more than its script has."""
    for script in host.engine.model.scripts.values():
        script.assert_all_used()


def test_every_run_replays_identical(host: SimpleNamespace) -> None:
    """With the spec's own templates and policy, and with the engine's."""
    for row in host.journal.runs():
        for engine in (None, host.engine):
            found = replay(host.journal, row.run_id, engine)
            assert found.identical, (row.run_id, found.divergences[:3])
            assert found.transitions == row.head_seq + 1


def test_the_chain_verifies(host: SimpleNamespace) -> None:
    """Here, and read-only as an auditor would."""
    assert host.journal.verify() == []
    with Journal(host.path, read_only=True) as journal:
        assert journal.verify() == []
        assert len(journal.runs()) == 120


@pytest.mark.skipif(not VERIFIER.exists(), reason="docs/verify_journal.py is not there")
def test_the_independent_script_agrees(host: SimpleNamespace) -> None:
    """It shares no code with paor."""
    done = subprocess.run(
        [sys.executable, "-I", VERIFIER, host.path], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_uses_public_names_only() -> None:
    """An example that reaches inside would teach that."""
    public = "|".join(paor._FURTHER)
    for path in sorted(EXAMPLES.glob("host_*.py")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(rf"(?m)^\s*(from|import) paor\.(?!({public}) )", text), path.name
        assert not re.search(r"\b(?!self\b)[a-z]\w*\._[a-z]", text), path.name


@pytest.mark.whole
def test_as_a_program_it_says_that_all_is_well(tmp_path: Path) -> None:
    """The journal stays where it was asked for, and the command line reads it with the host's engine."""
    done = _run("host_app.py", str(tmp_path / "desk.db"))
    assert done.returncode == 0, done.stderr
    for line in (
        "ended as they should: 120 of 120",
        "verify: 0 defects",
        "replay: 120 of 120 runs identical",
    ):
        assert line in done.stdout
    app = ("--app", "host_app:make_engine", "--journal", str(tmp_path / "desk.db"))
    replayed = _run("-m", "paor", "replay", *app)
    assert replayed.returncode == 0 and replayed.stdout.count("identical") == 120
    tools = json.loads(_run("-m", "paor", "tools", *app[:2], "--json").stdout)
    assert len(tools) == 16


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=EXAMPLES,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
