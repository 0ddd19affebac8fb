"""What the tests of this room look at inside the package: a module that moves is named here alone."""

from __future__ import annotations

from paor.fsm.decision.conversation import AGAIN, ANSWER_NOW, FAILED_AGAIN, LAST_WORDS
from paor.fsm.lifecycle.arguments import model_of
from paor.prompts.building.conversation import wire_names
from paor.prompts.clients import settings as settings_module
from paor.prompts.clients.client import LOADING_S, CallProgress
from paor.prompts.clients.facts import ANSWER_BYTES, KNOWN, listed_context
from paor.prompts.clients.prices import prices_of
from paor.prompts.clients.remedies import BY_CODE, next_step
from paor.prompts.clients.settings import is_local, said_scrubber
from paor.prompts.clients.wire.chat_completions import ChatWire
from paor.prompts.clients.wire.exchange import REPEATED_CHARS, said_once
from paor.prompts.clients.wire.faults import (
    AttemptFault,
    retry_after_s,
    status_fault,
    told_fault,
    words_of,
)
from paor.prompts.clients.wire.interface import Interface, ParsedReply
from paor.prompts.clients.wire.kept_turns import kept_parts
from paor.prompts.clients.wire.messages import MessagesWire
from paor.prompts.clients.wire.refusals import Refusal, refused
from paor.prompts.clients.wire.responses import ResponsesWire
from paor.prompts.model import FAULT_CODES, NOT_SHOWN, checked_reply, request_label
from paor.prompts.parsing.plans import read_plan, read_task_plan
from paor.prompts.parsing.provider_schema import plain_schema, strict_schema, wrapped
from paor.prompts.parsing.replies import (
    WRAPPER,
    DirectAnswer,
    Invalid,
    after,
    read_refinement,
    read_review,
    read_selection,
)
from paor.prompts.parsing.reply_forms import (
    Needs,
    Offer,
    refinement_form,
    review_form,
    selection_form,
    task_plan_form,
)
from paor.prompts.parsing.tool_calls import ROUNDED
from paor.prompts.parsing.turns import CALLS_MAX, ID_CHARS, Calls, read_turn
from paor.prompts.parsing.unparsed import BEHIND_WORDS, ODD, calls_in, with_thoughts_marked
from paor.states.base.secrets import PLACEHOLDERS, REDACTED, Scrubber, StreamScrubber
from paor.states.records.actions import WebFact
from paor.states.records.requests import RequestKind
from paor.states.run.budgets import REPLY_TOKENS_MIN, Reservation, allowance, refusal, reservation
