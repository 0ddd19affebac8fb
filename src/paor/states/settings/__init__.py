"""
What a host sets, as validated data: limits, policy, profile.

May import `states.base`. Start with `limits`.
"""
