"""`paor validate`: what it prints, its exit codes, and what it says of files that it cannot read."""

from __future__ import annotations

import json
import re

import pytest

from paor import validate

from ..support.cli_support import Shell
from ..support.pages import ROOT, blocks_of, page
from ..workflow.test_workflow import FIXTURES, fixture
from .inside import FUNCTIONS, KEYS

GOOD = "steps:\n  - {type: tool, name: shop_look, args: {word: tea}}\n"
BAD = "steps:\n  - type: toool\n  - {type: tool}\n"


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.yaml")))
def test_A167_the_documents_snippets_are_valid(shell: Shell, name: str) -> None:
    """As files and from standard input."""
    shell.write(name, fixture(name))
    said = shell("validate", name)
    assert (said.code, said.err) == (0, "") and said.out.endswith(", ok\n")
    assert shell("validate", "-", stdin=fixture(name).encode()).code == 0
    assert shell.files() == {name}


def test_A167_a_good_plan_says_what_it_is(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, exit code 0."""
    shell.write("plan.yaml", GOOD)
    said = shell("validate", "plan.yaml")
    assert (said.code, said.out) == (0, "plan.yaml: a plan with 1 step, ok\n")
    with monkeypatch.context() as without:
        without.setattr("sqlite3.connect", None)
        assert shell("validate", "plan.yaml").code == 0, "without an engine, which has a journal"
    assert shell("validate", "plan.yaml", "--kind", "plan").code == 0
    assert (
        shell("validate", "-", stdin=b"\xef\xbb\xbf" + GOOD.encode()).out
        == "standard input: a plan with 1 step, ok\n"
    )


def test_A167_each_defect_is_a_line_with_its_place(shell: Shell) -> None:
    """Defects on standard output, their number on standard error, exit code 2; JSON has the same."""
    shell.write("plan.yaml", BAD)
    said = shell("validate", "plan.yaml")
    assert (said.code, said.err) == (2, "paor validate: plan.yaml: 2 errors\n")
    assert said.out == (
        "plan.yaml:2:5: steps[0].type: expected one of tool, elicitation, noop, abort, found 'toool'\n"
        "plan.yaml:3:5: steps[1].name: a step of type tool needs the name of a tool\n"
    )
    said = shell("validate", "plan.yaml", "--json")
    assert (said.code, said.err) == (2, "")
    assert [said.json[key] for key in ("file", "kind", "ok")] == ["plan.yaml", "plan", False]
    assert said.json["defects"][0] == {
        "line": 2,
        "column": 5,
        "path": "steps[0].type",
        "severity": "error",
        "code": "unknown_type",
        "message": "expected one of tool, elicitation, noop, abort, found 'toool'",
    }
    assert shell("validate", "plan.yaml", "--json").out == said.out
    shell.write("plan.json", json.dumps({"steps": [{"type": "tool"}]}))
    assert shell("validate", "plan.json").out.startswith("plan.json:1:12: steps[0].name: ")
    assert shell("validate", "-", stdin=b"a: *x").out == (
        "standard input:1:4: anchors and aliases are not read; write the value out\n"
    )


@pytest.mark.whole
def test_A167_the_command_works_as_a_process(shell: Shell) -> None:
    """With the installed entry point."""
    shell.write("plan.yaml", BAD)
    said = shell.process("validate", "plan.yaml")
    assert (said.code, said.out.count("\n"), said.err.count("\n")) == (2, 2, 1)
    assert shell.process("validate", "-", stdin=GOOD.encode()).code == 0
    assert shell.files() == {"plan.yaml"}


def test_tools_of_an_app_are_checked(shell: Shell, shop: str) -> None:
    """Names in both spellings, and arguments."""
    shell.write("plan.yaml", GOOD)
    assert shell("validate", "plan.yaml", "--app", f"{shop}:engine").code == 0
    shell.write("plan.yaml", GOOD.replace("look", "lok").replace("word", "words"))
    said = shell("validate", "plan.yaml", "--app", f"{shop}:engine")
    assert said.code == 2 and "there is no tool 'shop_lok'; did you mean shop.look?" in said.out
    shell.write("plan.yaml", GOOD.replace("word", "words"))
    said = shell("validate", "plan.yaml", "--app", f"{shop}:engine")
    assert said.code == 2 and "shop.look: word is required but missing" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument 'FILE'"),
        (("nope.yaml",), "nope.yaml: cannot be read (No such file"),
        (("folder",), "folder: cannot be read (Is a directory"),
        (("bad\0name",), "cannot be read"),
        (("binary.dat",), "binary.dat: is not UTF-8 text"),
        (("huge.yaml",), "huge.yaml: more than 1,048,576 bytes"),
        (("/dev/zero",), "/dev/zero: more than"),
        (("text.txt", "--kind", "list"), "'list' is not one of 'plan', 'workflow'"),
        (("text.txt", "--app", "nothing"), "--app 'nothing': expected MODULE:ENGINE"),
    ],
)
def test_what_cannot_be_read_is_one_line(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    """And nothing is created."""
    (shell.folder / "folder").mkdir()
    shell.write("binary.dat", b"\xff\xfe")
    shell.write("huge.yaml", b"x" * 1_048_577)
    shell.write("text.txt", "steps: []")
    before = shell.files()
    shell("validate", *arguments).refused(words, lines=2)
    assert shell.files() == before


def test_a_file_with_control_characters_in_its_name_and_text_is_harmless(shell: Shell) -> None:
    """Nothing of it reaches the terminal raw."""
    shell.write("a\x1b[2J.yaml", '{"steps": [{"type": "\\u001b[31m"}], "\\u001b": 1}')
    said = shell("validate", "a\x1b[2J.yaml")
    assert said.code == 2 and "\x1b" not in said.out + said.err


# -- the manual ------------------------------------------------------------------------------------------------------

MANUAL = "docs/workflows.md"


def test_A168_the_manual_has_its_sections() -> None:
    """Expressions with every function and operator, placeholders, and every key of a task."""
    text = page(MANUAL)
    for heading in ("## A plan", "### Placeholders", "## A workflow", "## Expressions"):
        assert f"\n{heading}\n" in text
    functions = next(line for line in text.splitlines() if line.startswith("| functions |"))
    assert re.findall(r"`(\w+)`", functions) == list(FUNCTIONS)
    tasks = text.partition("## A workflow")[2].partition("## Running one")[0]
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", tasks)) == {*KEYS} - {"description"}


def test_the_manuals_snippets_are_valid() -> None:
    """Copied from the page, they work; its sessions run with those of all pages."""
    for block in blocks_of(MANUAL):
        if block.language == "yaml":
            assert validate(block.text).defects == ()
        elif block.language == "text" and block.text.startswith("flow.yaml:"):
            (found,) = validate("exec:\n  when: lenn(plan.steps) > 0\n").defects
            assert block.text.strip() == f"flow.yaml:{found}"


def test_the_example_workflows_are_valid() -> None:
    """All of them, without a warning."""
    files = sorted((ROOT / "examples" / "workflows").glob("*.yaml"))
    assert len(files) >= 6
    for path in files:
        assert validate(path.read_text(encoding="utf-8")).defects == (), path
