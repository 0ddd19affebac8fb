"""
What is said to a model and how its reply is read.

This room holds what a model is (`model`) and the scripted one for tests; the others build prompts (`building`), read replies
(`parsing`), talk to servers (`clients`) and work without a model (`offline`). May import `states`. Start with `model`.
"""
