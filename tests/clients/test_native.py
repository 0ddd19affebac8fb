"""The profile native: one turn a step, its calls executed in order, a plain answer ends; all the rest as in any run."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import (
    Engine,
    Journal,
    Limits,
    ModelCall,
    Policy,
    Reply,
    ScriptedModel,
    ToolContext,
    Usage,
    replay,
)
from paor import tool as as_tool
from paor.errors import ToolError
from paor.testing import call_tools, review, scripted_tool, step, walk

from ..support.effort import examples
from ..support.worlds import fail, read, send
from .inside import (
    AGAIN,
    ANSWER_NOW,
    CALLS_MAX,
    FAILED_AGAIN,
    ID_CHARS,
    LAST_WORDS,
    Calls,
    DirectAnswer,
    Invalid,
    read_turn,
    wire_names,
)

DONE = review("success")


class Heard(ScriptedModel):
    """A scripted model that keeps what it was asked."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(replies)
        self.calls: list[ModelCall] = []

    def ask(self, call: ModelCall) -> Reply:
        """Answer as the script says."""
        self.calls.append(call)
        return super().ask(call)

    @property
    def turns(self) -> list[ModelCall]:
        """The requests for a turn."""
        return [call for call in self.calls if call.kind == "turn"]


def run(*replies: Any, tools: Any = (read, send, fail), policy: Policy | None = None, **options: Any) -> Any:
    """Run a script; return the result, what was asked and what was done. The journal verifies and replays."""
    model = Heard(*replies)
    with Engine(model, list(tools), Journal(":memory:"), policy=policy, builtins=False) as engine:
        result = engine.run("Read page 1", profile="native", **options)
        assert engine.journal.verify() == []
        assert replay(engine.journal, result.run_id, engine).identical
        return result, model, walk(engine.journal, result.run_id)


def said(call: ModelCall) -> list[tuple[str, str]]:
    """Return role and text of every message, of calls their names."""
    return [
        (message.role, message.text or ", ".join(made.name for made in message.calls))
        for message in call.messages
    ]


# -- a run -------------------------------------------------------------------------------------------------------


def test_one_call_takes_two_turns_and_the_same_seven_phases() -> None:
    """Stage 2 is settled by the same reply, Reviewing and the completion review by guards: the answer is the model's own."""
    result, model, seen = run(call_tools(step("notes.read", page=1)), "Within 10 days.")
    assert (result.state, result.reason, result.answer) == ("Done", "model_stop", "Within 10 days.")
    assert [asked.kind for asked in seen.asked] == ["turn", "turn"]
    assert seen.triggers == ("select", "specify", "execute", "observe", "proceed", "answer", "finish")
    system, task, call, came = model.turns[1].messages
    assert system.role == "system" and task.text == "Read page 1"
    assert (call.role, call.calls[0].name, call.calls[0].arguments) == (
        "assistant",
        "notes_read",
        {"page": 1},
    )
    assert (came.role, came.call_id, came.text[:7]) == ("tool", call.calls[0].id, "Page 1:")


def test_parallel_calls_are_steps_of_one_plan_in_the_order_given() -> None:
    """No request between them, and every one of them counts as a step."""
    calls = call_tools(step("notes.read", page=2), step("notes.read", page=1), text="Both pages.")
    result, model, seen = run(calls, "Both are read.")
    assert [call.arguments["page"] for call in seen.calls] == [2, 1]
    assert seen.triggers.count("next_step") == 1 and (result.steps, result.usage.calls) == (2, 2)
    roles = [role for role, _ in said(model.turns[1])]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    turn, *came = model.turns[1].messages[2:]
    assert turn.text == "Both pages." and [call.id for call in turn.calls] == [one.call_id for one in came]


def test_a_once_call_behind_a_read_waits_until_its_model_has_seen_what_was_read() -> None:
    """Small models fill such a call with a guess. Two of them in a row need nothing of each other."""
    guessed = call_tools(step("notes.read", page=1), step("notes.send", text="a guess"))
    seeing = call_tools(step("notes.send", text="10 days"), step("notes.send", text="soon"))
    result, _, seen = run(guessed, seeing, "Sent.")
    assert result.state == "Done"
    assert [call.arguments.get("text") for call in seen.calls] == [None, "10 days", "soon"]
    with Engine(
        ScriptedModel([guessed, "Read."]), [read, send], Journal(":memory:"), builtins=False
    ) as engine:
        told = engine.journal.transitions(engine.run("Read page 1", profile="native").run_id)[0]
        assert (told.trigger, told.outcome["dropped"]) == ("select", 1), "the row says how many calls wait"


def test_a_once_call_behind_a_known_result_is_made() -> None:
    """A model that writes both calls once more has seen what the first one came to: the second does not wait again."""
    both = call_tools(step("notes.read", page=1), step("notes.send", text="10 days"))
    result, _, seen = run(both, both, "Sent.")
    assert (result.state, result.answer) == ("Done", "Sent.")
    assert [call.tool for call in seen.calls] == ["notes.read", "notes.read", "notes.send"]
    other = call_tools(step("notes.read", page=2), step("notes.send", text="20 days"))
    _, _, seen = run(both, other, other, "Sent.")
    pages = [{"page": 1}, {"page": 2}, {"page": 2}]
    assert [call.arguments for call in seen.calls] == [*pages, {"text": "20 days"}]


@pytest.mark.parametrize(
    "first",
    [
        step("notes.fail", page=1),
        step("notes.read", page="no"),
        step("notes.read"),
        step("notes.none", page=1),
        {"name": "notes.read", "arguments": "no JSON"},
    ],
    ids=["fails", "wrong", "missing", "unknown", "unreadable"],
)
def test_a_once_call_behind_one_that_has_failed_is_made_when_it_is_written_again(first: Any) -> None:
    """The failure is in sight then, whatever it was; without it the call would never be made."""
    calls = [first if "arguments" in first else {"name": first["name"], "arguments": first["args"]}]
    calls.append({"name": "notes.send", "arguments": {"text": "It is torn."}})
    turn = json.dumps({"text": "", "calls": calls})
    _, _, seen = run(turn, "Torn.", DONE)
    assert "notes.send" not in [call.tool for call in seen.calls]
    result, _, seen = run(turn, turn, "Sent.", DONE)
    assert (result.state, result.answer) == ("Done", "Sent.")
    assert [call.tool for call in seen.calls].count("notes.send") == 1


def test_a_success_is_not_that_of_a_call_whose_arguments_cannot_be_read() -> None:
    """It has none, as the other: nobody has seen what it came to."""
    reads = [scripted_tool("notes.all", ["x", "x"]), send]
    torn = {"name": "notes.all", "arguments": "no JSON"}, {"name": "notes.send", "arguments": {"text": "x"}}
    turn = json.dumps({"text": "", "calls": torn})
    _, _, seen = run(call_tools(step("notes.all")), turn, "Read.", DONE, tools=reads)
    assert "notes.send" not in [call.tool for call in seen.calls]


def test_a_model_is_told_what_the_policy_denies() -> None:
    """It is not offered, so that nothing but these words can tell a user why."""
    _, model, _ = run("It is not permitted.", policy=Policy(deny=("notes.fail",)))
    _, free, _ = run("Known.")
    assert "permit" in said(model.turns[0])[0][1] and "notes.fail" in said(model.turns[0])[0][1]
    assert "permit" not in said(free.turns[0])[0][1]


def test_tools_are_offered_with_schema_and_under_a_name_that_every_provider_takes() -> None:
    """Without those that are denied. A review has them too, for the same beginning, and may call none."""
    reviewed = Limits(completion_review="model")
    _, model, _ = run("Known.", DONE, policy=Policy(deny=("notes.fail",)), limits=reviewed)
    offered = model.turns[0].tools
    assert [tool.name for tool in offered] == ["notes_read", "notes_send"]
    assert offered[0].description == "Read one page of the notes."
    assert offered[0].schema["required"] == ["page"] and offered[0].schema["type"] == "object"
    assert model.turns[0].schema is None
    judged = model.calls[-1]
    assert judged.kind == "review" and judged.tools == offered and judged.schema and not judged.may_call


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        (
            call_tools(step("notes.reed", page=1)),
            "there is no tool 'notes.reed'; choose from: notes_read, notes_send",
        ),
        (call_tools(step("notes.fail", page=1)), "denied"),
        ({"text": "", "calls": [{"id": "1", "name": "notes_read", "arguments": "[1]"}]}, "cannot be read"),
        (call_tools(step("notes.read", page="x")), "page"),
        ({"text": "", "calls": [{"id": "1", "name": None, "arguments": {}}]}, "names no tool"),
    ],
    ids=["unknown", "denied", "no object", "schema", "no name"],
)
def test_a_call_that_cannot_be_made_is_an_error_row_that_the_model_reads(calls: Any, told: str) -> None:
    """It is the result of that call, not a lost reply; the calls beside it are made."""
    calls = calls | {"calls": [*calls["calls"], {"id": "2", "name": "notes_read", "arguments": {"page": 3}}]}
    result, model, seen = run(calls, "Page 3 says it.", DONE, policy=Policy(deny=("notes.fail",)))
    assert result.state == "Done" and "refuse" in seen.triggers and "reselect" not in seen.triggers
    first, second = (text for role, text in said(model.turns[1]) if role == "tool")
    assert first.startswith("Error: ") and told in first
    assert second.startswith("Page 3:")


def test_what_stands_in_arguments_is_no_placeholder() -> None:
    """Unlike in a plan that a planner writes."""
    calls = call_tools(step("notes.send", text="Page 1"), step("notes.send", text="$step[0].output"))
    _, _, seen = run(calls, "Sent.", DONE)
    assert seen.calls[1].arguments == {"text": "$step[0].output"}


def test_calls_for_which_no_step_is_left_have_a_result_and_the_run_ends_at_its_limit() -> None:
    """The model is asked once more, without tools; its words are the answer, and the reason is the limit."""
    calls = call_tools(*(step("notes.read", page=page) for page in (1, 2, 3)))
    limits = Limits(max_steps=2)
    result, model, seen = run(calls, "Two pages.", limits=limits)
    assert (result.state, result.reason, result.answer) == ("Failed", "max_steps", "Two pages.")
    assert (result.steps, len(seen.calls)) == (2, 2)
    assert [turn.may_call for turn in model.turns] == [True, False]
    assert said(model.turns[1])[-2:] == [("tool", "Not made: no step is left."), ("user", LAST_WORDS)]
    assert model.turns[0].tools == model.turns[1].tools
    met = review("success", criteria=[{"criterion": "pages", "met": True}])
    result, _, _ = run(calls, "Two pages.", met, limits=limits, success_criteria=["pages"])
    assert (result.state, result.reason) == ("Done", "max_steps")
    result, model, _ = run(calls, calls, calls, limits=limits)
    assert (result.state, result.reason, len(model.turns)) == ("Failed", "max_steps", 3)
    assert said(model.turns[2])[-3:] == [
        *[("tool", "Not made: no step is left.")] * 2,
        ("user", LAST_WORDS),
    ]


@pytest.mark.parametrize("words", ["", "Let me look at one more."])
@pytest.mark.parametrize("count", [1, 2])
def test_a_reply_with_calls_at_the_step_limit_is_no_answer(words: str, count: int) -> None:
    """Its calls get their results and words are asked for once more; then they are the answer, else code says how it ended."""
    first = call_tools(*(step("notes.read", page=page) for page in range(1, count + 1)))
    more = call_tools(step("notes.read", page=9), text=words)
    result, model, seen = run(first, more, "Page 1 says ten days.", limits=Limits(max_steps=1))
    assert (result.reason, result.answer, len(seen.calls)) == ("max_steps", "Page 1 says ten days.", 1)
    call, refused, asked = model.turns[2].messages[-3:]
    assert (call.text, [made.name for made in call.calls]) == (words, ["notes_read"])
    assert (refused.call_id, refused.text) == (call.calls[0].id, "Not made: no step is left.")
    assert (asked.role, asked.text) == ("user", LAST_WORDS)
    result, _, _ = run(first, more, more, limits=Limits(max_steps=1))
    assert (result.state, result.reason) == ("Failed", "max_steps") and "step limit" in result.answer
    assert "notes.read" in result.answer and "one more" not in result.answer


@pytest.mark.parametrize("calls_per_reply", [None, 1, 2])
def test_calls_beyond_the_last_step_end_a_run_alike_however_many_of_a_reply_are_made(
    calls_per_reply: int | None,
) -> None:
    """Whether a limit of steps or of calls has left them out, the model has asked for more than there was."""
    calls = call_tools(*(step("notes.read", page=page) for page in (1, 2, 3)))
    limits = Limits(max_steps=1, calls_per_reply=calls_per_reply)
    result, model, _ = run(calls, "One page.", limits=limits)
    assert (result.state, result.reason, result.answer) == ("Failed", "max_steps", "One page.")
    assert said(model.turns[1])[-2:] == [("tool", "Not made: no step is left."), ("user", LAST_WORDS)]


CALLS = st.sampled_from(
    [
        step("notes.read", page=1),
        step("notes.read", page=2),
        step("notes.send", text="x"),
        step("notes.fail", page=1),
    ]
)


@settings(max_examples=examples(40))
@given(
    turns=st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=6),
    calls_per_reply=st.sampled_from((None, 1, 2)),
    max_steps=st.integers(1, 9),
)
def test_what_is_said_of_a_call_is_true(
    turns: list[list[Any]], calls_per_reply: int | None, max_steps: int
) -> None:
    """Known is only what was made before with a result; each call has one result; no word says what a model may not do."""
    limits = Limits(max_steps=max_steps, calls_per_reply=calls_per_reply)
    script = [*(call_tools(*turn) for turn in turns), "Done.", "Done.", "Done."]
    _, model, _ = run(*script, limits=limits)
    for call in model.turns:
        made: dict[str, str] = {}
        ids: dict[str, str] = {}
        for message in call.messages:
            for one in message.calls:
                ids[one.id] = json.dumps([one.name, one.arguments])
            if message.role == "tool":
                key = ids.pop(message.call_id)
                assert message.text != "Not made again: its result is above." or key in made
                if not message.text.startswith(("Error", "Not made")):
                    made[key] = message.text
            assert "can be called" not in message.text
        assert not ids


@pytest.mark.parametrize("failing", [False, True])
def test_several_bad_calls_of_one_reply_count_once(failing: bool) -> None:
    """Whatever is wrong with each: values of the wrong type and unsafe ones, or reads that all fail."""
    reads = [scripted_tool("notes.torn", [ToolError("it is torn")] * 9), scripted_tool("notes.link"), read]
    bad = [step("notes.read", page="no"), step("notes.link", url="file:///etc/passwd")]
    calls = call_tools(*([step("notes.torn", page=1), step("notes.torn", page=2)] if failing else bad))
    limits = Limits(max_steps=20, max_consecutive_refused=3, max_consecutive_errors=3, consecutive_limit=9)
    result, _, _ = run(calls, calls, "It cannot be read.", DONE, limits=limits, tools=reads)
    assert (result.state, result.answer) == ("Done", "It cannot be read.")
    result, _, _ = run(calls, calls, calls, limits=limits, tools=reads)
    assert (result.state, result.reason) == ("Failed", "consecutive_errors" if failing else "stuck")


def test_an_answer_after_the_last_step_that_was_all_is_no_limit() -> None:
    """Nothing was left out: the run is done as any other."""
    result, model, _ = run(call_tools(step("notes.read", page=1)), "Read.", limits=Limits(max_steps=1))
    assert (result.state, result.reason, model.turns[1].may_call) == ("Done", "model_stop", False)


def test_every_call_of_a_reply_has_a_result() -> None:
    """Calls that wait behind what was not seen yet, calls beyond the bound of a reply, and one id for two calls."""
    guess = call_tools(step("notes.read", page=1), step("notes.send", text="a guess"))
    _, model, _ = run(guess, "Read.")
    assert "before the results above were seen" in said(model.turns[1])[-1][1]
    three = call_tools(*(step("notes.read", page=page) for page in (1, 2, 3)))
    _, model, seen = run(three, "Read.", limits=Limits(calls_per_reply=1))
    assert len(seen.calls) == 1
    assert [text.startswith("Not made") for role, text in said(model.turns[1]) if role == "tool"] == [
        False,
        True,
        True,
    ]
    twice = {
        "text": "",
        "calls": [{"id": "x", "name": "notes_read", "arguments": {"page": page}} for page in (1, 2)],
    }
    _, model, _ = run(twice, "Read.")
    turn, *came = model.turns[1].messages[2:]
    assert len({call.id for call in turn.calls}) == 2 and [call.id for call in turn.calls] == [
        one.call_id for one in came
    ]


def test_refused_calls_are_counted_by_reply() -> None:
    """Three wrong calls of one reply are one; three such replies in a row are too many."""
    wrong = call_tools(*(step("notes.read", page="x") for _ in range(3)))
    result, _, _ = run(wrong, "I cannot.", DONE, limits=Limits(max_steps=20))
    assert (result.state, result.answer) == ("Done", "I cannot.")
    result, _, seen = run(wrong, wrong, wrong, "Never said.", limits=Limits(max_steps=20))
    assert (result.reason, len(seen.asked)) == ("stuck", 3)
    sent = call_tools(step("notes.send", text="a"))
    again = call_tools(*(step("notes.send", text="a") for _ in range(4)), step("notes.read", page=1))
    result, _, seen = run(sent, again, "Sent once.", DONE, limits=Limits(max_steps=20))
    assert result.state == "Done" and [call.tool for call in seen.calls] == ["notes.send", "notes.read"]


def test_a_once_call_that_has_succeeded_is_not_made_again() -> None:
    """However often and wherever the model asks for it; its earlier result is told; `repeat_allowed` lifts it."""
    pay = call_tools(step("notes.send", text="7"))
    look = call_tools(step("notes.read", page=1))
    for script in ([pay, pay, "Paid."], [look, pay, look, pay, "Paid."]):
        result, model, seen = run(*script)
        assert (result.state, result.answer) == ("Done", "Paid.")
        assert [call.tool for call in seen.calls].count("notes.send") == 1
        assert said(model.turns[-1])[-1] == ("user", ANSWER_NOW) and not model.turns[-1].may_call
    free = scripted_tool("notes.send", ["sent", "sent"], effect="once", repeat_allowed=True)
    assert len(run(pay, pay, "Paid.", tools=[free])[2].calls) == 2


def test_a_reply_that_is_none_is_asked_again_with_the_reason() -> None:
    """As often as a selection."""
    result, model, seen = run("", "Known.", DONE)
    assert result.state == "Done" and seen.triggers[0] == "reselect"
    assert "empty reply" in said(model.turns[1])[-1][1]
    assert run("", "")[0].reason == "selection_invalid"


@pytest.mark.parametrize("how", [{"profile": "native"}, {"mode": "planner"}], ids=["native", "planner"])
@pytest.mark.parametrize(
    ("said_first", "answer"),
    [
        ('<tool_response>\n{"page": 1}\n</tool_response>', "Known."),
        ("<tool_response>1</tool_response>\n<tool_response>2</tool_response>", "Known."),
        ("<think>Which page?</think>\n<tool_result>Page 1</tool_result>", "Known."),
        ("<function_results>\nPage 1", "Known."),
        ("<think>Which page?</think>\nPage 1.", "Page 1."),
        *(
            [text] * 2
            for text in ("<tool_response>1</tool_response>\nPage 1.", "`<tool_result>1</tool_result>`")
        ),
    ],
)
def test_neither_thoughts_nor_a_result_that_the_model_makes_up_are_an_answer(
    said_first: str, answer: str, how: dict[str, Any]
) -> None:
    """A reply that is nothing else is asked again, with the reason."""
    model = Heard(said_first, "Known.")
    with Engine(model, [read], Journal(":memory:"), builtins=False) as engine:
        result = engine.run("Read page 1", **how)
        assert replay(engine.journal, result.run_id, engine).identical
    assert (result.state, result.answer) == ("Done", answer)
    assert answer != "Known." or "which only a tool gives" in str(model.calls[1].messages)


@pytest.mark.parametrize("reason", ["cancelled", "token_budget"])
def test_a_cancel_and_a_budget_hold_between_the_calls_of_one_reply(reason: str) -> None:
    """What was done stays done; the calls behind it are not made, and the model is asked nothing more."""
    both = call_tools(*(step("notes.read", page=page) for page in (1, 2)))
    reply = Reply(json.dumps(both), Usage(1, 60, 60))
    limits = Limits(token_budget=100 if reason == "token_budget" else None)
    model = Heard(reply, "Both are read.")

    @as_tool("notes.read", effect="read")
    def watched(page: int, context: ToolContext) -> str:
        """Read one page of the notes."""
        if reason == "cancelled":
            engine.cancel(context.run_id)
        return f"Page {page}"

    with Engine(model, [watched], Journal(":memory:"), limits=limits, builtins=False) as engine:
        result = engine.run("Read both pages", profile="native")
        assert (result.state, result.reason) == ("Failed", reason)
        made = [call.arguments for call in walk(engine.journal, result.run_id).calls]
        assert made == ([{"page": 1}] if reason == "cancelled" else []), (
            "the reply itself has used up the budget"
        )
        assert len(model.calls) == 1 and replay(engine.journal, result.run_id, engine).identical


def test_a_result_that_was_there_before_says_so() -> None:
    """Small models repeat a call that they need no more. What is new says nothing, nor does a tool that is meant to be repeated."""
    again, failing = call_tools(step("notes.read", page=1)), call_tools(step("mail.find", to="Anna"))
    refused = call_tools(step("notes.send", to="Anna"))
    changing = scripted_tool("notes.read", ["Page 1: due", "Page 1: paid"])
    polled = scripted_tool("notes.read", ["Page 1: due"] * 2, repeat_allowed=True)
    closed = scripted_tool("mail.find", [ToolError("closed")] * 2)
    for reply, tool, words in (
        (again, read, AGAIN),
        (again, changing, None),
        (again, polled, None),
        (failing, closed, FAILED_AGAIN),
        (refused, send, FAILED_AGAIN),
    ):
        _, model, _ = run(reply, reply, "Known.", tools=[tool])
        first, second = (text for role, text in said(model.turns[2]) if role == "tool")
        assert model.turns[2].may_call and not first.endswith((AGAIN, FAILED_AGAIN))
        if words:
            assert second == f"{first}\n\n{words}"
        else:
            assert not second.endswith((AGAIN, FAILED_AGAIN))


def test_reads_are_blocked_by_the_documents_rule_and_then_the_tools_are_withheld() -> None:
    """A second read is made; the third in a row ends a turn, and the answer is asked for."""
    again = call_tools(step("notes.read", page=1))
    result, model, seen = run(again, again, again, "It is page 1.")
    assert (result.state, result.answer, len(seen.calls)) == ("Done", "It is page 1.", 2)
    assert [turn.may_call for turn in model.turns] == [True, True, True, False]
    assert said(model.turns[3])[-2:] == [
        ("tool", "Not made again: its result is above."),
        ("user", ANSWER_NOW),
    ]
    many = call_tools(*[step("notes.read", page=1)] * 3, step("notes.read", page=2))
    _, model, _ = run(many, "Pages 1 and 2.")
    told = [text for role, text in said(model.turns[1]) if role == "tool"]
    assert [text.startswith("Error: duplicate_call_blocked") for text in told] == [False, False, True, False]
    assert "the same call was made in step 2 (consecutive rule)" in told[2] and told[2].endswith(told[0])


# -- documents -----------------------------------------------------------------------------------------------------


@as_tool("files.count", effect="read")
def count(documentList: list[str], connectionReference: str = "") -> str:
    """Count documents."""
    return f"{len(documentList)} documents at {connectionReference or 'home'}"


def test_documents_and_connections_are_parameters_with_the_run_s_own_choices() -> None:
    """The same in every request: documents by the form of their references, connections by name."""
    options: dict[str, Any] = {"documents": [("a.txt", "A"), ("b.txt", "B")], "connections": {"mail": 1}}
    label = "round1_task1_action0_input"
    _, model, _ = run("Known.", DONE, tools=[count], **options)
    schema = model.turns[0].tools[0].schema["properties"]
    pattern = schema["documentList"]["items"]["pattern"]
    assert all(re.search(pattern, text) for text in (f"docList:{label}", f"docItem:{label}#0"))
    assert not re.search(pattern, label)
    assert schema["connectionReference"] == {"type": "string", "enum": ["mail"]}
    assert f"docItem:{label}#1 b.txt" in said(model.turns[0])[1][1]
    assert "<<<document b.txt\nB\n>>>" in said(model.turns[0])[1][1]


def test_one_document_is_meant_and_what_does_not_exist_is_an_error() -> None:
    """A single reference may stand for a list."""
    one = [("a.txt", "A")]
    label = "docItem:round1_task1_action0_input#0"
    for arguments in ({}, {"documentList": label}, {"documentList": [label]}):
        _, _, seen = run(
            call_tools(step("files.count", **arguments)), "1.", DONE, tools=[count], documents=one
        )
        assert seen.calls[0].arguments["documentList"] == [label]
    for wrong in ({"documentList": ["docList:b"]}, {"connectionReference": "mail"}):
        _, model, seen = run(
            call_tools(step("files.count", **wrong)), "0.", DONE, tools=[count], documents=one
        )
        assert seen.calls == () and "Error: " in said(model.turns[1])[-1][1]
    _, model, _ = run(call_tools(step("files.count")), "1.", DONE, tools=[count], documents=one)
    assert said(model.turns[1])[-1][1].endswith("Documents: docList:round1_task1_action1_result")


@as_tool("mail.post", effect="read")
def post(connectionReference: str) -> str:
    """Send."""
    return f"sent by {connectionReference}"


def test_a_tool_that_needs_a_connection_is_called_with_one_that_there_is() -> None:
    """It is not offered without; the only one is meant; of several the model is told."""
    one: dict[str, Any] = {"tools": [post], "connections": {"mail": 1}}
    for arguments in ({}, {"connectionReference": "mail"}, {"connectionReference": "fax"}):
        _, _, seen = run(call_tools(step("mail.post", **arguments)), "Sent.", DONE, **one)
        assert seen.calls[0].arguments == {"connectionReference": "mail"}
    for labels, told in (((), "has no connection"), (("mail", "crm"), "connectionReference: mail, crm")):
        given: dict[str, Any] = {"tools": [post], "connections": dict.fromkeys(labels, 1)}
        _, model, seen = run(call_tools(step("mail.post")), "No.", DONE, **given)
        assert [tool.name for tool in model.turns[0].tools] == ["mail_post"] * bool(labels)
        assert seen.calls == () and told in said(model.turns[1])[-1][1]


# -- starting ---------------------------------------------------------------------------------------------------------


# -- how a turn is read ----------------------------------------------------------------------------------------------


CALL = {"name": "notes_read", "arguments": {"page": 1}}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"text": "", "calls": [{"id": "a"} | CALL]}),
        json.dumps(CALL),
        f"```json\n{json.dumps(CALL)}\n```",
        f"<tool_call>\n{json.dumps(CALL)}\n</tool_call>",
        f"<think>Which page?</think>\n<tool_call>{json.dumps(CALL)}</tool_call>\n",
    ],
)
def test_a_call_is_read_in_the_one_form_and_as_the_text_that_a_model_wrote(text: str) -> None:
    """If it is the whole reply."""
    read = read_turn(text, chars_max=10_000)
    assert isinstance(read, Calls)
    assert [(one.name, one.args) for one in read.steps] == [("notes_read", {"page": 1})] and read.steps[0].id


@pytest.mark.parametrize(
    "text",
    [
        "It is on page 1.",
        f"One would call {json.dumps(CALL)} for that.",
        f"Use <tool_call>{json.dumps(CALL)}</tool_call> to read it.",
        '{"order": "O-1", "place": "Leeds"}',
        '{"calls": [{"name": "Bob", "number": 7}]}',
        "[1, 2]",
    ],
)
def test_prose_and_data_are_answers(text: str) -> None:
    """Also if they mention a call."""
    assert read_turn(text, chars_max=10_000) == DirectAnswer(text)


@pytest.mark.parametrize(
    ("text", "finish", "code"),
    [
        ("", "stop", "empty"),
        ('{"text": "", "calls": []}', "stop", "empty"),
        ('{"text": "", "calls": [{"id": "1", "na', "stop", "truncated"),
        ("The answer begins", "length", "length"),
        ("No.", "refusal", "refusal"),
        ("x" * 1001, "stop", "too_large"),
        (json.dumps({"text": "", "calls": [CALL] * (CALLS_MAX + 1)}), "stop", "too_many_calls"),
        (json.dumps({"text": "", "calls": [CALL | {"id": "x" * (ID_CHARS + 1)}]}), "stop", "id_too_long"),
    ],
)
def test_what_is_neither_is_invalid(text: str, finish: str, code: str) -> None:
    """It is asked again, with the reason."""
    read = read_turn(text, chars_max=1000 if code == "too_large" else 10_000, finish=finish)
    assert isinstance(read, Invalid) and read.code == code


@pytest.mark.parametrize("size", [8, 400, ID_CHARS])
def test_an_id_goes_back_whole(size: int) -> None:
    """Also a long one, into which a provider puts what the model has thought."""
    ids = ["q" * (size - 1) + end for end in "12"]
    calls = [{"id": id, "name": "notes_read", "arguments": {"page": at}} for at, id in enumerate(ids, 1)]
    _, model, _ = run(json.dumps({"text": "", "calls": calls}), "Two pages.")
    turn, *results = model.turns[1].messages[2:]
    assert [call.id for call in turn.calls] == [result.call_id for result in results] == ids


# -- processes --------------------------------------------------------------------------------------------------------


def test_names_are_mapped_without_two_being_the_same() -> None:
    """Shortened with a digest beyond what providers take."""
    long = "orders." + "x" * 90
    names = wire_names(["orders.lookup", "orders-a.lookup", long, long + "y"])
    assert names["orders.lookup"] == "orders_lookup" and len(set(names.values())) == 4
    assert all(len(name) <= 64 for name in names.values())
    tool = scripted_tool(long, ["found"])
    _, _, seen = run(call_tools(step(wire_names([long])[long])), "Found.", DONE, tools=[tool])
    assert seen.calls[0].tool == long and seen.calls[0].ok
