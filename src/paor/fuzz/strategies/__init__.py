"""
What hypothesis draws: replies of a model, outcomes of tools, answers of people, values for a JSON schema.

`reply_builder`, `near_misses` and `injected_faults` need no hypothesis: a repro file is replayed with them. May import
the four folders, no other room of `paor.fuzz`. Start reading at `reply_builder`, then `replies`.
"""
