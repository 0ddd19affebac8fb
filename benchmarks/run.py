"""
All benchmarks in one command and one table: ``python benchmarks/run.py [--quick] [NAME ...]``.

Every figure is a ratio or a count taken within this one run, so that it can be compared between machines; nothing
here is a test. The floor is described in `floor.py`, the workload in `workload.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conversation import costs, overlap
from floor import recorded_values, run_floor, run_raw_floor
from large import write_large_journal
from verify import measured
from workload import engine, engine_on

from paor import Engine, Journal, replay
from paor.fsm.check.bounded_specs import worlds_of
from paor.fsm.check.checker import default_limits, prove
from paor.fsm.check.inputs import outcome_of
from paor.fsm.check.state_space import NOW, StateWalker
from paor.fsm.machine.decide import decide
from paor.fsm.machine.machine import Machine

Row = tuple[str, str, str]
"""What was measured, the figure, and the target."""


def main() -> None:
    """Run the benchmarks named on the command line, or all, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; default all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(BENCHMARKS)):
        parser.error(f"no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="paor-bench-") as folder:
        for name in options.names or BENCHMARKS:
            print(f"... {name}", file=sys.stderr, flush=True)
            rows += BENCHMARKS[name](Path(folder), 10 if options.quick else 1)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    print(f"{'measured':<{widths[0]}}  {'figure':>{widths[1]}}  target")
    for row in rows:
        print(f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}")


def _timed_run(path: Path, durability: str, iterations: int) -> float:
    """Return the seconds of one engine run; the journal is at *path* afterwards."""
    return _costs(path, durability, iterations)[0]


def _costs(path: Path, durability: str, iterations: int) -> tuple[float, float]:
    """Return the seconds and the processor's seconds of one engine run, without those of opening and closing the journal."""
    with engine(path, durability=durability, iterations=iterations) as host:
        started, used = time.perf_counter(), time.process_time()
        result = host.run("Read all pages of the contract", ["every page is read"])
        costs = time.perf_counter() - started, time.process_time() - used
    assert result.state == "Done", result
    return costs


def throughput(folder: Path, divisor: int) -> list[Row]:
    """Share of the floor, measured in turn; the median of 7 pairs."""
    rows = []
    for durability, target in (("full", ">= 0.70, aim 0.80"), ("normal", ">= 0.25, aim 0.35")):
        share, own, floor = _share(folder, durability, 1000 // divisor, pairs=7)
        rows.append((f"share of the floor, {durability}", f"{share:.2f}", target))
        rows.append((f"  us a transition, {durability}: engine / floor", f"{own:.0f} / {floor:.0f}", ""))
    return rows


def _share(folder: Path, durability: str, iterations: int, pairs: int) -> tuple[float, float, float]:
    """Return the share of the floor, and the microseconds of a transition of the engine and of the floor; medians."""
    source = folder / f"values-{durability}.db"
    _timed_run(source, durability, iterations)
    values = recorded_values(source)
    ratios, own, floor = [], [], []
    for pair in range(pairs):
        own.append(_timed_run(folder / f"own-{durability}-{pair}.db", durability, iterations))
        floor.append(run_floor(folder / f"floor-{durability}-{pair}.db", values, durability))
        ratios.append(floor[-1] / own[-1])
    unit = 1e6 / len(values)
    return statistics.median(ratios), statistics.median(own) * unit, statistics.median(floor) * unit


def transitions(folder: Path, divisor: int) -> list[Row]:
    """A transition of a warm process against the raw floor's, in turn; the median of 7 pairs."""
    iterations = 400 // divisor
    _timed_run(folder / "warm.db", "off", 20)
    rows = []
    for durability, share, ratio in (
        ("normal", ">= 0.18, aim 0.22", "<= 6.2x, aim 5.5x"),
        ("full", ">= 0.75", ""),
    ):
        shares, ratios = [], []
        for pair in range(7):
            seconds, used = _costs(folder / f"own-{durability}-{pair}.db", durability, iterations)
            floor, floor_used = run_raw_floor(
                folder / f"raw-{durability}-{pair}.db", 5 * iterations + 1, durability
            )
            shares.append(floor / seconds)
            ratios.append(used / floor_used)
        rows.append((f"share of the raw floor, {durability}", f"{statistics.median(shares):.3f}", share))
        used_told = f"  processor time / the raw floor's, {durability}"
        rows.append((used_told, f"{statistics.median(ratios):.1f}x", ratio))
    return rows + _many_engines(folder, 100 // divisor)


def _many_engines(folder: Path, runs: int) -> list[Row]:
    """Processor time a transition of *runs* runs at once at full, each with an engine of its own on one journal."""
    ratios = []
    for pair in range(3):
        with Journal(folder / f"engines-{pair}.db", "full") as journal:
            engines = [engine_on(journal, iterations=20) for _ in range(runs)]

            async def drive(engines: list[Engine] = engines) -> None:
                await asyncio.gather(
                    *(host.arun("Read all pages", ["every page is read"]) for host in engines)
                )

            used = time.process_time()
            asyncio.run(drive())
            used = time.process_time() - used
        _, floor = run_raw_floor(folder / f"serial-raw-{pair}.db", 101 * runs, "full")
        ratios.append(used / floor)
    return [
        (f"{runs} engines on one journal at once, processor time", f"{statistics.median(ratios):.1f}x", "")
    ]


def disks(folder: Path, divisor: int) -> list[Row]:
    """The figures at full durability on slower disks: every fsync is answered later, for the engine and the floor alike."""
    targets = (">= 0.70, aim 0.80", ">= 3x, aim 4x")
    if shutil.which("strace") is None:
        return [("on slower disks", "skipped: strace is not installed", targets[0])]
    code = (
        "import json, sys, tempfile; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import run\n"
        "with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder:\n"
        "    print(json.dumps(run.on_this_disk(Path(folder), int(sys.argv[3]))))"
    )
    rows = []
    for delay_us in (0, 250, 500, 1500):
        inject = ["-e", f"inject=fsync,fdatasync:delay_exit={delay_us}"] if delay_us else []
        strace = ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", *inject]
        own = [sys.executable, "-c", code, str(Path(__file__).parent), str(folder), str(divisor)]
        printed = subprocess.run(
            [*strace, *own], check=True, timeout=1200, capture_output=True, text=True
        ).stdout
        fsync_us, share, many = json.loads(printed)
        disk = f"fsync of {fsync_us:.0f} us"
        rows.append((f"share of the floor, full, {disk}", f"{share:.2f}", targets[0]))
        rows.append((f"100 runs at once / serial floor, {disk}", f"{many:.2f}x", targets[1]))
    return rows


def on_this_disk(folder: Path, divisor: int) -> tuple[float, float, float]:
    """Return what an fsync of the floor takes in microseconds, the share of the floor, 100 runs against the serial floor."""
    share, _, full = _share(folder, "full", 200 // divisor, pairs=5)
    _, _, normal = _share(folder, "normal", 200 // divisor, pairs=3)
    return full - normal, share, _at_once(folder, 100, pairs=3)


def fsyncs(folder: Path, divisor: int) -> list[Row]:
    """fsync and fdatasync calls a transition, counted by strace, checkpoints included."""
    if shutil.which("strace") is None:
        return [("fsyncs a transition", "skipped: strace is not installed", "<= 1.03 / 0.03")]
    rows = []
    iterations = 400 // divisor
    for durability, target in (("full", "<= 1.03"), ("normal", "<= 0.03")):
        code = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            "from pathlib import Path; from workload import engine\n"
            f"with engine(Path({str(folder / f'sync-{durability}.db')!r}), durability={durability!r},"
            f" iterations={iterations}) as host: host.run('Read all pages', ['read'])"
        )
        log = folder / f"strace-{durability}.txt"
        command = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", str(log), sys.executable, "-c", code]
        subprocess.run(command, check=True, timeout=600)
        calls = sum("sync(" in line for line in log.read_text().splitlines())
        rows.append((f"fsyncs a transition, {durability}", f"{calls / (5 * iterations + 1):.3f}", target))
    return rows


def flatness(folder: Path, divisor: int) -> list[Row]:
    """Time and bytes of a transition early and late in one long run, and the memory it takes."""
    iterations = 10_000 // divisor
    path = folder / "long.db"
    rows = []
    with engine(path, durability="normal", iterations=iterations) as host:
        steps = _steps(host)
        done = _advance(steps, 200)
        before = _resident_mb()
        for number, iteration in enumerate(sorted({min(1000, iterations - 150), iterations - 150})):
            done += _advance(steps, iteration - 50 - done)
            ratio = _against_a_new_run(steps, folder / f"new-{number}.db")
            done += 100
            rows.append((f"time at iteration {iteration} / at 100", f"{ratio:.2f}", "<= 1.15"))
        _advance(steps, iterations - done)
        grown = _resident_mb() - before
        steps.close()
    rows.append((f"memory over {5 * iterations:,} transitions", f"{grown:.1f} MB", "<= 15 MB"))
    return rows + _bytes_rows(path, iterations)


def _steps(host: Engine) -> Generator[float, None, None]:
    """Run the workload, yielding after each iteration the seconds that it has taken."""
    started = time.perf_counter()
    for event in host.stream("Read all pages of the contract", ["every page is read"], on_close="stop"):
        if event.kind == "step":
            yield time.perf_counter() - started
            started = time.perf_counter()


def _advance(steps: Iterator[float], count: int) -> int:
    return sum(1 for _ in itertools.islice(steps, count))


def _against_a_new_run(steps: Iterator[float], path: Path) -> float:
    """
    Return the median time of the next 100 iterations of *steps* by that of a new run's iterations 50 to 150.

    They are taken in turn, one of each, so that whatever else the machine does meanwhile falls on both.
    """
    with engine(path, durability="normal", iterations=200) as host:
        new = _steps(host)
        _advance(new, 50)
        pairs = [(next(steps), next(new)) for _ in range(100)]
        new.close()
    late, early = zip(*pairs, strict=True)
    return statistics.median(late) / statistics.median(early)


def _resident_mb() -> float:
    """Return the memory that this process holds now, where the system tells; else the most that it ever held."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _bytes_rows(path: Path, iterations: int) -> list[Row]:
    """Return bytes a transition beyond prompts, replies and documents, and how flat they are."""
    connection = sqlite3.connect(path)
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    texts = connection.execute(
        "SELECT sum(length(CAST(body AS BLOB))) FROM payloads WHERE media_type = 'text/plain'"
    ).fetchone()[0]
    count = connection.execute("SELECT count(*) FROM transitions").fetchone()[0]
    own = "SELECT sum(length(guards) + length(request) + length(outcome) + length(change) + length(counters))"
    halves = [
        connection.execute(f"{own} FROM transitions WHERE seq BETWEEN ? AND ?", bounds).fetchone()[0]
        for bounds in ((500, 1499), (5 * iterations - 1500, 5 * iterations - 501))
    ]
    connection.close()
    return [
        ("bytes a transition beyond the texts", f"{(pages * size - texts) / count:.0f}", "<= 1,536"),
        ("row bytes late / early", f"{halves[1] / halves[0]:.3f}", "0.95 to 1.05"),
    ]


def resuming(folder: Path, divisor: int) -> list[Row]:
    """Resume of a 10,000-transition run, chain verified, against a plain read of its rows."""
    iterations = 2000 // divisor
    path = folder / "resume.db"
    with engine(path, durability="normal", iterations=iterations) as host:
        events = host.stream("Read all pages of the contract", ["every page is read"], on_close="stop")
        for event in events:
            if event.kind == "step" and event.step == iterations - 1:
                break
        events.close()
        run_id = host.journal.runs()[0].run_id
        ratios = []
        for _ in range(7):
            started = time.perf_counter()
            connection = sqlite3.connect(path)
            rows = connection.execute(
                'SELECT id, "row", hash FROM rows WHERE id >> 32 = 1 ORDER BY id'
            ).fetchall()
            connection.close()
            plain = time.perf_counter() - started
            started = time.perf_counter()
            drive = host._runner.take(run_id)
            own = time.perf_counter() - started
            host.journal.store.leases.release(drive.run.number, drive.fence)
            ratios.append(own / plain)
    return [(f"resume of {len(rows):,} rows / plain read", f"{statistics.median(ratios):.2f}", "<= 3")]


def concurrency(folder: Path, divisor: int) -> list[Row]:
    """100 runs of 20 iterations in one journal at full durability, against the serial floor."""
    runs = 100 // divisor
    return [
        (
            f"{runs} runs at once at full / serial floor",
            f"{_at_once(folder, runs, pairs=7):.2f}x",
            ">= 3x, aim 4x",
        )
    ]


def _at_once(folder: Path, runs: int, pairs: int) -> float:
    """Return how many times faster *runs* runs of 20 iterations at once are than the floor, one after the other."""
    source = folder / "one.db"
    _timed_run(source, "full", 20)
    values = recorded_values(source)
    ratios = []
    for pair in range(pairs):
        part = runs // 4 or 1
        floor = run_floor(folder / f"serial-{pair}.db", values * part, "full") / part

        async def drive(pair: int = pair) -> float:
            with engine(folder / f"many-{pair}.db", durability="full", iterations=20) as host:
                started = time.perf_counter()
                results = await asyncio.gather(
                    *(
                        host.arun("Read all pages of the contract", ["every page is read"])
                        for _ in range(runs)
                    )
                )
                assert all(result.state == "Done" for result in results)
                return time.perf_counter() - started

        ratios.append(floor * runs / asyncio.run(drive()))
    return statistics.median(ratios)


def importing(folder: Path, divisor: int) -> list[Row]:
    """``import paor`` against the imports that it cannot do without."""
    ratios = []
    for _ in range(15):
        own = _import_time("import paor")
        base = _import_time("import transitions, pydantic, sqlite3, json")
        ratios.append(own / base)
    return [("import paor / import of its core", f"{statistics.median(ratios):.2f}", "<= 1.4")]


def _import_time(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    return float(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    )


def verifying(folder: Path, divisor: int) -> list[Row]:
    """`paor verify` on a large journal against reading, decoding and hashing its rows (`verify.py` for a million)."""
    path = folder / "verify.db"
    write_large_journal(path, 200_000 // divisor)
    return measured(path, 3)


def replaying(folder: Path, divisor: int) -> list[Row]:
    """`replay` through the machine against reading, json.loads and SHA-256 of the same rows; the median of 5 pairs."""
    iterations = 2_000 // divisor
    path = folder / "replay.db"
    _timed_run(path, "off", iterations)
    shares, alone, own, count = [], [], [], 5 * iterations + 1
    with Journal(path, read_only=True) as journal:
        row = journal.runs()[0]
        for _ in range(5):
            started = time.perf_counter()
            for values in journal.reader.rows(row.run):
                for text in (values[index] for index in (6, 7, 8, 9, 17)):
                    json.loads(text)
                hashlib.sha256(repr(values[1:18]).encode()).digest()
            rows = time.perf_counter()
            for payload in journal.reader.iterate_payloads(row.run, 500):
                body = payload.body if isinstance(payload.body, bytes) else str(payload.body).encode()
                if payload.media_type == "application/json":
                    json.loads(body)
                hashlib.sha256(body).digest()
            read = time.perf_counter()
            assert replay(journal, row.run_id).identical
            own.append(time.perf_counter() - read)
            shares.append((read - started) / own[-1])
            alone.append((rows - started) / own[-1])
    return [
        ("replay: share of reading rows and payloads", f"{statistics.median(shares):.2f}", ">= 0.20"),
        ("  of reading the rows alone", f"{statistics.median(alone):.2f}", ""),
        ("  rows replayed a second", f"{count / statistics.median(own):,.0f}", ""),
    ]


def checking(folder: Path, less: int) -> list[Row]:
    """The exhaustive exploration of each world against as many bare decisions of the first transition."""
    decided = _decision_s(2_000 // less)
    rows: list[Row] = []
    for world in worlds_of(default_limits()):
        if less > 1 and world.full:
            continue
        started = time.process_time()
        found = prove(Machine(), [world])
        seconds = time.process_time() - started
        assert all(item.code == "row_never_taken" for item in found.findings), "the machine is proven"
        told = f"check {world.name}: {found.states:,} states, {found.edges:,} edges"
        rows.append((told, f"{seconds / found.states * 200:.2f} s for 200 states", "< 2 s"))
        rows.append(("  an edge against a bare decision", f"{seconds / found.edges / decided:.1f}", ""))
    return rows


def _decision_s(count: int) -> float:
    """Return the processor seconds of one decision, the mean of *count*, by the rules that are checked."""
    walker = StateWalker(worlds_of(default_limits())[0], Machine())
    run = walker.start()
    outcome = outcome_of(next(walker.moves(run)), run)
    started = time.process_time()
    for _ in range(count):
        decide(run, outcome, NOW, walker.kit)
    return (time.process_time() - started) / count


BENCHMARKS: dict[str, Callable[[Path, int], list[Row]]] = {
    "throughput": throughput,
    "transitions": transitions,
    "disks": disks,
    "fsyncs": fsyncs,
    "flatness": flatness,
    "resuming": resuming,
    "concurrency": concurrency,
    "importing": importing,
    "verifying": verifying,
    "replaying": replaying,
    "checking": checking,
    "costs": costs,
    "overlap": overlap,
}

if __name__ == "__main__":
    main()
