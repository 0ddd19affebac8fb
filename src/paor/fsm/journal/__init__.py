"""
The journal: rows, payloads, leases, and commits that are durable before anybody hears of them.

May import `states`. Start with `store`, then `group_commit`; `backend` is the seam to the databases beneath.
"""
