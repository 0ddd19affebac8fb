"""
The commands of ``paor``, one module a subject; the group in `paor.cli` loads one when it is used.

May import everything below: `paor.cli.support`, `paor.fuzz`, `paor.testing` and the folders. No command is imported by
anything but the group and, for shared options, another command. Start reading at `run`.
"""
