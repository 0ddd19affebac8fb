"""`profile="auto"`: which form a run asks its model in, what its server is asked first, and how long the context is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paor import Engine, Journal, Limits, OfflineModel, Profile, Reply, ScriptedModel, Task, replay
from paor.errors import KeyConflict, UsageError
from paor.events import Event, ModelNotice
from paor.models import ModelCall

from ..support.worlds import ANSWER, PARAMETERS, SELECT, STOP, TOOLS, engine

TURN = {"text": "", "calls": [{"id": "c1", "name": "notes_read", "arguments": {"page": 1}}]}
NATIVE: list[Any] = [TURN, "It is on page 1."]
STAGES = [SELECT(), PARAMETERS(page=1), STOP | {"answer": "It is on page 1."}]
OWN = "Do {{KEY:OBJECTIVE}}"


class Remote:
    """A model whose server has to be asked, and that answers in the form it is asked in."""

    name = "remote"

    def __init__(self, calls: bool | None = None, context: int | None = None, found: Any = None) -> None:
        self.calls_tools, self.context_tokens, self.found = calls, context, found
        self.looks: list[str] = []
        self.asked: list[ModelCall] = []

    def look(self, *, calls: bool = True) -> Any:
        self.looks.append(threading.current_thread().name)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def ask(self, call: ModelCall) -> Reply:
        self.asked.append(call)
        return Reply("It is known." if call.kind == "turn" else json.dumps(ANSWER("It is known.")))


class AsyncRemote(Remote):
    """The same with an async look beside the sync one."""

    async def alook(self, *, calls: bool = True) -> Any:
        self.looks.append("async")
        return self.found


def facts(calls: bool = True, context: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(calls_tools=calls, context_tokens=context)


def started(tmp_path: Path, model: Any, **options: Any) -> Engine:
    options.setdefault("journal", Journal(tmp_path / "runs.db", "off"))
    return Engine(model, list(TOOLS), **options)


def kinds(model: Remote) -> list[str]:
    return [call.kind for call in model.asked]


# -- what a model says of itself -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "stage"),
    [
        (NATIVE, "native"),
        ([json.dumps(TURN), "It is on page 1."], "native"),
        ([Reply(json.dumps(TURN)), "It is on page 1."], "native"),
        (STAGES, "two_stage"),
        ([ANSWER()], "two_stage"),
    ],
)
def test_a_script_is_asked_in_the_form_of_its_first_reply(
    tmp_path: Path, replies: Sequence[Any], stage: str
) -> None:
    """And the spec says which: a replay needs no model to know."""
    with engine(tmp_path, replies) as scripted:
        result = scripted.run("Read page 1", limits=Limits(completion_review="rules"))
        assert result.state == "Done", result.answer
        assert scripted.journal.spec(result.run_id).profile.stage == stage
        assert replay(scripted.journal, result.run_id, scripted).identical


def test_what_a_script_says_of_itself_wins(tmp_path: Path) -> None:
    """A first reply in words is no call; told that it calls tools, it is asked for turns all the same."""
    model = ScriptedModel(["It is known."], calls_tools=True)
    with started(tmp_path, model) as host:
        assert host.journal.spec(host.run("Say it").run_id).native
    assert ScriptedModel(NATIVE, calls_tools=False).calls_tools is False


def test_a_hosts_own_model_and_the_offline_model_are_asked_in_two_stages(tmp_path: Path) -> None:
    """Without a word of its own, a model is not expected to call tools."""

    class Own:
        name = "own"

        def ask(self, call: ModelCall) -> Reply:
            return Reply(json.dumps(ANSWER()))

    for number, model in enumerate((Own(), OfflineModel())):
        with started(tmp_path, model, journal=Journal(tmp_path / f"{number}.db", "off")) as host:
            spec = host.journal.spec(host.run("Say it").run_id)
            assert spec.profile == Profile() and spec.limits.context_tokens == 32_000


# -- what a server is asked ------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [True, False])
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_server_is_asked_before_the_run_is_written_and_listeners_hear_it(
    tmp_path: Path, calls: bool, driver: str
) -> None:
    """Once a run, for both facts; the choice is the first thing that is told after the start."""
    events: list[Event] = []
    model = Remote(found=facts(calls, 65_536))
    with started(tmp_path, model, hooks=[events.append]) as host:
        result = asyncio.run(host.arun("Say it")) if driver == "async" else host.run("Say it")
        spec = host.journal.spec(result.run_id)
    assert (spec.native, spec.limits.context_tokens) == (calls, 65_536)
    assert kinds(model)[0] == ("turn" if calls else "selection")
    notice = events[1]
    assert isinstance(notice, ModelNotice) and notice.run_id == result.run_id
    stage = "native" if calls else "two_stage"
    assert (notice.notice, notice.code, notice.seq, notice.request) == ("profile", stage, 0, "")
    assert len(model.looks) == 1
    if driver == "async":  # not on the event loop's thread
        assert model.looks[0] != threading.main_thread().name


def test_an_async_driver_awaits_a_model_that_can_be(tmp_path: Path) -> None:
    """Its thread is not needed then."""
    model = AsyncRemote(found=facts())
    with started(tmp_path, model) as host:
        asyncio.run(host.arun("Say it"))
        assert model.looks == ["async"]
        host.run("Say it")
    assert model.looks == ["async", threading.main_thread().name]


def test_a_model_with_an_async_look_alone_is_asked_by_a_sync_driver_too(tmp_path: Path) -> None:
    """Also inside of a running event loop, as in a notebook."""

    class Alone:
        name, calls_tools = "alone", None

        async def alook(self, *, calls: bool = True) -> Any:
            return facts()

        async def aask(self, call: ModelCall) -> Reply:
            return Reply("It is known.")

    with started(tmp_path, Alone()) as host:

        async def notebook() -> str:
            return host.run("Say it").run_id

        assert host.journal.spec(asyncio.run(notebook())).native


@pytest.mark.parametrize(
    ("found", "stage", "context"),
    [
        (None, "two_stage", 32_000),
        (OSError("no route to host"), "two_stage", 32_000),
        (SimpleNamespace(calls_tools="yes", context_tokens="many"), "two_stage", 32_000),
        (facts(context=3), "native", 1_000),
        (facts(context=-1), "native", 32_000),
    ],
    ids=["nothing", "an exception", "no facts", "a tiny context", "an impossible one"],
)
def test_what_a_look_cannot_tell_is_what_a_small_server_can(
    tmp_path: Path, found: Any, stage: str, context: int
) -> None:
    """The run starts all the same."""
    with started(tmp_path, Remote(found=found)) as host:
        spec = host.journal.spec(host.run("Say it").run_id)
    assert (spec.profile.stage, spec.limits.context_tokens) == (stage, context)


@pytest.mark.parametrize(
    ("model", "options", "looks", "context"),
    [
        (lambda: Remote(True, 8_000), {}, 0, 8_000),
        (lambda: Remote(True, None, facts(context=9_000)), {}, 1, 9_000),
        (
            lambda: Remote(None, None, facts()),
            {"profile": "native", "limits": {"context_tokens": 4_000}},
            0,
            4_000,
        ),
        (lambda: Remote(None, 8_000, facts()), {"profile": "two_stage"}, 0, 8_000),
        (lambda: Remote(None, 8_000, facts()), {"stage": "single"}, 0, 8_000),
        (lambda: Remote(None, 8_000, facts()), {"mode": "planner"}, 0, 8_000),
    ],
    ids=["says all", "only the context", "all given", "profile given", "stage given", "no choice"],
)
def test_a_server_is_asked_only_what_has_to_be_known(
    tmp_path: Path, model: Any, options: dict[str, Any], looks: int, context: int
) -> None:
    """A choice that the host or the model has made asks nobody, and is told to nobody."""
    events: list[Event] = []
    remote = model()
    with started(tmp_path, remote, hooks=[events.append]) as host:
        spec = host.journal.spec(host.run("Say it", **options).run_id)
    assert len(remote.looks) == looks and spec.limits.context_tokens == context
    assert not any(isinstance(event, ModelNotice) for event in events)


def test_a_bad_argument_is_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    """Also one that is found last."""
    model = Remote(found=facts())
    with started(tmp_path, model) as host:
        for options in ({"tools": ["notes.none"]}, {"metadata": 3}, {"instructions": lambda context: 3}):
            with pytest.raises(UsageError):
                host.stream("Say it", **options, on_close="stop")
            with pytest.raises(UsageError):
                host.astream("Say it", **options, on_close="stop")
        assert host.journal.runs() == []
    assert model.looks == []


# -- the host's choice -------------------------------------------------------------------------------------------


def test_the_engines_profile_holds_where_a_run_brings_none(tmp_path: Path) -> None:
    """A run may go back to ``auto``; in other modes the engine's ``native`` means their own form."""
    with started(tmp_path, ScriptedModel(["It is known."], cycle=True), profile="native") as host:
        assert host.journal.spec(host.run("Say it").run_id).native
        assert not host.journal.spec(host.run("Say it", profile="auto").run_id).native
        assert host.journal.spec(host.run("Say it", mode="planner").run_id).profile == Profile()
        with pytest.raises(UsageError, match="native is for the mode react"):
            host.run("Say it", mode="planner", profile="native")
    with pytest.raises(UsageError, match="profile 'lenient' is unknown; use auto, native, two_stage, strict"):
        started(tmp_path, OfflineModel(), profile="lenient")


@pytest.mark.parametrize(
    ("prompts", "template", "stage"),
    [
        ({"selection": f"{OWN} {{{{KEY:REPLY}}}}"}, None, "two_stage"),
        ({"selection": OWN, "turn": OWN}, None, "native"),
        ({"review": OWN}, None, "native"),
        ({}, f"{OWN} {{{{KEY:REPLY}}}}", "two_stage"),
        ({}, OWN, "native"),
        ({}, f"{OWN} {{{{KEY:OWN_RULES}}}}", "native"),
    ],
)
def test_a_hosts_own_prompts_are_asked(
    tmp_path: Path, prompts: dict[str, str], template: str | None, stage: str
) -> None:
    """What is written for the two stages would never be asked in turns."""
    model = Remote(True)
    with started(tmp_path, model, prompts=prompts) as host:
        spec = host.journal.spec(host.run("Say it", prompt_template=template).run_id)
    assert spec.profile.stage == stage
    if template is not None:
        name = "turn" if stage == "native" else "selection"
        assert spec.templates[name] == template and spec.own_templates == (name,)


def test_a_runs_own_template_goes_with_what_the_server_says(tmp_path: Path) -> None:
    """It fits both: it is that of the form which is chosen."""
    with started(tmp_path, Remote(found=facts(calls=False))) as host:
        spec = host.journal.spec(host.run("Say it", prompt_template=OWN).run_id)
    assert spec.templates["selection"] == OWN and spec.own_templates == ("selection",)
    assert spec.templates["turn"] != OWN


@pytest.mark.parametrize("name", ["selection", "turn", "plan"])
def test_a_planning_template_without_the_objective_is_refused(tmp_path: Path, name: str) -> None:
    """In one line: its model would not know what it is asked for."""
    with pytest.raises(UsageError, match=f"prompt {name}: {{{{KEY:OBJECTIVE}}}} is missing") as refused:
        started(tmp_path, OfflineModel(), prompts={name: "Do as you like: {{KEY:CATALOG}}"})
    assert "\n" not in str(refused.value)


# -- other starts ------------------------------------------------------------------------------------------------


def test_tasks_submitted_runs_and_next_rounds_choose_as_well(tmp_path: Path) -> None:
    """Each where it is started; the whole of a workflow plans in its own form."""
    model = Remote(found=facts(context=50_000))
    with started(tmp_path, model) as host:
        whole = host.run_workflow("Say both", tasks=[Task("Say it")])
        task = next(row.run_id for row in host.journal.runs() if row.task)
        assert host.journal.spec(task).native and not host.journal.spec(whole.run_id).native
        assert host.journal.spec(host.submit("Say it").run_id).native
        assert host.journal.spec(host.run("And now?", conversation="c", after=whole.run_id).run_id).native
        assert {host.journal.spec(row.run_id).limits.context_tokens for row in host.journal.runs()} == {
            50_000
        }


def test_a_fork_keeps_its_parents_profile_and_takes_a_smaller_context(tmp_path: Path) -> None:
    """Its conversation goes on in the form in which it began; a smaller model gets no more than it can read."""
    with started(tmp_path, ScriptedModel(NATIVE, name="big")) as host:
        parent = host.run("Read page 1")
        other = ScriptedModel(NATIVE, name="small", calls_tools=False)
        other.context_tokens = 8_000  # type: ignore[attr-defined]
        forked = host.fork(parent.run_id, 1, model=other)
        spec = host.journal.spec(forked.run_id)
        assert forked.state == "Done" and spec.native and spec.limits.context_tokens == 8_000
        assert replay(host.journal, forked.run_id, host).identical


def test_a_keyed_start_is_the_same_whatever_the_server_says_by_then(tmp_path: Path) -> None:
    """Only a profile that the caller gives is compared."""
    model = Remote(found=facts(context=50_000))
    with started(tmp_path, model) as host:
        first = host.run("Say it", key="k", limits={"max_steps": 3})
        model.found = facts(calls=False)
        again = host.run("Say it", key="k", limits={"max_steps": 3})
        assert again.run_id == first.run_id
        with pytest.raises(KeyConflict, match="profile"):
            host.run("Say it", key="k", profile="two_stage")
