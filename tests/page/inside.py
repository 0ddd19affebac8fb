"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from paor.fsm.journal.feeds import KEPT, KEPT_BYTES, Feed
from paor.fsm.journal.prompts import Known, prompt_places
from paor.fsm.journal.read_ahead import ReadAhead
from paor.fsm.journal.reader import JournalReader
from paor.fsm.journal.rows import Transition
from paor.fsm.journal.sqlite.source import SqliteSource
from paor.fsm.replay.payload_window import PayloadWindow
from paor.fsm.report.html import content_policy, page_html, page_texts, report_texts
from paor.fsm.report.run_view import CHUNK, RunView
from paor.fsm.report.view import JournalView
from paor.fsm.verify.verify import RunDefects, run_defects
from paor.inspect.access import access_of
from paor.inspect.actions import AsRecorded
from paor.inspect.application import ACTORS, FOUND_MAX, Inspector, search
from paor.inspect.live_events import EventStream
from paor.inspect.server import base_address, listen, serve, server_of
from paor.inspect.views import Changes, Views
