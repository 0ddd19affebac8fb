"""
Ground floor: the vocabulary of a run, and one module for each phase.

Nothing here does I/O or knows a clock, a source of randomness or the environment. What a phase needs from the outside is a value
(`states.records.requests`), what came back is a value (`states.records.outcomes`), and a run between two transitions is a value
(`states.run.state`).

The phases may import the rooms below: `states.run`, `states.records`, `states.settings`, `states.base`. Start with `phase`.
"""
