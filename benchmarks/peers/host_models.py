"""Stand-ins for a language model, one for each library: look the order up, refund it, say what was done. No host counts them."""

import json
import re


def told(texts):
    """Return order, amount and what was paid, as the texts of a conversation have them."""
    said = "\n".join(texts)
    amount, order_id = re.search(r"Refund (\d+) for order ([\w-]+)", said).groups()
    paid = int(amount) if re.search(rf"{order_id} {amount}(?!\d)", said) else 0  # the receipt ends with both
    return order_id, int(amount), {"order_id": order_id, "refunded": paid, "note": f"{paid} paid back"}


def langgraph_model():
    """Return a chat model of LangChain."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class ClerkModel(BaseChatModel):
        @property
        def _llm_type(self):
            return "clerk"

        def bind_tools(self, tools, **options):
            return self

        def _generate(self, messages, stop=None, run_manager=None, **options):
            order_id, amount, decision = told([str(message.content) for message in messages])
            calls = [
                {"name": "find_order", "args": {"order_id": order_id}, "id": "find"},
                {"name": "refund", "args": {"order_id": order_id, "amount": amount}, "id": "refund"},
            ]
            done = sum(isinstance(message, ToolMessage) for message in messages)
            answer = AIMessage("", tool_calls=[calls[done]]) if done < 2 else AIMessage(json.dumps(decision))
            return ChatResult(generations=[ChatGeneration(message=answer)])

    return ClerkModel()


def pydantic_ai_model():
    """Return a model of pydantic-ai."""
    from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def clerk(messages, info):
        parts = [part for message in messages for part in message.parts]
        order_id, amount, decision = told([str(getattr(part, "content", "")) for part in parts])
        calls = [
            ToolCallPart("find_order", {"order_id": order_id}, tool_call_id="find"),
            ToolCallPart("refund", {"order_id": order_id, "amount": amount}, tool_call_id="refund"),
            ToolCallPart(info.output_tools[0].name, decision, tool_call_id="decision"),
        ]
        done = sum(isinstance(part, ToolReturnPart) for part in parts)
        return ModelResponse(parts=[calls[done]])

    return FunctionModel(clerk)
