"""
The testing kit: hypothesis drives a user's own engine, and what always holds is checked after every row.

Theory of operation. A `World` holds one engine on a journal in memory and moves it row by row. Everything that comes
from outside (replies of a model, outcomes of tools, answers of people, clocks, crashes) is a step, and every step is
plain JSON: hypothesis draws the steps, a repro file holds them, and the same steps give the same rows in any process.
Only the modules that draw need hypothesis; a repro file is replayed without it.

    said          what a model says, and the families of near misses
    model         a run in thirty lines, beside which the engine is held
    invariants    what always holds of a run, by name
    watched       tools, model, clock and journal of a world
    world         one engine, moved row by row
    repro         a failing case as a file
    values, replies, planned_replies, happenings    strategies
    machine       `EngineMachine`; `attributes` checks what is set on it
    search        the same from code, for the command line
    unfinished    what is left of a search whose process ends
    foreign       errors that are not the engine's
    rows_of_modes which rows no run of a mode takes

The face is `paor.fuzz`.
"""
