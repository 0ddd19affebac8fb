"""
Fuzz everything that reads what strangers wrote: documents, imports, journals.

    python -m tests.documents.fuzz_readers --minutes 10 [--seed S] [--only pdf,import] [--save FOLDER]
    python -m tests.documents.fuzz_readers --replay FILE

Inputs are made from seeds. Allowed are a result and a documented error within bounds of time and memory; all else is a finding,
told once for each kind and saved with its bytes. Exit code 1 with findings. An input that takes more than a minute, or that ends
the process, ends the campaign with its stack on standard error; ``--only`` and ``--seed`` come to it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .fuzzed_readers import Reader, Wrong, readers

CLOCK_S = 2.0
"""Of the processor, for one input."""
FUSE_S = 60.0
"""Of any clock, after which the process ends: a reader that waits for something is interrupted by nothing else."""
MEMORY_BYTES = 3_000_000_000
_OURS = re.compile(r"/(src/paor/[\w/]+\.py)$")


@dataclass
class Finding:
    """An input that was read in a way that is not allowed, and how often others were in the same way."""

    reader: str
    seed: str
    kind: str
    times: int = 1


@dataclass
class Campaign:
    """
    Inputs for readers, one after the other.

    Args:
        known: The readers.
        clock_s: Seconds of the processor that one input may take.
    """

    known: dict[str, Reader]
    clock_s: float = CLOCK_S
    inputs: dict[str, int] = field(default_factory=dict)
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def run(
        self, names: Sequence[str], seed: int, *, seconds: float = float("inf"), inputs: int = sys.maxsize
    ) -> None:
        """Give readers the same time each, until all have had *inputs* or the time is up."""
        end, spent = time.monotonic() + seconds, dict.fromkeys(names, 0.0)
        while time.monotonic() < end:
            left = [name for name in names if self.inputs.get(name, 0) < inputs]
            if not left:
                break
            name, begun = min(left, key=spent.__getitem__), time.perf_counter()
            self.one(name, f"{seed}:{name}:{self.inputs.get(name, 0)}")
            spent[name] += time.perf_counter() - begun

    def one(self, name: str, seed: str, data: bytes | None = None) -> str | None:
        """Read one input; return the kind of finding, if it is one."""
        reader = self.known[name]
        data = reader.make(seed) if data is None else data
        self.inputs[name] = self.inputs.get(name, 0) + 1
        kind = self._read(reader, data, seed)
        if kind is not None:
            found = self.findings.setdefault((name, kind), Finding(name, seed, kind, times=0))
            found.times += 1
        return kind

    def _read(self, reader: Reader, data: bytes, seed: str) -> str | None:
        try:
            signal.setitimer(signal.ITIMER_PROF, self.clock_s)
            faulthandler.dump_traceback_later(FUSE_S, exit=True)
            reader.read(data, random.Random(seed))
        except BaseException as error:  # noqa: BLE001 - what it is, is what we want to know
            return kind_of(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()
        return None

    def save(self, into: Path) -> None:
        """Write each finding: a line of JSON, then the bytes that were read."""
        into.mkdir(parents=True, exist_ok=True)
        for finding in self.findings.values():
            name = hashlib.sha256(finding.kind.encode()).hexdigest()[:8]
            data = self.known[finding.reader].make(finding.seed)
            path = into / f"{finding.reader}-{name}.finding"
            path.write_bytes(json.dumps(vars(finding)).encode() + b"\n" + data)


class OverTime(Exception):
    """An input takes more of the processor than it may."""


def kind_of(error: BaseException) -> str:
    """Return what tells one finding from another: the exception's type and the innermost function of the project."""
    if isinstance(error, Wrong):
        return str(error)
    frames = [(frame.filename, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [f"{found[1]}:{name}" for file, name in frames if (found := _OURS.search(file))]
    return f"{type(error).__name__} in {ours[-1] if ours else frames[-1]}"


def _over_time(*_: Any) -> None:
    raise OverTime


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign, or repeat a finding; return 1 with findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.documents.fuzz_readers")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--inputs", type=int, default=sys.maxsize, help="most for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="readers, with commas")
    parser.add_argument("--save", type=Path, help="folder for findings")
    parser.add_argument("--replay", type=Path, help="a saved finding")
    given = parser.parse_args(arguments)
    before = signal.signal(signal.SIGPROF, _over_time)
    with tempfile.TemporaryDirectory(prefix="paor-fuzz-") as folder:
        campaign = Campaign(readers(Path(folder)))
        try:
            if given.replay:
                head, _, data = given.replay.read_bytes().partition(b"\n")
                saved = Finding(**json.loads(head))
                campaign.one(saved.reader, saved.seed, data)
            else:
                names = given.only.split(",") if given.only else list(campaign.known)
                if unknown := set(names) - set(campaign.known):
                    parser.error(
                        f"no reader {', '.join(sorted(unknown))}; there are {', '.join(campaign.known)}"
                    )
                campaign.run(names, given.seed, seconds=60 * given.minutes, inputs=given.inputs)
        finally:
            signal.signal(signal.SIGPROF, before)
        print(f"{sum(campaign.inputs.values())} inputs, {len(campaign.findings)} findings")
        for item in campaign.findings.values():
            print(f"  {item.reader}: {item.kind} ({item.times} times, first seed {item.seed})")
        if given.save and not given.replay:
            campaign.save(given.save)
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.exit(main())
