"""Heads: kept elsewhere, they tell what a chain cannot show by itself; a file that is none is told in one line."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Journal
from paor.audit import Head
from paor.errors import UsageError

from ..support.cli_support import Shell, given_run
from ..support.inside import BYTES_MAX, Checkpoint, private_key, public_key, read, root_of
from ..support.journeys import BY_NAME, play
from ..support.worlds import JOURNAL
from ..verify.test_verify import by_script


def given_heads(shell: Shell) -> Path:
    """Run once and write the heads; return their file."""
    given_run(shell)
    said = shell("heads", "--output", "heads.txt")
    assert (said.code, said.err) == (0, "wrote heads.txt (1 head)\n")
    return shell.folder / "heads.txt"


def keys(folder: Path, name: str) -> tuple[str, str]:
    """Write a key and its public key as PEM; return the names of their files."""
    made = Ed25519PrivateKey.generate()
    private = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pem").write_bytes(private)
    (folder / f"{name}.pub.pem").write_bytes(public)
    return f"{name}.pem", f"{name}.pub.pem"


def test_heads_are_the_same_bytes_and_say_where_each_run_ends(shell: Shell) -> None:
    """A checkpoint: origin, number of runs, root, a line for each; a run that has ended does not change any more."""
    file = given_heads(shell)
    before = file.read_bytes()
    assert shell("heads").out.encode() == before
    with Journal(shell.folder / "paor.db", read_only=True) as journal:
        (row,) = journal.runs()
        heads = journal.heads()
    assert heads == [Head(row.run_id, row.head_seq, row.head_hash.hex())] == read(before, "heads.txt").heads
    line = f"{row.head_seq} {row.head_hash.hex()} {row.run_id}"
    root = b64encode(sha256(b"\0" + line.encode()).digest()).decode()
    assert before.decode() == f"paor/heads\n1\n{root}\n{line}\n\n"
    said = shell("verify", "--heads", "heads.txt")
    assert (said.code, said.out.endswith("hold, 1 head too\n")) == (0, True)
    data = shell("heads", "--json").json
    assert data == {"origin": "paor/heads", "root": root, "heads": [heads[0]._asdict()], "signed": []}


@given(st.lists(st.text(max_size=5), max_size=40))
@settings(max_examples=60, deadline=None)
def test_the_root_is_that_of_the_rfc(lines: list[str]) -> None:
    """RFC 6962, 2.1: by its own recursive definition."""

    def tree(leaves: list[bytes]) -> bytes:
        if len(leaves) < 2:
            return sha256(b"\0" + leaves[0]).digest() if leaves else sha256(b"").digest()
        size = 1
        while 2 * size < len(leaves):
            size *= 2
        return sha256(b"\1" + tree(leaves[:size]) + tree(leaves[size:])).digest()

    assert b64decode(root_of(lines)) == tree([line.encode() for line in lines])


def test_signed_heads_are_taken_from_their_key_alone(shell: Shell) -> None:
    """Whoever can write the file cannot sign it; a signature is checked by the rules of a signed note."""
    given_run(shell)
    (private, public), (_, stranger) = keys(shell.folder, "own"), keys(shell.folder, "other")
    said = shell("heads", "--sign", private, "--origin", "example.com/runs", "--output", "heads.txt")
    assert (said.code, said.err) == (0, "wrote heads.txt (1 head, signed)\n")
    file = shell.folder / "heads.txt"
    text, _, line = file.read_text("utf-8").partition("\n\n")
    dash, name, value = line.split(" ")
    raw = b64decode(value)
    key = load_pem_public_key((shell.folder / public).read_bytes())
    assert isinstance(key, Ed25519PublicKey) and (dash, name) == ("\u2014", "example.com/runs")
    assert raw[:4] == sha256(b"example.com/runs\n\x01" + key.public_bytes_raw()).digest()[:4]
    key.verify(raw[4:], f"{text}\n".encode())
    assert shell("verify", "--heads", "heads.txt", "--public-key", public).code == 0
    assert by_script(shell.folder / "paor.db", file)[0] == 0
    shell("verify", "--heads", "heads.txt", "--public-key", stranger).refused(
        "is not signed by other.pub.pem", code=2
    )
    signed = file.read_bytes()
    forged = read(signed, "heads.txt")
    forged = forged._replace(heads=[forged.heads[0]._replace(head_hash="0" * 64)])
    for data in (
        forged.file(),
        forged._replace(signatures=()).file(),
        signed.replace(b"example.com", b"example.org"),
    ):
        file.write_bytes(data)
        shell("verify", "--heads", "heads.txt", "--public-key", public).refused("is not signed by", code=2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("heads", "--sign", "missing.pem"), "cannot be read"),
        (("heads", "--sign", "heads.txt"), "is no Ed25519 private key"),
        (("heads", "--sign", "own.pub.pem"), "is no Ed25519 private key"),
        (("heads", "--sign", "locked.pem"), "the key is encrypted"),
        (("heads", "--sign", "rsa.pem"), "is no Ed25519 private key"),
        (("heads", "--origin", "two words"), "--origin"),
        (("heads", "--origin", "a+b"), "--origin"),
        (("verify", "--heads", "heads.txt", "--public-key", "own.pem"), "is no Ed25519 public key"),
        (("verify", "--public-key", "own.pub.pem"), "goes with --heads"),
    ],
)
def test_a_bad_key_is_one_line_and_exit_2(options: tuple[str, ...], told: str, shell: Shell) -> None:
    given_heads(shell)
    keys(shell.folder, "own")
    locked = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    )
    (shell.folder / "locked.pem").write_bytes(locked)
    ec = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (shell.folder / "rsa.pem").write_bytes(ec)
    shell(*options).refused(told, code=2)


PEM = "-----BEGIN {0}-----\n{1}\n-----END {0}-----\n"


@given(
    st.binary(max_size=200)
    | st.builds(
        lambda kind, body: PEM.format(kind, b64encode(body).decode()).encode(),
        st.sampled_from(
            ["PRIVATE KEY", "PUBLIC KEY", "ENCRYPTED PRIVATE KEY", "CERTIFICATE", "RSA PRIVATE KEY"]
        ),
        st.binary(max_size=80),
    )
)
@settings(max_examples=300, deadline=None)
def test_any_file_is_a_key_or_one_line(data: bytes) -> None:
    for reading in (private_key, public_key):
        with pytest.raises(UsageError) as refused:
            reading(data, "key.pem")
        assert str(refused.value).startswith("key.pem: ") and "\n" not in str(refused.value)


def test_new_runs_are_no_defect_and_a_missing_one_is(shell: Shell) -> None:
    """Exit code 4 and one line for each."""
    given_heads(shell)
    given_run(shell)
    assert shell("verify", "--heads", "heads.txt").code == 0
    assert shell("heads", "--output", "two.txt").code == 0
    for table in ("leases", "transitions", "payloads", "documents", "specs"):
        shell.sql(f"DELETE FROM {table} WHERE run = 2")
    said = shell("verify", "--heads", "two.txt")
    assert (said.code, len(said.out.splitlines())) == (4, 1)
    assert "head seq 5: the run is missing" in said.out
    found = shell("verify", "--heads", "two.txt", "--json").json
    assert (found["ok"], found["heads"], len(found["defects"])) == (False, 2, 1)
    assert shell("verify", "--heads", "heads.txt").code == 0


def test_no_heads_are_written_of_what_does_not_hold(shell: Shell) -> None:
    """They would vouch for it."""
    file = given_heads(shell)
    before = file.read_bytes()
    shell("heads", "--output", "no/such/heads.txt").refused("cannot be written", code=2)
    shell.sql("UPDATE transitions SET at = at + 1 WHERE seq = 2")
    said = shell("heads", "--output", "new.txt")
    assert (said.code, (shell.folder / "new.txt").exists()) == (4, False)
    assert (shell("heads", "--output", "heads.txt").code, file.read_bytes()) == (4, before)
    assert "no heads were written" in said.err
    shell("heads", "--output", "paor.db").refused("would replace the journal", code=2)


@pytest.mark.parametrize("name", ["approved", "documents"])
def test_a_run_that_has_grown_since_fits_each_of_its_heads(name: str, tmp_path: Path) -> None:
    """Its row of then has the hash of then; with no row yet it is the hash of its first columns."""
    taken: list[list[Head]] = []
    with BY_NAME[name].engine(tmp_path) as scripted:
        scripted._runner.hooks = (lambda event: taken.append(scripted.journal.heads()),)
        play(BY_NAME[name], scripted)
        assert {head.head_seq for (head,) in taken} >= {0, 1, 3, 4}  # 2 is written with 3
        for heads in taken:
            assert scripted.journal.verify(heads) == []
        (last,) = taken[-1]
        first = Head(last.run_id, -1, scripted.journal.reader.root(1).hex())
        assert scripted.journal.verify([first]) == []
        (tmp_path / "heads.txt").write_bytes(Checkpoint("paor/heads", [first]).file())
        wrong = [
            last._replace(head_hash="0" * 64),
            first._replace(head_hash="0" * 64),
            last._replace(head_seq=999),
        ]
        for head in wrong:
            (defect,) = scripted.journal.verify([head])
            assert (defect.run_id, defect.place) == (head.run_id, f"head seq {head.head_seq}")
    assert by_script(tmp_path / JOURNAL, tmp_path / "heads.txt")[0] == 0
    for head in wrong:
        (tmp_path / "heads.txt").write_bytes(Checkpoint("paor/heads", [head]).file())
        code, lines = by_script(tmp_path / JOURNAL, tmp_path / "heads.txt")
        assert (code, lines[0]) == (4, f"run {head.run_id}, head seq {head.head_seq}: is not there any more")


HEADS = [Head("0199", 3, "a" * 64), Head("0200", -1, "b" * 64)]
GOOD = Checkpoint("paor/heads", HEADS).file()


def with_line(line: str) -> bytes:
    """Return a file of heads with another line for its first run; number and root fit."""
    lines = [line, f"-1 {'b' * 64} 0200"]
    return "\n".join(["paor/heads", "2", root_of(lines), *lines, "", ""]).encode()


BAD = {
    "nothing": b"",
    "one line": b"heads",
    "no UTF-8": b"\xff\xfe",
    "JSON": b'{"format":"paor-heads"}',
    "many lines": b"\n" * 200_000,
    "no empty line": GOOD[:-1],
    "an origin of two words": GOOD.replace(b"paor/heads", b"paor heads"),
    "another number": GOOD.replace(b"\n2\n", b"\n3\n"),
    "another root": GOOD.replace(GOOD.split(b"\n")[2], b"A" * 43 + b"="),
    "a run less": GOOD.replace(GOOD.split(b"\n")[4] + b"\n", b""),
    "another head": GOOD.replace(b"3 a", b"2 a"),
    "a seq below": with_line(f"-2 {'a' * 64} 0199"),
    "a seq beyond": with_line(f"9999999999 {'a' * 64} 0199"),
    "a seq that is a text": with_line(f"x {'a' * 64} 0199"),
    "a seq with a nought": with_line(f"03 {'a' * 64} 0199"),
    "a short hash": with_line("3 a 0199"),
    "no run": with_line(f"3 {'a' * 64} "),
    "a run twice": with_line(f"3 {'a' * 64} 0200"),
    "a run that cannot be printed": with_line(f"3 {'a' * 64} 01\x1b99"),
    "no signature": GOOD + b"signed\n",
    "a signature that is no base64": GOOD + "\u2014 key A\n".encode(),
    "a short signature": GOOD + "\u2014 key AAAA\n".encode(),
    "a signature without its end": GOOD + "\u2014 key AAAAAAAAAAAA".encode(),
    "cut": GOOD[:-40],
    "large": b" " * (BYTES_MAX + 1),
}
ONLY_SIGNED = (
    "no signature",
    "a signature that is no base64",
    "a short signature",
    "a signature without its end",
)
"""What the script leaves alone, which checks no signature."""

FORMS = tuple(
    name for name in BAD if name.startswith(("a seq", "a run", "no run", "a short hash", "an origin"))
)
"""And what is well-formed to it: such a head is not in the journal."""


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_of_heads_is_one_line_and_exit_2(what: str, shell: Shell) -> None:
    """By the command and by the script, before the journal is looked at."""
    with pytest.raises(UsageError, match=r"heads\.txt"):
        read(BAD[what], "heads.txt")
    file = given_heads(shell)
    file.write_bytes(BAD[what])
    shell("verify", "--heads", "heads.txt").refused("heads.txt", code=2)
    if what not in ONLY_SIGNED:
        assert by_script(shell.folder / "paor.db", file)[0] in ((2, 4) if what in FORMS else (2,))


@pytest.mark.parametrize("place", ["missing.txt", "folder", "heads.txt/x", ""])
def test_a_file_of_heads_that_cannot_be_read_is_exit_2(place: str, shell: Shell) -> None:
    """Missing, a directory, below a file, without a name."""
    given_heads(shell)
    os.mkdir(shell.folder / "folder")
    said = shell("verify", "--heads", place)
    if place:
        said.refused("cannot be read", code=2)
    else:
        assert said.code == 2 and "--heads: expected a file name" in said.err and said.out == ""
    assert by_script(shell.folder / "paor.db", shell.folder / place if place else shell.folder)[0] == 2
