"""
The number of paor's own rules moves with them: what they decide in every state of the bounded worlds has a digest, held here beside the number.

A digest that moves says that some run is decided differently now. One that does not move proves nothing: of eighteen planted edits of
rules fourteen move it; what a resume restores, an approval of another run and a criterion that is taken back it does not see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from msgspec import to_builtins
from pydantic import BaseModel

from paor.fsm.check.bounded_specs import BoundedSpec, worlds_of
from paor.fsm.check.checker import default_limits
from paor.fsm.check.state_space import explore
from paor.fsm.machine.machine import Machine
from paor.fsm.machine.table import RULES
from paor.prompts.parsing.reply_forms import (
    Needs,
    Offer,
    answer_form,
    output_form,
    parameters_form,
    plan_form,
    refinement_form,
    review_form,
    selection_form,
    task_plan_form,
)

HELD: dict[int, dict[str, str]] = {
    1: {
        "forms": "40a535625646909e",
        "react": "948fb20ef0df09b8",
        "react, full": "8d1468c5ae4dfdb4",
        "planner": "380cfb5d1b8ded4e",
        "native": "24c70943ba59a3d7",
    },
}
"""By number of the rules the digest of every world, and of the forms of replies. A change adds an entry; none is edited."""

WORLDS = {world.name: world for world in worlds_of(default_limits())}


def plain(value: Any) -> Any:
    """Return a value of the run as JSON has it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return {f"{key}": item for key, item in value.items()} if isinstance(value, Mapping) else list(value)


def data_of(value: Any) -> bytes:
    """Return the bytes of a value, the same in every process."""
    return orjson.dumps(to_builtins(value, enc_hook=plain, str_keys=True), option=orjson.OPT_SORT_KEYS)


def digest_of(world: BoundedSpec) -> str:
    """Return the digest of every decision in a world: the state, what came, guards, row, counters and memory after it."""
    whole = hashlib.sha256()

    def watch(taken: Any, number: int, step: Any) -> None:
        row, after = taken.row, taken.after
        place = (row.source, row.trigger, row.dest)
        whole.update(data_of((number, step.move, place, step.guards, after.counters, after.memory)))

    stuck = explore(world, Machine(), watch).stuck
    whole.update(data_of([(item.step.move, item.error) for item in stuck]))
    return whole.hexdigest()[:16]


def digest_of_forms() -> str:
    """Return the digest of the forms of replies, of a run that has something of everything."""
    needs = [Needs(document=document, connection=one) for document in (False, True) for one in (False, True)]
    offer = Offer(
        tuple((need, (f"do.it{number}",)) for number, need in enumerate(needs)),
        True,
        ("label",),
        learnings=True,
    )
    output = {"type": "object", "properties": {"name": {"$ref": "#"}}}
    forms = (
        *(
            selection_form(offer, stage=stage, strict=strict)
            for stage in ("two_stage", "single")
            for strict in (False, True)
        ),
        parameters_form({"properties": {"name": {"type": "string"}}}),
        *(refinement_form(("do.it",), criteria) for criteria in ((), ("criterion",))),
        *(review_form(), review_form(("criterion",)), review_form((), output), output_form(output)),
        *(plan_form(("do.it",)), task_plan_form(), answer_form()),
    )
    return hashlib.sha256(data_of([(form.words, form.schema) for form in forms])).hexdigest()[:16]


WHY = """the rules decide something else than when their number was held here: raise RULES in fsm/machine/table.py and add an entry to HELD.
If you are certain that no run that waits is decided differently (the exploration itself has changed), the entry of the number may be replaced; say so in the message."""


def test_the_number_is_the_newest_that_is_held() -> None:
    """Raised without an entry, or an entry without the number: one of the two was forgotten. Two numbers with the same digests are fine."""
    assert max(HELD) == RULES and list(HELD) == sorted(HELD)


def test_the_forms_of_replies_move_with_the_number() -> None:
    """Words and schemas that a reply is held to."""
    assert digest_of_forms() == HELD[RULES]["forms"], WHY


@pytest.mark.whole
@pytest.mark.parametrize("name", [name for name in HELD[RULES] if name != "forms"])
def test_the_rules_move_with_the_number(name: str) -> None:
    """Every decision of the exploration, also in another process under another seed of hashing."""
    assert digest_of(WORLDS[name]) == HELD[RULES][name], WHY
