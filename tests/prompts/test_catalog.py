"""The catalog: one tool under all its spellings, lines of names only, defaults that code fills."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.errors import UsageError
from paor.tools.catalog import Catalog, fold_name
from paor.tools.schema.parameters import SchemaError

from ..support.cases import ToolSpec


def named(name: str, *properties: str, required: tuple[str, ...] = (), **details: Any) -> ToolSpec:
    """Return a tool with these parameters."""
    schema = {
        "type": "object",
        "properties": {key: {} for key in properties} | details,
        "required": list(required),
    }
    return ToolSpec(name=name, description="A long description.", parameters=schema)


@given(
    parts=st.lists(st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True), min_size=2, max_size=4),
    separators=st.lists(st.sampled_from([".", "_", ":", "/", "-", "__", "._"]), min_size=3, max_size=3),
    upper=st.booleans(),
)
def test_A166_every_spelling_finds_the_same_tool(
    parts: list[str], separators: list[str], upper: bool
) -> None:
    """Separators, case and spaces around do not matter; another word does."""
    name = ".".join(parts)
    spelling = "".join(part + separator for part, separator in zip(parts, [*separators, ""], strict=False))
    spelling = spelling.rstrip("._:/-")
    if len(parts) == 4:
        spelling = parts[0] + "".join(sep + part for sep, part in zip(separators, parts[1:], strict=True))
    catalog = Catalog([named(name)])
    found = catalog.find(f" {spelling.upper() if upper else spelling}\n")
    assert found is not None and found.name == name
    assert fold_name(found.name) == fold_name(spelling) == fold_name(fold_name(spelling))
    assert catalog.find(spelling + "x") is None


@pytest.mark.parametrize("name", ["", ".", "a", "notes", "notes.reads", "note.s.read2", "read.notes"])
def test_what_is_no_tool_is_not_found(name: str) -> None:
    """Nothing is found by resemblance."""
    assert Catalog([named("notes.read")]).find(name) is None


@pytest.mark.parametrize("pair", [("notes.read", "notes_read"), ("notes.read", "Notes.Read"), ("a.b", "a.b")])
def test_A166_two_tools_of_one_name_are_refused(pair: tuple[str, str]) -> None:
    """One of them could never be meant."""
    with pytest.raises(UsageError, match="same name"):
        Catalog([named(name) for name in pair])


def test_a_catalog_is_described_by_itself_while_it_is_small() -> None:
    """Up to 2,000 characters; beyond that names only, unless the host wants descriptions."""
    tools = [named(f"a.t{number:02}") for number in range(74)]
    size = len("a.t00(): A long description.")
    for count, is_told in ((2_000 // size, True), (2_000 // size + 1, False)):
        catalog = Catalog(tools[:count])
        told = [f"{line}: A long description." for line in catalog.lines()]
        assert catalog.lines(form="auto") == (told if is_told else catalog.lines())
        assert catalog.lines(form="described") == told


def test_a_schema_that_is_none_is_refused() -> None:
    """When the catalog is built, not when the tool is called."""
    with pytest.raises(SchemaError):
        Catalog([ToolSpec(name="a.b", parameters={"type": "array"})])
