"""`paor inspect`: its page and parts, mounted in a host's server, searched, and started on the command line."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Engine, Journal, ScriptedModel, tool
from paor.errors import UsageError
from paor.inspect import app
from paor.testing import SeededIds, call, refine, review

from ..support.pages import ROOT
from .inside import FOUND_MAX, base_address, content_policy, listen, search
from .inspect_kit import Browser, bank, own_environment, served

WORD = "http://127.0.0.1:"


@pytest.fixture(name="engine")
def make_engine(tmp_path: Path) -> Iterator[Engine]:
    """Return an engine whose runs pay after an approval."""
    with bank(tmp_path / "runs.db", [], 5) as engine:
        yield engine


def test_the_page_and_its_parts(engine: Engine) -> None:
    """The page is the report's, under the same policy as in a file, and its parts are what the report reads."""
    run_id = engine.run("Pay five").run_id
    with served(app(engine)) as browser:
        page = browser.get("")
        assert page.status == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
        assert b'<html lang="en" data-live="/">' in page.body and b"data-part" not in page.body
        assert (
            page.headers["content-security-policy"] == f"{content_policy(live=True)}; frame-ancestors 'none'"
        )
        index = browser.get("data/index").json
        assert (index["live"], index["actions"], index["token"]) == (True, True, browser.page_token)
        assert [line["id"] for line in index["runs"]] == [run_id] and index["waits"][0]["run"] == run_id
        assert browser.get(f"data/run/{run_id}").json["line"] == index["runs"][0]
        assert [row["seq"] for row in browser.get(f"data/rows/{run_id}/0").json["rows"]] == [0, 1]
        assert browser.get("nothing").status == 404 and browser.get(f"data/run/{run_id}x").status == 404


def test_what_is_told_is_ascii(tmp_path: Path) -> None:
    """Half a character, a line separator and markup arrive as they were, and are no part of the syntax."""
    text = "Pay \u2028 \u202e </script><b> \U0001f600"
    with bank(tmp_path / "runs.db", [], 5) as engine, served(app(engine)) as browser:
        run_id = engine.run(text).run_id
        for name in ("index", f"run/{run_id}", f"rows/{run_id}/0"):
            body = browser.get(f"data/{name}").body
            assert body.isascii() and b"\n" not in body
        assert browser.get("data/index").json["runs"][0]["objective"] == text


def test_a_key_of_the_environment_is_in_nothing_that_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in a part, nor in an error, nor in an event, although a run holds it."""
    key = "sk-proj-0123456789abcdefghijklmnop"
    with bank(tmp_path / "runs.db", [], 5) as engine:
        run_id = engine.run(f"Pay with {key}").run_id
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with served(app(engine)) as browser:
            found = [
                browser.get(f"data/{name}").body for name in ("index", f"run/{run_id}", f"rows/{run_id}/0")
            ]
            found.append(browser.get(f"data/run/{key}").body)
            found.append(browser.post(f"answer/{run_id}", {"name": key, "answer": key}).body)
            with browser.events(f"events/{run_id}") as events:
                found.append(json.dumps(next(events)).encode())
            with browser.events("events") as events:
                found.append(json.dumps(next(events)).encode())
            assert not [body for body in found if key.encode() in body]


def test_a_key_that_a_person_gave_with_an_answer_is_in_no_row_that_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row says why, without it: in the run's story, and in the event of the row."""
    key = "sk-proj-0123456789abcdefghijklmnop"
    with bank(tmp_path / "runs.db", [], 5) as engine:
        run = engine.run("Pay")
        assert run.waiting_for is not None
        given: dict[str, Any] = {"question": run.waiting_for.id, "actor": "ann", "reason": f"paid with {key}"}
        engine.resume(run.run_id, answer={"approve": True}, **given)
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with served(app(engine)) as browser, browser.events(f"events/{run.run_id}") as events:
            rows = [data["row"] for name, _, data in events if name == "row"]
            assert browser.get(f"data/run/{run.run_id}").json["story"]["rows"] == rows
        said = next(row["said"] for row in rows if "answered" in row["marks"])
        assert said == "paid with [secret redacted]" and key not in json.dumps(rows)


# -- mounted -------------------------------------------------------------------------------------------------------


@contextmanager
def hosted(application: Any) -> Iterator[int]:
    """Serve a host's application; give its port."""
    bound = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    yield bound.getsockname()[1]
    server.should_exit = True
    thread.join(20)


def test_it_is_mounted_in_a_hosts_server(engine: Engine) -> None:
    """Under any path, beside the host's own routes: page, parts, events, login and answers; the cookie stays under that path."""
    fastapi = pytest.importorskip("fastapi", reason="needs fastapi")
    host, inspector = fastapi.FastAPI(), app(engine)
    host.mount("/admin/runs", inspector)
    host.get("/")(lambda: {"own": True})
    run_id = engine.run("Pay").run_id
    with hosted(host) as port:
        browser = Browser(inspector.address(f"{WORD}{port}/admin/runs"), "/admin/runs/")
        login = browser.get(f"?token={browser.token}")
        assert (
            login.headers["location"] == "/admin/runs/"
            and "Path=/admin/runs/;" in login.headers["set-cookie"]
        )
        assert b'data-live="/admin/runs/"' in browser.get("").body
        assert browser.get(f"data/run/{run_id}").status == 200
        (wait,) = browser.get("data/index").json["waits"]
        with browser.events(f"events/{run_id}?after=1") as events:
            assert (
                browser.post(
                    f"answer/{run_id}", {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}
                ).status
                == 200
            )
            assert [name for name, _, _ in events][-1] == "end"
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with closing(connection):
            connection.request("GET", "/")
            answer = connection.getresponse()
            assert json.loads(answer.read()) == {"own": True} and answer.getheader("x-frame-options") is None
        browser.cookie = ""
        assert browser.get("data/index").status == 401
    inspector.close()


@pytest.mark.whole
def test_the_hosts_own_login_can_replace_the_token(engine: Engine) -> None:
    """What the host lets in needs no token; a write still needs what the page alone knows, and its origin."""
    fastapi = pytest.importorskip("fastapi", reason="needs fastapi")
    host, inspector = fastapi.FastAPI(), app(engine, token=False)

    async def checked(request: Any, call_next: Any) -> Any:
        if request.headers.get("authorization") != "Bearer ann":
            return fastapi.Response(status_code=401)
        return await call_next(request)

    host.middleware("http")(checked)
    host.mount("/runs", inspector)
    run_id = engine.run("Pay").run_id
    with hosted(host) as port:
        assert inspector.address(f"{WORD}{port}/runs") == f"{WORD}{port}/runs/"
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def ask(method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, Any]:
            connection.request(method, f"/runs/{path}", body, {"Authorization": "Bearer ann", **headers})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        with closing(connection):
            index = ask("GET", "data/index")[1]
            body = json.dumps(
                {"name": index["waits"][0]["name"], "answer": {"approve": True}, "actor": "ann"}
            )
            own = {
                "Content-Type": "application/json",
                "Origin": f"{WORD}{port}",
                "X-Paor-Token": index["token"],
            }
            assert ask("POST", f"answer/{run_id}", body, **own | {"X-Paor-Token": "x"})[0] == 403
            assert ask("POST", f"answer/{run_id}", body, **own | {"Origin": "http://evil.example"})[0] == 403
            assert ask("POST", f"answer/{run_id}", body, **own)[0] == 200
    inspector.close()


# -- searching -----------------------------------------------------------------------------------------------------


@tool("notes.read", effect="read")
def read(page: str) -> str:
    """Read one page."""
    return f'the page of "{page}"\nsays 100%'


@pytest.fixture(name="library")
def make_library(tmp_path: Path) -> Iterator[tuple[Journal, list[str]]]:
    """Return a journal of three runs, and their ids: one that read, one that failed, and one that was never driven far."""
    script = [*call("notes.read", page="harbour"), refine("stop"), review("success", answer="It says so.")]
    with Engine(ScriptedModel(script), [read], str(tmp_path / "runs.db"), ids=SeededIds("library")) as engine:
        one = engine.run("Find the lighthouse", metadata={"tenant": "acme_1"}, key="message-7").run_id
        two = engine.run("Count the boats", limits={"token_budget": 1}).run_id
        three = engine.run("Größe \\ 50% of_all").run_id
        yield engine.journal, [one, two, three]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lighthouse", [0]),
        ("LIGHTHOUSE", [0]),
        ("acme_1", [0]),
        ("acmeX1", []),
        ("message-7", [0]),
        ("notes.read", [2, 1, 0]),
        ("token_budget", [1]),
        ("Größe", [2]),
        ("Größe \\ 50% of_all", [2]),
        ("50% of", [2]),
        ("50_", []),
        ('of "harbour"', [2, 0]),
        ("says 100%", [2, 0]),
        ("It says so", [2, 0]),
        ("%", [2, 0]),
        ("nowhere", []),
        ("' OR 1=1 --", []),
        ("*", None),
    ],
)
def test_runs_are_found_by_what_they_hold(
    text: str, found: list[int] | None, library: tuple[Journal, list[str]]
) -> None:
    """By id, objective, key, metadata, tools, the reason of their end, and every text in them; newest first."""
    journal, ids = library
    seen = search(journal.reader, text)
    if found is not None:
        assert seen == [ids[number] for number in found]
    with Journal(journal.path, read_only=True) as other:
        assert search(other.reader, text) == seen
    assert search(journal.reader, ids[1]) == [ids[1]]


def test_a_search_finds_nothing_of_what_was_erased(library: tuple[Journal, list[str]]) -> None:
    """Neither what it was started with nor what was said; its id and its end are no content."""
    journal, ids = library
    journal.erase(ids[0])
    for text in ("lighthouse", "harbour", "acme_1", "message-7", "It says so"):
        assert ids[0] not in search(journal.reader, text)
    assert search(journal.reader, ids[0]) == [ids[0]]
    assert ids[2] in search(journal.reader, "harbour")
    run = journal.run(ids[2]).run
    journal.erase(ids[2], payloads=[journal.reader.root_columns(run)["spec_payload"]])
    assert search(journal.reader, "harbour") == []  # what was said in it is left, and is nobody's any more


def test_a_search_is_bounded(library: tuple[Journal, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """In what it takes, what it gives, and how long it looks."""
    journal, ids = library
    for text in ("", " ", "x" * 201, "\ud800"):
        with pytest.raises(UsageError, match="1 to 200"):
            search(journal.reader, text)
    monkeypatch.setattr("paor.inspect.application.FOUND_MAX", 1)
    assert search(journal.reader, "notes") == [ids[2]]
    monkeypatch.setattr("paor.fsm.journal.sqlite.source.POLL_STEPS", 1)
    monkeypatch.setattr("paor.inspect.application.SEARCH_S", -1.0)
    assert search(journal.reader, "harbour") == []
    assert search(journal.reader, "lighthouse") == [] and search(journal.reader, "notes.read") == []
    assert FOUND_MAX == 200
    with bank(":memory:", [], 5) as engine:
        engine.run("Find the lighthouse")
        assert search(engine.journal.reader, "lighthouse") == []
        monkeypatch.undo()
        assert len(search(engine.journal.reader, "lighthouse")) == 1


def test_a_search_holds_up_nobody_who_reads(
    library: tuple[Journal, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five searches stand still while the page is read, over HTTP and by the same reader."""
    journal, _ = library
    begun, go, own = threading.Event(), threading.Event(), threading.local()

    def stands_still() -> float:
        """Stand still, but for the first time, when the search has not begun to read."""
        if hasattr(own, "reads"):
            begun.set()
            go.wait(60)
        own.reads = True
        return 0.0

    with served(app(journal)) as browser, ThreadPoolExecutor(6) as pool:
        clock = SimpleNamespace(monotonic=stands_still)
        monkeypatch.setattr("paor.fsm.journal.sqlite.source.time", clock)
        monkeypatch.setattr("paor.fsm.journal.sqlite.source.POLL_STEPS", 1)
        found = [pool.submit(browser.get, "search?q=lighthouse") for _ in range(5)]
        try:
            assert begun.wait(20)
            assert browser.get("data/index").status == 200
            assert pool.submit(journal.reader.query, "SELECT 1").result(20) == [(1,)]
        finally:
            go.set()
        assert all(one.result(60).status == 200 for one in found)


# -- the command ---------------------------------------------------------------------------------------------------

SHOP = '''
from paor import Engine, Policy, ScriptedModel, tool
from paor.testing import call, refine, review

@tool("bank.pay", effect="once", repeat_allowed=True)
def pay(amount: int) -> str:
    """Pay."""
    print("paying", amount)
    return "paid"

def make(journal):
    script = [*call("bank.pay", amount=5), refine("stop"), review("success", answer="Paid.")]
    return Engine(ScriptedModel(script), [pay], journal, policy=Policy(approvals=("bank.pay",)))
'''


class Command:
    """``paor inspect`` as a process."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        line = [sys.executable, "-m", "paor", "inspect", "--port", "0", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            line, cwd=folder, env=own_environment(), stdout=pipe, stderr=pipe, text=True
        )
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline().strip()

    def interrupt(self) -> tuple[int, str, str]:
        """End it with Ctrl-C; return its exit code and what else it wrote."""
        self.process.send_signal(signal.SIGINT)
        out, errors = self.process.communicate(timeout=30)
        return self.process.returncode, out, errors


@pytest.fixture(name="shop")
def make_shop(tmp_path: Path) -> Path:
    """Return a folder with an app and a journal in which one of its runs waits."""
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    with bank(tmp_path / "paor.db", [], 5) as engine:
        engine.run("Pay five")
    return tmp_path


@pytest.mark.whole
def test_the_command_shows_and_answers(shop: Path) -> None:
    """It prints the address, takes the answer of somebody with a name, says who goes on, and ends with Ctrl-C while somebody listens."""
    command = Command(shop)
    browser = Browser(command.first)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", command.first)
    (wait,) = browser.get("data/index").json["waits"]
    with browser.events("events") as events:
        next(events)
        given = {"name": wait["name"], "answer": {"approve": True}}
        assert browser.post(f"answer/{wait['run']}", given).status == 400
        told = browser.post(f"answer/{wait['run']}", given | {"actor": "ann"})
        assert told.json["drives"] is False
        code, out, errors = command.interrupt()
    assert (code, out) == (0, "") and "paor resume, paor recover" in errors and "Traceback" not in errors
    with Journal(shop / "paor.db", read_only=True) as journal:
        (run_id,) = [run.run_id for run in journal.runs()]
        assert journal.transitions(run_id)[-1].trigger == "provide"
        (decided,) = journal.calls(run_id)[0].decided
        assert decided.actor == "ann"


@pytest.mark.whole
def test_the_command_goes_on_with_an_app(shop: Path) -> None:
    """The run ends in the process of the command; what its tools print is not mixed with the address."""
    command = Command(shop, "--app", "shop:make", "--json")
    browser = Browser(json.loads(command.first)["url"])
    (wait,) = browser.get("data/index").json["waits"]
    with browser.events(f"events/{wait['run']}?after=1") as events:
        told = browser.post(
            f"answer/{wait['run']}", {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}
        )
        assert told.json["drives"] is True, told.json
        assert [name for name, _, _ in events][-1] == "end"
    code, out, errors = command.interrupt()
    assert (code, out) == (0, "") and "paying 5" in errors


@pytest.mark.whole
@pytest.mark.parametrize("given", [(), ("--app", "shop:make")])
def test_the_command_only_shows(given: tuple[str, ...], shop: Path) -> None:
    """With --read-only; nothing is written, nor beside the file."""
    before = (shop / "paor.db").read_bytes()
    command = Command(shop, "--read-only", *given)
    browser = Browser(command.first)
    index = browser.get("data/index").json
    (wait,) = index["waits"]
    assert index["actions"] is False
    assert (
        browser.post(
            f"answer/{wait['run']}", {"name": wait["name"], "answer": {"approve": True}, "actor": "ann"}
        ).status
        == 403
    )
    assert command.interrupt()[0] == 0
    assert (shop / "paor.db").read_bytes() == before
    assert sorted(item.name for item in shop.iterdir() if item.name.startswith("paor.db")) == ["paor.db"]


def refused(folder: Path, *arguments: str, **variables: str) -> str:
    """Run the command, which refuses; return its line."""
    done = subprocess.run(
        [sys.executable, "-m", "paor", "inspect", *arguments],
        cwd=folder,
        env=own_environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done
    lines = done.stderr.splitlines()
    assert len(lines) <= 2 and (len(lines) == 1 or lines[1].startswith("help:")), lines
    return lines[0]


@pytest.mark.whole
def test_what_the_command_refuses(shop: Path) -> None:
    """In one line, with exit code 2, before anything is served."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1:{port} cannot be used" in refused(shop, "--port", port)
    assert "--allow-remote" in refused(shop, "--host", "0.0.0.0")
    for app_option in ((), ("--read-only",), ("--app", "shop:make", "--read-only")):
        assert "no such journal" in refused(shop, "--journal", "none.db", *app_option)
        assert not (shop / "none.db").exists()
    assert "not a paor journal" in refused(shop, "--journal", "shop.py")
    assert "expected a name" in refused(shop, "--allow-host", "a b")
    assert "has no nothing" in refused(shop, "--app", "shop:nothing")
    assert "cannot be used" in refused(shop, "--host", "192.0.2.7", "--allow-remote", "--port", "0")
    assert refused(shop, "--port", "99999").startswith("paor inspect:")


@pytest.mark.whole
def test_other_machines_are_let_in_with_the_token(shop: Path) -> None:
    """The address is one that can be opened here; a name that nobody named is refused all the same."""
    command = Command(shop, "--host", "0.0.0.0", "--allow-remote", "--allow-host", "shop.example")
    browser = Browser(command.first)
    assert browser.get("data/index").status == 200
    assert browser.get("data/index", Host="evil.example").status == 403
    browser.cookie = browser.cookie.replace(f"_{browser.port}", "")
    assert browser.get("data/index", Host="shop.example").status == 200
    browser.cookie = ""
    assert browser.get("data/index").status == 401
    assert command.interrupt()[0] == 0


@pytest.mark.whole
def test_a_missing_library_is_named(shop: Path) -> None:
    """With what to install; nothing else of paor needs it."""
    (shop / "uvicorn.py").write_text("raise ModuleNotFoundError('no', name='uvicorn')\n", encoding="utf-8")
    line = refused(shop, PYTHONPATH=os.pathsep.join((str(shop), own_environment()["PYTHONPATH"])))
    assert line == 'paor: paor inspect needs starlette and uvicorn: pip install "paor[inspect]"'
    code = "import paor, sys; paor.Engine; assert not {'uvicorn', 'starlette'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], env=own_environment(), check=True, cwd=ROOT)


def test_addresses_are_told_as_a_browser_takes_them() -> None:
    """Of every address the one of this machine; IPv6 in brackets."""
    for host, words in (
        ("127.0.0.1", "http://127.0.0.1:"),
        ("localhost", "http://127.0.0.1:"),
        ("::1", "http://[::1]:"),
    ):
        try:
            bound = listen(host, 0)
        except UsageError:
            assert host == "::1"  # no IPv6 here
            continue
        with closing(bound):
            assert base_address(bound).startswith(words)
    for port in (-1, 65536, "80", True):
        with pytest.raises(UsageError, match="0 to 65535"):
            listen("127.0.0.1", port)  # type: ignore[arg-type]
