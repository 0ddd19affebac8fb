"""
The journal as one SQLite file: opened, made and brought up to date, and SQLite's errors as ours.

May import `states` and `fsm.journal`. Start with `backend`.
"""
