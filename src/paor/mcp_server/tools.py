"""The tools: each returns the JSON that the command of its name prints with ``--json``, and which tools its runs know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ..fsm.explain.diff import diff as compare
from ..fsm.explain.story import document_content, known_tools, line_wire, name_of, spec_of, story
from ..fsm.explain.why import one_row, why_not
from ..fsm.explain.why import why as explain
from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import RunRow
from ..fsm.journal_api import STATUSES
from ..fsm.replay.callers import open_question
from ..fsm.replay.replay import Replay, replay
from ..fsm.verify.verify import Defect, verify_journal
from ..states.base.errors import JournalBusy, PaorError, UnknownRun, UsageError
from ..states.run.labels import key_of, moment_of
from ..tools.schema.parameters import ParameterSchema
from . import forms

Answer = tuple[dict[str, Any], Iterable[str]]
"""The JSON of an answer, and the names of tools that its runs know."""

RUNS_LIMIT, RUNS_MAX = 20, 100
ROWS_LIMIT, ROWS_MAX = 40, 200
"""Runs and rows of one answer: by default, and at most."""

SHOWN = 50
"""Most defects, and differences of a run, that are in an answer."""


def runs(reader: JournalReader, arguments: Mapping[str, Any]) -> Answer:
    """Return the runs that all conditions hold for, newest first."""
    limit, before, since = (arguments.get(name) for name in ("limit", "before", "since"))
    limit = int(limit or RUNS_LIMIT)
    found = reader.runs(
        status=arguments.get("status"),
        state=arguments.get("state"),
        key=key_of(arguments.get("key")),
        since=_since(since) if since is not None else None,
        before=_named(reader, before).run if before is not None else None,
        limit=limit + 1,
    )
    lines, tools = list[dict[str, Any]](), set[str]()
    for row in reader.with_objectives(found[:limit]):
        question = open_question(reader, row)
        lines.append(line_wire(reader, row, question))
        if question is not None:
            tools |= _tools(reader, question.run_id)
    more = f'there are older ones: before="{lines[-1]["run_id"]}"' if len(found) > limit else None
    return {"runs": lines, "more": more}, tools


def _named(reader: JournalReader, name: str) -> RunRow:
    """Return the run with this id, or start of one; ``last`` is the newest."""
    if found := reader.runs(limit=1) if name == "last" else [reader.run(name)]:
        return found[0]
    raise UnknownRun(f"{reader.path}: the journal holds no run yet")


def _since(text: str) -> int:
    if (found := moment_of(text, datetime.now(UTC))) is not None:
        return found
    expected = "expected a date, a time such as 2026-05-31T18:00Z, or 90m, 12h, 7d"
    raise UsageError(f"since {text!a:.60}: {expected}")


def _tools(reader: JournalReader, run_id: str) -> frozenset[str]:
    with suppress(PaorError):
        return known_tools(spec_of(reader, run_id))
    return frozenset()


def show(reader: JournalReader, arguments: Mapping[str, Any]) -> Answer:
    """Return the story of a run with some of its rows and the calls that began in them; or one row; or one document."""
    row = _named(reader, arguments["run"])
    if (number := arguments.get("document")) is not None:
        documents = [item for item in reader.documents(row.run_id) if item.number == number]
        if not documents:
            raise UnknownRun(f"run {row.run_id} has no document {number}")
        return document_content(reader, row, documents[0]), ()
    if (wanted := arguments.get("row")) is not None:
        place = _placed(row, row.head_seq + 1, int(wanted))
        return one_row(reader, row.run_id, place).wire(), _tools(reader, row.run_id)
    told = story(reader, row, open_question(reader, row))
    count, first = len(told.rows), int(arguments.get("first", 0))
    first = max(0, count + first) if first < 0 else first
    if count and first >= count:
        _placed(row, count, first)
    end = min(count, first + int(arguments.get("limit", ROWS_LIMIT)))
    more = f"there are rows {end} to {count - 1}: first={end}" if end < count else None
    calls = [call for call in told.calls if first <= call.seq < end]
    return told._replace(rows=told.rows[first:end], calls=calls).wire() | {"more": more}, told.tools


def _placed(row: RunRow, count: int, wanted: int) -> int:
    """Return the number of a row, a negative one from the end; raise `UsageError` when there is none."""
    place = wanted + count if wanted < 0 else wanted
    if not 0 <= place < count:
        told = f"rows 0 to {count - 1}" if count else "no row yet"
        raise UsageError(f"run {name_of(row.run_id)} has {told}; there is no row {wanted}")
    return place


def why(reader: JournalReader, arguments: Mapping[str, Any]) -> Answer:
    """Explain one row, and with ``phase`` why it did not lead there."""
    row = _named(reader, arguments["run"])
    place, phase = arguments.get("row"), arguments.get("phase")
    if place is not None:
        place = _placed(row, row.head_seq + 1, int(place)) if place < 0 else int(place)
    found = explain(reader, row.run_id, place)
    data = found.wire()
    if phase is not None:
        if phase.lower() not in {name.lower() for name in found.phases}:
            raise UsageError(
                f"there is no phase {phase!a:.60}; there are: {', '.join(map(name_of, found.phases))}"
            )
        data |= {"not": why_not(found, phase).wire()}
    return data, _tools(reader, row.run_id)


def diff(reader: JournalReader, arguments: Mapping[str, Any]) -> Answer:
    """Compare two runs."""
    left, right = (_named(reader, arguments[name]).run_id for name in ("left", "right"))
    return compare(reader, left, right).wire(), ()


def verify(reader: JournalReader, arguments: Mapping[str, Any]) -> Answer:
    """Verify the journal."""
    unchecked: list[Defect] = []
    defects = [asdict(item) for item in verify_journal(reader, (), unchecked)]
    for item in defects:
        item["problem"] = item["problem"].partition("; run: paor verify")[0]
    runs, rows = reader.index.counts()
    return {
        "ok": not defects,
        "runs": runs,
        "transitions": rows,
        "heads": 0,
        "defects": defects[:SHOWN],
        "unchecked": [asdict(item) for item in unchecked[:SHOWN]],
        "more": _more(defects, "defects; all of them: paor verify"),
    }, ()


def replayed(reader: JournalReader, arguments: Mapping[str, Any]) -> Answer:
    """Replay a run offline; one whose record cannot be read says so in its place."""
    row = _named(reader, arguments["run"])
    try:
        found = replay(reader, row.run_id).wire()
    except JournalBusy:
        raise
    except PaorError as error:
        found = Replay(row.run_id, row.head_seq + 1, False, ()).wire(str(error))
    more = _more(found["divergences"], "differences; all of them: paor replay --json")
    return found | {"divergences": found["divergences"][:SHOWN], "more": more}, ()


def _more(found: Sequence[Any], noun: str) -> str | None:
    return f"{len(found) - SHOWN} more {noun}" if len(found) > SHOWN else None


# -- what they take --------------------------------------------------------------------------------------------------


def _integer(description: str, least: int = -(2**31), most: int = 2**31, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, "description": description} | more


def _text(most: int, description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, "description": description} | more


def _limit(usual: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": usual}


_ID = 'Id of a run, the start of one (4 characters at least), or "last" for the newest.'
_RUN = _text(64, _ID, minLength=1)
_SHOWS = "Characters of each text; only a server started with --content shows any."
_CHARS = _integer(_SHOWS, 100, forms.CHARS_MAX, default=forms.CHARS)


class JournalTool(NamedTuple):
    """
    One tool of the server: a command of `paor` whose JSON it returns.

    Attributes:
        title, description: For agents.
        form: Of its answer.
        function: Makes the answer.
        parameters: What its arguments must be.
    """

    title: str
    description: str
    form: Mapping[str, Any]
    function: Callable[[JournalReader, Mapping[str, Any]], Answer]
    parameters: ParameterSchema


def _takes(required: str = "", **properties: dict[str, Any]) -> ParameterSchema:
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return ParameterSchema(schema | {"additionalProperties": False})


_PHASE = "Phase, such as Executing, or Done or Failed."
_ONE = "Only this row, with its guards, prompt, reply and what it set; -1 is the last one."
_WHICH = "The row; default the last one. The number after the last is the row not decided yet."

TOOLS: Mapping[str, JournalTool] = {
    "runs": JournalTool(
        "Runs of the journal",
        "List agent runs, newest first: how each stands or ended, what it has used, what it waits for.",
        forms.RUNS,
        runs,
        _takes(
            status={"enum": list(STATUSES)},
            state=_text(40, _PHASE, pattern="^[A-Z][A-Za-z0-9]{0,39}$"),
            since=_text(40, "Started since: a date or time (ISO 8601), or 90m, 12h, 7d ago."),
            key=_text(200, "The host's own key of the run, exactly."),
            limit=_limit(RUNS_LIMIT, RUNS_MAX),
            before=_text(64, "Only runs older than this run."),
        ),
    ),
    "show": JournalTool(
        "What a run did",
        "Show a run: its end, criteria, calls with who approved them, and its rows; with row one row in detail.",
        forms.SHOW,
        show,
        _takes(
            "run",
            run=_RUN,
            row=_integer(_ONE),
            first=_integer("First row that is shown; -20 for the last twenty.", default=0),
            limit=_limit(ROWS_LIMIT, ROWS_MAX),
            document=_integer("Only this document, with its text.", 0),
            chars=_CHARS,
        ),
    ),
    "why": JournalTool(
        "What decided a row",
        "Explain a row of a run guard by guard: the way it took, the ways it was kept from; with phase why not there.",
        forms.WHY,
        why,
        _takes(
            "run",
            run=_RUN,
            row=_integer(_WHICH),
            phase=_text(60, "Why not: a phase that the row did not lead to, such as Done."),
            chars=_CHARS,
        ),
    ),
    "diff": JournalTool(
        "Where two runs part",
        "Compare two runs: the first row and field that differ, the cause, and whether they end alike.",
        forms.DIFF,
        diff,
        _takes("left right", left=_RUN, right=_RUN, chars=_CHARS),
    ),
    "verify": JournalTool(
        "Whether the journal holds",
        "Check hash chain, payloads and columns of the whole journal.",
        forms.VERIFY,
        verify,
        _takes(chars=_CHARS),
    ),
    "replay": JournalTool(
        "Whether a run replays",
        "Derive a run again from its recorded outcomes, offline, and compare every field with the record.",
        forms.REPLAY,
        replayed,
        _takes("run", run=_RUN, chars=_CHARS),
    ),
}
"""Every tool by the name of the command whose JSON it returns."""
