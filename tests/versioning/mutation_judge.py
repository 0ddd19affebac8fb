"""
Judge mutants: each one in a process of its own, which loads the edited code and replays a corpus of journals.

    python -m tests.versioning.mutation_judge FOLDER COUNT SEED WORKERS [PLACES]

prints one JSON line a mutant, of all or of those at the PLACES, a JSON list: whether the replay of the corpus names it, with run, row and field, and which fingerprints it
changes. This process has imported everything but the project; what it starts imports the project anew, with the edit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

from .mutants import Mutant, edits

ROOT = Path(__file__).parents[2]
SECONDS = 30
"""After which a mutant counts as one that never ends."""


class Edited(SourceFileLoader):
    """Loads a module from another text than its file has; nothing of it is cached."""

    text = b""

    def get_data(self, path: str) -> bytes:
        """Return the edited text."""
        return self.text

    def path_stats(self, path: str) -> Any:
        """Refuse, so that no compiled form is looked for or kept."""
        raise OSError(path)


class Finder(MetaPathFinder):
    """Finds one module of the project as a mutant has it."""

    def __init__(self, mutant: Mutant) -> None:
        place = mutant.file.removeprefix("src/paor/")
        self.name = f"paor.{place.removesuffix('.py').replace('/', '.')}"
        self.path = str(ROOT / "src" / "paor" / place)
        self.text = mutant.text.encode()

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the module's place and loader, nothing for any other module."""
        if name != self.name:
            return None
        loader = Edited(name, self.path)
        loader.text = self.text
        return spec_from_file_location(name, self.path, loader=loader)


def judged(mutant: Mutant, corpus: list[str]) -> dict[str, Any]:
    """Return what the replay of the *corpus* says of a mutant; runs in a process of its own."""
    try:
        if mutant.file.endswith(".py"):
            sys.meta_path.insert(0, Finder(mutant))
        from paor import Journal, replay

        source, parts = present(mutant), set[str]()
        for path in corpus:
            with Journal(path, read_only=True) as journal:
                for row in journal.runs():
                    found = replay(journal, row.run_id, source)
                    if not found.identical:
                        first = found.divergences[0]
                        place = {"run": Path(path).parent.name, "seq": first.seq, "field": first.field}
                        return {"by": "replay", **place, "told": str(first)}
                    parts |= {change.part for change in found.changed}
    except Exception as error:  # noqa: BLE001 - edited code may raise anything
        return {
            "by": "replay",
            "field": "load",
            "run": "",
            "seq": -1,
            "told": f"{type(error).__name__}: {error}",
        }
    return {"by": "", "parts": sorted(parts)}


class Present:
    """An engine of now, as far as a replay looks at it: with edited templates, limits, policy or tools."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def current_spec(self, spec: Any) -> Any:
        """Return a recorded spec with the edit."""
        return spec.model_copy(update=EDITS[self.mutant.kind](spec, self.mutant))

    def machine_for(self, spec: Any) -> None:
        """Return nothing: the standard machine."""


def _template(spec: Any, mutant: Mutant) -> dict[str, Any]:
    name, single = mutant.place, spec.profile.stage == "single"
    if (name == "selection_single") is not single and name.startswith("selection"):
        return {}
    name = "selection" if name == "selection_single" else name
    if name in (*spec.own_templates, *spec.host_templates):
        return {}
    return {"templates": {**spec.templates, name: mutant.text}}


def _limits(spec: Any, mutant: Mutant) -> dict[str, Any]:
    value = getattr(spec.limits, mutant.text)
    less = value // 8 if value > 100 else value - 1
    return {"limits": spec.limits.model_copy(update={mutant.text: max(less, 0)})}


def _policy(spec: Any, mutant: Mutant) -> dict[str, Any]:
    return {"policy": spec.policy.model_copy(update={mutant.place: (mutant.text,)})}


def _tool(spec: Any, mutant: Mutant) -> dict[str, Any]:
    return {"tools": tuple(_edited_tool(tool, mutant) for tool in spec.tools)}


def _edited_tool(tool: Any, mutant: Mutant) -> Any:
    name, schema = mutant.place, dict(tool.parameters)
    properties = dict(schema.get("properties") or {})
    if name == "effect":
        return tool.model_copy(update={"effect": "once" if tool.effect == "read" else "read"})
    if name in ("label", "step_retries", "repeat_allowed", "description"):
        value: Any = {"label": "sheet", "step_retries": tool.step_retries + 1, "repeat_allowed": True}.get(
            name, "Other."
        )
        return tool.model_copy(update={name: value})
    if name == "parameters":
        properties["chapter"] = {"type": "integer"}
        schema |= {"required": [*schema.get("required", ()), "chapter"]}
    elif name == "default":
        properties = {"volume": {"type": "integer", "default": 1}, **properties}
    elif name == "type":
        properties = {key: {"type": "array"} for key in properties}
    else:
        properties = {f"{key}_": value for key, value in properties.items()}
        schema |= {"required": [f"{key}_" for key in schema.get("required", ())]}
    return tool.model_copy(update={"parameters": {**schema, "properties": properties}})


EDITS = {"template": _template, "limits": _limits, "policy": _policy, "tool": _tool}


def present(mutant: Mutant) -> Present | None:
    """Return the engine to compare with, None where the code itself is edited."""
    return None if mutant.file.endswith(".py") else Present(mutant)


def fingerprinted(mutant: Mutant) -> list[str]:
    """Return the parts of the code that a mutant changes, by their fingerprints."""
    from paor.fsm.versioning import fingerprints
    from paor.fsm.versioning.source_digests import Package

    if not mutant.file.endswith(".py"):
        return []
    if not _KNOWN:
        package = fingerprints.read_package(fingerprints.package_files())
        fingerprints.parts_of(package)
        _KNOWN.append(package)
        for part, roots in fingerprints.roots_of(package).items():
            _PARTS[part] = set().union(*map(package.reached, roots.values()))
    known = _KNOWN[0]
    edited = Package(fingerprints.package_files({mutant.file: mutant.text.encode()}))
    edited.boundaries |= known.boundaries
    module = mutant.file.removesuffix(".py").replace("/", ".")
    read = [place for place in known.forms if place[0] == module]
    changed = {place for place in read if edited.form(place).pieces != known.forms[place].pieces}
    return [part for part, places in _PARTS.items() if places & changed]


_KNOWN: list[Any] = []
_PARTS: dict[str, Any] = {}


def all_judged(chosen: list[Mutant], corpus: list[str], workers: int) -> Iterator[dict[str, Any]]:
    """Yield every mutant with its judgement, *workers* processes at a time."""
    parts = {id(mutant): fingerprinted(mutant) for mutant in chosen}
    for name in [name for name in sys.modules if name.partition(".")[0] == "paor"]:
        del sys.modules[name]
    running: dict[int, tuple[int, Mutant]] = {}
    left = list(reversed(chosen))
    while left or running:
        while left and len(running) < workers:
            mutant = left.pop()
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                _child(writer, mutant, corpus)
            os.close(writer)
            running[child] = (reader, mutant)
        child, status = os.wait()
        reader, mutant = running.pop(child)
        with os.fdopen(reader, "rb") as file:
            told = file.read()
        verdict: dict[str, Any] = (
            json.loads(told)
            if told
            else {"by": "replay", "field": "end", "seq": -1, "run": "", "told": f"{status}"}
        )
        verdict["parts"] = sorted(set(verdict.get("parts") or ()) | set(parts[id(mutant)]))
        yield {**{key: value for key, value in asdict(mutant).items() if key != "text"}, **verdict}


def _child(writer: int, mutant: Mutant, corpus: list[str]) -> None:
    """Judge one mutant in this process, and end it whatever happens."""
    try:
        signal.alarm(SECONDS)
        with os.fdopen(writer, "wb") as file:
            file.write(json.dumps(judged(mutant, corpus)).encode())
    finally:
        os._exit(0)


def main() -> None:
    """Print the judgements of the mutants that the command line asks for."""
    folder, count, seed, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    import lark  # noqa: F401 - so that no process has to read it again
    import yaml  # noqa: F401

    import paor.fsm.decision.workflow_mode
    import paor.fsm.replay.replay  # noqa: F401

    corpus = [str(path) for path in sorted(Path(folder).glob("*/*.db"))]
    chosen = edits(count, seed)
    if len(sys.argv) > 5:
        chosen = [chosen[place] for place in json.loads(sys.argv[5])]
    for verdict in all_judged([edit.make() for edit in chosen], corpus, workers):
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
