"""
Erasing a person's data from a journal without breaking its chain.

May import `fsm.journal`, `tools.documents.convert` and `states`. Start with `plan`, which says what would go.
"""
