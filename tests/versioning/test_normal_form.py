"""The normal form of one definition: what it is called inside does not count, what it does counts."""

from __future__ import annotations

import ast

from paor.fsm.versioning.normal_form import Origin, Outside, Piece, Place, normal_form

TEXT = "def total(numbers):\n    found = 0\n    for one in numbers:\n        found += one\n    return found\n"


def pieces(text: str) -> list[Piece]:
    """Return the form of a text's definitions."""
    return normal_form(ast.parse(text).body, "shop", _Names()).pieces


class _Names:
    """A package that has nothing in it."""

    def imported(self, module: str, statement: ast.Import | ast.ImportFrom) -> dict[str, Origin]:
        return {}

    def member(self, module: str, name: str) -> Origin:
        return Outside(name)

    def parameters(self, place: Place) -> list[str]:
        return []


def test_local_variables_do_not_count_by_their_names() -> None:
    assert pieces(TEXT) == pieces(TEXT.replace("found", "sum_of_all").replace("one", "each"))


def test_which_variable_is_used_counts() -> None:
    assert pieces(TEXT) != pieces(TEXT.replace("return found", "return one"))
