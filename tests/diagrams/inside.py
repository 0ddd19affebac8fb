"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from collections.abc import Sequence

from paor.fsm.diagrams.captions import heading, legend_of
from paor.fsm.diagrams.drawing import Playable
from paor.fsm.diagrams.drawing import playable as playable_graph
from paor.fsm.diagrams.geometry import (
    BETWEEN,
    BOLD,
    FONT,
    NAME,
    SIGN,
    Layout,
    Rect,
    count_text,
    cut,
    width_of,
)
from paor.fsm.diagrams.graph import Overlay, Parted, RunWalk, Step, graph_of, plain, status_of, walk_of
from paor.fsm.diagrams.layout import layout_of
from paor.fsm.diagrams.mermaid import EDGES
from paor.fsm.diagrams.overlays import FORMS, Format, joined
from paor.fsm.diagrams.svg import SCALE
from paor.fsm.machine.guards import Guard
from paor.fsm.machine.host_rows import NO_HOST, Host
from paor.fsm.machine.machine import MACHINE, Machine
from paor.fsm.machine.table import INITIAL, ROWS, Row


def diagram(
    form: Format, overlay: Overlay | None = None, *, rows: Sequence[Row] = ROWS, host: Host = NO_HOST
) -> str:
    """Return any table in a form, with an overlay that a test has made."""
    return FORMS[form](graph_of(rows, overlay, host))


def playable(machine: Machine) -> Playable:
    """Return a machine as the picture that a page plays."""
    return playable_graph(graph_of(machine.rows, None, machine.host))
