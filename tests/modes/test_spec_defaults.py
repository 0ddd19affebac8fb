"""Defaults that code fills: language, depth and time window, each seen where a tool gets it and the journal keeps it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Policy, Tool, replay
from paor.errors import UsageError
from paor.states.run.spec import REVISION, Spec, ToolSpec
from paor.tools.defaults import FILLED, WINDOWS, depth, fill_defaults, time_window
from paor.tools.schema.parameters import ParameterSchema

from ..support.recording import World, sections
from ..support.worlds import PARAMETERS, SELECT, STOP, SUCCESS

TEXT: dict[str, Any] = {"type": "string"}
SEARCH = {
    "query": TEXT,
    "maxResults": {"type": "integer"},
    "searchDepth": {"enum": ["basic", "advanced"]},
    "timeRange": {"enum": list(WINDOWS)},
    "topic": TEXT,
    "language": TEXT,
    "extractDepth": {"enum": ["basic", "advanced"]},
}


def searching(
    calls: list[dict[str, Any]],
    properties: dict[str, Any] = SEARCH,
    required: tuple[str, ...] = ("query",),
    filled: Sequence[str] = tuple(sorted(FILLED)),
) -> Tool:
    """Return a host's ``web.search`` with the documents' parameter names, which asks for the defaults and keeps its arguments."""

    def run(**arguments: Any) -> str:
        calls.append(arguments)
        return "found"

    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name="web.search", parameters=schema, run=run, effect="read", filled=filled)


def searched(
    folder: Path,
    objective: str,
    criteria: tuple[str, ...] = (),
    *,
    values: dict[str, Any] | None = None,
    properties: dict[str, Any] = SEARCH,
    required: tuple[str, ...] = ("query",),
    filled: Sequence[str] = tuple(sorted(FILLED)),
    **options: Any,
) -> dict[str, Any]:
    """Run *objective* with one search; return the arguments that its intent row holds, which the tool got."""
    calls: list[dict[str, Any]] = []
    values = {"query": "x"} if values is None else values
    script = [SELECT("web.search", parametersSchema=None), PARAMETERS(**values), STOP, SUCCESS]
    policy = options.pop("policy", None)
    with World(folder, script, [searching(calls, properties, required, filled)], policy=policy) as world:
        assert world.run(objective, criteria, **options).state == "Done"
        row = next(row for row in world.rows if row.trigger == "specify")
        change = json.loads(str(world.journal.payload(row.run, row.change["n"]).body))
        assert calls == [change["intent"]["arguments"]]
        assert replay(world.journal, world.run_id).identical
        world.model.assert_all_used()
    return calls[0]


FRESH = {
    "the latest news about fusion": "week",
    "headlines of this year": "year",
    "prices of the last 24 hours": "day",
    "the current exchange rate": None,
    "the current rates of the central bank": "month",
    "Was sind die aktuellen Strompreise?": "month",
    "les dernières nouvelles sur le climat": "month",
    "¿Qué ha pasado hoy?": "day",
    "le ultime novità sui trasporti": "month",
    "as notícias recentes do Brasil": "week",
    "het laatste nieuws over de verkiezingen": "week",
}
TIMELESS = [
    "history of Rome",
    "Deliver by Friday at the latest",
    "measure the current in the circuit",
    "Aktualisiere die Liste",
    "Was steht hier im Vertrag?",
    "het contract dat hier staat",
    "the actual owner of the house",
    "news agencies of the 19th century",
    "list the breaking changes and write a headline",
]


@pytest.mark.parametrize("objective", FRESH)
def test_A035_C4_30_freshness_is_found_in_several_languages(objective: str) -> None:
    """A day, a week, a month or a year, by the words of the objective or of a criterion, always the same."""
    window = FRESH[objective]
    assert time_window(objective, ()) == window
    assert time_window(objective.upper(), ()) == window, "case does not matter"
    assert time_window("Answer the question", (objective,)) == window


@pytest.mark.parametrize("objective", TIMELESS)
def test_A035_C4_30_what_asks_for_nothing_new_implies_no_window(objective: str) -> None:
    """Also where a word means something else in another language."""
    assert time_window(objective, ()) is None


def test_A035_the_widest_window_that_is_named_counts() -> None:
    """Nothing that was asked for is cut off; a named span wins over a mere word of recency."""
    assert time_window("news of today and of this month", ()) == "month"
    assert time_window("the latest figures", ("covers the last 6 months",)) == "year"


@given(objective=st.text(max_size=200), criteria=st.lists(st.text(max_size=50), max_size=3))
def test_A034_A035_C4_30_any_text_gets_known_values(objective: str, criteria: list[str]) -> None:
    """No text breaks the words' tables, and the same text gets the same values."""
    window = time_window(objective, tuple(criteria))
    assert window is None or window in WINDOWS
    assert depth(objective, tuple(criteria)) in ("basic", "advanced")
    assert time_window(objective, tuple(criteria)) == window


@pytest.mark.parametrize(
    ("objective", "window"), [("history of Rome", None), ("latest news of Rome", "week")]
)
def test_A029_A035_a_time_window_reaches_the_tool_only_where_it_is_implied(
    tmp_path: Path, objective: str, window: str | None
) -> None:
    """The rule is in the prompt, and code follows it when the model leaves the window out."""
    arguments = searched(tmp_path, objective)
    assert arguments.get("timeRange") == window
    assert ("timeRange" in arguments) is (window is not None)


def test_A035_criteria_imply_freshness_too(tmp_path: Path) -> None:
    """The objective alone asks for nothing new."""
    assert searched(tmp_path, "Write about Rome", ("quotes this week's papers",))["timeRange"] == "week"


@pytest.mark.parametrize("given_value", ["year", "day"])
def test_A035_an_explicit_window_is_kept(tmp_path: Path, given_value: str) -> None:
    """What the model sets is not corrected."""
    found = searched(tmp_path, "latest news", values={"query": "x", "timeRange": given_value})
    assert found["timeRange"] == given_value


DEPTHS = {
    "Compare the three offers": "advanced",
    "the capital of France": "basic",
    "Vergleiche die Tarife": "advanced",
    "die Hauptstadt von Frankreich": "basic",
    "une étude approfondie du marché": "advanced",
    "un análisis del mercado": "advanced",
    "un'analisi del mercato": "advanced",
    "uma análise do mercado": "advanced",
    "Vergelijk de aanbiedingen": "advanced",
}


@pytest.mark.parametrize("objective", DEPTHS)
def test_A034_C4_30_depth_is_advanced_for_analyses_and_basic_for_look_ups(objective: str) -> None:
    """By words of seven languages."""
    assert depth(objective, ()) == depth(objective.upper(), ()) == DEPTHS[objective]


@pytest.mark.parametrize(
    ("task_type", "expected"),
    [("lookup", "basic"), ("analysis", "advanced"), ("other", "advanced"), (None, "advanced")],
)
def test_A034_a_task_type_that_says_which_it_is_wins(
    tmp_path: Path, task_type: str | None, expected: str
) -> None:
    """A look-up stays shallow although its words speak of a comparison."""
    found = searched(tmp_path, "Compare the offers", task_type=task_type, policy=Policy())
    assert (found["searchDepth"], found["extractDepth"]) == (expected, expected)


def test_A034_an_explicit_depth_is_kept_and_the_other_is_filled(tmp_path: Path) -> None:
    """Each parameter on its own."""
    found = searched(tmp_path, "the capital of France", values={"query": "x", "searchDepth": "advanced"})
    assert (found["searchDepth"], found["extractDepth"]) == ("advanced", "basic")


def test_A033_A034_A035_a_tool_that_takes_none_of_it_gets_none_of_it(tmp_path: Path) -> None:
    """Nothing is added that a schema does not know."""
    found = searched(tmp_path, "latest news, analysed", properties={"query": TEXT})
    assert found == {"query": "x"}


def test_A033_A034_A035_a_value_that_the_tool_would_refuse_is_not_filled(tmp_path: Path) -> None:
    """A default must not make a good call a bad one; the parameter is left to the function."""
    properties = {
        "query": TEXT,
        "language": {"enum": ["en", "fr"], "default": "fr"},
        "searchDepth": {"enum": ["fast", "deep"]},
        "timeRange": {"type": "integer", "default": 7},
    }
    found = searched(tmp_path, "latest news", properties=properties, language="de")
    assert found == {"query": "x"}


@pytest.mark.parametrize("name", ["language", "timeRange", "searchDepth", "extractDepth"])
def test_A034_a_tool_is_filled_only_where_it_asks_for_it(tmp_path: Path, name: str) -> None:
    """A parameter of the same name that is about something else keeps what its function has for it."""
    asked: dict[str, Any] = {"objective": "Analyse the latest news", "language": "de"}
    assert searched(tmp_path / "no", filled=(), **asked) == {"query": "x"}
    assert searched(tmp_path / "yes", filled=(name,), **asked).keys() == {"query", name}


@pytest.mark.parametrize("filled", [["query"], "language", [["language"]], 3], ids=str)
def test_only_what_the_run_has_can_be_asked_for(filled: Any) -> None:
    """When the tool is made."""
    with pytest.raises(UsageError, match="filled knows"):
        searching([], filled=filled)


def test_A077_required_parameters_are_not_filled_by_the_run(tmp_path: Path) -> None:
    """The model has to say them, whatever the words imply."""
    calls: list[dict[str, Any]] = []
    bare = PARAMETERS(query="x")
    full = PARAMETERS(query="x", timeRange="year", searchDepth="basic", language="fr")
    script = [SELECT("web.search", parametersSchema=None), bare, full, STOP, SUCCESS]
    search = searching(calls, required=("query", "timeRange", "searchDepth", "language"))
    with World(tmp_path, script, [search]) as world:
        world.run("latest news, analysed", language="de")
        feedback = sections(world.model.of("parameters")[1])["Your last reply could not be used"]
        assert [name in feedback for name in ("timeRange", "searchDepth", "language")] == [True] * 3
    assert [(call["timeRange"], call["language"]) for call in calls] == [("year", "fr")]


VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["basic", "week", "en", "x"])
NAMES = st.sampled_from(["language", "timeRange", "searchDepth", "query"])


@given(
    arguments=st.dictionaries(NAMES, VALUES),
    filled=st.lists(st.sampled_from(sorted(FILLED)), unique=True),
    enums=st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=3)),
    required=st.lists(NAMES, unique=True),
)
def test_A008_A077_filling_changes_no_verdict_and_nothing_that_was_given(
    arguments: dict[str, Any],
    filled: list[str],
    enums: dict[str, list[Any]],
    required: list[str],
) -> None:
    """Given values stay, required ones and those that were not asked for are never filled, no new problem arises."""
    properties: dict[str, Any] = {name: {"enum": values} for name, values in enums.items()}
    parameters = {"type": "object", "properties": properties, "required": required}
    schema, tool = (
        ParameterSchema(parameters),
        ToolSpec(name="a.b", parameters=parameters, filled=tuple(filled)),
    )
    spec = Spec(objective="compare the news of this week", language="en", revision=REVISION)
    result = fill_defaults(spec, tool, schema, arguments)
    assert list(arguments.items()) == list(result.items())[: len(arguments)]
    assert schema.check(result) == schema.check(arguments)
    assert result.keys() - arguments.keys() <= set(filled) - set(required)
    for name, value in (("language", "en"), ("timeRange", "week")):
        if name in filled and value in enums.get(name, ()) and not {name} & {*arguments, *required}:
            assert result[name] == value
