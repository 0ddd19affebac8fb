"""The example's chat in Chromium: what a person sees while runs go on, whatever becomes of the page, its server, or another page."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Journal

from ..support.pages import ROOT
from .inspect_kit import own_environment

EXAMPLE = ROOT / "examples" / "chat_service.py"
LINES_MAX = 120


class Desk:
    """The service in a folder of its own; it can be killed and started again under the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; who connects before it is ready waits in the socket, which is open already."""
        self._listener.set_inheritable(True)
        path = os.pathsep.join((str(ROOT / "examples"), own_environment()["PYTHONPATH"], str(ROOT)))
        number = self._listener.fileno()
        command = [sys.executable, "-m", "uvicorn", "tests.page.chat_app:app", "--fd", str(number)]
        environment = own_environment(PYTHONPATH=path)
        self.process = subprocess.Popen(command, cwd=self.folder, env=environment, pass_fds=(number,))

    def kill(self) -> None:
        """Kill it, wherever it is."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def go(self) -> None:
        """Let the model say the rest of its answers."""
        (self.folder / "go").touch()

    def hold(self) -> None:
        """Have it wait again."""
        (self.folder / "go").unlink()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Give the service, running."""
    found = Desk(tmp_path)
    found.start()
    try:
        yield found
    finally:
        found.go()
        found.kill()


@contextmanager
def pages(chromium: Any, *addresses: str) -> Iterator[list[Any]]:
    """Give pages in contexts of their own."""
    contexts = [chromium.new_context() for _ in addresses]
    try:
        found = [context.new_page() for context in contexts]
        for page, address in zip(found, addresses, strict=True):
            page.set_default_timeout(30_000)
            page.goto(address)
        yield found
    finally:
        for context in contexts:
            context.close()


def say(page: Any, text: str) -> None:
    """Send a message."""
    page.locator("input").fill(text)
    page.get_by_role("button", name="Send").click()


def shows(page: Any, text: str, selector: str = "section") -> None:
    """Wait until the page shows a text."""
    page.locator(selector).last.get_by_text(text).first.wait_for()


@pytest.mark.whole
def test_words_come_and_a_reload_goes_on_where_it_was(desk: Desk, chromium: Any) -> None:
    """Two tools at the same time; half an answer is shown, also after a reload and in a second page; then the rest of it."""
    chat = f"{desk.address}/?chat=one&user=ann"
    with pages(chromium, chat) as (page,):
        say(page, "Where are my orders?")
        shows(page, "Both are", "section p")
        assert page.locator("section p").inner_text() == "Both are "[:-1]
        assert page.locator("section li").count() == 2
        page.locator("section tr").nth(1).wait_for()
        cells = page.locator("section td").all_inner_texts()
        assert cells == ["O-1", "Leeds", "250", "O-2", "Leeds", "250"]
        page.reload()
        shows(page, "Both are", "section p")
        assert page.locator("section li").count() == 2
        with pages(chromium, chat) as (other,):
            shows(other, "Both are", "section p")
            desk.go()
            for each in (page, other):
                shows(each, "Both are in Leeds.", "section p")
                each.locator("section.done").wait_for()
        say(page, "And now?")
        page.locator("section.done").nth(1).wait_for()
    with Journal(desk.folder / "chat.db", read_only=True) as journal:
        conversation = journal.conversation("one")
        assert [message.text for message in conversation.messages if message.role == "user"] == [
            "Where are my orders?",
            "And now?",
        ]
        first, second = journal.calls(conversation.runs[0].run_id)
        assert first.tool == second.tool == "orders.find"


@pytest.mark.whole
def test_another_person_approves_and_both_see_it(desk: Desk, chromium: Any) -> None:
    """
    The question, with the call's arguments, appears in the other's page, open all the time, which answers it under its own name.

    Who asked cannot approve, and the page says so.
    """
    desk.go()
    chat = f"{desk.address}/?chat=two&user="
    with pages(chromium, chat + "ann", chat + "bob") as (ann, bob):
        say(ann, "A refund, please")
        with ann.expect_event("dialog", lambda dialog: dialog.dismiss() is None) as refused:
            ann.get_by_role("button", name="Approve").click()
        assert "Another person" in refused.value.message
        shows(bob, '{"order_id":"O-1","amount":250}')
        bob.get_by_role("button", name="Approve").click()
        for page in (ann, bob):
            page.locator("section.done").wait_for()
            assert page.get_by_role("button", name="Approve").count() == 0
    with Journal(desk.folder / "chat.db", read_only=True) as journal:
        (row,) = journal.runs()
        (made,) = journal.calls(row.run_id)
        assert [decided.actor for decided in made.decided] == ["bob"]


@pytest.mark.whole
def test_a_run_is_cancelled_and_one_whose_server_was_killed_is_recovered(desk: Desk, chromium: Any) -> None:
    """The page that was open all the time connects again by itself and shows the end."""
    with pages(chromium, f"{desk.address}/?chat=three&user=ann") as (page,):
        say(page, "Where are my orders?")
        shows(page, "Both are", "section p")
        page.get_by_role("button", name="Cancel").click()
        page.locator("section.failed").wait_for()
        say(page, "Where are my orders now?")
        shows(page, "Both are", "section:last-child p")
        desk.kill()
        with Journal(desk.folder / "chat.db") as journal:
            row = journal.runs()[0]
            assert (row.status, row.driver) == ("running", None)
        desk.go()
        desk.start()
        page.locator("section.done").wait_for()
        assert page.locator("section.done p").inner_text() == "Both are in Leeds."
        assert page.locator("section.done li").count() == 2


def test_a_closed_page_leaves_its_run_going_and_refusals_are_said_at_once(desk: Desk) -> None:
    """Without a browser: a listener that goes changes nothing; an unknown run is a 404, not a broken stream."""
    request = urllib.request.Request(
        f"{desk.address}/chats/four",
        data=json.dumps({"text": "Where are my orders?"}).encode(),
        headers={"content-type": "application/json", "user": "ann"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        run = json.load(answer)
    with urllib.request.urlopen(f"{desk.address}/runs/{run}/events", timeout=60) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.readline() == b"event: start\n"
    with pytest.raises(urllib.error.HTTPError) as busy:
        urllib.request.urlopen(request, timeout=60)
    assert busy.value.code == 409
    desk.go()
    ids: list[str] = []
    with urllib.request.urlopen(f"{desk.address}/runs/{run}/events", timeout=60) as stream:
        for line in stream:
            if line.startswith(b"id: "):
                ids.append(line[4:].decode().strip())
    resumed = urllib.request.Request(f"{desk.address}/runs/{run}/events", headers={"Last-Event-ID": ids[2]})
    with urllib.request.urlopen(resumed, timeout=60) as stream:
        again = [line[4:].decode().strip() for line in stream if line.startswith(b"id: ")]
    assert again == ids[3:] and ids[-1] == ids[-2] == str(len(ids) - 2)
    with pytest.raises(urllib.error.HTTPError) as unknown:
        urllib.request.urlopen(f"{desk.address}/runs/nobody-here/events", timeout=60)
    assert unknown.value.code == 404


@pytest.mark.whole
def test_the_example_is_short_and_typed() -> None:
    """What a host writes for all of this: at most so many lines, the page among them, without a word to a type checker."""
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= LINES_MAX
    for command in (["mypy", "--strict"], ["pyright"]):
        checked = subprocess.run(
            [*command, str(EXAMPLE)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout
