"""
Verifying a journal file: chain, payloads, derived columns, forks.

May import `fsm.journal`, `fsm.machine` and `states`. Start with `verify`.
"""
