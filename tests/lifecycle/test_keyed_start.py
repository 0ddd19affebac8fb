"""A key names one start: whoever starts with it again gets the first run, and nothing is done twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from paor import Document, Engine, Journal, Limits, Policy, Task, tool
from paor.errors import KeyConflict, LeaseHeld, RunChanged
from paor.events import RunEnded, RunStarted, TransitionTaken
from paor.testing import RandomIds

from ..modes.test_fallback import BAD, ByKind
from ..runtime.test_one_driver import PROCESSES, Race
from ..support.planning import PLAN, STEP
from ..support.worlds import ANSWER, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, engine, read

ONE = [ANSWER("first"), SUCCESS]
OTHER = [ANSWER("second"), SUCCESS]


def once(folder: Path, *, waits: bool = False, dies: bool = False, **options: Any) -> Engine:
    """Return an engine whose one tool leaves a line in ``effects``, and may then kill its process."""

    def work(page: int) -> str:
        """Work."""
        with (folder / "effects").open("a") as file:
            file.write(f"{page}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return "worked"

    script = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]
    policy = Policy(approvals=("notes.work",)) if waits else Policy()
    tools = [tool("notes.work")(work)]
    return engine(folder, script, tools, **{"ids": RandomIds(), "policy": policy, **options})


def effects(folder: Path) -> int:
    """Return how often the tool was called."""
    file = folder / "effects"
    return len(file.read_text().split()) if file.exists() else 0


# -- a second start ------------------------------------------------------------------------------------------------


def test_a_second_start_of_a_run_that_has_ended_is_its_result(tmp_path: Path) -> None:
    """Also by another engine with another model, in each of the four ways; nothing is appended and no hook hears of it."""
    heard: list[Any] = []
    with engine(tmp_path, ONE) as scripted:
        first = scripted.run("Read", key="order-17", metadata={"try": 1})
        before = scripted.journal.heads()
    with engine(tmp_path, OTHER, hooks=[heard.append]) as scripted:
        assert scripted.run("Read", key="order-17", metadata={"try": 2}) == first
        assert asyncio.run(scripted.arun("Read", key="order-17")) == first
        started, ended = scripted.stream("Read", key="order-17", on_close="stop")
        seq = scripted.journal.run(first.run_id).head_seq
        assert started == RunStarted(first.run_id, "Read", True, seq)
        assert ended == RunEnded(first.run_id, seq, first)

        async def events() -> list[Any]:
            return [event async for event in scripted.astream("Read", key="order-17", on_close="stop")]

        assert asyncio.run(events()) == [started, ended]
        assert scripted.journal.heads() == before and heard == []
        assert scripted.run("Read", key="order-18").answer == scripted.run("Read").answer == "second"
    assert (first.key, first.metadata) == ("order-17", {"try": 1})


def test_a_second_start_of_a_run_that_waits_is_its_question(tmp_path: Path) -> None:
    """It can be answered by whoever gets it; from then on every start has the one end."""
    with once(tmp_path, waits=True) as scripted:
        first = scripted.run("Work", key="k")
        assert (first.status, first.key) == ("waiting", "k")
        assert scripted.run("Work", key="k") == first
        done = scripted.resume(first.run_id, answer={"approve": True})
        assert scripted.run("Work", key="k") == done
        assert (done.status, effects(tmp_path)) == ("done", 1)


@pytest.mark.parametrize("rows", [1, 3, 4, 5])
def test_a_second_start_goes_on_with_a_run_that_nobody_drives(tmp_path: Path, rows: int) -> None:
    """From wherever it was left but within the call, which is in doubt then."""
    with once(tmp_path) as scripted:
        stream = scripted.stream("Work", key="k", on_close="stop")
        events = (event for event in stream if isinstance(event, TransitionTaken))
        for _ in range(rows):
            last = next(events)
        events.close()
        stream.close()
        result = scripted.run("Work", key="k")
        assert (result.run_id, result.status, effects(tmp_path)) == (last.run_id, "done", 1)
        seqs = [
            event.seq
            for event in scripted.stream("Work", key="k", on_close="stop")
            if isinstance(event, TransitionTaken)
        ]
        assert seqs == []


def test_a_second_start_of_a_run_that_is_driven_says_by_whom(tmp_path: Path) -> None:
    """The error of a lease that is held, in this process too."""
    with once(tmp_path) as scripted:
        stream = scripted.stream("Work", key="k", on_close="stop")
        next(stream)
        with pytest.raises(LeaseHeld, match=rf"is driven by process {os.getpid()}"):
            scripted.run("Work", key="k")
        assert next(event for event in stream if isinstance(event, RunEnded)).result.status == "done"
        assert (len(scripted.journal.runs()), effects(tmp_path)) == (1, 1)


def test_a_stream_that_is_never_read_takes_no_key(tmp_path: Path) -> None:
    """It creates nothing before its first event."""
    with engine(tmp_path, ONE) as scripted:
        scripted.stream("Read", key="k", on_close="stop")
        assert scripted.journal.runs() == []
        assert scripted.run("Something else", key="k").status == "done"


def test_a_second_start_after_a_deploy_with_other_prompts_is_that_of_a_resume(tmp_path: Path) -> None:
    """An ended run is its result whatever has changed; one in the middle is refused as a resume refuses it."""
    with engine(tmp_path, ONE) as scripted:
        done = scripted.run("Read", key="done")
        stream = scripted.stream("Read", key="open", on_close="stop")
        next(stream)
        stream.close()
    rules = ["Answer in verse."]
    with engine(tmp_path, ONE, rules=rules, limits=Limits(max_steps=7), tools=[]) as scripted:
        assert scripted.run("Read", key="done") == done
        with pytest.raises(RunChanged):
            scripted.run("Read", key="open")


def test_a_run_in_doubt_stays_in_doubt(tmp_path: Path) -> None:
    """A driver that is killed within a `once` call: the second start asks, and does not make the call again."""
    child = os.fork()
    if child == 0:
        try:
            once(tmp_path, dies=True, journal=Journal(tmp_path / JOURNAL)).run("Work", key="k")
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with once(tmp_path) as scripted:
        for _ in range(2):
            result = scripted.run("Work", key="k")
            assert result.waiting_for is not None and result.waiting_for.kind == "in_doubt"
        assert (len(scripted.journal.runs()), effects(tmp_path)) == (1, 1)


# -- another start under the same key ------------------------------------------------------------------------------

FIRST: dict[str, Any] = {
    "objective": "Read",
    "success_criteria": ["all is read"],
    "documents": [("a.txt", "one"), ("b.txt", "two")],
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"objective": "Write"}, "other objective;"),
        ({"success_criteria": []}, "other success_criteria;"),
        ({"documents": []}, "other documents;"),
        ({"documents": [("a.txt", "one"), ("b.txt", "TWO")]}, "other documents;"),
        ({"documents": [("a.txt", "one"), ("c.txt", "two")]}, "other documents;"),
        ({"documents": [("b.txt", "two"), ("a.txt", "one")]}, "other documents;"),
        ({"documents": [("a.txt", b"one"), ("b.txt", "two")]}, "other documents;"),
        ({"language": "de"}, "other language;"),
        ({"context": "c"}, "other context;"),
        ({"mode": "planner"}, "other mode;"),
        ({"fallback": "batch"}, "other fallback;"),
        ({"profile": "strict"}, "other profile;"),
        ({"final_format": "md"}, "other final_format;"),
        ({"limits": Limits(max_steps=9)}, "other limits;"),
        ({"tools": ["notes.read"]}, "other tools;"),
        ({"prompt_template": "Choose.\n{{KEY:OBJECTIVE}}"}, "other prompt_template;"),
        ({"objective": "Write", "language": "de"}, "other objective, language;"),
    ],
)
def test_a_key_of_another_start_is_refused_and_says_what_differs(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    """One line; nothing is started, and the first run stays as it is."""
    with engine(tmp_path, ONE) as scripted:
        first = scripted.run(**FIRST, key="k")
        before = scripted.journal.heads()
        for act in (lambda: scripted.run(**{**FIRST, **change}, key="k"), lambda: list(scripted.stream(**{**FIRST, **change}, key="k", on_close="stop"))):  # fmt: skip
            with pytest.raises(KeyConflict) as found:
                act()
            assert words in str(found.value) and "\n" not in str(found.value)
            assert f"key 'k' is that of run {first.run_id}, which was started with" in str(found.value)
        assert scripted.journal.heads() == before
        assert scripted.run(**FIRST, key="k") == first


@pytest.mark.parametrize(
    "same",
    [
        {"model": "offline"},
        {"metadata": {"a": 1}},
        {"mode": "react"},
        {"language": ""},
        {"limits": Limits()},
        {"tools": ["notes.read", "notes.send", "notes.fail"]},
        {"documents": [Document("a.txt", "one", "text/plain"), ("b.txt", "two")]},
        {"success_criteria": ("all is read ",)},
    ],
)
def test_what_says_the_same_in_other_words_is_the_same_start(tmp_path: Path, same: dict[str, Any]) -> None:
    """And so is another model, or other metadata: they decide nothing of what is to be done."""
    with engine(tmp_path, ONE) as scripted:
        first = scripted.run(**FIRST, key="k")
        assert scripted.run(**{**FIRST, **same}, key="k") == first


def test_documents_that_were_erased_are_taken_for_the_same(tmp_path: Path) -> None:
    """There is nothing left to compare them with; their number and names are."""
    with engine(tmp_path, ONE) as scripted:
        first = scripted.run(
            "Read", documents=[("a.txt", "a secret of some length, told to nobody")], key="k"
        )
        document = scripted.journal.documents(first.run_id)[0]
        scripted.journal.erase(first.run_id, payloads=[document.payload])
        assert scripted.run("Read", documents=[("a.txt", "another")], key="k") == scripted.result(
            first.run_id
        )
        with pytest.raises(KeyConflict, match="other documents"):
            scripted.run("Read", documents=[("b.txt", "another")], key="k")


# -- workflows, rounds, fallbacks ----------------------------------------------------------------------------------


def test_a_workflow_of_tasks_has_the_key_and_its_tasks_have_none(tmp_path: Path) -> None:
    """A second start is the result of the whole; other tasks are another start."""
    tasks = [Task("Read page one"), Task("Read page two")]
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        first = scripted.run_workflow("Read all", tasks=tasks, key="k", metadata={"tenant": "acme"})
        assert scripted.run_workflow("Read all", tasks=tasks, key="k") == first
        assert asyncio.run(scripted.arun_workflow("Read all", tasks=tasks, key="k")) == first
        assert [(row.task, row.key) for row in scripted.journal.runs()] == [(2, None), (1, None), (0, "k")]
        assert [row.task for row in scripted.journal.runs(metadata={"tenant": "acme"})] == [0]
        for other in (tasks[:1], None):
            with pytest.raises(KeyConflict, match="other tasks"):
                scripted.run_workflow("Read all", tasks=other, key="k")
        with pytest.raises(KeyConflict):
            scripted.run("Read all", key="k")


def test_a_next_round_has_a_key_of_its_own(tmp_path: Path) -> None:
    """The same message opens one round, also when it comes while that round is driven, or after a third one."""
    with engine(tmp_path, ONE) as scripted:
        scripted.run("Read", key="mail-1", conversation="c")
        second = scripted.run("And now?", key="mail-2", conversation="c")
        assert scripted.run("And now?", key="mail-2", conversation="c") == second
        scripted.run("And then?", key="mail-3", conversation="c")
        assert scripted.run("And now?", key="mail-2", conversation="c") == second
        assert [(row.round, row.key) for row in scripted.journal.runs()] == [
            (3, "mail-3"),
            (2, "mail-2"),
            (1, "mail-1"),
        ]
        with pytest.raises(KeyConflict, match="other objective"):
            scripted.run("And what?", key="mail-3", conversation="c")
        with pytest.raises(KeyConflict, match="other objective"):
            scripted.run("And now?", key="mail-1", conversation="c")
        for other in (None, "d"):
            with pytest.raises(KeyConflict, match="other conversation"):
                scripted.run("And now?", key="mail-2", conversation=other)


def falling_back(folder: Path) -> Engine:
    """Return an engine whose react runs fail, and whose batch runs do not."""
    model = ByKind(selection=[BAD], plan=[PLAN(STEP(page=1))], review=[SUCCESS])
    return Engine(model, [read], Journal(folder / JOURNAL, "off"), builtins=False)


def test_the_run_that_stands_in_for_a_failed_one_is_what_its_key_gives(tmp_path: Path) -> None:
    """The failed one keeps the key; the result is that of the other, and bears the key too."""
    with falling_back(tmp_path) as host:
        result = host.run("Read", fallback="batch", key="k", metadata={"a": 1})
        failed, stands_in = reversed(host.journal.runs())
        assert (failed.status, failed.key, stands_in.key) == ("failed", "k", None)
        assert (failed.metadata, stands_in.metadata) == ({"a": 1}, {"a": 1})
        assert result.run_id == stands_in.run_id and (result.key, result.metadata) == ("k", {"a": 1})
        assert host.run("Read", fallback="batch", key="k") == result
        assert host.journal.verify() == [] and len(host.journal.runs()) == 2


def test_a_fallback_that_a_crash_prevented_is_started_by_the_second_start(tmp_path: Path) -> None:
    """As a resume would start it."""
    with falling_back(tmp_path) as host:
        stream = host.stream("Read", fallback="batch", key="k", on_close="stop")
        assert next(event for event in stream if isinstance(event, RunEnded)).result.status == "failed"
        stream.close()
        assert len(host.journal.runs()) == 1
        result = host.run("Read", fallback="batch", key="k")
        assert (len(host.journal.runs()), result.status, result.key) == (2, "done", "k")


def test_an_erased_run_has_given_its_key_back(tmp_path: Path) -> None:
    """Nobody can say any more what it was started with, so a start with it is a new one."""
    with engine(tmp_path, ONE) as scripted:
        first = scripted.run("Read", key="k")
        scripted.journal.erase(first.run_id)
        second = scripted.run("Write", key="k")
        assert second.run_id != first.run_id and second.key == "k"


# -- processes -----------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_of_50_processes_that_start_with_one_key_one_creates_the_run(tmp_path: Path) -> None:
    """In a file that does not exist yet; the others are told who drives it, and the effect happens once."""
    race = Race(tmp_path)
    race.expected = PROCESSES - 1
    race.run(lambda scripted: scripted.run("Work", key="order-17"))
    assert Counter(line["came_to"] for line in race.lines()) == {"Done": 1, "LeaseHeld": PROCESSES - 1}
    assert len(race.effects.read_text().split()) == 1
    race.judge(1)
    race.expected = 0
    race.run(lambda scripted: scripted.run("Work", key="order-17"))
    assert Counter(line["came_to"] for line in race.lines()[PROCESSES:]) == {"Done": PROCESSES}
    assert len(race.effects.read_text().split()) == 1
    race.judge(1)
