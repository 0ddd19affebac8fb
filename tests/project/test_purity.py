"""The purity gate finds every ban in a bad snippet, and leaves good ones alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_gate() -> ModuleType:
    """Return `.ci/purity.py` as a module; it is a script, so no import path leads to it."""
    spec = importlib.util.spec_from_file_location("purity", ROOT / ".ci" / "purity.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


PURITY = load_gate()


def findings(text: str, name: str = "src/paor/fsm/machine/table.py") -> list[tuple[int, str]]:
    """Return line and subject of each violation of *text* as the file *name*."""
    return [(found.line, found.what) for found in PURITY.check_source(text, name)]


def whats(text: str, name: str = "src/paor/fsm/machine/table.py") -> list[str]:
    """Return only the subjects."""
    return [what for _, what in findings(text, name)]


IMPURE = {
    "from importlib import import_module\nimport_module('x')": [
        "import importlib.import_module",
        "importlib.import_module",
    ],
    "from importlib.util import find_spec": ["import importlib.util.find_spec"],
    "import time": ["import time"],
    "import time as t\nt.monotonic()": ["import time", "time.monotonic"],
    "from time import time\ntime()": ["import time.time", "time.time"],
    "def f():\n    from time import sleep as nap\n    nap(1)": ["import time.sleep", "time.sleep"],
    "from datetime import datetime, UTC\ndatetime.now(UTC)": ["datetime.datetime.now"],
    "import datetime as dt\ndt.datetime.now(dt.UTC)": ["datetime.datetime.now"],
    "import datetime\ndatetime.datetime.utcnow()": ["datetime.datetime.utcnow"],
    "from datetime import datetime\ndatetime.today()": ["datetime.datetime.today"],
    "from datetime import date as day\nnow = day.today": ["datetime.date.today"],
    "import random\nrandom.Random(1)": ["import random", "random.Random"],
    "from secrets import token_hex": ["import secrets.token_hex"],
    "import uuid\nuuid.uuid1()": ["uuid.uuid1"],
    "from uuid import uuid4": ["import uuid.uuid4"],
    "from uuid_utils import uuid7": ["import uuid_utils.uuid7"],
    "from uuid import uuid7": ["import uuid.uuid7"],
    "import os\nos.environ['HOME']": ["os.environ"],
    "import os\nos.environ.get('HOME')": ["os.environ.get"],
    "from os import environ": ["import os.environ"],
    "import os\nos.getenv('HOME')": ["os.getenv"],
    "import os\nos.environb[b'HOME']": ["os.environb"],
    "import os\nos.getenvb(b'HOME')": ["os.getenvb"],
    "import os\nos.urandom(8)": ["os.urandom"],
    "import os\nos.getpid()": ["os.getpid"],
    "open('x')": ["open"],
    "import builtins\nbuiltins.open('x')": ["open"],
    "import io\nio.open('x')": ["io.open"],
    "import os\nos.open('x', 0)": ["os.open"],
    "from importlib import resources": ["import importlib.resources"],
    "from tempfile import mkdtemp": ["import tempfile.mkdtemp"],
    "import shutil": ["import shutil"],
    "from pathlib import Path\nPath.cwd()": ["pathlib.Path.cwd"],
    "import pathlib\npathlib.Path.home()": ["pathlib.Path.home"],
    **{
        f"def f(path):\n    return path.{method}()": [f".{method}()"]
        for method in sorted(PURITY.FILE_METHODS)
    },
    "import sqlite3\nsqlite3.connect(':memory:')": ["import sqlite3", "sqlite3.connect"],
    "import socket": ["import socket"],
    "import requests": ["import requests"],
    "from httpx import get": ["import httpx.get"],
    "from httpx2 import get": ["import httpx2.get"],
    "import urllib.request\nurllib.request.urlopen('x')": ["import urllib.request", "urllib.request.urlopen"],
    "from urllib import request": ["import urllib.request"],
    "import http.client": ["import http.client"],
    "import subprocess": ["import subprocess"],
    "from threading import Lock": ["import threading.Lock"],
    "import asyncio": ["import asyncio"],
    "async def f():\n    import asyncio.events": ["import asyncio.events"],
    "from concurrent.futures import ThreadPoolExecutor": ["import concurrent.futures.ThreadPoolExecutor"],
    "import logging": ["import logging"],
    "print('x')": ["print"],
    "list(map(print, [1]))": ["print"],
    "input()": ["input"],
    "compile('1', 'x', 'eval')": ["compile"],
    "__import__('time')": ["__import__"],
}

SET_LOOPS = [
    "for x in {1, 2}:\n    f(x)",
    "for x in set(a):\n    f(x)",
    "for x in frozenset(a):\n    f(x)",
    "for x in {y for y in a}:\n    f(x)",
    "for x in set(a) | b:\n    f(x)",
    "for x in a - {1}:\n    f(x)",
    "for x in set(a).union(b):\n    f(x)",
    "for x in set[str](a):\n    f(x)",
    "for x in (set(a) if a else ()):\n    f(x)",
    "async def f():\n    return [x for x in {1, 2}]",
    "y = [x for x in {1, 2}]",
    "y = [x for z in a for x in set(z)]",
    "y = {x: 1 for x in set(a)}",
    "y = tuple(x for x in set(a))",
    "y = list({1, 2})",
    "y = tuple(set(a))",
    "y = enumerate(frozenset(a))",
    "y = zip(a, set(a))",
    "y = next(iter(a), set(a))",
    "y = ','.join({'a', 'b'})",
    "y = dict.fromkeys(set(a))",
    "y = [1, *set(a)]",
    "y = f(*{1, 2})",
    "NAMES = frozenset({'a', 'b'})\ny = [x for x in NAMES]",
    "NAMES: frozenset[str] = load()\nfor x in NAMES:\n    f(x)",
    "def g(names: set[str]):\n    return list(names)",
    "from collections.abc import Set\ndef g(names: Set[str]):\n    return list(names)",
]

EVERYWHERE = {
    "eval('1')": ["eval"],
    "exec('1')": ["exec"],
    "run = exec": ["exec"],
    "import builtins as b\nb.eval('1')": ["eval"],
    "import pickle\npickle.loads(b'')": ["import pickle", "pickle.loads"],
    "from pickle import loads": ["import pickle.loads"],
    "import marshal": ["import marshal"],
    "import shelve": ["import shelve"],
    "import os\nos.system('ls')": ["os.system"],
    "from os import system": ["import os.system"],
    "from yaml import load": ["import yaml.load"],
    "import yaml\nyaml.load('x')": ["yaml.load"],
    "import yaml\nyaml.load_all('x')": ["yaml.load_all"],
    "import yaml\nyaml.unsafe_load('x')": ["yaml.unsafe_load"],
    "import subprocess\nsubprocess.run('ls', shell=True)": ["subprocess.run(shell=True)"],
    "from subprocess import Popen\nPopen('ls', shell=flag)": ["subprocess.Popen(shell=True)"],
    "import fsm": ["import fsm"],
    "import fsm.engine as engine": ["import fsm.engine"],
    "from states.run.state import Run": ["import states.run.state.Run"],
    "from tools import catalog": ["import tools.catalog"],
    "def f():\n    import prompts": ["import prompts"],
}


@pytest.mark.parametrize("text", IMPURE)
def test_what_decides_may_not_know_the_outside(text: str) -> None:
    """Each ban of pure files is found, through whatever import it came."""
    assert sorted(whats(text)) == sorted(IMPURE[text])
    assert findings(text, "src/paor/fsm/engine.py") == []


@pytest.mark.parametrize("text", SET_LOOPS)
def test_the_order_of_a_set_may_not_show(text: str) -> None:
    """String hashing differs between processes, so such a loop would write different journals."""
    assert whats(text) == ["iteration over a set"]
    assert findings(text, "src/paor/fsm/engine.py") == []


@pytest.mark.parametrize("text", EVERYWHERE)
def test_some_things_no_file_may_do(text: str) -> None:
    """The short list of bans holds for edges, tests and scripts as well."""
    for name in ("src/paor/fsm/engine.py", "tests/test_x.py", "src/paor/cli/__init__.py", ".ci/gates.py"):
        assert sorted(whats(text, name)) == sorted(EVERYWHERE[text])
    assert set(whats(text, "src/paor/states/run/state.py")) >= set(EVERYWHERE[text])


def test_every_ban_has_a_bad_snippet() -> None:
    """A ban that is added without a snippet here is not known to work."""
    snippets = [*IMPURE.values(), *EVERYWHERE.values()]
    found = {what.removeprefix("import ") for whats_of_one in snippets for what in whats_of_one}
    for ban in [*PURITY.BANNED, *PURITY.BANNED_EVERYWHERE]:
        name = ban.removeprefix("builtins.")
        assert any(what == name or what.startswith(f"{name}.") for what in found), ban


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import date, datetime\ndatetime.fromisoformat(x)\ndate(2026, 1, 1)",
        "from uuid import UUID, uuid5",
        "import os\nos.path.join('a', 'b')",
        "from pathlib import PurePosixPath",
        "from urllib.parse import urlsplit",
        "import urllib.parse\nurllib.parse.quote('x')",
        "import re\nre.compile('x')",
        "def f(input, open):\n    return input, open()",
        "class Case:\n    time = 1\n    def now(self):\n        return self.time.now()",
        "from . import time\ntime.time()",
        "from ..tools.catalog import Catalog\nfrom .. import states",
        "for x in sorted({1, 2}):\n    f(x)",
        "y = sorted(x for x in set(a))",
        "y = [any(x in b for x in set(a)), sum(x for x in {1}), len(set(a))]",
        "y = {x for x in set(a)}",
        "y = frozenset(x for x in set(a))",
        "y = max([1, 2]) in set(a)",
        "for x in {'a': 1, 'b': 2}:\n    f(x)",
        "y = [*sorted(set(a))]",
        "names = {1}\nnames = [1]\nfor x in names:\n    f(x)",
        "names = {1}\ndef g(names: list[int]):\n    return list(names)",
        "names = {1}\nfor names in a:\n    f([*names])",
        "with f() as names:\n    list(names)",
    ],
)
def test_pure_code_is_left_alone(text: str) -> None:
    """A gate that cries wolf gets exempted away."""
    assert findings(text) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("from .. import Engine", "import ..Engine"),
        ("from .. import states, cli", "import ..cli"),
        ("from ..cli.support.terminal import say", "import ..cli.support.terminal"),
        ("def f():\n    from ..cli.main import app", "import ..cli.main"),
        ("from paor.states.run.state import Run", "import paor.states.run.state.Run"),
        ("import paor", "import paor"),
    ],
)
def test_the_folders_do_not_know_the_face(text: str, what: str) -> None:
    """Whatever the face's modules are called; import-linter knows only those that it lists."""
    assert whats(text, "src/paor/fsm/engine.py") == [what]
    assert whats(text, "tests/test_x.py") == []


def test_folders_import_each_other_relatively() -> None:
    """The order of the floors is import-linter's to check; a nested folder has one more step up."""
    assert (
        findings(
            "from .. import states\nfrom ..states import run\nfrom . import cli", "src/paor/fsm/engine.py"
        )
        == []
    )
    assert findings("from .. import table\nfrom ...states import run", "src/paor/fsm/deep/engine.py") == []
    assert whats("from ...cli import main", "src/paor/fsm/deep/engine.py") == ["import ...cli"]


def test_a_line_with_a_reason_is_exempt() -> None:
    """The exemption holds for what is on its line, not for the whole statement."""
    assert findings("import time  # pure: the type only\n") == []
    assert findings("x = open(  # pure: a reason\n    'x',\n)\n") == []
    assert findings("x = open(\n    'x',\n)  # pure: a reason\n") == [(1, "open")]
    assert findings("for x in {\n    1,  # pure: a reason\n    2,\n}:\n    f(x)") == []
    assert findings("x = open  # noqa: A001  # pure: a reason\nopen('x')\n") == [(2, "open")]
    assert findings(
        "import subprocess  # pure: a\nsubprocess.run(\n    'ls',  # pure: b\n    shell=True,\n)"
    ) == [(2, "subprocess.run")]


@pytest.mark.parametrize("comment", ["# pure:", "# pure:  ", "#pure:"])
def test_an_exemption_needs_a_reason(comment: str) -> None:
    """An exemption that nobody can judge is a violation of its own."""
    assert findings(f"import time  {comment}\n") == [(1, "import time"), (1, "no reason given")]


def test_an_exemption_in_a_string_is_text() -> None:
    """Only comments exempt."""
    assert whats("x = [open, '# pure: no']") == ["open"]


def test_allowed_files_get_only_what_they_are_allowed() -> None:
    """The templates may read package resources; nothing more, and nobody a database."""
    resources = "from importlib import resources\nresources.files('x').joinpath('y').read_text()"
    assert findings(resources, "src/paor/prompts/building/templates.py") == []
    assert len(findings(resources, "src/paor/prompts/building/builder.py")) == 3
    memory = "import sqlite3\nsqlite3.connect(':memory:')"
    for name in ("src/paor/prompts/offline/corpus.py", "src/paor/prompts/building/templates.py"):
        assert whats(memory, name) == ["import sqlite3", "sqlite3.connect"]
        assert whats("import time", name) == ["import time"]


def test_which_files_must_be_pure() -> None:
    """Model clients and the driving half of `fsm` are edges; the vocabulary and what decides are not."""
    for name in (
        "src/paor/states/run/state.py",
        "src/paor/prompts/offline/model.py",
        "src/paor/tools/schema/parameters.py",
        "src/paor/fsm/machine/machine.py",
        "src/paor/fsm/machine/decide.py",
        "src/paor/fsm/replay/replay.py",
    ):
        assert whats("import time", name) == ["import time"]
    for name in (
        "src/paor/prompts/clients/openai.py",
        "src/paor/prompts/clients/anthropic.py",
        "src/paor/tools/documents/convert/registry.py",
        "src/paor/fsm/runtime/ports.py",
        "tests/test_x.py",
    ):
        assert whats("import time", name) == []


def test_a_finding_prints_as_place_what_and_why() -> None:
    """Editors and people find the place in it."""
    (found,) = PURITY.check_source("x = 1\nopen('x')", "src/paor/states/run/state.py")
    assert str(found) == "src/paor/states/run/state.py:2: open (I/O: leave it to a driver)"


def test_a_file_that_does_not_parse_is_a_finding() -> None:
    """The gate goes on with the other files."""
    ((line, what),) = findings("x = 1\nx = (")
    assert (line, what) == (2, "does not parse")


def test_the_whole_project_is_walked_once(tmp_path: Path) -> None:
    """Links are not followed, listed rooms must exist, and a bad file is named by its real path."""
    for room in PURITY.PURE:
        (tmp_path / room).mkdir(parents=True, exist_ok=True)
        (tmp_path / room / "module.py").write_text("", encoding="utf-8")
    for file in PURITY.PURE_FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("", encoding="utf-8")
    assert PURITY.check_project(tmp_path) == []
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/states").symlink_to("../src/paor/states")
    (tmp_path / "src/paor/states/bad.py").write_text("import time\n", encoding="utf-8")
    (tmp_path / "src/paor/fsm/machine/module.py").unlink()
    assert sorted(str(found) for found in PURITY.check_project(tmp_path)) == [
        "src/paor/fsm/machine:0: no such room or file (keep PURE in .ci/purity.py up to date)",
        "src/paor/states/bad.py:1: import time (a clock: take the time as a value)",
    ]
