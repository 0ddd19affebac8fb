"""
The queue of runs that wait for a worker, beside the journal that holds them.

May import `states` and `fsm.journal`. Start with `run_queue`.
"""
