"""
What every store of a journal has to do, as cases: each is given a function that opens the same new, empty journal as often as it is called.

What a store holds in the end is compared with SQLite's, byte for byte.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from hashlib import sha256
from typing import Any, Protocol, Self
from zlib import crc32

import orjson
from msgspec.structs import replace

from paor import Document, Engine, Journal, Limits, Policy, ScriptedModel, Tool, ToolOutput, replay, tool
from paor.errors import Erased, JournalError, LeaseHeld, LeaseLost, PaorError
from paor.fsm.journal.backend import Backend, Entry
from paor.fsm.journal.payloads import Payload, salted_digest
from paor.fsm.journal.record import COLUMNS, row_text
from paor.fsm.journal.store import KeyTaken
from paor.testing import SeededIds, SteppingClock, answer, call, plan, play, refine, review, step


class Opening(Protocol):
    """Opens the journal of one case."""

    def __call__(self, *, read_only: bool = False) -> Backend:
        """Return it, opened once more; the first time it is new and empty."""


Case = Callable[[Opening], None]


# -- the worlds that are played ----------------------------------------------------------------------------------------


@tool("desk.find", effect="read")
def _find(order: str) -> str:
    """Find an order."""
    return f"Order {order}: paid, \N{SNOWMAN}."


@tool("desk.pay", effect="once")
def _pay(order: str) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


@tool("desk.scan", effect="read")
def _scan(order: str) -> ToolOutput:
    """Return documents of every kind."""
    return ToolOutput(
        documents=[
            Document("text.md", "# Order", "text/markdown"),
            Document("scan.bin", bytes(range(256)), "image/x-scan"),
            Document("odd \N{SNOWMAN}\0.txt", "lone \ud800, null \0, \N{SNOWMAN}", "text/plain"),
            Document("empty.txt", "", "text/plain"),
        ]
    )


@tool("desk.fail", effect="read")
def _fail(order: str) -> str:
    """Find nothing."""
    raise ValueError(f"no order {order}")


TOOLS: tuple[Tool, ...] = (_find, _pay, _scan, _fail)
_END = (refine("stop"), review("success", answer="Done."))
_YES, _NO = {"answer": {"approve": True}}, {"answer": {"approve": False}}
_ASKED = Policy(approvals=("desk.pay",))


class World:
    """
    A scripted run.

    Args:
        name: Of it.
        replies: Of the model.
        run: Of `Engine.run`.
        answers: Of `Engine.resume`, one for each time it waits.
        options: Of the engine.
    """

    def __init__(
        self,
        name: str,
        replies: Sequence[Any],
        run: dict[str, Any] | None = None,
        answers: Sequence[dict[str, Any]] = (),
        **options: Any,
    ) -> None:
        self.name, self.replies, self.answers, self.options = name, replies, answers, options
        self.run = {"objective": f"World {name} \N{SNOWMAN}", **(run or {})}

    def play(self, journal: Journal) -> str:
        """Play it in a journal and return the run's id."""
        engine = self.engine(journal)
        play(engine, self.run, self.answers)
        return journal.runs(limit=1)[0].run_id

    def engine(self, journal: Journal) -> Engine:
        """Return an engine for it, the same each time."""
        seed = crc32(self.name.encode()) % 1_000_000
        return Engine(
            ScriptedModel(list(self.replies)),
            list(TOOLS),
            journal,
            clock=SteppingClock(start_us=1_700_000_000_000_000 + seed),
            ids=SeededIds(str(seed)),
            builtins=False,
            **self.options,
        )


WORLDS = (
    World("found", [*call("desk.find", order="O-1"), *_END], {"success_criteria": ["the order is found"]}),
    World(
        "documents",
        [*call("desk.scan", order="O-1"), *_END],
        {"documents": [("letter.txt", "Dear \N{SNOWMAN}"), ("bytes.bin", bytes(range(200, 256)))]},
    ),
    World("approved", [*call("desk.pay", order="O-1"), *_END], answers=[_YES], policy=_ASKED),
    World("denied", [*call("desk.pay", order="O-1"), *_END], answers=[_NO], policy=_ASKED),
    World("failed", [*call("desk.fail", order="O-1"), "no JSON", "no JSON", "no JSON", "no JSON"]),
    World("answered", [answer("It is paid."), review("success", answer="It is paid.")]),
    World(
        "keyed",
        [*call("desk.find", order="O-2"), *_END],
        {"key": "order-2", "metadata": {"team": "a", "n": 2}},
    ),
    World("short", [*call("desk.find", order="O-3"), refine("continue")] * 3, limits=Limits(max_steps=2)),
    World(
        "planned",
        [plan(step("desk.find", order="O-1"), step("desk.scan", order="O-2")), *_END],
        {"mode": "batch"},
    ),
)


def export_of(journal: Journal, run_id: str) -> bytes:
    """Return the lines that a run is exported as."""
    return b"\n".join(orjson.dumps(line) for line in journal.export(run_id))


class _Opened:
    """Journals over one case's store, closed with it."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def journal(self, *, read_only: bool = False, lease_s: float = 30.0) -> Journal:
        """Open it once more."""
        backend = self._opening(read_only=read_only)
        return self._stack.enter_context(Journal(backend, lease_s=lease_s, read_only=read_only))

    def reference(self) -> Journal:
        """Return a new journal of SQLite's in memory."""
        return self._stack.enter_context(Journal(":memory:", "off"))


# -- what is written is what is read -----------------------------------------------------------------------------------


def every_world_is_exported_as_sqlite_exports_it(opening: Opening) -> None:
    """The same bytes; it verifies and replays."""
    with _Opened(opening) as opened:
        journal, reference = opened.journal(), opened.reference()
        for world in WORLDS:
            run_id, expected = world.play(journal), world.play(reference)
            assert run_id == expected, f"{world.name}: another id"
            assert export_of(journal, run_id) == export_of(reference, run_id), f"{world.name}: another export"
            assert replay(journal, run_id).identical, world.name
        assert journal.verify() == []


def runs_move_there_and_back_byte_for_byte(opening: Opening) -> None:
    """Imported from SQLite and exported again; importing twice changes nothing."""
    with _Opened(opening) as opened:
        journal, reference = opened.journal(), opened.reference()
        run_ids = [world.play(reference) for world in WORLDS]
        lines = [line for run_id in run_ids for line in export_of(reference, run_id).split(b"\n")]
        assert [found.how for found in journal.import_lines(lines)] == ["new"] * len(WORLDS)
        assert [found.how for found in journal.import_lines(lines)] == ["known"] * len(WORLDS)
        for run_id in run_ids:
            assert export_of(journal, run_id) == export_of(reference, run_id)
        assert journal.verify() == []


def questions_about_many_runs_are_answered_as_sqlite_answers_them(opening: Opening) -> None:
    """Lists, filters, places, forks, ends, heads, and which runs a text is found in."""
    with _Opened(opening) as opened:
        journal, reference = opened.journal(), opened.reference()
        for each in (journal, reference):
            for world in WORLDS:
                world.play(each)
            found = WORLDS[0]
            found.engine(each).fork(each.runs()[-1].run_id, at_seq=2)
        assert journal.runs() == reference.runs()
        filters: tuple[dict[str, Any], ...] = (
            {"status": "done"},
            {"status": "waiting"},
            {"status": "running"},
            {"state": "Failed"},
            {"state": "Planning"},
            {"key": "order-2"},
            {"metadata": {"team": "a", "n": 2}},
            {"metadata": {"team": "b"}},
            {"since": 1_700_000_000_400_000},
            {"limit": 3},
        )
        for chosen in filters:
            assert journal.runs(**chosen) == reference.runs(**chosen), chosen
        one, two = journal.reader.index, reference.reader.index
        ids = one.ids()
        for run_id in ids:
            assert journal.run(run_id[:-1]) == reference.run(run_id[:-1]), "by a shortened id"
        for name in ("ids", "ids_by_time", "numbers", "last_number", "counts", "forks", "open", "ends"):
            assert getattr(one, name)() == getattr(two, name)(), name
        for name in ("maybe_replaced", "left_calls", "count_erasures", "erasures"):
            assert getattr(one, name)() == getattr(two, name)(), name
        assert list(one.links()) == list(two.links())
        assert one.heads([1, 2, 3], 4) == two.heads([1, 2, 3], 4)
        assert one.ended(range(20)) == two.ended(range(20))
        assert one.newest_and_open(2) == two.newest_and_open(2)
        for run_id in ids:
            assert one.near(run_id) == two.near(run_id)
            assert one.beginning(run_id) == two.beginning(run_id)
            assert one.of_workflow(run_id) == two.of_workflow(run_id)
        for text in ("World", "o-1", "no such", "snow\N{SNOWMAN}", "paid back", "order-2"):
            patterns = (f"%{text}%", f"%{orjson.dumps(text).decode()[1:-1]}%")
            assert journal.reader.search(patterns, most=20, seconds=30) == reference.reader.search(
                patterns, most=20, seconds=30
            ), text


def every_row_text_and_document_is_read_as_sqlite_reads_it(opening: Opening) -> None:
    """Rows, columns, payloads and documents of every world, one by one and in ranges."""
    with _Opened(opening) as opened:
        journal, reference = opened.journal(), opened.reference()
        for world in WORLDS:
            run_id = world.play(journal)
            assert world.play(reference) == run_id
            assert journal.transitions(run_id) == reference.transitions(run_id)
            assert journal.documents(run_id) == reference.documents(run_id)
            assert journal.spec(run_id) == reference.spec(run_id)
            one, two, run = journal.reader, reference.reader, journal.run(run_id).run
            assert reference.run(run_id).run == run
            assert one.rows(run, 1, 3) == two.rows(run, 1, 3)
            names = ("seq", "trigger", "request")
            assert one.columns(run, names, ("select", "finish")) == two.columns(
                run, names, ("select", "finish")
            )
            assert list(one.iterate_rows(run, 2)) == list(two.iterate_rows(run, 2))
            assert list(one.iterate_payloads(run, 2)) == list(two.iterate_payloads(run, 2))
            assert one.payloads_at(run, 1, 3) == two.payloads_at(run, 1, 3)
            assert one.payloads(run, 4) == two.payloads(run, 4)
            assert one.last_payload(run) == two.last_payload(run)
            assert one.count_documents(run) == two.count_documents(run)
            for document in journal.documents(run_id):
                body = journal.document(run_id, document.number)
                assert body == reference.document(run_id, document.number) and type(body) in (str, bytes)


def bodies_of_every_kind_come_back_as_they_were(opening: Opening) -> None:
    """Texts and bytes, empty, large, with every character; what is text is not bytes."""
    bodies: list[str | bytes] = [
        *(
            "",
            b"",
            "\0",
            b"\0",
            "plain",
            b"plain",
            "\N{SNOWMAN} \U0001f600",
            bytes(range(256)),
            "'; DROP TABLE specs; --",
        ),
        *("x" * 2_000_000, b"y" * 2_000_000, '{"a": 1}', "%s ? $1 %(a)s", "\\x00", "a\r\nb"),
    ]
    with _Opened(opening) as opened:
        journal = opened.journal()
        run = journal.run(WORLDS[0].play(journal)).run
        first = journal.reader.next_payload(run)
        payloads = [
            Payload(first + n, "text/plain", salted_digest(b"s" * 16, body, "text/plain"), b"s" * 16, body)
            for n, body in enumerate(bodies)
        ]
        with journal.store.writing() as writer:
            writer.add_payloads(run, payloads)
        assert journal.reader.payloads_at(run, first, len(bodies)) == payloads
        for payload in payloads:
            found = journal.reader.payload(run, payload.n)
            assert found == payload and type(found.body) is type(payload.body)
            assert found.fits()


# -- one driver --------------------------------------------------------------------------------------------------------


def a_run_that_is_driven_is_not_taken(opening: Opening) -> None:
    """By whoever opened the journal as well; once it is given back it can be, with another token."""
    with _Opened(opening) as opened:
        one, two = opened.journal(), opened.journal()
        run = one.run(WORLDS[0].play(one)).run
        fence = one.store.leases.acquire(run)
        assert two.store.leases.is_driven(run)
        try:
            two.store.leases.acquire(run)
        except LeaseHeld:
            pass
        else:
            raise AssertionError("two drivers at once")
        one.store.leases.release(run, fence)
        assert not two.store.leases.is_driven(run)
        assert two.store.leases.acquire(run) == fence + 1


def of_many_who_take_a_run_one_gets_it(opening: Opening) -> None:
    """All at the same time, over connections of their own."""
    with _Opened(opening) as opened:
        first = opened.journal()
        run = first.run(WORLDS[0].play(first)).run
        journals = [opened.journal() for _ in range(8)]
        ready = threading.Barrier(len(journals))

        def take(journal: Journal) -> int | None:
            ready.wait()
            try:
                return journal.store.leases.acquire(run)
            except LeaseHeld:
                return None

        with ThreadPoolExecutor(len(journals)) as pool:
            taken = [fence for fence in pool.map(take, journals) if fence is not None]
        assert len(taken) == 1, f"{len(taken)} drivers at once"


def entry_of(journal: Journal, run: int, fence: int, *, body: str = "more") -> Entry:
    """Return an entry with a row after a run's newest, as its driver would append it."""
    (last,) = journal.reader.own_rows(run, journal.reader.newest_row(run) or 0)
    n = journal.reader.next_payload(run)
    salt = bytes(16)
    payload = Payload(n, "text/plain", salted_digest(salt, body, "text/plain"), salt, body)
    values = dict(zip(COLUMNS, last, strict=True))
    values |= {"seq": values["seq"] + 1, "change": f'{{"digest":"{payload.digest.hex()}","n":{n}}}'}
    hashed = tuple(values[name] for name in COLUMNS[:-2])
    text = row_text(hashed)
    return Entry(run, values["seq"], text, sha256(last[-1] + text).digest(), [payload], [], fence)


def a_driver_that_was_replaced_writes_nothing(opening: Opening) -> None:
    """Neither its row nor its texts; the others of its transaction are written."""
    with _Opened(opening) as opened:
        journal = opened.journal()
        runs = [journal.run(world.play(journal)).run for world in WORLDS[:3]]
        fences = [journal.store.leases.acquire(run) for run in runs]
        journal.store.leases.release(runs[1], fences[1])
        journal.store.leases.acquire(runs[1])
        entries = [entry_of(journal, run, fence) for run, fence in zip(runs, fences, strict=True)]
        before = [(journal.reader.newest_row(run), journal.reader.last_payload(run)) for run in runs]
        journal.store.append_all(entries)
        after = [(journal.reader.newest_row(run), journal.reader.last_payload(run)) for run in runs]
        assert [type(entry.error) for entry in entries] == [type(None), LeaseLost, type(None)]
        assert [one == two for one, two in zip(before, after, strict=True)] == [False, True, False]


def a_row_that_cannot_be_written_stops_no_other(opening: Opening) -> None:
    """One that is there already fails alone, with an error; two rows of one entry are written both or neither."""
    with _Opened(opening) as opened:
        journal = opened.journal()
        runs = [journal.run(world.play(journal)).run for world in WORLDS[:3]]
        fences = [journal.store.leases.acquire(run) for run in runs]
        entries = [entry_of(journal, run, fence) for run, fence in zip(runs, fences, strict=True)]
        pair = replace(entries[1], seq=0, before=entries[1])
        heads = [journal.reader.newest_row(run) or 0 for run in runs]
        journal.store.append_all([entries[0], pair, entries[2]])
        assert entries[0].error is None and entries[2].error is None
        assert isinstance(pair.error, JournalError) and not isinstance(pair.error, LeaseLost)
        found = [journal.reader.newest_row(run) for run in runs]
        assert found == [heads[0] + 1, heads[1], heads[2] + 1], "two rows of one entry were parted"
        assert all(entry.done for entry in (entries[0], pair, entries[2]))


def a_request_to_cancel_is_seen(opening: Opening) -> None:
    """By a look, whoever asked, and by the driver's next row, which is written all the same."""
    with _Opened(opening) as opened:
        one, two = opened.journal(), opened.journal()
        runs = [one.run(world.play(one)).run for world in WORLDS[:2]]
        fence = one.store.leases.acquire(runs[0])
        assert one.store.backend.runs_to_cancel(runs) == set()
        two.store.leases.request_cancel(runs[0])
        assert one.store.backend.runs_to_cancel(runs) == {runs[0]}
        assert two.store.leases.cancel_requested(runs[0]) and not two.store.leases.cancel_requested(runs[1])
        entry = entry_of(one, runs[0], fence)
        one.store.append(entry)
        assert entry.cancelled and one.reader.newest_row(runs[0]) == entry.seq


# -- transactions ------------------------------------------------------------------------------------------------------


def runs_are_numbered_without_a_gap(opening: Opening) -> None:
    """Also where many start them at the same time, and where a start fails."""
    with _Opened(opening) as opened:
        journals = [opened.journal() for _ in range(4)]

        def start(place: int) -> None:
            journal = journals[place]
            for number in range(4):
                world = World(f"start {place} {number}", [answer("Yes."), review("success", answer="Yes.")])
                world.play(journal)
                with suppress(RuntimeError), journal.store.writing() as writer:
                    writer.connection.execute(
                        "INSERT INTO unscrubbed SELECT max(run) FROM specs WHERE true ON CONFLICT (run) DO NOTHING"
                    )
                    raise RuntimeError("undone")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(start, range(4)))
        assert journals[0].reader.index.numbers() == list(range(1, 17))
        assert journals[1].store.unscrubbed() == [] and journals[2].verify() == []


def of_many_who_start_a_run_with_a_key_one_does(opening: Opening) -> None:
    """The others are told its id."""
    with _Opened(opening) as opened:
        journals = [opened.journal() for _ in range(6)]
        ready = threading.Barrier(len(journals))

        def start(place: int) -> str:
            engine = WORLDS[6].engine(journals[place])
            ready.wait()
            try:
                return engine.run(**WORLDS[6].run).run_id
            except (KeyTaken, LeaseHeld):  # it is still on its way
                return journals[place].runs(key="order-2")[0].run_id

        with ThreadPoolExecutor(len(journals)) as pool:
            found = set(pool.map(start, range(len(journals))))
        assert len(found) == 1 and len(journals[0].runs()) == 1


def what_is_undone_leaves_nothing(opening: Opening) -> None:
    """Any error within a transaction, also one that the database does not know."""
    with _Opened(opening) as opened:
        journal, other = opened.journal(), opened.journal()
        run_id = WORLDS[0].play(journal)
        before = export_of(journal, run_id)
        for error in (ValueError("no"), KeyboardInterrupt()):
            try:
                with journal.store.writing() as writer:
                    writer.set_labels(1, ("taken", "{}", None))
                    writer.add_payloads(1, [Payload(900, "text/plain", b"d" * 32, b"s" * 16, "x")])
                    raise error
            except (ValueError, KeyboardInterrupt):
                pass
        assert other.runs(key="taken") == [] and other.reader.find_payload(1, 900) is None
        assert export_of(other, run_id) == before
        assert WORLDS[1].play(other)


def a_snapshot_stays_as_it_is(opening: Opening) -> None:
    """Whatever is written meanwhile; the next one shows it."""
    with _Opened(opening) as opened:
        journal = opened.journal()
        first = WORLDS[0].play(journal)
        with journal.snapshot() as still:
            before = [still.index.ids(), still.index.counts(), still.run(first)]
            if not journal.reader.source.in_memory:
                WORLDS[1].play(journal)
            assert [still.index.ids(), still.index.counts(), still.run(first)] == before
        if not journal.reader.source.in_memory:
            with journal.snapshot() as later:
                assert len(later.index.ids()) == 2


def a_change_is_noticed(opening: Opening) -> None:
    """By whoever watches, once."""
    with _Opened(opening) as opened:
        one, two = opened.journal(), opened.journal()
        WORLDS[0].play(one)
        watch = two.reader.watch()
        assert watch.changed()
        WORLDS[1].play(one)
        assert watch.changed()
        watch.close()


def who_only_reads_writes_nothing(opening: Opening) -> None:
    """And is told so by an error of paor's."""
    with _Opened(opening) as opened:
        journal = opened.journal()
        run_id = WORLDS[0].play(journal)
        reader = opened.journal(read_only=True)
        assert export_of(reader, run_id) == export_of(journal, run_id)
        for write in (
            lambda: reader.erase(run_id),
            lambda: reader.import_lines(export_of(journal, run_id).split(b"\n")),
            lambda: reader.store.leases.acquire(1),
            lambda: reader.store.leases.request_cancel(1),
            lambda: WORLDS[1].play(reader),
        ):
            try:
                write()
            except PaorError:
                continue
            raise AssertionError("a journal that is only read was written")
        assert len(journal.runs()) == 1 and not journal.store.leases.cancel_requested(1)


# -- erasing, verifying, closing ---------------------------------------------------------------------------------------


def what_is_erased_is_gone_and_the_rest_verifies(opening: Opening) -> None:
    """Texts, labels and salts; the record of it is exported as SQLite exports it."""
    with _Opened(opening) as opened:
        journal = opened.journal()
        run_ids = [world.play(journal) for world in WORLDS]
        keyed = run_ids[6]
        done = journal.erase(keyed, reason="T-7", others="keep")
        assert done.payloads > 3 and done.scrubbed and journal.store.unscrubbed() == []
        run = journal.run(keyed).run
        left = [
            item
            for item in journal.reader.iterate_payloads(run, 50)
            if item.body is not None or item.salt is not None
        ]
        assert left == [] and journal.run(keyed).key is None and journal.run(keyed).metadata == {}
        try:
            journal.spec(keyed)
        except Erased:
            pass
        else:
            raise AssertionError("a spec that was erased is read")
        assert journal.verify() == [] and list(journal.reader.index.links())
        assert len(journal.erasures(keyed)) == 1
        fresh = opened.reference()
        fresh.import_lines(export_of(journal, keyed).split(b"\n"))
        assert export_of(fresh, keyed) == export_of(journal, keyed)


def nothing_is_appended_while_texts_are_chosen_to_go(opening: Opening) -> None:
    """An append over another connection waits for the erasure; then it finds its lease taken."""
    with _Opened(opening) as opened:
        one, two = opened.journal(), opened.journal()
        run = one.run(WORLDS[0].play(one)).run
        fence = two.store.leases.acquire(run)
        entry, before = entry_of(two, run, fence), one.reader.newest_row(run)
        with ThreadPoolExecutor(1) as pool:
            with one.store.erasing() as writer:
                appending = pool.submit(two.store.append_all, [entry])
                wait([appending], timeout=0.3)
                assert not appending.done(), "appended while texts are chosen"
                assert one.reader.newest_row(run) == before
                writer.connection.execute("UPDATE leases SET fence = fence + 1 WHERE run = ?", (run,))
            appending.result()
        assert isinstance(entry.error, LeaseLost) and one.reader.newest_row(run) == before


def one_row_may_bring_thousands_of_texts(opening: Opening) -> None:
    """More than a statement of the database may have places for."""
    with _Opened(opening) as opened:
        journal = opened.journal()
        run = journal.run(WORLDS[0].play(journal)).run
        entry = entry_of(journal, run, journal.store.leases.acquire(run))
        first = entry.payloads[0].n
        long = entry.payloads[0]._replace(body="x" * 20_000)  # one that is beside its row
        entry.payloads = [
            (long if n < 4000 else entry.payloads[0])._replace(n=first + n) for n in range(9000)
        ]
        journal.store.append(entry)
        assert journal.reader.last_payload(run) == first + 8999
        assert journal.reader.newest_row(run) == entry.seq
        assert [one.n for one in journal.reader.payloads_at(run, first, 9000)] == [
            *range(first, first + 9000)
        ]


def every_change_from_outside_is_found(opening: Opening) -> None:
    """Of a row, a text, a run's first columns, a document, a lease."""
    changes = (
        """UPDATE rows SET "row" = replace("row", '"step":', '"step":1') WHERE id = (? << 32 | 1)""",
        """UPDATE rows SET "row" = replace("row", '"trigger":"', '"trigger":"re') WHERE id = (? << 32 | 2)""",
        """UPDATE rows SET "last" = "last" + 100 WHERE id = (? << 32 | 1)""",
        "DELETE FROM rows WHERE id = (? << 32 | 1)",
        "UPDATE specs SET created_at = created_at + 1 WHERE run = ?",
        """UPDATE rows SET texts = replace(texts, ',null,null,', ',"text/html",null,') WHERE id = (? << 32 | 1)""",
        "UPDATE rows SET texts = '[]' WHERE id = (? << 32 | 2)",
        "UPDATE rows SET texts = '[7]' WHERE id = (? << 32 | 2)",
        "UPDATE texts SET media_type = 'text/html' WHERE id = (? << 32 | 1)",
        "UPDATE texts SET salt = NULL WHERE id = (? << 32 | 1)",
        "DELETE FROM texts WHERE id = (? << 32 | 1)",
        "UPDATE documents SET bytes = bytes + 1 WHERE number = 0 AND run = ?",
        "DELETE FROM documents WHERE number = 1 AND run = ?",
        "DELETE FROM leases WHERE run = ?",
        "UPDATE specs SET metadata = '{\"a\":1}' WHERE run = ?",
    )
    with _Opened(opening) as opened:
        journal = opened.journal()
        run_id = WORLDS[1].play(journal)
        run = journal.run(run_id).run
        assert journal.verify() == []
        kept = export_of(journal, run_id)
        for change in changes:
            try:
                with journal.store.writing() as writer:
                    writer.connection.execute(change, (run,))
                    found = _defects_within(journal)
                    raise InterruptedError
            except InterruptedError:
                assert found, f"not found: {change}"
        assert journal.verify() == [] and export_of(journal, run_id) == kept


def _defects_within(journal: Journal) -> list[Any]:
    """Return the defects as they are within the transaction that is open."""
    from paor.fsm.verify.verify import verify_journal

    return verify_journal(journal.reader)


def a_journal_that_is_closed_says_so(opening: Opening) -> None:
    """With one line, whatever is asked of it."""
    with _Opened(opening) as opened:
        journal = opened.journal()
        run_id = WORLDS[0].play(journal)
        journal.close()
        journal.close()
        for use in (journal.runs, lambda: journal.spec(run_id), lambda: WORLDS[1].play(journal)):
            try:
                use()
            except JournalError as error:
                assert "closed" in str(error) and "\n" not in str(error), error
            else:
                raise AssertionError("a journal that was closed is used")


CASES: tuple[Case, ...] = (
    every_world_is_exported_as_sqlite_exports_it,
    runs_move_there_and_back_byte_for_byte,
    questions_about_many_runs_are_answered_as_sqlite_answers_them,
    every_row_text_and_document_is_read_as_sqlite_reads_it,
    bodies_of_every_kind_come_back_as_they_were,
    a_run_that_is_driven_is_not_taken,
    of_many_who_take_a_run_one_gets_it,
    a_driver_that_was_replaced_writes_nothing,
    a_row_that_cannot_be_written_stops_no_other,
    a_request_to_cancel_is_seen,
    runs_are_numbered_without_a_gap,
    of_many_who_start_a_run_with_a_key_one_does,
    what_is_undone_leaves_nothing,
    a_snapshot_stays_as_it_is,
    a_change_is_noticed,
    who_only_reads_writes_nothing,
    what_is_erased_is_gone_and_the_rest_verifies,
    nothing_is_appended_while_texts_are_chosen_to_go,
    one_row_may_bring_thousands_of_texts,
    every_change_from_outside_is_found,
    a_journal_that_is_closed_says_so,
)
"""All of them, in the order in which they build on each other."""
