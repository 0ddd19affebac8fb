"""However a server divides and numbers the pieces of a streamed reply, the reply is the same, and no call is lost or made twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from paor import Reply
from paor.errors import ModelUnavailable

from ..support.model_server import WIRES, Wire, event
from .canned import canned

DONE = b"data: [DONE]\n\n"
TEXTS = st.text('aé\N{GRINNING FACE}\N{OLD PERSIAN SIGN A}"\\{}[] \n', max_size=12)
ARGUMENTS = st.dictionaries(st.sampled_from(["page", "text", "of"]), st.integers(0, 9) | TEXTS, max_size=3)
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: str(wire.name))


class Said(Struct, frozen=True):
    """What a model says in one reply."""

    thought: str
    text: str
    calls: list[tuple[str, dict[str, Any]]]

    @property
    def ids(self) -> list[str]:
        """One for each call."""
        return [f"call_{number}" for number in range(len(self.calls))]


@st.composite
def replies(draw: st.DrawFn) -> Said:
    """Draw a reply; no two of its calls are the same."""
    calls = st.tuples(st.sampled_from(["notes_read", "notes_find"]), ARGUMENTS)
    made = draw(st.lists(calls, max_size=3, unique_by=lambda call: json.dumps(call, sort_keys=True)))
    return Said(draw(TEXTS), draw(TEXTS), made)


def cut(draw: st.DrawFn, text: str, *, least: int = 0) -> list[str]:
    """Return *text* in pieces, some of which may be empty or end within a character of two UTF-16 units."""
    units = text.encode("utf-16-le")
    length = len(units) // 2
    cuts = sorted(draw(st.lists(st.integers(0, length), min_size=least, max_size=3)))
    edges = zip([0, *cuts], [*cuts, length], strict=True)
    return [units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass") for start, end in edges]


def merged(draw: st.DrawFn, runs: list[list[Any]]) -> list[Any]:
    """Return the items of *runs* in one row, each run in its order."""
    left, found = [list(run) for run in runs if run], []
    while left:
        run = left[draw(st.integers(0, len(left) - 1))]
        found.append(run.pop(0))
        left = [one for one in left if one]
    return found


# -- Chat Completions ------------------------------------------------------------------------------------------------


class ChatHabits(Struct, frozen=True):
    """How a server gives calls: which pieces have a number, an id, a name; how arguments come."""

    numbers: str
    ids: str
    names: str
    arguments: str


def can_be_told_apart(habits: ChatHabits) -> bool:
    """Return whether anybody could say which piece is of which call."""
    if habits.ids == "other":
        return habits.numbers == "all" and habits.names == "first"
    if habits.names == "each":
        return (habits.ids == "each" or habits.numbers == "all") and habits.arguments != "placeholder"
    return True


CHAT_HABITS = st.builds(
    ChatHabits,
    st.sampled_from(["all", "first", "none", "zero"]),
    st.sampled_from(["first", "each", "other", "none"]),
    st.sampled_from(["first", "each"]),
    st.sampled_from(["text", "object", "placeholder"]),
).filter(can_be_told_apart)


def call_deltas(draw: st.DrawFn, said: Said, habits: ChatHabits) -> list[dict[str, Any]]:
    """Return the calls of a reply as a server with these habits sends them."""
    runs = []
    for number, (name, value) in enumerate(said.calls):
        pieces: list[Any] = cut(draw, json.dumps(value))
        if habits.arguments == "object":
            pieces = [value]
        elif habits.arguments == "placeholder":
            pieces.insert(0, "{}")
        run = []
        for place, piece in enumerate(pieces):
            part: dict[str, Any] = {"function": {"arguments": piece}}
            if habits.numbers == "zero" or habits.numbers in ("all", *["first"] * (place == 0)):
                part["index"] = 0 if habits.numbers == "zero" else number
            if habits.ids in ("each", *["first", "other"] * (place == 0)):
                part["id"] = said.ids[number]
            elif habits.ids == "other":
                part["id"] = f"other_{number}_{place}"
            if place == 0 or habits.names == "each":
                part["function"]["name"] = name
            run.append(part)
        runs.append(run)
    in_order = [part for run in runs for part in run]
    parts = merged(draw, runs) if habits.numbers == "all" else in_order
    together = bool(parts) and draw(st.booleans())
    return [{"tool_calls": parts}] if together else [{"tool_calls": [part]} for part in parts]


@st.composite
def chat_streams(draw: st.DrawFn) -> tuple[Said, list[bytes], bool]:
    """Draw a reply, its stream, and whether the server gives ids to its calls."""
    said, habits = draw(replies()), draw(CHAT_HABITS)
    name = draw(st.sampled_from(["reasoning_content", "reasoning"]))
    thoughts = [{name: piece} for piece in cut(draw, said.thought)]
    texts = [{"content": piece} for piece in cut(draw, said.text)]
    if len(said.calls) == 1 and draw(st.integers(0, 4)) == 0:
        habits = ChatHabits("none", "none", "first", "text")
        called, value = said.calls[0]
        calls: list[dict[str, Any]] = [
            {"function_call": ({} if place else {"name": called}) | {"arguments": piece}}
            for place, piece in enumerate(cut(draw, json.dumps(value)))
        ]
    else:
        calls = call_deltas(draw, said, habits)
    runs = [thoughts, texts, calls]
    deltas = merged(draw, runs) if draw(st.booleans()) else [one for run in runs for one in run]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    extras: tuple[dict[str, Any], ...] = (
        {"choices": []},
        {"choices": None},
        {"choices": [{"index": 1, "delta": {"content": "Another choice."}, "finish_reason": "stop"}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    )
    for extra in extras:
        if draw(st.booleans()):
            chunks.insert(draw(st.integers(bool(chunks), len(chunks))), extra)
    chunks.insert(0, {"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
    finish = draw(st.sampled_from(["stop", "tool_calls" if said.calls else "stop", None]))
    if finish is not None:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    done = [DONE] if finish is None or draw(st.booleans()) else []
    return said, [*map(event, chunks), *done], habits.ids != "none"


def chat_body(said: Said) -> dict[str, Any]:
    """Return the same reply whole."""
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "reasoning_content": said.thought}
    if said.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(value)}}
            for id, (name, value) in zip(said.ids, said.calls, strict=True)
        ]
    return {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


# -- Responses -------------------------------------------------------------------------------------------------------


def items_of(said: Said) -> list[dict[str, Any]]:
    """Return the output of a response that says it."""
    thought = {"type": "summary_text", "text": said.thought}
    part = {"type": "output_text", "text": said.text, "annotations": []}
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{id}",
            "call_id": id,
            "name": name,
            "arguments": json.dumps(value),
        }
        for id, (name, value) in zip(said.ids, said.calls, strict=True)
    ]
    return [
        {"type": "reasoning", "id": "rs_1", "summary": [thought]},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]},
        *calls,
    ]


def response(output: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a whole response."""
    return {"id": "r", "object": "response", "status": "completed", "output": output}


@st.composite
def responses_streams(draw: st.DrawFn) -> tuple[Said, list[bytes], bool]:
    """Draw a reply and its stream: items begun, added to and ended, of which a server may leave out what another event says."""
    said = draw(replies())
    items, at_the_end = items_of(said), draw(st.booleans())
    numbered, ends = draw(st.booleans()), at_the_end or draw(st.booleans())
    runs: list[list[dict[str, Any]]] = []
    for number, item in enumerate(items):
        place = {"output_index": number} if numbered else {}
        empty: dict[str, dict[str, Any]] = {"message": {"content": []}, "function_call": {"arguments": ""}}
        begun = item | empty.get(item["type"], {})
        run: list[dict[str, Any]] = [{"type": "response.output_item.added", "item": begun} | place]
        if item["type"] == "message":
            kind, text = "response.output_text.delta", said.text
        else:
            kind, text = "response.function_call_arguments.delta", item.get("arguments", "")
        run += [{"type": kind, "delta": piece} | place for piece in (cut(draw, text) if text else [])]
        if ends and (not at_the_end or draw(st.booleans())):
            run.append({"type": "response.output_item.done", "item": item} | place)
        runs.append(run)
    events = merged(draw, runs) if numbered else [one for run in runs for one in run]
    last = {"type": "response.completed", "response": response(items if at_the_end else [])}
    return said, [event(one, one["type"]) for one in (*events, last)], True


# -- Messages ----------------------------------------------------------------------------------------------------------


def blocks_of(said: Said) -> list[dict[str, Any]]:
    """Return the content of a message that says it."""
    calls = [
        {"type": "tool_use", "id": id, "name": name, "input": value}
        for id, (name, value) in zip(said.ids, said.calls, strict=True)
    ]
    return [
        {"type": "thinking", "thinking": said.thought, "signature": "c2ln"},
        {"type": "text", "text": said.text},
        *calls,
    ]


@st.composite
def messages_streams(draw: st.DrawFn) -> tuple[Said, list[bytes], bool]:
    """Draw a reply and its stream: blocks that are numbered, or all alike, or not at all."""
    said = draw(replies())
    numbers = draw(st.sampled_from(["all", "zero", "none"]))
    runs: list[list[dict[str, Any]]] = []
    for number, block in enumerate(blocks_of(said)):
        place = {} if numbers == "none" else {"index": number if numbers == "all" else 0}
        kind = block["type"]
        begun: dict[str, Any]
        deltas: list[dict[str, Any]]
        if kind == "thinking":
            begun, deltas = (
                {"thinking": "", "signature": ""},
                [
                    *(
                        {"type": "thinking_delta", "thinking": piece}
                        for piece in cut(draw, block["thinking"])
                    ),
                    {"type": "signature_delta", "signature": block["signature"]},
                ],
            )
        elif kind == "text":
            begun = {"text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in cut(draw, block["text"])]
        elif draw(st.booleans()):
            begun = {"input": {}}
            pieces: list[Any] = (
                cut(draw, json.dumps(block["input"])) if draw(st.booleans()) else [block["input"]]
            )
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        else:
            begun, deltas = {}, []  # it begins whole
        run = [{"type": "content_block_start", "content_block": block | begun}]
        run += [{"type": "content_block_delta", "delta": delta} for delta in deltas]
        run.append({"type": "content_block_stop"})
        runs.append([one | place for one in run])
    events = merged(draw, runs) if numbers == "all" else [one for run in runs for one in run]
    events.insert(0, {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9}}})
    stop = {"stop_reason": "tool_use" if said.calls else "end_turn"}
    ends = draw(st.sampled_from(["both", "delta", "stop"]))
    events += [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 2}}] * (ends != "stop")
    events += [{"type": "message_stop"}] * (ends != "delta")
    return said, [event(one, one["type"]) for one in events], True


def message(said: Said) -> dict[str, Any]:
    """Return the same reply whole."""
    content = [block for block in blocks_of(said) if block["type"] != "text" or block["text"]]
    return {"id": "m", "type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn"}


# -- the property ------------------------------------------------------------------------------------------------------

STREAMS = {"chat": chat_streams(), "responses": responses_streams(), "messages": messages_streams()}
BODIES: dict[str, Any] = {
    "chat": chat_body,
    "responses": lambda said: response(items_of(said)),
    "messages": message,
}


def read(reply: Reply | ModelUnavailable, *, ids: bool) -> tuple[str, list[Any], list[str]]:
    """Return what a reply says, what it calls, and the ids of its calls."""
    assert isinstance(reply, Reply), reply
    if reply.finish != "tool_calls":
        assert reply.finish == "stop"
        return reply.text, [], []
    data = json.loads(reply.text)
    calls = [(call["name"], call["arguments"]) for call in data["calls"]]
    return data["text"], calls, [call["id"] for call in data["calls"]] if ids else []


def check(wire: Wire, data: st.DataObject) -> None:
    """Draw a reply and its stream, and hear it."""
    said, events, has_ids = data.draw(STREAMS[wire.name])
    whole = b"".join(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    model = canned(wire.name)
    reply = model.ask(pieces, request="turn")
    assert read(reply, ids=has_ids) == (said.text, said.calls, said.ids if has_ids else [])
    assert "".join(model.shown) == said.text
    assert isinstance(reply, Reply)
    kept = json.dumps(reply.parts, ensure_ascii=False)
    assert json.dumps(said.thought, ensure_ascii=False) in kept or not said.thought, "its thoughts are kept"
    body = json.dumps(BODIES[wire.name](said)).encode()
    assert read(model.ask([body], "application/json", request="turn"), ids=True) == (
        said.text,
        said.calls,
        said.ids,
    )


@each_wire
@settings(max_examples=40)
@given(data=st.data())
def test_any_division_of_a_stream_gives_the_same_reply(wire: Wire, data: st.DataObject) -> None:
    """Also within a character, with numbers that repeat or are missing, and with an end that says no reason."""
    check(wire, data)


@pytest.mark.whole
@each_wire
@settings(max_examples=10_000, derandomize=False)
@given(data=st.data())
def test_ten_thousand_divisions_of_a_stream_give_the_same_reply(wire: Wire, data: st.DataObject) -> None:
    """The same, as often as chance needs."""
    check(wire, data)


# -- what no division explains -----------------------------------------------------------------------------------------


def part(arguments: object, **more: Any) -> dict[str, Any]:
    """Return a piece of a call of Chat Completions."""
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"function": name | {"arguments": arguments}} | more


CALL = {"name": "notes_read"}
AGAIN = part('{"page": 1}', id="a", index=0, **CALL)


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        ([{"tool_calls": [AGAIN]}, {"tool_calls": [AGAIN]}], [{"page": 1}]),
        ([{"tool_calls": [part('{"page": 1}', index=0, **CALL)]}] * 2, [{"page": 1}]),
        ([{"tool_calls": [AGAIN], "function_call": AGAIN["function"]}], [{"page": 1}]),
        ([{"tool_calls": AGAIN}], [{"page": 1}]),
        ([{"tool_calls": [part([1], index=0, **CALL)]}], [[1]]),
        ([{"tool_calls": [part('{"page"', index=0, **CALL)]}, {"tool_calls": [part(": 1}")]}], [{"page": 1}]),
        ([{"tool_calls": [{"index": 0, "id": "a"}]}, {"tool_calls": [part("{}", index=0, **CALL)]}], [{}]),
        (
            [
                {"tool_calls": [part(piece, id=id, index=0, **CALL)]}
                for id, page in (("a", 1), ("b", 2))
                for piece in ('{"page"', f": {page}}}")
            ],
            [{"page": 1}, {"page": 2}],
        ),
    ],
    ids=[
        "sent again",
        "again without id",
        "in both forms",
        "no list",
        "a list of arguments",
        "number once",
        "id first",
        "all in every piece",
    ],
)
def test_a_call_that_comes_oddly_is_made_once(deltas: list[Any], calls: list[Any]) -> None:
    """Arguments that are no object stay what they are, so that the model is told."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    _, made, _ = read(canned("chat").ask([*map(event, chunks), DONE], request="turn"), ids=False)
    assert made == [("notes_read", given) for given in calls]


def test_a_block_that_begins_again_is_one_call() -> None:
    """Proxies repeat what they are not sure to have sent."""
    block: dict[str, Any] = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "a", "input": {}} | CALL,
    }
    delta: dict[str, Any] = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"page": 1}'},
    }
    events = [block, block, delta, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}]
    reply = canned("messages").ask([event(one, str(one["type"])) for one in events], request="turn")
    assert read(reply, ids=True)[1:] == ([("notes_read", {"page": 1})], ["a"])


@each_wire
def test_an_end_that_nothing_came_before_is_none(wire: Wire) -> None:
    """It is asked again."""
    reply = canned(wire.name).ask([event({"type": "message_stop"}, "message_stop"), DONE])
    assert isinstance(reply, ModelUnavailable) and reply.code == "cut_stream"


@settings(max_examples=60)
@given(data=st.data())
def test_numbered_items_of_a_message_are_kept_whole_however_they_are_divided(data: st.DataObject) -> None:
    """As gateways stream the thoughts of other providers: the signature comes last, and ends its item."""
    wanted = [
        {"type": "thinking", "index": number, "thinking": text, "signature": f"sig{place}"}
        for place, (number, text) in enumerate(
            data.draw(st.lists(st.tuples(st.integers(0, 1), st.text(min_size=1)), min_size=1, max_size=3))
        )
    ]
    deltas = []
    for item in wanted:
        same = {"type": "thinking", "index": item["index"]}
        deltas += [
            same | {"thinking": piece} for piece in data.draw(st.composite(cut)(str(item["thinking"])))
        ]
        deltas.append(same | {"thinking": "", "signature": item["signature"]})
    chunks: list[Any] = [
        {"choices": [{"index": 0, "delta": {"content": "", "thinking_blocks": [delta]}}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}]})
    reply = canned("chat").ask([*map(event, chunks), DONE], request="turn")
    assert isinstance(reply, Reply) and reply.parts[0]["thinking_blocks"] == wanted
