"""`paor tools`, `paor doctor` and `paor completion`: what is here to work with, and a shell that knows it."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from typing import Annotated, Literal, NamedTuple

import click
from click.shell_completion import get_completion_class

from ...fsm.journal.postgres.address import is_address, shown
from ...fsm.lifecycle.arguments import automatic, model_of, toolbox
from ...prompts.clients.background_loop import ask as ask_model
from ...prompts.clients.client import RemoteModel
from ...prompts.clients.prices import MILLION
from ...prompts.clients.settings import checked_url, price_list, shown_url
from ...prompts.model import Model, ModelCall, ModelUnavailable, Notice, PromptMessage
from ...states.base.errors import JournalError, UsageError
from ...states.base.version import VERSION
from ...tools.catalog import Catalog
from ...tools.web.search import backend_of
from ..support import terminal as io
from ..support.app import EngineOptions, asked_tools, engine_alone
from ..support.journals import reading
from ..support.options import command

VARIABLES = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
}
QUESTION = "Reply with the one word: ready"
SQLITE_NEEDED = (3, 38, 0)
"""The first with the operators ``->`` and ``->>``, which the views of a journal use."""
MARKS = {"ok": ("ok", "good"), "missing": ("--", "warn"), "bad": ("no", "bad")}


class DoctorFinding(NamedTuple):
    """One thing that was looked at: ``ok``, ``missing`` (optional, not there) or ``bad`` (paor cannot work), then with an exit code."""

    name: str
    state: str
    text: str
    code: int = io.USAGE


@command("paor tools", "paor tools --app shop:engine --json")
def tools(options: EngineOptions) -> int:
    """
    List the tools that a run can use, as a model sees them: names and parameter names.

    With --json also description, effect and the JSON Schema of the parameters.
    """
    with options.tools() as asked, engine_alone(options.app) as engine:
        found = engine.tools if options.app is not None else toolbox(asked, builtins=True).values()
        catalog = Catalog([tool.spec() for tool in found])
    names = ("name", "description", "effect", "parameters")
    data = [{name: getattr(tool, name) for name in names} for tool in catalog]
    return io.say_either(data, _tool_lines(catalog))


def _tool_lines(catalog: Catalog) -> Iterator[str]:
    for tool in catalog:
        for number, line in enumerate(io.folded(catalog.line(tool).replace(",", ", "), io.width() - 4)):
            yield io.styled(f"    {line}" if number else line, "strong")
        about = io.one_line(f"{tool.description} Effect: {tool.effect}.")
        yield from (io.styled(f"    {line}", "dim") for line in io.folded(about, io.width() - 4))


@command("paor doctor", "paor doctor --journal runs.db --json", "paor doctor --ask --model openai:NAME")
def doctor(
    model: Annotated[str | None, "--model M", "Check this model instead of the one that a run would use."],
    ask: Annotated[bool, "--ask", "Also ask the model one question of a few tokens; may cost money."],
    journal: str,
) -> int:
    """
    Check that paor has everything it needs, and show which model a run would use.

    The network is used only with --ask.

    Exit codes: 0 paor can work, also without optional parts and without a journal; 2 or 4 if it cannot.
    """
    findings = list(_findings(journal, model, ask=ask))
    code = next((item.code for item in findings if item.state == "bad"), io.OK)
    found = [{"name": item.name, "state": item.state, "text": item.text} for item in findings]
    cells: list[list[io.Cell]] = [[MARKS[item.state], item.name, item.text] for item in findings]
    lines = io.table(io.columns("", "", "*"), cells, wrap=True, head=False)
    return io.say_either({"ok": code == io.OK, "findings": found}, lines, code=code)


def _findings(journal: str, model: str | None, *, ask: bool) -> Iterator[DoctorFinding]:
    yield DoctorFinding("paor", "ok", VERSION)
    machine = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield DoctorFinding("python", "ok", machine)
    version, needed = sqlite3.sqlite_version, ".".join(map(str, SQLITE_NEEDED[:2]))
    good, least = sqlite3.sqlite_version_info >= SQLITE_NEEDED, f"{needed} or newer is needed for ->>"
    told = f"{version} ({least})" if good else f"{version} is too old: {least}"
    yield DoctorFinding("sqlite", "ok" if good else "bad", told)
    yield from _extras()
    yield from _providers()
    yield from _model(model, ask=ask)
    try:
        asked_tools(None, web=True)
        name = backend_of(None).name  # without asking it
        keyless = ", which needs no key and is made for small loads" if name == "ddgs" else ""
        yield DoctorFinding("web", "ok", f"searches with {name}{keyless}; offered with --web only")
    except UsageError as error:
        yield DoctorFinding("web", "missing", str(error))
    yield from _journal(journal)


def _extras() -> Iterator[DoctorFinding]:
    """Yield one finding for each extra that users can install, as the package's own metadata lists them."""
    try:
        about = metadata.metadata("paor")
    except metadata.PackageNotFoundError:
        why = "paor is not installed as a package, so its extras are not known"
        yield DoctorFinding("extras", "missing", why)
        return
    needs = [_requirement(line) for line in about.get_all("Requires-Dist") or ()]
    for extra in sorted(set(about.get_all("Provides-Extra") or ()) - {"all", "dev", "docs"}):
        name, versions = f"paor[{extra}]", dict[str, str | None]()
        for package in (package for package, marker in needs if marker == extra):
            versions[package] = None
            with suppress(metadata.PackageNotFoundError):
                versions[package] = metadata.version(package)
        text = ", ".join(f"{package} {version}" for package, version in versions.items())
        if lacking := ", ".join(package for package, version in versions.items() if version is None):
            text = f'without {lacking}: pip install "{name}"'
        yield DoctorFinding(name, "missing" if lacking else "ok", text)


def _requirement(line: str) -> tuple[str, str]:
    """Return the package and the extra of a ``Requires-Dist`` line; the extra is empty for a plain requirement."""
    name = re.match(r"[\w.-]+", line)
    extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", line)
    return name[0] if name else line, extra[1] if extra else ""


def _providers() -> Iterator[DoctorFinding]:
    """Yield for each provider what the environment sets, never a value of a key, and which price list holds."""
    for provider, (*keys, address) in VARIABLES.items():
        known = [f"{key} is set" for key in keys if os.environ.get(key)]
        try:
            if url := os.environ.get(address):
                known.append(f"{address} is {shown_url(checked_url(url, address))}")
            text = "; ".join(known) or f"none of {', '.join((*keys, address))} is set"
            yield DoctorFinding(provider, "ok" if known else "missing", text)
        except UsageError as error:
            yield DoctorFinding(provider, "missing", str(error))
    try:
        prices = price_list(None)
        origin = prices.origin.removeprefix("prices ")
        yield DoctorFinding("prices", "ok", f"{origin}, {len(prices.models)} models")
    except UsageError as error:
        yield DoctorFinding("prices", "missing", str(error))


def _model(given: str | None, *, ask: bool) -> Iterator[DoctorFinding]:
    """Yield what is known of the model that a run would use, or of *given*; with *ask* what it answers."""
    name, variable = (str(given), None) if given not in (None, "auto") else automatic()
    why = ""
    if given is None and os.environ.get("PAOR_MODEL", "").strip():
        why = ", as PAOR_MODEL says"
    elif given is None and variable:
        why = f", as the environment says ({variable})"
    try:
        model = model_of(name)
    except UsageError as error:
        yield DoctorFinding("model", "bad", f"{name}{why}: {error}")
        return
    text = f"{model.name}{why}"
    if isinstance(model, RemoteModel):
        text = f"{text}; {_about(model)}"
    elif given is None and name == "offline":
        why = "as PAOR_MODEL says" if "PAOR_MODEL" in os.environ else "no key in the environment"
        text = f"offline: {why}; works without a network, and quotes sentences instead of writing"
        named = [provider for provider, names in VARIABLES.items() if os.environ.get(names[-1])]
        if named and "PAOR_MODEL" not in os.environ:
            text += f"; for the server of your own name a model: --model {named[0]}:NAME or PAOR_MODEL"
    yield DoctorFinding("model", "ok", text)
    if ask:
        yield _answer(model)


def _about(model: RemoteModel) -> str:
    """Return where a model is, with which SDK it is asked, and what it costs."""
    where = "the provider's own server" if model.base_url is None else shown_url(model.base_url)
    key = "a key is set" if model.has_key else f"without a key ({VARIABLES[model.provider][0]} is not set)"
    price = model.price
    cost = "price not known: costs are counted as 0, and a cost_budget is refused"
    if price is not None:
        cost = f"{price.tokens_in / MILLION:g} in, {price.tokens_out / MILLION:g} out for a million tokens"
    return f"{where}, {key}; {model.provider} {metadata.version(model.provider)}; {cost}"


def _answer(model: Model) -> DoctorFinding:
    """Ask *model* and return the finding; a server that is not there is waited for, and each attempt told."""

    def tell_attempt(notice: Notice) -> None:
        if notice.kind == "retry":
            io.tell(f"paor: {io.one_line(notice.text)}; the next one in {notice.wait_us / 1e6:.1f} s")

    messages = (PromptMessage("system", "Answer in one word."), PromptMessage("user", QUESTION))
    try:
        reply = ask_model(model, ModelCall("text", messages, timeout_s=60, on_notice=tell_attempt))
    except ModelUnavailable as error:
        return DoctorFinding("answer", "bad", f"{error.code}: {error.message}")
    usage = reply.usage
    tokens = f", {usage.tokens_in:,} tokens in and {usage.tokens_out:,} out" if usage is not None else ""
    said = bool(reply.text.strip())
    told = "the model answers" if said else f"the model answered nothing (it ended by {reply.finish})"
    return DoctorFinding("answer", "ok" if said else "bad", f"{told}{tokens}")


def _journal(path: str) -> Iterator[DoctorFinding]:
    """Yield what is in the journal, and which calls were left running: whether they still do, only their process knows."""
    if not (is_address(path) or os.path.lexists(path)):
        yield DoctorFinding("journal", "ok", f"{path}: not there yet; the first run creates it")
        return
    try:
        with reading(path) as opened:
            rows, left = opened.runs(), opened.reader.index.left_calls()
    except (JournalError, UsageError) as error:
        yield DoctorFinding("journal", "bad", str(error), io.exit_code_of(error))
        return
    open_runs = sum(row.status in ("running", "waiting") for row in rows)
    room = "" if is_address(path) else f", {io.size(os.path.getsize(path))}"
    text = f"{shown(path)}: {io.count(len(rows), 'run')}{room}"
    yield DoctorFinding("journal", "ok", text + (f", {open_runs} not ended" if open_runs else ""))
    if left:
        tools = ", ".join(dict.fromkeys(tool for tool, _ in left))
        were = "1 call was" if len(left) == 1 else f"{io.count(len(left), 'call')} were"
        text = f"{were} left running ({tools}; newest in run {left[0][1]}): {LEFT}"
        yield DoctorFinding("tools left", "missing", text)


LEFT = "in threads named paor-tool, until they end or their process does; process=True lets a tool be killed"


@command(
    "paor completion fish > ~/.config/fish/completions/paor.fish",
    'eval "$(paor completion bash)"  # in ~/.bashrc',
    'eval "$(paor completion zsh)"  # in ~/.zshrc',
)
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], ""]) -> int:
    """
    Print the script with which a shell completes commands and options.
    """
    from .. import COMPLETE_VARIABLE

    made = get_completion_class(shell)
    assert made is not None, "click knows these shells"
    found = made(click.Group("paor"), {}, "paor", COMPLETE_VARIABLE)
    script = found.source_template % found.source_vars()
    return io.say_either({"shell": shell, "script": script}, script.strip("\n").split("\n"))
