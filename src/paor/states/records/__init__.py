"""
The values that go out of a run and come back into it: requests, outcomes, and what a model or a tool said in them.

May import `states.base`. Start with `requests` and `outcomes`: each kind of the one is answered by kinds of the other.
"""
