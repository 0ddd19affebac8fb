"""
The process that `converter` starts: ``python -m paor.tools.documents.convert.worker SECONDS BYTES``.

It bounds itself first. Then, on standard input, each document is one line of JSON (name, kind, size, pages to draw) and its bytes; the
answer is one line of JSON. What a library prints goes nowhere.
"""

from __future__ import annotations

import json
import math
import os
import sys
from base64 import b64encode
from dataclasses import asdict
from typing import IO

from .conversion import ConversionError
from .pdf import pictures_of
from .registry import convert


def serve(documents: IO[bytes], answers: IO[bytes], time_s: float, memory_bytes: int) -> None:
    """Convert one document after the other until the input ends."""
    _bound_memory(memory_bytes)
    while head := documents.readline():
        given = json.loads(head)
        _bound_time(time_s)
        try:
            data = documents.read(given["bytes"])
            if given["pages"] is None:
                answer = asdict(convert(given["name"], data, mime=given["mime"]))
            else:
                count, pictures = pictures_of(data, given["pages"])
                answer = {"count": count, "pictures": [b64encode(one).decode() for one in pictures]}
        except ConversionError as error:
            answer = {"code": error.code, "message": error.message}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _bound_memory(memory_bytes: int) -> None:
    """Limit the memory, where the system can: on Windows only the clock of the other process is left."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except (ImportError, ValueError, OSError):
        pass


def _bound_time(time_s: float) -> None:
    """Limit the processor time of the next document, in case the process that waits for it has died."""
    try:
        import resource

        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + time_s) + 1, most))
    except (ImportError, ValueError, OSError):
        pass


def main() -> None:
    """Serve on the standard streams."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers, float(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
