"""Which repeated call is one too many, the same live, after a restart and by an oracle of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paor import Limits, Tool, tool
from paor.errors import ToolError

from ..support.cases import short
from ..support.effort import examples
from ..support.recording import World, observation, observations
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS, flaky
from .inside import duplicate_key, extend_window, rule_broken, window_length

LIMITS = st.builds(
    Limits,
    consecutive_limit=st.integers(2, 6),
    window_size=st.integers(1, 12),
    window_freq_limit=st.integers(1, 6),
)


def naive(executed: str, proposal: str, limits: Limits) -> str | None:
    """The rule of C1 in words, over the whole list of executed calls."""
    trailing = len(executed) - len(executed.rstrip(proposal))
    if trailing + 1 >= limits.consecutive_limit:
        return "consecutive"
    if executed[-limits.window_size :].count(proposal) >= limits.window_freq_limit:
        return "frequency"
    last = executed[-7:] + proposal
    if len(last) == 8 and len(set(last)) == 2 and all(last[i] == last[i - 2] for i in range(2, 8)):
        return "alternation"
    return None


def blocked(
    sequence: str, limits: Limits, rule: Callable[[str, str, Limits], str | None] = naive
) -> list[tuple[int, str]]:
    """Return number and rule of each blocked call of *sequence*; blocked calls are not executed."""
    executed, found = "", []
    for number, key in enumerate(sequence, 1):
        broken = rule(executed, key, limits)
        if broken is None:
            executed += key
        else:
            found.append((number, broken))
    return found


class Guard:
    """The guard as a run keeps it: a bounded window and one counter."""

    def __init__(self) -> None:
        self.window: tuple[str, ...] = ()
        self.same = 0
        self.executed = ""

    def __call__(self, executed: str, key: str, limits: Limits) -> str | None:
        """Return the rule that *key* breaks after *executed*, of which only the last call is new."""
        if len(executed) > len(self.executed):
            last = executed[-1]
            self.same = self.same + 1 if self.window and self.window[-1] == last else 1
            self.window = extend_window(self.window, limits, last)
            self.executed = executed
        assert len(self.window) <= window_length(limits), "memory stays bounded"
        return rule_broken(key, self.window, self.same, limits)


# -- C1, by a window and over everything (its table is in machine/test_spec_guard.py) -------------------------------


@settings(max_examples=examples(500))
@given(sequence=st.text(alphabet="ABC", max_size=40), limits=LIMITS)
@example(sequence="ABABABAB" * 3, limits=Limits())
def test_the_rule_with_a_window_is_the_rule_over_everything(sequence: str, limits: Limits) -> None:
    """A bounded memory decides like the whole list, for any limits."""
    assert blocked(sequence, limits, Guard()) == blocked(sequence, limits)


@given(
    prefix=st.text(alphabet="ABC", max_size=20),
    pair=st.sampled_from(["AB", "BA", "AC"]),
    times=st.integers(3, 6),
    suffix=st.text(alphabet="ABC", max_size=4),
    window_size=st.integers(1, 12),
)
@example(prefix="C", pair="AB", times=4, suffix="", window_size=8)
def test_A154_an_alternation_is_seen_wherever_it_stands(
    prefix: str, pair: str, times: int, suffix: str, window_size: int
) -> None:
    """Behind any calls, also when the window of the other rule is longer or shorter than the pattern."""
    limits = Limits(consecutive_limit=99, window_freq_limit=99, window_size=window_size)
    sequence = prefix + pair * times + suffix
    assert blocked(sequence, limits, Guard()) == blocked(sequence, limits)
    if times >= 4:
        assert "alternation" in {name for _, name in blocked(sequence, limits)}


def played(sequence: str) -> list[Any]:
    """Return a script that proposes *sequence* and then stops."""
    replies = [reply for key in sequence for reply in (SELECT(), PARAMETERS(page=ord(key)), CONTINUE)]
    return [*replies[:-1], STOP, SUCCESS]


# -- attempts ----------------------------------------------------------------------------------------------------------


def test_C2_8_the_retries_of_a_step_count_as_one_call(tmp_path: Path) -> None:
    """A call that is tried three times within its step is one call to the guard."""
    page = PARAMETERS(page=1)
    select = SELECT("notes.flaky")
    script = [select, page, CONTINUE, select, page, CONTINUE, select, page, STOP, SUCCESS]
    with World(tmp_path, script, [flaky(2, retries=2, effect="idempotent")]) as world:
        world.run()
        assert [row.step for row in world.rows if row.trigger == "retry_step"] == [1, 1]
        assert [row.step for row in world.rows if row.trigger == "refuse"] == [3]


# -- keys ----------------------------------------------------------------------------------------------------------


def test_a_key_says_nothing_and_belongs_to_one_run() -> None:
    """A fixed length, hex, another one for another run's salt and for another tool."""
    key = duplicate_key("salt", "a.b", {"a": "secret"})
    assert re.fullmatch(r"[0-9a-f]{32}", key)
    assert key != duplicate_key("pepper", "a.b", {"a": "secret"})
    assert key != duplicate_key("salt", "a.c", {"a": "secret"})
    assert duplicate_key("s", "ab.c", {}) != duplicate_key("sa", "b.c", {})


def counts(name: str, calls: list[Any], **options: Any) -> Tool:
    """Return a tool with an optional parameter that notes its calls in *calls*."""

    @tool(name, effect="idempotent", **options)
    def look(page: int, mode: str = "short") -> str:
        """Look."""
        calls.append((page, mode))
        return f"page {page}, {mode}"

    return look


LOOK = {"page": "number", "mode": "string"}


def looked(*calls: dict[str, Any], action: str = "notes.look") -> list[Any]:
    """Return a script of calls to a tool of `counts`, then a stop."""
    fields = [
        {"name": name, "type": kind, "required": name == "page", "description": name}
        for name, kind in LOOK.items()
    ]
    replies: list[Any] = []
    for values in calls:
        replies += [SELECT(action, parametersSchema={"fields": fields}), PARAMETERS(**values), CONTINUE]
    return [*replies[:-1], STOP, SUCCESS]


def test_C2_3_the_key_is_taken_after_defaults(tmp_path: Path) -> None:
    """A default that is written out is the same call as one that is left out."""
    calls: list[Any] = []
    script = looked({"page": 1}, {"mode": "short", "page": 1.0}, {"page": 1})
    with World(tmp_path, script, [counts("notes.look", calls)]) as world:
        world.run()
        assert calls == [(1, "short")] * 2
        assert [row.step for row in world.rows if row.trigger == "refuse"] == [3]


ALIASES = [
    "notes.look",
    "notes_look",
    "notes:look",
    "notes/look",
    "notes-look",
    "Notes.Look",
    {"method": "notes", "name": "look"},
    {"method": "notes", "name": "notes.look"},
    {"method": "notes.look", "name": "look"},
]


@pytest.mark.parametrize("alias", ALIASES, ids=short)
def test_A166_C2_5_aliases_share_one_tool_and_one_key(tmp_path: Path, alias: Any) -> None:
    """``notes_look`` and ``notes.look`` hit one tool; the third call in a row is blocked whatever it is called."""
    calls: list[Any] = []
    script = [
        reply
        for action in ("notes.look", alias, "notes.look")
        for reply in (SELECT(action), PARAMETERS(page=1), CONTINUE)
    ]
    with World(tmp_path, [*script[:-1], STOP, SUCCESS], [counts("notes.look", calls)]) as world:
        world.run()
        assert calls == [(1, "short")] * 2
        assert [row.step for row in world.rows if row.trigger == "refuse"] == [3]


def test_C2_8_a_polling_tool_is_exempt(tmp_path: Path) -> None:
    """A tool that declares it may be repeated is never blocked, and its calls do not stop the run."""
    calls: list[Any] = []
    script = looked(*[{"page": 1}] * 12)
    look = counts("notes.look", calls, repeat_allowed=True)
    with World(tmp_path, script, [look], limits=Limits(max_steps=20)) as world:
        assert world.run().state == "Done"
        assert len(calls) == 12
        assert world.count("refuse") == 0


# -- what a blocked call looks like ----------------------------------------------------------------------------


def test_A155_A156_a_blocked_call_is_observed_with_marker_and_last_output(tmp_path: Path) -> None:
    """The handler is not called; the model sees the marker and what the same call brought the last time."""
    calls: list[int] = []

    @tool("notes.read", effect="idempotent", label="page")
    def counting(page: int) -> str:
        """Count."""
        calls.append(page)
        return f"page {page}, read {len(calls)} times"

    with World(tmp_path, played("AAA"), [counting]) as world:
        world.run()
        assert len(calls) == 2
        assert world.model.kinds.count("parameters") == 3 and world.count("respecify") == 0
        seen = observation(world, 2)
        assert seen["success"] is False
        assert seen["notes"][0] == (
            "duplicate_call_blocked: the same call was made in step 2 (consecutive rule);"
            " change the arguments or choose another action"
        )
        assert seen["previews"] == [
            {"name": "last output", "mime": "text/plain", "snippet": "page 65, read 2 times"}
        ]
        assert (seen["documentsCount"], seen["resultLabel"]) == (0, "round1_task1_action3_refused")
        for asked in (world.model.of("refinement")[2], world.model.of("review")[0]):
            action, result = [message.text for message in asked.messages[-3:-1]]
            assert action.startswith('{"action":"notes.read"')
            assert result.startswith(
                "Error of notes.read:\nduplicate_call_blocked: the same call was made in step 2"
            )
            assert result.endswith("Its result was:\npage 65, read 2 times")


def test_C2_6_the_echo_is_the_last_success_also_after_a_failure(tmp_path: Path) -> None:
    """A failed repeat and a blocked call leave the last success in place."""
    answers = iter(["first", ToolError("torn"), "never"])

    @tool("notes.read", effect="idempotent")
    def moody(page: int) -> str:
        """Work once."""
        answer = next(answers)
        if isinstance(answer, ToolError):
            raise answer
        return str(answer)

    with World(tmp_path, played("AAAA"), [moody]) as world:
        world.run()
        for seen in observations(world)[2:]:
            assert seen["previews"][0]["snippet"] == "first"


def test_C2_9_blocked_calls_end_the_run_at_their_limit(tmp_path: Path) -> None:
    """Blocking alone would go on for ever: Failed(stuck) with the third blocked call, and nothing is asked after it."""
    with World(tmp_path, played("AAAAAAAA"), limits=Limits(max_steps=50)) as world:
        result = world.run()
        assert (result.state, result.reason, result.steps) == ("Failed", "stuck", 5)
        assert world.model.kinds[-1] == "parameters"
        assert "repeated" in result.answer


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_C2_9_the_limit_of_blocked_calls_can_be_set(tmp_path: Path, limit: int) -> None:
    """It counts blocked calls of the whole run, not only those in a row."""
    limits = Limits(max_steps=50, max_blocked_calls=limit, window_freq_limit=100, window_size=100)
    with World(tmp_path, played("AAAB" * 10), limits=limits) as world:
        assert world.run().reason == "stuck"
        assert world.last_counters()["blocked"] == limit
        assert world.count("refuse") == limit
