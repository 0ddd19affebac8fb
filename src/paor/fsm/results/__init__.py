"""
What a host receives of a run: its result, and the events on the way there.

May import `fsm.journal` and `states`. Start with `result`.
"""
