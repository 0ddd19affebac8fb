"""The crash matrix that users have: their agent is killed at its points, and what is broken in it is found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paor.errors import UsageError
from paor.fsm.explain.coverage import Coverage
from paor.testing.crash_matrix import CrashReport, _spread, matrix
from paor.testing.crash_worker import perform

ROOT = Path(__file__).parents[2]
AGENTS = "tests.crash.agents"

pytest_plugins = ["pytester"]


def crashed(tmp_path: Path, agent: str, run: Any = "Send it", **options: Any) -> CrashReport:
    """Return the report on an agent; one process at a time, since tests share their processors."""
    options.setdefault("processes", 1)
    return matrix(f"{AGENTS}:{agent}", run, folder=tmp_path, places=[str(ROOT)], **options)


def in_place(tmp_path: Path, **given: Any) -> dict[str, Any]:
    """Do a job in this process, as far as it comes; the current folder and the path for imports are as before."""
    folder, path, before = tmp_path / "case", list(sys.path), Path.cwd()
    folder.mkdir(exist_ok=True)
    job = {"folder": str(folder), "part": "start", "target": 0, "path": [str(ROOT), *path], "answers": {}}
    try:
        return perform({**job, "start": None, "resume": None, "world": None, **given})
    except Exception as error:  # noqa: BLE001 - told, as a process of the matrix tells it
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        os.chdir(before)
        sys.path[:] = path


def points_of(tmp_path: Path, agent: str, *names: str) -> list[int]:
    """Return the numbers of an agent's points with these names, and of those right before and after each."""
    told = in_place(tmp_path, app=f"{AGENTS}:{agent}", run={"objective": "Send it"})["points"]
    places = [place for place, name in enumerate(told, 1) if name in names]
    assert places
    return sorted({near for place in places for near in (place - 1, place, place + 1, place + 2)})


def test_a_sound_agent_is_killed_and_always_ends_alike(tmp_path: Path) -> None:
    """Before and after writes, requests and calls; a once tool has run once, and nothing is left over."""
    near = points_of(tmp_path, "sound", "tool mail.send, before", "model selection, after")
    told: list[tuple[int, int]] = []
    report = crashed(
        tmp_path,
        "sound",
        world=f"{AGENTS}:world",
        points=near,
        processes=2,
        tell=lambda done, whole: told.append((done, whole)),
    )
    assert report.failures == ()
    assert report.killed == tuple(near)
    assert report.processes == 2 + 2 * len(near)
    assert told == [(done, len(near)) for done in range(1, len(near) + 1)]
    kinds = {name.rpartition(",")[0] for name in report.points}
    assert kinds >= {"tool notes.read", "tool mail.send", "model selection", "model review", "write COMMIT"}
    assert all(
        report.points.count(f"{kind}, before") == report.points.count(f"{kind}, after") for kind in kinds
    )
    assert "all ended alike" in report.headline
    assert not [path for path in (tmp_path / "crash-matrix").iterdir() if path.name.isdigit()]
    covered = Coverage.read(report.coverage)
    assert any(row.count for row in covered.rows if row.name.startswith("Executing wait Executing [in_doubt"))


@pytest.mark.parametrize("start", [None, f"{AGENTS}:start_async"], ids=["sync", "async"])
def test_an_agent_whose_calls_time_out_ends_alike_wherever_it_is_killed(
    start: str | None, tmp_path: Path
) -> None:
    """Before, at and after a deadline; nothing is sent, and of the once call somebody says so."""
    near = points_of(tmp_path, "timing_out", "tool notes.read, after", "tool mail.send, after")
    run = "Send it" if start is None else None
    report = crashed(tmp_path, "timing_out", run, start=start, world=f"{AGENTS}:world", points=near)
    assert report.failures == () and len(report.killed) >= 5
    covered = Coverage.read(report.coverage)
    assert any(row.count for row in covered.rows if row.name.startswith("Executing wait Executing [in_doubt"))


# -- broken agents ---------------------------------------------------------------------------------------------


def test_a_once_tool_that_is_labelled_read_is_found(tmp_path: Path) -> None:
    """By the name that the test gives, and by the world that the tool has changed; its folder is left to be looked at."""
    near = points_of(tmp_path, "mislabelled", "tool mail.send, after")
    report = crashed(tmp_path, "mislabelled", once=["mail.send"], world=f"{AGENTS}:world", points=near)
    assert report.killed == tuple(near)
    assert {line.partition("(")[2].partition(")")[0] for line in report.failures} == {
        "tool mail.send, after",
        "write COMMIT, before",
    }
    assert any("ran 2 times, at most 1 expected" in line for line in report.failures)
    assert any(
        "world: ['a@example.org', 'a@example.org'], expected ['a@example.org']" in line
        for line in report.failures
    )
    assert len([path for path in (tmp_path / "crash-matrix").iterdir() if path.name.isdigit()]) == 2
    assert crashed(tmp_path, "mislabelled", points=near[1:2]).failures == (), (
        "nobody has said that it must not"
    )


@pytest.mark.whole
def test_a_tool_that_is_not_as_idempotent_as_it_says_is_found_in_the_world(tmp_path: Path) -> None:
    """Nothing of it is in the journal."""
    near = points_of(tmp_path, "repeating", "tool mail.send, after")
    report = crashed(tmp_path, "repeating", world=f"{AGENTS}:world", points=near)
    assert len(report.failures) == 2 and all("world: " in line for line in report.failures)


@pytest.mark.whole
def test_a_journal_that_keeps_rows_back_is_found(tmp_path: Path) -> None:
    """A caller was told of a row that the next process does not find."""
    near = points_of(tmp_path, "late", "model review, before")
    report = crashed(tmp_path, "late", "Say", points=near)
    assert any("was reported to the caller and is not in the journal" in line for line in report.failures)


@pytest.mark.whole
def test_a_model_that_goes_on_by_its_own_count_is_found(tmp_path: Path) -> None:
    """What it says depends on the process, so the run does not come to the same end."""
    near = points_of(tmp_path, "forgetful", "model review, before")
    report = crashed(tmp_path, "forgetful", "Say", points=near)
    assert any(
        line.partition("): ")[2].startswith(("end:", "answer:", "rows:", "totals:"))
        for line in report.failures
    )


@pytest.mark.whole
def test_a_program_that_starts_anew_after_a_crash_is_found(tmp_path: Path) -> None:
    """Its own way of going on is asked; here it leaves a run behind and sends twice."""
    near = points_of(tmp_path, "sound", "tool mail.send, after")
    report = crashed(tmp_path, "sound", resume=f"{AGENTS}:resume_newest", points=near)
    assert any("2 runs, expected 1" in line for line in report.failures)
    assert any("mail.send" in line and "ran 2 times" in line for line in report.failures)


@pytest.mark.whole
def test_an_agent_that_is_not_the_same_each_time_is_told_before_anything_is_killed(tmp_path: Path) -> None:
    """Else every case would differ."""
    report = crashed(tmp_path, "wandering", "Say")
    assert report.killed == () and "two runs that nobody killed differ" in report.failures[0]
    assert crashed(tmp_path, "wandering", "Say", ignore=["answer"], points=2).failures == ()


def test_a_process_that_hangs_is_given_up(tmp_path: Path) -> None:
    """The case fails with its time; nothing is left running."""
    report = crashed(tmp_path, "hanging", points=1, timeout_s=3)
    assert "still running after 3 seconds" in report.failures[0]


@pytest.mark.whole
def test_a_once_tool_whose_result_nobody_could_give_is_told(tmp_path: Path) -> None:
    """Bytes cannot be typed in; it needs a reconcile."""
    report = crashed(tmp_path, "silent", points=points_of(tmp_path, "silent", "tool mail.send, after"))
    assert all("needs a reconcile" in line for line in report.failures)
    assert [line.partition("(")[2].partition(")")[0] for line in report.failures] == [
        "tool mail.send, after",
        "write COMMIT, before",
    ]


# -- what can be killed ----------------------------------------------------------------------------------------


@pytest.mark.whole
def test_an_agent_that_waits_is_answered(tmp_path: Path) -> None:
    """An approval, and a question of an async tool in the middle of its call."""
    answers = {"approval": {"approve": True}, "elicitation": "me"}
    report = crashed(tmp_path, "asking", answers=answers, points=range(22, 36, 2), world=f"{AGENTS}:world")
    assert report.failures == () and len(report.killed) == 7


@pytest.mark.whole
def test_the_async_driver_is_killed_by_a_function_that_starts_it(tmp_path: Path) -> None:
    """Its rows are written by another thread."""
    report = crashed(tmp_path, "sound", None, start=f"{AGENTS}:start_async", points=3)
    assert report.failures == () and len(report.killed) == 3


@pytest.mark.whole
def test_a_workflow_of_tasks_is_killed(tmp_path: Path) -> None:
    """Each task is a run of its own; the workflow takes them up."""
    report = crashed(
        tmp_path, "of_tasks", None, start=f"{AGENTS}:start_tasks", points=4, world=f"{AGENTS}:world"
    )
    assert report.failures == () and len(report.killed) == 4


@pytest.mark.large
@pytest.mark.parametrize("agent", ["asking", "of_tasks", "sound"])
def test_the_large_form_kills_all_points_of_every_kind_of_run(tmp_path: Path, agent: str) -> None:
    """What the tests above do at a few points only."""
    starts = {"of_tasks": f"{AGENTS}:start_tasks", "sound": f"{AGENTS}:start_async"}
    answers = {"approval": {"approve": True}, "elicitation": "me"}
    run = None if agent in starts else "Send it"
    report = crashed(tmp_path, agent, run, start=starts.get(agent), answers=answers, processes=2)
    assert report.failures == () and len(report.killed) == len(report.points)


# -- what cannot -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"app": "agents"}, "app: expected MODULE:NAME"),
        ({"app": 3}, "app: expected MODULE:NAME"),
        ({"run": None}, "takes run, the objective, or start"),
        ({"start": "a:b"}, "takes run, the objective, or start"),
        ({"run": None, "start": "nothing"}, "start: expected MODULE:NAME"),
        ({"world": "world"}, "world: expected MODULE:NAME"),
        ({"points": 0}, "points: expected a whole number from 1"),
        ({"points": "some"}, "points: expected a whole number from 1"),
        ({"points": [3, 0]}, "points: expected a whole number from 1"),
        ({"points": True}, "points: expected a whole number from 1"),
        ({"processes": 0}, "processes: expected a whole number from 1"),
        ({"answers": {"question": 1}}, "answers: knows elicitation"),
        ({"answers": {"approval": object()}}, "go to another process as JSON"),
        ({"run": {"objective": "a", "documents": [("a.bin", b"\xff")]}}, "go to another process as JSON"),
        ({"once": "mail.send"}, "once takes a list"),
        ({"ignore": ["time"]}, "ignore: knows end, answer"),
        ({"timeout_s": 0}, "timeout_s: expected seconds"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused_before_anything_runs(
    tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    """In one line that names it."""
    app, run = options.pop("app", f"{AGENTS}:sound"), options.pop("run", "Send it")
    with pytest.raises(UsageError, match=told):
        matrix(app, run, folder=tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_cannot_be_started_is_told_with_the_reason(tmp_path: Path) -> None:
    """Of the process that nobody kills: the module, the name, the kind of value, the journal, an answer that is missing."""
    for app, run, told in (
        ("tests.crash.no_such:engine", "Send it", "importing tests.crash.no_such raised ModuleNotFoundError"),
        (f"{AGENTS}:no_such", "Send it", "has no no_such"),
        (f"{AGENTS}:TASKS", "Send it", "is of type list, expected an Engine or a function"),
        (f"{AGENTS}:not_an_engine", "Send it", "returned a value of type int, expected an Engine"),
        (f"{AGENTS}:absolute", "Send it", "has the journal :memory:; each process needs one of its own"),
        (f"{AGENTS}:asking", "Send it", "the run waits for an approval"),
        (f"{AGENTS}:sound", "", "the objective must be a non-empty text"),
    ):
        found = in_place(tmp_path, app=app, run={"objective": run})
        assert told in found["error"], app
    found = in_place(tmp_path, app=f"{AGENTS}:sound", run=None, start=f"{AGENTS}:start_nothing")
    assert "returned a value of type NoneType, expected the run's Result" in found["error"]
    with pytest.raises(UsageError, match=r"nobody killed it, and it ended with UsageError: .*has no no_such"):
        crashed(tmp_path / "matrix", "no_such")


def test_a_job_can_be_done_where_it_is_asked_for(tmp_path: Path) -> None:
    """What a process of the matrix finds, without one: facts, points, calls, and nothing that is lost."""
    found = in_place(
        tmp_path, app=f"{AGENTS}:sound", run={"objective": "Send", "documents": [["a.txt", "Alpha"]]}
    )
    (facts,) = found["facts"]
    assert facts["end"] == ["Done", "done", "model_stop"]
    assert [document[0] for document in facts["documents"]][:1] == ["round1_task1_action0_input"]
    assert [entry["tool"] for entry in found["calls"] if "begun" in entry] == ["notes.read", "mail.send"]
    assert found["problems"] == found["lost"] == found["left"] == []
    again = in_place(tmp_path, app=f"{AGENTS}:sound", run={"objective": "Send"}, part="finish")
    assert again["facts"] == found["facts"], "a run that has ended is left as it is"


def test_points_are_spread_evenly() -> None:
    """First and last among them, none twice, all when there are not so many."""
    assert _spread(10, "all") == list(range(1, 11)) == _spread(10, 10) == _spread(10, 99)
    assert _spread(10, 4) == [1, 4, 7, 10]
    assert _spread(10, 2) == [1, 10]
    assert _spread(10, 1) == [5]
    assert all(len(_spread(97, count)) == count for count in range(1, 97))
    assert _spread(10, [9, 2, 9]) == [2, 9]
    with pytest.raises(UsageError, match="the run has 10, so there is no point 11"):
        _spread(10, [2, 11])


@pytest.mark.whole
def test_the_fixture_tells_what_was_killed_and_counts_its_coverage(pytester: pytest.Pytester) -> None:
    """A module beside the test is found; failures are the test's own, told without a traceback."""
    pytester.makepyfile(
        my_app="""
        import os
        import pathlib
        from paor import Engine, ScriptedModel
        from paor.testing import answer

        def engine(journal):
            return Engine(ScriptedModel([answer("Known.")]), journal=journal)

        own = Engine(ScriptedModel([answer("Known.")]), journal="mine.db")
        def broken(journal):
            pathlib.Path(f"process-{os.getpid()}").touch()
            return engine(journal)

        def world():
            return len(list(pathlib.Path().glob("process-*")))
        """,
        test_my_app="""
        import pytest

        def test_sound(crash_matrix):
            report = crash_matrix("my_app:own", run="Say", points=3, processes=1)
            assert len(report.killed) == 3

        def test_broken(crash_matrix):
            crash_matrix("my_app:broken", run="Say", points=2, world="my_app:world", processes=1)
        """,
    )
    result = pytester.runpytest_subprocess("--import-mode=importlib", "--paor-cov")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["crash matrix of my_app:broken: *", "killed at * world: 2, expected 1*", "*paor crash matrix*"]
    )
    result.stdout.fnmatch_lines(
        ["test_my_app.py::test_sound: 3 of * points killed in 8 processes, all ended alike"]
    )
    result.stdout.fnmatch_lines(["TOTAL * % in * transitions"])
    assert "Traceback" not in result.stdout.str()


def in_child(tmp_path: Path, **given: Any) -> dict[str, Any]:
    """Do a job as a process of the matrix does it: in a child of a process that has nothing of the agent."""
    program = "import sys, json; from paor.testing.crash_server import in_child; print(json.dumps(in_child(json.load(sys.stdin))))"
    job = {
        "folder": str(tmp_path),
        "part": "start",
        "target": 0,
        "path": [str(ROOT), *sys.path],
        "answers": {},
        "app": f"{AGENTS}:sound",
        "run": {"objective": "a"},
        "start": None,
        "resume": None,
        "world": None,
        "timeout_s": 60,
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(job | given),
        capture_output=True,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_child_that_is_killed_is_told_by_its_signal(tmp_path: Path) -> None:
    """The number below 0; whatever it has said before does not count."""
    assert in_child(tmp_path, target=5) == {"ended": -signal.SIGKILL}


def test_what_a_child_has_started_is_not_waited_for_and_ends_with_it(tmp_path: Path) -> None:
    """It may hold open whatever the child had open."""
    found = in_child(tmp_path, app=f"{AGENTS}:leaving")
    assert found["ended"] == 0 and found["problems"] == []
    left = Path("/proc", (tmp_path / "left.txt").read_text(), "stat")
    assert not left.exists() or left.read_text().rpartition(") ")[2].startswith("Z")
