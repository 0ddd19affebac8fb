"""
Evaluations: what a model replies to requests that recorded runs would make now, and how good answers are.

`Evaluation` back-tests runs, samples the rows that would ask otherwise, says what asking costs at most, and puts the new requests to a
model. A reply is read and decided as its row would be, and compared with the recorded reply, read under the same settings; nothing that
it chooses is done. `evaluate` scores recorded answers. Replies and scores are kept in a file, see `fsm.evaluation.kept`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

from ...prompts.model import Model, ModelUnavailable, prompt_bytes
from ...states.base.errors import Erased, UsageError
from ...states.records.outcomes import NO_USAGE, Usage
from ...states.run.budgets import prompt_tokens
from ..journal.reader import JournalReader, Readable, reader_of
from ..journal.rows import RunRow
from ..lifecycle.arguments import model_of
from ..lifecycle.look import result_now
from ..replay.backtest import trials
from ..replay.trial import Trial, TrialFinding, TrialSettings
from ..runtime.result import Result
from .asked import NewCall, Sample, difference
from .kept import DEFAULT, Kept, request_key
from .scorers import Judge, Scorer, name_of, value_of

SAMPLE, SAMPLE_MAX = 20, 10_000
FAILURES_MAX = 3
"""After so many errors of the model in a row nothing more is asked: it will not answer the others either."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """
    What an evaluation asks, and what that costs at most; attempts that the model's client makes again are not counted.

    Attributes:
        model: Name of the model.
        rows: Of the sample.
        requests: That are made; those alike are made once.
        kept: Rows whose reply is there already, and costs nothing.
        tokens_in: Tokens of the requests, by estimate of their bytes.
        tokens_out: Tokens that the replies may have; None where no limit of a reply is known.
        cost_micro: Millionths of the currency unit; None where no price of the model, or no limit of a reply, is known.
    """

    model: str
    rows: int
    requests: int
    kept: int
    tokens_in: int
    tokens_out: int | None
    cost_micro: int | None

    def __str__(self) -> str:
        replies = "an unknown number of" if self.tokens_out is None else f"{self.tokens_out:,}"
        cost = "its price is not known" if self.cost_micro is None else f"{self.cost_micro / 1e6:,.4f} cost"
        most = f": at most {self.tokens_in:,} tokens in and {replies} out, {cost}" if self.requests else ""
        kept = (
            f"; {self.kept} {'reply is' if self.kept == 1 else 'replies are'} kept already"
            if self.kept
            else ""
        )
        return f"{self.requests} request{'s' * (self.requests != 1)} to {self.model}{most}{kept}"


@dataclass(frozen=True, slots=True)
class AskedRow:
    """
    A row whose new request was put to a model.

    Attributes:
        run_id, seq: Of the row.
        finding: The first difference of its reply from the recorded one: ``form``, ``action``, ``arguments`` or ``verdict``, or that
            the model gave an ``error``; None where none differs.
        reply: What the model said, empty for an error.
        usage: What it used; nothing for a reply that was kept.
        scores: For a reply that gives an answer, as the recorded one does: by the scorer's name the score of that one, and of this.
    """

    run_id: str
    seq: int
    finding: TrialFinding | None
    reply: str
    usage: Usage
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)


class Evaluation:
    """
    A back-test that puts the requests of a sample of rows, which other settings word differently, to a model.

    Nothing is asked before `rows` is iterated over. No tool is called, and the journal is only read.

    Args:
        engine: Whose settings are tried.
        journal: That holds the runs.
        model: That is asked, or its name as for `Engine`.
        sample: Of how many rows: those with the smallest SHA-256 of run id, blank and row number, the same each time.
        runs: That are tried; None for all.
        kept: File in which replies and scores are kept. A request that is in it with the same model is not made again.
        scorers: For rows whose recorded reply and new reply both give an answer.

    Attributes:
        trials: What the back-test found, a `Trial` for each run.
        estimate: What `rows` asks.

    Raises:
        UsageError: Something else than an engine, a journal, runs of it, a model or scorers; or a file that is none of an evaluation.
        JournalDamaged: The chain of a run, or of the file, does not hold.
    """

    def __init__(
        self,
        engine: TrialSettings,
        journal: Readable,
        model: Model | str,
        *,
        sample: int = SAMPLE,
        runs: Sequence[RunRow] | None = None,
        kept: str | os.PathLike[str] = DEFAULT,
        scorers: Iterable[Scorer] = (),
    ) -> None:
        usage = (
            "Evaluation takes an Engine, a Journal and a model, such as Evaluation(engine, journal, model)"
        )
        if type(sample) is not int or not 1 <= sample <= SAMPLE_MAX:
            raise UsageError(f"sample must be a whole number from 1 to {SAMPLE_MAX:,}, not {sample!r}")
        self._model, self._path, self._scorers = model_of(model), kept, _checked(scorers)
        self._reader = reader_of(journal, usage)
        chosen = Sample(sample, self._model)
        with closing(Kept(kept, create=False)) as file:
            self.trials: tuple[Trial, ...] = tuple(
                run for (run,) in trials([engine], journal, runs, usage, chosen.take)
            )
            self._sample = chosen.all()
            self.estimate = self._estimated(file)

    def _estimated(self, file: Kept) -> Estimate:
        keys = [request_key(self._model.name, item.call) for item in self._sample]
        new = {
            key: item.call
            for key, item in zip(keys, self._sample, strict=True)
            if file.latest("reply", key) is None
        }
        sizes = [prompt_tokens(prompt_bytes(call.messages, call.tools)) for call in new.values()]
        limits = [call.max_tokens for call in new.values() if call.max_tokens is not None]
        tokens_out = sum(limits) if len(limits) == len(new) else None
        price, cost = getattr(self._model, "price", None), 0 if not new else None
        if price is not None and tokens_out is not None:
            cost = sum(price.of(Usage(1, *pair)) for pair in zip(sizes, limits, strict=True))
        kept = sum(key not in new for key in keys)
        return Estimate(self._model.name, len(keys), len(new), kept, sum(sizes), tokens_out, cost)

    def rows(self) -> Iterator[AskedRow]:
        """
        Yield the rows of the sample, each with what the model replied; it is asked when the next one is taken.

        The rest is not asked after three errors of the model in a row, and not yielded.

        Raises:
            ModelUnavailable: A `Judge` among the scorers gave no score.
        """
        failed = 0
        with closing(Kept(self._path)) as file:
            for item in self._sample:
                found = self._row(file, item)
                failed = failed + 1 if found.finding is not None and found.finding.kind == "error" else 0
                yield found
                if failed == FAILURES_MAX:
                    return

    def _row(self, file: Kept, item: NewCall) -> AskedRow:
        finding = partial(TrialFinding, item.run_id, item.seq, row=item.place, guard="")
        try:
            reply = file.ask(self._model, item.call)
        except ModelUnavailable as error:
            failed = finding(kind="error", was="a reply", now=f"{error.code}: {error.message}")
            return AskedRow(item.run_id, item.seq, failed, "", error.usage or NO_USAGE)
        read = item.read(reply)
        differs = difference(item.was, read)
        told = None
        if differs is not None:
            told = finding(kind=differs[0], was=differs[1], now=differs[2])
        scores: dict[str, tuple[float, float]] = {}
        if self._scorers and item.was.answer is not None and read.answer is not None:
            run = result_now(self._reader, item.run_id)
            for scorer in self._scorers:
                was, now = (_scored(file, scorer, run, text) for text in (item.was.answer, read.answer))
                scores[name_of(scorer)] = was, now
        usage = reply.usage or NO_USAGE
        return AskedRow(item.run_id, item.seq, told, reply.text, usage, scores)


@dataclass(frozen=True, slots=True)
class Score:
    """
    How good the answer of a run is.

    Attributes:
        run_id: The run.
        scorer: Name of the scorer.
        value: From 0 to 1.
        answer: The answer.
    """

    run_id: str
    scorer: str
    value: float
    answer: str


def evaluate(
    journal: Readable,
    scorers: Iterable[Scorer],
    *,
    runs: Sequence[RunRow] | None = None,
    kept: str | os.PathLike[str] = DEFAULT,
) -> list[Score]:
    """
    Return the scores of the answers of recorded runs that have ended, those of one run together, the oldest run first.

    The journal is only read, and no model is asked but by a `Judge`. Each score is kept in a file when it is another one than the
    file's newest of the same run, scorer and answer; the replies of a judge are kept, too, and the same answer is not judged again.

    Args:
        journal: That holds the runs.
        scorers: Functions of a run, as `Engine.result` gives it, and its answer.
        runs: That are scored, such as ``journal.runs(since=...)``; None for all. Those that have not ended, or of which the answer
            was erased, are left out.
        kept: The file.

    Raises:
        UsageError: Something else than a journal, runs and scorers; a score that is no number from 0 to 1; another kind of file.
        ModelUnavailable: A judge gave no score. The scores before it are kept.
        JournalDamaged: A run, or the file, does not hold.
    """
    reader = reader_of(
        journal, "evaluate takes a Journal and scorers, such as evaluate(journal, [criteria_met])"
    )
    given, found = _checked(scorers), list[Score]()
    rows = sorted(reader.runs() if runs is None else runs, key=lambda row: row.run)
    with closing(Kept(kept)) as file:
        for row in rows:
            run = _ended(reader, row)
            for scorer in given if run is not None else ():
                assert run is not None, "it has ended"
                value = _scored(file, scorer, run, run.answer)
                found.append(Score(run.run_id, name_of(scorer), value, run.answer))
    return found


def _ended(reader: JournalReader, row: RunRow) -> Result | None:
    if row.status not in ("done", "failed"):
        return None
    try:
        return result_now(reader, row.run_id)
    except Erased:
        return None


def _scored(file: Kept, scorer: Scorer, run: Result, answer: str) -> float:
    """Return a score, which is in the file afterwards."""
    given: Any = scorer(run, answer, file.ask) if isinstance(scorer, Judge) else scorer(run, answer)
    value, name = value_of(scorer, given), name_of(scorer)
    digest = sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()
    key, data = f"{run.run_id} {digest} {name}", {"score": value}
    if file.latest("score", key) != data:
        file.append("score", key, data)
    return value


def _checked(scorers: Iterable[Scorer]) -> tuple[Scorer, ...]:
    """Return scorers; raise `UsageError` for what is none, and for two with one name."""
    if not isinstance(scorers, Iterable):
        raise UsageError("scorers are a list of functions of a run and an answer")
    given = tuple(scorers)
    names = [name_of(scorer) for scorer in given]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two scorers are called {double}; give one of them another __name__")
    return given
