"""
What an action can do: tools, their catalog and schemas, and the policy that decides which may be called.

This room holds what a tool is; the others hold the built-in ones: `documents`, `web`, `mcp`. May import `tools.schema` and `states`, not
`prompts`. Start with `tool`.
"""
