"""`paor backtest --ask`: a price that is said before, replies that are compared, nothing paid twice, and no key in any byte."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from paor import Journal

from ..support.cli_support import Shell
from ..support.journeys import BY_NAME, play
from ..support.model_server import KEY, Connection, ModelServer, Received, Wire, model_server, plain
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, SELECT, STOP, SUCCESS

APP = '''
"""An engine that calls nothing."""
from paor import Engine, tool
from tests.support.worlds import TOOLS


@tool("notes.read", effect="idempotent", label="page")
def read(page: int) -> str:
    """Read one page of the notes."""
    raise AssertionError("nothing is called")


def brief(journal):
    return Engine("offline", [read, *TOOLS[1:]], journal, builtins=False, instructions="Be brief.")
'''
WIRE = Wire("chat")
REPLIES = [SELECT(), PARAMETERS(page=1), CONTINUE, SELECT(), STOP, SUCCESS]
"""As recorded; the arguments of both pages are asked for in the same words, once."""
ARGUMENTS = [("arguments", 6, '{"page":2}', '{"page":1}')]
"""So the second page is read as the first one."""


def said(*replies: Any) -> list[Any]:
    """Return behaviours of a server whose model says so."""
    return [plain(WIRE.body(item if isinstance(item, str) else json.dumps(item))) for item in replies]


@pytest.fixture(name="server")
def make_server(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModelServer]:
    """Return a server that the variables name; a journal with a run of two pages lies in the working folder beside an app."""
    folder = tmp_path_factory.mktemp("recorded")
    with BY_NAME["two_pages"].engine(folder) as scripted:
        play(BY_NAME["two_pages"], scripted)
    (shell.folder / "runs.db").write_bytes((folder / JOURNAL).read_bytes())
    shell.write("asking_app.py", APP)
    shell.write("prices.json", json.dumps({"models": {"openai:gpt-6-luna": {"in": "2", "out": "10"}}}))
    with model_server() as server:
        settings = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": KEY,
            "PAOR_PRICES": "prices.json",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        server.script(*said(*REPLIES))
        yield server
    assert (shell.folder / "runs.db").read_bytes() == (folder / JOURNAL).read_bytes(), "it is only read"


BASE = ("backtest", "--app", "asking_app:brief", "--journal", "runs.db")
ASK = (*BASE, "--ask", "openai:gpt-6-luna")


def differences(found: list[Mapping[str, Any]]) -> list[tuple[str, int, str, str]]:
    """Return what differs of replies."""
    return [(item["kind"], item["seq"], item["was"], item["now"]) for item in found if item["kind"] != "asks"]


def test_the_price_is_said_before_anything_is_asked(shell: Shell, server: ModelServer) -> None:
    """Without a word on it, or above what may be spent, nothing is asked, and no file is made."""
    before = shell.files()
    for more, words in (
        ((), "--max-price AMOUNT asks up to a price, --yes at any"),
        (("--max-price", "0.2"), "that is above --max-price 0.2"),
        (("--max-price", "0"), "that is above --max-price 0"),
    ):
        shell(*ASK, *more).refused("nothing was asked: 6 requests to openai:gpt-6-luna: at most ", words)
    assert server.requests == [] and shell.files() == before
    done = shell(*ASK, "--max-price", "0.3", "--json")
    assert (
        done.err.startswith("paor: 6 requests to openai:gpt-6-luna: at most ")
        and "24,000 out, 0.2" in done.err
    )
    assert len(server.requests) == 6 and done.code == 1 and differences(done.json) == ARGUMENTS
    assert {item["kind"] for item in done.json} == {"asks", "arguments"}
    assert done.json[-1].keys() == {"run_id", "seq", "kind", "row", "guard", "was", "now"}
    # what is kept is not paid for, so nothing needs to be said
    again = shell(*ASK)
    assert again.code == 1 and len(server.requests) == 6
    assert again.err == "paor: 0 requests to openai:gpt-6-luna; 7 replies are kept already\n"
    assert "7 replies: 6 alike, 1 arguments; 0 tokens, 0.0000 cost" in again.out
    assert "Specifying.specify" in again.out and '{"page":2}' in again.out
    server.script(*said(*REPLIES))
    paged = shell(*ASK, "--kept", "other.db", "--yes", "--output", "page.html")
    assert len(server.requests) == 6 and "7 replies: 6 alike, 1 arguments; 7,404 tokens, 0.0" in paged.out
    page = (shell.folder / "page.html").read_text()
    assert '<tr class="arguments">' in page and "6 alike, 1 arguments" in page


def test_a_model_without_a_known_price_is_asked_with_yes_alone(shell: Shell, server: ModelServer) -> None:
    """A price that nobody knows is below no other."""
    ask = (*BASE, "--ask", "openai:other", "--sample", "2")
    words = "its price is not known; --yes asks"
    for more in ((), ("--max-price", "1000")):
        shell(*ask, *more).refused("nothing was asked: 2 requests to openai:other", words)
    assert server.requests == []
    assert shell(*ask, "--yes").code in (0, 1) and len(server.requests) == 2


def test_replies_that_are_alike_are_nothing(shell: Shell, server: ModelServer) -> None:
    """The exit code is 0 then; the sample is the row with the smallest digest."""
    with Journal("runs.db", read_only=True) as journal:
        (run,) = journal.runs()
        rows = {row.seq: row for row in journal.transitions(run.run_id) if "reply" in row.outcome}
        seq = min(rows, key=lambda seq: sha256(f"{run.run_id} {seq}".encode()).digest())
        recorded = journal.payload(run.run, rows[seq].outcome["reply"]["n"]).body
    server.script(*said(recorded))
    done = shell(*ASK, "--sample", "1", "--yes")
    assert done.code == 0 and "1 reply: 1 alike; 1,234 tokens, 0.0" in done.out
    assert "Be brief." in json.dumps(server.requests[0].body)


def test_an_evaluation_that_was_killed_goes_on_without_paying_twice(
    shell: Shell, server: ModelServer
) -> None:
    """The replies that had come are kept; the one on its way is asked for again."""
    begun: list[subprocess.Popen[bytes]] = []

    def kill(connection: Connection, received: Received) -> None:
        begun[0].send_signal(signal.SIGKILL)

    first = said(*REPLIES[:3])
    server.script(*first, kill, *said(*REPLIES[3:]))
    settings = {name: os.environ[name] for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "PAOR_PRICES")}
    begun.append(shell.start(*ASK, "--yes", **settings, PYTHONPATH=os.pathsep.join(_paths())))
    begun[0].communicate()
    assert begun[0].returncode == -signal.SIGKILL and len(server.requests) == 4
    done = shell(*ASK, "--max-price", "0.15", "--json")
    assert len(server.requests) == 7 and differences(done.json) == ARGUMENTS
    assert "3 requests to openai:gpt-6-luna" in done.err and "kept already" in done.err
    bodies = [json.dumps(item.body["messages"]) for item in server.requests]
    assert bodies[3] == bodies[4] and len({*bodies}) == 6
    with closing(sqlite3.connect("evaluation.db")) as file:
        assert file.execute("SELECT count(*) FROM lines WHERE kind = 'reply'").fetchone() == (6,)


def _paths() -> list[str]:
    root = Path(__file__).resolve().parent.parent.parent
    return [str(root), str(root / "src")]


def test_an_error_of_the_model_is_a_finding(shell: Shell, server: ModelServer) -> None:
    """The exit code is 1; after three in a row nothing more is asked."""
    server.script(plain(WIRE.error("no such key", code="invalid_api_key"), status=401))
    done = shell(*ASK, "--yes")
    assert done.code == 1 and len(server.requests) == 3 and "unauthorized" in done.out
    assert "3 replies: 3 error; 0 tokens, 0.0000 cost; 4 not asked after 3 errors in a row" in done.out
    done = shell(*ASK, "--yes", "--json")
    assert [kind for kind, *_ in differences(done.json)] == ["error"] * 3 and "; 4 not asked" in done.err
    server.script(*said(*REPLIES))
    assert differences(shell(*ASK, "--yes", "--json").json) == ARGUMENTS


@pytest.mark.parametrize("form", [(), ("--json",), ("--output", "page.html")])
def test_a_key_is_in_no_byte(form: tuple[str, ...], shell: Shell, server: ModelServer) -> None:
    """A server may say it in a reply, in what a reply chooses, and in an error."""
    spelt = SELECT() | {"action": f"use.{KEY}", "parametersContext": KEY}
    server.script(
        *said(spelt, PARAMETERS(page=KEY), f"no JSON: {KEY}"),
        plain(WIRE.error(f"the key {KEY} is spent"), status=400),
    )
    before = {path: path.read_bytes() for path in shell.folder.iterdir() if path.is_file()}
    done = shell(*ASK, "--yes", *form)
    assert done.code == 1 and len(server.requests) > 3
    assert KEY not in done.out + done.err
    written = {
        path.name: path.read_bytes()
        for path in shell.folder.iterdir()
        if path not in before and path.is_file()
    }
    assert "evaluation.db" in written and (len(form) < 2 or "page.html" in written)
    assert all(KEY.encode() not in data for data in written.values())
    assert b"[secret redacted]" in written["evaluation.db"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--yes",), "--max-price and --yes go with --ask"),
        (("--max-price", "1"), "--max-price and --yes go with --ask"),
        (("--ask", "nobody", "--yes"), "unknown model 'nobody'"),
        (("--ask", "offline", "--sample", "0"), "0 is not in the range 1<=x<=10000"),
        (("--ask", "offline", "--sample", "x"), "'x' is not a valid integer"),
        (("--ask", "offline", "--max-price", "-1"), "-1.0 is not in the range"),
        (("--ask", "openai:gpt-6-luna", "--max-price", "nan"), "that is above --max-price nan"),
        (("--ask", "offline", "--yes", "--kept", "runs.db"), "would replace the journal"),
        (("--ask", "offline", "--yes", "--kept", ""), "expected a file name"),
        (
            ("--ask", "offline", "--yes", "--kept", "asking_app.py"),
            "asking_app.py: cannot be used as the file of",
        ),
        (("--ask", "offline", "--yes", "--kept", "no/such.db"), "no/such.db: cannot be used as the file of"),
    ],
)
def test_bad_input_is_one_line(more: tuple[str, ...], words: str, shell: Shell, server: ModelServer) -> None:
    """And nothing is asked."""
    shell(*BASE, *more).refused(words, lines=2)
    assert server.requests == []


def test_where_nothing_is_asked_otherwise_no_price_is_needed(shell: Shell, server: ModelServer) -> None:
    """The back-test says what it says without a model."""
    shell.write("asking_same.py", APP.replace(', instructions="Be brief."', ""))
    done = shell("backtest", "--app", "asking_same:brief", "--journal", "runs.db", "--ask", "openai:other")
    assert (done.code, done.out) == (0, "1 run: none goes otherwise\n")
    assert done.err == "paor: 0 requests to openai:other\n" and server.requests == []
