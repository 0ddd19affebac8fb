"""Limits that are given for one run change only themselves, wherever they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Engine, Limits, ReplyTokens, ScriptedModel, Task
from paor.errors import UsageError
from paor.states.settings.limits import merged_limits

from ..support.cli_support import Shell
from ..support.planning import World
from ..support.worlds import READ, STOP, SUCCESS

TOKENS = st.fixed_dictionaries(
    {}, optional={name: st.integers(1, 9) for name in ("selection", "plan", "text", "review")}
)
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "max_steps": st.integers(1, 9),
        "token_budget": st.none() | st.integers(1, 9),
        "max_retries": st.integers(0, 3),
        "time_budget_s": st.none() | st.just(2.5),
        "max_reply_tokens": st.none() | TOKENS,
        "block_repeated_success": st.booleans(),
    },
)


def value_of(fields: dict[str, Any]) -> Limits:
    """Return a `Limits` value that was made with *fields*."""
    tokens = fields.get("max_reply_tokens")
    return Limits(**(fields | ({"max_reply_tokens": ReplyTokens(**tokens)} if tokens is not None else {})))


def naive(*layers: dict[str, Any]) -> dict[str, Any]:
    """Return every limit by its name: that of the last layer that says it, else the default."""
    values = Limits().model_dump()
    for layer in layers:
        for name, value in layer.items():
            inner = name == "max_reply_tokens" and value is not None
            if inner and values[name] is not None:
                values[name] = {**values[name], **value}
            elif inner:
                values[name] = {**ReplyTokens().model_dump(), **value}
            else:
                values[name] = value
    return values


@given(GIVEN, GIVEN, GIVEN, st.booleans())
def test_only_what_was_given_changes(
    engine: dict[str, Any], run: dict[str, Any], fork: dict[str, Any], as_value: bool
) -> None:
    """The same for a value and for a mapping, in any number of layers, and given twice is given once."""
    form: Any = value_of if as_value else dict
    first = merged_limits(value_of(engine), form(run))
    assert first.model_dump() == naive(engine, run)
    second = merged_limits(first, form(fork))
    assert second.model_dump() == naive(engine, run, fork)
    assert merged_limits(second, form(fork)) == second == merged_limits(second, None)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"no": 1}, "unknown field 'no'"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_reply_tokens": {"no": 1}}, "no"),
    ],
)
def test_a_wrong_limit_is_one_line_wherever_it_is_given(
    wrong: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with World(tmp_path, [*READ(1), STOP, SUCCESS]) as world:
        run_id = world.run().run_id
        before = len(world.journal.runs())
        engine = world.engine
        calls: list[Callable[[], Any]] = [
            lambda: engine.run("Read", limits=wrong),
            lambda: engine.run_workflow("Read", limits=wrong),
            lambda: engine.fork(run_id, 1, limits=wrong),
        ]
        for call in calls:
            with pytest.raises(UsageError) as told:
                call()
            assert words in str(told.value) and str(told.value).startswith("limits: ")
            assert "\n" not in str(told.value)
        assert len(world.journal.runs()) == before


@pytest.mark.parametrize(
    "given", [Limits(token_budget=90_000), {"token_budget": 90_000}], ids=["value", "mapping"]
)
def test_every_place_that_takes_limits_keeps_the_others(given: Any, tmp_path: Path) -> None:
    script = [*READ(1), STOP, SUCCESS]
    own = Limits(max_steps=7, snippet_chars=77)
    with World(tmp_path, script * 6, limits=own) as world:
        engine = world.engine

        def bounds(run_id: str) -> tuple[Any, ...]:
            limits = world.journal.spec(run_id).limits
            return limits.max_steps, limits.snippet_chars, limits.token_budget, limits.max_retries

        first = engine.run("Read the notes", limits=given).run_id
        assert bounds(first) == (7, 77, 90_000, 2)
        assert bounds(engine.run("Read the notes").run_id) == (7, 77, None, 2)
        fork = engine.fork(first, 1, limits=Limits(max_retries=1), drive=False).run_id
        assert bounds(fork) == (7, 77, 90_000, 1)
        engine.cancel(fork)
        result = engine.run_workflow("Read it all", tasks=[Task("Read")], limits=given)
        task = next(row for row in world.journal.runs() if row.task == 1 and row.workflow_id == result.run_id)
        assert bounds(task.run_id)[:2] == (7, 77) and 0 < (bounds(task.run_id)[2] or 0) <= 90_000


def test_the_steps_of_a_planner_stay_unless_they_are_given(tmp_path: Path) -> None:
    with Engine("offline", journal=tmp_path / "a.db", limits=Limits(token_budget=9)) as engine:
        assert (engine.limits_of("planner").max_steps, engine.limits_of("react").max_steps) == (1000, 5)
        assert engine.limits_of("planner").token_budget == 9
    with Engine("offline", journal=tmp_path / "b.db", limits=Limits(max_steps=5)) as engine:
        assert engine.limits_of("planner").max_steps == 5


def test_a_run_that_is_resumed_keeps_its_limits(tmp_path: Path) -> None:
    """Whatever the engine has that goes on with it."""
    with Engine(ScriptedModel([*READ(1), STOP, SUCCESS]), journal=tmp_path / "a.db") as engine:
        events = engine.stream("Read", limits=Limits(max_steps=3), on_close="stop")
        run_id = next(events).run_id
        events.close()
    with Engine(ScriptedModel([]), journal=tmp_path / "a.db", limits=Limits(max_steps=9)) as other:
        other.resume(run_id)
        assert other.journal.spec(run_id).limits.max_steps == 3


def test_limits_of_the_command_line_change_only_themselves(shell: Shell) -> None:
    shell.write(
        "desk.py",
        "from paor import Engine, Limits\n"
        "def engine(journal):\n"
        "    return Engine('offline', journal=journal, limits=Limits(max_steps=7, snippet_chars=77))\n",
    )
    shell.write("note.txt", "Tea is due on Monday.\n")
    shell("run", "Summarise", "--document", "note.txt", "--token-budget", "90000", "--app", "desk:engine")
    limits = shell("show", "--json").json["spec"]["limits"]
    assert (limits["max_steps"], limits["snippet_chars"], limits["token_budget"]) == (7, 77, 90_000)
    shell("fork", "last", "--at", "1", "--max-steps", "9", "--no-run", "--app", "desk:engine")
    limits = shell("show", "last", "--json").json["spec"]["limits"]
    assert (limits["max_steps"], limits["snippet_chars"], limits["token_budget"]) == (9, 77, 90_000)
