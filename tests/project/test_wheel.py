"""
The package is whole, however its source arrived: from a ZIP, a tar, a clone without symbolic links, or an sdist.

A ZIP and a clone on Windows hold the four links at the top of the repository as text files. The package must not depend on them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ..support.checkout import repository
from ..support.pages import ROOT

BUILD = "import setuptools.build_meta as backend, sys; backend.build_{kind}(sys.argv[1])"
SMOKE = """
import sys
sys.path.insert(0, sys.argv[1])
import paor, paor.fsm
from paor import Document, Engine
assert paor.__file__.startswith(sys.argv[1]), paor.__file__
with Engine("offline", journal=sys.argv[1] + "/runs.db") as engine:
    result = engine.run("When is it due?", documents=[Document("note.txt", "The report is due on 3 May 2027.")])
print(result.state, engine.journal.verify())
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Return what a command prints; it must succeed."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expected() -> set[str]:
    """Return the files that belong to the package: all of ``src/paor``."""
    listed = run(
        "git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "src/paor", cwd=ROOT
    )
    return {name.removeprefix("src/") for name in listed.splitlines() if (ROOT / name).is_file()}


def built(source: Path, kind: str = "wheel") -> Path:
    """Return what setuptools builds from the tree at *source*."""
    target = source.parent / f"{source.name}-{kind}"
    run(sys.executable, "-c", BUILD.format(kind=kind), target, cwd=source)
    (found,) = target.iterdir()
    return found


def unpacked(archive: Path) -> Path:
    """Return the tree of an archive whose files lie in one folder; a ZIP's links become text files, as pip makes them."""
    folder = archive.parent / archive.name.replace(".", "-")
    opened: Any = zipfile.ZipFile if archive.suffix == ".zip" else tarfile.open
    with opened(archive) as packed:
        # of a tar; Python 3.11.3 and older has no filters
        packed.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
        packed.extractall(folder)
    (inner,) = folder.iterdir()
    return inner


def held_whole(wheel: Path) -> None:
    """Assert that a wheel holds the package, no more and no less, and that it works where no sources are around."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
        assert names == expected()
        archive.extractall(wheel.parent / "installed")
    where = wheel.parent / "installed"
    assert run(sys.executable, "-P", "-c", SMOKE, where, cwd=where).split() == ["Done", "[]"]


def archived(folder: Path, form: str) -> Path:
    """Return an archive of this tree as ``git archive`` writes it, in the format that the ending *form* names."""
    archive = folder / f"paor.{form}"
    origin = repository(folder / "origin")
    run("git", "archive", "--prefix=paor-main/", "-o", archive, "HEAD", cwd=origin)
    return archive


def test_a_zip_of_the_repository_builds_the_whole_package(tmp_path: Path) -> None:
    """What a forge offers for download; it once built a quarter of the package, with exit code 0."""
    tree = unpacked(archived(tmp_path, "zip"))
    assert (tree / "fsm").read_text(encoding="utf-8") == "src/paor/fsm"
    held_whole(built(tree))


@pytest.mark.whole
@pytest.mark.parametrize("source", ["tar", "clone without links", "sdist"])
def test_every_other_source_builds_the_whole_package(source: str, tmp_path: Path) -> None:
    """The same list of files each time."""
    if source == "clone without links":
        origin = repository(tmp_path / "origin")
        tree = tmp_path / "clone"
        run("git", "clone", "-q", "-c", "core.symlinks=false", origin, tree, cwd=tmp_path)
        assert not (tree / "fsm").is_symlink()
    else:
        tree = unpacked(archived(tmp_path, "tar.gz"))
        assert (tree / "fsm").is_symlink()
        if source == "sdist":
            tree = unpacked(built(tree, "sdist"))
    held_whole(built(tree))


CONSUMER = """
from paor import Engine, Result
from paor.fsm.machine.table import TABLE

def state(engine: Engine) -> str:
    result: Result = engine.run("x")
    return result.state

number: int = len(TABLE)
wrong: int = state(Engine("offline"))
"""


@pytest.mark.whole
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_of_a_consumer_understand_an_editable_install(checker: str, tmp_path: Path) -> None:
    """They find the types of public and inner names, and the one mistake."""
    (tmp_path / "consumer.py").write_text(CONSUMER, encoding="utf-8")
    program = shutil.which(checker, path=str(Path(sys.executable).parent))
    assert program is not None
    options = ["--strict"] if checker == "mypy" else ["--pythonpath", sys.executable]
    done = subprocess.run(
        [program, *options, "consumer.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stdout.splitlines() if "error" in line and "consumer.py" in line]
    assert len(errors) == 1 and "consumer.py:10" in errors[0] and "int" in errors[0], (
        done.stdout + done.stderr
    )
