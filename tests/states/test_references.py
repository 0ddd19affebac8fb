"""References within a document: each is followed as RFC 6901 writes it, and none leads out of the document or round for ever."""

from __future__ import annotations

from typing import Any

import pytest

from paor.states.base.references import pointed, resolved

ROOT: dict[str, Any] = {
    "$defs": {"a/b": {"type": "string"}, "m~n": [1, {"type": "null"}], "ä": 5},
    "one": {"$ref": "#/two"},
    "two": {"$ref": "#/one"},
}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", ROOT),
        ("#/$defs/a~1b/type", "string"),
        ("#/$defs/m~0n/1", {"type": "null"}),
        ("#/$defs/%C3%A4", 5),
        ("#/$defs/m~0n/2", None),
        ("#/$defs/no", None),
        ("#anchor", None),
        ("other.json#/a", None),
    ],
)
def test_a_pointer_is_followed_or_leads_to_nothing(reference: str, found: object) -> None:
    """Escapes, places in lists, percent signs; what leads to nothing says so."""
    if found is None:
        with pytest.raises(LookupError):
            pointed(ROOT, reference)
    else:
        assert pointed(ROOT, reference) == found


def test_a_schema_has_the_keys_of_the_one_that_it_refers_to() -> None:
    """Its own come first; a circle, and what is no object, are empty."""
    assert resolved({"$ref": "#/$defs/a~1b", "title": "A"}, ROOT) == {"type": "string", "title": "A"}
    assert resolved({"$ref": "#/no", "title": "A"}, ROOT) == {"title": "A"}
    assert resolved(ROOT["one"], ROOT) == resolved(True, ROOT) == {}
