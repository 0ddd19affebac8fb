"""Files that a workflow names: beside its own file and under the policy's roots, and nowhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Policy, ScriptedModel
from paor.cli import main
from paor.errors import UsageError

from ..support.flows import EMPTY, OK

SECRET = "the secret of somebody else"
PROMPT = "Plan this.\n\n=== user ===\n\n{{KEY:OBJECTIVE}}\n"


def plan(name: str) -> dict[str, Any]:
    return {"stage": {"plan": {"action": "llm/core:plan", "input": {"promptTemplateFile": name}}}}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of workflows among others, with a link that leads out of it; work is done in a third one."""
    for name in ("flows", "flows/prompts", "shared", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret.md").write_text(SECRET)
    (tmp_path / "work" / "mine.md").write_text(PROMPT)
    (tmp_path / "shared" / "shared.md").write_text(PROMPT)
    (tmp_path / "flows" / "own.md").write_text(PROMPT)
    (tmp_path / "flows" / "prompts" / "inner.md").write_text(PROMPT)
    os.symlink(tmp_path / "secret.md", tmp_path / "flows" / "link.md")
    os.symlink(tmp_path, tmp_path / "flows" / "out")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def ran(places: Path, workflow: Any, *roots: str, **options: Any) -> str:
    """Return how a run with *workflow* ends; a refusal is one line, before anything is started or read."""
    policy = Policy(file_roots=tuple(str(places / root) for root in roots))
    with Engine(ScriptedModel([EMPTY, OK]), journal="runs.db", policy=policy) as engine:
        before = engine.journal.runs()
        try:
            return engine.run("read", workflow=workflow, **options).state
        except UsageError as error:
            assert engine.journal.runs() == before and "\n" not in str(error)
            assert SECRET not in Path("runs.db").read_bytes().decode("latin-1")
            return str(error)


OUTSIDE = {
    "absolute": "{places}/secret.md",
    "dots": "../secret.md",
    "dots within": "prompts/../../secret.md",
    "link": "link.md",
    "linked folder": "out/secret.md",
    "where the process works": "../work/mine.md",
    "device": "/proc/self/environ",
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("roots", [(), pytest.param(("shared",), marks=pytest.mark.whole)])
def test_a_template_elsewhere_is_not_read(places: Path, name: str, roots: tuple[str, ...]) -> None:
    """Named by the file, by a variable, or in a workflow that is data or the text of a file."""
    file = OUTSIDE[name].format(places=places)
    (places / "flows" / "a.yaml").write_text(json.dumps(plan(file)))
    (places / "flows" / "b.yaml").write_text(json.dumps(plan("${which}")))
    told = [
        ran(places, places / "flows" / "a.yaml", *roots),
        ran(places, places / "flows" / "b.yaml", *roots, variables={"which": file}),
        ran(places, plan(file), *roots),
        ran(places, json.dumps(plan(file)), *roots),
    ]
    refusals = ("outside the folders", "no file_roots", "No such file")
    assert all(any(words in line for words in refusals) for line in told), told
    given = json.dumps({"objective": "read", "workflow": plan(file)})
    assert main(["run", "--input", given, "--model", "offline", "--journal", "cli.db"]) == 2
    assert not Path("cli.db").exists() or SECRET.encode() not in Path("cli.db").read_bytes()


@pytest.mark.parametrize(
    ("name", "roots"),
    [
        ("own.md", ()),
        ("prompts/inner.md", ()),
        ("{places}/flows/own.md", ()),
        ("{places}/shared/shared.md", ("shared",)),
    ],
)
def test_a_template_beside_the_workflow_or_under_the_roots_is_read(
    places: Path, name: str, roots: tuple[str, ...]
) -> None:
    file = places / "flows" / "a.yaml"
    file.write_text(json.dumps(plan(name.format(places=places))))
    assert ran(places, file, *roots) == "Done"
    if roots:
        assert ran(places, plan("shared.md"), *roots) == "Done", (
            "data has the roots, and the first is its folder"
        )


def test_a_script_that_a_workflow_names_as_its_model_stands_there_too(places: Path) -> None:
    """A model `script:FILE` is a file like any other."""
    (places / "flows" / "replies.json").write_text(json.dumps([EMPTY, OK]))
    (places / "replies.json").write_text(json.dumps([EMPTY, OK]))
    for number, (name, end) in enumerate([("replies.json", "Done"), ("../replies.json", "outside")]):
        file = places / "flows" / f"{number}.yaml"
        file.write_text(json.dumps({"plan": {"input": {"model": f"script:{name}"}}}))
        assert end in ran(places, file)


@pytest.mark.parametrize("given", ["text", "path"])
def test_a_workflow_file_is_found_whose_name_is_no_utf_8(places: Path, given: str) -> None:
    """As any file that the system has; what is wrong with it is said in words that can be written anywhere."""
    name = os.fsdecode(bytes(places / "flows") + b"/caf\xe9.yaml")
    os.close(os.open(os.fsencode(name), os.O_CREAT))
    file: Any = name if given == "text" else Path(name)
    assert ran(places, file) == "Done"
    Path(name).write_bytes(b"\xe9")
    assert ran(places, file).encode().endswith(b"caf?.yaml: is not UTF-8 text")
