"""`paor completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..support.options import command
from ..support.streams import say_either

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    "paor completion fish > ~/.config/fish/completions/paor.fish",
    'eval "$(paor completion bash)"  # in ~/.bashrc',
    'eval "$(paor completion zsh)"  # in ~/.zshrc',
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str, journal: str, as_json: bool) -> int:
    """
    Print the script with which a shell completes commands and options.
    """
    from .. import COMPLETE_VARIABLE

    made = get_completion_class(shell)
    assert made is not None, "click knows these shells"
    found = made(click.Group("paor"), {}, "paor", COMPLETE_VARIABLE)
    script = found.source_template % found.source_vars()
    return say_either(as_json, {"shell": shell, "script": script}, script.strip("\n").split("\n"))
