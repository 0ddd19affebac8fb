"""``paor mcp``: a journal for coding agents, asked by the SDK's own client over standard input and output of a real process."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from paor import Journal, McpServer, diff, replay, why
from paor.audit import Divergence, Replay
from paor.cli import main
from paor.testing import walk

from ..support.cli_support import words
from ..support.forging import change, forge, writable
from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, engine
from .hostile_run import write
from .inside import (
    LEFT_OUT,
    TOOLS,
    TOTAL_CHARS,
    Answerer,
    CallOutcome,
    Defect,
    Texts,
    as_field,
    as_part,
    name_of,
    visible,
    without_secrets,
)

MARK = "ZQX"
"""A marker that no text of paor's own holds."""


class Marked:
    """Gives every field a text with a marker, and remembers them."""

    def __init__(self) -> None:
        self.given: dict[str, list[str]] = {}
        self.count = 0

    def __call__(self, field: str) -> str:
        self.count += 1
        text = f"{MARK}{self.count}Q free text of {field}"
        self.given.setdefault(field, []).append(text)
        return text


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Marked]:
    """Return a journal with runs of every kind, all of whose free fields are marked."""
    path = tmp_path_factory.mktemp("marked") / "runs.db"
    give = Marked()
    write(path, give)
    return path, give


def served(path: Path, *more: str, env: Mapping[str, str] | None = None) -> StdioServerParameters:
    """Return how a client starts the server."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "paor", "mcp", "--journal", str(path), *more],
        env={**os.environ, **(env or {})},
    )


def talk(parameters: StdioServerParameters, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Connect the SDK's client to the server, do *work* with it, and return what that returns."""

    async def session() -> Any:
        async with Client(stdio_client(parameters), read_timeout_seconds=60) as client:
            return await work(client)

    return asyncio.run(session())


def asked(parameters: StdioServerParameters, calls: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return the results of calls in one session."""

    async def work(client: Client) -> list[Any]:
        return [await client.call_tool(name, arguments) for name, arguments in calls]

    return list(talk(parameters, work))


def local(path: Path, *, content: bool = False) -> Callable[..., CallOutcome]:
    """Return a function that calls a tool without a process."""
    answerer = Answerer(str(path), content=content)
    return lambda name, **arguments: answerer.answer(name, arguments)


def found(answered: CallOutcome) -> dict[str, Any]:
    """Return the answer of a call that must have one."""
    assert answered.answer is not None, answered.error
    return answered.answer


# -- what a client sees ----------------------------------------------------------------------------------------------


def test_a_client_lists_the_tools_that_only_read(tmp_path: Path) -> None:
    """Each has a schema of its arguments, and says that it changes nothing; all in all a small listing."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        made.run("Read")

    async def work(client: Client) -> Any:
        return (await client.list_tools()).tools, client.instructions

    tools, instructions = talk(served(tmp_path / "runs.db"), work)
    assert [item.name for item in tools] == ["runs", "show", "why", "diff", "verify", "replay"]
    for item in tools:
        assert item.annotations.read_only_hint and item.annotations.destructive_hint is False
        assert item.annotations.open_world_hint is False and item.annotations.idempotent_hint
        jsonschema.Draft202012Validator.check_schema(item.input_schema)
        assert item.input_schema["additionalProperties"] is False
    listing = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
    assert len(listing) < 7_000  # about 1,700 tokens, once a session
    assert "--content" in instructions and "untrusted" not in instructions


def test_each_tool_answers_what_the_library_says(tmp_path: Path) -> None:
    """Over the wire: numbers, names and hashes are those of the journal; the text is the structured answer."""
    script = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]
    with engine(tmp_path, script) as made:
        one = made.run("Read").run_id
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(3), STOP, SUCCESS], ids=None, clock=None) as made:
        two = made.run("Read").run_id
        rows = made.journal.transitions(two)
        calls = made.journal.calls(two)
        reason = why(made.journal, two, 4)
    results = asked(
        served(tmp_path / "runs.db"),
        [
            ("runs", {}),
            ("show", {"run": two}),
            ("show", {"run": two, "row": 4}),
            ("why", {"run": two, "row": 4, "phase": "done"}),
            ("diff", {"left": one, "right": two}),
            ("verify", {}),
            ("replay", {"run": "last"}),
        ],
    )
    for result in results:
        assert not result.is_error, result.content
        assert json.loads(result.content[0].text) == result.structured_content
    listed, shown, one_row, told, differs, whole, single = (item.structured_content for item in results)
    assert [run["run_id"] for run in listed["runs"]] == [two, one]
    assert (
        listed["runs"][0] | {"status": "done", "state": "Done", "head_seq": len(rows) - 1}
        == listed["runs"][0]
    )
    assert [item["trigger"] for item in shown["rows"]] == [item.trigger for item in rows]
    assert [(item["tool"], item["outcome"], item["seq"]) for item in shown["calls"]] == [
        (item.tool, item.outcome, item.seq) for item in calls
    ]
    assert sum(item["tokens_in"] for item in shown["rows"]) == rows[-1].tokens_in
    assert (one_row["row"]["hash"], one_row["row"]["guards"]) == (rows[4].hash, dict(rows[4].guards))
    assert (told["trigger"], told["dest"]) == (reason.trigger, reason.dest)
    assert [way["fate"] for way in told["candidates"]] == [item.fate for item in reason.candidates]
    assert told["not"]["phase"] == "Done" and told["not"]["answer"] is None
    assert {guard["guard"]: guard["value"] for way in told["not"]["candidates"] for guard in way["guards"]}[
        "review_success"
    ] is False
    assert (differs["cause"], differs["field"], differs["seq"]) == ("model_output", "outcome.reply", 6)
    assert whole["ok"] and whole["runs"] == 2 and whole["defects"] == []
    assert single["identical"] and single["transitions"] == len(rows) and single["run_id"] == two


def test_runs_are_filtered_and_paged(tmp_path: Path) -> None:
    """By status, state, key and time; a page says how to ask for the next, and none is left out or comes twice."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        ids = [made.run("Read", key=f"k-{number}").run_id for number in range(5)]
    with engine(tmp_path, [], ids=None, clock=None) as made:
        ids.append(made.run("Fail").run_id)
    ask = local(tmp_path / "runs.db")
    seen: list[str] = []
    before: dict[str, Any] = {}
    while True:
        page = found(ask("runs", limit=2, **before))
        seen += [run["run_id"] for run in page["runs"]]
        if page["more"] is None:
            break
        before = {"before": re.findall(r'before="([^"]+)"', page["more"])[0]}
    assert seen == ids[::-1]
    assert [run["run_id"] for run in found(ask("runs", status="failed"))["runs"]] == [ids[5]]
    assert [run["run_id"] for run in found(ask("runs", state="Done", limit=1))["runs"]] == [ids[4]]
    assert [run["run_id"] for run in found(ask("runs", key="k-3"))["runs"]] == [ids[3]]
    assert [run["run_id"] for run in found(ask("runs", since="1h"))["runs"]] == [
        ids[5]
    ]  # the others' clock stands
    assert found(ask("runs", since="2999-01-01"))["runs"] == []


def test_rows_are_shown_in_pages_with_the_calls_that_began_in_them(tmp_path: Path) -> None:
    """The default shows the first rows, a negative number the last ones, and every row is on one page."""
    pages = [reply for page in range(1, 13) for reply in (*READ(page), CONTINUE if page < 12 else STOP)]
    with engine(tmp_path, [*pages, SUCCESS]) as made:
        run_id = made.run("Read", limits={"max_steps": 12}).run_id
        count = len(made.journal.transitions(run_id))
    ask = local(tmp_path / "runs.db")
    rows: list[int] = []
    calls: list[int] = []
    first = 0
    while True:
        page = found(ask("show", run="last", first=first, limit=25))
        rows += [row["seq"] for row in page["rows"]]
        calls += [call["seq"] for call in page["calls"]]
        if page["more"] is None:
            break
        first = int(page["more"].rpartition("=")[2])
    assert rows == list(range(count)) and len(calls) == 12
    assert [row["seq"] for row in found(ask("show", run="last", first=-3))["rows"]] == [
        count - 3,
        count - 2,
        count - 1,
    ]
    default = found(ask("show", run="last"))
    assert len(default["rows"]) == 40 and default["more"] == f"there are rows 40 to {count - 1}: first=40"
    assert len(json.dumps(default, separators=(",", ":"))) < 24_000


@pytest.mark.whole
def test_one_row_is_shown_as_its_page_shows_it(marked: tuple[Path, Marked], tmp_path: Path) -> None:
    """Of every row of every kind of run, and of a fork whose rows lie on both sides of its beginning."""
    path, _ = marked
    pages = [reply for page in range(1, 31) for reply in (*READ(page), CONTINUE if page < 30 else STOP)]
    with engine(tmp_path, [*pages, SUCCESS]) as made:
        run_id = made.run("Read", limits={"max_steps": 30}).run_id
        shared = next(
            row.seq for row in made.journal.transitions(run_id) if row.step == 5 and row.dest == "Planning"
        )
    with engine(tmp_path, [*pages[:15], *READ(40), STOP, SUCCESS], ids=None) as made:
        fork = made.fork(run_id, shared).run_id
        assert len(made.journal.transitions(fork)) > shared + 3
        for first, last in ((3, 5), (shared - 1, shared + 2), (shared + 1, shared + 1)):
            some = made.journal.reader.transitions(fork, first, last)
            assert [row.seq for row in some] == list(range(first, last + 1))
    calls = 0
    for ask, names in ((local(path, content=True), None), (local(tmp_path / "runs.db"), [fork])):
        for run in found(ask("runs", limit=100))["runs"]:
            for seq in range(run["head_seq"] + 1 if names is None or run["run_id"] in names else 0):
                page = found(ask("show", run=run["run_id"], first=seq, limit=1, chars=100))
                one = found(ask("show", run=run["run_id"], row=seq, chars=100))
                assert [one["why"]["told"]] == page["rows"] and one["row"]["seq"] == seq
                calls += len(page["calls"])
    assert calls > 20


def test_a_run_that_waits_says_for_what(marked: tuple[Path, Marked]) -> None:
    """The kind, the tool and its effect; the question in words only with content."""
    path, _ = marked
    ask, open_ = local(path), local(path, content=True)
    waits = [run["waiting_for"] for run in found(ask("runs", status="waiting"))["runs"]]
    assert {item["kind"] for item in waits} == {"approval", "in_doubt", "elicitation"}
    assert {item["tool"] for item in waits} >= {"bank.pay", "mail.send", "desk.ask"}
    assert all(item[name] is None for item in waits for name in ("message", "arguments", "schema"))
    shown = [run["waiting_for"] for run in found(open_("runs", status="waiting"))["runs"]]
    assert all(item["message"]["untrusted"] and item["arguments"] for item in shown if item["tool"])
    asked_at = next(run["run_id"] for run in found(ask("runs", status="waiting"))["runs"])
    told = found(ask("why", run=asked_at))
    assert told["question"]["kind"] and told["decided"]
    rows = found(ask("show", run=asked_at))["run"]["head_seq"] + 1
    later = found(ask("why", run=asked_at, row=rows))
    assert not later["decided"] and later["request"].startswith("an answer (") and later["told"] is None


# -- no content unless asked for -------------------------------------------------------------------------------------


def every_call(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return a call of every tool for every run, row, phase and pair of runs."""
    with Journal(path, read_only=True) as journal:
        runs = [(row.run_id, row.head_seq + 1, row.status) for row in journal.runs()]
    calls: list[tuple[str, dict[str, Any]]] = [("runs", {"limit": 100}), ("verify", {})]
    for run_id, count, _ in runs:
        calls += [("show", {"run": run_id, "limit": 200}), ("replay", {"run": run_id})]
        calls += [("show", {"run": run_id, "row": seq}) for seq in range(count)]
        calls += [("show", {"run": run_id, "document": number}) for number in range(4)]
        calls += [
            ("why", {"run": run_id, "row": seq, "phase": phase})
            for seq in range(count + 1)
            for phase in ("Done", "Specifying", "Executing", "Planning", "Asking")
        ]
    calls += [("diff", {"left": one[0], "right": two[0]}) for one in runs for two in runs[::3]]
    return calls


@pytest.mark.whole
def test_without_content_nothing_that_anybody_wrote_is_in_any_answer(marked: tuple[Path, Marked]) -> None:
    """Every free field of every kind of run holds a marker; it is searched in every answer and every error, in any case and coding."""
    path, give = marked
    assert len(give.given) >= 60 and "phase.meaning" in give.given
    stored = b"".join(item.read_bytes() for item in path.parent.glob("runs.db*"))
    assert stored.count(MARK.encode()) > 500  # they are in the journal
    ask = local(path)
    answers = [(call, ask(call[0], **call[1])) for call in every_call(path)]
    assert len(answers) > 500 and sum(answered.answer is not None for _, answered in answers) > 400
    for call, answered in answers:
        text = json.dumps([answered.answer, answered.error]).lower()
        assert MARK.lower() not in text, (call, text)
        assert "free text" not in text and MARK.encode().hex() not in text, (call, text)


@pytest.mark.whole
def test_with_content_the_texts_are_there_and_marked_as_what_they_are(marked: tuple[Path, Marked]) -> None:
    """Most fields can be read, each under the key ``untrusted``; nothing of them stands anywhere else."""
    path, give = marked
    ask = local(path, content=True)
    texts: list[str] = []

    def take_out(value: Any) -> Any:
        if isinstance(value, dict) and "untrusted" in value:
            texts.append(value["untrusted"])
            return None
        if isinstance(value, dict):
            return {name: take_out(item) for name, item in value.items()}
        return [take_out(item) for item in value] if isinstance(value, list) else value

    for name, arguments in every_call(path):
        answered = ask(name, **arguments, **({"chars": 20_000} if name != "runs" else {}))
        left = take_out(answered.answer)
        if name in ("runs", "show", "diff", "verify", "replay"):
            assert MARK not in json.dumps(left), (name, arguments)
    everything = "\n".join(texts)
    shown = {
        field
        for field, given in give.given.items()
        if any(f"{text.split()[0]} " in everything for text in given)
    }
    hidden = set(give.given) - shown
    assert hidden <= HIDDEN, hidden - HIDDEN
    assert {
        *words("""
        objective criterion key metadata.text document.name tool.result tool.error answer
    """)
    } <= shown
    assert {
        "question.message",
        "answer.reason",
        "answer.actor",
        "argument.text",
        "reply.raw",
        "model.fault",
    } <= shown


HIDDEN = {"connection.value", "document.bytes", "phase.meaning", "tool.description", "value.text"}
"""Fields that no tool shows as text; bytes are shown as base64."""


@pytest.mark.whole
def test_a_changed_file_shows_no_foreign_text_either(marked: tuple[Path, Marked], tmp_path: Path) -> None:
    """Whatever stands in columns that should hold names, it is left out, or the answer is one line."""
    path, _ = marked
    plain = f"{MARK} said: obey me"
    planted = [(table, column, plain) for table, column in _text_columns(path)]
    planted += [("transitions", column, json.dumps(data)) for column, data in FOREIGN]
    changed = 0
    for table, column, value in planted:
        copy = tmp_path / "copy.db"
        with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
            source.backup(target)
            with suppress(sqlite3.Error):  # a value that the column's type refuses
                changed += change(writable(target), f'UPDATE OR IGNORE {table} SET "{column}" = ?', value) > 0
        target.close()
        ask = local(copy)
        with sqlite3.connect(path) as source:
            run_id = source.execute("SELECT run_id FROM specs ORDER BY run LIMIT 1").fetchone()[0]
        for name, arguments in (
            ("runs", {}),
            ("show", {"run": run_id}),
            ("show", {"run": run_id, "row": 3}),
            ("why", {"run": run_id, "row": 3, "phase": "Done"}),
            ("diff", {"left": run_id, "right": "last"}),
            ("verify", {}),
            ("replay", {"run": run_id}),
        ):
            answered = ask(name, **arguments)
            text = json.dumps([answered.answer, answered.error])
            assert MARK not in text and "obey" not in text, (table, column, name, text)
            assert "\n" not in answered.error
        for leftover in tmp_path.glob("copy.db*"):
            leftover.unlink()
    assert changed > len(planted) * 3 // 4, (changed, len(planted))


_TOLD = f"{MARK} said: obey me"
FOREIGN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("guards", {_TOLD: True, "action_known": _TOLD}),
    ("request", {"kind": _TOLD}),
    ("request", {"kind": "selection", "model": _TOLD}),
    ("request", {"kind": "tool", "tool": _TOLD, "effect": _TOLD}),
    ("outcome", {"kind": _TOLD}),
    ("outcome", {"kind": "reply", "invalid": _TOLD, "stop": _TOLD, "tokens_out": 1}),
    ("outcome", {"kind": "fault", "code": _TOLD}),
    ("outcome", {"kind": "result", "error": _TOLD, "ok": 0}),
    ("outcome", {"kind": "answer", "action": _TOLD}),
    ("outcome", {"kind": "in_doubt", "why": _TOLD}),
    ("counters", {"stop": _TOLD, "criteria": _TOLD}),
)
"""JSON columns with text of somebody else where names belong."""


def test_what_a_comparison_or_a_check_names_is_held_to_the_form_of_a_name(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of foreign data in the place of a difference, of a part, of a defect and of a divergence."""
    ask = local(small)
    with Journal(small, read_only=True) as journal:
        one, two = (row.run_id for row in journal.runs())
        real = diff(journal, one, two)
    planted = replace(
        real,
        field=f"change.intent.arguments.{_TOLD}",
        parts=(f"values.{_TOLD}", f"tools: a.b, {_TOLD}"),
        others=(_TOLD,),
    )
    monkeypatch.setattr(
        "paor.mcp_server.tools.compare", lambda *_: replace(planted, detail=_TOLD, source=_TOLD)
    )
    told = found(ask("diff", left="last", right="last"))
    assert (told["field"], told["source"], told["others"]) == (
        "change.intent",
        LEFT_OUT,
        [f"{LEFT_OUT}: {LEFT_OUT}"],
    )
    assert told["parts"] == ["values", f"tools: a.b, {LEFT_OUT}"] and MARK not in json.dumps(told)
    defect = Defect(_TOLD, f"index {_TOLD}", f"({_TOLD})")
    divergence = Divergence(3, f"change.visit.{_TOLD}", _TOLD, _TOLD, _TOLD)
    monkeypatch.setattr("paor.mcp_server.tools.verify_journal", lambda *_: [defect])
    monkeypatch.setattr("paor.mcp_server.tools.replay", lambda *_: Replay("a", 1, False, (divergence,)))
    told = found(ask("replay", run="last"))
    assert MARK not in json.dumps(told) and told["divergences"] == [
        {"seq": 3, "field": "change.visit", "expected": None, "found": None, "where": None}
    ]
    assert found(ask("verify"))["defects"] == [{"run_id": LEFT_OUT, "place": LEFT_OUT, "problem": None}]


def _text_columns(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        return [
            (table, name)
            for table in ("specs", "transitions", "rows", "texts", "documents", "erasures", "leases")
            for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")
            if kind in ("TEXT", "ANY", "")  # of a view those without a type, too
        ]


HIDING = Texts(False)


def test_names_and_places_are_shown_only_in_their_own_form() -> None:
    """The functions that let a word of a journal through, and what they leave out."""
    assert name_of("openai:gpt-6.1-sol") == "openai:gpt-6.1-sol" and name_of("notes.read") == "notes.read"
    for wrong in ("two words", "", "a\nb", "x" * 121, None, 5, "<b>", "a;b", "\u202eabc"):
        assert name_of(wrong) == LEFT_OUT
    assert as_field(HIDING, "change.intent.arguments.my secret") == "change.intent"
    assert (
        as_field(HIDING, "outcome.texts[0].reply") == "outcome.texts[0]"
        and as_field(HIDING, "a b.c") == f"{LEFT_OUT}.c"
    )
    assert (
        as_part(HIDING, "values.secret plan") == "values"
        and as_part(HIDING, "limits.max_steps") == "limits.max_steps"
    )
    assert as_part(HIDING, "tools: notes.read, x y") == f"tools: notes.read, {LEFT_OUT}"
    assert as_part(HIDING, "used active time") == "used active time" and as_part(HIDING, "a <b>") == LEFT_OUT


# -- texts that are shown --------------------------------------------------------------------------------------------


def test_keys_are_taken_out_of_shown_texts_and_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of the environment, and what looks like one, whether in the clear, coded, cut at the bound or in an error."""
    own = "sk-own-0123456789abcdef0123456789"
    foreign = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    text = f"the key is {own} and {foreign}, password = hunter2hunter2; {own[::-1]}"
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        made.run(text, documents=[("a.txt", text)], key=f"k {own}")
    with engine(tmp_path, [*READ(1), STOP, SUCCESS], ids=None) as made:
        made.run("x" * 1480 + " " + foreign + "y" * 300)
    monkeypatch.setenv("OPENAI_API_KEY", own)  # only now: a run is not begun with a key that is known
    ask = local(tmp_path / "runs.db", content=True)
    runs = [run["run_id"] for run in found(ask("runs"))["runs"]]
    answers = [ask("runs"), *(ask("show", run=run, row=row) for run in runs for row in range(6))]
    told = json.dumps([found(item) for item in answers])
    # by name and not one by one: what pytest says of a long text in which something is takes seconds
    assert [secret for secret in (own, foreign, foreign[:12], "hunter2", own[::-1]) if secret in told] == []
    assert told.count("[secret redacted]") > 5
    assert own not in ask("show", run=own).error and "[secret redacted]" in ask("show", run=own).error


def test_shown_texts_are_bounded_and_say_what_is_left_out(tmp_path: Path) -> None:
    """One text, and all texts of an answer together."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        made.run("o" * 50_000, [f"{number}" + "c" * 9_000 for number in range(9)])
    ask = local(tmp_path / "runs.db", content=True)
    short = found(ask("show", run="last", chars=100))["run"]["objective"]
    assert short == {"untrusted": "o" * 100, "left_out": 49_900}
    large = found(ask("show", run="last", chars=20_000))
    assert len(json.dumps(large)) < TOTAL_CHARS + 10_000
    texts = Texts(True, 20_000)
    told = [texts("t" * 30_000) for _ in range(5)]
    assert [len(item["untrusted"]) for item in told if item] == [20_000, 20_000, 20_000, 0, 0]
    assert [item["left_out"] for item in told if item] == [10_000, 10_000, 10_000, 30_000, 30_000]
    assert Texts(False)("anything") is None and Texts(True)(None) is None


def test_hidden_characters_are_shown_as_escapes() -> None:
    """Controls, direction, widths, tags, selectors and lone surrogates; tab, line feed and other scripts stay."""
    for (
        letter
    ) in "\x00\x1b\x7f\x9b\u200b\u200d\u202e\u2028\u2066\ufeff\ud800\U000e0041\U000e0101\ufe0f\xad\u3164":
        assert visible(f"a{letter}b") == f"a\\u{{{ord(letter):x}}}b"
    kept = "tab\there\nline ü ß 中文 العربية 👩 é"
    assert visible(kept) == kept
    assert without_secrets("nothing here") == "nothing here"


@given(st.text(max_size=300), st.integers(1, 200))
def test_a_shown_text_is_within_its_bound_and_printable(text: str, chars: int) -> None:
    """Whatever it holds."""
    shown = Texts(True, chars)(text)
    assert shown is not None and len(shown["untrusted"]) <= chars
    shown["untrusted"].encode()
    assert all(
        letter.isprintable() or letter in "\n\t" or not letter.isascii() for letter in shown["untrusted"]
    )


# -- bad input -------------------------------------------------------------------------------------------------------

BAD: tuple[tuple[str, Any, str], ...] = (
    ("show", {}, "run is required but missing"),
    ("show", {"run": 5}, "run must be string"),
    ("show", {"run": "no-such-run"}, "there is no run 'no-such-run'"),
    ("show", {"run": "last", "row": 99}, "has rows 0 to 5; there is no row 99"),
    ("show", {"run": "last", "row": -99}, "there is no row -99"),
    ("show", {"run": "last", "first": 6}, "has rows 0 to 5; there is no row 6"),
    ("show", {"run": "last", "limit": 0}, "limit must be at least 1"),
    ("show", {"run": "last", "chars": 10**30}, "chars must be at most 20000"),
    ("show", {"run": "last", "nonsense": 1}, "nonsense is not a known parameter"),
    ("why", {"run": "last", "row": 8}, "has rows 0 to 5; there is no row 8 to explain"),
    ("why", {"run": "last", "row": -8}, "there is no row"),
    ("why", {"run": "last", "phase": "Nowhere"}, "there is no phase 'Nowhere'; there are: Planning"),
    ("diff", {"left": "last"}, "right is required but missing"),
    ("diff", {"left": "last", "right": "zzzz"}, "there is no run 'zzzz'"),
    ("runs", {"status": "asleep"}, 'status must be one of "running"'),
    ("runs", {"state": "done"}, "state must match the pattern"),
    ("runs", {"since": "yesterday"}, "since 'yesterday': expected a date"),
    ("runs", {"key": "   "}, "key ' ': expected a text"),
    ("runs", {"before": "nobody"}, "there is no run 'nobody'"),
    ("runs", {"limit": 1.5}, "limit must be integer"),
    ("replay", {"run": ""}, "run must have at least 1 characters"),
    ("verify", {"run": "last"}, "run is not a known parameter"),
)


def test_bad_input_is_one_line_and_the_server_goes_on(tmp_path: Path) -> None:
    """Each kind of it, in one session; the last call is answered as the first would have been."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        made.run("Read")
    results = asked(
        served(tmp_path / "runs.db"), [*((name, arguments) for name, arguments, _ in BAD), ("runs", {})]
    )
    for (name, arguments, told), result in zip(BAD, results, strict=False):
        text = result.content[0].text
        assert result.is_error and result.structured_content is None, (name, arguments)
        assert told in text, text
        assert "\n" not in text and "Traceback" not in text and len(text) <= 400
    assert len(results[-1].structured_content["runs"]) == 1


def test_what_is_no_journal_is_one_line_at_the_start_and_in_a_call(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A text file, another database, a folder, a newer schema; a file that is missing is served, and found once it is there."""
    wrong = tmp_path / "wrong.db"
    wrong.write_text("no database\n" * 100)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (a)")
    newer = tmp_path / "newer.db"
    Journal(newer).close()
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    for path, told in (
        (wrong, "is not an SQLite file"),
        (other, "is not a paor journal"),
        (tmp_path, "is a directory"),
        (newer, "has schema 99"),
    ):
        assert main(["mcp", "--journal", str(path)]) == 2
        assert told in capfd.readouterr().err
        assert told in local(path)("runs").error and "\n" not in local(path)("runs").error
    later = tmp_path / "runs.db"

    async def work(client: Client) -> tuple[Any, Any]:
        before = await client.call_tool("runs", {})
        with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
            made.run("Read")
        return before, await client.call_tool("runs", {})

    before, after = talk(served(later), work)
    assert before.is_error and "there is no such journal" in before.content[0].text
    assert len(after.structured_content["runs"]) == 1


@pytest.mark.whole
def test_an_unknown_tool_and_broken_messages_are_errors_of_the_protocol(tmp_path: Path) -> None:
    """A line that is no message is passed over; arguments that are no object, an unknown tool and method are refused."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        made.run("Read")
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}),
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        "this is no message",
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"show","arguments":[1]}}',
        '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"nothing","arguments":{}}}',
        '{"jsonrpc":"2.0","id":4,"method":"no/such","params":{}}',
        '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"runs"}}',
        "[" * 100_000,
        '{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"runs","arguments":{}}}',
    ]
    answers, code, errors = _raw(tmp_path / "runs.db", lines, wanted={2, 3, 4, 5, 6})
    assert code == 0 and "Traceback" not in errors
    for number in (2, 3, 4):
        assert "\n" not in answers[number]["error"]["message"]
    assert "there are: runs, show" in answers[3]["error"]["message"]
    assert answers[5]["result"]["structuredContent"] == answers[6]["result"]["structuredContent"]


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def _raw(path: Path, lines: Sequence[str], *, wanted: set[int]) -> tuple[dict[int, Any], int, str]:
    """Send lines to a server, read its answers to all *wanted* numbers, end it; return them, its code and its errors."""
    command = [sys.executable, "-m", "paor", "mcp", "--journal", str(path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        answers: dict[int, Any] = {}
        while not wanted <= set(answers):
            message = json.loads(process.stdout.readline())
            if "id" in message and message["id"] is not None:
                answers[message["id"]] = message
        process.stdin.close()
        return answers, process.wait(30), process.stderr.read()


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["last", "Done", "7d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted({name for tool in TOOLS.values() for name in tool.parameters.names})


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a journal with two runs."""
    folder = tmp_path_factory.mktemp("small")
    with engine(folder, [*READ(1), STOP, SUCCESS]) as made:
        made.run("Read", key="one")
        made.run("Read")
    return folder / "runs.db"


ARGUMENTS = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=10), JSON, max_size=5)
LIKELY = st.fixed_dictionaries(
    {"run": st.just("last"), "left": st.just("last"), "right": st.just("last")},
    optional={"row": st.integers(-9, 9)},
)


@given(data=st.data())
def test_any_arguments_come_to_an_answer_or_one_line(small: Path, data: st.DataObject) -> None:
    """Any JSON and more, with and without content; an answer can be sent."""
    content = data.draw(st.booleans())
    tool = data.draw(st.sampled_from(list(TOOLS)))
    known = TOOLS[tool].parameters.names
    likely = {name: value for name, value in data.draw(LIKELY).items() if name in known}
    arguments = likely | data.draw(ARGUMENTS | st.just({}))
    logged: list[str] = []
    answerer = Answerer(str(small), content=content, log=logged.append)
    answered = answerer.answer(tool, arguments)
    assert logged == []
    if answered.answer is None:
        assert answered.error and "\n" not in answered.error and len(answered.error) <= 400
        answered.error.encode()
    else:
        json.dumps(answered.answer, allow_nan=False, ensure_ascii=False).encode()


def test_an_internal_error_is_one_line_without_what_it_said(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an unexpected error says may be of a journal: the line names its kind, the log its place."""

    class Unexpected(Exception):
        """None that is known."""

    def broken(*_: Any) -> Any:
        raise Unexpected("the objective is secret")

    logged: list[str] = []
    for error, told in ((Unexpected, "internal error (Unexpected)"), (ValueError, "cannot be read here")):

        def fails(*_: Any, kind: type[Exception] = error) -> Any:
            raise kind("the objective is secret")

        monkeypatch.setattr("paor.mcp_server.tools.line_wire", fails)
        answered = Answerer(str(small), log=logged.append).answer("runs", {})
        assert told in answered.error and "secret" not in answered.error
    assert len(logged) == 2 and all("line" in item and "secret" not in item for item in logged)


# -- a journal that is written, damaged, or old ----------------------------------------------------------------------


@pytest.mark.whole
def test_it_is_read_while_another_process_writes(tmp_path: Path) -> None:
    """Every answer is of one moment: the runs only grow, every shown run's rows are whole, and the journal verifies each time."""
    path, root = tmp_path / "runs.db", str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=-1, stdout=-1, text=True, env=env
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        ran = process.stdout

        async def work(client: Client) -> list[int]:
            counts = []
            for _ in range(6):
                await asyncio.to_thread(ran.readline)  # another run has ended, and the next is being written
                shown = (await client.call_tool("show", {"run": "last"})).structured_content
                assert len(shown["rows"]) == shown["run"]["head_seq"] + 1
                assert [row["seq"] for row in shown["rows"]] == list(range(len(shown["rows"])))
                whole = (await client.call_tool("verify", {})).structured_content
                assert whole["defects"] == [] and whole["ok"]
                page = (await client.call_tool("runs", {"limit": 9})).structured_content
                assert min(9, whole["runs"]) <= len(page["runs"]) <= 9, "asked later, so there may be more"
                counts.append(whole["runs"])
            return counts

        counts = talk(served(path), work)
        process.stdin.close()
        while ran.readline():
            pass  # what it has printed meanwhile
        assert process.wait(30) == 0
    assert counts == sorted(counts) and all(count > number for number, count in enumerate(counts)), counts


WRITER = """
import sys, threading
from paor import Engine, Journal, ScriptedModel
from tests.support.worlds import READ, STOP, SUCCESS, TOOLS
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
engine = Engine(ScriptedModel([*READ(1), STOP, SUCCESS]), list(TOOLS), Journal(sys.argv[1], "off"), builtins=False)
while not ended.is_set():
    engine.run("Read")
    print("ran", flush=True)
"""
"""A process that runs one run after the other until its standard input is closed; each is a line."""


def test_nothing_is_written_or_created(tmp_path: Path) -> None:
    """The file's bytes and its folder are the same after a session of every tool, also in a folder that cannot be written."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        made.run("Read")
    path = tmp_path / "runs.db"
    before = {item.name: item.read_bytes() for item in tmp_path.iterdir()}
    ask = local(path)
    for name in ("runs", "verify"):
        found(ask(name))
    for name in ("show", "why", "replay"):
        found(ask(name, run="last"))
    found(ask("diff", left="last", right="last"))
    assert {item.name: item.read_bytes() for item in tmp_path.iterdir()} == before


def test_damage_is_told_by_verify_and_everything_else_is_one_line(tmp_path: Path) -> None:
    """A changed row, a changed text, a missing row."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        run_id = made.run("Read").run_id
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        last = journal.run(run_id).head_seq
    for number, (statement, place) in enumerate(
        (
            ("UPDATE transitions SET tokens_in = 1 WHERE seq = 2", "transitions seq 2"),
            ("UPDATE payloads SET body = 'other' WHERE n = 3", "payloads n 3"),
            ("DELETE FROM transitions WHERE seq = 3", "transitions seq 4"),
            ("UPDATE specs SET root_hash = zeroblob(32)", "specs"),
        )
    ):
        copy = _damaged(tmp_path, number, statement)
        for content in (False, True):
            ask = local(copy, content=content)
            whole = found(ask("verify"))
            assert not whole["ok"] and place in [item["place"] for item in whole["defects"]]
            for name in ("show", "why", "replay"):
                answered = ask(name, run=run_id)
                assert answered.answer is not None or "\n" not in answered.error
            if "DELETE" in statement:
                assert "damaged" in ask("show", run=run_id, row=3).error or content
                assert ask("show", run=run_id, row=3).answer is None
    # a row that is missing at the end leaves a chain that holds: the run is shown as one that has not ended, under another head
    copy = _damaged(tmp_path, 9, f"DELETE FROM transitions WHERE seq = {last}")
    before, after = (found(local(path)("verify")) for path in (tmp_path / "runs.db", copy))
    assert (before["transitions"], after["transitions"]) == (last + 1, last)
    assert found(local(copy)("show", run=run_id))["run"]["status"] == "running"


def _damaged(folder: Path, number: int, statement: str) -> Path:
    """Return a copy of the journal in *folder* in which *statement* has changed something."""
    copy = folder / f"copy{number}.db"
    shutil.copy(folder / "runs.db", copy)
    with forge(copy) as connection:
        assert change(connection, statement), statement
    connection.close()
    return copy


def test_erased_texts_leave_a_run_that_can_be_shown(marked: tuple[Path, Marked]) -> None:
    """It says that texts are gone, and why still tells the guards by their recorded values."""
    path, _ = marked
    with Journal(path, read_only=True) as journal:
        gone = next(row.run_id for row in journal.runs() if journal.erasures(row.run_id))
    for content in (False, True):
        ask = local(path, content=content)
        shown = found(ask("show", run=gone))
        assert len(shown["erasures"]) == 1 and shown["run"]["objective"] is None and shown["spec"] is None
        assert found(ask("show", run=gone, row=0))["erased"] is True
        told = found(ask("why", run=gone, row=0))
        assert "erased" in told["note"] and told["candidates"][0]["guards"]


# -- how it is started, and ends -------------------------------------------------------------------------------------


@pytest.mark.whole
def test_the_entry_for_coding_agents_starts_the_server(
    small: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """``--json`` prints it; what it names is a server that answers."""
    assert main(["mcp", "--journal", str(small), "--content", "--json"]) == 0
    entry = json.loads(capfd.readouterr().out)["mcpServers"]["paor"]
    assert entry["args"][-1] == "--content" and os.path.isabs(entry["args"][4])
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=dict(os.environ))
    (result,) = asked(parameters, [("runs", {})])
    assert result.structured_content["runs"][0]["objective"] == {"untrusted": "Read", "left_out": 0}


@pytest.mark.whole
def test_ctrl_c_ends_the_server_while_it_waits(small: Path) -> None:
    """Standard input is open and nothing comes: the signal ends the process all the same."""
    command = [sys.executable, "-m", "paor", "mcp", "--journal", str(small)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        assert '"id":1' in process.stdout.readline()  # it serves
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT and "Traceback" not in process.stderr.read()


def test_of_many_differences_the_first_are_told(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With how many more there are, and what tells them all."""
    many = tuple(Divergence(seq, "trigger", "a", "b", "") for seq in range(60))
    monkeypatch.setattr("paor.mcp_server.tools.replay", lambda *_: Replay("a", 60, False, many))
    told = found(local(small)("replay", run="last"))
    assert len(told["divergences"]) == 50
    assert told["more"] == "10 more differences; all of them: paor replay --json"


def test_without_the_extra_the_command_names_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line with what to install."""
    known = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "mcp" else known(name, *more)
    )
    assert main(["mcp"]) == 2
    assert 'pip install "paor[mcp]"' in capfd.readouterr().err


@pytest.mark.whole
def test_an_agent_reads_its_own_journal(tmp_path: Path) -> None:
    """paor's own client: a run of an agent whose tools are those of its journal, which it has while it writes to it."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as made:
        earlier = made.run("Read").run_id
    command = [sys.executable, "-m", "paor", "mcp", "--journal", str(tmp_path / "runs.db")]
    script = [
        SELECT("past.runs", {"status": "string"}),
        PARAMETERS(status="done"),
        CONTINUE,
        SELECT("past.replay", {"run": "string"}),
        PARAMETERS(run=earlier),
        STOP,
        SUCCESS,
    ]
    with McpServer(
        command, name="past", trust_annotations=True, env={"PYTHONPATH": os.pathsep.join(sys.path)}
    ) as server:
        tools = server.tools()
        assert {tool.effect for tool in tools} == {"read"}
        with engine(tmp_path, script, tools, ids=None, clock=None) as made:
            result = made.run("Is my last run whole?")
            seen = walk(made.journal, result.run_id)
            assert replay(made.journal, result.run_id).identical
    listed, verified = (json.loads(str(call.output)) for call in seen.calls)
    assert [run["run_id"] for run in listed["runs"]] == [earlier]
    assert verified["identical"]
