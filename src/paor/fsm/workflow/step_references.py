"""
``$step[N].output.path`` in the arguments of a plan's step: what an earlier step of the same plan gave.

``$step[0].output`` is the whole output of the first step, ``$step[0].output.items[0].url`` a part of it; a key that is
no word is in brackets, ``["a key"]``, a negative index counts from the end. ``.result`` is another word for
``.output``. A text that is nothing but one placeholder becomes the value with its type, elsewhere the value is put into
the text; ``$$step[`` stands for a plain ``$step[``. Placeholders are found in texts at any depth, in objects and lists,
never in keys, and never in what they are replaced by. An output that is JSON as text is read when a path leads into it.

What cannot be resolved is a defect with a code, never a guess and never an exception.

Source: docs/spec-coverage.md, A129 to A168 (numbers from 0, text outputs read as JSON); lists and parts of texts are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any, NamedTuple

from ...states.records.plans import Step
from .expressions.functions import CHARS_MAX, Misfit, kind_of, text

START = "$step["
DEPTH_MAX = 64
_PATH = r"""(?:\.[^\W\d][\w-]*|\[(?:-?\d{1,9}|"[^"\\\n]{1,200}"|'[^'\\\n]{1,200}')\])*"""
_PLACEHOLDER = re.compile(r"\$step\[(?P<step>\d{1,9})\]\.(?:output|result)(?!\w)(?P<path>" + _PATH + r")")
_PART = re.compile(r"""\.([^\W\d][\w-]*)|\[(-?\d{1,9})\]|\["([^"]*)"\]|\['([^']*)'\]""")
_OUTPUTS = ("tool", "elicitation")


@dataclass(frozen=True, slots=True)
class PlaceholderDefect:
    """
    Why a placeholder has no value.

    Attributes:
        code: ``bad_placeholder``, ``unknown_step``, ``forward_reference``, ``no_output``, ``missing_path`` or
            ``wrong_type``.
        path: Keys and indexes that lead to the text within the arguments.
        message: One ASCII line.
    """

    code: str
    path: tuple[str | int, ...]
    message: str


@dataclass(frozen=True, slots=True)
class StepOutput:
    """
    What a step left for those after it.

    Attributes:
        value: Any JSON; a text as it is.
        error: Why there is none; empty when there is.
    """

    value: Any = None
    error: str = ""


class _Unresolved(Misfit):
    """A placeholder has no value; the code is that of its defect."""


class _Reference(NamedTuple):
    """One placeholder: where it is in a text, and what it names; *step* is None when it cannot be read."""

    start: int
    end: int
    text: str
    step: int | None = None
    path: tuple[str | int, ...] = ()


def placeholder_defects(steps: Sequence[Step]) -> list[tuple[int, PlaceholderDefect]]:
    """Return what is wrong with the placeholders of a plan before anything runs, each with its step's number."""
    found = []
    for index, step in enumerate(steps):
        for path, value in _texts(step.args):
            for reference in _references(value):
                try:
                    kind = steps[_earlier(reference, index, len(steps))].type
                    if kind not in _OUTPUTS:
                        message = f"step {reference.step} is of type {kind} and has no output"
                        raise _Unresolved("no_output", message)
                except _Unresolved as why:
                    found.append((index, PlaceholderDefect(why.code, path, why.problem)))
    return found


def has_placeholders(arguments: Mapping[str, Any]) -> bool:
    """Return whether some text of *arguments* holds a placeholder, or an escaped one."""
    return bool(_texts(arguments))


def needed_steps(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the numbers of the steps that *arguments* refer to, in order, each once."""
    found = {reference.step for _, value in _texts(arguments) for reference in _references(value)}
    return tuple(sorted(step for step in found if step is not None))


def resolve_arguments(
    arguments: Mapping[str, Any], index: int, outputs: Sequence[StepOutput | None]
) -> dict[str, Any] | tuple[PlaceholderDefect, ...]:
    """
    Return the arguments of step *index* with every placeholder replaced, or all defects.

    Args:
        arguments: Of the step; not changed.
        index: The step's number in its plan.
        outputs: One per step of the plan; None for steps without output and for those that have not run.
    """
    defects: list[PlaceholderDefect] = []

    def replaced(value: str, path: tuple[str | int, ...]) -> Any:
        try:
            return _fill(value, index, outputs)
        except Misfit as misfit:
            code = misfit.code if isinstance(misfit, _Unresolved) else "wrong_type"
            defects.append(PlaceholderDefect(code, path, misfit.problem))
            return value

    resolved: dict[str, Any] = _change_texts(arguments, replaced)
    return tuple(defects) if defects else resolved


def _change_texts(
    value: Any, change: Callable[[str, tuple[str | int, ...]], Any], path: tuple[str | int, ...] = ()
) -> Any:
    """Return a JSON value with every text that can hold a placeholder changed, given it and its path."""
    if type(value) is str:
        return change(value, path) if START in value else value
    if len(path) < DEPTH_MAX and isinstance(value, Mapping):
        return {key: _change_texts(item, change, (*path, key)) for key, item in value.items()}
    if len(path) < DEPTH_MAX and isinstance(value, list):
        return [_change_texts(item, change, (*path, number)) for number, item in enumerate(value)]
    return value


def _texts(value: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """Return every text of a JSON value that can hold a placeholder, with its path."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    _change_texts(value, lambda text, path: found.append((path, text)))
    return found


def _fill(value: str, index: int, outputs: Sequence[StepOutput | None]) -> Any:
    pieces: list[str] = []
    at = 0
    for reference in _references(value):
        step = _earlier(reference, index, len(outputs))
        output = outputs[step]
        if output is None or output.error:
            why = "has no output" if output is None else f"failed: {ascii(output.error[:120])[1:-1]}"
            raise _Unresolved("no_output", f"step {step} {why}")
        found = _part_of(output.value, reference)
        if (reference.start, reference.end) == (0, len(value)):
            return found
        pieces += [_plain(value[at : reference.start]), text(found)]
        at = reference.end
    whole = "".join([*pieces, _plain(value[at:])])
    if len(whole) > CHARS_MAX:
        raise Misfit("range", f"a text of more than {CHARS_MAX} characters")
    return whole


def _plain(value: str) -> str:
    return value.replace("$" + START, START)


def _earlier(reference: _Reference, index: int, count: int) -> int:
    """Return the step before *index* that a reference names, of *count* in the plan."""
    step = reference.step
    if step is None:
        message = f"expected $step[N].output or a path below it, found {reference.text!a}"
        raise _Unresolved("bad_placeholder", message)
    if step >= count:
        message = f"there is no step {step}; the plan has steps 0 to {count - 1}"
        raise _Unresolved("unknown_step", message)
    if step >= index:
        what = "itself" if step == index else f"step {step}, which comes later"
        raise _Unresolved("forward_reference", f"step {index} refers to {what}")
    return step


def _part_of(value: Any, reference: _Reference) -> Any:
    """Return the part of an output that the reference's path leads to."""
    seen = f"$step[{reference.step}].output"
    if reference.path and type(value) is str:
        value = _read(value)
    for part in reference.path:
        if isinstance(part, int) and isinstance(value, list):
            if not -len(value) <= part < len(value):
                raise _Unresolved("missing_path", f"{seen} has {len(value)} items, there is no [{part}]")
            value, seen = value[part], f"{seen}[{part}]"
        elif isinstance(part, str) and isinstance(value, dict):
            if part not in value:
                keys = ", ".join(ascii(key[:40])[1:-1] for key in list(value)[:10])
                message = f"{seen} has no {part!a}; it has: {keys or 'nothing'}"
                raise _Unresolved("missing_path", message[:300])
            value, seen = value[part], f"{seen}.{ascii(part)[1:-1]}"
        else:
            what = "a list" if isinstance(part, int) else "an object"
            message = f"{seen} is {kind_of(value)}, expected {what} with {part!a}"
            raise _Unresolved("wrong_type", message[:300])
    return value


def _read(value: str) -> Any:
    """Return the JSON that a text holds, or the text itself."""
    if value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise ValueError(f"{digits[:40]} is no double")
    return value


# -- reading -----------------------------------------------------------------------------------------------------


def _references(value: str) -> Iterator[_Reference]:
    """Yield the placeholders of a text in their order; ``$$step[`` is none."""
    at = 0
    while (start := value.find(START, at)) >= 0:
        at = start + len(START)
        if start and value[start - 1] == "$":
            continue
        match = _PLACEHOLDER.match(value, start)
        if match is None or value.startswith("[", match.end()):  # a part that cannot be read follows the path
            yield _Reference(start, at, value[start : start + 40])
            continue
        at = match.end()
        path = tuple(_part(found) for found in _PART.finditer(match["path"]))
        yield _Reference(start, at, match[0], int(match["step"]), path)


def _part(found: re.Match[str]) -> str | int:
    word, number, double, single = found.groups()
    if number is not None:
        return int(number)
    return next(part for part in (word, double, single) if part is not None)
