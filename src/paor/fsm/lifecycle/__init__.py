"""
A run's life around the loop: started, once by key or queued for a worker, taken up again, answered, recovered, cancelled, forked, followed up, and looked at.

May import every room of `fsm` but `explain`, `diagrams` and `check`. Start with `runner`.
"""
