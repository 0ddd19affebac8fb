"""What a call and its server have said to each other so far, in the form in which it is in the journal. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import orjson

from ...states.base.wire import decoder_of


class Dialogue(msgspec.Struct, rename="camel"):
    """
    What a call has asked so far, as it is in the journal between two processes.

    Attributes:
        way: ``rounds`` (the server answered that it needs input), ``open`` (it asked in the middle of an open call),
            ``url`` (it refused the call until somebody has visited a URL), or ``task`` (it works on the call as a task).
        request_state: The server's own state of a call in rounds, or the handle of its task.
        pending: Keys and parameters of what is still to be asked in this round, the current question first.
        responses: Answers of this round, by key.
        answers: Digest of each question and its answer, in order, for a call that is made anew.
    """

    way: str = "rounds"
    request_state: str | None = None
    pending: list[tuple[str, dict[str, Any]]] = msgspec.field(default_factory=list)
    responses: dict[str, Any] = msgspec.field(default_factory=dict)
    answers: list[tuple[str, dict[str, Any]]] = msgspec.field(default_factory=list)

    @classmethod
    def read(cls, state: Any) -> Dialogue:
        """Return what `state` holds; of a state that is none of ours an empty one."""
        try:
            decoder_of(cls)
            return msgspec.convert(state, cls)
        except msgspec.ValidationError:
            return cls("open")

    def state(self) -> dict[str, Any]:
        """Return it as JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def elicit_result(*, accepted: bool, content: Any) -> dict[str, Any]:
    """Return a person's answer as the protocol has it."""
    if not accepted:
        return {"action": "decline"}
    given = {"content": content} if isinstance(content, dict) and content else {}
    return {"action": "accept", **given}


def typed_responses(responses: dict[str, Any] | None) -> Any:
    if responses is None:
        return None
    from mcp_types import CreateMessageResult, ElicitResult, ListRootsResult

    def typed(value: dict[str, Any]) -> Any:
        if "action" in value:
            return ElicitResult.model_validate(value)
        return (ListRootsResult if "roots" in value else CreateMessageResult).model_validate(value)

    return {key: typed(value) for key, value in responses.items()}


def plain_of(model: Any) -> dict[str, Any]:
    """Return a record of the package as JSON under its wire names; JSON as it is."""
    if isinstance(model, dict):
        return model
    found: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def digest_of(params: dict[str, Any]) -> str:
    """Return what a question is recognised by: its words and its schema."""
    asked = {name: params.get(name) for name in ("mode", "message", "requestedSchema", "url")}
    return sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
