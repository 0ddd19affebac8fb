"""What a journal says of conversations, what an erasure takes from them, and how they move to another file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal
from paor.cli import main
from paor.errors import JournalConflict, UnknownConversation, UsageError
from paor.testing import walk

from ..support.inside import line_bytes
from .talk import Clerk, desk, holds
from .test_rounds import MODES

SECRET = "my cat is called Mephistopheles of Leeds"
pytestmark = pytest.mark.filterwarnings("ignore:mode='batch'")


def talk(host: Engine, *words: str, **options: Any) -> list[str]:
    """Start a round for each of *words* and return the runs."""
    return [host.run(word, conversation="c", **options).run_id for word in words]


def test_a_conversation_is_read(tmp_path: Path) -> None:
    """Its rounds, oldest first; who said what, in which of them, and when; what all have used."""
    with desk(tmp_path / "runs.db") as host:
        runs = talk(host, "find O-1", "Say b")
        host.run("Say none")
        found = host.journal.conversation("c")
        assert (found.id, [row.run_id for row in found.runs]) == ("c", runs)
        first, second = found.runs
        assert [(item.role, item.text, item.run_id, item.at) for item in found.messages] == [
            ("user", "find O-1", runs[0], first.created_at),
            ("assistant", "Found: Order O-1 is in Leeds.", runs[0], first.ended_at),
            ("user", "Say b", runs[1], second.created_at),
            ("assistant", "You said: Say b", runs[1], second.ended_at),
        ]
        used = [host.result(run).usage for run in runs]
        assert found.usage == used[0] + used[1] and found.usage.calls == 3
        assert [row.objective for row in host.journal.runs()] == ["Say none", "Say b", "find O-1"]
        assert host.journal.run(runs[0]).conversation == "c"
        unknown: Any
        for unknown in ("d", "", None, 5):
            with pytest.raises(UnknownConversation):
                host.journal.conversation(unknown)


def test_what_a_round_is_told_is_shown_message_by_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However it is stored: by `paor show`, and by what tests read."""
    path = tmp_path / "runs.db"
    with desk(path, model := Clerk()) as host:
        last = talk(host, "find O-1", "Say b", "Say c")[-1]
        sent = [(message.role, message.body) for message in model.calls[-1].messages]
        assert len(sent) == 8 and ("tool", "Order O-1 is in Leeds.") in sent
        assert walk(host.journal, last).asked[0].prompt == "\n\n".join(text for _, text in sent)
    assert main(["show", last, "--row", "0", "--json", "--journal", str(path)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(zip(told["roles"], told["prompt"], strict=True)) == sent


def test_conversations_are_listed_as_runs_are(tmp_path: Path) -> None:
    """The one with the newest round first."""
    with desk(tmp_path / "runs.db") as host:
        for name, tenant in (("a", 1), ("b", 1), ("c", 2), ("a", 2)):
            host.run("Say", conversation=name, metadata={"tenant": tenant})

        def names(**wanted: Any) -> list[str]:
            return [found.id for found in host.journal.conversations(**wanted)]

        assert names() == ["a", "c", "b"] and names(limit=1) == ["a"]
        assert names(metadata={"tenant": 1}) == ["b", "a"] and names(status="failed") == []
        assert [row.round for row in host.journal.runs(conversation="a")] == [2, 1]
        for wrong in ({"limit": 0}, {"status": "asleep"}):
            with pytest.raises(UsageError):
                names(**wrong)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_erased_of_a_round_is_erased_in_the_rounds_after(mode: str, tmp_path: Path) -> None:
    """They still verify; a replay says what was erased; the next round is told of it no more, and the file holds it no more."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        first, *others = talk(host, f"Say {SECRET}", "Say b", "Say c", **MODES[mode])
        with pytest.raises(UsageError, match="are told of it"):
            host.journal.erase(first)
        done = host.journal.erase(first, others="erase")
        assert set(done.erased) == {first, *others} and done.scrubbed
        holds(host.journal)
        assert SECRET.encode() not in (tmp_path / "runs.db").read_bytes()
        assert [row.run_id for row in host.journal.conversation("c").runs] == others
        assert [item.text for item in host.journal.conversation("c").messages][::2] == ["Say b", "Say c"]
        talk(host, "Say d", **MODES[mode])
        told = model.told()
        assert "Say b" in told and "Say c" in told and SECRET not in told and "(erased)" not in told
        holds(host.journal)
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        assert journal.verify() == []


def test_what_a_later_round_said_itself_stays(tmp_path: Path) -> None:
    """Though it is the same to the letter: nothing that it has said shares a payload with what it was told."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        first, second, third = talk(host, "Say same", "Say same", "Say c")
        host.journal.erase(first, others="erase")
        holds(host.journal)
        assert [item.text for item in host.journal.conversation("c").messages] == [
            *("Say same", "You said: Say same"),
            *("Say c", "You said: Say c"),
        ]
        assert host.result(second).answer == "You said: Say same"
        talk(host, "Say d")
        assert model.told().count("You said: Say same") == 1
        del third


def test_a_kept_copy_is_named(tmp_path: Path) -> None:
    """Where only the round itself is erased, the result names the rounds that still hold text of it."""
    with desk(tmp_path / "runs.db") as host:
        first, *others = talk(host, "Say a", "Say b")
        assert host.journal.erase(first, others="keep").kept == tuple(others)
        holds(host.journal)


def test_documents_of_an_erased_round_go_from_the_later_ones(tmp_path: Path) -> None:
    """Those that they go on with."""
    with desk(tmp_path / "runs.db") as host:
        first = host.run("Say a", conversation="c", documents=[("cat.txt", SECRET)]).run_id
        talk(host, "Say b")
        host.journal.erase(first, others="erase")
        holds(host.journal)
    assert SECRET.encode() not in (tmp_path / "runs.db").read_bytes()


def test_a_conversation_moves_as_a_whole_and_goes_on_there(tmp_path: Path) -> None:
    """In any order of its runs; where another run has its place in the conversation, it is a conflict."""
    with desk(tmp_path / "runs.db") as host:
        talk(host, "Say a", "Say b")
        lines = [line_bytes(line) for line in host.journal.export(conversation="c")]
        backwards = [
            line_bytes(line)
            for row in host.journal.runs(conversation="c")
            for line in host.journal.export(row.run_id)
        ]
    for name, given in (("one", lines), ("two", backwards)):
        with desk(tmp_path / f"{name}.db", model := Clerk()) as host:
            host.journal.import_lines(given)
            talk(host, "Say c")
            assert "Say a" in model.told() and "Say b" in model.told()
            assert [row.round for row in host.journal.conversation("c").runs] == [1, 2, 3]
            holds(host.journal)
    with desk(tmp_path / "three.db") as host:
        talk(host, "Say other")
        with pytest.raises(JournalConflict, match="is round 1 of conversation 'c'"):
            host.journal.import_lines(lines)
        assert len(host.journal.runs()) == 1


def test_the_command_line_knows_conversations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Started, continued, branched off, listed, exported and erased."""
    path = str(tmp_path / "runs.db")
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"action": None, "answer": f"Answer {number}"} for number in range(9)]))

    def paor(*words: str) -> Any:
        code = main([*words, "--journal", path])
        return code, capsys.readouterr()

    def started(*words: str) -> dict[str, Any]:
        code, out = paor("run", *words, "--model", f"script:{script}", "--json")
        assert code == 0, out.err
        found: dict[str, Any] = json.loads(out.out)
        return found

    one, two = started("Say a", "--conversation", "c"), started("Say b", "--conversation", "c")
    branch = started("Say x", "--conversation", "d", "--after", one["run_id"][:18])
    assert [found["answer"] for found in (one, two, branch)] == ["Answer 0", "Answer 1", "Answer 1"]
    assert (two["objective"], two["conversation"]) == ("Say b", "c")
    _, out = paor("runs", "--conversation", "c", "--json")
    assert [row["objective"] for row in json.loads(out.out)] == ["Say b", "Say a"]
    code, out = paor("export", "--conversation", "c", "--output", str(tmp_path / "c.jsonl"))
    assert code == 0
    with Journal(tmp_path / "other.db") as other, (tmp_path / "c.jsonl").open("rb") as lines:
        assert len(other.import_lines(lines)) == 2
    code, out = paor("runs", "--conversation", "nobody")
    assert code == 0 and "no such run" in out.err
    code, out = paor("erase", "--conversation", "c", "--others", "erase")
    assert code == 0, out.err
    _, out = paor("runs", "--json")
    assert [row["conversation"] for row in json.loads(out.out)] == ["d", None, None]
    code, out = paor("verify")
    assert code == 0
