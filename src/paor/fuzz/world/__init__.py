"""
One engine on a journal in memory, moved row by row, with test doubles for tools, model, clock and journal.

Needs no hypothesis. May import the four folders, `paor.fuzz.strategies` and `paor.fuzz.oracles`. Start reading at `world`.
"""
