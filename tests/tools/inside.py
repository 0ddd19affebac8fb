"""What the tests of this room look at inside the package: a module that moves is named here alone."""

from __future__ import annotations

from paor.fsm.decision.duplicate_calls import duplicate_key, extend_window, rule_broken, window_length
from paor.fsm.decision.observation import line, observation_of, shown_arguments
from paor.fsm.runtime.calls import Timing, wait_for
from paor.fsm.runtime.timed_calls import GRACE_S
from paor.fsm.workflow.source import CHARS_MAX, DEPTH_MAX, VALUES_MAX, Place, SourceError, read_source
from paor.prompts.building.history import ARGUMENTS_CHARS, arguments_text
from paor.prompts.parsing.json_reading import json_value
from paor.prompts.parsing.reply_forms import answer_form
from paor.states.records.actions import Effect, Preview, StoredText
from paor.states.records.observations import CUT, clean, cut
from paor.states.run.phase_names import OBSERVING
from paor.tools import signature as signature_module
from paor.tools.addresses import is_public
from paor.tools.documents import files as files_module
from paor.tools.documents.files import outside
from paor.tools.documents.tools import extract, generate_report, process, readable
from paor.tools.policy import denial, folded_pattern, matches, unsafe, unsafe_address
from paor.tools.process.child import ChildProcess
from paor.tools.schema.canonical import DEPTH_MAX as canonical_DEPTH_MAX
from paor.tools.schema.canonical import NotJson, dump, plain
from paor.tools.schema.compiler import ROUGH_TEXT_MAX
from paor.tools.schema.parameters import SCHEMA_BYTES_MAX, ParameterSchema, Problem, canonical_arguments
from paor.tools.schema.parameters import SchemaError as parameters_SchemaError
from paor.tools.schema.problems import MESSAGE_MAX, locate
from paor.tools.signature import BindError, SchemaError, bind, context_parameter, schema_of
from paor.tools.signature import summary_of as signature_summary_of
