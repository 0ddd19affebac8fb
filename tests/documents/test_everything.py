"""Whatever a document holds is in its text or is named in its notes: the table of docs/documents.md, format by format."""

from __future__ import annotations

import io
import re
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ..support.effort import examples
from .everything import FEATURES, FORMATS, MAKERS, PLAIN, packed
from .inside import Converted, convert


def read(form: str, features: set[str]) -> Converted:
    """Return the text of a document of a format that holds *features*."""
    return convert(f"a.{form}", MAKERS[form](features))


def problems(form: str, features: set[str]) -> list[str]:
    """Return what is not as the table says in a document that holds just *features*."""
    found = read(form, features)
    wrong = [] if PLAIN in found.text else ["the plain sentence is lost"]
    for name, told in FORMATS[form].items():
        for key, there in (
            ("shown", told.get("shown", "\0") in found.text),
            ("noted", any(note.startswith(told.get("noted", "\0")) for note in found.notes)),
        ):
            if key in told and there != (name in features):
                wrong.append(f"{name} is {'' if there else 'not '}{key}")
    return wrong


@pytest.mark.parametrize("form", ["docx", "xlsx", "pptx"])
def test_the_strict_form_of_an_office_file_reads_as_the_usual_one(form: str) -> None:
    """Its namespaces are others (ISO 29500); programs save it on request."""
    usual = MAKERS[form](set(FORMATS[form]))
    with zipfile.ZipFile(io.BytesIO(usual)) as archive:
        parts = {
            name: re.sub(
                rb"http://schemas.openxmlformats.org/(?!package|markup)(\w+)/2006/",
                rb"http://purl.oclc.org/ooxml/\1/",
                archive.read(name),
            )
            for name in archive.namelist()
        }
    strict = packed({**parts})
    assert strict != usual
    assert convert(f"a.{form}", strict) == convert(f"a.{form}", usual)


def test_the_table_is_about_every_format_and_feature() -> None:
    """And has nothing of which nobody knows what becomes of it."""
    assert FORMATS.keys() == MAKERS.keys()
    assert all(
        told.keys() <= {"shown", "noted"} and told for form in FORMATS.values() for told in form.values()
    )
    assert {name for form in FORMATS.values() for name in form} == set(FEATURES)


@pytest.mark.parametrize("form", FORMATS)
def test_a_document_that_holds_everything_loses_nothing_in_silence(form: str) -> None:
    """Each of its parts is where the table says, all of them together and each by itself."""
    every = set(FORMATS[form])
    assert problems(form, every) == []
    assert {name: found for name in every if (found := problems(form, {name}))} == {}
    assert problems(form, set()) == []


@settings(deadline=None, max_examples=examples(40))
@given(
    st.sampled_from(sorted(FORMATS)).flatmap(
        lambda form: st.tuples(st.just(form), st.sets(st.sampled_from(sorted(FORMATS[form]))))
    )
)
def test_any_document_says_what_it_holds_and_nothing_else(made: tuple[str, set[str]]) -> None:
    """A note on what is not there is as wrong as one that is missing."""
    assert problems(*made) == []
