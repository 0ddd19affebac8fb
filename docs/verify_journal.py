"""Check a paor journal alone; usage: verify_journal.py FILE [HEADS]; exit 0: holds, 4: not, 2: no journal."""

import json
import sqlite3
import sys
from base64 import b64encode
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

SCHEMA = """specs specs_place specs_conversation leases rows rows_ended texts documents erasures unscrubbed
transitions payloads runs v_lineage v_runs v_steps v_actions v_calls v_usage"""
MADE = "f4b5e204a5b338094c60ed3312dc79ddc4084853bf30f4dc75440431dad0f647"  # SHA-256 of what makes them
DOCUMENT, ENDED = ("label", "position", "name", "mime", "bytes", "digest", "payload"), ("Done", "Failed")
RANGE, INPUT = "WHERE id BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295", "round{3}_task{4}_action0_input"
HEAD = """SELECT iif(coalesce(parent_seq, -1) = ?2, root_hash, (SELECT hash FROM rows
WHERE id = (specs.run << 32 | ?2))) FROM specs WHERE run_id = ?1"""
HEX, JSON = {*"0123456789abcdef"}, "application/json"
ROWS = 'SELECT transitions.*, "row" AS text, "last" FROM transitions JOIN rows USING (id)'
JCS = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def digest(row, names, before=b""):  # of RFC 8785 bytes: keys are ASCII, values texts and whole numbers
    return sha256(before + JCS({name: row[name] for name in names}).encode()).digest()


def loaded(text):  # a JSON object; an empty one for anything else
    with suppress(TypeError, ValueError, RecursionError):
        return {**json.loads(text)}
    return {}


def stored(db, run):  # number, media type, digest, salt and body of every text: in a table, or with a row
    table = f"SELECT id & 4294967295, media_type, digest, salt, body FROM texts {RANGE}"
    rows = db.execute(f"SELECT texts FROM rows {RANGE}", (run,))
    told = [
        (n, kind or ("", JSON)[kind is None], *rest)
        for (text,) in rows
        for n, kind, *rest in json.loads(text)
    ]
    return sorted([*db.execute(table, (run,)), *told], key=lambda item: item[0])


def text_of(db, key):
    row = db.execute('SELECT texts FROM rows WHERE "last" >= ? ORDER BY "last"', (key,)).fetchone()
    found = [item[4] for item in json.loads(row[0] if row else "[]") if item[0] == key & 4294967295]
    return (db.execute("SELECT body FROM texts WHERE id = ?", (key,)).fetchone() or found or [None])[0]


def references(data):  # number, digest and size of every payload that JSON refers to: objects with a number n
    if isinstance(data, dict) and type(data.get("n")) is int:
        return (yield data["n"], data.get("digest"), data.get("bytes"))
    for value in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from references(value)


def check_run(db, spec, unsound):
    run, own, row, before, first, seq = spec["run"], spec["spec_payload"], None, b"", 0, -1
    data = loaded(text_of(db, run << 32 | own))
    state = loaded(data.get("host_machine")).get("initial", "Planning") if data else None  # erased: any phase
    told = INPUT.format(*spec) * (spec[1] == spec[2] and spec[3] == 1)  # later rounds have earlier documents
    results = [(run << 32 | own, {"first": 0, "label": told})]
    if spec["parent_run_id"] is not None:  # a fork goes on from a row of its parent, whose hash it commits to
        parent = "SELECT transitions.* FROM transitions JOIN specs USING (run) WHERE run_id = ? AND seq = ?"
        row = db.execute(parent, (spec["parent_run_id"], spec["parent_seq"])).fetchone()
        if row is None or row["dest"] in ENDED:
            return (yield "specs: it was forked at no row that goes on")
        yield from ("specs: its parent has defects",) if spec["parent_run_id"] in unsound else ()
        before, seq, state, first = row["hash"], row[2], row["dest"], loaded(row["change"]).get("n", -1) + 1
        results = [(row["run"] << 32 | first - 1, loaded(row["outcome"]))][: row["trigger"] == "execute"]
    head, count, claims = digest(spec, spec.keys()[1:10], before), max(own + 1, first), [(own, spec["spec"])]
    yield from () if head == spec["root_hash"] else ("specs: the immutable columns do not fit root_hash",)
    for row in db.execute(f"{ROWS} {RANGE} ORDER BY id", (run,)):
        if row[:3] != (run << 32 | seq + 1, run, seq + 1) or state in ENDED or state not in (None, row[5]):
            yield f"transitions seq {row[2]}: expected seq {seq + 1} from {state}"
        if sha256(head + row["text"].encode()).digest() != row["hash"]:
            yield f"transitions seq {row[2]}: the row does not fit its hash or the row before"
        if JCS(data := loaded(row["text"])) != row["text"] or data.get("seq") != seq + 1:
            yield f"transitions seq {row[2]}: the row is not written as rows are"
        claims += references([loaded(row[name]) for name in ("request", "outcome", "change")])
        own = [
            n + 1
            for n, *_ in references(loaded(row["change"]))
            if n >= count and run << 32 | n == row["last"]
        ]
        yield from () if own else (f"transitions seq {row[2]}: its change is not a payload of its own",)
        seq, state, head, count = row["seq"], row["dest"], row["hash"], (*own, count)[0]
        results += [(run << 32 | count - 1, loaded(row["outcome"]))][: row["trigger"] == "execute"]
        results[0][1].update(documents=loaded(row["counters"]).get("documents", 0)) if seq == 0 else None
    yield from check_stored(db, spec, claims, results, row and row["trigger"] == "execute", first, count)


def check_stored(db, spec, claims, results, unobserved, first, count, whole=True, labels=(None, "{}", None)):
    run, head, n, expected, named, gone = spec["run"], spec["root_hash"], first - 1, {}, {}, set()
    for left, (key, told) in zip(range(len(results), 0, -1), results, strict=True):
        mine = {} if unobserved and left == 1 else expected
        data = loaded(text_of(db, key))
        said = data.get("conversation", "") * (not data.get("task_id")) or None  # of a task none
        said = data.get("key"), JCS(data.get("metadata", {})), said
        labels = said if key == run << 32 | spec[8] else labels
        try:
            for item in (data if "documents" in data else data["result"]).get("documents", ()):
                item = item | item["payload"] | {"payload": item["payload"]["n"]}
                claims += references(item)
                mine[item["number"]] = tuple(item[name] for name in DOCUMENT)
        except (AttributeError, KeyError, TypeError):  # erased, or changed, which its digest tells
            label, many, whole = told.get("label"), told.get("documents", 0), whole and "documents" in told
            mine |= {told["first"] + at: (label, at) if label else () for at in range(min(many, 10**6))}
    if labels != spec[11:]:
        yield "specs: its labels are not what its spec says"
    for row in db.execute(f"SELECT * FROM documents {RANGE} ORDER BY id", (run,)):
        number, wrong = row["number"], row[:2] != (run << 32 | row["number"], run) or row["payload"] < 0
        if (told := expected.pop(number, (None,) * whole)) != row[3 : 3 + len(told)] or wrong:
            yield f"documents number {number}: is not what its result says"
        claims.append((row["payload"], row["digest"], row["bytes"]))
    yield from (f"documents number {number}: is missing" for number in expected)
    [named.setdefault(n, []).append(claim) for n, *claim in claims if n >= first]  # others are its parent's
    for number, media_type, own, salt, body in stored(db, run):
        yield from () if number == n + 1 else (f"payloads n {number}: expected n {n + 1}",)
        n, kind, erased = number, "T" if isinstance(body, str) else "B", body is None and salt is None
        gone |= {n} if erased else set()
        data = body.encode() if kind == "T" else body or b""
        salted = bytes.fromhex(salt) if len(str(salt)) == 32 and {*salt} <= HEX else b""
        told = sha256(salted + sha256(data).digest() + f"{kind}{media_type}".encode()).hexdigest()
        if not erased and (None in (body, salt) or own not in (None, told)):
            yield f"payloads n {n}: body, salt and media type do not fit the digest"
        own = own or told
        told = [value for claim in named.pop(n, ()) for value in claim[: 2 - erased]]
        if any(value not in (None, own, len(data)) for value in told):
            yield f"payloads n {n}: is not what a row or a document refers to"
    yield from () if n + 1 == count else (f"payloads: {n + 1} are there, the last row counts {count}",)
    yield from (f"payloads n {number}: is referred to and missing" for number in named)
    for n, row in enumerate(db.execute(f"SELECT * FROM erasures {RANGE} ORDER BY id", (run,))):
        told, head = loaded(f'{{"n": {row["payloads"]}}}').get("n"), digest(row, row.keys()[2:-1], head)
        if row[:3] != (run << 32 | n, run, n) or row["hash"] != head or not isinstance(told, list):
            yield f"erasures number {row['number']}: the record does not fit its hash or its place"
        gone ^= {n for pair in told or () for n in range(pair[0], min(pair[-1], count) + 1)}
    yield from (f"payloads n {n}: erased and not recorded, or recorded and not erased" for n in sorted(gone))


def checkpoint(text):  # origin, number, root of a Merkle tree, heads; below an empty line its signatures
    (_, number, root, *heads), ended = text.partition("\n\n")[0].split("\n"), "\n\n" in text
    level = [sha256(b"\0" + head.encode()).digest() for head in heads] or [sha256(b"").digest()]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [sha256(b"\1" + one + two).digest() for one, two in pairs] + level[len(level) & ~1 :]
    return heads if ended and [number, root] == [str(len(heads)), b64encode(level[0]).decode()] else None


def check_file(db, heads, unsound):
    yield from (f"file: {text}" for (text,) in db.execute("PRAGMA integrity_check(20)") if text != "ok")
    made = db.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    yield from (f"trigger {name}: a journal has no triggers" for kind, name, _ in made if kind == "trigger")
    made = {name: sql for _, name, sql in made}
    if sha256(repr([made.get(name) for name in SCHEMA.split()]).encode()).hexdigest() != MADE:
        yield "file: its tables, views and indexes are not those of this version"
    for table in ("rows", "texts", "documents", "erasures"):
        rows = db.execute(f"SELECT id >> 32 FROM {table} EXCEPT SELECT run FROM specs")
        yield from (f"{table} run {run}: there is no such run" for (run,) in rows)
    for spec in db.execute("SELECT * FROM specs ORDER BY run").fetchall():
        for defect in check_run(db, spec, unsound):
            yield f"run {unsound.setdefault(spec['run_id'], spec['run_id'])}, {defect}"
    for seq, told, run_id in (head.split(" ", 2) for head in heads):
        if [found and found.hex() for (found,) in db.execute(HEAD, (run_id, int(seq)))] != [told]:
            yield f"run {run_id}, head seq {seq}: is not there any more"


def main(file="", kept="", *more, logs=("wal", "journal")):
    path, ours, found = Path(file).resolve(), False, 0
    try:  # with neither log nor journal nobody has the file open, and reading it must not create one
        heads = checkpoint(Path(kept).read_text("utf-8")) if kept else []
        fits = heads is not None
        still, written = not any(Path(f"{path}-{log}").exists() for log in logs), path.stat().st_mtime_ns
        ours = path.open("rb").read(72)[68:] == b"paor" and fits and not more
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro{'&immutable=1' * still}", uri=True)) as db:
            db.row_factory, db.text_factory = sqlite3.Row, lambda text: text.decode("utf-8", "replace")
            ids = db.execute("BEGIN").execute("SELECT * FROM pragma_application_id, pragma_user_version")
            ours = fits and not more and ids.fetchone()[:] == (0x70616F72, 3)
            for found, defect in enumerate(check_file(db, heads, {}) if ours else (), 1):  # noqa: B007
                print(ascii(defect)[1:-1])
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError, sqlite3.Error) as e:
        found += print(f"file: {e}") or 1
    if not ours:
        return print(f"{path}: no journal of version 3, or no heads. {__doc__}", file=sys.stderr) or 2
    again = still and written != path.stat().st_mtime_ns  # by somebody who has opened it meanwhile
    return main(file, kept) if again else print(f"{path}: {found or 'no'} defects") or 4 * bool(found)


sys.exit(main(*sys.argv[1:])) if __name__ == "__main__" else None
