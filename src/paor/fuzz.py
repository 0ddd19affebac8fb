"""
The testing kit: hypothesis drives your own engine, and finds the shortest way in which it goes wrong.

    from paor.fuzz import EngineMachine

    class Shop(EngineMachine):
        def engine(self, journal):
            return shop.make_engine(journal)

    TestShop = Shop.TestCase  # for pytest and unittest

Needs ``pip install "paor[fuzz]"``. How it works stands in docs/fuzzing.md.
"""

from __future__ import annotations

from importlib.util import find_spec

from .states.errors import MissingExtra

if find_spec("hypothesis") is None:
    raise MissingExtra('paor.fuzz needs hypothesis: pip install "paor[fuzz]"')

from .fsm.fuzz.happenings import RAISED, RETURNED
from .fsm.fuzz.invariants import INVARIANTS, Violation
from .fsm.fuzz.machine import EngineMachine
from .fsm.fuzz.near_misses import families, near_miss
from .fsm.fuzz.outcomes import BUDGETS, FAULTS, LIMITS, RESULTS, answers, jumps, outcomes, settlements
from .fsm.fuzz.replies import AIMS, Setting, faults, near_misses, replies, texts
from .fsm.fuzz.repro import Repro, load, repro_of
from .fsm.fuzz.said import FAMILIES, KINDS, Said
from .fsm.fuzz.search import Found, machine_of, search
from .fsm.fuzz.values import arguments, near_arguments
from .fsm.fuzz.world import World

__all__ = [
    "AIMS",
    "BUDGETS",
    "FAMILIES",
    "FAULTS",
    "INVARIANTS",
    "KINDS",
    "LIMITS",
    "RAISED",
    "RESULTS",
    "RETURNED",
    "EngineMachine",
    "Found",
    "Repro",
    "Said",
    "Setting",
    "Violation",
    "World",
    "answers",
    "arguments",
    "families",
    "faults",
    "jumps",
    "load",
    "machine_of",
    "near_arguments",
    "near_miss",
    "near_misses",
    "outcomes",
    "replies",
    "repro_of",
    "search",
    "settlements",
    "texts",
]
