"""
The testing kit: hypothesis drives your own engine, and finds the shortest way in which it goes wrong.

    from paor.fuzz import EngineMachine

    class Shop(EngineMachine):
        def engine(self, journal):
            return shop.make_engine(journal)

    TestShop = Shop.TestCase  # for pytest and unittest

Needs ``pip install "paor[fuzz]"``. docs/fuzzing.md says how it works.

A `World` holds one engine on a journal in memory and moves it row by row. Everything that comes from outside (replies of
a model, outcomes of tools, answers of people, clocks, crashes) is a step, and every step is plain JSON: hypothesis draws
the steps, a repro file holds them, and the same steps give the same rows in any process. Only the modules that draw need
hypothesis; a repro file is replayed without it.

    strategies      what is drawn: replies, outcomes, answers, values
    oracles         what is right: invariants and a reference model
    world           the engine under test and its doubles
    machine         `EngineMachine`
    campaign        the same from code, for the command line
    failing_case    a machine as a test case, and what it reports
    repro           a failing case as a file
    sample_engine   an engine to try the kit on

May import the four folders, nothing of `paor.cli`. Start reading at `machine`, then `world.world`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .campaign import Found, machine_of, search
    from .machine import EngineMachine
    from .oracles.invariants import INVARIANTS
    from .oracles.seen import Violation
    from .repro import Repro, load, repro_of
    from .strategies.injected_faults import RAISED, RETURNED
    from .strategies.json_schema import arguments, near_arguments
    from .strategies.near_misses import families, near_miss
    from .strategies.outcomes import BUDGETS, FAULTS, LIMITS, RESULTS, answers, jumps, outcomes, settlements
    from .strategies.replies import AIMS, faults, near_misses, replies, texts
    from .strategies.reply_builder import FAMILIES, KINDS, Said
    from .strategies.setting import Setting
    from .world.world import World

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

_PLACES = {
    ".campaign": "Found machine_of search",
    ".machine": "EngineMachine",
    ".oracles.invariants": "INVARIANTS",
    ".oracles.seen": "Violation",
    ".repro": "Repro load repro_of",
    ".strategies.injected_faults": "RAISED RETURNED",
    ".strategies.json_schema": "arguments near_arguments",
    ".strategies.near_misses": "families near_miss",
    ".strategies.outcomes": "BUDGETS FAULTS LIMITS RESULTS answers jumps outcomes settlements",
    ".strategies.replies": "AIMS faults near_misses replies texts",
    ".strategies.reply_builder": "FAMILIES KINDS Said",
    ".strategies.setting": "Setting",
    ".world.world": "World",
}
"""Public names by module; one is imported when it is first used, because a repro file is replayed without hypothesis."""

_MODULES = {name: module for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """
    Import a public name on first use (PEP 562).

    Raises:
        MissingExtra: It draws, and hypothesis is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        value = getattr(import_module(_MODULES[name], __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "hypothesis":
            raise
        from ..states.base.errors import MissingExtra

        raise MissingExtra('paor.fuzz needs hypothesis: pip install "paor[fuzz]"') from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
