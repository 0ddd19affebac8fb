"""
Search, fetch and crawl, and no address that the policy or the network's own rules forbid.

May import `tools`, `tools.documents.convert` and `states`. Start with `tools`; `transport` is where an address is checked and connected.
"""
