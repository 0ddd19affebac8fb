"""
The journal in a schema of a PostgreSQL database, for any number of machines.

May import `states` and `fsm.journal`. Start with `backend`. Needs ``pip install 'paor[postgres]'``.
"""
