"""
What reading, checking and comparing journals gives back.

    from paor.audit import Divergence, RunRow, Transition

The functions themselves, such as `paor.replay` and `paor.why`, are names of `paor`.
"""

from __future__ import annotations

from .fsm.check.findings import Check, Finding
from .fsm.erasure.execute import ErasureResult
from .fsm.explain.calls import Decided, RunCall
from .fsm.explain.coverage import Coverage
from .fsm.explain.diff import RunDiff, Side
from .fsm.explain.why import Candidate, Why, WhyNot
from .fsm.journal.erasure_log import Erasure
from .fsm.journal.rows import RunRow, StoredDocument, Transition
from .fsm.replay.replay import Divergence, Replay, Unchecked
from .fsm.transfer.importer import Imported
from .fsm.transfer.redaction import Redaction
from .fsm.versioning.changes import ChangedPart

__all__ = [
    "Candidate",
    "ChangedPart",
    "Check",
    "Coverage",
    "Decided",
    "Divergence",
    "Erasure",
    "ErasureResult",
    "Finding",
    "Imported",
    "Redaction",
    "Replay",
    "RunCall",
    "RunDiff",
    "RunRow",
    "Side",
    "StoredDocument",
    "Transition",
    "Unchecked",
    "Why",
    "WhyNot",
]
