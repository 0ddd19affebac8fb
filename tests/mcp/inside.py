"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from paor.fsm.verify.verify import Defect
from paor.mcp_server.answering import TOOLS, Answerer, CallOutcome
from paor.mcp_server.answers import TOTAL_CHARS, Texts, visible, without_secrets
from paor.mcp_server.names import LEFT_OUT, field_of, moment_text, name_of, part_of
from paor.mcp_server.server import output_schema
from paor.states.records.actions import WebFact
from paor.tools.catalog import Catalog, fold_name
from paor.tools.mcp.naming import Listed, entries_of, prefix_of
from paor.tools.mcp.settings import McpSettings, settings_of
from paor.tools.mcp.stdio import messages_of
from paor.tools.mcp.wire import SiftedTransport
from paor.tools.tool import NAME
