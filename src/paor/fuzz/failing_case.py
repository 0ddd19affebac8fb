"""A machine as a test case, and the report of a case that fails: shrunk, saved, with the command that replays it."""

from __future__ import annotations

import logging
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ..states.base.errors import PaorError
from .oracles.seen import Violation
from .repro import repro_of, step_lines

Machine = type[Any]
"""A subclass of `EngineMachine`, which has a test case itself."""

SETTINGS = settings(
    max_examples=100,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
"""Of `EngineMachine.TestCase`, unless a user sets other ones."""


class TestCaseOf:
    """Gives each class of machines a test case of its own."""

    def __get__(self, instance: object, owner: Machine) -> type[unittest.TestCase]:
        if owner not in _CASES:
            _CASES[owner] = _test_case(owner)
        return _CASES[owner]


_CASES: dict[Machine, type[unittest.TestCase]] = {}


def _test_case(machine: Machine) -> type[unittest.TestCase]:
    class EngineTestCase(unittest.TestCase):
        settings = SETTINGS

        def runTest(self) -> None:
            machine.failure, machine._tries = None, 0
            try:
                with quiet():
                    run_state_machine_as_test(machine, settings=self.settings)
            except Exception as error:
                machine.failure = machine.failure or violation_in(error)
                if machine.failure is None:
                    raise
            found = machine.failure  # hypothesis drops what is found while it stops an example
            if found is not None:  # without hypothesis' own account, which has every draw
                found = last_run_alone(machine, found)
                found.__notes__ = [save_case(machine, found)]
                raise found.with_traceback(None) from found.__cause__

        vars(runTest)["is_hypothesis_test"] = True  # hypothesis' own plugin for pytest asks for this mark

    EngineTestCase.__name__ = EngineTestCase.__qualname__ = f"{machine.__name__}.TestCase"
    EngineTestCase.__module__ = machine.__module__
    return EngineTestCase


@contextmanager
def quiet() -> Iterator[None]:
    """Keep paor's own log to itself: thousands of runs fail on purpose."""
    logger, level = logging.getLogger("paor"), logging.getLogger("paor").level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def violation_in(error: BaseException) -> Violation | None:
    """Return the violation that ended a search, also one of several errors."""
    if isinstance(error, Violation):
        return error
    found = map(violation_in, getattr(error, "exceptions", ()))
    return next((violation for violation in found if violation is not None), None)


def last_run_alone(machine: Machine, violation: Violation) -> Violation:
    """Return what the last run of a case violates by itself, if that is the same; hypothesis cannot take a run away before it."""
    script = violation.script
    last = max((place for place, step in enumerate(script) if step["do"] == "start"), default=0)
    try:
        with quiet():
            found = repro_of(violation)._replace(script=tuple(script[last:])).run(machine) if last else None
    except PaorError:  # it needs what went before
        return violation
    return found if found is not None and found.invariant == violation.invariant else violation


def save_case(machine: Machine, violation: Violation) -> str:
    """Save a failing case where the machine wants it; return what to tell people."""
    app = machine.app
    if not app:  # as --app names a class that the present folder can import
        module, name = machine.__module__, machine.__qualname__
        file = getattr(sys.modules.get(module), "__file__", None)
        place = Path.cwd().joinpath(*module.split(".")).with_suffix(".py")
        app = f"{module}:{name}" if file is not None and Path(file) == place and "<" not in name else ""
    repro = repro_of(violation, app)
    lines = step_lines(repro)
    if machine.repro_folder is not None:
        path = repro.save(machine.repro_folder)
        named = f" --app {app or 'MODULE:ENGINE'}"
        lines += [f"saved: {path}", f"replay: paor replay --repro {path}{named}"]
    return "\n".join(lines)
