"""
Commands that drive runs which nobody watches: after a crash, or from a queue.

May import the other commands and what they share. Start with `worker`.
"""
