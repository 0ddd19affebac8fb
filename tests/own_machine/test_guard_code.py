"""What `impurities` finds in the code of a host's guard, what it leaves alone, and what it says."""

from __future__ import annotations

import importlib.abc
import textwrap
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType

import pytest

from paor.machine import GuardContext

from .inside import GUARDS, impurities


class Source(importlib.abc.InspectLoader):
    """Makes a module of a text, without a file."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, fullname: str) -> str:
        """Return the text, whatever the module is called."""
        return self.text


def module(text: str, name: str = "desk.guards") -> ModuleType:
    """Return a host's module with this text."""
    made = module_from_spec(ModuleSpec(name, Source(textwrap.dedent(text))))
    assert made.__spec__ is not None and isinstance(made.__spec__.loader, Source)
    made.__spec__.loader.exec_module(made)
    return made


def of(text: str, name: str = "guard") -> tuple[str, ...]:
    """Return what is found in the function of that name in a module with this text."""
    return impurities(getattr(module(text), name))


def of_expression(setup: str, expression: str) -> tuple[str, ...]:
    """Return what is found in a guard that returns the value of an expression."""
    return of(f"{textwrap.dedent(setup)}\ndef guard(context):\n    return {expression}\n")


IMPURE = {
    "uses time.time": ("import time", "time.time() > 0"),
    "fromtimestamp without a time zone": (
        "from datetime import datetime",
        "datetime.fromtimestamp(context.at).hour > 3",
    ),
    "random.Random.random": ("from random import random", "random() > 0.5"),
    "os.environ": ("import os", "os.environ['HOME'] == '/'"),
    "uses id": ("", "id(context) > 1"),
    ".is_file()": ("from pathlib import Path\nFLAG = Path('a')", "FLAG.is_file()"),
    "socket.socket": ("import socket", "socket.socket() is None"),
    "subprocess.run": ("import subprocess", "subprocess.run(['a']).returncode == 0"),
    "log, a logging.Logger": ("import logging\nlog = logging.getLogger('a')", "log.info('x') is None"),
    "uses threading.": ("from threading import Lock", "Lock().locked()"),
    "uses eval": ("", "eval('1')"),
    "reads SEEN, a list": ("SEEN = []", "len(SEEN) > 1"),
    "reads NUMBERS, a count": ("from itertools import count\nNUMBERS = count()", "next(NUMBERS) > 1"),
    "reads STATE, a State": (
        "class State:\n    def __init__(self): self.on = 1\nSTATE = State()",
        "STATE.on > 1",
    ),
    "changes context with .append()": ("", "context.items.append(1) is None"),
    "changes context with .discard()": ("def drop(names): return names.discard(1)", "drop(context.names)"),
    "with object.__setattr__() of context": ("", "object.__setattr__(context, 'a', 1) is None"),
    "uses later, which is not defined yet": ("", "later(context)"),
}

IMPURE_GUARDS = {
    "sets the global SEEN": """
        SEEN = 0
        def guard(context):
            global SEEN
            SEEN = 1
            return True
        """,
    "sets the attribute seen of context": """
        def guard(context):
            context.seen = True
            return True
        """,
    "an item of context": """
        def guard(context):
            rows = context.rows
            del rows[0]
            return True
        """,
    "imports elsewhere": """
        def guard(context):
            import elsewhere.inside
            return elsewhere.inside.clock() > 0
        """,
    "in helper, line 5: uses time.time": """
        import time

        def helper(context):
            return time.time()

        def guard(context):
            return helper(context) > 0
        """,
    "reads its Desk, a Desk that can change": """
        class Desk:
            def __init__(self): self.limit = 3
            def office_hours(self, context): return context.a > self.limit
        guard = Desk().office_hours
        """,
    "reads seen, a list": """
        def guard(context, seen=[]):
            seen.append(context.a)
            return len(seen) > 3
        """,
    "is async": "async def guard(context): return True",
    "is a generator": "def guard(context): yield True",
    "<lambda>: has no name": "guard = lambda context: True",
    "cannot be called with exactly one": "def guard(context, other): return True",
    "int: is not callable": "guard = 3",
    "len: is a builtin_function_or_method": "guard = len",
    "too deep": "def f0(x): return True\n"
    + "".join(f"def f{n}(x): return f{n - 1}(x)\n" for n in range(1, 40))
    + "def guard(context): return f39(context)",
}


@pytest.mark.parametrize("culprit", IMPURE)
def test_an_impure_expression_is_named(culprit: str) -> None:
    """In the guard itself, by whatever name it goes there."""
    found = of_expression(*IMPURE[culprit])
    assert any(culprit in sentence for sentence in found), found
    assert all(
        sentence.startswith(("guard, line ", "guard, in ")) and "\n" not in sentence for sentence in found
    )


@pytest.mark.parametrize("culprit", IMPURE_GUARDS)
def test_an_impure_guard_is_named(culprit: str) -> None:
    """One case for each kind of statement, of callable, and of function that acts for the guard."""
    found = of(IMPURE_GUARDS[culprit])
    assert any(culprit in sentence for sentence in found), found


PURE = {
    "attributes": ("", "context.run.counters.step > 3 and context.outcome is not None"),
    "a recorded time": (
        "from datetime import datetime, UTC",
        "context.at > datetime(2026, 1, 1, tzinfo=UTC)",
    ),
    "modules": (
        "import json, math, re\nWORD = re.compile('a')",
        "math.isclose(json.loads(context.a)['b'], math.pi) or bool(WORD.search(context.answer))",
    ),
    "a tuple": ("NAMES = ('a', ('b', 3.5, None, ..., b'c', True, 1j, range(3)))", "context.a in NAMES"),
    "a mapping": (
        "from types import MappingProxyType\nLIMITS = MappingProxyType({'a': 1})",
        "context.a < LIMITS['a'] and LIMITS.get('a')",
    ),
    "a frozen model": (
        "from pydantic import BaseModel\nclass Limits(BaseModel, frozen=True):\n    a: int = 3\nLIMITS = Limits()",
        "LIMITS.a > 3 and Limits(a=3).a > context.a",
    ),
    "a helper that fills what it gets": ("def fill(rows): return rows.append(1)", "fill([]) is None"),
    "a cached helper": (
        "from functools import cache\n@cache\ndef low(a): return a.lower()",
        "low(context.a) == 'a'",
    ),
}
PURE_GUARDS = {
    "what it makes itself": """
        def guard(context):
            found, seen = [], {}
            for row in context.rows:
                found.append(row)
                seen[row] = seen.get(row, 0) + 1
            return len(found) > 3 and bool(seen)
        """,
    "inner functions": """
        def guard(context):
            count = 0
            def inner(by=1):
                nonlocal count
                count += by
                return count
            return sum([inner(), inner(by=2)]) > 3
        """,
    "a method": "class A:\n    limit = 3\n    def guard(self, context): return context.a > self.limit\nguard = A().guard",
    "a frozen callable": "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A:\n    limit: int\n    def __call__(self, context): return context.a > self.limit\nguard = A(3)",
    "a partial": "from functools import partial\ndef f(limit, context, *, more): return context.a > limit + more\nguard = partial(f, 3, more=1)",
    "with a limit": "def above(limit):\n    def guard(context): return context.a > limit\n    return guard\nguard = above(3)",
}


@pytest.mark.parametrize("name", PURE)
def test_nothing_is_found_in_a_pure_expression(name: str) -> None:
    """A false alarm would keep a good guard out."""
    assert of_expression(*PURE[name]) == ()


@pytest.mark.parametrize("name", PURE_GUARDS)
def test_nothing_is_found_in_a_pure_guard(name: str) -> None:
    """A guard may make and change what is its own, and be any kind of function."""
    assert of(PURE_GUARDS[name]) == ()


@pytest.mark.parametrize("name", GUARDS)
def test_nothing_is_found_in_the_guards_of_the_table(name: str) -> None:
    """What is asked of a host holds for paor."""
    assert impurities(GUARDS[name]) == ()


def test_a_finding_is_said_once_for_each_function() -> None:
    """With the first line; what two functions do is two findings."""
    found = of(
        """
        import time
        def other(context): return time.time() + time.time()
        def guard(context):
            return time.time() > 0 and (
                time.time() > 0 or other(context) > 0
            )
        """
    )
    why = "uses time.time: a clock; take the time from the context"
    assert found == (f"guard, line 5: {why}", f"guard, in other, line 3: {why}")


def test_what_raises_when_it_is_looked_at_is_no_traceback() -> None:
    """The guard is refused, and the sentence says why."""
    found = of(
        """
        class Hostile:
            @property
            def __dict__(self): raise RuntimeError("no")
        HOSTILE = Hostile()
        def guard(context): return context.a is HOSTILE
        """
    )
    assert found == ("guard, line 6: cannot be examined: that raises RuntimeError",)


def test_no_code_of_the_host_runs() -> None:
    """Not a property, a comparison, a hash, a representation, nor the guard."""
    found = of(
        """
        from dataclasses import dataclass
        def fails(*args): raise AssertionError("called")
        @dataclass(frozen=True)
        class Limits:
            a: int = 3
            __eq__ = __hash__ = __repr__ = __str__ = __len__ = __bool__ = __iter__ = __getattr__ = fails
            size = property(fails)
        LIMITS = Limits()
        def guard(context): return LIMITS.a > LIMITS.size or fails(LIMITS, {LIMITS: LIMITS})
        """
    )
    assert found == ()


def test_an_assert_that_pytest_has_rewritten_is_still_pure() -> None:
    """A host's guards stand in its test files, too."""

    def asserting(context: GuardContext) -> bool:
        """The call has an amount."""
        assert context.call is not None
        return bool(context.call.arguments["amount"] < 10)

    assert any(
        name.startswith("@py") for name in asserting.__code__.co_names
    )  # as this file is compiled by pytest
    assert impurities(asserting) == ()
