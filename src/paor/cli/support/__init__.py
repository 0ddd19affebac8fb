"""
What the commands share: options, input, output, tables and messages.

May import the four folders, nothing of `paor.cli.commands`. Start reading at `terminal`, through which everything is
printed, and which makes any text safe to print and lays out tables.
"""
