"""Check a paor journal without paor: verify_journal.py FILE; exit code 0: holds, 4: defects, 2: not a journal."""

import json
import sqlite3
import sys
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

TABLES = ("specs", "leases", "unscrubbed", "transitions", "payloads", "documents", "erasures")
DOCUMENT = ("label", "position", "name", "mime", "bytes", "digest", "payload")
RANGE = "WHERE id BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295"
JCS = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
ENDED = {"Done": "done", "Failed": "failed"}


def digest(row, names, before=b""):  # of *before* and the RFC 8785 bytes of a record with ASCII keys
    return sha256(before + JCS({name: row[name] for name in names}).encode()).digest()


def loaded(text):  # a JSON object; an empty one for anything else
    with suppress(TypeError, ValueError, RecursionError):
        return {**json.loads(text)}
    return {}


def references(data):  # number, digest and size of payloads that JSON refers to: by an object with a number n
    if isinstance(data, dict) and type(data.get("n")) is int:
        yield data["n"], data.get("digest"), data.get("bytes")
    elif isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from references(value)


def check_run(db, spec, unsound):
    run, own, row, before, first, seq, state = spec["run"], spec["spec_payload"], None, b"", 0, -1, "Planning"
    results = [(run << 32 | own, "spec")]
    if spec["parent_run_id"] is not None:  # a fork goes on from a row of its parent, whose hash it commits to
        parent = "SELECT transitions.* FROM transitions JOIN specs USING (run) WHERE run_id = ? AND seq = ?"
        row = db.execute(parent, (spec["parent_run_id"], spec["parent_seq"])).fetchone()
        if row is None or row["dest"] in ENDED:
            return (yield "specs: it was forked at no row that goes on")
        yield from ("specs: its parent has defects",) if spec["parent_run_id"] in unsound else ()
        before, seq, state = row["hash"], row["seq"], row["dest"]
        first = loaded(row["change"]).get("n", -1) + 1
        results = [(row["run"] << 32 | first - 1, "")] if row["trigger"] == "execute" else []
    head, count = digest(spec, spec.keys()[1:-1], before), max(own + 1, first)
    claims, unfit = [(own, spec["spec"], None)], ["specs: the immutable columns do not fit root_hash"]
    yield from unfit if head != spec["root_hash"] else ()
    for row in db.execute(f"SELECT * FROM transitions {RANGE} ORDER BY id", (run,)):
        place = f"transitions seq {row['seq']}"
        if row[:3] != (run << 32 | seq + 1, run, seq + 1) or row["source"] != state or state in ENDED:
            yield f"{place}: expected seq {seq + 1} from {state}"
        if row["prev_hash"] != head or digest(row, row.keys()[2:-2], head) != row["hash"]:
            yield f"{place}: the row does not fit its hash"
        claims += references([loaded(row[name]) for name in ("request", "outcome", "change")])
        own = [n for n, *_ in references(loaded(row["change"])) if count <= n < 2**32]
        yield from () if own else (f"{place}: its change is not a payload of its own",)
        count = own[0] + 1 if own else count
        results += [(run << 32 | count - 1, "")] if row["trigger"] == "execute" else []
        seq, state, head = row["seq"], row["dest"], row["hash"]
    yield from check_stored(db, spec, claims, results, row and row["trigger"] == "execute", first, count)
    status = ENDED.get(state) or ("waiting" if row and row["trigger"] == "wait" else "running")
    end = (loaded(row["counters"]).get("stop"), row["at"]) if row and state in ENDED else (None, None)
    view = "SELECT state, status, reason, ended_at, head_seq, head_hash FROM runs WHERE run = ?"
    if [tuple(found) for found in db.execute(view, (run,))] != [(state, status, *end, seq, head)]:
        yield "view runs: its derived columns are not what the rows say"


def check_stored(db, spec, claims, results, unobserved, first, count):
    expected, whole, n, claimed, gone = {}, True, first - 1, {}, set()
    run, head = spec["run"], spec["root_hash"]
    for place, (key, given) in enumerate(results):
        data = loaded(db.execute("SELECT max(body) FROM payloads WHERE id = ?", (key,)).fetchone()[0])
        try:
            for item in data["documents"] if given else data["result"].get("documents", ()):
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
    for number, *claim in (claim for claim in claims if claim[0] >= first):  # its parent's are checked there
        claimed.setdefault(number, []).append(claim)
    for row in db.execute(f"SELECT * FROM payloads {RANGE} ORDER BY id", (run,)):
        place, body, salt = f"payloads n {row['n']}", row["body"], row["salt"]
        yield from () if row[:3] == (run << 32 | n + 1, run, n + 1) else (f"{place}: expected n {n + 1}",)
        n, kind, erased = row["n"], "T" if isinstance(body, str) else "B", body is None and salt is None
        gone, data = gone | ({n} if erased else set()), body.encode() if kind == "T" else body or b""
        told = sha256((salt or b"") + sha256(data).digest() + (kind + row["media_type"]).encode()).digest()
        if not erased and (None in (body, salt) or told != row["digest"]):
            yield f"{place}: body, salt and media type do not fit the digest"
        named = [value for claim in claimed.pop(n, ()) for value in claim[: 2 - erased]]
        if any(value not in (None, row["digest"].hex(), len(data)) for value in named):
            yield f"{place}: is not what a row or a document refers to"
    yield from () if n + 1 == count else (f"payloads: {n + 1} are there, the last row counts {count}",)
    yield from (f"payloads n {number}: is referred to and missing" for number in claimed)
    for n, row in enumerate(db.execute(f"SELECT * FROM erasures {RANGE} ORDER BY id", (run,))):
        told, head = loaded(f'{{"n": {row["payloads"]}}}').get("n"), digest(row, row.keys()[2:-1], head)
        if row[:3] != (run << 32 | n, run, n) or row["hash"] != head or not isinstance(told, list):
            yield f"erasures number {row['number']}: the record does not fit its hash or its place"
        gone ^= {n for pair in told or () for n in range(pair[0], min(pair[-1], count) + 1)}
    yield from (f"payloads n {n}: erased and not recorded, or recorded and not erased" for n in sorted(gone))


def check_file(db):
    yield from (f"file: {text}" for (text,) in db.execute("PRAGMA integrity_check(20)") if text != "ok")
    for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name"):
        if kind == "trigger" or (kind == "table" and name in TABLES and not sql.endswith("STRICT")):
            yield f"{kind} {name}: a journal has no triggers and only STRICT tables"
    for table in TABLES[3:]:
        rows = db.execute(f"SELECT id >> 32 FROM {table} EXCEPT SELECT run FROM specs")
        yield from (f"{table} run {run}: there is no such run" for (run,) in rows)
    unsound = set()
    for spec in db.execute("SELECT * FROM specs ORDER BY run").fetchall():
        for defect in check_run(db, spec, unsound):
            unsound.add(spec["run_id"])
            yield f"run {spec['run_id']}, {defect}"


def main(file="", *more):
    path, ours, found = Path(file).resolve(), False, 0
    try:  # without a log nobody has the file open, and reading it must not create one
        still, written = not Path(f"{path}-wal").exists(), path.stat().st_mtime_ns
        ours = path.open("rb").read(72)[68:] == b"paor"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro{'&immutable=1' * still}", uri=True)) as db:
            db.row_factory, db.text_factory = sqlite3.Row, lambda text: text.decode("utf-8", "replace")
            db.execute("BEGIN")
            ids = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            ours = ids == [0x70616F72, 1] and not more
            for defect in check_file(db) if ours else ():
                found += print(ascii(defect)[1:-1]) or 1
    except (OSError, ArithmeticError, AttributeError, LookupError, TypeError, sqlite3.Error) as error:
        found += print(f"file: {error}") or 1
    if not ours:
        return print(f"{path}: no journal of version 1; usage: verify_journal.py FILE", file=sys.stderr) or 2
    if still and written != path.stat().st_mtime_ns:  # by somebody who has opened it meanwhile
        return main(file)
    return print(f"{path}: {found or 'no'} defects") or (4 if found else 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
