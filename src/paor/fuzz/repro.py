"""
A failing case as a file: the steps that lead to it, what they break, and the rows that they wrote.

The file is JSON and holds everything but the engine. Nothing in it is executed or imported: the engine that it names is
shown to people, and used only when they name it themselves. What it says is checked before the first step is taken.

Replaying is deterministic: the steps hold what every model, tool, person and clock said, ids and salts are seeded.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..fsm.machine.machine import Machine
from ..states.base.errors import PaorError, UsageError
from ..states.base.version import VERSION
from .oracles.seen import Violation
from .strategies.injected_faults import check_happening
from .strategies.reply_builder import Said
from .world.error_attribution import blaming
from .world.world import DOS, Make, World

FORMAT = "paor-repro"
VERSION_OF_FORMAT = 1
FOLDER = ".paor/repro"
"""Where failing cases are saved by default, under the current folder."""

TEXT_MAX = 4_000
"""Longer replies are stored compressed."""

FILE_MAX = 20_000_000
"""Largest file that is read."""

STEPS_MAX = 10_000
RUNS_MAX = 100
"""Most runs of a case, which share a journal: what is looked at after each grows with all of them. `EngineMachine.runs` is 3."""


class Repro(NamedTuple):
    """
    A failing case.

    Attributes:
        app: The engine that it was found with, as ``MODULE:NAME``; for people. Empty for paor's own.
        invariant: What was violated.
        seq: At which row.
        told: What was found.
        script: The steps.
        rows: The rows that they wrote, in short.
        engine: Version of paor.
        machine: The host's own machine as data, its functions by their names; empty for the standard one.
    """

    app: str
    invariant: str
    seq: int
    told: str
    script: tuple[Mapping[str, Any], ...]
    rows: tuple[Mapping[str, Any], ...] = ()
    engine: str = VERSION
    machine: Mapping[str, Any] = {}

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "format": FORMAT,
            "version": VERSION_OF_FORMAT,
            "engine": self.engine,
            "app": self.app,
            "violated": {"invariant": self.invariant, "seq": self.seq, "told": self.told},
            "script": [_with_replies(step, _pack) for step in self.script],
            "rows": list(self.rows),
        } | ({"machine": dict(self.machine)} if self.machine else {})

    def save(self, folder: str | Path = FOLDER, name: str = "") -> Path:
        """
        Write the file; the same case has the same name and the same bytes.

        Args:
            folder: The folder; it is created if it is missing.
            name: Name of the file; by default derived from the violation and the steps.

        Raises:
            UsageError: It cannot be written.
        """
        text = json.dumps(self.wire(), indent=1) + "\n"
        digest = f"{zlib.crc32(json.dumps([self.app, self.wire()['script']]).encode()):08x}"
        path = Path(folder, name or f"{self.invariant}-{digest}.json")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")
        except OSError as error:
            raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
        return path

    def run(self, make: Make | type[Any]) -> Violation | None:
        """
        Repeat the steps; return what they violate now, None for nothing.

        Args:
            make: Returns the engine for a journal; or a subclass of `EngineMachine`, whose own claims are checked, too.

        Raises:
            UsageError: A step cannot be taken with this engine.
        """
        if isinstance(make, type):
            with blaming(f"{make.__name__} cannot be made:"):
                world = make().world
        else:
            world = World(make)
        try:
            world.play(self.script)
        except Violation as violation:
            return violation
        finally:
            world.close()
        return None


def repro_of(violation: Violation, app: str = "") -> Repro:
    """Return the case that a violation was found with."""
    script, rows = tuple(violation.script), tuple(violation.rows)
    case = Repro(app, violation.invariant, violation.seq, violation.told, script, rows)
    return case._replace(machine=violation.machine)


_UNTOLD = ("do", "said", "happened", "limits", "policy", "objective", "lost")
"""Keys of steps that are told in other words, or not at all."""


def step_lines(repro: Repro) -> list[str]:
    """Return the steps as lines for people: what was said, what the tool did, and whether the process was lost then."""
    lines = [f"     machine {machine_words(repro.machine)}"] if repro.machine else []
    for number, step in enumerate(repro.script, 1):
        replies = [_reply_text(item) for item in step.get("said", ())]
        happened = [_fault_text(item) for item in step.get("happened", ())]
        rest = [f"{name} {json.dumps(value):.100}" for name, value in step.items() if name not in _UNTOLD]
        message = [*rest, *replies, *happened]
        if step.get("lost"):
            message.append("the process is lost before the row is written")
        if step["do"] == "row" and not message:
            message.append("nothing is asked")
        lines.append(f"{number:>3}  {step['do']:<7} {'; '.join(message)}".rstrip())
    return lines


def machine_words(data: Mapping[str, Any]) -> str:
    """Return what a host's own machine has, by the names of its phases, rows and guards."""
    parts = {
        "phases": [item["name"] for item in data["states"] if "asks" in item],
        "rows": [f"{item['source']}.{item['trigger']}" for item in data["transitions"] if item.get("host")],
        "guards": [item["name"] for item in data.get("guards", ())],
    }
    told = "; ".join(f"{name} {', '.join(dict.fromkeys(names))}" for name, names in parts.items() if names)
    return ascii(told)[1:-1]


def _reply_text(reply: Mapping[str, Any]) -> str:
    family = reply.get("family", "good")
    mark = "" if family == "good" else f" ({family})"
    what = f"cannot answer: {reply['fault']}" if reply.get("fault") else ascii(reply["text"])[1:-1]
    return f"{reply['kind']}{mark} {what if len(what) <= 160 else what[:157] + '...'}"


def _fault_text(happening: Mapping[str, Any]) -> str:
    kind, what = happening["do"], happening.get("what")
    if kind == "call":
        return "the tool is called"
    if kind == "ask":
        return f"the tool asks: {ascii(happening['message'])[1:-1]:.100}"
    if kind == "return":
        return f"the tool is not called and returns {what or json.dumps(happening.get('value')):.100}"
    return f"the tool is {'called and then' if kind == 'raise_after' else 'not called and'} raises {what}"


def load(path: str | Path) -> Repro:
    """
    Read a saved case and check all of its content.

    Raises:
        UsageError: It is missing, too large, not JSON, of another kind or version, or has an invalid step.
    """
    try:
        data = Path(path).read_bytes()[: FILE_MAX + 1]
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or "is not a file name"
        raise UsageError(f"{path}: cannot be read ({message})") from None
    if len(data) > FILE_MAX:
        raise UsageError(f"{path}: has more than {FILE_MAX:,} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: is not a repro file: no JSON") from None
    try:
        return _repro_of(found)
    except (KeyError, TypeError, ValueError) as error:
        message = f"{error.args[0]!s:.120} is missing" if isinstance(error, KeyError) else f"{error!s:.200}"
        raise UsageError(f"{path}: is not a repro file: {message}") from None


def _repro_of(found: Any) -> Repro:
    if not isinstance(found, Mapping) or found.get("format") != FORMAT:
        raise ValueError(f"expected an object with the format {FORMAT!r}")
    if found["version"] != VERSION_OF_FORMAT:
        raise ValueError(f"its version is {found['version']!a:.20}, this paor knows {VERSION_OF_FORMAT}")
    violated, script, rows = found["violated"], found["script"], found["rows"]
    if not isinstance(violated, Mapping) or not isinstance(script, list) or not isinstance(rows, list):
        raise TypeError("violated, script or rows are of another type")
    name, seq, message = violated["invariant"], violated["seq"], violated["told"]
    if not (isinstance(name, str) and re.fullmatch(r"\w{1,80}", name)) or type(seq) is not int:
        raise ValueError("the invariant needs a name and a row")
    if len(script) > STEPS_MAX:
        raise ValueError(f"{len(script)} steps, at most {STEPS_MAX} are taken")
    runs = sum(isinstance(step, Mapping) and step.get("do") == "start" for step in script)
    if runs > RUNS_MAX:
        raise ValueError(f"{runs} of its steps start a run, at most {RUNS_MAX} are taken")
    steps = tuple(_check_step(step) for step in script)
    shown = tuple(row for row in rows if isinstance(row, Mapping))
    case = Repro(str(found["app"]), name, seq, str(message), steps, shown, str(found["engine"]))
    return case._replace(machine=_check_machine(found.get("machine", {})))


def _check_machine(data: Any) -> Mapping[str, Any]:
    """Return a machine's data; none of it is ever run, it is shown and compared."""
    if not isinstance(data, Mapping):
        raise TypeError("a machine that is no object")
    if not data:
        return {}
    try:
        return Machine.from_dict(data).to_dict()
    except (PaorError, RecursionError) as error:
        raise ValueError(f"its machine: {error!s:.120}") from None


# -- steps ---------------------------------------------------------------------------------------------------------

_TYPES: dict[str, type] = {
    **dict.fromkeys(
        ("do", "objective", "mode", "final_format", "task_type", "stage", "outcome", "how", "actor"), str
    ),
    **dict.fromkeys(("said", "happened", "criteria", "documents", "gave"), list),
    **dict.fromkeys(("limits", "policy", "values"), dict),
    **dict.fromkeys(("lost", "refused", "raises"), bool),
    **dict.fromkeys(("wall_us", "active_us"), int),
    **dict.fromkeys(("answer", "result"), object),
}
"""Keys of steps and what they hold; a step has no others."""


def _check_step(step: Any) -> dict[str, Any]:
    if not isinstance(step, Mapping) or step.get("do") not in DOS:
        raise ValueError("a step that does nothing known")
    for key, value in step.items():
        if key not in _TYPES or not isinstance(value, _TYPES[key]):
            raise ValueError(f"a step to {step['do']} with a wrong {key!a:.40}")
    checked = _with_replies(step, lambda item: Said.of(_unpack(item)).wire())
    if "happened" in step:
        checked["happened"] = [check_happening(item) for item in step["happened"]]
    return checked


def _with_replies(step: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a step with its replies changed."""
    return {**step, "said": [change(item) for item in step["said"]]} if "said" in step else dict(step)


def _pack(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply with a long text compressed."""
    text = reply["text"]
    if len(text) <= TEXT_MAX:
        return dict(reply)
    body = base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 9)).decode()
    return {name: value for name, value in reply.items() if name != "text"} | {"zlib": body}


def _unpack(reply: Any) -> dict[str, Any]:
    if not isinstance(reply, Mapping):
        raise TypeError("a reply that is no object")
    if "zlib" not in reply:
        return dict(reply)
    try:
        unpacking = zlib.decompressobj()
        body = unpacking.decompress(base64.b64decode(reply["zlib"], validate=True), FILE_MAX)
        text = body.decode("utf-8", "surrogatepass")
    except (zlib.error, binascii.Error, TypeError, UnicodeDecodeError):
        raise ValueError("a compressed reply that cannot be read") from None
    if unpacking.unconsumed_tail:
        raise ValueError("a compressed reply that is too long")
    return {name: value for name, value in reply.items() if name != "zlib"} | {"text": text}
