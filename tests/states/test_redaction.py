"""Redaction: no piece of a secret leaves with an export, and what leaves still verifies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Journal
from paor.audit import Redaction
from paor.errors import UsageError
from paor.fsm.transfer.export import line_bytes
from paor.fsm.transfer.redaction import DEFAULT_RULES, rules_of_text

from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, engine

SECRETS = {
    "provider_key": "sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA",
    "github_token": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "gitlab_token": "glpat-x7Yz_q4Wv9Kp2Lm8Nr5T",
    "aws_key": "AKIAIOSFODNN7EXAMPLE",
    "google_key": "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "slack_token": "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOHBrzbqgy",
    "stripe_key": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "json_web_token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "bearer_token": "Authorization: Bearer mF_9.B5f-4.1JqM0aGVsbG8gd29ybGQ",
    "basic_login": "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    "url_password": "postgres://admin:cORr3ct-horse@db.example.org/app",
    "assigned_secret": "password = xK9#mQ2$vL5!pR8",
    "private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq1\nwVq9bYx0K\n-----END RSA PRIVATE KEY-----",
}
PLAIN = (
    "The task-force met on 3 May; risk-adjusted-returns-of-the-portfolio are up. See https://example.org/a:b@c. "
    "The password is kept in the safe, the basic idea is a bearer of good news. max_steps: 5, token_budget: 100000."
)


def exported(folder: Path, secret: str, redact: object, *, cut: int = 400) -> bytes:
    """Return the export of a run in which a secret is in a document, an argument, a reply and prompts."""
    script = [
        SELECT("notes.send", {"text": "string"}, learnings=[f"they wrote {secret[:cut]}"]),
        PARAMETERS(text=f"first {secret}\nthen more"),
        CONTINUE | {"hint": f"do not say {secret}"},
        *READ(4),
        STOP,
        SUCCESS,
    ]
    with engine(folder, script) as scripted:
        run_id = scripted.run("Send it on", documents=[("a.env", f"line\n{secret}\nline")]).run_id
        lines = scripted.journal.export(run_id, redact=redact)  # type: ignore[arg-type]
        return b"".join(line_bytes(line) for line in lines)


def leaked(data: bytes, secret: str, least: int = 8) -> list[str]:
    """Return the pieces of a secret's longest word that stand in an export."""
    word = max(secret.replace("@", " ").replace(":", " ").split(), key=len)
    text = data.decode().casefold()
    pieces = (word[start : start + least] for start in range(len(word) - least + 1))
    return [piece for piece in pieces if piece.casefold() in text]


@pytest.mark.parametrize("rule", SECRETS)
def test_a_secret_of_each_form_stays_behind(rule: str, tmp_path: Path) -> None:
    """The rest goes, with a record that names the rules; it is taken in elsewhere, verifies, and exports again."""
    assert SECRETS.keys() == DEFAULT_RULES.keys()
    whole = exported(tmp_path, SECRETS[rule], None)
    assert leaked(whole, SECRETS[rule])
    (tmp_path / "again").mkdir()
    data = exported(tmp_path / "again", SECRETS[rule], True)
    assert leaked(data, SECRETS[rule]) == []
    assert b"Page 4: the supplier" in data
    record = next(json.loads(line) for line in data.splitlines() if line.startswith(b'{"line":"erasure"'))
    told = json.loads(record["rule"])
    assert told["by"] == "redaction" and rule in told["rules"]
    with Journal(tmp_path / "to.db") as journal:
        (done,) = journal.import_lines([line + b"\n" for line in data.split(b"\n") if line])
        assert journal.verify() == []
        assert b"".join(line_bytes(line) for line in journal.export(done.run_id)) == data
        assert b"".join(line_bytes(line) for line in journal.export(done.run_id, redact=True)) == data


def test_a_secret_that_was_cut_stays_behind_too(tmp_path: Path) -> None:
    """No rule fits what is left of it, but it is a piece of what one has found."""
    secret = SECRETS["provider_key"]
    assert leaked(exported(tmp_path, secret, True, cut=12), secret) == []


def test_nothing_is_left_out_where_there_is_no_secret(tmp_path: Path) -> None:
    """Usual words and settings are none: both exports are the same."""
    (tmp_path / "again").mkdir()
    assert exported(tmp_path, PLAIN, None) == exported(tmp_path / "again", PLAIN, True)


def test_rules_of_ones_own_are_added(tmp_path: Path) -> None:
    """By name; the shipped ones still hold."""
    secret = "employee 4711-0815-2222"
    data = exported(tmp_path, secret, {"employee": r"employee (?P<secret>[\d-]{10,})"})
    assert b"4711-081" not in data and b'\\"rules\\":[\\"employee\\"]' in data


@given(
    st.text(
        st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\"'\\,;{}[]"),
        min_size=12,
        max_size=60,
    )
)
def test_whatever_a_rule_finds_is_found_within_json_within_json(secret: str) -> None:
    """However deep it was escaped."""
    rules = Redaction()
    text = f"api_key={secret}"
    for _ in range(3):
        assert "assigned_secret" in rules.found_in(text)
        text = json.dumps({"deep": text})


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"Bad Name": "x"}, "a name is of a-z"),
        ({"x": "("}, "is no regular expression"),
        ({"x": ""}, "a pattern is a text"),
        ({"x": "a*"}, "fits an empty text"),
        ({"x": 7}, "a pattern is a text"),
        ({"x": "a" * 3000}, "at most 2000"),
        ({f"r{n}": "abc" for n in range(300)}, "at most 200"),
        (7, "redact takes True"),
    ],
)
def test_rules_that_cannot_be_used_are_told(rules: object, message: str, tmp_path: Path) -> None:
    """Before anything is exported."""
    with pytest.raises(UsageError, match=message):
        exported(tmp_path, "nothing", rules)


def test_a_file_of_rules_has_one_a_line() -> None:
    """Comments and empty lines are left out; a line of another form is told with its number."""
    assert rules_of_text("# mine\n\nbadge: B-[0-9]{6}\ncolon: a:b\n", "f") == {
        "badge": "B-[0-9]{6}",
        "colon": "a:b",
    }
    for text, message in (
        ("badge", "line 1: expected NAME"),
        ("a: x\na: y", "line 2: the rule a stands twice"),
    ):
        with pytest.raises(UsageError, match=message):
            rules_of_text(text, "f")
