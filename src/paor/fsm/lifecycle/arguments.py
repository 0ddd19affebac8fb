"""What a caller hands in, checked before anything is started: documents, tools, model, templates."""

from __future__ import annotations

import inspect
import mimetypes
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...prompts.building.builder import PLACEHOLDERS, REPORTED
from ...prompts.building.templates import (
    NAMES,
    default_templates,
    other_form,
    parse_template,
    report_templates,
    single_stage_templates,
)
from ...prompts.model import Model
from ...states.base.errors import MissingExtra, UsageError
from ...states.records.observations import clean
from ...states.settings.limits import Limits
from ...states.settings.profile import AUTO, NAMED, Profile
from ...tools.catalog import fold_name
from ...tools.documents.tools import builtin_tools
from ...tools.tool import Document, Tool
from ..runtime.events import Event

DEFAULT_MODELS = {
    "OPENAI_API_KEY": "openai:gpt-6.1-sol",
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-5-5",
    "ANTHROPIC_AUTH_TOKEN": "anthropic:claude-sonnet-5-5",
}
"""What ``auto`` means, by the first of these keys that is in the environment."""

RULES_MAX = 7
"""Most business rules of a selection prompt."""

_KEY = re.compile(r"\{\{KEY:(.*?)\}\}")
_OBJECTIVE_NEEDED = ("opening", "turn", "plan")
"""Templates without which nothing tells the model what a run is for."""

_STAGE_TEMPLATES = frozenset(("opening", "selection", "parameters", "parameters_full", "refinement"))
"""Templates that are asked in two stages only."""

Hook = Callable[[Event], None]
DocumentLike = str | os.PathLike[str] | Document | tuple[str, str | bytes]


def documents_of(given: Sequence[DocumentLike], *, size_max: int) -> list[Document]:
    """
    Return *given* as documents: paths are read, documents and (name, content) pairs taken as they are.

    Raises:
        UsageError: A file that is missing, a directory, unreadable, empty or too large; all are named.
    """
    if isinstance(given, str | bytes | os.PathLike | Mapping) or not isinstance(given, Iterable):
        raise UsageError("documents must be a list, such as ['contract.pdf']")
    documents: list[Document] = []
    problems: list[str] = []
    for item in given:
        try:
            documents.append(_document(item, size_max))
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("; ".join(problems))
    return documents


def _document(item: DocumentLike, size_max: int) -> Document:
    if isinstance(item, Document):
        document = item
        if not (isinstance(item.name, str) and isinstance(item.mime, str)):
            raise UsageError(f"a document's name and mime are texts, not {item.name!a} and {item.mime!a}")
    elif isinstance(item, tuple) and len(item) == 2:
        name, data = item
        known = isinstance(data, str | bytes)  # what is neither is refused below
        document = Document(str(name), data, mime_of(str(name), data) if known else "")
    elif isinstance(item, str | os.PathLike):
        document = _read(Path(item), size_max)
    else:
        raise UsageError(f"a document is a path, a Document or (name, content), not {type(item).__name__}")
    if not isinstance(document.data, str | bytes):
        raise UsageError(
            f"{document.name}: a document's content is text or bytes, not {type(document.data).__name__}"
        )
    if not document.data:
        raise UsageError(f"{document.name}: the document is empty")
    if document.size_bytes > size_max:
        raise UsageError(f"{document.name}: {document.size_bytes} bytes, at most {size_max} are taken")
    return document


def _read(path: Path, size_max: int) -> Document:
    try:
        if path.is_dir():
            raise UsageError(f"{path}: is a directory; name the files in it")
        if path.stat().st_size > size_max:
            raise UsageError(f"{path}: {path.stat().st_size} bytes, at most {size_max} are taken")
        with path.open("rb") as file:
            data = file.read(size_max + 1)  # a pipe or device does not tell its size
        if len(data) > size_max:
            raise UsageError(f"{path}: more than {size_max} bytes, no more are taken")
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from None
    except UsageError:
        raise
    except ValueError:
        raise UsageError(f"{str(path)!r}: is not a file name") from None
    return Document(path.name, data, mime_of(path.name, data))


def mime_of(name: str, data: str | bytes) -> str:
    """Return the media type: by content for bytes, by the name's ending for text."""
    if isinstance(data, str):
        return mimetypes.guess_type(name)[0] or "text/plain"
    from ...tools.documents.convert.registry import sniff_mime

    return sniff_mime(name, data)


def toolbox(given: Sequence[Tool], *, builtins: bool) -> dict[str, Tool]:
    """
    Return the tools by name, a host's own before the built-in ones of the same name.

    Raises:
        UsageError: Something that is no tool, or two tools of one name.
    """
    tools: dict[str, Tool] = {}
    if isinstance(given, Tool) or not isinstance(given, Iterable):
        raise UsageError("tools must be a list of tools, such as [lookup]")
    for tool in given:
        if not isinstance(tool, Tool):
            raise UsageError(
                f"{tool!r} is not a tool; decorate a function with @tool(...) or make a Tool(...)"
            )
        if tool.run is None:
            raise UsageError(f"tool {tool.name}: run= is missing")
        if any(fold_name(tool.name) == fold_name(name) for name in tools):
            raise UsageError(f"there are two tools named {tool.name}")
        tools[tool.name] = tool
    if builtins:
        own = {fold_name(name) for name in tools}
        tools |= {tool.name: tool for tool in builtin_tools() if fold_name(tool.name) not in own}
    return tools


def hooks_of(given: Sequence[Hook]) -> tuple[Hook, ...]:
    """
    Return the hooks of an engine.

    Raises:
        UsageError: Something that is no list of functions.
    """
    hooks = tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(callable(hook) and not inspect.iscoroutinefunction(hook) for hook in hooks):
        raise UsageError("hooks must be a list of functions, not async, that take an event, such as [print]")
    return hooks


def offered_tools(tools: Mapping[str, Tool], names: Sequence[str] | None) -> tuple[Tool, ...]:
    """
    Return the tools that one run is offered; None offers all.

    Raises:
        UsageError: A name that no tool has; it fails fast.
    """
    if names is None:
        return tuple(tools.values())
    listed = isinstance(names, Iterable) and not isinstance(names, str | bytes | Mapping)
    names = list(names) if listed else ()
    if not listed or not all(isinstance(name, str) for name in names):
        raise UsageError("the tools of a run must be a list of names")
    by_key = {fold_name(name): tool for name, tool in tools.items()}
    unknown = [name for name in names if fold_name(name) not in by_key]
    if unknown:
        raise UsageError(f"unknown tool {', '.join(map(repr, unknown))}; there are: {', '.join(tools)}")
    return tuple(dict.fromkeys(by_key[fold_name(name)] for name in names))


def check_deps(tools: Iterable[Tool], deps: Any) -> None:
    """
    Refuse tools that use the host's ``deps`` where there are none.

    Raises:
        UsageError: One of *tools* needs them, and *deps* is None.
    """
    lacking = [tool.name for tool in tools if tool.needs_deps] if deps is None else []
    if lacking:
        raise UsageError(
            f"{', '.join(lacking)} uses deps, and none are given: pass deps=... here, or to Engine"
        )


_DEFAULT_PROFILE = Profile()


def templates_of(
    given: Mapping[str, str] | None,
    own: str | None = None,
    *,
    mode: str = "react",
    profile: Profile = _DEFAULT_PROFILE,
) -> dict[str, str]:
    """
    Return the templates of a run: the shipped ones of its *mode* and *profile*, replaced by *given*, and *own* for its
    planning prompt.

    Raises:
        UsageError: An unknown template name, text that is no template, a placeholder that nobody fills.
    """
    if not isinstance(given, Mapping | None):
        raise UsageError("prompts must be a mapping of names to templates")
    shipped = default_templates()
    if profile.stage == "single":
        shipped = single_stage_templates()
    elif profile.strict or profile.stage == "native" or mode != "react":
        shipped = report_templates()
    replaced = dict(given or {}) | ({planning_template(mode, profile.stage): own} if own else {})
    for name, text in replaced.items():
        if name not in NAMES:
            raise UsageError(f"unknown prompt {name!r}; there are: {', '.join(NAMES)}")
        if not isinstance(text, str):
            raise UsageError(f"prompt {name}: expected text")
        if name == "plan" and (instead := other_form(text)) is not None:
            raise UsageError(f"prompt {name}: {instead}")
        parse_template(text, name)
        for key in _KEY.findall(text):
            if key not in PLACEHOLDERS[name]:
                known = ", ".join(sorted(PLACEHOLDERS[name]))
                raise UsageError(
                    f"prompt {name}: nothing is ever put in place of {key!a}; there are: {known}"
                )
        whole = "opening" not in shipped or REPORTED & set(_KEY.findall(text))  # not behind a conversation
        chosen = name == "selection" and mode == "react" and profile.stage != "native"
        needed = name in _OBJECTIVE_NEEDED or (chosen and whole)
        if needed and "{{KEY:OBJECTIVE}}" not in text:
            raise UsageError(
                f"prompt {name}: {{{{KEY:OBJECTIVE}}}} is missing, so the model would not see what it is asked for"
            )
    return shipped | replaced


def profile_of(
    given: Profile | str | None,
    stage: str | None = None,
    *,
    mode: str = "react",
    usual: Profile | None = None,
) -> Profile | None:
    """
    Return the profile of a run; None for ``auto``, which is chosen by what its model can do (`auto_profile`).

    Args:
        given: ``auto``, ``native``, ``two_stage``, ``strict``, or a value; None: the *usual* one.
        stage: Instead of the profile's.
        mode: Of the run. Only in react mode there is a choice: elsewhere ``auto`` means ``two_stage``.
        usual: The engine's; None for ``auto``.

    Raises:
        UsageError: Neither a profile nor the name of one, an unknown stage, or native calls asked for in another *mode* than
            react.
    """
    if given is None and usual is not None:
        given = usual if mode == "react" or usual.stage != "native" else _with_stage(usual, "two_stage")
    if given is None or given == AUTO:
        if stage is None and mode == "react":
            return None
        given = Profile()
    if isinstance(given, str):
        if given not in NAMED:
            raise UsageError(
                f"profile {given!r} is unknown; use {AUTO}, {', '.join(NAMED)}, or a Profile value"
            )
        given = Profile(**NAMED[given])
    if not isinstance(given, Profile):
        raise UsageError(
            f"profile must be {AUTO}, {', '.join(NAMED)}, or a Profile value, not {type(given).__name__}"
        )
    found = given if stage is None else _with_stage(given, stage)
    if found.stage == "native" and mode != "react":
        raise UsageError(f"the profile native is for the mode react, not {mode}")
    return found


def _with_stage(profile: Profile, stage: str) -> Profile:
    return Profile(**(profile.model_dump() | {"stage": stage}))


def auto_profile(prompts: Mapping[str, str], own: str | None, *, calls_tools: bool) -> Profile:
    """
    Return the profile that ``auto`` chooses in react mode: ``native`` for a model that calls tools, else ``two_stage``.

    A host that has written prompts of the two stages and none for turns gets the two stages, since its prompts would not be
    asked otherwise.

    Args:
        prompts: The engine's own templates.
        own: The run's own planning template.
        calls_tools: Whether the model does.
    """
    for_stages = bool(_STAGE_TEMPLATES & prompts.keys()) and "turn" not in prompts
    if own is not None:
        for_stages = not PLACEHOLDERS["turn"] >= set(_KEY.findall(own))
    return Profile(**NAMED["native" if calls_tools and not for_stages else "two_stage"])


def rules_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """
    Return a host's own business rules; none for the shipped ones.

    Raises:
        UsageError: More than seven, or one that is no line of text.
    """
    if given is None:
        return ()
    rules = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
    if not all(isinstance(rule, str) and rule.strip() and len(rule.splitlines()) == 1 for rule in rules):
        raise UsageError("rules must be a list of texts of one line each")
    if not 1 <= len(rules) <= RULES_MAX:
        raise UsageError(f"{len(rules)} rules are given; there may be 1 to {RULES_MAX}")
    return tuple(clean(str(rule).strip()) for rule in rules)


def planning_template(mode: str, stage: str = "two_stage") -> str:
    """Return the name of the template that plans in *mode* and the profile's *stage*: what a run can bring itself."""
    if mode != "react":
        return "plan"
    return "turn" if stage == "native" else "selection"


def model_of(given: Model | str | None) -> Model:
    """
    Return a model from an instance or its name.

    Names are ``offline``, ``openai:NAME``, ``anthropic:NAME``, ``script:FILE``, or ``auto`` (default): what
    ``PAOR_MODEL`` names, else the provider whose key is in the environment, else ``offline``.

    Raises:
        UsageError: An unknown name, an unusable script, no key.
        MissingExtra: The provider's SDK is not installed.
    """
    if given is None or given == "auto":
        given, variable = automatic()
        try:
            return model_of(given)
        except MissingExtra as error:
            why = f"; {variable} has chosen the model: name another one, such as offline" if variable else ""
            raise MissingExtra(f"{error}{why}") from None
    if given == "offline":
        from ...prompts.offline import OfflineModel

        return OfflineModel()
    if not isinstance(given, str):
        if not (hasattr(given, "name") and (hasattr(given, "ask") or hasattr(given, "aask"))):
            raise UsageError(f"{type(given).__name__} is not a model; it needs name, and ask or aask")
        name = given.name
        if not (
            isinstance(name, str) and name and name.isascii() and name.isprintable() and len(name) <= 200
        ):
            raise UsageError(f"{type(given).__name__}: a model's name is 1 to 200 printable ASCII characters")
        return given
    kind, _, rest = given.partition(":")
    if kind == "script":
        return scripted_model(Path(rest))
    if kind == "openai" and rest:
        from ...prompts.clients.openai import OpenAIModel

        return OpenAIModel(rest)
    if kind == "anthropic" and rest:
        from ...prompts.clients.anthropic import AnthropicModel

        return AnthropicModel(rest)
    raise UsageError(f"unknown model {given!r}; use openai:NAME, anthropic:NAME, offline or script:FILE")


def check_priced(model: Model, limits: Limits) -> None:
    """
    Refuse a budget of money for a model whose price nobody knows: it could never stop the run.

    Raises:
        UsageError: *limits* have a ``cost_budget``, and *model* says that it has no price.
    """
    if limits.cost_budget is not None and getattr(model, "is_priced", True) is False:
        raise UsageError(
            f"cost_budget cannot hold: no price is known for {model.name}; give one in a price list"
            ' (PAOR_PRICES=FILE or prices=), "0" where it costs nothing'
        )


def automatic() -> tuple[str, str]:
    """Return the name of the model that the environment decides for, and the variable that does; no variable: ``offline``."""
    named = os.environ.get("PAOR_MODEL", "").strip()
    if named and named != "auto":
        return named, "PAOR_MODEL"
    found = ((model, key) for key, model in DEFAULT_MODELS.items() if os.environ.get(key))
    return next(found, ("offline", ""))


def text_of_file(path: Path, bytes_max: int) -> str:
    """
    Return the text of a file, without a byte order mark.

    Raises:
        UsageError: It is missing, unreadable, longer than *bytes_max* bytes, or not UTF-8; one line that names it.
    """
    name = clean(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return text_of_data(data, name, bytes_max)


def text_of_data(data: bytes, name: str, bytes_max: int) -> str:
    """Return *data*, read up to a byte more than *bytes_max*, as `text_of_file` does."""
    if len(data) > bytes_max:
        raise UsageError(f"{name}: more than {bytes_max:,} bytes, no more are read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: is not UTF-8 text") from None


def scripted_model(path: Path) -> Model:
    """
    Return the scripted model of a file: a JSON list of replies, or one JSON reply a line.

    Raises:
        UsageError: The file is missing or holds something else.
    """
    import json

    from ...prompts.scripted import ScriptedModel

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise UsageError(f"script {path}: {reason}") from None
    replies: Any
    try:
        replies = (
            json.loads(text) if text.lstrip().startswith("[") else list(map(json.loads, text.splitlines()))
        )
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"script {path}: expected a JSON list of replies or one reply a line ({error})"
        ) from None
    return ScriptedModel(replies)
