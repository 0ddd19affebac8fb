"""The pytest plugin: fixtures, what is checked at a test's end, coverage of the table, and that it is not felt otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import paor
import paor.testing
from paor.audit import Coverage

pytest_plugins = ["pytester"]

LOADED = [getattr(paor, name) for name in (*paor.__all__, "testing")]
"""All of the package: a session within this process forgets what it has imported itself, and would leave half of it."""

SCRIPTED = """
    from paor import Policy, tool
    from paor.testing import answer, call, refine, review, walk

    @tool("notes.read", effect="read")
    def read(page: int) -> str:
        "Read a page."
        return f"page {page}"

    SCRIPT = [*call("notes.read", page=1), refine("stop"), review("success", answer="Read.")]
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """Give a folder for the tests of a user, without the options of this project."""
    pytester.makeini("[pytest]\naddopts = --strict-markers\n")
    return pytester


def written(suite: pytest.Pytester, text: str) -> None:
    """Write the tests of a user."""
    suite.makepyfile(test_agent=f"{SCRIPTED}\n{text}")


def test_an_engine_on_a_scripted_world_runs_in_one_line(suite: pytest.Pytester) -> None:
    """The same ids and times in every test, a journal in the test's folder, shared by all of its engines."""
    written(
        suite,
        """
    SEEN = []

    def test_engine(paor_engine, paor_journal, tmp_path):
        engine = paor_engine(SCRIPT, [read])
        seen = walk(paor_journal, engine.run("Read").run_id)
        assert (seen.tools, seen.answer) == (("notes.read",), "Read.")
        SEEN.append(paor_journal.transitions(seen.run_id)[-1].hash)
        with paor_engine(SCRIPT, [read]) as second:
            second.run("Read")
        assert len(paor_journal.runs()) == 2
        assert [path.name for path in tmp_path.glob("*.db")] == ["paor.db"]

    def test_again(paor_engine):
        engine = paor_engine(SCRIPT, [read])
        run_id = engine.run("Read").run_id
        assert engine.journal.transitions(run_id)[-1].hash == SEEN[0]

    def test_run(paor_run):
        seen = paor_run("Read", SCRIPT, [read], answers=[{"answer": {"approve": True}}],
                        policy=Policy(approvals=("notes.*",)), documents=[("a.txt", "Alpha")])
        assert seen.triggers[:4] == ("select", "wait", "provide", "specify")
        assert "a.txt" in seen.asked[0].prompt

    def test_options(paor_engine):
        engine = paor_engine(model="offline", builtins=True)
        assert engine.model.name == "offline" and engine.tools

    def test_both(paor_engine):
        try:
            paor_engine(SCRIPT, model="offline")
        except TypeError as error:
            assert "replies or a model" in str(error)
        else:
            assert False
    """,
    )
    suite.runpytest().assert_outcomes(passed=5)


def test_a_journal_that_does_not_hold_fails_the_test_at_its_end(suite: pytest.Pytester) -> None:
    """Verified and replayed, unless the marker says otherwise."""
    written(
        suite,
        """
    import sqlite3
    import pytest

    def broken(engine, tmp_path):
        engine.run("Read")
        engine.close()
        file = sqlite3.connect(tmp_path / "paor.db")
        file.execute("UPDATE rows SET \\"row\\" = json_remove(\\"row\\", '$.guards') WHERE id & 4294967295 = 0")
        file.commit()
        file.close()

    def test_checked(paor_engine, tmp_path):
        broken(paor_engine(SCRIPT, [read]), tmp_path)

    @pytest.mark.paor(check=False)
    def test_unchecked(paor_engine, tmp_path):
        broken(paor_engine(SCRIPT, [read]), tmp_path)

    @pytest.mark.paor(replay=False)
    def test_marker(paor_engine):
        pass

    def test_unused(paor_engine, paor_journal):
        pass
    """,
    )
    result = suite.runpytest()
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(
        ["*the journal of this test does not hold*", "*hash*", "*replay: row 0, guards*"]
    )
    result.stdout.fnmatch_lines(["*the marker paor takes check=True or check=False*"])


def test_a_journal_with_a_forged_walk_fails_by_its_replay_alone(suite: pytest.Pytester) -> None:
    """An engine whose decisions are not those of the table: the chain holds, the replay does not."""
    written(
        suite,
        """
    from paor.fsm.runtime import loop

    def test_forged(paor_engine, monkeypatch):
        decide = loop.decide
        def forged(*given, **more):
            decision = decide(*given, **more)
            return type(decision)(decision.row, {**decision.guards, "hard_stop": True}, decision.change,
                                  decision.counters, decision.facts, decision.case)
        monkeypatch.setattr(loop, "decide", forged)
        paor_engine([answer("Known."), review("success")]).run("Say")
    """,
    )
    result = suite.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*replay: row 0, guards*"])


# -- coverage --------------------------------------------------------------------------------------------------


def test_the_coverage_of_a_session_names_what_was_never_taken_and_never_seen(suite: pytest.Pytester) -> None:
    """Of every engine, whether a fixture made it or not, and whichever test failed."""
    written(
        suite,
        """
    from paor import Engine, Journal, ScriptedModel

    def test_own(tmp_path):
        with Engine(ScriptedModel(SCRIPT), [read], Journal(":memory:", "off")) as engine:
            engine.run("Read")

    def test_fixture(paor_run):
        paor_run("Say", [answer("Known."), review("success")])
    """,
    )
    result = suite.runpytest("--paor-cov", "--paor-cov-report=found.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*paor coverage*",
            "rows *",
            "guards *",
            "never taken: Planning fail Failed [[]hard_stop[]]",
            "*wrote found.json",
        ]
    )
    result.stdout.fnmatch_lines(["TOTAL * % in 8 transitions"])
    result.stdout.no_fnmatch_line("never taken: Planning answer *")
    found = Coverage.read((suite.path / "found.json").read_text(encoding="utf-8"))
    assert (found.runs, found.transitions) == (2, 8)
    again = suite.runpytest("-k", "fixture", "--paor-cov", "--paor-cov-report=other.json")
    assert again.ret == 0
    assert Coverage.read((suite.path / "other.json").read_text(encoding="utf-8")).transitions == 2


def test_too_little_coverage_fails_the_session(suite: pytest.Pytester) -> None:
    """As an exit code and in words; a session that has failed already keeps its code, and no percentage is too small for 0."""
    written(
        suite,
        "    def test_fixture(paor_run):\n        paor_run('Say', [answer('Known.'), review('success')])\n",
    )
    result = suite.runpytest("--paor-cov-fail-under=100")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["FAIL*less than --paor-cov-fail-under=100"])
    assert suite.runpytest("--paor-cov-fail-under=0").ret == 0
    assert suite.runpytest("--paor-cov-fail-under=1", "-k", "nothing").ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    "option",
    [
        *("--paor-cov-fail-under=101", "--paor-cov-fail-under=-1", "--paor-cov-fail-under=nan"),
        *(
            "--paor-cov-fail-under=much",
            "--paor-cov-report=found.png",
            "--paor-cov-report=missing/found.json",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_told_at_once(suite: pytest.Pytester, option: str) -> None:
    """In one line, before any test runs."""
    written(suite, "    def test_nothing():\n        pass\n")
    result = suite.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{option}*"])
    assert "Traceback" not in result.stderr.str()


def test_the_coverage_is_drawn(suite: pytest.Pytester) -> None:
    """As the diagram of the machine with what was walked, in each form."""
    written(
        suite,
        "    def test_fixture(paor_run):\n        paor_run('Say', [answer('Known.'), review('success')])\n",
    )
    names = [f"found.{ending}" for ending in ("svg", "mmd", "dot")]
    assert suite.runpytest(*(f"--paor-cov-report={name}" for name in names)).ret == 0
    for name, start in zip(names, ("<svg", "---", "digraph"), strict=True):
        text = (suite.path / name).read_text(encoding="utf-8")
        assert text.startswith(start) and "Planning" in text


def test_a_report_that_cannot_be_written_fails_the_session(suite: pytest.Pytester) -> None:
    """In one line, and the rest is told nevertheless."""
    (suite.path / "gone").mkdir()
    written(suite, "    def test_nothing():\n        import pathlib\n        pathlib.Path('gone').rmdir()\n")
    result = suite.runpytest("--paor-cov-report=gone/found.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAIL*gone/found.json cannot be written*", "TOTAL * % in 0 transitions"])


@pytest.mark.whole
def test_processes_of_xdist_are_summed(suite: pytest.Pytester) -> None:
    """Each gathers its own; the first process tells and fails."""
    written(
        suite,
        """
    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_fixture(paor_run, number):
        paor_run("Read", SCRIPT, [read])
    """,
    )
    options = ("-n", "2", "-p", "xdist", "--paor-cov-report=found.json", "--paor-cov-fail-under=100")
    result = suite.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["TOTAL * % in 24 transitions", "FAIL *"])
    assert Coverage.read((suite.path / "found.json").read_text(encoding="utf-8")).runs == 4


@pytest.mark.whole
def test_it_goes_together_with_pytest_cov(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both coverages are told, and that of the user's own code is whole: paor was not imported too early for it."""
    monkeypatch.delenv(
        "COVERAGE_FILE", raising=False
    )  # of the tests that run here: theirs is another measurement
    suite.makepyfile(shop="def price():\n    return 1\n")
    written(suite, "    def test_price(paor_run):\n        import shop\n        assert shop.price() == 1\n")
    result = suite.runpytest_subprocess("--cov=shop", "--cov-report=term", "--paor-cov")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["shop.py*100%*"])
    result.stdout.fnmatch_lines(["TOTAL * % in 0 transitions"])


# -- not felt otherwise ----------------------------------------------------------------------------------------


@pytest.mark.whole
def test_it_can_be_switched_off(suite: pytest.Pytester) -> None:
    """Without it there are neither options nor fixtures."""
    written(suite, "    def test_fixture(paor_run):\n        pass\n")
    result = suite.runpytest_subprocess("-p", "no:paor")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'paor_run' not found*"])
    assert suite.runpytest_subprocess("-p", "no:paor", "--paor-cov").ret == pytest.ExitCode.USAGE_ERROR


def test_a_suite_that_does_not_use_it_loads_nothing_of_it() -> None:
    """The plugin's module and the package's first lines are all, and no engine, no hypothesis, no schema library."""
    program = "import sys, json, pytest, paor.pytest_plugin; print(json.dumps([n for n in sys.modules if n.startswith(('paor', 'hypothesis', 'pydantic', 'orjson', 'msgspec', 'click', 'sqlite3'))]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["paor", "paor.pytest_plugin"]


@pytest.mark.whole
def test_a_session_without_it_gathers_and_tells_nothing(suite: pytest.Pytester) -> None:
    """Not even the summary has a line more."""
    written(
        suite,
        """
    import sys

    def test_nothing(paor_run):
        paor_run("Read", SCRIPT, [read])
        assert not {"paor.testing.pytest_coverage", "paor.testing.killing"} & set(sys.modules)
    """,
    )
    result = suite.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    assert "paor coverage" not in result.stdout.str()


def test_the_plugin_is_the_one_that_is_installed(pytestconfig: pytest.Config) -> None:
    """By its entry point, under the name with which it is switched off."""
    plugin: Any = pytestconfig.pluginmanager.get_plugin("paor")
    assert Path(plugin.__file__).name == "pytest_plugin.py"
