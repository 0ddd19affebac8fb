"""The browser of all tests of pages, and what looks for barriers in one."""

from __future__ import annotations

from .report_browser import axe, chromium

__all__ = ["axe", "chromium"]
