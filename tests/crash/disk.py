"""
A disk below SQLite, as a VFS of `apsw`: it fails where it is told to, and remembers what it was told to keep.

Faults: the n-th operation of a kind fails, once or from then on, as SQLITE_FULL or SQLITE_IOERR, a write also after a part
of it was done. Power loss: every write, truncation and deletion is remembered until a sync of its file; `images` gives what
may then be found: of each sector of 512 bytes any version that was written since the last sync, of each file any of its
lengths, of each deletion whether it took place.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from .adapter import on

SECTOR = 512
SHORT = 700
"""Bytes of a write that a short one still does: more than a sector, less than a page."""

CODES = {
    "read": (apsw.IOError, apsw.SQLITE_IOERR_READ),
    "write": (apsw.IOError, apsw.SQLITE_IOERR_WRITE),
    "sync": (apsw.IOError, apsw.SQLITE_IOERR_FSYNC),
    "truncate": (apsw.IOError, apsw.SQLITE_IOERR_TRUNCATE),
    "delete": (apsw.IOError, apsw.SQLITE_IOERR_DELETE),
    "full": (apsw.FullError, apsw.SQLITE_FULL),
}


@dataclass(frozen=True)
class Fault:
    """
    What goes wrong.

    Attributes:
        operation: ``write``, ``sync``, ``read``, ``truncate`` or ``delete``.
        number: Which one fails, from 1.
        error: A key of `CODES`.
        short: Whether a part of the write is done.
        lasting: Whether everything that writes fails from then on, until `Disk.mend`.
    """

    operation: str
    number: int
    error: str
    short: bool = False
    lasting: bool = False


@dataclass
class Kept:
    """A file as the disk has it: what is synced for sure, and what was asked for since."""

    path: str
    exists: bool = False
    data: bytes = b""
    pending: list[tuple[Any, ...]] = field(default_factory=list)


class Disk:
    """
    The state of one disk.

    Attributes:
        counts: Operations so far, by kind.
        fault: What is to go wrong, or None.
        failed: How often it did.
        on_fault: Called when it does for the first time.
        on_sync: Called before each sync with the kind of its file (``wal`` or ``db``), while nothing of it is safe yet.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        self.counts = {"read": 0, "write": 0, "sync": 0, "truncate": 0, "delete": 0}
        self.fault = fault
        self.failed = 0
        self.on_fault: Callable[[], None] | None = None
        self.on_sync: Callable[[str], None] | None = None
        self.files: dict[str, Kept] = {}

    def mend(self) -> None:
        """Take the fault away."""
        self.fault = None

    def check(self, operation: str) -> Fault | None:
        """Count an operation; returns its fault when it is to fail."""
        self.counts[operation] += 1
        fault = self.fault
        if fault is None:
            return None
        due = operation == fault.operation and self.counts[operation] == fault.number
        again = fault.lasting and self.failed > 0 and operation in ("write", "sync", "truncate")
        if not (due or again):
            return None
        self.failed += 1
        if self.failed == 1 and self.on_fault is not None:
            self.on_fault()
        return fault

    def kept(self, path: str) -> Kept:
        """Return what is remembered of a file."""
        return self.files.setdefault(path, Kept(path))

    def synced(self, kept: Kept) -> None:
        """Make a file safe; with a new one SQLite syncs its folder too, and so whatever was deleted there."""
        new = not kept.exists
        found = image(kept, None, all_written=True)
        kept.exists, kept.data = found is not None, found or b""
        kept.pending.clear()
        for other in self.files.values() if new and not kept.path.endswith(".db") else ():
            deleted = [place for place, change in enumerate(other.pending) if change[0] == "delete"]
            if deleted:
                other.exists, other.data = False, b""
                del other.pending[: deleted[-1] + 1]
            other.exists = other.exists or bool(other.pending)

    def snapshot(self) -> dict[str, Kept]:
        """Return the state of all files now."""
        return {
            path: Kept(path, file.exists, file.data, list(file.pending)) for path, file in self.files.items()
        }


def raised(error: str) -> apsw.Error:
    """Return the exception of a fault."""
    kind, extended = CODES[error]
    made: apsw.Error = kind("injected")
    setattr(made, "extendedresult", extended)  # noqa: B010 - only where SQLite has raised it
    return made


def image(kept: Kept, choice: random.Random | None, *, all_written: bool = False) -> bytes | None:
    """
    Return what may be found of a file after a power loss, None when it is not there.

    Args:
        kept: The file.
        choice: Chooses for each sector, length, deletion and creation; None: nothing that was not synced is there.
        all_written: Everything is there instead, in order.
    """
    if choice is None and not all_written:
        return kept.data if kept.exists else None
    lives: list[Life] = [Life(kept.data if kept.exists else None)]
    for change in kept.pending:
        if change[0] == "delete":
            lives.append(Life(None))  # another file under the same name, if there is ever one
        else:
            lives[-1].take(change)
    life = lives[-1]
    if choice is not None:
        life = choice.choice(lives)
        if not (kept.exists and life is lives[0]) and choice.random() < 0.25:
            return None
    if not life.there:
        return None
    return bytes(life.current) if choice is None else life.chosen(choice)


class Life:
    """
    A file from its creation to its deletion.

    Args:
        data: What is safe of it, None when it is not there yet.
    """

    def __init__(self, data: bytes | None) -> None:
        self.there = data is not None
        self.current = bytearray(data or b"")
        self._lengths = [len(self.current)]
        places = range(0, len(self.current), SECTOR)
        self._versions = {place // SECTOR: [bytes(self.current[place : place + SECTOR])] for place in places}

    def take(self, change: tuple[Any, ...]) -> None:
        """Do a write or a truncation that may be lost."""
        self.there = True
        if change[0] == "truncate":
            del self.current[change[1] :]
        else:
            _, offset, data = change
            self.current.extend(bytes(max(0, offset + len(data) - len(self.current))))
            self.current[offset : offset + len(data)] = data
            for number in range(offset // SECTOR, (offset + len(data) - 1) // SECTOR + 1):
                version = bytes(self.current[number * SECTOR : (number + 1) * SECTOR])
                self._versions.setdefault(number, [b""]).append(version)
        self._lengths.append(len(self.current))

    def chosen(self, choice: random.Random) -> bytes:
        """Return one version of each sector; one that was lost and never there before is zero, or anything at all."""
        length = choice.choice(self._lengths)
        found = bytearray(length)
        for number, written in self._versions.items():
            place = number * SECTOR
            if place >= length:
                continue
            version = choice.choice(written)
            if version == b"" and choice.random() < 0.5:
                version = choice.randbytes(SECTOR)
            part = version[: length - place]
            found[place : place + len(part)] = part
        return bytes(found)


def image_of(
    files: dict[str, Kept], choice: random.Random | None, *, all_written: bool = False
) -> dict[str, bytes]:
    """Return what may be found of all files, by name."""
    found = {
        Path(path).name: image(kept, choice, all_written=all_written) for path, kept in sorted(files.items())
    }
    return {name: data for name, data in found.items() if data is not None}


class DiskFile(apsw.VFSFile):
    """A file of the disk; what it reads is what was written, whatever may become of it."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        main = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
        self._kept = disk.kept(self.path) if flags[0] & main and self.path else None
        self.kind = "wal" if flags[0] & apsw.SQLITE_OPEN_WAL else "db"
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        """Read."""
        if fault := self._disk.check("read"):
            raise raised(fault.error)
        found: bytes = super().xRead(amount, offset)
        return found

    def xWrite(self, data: bytes, offset: int) -> None:
        """Write."""
        fault = self._disk.check("write")
        if fault is not None:
            if fault.short and self._disk.failed == 1:
                self._write(bytes(data)[:SHORT], offset)
            raise raised(fault.error)
        self._write(bytes(data), offset)

    def _write(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self._kept is not None:
            self._kept.pending.append(("write", offset, data))

    def xTruncate(self, size: int) -> None:
        """Cut."""
        if fault := self._disk.check("truncate"):
            raise raised(fault.error)
        super().xTruncate(size)
        if self._kept is not None:
            self._kept.pending.append(("truncate", size))

    def xSync(self, flags: int) -> None:
        """Make everything safe that was written so far."""
        if fault := self._disk.check("sync"):
            raise raised(fault.error)
        if self._disk.on_sync is not None:
            self._disk.on_sync(self.kind)
        super().xSync(flags)
        if self._kept is not None:
            self._disk.synced(self._kept)


class DiskVFS(apsw.VFS):
    """The files of a disk, by a name that connections are opened with."""

    def __init__(self, name: str, disk: Disk) -> None:
        self._disk = disk
        self.name = name
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> DiskFile:
        """Open a file."""
        return DiskFile(self._disk, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        """Delete a file."""
        if fault := self._disk.check("delete"):
            raise raised(fault.error)
        super().xDelete(name, sync)
        kept = self._disk.kept(name)
        kept.pending.append(("delete",))
        if sync:
            kept.exists, kept.data = False, b""
            kept.pending.clear()


@contextmanager
def mounted(disk: Disk, name: str = "paor-test-disk") -> Iterator[None]:
    """Open every journal within on a disk."""
    vfs = DiskVFS(name, disk)
    try:
        with on(name):
            yield
    finally:
        vfs.unregister()
