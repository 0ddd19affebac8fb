"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from paor.otel.content import Cleaner
from paor.otel.otlp_json import json_lines
from paor.otel.sending import sender_for
from paor.otel.span import conventions, limit, span_id_of, trace_id_of
