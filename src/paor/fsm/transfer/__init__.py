"""
What leaves a journal: a person's data, erased without breaking the chain; runs, exported and imported line by line, redacted on the way out.

May import `fsm.verify`, `fsm.journal` and `states`. Start with `line_format` and
`erasure_plan`.
"""
