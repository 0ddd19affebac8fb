"""Enrichment of pages: off unless it is on, never in the way, the same every time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    assert enrich("", pages)[0].relevance_score == 0.0


def test_A015_scores_of_the_search_stand_where_nothing_better_is_known() -> None:
    """By URL; a search without scores has none."""
    index = Index(SearchHit("http://example.org/1", "One", "x", 0.25), SearchHit("http://example.org/2"))
    output = tools(index)["web.search"].invoke({"query": "x"}, Context())
    assert list(output.web) == [WebFact("http://example.org/1", 0.25)]
