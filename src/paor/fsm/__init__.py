"""
Top floor: the machine, the journal that records it, and the engine that drives it.

The two things that a host touches are here: `engine`, and the public `Journal`. Everything else is a room below. May import every room
below and the floors under this one. To
follow one step of a run, read `runtime.loop`, then `decision.interpret`, then `machine.table`.
"""
