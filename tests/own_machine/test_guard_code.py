"""What `impurities` finds in the code of a host's guard, what it leaves alone, and what it says."""

from __future__ import annotations

import importlib.abc
import sys
import textwrap
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor.fsm.machine.guard_code import impurities
from paor.fsm.machine.guards import GUARDS
from paor.machine import GuardContext


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


EXPRESSIONS = {
    # clocks
    "time.time": ("import time", "time.time() > 0"),
    "time.monotonic": ("import time as t", "t.monotonic() > 0"),
    "time.sleep": ("import time; pause = time.sleep", "pause(1) is None"),
    "time.perf_counter": ("import time", "getattr(time, 'perf_counter')() > 0"),
    "datetime.datetime.now": ("from datetime import datetime", "datetime.now().hour > 9"),
    "datetime.date.today": ("from datetime import date as day", "day.today().year > 2000"),
    "datetime.datetime.now:": (
        "from datetime import datetime\nclass Stamp(datetime): pass",
        "Stamp.now().hour > 3",
    ),
    ".now()": ("def clock(): return None", "clock().now() > 3"),
    "fromtimestamp without a time zone": (
        "from datetime import datetime",
        "datetime.fromtimestamp(context.at).hour > 3",
    ),
    "astimezone without a time zone": ("", "context.at.astimezone().hour > 3"),
    "datetime.datetime.astimezone without": (
        "from datetime import datetime",
        "datetime(2026, 1, 1).astimezone().hour > 3",
    ),
    # chance
    "random.Random.random": ("from random import random", "random() > 0.5"),
    "a random.Random": ("from random import Random\ndice = Random(4)", "dice.random() > 0.5"),
    "secrets.token_hex": ("import secrets", "secrets.token_hex() > '8'"),
    "uuid.uuid4": ("from uuid import uuid4", "str(uuid4()) > '8'"),
    "os.urandom": ("import os", "os.urandom(1) > b'8'"),
    # the machine and the process
    "os.environ": ("import os", "os.environ['HOME'] == '/'"),
    "environ, a os._Environ": ("from os import environ", "'HOME' in environ"),
    "os.getenv": ("from os import getenv as env", "env('HOME') == '/'"),
    "os.getpid": ("import os", "os.getpid() > 1"),
    "sys.argv": ("import sys", "len(sys.argv) > 1"),
    "platform.node": ("import platform", "platform.node() == 'a'"),
    "id": ("", "id(context) > 1"),
    "hash": ("", "hash('a') > 1"),
    "globals": ("", "'x' in globals()"),
    # files
    "open": ("", "open('a').read() == 'b'"),
    ".read_text()": ("from pathlib import Path", "Path('a').read_text() == 'b'"),
    ".is_file()": ("from pathlib import Path\nFLAG = Path('a')", "FLAG.is_file()"),
    "pathlib.Path.cwd": ("from pathlib import Path", "Path.cwd().name == 'a'"),
    "os.path.exists": ("import os", "os.path.exists('a')"),
    "os.stat": ("import os", "os.stat('a').st_size > 1"),
    "sqlite3.connect": ("import sqlite3", "sqlite3.connect('a') is None"),
    # the world outside
    "socket.socket": ("import socket", "socket.socket() is None"),
    "urllib.request.urlopen": ("from urllib.request import urlopen", "urlopen('http://a').status == 200"),
    "subprocess.run": ("import subprocess", "subprocess.run(['a']).returncode == 0"),
    "logging.info": ("import logging", "logging.info('x') is None"),
    "log, a logging.Logger": ("import logging\nlog = logging.getLogger('a')", "log.info('x') is None"),
    "print": ("", "print('x') is None"),
    "input": ("", "input() == 'yes'"),
    # threads and tasks
    "uses threading.": ("from threading import Lock", "Lock().locked()"),
    "lock, a threading.lock": ("import threading\nlock = threading.Lock()", "lock.locked()"),
    "asyncio.runners.run": ("from asyncio import run", "run(None)"),
    # code
    "eval": ("", "eval('1')"),
    "__import__": ("", "__import__('time').time() > 0"),
    "pickle.loads": ("import pickle", "pickle.loads(b'') is None"),
    # state
    "reads SEEN, a list": ("SEEN = []", "len(SEEN) > 1"),
    "reads TABLE, a dict": ("TABLE = {}", "'a' in TABLE"),
    "reads NUMBERS, a count": ("from itertools import count\nNUMBERS = count()", "next(NUMBERS) > 1"),
    "reads ITEMS, a generator": ("ITEMS = (x for x in 'ab')", "'a' in ITEMS"),
    "reads PAIR[...], a list": ("PAIR = (1, [])", "PAIR[0] > 1"),
    "reads STATE, a State": (
        "class State:\n    def __init__(self): self.on = 1\nSTATE = State()",
        "STATE.on > 1",
    ),
    "reads desk.guards.State.on, a list": ("class State:\n    on = []", "State.on == [1]"),
    "reads LIMITS.names, a list": (
        (
            "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass Limits:\n"
            "    names: list = field(default_factory=list)\nLIMITS = Limits()"
        ),
        "LIMITS.names == []",
    ),
    "reads BOX, a SimpleNamespace": (
        "from types import SimpleNamespace\nBOX = SimpleNamespace(a=1)",
        "BOX.a > 1",
    ),
    "changes SEEN with .append()": ("SEEN = []", "SEEN.append(1) is None"),
    "changes context with .append()": ("", "context.items.append(1) is None"),
    "changes context with .pop()": ("", "[row.pop() for row in context.rows] == []"),
    "changes context with .add()": ("", "(lambda: context.names.add(1))() is None"),
    "changes context with .setdefault()": ("", "context.rows[0].setdefault('a', 1) == 1"),
    "changes context with .discard()": ("def drop(names): return names.discard(1)", "drop(context.names)"),
    "changes context with .popitem()": (
        "def drop(*, rows=None): return rows.popitem()",
        "drop(rows=context.rows)",
    ),
    "changes context with list.append()": ("", "list.append(context.rows, 1) is None"),
    "changes context with heapq.heappush()": ("import heapq", "heapq.heappush(context.rows, 1) is None"),
    "sets an attribute with setattr() of context": ("", "setattr(context, 'a', 1) is None"),
    "with object.__setattr__() of context": ("", "object.__setattr__(context, 'a', 1) is None"),
    "uses later, which is not defined yet": ("", "later(context)"),
}

BODIES = {
    "time.time ": "import time\nreturn time.time() > 0",
    "os.environ ": "import os.path\nreturn os.environ['a'] == 'b'",
    "os.path.exists ": "import os.path as p\nreturn p.exists('a')",
    "socket.socket ": "import socket as s\nreturn s.socket() is None",
    "numpy.random.rand": "import numpy as np\nreturn np.random.rand() > 0.5",
    "numpy.random.default_rng": "from numpy.random import default_rng\nreturn default_rng() is None",
    "imports desk.unloaded": "from .unloaded import clock\nreturn clock() > 0",
    "imports elsewhere": "import elsewhere.inside\nreturn elsewhere.inside.clock() > 0",
    "sets the global SEEN": "global SEEN\nSEEN = 1\nreturn True",
    "the attribute seen of context": "context.seen = True\nreturn True",
    "the attribute count of context": "context.count += 1\nreturn True",
    "the attribute calls of desk.guards.guard": "guard.calls = 1\nreturn True",
    "the attribute x of an object": "found = other(context)\nfound.x = 1\nreturn True",
    "an item of context": "context.rows['a'] = 1\nreturn True",
    "an item of context ": "rows = context.rows\ndel rows[0]\nreturn True",
    "an item of TABLE": "TABLE['a'] = 1\nreturn True",
    "context with .append()": "first, *rest = context.rows\nfirst.append(1)\nreturn True",
    "context with .append() ": "for row in context.rows:\n    row.append(1)\nreturn True",
    "context with .append()   ": "try:\n    row = []\n    row[1]\nexcept IndexError:\n    row = context.rows\nrow.append(1)\nreturn True",
    "context with .append()    ": "def inner():\n    def more():\n        context.rows.append(1)\n    more()\ninner()\nreturn True",
    "context with .append()     ": "row = None\ndef inner():\n    nonlocal row\n    row = context.rows\n    row.append(1)\ninner()\nreturn True",
    "context with .append()      ": "match context:\n    case object(rows=rows):\n        rows.append(1)\nreturn True",
    "print          ": "return f'{print(context)!r:>10}' == ''",
    "is async": "async def inner():\n    return 1\nreturn inner()",
}

MODULES = {
    "in helper, line 5: uses time.time": """
        import time

        def helper(context):
            return time.time()

        def guard(context):
            return helper(context) > 0
        """,
    "in cached, line 5: uses time.time": """
        from functools import lru_cache
        import time
        @lru_cache
        def cached(): return time.time()
        def guard(context): return cached() > 0
        """,
    "late, line 4: uses time.time": """
        from functools import partial
        import time
        def late(limit, context): return time.time() > limit
        guard = partial(late, 3)
        """,
    "reads its Desk, a Desk that can change": """
        class Desk:
            def __init__(self): self.limit = 3
            def office_hours(self, context): return context.a > self.limit
        guard = Desk().office_hours
        """,
    "Desk, line 5: uses time.monotonic": """
        import time
        class Desk:
            __slots__ = ("unset",)
            def __call__(self, context): return time.monotonic() > 0
        guard = Desk()
        """,
    "in Desk.opened, line 5: uses time.monotonic": """
        import time
        class Desk:
            @property
            def opened(self): return time.monotonic() > 0
        def guard(context): return Desk().opened
        """,
    "in Desk.__init__, line 4: uses time.monotonic": """
        import time
        class Desk:
            def __init__(self, context): self.now = time.monotonic()
        def guard(context): return Desk(context).now > 0
        """,
    "in rule, line 4: uses time.monotonic": """
        import time
        from dataclasses import dataclass
        def rule(context): return time.monotonic() > 0
        @dataclass(frozen=True)
        class Desk:
            rule: object
        DESK = Desk(rule)
        def guard(context): return DESK.rule(context)
        """,
    "reads seen, a list": """
        def guard(context, seen=[]):
            seen.append(context.a)
            return len(seen) > 3
        """,
    "is async: ": "async def guard(context): return True",
    "is a generator": "def guard(context): yield True",
    "guard: has no name that can be recorded": "def guard(context): return True\nguard.__name__ = 'class'",
    "<lambda>: has no name": "guard = lambda context: True",
    "office hours: has no name": "def guard(context): return True\nguard.__name__ = 'office hours'",
    "cannot be called with exactly one": "def guard(): return True",
    "cannot be called with exactly one ": "def guard(context, other): return True",
    "int: is not callable": "guard = 3",
    "None": "guard = None",
    "len: is a builtin_function_or_method": "guard = len",
    "desk.guards.Desk: is a type": "class Desk:\n    def __init__(self, context): pass\nguard = Desk",
    "too deep": "def f0(x): return True\n"
    + "".join(f"def f{n}(x): return f{n - 1}(x)\n" for n in range(1, 40))
    + "def guard(context): return f39(context)",
}
MODULES["class: has no name"] = MODULES.pop("guard: has no name that can be recorded")
MODULES["NoneType: is not callable"] = MODULES.pop("None")


@pytest.mark.parametrize("culprit", EXPRESSIONS)
def test_an_impure_expression_is_named(culprit: str) -> None:
    """In the guard itself, by whatever name it goes there."""
    found = of_expression(*EXPRESSIONS[culprit])
    assert any(culprit in sentence for sentence in found), found
    assert all(
        sentence.startswith(("guard, line ", "guard, in ")) and "\n" not in sentence for sentence in found
    )


@pytest.mark.parametrize("culprit", BODIES)
def test_an_impure_statement_is_named(culprit: str) -> None:
    """Wherever in a guard it stands."""
    setup = "__package__ = 'desk'\nTABLE = {}\nSEEN = 0\ndef other(context): return context\n"
    found = of(f"{setup}def guard(context):\n{textwrap.indent(BODIES[culprit], '    ')}\n")
    assert any(culprit.strip() in sentence for sentence in found), found


@pytest.mark.parametrize("culprit", MODULES)
def test_an_impure_guard_is_named(culprit: str) -> None:
    """Whatever kind of thing it is, and whoever does it for the guard."""
    found = of(MODULES[culprit])
    assert any(culprit.strip() in sentence for sentence in found), found


PURE = {
    # the context and constants
    "attributes": ("", "context.run.counters.step > 3 and context.outcome is not None"),
    "hour of a recorded time": ("", "9 <= context.now.hour < 17"),
    "datetime": ("from datetime import datetime, UTC", "context.at > datetime(2026, 1, 1, tzinfo=UTC)"),
    "fromtimestamp": (
        "from datetime import datetime, timezone",
        "datetime.fromtimestamp(context.at_us / 1e6, timezone.utc).weekday() < 5",
    ),
    "a time of day": ("from datetime import time\nOPEN = time(9)", "context.at.time() > OPEN"),
    "fromisoformat": (
        "from datetime import datetime as d",
        "d.fromisoformat(context.a).date() > d.min.date()",
    ),
    "strings": ("", "context.answer.strip().lower().startswith(('a', 'b')) and 'x'.join(context.names) > ''"),
    "f-string": ("", "f'{context.a!r:>{context.width}}' == 'a'"),
    "re": ("import re", "re.fullmatch(r'a+', context.answer, re.IGNORECASE) is not None"),
    "a compiled pattern": ("import re\nWORD = re.compile('a')", "bool(WORD.search(context.answer))"),
    "math": ("import math", "math.isclose(context.a, math.pi) or math.sqrt(context.a) > 3"),
    "json": ("import json", "json.loads(context.answer)['a'] == json.dumps([1])"),
    "itertools": ("from itertools import chain, pairwise", "len(list(chain(*pairwise(context.rows)))) > 3"),
    "functools": ("from functools import reduce", "reduce(lambda a, b: a + b, context.numbers, 0) > 3"),
    "hashlib": ("import hashlib", "hashlib.sha256(context.answer.encode()).hexdigest() > '8'"),
    "zoneinfo": (
        "from zoneinfo import ZoneInfo\nBERLIN = ZoneInfo('UTC')",
        "context.at.astimezone(BERLIN).hour > 3",
    ),
    "a pure path": ("from pathlib import PurePath, Path", "PurePath(context.a).suffix == Path('a.b').suffix"),
    "urllib.parse": ("from urllib.parse import urlsplit", "urlsplit(context.a).hostname == 'a'"),
    "builtins": ("", "any(sorted(map(str, context.a))) and all([isinstance(x, int) for x in context.b])"),
    "getattr": ("", "getattr(context, 'a', None) is None and hasattr(context, 'b')"),
    "comprehensions": (
        "",
        "{a: [b for b in c if b] for a, c in context.a.items()} == {x for x in context.b}",
    ),
    "a generator": ("", "sum(row.get('a', 0) for row in context.rows) > 3"),
    "a sorted copy": ("", "list(context.rows).sort() is None and context.rows.copy().pop() == 1"),
    "a slice is a copy": ("", "context.rows[1:].pop() == 1 and context.rows[::-1].pop(0)"),
    "counter": (
        "from collections import Counter, defaultdict",
        "Counter(context.names).most_common(1) == []",
    ),
    # constants of the module
    "a tuple": ("NAMES = ('a', ('b', 3.5, None, ..., b'c', True, 1j, range(3)))", "context.a in NAMES"),
    "a frozenset": ("NAMES = frozenset({'a'})", "context.a in NAMES"),
    "a mapping": (
        "from types import MappingProxyType\nLIMITS = MappingProxyType({'a': 1})",
        "context.a < LIMITS['a'] and LIMITS.get('a')",
    ),
    "a frozen dataclass": (
        (
            "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\nclass Limits:\n    a: int = 3\n"
            "    def allows(self, context):\n        return context.a < self.a\nLIMITS = Limits()"
        ),
        "LIMITS.allows(context) and LIMITS.a > 3 and Limits(3) == LIMITS",
    ),
    "a frozen model": (
        "from pydantic import BaseModel\nclass Limits(BaseModel, frozen=True):\n    a: int = 3\nLIMITS = Limits()",
        "LIMITS.a > 3 and Limits(a=3).a > context.a",
    ),
    "a named tuple": (
        "from typing import NamedTuple\nclass Limits(NamedTuple):\n    a: int = 3\nLIMITS = Limits()",
        "LIMITS.a > 3 and Limits(3)._replace(a=1).a > context.a",
    ),
    "an enum": (
        "from enum import Enum\nclass Color(Enum):\n    RED = 'red'\nFIRST = Color.RED",
        "Color(context.a) is Color.RED or FIRST.value == Color['RED'].name",
    ),
    "a sentinel": (
        "MISSING = object()\nclass Nothing: pass\nNOTHING = Nothing()",
        "context.a in (MISSING, NOTHING)",
    ),
    "numbers": ("LIMIT = 3", "context.a < LIMIT and __name__ == 'desk.guards'"),
    "a module's constant": ("import string, math as m", "context.a in string.ascii_letters and m.tau > 3"),
    # helpers
    "a recursive helper": (
        "def depth(n): return 0 if n is None else 1 + depth(n.inner)",
        "depth(context.a) > 3",
    ),
    "a helper that fills what it gets": ("def fill(rows): return rows.append(1)", "fill([]) is None"),
    "a helper that fills its default": (
        "def fill(*, rows=None): return rows or [1]",
        "fill(rows=[]) is None",
    ),
    "a partial": ("from functools import partial\nof = partial(int, base=16)", "of(context.a) > 3"),
    "a cached helper": (
        "from functools import cache\n@cache\ndef low(a): return a.lower()",
        "low(context.a) == 'a'",
    ),
}
PURE_BODIES = {
    "a list of its own": "found = []\nfor row in context.rows:\n    found.append(row)\nfound.sort()\nreturn len(found) > 3",
    "a dict of its own": "seen = {}\nfor row in context.rows:\n    seen[row] = seen.get(row, 0) + 1\n    seen.setdefault(row, 1)\ndel seen['a']\nreturn bool(seen)",
    "a set of its own": "seen = set()\nseen.add(context.a)\nseen.update(context.rows)\nseen |= {1}\nreturn seen > {1}",
    "try": "try:\n    return int(context.a) > 3\nexcept (ValueError, KeyError) as error:\n    return str(error) == 'a'\nelse:\n    pass\nfinally:\n    found = []\n    found.append(1)",
    "inner functions": "count = 0\ndef inner(by=1):\n    nonlocal count\n    count += by\n    return count\nfound = [inner(), inner(by=2)]\nreturn sum(found) > 3",
    "inner class": "class Row:\n    kind = 'a'\n    def __init__(self, a):\n        self.a = a\n        self.kind = Row.kind\n    @property\n    def size(self):\n        return len(self.a)\nreturn Row(context.a).size > 3",
    "imports": "import math\nimport os.path\nfrom json import loads\nfrom collections.abc import Mapping as M\nimport wave as w\nreturn math.floor(loads(context.a)) > 3 and isinstance(context.a, M) and w.Error is os.path.join",
    "with": "from contextlib import suppress\nwith suppress(ValueError):\n    return int(context.a) > 3\nreturn False",
    "an import of its own": "from . import helpers\nfrom .helpers import small\nreturn small(context) and helpers.small(context)",
}
PURE_MODULES = {
    "a method": "class A:\n    limit = 3\n    def guard(self, context): return context.a > self.limit\nguard = A().guard",
    "a class method": "class A:\n    limit = 3\n    @classmethod\n    def guard(cls, context): return context.a > cls.limit\nguard = A.guard",
    "a callable": "class A:\n    def __call__(self, context): return context.a > 3\nguard = A()",
    "a frozen callable": "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A:\n    limit: int\n    def __call__(self, context): return context.a > self.limit\nguard = A(3)",
    "a partial": "from functools import partial\ndef f(limit, context, *, more): return context.a > limit + more\nguard = partial(f, 3, more=1)",
    "decorated": "from functools import wraps\ndef d(f):\n    @wraps(f)\n    def inner(*args, **kwargs): return not f(*args, **kwargs)\n    return inner\n@d\ndef guard(context): return context.a > 3",
    "with a limit": "def above(limit):\n    def guard(context): return context.a > limit\n    return guard\nguard = above(3)",
    "not yet set": "def made():\n    def guard(context): return later(context)\n    kept = guard\n    if False:\n        later = None\n    return kept\nguard = made()",
    "instances of its own": "class Rows:\n    def __init__(self, a): self.rows = list(a)\n    def __len__(self): return len(self.rows)\n    def add(self, a): return Rows([*self.rows, a])\ndef guard(context): return len(Rows(context.a).add(1)) > 3",
}


@pytest.mark.parametrize("name", PURE)
def test_nothing_is_found_in_a_pure_expression(name: str) -> None:
    """A false alarm would keep a good guard out."""
    assert of_expression(*PURE[name]) == ()


@pytest.mark.parametrize("name", PURE_BODIES)
def test_nothing_is_found_in_pure_statements(name: str) -> None:
    """A guard may make and change what is its own."""
    sys.modules["desk.helpers"] = module("def small(context): return context.a < 3", "desk.helpers")
    sys.modules["desk"] = module("", "desk")
    try:
        found = of(
            f"__package__ = 'desk'\ndef guard(context):\n{textwrap.indent(PURE_BODIES[name], '    ')}\n"
        )
    finally:
        del sys.modules["desk.helpers"], sys.modules["desk"]
    assert found == ()


@pytest.mark.parametrize("name", PURE_MODULES)
def test_nothing_is_found_in_a_pure_guard(name: str) -> None:
    """Whatever kind of function it is."""
    assert of(PURE_MODULES[name]) == ()


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


def test_functions_of_installed_packages_are_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their names count, and their code does not."""
    place = tmp_path / "site-packages"
    place.mkdir()
    (place / "installed_clock.py").write_text(
        "import time\ndef now(): return time.time()\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(place))
    assert of_expression("from installed_clock import now", "now() > 3") == ()
    monkeypatch.delitem(sys.modules, "installed_clock")


ATOMS = st.sampled_from(
    (
        *(
            "context.run.step",
            "context.at_us",
            "len(context.names)",
            "3",
            "'a'",
            "LIMIT",
            "NAMES[0]",
            "math.pi",
        ),
        *("context.a['b']", "datetime(2026, 1, 1).year", "abs(context.a)", "[x for x in context.rows]"),
        *("small(context)", "f'{context.a!r:>3}'", "{**context.b}", "(*context.a, 1)", "context.rows[1:]"),
    )
)
FORMS = st.sampled_from(
    (
        *("({} + {})", "({} if {} else 1)", "[{}, {}][0]", "max({}, {})", "any(x == {} for x in [{}])"),
        *("(lambda x: x + {})({})", "('%s' % [{}, {}])", "{{'a': {}}}.get('a', {})", "(not {} or -{})"),
        *("sorted([{}, {}], key=lambda x: str(x))", "({} < {} <= 3)", "{{x: {} for x in ({},)}}"),
        *("small({}, more={})", "str({}).replace('a', str({}))", "small(*[{}], **{{'more': {}}})"),
    )
)
SETUP = """
from datetime import datetime
import math
import time
LIMIT = 3
NAMES = ("a", "b")
def small(context, more=3):
    return context == more
"""


def expressions(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return expressions that are made of *leaves*."""
    return st.recursive(
        leaves,
        lambda inner: st.tuples(FORMS, inner, inner).map(lambda made: made[0].format(*made[1:])),
        max_leaves=8,
    )


IMPURE = {
    "time.time()": "time.time",
    "print(1)": "print",
    "id(context)": "uses id",
    "context.rows.append(1)": "changes context",
    "open('a')": "open",
    "__import__('os')": "__import__",
    "SEEN": "reads SEEN",
    "setattr(context, 'a', 1)": "setattr",
}
PLACES = (
    "if context.a:\n    {}\nelse:\n    pass",
    "if not context.a:\n    pass\nelif context.b:\n    {}",
    "for row in context.rows:\n    {}",
    "for row in context.rows:\n    pass\nelse:\n    {}",
    "while context.a:\n    {}\n    break",
    "with context.a as b:\n    {}",
    "try:\n    {}\nexcept ValueError:\n    pass",
    "try:\n    pass\nexcept ValueError as error:\n    {}",
    "try:\n    context.a()\nexcept* ValueError as error:\n    {}",
    "try:\n    pass\nexcept ValueError:\n    pass\nelse:\n    {}",
    "try:\n    pass\nfinally:\n    {}",
    "match context.a:\n    case [1, *_]:\n        {}\n    case _:\n        pass",
    "def inner(one=context):\n    {}\ninner()",
    "class Inner:\n    def method(self):\n        {}\nInner().method()",
    "if context.a:\n    raise ValueError\n{}",
    "found = []\nfound.append(1)\n{}",
)
HOLES = (
    "found = {}",
    "assert {}",
    "x = [{} for y in context.rows]",
    "x = (lambda: {})()",
    "x = [0, {}][1:]",
    "y = {{1: {}}}",
)


@pytest.mark.whole
@given(
    st.sampled_from(sorted(IMPURE)),
    st.lists(st.sampled_from(PLACES), max_size=4),
    st.sampled_from(HOLES),
    expressions(ATOMS),
    FORMS,
    st.booleans(),
)
@settings(max_examples=150)
def test_one_impure_call_is_found_anywhere(
    call: str, places: list[str], hole: str, pure: str, form: str, in_helper: bool
) -> None:
    """However deep in statements and expressions, and if a helper does it."""
    body = hole.format(form.format(call, pure))
    for place in places:
        indent = place[place.rindex("\n", 0, place.index("{}")) + 1 : place.index("{}")]
        body = place.replace("{}", body.replace("\n", f"\n{indent}"))
    text = textwrap.indent(body, "    ")
    guard = "def guard(context):\n    return helper(context)\n" if in_helper else ""
    found = of(f"{SETUP}SEEN = []\ndef {'helper' if in_helper else 'guard'}(context):\n{text}\n{guard}")
    assert any(IMPURE[call] in sentence for sentence in found), found


def test_a_handler_knows_what_the_variables_held_where_it_came_from() -> None:
    """A list that the guard has made by then is its own, also in a handler."""
    text = """
        def guard(context):
            rows = context.rows
            {}
            try:
                int(rows[0])
            except ValueError:
                rows.append(0)
            return len(rows) > 3
        """
    assert of(text.format("rows = list(rows)")) == ()
    assert of(text.format("pass")) != ()


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
