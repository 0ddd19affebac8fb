"""
Where a journal is, and how it is opened there.

May import `states`, `fsm.journal` and the databases' rooms. Start with `opening`.
"""
