"""What each phase needs from the outside, read from the run alone."""

from __future__ import annotations

from msgspec.structs import replace

from paor.states.observing import Observing
from paor.states.phase import Phase
from paor.states.records.requests import NOTHING, ModelRequest
from paor.states.reviewing import Reviewing
from paor.states.run.phase_names import OBSERVING, REVIEWING
from paor.states.run.spec import Spec
from paor.states.run.state import initial_run
from paor.states.settings.limits import Limits


def test_a_phase_of_a_hosts_own_asks_a_model_or_nobody() -> None:
    """A call and a question are begun by rows; a model is asked while no limit says otherwise."""
    run = initial_run("run-1", 1, Spec(objective="Read"))
    assert Phase("Waiting").request(run) == NOTHING
    asking = Phase("Asking", prompt="{{KEY:OBJECTIVE}}", reply={"properties": {"a": {}}})
    assert asking.request(run) == ModelRequest("phase", 0)
    limited = initial_run("run-1", 1, Spec(objective="Read", limits=Limits(time_budget_s=1)))
    used = replace(limited, counters=replace(limited.counters, time_us=2_000_000))
    assert asking.request(used) == NOTHING


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
