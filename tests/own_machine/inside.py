"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from paor.fsm.journal.payloads import salted_digest
from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.host_rows import HOST_GUARDS
from paor.fsm.machine.impure_names import impure_names
from paor.fsm.machine.machine import DECIDE, SETTLE, Walker
from paor.fsm.machine.table import Row
from paor.fsm.machine.updates import CHANGES

__all__ = [
    "CHANGES",
    "DECIDE",
    "GUARDS",
    "HOST_GUARDS",
    "SETTLE",
    "Row",
    "Walker",
    "impure_names",
    "salted_digest",
]
