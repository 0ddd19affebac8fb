"""
Tools of Model Context Protocol servers, over stdio and HTTP.

May import `tools`, `tools.schema` and `states`. Start with `toolset`.
"""
