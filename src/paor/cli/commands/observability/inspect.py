"""`paor inspect`: a page on this machine that shows runs as they go on, and takes the answers to what waits."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

import click

from ....inspect import naming_the_extra
from ...support.app import EngineOptions
from ...support.journals import busy_timeout_s, reading
from ...support.options import app_option, command, option
from ...support.streams import OK, say, say_json, tell
from ..run import login_name


@command(
    "inspect",
    "paor inspect",
    "paor inspect --journal runs.db --app shop:engine",
    "paor inspect --port 0 --read-only",
)
@option("--port", "N", "Default 7267; 0 takes one that is free.", type=click.IntRange(0, 65535), default=7267)
@option("--host", "ADDRESS", "Address to listen at; default 127.0.0.1.", default="127.0.0.1")
@click.option("--allow-remote", is_flag=True, help="Let other machines in that have the token.")
@option("--allow-host", "NAME", "Another name of this server; repeatable.", "hosts", multiple=True)
@click.option("--read-only", is_flag=True, help="Only look: nothing can be answered or changed.")
@app_option(after="With it runs go on here when they were answered.")
def inspect(
    port: int,
    host: str,
    allow_remote: bool,
    hosts: tuple[str, ...],
    read_only: bool,
    app: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """
    Show the runs of a journal in a browser, live, and answer what waits for a person.

    Prints the address with a token that is new with each start; anyone who opens it may see everything and answer. Other machines are let
    in only with --allow-remote. Without --app an answer is written, and the run goes on with paor resume or paor recover. Ctrl-C ends it.
    Needs paor[inspect].

    Exit codes: 0 ended with Ctrl-C, 2 bad input or journal, or an address that cannot be used.
    """
    with naming_the_extra():
        from ....inspect.access import access_of
        from ....inspect.actions import Acting, AsRecorded, ByEngine
        from ....inspect.application import Inspector
        from ....inspect.server import listen, run
    access = access_of(None, hosts=hosts, allow_remote=allow_remote)
    usual = login_name()
    with contextlib.ExitStack() as stack:
        acting: Acting | None = None
        if read_only:
            opened = stack.enter_context(EngineOptions(journal, app).looking())
        elif app is None:
            opened = stack.enter_context(reading(journal))
            acting = AsRecorded(journal, busy_timeout_s=busy_timeout_s())
        else:
            engine = stack.enter_context(EngineOptions(journal, app).driving())
            opened, acting = engine.journal, ByEngine(engine, None)
        inspector = Inspector(opened, acting, access, usual_actor=usual)
        bound = stack.enter_context(listen(host, port, allow_remote=allow_remote))
        out = sys.stdout

        def ready(address: str) -> None:
            with redirect_stdout(out):
                if as_json:
                    say_json({"url": address}, compact=True)
                else:
                    say(address)
                    tell(*_hints(app, read_only=read_only))

        with redirect_stdout(sys.stderr), contextlib.suppress(KeyboardInterrupt):
            run(inspector, bound, ready)
    return OK


def _hints(app: str | None, *, read_only: bool) -> Iterator[str]:
    """Yield the notes that the command prints before it serves."""
    yield "open it in a browser; anyone with this address can see everything" + (
        "" if read_only else ", and answer"
    )
    if not read_only and app is None:
        yield "answers are written; runs go on with: paor resume, paor recover, or inspect with --app MODULE:ENGINE"
    yield "Ctrl-C ends it"
