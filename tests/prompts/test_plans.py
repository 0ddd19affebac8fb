"""A planner's reply: plans in every shape that models give them, native calls, questions, answers, and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paor.prompts.parsing.plan_data import plan_of
from paor.prompts.parsing.plans import REASON_CHARS, read_plan, read_task_plan
from paor.prompts.parsing.replies import DirectAnswer, Invalid
from paor.prompts.parsing.tool_calls import derived_id, native_reply

from ..support.cases import (
    STEPS_MAX,
    TASKS_MAX,
    Elicitation,
    Plan,
    PlanResult,
    TaskPlan,
    TranscriptMessage,
)

FETCH = {
    "type": "tool",
    "name": "web.fetch",
    "args": {"url": "https://a"},
    "reason": "need raw html",
    "retries": 2,
}
SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}


def read(reply: object, **more: Any) -> Any:
    """Read a reply given as text or data."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return read_plan(text, chars_max=1_000_000, **more)


def steps(reply: object) -> list[tuple[str, str, dict[str, Any]]]:
    """Return type, name and arguments of the steps that a reply is read as."""
    plan = read(reply)
    assert isinstance(plan, Plan), plan
    return [(step.type, step.name, step.args) for step in plan.steps]


def test_A139_a_plan_has_an_id_an_intention_and_steps_in_order() -> None:
    """The id is optional."""
    plan = read(
        {
            "id": "p1",
            "intention": "look",
            "steps": [FETCH, {"type": "noop"}, {"type": "abort", "reason": "no"}],
        }
    )
    assert (plan.id, plan.intention) == ("p1", "look")
    assert [step.type for step in plan.steps] == ["tool", "noop", "abort"]
    first = plan.steps[0]
    assert (first.name, first.args, first.reason, first.retries) == (
        "web.fetch",
        {"url": "https://a"},
        "need raw html",
        2,
    )
    assert plan.steps[2].reason == "no"
    assert read({"steps": [FETCH]}).id is None


FORMS: dict[str, object] = {
    "plan": {"steps": [FETCH]},
    "wrapped": {"plan": {"steps": [FETCH]}},
    "list": [FETCH],
    "one step": FETCH,
    "fence": f"```json\n{json.dumps({'steps': [FETCH]}, indent=1)}\n```",
    "with an empty answer": {"steps": [FETCH], "answer": "", "elicitation": None, "id": None},
    "with an answer that is too early": {"steps": [FETCH], "answer": "It will be fine."},
    "without type": {"steps": [{**FETCH, "type": None}]},
    "type in capitals": {"steps": [{**FETCH, "type": "Tool"}]},
    "arguments": {"steps": [{"type": "tool", "name": "web.fetch", "arguments": {"url": "https://a"}}]},
    "arguments as text": {"steps": [{"type": "tool", "name": "web.fetch", "args": '{"url": "https://a"}'}]},
    "native call as a step": {
        "steps": [{"function": {"name": "web.fetch", "arguments": '{"url": "https://a"}'}}]
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_A139_the_same_plan_in_many_forms(form: str) -> None:
    """What models really return."""
    assert steps(FORMS[form]) == [("tool", "web.fetch", {"url": "https://a"})]


def test_prose_before_a_plan_is_its_first_steps_reason() -> None:
    """A reason that is there is kept, and long prose is cut."""
    bare = {"steps": [{"type": "tool", "name": "a"}, {"type": "tool", "name": "b"}]}
    plan = read(f"I will look first.\n```json\n{json.dumps(bare)}\n```")
    assert [step.reason for step in plan.steps] == ["I will look first.", ""]
    assert read(f"I will look. {json.dumps([FETCH])}").steps[0].reason == "need raw html"
    assert len(read(f"{'x' * 5000} {json.dumps(bare)}").steps[0].reason) == REASON_CHARS
    assert read(bare).steps[0].reason == ""


@pytest.mark.parametrize(
    "reply",
    [
        "null",
        {"steps": []},
        [],
        {"steps": [{"type": "noop"}, {"type": "noop", "reason": "done"}]},
        {"steps": [], "elicitation": {"message": " "}},
    ],
)
def test_C11_a_plan_of_nothing_is_empty(reply: object) -> None:
    """Nil, blank or noop only: there is nothing left to do, which is an answer without words."""
    plan = read(reply)
    assert isinstance(plan, Plan) and plan.is_empty


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"plan": {}},
        {"intention": "nothing left"},
        {"intention": "look", "elicitation": None},
        {"plan": {"intention": "look"}},
        {"error": "I cannot plan this"},
        {"error": {"code": 500}, "id": "x"},
    ],
)
@pytest.mark.parametrize("words", [True, False])
def test_a_plan_object_without_steps_is_no_plan(reply: dict[str, Any], words: bool) -> None:
    """It says nothing about being finished: an empty list of steps does, and an answer."""
    found = read_plan(json.dumps(reply), chars_max=1000, words=words)
    assert isinstance(found, Invalid) and found.code == "no_steps"
    answered = {**reply, "answer": "It is 42."}
    if "plan" not in answered and "error" not in answered:
        assert read_plan(json.dumps(answered), chars_max=1000, words=words) == DirectAnswer("It is 42.")


@pytest.mark.parametrize(
    "reply",
    [
        {"steps": [FETCH]},
        {"steps": [{"type": "noop"}, FETCH]},
        {"steps": [{"type": "abort"}]},
        {"elicitation": {"message": "Which?"}},
        {"elicitation": {"requestedSchema": SCHEMA}},
        {"steps": [{"type": "elicitation", "message": "Which?"}]},
    ],
)
def test_C11_a_plan_that_does_or_asks_something_is_not_empty(reply: object) -> None:
    """The original had it the other way round."""
    plan = read(reply)
    assert isinstance(plan, Plan) and not plan.is_empty


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("There are 18 days.", "There are 18 days."),
        ({"answer": " 18 days "}, "18 days"),
        ({"action": None, "answer": "18 days"}, "18 days"),
        ({"steps": [], "answer": "18 days"}, "18 days"),
        (
            'The setting is ```json\n{"port": 80}\n```, no more.',
            'The setting is ```json\n{"port": 80}\n```, no more.',
        ),
        ({"role": "assistant", "content": "18 days"}, "18 days"),
        ({"content": [{"type": "text", "text": "18 days"}], "stop_reason": "end_turn"}, "18 days"),
        (
            {"output": [{"type": "message", "content": [{"type": "output_text", "text": "18 days"}]}]},
            "18 days",
        ),
    ],
)
def test_A138_bare_words_are_the_answer(reply: object, answer: str) -> None:
    """And ``answer`` where there is nothing to do."""
    assert read(reply) == DirectAnswer(answer)


@pytest.mark.parametrize(
    "reply",
    [
        *(
            {"port": 80},
            {"refusal": "no"},
            {"text": "", "calls": [{"id": "c", "name": "a_b", "arguments": {}}]},
        ),
        *({"tool_name": "a.b", "tool_input": {}}, {"tasks": [{"type": "tool", "name": "a.b"}]}),
        *('```json\n{"port": 80}\n```', '<think>So.</think>\n{"port": 80}'),
        'Let me look. {"tool_name": "a.b", "tool_input": {}}',
    ],
)
def test_A138_an_object_that_is_neither_plan_nor_answer_is_asked_again(reply: object) -> None:
    """It is nothing that a user could be told, and no call that was made."""
    found = read(reply)
    assert isinstance(found, Invalid) and found.code == "no_steps" and "steps" in found.message


@pytest.mark.parametrize(
    "reply",
    [{"steps": [FETCH]}, {"steps": []}, {"steps": [], "answer": "It is 42."}, {"note": 1}, {"reply": "x"}],
)
def test_A138_a_reply_under_the_key_that_some_servers_need_is_read_as_it_is(reply: dict[str, Any]) -> None:
    """They refuse alternatives at the top of a schema, so that the whole reply comes under one key."""
    assert read({"reply": reply}) == read(reply)


OWN_KEYS = st.sampled_from(
    ["note", "refusal", "text", "name", "args", "result", "answer", "intention", "calls"]
)


@given(
    st.dictionaries(
        OWN_KEYS | st.text(max_size=5), st.none() | st.booleans() | st.text(max_size=5), max_size=3
    )
)
def test_A138_an_object_is_an_answer_by_its_key_alone(data: dict[str, object]) -> None:
    """Whatever else it has."""
    found = read(data)
    assert not isinstance(found, DirectAnswer) or found.text == str(data["answer"]).strip()


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("", "empty"),
        ('{"steps": [{"type": "tool"', "truncated"),
        ('{"steps": [,]}', "malformed"),
        ("[1, 2]", "not_an_object"),
        ('{"steps": []} {"steps": [1]}', "several_objects"),
        ({"steps": "web.fetch"}, "wrong_type"),
        ({"steps": [5]}, "wrong_type"),
        ({"steps": [{"type": "tool"}]}, "no_tool"),
        ({"steps": [{"type": "tool", "name": 5}]}, "wrong_type"),
        ({"steps": [{"type": "toool", "name": "a"}]}, "unknown_type"),
        ({"steps": [{**FETCH, "retries": -1}]}, "wrong_type"),
        ({"steps": [{**FETCH, "retries": "2"}]}, "wrong_type"),
        ({"steps": [{**FETCH, "args": [1]}]}, "arguments"),
        ({"steps": [{**FETCH, "args": "{"}]}, "arguments"),
        ({"steps": [FETCH] * (STEPS_MAX + 1)}, "too_many_steps"),
        ({"steps": [{"type": "elicitation"}]}, "no_question"),
        ({"steps": [{"type": "elicitation", "elicitation": 5}]}, "wrong_type"),
        ({"step": [FETCH]}, "no_steps"),
        ({"action": "web.fetch", "actionObjective": "x"}, "no_steps"),
        ({"answer": ""}, "no_answer"),
        ({"answer": 5}, "no_answer"),
        ({"choices": [{"message": {"content": ""}}]}, "empty"),
        ({"choices": [{}], "steps": "x"}, "wrong_type"),
    ],
)
def test_A140_what_is_meant_as_a_plan_and_is_none_is_asked_again(reply: object, code: str) -> None:
    """Never executed as guessed; the message says where, without a foreign value at length."""
    found = read(reply)
    assert isinstance(found, Invalid) and found.code == code
    assert found.message.isascii() and found.message.isprintable() and len(found.message) <= 400


def test_what_ended_early_is_no_answer() -> None:
    """An answer that was cut off is told as such."""
    for reply in ("It is a long st", '{"port": 80}'):
        assert read(reply, finish="length") == Invalid(
            "truncated", "found an answer that is cut off; expected a whole one"
        )
    assert read("I cannot", finish="refusal").code == "refusal"
    assert isinstance(read({"steps": [FETCH]}, finish="length"), Plan)
    assert read("x" * 2_000_000).code == "too_large"


def test_every_defect_of_a_plan_is_found_with_its_place() -> None:
    """`paor validate` lists them all; a model gets the first and how many more."""
    data: dict[str, Any] = {
        "intention": 5,
        "steps": [{"type": "tool", "retries": -1}, {"type": "x"}, 7, {"name": "a", "args": "{"}],
        "elicitation": 5,
    }
    found = plan_of(data)
    assert isinstance(found, tuple)
    assert [(problem.code, problem.place) for problem in found] == [
        ("wrong_type", "steps[0].retries"),
        ("unknown_type", "steps[1].type"),
        ("wrong_type", "steps[2]"),
        ("arguments", "steps[3].args"),
        ("wrong_type", "elicitation"),
        ("wrong_type", "intention"),
    ]
    assert read(data).message.startswith("`steps[0].retries`: ") and read(data).message.endswith(
        "(and 5 more)"
    )
    assert plan_of(5) and plan_of(5)[0].place == "the plan"  # type: ignore[index]


# -- questions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        {"elicitation": {"message": "Which?", "requestedSchema": SCHEMA}},
        {"steps": [], "elicitation": {"message": "Which?", "schema": SCHEMA}},
        {"elicitation": {"message": "Which?", "schema": json.dumps(SCHEMA)}},
        {"type": "elicitation", "message": "Which?", "requestedSchema": SCHEMA},
        {"type": "elicitation", "elicitation": {"message": "Which?", "requestedSchema": SCHEMA}},
        {"plan": {"steps": []}, "elicitation": {"message": "Which?", "requestedSchema": SCHEMA}},
        {"plan": {"elicitation": {"message": "Which?", "requestedSchema": SCHEMA}}},
    ],
)
def test_A143_a_question_keeps_its_message_and_schema(reply: object) -> None:
    """As text or object; both forms come out."""
    question = read(reply).question
    assert (question.message, question.requested_schema) == ("Which?", SCHEMA)
    wire = question.wire()
    assert wire["requestedSchema"] == SCHEMA and json.loads(wire["schema"]) == SCHEMA
    assert Elicitation.model_validate(wire) == question


@pytest.mark.parametrize(
    "step",
    [
        {"type": "elicitation", "elicitation": {"message": "Which?", "requestedSchema": SCHEMA}},
        {"type": "elicitation", "message": "Which?", "schema": SCHEMA},
        {"type": "elicitation", "args": {"message": "Which?", "schema": json.dumps(SCHEMA)}},
        {"message": "Which?", "requestedSchema": SCHEMA},
    ],
)
def test_A150_a_step_can_ask(step: dict[str, Any]) -> None:
    """In each of the places where models put the question."""
    (found,) = read({"steps": [step]}).steps
    assert found.type == "elicitation"
    assert (found.elicitation.message, found.elicitation.requested_schema) == ("Which?", SCHEMA)


@pytest.mark.parametrize("text", ["{…JSON Schema…}", "[1]", "{", "[" * 100_000])
def test_a_schema_that_is_no_json_stays_as_text(text: str) -> None:
    """The document's own placeholder: any answer fits."""
    question = Elicitation.model_validate({"message": "Provide API key", "schema": text})
    assert (question.requested_schema, question.schema_text) == ({}, text)
    assert not question.is_blank


# -- native calls ----------------------------------------------------------------------------------------------------

CHAT_CALLS = [
    {
        "id": "call_1",
        "type": "function",
        "function": {"name": "web_fetch", "arguments": '{"url": "https://a"}'},
    },
    {"id": "call_2", "type": "function", "function": {"name": "calc_eval", "arguments": '{"text": "1+1"}'}},
]
CHAT = {"role": "assistant", "content": "I look it up.", "tool_calls": CHAT_CALLS}


def test_A149_the_legacy_function_call_is_a_step() -> None:
    """One call, without an id."""
    message = {"role": "assistant", "content": None, "function_call": {"name": "a.b", "arguments": ""}}
    (step,) = read(message, reply_id="r1").steps
    assert (step.name, step.args, step.id) == ("a.b", {}, derived_id("r1", 0, "a.b"))


@pytest.mark.parametrize("arguments", ["{", "[1]", "5", '{"a": 1, "a": 2}', [1], 5])
def test_C18_arguments_that_cannot_be_read_are_an_error_not_none(arguments: object) -> None:
    """The step stays, since the provider wants an output for every call; it carries what is wrong."""
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "a.b", "arguments": arguments}},
        CHAT_CALLS[0],
    ]
    first, second = read({"tool_calls": calls}).steps
    assert (first.id, first.args) == ("c1", {}) and first.fault
    assert second.fault is None


def test_C17_missing_and_repeated_ids_are_derived_from_the_reply() -> None:
    """The same reply gives the same ids; another one others."""
    calls = [
        {"function": {"name": "a.b"}},
        {"id": "x", "function": {"name": "a.b"}},
        {"id": "x", "function": {"name": "c.d"}},
    ]
    ids = [step.id for step in read({"tool_calls": calls}, reply_id="r1").steps]
    assert ids == [step.id for step in read({"tool_calls": calls}, reply_id="r1").steps]
    assert ids[1] == "x" and len(set(ids)) == 3 and all(ids)
    assert ids[0] != read({"tool_calls": calls}, reply_id="r2").steps[0].id


def test_native_calls_win_over_json_in_the_text_and_without_calls_the_text_counts() -> None:
    """The order of reading."""
    plan = json.dumps({"steps": [FETCH]})
    assert [step.name for step in read({**CHAT, "content": plan}).steps] == ["web_fetch", "calc_eval"]
    assert read({"role": "assistant", "content": plan}) == read(plan)
    assert read({"content": [{"type": "text", "text": plan}]}) == read(plan)
    assert read({"tool_calls": None, "steps": [FETCH]}) == read(plan)


def test_calls_without_a_name_or_with_a_strange_one_are_refused() -> None:
    """There is nothing to execute."""
    for function in ({"arguments": "{}"}, {"name": 5}, {"name": "x" * 300}):
        assert isinstance(read({"tool_calls": [{"id": "1", "function": function}]}), Invalid)


def test_other_objects_are_no_native_reply() -> None:
    """A user's JSON may use the same words."""
    others: list[dict[str, Any]] = [
        {"content": "x"},
        {"output": [{"a": 1}]},
        {"content": [{"type": "image"}]},
        {"choices": []},
        {},
    ]
    for data in others:
        assert native_reply(data) is None


# -- results and transcript ------------------------------------------------------------------------------------------


def test_A144_a_result_is_id_name_args_result_error() -> None:
    """The wire names are those five, whatever the result is."""
    result = PlanResult(name="cat.file", args={"path": "file.txt"}, result={"a": [1]}, error="")
    assert list(result.wire()) == ["id", "name", "args", "result", "error"]
    assert PlanResult.model_validate_json(result.wire_json()) == result


def test_A145_a_transcript_message_has_a_role_and_content() -> None:
    """Of a tool also the call that it answers."""
    message = TranscriptMessage.model_validate({"role": "tool", "content": "ok", "tool_call_id": "call_1"})
    assert message.wire() == {"role": "tool", "content": "ok", "name": None, "tool_call_id": "call_1"}
    with pytest.raises(ValidationError):
        TranscriptMessage.model_validate({"role": "nobody", "content": "ok"})


KEYS = (
    *(
        "type",
        "name",
        "args",
        "arguments",
        "steps",
        "plan",
        "elicitation",
        "message",
        "schema",
        "retries",
        "id",
    ),
    *("function", "tool_calls", "content", "output", "choices", "answer", "tool", "noop", "text", "reason"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner
            | st.sampled_from(
                ["tool", "noop", "abort", "elicitation", "function_call", "tool_use", "a.b", "{}"]
            ),
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(JSON)
def test_any_json_is_a_plan_an_answer_or_invalid(data: Any) -> None:
    """Never an exception; and a plan that was read is read again from what it writes."""
    found = read(data)
    assert isinstance(found, Plan | DirectAnswer | Invalid)
    if isinstance(found, Plan):
        assert plan_of(json.loads(found.wire_json())) == found


# -- task plans ------------------------------------------------------------------------------------------------------

TASKS: dict[str, Any] = {
    "overview": "Two parts.",
    "languageUserDetected": "de",
    "userMessage": "Ich beginne.",
    "tasks": [
        {
            "id": "task_2",
            "objective": "write",
            "dependencies": ["task_1"],
            "success_criteria": ["is short"],
            "estimated_complexity": "low",
            "userMessage": "Ich schreibe.",
        },
        {"id": "task_1", "objective": "collect", "dependencies": [], "estimated_complexity": "High"},
        {"objective": "check", "dependencies": None, "successCriteria": ["is right"]},
    ],
}


def read_tasks(data: object) -> TaskPlan | Invalid:
    """Read a task plan given as text or data."""
    return read_task_plan(data if isinstance(data, str) else json.dumps(data), chars_max=100_000)


def test_B23_a_task_plan_has_overview_language_tasks_dependencies_criteria_and_complexity() -> None:
    """Dependencies come first; ids, complexity and criteria have defaults."""
    plan = read_tasks(TASKS)
    assert isinstance(plan, TaskPlan)
    assert (plan.overview, plan.language_user_detected, plan.user_message) == (
        "Two parts.",
        "de",
        "Ich beginne.",
    )
    assert [task.id for task in plan.tasks] == ["task_1", "task_2", "task_3"]
    assert [task.estimated_complexity for task in plan.tasks] == ["high", "low", "medium"]
    assert [task.success_criteria for task in plan.tasks] == [(), ("is short",), ("is right",)]
    assert plan.wire()["tasks"][1]["estimated_complexity"] == "low"
    assert read_tasks(plan.wire()) == plan


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("just do it", "no_json"),
        ({"tasks": []}, "no_tasks"),
        ({"steps": [FETCH]}, "no_tasks"),
        ({"tasks": [{"id": "a"}]}, "wrong_type"),
        ({"tasks": [{"objective": "a", "estimated_complexity": "huge"}]}, "wrong_type"),
        ({"tasks": [{"objective": "a"}] * (TASKS_MAX + 1)}, "too_many_tasks"),
        ({"tasks": [{"id": "a", "objective": "x"}, {"id": "a", "objective": "y"}]}, "duplicate_task"),
        ({"tasks": [{"id": "a", "objective": "x", "dependencies": ["a"]}]}, "dependency"),
        (
            {
                "tasks": [
                    {"id": "a", "objective": "x", "dependencies": ["b"]},
                    {"id": "b", "objective": "x", "dependencies": ["a"]},
                ]
            },
            "dependency",
        ),
    ],
)
def test_a_task_plan_that_cannot_be_worked_on_is_refused(data: object, code: str) -> None:
    """In one line for the next prompt."""
    found = read_tasks(data)
    assert isinstance(found, Invalid) and found.code == code and found.message.isascii()


@given(st.integers(1, 12), st.data())
def test_tasks_are_ordered_after_what_they_need(count: int, data: st.DataObject) -> None:
    """Whatever order a model gives them in; an order that works is kept."""
    names = [f"t{n}" for n in range(count)]
    tasks = [
        {
            "id": name,
            "objective": "x",
            "dependencies": data.draw(st.lists(st.sampled_from(names[:n] or ["-"]), unique=True))
            if n
            else [],
        }
        for n, name in enumerate(names)
    ]
    kept = read_tasks({"tasks": tasks})
    assert isinstance(kept, TaskPlan) and [task.id for task in kept.tasks] == names
    plan = read_tasks({"tasks": data.draw(st.permutations(tasks))})
    assert isinstance(plan, TaskPlan) and sorted(task.id for task in plan.tasks) == sorted(names)
    done: set[str] = set()
    for task in plan.tasks:
        assert done.issuperset(task.dependencies)
        done.add(task.id)
