"""Approvals with other arguments: the tool gets exactly what a person has approved, or the question stays open and nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from pydantic import Field, SecretStr

from paor import (
    ApprovalRule,
    Engine,
    Limits,
    ModelCall,
    Policy,
    Result,
    ScriptedModel,
    Tool,
    ToolContext,
    replay,
    tool,
)
from paor.errors import InvalidAnswer, RunChanged
from paor.testing import call, call_tools, plan, refine, review, step

LARGE = ApprovalRule(tool="orders.refund", arguments={"amount": {"gt": 100}})
ASKED = {"order_id": "O-1", "amount": 250}


class World:
    """One journal, one tool that pays, and what it was called with."""

    def __init__(self, folder: Path, replies: list[Any], **options: Any) -> None:
        self.made: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.prompts: list[str] = []
        options.setdefault("policy", Policy(approvals=(LARGE,)))

        @tool("orders.refund", effect="once")
        def refund(order_id: str, amount: Annotated[int, Field(ge=1)], note: str = "sorry") -> str:
            """Pay money back."""
            self.made.append({"order_id": order_id, "amount": amount, "note": note})
            return f"{amount} paid"

        world = self

        class Model(ScriptedModel):
            def ask(self, call: ModelCall) -> Any:
                world.prompts.append("\n".join(message.text for message in call.messages))
                return super().ask(call)

        self.engine = Engine(
            Model(replies), tools=[refund, *options.pop("more", ())], journal=folder / "runs.db", **options
        )

    def ask(self, **options: Any) -> Result:
        """Start a run that asks, and return its result."""
        result = self.engine.run("Pay O-1 back", **options)
        assert result.status == "waiting" and result.waiting_for is not None
        return result


def replies(*more: Any) -> list[Any]:
    return [*call("orders.refund", **ASKED), *more, refine("stop", answer="It was paid.")]


def _resume(own: Engine, asked: Result, answer: Any) -> Result:
    return own.resume(asked.run_id, answer=answer, actor="ann")


def _aresume(own: Engine, asked: Result, answer: Any) -> Result:
    return asyncio.run(own.aresume(asked.run_id, answer=answer, actor="ann"))


def _answer(own: Engine, asked: Result, answer: Any) -> Result:
    assert asked.waiting_for is not None
    own.answer(asked.run_id, question=asked.waiting_for.id, answer=answer, actor="ann")
    return own.resume(asked.run_id)


def _enveloped(own: Engine, asked: Result, answer: Any) -> Result:
    return own.resume(asked.run_id, answer={"action": "accept", "content": answer}, actor="ann")


WAYS = pytest.mark.parametrize("way", [_resume, _aresume, _answer, _enveloped])


@WAYS
def test_the_tool_gets_what_was_approved_and_the_journal_has_all_three(
    tmp_path: Path, way: Callable[..., Result]
) -> None:
    """What was asked, what was approved, by whom; the model reads that they were changed."""
    world = World(tmp_path, replies())
    with world.engine as own:
        asked = world.ask()
        changed = {"order_id": "O-1", "amount": 120}
        result = way(own, asked, {"approve": True, "arguments": changed})
        assert (result.state, world.made) == ("Done", [changed | {"note": "sorry"}])
        (made,) = own.journal.calls(asked.run_id)
        assert (dict(made.asked or {}), dict(made.arguments or {})) == (ASKED, changed)
        assert [(item.decision, item.actor) for item in made.decided] == [("approved", "ann")]
        assert "changed its arguments; it was made with 'amount' 120" in world.prompts[-1]
        assert replay(own.journal, asked.run_id).identical and not own.journal.verify()


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ([call_tools(step("orders.refund", **ASKED)), "It was paid."], {"profile": "native"}),
        (
            [plan(step("orders.refund", **ASKED)), plan(), review("success", answer="Paid.")],
            {"mode": "planner"},
        ),
        (replies(), {"profile": "strict"}),
    ],
    ids=["native", "planner", "strict"],
)
def test_in_every_mode_the_model_reads_that_a_person_has_changed_the_call(
    tmp_path: Path, script: list[Any], options: dict[str, Any]
) -> None:
    world = World(tmp_path, script)
    with world.engine as own:
        asked = world.ask(**options)
        result = own.resume(asked.run_id, answer={"approve": True, "arguments": ASKED | {"amount": 1}})
        assert result.state == "Done" and [made["amount"] for made in world.made] == [1]
        assert "the person who approved this call changed its arguments" in world.prompts[-1]
        assert replay(own.journal, asked.run_id).identical


def test_the_same_arguments_are_the_same_call(tmp_path: Path) -> None:
    """With the defaults written out, as the question shows them, or without: nobody has changed anything, and the model is told nothing."""
    for number, same in enumerate((ASKED, ASKED | {"note": "sorry"}, {"amount": 250, "order_id": "O-1"})):
        (folder := tmp_path / str(number)).mkdir()
        world = World(folder, replies())
        with world.engine as own:
            asked = world.ask()
            assert own.resume(asked.run_id, answer={"approve": True, "arguments": same}).state == "Done"
            assert world.made == [ASKED | {"note": "sorry"}]
            (made,) = own.journal.calls(asked.run_id)
            assert made.asked is None and "changed its arguments" not in world.prompts[-1]


WRONG: list[tuple[Any, str]] = [
    ({"order_id": "O-1", "amount": "many"}, "amount"),
    ({"order_id": "O-1", "amount": 0}, "amount"),
    ({"amount": 5}, "order_id"),
    ({"order_id": "O-1", "amount": 5, "to": "me"}, "to"),
    ([], "arguments"),
    ("O-1", "arguments"),
    (None, "arguments"),
]


@WAYS
@pytest.mark.parametrize(("arguments", "named"), WRONG, ids=str)
def test_arguments_that_do_not_fit_the_tool_leave_the_question_open(
    tmp_path: Path, way: Callable[..., Result], arguments: Any, named: str
) -> None:
    """One line that names the argument; no row, no call, and the right answer counts afterwards."""
    world = World(tmp_path, replies())
    with world.engine as own:
        asked = world.ask()
        rows = len(own.journal.transitions(asked.run_id))
        with pytest.raises(InvalidAnswer, match=named) as raised:
            way(own, asked, {"approve": True, "arguments": arguments})
        assert "\n" not in str(raised.value)
        still = own.result(asked.run_id)
        assert (still.waiting_for, len(own.journal.transitions(asked.run_id))) == (asked.waiting_for, rows)
        assert way(own, asked, {"approve": True}).state == "Done" and world.made == [
            ASKED | {"note": "sorry"}
        ]


def test_a_denial_has_no_arguments(tmp_path: Path) -> None:
    """It would be a call that nobody has allowed."""
    world = World(tmp_path, replies())
    with world.engine as own:
        asked = world.ask()
        with pytest.raises(InvalidAnswer, match="a call that is denied has none"):
            own.resume(asked.run_id, answer={"approve": False, "arguments": ASKED})
        assert own.result(asked.run_id).waiting_for == asked.waiting_for and not world.made


@tool("web.get", effect="read")
def get(url: str) -> str:
    """Get a page."""
    return f"page of {url}"


def test_a_safety_rule_of_the_policy_is_asked_about_the_changed_arguments(tmp_path: Path) -> None:
    """A person may not approve what no model may call."""
    script = [*call("web.get", url="https://example.org/a"), refine("stop", answer="Read.")]
    world = World(tmp_path, script, more=[get], policy=Policy(approvals=("web.get",)))
    with world.engine as own:
        asked = world.ask()
        for url in ("http://127.0.0.1/admin", "file:///etc/passwd"):
            with pytest.raises(InvalidAnswer, match="cannot be approved with these arguments"):
                own.resume(asked.run_id, answer={"approve": True, "arguments": {"url": url}})
        assert own.result(asked.run_id).waiting_for == asked.waiting_for
        good = {"approve": True, "arguments": {"url": "https://example.org/b"}}
        assert own.resume(asked.run_id, answer=good).state == "Done"


def test_an_approval_cannot_name_a_connection_that_the_run_does_not_have(tmp_path: Path) -> None:
    """One that it has is used, with its own object."""
    used: list[Any] = []

    @tool("mail.send", effect="once")
    def send(to: str, connectionReference: str, context: ToolContext) -> str:
        """Send a mail."""
        used.append((to, connectionReference, context.connection))
        return "sent"

    asked_for = {"to": "ann", "connectionReference": "office"}
    script = [call_tools(step("mail.send", **asked_for)), "Sent."]
    world = World(tmp_path, script, more=[send], policy=Policy(approvals=("mail.send",)))
    boxes = {"office": "box 1", "private": "box 2"}
    with world.engine as own:
        asked = world.ask(profile="native", connections=boxes)
        rows = len(own.journal.transitions(asked.run_id))
        for wrong in ("nobody's", "", "OFFICE", 7, None):
            changed = asked_for | {"connectionReference": wrong}
            with pytest.raises(InvalidAnswer):
                own.resume(asked.run_id, answer={"approve": True, "arguments": changed}, connections=boxes)
        assert own.result(asked.run_id).waiting_for == asked.waiting_for
        assert (used, len(own.journal.transitions(asked.run_id))) == ([], rows)
        given = {"approve": True, "arguments": asked_for | {"connectionReference": "private"}}
        assert own.resume(asked.run_id, answer=given, connections=boxes).state == "Done"
        assert used == [("ann", "private", "box 2")] and not own.journal.verify()


def test_an_approval_cannot_name_a_file_outside_of_the_policys_folders(tmp_path: Path) -> None:
    """What the path says is refused with the answer; a link that leads outside right before the call, which is not made."""
    (root := tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("s")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "a").write_text("a")
    kept: list[str] = []

    @tool("files.keep", effect="once")
    def keep(path: str) -> str:
        """Keep a file."""
        kept.append(path)
        return "kept"

    script = [*call("files.keep", path=str(root / "a")), refine("stop", answer="Kept.")]
    policy = Policy(approvals=("files.keep",), file_roots=(str(root),))
    world = World(tmp_path, script, more=[keep], policy=policy)
    with world.engine as own:
        asked = world.ask()
        for path in (tmp_path / "secret", root / ".." / "secret", "../secret", f"{root}x/a", "~/a"):
            with pytest.raises(InvalidAnswer, match="argument path"):
                own.resume(asked.run_id, answer={"approve": True, "arguments": {"path": str(path)}})
        assert own.result(asked.run_id).waiting_for == asked.waiting_for
        own.resume(asked.run_id, answer={"approve": True, "arguments": {"path": str(root / "link")}})
        (row,) = (row for row in own.journal.transitions(asked.run_id) if row.trigger == "execute")
        assert (kept, row.outcome["error"]) == ([], "unsafe_parameters") and not own.journal.verify()


@pytest.mark.parametrize("changed", [False, True], ids=["as asked", "other arguments"])
@pytest.mark.parametrize("first", ["answered before", "answered by the other"])
def test_a_policy_that_denies_the_call_meanwhile_lets_no_approval_through(
    tmp_path: Path, first: str, changed: bool
) -> None:
    """The engine that takes the run up refuses the change, and nothing is written; where the change is accepted, the call is denied."""
    answer: dict[str, Any] = {"approve": True}
    answer |= {"arguments": ASKED | {"amount": 5}} if changed else {}
    with World(tmp_path, replies()).engine as own:
        asked = own.run("Pay O-1 back")
        assert asked.waiting_for is not None
        if first == "answered before":
            own.answer(asked.run_id, question=asked.waiting_for.id, answer=answer)
    options: dict[str, Any] = {"answer": answer} if first == "answered by the other" else {}
    script = [*replies(), refine("stop", answer="It was not paid.")]
    other = World(tmp_path, script, policy=Policy(approvals=(LARGE,), deny=("orders.refund",)))
    with other.engine as own:
        rows = own.journal.transitions(asked.run_id)
        with pytest.raises(RunChanged, match="policy"):
            own.resume(asked.run_id, **options)
        assert own.journal.transitions(asked.run_id) == rows
        if changed and options:  # the answer itself is refused, and the question stays open
            with pytest.raises(InvalidAnswer, match="denied by policy"):
                own.resume(asked.run_id, accept_changes=True, **options)
            options = {"answer": {"approve": True}}
        own.resume(asked.run_id, accept_changes=True, **options)
        triggers = [row.trigger for row in own.journal.transitions(asked.run_id)]
        assert other.made == [] and "execute" not in triggers and not own.journal.verify()


def test_an_approval_rule_of_the_changed_arguments_is_settled_by_the_same_answer(tmp_path: Path) -> None:
    """Whoever approves 900 instead of 250 has approved 900; and no smaller amount is asked about again."""
    for number, amount in enumerate((900, 5)):
        (folder := tmp_path / str(number)).mkdir()
        world = World(folder, replies())
        with world.engine as own:
            asked = world.ask()
            result = own.resume(
                asked.run_id, answer={"approve": True, "arguments": ASKED | {"amount": amount}}
            )
            assert result.state == "Done" and [made["amount"] for made in world.made] == [amount]


def test_a_call_that_was_made_before_is_not_approved_a_second_time(tmp_path: Path) -> None:
    """The guard against duplicates looks at the approved arguments, and its key is theirs."""
    first = call("orders.refund", order_id="O-1", amount=50)
    world = World(tmp_path, [*first, refine("continue"), *replies(), refine("stop", answer="Paid.")])
    with world.engine as own:
        asked = world.ask()
        again = {"approve": True, "arguments": {"order_id": "O-1", "amount": 50}}
        with pytest.raises(InvalidAnswer, match="the same call was made before"):
            own.resume(asked.run_id, answer=again)
        own.resume(asked.run_id, answer={"approve": True, "arguments": {"order_id": "O-1", "amount": 60}})
        assert [made["amount"] for made in world.made] == [50, 60]
        rows = [row for row in own.journal.transitions(asked.run_id) if row.trigger == "execute"]
        assert len({row.outcome["key"] for row in rows}) == 2


def test_an_approval_that_came_too_late_changes_nothing(tmp_path: Path) -> None:
    """It counts for nothing, and so do its arguments: the call is asked about as the model has made it."""
    world = World(tmp_path, replies(), policy=Policy(approvals=(LARGE,), approval_valid_s=1e-6))
    with world.engine as own:
        asked = world.ask()
        again = own.resume(asked.run_id, answer={"approve": True, "arguments": ASKED | {"amount": 1}})
        assert again.status == "waiting" and not world.made
        assert again.waiting_for is not None and dict(again.waiting_for.arguments or {})["amount"] == 250


@tool("door.open", effect="once")
def open_door(door: str, code: SecretStr) -> str:
    """Open a door."""
    return f"{door} is open"


def test_a_secret_of_the_call_cannot_be_changed(tmp_path: Path) -> None:
    """What stands for it in the question may be sent back as it is; a value would be in the journal."""
    script = [*call("door.open", door="A", code="(none)"), refine("stop", answer="Open.")]
    world = World(tmp_path, script, more=[open_door], policy=Policy(approvals=("door.open",)))
    with world.engine as own:
        asked = world.ask()
        with pytest.raises(InvalidAnswer, match="is a secret, which an approval cannot change"):
            own.resume(asked.run_id, answer={"approve": True, "arguments": {"door": "A", "code": "1234"}})
        same = {"door": "B", "code": "(none)"}
        assert own.resume(asked.run_id, answer={"approve": True, "arguments": same}).state == "Done"


def test_a_key_in_approved_arguments_is_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be in the journal, and the tool would get what stands for it there."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-live-0123456789abcdef0123456789abcdef")
    world = World(tmp_path, replies())
    with world.engine as own:
        asked = world.ask()
        given = ASKED | {"note": "sk-live-0123456789abcdef0123456789abcdef"}
        with pytest.raises(InvalidAnswer, match="an argument holds a key"):
            own.resume(asked.run_id, answer={"approve": True, "arguments": given})
        assert own.result(asked.run_id).waiting_for == asked.waiting_for


def test_the_schema_of_the_question_says_what_may_be_changed(tmp_path: Path) -> None:
    """A form can be built from it, of types with definitions, too."""

    def nested(whom: dict[str, Any]) -> str:
        return "done"

    person = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    parameters = {
        "type": "object",
        "properties": {"whom": {"$ref": "#/$defs/Person"}},
        "required": ["whom"],
        "$defs": {"Person": person},
    }
    own_tool = Tool("people.greet", "Greet.", parameters, nested, effect="read")
    script = [*call("people.greet", whom={"age": 3}), refine("stop", answer="Done.")]
    world = World(tmp_path, script, more=[own_tool], policy=Policy(approvals=("people.greet",)))
    with world.engine as own:
        asked = world.ask()
        assert asked.waiting_for is not None
        fits = Draft202012Validator(dict(asked.waiting_for.schema)).is_valid
        assert fits({"approve": True}) and fits({"approve": True, "arguments": {"whom": {"age": 4}}})
        assert not fits({"approve": True, "arguments": {"whom": {"age": "four"}}})
        with pytest.raises(InvalidAnswer, match="age"):
            own.resume(asked.run_id, answer={"approve": True, "arguments": {"whom": {"age": "four"}}})
        assert (
            own.resume(asked.run_id, answer={"approve": True, "arguments": {"whom": {"age": 4}}}).state
            == "Done"
        )


VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-2, 300) | st.text(max_size=3) | st.floats(-2, 300) | st.just([])
)


@given(
    arguments=st.dictionaries(st.sampled_from(["order_id", "amount", "note", "other"]), VALUES) | VALUES,
    approve=st.booleans(),
)
def test_whatever_is_said_either_exactly_that_is_called_or_the_question_stays_open(
    arguments: Any, approve: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing is guessed, dropped or mended on the way."""
    world = World(tmp_path_factory.mktemp("any"), replies(), limits=Limits(max_steps=1))
    with world.engine as own:
        asked = world.ask()
        rows = own.journal.transitions(asked.run_id)
        try:
            own.resume(asked.run_id, answer={"approve": approve, "arguments": arguments})
        except InvalidAnswer:
            assert not world.made and own.journal.transitions(asked.run_id) == rows
            assert own.result(asked.run_id).waiting_for == asked.waiting_for
        else:
            assert approve and world.made == [{"note": "sorry"} | arguments]
        assert replay(own.journal, asked.run_id).identical


def test_a_fork_takes_an_approval_with_other_arguments(tmp_path: Path) -> None:
    """Refused before it is created where they do not fit."""
    world = World(tmp_path, [*replies(), refine("stop", answer="Paid.")])
    with world.engine as own:
        asked = world.ask()
        seq = len(own.journal.transitions(asked.run_id)) - 1
        with pytest.raises(InvalidAnswer, match="amount"):
            own.fork(asked.run_id, seq, answer={"approve": True, "arguments": {"order_id": "O-1"}})
        assert len(own.journal.runs()) == 1
        own.fork(asked.run_id, seq, answer={"approve": True, "arguments": ASKED | {"amount": 7}})
        assert [made["amount"] for made in world.made] == [7]


def test_documents_that_a_person_names_are_those_of_the_call(tmp_path: Path) -> None:
    """Not those that the model has chosen before; and only documents of the run."""
    seen: list[Any] = []

    def send(context: ToolContext, documentList: list[str]) -> str:
        seen.extend(document.name for document in context.documents(documentList))
        return "sent"

    post = Tool("post.send", "Send documents.", DOCUMENTS, send, effect="once")
    first, second = "docItem:round1_task1_action0_input#0", "docItem:round1_task1_action0_input#1"
    chosen = call("post.send")[0] | {"requiredInputDocuments": [first]}
    world = World(
        tmp_path,
        [chosen, {"schema": "parameters_v1", "parameters": {}}, refine("stop", answer="Sent.")],
        more=[post],
        policy=Policy(approvals=("post.send",)),
    )
    with world.engine as own:
        asked = world.ask(documents=[("a.txt", "a"), ("b.txt", "b")], profile="two_stage")
        with pytest.raises(InvalidAnswer, match=r"names no document of this run|#0 to #1"):
            own.resume(asked.run_id, answer={"approve": True, "arguments": {"documentList": [second + "0"]}})
        own.resume(asked.run_id, answer={"approve": True, "arguments": {"documentList": [second]}})
        assert seen == ["b.txt"]


DOCUMENTS = {
    "type": "object",
    "properties": {"documentList": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    "required": ["documentList"],
}
