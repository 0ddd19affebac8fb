"""What the tests of this room look at inside the package: a module that moves is named here alone."""

from __future__ import annotations

from paor.fsm.journal import cancel_requests as cancel_requests_module
from paor.fsm.journal import leases as leases_module
from paor.fsm.journal import store as store_module
from paor.fsm.journal.leases import Owner
from paor.fsm.journal.record import COLUMNS, row_of
from paor.fsm.journal.run_queue import Claim, RunQueue
from paor.fsm.journal.sqlite import backend as backend_module
from paor.fsm.journal.sqlite import file as file_module
from paor.fsm.journal.sqlite import source as source_module
from paor.fsm.journal.sqlite.backend import SqliteBackend
from paor.fsm.lifecycle.fallback import is_owed
from paor.fsm.lifecycle.look import result_now
from paor.fsm.lifecycle.resume import Continuation, continuation
from paor.fsm.lifecycle.runner import Runner
from paor.fsm.replay.restore import restore_run
from paor.fsm.runtime import timed_calls as timed_calls_module
from paor.fsm.runtime.calls import Timing
from paor.states.run.spec import Mode
