"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from paor.fsm.diagrams.captions import legend_of
from paor.fsm.diagrams.geometry import BOLD, Layout, Rect, count_text, cut, width_of
from paor.fsm.diagrams.layout import layout_of
from paor.fsm.diagrams.mermaid import EDGES
from paor.fsm.diagrams.overlays import joined
from paor.fsm.diagrams.playable import COMPACT, Playable, playable, playable_graph
from paor.fsm.diagrams.render import (
    Covered,
    Format,
    Overlay,
    Parted,
    RunWalk,
    Step,
    caption,
    diagram,
    graph_of,
    plain,
    status_of,
    table_markdown,
    walk_of,
)
from paor.fsm.diagrams.svg import OWN_CSS
from paor.fsm.machine.guards import Guard
from paor.fsm.machine.machine import MACHINE
from paor.fsm.machine.table import INITIAL, ROWS, Row
