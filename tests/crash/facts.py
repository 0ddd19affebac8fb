"""What a run came to, in a form in which an interrupted one can be compared with one that nobody interrupted."""

from __future__ import annotations

from typing import Any

from paor import Engine, Journal, replay

from .outside import EFFECT_US

PER_FILE = frozenset(
    {
        "digest",
        "n",
        "payload",
        "run_id",
        "idempotency_key",
        "idempotencyKey",
        "key",
        "first",
        "payloads",
        "approval",
        "runId",
        "at",
    }
)
"""Keys of digests, numbers and salted ids, which differ between two files that say the same."""


def facts(engine: Engine) -> list[dict[str, Any]]:
    """Return the facts of every run of a journal, in the order of round and task, the oldest first."""
    rows = sorted(engine.journal.runs(), key=lambda row: (row.round, row.task, row.run))
    return [_of_run(engine, row.run_id) for row in rows]


def _of_run(engine: Engine, run_id: str) -> dict[str, Any]:
    journal, result = engine.journal, engine.result(run_id)
    spec, rows = journal.spec(run_id), _rows(journal, run_id)
    last = journal.transitions(run_id)[-1]
    counters = {name: value for name, value in last.counters.items() if name != "elicitations"}
    return {
        "objective": spec.objective,
        "mode": spec.mode,
        "task": spec.task,
        "end": [result.state, result.status, result.reason, result.answer],
        "time_us": last.time_us + EFFECT_US * sum(row["reconciled"] for row in rows),
        "counters": counters,
        "documents": [
            [item.label, item.position, item.name, item.mime, _text(journal.document(run_id, item.number))]
            for item in journal.documents(run_id)
        ],
        "rows": [{key: value for key, value in row.items() if key != "reconciled"} for row in rows],
    }


def _rows(journal: Journal, run_id: str) -> list[dict[str, Any]]:
    """
    Return what each row says, with its texts; the wait and the answer for an effect in doubt left out.

    A row says ``reconciled`` when its effect was not called by the driver that wrote it; how long it took is unknown.
    """
    number = journal.run(run_id).run
    found: list[dict[str, Any]] = []
    rows = journal.transitions(run_id)
    for row in rows:
        if row.source == "Executing" and row.trigger in ("wait", "provide"):
            continue
        reconciled = row.trigger == "execute" and row.time_us == rows[row.seq - 1].time_us
        told = {
            "row": [row.trigger, row.source, row.dest, row.step, row.action, row.retries],
            "used": [row.tokens_in, row.tokens_out, row.cost_micro],
            "prompt": _bodies(journal, number, row.request.get("prompt", [])),
            "asked": {
                key: value
                for key, value in _plain(dict(row.request)).items()
                if key not in ("prompt", "after")
            },
            "outcome": {
                key: value for key, value in _plain(dict(row.outcome)).items() if key != "reconciled"
            },
            "reply": _bodies(journal, number, [row.outcome["reply"]] if "reply" in row.outcome else []),
            "guards": dict(row.guards),
            "change": _plain(dict(row.change)),
            "reconciled": reconciled,
        }
        if row.trigger == "execute":  # a reconciled effect is told as if the tool had returned it
            told["asked"] = {}
            told["guards"] = {}
        found.append(told)
    return found


def _bodies(journal: Journal, number: int, references: Any) -> list[str]:
    return [_text(journal.payload(number, reference["n"]).body) for reference in references]


def _text(body: str | bytes | None) -> str:
    return body if isinstance(body, str) else repr(body)


def _plain(data: Any) -> Any:
    """Return JSON without what belongs to one file."""
    if isinstance(data, dict):
        own = {"id"} if "steps" in data else set()  # a plan's id comes from its run's
        return {key: _plain(value) for key, value in data.items() if key not in PER_FILE | own}
    return [_plain(value) for value in data] if isinstance(data, list | tuple) else data


def problems(engine: Engine) -> list[str]:
    """Return what a finished journal fails in: chain and payloads, and the replay of every run."""
    found = [str(defect) for defect in engine.journal.verify()]
    for row in engine.journal.runs():
        compared = replay(engine.journal, row.run_id)
        found += [str(divergence) for divergence in compared.divergences]
    return found
