"""
Fingerprints: one short digest for every part that decides a run, as it is in the run's spec.

The parts, by the beginning of their names:

- ``phase.PHASE`` and ``guard.NAME``: their code, with every function, class and constant that they depend on;
- ``core.NAME``: what several of them use (`CORE`), such as the reading of plans or the building of prompts;
- ``row.PHASE.TRIGGER``: the rows of the table;
- ``prompt.NAME`` (``prompt.instructions``: the host's instructions), ``schema.KIND``, ``tool.NAME``, ``formatter``, ``policy``, ``rules``, ``limits``: what an engine was given, and what a
  model may be held to. Of a tool its signature counts, not its code, which is outside of what paor decides.

Code is compared by what it means, not by how it is written or where it is (`fsm.versioning.source_digests`). Reading it takes about half a
second, so the digests of the code as it was published are in ``fingerprints.json``, with the paths of the files that were
read and a digest of them; they are taken when these files are unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from ...prompts.parsing.reply_forms import (
    Form,
    Needs,
    Offer,
    answer_form,
    output_form,
    parameters_form,
    plan_form,
    refinement_form,
    review_form,
    selection_form,
    task_plan_form,
)
from ...states.base.version import VERSION
from ...states.run.spec import Spec, ToolSpec
from ..decision.interpret import _READERS
from ..machine.guards import GUARDS
from ..machine.machine import PHASE_STATES, guards_in_force
from ..machine.stop_rules import PREDICATES
from ..machine.table import ROWS
from ..machine.updates import CHANGES
from .host_code import foreign_digest, host_fingerprints
from .normal_form import Place
from .source_digests import (
    Files,
    Package,
    UnknownDefinition,
    digest_of,
    short_digest,
)

CORE: dict[str, tuple[tuple[str, str], ...]] = {
    "vocabulary": (
        ("states", "Run Counters Memory Change initial_run Spec ToolSpec Limits Policy Profile NAMED"),
        ("states", "Selection Intent ToolResult StoredText DocumentRef Preview WebFact SchemaField"),
        ("states", "ActionSelection ActionParameters Observation StepCheck Message Turn Refinement Review"),
        ("states", "Elicitation Step Plan PlanResult TranscriptMessage PlannedTask TaskPlan"),
        (
            "states",
            "Usage NoOutcome Replied ModelFault Ended InDoubt Asked Recalled Answered Cancelled Unaffordable",
        ),
        (
            "states",
            "Nothing ModelRequest ToolRequest Recall QuestionRecord Answer Asking Phase Wire Stored Settings",
        ),
        ("states", "reservation refusal allowance"),
    ),
    "decide": (("fsm", "decide Moment Decision apply restore Machine Walker GuardedTransition"),),
    "prompts": (
        ("fsm", "RunResources"),
        ("prompts", "PromptBuilder TextTask PlanInput tool_text parse_template default_templates"),
        ("prompts", "single_stage_templates report_templates"),
    ),
    "results": (("fsm", "result_of error_of question_from is_empty CallContext"),),
    "schemas": (("tools", "Catalog ParameterSchema compiled_schema canonical_arguments"),),
    "plans": (
        ("prompts", "read_plan read_task_plan native_reply"),
        (
            "fsm",
            "placeholder_defects has_placeholders needed_steps resolve_arguments StepOutput missing_question",
        ),
    ),
    "workflow": (
        ("states", "Workflow FlowState"),
        (
            "fsm",
            "Flow Moved read_flow workflow_update flow_arguments check_listed cursor_of plan_input actions_of",
        ),
    ),
    "expressions": (("fsm", "parse_expression holds template_parts rendered ExpressionError"),),
}
"""
Per part ``core.NAME`` the definitions that it begins with, as rooms with names that each of them defines once.

Other parts use these definitions without depending on how they are made; whatever they use themselves belongs to them. A room
is a folder with everything below it, so that nothing here changes when a definition moves within it. The order is part of
the fingerprints: a new definition goes to the end.
"""

_TABLES = (("fsm", "CHANGES GUARDS _READERS PREDICATES TABLE WAITING ROWS _BY_PHASE"),)
"""Tables of the parts themselves, each of which has its own digest: nothing depends on them as a whole."""

_OF_DRIVERS = ("document_time_s", "document_memory_bytes", "tool_timeout_s")
"""Limits that bound a tool while it runs and decide nothing; runs from before they existed have the same fingerprint."""

KINDS = ("selection", "parameters", "refinement", "review", "plan", "task_plan", "answer")
UNREADABLE = "code.version"
"""The only part of the code where its files cannot be read: paor's version."""

_KEPT = Path(__file__).with_name("fingerprints.json")
_PACKAGE = __name__.partition(".")[0]


def fingerprints_of(spec: Spec) -> dict[str, str]:
    """Return the fingerprints of a run that is started with *spec* now."""
    return {**code_fingerprints(), **rows_and_schemas(spec.profile.stage), **given_fingerprints(spec)}


# -- what an engine and a run were given ------------------------------------------------------------------------


INSTRUCTIONS = "prompt.instructions"
"""Part of what an engine and a run tell every model; there where they tell something."""

LATER_LIMITS = {"context_tokens", "calls_per_reply", "parallel_calls", "compaction"}
"""Limits that the first journals did not know; the digest of theirs is without them."""


def given_fingerprints(spec: Spec) -> dict[str, str]:
    """Return the fingerprints of what a spec holds itself: templates, tools, policy, rules."""
    found = {f"prompt.{name}": _text_digest(text) for name, text in spec.templates.items()}
    found |= {f"tool.{tool.name}": tool_fingerprint(tool) for tool in (*spec.phase_tools, *spec.tools)}
    if spec.formatter is not None:
        found["formatter"] = tool_fingerprint(spec.formatter)
    found["policy"] = _data_digest(spec.policy.model_dump(mode="json"))
    if texts := [text for text in (spec.instructions, spec.own_instructions) if text]:
        found[INSTRUCTIONS] = _data_digest(texts)
    found["rules"] = _data_digest(list(spec.rules))
    unknown = LATER_LIMITS - spec.limits.model_fields_set
    limits = spec.limits.model_dump(mode="json", exclude={*_OF_DRIVERS, *unknown})
    if limits["max_reply_tokens"] is None:  # as an earlier version has written it
        del limits["max_reply_tokens"]
    found["limits"] = _data_digest(limits)
    return found | host_fingerprints(spec.host_machine)


def tool_fingerprint(tool: ToolSpec) -> str:
    """Return the digest of a tool's signature: name, description, schema, effect, label, retries, bounds."""
    return _data_digest(tool.model_dump(mode="json", exclude=None if tool.filled else {"filled"}))


@lru_cache(maxsize=256)
def _text_digest(text: str) -> str:
    return short_digest(text.encode("utf-8", "surrogatepass"))


def _data_digest(data: Any) -> str:
    return short_digest(orjson.dumps(data, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))


@lru_cache(maxsize=4)
def rows_and_schemas(stage: str) -> dict[str, str]:
    """Return the fingerprints of the table's rows and of the replies' schemas in a profile's *stage*."""
    found: dict[str, str] = {}
    for number, row in enumerate(ROWS):
        name = row_part(row.source, row.trigger)
        earlier = [other.trigger for other in ROWS[:number] if other.source == row.source]
        found[name] = _data_digest([found.get(name), earlier, row.dest, *row.guards])
    for kind, forms in example_forms(stage).items():
        found[f"schema.{kind}"] = _data_digest([[form.words, form.schema] for form in forms])
    return found


def example_forms(stage: str) -> dict[str, tuple[Form, ...]]:
    """Return the forms of the replies as a run has them that has something of everything."""
    needs = [Needs(document=document, connection=one) for document in (False, True) for one in (False, True)]
    actions = tuple((need, (f"do.it{number}",)) for number, need in enumerate(needs))
    offer = Offer(actions, True, ("label",), learnings=True)
    return {
        "selection": tuple(selection_form(offer, stage=stage, strict=strict) for strict in (False, True)),
        "parameters": (parameters_form({"properties": {"name": {"type": "string"}}}),),
        "refinement": (refinement_form(("do.it",)), refinement_form(("do.it",), ("criterion",))),
        "review": (
            review_form(),
            review_form(("criterion",)),
            review_form((), _SOME_OUTPUT),
            output_form(_SOME_OUTPUT),
        ),
        "plan": (plan_form(("do.it",)),),
        "task_plan": (task_plan_form(),),
        "answer": (answer_form(),),
    }


_SOME_OUTPUT = {"type": "object", "properties": {"name": {"$ref": "#"}}}


def row_part(source: str, trigger: str) -> str:
    """Return the part that the table's rows of this source and trigger are; there may be several of them."""
    return f"row.{source}.{trigger}"


# -- code ---------------------------------------------------------------------------------------------------------


def code_fingerprints() -> dict[str, str]:
    """Return the fingerprints of phases, guards and shared code, as this process decides with them."""
    return {**published_code(), **_replacements()}


@lru_cache(maxsize=1)
def published_code() -> dict[str, str]:
    """Return the fingerprints of the code in the package's files, read once a process."""
    try:
        kept = orjson.loads(_KEPT.read_bytes()) if _KEPT.exists() else {}
        if kept.get("files") == files_digest(package_files(), kept.get("read", ())):
            parts: dict[str, str] = kept["parts"]
            return parts
        return computed_code(package_files())
    except (OSError, UnknownDefinition):  # only compiled, or in an archive
        return {UNREADABLE: VERSION}


def kept_text() -> str:
    """Return what ``fingerprints.json`` has to hold for the files as they are now."""
    package = read_package(package_files())
    parts = parts_of(package)  # before the paths: this is what reads most of the files
    paths = sorted(package.paths)
    kept = {"files": files_digest(package.files, paths), "parts": parts, "read": paths}
    return orjson.dumps(kept, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"


def package_files(edits: Mapping[str, bytes | None] | None = None) -> Files:
    """Return the package's own files, with *edits* by path in place of what is there."""
    folder = sys.modules[_PACKAGE].__file__
    if folder is None:
        raise FileNotFoundError(_PACKAGE)
    return Files(Path(folder).parent, edits)


def files_digest(files: Files, paths: Iterable[str]) -> str:
    """Return the digest of files as they are, byte by byte."""
    whole = sha256()
    for path in paths:
        content = files.read(path)
        whole.update(f"{path} {-1 if content is None else len(content)}\n".encode() + (content or b""))
    return whole.hexdigest()


def computed_code(files: Files) -> dict[str, str]:
    """
    Return the fingerprints of phases, guards and shared code from *files*.

    Raises:
        UnknownDefinition: What a part begins with is not there, or there twice.
    """
    return parts_of(read_package(files))


def read_package(files: Files) -> Package:
    """Return the package that *files* hold, with the boundaries of its parts."""
    package = Package(files)
    labels = package.boundaries
    for part, rooms in {**CORE, "table": _TABLES}.items():
        places = (package.find(room, name) for room, names in rooms for name in names.split())
        labels |= {place: f"{part} {number}" for number, place in enumerate(places)}
    for phase in PHASE_STATES:
        labels[place_of(type(phase))] = f"phase {phase.name}"
    return package


def parts_of(package: Package) -> dict[str, str]:
    """Return the fingerprint of every part of the code."""
    roots = roots_of(package)
    digests = package.digests(place for places in roots.values() for place in places.values())
    return {
        part: digest_of(f"{name}={digests[place]}" for name, place in places.items())
        for part, places in roots.items()
    }


def roots_of(package: Package) -> dict[str, dict[str, Place]]:
    """Return for every part of the code the definitions that it begins with, by what they are in it."""
    found: dict[str, dict[str, Place]] = {}
    for phase in PHASE_STATES:
        roots = {"request": place_of(type(phase))}
        if phase.name in _READERS:
            roots["read"] = place_of(_READERS[phase.name])
        roots |= {
            trigger: place_of(change)
            for (source, trigger), change in sorted(_CHANGES.items())
            if source == phase.name
        }
        found[f"phase.{phase.name}"] = roots
    found |= {f"guard.{name}": {"guard": place_of(guard)} for name, guard in _GUARDS.items()}
    for core in CORE:
        found[f"core.{core}"] = {
            label: place for place, label in package.boundaries.items() if label.startswith(f"{core} ")
        }
    # the table of stops names its predicates in texts, which no reading of the code follows
    found["core.decide"] |= {f"stop {name}": place_of(found_by) for name, found_by in PREDICATES.items()}
    return found


def place_of(definition: Any) -> Place:
    """Return where the package defines a function or class."""
    return definition.__module__.removeprefix(f"{_PACKAGE}."), definition.__qualname__


_GUARDS = dict(GUARDS)
_CHANGES = dict(CHANGES)
"""Guards and changes as the package defines them: a host that replaces one does so later, in the tables themselves."""


def _replacements() -> dict[str, str]:
    """Return the fingerprints of guards and changes that somebody has put in the place of the package's own."""
    found: dict[str, str] = {}
    for name, guard in guards_in_force().items():
        if guard is not _GUARDS.get(name):
            found[f"guard.{name}"] = foreign_digest(guard)
    for (source, trigger), change in sorted(CHANGES.items()):
        if change is not _CHANGES.get((source, trigger)):
            part = f"phase.{source}"
            before = found.get(part, published_code().get(part))
            found[part] = digest_of((f"{before}", trigger, foreign_digest(change)))
    return found
