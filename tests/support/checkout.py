"""A repository with the files of this tree as they are now, for tests of what a clone or an archive of it holds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .pages import ROOT


def repository(folder: Path) -> Path:
    """Return a repository in *folder* with one commit of this tree's files, committed or not; skips without git and a clone."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone")

    def run(*command: str, cwd: Path) -> str:
        done = subprocess.run(
            [git, "-c", "safe.directory=*", *command], cwd=cwd, capture_output=True, text=True, check=True
        )
        return done.stdout

    for name in run("ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT).split("\0"):
        source, target = ROOT / name, folder / name
        if name and (source.is_symlink() or source.is_file()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    run("init", "-q", cwd=folder)
    run("add", "-A", cwd=folder)
    identity = ("-c", "user.name=paor", "-c", "user.email=paor@localhost")
    run(*identity, "commit", "-q", "--no-verify", "-m", "a clone", cwd=folder)
    return folder
