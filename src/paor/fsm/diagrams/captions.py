"""What a diagram says in words: its caption, and what is beside it; every line is plain text on one line."""

from __future__ import annotations

from ...states.phase import Phase
from ..explain.coverage import Coverage
from .graph import Covered, Graph, Overlay, Parted, RunWalk, plain


def caption(overlay: Overlay) -> str:
    """Return what an overlay shows, on one line: a run's title, status and reason; shares; where two runs part."""
    title = plain(overlay.title)
    if isinstance(overlay, RunWalk):
        return plain(f"{title or 'run'}: {status_words(overlay)}")
    if isinstance(overlay, Covered):
        return plain(f"{title or 'coverage'}: {shares(overlay.coverage)}")
    return plain(f"{title or 'two runs'}: {parting(overlay)}")


def count_words(number: int, noun: str) -> str:
    """Return ``1 run`` or ``2,000 runs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def status_words(walk: RunWalk) -> str:
    """Return a run's status, and its reason if it has one."""
    return plain(walk.status + (f" ({walk.reason})" if walk.reason else ""))


def asks_for(phase: Phase) -> str:
    """Return what an own phase asks for, in a few words."""
    if phase.tool is not None:
        return plain(f"calls {phase.tool}")
    if phase.question is not None:
        return "asks a person"
    return "asks a model" if phase.prompt is not None else "asks for nothing"


def own_title(graph: Graph) -> str:
    """Return what a picture without an overlay says of a host's own: its phases, or how many rows and guards."""
    rows = sum(row.host for row in graph.rows)
    told = ", ".join(graph.own) or ", ".join(
        count_words(number, noun) for number, noun in ((rows, "row"), (len(graph.words), "guard")) if number
    )
    return plain(f"your own: {told}")


def shares(coverage: Coverage) -> str:
    """Return what a coverage comes to, in words."""
    rows, outcomes = len(coverage.rows), len(coverage.possible)
    return (
        f"{coverage.percent} %, {rows - len(coverage.missing_rows)} of {rows} rows, "
        f"{outcomes - len(coverage.missing_outcomes)} of {outcomes} guard outcomes"
    )


def parting(parted: Parted) -> str:
    """Return where two runs part, in words."""
    if parted.seq is None:
        return "identical"
    return plain(f"first different at row {parted.seq} ({parted.source or 'no phase'})")


def going_on(parted: Parted) -> str:
    """Return how two runs go on where they first take another way, in words."""
    if parted.decision_seq is None:
        return "every transition is the same"
    told = []
    for name, way in zip("AB", parted.ways, strict=True):
        told.append(f"{name} takes {way[1]} to {way[2]}" if way else f"{name} has no such row")
    return plain(f"row {parted.decision_seq}: {', '.join(told)}")


def missing_by_phase(coverage: Coverage) -> dict[str, list[str]]:
    """Return in words, by phase and in the order of the table, the rows and guard outcomes that were never seen."""
    told: dict[str, list[str]] = {}
    lacking: dict[int, list[str]] = {}
    for outcome in coverage.missing_outcomes:
        lacking.setdefault(outcome.place, []).append(f"{outcome.guard} {str(outcome.value).lower()}")
    for place, row in enumerate(coverage.rows):
        parts = ([] if row.count else ["never taken"]) + lacking.get(place, [])
        if parts:
            told.setdefault(row.source, []).append(plain(f"{row.trigger} to {row.dest}: {', '.join(parts)}"))
    return told


def foreign_words(coverage: Coverage) -> str:
    """Return how many transitions are not in the table, in words; empty for none."""
    total = sum(step.count for step in coverage.foreign)
    return f"{count_words(total, 'transition')} that this table would not make" if total else ""


def legend_of(overlay: Overlay | None) -> list[str]:
    """Return in words, one line each, what the picture itself cannot show: what is missing, or why two runs part."""
    if isinstance(overlay, Covered):
        missing = missing_by_phase(overlay.coverage)
        told = [f"{phase} {text}" for phase, texts in missing.items() for text in texts]
        lines = ["never seen:", *told] if told else ["everything was seen"]
        foreign = foreign_words(overlay.coverage)
        return [*lines, foreign] if foreign else lines
    if isinstance(overlay, Parted):
        sides = (("A", overlay.left), ("B", overlay.right))
        lines = [f"{name}: run {walk.title}, {status_words(walk)}" for name, walk in sides]
        lines.append(parting(overlay))
        if overlay.seq is not None:
            lines += [overlay.cause, overlay.detail, going_on(overlay)]
        return [plain(line) for line in lines if plain(line)]
    return []
