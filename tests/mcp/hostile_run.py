"""
Runs in which every free field holds a text that the test chooses: markers to look for, or hostile strings.

`write` makes real runs with the engine and scripted models and tools: one of each mode and of each way to end, with questions, answers,
refusals, faults, doubts, forks and phases of the host's own. The texts come from a function of the field's name, such as
``objective`` or ``tool.result``; `FIELDS` collects the names that were asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paor import (
    Document,
    Engine,
    Journal,
    Limits,
    Machine,
    Phase,
    Policy,
    Reply,
    ScriptedModel,
    Tool,
    ToolContext,
    ToolOutput,
)
from paor.errors import AnswerNeeded, EffectUnknown, ModelUnavailable, PaorError, ToolError
from paor.testing import (
    Asks,
    SeededIds,
    SteppingClock,
    answer,
    call,
    call_tools,
    plan,
    refine,
    review,
    scripted_tool,
    select,
    step,
)

from .inside import WebFact

Give = Callable[[str], str]
"""The text for a field, by the field's name."""

KEY_CHARS = 200


class Texts:
    """
    Gives texts one after the other, and remembers which field got which.

    Args:
        texts: Over and over again, from the second time on with a number before them: none is given twice.
        start: The first one.

    Attributes:
        fields: What each field was given, by its name.
    """

    def __init__(self, texts: Sequence[str], start: int = 0) -> None:
        self._texts, self._next = texts, start
        self.fields: dict[str, list[str]] = {}

    def __call__(self, field: str) -> str:
        turn, place = divmod(self._next, len(self._texts))
        text = f"{turn} {self._texts[place]}" if turn else self._texts[place]
        self._next += 1
        self.fields.setdefault(field, []).append(text)
        return text


def key_text(text: str) -> str | None:
    """Return a text as a run's key, None for one that no key can be."""
    kept = "".join(letter for letter in text if letter.isprintable())[:KEY_CHARS]
    return kept if kept.strip() else None


def whole(text: str) -> str:
    """Return a text without half characters, which no JSON of a host may hold."""
    return text.encode("utf-8", "replace").decode()


def write(
    path: Path, give: Give, *, seed: int = 0, scenarios: Sequence[Callable[[Stage], None]] | None = None
) -> list[str]:
    """
    Write one run of each kind into a journal.

    Args:
        path: Of the journal; it may hold runs already.
        give: The text for each field.
        seed: Of the runs' ids, another one for each call on the same journal.
        scenarios: Kinds of runs; default all of `SCENARIOS`.

    Returns:
        Ids of the runs, oldest first.
    """
    with Journal(path, "off") as journal:
        before = {row.run_id for row in journal.runs()}
        ids, clock = SeededIds(f"hostile {seed}"), SteppingClock()
        for scenario in scenarios or SCENARIOS:
            scenario(Stage(journal, give, ids, clock))
        return [row.run_id for row in reversed(journal.runs()) if row.run_id not in before]


class Stage:
    """What a scenario makes its runs with."""

    def __init__(self, journal: Journal, give: Give, ids: SeededIds, clock: SteppingClock) -> None:
        self.journal, self.give, self.ids, self.clock = journal, give, ids, clock

    @contextmanager
    def engine(self, replies: Sequence[Any], tools: Sequence[Tool] = (), **more: Any) -> Iterator[Engine]:
        """Give an engine on the journal with a script; the journal stays open."""
        options: dict[str, Any] = {"builtins": False, "clock": self.clock, "ids": self.ids, **more}
        yield Engine(ScriptedModel(list(replies)), list(tools), self.journal, **options)

    def labels(self) -> dict[str, Any]:
        """Return key and metadata of a run; a key that is taken already gets none."""
        key = key_text(self.give("key"))
        taken = key is not None and bool(self.journal.runs(key=key))
        metadata = {"tenant": self.give("metadata.text")[:500], "list": [self.give("metadata.list")[:500]]}
        with suppress(UnicodeEncodeError):
            json.dumps(metadata, ensure_ascii=False).encode()
            return {"key": None if taken else key, "metadata": metadata}
        return {"key": None if taken else key}


OPEN_SCHEMA = {"type": "object", "additionalProperties": True}


def _read_tool(give: Give, **more: Any) -> Tool:
    """Return a tool that gives back documents, notes and facts of the web."""
    output = ToolOutput(
        documents=[
            Document(give("tool.document.name"), give("tool.document.text"), give("tool.document.mime")),
            Document(
                give("tool.document.name"), give("tool.document.bytes").encode("utf-8", "surrogatepass")
            ),
        ],
        notes=[give("tool.note")],
        web=[WebFact(give("web.url"), 0.5, (give("web.point"),), (give("web.entity"),))],
    )
    schema = OPEN_SCHEMA | {
        "properties": {"text": {"type": "string", "description": give("tool.parameter")[:2_000]}}
    }
    options = {"effect": "idempotent", "description": give("tool.description"), "parameters": schema}
    return scripted_tool("notes.read", [output, give("tool.result"), output], **(options | more))


def _select(give: Give, name: str, **fields: str) -> dict[str, Any]:
    return select(
        name,
        fields or {"text": "string"},
        actionObjective=give("selection.objective"),
        learnings=[give("selection.learning")],
        parametersContext=give("selection.context"),
    )


def _arguments(give: Give, **more: Any) -> dict[str, Any]:
    deep = {give("argument.name") or "x": [give("argument.deep"), {"deep": give("argument.deep")}]}
    return {"schema": "parameters_v1", "parameters": {"text": give("argument.text"), "more": deep} | more}


def _criteria(give: Give, criterion: str) -> list[dict[str, Any]]:
    return [{"criterion": criterion, "met": True, "evidence": give("criterion.evidence")}]


def react(stage: Stage) -> None:
    """Reads, is reviewed, tries again, and is Done: with documents, criteria, metadata and a reply that is asked for again."""
    give = stage.give
    criterion = give("criterion") or "it is read"
    replies = [
        give("reply.raw"),
        _select(give, "notes.read"),
        _arguments(give),
        refine("continue", hint=give("refinement.hint"), reason=give("refinement.reason")),
        _select(give, "notes.read"),
        _arguments(give),
        refine("stop", answer=give("refinement.answer"), criteria=_criteria(give, criterion)),
        review("retry", give("review.improvement")),
        _select(give, "notes.read"),
        _arguments(give),
        refine("stop", answer=give("refinement.answer")),
        review("success", answer=give("answer"), criteria=_criteria(give, criterion)),
    ]
    documents = [
        Document(give("document.name"), give("document.text"), give("document.mime")),
        Document(give("document.name"), give("document.bytes").encode("utf-8", "surrogatepass")),
    ]
    with stage.engine(
        replies, [_read_tool(give)], rules=[" ".join(give("rule").split()) or "be kind"]
    ) as engine:
        engine.run(
            give("objective") or "read",
            [criterion],
            documents,
            context=give("context"),
            connections={"crm": give("connection.value")},
            values={"note": whole(give("value.text"))[:20_000]},
            limits={"max_steps": 9, "max_retries": 2},
            **stage.labels(),
        )


def failures(stage: Stage) -> None:
    """Chooses what is not there, calls wrongly, fails, and loses its model."""
    give = stage.give
    strict = scripted_tool(
        "notes.fail",
        [ToolError(give("tool.error")), ToolError(give("tool.error")), RuntimeError(give("tool.exception"))],
        effect="read",
        description=give("tool.description"),
        parameters={
            "type": "object",
            "properties": {"page": {"type": "integer"}},
            "additionalProperties": False,
        },
    )
    replies = [
        {"action": give("action.unknown"), "actionObjective": give("selection.objective")},
        _select(give, "notes.fail", page="number"),
        {
            "schema": "parameters_v1",
            "parameters": {"page": give("argument.wrong"), give("argument.unknown"): 1},
        },
        {"schema": "parameters_v1", "parameters": {"page": 1}},
        refine("continue", hint=give("refinement.hint")),
        _select(give, "notes.fail", page="number"),
        {"schema": "parameters_v1", "parameters": {"page": 2}},
        give("reply.raw"),
        refine("continue"),
        _select(give, "notes.fail", page="number"),
        {"schema": "parameters_v1", "parameters": {"page": 3}},
        refine("continue"),
        ModelUnavailable("unavailable", give("model.fault")),
    ]
    with stage.engine(replies, [strict]) as engine:
        engine.run(give("objective") or "fail", **stage.labels())


def approvals(stage: Stage) -> None:
    """Asks for approvals: one is given, one is not, one call is denied, and the last question stays open."""
    give = stage.give
    pay = scripted_tool(
        "bank.pay",
        [give("tool.result"), EffectUnknown(give("tool.unsure"))],
        effect="once",
        description=give("tool.description"),
        repeat_allowed=True,
    )
    secret = scripted_tool("secret.read", [give("tool.result")], description=give("tool.description"))
    script: list[Any] = [_select(give, "secret.read"), *_calls(give, 4)]
    policy = Policy(deny=("secret.*",), approvals=("bank.*",))
    limits = Limits(max_steps=9, max_elicitations=9)
    with stage.engine(script, [pay, secret], policy=policy, limits=limits) as engine:
        result = engine.run(give("objective") or "pay", **stage.labels())
        for approve in (True, False, True):
            if result.status != "waiting" or result.waiting_for is None:
                break
            who = {"reason": give("answer.reason"), "actor": give("answer.actor")}
            result = _answered(engine, result, answer={"approve": approve}, **who)
        if result.waiting_for is not None and result.waiting_for.kind == "in_doubt":
            who = {"reason": give("answer.reason"), "actor": give("answer.actor")}
            _answered(engine, result, outcome="done", result=give("doubt.result"), **who)


def _calls(give: Give, times: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(times):
        found += [
            _select(give, "bank.pay"),
            _arguments(give),
            refine("continue", hint=give("refinement.hint")),
        ]
    return found


def _answered(engine: Engine, asked: Any, **given: Any) -> Any:
    """Resume a waiting run; where a text of the answer is refused, without those words."""
    question = asked.waiting_for.id
    try:
        return engine.resume(asked.run_id, question=question, **given)
    except PaorError:
        plain = {name: value for name, value in given.items() if name not in ("reason", "actor")}
        return engine.resume(asked.run_id, question=question, **plain)


def waiting(stage: Stage) -> None:
    """Waits for an approval, and does not go on."""
    give = stage.give
    pay = scripted_tool("bank.pay", [], effect="once", description=give("tool.description"))
    script = [_select(give, "bank.pay"), _arguments(give)]
    with stage.engine(script, [pay], policy=Policy(approvals=("bank.*",))) as engine:
        engine.run(give("objective") or "wait", **stage.labels())


def in_doubt(stage: Stage) -> None:
    """Waits, since nobody knows whether a call happened."""
    give = stage.give
    send = scripted_tool("mail.send", [EffectUnknown(give("tool.unsure"))], effect="once")
    with stage.engine([_select(give, "mail.send"), _arguments(give)], [send]) as engine:
        engine.run(give("objective") or "send", **stage.labels())


def asking(stage: Stage) -> None:
    """A tool asks in the middle of its call, gets an answer, asks a model for a text, and asks again."""
    give = stage.give

    def ask(context: ToolContext, text: str = "", **_more: Any) -> str:
        if context.resumption is None:
            schema = {
                "type": "object",
                "properties": {"note": {"type": "string", "title": give("schema.title")[:2_000]}},
            }
            raise AnswerNeeded(give("question.message"), schema, {"state": give("question.state")})
        return give("tool.result")

    tool = Tool(name="desk.ask", description=give("tool.description"), parameters=OPEN_SCHEMA, run=ask)
    texts = scripted_tool("desk.write", [Asks(1, give("tool.result"))], description=give("tool.description"))
    script = [
        _select(give, "desk.write"),
        _arguments(give),
        give("reply.text"),
        refine("continue"),
        _select(give, "desk.ask"),
        _arguments(give),
        refine("continue"),
        _select(give, "desk.ask"),
        _arguments(give),
    ]
    with stage.engine(script, [tool, texts]) as engine:
        result = engine.run(give("objective") or "ask", **stage.labels())
        if result.waiting_for is not None:
            who = {"reason": give("answer.reason"), "actor": give("answer.actor")}
            _answered(engine, result, answer={"note": give("answer.content")}, **who)


def planned(stage: Stage) -> None:
    """Works off a plan in batch mode: a step, a question of the plan, an abort."""
    give = stage.give
    first = step("notes.read", text=give("argument.text")) | {"reason": give("step.reason")}
    asks = {
        "type": "elicitation",
        "elicitation": {"message": give("question.message"), "requestedSchema": OPEN_SCHEMA},
    }
    abort = {"type": "abort", "reason": give("step.abort")}
    unknown = step(give("action.unknown"), text=give("argument.text"))
    made = plan(first, asks, abort) | {"intention": give("plan.intention")}
    script = [plan(unknown), made, refine("stop"), review("failed", give("review.improvement"))]
    with stage.engine(script, [_read_tool(give)]) as engine:
        result = engine.run(give("objective") or "plan", mode="batch", **stage.labels())
        if result.waiting_for is not None:
            _answered(engine, result, answer={"note": give("answer.content")}, actor=give("answer.actor"))


def conversation(stage: Stage) -> None:
    """A planner that has talked before, and a native run that calls tools beside its words."""
    give = stage.give
    talk = [{"role": "user", "content": give("transcript.user")}]
    made = plan(step("notes.read", text=give("argument.text"))) | {"intention": give("plan.intention")}
    with stage.engine([made, plan(answer=give("answer")), review("success")], [_read_tool(give)]) as engine:
        engine.run(give("objective") or "talk", mode="planner", transcript=talk, **stage.labels())
    wrong = call_tools(step(give("action.unknown"), text=give("argument.text")), text=give("turn.text"))
    turn = call_tools(step("notes.read", text=give("argument.text")), text=give("turn.text"))
    with stage.engine([wrong, turn, give("answer"), give("answer")], [_read_tool(give)]) as engine:
        engine.run(give("objective") or "native", profile="native", **stage.labels())


class _Office:
    """A model for a workflow: answers by kind of request."""

    name = "office"

    def __init__(self, give: Give) -> None:
        self._give = give

    def ask(self, request: Any) -> Reply:
        """Answer."""
        give = self._give
        tasks = [
            {
                "id": "one",
                "objective": give("task.objective") or "one",
                "success_criteria": [give("task.criterion")],
            },
            {"id": "two", "objective": give("task.objective") or "two", "dependencies": ["one"]},
        ]
        found: dict[str, Any] = {
            "task_plan": {"tasks": tasks, "intention": give("plan.intention")},
            "selection": _select(give, "notes.read"),
            "parameters": _arguments(give),
            "refinement": refine("stop", answer=give("refinement.answer")),
            "review": review("success", answer=give("answer")),
        }
        return Reply(json.dumps(found[request.kind]))

    async def aask(self, request: Any) -> Reply:
        """Answer."""
        return self.ask(request)


def workflow(stage: Stage) -> None:
    """A run of tasks that a model plans, and a second round that sees the first."""
    give = stage.give
    tools = [_read_tool(give, repeat_allowed=True)]
    engine = Engine(_Office(give), tools, stage.journal, builtins=False, clock=stage.clock, ids=stage.ids)
    with suppress(PaorError):
        engine.run_workflow(give("objective") or "office", conversation="c")
        engine.run_workflow(give("objective") or "again", conversation="c")


def own_machine(stage: Stage) -> None:
    """Phases of the host's own: a person judges a call, a model is asked, and a value decides."""
    give = stage.give
    schema = {"type": "object", "properties": {"advice": {"type": "string"}}}
    machine = (
        Machine.standard()
        .phase(Phase("Asking", question=give("phase.question") or "why?", answer=schema))
        .phase(
            Phase("Thinking", prompt="Think.\n=== user ===\n{{KEY:OBJECTIVE}}\n\n{{KEY:REPLY}}", reply=schema)
        )
        .row("Reviewing", "ask", "Asking", when="review_success", before="finish", at_most=1)
        .row("Asking", "think", "Thinking", when="succeeded", meaning=give("phase.meaning"))
        .row("Asking", "stop_here", "Failed")
        .row("Thinking", "go_on", "Planning", at_most=1)
        .row("Thinking", "give_up", "Failed")
    )
    script = [
        _select(give, "notes.read"),
        _arguments(give),
        refine("stop", answer=give("refinement.answer")),
        review("success", answer=give("answer")),
        {"advice": give("phase.reply")},
        answer(give("answer")),
        review("success", answer=give("answer")),
    ]
    with stage.engine(script, [_read_tool(give)], machine=machine) as engine:
        result = engine.run(
            give("objective") or "own", values={"note": whole(give("value.text"))[:20_000]}, **stage.labels()
        )
        if result.waiting_for is not None:
            who = {"reason": give("answer.reason"), "actor": give("answer.actor")}
            _answered(engine, result, answer={"advice": give("answer.content")}, **who)


def cut_short(stage: Stage) -> None:
    """One run is cancelled, one is forked with another ending, one has erased texts."""
    give = stage.give
    pay = scripted_tool("bank.pay", [give("tool.result")], effect="once")
    script = [
        _select(give, "bank.pay"),
        _arguments(give),
        refine("stop"),
        review("success", answer=give("answer")),
    ]
    with stage.engine(script, [pay], policy=Policy(approvals=("bank.*",))) as engine:
        first = engine.run(give("objective") or "cut", **stage.labels())
        if first.status == "waiting":
            engine.fork(first.run_id, 1, answer={"approve": True}, actor=give("answer.actor") or None)
            engine.cancel(first.run_id)
    read = [*call("notes.read", text=give("argument.text")), refine("stop"), review("success")]
    with stage.engine(read, [_read_tool(give)]) as engine:
        gone = engine.run(
            give("objective") or "gone", documents=[("a.txt", give("document.text"))], **stage.labels()
        )
        stage.journal.erase(gone.run_id, reason="GDPR-17", others="keep")


SCENARIOS: tuple[Callable[[Stage], None], ...] = (
    react,
    failures,
    approvals,
    waiting,
    in_doubt,
    asking,
    planned,
    conversation,
    workflow,
    own_machine,
    cut_short,
)
"""Every kind of run."""
