"""The example's chat with a model that speaks when the test lets it: each piece of an answer waits for a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from chat_service import app, engine  # type: ignore[import-not-found]  # beside this folder, on the path of its process

from paor import ModelCall, Reply
from paor.testing import call_tools, step

__all__ = ["app"]

FUSE_S = 60.0


class Clerk:
    """Finds two orders at once, or pays money back; then says it word by word, the last words once ``go`` exists."""

    name, streams, stops, calls_tools = "clerk", True, True, True

    def ask(self, call: ModelCall) -> Reply:
        """Answer outside an event loop."""
        return asyncio.run(self.aask(call))

    async def aask(self, call: ModelCall) -> Reply:
        """Call tools first, then answer."""
        asked = [message.body for message in call.messages if message.role == "user"][-1]
        if call.messages[-1].role == "user":
            orders = [step("orders.find", order_id=order) for order in ("O-1", "O-2")]
            pay = [step("orders.refund", order_id="O-1", amount=250)]
            return Reply(json.dumps(call_tools(*(pay if "refund" in asked else orders))))
        first, rest = "Both are ", "in Leeds."
        self._say(call, first)
        for _ in range(int(FUSE_S / 0.01)):
            if Path("go").exists():
                break
            await asyncio.sleep(0.01)
        self._say(call, rest)
        return Reply(first + rest)

    @staticmethod
    def _say(call: ModelCall, text: str) -> None:
        if call.on_text is not None:
            call.on_text(text)


model: Any = Clerk()
engine.model = model
