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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

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


@dataclass(frozen=True, slots=True)
class _Reference:
    """One placeholder: where it is in a text, and what it names; *step* is None when it cannot be read."""

    start: int
    end: int
    step: int | None
    path: tuple[str | int, ...] = ()

    def name(self) -> str:
        """Return the placeholder without its path."""
        return f"$step[{self.step}].output"


def placeholder_defects(steps: Sequence[Step]) -> list[tuple[int, PlaceholderDefect]]:
    """Return what is wrong with the placeholders of a plan before anything runs, each with its step's number."""
    found = []
    for index, step in enumerate(steps):
        for path, value in _texts(step.args):
            for reference in _references(value):
                defect = _static_defect(reference, value, path, index, steps)
                if defect is not None:
                    found.append((index, defect))
    return found


def has_placeholders(arguments: Mapping[str, Any]) -> bool:
    """Return whether some text of *arguments* holds a placeholder, or an escaped one."""
    return any(START in value for _, value in _texts(arguments))


def needed_steps(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the numbers of the steps that *arguments* refer to, in order, each once."""
    found = {
        reference.step
        for _, value in _texts(arguments)
        for reference in _references(value)
        if reference.step is not None
    }
    return tuple(sorted(found))


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
    resolved = _resolved(dict(arguments), (), _Resolution(index, outputs, defects), DEPTH_MAX)
    return tuple(defects) if defects else resolved


@dataclass(frozen=True, slots=True)
class _Resolution:
    """What resolving one step's arguments needs."""

    index: int
    outputs: Sequence[StepOutput | None]
    defects: list[PlaceholderDefect]


def _resolved(value: Any, path: tuple[str | int, ...], how: _Resolution, depth: int) -> Any:
    if type(value) is str:
        return _filled(value, path, how) if START in value else value
    if depth <= 0:
        return value
    if type(value) is dict:
        return {key: _resolved(item, (*path, key), how, depth - 1) for key, item in value.items()}
    if type(value) is list:
        return [_resolved(item, (*path, number), how, depth - 1) for number, item in enumerate(value)]
    return value


def _filled(value: str, path: tuple[str | int, ...], how: _Resolution) -> Any:
    """Return one text with its placeholders replaced; what has none stays as it is, and is noted as a defect."""
    pieces: list[str] = []
    at = 0
    for reference in _references(value):
        found = _value_of(reference, value, path, how)
        if isinstance(found, PlaceholderDefect):
            how.defects.append(found)
            return value
        if (reference.start, reference.end) == (0, len(value)):
            return found
        try:
            pieces += [_plain(value[at : reference.start]), text(found)]
        except Misfit as misfit:
            how.defects.append(PlaceholderDefect("wrong_type", path, misfit.problem))
            return value
        at = reference.end
    whole = "".join([*pieces, _plain(value[at:])])
    if len(whole) > CHARS_MAX:
        how.defects.append(
            PlaceholderDefect("wrong_type", path, f"a text of more than {CHARS_MAX} characters")
        )
    return whole


def _plain(value: str) -> str:
    return value.replace("$" + START, START)


def _value_of(reference: _Reference, value: str, path: tuple[str | int, ...], how: _Resolution) -> Any:
    """Return what a placeholder stands for, or why there is nothing."""
    if reference.step is None:
        return _malformed(value, reference, path)
    if reference.step >= len(how.outputs):
        return _unknown(reference, path, len(how.outputs))
    if reference.step >= how.index:
        return _forward(reference, path, how.index)
    output = how.outputs[reference.step]
    if output is None or output.error:
        why = "has no output" if output is None else f"failed: {ascii(output.error[:120])[1:-1]}"
        return PlaceholderDefect("no_output", path, f"step {reference.step} {why}")
    return _found(reference, output.value, path)


def _found(reference: _Reference, value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the part of an output that the reference's path leads to."""
    seen = reference.name()
    if reference.path and type(value) is str:
        value = _read(value)
    for part in reference.path:
        if isinstance(part, int) and isinstance(value, list):
            if not -len(value) <= part < len(value):
                message = f"{seen} has {len(value)} items, there is no [{part}]"
                return PlaceholderDefect("missing_path", path, message)
            value, seen = value[part], f"{seen}[{part}]"
        elif isinstance(part, str) and isinstance(value, dict):
            if part not in value:
                keys = ", ".join(ascii(key[:40])[1:-1] for key in list(value)[:10])
                message = f"{seen} has no {part!a}; it has: {keys or 'nothing'}"
                return PlaceholderDefect("missing_path", path, message[:300])
            value, seen = value[part], f"{seen}.{ascii(part)[1:-1]}"
        else:
            what = "a list" if isinstance(part, int) else "an object"
            message = f"{seen} is {kind_of(value)}, expected {what} with {part!a}"
            return PlaceholderDefect("wrong_type", path, message[:300])
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
            yield _Reference(start, at, None)
            continue
        at = match.end()
        path = tuple(_part(found) for found in _PART.finditer(match["path"]))
        yield _Reference(start, at, int(match["step"]), path)


def _part(found: re.Match[str]) -> str | int:
    word, number, double, single = found.groups()
    if number is not None:
        return int(number)
    return next(part for part in (word, double, single) if part is not None)


def _texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every text of a JSON value that can hold a placeholder, with its path."""
    if type(value) is str:
        if START in value:
            yield path, value
    elif len(path) < DEPTH_MAX and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif len(path) < DEPTH_MAX and type(value) is list:
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number))


# -- defects -----------------------------------------------------------------------------------------------------


def _static_defect(
    reference: _Reference, value: str, path: tuple[str | int, ...], index: int, steps: Sequence[Step]
) -> PlaceholderDefect | None:
    """Return what is wrong with a reference whatever the steps will give."""
    if reference.step is None:
        return _malformed(value, reference, path)
    if reference.step >= len(steps):
        return _unknown(reference, path, len(steps))
    if reference.step >= index:
        return _forward(reference, path, index)
    kind = steps[reference.step].type
    if kind not in _OUTPUTS:
        return PlaceholderDefect(
            "no_output", path, f"step {reference.step} is of type {kind} and has no output"
        )
    return None


def _malformed(value: str, reference: _Reference, path: tuple[str | int, ...]) -> PlaceholderDefect:
    found = ascii(value[reference.start : reference.start + 40])
    return PlaceholderDefect(
        "bad_placeholder", path, f"expected $step[N].output or a path below it, found {found}"
    )


def _unknown(reference: _Reference, path: tuple[str | int, ...], count: int) -> PlaceholderDefect:
    message = f"there is no step {reference.step}; the plan has steps 0 to {count - 1}"
    return PlaceholderDefect("unknown_step", path, message)


def _forward(reference: _Reference, path: tuple[str | int, ...], index: int) -> PlaceholderDefect:
    what = "itself" if reference.step == index else f"step {reference.step}, which comes later"
    return PlaceholderDefect("forward_reference", path, f"step {index} refers to {what}")
