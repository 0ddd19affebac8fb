"""The web tools in real runs: what the catalog says, what is filled, observed, refused and kept in the journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paor import Journal, Limits, Policy, Profile, replay, web_tools
from paor.web import SearchHit, WebFact

from ..support.recording import World, observation, text_of
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS
from .inside import TavilySearch
from .websites import ARTICLES, FAST, LOCAL, Index, Site

TEN = "query,maxResults,searchDepth,timeRange,topic,includeDomains,excludeDomains,language,includeAnswer,includeRawContent"
LINES = (
    f"web.search({TEN})",
    f"web.scrape({TEN},extractDepth,format)",
    "web.crawl(documentList,extractDepth,format)",
)
KEY = "tvly-secret-0123456789"


def step(name: str, **values: Any) -> list[dict[str, Any]]:
    """Return the replies that call a web tool with *values*."""
    return [SELECT(name, parametersSchema=None), PARAMETERS(**values)]


def world(folder: Path, script: list[Any], index: Any, *, policy: Policy = LOCAL, **options: Any) -> World:
    """Return an engine with the web tools."""
    found = web_tools(index, settings=FAST, enrich=options.pop("enrich", False))
    return World(folder, script, found, policy=policy, **options)


def intents(run: World) -> list[dict[str, Any]]:
    """Return the arguments of every call, as the journal holds them."""
    rows = [row for row in run.rows if row.trigger == "specify"]
    bodies = [str(run.journal.payload(row.run, row.change["n"]).body) for row in rows]
    return [json.loads(body)["intent"]["arguments"] for body in bodies]


def test_A020_A021_A022_A023_the_catalog_has_the_documents_lines(tmp_path: Path) -> None:
    """Word for word, in their order; and without the tools none of them, so that nothing is offered unasked."""
    forms = ((Profile(catalog="names"), "\n"), (Profile(catalog="described"), ": "))
    for profile, end in forms:
        with world(
            tmp_path / profile.catalog, [*step("web.search", query="x"), STOP, SUCCESS], Index()
        ) as run:
            run.run(profile=profile, documents=[("a.txt", "https://example.org/")])
            shown = text_of(run.model.calls[0])
        for line in LINES:
            assert f"- {line}{end}" in f"{shown}\n"
    with World(tmp_path / "b", [*step("web.search", query="x")], (), builtins=True) as plain:
        plain.run(documents=[("a.txt", "A")])
        assert "- ai.process(" in text_of(plain.model.calls[0])
        assert "- web." not in text_of(plain.model.calls[0])


OBJECTIVES = {
    "Compare the latest guards of state machines": ("advanced", "month"),
    "Look up what a guard is": ("basic", None),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", ["web.search", "web.scrape"])
def test_A033_A034_A035_depth_language_and_window_are_filled(
    tmp_path: Path, objective: str, name: str
) -> None:
    """Advanced for an analysis, a window only for what is new, the run's language; what is given stays."""
    index = Index("http://nowhere.invalid/")
    script = [*step(name, query="guards"), CONTINUE]
    script += [
        *step(name, query="rules", searchDepth="basic", timeRange="year", language="fr"),
        STOP,
        SUCCESS,
    ]
    with world(tmp_path, script, index) as run:
        run.run(objective, language="de")
        filled, given = intents(run)
    depth, window = OBJECTIVES[objective]
    assert (filled["searchDepth"], filled.get("timeRange"), filled["language"]) == (depth, window, "de")
    assert filled.get("extractDepth") == (depth if name == "web.scrape" else None)
    assert (given["searchDepth"], given["timeRange"], given["language"]) == ("basic", "year", "fr")
    assert [(query.depth, query.time_range, query.language) for query in index.asked] == [
        (depth, window, "de"),
        ("basic", "year", "fr"),
    ]


def test_A031_a_providers_own_parameter_is_left_out(tmp_path: Path) -> None:
    """What only one search knows is no parameter: it reaches neither the journal's call nor the search, and is counted."""
    index = Index("http://nowhere.invalid/")
    script = [*step("web.search", query="x", include_images=True, auto_parameters=True), STOP, SUCCESS]
    with world(tmp_path, script, index) as run:
        assert run.run().state == "Done"
        assert [row.outcome["dropped"] for row in run.rows if row.trigger == "specify"] == [2]
        (arguments,) = intents(run)
    assert arguments["query"] == "x" and not {"include_images", "auto_parameters"} & set(arguments)
    assert [query.query for query in index.asked] == ["x"]


def test_A031_a_providers_own_parameter_is_refused_by_the_strict_profile(tmp_path: Path) -> None:
    """What only one search knows is no parameter."""
    index = Index()
    field = {"name": "query", "type": "string", "required": True, "description": "what to look for"}
    keys: dict[str, Any] = {name: [] for name in ("learnings", "requiredInputDocuments")}
    keys |= {"requiredConnection": None, "parametersContext": "", "parametersSchema": {"fields": [field]}}
    script = [
        SELECT("web.search", **keys),
        PARAMETERS(query="x", include_images=True),
        PARAMETERS(query="x", auto_parameters=True),
    ]
    with world(tmp_path, [*script, STOP, SUCCESS], index) as run:
        run.run(profile="strict")
        seen = observation(run)
    assert not seen["success"] and "invalid_parameters" in seen["notes"][0]
    assert index.asked == []


def test_A031_a_crawl_reads_what_a_search_found_and_a_report_what_was_read(tmp_path: Path) -> None:
    """Each step names the label of the one before; replayed identical with the site gone."""
    with Site() as site:
        index = Index(
            *(SearchHit(site.url(path), ARTICLES[path][0]) for path in ("/fsm.html", "/guards.html"))
        )
        found, read = ("docList:round1_task1_action1_search", "docList:round1_task1_action2_pages")
        script = [
            *step("web.search", query="state machines"),
            CONTINUE,
            SELECT("web.crawl", parametersSchema=None, requiredInputDocuments=[found]),
            PARAMETERS(format="text"),
            CONTINUE,
            SELECT("document.generateReport", parametersSchema=None, requiredInputDocuments=[read]),
            PARAMETERS(title="Machines"),
            STOP,
            SUCCESS,
        ]
        with world(tmp_path, script, index, builtins=True) as run:
            result = run.run("Look up state machines")
            texts = [str(document.read()) for document in result.documents]
            run_id, path = run.run_id, run.path
    assert (result.state, len(texts)) == ("Done", 4)
    assert "exactly one state" in texts[1] and "guard holds" in texts[2]
    assert texts[3].startswith("# Machines") and "exactly one state" in texts[3]
    with Journal(path) as journal:
        assert replay(journal, run_id).identical


@pytest.mark.parametrize("enrich", [False, True])
def test_A015_A078_A079_facts_of_pages_stand_in_the_observation(tmp_path: Path, enrich: bool) -> None:
    """On: the best three of ten with relevance, points and names. Off: no such key, and nobody asked for it."""
    called: list[int] = []

    def hook(query: str, pages: Any) -> list[WebFact]:
        called.append(len(pages))
        return [
            WebFact(page.url, number / 10, (f"point {number}",), ("Leeds",))
            for number, page in enumerate(pages)
        ]

    index = Index(*(SearchHit(f"http://example.org/{number}", "T", "text") for number in range(10)))
    script = [*step("web.search", query="x", maxResults=10), STOP, SUCCESS]
    options: dict[str, Any] = {"limits": Limits(previews=3), "enrich": hook if enrich else False}
    with world(tmp_path, script, index, **options) as run:
        run.run()
        seen = observation(run)
        assert replay(run.journal, run.run_id).identical
    if not enrich:
        assert "web" not in seen and called == []
        return
    assert called == [10]
    assert [fact["relevance_score"] for fact in seen["web"]] == [0.9, 0.8, 0.7]
    assert seen["web"][0]["key_points"] == ["point 9"] and seen["web"][0]["entities"] == ["Leeds"]
    assert "http://example.org/9" in seen["previews"][0]["snippet"].partition("##")[2].partition("##")[0]


UNSAFE = (
    {"query": "http://127.0.0.1:8080/admin"},
    {"query": "http://2130706433/"},
    {"query": "file:///etc/passwd"},
    {"query": "javascript:alert(1)"},
    {"query": "x", "includeDomains": ["http://[::ffff:10.0.0.1]/"]},
)


@pytest.mark.parametrize("values", UNSAFE, ids=lambda values: next(iter(values.values())))
def test_A092_an_unsafe_url_is_refused_before_the_tool_starts(tmp_path: Path, values: dict[str, Any]) -> None:
    """With a reason, and without a request; the same text under another policy is no matter of the model's."""
    index = Index()
    with world(
        tmp_path, [*step("web.scrape", **values), PARAMETERS(**values), STOP, SUCCESS], index, policy=Policy()
    ) as run:
        run.run()
        seen = observation(run)
        assert "execute" not in run.triggers
    assert not seen["success"] and "unsafe_parameters" in seen["notes"][0]
    assert index.asked == []


def test_A092_the_runs_own_policy_holds_for_what_a_search_finds(tmp_path: Path) -> None:
    """A result on a private host is dropped, and one that resolves to it not read, whatever the model wants."""
    with Site() as site:
        index = Index(site.url("/fsm.html"), f"http://localhost:{site.port}/fsm.html")
        script = [*step("web.scrape", query="machines"), STOP, SUCCESS]
        with world(tmp_path / "closed", script, index, policy=Policy()) as run:
            run.run()
            assert observation(run)["documentsCount"] == 0
        assert site.visits == []
        with world(tmp_path / "open", script, index, policy=LOCAL) as run:
            run.run()
            assert observation(run)["documentsCount"] == 2


@pytest.mark.parametrize("status", [200, 401, 500])
def test_no_key_in_any_byte_of_a_journal(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not in the file, its log, the events, the log lines or the result; also when the server repeats the key."""
    caplog.set_level(0)
    echo = {
        "results": [{"url": "http://example.org/", "title": KEY, "content": KEY}],
        "detail": KEY,
        "answer": KEY,
    }
    events: list[Any] = []
    with Site({"/search": lambda visit: visit.json(echo, status=status)}) as site:
        found = web_tools(TavilySearch(KEY, site.url()), settings=FAST)
        script = [*step("web.search", query="x", includeAnswer=True), STOP, SUCCESS]
        with World(tmp_path, script, found, hooks=[events.append]) as run:
            result = run.run()
            assert run.journal.export(run.run_id)
        assert site.visits[0][2]["Authorization"] == f"Bearer {KEY}"
    written = b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file())
    assert written and KEY.encode() not in written
    output = capfd.readouterr()
    for text in (repr(events), repr(result), caplog.text, output.out, output.err, repr(found)):
        assert KEY not in text
