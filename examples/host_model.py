"""A stand-in for the language model of the example service, so that it needs no key: a clerk with one way to work."""

from __future__ import annotations

import json
import re

from paor import ModelCall, Reply


class ClerkModel:
    """
    Look the order up, refund it, and say what was done.

    Like every model it keeps nothing between two calls: all that it knows of a run it reads in the prompt. So a run can
    go on in another process.
    """

    name = "clerk"

    def ask(self, call: ModelCall) -> Reply:
        """Answer with what a clerk says at this point of a run."""
        prompt = "\n".join(message.text for message in call.messages)
        asked = re.search(r"Refund (\d+) for order ([\w-]+)", prompt)
        if asked is None:
            raise ValueError("the prompt names no refund")
        amount, order_id = int(asked[1]), asked[2]
        paid = amount if "Result of orders.refund" in prompt else 0
        note = f"{paid} paid back" if paid else "not paid back"
        replies = [
            {"action": "orders.find", "actionObjective": "look the order up"},
            {"schema": "parameters_v1", "parameters": {"order_id": order_id}},
            {"decision": "continue", "reason": "the order is there", "hint": "refund it"},
            {"action": "orders.refund", "actionObjective": "refund it"},
            {"schema": "parameters_v1", "parameters": {"order_id": order_id, "amount": amount}},
            {"decision": "stop", "reason": note, "answer": note},
            {"status": "success", "output": {"order_id": order_id, "refunded": paid, "note": note}},
        ]
        return Reply(json.dumps(replies[call.number]))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same; a real model would await its server here."""
        return self.ask(call)
