"""
What goes from the rounds after one that is erased: the copies of its texts that they hold, and the prompts that showed them.

What a later round has said itself stays, also where it repeats something: those are its own words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...prompts.building.conversation import said_before
from ...states.records.actions import StoredText
from ...states.records.conversation import Item
from ...states.run.spec import Spec
from ..journal.payloads import as_text
from ..journal.prompts import with_summary
from ..journal.reader import JournalReader
from ..journal.rows import RunRow, transition_of
from ..verify.references import references
from .erasure_plan import ErasurePlan
from .text_search import Excerpts


def doom_copies(plan: ErasurePlan, row: RunRow) -> None:
    """Erase what later rounds hold of a run that is erased, unless all of theirs goes anyway."""
    journal = plan.journal
    for run in journal.index.told_of(row.run_id):
        spec = journal.spec(journal.index.names([run])[run])
        items = [item for item in spec.earlier if row.run_id in item.runs]
        plan.doom(run, _copies(spec, items, row))
        plan.doom(run, _prompts(journal, run, items, spec, row.run_id))
    for later in journal.runs(conversation=row.conversation) if row.conversation is not None else ():
        if later.round > row.round and journal.spec(later.run_id).workflow is not None:
            plan.doom(
                later.run, [journal.root_columns(later.run)["spec_payload"]]
            )  # which holds what was said as text


def _copies(spec: Spec, items: Collection[Item], row: RunRow) -> Iterator[int]:
    """Yield the numbers of the copies: of what was said, and of the documents that the round was given or has made."""
    yield from (place.n for item in items for place in item.places)
    for document in spec.documents:
        if document.label.startswith(f"round{row.round}_"):
            yield document.payload.n


def _prompts(
    journal: JournalReader, run: int, items: Collection[Item], spec: Spec, erased: str
) -> Iterator[int]:
    """Yield the numbers of the messages of a run's prompts in which something stands that *items* hold of the run *erased*, and which are nothing else of it."""
    shown, own = set[int](), {place.n for item in spec.earlier if item not in items for place in item.places}
    for values in journal.own_rows(run):
        told = transition_of(values)
        for one in with_summary(told):
            shown.update(place["n"] for place in one.request.get("prompt", ()))
        own.update(place["n"] for place in references([told.outcome, told.change]))
    own.update(document.payload for document in journal.stored_documents(run))

    def text_of(place: StoredText) -> str | None:
        return as_text(journal.payload(run, place.n).body)

    whole = {text_of(place) for item in items for place in item.places}
    # not the prompt in which the user's words stood: it holds the template's own, too
    index = Excerpts(told.text for told in said_before(items, text_of) if told.run == erased)
    for n in sorted(shown - own):
        body = journal.payload(run, n).body
        if body is not None and (as_text(body) in whole or index.stand_in(body)):
            yield n
