"""`paor fork`: a new run that shares the beginning of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...fsm.engine import Engine
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import Journal
from ...fsm.lifecycle.arguments import model_of
from ...fsm.lifecycle.fork import calls_after, fork_point
from ...fsm.lifecycle.result import Result
from ...states.base.errors import RunChanged
from ..support.app import APP_HELP, WEB_HELP, driving, looking
from ..support.journals import find_run, short_id
from ..support.json_input import text_file
from ..support.mcp_servers import McpFlags, mcp_offered, mcp_options
from ..support.outcome import check_output
from ..support.progress import Watch
from ..support.streams import OK, command, journal_flag, say, say_json, tell
from ..support.text import STATE_STYLES, styled
from .run import check_tools, driven, given_answer, model_of_run, report_changes

BOUNDS = ("max_steps", "token_budget", "time_budget_s")


@command(
    "fork",
    "paor fork last --at 4",
    "paor fork 0199d2b4-6f1e --at 7 --max-steps 9 --model script:other.json",
    "paor fork last --at 3 --answer '{\"approve\": false}'",
    "paor fork last --at 4 --no-run",
)
@click.argument("name", metavar="RUN")
@click.option(
    "--at", "at_seq", type=int, required=True, metavar="SEQ", help="Last row to share; see paor show."
)
@click.option("--answer", metavar="JSON", help="Answer to the question that the run asked at this row.")
@click.option(
    "--outcome",
    type=click.Choice(["done", "retry", "fail"]),
    help="Outcome of an effect in doubt at this row.",
)
@click.option("--result", "returned", metavar="JSON", help="What the effect returned, with --outcome done.")
@click.option(
    "--model",
    metavar="M",
    help="openai:NAME, anthropic:NAME, offline or script:FILE; default: the model the run had.",
)
@click.option("--max-steps", type=int, metavar="N", help="Instead of the run's; shared steps count.")
@click.option("--token-budget", type=int, metavar="N", help="The same; shared tokens count.")
@click.option("--time-budget", "time_budget_s", type=float, metavar="S", help="The same; shared time counts.")
@click.option("--prompt-template", metavar="FILE", help="Instead of the run's planning prompt.")
@click.option("--current", is_flag=True, help="Use prompts, tool schemas, rules and policy as they are now.")
@click.option("--no-run", is_flag=True, help="Only create it; paor resume continues it.")
@click.option("--output", metavar="FILE", help="Write the final report: .md, .txt, .html or .docx.")
@click.option("--web", is_flag=True, help=WEB_HELP)
@mcp_options
@click.option("--app", metavar="MODULE:ENGINE", help=APP_HELP)
def fork(
    name: str,
    at_seq: int,
    answer: str | None,
    outcome: str | None,
    returned: str | None,
    model: str | None,
    prompt_template: str | None,
    current: bool,
    no_run: bool,
    output: str | None,
    web: bool,
    app: str | None,
    journal: str,
    as_json: bool,
    **bounds: Any,
) -> int:
    """
    Start a new run that shares the rows of RUN up to SEQ, and continue from there.

    Nothing is copied: the new run refers to the shared rows, and its hash chain continues theirs. RUN does not
    change, and may still be running. The new run makes its own calls, so calls that RUN made after SEQ may be made
    again.

    Exit codes: those of paor run; with --no-run 0.
    """
    mcp = McpFlags.taken(bounds)
    options: dict[str, Any] = given_answer(answer, outcome, returned)
    options["limits"] = {bound: bounds[bound] for bound in BOUNDS if bounds[bound] is not None} or None
    options["prompt_template"] = text_file(prompt_template) if prompt_template is not None else None
    chosen = model_of(model) if model is not None else None
    target = Path(output) if output is not None else None
    if target is not None:
        check_output(target, journal)
    with looking(app, journal) as reader:
        row = find_run(reader, name)
        fork_point(reader, row.run_id, at_seq)
        own = chosen
        if app is None:
            if not mcp.servers:
                check_tools(reader, row, web=web)
            own = chosen or model_of_run(reader, row)
        again = calls_after(reader, row.run_id, at_seq)
    if again:
        message = ", ".join(dict.fromkeys(again))
        tell(f"paor: after row {at_seq} run {row.run_id} has called {message}; the fork may do so again")
    watch = Watch()
    with (
        mcp_offered(mcp, app) as extra,
        driving(app, journal, model=own, hooks=(watch,), web=web, extra=extra) as engine,
    ):
        if extra:
            check_tools(engine.journal, row, web=web, extra=extra)
        options |= {"current": current, "model": chosen}

        def drive(engine: Engine) -> Result:
            return engine.fork(row.run_id, at_seq, drive=not no_run, **options)

        try:
            if no_run:
                return _report(drive(engine), engine.journal, row, at_seq, as_json)
            return driven(engine, drive, watch, app, target, as_json, mcp=mcp)
        except RunChanged as error:
            return report_changes(row, error, "--current")


def _report(result: Result, journal: Journal, parent: RunRow, at_seq: int, as_json: bool) -> int:
    if as_json:
        say_json(result.wire())
        return OK
    state = styled(f"{result.state} ({result.status})", STATE_STYLES.get(result.status, ""))
    say(f"run {result.run_id}  {state}  shares rows 0 to {at_seq} of run {parent.run_id}")
    tell(
        f"{styled('go on:', 'dim')} paor resume {short_id(journal, result.run_id)}{journal_flag(journal.path)}"
    )
    return OK
