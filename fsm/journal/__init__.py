"""
The journal file: rows, payloads, leases, and commits that are durable before anybody hears of them.

May import `states`. Start with `store`, then `group_commit`.
"""
