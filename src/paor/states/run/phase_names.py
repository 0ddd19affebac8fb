"""The seven phases by name. A journal, the table and the diagrams use these words."""

from __future__ import annotations

PLANNING = "Planning"
SPECIFYING = "Specifying"
EXECUTING = "Executing"
OBSERVING = "Observing"
REVIEWING = "Reviewing"
DONE = "Done"
FAILED = "Failed"

PHASES = (PLANNING, SPECIFYING, EXECUTING, OBSERVING, REVIEWING, DONE, FAILED)
FINAL = frozenset({DONE, FAILED})
