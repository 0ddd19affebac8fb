"""A run goes on with what it was recorded with: what has changed since is named, refused, or accepted and journaled."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import paor
from paor import Engine, Journal, Limits, PaorError, Policy, Tool, replay, tool
from paor.errors import JournalDamaged, RunChanged
from paor.fsm.lifecycle.resume import take_up
from paor.fsm.machine import table
from paor.fsm.machine.table import RULES
from paor.fsm.replay.restore import restore_run
from paor.fsm.versioning import fingerprints
from paor.fsm.versioning.amendments import AMENDABLE, amend_spec, in_force
from paor.prompts.building.templates import default_templates
from paor.states.run.spec import Spec
from paor.testing import SeededIds

from ..support.journey import answered
from ..support.pages import ROOT
from ..support.planning import PLAN, STEP
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS, engine

SCRIPT = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]
OTHER = {name: text + "\nBe brief." for name, text in default_templates().items()}
NEVER = Policy(deny=("web.*",))


def interrupted(folder: Path, rows: int, script: Sequence[Any] = SCRIPT, **options: Any) -> str:
    """Record *rows* rows of a run, as a process that then ended did; return its id."""
    run = {
        name: options.pop(name)
        for name in ("mode", "tools", "prompt_template", "final_format")
        if name in options
    }
    with engine(folder, script, **options) as scripted:
        events = scripted.stream("Read the notes", ["every page is read"], **run, on_close="stop")
        for event in events:
            if event.kind == "transition" and getattr(event, "seq", -1) == rows - 1:
                break
        run_id = scripted.journal.runs()[0].run_id
        events.close()
        assert len(scripted.journal.transitions(run_id)) == rows
    return run_id


def again(folder: Path, script: Sequence[Any] = SCRIPT, **options: Any) -> Engine:
    """Return the engine of the next process."""
    return engine(folder, script, **options)


def refused(scripted: Engine, run_id: str, **options: Any) -> dict[str, str]:
    """Return the parts for which a resume was refused, with what was said; nothing was written."""
    before = scripted.journal.reader.rows(1)
    with pytest.raises(RunChanged) as caught:
        scripted.resume(run_id, **options)
    assert isinstance(caught.value, PaorError) and run_id in str(caught.value)
    assert all(part in str(caught.value) for part in caught.value.parts)
    assert scripted.journal.reader.rows(1) == before
    return {line.split(" ")[0]: line for line in caught.value.parts}


# -- what is no change --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_nothing_changed_goes_on(rows: int, tmp_path: Path) -> None:
    """And says nothing of it in the journal."""
    run_id = interrupted(tmp_path, rows)
    with again(tmp_path) as scripted:
        assert scripted.changes(run_id) == ()
        assert scripted.resume(run_id).state == "Done"
        assert not any("spec" in row.request for row in scripted.journal.transitions(run_id))


def test_what_the_run_itself_brought_is_no_change(tmp_path: Path) -> None:
    """Its tools list, its template, its limits and its model are its own."""
    own = default_templates()["selection"] + "\nOnly for this run."
    run_id = interrupted(tmp_path, 4, tools=["notes.read"], prompt_template=own, limits=Limits(max_steps=3))
    with again(tmp_path, limits=Limits(max_steps=9)) as scripted:
        assert scripted.resume(run_id).state == "Done"
        assert scripted.journal.spec(run_id).templates["selection"] == own


def test_what_an_engine_was_not_given_stays_as_it_was(tmp_path: Path) -> None:
    """A plain engine has no prompts, policy or rules of its own; those of the run stay in force."""
    given: dict[str, Any] = {
        "prompts": {"selection": OTHER["selection"]},
        "policy": NEVER,
        "rules": ["Be kind."],
    }
    run_id = interrupted(tmp_path, 4, **given)
    with again(tmp_path) as scripted:
        assert scripted.resume(run_id).state == "Done"
    with again(tmp_path) as scripted:
        spec = restore_run(scripted.journal.reader, run_id)[0].spec
        assert spec.policy == NEVER and spec.templates["selection"] == OTHER["selection"]
        assert (
            replay(scripted.journal, run_id).identical
            and replay(scripted.journal, run_id, scripted).identical
        )


def test_another_version_with_the_same_parts_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version is a name; what decides is compared."""
    with monkeypatch.context() as earlier:
        earlier.setattr("paor.fsm.lifecycle.start.VERSION", "0.0.1")
        run_id = interrupted(tmp_path, 4)
    with again(tmp_path) as scripted:
        assert scripted.journal.spec(run_id).engine == "0.0.1" != paor.__version__
        assert scripted.resume(run_id).state == "Done"


def test_a_finished_run_is_read_whatever_has_changed(tmp_path: Path) -> None:
    """Nothing is decided any more."""
    run_id = interrupted(tmp_path, 4)
    with again(tmp_path) as scripted:
        scripted.resume(run_id)
    with again(tmp_path, prompts=OTHER, policy=NEVER) as scripted:
        assert scripted.resume(run_id).state == "Done"


def test_a_waiting_run_without_an_answer_says_what_it_waits_for(tmp_path: Path) -> None:
    """Nothing is appended, so there is nothing to refuse."""
    script = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="x"), STOP, SUCCESS]
    run_id = interrupted(tmp_path, 2, script, policy=Policy(approvals=("*.send",)))
    with again(tmp_path, script, policy=NEVER) as scripted:
        assert scripted.resume(run_id).status == "waiting"
        assert "policy" in refused(scripted, run_id, answer={"approve": True})
        assert scripted.cancel(run_id).reason == "cancelled", "a run can always be cancelled"


# -- what is one --------------------------------------------------------------------------------------------------


def test_a_changed_template_is_refused_with_the_rows_that_used_it(tmp_path: Path) -> None:
    """Used, may be used again, may be used, or never: each of them is told."""
    run_id = interrupted(tmp_path, 7)
    with again(tmp_path, prompts=OTHER) as scripted:
        told = refused(scripted, run_id)
    assert told["prompt.selection"] == "prompt.selection has changed; used by rows 0, 5; may be used again"
    assert told["prompt.refinement"] == "prompt.refinement has changed; used by row 4; may be used again"
    assert told["prompt.review"] == "prompt.review has changed; may be used"
    assert told["prompt.answer"] == "prompt.answer has changed; never used by this run", "no tool reads"
    assert told["prompt.plan"] == "prompt.plan has changed; never used by this run"
    assert list(told)[-3:] == ["prompt.plan", "prompt.task_plan", "prompt.turn"], (
        "what does not matter comes last"
    )


def test_the_template_of_the_answer_matters_where_a_tool_reads(tmp_path: Path) -> None:
    """Only there a call can be repeated whose result is known."""

    @tool("notes.read", effect="read")
    def read(page: int) -> str:
        """Read."""
        return f"page {page}"

    with engine(tmp_path, SCRIPT, [read]) as scripted:
        events = scripted.stream("Read the notes", ["every page is read"], on_close="stop")
        for event in events:
            if event.kind == "transition":
                break
        run_id = scripted.journal.runs()[0].run_id
        events.close()
    with engine(tmp_path, SCRIPT, [read], prompts={"answer": OTHER["answer"]}) as scripted:
        told = refused(scripted, run_id)
    assert told == {"prompt.answer": "prompt.answer has changed; may be used"}


def test_the_head_of_a_conversation_is_used_by_every_request(tmp_path: Path) -> None:
    """In each profile and mode that holds one."""
    run_id = interrupted(tmp_path, 5, limits=Limits(max_retries=0))
    with again(tmp_path, prompts={"opening": OTHER["opening"]}) as scripted:
        said = "prompt.opening has changed; used by rows 0, 1, 4; may be used again"
        assert refused(scripted, run_id) == {"prompt.opening": said}


@pytest.mark.parametrize("name", ["plan", "task_plan"])
def test_a_template_that_the_run_never_uses_is_no_reason(name: str, tmp_path: Path) -> None:
    """A planner's template in a react run: named by `changes`, and the run goes on."""
    run_id = interrupted(tmp_path, 4)
    with again(tmp_path, prompts={name: OTHER[name]}) as scripted:
        (change,) = scripted.changes(run_id)
        assert (change.part, change.visited, change.may_visit, change.relevant) == (
            f"prompt.{name}",
            (),
            False,
            False,
        )
        assert scripted.resume(run_id).state == "Done"
        assert not any("spec" in row.request for row in scripted.journal.transitions(run_id))


def test_the_template_of_react_mode_is_no_reason_in_a_batch_run(tmp_path: Path) -> None:
    """And the planner's is."""
    script = [PLAN(STEP(page=1), STEP(page=2)), SUCCESS]
    run_id = interrupted(tmp_path, 4, script, mode="batch")
    with again(
        tmp_path, script, prompts={name: OTHER[name] for name in ("selection", "refinement")}
    ) as scripted:
        assert {change.part for change in scripted.changes(run_id) if change.relevant} == set()
    with again(tmp_path, script, prompts={"plan": OTHER["plan"]}) as scripted:
        assert refused(scripted, run_id) == {
            "prompt.plan": "prompt.plan has changed; used by row 0; may be used again"
        }


def test_policy_rules_and_tools_are_compared(tmp_path: Path) -> None:
    """By value; the code of a tool is outside, its signature is not."""
    run_id = interrupted(tmp_path, 4)
    original = TOOLS[0]
    values: dict[str, Any] = {
        "name": original.name,
        "description": original.description,
        "parameters": original.parameters,
        "effect": original.effect,
        "label": original.label,
        "run": original.run,
    }
    for changes, part in (
        ({"policy": NEVER}, "policy"),
        ({"rules": ["Be kind."]}, "rules"),
        ({"tools": [Tool(**{**values, "effect": "once"}), *TOOLS[1:]]}, "tool.notes.read"),
        ({"tools": [Tool(**{**values, "label": "sheet"}), *TOOLS[1:]]}, "tool.notes.read"),
        ({"tools": [Tool(**{**values, "retries": 3}), *TOOLS[1:]]}, "tool.notes.read"),
        ({"tools": [Tool(**{**values, "description": "Other."}), *TOOLS[1:]]}, "tool.notes.read"),
        ({"tools": TOOLS[1:]}, "tool.notes.read"),
    ):
        with again(tmp_path, **changes) as scripted:
            assert list(refused(scripted, run_id)) == [part]
    with again(
        tmp_path, tools=[Tool(**{**values, "run": lambda page: "other code"}), *TOOLS[1:]]
    ) as scripted:
        assert scripted.resume(run_id).state == "Done"


def raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this build's rules be other ones than those that the run was recorded with."""
    monkeypatch.setattr(fingerprints, "RULES", RULES + 1)


def test_other_rules_are_refused_by_their_number_until_they_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row was decided by them, and every row to come will be."""
    run_id = interrupted(tmp_path, 5)
    raised(monkeypatch)
    with again(tmp_path) as scripted:
        said = f"machine.rules has changed from {RULES} to {RULES + 1}; used by rows 0, 1, 2, 3, 4; may be used again"
        assert refused(scripted, run_id) == {"machine.rules": said}
        assert scripted.resume(run_id, accept_changes=True).state == "Done"
        assert replay(scripted.journal, run_id).accepted == ((5, ("machine.rules",)),)
        assert scripted.changes(run_id) == ()


def test_a_table_that_was_edited_under_the_same_number_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number is raised by people, who can forget it; of the table and the stops nobody has to think."""
    run_id = interrupted(tmp_path, 4)
    edits = {"ROWS": (*table.ROWS[1:], table.ROWS[0]), "STOPS": (*table.STOPS[1:], table.STOPS[0])}
    for name, value in edits.items():
        with monkeypatch.context() as edited:
            edited.setattr(fingerprints, name, value)
            with again(tmp_path) as scripted:
                assert list(refused(scripted, run_id)) == ["machine.table"], name


def test_what_cannot_be_reached_any_more_is_told_so(tmp_path: Path) -> None:
    """In the last review without retries left, the run comes to no plan and no tool any more."""
    run_id = interrupted(tmp_path, 5, [*READ(1), STOP, SUCCESS], limits=Limits(max_retries=0))
    with again(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        assert restore_run(scripted.journal.reader, run_id)[0].counters.concluded == 1
    send = Tool(
        name="notes.send", run=lambda text: text, parameters={"type": "object", "properties": {"text": {}}}
    )
    with again(tmp_path, tools=[TOOLS[0], send, TOOLS[2]], prompts=OTHER, policy=NEVER) as scripted:
        changes = {change.part: change for change in scripted.changes(run_id)}
        for part, rows in {"prompt.selection": (0,), "prompt.parameters": (1,), "policy": (0, 1)}.items():
            assert changes[part].visited == rows and not changes[part].may_visit, part
        assert changes["prompt.review"].visited == () and changes["prompt.review"].may_visit
        assert not changes["tool.notes.send"].relevant and not changes["prompt.answer"].relevant


def test_older_runs_without_fingerprints_are_compared_by_what_stands_in_their_spec(tmp_path: Path) -> None:
    """Templates, tools and policy are there in full; of the rules it is known that they had no number."""
    run_id = interrupted(tmp_path, 4)
    with again(tmp_path, prompts={"review": OTHER["review"]}) as scripted:
        run = restore_run(scripted.journal.reader, run_id)[0]
        from msgspec.structs import replace as changed

        old = changed(run, spec=run.spec.model_copy(update={"fingerprints": {}}))
        assert [change.part for change in scripted.changes(old)] == ["machine.rules", "prompt.review"]


# -- accepted -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 4, 5, 6, 9])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_accepted_changes_are_journaled_and_in_force_from_there_on(
    rows: int, way: str, tmp_path: Path
) -> None:
    """Verify, the independent script, replay, restore and export all know them."""
    run_id = interrupted(tmp_path, rows)
    given: dict[str, Any] = {"prompts": OTHER, "policy": NEVER, "rules": ["Be kind."]}
    with again(tmp_path, **given) as scripted:
        refused(scripted, run_id)
        if way == "sync":
            result = scripted.resume(run_id, accept_changes=True)
        else:
            result = asyncio.run(scripted.aresume(run_id, accept_changes=True))
        assert result.state == "Done"
        transitions = scripted.journal.transitions(run_id)
        assert [row.seq for row in transitions if "spec" in row.request] == [rows]
        spec = restore_run(scripted.journal.reader, run_id)[0].spec
        assert (spec.policy, spec.rules, spec.host_templates) == (NEVER, ("Be kind.",), tuple(sorted(OTHER)))
        assert spec.templates == default_templates() | OTHER
        assert scripted.journal.spec(run_id).rules == ()
        asked = [row for row in transitions if "prompt" in row.request]
        for row in asked:
            texts = [scripted.journal.payload(row.run, place["n"]).body for place in row.request["prompt"]]
            brief = any(str(text).rstrip().endswith("Be brief.") for text in texts)
            assert brief is (row.seq >= rows)
        assert scripted.journal.verify() == []
        parts = {"policy", "rules", *(f"prompt.{name}" for name in OTHER)}
        for other in (None, scripted):
            found = replay(scripted.journal, run_id, other)
            assert found.identical and found.accepted == ((rows, tuple(sorted(parts))),), found.divergences
        lines = list(scripted.journal.export(run_id))
        assert sum("spec" in str(line.get("request")) for line in lines) == 1
    script = [sys.executable, str(ROOT / "docs" / "verify_journal.py"), str(tmp_path / JOURNAL)]
    assert subprocess.run(script, capture_output=True, check=False).returncode == 0
    with again(tmp_path, prompts={"review": "Other. {{KEY:OBJECTIVE}}"}) as scripted:
        found = replay(scripted.journal, run_id, scripted)
        assert {one.field for one in found.divergences} == {"request.prompt"}
        assert all(one.seq >= rows for one in found.divergences), (
            "rows before belong to what was in force then"
        )


def test_what_was_accepted_once_is_no_change_the_next_time(tmp_path: Path) -> None:
    """And what changes after that is one again; a run can be amended more than once."""
    run_id = interrupted(tmp_path, 4)

    def one_row(**given: Any) -> None:
        with again(tmp_path, **given) as scripted:
            drive, walk = take_up(scripted._runner, run_id, accept_changes=True)
            events = scripted._runner.drive(lambda: (drive, walk), resumed=True)  # type: ignore[arg-type, return-value]
            next(event for event in events if event.kind == "transition")
            events.close()  # type: ignore[attr-defined]

    one_row(prompts=OTHER)
    with again(tmp_path, prompts=OTHER) as scripted:
        assert scripted.changes(run_id) == ()
    one_row(prompts=OTHER, policy=NEVER)
    with again(tmp_path, prompts=OTHER, policy=NEVER) as scripted:
        assert scripted.resume(run_id).state == "Done"
        assert replay(scripted.journal, run_id).accepted == (
            (4, tuple(sorted(f"prompt.{name}" for name in OTHER))),
            (5, ("policy",)),
        )
        assert (
            replay(scripted.journal, run_id).identical
            and replay(scripted.journal, run_id, scripted).identical
        )
        assert scripted.journal.verify() == []


def test_an_acceptance_counts_only_with_its_row(tmp_path: Path) -> None:
    """A process that ends before the row was written has accepted nothing."""
    run_id = interrupted(tmp_path, 4)
    with again(tmp_path, prompts=OTHER) as scripted:
        drive, _ = take_up(scripted._runner, run_id, accept_changes=True)
        scripted.journal.store.leases.release(drive.run.number, drive.fence)
    with again(tmp_path, prompts=OTHER) as scripted:
        assert "prompt.selection" in refused(scripted, run_id)


def test_the_answer_of_a_waiting_run_can_come_with_the_acceptance(tmp_path: Path) -> None:
    """Its row is the first one after, and carries it; an approval was for the call under the old policy, and is asked again."""
    script = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="x"), STOP, SUCCESS]
    run_id = interrupted(tmp_path, 2, script, policy=Policy(approvals=("*.send",)))
    with again(tmp_path, script, policy=Policy(approvals=("*.send", "*.fail"))) as scripted:
        assert scripted.resume(run_id, answer={"approve": True}, accept_changes=True).status == "waiting"
        assert answered(scripted, run_id, answer={"approve": True}).state == "Done"
        row = scripted.journal.transitions(run_id)[2]
        assert row.trigger == "provide" and "spec" in row.request
        assert replay(scripted.journal, run_id).identical and scripted.journal.verify() == []


def test_an_acceptance_without_any_change_writes_nothing(tmp_path: Path) -> None:
    """The flag is a permission, no order."""
    run_id = interrupted(tmp_path, 4)
    with again(tmp_path) as scripted:
        scripted.resume(run_id, accept_changes=True)
        assert not any("spec" in row.request for row in scripted.journal.transitions(run_id))


def test_the_tasks_of_a_workflow_are_looked_at_with_it(tmp_path: Path) -> None:
    """Refused before anything is driven; accepted for all of them."""
    from paor import Task

    script = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="x"), STOP, SUCCESS, SUCCESS]
    approve = Policy(approvals=("*.send",))
    with engine(tmp_path, script, policy=approve) as scripted:
        result = scripted.run_workflow("Send it", tasks=[Task("Send x")])
        assert result.status == "waiting"
        task = scripted.journal.runs()[0].run_id
    with again(tmp_path, script, policy=approve, prompts={"refinement": OTHER["refinement"]}) as scripted:
        with pytest.raises(RunChanged, match=task):
            scripted.resume(result.run_id, answer={"approve": True})
        done = scripted.resume(result.run_id, answer={"approve": True}, accept_changes=True)
        assert done.state in ("Done", "Failed")
        for row in scripted.journal.runs():
            assert replay(scripted.journal, row.run_id).identical
        assert any("spec" in row.request for row in scripted.journal.transitions(task))


def test_an_amendment_holds_only_what_an_engine_brings() -> None:
    """Anything else in its payload is a forgery, and what was erased cannot be told."""
    spec = Spec(objective="x")
    assert amend_spec(spec, '{"rules": ["a"]}').rules == ("a",)
    for body in ('{"objective": "y"}', "[]", "no", '{"policy": 7}', None):
        with pytest.raises(JournalDamaged):
            amend_spec(spec, body)
    assert in_force(spec, [], lambda number: None) is spec
    assert set(AMENDABLE) < set(Spec.model_fields)


def test_a_forged_fingerprint_is_found(tmp_path: Path) -> None:
    """Replay computes those of the spec's own parts again."""
    from paor.fsm.replay.comparison import compare_fingerprints

    run_id = interrupted(tmp_path, 4)
    with again(tmp_path) as scripted:
        spec = scripted.journal.spec(run_id)
    assert list(compare_fingerprints(-1, spec)) == []
    for part in ("policy", "tool.notes.read", "prompt.plan"):
        forged: Mapping[str, str] = {**spec.fingerprints, part: "0" * 10}
        found = compare_fingerprints(-1, spec.model_copy(update={"fingerprints": forged}))
        assert [(one.seq, one.field) for one in found] == [(-1, f"spec.fingerprints.{part}")]


def test_replay_names_what_has_changed_even_where_nothing_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that decide these rows the same."""
    run_id = interrupted(tmp_path, 5)
    raised(monkeypatch)
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        found = replay(journal, run_id)
    assert found.identical and [(one.part, one.visited) for one in found.changed] == [
        ("machine.rules", (0, 1, 2, 3, 4))
    ]


# -- forks ---------------------------------------------------------------------------------------------------------------


def test_a_fork_of_a_run_that_has_changed_is_refused_and_made_with_what_is_now(tmp_path: Path) -> None:
    """As a resume is; with `current` the fork's own spec has the prompts of now, and their fingerprints."""
    run_id = interrupted(tmp_path, 4)
    with again(tmp_path, prompts=OTHER, ids=SeededIds("fork")) as scripted:
        with pytest.raises(RunChanged, match="--current") as caught:
            scripted.fork(run_id, 3)
        assert any("prompt.refinement" in part for part in caught.value.parts)
        assert len(scripted.journal.runs()) == 1
        made = scripted.fork(run_id, 3, current=True)
        assert made.state == "Done"
        own = scripted.journal.spec(made.run_id)
        assert own.templates["refinement"] == OTHER["refinement"]
        assert own.fingerprints == fingerprints.fingerprints_of(own)
        found = replay(scripted.journal, made.run_id)
        assert found.identical and found.changed == () and scripted.journal.verify() == []
        assert scripted.changes(made.run_id) == ()


@pytest.mark.parametrize("at_seq", [3, 4, 6])
def test_a_fork_of_an_amended_run_has_what_was_in_force_at_its_row(at_seq: int, tmp_path: Path) -> None:
    """Row 4 was the first one under the new prompts: a fork before it has the old ones, one after it the new ones."""
    run_id = interrupted(tmp_path, 4)
    with again(tmp_path, prompts=OTHER) as scripted:
        assert scripted.resume(run_id, accept_changes=True).state == "Done"
        assert "spec" in scripted.journal.transitions(run_id)[4].request
    with again(tmp_path, prompts=OTHER if at_seq >= 4 else None, ids=SeededIds("fork")) as scripted:
        made = scripted.fork(run_id, at_seq)
        assert made.state == "Done"
        own, _ = restore_run(scripted.journal.reader, made.run_id)
        assert (own.spec.templates["selection"] == OTHER["selection"]) is (at_seq >= 4)
        assert replay(scripted.journal, made.run_id).identical and scripted.journal.verify() == []
