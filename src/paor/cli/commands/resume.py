"""`paor resume`, `paor fork`, `paor recover`, `paor cancel`: what goes on with runs that a journal holds."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import click

from ...fsm.diagrams.overlays import machine_walked
from ...fsm.engine import Engine
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import Journal
from ...fsm.lifecycle.arguments import model_of
from ...fsm.lifecycle.fallback import is_owed
from ...fsm.lifecycle.fork import calls_after, fork_point
from ...fsm.lifecycle.options import ResumeOptions
from ...fsm.lifecycle.resume import timeout_answer
from ...fsm.machine.host_rows import NO_HOST
from ...fsm.replay.callers import open_question, used_tools, waiting_called, waits_for_called
from ...fsm.replay.restore import restore_run
from ...fsm.runtime.ports import SystemClock
from ...fsm.runtime.result import Result
from ...prompts.model import Model
from ...states.base.errors import JournalDamaged, MissingExtra, RunChanged, UsageError
from ...tools.documents.tools import builtin_tools
from ...tools.tool import Tool
from ..support import terminal as io
from ..support.app import EngineOptions
from ..support.driving import Watch, check_output, end, why_of
from ..support.journals import command_line, find_run
from ..support.json_input import answer_value, json_value, text_file
from ..support.options import Accept, App, Quiet, command, refuse
from .run import Report, Required, driven, with_policy_of

_MODELS = "openai:NAME, anthropic:NAME, offline or script:FILE; default:"
_ANSWER = "To the run's question: JSON, a text, or for an approval yes or no."
_ACTOR = "Who answers; kept with the answer in the journal. Default: your login name."


@dataclass(frozen=True, slots=True)
class Going:
    """What a command that goes on with one run is given: an answer, a model, and where the report goes."""

    journal: str
    answer: Annotated[str | None, "--answer ANSWER", _ANSWER]
    actor: Annotated[str | None, "--actor NAME", _ACTOR]
    outcome: Annotated[Literal["done", "retry", "fail"] | None, "--outcome", "Of an effect in doubt."]
    returned: Annotated[str | None, "--result JSON", "What the effect returned, with --outcome done."]
    model: Annotated[str | None, "--model M", f"{_MODELS} the model the run had."]
    output: Report
    required: Required
    quiet: Quiet

    def checked(self) -> tuple[dict[str, Any], Model | None, Path | None]:
        """Return the answer, the model and the file of the report, each as the engine or `driven` takes it."""
        model = model_of(self.model) if self.model is not None else None
        given = given_answer(self.answer, self.outcome, self.returned, self.actor)
        output = Path(self.output) if self.output is not None else None
        if output is not None:
            check_output(output, self.journal)
        return given, model, output


def given_answer(
    answer: str | None, outcome: str | None, returned: str | None, actor: str | None
) -> dict[str, Any]:
    """Return the answer as `Engine.resume` takes it, but a text for `answer_value`, which needs the question; refuse what does not fit."""
    refuse(
        (
            answer is not None and outcome is not None,
            "--answer and --outcome exclude each other: one is for a question, one for an effect",
        ),
        (returned is not None and outcome is None, "--result comes with --outcome"),
    )
    result = json_value(returned, "--result") if returned is not None else None
    if answer is None and outcome is None:
        refuse((actor is not None, "--actor comes with --answer or --outcome"))
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
    Open the engine that goes on with a run, with *model* or the run's own; raise `UsageError` without a model or tools that it needs.

    When parts of the run have changed, they are named with the option that accepts that, and the command exits.
    """
    with options.tools() as tools:
        if options.app is None:
            with options.looking() as opened:
                options = with_policy_of(options, opened, row)
                # the tools first: an app that has them has a model too
                _check_tools(opened, row, tools, web=options.web)
                model = model or _model_of_run(opened, row)
        with options.driving(tools, model=model, hooks=() if watch.quiet else (watch,)) as engine:
            try:
                yield engine
            except RunChanged as error:
                io.tell(f"paor: run {row.run_id} was recorded with other parts; nothing was done")
                io.tell(*(f"  {io.one_line(part)}" for part in error.parts))
                io.tell(f"paor: go on with them: {accept}; or give the engine that the run had")
                raise click.exceptions.Exit(io.USAGE) from None


def _recorded_model(
    engine: Engine, row: RunRow, options: EngineOptions, model: Model | None
) -> tuple[str, str]:
    """Return which model goes on with a run, and where it comes from; tell if the run was started with another one."""
    had, name = engine.journal.spec(row.run_id).model, (model or engine.model).name
    if name != had:
        io.tell(f"paor: run {row.run_id} had the model {had}, it goes on with {name}")
    app = f"from --app {options.app}" if options.app else "the run's own"
    return name, app if model is None else "from --model"


def _model_of_run(journal: Journal, row: RunRow) -> Model:
    """Return the model that a run was started with; raise `UsageError` when it cannot be made from its name."""
    name = journal.spec(row.run_id).model
    try:
        return model_of(name)
    except MissingExtra:
        raise
    except UsageError as error:
        had = f"run {row.run_id} had the model {name!r}; name the one to go on with: --model"
        if name.startswith(("openai:", "anthropic:")):
            raise UsageError(f"run {row.run_id} had the model {name}: {error}") from None
        raise UsageError(f"{had} {'script:FILE' if name == 'scripted' else 'M'}") from None


def _check_tools(journal: Journal, row: RunRow, tools: Sequence[Tool], *, web: bool) -> None:
    """Raise `UsageError` when a run uses tools that are neither built in nor among *tools*, or walks a machine of its host's own."""
    if machine_walked(journal.reader, row.run_id).host != NO_HOST:
        raise UsageError(
            f"run {row.run_id} walks a machine of its host's own; give the engine that has it: --app MODULE:ENGINE"
        )
    own = {tool.name for tool in (*builtin_tools(), *tools)}
    missing = [name for name in used_tools(journal.reader, row) if name not in own]
    uses = f"run {row.run_id} uses {', '.join(missing)}"
    if missing and not web and all(name.startswith("web.") for name in missing):
        raise UsageError(f"{uses}; allow the network with --web")
    if missing:
        raise UsageError(
            f"{uses}, which are not built in; give its engine: --app MODULE:ENGINE,"
            " or the server that has them: --mcp COMMAND|URL"
        )


@command(
    "paor resume last",
    "paor resume 0199d2b4-6f1e --answer yes",
    'paor resume last --outcome done --result \'"sent"\' --reason "in the outbox" --app shop:engine',
)
def resume(
    name: Annotated[str, "RUN"],
    going: Going,
    reason: Annotated[str | None, "--reason TEXT", "Why; kept with --answer or --outcome in the journal."],
    question: Annotated[
        str | None, "--question ID", "The question that this answers; needed after the first of a run."
    ],
    accept_changes: Accept,
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
    given, model, report = going.checked()
    answered = given["answer"] is not None or given["outcome"] is not None
    unfit = not answered and (reason is not None or question is not None)
    refuse((unfit, "--reason and --question come with --answer or --outcome"))
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
            done = timeout_answer(asking, reader.rows(asking.number), SystemClock().now_us()) is None
        if done:  # nothing is written
            result = Engine("offline", journal=opened).resume(row.run_id, **given)
            return end(result, opened, options, report, required=going.required)
    watch = Watch(row.run_id, quiet=going.quiet)
    with engine_of_run(options, row, model, watch, "--accept-changes") as engine:
        if options.app is not None and model is not None:
            engine.model = model
        watch.model = _recorded_model(engine, row, options, model)
        drive = partial(engine.resume, row.run_id, **given)
        return driven(engine, drive, watch, options, report, required=going.required)


BOUNDS = {
    "max_steps": Annotated[int | None, "--max-steps N", "Instead of the run's; shared steps count."],
    "token_budget": Annotated[int | None, "--token-budget N", "The same; shared tokens count."],
    "time_budget_s": Annotated[float | None, "--time-budget S", "The same; shared time counts."],
}


@command(
    "paor fork last --at 4",
    "paor fork 0199d2b4-6f1e --at 7 --max-steps 9 --model script:other.json",
    "paor fork last --at 3 --answer no",
    "paor fork last --at 4 --no-run",
)
def fork(
    name: Annotated[str, "RUN"],
    at_seq: Annotated[int, "--at SEQ", "Last row to share; see paor show.", {"required": True}],
    going: Going,
    bounds: Annotated[dict[str, Any], BOUNDS],
    prompt_template: Annotated[str | None, "--prompt-template FILE", "Instead of the run's planning prompt."],
    current: Annotated[bool, "--current", "Use prompts, tool schemas, rules and policy as they are now."],
    no_run: Annotated[bool, "--no-run", "Only create it; paor resume continues it."],
    options: EngineOptions,
) -> int:
    """
    Start a new run that shares the rows of RUN up to SEQ, and continue from there.

    Nothing is copied: the new run refers to the shared rows, and its hash chain continues theirs. RUN does not
    change, and may still be running. The new run makes its own calls, so calls that RUN made after SEQ may be made
    again.

    Exit codes: those of paor run; with --no-run 0.
    """
    given, model, report = going.checked()
    given["limits"] = {bound: value for bound, value in bounds.items() if value is not None} or None
    given["prompt_template"] = text_file(prompt_template) if prompt_template is not None else None
    given |= {"current": current, "model": model}
    with options.looking() as opened:
        row = find_run(opened, name)
        point = fork_point(opened.reader, row.run_id, at_seq)
        if given["answer"] is not None:
            given["answer"] = answer_value(given["answer"], point.run.waiting_for)
        again = ", ".join(dict.fromkeys(calls_after(opened.reader, row.run_id, at_seq)))
    watch = Watch(quiet=going.quiet)
    with engine_of_run(options, row, model, watch, "--current") as engine:
        if again:
            io.tell(
                f"paor: after row {at_seq} run {row.run_id} has called {again}; the fork may do so once more"
            )
        drive = partial(engine.fork, row.run_id, at_seq, drive=not no_run, **given)
        if not no_run:
            watch.model = _recorded_model(engine, row, options, model)
            return driven(engine, drive, watch, options, report, required=going.required)
        result = drive()
        state = io.state_text(result.state, result.status, result.status)
        line = f"run {result.run_id}  {state}  shares rows 0 to {at_seq} of run {row.run_id}"
        note = f"{io.styled('go on:', 'dim')} {command_line('resume', engine.journal, result.run_id)}"
        return io.say_either(result.wire(), [line], note)


@command(
    "paor recover --app shop:engine",
    "paor recover --journal runs.db --json",
    "paor recover --accept-changes --model offline",
)
def recover(
    model: Annotated[str | None, "--model M", f"{_MODELS} the model that each run had."],
    accept_changes: Accept,
    quiet: Quiet,
    options: EngineOptions,
) -> int:
    """
    Go on with every run that has not ended, waits for nobody, and has no driver: for the time after a crash.

    The oldest run is first, and each goes on to its end or until it waits. A run that cannot go on does not stop the
    others: it is named with the reason and left as it is. Two of these commands at once share the runs, and drive none
    twice.

    Exit codes: 0 every such run was continued, however it ended, or there was none; 2 one cannot go on, or bad input or
    journal; 4 the journal or one of the runs is damaged.
    """
    chosen = model_of(model) if model is not None else None
    with options.looking():
        pass  # it is there, and it is a journal: a reading command would say so too, and nothing is created
    with options.tools() as tools, options.driving(tools, model=chosen or "offline") as engine:

        def options_of(row: RunRow) -> ResumeOptions:
            given: ResumeOptions = {"accept_changes": accept_changes}
            if options.app is None:
                _check_tools(engine.journal, row, tools, web=options.web)
                given["model"] = chosen or _model_of_run(engine.journal, row)
            elif chosen is not None:
                given["model"] = chosen
            if not quiet:
                rows = io.count(row.head_seq + 1, "transition")
                io.tell(f"run {row.run_id}: goes on in {row.state} after {rows}")
            return given

        with redirect_stdout(sys.stderr):
            found = engine.recover(options_of)
        refused = [{"run_id": run_id, "error": str(error)} for run_id, error in found.refused.items()]
        data = {"results": [result.wire() for result in found], "refused": refused}
        none = () if found or refused else (f"{engine.journal.path}: no run is left without a driver",)
        io.say_either(data, map(_line, found), *none)
        for item in refused:
            io.tell(
                f"{io.styled('run', 'bad')} {item['run_id']} cannot go on: {io.one_line(item['error'])}",
                f"  {io.styled('look:', 'dim')} {command_line('show', engine.journal, item['run_id'])}",
            )
    damaged = any(isinstance(error, JournalDamaged) for error in found.refused.values())
    return io.DAMAGED if damaged else io.USAGE if refused else io.OK


def _line(result: Result) -> str:
    key = f"  key {io.one_line(result.key)}" if result.key else ""
    state = io.state_text(result.state, why_of(result), result.status)
    return f"run {result.run_id}  {state}  {io.count(result.steps, 'step')}{key}"


@command("paor cancel last", "paor cancel 0199d2b4-6f1e --journal runs.db")
def cancel(name: Annotated[str, "RUN"], app: App, journal: str) -> int:
    """
    Stop a run.

    A run with a driver stops before its next effect; a run without one ends at once as Failed (cancelled). A
    finished run does not change.

    Exit codes: 0 also for the cancelled run; 2 no such run or journal.
    """
    options = EngineOptions(journal, app=app)
    with options.looking() as opened:
        row = find_run(opened, name)
        ended = row.status in ("done", "failed")
        if ended:
            result = Engine("offline", journal=opened).cancel(row.run_id)
    note = "had ended already; nothing was changed"
    if not ended:
        with options.driving(model=model_of("offline")) as engine, redirect_stdout(sys.stderr):
            result = engine.cancel(row.run_id)
        at_once = result.status in ("done", "failed")
        asked = "asked to stop; its driver does so before the next effect"
        note = "it had no driver, so it ended at once" if at_once else asked
    state = io.state_text(result.state, result.reason or result.status, result.status)
    return io.say_either(result.wire(), [f"run {result.run_id}  {state}  {note}"])
