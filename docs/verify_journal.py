"""
Check a paor journal as journal-format.md tells it, without paor: python verify_journal.py FILE [HEADS]
Exit code 0: everything holds, 4: it does not (prints every defect with its place), 2: not a paor journal, or heads.
"""

import json
import sqlite3
import sys
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

SCHEMA = """specs:434843e06d615009 leases:0d3fde178b6310c6 transitions:d3d24e5e35198f3d payloads:be1878644c88a682
documents:204aa1b921bac8b8 runs:35a8a6b7b985f3e1 v_runs:6744436fc1e34808 v_steps:3f6fafe8269d5fa4
v_actions:1b89ee6f49668ab7 v_usage:162c299a7cbb82f8"""  # the beginning of SHA-256 of what makes them
DOCUMENT = ("label", "position", "name", "mime", "bytes", "digest", "payload")
RANGE = "WHERE id BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295"
HEAD = """SELECT iif(coalesce(parent_seq, -1) = ?2, root_hash, (SELECT hash FROM transitions
    WHERE id = (specs.run << 32 | ?2))) FROM specs WHERE run_id = ?1"""
USAGE = "no journal of version 1, or no heads of one; usage: verify_journal.py FILE [HEADS]"
ERRORS = (LookupError, OSError, ArithmeticError, AttributeError, TypeError, ValueError, sqlite3.Error)
JCS = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def digest(row, names, before=b""):  # of RFC 8785 bytes: keys are ASCII, values texts and whole numbers
    return sha256(before + JCS({name: row[name] for name in names}).encode()).digest()


def loaded(text):  # a JSON object; an empty one for anything else
    with suppress(TypeError, ValueError, RecursionError):
        return {**json.loads(text)}
    return {}


def references(data):  # number, digest and size of every payload that JSON refers to: objects with a number n
    if isinstance(data, dict) and type(data.get("n")) is int:
        yield data["n"], data.get("digest"), data.get("bytes")
    elif isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from references(value)


def check_run(db, spec):
    run, first, row, head = spec["run"], spec["spec_payload"], None, digest(spec, spec.keys()[1:-1])
    if head != spec["root_hash"]:
        yield "specs: the immutable columns do not fit root_hash"
    claims, results, seq, state, count = [(first, spec["spec"], None)], [first], -1, "Planning", first + 1
    for row in db.execute(f"SELECT * FROM transitions {RANGE} ORDER BY id", (run,)):
        place = f"transitions seq {row['seq']}"
        if (*row[:3], row["source"]) != (run << 32 | seq + 1, run, seq + 1, state) or state in (
            "Done",
            "Failed",
        ):
            yield f"{place}: expected seq {seq + 1} from {state}"
        if (row["prev_hash"], digest(row, row.keys()[2:-2], row["prev_hash"])) != (head, row["hash"]):
            yield f"{place}: the row does not fit its hash or the row before"
        claims += references([loaded(row[name]) for name in ("request", "outcome", "change")])
        own = [n for n, *_ in references(loaded(row["change"])) if count <= n < 2**32]
        if not own:
            yield f"{place}: its change is not a payload of its own"
        count = own[0] + 1 if own else count
        results += [count - 1] if row["trigger"] == "execute" else []
        seq, state, head = row["seq"], row["dest"], row["hash"]
    yield from check_contents(db, run, claims, results, count, row and row["trigger"] == "execute")


def check_contents(db, run, claims, results, count, unobserved):
    expected, whole = {}, True
    for place, n in enumerate(results):
        data = loaded(*db.execute("SELECT max(body) FROM payloads WHERE id = ?", (run << 32 | n,)).fetchone())
        try:
            for item in data["result"].get("documents", ()) if place else data["documents"]:
                item = item | item["payload"] | {"payload": item["payload"]["n"]}
                claims += references(item)
                if place + 1 < len(results) or not unobserved:
                    expected[item["number"]] = [item[name] for name in DOCUMENT]
        except (AttributeError, KeyError, TypeError):
            whole = False  # erased, or changed, which its digest tells
    for row in db.execute(f"SELECT * FROM documents {RANGE} ORDER BY id", (run,)):
        number, columns = row["number"], [row[name] for name in DOCUMENT]
        wrong = row[:2] != (run << 32 | number, run)
        if wrong or ((whole or number in expected) and expected.pop(number, None) != columns):
            yield f"documents number {number}: is not what its result says"
        claims.append((row["payload"], row["digest"], row["bytes"]))
    yield from (f"documents number {number}: is missing" for number in expected)
    n, claimed = -1, {}
    for number, *claim in claims:
        claimed.setdefault(number, []).append(claim)
    for row in db.execute(f"SELECT * FROM payloads {RANGE} ORDER BY id", (run,)):
        place, body, salt = f"payloads n {row['n']}", row["body"], row["salt"]
        if row[:3] != (run << 32 | n + 1, run, n + 1):
            yield f"{place}: expected n {n + 1} of run {run}"
        n, kind, erased = row["n"], "T" if isinstance(body, str) else "B", body is None and salt is None
        data = body.encode() if kind == "T" else body or b""
        told = sha256((salt or b"") + sha256(data).digest() + (kind + row["media_type"]).encode()).digest()
        if not erased and (None in (body, salt) or told != row["digest"]):
            yield f"{place}: body, salt and media type do not fit the digest"
        for claim in claimed.pop(n, ()):  # digest and size; of what was erased the size is not known
            if any(value not in (None, row["digest"].hex(), len(data)) for value in claim[: 2 - erased]):
                yield f"{place}: is not what a row or a document refers to"
    if n + 1 != count:
        yield f"payloads: {n + 1} are there, the last row counts {count}"
    yield from (f"payloads n {number}: is referred to and missing" for number in claimed)


def check_file(db, heads):
    yield from (f"file: {text}" for (text,) in db.execute("PRAGMA integrity_check(20)") if text != "ok")
    triggers = db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
    yield from (f"trigger {name}: a journal has no triggers" for (name,) in triggers)
    made = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view')").fetchall())
    for name, told in (item.split(":") for item in SCHEMA.split()):
        if sha256(str(made.get(name)).encode()).hexdigest()[:16] != told:
            yield f"schema of {name}: is not as version 1 makes it"
    for table in ("transitions", "payloads", "documents"):
        rows = db.execute(f"SELECT id >> 32 FROM {table} EXCEPT SELECT run FROM specs")
        yield from (f"{table} run {run}: there is no such run" for (run,) in rows)
    for spec in db.execute("SELECT * FROM specs ORDER BY run").fetchall():
        yield from (f"run {spec['run_id']}, {defect}" for defect in check_run(db, spec))
    for run_id, seq, told in (map(head.get, ("run_id", "head_seq", "head_hash")) for head in heads["runs"]):
        if [found and found.hex() for (found,) in db.execute(HEAD, (run_id, seq))] != [told]:
            yield f"run {run_id}, head seq {seq}: is not there any more"


def main(file="", kept="", *more):
    path, ours, fits, found, heads = Path(file).resolve(), False, not more, 0, {"runs": ()}
    try:  # without a log nobody has the file open, and reading it must not create one
        if kept:  # canonical JSON, and under its digest everything else of it
            text = Path(kept).read_text("utf-8").strip()
            heads = {"format": "paor-heads", "runs": loaded(text)["runs"], "version": 1}
            fits &= JCS(heads | {"digest": sha256(JCS(heads).encode()).hexdigest()}) == text
        still, written = not Path(f"{path}-wal").exists(), path.stat().st_mtime_ns
        ours = path.open("rb").read(72)[68:] == b"paor" and fits
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro{'&immutable=1' * still}", uri=True)) as db:
            db.row_factory, db.text_factory = sqlite3.Row, lambda text: text.decode("utf-8", "replace")
            db.execute("BEGIN")
            ids = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            ours = fits and ids == [0x70616F72, 1]
            for found, defect in enumerate(check_file(db, heads) if ours else (), 1):  # noqa: B007
                print(ascii(defect)[1:-1])
    except ERRORS as error:  # of values too
        found += print(f"file: {error}") or 1
    if not ours:
        return print(f"{path}: {USAGE}", file=sys.stderr) or 2
    if still and written != path.stat().st_mtime_ns:  # by somebody who has opened it meanwhile
        return main(file, kept)
    return print(f"{path}: {found or 'no'} defects") or 4 * bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
