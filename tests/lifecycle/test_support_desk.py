"""The support desk of the comparison, with a scripted model: a question, a refusal, a typed answer, one conversation."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the desk is a service")

from paor import ScriptedModel
from paor.errors import PaorError
from paor.testing import call_tools, review, step

from ..support.pages import ROOT

REFUND = call_tools(step("orders.refund", order_id="O-1", amount=40))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the support desk, its journal in a separate folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("paor.otel.OpenTelemetry", lambda endpoint: lambda event: None)
    spec = importlib.util.spec_from_file_location("paor_desk", ROOT / "benchmarks" / "peers" / "desk_paor.py")
    assert spec is not None and spec.loader is not None
    loaded = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_desk_asks_before_it_pays_and_the_round_after_it_knows(desk: Any, tmp_path: Path) -> None:
    """The question comes with its arguments; a second answer is refused; typed data and words are rounds of one conversation."""
    typed = {"order_id": "O-1", "refunded": 40, "note": "as asked"}
    script = ScriptedModel([REFUND, "Refunded.", "It is done.", review("success", output=typed)])
    desk.engine = desk.build(script, str(tmp_path / "asks.db"))

    async def play() -> None:
        async with desk.engine:
            rows = (await desk.chat("c-1", desk.Said(text="refund O-1"), "ann")).body_iterator
            said = ""
            while "event: waiting" not in said:
                said += await anext(rows)
            (question,) = await desk.inbox()
            assert question.arguments == {"order_id": "O-1", "amount": 40}
            given = desk.Given(question=question.id, approve=True)
            await desk.answer(question.run_id, given, "bob")
            assert "Refunded." in "".join([piece async for piece in rows])
            with pytest.raises(PaorError) as twice:
                await desk.answer(question.run_id, given, "eve")
            assert (await desk.refuse(None, twice.value)).status_code == 409
            assert (await desk.decide("c-1", desk.Said(text="What was refunded?")))["output"].refunded == 40
            conversation = desk.engine.journal.conversation("c-1")
            assert [message.text for message in conversation.messages if message.role == "user"] == [
                "refund O-1",
                "What was refunded?",
            ]

    asyncio.run(play())


def test_a_small_refund_does_not_ask(desk: Any, paor_run: Any) -> None:
    """The tool and the policy of the desk, without the desk."""
    pays = call_tools(step("orders.refund", order_id="O-1", amount=4))
    seen = paor_run("refund", [pays, "ok"], [desk.refund], deps=desk.Bank(), policy=desk.engine.policy)
    assert seen.answer == "ok"
