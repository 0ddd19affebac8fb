"""Every command line that a page shows is one: also those that no session runs, since they need a key, a server or a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from paor.cli import _group

from ..support.pages import blocks_of, page
from .test_docs import PAGES

IN_BLOCKS = ("console", "text", "sh")


def lines_of(name: str) -> Iterator[str]:
    """Yield the lines of a page's blocks that call paor."""
    for block in blocks_of(name):
        if block.language in IN_BLOCKS:
            for line in block.text.splitlines():
                found = re.match(r"(?:\$ )?(?:\w+=\S+ )*(paor [a-z].*)", line)
                if found:
                    yield found[1]


def arguments(line: str) -> list[str]:
    """Return what the shell would give paor of a line, without what follows in it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>&;")
    lexer.whitespace_split = True
    found: list[str] = []
    for part in lexer:
        if set(part) <= set("|>&;"):
            break
        found.append(part)
    return found[1:]


@pytest.mark.parametrize("name", PAGES)
def test_every_command_line_of_a_page_is_understood(name: str) -> None:
    """Command, options and values; what a placeholder stands for is not looked for."""
    group, wrong = _group(), []
    with click.Context(group, info_name="paor", **group.context_settings) as context:
        for line in lines_of(name):
            given = arguments(line)
            command = group.get_command(context, given[0])
            try:
                assert command is not None, "no such command"
                command.make_context(given[0], given[1:], parent=context)
            except (click.ClickException, AssertionError) as error:
                wrong.append(f"{line}: {error}")
    assert not wrong


@pytest.mark.parametrize("name", PAGES)
def test_every_command_and_option_that_a_sentence_names_is_there(name: str) -> None:
    """In a sentence a command may stand without its arguments."""
    group = _group()
    text = re.sub(r"(?s)```.*?```", "", page(name))
    with click.Context(group, info_name="paor", **group.context_settings) as context:
        for line in re.findall(r"`(paor [a-z][^`\n]*)`", text):
            given = arguments(line)
            command = group.get_command(context, given[0])
            assert command is not None, line
            known = {option for each in command.get_params(context) for option in each.opts}
            assert {part.split("=")[0] for part in given[1:] if part.startswith("--")} <= known, line


@pytest.mark.parametrize("name", PAGES)
def test_no_command_of_a_page_needs_a_certain_system_or_a_file_in_a_placeholder(name: str) -> None:
    """Any POSIX shell and its tools will do: no option of GNU's alone, nothing of bash's, nothing to fill in."""
    only_gnu = r"\bsed -i|\bdate -d|\breadlink -f|\bgrep -P|\bstat -c|\bbase64 -w|\bmktemp --|\bcp -[a-z]*t\b"
    only_bash = r"\[\[|<\(|<<<|&>|\|&|\bsource |\bfunction |\$'"
    placeholder = r"\bREPOSITORY\b|<[a-z-]+>|\bpath/to\b|YOUR"
    for block in blocks_of(name):
        if block.language == "console":
            lines = [line for line in block.text.splitlines() if line.startswith("$ ")]
            wrong = re.compile(f"{only_gnu}|{only_bash}|{placeholder}")
            assert not [line for line in lines if wrong.search(line)]
