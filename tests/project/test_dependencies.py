"""A lean core: what is imported is declared, what is declared is imported, and the core works with nothing else."""

from __future__ import annotations

import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.metadata import packages_distributions
from pathlib import Path

from paor import Engine, Journal

from ..support.lean import EXTRAS, PROJECT, closure, core, names, paor_lean, plain, run_lean
from ..support.pages import ROOT, blocks_of
from .test_house import FACE, modules

CORE_MAX = 10
"""One of them, typing-extensions, comes with pydantic anyway."""
INSTALL_MAX = 25

OPTIONAL = {
    "paor.testing.pytest_coverage": "test",
    "paor.pytest_plugin": "test",
    "paor.fuzz": "fuzz",
    "paor.inspect": "inspect",
    "paor.otel.bounded": "otel",
    "paor.otel.sdk_spans": "otel",
    "paor.temporal": "temporal",
    "paor.worker.temporal": "temporal",
    "paor.worker.temporal_workflow": "temporal",
    **{
        f"paor.fsm.journal.postgres.{name}": "postgres"
        for name in ("backend", "connecting", "listening", "migrations", "source")
    },
    "paor.fsm.workflow.expressions.ast_builder": "workflow",
    "paor.prompts.clients.http": "openai",
    "paor.tools.documents.docx_report": "documents",
    "paor.tools.web.transport": "web",
}
"""Modules, or packages of them, that need an extra to be imported; all others need none."""

DEVELOPING = {"dev", "docs"}
"""Extras for those who develop paor; no module of paor imports what they bring."""

USED_BY = {
    "src/paor/fsm/journal/postgres/": ("postgres",),
    "src/paor/fsm/verify/heads.py": ("sign",),
    "src/paor/fsm/workflow/": ("workflow",),
    "src/paor/prompts/clients/": ("openai", "anthropic"),
    "src/paor/prompts/clients/wire/chat_completions.py": ("openai",),
    "src/paor/prompts/clients/wire/messages.py": ("anthropic",),
    "src/paor/prompts/clients/wire/responses.py": ("openai",),
    "src/paor/fuzz/": ("fuzz",),
    "src/paor/inspect/": ("inspect",),
    "src/paor/mcp_server/": ("mcp",),
    "src/paor/otel/": ("otel",),
    "src/paor/pytest_plugin.py": ("test",),
    "src/paor/worker/": ("temporal",),
    "src/paor/testing/": ("test",),
    "src/paor/tools/documents/": ("documents",),
    "src/paor/tools/mcp/": ("mcp",),
    "src/paor/tools/web/": ("web",),
}
"""Files, or folders of them, and the extras that use them, each without the others; all other files belong to the core."""

NOT_IMPORTED = {"lxml-html-clean"}
"""Declared and not imported by paor: lxml passes the import of its part ``lxml.html.clean`` on to it."""


def sources() -> list[Path]:
    """Return every module of the package, each once."""
    return [*FACE.rglob("*.py")]


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the foreign modules that a file imports, and whether it does so when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    first = {node for node in tree.body}
    for node in ast.walk(tree):
        found = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.level == 0
            else []
        )
        for name in found:
            yield name, node in first


distributions = cache(packages_distributions)
"""Reading what is installed takes a second."""


@cache
def owners_of(module: str) -> frozenset[str]:
    """Return the distributions that a module is of; where several share its first name, those that have its file."""
    shared = frozenset(distributions().get(module.partition(".")[0], [f"module {module}"]))
    if len(shared) == 1:
        return shared
    ends = tuple(f"{module.replace('.', '/')}{end}" for end in (".py", "/__init__.py"))
    return (
        frozenset(name for name in shared if any(str(file) in ends for file in metadata.files(name) or ()))
        or shared
    )


@cache
def foreign() -> dict[str, list[str]]:
    """Return for every distribution that is imported the files that do, as ``file`` or, within a function, ``(file)``."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        for module, first in imported(path):
            if module.partition(".")[0] in sys.stdlib_module_names:
                continue
            name = path.relative_to(ROOT).as_posix()
            for owner in owners_of(module):
                found[plain(owner)].append(name if first else f"({name})")
    return found


def test_every_package_that_is_imported_is_declared() -> None:
    """By the core or an extra: what another dependency brings along may be gone with its next version."""
    declared = names(PROJECT["dependencies"]).union(
        *(names(EXTRAS[extra]) for extra in set(EXTRAS) - DEVELOPING)
    )
    assert {name: where for name, where in foreign().items() if name not in declared} == {}


def test_a_file_imports_only_what_its_own_extras_declare() -> None:
    """Each of them, when several use the file: another extra's packages are not there."""
    wrong = []
    for name, files in foreign().items():
        for file in files:
            places = [place for place in USED_BY if file.strip("()").startswith(place)]
            extras = USED_BY[max(places, key=len)] if places else ("core",)
            given = [names(EXTRAS.get(extra, [])) | names(PROJECT["dependencies"]) for extra in extras]
            wrong += [(file, name, extras)] if not all(name in one for one in given) else []
    assert wrong == []


def test_there_is_one_http_library() -> None:
    """The one that the SDKs of the models bring; no extra brings its forerunner beside it."""
    every = {name for extra in EXTRAS if extra != "dev" for name in names(EXTRAS[extra])} - {"paor"}
    assert {"httpx", "httpcore"} & closure(*sorted(every)) == set()


def test_every_package_that_is_declared_is_imported() -> None:
    """A dependency that nothing imports any more is a download for nothing."""
    declared = names(PROJECT["dependencies"]).union(
        *(names(EXTRAS[extra]) for extra in set(EXTRAS) - DEVELOPING)
    )
    assert declared - set(foreign()) - {"paor"} == NOT_IMPORTED


def test_the_core_is_small() -> None:
    """What a plain install brings, counted where it was resolved."""
    assert len(PROJECT["dependencies"]) <= CORE_MAX, PROJECT["dependencies"]
    assert len(core()) <= INSTALL_MAX, sorted(core())


def test_the_extra_all_has_all() -> None:
    """But those for who develops paor; `dev` has it and them."""
    (line,) = EXTRAS["all"]
    listed = line.removeprefix("paor[").removesuffix("]").split(",")
    assert sorted(listed) == sorted(set(EXTRAS) - {"all"} - DEVELOPING)
    assert "paor[all,docs]" in EXTRAS["dev"]


def test_every_module_of_the_core_can_be_imported_without_any_extra(tmp_path: Path) -> None:
    """The others say so with an error of import, and are exactly the ones that are known to need an extra."""
    program = f"""
import importlib
for name in {modules()!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name)
"""
    done = run_lean(program, tmp_path)
    assert done.returncode == 0, done.stderr
    failed = set(done.stdout.split())
    roots = {next((root for root in OPTIONAL if f"{name}.".startswith(f"{root}.")), name) for name in failed}
    assert roots == set(OPTIONAL)


def test_every_public_name_is_there_without_any_extra(tmp_path: Path) -> None:
    """What needs an extra says so when it is used."""
    assert run_lean("from paor import *", tmp_path).stderr == ""


def test_the_first_example_needs_no_extra(tmp_path: Path) -> None:
    """The README's without a key prints what the page shows; the model of the other one needs an SDK."""
    _, block = [block for block in blocks_of("README.md") if block.language == "python"]
    done = run_lean(block.text, tmp_path)
    assert (done.stdout.strip(), done.stderr) == ((block.prints or "").strip(), "")


def test_no_mode_needs_an_extra(tmp_path: Path) -> None:
    """With a text as its document; nor does anything that reads the journal."""
    (tmp_path / "a.txt").write_text(
        "The invoice is due on 3 May 2026. The tenant must pay the rent monthly.\n"
    )
    run = "run 'Summarise the obligations and deadlines' --document a.txt --model offline --mode"
    readers = ("runs", "show", "verify", "replay", "export", "why", "diagram", "doctor", "tools")
    ran = paor_lean(tmp_path, *(f"{run} {mode}" for mode in ("react", "batch", "planner")))
    assert [(said.code, "3 May 2026" in said.out) for said in ran] == [(0, True)] * 3, ran
    assert [said.code for said in paor_lean(tmp_path, *readers)] == [0] * len(readers)


NEEDS = {
    "run x --workflow flow.yaml --model offline": "workflow",
    "run x --workflow flow.json --model offline": "workflow",
    "validate flow.yaml": "workflow",
    "run x --web --model offline": "web",
    "tools --web": "web",
    "run x --model openai:m": "openai",
    "run x --model anthropic:m": "anthropic",
    "tools --mcp ./server.py": "mcp",
    "runs --journal postgresql://nobody@127.0.0.1:1/x": "postgres",
    "heads --journal there/runs.db --sign a.txt": "sign",
    "fuzz": "fuzz",
    "inspect": "inspect",
    "mcp": "mcp",
    "trace last --journal there/runs.db --otlp http://127.0.0.1:9": "otel",
    "run x --model offline --output report.docx": "documents",
    "run x --model offline --document a.txt --document a.pdf": "documents",
    "run x --model offline --document page": "documents",
}


def test_what_needs_an_extra_says_so_in_one_line(tmp_path: Path) -> None:
    """With the command that installs it; nothing is written."""
    (tmp_path / "flow.yaml").write_text("init: {n: '${1 + 1}'}\n")
    (tmp_path / "flow.json").write_text(json.dumps({"init": {"n": "${1 + 1}"}}))
    (tmp_path / "a.txt").write_text("A text.")
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4")
    (tmp_path / "page").write_text("<html><p>A page.</p></html>")
    (tmp_path / "there").mkdir()
    with Engine("offline", journal=tmp_path / "there" / "runs.db") as engine:
        engine.run("x")
    for (line, extra), (code, out, err) in zip(NEEDS.items(), paor_lean(tmp_path, *NEEDS), strict=True):
        assert (code, out, err.count("\n")) == (2, "", 1), (line, err)
        assert f'pip install "paor[{extra}]"' in err, (line, err)
    assert list(tmp_path.glob("*.db")) == []


FLOW = """
stage:
  ask:
    elicitation: {message: 'Which ${1 + 1}?', requestedSchema: {type: object}}
"""


def test_a_run_with_a_workflow_waits_for_the_extra(tmp_path: Path) -> None:
    """Without it the run is neither driven on nor ended: its rows stay as they are, and can be read."""
    with Engine("offline", journal=tmp_path / "paor.db") as engine:
        assert engine.run("x", workflow=FLOW).status == "waiting"
    with Journal(tmp_path / "paor.db", read_only=True) as journal:
        before = journal.reader.query("SELECT * FROM transitions")
    for code, _, err in paor_lean(tmp_path, "resume last --answer '{}'", "replay"):
        assert (code, err.count("\n"), 'pip install "paor[workflow]"' in err) == (2, 1, True), err
    readers = ("runs", "show --steps", "verify", "doctor", "export")
    assert [said.code for said in paor_lean(tmp_path, *readers)] == [0] * len(readers)
    with Journal(tmp_path / "paor.db", read_only=True) as journal:
        assert journal.reader.query("SELECT * FROM transitions") == before
