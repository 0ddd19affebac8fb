"""
Reading an outcome: from what came back to the facts that the guards look at.

Pure. May import `fsm.workflow`, `prompts.building`, `prompts.parsing`, `tools` and `states`. Start with `interpret`, which has one reader for each phase.
"""
