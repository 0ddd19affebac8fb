"""Commands and the options that several of them have."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce
from typing import Any, TypeVar

import click

from ...states.base.errors import UsageError
from ...states.run.labels import NAME, moment_of
from . import terminal as io

DEFAULT_JOURNAL = "paor.db"
Decorator = Callable[[Callable[..., int]], Callable[..., int]]

SETTINGS: Mapping[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 96}


class Command(click.Command):
    """A command whose help is output like any other."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; ``--help`` and ``--version`` write here."""
        with io.output():
            return super().parse_args(ctx, args)


def command(name: str, *examples: str) -> Callable[[Callable[..., int]], click.Command]:
    """
    Make a function a command with its examples and the options that all commands have.

    Args:
        name: Of the command.
        examples: Command lines for the help page.
    """

    def decorate(function: Callable[..., int]) -> click.Command:
        epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
        made = click.command(name, cls=Command, epilog=epilog, context_settings=SETTINGS)(function)
        where = f"Journal file; default $PAOR_JOURNAL or {DEFAULT_JOURNAL}."
        usual = {"envvar": "PAOR_JOURNAL", "default": DEFAULT_JOURNAL}
        option("--journal FILE", where, is_eager=True, **usual)(made)
        what = "Print JSON, the same bytes for the same data."
        click.option("--json", is_flag=True, help=what, expose_value=False, callback=_keep_json)(made)
        return made

    return decorate


def _keep_json(context: click.Context, _option: click.Parameter, value: bool) -> None:
    context.meta["paor.json"] = value


Named = TypeVar("Named", str | None, tuple[str, ...])


def file_name(context: click.Context, option: click.Parameter, value: Named) -> Named:
    """Refuse an empty name, as of a variable that was never set."""
    if value == "" or (isinstance(value, tuple) and "" in value):
        raise click.UsageError(f"{option.opts[0]}: expected a file name")
    return value


def journal_given() -> bool:
    """Return whether the command line names a journal itself; a variable and the usual file do not count."""
    source = click.get_current_context().get_parameter_source("journal")
    return source is click.core.ParameterSource.COMMANDLINE


def journal_flag(path: str) -> str:
    """Return what a next command needs to find the same journal, with a space before; often nothing."""
    usual = os.environ.get("PAOR_JOURNAL") or DEFAULT_JOURNAL
    return "" if path == usual else f" --journal {shlex.quote(path)}"


def option(form: str, text: str, *name: str, **more: Any) -> Decorator:
    """
    Return an option.

    Args:
        form: Its flag, and a placeholder if it has a value: ``--all``, ``--at SEQ``, or ``--app MODULE...`` where it is repeatable.
        text: Its help.
        name: Of the parameter, if that is another one.
        more: What else `click.option` takes; by default the name of a file must not be empty.
    """
    flag, _, placeholder = form.partition(" ")
    if not placeholder:
        return click.option(flag, *name, is_flag=True, help=text, **more)
    metavar, repeatable = placeholder.removesuffix("..."), placeholder.endswith("...")
    if {"FILE", "PEM"} & {*metavar.split("|")}:
        more = {"callback": file_name} | more
    return click.option(flag, *name, metavar=metavar, help=text, multiple=repeatable, **more)


def several(*options: Decorator) -> Decorator:
    """Return a decorator that gives a command several options, in this order."""
    return lambda function: reduce(lambda given, added: added(given), reversed(options), function)


def app_option(before: str = "", after: str = "") -> Decorator:
    """Return the option ``--app``; its help says something *before* or *after* what it names."""
    what = "Your Engine, or a function f(journal) that returns one."
    return option("--app MODULE:ENGINE", f"{before} {what} {after}".strip())


def pairs(_context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Return ``K=V``, given any number of times, as a mapping; refuse what is no such pair, and a name that comes twice."""
    found: dict[str, str] = {}
    for text in value:
        name, sign, rest = text.partition("=")
        if not sign or not NAME.fullmatch(name):
            raise click.UsageError(f"{option.opts[0]} {text!r}: expected NAME=VALUE, such as tenant=acme")
        if name in found:
            raise click.UsageError(f"{option.opts[0]} {text!r}: {name} stands twice")
        found[name] = rest
    return found


def _moment(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Return a moment as microseconds since the epoch: a local date or time, or how long ago it was."""
    if text is None:
        return None
    if (found := moment_of(text, datetime.now().astimezone())) is not None:
        return found
    raise UsageError(f"--since {text!r}: expected a date, a time such as 2026-05-31T18:00, or 90m, 12h, 7d")


SINCE = option(
    "--since TIME",
    "Only runs started since: 2026-05-31, 2026-05-31T18:00, 90m, 12h or 7d.",
    callback=_moment,
)

_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def age(value: str | int) -> int:
    """Return how long ago a text says, in seconds: a whole number and s, m, h, d or w; refuse any other."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", str(value))
    if found is None:
        raise click.BadParameter(f"{value!a:.40}: expected a number and s, m, h, d or w, such as 180d")
    return int(found[1]) * _AGES[found[2]]


def age_text(seconds: int) -> str:
    """Return an age in its largest whole unit, but for weeks."""
    unit = next(unit for unit in "dhms" if seconds % _AGES[unit] == 0)
    return f"{seconds // _AGES[unit]}{unit}"


def keep_journals(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse a file to write without a name, or one that is a journal of the command."""
    file_name(context, option, value)
    io.keep_journals(option.opts[0], value, context.params["journal"], context.params.get("other"))
    return value


RUN = click.argument("name", metavar="[RUN]", required=False)
ALL = option("--all", "Every run of the journal.", "everything")
ACCEPT = option("--accept-changes", "Continue although prompts, tools, policy or code have changed.")
REDACT = option(
    "--redact FILE|default...",
    "Leave out payloads with keys, tokens and passwords; FILE adds rules, one NAME: REGULAR EXPRESSION per line.",
)
METADATA = option("--metadata K=V...", "What to find the run by; repeatable.", callback=pairs)
QUIET = option("--quiet", "Tell nothing while the run is driven: no model, no progress.", "-q")
OUTPUT = option("--output FILE", "Write there instead of to standard output.", callback=keep_journals)
OTHER = option("--other FILE", "Journal of B, if it is another one.", is_eager=True)
