"""Which machine the rows of a run belong to, read from its spec without any of the host's code."""

from __future__ import annotations

import orjson

from ..journal.reader import JournalReader
from ..machine.decide import machine_told
from ..machine.machine import MACHINE, Machine


def machine_of_run(journal: JournalReader, run: int) -> Machine:
    """Return the machine that a run with this number was started on; the standard one once its spec is erased."""
    body = journal.payload(run, journal.root_columns(run)["spec_payload"]).body
    # most runs are of the standard machine: a spec, which may be long, is not read as a whole for that
    if body is None or '"host_machine":""' in str(body):
        return MACHINE
    return machine_told(orjson.loads(body).get("host_machine", ""))
