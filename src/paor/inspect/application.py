"""The application: its addresses, what each answers, and what they share."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Literal

import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..fsm.engine import Engine
from ..fsm.journal.reader import JournalReader
from ..fsm.journal_api import Journal
from ..fsm.lifecycle.listening import listening_of
from ..fsm.lifecycle.recover import OptionsOfRun
from ..fsm.report.html import content_policy, page_html
from ..fsm.runtime.logs import LOGGER
from ..prompts.clients.settings import environment_secrets
from ..states.base.errors import (
    AlreadyAnswered,
    Erased,
    InvalidAnswer,
    InvalidFork,
    JournalBusy,
    JournalDamaged,
    JournalError,
    LeaseHeld,
    PaorError,
    RunChanged,
    UnknownRun,
    UsageError,
)
from ..states.base.secrets import Scrubber
from .access import BODY_BYTES, Access, Guard, Refused, access_of, base_of
from .actions import Acting, Actions, AnsweredBefore, AsRecorded, ByEngine
from .live_events import EventStream, Hub, index_events, run_events
from .views import Views, json_bytes

FOUND_MAX = 200
"""Runs that a search gives at most, the newest."""

TEXT_CHARS = 200
"""Characters of a text that is searched for."""

SEARCH_S = 2.0
"""Seconds after which a search ends with what it has found: the texts may be gigabytes."""


def search(reader: JournalReader, text: str) -> list[str]:
    """
    Return the ids of the runs that hold a text, newest first, at most `FOUND_MAX`.

    Small and large letters of ASCII count as the same; the text is taken as it is, no sign in it has a meaning. A search that takes longer
    than `SEARCH_S` ends with what it has found.

    Args:
        reader: What reads the journal.
        text: What to look for, of 1 to `TEXT_CHARS` characters.

    Raises:
        UsageError: It is empty or longer.
        JournalError: The journal cannot be read.
    """
    text = text.strip()
    if not 0 < len(text) <= TEXT_CHARS or any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise UsageError(f"q: expected 1 to {TEXT_CHARS} characters")
    patterns = _pattern(text), _pattern(orjson.dumps(text).decode()[1:-1])
    found = reader.search(patterns, most=FOUND_MAX, seconds=SEARCH_S)
    ids = reader.index.names(found)
    return [ids[run] for run in found if run in ids]


def _pattern(text: str) -> str:
    """Return what `LIKE` takes for a text anywhere, none of its signs with a meaning."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


READERS = 4
"""Threads that read for the page."""

ACTORS = 4
"""Threads that write what people do."""

SEARCHERS = 2
"""Threads that search: a search may take seconds, and who reads does not wait for it."""

NOBODY = "it is kept, and the run then goes on with paor resume or paor recover: nobody drives runs here"
"""What a question says where an answer is written and no engine is there."""

ActorOf = Callable[[Mapping[str, Any]], str | None]
"""Returns the host's own name of who asks, of the request's ASGI scope; None where nobody is known."""

STATUS: tuple[tuple[type[PaorError], int], ...] = (
    (UnknownRun, 404),
    (AlreadyAnswered, 409),
    (LeaseHeld, 409),
    (RunChanged, 409),
    (InvalidAnswer, 422),
    (InvalidFork, 422),
    (Erased, 410),
    (JournalBusy, 503),
    (JournalDamaged, 500),
    (UsageError, 400),
    (JournalError, 503),
)
"""What an error is in HTTP; the first that fits counts."""


class Inspector:
    """
    An ASGI application that shows the runs of one journal, and lets people answer what waits; made by `app`.

    Attributes:
        token: The secret that a browser has to bring once; None where the host checks who asks.
    """

    def __init__(
        self,
        journal: Journal,
        acting: Acting | None,
        access: Access,
        *,
        actor: ActorOf | None = None,
    ) -> None:
        self.token = access.token
        self._actor, self._acting = actor, acting
        self._scrub = Scrubber(environment_secrets())
        self._reading = _for_reading(journal)
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="paor-inspect")
        self._writing = ThreadPoolExecutor(ACTORS, thread_name_prefix="paor-inspect-act")
        added = {"token": access.page_token, "actions": acting is not None, "named": actor is not None}
        after = NOBODY if acting is not None and not acting.drives else ""
        self._checking = ThreadPoolExecutor(1, thread_name_prefix="paor-inspect-check")
        self._searching = ThreadPoolExecutor(SEARCHERS, thread_name_prefix="paor-inspect-search")
        self._views = Views(self._reading, added, after)
        reading, driving = listening_of(self._reading.store), listening_of(journal.store)
        self._hub = Hub(self._views, self._pool, self._checking, reading, driving, self._scrub)
        self._actions: Actions | None = None
        if acting is not None:
            self._actions = Actions(acting, self._reading.reader, self._writing, self._problem)
        self._own_reading = self._reading is not journal
        self._pages: dict[str, str] = {}
        routes = [
            Route("/", self._page),
            Route("/data/{name:path}", self._part),
            Route("/events", self._index_events),
            Route("/events/{run}", self._run_events),
            Route("/search", self._search),
            Route("/answer/{run}", self._answer, methods=["POST"]),
            Route("/cancel/{run}", self._cancel, methods=["POST"]),
            Route("/fork/{run}", self._fork, methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {PaorError: self._error, Refused: _refused, Exception: _bug}
        self._app = Guard(
            Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan), access
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._app(scope, receive, send)

    def address(self, base: str) -> str:
        """
        Return the address to open in a browser, with the token where one is needed.

        Args:
            base: The address under which the application stands, such as ``http://127.0.0.1:8000/inspect``.
        """
        return f"{base.rstrip('/')}/" + (f"?token={self.token}" if self.token is not None else "")

    def stop(self) -> None:
        """End all streams, from any thread, so that a server need not wait for them."""
        self._hub.close()

    def close(self) -> None:
        """End all streams and threads, and close what was opened here; the journal that was given stays open."""
        self.stop()
        for pool in (self._pool, self._writing, self._checking, self._searching):
            pool.shutdown(wait=True, cancel_futures=True)
        if self._acting is not None:
            self._acting.close()
        if self._own_reading:
            self._reading.close()

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        yield
        self.stop()
        if self._actions is not None:
            await self._actions.close()

    async def _read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function that reads the journal returns; the event loop goes on meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def _problem(self, run_id: str, text: str) -> None:
        self._hub.problem(run_id, self._line(text))

    # -- looking ---------------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        base = base_of(request.scope)
        if base not in self._pages:
            self._pages = {base: page_html({}, live=base)}
        policy = f"{content_policy(live=True)}; frame-ancestors 'none'"
        return HTMLResponse(self._pages[base], headers={"Content-Security-Policy": policy})

    async def _part(self, request: Request) -> Response:
        data = await self._read(self._told, request.path_params["name"])
        return Response(data, media_type="application/json")

    def _told(self, name: str) -> bytes:
        """Return a part; with the index the place in its events, taken before it is read, so that no change is lost between the two."""
        return self._views.part(name, {"at": self._hub.position()} if name == "index" else {})

    async def _search(self, request: Request) -> Response:
        wanted = self._reading.reader, request.query_params.get("q", "")
        found = await asyncio.get_running_loop().run_in_executor(self._searching, search, *wanted)
        return JSONResponse({"runs": found})

    async def _index_events(self, request: Request) -> Response:
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return self._stream(request, index_events(self._hub, last))

    async def _run_events(self, request: Request) -> Response:
        run_id = request.path_params["run"]
        await self._read(self._views.check_run, run_id)
        last = request.headers.get("last-event-id") or request.query_params.get("after", "-1")
        if not (last.removeprefix("-").isascii() and last.removeprefix("-").isdecimal() and len(last) < 11):
            raise Refused(400, "after: expected the number of a row")
        return self._stream(request, run_events(self._hub, run_id, max(-1, int(last))))

    def _stream(self, request: Request, events: AsyncIterator[bytes]) -> Response:
        if not self._hub.enter():
            raise Refused(503, "too many listen already; close a page")
        return EventStream(events, self._line, self._hub.leave, head=request.method == "HEAD")

    # -- acting ----------------------------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Response:
        actions, run_id, known = await self._meant(request)
        body = await _body(request, {"name", "answer", "outcome", "result", "reason", "actor"})
        texts = {name: _text(body, name) for name in ("name", "outcome", "reason", "actor")}
        name, outcome, reason, named = texts.values()
        if name is None:
            raise Refused(400, "name: expected the name of the question that this answers")
        answer = body.get("answer")
        if answer is None and outcome is None:
            raise Refused(400, "answer: is missing")
        actor = known or (named or "").strip()
        if not actor:
            raise Refused(
                400, "actor: is missing; an answer is kept with the name of the person who gives it"
            )
        done = await actions.answer(
            run_id,
            name,
            answer=answer,
            outcome=outcome,
            result=body.get("result"),
            reason=reason,
            actor=actor,
        )
        return JSONResponse({"ok": True, **done})

    async def _cancel(self, request: Request) -> Response:
        actions, run_id, _ = await self._meant(request)
        await _body(request, set())
        return JSONResponse({"ok": True, **await actions.cancel(run_id)})

    async def _fork(self, request: Request) -> Response:
        actions, run_id, _ = await self._meant(request)
        seq = (await _body(request, {"seq"})).get("seq")
        if type(seq) is not int:
            raise Refused(400, "seq: expected the number of a row")
        return JSONResponse({"ok": True, **await actions.fork(run_id, seq)})

    async def _meant(self, request: Request) -> tuple[Actions, str, str | None]:
        """Return what acts, the run that is meant, and who asks, where the host says so."""
        if self._actions is None:
            raise Refused(403, "this journal is only shown here; nothing can be answered or changed")
        known = self._actor(request.scope) if self._actor is not None else None
        if self._actor is not None and not known:
            raise Refused(403, "nobody is logged in")
        run_id = request.path_params["run"]
        await self._read(self._views.check_run, run_id)
        return self._actions, run_id, known

    # -- errors ----------------------------------------------------------------------------------------------------

    async def _error(self, _request: Request, error: Exception) -> Response:
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
        told = _answered(error) if isinstance(error, AnsweredBefore) else {"error": str(error)}
        told = {name: text if text is None else self._line(text) for name, text in told.items()}
        return Response(json_bytes(told), status, media_type="application/json")

    def _line(self, text: str) -> str:
        """Return an error in one line, without the keys of the environment."""
        return self._scrub(" ".join(text.split()))[:500]


def app(
    source: Journal | Engine,
    *,
    token: str | Literal[False] | None = None,
    allow_remote: bool = False,
    hosts: Iterable[str] = (),
    read_only: bool = False,
    options: OptionsOfRun | None = None,
    actor: ActorOf | None = None,
) -> Inspector:
    """
    Return an ASGI application that shows the runs of a journal, live, and lets people answer what waits.

    It can be served by itself (`serve`) or mounted in a host's own server under any path.

    Args:
        source: An `Engine`: its runs go on in this process, on the event loop that serves, when they were answered. A `Journal`: answers are
            written, and the runs are left to whoever drives them.
        token: A secret that a browser has to bring once, at least 16 letters, digits, ``-`` or ``_``. None: a new one, which `Inspector.address` adds to
            an address. False: none, since the host's own server lets in only those who may see and do everything.
        allow_remote: Whether other machines may ask. Without a token *hosts* must say under which names.
        hosts: Names of the server beside those of this machine, as a browser sends them in ``Host``: ``inspect.example.org`` or ``10.0.0.5:8000``.
        read_only: Nothing can be answered or changed.
        options: For an engine: called with each run before it goes on; returns what `Engine.resume` takes beside the id.
        actor: Returns the host's own name of who asks, of the request's ASGI scope, to be kept with an answer; None refuses it, and to cancel
            or fork. Without this the page's own word counts.

    Raises:
        UsageError: A value that cannot be used.
    """
    if not isinstance(source, Journal | Engine):
        raise UsageError("inspect.app takes a Journal or an Engine")
    if options is not None and not isinstance(source, Engine):
        raise UsageError("options: is for an engine; nobody drives runs here")
    access = access_of(token, hosts=hosts, allow_remote=allow_remote)
    journal = source.journal if isinstance(source, Engine) else source
    acting: Acting | None = None
    if not (read_only or journal.store.read_only):
        acting = ByEngine(source, options) if isinstance(source, Engine) else AsRecorded(journal)
    return Inspector(journal, acting, access, actor=actor)


def _for_reading(journal: Journal) -> Journal:
    """Return the same journal over a connection of its own, so that no run waits for who looks; one in memory has only one."""
    if journal.path in ("", ":memory:"):
        return journal
    reader = journal.reader
    return Journal(reader.place, read_only=True, busy_timeout_s=reader.source.busy_timeout_s)


async def _body(request: Request, names: set[str]) -> dict[str, Any]:
    """
    Return the body of a write: a JSON object with some of *names*, each once.

    Raises:
        Refused: It is something else, or too large.
    """
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > BODY_BYTES:
                raise Refused(413, f"a write has at most {BODY_BYTES:,} bytes")
    except ClientDisconnect:
        raise Refused(400, "the request ended early") from None
    try:
        body = json.loads(
            data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite
        )
    except (ValueError, RecursionError):
        raise Refused(400, "the body is no JSON, or names something twice") from None
    if not isinstance(body, dict) or not body.keys() <= names:
        expected = ", ".join(sorted(names)) or "nothing"
        raise Refused(400, f"the body is no JSON object of {expected}")
    return body


def _text(body: Mapping[str, Any], name: str) -> str | None:
    """
    Return a text of a body, None where it is empty or not there.

    Raises:
        Refused: It is something else.
    """
    value = body.get(name)
    if not isinstance(value, str | None):
        raise Refused(400, f"{name}: expected a text")
    return value or None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _answered(error: AnsweredBefore) -> dict[str, str | None]:
    """Return who was first, and what was said, as far as that is known."""
    answer = error.answer
    if answer is None:
        return {"error": str(error), "by": None}
    approve = answer.content.get("approve") if isinstance(answer.content, Mapping) else None
    said = "approved" if approve is True else "denied" if approve is False else answer.action
    text = f"{answer.actor or 'somebody'} was first ({said}); nothing was changed"
    return {"error": text, "by": answer.actor, "said": said, "reason": answer.reason}


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused), "nothing else is handled here"
    return JSONResponse({"error": error.message}, error.status)


async def _bug(_request: Request, error: Exception) -> Response:
    LOGGER.error("paor inspect: %s", error, exc_info=error)
    return JSONResponse({"error": f"internal error: {type(error).__name__}; see the log of the server"}, 500)
