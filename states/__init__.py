"""
Ground floor: the vocabulary of a run, and one module per phase.

Nothing here imports another part of the project, performs I/O, or knows a clock, a source of randomness or
the environment. What a phase needs from outside is a value (`requests`), what came back is a value
(`outcomes`), and a run between two transitions is a value (`run`).
"""
