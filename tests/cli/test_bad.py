"""Bad inputs: one calm line, the right code, no traceback, and no file where nothing was to be written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paor.errors import InternalError

from ..support.cli_support import DONE, SUCCESS, Said, Shell, Terminal, environ

READING = (
    ("runs",),
    ("show",),
    ("show", "last"),
    ("show", "last", "--steps"),
    ("show", "last", "--documents"),
    ("show", "last", "--content", "0"),
    ("show", "last", "--follow"),
    ("verify",),
    ("replay",),
    ("replay", "last"),
    ("export",),
    ("diagram", "last"),
)
NAMING = (("resume", "last"), ("cancel", "last"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--document", "nope.txt"), "nope.txt: there is no such file"),
        (("--document", "folder"), "folder: is a directory"),
        (("--document", "binary.dat"), "'binary.dat' is binary data"),
        (("--document", "picture.png"), "'picture.png' is a picture"),
        (("--document", "archive.zip"), "'archive.zip' is a ZIP archive"),
        (("--document", "empty.txt"), "empty.txt: the document is empty"),
        (
            ("--document", "nope.txt", "--document", "empty.txt"),
            "nope.txt: there is no such file; empty.txt: the",
        ),
        (("--document", "bad\0name"), "is not a file name"),
        (("--document", "-"), "stdin: the document is empty"),
        (("--criterion", " "), "a criterion is empty"),
        (("--tools", "nope"), "unknown tool 'nope'; there are: ai.process"),
        (("--model", "nope"), "unknown model 'nope'"),
        (("--model", "script:nope.json"), "script nope.json: No such file"),
        (("--model", "script:text.txt"), "script text.txt: expected a JSON list"),
        (("--mode", "chat"), "mode 'chat' is unknown"),
        (("--prompt-template", "nope.md"), "nope.md: cannot be read"),
        (("--prompt-template", "empty.txt"), "empty.txt: the template is empty"),
        (("--prompt-template", "binary.dat"), "binary.dat: is not UTF-8 text"),
        (("--prompt-template", "twice.md"), "may stand once"),
        (("--max-steps", "0"), "max_steps: must be greater than or equal to 1, not 0"),
        (("--token-budget", "-1"), "token_budget: must be"),
        (("--time-budget", "nan"), "time_budget_s: must be a finite number"),
        (("--durability", "maybe"), "durability 'maybe': expected one of full, normal, off"),
        (("--output", "a.pdf"), "--output a.pdf: the ending must be one of .md, .markdown, .txt"),
        (("--output", "nowhere/a.md"), "there is no folder"),
        (("--output", "folder.md"), "--output folder.md: is a directory"),
        (("--output", "bad\0name.md"), "is not a file name"),
        (("--output", "note.md", "--document", "note.md"), "would replace what the run reads"),
        (("--output", "/proc/a.md"), "the folder cannot be written"),
        (("--journal", "text.txt"), "text.txt: is not an SQLite file"),
        (("--journal", "foreign.db"), "foreign.db: is not a paor journal"),
        (("--journal", "folder"), "folder: is a directory"),
        (("--journal", "nowhere/a.db"), "nowhere/a.db: cannot be opened"),
        (("--journal", "bad\0name"), "is not a file name"),
        (("--input", "{"), "--input: is not JSON"),
        (("--input", "[" * 100_000), "--input: is not JSON (nested too deeply)"),
        (("--input", "[1]"), "--input: expected a JSON object"),
        (("--input", "nope.json"), "nope.json: cannot be read"),
        (("--input", "empty.txt"), "empty.txt: is not JSON"),
        (("--input", '{"objektive": "x"}'), "unknown field 'objektive'; did you mean objective?"),
        (("--input", '{"zzz": "x"}'), "unknown field 'zzz'; there are: after, app, connections"),
        (("--input", '{"objective": 5}'), "objective must be a text"),
        (("--input", '{"maxSteps": "5"}'), "maxSteps must be a number"),
        (("--input", '{"maxSteps": true}'), "maxSteps must be a number"),
        (("--input", '{"maxSteps": 5.5}'), "max_steps: must be a valid integer"),
        (("--input", '{"maxSteps": NaN}'), "NaN is not a JSON number"),
        (("--input", '{"maxSteps": 5, "max_steps": 6}'), "gives max_steps a second time"),
        (("--input", '{"limits": {"nope": 5}}'), "limits: unknown field 'nope'; there are: max_steps"),
        (("--input", '{"limits": 5}'), "limits must be an object"),
        (("--input", '{"documents": [5]}'), "documents must be a list"),
        (("--input", '{"documents": [{"name": "a"}]}'), "documents: expected paths or objects"),
        (("--input", '{"success_criteria": [5]}'), "success_criteria must be a list"),
        (("--input", '{"final_format": "pdf"}'), "final_format 'pdf'"),
        (("--input", "-", "--document", "-"), "can be read once only"),
    ],
)
def test_run_refuses_what_it_cannot_use_before_anything_starts(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    (shell.folder / "folder").mkdir()
    (shell.folder / "folder.md").mkdir()
    for name, content in (
        ("binary.dat", b"\x00\x01\xff\xfe\x00"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00"),
        ("archive.zip", b"PK\x03\x04zzzz"),
        ("empty.txt", b""),
        ("text.txt", b"hello"),
        ("note.md", b"# Tea"),
        ("twice.md", b"a\n=== user ===\nb\n=== user ===\nc"),
    ):
        shell.write(name, content)
    shell.sql("CREATE TABLE other (x)", journal="foreign.db")
    before = shell.files()
    shell("run", "Write it", *arguments).refused(*words.split("; there are: "))
    assert shell.files() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "the objective is empty"),
        (("run", " "), "the objective is empty"),
        (("run", "-"), "the objective is empty"),
        (("run", "x", "--modle", "offline"), "No such option"),
        (("run", "x", "--max-steps", "five"), "'five' is not a valid integer"),
        *(
            ((*line.split(), ""), f"{line.split()[-1]}: expected a file name")
            for line in (
                *(
                    "verify --heads",
                    "verify --public-key",
                    "heads --sign",
                    "export --redact",
                    "export --output",
                ),
                *(
                    "run x --journal",
                    "run x --workflow",
                    "run x --output",
                    "run x --policy",
                    "run x --document",
                ),
                *("run x --prompt-template", "run x --output-schema", "fork x --prompt-template"),
                *("bisect a b --other", "diff a b --other", "trace --output"),
            )
        ),
        (("run", "list", "it's", "all"), """put it in quotes: 'list it'"'"'s all'"""),
        (("resume",), "Missing argument 'RUN'"),
        (("resume", "x", "--outcome", "maybe"), "'maybe' is not one of"),
        (("cancel",), "Missing argument 'RUN'"),
        (("runs", "--limit", "-1"), "--limit"),
        (("show", "--steps", "--documents"), "exclude each other"),
        (("diagram", "--format", "png"), "'png' is not one of"),
        (("frobnicate",), "No such command 'frobnicate'"),
        (("--frobnicate",), "No such option"),
    ],
)
def test_usage_errors_are_short_and_name_the_help(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    said = shell(*arguments)
    said.refused(words, lines=2)
    assert "help: paor" in said.err or "objective" in words
    assert shell.files() == set()


@pytest.mark.parametrize("words", [("Write it", "a note.md"), ("a note.md", "Write it", "none.md")])
def test_a_document_without_its_option_is_told_the_option(shell: Shell, words: tuple[str, ...]) -> None:
    shell.write("a note.md", b"# Tea")
    shell("run", *words).refused("are given with an option: --document 'a note.md'", lines=2)
    assert shell.files() == {"a note.md"}


def test_input_that_is_not_text_is_refused(shell: Shell) -> None:
    for arguments in (("run", "-"), ("run", "--input", "-")):
        shell(*arguments, stdin=b"\xff\xfe").refused("standard input is not UTF-8 text")


def test_no_command_but_run_creates_a_journal(shell: Shell) -> None:
    shell.write("text.db", "hello")
    (shell.folder / "folder").mkdir()
    shell.sql("CREATE TABLE other (x)", journal="foreign.db")
    shell.sql("PRAGMA journal_mode=WAL", journal="wal.db")
    shell.sql("CREATE TABLE other (x)", journal="wal.db")
    before = shell.files()
    for command in ("inspect", "why", "report", "recover"):
        shell(command).refused("paor.db: there is no such journal")
    for arguments in (*READING, *NAMING):
        shell(*arguments).refused("paor.db: there is no such journal")
        shell(*arguments, "--journal", "text.db").refused("text.db: is not an SQLite file")
        shell(*arguments, "--journal", "folder").refused("folder: is a directory")
        shell(*arguments, "--journal", "foreign.db").refused("foreign.db: is not a paor journal")
        shell(*arguments, "--journal", "wal.db").refused("wal.db: is not a paor journal")
        shell(*arguments, "--journal", "nowhere/a.db").refused("nowhere/a.db: there is no such journal")
        shell(*arguments, "--journal", "bad\0name").refused("is not a file name")
    assert shell.files() == before


def test_reading_changes_nothing_and_a_newer_journal_is_not_read(shell: Shell) -> None:
    """By its name or by a link to it."""
    shell.write("note.txt", "Tea.")
    shell.run("--document", "note.txt")
    (shell.folder / "link.db").symlink_to("paor.db")
    before = {name: (shell.folder / name).read_bytes() for name in shell.files()}
    for arguments in READING:
        assert shell(*arguments).code == shell(*arguments, "--journal", "link.db").code == 0, arguments
    assert {name: (shell.folder / name).read_bytes() for name in shell.files()} == before
    shell.sql("PRAGMA user_version=99")
    for arguments in (*READING, *NAMING):
        shell(*arguments).refused("has schema 99", "upgrade paor")


def test_a_bad_timeout_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("soon", "-1", "nan"):
        monkeypatch.setenv("PAOR_BUSY_TIMEOUT_S", text)
        shell("run", "x").refused(f"PAOR_BUSY_TIMEOUT_S='{text}'")
        shell("runs").refused("PAOR_BUSY_TIMEOUT_S")


# -- locked, read-only, full -------------------------------------------------------------------------------------


@pytest.fixture
def locked(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another connection holds the write lock of a journal with one run."""
    shell.run()
    monkeypatch.setenv("PAOR_BUSY_TIMEOUT_S", "0.2")
    connection = sqlite3.connect(shell.folder / "paor.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()


def test_a_locked_journal_is_busy_for_writers_only(shell: Shell, locked: None) -> None:
    shell.run().refused("paor.db: another process holds the journal")
    for arguments in READING:
        if "--content" not in arguments:
            assert shell(*arguments).code == 0, arguments


def mounted(folder: Path, options: str) -> None:
    """Mount a small file system of its own, or skip."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("a file system cannot be mounted here")


@pytest.fixture
def disk(shell: Shell) -> Iterator[Path]:
    """A small file system; needs root."""
    folder = shell.folder / "disk"
    mounted(folder, "size=1m")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_read_only_folder_can_be_read_and_not_written(shell: Shell, disk: Path) -> None:
    assert shell.run("--journal", "disk/a.db").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    shell.run("--journal", "disk/a.db").refused("disk/a.db: cannot be")
    shell.run("--journal", "disk/b.db").refused("disk/b.db: cannot be")
    shell.run("--output", "disk/a.md").refused("--output disk/a.md: the folder cannot be written")
    for arguments in READING:
        if "--content" not in arguments:
            assert shell(*arguments, "--journal", "disk/a.db").code == 0, arguments
    assert {path.name for path in disk.iterdir()} == {"a.db"}


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(shell: Shell, disk: Path) -> None:
    assert shell.run("--journal", "disk/a.db").code == 0
    free = os.statvfs(disk)
    (disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 300_000))
    long = [*DONE[:4], SUCCESS | {"answer": "x" * 400_000}]
    model = shell.script(*long)
    said = shell("run", "Write it", "--tools", "ai.process", "--model", model, "--journal", "disk/a.db")
    said = Said(said.code, said.out, said.err.removeprefix("model: scripted (from --model)\n"))
    said.refused("disk/a.db: cannot be written", "resume when it can be")
    (disk / "filler").unlink()
    assert "nobody drives it" in shell("runs", "--journal", "disk/a.db").out
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    said = shell("resume", "last", "--model", model, "--journal", "disk/a.db")
    assert (said.code, len(said.out)) == (0, 400_001), said.err


# -- output that cannot be written -------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize(
    "command",
    ["export", "show", "run x --tools ai.process --model script:script.json", "--help", "runs --json"],
)
def test_a_reader_that_has_gone_is_no_error(shell: Shell, command: str) -> None:
    shell.run()
    process = shell.start(*command.split())
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    for word in (b"Broken", b"Traceback", b"Exception"):
        assert word not in err


@pytest.mark.parametrize("words", ["export", "", "--help", "--version", "runs --help"])
def test_output_on_a_full_device_is_one_line(shell: Shell, words: str) -> None:
    shell.run()
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "paor", *words.split()]
        done = subprocess.run(command, cwd=shell.folder, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"paor: the output cannot be written (No space left on device)\n"


@pytest.mark.whole
def test_messages_that_nobody_can_read_are_no_error(shell: Shell) -> None:
    command = [
        sys.executable,
        "-m",
        "paor",
        "run",
        "x",
        "--tools",
        "ai.process",
        "--model",
        shell.script(*DONE),
    ]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=shell.folder, stdout=subprocess.PIPE, stderr=full, check=False)
    assert (done.returncode, done.stdout) == (0, b"It is **done**.\n")


class Gone(Terminal):
    """A standard output that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, _: str) -> int:
        """Fail."""
        raise self.error


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        (("show",), BrokenPipeError(), 0),
        (("show",), OSError(28, "No space left on device"), 2),
        (("resume", "last"), BrokenPipeError(), 6),
        (("--help",), BrokenPipeError(), 0),
    ],
)
def test_lost_output_in_this_process(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], error: OSError, code: int
) -> None:
    from paor.cli import main

    shell.run("--token-budget", "1")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", Gone(error))
        assert main(list(arguments)) == code


@pytest.mark.whole
def test_text_is_written_in_any_encoding(shell: Shell) -> None:
    model = shell.script(*DONE[:4], SUCCESS | {"answer": "caf\u00e9 → ␛"})
    said = shell.process("run", "x", "--tools", "ai.process", "--model", model, PYTHONIOENCODING="ascii")
    assert (said.code, said.out) == (0, "caf\\xe9 \\u2192 \\u241b\n")
    assert "Planning -> Specifying" in shell.process("show", PYTHONIOENCODING="ascii", COLUMNS="120").out
    assert "Planning → Specifying" in shell.process("show", PYTHONIOENCODING="utf-8", COLUMNS="120").out
    assert "café → ␛" in shell.process("resume", "last", "--json", PYTHONIOENCODING="ascii").out


# -- what should never happen ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            ZeroDivisionError("oh\nno"),
            1,
            "paor: internal error: ZeroDivisionError: oh no; set PAOR_TRACEBACK=1 for the whole traceback\n",
        ),
        (InternalError("an invariant"), 1, "paor: internal error: InternalError: an invariant"),
        (KeyboardInterrupt(), 130, "\npaor: interrupted\n"),
    ],
)
def test_an_unexpected_exception_is_one_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, told: str
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("paor.cli.commands.diagram.drawn", broken)
    said = shell("diagram")
    assert (said.code, said.out) == (code, "") and said.err.startswith(told.partition(" for the")[0])
    assert len(said.err.strip().splitlines()) == 1
    if isinstance(error, ZeroDivisionError):
        monkeypatch.setenv("PAOR_TRACEBACK", "1")
        with pytest.raises(ZeroDivisionError):
            shell("diagram")


@pytest.mark.parametrize("place", [100, 8192])
def test_verify_of_a_file_that_sqlite_cannot_read_is_a_defect(shell: Shell, place: int) -> None:
    """Also as JSON, and it does not advise what was just done."""
    assert shell.run().code == 0
    path = shell.folder / "paor.db"
    data = path.read_bytes()
    path.write_bytes(data[:place] + b"\xa5" * 200 + data[place + 200 :])
    said = shell("verify")
    assert said.code == 4
    assert "file: paor.db: is damaged (" in said.out
    assert "run: paor verify" not in said.out + said.err
    said = shell("verify", "--json")
    assert (said.code, said.json["ok"], said.json["defects"][0]["place"]) == (4, False, "file")


@pytest.mark.whole
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_internal_error(shell: Shell, closed: str) -> None:
    """As a daemon or a careless script starts a program; what would be printed goes nowhere."""
    assert shell.run().code == 0
    for arguments, code in (("show", 0), ("verify --json", 0), ("export", 0), ("run -", 2), ("nothing", 2)):
        command = f'"{sys.executable}" -m paor {arguments} {closed}'
        done = subprocess.run(
            ["sh", "-c", command], cwd=shell.folder, env=environ({}), capture_output=True, check=False
        )
        assert done.returncode == code, (arguments, done)
        assert b"internal error" not in done.stderr


def test_a_device_or_pipe_is_no_trap(shell: Shell) -> None:
    """Reading one must neither wait nor take all memory."""
    os.mkfifo(shell.folder / "pipe")
    for arguments in READING:
        if "--content" not in arguments:
            shell(*arguments, "--journal", "pipe").refused(
                "pipe: is not a paor journal but a device or a pipe"
            )
    given = ("--input", '{"objective": "x", "documents": ["/dev/zero"], "limits": {"document_bytes": 5000}}')
    shell("run", *given).refused("/dev/zero: more than 5000 bytes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paor.cli.support.json_input.TEXT_BYTES_MAX", 5000)
        shell.run("--prompt-template", "/dev/zero").refused("/dev/zero: more than 5,000 bytes")
        shell("run", "--input", "/dev/zero").refused("/dev/zero: more than 5,000 bytes")
