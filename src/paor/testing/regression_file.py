"""The file of a regression test: what `paor export --pytest` writes of a scenario."""

from __future__ import annotations

import ast
import re

from ..states.base.version import VERSION
from .python_literals import CALLABLE, source
from .scenario import Scenario
from .scripted import Walk

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


def source_of(scenario: Scenario, played: Walk, run_id: str) -> str:
    """
    Return the source of a test that plays a scenario again.

    Args:
        scenario: That is played.
        played: What it does.
        run_id: Of the run that it tells; the test is named after it.
    """
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
    places = {"paor": {"Engine", "Journal", "ScriptedModel", "SeededIds", "SteppingClock"}}
    places["paor.testing"] = {"play", "problems"}
    for name, place in CALLABLE.items():
        places[place] |= {name.partition(".")[0]} & called
    lines = ["import json\n"] if "json" in called else []
    for place, found in places.items():
        lines.append(f"from {place} import (\n" + "".join(f"    {name},\n" for name in sorted(found)) + ")")
    return "\n".join(lines) + "\n"
