"""
From a model's reply to a checked value, and the JSON schemas that ask for it.

A schema and its reader are side by side, so that what is asked for is what is accepted. May import `states`. Start with `replies`.
"""
