"""Texts that leave for another program: secrets in any disguise that JSON gives them, at a cut, in headers and under a field's name."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.fsm.transfer.redaction import LOOKED_AT, OutgoingText
from paor.fsm.transfer.text_search import plain, unescaped
from paor.otel.content import Cleaner
from paor.prompts.clients.settings import environment_secrets, outgoing_secrets

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
KNOWN = 'own "key" of\\us 7'
NONE = OutgoingText(())


def escaped(text: str, times: int) -> str:
    """Return *text* within JSON within JSON."""
    for _ in range(times):
        text = json.dumps({"text": text}, ensure_ascii=False)
    return text


@pytest.mark.parametrize("times", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "secret",
    [
        f"the key:\n{TOKEN}",
        "Bearer\nabcdefghijklmnop0123",
        '"password": "hunter2hunter2"',
        "-----BEGIN PRIVATE KEY-----\nabcdefgh\n-----END PRIVATE KEY-----",
        f"mine is {KNOWN}",
    ],
)
def test_a_secret_is_found_behind_any_escapes(secret: str, times: int) -> None:
    """In front of a token on a new line stands the ``n`` of the escape, so as it stands no rule fits it."""
    shown = OutgoingText([KNOWN])(escaped(f"before {secret} after", times))
    assert "[secret redacted]" in shown
    for part in (TOKEN, "ghp_a1", "abcdefgh", "hunter2", "own ", KNOWN, json.dumps(KNOWN)[1:-1]):
        assert part not in shown
    assert "before" in shown


def test_a_secret_that_a_rule_has_found_is_replaced_wherever_else_it_stands() -> None:
    """Said once with its name, a password needs none the second time; so does each of many."""
    names = [f"hunter{number}hunter{number}" for number in range(80)]
    text = " ".join(f"password={name}" for name in names) + " and then " + " ".join(reversed(names))
    assert "hunter" not in NONE(text) and NONE(text).count("[secret redacted]") == 160


@pytest.mark.parametrize("before", range(len(TOKEN) + 2))
def test_no_part_of_a_token_is_left_at_a_cut(before: int) -> None:
    """Wherever the cut is; and a replacement that is shorter shows nothing from behind it."""
    text = "x" * 99 + " " + TOKEN + " tail"
    shown = NONE.beginning(text, 100 + before)
    assert "ghp" not in shown and shown.startswith("x" * 99) and "tail" not in shown
    assert (shown[100:] == "[secret redacted]") is (0 < before <= len(TOKEN))


def test_many_replacements_before_a_cut_bring_nothing_nearer_that_was_not_searched() -> None:
    """What is shown is of the first characters as they stood, though keys are longer than what replaces them."""
    text = f"{TOKEN} " * 2_000
    shown = NONE.beginning(text, 45 * 1_000)
    assert shown == "[secret redacted] " * 1_000
    assert len(text) > 45 * 1_000 + LOOKED_AT


def test_a_field_s_name_makes_its_value_a_secret() -> None:
    """Data are cleaned text by text, and a rule for ``password: ...`` needs both; a number can be one, too."""
    found = Cleaner().data(
        {
            "password": "hunter2hunter2",
            "api_key": [123456789012],
            "page": 123456789012,
            "on": True,
            "no": None,
        }
    )
    assert found == {
        "password": "[secret redacted]",
        "api_key": ["[secret redacted]"],
        "page": 123456789012,
        "on": True,
        "no": None,
    }


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_HEADERS", "OPENAI_CUSTOM_HEADERS"])
def test_the_words_of_a_login_are_secrets_of_their_own(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server repeats the token without its scheme; words of a title stay, because texts are full of them."""
    login = base64.b64encode(b"ann:swordfish-of-ann").decode()
    if variable.startswith("OTEL"):
        monkeypatch.setenv(
            variable,
            "authorization=Bearer%20tokenwithoutdigits,x-title=Production%20service,"
            f"proxy-authorization=Basic%20{login.replace('=', '%3D')},cookie=session%3Dcookieofsession",
        )
        assert "Bearer tokenwithoutdigits" not in environment_secrets()
    else:
        lines = ("Authorization: Bearer tokenwithoutdigits", "X-Title: Production service")
        more = (f"Proxy-Authorization: Basic {login}", "Cookie: session=cookieofsession")
        monkeypatch.setenv(variable, "\n".join((*lines, *more)))
    scrub = OutgoingText(outgoing_secrets())
    for secret in ("tokenwithoutdigits", login, "swordfish-of-ann", "cookieofsession"):
        assert scrub(f"you sent {secret} to us") == "you sent [secret redacted] to us"
    assert scrub("our Production is another service") == "our Production is another service"
    assert "Production service" not in scrub("the Production service said so")


@given(st.text(alphabet='ab"\\\n\tnu0041é', max_size=60), st.integers(0, 3))
def test_a_text_without_escapes_knows_where_its_characters_stood(text: str, times: int) -> None:
    """Step by step it comes to what an export searches; its places lie in order within the text."""
    source = escaped(text, times)
    steps = list(unescaped(source))
    assert steps[0] == (source, range(len(source) + 1)) and steps[-1][0] == plain(source)
    for found, starts in steps:
        assert len(starts) == len(found) + 1 and list(starts) == sorted(starts) and starts[-1] == len(source)
    assert any(text in found for found, _ in steps)
