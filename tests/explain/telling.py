"""What the screens say of a run: the command line, the MCP server, the page and the spans, held against each other row by row."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from typing import Any

from paor import Journal, report
from paor.cli import main

from .inside import Answerer, JournalView, spans_of, visible, without_secrets


def printed(*arguments: str) -> Any:
    """Return the JSON that a command prints; it must end well."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(said):
        assert main([*arguments, "--json"]) == 0, arguments
    said.seek(0)
    return json.load(said)


def answered(journal: str, tool: str, *, content: bool, **arguments: Any) -> Any:
    """Return the answer of a tool of the server."""
    found = Answerer(journal, content=content).answer(tool, arguments)
    assert found.answer is not None, (tool, arguments, found.error)
    return json.loads(json.dumps(found.answer))


def agrees(shown: Any, told: Any, where: str = "") -> None:
    """Assert that an answer with content holds the values of a command's JSON, each text under ``untrusted``."""
    if isinstance(shown, dict) and "untrusted" in shown:
        text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
        assert shown["left_out"] or shown["untrusted"] == visible(without_secrets(text)), where
    elif isinstance(shown, dict):
        assert shown.keys() == told.keys(), where
        for name, item in shown.items():
            agrees(item, told[name], f"{where}.{name}")
    elif isinstance(shown, list):
        assert len(shown) == len(told), where
        for place, item in enumerate(shown):
            agrees(item, told[place], f"{where}[{place}]")
    else:
        assert shown == told, where


def veiled(shown: Any) -> Any:
    """Return an answer with content as it must be without: every text is null."""
    if isinstance(shown, dict):
        return None if "untrusted" in shown else {name: veiled(item) for name, item in shown.items()}
    return [veiled(item) for item in shown] if isinstance(shown, list) else shown


def story_in(page: str) -> Any:
    """Return what another program reads of a page: the JSON in its one element ``#story``."""
    (found,) = re.findall(r'<script type="application/json" id="story">([^<>&]*)</script>', page)
    return json.loads(found)


def told_alike(journal: Journal, run_id: str, *, every: int = 1) -> int:
    """
    Assert that all screens say the same of a run and its rows, and return how many rows there are.

    Args:
        journal: A file that holds it.
        run_id: The run.
        every: Which rows are also looked at one by one.
    """
    of, path = (run_id, "--journal", journal.path), journal.path
    told = printed("show", *of)
    rows = told["rows"]
    wanted: list[tuple[str, Any, dict[str, Any]]] = []
    for first in range(0, max(1, len(rows)), 200):
        calls = [call for call in told["calls"] if first <= call["seq"] < first + 200]
        page = told | {"rows": rows[first : first + 200], "calls": calls}
        wanted.append(("show", page, {"run": run_id, "first": first, "limit": 200}))
    for row in rows[::every]:
        seq = row["seq"]
        one = printed("show", *of, "--row", str(seq))
        assert one["why"]["told"] == row
        wanted.append(("show", one, {"run": run_id, "row": seq}))
        wanted.append(("why", printed("why", run_id, str(seq), *of[1:]), {"run": run_id, "row": seq}))
    for tool, data, arguments in wanted:
        shown = answered(path, tool, content=True, chars=20_000, **arguments)
        hidden = answered(path, tool, content=False, **arguments)
        assert hidden == veiled(shown)
        if tool == "show" and "row" not in arguments:
            del shown["more"]
        agrees(shown, data, tool)
    assert story_in(report(journal, run_id)) == told
    for first in {0, len(rows) // 2}:
        live = JournalView(journal, live=True).part(f"run/{run_id}/{first}")
        assert json.loads(json.dumps(live["story"])) == told | {"rows": rows[first:]}
    for span in spans_of(journal, run_id):
        kind, row = span.attributes.get("paor.request.kind"), rows[int(str(span.attributes["paor.row"]))]
        assert kind in (None, "text", row["asked"])
        for event in span.events:
            row = rows[int(str(event.attributes["paor.row"]))]
            for name in ("trigger", "source", "dest"):
                assert event.attributes[f"paor.transition.{name}"] == row[name]
            guards = event.attributes.get("paor.transition.guards")
            assert guards is None or set(row["decided"]) <= set(guards)  # type: ignore[arg-type]
    return len(rows)
