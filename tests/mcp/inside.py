"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from paor.fsm.explain.story import LEFT_OUT, name_of
from paor.fsm.verify.verify import Defect
from paor.mcp_server.answering import Answerer, CallOutcome
from paor.mcp_server.forms import TOTAL_CHARS, Texts, as_field, as_part, visible, without_secrets
from paor.mcp_server.tools import TOOLS
from paor.states.records.actions import WebFact
from paor.tools.catalog import Catalog, fold_name
from paor.tools.mcp.naming import Listed, entries_of, prefix_of
from paor.tools.mcp.settings import McpSettings, settings_of
from paor.tools.mcp.stdio import messages_of
from paor.tools.mcp.wire import SiftedTransport
from paor.tools.tool import NAME
