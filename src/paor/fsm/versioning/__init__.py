"""
Fingerprints: what decides a run, as digests that change with meaning and never with form.

May import `fsm.machine`, `fsm.decision`, `fsm.journal`, `prompts`, `tools` and `states`. Start with `fingerprints`.
"""
