"""
A run as one immutable value: what it was started with, where it is, what it has counted and what it remembers.

May import `states.records`, `states.settings` and `states.base`. Start with `state`.
"""
