"""The chat of the comparison as a real process, killed and left: no word is lost, and no payment is made twice."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from ..support.pages import ROOT

_spec = importlib.util.spec_from_file_location("paor_chats", ROOT / "benchmarks" / "peers" / "chats.py")
assert _spec is not None and _spec.loader is not None
chats: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = chats
_spec.loader.exec_module(chats)
pytestmark = pytest.mark.whole


@pytest.mark.parametrize("name", chats.SCENARIOS)
def test_the_chat_loses_nothing(name: str) -> None:
    """Closed, opened twice, approved by another person, cancelled and killed: one question, about the payment, and no loss."""
    with chats.running(chats.CHATS["paor"][0]) as service:
        asked = ["asks a person whether it was paid"] if name == "killed in a payment" else []
        assert list(chats.SCENARIOS[name](service)) == asked


def test_the_page_asks_what_became_of_a_payment(chromium: Any) -> None:
    """The server dies while it pays: the page, open all the time, offers the outcomes, and one click ends the round."""
    with chats.running(chats.CHATS["paor"][0]) as service:
        service.model.go.set()
        (service.folder / "slow").touch()
        page = chromium.new_page()
        try:
            page.set_default_timeout(30_000)
            page.goto(f"http://127.0.0.1:{service.port}/?chat=one&user=bob")
            service.say("A refund, please")
            page.get_by_role("button", name="Approve").click()
            service.wait_for_payment()
            service.kill()
            (service.folder / "slow").unlink()
            service.start()
            page.get_by_role("button", name="Retry").wait_for()
            page.get_by_role("button", name="Done").click()
            page.locator("section.done").wait_for()
        finally:
            page.close()
        assert service.paid() == 1
