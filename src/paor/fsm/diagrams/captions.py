"""What a diagram says in words: its heading, and what is below it; every line is plain text on one line."""

from __future__ import annotations

from typing import NamedTuple

from ..explain.coverage import Coverage
from .graph import Graph, Overlay, Parted, RunWalk, plain, status_of


class Heading(NamedTuple):
    """A picture's title, what is below that, and what it came to, with the status whose colour that has."""

    title: str
    sub: str
    look: str = ""
    result: str = ""

    @property
    def line(self) -> str:
        """Return title and result on one line."""
        return plain(f"{self.title}: {self.result}" if self.result else self.title)


def heading(graph: Graph) -> Heading:
    """Return what a picture shows: a run's title, status and reason; shares; where two runs part; what a host has added."""
    overlay = graph.overlay
    title = plain(overlay.title) if isinstance(overlay, RunWalk | Parted) else ""
    if isinstance(overlay, RunWalk):
        known = sum(1 for edge in graph.edges for label in edge.labels if label.rows)
        kinds = f"{count_words(len(overlay.counts), 'kind')}; the table has {known}"
        sub = f"{count_words(overlay.transitions, 'transition')} of {kinds}"
        result = f"{overlay.status} · {overlay.reason}" if overlay.reason else overlay.status
        return Heading(title or "A run", sub, status_of(overlay), result)
    if isinstance(overlay, Coverage):
        rows, outcomes = len(overlay.rows), len(overlay.possible)
        sub = f"{count_words(overlay.runs, 'run')}, {count_words(overlay.transitions, 'transition')}: "
        sub += f"{rows - len(overlay.missing_rows)} of {rows} rows, "
        sub += f"{outcomes - len(overlay.missing_outcomes)} of {outcomes} guard outcomes"
        look = "done" if overlay.percent == 100 else "running"
        return Heading("Coverage of the machine", sub, look, f"{overlay.percent} %")
    if isinstance(overlay, Parted):
        sub = f"A {count_words(overlay.left.transitions, 'transition')}, B {overlay.right.transitions:,}"
        if overlay.seq is None:
            return Heading(title or "Two runs", sub, "done", "identical")
        where = f"differ at row {overlay.seq:,} ({overlay.source or 'no phase'})"
        return Heading(title or "Two runs", sub, "waiting", where)
    title = "An agent run as a finite state machine"
    sub = f"{len(graph.phases)} phases, {len(graph.edges)} edges, {len(graph.rows)} rows"
    if not graph.has_own:
        return Heading(title, sub)
    counts = ((sum(row.host for row in graph.rows), "row"), (len(graph.words), "guard"))
    own = ", ".join(graph.own) or ", ".join(count_words(number, noun) for number, noun in counts if number)
    return Heading(title, plain(f"{sub}; your own: {own}"))


def count_words(number: int, noun: str) -> str:
    """Return ``1 run`` or ``2,000 runs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def asks_for(graph: Graph, phase: str) -> str:
    """Return what an own phase asks for, in a few words, and what it is the gate of."""
    own, gate = graph.own[phase], gate_words(graph, phase)
    if own.tool is not None:
        asks = f"calls {own.tool}"
    elif own.question is not None:
        asks = "asks a person"
    else:
        asks = "asks a model" if own.prompt is not None else "asks for nothing"
    return plain(f"{asks} · {gate}" if gate else asks)


def gate_words(graph: Graph, phase: str) -> str:
    """Return what a phase is the gate of, empty for no gate."""
    targets = [target for target, gate in graph.gates.items() if gate == phase]
    return f"gate of {', '.join(targets)}" if targets else ""


def legend_of(overlay: Overlay | None) -> list[str]:
    """Return in words, one line each, what the picture itself cannot show: what is missing, or why two runs part."""
    lines = list[str]()
    if isinstance(overlay, Coverage):
        missing = _missing(overlay)
        lines = ["never seen:", *missing] if missing else ["everything was seen"]
        total = sum(step.count for step in overlay.foreign)
        lines += [f"{count_words(total, 'transition')} that this table would not make"] * bool(total)
    elif isinstance(overlay, Parted):
        lines = [
            f"{name}: run {walk.title}, {_end(walk)}"
            for name, walk in zip("AB", (overlay.left, overlay.right), strict=True)
        ]
        if overlay.seq is None:
            lines.append("identical: nothing differs but ids, times and salts")
        else:
            lines.append(f"first different at row {overlay.seq:,} ({overlay.source or 'no phase'})")
            lines += [overlay.cause, overlay.detail, _ways(overlay)]
    return [told for line in lines if (told := plain(line))]


def _end(walk: RunWalk) -> str:
    """Return where a run is, its status and its length; done is said once."""
    where = "" if walk.state.lower() == walk.status else f"{walk.state}, "
    reason = f" · {walk.reason}" if walk.reason else ""
    return f"{where}{walk.status}{reason}, {count_words(walk.transitions, 'transition')}"


def _ways(parted: Parted) -> str:
    """Return how two runs proceed where they first take another way."""
    if parted.decision_seq is None:
        return "every transition is the same"
    told = (f"takes {way[1]} to {way[2]}" if way else "has no such row" for way in parted.ways)
    return f"row {parted.decision_seq}: A {next(told)}, B {next(told)}"


def _missing(coverage: Coverage) -> list[str]:
    """Return in the order of the table the rows and guard outcomes that were never seen."""
    lacking: dict[int, list[str]] = {}
    for outcome in coverage.missing_outcomes:
        lacking.setdefault(outcome.place, []).append(f"{outcome.guard} {str(outcome.value).lower()}")
    lines = list[str]()
    for place, row in enumerate(coverage.rows):
        if parts := ["never taken"] * (not row.count) + lacking.get(place, []):
            lines.append(f"{row.source} {row.trigger} to {row.dest}: {', '.join(parts)}")
    return lines
