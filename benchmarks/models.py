"""
Real models on twenty small tasks, paor beside other libraries: ``python benchmarks/models.py --url URL --model NAME``.

Any server of chat completions will do: llama.cpp, Ollama, vLLM or a provider (``OPENAI_API_KEY`` is passed on). The tasks and
the code that judges them are in `model_tasks.py`; what each engine is given, in `model_engines.py`; requests and tokens are
counted by the proxy in `model_proxy.py`. At temperature 0 only the first seed is run: the others would repeat it.

    pip install -e '.[openai]' 'pydantic-ai-slim[openai]'
    python benchmarks/models.py --url http://127.0.0.1:8080/v1 --model local --tasks tuning --seeds 0 1 2 --temperature 0 0.7
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from model_engines import ENGINES, PEERS, missing, run_engine, version_of
from model_proxy import CountingProxy, Tally, counting_proxy
from model_tasks import (
    HELD_BACK,
    TASKS,
    TUNING,
    World,
    effects_exact,
    is_right,
    repeated_effects,
    surplus_effects,
)

SETS = {"tuning": TUNING, "held-back": HELD_BACK}

Key = tuple[str, str, float, int]
"""Engine, task, temperature and seed."""


@dataclass(frozen=True)
class Row:
    """
    One run of one engine.

    Attributes:
        right: Whether it ended well, with the right facts and exactly the wanted effects.
        effects: Whether exactly the wanted effects happened.
        surplus: Effects beyond the wanted ones.
        repeated: Effects of a tool and arguments that had an effect before.
        state, reason, answer: How it ended.
        requests, tokens_in, tokens_out, tokens_cached: As the proxy counted them.
        seconds: From start to end.
        refused: Replies that could not be used as they were; None for engines without a journal.
        unmetered: Responses that told no usage.
    """

    engine: str
    task: str
    temperature: float
    seed: int
    right: bool
    effects: bool
    surplus: int
    repeated: int
    state: str
    reason: str
    answer: str
    requests: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    seconds: float
    refused: int | None
    unmetered: int = 0


def main() -> None:
    """Run what the command line asks for; print a line for each run, then the table."""
    options = _options()
    engines = []
    for engine in options.engines:
        if why := missing(engine):
            print(why, file=sys.stderr)
        else:
            engines.append(engine)
    rows = read_json(options.json) if options.resume else []
    with counting_proxy(options.url) as proxy, tempfile.TemporaryDirectory(prefix="paor-bench-") as folder:
        done = {key_of(row) for row in rows}
        for row in _runs(proxy, engines, options, options.keep or Path(folder), done):
            rows.append(row)
            print(line_of(row), flush=True)
            if options.json:
                write_json(options.json, options.model, rows)
    print("\n" + "\n".join(table_of(rows)))


def key_of(row: Row) -> Key:
    """Return what a run is a run of."""
    return row.engine, row.task, row.temperature, row.seed


def _runs(
    proxy: CountingProxy,
    engines: Iterable[str],
    options: argparse.Namespace,
    folder: Path,
    done: Container[Key],
) -> Iterator[Row]:
    samplings = [
        (t, seed) for t in options.temperature for seed in (options.seeds if t else options.seeds[:1])
    ]
    for temperature, seed in samplings:
        for name in options.tasks:
            for engine in engines:
                if (engine, name, temperature, seed) in done:
                    continue
                task, world = TASKS[name], World()
                tally = Tally({"temperature": temperature, "seed": seed}, options.reply_tokens)
                journal = folder / f"{engine}-{name}-{temperature:g}-{seed}.db"
                started = time.perf_counter()
                ended = run_engine(engine, task, world, proxy.open_tally(tally), options.model, journal)
                seconds = round(time.perf_counter() - started, 1)
                write_log(journal.with_suffix(".jsonl"), tally)
                yield Row(
                    *(engine, name, temperature, seed),
                    *(is_right(task, world, ended), effects_exact(task, world)),
                    *(surplus_effects(task, world), repeated_effects(world)),
                    *(ended.state, ended.reason, ended.answer),
                    *(tally.requests, tally.tokens_in, tally.tokens_out, tally.tokens_cached),
                    *(seconds, ended.refused, tally.unmetered),
                )


def line_of(row: Row) -> str:
    """Return one run as a line."""
    verdict = "right" if row.right else ("WRONG" if row.effects else "WRONG EFFECTS")
    return (
        f"{row.engine:<14} {row.task:<12} t={row.temperature:g} seed={row.seed} {verdict:<13} {row.state}/{row.reason or '-'}"
        f" requests={row.requests} in={row.tokens_in} ({row.tokens_cached} cached) out={row.tokens_out} {row.seconds:.0f}s"
        f" refused={'-' if row.refused is None else row.refused} surplus={row.surplus} repeated={row.repeated}"
        f" {' '.join(row.answer.split())[:80]!r}"
    )


@dataclass(frozen=True)
class Totals:
    """The sums over the runs of one engine at one temperature."""

    runs: int
    right: int
    effects: int
    surplus: int
    repeated: int
    refused: int | None
    requests: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    seconds: float


def totals_of(rows: Sequence[Row]) -> Totals:
    """Add up the rows of one engine."""
    refused = [row.refused for row in rows if row.refused is not None]
    return Totals(
        len(rows),
        sum(row.right for row in rows),
        sum(row.effects for row in rows),
        sum(row.surplus for row in rows),
        sum(row.repeated for row in rows),
        sum(refused) if refused else None,
        sum(row.requests for row in rows),
        sum(row.tokens_in for row in rows),
        sum(row.tokens_out for row in rows),
        sum(row.tokens_cached for row in rows),
        sum(row.seconds for row in rows),
    )


def best_peer(totals: dict[str, Totals]) -> str | None:
    """Return the peer with the most runs right, of several the one with the fewest tokens; None without peers."""
    peers = [engine for engine in totals if engine in PEERS]
    order = {name: (-totals[name].right, totals[name].tokens_in + totals[name].tokens_out) for name in peers}
    return min(peers, key=order.__getitem__, default=None)


def table_of(rows: Sequence[Row]) -> list[str]:
    """
    Return the lines of a Markdown table: an engine a line, for each set of tasks and temperature.

    Ratios are to the best peer, after equally many runs.
    """
    head = (
        *(
            "engine",
            "tasks",
            "temperature",
            "right",
            "effects exact",
            "too many: repeated",
            "replies refused",
        ),
        *("requests", "tokens in", "cached", "tokens out", "seconds"),
    )
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    sets = {task.name: name for name, tasks in SETS.items() for task in tasks}
    for chosen, temperature in dict.fromkeys((sets[row.task], row.temperature) for row in rows):
        here = [row for row in rows if (sets[row.task], row.temperature) == (chosen, temperature)]
        engines = dict.fromkeys(row.engine for row in here)
        totals = {name: totals_of([row for row in here if row.engine == name]) for name in engines}
        peer = best_peer(totals)
        for engine, own in totals.items():
            base = totals[peer] if peer and peer != engine and totals[peer].runs == own.runs else None
            cells = (
                *(engine, chosen, f"{temperature:g}"),
                *(f"{own.right} of {own.runs}", f"{own.effects} of {own.runs}"),
                *(f"{own.surplus}: {own.repeated}", "" if own.refused is None else str(own.refused)),
                _ratio(own.requests, base and base.requests),
                _ratio(own.tokens_in, base and base.tokens_in),
                f"{own.tokens_cached:,}",
                _ratio(own.tokens_out, base and base.tokens_out),
                f"{own.seconds:.0f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    if unmetered := sum(row.unmetered for row in rows):
        lines.append(f"\n{unmetered} responses told no usage: the tokens are too low.")
    return lines


def _ratio(own: int, base: int | None) -> str:
    return f"{own:,} ({own / base:.2f}x)" if base else f"{own:,}"


def write_log(path: Path, tally: Tally) -> None:
    """Write what a run asked and was answered, a request a line."""
    with path.open("w") as file:
        for request, response in tally.log:
            line = {"request": json.loads(request), "response": response.decode("utf-8", "replace")}
            file.write(json.dumps(line) + "\n")


def write_json(path: Path, model: str, rows: Sequence[Row]) -> None:
    """Write all that was measured so far; a file that is there is replaced when the new one is whole."""
    engines = dict.fromkeys(row.engine for row in rows)
    versions = {engine: version_of(engine) for engine in engines if not missing(engine)}
    data = {"model": model, "versions": versions, "rows": [asdict(row) for row in rows]}
    whole = path.with_name(f"{path.name}.new")
    whole.write_text(json.dumps(data, indent=1) + "\n")
    whole.replace(path)


def read_json(path: Path) -> list[Row]:
    """Return the runs that `write_json` wrote; none if the file is not there."""
    return [Row(**row) for row in json.loads(path.read_text())["rows"]] if path.exists() else []


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True, help="the server, such as http://127.0.0.1:8080/v1")
    parser.add_argument("--model", required=True, help="the model's name there")
    parser.add_argument("--engines", default="all", help=f"of {','.join(ENGINES)}; default all")
    parser.add_argument(
        "--tasks", default="all", help=f"tuning, held-back, or of {','.join(TASKS)}; default all"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0])
    parser.add_argument("--reply-tokens", type=int, default=400, help="longest reply; default 400")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there")
    parser.add_argument(
        "--resume", action="store_true", help="do not repeat the runs that --json has already"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep requests, responses and paor's journals there"
    )
    options = parser.parse_args()
    if options.tasks in SETS:
        options.tasks = ",".join(task.name for task in SETS[options.tasks])
    for name, known in (("engines", ENGINES), ("tasks", tuple(TASKS))):
        chosen = list(known) if getattr(options, name) == "all" else getattr(options, name).split(",")
        if strange := [item for item in chosen if item not in known]:
            parser.error(f"--{name}: {strange[0]!r} is unknown; use {', '.join(known)}")
        setattr(options, name, chosen)
    if options.resume and not options.json:
        parser.error("--resume needs --json FILE")
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    try:
        urllib.request.urlopen(f"{options.url.rstrip('/')}/models", timeout=30).close()
    except urllib.error.HTTPError:
        pass  # it is there; some servers list no models
    except (OSError, ValueError) as error:
        parser.error(f"--url: no server answers at {options.url}: {error}")
    return options


if __name__ == "__main__":
    main()
