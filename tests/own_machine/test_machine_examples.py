"""The examples of own machines: what each prints, killed in every phase, given wrong inputs, checked, drawn, and how long they are."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from paor import Engine, Journal, Result, check, replay
from paor.cli import main
from paor.machine import defects_of

from ..lifecycle.test_resume import in_child
from ..support.pages import ROOT, environment

MACHINES = ROOT / "examples" / "machines"
PRINTED = Path(__file__).parent / "printed"
"""What each example prints; ``python examples/machines/NAME.py`` writes it."""
NAMES = sorted(path.stem for path in PRINTED.glob("*.txt"))


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples can be imported, here and in the processes of their tools."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(MACHINES))
    yield
    for name in {*sys.modules} - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == MACHINES:
            del sys.modules[name]


def command(*line: str, folder: Path) -> tuple[int, str]:
    """Return what a command comes to, and what it says."""
    done = subprocess.run(
        [sys.executable, *line],
        cwd=folder,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_every_example_is_run_here() -> None:
    """A new file needs its text in ``printed``."""
    helpers = {"shown", "patch_tools"}
    assert {path.stem for path in MACHINES.glob("*.py")} == {*NAMES, *helpers}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.whole if name == "verifying" else ()) for name in NAMES],
)
def test_an_example_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    """As a process in another folder, where it leaves nothing; no key, no network."""
    code, printed = command(str(MACHINES / f"{name}.py"), folder=tmp_path)
    assert (code, list(tmp_path.iterdir())) == (0, []), printed
    assert without_output_of_tests(printed) == without_output_of_tests((PRINTED / f"{name}.txt").read_text())


def without_output_of_tests(printed: str) -> list[str]:
    """Return the lines, without what ``unittest`` has said after the name of a failed test: that is Python's to say."""
    return [line.partition("test_ten_pieces_are_cheaper")[0] for line in printed.splitlines()]


# -- killed anywhere -----------------------------------------------------------------------------------------------

WORLDS: dict[str, tuple[tuple[Any, ...], list[dict[str, Any]]]] = {
    "verifying": ((), []),
    "escalating": ((), [{"answer": {"advice": "the table is called orders"}, "actor": "ann"}]),
    "two_reviewers": ((), [{"answer": {"approve": True}, "actor": who} for who in ("ann", "bob")]),
    "triage": ((), []),
    "office_hours": ((), []),
}
"""Of each example what its engine takes beside the folder, and the answers that its run wants."""


@contextmanager
def engine_of(name: str, folder: Path, deps: Any = None) -> Iterator[Engine]:
    """Yield an example's engine on the journal of *folder*, as every process of it makes it."""
    example = importlib.import_module(name)
    given = () if name in ("escalating", "triage") else (deps or folder,)
    with Journal(folder / "runs.db", lease_s=1) as journal, example.engine(journal, *given) as made:
        yield made


def through(engine: Engine, folder: Path, answers: list[dict[str, Any]]) -> Result:
    """Begin or take up the one run of a journal, and give each answer that is still due."""
    runs = engine.journal.runs()
    result = engine.resume(runs[0].run_id) if runs else engine.run("Do it", values={"folder": str(folder)})
    while result.waiting_for is not None:
        question = result.waiting_for
        if question.kind == "in_doubt":  # somebody has looked at the ledger
            paid = (folder / "ledger.txt").exists()
            given: dict[str, Any] = {"outcome": "done", "result": "paid"} if paid else {"outcome": "retry"}
        else:
            rows = engine.journal.transitions(result.run_id)
            given = answers[sum(row.trigger == "provide" and row.source != "Executing" for row in rows)]
        result = engine.resume(result.run_id, question=question.id, **given)
    return result


def dying(name: str, folder: Path, row: int) -> Callable[[], object]:
    """Return what drives an example's run and is killed as soon as the row of that number is durable."""

    def drive() -> object:
        with engine_of(name, folder) as engine:
            engine.hooks = (*engine.hooks, die)
            return through(engine, folder, WORLDS[name][1])

    def die(event: Any) -> None:
        if event.kind == "transition" and event.seq == row:
            os.kill(os.getpid(), signal.SIGKILL)

    return drive


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_is_killed_after_any_row_goes_on(name: str, tmp_path: Path) -> None:
    """With SIGKILL, in every phase: another engine comes to the same rows, and what may happen once has happened once."""
    whole = tmp_path / "whole"
    whole.mkdir()
    with engine_of(name, whole) as engine:
        result = through(engine, whole, WORLDS[name][1])
        rows = engine.journal.transitions(result.run_id)
        assert result.state == "Done"
    walk = [row.trigger for row in rows]
    seen = {row.dest for row in rows}
    assert seen >= {"Planning", "Specifying", "Executing", "Observing", "Reviewing", "Done"} - (
        {"Planning"} if name in ("two_reviewers", "office_hours") else set()
    )
    for row in rows[:-1]:
        folder = tmp_path / str(row.seq)
        folder.mkdir()
        assert in_child(dying(name, folder, row.seq)) == signal.SIGKILL, row
        with engine_of(name, folder) as engine:
            result = through(engine, folder, WORLDS[name][1])
            again = [item.trigger for item in engine.journal.transitions(result.run_id)]
            doubted = row.dest == "Executing" and name in ("two_reviewers", "office_hours")
            assert [item for item in again if not doubted or item not in ("wait", "provide")] == [
                item for item in walk if not doubted or item not in ("wait", "provide")
            ], row
            assert replay(engine.journal, result.run_id, engine).identical
            assert result.state == "Done"
        for ledger in folder.glob("ledger.txt"):
            assert ledger.read_text().splitlines() == ["Dee 250"]


class DeadlyFolder:
    """A folder in which a driver dies right after it has written to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __truediv__(self, name: str) -> DeadlyFolder:
        return DeadlyFolder(self.folder / name)

    @contextmanager
    def open(self, mode: str, encoding: str) -> Iterator[IO[str]]:
        """Yield the file; once it is closed the process is killed."""
        with self.folder.open(mode, encoding=encoding) as file:
            yield file
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("name", ["two_reviewers", "office_hours"])
def test_a_payment_that_is_killed_in_the_middle_is_in_doubt_and_not_made_again(
    name: str, tmp_path: Path
) -> None:
    """The people who agreed are not asked again; one looks at the ledger."""

    def drive() -> None:
        with engine_of(name, tmp_path, DeadlyFolder(tmp_path)) as engine:
            through(engine, tmp_path, WORLDS[name][1])

    assert in_child(drive) == signal.SIGKILL
    with engine_of(name, tmp_path) as engine:
        result = through(engine, tmp_path, [])
        assert (result.state, (tmp_path / "ledger.txt").read_text()) == ("Done", "Dee 250\n")
        rows = [row.trigger for row in engine.journal.transitions(result.run_id)]
        assert rows[rows.index("specify") :][:3] == ["specify", "wait", "provide"]


# -- wrong inputs --------------------------------------------------------------------------------------------------


def test_a_verification_without_its_folder_fails_and_says_so(tmp_path: Path) -> None:
    """The next plan is told what the host has forgotten; nothing is written anywhere."""
    verifying: Any = importlib.import_module("verifying")
    with Journal(tmp_path / "runs.db") as journal, verifying.engine(journal, tmp_path) as engine:
        result = engine.run("Mend it")
        assert result.state == "Failed"
        told = journal.calls(result.run_id)[1]
    assert told.tool == "tests.run" and "values={'folder': PATH}" in told.result


# -- checked, drawn, counted ---------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_paor_check_finds_nothing(name: str, tmp_path: Path) -> None:
    """Nothing in the policy, nothing in the machine."""
    with engine_of(name, tmp_path) as engine:
        assert [str(item) for item in check(engine, modes=("react",)).findings] == []
        assert [str(item) for item in defects_of(engine.machine)] == []


@pytest.mark.parametrize("name", NAMES)
def test_its_diagram_is_the_one_of_the_documentation(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`paor diagram --app`, as its first lines say, in its folder."""
    for path in MACHINES.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    code = main(["diagram", "--app", f"{name}:engine", "--format", "svg"])
    drawn = capsys.readouterr().out
    kept = ROOT / "docs" / f"machine-{name.replace('_', '-')}.svg"
    assert (code, drawn) == (0, kept.read_text(encoding="utf-8"))
    own = {"office_hours": "office_hours", "two_reviewers": "FirstReview"}
    assert own.get(name, name.capitalize()) in drawn


def test_a_guard_takes_five_lines_and_a_phase_fifteen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in the examples, without the schema and the prompt of what is asked."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    counted: Any = importlib.import_module("machine_parts")
    lines = {what: lines for what, (_, lines) in counted.machine_lines().items()}
    assert {what for what, number in lines.items() if number <= 5} == {
        "a new guard",
        "a new guard with a value from outside",
    }
    assert {what for what, number in lines.items() if 5 < number <= 15} == {
        "a new phase with a tool",
        "a new phase with a person",
        "a new phase with a model",
    }
    assert len(lines) == 5
