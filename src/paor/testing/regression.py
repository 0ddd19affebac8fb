"""
A recorded run as a regression test: its inputs, replies, tool outcomes and answers, written as scripts.

A test is only written when it passes: what would be written is played here first, and must take the same transitions
and call the same tools as the record. What looks like a secret is replaced by a word of its own, the same everywhere.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from ..fsm.journal_api import Journal
from ..fsm.transfer.redaction import EXCERPT, Redaction
from ..fsm.transfer.text_search import Excerpts
from ..states.base.errors import PaorError, UsageError
from ..states.base.version import VERSION
from .python_literals import CALLABLE, mapped, source
from .scenario import Scenario, scenario_of
from .scripted import Walk, walk

HEAD = '''"""
A recorded run as a regression test, as `paor export --pytest` has written it.

The model and the tools are scripts that say again what they said then; nothing is asked and nothing is done. It fails
when the run takes another way, calls other tools, or comes to another end. Tools are stubs: their code is not tested.
"""

from __future__ import annotations

'''

BODY = '''

def test_run_{name}(tmp_path):
    """The run of paor {version}; its phases, its calls and its answer are as they were."""
    with Engine(
        ScriptedModel(REPLIES),
        tools(),
        Journal(tmp_path / "runs.db", "off"),
        clock=SteppingClock(step_us=1),
        ids=SeededIds(),
        builtins=False,
        **OPTIONS,
    ) as engine:
        seen = play(engine, RUN, ANSWERS)
        assert problems(engine.journal) == []
    assert seen.phases == PHASES
    assert seen.triggers == TRIGGERS
    assert [(call.tool, call.arguments) for call in seen.calls] == CALLS
    assert (seen.state, seen.reason) == END
    assert seen.answer == ANSWER
'''


def regression_test(journal: Journal, run_id: str, redaction: Redaction | None = None) -> str:
    """
    Return the source of a test that plays a run again.

    Args:
        journal: The journal that holds it.
        run_id: Its id.
        redaction: Rules of what must not stand in it; None: those that are shipped.

    Raises:
        UsageError: The run cannot be written as a script, and why.
        UnknownRun: There is no such run.
    """
    row = journal.run(run_id)
    _check(journal, row.run_id)
    rules = redaction if redaction is not None else Redaction()
    try:
        recorded = walk(journal, row.run_id)
        scenario, hidden = _without_secrets(scenario_of(journal, row.run_id), rules)
        played = _play(scenario, recorded, hidden)
        text = _source_of(scenario, played, row.run_id)
    except RecursionError:
        raise UsageError(f"run {row.run_id}: its data is nested too deeply for a test") from None
    if rules.found_in(text):
        raise UsageError(
            f"run {row.run_id}: a secret would stand in the test, in a form that cannot be replaced"
        )
    return text


def _play(scenario: Scenario, recorded: Walk, hidden: int) -> Walk:
    """
    Return what a scenario does when it is played.

    Raises:
        UsageError: It is not what is recorded.
    """
    try:
        played = scenario.play_back()
        place = _first_difference(recorded, played)
    except (PaorError, AssertionError, TypeError) as error:
        place = f"playing it ended with {type(error).__name__}: {error}"
    if place is None:
        return played
    why = f"; {hidden} texts were replaced since they look like secrets" if hidden else ""
    raise UsageError(f"run {recorded.run_id}: as a script it would not do what is recorded: {place}{why}")


def _first_difference(recorded: Walk, played: Walk) -> str | None:
    """Return where a script leaves the record, None when it does not."""
    for what, first, before, now in (
        ("row", 0, recorded.triggers, played.triggers),
        ("call", 1, recorded.tools, played.tools),
    ):
        for number, (one, other) in enumerate(zip_longest(before, now, fillvalue="nothing"), first):
            if one != other:
                return f"{what} {number} is {one}, played {other}"
    ends = (recorded.state, recorded.reason), (played.state, played.reason)
    return None if ends[0] == ends[1] else f"it ended in {ends[0]}, played {ends[1]}"


def _check(journal: Journal, run_id: str) -> None:
    """
    Refuse what cannot be written as a script.

    Raises:
        UsageError: And why.
    """
    row = journal.run(run_id)
    name = f"run {row.run_id}"
    if row.status not in ("done", "failed"):
        raise UsageError(f"{name} is {row.status}; a test is made of a run that has ended")
    if len(journal.reader.lineage(row.run)) > 1:
        raise UsageError(f"{name} is a fork, which begins in another run; a test is made of a run of its own")
    if row.task == 0:
        raise UsageError(
            f"{name} is a workflow that drives other runs; export its first task, or runs of their own"
        )
    if (row.round, row.task) != (1, 1):
        raise UsageError(
            f"{name} is task {row.task} of round {row.round}: it begins with what other runs have left"
        )
    if row.reason == "time_budget":
        raise UsageError(f"{name} ended since its time was used up, which a script cannot show")
    if any(payload.body is None for payload in journal.reader.iterate_payloads(row.run, 200)):
        raise UsageError(f"{name}: something of it has been erased")
    rows = journal.transitions(row.run_id)
    if any("spec" in item.request for item in rows):
        raise UsageError(f"{name}: changes of prompts, tools or policy were accepted on its way")


def _without_secrets(scenario: Scenario, rules: Redaction) -> tuple[Scenario, int]:
    """Return a scenario without what looks like a secret, and how many texts were changed."""
    values = {name: getattr(scenario, name) for name in Scenario.__slots__}
    secrets: dict[str, str] = {}
    hidden = 0

    def gather(text: Any) -> None:
        for hits in rules.found_in(text).values() if isinstance(text, str | bytes) else ():
            for secret in hits:
                secrets.setdefault(secret, f"redacted-{len(secrets) + 1}")

    mapped(list(values.values()), gather)
    if not secrets:
        return scenario, 0
    ordered = sorted(secrets, key=len, reverse=True)
    index = Excerpts(ordered, least=EXCERPT)

    def hide(text: Any) -> Any:
        nonlocal hidden
        if not isinstance(text, str | bytes):
            return text
        found: Any = text
        for secret in ordered:
            pair = (secret, secrets[secret])
            found = found.replace(*(map(str.encode, pair) if isinstance(text, bytes) else pair))
        if rules.found_in(found) or index.stand_in(found):
            found = b"redacted" if isinstance(text, bytes) else "redacted"
        hidden += found != text
        return found

    return replace(scenario, **{name: mapped(value, hide) for name, value in values.items()}), hidden


def _source_of(scenario: Scenario, played: Walk, run_id: str) -> str:
    constants = {
        "RUN": scenario.run,
        "OPTIONS": scenario.options,
        "REPLIES": scenario.replies,
        "ANSWERS": scenario.answers,
        "PHASES": played.phases,
        "TRIGGERS": played.triggers,
        "CALLS": [(call.tool, dict(call.arguments)) for call in played.calls],
        "END": (played.state, played.reason),
        "ANSWER": played.answer,
    }
    written = [f"{name} = {source(value, 0)}\n" for name, value in constants.items()]
    tools = f"\n\ndef tools():\n    return {source(scenario.tools, 4)}\n"
    body = "\n".join(written) + tools
    called = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    name = re.sub(r"[^0-9a-z]", "_", run_id.lower())[:40]
    return HEAD + _imports(called) + "\n" + body + BODY.format(name=name, version=VERSION)


def _imports(called: set[str]) -> str:
    places = {"paor": {"Engine", "Journal", "ScriptedModel"}, "paor.errors": set[str]()}
    places["paor.testing"] = {"SeededIds", "SteppingClock", "play", "problems"}
    for name, place in CALLABLE.items():
        places[place] |= {name.partition(".")[0]} & called
    lines = ["import json\n"] if "json" in called else []
    for place, found in places.items():
        if found:
            lines.append(
                f"from {place} import (\n" + "".join(f"    {name},\n" for name in sorted(found)) + ")"
            )
    return "\n".join(lines) + "\n"
