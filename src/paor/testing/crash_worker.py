"""What a process of the crash matrix does: start the run of somebody's agent, or take up what a killed one has left."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

from ..fsm.engine import Engine
from ..fsm.explain.coverage import coverage
from ..fsm.journal_api import Journal
from ..fsm.replay.restore import restore_run
from ..fsm.runtime.events import RunEnded, TransitionTaken
from ..fsm.runtime.result import Result
from ..fsm.runtime.tool_results import output_of
from ..states.base.errors import AnswerNeeded, EffectUnknown, NotStarted, PaorError, TimedOut, UsageError
from ..states.run.spec import TASK_TOOL
from ..tools.tool import Document, Tool, ToolOutput
from .crash_points import Points, WatchedModel, watching
from .scripted import problems

JOURNAL = "runs.db"
NOTES = "crash-matrix"
"""Folder of the files that the matrix keeps for a case."""

WAITS_MAX = 200
"""Answers to one run, after which it is taken to wait for ever."""


class Notes:
    """
    JSON lines that outlive the process: each call of a tool, and each row that was reported to a caller.

    Args:
        folder: Of the case.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NOTES / "notes.jsonl"
        self.path.parent.mkdir(exist_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, **entry: Any) -> None:
        """Write a line; a killed process leaves it with the system."""
        os.write(self._file, json.dumps(entry, default=repr).encode() + b"\n")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()])

    @contextmanager
    def call(self, tool: Tool, arguments: Any, context: Any) -> Iterator[Callable[[Any], None]]:
        """Note that a call begins, and what it returned, so far as somebody could say it by hand, or raised."""
        key = context.idempotency_key
        if tool.name != TASK_TOOL.name:
            given = json.dumps(dict(arguments), sort_keys=True, default=repr)
            self.add(begun=key, tool=tool.name, arguments=given, effect=tool.effect)
        try:
            yield lambda value: self.add(ended=key, tool=tool.name, **_plain(value))
        except BaseException as error:
            kind = next(name for kinds, name in _KINDS.items() if isinstance(error, kinds))
            self.add(raised=key, tool=tool.name, kind=kind, text=str(error))
            raise

    def outcome(self, key: str) -> dict[str, Any] | None:
        """Return the last that is known of the calls with *key*: that one began, or how it ended; None when none began."""
        known = [entry for entry in self if key in map(entry.get, ("begun", "ended", "raised"))]
        return known[-1] if known else None


_KINDS: dict[type[BaseException] | tuple[type[BaseException], ...], str] = {
    (EffectUnknown, TimedOut): "unknown",
    (NotStarted, AnswerNeeded): "not_started",
    BaseException: "error",
}


def _plain(value: Any) -> dict[str, Any]:
    """Return a result as plain data, and whether it can be known as such."""
    if value is None or isinstance(value, str):
        return {"known": True, "value": value}
    if isinstance(value, ToolOutput | Document | bytes | bytearray):
        return {"known": False, "value": None}
    try:
        (document,) = output_of(value).documents
        return {"known": True, "value": json.loads(document.data)}
    except (PaorError, ValueError):
        return {"known": False, "value": None}


def perform(job: Mapping[str, Any]) -> dict[str, Any]:
    """
    Do one job in this process, which may be killed on the way.

    Args:
        job: ``folder`` to work in; ``path`` for imports; ``app``; ``run`` (arguments of `Engine.run`) or ``start`` (a
            function of the engine); ``resume`` and ``world`` (functions, or None); ``answers`` by kind; ``part``: ``start`` or
            ``finish``; ``target``: number of the point at which the process is killed, 0 for none.

    Returns:
        ``facts``, ``problems``, ``points``, ``lost`` and ``left`` (only of a finish), ``calls``, ``coverage``, ``world``.
    """
    folder = Path(job["folder"])
    os.chdir(folder)
    sys.path[:] = job["path"]
    points, notes = Points(job["target"]), Notes(folder)
    with watching(points, notes.call):
        with _engine(job["app"], folder) as engine:
            engine.model = WatchedModel(engine.model, points)
            found: dict[str, Any] = {"lost": [], "left": []}
            if job["part"] == "start":
                _settle(engine, job, notes, _start(engine, job, notes))
            else:
                found = {
                    "lost": _lost_rows(engine.journal, notes),
                    "left": [*map(str, engine.journal.verify())],
                }
                _settle(engine, job, notes, _resume(engine, job, notes))
            points.target = 0
            journal = engine.journal
            rows = [row for run in journal.runs() for row in journal.transitions(run.run_id)]
            found |= {
                "facts": facts(journal),
                "problems": problems(journal),
                "points": points.names,
                "calls": [entry for entry in notes if not entry.keys() & {"seen"}],
                "coverage": coverage(rows).wire_json(),
            }
        if job["world"] is not None:
            found["world"] = json.loads(json.dumps(resolve(job["world"])()))
    return found


def resolve(name: str) -> Any:
    """
    Return what ``MODULE:NAME`` names.

    Raises:
        UsageError: There is no such thing, or its module cannot be imported.
    """
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{name}: importing {module_name} raised {type(error).__name__}: {error}") from error
    try:
        return attrgetter(attribute)(module)
    except AttributeError:
        raise UsageError(f"{name}: {module_name} has no {attribute}") from None


def _engine(app: str, folder: Path) -> Engine:
    """Return the agent's engine on a journal in *folder*."""
    found = resolve(app)
    if not isinstance(found, Engine):
        if not callable(found):
            raise UsageError(
                f"{app}: is of type {type(found).__name__}, expected an Engine or a function f(journal)"
            )
        found = found(Journal(folder / JOURNAL, "normal", lease_s=3600))
        if not isinstance(found, Engine):
            raise UsageError(f"{app}: returned a value of type {type(found).__name__}, expected an Engine")
    path = found.journal.path
    if path == ":memory:" or not Path(path).resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"{app}: has the journal {path}; each process needs one of its own case:"
            " name a function f(journal), or give the engine a relative path"
        )
    return found


def _start(engine: Engine, job: Mapping[str, Any], notes: Notes) -> Result:
    if job["start"] is not None:
        return _result(job["start"], resolve(job["start"])(engine))
    run = dict(job["run"])
    if isinstance(run.get("documents"), list):  # a pair of name and text has become a list on its way here
        run["documents"] = [tuple(item) if isinstance(item, list) else item for item in run["documents"]]
    result: Result
    for event in engine.stream(**run):
        if isinstance(event, TransitionTaken):
            notes.add(seen=[event.run_id, event.seq, event.trigger, event.dest])
        elif isinstance(event, RunEnded):
            result = event.result
    return result


def _result(name: str, value: object) -> Result:
    if not isinstance(value, Result):
        raise UsageError(
            f"{name}: returned a value of type {type(value).__name__}, expected the run's Result"
        )
    return value


def _resume(engine: Engine, job: Mapping[str, Any], notes: Notes) -> Result:
    """Do what is done after a crash: start what was not started, else go on with it."""
    runs = engine.journal.runs()
    if job["resume"] is not None:
        return _result(job["resume"], resolve(job["resume"])(engine))
    if not runs:
        return _start(engine, job, notes)
    whole = [row for row in runs if row.task == 0]  # a workflow takes up its tasks itself
    connections = (job["run"] or {}).get("connections")
    return engine.resume((whole or runs)[0].run_id, connections=connections)


def _settle(engine: Engine, job: Mapping[str, Any], notes: Notes, result: Result) -> None:
    """Answer until a run ends: an effect in doubt by what the calls have left, a question as the job says."""
    for _ in range(WAITS_MAX):
        question = result.waiting_for
        if result.status != "waiting" or question is None:
            return
        given = job["answers"].get(question.kind)
        if question.kind == "in_doubt":
            options = _answer_in_doubt(notes, question.key or "", given)
        elif given is None:
            raise UsageError(
                f"the run waits for an {question.kind} ({question.message}); give answers={{{question.kind!r}: ...}}"
            )
        else:
            options = {"answer": given}
        result = engine.resume(result.run_id, question=question.id, **options)
    raise UsageError(f"the run has waited {WAITS_MAX} times")


def _answer_in_doubt(notes: Notes, key: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what somebody would say of an effect in doubt who had looked."""
    last = notes.outcome(key)
    if last is None or last.get("kind") == "not_started":
        return {"outcome": "retry"}
    if "begun" in last:  # killed within the tool: whoever says so takes the second call on himself
        notes.add(again=key)
        return {"outcome": "retry"}
    if "raised" in last:
        if last["kind"] == "unknown" and given is not None:
            return dict(given)
        return {"outcome": "fail", "result": last["text"]}
    if not last["known"]:
        raise UsageError(
            f"{last['tool']} is in doubt, and nobody could give its result by hand; it needs a reconcile"
        )
    return {"outcome": "done", "result": last["value"]}


def _lost_rows(journal: Journal, notes: Notes) -> list[str]:
    """Return the rows that were reported to a caller and are not in the journal."""
    known = {row.run_id: journal.transitions(row.run_id) for row in journal.runs()}
    lost = []
    for run_id, seq, trigger, dest in (entry["seen"] for entry in notes if "seen" in entry):
        rows = known.get(run_id, [])
        if seq >= len(rows) or (rows[seq].trigger, rows[seq].dest) != (trigger, dest):
            lost.append(f"row {seq} ({trigger}) was reported to the caller and is not in the journal")
    return lost


def facts(journal: Journal) -> list[dict[str, Any]]:
    """Return each run's outcome, keyed by values stable across journals."""
    rows = sorted(journal.runs(), key=lambda row: (row.round, row.task, row.run))
    return [_facts(journal, row.run_id) for row in rows]


def _facts(journal: Journal, run_id: str) -> dict[str, Any]:
    run, _ = restore_run(journal.reader, run_id)
    counters = run.counters
    return {
        "objective": run.spec.objective,
        "end": [run.state, run.status, run.reason if run.final else None],
        "answer": run.memory.answer,
        "criteria": counters.criteria,
        "totals": {
            name: getattr(counters, name) for name in ("tokens_in", "tokens_out", "cost_micro", "calls")
        }
        | {"steps": counters.step},
        "documents": [
            [item.label, item.position, item.name, item.mime, _digest(journal.document(run_id, item.number))]
            for item in journal.documents(run_id)
        ],
        "rows": _rows(journal, run_id),
    }


def _rows(journal: Journal, run_id: str) -> list[str]:
    """Return the transitions taken, without the wait and the answer for an effect in doubt."""
    found, doubt = list[str](), False
    for row in journal.transitions(run_id):
        if row.source == "Executing" and row.trigger == "wait" and row.guards.get("in_doubt"):
            doubt = True
        elif not (doubt and row.trigger == "provide"):
            found.append(f"{row.source} {row.trigger} {row.dest}")
            doubt = False
    return found


def _digest(body: str | bytes | None) -> str:
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body or b""
    return f"{len(data)} bytes, {hashlib.sha256(data).hexdigest()[:16]}"
