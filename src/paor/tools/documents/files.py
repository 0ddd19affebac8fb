"""
Files that a tool may open: those under the roots that the policy declares, whatever links lie on the way.

What can be told from a path's text is told before the intent row (`tools.policy.unsafe`). What only the disk knows, a link
that leads out, a device, a pipe, is told here: before a tool starts, and again when it opens the file, step by step, so that
a link which is put there in between is not followed either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ...states.base.errors import ToolError
from ...states.settings.policy import Policy
from ..policy import path_arguments

_FLAGS = (getattr(os, name, 0) for name in ("O_RDONLY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_NOFOLLOW = sum(_FLAGS)
"""Without waiting for the other end of a pipe; what is opened is looked at before it is read. Not every system has all."""


def outside(policy: Policy, arguments: Mapping[str, Any]) -> str | None:
    """Return which argument names a file outside the policy's roots, with the reason, or None; looks at the disk."""
    if not policy.file_roots:
        return None
    for name, path in path_arguments(arguments):
        try:
            within(policy.file_roots, path)
        except ToolError as error:
            return f"argument {name}: {error}"
    return None


def open_within(roots: Sequence[str], path: str) -> BinaryIO:
    """
    Open a regular file under one of *roots* for reading.

    Args:
        roots: Absolute folders; a relative *path* is looked for in the first.
        path: As a model or a user gave it.

    Raises:
        ToolError: It lies outside, is missing, or is no regular file.
    """
    if not roots:
        raise ToolError("the policy allows no files: it has no file_roots")
    root, inner = within(roots, path)
    found = -1
    try:
        if os.open in os.supports_dir_fd:
            found = os.open(root, _NOFOLLOW | os.O_DIRECTORY)
            for part in inner.parts:
                inside = os.open(part, _NOFOLLOW, dir_fd=found)
                os.close(found)
                found = inside
        else:  # a system without it: what was looked up is opened by its whole path
            found = os.open(root / inner, _NOFOLLOW)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise ToolError(f"{ascii(path)[:120]} is no regular file")
        file, found = os.fdopen(found, "rb"), -1
        return file
    except (OSError, ValueError) as error:
        raise ToolError(f"{ascii(path)[:120]} cannot be opened: {_told(error)}") from None
    finally:
        if found >= 0:
            os.close(found)


def within(roots: Sequence[str], path: str) -> tuple[Path, Path]:
    """
    Return the root under which *path* really lies, and the way from there, without links.

    Raises:
        ToolError: Under none of them.
    """
    try:
        whole = Path(os.path.realpath(os.path.join(roots[0], path)))
        for root in roots:
            real = Path(os.path.realpath(root))
            if whole.is_relative_to(real):
                return real, whole.relative_to(real)
    except (OSError, ValueError) as error:
        raise ToolError(f"{ascii(path)[:120]} cannot be looked up: {_told(error)}") from None
    raise ToolError(f"{ascii(path)[:120]} is outside the folders that the policy allows")


def _told(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)[:80]
