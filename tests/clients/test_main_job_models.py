"""The main job with a model of a provider, faults included: a report, a journal that tells them, and no key in any byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paor import Journal

from ..support.model_server import (
    WIRES,
    Behaviour,
    Connection,
    Received,
    Wire,
    dead,
    event,
    model_server,
    plain,
    streamed,
)
from .main_job import REPLIES, look_back, run_job

CHAT, _, MESSAGES = WIRES


def saying(wire: Wire, text: str, end: str = "stop") -> Behaviour:
    """Answer as it was asked: whole or streamed."""

    def behave(connection: Connection, received: Received) -> None:
        whole = plain(wire.body(text, end), headers={"x-request-id": "req_1", "request-id": "req_1"})
        live = streamed(wire.events(text, end), headers={"x-request-id": "req_1", "request-id": "req_1"})
        (live if received.body.get("stream") else whole)(connection, received)

    return behave


def broken(wire: Wire) -> Behaviour:
    """Begin to answer, and break off."""

    def behave(connection: Connection, received: Received) -> None:
        live = streamed(wire.events("# Obligations of the parties")[:3], end=False)
        short = plain(json.dumps(wire.body("# Oblig"))[:60], headers={"content-length": "4000"})
        (live if received.body.get("stream") else short)(connection, received)

    return behave


def faults(wire: Wire) -> list[Behaviour]:
    """Return the job's replies with what goes wrong before them: every kind that passes, and three that are asked again."""
    soon = {"retry-after-ms": "1"}
    error: Any = wire.error
    overloaded = streamed([event(error("full", type="overloaded_error"), "error")])
    selection, parameters, text, refinement, review = (saying(wire, reply) for reply in REPLIES)
    return [
        *(
            plain(error("slow down"), status=429, headers=soon),
            saying(wire, "I must not.", "refusal"),
            selection,
        ),
        *(dead, saying(wire, '{"parameters": {"docu', "length"), parameters),
        *(plain(error("full"), status=529, headers=soon), broken(wire), text),
        *(plain("<html>gateway</html>", kind="text/html"), saying(wire, ""), refinement),
        *(overloaded, review),
    ]


@pytest.mark.whole
@pytest.mark.parametrize(
    "wire, name", [(CHAT, "openai:local"), (MESSAGES, "anthropic:local")], ids=["openai", "anthropic"]
)
def test_the_main_job_with_a_model_and_faults(tmp_path: Path, wire: Wire, name: str) -> None:
    """Every fault is in the journal; with the server gone it replays identical."""
    with model_server() as server:
        server.script(*faults(wire))
        result = run_job(tmp_path, name, f"{server.url}/v1" if wire is CHAT else server.url)
        assert len(server.requests) == 14
    with Journal(tmp_path / "paor.db") as journal:
        rows = journal.transitions(result["run_id"])
    asked = [row for row in rows if "model" in row.request]
    assert [(row.trigger, row.outcome.get("invalid"), row.outcome.get("attempts", 1)) for row in asked] == [
        ("reselect", "refusal", 2),
        ("select", None, 1),
        ("respecify", "length", 2),
        ("specify", None, 1),
        ("reassess", "empty", 2),
        ("conclude", None, 1),
        ("format", None, 2),
    ]
    (wrote,) = [row for row in rows if row.trigger == "execute" and row.outcome.get("tokens_out")]
    assert wrote.outcome["request_ids"] == ["req_1"]
    look_back(tmp_path, result["run_id"])
