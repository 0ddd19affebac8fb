"""The fixture that kills a run after a row: a real process dies, this one continues, and a wrong class of effect is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Policy, ScriptedModel, Tool, tool
from paor.testing import Walk, call, play, refine, review

SENT = Path("sent.txt")
SCRIPT = [*call("mail.send", to="ann"), refine("stop"), review("success", answer="Sent.")]
YES = {"answer": {"approve": True}}

Kill = Callable[..., Walk]


def send(to: str) -> str:
    """Send a mail: a line in a file of the test's folder."""
    with SENT.open("a") as file:
        file.write(f"{to}\n")
    return f"sent to {to}"


def agent(journal: Journal, effect: Any = "once") -> Engine:
    """Return an agent that sends a mail once a person approves."""
    mail: Tool = tool("mail.send", effect=effect)(send)
    return Engine(
        ScriptedModel(SCRIPT), [mail], journal, builtins=False, policy=Policy(approvals=("mail.*",))
    )


def mislabelled(journal: Journal) -> Engine:
    """Return one whose mail is taken for reading."""
    return agent(journal, "read")


def elsewhere(journal: Journal) -> Engine:
    """Return one that leaves the journal alone that it was given."""
    journal.close()
    return agent(Journal(":memory:", "off"))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def whole() -> Walk:
    """Return what the run comes to that nobody kills."""
    with agent(Journal(":memory:", "off")) as engine:
        found = play(engine, {"objective": "Send it"}, [YES])
    SENT.unlink()
    return found


SEND = 4
"""The row that records the call: after select, wait, provide and specify."""


@pytest.mark.parametrize(("row", "before"), [(0, True), (SEND, False)])
def test_a_killed_run_ends_like_the_one_that_was_not(
    paor_kill: Kill, whole: Walk, row: int, before: bool
) -> None:
    """Before its first row, and right after the call: one mail, the same transitions."""
    seen = paor_kill(agent, "Send it", row, before=before, answers=[YES])
    assert (seen.triggers, seen.answer, seen.state) == (whole.triggers, "Sent.", "Done")
    assert SENT.read_text() == "ann\n"


def test_a_once_call_whose_row_is_lost_is_in_doubt(paor_kill: Kill) -> None:
    """It has happened, and the answer says so."""
    seen = paor_kill(
        agent, "Send it", SEND, before=True, answers=[YES], doubt={"outcome": "done", "result": "sent"}
    )
    assert seen.triggers[SEND : SEND + 2] == ("wait", "provide") and seen.state == "Done"
    assert SENT.read_text() == "ann\n"


def test_a_once_tool_that_is_labelled_read_is_found(paor_kill: Kill) -> None:
    """By what it has done in the world: it runs again."""
    assert paor_kill(mislabelled, "Send it", SEND, before=True, answers=[YES]).state == "Done"
    assert SENT.read_text() == "ann\nann\n"


@pytest.mark.whole
def test_every_row_of_a_run_can_be_killed(paor_kill: Kill, whole: Walk, tmp_path: Path) -> None:
    """Each in a journal of its own."""
    for row in range(len(whole.triggers)):
        seen = paor_kill(agent, "Send it", row, answers=[YES])
        told = [trigger for trigger in seen.triggers if trigger not in ("wait", "provide")]
        assert told == [trigger for trigger in whole.triggers if trigger not in ("wait", "provide")], row
        assert SENT.read_text() == "ann\n", row
        for path in (SENT, *tmp_path.glob("paor.db*")):
            path.unlink()


def test_a_row_that_a_run_does_not_reach_fails_the_test(paor_kill: Kill) -> None:
    """Else it would prove nothing; so does a process that ends otherwise."""
    with pytest.raises(AssertionError, match="has ended before row 99"):
        paor_kill(agent, "Send it", 99, answers=[YES])
    with pytest.raises(AssertionError, match="has ended with exit code 1"):
        paor_kill(elsewhere, {"objective": "Send it"}, 0)
