"""How replies are read: lenient about packaging, strict about meaning, total for every text."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Profile, builtin_tools
from paor.fuzz import texts
from paor.machine import Refinement, Review, Selection
from paor.prompts.parsing.replies import (
    DirectAnswer,
    Invalid,
    Parameters,
    read_answer,
    read_parameters,
    read_refinement,
    read_review,
    read_selection,
)
from paor.prompts.parsing.reply_forms import (
    parameters_form,
)

from ..support.cases import FORBIDDEN_FIELDS, short
from ..support.effort import examples
from ..support.worlds import ANSWER, MET, PARAMETERS, REFINE, SELECT

KNOWN = frozenset({"page", "mode"})
LIMIT = 1_000_000
STRICT = Profile(strict=True)


def selection(
    reply: Any, *, context_chars: int = 2000, profile: Profile | None = None
) -> Selection | DirectAnswer | Invalid:
    """Read Stage 1; a mapping is sent as JSON."""
    return read_selection(
        as_text(reply), chars_max=LIMIT, context_chars=context_chars, profile=profile or Profile()
    )


def parameters(
    reply: Any, known: frozenset[str] = KNOWN, profile: Profile | None = None
) -> Parameters | Invalid:
    """Read Stage 2 for a tool with the parameters *known*."""
    return read_parameters(as_text(reply), known.__contains__, chars_max=LIMIT, profile=profile or Profile())


def as_text(reply: Any) -> str:
    """Return *reply* as it comes from a model."""
    return reply if isinstance(reply, str) else json.dumps(reply)


def code_of(read: object) -> str:
    """Return the code of what was refused, after checking that its message can stand in a prompt."""
    assert isinstance(read, Invalid), read
    assert read.message.isascii() and read.message.isprintable() and 0 < len(read.message) <= 1000
    return read.code


# -- Stage 1 -------------------------------------------------------------------------------------------------------


ACTIONS: dict[str, tuple[Any, str]] = {
    "a string": ("web.search", "web.search"),
    "a string with spaces around": ("  web.search \n", "web.search"),
    "an alias": ("web_search", "web_search"),
    "an object": ({"method": "web", "name": "search"}, "web.search"),
    "an object with more keys": ({"method": "web", "name": "search", "why": 1}, "web.search"),
    "the compound name twice": ({"method": "web.search", "name": "search"}, "web.search"),
    "the compound name as name": ({"method": "web", "name": "web.search"}, "web.search"),
}


@pytest.mark.parametrize("case", ACTIONS)
def test_D1_both_forms_of_an_action_are_one_name(case: str) -> None:
    """Document 002's object makes 003's other keys optional."""
    action, tool = ACTIONS[case]
    read = selection({"action": action, "actionObjective": "o"})
    assert isinstance(read, Selection) and read.tool == tool
    if isinstance(action, dict):
        bare = selection({"action": action})
        assert isinstance(bare, Selection) and (bare.tool, bare.objective, bare.fields) == (tool, "", None)


NO_ACTIONS: dict[str, tuple[Any, str]] = {
    "a number": (7, "action_name"),
    "no method": (".search", "action_name"),
    "one word": ("search", "action_name"),
    "a sentence": ("search the web", "action_name"),
    "a list": (["web.search"], "several_actions"),
    "an object without name": ({"method": "web"}, "wrong_type"),
    "an empty object": ({}, "wrong_type"),
    "a merged method": ({"method": "web.search", "name": "deep"}, "merged_method"),
}


@pytest.mark.parametrize("case", NO_ACTIONS)
def test_A103_C28_what_is_not_one_action_is_invalid(case: str) -> None:
    """What could be read in two ways is never executed as guessed."""
    action, code = NO_ACTIONS[case]
    assert code_of(selection({"action": action, "actionObjective": "o"})) == code


def test_dots_in_the_place_of_an_answer_are_none() -> None:
    """The prompt shows them there, and a small model copies them; a run then ended Done with three dots."""
    judged = read_refinement('{"decision": "stop", "reason": "done", "answer": "..."}', chars_max=LIMIT)
    assert isinstance(judged, Refinement) and judged.answer is None
    reviewed = read_review('{"status": "success", "answer": " … "}', chars_max=LIMIT)
    assert isinstance(reviewed, Review) and reviewed.answer is None
    assert code_of(read_answer('{"answer": "..."}', chars_max=LIMIT)) == "no_answer"
    said = read_refinement('{"decision": "stop", "reason": "done", "answer": "7681..."}', chars_max=LIMIT)
    assert isinstance(said, Refinement) and said.answer == "7681..."


def test_a_direct_answer_needs_a_null_action_and_a_text() -> None:
    """Document 000: stop with a final answer; it may stand alone, but not beside what belongs to an action."""
    assert selection(ANSWER(" It is the 3rd. ")) == DirectAnswer("It is the 3rd.")
    assert selection({"answer": " It is the 3rd. "}) == DirectAnswer("It is the 3rd.")
    assert code_of(selection({"answer": "It is the 3rd."}, profile=STRICT)) == "no_action"
    for nothing in ("  ", "...", "…"):
        assert code_of(selection(ANSWER(nothing))) == "no_action", (
            "a small model copies the dots in an answer's place"
        )
    for reply in (
        ANSWER(""),
        {"action": None},
        {"answer": "..."},
        {"answer": "x", "actionObjective": "to read"},
        {"action": None, "answer": 3},
        {},
    ):
        assert code_of(selection(reply)) == "no_action"


def test_a_refinement_may_name_the_next_action_or_answer_instead_of_a_decision() -> None:
    """An action goes on and is a hint, an answer stops, and no reason is made up; a decision is what counts, with its reason."""

    def refined(**reply: Any) -> Any:
        return read_refinement(as_text(reply), chars_max=LIMIT)

    on = refined(action="notes.read", hint="page 2")
    assert (on.decision, on.hint) == ("continue", "Take the action notes.read. page 2")
    assert refined(action="notes.read", hint="...").hint == "Take the action notes.read."
    assert (refined(answer="the 3rd").decision, refined(answer="the 3rd").answer) == ("stop", "the 3rd")
    for none in (None, "null", "none", ""):
        assert refined(action=none, answer="the 3rd").decision == "stop"
    assert isinstance(refined(action="null"), Invalid)
    assert (on.reason, refined(answer="the 3rd").reason) == ("", "")
    for bare in ({"action": "notes.read"}, {"answer": "the 3rd"}):  # the protocol to the letter
        assert isinstance(read_refinement(as_text(bare), chars_max=LIMIT, strict=True), Invalid)
    long = refined(decision="stop", reason="known\n" * 60)
    assert len(long.reason) == 300 and "\n" not in long.reason
    said = refined(decision="stop", reason="known", action="notes.read", answer="the 3rd")
    assert (said.decision, said.reason, said.hint) == ("stop", "known", None)
    assert refined(action="notes.read", answer="page 1 says the 3rd").decision == "continue"
    for nothing in ({}, {"action": None}, {"action": 3}, {"hint": "read on"}, {"action": "a", "hint": 3}):
        assert isinstance(refined(**nothing), Invalid), nothing


def test_D10_a_schema_without_fields_is_an_empty_hint() -> None:
    """`{}` says no more than an empty list; whether Stage 2 is asked is for the tool's schema to say (D10 as amended)."""
    schemas: list[dict[str, Any]] = [{}, {"fields": []}]
    for schema in schemas:
        read = selection(SELECT(parametersSchema=schema))
        assert isinstance(read, Selection) and (read.fields, read.arguments) == ((), None)


@pytest.mark.parametrize("said", ["null", "none", "None", ""])
def test_no_action_in_words_beside_an_answer_is_an_answer(said: str) -> None:
    """Small models write null as a text; without an answer it is an action of that name, which there is not."""
    assert selection({"action": said, "answer": "the 3rd"}) == DirectAnswer("the 3rd")
    assert code_of(selection({"action": said, "actionObjective": "o"})) == "action_name"
    assert code_of(selection({"action": said, "answer": "the 3rd"}, profile=STRICT)) == "action_form"


def test_an_action_as_the_catalog_shows_it_is_its_name() -> None:
    """With its parameters in brackets, which are dropped; the strict profile keeps them, and the catalog has no such name."""
    for said in ("notes.read(page)", "notes.read(page, mode)\n", "notes.read()"):
        read = selection(SELECT(said))
        assert isinstance(read, Selection) and read.tool == "notes.read"
        read = selection(SELECT(said), profile=STRICT)
        assert isinstance(read, Selection) and read.tool == said.strip()


def test_an_objective_of_blanks_is_none_and_an_empty_one_is_refused() -> None:
    """As the wire schema has it: at least one character."""
    read = selection(SELECT(actionObjective="  "))
    assert isinstance(read, Selection) and read.objective == ""
    assert code_of(selection(SELECT(actionObjective=""))) == "objective"


@pytest.mark.parametrize("key", ["reply", "answer"])
def test_only_the_one_key_around_a_reply_is_taken_away(key: str) -> None:
    """Servers that take no alternatives get the reply under ``reply``; beside other keys it is a key like any other."""
    wrapped = {key: SELECT()}
    read = selection(wrapped)
    assert isinstance(read, Selection) if key == "reply" else code_of(read) == "no_action"
    assert code_of(selection(wrapped | {"action": None})) == "no_action"
    assert parameters({"reply": PARAMETERS(page=1)}) == Parameters({"page": 1})
    read_back = read_refinement(as_text({"reply": REFINE("stop")}), chars_max=LIMIT)
    assert isinstance(read_back, Refinement)


def test_null_means_absent() -> None:
    """Models write null for what they leave out."""
    keys = (
        "learnings",
        "requiredInputDocuments",
        "requiredConnection",
        "parametersContext",
        "parametersSchema",
    )
    read = selection(SELECT() | dict.fromkeys(keys))
    assert read == Selection(tool="notes.read", objective="use notes.read")


# -- Stage 2 -------------------------------------------------------------------------------------------------------


def test_A117_A119_only_parameters_of_the_tool_are_taken() -> None:
    """Other names are dropped and told; the strict profile lists all of them and refuses."""
    assert parameters(PARAMETERS(page=1, mode="x")) == Parameters({"page": 1, "mode": "x"})
    assert parameters(PARAMETERS(page=1, a=1, b=2)) == Parameters({"page": 1}, ("a", "b"))
    found = parameters(PARAMETERS(page=1, a=1, b=2), profile=STRICT)
    assert isinstance(found, Invalid) and "'a', 'b'" in found.message
    assert parameters(PARAMETERS()) == Parameters({}), "the tool's schema says what is missing"


def test_forbidden_names_come_first_among_what_is_dropped() -> None:
    """A parameter that the tool has is taken, unless code sets it from what Stage 1 has chosen."""
    given = PARAMETERS(a=1, history=2, documentList=["x"], page=3)
    assert parameters(given) == Parameters({"page": 3}, ("history", "documentList", "a"))
    known = KNOWN | {"history", "documentList"}
    assert parameters(given, known) == Parameters({"history": 2, "page": 3}, ("documentList", "a"))


def test_many_wrong_names_make_a_short_message() -> None:
    """A model that sends a thousand keys gets one line back."""
    values = {f"name_{n}" * 20: n for n in range(1000)}
    found = parameters(PARAMETERS(**values), profile=STRICT)
    assert code_of(found) == "unknown_parameter"
    assert isinstance(found, Invalid) and found.message.endswith("and 990 more")


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ({"page": 1}, "no_wrapper"),
        ({}, "no_wrapper"),
        ({"parameters": None}, "wrong_type"),
        ({"parameters": [1]}, "wrong_type"),
        ({"schema": "parameters_v2", "parameters": {"page": 1}}, "schema_name"),
        ({"schema": 2, "parameters": {"page": 1}}, "wrong_type"),
        ("page 1", "no_json"),
        ('{"parameters": {"page": 1}', "truncated"),
        ('{"parameters": {"page": 1, "page": 2}}', "duplicate_key"),
        ('{"parameters": {"page": NaN}}', "not_finite"),
    ],
    ids=short,
)
def test_A051_A117_near_misses_of_stage_2_are_named(reply: Any, code: str) -> None:
    """Each has its own code in the journal."""
    assert code_of(parameters(reply)) == code


# -- an answer without tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"answer": " the 3rd "}', "the 3rd"),
        ('{"reply": {"answer": "the 3rd"}}', "the 3rd"),
        ('{"answer": "the 3rd", "action": "notes.read"}', "the 3rd"),
        (" It is the 3rd. ", "It is the 3rd."),
    ],
    ids=short,
)
def test_an_answer_is_its_key_or_the_words_alone(text: str, read: str) -> None:
    """When the tools are withheld nothing but an answer is asked for: words without JSON are one."""
    assert read_answer(text, chars_max=LIMIT) == DirectAnswer(read)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("{}", "no_answer"),
        ('{"answer": ""}', "no_answer"),
        ('{"answer": 3}', "no_answer"),
        ('{"answer": {"text": "x"}}', "no_answer"),
        ('{"action": "notes.read", "actionObjective": "o"}', "no_answer"),
        ('{"answer": "the 3', "truncated"),
    ],
    ids=short,
)
def test_what_is_no_answer_is_asked_again(text: str, code: str) -> None:
    """Half of a JSON object is not taken for words."""
    assert code_of(read_answer(text, chars_max=LIMIT)) == code


# -- judgements ----------------------------------------------------------------------------------------------------


def test_A068_a_refinement_has_all_its_parts() -> None:
    """Decision and reason; hint, answer, criteria and score when given; null means absent."""
    reply = REFINE("continue", hint="h", answer="a", criteria=[MET("c") | {"evidence": "e"}], score=0.25)
    read = read_refinement(as_text(reply), chars_max=LIMIT)
    assert isinstance(read, Refinement)
    assert (read.hint, read.answer, read.score_micro) == ("h", "a", 250_000)
    assert (read.criteria[0].criterion, read.criteria[0].met, read.criteria[0].evidence) == ("c", True, "e")
    empty = read_refinement(
        as_text(REFINE("stop", hint=None, answer=None, criteria=None, score=None)), chars_max=LIMIT
    )
    assert isinstance(empty, Refinement) and (empty.hint, empty.criteria, empty.score_micro) == (
        None,
        (),
        None,
    )


@pytest.mark.parametrize(
    "reply",
    [
        {"decision": "maybe", "reason": "x"},
        {"decision": "stop"},
        {"decision": "stop", "reason": ""},
        {"decision": "stop", "reason": "x", "score": "high"},
        {"decision": "stop", "reason": "x", "score": 1e10},
        {"decision": "stop", "reason": "x", "criteria": [{"criterion": "c", "met": "yes"}]},
        {"decision": "stop", "reason": "x", "answer": ["a"]},
    ],
    ids=short,
)
def test_A068_a_refinement_is_strict(reply: Any) -> None:
    """A judgement that is only nearly one is asked again."""
    assert code_of(read_refinement(as_text(reply), chars_max=LIMIT)) == "wrong_type"


@pytest.mark.parametrize(
    "reply",
    [{"status": "ok"}, {"improvements": []}, {"status": "retry", "improvements": "more"}],
    ids=short,
)
def test_A040_a_review_is_strict(reply: Any) -> None:
    """Success, retry or failed, with a list of improvements."""
    assert code_of(read_review(as_text(reply), chars_max=LIMIT)) == "wrong_type"


def test_foreign_values_are_not_echoed_at_length() -> None:
    """What a model sent goes into its next prompt only in part, and as ASCII."""
    for reply, profile in (
        (SELECT("é" * 5000), None),
        (SELECT(requiredInputDocuments=["é" * 5000]), STRICT),
        (SELECT() | {"action": {"method": "é.x" * 66, "name": "y"}}, None),
    ):
        found = selection(reply, profile=profile)
        assert code_of(found)
        assert isinstance(found, Invalid) and len(found.message) < 250


# -- any text ------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(200))
@given(text=texts(), context_chars=st.integers(0, 50))
def test_every_text_is_read_or_refused(text: str, context_chars: int) -> None:
    """One value or one Invalid, the same each time, never an exception; what is read can be written again."""
    one, other = (read_selection(text, chars_max=LIMIT, context_chars=context_chars) for _ in range(2))
    assert one == other
    if isinstance(one, Selection):
        assert len(one.context) <= context_chars
        assert Selection.model_validate_json(one.wire_json()) == one
    for known in (frozenset[str](), KNOWN):
        read = parameters(text, known)
        if isinstance(read, Parameters):
            assert not {name.lower() for name in read.values} & FORBIDDEN_FIELDS
            assert read.values.keys() <= known
        else:
            code_of(read)
    answer = read_answer(text, chars_max=LIMIT)
    assert isinstance(answer, DirectAnswer) or code_of(answer)
    for judgement in (read_refinement(text, chars_max=LIMIT), read_review(text, chars_max=LIMIT)):
        if isinstance(judgement, Invalid):
            code_of(judgement)
        else:
            assert type(judgement).model_validate_json(judgement.wire_json()) == judgement


@given(text=texts())
def test_a_reply_beyond_its_limit_is_refused_unread(text: str) -> None:
    """Whatever it holds."""
    limit = max(0, len(text) - 1)
    if text:
        for read in (
            read_selection(text, chars_max=limit, context_chars=10),
            read_parameters(text, KNOWN.__contains__, chars_max=limit),
            read_answer(text, chars_max=limit),
            read_refinement(text, chars_max=limit),
            read_review(text, chars_max=limit),
        ):
            assert code_of(read) == "too_large"


# -- the schemas that a model can be held to -----------------------------------------------------------------------


def test_a_tool_may_have_a_parameter_of_any_name_that_code_does_not_set() -> None:
    """Stage 2 asks for it, and for all of them that are required."""
    own = {"history": {"type": "string"}, "documentList": {"type": "array"}}
    schema = parameters_form({"properties": own, "required": [*own]}).schema["properties"]["parameters"]
    assert (list(schema["properties"]), schema["required"]) == (["history"], ["history"])


@pytest.mark.parametrize("tool", builtin_tools(), ids=lambda tool: tool.name)
def test_A118_stage_2_is_held_to_the_tools_schema_without_the_forbidden_names(tool: Any) -> None:
    """Documents and connections are neither asked for nor required."""
    schema = parameters_form(tool.parameters).schema
    text = json.dumps(schema).lower()
    assert not [name for name in FORBIDDEN_FIELDS if f'"{name}"' in text]
    assert jsonschema_rs.validator_for(schema).is_valid({"schema": "parameters_v1", "parameters": {}})
    assert tool.parameters == tool.spec().parameters, "the tool's own schema is not changed"


def test_a_tool_without_properties_has_a_schema_too() -> None:
    """Empty, or made of references only."""
    for own in ({}, {"type": "object"}, {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}):
        assert parameters_form(own).schema["properties"]["parameters"]["type"] == "object"
