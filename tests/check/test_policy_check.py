"""Rules that can never fire are found, each with its place; a policy without any has no finding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import ApprovalRule, Engine, Journal, Policy, ScriptedModel, tool
from paor.errors import RunChanged, UsageError
from paor.fsm.check.policy_lint import policy_findings
from paor.testing import call, refine
from paor.tools.approvals import approval_needed
from paor.tools.policy import denial, matches

from ..support.cases import ToolSpec
from ..support.cli_support import (
    Shell,
)

PARAMETERS = {
    "type": "object",
    "properties": {
        "amount": {"type": "number"},
        "share": {"type": "integer", "exclusiveMinimum": 0, "maximum": 100},
        "to": {"type": "array", "items": {"type": "object", "properties": {"host": {"type": "string"}}}},
        "more": {"type": "object", "properties": {}, "additionalProperties": True},
        "kind": {"enum": ["part", "whole"]},
        "flags": {"type": "array", "items": {"type": "boolean"}},
        "any": {"$ref": "#/$defs/any"},
    },
}
TOOLS = [ToolSpec(name=name, parameters=PARAMETERS) for name in ("crm.read", "crm.write", "web.search")]


def found(**policy: Any) -> list[tuple[str, str]]:
    findings = policy_findings(Policy(**policy), TOOLS)
    assert all("\n" not in item.message and item.message.isascii() for item in findings)
    return [(item.code, item.place) for item in findings]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, []),
        ({"deny": ["crm.write"]}, [("never_allowed", "tools[crm.write]")]),
        ({"deny": ["crm.writes"]}, [("matches_nothing", "policy.deny[0]")]),
        (
            {"deny": ["crm.*", "crm_write"]},
            [
                ("covered", "policy.deny[1]"),
                ("never_allowed", "tools[crm.read]"),
                ("never_allowed", "tools[crm.write]"),
            ],
        ),
        (
            {"deny": ["web.*"], "allow": ["web.search", "crm.*"]},
            [("always_denied", "policy.allow[0]"), ("never_allowed", "tools[web.search]")],
        ),
        (
            {"allow": ["crm.*"], "task_types": {"find": ["web.*", "crm.*"]}},
            [("not_allowed", "policy.task_types['find'][0]"), ("never_allowed", "tools[web.search]")],
        ),
        ({"approvals": ["mail.*"]}, [("matches_nothing", "policy.approvals[0]")]),
        (
            {"approvals": ["web.*"], "deny": ["web.*"]},
            [("always_denied", "policy.approvals[0]"), ("never_allowed", "tools[web.search]")],
        ),
        ({"approvals": ["crm.*", "crm.read"]}, [("covered", "policy.approvals[1]")]),
        ({"approvals": ["crm.read", "crm.*"]}, []),
        (
            {"approvals": [ApprovalRule(tool="crm.read", arguments={"amount": "9*"}), "crm.*"]},
            [("compares_digits", "policy.approvals[0]"), ("covered", "policy.approvals[0]")],
        ),
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"amuont": "9*"})]}, [("unknown_argument", "policy.approvals[0]")]),
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"kind": "Whole"})]}, [("never_fits", "policy.approvals[0]")]),
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"kind": "wh*"})]}, []),
        
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"flags": "yes"})]}, [("never_fits", "policy.approvals[0]")]),
        
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"to.host": "*"})]}, []),
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"to.port": "*"})]}, [("unknown_argument", "policy.approvals[0]")]),
        
        
        
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"amount": {"gt": 100}})]}, []),
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"amount": {"eq": "100"}})]}, [("other_type", "policy.approvals[0]")]),
        
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"to.host": {"gt": 5}})]}, [("other_type", "policy.approvals[0]")]),
        
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"kind": {"eq": "Whole"}})]}, [("never_fits", "policy.approvals[0]")]),
        
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"flags": {"eq": 1}})]}, [("other_type", "policy.approvals[0]")]),
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"share": {"gt": 100}})]}, [("never_fits", "policy.approvals[0]")]),
        
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"share": {"lt": 0}})]}, [("never_fits", "policy.approvals[0]")]),
        
        ({"approvals": [ApprovalRule(tool="crm.*", arguments={"any": {"gt": 5}})]}, []),
    ],
    ids=str,
)  # fmt: skip
def test_every_rule_that_cannot_fire_is_named_by_its_place(
    policy: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert found(**policy) == expected


PATTERNS = st.lists(
    st.sampled_from(["*", "crm.*", "crm.read", "*.write", "web.search", "mail.*"]), max_size=3
)


@given(deny=PATTERNS, allow=PATTERNS, approvals=PATTERNS)
def test_a_rule_without_a_finding_decides_something(
    deny: list[str], allow: list[str], approvals: list[str]
) -> None:
    """Held against what the policy does: a rule that has a finding can be left out and nothing changes."""
    policy = Policy(deny=tuple(deny), allow=tuple(allow), approvals=tuple(approvals))
    findings = policy_findings(policy, TOOLS)
    for name in ("deny", "approvals"):
        rules = getattr(policy, name)
        named = [item.place for item in findings if item.place.startswith(f"policy.{name}")]
        for index in range(len(rules)):
            without = policy.model_copy(update={name: rules[:index] + rules[index + 1 :]})
            same = all(_verdict(policy, tool.name) == _verdict(without, tool.name) for tool in TOOLS)
            assert not (f"policy.{name}[{index}]" in named and not same)
            if not same:
                assert f"policy.{name}[{index}]" not in named
    usable = {tool.name for tool in TOOLS if denial(policy, None, tool.name) is None}
    told = {item.place for item in findings if item.code == "never_allowed"}
    assert told == {f"tools[{tool.name}]" for tool in TOOLS if tool.name not in usable}
    for index, pattern in enumerate(deny):
        if not any(matches(tool.name, (pattern,)) for tool in TOOLS):
            assert ("matches_nothing", f"policy.deny[{index}]") in [
                (item.code, item.place) for item in findings
            ]


def _verdict(policy: Policy, tool: str) -> tuple[bool, bool]:
    refused = denial(policy, None, tool) is not None
    return refused, not refused and approval_needed(policy, tool, {})


@pytest.mark.whole
def test_the_engine_of_the_command_line_has_no_finding(shell: Shell) -> None:
    said = shell("check")
    assert said.code == 0 and said.out.startswith("ok  policy and 3 tools")
    told = shell("check", "--json").json
    assert (told["findings"], told["ok"], told["tools"]) == ([], True, 3)


@pytest.mark.whole
def test_an_app_is_checked_and_each_finding_is_a_line(shell: Shell, shop: str, tmp_path: Any) -> None:
    assert shell("check", "--app", f"{shop}:engine").code == 0
    text = (
        "from paor import Engine, Policy\n"
        "def engine(journal):\n"
        "    return Engine('offline', journal=journal, policy=Policy(deny=('web.*',), approvals=('ai.*', 'ai.process')))\n"
    )
    (shell.folder / "wrong.py").write_text(text)
    said = shell("check", "--app", "wrong:engine")
    assert (
        said.code == 1 and len(said.out.splitlines()) == 2 and "2 findings; " in said.err
    )  # a policy has no walks
    assert [item["code"] for item in shell("check", "--app", "wrong:engine", "--json").json["findings"]] == [
        "matches_nothing",
        "covered",
    ]


@pytest.mark.whole
def test_a_tool_that_is_denied_is_a_note_and_no_finding(shell: Shell) -> None:
    """To deny is what a policy is for; a rule that fires passes, with the tools told that it shuts."""
    text = (
        "from paor import Engine, Policy\n"
        "def engine(journal):\n"
        "    return Engine('offline', journal=journal, policy=Policy(deny=('ai.*',)))\n"
    )
    (shell.folder / "strict.py").write_text(text)
    said = shell("check", "--app", "strict:engine", "--mode", "react")
    note, first = said.out.splitlines()[:2]
    assert said.code == 0 and note.startswith("note  tools[ai.process]: ") and "policy.deny" in note
    assert first == "ok  policy and 3 tools: every rule can fire, 2 tools of 3 can be used"
    told = shell("check", "--app", "strict:engine", "--mode", "react", "--json").json
    assert (told["ok"], told["findings"]) == (True, [])
    assert [(item["code"], item["place"]) for item in told["notes"]] == [
        ("never_allowed", "tools[ai.process]")
    ]


def test_a_check_opens_no_journal(tmp_path: Any) -> None:
    """An engine in memory is enough."""
    with Engine("offline", journal=Journal(":memory:")) as engine:
        assert policy_findings(engine.policy, [tool.spec() for tool in engine.tools]) == ()


NAMES = st.sampled_from(
    ["crm.read", "crm_read", "crm.*", "*.read", "crm.reed", "mail.*", "*.sent", "web.search", "Crm.Read"]
)
LISTS = {
    "allow": st.lists(NAMES, max_size=2),
    "deny": st.lists(NAMES, max_size=2),
    "approvals": st.lists(NAMES, max_size=2),
}


@tool("crm.read", effect="read")
def read_customer(name: str) -> str:
    """Read a customer."""
    return name


@given(lists=st.fixed_dictionaries(LISTS), kinds=st.lists(NAMES, max_size=2), missing_ok=st.booleans())
def test_an_engine_is_made_exactly_when_every_pattern_fits_a_tool_or_may_fit_none(
    lists: dict[str, list[str]], kinds: list[str], missing_ok: bool
) -> None:
    """A misspelt name would forbid nothing, and nobody would see it."""
    types = {"mail": kinds} if kinds else {}
    given: dict[str, Any] = {**lists, "task_types": types, "missing_ok": missing_ok}
    policy = Policy(**given)
    patterns = {pattern for given in (*lists.values(), kinds) for pattern in given}
    lost = patterns & {"crm.reed", "mail.*", "*.sent"}
    try:
        Engine("offline", [read_customer], Journal(":memory:"), policy=policy).close()
    except UsageError as error:
        assert lost and not missing_ok
        assert "\n" not in str(error) and "missing_ok=True" in str(error)
        assert all(repr(pattern) in str(error) for pattern in lost) or "more" in str(error)
    else:
        assert not lost or missing_ok


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Policy(approvals=("ai.proces",)), "approvals: 'ai.proces' matches no tool; nearest: ai.process,"),
        (Policy(approvals=(ApprovalRule(tool="ai.procss"),)), "approvals: 'ai.procss' matches no tool"),
        (
            Policy(deny=("document.extrct",)),
            "deny: 'document.extrct' matches no tool; nearest: document.extract,",
        ),
        (Policy(task_types={"mail": ("ai.prozess",)}), "task_types['mail']: 'ai.prozess' matches no tool"),
    ],
)
def test_a_pattern_that_fits_no_tool_is_named_with_the_tools_nearest_to_it(
    policy: Policy, words: str
) -> None:
    """In one line, before anything runs; a fork's own policy is looked at in the same way."""
    with pytest.raises(UsageError) as error:
        Engine("offline", journal=Journal(":memory:"), policy=policy)
    assert words in str(error.value) and "\n" not in str(error.value)
    with Engine("offline", journal=Journal(":memory:")) as engine:
        run_id = engine.run("Say hello").run_id
        with pytest.raises(UsageError, match="matches no tool"):
            engine.fork(run_id, 0, policy=policy)


@pytest.mark.parametrize("builtins", [None, True, False])
def test_a_pattern_of_paors_own_tools_is_no_mistake_where_they_are_not_offered(builtins: bool | None) -> None:
    """A host that denies the web denies it in every engine."""
    policy = Policy(deny=("web.*", "document.generateReport"), approvals=("ai.*", "workflow.task"))
    Engine("offline", [read_customer], Journal(":memory:"), policy=policy, builtins=builtins).close()


def test_that_a_pattern_may_be_missing_is_in_no_journal_and_makes_no_other_policy(tmp_path: Any) -> None:
    """The record of a policy says what it decides; a run goes on with either, and the same digests."""
    assert Policy(deny=("x.*",), missing_ok=True).model_dump() == Policy(deny=("x.*",)).model_dump()
    policy = Policy(deny=("x.*",), missing_ok=True)
    assert (policy_findings(policy, TOOLS), policy_findings(Policy(deny=("x.*",)), TOOLS)[0].code) == (
        (),
        "matches_nothing",
    )
    with Engine("offline", journal=str(tmp_path / "x.db"), policy=policy) as engine:
        run_id = engine.run("Say hello").run_id
        assert engine.journal.reader.spec(run_id).policy == Policy(deny=("x.*",))
        assert not [change for change in engine.changes(run_id) if change.part == "policy"]


@pytest.mark.parametrize("first", [False, True])
def test_a_run_goes_on_under_the_same_policy_whether_or_not_a_pattern_may_be_missing(
    tmp_path: Any, first: bool
) -> None:
    """It is not `RunChanged`; another pattern is."""

    def engine(**policy: Any) -> Engine:
        given = Policy(approvals=("crm.*",), **policy)
        return Engine(ScriptedModel([*call("crm.read_customer", customer="ann"), refine("stop", answer="No.")]), [crm], tmp_path / "x.db", policy=given)  # fmt: skip

    @tool("crm.read_customer", effect="read")
    def crm(customer: str) -> str:
        """Read."""
        return customer

    with engine(missing_ok=first) as one:
        waiting = one.run("Read ann")
        assert waiting.waiting_for is not None
    with engine(missing_ok=True, deny=("x.*",)) as other, pytest.raises(RunChanged, match="policy"):
        other.resume(waiting.run_id, answer={"approve": False})
    with engine(missing_ok=not first) as other:
        assert other.resume(waiting.run_id, answer={"approve": False}).waiting_for is None


@pytest.mark.whole
def test_a_policy_file_with_a_name_that_is_no_tools_is_refused_as_other_bad_settings_are(
    shell: Shell,
) -> None:
    """Exit code 2 and one line; where the file says that a pattern may fit none, the run begins, and fails for want of documents."""
    for missing_ok, code in ((False, 2), (True, 1)):
        (shell.folder / "policy.json").write_text(
            json.dumps({"deny": ["ai.proces"], "missing_ok": missing_ok})
        )
        said = shell("run", "Say hello", "--model", "offline", "--policy", "policy.json")
        assert said.code == code
        assert ("deny: 'ai.proces' matches no tool" in said.err) != missing_ok
