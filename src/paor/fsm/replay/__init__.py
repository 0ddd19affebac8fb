"""
Replaying a run from its journal alone, comparing every field with what was recorded, and deriving it again with other settings.

May import `fsm.versioning`, `fsm.machine`, `fsm.decision`, `fsm.journal`, `prompts` and `states`. Start with `replay`.
"""
