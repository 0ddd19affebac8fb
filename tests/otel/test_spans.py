"""The spans of runs, derived from their rows: what they tell, that they are the same each time, and how runs hang together."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import (
    Document,
    Engine,
    Journal,
    Limits,
    Policy,
    Reply,
    ScriptedModel,
    ToolContext,
    ToolOutput,
    Usage,
    tool,
)
from paor.errors import InvalidAnswer, JournalDamaged, UnknownRun
from paor.otel import Span, spans_of, trace_of
from paor.testing import SteppingClock

from ..own_machine.test_host_machine import through
from ..support.effort import examples
from ..support.forging import forge
from ..support.forks import Forker
from ..support.journey import BAD, CALL, SEND, Journey, asking, play, scan
from ..support.journeys import BY_NAME, JOURNEYS
from ..support.own_machines import KINDS, World
from ..support.worlds import (
    ANSWER,
    CONTINUE,
    PARAMETERS,
    READ,
    REFINE,
    SELECT,
    STOP,
    SUCCESS,
    TOOLS,
    engine,
    flaky,
)
from ..workflow.test_tasks import Office
from .inside import Cleaner, conventions, json_lines, limit, span_id_of, trace_id_of
from .kit import OPERATION, check, compared, of_lines, whole

otel = pytest.importorskip("opentelemetry.proto", reason="needs paor[otel]")


def named(spans: Sequence[Span], operation: str) -> list[Span]:
    """Return the spans of an operation, or those of waits."""
    return [
        span
        for span in spans
        if span.attributes.get(OPERATION) == operation or span.name.partition(" ")[0] == operation
    ]


def rows_told(span: Span) -> list[Any]:
    """Return the triggers of the rows that are events of a span."""
    return [event.attributes["paor.transition.trigger"] for event in span.events]


# -- every run -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_every_row_is_told_once_and_tokens_and_calls_are_the_journals(
    journey: Journey, tmp_path: Path
) -> None:
    """In react, batch, planner and native mode, with questions, doubts, faults, cancelled runs and odd texts."""
    with journey.engine(tmp_path) as scripted:
        run_id = play(journey, scripted).run_id
        spans = check(scripted.journal, run_id)
        lines = b"".join(json_lines(spans))
        assert of_lines(lines) == compared(spans)
        content = spans_of(scripted.journal, run_id, content=True)
        assert [span.span_id for span in content] == [span.span_id for span in spans]
        assert of_lines(b"".join(json_lines(content))) == compared(content)


PIECES: tuple[tuple[Any, ...], ...] = (
    (*READ(1), CONTINUE),
    (*READ(2), CONTINUE),
    (*CALL("notes.fail"), CONTINUE),
    (*CALL("notes.flaky"), CONTINUE),
    (BAD,),
    (SELECT(), BAD),
    (*SEND("hello"), CONTINUE),
    (*CALL("notes.ask"), CONTINUE),
    (SELECT("notes.scan"), PARAMETERS(page=1), "A page with a drawing.", CONTINUE),
    (SELECT("no.such"),),
    (Reply('{"decision": "continue", "reason": "x"}', Usage(1, 7, 3, 5_000, 2, 0, 1)),),
    (*READ(3), STOP, SUCCESS),
    (ANSWER("It is known."),),
)
GIVEN: tuple[dict[str, Any], ...] = (
    {"answer": {"approve": True}},
    {"answer": {"action": "decline"}},
    {"answer": {"copy": "first"}},
    {"cancel": True},
)


@settings(max_examples=examples(60))
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=8),
    given_=st.lists(st.sampled_from(GIVEN), max_size=6),
    limits=st.builds(Limits, max_steps=st.integers(1, 5), token_budget=st.none() | st.integers(500, 5_000)),
)
def test_whatever_a_run_does_its_spans_hold_together(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Any], given_: list[dict[str, Any]], limits: Limits
) -> None:
    """Ids are single and not zero, parents are there, times are in order, nothing is lost, and twice gives the same."""
    replies = [reply for piece in pieces for reply in piece]
    tools = (*TOOLS, flaky(1, retries=2), asking(1), scan)
    options: dict[str, Any] = {"limits": limits, "policy": Policy(approvals=("notes.send",))}
    with engine(tmp_path_factory.mktemp("otel"), replies, tools, **options) as scripted:
        result = scripted.run("Read the notes")
        seen: dict[str, Any] = {}
        while result.status == "waiting":
            now = compared(spans_of(scripted.journal, result.run_id))
            assert seen.items() <= now.items(), "what was over is told as it was"
            seen = now
            answer = given_.pop(0) if given_ else {"cancel": True}
            if "cancel" in answer:
                result = scripted.cancel(result.run_id)
            else:
                result = _answered(scripted, result, answer)
        spans = check(scripted.journal, result.run_id)
        assert seen.items() <= compared(spans).items()


def _answered(scripted: Engine, result: Any, answer: dict[str, Any]) -> Any:
    try:
        return scripted.resume(result.run_id, question=result.waiting_for.id, **answer)
    except InvalidAnswer:
        return scripted.cancel(result.run_id)


def test_after_every_row_the_spans_that_are_over_are_those_of_the_end(tmp_path: Path) -> None:
    """Whoever exports while a run goes on never says what is not so later."""
    journey = BY_NAME["approved"]
    seen: list[dict[str, Any]] = []

    with journey.engine(tmp_path) as scripted:

        def look(event: Any) -> None:
            if event.kind == "transition":
                seen.append(compared(spans_of(scripted.journal, event.run_id)))

        scripted.hooks = [look]
        run_id = play(journey, scripted).run_id
        whole = compared(spans_of(scripted.journal, run_id))
        rows = scripted.journal.transitions(run_id)
    assert len(seen) == len(rows)
    for before, after in zip(seen, [*seen[1:], whole], strict=True):
        assert before.items() <= after.items()
    assert seen[-1] == whole and len(seen[0]) == 1
    agents = [
        number
        for number, spans in enumerate(seen)
        if any(s["name"] == "invoke_agent paor" for s in spans.values())
    ]
    assert agents == [len(rows) - 1], "the run's own span is over with its last row"


# -- what spans tell -----------------------------------------------------------------------------------------------


def test_a_request_tells_model_usage_end_and_the_provider_s_id(tmp_path: Path) -> None:
    """As the row has them; details only where they are not 0."""
    reply = Reply(json.dumps(ANSWER()), Usage(1, 70, 30, 5_000, 20, 10, 8), "length", "req_1", attempts=3)
    with engine(tmp_path, [reply]) as scripted:
        named_model: Any = scripted.model
        named_model.name = "openai:gpt-5:mini"
        result = scripted.run("Read", limits={"completion_review": "rules"})
        (chat,) = named(check(scripted.journal, result.run_id), "chat")
    assert (chat.name, chat.kind, chat.failed) == ("chat gpt-5:mini", "client", False)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5:mini",
        "gen_ai.response.id": "req_1",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.usage.cache_read.input_tokens": 20,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 8,
        "paor.cost_micro": 5_000,
        "paor.request.kind": "selection",
        "paor.request.count": 3,
    }
    assert expected.items() <= chat.attributes.items()


def test_times_are_those_of_the_rows(tmp_path: Path) -> None:
    """A request takes the active time of its row, a call begins with its intent, a wait with the question, a run when it was made."""
    with BY_NAME["approved"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["approved"], scripted).run_id
        spans = check(scripted.journal, run_id)
        rows = scripted.journal.transitions(run_id)
        created = scripted.journal.run(run_id).created_at
    active = [
        row.time_us - before for row, before in zip(rows, [0, *(row.time_us for row in rows)], strict=False)
    ]
    assert max(active) > 0
    for span in spans:
        last = whole(span, "paor.row")
        first = span.attributes.get("paor.row.first")
        began = {"chat": rows[last].at - active[last], "invoke_agent": created}.get(span.name.split()[0])
        if began is None:
            assert isinstance(first, int)
            began = rows[first].at
        assert (span.start_ns, span.end_ns) == (began * 1000, rows[last].at * 1000), span.name


def test_a_model_that_fails_is_an_error_with_its_code(tmp_path: Path) -> None:
    """So is the run that ends because of it."""
    with BY_NAME["model_fault"].engine(tmp_path) as scripted:
        spans = check(scripted.journal, play(BY_NAME["model_fault"], scripted).run_id)
    failed = {span.name: span.attributes["error.type"] for span in spans if span.failed}
    assert failed == {"chat scripted": "rate_limited", "invoke_agent paor": "model_error"}
    assert named(spans, "chat")[-1].attributes["paor.request.count"] == 2


def test_a_call_tells_tool_effect_key_and_outcome(tmp_path: Path) -> None:
    """The id is the idempotency key that the tool got, so a receipt of the tool's leads to its span."""
    got: list[str] = []

    @tool("notes.key", effect="once", label="receipt")
    def key(page: int, context: ToolContext) -> str:
        """Keep the key."""
        got.append(context.idempotency_key)
        return "kept"

    replies = [*CALL("notes.key"), CONTINUE, *CALL("notes.fail"), STOP, SUCCESS]
    with engine(tmp_path, replies, (*TOOLS, key)) as scripted:
        run_id = scripted.run("Read").run_id
        calls = named(check(scripted.journal, run_id), "execute_tool")
        intents = [call.arguments for call in scripted.journal.calls(run_id)]
        shown = named(spans_of(scripted.journal, run_id, content=True), "execute_tool")
    good, bad = calls
    assert [good.attributes["gen_ai.tool.call.id"]] == got
    assert (good.attributes["paor.tool.effect"], good.attributes["paor.tool.ok"]) == ("once", True)
    assert good.attributes["paor.tool.label"] == "round1_task1_action1_receipt"
    assert (bad.failed, bad.attributes["error.type"], bad.attributes["paor.tool.ok"]) == (
        True,
        "tool_error",
        False,
    )
    assert "gen_ai.tool.call.arguments" not in good.attributes
    assert [json.loads(str(span.attributes["gen_ai.tool.call.arguments"])) for span in shown] == intents
    assert shown[0].attributes["gen_ai.tool.call.result"] == "kept"
    assert "torn out" in str(shown[1].attributes["gen_ai.tool.call.result"])


def test_retries_of_a_step_are_events_of_its_one_call(tmp_path: Path) -> None:
    """A call is one span, however often it was tried."""
    with BY_NAME["retried_step"].engine(tmp_path) as scripted:
        spans = check(scripted.journal, play(BY_NAME["retried_step"], scripted).run_id)
    (call,) = named(spans, "execute_tool")
    assert rows_told(call) == ["retry_step", "retry_step", "execute"]


def test_what_a_tool_asks_a_model_is_one_request_within_its_call(tmp_path: Path) -> None:
    """The row has the sum of all."""
    with BY_NAME["documents"].engine(tmp_path) as scripted:
        spans = check(scripted.journal, play(BY_NAME["documents"], scripted).run_id)
    calls = named(spans, "execute_tool")
    inner = [span for span in spans if span.attributes.get("paor.request.kind") == "text"]
    assert [span.parent_id for span in inner] == [call.span_id for call in calls]
    assert all(span.attributes["paor.request.count"] == 1 for span in inner)


def test_a_wait_is_a_span_and_what_follows_the_answer_is_linked_to_it(tmp_path: Path) -> None:
    """Approved, the call is; declined, the next request is."""
    with BY_NAME["approved"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["approved"], scripted).run_id
        spans = check(scripted.journal, run_id)
        shown = named(spans_of(scripted.journal, run_id, content=True), "paor.wait")
    first, second = named(spans, "paor.wait")
    assert first.name == "paor.wait approval" and rows_told(first)[-1] == "provide"
    assert [span.attributes["paor.wait.answer"] for span in (first, second)] == ["accept", "decline"]
    linked = {span.name: link for span in spans for link in span.links if link.span_id == first.span_id}
    assert list(linked) == ["execute_tool notes.send"]
    assert linked["execute_tool notes.send"].attributes["paor.link"] == "resumed"
    (after,) = [span for span in spans for link in span.links if link.span_id == second.span_id]
    assert after.name == "chat scripted"
    assert json.loads(str(shown[0].attributes["paor.wait.answer.content"]))["decision"] == "approved"
    assert "notes.send" in str(shown[0].attributes["paor.wait.question"])


@pytest.mark.parametrize(
    ("name", "kind", "answer"),
    [("in_doubt_done", "in_doubt", "done"), ("in_doubt_cancelled", "in_doubt", "cancelled")],
)
def test_a_call_in_doubt_says_so_and_waits_within_its_span(
    name: str, kind: str, answer: str, tmp_path: Path
) -> None:
    """Its driver was lost; a person says what became of it, or gives up."""
    with BY_NAME[name].engine(tmp_path) as scripted:
        spans = check(scripted.journal, play(BY_NAME[name], scripted).run_id)
    (call,), (wait,) = named(spans, "execute_tool"), named(spans, "paor.wait")
    assert call.attributes["paor.tool.in_doubt"] == "driver_lost"
    assert (wait.parent_id, wait.attributes["paor.wait.kind"], wait.attributes["paor.wait.answer"]) == (
        call.span_id,
        kind,
        answer,
    )
    assert [link.span_id for link in call.links] == ([wait.span_id] if answer == "done" else [])
    assert call.attributes.get("error.type") == (None if answer == "done" else "in_doubt")


def test_guards_that_decided_are_on_every_event(tmp_path: Path) -> None:
    """Those of the row that was taken, and no others that were looked at."""
    with BY_NAME["blocked"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["blocked"], scripted).run_id
        spans = check(scripted.journal, run_id)
        rows = scripted.journal.transitions(run_id)
    events = {event.attributes["paor.row"]: event.attributes for span in spans for event in span.events}
    specified = next(row for row in rows if row.trigger == "specify")
    guards = ("parameters_valid", "parameters_safe", "action_allowed", "not duplicate")
    assert events[specified.seq]["paor.transition.guards"] == guards
    refused = next(row for row in rows if row.trigger == "refuse")
    assert events[refused.seq]["paor.transition.duplicate"] == "consecutive"
    for row in rows:
        told = events[row.seq].get("paor.transition.guards", ())
        for name in told if isinstance(told, tuple) else ():
            wanted, _, bare = str(name).rpartition("not ")
            assert row.guards[bare] is (name == bare), wanted


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_runs_of_a_host_s_own_machine_tell_its_phases_and_guards(kind: str, tmp_path: Path) -> None:
    """From the record of the machine in the journal, without the host's code; its questions are waits of a phase."""
    own, answers = KINDS[kind](tmp_path / "runs.db", World())
    with own:
        run_id = through(own, answers).run_id
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        spans = check(journal, run_id)
        rows = {row.seq: row for row in journal.transitions(run_id)}
    machine = own.machine
    for event in (event for span in spans for event in span.events):
        row = rows[whole(event, "paor.row")]
        taken = [
            known.guards
            for known in machine.rows
            if (known.source, known.trigger, known.dest) == (row.source, row.trigger, row.dest)
        ]
        assert event.attributes.get("paor.transition.guards", ()) in taken
    waits = {span.attributes["paor.wait.kind"] for span in named(spans, "paor.wait")}
    assert waits == {"escalating": {"phase"}, "two_reviewers": {"phase"}}.get(kind, set())


# -- runs that hang together -----------------------------------------------------------------------------------------


def test_tasks_are_children_of_their_workflow_s_calls(tmp_path: Path) -> None:
    """One trace, whichever of its runs is named; its requests sum up to what the workflow has used."""

    @tool("shop.find", effect="idempotent", label="found")
    def find(name: str) -> str:
        """Find something."""
        return f"{name} in aisle 7"

    with Engine(Office(), [find], Journal(tmp_path / "runs.db", "off"), builtins=False) as office:
        result = office.run_workflow("Find both", conversation="c-1")
        spans = check(office.journal, result.run_id)
        task = next(row.run_id for row in office.journal.runs() if row.task == 2)
        assert compared(spans) == compared(trace_of(office.journal, task))
        last = office.journal.transitions(result.run_id)[-1]
        follow = office.run_workflow("And the paper", conversation="c-1")
        later = check(office.journal, follow.run_id)
    calls = {
        span.span_id: span for span in named(spans, "execute_tool") if span.name.endswith("workflow.task")
    }
    agents = named(spans, "invoke_agent")
    assert [agent.attributes["paor.workflow.task"] for agent in agents] == [0, 1, 2]
    assert [agent.parent_id for agent in agents] == [None, *calls]
    chats = named(spans, "chat")
    assert sum(whole(span, "gen_ai.usage.input_tokens") for span in chats) == last.tokens_in
    assert later[0].trace_id != spans[0].trace_id, "the next round is a trace of its own"
    conversation = {span.attributes["gen_ai.conversation.id"] for span in (*spans, *later)}
    assert conversation == {"c-1"}


@pytest.mark.whole
def test_a_fork_at_any_row_tells_its_own_rows_and_leads_to_its_parent_s(tmp_path: Path) -> None:
    """Also at a call or a wait that is open there."""
    journey = BY_NAME["approved"]
    with journey.engine(tmp_path) as scripted:
        parent = play(journey, scripted).run_id
        known = compared(check(scripted.journal, parent))
        rows = scripted.journal.transitions(parent)
    found = set()
    for seq in range(len(rows) - 1):
        with Forker(journey, tmp_path, f"fork {seq}") as forker:
            forker.engine._runner.clock = SteppingClock(1_767_229_200_000_000)  # an hour later
            run_id = forker.fork(parent, seq)
            result = forker.finish(run_id, [{"answer": {"approve": True}}] * 3)
            assert result.status in ("done", "failed")
            spans = check(forker.journal, run_id)
            assert compared(check(forker.journal, parent)) == known
        (link,) = named(spans, "invoke_agent")[0].links
        assert link.attributes == {"paor.link": "forked", "paor.run.id": parent, "paor.row": seq}
        assert (link.trace_id, link.span_id in known) == (trace_id_of(parent, 1), True)
        assert not known.keys() & {span.span_id for span in spans}
        found.add(known[link.span_id]["name"].split()[0])
    assert found == {"invoke_agent", "chat", "execute_tool", "paor.wait"}


def test_a_run_that_replaces_a_failed_one_is_in_its_trace_and_leads_to_it(tmp_path: Path) -> None:
    """Both belong to what was asked for."""
    plan = {"overview": "x", "steps": []}
    with engine(tmp_path, [BAD, BAD, plan, SUCCESS]) as scripted:
        result = scripted.run("Read", fallback="batch")
        runs = [row.run_id for row in reversed(scripted.journal.runs())]
        spans = check(scripted.journal, result.run_id)
    failed, instead = named(spans, "invoke_agent")
    assert [failed.attributes["paor.run.id"], instead.attributes["paor.run.id"]] == runs
    (link,) = instead.links
    assert (link.span_id, link.attributes["paor.link"]) == (failed.span_id, "replaces")


# -- texts -----------------------------------------------------------------------------------------------------------


def test_no_text_is_in_a_span_unless_it_is_asked_for(tmp_path: Path) -> None:
    """Neither of the user, nor of the model, nor of the tool, nor who answered."""
    words = ("PROMPTWORD", "REPLYWORD", "ARGUMENTWORD", "REASONWORD", "ACTORWORD")
    replies = [*SEND("ARGUMENTWORD"), REFINE("stop", answer="REPLYWORD")]
    with engine(tmp_path, replies, policy=Policy(approvals=("notes.send",))) as scripted:
        waiting = scripted.run("PROMPTWORD", metadata={"tenant": "PROMPTWORD"}, key="PROMPTWORD")
        assert waiting.waiting_for is not None
        run_id = scripted.resume(
            waiting.run_id,
            answer={"approve": True},
            question=waiting.waiting_for.id,
            reason="REASONWORD",
            actor="ACTORWORD",
        ).run_id
        without = b"".join(json_lines(trace_of(scripted.journal, run_id))).decode()
        shown = b"".join(json_lines(trace_of(scripted.journal, run_id, content=True))).decode()
    assert [word for word in words if word in without] == []
    assert [word for word in words if word not in shown] == []


def test_earlier_rounds_are_told_message_by_message(tmp_path: Path) -> None:
    """Each with its role, and without what looks like a key; what is too long is cut in its own message."""
    key = "sk-" + "a1B2c3D4" * 5
    with Engine(
        ScriptedModel([f"Your key is {key}.", "Bye."], calls_tools=True),
        journal=Journal(tmp_path / "runs.db", "off"),
    ) as host:
        for words in ("Say it", "Say bye"):
            run_id = host.run(words, conversation="c").run_id
        (asked,) = named(spans_of(host.journal, run_id, content=True), "chat")
    told = [
        (item["role"], item["parts"][0]["content"])
        for item in json.loads(str(asked.attributes["gen_ai.input.messages"]))
    ]
    assert [role for role, _ in told] == ["user", "assistant", "user"]
    assert told[0][1] == "Say it" and "Your key is" in told[1][1] and key not in told[1][1]


def test_texts_are_in_the_conventions_form(tmp_path: Path) -> None:
    """Messages with role and parts, the system message by itself, the reply with its end."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read page 1").run_id
        spans = spans_of(scripted.journal, run_id, content=True)
    judgement = next(span for span in spans if span.attributes.get("paor.request.kind") == "refinement")
    messages = json.loads(str(judgement.attributes["gen_ai.input.messages"]))
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "user"]
    assert messages[2]["parts"][0]["content"].startswith("Result of notes.read")
    (system,) = json.loads(str(judgement.attributes["gen_ai.system_instructions"]))
    assert system["type"] == "text" and system["content"]
    (reply,) = json.loads(str(judgement.attributes["gen_ai.output.messages"]))
    assert (reply["role"], reply["finish_reason"], reply["parts"][0]["type"]) == ("assistant", "stop", "text")
    (agent,) = named(spans, "invoke_agent")
    assert (
        json.loads(str(agent.attributes["gen_ai.output.messages"]))[0]["parts"][0]["content"]
        == "All is read."
    )


def test_keys_never_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those of this process nor what looks like one, in whatever field a tool or model has put it."""
    own, other, header = (
        "sk-own-0123456789abcdefgh",
        "ghp_0123456789abcdefghij0123456789",
        "tok-fedcba9876543210",
    )
    monkeypatch.setenv("OPENAI_API_KEY", own)
    login = "loginwithoutdigits"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{login},api-key={header}")
    text = f"{own} {header} {login} password=hunter2hunter2\n{other}"
    replies = [*SEND(text), REFINE("stop", answer=text)]
    with engine(tmp_path, replies) as scripted:
        run_id = scripted.run(text).run_id
        shown = b"".join(json_lines(trace_of(scripted.journal, run_id, content=True))).decode()
    for secret in (own, other, header, login, "hunter2hunter2"):
        assert secret not in shown
    assert shown.count("[secret redacted]") > 4


def test_a_key_is_not_cut_into_something_that_looks_like_none(tmp_path: Path) -> None:
    """A text is searched beyond the place where it is cut."""
    limit = conventions()["limits"]["text_chars"]
    secret = "ghp_0123456789abcdefghij0123456789"
    text = "x" * (limit - 10) + f" {secret} and more"
    with engine(tmp_path, [ANSWER("done")]) as scripted:
        run_id = scripted.run(text).run_id
        shown = b"".join(json_lines(trace_of(scripted.journal, run_id, content=True))).decode()
    assert "ghp_0" not in shown and "more characters]" in shown


def test_a_result_that_is_no_text_is_left_out_and_said_so(tmp_path: Path) -> None:
    """A picture or an archive is what it is; the trace goes on."""

    @tool("notes.picture", effect="read", label="picture")
    def picture(page: int) -> ToolOutput:
        """Draw it."""
        return ToolOutput([Document("a.png", b"\x89PNG\xff\xfe\x00", "image/png")])

    replies = [*CALL("notes.picture"), STOP, SUCCESS]
    with engine(tmp_path, replies, (*TOOLS, picture)) as scripted:
        spans = spans_of(scripted.journal, scripted.run("Draw").run_id, content=True)
    (call,) = named(spans, "execute_tool")
    assert call.attributes["gen_ai.tool.call.result"] == "[7 bytes that are no text]"
    assert spans[-1].name == "invoke_agent paor"


def test_a_name_is_searched_for_keys_before_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model's name of a tool can be any text, also one with a key where names are cut."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own-0123456789abcdefgh")
    most = conventions()["limits"]["name_chars"]
    clean = Cleaner()
    for before in range(1, 25):
        shown = clean.name("n" * (most - before) + "sk-own-0123456789abcdefgh")
        assert shown == "n" * (most - before) + "[secret redacted]"


def test_erased_texts_are_not_exported_and_all_else_is_as_it_was(tmp_path: Path) -> None:
    """Ids, times, tokens and calls are in the rows, which stay."""
    with engine(tmp_path, [*READ(1), REFINE("stop", answer="the SECRETWORD")]) as scripted:
        run_id = scripted.run("find the SECRETWORD").run_id
        before = check(scripted.journal, run_id)
        scripted.journal.erase(run_id)
        after = check(scripted.journal, run_id)
        content = spans_of(scripted.journal, run_id, content=True)
    assert compared(content) == compared(after)
    assert b"SECRETWORD" not in b"".join(json_lines(content))
    gone = ("paor.run.mode", "paor.limit.steps", "gen_ai.provider.name", "gen_ai.request.model")
    for old, new in zip(before, after, strict=True):
        assert (old.span_id, old.name, old.start_ns, old.end_ns) == (
            new.span_id,
            new.name,
            new.start_ns,
            new.end_ns,
        )
        kept = {key: value for key, value in old.attributes.items() if key not in gone or old.name[0] != "i"}
        assert kept == dict(new.attributes)


# -- ids and names -----------------------------------------------------------------------------------------------------


def test_ids_are_digests_of_run_and_row() -> None:
    """So anybody can compute them; as they are now they stay, because exported ones are out of reach."""
    assert trace_id_of("0199d2b4-6f1e", 1) == "7e64cdd945a8e1e09f30541c2fcbe227"
    assert span_id_of("0199d2b4-6f1e", 4, "model") == "0bc9195e22f907ec"
    assert span_id_of("0199d2b4-6f1e", 4, "tool") != span_id_of("0199d2b4-6f1e", 4, "model")


@pytest.mark.whole
def test_every_key_is_one_of_the_conventions_or_paor_s_own(tmp_path: Path) -> None:
    """The data file names all that is exported; the installed conventions know every name that it takes from there."""
    attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for name, value in vars(attributes).items() if name.startswith("GEN_AI_")} | {"error.type"}
    listed = {item["key"]: item for item in conventions()["attributes"].values()}
    for key, item in listed.items():
        assert (key in known and "since" in item) or (key.startswith("paor.") and "since" not in item), key
        assert item["means"]
    operations = {item.value for item in attributes.GenAiOperationNameValues}
    names = {kind["name"] for kind in conventions()["spans"].values()}
    assert names - operations == {"paor.wait"}
    used: dict[str, set[str]] = {}
    kinds = {kind["name"]: place for place, kind in conventions()["spans"].items()}
    for journey in JOURNEYS:
        folder = tmp_path / journey.name
        folder.mkdir()
        with journey.engine(folder) as scripted:
            run_id = play(journey, scripted).run_id
            for span in spans_of(scripted.journal, run_id, content=True):
                used.setdefault(kinds[span.name.split()[0]], set()).update(span.attributes)
                for event in span.events:
                    used.setdefault("event", set()).update(event.attributes)
                for link in span.links:
                    used.setdefault("link", set()).update(link.attributes)
    for place, keys in used.items():
        assert {key for key in keys if place not in listed[key]["on"]} == set()


def test_the_revision_is_the_one_with_which_the_newest_name_came() -> None:
    """A receiver that translates by the schema's address must know every name under it; the address is one of the conventions'."""
    schemas = pytest.importorskip("opentelemetry.semconv.schemas")
    data = conventions()
    came = [
        tuple(map(int, item["since"].split("."))) for item in data["attributes"].values() if "since" in item
    ]
    assert tuple(map(int, data["revision"].split("."))) == (*max(came), 0)
    assert data["schema_url"] == f"https://opentelemetry.io/schemas/{data['revision']}"
    assert data["schema_url"] in {item.value for item in schemas.Schemas}


def test_the_page_lists_what_is_exported() -> None:
    """Its tables say what the data file says."""
    page = (Path(__file__).parents[2] / "docs" / "howto" / "traces.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([a-z_.]+)` \| ([^|]+) \| (.+) \|$", page, re.MULTILINE)
    expected = [
        (item["key"], ", ".join(names(item["on"])), item["means"])
        for item in conventions()["attributes"].values()
    ]
    assert sorted(row for row in told if row[0] in {key for key, _, _ in expected}) == sorted(expected)
    assert conventions()["revision"] in page


def names(places: list[str]) -> list[str]:
    """Return places as the page has them: spans by name."""
    spans = conventions()["spans"]
    return [f"`{spans[place]['name']}`" if place in spans else place for place in places]


# -- bounds and faults ---------------------------------------------------------------------------------------------------


def test_a_long_run_keeps_the_newest_events_and_counts_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver takes no span of any size."""
    monkeypatch.setitem(conventions()["limits"], "events", 3)
    limit.cache_clear()
    try:
        replies = [reply for page in range(1, 6) for reply in (*READ(page), CONTINUE)]
        with engine(tmp_path, [*replies[:-1], STOP, SUCCESS], limits=Limits(max_steps=9)) as scripted:
            run_id = scripted.run("Read").run_id
            (agent,) = named(spans_of(scripted.journal, run_id), "invoke_agent")
            rows = scripted.journal.transitions(run_id)
        assert (
            len(agent.events) == 3
            and agent.events_dropped == sum(row.trigger == "observe" for row in rows) - 3
        )
        assert agent.events[-1].attributes["paor.row"] == max(
            row.seq for row in rows if row.trigger == "observe"
        )
        assert (
            json.loads(next(json_lines([agent])))["resourceSpans"][0]["scopeSpans"][0]["spans"][0][
                "droppedEventsCount"
            ]
            == 2
        )
    finally:
        monkeypatch.undo()
        limit.cache_clear()


def test_a_clock_that_goes_back_leaves_times_in_order(tmp_path: Path) -> None:
    """A row says when it was decided; a span never ends before it begins."""

    class Backwards(SteppingClock):
        def now_us(self) -> int:
            return 2_000_000_000_000_000 - super().now_us() // 10

    with engine(tmp_path, [*READ(1), STOP, SUCCESS], clock=Backwards()) as scripted:
        check(scripted.journal, scripted.run("Read").run_id)


def test_a_run_that_is_not_there_or_cannot_be_read_is_told(tmp_path: Path) -> None:
    """By the errors that every reading function has."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        with pytest.raises(UnknownRun):
            spans_of(scripted.journal, "nothing-like-it")
    with forge(tmp_path / "runs.db") as file:
        file.execute("UPDATE transitions SET outcome = '[]' WHERE seq = 2")
    with Journal(tmp_path / "runs.db", read_only=True) as journal, pytest.raises(JournalDamaged):
        spans_of(journal, run_id)


def test_without_it_nothing_of_opentelemetry_is_imported(tmp_path: Path) -> None:
    """Neither by paor, nor by a run, nor by deriving and writing spans."""
    program = f"""
import sys
import paor
from paor import Engine, ScriptedModel, Journal
with Engine(ScriptedModel([{{"action": None, "answer": "x"}}]), [], Journal({str(tmp_path / "a.db")!r}, "off")) as engine:
    run = engine.run("Read").run_id
    assert "paor.otel" not in sys.modules
    import paor.otel
    from paor.otel.otlp_json import json_lines
    assert len(list(json_lines(paor.otel.spans_of(engine.journal, run)))) == 1
print(sorted(name for name in sys.modules if name.split(".")[0] == "opentelemetry"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
