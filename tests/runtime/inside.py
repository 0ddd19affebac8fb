"""What the tests of this room take from within paor."""

from __future__ import annotations

from paor.fsm.machine import host_rows
from paor.fsm.machine.ahead import GROUP_MOST
from paor.fsm.runtime.timed_calls import TimedCall
from paor.fsm.runtime.together import Together

__all__ = ["GROUP_MOST", "TimedCall", "Together", "host_rows"]
from paor.tools.kept_values import json_of
