"""
What a run did and why: why a row was taken or not, how two runs differ, what a set of runs covers.

May import every room of `fsm` but `diagrams` and `check`. Start with `why`.
"""
