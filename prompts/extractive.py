"""
Answer an objective from documents without a language model: quote what they say, name where, and admit what they do not say.

``write`` reads the objective into parts (``objectives``), the sources into units (``blocks``), chooses for each part the units
that answer it (``choosing``, ``summaries``, ``comparing``), puts together what says the same (``merging``) and writes it as
Markdown with its sources (``composing``, ``rendering``). ``evidence`` goes the other way: does a finished text hold what a
criterion asks for (``criteria``)? The words of each language are tables: ``languages``, ``lexicon``, ``vocabulary``,
``request_words``, ``calendars``, ``phrases``.

Nothing is paraphrased, so nothing can be invented; the price is that nothing is concluded either. Everything here is a pure
function of its arguments: no clock, no chance, no file, no network; the only database lives in memory for one call. The engine
is imported on the first call, so that this module costs next to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Finding", "Source", "Written", "evidence", "write"]


@dataclass(frozen=True, slots=True)
class Source:
    """
    One document to answer from.

    Attributes:
        name: What it is called in the answer: "contract.pdf".
        text: Its text, Markdown or plain.
        whole: Whether that is all of its text.
    """

    name: str
    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One passage that an answer quotes.

    Attributes:
        text: A sentence, list item or line of code, verbatim from its source after folding white space; of a table row, its
            cells with their headers.
        source: The name of its source.
        heading: The nearest heading above it.
        score: How well it answers its part of the objective; only comparable within one part.
        kinds: What it is: "obligation", "deadline" and so on, see ``lexicon.KINDS``.
    """

    text: str
    source: str
    heading: str | None
    score: float
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Written:
    """
    An answer.

    Attributes:
        text: The answer in Markdown.
        findings: What it quotes, in its order.
        covered: For each criterion, whether the answer holds evidence for it.
    """

    text: str
    findings: tuple[Finding, ...]
    covered: tuple[bool, ...]


def write(
    objective: str,
    sources: Sequence[Source],
    *,
    criteria: Sequence[str] = (),
    language: str = "en",
    instructions: str = "",
    chars_max: int = 12_000,
) -> Written:
    """
    Answer *objective* from *sources*.

    Args:
        objective: What is asked, in words: "Summarise the obligations and list every deadline".
        sources: The documents, as Markdown or plain text.
        criteria: What the answer should hold; what the objective's parts do not bring is looked for as a further part.
        language: Of headings and fixed phrases; a language without a table gets English. Quotations stay as they are.
        instructions: Further wishes: a length ("at most 5 points", "brief") and kinds of finding to add ("also list risks").
        chars_max: The greatest length of the text, in characters.

    Returns:
        The answer. Each part of the objective is a section; one that nothing answers says so.
    """
    from .composing import compose

    return compose(
        objective,
        sources,
        criteria=criteria,
        language=language,
        instructions=instructions,
        chars_max=chars_max,
    )


def evidence(criterion: str, text: str) -> str | None:
    """
    Return a sentence of *text* that supports *criterion*.

    Args:
        criterion: What a good answer has, in words: "names the notice period".
        text: The finished answer, Markdown or plain.

    Returns:
        A sentence, list item or table row of *text*, white space folded; None if none supports the whole criterion, or if the
        criterion cannot be judged by quoting ("no invented facts").
    """
    from .criteria import find_evidence

    return find_evidence(criterion, text)
