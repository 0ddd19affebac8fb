"""Edits by place: neither a moved module nor a renamed helper loses one, and one that is lost names itself."""

from __future__ import annotations

import ast
import random
import re
import tomllib
from functools import cache

import pytest

from ..support.edits import PACKAGE, ROOT, Edit, EditLost, applied, found, sources

TABLES = {
    "docs/guarantees.toml": ("guarantee", "broken"),
    "tests/fuzz/planted_bugs.toml": ("bug", "edits"),
    "tests/simulation/simulated_bugs.toml": ("bug", "edits"),
}
TEXT = """
LIMIT = 3

class Shop:
    def buy(self, count):
        if count <= _most() and count > 0:
            self.log.append(count)
            return "bought"
        return self._refuse(count)

    def _refuse(self, count):
        raise ValueError("too many", count)

def _most():
    return LIMIT
"""
SHOP = {"src/paor/shop.py": TEXT}


@cache
def edits() -> tuple[Edit, ...]:
    """Return the edits of all tables."""
    return tuple(
        Edit.of(edit, item.get("name", item.get("says")))
        for file, (items, inner) in TABLES.items()
        for item in tomllib.loads((ROOT / file).read_text(encoding="utf-8"))[items]
        for edit in item[inner]
    )


def moved(texts: dict[str, str], chance: random.Random) -> dict[str, str]:
    """Return the sources after 20 moves of modules that have edits, each to another folder or under another name."""
    places = {path: path for path in texts}
    for number, path in enumerate(chance.sample(_homes(), 20)):
        folder = chance.choice((path.rpartition("/")[0], f"{PACKAGE}/elsewhere"))
        places[path] = f"{folder}/moved_{number}.py"
    return {places[path]: text for path, text in texts.items()}


def renamed(texts: dict[str, str], chance: random.Random) -> dict[str, str]:
    """Return the sources after private helpers of 20 modules got other names, of the same length so that nothing shifts."""
    now = dict(texts)
    helpers = {path: sorted(set(re.findall(r"\b(?:def|class) (_[a-z]\w+)", now[path]))) for path in _homes()}
    for path in chance.sample([path for path, names in helpers.items() if names], 20):
        for name in chance.sample(helpers[path], min(3, len(helpers[path]))):
            other = "_" + "".join(chance.choice("qxz") for _ in name[1:])
            now[path] = re.sub(rf"\b{name}\b", other, now[path])
    return now


def _homes() -> list[str]:
    return sorted({_home(edit) for edit in edits()})


def _home(edit: Edit) -> str:
    return f"{PACKAGE}/{edit.place.partition(':')[0].replace('.', '/')}.py"


def _assert_all_resolve_in(after: dict[str, str]) -> None:
    """Each edit that what was done can concern resolves to the same node: of one kind, at one line and column."""
    for edit in edits():
        if after.get(_home(edit)) != sources()[_home(edit)]:
            node, now = found(edit, sources())[1], found(edit, after)[1]
            assert (type(now), _position(now)) == (type(node), _position(node)), edit


@pytest.mark.parametrize("seed", [1, 2])
def test_20_moved_modules_lose_no_edit(seed: int) -> None:
    after = moved(sources(), random.Random(seed))
    assert len(sources().keys() - after.keys()) == 20
    _assert_all_resolve_in(after)


@pytest.mark.parametrize("seed", [1, 2])
def test_renamed_helpers_in_20_modules_lose_no_edit(seed: int) -> None:
    after = renamed(sources(), random.Random(seed))
    assert len([path for path, text in after.items() if text != sources()[path]]) == 20
    _assert_all_resolve_in(after)


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(10, 20))
def test_renamed_helpers_in_moved_modules_lose_no_edit(seed: int) -> None:
    chance = random.Random(seed)
    _assert_all_resolve_in(moved(renamed(sources(), chance), chance))


@pytest.mark.whole
def test_every_edit_resolves_wherever_its_module_lies() -> None:
    """By its name alone: no other module of the package has such a place with such a node."""
    for edit in edits():
        away = Edit(f"elsewhere.{edit.place}", edit.at, edit.change, edit.owner)
        assert found(away, sources()) == found(edit, sources())


def _position(node: ast.AST) -> tuple[object, ...]:
    return tuple(
        getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
    )


@pytest.mark.parametrize(
    "at, change, old, new",
    [
        (
            "if count",
            "negate",
            "if count <= _most() and count > 0:",
            "if not (count <= _most() and count > 0):",
        ),
        ("compare <=", "op <", "count <= _most()", "count < _most()"),
        ("compare > 0", "drop", "count <= _most() and count > 0", "count <= _most()"),
        ("statement append", "drop", "            self.log.append(count)\n", ""),
        (
            "statement append",
            "last",
            "self.log.append(count)\n            return 'bought'",
            "return 'bought'\n            self.log.append(count)",
        ),
        ("call append", "be len('x')", "self.log.append(count)", "len('x')"),
        ("return bought", "be None", "'bought'", "None"),
        ("call ValueError", "text too many -> too few", "too many", "too few"),
        ("raise ValueError", "return 7", "raise ValueError('too many', count)", "return 7"),
        ("name LIMIT", "name count", "return LIMIT", "return count"),
        ("and count", "only compare >", "count <= _most() and count > 0", "count > 0"),
    ],
)
def test_a_change_changes_its_node_alone(at: str, change: str, old: str, new: str) -> None:
    """Private helpers that the place reaches are searched as well."""
    whole = ast.unparse(ast.parse(TEXT)) + "\n"
    (text,) = applied([Edit("shop:Shop.buy", at, change)], SHOP).values()
    assert whole.count(old) == 1
    assert text == whole.replace(old, new)


@pytest.mark.parametrize(
    "edit, why",
    [
        (Edit("shop:Shop.buy", "name count", "be 1", "SHOP-7"), "it matches 5 in src/paor/shop.py"),
        (Edit("shop:Shop.buy", "call sell", "drop", "SHOP-7"), "it matches none"),
        (Edit("shop:Shop.sell", "call append", "drop", "SHOP-7"), "no other one defines `Shop.sell`"),
        (Edit("gone:sell", "call append", "drop", "SHOP-7"), "no other one defines `sell`"),
        (Edit("shop:Shop.buy", "and count", "only name", "SHOP-7"), "exactly one node within"),
        (Edit("shop:Shop.buy", "call append", "be self._log", "SHOP-7"), "does not know _log"),
        (Edit("shop:Shop.buy", "call append", "be price", "SHOP-7"), "does not know price"),
        (Edit("shop:Shop.buy", "call ValueError", "text nothing -> x", "SHOP-7"), "the text must be there"),
    ],
)
def test_an_edit_that_does_not_apply_names_itself(edit: Edit, why: str) -> None:
    """With what it belongs to, its place, and what was looked for."""
    with pytest.raises(EditLost) as lost:
        applied([edit], SHOP)
    said = str(lost.value)
    assert said.startswith("SHOP-7: ") and edit.place in said and edit.at in said
    assert why in said


def test_a_name_that_several_modules_define_is_taken_where_the_selector_matches() -> None:
    """Two that match are refused."""
    other = "def sell(count):\n    return count + 1\n"
    texts = SHOP | {"src/paor/market.py": other}
    assert list(applied([Edit("gone:sell", "sum count", "op -")], texts)) == ["src/paor/market.py"]
    with pytest.raises(EditLost, match=r"1 in src/paor/market\.py, 1 in src/paor/stall\.py"):
        applied([Edit("gone:sell", "sum count", "op -")], texts | {"src/paor/stall.py": other})
