"""
Python processes for work that may hang, crash or take all memory: asked over pipes, and killed whatever they do.

May import `tools`, `tools.schema` and `states`. Start with `child`; `call` and `worker` are the two ends of a tool's call.
"""
