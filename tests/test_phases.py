"""What each phase needs from the outside, read from the run alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from paor.states.observing import Observing
from paor.states.phase import Phase
from paor.states.records.requests import NOTHING
from paor.states.reviewing import Reviewing
from paor.states.run.phase_names import OBSERVING, REVIEWING
from paor.states.run.spec import Spec
from paor.states.run.state import initial_run


def test_a_phase_must_say_what_it_needs() -> None:
    """The base class has no answer of its own."""
    run = initial_run("run-1", 1, Spec(objective="Read"))
    with pytest.raises(NotImplementedError, match="Waiting"):
        Phase("Waiting").request(run)


def test_observing_without_a_document_needs_nothing() -> None:
    """There is nothing to read back, so the observation follows from the run alone."""
    run = replace(initial_run("run-1", 1, Spec(objective="Read")), state=OBSERVING)
    assert Observing().request(run) is NOTHING


def test_between_the_steps_of_a_plan_no_refinement_is_asked() -> None:
    """Only react mode asks after every action."""
    run = replace(initial_run("run-1", 1, Spec(objective="Read", mode="batch")), state=REVIEWING)
    assert Reviewing().request(run) is NOTHING
    react = replace(initial_run("run-1", 1, Spec(objective="Read")), state=REVIEWING)
    assert Reviewing().request(react) is not NOTHING
