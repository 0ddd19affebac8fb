"""What the tests of this room take from inside the product: the one place that follows when a module moves."""

from __future__ import annotations

from collections.abc import Sequence

from paor.cli.commands.doctor import _requirement
from paor.cli.commands.resume import login_name
from paor.cli.support.driving import Watch
from paor.cli.support.journals import short_id
from paor.cli.support.json_input import answers_to
from paor.cli.support.live_view import LINES_MAX, LiveView, readable
from paor.cli.support.terminal import (
    Cell,
    Column,
    _wrapped,
    arrow,
    count,
    cut,
    duration,
    exit_code_of,
    facts,
    folded,
    harmless,
    json_text,
    local_time,
    one_line,
    size,
    table,
    width,
    write_atomically,
)
from paor.events import ModelText, TransitionTaken
from paor.fsm.explain.story import deciding
from paor.fsm.workflow.expressions.functions import FUNCTIONS
from paor.fsm.workflow.tasks import KEYS


def drawn(view: LiveView, said: Sequence[str], call: TransitionTaken, note: str) -> tuple[str, str]:
    """Return what a view leaves on its terminal of a model's texts, a row and a note, and the region below it before the row."""
    with view._console.capture() as captured:
        for text in said:
            view.take(ModelText("run", 0, "selection", text))
        region = view._region().plain
        view.take(call)
        view.note(note)
    return captured.get(), region
