"""A call that happens once and came back is done, whatever it returned; nothing of its form invites a second one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from paor import Document, Engine, Journal, Limits, ScriptedModel, ToolOutput, replay, tool
from paor.errors import UsageError
from paor.testing import call, refine

from .inside import json_of

SCRIPT = [*call("bank.pay", to="Dee"), refine("stop", answer="It is paid.")]


@dataclass
class Receipt:
    """With a number and a part that no journal holds."""

    number: int
    lock: Any


class Paid(BaseModel):
    """Of a library's own kind."""

    number: int
    part: Any = None


class Rude:
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __repr__(self) -> str:
        return "Rude()"


class Exiting:
    """Whatever looks at it ends the program, were it not a value that a tool returned."""

    def __str__(self) -> str:
        raise SystemExit(3)

    def __len__(self) -> int:
        raise SystemExit(3)


def torn(end: type[BaseException]) -> Iterator[Document]:
    """One document, and an error in the place of the next."""
    yield Document("r.txt", "R-7")
    raise end("torn")


def refusing(self: Any, *given: Any, **more: Any) -> Any:
    """Raise, whatever is asked."""
    raise RuntimeError("no")


HOSTILE = {
    name: refusing
    for name in (
        "__str__",
        "__len__",
        "__bool__",
        "__iter__",
        "__getitem__",
        "__format__",
        "encode",
        "decode",
    )
} | {name: refusing for name in ("split", "strip", "replace", "isascii", "translate", "join", "__bytes__")}
RudeText: Any = type("RudeText", (str,), HOSTILE)
RudeBytes: Any = type("RudeBytes", (bytes,), HOSTILE)
"""They are texts and bytes, and nothing that is asked of them can be had."""


class RudeWords(Exception):
    """Its words are a text that cannot be read."""

    def __str__(self) -> str:
        return RudeText("R-7")  # type: ignore[no-any-return]


def endless() -> list[Any]:
    """A list that holds itself twice."""
    found: list[Any] = [1]
    found += [found, found]
    return found


def nested() -> Any:
    found: Any = 7
    for _ in range(5000):
        found = [found]
    return found


JUNK: Any = object()
FORMS: dict[str, tuple[Callable[[], Any], str]] = {
    "big integer": (lambda: {"receipt": 2**64, "to": "Dee"}, '{"receipt":18446744073709551616,"to":"Dee"}'),
    "its negative": (lambda: [-(2**200)], f"[{-(2**200)}]"),
    "huge integer": (lambda: {"n": 1 << 15_000, "to": "Dee"}, '"to":"Dee"'),
    "key": (lambda: {2**70: Decimal("1.50")}, f'{{"{2**70}":"1.50"}}'),
    "NaN": (lambda: {"n": float("nan"), "to": "Dee"}, '{"n":null,"to":"Dee"}'),
    "infinity": (lambda: float("-inf"), "null"),
    "half a character": (lambda: {"a": "x\ud800y", "n": 2**64}, '"a":"x?y"'),
    "lock": (lambda: {"id": "R-7", "lock": threading.Lock()}, '"id":"R-7"'),
    "dataclass": (lambda: Receipt(2**65, threading.Lock()), f'"number":{2**65}'),
    "model": (lambda: Paid(number=2**65, part=threading.Lock()), f'"number":{2**65}'),
    "range": (lambda: range(3), "<range>"),
    "memory": (lambda: memoryview(b"abc"), "<memoryview>"),
    "iterator": (lambda: {"id": "R-7", "rows": iter([1])}, '"id":"R-7"'),
    "exception": (lambda: ValueError("R-7"), "<ValueError>"),
    "class": (lambda: {"id": "R-7", "of": Rude}, '"id":"R-7"'),
    "rude": (lambda: [Rude(), "R-7"], "R-7"),
    "a set that exits": (lambda: {"id": "R-7", "all": {Exiting(), "x"}}, '"id":"R-7"'),
    "a name that exits": (lambda: {"id": "R-7", Exiting(): 1}, '"id":"R-7"'),
    "a note that exits": (lambda: ToolOutput([Document("a", "R-7")], notes=[cast("Any", Exiting())]), "R-7"),
    "documents that exit": (lambda: ToolOutput(cast("Any", torn(SystemExit))), ""),
    "documents that are torn": (lambda: ToolOutput(cast("Any", torn(ValueError))), ""),
    "a rude text": (lambda: RudeText("R-7"), "R-7"),
    "rude bytes": (lambda: RudeBytes(b"R-7"), "R-7"),
    "a rude document": (lambda: Document(RudeText("a"), RudeText("R-7"), RudeText("text/plain")), "R-7"),
    "a document of rude bytes": (lambda: Document(RudeText("a"), RudeBytes(b"R-7")), "R-7"),
    "a rude note": (lambda: ToolOutput([Document("a", "R-7")], notes=[RudeText("a")]), "R-7"),
    "a rude fact": (
        lambda: ToolOutput([Document("a", "R-7")], web=[cast("Any", {"url": RudeText("https://a.b")})]),
        "R-7",
    ),
    "a rude value": (lambda: {"id": RudeText("R-7"), RudeText("x"): [RudeText("y")]}, "R-7"),
    "one name twice": (
        lambda: {1: "a", "1": "b", None: 1, "null": 2},
        '{"1":"a","1 (2)":"b","null":1,"null (4)":2}',
    ),
    "one name twice in a dataclass": (lambda: Receipt(1, {1: "a", "1": "b"}), '{"1":"a","1 (2)":"b"}'),
    "cycle": (endless, "[1,"),
    "nested": (nested, "["),
    "large": (lambda: "R-7" + "x" * 50_000, "R-7xxx"),
    "large data": (lambda: {"id": "R-7", "rows": ["x" * 100] * 500}, '{"id":"R-7"'),
    "junk in documents": (lambda: ToolOutput(documents=[JUNK, Document("r.txt", "R-7")]), "<object>"),
    "junk in a document": (lambda: ToolOutput(documents=[Document("r.txt", JUNK)]), "<object>"),
    "no list": (lambda: ToolOutput(documents=Document("r.txt", "R-7")), "R-7"),  # type: ignore[arg-type]
    "junk in notes": (lambda: ToolOutput(documents=[Document("r.txt", "R-7")], notes=[Rude()]), "R-7"),  # type: ignore[list-item]
    "no notes": (lambda: ToolOutput(documents=[Document("r.txt", "R-7")], notes=7), "R-7"),  # type: ignore[arg-type]
    "junk in facts": (lambda: ToolOutput(documents=[Document("r.txt", "R-7")], web=[JUNK]), "R-7"),
}


def paid_once(value: Any, journal: Path | None = None) -> str:
    """Pay with a tool that returns a value; return what of it was kept, once it is sure that the call counts as done."""
    made: list[str] = []

    @tool("bank.pay", effect="once")
    def pay(to: str) -> Any:
        """Pay somebody."""
        made.append(to)
        return value

    place = journal / "runs.db" if journal is not None else Journal(":memory:")
    limits = Limits(document_bytes=10_000, result_bytes=20_000)
    with Engine(ScriptedModel(SCRIPT), tools=[pay], journal=place, limits=limits) as engine:
        result = engine.run("Pay Dee")
        (row,) = [row for row in engine.journal.transitions(result.run_id) if row.trigger == "execute"]
        assert (result.state, row.outcome["ok"], made) == ("Done", True, ["Dee"])
        assert engine.journal.verify() == [] and replay(engine.journal, result.run_id).identical
        return "\n".join(str(document.read()) for document in result.documents)


@pytest.mark.parametrize("form", FORMS)
def test_a_once_call_that_came_back_is_done_whatever_its_values_form(form: str, tmp_path: Path) -> None:
    """What can be kept is kept."""
    make, kept = FORMS[form]
    assert kept in paid_once(make(), tmp_path)


ODD = st.recursive(
    st.one_of(
        st.integers(-(2**80), 2**80),
        st.floats(),
        st.text(st.characters(codec=None), max_size=5),
        st.binary(max_size=5),
        st.none(),
        st.decimals(),
        st.complex_numbers(),
        st.sampled_from([object(), Rude(), Rude, print, threading.Lock(), Receipt(2**70, Rude()), iter(())]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=3), st.integers(), st.none(), st.binary(max_size=2)), inner, max_size=3
        ),
        st.tuples(inner, inner),
        st.builds(Receipt, st.integers(), inner),
    ),
    max_leaves=8,
)


@given(value=ODD)
def test_no_value_makes_an_error_of_a_call_that_was_made(value: Any) -> None:
    """Whatever is within it."""
    paid_once(value)


@given(
    value=st.recursive(
        st.integers(-(2**300), 2**300) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    )
)
def test_data_that_json_has_is_kept_as_it_is(value: Any) -> None:
    """Whole numbers of any size among it, of tools of each kind."""
    text, notes = json_of(value)
    assert json.loads(text) == value and notes == []


@pytest.mark.parametrize("effect", ["once", "read"])
def test_an_error_is_recorded_whatever_its_words_are(effect: Any) -> None:
    """Of a class of the host's own."""

    @tool("bank.pay", effect=effect)
    def pay(to: str) -> Any:
        """Pay somebody."""
        raise RudeWords

    with Engine(ScriptedModel(SCRIPT), tools=[pay], journal=Journal(":memory:")) as engine:
        [made] = engine.journal.calls(engine.run("Pay Dee").run_id)
    assert "RudeWords: R-7" in made.result


NAMES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["1", "-2", "null", "true", "\ud800", "?"])
)


@given(value=st.dictionaries(NAMES, st.integers() | st.dictionaries(NAMES, st.integers())))
def test_no_value_is_lost_for_a_name_that_json_has_once(value: dict[Any, Any]) -> None:
    """An object of JSON with a name twice loses one of its values with most who read it."""

    def once_each(pairs: list[tuple[str, Any]]) -> list[Any]:
        assert len(dict(pairs)) == len(pairs)
        return [item for _, item in pairs]

    text, _ = json_of(value)
    wanted = [list(item.values()) if isinstance(item, dict) else item for item in value.values()]
    assert json.loads(text, object_pairs_hook=once_each) == wanted


def test_what_code_is_to_do_later_is_no_result() -> None:
    """A generator's body may not have run: nobody knows, so a person is asked; a function that is one is refused."""

    def later() -> Any:
        yield 1

    @tool("bank.pay", effect="once")
    def pay(to: str) -> Any:
        """Pay somebody."""
        return later()

    with Engine(ScriptedModel(SCRIPT), tools=[pay], journal=Journal(":memory:")) as engine:
        waiting = engine.run("Pay Dee").waiting_for
    assert waiting is not None and waiting.kind == "in_doubt"

    with pytest.raises(UsageError, match="generator"):

        @tool("bank.pays", effect="once")
        def pays(to: str) -> Any:
            """Pay somebody."""
            yield to


def test_what_is_lost_is_noted(tmp_path: Path) -> None:
    """In the journal and in what the model is shown."""
    paid_once({"n": float("inf"), "lock": threading.Lock()}, tmp_path)
    data = (tmp_path / "runs.db").read_bytes()
    assert b"JSON has no such number" in data and b"a lock was left out: it has no JSON form" in data
