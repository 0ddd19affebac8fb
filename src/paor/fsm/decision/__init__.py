"""
Reading an outcome: from what came back to the facts that the guards look at.

Pure. May import `fsm.workflow`, `prompts` but neither its clients nor its offline model, `tools` and `states`. Start with `interpret`, which has one reader for each phase.
"""
