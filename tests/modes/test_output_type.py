"""A run with an `output_type`: its answer is a value of that type, asked for again where it does not fit, and the same in a replay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter, field_validator

from paor import Engine, Limits, ModelCall, OfflineModel, Result, ScriptedModel, Task, replay
from paor.errors import HostFunctionError, InvalidOutput, KeyConflict, UsageError
from paor.events import RunEnded
from paor.fuzz import arguments
from paor.testing import plan, step

from ..support.worlds import ANSWER, REFINE, REVIEW, engine
from ..support.worlds import READ as READ_PAGE


class Part(BaseModel):
    """One line of an invoice; refers to itself, so its schema has references."""

    name: str
    cents: int = Field(ge=0)
    parts: list[Part] = []


class Invoice(BaseModel):
    """What the answer is to be."""

    number: str
    state: Literal["open", "paid"]
    parts: list[Part]


GOOD = {
    "number": "R-1",
    "state": "paid",
    "parts": [{"name": "wheel", "cents": 5, "parts": [{"name": "hub", "cents": 2}]}],
}
PAID = Invoice.model_validate(GOOD)
BAD = GOOD | {"parts": [{"name": "wheel", "cents": -5}]}


def said(output: Any) -> dict[str, Any]:
    """Return a completion review with an output."""
    return {"status": "success", "output": output}


class Watched(ScriptedModel):
    """A script that keeps what it was asked."""

    def __init__(self, replies: Sequence[Any]) -> None:
        super().__init__(replies)
        self.calls: list[ModelCall] = []

    def ask(self, call: ModelCall) -> Any:
        """Keep the call, and answer."""
        self.calls.append(call)
        return super().ask(call)


def shown(call: ModelCall) -> str:
    """Return the text of a prompt."""
    return "\n".join(message.text for message in call.messages)


def _run(own: Engine, objective: str, **options: Any) -> Result:
    return own.run(objective, **options)


def _arun(own: Engine, objective: str, **options: Any) -> Result:
    return asyncio.run(own.arun(objective, **options))


def _stream(own: Engine, objective: str, **options: Any) -> Result:
    *_, last = own.stream(objective, **options, on_close="stop")
    assert isinstance(last, RunEnded)
    return last.result


def _astream(own: Engine, objective: str, **options: Any) -> Result:
    async def drain() -> Result:
        events = [event async for event in own.astream(objective, **options, on_close="stop")]
        assert isinstance(events[-1], RunEnded)
        return events[-1].result

    return asyncio.run(drain())


CALLS = pytest.mark.parametrize("start", [_run, _arun, _stream, _astream])


@CALLS
def test_the_output_is_a_value_of_the_type(tmp_path: Path, start: Callable[..., Result]) -> None:
    """From every way to start; as JSON in the answer, in the journal and in ``wire``; a replay derives the same."""
    with engine(tmp_path, [ANSWER("R-1 is paid."), said(GOOD)]) as own:
        result = start(own, "Is R-1 paid?", output_type=Invoice)
        assert (result.state, result.reason, result.output) == ("Done", "model_stop", PAID)
        assert Invoice.model_validate_json(result.answer) == PAID
        assert result.wire()["output"] == GOOD
        looked = own.result(result.run_id)
        assert (looked.output, looked.answer) == (GOOD, result.answer)
        assert own.result(result.run_id, Invoice).output == PAID
        assert own.resume(result.run_id, output_type=Invoice).output == PAID
        assert asyncio.run(own.aresume(result.run_id, output_type=Invoice)).output == PAID
        assert asyncio.run(own.aresult(result.run_id, Invoice)).output == PAID
        assert replay(own.journal, result.run_id).identical


def test_what_does_not_fit_is_asked_for_again_and_the_model_is_told_what(tmp_path: Path) -> None:
    """Within the review's retries; the row and the next prompt name the place."""
    model = Watched([ANSWER(), said(BAD), said(GOOD)])
    with engine(tmp_path, []) as own:
        result = own.run("Is R-1 paid?", output_type=Invoice, model=model)
        assert result.output == PAID
        rows = own.journal.transitions(result.run_id)
        assert [row.trigger for row in rows] == ["answer", "reassess", "finish"]
        first, again = (shown(call) for call in model.calls[1:])
        assert "output.parts[0].cents" in again and "output.parts[0].cents" not in first
        assert replay(own.journal, result.run_id).identical


@pytest.mark.parametrize("reviews", [[said(BAD), said(BAD)], [REVIEW("success", answer="Paid.")] * 2])
def test_a_model_that_gives_none_fails(tmp_path: Path, reviews: Sequence[Any]) -> None:
    """After the retries; an answer in words is no output."""
    with engine(tmp_path, [ANSWER(), *reviews]) as own:
        result = own.run("Is R-1 paid?", output_type=Invoice)
        assert (result.state, result.reason, result.output) == ("Failed", "review_failed", None)


def test_a_review_that_fails_or_asks_for_more_needs_no_output(tmp_path: Path) -> None:
    """The end is what it says."""
    replies = [ANSWER(), REVIEW("retry", "look again"), ANSWER(), REVIEW("failed", answer="It is not known.")]
    with engine(tmp_path, replies, limits=Limits(completion_review="model")) as own:
        result = own.run("Is R-1 paid?", output_type=Invoice)
        assert (result.state, result.answer, result.output) == ("Failed", "It is not known.", None)


@pytest.mark.parametrize(
    ("options", "replies"),
    [
        ({"mode": "batch"}, [plan(step("notes.read", page=1)), said(GOOD)]),
        ({"mode": "planner"}, [plan(step("notes.read", page=1)), plan(), said(GOOD)]),
        ({"profile": "native"}, ["R-1 is paid.", said(GOOD)]),
        ({"stage": "single"}, [ANSWER(), said(GOOD)]),
        ({}, [*READ_PAGE(1), REFINE("stop", answer="Paid."), said(GOOD)]),
    ],
)
@pytest.mark.filterwarnings("ignore:mode='batch'")
def test_in_every_mode_and_profile(tmp_path: Path, options: dict[str, Any], replies: Sequence[Any]) -> None:
    """The completion review is the one way to Done."""
    with engine(tmp_path, replies) as own:
        result = own.run("Is R-1 paid?", output_type=Invoice, **options)
        assert (result.state, result.output) == ("Done", PAID)
        assert replay(own.journal, result.run_id).identical


def test_what_a_server_is_held_to_and_what_a_model_is_shown(tmp_path: Path) -> None:
    """The reply's schema takes the type's values and no others, with references to itself; the prompt has the type's schema."""
    model = Watched([ANSWER(), said(GOOD)])
    with engine(tmp_path, []) as own:
        own.run("Is R-1 paid?", output_type=Invoice, model=model)
    asked = model.calls[-1]
    assert asked.kind == "review" and asked.schema is not None
    fits = Draft202012Validator(asked.schema).is_valid
    assert fits({"output": GOOD}) and not fits({"output": BAD}) and not fits(said(GOOD))
    assert '"cents":{"minimum":0,"type":"integer"}' in shown(asked) and '"title":"Cents"' not in shown(asked)


def test_a_model_that_judges_gives_the_output_beside_its_judgement(tmp_path: Path) -> None:
    """With criteria, under ``completion_review="model"``, or where a limit stopped the run: only with a success."""
    model = Watched([ANSWER(), said(GOOD)])
    with engine(tmp_path, []) as own:
        result = own.run("Is R-1 paid?", ["names the state"], output_type=Invoice, model=model)
        assert result.output == PAID and replay(own.journal, result.run_id).identical
    asked = model.calls[-1]
    assert asked.kind == "review" and asked.schema is not None
    fits = Draft202012Validator(asked.schema).is_valid
    deep = {"name": "a", "cents": 1, "parts": [{"name": "b", "cents": -1}]}
    assert fits(said(GOOD)) and not fits(said(BAD)) and not fits(said(GOOD | {"parts": [deep]}))
    assert not fits({"status": "success"}) and not fits(REVIEW("success", answer="It is paid."))
    assert fits({"status": "retry", "improvements": ["look"]}) and fits({"status": "failed", "answer": "no"})
    assert '"cents":{"minimum":0,"type":"integer"}' in shown(asked)


def test_a_run_without_a_type_is_shown_nothing_of_it(tmp_path: Path) -> None:
    """Not a byte: the heading goes with its placeholder."""
    model = Watched([ANSWER(), REVIEW("success", answer="Paid.")])
    with engine(tmp_path, []) as own:
        result = own.run("Is R-1 paid?", limits=Limits(completion_review="model"), model=model)
    assert (result.answer, result.output) == ("Paid.", None)
    assert "## Output" not in shown(model.calls[-1])


@pytest.mark.parametrize("reply", [{"output": GOOD}, GOOD, said(GOOD), {"reply": {"output": GOOD}}])
def test_forms_of_an_output(tmp_path: Path, reply: dict[str, Any]) -> None:
    """By itself, as models without a grammar write it, and as a review."""
    with engine(tmp_path, [ANSWER(), reply]) as own:
        assert own.run("Is R-1 paid?", output_type=Invoice).output == PAID


def test_a_changed_template_is_named_for_the_runs_that_use_it(tmp_path: Path) -> None:
    """The one that asks for outputs is a part of runs with a type."""
    with engine(tmp_path, [ANSWER(), said(GOOD), ANSWER()]) as own:
        typed, plain = own.run("Is R-1 paid?", output_type=Invoice), own.run("Is R-1 paid?")
    text = "Give it.\n\n=== user ===\n\n{{KEY:OUTPUT_SCHEMA}}\n\n{{KEY:REPLY}}"
    with engine(tmp_path, [], prompts={"output": text}) as other:
        runs = (typed.run_id, plain.run_id)
        named = {run: [item.part for item in other.changes(run) if item.relevant] for run in runs}
        assert named == {runs[0]: ["prompt.output"], runs[1]: []}
        divergence = replay(other.journal, typed.run_id, other).divergences[0]
        assert (divergence.seq, divergence.field) == (1, "request.prompt")


def test_null_for_what_may_be_left_out(tmp_path: Path) -> None:
    """Strict servers want every name given, at every depth; the value has the default of its type."""
    wheel = {"name": "wheel", "cents": 5, "parts": None}
    with engine(tmp_path, [ANSWER(), said(GOOD | {"parts": [wheel]})]) as own:
        result = own.run("Is R-1 paid?", output_type=Invoice)
        assert result.output is not None and result.output.parts == [Part(name="wheel", cents=5)]


VALUE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "size": {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["name", "size"],
    "additionalProperties": False,
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "size", "tags"]), inner)
    ),
    max_leaves=5,
)


def without_nulls(value: Any) -> Any:
    """Return what a strict server means by a value."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(output=arguments(VALUE) | ANYTHING)
def test_exactly_what_the_schema_allows_is_taken(
    output: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever a model gives; and what is taken comes back as it was given."""
    folder = tmp_path_factory.mktemp("any")
    with engine(folder, [ANSWER(), said(output)], limits=Limits(review_retries=0)) as own:
        result = own.run("Describe it", output_type=VALUE)
        fits = Draft202012Validator(VALUE).is_valid
        if not fits(output) and fits(without_nulls(output)):
            output = without_nulls(output)  # null for what may be left out
        taken = fits(output)
        assert (result.state == "Done") is taken
        assert result.output == (output if taken else None)
        assert replay(own.journal, result.run_id).identical


def test_null_can_be_the_output(tmp_path: Path) -> None:
    """A type may allow it; a reply that leaves it out means it."""
    schema = {"anyOf": [{"type": "null"}, {"type": "integer"}]}
    with engine(tmp_path, [ANSWER(), said(None), ANSWER(), {"status": "success"}]) as own:
        first = own.run("Count", output_type=schema)
        assert (first.state, first.answer, first.output) == ("Done", "null", None)
        assert own.run("Count", output_type=schema).state == "Done"


class Even(BaseModel):
    """A rule that JSON Schema cannot say."""

    number: int

    @field_validator("number")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("is odd")
        return value


ODD, EVEN = said({"number": 3}), said({"number": 4})


@CALLS
def test_what_a_validator_refuses_is_asked_for_again_in_its_words(
    tmp_path: Path, start: Callable[..., Result]
) -> None:
    """The words are journaled with the reply that they are about; a replay has them from there, and needs no type."""
    model = Watched([ANSWER(), ODD, EVEN])
    with engine(tmp_path, []) as own:
        result = start(own, "Give an even number", output_type=Even, model=model)
        assert result.output == Even(number=4)
        first, again = (shown(call) for call in model.calls[1:])
        assert "number: Value error, is odd" in again and "is odd" not in first
        rows = own.journal.transitions(result.run_id)
        assert [row.trigger for row in rows] == ["answer", "reassess", "finish"]
        assert ["refused" in row.outcome for row in rows] == [False, True, False]
        words = own.journal.payload(rows[1].run, rows[1].outcome["refused"]["n"]).body
        assert words == "number: Value error, is odd"
        assert replay(own.journal, result.run_id).identical and not own.journal.verify()


def test_at_the_limit_of_its_retries_the_run_fails_whatever_fits_the_schema(tmp_path: Path) -> None:
    """As for what the schema refuses."""
    with engine(tmp_path, [ANSWER(), ODD, ODD, EVEN]) as own:
        result = own.run("Give an even number", output_type=Even)
        assert (result.state, result.reason, result.output) == ("Failed", "review_failed", None)
        assert replay(own.journal, result.run_id).identical


def test_a_process_that_goes_on_names_the_type_again(tmp_path: Path) -> None:
    """Its validators judge what the model gives from then on; without it the schema alone does."""
    for output_type, reason in ((Even, "review_failed"), (None, "model_stop")):
        (folder := tmp_path / reason).mkdir()
        with engine(folder, [ANSWER(), ODD, ODD]) as own:
            events = own.stream("Give an even number", output_type=Even, on_close="stop")
            left = next(event.run_id for event in events if event.kind == "transition")
            events.close()
            assert own.result(left).state == "Reviewing"
            *_, last = own.resume_stream(left, output_type=output_type, on_close="stop")
            assert isinstance(last, RunEnded) and last.result.reason == reason


class Broken(BaseModel):
    """A validator with a bug."""

    number: int

    @field_validator("number")
    @classmethod
    def _broken(cls, value: int) -> int:
        raise KeyError("rate")


def test_a_validator_that_breaks_stops_the_run_where_it_is(tmp_path: Path) -> None:
    """What it raises is no refusal: nothing was decided on the reply, and a resume with the mended type asks again."""
    with engine(tmp_path, [ANSWER(), ODD, EVEN]) as own:
        with pytest.raises(HostFunctionError, match="a validator of its output_type raised KeyError: 'rate'"):
            own.run("Give a number", output_type=Broken)
        (row,) = own.journal.runs()
        assert (row.status, row.state) == ("running", "Reviewing")


class Talkative(BaseModel):
    """A validator that says much, a key among it, in text that no file can hold."""

    number: int

    @field_validator("number")
    @classmethod
    def _talks(cls, value: int) -> int:
        raise ValueError(f"{SECRET}\0{'x' * 5000}")


SECRET = "sk-live-0123456789abcdef0123456789abcdef"


def test_the_words_are_bounded_and_hold_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They go into a prompt and into the journal."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    model = Watched([ANSWER(), ODD, ODD])
    with engine(tmp_path, []) as own:
        result = own.run("Give a number", output_type=Talkative, model=model)
        rows = own.journal.transitions(result.run_id)
        words = own.journal.payload(rows[1].run, rows[1].outcome["refused"]["n"]).body
        assert isinstance(words, str) and len(words) <= 1001 and SECRET not in words
        assert words.startswith("number: Value error, [secret redacted]") and SECRET not in shown(
            model.calls[-1]
        )
        assert replay(own.journal, result.run_id).identical


class Raising:
    """A type whose own schema raises."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise ZeroDivisionError("nothing will do\nat all")


class Speechless(Exception):
    """An error that has no words."""

    def __str__(self) -> str:
        raise ZeroDivisionError


class Nameless(type):
    """The type of a type that has no name."""

    def __repr__(cls) -> str:
        raise Speechless


class Unspeakable(metaclass=Nameless):
    """A type of which nothing can be said."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise Speechless


def test_a_validator_of_the_type_is_checked_when_the_value_is_made(tmp_path: Path) -> None:
    """Of a run that was driven without it: that stays Done, and its answer can be had as data; another type is refused alike."""
    schema = TypeAdapter(Even).json_schema()
    with engine(tmp_path, [ANSWER(), ODD]) as own:
        own.run("Give an even number", output_type=schema)
        (row,) = own.journal.runs()
        with pytest.raises(InvalidOutput, match=r"number: Value error, is odd; Engine.result") as raised:
            own.result(row.run_id, Even)
        assert row.run_id in str(raised.value) and row.status == "done"
        assert own.result(row.run_id).output == {"number": 3}
        with pytest.raises(InvalidOutput, match="Invoice"):
            own.result(row.run_id, Invoice)
        text: Any = "Invoice"  # of which pydantic would make a type
        with pytest.raises(UsageError, match=r"output_type 'Invoice' cannot be used .it is a text."):
            own.result(row.run_id, text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"output_type": Callable[[], int]}, "has no JSON Schema"),
        ({"output_type": lambda: 1}, "it is a function"),
        ({"output_type": Annotated[str, Field(pattern="(")]}, "has no JSON Schema"),
        ({"output_type": Raising}, "has no JSON Schema .nothing will do.;"),
        ({"output_type": "Invoice"}, "output_type 'Invoice' has no JSON Schema .it is a text."),
        ({"output_type": Unspeakable}, "output_type Nameless has no JSON Schema .Speechless.;"),
        ({"output_type": {"type": "nothing"}}, "output_type: "),
        ({"output_type": {"$ref": "http://example.org/x.json"}}, "output_type: "),
        ({"output_type": Invoice, "final_format": "md"}, "final_format formats a text"),
        ({"output_type": Invoice, "model": OfflineModel()}, "the model offline only quotes texts"),
    ],
)
def test_what_cannot_be_a_type_is_refused_before_anything_starts(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    """In one line; the journal has no run."""
    with engine(tmp_path, [ANSWER()]) as own:
        with pytest.raises(UsageError, match=words) as raised:
            own.run("Is R-1 paid?", **options)
        assert "\n" not in str(raised.value) and own.journal.runs() == []


def test_a_key_goes_with_its_type(tmp_path: Path) -> None:
    """The second start with the same type gets the first run's value; another type is another start."""
    with engine(tmp_path, [ANSWER(), said(GOOD)]) as own:
        first = own.run("Is R-1 paid?", output_type=Invoice, key="r-1")
        assert own.run("Is R-1 paid?", output_type=Invoice, key="r-1") == first
        with pytest.raises(KeyConflict, match="output_schema"):
            own.run("Is R-1 paid?", key="r-1")


def test_of_a_workflow_the_whole_has_the_output(tmp_path: Path) -> None:
    """Its tasks answer in words."""
    replies = [ANSWER("Page 1 says it."), said(GOOD)]
    with engine(tmp_path, replies) as own:
        result = own.run_workflow("Is R-1 paid?", tasks=[Task("Look")], output_type=Invoice)
        assert (result.state, result.output) == ("Done", PAID)
