"""`paor run --workflow FILE`, and the fields `workflow` and `variables` of its JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..support.cli_support import Shell

FLOW = """
vars: {n: 0}
plan: {input: {promptTemplate: "${mine}"}}
exec: {post: {n: "${n + 1}"}, goto: {when: n < 2, task: loop}}
"""
TEMPLATE = "Plan {{KEY:OBJECTIVE}} with {{KEY:CATALOG_FULL}}."
NOOP = {"steps": [{"type": "noop", "reason": "nothing"}, {"type": "tool", "name": "ai.process", "args": {}}]}
SUCCESS = {"status": "success", "improvements": [], "answer": "All done."}


def test_A159_the_routes_of_the_command_line_start_the_same_run(shell: Shell) -> None:
    """An option, a file in JSON, its text, its data: the same workflow, in the mode that it needs."""
    shell.write("flow.yaml", FLOW)
    data = {
        "vars": {"n": 0},
        "plan": {"input": {"promptTemplate": "${mine}"}},
        "exec": {"post": {"n": "${n + 1}"}, "goto": {"when": "n < 2", "task": "loop"}},
    }
    specs = []
    for given in (None, "flow.yaml", FLOW, data):
        fields: dict[str, Any] = {"objective": "Write it", "workflow": given, "variables": {"mine": TEMPLATE}}
        fields["tools"] = ["ai.process"]
        option = ("--workflow", "flow.yaml") if given is None else ()
        fields = {name: value for name, value in fields.items() if value is not None}
        said = shell(
            "run", "--input", json.dumps(fields), "--model", shell.script({"steps": []}, SUCCESS), *option
        )
        assert (said.code, said.out) == (0, "All done.\n"), said
        specs.append(shell("show", "last", "--json").json["spec"])
        assert shell("replay", "last").code == 0
    assert all(spec["mode"] == "planner" for spec in specs)
    bodies = shell.sql(
        "SELECT body FROM payloads JOIN specs ON payloads.run = specs.run AND n = spec_payload"
    )
    assert len({json.dumps(json.loads(body)["workflow"]) for (body,) in bodies}) == 1
    prompts = shell.sql(
        "SELECT DISTINCT body FROM payloads WHERE body LIKE 'Plan Write it with - ai.process%'"
    )
    assert len(prompts) == 1


def test_A160_the_tools_of_the_command_line_bound_the_plans(shell: Shell) -> None:
    """A plan with another tool is asked again."""
    shell.write("flow.yaml", FLOW)
    said = shell.run(
        "--workflow", "flow.yaml", "--tools", "document.extract", replies=[NOOP, "Done.", SUCCESS]
    )
    assert said.code == 0, said
    assert shell.sql('SELECT "trigger" FROM transitions ORDER BY id LIMIT 1') == [("reselect",)]


def test_a_workflow_that_aborts_is_failed(shell: Shell) -> None:
    """With its reason, and the exit code of a failure."""
    said = shell.run(
        "--input", json.dumps({"workflow": {"stop": {"abort": True}}}), "--json", replies=[{"steps": []}]
    )
    assert (said.code, said.json["reason"]) == (1, "aborted")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--workflow", "none.yaml"), "none.yaml: cannot be read"),
        (("--workflow", "bad.yaml"), "bad.yaml:1:"),
        (("--workflow", "flow.yaml", "--mode", "react"), "mode planner"),
        (("--input", '{"workflow": 5}'), "text or an object"),
        (("--input", '{"variables": {"a": 1}}'), "come with a workflow"),
        (("--input", '{"workflow": {"after": {"action": "no.tool"}}}'), "no.tool"),
    ],
)
def test_what_cannot_be_used_is_told_before_a_journal_is_made(
    shell: Shell, arguments: tuple[str, ...], told: str
) -> None:
    """Exit code 2, one line, no file."""
    shell.write("flow.yaml", FLOW)
    shell.write("bad.yaml", "exec: {wen: 1}")
    said = shell.run(*arguments)
    assert said.code == 2 and told in said.err, said
    assert "paor.db" not in shell.files()
