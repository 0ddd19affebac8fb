"""The tools that every engine has unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...states.base.errors import MissingExtra
from ..tool import Document, Tool
from .process_tool import process
from .tools import TEXT_MIMES, extract, generate_report


def builtin_tools() -> tuple[Tool, ...]:
    """Return the built-in tools in catalog order."""
    return (process, extract, generate_report)


def check_documents(documents: Iterable[Document], offered: Sequence[Tool]) -> None:
    """
    Check that the built-in tools, if any of them is *offered*, can read *documents*; imports no library.

    Raises:
        MissingExtra: A library for one of them is not installed.
    """
    if not any(tool is own for tool in offered for own in builtin_tools()):
        return
    to_convert = [
        document
        for document in documents
        if not (isinstance(document.data, str) and document.mime in TEXT_MIMES)
    ]
    if not to_convert:
        return
    from .convert.registry import absent_libraries, shown  # 40 modules

    for document in to_convert:
        data = document.data if isinstance(document.data, bytes) else document.data.encode("utf-8", "replace")
        if absent := absent_libraries(document.name, data):
            raise MissingExtra(
                f'{shown(document.name)} cannot be read without {", ".join(absent)}: pip install "paor[documents]"'
            )
