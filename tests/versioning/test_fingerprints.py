"""What a run was given has a fingerprint for every part, equal for equal values; a function of the host's has one of its source."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from paor import Policy
from paor.fsm.machine.table import RULES
from paor.fsm.versioning.fingerprints import fingerprints_of
from paor.fsm.versioning.host_code import host_text
from paor.machine import Machine
from paor.prompts.building.templates import NAMES
from paor.states.run.spec import Spec, ToolSpec, machine_data

from ..support.worlds import READ, STOP, SUCCESS, engine


def test_a_spec_has_one_for_every_part(tmp_path: Path) -> None:
    """The number of the rules as it is, of everything else a digest."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        spec = scripted.journal.spec(scripted.run("Read").run_id)
    parts = dict(spec.fingerprints)
    assert parts == fingerprints_of(spec)
    tools = {f"tool.{tool.name}" for tool in spec.tools}
    prompts = {f"prompt.{name}" for name in NAMES}
    assert parts.keys() == {"machine.rules", "machine.table", "policy", "rules", "limits"} | prompts | tools
    assert parts.pop("machine.rules") == str(RULES)
    assert all(re.fullmatch("[0-9a-f]{10}", digest) for digest in parts.values())
    assert len(json.dumps(parts)) < 1_000


def test_a_policy_and_a_tool_are_told_by_their_values(tmp_path: Path) -> None:
    """Equal values, equal fingerprints; any other value, another one."""
    tool = ToolSpec(name="a.b", parameters={"type": "object", "properties": {"x": {"type": "string"}}})
    spec = Spec(objective="x", tools=(tool,))
    before = fingerprints_of(spec)
    edits = {
        "name": "a.c",
        "description": "other",
        "parameters": {},
        "effect": "read",
        "label": "x",
        "repeat_allowed": True,
        "step_retries": 1,
        "duplicate_limits": {"consecutive_limit": 2},
        "filled": ("language",),
    }
    assert edits.keys() == ToolSpec.model_fields.keys()
    for name, value in edits.items():
        after = fingerprints_of(spec.model_copy(update={"tools": (tool.model_copy(update={name: value}),)}))
        assert after.get("tool.a.b") != before["tool.a.b"], name
    after = fingerprints_of(spec.model_copy(update={"policy": Policy(deny=("a.b",))}))
    assert {part for part in after if after[part] != before[part]} == {"policy"}


# -- functions of the host's -------------------------------------------------------------------------------------------

GUARD = '''
def small(context):
    """The amount is small."""
    amount = context.values["amount"]
    return amount < 100
'''
FORMS = {
    "comments and blank lines": ("    return amount", "\n    # a comment\n    return amount"),
    "layout": ("amount < 100", "(\n        amount\n        < 100\n    )"),
    "quotes": ('"amount"', "'amount'"),
}
MEANINGS = {
    "a constant": ("100", "101"),
    "an operator": ("<", "<="),
    "the name of a variable": ("amount =", "total ="),
    "a docstring": ("is small.", "is small.\n\n    In euros."),
}


def code_of(folder: Path, source: str, *, keep: bool = True) -> str:
    """Return the digest of the guard's function in the machine that a spec records; where it is not kept, its source is gone by then."""
    file = folder / f"guards_{len(list(folder.iterdir()))}.py"
    file.write_text(source, encoding="utf-8")
    found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    if not keep:
        file.rename(folder / f"{file.stem}.gone")
    machine = Machine.standard().require("specify", module.small)
    code: str = machine_data(host_text(machine))["code"]["guard.small"]
    return code


@pytest.mark.parametrize("name", FORMS)
def test_a_function_that_is_laid_out_anew_is_the_same(name: str, tmp_path: Path) -> None:
    """A formatter refuses no run."""
    source = GUARD.replace(*FORMS[name])
    assert source != GUARD and code_of(tmp_path, source) == code_of(tmp_path, GUARD)


@pytest.mark.parametrize("name", MEANINGS)
def test_a_function_with_another_word_is_another_one(name: str, tmp_path: Path) -> None:
    """Also where it means the same: names and docstrings count."""
    assert code_of(tmp_path, GUARD.replace(*MEANINGS[name])) != code_of(tmp_path, GUARD)


def test_a_function_without_source_is_known_by_its_compiled_form(tmp_path: Path) -> None:
    """As in a package that holds compiled files alone."""
    sources = (GUARD, GUARD.replace("100", "101"), GUARD.replace("<", "<="))
    assert len({code_of(tmp_path, source, keep=False) for source in sources}) == 3


LAMBDA = """
from paor.fsm.versioning.host_code import function_digest
print(function_digest(lambda case: case.phase in {'Planning', 'Reviewing', 'Executing', 'Observing'}))
"""


def test_a_function_without_source_has_one_digest_in_every_process() -> None:
    """A set of words has another order in each."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", LAMBDA],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(digests) == 1
