"""
Pictures of the machine and of runs: Mermaid, DOT and SVG from one graph.

May import `fsm.explain`, `fsm.journal`, `fsm.machine` and `states`. Start with `overlays`; the picture that a page plays is in `drawing`.
"""
