"""Which of the expensive tests run: ten parts are everything, a change runs what it touches, the summary says why."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ..support import rotation
from ..support.rotation import PARTS, Choice, changed, chosen, guarded, imported

pytest_plugins = ["pytester"]

CONFTEST = (
    "import sys\n"
    f"sys.path.insert(0, {str(rotation.ROOT / 'tests' / 'support')!r})\n"
    "from pathlib import Path\n"
    "import rotation\n"
    "rotation.ROOT = Path(__file__).parent\n"
    "rotation.guarded = lambda: {'cases/test_lone.py::test_lone': frozenset({'src/guarded.py'})}\n"
    "choose = rotation.chosen\n"
    "rotation.chosen = lambda part=None: choose(rotation.ROOT, part)\n"
    "pytest_addoption = rotation.added_options\n"
    "def pytest_configure(config):\n"
    "    config.addinivalue_line('markers', 'rotates(data, files): expensive')\n"
    "    config.pluginmanager.register(rotation.configured(config), 'rotation')\n"
)
FAMILY = (
    "import pytest\n"
    "from .kit import NUMBERS\n"
    "@pytest.mark.rotates(data=['table.toml', 'tables/'], files=lambda number: [f'src/{number}.py'])\n"
    "@pytest.mark.parametrize('number', NUMBERS)\n"
    "def test_one(number): pass\n"
    "def test_plain(): pass\n"
)
LONE = "import pytest\n@pytest.mark.rotates\ndef test_lone(): pass\n"
TEN = frozenset(range(10))


def git(folder: Path, *arguments: str) -> str:
    """Run git in *folder*, as somebody."""
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(folder: Path, **files: str) -> str:
    """Write files (``a__b`` is ``a/b.py``), commit everything, and return the commit."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "a change")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Give a project of ten rotating cases of one test, another rotating test and a plain one, with two commits."""
    root = pytester.path
    pytester.makeini(
        "[pytest]\ntestpaths = cases\naddopts = --import-mode=importlib -p no:paor -p no:cacheprovider"
    )
    git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text("__pycache__/\n")
    committed(
        root,
        conftest=CONFTEST,
        cases__test_family=FAMILY,
        cases__test_lone=LONE,
        cases__kit="NUMBERS = range(10)\n",
        table="",
        **{f"src__{number}": "" for number in range(10)},
        src__guarded="",
    )
    committed(root, unrelated="")
    return pytester


def ran(project: pytest.Pytester, *arguments: str) -> tuple[frozenset[int], bool, str]:
    """Return the cases that ran, whether the other rotating test did, and what was printed."""
    result = project.runpytest_inprocess("-v", *arguments)
    text = result.stdout.str()
    assert result.ret == 0, text
    numbers = frozenset(number for number in TEN if f"test_one[{number}] PASSED" in text)
    return numbers, "test_lone PASSED" in text, text


def test_ten_parts_are_everything_and_nothing_twice(project: pytest.Pytester) -> None:
    """Whatever the commits are; a test without cases has a part, too."""
    parts = [ran(project, "--part", str(number)) for number in range(PARTS)]
    assert frozenset().union(*(numbers for numbers, _, _ in parts)) == TEN
    assert sum(len(numbers) for numbers, _, _ in parts) == len(TEN)
    assert {len(numbers) for numbers, _, _ in parts} == {1}
    assert [lone for _, lone, _ in parts].count(True) == 1
    assert all("test_plain PASSED" in text for _, _, text in parts)


def test_the_whole_and_what_is_named_do_not_rotate(project: pytest.Pytester) -> None:
    """By the option, by a file, by one test, by words."""
    assert ran(project, "--whole")[:2] == (TEN, True)
    assert ran(project, "cases/test_family.py")[:2] == (TEN, False)
    assert ran(project, "-k", "test_one")[:2] == (TEN, False)
    for number in range(5):
        assert ran(project, f"cases/test_family.py::test_one[{number}]")[0] == {number}


def test_the_commit_chooses_and_the_summary_says_so(project: pytest.Pytester) -> None:
    """The same commit chooses the same part, with several processes as with one."""
    commit = git(project.path, "rev-parse", "HEAD")
    part = int(commit, 16) % PARTS
    numbers, lone, text = ran(project)
    assert (numbers, lone) == ran(project, "--part", str(part))[:2]
    assert f"part {part} of 0 to 9 (commit {commit[:9]})" in text
    assert f"{len(numbers) + lone} of 11 tests for the part, 0 more for the change" in text
    spread = project.runpytest_subprocess("-n", "2")
    spread.stdout.fnmatch_lines([f"*part {part} of 0 to 9*", "*of 11 tests for the part*"])
    spread.assert_outcomes(passed=len(numbers) + lone + 1)


@pytest.mark.parametrize(
    ("file", "also"),
    [
        ("cases/test_family.py", TEN),
        ("cases/kit.py", TEN),
        ("table.toml", TEN),
        ("tables/one.toml", TEN),
        ("src/7.py", {7}),
        ("src/x.py", ()),
    ],
)
def test_a_change_runs_what_it_touches(project: pytest.Pytester, file: str, also: set[int]) -> None:
    """Not committed, or committed: a test's file, what that imports, its table, the file that a case is about."""
    before = {number: ran(project, "--part", str(number))[0] for number in range(2)}
    path = project.path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "# changed\n")
    for number in range(2):
        assert ran(project, "--part", str(number))[0] == before[number] | set(also)
    committed(project.path)
    numbers, _, text = ran(project, "--part", "0")
    assert numbers == before[0] | set(also)
    assert "the commit before has 1 files" in text


def test_an_entry_that_is_new_or_changed_runs_its_case(project: pytest.Pytester) -> None:
    """And no other case of the same table."""
    marker = "@pytest.mark.rotates(data=['table.toml'], entry=lambda number: [f'number = {number}.'])"
    text = "import pytest\nNUMBERS = range(10)\n" + "\n".join([marker, *FAMILY.splitlines()[3:]])
    table = "".join(f"number = {number}.\n" for number in range(8))
    for name, content in (("cases/test_family.py", text), ("table.toml", table)):
        (project.path / name).write_text(content)
    committed(project.path)
    before = ran(project, "--part", "0")[0]
    (project.path / "table.toml").write_text(table + "number = 8.\nnumber = 9.\n")
    assert ran(project, "--part", "0")[0] == before | {8, 9}


def test_a_file_that_a_guarantee_names_runs_its_test(project: pytest.Pytester) -> None:
    """As docs/guarantees.toml pairs them."""
    (project.path / "src" / "guarded.py").write_text("a = 1\n")
    assert all(ran(project, "--part", str(number))[1] for number in range(PARTS))


def test_coverage_is_kept_out_of_what_rotates_and_of_what_draws_its_examples(
    project: pytest.Pytester,
) -> None:
    """Else the figure would depend on the commit, or on chance."""
    told = (
        "def pytest_runtest_setup(item):\n"
        "    print('measured' if item.get_closest_marker('no_cover') is None else 'left out', item.name)\n"
    )
    drawn = "from hypothesis import given, strategies as st\n@given(st.none())\ndef test_drawn(x): pass\n"
    measuring = "def pytest_sessionstart(session): session.config.pluginmanager.register(object(), '_cov')\n"
    for added, kept in (("", "measured"), (measuring, "left out")):
        committed(project.path, cases__conftest=told + added, cases__test_drawn=drawn)
        text = ran(project, "--whole", "-s")[2]
        assert f"{kept} test_drawn" in text and f"{kept} test_one[3]" in text and f"{kept} test_lone" in text
        assert "measured test_plain" in text


def test_a_branch_is_compared_with_where_it_left_the_main_branch(tmp_path: Path) -> None:
    """All of its commits are the change, and nothing that the main branch has got since."""
    git(tmp_path, "init", "-q", "-b", "main")
    first = committed(tmp_path, a="", b="")
    assert chosen(tmp_path).touched == {"a.py", "b.py"} and "the beginning" in chosen(tmp_path).compared
    git(tmp_path, "switch", "-q", "-c", "topic")
    committed(tmp_path, c="")
    committed(tmp_path, d="")
    git(tmp_path, "switch", "-q", "main")
    committed(tmp_path, e="")
    assert chosen(tmp_path).touched == {"e.py"}
    git(tmp_path, "switch", "-q", "topic")
    choice = chosen(tmp_path)
    assert choice.touched == {"c.py", "d.py"}
    assert choice.compared == f"{first[:9]}, the merge base with main"
    (tmp_path / "ä b.py").write_text("")
    (tmp_path / "a.py").unlink()
    assert changed(tmp_path, "HEAD") == {"a.py", "ä b.py"}


def test_a_clone_without_history_knows_its_part_and_no_change(tmp_path: Path) -> None:
    """It says so; a folder that is no repository, or only lies in one, runs everything."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    committed(origin, a="")
    commit = committed(origin, b="")
    git(tmp_path, "clone", "-q", "--depth", "1", origin.as_uri(), str(clone))
    choice = chosen(clone)
    assert (choice.part, choice.touched) == (int(commit, 16) % PARTS, frozenset())
    assert "no commit before it" in choice.compared
    (origin / "inner").mkdir()
    for folder in (tmp_path, origin / "inner"):
        assert chosen(folder) == Choice(None, "no commit is known here")
        assert chosen(folder, 2).part == 2


def test_a_share_of_cases_has_the_part_and_what_is_touched() -> None:
    """For a test that chooses among its own cases."""
    cases = list(range(20))
    shares = [Choice(number, "").share(cases, lambda case: []) for number in range(PARTS)]
    assert sorted(case for share in shares for case in share) == cases
    assert {len(share) for share in shares} == {2}
    touched = Choice(1, "", touched=frozenset({"7.py", "9.py"}))
    assert touched.share(cases, lambda case: [f"{case}.py"]) == [1, 7, 9, 11]
    assert Choice(None, "").share(cases, lambda case: []) == cases


def test_what_is_read_of_this_project() -> None:
    """Imports of the tests in turn, and each test that sees a guarantee broken."""
    assert {
        "tests/crash/test_kills.py",
        "tests/crash/server.py",
        "tests/crash/scenarios.py",
        "tests/support/worlds.py",
    } <= (imported("tests/crash/test_kills.py"))
    assert "tests/crash/test_kills.py" not in imported("tests/project/test_rotation.py")
    assert "tests/support/rotation.py" in imported("tests/project/test_rotation.py")
    assert guarded() and all(files for files in guarded().values())
