"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from paor.fsm.check.bounded_specs import worlds_of
from paor.fsm.check.checker import default_limits
from paor.fsm.check.state_space import explore
from paor.fsm.diagrams.overlays import coverage_of
from paor.fsm.explain.coverage import COUNT_MAX, UNREACHED, asked_guards, possible_outcomes, tried_rows
from paor.fsm.explain.divergence import parts_between, spec_places
from paor.fsm.machine.decide import machine_told
from paor.fsm.machine.guards import GUARDS, WORDS
from paor.fsm.machine.table import ROWS, Row, rows_of
from paor.fsm.replay.comparison import apart
from paor.fsm.report.view import JournalView
from paor.fuzz.oracles.reachable_rows import never
from paor.mcp_server.answering import Answerer
from paor.mcp_server.forms import visible, without_secrets
from paor.otel.reading import spans_of
from paor.states.run.phase_names import FINAL, PHASES
from paor.testing.pytest_coverage import Gathering
