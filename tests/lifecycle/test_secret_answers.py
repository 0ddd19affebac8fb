"""Answers to what a schema calls secret: they reach the tool, and nothing else ever has them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from paor import (
    Document,
    Engine,
    Event,
    Journal,
    Question,
    Reply,
    Result,
    Tool,
    ToolContext,
    ToolOutput,
    Usage,
    replay,
    tool,
)
from paor.errors import AnswerNeeded, EffectUnknown, InvalidAnswer, ToolError
from paor.events import TransitionTaken
from paor.models import ModelCall

from ..support.inside import ParameterSchema
from ..support.planning import ASK, END, PLAN, STEP
from ..support.worlds import SUCCESS

SECRET = "S3CRET-9f8e7d6c5b4a"
PASSWORD = {"type": "string", "format": "password", "minLength": 12, "maxLength": 40}
KEY = {"type": "object", "properties": {"key": PASSWORD, "user": {"type": "string"}}, "required": ["key"]}
LOGIN = STEP("shop.login", user="ann")


class Shop:
    """What has been logged in, and how the tool says it."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.fails = False

    def enter(self, key: str) -> str:
        """Log in, and repeat the key, as no tool should."""
        self.got.append(key)
        if self.fails:
            raise ToolError(f"the key {key} is worn out")
        return f"in, with the key {key}"


def declared(shop: Shop) -> Tool:
    """Return a tool with a parameter for the secret."""

    @tool("shop.login", effect="idempotent")
    def login(key: SecretStr, user: str = "") -> str:
        """Log in."""
        return shop.enter(key.get_secret_value())

    return login


def asking(shop: Shop) -> Tool:
    """Return a tool that asks for the secret once it has begun."""

    @tool("shop.login", effect="idempotent")
    def login(context: ToolContext, user: str = "") -> str:
        """Log in."""
        if context.resumption is None:
            raise AnswerNeeded("Which key?", KEY, state={"tries": 1})
        assert context.resumption.state == {"tries": 1}
        return shop.enter(context.resumption.content["key"])

    return login


def with_the_mark(call: Any) -> Any:
    """Reply as a planner that hands on what it was told in place of the secret."""
    told = "\n".join(message.text for message in call.messages)
    return json.dumps(PLAN(STEP("shop.login", key=re.findall(r"\(secret [^()]*\)", told)[-1])))


ENDING = [END(), SUCCESS]
WAYS: dict[str, tuple[Any, list[Any]]] = {
    "a step lacks it": (declared, [PLAN(LOGIN), PLAN(LOGIN), *ENDING]),
    "the tool asks": (asking, [PLAN(LOGIN), *ENDING]),
    "a step asks": (
        declared,
        [PLAN(ASK(key=PASSWORD), STEP("shop.login", key="$step[0].output.key")), *ENDING],
    ),
    "the planner asks": (
        declared,
        [{"elicitation": {"message": "Key?", "requestedSchema": KEY}}, with_the_mark, *ENDING],
    ),
}


class Planner:
    """A model that plays a script, from whichever process it is asked, and keeps what it was asked."""

    name = "planner"

    def __init__(self, script: list[Any]) -> None:
        self.script, self.calls = script, list[ModelCall]()

    def ask(self, call: ModelCall) -> Reply:
        self.calls.append(call)
        reply = self.script[call.number]
        return Reply(reply(call) if callable(reply) else json.dumps(reply), Usage(1, 1, 1, cost_micro=0))


class Told:
    """An engine over a journal's file, and everything that it tells."""

    def __init__(self, path: Path, tools: list[Tool], script: list[Any]) -> None:
        self.path, self.texts = path, list[str]()
        self.stop_at = ""
        self.model = Planner(script)
        self.engine = Engine(self.model, tools, Journal(path, "off"), builtins=False, hooks=[self.hear])

    def hear(self, event: Event) -> None:
        self.texts.append(repr(event))
        if isinstance(event, TransitionTaken) and event.trigger == self.stop_at:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.engine.close()

    def told(self, *results: Result) -> str:
        """Return all that was said and written: prompts, events, results, and the journal's files."""
        prompts = [message.text for call in self.model.calls for message in call.messages]
        files = [file.read_bytes().decode("latin-1") for file in self.path.parent.glob(f"{self.path.name}*")]
        return "\n".join([*prompts, *self.texts, *map(repr, results), *files])


@pytest.fixture(name="logged")
def make_logged(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """Return a function that gives all that was logged."""
    with caplog.at_level(logging.DEBUG):
        yield lambda: "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)


def question(result: Result) -> Question:
    assert result.status == "waiting" and result.waiting_for is not None, result
    return result.waiting_for


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_secret_reaches_the_tool_alone(way: str, fails: bool, tmp_path: Path, logged: Any) -> None:
    """However it is asked for, and also where the tool repeats it."""
    made, script = WAYS[way]
    shop = Shop()
    shop.fails = fails
    with Told(tmp_path / "runs.db", [made(shop)], script) as own:
        first = own.engine.run("Log in", mode="planner")
        asked = question(first)
        last = own.engine.resume(first.run_id, answer={"key": SECRET}, question=asked.id)
        assert shop.got == [SECRET] and last.state == "Done", last
        [call] = [call for call in own.engine.journal.calls(last.run_id) if call.tool == "shop.login"]
        assert "[secret redacted]" in call.result
        assert SECRET not in own.told(first, last, own.engine.result(last.run_id)) + logged()
        assert own.engine.journal.verify() == [] and replay(own.engine.journal, last.run_id).identical


PIN = 991234567
PASSED = {
    "type": "object",
    "properties": {
        "key": {"type": "string", "format": "password"},
        "pin": {"type": "integer", "writeOnly": True},
    },
    "required": ["key", "pin"],
}


class Quoting(ToolError):
    """An error that says the secret in its own way."""

    def __str__(self) -> str:
        return f"not {self.args[0]}"


def raised(error: BaseException) -> Any:
    raise error


ECHOES: dict[str, Any] = {
    "beside what has no JSON form": lambda key, pin: {"p": key, "n": pin, "o": object()},
    "a number": lambda key, pin: {"pin": pin, "list": [pin, key]},
    "a name": lambda key, pin: {key: 1, str(pin): 2},
    "bytes": lambda key, pin: f"{key} {pin}".encode(),
    "a document of bytes": lambda key, pin: Document("a.bin", f"{key} {pin}".encode(), "application/x"),
    "a document's name": lambda key, pin: Document(f"{key}-{pin}.txt", "words"),
    "a note": lambda key, pin: ToolOutput(notes=(key, str(pin))),
    "a web page": lambda key, pin: ToolOutput(
        web=(cast("Any", {"url": f"https://example.com/?k={key}", "title": f"{pin}"}),)
    ),
    "an error": lambda key, pin: raised(ValueError(f"{key} {pin}")),
    "an error in its own words": lambda key, pin: raised(Quoting(f"{key} {pin}")),
    "an unknown end": lambda key, pin: raised(EffectUnknown(f"{key} {pin}")),
    "another question": lambda key, pin: raised(AnswerNeeded(f"{key} {pin}?", PASSED, state=[key, pin])),
}


@pytest.mark.parametrize("effect", ["once", "read"])
@pytest.mark.parametrize("echo", ECHOES)
def test_a_secret_is_taken_out_of_whatever_a_tool_comes_to(
    echo: str, effect: Any, tmp_path: Path, logged: Any
) -> None:
    """A text or a number, whatever form the result has, and whether or not it has one."""
    asked: list[Any] = []

    def login(context: ToolContext) -> Any:
        asked.append(context.resumption)
        if context.resumption is None:
            raise AnswerNeeded("Which?", PASSED)
        return ECHOES[echo](context.resumption.content["key"], context.resumption.content["pin"])

    own_tool = Tool("shop.login", "Log in.", {"type": "object", "properties": {}}, login, effect=effect)
    with Told(tmp_path / "runs.db", [own_tool], [PLAN(STEP("shop.login")), *ENDING, *ENDING, *ENDING]) as own:
        first = own.engine.run("Log in", mode="planner")
        last = own.engine.resume(first.run_id, answer={"key": SECRET, "pin": PIN})
        assert asked[1].content == {"key": SECRET, "pin": PIN}
        stored = own.engine.result(last.run_id)
        told = own.told(first, last, stored, *cast("Any", own.engine.journal.calls(last.run_id))) + logged()
        assert SECRET not in told and str(PIN) not in told
        assert own.engine.journal.verify() == []


@pytest.mark.parametrize("way", WAYS)
def test_a_resume_after_a_crash_asks_for_it_again(way: str, tmp_path: Path, logged: Any) -> None:
    """As often as the process ends before the call is made; what else was answered stays answered."""
    made, script = WAYS[way]
    shop, told, asked = Shop(), "", ["first"]
    for attempt in range(3):
        with Told(tmp_path / "runs.db", [made(shop)], script) as own:
            if attempt == 0:
                run_id = own.engine.run("Log in", mode="planner").run_id
            result = own.engine.resume(run_id)
            asked.append(question(result).id)
            own.stop_at = "provide" if attempt < 2 else ""
            given = {"key": SECRET}
            if attempt < 2:
                with pytest.raises(KeyboardInterrupt):
                    own.engine.resume(run_id, answer=given, question=asked[-1])
                assert shop.got == []
            else:
                result = own.engine.resume(run_id, answer=given, question=asked[-1])
                assert (result.state, shop.got) == ("Done", [SECRET])
                assert own.engine.journal.verify() == [] and replay(own.engine.journal, run_id).identical
            told += own.told(result)
    assert len(set(asked)) == 4 and SECRET not in told + logged()


def test_a_once_call_that_had_begun_with_a_secret_that_is_gone_is_in_doubt(tmp_path: Path) -> None:
    """It asked in the middle, and what it has done by then nobody knows; it cannot be called without its secret."""

    @tool("shop.login", effect="once")
    def login(key: SecretStr, context: ToolContext, user: str = "") -> str:
        """Log in."""
        raise AnswerNeeded("Which one?")

    shop, plan = Shop(), [PLAN(LOGIN), PLAN(LOGIN), *ENDING]
    with Told(tmp_path / "runs.db", [login], plan) as own:
        run_id = own.engine.run("Log in", mode="planner").run_id
        asked = question(own.engine.resume(run_id)).id
        assert (
            question(own.engine.resume(run_id, answer={"key": SECRET}, question=asked)).message
            == "Which one?"
        )
    with Told(tmp_path / "runs.db", [login], plan) as own:
        asked = question(own.engine.resume(run_id)).id
        doubt = question(own.engine.resume(run_id, answer="the first", question=asked))
        assert doubt.kind == "in_doubt" and "given to a process that is gone" in doubt.message
        assert own.engine.journal.verify() == [] and shop.got == []


def test_who_does_not_drive_cannot_hand_one_on(tmp_path: Path) -> None:
    """The journal is the only way to another process; and an answer that does not fit is not repeated."""
    shop = Shop()
    with Told(tmp_path / "runs.db", [asking(shop)], [PLAN(LOGIN), *ENDING]) as own:
        first = own.engine.run("Log in", mode="planner")
        asked, rows = question(first), len(own.engine.journal.transitions(first.run_id))
        with pytest.raises(InvalidAnswer, match="give it to a resume"):
            own.engine.answer(first.run_id, question=asked.id, answer={"key": SECRET})
        for wrong in ({"key": SECRET * 9}, {"key": [SECRET]}, {"user": SECRET}, SECRET):
            with pytest.raises(InvalidAnswer) as refused:
                own.engine.resume(first.run_id, answer=wrong, question=asked.id)
            assert SECRET not in str(refused.value)
        assert len(own.engine.journal.transitions(first.run_id)) == rows
        own.engine.answer(first.run_id, question=asked.id, answer={"action": "decline"})


MARK = "(secret 3-0123456789abcdef01234567 key)"


@given(st.sampled_from(["key", "user", "made"]), st.integers(0, 3))
def test_a_mark_fits_a_secret_parameter_and_no_other(name: str, depth: int) -> None:
    """Whatever else its schema asks of the value, which nobody knows."""
    value: Any = MARK
    for _ in range(depth):
        value = [value]
    nested: Any = PASSWORD
    for _ in range(depth):
        nested = {"type": "array", "items": nested}
    schema = ParameterSchema({"properties": {"key": nested, "user": {}}, "additionalProperties": False})
    found = schema.check({name: value})
    assert (found == ()) == (name == "key")
    assert name != "user" or "takes no secret" in found[0].message
