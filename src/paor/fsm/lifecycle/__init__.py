"""
A run's life around the loop: started, taken up again, forked, followed up, and the result that it ends with.

May import every room of `fsm` but `explain`, `diagrams` and `check`. Start with `runner`.
"""
