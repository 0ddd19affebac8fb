"""A command in a pseudo-terminal of its own: what it has shown, the keys that are pressed, and a model that waits within a reply."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from typing import Any

from .cli_support import Shell, environ, interruptible
from .model_server import KEY, WIRES, Behaviour, Connection, Received, streamed

CHAT = WIRES[0]


def _at_the_terminal() -> None:
    """Take the keys of the new terminal, Ctrl-C too."""
    interruptible()
    ioctl(0, termios.TIOCSCTTY, 0)


class Screen:
    """A pseudo-terminal of *columns* with a command in it; what it has shown so far, without what moves the cursor."""

    def __init__(
        self, shell: Shell, *arguments: str, columns: int = 100, piped: bool = False, **more: str
    ) -> None:
        self._own, other = pty.openpty()
        ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.before = termios.tcgetattr(other)
        self.other = other
        self.raw = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "paor", *arguments],
            cwd=shell.folder,
            stdin=other,
            stdout=subprocess.PIPE if piped else other,
            stderr=other,
            env=environ({"TERM": "xterm-256color", "OPENAI_API_KEY": KEY, **more}),
            start_new_session=True,
            preexec_fn=_at_the_terminal,  # noqa: PLW1509 - one call, before anything else can run
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._own], [], [], 0.1)
            if ready:
                self.raw += os.read(self._own, 65_536)
            elif self.process.poll() is not None:
                return

    @property
    def text(self) -> str:
        """Everything that was ever on the screen, line by line."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw.decode("utf-8", "replace")).replace("\r", "\n")

    def wait_for(self, words: str) -> None:
        """Return when *words* have been shown."""
        deadline = time.monotonic() + 60
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self.process.poll() is None or words in self.text, self.text
            time.sleep(0.02)

    def wait_for_prompt(self, prompt: str) -> None:
        """Return when *prompt* is the last that has been shown: the command reads keys one by one."""
        deadline = time.monotonic() + 60
        while not self.text.endswith(f"\n{prompt}"):
            assert time.monotonic() < deadline and self.process.poll() is None, self.text
            time.sleep(0.02)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._own, keys)

    def end(self) -> int:
        """Wait for the command's end and return its exit code."""
        code = self.process.wait(60)
        self._reading.join(10)
        return code

    def close(self) -> None:
        """Free the terminal."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._own)
        os.close(self.other)


@contextmanager
def screen(shell: Shell, *arguments: str, **more: Any) -> Iterator[Screen]:
    """Run a command in a terminal while the block runs."""
    shown = Screen(shell, *arguments, **more)
    try:
        yield shown
    finally:
        shown.close()


def said(reply: object) -> Behaviour:
    """Stream a reply, in small pieces."""
    return streamed(CHAT.events(json.dumps(reply), size=5))


def held(reply: object, seen: threading.Event, after: str) -> Behaviour:
    """Stream a reply up to the word *after*, and the rest when that was *seen*."""
    events = CHAT.events(json.dumps(reply), size=5)
    text = ""
    at = 0
    while after not in text:
        found = re.search(rb'"content": ("(?:[^"\\]|\\.)*")', events[at])
        text += json.loads(found[1]) if found else ""
        at += 1

    def behave(connection: Connection, received: Received) -> None:
        def rest(connection: Connection) -> None:
            seen.wait(60)
            for item in events[at:]:
                connection.chunk(item)
            connection.send(b"0\r\n\r\n")

        streamed(events[:at], then=rest)(connection, received)

    return behave
