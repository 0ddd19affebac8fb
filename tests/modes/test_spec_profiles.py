"""Profiles of the two stages, switches of Stage 2 and a host's own rules, on the real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Profile, Tool
from paor.errors import UsageError

from ..support.planning import World, check
from ..support.recording import observation, sections
from ..support.stored import started_with
from ..support.worlds import PARAMETERS, SELECT, STOP, SUCCESS, engine, read

SINGLE = {"action": {"method": "notes", "name": "read"}}
BARE = {"parameters": {"page": 1}}
ARRAY = SELECT(parametersSchema={"fields": [{"name": "page", "type": "array", "required": False}]})
VALUES = SELECT(parametersSchema={"fields": [{"name": "page", "type": "enum", "values": [1, 2]}]})


def first(folder: Path, *script: Any, **options: Any) -> tuple[str, str]:
    """Run a script whose first reply is in question; return what became of it and what the next prompt says of it."""
    with World(folder, [*script, STOP, SUCCESS]) as world:
        result = world.run("Read page 1", **options)
        check(world)
        told = sections(world.model.calls[1]).get("Your last reply could not be used", "")
        assert result.state == "Done", (result, told)
    return world.triggers[0], told


# -- two_stage and strict ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [SELECT(), SINGLE, SELECT("notes_read"), ARRAY, VALUES], ids=str)
@pytest.mark.parametrize("profile", ["two_stage", Profile()], ids=str)
def test_D1_D9_A103_the_two_stage_profile_takes_every_form(tmp_path: Path, reply: Any, profile: Any) -> None:
    """A text, an object, an alias, the extensions; it is the default."""
    parameters = PARAMETERS() if reply is ARRAY else PARAMETERS(page=1)
    values: dict[str, Any] = {"parametersSchema": {"fields": []}} if reply is ARRAY else {}
    script = [reply | values, PARAMETERS(page=1)] if not values else [reply, parameters]
    with World(tmp_path, [*script, STOP, SUCCESS]) as world:
        world.run("Read page 1", profile=profile)
        check(world)
    assert world.triggers[0] == "select"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (SINGLE, '"method.name"'),
        (SELECT("notes_read"), '"method.name"'),
        (ARRAY, "fields[0]"),
        (VALUES, "fields[0]"),
    ],
    ids=["object", "alias", "array", "values"],
)
def test_D1_D9_A103_the_strict_profile_takes_one_form_and_asks_again(
    tmp_path: Path, reply: Any, words: str
) -> None:
    """An action that is no text and types that are extensions are invalid, by name; the one retry is used."""
    trigger, told = first(tmp_path, reply, SELECT(), PARAMETERS(page=1), profile="strict")
    assert trigger == "reselect" and words in told
    assert started_with(tmp_path / "runs.db")["profile"] == {
        "strict": True,
        "stage": "two_stage",
        "forbidden": "reject",
        "force_stage_2": False,
        "catalog": "auto",
    }


@pytest.mark.parametrize(
    ("profile", "asked"),
    [("two_stage", 1), ("strict", 2), (Profile(strict=True, stage="single"), 1)],
    ids=str,
)
def test_D2_A117_only_the_strict_two_stage_profile_requires_the_schemas_name(
    tmp_path: Path, profile: Any, asked: int
) -> None:
    """Missing it, Stage 2 is asked again there; elsewhere it may be left out. A wrong one is always invalid."""
    single = isinstance(profile, Profile)
    script = [
        SINGLE if single else SELECT(),
        *[BARE] * (asked - 1),
        PARAMETERS(page=1) if asked > 1 else BARE,
    ]
    with World(tmp_path, [*script, STOP, SUCCESS]) as world:
        assert world.run(profile=profile).state == "Done"
        check(world)
        assert len(world.model.of("parameters")) == asked


# -- single and two stages ---------------------------------------------------------------------------------------------------


def test_D1_the_single_stage_asks_for_the_bare_choice(tmp_path: Path) -> None:
    """Its prompt and its reply's schema are document 002's; Stage 2 then has the tool's own schema to fill."""
    with World(tmp_path, [SINGLE, BARE, STOP, SUCCESS]) as world:
        assert world.run("Read page 1", stage="single").state == "Done"
        check(world)
        asked, parameters = world.model.calls[:2]
        told = sections(asked)["Reply"].splitlines()
        assert told == [
            '{"action": {"method": "METHOD", "name": "NAME"}}',
            'When no action is needed: {"action": null, "answer": "..."}',
        ]
        assert asked.schema is not None
        choice, answer = (one["properties"]["action"] for one in asked.schema["anyOf"])
        offered = [
            {name: one["const"] for name, one in each["properties"].items()} for each in choice["anyOf"]
        ]
        names = ("read", "send", "fail")
        assert offered == [{"method": "notes", "name": name} for name in names]
        assert answer == {"type": "null"}
        assert "- page (integer; required)" in sections(parameters)["Parameters schema"]
    assert started_with(world.path)["profile"]["stage"] == "single"


@pytest.mark.parametrize(
    "reply",
    [
        SELECT(),
        {"action": {"method": "notes.read", "name": "read"}},
        {"action": {"method": "notes", "name": "notes.read"}},
        {"action": {"method": "notes"}},
    ],
    ids=["a text", "a merged method", "a merged name", "no name"],
)
def test_D1_C4_28_the_strict_single_stage_takes_the_object_only(tmp_path: Path, reply: Any) -> None:
    """Nothing merged is normalised there."""
    trigger, _ = first(tmp_path, reply, SINGLE, BARE, profile="strict", stage="single")
    assert trigger == "reselect"


def test_D1_documents_can_be_named_beside_the_bare_choice(tmp_path: Path) -> None:
    """The single stage, too, chooses references in Stage 1."""
    choice = {"action": {"method": "document", "name": "extract"}}
    references = {"requiredInputDocuments": ["docList:round1_task1_action0_input"]}
    with World(tmp_path, [choice | references, {"parameters": {}}, STOP, SUCCESS], builtins=True) as world:
        result = world.run(profile="strict", stage="single", documents=[("a.txt", "Alpha")])
        check(world)
        assert result.state == "Done" and result.documents[0].read() == "Alpha"


def test_D1_a_hosts_own_template_wins_in_every_stage(tmp_path: Path) -> None:
    """Of the engine, and of the run."""
    text = "OWN {{KEY:OBJECTIVE}}"
    for number, prompts in enumerate(({"selection": text}, None)):
        with World(tmp_path / str(number), [SINGLE, BARE, STOP, SUCCESS], prompts=prompts) as world:
            world.run("Read page 1", stage="single", prompt_template=None if prompts else text)
            check(world)
            assert world.model.calls[0].messages[-1].text == "OWN Read page 1"


@pytest.mark.parametrize(
    "options",
    [{"profile": "loose"}, {"profile": 3}, {"stage": "double"}, {"profile": "strict", "stage": 1}],
    ids=str,
)
def test_D1_profiles_that_are_none_are_refused(tmp_path: Path, options: Any) -> None:
    """Before anything is started."""
    with World(tmp_path, []) as world:
        with pytest.raises(UsageError):
            world.run(**options)
        assert world.journal.runs() == []


# -- switches of Stage 2 -----------------------------------------------------------------------------------------------------


def test_A118_forbidden_names_are_dropped_or_rejected(tmp_path: Path) -> None:
    """Of a tool that only reads dropped, counted and named in the row; with the switch Stage 2 is asked again, and never executed with them."""
    smuggled = PARAMETERS(page=1, documentList=["docList:x"], History="all")
    loose = [SELECT(parametersSchema=None)]
    reads = Tool("notes.read", "Read.", dict(read.parameters), read.run, effect="read", typed=True)
    with World(tmp_path / "drop", [*loose, smuggled, STOP, SUCCESS], [reads]) as world:
        assert world.run().state == "Done"
        check(world)
        assert [row.outcome["dropped"] for row in world.rows if "dropped" in row.outcome] == [2]
        assert observation(world)["notes"] == [
            "left out of this call, since there is nothing of that name: 'documentList', 'History'"
        ]
    profile = Profile(forbidden="reject")
    with World(tmp_path / "reject", [*loose, smuggled, PARAMETERS(page=1), STOP, SUCCESS], [reads]) as world:
        assert world.run(profile=profile).state == "Done"
        check(world)
        told = sections(world.model.of("parameters")[1])["Your last reply could not be used"]
        assert "documentList" in told and "History" in told
        assert world.triggers[:3] == ["select", "respecify", "specify"]
        invalid = [row.outcome.get("invalid") for row in world.rows if row.trigger == "respecify"]
        assert invalid == ["forbidden_field"]


def test_D10_stage_2_can_be_forced_for_an_action_with_nothing_to_set(tmp_path: Path) -> None:
    """By default it is skipped with no values; forced, it is asked, with a schema of nothing."""
    taken: list[Any] = []
    take = Tool(
        name="notes.take",
        parameters={"type": "object", "properties": {"documentList": {"type": "array"}}},
        run=lambda **values: taken.append(values),
        effect="read",
    )
    chosen = SELECT("notes.take", {}, requiredInputDocuments=["docList:round1_task1_action0_input"])
    for force in (False, True):
        script = [chosen, *([PARAMETERS()] if force else []), STOP, SUCCESS]
        with World(tmp_path / str(force), script, [take]) as world:
            result = world.run(profile=Profile(force_stage_2=force), documents=[("a.txt", "Alpha")])
            check(world)
            assert result.state == "Done"
            assert len(world.model.of("parameters")) == force
    assert taken == [{"documentList": ["docList:round1_task1_action0_input"]}] * 2


# -- rules -------------------------------------------------------------------------------------------------------------------


def test_D6_A027_A071_a_host_can_bring_up_to_seven_rules_of_its_own(tmp_path: Path) -> None:
    """They stand instead of the five; they are in the spec, and a replay with other rules says so."""
    rules = [f"Rule {number}." for number in range(7)]
    with World(tmp_path, [SELECT(), PARAMETERS(page=1), STOP, SUCCESS], rules=rules) as world:
        world.run()
        check(world)
        told = world.model.calls[0].messages[0].text
        assert "\n".join(f"- {rule}" for rule in rules) in told and "Pick exactly one" not in told
        run_id = world.run_id
    assert started_with(world.path)["rules"] == rules
    from paor import replay

    with engine(tmp_path, [], [read], rules=["Another."]) as other:
        assert replay(other.journal, run_id).identical
        assert replay(other.journal, run_id, other).divergences[0].field == "request.prompt"


@pytest.mark.parametrize(
    "rules", [[], [f"Rule {number}." for number in range(8)], ["two\nlines"], [" "], [3], "one", 7], ids=str
)
def test_D6_A027_rules_that_are_too_many_or_no_lines_are_refused(tmp_path: Path, rules: Any) -> None:
    """When the engine is made."""
    with pytest.raises(UsageError, match="rules"):
        Engine(journal=tmp_path / "runs.db", rules=rules)
