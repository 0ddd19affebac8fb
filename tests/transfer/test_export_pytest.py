"""`paor export --pytest`: a run as a test that passes elsewhere, holds no secret, and executes nothing from the journal."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import (
    Document,
    Engine,
    Journal,
    Limits,
    Policy,
    Reply,
    ScriptedModel,
    Task,
    Tool,
    ToolOutput,
    Usage,
    tool,
)
from paor.audit import Redaction
from paor.cli import main
from paor.errors import TimedOut, ToolError, UsageError
from paor.states.records.actions import Effect
from paor.testing import call, parameters, plan, refine, review, scripted_tool, select, step
from paor.testing.python_literals import CALLABLE, New, source, value_of
from paor.testing.regression import regression_test

from ..support.journeys import BY_NAME, JOURNEYS, play
from ..support.worlds import JOURNAL, engine

END = [refine("stop"), review("success", answer="All is known.")]
KEY = "sk-ant-" + "Zq9" * 10
PRIVATE = "-----BEGIN PRIVATE KEY-----\nMIIE" + "vQIBADANBg" * 3 + "\n-----END PRIVATE KEY-----"


def told(
    tmp_path: Path, replies: Sequence[Any], tools: Sequence[Tool], redact: Any = None, **run: Any
) -> str:
    """Return the test that a run comes to."""
    tmp_path.mkdir(exist_ok=True)
    with engine(tmp_path, replies, tools, journal=Journal(":memory:", "off")) as scripted:
        result = scripted.run(**{"objective": "Read", **run})
        return regression_test(scripted.journal, result.run_id, redact)


def run_pytest(folder: Path) -> str:
    """Run pytest in a fresh process in *folder* and return what it prints; it must succeed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:paor", "--rootdir=."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def constants(text: str) -> dict[str, Any]:
    """Return the constants of a test that hold nothing but literals."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


@pytest.mark.parametrize("effect", ["read", "once"])
def test_a_call_that_timed_out_times_out_in_the_test_without_waiting(tmp_path: Path, effect: Effect) -> None:
    """An error that is tried again, or a doubt; in the script as in the journal."""
    replies = [*call("notes.read", page=1), *END]
    tools = [scripted_tool("notes.read", [TimedOut(), "a page"], effect=effect, retries=1, timeout_s=30)]
    with engine(tmp_path, replies, tools, journal=Journal(":memory:", "off")) as scripted:
        result = scripted.run("Read")
        if effect == "once":
            assert result.waiting_for is not None and "timed out after 30 s" in result.waiting_for.message
            result = scripted.resume(result.run_id, outcome="done", result="a page")
        text = regression_test(scripted.journal, result.run_id, None)
    assert "TimedOut(" in text and result.state == "Done"
    (tmp_path / "test_it.py").write_text(text)
    run_pytest(tmp_path)


def test_a_call_that_timed_out_and_certainly_did_not_happen_becomes_a_test(tmp_path: Path) -> None:
    """Its tool said so; in the script it says so at once."""

    @tool("notes.read", reconcile=lambda key: None)
    def read(page: int) -> str:
        """Read a page."""
        raise TimedOut("silent")

    with engine(tmp_path, [*call("notes.read", page=1), *END], [read]) as scripted:
        text = regression_test(scripted.journal, scripted.run("Read").run_id, None)
    (tmp_path / "test_it.py").write_text(text)
    run_pytest(tmp_path)


@pytest.mark.whole
def test_a_journey_becomes_a_test_that_passes_in_a_fresh_folder(tmp_path: Path) -> None:
    """Plans, batches, answers, approvals, effects in doubt, failures, cancels, budgets: all by one process of pytest."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    for journey in JOURNEYS:
        place = tmp_path / journey.name
        place.mkdir()
        with journey.engine(place) as scripted:
            text = regression_test(scripted.journal, play(journey, scripted).run_id)
        (folder / f"test_{journey.name}.py").write_text(text, encoding="utf-8")
        assert constants(text)["END"] == (journey.state, journey.reason), journey.name
    assert f"{len(JOURNEYS)} passed" in run_pytest(folder)


def test_a_test_says_what_the_run_was_given_and_did(tmp_path: Path) -> None:
    """Readable, and without what is as it would be anyhow."""
    tool = scripted_tool("notes.read", ["one"], label="page")
    text = told(
        tmp_path, [*call("notes.read", page=1), *END], [tool], documents=[("a.txt", "Alpha\nBeta\n" * 9)]
    )
    found = constants(text)
    assert found["TRIGGERS"] == ("select", "specify", "execute", "observe", "conclude", "finish")
    assert found["CALLS"] == [("notes.read", {"page": 1})]
    assert (found["ANSWER"], found["OPTIONS"], found["ANSWERS"]) == ("All is known.", {}, [])
    assert "success_criteria" not in text and "'Alpha\\n'" in text


def test_a_test_notices_when_the_machine_goes_another_way(tmp_path: Path) -> None:
    """Each of its assertions, by a change of what it expects."""
    tool = scripted_tool("notes.read", ["one"])
    text = told(tmp_path / "run", [*call("notes.read", page=1), *END], [tool])
    changes = {
        "'conclude',": "'proceed',",
        "'Observing',": "'Planning',",
        "('Done', 'model_stop')": "('Done', 'max_steps')",
        "ANSWER = 'All is known.'": "ANSWER = 'Else.'",
        "CALLS = [('notes.read', {'page': 1})]": "CALLS = []",
    }
    folder = tmp_path / "changed"
    folder.mkdir()
    for number, (before, after) in enumerate(changes.items()):
        assert before in text
        changed = text.replace(before, after).replace(
            "def test_run", f"@pytest.mark.xfail(strict=True)\ndef test_{number}"
        )
        (folder / f"test_{number}.py").write_text(
            changed.replace("from paor import", "import pytest\nfrom paor import", 1)
        )
    assert f"{len(changes)} xfailed" in run_pytest(folder)


def test_a_workflow_file_is_played_again(tmp_path: Path) -> None:
    """With its variables and its documents."""
    workflow = Path(__file__).parents[2] / "examples" / "workflows" / "loop_limit.yaml"
    tool = scripted_tool("notes.read", ["one", "two", "three", "four", "five"] * 3)
    script = [plan(step("notes.read", page=page)) for page in range(1, 12)]
    text = told(tmp_path, [*script], [tool], workflow=str(workflow))
    assert "Workflow.model_validate(" in text and constants(text)["CALLS"]
    folder = tmp_path / "fresh"
    folder.mkdir()
    (folder / "test_run.py").write_text(text, encoding="utf-8")
    assert "1 passed" in run_pytest(folder)


# -- what cannot be told ---------------------------------------------------------------------------------------


def test_a_run_that_cannot_be_a_script_is_refused_with_the_reason(tmp_path: Path) -> None:
    """In one line that says which run and why."""
    tool = scripted_tool("mail.send", ["sent"] * 9, effect="once")
    script = [*call("mail.send", to="a"), *END]
    (tmp_path / "erased").mkdir()
    with engine(tmp_path, script, [tool], policy=Policy(approvals=("mail.*",))) as scripted:
        waiting = scripted.run("Send")
        with pytest.raises(UsageError, match="is waiting; a test is made of a run that has ended"):
            regression_test(scripted.journal, waiting.run_id)
        done = scripted.resume(waiting.run_id, answer={"approve": True})
        fork = scripted.fork(done.run_id, 1, answer={"approve": True})
        with pytest.raises(UsageError, match="is a fork"):
            regression_test(scripted.journal, fork.run_id)
        round2 = scripted.follow_up(done.run_id, "Send again")
        with pytest.raises(UsageError, match="is task 1 of round 2"):
            regression_test(scripted.journal, scripted.resume(round2.run_id, answer={"approve": True}).run_id)
    with engine(tmp_path / "erased", [*call("mail.send", to="a"), *END], [tool]) as scripted:
        done = scripted.run("Send")
        scripted.journal.erase(done.run_id)
        with pytest.raises(UsageError, match="something of it has been erased"):
            regression_test(scripted.journal, done.run_id)


def test_a_workflow_of_tasks_is_refused_and_its_first_task_is_not(tmp_path: Path) -> None:
    """The whole drives other runs; the first task began with nothing of theirs."""
    tool = scripted_tool("notes.read", ["one", "two"])

    class Model(ScriptedModel):
        def ask(self, request: Any) -> Any:
            whole = request.kind == "review" and request.number == 0
            return Reply(json.dumps(review("success", answer="Both."))) if whole else super().ask(request)

    with Engine(
        Model([*call("notes.read", page=1), *END]), [tool], Journal(":memory:", "off"), builtins=False
    ) as own:
        own.run_workflow("Read both", tasks=[Task("Read the first"), Task("Read the second")])
        refused = []
        for row in own.journal.runs():
            try:
                assert "Read the first" in regression_test(own.journal, row.run_id)
            except UsageError as error:
                refused.append(str(error))
    assert len(refused) == 2
    assert any("is a workflow that drives other runs" in line for line in refused)
    assert any("is task 2 of round 1" in line for line in refused)


def test_a_run_out_of_time_and_one_cancelled_on_its_way_are_refused(tmp_path: Path) -> None:
    """A script has no time, and nobody who cancels."""
    tool = scripted_tool("notes.read", ["one"])
    with pytest.raises(UsageError, match="its time was used up"):
        told(tmp_path, [*call("notes.read", page=1), *END], [tool], limits=Limits(time_budget_s=0.001))
    with engine(tmp_path, [*call("notes.read", page=1), *END], [tool]) as scripted:
        for event in scripted.stream("Read"):
            if event.kind == "transition":
                scripted.cancel(event.run_id)
        with pytest.raises(UsageError, match="was cancelled while it was driven"):
            regression_test(scripted.journal, event.run_id)


def test_budgets_are_kept_by_telling_what_each_reply_used(tmp_path: Path) -> None:
    """Else the run would end elsewhere."""
    journey = BY_NAME["token_budget"]
    with journey.engine(tmp_path) as scripted:
        text = regression_test(scripted.journal, play(journey, scripted).run_id)
    assert "Usage(" in text and "token_budget=" in text
    reply = Reply("no JSON", Usage(1, 2, 3), finish="length")
    assert "finish='length'" in told(
        tmp_path / "cut", [reply, *call("notes.read", page=1), *END], [scripted_tool("notes.read", ["a"])]
    )


# -- secrets ---------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_no_secret_stands_in_a_test(tmp_path: Path) -> None:
    """Wherever in the run it stood, also in data within texts and in bytes, and the same word stands for the same secret."""
    document = Document("key.bin", f"\xff{KEY}".encode("latin-1"), "application/octet-stream")
    tool = scripted_tool(
        "vault.read",
        [ToolOutput(documents=[document]), json.dumps({"pem": PRIVATE}), ToolError(f"bad {KEY}")],
    )
    replies = [
        *call("vault.read", key=KEY),
        refine("continue", hint=f"use {KEY}"),
        *call("vault.read", key=PRIVATE),
        json.dumps(refine("continue", answer=PRIVATE)),
        *call("vault.read", key=f"{KEY}x"),
        refine("stop"),
        review("success", answer=f"The key is {KEY}."),
    ]
    folder = tmp_path / "fresh"
    folder.mkdir()
    text = told(
        tmp_path,
        replies,
        [tool],
        objective=f"Use {KEY}",
        documents=[("a.txt", f"password = {KEY[7:]}")],
        context=PRIVATE,
    )
    for secret in (KEY, KEY[7:], "vQIBADANBg", KEY[:16]):
        assert secret not in text
    assert not Redaction().found_in(text)
    found = constants(text)
    mark = found["CALLS"][0][1]["key"]
    assert mark.startswith("redacted-") and found["ANSWER"] == f"The key is {mark}."
    (folder / "test_run.py").write_text(text, encoding="utf-8")
    assert "1 passed" in run_pytest(folder)


def test_own_rules_are_added(tmp_path: Path) -> None:
    """What --redact names is replaced as well."""
    rules = Redaction({"order": r"\bO-\d{4}\b"})
    tool = scripted_tool("orders.find", ["O-1004 is in Leeds"])
    text = told(
        tmp_path, [*call("orders.find", order="O-1004"), *END], [tool], rules, objective="Find O-1004"
    )
    assert "1004" not in text and "redacted-1 is in Leeds" in text


def test_a_run_that_a_secret_decides_is_refused(tmp_path: Path) -> None:
    """Without the secret it would do something else, and no test is better than a wrong one."""
    tool = scripted_tool("orders.find", ["found"])
    rules = Redaction({"name": r"orders\.find"})
    with pytest.raises(UsageError, match="texts were replaced since they look like secrets"):
        told(tmp_path, [*call("orders.find", order="O-1004"), *END], [tool], rules)


# -- nothing is executed ---------------------------------------------------------------------------------------

HOSTILE = (
    '"""\nimport os; os.abort()\n"""',
    "'''\nimport os\n'''",
    "\\",
    '\\"',
    "'); raise SystemExit(1) #",
    "{__import__('os').abort()}",
    "\r\nimport os\r\n",
    "\u2028\u202e\x00\x0c\x1a",
    "\ud800",
    "%s {} {name} {version}",
    "# -*- coding: utf-7 -*-\n+AGk-mport os",
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=60))
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60)
@given(DATA | st.binary(max_size=40) | st.tuples(DATA, DATA))
def test_data_of_any_kind_is_one_literal_that_says_the_same(data: Any) -> None:
    """Whatever it holds, however it is broken into lines."""
    for indent in (0, 4, 90):
        text = source(data, indent)
        assert ast.literal_eval(text) == data
        assert compile(f"x = {text}\n", "x", "exec") is not None


@given(st.lists(TEXTS, min_size=1, max_size=3), TEXTS.filter(lambda name: name not in CALLABLE))
def test_a_call_holds_hostile_texts_as_literals(texts: list[str], name: str) -> None:
    """One call of a known name, with nothing but constants below it."""
    tree = ast.parse(source(New("ToolError", tuple(texts))), mode="eval").body
    assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    assert [ast.literal_eval(item) for item in tree.args] == texts
    with pytest.raises(ValueError, match="is not called by a test"):
        New(name)
    with pytest.raises(ValueError, match="is not called by a test"):
        New("Reply", (), {f"{name} ": 1})


def test_data_that_is_too_deep_or_no_number_is_written_in_another_way() -> None:
    """Python would refuse a hundred brackets within each other."""
    deep: Any = "end"
    for _ in range(40):
        deep = [{"a": deep}]
    assert "json.loads(" in source({"x": 1, "deep": deep})
    found = eval_plain(source({"x": 1, "deep": deep}))
    assert found == {"x": 1, "deep": deep}
    assert source(float("inf")) == 'float("inf")' and source(float("-inf")) == 'float("-inf")'
    with pytest.raises(TypeError, match="has no literal"):
        source(object())
    assert value_of(New("Asks", (1, [New("ToolError", ("a",))]))).times == 1
    assert set(CALLABLE.values()) == {"paor", "paor.errors", "paor.testing"}
    for name, home in CALLABLE.items():
        assert name.partition(".")[0] in importlib.import_module(home).__all__, name


def eval_plain(text: str) -> Any:
    """Return what a literal says whose deep parts are ``json.loads(...)`` of a literal."""

    class Loaded(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> Any:
            assert ast.unparse(node.func) == "json.loads"
            return ast.parse(repr(json.loads(ast.literal_eval(node.args[0]))), mode="eval").body

    return ast.literal_eval(Loaded().visit(ast.parse(text, mode="eval")))


@settings(max_examples=15)
@given(TEXTS.filter(str.strip), TEXTS, DATA, TEXTS)
def test_a_hostile_run_is_told_in_constants_alone(
    objective: str, said: str, output: Any, content: str
) -> None:
    """Objective, replies, arguments, results and documents: the code around them is the same for every run."""
    tool = scripted_tool("notes.read", [output])
    replies = [*call("notes.read", text=said), *END[:1], review("success", answer=said or "known")]
    with Engine(ScriptedModel(replies), [tool], Journal(":memory:", "off"), builtins=False) as scripted:
        documents = [(said or "a", content)] if content else []
        result = scripted.run(objective, documents=documents)
        text = regression_test(scripted.journal, result.run_id)
    tree = ast.parse(text)
    places = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {"__future__", "paor", "paor.testing"} <= places <= {"__future__", *CALLABLE.values()}
    kinds = [type(node).__name__ for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    assert kinds == [
        "Expr",
        *["Assign"] * 9,
        "FunctionDef",
        "FunctionDef",
    ]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    known = {
        "RUN",
        "OPTIONS",
        "REPLIES",
        "ANSWERS",
        "PHASES",
        "TRIGGERS",
        "CALLS",
        "END",
        "ANSWER",
        "tools",
        "tmp_path",
    }
    known |= {
        "engine",
        "seen",
        "call",
        "play",
        "problems",
        "Engine",
        "Journal",
        "ScriptedModel",
        "SeededIds",
        "SteppingClock",
    }
    assert names <= known | CALLABLE.keys() | {"json"}
    text.encode("utf-8")


# -- the command -----------------------------------------------------------------------------------------------


def test_the_command_prints_and_writes_the_same_bytes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the newest run unless one is named, with or without --json; and it creates nothing else."""
    monkeypatch.chdir(tmp_path)
    with engine(
        tmp_path, [*call("notes.read", page=1), *END], [scripted_tool("notes.read", ["one"])]
    ) as scripted:
        run_id = scripted.run("Read").run_id
    place = ["--journal", JOURNAL]
    assert main(["export", "--pytest", "--output", "test_run.py", *place]) == 0
    capfd.readouterr()
    assert main(["export", run_id, "--pytest", "--json", "--redact", "default", *place]) == 0
    printed = capfd.readouterr().out
    assert printed == (tmp_path / "test_run.py").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == [JOURNAL, "test_run.py"]
    assert "1 passed" in run_pytest(tmp_path)


def test_the_command_refuses_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Several runs, all runs, and one that cannot be told."""
    tool = scripted_tool("mail.send", ["sent"], effect="once")
    with engine(
        tmp_path, call("mail.send", to="a"), [tool], policy=Policy(approvals=("mail.*",))
    ) as scripted:
        scripted.run("Send")
    place = ["--journal", str(tmp_path / JOURNAL)]
    for arguments, expected in (
        (["--all"], "--pytest takes one RUN"),
        (["last", "last~1"], "--pytest takes one RUN"),
        (["last"], "is waiting; a test is made of a run that has ended"),
    ):
        assert main(["export", "--pytest", *arguments, *place]) == 2
        output = capfd.readouterr()
        assert expected in output.err and output.out == "" and "Traceback" not in output.err


def test_a_selection_that_names_its_parts_apart_keeps_its_tool(tmp_path: Path) -> None:
    """Tools that were never called stand in the test when a reply could have meant them, others do not."""
    tools = [scripted_tool("notes.read", ["one"]), scripted_tool("notes.burn"), scripted_tool("mail.send")]
    replies = [
        select("notes.burn", {"page": "number"}),
        parameters(page=1),
        refine("continue"),
        *call("notes.read", page=1),
        *END,
    ]
    text = told(tmp_path, replies, tools[:1] + tools[1:])
    assert "'notes.burn'" in text and "mail.send" not in text
