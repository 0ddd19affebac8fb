"""The shipped workflow's text: a file of the package, read once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def default_workflow_text() -> str:
    """Return the YAML of the workflow that runs when no other is given."""
    return (Path(__file__).parent / "workflow.yaml").read_text(encoding="utf-8")
