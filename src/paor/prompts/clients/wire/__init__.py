"""
What crosses the wire, without the wire: requests as data, replies and stream events read, faults, secrets.

Start at `interface`, which says what each interface of a server has to offer; `chat_completions`, `responses` and
`messages` are the three. Nothing here opens a connection, reads a clock or looks at the environment.

May import `states` and the modules of `prompts`, nothing of `prompts.clients` outside of this room.
"""

__all__: list[str] = []
