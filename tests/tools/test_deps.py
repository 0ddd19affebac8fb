"""What a host hands to its tools as `deps`: the same object in every call, in every driver, and in no byte of a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest

from paor import Engine, Policy, Task, ToolContext, tool
from paor.errors import UsageError

from ..support.worlds import ANSWER, JOURNAL, PARAMETERS, SELECT, STOP, SUCCESS, engine

SECRET = "postgresql://user:hunter2@db"


@dataclass
class Desk:
    """A host's own object."""

    url: str = SECRET
    sent: list[str] = field(default_factory=list)


@tool("desk.send", effect="once", label="sent")
def send(text: str, context: ToolContext[Desk]) -> str:
    """Send a text."""
    context.deps.sent.append(text)
    return f"sent {text}"


@tool("desk.send", effect="once", label="sent")
async def asend(text: str, context: ToolContext[Desk]) -> str:
    """Send a text."""
    context.deps.sent.append(text)
    return f"sent {text}"


ONE = [SELECT("desk.send"), PARAMETERS(text="hello"), STOP, SUCCESS]


@pytest.mark.parametrize("own", [send, asend], ids=["sync", "async"])
@pytest.mark.parametrize("loop", [False, True], ids=["run", "arun"])
def test_a_tool_gets_the_object_itself(tmp_path: Path, own: Any, loop: bool) -> None:
    """Not a copy; and nothing of it is written."""
    desk = Desk()
    with engine(tmp_path, ONE, [own]) as scripted:
        given: Any = {"deps": desk}
        result = asyncio.run(scripted.arun("Send", **given)) if loop else scripted.run("Send", **given)
        assert (result.state, desk.sent) == ("Done", ["hello"])
        lines = str(list(scripted.journal.export(result.run_id)))
    assert "hunter2" not in lines and "Desk" not in lines
    for file in tmp_path.glob(f"{JOURNAL}*"):
        assert b"hunter2" not in file.read_bytes()


def test_the_engines_are_taken_where_a_run_brings_none(tmp_path: Path) -> None:
    """A run's own come first."""
    mine, other = Desk(), Desk()
    with engine(tmp_path, ONE, [send], deps=mine) as scripted:
        scripted.run("Send")
        scripted.run("Send", deps=other)
    assert (mine.sent, other.sent) == (["hello"], ["hello"])


def _waiting(scripted: Engine) -> str:
    result = scripted.run("Send", deps=Desk())
    assert result.status == "waiting"
    return result.run_id


APPROVED: dict[str, Any] = {"answer": {"approve": True}}


def test_a_resume_takes_them_again_and_is_refused_without(tmp_path: Path) -> None:
    """They are in no journal: another process has its own. Refused, nothing is lost and nobody holds the run."""
    with engine(tmp_path, ONE, [send], policy=Policy(approvals=("desk.send",))) as scripted:
        run_id = _waiting(scripted)
        with pytest.raises(
            UsageError, match=r"desk.send uses deps, and none are given: pass deps=\.\.\. here"
        ):
            scripted.resume(run_id, **APPROVED)
        assert scripted.result(run_id).status == "waiting"
        desk = Desk()
        assert scripted.resume(run_id, deps=desk, **APPROVED).state == "Done"
        assert desk.sent == ["hello"]
        assert scripted.resume(run_id).state == "Done"  # to look at what has ended needs none


def test_recover_asks_for_them_for_each_run(tmp_path: Path) -> None:
    """A run without them is refused and stays; the next recover goes on with it."""
    with engine(tmp_path, ONE, [send]) as scripted:
        events = scripted.stream("Send", deps=Desk(), on_close="stop")
        for _ in range(2):
            next(events)
        events.close()
        (row,) = scripted.journal.runs()
        refused = scripted.recover().refused
        assert list(refused) == [row.run_id] and isinstance(refused[row.run_id], UsageError)
        desk = Desk()
        (result,) = scripted.recover(lambda row: {"deps": desk}).results
        assert (result.state, desk.sent) == ("Done", ["hello"])


def test_a_fork_and_the_tasks_of_a_workflow_have_them(tmp_path: Path) -> None:
    """Every run that comes of one."""
    desk = Desk()
    with engine(tmp_path, ONE, [send]) as scripted:
        parent = scripted.run("Send", deps=desk)
        with pytest.raises(UsageError, match="uses deps"):
            scripted.fork(parent.run_id, 0)
        assert scripted.fork(parent.run_id, 0, deps=desk).state == "Done"
        scripted.run_workflow("Send", tasks=[Task("Send it")], deps=desk)
    assert desk.sent == ["hello"] * 3


def test_a_run_is_refused_before_it_starts(tmp_path: Path) -> None:
    """A run that is not offered the tool needs none."""
    with engine(tmp_path, [ANSWER()], [send]) as scripted:
        with pytest.raises(UsageError, match="uses deps"):
            scripted.run("Send")
        assert scripted.journal.runs() == []
        assert scripted.run("Send", tools=[]).state == "Done"


def _text(context: ToolContext[Desk], x: int) -> int:
    return x


def _optional(context: Optional[ToolContext[Desk]], x: int) -> int:  # noqa: UP045 - as some write it
    return x


def _union(x: int, context: ToolContext[Desk] | None = None) -> int:
    return x


def _nested(context: ToolContext[dict[str, Desk]], x: int) -> int:
    return x


def _quoted(context: "ToolContext[Desk]", x: int) -> int:  # noqa: UP037 - as some write it
    return x


def _plain(context: ToolContext, x: int) -> int:
    return x


def _none(x: int) -> int:
    return x


def _resolved(annotation: Any) -> Callable[..., int]:
    def function(context: Any, x: int) -> int:
        return x

    function.__annotations__["context"] = annotation
    function.__annotations__["x"] = int
    return function


RESOLVED = [_resolved(ToolContext[Desk]), _resolved(Annotated[ToolContext[Desk], "note"])]


@pytest.mark.parametrize("function", [_text, _optional, _union, _nested, _quoted, *RESOLVED])
def test_every_way_to_write_it_is_known(function: Callable[..., int]) -> None:
    """As a type and as text; the context is no parameter of the schema."""
    made = tool("desk.x")(function)
    assert made.needs_deps and list(made.parameters["properties"]) == ["x"]


@pytest.mark.parametrize("function", [_plain, _none])
def test_a_tool_that_names_no_deps_needs_none(function: Callable[..., int]) -> None:
    """``deps`` is None there, unless somebody gave them."""
    made = tool("desk.x")(function)
    assert not made.needs_deps and list(made.parameters["properties"]) == ["x"]


def test_a_process_of_its_own_has_none() -> None:
    """They could not be sent there."""
    with pytest.raises(UsageError, match="deps stay in this process"):
        tool("desk.x", process=True)(_text)
