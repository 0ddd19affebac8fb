"""
Words that hide the mechanism, in the lines that a change adds: ``python .ci/words.py`` prints ``file:line: word (better)``.

It reads docstrings and comments of Python files, and pages without their code. It warns and never fails: a person says
whether a word is right in its place. The change is the one that ``pytest --change`` knows (``tests/support/selection.py``).
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS = {
    r"tells?|told": "say who sends which value to whom: returns, reports, names",
    r"stands?|stood": "is, lies, or the column that holds it",
    r"nobody|no one": "the mechanism: no driver, no reader, no lease",
    r"somebody|someone": "the role: driver, caller, host, approver",
    r"whoever|whomever": "the role: the driver that, anyone who",
    r"(?:comes?|came) to": "results in, reaches",
    r"goes on|went on|going on": "continues",
    r"of its own": "a separate, its own",
    r"of the host's own": "host-defined",
    r"as it is|as they are": "unchanged, verbatim",
    r"in the form in which": "as",
    r"one after the other": "in order, sequentially",
    r"(?:is|are|was|were) no (?:text|number|list|object|JSON|file|journal|string)": "is not a",
    r"(?:say|says|said|know|knows|see|sees|return|returns|learn|learns) what(?! (?:is|are|to|was|were) \w+\?)": "name the thing: the result, the cause, the columns",
    r"(?:of|by|for|from|with) what": "name the thing: the result, the value, the call",
    r"(?:of|by|to|for) who(?:m)?": "the role",
}
"""Patterns, whole words, and a better way to say it."""

HIDDEN = [(re.compile(rf"(?i)(?<![\w-])(?:{word})(?![\w-])"), better) for word, better in WORDS.items()]


def found_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield each word of *text* that hides something, and a better one."""
    for pattern, better in HIDDEN:
        for match in pattern.finditer(text):
            yield match[0], better


def prose_of(name: str, text: str) -> dict[int, str]:
    """Return the lines of a file that are prose, by their number: of Python docstrings and comments, of a page all but code."""
    return dict(_python(text) if name.endswith(".py") else _page(text))


def _python(text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    try:
        tree = ast.parse(text)
        tokens = [*tokenize.generate_tokens(io.StringIO(text).readline)]
    except (SyntaxError, tokenize.TokenError):
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                yield number, re.sub(r"`[^`]*`", "", lines[number - 1])
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _page(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def warnings(root: Path, added: dict[str, set[int]]) -> Iterator[str]:
    """Yield a warning for each word in the *added* lines, by file name."""
    for name in sorted(added):
        if not name.endswith((".py", ".md")) or not (root / name).is_file():
            continue
        prose = prose_of(name, (root / name).read_text(encoding="utf-8"))
        for number in sorted(added[name] & prose.keys()):
            for word, better in found_in(prose[number]):
                yield f"{name}:{number}: {word} ({better})"


def main() -> int:
    """Print the warnings about this tree's change; return 0."""
    sys.path.insert(0, str(ROOT))
    from tests.support.selection import added_lines

    count = 0
    for warning in warnings(ROOT, added_lines(ROOT)):
        count += 1
        sys.stdout.write(f"{warning}\n")
    sys.stdout.write(f"words: {count} to look at in the lines that the change adds\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
