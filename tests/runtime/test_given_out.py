"""
What a host is handed is its own, or nobody can change it.

Each run is walked twice: once as it is, and once with a host that changes everything that it is handed, all the way down. Both write
the same bytes and make the same calls.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import orjson
import pytest
from pydantic import BaseModel

from paor import Engine, Journal, Machine, ModelCall, Policy, Reply, Tool, ToolContext, replay, tool
from paor.errors import UsageError
from paor.machine import GuardContext
from paor.testing import call, refine

from ..support import worlds
from ..support.flows import Calls
from ..support.journey import Journey, play
from ..support.journeys import JOURNEYS
from ..support.own_machines import KINDS, World
from ..support.worlds import JOURNAL, SUCCESS
from .inside import host_rows

METADATA = {"tenant": "acme", "tags": ["a", {"b": 1}]}
VALUES = {"rates": {"eur": [1, 2]}, "open": True}


def containers(given: Any, *, seen: dict[int, Any] | None = None) -> Iterator[Any]:
    """Yield every object that can be reached from *given* by public names and holds something: containers last, innermost first."""
    seen = {} if seen is None else seen
    if id(given) in seen or isinstance(given, str | bytes | int | float | type | None):
        return
    seen[id(given)] = given
    if isinstance(given, Mapping):
        inner = [*given.keys(), *given.values()]
    elif isinstance(given, list | tuple | set | frozenset):
        inner = list(given)
    elif dataclasses.is_dataclass(given):
        inner = [getattr(given, field.name) for field in dataclasses.fields(given)]
    elif isinstance(given, msgspec.Struct):
        inner = [getattr(given, name) for name in given.__struct_fields__]
    elif isinstance(given, BaseModel):
        inner = [getattr(given, name) for name in type(given).model_fields]
    elif type(given).__name__ == "CallContext":
        inner = [value for name, value in vars(given).items() if not name.startswith("_")]
    else:
        return
    for item in inner:
        yield from containers(item, seen=seen)
    yield given


def attempts(thing: Any) -> list[Callable[[], object]]:
    """Return every way to change one object."""
    if isinstance(thing, dict):
        names = list(thing)
        return [
            *(lambda name=name: thing.__setitem__(name, "***") for name in names),
            lambda: thing.update(account="***"),
            lambda: thing.setdefault("more", "***"),
            *(lambda name=name: thing.pop(name) for name in names[:1]),
            thing.clear,
        ]
    if isinstance(thing, list):
        return [
            lambda: thing.append("***"),
            lambda: thing.insert(0, "***"),
            lambda: thing.__setitem__(0, "***"),
            thing.reverse,
            thing.clear,
        ]
    if isinstance(thing, set):
        return [thing.clear, lambda: thing.add("***")]
    if isinstance(thing, bytearray):
        return [thing.clear]
    if isinstance(thing, msgspec.Struct):
        return [partial(setattr, thing, name, None) for name in thing.__struct_fields__]
    if isinstance(thing, BaseModel):
        return [partial(setattr, thing, name, None) for name in type(thing).model_fields]
    return []


def meddle(given: Any) -> None:
    """Change everything that can be reached from *given*; what cannot be changed refuses."""
    for thing in list(containers(given)):
        for attempt in attempts(thing):
            with suppress(Exception):  # refused, in whichever way
                attempt()


class Meddler:
    """
    A host that changes what it is handed, or leaves it alone.

    Attributes:
        meddles: Whether it changes anything.
        calls: The arguments of every call and every request to the model, as they came in.
        handed: Names of the kinds of objects that it was handed.
    """

    def __init__(self, *, meddles: bool) -> None:
        self.meddles = meddles
        self.calls: list[tuple[str, Any]] = []
        self.handed: set[str] = set()

    def takes(self, given: Any) -> None:
        """Be handed something."""
        self.handed.add(type(given).__name__)
        if self.meddles:
            meddle(given)

    def tool(self, of: Tool) -> Tool:
        """Return *of* as this host has it."""

        def run(context: ToolContext, **arguments: Any) -> Any:
            self.calls.append((of.name, copy.deepcopy(arguments)))
            value = of.invoke(copy.deepcopy(arguments), context)
            self.takes(arguments)
            self.takes(context)
            return value

        return dataclasses.replace(of, run=run, typed=False)

    def model(self, of: Any) -> Any:
        """Return the model *of* as this host has it."""

        class Model:
            name = of.name
            calls_tools = getattr(of, "calls_tools", False)
            answers_in_order = True

            def ask(_, asked: ModelCall) -> Any:
                self.calls.append((asked.kind, request_of(asked)))
                reply = of.ask(asked)
                self.takes(asked)
                return reply

        return Model()

    def around(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand behind every hook, model and function of a host."""
        given = host_rows.host_value

        def host_value(function: Any, case: GuardContext, kind: type) -> Any:
            def seen(context: GuardContext) -> Any:
                value = function(context)
                self.takes(context.values)
                self.takes(context)
                return value

            seen.__name__ = function.__name__
            return given(seen, case, kind)

        monkeypatch.setattr(host_rows, "host_value", host_value)
        engine.hooks = (self.takes,)
        engine.model = self.model(engine.model)

    def looks(self, engine: Engine) -> None:
        """Be handed all that an engine and its journal tell."""
        journal = engine.journal
        given: Any
        for given in (engine.policy, engine.limits, engine.tools, engine.waiting(), journal.runs()):
            self.takes(given)
        for run in journal.runs():
            for given in (
                journal.spec(run.run_id),
                list(journal.transitions(run.run_id)),
                journal.calls(run.run_id),
                engine.result(run.run_id),
            ):
                self.takes(given)


def request_of(call: ModelCall) -> Any:
    """Return what a model is asked with, as data."""
    return orjson.loads(orjson.dumps([call.schema, msgspec.to_builtins([call.messages, call.tools])]))


def sensible(context: GuardContext) -> bool:
    """Nothing has been counted below zero."""
    return context.counters.step >= 0


def guarded() -> Machine:
    """Return a machine in which a guard of the host is asked in every row that may have one."""
    machine = Machine.standard()
    for trigger in sorted({row.trigger for row in machine.rows}):
        with suppress(UsageError):
            machine = machine.require(trigger, sensible)
    return machine


Walk = Callable[[Path, Meddler, pytest.MonkeyPatch], None]
"""Walks a run whose journal is in a folder, with a host."""


def compared(walk: Walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Meddler:
    """Walk twice, changing what is handed out the second time; return the host that did."""
    written, hosts = [], []
    for meddles in (False, True):
        folder, host = tmp_path / str(meddles), Meddler(meddles=meddles)
        folder.mkdir()
        with monkeypatch.context() as patched:
            walk(folder, host, patched)
        with Journal(folder / JOURNAL, read_only=True) as journal:
            assert journal.verify() == []
            lines = [line for run in journal.runs() for line in journal.export(run.run_id)]
        written.append(lines)
        hosts.append(host)
    assert hosts[1].calls == hosts[0].calls
    assert written[1] == written[0]
    return hosts[1]


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_a_host_that_changes_what_it_is_handed_changes_nothing(
    journey: Journey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events, requests, arguments, contexts and results: changed all the way down, they decide, record and call nothing else."""

    def walk(folder: Path, host: Meddler, patched: pytest.MonkeyPatch) -> None:
        run = {"metadata": copy.deepcopy(METADATA), "values": copy.deepcopy(VALUES), **journey.run}
        own = dataclasses.replace(
            journey, tools=lambda: [host.tool(each) for each in journey.tools()], run=run
        )
        with own.engine(folder, machine=guarded()) as engine:
            host.around(engine, patched)
            host.looks(engine)
            play(own, engine)
            host.looks(engine)

    host = compared(walk, tmp_path, monkeypatch)
    assert {"TransitionTaken", "RunEnded", "ModelCall", "GuardContext", "Spec", "Result"} <= host.handed


@pytest.mark.parametrize("kind", KINDS)
def test_the_functions_of_an_own_machine_see_copies(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards, questions, arguments, and what a first phase chooses."""

    def walk(folder: Path, host: Meddler, patched: pytest.MonkeyPatch) -> None:
        engine, answers = KINDS[kind](folder / JOURNAL, World())
        with engine:
            host.around(engine, patched)
            result = engine.run("Mend it", metadata=copy.deepcopy(METADATA))
            for answer in answers:
                assert result.waiting_for is not None
                question = result.waiting_for.id
                host.takes(result)
                result = engine.resume(result.run_id, question=question, **answer)
            host.looks(engine)

    compared(walk, tmp_path, monkeypatch)


class Thinker:
    """A model whose provider gives turns of its own form, with calls."""

    name = "thinker"
    calls_tools = True
    answers_in_order = True

    def ask(self, call: ModelCall) -> Reply:
        """Call twice, then answer."""
        step = {"id": f"c{call.number}", "name": "notes_read", "arguments": {"page": 1 + call.number}}
        said = {"text": "", "calls": [step]} if call.number < 2 else {"text": "All is read.", "calls": []}
        return Reply(
            orjson.dumps(said).decode(), parts=({"type": "thinking", "x": [1, {"y": 2}]},), api="own"
        )


def test_a_native_turn_is_the_same_whatever_its_model_does_with_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schemas of tools, calls made before, and the provider's own parts."""

    def walk(folder: Path, host: Meddler, patched: pytest.MonkeyPatch) -> None:
        with worlds.engine(
            folder, [], [host.tool(each) for each in worlds.TOOLS], machine=guarded()
        ) as engine:
            engine.model = Thinker()
            host.around(engine, patched)
            assert engine.run("Read", profile="native").steps == 2

    compared(walk, tmp_path, monkeypatch)


FLOW = """
init: {found: [], at: {page: 1}}
first: {action: 'my/tool:summarise', input: {data: '${at}'}, post: {'found[]': '${summary}', all: {list: '${found}'}}}
then: {action: 'my/tool:summarise', input: {data: '${all}'}, post: {'found[]': '${summary}'}}
last: {action: 'notify:send_slack', input: {text: '${found}'}}
"""


def test_the_variables_of_a_workflow_are_changed_by_its_tasks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event, request and call is changed; the next task reads what ``post`` has set."""

    def walk(folder: Path, host: Meddler, patched: pytest.MonkeyPatch) -> None:
        tools = [host.tool(each) for each in Calls().tools]
        script = [SUCCESS] * 3
        with worlds.engine(folder, script, tools) as engine:
            host.around(engine, patched)
            engine.run("Read", workflow=FLOW)
            host.looks(engine)

    called = [name for name, _ in compared(walk, tmp_path, monkeypatch).calls if "." in name]
    assert called == ["my.tool.summarise", "my.tool.summarise", "notify.send_slack"]


def test_a_hook_may_take_values_out_of_its_event(tmp_path: Path) -> None:
    """As hosts do before they log one: the event is the hook's own, and the call is made as it was approved."""
    sent, logged = list[str](), list[Any]()

    @tool("notes.send", effect="once")
    def send(text: str, tags: list[str]) -> str:
        """Send a note."""
        sent.append(f"{text} {tags}")
        return "sent"

    def log(event: Any) -> None:
        if getattr(event, "arguments", None):
            event.arguments["text"] = "***"
            event.arguments["tags"].clear()
            logged.append(event.arguments)

    script = [*call("notes.send", text="secret", tags=["a"]), refine("stop", answer="sent")]
    with worlds.engine(
        tmp_path, script, [send], hooks=[log], policy=Policy(approvals=("notes.*",))
    ) as engine:
        waiting = engine.run("Send it")
        result = engine.resume(waiting.run_id, answer={"approve": True})
        assert result.state == "Done" and replay(engine.journal, result.run_id, engine).identical
    assert sent == ["secret ['a']"] and logged == [{"text": "***", "tags": []}] * 2


def _hear(heard: list[str], event: object) -> None:
    heard.append(repr(event))


@pytest.mark.parametrize("journey", JOURNEYS[:3], ids=lambda journey: journey.name)
def test_each_hook_and_the_caller_have_their_own_copy_of_an_event(journey: Journey, tmp_path: Path) -> None:
    """A hook that changes its event changes neither what the next hook hears nor what `run` and `stream` give."""
    told: list[list[str]] = []
    for first in (repr, meddle):
        heard: list[str] = []
        folder = tmp_path / first.__name__
        folder.mkdir()
        with journey.engine(folder) as engine:
            engine.hooks = (cast("Any", first), partial(_hear, heard))
            result = play(dataclasses.replace(journey, run={**journey.run, "metadata": METADATA}), engine)
            heard.append(repr(result))
        told.append(heard)
    assert told[0] == told[1] and any("'tenant': 'acme'" in text for text in told[1])


def test_the_caller_of_a_stream_may_take_values_out_of_an_event_that_a_hook_has_changed(
    tmp_path: Path,
) -> None:
    """The stream's own copy holds all, and can be changed."""
    script = [*call("notes.read", page=1), refine("stop", answer="read"), SUCCESS]
    with worlds.engine(tmp_path, script, hooks=[meddle]) as engine:
        arguments: list[Any] = [
            getattr(event, "arguments", None)
            for event in engine.stream("Read", metadata=METADATA, on_close="stop")
            if getattr(event, "arguments", None)
        ]
    assert arguments == [{"page": 1}]
    arguments[0].clear()
