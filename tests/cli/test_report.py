"""`paor report`: files of one run, of two, of all; what it leaves out; and everything that it refuses."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from paor import Journal, report
from paor.errors import UnknownRun, UsageError
from paor.testing import call, refine, review

from ..page.test_report_data import scripted_engine
from ..support.cli_support import (
    OUT_OF_STEPS,
    Shell,
)
from ..support.planning import World
from ..support.worlds import READ, REFINE, SUCCESS

PART = re.compile(r'<script type="text/plain" data-part="([^"]*)">([^<]*)</script>')


STORY = re.compile(r'<script type="application/json" id="story">([^<>&]*)</script>')


def parts_of(page: str) -> dict[str, Any]:
    """Return the data of a page by the names of its parts, as a browser reads it; the plain story as ``story``."""
    packed = {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in PART.findall(page)}
    return packed | ({"story": json.loads(found[1])} if (found := STORY.search(page)) else {})


def test_one_run_is_a_file_with_the_same_bytes_each_time(shell: Shell) -> None:
    shell.run()
    said = shell("report", "--output", "run.html", "--json")
    assert said.code == 0 and said.json["output"] == "run.html"
    page = (shell.folder / "run.html").read_text(encoding="utf-8")
    assert len(page.encode()) == said.json["bytes"]
    parts = parts_of(page)
    run_id = said.json["run_id"]
    assert list(parts) == ["index", "machine/0", f"run/{run_id}", f"rows/{run_id}/0", "story"]
    assert parts["story"] == shell("show", run_id, "--json").json
    assert parts["index"]["open"] == run_id and [item["id"] for item in parts["index"]["runs"]] == [run_id]
    assert parts[f"run/{run_id}"]["replay"]["identical"]
    again = shell("report", "last")
    assert again.code == 0 and again.out == page
    assert "http://" not in page and "https://" not in page and "//cdn" not in page


@pytest.mark.parametrize(
    ("judged", "shown"),
    [
        (REFINE("stop", reason="It is read."), "stop: It is read."),
        ({"answer": "Page 1."}, "stop, no reason given"),
    ],
    ids=["a reason", "none"],
)
def test_A082_A068_the_reason_of_a_decision_stands_wherever_a_run_is_shown(
    tmp_path: Path, shell: Shell, judged: dict[str, Any], shown: str
) -> None:
    """In the lists of rows and steps, in `why` and in the report; where the model gave none that is said, in nobody's words."""
    with World(tmp_path, [*READ(1), judged, SUCCESS]) as world:
        assert world.run().state == "Done"
        row, run_id = world.triggers.index("conclude"), world.run_id
    for command in (["show"], ["show", "--steps"], ["why", "last", str(row)]):
        said = shell(*command, "--journal", str(world.path))
        assert shown in " ".join(said.out.split()), command
    parts = parts_of(shell("report", "last", "--journal", str(world.path)).out)
    told = parts["story"]["rows"][row]
    assert parts["story"]["run"]["run_id"] == run_id
    assert shown in (f"{told['came']}: {told['said']}" if told["said"] else told["came"])


def test_all_runs_have_a_list(shell: Shell) -> None:
    shell.run()
    shell.run("--max-steps", "1", replies=OUT_OF_STEPS)
    assert shell("report", "--all", "--output", "all.html").code == 0
    parts = parts_of((shell.folder / "all.html").read_text(encoding="utf-8"))
    assert parts["index"]["open"] == "" and len(parts["index"]["runs"]) == 2
    assert [item["status"] for item in parts["index"]["runs"]] == ["failed", "done"]
    assert sum(name.startswith("run/") and "rows" in part["story"] for name, part in parts.items()) == 2


def test_two_runs_are_compared(shell: Shell) -> None:
    shell.run()
    shell.run("--max-steps", "1", replies=OUT_OF_STEPS)
    assert shell("report", "last~1", "--diff", "last", "--output", "two.html").code == 0
    parts = parts_of((shell.folder / "two.html").read_text(encoding="utf-8"))
    found = parts["diff"]
    assert found["seq"] is not None and found["cause"] and found["left_text"] != found["right_text"]
    assert parts["index"]["open"] == found["left"] and parts["index"]["compared"]
    assert parts["story"]["run"]["run_id"] == found["left"]
    assert {f"run/{found['left']}", f"run/{found['right']}"} <= parts.keys()


def test_what_an_export_leaves_out_is_not_in_the_page(shell: Shell) -> None:
    secret = "ghp_0123456789abcdefghij0123"
    shell.run("--context", f"token {secret}")
    shell("report", "--output", "whole.html")
    assert secret in json.dumps(parts_of((shell.folder / "whole.html").read_text(encoding="utf-8")))
    assert shell("report", "--redact", "default", "--output", "less.html").code == 0
    parts = parts_of((shell.folder / "less.html").read_text(encoding="utf-8"))
    assert secret not in json.dumps(parts)
    run = next(part for name, part in parts.items() if name.startswith("run/"))
    assert "redaction" in parts["story"]["erasures"][0]["rule"]
    assert run["verify"] == {"defects": [], "count": 0} and run["redacted"]
    rows = next(part for name, part in parts.items() if name.startswith("rows/"))
    assert [item["hash"] for item in rows["rows"]][-1] == run["chain"]["head"]
    shell.write("rules.txt", "page: nothing-fits-this-0000")
    assert shell("report", "--redact", "rules.txt", "--output", "own.html").code == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--all", "last"], "--all goes without"),
        (["--all", "--diff", "last"], "--all goes without"),
        (["nowhere"], "nowhere"),
        (["last", "--diff", "nowhere"], "nowhere"),
        (["last", "--redact", "missing.txt"], "missing.txt"),
        (["last", "--output", "no/such/folder.html"], "folder.html"),
        (["last", "--output", "paor.db"], "paor.db"),
        (["last", "--journal", "none.db"], "none.db"),
        (["last", "--json"], "--output"),
    ],
)
def test_what_is_refused(given: list[str], told: str, shell: Shell) -> None:
    shell.run()
    said = shell("report", *given)
    assert said.code == 2 and told in said.err and "Traceback" not in said.err
    assert len([line for line in said.err.splitlines() if line.startswith("paor")]) <= 2


def test_the_function_refuses_what_the_command_refuses(shell: Shell) -> None:
    shell.run()
    with Journal(shell.folder / "paor.db", read_only=True) as journal:
        assert parts_of(report(journal))["index"]["runs"]
        with pytest.raises(UsageError, match="second run"):
            report(journal, diff="last")
        with pytest.raises(UnknownRun):
            report(journal, "0000")
    with pytest.raises(UsageError, match="takes a Journal"):
        report("paor.db")  # type: ignore[arg-type]
    with Journal(":memory:") as empty, pytest.raises(UsageError, match="no run yet"):
        report(empty)


@pytest.mark.whole
def test_a_page_is_much_smaller_than_the_exported_text(tmp_path: Path) -> None:
    """Of a run of a thousand rows, with the page's own code: at most 1.3 times is asked; the story is plain, the rest is a fifth."""
    steps = 200
    replies = [
        reply
        for step in range(steps)
        for reply in (*call("desk.find", order=f"O-{step}"), refine("continue", reason="go on"))
    ]
    replies[-1] = refine("stop", reason="all found", answer="All found.")
    engine = scripted_engine(tmp_path, *replies, review("success", answer="All found."))
    run_id = engine.run(
        "Find every order", limits={"max_steps": steps, "token_budget": None, "cost_budget": None}
    ).run_id
    assert len(engine.journal.transitions(run_id)) >= 1000
    exported = sum(len(json.dumps(line)) for line in engine.journal.export(run_id))
    page = report(engine.journal, run_id)
    assert len(page.encode()) < 0.5 * exported and len(STORY.sub("", page).encode()) < 0.3 * exported


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("request", "no JSON"),
        ("counters", '{"bogus":1}'),
        ("request", '{"kind":"selection","prompt":[5]}'),
        ("request", '{"kind":"selection","prompt":[{"n":"x"}]}'),
        ("request", '{"kind":"none","values":{}}'),
        ("request", '{"kind":"none","spec":{}}'),
        ("outcome", '{"kind":"result","texts":5}'),
        ("outcome", '{"kind":"answer","answer":3}'),
    ],
)
def test_a_row_of_another_shape_is_damage(column: str, text: str, shell: Shell) -> None:
    """One line and the code of a damaged journal, whatever part of the page would have shown it."""
    shell.run()
    shell.sql(f"UPDATE transitions SET {column} = ? WHERE seq = (SELECT max(seq) FROM transitions)", text)
    said = shell("report", "last", "--output", "run.html")
    assert said.code == 4 and "Traceback" not in said.err and "verify" in said.err, said
    assert not (shell.folder / "run.html").exists()
