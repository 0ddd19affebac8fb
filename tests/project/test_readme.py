"""The README is true: its code runs, its sessions look as they do, its command lines work in a fresh clone."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from paor.testing import call, refine

from ..support.checkout import repository
from ..support.model_server import KEY, WIRES, model_server, streamed
from ..support.pages import (
    KEYS,
    blocks_of,
    commands_of,
    environment,
    matches,
    page,
    reader_folder,
    run_line,
    run_program,
    run_sessions,
)

CHAT = WIRES[0]
README = "README.md"
INSTALLS = ("python -m pip ", "python3 -m venv ")
"""How command lines begin that need a fresh clone; the other ones run where paor is installed."""

SESSIONS = [
    block
    for block in blocks_of(README)
    if block.language == "console" and not block.text.startswith(tuple(f"$ {start}" for start in INSTALLS))
]
INSTALL_LINES = [
    command.line
    for block in blocks_of(README)
    if block.language == "console" and block not in SESSIONS
    for command in commands_of(block)
]
INLINE = sorted(set(re.findall(r"`((?:python|paor) [^`]+)`", page(README))))
"""Command lines within the text, such as those that show a guarantee."""
SERVES = ("paor inspect", "paor mcp", "paor fuzz")
"""Commands that serve until they are stopped, or that need a program of the reader's; of these the help is shown."""
HELP = " --help"


def test_its_length_and_its_first_screen() -> None:
    """A reader decides within one screen: how to get it, a picture, an example with its output, the same without a key."""
    lines = page(README).splitlines()
    assert 80 <= len(lines) <= 170
    clone, first, *_ = [block for block in blocks_of(README) if block.language != "text"]
    assert clone.language == "sh" and clone.text.startswith("git clone ") and "pip install" in clone.text
    picture = next(number for number, line in enumerate(lines, 1) if line.startswith("!["))
    assert clone.line < picture <= 12 < first.line <= 16
    assert first.language == "python" and first.prints is not None and "\nwith Engine(" in first.text
    assert 8 <= len([line for line in first.text.splitlines() if line.strip()]) <= 10
    assert lines.index("## Install") <= 65


def test_each_of_its_programs_runs_by_itself_and_leaves_one_file(tmp_path: Path) -> None:
    """Copied alone from the page, it works: the first one with a real client, at a server that plays the model."""
    replies = [*call("orders.late"), refine("stop", answer="O-1004 and O-1007 are late.")]
    with model_server() as server:
        server.script(*(streamed(CHAT.events(json.dumps(reply))) for reply in replies))
        variables = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        programs = [block for block in blocks_of(README) if block.language == "python"]
        for number, program in enumerate(programs):
            folder = tmp_path / str(number)
            folder.mkdir()
            [(_, output)] = run_program([program], folder, **variables)
            assert output.strip() == (program.prints or "").strip(), f"{README}:{program.line}"
            assert {path.name for path in folder.iterdir()} == {"page.py", "orders.db"}
        assert len(server.requests) == len(replies) and len(programs) == 2


def test_its_sessions_run_and_look_as_shown(tmp_path: Path) -> None:
    """In order, in one folder; compared without ids, times and sizes."""
    seen = 0
    for command, output in run_sessions(SESSIONS, reader_folder(tmp_path)):
        assert matches(command.expected, output), f"{command.line}:\n{output}"
        seen += 1
    assert seen == sum(len(list(commands_of(block))) for block in SESSIONS) >= 5
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# Summarise the obligations")
    assert (tmp_path / "run.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.whole
def test_commands_within_its_text_work(tmp_path: Path) -> None:
    """What is named as the proof of a guarantee proves it; the benchmarks run in part, they take minutes."""
    reader_folder(tmp_path)
    first = SESSIONS[0].text.splitlines()[0][2:]
    assert run_line(first, tmp_path).returncode == 0
    assert {"paor verify", "paor replay", "python benchmarks/run.py", "python examples/host_app.py"} <= {
        *INLINE
    }
    for line in INLINE:
        line += {"python benchmarks/run.py": " --quick verifying"}.get(line, HELP if line in SERVES else "")
        if ".ci/" in line:
            assert line in page(".ci/run"), f"{line}: continuous integration runs something else"
            continue
        done = run_line(line, tmp_path)
        assert done.returncode == 0, f"{line}: {done.stdout}"


def test_the_test_command_is_the_one_that_continuous_integration_runs() -> None:
    """The same installation, and the same set of tests on all processors; running it here would run this test again."""
    install, test = INSTALL_LINES[-1].split(" && ")[-2:]
    assert (install, test) == ("pip install -e '.[dev]'", "pytest -n auto")
    assert "-m pip install -q -e '.[dev]'" in page(".ci/run")
    assert "`python .ci/gates.py`" in page(README) and "python .ci/gates.py" in page(".ci/run")
    assert all(f'"{word}"' in page(".ci/gates.py") for word in test.split())


def test_the_gates_are_those_that_contributing_describes() -> None:
    """Each in a row of its table."""
    rows = re.findall(r"(?m)^\| (`[a-z`, ]+`) \|", page("CONTRIBUTING.md").partition("## Layout")[0])
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    gates = re.findall(r'(?m)^    "(\w+)": check_\w+,$', page(".ci/gates.py"))
    assert len(gates) >= 8 and set(gates) <= described


@pytest.mark.whole
def test_the_install_lines_work_in_a_fresh_clone(tmp_path: Path) -> None:
    """With nothing but Python and git: clone, install, first job."""
    origin = repository(tmp_path / "origin")
    clone = next(block for block in blocks_of(README) if block.language == "sh").text.splitlines()[0]
    assert " REPOSITORY " in clone
    lines = "\n".join(["set -e", clone.replace("REPOSITORY", f"'{origin}'"), INSTALL_LINES[0], ""])
    env = {name: value for name, value in (environment() | KEYS).items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        ["sh"], check=False, input=lines, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900
    )
    if done.returncode and "pip" in done.stderr and "No matching distribution" in done.stderr:
        pytest.skip(f"no package registry: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert "Obligations" in done.stdout
    assert "Deadlines" in (tmp_path / "paor" / "report.md").read_text(encoding="utf-8")
