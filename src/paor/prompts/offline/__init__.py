"""
The offline model: plans extract, process, report, and writes by quoting documents; no key, no network, no language model.

It may import the interface of models and the fences of prompts (`prompts.model`, `prompts.building.fencing`), and nothing else outside
this room. Start reading at `model`, which answers prompts; `writer.write` is what it writes with, from `request` (what is
asked) and `corpus` (what the documents hold).
"""

from .model import SIGNATURE, OfflineModel

__all__ = ["SIGNATURE", "OfflineModel"]
