"""
What the tests of README and docs share: a page's fenced blocks, run as a reader would run them.

A ``python`` block is code, all blocks of a page one program; a ``text`` block right after one is what it prints. A ``console``
block is a session: lines with ``$`` are commands, the others what comes back. There ``...`` stands for anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "paor"
MARK = "\x1e"
_FENCE = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")


@dataclass(frozen=True)
class Block:
    """
    One fenced block.

    Attributes:
        page: File name.
        line: Where its text begins, from 1.
        language: Word after the fence.
        text: What is in it.
        prints: For Python: the text block that follows, if nothing but blank lines is between.
    """

    page: str
    line: int
    language: str
    text: str
    prints: str | None = None


@dataclass
class Command:
    """One command of a session, with the lines that are expected of it."""

    line: str
    expected: list[str] = field(default_factory=list)


def page(name: str) -> str:
    """Return the text of a page by its path from the root."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks_of(name: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page(name)
    found = list(_FENCE.finditer(text))
    blocks = []
    for index, match in enumerate(found):
        after = found[index + 1] if index + 1 < len(found) else None
        told = (
            after is not None
            and after[1] == "text"
            and not text[match.end() : after.start()].strip()
            and match[1] == "python"
        )
        line = text.count("\n", 0, match.start(2)) + 1
        blocks.append(Block(name, line, match[1], match[2], after[2] if told and after else None))
    return blocks


def commands_of(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block."""
    command: Command | None = None
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command
            command = Command(line[2:])
        else:
            assert command is not None, f"{block.page}:{block.line}: a session begins with a command"
            command.expected.append(line)
    if command is not None:
        yield command


def reader_folder(folder: Path) -> Path:
    """Return *folder* with what a reader finds in a clone and needs here."""
    for name in ("examples", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    return folder


KEYS = {
    "OPENAI_API_KEY": "sk-a-key-of-the-reader-0001",
    "ANTHROPIC_API_KEY": "sk-a-key-of-the-reader-0002",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
}
"""A reader may have keys; a page that means to need none must not use them. Nobody listens at these addresses."""


def environment() -> dict[str, str]:
    """Return the environment of a reader who has activated this virtual environment."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PAOR_", "PYTHON", "PYTEST_", "COV"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return kept | {"PATH": path, "COLUMNS": "100", "PYTHONUTF8": "1", "NO_COLOR": "1"}


def run_python(name: str, folder: Path, **variables: str) -> list[tuple[Block, str]]:
    """Run all Python blocks of a page as one program in *folder*, with *variables* in its environment; return each with its output."""
    return run_program(
        [block for block in blocks_of(name) if block.language == "python"], folder, **variables
    )


def run_program(blocks: list[Block], folder: Path, **variables: str) -> list[tuple[Block, str]]:
    """Run Python blocks as one program; see `run_python`."""
    parts = [f"print({MARK!r}, end='')\n{block.text}" for block in blocks]
    (folder / "page.py").write_text("\n".join(parts), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"],
        check=False,
        cwd=folder,
        env=environment() | KEYS | variables,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, f"{blocks[0].page}: {done.stderr}"
    return list(zip(blocks, done.stdout.split(MARK)[1:], strict=True))


def run_sessions(blocks: list[Block], folder: Path) -> Iterator[tuple[Command, str]]:
    """Run the commands of console blocks one after the other in *folder*; yield each with its output."""
    for block in blocks:
        where = folder
        for command in commands_of(block):
            if command.line.startswith("cd "):
                where = where / command.line[3:]
                continue
            done = run_line(command.line, where)
            assert done.returncode == 0, f"{block.page}:{block.line}: {command.line}: {done.stdout}"
            yield command, done.stdout


def run_in_order(name: str, folder: Path, *, without: tuple[str, ...] = ()) -> Iterator[tuple[Command, str]]:
    """
    Do what a page says, from top to bottom in one folder; yield each command with its output.

    A Python block begins with a comment that names its file, and is saved under that name. Sessions with a command that
    begins like one of *without* are left out.
    """
    for block in blocks_of(name):
        if block.language == "python":
            file = re.match(r"# (\w+\.py)\n", block.text)
            assert file is not None, f"{name}:{block.line}: a block of Python says which file it is"
            (folder / file[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "console" and not block.text.startswith(
            tuple(f"$ {start}" for start in without)
        ):
            yield from run_sessions([block], folder)


def run_line(line: str, where: Path) -> subprocess.CompletedProcess[str]:
    """Run one command line as a shell does, its messages among its output."""
    return subprocess.run(
        ["sh", "-c", line],
        check=False,
        cwd=where,
        env=environment() | KEYS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=600,
    )


def stable(text: str) -> str:
    """Return *text* without what differs from run to run: ids, times, sizes, numbers of three digits and more."""
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){1,3}(-[0-9a-f]{12})?\b", "ID", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "DATE", text)
    text = re.sub(r"\b[\d.,]+ (ms|s|min)\b", "", text)  # a table leaves out what took no time
    text = re.sub(r"\b\d[\d,]{2,}", "N", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def matches(expected: list[str], output: str) -> bool:
    """Return whether *output* is what a page shows, where ``...`` stands for anything."""
    pattern = ""
    for line in stable("\n".join(expected)).splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(map(re.escape, line.split("..."))) + r"\n"
    return re.fullmatch(pattern, f"{stable(output)}\n" if output.strip() else "") is not None
