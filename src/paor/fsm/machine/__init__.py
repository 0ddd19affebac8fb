"""
The machine: the table, its guards, what a transition changes, and the one function that decides.

Pure: no I/O, clock or randomness. May import `fsm.decision`, `tools` and `states`. Start with `table`; all that decides which transition is
taken is in it or named by it.
"""
