"""
What reading, checking and comparing journals gives back.

    from paor.audit import Divergence, RunRow, Transition

The functions themselves, such as `paor.replay` and `paor.why`, are names of `paor`; here are those that need an engine to compare
with, or that compare runs by their settings: `backtest`, `Evaluation`, `bisect` and `bisect_runs`.
"""

from __future__ import annotations

from .fsm.check.findings import Check, Explored, Finding, Path, PathStep
from .fsm.evaluation.evaluation import AskedRow, Estimate, Evaluation
from .fsm.explain.bisect import Bisection, bisect, bisect_runs
from .fsm.explain.calls import Decided, RunCall
from .fsm.explain.conversations import Conversation, ConversationMessage
from .fsm.explain.coverage import Coverage, ForeignStep, GuardCount, GuardOutcome, RowCoverage
from .fsm.explain.diff import RunDiff, Side
from .fsm.explain.mixture import BisectPart
from .fsm.explain.story import StoryRow
from .fsm.explain.why import Candidate, Checked, Why, WhyNot
from .fsm.journal.erasure_log import Erasure
from .fsm.journal.payloads import Payload
from .fsm.journal.rows import CalledBy, RunRow, StoredDocument, Transition
from .fsm.replay.backtest import backtest
from .fsm.replay.replay import Divergence, Replay, Unchecked
from .fsm.replay.trial import Spent, Trial, TrialFinding, TrialSettings
from .fsm.transfer.erasure import ErasureResult
from .fsm.transfer.importer import Imported
from .fsm.transfer.redaction import Redaction
from .fsm.verify.heads import Head
from .fsm.versioning.changes import ChangedPart
from .fsm.workflow.defects import FileDefect
from .fsm.workflow.validate import Report

__all__ = [
    "AskedRow",
    "BisectPart",
    "Bisection",
    "CalledBy",
    "Candidate",
    "ChangedPart",
    "Check",
    "Checked",
    "Conversation",
    "ConversationMessage",
    "Coverage",
    "Decided",
    "Divergence",
    "Erasure",
    "ErasureResult",
    "Estimate",
    "Evaluation",
    "Explored",
    "FileDefect",
    "Finding",
    "ForeignStep",
    "GuardCount",
    "GuardOutcome",
    "Head",
    "Imported",
    "Path",
    "PathStep",
    "Payload",
    "Redaction",
    "Replay",
    "Report",
    "RowCoverage",
    "RunCall",
    "RunDiff",
    "RunRow",
    "Side",
    "Spent",
    "StoredDocument",
    "StoryRow",
    "Transition",
    "Trial",
    "TrialFinding",
    "TrialSettings",
    "Unchecked",
    "Why",
    "WhyNot",
    "backtest",
    "bisect",
    "bisect_runs",
]
