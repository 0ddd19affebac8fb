"""
Evaluations over recorded runs: replies of a model to what they would be asked now, and scores of their answers, kept in a file.

May import every room of `fsm` but `report` and `diagrams`. Start with `evaluation`.
"""
