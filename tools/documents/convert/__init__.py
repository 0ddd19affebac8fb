"""
Files to text, one module a format, bounded against hostile files.

May import `states.base`. Start with `registry`, which chooses the module.
"""
