"""
`EngineMachine`: hypothesis moves a user's own engine, rule by rule.

There is one move for every trigger that something from outside can aim at, made from the table: where the run stands and
what it needs tells which moves can be made. A move goes on by one row. Beside them are a crash, a jump of the clock, an
answer, a cancellation; all of them are steps of a `World`, which holds the engine to what always holds. They are drawn by
one rule, with weights: hypothesis would choose among rules evenly, and few runs would get anywhere.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from hypothesis.strategies import DataObject, SearchStrategy

from ..fsm.decision.host_machine import recorded_phases
from ..fsm.engine import Engine
from ..fsm.journal_api import Journal
from ..fsm.machine.table import TABLE
from ..prompts.model import ModelCall
from ..prompts.parsing.reply_forms import PARAMETERS_PLACE, moved_references
from ..states.base.errors import UsageError
from ..states.phase import Phase
from ..states.run.state import Run
from ..tools.documents.tools import builtin_tools
from ..tools.tool import Tool
from .failing_case import TestCaseOf
from .oracles.invariants import denied, fits
from .oracles.reachable_rows import NEVER
from .oracles.seen import Violation
from .repro import FOLDER, RUNS_MAX
from .sample_engine import sample_engine
from .strategies.injected_faults import CALL
from .strategies.json_schema import weighted
from .strategies.outcomes import (
    BUDGETS,
    LIMITS,
    answers,
    hangs,
    jumps,
    outcomes,
    own_answers,
    settlements,
    tighter,
    tool_faults,
)
from .strategies.replies import AIMS, GOOD, calls_again, denied_selections, replies
from .strategies.reply_builder import Said
from .strategies.setting import Setting
from .strategies.shown import Learned, of_agent
from .world.error_attribution import blaming
from .world.world import World

TRIES_MAX = 500
"""Most examples in which a smaller case is looked for; so that the result depends on no clock."""

MODES = ("react",) * 5 + ("batch", "planner", "workflow", "native", "native")


def seldom(others: int) -> SearchStrategy[bool]:
    """Return False, and once in *others* and one True; a shrunk example is without it."""
    return st.sampled_from((False,) * others + (True,))


class EngineMachine(RuleBasedStateMachine):
    """
    Subclass it, return your engine, and run ``TestCase`` under pytest or unittest.

        class Shop(EngineMachine):
            def engine(self, journal):
                return shop.make_engine(journal)

        TestShop = Shop.TestCase

    Attributes:
        fakes: Patterns of tools whose functions are never called; they get generated results. ``("*",)`` for all.
        faults: Whether tools may also fail in ways that are not their own: time out, raise anything, ask a
            question.
        modes: Modes that runs are started in; ``workflow`` for a plan of tasks, ``native`` for the profile. By default
            all, react most often.
        objective, criteria, documents: The same for every run; a run gets any number of the criteria.
        values: Argument values that your tools know, by argument name, such as existing ids. Most calls use them.
        host_values: What ``run(values=...)`` of each run is given, None for nothing. A strategy of such mappings is drawn from for each
            run, and each time that the engine's own port for values would be asked; without one that port is called, and must
            give the same in the same case. It raises at times, whichever it is.
        runs: Largest number of runs in one example, in sequence on one journal; at most 100.
        on_disk: Whether the journal is a file, opened again after every crash, instead of memory; several times
            slower.
        vary_limits: Whether runs also have smaller limits and budgets than the engine's own.
        vary_policy: Whether runs also have tighter policies than the engine's own.
        app: The value of ``--app`` for this engine or class; saved cases contain it.
        repro_folder: Where the shortest failing case is saved; None: nowhere.
        failure: The smallest violation of the invariant that was violated first.
        TestCase: The same as a `unittest.TestCase`; its attribute ``settings`` takes those of hypothesis.
        world: The engine under test with all that happened to it; for rules and invariants of your own.
    """

    fakes: ClassVar[Sequence[str]] = ()
    faults: ClassVar[bool] = True
    modes: ClassVar[Sequence[str]] = MODES
    objective: ClassVar[str] = "Read the notes"
    criteria: ClassVar[Sequence[str]] = ("names the day", "names the year")
    documents: ClassVar[Sequence[tuple[str, str]]] = (
        ("notes.txt", "Page 1: the supplier delivers on the 3rd."),
    )
    values: ClassVar[Mapping[str, Sequence[Any]]] = {}
    host_values: ClassVar[Mapping[str, Any] | SearchStrategy[Mapping[str, Any]] | None] = None
    runs: ClassVar[int] = 3
    on_disk: ClassVar[bool] = False
    vary_limits: ClassVar[bool] = True
    vary_policy: ClassVar[bool] = True
    app: ClassVar[str] = ""
    repro_folder: ClassVar[str | None] = FOLDER
    failure: ClassVar[Violation | None] = None
    _tries: ClassVar[int] = 0
    _refused: ClassVar[UsageError | None] = None
    _calling: ClassVar[Any] = None  # what World.calling is to be
    _before: ClassVar[Learned] = Learned()  # what a search knew when hypothesis began
    TestCase: Any = TestCaseOf()

    def engine(self, journal: Journal) -> Engine:
        """
        Return the engine under test, as a new process would make it; called again after every crash.

        Args:
            journal: For the engine. Its model, clock and ids are replaced by the kit's.
        """
        return sample_engine(journal)

    def prepare(self) -> None:
        """Create what outlives a crash, before the first engine: the database behind your tools, for example."""

    def check(self, world: World) -> None:
        """Assert your own invariants; called after every step. By default it asserts nothing."""

    @classmethod
    def _has_check(cls) -> bool:
        """Whether `check` is the machine's own; then half of the examples are calm, and look for what breaks it."""
        return cls.check is not EngineMachine.check

    # -- one example -----------------------------------------------------------------------------------------------

    def __init__(self) -> None:
        super().__init__()
        check_attributes(self)
        self._closing = "polite"
        self._broken = self._same = self._calm = False
        self._runs = self._faults = self._learned = 0
        self._focus: frozenset[str] = frozenset()
        self._folder = tempfile.TemporaryDirectory(prefix="paor-fuzz-") if self.on_disk else None
        path = os.path.join(self._folder.name, "runs.db") if self._folder is not None else ":memory:"
        with blaming("prepare or engine of the machine raised"):
            self.prepare()
            self.world: Any = World(self.engine, self.check, path=path)
        self.world.calling = self._calling
        builtin = {tool.name for tool in builtin_tools()}
        self._own = [tool for tool in self.world.engine.tools if tool.name not in builtin]
        self._memory = Learned(self.values)

    @initialize(data=st.data())
    def begin(self, data: DataObject) -> None:
        """Start a run."""
        if (found := type(self).failure) is not None:
            type(self)._tries += 1
            if (
                type(self)._tries > TRIES_MAX
            ):  # so that the plainest of all examples seems to fail, and the search ends
                self._broken = True
                raise found
        if self._own and self._has_check() and data.draw(seldom(1)):
            self._calm = True
            names = [tool.name for tool in self._own]
            self._focus = frozenset(data.draw(st.lists(st.sampled_from(names), min_size=2, max_size=4)))
            functions = [*(tool.run for tool in self._own), type(self).prepare]
            self._memory = self._before.of(
                self.values, of_agent([tool.spec() for tool in self._own], functions)
            )
        self._start(data)

    def _start(self, data: DataObject) -> None:
        self._runs += 1
        self._faults = 0 if self._calm else data.draw(st.sampled_from((4, 0, 2, 3, 6, 10, 20)))
        engine = self.world.engine
        step: dict[str, Any] = {"do": "start", "objective": self.objective}
        mode = data.draw(st.sampled_from(self.modes))
        step |= {"mode": "react", "stage": "native"} if mode == "native" else {"mode": mode}
        count: int = data.draw(st.integers(0, len(self.criteria)))
        if count:
            step["criteria"] = list(self.criteria[:count])
        wanted: bool = data.draw(st.booleans())
        if self.documents and wanted:
            step["documents"] = [list(pair) for pair in self.documents]
        if self.vary_limits and not self._calm and not data.draw(seldom(3)):
            limits = data.draw(LIMITS)
            if data.draw(seldom(3)):
                limits |= data.draw(BUDGETS)
            step["limits"] = limits
        if self.vary_policy and not self._calm:
            policy = data.draw(tighter(engine.policy, [tool.name for tool in engine.tools]))
            step |= {"policy": policy} if policy is not None else {}
        if mode in ("react", "native") and data.draw(seldom(5)):
            step["final_format"] = "md"
        if (given := self.host_values) is not None:
            step["values"] = dict(given if isinstance(given, Mapping) else data.draw(given))
        self._closing = data.draw(_CLOSINGS)
        self._do(step)

    def _do(self, step: dict[str, Any]) -> None:
        try:
            self.world.do(step)
        except Violation as violation:
            self._broken = True
            found = type(self).failure
            if found is not None and violation.invariant != found.invariant:
                reject()  # another one: what was found first is made small
            if found is None or violation.size < found.size:
                type(self).failure = violation
            raise
        except KeyboardInterrupt:  # the step is half done: what comes of it says nothing of the engine
            self._broken = True
            raise
        except UsageError as error:  # of an app that raises once and not again hypothesis says only that
            self._broken = True
            type(self)._refused = error
            raise

    def _move(self, data: DataObject, aim: str, *, lost: bool = False, raises: bool = False) -> None:
        """Go on by one row, aimed at a trigger; *lost* for sure before it is written, else once in a while; see `World` for *raises*."""
        aimed = [aim]

        def tell(call: ModelCall) -> Said:
            setting = self._setting(call)
            if not (aim or self._calm) and (again := self._again(data, call.kind, setting)) is not None:
                return again
            wanted = aimed.pop() if aimed and aimed[0] in AIMS[call.kind] else GOOD[call.kind]
            return data.draw(replies(call.kind, setting, wanted))

        def choose(tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            fake = fits(tool.name, self.fakes)
            if aim == "retry_step" and self.faults:
                return data.draw(weighted((6, tool_faults), (1, hangs)))
            if aim == "wait" and self.faults:
                return data.draw(st.sampled_from(_WAITS))
            return data.draw(outcomes(fake=fake, faults=False)) if fake else CALL

        self.world.tell, self.world.choose = tell, choose
        if isinstance(values := self.host_values, SearchStrategy):
            self.world.gives = lambda port, run_id, phase: data.draw(values)
        lost = lost or (not self._calm and data.draw(seldom(24)))
        self._do({"do": "row"} | ({"lost": True} if lost else {}) | ({"raises": True} if raises else {}))

    def _again(self, data: DataObject, kind: str, setting: Setting) -> Said | None:
        """Return once in a while a denied selection, or what makes a call of the run again; before its first call what an earlier run said."""
        if kind == "selection":
            if bool(setting.denied) and data.draw(seldom(9)):
                return data.draw(denied_selections(setting))
            self._same = data.draw(seldom(2 if setting.made else 4))
        if not self._same or kind not in ("selection", "parameters"):
            return None
        if setting.made:
            return data.draw(calls_again(kind, setting))
        found = self.world.echoes.get(kind)
        return found._replace(good=None) if found is not None else None

    def _setting(self, call: ModelCall) -> Setting:
        """Return what a reply to *call* may know; of a workflow's tasks only what the engine knows."""
        run = self.world.live
        spec = run.spec if run is not None else None
        own = run is not None and spec is not None and spec.task != 0
        tools = spec.tools if own and spec else self.world.task_tools()
        policy = spec.policy if own and spec else self.world.engine.policy
        task_type = spec.task_type if own and spec else None
        labels = tuple((name, entry[1]) for name, entry in run.memory.labels.items()) if own and run else ()
        selection = run.memory.selection if own and run else None
        named = selection.tool if selection is not None else ""
        schema = (call.schema or {}).get("properties", {}).get("parameters", {})
        schema = moved_references(schema, PARAMETERS_PLACE, "#")  # it stands alone here
        phase = self._phase(run)
        return Setting(
            tools,
            frozenset(tool.name for tool in tools if denied(policy, task_type, tool.name)),
            spec.success_criteria if own and spec else (),
            tuple(sorted((name, count) for name, count in labels if count)),
            next((tool for tool in tools if tool.name == named), None),
            schema,
            bool(policy.file_roots),
            replace(self._known(), about=named),
            self._made(),
            self._focus,
            frozenset(
                reply.get("family", "") for step in self.world.script for reply in step.get("said", ())
            ),
            (phase.reply if phase is not None else call.schema) or {},
            phase is not None and phase.chooses,
        )

    def _ended(self) -> list[tuple[str, Mapping[str, Any], Any]]:
        """Return the calls of the host's own tools that have ended."""
        names = {tool.name for tool in self._own}
        return [call for call in self.world.watch.ended if call[0] in names]

    def _known(self) -> Learned:
        """Return what is known of values: what was not there before hypothesis began is of this very example."""
        if self._calm:
            for call in (ended := self._ended())[self._learned :]:
                self._memory.add(*call)
            self._learned = len(ended)
        return self._memory

    @staticmethod
    def _phase(run: Run | None) -> Phase | None:
        """Return the host's own phase that a run is in, None in any other."""
        return recorded_phases(run.spec.host_machine).get(run.state) if run is not None else None

    def _made(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return the calls that the run has made, each once, the last one last."""
        seen = next((item for item in self.world.seen.values() if item.run_id == self.world.run_id), None)
        calls = list(dict.fromkeys(reversed(seen.calls)))[::-1] if seen is not None else []
        return tuple((tool, json.loads(arguments)) for tool, arguments in calls)

    # -- moving ----------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def move(self, data: DataObject) -> None:
        """Take one of the moves that can be taken where the run stands; most of them lead straight on."""
        choices = [name for name, weight in self._moves() for _ in range(weight)]
        name = data.draw(st.sampled_from(choices))
        getattr(self, f"_do_{name}", lambda data: self._aim(data, name))(data)

    def _moves(self) -> Iterator[tuple[str, int]]:
        """Yield the names of possible moves, with how often each is taken; the plainest first."""
        need, run = self.world.need, self.world.run
        if need in ("start", "end"):
            yield "nothing", 1
            if self._runs < self.runs:
                yield "again", 6
        elif need == "question":
            yield "answer", 8
            if self.world.may_be_late:
                yield "go_on", 2
        elif self._calm:
            yield "go_on", 8
        else:
            yield "go_on", 8
            if self._faults > 0 and run is not None:
                aims = [
                    trigger
                    for (source, trigger), needs in AIMED.items()
                    if source == run.state and need in needs
                ]
                if need == "phase":
                    aims = ["reask", "fail"]
                yield from ((trigger, _WEIGHTS.get(trigger, 3)) for trigger in aims)
            yield "crash", 1
            yield "lose_effect", 3
            if run is not None and run.spec.host_machine:
                yield "host_fault", 2
        if self._calm:
            return
        if need != "start":
            yield "look", 1
            yield "clock", 1
        if need not in ("start", "end"):
            yield "cancel", 1

    def _aim(self, data: DataObject, trigger: str) -> None:
        self._faults -= trigger not in GOOD.values()
        self._move(data, trigger)

    def _do_nothing(self, data: DataObject) -> None:
        """All runs have ended."""

    def _do_again(self, data: DataObject) -> None:
        self._start(data)

    def _do_go_on(self, data: DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 24 if self._calm else 8))):
            if self.world.need in ("start", "end"):
                return
            self._move(data, "")
            if self.world.need == "question":
                return

    def _do_crash(self, data: DataObject) -> None:
        self._do({"do": "crash"})

    def _do_lose_effect(self, data: DataObject) -> None:
        """Go on until a tool is to be called, and lose the process after it has ended."""
        for _ in range(6):
            if self.world.need in ("start", "end", "question"):
                return
            is_tool = self.world.need == "tool"
            self._move(data, "", lost=is_tool)
            if is_tool:
                return

    def _do_host_fault(self, data: DataObject) -> None:
        """Go on, and have the functions and the port of the host raise until one of them did; then, mended, by one row more."""
        for _ in range(data.draw(st.integers(1, 4))):
            if self.world.need in ("start", "end", "question"):
                return
            self._move(data, "", raises=True)
            if self.world.host.failed:
                return

    def _do_clock(self, data: DataObject) -> None:
        self._do({"do": "clock", **data.draw(jumps)})

    def _do_cancel(self, data: DataObject) -> None:
        if data.draw(seldom(3)):
            self._do({"do": "cancel"})

    def _do_look(self, data: DataObject) -> None:
        if self.world.script[-1]["do"] != "look":
            self._do({"do": "look"})

    def _do_answer(self, data: DataObject) -> None:
        question = self.world.question
        if question is None:
            return
        if question.kind == "in_doubt":
            self._do({"do": "settle", **data.draw(settlements)})
        elif self._phase(self.world.run) is not None:
            answer, actor = data.draw(own_answers(question)), data.draw(st.sampled_from(_ACTORS))
            self._do({"do": "answer", "answer": answer} | ({"actor": actor} if actor else {}))
        else:
            self._do({"do": "answer", "answer": data.draw(answers(question))})

    def teardown(self) -> None:
        """Bring the run to its end, whatever happened."""
        try:
            if not self._broken:
                self._do({"do": "finish", "how": self._closing})
        finally:
            self.world.close()
            if self._folder is not None:
                self._folder.cleanup()


_CLOSINGS = st.one_of(st.sampled_from(["polite", "retry", "silence", "echo"]), st.integers(0, 80).map(str))
"""How runs are brought to their end, see `closing`; half of them with near misses."""

_WEIGHTS = {"fail": 1, "reselect": 9, "respecify": 9, "refuse": 6, "reassess": 9, "reask": 9}
_ACTORS = ("ann", "bob", "")
"""Who answers the questions of own phases, empty for nobody in particular."""

"""How often a row is aimed at; replies that nearly are right have most families."""

_WAITS = [
    {"do": "raise", "what": "EffectUnknown"},
    {"do": "ask", "message": "Which page?", "schema": {}, "state": {"page": 1}},
    {"do": "hang"},
    {"do": "late"},
]


_KINDS = {
    "Planning": ("selection", "plan", "task_plan", "turn", "answer"),
    "Specifying": ("parameters",),
    "Reviewing": ("refinement", "review"),
}
_WITHOUT_REPLIES = {
    ("Executing", "execute"): {"tool"},
    ("Executing", "retry_step"): {"tool"},
    ("Executing", "wait"): {"tool"},
    ("Observing", "observe"): {"recall", "nothing"},
    ("Specifying", "specify"): {"nothing", "recall"},
    ("Reviewing", "next_step"): {"nothing", "recall"},
}


def _needs(source: str, trigger: str) -> frozenset[str]:
    """Return what a run must need for a reply or an outcome to be aimed at a row."""
    kinds = {kind for kind in _KINDS.get(source, ()) if trigger in AIMS[kind]}
    return frozenset(kinds | _WITHOUT_REPLIES.get((source, trigger), set()))


AIMED: dict[tuple[str, str], frozenset[str]] = {
    (row.source, row.trigger): needs for row in TABLE if (needs := _needs(row.source, row.trigger))
}
"""Rows that a rule aims at, by source and trigger, with what the run must need."""


def check_attributes(machine: Any) -> None:
    """
    Check the attributes of an `EngineMachine`.

    Raises:
        UsageError: One is of another type, such as a text where a list is expected, or has a value that none can have.
    """
    if not isinstance(machine.values, Mapping):
        raise UsageError(
            f"values of the machine are of type {type(machine.values).__name__}, expected lists by name"
        )
    lists = {name: getattr(machine, name) for name in ("fakes", "modes", "criteria", "documents")}
    lists |= {f"values[{name!a:.80}]": values for name, values in machine.values.items()}
    for name, value in lists.items():
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise UsageError(f"{name} of the machine are of type {type(value).__name__}, expected a list")
    if not machine.modes:
        raise UsageError("modes of the machine are empty, expected at least one")
    for mode in machine.modes:
        if mode not in NEVER:
            raise UsageError(f"modes of the machine have {mode!a:.80}, expected {', '.join(NEVER)}")
    if type(machine.runs) is not int or not 1 <= machine.runs <= RUNS_MAX:
        raise UsageError(f"runs of the machine are {machine.runs!a:.80}, expected 1 to {RUNS_MAX}")
