"""The lines gate: what it counts, rises that need a reason for their own figure, folders of few modules, and imports of tests behind the face."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOM = "paor/room"


def load() -> ModuleType:
    """Return the gate, which is a script and no module of the package."""
    spec = spec_from_file_location("lines", ROOT / ".ci" / "lines.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["lines"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


lines = load()


class Tree:
    """A small project with one room of four modules, each of one line, and its figures as committed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("a", "b", "c", "d"):
            self.write(f"src/paor/{name}.py", "x = 1\n")
            self.write(f"src/paor/room/{name}.py", "x = 1\n")
        self.write("tests/room/test_a.py", "import paor\n")
        self.git("init", "-q", "-b", "work")
        self.lower()
        self.commit()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        """Make what is there a commit, and an empty one above it: the commit before is what rises are measured from."""
        self.git("add", "-A")
        self.git("commit", "-qm", "x")
        self.git("commit", "-qm", "x", "--allow-empty")

    def lower(self) -> None:
        path = self.root / lines.FILE
        path.parent.mkdir(exist_ok=True)
        found = lines.lowered(lines.count(self.root), lines.read(self.root), lines.read_before(self.root))
        path.write_text(lines.as_toml(found), encoding="utf-8")

    def edit(self, old: str, new: str) -> None:
        path = self.root / lines.FILE
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def problems(self) -> list[str]:
        root = self.root
        return list(lines.problems(lines.count(root), lines.read(root), lines.read_before(root)))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_tree_with_its_figures_has_no_problems(tree: Tree) -> None:
    assert tree.problems() == []


def grow(tree: Tree, by: int = 1) -> None:
    text = tree.root.joinpath("src/paor/room/a.py").read_text(encoding="utf-8")
    tree.write("src/paor/room/a.py", text + "y = 2\n" * by)


def raised(tree: Tree, figure: int) -> None:
    """Raise the room's figure, and the sum, by hand."""
    was = lines.read(tree.root)["product"][ROOM]
    total = lines.read(tree.root)["sums"]["product"]
    tree.edit(f'"{ROOM}" = {was}\n', f'"{ROOM}" = {figure}\n')
    tree.edit(f'"product" = {total}\n', f'"product" = {total + figure - was}\n')


def test_more_lines_than_the_figure_are_refused_and_lowering_does_not_help(tree: Tree) -> None:
    grow(tree)
    expected = [f"{ROOM}: 5, at most 4", "all product: 9, at most 8"]
    assert tree.problems() == expected
    tree.lower()
    assert tree.problems() == expected


def test_a_higher_figure_needs_a_reason_that_names_it_once(tree: Tree) -> None:
    """The reason of one rise is good for no other one, also when the figure has fallen in between."""
    grow(tree)
    raised(tree, 5)
    wanted = [problem.partition(" rises")[0] for problem in tree.problems()]
    assert wanted == [ROOM, "all product"]
    tree.edit("[reasons]\n", f'[reasons]\n"{ROOM}" = "4: less"\n"all product" = "9: more"\n')
    assert any(problem.startswith(f"{ROOM} rises from 4 to 5") for problem in tree.problems())
    tree.edit('"4: less"', '"5:  "')
    assert any(problem.startswith(f"{ROOM} rises from 4 to 5") for problem in tree.problems())
    tree.edit('"5:  "', '"5: a second value"')
    assert tree.problems() == []
    tree.commit()
    assert tree.problems() == []
    grow(tree)
    raised(tree, 6)
    assert any(problem.startswith(f"{ROOM} rises from 5 to 6") for problem in tree.problems())
    assert f"[reasons] {ROOM}: gives no reason for the figure in force, 6; take it out" in tree.problems()


def test_because_writes_every_rise_with_its_reason(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    """Only of what has risen; the sum rises with the room."""
    grow(tree)
    assert lines.main([], tree.root) == 1
    assert lines.main(["--because", "a second value"], tree.root) == 0
    assert lines.read(tree.root)["reasons"] == {ROOM: "5: a second value", "all product": "9: a second value"}
    assert lines.read(tree.root)["product"] == {"paor": 4, ROOM: 5}


def test_a_room_that_is_new_rises_from_nothing(tree: Tree) -> None:
    for name in ("a", "b", "c", "d"):
        tree.git("mv", f"src/paor/room/{name}.py", f"src/paor/{name}2.py")
        tree.write(f"src/paor/new/{name}.py", "x = 1\n")
    tree.lower()
    assert "paor/new: 4, at most 0" in tree.problems() and "paor: 8, at most 4" in tree.problems()
    tree.edit("[product]\n", '[product]\n"paor/new" = 4\n')
    assert any(problem.startswith("paor/new rises from 0 to 4") for problem in tree.problems())


def test_fewer_lines_lower_the_figure_and_drop_the_reason(tree: Tree) -> None:
    grow(tree)
    raised(tree, 5)
    tree.edit("[reasons]\n", f'[reasons]\n"{ROOM}" = "5: why"\n"all product" = "9: why"\n')
    tree.commit()
    tree.write("src/paor/room/a.py", "")
    assert any(
        problem.startswith(f"{ROOM}: 3, .ci/lines.toml has 5; lower it") for problem in tree.problems()
    )
    tree.lower()
    assert tree.problems() == []
    data = lines.read(tree.root)
    assert data["product"][ROOM] == 3 and data["sums"]["product"] == 7 and data["reasons"] == {}


def test_rises_are_measured_from_the_merge_base_with_the_main_branch(tree: Tree) -> None:
    """A branch of several commits hides no rise behind its last one."""
    tree.git("branch", "main")
    grow(tree)
    raised(tree, 5)
    tree.commit()
    assert any(problem.startswith(f"{ROOM} rises from 4 to 5") for problem in tree.problems())


def test_a_folder_of_few_modules_needs_a_reason(tree: Tree) -> None:
    """The `__init__.py` is not counted; a reason that nothing needs goes."""
    tree.write("src/paor/room/d.py", "")
    tree.root.joinpath("src/paor/room/d.py").unlink()
    tree.write("src/paor/room/__init__.py", '"""A room."""\n')
    assert tree.problems() == [f"{ROOM}: 3 modules, at least 4 or a reason in [few_modules]"]
    tree.edit("[few_modules]\n", f'[few_modules]\n"{ROOM}" = "They are loaded apart."\n')
    assert tree.problems() == []
    tree.write("src/paor/room/d.py", "")
    assert tree.problems() == [f"[few_modules] {ROOM}: is no such room; take it out"]
    tree.lower()
    assert tree.problems() == []


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("from paor.room.a import x", ROOM),
        ("import paor.room.a", ROOM),
        ("from paor.room import a", ROOM),
        ("def test() -> None:\n    from paor import room", ROOM),
        ("from paor.a import x", "paor"),
        ("from paor import Engine", None),
        ("from paor import audit, errors", None),
        ("from paor.testing import ScriptedModel", None),
        ("from paor.cli import main", None),
        ("from ..support import helper", None),
        ("import os", None),
    ],
)
def test_an_import_behind_the_face_has_its_file_and_line(tree: Tree, line: str, room: str | None) -> None:
    """The face may be imported by every test."""
    tree.write("tests/room/test_a.py", line + "\n")
    found = [item.room for item in lines.count(tree.root).inner]
    assert found == ([] if room is None else [room])
    place = f"tests/room/test_a.py:{line.count(chr(10)) + 1}: imports a module of {room}; [inside] does not list it for tests/room"
    assert (place in tree.problems()) is (room is not None)


def test_a_list_of_rooms_that_is_longer_than_needed_is_cut(tree: Tree) -> None:
    tree.edit("[inside]\n", f'[inside]\n"tests/room" = ["{ROOM}"]\n')
    assert tree.problems() == [
        "[inside] lists rooms that no test imports from any more; lower it: python .ci/lines.py --lower"
    ]
    tree.lower()
    assert tree.problems() == [] and lines.read(tree.root)["inside"] == {}


@pytest.mark.parametrize(
    ("code", "touches"),
    [
        ("engine._runner", 1),
        ("engine.journal._reader._rows", 2),
        ("from m import _inner, outer", 1),
        ("monkeypatch.setattr(module, '_LIMIT', 3)", 1),
        ("monkeypatch.setattr('paor.room.a._x', 3)", 1),
        ("getattr(engine, 'runner')", 0),
        ("self._seen, cls._made", 0),
        ("super()._make_it()", 0),
        ("engine.__class__, row._replace(x=1)", 0),
    ],
)
def test_private_touches_are_counted(tree: Tree, code: str, touches: int) -> None:
    tree.write("tests/room/test_a.py", code + "\n")
    assert lines.count(tree.root).figures["sums"]["private touches of tests"] == touches
