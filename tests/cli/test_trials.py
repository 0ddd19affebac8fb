"""`paor backtest` and `paor bisect`: their exit codes, their JSON, a page with nothing of others as markup; nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from paor import Journal

from ..support.cli_support import Shell
from ..support.journeys import BY_NAME, play
from ..support.worlds import JOURNAL

APPS = '''
"""Engines that may ask and call nothing."""
from paor import Engine, Machine, Policy, ScriptedModel, tool
from tests.support.worlds import TOOLS


class Silent(ScriptedModel):
    def ask(self, call):
        raise AssertionError("nobody is asked")


@tool("notes.read", effect="idempotent", label="page")
def read(page: int) -> str:
    """Read one page of the notes."""
    raise AssertionError("nothing is called")


def first_page(case):
    """Only the first page may be read."""
    return case.call is None or case.call.arguments.get("page", 1) == 1


def made(**options):
    return lambda journal: Engine(Silent([]), [read, *TOOLS[1:]], journal, builtins=False, **options)


same = made()
strict = made(machine=Machine.standard().require("specify", first_page), policy=Policy(deny=("notes.fail",)))
brief = made(instructions="<script>alert(1)</script> & be brief")
keyed = made(instructions="Use sk-later-0123456789abcdefghij.")
own = Engine(Silent([]), [read, *TOOLS[1:]], ":memory:", builtins=False, policy=Policy(approvals=("notes.read",)))
'''


@pytest.fixture(name="recorded")
def make_recorded(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the name of a journal with one run of two pages, beside apps in the working folder."""
    folder = tmp_path_factory.mktemp("recorded")
    with BY_NAME["two_pages"].engine(folder) as scripted:
        play(BY_NAME["two_pages"], scripted)
    shell.write("trial_apps.py", APPS)
    before = (folder / JOURNAL).read_bytes()
    yield str(folder / JOURNAL)
    assert (folder / JOURNAL).read_bytes() == before, "it is only read"


def test_a_backtest_says_what_is_decided_otherwise(shell: Shell, recorded: str) -> None:
    """1 where something is, 0 where nothing is or only prompts differ; the JSON has these keys and no others."""
    said = shell("backtest", "--app", "trial_apps:same", "--journal", recorded)
    assert said.code == 0 and "1 run: none goes otherwise" in said.out
    assert shell("backtest", "--app", "trial_apps:same", "--journal", recorded, "--json").json == []
    said = shell("backtest", "--app", "trial_apps:strict", "--journal", recorded)
    assert said.code == 1 and "first_page" in said.out and "1 decided otherwise" in said.out
    # the record goes on after the refused call, and the trial does not: that is no saving
    assert "1 run up to where the trial ends: 1 → 1 calls, 5 → 5 requests" in said.out.replace("->", "→")
    found = shell("backtest", "--app", "trial_apps:strict", "--journal", recorded, "--json")
    first = next(item for item in found.json if item["kind"] == "decides")
    with Journal(recorded, read_only=True) as journal:
        (run,) = journal.runs()
    assert found.code == 1 and first == {
        "run_id": run.run_id,
        "seq": 6,
        "kind": "decides",
        "row": "Specifying.specify",
        "guard": "first_page",
        "was": "specify to Executing",
        "now": "refuse to Observing",
    }
    said = shell("backtest", "--app", "trial_apps:brief", "--journal", recorded, "--json")
    assert said.code == 0 and {item["kind"] for item in said.json} == {"asks"}
    # an engine with a journal of its own, and --since
    assert shell("backtest", "--app", "trial_apps:own", "--journal", recorded).code == 1
    assert shell("backtest", "--app", "trial_apps:own", "--journal", recorded, "--since", "1m").code == 0


def test_a_page_has_nothing_of_others_as_markup(shell: Shell, recorded: str, tmp_path: Path) -> None:
    """One file without scripts, that asks for nothing."""
    said = shell("backtest", "--app", "trial_apps:brief", "--journal", recorded, "--output", "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (
        said.code == 0
        and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        and "default-src &#x27;none" not in text
    )
    seen: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append(tag)
            assert not {"src", "href", "onclick"} & {name for name, _ in attrs}

    Tags().feed(text)
    assert "script" not in seen and seen.count("tr") == 2 and "default-src 'none'" in text


KEYED = ("backtest --app trial_apps:keyed", "bisect --app trial_apps:same --app trial_apps:keyed")


@pytest.mark.parametrize(
    "words",
    [
        *(f"{command}{form}" for command in KEYED for form in ("", " --json")),
        f"{KEYED[0]} --output page.html",
    ],
)
def test_no_form_shows_a_key_of_the_environment(
    words: str, shell: Shell, recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal, the JSON and the page: an engine may have one in what it says to a model."""
    key = "sk-later-0123456789abcdefghij"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    shown = shell(*words.split(), "--journal", recorded).out
    if "page.html" in words:
        shown = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert key not in shown and "[secret redacted]" in shown


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("backtest",), "--app MODULE:ENGINE is needed", 2),
        (("backtest", "--app", "nowhere:engine"), "No module named 'nowhere'", 2),
        (("backtest", "--app", "trial_apps:same", "--journal", "none.db"), "no such journal", 2),
        (("backtest", "--app", "trial_apps:same", "--since", "soon"), "expected a date", 2),
        (("backtest", "--app", "trial_apps:same", "--output", "{}"), "would replace the journal", 2),
        (("bisect",), "--good RUN and --bad RUN, or --app twice", 2),
        (("bisect", "--app", "trial_apps:same"), "or --app twice", 2),
        (("bisect", "--good", "last"), "or --app twice", 2),
        (("bisect", "--good", "last", "--bad", "last", "--app", "a:b", "--app", "a:b"), "or --app twice", 2),
        (("bisect", "--good", "last", "--bad", "none-such"), "none-such", 2),
        (("bisect", "--app", "trial_apps:same", "--app", "trial_apps:gone"), "has no gone", 2),
    ],
)
def test_what_cannot_be_used_is_one_line(
    shell: Shell, recorded: str, arguments: tuple[str, ...], words: str, code: int
) -> None:
    """And the help for a bad command line."""
    given = [item.replace("{}", recorded) for item in arguments]
    said = shell(*given, *([] if "--journal" in given else ["--journal", recorded]))
    assert said.code == code and words in said.err and not said.out


def test_a_changed_row_is_one_line_and_a_code_of_its_own(shell: Shell, recorded: str, tmp_path: Path) -> None:
    """As for every command that reads a journal."""
    (tmp_path / "changed.db").write_bytes(Path(recorded).read_bytes())
    shell.sql("UPDATE transitions SET step = step + 1 WHERE seq = 3", journal="changed.db")
    apps = ("--app", "trial_apps:same", "--app", "trial_apps:strict")
    for arguments in (("backtest", *apps[:2]), ("bisect", *apps)):
        said = shell(*arguments, "--journal", "changed.db")
        assert (said.code, len(said.err.splitlines())) == (4, 1) and "does not fit" in said.err


def test_a_bisection_names_the_part(shell: Shell, recorded: str) -> None:
    """1 where there is a difference, 0 where there is none."""
    apps = ("--app", "trial_apps:same", "--app", "trial_apps:strict")
    said = shell("bisect", *apps, "--journal", recorded)
    assert (
        said.code == 1
        and "row 6: Specifying.specify by first_page" in said.out
        and "guard first_page" in said.out
    )
    found = shell("bisect", *apps, "last", "--journal", recorded, "--json").json
    assert found.keys() == {"differs", "run_id", "seq", "row", "guard", "was", "now", "parts"}
    assert [(part["part"], part["name"]) for part in found["parts"]] == [("guard", "first_page")]
    same = shell("bisect", *apps[:2], *apps[:2], "--journal", recorded)
    assert (same.code, same.out) == (0, "nothing differs\n")
    same = shell("bisect", "--good", "last", "--bad", "last", "--journal", recorded, "--json")
    assert (same.code, same.json["differs"]) == (0, False)
