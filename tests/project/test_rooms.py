"""The rooms gate sees what it is for: circles, names with two meanings, arrows that point up."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    """Return the gate, which is a script and no module of the package."""
    spec = spec_from_file_location("rooms", ROOT / ".ci" / "rooms.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["rooms"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


rooms = load()


def build(root: Path, files: dict[str, str]) -> list[str]:
    """Return what the gate says about a house of *files*; every room gets a docstring."""
    package = root / "src" / "paor"
    for folder in (package, *(package / floor for floor in ("states", "prompts", "tools", "fsm"))):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text('"""A floor."""\n')
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(rooms.problems(rooms.read_house(root)))


def test_the_house_itself_keeps_the_rules() -> None:
    """As the gate runs it."""
    done = subprocess.run(
        [sys.executable, ".ci/rooms.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_house_without_faults_has_no_problems(tmp_path: Path) -> None:
    """An arrow down is none."""
    assert build(tmp_path, {"fsm/a.py": "from ..states import b\n", "states/b.py": ""}) == []


@pytest.mark.parametrize(
    "back",
    [
        "from .a import one\n",
        "def late() -> None:\n    from .a import one\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import one\n",
        "import paor.fsm.a\n",
        "from paor.fsm import a\n",
        "from . import a\n",
    ],
    ids=["plain", "in a function", "for annotations", "absolute", "absolute from", "the module"],
)
def test_a_circle_is_seen_however_it_is_imported(tmp_path: Path, back: str) -> None:
    """A reader has to follow all of them."""
    found = build(tmp_path, {"fsm/a.py": "from .b import two\n", "fsm/b.py": back})
    assert found == ["circle of imports: fsm.a, fsm.b"]


def test_a_long_circle_is_one_circle(tmp_path: Path) -> None:
    """All its members are named, and what only leads to it is not."""
    files = {f"fsm/m{n}.py": f"from .m{(n + 1) % 5} import x\n" for n in range(5)}
    found = build(tmp_path, {**files, "fsm/before.py": "from .m0 import x\n"})
    assert found == ["circle of imports: fsm.m0, fsm.m1, fsm.m2, fsm.m3, fsm.m4"]


def test_a_circle_of_rooms_is_seen_where_no_modules_form_one(tmp_path: Path) -> None:
    """Two rooms that need each other are one room."""
    files = {"fsm/x/__init__.py": '"""X."""\n', "fsm/y/__init__.py": '"""Y."""\n'}
    files |= {
        "fsm/x/a.py": "from ..y.b import two\n",
        "fsm/y/b.py": "",
        "fsm/y/c.py": "from ..x.d import f\n",
    }
    assert build(tmp_path, {**files, "fsm/x/d.py": ""}) == ["circle of rooms: fsm.x, fsm.y"]


@pytest.mark.parametrize("text", [None, "", "x = 1\n"])
def test_a_room_says_what_it_is_for(tmp_path: Path, text: str | None) -> None:
    """A folder without an `__init__.py`, or with one that says nothing, is no room."""
    files = {"fsm/x/a.py": ""} | ({} if text is None else {"fsm/x/__init__.py": text})
    assert build(tmp_path, files) == ["fsm.x: no __init__.py with a docstring"]


def test_class_names_with_two_meanings_are_counted(tmp_path: Path) -> None:
    """So many are allowed, and one more is not."""
    names = [f"Name{number}" for number in range(rooms.DOUBLE_NAMES_MAX + 1)]
    files = {
        "fsm/a.py": "".join(f"class {name}: ...\n" for name in names),
        "tools/b.py": "".join(f"class {name}: ...\n" for name in names[1:]),
    }
    assert build(tmp_path / "few", files) == []
    files["tools/b.py"] += f"class {names[0]}: ...\n"
    first, *rest = build(tmp_path / "many", files)
    assert first == f"{len(names)} class names are defined twice, at most {rooms.DOUBLE_NAMES_MAX}:"
    assert rest[0] == "  Name0: fsm.a, tools.b" and len(rest) == len(names)
