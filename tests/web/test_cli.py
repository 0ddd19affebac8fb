"""``--web`` on the command line: nothing is offered or asked without it, and a run that had it needs it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from paor import Engine, Policy, ScriptedModel, web_tools

from ..support.cli_support import (
    SELECT,
    STOP,
    SUCCESS,
    Shell,
)
from .websites import Site

FOUND = {
    "results": [{"title": "Guards", "url": "http://example.org/guards", "content": "A guard is a condition."}]
}
SEARCHED: list[Any] = [SELECT | {"action": "web.search"}, {"parameters": {"query": "guards"}}, STOP, SUCCESS]


@pytest.fixture
def searx(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A SearXNG server that the environment names."""
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    with Site({"/search": lambda visit: visit.json(FOUND)}) as site:
        monkeypatch.setenv("SEARXNG_URL", site.url())
        yield site


@pytest.mark.parametrize("route", ["option", "JSON"])
def test_run_with_web_offers_the_tools_and_asks_the_search(shell: Shell, searx: Site, route: str) -> None:
    """By option and by JSON alike; the search of the environment is asked, and its results kept."""
    given = ("--web",) if route == "option" else ("--input", json.dumps({"web": True}))
    said = shell("run", "Write it", "--model", shell.script(*SEARCHED), *given, "--json")
    assert said.code == 0, said.err
    assert said.json["documents"][0]["name"] == "results.md"
    assert len(searx.visits) == 1
    assert "http://example.org/guards" in str(shell.sql("SELECT body FROM payloads"))


def test_without_web_nothing_is_offered_and_nothing_asked(shell: Shell, searx: Site) -> None:
    """The name is unknown to the run; a model that wants it gets nowhere."""
    said = shell.run(replies=[SEARCHED[0], SEARCHED[0]])
    assert said.code == 1 and "selection_invalid" in said.err + said.out
    shell("run", "x", "--tools", "web.search").refused("unknown tool 'web.search'")
    assert searx.visits == []


def test_tools_with_web_lists_them(shell: Shell) -> None:
    """Without asking anything; not beside an app, which has its own."""
    names = [tool["name"] for tool in shell("tools", "--web", "--json").json]
    assert names[:3] == ["web.search", "web.scrape", "web.crawl"]
    assert "web." not in shell("tools").out
    assert "web.crawl(documentList, extractDepth, format)" in shell("tools", "--web").out


def test_a_run_that_had_the_web_goes_on_with_it_only(shell: Shell, searx: Site) -> None:
    """Its journal alone does not open the network; nor does a search without its address."""
    policy = Policy(approvals=("web.*",))
    with Engine(model=ScriptedModel(SEARCHED), tools=web_tools(), journal="paor.db", policy=policy) as engine:
        assert engine.run("Write it").status == "waiting"
    model = shell.script(*SEARCHED)
    given = ("resume", "last", "--answer", '{"approve": true}', "--model", model)
    shell(*given).refused("web.search, web.scrape, web.crawl", "--web")
    assert searx.visits == []
    assert shell(*given, "--web").code == 0
    assert len(searx.visits) == 1


def test_doctor_names_the_search_and_never_the_key(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the three it would be; nothing is asked."""
    for name in ("TAVILY_API_KEY", "SEARXNG_URL"):
        monkeypatch.delenv(name, raising=False)

    def told() -> str:
        return next(
            str(item["text"]) for item in shell("doctor", "--json").json["findings"] if item["name"] == "web"
        )

    assert told().startswith("searches with ddgs, which needs no key")
    monkeypatch.setenv("SEARXNG_URL", "not an address")
    assert "searxng: its address must be a URL" in told()
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-secret")
    assert told().startswith("searches with tavily") and "secret" not in told()
