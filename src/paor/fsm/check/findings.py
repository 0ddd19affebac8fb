"""What `paor check` finds: a closed list of codes, and for each finding its place, one line, and a path that shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Move = dict[str, Any]
"""What comes back, as JSON: ``move`` is its name for people, ``kind`` that of the outcome, the rest its contents."""

CODES = {
    "matches_nothing": "a pattern of the policy fits no tool that is offered",
    "always_denied": "a rule concerns only tools that are denied anyway",
    "not_allowed": "a rule concerns only tools that are not allowed anyway",
    "unknown_argument": "a rule looks at an argument that no such tool has",
    "never_fits": "a rule waits for a value that no such argument can have",
    "other_type": "a rule compares an argument with a value of another type, so that it asks every time",
    "compares_digits": "a rule compares the digits of a number as a text",
    "covered": "an earlier rule says the same already",
    "never_allowed": "a tool is offered and can never be used (a note: it may be meant)",
    "unknown_name": "a row names a phase or guard that does not exist",
    "no_effect": "nothing says what a row sets",
    "missing_row": "something says what a row sets, and the table has no such row",
    "unused_guard": "a guard is named by no row",
    "final_row": "a row leads out of a final phase",
    "done_elsewhere": "a row leads to Done from another phase than Reviewing",
    "unsafe_row": "a row of paor's own is not there as it is, or one of the host's own leads past it",
    "open_gate": "a row leads past a gate, or through it whatever the gate's phase came to",
    "forbidden": "a run does what a property says it never does",
    "taken_name": "a guard of the host's own, or of a bound, has the name of another one",
    "foreign_code": "a guard of paor's own, or what a row of paor's own sets, is another function",
    "row_never_taken": "no run comes to take a row",
    "unreachable_phase": "no run comes to a phase",
    "uncovered_case": "something comes back that no row takes",
    "broken_effect": "a row is taken and what it sets cannot be",
    "impure_guard": "a function of the host's own machine gives two values for one context, or changes it",
    "impure_name": "a function of the host's own machine names a clock, chance, a file or a write (a note: names prove nothing)",
    "guard_raises": "a function of the host's own machine raises, or gives something else than it must",
    "dead_end": "a run comes to where no end can be reached from",
    "endless_loop": "a run can go round without using up any bound",
    "done_unreachable": "a run that nothing has stopped cannot succeed any more",
    "bound_exceeded": "a counter passes its limit",
    "uncounted": "a way back does not use up what bounds it",
    "counter_reset": "a counter that may only grow goes back",
    "stop_ignored": "a run goes on although it must stop",
    "question_ignored": "a question is not asked, or its answer does not let the run go on",
    "unchecked_selection": "an action is begun that was not valid, not allowed, or one too many",
    "unchecked_call": "a tool is started with a call that was not checked or not approved",
    "needless_repeat": "a call whose result is known is made again, or the tools are withheld without one",
    "needless_refusal": "a call is refused although nothing is wrong with it, or it could be asked again",
    "done_unreviewed": "a run is Done without a successful review or met criteria",
    "done_missed": "a run fails or goes on although it has succeeded",
    "false_reason": "a run fails for a reason that does not hold",
    "unready_phase": "a phase is entered without what it works on",
    "unobserved_result": "what a call came to is not observed",
    "too_large": "the machine has more states than are explored",
}
"""Every code that a finding can have, and what it means."""


def _data(item: Any, **others: Any) -> dict[str, Any]:
    """Return the fields of a value, *others* in place of them or beside them, in the order of their names."""
    own = {name: getattr(item, name) for name in item.__slots__}
    return dict(sorted((own | others).items()))


@dataclass(frozen=True, slots=True)
class PathStep:
    """
    One transition of a path.

    Attributes:
        phase: Where the run stands.
        move: What comes back, as data (`fsm.check.inputs`).
        trigger, dest: The row that is taken; empty when none is, or when what it sets cannot be.
        guards: The guards that were evaluated, with their values.
    """

    phase: str
    move: Move
    trigger: str
    dest: str
    guards: dict[str, bool]

    def wire(self) -> dict[str, Any]:
        """Return the step as JSON data."""
        return _data(self, guards=dict(sorted(self.guards.items())))


@dataclass(frozen=True, slots=True)
class Path:
    """
    A walk from the start that shows a finding; `fsm.check.checker.rerun` walks it again.

    Attributes:
        world: The spec of the run, as data (`fsm.check.bounded_specs.World.wire`).
        steps: In order.
        loop: Number of the step at which a loop begins that ends with the last step; None without one.
    """

    world: dict[str, Any]
    steps: tuple[PathStep, ...]
    loop: int | None = None

    @property
    def replies(self) -> tuple[str, ...]:
        """What a scripted model has to reply, one by one, for this walk."""
        return tuple(step.move["text"] for step in self.steps if step.move["kind"] == "reply")

    def wire(self) -> dict[str, Any]:
        """Return the path as JSON data."""
        return _data(self, replies=list(self.replies), steps=[step.wire() for step in self.steps])


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One thing that is wrong with an engine's set-up or with its machine.

    Attributes:
        code: From `CODES`.
        place: Where, such as ``policy.deny[0]`` or ``Planning.select``.
        message: One line.
        path: A shortest path to it; None for a defect that needs no run.
    """

    code: str
    place: str
    message: str
    path: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"

    def wire(self) -> dict[str, Any]:
        """Return the finding as JSON data."""
        data: dict[str, Any] = {"code": self.code, "message": self.message, "place": self.place}
        return data if self.path is None else {**data, "path": self.path.wire()}


@dataclass(frozen=True, slots=True)
class Explored:
    """
    One world that was explored.

    Attributes:
        world: Its name.
        states, edges: How many there are.
        rows: Numbers of the table's rows that were taken, in order.
        beyond: Limits that are larger than explored, with their values; what is said holds for them, too.
    """

    world: str
    states: int
    edges: int
    rows: tuple[int, ...] = ()
    beyond: dict[str, int] = field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        return _data(self, beyond=dict(sorted(self.beyond.items())), rows=len(self.rows))


@dataclass(frozen=True, slots=True)
class Check:
    """
    What was found.

    Attributes:
        findings: What is wrong; empty if everything examined is proven.
        states, edges: Their number in all worlds together.
        worlds: Each of them.
        unused: Rows that no run of this engine takes, but runs with other settings do, such as ``Planning.wait``.
        notes: What may be intended, or may never happen: tools that are offered but that no run may use (``never_allowed``), and functions of the
            host's own machine that fail only where its guards did not lead (``guard_raises``).
    """

    findings: tuple[Finding, ...]
    states: int
    edges: int
    worlds: tuple[Explored, ...] = ()
    unused: tuple[str, ...] = ()
    notes: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def wire(self) -> dict[str, Any]:
        """Return the check as JSON data."""
        lists = {
            name: [item.wire() for item in getattr(self, name)] for name in ("findings", "notes", "worlds")
        }
        return _data(self, ok=self.ok, unused=list(self.unused), **lists)
