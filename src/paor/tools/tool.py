"""
A tool: a name, a JSON Schema, a function and an effect class.

Two ways to make one: `@tool("orders.lookup", effect="read")` on a typed Python function, or
``Tool(name=..., parameters={...JSON Schema...}, run=function)``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, cast

from typing_extensions import TypeVar

from ..states.base.errors import UsageError
from ..states.base.sealed import sealed
from ..states.records.actions import Effect, WebFact
from ..states.run.spec import ToolSpec
from ..states.settings.base import shown
from ..states.settings.limits import GUARD_CEILING, TIMEOUT_CEILING, Limits
from ..states.settings.policy import Policy
from .defaults import FILLED
from .signature import bind, context_parameter, importable_name, is_unbound, needs_deps, schema_of, summary_of

F = TypeVar("F", bound=Callable[..., Any])
F_co = TypeVar("F_co", covariant=True)
DepsT_co = TypeVar("DepsT_co", default=Any, covariant=True)
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+\Z")
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_PLAIN = {
    "$defs",
    "$schema",
    "additionalProperties",
    "description",
    "properties",
    "required",
    "title",
    "type",
}
"""Keywords of schemas that name all their parameters."""

_EFFECTS = ("read", "idempotent", "once")

GUARD_LIMITS = {"consecutive_limit": 2, "window_freq_limit": 1}
"""Bounds of the duplicate guard that a tool can have for itself, with the least value of each."""


@dataclass(frozen=True, slots=True)
class Document:
    """
    A named piece of content that goes into or comes out of a run.

    Attributes:
        name: File name, shown to models and people.
        data: Text, or raw bytes.
        mime: Media type, such as ``text/markdown``.
        label: Its label within a run; empty before it belongs to one.
        position: Its place under that label, from 0.
    """

    name: str
    data: str | bytes
    mime: str = "text/plain"
    label: str = ""
    position: int = 0

    @property
    def size_bytes(self) -> int:
        """Its size in bytes, text as UTF-8."""
        return (
            len(self.data)
            if isinstance(self.data, bytes)
            else len(self.data.encode("utf-8", "surrogatepass"))
        )


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """
    What a tool can return when plain text, JSON-able data or bytes are not enough.

    Attributes:
        documents: What it produced.
        notes: Short facts for the observation.
        web: Per-URL facts, best first.
    """

    documents: Sequence[Document] = ()
    notes: Sequence[str] = ()
    web: Sequence[WebFact] = ()


@dataclass(frozen=True, slots=True)
class Resumption:
    """
    What a tool that raised `AnswerNeeded` gets back when it is called again.

    Attributes:
        state: The state that it passed to ``AnswerNeeded``.
        accepted: Whether its question was answered; False if a person declined, or nobody answered in time.
        content: The answer, as the question's schema has it.
        again: Whether a person has since decided to retry an effect in doubt.
    """

    state: Any
    accepted: bool
    content: Any = None
    again: bool = False


class ToolContext(Protocol[DepsT_co]):
    """
    What a tool may know of the run that called it; passed to a parameter annotated `ToolContext`, or ``ToolContext[Deps]`` where it
    uses ``deps``.

    Attributes:
        run_id: The run's public id.
        action: Number of this action within its task.
        language: Language of the answer; empty where nobody asked for one.
        objective: What the run is for.
        success_criteria: The run's criteria.
        idempotency_key: The same for every attempt of this action, also after a crash.
        answer: The run's answer so far; empty before there is one.
        connection: The value that the host gave for the selected connection, or None.
        policy: The run's policy, for tools that fetch URLs of their own.
        limits: The run's limits.
        takes_pictures: Whether the run's model is shown pictures.
        timeout_s: Seconds that this call may take, None for no bound: the shorter of `Tool.timeout_s` and
            `Limits.tool_timeout_s`, with either at most what is left of the time budget.
        final_format: Format of the run's final report, during the call that writes it; None for any other call.
        resumption: The question that this call asked before, with the answer; None if it asked nothing.
        traceparent: The span of this call, as W3C Trace Context has it, for servers that the tool asks; empty where no hook of the
            engine sends traces.
    """

    run_id: str
    action: int
    language: str
    objective: str
    success_criteria: tuple[str, ...]
    idempotency_key: str
    answer: str
    connection: Any
    policy: Policy
    limits: Limits
    takes_pictures: bool
    timeout_s: float | None
    final_format: str | None
    resumption: Resumption | None
    traceparent: str

    @property
    def deps(self) -> DepsT_co:
        """What the host gave to `Engine.run` as ``deps``, else to the engine; never journaled. None if it gave nothing."""
        ...

    def stopped(self) -> str | None:
        """Return why the call is to stop now, or None: the run is cancelled or out of time, or the call was given up."""
        ...

    def documents(self, references: Sequence[str]) -> list[Document]:
        """
        Return the documents behind references, in order, each once.

        Args:
            references: ``docList:LABEL`` for all documents under a label, ``docItem:LABEL#0`` for one of them.
        """
        ...

    def ask(
        self,
        request: str,
        documents: Sequence[tuple[str, str | bytes]] = (),
        *,
        instructions: str = "",
        format: str = "",
    ) -> str:
        """
        Ask the run's model for a free text; recorded with this action's outcome.

        Args:
            request: What to write.
            documents: Pairs of a name and a text to write it from, or with `takes_pictures` the bytes of a PNG, JPEG, GIF or WebP file.
            instructions: How to write it.
            format: Form of the answer, such as ``md``; empty for any.

        Returns:
            The text as the model gave it.
        """
        ...

    async def aask(
        self,
        request: str,
        documents: Sequence[tuple[str, str | bytes]] = (),
        *,
        instructions: str = "",
        format: str = "",
    ) -> str:
        """Do the same as `ask` without blocking the event loop, for async tools."""
        ...


@dataclass(frozen=True, eq=False)
class Tool:
    """
    One action that a run may take.

    Attributes:
        name: Compound name, ``method.name``; ``service_method`` is the same tool.
        description: One paragraph.
        parameters: JSON Schema (2020-12) of the arguments; empty for none.
        run: Function called as ``run(**arguments)``; sync or async.
        effect: ``read`` and ``idempotent`` run again after a crash; ``once`` (default) never silently.
        label: Label for its documents.
        repeat_allowed: A polling tool: exempt from the duplicate guard.
        duplicate_limits: Limits of the duplicate guard for this tool's calls instead of the run's:
            ``consecutive_limit`` and ``window_freq_limit``, as `Limits` has them.
        retries: How often it is tried again within a step when it raises; ``once`` only after `NotStarted`.
        reconcile: ``reconcile(idempotency_key)``, sync or async, says after a crash whether the effect happened: returns
            the tool's result, or None when it certainly did not happen; raises when it cannot say.
        typed: The schema comes from the function's annotations, so arguments are converted to them.
        timeout_s: Seconds that one call may take, up to a day; None for no bound. `Limits.tool_timeout_s` can shorten it.
            A call that is given up is an error that may be tried again; a ``once`` call is in doubt. A sync function that has
            a bound runs in a thread of its own, and is left there when it is given up.
        process: Whether each call runs in a process of its own, which is killed when it is given up. The function is imported
            there by its name; arguments and result go as JSON; of the context it gets what is plain data.
        filled: Names of optional parameters that the run fills where a call leaves them out: of `language`, `timeRange`,
            `searchDepth`, `extractDepth` and `expectedDocumentFormats`. None by default: a parameter that is left out has the
            function's own default.
        parallel: How many calls of this tool are made at the same time, where it only reads and a reply calls it more than
            once; 1: never one beside another. None: as many as `Limits.parallel_calls` says, which holds in any case.

    Raises:
        UsageError: A name that is not ``method.name``, an unknown effect, a schema that is not JSON Schema or that
            the function cannot be called with, a bound that is none, a function that no other process can import.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    run: Callable[..., Any] | None = None
    effect: Effect = "once"
    label: str = "result"
    repeat_allowed: bool = False
    retries: int = 0
    reconcile: Callable[[str], Any] | None = None
    typed: bool = False
    duplicate_limits: Mapping[str, int] = field(default_factory=dict)
    timeout_s: float | None = None
    process: bool = False
    parallel: int | None = None
    filled: Sequence[str] = ()
    calls_run: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.match(self.name):
            raise UsageError(f"tool name {self.name!r}: expected method.name, such as orders.lookup")
        if self.effect not in _EFFECTS:
            raise UsageError(f"tool {self.name}: effect {self.effect!r} is not one of {', '.join(_EFFECTS)}")
        if not isinstance(self.parameters, Mapping):
            raise UsageError(f"tool {self.name}: parameters must be a JSON Schema as a mapping")
        if self.run is not None and not callable(self.run):
            raise UsageError(f"tool {self.name}: run must be a function")
        if inspect.isgeneratorfunction(self.run) or inspect.isasyncgenfunction(self.run):
            raise UsageError(f"tool {self.name}: run is a generator, whose body no call runs; return a list")
        if not isinstance(self.description, str):
            raise UsageError(f"tool {self.name}: description must be a text")
        if self.reconcile is not None and not callable(self.reconcile):
            raise UsageError(f"tool {self.name}: reconcile must be a function of the key")
        if not isinstance(self.repeat_allowed, bool):
            raise UsageError(f"tool {self.name}: repeat_allowed must be True or False")
        if not isinstance(self.label, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", self.label):
            raise UsageError(f"tool {self.name}: label {self.label!r} may hold letters, digits, _ and - only")
        if not (isinstance(self.retries, int) and 0 <= self.retries <= 100):
            raise UsageError(f"tool {self.name}: retries must be a whole number from 0 to 100")
        names = self.filled if isinstance(self.filled, list | tuple) else [None]
        if not all(isinstance(name, str) and name in FILLED for name in names):
            raise UsageError(
                f"tool {self.name}: filled knows {', '.join(sorted(FILLED))}, not {shown(self.filled)}"
            )
        most = self.parallel
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise UsageError(f"tool {self.name}: parallel must be a whole number from 1, not {shown(most)}")
        object.__setattr__(self, "parameters", sealed(self.parameters))
        object.__setattr__(self, "duplicate_limits", sealed(self.duplicate_limits))
        self._check_limits()
        self._check_bound()
        self._check_function()

    def _check_limits(self) -> None:
        """Refuse bounds of the duplicate guard that a run's `Limits` would refuse, too."""
        if not isinstance(self.duplicate_limits, Mapping):
            raise UsageError(
                f"tool {self.name}: duplicate_limits must be a mapping of {', '.join(GUARD_LIMITS)}"
            )
        for name, value in self.duplicate_limits.items():
            least = GUARD_LIMITS.get(name)
            if least is None:
                raise UsageError(
                    f"tool {self.name}: duplicate_limits knows {', '.join(GUARD_LIMITS)}, not {name!a}"
                )
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= GUARD_CEILING:
                raise UsageError(
                    f"tool {self.name}: {name} must be a whole number from {least} to {GUARD_CEILING}, not {shown(value)}"
                )

    def _check_bound(self) -> None:
        """Refuse a time that is none, and a function that cannot run in another process."""
        bound = self.timeout_s
        is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
        if bound is not None and not (is_number and 0 < bound <= TIMEOUT_CEILING):
            raise UsageError(
                f"tool {self.name}: timeout_s must be seconds above 0 and up to {TIMEOUT_CEILING:,}, not {shown(bound)}"
            )
        if not isinstance(self.process, bool):
            raise UsageError(f"tool {self.name}: process must be True or False")
        if self.process and importable_name(self.run) is None:
            raise UsageError(
                f"tool {self.name}: process=True needs a function that a module defines at its top level,"
                " and not the program that runs"
            )
        if self.process and self.needs_deps:
            raise UsageError(f"tool {self.name}: deps stay in this process; process=True cannot have them")

    def _names_all(self) -> bool:
        """Whether the schema names every parameter that there can be."""
        return self.parameters.keys() <= _PLAIN and not self.parameters.get("additionalProperties")

    def _check_function(self) -> None:
        """Refuse a function that every call with arguments of the schema would make raise."""
        if self.run is None or self.typed:
            return
        try:
            parameters = list(inspect.signature(self.run).parameters.values())
        except (ValueError, TypeError):  # of a builtin, perhaps
            return
        properties, required = self.parameters.get("properties", {}), self.parameters.get("required", ())
        if not (isinstance(properties, Mapping) and isinstance(required, list | tuple)):
            return  # a schema that is none is refused elsewhere
        taken, context = (
            {item.name for item in parameters if item.kind in _BY_KEYWORD},
            context_parameter(self.run),
        )
        if context in properties:
            raise UsageError(f"tool {self.name}: the parameter {context!a} is its function's ToolContext")
        refused = [name for name in required if isinstance(name, str) and name not in taken]
        if refused and not any(item.kind is item.VAR_KEYWORD for item in parameters):
            raise UsageError(
                f"tool {self.name}: its function does not take {refused[0]!a}, which its schema requires"
            )
        for item in parameters:
            bare = item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
            declared = properties.get(item.name)
            if bare and isinstance(declared, Mapping) and "default" in declared and item.name not in required:
                raise UsageError(
                    f"tool {self.name}: its schema has a default for {item.name!a}, its function has none; a call that leaves"
                    " it out has the function's own"
                )
            if bare and self._names_all() and item.name != context and item.name not in properties:
                raise UsageError(
                    f"tool {self.name}: its function needs {item.name!a}, which its schema does not have"
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, outside any run; a decorated function stays a function."""
        if self.run is None:
            raise UsageError(f"tool {self.name} has no function")
        return self.run(*args, **kwargs)

    def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the function as a run does: arguments converted to its annotations, the context where it wants one."""
        if self.run is None:
            raise UsageError(f"tool {self.name} has no function")
        if self.process:
            return cast(Any, context).call_apart(self, arguments)  # whoever drives the run starts the process
        values = bind(self.run, arguments) if self.typed else arguments
        if self._context_name is None:
            return self.run(**values)
        return self.run(**values, **{self._context_name: context})

    @cached_property
    def _context_name(self) -> str | None:
        """Name of the parameter of its function that gets the run's context, None without one."""
        return context_parameter(self.run) if self.run is not None else None

    @property
    def takes_context(self) -> bool:
        """Whether its function gets the run's context, and so may ask the run's model."""
        return self._context_name is not None

    @cached_property
    def needs_deps(self) -> bool:
        """Whether its function uses the host's ``deps``: its context is annotated ``ToolContext[Deps]``."""
        return self.run is not None and needs_deps(self.run)

    @cached_property
    def is_async(self) -> bool:
        """Whether its function, or the call of its object, is a coroutine function that runs in this process."""
        return not self.process and _is_async(self.run)

    @cached_property
    def reconciles_async(self) -> bool:
        """Whether its reconciliation is a coroutine function."""
        return _is_async(self.reconcile)

    def spec(self) -> ToolSpec:
        """Return what a run's spec keeps of it."""
        return ToolSpec(
            name=self.name,
            description=self.description.encode("utf-8", "replace").decode("utf-8"),
            parameters=dict(self.parameters),
            effect=self.effect,
            label=self.label,
            repeat_allowed=self.repeat_allowed,
            step_retries=self.retries,
            duplicate_limits=dict(self.duplicate_limits),
            filled=tuple(self.filled),
        )


def _is_async(function: object) -> bool:
    """Whether a function, or the call of an object, is a coroutine function."""
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object, not whether it has one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


class FunctionTool(Tool, Generic[F_co]):
    """What `tool` makes of a function: a `Tool` that is still called with the function's own parameters and types."""

    if TYPE_CHECKING:

        @property
        def __call__(self) -> F_co:  # type: ignore[override]
            """As `Tool.__call__`."""
            ...


def tool(
    name: str,
    *,
    effect: Effect = "once",
    label: str = "result",
    repeat_allowed: bool = False,
    retries: int = 0,
    reconcile: Callable[[str], Any] | None = None,
    duplicate_limits: Mapping[str, int] | None = None,
    timeout_s: float | None = None,
    process: bool = False,
    parallel: int | None = None,
    filled: Sequence[str] = (),
) -> Callable[[F], FunctionTool[F]]:
    """
    Make a typed Python function a tool; its schema comes from the annotations, its description from the docstring.

    Args:
        name: Compound name, ``method.name``.
        effect: ``read``, ``idempotent`` or ``once`` (default); see `Tool`.
        label, repeat_allowed, retries, reconcile, duplicate_limits, timeout_s, process, parallel, filled: As for `Tool`.

    Raises:
        UsageError: A parameter without annotation, ``*args``, a name that is not ``method.name``, or as `Tool`.
    """
    if not isinstance(name, str):
        raise UsageError('@tool needs a name, such as @tool("orders.lookup")')

    def decorate(function: F) -> FunctionTool[F]:
        if is_unbound(function):
            raise UsageError(
                f"tool {name}: {getattr(function, '__qualname__', 'it')} is a method, and nobody passes its self; decorate the bound one,"
                f" such as tool({name!r})(Shop().stock), or a function"
            )
        made = FunctionTool[F](
            name=name,
            description=summary_of(function),
            parameters=schema_of(function),
            run=function,
            effect=effect,
            label=label,
            repeat_allowed=repeat_allowed,
            retries=retries,
            reconcile=reconcile,
            typed=True,
            duplicate_limits=duplicate_limits or {},
            timeout_s=timeout_s,
            process=process,
            parallel=parallel,
            filled=filled,
        )
        object.__setattr__(made, "__signature__", inspect.signature(function))
        return made

    return decorate
