"""The references to documents that a model is offered: the newest, whether they were kept step by step or come at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paor.states.run.state import REFERENCES_MAX, extend_references

LABELS = st.lists(
    st.tuples(st.integers(0, 10**6).map("l{}".format), st.integers(0, 2 * REFERENCES_MAX)), max_size=40
)


@given(LABELS)
def test_label_by_label_is_the_same_as_all_at_once(labels: list[tuple[str, int]]) -> None:
    """A run that is restored offers what the live one did; never more than the bound, and the newest."""
    live: tuple[str, ...] = ()
    for label in labels:
        live = extend_references(live, [label])
    assert live == extend_references((), labels)
    assert len(live) <= REFERENCES_MAX


def test_a_label_is_named_whole_and_its_documents_one_by_one_if_there_are_several() -> None:
    """A label without documents is not named; of very many the last ones are."""
    labels = [("one", 1), ("none", 0), ("two", 2)]
    several = ["docList:two", "docItem:two#0", "docItem:two#1"]
    assert list(extend_references((), labels)) == ["docList:one", *several]
    many = extend_references(("docList:old",), [("many", REFERENCES_MAX)])
    assert many == tuple(f"docItem:many#{place}" for place in range(REFERENCES_MAX))
