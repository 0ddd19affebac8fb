"""
From a run to the text of a prompt: templates, their placeholders, the history that fits, fences around foreign text.

May import `prompts.model` and `states`. Start with `builder`.
"""
