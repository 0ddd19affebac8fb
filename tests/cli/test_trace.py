"""``paor trace``: what is written and sent, that it is the same each time, and how faults are told."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paor import Journal, Limits
from paor.cli import main
from paor.otel import trace_of

from ..otel.kit import Receiver, compared, of_lines
from ..support.forging import forge
from ..support.journey import play
from ..support.journeys import BY_NAME
from ..support.lean import paor_lean
from ..support.worlds import JOURNAL, READ, STOP, SUCCESS, engine

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs paor[otel]")


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a journal with an ended run, and one after it that waits."""
    path = tmp_path / JOURNAL
    monkeypatch.setenv("PAOR_JOURNAL", str(path))
    with BY_NAME["two_pages"].engine(tmp_path) as scripted:
        play(BY_NAME["two_pages"], scripted)
    with BY_NAME["approved"].engine(tmp_path, ids=None) as scripted:
        assert scripted.run("Send").status == "waiting"
    yield path


def spans(path: Path, *, content: bool = False) -> dict[str, object]:
    """Return the spans of all runs of a journal."""
    found: dict[str, object] = {}
    with Journal(path, read_only=True) as read:
        for row in read.runs():
            found |= compared(trace_of(read, row.run_id, content=content))
    return found


def test_a_file_has_the_spans_and_the_same_bytes_each_time(
    journal: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Every line is OTLP JSON; standard output has the same bytes; a run by itself has its own."""
    file = tmp_path / "runs.otlp.jsonl"
    assert main(["trace", "--all", "--output", str(file)]) == 0
    told = capsysbinary.readouterr()
    assert told.out == b"" and b"1 run not ended" in told.err
    assert of_lines(file.read_bytes()) == spans(journal)
    for _ in range(2):
        assert main(["trace", "--all", "--output", "-"]) == 0
        assert capsysbinary.readouterr().out == file.read_bytes()
    assert main(["trace", "last~1", "--output", "-", "--json"]) == 0
    one = of_lines(capsysbinary.readouterr().out)
    assert one.items() < spans(journal).items()
    assert [span["name"] for span in one.values()][-1] == "invoke_agent paor"
    assert main(["trace", "last~1", "--output", str(file), "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"runs": 1, "spans": len(one), "traces": 1}
    assert main(["trace", "--all", "--content", "--output", "-"]) == 0
    assert of_lines(capsysbinary.readouterr().out) == spans(journal, content=True) != spans(journal)


def test_a_receiver_gets_the_same_spans_each_time(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And what was sent is told."""
    with Receiver() as receiver:
        assert main(["trace", "--all", "--otlp", receiver.url]) == 0
        whole = spans(journal)
        assert capsys.readouterr().out == f"sent {len(whole)} spans of 2 runs\n"
        assert main(["trace", "--all", "--json", "--otlp", f"{receiver.url}/v1/traces"]) == 0
        assert json.loads(capsys.readouterr().out) == {"runs": 2, "spans": len(whole), "traces": 2}
        assert receiver.by_id == whole and len(receiver.spans) == 2 * len(whole)


def closed_port() -> int:
    """Return a port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give either --otlp URL or --output FILE"),
        (["--otlp", "http://127.0.0.1:1", "--output", "x"], "give either"),
        (["last", "--all", "--output", "-"], "--all goes without RUN"),
        (["--otlp", "ftp://127.0.0.1"], "such as http://localhost:4318"),
        (["--otlp", "http://"], "such as http://localhost:4318"),
        (["--otlp", "http://[::1"], "such as http://localhost:4318"),
        (["--otlp", "http://a\nb"], "such as http://localhost:4318"),
        (["--otlp", "http://me:hunter2hunter2@127.0.0.1:1"], "with a login"),
        (
            ["--otlp", "http://127.0.0.1:PORT"],
            "http://127.0.0.1:PORT/v1/traces: cannot be reached (Connection refused)",
        ),
        (["--otlp", "http://no-such-host.invalid"], "cannot be reached"),
        (["no-such-run", "--output", "-"], "there is no run"),
        (["--output", "no/such/folder/x"], "cannot be written"),
        (["--output", "JOURNAL"], "would replace the journal"),
    ],
)
def test_a_fault_is_one_line_and_exit_code_2(
    arguments: list[str], told: str, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, and without a login that was given."""
    port = str(closed_port())
    given = [item.replace("PORT", port).replace("JOURNAL", str(journal)) for item in arguments]
    assert main(["trace", *given]) == 2
    said = capsys.readouterr()
    assert told.replace("PORT", port) in said.err and said.out == ""
    lines = [line for line in said.err.splitlines() if not line.startswith("help:")]
    assert len(lines) == 1 and "hunter2" not in said.err


@pytest.mark.parametrize(("status", "told"), [(404, "404"), (400, "400")])
def test_a_receiver_that_does_not_take_it_is_told_by_its_status(
    status: int, told: str, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, with what the exporter knows, and nothing of its own log."""
    with Receiver() as receiver:
        receiver.refuse = status
        assert main(["trace", "last", "--otlp", receiver.url]) == 2
    said = capsys.readouterr()
    assert "did not take the spans after 0 of them" in said.err and told in said.err
    assert len(said.err.splitlines()) == 1 and said.out == ""


@pytest.mark.whole
def test_a_receiver_that_never_answers_is_given_up_after_the_exporter_s_timeout(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection and says nothing: one line and exit code 2, as for one that refuses."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert main(["trace", "last", "--otlp", f"http://127.0.0.1:{silent.getsockname()[1]}"]) == 2
        silent.accept()[0].close()  # it was reached
    said = capsys.readouterr()
    assert "did not take the spans after 0 of them" in said.err
    assert len(said.err.splitlines()) == 1 and said.out == ""


def test_a_damaged_journal_is_exit_code_4(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for every command."""
    with forge(journal) as file:
        file.execute("UPDATE transitions SET request = '7' WHERE seq = 2")
    assert main(["trace", "--all", "--output", "-"]) == 4
    assert "paor verify" in capsys.readouterr().err


@pytest.mark.whole
def test_without_the_extra_files_are_written_and_sending_says_what_to_install(
    journal: Path, tmp_path: Path
) -> None:
    """The core derives and writes spans; only sending needs OpenTelemetry."""
    where = f"--journal {journal}"
    written, sent = paor_lean(
        tmp_path, f"trace last --output - {where}", f"trace last --otlp http://127.0.0.1:9 {where}"
    )
    assert written.code == 0 and len(of_lines(written.out.encode())) == 2
    assert (sent.code, sent.err) == (
        2,
        'paor: sending traces needs OpenTelemetry: pip install "paor[otel]"\n',
    )


@pytest.mark.whole
def test_a_reader_that_goes_away_ends_it_quietly(journal: Path, tmp_path: Path) -> None:
    """``paor trace --all --output - | head -1``."""
    replies = [
        reply for page in range(60) for reply in (*READ(page), {"decision": "continue", "reason": "x"})
    ]
    (tmp_path / "long").mkdir()
    with engine(
        tmp_path / "long", [*replies, *READ(1), STOP, SUCCESS], limits=Limits(max_steps=100)
    ) as scripted:
        scripted.run("Read")
    command = [sys.executable, "-m", "paor", "trace", "--all", "--output", "-"]
    process = subprocess.Popen(
        [*command, "--journal", str(tmp_path / "long" / JOURNAL)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert (process.wait(60), process.stderr.read()) == (0, b"")
    process.stderr.close()
