"""Replay: what was recorded is derived again from outcomes alone; whoever changed anything is named with row and field."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, ModelCall, Policy, ScriptedModel, Tool, ToolContext, replay, tool
from paor.audit import Replay
from paor.errors import JournalDamaged, ReplayDiverged, UnknownRun

from ..support.forging import forge, writable
from ..support.inside import (
    COLUMNS,
    PREV_HASH,
    ROOT_COLUMNS,
    Payload,
    PayloadWindow,
    canonical,
    chain_hash,
    root_hash,
    row_text,
    salted_digest,
)
from ..support.journeys import BY_NAME, JOURNEYS, Journey, play
from ..support.stored import file_of
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS, engine, flaky

EACH = pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])
JSON_COLUMNS = ("guards", "request", "outcome", "change", "counters")


class Silent(ScriptedModel):
    """A model that must not be asked."""

    def ask(self, call: ModelCall) -> Any:
        raise AssertionError("a replay asks nobody")


def forbidden(**arguments: Any) -> str:
    """Fail: a replay performs nothing."""
    raise AssertionError("a replay performs nothing")


def inert(tools: Any) -> list[Tool]:
    """Return the same tools with functions that must not be called."""
    return [
        Tool(
            name=item.name,
            description=item.description,
            parameters=item.parameters,
            run=forbidden,
            effect=item.effect,
            label=item.label,
            repeat_allowed=item.repeat_allowed,
            retries=item.retries,
        )
        for item in tools
    ]


# -- nothing changed -----------------------------------------------------------------------------------------------


@EACH
def test_every_journey_replays(journey: Journey, tmp_path: Path) -> None:
    """From the file alone, and with an engine like the one that wrote it; without model, tool or network."""
    with journey.engine(tmp_path) as scripted:
        result = play(journey, scripted)
        count = len(scripted.journal.transitions(result.run_id))
    path = tmp_path / JOURNAL
    before = path.read_bytes()
    with Journal(path, read_only=True) as journal:
        options = {key: value for key, value in journey.options.items() if key != "limits"}
        other = Engine(
            Silent([]),
            inert(journey.tools()),
            Journal(":memory:"),
            builtins=False,
            limits=Limits(),
            **options,
        )
        with other:
            for source in (None, other):
                found = replay(journal, result.run_id[:20], source)
                assert found == Replay(result.run_id, count, True, ())
                found.raise_if_diverged()
    assert path.read_bytes() == before


@pytest.mark.parametrize("rows", range(10))
def test_an_unfinished_run_replays_as_far_as_it_goes(rows: int, tmp_path: Path) -> None:
    """A run that was interrupted is compared up to its last row."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        events = scripted.stream("Read", on_close="stop")
        next(events)
        for event in events:
            if event.kind == "transition" and getattr(event, "seq", -1) == rows - 1:
                break
            if rows == 0:
                break
        run_id = scripted.journal.runs()[0].run_id
        found = replay(scripted.journal, run_id)
        assert found.identical and found.transitions in (rows, rows + 1)


@pytest.mark.parametrize("request_text", ["", " ", "## Objective", "write it"])
def test_what_a_tool_asks_the_model_replays_whatever_it_says(request_text: str, tmp_path: Path) -> None:
    """Also a blank request, whose heading the prompt leaves out (found by fuzzing)."""

    @tool("notes.write", effect="read")
    def write(context: ToolContext, page: int) -> str:
        """Write."""
        return context.ask(request_text, [("a.txt", "one")], format="md")

    script = [SELECT("notes.write"), PARAMETERS(page=1), "A text.", STOP, SUCCESS]
    with engine(tmp_path, script, [write]) as scripted:
        result = scripted.run("Write")
        assert result.state == "Done"
        assert replay(scripted.journal, result.run_id).divergences == ()


def test_an_unknown_run_is_told(tmp_path: Path) -> None:
    """As everywhere."""
    with engine(tmp_path, []) as scripted, pytest.raises(UnknownRun):
        replay(scripted.journal, "none-such")


# -- another engine ------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[tuple[Journal, str]]:
    """Return a journal with one run of two actions, and its id."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read the notes", ["every page is read"]).run_id
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        yield journal, run_id


def with_engine(recorded: tuple[Journal, str], tools: Any = TOOLS, **options: Any) -> Replay:
    """Replay with an engine that was made like this."""
    journal, run_id = recorded
    with Engine(Silent([]), list(tools), Journal(":memory:"), builtins=False, **options) as other:
        return replay(journal, run_id, other)


def fields(found: Replay) -> dict[int, set[str]]:
    """Return the fields that differ, by row."""
    rows: dict[int, set[str]] = {}
    for divergence in found.divergences:
        rows.setdefault(divergence.seq, set()).add(divergence.field)
    return rows


def test_a_changed_template_is_named_at_every_row_that_used_it(recorded: tuple[Journal, str]) -> None:
    """With the first line that differs."""
    from ..support.inside import default_templates

    changed = default_templates()["refinement"].replace("## Reply", "## The reply", 1)
    found = with_engine(recorded, prompts={"refinement": changed})
    assert not found.identical
    assert fields(found) == {4: {"request.prompt"}, 9: {"request.prompt"}}
    first = found.divergences[0]
    assert "## Reply" in first.expected and "## The reply" in first.found
    assert first.expected.startswith("line ") and first.found.startswith("line ")
    with pytest.raises(
        ReplayDiverged,
        match=r"row 4, request.prompt \(user message, template refinement\): recorded line \d+: .*, derived line",
    ):
        found.raise_if_diverged()


def test_a_template_with_more_lines_is_named(recorded: tuple[Journal, str]) -> None:
    """The recorded prompt ends where the derived one goes on."""
    from ..support.inside import default_templates

    longer = default_templates()["selection"] + "\nBe brief."
    found = with_engine(recorded, prompts={"selection": longer})
    assert fields(found) == {0: {"request.prompt"}, 5: {"request.prompt"}}
    assert {divergence.expected.partition(": ")[2] for divergence in found.divergences} == {"(end)"}


def test_a_changed_policy_is_named_at_the_guard(recorded: tuple[Journal, str]) -> None:
    """What is denied now would have been asked again, or refused."""
    found = with_engine(recorded, policy=Policy(deny=("notes.read",)))
    rows = fields(found)
    assert {"trigger", "dest", "guards.action_allowed"} <= rows[0]
    first = next(item for item in found.divergences if item.field == "trigger")
    assert (first.seq, first.expected, first.found) == (0, "select", "reselect")
    assert "guards.action_allowed" in rows[1]


def test_a_changed_tool_schema_is_named(recorded: tuple[Journal, str]) -> None:
    """The recorded parameters would not pass now."""

    @tool("notes.read", effect="read", label="page")
    def read(page: int, chapter: int) -> str:
        """Read one page of the notes."""
        return ""

    rows = fields(with_engine(recorded, [read, *TOOLS[1:]]))
    assert "request.prompt" in rows[0]
    assert {"trigger", "guards.parameters_valid", "guards.parameters_ok"} <= rows[1]


def test_a_changed_effect_or_label_is_named(recorded: tuple[Journal, str]) -> None:
    """It decides what happens after a crash, and where documents stand."""
    original = TOOLS[0]
    for changes, field in (
        ({"effect": "once"}, "change.intent.effect"),
        ({"label": "x"}, "change.intent.label"),
    ):
        values = {
            "name": original.name,
            "description": original.description,
            "parameters": original.parameters,
            "effect": original.effect,
            "label": original.label,
            **changes,
        }
        changed = Tool(run=forbidden, **values)  # type: ignore[arg-type]
        assert field in fields(with_engine(recorded, [changed, *TOOLS[1:]]))[1]


def test_changed_retries_of_a_tool_are_named(tmp_path: Path) -> None:
    """Whether a step is tried again is decided from the engine's own tools."""
    journey = BY_NAME["retried_step"]
    with journey.engine(tmp_path) as scripted:
        run_id = play(journey, scripted).run_id
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        found = with_engine((journal, run_id), inert([*TOOLS, flaky(0, retries=0)]))
    assert "guards.step_retries_left" in fields(found)[2]


def test_a_tool_that_the_engine_lacks_keeps_its_recorded_form(recorded: tuple[Journal, str]) -> None:
    """Nothing can be compared with it, so nothing differs."""
    assert with_engine(recorded, TOOLS[1:]).identical


# -- another journal -----------------------------------------------------------------------------------------------


class Altered:
    """A journal whose one run is changed by somebody who recomputes all that can be recomputed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.whole = path.read_bytes()
        connection = sqlite3.connect(path)
        connection.row_factory = sqlite3.Row
        self._rows = [dict(row) for row in connection.execute("SELECT * FROM transitions ORDER BY id")]
        connection.close()

    def rows(self) -> list[dict[str, Any]]:
        """Return the recorded rows, JSON columns read."""
        return [row | {name: json.loads(row[name]) for name in JSON_COLUMNS} for row in self._rows]

    def write(self, rows: list[dict[str, Any]], bodies: dict[int, str] | None = None) -> None:
        """Write *rows* and payload *bodies* in place of the recorded ones, chain and digests recomputed."""
        self.path.write_bytes(self.whole)
        connection = writable(sqlite3.connect(self.path, isolation_level=None))
        connection.execute("PRAGMA synchronous = OFF")
        connection.row_factory = sqlite3.Row
        digests = {}
        for number, body in (bodies or {}).items():
            payload = connection.execute("SELECT * FROM payloads WHERE n = ?", (number,)).fetchone()
            digest = salted_digest(bytes.fromhex(payload["salt"]), body, payload["media_type"]).hex()
            connection.execute("UPDATE payloads SET body = ?, digest = ? WHERE n = ?", (body, digest, number))
            digests[number] = {"n": number, "digest": digest, "bytes": len(body.encode())}
        spec = dict(connection.execute("SELECT * FROM specs").fetchone())
        if spec["spec_payload"] in digests:
            spec["spec"] = digests[spec["spec_payload"]]["digest"]
            connection.execute("UPDATE specs SET spec = ?", (spec["spec"],))
        head = root_hash({name: spec[name] for name in ROOT_COLUMNS})
        connection.execute("UPDATE specs SET root_hash = ?", (head,))
        stored = connection.execute("SELECT texts FROM rows ORDER BY id").fetchall()
        texts = [text for (column,) in stored for text in json.loads(column)]
        connection.execute("DELETE FROM rows")
        for row in rows:  # the texts of one that is left out are those of the next
            values = tuple(
                canonical(redirected(row[name], digests)) if name in JSON_COLUMNS else row[name]
                for name in COLUMNS[:PREV_HASH]
            )
            head = chain_hash(head, values)
            last = row["change"]["n"]
            own = json.dumps([text for text in texts if text[0] <= last])
            texts = [text for text in texts if text[0] > last]
            connection.execute(
                'INSERT INTO rows (id, "last", "row", hash, texts) VALUES (?, ?, ?, ?, ?)',
                (row["id"], row["run"] << 32 | last, row_text(values).decode(), head, own),
            )
        connection.close()

    def replay(self) -> Replay:
        """Replay what is in the file now."""
        with Journal(self.path, read_only=True) as journal:
            return replay(journal, journal.runs()[0].run_id)

    def verified(self) -> list[str]:
        """Return the defects that `verify` finds now."""
        with Journal(self.path, read_only=True) as journal:
            return [str(defect) for defect in journal.verify()]


def redirected(data: Any, digests: dict[int, dict[str, Any]]) -> Any:
    """Return JSON with every reference to a forged payload brought up to date."""
    if isinstance(data, dict):
        if "digest" in data and data.get("n") in digests:
            return digests[data["n"]]
        return {key: redirected(value, digests) for key, value in data.items()}
    return [redirected(value, digests) for value in data] if isinstance(data, list) else data


SOME = ("blocked", "documents", "approved", "retried_run", "model_fault")


@pytest.fixture(params=SOME)
def forged(request: pytest.FixtureRequest, tmp_path: Path) -> Altered:
    """Return the journal of a journey, to be changed."""
    journey = BY_NAME[request.param]
    with journey.engine(tmp_path) as scripted:
        play(journey, scripted)
    return Altered(tmp_path / JOURNAL)


INPUTS = {"at", "time_us", "request.model", "outcome.finish", "outcome.code"}
"""What came from outside and decides nothing else: a replay has nothing to compare it with (docs/journal-format.md)."""


def test_a_rehashed_journal_replays_and_verifies_when_nothing_was_changed(forged: Altered) -> None:
    """So that what the other tests find is the change, and not the forger's clumsiness."""
    forged.write(forged.rows())
    assert forged.verified() == []
    assert forged.replay().identical


def test_a_forged_guard_is_found(forged: Altered) -> None:
    """Every guard of every row, turned round or left out; and one that nobody evaluated."""
    widest = max(len(row["guards"]) for row in forged.rows())
    for number in range(2 * widest + 1):
        rows, names = forged.rows(), {}
        for place, row in enumerate(rows):
            guards = sorted(row["guards"])
            if number == 2 * widest:
                names[place] = "made_up"
                row["guards"]["made_up"] = True
            elif number // 2 < len(guards):
                name = names[place] = guards[number // 2]
                value = row["guards"].pop(name)
                row["guards"] |= {} if number % 2 else {name: not value}
        forged.write(rows)
        found = fields(forged.replay())
        assert {place: {f"guards.{name}"} for place, name in names.items()} == found


def test_a_forged_counter_is_found(forged: Altered) -> None:
    """Every counter that a transition computes, in every row; every second row at a time, since the next follows it."""
    for name in ("step", "action", "retries", "tokens_in", "tokens_out", "cost_micro"):
        for half in (0, 1):
            rows = forged.rows()
            for row in rows[half::2]:
                row[name] += 1
            forged.write(rows)
            found = fields(forged.replay())
            assert all(name in found[place] for place in range(half, len(rows), 2)), (name, half)


def test_a_forged_counter_without_a_column_is_found(forged: Altered) -> None:
    """The others stand together in one column."""
    for place, row in enumerate(forged.rows()):
        for name, value in row["counters"].items():
            rows = forged.rows()
            rows[place]["counters"][name] = f"{value}x" if isinstance(value, str) else value + 1
            forged.write(rows)
            found = fields(forged.replay())
            assert min(found) == place and {f"counters.{name}", "record"} & found[place], (place, name)


@pytest.mark.parametrize("column", ["trigger", "dest", "source"])
def test_a_forged_transition_is_found(column: str, forged: Altered) -> None:
    """In every row; a wrong source is a row in another place."""
    for place, row in enumerate(forged.rows()):
        rows = forged.rows()
        rows[place][column] = (
            "retry" if column == "trigger" else "Reviewing" if row[column] != "Reviewing" else "Done"
        )
        if row[column] == rows[place][column]:
            continue
        forged.write(rows)
        assert {column, "place"} & fields(forged.replay())[place], (place, row)


def test_a_forged_fact_is_found(forged: Altered) -> None:
    """Every fact that a row tells of its outcome, but for what came from outside and decides nothing."""
    for place, row in enumerate(forged.rows()):
        for name, value in row["outcome"].items():
            if (
                f"outcome.{name}" in INPUTS
                or isinstance(value, list)
                or (isinstance(value, dict) and name != "output")
            ):
                continue
            rows = forged.rows()
            other = (
                not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}x"
            )
            rows[place]["outcome"][name] = {"n": 0} if isinstance(value, dict) else other
            forged.write(rows)
            found = forged.replay()
            assert not found.identical and found.divergences[0].seq == place, (place, name)
    rows = forged.rows()
    for row in rows:
        row["outcome"]["made_up"] = 1
    forged.write(rows)
    assert fields(forged.replay()) == {place: {"outcome.made_up"} for place in range(len(rows))}


def test_a_forged_request_is_found(forged: Altered) -> None:
    """What was asked: kind, tool, effect, attempt, payloads, and every prompt by its text."""
    values: dict[str, list[Any]] = {
        "made_up": [1],
        "kind": ["plan", 7],
        "tool": ["another"],
        "effect": ["another"],
        "payloads": [[0], []],
        "attempt": [3],
        "prompt": [[], [{"n": 0}], [{"n": 0}, {"n": 0}]],
    }
    for name, others in values.items():
        for other in others:
            rows = forged.rows()
            changed = [row for row in rows if name in row["request"] or name in ("made_up", "kind")]
            if name == "attempt":
                changed = [row for row in rows if "prompt" in row["request"]]
            for row in changed:
                row["request"][name] = other
            forged.write(rows)
            found = fields(forged.replay())
            assert all(f"request.{name}" in found[row["seq"]] for row in changed), (name, other, found)
            assert found.keys() == {row["seq"] for row in changed}


@pytest.mark.parametrize("told", [{"digest": "0" * 64}, {"bytes": 1}])
def test_a_digest_or_size_that_a_request_gives_its_message_is_compared(
    told: dict[str, Any], forged: Altered
) -> None:
    """With every message, also one whose text has been compared for a row before."""
    asked = [row["seq"] for row in forged.rows() if row["request"].get("prompt")]
    for seq in asked:
        for place in (0, -1):
            rows = forged.rows()
            rows[seq]["request"]["prompt"][place] |= told
            forged.write(rows)
            assert fields(forged.replay()) == {key: {"request.prompt"} for key in goes_on(rows, seq, place)}


def goes_on(rows: list[dict[str, Any]], seq: int, place: int) -> list[int]:
    """Return the rows whose prompt has the message that row *seq* names at *place*: its own, and those that go on from it."""
    own, shared = rows[seq]["request"]["prompt"], rows[seq]["request"].get("after", (0, 0))[1]
    number, found = shared + place % len(own), [seq]
    for row in rows[seq + 1 :]:
        before, count = row["request"].get("after", (-1, 0))
        if before in found and number < count:
            found.append(row["seq"])
    return found


def test_another_payload_under_a_number_is_compared_again(recorded: tuple[Journal, str]) -> None:
    """What is known of a text is known of the payload that was compared, not of its number."""
    window = PayloadWindow(recorded[0].reader)
    right = Payload(3, "text/plain", salted_digest(b"s" * 16, "text", "text/plain"), b"s" * 16, "text")
    assert window.is_text(right, {"n": 3}, "text") and window.is_text(right, {"n": 3}, "text")
    assert not window.is_text(right._replace(body="other"), {"n": 3}, "text")
    assert not window.is_text(right, {"n": 3}, "other")


def test_a_message_that_was_another_one_before_is_compared(forged: Altered) -> None:
    """The payload of the first message is known when the second is said to be the same."""
    for place, row in enumerate(forged.rows()):
        if len(row["request"].get("prompt", ())) > 1:
            rows = forged.rows()
            prompt = rows[place]["request"]["prompt"]
            prompt[1] = {"n": prompt[0]["n"]}
            forged.write(rows)
            told = {key: {"request.prompt"} for key in goes_on(rows, row["seq"], 1)}
            assert fields(forged.replay()) == told


def test_a_forged_memory_is_found(forged: Altered) -> None:
    """What a transition set, slot by slot; but for a tool's result, which came from outside."""
    connection = sqlite3.connect(forged.path)
    bodies = dict(connection.execute("SELECT n, body FROM payloads"))
    connection.close()
    for place, row in enumerate(forged.rows()):
        number = row["change"]["n"]
        change = json.loads(bodies[number])
        for slot, value in change.items():
            if slot == "result" and row["trigger"] in ("execute", "retry_step"):
                continue
            if slot == "reply" and value is not None:
                continue
            if slot in ("cleared", "summed"):
                value, changed = None, value[:-1] if slot == "cleared" else value + 1
            other = None if value is not None else changed if slot in ("cleared", "summed") else ""
            if other == "":
                continue
            forged.write(forged.rows(), {number: json.dumps({**change, slot: other}, separators=(",", ":"))})
            found = forged.replay()
            assert f"change.{slot}" in fields(found).get(place, set()), (place, slot, found.divergences[:3])


def test_a_forged_document_is_found(forged: Altered) -> None:
    """Every column of every row of `documents`, one that is missing, and one that nothing has produced."""
    connection = sqlite3.connect(forged.path)
    numbers = [number for (number,) in connection.execute("SELECT number FROM documents ORDER BY id")]
    connection.close()
    forged.write(forged.rows())
    whole = forged.path.read_bytes()

    def changed(statement: str, *values: Any) -> dict[int, set[str]]:
        forged.path.write_bytes(whole)
        connection = sqlite3.connect(forged.path, isolation_level=None)
        connection.execute(statement, values)
        connection.close()
        return fields(forged.replay())

    for number in numbers:
        for name, value in (("label", "x"), ("position", 9), ("name", "x"), ("mime", "x"), ("bytes", 10**6)):
            found = changed(f"UPDATE documents SET {name} = ? WHERE number = ?", value, number)
            assert {f"documents.{number}.{name}"} in found.values(), (number, name)
        assert {f"documents.{number}"} in changed("DELETE FROM documents WHERE number = ?", number).values()


def test_a_forged_view_is_found(recorded: tuple[Journal, str], tmp_path: Path) -> None:
    """The state, the reason and the head of a run are what its rows say."""
    journal, run_id = recorded
    path = tmp_path / "forged.db"
    path.write_bytes(Path(journal.path).read_bytes())
    connection = sqlite3.connect(path, isolation_level=None)
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'runs'").fetchone()
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(runs)")]
    connection.execute("DROP VIEW IF EXISTS v_runs")
    connection.execute(sql.replace("VIEW runs", "VIEW true_runs", 1))
    connection.execute("DROP VIEW runs")
    for name, value in (
        ("state", "'Failed'"),
        ("status", "'failed'"),
        ("reason", "'stuck'"),
        ("ended_at", "7"),
    ):
        shown = ", ".join(f"{value} AS {column}" if column == name else column for column in columns)
        connection.execute(f"CREATE VIEW runs AS SELECT {shown} FROM true_runs")
        with Journal(path, read_only=True) as reader:
            assert [item.field for item in replay(reader, run_id).divergences] == [f"runs.{name}"]
        connection.execute("DROP VIEW runs")
    connection.close()


def test_a_call_without_a_result_is_found(forged: Altered) -> None:
    """What a tool returned may be anything, but it must be there."""
    for row in forged.rows():
        if row["trigger"] == "execute":
            forged.write(forged.rows(), {row["change"]["n"]: '{"reply":null}'})
            assert "outcome" in fields(forged.replay())[row["seq"]]


def test_a_prompt_that_is_stored_as_bytes_is_compared_as_text(forged: Altered) -> None:
    """Text that is no valid Unicode is kept as bytes; that alone is no difference, what it says is."""
    for row in forged.rows():
        if "prompt" not in row["request"]:
            continue
        number = row["request"]["prompt"][-1]["n"]
        for body in ("CAST(body AS BLOB)", "CAST(body || 'x' AS BLOB)"):
            forged.write(forged.rows())
            connection = writable(sqlite3.connect(forged.path, isolation_level=None))
            connection.execute(f"UPDATE payloads SET body = {body} WHERE n = ?", (number,))
            connection.close()
            found = fields(forged.replay())
            assert ("request.prompt" in found.get(row["seq"], set())) is ("'x'" in body)
            assert any("media type" in problem for problem in forged.verified())


def test_a_forged_reply_is_found_by_what_follows_from_it(forged: Altered) -> None:
    """A model's words are input; but what was decided from them is not what would be decided from others."""
    for place, row in enumerate(forged.rows()):
        if "reply" in row["outcome"]:
            forged.write(forged.rows(), {row["outcome"]["reply"]["n"]: "I say something else."})
            found = forged.replay()
            seqs = {divergence.seq for divergence in found.divergences}
            assert not found.identical or row["outcome"].get("invalid"), place
            assert not seqs or place in seqs or min(seqs) < place  # an equal reply is stored once


def test_a_forged_document_is_found_by_the_observation(forged: Altered) -> None:
    """Observations are built from the stored bodies, so a replay builds them from the forged ones."""
    for place, row in enumerate(forged.rows()):
        if "output" in row["outcome"] and row["outcome"]["documents"] == 1:
            forged.write(forged.rows(), {row["outcome"]["output"]["n"]: "Page 1: free of charge."})
            found = fields(forged.replay())
            assert "change.observation.previews" in found[place + 1], (place, found)


def test_a_forged_objective_is_found_by_the_prompts(forged: Altered) -> None:
    """Everything that decides a run is in its spec."""
    connection = sqlite3.connect(forged.path)
    number, body = connection.execute(
        "SELECT n, body FROM payloads JOIN specs ON n = spec_payload AND payloads.run = specs.run"
    ).fetchone()
    connection.close()
    spec = json.loads(body)
    forged.write(
        forged.rows(), {number: json.dumps({**spec, "objective": "Something else"}, separators=(",", ":"))}
    )
    assert forged.verified() == []
    assert "request.prompt" in fields(forged.replay())[0]


def test_what_only_came_from_outside_cannot_be_judged(forged: Altered) -> None:
    """Times, a model's name, how it ended: no derivation depends on them, and the docs say so."""
    rows = forged.rows()
    for place, row in enumerate(rows):
        if row["trigger"] != "provide":  # the time of an approval decides how long it holds
            row["at"] += 1
        row["time_us"] += 10 * (place + 1)
        if "model" in row["request"]:
            row["request"]["model"] = "another"
    forged.write(rows)
    assert forged.replay().identical


def test_a_missing_row_is_found(forged: Altered) -> None:
    """Left out and renumbered: the next row does not follow from the one before."""
    count = len(forged.rows())
    for place in range(count - 1):
        rows = forged.rows()
        del rows[place]
        for seq, row in enumerate(rows):
            row |= {"seq": seq, "id": row["run"] << 32 | seq}
        forged.write(rows)
        assert not forged.replay().identical, place
    rows = forged.rows()
    del rows[1]
    forged.write(rows)
    assert "place" in fields(forged.replay())[2]


# -- what cannot be read -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["deleted", "erased", "garbage"])
def test_a_record_that_is_missing_is_a_divergence(kind: str, tmp_path: Path) -> None:
    """Any payload but the spec: replay fails closed, names the row, and never raises."""
    with BY_NAME["documents"].engine(tmp_path) as scripted:
        play(BY_NAME["documents"], scripted)
    path = tmp_path / JOURNAL
    whole = path.read_bytes()
    connection = sqlite3.connect(path)
    (spec,) = connection.execute("SELECT spec_payload FROM specs").fetchone()
    used = [n for (n,) in connection.execute("SELECT n FROM payloads WHERE n > ?", (spec,))]
    unused = {n for (n,) in connection.execute("SELECT payload FROM documents")} | {
        n
        for (texts,) in connection.execute(
            "SELECT outcome ->> '$.texts' FROM transitions WHERE outcome ->> '$.texts' IS NOT NULL"
        )
        for pair in json.loads(texts)
        for n in (pair[0]["n"], pair[1]["n"])
    }
    connection.close()
    statements = {
        "deleted": "DELETE FROM payloads WHERE n = ?",
        "erased": "UPDATE payloads SET body = NULL, salt = NULL WHERE n = ?",
        "garbage": "UPDATE payloads SET body = x'ff00' WHERE n = ?",
    }
    for number in used:
        path.write_bytes(whole)
        connection = forge(path)
        connection.execute(statements[kind], (number,))
        connection.commit()
        connection.close()
        with Journal(path, read_only=True) as journal:
            found = replay(journal, journal.runs()[0].run_id)
        assert not found.identical or number in unused, number
        assert all(isinstance(str(item), str) for item in found.divergences)


@pytest.mark.parametrize("column", JSON_COLUMNS)
@pytest.mark.parametrize(
    "value", ["[]", "{}", "7", '{"kind": "reply"}', '{"n": 18446744073709551615}', '{"step": 1}', "no json"]
)
def test_a_column_of_another_form_is_a_divergence(column: str, value: str, tmp_path: Path) -> None:
    """In any row; text that is no JSON object at all is damage."""
    with BY_NAME["blocked"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["blocked"], scripted).run_id
        connection = writable(file_of(scripted.journal).connection)
        rows = connection.execute(f"SELECT id, {column} FROM transitions WHERE seq % 3 = 2").fetchall()
        for key, old in rows:
            if json.loads(old) == (json.loads(value) if value != "no json" else None):
                continue
            connection.execute(f"UPDATE transitions SET {column} = ? WHERE id = ?", (value, key))
            if value in ("no json", "[]", "7") or (column == "guards" and value != "{}"):
                with pytest.raises(JournalDamaged, match=r"JSON|row \d+ cannot be read"):
                    replay(scripted.journal, run_id)
            else:
                found = replay(scripted.journal, run_id)
                assert not found.identical and found.divergences[0].seq <= key & 0xFFFFFFFF
            connection.execute(f"UPDATE transitions SET {column} = ? WHERE id = ?", (old, key))


@pytest.mark.parametrize("body", ["{}", "[]", "no json", '{"objective": 7}'])
def test_a_spec_that_cannot_be_read_is_damage(body: str, tmp_path: Path) -> None:
    """Without it nothing can be derived."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        writable(file_of(scripted.journal).connection).execute(
            "UPDATE payloads SET body = ? WHERE n = 0", (body,)
        )
        with pytest.raises(JournalDamaged, match="payload 0 was changed"):
            replay(scripted.journal, run_id)
        payload = scripted.journal.payload(1, 0)
        digest = salted_digest(payload.salt or b"", body, payload.media_type)
        writable(file_of(scripted.journal).connection).execute(
            "UPDATE payloads SET digest = ? WHERE n = 0", (digest.hex(),)
        )
        file_of(scripted.journal).connection.execute("UPDATE specs SET spec = ?", (digest.hex(),))
        with pytest.raises(JournalDamaged, match="its spec cannot be read"):
            replay(scripted.journal, run_id)
        writable(file_of(scripted.journal).connection).execute("UPDATE payloads SET body = NULL WHERE n = 0")
        found = replay(scripted.journal, run_id)
        assert not found.identical and found.unchecked[0].field.startswith("spec")
        assert "without a record" in found.divergences[0].found


def test_a_view_that_lies_is_found_by_replay(tmp_path: Path) -> None:
    """The state in `runs` is derived too."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        connection = file_of(scripted.journal).connection
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'runs'").fetchone()
        connection.execute("DROP VIEW runs")
        connection.execute(sql.replace("coalesce(dest, 'Planning')", "'Failed'"))
        (divergence,) = replay(scripted.journal, run_id).divergences
        assert (divergence.field, divergence.expected, divergence.found) == ("runs.state", "Failed", "Done")


def test_a_tool_that_asks_the_model_for_nothing_replays(tmp_path: Path) -> None:
    """In a run without a language its prompt has no block with a value, so the user's message is empty."""

    @tool("notes.ask", effect="read")
    def ask(context: ToolContext) -> str:
        """Ask."""
        return context.ask("")

    script = [SELECT("notes.ask", {}), "A text.", STOP, SUCCESS]
    with engine(tmp_path, script, [ask]) as host:
        result = host.run("Read")
        assert result.state == "Done"
        assert replay(host.journal, result.run_id).identical
