"""
What is right: the invariants of every run, and a reference model with which the engine is compared.

Needs no hypothesis. May import the four folders and `paor.fuzz.strategies.reply_builder`, and knows the engine under test
as a protocol only. Start reading at `invariants`.
"""
