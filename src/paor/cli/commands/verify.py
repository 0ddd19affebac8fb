"""`paor verify` and `paor heads`: does a journal hold, by itself and against heads that were kept elsewhere?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from ...fsm.journal.postgres.address import shown
from ...fsm.verify.heads import BYTES_MAX, ORIGIN, Checkpoint, Head, origin_of, private_key, read
from ...fsm.verify.heads import public_key as public_key_of
from ...fsm.verify.verify import Defect
from ...states.base.errors import JournalDamaged, UsageError
from ..support import terminal as io
from ..support.journals import reading
from ..support.options import Output, command


@command(
    "paor verify",
    "paor verify --heads heads.txt --public-key key.pub.pem",
    "paor verify --journal runs.db --json",
)
def verify(
    heads: Annotated[
        str | None, "--heads FILE", "Earlier heads (paor heads): each must still be in its chain."
    ],
    public_key: Annotated[str | None, "--public-key PEM", "The key by which the heads must be signed."],
    journal: str,
) -> int:
    """
    Check a whole journal: every hash, payload digest and derived column of every run.

    A chain alone does not show that its end or a whole run is missing, or that it was rebuilt. Keep signed heads
    elsewhere (paor heads) and compare with them later (--heads, --public-key).

    Exit codes: 0 no defects, 4 with a line for each defect, 2 not a paor journal, not a file of heads, or not signed by the key.
    """
    before = _heads(heads, public_key)
    defects: list[Defect] = []
    unchecked: list[Defect] = []
    runs = transitions = 0
    try:
        with reading(journal) as opened:
            defects = opened.verify(before, unchecked=unchecked)
            runs, transitions = opened.reader.index.counts()
    except JournalDamaged as error:
        defects = defects or [Defect("", "file", str(error))]
    # the advice to run paor verify is what was done
    defects = [replace(item, problem=item.problem.partition("; run: paor verify")[0]) for item in defects]
    data = {
        "ok": not defects,
        "runs": runs,
        "transitions": transitions,
        "heads": len(before),
        "defects": defects,
    }
    holds = "chain, payloads and columns hold" + (f", {io.count(len(before), 'head')} too" if before else "")
    counts = f"{io.count(runs, 'run')}, {io.count(transitions, 'transition')}"
    lines = [io.one_line(str(item)) for item in defects] or [f"{io.styled('ok', 'good')}  {counts}: {holds}"]
    notes = [io.styled(f"{shown(journal)}: {io.count(len(defects), 'defect')}", "bad")] if defects else []
    notes += [io.one_line(f"not checked: {item}") for item in unchecked]
    data |= {"unchecked": unchecked} if unchecked else {}
    return io.say_either(data, lines, *notes, code=io.DAMAGED if defects else io.OK)


def _heads(file: str | None, key: str | None) -> list[Head]:
    """Return the heads of a file, which *key* has signed where there is one."""
    if file is None:
        if key is not None:
            raise UsageError("--public-key goes with --heads: it is the key that signed them")
        return []
    found = read(_bytes(file), io.one_line(file))
    if key is not None and not found.is_signed_by(public_key_of(_bytes(key), io.one_line(key))):
        unsigned = f"{io.one_line(file)}: is not signed by {io.one_line(key)}"
        raise UsageError(f"{unsigned}: it may have been written anew")
    return found.heads


@command(
    "paor heads --output heads.txt", "paor heads --sign key.pem --origin example.com/runs --output heads.txt"
)
def heads(
    sign: Annotated[str | None, "--sign PEM", "Sign them with this Ed25519 key (PKCS 8)."],
    origin: Annotated[
        str | None, "--origin NAME", f"Whose they are, and the name of the key; default {ORIGIN}."
    ],
    output: Output,
    journal: str,
) -> int:
    """
    Write where every run ends, signed, to be kept where nobody who can write the journal can change it.

    paor verify --heads shows later whether a run is missing, was cut or was made anew since. What it cannot show: a change from before
    the heads were written, and a run that both began and went after. The file is a signed note (C2SP checkpoint); other programs
    can check it. The journal is verified first; of one that does not hold no heads are written.

    Exit codes: 0 written; 4 with a line for each defect of the journal; 2 not a paor journal, or not a key.
    """
    key = private_key(_bytes(sign), io.one_line(sign)) if sign is not None else None
    found = Checkpoint(origin_of(origin) if origin is not None else ORIGIN, [])
    with reading(journal) as opened:
        # taken first, so that they are verified too
        found = found._replace(heads=opened.heads())
        defects = opened.verify(found.heads)
    if defects:
        io.say(*(io.one_line(str(item)) for item in defects))
        message = f"{shown(journal)}: {io.count(len(defects), 'defect')}, no heads were written"
        io.tell(io.styled(message, "bad"))
        return io.DAMAGED
    found = found.signed(key) if key is not None else found
    if output is not None:
        io.write_atomically(Path(output), [found.file()])
        signed = ", signed" if key is not None else ""
        io.tell(io.one_line(f"wrote {output} ({io.count(len(found.heads), 'head')}{signed})"))
    if io.wants_json():
        root, listed = found.text.split("\n")[2], [head._asdict() for head in found.heads]
        names = [name for name, _, _ in found.signatures]
        io.say_json({"origin": found.origin, "root": root, "heads": listed, "signed": names})
    elif output is None:
        io.say_bytes(found.file())
    return io.OK


def _bytes(name: str) -> bytes:
    """Return what is in a file, a byte more than is allowed at most; raise `UsageError` when it cannot be read."""
    try:
        with open(name, "rb") as opened:
            return opened.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{io.one_line(name)}: cannot be read ({io.reason(error)})") from None
