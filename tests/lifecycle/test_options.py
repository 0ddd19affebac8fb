"""Each option of a run is declared once: every start takes it, the flags and ``--input`` are made from it, the reference has it."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, get_args, get_origin, get_type_hints

import pytest

from paor import (
    AnswerOptions,
    Engine,
    ForkOptions,
    ResumeOptions,
    RunOptions,
    ScriptedModel,
    Task,
    ToolContext,
    tool,
)
from paor.errors import KeyConflict, PaorError, UnknownOption, UsageError
from paor.testing import call_tools, step

from ..support.cli_support import Shell
from ..support.inside import FIELDS, OPTIONS, TYPES, line_bytes
from ..support.pages import ROOT, environment
from ..support.worlds import ANSWER

STARTS = [
    *("run", "arun", "start", "astart", "stream", "astream", "submit", "asubmit"),
    *("run_workflow", "arun_workflow", "submit_workflow", "asubmit_workflow", "as_tool"),
]
GIVEN_TWICE = {"react_mode", "workflow_mode"}
"""Other names of the mode, which documents have."""


def taken(name: str) -> Any:
    """Return the TypedDict of what a method of an engine takes by keyword, None where it takes none."""
    quoted = {"RunRow": Any, "ChangedPart": Any}  # imported for type checkers alone
    hint = get_type_hints(getattr(Engine, name), None, quoted, include_extras=True).get("options")
    if get_origin(hint) is not Unpack:
        return None
    (options,) = get_args(hint)
    return get_origin(options) or options


def test_every_start_of_an_engine_takes_the_options_of_a_run_and_names_none_itself() -> None:
    """Whoever adds a start must give it all of them; an option that a signature names again would be a second place for it."""
    with_objective = [
        name
        for name, method in inspect.getmembers(Engine, inspect.isfunction)
        if "objective" in inspect.signature(method).parameters and not name.startswith("_")
    ]
    assert sorted([*with_objective, "as_tool"]) == sorted(STARTS)
    for name in STARTS:
        assert taken(name) is RunOptions, name
        assert not OPTIONS.keys() & inspect.signature(getattr(Engine, name)).parameters.keys(), name
    assert {name for name in dir(Engine) if taken_or_none(name) is ResumeOptions} == {
        *("resume", "aresume", "resume_stream", "aresume_stream", "continue_run", "acontinue_run")
    }
    assert taken("fork") is taken("afork") is ForkOptions


def taken_or_none(name: str) -> Any:
    return taken(name) if inspect.isfunction(getattr(Engine, name)) and not name.startswith("_") else None


def started(engine: Engine, name: str, **options: Any) -> None:
    """Call a start, with an iteration where that is what starts it."""
    found = getattr(engine, name)(*(("desk", "Ask it") if name == "as_tool" else ("Say it",)), **options)
    if inspect.isasyncgen(found):
        asyncio.run(anext(found))
    elif inspect.iscoroutine(found):
        asyncio.run(found)


@pytest.mark.parametrize("name", STARTS)
def test_every_start_refuses_an_option_that_nothing_takes_and_names_the_nearest(name: str) -> None:
    with Engine("offline", journal=":memory:") as engine:
        with pytest.raises(UnknownOption, match=r"^a run has no option 'langage'; did you mean language\?$"):
            started(engine, name, langage="de")
        with pytest.raises(TypeError, match="has no option 'zzz'; there are: after, connections"):
            started(engine, name, zzz=1)
        for bad in ({"queue": 1}, {"context": 5}, {"connections": 5}, {"mode": "slow"}, {"metadata": 5}):
            (option,) = bad
            with pytest.raises(UsageError, match=option):
                started(engine, name, **bad)
        assert engine.journal.runs() == []


EMPTY: dict[Any, tuple[Any, ...]] = {Mapping: ({},), Sequence: ([], ()), str: ("",), bool: (False,)}
"""Empty values by what the type of an option names."""


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - {"deps"}))
def test_an_empty_value_of_another_kind_is_not_taken_for_none(name: str) -> None:
    with Engine("offline", journal=":memory:") as engine:
        hint = TYPES[name]
        named = [get_origin(one) or one for one in (hint, *get_args(hint))]
        taken = [type(value) for kind in named for value in EMPTY.get(kind, ())]
        value: Any
        for value in ([], (), {}, "", b"", 0, 0.0, False):
            if type(value) not in taken:
                with pytest.raises(UsageError):
                    engine.run("Say it", **{name: value})
        assert engine.journal.runs() == []


LONE = "a\ud800b"
"""A text that no JSON and no UTF-8 can hold."""

ONE_OF: Any = Literal["a\ud800b"]

HOLDING: dict[str, list[Any]] = {
    **{name: [LONE] for name, hint in TYPES.items() if str in get_args(hint) or get_origin(hint) is Literal},
    **{name: [LONE] for name in ("mode", "react_mode", "fallback", "queue", "stage", "deps")},
    "model": [LONE, f"openai:{LONE}", f"script:{LONE}"],
    "tools": [[LONE], LONE],
    "limits": [{LONE: 1}, {"max_steps": LONE}],
    "instructions": [LONE, lambda _: LONE],
    "metadata": [{"a": LONE}, {LONE: 1}],
    "values": [{"a": [LONE]}, {LONE: 1}],
    "workflow": [
        f"after: {{action: 'orders/find', input: {{order_id: '{LONE}'}}}}",
        {"after": {"action": LONE}},
        f"{LONE}.yaml",
        Path(f"{LONE}.yaml"),
    ],
    "variables": [{"a": LONE}, {"a": {LONE: 1}}, {LONE: 1}],
    "output_type": [LONE, {"type": "object", "description": LONE}, ONE_OF],
    "transcript": [[{"role": "user", "content": LONE}], [{"role": LONE, "content": "a"}], [LONE]],
    "connections": [{"bank": LONE}, {LONE: "bank"}],
    "after": [LONE],
}
BESIDE: dict[str, dict[str, Any]] = {
    "after": {"conversation": "c"},
    "variables": {"workflow": "after: {action: system/end}"},
}
"""What an option needs beside it."""


def says_one_line(error: PaorError) -> None:
    """See to it that an error can be written anywhere."""
    assert len(str(error).splitlines()) == 1 and str(error).encode()


@pytest.mark.parametrize("name", OPTIONS)
def test_a_text_that_no_journal_can_hold_is_refused_in_one_line_or_made_one_that_it_can(name: str) -> None:
    """In whatever option it stands, and however deep; of a run that was started the journal verifies, and its texts can be moved."""
    for value in HOLDING[name]:
        with Engine(ScriptedModel([ANSWER()]), journal=":memory:") as engine:
            try:
                engine.run("Say it", **BESIDE.get(name, {}), **{name: value})
            except UsageError as error:
                says_one_line(error)
            assert engine.journal.verify() == []
            for row in engine.journal.runs():
                assert b"".join(line_bytes(line) for line in engine.journal.export(row.run_id)).decode()


@pytest.mark.parametrize(
    "given", [{"objective": LONE}, {"success_criteria": [LONE]}, {"documents": [(LONE, LONE)]}], ids=str
)
def test_so_it_is_in_what_is_no_option(given: dict[str, Any]) -> None:
    with Engine(ScriptedModel([ANSWER()]), journal=":memory:") as engine:
        engine.run(**{"objective": "Say it"} | given)
        assert engine.journal.verify() == []


def test_deps_are_the_hosts_own() -> None:
    """Even a text that no journal could hold: it is in none."""
    seen: list[Any] = []

    @tool("desk.look", effect="read")
    def look(context: ToolContext[str]) -> str:
        """Look."""
        seen.append(context.deps)
        return "seen"

    with Engine(
        ScriptedModel([call_tools(step("desk.look")), "Done."]), [look], ":memory:", profile="native"
    ) as engine:
        assert engine.run("Look", deps=LONE).state == "Done" and seen == [LONE]


WAYS_ON = {
    "resume": ResumeOptions,
    "aresume": ResumeOptions,
    "resume_stream": ResumeOptions,
    "continue_run": ResumeOptions,
    "fork": ForkOptions,
    "answer": AnswerOptions,
}


@pytest.mark.parametrize("way", WAYS_ON)
def test_every_way_on_refuses_what_it_cannot_use_by_the_name_of_the_option(way: str) -> None:
    """The run waits on, and nothing is written."""
    options = get_type_hints(WAYS_ON[way])
    with Engine(ScriptedModel([ANSWER()]), journal=":memory:") as engine:
        run_id = engine.run("Say it", task_type="a").run_id
        rows = engine.journal.heads()

        def call(**given: Any) -> None:
            place = {"fork": (run_id, 0), "answer": (run_id,)}.get(way, (run_id,))
            found = getattr(engine, way)(*place, **({"question": "1-a"} if way == "answer" else {}) | given)
            if inspect.iscoroutine(found):
                asyncio.run(found)
            elif inspect.isgenerator(found):
                list(found)

        with pytest.raises(
            UnknownOption, match=r"^an? (resume|fork|answer) has no option 'zzz'; there are: "
        ):
            call(zzz=1)
        wrong: dict[str, Any] = {
            "connections": (5, [], ""),
            "model": (5, LONE),
            "accept_changes": ("no", 0, []),
            "current": ("no", 0, []),
            "limits": (5, [], {LONE: 1}),
            "policy": (5, []),
            "prompt_template": (5, []),
            "question": (5, LONE),
            "reason": (5, LONE),
            "actor": (5, LONE),
            "outcome": (5, LONE),
            "answer": (LONE, {LONE: LONE}),
            "result": (),
            "deps": (),
            "output_type": (5, LONE, ONE_OF),
        }
        for name in options:
            for value in wrong[name]:
                with pytest.raises(UsageError) as refused:
                    call(**{name: value})
                says_one_line(refused.value)
        assert engine.journal.heads() == rows


def test_every_option_has_its_type_its_default_and_its_description_in_the_reference() -> None:
    page = (ROOT / "docs/reference/engine.md").read_text(encoding="utf-8")
    section = page.partition("\n## `RunOptions`\n")[2].partition("\n## ")[0]
    rows = {row.split("`")[1]: row for row in section.splitlines() if row.startswith("| `")}
    assert list(rows) == list(OPTIONS)
    for name, row in rows.items():
        _, _, kind, default, meaning, _ = row.replace("\\|", "").split("|")
        assert kind.strip() and default.strip(), name
        assert len(meaning.split()) > 3, name
        assert f"\n    {name}: " in (inspect.getdoc(RunOptions) or ""), name


def test_every_option_with_a_flag_is_in_the_help_of_the_commands_that_start_runs(shell: Shell) -> None:
    helps = {name: " ".join(shell(name, "--help").out.split()) for name in ("run", "chat")}
    flags = {name: option for name, option in OPTIONS.items() if option.flag}
    assert len(flags) > 15
    for name, option in flags.items():
        assert f"{option.flag} {option.help}" in helps["run"], name
    assert {name for name, option in flags.items() if option.flag in helps["chat"]} == {
        *("model", "mode", "profile", "stage", "tools", "task_type", "language", "instructions", "metadata"),
        "conversation",  # of the chat itself
    }


def test_every_option_is_a_field_of_input_but_what_json_cannot_give(shell: Shell) -> None:
    assert OPTIONS.keys() - FIELDS.keys() == {"deps"}
    assert FIELDS["values"][0] == "an object"
    assert FIELDS["transcript"][0] == "a list of objects"
    shell("run", "--input", '{"objective": "Say it", "langage": "de"}').refused(
        "unknown field 'langage'; did you mean language?"
    )
    shell("run", "--input", '{"objective": "Say it", "queue": "yes"}').refused("queue must be true or false")


ADDED = """
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader

class Edited(SourceFileLoader):
    def get_code(self, fullname):
        text = self.get_source(fullname)
        field = '    colour: Annotated[str | None, Option(CHAT, "--colour C", "Of the answer.")]\\n'
        edited = text.replace("    user_language: Annotated[", field + "    user_language: Annotated[", 1)
        assert edited != text
        return self.source_to_code(edited, self.path)

name = "paor.fsm.lifecycle.options"
spec = spec_from_loader(name, Edited(name, find_spec(name).origin))
sys.modules[name] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])

import paor
from paor.cli import main
with paor.Engine("offline", journal=":memory:") as engine:
    print(engine.run("When do you open?", documents=[("a.txt", "We open at 8.")], colour="red").state)
    try:
        engine.run("When do you open?", colour=5)
    except paor.PaorError as error:
        print(error)
for command in ("run", "chat"):
    main([command, "--help"])
main(["run", "When do you open?", "--colour", "red", "--document", sys.argv[2], "--journal", sys.argv[1], "--quiet"])
main(["run", "--input", '{"objective": "When do you open?", "colour": 5}', "--journal", sys.argv[1]])
"""


def test_a_new_option_is_one_field(tmp_path: Path) -> None:
    """A stranger adds one: every start takes it, both commands have its flag, ``--input`` has its field, and its type is checked."""
    done = subprocess.run(
        [sys.executable, "-c", ADDED, str(tmp_path / "a.db"), str(ROOT / "README.md")],
        env=environment() | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()
    assert said[:2] == ["Done", "colour must be a text, not int"], done.stderr
    assert done.stdout.count("--colour C") == 2
    assert "# When do you open?" in done.stdout.rpartition("--colour C")[2], done.stderr
    assert "colour must be a text" in done.stderr


# -- what was forgotten in one of five lists ------------------------------------------------------------------------


def test_the_tasks_of_a_workflow_have_its_values() -> None:
    with Engine(
        ScriptedModel([ANSWER(), {"status": "success", "answer": "Done."}]), journal=":memory:"
    ) as engine:
        engine.run_workflow("Say it", tasks=[Task("Say it")], values={"credit": 5})
        specs = [engine.journal.spec(row.run_id) for row in engine.journal.runs()]
        assert [dict(spec.values) for spec in specs if spec.task] == [{"credit": 5}]


@pytest.mark.parametrize(
    "change",
    [{"values": {"credit": 6}}, {"context": "Other"}, {"task_type": "other"}, {"final_format": "md"}],
)
def test_a_key_is_held_to_every_option_that_the_spec_has(change: dict[str, Any]) -> None:
    first: dict[str, Any] = {"key": "k-1", "values": {"credit": 5}}
    with Engine(ScriptedModel([ANSWER()]), journal=":memory:") as engine:
        engine.run("Say it", **first)
        assert engine.run("Say it", **first).state == "Done"
        with pytest.raises(KeyConflict, match=f"with other {next(iter(change))};"):
            engine.run("Say it", **first | change)


# -- type checkers ---------------------------------------------------------------------------------------------------

HOST = """
from dataclasses import dataclass

from paor import Engine, Result, Task


@dataclass
class Order:
    paid: bool


def of(engine: Engine) -> list[Result[Order]]:
    found = [engine.run("x", output_type=Order, language="de"), engine.resume("x", output_type=Order)]
    engine.stream("x", language="de", on_close="stop")
    engine.run_workflow("x", tasks=[Task("y")], queue=True)
    engine.run("x", output_type={"type": "object"})
    engine.run("x", output_type=int | None)
    return [*found, engine.submit("x", output_type=Order), engine.result("x", Order)]
"""
WRONG = {
    'engine.run("x", langage="de")': "langage",
    'engine.stream("x", language=5)': "language",
    'engine.submit("x", queue="yes")': "queue",
    'engine.as_tool("a", "b", limits=5)': "limits",
    'engine.resume("x", anser=5)': "anser",
    'engine.fork("x", 1, current="yes")': "current",
    'engine.run("x", output_type=Order).output.price': "price",
}


@pytest.mark.whole
@pytest.mark.parametrize("command", [["mypy", "--strict"], ["pyright"]], ids=lambda command: command[0])
def test_type_checkers_know_every_option_and_its_type(tmp_path: Path, command: list[str]) -> None:
    wrong = "".join(f"    {line}\n" for line in WRONG)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT / "src"}"]}}')
    (tmp_path / "host.py").write_text(f"{HOST}\n\ndef wrong(engine: Engine) -> None:\n{wrong}")
    done = subprocess.run(
        [sys.executable, "-m", *command, "host.py"],
        cwd=tmp_path,
        env=environment() | {"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if "error" in line and "host.py:" in line]
    first = HOST.count("\n") + 4
    found = {int(line.split("host.py:")[1].split(":")[0]) for line in told}
    assert found == set(range(first, first + len(WRONG))), done.stdout + done.stderr
    for number, word in enumerate(WRONG.values(), first):
        assert any(f"host.py:{number}:" in line and word in line for line in told), (word, told)
