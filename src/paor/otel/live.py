"""
Traces of runs while they go on: a hook that notes which runs have new rows, and a thread that reads them and sends their spans.

The hook does no more than that, so it costs a transition next to nothing, and what it keeps is bounded by the number of runs, not of
rows. A row is durable before the hook hears of it, and the thread reads it from the journal; so a span is never sent of a row that is
not there. What was not sent, because the process was killed or the receiver was away, is sent by ``paor trace`` later, with the same ids.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Self

from ..fsm.journal.reader import JournalReader, Readable, damage_told, reader_of
from ..fsm.journal.rows import transition_of
from ..fsm.runtime.events import Event, TransitionTaken
from ..fsm.runtime.logs import LOGGER
from ..states.base.errors import JournalBusy, PaorError, UnknownRun, UsageError
from ..states.run.phase_names import FINAL
from .content import Cleaner, content_wanted
from .reading import fold_of
from .run_spans import AGENT_SEQ, RunSpans
from .sending import sender_for
from .span import Span, span_id_of, trace_id_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

FOLDS_MAX = 256
"""Runs that are kept where they stand; of any other that goes on the rows are read again from the first."""

READ_MAX = 4096
"""Runs of which is kept how far they were read, so that no row is sent twice whose event comes after it was read."""

AGAIN_S = 0.05
"""Seconds after which a journal is read again that another process held."""

READERS_MAX = 64
"""Journals that are kept; of the rest the oldest is forgotten."""


@dataclass(slots=True)
class _Watched:
    """A run whose rows are read: by what, where it stands, and the first row whose spans are sent."""

    reader: JournalReader
    fold: RunSpans
    first: int


class OpenTelemetry:
    """
    Send spans of every run of an engine while it goes on: ``Engine(hooks=[OpenTelemetry()])``.

    A span is sent once it is over, that of a run when the run ends. Of a run that is resumed in another process only what is over from
    then on is sent. Nothing that goes wrong here changes a run: it is logged. With OTEL_SDK_DISABLED=true nothing is sent.

    Args:
        exporter: The address of a receiver, such as ``http://localhost:4318``, or a `SpanExporter` of OpenTelemetry's SDK; None: what the
            environment variables OTEL_EXPORTER_OTLP_... say, else ``http://localhost:4318``. It is closed with this.
        content: Whether prompts, replies, arguments, results, questions and answers are sent; None: what
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says, else no.
        journal: Where the rows are, for a hook that is called by something else than the engine it is given to.
        interval_s: Seconds for which spans are gathered before they are sent, from 0.01 to 3,600.

    Raises:
        MissingExtra: The extra ``otel`` is not installed.
        UsageError: An exporter, an address or an interval that cannot be used.
    """

    def __init__(
        self,
        exporter: SpanExporter | str | None = None,
        *,
        content: bool | None = None,
        journal: Readable | None = None,
        interval_s: float = 1.0,
    ) -> None:
        if isinstance(interval_s, bool) or not isinstance(interval_s, int | float):
            raise UsageError("interval_s must be a number of seconds")
        if not 0.01 <= interval_s <= 3600:
            raise UsageError(f"interval_s {interval_s}: expected seconds from 0.01 to 3600")
        self._sender = sender_for(exporter)
        self._content, self._interval_s = content_wanted(content), float(interval_s)
        self._cleaner = Cleaner()
        self._readers: OrderedDict[object, JournalReader] = OrderedDict()
        self._forget_thread()
        self._closed = False
        self._off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        if journal is not None:
            self.attach_journal(journal)
        atexit.register(self.close)
        os.register_at_fork(after_in_child=_forget_in_child(weakref.ref(self)))

    def _forget_thread(self) -> None:
        """Be as a new one is: a process that is a copy of another one has not the thread, nor what that was about to do."""
        self._changed = threading.Condition()
        self._due: dict[str, tuple[int, int]] = {}
        self._watched: OrderedDict[str, _Watched] = OrderedDict()
        self._read: OrderedDict[str, int] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._asked = self._done = 0

    def attach_journal(self, journal: Readable) -> None:
        """
        Take the journal of an engine that this is a hook of; the engine calls it, for each engine that has it.

        Args:
            journal: The `Journal` of that engine.
        """
        reader = reader_of(
            journal, "OpenTelemetry takes a Journal, such as OpenTelemetry(journal=engine.journal)"
        )
        place = id(reader) if reader.path in ("", ":memory:") else reader.place
        with self._changed:
            self._readers[place] = reader
            self._readers.move_to_end(place)
            if len(self._readers) > READERS_MAX:
                self._readers.popitem(last=False)

    def traceparent(self, workflow_id: str, round: int, run_id: str, seq: int | None) -> str:
        """
        Return the span of a call as W3C Trace Context has it, empty where nothing is sent; the engine asks before each call.

        Args:
            workflow_id, round: Of the run's trace.
            run_id: The run.
            seq: Number of the row that begins the call; None for one that goes on or is tried again: the run's own span.
        """
        if self._closed or self._off:
            return ""
        own = span_id_of(run_id, AGENT_SEQ, "agent") if seq is None else span_id_of(run_id, seq, "tool")
        return f"00-{trace_id_of(workflow_id, round)}-{own}-01"

    def __call__(self, event: Event) -> None:
        """Note that a run has a new row."""
        if isinstance(event, TransitionTaken) and not (self._closed or self._off):
            with self._changed:
                if not self._due:
                    self._changed.notify_all()
                first, _ = self._due.get(event.run_id, (event.seq, event.seq))
                self._due[event.run_id] = first, event.seq
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="paor-traces", daemon=True)
                    self._thread.start()

    def flush(self, timeout_s: float = 10.0) -> bool:
        """
        Send what is over now, and return whether that was done in time.

        Args:
            timeout_s: Seconds to wait at most, also for a journal that another process holds. What a receiver has not taken counts as
                done: it is logged.
        """
        until = monotonic() + timeout_s
        with self._changed:
            if self._thread is None or self._closed:
                return not self._due
            self._asked += 1
            asked = self._asked
            self._changed.notify_all()
            while self._done < asked and (left := until - monotonic()) > 0:
                self._changed.wait(left)
            return self._done >= asked

    def close(self, timeout_s: float = 10.0) -> None:
        """
        Send what is over, end the thread and close the exporter; calling it again does nothing. Python's exit calls it.

        Args:
            timeout_s: Seconds to wait at most for what is sent.
        """
        with self._changed:
            if self._closed:
                return
        if not self.flush(timeout_s):
            LOGGER.warning("traces: not all was sent within %g s; send it later with: paor trace", timeout_s)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(1)
        self._sender.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closed:
            asked, due = self._next()
            busy = False
            try:
                spans, busy = self._spans(due)
                self._send(spans)
            except Exception:  # whatever it is, runs go on
                LOGGER.exception("traces: some spans were not sent; send them later with: paor trace")
            with self._changed:
                if busy:  # who waits for a flush waits for the journal, too
                    self._changed.wait_for(lambda: self._closed, AGAIN_S)
                else:
                    self._done = asked
                    self._changed.notify_all()

    def _next(self) -> tuple[int, dict[str, tuple[int, int]]]:
        """Wait until there is something to do, and then for as long as more is gathered."""
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._hurried())
            self._changed.wait_for(self._hurried, self._interval_s)
            due, self._due = self._due, {}
            return self._asked, due

    def _hurried(self) -> bool:
        return self._asked > self._done or self._closed

    def _send(self, spans: list[Span]) -> None:
        sent, whole = self._sender.send(spans)
        if not whole:
            lost = len(spans) - sent
            LOGGER.warning("traces: %d spans were not taken; send them later with: paor trace", lost)

    def _spans(self, due: Mapping[str, tuple[int, int]]) -> tuple[list[Span], bool]:
        """Return the spans that are over with the new rows of runs, and whether a journal was busy, which is read the next time."""
        spans: list[Span] = []
        busy = False
        for run_id, (first, last) in due.items():
            seq = max(first, self._read.get(run_id, 0))
            if seq > last:  # a row is read as soon as it is durable, which is before its event
                continue
            try:
                watched = self._watched.pop(run_id, None) or self._watch(run_id, seq)
                if watched is not None:
                    seq = max(seq, watched.fold.next_seq)
                    spans += self._new_spans(run_id, watched)
            except JournalBusy:
                busy = True
                with self._changed:
                    self._due[run_id] = seq, max(last, self._due.get(run_id, (0, 0))[1])
            except PaorError as error:
                LOGGER.warning("traces: %s", error)
        return spans, busy

    def _watch(self, run_id: str, seq: int) -> _Watched | None:
        """Return where a run is read from its first row on; None for one of a journal that is not known here."""
        with self._changed:
            readers = tuple(reversed(self._readers.values()))
        for reader in readers:
            try:
                with damage_told(run_id), reader.snapshot() as still:
                    fold = fold_of(still, run_id, self._cleaner, content=self._content)
            except UnknownRun:
                continue
            if fold.run.row.run_id == run_id:
                return _Watched(reader, fold, seq)
        LOGGER.debug("traces: run %s is in no journal that is known here", run_id)
        return None

    def _new_spans(self, run_id: str, watched: _Watched) -> list[Span]:
        """Return the spans that are over with a run's new rows; then it is kept where it stands, unless it has ended."""
        spans: list[Span] = []
        ended = False
        with damage_told(run_id), watched.reader.snapshot() as still:
            for values in still.rows(watched.fold.run.row.run, watched.fold.next_seq):
                row = transition_of(values)
                found = watched.fold.take(row, still)
                spans += found if row.seq >= watched.first else []
                ended = row.dest in FINAL
        self._read[run_id] = watched.fold.next_seq
        self._read.move_to_end(run_id)
        if len(self._read) > READ_MAX:
            self._read.popitem(last=False)
        if not ended:
            self._watched[run_id] = watched
            if len(self._watched) > FOLDS_MAX:
                self._watched.popitem(last=False)
        return spans


def _forget_in_child(place: weakref.ref[OpenTelemetry]) -> Callable[[], None]:
    def forget() -> None:
        if (hook := place()) is not None:
            hook._forget_thread()

    return forget
