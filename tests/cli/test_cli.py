"""`paor run`: exit codes, streams, inputs, reports."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from paor import Journal

from ..support.cli_support import (
    DONE,
    OUT_OF_STEPS,
    SUCCESS,
    TEXT,
    Shell,
    words,
)

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"


# -- run ---------------------------------------------------------------------------------------------------------


def test_a_finished_run_prints_its_answer_and_one_line_of_facts(shell: Shell) -> None:
    said = shell.run()
    assert said.code == 0
    assert said.out == "It is **done**.\n"
    model, first, second = said.err.splitlines()
    assert model == "model: scripted (from --model)"
    assert re.fullmatch(
        rf"run {ID}  Done \(model_stop\)  1 step, 6 transitions, [\d,]+ tokens, [\d.]+ m?s", first
    ), first
    assert re.fullmatch(r"documents: paor show [0-9a-f-]{13,36} --documents", second), second


def test_exit_codes_of_a_run_and_of_its_resume_are_the_same(shell: Shell) -> None:
    for replies, options, code in (
        (DONE, (), 0),
        ([], (), 1),
        (OUT_OF_STEPS, ("--max-steps", "1"), 6),
        (DONE, ("--token-budget", "1"), 6),
    ):
        assert shell.run(*options, replies=replies).code == code
        again = shell("resume", "last")
        assert again.code == code
        assert again.out != ""


def test_a_failed_run_names_the_command_that_shows_why(shell: Shell) -> None:
    said = shell.run(replies=[])
    assert "Failed (model_error)" in said.err
    assert re.search(r"what it did: paor show [0-9a-f-]+\n", said.err)
    shown = shell("show", said.err.split()[-1])
    told = " ".join(shown.out.split())
    assert "fault script_exhausted: the script has " in told and "[hard_stop]" in told


@pytest.mark.whole
def test_run_as_a_process_keeps_the_streams_apart(shell: Shell) -> None:
    said = shell.process("run", "Write it", "--tools", "ai.process", "--model", shell.script(*DONE))
    assert (said.code, said.out) == (0, "It is **done**.\n")
    assert said.err.startswith("model: scripted (from --model)\nrun ")
    assert shell.process("run", "Write it", "--model", shell.script()).code == 1
    assert shell.process("run", "x", "--max-steps", "0").code == 2
    said = shell.process(
        "run",
        "-",
        "--tools",
        "ai.process",
        "--model",
        shell.script(*OUT_OF_STEPS),
        "--max-steps",
        "1",
        stdin=b"Write it\n",
    )
    assert said.code == 6
    assert shell.process("show", "last").out.splitlines()[1] == "objective  Write it"


def test_json_prints_the_result_as_one_object(shell: Shell) -> None:
    said = shell.run("--json", "--criterion", "is done")
    assert list(said.json) == [
        *words("""
        run_id state status reason answer output documents steps usage criteria waiting_for key metadata variables
        objective conversation
    """)
    ]
    assert said.json["criteria"] == [{"criterion": "is done", "met": False}]
    assert said.json["documents"][0]["label"] == "round1_task1_action1_text"
    assert shell("resume", said.json["run_id"], "--json").out == said.out


LETTERS = {"deny": ["document.generateReport"], "task_types": {"letters": ["ai.*", "document.*"]}}


def policies(shell: Shell) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return round, task and what is denied of each run of the journal that calls tools, the oldest first."""
    with Journal(shell.folder / "paor.db") as journal:
        runs = [(row, journal.spec(row.run_id)) for row in reversed(journal.runs()) if row.task]
    return [(row.round, row.task, spec.policy.deny) for row, spec in runs]


def test_a_policy_holds_for_the_tasks_and_every_round(shell: Shell) -> None:
    """Also where the next round does not give it again: it may do no more than what was begun."""
    shell.write("note.txt", "Tea is due on Monday.")
    shell.write("policy.json", json.dumps(LETTERS))
    denied = ("document.generateReport",)
    first = shell(
        *("run", "Summarise it", "--tasks", "--document", "note.txt", "--model", "offline"),
        *("--policy", "policy.json", "--task-type", "letters", "--conversation", "c"),
    )
    assert first.code == 0 and "Tea is due" in first.out, first
    more = "--conversation", "c", "--tasks", "--model", "offline"
    second = shell("run", "When is tea due?", "--max-steps", "3", *more)
    assert second.code == 0, second
    assert policies(shell) == [(1, 1, denied), (2, 1, denied)]
    said = {"query": "And again", "conversation": "d", "model": "offline", "documents": ["note.txt"]}
    assert shell("run", "--input", json.dumps(said)).code == 0
    assert shell("run", "--input", json.dumps(said)).code == 0
    assert policies(shell)[2:] == [(1, 1, ()), (2, 1, ())]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--enrich",), "--enrich goes with --web"),
        (("--task-type", "letters"), "--policy FILE"),
        (("--policy", "none.json"), "none.json"),
        (("--policy", "list.json"), "list.json: expected an object"),
        (("--policy", "typo.json"), "typo.json: Policy: unknown field 'denny'; did you mean deny?"),
        (("--input", '{"policy": {"deny": "web.*"}}'), "policy: Policy: deny"),
        (("--policy", "policy.json", "--app", "shop:engine"), "--policy goes without --app"),
        (("--conversation", "c", "--after", "last"), "no such journal"),
    ],
)
def test_what_does_not_go_together_starts_nothing(
    shell: Shell, arguments: tuple[str, ...], told: str
) -> None:
    shell.write("list.json", "[]")
    shell.write("typo.json", '{"denny": ["web.*"]}')
    shell.write("policy.json", json.dumps(LETTERS))
    said = shell("run", "x", *arguments)
    assert said.code == 2 and told in said.err, said
    assert not (shell.folder / "paor.db").exists()


def test_flags_reach_the_spec(shell: Shell) -> None:
    shell.write("note.txt", "Tea is due on Monday.")
    shell.write("plan.md", "My own template {{KEY:OBJECTIVE}}")
    shell.write("policy.json", json.dumps(LETTERS))
    said = shell.run(
        *("--document", "note.txt", "--document", "-", "--criterion", "a", "--criterion", "b"),
        *("--mode", "react", "--tools", "ai.process, document.extract", "--task-type", "letters"),
        *("--policy", "policy.json"),
        *("--max-steps", "7", "--token-budget", "99999", "--time-budget", "60.5", "--language", "de"),
        *("--prompt-template", "plan.md", "--context", "by post", "--durability", "off"),
        stdin=b"More.",
    )
    assert said.code == 0, said
    spec = shell("show", "last", "--json").json["spec"]
    assert spec["success_criteria"] == ["a", "b"]
    assert spec["tools"] == ["ai.process", "document.extract"]
    assert (spec["task_type"], spec["language"], spec["context"]) == ("letters", "de", "by post")
    assert policies(shell) == [(1, 1, ("document.generateReport",))]
    assert (spec["limits"]["max_steps"], spec["limits"]["token_budget"]) == (7, 99999)
    assert spec["limits"]["time_budget_s"] == 60.5


def test_a_document_can_come_from_standard_input(shell: Shell) -> None:
    said = shell("run", "Write it", "--model", shell.script(*DONE), "--document", "-", stdin=b"%PDF-1.4 torn")
    assert said.code == 0, said
    [given, _] = shell("show", "--documents", "--json").json
    assert (given["name"], given["mime"]) == ("stdin", "application/pdf")


def test_run_reads_its_fields_as_json(shell: Shell) -> None:
    shell.write("note.txt", "Tea.")
    fields = {
        "objective": "Write it",
        "documents": ["note.txt", {"name": "b.md", "content": "# B"}],
        "criterion": "a",
        "maxSteps": 7,
        "timeBudget": 9,
        "tools": "ai.process,document.extract",
        "taskType": "letters",
        "policy": LETTERS,
        "userLanguage": "fr",
        "promptTemplate": "Own {{KEY:OBJECTIVE}}",
        "limits": {"previews": 2},
        "connections": {"mail": "secret"},
        "model": shell.script(*DONE),
        "finalFormat": None,
    }
    shell.write("input.json", json.dumps(fields))
    for source, stdin in (("input.json", b""), (json.dumps(fields), b""), ("-", json.dumps(fields).encode())):
        said = shell("run", "--input", source, stdin=stdin)
        assert said.code == 0, said
        shown = shell("show", "--json").json
        spec = shown["spec"]
        assert (spec["success_criteria"], spec["language"], spec["task_type"]) == (["a"], "fr", "letters")
        assert (spec["limits"]["max_steps"], spec["limits"]["previews"], spec["limits"]["time_budget_s"]) == (
            7,
            2,
            9.0,
        )
        assert sum(item["given"] for item in shown["documents"]) == 2
        assert "secret" not in shell("export").out


def test_options_win_over_the_json_beside_them(shell: Shell) -> None:
    shell.write("own.md", "File {{KEY:OBJECTIVE}}")
    fields = {
        "objective": "Other",
        "maxSteps": 7,
        "promptTemplate": "Text {{KEY:OBJECTIVE}}",
        "language": "fr",
    }
    said = shell.run("--input", json.dumps(fields), "--max-steps", "3", "--prompt-template", "own.md")
    assert said.code == 0, said
    shown = shell("show", "--json").json["spec"]
    assert (shown["objective"], shown["limits"]["max_steps"], shown["language"]) == ("Write it", 3, "fr")
    assert '"File {{KEY:OBJECTIVE}}' in shell("export").out.replace('\\"', '"')


SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}


def test_an_output_schema_makes_the_answer_json(shell: Shell) -> None:
    """On standard output; asked for again where it does not fit; in ``--input`` it is data."""
    shell.write("schema.json", json.dumps(SCHEMA))
    known = {"action": None, "answer": "Ten days."}
    replies = [known, *({"status": "success", "output": {"days": days}} for days in ("ten", 10))]
    model = shell.script(*replies)
    said = shell("run", "How many days?", "--model", model, "--output-schema", "schema.json")
    assert (said.code, said.out) == (0, '{"days":10}\n')
    said = shell(
        "run",
        "--input",
        json.dumps({"objective": "How many?", "model": model, "outputSchema": SCHEMA}),
        "--json",
    )
    assert (said.json["output"], said.json["answer"]) == ({"days": 10}, '{"days":10}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "schema.json: is not JSON"),
        ('{"type": "day"}', "output_type: "),
        ("[1]", "output_type"),
        (json.dumps(SCHEMA), "--output writes a text"),
    ],
)
def test_a_bad_output_schema_is_one_line(shell: Shell, text: str, words: str) -> None:
    """Exit code 2, and no journal."""
    shell.write("schema.json", text)
    output = ("--output", "r.md") if text == json.dumps(SCHEMA) else ()
    said = shell("run", "How many?", "--model", "offline", "--output-schema", "schema.json", *output)
    assert said.code == 2 and words in said.err and len(said.err.splitlines()) == 1, said
    assert not (shell.folder / "paor.db").exists()


def test_ansi_escapes_of_an_answer_are_made_visible(shell: Shell) -> None:
    said = shell.run(replies=[*DONE[:4], SUCCESS | {"answer": "red \x1b[31m\x9b31m\u202e and\tso\r\n"}])
    assert said.out == "red ␛[31m\ufffd31m\ufffd and\tso\n"


def test_the_journal_comes_from_the_environment_unless_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAOR_JOURNAL", "mine.db")
    assert "--journal" not in shell.run().err
    assert "--journal 'my other.db'" in shell.run("--journal", "my other.db").err
    assert {"mine.db", "my other.db"} <= shell.files()
    assert "paor.db" not in shell.files()


# -- --output ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["report.md", "report.markdown", "report.TXT"])
def test_output_writes_the_last_report(shell: Shell, name: str) -> None:
    said = shell.run("--output", name)
    assert said.code == 0, said
    text = (shell.folder / name).read_text()
    assert text.startswith("# Write it\n")
    assert TEXT in text
    assert f"wrote {name} (the report, " in said.err
    assert (shell.folder / name).stat().st_mode & 0o777 == (
        shell.folder / "script.json"
    ).stat().st_mode & 0o777
    assert not [file for file in shell.files() if file.startswith(".")]


def test_output_replaces_a_file_and_keeps_its_mode(shell: Shell) -> None:
    shell.write("report.md", "old")
    (shell.folder / "report.md").chmod(0o600)
    (shell.folder / "link.md").symlink_to("report.md")
    assert shell.run("--output", "link.md").code == 0
    assert (shell.folder / "link.md").is_symlink()
    assert "Write it" in (shell.folder / "report.md").read_text()
    assert (shell.folder / "report.md").stat().st_mode & 0o777 == 0o600


def test_output_of_a_run_without_report_is_the_answer(shell: Shell) -> None:
    answer = {"action": None, "answer": "Just so."}
    said = shell.run("--output", "report.md", replies=[answer, {"status": "success", "improvements": []}])
    assert said.code == 0, said
    assert "Just so." in (shell.folder / "report.md").read_text()


def test_output_of_a_failed_run_without_report_is_not_written(shell: Shell) -> None:
    said = shell.run("--output", "report.md", replies=[])
    assert said.code == 1
    assert "report.md: not written; the run produced no report" in said.err
    assert "report.md" not in shell.files()


def test_a_report_that_cannot_be_written_after_all_is_told_and_the_answer_printed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    said = shell.run("--output", "report.md")
    assert said.code == 2
    assert said.out == "It is **done**.\n"
    assert "paor: report.md: cannot be written (No space left on device)" in said.err
    assert not [file for file in shell.files() if "report.md" in file]


def test_nothing_of_the_command_line_is_imported_by_the_library() -> None:
    import subprocess

    code = "import sys, paor; print([n for n in sys.modules if n.split('.')[0] in ('click', 'rich') or 'cli' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = [
        name
        for name in json.loads(done.stdout.replace("'", '"'))
        if name.startswith(("click", "rich", "paor"))
    ]
    assert names == []


# -- the profile, and what every prompt says ---------------------------------------------------------------------


def spec_of(shell: Shell) -> Any:
    """Return the spec of the newest run."""
    place = "payloads.run = specs.run AND n = spec_payload ORDER BY payloads.run DESC LIMIT 1"
    ((body,),) = shell.sql(f"SELECT body FROM payloads JOIN specs ON {place}")
    return json.loads(body)


def test_a_run_is_asked_in_the_form_of_its_profile(shell: Shell) -> None:
    """By what the model does, or as the option says; the spec has what it came to."""
    turns = (
        {"text": "", "calls": [{"id": "c", "name": "ai_process", "arguments": {"aiPrompt": "it"}}]},
        "A text.",
    )
    for options, replies, stage in (
        ((), (*turns, "It is done."), "native"),
        ((), DONE, "two_stage"),
        (("--profile", "auto"), DONE, "two_stage"),
        (("--profile", "native"), ("It is done.",), "native"),
        (("--profile", "two_stage"), DONE, "two_stage"),
    ):
        assert shell.run(*options, replies=replies).code == 0, options
        assert spec_of(shell)["profile"]["stage"] == stage
    for name in ("lenient", "autos"):
        shell.run("--profile", name).refused(
            f"profile '{name}' is unknown; use auto, native, two_stage, strict"
        )


def test_a_template_is_held_to_the_profile_before_the_journal_is_opened(shell: Shell) -> None:
    """With ``auto`` one for turns is fine, and so is one for the two stages."""
    shell.write("turn.md", "Do {{KEY:OBJECTIVE}} by {{KEY:OWN_RULES}}")
    shell.write("stages.md", "Do {{KEY:OBJECTIVE}}: {{KEY:REPLY}}")
    shell.write("neither.md", "Do as you like.")
    for name, options in (
        ("turn", ("--profile", "two_stage")),
        ("stages", ("--profile", "native")),
        ("neither", ()),
    ):
        said = shell("run", "x", "--model", "offline", "--prompt-template", f"{name}.md", *options)
        said.refused("prompt ", "OBJECTIVE" if name == "neither" else "nothing is ever put in place of")
    assert not (shell.folder / "paor.db").exists()
    turns = ("turn", {"text": "", "calls": []}, "native")
    for name, reply, stage in (turns, ("stages", {"action": None, "answer": "Done."}, "two_stage")):
        script = shell.script(reply, SUCCESS)
        shell("run", "x", "--model", script, "--prompt-template", f"{name}.md")
        assert spec_of(shell)["profile"]["stage"] == stage


def test_instructions_are_an_option_and_a_field(shell: Shell) -> None:
    """An option wins over the JSON beside it."""
    shell.run("--instructions", "Be brief.", "--input", '{"instructions": "Be long."}')
    assert spec_of(shell)["own_instructions"] == "Be brief."
