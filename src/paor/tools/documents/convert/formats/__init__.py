"""
The formats: one module a format, what they share in `conversion`, `plain` and `archive`; all bounded against hostile files.

May import `states.base`. Start with `conversion`, which says what a conversion gives back.
"""
