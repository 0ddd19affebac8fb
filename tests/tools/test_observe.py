"""From a raw result to what a model may see: bounded, clean, and true about how much there was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paor import Document, ToolOutput
from paor.errors import ToolError
from paor.machine import Message, Observation, ToolResult
from paor.states.run.spec import REVISION
from paor.web import WebFact

from ..support.cases import INTENT, SELECTION, ended, run_in, spec
from .inside import (
    ARGUMENTS_CHARS,
    CUT,
    OBSERVING,
    Preview,
    StoredText,
    arguments_text,
    clean,
    cut,
    line,
    observation_of,
    shown_arguments,
)


def observed(value: Any, **limits: Any) -> Observation:
    """Return the observation of a call that returned (or raised) *value*, as the loop builds it."""
    of = spec(limits=limits, revision=REVISION)
    result = ended(value, INTENT, of.limits).result
    run = run_in(OBSERVING, of, selection=SELECTION, intent=INTENT, result=result)
    texts: list[str | None] = []
    if isinstance(value, ToolOutput):
        texts = [clean(item.data) if isinstance(item.data, str) else None for item in value.documents]
    return observation_of(run, result, tuple(texts[: of.limits.previews]))


@given(text=st.text(), chars_max=st.integers(0, 40))
def test_A047_cut_keeps_within_its_limit_and_marks_what_it_cut(text: str, chars_max: int) -> None:
    """Characters, not bytes; what fits stays as it is."""
    found = cut(text, chars_max)
    assert found == text if len(text) <= chars_max else len(found) <= max(chars_max, len(CUT))
    if len(text) > chars_max > 0:
        assert found == text[: chars_max - 1] + CUT


@given(text=st.text(alphabet=st.characters()), extra=st.sampled_from(["", "\0", "\ud800", "\udfff\ud800"]))
def test_clean_text_can_stand_in_json(text: str, extra: str) -> None:
    """No NUL, no lone surrogate; everything else stays."""
    found = clean(text + extra + text)
    assert "\0" not in found
    assert found.encode().decode() == found
    assert clean(found) == found
    assert len(found) == len(text + extra + text)


LONG = st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=20), st.integers(0, 200))
"""Texts that are long more often than drawn letter by letter."""

DOCUMENTS = st.lists(
    st.builds(Document, st.text(max_size=300), LONG | st.binary(max_size=50), st.text(max_size=150)),
    max_size=12,
)
FACTS = st.lists(
    st.builds(
        WebFact,
        url=st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
        relevance_score=st.none() | st.floats(0, 1),
        key_points=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=50), max_size=3),
    ),
    max_size=8,
)


@given(
    documents=DOCUMENTS,
    notes=st.lists(LONG, max_size=25),
    web=FACTS,
    observation_chars=st.integers(400, 5000),
    snippet_chars=st.integers(20, 1000),
    note_chars=st.integers(20, 1000),
    previews=st.integers(0, 8),
)
def test_A009_A012_A013_A014_an_observation_keeps_every_bound(
    documents: list[Document], notes: list[str], web: list[WebFact], **limits: int
) -> None:
    """Its JSON within the cap whatever escapes it needs; the count true; previews, snippets and notes within theirs."""
    seen = observed(ToolOutput(documents, notes, web), **limits)
    text = seen.wire_json()
    assert len(text) <= limits["observation_chars"]
    assert Observation.read(text) == seen
    assert seen.documents_count == len(documents)
    assert len(seen.previews) <= min(limits["previews"], len(documents))
    for preview, document in zip(seen.previews, documents, strict=False):
        assert len(preview.snippet) <= limits["snippet_chars"]
        body = preview.snippet.removesuffix(CUT)
        assert isinstance(document.data, str) or preview.snippet == ""
        assert not isinstance(document.data, str) or clean(document.data).startswith(body)
    assert len(seen.notes) <= 20
    assert all(len(note) <= max(limits["note_chars"], 40) and "\n" not in note for note in seen.notes)


@given(
    sizes=st.lists(st.integers(0, 2000), max_size=12),
    observation_chars=st.integers(400, 5000),
    snippet_chars=st.integers(20, 1000),
    previews=st.integers(0, 8),
)
def test_A012_what_the_notes_say_is_true_of_what_is_left(sizes: list[int], **limits: int) -> None:
    """However much had to go for want of room: how many documents are not shown, and how much of those that are."""
    seen = observed(ToolOutput([Document(f"d{n}.txt", "x" * size) for n, size in enumerate(sizes)]), **limits)
    expected = []
    for preview, size in zip(seen.previews, sizes, strict=False):
        shown = len(preview.snippet.removesuffix(CUT))
        if shown < size:
            expected.append(f"{preview.name}: only the first {shown} of {size} characters are here")
    if hidden := len(sizes) - len(seen.previews):
        expected.append(f"{hidden} more documents without preview")
    assert len(seen.notes) == len(expected) or not seen.previews
    for note, told in zip(seen.notes, expected, strict=False):
        assert note.startswith(told[: len(note.removesuffix(CUT))]) or note.removesuffix(CUT) in told


@given(error=LONG, note_chars=st.integers(20, 10_000), observation_chars=st.integers(400, 1000))
def test_A010_an_error_is_never_dropped_for_want_of_room(
    error: str, note_chars: int, observation_chars: int
) -> None:
    """However long it is and however tight the cap: the model reads the beginning of what went wrong."""
    seen = observed(ToolError(error), note_chars=note_chars, observation_chars=observation_chars)
    assert len(seen.wire_json()) <= observation_chars
    assert not seen.success
    assert seen.notes[0].startswith("tool_error: "[:19])
    assert seen.check.improvements == seen.notes[:1]


def test_shortening_takes_snippets_first_then_previews_then_facts_then_notes() -> None:
    """What says least goes first; the notes stay longest."""
    documents = [Document(f"{n}.txt", "x" * 600) for n in range(5)]
    facts = [WebFact(url=f"https://example.org/{n}") for n in range(5)]
    whole = ToolOutput(documents, ["a fact"], facts)
    lengths = []
    for cap in (10_000, 2000, 1000, 700, 400):
        seen = observed(whole, observation_chars=cap)
        lengths.append((len(seen.previews), len(seen.web or ())))
        assert seen.notes[0] == "a fact"
        assert seen.documents_count == 5
    assert lengths[0] == (5, 5) and lengths == sorted(lengths, reverse=True)


def test_C26_binary_documents_have_name_and_type_and_no_snippet() -> None:
    """Their bytes are never taken for text."""
    seen = observed(ToolOutput([Document("a.png", b"\x89PNG", "image/png"), Document("b.txt", "text")]))
    assert [(item.name, item.mime, item.snippet) for item in seen.previews] == [
        ("a.png", "image/png", ""),
        ("b.txt", "text/plain", "text"),
    ]


@pytest.mark.parametrize(
    ("previews", "count", "note"),
    [(5, 5, None), (5, 6, "1 more documents without preview"), (0, 2, "2 more documents without preview")],
)
def test_A012_what_is_not_shown_is_said(previews: int, count: int, note: str | None) -> None:
    """Only when there is something."""
    documents = [Document(f"{n}", "x") for n in range(count)]
    seen = observed(ToolOutput(documents), previews=previews)
    assert (note in seen.notes) if note else not seen.notes


def test_A155_a_refused_call_has_a_label_of_its_own() -> None:
    """No intent, so no label of the tool's; the action number tells them apart."""
    run = run_in(OBSERVING, counters={"action": 7})
    result = ToolResult(tool="notes.read", ok=False, error="again", error_code="duplicate_call_blocked")
    seen = observation_of(run, result, ())
    assert (seen.result_label, seen.notes) == (
        "round1_task1_action7_refused",
        ("duplicate_call_blocked: again",),
    )
    echoed = replace(result, echo=StoredText(1, "00", 5))
    assert observation_of(run, echoed, ("earlier",)).previews[0].snippet == "earlier"
    assert observation_of(run, echoed, (None,)).previews[0].snippet == "", "an erased output is no output"


@given(
    snippet=st.text(max_size=600), count=st.integers(0, 3), success=st.booleans(), note=st.text(max_size=300)
)
def test_A099_A125_a_summary_is_short_and_never_empty(
    snippet: str, count: int, success: bool, note: str
) -> None:
    """One line, from the first text that there is, else from the number of documents, else from the error."""
    seen = Observation(
        success=success,
        result_label="x",
        documents_count=count,
        previews=tuple(Preview(name="n", mime="m", snippet=snippet) for _ in range(min(count, 2))),
        notes=(line(note),) if line(note) else (),
    )
    found = seen.summary
    assert 0 < len(found) <= 240
    assert len(found.splitlines()) == 1
    if success and count and snippet.split():
        assert found.startswith(f"{count} document")


WORDS = st.text(st.characters(exclude_categories=["C"]), max_size=20)


@pytest.mark.whole
@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"),
        st.recursive(
            WORDS | st.integers() | st.builds(lambda text: text * 99, WORDS),
            lambda some: st.lists(some) | st.dictionaries(WORDS, some),
        ),
    )
)
def test_arguments_are_shown_each_with_its_beginning(arguments: dict[str, Any]) -> None:
    """Together within what history and judges have room for, a long one inside another included; short ones are as they were."""
    shown = shown_arguments(arguments)
    text = arguments_text(Message(action=1, step=1, tool="t", summary="s", success=True, arguments=shown))
    assert len(text) <= ARGUMENTS_CHARS and shown.keys() == arguments.keys()
    assert not text or json.loads(text) == shown
    if len(json.dumps(arguments, ensure_ascii=False)) <= ARGUMENTS_CHARS:
        assert shown == {n: clean(v) if isinstance(v, str) else v for n, v in arguments.items()}
