"""The catalog: one tool under all its spellings, lines of names only, defaults that code fills."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.errors import UsageError
from paor.states.run.spec import ToolSpec
from paor.tools.catalog import Catalog, fold_name
from paor.tools.defaults import fill_defaults
from paor.tools.schema.parameters import ParameterSchema, SchemaError

from ..support.cases import spec


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


def test_A020_lines_hold_names_in_order_and_nothing_else() -> None:
    """No types, descriptions, defaults or marks; the order of tools and parameters is kept."""
    catalog = Catalog(
        [
            named("b.two", "z", "a", required=("a",)),
            named("a.one"),
            named("c.three", only={"type": "string", "description": "secret", "default": "x"}),
        ]
    )
    assert catalog.lines() == ["b.two(z,a)", "a.one()", "c.three(only)"]
    assert [tool.name for tool in catalog] == ["b.two", "a.one", "c.three"]
    assert len(catalog) == 3 and len(Catalog([])) == 0


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


# -- defaults ------------------------------------------------------------------------------------------------------


def fill(tool: ToolSpec, arguments: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Fill *arguments* of *tool* for a run in German."""
    before = dict(arguments)
    result = fill_defaults(spec(language="de", **changes), tool, ParameterSchema(tool.parameters), arguments)
    assert arguments == before, "the model's own values are not changed"
    return result


def test_A033_A075_the_language_is_filled_where_a_tool_takes_one() -> None:
    """Only an optional one that is missing; an explicit one is kept, null as well."""
    tool = named("a.b", "language", "text")
    assert fill(tool, {}) == {"language": "de"}
    assert fill(tool, {"language": "fr"}) == {"language": "fr"}
    assert fill(tool, {"language": None}) == {"language": None}
    assert fill(named("a.b", "text"), {}) == {}
    assert fill(named("a.b", "language", required=("language",)), {}) == {}


def test_A036_A076_only_ai_process_writes_markdown_by_default() -> None:
    """Explicit formats are kept, an empty list as well; other tools with such a parameter get nothing."""
    process = named("ai.process", "expectedDocumentFormats")
    assert fill(process, {}) == {"expectedDocumentFormats": ["md"]}
    for formats in (["json"], ["csv"], []):
        assert fill(process, {"expectedDocumentFormats": formats}) == {"expectedDocumentFormats": formats}
    assert fill(named("ai.other", "expectedDocumentFormats"), {}) == {}
    required = named("ai.process", "expectedDocumentFormats", required=("expectedDocumentFormats",))
    assert fill(required, {}) == {}


def test_the_runs_defaults_come_before_the_schemas_own() -> None:
    """A schema's default language does not override the run's; its other defaults are filled."""
    tool = named("a.b", language={"type": "string", "default": "en"}, depth={"type": "integer", "default": 2})
    assert fill(tool, {}) == {"language": "de", "depth": 2}


@given(
    given_values=st.dictionaries(
        st.sampled_from(["language", "depth", "text"]), st.integers() | st.none() | st.text()
    ),
    required=st.lists(st.sampled_from(["language", "depth", "text"]), unique=True),
)
def test_A077_what_is_given_stays_and_what_is_required_is_never_filled(
    given_values: dict[str, Any], required: list[str]
) -> None:
    """For any arguments: they are a part of the result, and a missing required one stays missing; twice is once."""
    tool = named("a.b", "language", "text", required=tuple(required), depth={"default": 2})
    result = fill(tool, given_values)
    assert given_values.items() <= result.items()
    assert not (set(required) - given_values.keys()) & result.keys()
    assert fill(tool, result) == result
