"""
Workflow files: read, checked, and walked task by task.

May import `fsm.workflow.expressions`, `prompts.building`, `prompts.parsing`, `tools` and `states`. Start with `reader`.
"""
