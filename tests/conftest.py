"""Settings of all tests: which of the expensive ones run, hypothesis's effort, files in memory, no key of a provider."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import disk_usage

import pytest
from hypothesis import settings

from .support import (
    cli_support,
    effort,  # noqa: F401 - registers the profiles
    reruns,
)
from .support.inside import KNOWN
from .support.postgres_server import PostgresServer, server_missing
from .support.selection import Selection, added_options

settings.load_profile("paor")

for _name in (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_CUSTOM_HEADERS", "OPENAI_LOG"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"),
    *("ANTHROPIC_LOG", "PAOR_MODEL", "PAOR_PRICES"),
):
    os.environ.pop(_name, None)  # no test reaches a provider because of what is set where it runs

MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30
"""Free memory that the tests' files may take a part of; what passed tests leave is removed."""

if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and disk_usage(MEMORY).free >= MEMORY_BYTES_MIN:
    # Journals are synced to disk at every row: on a disk the tests wait for that more than half of their time. A killed
    # process loses nothing that it has written, on a disk or in memory; lost power is simulated.
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--whole`` and ``--change``."""
    added_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tests, see what fails or takes long, give all rooms the shell; a whole run takes twice as many examples."""
    config.pluginmanager.register(cli_support, "cli_support")
    if config.getoption("whole"):
        settings.load_profile("whole")
    config.pluginmanager.register(Selection(config), "selection")
    reruns.configured(config)


@pytest.fixture(autouse=True)
def forget_servers() -> None:
    """Forget what servers have said: the port of one that is gone may be another's in the next test."""
    KNOWN.clear()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Give a PostgreSQL that is used by all tests of this process, each with schemas of its own."""
    if reason := server_missing():
        pytest.skip(reason)
    server = PostgresServer("fsync=off")
    yield server
    server.close()
