"""`paor resume` and `paor replay` of runs whose prompts, tools or policy have changed since."""

from __future__ import annotations

import json

import pytest

from ..support.cli_support import (
    APP,
    Shell,
)

CHANGED = "prompts={'refinement': 'Say it. {{KEY:OBSERVATION}}', 'plan': 'Plan. {{KEY:OBJECTIVE}}'}, "


@pytest.fixture(name="other")
def make_other(shell: Shell, shop: str) -> str:
    """Return the same app as it was changed meanwhile: another template, and another policy."""
    name = f"{shop}_other"
    text = APP.replace("journal=journal, policy", f"journal=journal, {CHANGED}policy")
    shell.write(
        f"{name}.py",
        text.replace('approvals=("shop.buy",)', 'approvals=("shop.buy", "shop.sell"), missing_ok=True'),
    )
    return name


def test_a_changed_run_is_refused_with_a_line_for_each_part(shell: Shell, shop: str, other: str) -> None:
    assert shell("run", "Buy tea", "--app", f"{shop}:engine").code == 5
    rows = shell("show", "--json").json
    said = shell("resume", "last", "--answer", '{"approve": true}', "--app", f"{other}:engine")
    assert said.code == 2 and said.out == ""
    lines = said.err.splitlines()
    assert lines[0].endswith("was recorded with other parts; nothing was done")
    assert lines[1] == "  policy has changed; used by rows 0, 1, 5, 6; may be used again"
    assert lines[2] == "  prompt.refinement has changed; used by row 4; may be used again"
    assert lines[3] == "  prompt.plan has changed; never used by this run"
    assert "--accept-changes" in lines[4] and len(lines) == 5
    assert shell("show", "--json").json == rows
    assert shell("resume", "last", "--answer", '{"approve": true}', "--app", f"{shop}:engine").code == 0


def test_accepted_changes_go_on_and_every_command_knows_it(shell: Shell, shop: str, other: str) -> None:
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    said = shell(
        "resume", "last", "--answer", '{"approve": true}', "--accept-changes", "--app", f"{other}:engine"
    )
    assert said.code == 5, "the approval was for the call under the policy of then: it is asked again"
    asked = shell("resume", "last", "--json", "--app", f"{other}:engine").json["waiting_for"]["id"]
    answer = ("--question", asked, "--answer", '{"approve": true}')
    said = shell("resume", "last", *answer, "--app", f"{other}:engine")
    assert (said.code, said.out) == (0, "All is bought.\n"), said
    assert shell("verify").code == 0
    for app in ((), ("--app", f"{other}:engine")):
        found = shell("replay", "last", *app)
        assert found.code == 0, found
        assert "accepted from row 7 on: policy, prompt.plan, prompt.refinement" in found.out
        data = shell("replay", "last", "--json", *app).json
        assert data["identical"] and data["changed"] == []
        assert data["accepted"] == [{"seq": 7, "parts": ["policy", "prompt.plan", "prompt.refinement"]}]
    lines = [json.loads(line) for line in shell("export", "last").out.splitlines()]
    assert sum('"spec":{' in str(line.get("request", "")) for line in lines) == 1


def test_the_first_difference_is_shown_and_the_others_are_counted(
    shell: Shell, shop: str, other: str
) -> None:
    shell("run", "Buy tea", "--app", f"{shop}:engine")
    said = shell("replay", "last", "--app", f"{other}:engine")
    assert said.code == 3
    lines = said.out.splitlines()
    assert lines[1] == "  row 4, request.prompt"
    assert lines[2].startswith("    recorded  ") and lines[3].startswith("    derived   ")
    assert any(line.startswith("  changed since: prompt.refinement") for line in lines)
    data = shell("replay", "last", "--app", f"{other}:engine", "--json").json
    assert {item["field"] for item in data["divergences"]} == {"request.prompt", "change.question.approval"}
    assert [item["part"] for item in data["changed"]][:2] == ["policy", "prompt.refinement"]
