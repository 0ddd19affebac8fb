"""
One engine on a journal in memory, moved row by row, with tools, model and clock that do as they are told.

Needs no hypothesis. May import the four folders, `paor.fuzz.strategies` and `paor.fuzz.oracles`. Start reading at `world`.
"""
