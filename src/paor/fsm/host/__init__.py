"""
What a host does with the runs of a journal as a whole: start one once, look, see what waits, recover, cancel.

May import `fsm.lifecycle`, `fsm.replay`, `fsm.runtime`, `fsm.journal` and `states`. Start with `recover`.
"""
