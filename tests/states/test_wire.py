"""The two bases of what crosses a wire: what code writes and reads back, alone and within a pydantic record."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cached_property
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, ValidationError

from paor.states.base.wire import Stored
from paor.states.records.actions import DocumentRef, Intent, Preview, StoredText, ToolResult, WebFact
from paor.states.records.conversation import Item, Piece, Spoken
from paor.states.records.observations import Message, Observation, StepCheck, clean, cut
from paor.states.records.reviews import CriterionCheck, Refinement, Review
from paor.states.run.spec import Spec
from paor.states.run.state import Change
from paor.states.settings.limits import Limits
from paor.states.settings.policy import Policy
from paor.states.settings.profile import Profile

JSON_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
PLACES = st.builds(StoredText, st.integers(0, 2**32 - 1), JSON_TEXT, st.integers(0, 2**50))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | JSON_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(JSON_TEXT, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.builds(
    DocumentRef, st.integers(0, 9), JSON_TEXT, st.integers(0, 9), JSON_TEXT, JSON_TEXT, PLACES
)
FACTS = st.builds(WebFact, JSON_TEXT, st.none() | st.floats(0, 1), st.tuples(JSON_TEXT), st.just(()))
RESULTS = st.builds(
    ToolResult,
    JSON_TEXT,
    st.booleans(),
    documents=st.tuples(DOCUMENTS),
    web=st.tuples(FACTS),
    echo=st.none() | PLACES,
)
CHANGES = st.builds(
    Change,
    intent=st.none()
    | st.builds(
        Intent,
        JSON_TEXT,
        st.dictionaries(JSON_TEXT, VALUES, max_size=3),
        JSON_TEXT,
        JSON_TEXT,
        JSON_TEXT,
        st.just("read"),
    ),
    result=RESULTS,
    observation=st.builds(
        Observation,
        st.booleans(),
        JSON_TEXT,
        st.integers(0, 9),
        st.tuples(st.builds(Preview, JSON_TEXT, JSON_TEXT, JSON_TEXT)),
    ),
    check=st.builds(StepCheck, st.just("retry"), st.tuples(JSON_TEXT)),
    message=st.builds(
        Message,
        action=st.integers(0),
        step=st.integers(0),
        tool=JSON_TEXT,
        summary=JSON_TEXT,
        success=st.booleans(),
    ),
    review=st.just(Review(status="success", criteria=(CriterionCheck(criterion="c", met=True),))),
    refinement=st.builds(
        Refinement, decision=st.just("stop"), reason=st.just("r"), score=st.none() | st.floats(-1, 1)
    ),
    hint=st.none() | JSON_TEXT,
)


@given(CHANGES)
def test_what_was_written_is_read_back(change: Change) -> None:
    """Every slot as it was, also numbers of any size, and pydantic records within; what is not set stays so."""
    again = Change.read(change.wire_json())
    assert again == change
    assert again.slots().keys() == change.slots().keys()


@given(st.text(max_size=300), st.integers(1, 200))
def test_an_observation_is_stored_without_the_texts_that_it_shows(text: str, most: int) -> None:
    """A snippet is told by its place, and what follows from it is made again: no text of a document is there twice."""
    snippet = cut(clean(text[: most + 1]), most)
    observation = Observation(True, "found", 1, (Preview("page.txt", "text/plain", snippet),), ("a note",))
    message = observation.told(
        Message(action=3, step=4, tool="web.read", objective="read it", summary="", success=True)
    )
    item = Item(role="user", pieces=(Piece("Result:\n"),), size=9, summary=f"Result:\n{message.summary}")
    change = Change(
        observation=observation, check=observation.check, message=message, said=Spoken(items=(item,))
    )
    stored = change.wire_json([(7, text)])
    assert Change.read(stored, {7: text}.get) == change
    assert len(stored) < 370 + 6 * min(len(snippet), 60)
    other = replace(change, message=replace(message, summary="another"))
    assert Change.read(other.wire_json([(7, text)]), {7: text}.get) == other


def test_what_follows_from_an_observation_is_stored_where_it_is_otherwise() -> None:
    """Another check, or references to more documents than are previewed, stand as they are."""
    observation = Observation(True, "found", 6, (Preview("a.txt", "text/plain", "x" * 90),))
    message = observation.told(
        Message(action=1, step=1, tool="t", summary="", success=True),
        ("docItem:found#0 a", "docItem:found#1 b"),
    )
    change = Change(observation=observation, check=StepCheck(status="failed"), message=message)
    assert Change.read(change.wire_json([(1, "y" * 90)])) == change
    usual = replace(change, check=observation.check)
    assert '"summary":""' in usual.wire_json() and Change.read(usual.wire_json()) == usual


@pytest.mark.parametrize("cleared", ["!", "aZ", "\u00e9"])
def test_a_slot_that_nobody_knows_is_not_cleared(cleared: str) -> None:
    """A letter of a later version, or of none, is an error and not passed over."""
    with pytest.raises(ValueError, match="is the letter of no slot"):
        Change.read(json.dumps({"cleared": cleared}))


@given(RESULTS)
def test_the_full_form_has_every_key_and_is_read_back(result: ToolResult) -> None:
    """`wire` fills the defaults in that the journal leaves out."""
    data = result.wire()
    assert list(data) == list(ToolResult.__struct_encode_fields__)
    assert ToolResult.of(json.loads(json.dumps(data))) == result


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "{}",
        '{"n": 1}',
        '{"n": "1", "digest": "x", "bytes": 1}',
        '{"n": 1, "digest": 5, "bytes": 1}',
    ],
)
def test_what_is_no_record_is_a_value_error(text: str) -> None:
    """Whatever is wrong with it, so that a damaged journal is one typed error."""
    with pytest.raises(ValueError):
        StoredText.read(text)


class Holder(BaseModel):
    """A pydantic record that holds a stored one."""

    model_config = ConfigDict(extra="forbid")

    place: StoredText
    documents: tuple[DocumentRef, ...] = ()


@given(PLACES, st.tuples(DOCUMENTS))
def test_a_pydantic_record_can_hold_one(place: StoredText, documents: tuple[DocumentRef, ...]) -> None:
    """As the spec of a run does."""
    held = Holder(place=place, documents=documents)
    assert Holder.model_validate_json(held.model_dump_json()) == held
    assert held.model_dump()["place"] == place.wire()


@pytest.mark.parametrize("place", [{"n": 1}, 5, None, {"n": "1", "digest": "", "bytes": 0}])
def test_a_pydantic_record_says_which_field_is_wrong(place: Any) -> None:
    """By its own kind of error."""
    with pytest.raises(ValidationError, match="place"):
        Holder.model_validate({"place": place})


class Odd:
    """Something that has no form in a journal."""


class Keeper(Stored, frozen=True):
    """A record with a field of such a type."""

    odd: Odd | None = None


def test_only_what_is_known_is_written_and_revived() -> None:
    """Nothing in a journal becomes a type outside a closed list."""

    with pytest.raises(TypeError, match="a Odd has no JSON form"):
        Keeper(Odd()).wire_json()
    with pytest.raises(ValueError, match="a Odd cannot be read back"):
        Keeper.read('{"odd": {}}')
    assert Keeper.read("{}") == Keeper()
    assert msgspec.json.decode(Keeper().wire_json()) == {}


FIRST_USE = """
import sys, threading
sys.setswitchinterval(1e-6)
from paor.states.run.state import Change

def read():
    ready.wait()
    Change.read('{"feedback": "x"}')
    Change.of({"feedback": "x"})

ready = threading.Barrier(8)
threads = [threading.Thread(target=read) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.mark.whole
def test_threads_that_read_a_kind_of_record_for_the_first_time_do_so_one_by_one() -> None:
    """What the library gathers then is not made for two at once: without the lock one of three such processes dies."""
    for _ in range(4):
        runs = [subprocess.Popen([sys.executable, "-c", FIRST_USE]) for _ in range(3)]
        assert [run.wait(timeout=120) for run in runs] == [0, 0, 0]


@pytest.mark.parametrize(
    "name", sorted(name for name, value in vars(Spec).items() if isinstance(value, cached_property))
)
def test_a_copy_of_a_spec_is_asked_anew(name: str) -> None:
    """What follows from a spec's fields follows from those of its copy, whatever the spec was asked before."""
    values: dict[str, Any] = {
        "objective": "Go",
        "revision": 2,
        "task": 1,
        "templates": {"opening": "{{OBJECTIVE}}"},
    }
    others: list[dict[str, Any]] = [
        {"mode": "planner"},
        {"profile": Profile(stage="native")},
        {"profile": Profile(strict=True)},
        {"limits": Limits(context_tokens=8000)},
        {"policy": Policy(deny=("mail.*",))},
        {"task": 0},
    ]
    spec, found = Spec(**values), set[str]()
    found.add(repr(getattr(spec, name)))
    for other in others:
        told = getattr(spec.model_copy(update=other), name)
        assert told == getattr(Spec(**values | other), name)
        found.add(repr(told))
    assert len(found) > 1, "none of these fields decides it"
