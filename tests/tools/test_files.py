"""Files that a tool may open: under the policy's roots only, whatever links and devices lie on the way."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paor import Policy, ToolContext, open_within, replay, tool
from paor.errors import ToolError, UsageError

from ..support.effort import examples
from ..support.planning import World
from ..support.worlds import PARAMETERS, SELECT, STOP, SUCCESS
from .inside import outside, unsafe


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two roots with files, and what lies outside, some of it behind links."""
    for name in ("root/inner", "other", "secret"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root/a.txt").write_text("inside")
    (tmp_path / "root/inner/b.txt").write_text("deeper")
    (tmp_path / "other/c.txt").write_text("in the other root")
    (tmp_path / "secret/key.txt").write_text("the secret")
    (tmp_path / "root/out.txt").symlink_to(tmp_path / "secret/key.txt")
    (tmp_path / "root/outdir").symlink_to(tmp_path / "secret")
    (tmp_path / "root/in.txt").symlink_to(tmp_path / "root/inner/b.txt")
    (tmp_path / "root/loop").symlink_to(tmp_path / "root/loop")
    (tmp_path / "root-beside").mkdir()
    (tmp_path / "root-beside/d.txt").write_text("not inside, though its name begins so")
    os.mkfifo(tmp_path / "root/pipe")
    (tmp_path / "root/null").symlink_to("/dev/null")
    return tmp_path


def roots(tree: Path) -> tuple[str, ...]:
    return (str(tree / "root"), str(tree / "other"))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.txt", "inside"),
        ("./inner/b.txt", "deeper"),
        ("{tree}/root/a.txt", "inside"),
        ("{tree}/other/c.txt", "in the other root"),
        ("in.txt", "deeper"),
        ("inner/../a.txt", "inside"),
    ],
)
def test_files_under_the_roots_are_opened(path: str, text: str, tree: Path) -> None:
    """A relative path is looked for in the first root; a link that stays inside is followed."""
    with open_within(roots(tree), path.format(tree=tree)) as file:
        assert file.read().decode() == text


@pytest.mark.parametrize(
    "path",
    [
        "../secret/key.txt",
        "{tree}/secret/key.txt",
        "out.txt",
        "outdir/key.txt",
        "{tree}/root-beside/d.txt",
        "/etc/passwd",
        "/dev/null",
        "/dev/zero",
        "/proc/self/environ",
        "null",
        "pipe",
        "inner",
        "",
        ".",
        "missing.txt",
        "a.txt/b",
        "loop",
        "a\0.txt",
        "x" * 5000,
        "\udcff",
    ],
    ids=lambda path: ascii(path)[:30],
)
def test_what_is_not_a_file_under_the_roots_is_refused_in_one_line(path: str, tree: Path) -> None:
    """Nothing hangs on a pipe, and the line does not say what is in the file."""
    with pytest.raises(ToolError) as told:
        open_within(roots(tree), path.format(tree=tree))
    assert "\n" not in str(told.value) and str(told.value).isascii() and "the secret" not in str(told.value)


def test_a_socket_is_no_file(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree / "root")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("line")
        with pytest.raises(ToolError):
            open_within(roots(tree), "line")


def test_a_link_that_is_put_there_in_between_is_not_followed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening somebody replaces a folder by a link that leads out."""
    from .inside import files_module as files

    looked = files.within

    def swapped(roots: Any, path: str) -> Any:
        found = looked(roots, path)
        (tree / "root/inner/b.txt").unlink()
        (tree / "root/inner").rmdir()
        (tree / "secret/b.txt").write_text("the secret")
        (tree / "root/inner").symlink_to(tree / "secret")
        return found

    monkeypatch.setattr(files, "within", swapped)
    with pytest.raises(ToolError):
        open_within(roots(tree), "inner/b.txt")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(200))
@given(
    parts=st.lists(
        st.sampled_from(["..", ".", "root", "inner", "outdir", "out.txt", "a.txt", "", "secret", "key.txt"]),
        max_size=6,
    ),
    absolute=st.booleans(),
)
def test_no_path_reads_the_secret(parts: list[str], absolute: bool, tree: Path) -> None:
    """Whatever is put together of real names and climbs."""
    path = "/".join(parts)
    try:
        with open_within(roots(tree), f"{tree}/{path}" if absolute else path) as file:
            assert file.read() in (b"inside", b"deeper")
    except ToolError:
        pass


def test_without_roots_no_file_is_allowed(tree: Path) -> None:
    with pytest.raises(ToolError, match="file_roots"):
        open_within((), str(tree / "root/a.txt"))


def test_a_root_may_be_a_link_itself(tree: Path) -> None:
    """Declared by the host, it is where it leads."""
    (tree / "linked").symlink_to(tree / "root")
    with open_within((str(tree / "linked"),), "a.txt") as file:
        assert file.read() == b"inside"
    with pytest.raises(ToolError):
        open_within((str(tree / "linked"),), "out.txt")


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("/srv/data/a.txt", True),
        ("/srv/data", True),
        ("/srv/data/./x/a.txt", True),
        ("a.txt", True),
        ("/srv/database/a.txt", False),
        ("/etc/passwd", False),
        ("/srv/data/../x", False),
        ("~/x", False),
        ("~root/x", False),
        ("C:\\windows", False),
        ("\\\\host\\share", False),
        ("a\nb", False),
        ("a\x1b[2J", False),
    ],
)
def test_what_a_paths_text_tells_is_told_before_the_intent(path: str, safe: bool) -> None:
    """In arguments named like a path, at any depth; under another name it is a text."""
    policy = Policy(file_roots=("/srv/data",))
    for arguments in ({"path": path}, {"options": [{"output_path": path}]}):
        assert (unsafe(policy, arguments) is None) is safe
    assert unsafe(policy, {"text": path}) is None
    assert unsafe(Policy(), {"path": "/etc/passwd"}) is None


@pytest.mark.parametrize("wrong", ["data", "", "a\0b", "/a\0b", 3])
def test_a_root_is_an_absolute_folder(wrong: Any) -> None:
    with pytest.raises(UsageError):
        Policy(file_roots=(wrong,))


def test_a_call_whose_path_leads_out_by_a_link_is_not_made(tree: Path) -> None:
    """Its text is harmless; the disk tells, before the tool starts, and the model sees why."""
    called: list[str] = []

    @tool("files.read", effect="read")
    def read_file(path: str, context: ToolContext) -> str:
        """Read a file."""
        called.append(path)
        with open_within(context.policy.file_roots, path) as file:
            return file.read().decode()

    for path, made in (("out.txt", False), ("a.txt", True)):
        script = [SELECT("files.read", {"path": "string"}), PARAMETERS(path=path), STOP, SUCCESS]
        folder = tree / f"journal-{made}"
        with World(folder, script, [read_file], policy=Policy(file_roots=roots(tree))) as world:
            result = world.run()
            assert result.state == "Done"
            row = next(row for row in world.rows if row.trigger == "execute")
            assert row.outcome.get("error") == (None if made else "unsafe_parameters")
            assert replay(world.journal, result.run_id, world.engine).identical
    assert called == ["a.txt"]
    policy = Policy(file_roots=roots(tree))
    assert (
        outside(policy, {"path": "out.txt"}) is not None
        and outside(Policy(), {"path": "/etc/passwd"}) is None
    )
