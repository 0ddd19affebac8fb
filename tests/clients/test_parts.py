"""The pure parts of the model clients: they take whatever a server sends and never raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from paor import Reply, Usage
from paor.errors import ModelUnavailable, UsageError

from ..support.model_server import WIRES, Wire, event
from .canned import canned
from .inside import (
    FAULT_CODES,
    WRAPPER,
    AttemptFault,
    ChatWire,
    Interface,
    Invalid,
    MessagesWire,
    Needs,
    Offer,
    ParsedReply,
    ResponsesWire,
    prices_of,
    read_refinement,
    read_review,
    read_selection,
    read_task_plan,
    refinement_form,
    request_label,
    retry_after_s,
    review_form,
    selection_form,
    status_fault,
    strict_schema,
    task_plan_form,
    told_fault,
    words_of,
    wrapped,
)

INTERFACES: list[Interface] = [ChatWire(), ResponsesWire(), MessagesWire()]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
KEYS = st.sampled_from(
    [
        *("type", "id", "error", "message", "code", "param", "choices", "delta", "content", "text"),
        *("finish_reason", "usage", "status", "output", "role", "tool_calls", "function", "index"),
        *("arguments", "name", "stop_reason", "input", "refusal", "reasoning", "content_block"),
        *("item", "response", "incomplete_details", "reason", "prompt_tokens"),
        *("prompt_tokens_details", "input_tokens", "output_tokens", "partial_json", "details"),
        *("error_code", "function_call"),
    ]
)
WORDS = st.sampled_from(
    [
        *("error", "text_delta", "output_text", "message", "function_call", "tool_use", "refusal"),
        *("text", "completed", "incomplete", "failed", "message_start", "content_block_start"),
        *("content_block_delta", "message_delta", "message_stop", "response.completed"),
        *("response.output_text.delta", "response.output_item.done", "stop", "length"),
        *("max_tokens", "pause_turn", "overloaded_error"),
    ]
)
BODIES = st.recursive(
    WORDS | st.none() | st.integers(-1, 600) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)
each_interface = pytest.mark.parametrize("interface", INTERFACES, ids=lambda one: type(one).__name__)
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: str(wire.name))


def came(result: ParsedReply | AttemptFault | Reply | ModelUnavailable) -> None:
    """Check that what an exchange came to can be journaled."""
    if isinstance(result, ModelUnavailable):
        assert result.code in FAULT_CODES and result.code != "unexpected", result.message
    elif isinstance(result, AttemptFault):
        assert result.code in FAULT_CODES and "\n" not in result.message
    else:
        assert isinstance(result.text, str)
    assert result.usage is None or all(
        0 <= value < 2**44 for value in (result.usage.tokens_in, result.usage.tokens_out)
    )


# -- whatever comes ----------------------------------------------------------------------------------------------


@pytest.mark.whole
@each_wire
@given(events=st.lists(st.tuples(WORDS, st.dictionaries(KEYS, BODIES, max_size=5)), max_size=6))
def test_any_stream_of_events_comes_to_something(wire: Wire, events: list[tuple[str, Any]]) -> None:
    """In whatever order; every piece of text is a text."""
    model = canned(wire.name)
    came(model.ask([event({"type": name} | data, name) for name, data in events]))
    assert all(isinstance(piece, str) for piece in model.shown)


@each_wire
@given(
    data=st.lists(st.binary(max_size=30), max_size=6),
    kind=st.sampled_from(["", "text/event-stream", "application/json"]),
)
def test_any_bytes_come_to_a_fault(wire: Wire, data: list[bytes], kind: str) -> None:
    """What is no response is one nowhere."""
    result = canned(wire.name).ask(data, kind)
    came(result)
    assert isinstance(result, ModelUnavailable)


@given(wire=st.sampled_from(WIRES), text=st.text(max_size=60), data=st.data())
def test_however_a_stream_is_cut_into_pieces_it_is_heard_alike(
    wire: Wire, text: str, data: st.DataObject
) -> None:
    """Also within a letter; what is shown is what was said."""
    whole = b"".join(wire.events(text, size=3))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    model = canned(wire.name)
    result = model.ask([whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)])
    assert isinstance(result, Reply) and result.text == text == "".join(model.shown)


@given(wire=st.sampled_from(WIRES), data=st.data())
def test_no_part_of_a_stream_is_taken_for_the_whole(wire: Wire, data: st.DataObject) -> None:
    """Until the reason of its end has come."""
    events = wire.events("A text of some length", size=3)
    whole = b"".join(events)
    last = {"chat": 3, "responses": 1, "messages": 2}[wire.name]
    said = len(b"".join(events[:-last]))
    result = canned(wire.name).ask([whole[: data.draw(st.integers(0, said))]])
    assert isinstance(result, ModelUnavailable) and result.code == "cut_stream"


@each_wire
@pytest.mark.parametrize("line", [b"data: 1\n", b"data: 1\r\n", b": hi\r"])
def test_an_event_of_very_many_lines_is_not_read(wire: Wire, line: bytes) -> None:
    """The SDK of Anthropic copies an event with each of its lines: a quarter of a million would take minutes."""
    result = canned(wire.name).ask([line * 65_536] * 4)
    assert isinstance(result, ModelUnavailable) and result.code == "bad_body"
    assert "an event has more than" in result.message


@given(body=BODIES, status=st.integers(300, 599), after=st.text(max_size=30), now=st.floats(0, 4e9))
def test_any_error_has_a_code(body: Any, status: int, after: str, now: float) -> None:
    """Whatever its body and headers are."""
    came(status_fault(status, body, {"retry-after": after, "x-should-retry": after}, now))
    came(told_fault(body))
    assert len(words_of(body)) <= 500


@given(text=st.text(max_size=400), now=st.floats(-1e9, 1e11))
@example("Fri, 31 Dec 9999 23:59:59 -9999", 0.0)
@example("1e400", 0.0)
@example("0" * 399, 0.0)
def test_any_retry_after_is_read_or_passed_over(text: str, now: float) -> None:
    """Never negative, never endless."""
    wait = retry_after_s({"retry-after": text}, now)
    assert wait is None or 0 <= wait <= 1e9


# -- schemas -----------------------------------------------------------------------------------------------------

NEEDS = [Needs(document=document, connection=one) for document in (False, True) for one in (False, True)]
OFFER = Offer(
    tuple((need, (f"do.it{number}",)) for number, need in enumerate(NEEDS)), True, ("label",), learnings=True
)
FORMS = {
    "selection": selection_form(OFFER, stage="two_stage", strict=False),
    "refinement": refinement_form(("do.it",)),
    "review": review_form(),
    "task_plan": task_plan_form(),
}
"""Forms of replies of a run that has something of everything."""


@pytest.mark.parametrize("kind", FORMS)
def test_strict_schemas_say_the_same(kind: Any) -> None:
    """Every object closed, everything required; a reply of nulls is what it was without them."""
    schema = FORMS[kind].schema
    strict = strict_schema(schema, optional="null", limits=True)
    kept = strict_schema(schema, optional="keep", limits=False)
    assert strict is not None and kept is not None
    for node in _objects(strict):
        assert node["additionalProperties"] is False and node["required"] == list(node["properties"])
    for node in _objects(kept):
        assert node["additionalProperties"] is False
    replies: dict[str, Any] = {
        "selection": {"action": None, "answer": "known"},
        "refinement": {"decision": "stop", "reason": "r", "answer": "y"},
        "review": {"status": "retry", "improvements": ["z"]},
        "task_plan": {
            "overview": "o",
            "tasks": [{"id": "task_1", "objective": "b", "dependencies": [], "success_criteria": []}],
        },
    }
    reply = replies[kind]
    one = schema if kind == "task_plan" else _alternative(schema, reply)
    filled = dict.fromkeys(one["properties"]) | reply
    if kind == "task_plan":
        item = schema["properties"]["tasks"]["items"]["properties"]
        filled["tasks"] = [dict.fromkeys(item) | reply["tasks"][0]]
    Draft202012Validator.check_schema(strict)
    Draft202012Validator(strict).validate(filled if one is schema else {WRAPPER: filled})
    Draft202012Validator(kept).validate(reply if one is schema else {WRAPPER: reply})
    assert _read(kind, filled) == _read(kind, reply) and not isinstance(_read(kind, filled), Invalid)


def _alternative(schema: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    """Return the one alternative that *reply* fits."""
    (one,) = (part for part in schema["anyOf"] if Draft202012Validator(part).is_valid(reply))
    return dict(one)


def _read(kind: str, reply: dict[str, Any]) -> object:
    text = json.dumps(reply)
    if kind == "selection":
        return read_selection(text, chars_max=10_000, context_chars=100)
    if kind == "task_plan":
        return read_task_plan(text, chars_max=10_000)
    read: Any = {"refinement": read_refinement, "review": read_review}[kind]
    return read(text, chars_max=10_000)


def _objects(node: Any) -> list[dict[str, Any]]:
    found = [node] if isinstance(node, dict) and node.get("type") == "object" else []
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return found + [item for part in parts for item in _objects(part)]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "array"},
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
        {"oneOf": [{"type": "string"}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"$ref": "http://example.org/x"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}},
    ],
)
def test_schemas_that_cannot_be_closed_are_not(schema: dict[str, Any]) -> None:
    """Closing them would change what they mean."""
    assert strict_schema(schema, optional="null", limits=True) is None


def test_references_are_replaced_by_what_they_name() -> None:
    """Providers take none; what refers to itself cannot be sent, nor what grows without bound."""
    part = {"type": "object", "properties": {"$defs": {"type": "string"}}, "required": ["$defs"]}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/Pa~1rt", "description": "one"},
            "b": {"items": {"$ref": "#/properties/a"}},
        },
        "required": ["a", "b"],
        "$defs": {"Pa/rt": part},
    }
    schema["properties"]["b"]["type"] = "array"
    strict = strict_schema(schema, optional="null", limits=True)
    assert strict is not None and "$ref" not in json.dumps(strict)
    one = part | {"additionalProperties": False, "description": "one"}
    assert strict["properties"] == {"a": one, "b": {"type": "array", "items": one}}
    assert strict["properties"]["a"]["properties"] == {"$defs": {"type": "string"}}
    doubled = {
        f"d{n}": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/d{n - 1}"}, "b": {"$ref": f"#/$defs/d{n - 1}"}},
        }
        for n in range(1, 40)
    }
    hostile = {"$defs": {"d0": {"type": "string"}} | doubled, "$ref": "#/$defs/d39"}
    assert strict_schema(hostile, optional="null", limits=True) is None


def test_the_references_of_alternatives_go_along_when_these_go_under_one_key() -> None:
    """Or they name nothing, and a server refuses the schema or checks nothing."""
    tree = {
        "type": "object",
        "properties": {"inner": {"$ref": "#/$defs/tree"}},
        "additionalProperties": False,
    }
    form = review_form((), {"$ref": "#/$defs/tree", "$defs": {"tree": tree}}).schema
    fits = Draft202012Validator(wrapped(form)).is_valid
    assert fits({WRAPPER: {"status": "success", "output": {"inner": {"inner": {}}}}})
    assert not fits({WRAPPER: {"status": "success", "output": {"inner": {"inner": 3}}}})


# -- prices ------------------------------------------------------------------------------------------------------


@given(
    tokens=st.tuples(*[st.integers(0, 10**9)] * 4), prices=st.tuples(*[st.decimals(0, 1000, places=4)] * 4)
)
def test_costs_are_rounded_up_and_exact_before(tokens: tuple[int, ...], prices: tuple[Any, ...]) -> None:
    """Against plain fractions; what the cache had is part of what was read."""
    from fractions import Fraction

    read, cached, written, out = tokens
    entry = dict(zip(("in", "cached", "cache_write", "out"), map(str, prices), strict=True))
    price = prices_of(json.dumps({"models": {"m": entry}}), "list").price("m")
    assert price is not None
    cached, written = min(cached, read), min(written, read - min(cached, read))
    exact = sum(
        Fraction(str(one)) * count
        for one, count in zip(prices, (read - cached - written, cached, written, out), strict=True)
    )
    cost = price.of(Usage(1, read, out, tokens_cached=cached, tokens_cache_write=written))
    assert cost - 1 < exact <= cost


@pytest.mark.parametrize(
    "text, words",
    [
        ("nonsense", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "expected"),
        ('{"models": {"m": 5}}', "m: expected an object"),
        ('{"models": {"m": {"in": "1", "out": "1", "per": 5}}}', "unknown key 'per'"),
        ('{"models": {"m": {"in": "1"}}}', "both in and out"),
        ('{"models": {"m": {"in": "-1", "out": "1"}}}', "m.in: expected a price"),
        ('{"models": {"m": {"in": "x", "out": "1"}}}', "expected a price"),
        ('{"models": {"m": {"in": true, "out": "1"}}}', "expected a price"),
        ('{"models": {"m": {"in": NaN, "out": "1"}}}', "expected a price"),
        ('{"models": {"m": {"in": "0.0000001", "out": "1"}}}', "finer than a millionth"),
        ('{"models": {"m": {"in": "1", "out": "1", "above": 5}}}', "expected tokens"),
        ('{"models": {"m": {"in": "1", "out": "1", "above": {"tokens": 5, "in": "1"}}}}', "both in and out"),
    ],
)
def test_a_price_list_with_a_defect_is_refused(text: str, words: str) -> None:
    """The first one is named with its place."""
    with pytest.raises(UsageError, match=words):
        prices_of(text, "list")


# -- what is in rows -----------------------------------------------------------------------------------------


@given(value=st.text() | st.integers() | st.none())
def test_a_request_id_is_a_label_or_nothing(value: object) -> None:
    """No text of a server is in a hashed row."""
    label = request_label(value)
    assert label is None or (label == value and label.isascii() and " " not in label and len(label) <= 80)
