"""`paor mcp`: a read-only MCP server of a journal, for coding agents."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated

from ...fsm.journal.postgres.address import is_address
from ...fsm.journal_api import Journal
from ...mcp_server.answering import Answerer
from ...states.base.errors import MissingExtra
from ..support import terminal as io
from ..support.journals import busy_timeout_s
from ..support.options import command

_CONTENT = "Also show texts of users, models and tools, without keys, as untrusted data."


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
    from ...mcp_server.server import serve

    wait_s = busy_timeout_s()
    if is_address(journal) or os.path.exists(journal):
        with Journal(journal, read_only=True, busy_timeout_s=wait_s):
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
