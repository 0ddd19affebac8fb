"""`paor run`, `paor resume`, `paor cancel`: the commands that write a journal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import click

from ...fsm.engine import Engine
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import Journal
from ...fsm.lifecycle.arguments import model_of
from ...fsm.lifecycle.fallback import is_owed
from ...fsm.lifecycle.result import Result
from ...fsm.lifecycle.resume import timeout_answer
from ...fsm.lifecycle.subruns import used_tools
from ...fsm.replay.restore import restore_run
from ...fsm.runtime.ports import SystemClock
from ...prompts.model import Model
from ...states.base.errors import MissingExtra, RunChanged, UsageError
from ...states.records.events import RunEnded
from ...tools.documents.builtin import builtin_tools
from ...tools.tool import Tool
from ..support.app import APP_HELP, WEB_HELP, asked_tools, driving, looking
from ..support.inputs import RunInput, run_input
from ..support.journals import find_run, short_id
from ..support.json_input import json_value
from ..support.mcp_servers import McpFlags, mcp_flags_text, mcp_offered, mcp_options
from ..support.outcome import Ending, check_output
from ..support.progress import Watch
from ..support.run_summary import asking
from ..support.streams import (
    INTERRUPTED,
    OK,
    USAGE,
    command,
    journal_flag,
    say,
    say_json,
    tell,
)
from ..support.text import STATE_STYLES, one_line, styled


@command(
    "run",
    'paor run "Summarise the obligations and list every deadline" --document contract.pdf',
    'paor run "Compare both offers" --document a.docx --document b.docx --output report.md',
    'paor run --input \'{"objective": "...", "documents": ["a.pdf"], "maxSteps": 8}\'',
)
@click.argument("words", nargs=-1, metavar="[OBJECTIVE]")
@click.option(
    "--document", "documents", multiple=True, metavar="FILE", help="Input document, - for stdin; repeatable."
)
@click.option(
    "--criterion", "criteria", multiple=True, metavar="TEXT", help="What must hold at the end; repeatable."
)
@click.option(
    "--model",
    metavar="M",
    help="openai:NAME, anthropic:NAME, offline or script:FILE; default: a key in the environment decides, else offline.",
)
@click.option(
    "--mode",
    metavar="MODE",
    help="react (default): one action at a time; planner: plans until one is empty; batch (legacy): one plan.",
)
@click.option("--fallback", metavar="MODE", help="batch: if a react run fails, start it again as one plan.")
@click.option(
    "--profile", metavar="NAME", help="lenient (default) or strict: which forms of replies are accepted."
)
@click.option("--stage", metavar="NAME", help="two_stage (default) or single: what Stage 1 is asked for.")
@click.option(
    "--tools", metavar="A,B", help="Names of the tools the run may use; default: all. See: paor tools."
)
@click.option("--web", is_flag=True, help=WEB_HELP)
@mcp_options
@click.option("--task-type", metavar="T", help="A task type of the policy.")
@click.option("--max-steps", type=int, metavar="N", help="Actions the run may start; default 5.")
@click.option("--token-budget", type=int, metavar="N", help="Input plus output tokens.")
@click.option("--time-budget", "time_budget_s", type=float, metavar="S", help="Seconds of active work.")
@click.option("--language", metavar="L", help="Language of the answer, such as de; default en.")
@click.option(
    "--prompt-template",
    "prompt_template_file",
    metavar="FILE",
    help="Instead of the shipped planning prompt.",
)
@click.option(
    "--workflow",
    "workflow_file",
    metavar="FILE",
    help="Follow a workflow file, YAML or JSON; implies --mode planner.",
)
@click.option("--output", metavar="FILE", help="Write the final report: .md, .txt, .html or .docx.")
@click.option("--context", metavar="TEXT", help="Extra context for choosing actions.")
@click.option("--durability", metavar="D", help="full (default), normal or off: what survives a power loss.")
@click.option("--app", metavar="MODULE:ENGINE", help=APP_HELP)
@click.option("--input", "source", metavar="JSON|FILE|-", help="The same fields as one JSON object.")
def run(
    words: tuple[str, ...],
    source: str | None,
    criteria: tuple[str, ...],
    journal: str,
    as_json: bool,
    **flags: Any,
) -> int:
    """
    Run an objective to its end, or until it waits for an answer.

    OBJECTIVE is the task, in your words; - reads it from standard input. The answer goes to standard output,
    everything else to standard error.

    Exit codes: 0 Done, 1 Failed, 2 bad input or journal, 5 waiting for an answer, 6 Failed by a limit.
    """
    mcp = McpFlags.taken(flags)
    flags["objective"] = _objective(words)
    flags["success_criteria"] = criteria
    flags["web"] = flags["web"] or None  # a flag that was not given leaves what the JSON says
    if flags["tools"] is not None:
        flags["tools"] = [flags["tools"]]
    given = run_input(flags, source)
    if given.output is not None:
        form = check_output(given.output, journal, given.sources)
        given.final_format = given.final_format or form
    watch = Watch()

    def drive(engine: Engine) -> Result | None:
        return _streamed(engine, given, watch)

    with (
        mcp_offered(mcp, given.app) as extra,
        driving(
            given.app, journal, durability=given.durability, model=given.model, web=given.web, extra=extra
        ) as engine,
    ):
        return driven(engine, drive, watch, given.app, given.output, as_json, mcp=mcp)


def _objective(words: tuple[str, ...]) -> str | None:
    """
    Return the objective, None when it was not given here.

    Raises:
        UsageError: More than one argument: a file without its option, or a text without quotes.
    """
    if len(words) <= 1:
        return words[0] if words else None
    files = [word for word in words if os.path.isfile(word)]
    if files:
        options = " ".join(f"--document {shlex.quote(file)}" for file in files)
        raise click.UsageError(f"documents are given with an option: {options}")
    raise click.UsageError(f"OBJECTIVE is one argument, put it in quotes: {shlex.quote(' '.join(words))}")


def _streamed(engine: Engine, given: RunInput, watch: Watch) -> Result | None:
    """Start the run and follow it to its end."""
    result: Result | None = None
    stream = engine.stream(
        given.objective,
        given.success_criteria,
        documents=given.documents,
        language=given.language,
        user_language=given.user_language,
        task_type=given.task_type,
        mode=given.mode,
        connections=given.connections,
        context=given.context,
        tools=given.tools,
        model=given.model,
        prompt_template=given.prompt_template,
        final_format=given.final_format,
        profile=given.profile,
        stage=given.stage,  # type: ignore[arg-type]  # checked when the input was read
        fallback=given.fallback,  # type: ignore[arg-type]
        limits=given.limits(engine.limits_of(given.mode)),
        workflow=given.workflow,
    )
    with closing(stream):  # type: ignore[type-var]
        for event in stream:
            watch(event)
            if isinstance(event, RunEnded):
                result = event.result
    return result


def driven(
    engine: Engine,
    drive: Callable[[Engine], Result | None],
    watch: Watch,
    app: str | None,
    output: Path | None,
    as_json: bool,
    *,
    mcp: McpFlags = McpFlags(),  # noqa: B008 - frozen
) -> int:
    """Drive a run with its progress shown, and end the command; what tools print goes to standard error."""
    try:
        with watch.shown(), redirect_stdout(sys.stderr):
            result = drive(engine)
    except KeyboardInterrupt:
        tell("")
        if watch.run_id is None:
            tell("paor: interrupted while starting; to see what was started: paor runs")
        else:
            flags = journal_flag(engine.journal.path) + (f" --app {app}" if app else "")
            name = short_id(engine.journal, watch.run_id)
            tell(f"paor: interrupted; what was done is safe, go on with: paor resume {name}{flags}")
        return INTERRUPTED
    assert result is not None, "a run ends with its result"
    return Ending(result, engine.journal, app, output, as_json, mcp_flags_text(mcp.servers)).report()


def given_answer(answer: str | None, outcome: str | None, returned: str | None) -> dict[str, Any]:
    """
    Return what ``--answer``, ``--outcome`` and ``--result`` say, as `Engine.resume` takes it.

    Raises:
        UsageError: They do not go together, or are not JSON.
    """
    if answer is not None and outcome is not None:
        raise click.UsageError(
            "--answer and --outcome exclude each other: one is for a question, one for an effect"
        )
    if returned is not None and outcome is None:
        raise click.UsageError("--result comes with --outcome")
    given: dict[str, Any] = {
        "answer": json_value(answer, "--answer") if answer is not None else None,
        "outcome": outcome,
        "result": json_value(returned, "--result") if returned is not None else None,
    }
    if answer is not None and given["answer"] is None:
        raise click.UsageError('--answer null answers nothing; decline with {"action": "decline"}')
    return given


@command(
    "resume",
    "paor resume last",
    "paor resume 0199d2b4-6f1e --answer '{\"approve\": true}'",
    'paor resume last --outcome done --result \'"sent"\' --reason "in the outbox" --app shop:engine',
)
@click.argument("name", metavar="RUN")
@click.option("--answer", metavar="JSON", help="The answer to the run's question.")
@click.option(
    "--outcome", type=click.Choice(["done", "retry", "fail"]), help="Outcome of an effect in doubt."
)
@click.option("--result", "returned", metavar="JSON", help="What the effect returned, with --outcome done.")
@click.option(
    "--reason", metavar="TEXT", help="Who decided, and why; kept with --answer or --outcome in the journal."
)
@click.option(
    "--model",
    metavar="M",
    help="openai:NAME, anthropic:NAME, offline or script:FILE; default: the model the run had.",
)
@click.option("--output", metavar="FILE", help="Write the final report: .md, .txt, .html or .docx.")
@click.option(
    "--accept-changes", is_flag=True, help="Continue although prompts, tools, policy or code have changed."
)
@click.option("--web", is_flag=True, help=WEB_HELP)
@mcp_options
@click.option("--app", metavar="MODULE:ENGINE", help=APP_HELP)
def resume(
    name: str,
    answer: str | None,
    outcome: str | None,
    returned: str | None,
    reason: str | None,
    model: str | None,
    output: str | None,
    accept_changes: bool,
    web: bool,
    app: str | None,
    journal: str,
    as_json: bool,
    **flags: Any,
) -> int:
    """
    Continue a run where its journal ends.

    RUN is an id, an unambiguous start of one, or "last". For a finished run the result is printed again; for a
    waiting run without an answer, the question. In both cases nothing is written.

    If prompts, tools, policy or decision rules of the run have changed since, it is refused. A line for each
    changed part says which rows have used it and whether later ones may. --accept-changes continues and journals
    that.

    Exit codes: those of paor run; 2 also for a run that has changed.
    """
    mcp = McpFlags.taken(flags)
    given = given_answer(answer, outcome, returned)
    if reason is not None and answer is None and outcome is None:
        raise click.UsageError("--reason comes with --answer or --outcome")
    given |= {"reason": reason, "accept_changes": accept_changes}
    chosen = model_of(model) if model is not None else None
    target = Path(output) if output is not None else None
    if target is not None:
        check_output(target, journal)
    with looking(app, journal) as reader:
        row = find_run(reader, name)
        idle = row.status == "waiting" and answer is None and outcome is None
        asked = asking(reader, row)  # of a workflow its waiting task; one whose task waits no more goes on
        settled = row.task == 0 and asked is row
        ended = row.status in ("done", "failed") and not is_owed(reader, restore_run(reader, row.run_id)[0])
        if ended or (idle and not settled and not overdue(reader, asked.run_id)):
            if answer is not None or outcome is not None:
                tell(f"paor: run {row.run_id} has ended; the answer is not needed")
            result = Engine("offline", journal=reader).resume(row.run_id)
            return Ending(result, reader, app, target, as_json).report()
        if app is None:
            if not mcp.servers:
                check_tools(reader, row, web=web)  # first: an app that has them has a model too
            chosen = chosen or model_of_run(reader, row)
    watch = Watch()
    watch.run_id = row.run_id
    with mcp_offered(mcp, app) as extra:
        if extra:
            with looking(app, journal) as reader:
                check_tools(reader, row, web=web, extra=extra)
        with driving(app, journal, model=chosen, hooks=(watch,), web=web, extra=extra) as engine:
            if app is not None and chosen is not None:
                engine.model = chosen
            had = engine.journal.spec(row.run_id).model
            if engine.model.name != had:
                tell(f"paor: run {row.run_id} had the model {had}, it goes on with {engine.model.name}")

            def drive(engine: Engine) -> Result:
                return engine.resume(row.run_id, **given)

            try:
                return driven(engine, drive, watch, app, target, as_json, mcp=mcp)
            except RunChanged as error:
                return report_changes(row, error, "--accept-changes")


def report_changes(row: RunRow, error: RunChanged, option: str) -> int:
    """Say which parts of a run have changed, one a line, and what can be done."""
    tell(f"paor: run {row.run_id} was recorded with other parts; nothing was done")
    tell(*(f"  {one_line(part)}" for part in error.parts))
    tell(f"paor: go on with them: {option}; or give the engine that the run had")
    return USAGE


def overdue(reader: Journal, run_id: str) -> bool:
    """Return whether the question that a run waits for counts as declined by now."""
    run, _ = restore_run(reader, run_id)
    return timeout_answer(run, reader.rows(run.number), SystemClock().now_us()) is not None


def model_of_run(journal: Journal, row: RunRow) -> Model:
    """
    Return the model that a run was started with.

    Raises:
        UsageError: It cannot be made from its name.
    """
    name = journal.spec(row.run_id).model
    try:
        return model_of(name)
    except MissingExtra:
        raise
    except UsageError as error:
        if name.startswith(("openai:", "anthropic:")):
            raise UsageError(f"run {row.run_id} had the model {name}: {error}") from None
        usual = "script:FILE" if name == "scripted" else "M"
        raise UsageError(
            f"run {row.run_id} had the model {name!r}; name the one to go on with: --model {usual}"
        ) from None


def check_tools(journal: Journal, row: RunRow, *, web: bool, extra: Sequence[Tool] = ()) -> None:
    """Raise `UsageError` when a run uses tools that only its host's engine has, or those of the web without *web*."""
    own = {tool.name for tool in (*builtin_tools(), *asked_tools(None, web=web), *extra)}
    missing = [name for name in used_tools(journal, row) if name not in own]
    if missing and not web and all(name.startswith("web.") for name in missing):
        raise UsageError(f"run {row.run_id} uses {', '.join(missing)}; allow the network with --web")
    if missing:
        raise UsageError(
            f"run {row.run_id} uses {', '.join(missing)}, which are not built in; give its engine: --app MODULE:ENGINE,"
            " or the server that has them: --mcp COMMAND|URL"
        )


@command("cancel", "paor cancel last", "paor cancel 0199d2b4-6f1e --journal runs.db")
@click.argument("name", metavar="RUN")
@click.option("--app", metavar="MODULE:ENGINE", help=APP_HELP)
def cancel(name: str, app: str | None, journal: str, as_json: bool) -> int:
    """
    Stop a run.

    A run with a driver stops before its next effect; a run without one ends at once as Failed (cancelled). A
    finished run does not change.

    Exit codes: 0 also for the cancelled run; 2 no such run or journal.
    """
    with looking(app, journal) as reader:
        before = find_run(reader, name)
        if before.status in ("done", "failed"):
            result = Engine("offline", journal=reader).cancel(before.run_id)
            return _report_cancel(result, "had ended already; nothing was changed", as_json)
    with driving(app, journal, model=model_of("offline")) as engine, redirect_stdout(sys.stderr):
        result = engine.cancel(before.run_id)
    if result.status in ("done", "failed"):
        return _report_cancel(result, "it had no driver, so it ended at once", as_json)
    return _report_cancel(result, "asked to stop; its driver does so before the next effect", as_json)


def _report_cancel(result: Result, note: str, as_json: bool) -> int:
    state = styled(f"{result.state} ({result.reason or result.status})", STATE_STYLES.get(result.status, ""))
    if as_json:
        say_json(result.wire())
    else:
        say(f"run {result.run_id}  {state}  {note}")
    return OK
