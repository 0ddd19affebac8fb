"""
The command line, ``paor``.

Nothing of it is imported before `main` runs, so a host that imports ``paor`` does not pay for it. Commands return
their exit code; every error becomes one line on standard error here, and nowhere a traceback.

May import `paor.cli.support` and `states`; the commands are named by texts in `COMMANDS` and loaded when used. Start with `main`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import click


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command.

    Args:
        arguments: Instead of the process's own.

    Returns:
        The exit code: 0 ok or Done, 1 run Failed, 2 usage, bad input or not a paor journal, 3 replay diverged, 4 a
        damaged journal, 5 waiting for an answer, 6 Failed by a limit, 130 interrupted.
    """
    import click

    from ..states.base.errors import PaorError
    from .support import terminal as io

    io.prepare_streams()
    if arguments is None:
        gc.set_threshold(20_000)  # circles are few here, and looking for them took a twentieth of the time
    given = list(sys.argv[1:] if arguments is None else arguments)
    if asked := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(_group(), {}, "paor", COMPLETE_VARIABLE, asked)
    try:
        with _group().make_context("paor", given) as context:
            code = context.command.invoke(context)
            return code if isinstance(code, int) else io.OK
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "paor")
        io.tell_error(error.format_message(), where)
        io.tell(f"help: {where} --help")
        return io.USAGE
    except BrokenPipeError:
        io.forget_output()
        return io.OK
    except KeyboardInterrupt:
        io.tell("", "paor: interrupted")
        return io.INTERRUPTED
    except io.OutputLost as error:
        io.forget_output()
        io.tell_error(str(error))
        return io.USAGE
    except Exception as error:
        code = io.exit_code_of(error) if isinstance(error, PaorError) else io.RUN_FAILED
        if code == io.RUN_FAILED and os.environ.get("PAOR_TRACEBACK"):
            raise
        hint = "set PAOR_TRACEBACK=1 to see where, and please report it"
        internal = f"internal error: {type(error).__name__}: {error}; {hint}"
        io.tell_error(internal if code == io.RUN_FAILED else str(error))
        return code


COMPLETE_VARIABLE = "_PAOR_COMPLETE"
"""What a shell sets that asks how a command line can go on; its script is that of `paor completion`."""

COMMANDS = {
    "run": ("run", "Run an objective to its end."),
    "chat": ("chat", "Hold a conversation, message by message."),
    "resume": ("resume", "Continue a run, or answer its question."),
    "recover": ("resume", "Resume every run that has no driver."),
    "worker": ("worker", "Drive the runs that hosts have submitted."),
    "cancel": ("resume", "Stop a run."),
    "fork": ("resume", "Start a new run from a row of another one."),
    "runs": ("read", "List the runs of a journal."),
    "show": ("show", "Show what a run did."),
    "verify": ("verify", "Check that a journal is whole and unaltered."),
    "heads": ("verify", "Write where every run ends, signed, to keep elsewhere."),
    "replay": ("read", "Derive runs again and compare with the record."),
    "why": ("audit", "Explain what decided a row of a run."),
    "diff": ("audit", "Compare two runs: the first difference and its cause."),
    "backtest": ("trials", "Derive recorded runs again with other settings."),
    "bisect": ("trials", "Name the setting that makes two runs or two apps differ."),
    "query": ("read", "Ask the journal a question in SQL."),
    "export": ("transfer", "Print runs as JSON lines."),
    "import": ("transfer", "Import runs from JSON lines into a journal."),
    "erase": ("transfer", "Erase what runs hold; the journal still verifies."),
    "report": ("inspect", "Write a page of a run, of two, or of all runs."),
    "inspect": ("inspect", "Show runs live in a browser, and answer what waits."),
    "trace": ("trace", "Send runs as traces, or write them to a file."),
    "mcp": ("inspect", "Serve a journal to coding agents, read-only."),
    "diagram": ("diagram", "Draw the machine, or what runs did on it."),
    "validate": ("check", "Check a plan or workflow file."),
    "check": ("check", "Prove that every run ends, and find rules that can never fire."),
    "fuzz": ("fuzz", "Search for cases in which an engine goes wrong."),
    "tools": ("doctor", "List the tools that runs can use."),
    "doctor": ("doctor", "Check that everything needed is there."),
    "completion": ("doctor", "Print the completion script of a shell."),
}
"""Every command, in the order in which one meets them: its module, and what it does. Loaded when it is used."""


def _group() -> click.Group:
    """Return the command group."""
    import importlib
    import keyword
    from difflib import get_close_matches

    import click

    from ..states.base.version import VERSION
    from .support import terminal as io
    from .support.options import SETTINGS, Command

    class Lazy(Command, click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in COMMANDS:
                return None
            module = importlib.import_module(f".commands.{COMMANDS[cmd_name][0]}", __package__)
            name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
            return cast("click.Command", getattr(module, name))

        def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
            if args[0] not in COMMANDS and (near := get_close_matches(args[0], COMMANDS, n=1)):
                ctx.fail(f"No such command {args[0]!r}. (Did you mean {near[0]!r}?)")
            return super().resolve_command(ctx, args)

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    @click.group("paor", cls=Lazy, context_settings=dict(SETTINGS), invoke_without_command=True)
    @click.version_option(VERSION, prog_name="paor", message="%(prog)s %(version)s")
    @click.pass_context
    def group(context: click.Context) -> None:
        """
        Run LLM agents step by step, with every step in a journal.

        Each step is committed to the journal, a SQLite file or PostgreSQL, before anything acts on it. So a run can be
        inspected, resumed after a crash, and replayed for an audit.

        \b
        Start:   paor run "Summarise the obligations" --document contract.pdf
        Talk:    paor chat
        Look:    paor runs, paor show last --steps
        Audit:   paor verify, paor replay, paor why, paor diff, paor backtest, paor bisect
        """
        if context.invoked_subcommand is None:
            io.say(context.get_help())

    return group
