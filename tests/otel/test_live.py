"""Traces of runs while they go on: a hook on the engine, real receivers over HTTP, processes that are killed, faults of all kinds."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paor import Journal
from paor.cli import main
from paor.errors import JournalBusy, UsageError
from paor.otel import OpenTelemetry, spans_of, trace_of
from paor.testing import SeededIds

from ..support.journey import CALL, SEND, play
from ..support.journeys import BY_NAME
from ..support.worlds import CONTINUE, JOURNAL, READ, STOP, SUCCESS, engine
from .kit import Compared, Receiver, Tap, check, compared

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs paor[otel]")

ROOT = Path(__file__).parents[2]
PAGE = [*READ(1), STOP, SUCCESS]


class Kept:
    """An exporter that keeps what it gets, does as it is told, and counts the times that it was closed."""

    def __init__(self, answer: Any = None) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        self.names: list[str] = []
        self.ids: list[str] = []
        self.closed = 0
        self.answer = answer or (lambda: SpanExportResult.SUCCESS)

    def export(self, spans: Sequence[Any]) -> Any:
        """Keep them."""
        answer = self.answer()
        self.names += [span.name for span in spans]
        self.ids += [f"{span.context.span_id:016x}" for span in spans]
        return answer

    def shutdown(self) -> None:
        """Count."""
        self.closed += 1


def test_a_run_s_spans_arrive_while_it_goes_on_and_are_those_of_its_journal(tmp_path: Path) -> None:
    """Byte for byte in ids, times, attributes, events and links; the first before the run has ended."""
    seen: list[int] = []
    with Receiver() as receiver, OpenTelemetry(receiver.url, interval_s=0.01) as hook:

        def look(event: Any) -> None:
            if event.kind == "transition" and event.seq == 3:
                hook.flush()
                seen.append(len(receiver.spans))

        with engine(tmp_path, PAGE, hooks=[hook, look]) as scripted:
            run_id = scripted.run("Read").run_id
            late = check(scripted.journal, run_id)
        hook.close()
        assert receiver.by_id == compared(late)
        assert len(receiver.spans) == len(late), "each once"
        assert seen == [3], "two requests and a call were over"


@pytest.mark.parametrize(
    "name", ["approved", "in_doubt_retry", "documents", "batch", "tool_error", "odd_texts"]
)
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_journeys_with_either_driver_are_sent_as_they_are_read(
    name: str, driver: str, tmp_path: Path
) -> None:
    """Also where the driver was lost on the way, and with texts."""
    with (
        Receiver() as receiver,
        OpenTelemetry(receiver.url, content=True) as hook,
        BY_NAME[name].engine(tmp_path, hooks=[hook]) as scripted,
    ):
        run_id = play(BY_NAME[name], scripted, driver=driver).run_id
        assert hook.flush()
        assert receiver.by_id == compared(trace_of(scripted.journal, run_id, content=True))


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["plain", "oteltap"])
def test_a_killed_agent_s_trace_is_whole_after_a_late_export_and_the_same_after_another(
    kind: str, tmp_path: Path
) -> None:
    """SIGKILL after every row, in real processes; what was over and sent before is not sent otherwise by the next ones."""
    if kind == "oteltap":
        pytest.importorskip("oteltap", reason="needs oteltap, of the extra dev")
    with Receiver() if kind == "plain" else Tap() as receiver:
        done = subprocess.run(
            [sys.executable, "-m", "tests.otel.killed", str(tmp_path), receiver.url],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        receiver.settle()
        cases = [json.loads(line) for line in done.stdout.splitlines()]
        rows = {case["row"] for case in cases}
        assert len(cases) == 2 * len(rows) and len(rows) > 25
        wholes = [_check_live(receiver.by_id, **case) for case in cases]
        for _ in range(2):
            before = len(receiver.spans)
            for case in cases:
                path = str(Path(case["folder"]) / JOURNAL)
                assert main(["trace", case["run_id"], "--journal", path, "--otlp", receiver.url]) == 0
            receiver.settle()
            again = dict(receiver.spans[before:])
            assert again == {key: data for whole in wholes for key, data in whole.items()}
            assert again.items() <= receiver.by_id.items()


def _check_live(known: Compared, row: int, sent: bool, run_id: str, folder: str) -> Compared:
    """Return the whole trace of a run that was killed; assert that nothing else was sent of it before, and what may be missing."""
    with Journal(Path(folder) / JOURNAL, read_only=True) as journal:
        whole = compared(check(journal, run_id))
    live = {key: data for key, data in known.items() if data["attributes"]["paor.run.id"] == run_id}
    assert live.items() <= whole.items()
    lost = [data["attributes"]["paor.row"] for key, data in whole.items() if key not in live]
    assert max(lost, default=0) <= row, "only what was over before the kill may be lost"
    assert not (sent and lost)
    return whole


def test_many_runs_at_once_are_sent_by_one_hook(tmp_path: Path) -> None:
    """Each whole, and each once."""
    with Receiver() as receiver, OpenTelemetry(receiver.url, interval_s=0.01) as hook:
        with engine(tmp_path, PAGE, hooks=[hook]) as scripted:

            async def many() -> Sequence[Any]:
                runs = [scripted.arun(f"Read {number}") for number in range(20)]
                found: Sequence[Any] = await asyncio.gather(*runs)
                return found

            results = asyncio.run(many())
            whole = [span for result in results for span in check(scripted.journal, result.run_id)]
        hook.close()
        assert receiver.by_id == compared(whole) and len(receiver.spans) == len(whole) == 120


# -- the journal that the hook reads ---------------------------------------------------------------------------------


def test_a_journal_that_is_closed_at_once_is_read_all_the_same(tmp_path: Path) -> None:
    """The thread opens the file by itself."""
    kept: Any = Kept()
    hook = OpenTelemetry(kept, interval_s=60)
    with engine(tmp_path, PAGE, hooks=[hook]) as scripted:
        scripted.run("Read")
    hook.close()
    assert len(kept.names) == 6 and kept.names[-1] == "invoke_agent paor"


def test_a_journal_in_memory_is_read_while_it_is_there(tmp_path: Path) -> None:
    """Flush before it is closed."""
    kept: Any = Kept()
    with (
        OpenTelemetry(kept) as hook,
        engine(tmp_path, PAGE, journal=Journal(":memory:"), hooks=[hook]) as scripted,
    ):
        scripted.run("Read")
        assert hook.flush()
        assert len(kept.names) == 6


def test_one_hook_serves_engines_with_journals_of_their_own(tmp_path: Path) -> None:
    """It is given each journal, at the start and when the hooks of an engine are set later."""
    kept: Any = Kept()
    with OpenTelemetry(kept) as hook:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            with engine(tmp_path / name, PAGE, ids=SeededIds(name)) as scripted:
                scripted.hooks = [hook]
                scripted.run("Read")
        assert hook.flush()
    assert len(kept.names) == 12 and kept.names.count("invoke_agent paor") == 2


def test_a_run_of_no_journal_that_is_known_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a word in the log: the fuzz kit has journals of its own."""
    kept: Any = Kept()
    with engine(tmp_path, PAGE) as scripted, OpenTelemetry(kept) as hook:
        scripted.hooks = [lambda event: hook(event)]
        scripted.run("Read")
        assert hook.flush() and kept.names == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_run_that_is_resumed_elsewhere_is_sent_from_there_on(tmp_path: Path) -> None:
    """What another process has sent is not sent twice."""
    journey = BY_NAME["approved"]
    kept: list[Any] = [Kept(), Kept()]
    with OpenTelemetry(kept[0]) as hook, journey.engine(tmp_path, hooks=[hook]) as scripted:
        waiting = scripted.run("Read")
        assert waiting.waiting_for is not None
    with OpenTelemetry(kept[1]) as hook, journey.engine(tmp_path, hooks=[hook]) as scripted:
        question = waiting.waiting_for.id
        result = scripted.resume(waiting.run_id, answer={"approve": True}, question=question)
        assert result.waiting_for is not None
        again = scripted.resume(result.run_id, answer={"action": "decline"}, question=result.waiting_for.id)
        whole = [span.span_id for span in spans_of(scripted.journal, again.run_id)]
    assert [*kept[0].ids, *kept[1].ids] == whole and kept[0].ids and kept[1].ids


# -- what goes wrong -----------------------------------------------------------------------------------------------------


def _raises() -> Any:
    raise RuntimeError("the exporter is broken")


@pytest.mark.parametrize("fault", ["raises", "refuses", "nobody", "silent"])
def test_a_receiver_that_fails_changes_no_run(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is logged, with what to do."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with Receiver() as receiver, socket.create_server(("127.0.0.1", 0)) as silent:
        receiver.refuse = 400
        exporter: Any = {
            "raises": Kept(_raises),
            "refuses": receiver.url,
            "nobody": "http://127.0.0.1:9",
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}",
        }[fault]
        with OpenTelemetry(exporter) as hook, engine(tmp_path, PAGE, hooks=[hook]) as scripted:
            result = scripted.run("Read")
            assert result.state == "Done"
            assert hook.flush(30)
            assert scripted.journal.verify() == []
        assert receiver.spans == []
    assert "6 spans were not taken; send them later with: paor trace" in caplog.text


def test_a_journal_that_is_damaged_or_gone_changes_no_other_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; the next run is sent."""
    kept: Any = Kept()
    with OpenTelemetry(kept, interval_s=60) as hook:
        (tmp_path / "a").mkdir()
        with engine(tmp_path / "a", PAGE, hooks=[hook]) as scripted:
            scripted.run("Read")
        (tmp_path / "a" / "runs.db").write_bytes(b"no journal any more")
        with engine(tmp_path, PAGE, hooks=[hook], ids=SeededIds("b")) as scripted:
            scripted.run("Read")
        hook.flush()
    assert len(kept.names) == 6
    assert "traces:" in caplog.text


def test_a_flush_waits_for_a_lock_of_another_process_within_its_bound(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A real lock, and a journal whose readers do not wait for it: what is over is sent once it is gone, or the flush says that it was not."""
    kept: list[Any] = [Kept(), Kept()]
    path = tmp_path / JOURNAL
    hooks = [OpenTelemetry(item, interval_s=60) for item in kept]
    with engine(tmp_path, PAGE, journal=Journal(path, "off", busy_timeout_s=0.01), hooks=hooks) as scripted:
        scripted.run("Read")
    lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    lock.execute("PRAGMA locking_mode=EXCLUSIVE")
    lock.executescript(
        "CREATE TABLE passing (a); DROP TABLE passing"
    )  # so that there is a log, and a lock on it
    with pytest.raises(JournalBusy), Journal(path, read_only=True, busy_timeout_s=0.01) as other:
        other.runs()
    assert not hooks[0].flush(0.2) and kept[0].names == []
    hooks[1].close(0.2)
    assert kept[1].names == [] and kept[1].closed == 1
    assert "traces: not all was sent within 0.2 s; send it later with: paor trace" in caplog.text
    flushed: list[bool] = []
    waiting = threading.Thread(target=lambda: flushed.append(hooks[0].flush(60)))
    waiting.start()
    assert flushed == [] and kept[0].names == []
    lock.close()
    waiting.join(60)
    assert flushed == [True] and len(kept[0].names) == 6
    hooks[0].close()


def _threads() -> set[threading.Thread]:
    """Return the threads of all hooks."""
    return {thread for thread in threading.enumerate() if thread.name == "paor-traces"}


def test_close_ends_the_thread_once_and_later_events_are_left_out(tmp_path: Path) -> None:
    """Also a hook that never heard of a run can be closed."""
    kept: Any = Kept()
    before = _threads()
    hook = OpenTelemetry(kept)
    assert hook.flush()
    with engine(tmp_path, PAGE, hooks=[hook]) as scripted:
        scripted.run("Read")
        hook.close()
        hook.close()
        assert hook.flush(0.01), "nothing is left, and nobody is waited for"
        assert (len(kept.names), kept.closed) == (6, 1)
    with engine(tmp_path, PAGE, hooks=[hook], ids=SeededIds("later")) as scripted:
        scripted.run("Read again")
    assert (len(kept.names), kept.closed) == (6, 1)
    assert _threads() <= before, "there is nobody left who could send"


@pytest.mark.whole
def test_python_s_exit_sends_what_is_over(tmp_path: Path) -> None:
    """A script that forgets to close it loses nothing."""
    program = """
import sys
from pathlib import Path
from pkgutil import resolve_name
from paor.otel import OpenTelemetry
from tests.support.worlds import engine
from tests.otel.test_live import PAGE
scripted = engine(Path(sys.argv[1]), PAGE, hooks=[OpenTelemetry(sys.argv[2], interval_s=60)])
print(scripted.run("Read").run_id)
scripted.close()
"""
    with Receiver() as receiver:
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), receiver.url],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert len(receiver.spans) == 6


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_copy_of_a_process_sends_by_itself(tmp_path: Path) -> None:
    """Of servers that fork, each child has a thread of its own, and none sends for its parent."""
    with Receiver() as receiver, OpenTelemetry(receiver.url, interval_s=0.05) as hook:
        (tmp_path / "a").mkdir()
        with engine(tmp_path / "a", PAGE, hooks=[hook]) as scripted:
            scripted.run("Read")
        assert hook.flush()
        child = os.fork()
        if not child:
            with engine(tmp_path, PAGE, hooks=[hook]) as scripted:
                scripted.run("Read")
            os._exit(0 if hook.flush() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(receiver.spans) == 12


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"exporter": "ftp://host"}, "such as http://localhost:4318"),
        ({"exporter": "localhost:4318"}, "such as http://localhost:4318"),
        ({"exporter": "http://me:secret@host"}, "with a login"),
        ({"exporter": 7}, "expected a SpanExporter"),
        ({"exporter": "http://h", "interval_s": 0}, "0.01 to 3600"),
        ({"exporter": "http://h", "interval_s": True}, "number of seconds"),
        ({"exporter": "http://h", "journal": "runs.db"}, "takes a Journal"),
    ],
)
def test_what_cannot_be_used_is_one_line(options: dict[str, Any], told: str) -> None:
    """Before any run; and no login is repeated."""
    with pytest.raises(UsageError, match=told) as error:
        OpenTelemetry(**options)
    assert "secret" not in str(error.value)


def test_the_environment_says_where_to_and_whether_with_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for every other program that is traced."""
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
        with OpenTelemetry() as hook, engine(tmp_path, PAGE, hooks=[hook]) as scripted:
            run_id = scripted.run("Read").run_id
            assert hook.flush()
            assert receiver.by_id == compared(spans_of(scripted.journal, run_id, content=True))


def test_the_environment_can_turn_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the SDK itself is turned off: nothing is sent, no thread is started, and it is closed as ever."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    kept: Any = Kept()
    before = _threads()
    with OpenTelemetry(kept) as hook, engine(tmp_path, PAGE, hooks=[hook]) as scripted:
        assert scripted.run("Read").state == "Done"
        assert hook.flush()
        assert _threads() <= before
    hook.close()
    assert kept.names == [] and kept.closed == 1


@pytest.mark.whole
def test_many_spans_go_in_requests_of_bounded_size(tmp_path: Path) -> None:
    """A receiver refuses what is too long."""
    replies = [reply for page in range(100) for reply in (*READ(page), CONTINUE)]
    with Receiver() as receiver, OpenTelemetry(receiver.url, interval_s=60) as hook:
        limits: dict[str, Any] = {"limits": {"max_steps": 200}}
        with engine(
            tmp_path, [*replies, *SEND("x"), *CALL("notes.fail"), STOP, SUCCESS], hooks=[hook]
        ) as scripted:
            run_id = scripted.run("Read", **limits).run_id
            spans = check(scripted.journal, run_id)
        assert hook.flush()
        assert receiver.by_id == compared(spans) and len(spans) > 400
        assert receiver.requests == -(-len(spans) // 256)
