"""
Files to text: the kind of a file, its reader, and the process in which it is read; one module a format, all bounded against hostile files.

May import `tools.process` and `states`. Start with `converter`, then `registry`, which chooses the reader; what readers share is in
`conversion`, `plain` and `archive`.
"""
