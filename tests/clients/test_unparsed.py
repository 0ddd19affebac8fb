"""Calls and thoughts that a server leaves in the text are taken apart; what only looks like a call is made nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, replay, tool
from paor.models import OfferedTool
from paor.testing import walk

from ..support.effort import at_most_s
from ..support.model_server import ModelServer, Wire, model_server, plain
from .chat_templates import TEMPLATES, Made
from .inside import (
    BEHIND_WORDS,
    ODD,
    ROUNDED,
    DirectAnswer,
    Invalid,
    calls_in,
    read_turn,
    with_thoughts_marked,
)

CHAT = Wire("chat")
SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "page": {"type": "integer"},
        "all": {"type": "boolean"},
        "lines": {"anyOf": [{"type": "array"}, {"type": "null"}]},
        "place": {"enum": ["Leeds", "York"]},
    },
}
OFFERED = [OfferedTool("orders_find", "Find.", SCHEMA), OfferedTool("orders_ship", "Ship.", SCHEMA)]
ONE: Made = [("orders_find", {"order": "O-1"})]
TWO: Made = [
    ("orders_find", {"order": "5", "page": 7, "all": True, "lines": [1, {"a": "b"}], "place": "York"}),
    ("orders_ship", {"order": 'Two lines:\n"quoted", {braces} and [brackets] \N{GRINNING FACE}', "page": -1}),
]
CHANNELS = [family for family in TEMPLATES if family.startswith("gpt-oss")]
each_family = pytest.mark.parametrize("family", TEMPLATES)


def steps_of(text: str, reads: set[str] | None = None) -> Any:
    """Return the calls of a reply as steps, None if it is an answer."""
    found = calls_in(with_thoughts_marked(text), OFFERED, reads or set())
    read: Any = None if found is None else read_turn(found, chars_max=100_000)
    return None if read is None else read.steps


def called(text: str, reads: set[str] | None = None) -> Made | None:
    """Return the calls that are made of a reply, None if it is an answer."""
    steps = steps_of(text, reads)
    if steps is None:
        return None
    assert all(step.fault is None for step in steps), steps
    return [(step.name, step.args) for step in steps]


def fault(text: str, reads: set[str] | None = None) -> str:
    """Return why no call of a reply is made."""
    steps = steps_of(text, reads)
    assert all(step.fault for step in steps)
    return str(steps[0].fault)


def exactly(name: str) -> Any:
    """Hold every call to what is said of it."""
    return lambda key: True


@each_family
@pytest.mark.parametrize("calls", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize(
    "before",
    ["", "<think>\nWhich order?\n</think>\n\n", "Which order?\n</think>\n"],
    ids=["", "thought", "half"],
)
def test_the_calls_of_every_family_are_read(family: str, calls: Made, before: str) -> None:
    """Every argument with the type that its schema has; a thought before them is none of them."""
    if family in CHANNELS and before:
        before = "<|channel|>analysis<|message|>Which order?<|end|>"
        before += "<|start|>assistant" if TEMPLATES[family](calls).startswith(" to=") else ""
    assert called(before + TEMPLATES[family](calls)) == calls


@each_family
def test_a_call_of_a_tool_that_is_not_offered_is_an_answer(family: str) -> None:
    """It may be an answer about such marks."""
    assert steps_of(TEMPLATES[family]([("weather_now", {"order": "O-1"})])) is None


@each_family
def test_a_call_within_an_answer_is_none(family: str) -> None:
    """In the middle of a line, in a fence, in quotation marks; what a document or a tool said is quoted so."""
    text = TEMPLATES[family](ONE)
    for answer in (
        f"The document says: {text}",
        f"An example:\n\n```text\n{text.replace('```', '')}\n```\nThat would find it.",
        f"Write `{text}` to find it.",
    ):
        marked = with_thoughts_marked(answer)
        assert calls_in(marked, OFFERED, {"orders_find"}) is None
        assert read_turn(marked, chars_max=10_000) == DirectAnswer(answer.strip())


MARKED = [
    family
    for family in TEMPLATES
    if family not in ("Llama 3.1, bare", "Llama 3.2 and 4, Python", "xLAM", *CHANNELS)
]


@pytest.mark.parametrize("family", MARKED)
def test_behind_words_only_a_tool_that_reads_is_called(family: str) -> None:
    """What a model quotes at the end of its answer must change nothing."""
    text = f"I will look it up.\n\n{TEMPLATES[family](ONE)}"
    assert called(text, {"orders_find"}) == ONE
    assert fault(text) == BEHIND_WORDS
    mixed = f"I will do both.\n{TEMPLATES[family](TWO)}"
    assert fault(mixed, {"orders_find"}) == BEHIND_WORDS


@pytest.mark.parametrize("family", MARKED)
@pytest.mark.parametrize(
    "behind",
    ["\nThat will find it.", "\n<tool_response>\nIt is in Leeds.\n</tool_response>\nIt is in Leeds."],
)
def test_what_a_model_says_behind_a_call_makes_it_unreadable(family: str, behind: str) -> None:
    """It has not seen what the call brings; it may quote."""
    assert fault(TEMPLATES[family](ONE) + behind, {"orders_find"})


@pytest.mark.parametrize("family", MARKED + CHANNELS)
def test_no_part_of_a_call_is_made(family: str) -> None:
    """Wherever it is cut: what is left is no call, one that is told as unreadable, or, without marks at its end, all of it."""
    text = TEMPLATES[family](TWO)
    for end in range(1, len(text)):
        steps = steps_of(text[:end]) or ()
        made = [(step.name, step.args) for step in steps if step.fault is None]
        assert made in ([], TWO, TWO[:1]), end


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<tool_call>{'name': 'orders_find'}</tool_call>", ODD),
        ('<tool_call>{"name": "orders_find", "arguments": {"order": "O-1"}</tool_call>', ODD),
        ("[TOOL_CALLS]orders_find[ARGS]{order: 1}", "the arguments cannot be read"),
        ("<tool_call>orders_find\n<arg_key>order</arg_key>O-1<arg_value></arg_value></tool_call>", ODD),
        (
            '<tool_call>{"name": "orders_find", "arguments": {"lines": '
            + "[" * 900
            + "]" * 900
            + "}}</tool_call>",
            ODD,
        ),
        ('<tool_call>{"name": "orders_find", "name": "orders_ship", "arguments": {}}</tool_call>', ODD),
        ("<tool_call>orders_find(O-1)</tool_call>", ODD),
        (
            "<function=orders_find><parameter=order>1</parameter><parameter=order>2</parameter></function>",
            "the arguments cannot be read",
        ),
        (f"<tool_call>orders_find{'<arg_key>order</arg_key><arg_value>1</arg_value>' * 2}</tool_call>", ODD),
        ('<tool_call>[orders_find(lines={"a": 1, "a": 2})]</tool_call>', ODD),
    ],
)
def test_a_call_that_cannot_be_read_is_told_to_the_model(text: str, wanted: str) -> None:
    """Nothing in it is repaired."""
    assert fault(text, {"orders_find"}).startswith(wanted)


@each_family
def test_a_number_that_is_read_as_another_changes_nothing(family: str) -> None:
    """An amount of more digits than a float has would be another one; a tool that only reads gets the nearest."""
    text = TEMPLATES[family]([("orders_ship", {"page": 4096.0})]).replace("4096.0", "9007199254740993.0")
    exact: Any = read_turn(
        str(calls_in(with_thoughts_marked(text), OFFERED, set())), chars_max=10_000, known=exactly
    )
    assert [step.fault for step in exact.steps] == [ROUNDED]
    assert called(text, {"orders_ship"}) == [("orders_ship", {"page": 9007199254740992.0})]


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>Hm.</think>It is in Leeds.", "Hm.", "It is in Leeds."),
        ("Hm.\n</think>\n\nIt is in Leeds.", "Hm.\n", "It is in Leeds."),
        ("Hm.</think>It is in Leeds.", "Hm.", "It is in Leeds."),
        ("</think>It is in Leeds.", "", "It is in Leeds."),
        ("[THINK]Hm.[/THINK]It is in Leeds.", "Hm.", "It is in Leeds."),
        ("Hm.[/THINK]It is in Leeds.", "Hm.", "It is in Leeds."),
        ("<thinking>Hm.</thinking>\nIt is in Leeds.", "Hm.", "It is in Leeds."),
        ("<seed:think>Hm.</seed:think>It is in Leeds.", "Hm.", "It is in Leeds."),
        ("\u25c1think\u25b7Hm.\u25c1/think\u25b7It is in Leeds.", "Hm.", "It is in Leeds."),
        ("<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>It is in Leeds.<|END_RESPONSE|>", "Hm.", "It is in Leeds."),
        ("<think>Hm.</think><answer>It is in Leeds.</answer>", "Hm.", "It is in Leeds."),
        ("<think>Hm.</think>\n<think>So.</think>It is in Leeds.", "Hm.So.", "It is in Leeds."),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It is in Leeds.<|return|>",
            "Hm.", "It is in Leeds.",
        ),
        ("<think>Hm. It is in Leeds.", "Hm. It is in Leeds.", ""),
        ("<think>Hm. <answer>It is in Leeds.</answer>", "Hm. <answer>It is in Leeds.</answer>", ""),
    ],
)  # fmt: skip
def test_thoughts_are_no_part_of_an_answer(text: str, thought: str, said: str) -> None:
    """Whatever marks a family has, with or without the beginning; a thought without an end has no answer behind it."""
    marked = with_thoughts_marked(text)
    assert marked == f"<think>{thought}</think>{said}"
    read = read_turn(marked, chars_max=1_000)
    assert read == DirectAnswer(said) if said else isinstance(read, Invalid) and read.code == "empty"


@pytest.mark.parametrize(
    "text",
    [
        "It is in Leeds.",
        "A thought ends with `</think>` there.",
        "Models write:\n```\nHm.</think>Yes.\n```\n",
        '{"action": null, "answer": "It ends with </think>."}',
        '["</think>"]',
        "",
    ],
)
def test_an_answer_about_thoughts_stays_as_it_is(text: str) -> None:
    """Also JSON that holds a mark."""
    assert with_thoughts_marked(text) == text


FRAGMENTS = st.sampled_from(
    [
        *(
            "<tool_call>",
            "</tool_call>",
            "<function=orders_find>",
            "</function>",
            "<parameter=order>",
            "</parameter>",
        ),
        *(
            "[TOOL_CALLS]",
            "[ARGS]",
            "orders_find",
            "orders_ship",
            '{"order": "O-1"}',
            '{"name": "orders_find", ',
            '"arguments": {}}',
        ),
        *(
            "<|channel|>",
            "commentary to=functions.orders_find ",
            "<|message|>",
            "<|start|>assistant",
            "<|end|>",
            "<|call|>",
        ),
        *(
            "<think>",
            "</think>",
            "\n",
            "```",
            "```json\n",
            " ",
            "[",
            "]",
            "(order='O-1')",
            "<arg_key>",
            "</arg_value>",
            "It is.",
        ),
        *(
            '<invoke name="orders_find">',
            "</invoke>",
            "\ud83d",
            "\0",
            ">>>orders_find\n",
            "<|python_tag|>",
            ";",
            "print(",
        ),
    ]
)


@given(pieces=st.lists(FRAGMENTS, max_size=14))
def test_any_text_is_a_turn_or_an_answer(pieces: list[str]) -> None:
    """Never an exception; only tools that are offered are called."""
    found = calls_in(with_thoughts_marked("".join(pieces)), OFFERED, {"orders_find"})
    if found is not None:
        made = json.loads(found)["calls"]
        assert made and all(
            call.get("fault") or call["name"] in ("orders_find", "orders_ship") for call in made
        )


@pytest.mark.parametrize(
    "piece",
    [
        " ",
        "\n",
        "<tool_call>",
        "```\n",
        "{",
        "[TOOL_CALLS]orders_find ",
        "<function=orders_find>",
        "<parameter=a>",
        "<|channel|>",
        "(",
        "-",
        "</think>",
        "<think></think>",
    ],
)
def test_the_longest_replies_are_read_at_once(piece: str) -> None:
    """What is read grows with the text, and no faster: milliseconds, where the fuse is a second of the processor."""
    text = piece * (200_000 // len(piece))
    for begin in (
        "",
        "<tool_call>",
        "orders_find\n",
        "[TOOL_CALLS]",
        "<answer>",
        "```json\n",
        "[orders_find(",
    ):
        with at_most_s(1.0):
            calls_in(with_thoughts_marked(begin + text), OFFERED, set())


# -- whole runs ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """Return a server for the whole module."""
    with model_server() as running:
        yield running


@pytest.mark.parametrize(
    "family", ["Qwen3-Coder", "Mistral", "Llama 3.1, bare", "gpt-oss", "DeepSeek V3.1", "GLM-4.5"]
)
def test_a_run_makes_the_calls_that_its_server_left_in_the_text(server: ModelServer, family: str) -> None:
    """Once; the next request has them as calls with their results; what an unreadable one asks for is not done."""
    made = []

    @tool("orders.ship", effect="once")
    def ship(order: str) -> str:
        """Ship an order."""
        made.append(order)
        return "shipped"

    good = TEMPLATES[family]([("orders_ship", {"order": "O-1"})])
    cut = '<tool_call>{"name": "orders_ship", "arguments": {"order": "O-2"}'
    quoted = f"The letter ends so:\n{good}"
    server.script(
        *(
            plain(CHAT.body(text))
            for text in (cut, quoted if family in MARKED else cut, good, "It is shipped.")
        )
    )
    with Engine(
        CHAT.model(server.url, stream=False), [ship], Journal(":memory:"), Limits(max_steps=8), builtins=False
    ) as engine:
        result = engine.run("Ship O-1", profile="native")
        assert (result.state, result.answer, made) == ("Done", "It is shipped.", ["O-1"])
        assert replay(engine.journal, result.run_id, engine).identical and engine.journal.verify() == []
        assert str(walk(engine.journal, result.run_id).asked[2].reply).startswith(
            '{"text": "", "calls": [{"name": "orders_ship"'
        )
    last = server.requests[-1].body["messages"]
    assert (
        [one["role"] for one in last[-2:]] == ["assistant", "tool"]
        and last[-2]["tool_calls"]
        and last[-1]["content"] == "shipped"
    )
