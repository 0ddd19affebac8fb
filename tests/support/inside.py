"""
Names from inside the package that tests of several rooms need: rows as they are hashed, a run as it is restored, a queue as it is.

Tests use the public face; what it has no name for is imported here, so that a module that moves is mended in one place.
"""

from __future__ import annotations

from paor.cli.support.json_input import FIELDS
from paor.fsm.journal import record
from paor.fsm.journal.leases import current_owner
from paor.fsm.journal.payloads import REMEMBERED, Payload, Stager, salted_digest
from paor.fsm.journal.prompts import prompt_places
from paor.fsm.journal.record import (
    COLUMNS,
    GUARD_LETTERS,
    HASHED,
    PREV_HASH,
    canonical,
    chain_hash,
    decode_row,
    root_hash,
    row_of,
    row_text,
)
from paor.fsm.journal.rows import ROOT_COLUMNS
from paor.fsm.journal.run_queue import Queued, RunQueue
from paor.fsm.journal.scans import Scan
from paor.fsm.journal.sqlite.database import authorize
from paor.fsm.journal.sqlite.file import open_writer
from paor.fsm.journal.sqlite.migrations import OLDEST, newest
from paor.fsm.lifecycle.options import OPTIONS, TYPES
from paor.fsm.lifecycle.resume import take_up
from paor.fsm.lifecycle.runner import Runner
from paor.fsm.machine.decide import decide
from paor.fsm.machine.fold import AT_TIMES, applied, apply, restore
from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.table import ROWS, TABLE, Row, rows_of
from paor.fsm.replay.backtest import trials
from paor.fsm.replay.payload_window import PayloadWindow
from paor.fsm.replay.replay import column_problems
from paor.fsm.replay.restore import restore_run
from paor.fsm.report.run_lines import run_line
from paor.fsm.runtime import loop
from paor.fsm.transfer.export import export_runs, in_order, line_bytes
from paor.fsm.transfer.text_search import EXCERPT, Excerpts, form
from paor.fsm.verify.heads import BYTES_MAX, Checkpoint, private_key, public_key, read, root_of
from paor.fsm.verify.verify import Defect
from paor.prompts.building.templates import default_templates
from paor.prompts.clients.background_loop import ask
from paor.prompts.clients.facts import KNOWN
from paor.states.records.actions import StoredText
from paor.states.records.questions import QuestionRecord
from paor.states.run.counters import counters_of, counters_text
from paor.states.run.labels import metadata_of
from paor.states.run.phase_names import EXECUTING, FINAL, PLANNING, REVIEWING, SPECIFYING
from paor.states.run.state import Counters, Run, initial_run
from paor.tools.documents.convert import registry
from paor.tools.schema.parameters import ParameterSchema

__all__ = [
    "BYTES_MAX",
    "COLUMNS",
    "EXCERPT",
    "EXECUTING",
    "FIELDS",
    "FINAL",
    "HASHED",
    "OLDEST",
    "OPTIONS",
    "PLANNING",
    "PREV_HASH",
    "REMEMBERED",
    "REVIEWING",
    "ROOT_COLUMNS",
    "ROWS",
    "SPECIFYING",
    "TABLE",
    "TYPES",
    "Checkpoint",
    "Counters",
    "Defect",
    "Excerpts",
    "ParameterSchema",
    "Payload",
    "PayloadWindow",
    "QuestionRecord",
    "Queued",
    "Row",
    "Run",
    "RunQueue",
    "Runner",
    "Scan",
    "Stager",
    "StoredText",
    "applied",
    "apply",
    "ask",
    "authorize",
    "canonical",
    "chain_hash",
    "column_problems",
    "counters_of",
    "counters_text",
    "current_owner",
    "decide",
    "decode_row",
    "default_templates",
    "export_runs",
    "form",
    "in_order",
    "initial_run",
    "line_bytes",
    "loop",
    "metadata_of",
    "newest",
    "open_writer",
    "private_key",
    "prompt_places",
    "public_key",
    "read",
    "registry",
    "restore",
    "restore_run",
    "root_hash",
    "root_of",
    "row_of",
    "row_text",
    "rows_of",
    "run_line",
    "salted_digest",
    "take_up",
    "trials",
]
