"""
Ten small agents of ten hosts, each with a fault that no single call shows.

Each module has an `Agent`, an `EngineMachine` without ``values``: what its tools take has to be learned from the agent itself.
`LOOKED_AT` were there while the kit learned that; `NOT_LOOKED_AT` were written before, and run when it was done.
Of these, `OPEN` are found with fewer than two of three seeds within 300 examples.
"""

LOOKED_AT = ("payments", "transfers", "rooms", "library", "gift_cards")
NOT_LOOKED_AT = ("warehouse", "clinic", "school", "subscriptions", "leave")
OPEN = ("school",)
