"""The docs are true: snippets run, generated parts are current, links lead somewhere, JSON forms are accepted."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from paor.prompts.parsing.replies import (
    DirectAnswer,
    Invalid,
    read_answer,
    read_parameters,
    read_refinement,
    read_review,
    read_selection,
)
from paor.prompts.parsing.turns import Calls, read_turn
from paor.states.records.actions import Selection

from ..support.pages import (
    ROOT,
    blocks_of,
    matches,
    page,
    reader_folder,
    run_in_order,
    run_python,
    run_sessions,
)
from .test_dependencies import sources

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)
TUTORIAL = "docs/tutorial.md"
APART = (TUTORIAL, "docs/testing.md")
"""Pages with files that belong together: `test_the_tutorial_works_from_top_to_bottom` and ``testing/test_testing_page.py`` do them."""
OWN = tuple(
    name for name in PAGES if name.startswith("docs/") and "/reference/" not in name and name not in APART
)
"""Pages whose blocks stand for themselves; signatures of the reference are no program."""
RUN = tuple(name for name in OWN if any(block.language == "python" for block in blocks_of(name)))
READERS = ("docs/fuzzing.md",)
"""Pages whose sessions name files of the reader's own."""
SESSIONS = tuple(
    name
    for name in OWN
    if name not in READERS and any(block.language == "console" for block in blocks_of(name))
)


GENERATED = tuple(name for name in PAGES if "\n<!-- generated: " in page(name))

DENIALS = {
    "PostgreSQL": re.compile(r"(?i)SQLite only|only SQLite|one (?:SQLite )?file on one machine"),
    "worker": re.compile(r"in parallel or on many machines|agent on one machine"),
    "inspect": re.compile(r"(?i)\bno (?:UI|inbox|user interface|web page)\b"),
    "otel": re.compile(r"(?i)\bno (?:traces|OpenTelemetry)\b"),
}
"""What no page may say while paor has the store, command or extra."""


@pytest.mark.whole
@pytest.mark.parametrize("name", RUN)
def test_python_of_a_page_runs_and_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    """All snippets of a page are one program, and each prints what is below it."""
    for block, output in run_python(name, tmp_path):
        assert output.strip() == (block.prints or "").strip(), f"{name}:{block.line}"


@pytest.mark.whole
@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_of_a_page_look_as_shown(name: str, tmp_path: Path) -> None:
    """In order, in one folder; compared without ids, times and sizes."""
    blocks = [block for block in blocks_of(name) if block.language == "console"]
    for command, output in run_sessions(blocks, reader_folder(tmp_path)):
        assert matches(command.expected, output), f"{command.line}:\n{output}"


@pytest.mark.whole
def test_the_tutorial_works_from_top_to_bottom(tmp_path: Path) -> None:
    """Typed along in a clone: every file is saved, every command prints what it shows. README tests installing."""
    installs = ("python3 -m venv ", "python -m pip install ")
    done = 0
    for command, output in run_in_order(TUTORIAL, reader_folder(tmp_path), without=installs):
        assert matches(command.expected, output), f"{command.line}:\n{output}"
        done += 1
    commands = [line[2:] for line in page(TUTORIAL).splitlines() if line.startswith("$ ")]
    assert done == len([line for line in commands if not line.startswith(installs)]) >= 20
    assert all(line in page("README.md") for line in commands if line.startswith(installs[0]))
    assert (tmp_path / "walk.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.fixture(autouse=True)
def generators(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs among the docs can be imported."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))


@pytest.fixture
def reference(generators: None) -> Any:
    """What writes the reference."""
    return importlib.import_module("reference_pages")


@pytest.mark.parametrize("name", GENERATED)
def test_generated_parts_are_what_the_code_says_now(name: str) -> None:
    """Table, guards, reasons, placeholders, the help of every command: ``python docs/generate.py``."""
    generate: Any = importlib.import_module("generate")
    assert generate.current(page(name)) == page(name), f"{name} is out of date: run python docs/generate.py"


def test_every_part_that_can_be_generated_is_on_a_page_once() -> None:
    """And every page with such a part is one that ``python docs/generate.py`` writes."""
    generate: Any = importlib.import_module("generate")
    marked = [found[1] for name in GENERATED for found in generate.PART.findall(page(name))]
    assert sorted(marked) == sorted(generate.PARTS)
    assert {(ROOT / "docs" / name).resolve() for name in generate.PAGES} == {
        ROOT / name for name in GENERATED
    }


def untrue(text: str) -> list[str]:
    """Return the sentences of a page that deny what the product has: a store, a command, an extra."""
    facts: Any = importlib.import_module("product_facts")
    has = {*facts.stores(), *facts.commands(), *facts.extras()}
    return [found for name, denial in DENIALS.items() if name in has for found in denial.findall(text)]


@pytest.mark.parametrize("name", [name for name in PAGES if name != "CHANGELOG.md"])
def test_no_page_denies_what_the_product_has(name: str) -> None:
    """The pages that argue for and against paor are held to its stores, commands and extras."""
    assert untrue(page(name)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "storage: SQLite only",
        "one SQLite file on one machine; any process there can continue a run",
        "- **One file on one machine.** SQLite has one writer.",
        "`Engine.waiting` lists them; no inbox",
        "there is no user interface",
        "if steps must run in parallel or on many machines",
        "An agent on one machine whose every step must be limited",
        "paor exports no traces",
    ],
)
def test_a_denial_is_seen(sentence: str) -> None:
    """Among them all that pages once said, after the product had become more."""
    assert len(untrue(f"Before. {sentence}. After.")) == 1


def test_the_arguments_name_every_store_and_every_part_has_a_page() -> None:
    """A command is named by a page besides README's and the reference's lists, an extra by the page that needs it."""
    facts: Any = importlib.import_module("product_facts")
    for name in ("README.md", "docs/index.md", "docs/comparison.md", "docs/why-a-machine.md"):
        assert not [store for store in facts.stores() if store not in page(name)], name
    generate: Any = importlib.import_module("generate")
    texts = "\n".join(generate.PART.sub("", page(name)) for name in (*OWN, *APART))
    assert not [name for name in facts.commands() if not re.search(rf"\bpaor {name}\b", texts)]
    assert not [name for name in facts.extras() if not re.search(rf"\[(?:\w+,)*{name}\b", texts)]
    assert list(facts.EXTRAS) == facts.extras()


def test_the_reference_is_what_the_docstrings_say_now(reference: Any) -> None:
    """Every page as it would be written now, and none that nobody writes any more."""
    pages = reference.pages()
    there = {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "reference").glob("*.md")
    }
    assert there == set(pages)
    for name, text in pages.items():
        assert page(f"docs/{name}") == text, f"docs/{name} is out of date: run python docs/generate.py"


def test_every_public_name_stands_in_the_reference_once_and_whole(reference: Any) -> None:
    """With every argument, field and method described."""
    public: Any = importlib.import_module("public_names")
    names = [name for key in reference.GROUPS for name in reference.names_of(key) if "fuzz" not in key]
    shorts = [name.rpartition(":")[2] for name in names]
    assert sorted(shorts) == sorted(public.public())
    assert not [gap for name in names if "testing" not in name for gap in public.undescribed(name)]
    for key, group in reference.GROUPS.items():
        if group.module:
            assert not [
                gap
                for name in reference.names_of(key)
                for gap in public.undescribed(name)
                if "no docstring" in gap
            ]


def test_the_reference_leaves_out_only_what_is_there() -> None:
    """A method that paor itself calls and that is gone is a stale line."""
    public: Any = importlib.import_module("public_names")
    for name, inner in public.INNER.items():
        kind = public.public().get(name) or getattr(importlib.import_module("paor.fuzz"), name)
        assert not [method for method in inner if not hasattr(kind, method)], name


def test_sections_of_docstrings_are_read() -> None:
    """Entries over several lines, several names at once, text after a section, code and emphasis."""
    docstrings: Any = importlib.import_module("docstrings")
    read = docstrings.parsed(
        """
        Do *this* with ``that``.

        Args:
            one: First
                and more.
            two, **three: Both, as ``a | b``.

        Returns:
            What came
            of it.

        Raises:
            ValueError: Sometimes.

        Source: Document A001,
        and a second line.
        """
    )
    assert read.text == "Do `this` with `that`."
    assert read.named == {"one": "First and more.", "two": "Both, as `a | b`.", "three": "Both, as `a | b`."}
    assert (read.returns, read.raises) == ("What came of it.", [("ValueError", "Sometimes.")])
    assert read.source == "Document A001, and a second line."
    assert docstrings.cell("a | b") == "a \\| b"
    assert docstrings.parsed("Do the same as `run`.").like and not read.like


def test_links_lead_to_files_and_headings_that_exist() -> None:
    """Within the repository, and not through a symbolic link, which a ZIP lacks; a heading by the name that a forge gives it."""
    broken = []
    for name in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?s)```.*?```", "", page(name))):
            if "://" in target:
                continue
            path, _, heading = target.partition("#")
            file = (ROOT / name).parent / path if path else ROOT / name
            through_a_link = file.resolve() != Path(os.path.normpath(file))
            if not file.exists() or through_a_link or (heading and heading not in _headings(file)):
                broken.append(f"{name}: {target}")
    assert not broken


def _headings(file: Path) -> set[str]:
    """Return the anchors of a page; of equal ones the later are numbered."""
    text = re.sub(r"(?ms)^```.*?^```$", "", file.read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    for title in re.findall(r"(?m)^#+ (.*)$", text):
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, 0) + 1
    return {f"{anchor}-{n}" if n else anchor for anchor, count in found.items() for n in range(count)}


def test_the_index_lists_every_page() -> None:
    """What is not linked is not found."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT / "docs").as_posix()
        assert name == "index.md" or f"({name})" in page("docs/index.md"), name


def test_json_forms_of_the_protocol_are_accepted_by_the_readers() -> None:
    """In the order of the page; and what its table says is accepted of a selection."""
    forms = [block.text for block in blocks_of("docs/machine.md") if block.language == "json"]
    selection, direct, parameters, refinement, stop, review, answer, turn = forms
    read: list[object] = [
        read_selection(selection, chars_max=10_000, context_chars=2000),
        read_selection(direct, chars_max=10_000, context_chars=2000),
        read_parameters(parameters, lambda name: True, chars_max=10_000),
        read_refinement(refinement, chars_max=10_000),
        read_refinement(stop, chars_max=10_000),
        read_review(review, chars_max=10_000),
        read_answer(answer, chars_max=10_000),
        read_turn(turn, chars_max=10_000),
    ]
    assert isinstance(read[1], DirectAnswer)
    assert isinstance(read[-1], Calls)
    assert not [item for item in read if isinstance(item, Invalid)]
    merged, pair = re.findall(
        r"\| `(orders\.find\(.*?\))` or `(\{.*?\})` as the action", page("docs/machine.md")
    )[0]
    for action in (merged, json.loads(pair)):
        form = json.dumps({"action": action, "actionObjective": "find the order"})
        chosen = read_selection(form, chars_max=1000, context_chars=100)
        assert isinstance(chosen, Selection) and chosen.tool == "orders.find"


CITED = re.compile(r"\b[Dd]ocuments? 00\d\b|\bA[01]\d\d\b|\brows? [CD]\d+|\bC\d\.\d+\b|\bD(?:1\d|2[0-2])\b")
"""Rows and documents of the specification, which stand in one table, for those who work on paor."""


def test_no_page_for_users_cites_the_specification_by_number() -> None:
    """Neither written nor generated; nor a file that a page shows."""
    shown = [name for name in PAGES if name != "docs/spec-coverage.md"]
    shown += [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "src" / "paor" / "fsm" / "workflow").glob("*.yaml")
    ]
    shown += [path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("[!d]*.py")]
    assert {name: found for name in shown if (found := CITED.findall(page(name)))} == {}


def test_no_message_cites_the_specification_by_number() -> None:
    """Of all texts in the code only those that stand alone, which are docstrings, may."""
    told = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if not CITED.search(text):
            continue
        tree = ast.parse(text)
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
                told += [(path.name, found) for found in CITED.findall(node.value)]
    assert told == []


def test_every_public_name_that_a_page_imports_is_public() -> None:
    """What a reader copies is in ``__all__``."""
    for name in ("README.md", TUTORIAL, *OWN):
        for block in blocks_of(name):
            for home, names in re.findall(r"(?m)^from (paor(?:\.\w+)?) import (.+)$", block.text):
                there = importlib.import_module(home).__all__
                assert {part.strip() for part in names.split(",")} <= set(there), f"{name}:{block.line}"


def test_the_changelog_names_only_what_is_there() -> None:
    """Names in backticks under the newest heading exist: in ``paor``, as commands, or as limits."""
    public: Any = importlib.import_module("public_names")
    newest = page("CHANGELOG.md").partition("## [")[2].partition("\n## [")[0]
    for name in re.findall(r"`(?:paor\.)?([A-Z]\w+)(?:\.(\w+))?`", newest):
        found = public.public()[name[0]]
        # of a class of settings, or of a protocol, these are no attributes
        fields = getattr(found, "model_fields", getattr(found, "__annotations__", {}))
        assert not name[1] or hasattr(found, name[1]) or name[1] in fields, name
