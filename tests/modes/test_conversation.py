"""A run's conversation: it only grows, each request begins as the one before, and a cut is one block that the row records."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Document, Engine, Journal, Limits, ModelCall, Reply, ScriptedModel, replay, tool
from paor.cli import main
from paor.errors import JournalTooOld
from paor.testing import call_tools, scripted_tool, step

from ..support.cases import Spec
from ..support.effort import examples
from ..support.recording import paired


class Heard(ScriptedModel):
    """A scripted model that keeps what it was asked."""

    def __init__(self, replies: Any) -> None:
        super().__init__(replies, calls_tools=True)
        self.calls: list[ModelCall] = []

    def ask(self, call: ModelCall) -> Reply:
        """Answer as the script says."""
        self.calls.append(call)
        return super().ask(call)


def flat(call: ModelCall) -> list[Any]:
    """Return the messages of a request as data."""
    return [(item.role, item.text, item.call_id, item.calls, item.parts) for item in call.messages]


def begins_as_before(calls: list[ModelCall]) -> list[bool]:
    """Return of each request but the first whether it begins with all of the one before."""
    asked = [flat(call) for call in calls]
    return [later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(asked)]


def checked(engine: Engine, run_id: str) -> None:
    """Hold a run to what holds for every one: it verifies and replays, with and without the engine."""
    assert engine.journal.verify() == []
    for host in (None, engine):
        assert replay(engine.journal, run_id, host).divergences == ()


PAGE = scripted_tool("notes.page", ["x" * 900] * 99, effect="read")


def reads(count: int, size: int = 1) -> list[Any]:
    """Return replies that read *count* pages, *size* in each, and the answer."""
    pages = [step("notes.page", page=page) for page in range(count * size)]
    return [*(call_tools(*pages[at : at + size]) for at in range(0, len(pages), size)), "Read."]


@settings(max_examples=examples(15))
@given(
    turns=st.lists(
        st.one_of(
            st.integers(1, 4),
            st.sampled_from(
                ["", "<tool_call>{", {"text": "Look.", "calls": [{"name": "no.such", "arguments": {}}]}]
            ),
        ),
        max_size=5,
    )
)
def test_every_request_begins_with_all_of_the_one_before(turns: list[Any]) -> None:
    """Whatever came between: calls, several at once, replies that cannot be used, unknown tools; and the tools stay the same."""
    script = [
        call_tools(*(step("notes.page", page=10 * at + page) for page in range(turn)))
        if type(turn) is int
        else turn
        for at, turn in enumerate(turns)
    ]
    review = '{"status": "success", "answer": "Read."}'  # asked for where the last call was refused
    model, limits = Heard([*script, "Read.", review, "Read."]), Limits(max_steps=50, selection_retries=9)
    page = scripted_tool("notes.page", ["x" * 90] * 99, effect="read")
    with Engine(model, [page], ":memory:", limits=limits, builtins=False) as engine:
        result = engine.run("Read")
        checked(engine, result.run_id)
    assert all(begins_as_before(model.calls)) and len({call.tools for call in map(frozen, model.calls)}) <= 1
    for call in model.calls:
        paired(call)
        asked_last = call.kind == "review"  # what is asked of a judge is no part of the conversation
        assert call.stable == len(call.messages) - asked_last


def frozen(call: ModelCall) -> Any:
    """Return a request whose tools can be compared."""
    return type("Asked", (), {"tools": json.dumps([[tool.name, tool.schema] for tool in call.tools])})


def test_a_conversation_is_cut_in_one_block_which_the_row_and_show_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It grows to its room and is cut to half: then the requests begin with the same bytes again, with summaries first."""
    model, path = Heard(reads(60)), tmp_path / "runs.db"
    limits = Limits(max_steps=100, context_tokens=8_000)
    page = scripted_tool("notes.page", ["x" * 900] * 99, effect="read")
    with Engine(model, [page], path, limits=limits, builtins=False) as engine:
        result = engine.run("Read")
        assert result.state == "Done"
        checked(engine, result.run_id)
        cuts = [row for row in engine.journal.transitions(result.run_id) if "cut" in row.outcome]
    same = begins_as_before(model.calls)
    assert 2 <= len(cuts) == same.count(False) <= 8, "a block at a time"
    sizes = [sum(len(item.text) for item in call.messages) for call in model.calls]
    assert max(sizes) < 8_000 * 3
    texts = [item.text for item in model.calls[-1].messages if item.role == "tool"]
    assert texts[-1] == "x" * 900 and texts[0].endswith("(shortened to save room; call again for the whole)")
    assert main(["show", result.run_id, "--journal", str(path)]) == 0
    assert "conversation cut" in capsys.readouterr().out


def test_at_twenty_steps_every_result_is_seen_whole() -> None:
    """In a context that holds them all."""
    model, limits = Heard(reads(20)), Limits(max_steps=30, context_tokens=128_000)
    page = scripted_tool("notes.page", [f"{number}: " + "x" * 900 for number in range(99)], effect="read")
    with Engine(model, [page], ":memory:", limits=limits, builtins=False) as engine:
        engine.run("Read")
    texts = [item.text for item in model.calls[-1].messages if item.role == "tool"]
    assert [text.partition(":")[0] for text in texts] == [str(number) for number in range(20)]
    assert all(len(text) > 900 for text in texts) and all(begins_as_before(model.calls))


def test_a_result_that_is_too_long_is_cut_with_words_and_a_note_in_the_row() -> None:
    """A quarter of the context: how much is shown, of how much, and how to read the rest; a wide character is no byte."""
    for letter in ("x", "\N{GREEK SMALL LETTER ALPHA}"):
        model, limits = Heard(reads(1)), Limits(context_tokens=8_000)
        page = scripted_tool("notes.page", [letter * 40_000], effect="read")
        with Engine(model, [page], ":memory:", limits=limits, builtins=False) as engine:
            result = engine.run("Read")
            checked(engine, result.run_id)
            (told,) = [
                row.outcome["shown"]
                for row in engine.journal.transitions(result.run_id)
                if "shown" in row.outcome
            ]
        shown = model.calls[1].messages[-1].text
        count = shown.count(letter)
        size = count * len(letter.encode())
        assert told[0] >= len(shown.encode()) and told[1] == 40_000 * len(letter.encode())
        assert re.search(r"\[Cut: the first ([0-9,]+) of [0-9,]+ bytes; call the tool for less\.\]", shown)
        assert 2_000 < size <= int(shown.split(" of ")[0].rsplit(" ")[-1].replace(",", "")) < size + 4


@tool("notes.table", effect="read")
def table() -> list[dict[str, Any]]:
    """Return rows."""
    return [{"id": f"O-{number}", "late": number in (7, 9)} for number in range(10)]


def test_json_reaches_the_model_as_json() -> None:
    """Compact, and not escaped into other JSON; it is the very document that the run keeps."""
    model = Heard([call_tools(step("notes.table")), "7 and 9."])
    with Engine(model, [table], ":memory:", builtins=False) as engine:
        result = engine.run("Which are late?")
        text = model.calls[1].messages[-1].text
        assert text == result.documents[0].read() and "\n" not in text
    assert [row["id"] for row in json.loads(text)] == [f"O-{number}" for number in range(10)]


class Thinking(Heard):
    """A model whose provider gives turns of its own form."""

    def ask(self, call: ModelCall) -> Reply:
        """Answer with parts, as a client does."""
        reply = super().ask(call)
        thought = {"type": "thinking", "thinking": f"thought {len(self.calls)}", "signature": "c2ln"}
        return Reply(
            reply.text,
            finish=reply.finish,
            parts=(thought, {"type": "unknown", "x": [1, None]}),
            api="messages",
        )


def test_the_providers_own_turn_goes_back_to_its_model_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unchanged, in the turn in which it came; after a resume, in a fork with another model without; an auditor reads the thought."""
    path, first = tmp_path / "runs.db", Thinking(reads(3))
    page = scripted_tool("notes.page", ["page"] * 9, effect="read")
    with Engine(first, [page], path, builtins=False) as engine:
        result = engine.run("Read")
        checked(engine, result.run_id)
        sent = [item.parts for item in first.calls[-1].messages if item.role == "assistant"]
        assert [parts[0]["thinking"] for parts in sent] == ["thought 1", "thought 2", "thought 3"]
        assert {item.api for item in first.calls[-1].messages if item.role == "assistant"} == {"messages"}
        rows = engine.journal.transitions(result.run_id)
        second = next(row.seq for row in rows if row.trigger == "proceed")
    other = Heard(["", "", "Read."])
    other.name = "another"
    with Engine(other, [page], path, builtins=False) as engine:
        forked = engine.fork(result.run_id, second)
        assert forked.state == "Done" and replay(engine.journal, forked.run_id).divergences == ()
    assert all(item.parts == () for call in other.calls for item in call.messages)
    assert main(["show", result.run_id, "--row", "0", "--journal", str(path)]) == 0
    assert "thought 1" in capsys.readouterr().out


class Lost(BaseException):
    """The process ends here, as far as the engine can tell."""


def test_a_conversation_goes_on_in_another_process_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """The requests after a resume begin as those before; the rows are those of a run that was never interrupted."""
    asked: dict[bool, list[Any]] = {}
    for dies in (False, True):
        path, pages = tmp_path / f"{dies}.db", list[int]()

        @tool("notes.page", effect="read")
        def page(page: int, dies: bool = dies, pages: list[int] = pages) -> str:
            """Read a page."""
            pages.append(page)
            if dies and pages == [0, 1]:
                raise Lost
            return f"page {page} " + "x" * 500

        model = Heard(reads(4))
        limits = Limits(max_steps=20)
        with Engine(model, [page], path, limits=limits, builtins=False) as engine:
            try:
                run_id = engine.run("Read").run_id
            except Lost:
                run_id = engine.journal.runs()[0].run_id
        if dies:
            model.calls += (again := Heard(reads(4))).calls
            with Engine(again, [page], path, limits=limits, builtins=False) as engine:
                assert engine.resume(run_id).state == "Done"
                checked(engine, run_id)
            model.calls += again.calls
        asked[dies] = [flat(call) for call in model.calls]
        with Journal(path, read_only=True) as journal:
            asked[dies].append([(row.request, row.change["n"]) for row in journal.transitions(run_id)])
    assert asked[True][:-1] == asked[False][:-1]
    kinds = [[without_digests(request) for request, _ in asked[dies][-1]] for dies in (True, False)]
    assert kinds[0] == kinds[1]


def without_digests(request: Mapping[str, Any]) -> Any:
    """Return a row's request without salted digests."""
    return json.loads(
        json.dumps(dict(request)),
        object_hook=lambda data: {key: data[key] for key in data if key != "digest"},
    )


def test_a_row_names_its_new_messages_alone_and_each_is_made_once() -> None:
    """However long the conversation is: neither bytes of a row nor the work for a request grow with it."""
    model, limits = Heard(reads(40)), Limits(max_steps=60, context_tokens=128_000)
    page = scripted_tool("notes.page", ["x" * 50] * 99, effect="read")
    with Engine(model, [page], ":memory:", limits=limits, builtins=False) as engine:
        rows = [
            row
            for row in engine.journal.transitions(engine.run("Read").run_id)
            if row.request["kind"] == "turn"
        ]
    assert [len(row.request["prompt"]) for row in rows[1:]] == [2] * (len(rows) - 1)
    assert {row.request["roles"] for row in rows[1:]} == {"at"}
    assert [row.request["after"][1] for row in rows[1:]] == [2 * at for at in range(1, len(rows))]
    asked = itertools.pairwise(call.messages for call in model.calls)
    assert all(old is new for before, after in asked for old, new in zip(before, after, strict=False))


def test_small_documents_stand_in_the_first_prompt_and_large_ones_do_not() -> None:
    """Whole and under their labels: a question on a small one is one request."""
    model = Heard(["It is 7.", "It is 7."])
    with Engine(model, [], ":memory:", limits=Limits(context_tokens=8_000)) as engine:
        result = engine.run(
            "What is it?", documents=[("a.txt", "It is 7."), ("b.md", "y" * 9_000), ("c.bin", b"\x00\xff")]
        )
        checked(engine, result.run_id)
    task = model.calls[0].messages[-1].text
    label = "docItem:round1_task1_action0_input"
    assert len(model.calls) == 1 and f"{label}#0 a.txt" in task and "<<<document a.txt\nIt is 7.\n>>>" in task
    assert f"{label}#1 b.md" in task and "yyy" not in task and f"{label}#2 c.bin" in task


BODIES: dict[str, tuple[str, bytes, bool]] = {
    "plain": ("a.txt", "Größe 5 €".encode(), True),
    "html": ("a.html", "<p>Größe 5 €</p>".encode(), True),
    "tsv": ("a.tsv", "Größe\t5 €".encode(), True),
    "json": ("a.json", '{"Größe": "5 €"}'.encode(), True),
    "unknown": ("a", "Größe 5 €".encode(), True),
    "cp1252": ("a.txt", "Größe 5 €".encode("cp1252"), False),
    "utf-16": ("a.txt", "Größe 5 €".encode("utf-16-le"), False),
    "wide ascii": ("a.csv", "size,5".encode("utf-16-le"), False),
    "latin-1": ("a.csv", "Größe,5".encode("latin-1"), False),
    "pdf": ("a.txt", b"%PDF-1.4 size 5", False),
}
"""Name and bytes of a document, and whether it can be read as it is."""


@pytest.mark.parametrize("name", BODIES)
def test_what_is_text_is_decided_by_the_bytes(name: str) -> None:
    """Of an input it is in the prompt, or a tool is offered that reads it; of a result it is shown, at any place, and never called erased."""
    file, body, is_text = BODIES[name]
    documents = [Document(f"{number}{file}", body) for number in range(7)]

    @tool("notes.page", effect="read")
    def page() -> Any:
        """Return documents as bytes."""
        return documents

    model = Heard([call_tools(step("notes.page")), "5."])
    with Engine(model, [page], ":memory:") as engine:
        result = engine.run("How large?", documents=[(file, body)])
        checked(engine, result.run_id)
    first, last = model.calls[0], model.calls[1].messages[-1].text
    text = body.decode("utf-8", "replace")
    assert (text in first.messages[-1].text) is is_text
    assert ("document_extract" in [offered.name for offered in first.tools]) is not is_text
    assert last.count(text) == (7 if is_text else 0) and last.count("bytes, not text") == (
        0 if is_text else 7
    )
    assert "(erased)" not in last


@pytest.mark.parametrize(("mails", "pages"), [(1, 6), (3, 4)])
def test_what_an_effect_has_brought_is_shortened_last_and_keeps_its_end(mails: int, pages: int) -> None:
    """A receipt can be read after a cut, and nothing tells the model to do it again."""
    sent = [f"Sent {number}. " + "log line " * 300 + f"receipt R-{number}" for number in range(mails)]
    mail = scripted_tool("mail.send", sent, effect="once")
    page = scripted_tool("notes.page", ["x" * 3_000] * pages, effect="read")
    model = Heard([*(call_tools(step("mail.send", to=number)) for number in range(mails)), *reads(pages)])
    limits = Limits(max_steps=20, context_tokens=8_000)
    with Engine(model, [mail, page], ":memory:", limits=limits, builtins=False) as engine:
        result = engine.run("Write, and read")
        checked(engine, result.run_id)
    last = [item.text for item in model.calls[-1].messages if item.role == "tool"][:mails]
    assert not all(begins_as_before(model.calls)), "it was cut"
    assert all(f"receipt R-{number}" in text for number, text in enumerate(last))
    assert not any("call again" in text for text in last)
    assert [len(text) > 2_700 for text in last] == ([True] if mails == 1 else [False] * 3)


def test_a_cut_counts_what_it_has_changed() -> None:
    """Neither a result that its summary would not shorten, nor a message without one; what changes nothing is no cut."""
    rows = Limits(max_steps=100, context_tokens=4_000)
    model = Heard(reads(40))
    page = scripted_tool("notes.page", ["x" * 2_000, "y" * 20] * 30, effect="read")
    with Engine(model, [page], ":memory:", limits=rows, builtins=False) as engine:
        result = engine.run("Read")
        checked(engine, result.run_id)
        cuts = [
            row.outcome["cut"] for row in engine.journal.transitions(result.run_id) if "cut" in row.outcome
        ]
    asked = [[item.text for item in call.messages] for call in model.calls]
    changed = [(a, b) for a, b in itertools.pairwise(asked) if b[: len(a)] != a]
    assert len(cuts) == len(changed)
    for (before, after), (dropped, shortened) in zip(changed, cuts, strict=True):
        assert dropped + shortened > 0
        assert len(before) + 2 - len(after) == dropped
        kept = zip((before + after[-2:])[2 + dropped :], after[2:], strict=True)
        assert sum(one != other for one, other in kept) == shortened


def test_what_a_user_answers_and_a_review_asks_for_are_items_too() -> None:
    """A planner's question with its answer; improvements; the review itself stands behind the conversation and leaves nothing in it."""
    plan = {"steps": [{"type": "tool", "name": "notes.page", "args": {"page": 1}}]}
    retry = {"status": "retry", "improvements": ["read page 2"], "criteria": []}
    done = {
        "status": "success",
        "improvements": [],
        "answer": "Read.",
        "criteria": [{"criterion": "all", "met": True}],
    }
    ask = {"elicitation": {"message": "Which page?"}}
    model = Heard([ask, plan, {"steps": []}, retry, plan, {"steps": []}, done])
    page = scripted_tool("notes.page", ["page one"] * 9, effect="read")
    with Engine(model, [page], ":memory:", builtins=False) as engine:
        waiting = engine.run("Read", ["all"], mode="planner")
        result = engine.resume(waiting.run_id, answer="page 1")
        assert result.state == "Done"
        checked(engine, result.run_id)
    plans = [call for call in model.calls if call.kind == "plan"]
    assert all(begins_as_before(plans))
    texts = [item.text for item in plans[-1].messages]
    assert "page 1" in texts and "That is not enough yet.\n- read page 2" in texts
    judged = next(call for call in model.calls if call.kind == "review")
    assert flat(judged)[:-1] == flat(plans[3])[: len(judged.messages) - 1]
    assert judged.stable == len(judged.messages) - 1


def test_erased_results_leave_the_replay_unchecked_and_never_wrong(tmp_path: Path) -> None:
    """What stood in prompts is gone with the document, since it is stored once."""
    model, path = Heard(reads(2)), tmp_path / "runs.db"
    page = scripted_tool("notes.page", ["a secret of somebody"] * 9, effect="read")
    with Engine(model, [page], path, builtins=False) as engine:
        result = engine.run("Read")
        engine.journal.erase(result.run_id, documents=[0, 1])
        found = replay(engine.journal, result.run_id)
        assert found.divergences == () and found.unchecked and engine.journal.verify() == []
    assert b"a secret of somebody" not in path.read_bytes()


def test_a_host_s_own_phase_asks_within_the_conversation() -> None:
    """Its question and the reply are items: the model that goes on has read them."""
    from paor import Machine, Phase

    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    doubting = Phase("Doubting", prompt="Are you sure of it?\n\n{{KEY:REPLY}}", reply=schema)
    machine = Machine.standard().phase(doubting)
    machine = machine.row(
        "Reviewing", "doubt", "Doubting", when=("review_success",), before="finish", at_most=1
    )
    machine = machine.row("Doubting", "again", "Planning", when=("succeeded",), at_most=2)
    machine = machine.row("Doubting", "give_up", "Failed")
    model = Heard(["First.", '{"sure": false}', "Second."])
    with Engine(model, [], ":memory:", machine=machine, builtins=False) as engine:
        result = engine.run("Say it")
        assert (result.state, result.answer) == ("Done", "Second.")
        checked(engine, result.run_id)
    texts = [(item.role, item.text.partition("\n")[0]) for item in model.calls[-1].messages[2:]]
    assert texts[:3] == [
        ("assistant", "First."),
        ("user", "Are you sure of it?"),
        ("assistant", '{"sure": false}'),
    ]
    assert texts[3:4] == [("user", 'Doubting: {"sure": false}')]
    assert all(begins_as_before(model.calls))


@pytest.mark.parametrize("value", [{"sure": "yes"}, {"name": "Smith", "arguments": "for and against"}])
def test_what_a_first_phase_came_to_is_told_without_a_reproach(value: dict[str, Any]) -> None:
    """Its reply is in the conversation as it came, also one that looks like a call."""
    from paor import Machine, Phase

    schema = {"type": "object", "properties": {name: {"type": "string"} for name in value}}
    sorting = Phase("Sorting", prompt="Which is it?\n\n{{KEY:REPLY}}", reply=schema)
    machine = Machine.standard().phase(sorting, initial=True).row("Sorting", "begin", "Planning")
    model = Heard([json.dumps(value), "Hello."])
    with Engine(model, [], ":memory:", machine=machine, builtins=False) as engine:
        result = engine.run("Say hello")
        assert (result.state, result.answer) == ("Done", "Hello.")
        checked(engine, result.run_id)
    *_, reply, told = model.calls[-1].messages
    assert (reply.role, json.loads(reply.text)) == ("assistant", value)
    assert told.text == f"Sorting: {json.dumps(value, sort_keys=True)}\nGo on."
    assert all(begins_as_before(model.calls))


CALLED = {"id": "c1", "type": "function", "function": {"name": "notes.page", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        ({"role": "assistant", "content": None, "tool_calls": [CALLED]}, "tool_calls"),
        ({"name": "notes.page", "arguments": {}}, "stop"),
        ({"role": "assistant", "content": None, "tool_calls": [CALLED | {"function": {}}]}, "tool_calls"),
        ({"steps": [{"name": "notes.page", "args": {}}]}, "stop"),
    ],
)
def test_a_planner_reads_its_own_turn_whatever_its_form(said: dict[str, Any], finish: Any) -> None:
    """Also calls that no tool of a provider was offered for, accepted or not; no provider is given calls without results."""
    turn = json.dumps(said)
    model = Heard([Reply(turn, finish=finish, parts=(said,), api="chat"), "Done."])
    with Engine(model, [PAGE], ":memory:", builtins=False) as engine:
        result = engine.run("Read", mode="planner")
        checked(engine, result.run_id)
    reply = model.calls[-1].messages[2]
    assert (reply.role, reply.text) == ("assistant", turn)
    assert reply.calls == () and not any("tool_calls" in part for part in reply.parts)


def test_native_calls_of_an_earlier_version_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their prompts were reports; they verify, and are neither replayed nor continued by other rules."""
    path = tmp_path / "runs.db"
    with Engine(Heard(["Read."]), [], path, builtins=False) as engine:
        run_id = engine.run("Read").run_id
        monkeypatch.setattr(Spec, "is_outdated", property(lambda spec: spec.native))
        with pytest.raises(JournalTooOld, match="recorded by an earlier version of paor"):
            replay(engine.journal, run_id)
        with pytest.raises(JournalTooOld):
            engine.run("Read")
        assert engine.journal.verify() == []
    assert main(["replay", run_id, "--journal", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") <= 3
