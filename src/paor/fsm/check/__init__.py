"""
Checking a machine before it runs: a bounded exploration of its states, invariants, and proof that every run ends.

May import all of `fsm`; no other room imports it. Start with `checker`.
"""
