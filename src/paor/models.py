"""
What a model of your own is made of.

    from paor.models import Model, ModelCall, Reply

How to write one: docs/howto/model.md.
"""

from __future__ import annotations

from .prompts.clients.facts import ServerFacts
from .prompts.model import (
    AsyncModel,
    Model,
    ModelCall,
    Notice,
    OfferedTool,
    Picture,
    PromptMessage,
    Reply,
    SyncModel,
    ToolCall,
)

__all__ = [
    "AsyncModel",
    "Model",
    "ModelCall",
    "Notice",
    "OfferedTool",
    "Picture",
    "PromptMessage",
    "Reply",
    "ServerFacts",
    "SyncModel",
    "ToolCall",
]
