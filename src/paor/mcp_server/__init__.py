"""
A journal for coding agents: a read-only MCP server over standard input and output, ``paor mcp``.

Without ``content`` its answers hold numbers, ids, times and names from closed lists or of the host's code; nothing that a user, a
model or a tool has written. The tools are functions of a journal and arguments, one module each; `answering` checks arguments, opens the
journal and turns errors into one line; `server` alone knows the ``mcp`` package. May import the four folders, nothing of `paor.cli`.
Start with `answering`.
"""
