"""Commands, and the options that several have: all that a command takes is declared once, by the parameters of its function."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from functools import wraps
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click

from ...states.base.errors import UsageError
from ...states.run.labels import NAME, moment_of
from . import terminal as io

DEFAULT_JOURNAL = "paor.db"
SETTINGS: Mapping[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 96}


class Command(click.Command):
    """A command whose help is output like any other."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; ``--help`` and ``--version`` write here."""
        with io.output():
            return super().parse_args(ctx, args)


def command(*examples: str) -> Callable[[Callable[..., int | None]], click.Command]:
    """
    Make a function a command, with *examples* for its help page.

    A parameter ``Annotated[TYPE, FORM, HELP, MORE]`` is an option: the form has its flags and the placeholder of its value, MORE has what
    else click takes; without dashes it is an argument. The type says whether it is a flag, a number, a choice, optional or
    repeatable. A dataclass declares several by its fields, and ``**`` takes those of a mapping of names. Every command has
    ``--journal``, which is given as ``journal``, and ``--json``.
    """

    def decorate(function: Callable[..., int | None]) -> click.Command:
        hints = get_type_hints(function, include_extras=True)
        groups = {name: found for name, hint in hints.items() if (found := _group(hint)) is not None}

        @wraps(function)
        def invoked(**given: Any) -> int | None:
            made = {
                name: make(**{own: given[own] for own in owned}) for name, (make, owned) in groups.items()
            }
            return function(**{name: given[name] for name in hints if name in given}, **made)

        declared: dict[str, Any] = {}
        for name, hint in hints.items():
            members = groups[name][1] if name in groups else {name: hint}
            declared |= {own: item for own, item in members.items() if hasattr(item, "__metadata__")}
        usual = {"envvar": "PAOR_JOURNAL", "default": DEFAULT_JOURNAL, "is_eager": True}
        where = f"Journal file; default $PAOR_JOURNAL or {DEFAULT_JOURNAL}."
        declared["journal"] = Annotated[str, "--journal FILE", where, usual]
        kept = {"expose_value": False, "callback": _keep_json}
        declared["as_json"] = Annotated[bool, "--json", "Print JSON, the same bytes for the same data.", kept]
        more: dict[str, Any] = {"params": [_parameter(name, hint) for name, hint in declared.items()]}
        more["epilog"] = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
        name = function.__name__.rstrip("_")
        return click.command(name, cls=Command, context_settings=dict(SETTINGS), **more)(invoked)

    return decorate


def _group(hint: Any) -> tuple[Callable[..., Any], Mapping[str, Any]] | None:
    """Return what makes the value of a parameter that declares several, and these; None for any other."""
    if is_dataclass(hint):
        return hint, get_type_hints(hint, include_extras=True)  # type: ignore[return-value]
    names = getattr(hint, "__metadata__", (None,))[0]
    return (dict, names) if isinstance(names, Mapping) else None


def _parameter(name: str, hint: Any) -> click.Parameter:
    """Return the option or argument of a declaration."""
    form, *said = hint.__metadata__
    members = (
        get_args(hint.__origin__) if get_origin(hint.__origin__) in (Union, UnionType) else (hint.__origin__,)
    )
    kind, several = members[0], get_origin(members[0]) is tuple
    kind = get_args(kind)[0] if several else kind
    more: dict[str, Any] = dict(said.pop()) if said and isinstance(said[-1], Mapping) else {}
    flags = [word for word in form.split(" ") if word.startswith("-")]
    metavar = " ".join(word for word in form.split(" ") if not word.startswith("-")) or None
    if {"FILE", "PEM"} & {*(metavar or "").split("|")}:
        more = {"callback": file_name} | more
    if get_origin(kind) is Literal:
        more = {"type": click.Choice(get_args(kind))} | more
    elif kind in (int, float):
        more = {"type": kind} | more
    if not flags:
        required = not several and type(None) not in members
        return click.Argument([name], metavar=metavar, nargs=-1 if several else 1, required=required, **more)
    more = {"multiple": several} | ({"is_flag": True} if kind is bool else {}) | more
    return click.Option([*flags, name], metavar=metavar, help=said[0], **more)


def _keep_json(context: click.Context, _option: click.Parameter, value: bool) -> None:
    context.meta["paor.json"] = value


def refuse(*wrong: tuple[object, str]) -> None:
    """Raise a usage error of the command with the first text whose condition holds."""
    for condition, text in wrong:
        if condition:
            raise click.UsageError(text)


Named = TypeVar("Named", str | None, tuple[str, ...])


def file_name(context: click.Context, option: click.Parameter, value: Named) -> Named:
    """Refuse an empty name, as of a variable that was never set."""
    refuse(
        (value == "" or (isinstance(value, tuple) and "" in value), f"{option.opts[0]}: expected a file name")
    )
    return value


def journal_given() -> bool:
    """Return whether the command line names a journal itself; a variable and the usual file do not count."""
    source = click.get_current_context().get_parameter_source("journal")
    return source is click.core.ParameterSource.COMMANDLINE


def journal_flag(path: str) -> str:
    """Return what a next command needs to find the same journal, with a space before; often nothing."""
    usual = os.environ.get("PAOR_JOURNAL") or DEFAULT_JOURNAL
    return "" if path == usual else f" --journal {shlex.quote(path)}"


def pairs(_context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Return ``K=V``, given any number of times, as a mapping; refuse what is no such pair, and a name that comes twice."""
    found: dict[str, str] = {}
    for text in value:
        name, sign, rest = text.partition("=")
        told = f"{option.opts[0]} {text!r}:"
        refuse(
            (not sign or not NAME.fullmatch(name), f"{told} expected NAME=VALUE, such as tenant=acme"),
            (name in found, f"{told} {name} stands twice"),
        )
        found[name] = rest
    return found


def _moment(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Return a moment as microseconds since the epoch: a local date or time, or how long ago it was."""
    if text is None or (found := moment_of(text, datetime.now().astimezone())) is not None:
        return None if text is None else found
    raise UsageError(f"--since {text!r}: expected a date, a time such as 2026-05-31T18:00, or 90m, 12h, 7d")


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


KEPT = {"callback": keep_journals}
APP, YOURS = "--app MODULE:ENGINE", "Your Engine, or a function f(journal) that returns one."
"""The option that names an engine, and its help."""
_REDACTS = "Leave out payloads with keys, tokens and passwords; FILE adds rules, one NAME: REGULAR EXPRESSION per line."
_SINCE = "Only runs started since: 2026-05-31, 2026-05-31T18:00, 90m, 12h or 7d."

Run = Annotated[str | None, "[RUN]"]
App = Annotated[str | None, APP, YOURS]
Everything = Annotated[bool, "--all", "Every run of the journal."]
Accept = Annotated[bool, "--accept-changes", "Continue although prompts, tools, policy or code have changed."]
Redact = Annotated[tuple[str, ...], "--redact FILE|default", _REDACTS]
Metadata = Annotated[
    Any, "--metadata K=V", "What to find the run by; repeatable.", {"callback": pairs, "multiple": True}
]
Quiet = Annotated[bool, "--quiet -q", "Tell nothing while the run is driven: no model, no progress."]
Output = Annotated[str | None, "--output FILE", "Write there instead of to standard output.", KEPT]
Other = Annotated[str | None, "--other FILE", "Journal of B, if it is another one.", {"is_eager": True}]
Since = Annotated[int | None, "--since TIME", _SINCE, {"callback": _moment, "type": str}]
