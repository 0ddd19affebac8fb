"""A call that is not `read` gets exactly what its reply says, or is not made; of a `read` call the model reads what was left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pydantic.dataclasses
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, WithJsonSchema

from paor import Engine, Journal, Profile, Reply, Tool, ToolContext, Usage, replay, tool
from paor.models import ModelCall

from ..support.effort import examples
from ..support.planning import World, check
from ..support.recording import observation, text_of
from ..support.worlds import PARAMETERS, SELECT, STOP, SUCCESS

pytestmark = pytest.mark.filterwarnings("ignore:mode='batch'")
MODES = ("two_stage", "strict", "single", "native", "planner", "batch")
DOCUMENTS = [("a.txt", "A"), ("b.txt", "B")]
INPUT = "round1_task1_action0_input"


class Says:
    """A model that says one call, in the form of each profile and mode, as often as it is asked; then it answers."""

    name, calls_tools = "says", True

    def __init__(
        self,
        arguments: dict[str, Any],
        documents: list[str],
        connection: str | None,
        beside: Mapping[str, Any] = {},
    ) -> None:
        self.beside = beside
        self.arguments, self.documents, self.connection = arguments, documents, connection
        self.asked: list[ModelCall] = []

    def ask(self, call: ModelCall) -> Reply:
        """Reply to *call*."""
        self.asked.append(call)
        text = json.dumps(self._reply(call), default=str).replace(f'"{NUMBER}', "").replace(f'{NUMBER}"', "")
        return Reply(text, Usage(1, 1, 1))

    def _reply(self, call: ModelCall) -> Any:
        whole = self.arguments | ({"documentList": self.documents} if self.documents else {})
        whole |= {"connectionReference": self.connection} if self.connection is not None else {}
        often = sum(earlier.kind == call.kind for earlier in self.asked)
        if call.kind == "selection":
            fields = [field_of(name) for name in self.arguments if name not in SET_BY_STAGE_1]
            more = {
                "requiredInputDocuments": self.documents,
                "requiredConnection": self.connection,
                "parametersSchema": {"fields": fields},
            }
            if call.schema is not None and '"method"' in json.dumps(call.schema):
                chosen = {"action": {"method": "bank", "name": "pay"}} | more
            else:
                chosen = SELECT("bank.pay", None) | more
            return chosen if often < 3 else {"action": None, "answer": "That cannot be done."}
        if call.kind == "parameters":
            return {"schema": "parameters_v1", "parameters": self.arguments, **self.beside}
        if call.kind == "turn":
            calls = [{"id": "c", "name": "bank_pay", "arguments": whole, **self.beside}]
            return {"text": "" if often < 3 else "That cannot be done.", "calls": calls if often < 3 else []}
        if call.kind == "plan":
            steps = [{"type": "tool", "name": "bank.pay", "args": whole, **self.beside}]
            return {"steps": steps} if often < 3 else {"steps": [], "answer": "That cannot be done."}
        return STOP if call.kind == "refinement" else SUCCESS


NUMBER = "<number>"
"""Around a number that JSON text shall hold as it is written here."""
SET_BY_STAGE_1 = ("documentList", "connectionReference")


def field_of(name: str) -> dict[str, Any]:
    """Return a field of Stage 1's schema."""
    return {"name": name, "type": "string", "required": False, "description": "it"}


def options_of(mode: str) -> dict[str, Any]:
    """Return what `Engine.run` is given for a mode or profile."""
    if mode == "single":
        return {"profile": Profile(stage="single")}
    return {"mode": mode} if mode in ("planner", "batch") else {"profile": mode}


def calls_of(
    mode: str,
    parameters: dict[str, Any],
    arguments: dict[str, Any],
    references: list[str] = [],  # noqa: B006 - never changed
    connection: str | None = None,
    *,
    documents: int = 0,
    connections: tuple[str, ...] = (),
    effect: Any = "once",
    beside: Mapping[str, Any] = {},
) -> list[dict[str, Any]]:
    """Return what the tool ``bank.pay`` was called with by a model that says this call; the run ends and replays."""
    made: list[dict[str, Any]] = []

    def pay(**values: Any) -> str:
        made.append(values)
        return "paid"

    model = Says(arguments, references, connection, beside)
    with Journal(":memory:", "off") as journal:
        engine = Engine(model, [Tool("bank.pay", "Pay.", parameters, pay, effect)], journal, builtins=False)
        result = engine.run(
            "Pay",
            documents=DOCUMENTS[:documents],
            connections=dict.fromkeys(connections, 1),
            **options_of(mode),
        )
        assert result.status in ("done", "failed", "waiting")
        assert replay(journal, result.run_id).identical
        engine.close()
    return made


KINDS: dict[str, dict[str, Any]] = {
    "to": {"type": "string"},
    "amount": {"type": "number", "default": 5},
    "count": {"type": "integer", "minimum": 1},
    "flag": {"type": ["boolean", "null"], "default": True},
    "language": {"type": "string"},
    "timeRange": {"enum": ["day", "week", "month", "year"]},
    "tags": {"type": "array", "items": {"type": "string"}},
    "order_id": {"type": "object", "properties": {"at": {"type": "array"}}},
    "documentList": {"type": "array", "items": {"type": "string"}},
    "connectionReference": {"type": "string"},
}
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([2**53 + 1, 2**70, 0.5, "x", "week", ""])
)
LISTS = st.lists(st.sampled_from(["x", "y"]), max_size=2)
OBJECTS: st.SearchStrategy[dict[str, Any]] = (
    st.just({}) | st.just({"at": [1]}) | st.just({"at": "[1]"}) | st.just({"at": "[1"})
)
VALUES = SCALARS | LISTS | OBJECTS | LISTS.map(json.dumps) | OBJECTS.map(json.dumps)
BUSINESS = [name for name in KINDS if name not in SET_BY_STAGE_1]
SAID = st.sampled_from([*BUSINESS, "currency", "dryRun", "documents", "history"])
WHERE = (
    "docList:{}",
    "docItem:{}#0",
    "docItem:{}#1",
    "docItem:{}#7",
    "docItem:{}",
    "{}",
    "{}#1",
    "docList:{}#0",
)
REFERENCES = st.sampled_from([where.format(INPUT) for where in WHERE]) | st.sampled_from(
    ["docList:round1_task1_action7_draft", "the draft", f"url:{INPUT}"]
)


def named(reference: str, count: int) -> set[int] | None:
    """Return which of *count* input documents a reference certainly means, None where it is not certain or nothing."""
    kind, _, rest = reference.rpartition(":")
    label, mark, position = rest.partition("#")
    if label != INPUT or kind not in ("docList", "docItem", "") or not count:
        return None
    if mark:
        return {int(position)} if int(position) < count else None
    return set(range(count)) if kind == "docList" or count == 1 else None


def same(said: Any, got: Any) -> bool:
    """Return whether a value arrived as it was said; the JSON text of an object or a list is that value."""
    if json.dumps(said, sort_keys=True) == json.dumps(got, sort_keys=True):
        return True
    if isinstance(said, str) and isinstance(got, dict | list):
        return same(json.loads(said), got)
    if isinstance(said, dict) and isinstance(got, dict):
        return said.keys() == got.keys() and all(same(said[name], got[name]) for name in said)
    return False


@settings(max_examples=examples(80), deadline=None)
@given(
    mode=st.sampled_from(MODES),
    effect=st.sampled_from(["once", "idempotent"]),
    declared=st.lists(st.sampled_from(sorted(KINDS)), unique=True),
    required=st.sets(st.sampled_from(sorted(KINDS))),
    arguments=st.dictionaries(SAID, VALUES, max_size=4),
    references=st.lists(REFERENCES, max_size=2),
    connection=st.sampled_from([None, "work", "home", "private"]),
    documents=st.integers(0, 2),
    connections=st.sampled_from([(), ("work",), ("work", "home")]),
)
def test_A119_a_call_that_is_not_read_gets_exactly_what_was_said_or_is_not_made(
    mode: str,
    effect: str,
    declared: list[str],
    required: set[str],
    arguments: dict[str, Any],
    references: list[str],
    connection: str | None,
    documents: int,
    connections: tuple[str, ...],
) -> None:
    """Whatever the schema, the documents, the connections, the reply, the profile and the mode."""
    parameters = {
        "type": "object",
        "properties": {name: KINDS[name] for name in declared},
        "required": sorted(required & set(declared)),
    }
    made = calls_of(
        mode,
        parameters,
        arguments,
        references,
        connection,
        documents=documents,
        connections=connections,
        effect=effect,
    )
    staged = mode in ("two_stage", "strict", "single")
    for got in made:
        asked = not staged or set(declared) - set(SET_BY_STAGE_1)  # Stage 2, where it has anything to set
        said = dict(arguments) if asked else {}
        if staged:  # a null where none is taken is how a wire without optional names leaves one out
            said = {
                name: value
                for name, value in said.items()
                if value is not None or name in got or "default" in KINDS.get(name, {})
            }
        about = {"documentList": references if references else None, "connectionReference": connection}
        if staged:
            assert connection is None or connection in connections
            assert None not in [named(reference, documents) for reference in references]
        assert got.keys() == said.keys() | {name for name, value in about.items() if value is not None}
        assert all(same(value, got[name]) for name, value in said.items())
        assert got.get("connectionReference") == about.get("connectionReference")
        assert got.get("connectionReference", "work") in ("work", "home")
        meant = [named(reference, documents) for reference in references if "documentList" in got]
        assert [named(reference, documents) for reference in got.get("documentList", [])] == list(
            map(set, dict.fromkeys(frozenset(one or ()) for one in meant)) if staged else meant
        )


GOOD = {"to": "Dee", "amount": 5}
PAY = {
    "type": "object",
    "properties": {name: KINDS[name] for name in ("to", "amount", "documentList", "connectionReference")},
    "required": ["to", "amount", "documentList", "connectionReference"],
}


@pytest.mark.parametrize("mode", MODES)
def test_A119_a_call_that_says_everything_is_made(mode: str) -> None:
    """In every profile and mode, so that the property is about calls; what is meant but not said is not made up."""
    given: dict[str, Any] = {"documents": 1, "connections": ("work",)}
    reference = f"docItem:{INPUT}#0"
    whole = {**GOOD, "documentList": [reference], "connectionReference": "work"}
    assert calls_of(mode, PAY, GOOD, [reference], "work", **given)[0] == whole
    assert calls_of(mode, PAY, GOOD, [], "work", **given) == []
    assert calls_of(mode, PAY, GOOD, [reference], None, **given) == []
    assert calls_of(mode, PAY, GOOD, [reference], "private", **given) == []
    assert calls_of(mode, PAY, GOOD, [f"docItem:{INPUT}#1"], "work", **given) == []
    assert calls_of(mode, PAY, {**GOOD, "currency": "USD"}, [reference], "work", **given) == []


@pytest.mark.parametrize("mode", ["two_stage", "single"])
@pytest.mark.parametrize("said", [f"docItem:{INPUT}", INPUT])
def test_a_label_without_its_position_is_asked_again_where_several_documents_match(
    mode: str, said: str
) -> None:
    """One document under the label is certainly meant; of two nobody knows which."""
    given: dict[str, Any] = {"connections": ("work",)}
    assert calls_of(mode, PAY, GOOD, [said], "work", documents=2, **given) == []
    assert len(calls_of(mode, PAY, GOOD, [said], "work", documents=1, **given)) == 1
    assert len(calls_of(mode, PAY, GOOD, [f"docList:{INPUT}"], "work", documents=2, **given)) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("amount", [2**53 + 1, 2**70 + 1, 10**300])
def test_a_number_is_never_converted_with_loss(mode: str, amount: int) -> None:
    """A float cannot hold it: the function is not called. One that can hold it gets it."""
    made: list[Any] = []

    @tool("bank.pay", effect="once")
    def pay(amount: float, parts: list[int]) -> str:
        """Pay."""
        made.append((amount, parts))
        return "paid"

    for said, expected in ((amount, []), (2**60, [(2.0**60, [amount])])):
        with Journal(":memory:", "off") as journal:
            engine = Engine(
                Says({"amount": said, "parts": [amount]}, [], None), [pay], journal, builtins=False
            )
            engine.run("Pay", **options_of(mode))
            engine.close()
        assert made[:1] == expected


@settings(max_examples=examples(40), deadline=None)
@given(
    mode=st.sampled_from(MODES),
    effect=st.sampled_from(["once", "idempotent", "read"]),
    beside=st.dictionaries(st.sampled_from(["amount", "to", "remark"]), SCALARS, min_size=1, max_size=2),
)
def test_A119_a_parameter_beside_its_place_is_not_dropped(
    mode: str, effect: str, beside: dict[str, Any]
) -> None:
    """The call is asked again; a remark that is no parameter hinders none but a reply to the letter of a document."""
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {name: KINDS[name] for name in ("to", "amount")},
    }
    made = calls_of(mode, parameters, {"to": "Dee"}, effect=effect, beside=beside)
    lost = beside.keys() & parameters["properties"].keys()
    refused = mode == "strict" or (bool(lost) and effect != "read")
    assert made[:1] == ([] if refused else [{"to": "Dee"}])


@pytest.mark.parametrize("case", ["null", "document"])
@pytest.mark.parametrize("effect", ["once", "read"])
def test_A119_what_a_call_cannot_use_is_asked_again(case: str, effect: str) -> None:
    """A null where a default would be used, a document that the tool does not take; a `read` call is made."""
    parameters = {"type": "object", "properties": {"amount": KINDS["amount"]}}
    made = calls_of(
        "two_stage",
        parameters,
        {"amount": None if case == "null" else 7},
        [f"docItem:{INPUT}#0"] if case == "document" else [],
        documents=1,
        effect=effect,
    )
    assert made[:1] == ([] if effect == "once" else [{}] if case == "null" else [{"amount": 7}])


@pytest.mark.parametrize("key", ["arguments", "args", "input"])
def test_values_in_two_places_that_differ_are_asked_again(key: str) -> None:
    """Neither is taken for the other."""
    parameters = {"type": "object", "properties": {"to": KINDS["to"]}}
    assert calls_of("two_stage", parameters, {"to": "Dee"}, beside={key: {"to": "Ann"}}) == []


@settings(max_examples=examples(60), deadline=None)
@given(
    mode=st.sampled_from(MODES),
    written=st.decimals(allow_nan=False, allow_infinity=False, min_value=-(2**60), max_value=2**60).map(str)
    | st.sampled_from(["9007199254740993.0", "9.007199254740993e15", "1e-400", "0.1", "1e15", "52.5200066"]),
    within=st.booleans(),
)
def test_a_number_is_read_as_it_is_written_or_not_at_all(mode: str, written: str, within: bool) -> None:
    """In an object's JSON text, too."""
    parameters = {"type": "object", "properties": {"amount": {}, "object": {"type": "object"}}}
    number = f"{NUMBER}{written}{NUMBER}"
    said: Any = {"object": f'{{"at": {written}}}'} if within else {"amount": number}
    for got in calls_of(mode, parameters, said):
        value = got["object"]["at"] if within else got["amount"]
        assert Decimal(written) in (Decimal(repr(value)), Decimal(value))


class Part(BaseModel):
    """Part of an order; pydantic drops the names that a model does not know."""

    id: str = "none"
    price: float = Field(default=0.0, exclude=True)


@dataclass
class Place:
    """A place."""

    id: str = "none"
    price: float = 0.0


@pydantic.dataclasses.dataclass(config={"extra": "ignore"})
class Stop(Place):
    """A place that asks for unknown names to be dropped."""


class Line(Part):
    """A line of an order."""

    part: Part = Part()
    parts: list[Part | int] = []
    named: dict[int, Part] = {}
    place: Place | Stop | None = None


NAMES = st.sampled_from(["id", "price", "dryRun"])
FLAT = st.dictionaries(NAMES, st.sampled_from(["x", 0.5, 2**53, 2**53 + 1]), max_size=2)
NESTED: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "id": st.just("x"),
        "price": st.sampled_from([0.5, 2**53 + 1]),
        "dryRun": st.just(True),
        "part": FLAT,
        "parts": st.lists(FLAT | st.integers(0, 2), max_size=2),
        "named": st.dictionaries(st.sampled_from(["1", "01", "2"]), FLAT, max_size=2),
        "place": FLAT | st.none(),
    },
)


def arrived(said: Any, got: Any) -> bool:
    """Return whether everything that was said is in the Python value."""
    if isinstance(said, dict):
        if isinstance(got, dict):
            return len(said) == len(got) and all(map(arrived, said.values(), got.values()))
        return all(hasattr(got, name) and arrived(value, getattr(got, name)) for name, value in said.items())
    if isinstance(said, list):
        return len(said) == len(got) and all(map(arrived, said, got))
    return bool(said == got)


@settings(max_examples=examples(60), deadline=None)
@given(
    mode=st.sampled_from(MODES),
    kind=st.sampled_from([Line, Annotated[Line, WithJsonSchema({"type": "object"})]]),
    order=NESTED,
)
def test_A119_what_is_said_within_a_parameter_arrives_or_the_call_is_not_made(
    mode: str, kind: Any, order: dict[str, Any]
) -> None:
    """Of every depth and type, whatever its class does with names that it does not know and its schema says of them."""
    made = orders_of(mode, kind, order)
    assert all(arrived(order, got) for got in made)
    with suppress(ValidationError):
        assert made or not arrived(order, TypeAdapter(Line).validate_json(json.dumps(order)))


def orders_of(mode: str, kind: Any, said: Any) -> list[Any]:
    """Return what a function of one parameter of type *kind* was called with by a model that says *said*."""
    made: list[Any] = []

    def pay(order: Any) -> str:
        made.append(order)
        return "paid"

    pay.__doc__ = "Pay."
    pay.__annotations__ = {"order": kind, "return": str}
    with Journal(":memory:", "off") as journal:
        paying = tool("bank.pay", effect="once")(pay)
        engine = Engine(Says({"order": said}, [], None), [paying], journal, builtins=False)
        engine.run("Pay", **options_of(mode))
        engine.close()
    return made


ROUNDED = [
    (datetime, "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.123456000Z"),
    (timedelta, "PT0.1234567S", "PT0.1234560S"),
    (dict[int, str], {"1": "a", "01": "b"}, {"1": "a", "2": "b"}),
    (dict[float, str], {"9007199254740993": "a"}, {"9007199254740992": "a"}),
    (set[float], [2**53 + 1], [2**53]),
    (tuple[float, int], [2**53 + 1, 2**53 + 1], [0.5, 2**53 + 1]),
    (int, 1e23, 1e15),
    (Place, {"id": "x", "price": 2**53 + 1}, {"id": "x", "price": 2**53}),
]


@pytest.mark.parametrize(("kind", "lost", "kept"), ROUNDED)
def test_a_value_that_its_type_would_round_is_not_passed(kind: Any, lost: Any, kept: Any) -> None:
    """Nor are two keys that become one."""
    assert orders_of("native", kind, lost) == []
    assert len(orders_of("native", kind, kept)) > 0


def test_A119_what_is_left_out_of_a_read_call_stands_in_its_rows_and_is_told(tmp_path: Path) -> None:
    """By name, not by number: references and connections that there are not, parameters that the tool does not have."""

    @tool("notes.look", effect="read")
    def look(page: int, documentList: list[str], connectionReference: str) -> str:
        """Look."""
        return "seen"

    chosen = SELECT(
        "notes.look", None, requiredInputDocuments=["docList:gone", INPUT], requiredConnection="private"
    )
    with World(tmp_path, [chosen, PARAMETERS(page=1, dpi=300), STOP, SUCCESS], [look]) as world:
        world.run(documents=[("a.txt", "A")], connections={"work": 1})
        check(world)
        changes = {
            row.trigger: changed(world, row) for row in world.rows if row.trigger in ("select", "specify")
        }
        assert changes["select"]["selection"]["leftOut"] == ["docList:gone", "private"]
        assert changes["specify"]["intent"]["leftOut"] == ["docList:gone", "private", "dpi"]
        assert changes["specify"]["intent"]["arguments"] == {
            "page": 1,
            "documentList": [f"docList:{INPUT}"],
            "connectionReference": "work",
        }
        told = "left out of this call, since there is nothing of that name: 'docList:gone', 'private', 'dpi'"
        assert observation(world)["notes"] == [told]
        assert told in text_of(world.model.of("refinement")[0])


def changed(world: World, row: Any) -> Mapping[str, Any]:
    """Return what a row has set."""
    found: Mapping[str, Any] = json.loads(str(world.journal.payload(row.run, row.change["n"]).body))
    return found


@pytest.mark.parametrize("mode", ["two_stage", "native", "planner"])
def test_the_connection_that_a_call_names_is_the_one_that_its_tool_gets(mode: str) -> None:
    """Its value, too, however the call was made."""
    made: list[Any] = []

    @tool("bank.pay", effect="once")
    def pay(context: ToolContext, connectionReference: str) -> str:
        """Pay."""
        made.append((connectionReference, context.connection))
        return "paid"

    with Journal(":memory:", "off") as journal:
        engine = Engine(Says({}, [], "home"), [pay], journal, builtins=False)
        engine.run("Pay", connections={"work": "W", "home": "H"}, **options_of(mode))
        engine.close()
    assert made[0] == ("home", "H")
