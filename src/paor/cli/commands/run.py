"""`paor run`, `paor resume`, `paor cancel`: the commands that write a journal."""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stdout, suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from ...fsm.diagrams.overlays import machine_walked
from ...fsm.engine import Engine
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import Journal
from ...fsm.lifecycle.arguments import model_of
from ...fsm.lifecycle.fallback import is_owed
from ...fsm.lifecycle.options import OPTIONS, Use
from ...fsm.lifecycle.resume import timeout_answer
from ...fsm.lifecycle.subruns import (
    open_question,
    runs_of,
    unfinished_called,
    used_tools,
    waiting_called,
    waits_for_called,
)
from ...fsm.machine.host_rows import NO_HOST
from ...fsm.replay.restore import restore_run
from ...fsm.runtime.events import RunEnded, RunStarted
from ...fsm.runtime.ports import SystemClock
from ...fsm.runtime.result import Result
from ...prompts.model import Model
from ...states.base.errors import MissingExtra, NotAJournal, PaorError, RunChanged, UsageError
from ...states.run.phase_names import EXECUTING
from ...states.run.spec import TASK_TOOL
from ...tools.documents.tools import builtin_tools
from ...tools.tool import Tool
from ..support import terminal as io
from ..support.app import EngineOptions, engine_options
from ..support.inputs import RunInput, run_input
from ..support.journals import command_line, find_run
from ..support.json_input import answer_value, json_value
from ..support.options import ACCEPT, QUIET, Decorator, app_option, command, option, pairs, several
from ..support.outcome import check_output, end
from ..support.progress import Watch
from ..support.run_text import argument_lines

REQUIRED = option("--require-criteria", "Exit with 1 when a criterion is not met at the end.", "required")
REPORT = option("--output FILE", "Write the final report: .md, .txt, .html or .docx.")
MODELS = "openai:NAME, anthropic:NAME, offline or script:FILE; default:"

DOCUMENT = option("--document FILE...", "Input document, - for stdin; repeatable.", "documents")
DURABILITY = option("--durability D", "full (default), normal or off: what survives a power loss.")
BOUNDS = (
    option("--max-steps N", "Actions the run may start; default 5.", type=int),
    option("--token-budget N", "Input plus output tokens.", type=int),
    option("--time-budget S", "Seconds of active work.", "time_budget_s", type=float),
    option("--tool-timeout S", "Seconds of one call of a tool.", "tool_timeout_s", type=float),
)


def round_options(*, chat: bool) -> Decorator:
    """Give a command what a start of a run may be given, in the order of `OPTIONS`; of *chat* what each of its rounds may."""
    flags = [DOCUMENT]
    for name, known in OPTIONS.items():
        if known.flag and (not chat or Use.CHAT in known.use):
            repeated, more = ("...", {"callback": pairs}) if name == "metadata" else ("", {})
            flags.append(option(known.flag + repeated, known.help, name, **more))
    return several(*flags, *BOUNDS, DURABILITY, QUIET)


@command(
    "run",
    'paor run "Summarise the obligations and list every deadline" --document contract.pdf',
    'paor run "Compare both offers" --document a.docx --document b.docx --output report.md',
    'paor run --conversation c-17 "And in euros?"',
    'paor run --input \'{"objective": "...", "documents": ["a.pdf"], "maxSteps": 8}\'',
)
@click.argument("words", nargs=-1, metavar="[OBJECTIVE]")
@option("--criterion TEXT...", "What must hold at the end; repeatable.", "success_criteria")
@round_options(chat=False)
@option("--tasks", "Plan the objective as tasks, each a run of its own.")
@REPORT
@REQUIRED
@option("--input JSON|FILE|-", "The same fields as one JSON object.", "source")
@engine_options
def run(
    words: tuple[str, ...],
    source: str | None,
    options: EngineOptions,
    *,
    quiet: bool,
    required: bool,
    **flags: Any,
) -> int:
    """
    Run an objective to its end, or until it waits for an answer.

    OBJECTIVE is the task, in your words; - reads it from standard input. The answer goes to standard output,
    everything else to standard error: the model in use and where its name comes from, on a terminal also what the
    model writes and every row of the run.

    A criterion that is not met at the end is named on standard error, and decides the exit code only with
    --require-criteria.

    With --key nothing is done twice: the first start creates the run, a later one goes on with it, or prints its
    result if it has ended. A key that was used for another objective is refused.

    Exit codes: 0 Done, 1 Failed, 2 bad input or journal, 5 waiting for an answer, 6 Failed by a limit.
    """
    given = run_input(flags | {"objective": one_text(words, "OBJECTIVE")}, options, source)
    if given.output is not None:
        form = check_output(given.output, options.journal, given.sources)
        given.arguments["final_format"] = given.arguments.get("final_format") or form
    options, watch, model = given.engine, Watch(quiet=quiet), given.arguments.get("model")
    if (named := given.arguments.get("after")) is not None:
        with options.looking() as opened:
            given.arguments["after"] = find_run(opened, named).run_id
    options = with_policy_before(options, given.arguments)
    with options.tools() as tools, options.driving(tools, durability=given.durability, model=model) as engine:
        drive: Callable[[], Result | None] = partial(_follow, engine, given, watch)
        if given.tasks:
            engine.hooks = (*engine.hooks, watch)
            watch.model = (engine.model.name, given.model_source)
            bounds = given.limits(engine.limits) if given.bounds else None
            drive = partial(engine.run_workflow, **given.arguments, limits=bounds)
        return driven(engine, drive, watch, options, given.output, required=required)


def _with_policy_of(options: EngineOptions, opened: Journal, row: RunRow) -> EngineOptions:
    """Return *options* with the policy of the runs so far, unless they have one: what goes on may do no more than what was begun."""
    if options.app is not None or options.policy is not None:
        return options
    runs = runs_of(opened.reader, row.workflow_id)
    tasks = [(round, run_id) for run_id, round, task in runs if task]  # the whole calls nothing itself
    if not tasks:
        return options
    recorded = opened.spec(max(tasks)[1]).policy
    return replace(
        options, policy=recorded.model_copy(update={"missing_ok": True})
    )  # checked when it was given


def with_policy_before(options: EngineOptions, arguments: Mapping[str, Any]) -> EngineOptions:
    """Return *options* with the policy of the round before, unless they have one: a conversation may do no more than it was begun with."""
    conversation, after = arguments.get("conversation"), arguments.get("after")
    if options.app is not None or conversation is None:
        return options
    with suppress(NotAJournal), options.looking() as opened:
        if (before := opened.reader.newest_round(conversation) or after) is not None:
            return _with_policy_of(options, opened, opened.run(before))
    return options


def one_text(words: tuple[str, ...], name: str) -> str | None:
    """Return the argument *name*, None when it was not given; raise `UsageError` for more than one."""
    if len(words) <= 1:
        return words[0] if words else None
    files = [word for word in words if os.path.isfile(word)]
    if files:
        options = " ".join(f"--document {shlex.quote(file)}" for file in files)
        raise click.UsageError(f"documents are given with an option: {options}")
    raise click.UsageError(f"{name} is one argument, put it in quotes: {shlex.quote(' '.join(words))}")


def _follow(engine: Engine, given: RunInput, watch: Watch) -> Result | None:
    """Start the run and follow it to its end; its model, which its workflow may name, is told when it starts."""
    result: Result | None = None
    limits = given.limits(engine.limits_of(given.arguments["mode"])) if given.bounds else None
    with closing(engine.stream(**given.arguments, limits=limits, on_close="stop")) as stream:
        for event in stream:
            if isinstance(event, RunStarted) and watch.run_id is None:
                name = engine.journal.spec(event.run_id).model
                own = given.arguments.get("model") is not None or name == engine.model.name
                watch.model = name, given.model_source if own else "from the workflow file"
            watch(event)
            if isinstance(event, RunEnded):
                result = event.result
    return result


def driven(
    engine: Engine,
    drive: Callable[[], Result | None],
    watch: Watch,
    options: EngineOptions,
    output: Path | None,
    *,
    required: bool,
) -> int:
    """Drive a run with its progress shown, and end the command; what tools print goes to standard error."""
    try:
        with watch.shown(), redirect_stdout(sys.stderr):
            result = drive()
    except KeyboardInterrupt:
        io.tell("")
        if watch.run_id is None:
            io.tell("paor: interrupted while starting; to see what was started: paor runs")
            return io.INTERRUPTED
        app = f" --app {shlex.quote(options.app)}" if options.app else ""
        resume = command_line("resume", engine.journal, watch.run_id) + app
        if doubts := list(doubt_lines(engine.journal, watch.run_id)):
            io.tell(*doubts, f"paor: find out which; all else is safe. Go on with: {resume}", SETTLE)
        else:
            io.tell(f"paor: interrupted; what was done is safe, go on with: {resume}")
        return io.INTERRUPTED
    assert result is not None, "a run ends with its result"
    return end(result, engine.journal, options, output, required=required)


SETTLE = (
    "paor: unless the tool can say it itself, that asks for the outcome: done (with --result), retry or fail"
)


def doubt_lines(journal: Journal, run_id: str) -> Iterator[str]:
    """Yield the calls of a run that was interrupted, and of those that it has called, that may or may not have taken effect."""
    doubts = []
    with suppress(PaorError):
        for name in (run_id, *unfinished_called(journal.reader, journal.run(run_id))):
            run, _ = restore_run(journal.reader, name)
            intent = run.memory.intent
            if run.state == EXECUTING and run.waiting_for is None and intent and intent.effect == "once":
                doubts += [intent] if intent.tool != TASK_TOOL.name else []
    for intent in doubts:
        yield f"paor: interrupted inside {intent.tool} (once), which may or may not have taken effect:"
        yield from (f"  {line}" for line in argument_lines(intent.arguments, io.width() - 2))
        yield f"  key: {intent.idempotency_key}"


def recorded_run_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command options of an answer, a model and a report: checked, as ``given``, ``model`` and ``report``."""

    @wraps(function)
    def with_options(
        answer: str | None, outcome: str | None, returned: str | None, actor: str | None, **others: Any
    ) -> int:
        model, output = others.pop("model"), others.pop("output")
        others["model"] = model_of(model) if model is not None else None
        others["report"] = Path(output) if output is not None else None
        given = given_answer(answer, outcome, returned, actor)
        if output is not None:
            check_output(Path(output), others["journal"])
        return function(given=given, **others)

    return several(*ANSWER_FLAGS, REPORT, REQUIRED, QUIET)(with_options)


ANSWER_FLAGS = (
    option("--answer ANSWER", "To the run's question: JSON, a text, or for an approval yes or no."),
    option("--actor NAME", "Who answers; kept with the answer in the journal. Default: your login name."),
    click.option("--outcome", type=click.Choice(["done", "retry", "fail"]), help="Of an effect in doubt."),
    option("--result JSON", "What the effect returned, with --outcome done.", "returned"),
    option("--model M", f"{MODELS} the model the run had."),
)


def given_answer(
    answer: str | None, outcome: str | None, returned: str | None, actor: str | None
) -> dict[str, Any]:
    """
    Return the answer as `Engine.resume` takes it, but a text for `answer_value`, which needs the question.

    Raises:
        UsageError: Its options do not fit, or are not JSON.
    """
    if answer is not None and outcome is not None:
        raise click.UsageError(
            "--answer and --outcome exclude each other: one is for a question, one for an effect"
        )
    if returned is not None and outcome is None:
        raise click.UsageError("--result comes with --outcome")
    result = json_value(returned, "--result") if returned is not None else None
    if answer is None and outcome is None:
        if actor is not None:
            raise click.UsageError("--actor comes with --answer or --outcome")
        return {"answer": None, "outcome": None, "result": None}
    return {"answer": answer, "outcome": outcome, "result": result, "actor": actor or login_name()}


def login_name() -> str | None:
    """Return the name under which the caller is logged in, None where the system knows none."""
    try:
        return getpass.getuser() or None
    except (OSError, KeyError, ImportError):
        return None


@contextmanager
def engine_of_run(
    options: EngineOptions, row: RunRow, model: Model | None, watch: Watch, accept: str
) -> Iterator[Engine]:
    """
    Open the engine that goes on with a run, with *model* or the run's own.

    When parts of the run have changed, they are named with the option that accepts that, and the command exits.

    Raises:
        UsageError: The run needs a model or tools that the engine does not have.
    """
    with options.tools() as tools:
        if options.app is None:
            with options.looking() as opened:
                options = _with_policy_of(options, opened, row)
                check_tools(
                    opened, row, tools, web=options.web
                )  # first: an app that has them has a model too
                model = model or model_of_run(opened, row)
        with options.driving(tools, model=model, hooks=() if watch.quiet else (watch,)) as engine:
            try:
                yield engine
            except RunChanged as error:
                io.tell(f"paor: run {row.run_id} was recorded with other parts; nothing was done")
                io.tell(*(f"  {io.one_line(part)}" for part in error.parts))
                io.tell(f"paor: go on with them: {accept}; or give the engine that the run had")
                raise click.exceptions.Exit(io.USAGE) from None


@command(
    "resume",
    "paor resume last",
    "paor resume 0199d2b4-6f1e --answer yes",
    'paor resume last --outcome done --result \'"sent"\' --reason "in the outbox" --app shop:engine',
)
@click.argument("name", metavar="RUN")
@recorded_run_options
@option("--reason TEXT", "Why; kept with --answer or --outcome in the journal.")
@option("--question ID", "The question that this answers; needed after the first of a run.")
@ACCEPT
@engine_options
def resume(
    name: str,
    given: dict[str, Any],
    reason: str | None,
    question: str | None,
    model: Model | None,
    report: Path | None,
    accept_changes: bool,
    required: bool,
    quiet: bool,
    options: EngineOptions,
) -> int:
    """
    Continue a run where its journal ends.

    RUN is an id, an unambiguous start of one, or "last". For a finished run the result is printed again; for a
    waiting run without an answer, the question. In both cases nothing is written.

    An answer is JSON, or a text where that fits the question; an approval also takes yes, no, approve and deny, and
    with {"approve": true, "arguments": {...}} other arguments. It counts once: one to a question that is settled is
    refused and changes nothing.

    If prompts, tools, policy or decision rules of the run have changed since, it is refused. A line for each
    changed part says which rows have used it and whether later ones may. --accept-changes continues and journals
    that.

    Exit codes: those of paor run; 2 also for a run that has changed.
    """
    answered = given["answer"] is not None or given["outcome"] is not None
    if not answered and (reason is not None or question is not None):
        raise click.UsageError("--reason and --question come with --answer or --outcome")
    given |= {"reason": reason, "accept_changes": accept_changes}
    with options.looking() as opened:
        row, reader = find_run(opened, name), opened.reader
        called = waiting_called(reader, row)  # perhaps it waits for one that it has called
        settled = called is None and waits_for_called(reader, row)  # where that waits no more, it goes on
        waits = open_question(reader, row) if answered else None
        if waits is not None and question == waits.id.partition("-")[0]:
            question = waits.id
        if question is not None:
            given["question"] = question
        if given["answer"] is not None:
            meant = waits if waits is not None and question in (None, waits.id) else None
            given["answer"] = answer_value(given["answer"], meant)
        done = row.status in ("done", "failed") and not is_owed(reader, restore_run(reader, row.run_id)[0])
        if row.status == "waiting" and not answered and not settled:
            asking, _ = restore_run(reader, called or row.run_id)
            overdue = timeout_answer(asking, reader.rows(asking.number), SystemClock().now_us())
            done = overdue is None
        if done:  # nothing is written
            result = Engine("offline", journal=opened).resume(row.run_id, **given)
            return end(result, opened, options, report, required=required)
    watch = Watch(row.run_id, quiet=quiet)
    with engine_of_run(options, row, model, watch, "--accept-changes") as engine:
        if options.app is not None and model is not None:
            engine.model = model
        watch.model = recorded_model(engine, row, options, model)
        drive = partial(engine.resume, row.run_id, **given)
        return driven(engine, drive, watch, options, report, required=required)


def recorded_model(
    engine: Engine, row: RunRow, options: EngineOptions, model: Model | None
) -> tuple[str, str]:
    """Return which model goes on with a run, and where it comes from; tell if the run was started with another one."""
    had, name = engine.journal.spec(row.run_id).model, (model or engine.model).name
    if name != had:
        io.tell(f"paor: run {row.run_id} had the model {had}, it goes on with {name}")
    app = f"from --app {options.app}" if options.app else "the run's own"
    return name, app if model is None else "from --model"


def model_of_run(journal: Journal, row: RunRow) -> Model:
    """Return the model that a run was started with; raise `UsageError` when it cannot be made from its name."""
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


def check_tools(journal: Journal, row: RunRow, tools: Sequence[Tool], *, web: bool) -> None:
    """Raise `UsageError` when a run uses tools that are neither built in nor among *tools*, or walks a machine of its host's own."""
    if machine_walked(journal.reader, row.run_id).host != NO_HOST:
        raise UsageError(
            f"run {row.run_id} walks a machine of its host's own; give the engine that has it: --app MODULE:ENGINE"
        )
    own = {tool.name for tool in (*builtin_tools(), *tools)}
    missing = [name for name in used_tools(journal.reader, row) if name not in own]
    if missing and not web and all(name.startswith("web.") for name in missing):
        raise UsageError(f"run {row.run_id} uses {', '.join(missing)}; allow the network with --web")
    if missing:
        raise UsageError(
            f"run {row.run_id} uses {', '.join(missing)}, which are not built in; give its engine: --app MODULE:ENGINE,"
            " or the server that has them: --mcp COMMAND|URL"
        )


@command("cancel", "paor cancel last", "paor cancel 0199d2b4-6f1e --journal runs.db")
@click.argument("name", metavar="RUN")
@app_option()
def cancel(name: str, app: str | None, journal: str) -> int:
    """
    Stop a run.

    A run with a driver stops before its next effect; a run without one ends at once as Failed (cancelled). A
    finished run does not change.

    Exit codes: 0 also for the cancelled run; 2 no such run or journal.
    """
    options = EngineOptions(journal, app)
    with options.looking() as opened:
        row = find_run(opened, name)
        ended = row.status in ("done", "failed")
        if ended:
            result = Engine("offline", journal=opened).cancel(row.run_id)
    note = "had ended already; nothing was changed"
    if not ended:
        with options.driving(model=model_of("offline")) as engine, redirect_stdout(sys.stderr):
            result = engine.cancel(row.run_id)
        note = "asked to stop; its driver does so before the next effect"
        if result.status in ("done", "failed"):
            note = "it had no driver, so it ended at once"
    state = io.state_text(result.state, result.reason or result.status, result.status)
    return io.say_either(result.wire(), [f"run {result.run_id}  {state}  {note}"])
