"""
Replaying a run from its journal alone, and comparing every field with what was recorded.

May import `fsm.versioning`, `fsm.machine`, `fsm.decision`, `fsm.journal`, `prompts` and `states`. Start with `replay`.
"""
