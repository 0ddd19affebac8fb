"""
The same service with each library, killed: what is lost, what is doubled. README.md here has the specification.

    python hosts.py --trials 3                # every host and every scenario, as a table
    python hosts.py paor --only silent        # one host, the scenarios whose names have this word
    python hosts.py serve paor 8000           # one host as a service, in this folder

A host is a module with a FastAPI ``app``. It runs as a process of its own, beside a second one on the same files. It knows nothing
of being killed: what kills it is put around the bank when it is served.
"""

from __future__ import annotations

import argparse
import ast
import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
HOSTS = {
    "paor": (EXAMPLES / "host_service.py", "paor"),
    "langgraph": (HERE / "host_langgraph.py", "langgraph"),
    "pydantic-ai": (HERE / "host_pydantic_ai.py", "pydantic-ai-slim"),
}
RUNS = 10
LIMIT = 100
"""Amounts above this need a person."""
DENIED = "O-10"
PERSON = "ann"
PATIENCE_S = 20.0
"""So long all runs of a scenario may take after the last kill."""


# -- a host as a process, with what kills it ------------------------------------------------------------------------


def serve(host: str, port: int) -> None:
    """Serve a host until this process is killed; see `Fault` for what the environment says."""
    sys.path[:0] = [str(EXAMPLES), str(HERE)]
    import host_bank
    import uvicorn

    fault = Fault(**json.loads(os.environ.get("FAULT", "{}")))
    host_bank.Bank.pay = paying(host_bank.Bank.pay, fault)
    if fault.silent:
        host_bank.Bank.receipt = silent
    uvicorn.run(f"{HOSTS[host][0].stem}:app", host="127.0.0.1", port=port, log_level="error")


@dataclass(frozen=True)
class Fault:
    """
    What goes wrong in a process.

    Attributes:
        kill: When it is killed, in its payment number *at*: ``before`` the bank pays, ``middle``: the bank has paid and its
            answer is lost, ``after``: the tool has returned, nothing has stored its result; empty for never.
        at: Number of the payment, from 1.
        silent: Whether the bank never tells what was paid.
        slow_s: How long a payment takes, in seconds, half of it before the bank pays.
    """

    kill: str = ""
    at: int = 3
    silent: bool = False
    slow_s: float = 0.05


def silent(self: Any, key: str) -> str:
    """Stand in for `Bank.receipt` of a bank that does not tell."""
    raise ConnectionError("the bank does not tell what was paid")


def paying(pay: Callable[..., str], fault: Fault) -> Callable[..., str]:
    """Return a slow `Bank.pay` in which the process is killed as *fault* says."""
    numbers = itertools.count(1)

    def die(*ignored: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(*arguments: Any) -> str:
        point = fault.kill if next(numbers) == fault.at else ""
        tool = sys._getframe(1)
        if point == "before":
            die()
        time.sleep(fault.slow_s / 2)
        receipt = pay(*arguments)
        if point == "middle":
            die()
        time.sleep(fault.slow_s / 2)
        if point == "after":

            def returned(frame: FrameType, event: str, value: object) -> None:
                if event == "return" and frame is tool:
                    die()

            sys.setprofile(returned)
        return receipt

    return wrapped


class Service:
    """
    One process of a host.

    Args:
        host: Name in `HOSTS`.
        folder: Where its files are; processes of one folder share them.
        fault: What goes wrong in it.
    """

    def __init__(self, host: str, folder: Path, fault: Fault) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.host, self.folder = host, folder
        self.start(fault)

    def start(self, fault: Fault) -> None:
        """Start the process, and wait until it answers or has died."""
        self.log = self.folder.joinpath(f"{self.port}.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve", self.host, str(self.port)],
            cwd=self.folder,
            env=os.environ | {"FAULT": json.dumps(vars(fault))},
            stdout=self.log,
            stderr=self.log,
        )
        until = time.monotonic() + 60
        while self.process.poll() is None:
            with suppress(OSError):
                self.call("/refunds")
                return
            if time.monotonic() > until:
                raise TimeoutError(f"{self.host} does not answer")
            time.sleep(0.05)
        if self.process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"{self.host} ended by itself:\n{Path(self.log.name).read_text()}")

    @property
    def dead(self) -> bool:
        """Whether the process has been killed."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        return self.process.poll() is not None

    def kill(self) -> None:
        """End the process as a crash does."""
        self.process.kill()
        self.process.wait()
        self.log.close()

    def call(self, path: str, body: object = None, key: str = "") -> tuple[int, Any]:
        """Return status and JSON; raise OSError if nobody answers."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, http.client.HTTPException, ValueError) as error:  # nobody, or killed in the middle
            raise OSError(str(error)) from None


# -- scenarios -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """
    What happens to two processes, A that gets the requests and B that gets the answers.

    Attributes:
        name: For the table.
        first, second: What goes wrong in A and in B.
        act: ``waiting``: both are killed while runs wait; ``beside``: A is killed and started again while B pays; ``twice``:
            each answer goes to both at once; else empty.
    """

    name: str
    first: Fault = Fault()
    second: Fault = Fault()
    act: str = ""


def scenarios() -> Iterator[Scenario]:
    """Yield every scenario."""
    yield Scenario("nothing is killed")
    yield Scenario("both killed while runs wait", act="waiting")
    yield Scenario("each answer given twice at once", second=Fault(slow_s=0.5), act="twice")
    yield Scenario("restart beside a process that pays", second=Fault(slow_s=8), act="beside")
    for mute in (False, True):
        bank = "silent bank" if mute else "bank that tells"
        other = Fault(silent=mute)
        for point, words in POINTS.items():
            fault = Fault(point, silent=mute)
            yield Scenario(f"{bank}: killed {words}", fault, other)
            yield Scenario(f"{bank}: approved, killed {words}", other, fault)


POINTS = {"before": "before the payment", "middle": "in the payment", "after": "after the payment"}


@dataclass
class Seen:
    """
    What a scenario has come to.

    Attributes:
        lost: Refunds that were due and not paid.
        doubled: Payments beyond the first one of an order.
        not_approved: Payments that a person has denied.
        unended, started_twice: Runs that had no end after `PATIENCE_S`; runs beyond the first one of a request.
        wrong_output: Runs without the decision that is right.
        approver_lost: Runs that needed a person and do not say who it was.
        asked_again: Approvals that a person had given and was asked for once more.
        in_doubt: Questions about a payment that may have happened; an answer, not a fault.
        kills: Processes that were killed.
        unexpected: Answers of the service that nothing explains.
    """

    lost: int = 0
    doubled: int = 0
    not_approved: int = 0
    unended: int = 0
    started_twice: int = 0
    wrong_output: int = 0
    approver_lost: int = 0
    asked_again: int = 0
    in_doubt: int = 0
    kills: int = 0
    unexpected: list[str] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        """Add another trial to this one."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Trial:
    """A scenario with a host."""

    host: str
    scenario: Scenario
    folder: Path
    seen: Seen = field(default_factory=Seen)
    answered: set[str] = field(default_factory=set)

    def run(self) -> Seen:
        """Play the scenario, wait for the runs' ends and count."""
        self.a = Service(self.host, self.folder, self.scenario.first)
        self.b = Service(self.host, self.folder, self.scenario.second)
        try:
            self.post_all()
            self.mend()
            if self.scenario.act == "waiting":
                for service in (self.a, self.b):
                    service.kill()
                self.mend()
            self.post_all()
            if self.scenario.act == "beside":
                self.beside()
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until and not self.all_ended():
                self.answer_all()
                self.mend()
                time.sleep(0.1)
            self.count()
        finally:
            for service in (self.a, self.b):
                service.kill()
        return self.seen

    def orders(self) -> Iterator[tuple[str, int]]:
        """Yield order and amount: every other one needs a person."""
        for number in range(1, RUNS + 1):
            yield f"O-{number}", 250 if number % 2 == 0 else 50

    def post_all(self) -> None:
        """Send all requests at once to A, as clients do that send again what was not answered."""

        def post(order: tuple[str, int]) -> None:
            with suppress(OSError):
                body = {"order_id": order[0], "amount": order[1]}
                self.expect(self.a.call("/refunds", body, f"message-{order[0]}"))

        with ThreadPoolExecutor(RUNS) as pool:
            list(pool.map(post, self.orders()))

    def expect(self, answer: tuple[int, Any]) -> None:
        """Keep answers that nothing explains: a conflict is one that does."""
        if answer[0] not in (200, 409):
            self.seen.unexpected.append(f"{answer[0]} {str(answer[1])[:200]}")

    def mend(self) -> None:
        """Start what has died again, without a fault but that of the bank, and give it a moment to recover."""
        for service, fault in ((self.a, self.scenario.first), (self.b, self.scenario.second)):
            if service.dead:
                self.seen.kills += 1
                service.log.close()
                service.start(Fault(silent=fault.silent))
                time.sleep(1)

    def beside(self) -> None:
        """Let B begin its payments, then kill A and start it again."""
        answering = threading.Thread(target=self.answer_all)
        answering.start()
        time.sleep(1)
        self.a.kill()
        self.mend()
        answering.join()

    def answer_all(self) -> None:
        """Answer what waits, as the person that was asked; a doubt by a look into the ledger."""

        def give(question: dict[str, Any], service: Service) -> None:
            with suppress(OSError):
                self.expect(service.call(f"/questions/{question['run_id']}", self.decision(question)))

        with suppress(OSError):
            questions = self.b.call("/questions")[1]
            asked = [question for question in questions if isinstance(question, dict)]
            self.seen.in_doubt += sum(question["kind"] == "in_doubt" for question in asked)
            approvals = [question["run_id"] for question in asked if question["kind"] == "approval"]
            self.seen.asked_again += len(self.answered.intersection(approvals))
            self.answered.update(approvals)
            to = (self.a, self.b) if self.scenario.act == "twice" else (self.b,)
            with ThreadPoolExecutor(2 * RUNS) as pool:
                for question, service in itertools.product(asked, to):
                    pool.submit(give, question, service)

    def decision(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return a person's answer."""
        order_id = question["arguments"]["order_id"]
        if question["kind"] == "in_doubt":
            outcome = "done" if order_id in self.paid() else "retry"
            return {"question": question["id"], "actor": "joe", "outcome": outcome}
        approval = {"approve": order_id != DENIED}
        return {"question": question["id"], "actor": PERSON, "answer": approval}

    def paid(self) -> list[str]:
        """Return the orders of the ledger, one for each payment."""
        ledger = self.folder / "ledger.txt"
        return [line.split()[1] for line in ledger.read_text().splitlines()] if ledger.exists() else []

    def all_ended(self) -> bool:
        """Return whether every run has ended."""
        with suppress(OSError):
            rows = self.b.call("/refunds")[1]
            return len(rows) >= RUNS and all(row["status"] in ("done", "failed") for row in rows)
        return False

    def count(self) -> None:
        """Compare the ledger and what the service says of its runs with what was asked for."""
        paid, seen = self.paid(), self.seen
        rows = [self.b.call(f"/refunds/{row['id']}")[1] for row in self.b.call("/refunds")[1]]
        decided = {row["decision"]["order_id"]: row for row in rows if row["decision"]}
        seen.started_twice = max(0, len(rows) - RUNS)
        seen.unended = max(0, RUNS - sum(row["status"] in ("done", "failed") for row in rows))
        for order_id, amount in self.orders():
            times, due = paid.count(order_id), order_id != DENIED
            seen.lost += due and times == 0
            seen.doubled += max(0, times - 1)
            seen.not_approved += times if not due else 0
            row = decided.get(order_id)
            if row is not None:
                seen.wrong_output += row["decision"]["refunded"] != (amount if due else 0)
                seen.approver_lost += amount > LIMIT and PERSON not in row["decided_by"]
            else:
                seen.wrong_output += 1


# -- the table -------------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> int:
    """Return how many lines have code: not blank, no comment, no docstring."""
    text = path.read_text(encoding="utf-8")
    left = {
        number
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#")
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                left -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(left)


def cell(seen: Seen) -> str:
    """Return what a scenario came to in a few words."""
    words = {
        "lost": "lost",
        "doubled": "doubled",
        "not_approved": "paid although denied",
        "unended": "never ended",
        "started_twice": "started twice",
        "wrong_output": "outputs wrong",
        "approver_lost": "approvers lost",
        "asked_again": "approved twice",
        "in_doubt": "in doubt, asked",
    }
    said = [f"{count} {text}" for name, text in words.items() if (count := getattr(seen, name))]
    said += [f"unexpected: {seen.unexpected[0]}"] if seen.unexpected else []
    return ", ".join(said) or "-"


def played(host: str, scenario: Scenario) -> Seen:
    """
    Return what a scenario came to with a host.

    Raises:
        RuntimeError: Nothing was killed where something should have been: the trial says nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        seen = Trial(host, scenario, Path(folder)).run()
    faults = (scenario.first.kill, scenario.second.kill, scenario.act in ("waiting", "beside"))
    if any(faults) and not seen.kills:
        raise RuntimeError(f"{host}, {scenario.name}: nothing was killed")
    return seen


def main(hosts: list[str], only: str, trials: int) -> None:
    """Play the scenarios and print the table."""
    runs = RUNS * trials
    print(f"| of {runs} runs, {RUNS} at once |", " | ".join(hosts), "|")
    print("|---|" + "---|" * len(hosts))
    print("| version |", " | ".join(version(HOSTS[host][1]) for host in hosts), "|")
    print("| lines of code |", " | ".join(str(lines_of(HOSTS[host][0])) for host in hosts), "|")
    for scenario in scenarios():
        if only in scenario.name:
            total = {host: Seen() for host in hosts}
            for _ in range(trials):
                for host in hosts:
                    total[host].add(played(host, scenario))
            print(f"| {scenario.name} |", " | ".join(map(cell, total.values())), "|", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("hosts", nargs="*", default=list(HOSTS))
        parser.add_argument("--only", default="")
        parser.add_argument("--trials", type=int, default=1)
        given = parser.parse_args()
        main(given.hosts, given.only, given.trials)
