"""
The clients against a server that others wrote, and against a real small model: see `real_servers`.

What a small model decides is not asserted: it may choose badly. That the run ends in Done or Failed with a reason, that
every row verifies, and that it replays with the server stopped is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paor import AnthropicModel, Engine, Limits, OpenAIModel, replay

from ..support.model_server import KEY, QuickPort
from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS
from .real_servers import MISSING, aimock_command, free_port, llama_command, post, running

pytestmark = pytest.mark.whole
SCRIPT = [*READ(1), CONTINUE, SELECT(), PARAMETERS(page=2), STOP, SUCCESS]


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run aimock."""
    port = free_port()
    command = aimock_command(port, tmp_path_factory.mktemp("aimock") / "seed.json")
    if command is None:
        pytest.skip(f"{MISSING} aimock")
    with running(command, port) as url:
        yield url


def load(url: str, *texts: str) -> None:
    """Script aimock anew."""
    said = [{"match": {"sequenceIndex": n}, "response": {"content": text}} for n, text in enumerate(texts)]
    post(f"{url}/__aimock/reset", b"{}")
    post(f"{url}/__aimock/fixtures", json.dumps({"fixtures": said}).encode())


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_run_on_aimock_with_a_fault_in_it(aimock: str, tmp_path: Path, api: Any, stream: bool) -> None:
    """The two-stage loop to Done; it replays identical whatever the server says by then."""
    load(aimock, *map(json.dumps, SCRIPT))
    post(f"{aimock}/__aimock/error", b'{"status": 529}')
    options: dict[str, Any] = {"api_key": KEY, "port": QuickPort(), "stream": stream}
    if api == "messages":
        model: Any = AnthropicModel("claude-haiku-5-5", base_url=aimock, **options)
    else:
        model = OpenAIModel("gpt-6-luna", base_url=f"{aimock}/v1", api=api, **options)
    with Engine(model, tools=TOOLS, journal=tmp_path / "runs.db") as engine:
        result = engine.run("Read it", profile="two_stage")
        load(aimock)
        assert result.state == "Done"
        assert engine.journal.transitions(result.run_id)[0].outcome["attempts"] == 2
        assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []


@pytest.mark.parametrize("profile", ["two_stage", "native"])
@pytest.mark.parametrize("api", ["chat", "messages"])
def test_a_real_small_model_ends_in_done_or_failed(tmp_path: Path, api: str, profile: Any) -> None:
    """With a reason, never an exception; the journal verifies, and replays with the server stopped."""
    port = free_port()
    command = llama_command(port)
    if command is None:
        pytest.skip(f"{MISSING} the small model")
    options: dict[str, Any] = {"max_tokens": 200, "temperature": 0, "timeout_s": 300, "retries": 1}
    limits = Limits(max_steps=2, max_retries=1)
    with running(command, port, path="/health") as url:
        if api == "chat":
            model: Any = OpenAIModel("local", base_url=f"{url}/v1", **options)
        else:
            model = AnthropicModel("local", base_url=url, structured="tool", **options)
        engine = Engine(model, tools=TOOLS, builtins=False, journal=tmp_path / "runs.db", limits=limits)
        objective = "Read page 1 of the notes and say what it is about."
        result = engine.run(objective, ["Page 1 is read."], profile=profile)
    assert result.state in ("Done", "Failed") and result.reason and result.answer
    assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []
    assert any("model" in row.request for row in engine.journal.transitions(result.run_id))
