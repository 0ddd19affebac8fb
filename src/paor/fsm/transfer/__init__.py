"""
Export and import of runs, line by line, and redaction on the way out.

May import `fsm.verify`, `fsm.erasure`, `fsm.journal` and `states`. Start with `line_format`.
"""
