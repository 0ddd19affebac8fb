"""Starting under a key: the first start creates the run, every later one gets that run, whoever starts it and how often."""

from __future__ import annotations

from ...states.base.errors import KeyConflict
from ...states.run.spec import Spec
from ...states.settings.limits import Limits
from ..journal.payloads import Stager
from ..journal.reader import JournalReader
from ..journal.store import KeyTaken
from ..runtime.result import Result
from .fallback import stand_in
from .options import OPTIONS, Use
from .resume import Continuation, continuation
from .runner import Runner
from .start import NewRun, input_references

SAID = (
    *("objective", "success_criteria"),
    *(name for name, option in OPTIONS.items() if Use.SPEC in option.use and name not in ("key", "metadata")),
    *("own_instructions", "output_schema", "workflow", "flow", "task", "tasks"),
)
"""Fields of a spec that only the caller of the start decides, and no engine."""


def begin(runner: Runner, new: NewRun) -> Continuation | Result:
    """
    Create a run; or, if its key has one, go on with that: its result when there is nothing to do.

    Raises:
        KeyConflict: The key's run was started otherwise.
        LeaseHeld: Another driver drives it.
    """
    try:
        made = runner.creation(new)()
    except KeyTaken as taken:
        return _first_run(runner, taken.run_id, new)
    return Continuation(lambda: made, resumed=False)


def run_of_key(journal: JournalReader, key: str | None) -> str:
    """Return the run that a key names, or that stands in for it; called when somebody drives that."""
    return stand_in(journal, journal.runs(key=key)[0].run_id)


def _first_run(runner: Runner, run_id: str, new: NewRun) -> Continuation | Result:
    """Return how the run of a key goes on, or the run that stands in for it."""
    journal = runner.journal.reader
    check_same_start(journal, run_id, new)
    run_id = stand_in(journal, run_id)
    given = {"connections": new.connections, "deps": new.deps, "output_type": new.output_type}
    return continuation(runner, run_id, model=new.model, **given)


def check_same_start(journal: JournalReader, run_id: str, new: NewRun) -> None:
    """Raise `KeyConflict` unless a start is the one that created a run."""
    if differing := _differences(journal, run_id, new):
        raise KeyConflict(
            f"key {new.spec.key!a:.60} is that of run {run_id}, which was started with other"
            f" {', '.join(differing)}; nothing was started"
        )


def _differences(journal: JournalReader, run_id: str, new: NewRun) -> list[str]:
    """
    Return the arguments in which a start differs from the one that created a run.

    What an engine brings unless the caller does (limits, tools, the planning template, the profile) is compared if this start gives it, so
    that a start is the same after an engine has changed. Model and connections drive a run, and metadata decides nothing.
    """
    row, stored = journal.run(run_id), journal.spec(run_id)
    spec = new.spec
    found = [name for name in SAID if getattr(spec, name) != getattr(stored, name)]
    if (spec.workflow_id or run_id) != row.workflow_id:
        found.append("workflow")
    found += [name for name, value in spec.children.items() if stored.children.get(name) != value]
    given = {
        "limits": _as_given(spec.limits) == _as_given(stored.limits),
        "profile": spec.profile == stored.profile,
        "tools": [tool.name for tool in spec.tools] == [tool.name for tool in stored.tools],
        "prompt_template": all(
            spec.templates[name] in [stored.templates[own] for own in stored.own_templates]
            for name in spec.own_templates
        ),
    }
    found += [name for name in new.given if not given[name]]
    if not _same_documents(journal, row.run, stored, new):
        found.append("documents")
    return list(dict.fromkeys(found))


def _as_given(limits: Limits) -> Limits:
    """Return limits without the size of the context, which a model's server may tell otherwise by now."""
    return limits.model_copy(update={"context_tokens": None})


def _same_documents(journal: JournalReader, run: int, stored: Spec, new: NewRun) -> bool:
    """Return whether a run was started with the documents of *new*, as far as they are not erased."""
    stager = Stager(0, lambda: b"")
    given = input_references(new.spec, new.documents, stager)
    bodies = {payload.n: payload.body for payload in stager.taken()}
    were = [
        item
        for item in stored.documents
        if not stored.follows or item.label.startswith(f"round{stored.round}_")
    ]
    if len(given) != len(were):
        return False
    for item, was in zip(given, were, strict=True):
        if (item.position, item.name, item.mime) != (was.position, was.name, was.mime):
            return False
        if journal.payload(run, was.payload.n).body not in (None, bodies[item.payload.n]):
            return False
    return True
