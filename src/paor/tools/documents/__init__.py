"""
The built-in document tools, and reports as Markdown, HTML and DOCX.

May import `tools`, `tools.documents.convert` and `states`. Start with `tools`.
"""
