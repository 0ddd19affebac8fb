"""
JSON Schemas of a tool's parameters: made from a signature, compiled within bounds, and problems in plain words.

May import `states.base`. Start with `parameters`.
"""
