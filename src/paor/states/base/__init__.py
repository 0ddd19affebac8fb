"""
What every record is made of: base classes, errors, the version.

May import nothing of the package. Start with `errors`, whose docstring shows the tree.
"""
