"""
Fingerprints: one short digest for every part that decides a run, as it stands in the run's spec.

The parts, by the beginning of their names:

- ``phase.PHASE`` and ``guard.NAME``: their code, with every function and constant that they depend on;
- ``core.NAME``: code that several of them share (`CORE`), such as the reading of plans or the building of prompts;
- ``row.PHASE.TRIGGER``: the rows of the table;
- ``prompt.NAME``, ``schema.KIND``, ``tool.NAME``, ``formatter``, ``policy``, ``rules``, ``limits``: what an engine was given, and what a
  model may be held to. Of a tool its signature counts, not its code, which is outside of what paor decides.

Code is compared as its syntax (`fsm.source_digests`). Reading it takes a third of a second, so the digests of the code as it
was published stand in ``fingerprints.json`` beside a digest of its files; they are taken when the files are still these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from ..prompts.wire_schemas import SINGLE_SELECTION, parameters_schema, reply_schema
from ..states.spec import Spec, ToolSpec
from .case import _READERS
from .changes import CHANGES
from .machine import PHASE_STATES, guards_in_force
from .source_digests import WHOLE, Place, closure, digest_of, function_digest, read_module, short_digest
from .table import ROWS
from .version import VERSION

_PHASES = ("planning", "specifying", "executing", "observing", "reviewing", "done", "failed")
_WORDS = (
    *(
        "actions",
        "budgets",
        "limits",
        "observations",
        "outcomes",
        "phase",
        "plans",
        "policy",
        "profile",
        "reasons",
    ),
    *("requests", "reviews", "run", "settings", "spec", "waiting", "wire"),
)

CORE: dict[str, tuple[str, ...]] = {
    "vocabulary": tuple(f"states.{name}" for name in _WORDS),
    "decide": ("fsm.machine", "fsm.outcome_facts", "fsm.fold"),
    "prompts": ("prompts.builders", "prompts.history", "prompts.templates", "fsm.kit"),
    "results": ("fsm.outputs", "fsm.context"),
    "schemas": (
        "tools.catalog",
        *(f"tools.schema{name}" for name in ("", "_compiler", "_graph", "_problems")),
    ),
    "plans": (
        *("prompts.plans", "prompts.plan_data", "prompts.task_plans", "prompts.tool_calls"),
        *("fsm.placeholders", "fsm.plan_steps"),
    ),
    "workflow": (
        *("states.workflow", "states.flow", "fsm.flowing", "fsm.flow_values"),
        *("fsm.workflow_flow", "fsm.workflow_tasks"),
    ),
    "expressions": tuple(f"fsm.expression{name}" for name in ("s", "_parsing", "_building", "_values")),
}
"""Modules whose code is one part each, ``core.NAME``; what else they use belongs to it, too."""

_SHARED = (
    *(f"states.{name}" for name in _PHASES),
    *(f"fsm.{name}" for name in ("guards", "case", "judging", "changes", "asking", "table", "planned")),
    *(
        "fsm.observe",
        "fsm.answers",
        "fsm.duplicates",
        "fsm.record",
        "states.counters",
        "prompts.replies",
        "prompts.json_reading",
        "prompts.model",
    ),
    *("prompts.wire_schemas", "prompts.plan_schemas", "tools.policy", "tools.hosts", "tools.defaults"),
    "tools.implied",
)
"""Modules of which every definition belongs to those parts that use it."""

MODULES = frozenset(_SHARED) | {name for names in CORE.values() for name in names}
_OWN = {module: core for core, names in CORE.items() for module in names}
_PARTED = {("fsm.changes", "CHANGES"), ("fsm.guards", "GUARDS"), ("fsm.case", "_READERS")}
_PARTED |= {("fsm.table", name) for name in ("TABLE", "WAITING", "ROWS")}
_PHASE_MODULES = frozenset(f"states.{name}" for name in _PHASES)
"""What ends a closure: tables of the parts themselves, each of which has its own digest."""

KINDS = ("selection", "parameters", "refinement", "review", "plan", "task_plan")
UNREADABLE = "code.version"
"""The only part of the code where its files cannot be read: paor's version."""

_FOLDER = Path(__file__).parent.parent
_KEPT = Path(__file__).parent / "fingerprints.json"


def fingerprints_of(spec: Spec) -> dict[str, str]:
    """Return the fingerprints of a run that is started with *spec* now."""
    return {**code_fingerprints(), **rows_and_schemas(spec.profile.stage), **given_fingerprints(spec)}


# -- what an engine and a run were given ------------------------------------------------------------------------


def given_fingerprints(spec: Spec) -> dict[str, str]:
    """Return the fingerprints of what a spec holds itself: templates, tools, policy, rules."""
    found = {f"prompt.{name}": _text_digest(text) for name, text in spec.templates.items()}
    found |= {f"tool.{tool.name}": tool_fingerprint(tool) for tool in spec.tools}
    if spec.formatter is not None:
        found["formatter"] = tool_fingerprint(spec.formatter)
    found["policy"] = _data_digest(spec.policy.model_dump(mode="json"))
    found["rules"] = _data_digest(list(spec.rules))
    found["limits"] = _data_digest(spec.limits.model_dump(mode="json"))
    return found


def tool_fingerprint(tool: ToolSpec) -> str:
    """Return the digest of a tool's signature: name, description, schema, effect, label, retries, bounds."""
    return _data_digest(tool.model_dump(mode="json"))


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
    for kind in KINDS:
        schema = parameters_schema({}) if kind == "parameters" else reply_schema(kind)  # type: ignore[arg-type]
        if kind == "selection" and stage == "single":
            schema = SINGLE_SELECTION
        found[f"schema.{kind}"] = _data_digest(schema)
    return found


def row_part(source: str, trigger: str) -> str:
    """Return the part that the table's rows of this source and trigger are; there may be several of them."""
    return f"row.{source}.{trigger}"


# -- code ---------------------------------------------------------------------------------------------------------


def code_fingerprints() -> dict[str, str]:
    """Return the fingerprints of phases, guards and shared code, as this process decides with them."""
    return {**published_code(), **_replaced()}


@lru_cache(maxsize=1)
def published_code() -> dict[str, str]:
    """Return the fingerprints of the code in the package's files, read once a process."""
    try:
        sources = {name: _source(name) for name in sorted(MODULES)}
    except OSError:  # only compiled, or in an archive
        return {UNREADABLE: VERSION}
    kept = orjson.loads(_KEPT.read_bytes()) if _KEPT.exists() else {}
    if kept.get("files") == files_digest(sources):
        parts: dict[str, str] = kept["parts"]
        return parts
    return computed_code(sources)


def kept_text() -> str:
    """Return what ``fingerprints.json`` has to hold for the files as they are now."""
    sources = {name: _source(name) for name in sorted(MODULES)}
    kept = {"files": files_digest(sources), "parts": computed_code(sources)}
    return orjson.dumps(kept, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"


def files_digest(sources: Mapping[str, bytes]) -> str:
    """Return the digest of files as they stand, byte by byte."""
    whole = sha256()
    for name, source in sorted(sources.items()):
        whole.update(f"{name} {len(source)}\n".encode() + source)
    return whole.hexdigest()


def computed_code(sources: Mapping[str, bytes]) -> dict[str, str]:
    """Return the fingerprints of phases, guards and shared code from the *sources* of all `MODULES`."""
    modules = {name: read_module(name, source, MODULES) for name, source in sources.items()}
    found: dict[str, str] = {}
    for part, roots in roots_of().items():
        texts = closure(modules, roots, stops_of(part))
        found[part] = digest_of({**texts, ("", ""): " ".join(name for _, name in roots)})
    return found


def roots_of() -> dict[str, list[Place]]:
    """Return for every part of the code the definitions that it begins with, always in the same order."""
    found: dict[str, list[Place]] = {}
    for phase in PHASE_STATES:
        roots = [(f"states.{phase.name.lower()}", type(phase).__name__)]
        if phase.name in _READERS:
            roots.append(("fsm.case", _READERS[phase.name].__name__))
        roots += [
            (_home_of(change), change.__name__)
            for (source, _), change in sorted(CHANGES.items())
            if source == phase.name
        ]
        found[f"phase.{phase.name}"] = roots
    for name in guards_in_force():
        found[f"guard.{name}"] = [("fsm.guards", name)]
    for core, names in CORE.items():
        found[f"core.{core}"] = [(name, WHOLE) for name in names]
    return found


def stops_of(part: str) -> Callable[[Place], bool]:
    """Return what a part does not follow: other parts' own modules, and the tables of parts."""
    kind, _, own = part.partition(".")

    def stops(place: Place) -> bool:
        core = _OWN.get(place[0])
        if core is not None:
            return kind != "core" or core != own
        return place in _PARTED or (kind == "core" and place[0] in _PHASE_MODULES)

    return stops


def _source(name: str) -> bytes:
    return (_FOLDER / f"{name.replace('.', '/')}.py").read_bytes()


def _replaced() -> dict[str, str]:
    """Return the fingerprints of guards and changes that somebody has put in the place of the package's own."""
    found: dict[str, str] = {}
    for name, guard in guards_in_force().items():
        if not _is_own(guard, "fsm.guards", name):
            found[f"guard.{name}"] = _foreign_digest(guard)
    for (source, _), change in CHANGES.items():
        if not _is_own(change, _home_of(change), getattr(change, "__name__", "")):
            part = f"phase.{source}"
            found[part] = short_digest(f"{found.get(part)} {_foreign_digest(change)}".encode())
    return found


def _home_of(change: object) -> str:
    """Return the module that defines a change, if it is one of paor's: what asks a person stands apart."""
    asks = str(getattr(change, "__module__", "")).endswith(".fsm.asking")
    return "fsm.asking" if asks else "fsm.changes"


def _is_own(function: Any, module: str, name: str) -> bool:
    """Whether a function is the one that its module in the package defines."""
    code, place = getattr(function, "__code__", None), f"{__package__.rpartition('.')[0]}.{module}"
    own = getattr(function, "__module__", None) == place and getattr(function, "__qualname__", None) == name
    return own and code is not None and code.co_filename.endswith(f"{module.rpartition('.')[2]}.py")


def _foreign_digest(function: Any) -> str:
    """Return the digest of a function that is none of paor's: of its source, else of its compiled form."""
    import inspect

    try:
        return function_digest(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError):
        code = getattr(function, "__code__", None)
        told = (
            repr((code.co_code, code.co_names, code.co_consts)) if code is not None else repr(type(function))
        )
        return short_digest(told.encode())
