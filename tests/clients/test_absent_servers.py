"""A model server of one's own that is not there yet: it restarts, or loads its model; it is waited for, visibly and bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Limits, ModelCall, replay
from paor.errors import ModelUnavailable
from paor.events import ModelNotice
from paor.models import PromptMessage

from ..support.model_server import WIRES, ModelServer, QuickPort, plain
from ..support.worlds import READ, STOP, SUCCESS, TOOLS
from .inside import LOADING_S, is_local

CHAT = WIRES[0]
GOOD = [plain(CHAT.body(json.dumps(item))) for item in (*READ(1), STOP, SUCCESS)]
LOADING = plain(CHAT.error("Loading model", type="unavailable_error"), status=503)
CALL = ModelCall("refinement", (PromptMessage("user", "Go on?"),))
each_driver = pytest.mark.parametrize("driver", ["sync", "async"])


class Restart(QuickPort):
    """Waiting takes no time; during the *nth* wait the server comes up."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self._nth = nth
        self.server = ModelServer()
        self.url, self.number = self.server.url, int(self.server.url.rpartition(":")[2])
        self.server.close()

    async def asleep(self, seconds: float) -> None:
        """Wait."""
        self.waits.append(seconds)
        if len(self.waits) == self._nth:
            self.server = ModelServer(self.number)
            self.server.script(LOADING, *GOOD)


@pytest.fixture(name="port")
def make_port(request: pytest.FixtureRequest) -> Iterator[Restart]:
    """Return a port whose server comes up during the fifth wait."""
    port = Restart(5)
    yield port
    port.server.close()


@each_driver
def test_a_server_that_starts_late_and_loads_its_model_answers_in_the_end(
    tmp_path: Path, port: Restart, driver: str
) -> None:
    """More attempts than `retries`, each one an event with its wait; afterwards the run is as any other."""
    model = CHAT.model(port.url, port=port, stream=False)
    with Engine(model, tools=TOOLS, journal=tmp_path / "runs.db", profile="two_stage") as engine:
        seen: list[Any] = (
            list(engine.stream("Read it", on_close="stop")) if driver == "sync" else asyncio.run(_all(engine))
        )
        retries = [item for item in seen if isinstance(item, ModelNotice) and item.notice == "retry"]
        assert [item.code for item in retries] == ["unreachable"] * 5 + ["overloaded"]
        assert port.waits == [0.5, 1, 2, 4, 8, 8] and [item.wait_us / 1e6 for item in retries] == port.waits
        assert "Connection refused" in retries[0].text and "Loading model" in retries[-1].text
        assert seen[-1].result.state == "Done"
        assert replay(engine.journal, seen[-1].run_id).identical


async def _all(engine: Engine) -> list[Any]:
    return [event async for event in engine.astream("Read it", on_close="stop")]


def unavailable(port: QuickPort, url: str, call: ModelCall = CALL, **options: Any) -> ModelUnavailable:
    """Return what a model that is never there says."""
    with pytest.raises(ModelUnavailable) as caught:
        CHAT.model(url, port=port, **options).ask(call)
    return caught.value


def test_the_waits_add_up_to_half_a_minute_at_most() -> None:
    """At least the twenty seconds of a model that is loaded, also with the shortest waits that chance gives."""
    for jitter in (0.0, 1.0):
        port = Restart(99)
        port.jitter = lambda jitter=jitter: jitter  # type: ignore[method-assign,misc]
        fault = unavailable(port, port.url)
        assert fault.code == "unreachable" and "the last one" in fault.message
        assert 20 < LOADING_S <= sum(port.waits) < LOADING_S + 8


def test_a_time_budget_ends_the_waiting() -> None:
    """No wait is begun that would go beyond it; the budget of a run is handed to the client so."""
    port = Restart(99)
    call = ModelCall(CALL.kind, CALL.messages, timeout_s=5.0)
    assert "no time left" in unavailable(port, port.url, call).message
    assert port.waits == [0.5, 1, 2, 4]


def test_a_cancel_ends_the_waiting(tmp_path: Path) -> None:
    """During a wait, and not after all of them."""
    port = Restart(99)

    def cancelling(event: Any) -> None:
        if isinstance(event, ModelNotice) and event.attempt == 5:
            engine.cancel(event.run_id)

    with Engine(
        CHAT.model(port.url, port=port), tools=TOOLS, journal=tmp_path / "runs.db", hooks=[cancelling]
    ) as engine:
        assert (
            engine.run("Read it", limits=Limits(time_budget_s=60), profile="two_stage").reason == "cancelled"
        )


def test_other_faults_of_such_a_server_are_not_waited_for() -> None:
    """It is there, and broken: three more attempts, as anywhere."""
    server = ModelServer()
    server.script(plain(CHAT.error("no"), status=500))
    port = QuickPort()
    assert unavailable(port, server.url).code == "server_error" and port.waits == [0.5, 1, 2]
    server.close()


@pytest.mark.parametrize(
    "host, local",
    [
        *[
            (host, True)
            for host in ("127.0.0.1", "[::1]", "localhost", "LOCALHOST.", "10.1.2.3", "192.168.0.9")
        ],
        *[
            (host, True)
            for host in ("172.16.0.1", "[fd00::1]", "box.local", "gpu.lan", "llama", "host.docker.internal")
        ],
        *[
            (host, False)
            for host in ("8.8.8.8", "[2606:4700::1]", "example.com", "local.example.com", "172.32.0.1")
        ],
    ],
)
def test_what_is_ones_own_network(host: str, local: bool) -> None:
    """Private addresses, names without a domain, and the endings that no public name has."""
    assert is_local(f"http://{host}:8080/v1") is local
