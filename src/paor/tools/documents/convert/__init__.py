"""
Files to text: the kind of a file, its reader, and the process in which it is read.

May import `tools.documents.convert.formats` and `states`. Start with `converter`, then `registry`, which chooses the reader.
"""
