"""
Fingerprints: the number of paor's rules and digests of what a run was given, and which of them have changed since.

May import `fsm.machine`, `fsm.journal`, `tools` and `states`. Start with `fingerprints`.
"""
