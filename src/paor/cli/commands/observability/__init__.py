"""
The commands that show runs to people and to other programs: a page of them, live or in a file, traces, and a server for coding agents.

May import what commands may. No other command imports one of these. Start with `report`.
"""
