"""
Fuzz everything that reads what strangers wrote: documents, imports, journals.

    python -m tests.documents.fuzz_readers --minutes 10 [--seed S] [--only pdf,import] [--save FOLDER]
    python -m tests.documents.fuzz_readers --replay FILE

Inputs are made from seeds and read in a process with bounds on time and memory. Allowed are a result and a documented
error; all else is a finding, told once for each kind and saved with its bytes. Exit code 1 with findings.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .fuzzed_readers import Wrong, readers

ROOT = Path(__file__).resolve().parents[2]
CLOCK_S = 5.0
"""Of the processor for one input; a wait may take four times as long, so that a busy machine finds nothing."""
MEMORY_BYTES = 1_000_000_000
_ADDRESSES_BYTES = 3_000_000_000
OVER_MEMORY = "over memory"
_OURS = re.compile(r"/(?:src/paor/)?((?:fsm|states|prompts|tools|cli|docs|testing)/[\w/]+\.py)$")


# -- the process that reads ------------------------------------------------------------------------------------------


def peak_bytes() -> int:
    """Return the most memory that this program has held; `ru_maxrss` would also count what forked it, however large that was."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def serve(folder: Path, clock_s: float) -> None:
    """Read what is asked for on standard input, a JSON line each, until it ends; a line that takes too long ends the process."""
    import resource

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES_BYTES, _ADDRESSES_BYTES))
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # which then ends the process
    os.environ["PAOR_TRACEBACK"] = "1"
    known = readers(folder)
    for line in sys.stdin:
        asked = json.loads(line)
        reader, seed = known[asked["reader"]], asked["seed"]
        data = Path(asked["file"]).read_bytes() if "file" in asked else reader.make(seed)
        before, begun = os.fstat(2).st_size, time.process_time()
        signal.setitimer(signal.ITIMER_PROF, clock_s)
        faulthandler.dump_traceback_later(4 * clock_s, exit=True)
        kind = None
        try:
            reader.read(data, random.Random(seed))
        except BaseException as error:  # noqa: BLE001 - what it is, is what we want to know
            kind = kind_of(error)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        taken = time.process_time() - begun
        peak = peak_bytes()
        if kind is None and os.fstat(2).st_size > before:
            printed = os.pread(2, os.fstat(2).st_size, before).decode(errors="replace")
            kind = "a traceback on stderr" if "Traceback" in printed else None
        if kind is None and peak > MEMORY_BYTES:
            kind = OVER_MEMORY
        answer = {"kind": kind, "seconds": taken, "bytes": len(data), "peak": peak}
        print(json.dumps(answer), file=answers, flush=True)


def kind_of(error: BaseException) -> str:
    """Return what tells one finding from another: the exception's type and the innermost function of the project."""
    if isinstance(error, Wrong):
        return str(error)
    frames = [(frame.filename, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__} in {_innermost(frames)}"


def _innermost(frames: Sequence[tuple[str, str]]) -> str:
    ours = [f"{found[1]}:{name}" for file, name in frames if (found := _OURS.search(file))]
    return ours[-1] if ours else f"{frames[-1][0]}:{frames[-1][1]}" if frames else "nowhere"


# -- the campaign ----------------------------------------------------------------------------------------------------


@dataclass
class Finding:
    """An input that was read in a way that is not allowed."""

    reader: str
    seed: str
    kind: str
    times: int = 1


@dataclass
class Tally:
    """What one reader was given: how many inputs, the longest in bytes, how long they took, and the slowest by processor time."""

    inputs: int = 0
    longest: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    slowest: str = ""


@dataclass
class Campaign:
    """
    Inputs for readers, one after the other.

    Args:
        folder: For the files of the process that reads.
        command: Starts that process, for tests; it gets the folder and the clock as arguments.
    """

    folder: Path
    command: Sequence[str] = (sys.executable, "-m", "tests.documents.fuzz_readers", "--serve")
    clock_s: float = CLOCK_S
    tallies: dict[str, Tally] = field(default_factory=dict)
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    peak: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def run(
        self, names: Sequence[str], seed: int, *, seconds: float = float("inf"), inputs: int = sys.maxsize
    ) -> None:
        """Give readers the same time each, until all have had *inputs* or the time is up."""
        self.tallies = {name: Tally() for name in names}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            left = [name for name in names if self.tallies[name].inputs < inputs]
            if not left:
                break
            name = min(left, key=lambda name: self.tallies[name].seconds)
            self.one(name, f"{seed}:{name}:{self.tallies[name].inputs}")

    def one(self, name: str, seed: str, **given: str) -> str | None:
        """Read one input; return the kind of finding, if it is one."""
        begun = time.perf_counter()
        answer = self._ask(reader=name, seed=seed, **given)
        if str(answer["kind"]).startswith("over time"):  # or this machine was busy just then
            answer = self._ask(reader=name, seed=seed, **given)
        tally = self.tallies.setdefault(name, Tally())
        tally.inputs += 1
        tally.longest = max(tally.longest, answer.get("bytes", 0))
        tally.seconds += time.perf_counter() - begun
        if answer["seconds"] > tally.slowest_s:
            tally.slowest_s, tally.slowest = answer["seconds"], seed
        kind: str | None = answer["kind"]
        if kind is None:
            self.peak = max(self.peak, answer["peak"])
            return None
        if kind == OVER_MEMORY:
            self.end()  # the peak of that process stays where it is
        if known := self.findings.get((name, kind)):
            known.times += 1
        else:
            self.findings[name, kind] = Finding(name, seed, kind)
            print(f"found: {name}: {kind} (seed {seed})", flush=True)
        return kind

    def save(self, into: Path) -> None:
        """Write the report, and each finding: a line of JSON, then the bytes that were read."""
        into.mkdir(parents=True, exist_ok=True)
        (into / "report.txt").write_text(report(self) + "\n")
        known = readers(self.folder)
        for finding in self.findings.values():
            name = hashlib.sha256(finding.kind.encode()).hexdigest()[:8]
            data = known[finding.reader].make(finding.seed)
            (into / f"{finding.reader}-{name}.finding").write_bytes(
                json.dumps(vars(finding)).encode() + b"\n" + data
            )

    def end(self) -> None:
        """End the process that reads."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _ask(self, **asked: str) -> dict[str, Any]:
        printed = self.folder / "stderr"
        if self._process is None:
            with printed.open("wb+") as stderr:
                command = [*self.command, str(self.folder), str(self.clock_s)]
                pipes: dict[str, Any] = {
                    "stdin": subprocess.PIPE,
                    "stdout": subprocess.PIPE,
                    "stderr": stderr,
                }
                self._process = subprocess.Popen(command, cwd=ROOT, **pipes)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        waiting = select.poll()  # select takes no descriptor beyond 1,023
        waiting.register(process.stdout, select.POLLIN)
        ready = waiting.poll(1000 * (60 + 12 * self.clock_s))
        line = process.stdout.readline() if ready else b""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        if ready:
            process.wait()
        self.end()
        told = printed.read_text(errors="replace")
        stacks = [part for part in told.split("most recent call first") if " in serve\n" in part] or [told]
        frames = re.findall(r'File "([^"]+)", line \d+ in (\S+)', stacks[0])
        late = not ready or "Timeout (" in told or process.returncode == -signal.SIGPROF
        what = "over time" if late else f"end of the process ({process.returncode})"
        return {"kind": f"{what} in {_innermost(frames[::-1])}", "seconds": self.clock_s}


def report(campaign: Campaign) -> str:
    """Return what was read and what was found."""
    lines = [
        f"{'reader':10} {'inputs':>8} {'a second':>9} {'longest':>11} {'slowest':>9}  seed of the slowest"
    ]
    for name, tally in campaign.tallies.items():
        rate = tally.inputs / tally.seconds if tally.seconds else 0.0
        figures = f"{tally.inputs:8} {rate:9.1f} {tally.longest:9} B {tally.slowest_s:7.2f} s"
        lines.append(f"{name:10} {figures}  {tally.slowest}")
    total = sum(tally.inputs for tally in campaign.tallies.values())
    lines += [f"{total} inputs, {len(campaign.findings)} findings, {campaign.peak / 1e6:.0f} MB at most"]
    found = campaign.findings.values()
    return "\n".join(
        [
            *lines,
            *(f"  {item.reader}: {item.kind} ({item.times} times, first seed {item.seed})" for item in found),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign, or repeat a finding; return 1 with findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.documents.fuzz_readers")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--inputs", type=int, default=sys.maxsize, help="most for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="readers, with commas")
    parser.add_argument("--save", type=Path, help="folder for findings")
    parser.add_argument("--replay", type=Path, help="a saved finding")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        serve(Path(given.serve[0]), float(given.serve[1]))
        return 0
    with tempfile.TemporaryDirectory(prefix="paor-fuzz-") as folder:
        campaign = Campaign(Path(folder))
        if given.replay:
            head, _, data = given.replay.read_bytes().partition(b"\n")
            saved = Finding(**json.loads(head))
            Path(folder, "given").write_bytes(data)
            campaign.one(saved.reader, saved.seed, file=f"{folder}/given")
        else:
            known = list(readers(Path(folder)))
            names = given.only.split(",") if given.only else known
            if unknown := set(names) - set(known):
                parser.error(f"no reader {', '.join(sorted(unknown))}; there are {', '.join(known)}")
            campaign.run(names, given.seed, seconds=60 * given.minutes, inputs=given.inputs)
        campaign.end()
        print(report(campaign))
        if given.save and not given.replay:
            campaign.save(given.save)
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
