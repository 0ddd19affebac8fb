"""A PostgreSQL of the tests' own: Debian's server, in a folder of its own, on loopback; and the reason where there is none."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

NAMES = itertools.count()


def server_missing() -> str:
    """Return why no server can be started here; an empty text if one can."""
    if find_spec("psycopg") is None:
        return 'needs psycopg: pip install "paor[postgres]"'
    if programs() is None:
        return "needs PostgreSQL: apt-get install postgresql"
    return ""


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs: the newest of Debian's, or the one in the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    inpath = shutil.which("initdb")
    return found[-1].parent if found else Path(inpath).parent if inpath else None


needs_postgres = pytest.mark.skipif(bool(server_missing()), reason=server_missing())


class PostgresServer:
    """
    A server of this process.

    Args:
        options: Of the server, such as ``fsync=off``.

    Attributes:
        port: On 127.0.0.1.
    """

    def __init__(self, *options: str) -> None:
        bin_folder = programs()
        assert bin_folder is not None, server_missing()
        self._bin = bin_folder
        self._folder = Path(tempfile.mkdtemp(prefix="paor-pg-"))
        # the server refuses to run as root
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._user = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(self._folder, "postgres", "postgres")
        with closing(socket.socket()) as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self._options = " ".join(
            f"-c {option}"
            for option in (
                *(
                    "listen_addresses=127.0.0.1",
                    f"port={self.port}",
                    f"unix_socket_directories={self._folder}",
                ),
                *("max_connections=200", *options),
            )
        )
        self._program(
            "initdb", "-A", "trust", "-U", "postgres", "-D", str(self._data), "-E", "UTF8", "--locale=C"
        )
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _program(self, name: str, *arguments: str) -> None:
        with open(self._folder / "log", "ab") as log:
            done = subprocess.run(
                [self._bin / name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                check=False,
                **self._user,
            )
        assert done.returncode == 0, (self._folder / "log").read_text(errors="replace")[-2000:]

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._program(
            "pg_ctl",
            "-D",
            str(self._data),
            "-w",
            "-l",
            str(self._folder / "server.log"),
            "-o",
            self._options,
            "start",
        )

    def stop(self, how: str = "immediate") -> None:
        """Stop it: ``immediate`` is a crash, ``fast`` ends what goes on."""
        self._program("pg_ctl", "-D", str(self._data), "-w", "-m", how, "stop")

    def files_with(self, text: str) -> list[str]:
        """Return the files of its data folder that hold a text, but for its write-ahead log; what it holds in memory is after a CHECKPOINT."""
        return [
            path.relative_to(self._data).as_posix()
            for path in sorted(self._data.rglob("*"))
            if path.is_file() and "pg_wal" not in path.parts and text.encode() in path.read_bytes()
        ]

    def url(self, schema: str | None = None, *, user: str = "postgres", password: str = "") -> str:
        """Return the address of a journal, by default of a new one."""
        name = f"t{os.getpid()}_{next(NAMES)}" if schema is None else schema
        login = f"{user}:{password}" if password else user
        return f"postgresql://{login}@127.0.0.1:{self.port}/postgres?schema={name}"

    def close(self) -> None:
        """Stop it for good and remove its folder."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
