"""What the names in a host's function warn of, what they leave alone, and what they cannot show."""

from __future__ import annotations

import datetime
import decimal
import functools
import operator
import os
import random
import statistics
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Machine, Phase
from paor.machine import GuardContext

from .inside import GUARDS, impure_names

SEEN: list[int] = []
FLAG = Path("flag")
LIMITS = {"bank.pay": 100}


def reads_a_clock(context: Any) -> bool:
    return time.time() > 0


def asks_now(context: Any) -> bool:
    return datetime.datetime.now(datetime.UTC).hour > 3


def asks_the_now_of_its_context(context: Any) -> bool:
    return bool(context.now.now(datetime.UTC).second)


def takes_the_time_zone_of_the_machine(context: Any) -> bool:
    return bool(context.now.astimezone().hour > 3)


def rolls(context: Any) -> bool:
    return random.random() > 0.5


def makes_an_id(context: Any) -> bool:
    return str(uuid.uuid4()) > "8"


def looks_at_the_environment(context: Any) -> bool:
    return os.environ["HOME"] == "/"


def compares_identities(context: Any) -> bool:
    return id(context) > 1


def looks_for_a_file(context: Any) -> bool:
    return FLAG.is_symlink() or Path("/").owner() == "root"


def asks_where_it_is(context: Any) -> bool:
    return Path.cwd() == Path("/")


def opens_a_file(context: Any) -> bool:
    return bool(open("flag"))


def counts_threads(context: Any) -> bool:
    return threading.active_count() > 1


def compiles(context: Any) -> bool:
    return bool(compile("1", "rule", "eval"))


def imports_within(context: Any) -> bool:
    import socket

    return bool(socket)


def sets_a_global(context: Any) -> bool:
    global FLAG
    FLAG = context.flag
    return True


def fills_a_global(context: Any) -> bool:
    SEEN.append(context.step)
    return len(SEEN) > 1


def sets_its_context(context: Any) -> bool:
    context.seen = True
    return True


def removes_an_item(context: Any) -> bool:
    del context.rows[0]
    return True


def helper(context: Any) -> float:
    return time.monotonic()


def asks_a_helper(context: Any) -> bool:
    return helper(context) > 1


def remembering() -> Callable[[Any], bool]:
    count = 0

    def remembers(context: Any) -> bool:
        nonlocal count
        count += 1
        return count % 2 == 0

    return remembers


WARNED: dict[Callable[[Any], bool], str] = {
    reads_a_clock: "uses time.time: a clock",
    asks_now: "uses datetime.datetime.now: a clock",
    asks_the_now_of_its_context: "calls .now(): a clock",
    takes_the_time_zone_of_the_machine: "calls .astimezone(): a clock, or the machine's time zone",
    rolls: "uses random.random: chance",
    makes_an_id: "uses uuid.uuid4: chance",
    looks_at_the_environment: "uses os.environ: it differs between machines",
    compares_identities: "uses builtins.id: it differs between machines",
    looks_for_a_file: "calls .is_symlink(): the file system",
    asks_where_it_is: "calls .cwd(): the file system",
    opens_a_file: "open: the outside",
    counts_threads: "uses threading.active_count: threads and tasks",
    compiles: "uses builtins.compile: code that nobody sees",
    imports_within: "uses socket: the outside",
    sets_a_global: "sets FLAG, which is not its own",
    fills_a_global: "changes SEEN with .append(), which is not its own",
    sets_its_context: "sets context.seen, which is not its own",
    removes_an_item: "sets context.rows[0], which is not its own",
    asks_a_helper: "uses time.monotonic: a clock",
    remembering(): "sets count, which is not its own",
}


@pytest.mark.parametrize("function", WARNED, ids=lambda function: function.__name__)
def test_an_impure_name_is_told(function: Callable[[Any], bool]) -> None:
    """With what it stands for, in one line."""
    found = impure_names(function)
    assert any(WARNED[function] in line for line in found), found
    assert not any("\n" in line for line in found)


def within_hours(context: GuardContext) -> bool:
    """The recorded time is one of the office's."""
    return 9 <= context.now.hour < 17 and context.now > datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def under_limit(context: GuardContext) -> bool:
    """A constant of the module is read, and nothing is changed."""
    found: dict[str, int] = {}
    for name, limit in LIMITS.items():
        found[name] = found.get(name, 0) + limit
    seen = [name for name in found if os.path.join("a", name)]
    seen.append("a")
    return len(seen) > context.counters.step


@functools.cache
def lower(text: str) -> str:
    return text.lower()


def named(context: GuardContext) -> bool:
    """It counts in a function of its own."""
    count = 0

    def add() -> None:
        nonlocal count
        count += len(lower("A"))

    add()
    return count > 0


@pytest.mark.parametrize(
    "function", [within_hours, under_limit, named, *GUARDS.values()], ids=lambda function: function.__name__
)
def test_nothing_is_told_of_a_pure_guard(function: Callable[[Any], bool]) -> None:
    """A guard may read constants, and make and change what is its own; paor's own guards name nothing impure."""
    assert impure_names(function) == ()


def puts_names_together(context: Any) -> bool:
    return bool(operator.methodcaller("to" + "day")(datetime.date))


def asks_a_package(context: Any) -> bool:
    return statistics.NormalDist().samples(1)[0] > 0


def asks_the_precision(context: Any) -> bool:
    return decimal.Decimal(1) / 3 > decimal.Decimal("0.33333333333333333333333333333")


def changes_by_a_detour(context: Any) -> bool:
    for held in [context.run.spec.values]:
        held["seen"] = True
    return True


@pytest.mark.parametrize(
    "function",
    [
        puts_names_together,
        asks_a_package,
        asks_the_precision,
        changes_by_a_detour,
        len,
        functools.partial(rolls),
    ],
    ids=lambda function: getattr(function, "__name__", "partial"),
)
def test_what_names_cannot_show_is_not_told(function: Callable[..., Any]) -> None:
    """The holes that docs/howto/machine.md names: it must not promise more than this."""
    assert impure_names(function) == ()


def machine_with(function: Callable[[Any], bool]) -> Machine:
    return Machine.standard().require("specify", function)


def test_an_engine_warns_at_the_line_that_makes_it_and_refuses_nothing() -> None:
    """Of each function of the machine, by its place."""
    asking = machine_with(reads_a_clock).phase(Phase("Asking", question=where_it_runs))
    asking = asking.row("Planning", "ask", "Asking", before="answer", at_most=1).row(
        "Asking", "end", "Failed"
    )
    with pytest.warns(UserWarning) as told, Engine("offline", journal=Journal(":memory:"), machine=asking):
        pass
    assert [str(item.message) for item in told] == [
        "guard reads_a_clock uses time.time: a clock; take the time from the context",
        "Asking.question uses os.getcwd: it differs between machines and processes; take it as a value",
    ]
    assert {item.filename for item in told} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Engine("offline", journal=Journal(":memory:"), machine=machine_with(named)).journal.close()


def where_it_runs(context: GuardContext) -> str:
    return f"May it run in {os.getcwd()}?"
