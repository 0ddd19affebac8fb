"""
What a run did and why: why a row was taken or not, how two runs or engines differ and by which setting, what a set of runs covers.

May import every room of `fsm` but `diagrams` and `check`. Start with `why`.
"""
