"""Evaluations that put new requests to a model: what is asked, how replies are compared, and that nothing is done or paid twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Machine, ModelCall, Phase, Reply, Tool, Usage
from paor.audit import AskedRow, Evaluation, TrialFinding
from paor.errors import JournalDamaged, ModelUnavailable, UsageError
from paor.testing import call_tools, contains, step

from ..support.journeys import BY_NAME, Journey, play
from ..support.model_server import KEY, QuickPort, Wire, model_server, plain
from ..support.own_machines import CHOICE as TRIAGED
from ..support.own_machines import TRIAGE, triage
from ..support.worlds import (
    CONTINUE,
    JOURNAL,
    PARAMETERS,
    REFINE,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
    TOOLS,
    engine,
)

NEXT: dict[str, Any] = {"instructions": "Be brief."}


def READ(page: int) -> list[Any]:
    """Return the replies that read a page; each choice has a context of its own, so no two requests are alike."""
    return [SELECT(parametersContext=f"page {page}"), PARAMETERS(page=page)]


PAGES = replace(BY_NAME["two_pages"], replies=[*READ(1), CONTINUE, *READ(2), STOP, SUCCESS])
"""A run that reads two pages."""


def untouched(tools: Sequence[Tool] = TOOLS) -> list[Tool]:
    """Return the same tools with functions that must not be called."""

    def forbidden(**arguments: Any) -> str:
        raise AssertionError("an evaluation performs nothing")

    names = ("name", "description", "parameters", "effect", "label", "repeat_allowed", "retries")
    return [Tool(run=forbidden, **{name: getattr(item, name) for name in names}) for item in tools]


@dataclass
class Told:
    """
    A model that says what it is told to for each row, else what was recorded there.

    Attributes:
        recorded: Replies by row.
        instead: Other replies by row; an exception is raised.
        asked: What it was asked.
    """

    recorded: Mapping[int, str]
    instead: Mapping[int, Any] = field(default_factory=dict)
    asked: list[ModelCall] = field(default_factory=list)
    name: str = "told"

    def ask(self, call: ModelCall) -> Reply:
        """Answer one request."""
        self.asked.append(call)
        said = self.instead.get(call.seq, self.recorded[call.seq])
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, Reply):
            return said
        return Reply(said if isinstance(said, str) else json.dumps(said), Usage(1, 100, 10, 7))


@dataclass
class Recording:
    """A journal with one run, and the folder that results are kept in."""

    journal: Journal
    replies: dict[int, str]
    run_id: str
    folder: Path
    tools: Sequence[Tool] = TOOLS

    @property
    def kept(self) -> Path:
        """The file of results."""
        return self.folder / "kept.db"

    def evaluate(
        self, model: Any, options: Mapping[str, Any] = NEXT, **more: Any
    ) -> tuple[Evaluation, list[AskedRow]]:
        """Return an evaluation of other settings, and its rows."""
        with Engine("offline", untouched(self.tools), ":memory:", builtins=False, **options) as other:
            made = Evaluation(other, self.journal, model, kept=self.kept, **more)
            return made, [*made.rows()]

    def differences(
        self, instead: Mapping[int, Any], options: Mapping[str, Any] = NEXT
    ) -> list[TrialFinding]:
        """Return how replies differ from the recorded ones."""
        _, rows = self.evaluate(Told(self.replies, instead), options)
        return [row.finding for row in rows if row.finding is not None]

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """Return what is kept, of one kind."""
        with closing(sqlite3.connect(self.kept)) as file:
            found = file.execute("SELECT data FROM lines WHERE kind = ? ORDER BY id", (kind,)).fetchall()
        return [json.loads(data) for (data,) in found]


def recorded(journal: Journal, run_id: str, folder: Path, tools: Sequence[Tool] = TOOLS) -> Recording:
    """Return a recording of a run."""
    replies = {}
    for row in journal.transitions(run_id):
        if "reply" in row.outcome:
            body = journal.payload(row.run, row.outcome["reply"]["n"]).body
            replies[row.seq] = body if isinstance(body, str) else ""
    return Recording(journal, replies, run_id, folder, tools)


def record(journey: Journey, folder: Path) -> Recording:
    """Play a journey, and open its journal for reading only."""
    with journey.engine(folder) as scripted:
        run_id = play(journey, scripted).run_id
    return recorded(Journal(folder / JOURNAL, read_only=True), run_id, folder, journey.tools())


@pytest.fixture(name="pages")
def make_pages(tmp_path: Path) -> Iterator[Recording]:
    """Return a run of two pages; the journal is only read."""
    seen = record(PAGES, tmp_path)
    before = Path(seen.journal.path).read_bytes()
    yield seen
    assert Path(seen.journal.path).read_bytes() == before
    seen.journal.close()


# -- comparing -----------------------------------------------------------------------------------------------------

CHOICE, VALUES, JUDGED, END = 0, 1, 4, 10
"""Rows of the run of two pages that choose an action, settle its arguments, refine and review."""


def test_the_rows_are_those_that_are_meant(pages: Recording) -> None:
    """What the tests below ask about."""
    rows = {
        row.seq: (row.request.get("kind"), row.trigger) for row in pages.journal.transitions(pages.run_id)
    }
    asked = {seq: kind for seq, (kind, _) in rows.items() if seq in pages.replies}
    assert asked == {0: "selection", 1: "parameters", 4: "refinement", 5: "selection"} | {
        6: "parameters",
        9: "refinement",
        10: "review",
    }, rows


def test_the_same_replies_are_no_difference(pages: Recording) -> None:
    """Nor are other words around the same meaning: a reason, a hint, a fence around the JSON."""
    assert pages.differences({}) == []
    pages.kept.unlink()
    fenced = f"I think:\n```json\n{json.dumps(REFINE('continue', hint='look at page 2'))}\n```"
    assert pages.differences({JUDGED: fenced}) == []


@pytest.mark.parametrize(
    ("seq", "said", "kind", "was", "now"),
    [
        (CHOICE, "this is no JSON", "form", "read", "no_json: "),
        (CHOICE, Reply("{}", finish="refusal"), "form", "read", "refusal: the model declined"),
        (CHOICE, SELECT("notes.fail"), "action", "notes.read", "notes.fail"),
        (CHOICE, {"action": None, "answer": "Known."}, "action", "notes.read", "an answer"),
        (VALUES, PARAMETERS(page=7), "arguments", '{"page":1}', '{"page":7}'),
        (VALUES, PARAMETERS(page="one"), "arguments", '{"page":1}', "refused: page"),
        (
            JUDGED,
            REFINE("stop"),
            "verdict",
            "continue, criteria 00, proceed to Planning",
            "stop, criteria 00, conclude to Reviewing",
        ),
        (END, REVIEW("retry", "again"), "verdict", "success, ", "retry, "),
    ],
)
def test_a_reply_is_compared_in(seq: int, said: Any, kind: str, was: str, now: str, pages: Recording) -> None:
    """Form, action, arguments and verdict: the first that differs is named, at its row."""
    found = pages.differences({seq: said})
    assert [(item.run_id, item.seq, item.kind) for item in found] == [(pages.run_id, seq, kind)], found
    row = pages.journal.transitions(pages.run_id)[seq]
    assert found[0].row == f"{row.source}.{row.trigger}"
    assert found[0].was.startswith(was) and found[0].now.startswith(now), found


def test_calls_of_turns_are_compared(tmp_path: Path) -> None:
    """Their tools in order, and all their arguments."""
    with engine(
        tmp_path, [call_tools(step("notes.read", page=1)), "Page 1 is read."], profile="native"
    ) as made:
        run_id = made.run("Read page 1").run_id
    seen = recorded(Journal(tmp_path / JOURNAL, read_only=True), run_id, tmp_path)
    options: dict[str, Any] = {**NEXT, "profile": "native"}
    first, last = sorted(seen.replies)
    two = call_tools(step("notes.read", page=1), step("notes.read", page=2))
    for said, kind, now in (
        (two, "action", "notes.read, notes.read"),
        (call_tools(step("notes.read", page=2)), "arguments", '[{"page":2}]'),
        ("It is known.", "action", "an answer"),
    ):
        seen.kept.unlink(missing_ok=True)
        found = seen.differences({first: said}, options)
        assert [(item.seq, item.kind, item.now) for item in found] == [(first, kind, now)]
    _, rows = seen.evaluate(
        Told(seen.replies, {last: "Page 2 is read."}), options, scorers=[contains("Page 1")]
    )
    assert {row.seq: dict(row.scores) for row in rows} == {first: {}, last: {"contains 'Page 1'": (1.0, 1.0)}}
    seen.kept.unlink()
    _, rows = seen.evaluate(
        Told(seen.replies, {last: "Page 2 is read."}), options, scorers=[contains("Page 1")]
    )
    assert rows[-1].finding is None and dict(rows[-1].scores) == {"contains 'Page 1'": (1.0, 0.0)}
    seen.journal.close()


def test_the_reply_to_a_phase_of_ones_own_is_compared(tmp_path: Path) -> None:
    """What it chose, as the object of its schema; one that does not fit the schema is read by no row."""
    choice = {"mode": "react", "limits": {}}
    phase = Phase("Triage", prompt=f"Be quick.\n{TRIAGE}", reply=TRIAGED, chooses=True)
    options = {"machine": Machine.standard().phase(phase, initial=True).row("Triage", "begin", "Planning")}
    with engine(tmp_path, [choice, {"action": None, "answer": "Known."}], machine=triage(choice)) as made:
        run_id = made.run("Say hello").run_id
    seen = recorded(Journal(tmp_path / JOURNAL, read_only=True), run_id, tmp_path)
    (found,) = seen.differences({0: {"mode": "batch", "limits": {}}}, options)
    seen.kept.unlink()
    (other,) = seen.differences({0: {"mode": "fast"}}, options)
    seen.journal.close()
    was = '{"limits":{},"mode":"react"}'
    assert (found.kind, found.was, found.now) == ("arguments", was, '{"limits":{},"mode":"batch"}')
    assert (other.kind, other.was) == ("form", "read") and "mode" in other.now


# -- what is asked -------------------------------------------------------------------------------------------------


def test_a_request_is_the_one_that_a_run_would_make(pages: Recording, tmp_path: Path) -> None:
    """Byte for byte, but for how long the model may take."""
    model = Told(pages.replies)
    pages.evaluate(model, sample=100)
    asked = {call.seq: call for call in model.asked}
    other = tmp_path / "other"
    other.mkdir()
    live = Told(pages.replies)
    with Engine(live, TOOLS, other / JOURNAL, builtins=False, **NEXT) as made:
        made.run(f"Journey {PAGES.name}", **PAGES.run)
    assert len(live.asked) == len(asked) == 7
    names = ("kind", "messages", "schema", "tools", "may_call", "max_tokens", "tokens_left", "number", "step")
    for call in live.asked:
        assert [getattr(call, name) for name in names] == [getattr(asked[call.seq], name) for name in names]
        assert "Be brief." in call.messages[0].text


def test_a_sample_is_the_same_each_time_and_counts_shared_rows_once(tmp_path: Path) -> None:
    """Those with the smallest digests of run and row; a fork has the rows before it in common with its parent."""
    with PAGES.engine(tmp_path) as scripted:
        run_id = play(PAGES, scripted).run_id
        scripted.fork(run_id, 5)
        scripted.run("Journey two", **PAGES.run)
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        seen = recorded(journal, run_id, tmp_path)
        for row in journal.runs():
            seen.replies.update(recorded(journal, row.run_id, tmp_path).replies)
        _, everything = seen.evaluate(Told(seen.replies), sample=1000)
        places = [(row.run_id, row.seq) for row in everything]
        assert len({*places}) == len(places) > 15
        chosen = sorted(places, key=lambda place: sha256(f"{place[0]} {place[1]}".encode()).digest())[:4]
        made, rows = seen.evaluate(Told(seen.replies), sample=4)
        assert [(row.run_id, row.seq) for row in rows] == sorted(chosen) and made.estimate.rows == 4


def test_nothing_is_asked_before_the_rows_are_taken(pages: Recording) -> None:
    """What it costs at most is known before, from the prompts and the limits of the replies; and no file is left."""
    wire = Wire("chat")
    prices = {"openai:gpt-6-luna": {"in": "2", "out": "10"}}
    with (
        model_server() as server,
        Engine("offline", untouched(), ":memory:", builtins=False, **NEXT) as other,
    ):
        server.script(plain(wire.body(json.dumps(SELECT()))))
        model = wire.model(server.url, prices=prices, port=QuickPort())
        made = Evaluation(other, pages.journal, model, sample=3, kept=pages.kept)
        assert server.requests == [] and not pages.kept.exists()
        cost = made.estimate
        assert (cost.requests, cost.kept, cost.tokens_out) == (3, 0, 3 * 4000)
        assert cost.cost_micro == pytest.approx(cost.tokens_in * 2 + 3 * 40_000, abs=3)
        assert f"{made.estimate}".startswith("3 requests to openai:gpt-6-luna: at most ")
        rows = [*made.rows()]
        assert len(server.requests) == 3 and all(row.usage.tokens_in == 1200 for row in rows)
        assert sum(row.usage.tokens_in for row in rows) < 3 * cost.tokens_in or cost.tokens_in > 0
        again = Evaluation(other, pages.journal, model, sample=3, kept=pages.kept)
        assert (again.estimate.requests, again.estimate.kept, again.estimate.cost_micro) == (0, 3, 0)
        assert [row.reply for row in again.rows()] == [row.reply for row in rows] and len(
            server.requests
        ) == 3
        assert all(row.usage == Usage() for row in again.rows())
        unpriced = wire.model(server.url)
        assert (
            Evaluation(other, pages.journal, unpriced, kept=pages.folder / "n.db").estimate.cost_micro is None
        )


def test_requests_alike_are_made_once(tmp_path: Path) -> None:
    """A model that is asked for the arguments of both pages in the same words has one reply for them."""
    seen = record(BY_NAME["two_pages"], tmp_path)
    model = Told(seen.replies)
    made, rows = seen.evaluate(model, sample=100)
    seen.journal.close()
    assert (made.estimate.requests, len(model.asked), len(rows)) == (6, 6, 7)
    assert [(row.seq, row.finding.kind) for row in rows if row.finding] == [(6, "arguments")]


# -- interrupted, failing ------------------------------------------------------------------------------------------


def test_an_interrupted_evaluation_pays_for_each_reply_once(pages: Recording) -> None:
    """The rows before are taken from the file, the one that was interrupted is asked again."""
    seqs = sorted(pages.replies)
    first, then = Told(pages.replies, {seqs[3]: KeyboardInterrupt()}), Told(pages.replies)
    with pytest.raises(KeyboardInterrupt):
        pages.evaluate(first, sample=100)
    made, rows = pages.evaluate(then, sample=100)
    assert [call.seq for call in first.asked] == seqs[:4]
    assert [call.seq for call in then.asked] == seqs[3:]
    assert (made.estimate.requests, made.estimate.kept) == (4, 3)
    assert [row.seq for row in rows] == seqs and all(row.finding is None for row in rows)
    assert [line["seq"] for line in pages.lines("reply")] == seqs
    # another model, or another prompt, is another request
    other = Told(pages.replies, name="other")
    pages.evaluate(other, sample=100)
    pages.evaluate(other, {"instructions": "Be long."}, sample=100)
    assert len(other.asked) == 14


def test_an_error_of_the_model_is_named_kept_and_asked_again(pages: Recording) -> None:
    """The rows after it are asked; whatever a model of one's own raises is an error of it."""
    seqs = sorted(pages.replies)
    failing = {
        seqs[0]: ModelUnavailable("overloaded", "too busy", Usage(2, 50, 0, 3)),
        seqs[2]: ZeroDivisionError("0"),
        seqs[3]: Reply("x", finish="done"),  # type: ignore[arg-type]
    }
    _, rows = pages.evaluate(Told(pages.replies, failing), sample=100)
    found = {row.seq: row.finding for row in rows if row.finding is not None}
    assert {seq: (item.kind, item.now.split(":")[0]) for seq, item in found.items()} == {
        seqs[0]: ("error", "overloaded"),
        seqs[2]: ("error", "unexpected"),
        seqs[3]: ("error", "unexpected"),
    }
    assert rows[0].usage == Usage(2, 50, 0, 3) and len(rows) == len(seqs)
    assert [line["seq"] for line in pages.lines("error")] == [seqs[0], seqs[2], seqs[3]]
    model = Told(pages.replies)
    _, rows = pages.evaluate(model, sample=100)
    assert [call.seq for call in model.asked] == [*found] and all(row.finding is None for row in rows)


def test_nothing_more_is_asked_after_three_errors_in_a_row(pages: Recording) -> None:
    """A model that refuses the key refuses it for every row; a reply between errors begins the count anew."""
    gone = ModelUnavailable("unauthorized", "no such key")
    model = Told(pages.replies, dict.fromkeys(pages.replies, gone))
    made, rows = pages.evaluate(model, sample=100)
    assert made.estimate.rows == 7 and len(rows) == len(model.asked) == 3
    seqs = sorted(pages.replies)
    model = Told(pages.replies, dict.fromkeys((*seqs[:2], *seqs[3:5]), gone))
    assert len(pages.evaluate(model, sample=100)[1]) == 7


def test_a_key_is_in_no_byte_that_is_kept(pages: Recording) -> None:
    """Neither the model's own nor one of the environment, whether the server says it in a reply or in an error."""
    wire = Wire("chat")
    with model_server() as server:
        said = SELECT() | {"actionObjective": f"use {KEY}", "parametersContext": KEY}
        server.script(
            plain(wire.body(json.dumps(said))),
            plain(wire.error(f"the key {KEY} is spent"), status=400),
            plain(wire.body(f"no JSON, but {KEY}")),
        )
        model = wire.model(server.url, port=QuickPort())
        _, rows = pages.evaluate(model, sample=3)
        assert len(server.requests) == 3 and KEY in server.requests[0].headers["authorization"]
    assert {row.finding.kind for row in rows if row.finding} >= {"error", "form"}
    assert KEY not in repr(rows) and "[secret redacted]" in repr(rows)
    written = b"".join(path.read_bytes() for path in pages.folder.glob("kept.db*"))
    assert KEY.encode() not in written and b"[secret redacted]" in written


def test_a_key_that_a_model_of_ones_own_says_is_not_kept(
    pages: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of paor's own says none; another one may, of the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    seqs = sorted(pages.replies)
    failing = ModelUnavailable("bad_request", f"{KEY} is spent")
    raising = RuntimeError(f"no such key: {KEY}")
    said = {seqs[0]: f"no JSON: {KEY}", seqs[1]: failing, seqs[2]: raising}
    _, rows = pages.evaluate(Told(pages.replies, said), sample=100)
    assert [row.finding.kind for row in rows[:3] if row.finding] == ["form", "error", "error"]
    assert KEY not in repr(rows) and KEY.encode() not in pages.kept.read_bytes()
    assert len([line for line in pages.lines("error") if "[secret redacted]" in line["message"]]) == 2


# -- the file, and bad input ---------------------------------------------------------------------------------------


def test_a_line_that_was_changed_is_damage(pages: Recording) -> None:
    """Nothing is asked then."""
    pages.evaluate(Told(pages.replies), sample=3)
    for change in ("UPDATE lines SET data = replace(data, 'read', 'sent')", "DELETE FROM lines WHERE id = 2"):
        changed = pages.folder / "changed.db"
        changed.write_bytes(pages.kept.read_bytes())
        with closing(sqlite3.connect(changed, isolation_level=None)) as file:
            file.execute(change)
        model = Told(pages.replies)
        with pytest.raises(JournalDamaged, match=r"changed\.db: line [123] does not fit its hash"):
            Recording.evaluate(_with(pages, changed), model)
        assert model.asked == []


def _with(seen: Recording, kept: Path) -> Any:
    class Other(Recording):
        kept = None  # type: ignore[assignment]

    other = Other(seen.journal, seen.replies, seen.run_id, seen.folder, seen.tools)
    Other.kept = kept  # type: ignore[assignment]
    return other


@pytest.mark.parametrize("name", ["runs.db", "text.db", "no/such/folder.db", "other.db", "."])
def test_another_file_is_refused_and_left_as_it_is(name: str, pages: Recording) -> None:
    """Before anything is asked: a journal, a text, a database of somebody else, a folder."""
    path = pages.folder / name
    (pages.folder / "text.db").write_text("This is a text, and no database. " * 9)
    with closing(sqlite3.connect(pages.folder / "other.db")) as file:
        file.execute("CREATE TABLE lines (id INTEGER)")
    before = path.read_bytes() if path.is_file() else None
    model = Told(pages.replies)
    with pytest.raises(
        UsageError, match=f"{name}: (is no file|cannot be used as the file) of|cannot be used"
    ):
        Recording.evaluate(_with(pages, path), model)
    assert model.asked == [] and (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sample": 0}, "sample must be a whole number from 1 to 10,000, not 0"),
        ({"sample": True}, "sample must be"),
        ({"model": "nobody"}, "unknown model 'nobody'"),
        ({"model": 7}, "int is not a model"),
        ({"journal": 7}, "Evaluation takes an Engine, a Journal and a model"),
        ({"engine": 7}, "Evaluation takes an Engine, a Journal and a model"),
        ({"runs": [7]}, "and runs of it"),
        ({"scorers": 7}, "scorers are a list"),
        ({"scorers": [7]}, "a scorer is a function of a run and an answer, not a int"),
        ({"scorers": [contains("a"), contains("a")]}, "two scorers are called contains 'a'"),
    ],
)
def test_bad_arguments_are_named(given: Mapping[str, Any], words: str, pages: Recording) -> None:
    """Before anything is derived or asked."""
    with Engine("offline", untouched(), ":memory:", builtins=False) as other:
        options = {"engine": other, "journal": pages.journal, "model": "offline", **given}
        with pytest.raises(UsageError, match=words):
            Evaluation(**options, kept=pages.kept)
    assert not pages.kept.exists()
