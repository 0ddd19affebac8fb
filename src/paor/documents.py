"""
Files as text, as every run, tool and command reads them.

    from paor.documents import read

    contract = read("contract.docx")
    print(contract.text, contract.notes)

The file is read by a process of its own that is bounded in time and memory and sees no keys. What a reader leaves out, guesses or
flattens is counted in ``notes``; docs/documents.md has the table of what each format gives.
"""

from __future__ import annotations

import os

from .fsm.lifecycle.arguments import documents_of
from .states.settings.limits import Limits
from .tools.documents.convert.conversion import ConversionError, Converted, DocumentPlace
from .tools.documents.convert.converter import read_bytes
from .tools.documents.convert.registry import SIZE_MAX

__all__ = ["ConversionError", "Converted", "DocumentPlace", "read"]


def read(
    name: str | os.PathLike[str],
    data: bytes | os.PathLike[str] | None = None,
    *,
    mime: str | None = None,
    limits: Limits | None = None,
) -> Converted:
    """
    Return the text of one document, with notes on what is not in it.

    Args:
        name: File name; where *data* is left out, the path of the file.
        data: The document, or its path.
        mime: Kind that a server stated, e.g. ``text/html; charset=utf-8``; counts for texts only.
        limits: `Limits.document_time_s` and `Limits.document_memory_bytes`.

    Returns:
        ``text``, ``notes``, ``mime``, ``title``, ``pages`` and ``places``.

    Raises:
        ConversionError: The document gives no text; ``code`` says why.
        UsageError: *data* is a path that cannot be read.
    """
    if not isinstance(data, bytes):
        (document,) = documents_of([name if data is None else data], size_max=SIZE_MAX)
        data = document.data if isinstance(document.data, bytes) else document.data.encode()
    return read_bytes(os.path.basename(name), data, mime=mime, limits=limits)
