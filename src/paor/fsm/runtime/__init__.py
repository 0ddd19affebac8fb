"""
Driving: the loop as a generator of effects, and the sync and async drivers that perform them.

May import `fsm.machine`, `fsm.decision`, `fsm.journal`, `prompts`, `tools` and `states`. Start with `loop`.
"""
