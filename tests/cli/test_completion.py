"""Shells complete commands and options; what is misspelt is answered with what is near."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.cli_support import Shell

PAOR = Path(sys.executable).with_name("paor")


@pytest.mark.whole
def test_bash_completes() -> None:
    """In a real one, with the script that is printed."""
    script = f'PATH="{PAOR.parent}:$PATH"; eval "$(paor completion bash)"; ' + "".join(
        f"COMPREPLY=(); COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; "
        '_paor_completion paor; printf "%s\\n" "${COMPREPLY[@]}"; '
        for line in ("paor sh", "paor show --ste", "paor res")
    )
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.split() == ["show", "--steps", "resume"], said


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_that_it_can_read(shell: Shell, shell_name: str) -> None:
    said = shell("completion", shell_name)
    assert said.code == 0 and f"_PAOR_COMPLETE={shell_name}_complete" in said.out
    assert shell("completion", shell_name, "--json").json["script"].strip("\n") + "\n" == said.out
    if (found := shutil.which(shell_name)) is not None:
        subprocess.run([found, "-n"], input=said.out, text=True, timeout=60, check=True)


def test_another_shell_is_refused(shell: Shell) -> None:
    shell("completion", "tcsh").refused("'bash', 'zsh', 'fish'", lines=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shwo",), "No such command 'shwo'. (Did you mean 'show'?)"),
        (("resum", "last"), "(Did you mean 'resume'?)"),
        (("frobnicate",), "No such command 'frobnicate'."),
        (("show", "--stesp"), "'--steps'"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    shell(*arguments).refused(words, lines=2)


@pytest.mark.parametrize("required", [True, False])
def test_a_criterion_that_is_not_met_is_named_and_may_count(shell: Shell, required: bool) -> None:
    """On standard error; in the exit code only on request, for a run and for one that is looked at again."""
    flags = ("--require-criteria",) if required else ()
    said = shell.run("--criterion", "is never\x1b[2J done", "--criterion", "is done", *flags)
    assert said.code == (1 if required else 0)
    assert "not met: is never␛[2J done\n" in said.err
    again = shell("resume", "last", *flags)
    assert again.code == said.code and "not met: is never␛[2J done\n" in again.err
    assert shell("show", "--json").json["run"]["state"] == "Done"


def test_without_criteria_nothing_is_open(shell: Shell) -> None:
    said = shell.run("--require-criteria")
    assert said.code == 0 and "not met" not in said.err
