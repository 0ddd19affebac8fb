"""
Which rows a run may take: those of the table, or of the host's own machine that its spec records.

Once that record was erased nobody can say which machine it was. What no machine of any host can have is a defect even then.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ...states.run.host_machine import machine_data
from ...states.run.phase_names import FAILED, OBSERVING, PLANNING, SPECIFYING
from ..machine.host_checks import KEPT
from ..machine.host_rows import DESTS, SOURCES, STANDARD
from ..machine.table import ROWS

Edge = tuple[str, str, str]
"""Source, trigger and destination."""


class Walked(NamedTuple):
    """
    What is known of the machine that a run walks.

    Attributes:
        initial: The phase in which a run begins.
        edges: Every row that it can take.
        known: Whether that is all; False where the spec that says so cannot be read.
    """

    initial: str
    edges: frozenset[Edge]
    known: bool = True


STANDARD_WALK = Walked(PLANNING, frozenset((row.source, row.trigger, row.dest) for row in ROWS))
UNKNOWN = STANDARD_WALK._replace(known=False)


def walked_by(spec: dict[str, Any] | None) -> Walked:
    """Return what a spec says of the machine, `UNKNOWN` for one that was erased or changed."""
    if spec is None:
        return UNKNOWN
    text = spec.get("host_machine", "")
    return STANDARD_WALK if text == "" else _recorded(text) if isinstance(text, str) else UNKNOWN


@lru_cache(maxsize=64)
def _recorded(text: str) -> Walked:
    try:
        data = machine_data(text)
        edges = frozenset((item["source"], item["trigger"], item["dest"]) for item in data["transitions"])
        return Walked(data["initial"], edges)
    except (ValueError, TypeError, LookupError, AttributeError):
        return UNKNOWN


def may_be_own(source: str, trigger: str, dest: str) -> bool:
    """Whether a row that is not in the table can be one of a host's own machine at all."""
    own = source not in STANDARD
    if source == OBSERVING:
        return trigger == "observe" and dest not in STANDARD
    if trigger in ("wait", "provide", "reask"):
        return own and dest == source
    if trigger in ("call", "fail"):
        return own and dest == (SPECIFYING if trigger == "call" else FAILED)
    return trigger not in KEPT and (own or source in SOURCES) and (dest in DESTS or dest not in STANDARD)
