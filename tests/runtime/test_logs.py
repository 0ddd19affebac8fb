"""The log: run, place, decision and reason on the standard logger; never a prompt, reply, document or secret."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from paor import Engine, Limits, Policy, tool
from paor.errors import ModelUnavailable

from ..support.journey import Journey, play
from ..support.journeys import JOURNEYS
from ..support.model_server import WIRES, QuickPort, model_server, plain
from ..support.planning import World
from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, read, send

SECRET = "sesame-4711-opens"


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_info_tells_start_calls_and_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line each, with the run's id, the row, the step and why."""
    caplog.set_level(logging.DEBUG, "paor")
    with World(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as world:
        result = world.run()
    told = lines(caplog, logging.INFO)
    run = f"run {result.run_id}"
    assert told == [
        f"{run} started in Planning, mode react",
        f"{run} row 2 step 1 of 5: execute, Executing to Observing",
        f"{run} row 7 step 2 of 5: execute, Executing to Observing",
        f"{run} row 10 step 2 of 5: finish, Reviewing to Done (model_stop)",
    ]
    assert len(caplog.records) == 1 + 11, "every transition at DEBUG"


def test_every_record_has_its_facts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """For structured logs: the same as in the journal's rows."""
    caplog.set_level(logging.DEBUG, "paor")
    with World(tmp_path, [*READ(1), STOP, SUCCESS]) as world:
        world.run()
        rows = world.rows
    facts = [record.__dict__["paor"] for record in caplog.records]
    assert [
        (fact["seq"], fact["step"], fact["trigger"], fact["source"], fact["dest"]) for fact in facts[1:]
    ] == [(row.seq, row.step, row.trigger, row.source, row.dest) for row in rows]


@pytest.mark.parametrize(
    ("script", "policy", "told"),
    [
        (
            [SELECT("notes.none"), SELECT("notes.none")],
            Policy(),
            r"row 0 step 0 of 5: reselect, .* \(unknown_action\)",
        ),
        (
            [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="x")],
            Policy(approvals=("*",)),
            r"wait, Specifying to Specifying",
        ),
        (
            [
                SELECT("notes.read", {"page": "number"}),
                PARAMETERS(page="x"),
                PARAMETERS(page="x"),
                STOP,
                SUCCESS,
            ],
            Policy(),
            r"refuse, Specifying to Observing",
        ),
    ],
)
def test_why_is_told_by_its_code(
    script: list[object], policy: Policy, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "paor")
    with World(tmp_path, script, policy=policy) as world:
        world.run()
    assert any(re.search(told, line) for line in lines(caplog, logging.DEBUG)), lines(caplog, logging.DEBUG)


def test_a_model_that_cannot_answer_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With its code; its own words stay in the journal."""

    def fails(call: object) -> None:
        raise ModelUnavailable("rate_limited", f"too many requests, {SECRET}")

    caplog.set_level(logging.WARNING, "paor")
    with World(tmp_path, [fails]) as world:
        result = world.run()
    assert lines(caplog, 0) == [
        f"run {result.run_id} row 0 step 0 of 5: fail, Planning to Failed (model_error)"
    ]


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_nothing_that_anybody_said_is_logged_but_a_models_reason_for_a_decision(
    journey: Journey, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every journey at DEBUG: a line holds names of triggers, phases, guards and codes, ids and numbers; the reason at DEBUG alone."""
    caplog.set_level(logging.DEBUG, "paor")
    with journey.engine(tmp_path) as host:
        play(journey, host)
    form = re.compile(
        r"run [0-9a-f-]{36} (?:(?:started|resumed) in [A-Z][a-z]+, mode [a-z]+"
        r"|row \d+ step \d+ of \d+: [a-z_]+, [A-Z][a-z]+ to [A-Z][a-z]+(?: \([a-z_]+\))?(?:: the model says: [^\n]+?)?(?: [a-z_]+=(?:True|False))*)"
    )
    assert caplog.records
    for line in lines(caplog, 0):
        assert form.fullmatch(line), line
    assert not any("the model says" in line for line in lines(caplog, logging.INFO))


def test_secrets_are_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Objective, criteria, documents, arguments, results, errors, connections: none of it is told."""

    @tool("notes.leak", effect="read")
    def leak(page: str) -> str:
        """Fail with what must stay inside."""
        raise ValueError(SECRET)

    caplog.set_level(logging.DEBUG, "paor")
    script = [SELECT("notes.leak", {"page": "string"}), PARAMETERS(page=SECRET), STOP, SUCCESS]
    with World(tmp_path, script, [leak, send], limits=Limits(max_steps=2)) as world:
        world.engine.run(SECRET, [SECRET], [("a.txt", SECRET)], connections={"desk": SECRET}, context=SECRET)
    assert caplog.records
    for record in caplog.records:
        assert SECRET not in repr(record.__dict__)


def test_what_a_model_client_does_is_told_with_its_run_and_without_the_servers_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server can repeat a prompt in an error: at INFO and above stand codes and numbers, its words at DEBUG only."""
    caplog.set_level(logging.DEBUG, "paor.models")
    with model_server() as server:
        chat = WIRES[0]
        busy = plain(chat.error(f"{SECRET} was flagged"), status=429, headers={"retry-after": "2"})
        plainly = plain(chat.error(f"{SECRET}: json_schema is not supported"), status=400)
        replies = [plain(chat.body(json.dumps(item))) for item in (*READ(1), STOP, SUCCESS)]
        server.script(replies[0], busy, plainly, *replies[1:3], plain(chat.error(SECRET), status=401))
        model = chat.model(server.url, port=QuickPort())
        with Engine(model, tools=[read], journal=tmp_path / "runs.db") as engine:
            run = engine.run(SECRET).run_id
    name = "openai:gpt-6-luna"
    told = [
        record for record in caplog.records if record.name == "paor.models" and record.levelno >= logging.INFO
    ]
    assert [record.getMessage() for record in told] == [
        f"run {run} row 0 step 0: {name}, selection: no price is known for {name} at {server.url}/v1: its cost is counted as 0",
        f"run {run} row 1 step 1: {name}, parameters: attempt 1 failed (rate_limited), the next one in 2 s",
        f"run {run} row 1 step 1: {name}, parameters: asked without structured output (schema)",
        f"run {run} row 5 step 1: {name}, review: no answer (unauthorized), attempts: 1",
    ]
    facts = [record.__dict__["paor"] for record in told]
    assert [(fact["run_id"], fact["event"], fact["code"]) for fact in facts][1:] == [
        (run, "retry", "rate_limited"),
        (run, "fallback", "schema"),
        (run, "fault", "unauthorized"),
    ]
    for record in caplog.records:
        assert record.levelno == logging.DEBUG or SECRET not in repr(record.__dict__)
    assert f"{SECRET} was flagged" in caplog.text, "at DEBUG it helps"


def test_A082_a_line_says_the_step_of_how_many_and_what_was_decided(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a judgement its decision and the reason to stop, as names, and the reason that the model gave."""
    caplog.set_level(logging.DEBUG, "paor")
    script = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]
    with World(tmp_path, script, [read], limits=Limits(max_steps=4)) as world:
        world.engine.run("Read")
    facts = [record.__dict__["paor"] for record in caplog.records]
    rows = [item for item in facts if "trigger" in item]
    assert {item["max_steps"] for item in rows} == {4}
    reasons = [(item["trigger"], item["step"], item["reason"]) for item in rows if item["reason"]]
    assert ("proceed", 1, "decided_continue") in reasons and reasons[-1][2] == "model_stop"
    assert any("step 2 of 4: conclude" in line and "(model_stop)" in line for line in lines(caplog, 0))
    said = [STOP["reason"] in line for line in lines(caplog, 0) if "the model says: " in line]
    assert said == [False, True] and [item.get("said") for item in rows].count(STOP["reason"]) == 1


def test_A082_the_line_of_a_conclusion_says_which_limit_was_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Though the model wanted to go on."""
    caplog.set_level(logging.DEBUG, "paor")
    with World(tmp_path, [*READ(1), CONTINUE, SUCCESS], [read], limits=Limits(max_steps=1)) as world:
        reason = world.engine.run("Read").reason
    (line,) = [line for line in lines(caplog, 0) if ": conclude" in line]
    assert reason == "max_steps" and "(max_steps)" in line
