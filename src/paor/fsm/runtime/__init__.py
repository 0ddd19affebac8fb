"""
Driving: the loop as a generator of effects, the sync and async drivers that perform them, and what a host receives: events, and the result.

May import `fsm.machine`, `fsm.decision`, `fsm.journal`, `prompts`, `tools` and `states`. Start with `loop`.
"""
