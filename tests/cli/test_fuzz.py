"""`paor fuzz` and `paor replay --repro`: found, saved, taken again, in other processes and by strangers' files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paor.audit import Coverage

from ..support.cli_support import Shell

SHOP = """
import os

from paor import Engine, tool
from paor.fuzz import EngineMachine

print("imported")

@tool("shop.look", effect="read")
def look(word: str) -> str:
    "Look a word up."
    print("looking")
    return word

def make(journal):
    return Engine("offline", [look], journal, builtins=False)

engine = make("own.db")

def torn(journal):
    raise RuntimeError("no shop today")

class Machine(EngineMachine):
    modes = ("react",)
    def engine(self, journal):
        return make(journal)
    def check(self, world):
        assert not world.watch.calls, "something was looked up"

class Repaired(Machine):
    def check(self, world):
        pass

@tool("shop.leave", effect="read")
def leave(word: str) -> str:
    "Leave."
    os._exit(7)

class Unmade(Machine):
    def __init__(self, more):
        super().__init__()

async def later(journal):
    return make(journal)

def leaving(journal):
    return Engine("offline", [leave], journal, builtins=False)
"""


@pytest.fixture
def shop(shell: Shell) -> str:
    """Write an app, each time under a name of its own, since modules stay imported."""
    name = f"fuzzed_{abs(hash(str(shell.folder))) % 10**8}"
    shell.write(f"{name}.py", SHOP)
    return name


@pytest.mark.whole
def test_an_engine_without_a_fault_is_told_with_what_was_covered(shell: Shell, shop: str) -> None:
    """By a factory and by an engine that is there; neither its journal nor another one is written."""
    for name in ("make", "engine"):
        said = shell("fuzz", "--app", f"{shop}:{name}", "--examples", "4")
        assert said.code == 0, said
        assert "nothing found" in said.out and "rows taken" in said.out and "seed 0" in said.out
        assert "looking" not in said.out
    assert not [name for name in shell.files() if name.endswith(".json") or name == "paor.db"]


def test_the_shipped_engine_is_fuzzed_without_an_app(shell: Shell) -> None:
    """As JSON, the same bytes for the same seed."""
    one, other = (shell("fuzz", "--examples", "2", "--seed", "5", "--json") for _ in range(2))
    assert one.code == 0 and one.out == other.out
    assert one.json["found"] is None and one.json["seed"] == 5 and one.json["rows"] > 0
    assert one.json["covered"]["without_success"]["notes.delete"] == "never called"
    assert "no success" in shell("fuzz", "--examples", "1", "--seed", "5").out


def test_what_is_covered_is_a_share_of_what_runs_of_its_modes_can_take(shell: Shell, shop: str) -> None:
    """Rows of other modes are named apart, and no search over these could take them."""
    words = ("--app", f"{shop}:Repaired", "--examples", "1", "--seed", "5")
    covered = shell("fuzz", *words, "--json").json["covered"]
    names = {row.name for row in Coverage.empty().rows}
    could = names - set(covered["of_other_modes"])
    assert covered["of_other_modes"] and set(covered["never_taken"]) < could < names
    taken = len(could) - len(covered["never_taken"])
    assert covered["rows_percent"] == taken * 1000 // len(could) / 10
    everything = Coverage.empty()
    within = [one for one in everything.possible if everything.rows[one.place].name in could]
    share = (
        covered["guards_percent"] * len(within) / 100
    )  # a number of them, rounded down to a tenth of a percent
    assert share % 1 < 0.1 or share % 1 > 0.9


@pytest.mark.whole
def test_a_case_is_saved_told_and_fails_again_in_another_process(shell: Shell, shop: str) -> None:
    """Whatever the order of sets is there."""
    app = f"{shop}:Machine"
    said = shell("fuzz", "--app", app, "--examples", "50", "--save", "cases", "--json")
    assert said.code == 1, said
    found = said.json["found"]
    assert found["invariant"] == "check" and found["rows"] <= 12
    assert found["steps"][0].split()[1] == "start"
    file = found["repro"]
    assert found["replay"] == f"paor replay --repro {file} --app {app}"
    for hashes in ("0", "1"):
        again = shell.process("replay", "--repro", file, "--app", app, PYTHONHASHSEED=hashes)
        assert (again.code, again.out) == (3, f"still fails: check at seq {found['seq']}\n")
        other = shell.process(
            "fuzz", "--app", app, "--examples", "50", "--save", "cases", "--json", PYTHONHASHSEED=hashes
        )
        assert other.code == 1 and other.json["found"]["invariant"] == "check"
    assert shell("replay", "--repro", file, "--app", app, "--json").json["fails"] is True
    gone = shell("replay", "--repro", file, "--app", f"{shop}:Repaired")
    assert (gone.code, gone.out) == (0, f"no longer fails: check was violated at seq {found['seq']}\n")
    unmade = shell("replay", "--repro", file, "--app", f"{shop}:Unmade")
    assert unmade.code == 2 and "Unmade cannot be made: TypeError" in unmade.err
    unable = shell("replay", "--repro", file, "--app", f"{shop}:make")
    assert unable.code == 2 and "violates the claim of an EngineMachine" in unable.err
    text = shell("fuzz", "--app", app, "--examples", "50", "--save", "cases")
    assert text.code == 1 and "smallest case" in text.out and f"--app {app}" in text.out


@pytest.mark.whole
def test_nothing_that_a_file_names_is_imported(shell: Shell, shop: str) -> None:
    """A stranger's file names a module; only the command line can."""
    said = shell("fuzz", "--app", f"{shop}:Machine", "--examples", "50", "--json")
    file = Path(shell.folder, said.json["found"]["repro"])
    evil = json.loads(file.read_text()) | {"app": "evil:engine"}
    file.write_text(json.dumps(evil))
    shell.write("evil.py", "import pathlib\npathlib.Path('ran').write_text('x')\n")
    shell("replay", "--repro", str(file)).refused("evil:engine", "nothing that a file names is imported")
    assert shell("replay", "--repro", str(file), "--app", f"{shop}:Machine").code == 3
    assert "ran" not in shell.files()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fuzz", "--examples", "0"], "0 is not in the range"),
        (["fuzz", "--seed", "x"], "'x' is not a valid integer"),
        (["fuzz", "--app", "nowhere_at_all:make"], "No module named"),
        (["fuzz", "--app", "{shop}:torn"], "raised RuntimeError: no shop today"),
        (["fuzz", "--app", "{shop}:later"], "returned a value of type coroutine, expected an Engine"),
        (["replay", "--repro", ""], "--repro: expected a file name"),
        (["fuzz", "--save", ""], "--save: expected the name of a folder"),
        (["fuzz", "--save", " "], "--save: expected the name of a folder"),
        (["fuzz", "--save", "{shop}.py"], "{shop}.py: is no folder"),
        (["check", "--app", "{shop}:Machine"], "{shop}:Machine: is an EngineMachine, which only paor fuzz"),
        (["run", "Do it.", "--app", "{shop}:Machine"], "name an Engine or a function f(journal)"),
        (["replay", "--repro", "nowhere.json"], "cannot be read"),
        (["replay", "last", "--repro", "nowhere.json"], "--repro goes without a run"),
    ],
)
def test_what_cannot_be_used_is_one_line(shell: Shell, shop: str, arguments: list[str], words: str) -> None:
    """Usage: exit code 2."""
    said = shell(*[item.replace("{shop}", shop) for item in arguments])
    assert said.code == 2 and words.replace("{shop}", shop) in said.err and "Traceback" not in said.err
    assert not [name for name in shell.files() if name.endswith(".json")]


@pytest.mark.whole
def test_a_tool_that_ends_the_process_leaves_its_case(shell: Shell, shop: str) -> None:
    """Nobody is left to tell; the next search says where the case is, and the case ends the process again."""
    app = f"{shop}:leaving"
    ended = shell.process("fuzz", "--app", app, "--examples", "5", "--save", "cases")
    assert (ended.code, ended.out) == (7, "")
    (name,) = [path.name for path in Path(shell.folder, "cases").iterdir()]
    assert name.startswith("unfinished-") and name.endswith(".json")
    file = f"cases/{name}"
    case = json.loads(Path(shell.folder, file).read_text())
    assert case["violated"]["told"] == "the process ended while shop.leave was called, or soon after it"
    assert case["script"][-1]["happened"][-1]["do"] == "call" and case["app"] == app
    again = shell.process("replay", "--repro", file, "--app", app)
    assert (again.code, again.out) == (7, "") and "if nothing follows, this process has ended" in again.err
    whole = shell("fuzz", "--app", f"{shop}:make", "--examples", "2", "--save", "cases")
    assert whole.code == 0 and f"a search did not end, or still runs: {file} holds the case" in whole.err
    assert [path.name for path in Path(shell.folder, "cases").iterdir()] == [name]
    assert shell("fuzz", "--app", f"{shop}:make", "--examples", "2", "--save", "new/cases").code == 0
    assert not Path(shell.folder, "new").exists()


def test_paor_fuzz_without_hypothesis_says_what_to_install(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a name of `paor.fuzz` that draws does the same."""
    import sys

    import paor.fuzz
    from paor.errors import MissingExtra

    monkeypatch.setattr(paor, "fuzz", paor.fuzz)  # so that the package that is there now is there again
    for name in [name for name in sys.modules if name.startswith(("hypothesis", "paor.fuzz"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    shell("fuzz").refused('pip install "paor[fuzz]"')
    with pytest.raises(MissingExtra, match=r"paor\[fuzz\]"):
        from paor.fuzz import EngineMachine  # noqa: F401
