"""Enrichment of pages: off unless it is on, never in the way, the same every time."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.web import SearchHit, WebFact

from .inside import Page, enrich
from .websites import ARTICLES, FAST, Context, Index, Site, tools


def test_A078_off_nothing_is_enriched_and_on_the_order_changes() -> None:
    """The hook is not called unless it is on; then the best page comes first."""
    called: list[str] = []

    def hook(query: str, pages: Any) -> list[WebFact]:
        called.append(query)
        return [
            WebFact(page.url, 0.1 + 0.2 * number, ("point",), ("Leeds",)) for number, page in enumerate(pages)
        ]

    with Site() as site:
        urls = [site.url(path) for path in ("/rice.html", "/guards.html", "/fsm.html")]
        names = {}
        for switch in (False, hook, True):
            scrape = tools(Index(*urls), enrich=switch)["web.scrape"]
            output = scrape.invoke({"query": "guard on a transition"}, Context())
            names[str(switch)[:5]] = [document.name[3:-3] for document in output.documents]
            if switch is False:
                assert called == [] and list(output.web) == []
            else:
                assert [fact.relevance_score for fact in output.web] == sorted(
                    (fact.relevance_score or 0 for fact in output.web), reverse=True
                )
    assert called == ["guard on a transition"]
    assert list(names.values()) == [
        ["rice", "guards", "fsm"],
        ["fsm", "guards", "rice"],
        ["guards", "rice", "fsm"],
    ]


def test_A078_an_enrichment_that_fails_costs_nothing_but_the_facts() -> None:
    """Pages are there, with a note; facts on other pages are dropped, as many kept as the settings say."""

    def broken(query: str, pages: Any) -> list[WebFact]:
        raise RuntimeError("secret")

    def foreign(query: str, pages: Any) -> list[WebFact]:
        return [WebFact("http://other.org/", 1.0), *(WebFact(page.url, 0.5) for page in pages)]

    with Site() as site:
        index = Index(*(site.url(path) for path in ARTICLES))
        output = tools(index, enrich=broken)["web.scrape"].invoke({"query": "x"}, Context())
        assert len(output.documents) == 4
        assert "the pages could not be enriched (RuntimeError)" in output.notes
        scrape = tools(index, replace(FAST, enrich_top=2), enrich=foreign)["web.scrape"]
        assert len(scrape.invoke({"query": "x"}, Context()).web) == 2


def test_A078_the_built_in_enrichment_is_deterministic() -> None:
    """Score by words, sentences that answer, names that are mentioned; the same every time, also for no pages."""
    text = "It was built in Leeds. The Mealy machine is named after George Mealy. Rice is cooked. George Mealy wrote it."
    pages = [
        Page("http://a/", "Rice", "Rice is cooked with water in a pot.", "text"),
        Page("http://b/", "FSM", text, "text"),
    ]
    first, second = enrich("Who was the Mealy machine named after?", pages)
    assert (first.relevance_score or 0) < (second.relevance_score or 0) == 1.0
    assert second.key_points[0] == "The Mealy machine is named after George Mealy."
    assert {"George Mealy", "Leeds"} <= set(second.entities) and "Mealy" not in second.entities
    assert enrich("Who was the Mealy machine named after?", pages) == [first, second]
    assert enrich("x", []) == []
    assert [fact.relevance_score for fact in enrich("", pages)] == [None, None]


WORDS = ["guard", "guards", "soup", "soups", "rice", "hot", "the"]


@given(
    query=st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join),
    found=st.lists(
        st.tuples(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), st.none() | st.floats(0, 5)),
        max_size=6,
    ),
)
def test_A078_the_order_is_improved_or_left(query: str, found: list[tuple[str, float | None]]) -> None:
    """No page passes one that the search engine rates as high or higher and that has as much of the query; without either, none moves."""
    pages = [Page(f"http://{n}/", "", text, "text", score=score) for n, (text, score) in enumerate(found)]
    shares = [fact.relevance_score for fact in enrich(query, [replace(page, score=None) for page in pages])]
    facts = enrich(query, pages)
    assert all(score is None or 0 <= score <= 1 for score in (*shares, *(f.relevance_score for f in facts)))
    every = all(page.score is not None for page in pages)
    if not every:
        assert [fact.relevance_score for fact in facts] == shares
        return
    for (one, own), (other, theirs) in combinations(zip(facts, shares, strict=True), 2):
        a, b = (pages[int(fact.url[7:-1])].score or 0.0 for fact in (one, other))
        if (own or 0.0) >= (theirs or 0.0) and a >= b:
            assert (one.relevance_score or 0.0) >= (other.relevance_score or 0.0)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        *(
            ("guards", "A guard."),
            ("guard", "Its guards."),
            ("queries", "One query."),
            ("running", "They run."),
        ),
        *(("Bücher", "Ein Buch."), ("Häuser", "Das Haus."), ("ordered", "Orders"), ("états", "Un état.")),
    ],
)
def test_A078_another_form_of_a_word_is_found(query: str, text: str) -> None:
    """Plurals, tenses, accents: the page that has it is the best, and its sentence a key point."""
    pages = [
        Page("http://a/", "Cooking", "Soup is hot, and rice.", "text"),
        Page("http://b/", "", text, "text"),
    ]
    other, best = enrich(query, pages)
    assert (other.relevance_score, best.relevance_score) == (0.0, 1.0)


def test_A078_the_search_engines_own_score_counts() -> None:
    """Where the words decide nothing, it alone does."""
    pages = [
        Page("http://a/", "", "Soup.", "text", score=0.1),
        Page("http://b/", "", "Rice.", "text", score=0.9),
    ]
    assert [fact.relevance_score for fact in enrich("guards", pages)] == [0.1111, 1.0]
    assert [fact.relevance_score for fact in enrich("soup", pages)] == [0.5556, 0.5]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Yes. The firm Siemens AG met on 3 May 2024, a Friday, in Leeds.", ("Siemens AG", "Leeds")),
        ("Home | Our Products | About Us\nHow To Cook Soup\nHere is a Soup; the soup is hot.", ()),
        ("Soup\nSoup Soup is what Soup Soup sells.", ()),
        (
            "Hier ist die Suppe der Stadt. Das Haus und der Garten sind nicht von der Firma Siemens AG in München.",
            ("Firma Siemens AG",),
        ),
    ],
)
def test_A015_entities_are_names(text: str, names: tuple[str, ...]) -> None:
    """No dates, no headings, no doubled words, and not every noun of a language that capitalises them."""
    assert enrich("x", [Page("http://a/", "A title", text, "text")])[0].entities == names


def test_A015_scores_of_the_search_stand_where_nothing_better_is_known() -> None:
    """By URL; a search without scores has none."""
    index = Index(SearchHit("http://example.org/1", "One", "x", 0.25), SearchHit("http://example.org/2"))
    output = tools(index)["web.search"].invoke({"query": "x"}, Context())
    assert list(output.web) == [WebFact("http://example.org/1", 0.25)]
