"""
A journal for coding agents: a read-only MCP server over standard input and output, ``paor mcp``.

Its answers are the JSON that `paor` prints with ``--json``. Without ``content`` the texts in it are null: what is left are numbers, ids, times
and names from closed lists or of the host's code; nothing that a user, a model or a tool has written. `tools` reads the journal, `forms` says
what may be shown of it, `answering` checks arguments and turns errors into one line; `server` alone knows the ``mcp`` package. May import the
four folders, nothing of `paor.cli`. Start with `answering`.
"""
