"""`paor inspect`, `paor report`, `paor mcp`: runs in a browser, live or as one file, and served to coding agents."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from contextlib import redirect_stdout
from typing import Annotated

import click

from ...fsm.journal.postgres.address import is_address
from ...fsm.report.html import report_texts
from ...inspect import naming_the_extra
from ...states.base.errors import MissingExtra
from ..support import terminal as io
from ..support.journals import busy_timeout_s, find_run, reading
from ..support.options import APP, YOURS, Everything, Output, Redact, Run, command, refuse
from .transfer import redaction_given

_CONTENT = "Also show texts of users, models and tools, without keys, as untrusted data."
_PORT = {"type": click.IntRange(0, 65535), "default": 7267}


@command(
    "paor inspect", "paor inspect --journal runs.db --app shop:engine", "paor inspect --port 0 --read-only"
)
def inspect(
    port: Annotated[int, "--port N", "Default 7267; 0 takes one that is free.", _PORT],
    host: Annotated[
        str, "--host ADDRESS", "Address to listen at; default 127.0.0.1.", {"default": "127.0.0.1"}
    ],
    allow_remote: Annotated[bool, "--allow-remote", "Let other machines in that have the token."],
    hosts: Annotated[tuple[str, ...], "--allow-host NAME", "Another name of this server; repeatable."],
    read_only: Annotated[bool, "--read-only", "Only look: nothing can be answered or changed."],
    app: Annotated[str | None, APP, f"{YOURS} With it runs go on here when they were answered."],
    journal: str,
) -> int:
    """
    Show the runs of a journal in a browser, live, and answer what waits for a person.

    Prints the address with a token that is new with each start; anyone who opens it may see everything and answer. Other machines are let
    in only with --allow-remote. Without --app an answer is written, and the run goes on with paor resume or paor recover. Ctrl-C ends it.
    Needs paor[inspect].

    Exit codes: 0 ended with Ctrl-C, 2 bad input or journal, or an address that cannot be used.
    """
    with naming_the_extra():
        from ...inspect.access import access_of
        from ...inspect.actions import Acting, AsRecorded, ByEngine
        from ...inspect.application import Inspector
        from ...inspect.server import listen, run
    from ..support.app import EngineOptions

    access = access_of(None, hosts=hosts, allow_remote=allow_remote)
    with contextlib.ExitStack() as stack:
        acting: Acting | None = None
        if read_only:
            opened = stack.enter_context(EngineOptions(journal, app=app).looking())
        elif app is None:
            opened = stack.enter_context(reading(journal))
            acting = AsRecorded(journal, busy_timeout_s=busy_timeout_s())
        else:
            engine = stack.enter_context(EngineOptions(journal, app=app).driving())
            opened, acting = engine.journal, ByEngine(engine, None)
        inspector = Inspector(opened, acting, access)
        bound = stack.enter_context(listen(host, port, allow_remote=allow_remote))
        out = sys.stdout

        def ready(address: str) -> None:
            answers = "" if read_only else ", and answer"
            notes = [f"open it in a browser; anyone with this address can see everything{answers}"]
            if not read_only and app is None:
                notes.append(f"answers are written; runs go on with: {GOES_ON}")
            with redirect_stdout(out):
                if io.wants_json():
                    io.say_json({"url": address}, compact=True)
                else:
                    io.say(address)
                    io.tell(*notes, "Ctrl-C ends it")

        with redirect_stdout(sys.stderr), contextlib.suppress(KeyboardInterrupt):
            run(inspector, bound, ready)
    return io.OK


GOES_ON = "paor resume, paor recover, or inspect with --app MODULE:ENGINE"


@command(
    "paor report last --output run.html",
    "paor report last~1 --diff last --output compared.html",
    "paor report --all --redact default --output runs.html",
)
def report(
    name: Run,
    second: Annotated[str | None, "--diff OTHER", "A second run, side by side up to the first difference."],
    everything: Everything,
    redact: Redact,
    output: Output,
    journal: str,
) -> int:
    """
    Write a page of a run: what it did, why, what it could not do, and whether the journal holds.

    One HTML file that needs no server and no network, with the same bytes for the same journal. It shows the verdict, the calls,
    a timeline, every row with its prompt, reply and guards, the limits, the cost, and the machine as it went step by step.
    Keys of the environment are taken out. RUN is an id, an unambiguous start of one, or "last"; without it the newest run.

    Exit codes: 0 written, 2 no such run or file, 4 a row cannot be read.
    """
    refuse(
        (everything and (name is not None or second is not None), "--all goes without RUN and --diff"),
        (io.wants_json() and output is None, "--json tells what was written: it goes with --output"),
    )
    with reading(journal) as opened:
        one = None if everything else find_run(opened, name).run_id
        other = find_run(opened, second).run_id if second is not None else None
        texts = report_texts(opened, one, diff=other, redact=redaction_given(redact))
        written = io.say_or_write(output, map(str.encode, texts))
    return io.say_either({"run_id": one, "diff": other, "output": output, "bytes": written}, ())


@command("paor mcp --journal runs.db", "paor mcp --content", "paor mcp --journal runs.db --json")
def mcp(content: Annotated[bool, "--content", _CONTENT], journal: str) -> int:
    """
    Serve a journal to a coding agent: an MCP server over standard input and output.

    Its tools only read: runs, show, why, diff, verify and replay. Without --content its answers hold numbers, times and names,
    nothing that a user, a model or a tool has written. The journal may be written meanwhile, and need not be there yet.

    With --json nothing is served: it prints the entry with which coding agents start this server.

    Exit codes: 0 the client has ended the session, 2 not a paor journal, or the extra is not installed.
    """
    if io.wants_json():
        place = journal if is_address(journal) else os.path.abspath(journal)
        given = ["--journal", place, *(["--content"] if content else [])]
        entry = {"command": sys.executable, "args": ["-m", "paor", "mcp", *given]}
        io.say_json({"mcpServers": {"paor": entry}})
        return io.OK
    if importlib.util.find_spec("mcp") is None:
        raise MissingExtra('paor mcp needs the mcp package: pip install "paor[mcp]"')
    from ...mcp_server.answering import Answerer
    from ...mcp_server.server import serve

    wait_s = busy_timeout_s()
    if is_address(journal) or os.path.exists(journal):
        with reading(journal):
            pass  # said now by an exit code what every call would say
    else:
        io.tell(
            f"paor: {io.one_line(journal)}: there is no such journal yet; calls say so until a run creates it"
        )
    if sys.stdin.isatty():
        io.tell("paor: an MCP server for a coding agent, on standard input and output; Ctrl-C ends it")
    log = "paor: {}".format
    serve(Answerer(journal, content=content, busy_timeout_s=wait_s, log=lambda line: io.tell(log(line))))
    return io.OK
