"""Engines with a machine of their own on the command line: run, resume, fork, recover, replay, show and the pictures."""

from __future__ import annotations

import json

import pytest

from paor import Machine

from ..support.cli_support import Shell

SHOP = '''
from paor import Engine, Machine, Phase, ScriptedModel, tool
from paor.testing import call, refine

@tool("tests.run", effect="read")
def run_tests() -> str:
    """Run the tests."""
    return "all passed"

def is_open(context) -> bool:
    """The shop is open."""
    return bool(context.values.get("open"))

MACHINE = (
    Machine.standard()
    .phase(Phase("Verifying", tool="tests.run"))
    .phase(Phase("Asking", question="Go on?"))
    .row("Reviewing", "verify", "Verifying", when=("review_success", is_open), before="finish")
    .row("Verifying", "ask", "Asking", when="succeeded")
    .row("Verifying", "give_up", "Failed")
    .row("Asking", "finish", "Done", when="succeeded")
    .row("Asking", "turn_down", "Failed")
)

def engine(journal):
    script = [*call("tests.run"), refine("stop", answer="ok")]
    return Engine(ScriptedModel(script), tools=[run_tests], journal=journal, machine=MACHINE)

def endless(journal):
    machine = MACHINE.row("Asking", "again", "Verifying", when="is_open", before="finish")
    return Engine("offline", tools=[run_tests], journal=journal, machine=machine)
'''
APP = ("--app", "host_shop:engine")
OPEN = ("--values", '{"open": true}')


@pytest.fixture
def shop(shell: Shell) -> Shell:
    shell.write("host_shop.py", SHOP)
    return shell


def test_a_run_waits_in_an_own_phase_and_goes_on(shop: Shell) -> None:
    said = shop("run", "Do it", *APP, *OPEN)
    assert said.code == 5 and "Go on?" in said.out + said.err
    assert "Asking (waiting)" in shop("runs").out
    shown = shop("show", "last").out
    assert "values" in shown and '{"open": true}' in shown
    assert "[review_success, is_open]" in shown and "succeeded" in shown and "Reviewing" in shown
    row = shop("show", "last", "--row", "5").out
    assert "verify → Verifying" in row and "The shop is open." in row and "is_open" in row
    asked = shop("show", "last", "--row", "10").out
    assert "ask → Asking" in asked and "succeeded" in asked
    refused = shop("resume", "last", "--answer", '{"action": "accept"}')
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert "walks a machine of its host's own" in refused.err and "--app" in refused.err
    done = shop("resume", "last", "--answer", '{"action": "accept"}', *APP)
    assert done.code == 0 and done.out == "ok\n"
    assert "identical" in shop("replay", "last", *APP).out and shop("replay", "last").code == 0
    assert shop("fork", "last", "--at", "5", "--no-run", *APP).code == 0
    assert shop("recover", *APP).code == 0
    assert "Asking (waiting)" in shop("runs").out


def test_values_come_as_an_option_a_file_or_a_field(shop: Shell) -> None:
    shop.write("values.json", '{"open": true}')
    for given in (
        (*OPEN,),
        ("--values", "values.json"),
        ("--input", '{"objective": "Do it", "values": {"open": true}}'),
    ):
        words = ("run", *APP, *given) if "--input" in given else ("run", "Do it", *APP, *given)
        assert shop(*words).code == 5, given
    closed = shop("run", "Do it", *APP, "--values", '{"open": false}')
    assert closed.code == 0
    assert "verify" not in shop("show", "last").out.split("seq", 1)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "x", *APP, "--values", "[1]"), "expected a JSON object"),
        (("run", "x", *APP, "--values", "{"), "is not JSON"),
        (("run", "x", *APP, "--values", '{"a": NaN}'), "NaN is not a JSON number"),
        (("run", "x", *APP, "--values", "missing.json"), "missing.json: cannot be read"),
        (("run", "x", *APP, "--values", json.dumps({"a": "x" * 70_000})), "are kept"),
        (("run", *APP, "--input", '{"objective": "x", "values": [1]}'), "values must be an object"),
        (("run", "x", "--app", "host_shop:endless"), "the machine cannot be used"),
        (("diagram", "--app", "host_shop:nothing"), "has no nothing"),
        (("diagram", "--app", "host_shop:endless"), "the machine cannot be used"),
        (("diagram", "last", *APP), "a run is drawn on the machine that it has"),
        (("diagram", "--coverage", "--format", "json"), "--format json is the machine"),
    ],
)
def test_what_cannot_be_used_is_one_line(shop: Shell, words: tuple[str, ...], message: str) -> None:
    said = shop(*words)
    assert said.code == 2 and message in said.err and not said.out, said
    assert said.err.count("\n") == 1 and "Traceback" not in said.err
    assert not [name for name in shop.files() if name.endswith(".db")]


def test_the_machine_of_an_engine_and_of_a_run_is_drawn_and_told(shop: Shell) -> None:
    assert "Verifying" not in shop("diagram").out
    for form in ("mermaid", "dot", "svg"):
        assert "Verifying" in shop("diagram", *APP, "--format", form).out
    own = Machine.from_dict(json.loads(shop("diagram", *APP, "--format", "json").out))
    assert {"Verifying", "Asking"} <= own.states.keys()
    assert not [name for name in shop.files() if name.endswith(".db")]
    standard = json.loads(shop("diagram", "--format", "json").out)
    assert Machine.from_dict(standard).rows == Machine.standard().rows
    shop("run", "Do it", *APP, *OPEN)
    walked = shop("diagram", "last").out
    assert "verify ×1 (#" in walked and "turn_down" in walked
    told = json.loads(shop("diagram", "last", "--format", "json").out)
    assert Machine.from_dict(told).rows == own.rows
    shop("run", "Do it", *APP)
    both = shop("diagram", "last~1", "--diff", "last", "--format", "svg")
    assert both.code == 0 and "only A" in both.out and "Verifying" in both.out
