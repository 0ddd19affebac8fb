"""
Keys do not get out, whatever a server does with them: every byte that a run writes is searched.

The server repeats the key in error bodies, headers, request ids, replies and streams; all logging is on at DEBUG.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import io
import json
import logging
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import (
    AnthropicModel,
    Document,
    Engine,
    Event,
    Journal,
    OpenAIModel,
    ScriptedModel,
    ToolContext,
    ToolOutput,
    tool,
)
from paor.errors import AnswerNeeded, ModelUnavailable, UsageError
from paor.events import ModelText, RunEnded
from paor.testing import parameters, select

from ..support.model_server import KEY, WIRES, Behaviour, QuickPort, Wire, model_server, plain, streamed
from ..support.worlds import PARAMETERS, SELECT, STOP, SUCCESS, TOOLS
from .inside import PLACEHOLDERS, REDACTED, Scrubber, StreamScrubber, WebFact, said_scrubber

FORMS = (KEY, base64.b64encode(KEY.encode()).decode().rstrip("="))


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged while the test runs, at every level, tracebacks included."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def hostile(wire: Wire) -> list[Behaviour]:
    """Behaviours that send the key back everywhere."""
    echo = {
        "x-request-id": KEY,
        "request-id": KEY,
        "x-echo": f"Bearer {KEY}",
        "retry-after": KEY,
        "x-should-retry": "true",
    }
    said = [
        json.dumps(item)
        for item in (SELECT("notes.read", objective=f"use {KEY}"), PARAMETERS(page=1), STOP, SUCCESS)
    ]
    live = [streamed(wire.events(text, size=5), headers=echo) for text in said]
    errors = [
        plain(
            wire.error(f"Incorrect API key provided: {KEY}", code=KEY, param=KEY), status=500, headers=echo
        ),
        plain(
            f"<html>{KEY} {base64.b64encode(KEY.encode()).decode()}</html>",
            status=502,
            headers=echo,
            kind="text/html",
        ),
        plain(f'{{"{KEY}', headers=echo, kind=KEY),
        streamed([f"data: {{{KEY}}}\n\n".encode()], headers=echo),
        plain(wire.error(KEY, type=KEY), headers=echo),
    ]
    return [errors[0], live[0], errors[1], errors[2], live[1], errors[3], errors[4], live[2], live[3]]


def searched(folder: Path, *texts: str) -> None:
    """Search every byte of every file in *folder*, and *texts*, for the key in all its forms."""
    found = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any(name.startswith("runs.db") for name in found)
    found |= {f"text {index}": text.encode() for index, text in enumerate(texts)}
    for name, data in found.items():
        for form in FORMS:
            assert form.encode() not in data, name


@pytest.mark.parametrize(
    "wire",
    [pytest.param(wire, id=wire.name, marks=() if wire is WIRES[0] else pytest.mark.whole) for wire in WIRES],
)
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_no_key_in_any_byte_written(
    tmp_path: Path, wire: Wire, driver: str, logged: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    """Journal with its log, events, logs, standard error: of a run that ends well and of one that does not."""
    seen: list[Event] = []
    with model_server() as server:
        model = wire.model(server.url, port=QuickPort(), headers={"x-team-key": KEY[::-1]}, stream=None)
        engine = Engine(model, tools=TOOLS, journal=tmp_path / "runs.db", hooks=[seen.append])
        for behaviours in (hostile(wire), hostile(wire)[:1]):
            server.script(*behaviours)
            result = engine.run("Read") if driver == "sync" else asyncio.run(engine.arun("Read"))
            seen.append(result)  # type: ignore[arg-type]
        assert server.requests[0].headers["authorization"].endswith(KEY)
    assert [item.result.state for item in seen if isinstance(item, RunEnded)] == ["Done", "Failed"]
    assert "httpcore2" in logged.getvalue() and REDACTED in logged.getvalue()
    shown = "".join(item.text for item in seen if isinstance(item, ModelText))
    assert "use [secret redacted]" in shown
    told = capfd.readouterr()
    wal = sum(1 for path in tmp_path.iterdir() if path.name.endswith("-wal"))
    searched(
        tmp_path, logged.getvalue(), repr(seen), told.out, told.err, repr(model), repr(vars(model._interface))
    )
    assert wal == 1, "the log is there to be searched"
    engine.close()
    searched(tmp_path, shown)
    assert KEY[::-1].encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_no_key_in_an_error_that_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    """A host that asks a model itself sees no exception of the SDK behind ours, and no key in a traceback."""
    with model_server() as server:
        wire = WIRES[0]
        server.script(plain(wire.error(f"bad key {KEY}"), status=401, headers={"x-request-id": KEY}))
        model = wire.model(server.url)
        with pytest.raises(ModelUnavailable) as caught:
            model.ask(_call())
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.args)
    assert "bad key [secret redacted]" in shown and KEY not in shown and caught.value.request_id is None


@pytest.mark.whole
def test_no_key_in_a_crash_of_the_interpreter(tmp_path: Path) -> None:
    """Standard error of a process in which nobody catches the error, with all logs on."""
    with model_server() as server:
        server.script(plain(f'{{"error": "{KEY}"}}', status=500, headers={"x-request-id": KEY, "x-a": KEY}))
        code = f"""
            import logging; logging.basicConfig(level=logging.DEBUG)
            from paor import AnthropicModel, ModelCall
            from paor.models import PromptMessage
            model = AnthropicModel("m", base_url={server.url!r}, retries=0)
            model.ask(ModelCall("text", (PromptMessage("user", "x"),)))
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_LOG": "debug", "PATH": "", "HOME": str(tmp_path)},
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1 and "ModelUnavailable" in done.stderr and "DEBUG" in done.stderr
    assert KEY not in done.stderr + done.stdout


def test_a_model_is_not_copied_or_pickled_with_its_key() -> None:
    """It says what it is without it, and without what is in an address."""
    model = OpenAIModel("m", api_key=KEY, base_url=f"http://user:{KEY}@127.0.0.1:9/v1?key={quote(KEY)}")
    assert repr(model) == "OpenAIModel('m', base_url='http://127.0.0.1:9/v1')"
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds a key"):
            copied(model)


def test_addresses_with_secrets_are_kept_secret() -> None:
    """A password or a key in the URL counts as one."""
    password = "hunter2-hunter2"
    with model_server() as server:
        server.script(plain(f"you are user:{password}, token-abcdefgh", status=403))
        url = server.url.replace("//", f"//user:{password}@") + "/v1?token=token-abcdefgh"
        with pytest.raises(ModelUnavailable) as caught:
            OpenAIModel("m", base_url=url).ask(_call())
    assert "hunter2" not in caught.value.message and "token-abcdefgh" not in caught.value.message


def test_secrets_of_clients_that_a_host_has_made() -> None:
    """Of both of them, whatever they are called there, headers of their own included."""
    import anthropic
    import openai

    keys = [f"{name}-0123456789" for name in ("sync-key", "async-key", "token", "header", "webhook")]
    with model_server() as server:
        server.script(plain(f"you sent {' '.join(keys)}", status=403))
        url = server.url
        client = openai.OpenAI(api_key=keys[0], base_url=f"{url}/v1", webhook_secret=keys[4])
        other = openai.AsyncOpenAI(
            api_key=keys[1],
            base_url=f"{url}/v1",
            default_headers={"x-a": keys[3], "x-b": f"Bearer {keys[2]}"},
        )
        with pytest.raises(ModelUnavailable) as caught:
            OpenAIModel("m", client=client, async_client=other).ask(_call())
        assert f"HTTP 403: you sent {' '.join([REDACTED] * 5)}; " in caught.value.message
        claude = anthropic.Anthropic(auth_token=keys[2], base_url=url)
        with pytest.raises(ModelUnavailable) as caught:
            AnthropicModel("m", client=claude).ask(_call())
        assert keys[2] not in caught.value.message and keys[0] in caught.value.message


def test_secrets_of_the_environment_are_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDKs and their HTTP library take from it and send: other keys, headers, passwords of proxies."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "other-0123456789")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-team: team-0123456789")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:proxy-pass%211@127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    basic = base64.b64encode(b"user:proxy-pass!1").decode()
    told = f"other-0123456789 team-0123456789 proxy-pass!1 proxy-pass%211 {basic}"
    with model_server() as server:
        server.script(plain(told, status=403))
        with pytest.raises(ModelUnavailable) as caught:
            OpenAIModel("m", base_url=f"{server.url}/v1").ask(_call())
    for secret in told.split():
        assert secret.rstrip("=") not in caught.value.message


def _call() -> Any:
    from paor import ModelCall
    from paor.models import PromptMessage

    return ModelCall("text", (PromptMessage("user", "x"),))


# -- the scrubber ------------------------------------------------------------------------------------------------

SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="[]"), min_size=8, max_size=20)


@given(secret=SECRETS, before=st.text(max_size=20), after=st.text(max_size=20), data=st.data())
def test_no_cut_of_a_stream_lets_a_secret_through(
    secret: str, before: str, after: str, data: st.DataObject
) -> None:
    """Whatever the pieces: what was shown is what the whole text shows without secrets."""
    text = before + secret + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    scrub = Scrubber([secret])
    stream = StreamScrubber(scrub)
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown = "".join(stream.feed(piece) for piece in pieces) + stream.end()
    assert secret not in shown and secret not in scrub(text)


LONG = "sk-proj-Zq7Wm3Kx9Lp2Vb8Nc4Rt6Yh1Jd5Fg0SaXe/+?"


def disguises(key: str) -> dict[str, str]:
    """Return a key as servers and libraries write it."""
    raw = key.encode()
    coded = {
        f"base64 behind {len(before)} bytes": base64.b64encode(before + raw + b"\r\n").decode()
        for before in (b"", b"Bearer ", b"me:", b"a:", b"user:x")
    }
    safe = {
        f"url-safe {name}": text.replace("+", "-").replace("/", "_").rstrip("=")
        for name, text in coded.items()
    }
    return (
        coded
        | safe
        | {
            "hex": raw.hex(),
            "hex, upper case": raw.hex().upper(),
            "hex with colons": raw.hex(":"),
            "percent": "".join(f"%{byte:02x}" for byte in raw),
            "percent, upper case": "".join(f"%{byte:02X}" for byte in raw),
            "entities": "".join(f"&#{byte};" for byte in raw),
            "entities in hex": "".join(f"&#x{byte:X};" for byte in raw),
            "backslash x": "".join(f"\\x{byte:02x}" for byte in raw),
            "backslash u": "".join(f"\\u{byte:04x}" for byte in raw),
            "upper case": key.upper(),
            "lower case": key.lower(),
            "bytes of Python": str(list(raw)),
            "in lines": f"{key[:20]}\n{key[20:]}",
            "base64 in lines": base64.encodebytes(b"Bearer " + raw * 3).decode(),
            "with blanks of no width": "\u200b".join(key),
            "without its end": key[:-1],
            "backwards": key[::-1],
            "backwards in base64": base64.b64encode(b"x" + raw[::-1]).decode(),
            "backwards in hex": raw[::-1].hex(),
        }
    )


@pytest.mark.parametrize("name", disguises(LONG))
def test_a_key_is_taken_out_in_every_usual_encoding(name: str) -> None:
    """Nothing of it is left but at most the ends of a base64 group, and no text around it is touched."""
    text = disguises(LONG)[name]
    scrub = Scrubber([LONG])
    assert scrub(text) != text
    clean = scrub(f"The server says: {text} - and nothing else.")
    assert REDACTED in clean and text not in clean
    assert clean.startswith("The server says: ") and clean.endswith(" - and nothing else.")
    inner = clean.removeprefix("The server says: ").removesuffix(" - and nothing else.")
    left = inner.replace(REDACTED, "")
    assert len(left) <= (16 if "base64" in name else 2), left
    stream = StreamScrubber(scrub)
    shown = "".join(stream.feed(letter) for letter in f"It says: {text}.") + stream.end()
    assert text not in shown and REDACTED in shown


@pytest.mark.parametrize("secrets", [None, 7, "text", ["one"], {1, LONG}, lambda: None])
def test_a_hosts_model_may_have_secrets_of_any_kind(secrets: Any, tmp_path: Path) -> None:
    """The attribute is paor's own; what else it may be in a host's class stops no tool's error from being told."""

    @tool("web.look", effect="read")
    def look(page: int) -> str:
        """Look."""
        raise RuntimeError(f"no such page, says {LONG}")

    model: Any = ScriptedModel([SELECT("web.look"), PARAMETERS(page=1), STOP, SUCCESS])
    model.secrets = secrets
    with Engine(model, tools=[look], journal=tmp_path / "runs.db") as engine:
        engine.run("Look")
    data = (tmp_path / "runs.db").read_bytes()
    assert b"no such page" in data and (LONG.encode() in data) is (secrets != {1, LONG})


@given(text=st.text(max_size=200))
def test_a_text_without_a_key_stays_as_it_is(text: str) -> None:
    """Whatever escapes, blanks and cases it has."""
    assert Scrubber([LONG])(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("application/json", "send application/pdf, or Application/JSON"),
        ("https://example.com/app", "see https://example.com/other"),
        ("Research Assistant", "a research assistant"),
        ("our-own-word", "Our-own-word, or our-own-wor d"),
        ("ourownword", "it is our own word"),
    ],
)
def test_what_is_no_key_is_taken_out_only_as_it_stands(value: str, text: str) -> None:
    """Headers have titles, types and addresses, local servers a word as their key; replies say such things in other ways."""
    scrub = Scrubber([value])
    assert scrub(text) == text and scrub(f"a {value}.") == f"a {REDACTED}."


@pytest.mark.parametrize("key", [KEY, "my-local-key", *sorted(PLACEHOLDERS)])
def test_a_call_that_changes_something_is_made_with_what_was_said_or_not_at_all(key: str) -> None:
    """A key is taken out of a reply before it is read: the call is asked for again, and no words that many servers are given are keys."""
    made: list[str] = []

    @tool("letters.send", effect="once")
    def send(words: str) -> str:
        """Send a letter."""
        made.append(words)
        return "sent"

    said = f"receipt {key} for this payment"
    replies = [select("letters.send"), parameters(words=said), parameters(words="receipt"), STOP, SUCCESS]
    with model_server() as server:
        wire = WIRES[0]
        model = wire.model(server.url, api_key=key, port=QuickPort(), stream=False)
        if key in PLACEHOLDERS:  # taken at once
            del replies[2]
        server.script(*(plain(wire.body(json.dumps(item))) for item in replies))
        engine = Engine(model, tools=[send], journal=Journal(":memory:", "off"), builtins=False)
        engine.run("Send it", profile="two_stage")
        asked = [json.dumps(item.body) for item in server.requests]
    assert made == [said if key in PLACEHOLDERS else "receipt"]
    assert any("holds a key" in text for text in asked) is (key not in PLACEHOLDERS)


@pytest.mark.parametrize("scheme", ["Bearer ", "Token token="])
def test_a_key_behind_words_of_its_header_is_a_key(scheme: str) -> None:
    assert scheme not in Scrubber([f"{scheme}{LONG}"])(f"got {scheme}{LONG}")
    assert Scrubber([f"Bearer {LONG}"])(f"got {LONG.upper()}") == f"got {REDACTED}"


def test_blanks_without_end_are_not_held_back_for_ever() -> None:
    """They may stand within a key; a server that sends nothing else would be held in memory, each piece with all before."""
    stream = StreamScrubber(Scrubber([LONG]))
    shown = sum(len(stream.feed(piece)) for piece in ("s", *[" " * 100] * 300))
    assert shown > 20_000 and shown + len(stream.end()) == 30_001


def test_a_tools_own_error_is_told_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the environment, whatever the model; in answer, journal and what the model is shown."""
    monkeypatch.setenv("OPENAI_API_KEY", LONG)

    @tool("web.look", effect="read")
    def look(page: int) -> str:
        """Look."""
        raise RuntimeError(f"cannot reach https://example.com/?key={LONG} ({LONG.encode().hex()})")

    script = [SELECT("web.look"), PARAMETERS(page=1), STOP, SUCCESS]
    with Engine(ScriptedModel(script), tools=[look], journal=tmp_path / "runs.db") as engine:
        engine.run("Look")
    data = (tmp_path / "runs.db").read_bytes()
    assert LONG.encode() not in data and LONG.encode().hex().encode() not in data
    assert b"RuntimeError: cannot reach" in data


class Holding(ScriptedModel):
    """A model whose client holds a key, as those of the providers do."""

    keys = frozenset({LONG})

    def __init__(self, replies: list[Any]) -> None:
        super().__init__(replies)
        self.asked = ""

    def ask(self, call: Any) -> Any:
        """Note what it is asked."""
        self.asked += repr(call)
        return super().ask(call)


def _is_in(data: bytes) -> bool:
    coded = base64.b64encode(LONG.encode()).rstrip(b"=")
    return any(
        form in data for form in (LONG.encode(), LONG[::-1].encode(), coded, LONG.encode().hex().encode())
    )


_SAID: dict[str, Any] = {
    "text": lambda: f"it says {LONG}",
    "coded": lambda: f"it says {LONG.encode().hex()}",
    "data": lambda: {LONG: [{"a": LONG}, 2]},
    "bytes": lambda: b"\x00\xff" + LONG.encode() + b"\x00",
    "document": lambda: ToolOutput(documents=[Document(f"{LONG}.txt", LONG)], notes=[f"note {LONG}"]),
    "long": lambda: f"{'words ' * 10_000}{LONG}",
    "page": lambda: ToolOutput(
        web=[WebFact(url=f"https://e.org/{LONG}", key_points=(LONG,), entities=(LONG,))]
    ),
}


@pytest.mark.parametrize("form", _SAID)
def test_what_a_tool_returns_is_kept_without_the_keys_of_the_runs_model(form: str, tmp_path: Path) -> None:
    """In the journal and in every request that follows."""

    looked: list[str] = []

    @tool("web.look", effect="once")
    def look(page: int) -> Any:
        """Look."""
        looked.append("looked")
        return _SAID[form]()

    model = Holding([SELECT("web.look"), PARAMETERS(page=1), STOP, SUCCESS])
    with Engine(model, tools=[look], journal=tmp_path / "runs.db") as engine:
        result = engine.run("Look")
    assert result.state == "Done" and looked == ["looked"]
    assert not _is_in(model.asked.encode()) and not _is_in((tmp_path / "runs.db").read_bytes())
    assert REDACTED.encode() in (tmp_path / "runs.db").read_bytes()


def test_what_hosts_people_and_tools_say_is_kept_without_the_keys_of_the_runs_model(tmp_path: Path) -> None:
    """Objective, criteria, documents, context, metadata; a tool's question, and the answer with reason and actor."""
    told: list[Any] = []

    @tool("web.look", effect="once")
    def look(page: int, context: ToolContext) -> str:
        """Look."""
        if context.resumption is None:
            raise AnswerNeeded(f"Is it {LONG}?", {"type": "object", "description": LONG}, {"seen": LONG})
        told.append(context.resumption)
        return "done"

    model = Holding([SELECT("web.look"), PARAMETERS(page=1), STOP, SUCCESS])
    with Engine(model, tools=[look], journal=tmp_path / "runs.db") as engine:
        waiting = engine.run(
            f"Look for {LONG}",
            [f"{LONG} is found"],
            documents=[(f"{LONG}.txt", f"it is {LONG}"), ("raw.bin", b"\xff" + LONG.encode())],
            context=f"We have {LONG}",
            metadata={"customer": LONG},
        )
        assert waiting.waiting_for is not None and not _is_in(waiting.waiting_for.message.encode())
        answer = {"said": [LONG, 2]}
        result = engine.resume(waiting.run_id, answer=answer, actor=f"by {LONG}")
        with pytest.raises(UsageError, match="holds a key of the model's server"):
            engine.run("Look", key=LONG)
    assert result.state == "Done" and not _is_in(repr(told).encode()) and REDACTED in repr(told)
    assert not _is_in(model.asked.encode()) and not _is_in((tmp_path / "runs.db").read_bytes())


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        ({"api_key": "lm-studio"}, "lm-studio serves it"),
        ({"headers": {"X-Title": "Research Desk 2", "anthropic-beta": "prompt-caching-2024-07-31"}}, None),
        ({"base_url": "http://127.0.0.1:9/v1?api-version=2024-10-21"}, "since 2024-10-21"),
    ],
)
def test_what_is_no_key_by_its_name_stays_in_what_is_said(
    model: dict[str, Any], texts: str | None, tmp_path: Path
) -> None:
    """A document may say the title, the version or the word that a server of one's own is given."""
    held = OpenAIModel("m", **{"base_url": "http://127.0.0.1:9/v1", "api_key": LONG, **model})
    said = texts or " ".join(model["headers"].values())
    scrub = said_scrubber(held)
    assert scrub.of_said(said) == said and scrub.of_data({said: [said]}) == {said: [said]}
    if "api_key" not in model:
        assert scrub.of_said(LONG) == REDACTED


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("/v1/0123456789abcdef0123456789abcdef/desk/openai", "0123456789abcdef0123456789abcdef"),
        ("/gw/f47ac10b-58cc-4372-a567-0e02b2c3d479/v1", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
        ("/t/Ab3dEf6hIj9kLm2nOp5q/v1", "Ab3dEf6hIj9kLm2nOp5q"),
        ("/openai/deployments/gpt-4o-mini-2024-07-18/v1", ""),
    ],
)
def test_a_key_in_the_path_of_an_address_is_one(path: str, secret: str) -> None:
    """As gateways have them; a version or the name of a model is none."""
    with model_server() as server:
        server.script(plain(f"no such path: {path}", status=403))
        model = OpenAIModel("m", base_url=f"{server.url}{path}", api_key=KEY)
        with pytest.raises(ModelUnavailable) as caught:
            model.ask(_call())
    shown = caught.value.message + repr(model)
    assert secret not in shown if secret else path in shown


def _behind(offset: int, key: str) -> str:
    return base64.b64encode(b"x" * offset + key.encode() + b"y").decode()


CODED: dict[str, Callable[[str], str]] = {
    "as it stands": lambda key: key,
    "upper case": lambda key: key.upper(),
    "lower case": lambda key: key.lower(),
    "backwards": lambda key: key[::-1],
    "hex": lambda key: key.encode().hex(),
    **{f"base64 behind {offset}": partial(_behind, offset) for offset in range(3)},
    "base64 of a URL": lambda key: base64.urlsafe_b64encode(b"xx" + key.encode()).decode(),
}


@pytest.mark.parametrize("size", [0, 60_000], ids=["short", "long"])
@pytest.mark.parametrize("form", CODED)
def test_a_key_is_taken_out_of_texts_and_bytes_of_any_length(form: str, size: int) -> None:
    """In each form, between other words, letters with two in lower case among them, and in binary data."""
    scrub, coded = Scrubber([LONG]), CODED[form](LONG)
    middle = coded[4:-4]  # base64 shares its ends with what is around
    for around in ("words \u00e4 ", "words \u0130 "):
        said = around * (size // len(around) + 1) + coded + " and more"
        kept = scrub.of_said(said)
        assert middle not in kept and kept.startswith(around) and kept.endswith(" and more")
    data = bytes(range(128, 256)) * (size // 128 + 1) + coded.encode() + b"\xff\x00"
    clean = scrub.of_bytes(data)
    assert middle.encode() not in clean and clean[:128] == data[:128] and clean.endswith(b"\xff\x00")


@pytest.mark.parametrize("size", [0, 60_000], ids=["short", "long"])
@pytest.mark.parametrize("code", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_key_is_taken_out_of_bytes_in_each_encoding(code: str, size: int) -> None:
    """Of Unicode; what is around it stays, and other bytes stay as they are."""
    scrub, around = Scrubber([LONG]), "words \u00e4 " * (size // 8 + 1)
    clean = scrub.of_bytes((around + LONG + " end").encode(code))
    assert LONG not in clean.decode(code, "replace") and clean.decode(code) == f"{around}{REDACTED} end"
    plain = bytes(range(256)) * (size // 256 + 1)
    assert scrub.of_bytes(plain) == plain
