"""
What in the code of a host's guard would make a replay differ: clocks, chance, the outside, state, and writes.

A guard is examined once, when the host hands it over, and is not called for that. Its bytecode is walked along every way through
it, with what each variable may hold, as far as that exists before the call (modules, classes, functions, constants, what a closure or
a default holds) or comes from the guard's parameter. Functions of the host that the guard names are walked with what they are given;
those of the standard library and of installed packages are judged by their names.

Not seen: methods of objects whose class is unknown, unless the name tells (``.read_text()``, ``.now()``); what an installed package does
inside; parts of the context within a container that the guard made or that a function returned; ``+=`` on a list; the order of a set.

What the variables of a guard may hold before it is called, looked at without running any code of the host.

Objects are compared by identity and asked by `inspect.getattr_static`: a host's ``__eq__`` or property may do anything.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import keyword
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta, tzinfo
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    EllipsisType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    NotImplementedType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, TypeVar

from .impure_names import (
    CHANGING,
    CLOCK,
    CLOCK_METHODS,
    FILE_METHODS,
    FILES,
    IMPLICIT,
    LOCAL_ZONE,
    MACHINE,
    MUTATORS,
    ORDER,
    PASSING,
    PASSING_METHODS,
    SETTERS,
    WRITES,
    name_of,
    public,
    why_impure,
)

_FIXED = (
    *(int, float, complex, str, bytes, range, slice, tuple, frozenset, MappingProxyType, Enum, PurePath),
    *(date, time, timedelta, tzinfo, NoneType, EllipsisType, NotImplementedType, GenericAlias, UnionType),
)
_FIXED_MODULES = {"decimal", "fractions", "functools", "ipaddress", "operator", "re", "typing", "uuid"}
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that is not built into the interpreter
_PACKAGE = __name__.partition(".")[0]
DEPTH_MAX = 30
"""How far functions in functions, and values in values, are followed."""

ABSENT = object()


@dataclass(frozen=True, slots=True)
class Atom:
    """
    One thing that a variable may hold.

    Attributes:
        kind: ``known`` for the thing itself, ``made`` for an instance of a class, ``context`` for what is reached from the
            guard's parameter, ``method`` for a method of that or of something unknown, ``constant`` for one in the code.
        name: What messages call it.
        thing: The thing or the class; of a method what it belongs to; compared by identity, so that no code of the host runs.
    """

    kind: str
    name: str
    thing: Any = field(default=None, compare=False)
    identity: int = 0


_T = TypeVar("_T")
Value = frozenset[Atom]
UNKNOWN: Value = frozenset()


def known(name: str, thing: object) -> Value:
    named = issubclass(type(thing), ModuleType | type | FunctionType)
    return frozenset({Atom("known", name_of(thing) if named else name, thing, id(thing))})


def constant(thing: object) -> Value:
    return frozenset({Atom("constant", "a constant", thing, id(thing))})


def constants(value: Value, kind: type[_T]) -> list[_T]:
    """Return the constants of a kind in *value*."""
    return [atom.thing for atom in value if atom.kind == "constant" and type(atom.thing) is kind]


def context_in(*values: Value) -> Value:
    """Return what in *values* is reached from the context."""
    return frozenset(atom for value in values for atom in value if atom.kind == "context")


def attribute_of(atom: Atom, name: str) -> tuple[Any, bool]:
    """Return an attribute as it is there, no code run for it, and whether a call gets what it is taken from first."""
    thing, of_type = atom.thing, issubclass(type(atom.thing), ModuleType | type) and atom.kind == "known"
    held = {} if of_type or atom.kind == "made" else dict(parts(thing))
    if f".{name}" in held:
        return held[f".{name}"], False
    static = inspect.getattr_static(thing, name, ABSENT)
    if issubclass(type(static), staticmethod):
        return static.__func__, False
    if issubclass(type(static), classmethod):
        return static.__func__, True
    return static, not of_type and has_name(static)


def parts(thing: Any) -> Iterator[tuple[str, object]]:
    """Yield what a value holds, with what is written behind its name."""
    kind = type(thing)
    if issubclass(kind, tuple | frozenset | MappingProxyType):
        yield from (
            ("[...]", part) for part in (thing.values() if issubclass(kind, MappingProxyType) else thing)
        )
    elif issubclass(kind, partial | MethodType):
        function, arguments, keywords = unwrapped(thing)
        yield from (("", part) for part in (function, *arguments, *keywords.values()))
    elif (
        not issubclass(kind, type)
        and (wrapped := inspect.getattr_static(thing, "__wrapped__", None)) is not None
    ):
        yield "", wrapped
    elif not issubclass(kind, type) and kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
        yield from ((f".{name}", part) for name, part in getattr(thing, "__dict__", {}).items())
        for base in kind.__mro__:
            for name, slot in vars(base).items():
                is_field = type(slot) is MemberDescriptorType and not name.startswith("__")
                if is_field and (part := _slot(slot, thing)) is not ABSENT:
                    yield f".{name}", part


def _slot(slot: Any, thing: object) -> object:
    try:
        return slot.__get__(thing)
    except AttributeError:  # not set
        return ABSENT


def unwrapped(thing: Any) -> tuple[Any, list[object], dict[str, Any]]:
    """Return the function that a call of *thing* comes to in the end, with the arguments that it gets first."""
    arguments: list[object] = []
    keywords: dict[str, Any] = {}
    for _ in range(DEPTH_MAX):
        kind = type(thing)
        call = inspect.getattr_static(kind, "__call__", None)
        if issubclass(kind, partial):
            thing, arguments, keywords = thing.func, [*thing.args, *arguments], thing.keywords | keywords
        elif kind is MethodType:
            thing, arguments = thing.__func__, [thing.__self__, *arguments]
        elif type(call) is FunctionType:
            thing, arguments = call, [thing, *arguments]
    return thing, arguments, keywords


def given_in(value: Value, method: str) -> list[str]:
    """Return the names of what a guard did not make and the method would change."""
    changing = (MethodDescriptorType, WrapperDescriptorType)
    return sorted(
        atom.name
        for atom in value
        if atom.kind == "context"
        or (
            atom.kind == "known"
            and not has_name(atom.thing)
            and type(inspect.getattr_static(atom.thing, method, None)) in changing
        )
    )


def has_name(thing: object) -> bool:
    """Return whether it is a module, a class or a function, and no value."""
    return name_of(thing) != name_of(type(thing))


def is_path(atom: Atom) -> bool:
    return issubclass(atom.thing if atom.kind == "made" else type(atom.thing), PurePath)


def is_fixed(kind: type) -> bool:
    """Return whether instances of a class cannot change, but for what they hold."""
    is_function = not kind.__flags__ & _HEAP_TYPE and "__call__" in vars(kind)
    return issubclass(kind, _FIXED) or is_function or public(kind.__module__) in _FIXED_MODULES


def is_frozen(thing: object) -> bool:
    """Return whether an object of some class cannot change: it is declared so, or it holds nothing."""
    kind = type(thing)
    marks = [getattr(kind, name, None) for name in ("__dataclass_params__", "__struct_config__")]
    config = getattr(kind, "model_config", None)
    if any(getattr(mark, "frozen", False) for mark in marks) or (
        type(config) is dict and config.get("frozen")
    ):
        return True
    bases = kind.__mro__[:-1]  # of a class that is written in C nobody sees what it holds
    is_written_in_c = any(type(vars(base).get("__new__")) is BuiltinFunctionType for base in bases)
    return (
        not list(parts(thing)) and not is_written_in_c and all(base.__flags__ & _HEAP_TYPE for base in bases)
    )


def is_of_host(thing: Any) -> bool:
    """Return whether it is a function of the host's own, to be walked, and not one of a library."""
    if type(thing) is not FunctionType:
        return False
    top = str(thing.__globals__.get("__name__")).partition(".")[0]
    installed = {"site-packages", "dist-packages"} & set(PurePath(thing.__code__.co_filename).parts)
    return not installed and top != _PACKAGE and top not in sys.stdlib_module_names


_INITIALIZERS = ("__init__", "__post_init__", "__new__")
_SPREAD = 16  # how many parameters ``*arguments`` may fill

_CALLS = (
    {"PRECALL", "CALL_FUNCTION_EX"} if "PRECALL" in dis.opmap else {"CALL", "CALL_KW", "CALL_FUNCTION_EX"}
)
_LAST = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT", "JUMP_FORWARD"}
_LAST |= {"JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
"""Opcodes that the next instruction does not follow."""

_NEW = (
    *(
        "BINARY",
        "BUILD",
        "CALL_",
        "COMPARE",
        "CONTAINS",
        "CONVERT",
        "FORMAT",
        "IS_OP",
        "LIST_TO",
        "LOAD_SUPER",
    ),
    *("TO_BOOL", "UNARY"),
)
"""How the opcodes begin that put something new in the place of what they take."""

_ITEMS = {
    "STORE_SUBSCR": (2, "__setitem__"),
    "DELETE_SUBSCR": (2, "__delitem__"),
    "STORE_SLICE": (3, "__setitem__"),
}
"""Opcodes that change an item: how deep on the stack its container is, and the method that does the same."""


_State = tuple[list[Value], dict[str, Value]]


class _Body:
    """
    The code of a function, or of one that is made within it.

    Attributes:
        function: The function; of what is made within, the one around it that exists.
        outer: The body in which it is made.
        cells: What its variables may hold that inner functions share.
    """

    def __init__(
        self, code: CodeType, function: FunctionType, where: str, depth: int, outer: _Body | None
    ) -> None:
        self.code, self.function, self.where, self.depth, self.outer = code, function, where, depth, outer
        self.cells: dict[str, Value] = {}

    def around(self) -> Iterator[_Body]:
        """Yield it and the bodies in which it is made."""
        body: _Body | None = self
        while body is not None:
            yield body
            body = body.outer

    def within(self, code: CodeType) -> _Body:
        """Return the body of a function that is made in this one."""
        return _Body(code, self.function, self.where, self.depth, self)

    def owner(self, name: str) -> _Body | None:
        """Return the body whose variable a shared name is; None if it is of a function that has ended."""
        return next((body for body in self.around() if name in body.code.co_cellvars), None)


class _Search:
    """The findings, and the bodies that still have to be walked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[tuple[str, str], str] = {}
        self.queue: deque[tuple[_Body, tuple[Value, ...], Mapping[str, Value]]] = deque()
        self.bodies: dict[tuple[int, CodeType], _Body] = {}
        self.body: _Body | None = None
        self.line = 0

    def report(self, what: str) -> None:
        """Keep a finding about the instruction that is walked, once for each function."""
        where = self.body.where if self.body is not None else self.name
        place = f"{where}, line {self.line}" if self.body is not None else where
        self.found.setdefault((where, what), f"{place}: {what}")

    def run(self) -> None:
        """Walk everything that is reached, each body once for each kind of arguments."""
        done = set()
        while self.queue:
            self.body, arguments, keywords = self.queue.popleft()
            shared = tuple(frozenset(body.cells.items()) for body in self.body.around())
            key = (self.body, arguments, frozenset(keywords.items()), shared)
            if key not in done:
                done.add(key)
                _Walk(self, self.body, arguments, keywords).run()

    def follow(
        self,
        function: FunctionType,
        arguments: Iterable[Value] = (),
        keywords: Mapping[str, Value] = MappingProxyType({}),
    ) -> None:
        """Have a function walked, as it is called here or, without arguments, as it may be."""
        key, depth = (id(function), function.__code__), self.body.depth + 1 if self.body is not None else 0
        if depth > DEPTH_MAX:
            self.report(f"calls {function.__qualname__} through {DEPTH_MAX} others: too deep to be examined")
            return
        where = f"{self.name}, in {function.__qualname__}" if depth else self.name
        if key not in self.bodies:
            self.bodies[key] = _Body(function.__code__, function, where, depth, None)
        self.queue.append((self.bodies[key], tuple(arguments), keywords))

    def begin(self, guard: Any) -> None:
        """Judge the guard as a whole, and have it walked with the context."""
        plain, bound, named = unwrapped(guard)
        if type(plain) is not FunctionType:
            self.name = name_of(guard).removeprefix("builtins.")
            self.report(f"is a {type(guard).__name__}; a guard is a plain function, written with def")
            return
        if plain.__name__ != "__call__":
            self.name = plain.__name__
        flags, code = plain.__code__.co_flags, plain.__code__
        if (
            code.co_name == "<lambda>"
            or not plain.__name__.isidentifier()
            or keyword.iskeyword(plain.__name__)
        ):
            self.report("has no name that can be recorded; write it with def")
        if flags & inspect.CO_GENERATOR:
            self.report("is a generator; a guard returns true or false")
        try:
            inspect.signature(guard, follow_wrapped=False).bind(None)
        except (TypeError, ValueError):
            self.report("cannot be called with exactly one positional argument, the context")
        for value in bound:
            self.look(f"its {type(value).__name__}", value)
        for key, value in named.items():
            self.look(key, value)
        own = [known(f"its {type(value).__name__}", value) for value in bound]
        context = frozenset({Atom("context", (*code.co_varnames, "context")[len(own)])})
        self.follow(plain, [*own, context], {key: known(key, named[key]) for key in named})
        for _, wrapped in parts(plain):
            self.look("the function in it", wrapped)

    def look(self, text: str, thing: Any, within: tuple[int, ...] = ()) -> None:
        """Judge a value that is there before the guard is called, and what it holds."""
        kind = type(thing)
        if issubclass(kind, ModuleType) or id(thing) in within or len(within) > DEPTH_MAX:
            return  # of a module that counts which is taken out of it
        name = name_of(thing)
        if why := why_impure(name):
            told = name.removeprefix("builtins.")
            self.report(f"uses {told if has_name(thing) else f'{text}, a {told}'}: {why}")
        elif is_of_host(thing):
            self.follow(thing)
        elif not (issubclass(kind, type) or is_fixed(kind) or is_frozen(thing)):
            self.report(f"reads {text}, a {kind.__name__} that can change; use a tuple or a frozen dataclass")
            return
        elif not has_name(thing):
            self.follow_implicit(Atom("known", text, thing, id(thing)))
        for inner, part in parts(thing):
            self.look(f"{text}{inner}", part, (*within, id(thing)))

    def follow_implicit(self, atom: Atom) -> None:
        """Have the methods of the host walked that operators and statements call."""
        for method in IMPLICIT:
            static, _ = attribute_of(atom, method)
            if is_of_host(static):
                self.follow(static, [frozenset({atom})])

    def member(self, atom: Atom, name: str) -> tuple[Value, bool]:
        """Return an attribute of a thing, or of an instance of a class, and whether it gets that as its first argument."""
        static, is_bound = attribute_of(atom, name)
        text = public(f"{atom.name}.{name}")
        if issubclass(type(static), property | functools.cached_property):
            getter = static.fget if issubclass(type(static), property) else static.func
            if is_of_host(getter):
                self.follow(getter, [frozenset({atom})])
            return UNKNOWN, False
        if why := "" if issubclass(type(static), ModuleType) else why_impure(text):
            self.report(f"uses {text}: {why}")
        elif static is not ABSENT and (has_name(static) or not hasattr(type(static), "__get__")):
            self.look(text, static)
        return known(text, static), is_bound


class _Walk:
    """
    One body, walked with arguments.

    A state is what the stack and the variables may hold before an instruction. States that meet are united, and an
    instruction is carried out again until nothing is added.
    """

    def __init__(
        self, search: _Search, body: _Body, arguments: Sequence[Value], keywords: Mapping[str, Value]
    ) -> None:
        self.search, self.body = search, body
        self.code = list(dis.get_instructions(body.code))
        self.at = {instruction.offset: index for index, instruction in enumerate(self.code)}
        self.handlers: dict[
            int, tuple[int, int]
        ] = {}  # which handler an exception leads to, and how deep the stack is
        for entry in getattr(dis.Bytecode(body.code), "exception_entries", ()):  # not in the stubs
            covered = [op.offset for op in self.code if entry.start <= op.offset < entry.end]
            self.handlers |= dict.fromkeys(covered, (self.at[entry.target], entry.depth + entry.lasti))
        self.handlers_at = min((target for target, _ in self.handlers.values()), default=len(self.code))
        self.stack: list[Value] = []
        self.names: dict[str, Value] = {}
        self.keywords: tuple[str, ...] = ()
        search.line = body.code.co_firstlineno
        for name, value in self._parameters(arguments, keywords).items():
            self._store(name, value)

    def _parameters(self, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> dict[str, Value]:
        """Return what the parameters hold at the start; a default only where nothing is given."""
        code, function = self.body.code, self.body.function
        count = code.co_argcount
        names = code.co_varnames[: count + code.co_kwonlyargcount]
        given = dict(zip(names[:count], arguments, strict=False))
        given |= {name: value for name, value in keywords.items() if name in names}
        defaults: dict[str, Any] = {}
        if self.body.outer is None:
            defaults = dict(zip(reversed(names[:count]), reversed(function.__defaults__ or ()), strict=False))
            defaults |= function.__kwdefaults__ or {}
        for name in [name for name in defaults if name not in given]:
            self.search.look(name, defaults[name])
            given[name] = known(name, defaults[name])
        if code.co_flags & inspect.CO_VARARGS:
            given[code.co_varnames[len(names)]] = context_in(*arguments[count:])
        return dict.fromkeys(names, UNKNOWN) | given

    def run(self) -> None:
        """Walk until no state changes any more."""
        if self.body.code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            self.search.report(f"is async: {ORDER}")
        reached: dict[int, _State] = {}
        pending: dict[int, _State] = {0: ([], self.names)}
        while pending or len(reached) < len(self.code):
            if not pending:  # what no way leads to, such as the handler of a block without code
                lost = min(set(range(len(self.code))) - reached.keys())
                pending[lost] = ([UNKNOWN], functools.reduce(_met, reached.values())[1])
            # handlers at once, what else there is in order, so that little is done twice
            index = min(pending, key=lambda at: (at < self.handlers_at, at))
            state = pending.pop(index)
            if index in reached:
                state = _met(reached[index], state)
            if state != reached.get(index):
                reached[index] = state
                for target, after in self._step(index, state):
                    pending[target] = _met(pending[target], after) if target in pending else after

    def _step(self, index: int, state: _State) -> Iterator[tuple[int, _State]]:
        """Carry out an instruction; yield where it can lead, with the state there."""
        op, (before, names) = self.code[index], state
        self.stack, self.names = before, dict(names)
        if op.positions is not None and op.positions.lineno is not None:
            self.search.line = op.positions.lineno
        results = self._results(op)
        if op.offset in self.handlers:
            target, depth = self.handlers[op.offset]
            yield target, ([*before[:depth], UNKNOWN], names)
        if op.opcode in dis.hasjrel or op.opcode in dis.hasjabs:
            yield (
                self.at[op.argval],
                (_resized(before, dis.stack_effect(op.opcode, op.arg, jump=True)), self.names),
            )
        if op.opname not in _LAST:
            stack = _resized(before, dis.stack_effect(op.opcode, op.arg, jump=False))
            yield index + 1, (stack[: len(stack) - len(results)] + results, self.names)

    def _top(self, count: int) -> list[Value]:
        """Return the *count* uppermost values, the topmost last."""
        return ([UNKNOWN] * count + self.stack)[-count:]

    def _results(self, op: dis.Instruction) -> list[Value]:
        """Return what the instruction leaves on top of the stack, and report what it does."""
        name, arg = op.opname, op.argval
        below, top = self._top(2)
        if name in _CALLS:
            return [self._call(op)] * (2 if name == "PRECALL" else 1)  # the CALL behind a PRECALL takes one
        match name:
            case "LOAD_CONST" | "LOAD_SMALL_INT":
                return [constant(arg)]
            case "LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_FROM_DICT_OR_GLOBALS":
                return [self.names[arg] if arg in self.names and name != "LOAD_GLOBAL" else self._global(arg)]
            case "LOAD_DEREF" | "LOAD_CLASSDEREF" | "LOAD_FROM_DICT_OR_DEREF":
                return [self._shared(arg)]
            case "LOAD_ATTR" | "LOAD_METHOD":
                is_call = dis.stack_effect(op.opcode, op.arg) == 1
                value, receiver = self._attribute(top, arg, is_call=is_call)
                return [value, receiver] if is_call else [value]
            case "IMPORT_NAME":
                return [self._imported(arg, below, top)]
            case "IMPORT_FROM":
                return [self._attribute(top, arg, is_call=False)[0]]
            case "MAKE_FUNCTION" | "SET_FUNCTION_ATTRIBUTE":
                return [self._made(top)]
            case "COPY":
                return [self._top(arg)[0]]
            case "SWAP":
                first, *between, last = self._top(arg)
                return [last, *between, first]
            case "FOR_ITER":
                return [context_in(top)]
            case "UNPACK_SEQUENCE" | "UNPACK_EX":
                return [context_in(top)] * (dis.stack_effect(op.opcode, op.arg) + 1)
            case "BUILD_SLICE":
                return [constant(slice(None))]
            case _ if name == "BINARY_SUBSCR" or op.argrepr == "[]":
                return [UNKNOWN if constants(top, slice) else context_in(below)]
            case _ if name.startswith(("LOAD_FAST", "STORE_FAST", "LOAD_CLOSURE")):
                return self._fast(name, arg)
            case _ if name.startswith(_NEW):
                return [UNKNOWN]
        self._effects(name, arg, op.arg or 0, top)
        return []

    def _fast(self, opcode: str, names: str | tuple[str, ...]) -> list[Value]:
        """Store to or load from local variables, of which newer opcodes name two."""
        names = (names,) if isinstance(names, str) else names
        stores = opcode.count("STORE")
        for name, value in zip(names[:stores], reversed(self._top(stores)), strict=False):
            self._store(name, value)
        return [self.names.get(name, UNKNOWN) for name in names[stores:]]

    def _store(self, name: str, value: Value) -> None:
        self.names[name] = value
        if (owner := self.body.owner(name)) is not None:
            owner.cells[name] = owner.cells.get(name, UNKNOWN) | value

    def _effects(self, opcode: str, arg: Any, raw: int, top: Value) -> None:
        """Report what an opcode writes that leaves nothing on the stack."""
        match opcode:
            case "STORE_NAME":
                self._store(arg, top)
            case "STORE_DEREF" | "DELETE_DEREF" if self.body.owner(arg) is None:
                self.search.report(f"sets {arg}, a variable of the function around it: {WRITES}")
            case "STORE_DEREF":
                self._store(arg, top)
            case "STORE_GLOBAL" | "DELETE_GLOBAL":
                self.search.report(f"sets the global {arg}: {WRITES}")
            case "STORE_ATTR" | "DELETE_ATTR":
                self._sets_attribute(top, f"the attribute {arg}")
            case "STORE_SUBSCR" | "DELETE_SUBSCR" | "STORE_SLICE":
                depth, method = _ITEMS[opcode]
                for fixed in given_in(self._top(depth)[0], method):
                    self.search.report(f"changes an item of {fixed}: {WRITES}")
            case "KW_NAMES":
                self.keywords = self.body.code.co_consts[raw]

    def _sets_attribute(self, owner: Value, what: str) -> None:
        if self.body.code.co_name not in _INITIALIZERS or context_in(owner):  # an object may fill itself
            self.search.report(f"sets {what} of {next((atom.name for atom in owner), 'an object')}: {WRITES}")

    def _shared(self, name: str) -> Value:
        """Return what a variable holds that functions share."""
        if name in self.names:
            return self.names[name]
        if (owner := self.body.owner(name)) is not None:
            return owner.cells.get(name, UNKNOWN)
        function = self.body.function
        cell = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))[name]
        try:
            held = cell.cell_contents
        except ValueError:  # not yet set
            return UNKNOWN
        self.search.look(name, held)
        return known(name, held)

    def _global(self, name: str) -> Value:
        if name.startswith(
            "@py"
        ):  # what pytest has written into an assert: it makes the message of a failure, no decision
            return UNKNOWN
        function = self.body.function
        for names in (function.__globals__, vars(builtins)):
            if name in names:
                self.search.look(name, names[name])
                return known(name, names[name])
        self.search.report(
            f"uses {name}, which is not defined yet and cannot be examined; define it before the guard"
        )
        return UNKNOWN

    def _imported(self, name: str, level: Value, wanted: Value) -> Value:
        """Return the module that an import within the function binds; nothing is imported for that."""
        if dots := sum(constants(level, int)):
            package = str(self.body.function.__globals__.get("__package__")).rsplit(".", dots - 1)[0]
            name = f"{package}.{name}".rstrip(".")
        if not constants(wanted, tuple):
            name = name.partition(".")[0]
        module = sys.modules.get(name, ABSENT)
        if (
            module is ABSENT
            and name.partition(".")[0] not in sys.stdlib_module_names
            and not why_impure(name)
        ):
            self.search.report(
                f"imports {name}, which is not loaded and cannot be examined; import it before the guard"
            )
        return known(name, module)

    def _made(self, value: Value) -> Value:
        """Return the function that is made of a code, and have it walked; functions stay what they are."""
        return frozenset(self._inner(code) for code in constants(value, CodeType)) or value

    def _inner(self, code: CodeType) -> Atom:
        key, bodies = (id(self.body), code), self.search.bodies
        if key not in bodies:
            bodies[key] = self.body.within(code)
        self.search.queue.append((bodies[key], (), {}))
        return Atom("inner", code.co_name, bodies[key], id(bodies[key]))

    def _attribute(self, owner: Value, name: str, *, is_call: bool) -> tuple[Value, Value]:
        """Return what an attribute holds and, if it is a method that gets its owner, the owner."""
        things = [atom for atom in owner if atom.kind in ("known", "made")]
        if is_call:
            for fixed in given_in(owner, name) if name in MUTATORS else ():
                self.search.report(f"changes {fixed} with .{name}(): {WRITES}")
            if name in FILE_METHODS and all(is_path(atom) for atom in things):
                self.search.report(f"uses .{name}(): {FILES}")
            if name in CLOCK_METHODS and not things and not context_in(owner):
                self.search.report(f"uses .{name}(): {CLOCK}")
        value, receiver = set[Atom](), set[Atom]()
        for atom in sorted(things, key=lambda item: item.name):
            found, is_bound = self.search.member(atom, name)
            value |= found
            receiver |= {atom} if is_bound else set()
        if is_call and (context_in(owner) or not things):
            value.add(Atom("method", name, context_in(owner), len(context_in(owner))))
        return frozenset(value) | (UNKNOWN if is_call else context_in(owner)), frozenset(receiver)

    def _call(self, op: dis.Instruction) -> Value:
        """Have what is called walked with its arguments; return what may come of it."""
        keywords: tuple[str, ...] = ()
        if op.opname == "CALL_FUNCTION_EX":
            first, second, spread, *_ = self._top(1 - dis.stack_effect(op.opcode, op.arg))
            arguments = [context_in(spread)] * _SPREAD
        else:
            named = constants(self._top(1)[0], tuple) if op.opname == "CALL_KW" else []
            keywords, self.keywords = (named or [self.keywords])[0], ()
            first, second, *arguments = self._top((op.arg or 0) + 2 + len(named))
            arguments = arguments[: op.arg]
        if first and second:  # a method and its owner, or a comprehension and what it runs over
            arguments.insert(0, second)
        split = len(arguments) - len(keywords)
        return UNKNOWN.union(
            *(
                self._called(atom, arguments[:split], dict(zip(keywords, arguments[split:], strict=True)))
                for atom in sorted(first or second, key=lambda item: item.name)
            )
        )

    def _called(self, atom: Atom, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Return what a call gives; have the host's functions walked with what they get."""
        thing, search = atom.thing, self.search
        if atom.kind == "inner":
            search.queue.append((thing, tuple(arguments), keywords))
        elif atom.kind == "made":
            self._call_method(atom, "__call__", arguments, keywords)
        elif atom.kind in ("known", "method"):
            name = atom.name if atom.kind == "method" else name_of(thing)
            self._check_call(name, arguments, keywords)
            if atom.kind == "method":
                return context_in(thing) if name in PASSING_METHODS else UNKNOWN
            return self._called_known(atom, name, arguments, keywords)
        return UNKNOWN

    def _check_call(self, name: str, arguments: list[Value], keywords: Mapping[str, Value]) -> None:
        """Report what the name of a function and its arguments tell together."""
        if LOCAL_ZONE.get(name) == len(arguments) + len(keywords):
            self.search.report(f"uses {name} without a time zone: the machine's own, {MACHINE}")
        if name in SETTERS and arguments:
            self._sets_attribute(arguments[0], f"an attribute with {name.removeprefix('builtins.')}()")
        for given in context_in(*arguments[:1]) if name in CHANGING else ():
            self.search.report(f"changes {given.name} with {name.removeprefix('builtins.')}(): {WRITES}")

    def _called_known(
        self, atom: Atom, name: str, arguments: list[Value], keywords: dict[str, Value]
    ) -> Value:
        thing = atom.thing
        kind = type(thing)
        if name == "builtins.getattr" and len(arguments) > 1:
            found = [
                self._attribute(arguments[0], text, is_call=False)[0] for text in constants(arguments[1], str)
            ]
            return context_in(*arguments).union(*found)
        if name in PASSING:
            return context_in(*arguments)
        if issubclass(kind, type):
            made = Atom("made", atom.name, thing, id(thing))
            for method in ("__new__", "__init__"):
                self._call_method(made, method, arguments, keywords)
            self.search.follow_implicit(made)
            return frozenset({made})
        function, bound, given = unwrapped(thing)
        if is_of_host(function):
            own = [known(f"the bound {type(value).__name__}", value) for value in bound]
            self.search.follow(
                function, [*own, *arguments], {key: known(key, given[key]) for key in given} | keywords
            )
        return UNKNOWN

    def _call_method(
        self, atom: Atom, method: str, arguments: list[Value], keywords: Mapping[str, Value]
    ) -> None:
        static, _ = attribute_of(atom, method)
        if is_of_host(static):
            self.search.follow(static, [frozenset({atom}), *arguments], keywords)


def _met(one: _State, other: _State) -> _State:
    """Return what holds where two ways meet: their stacks united from the top, and their variables."""
    (stack, names), (more, others) = one, other
    size = max(len(stack), len(more))
    pairs = zip(_resized((), size - len(stack)) + stack, _resized((), size - len(more)) + more, strict=True)
    united = {name: value | others.get(name, UNKNOWN) for name, value in names.items()}
    return [first | second for first, second in pairs], others | united


def _resized(stack: Sequence[Value], effect: int) -> list[Value]:
    return [*stack[: max(len(stack) + effect, 0)], *[UNKNOWN] * effect]


def impurities(function: Callable[..., Any]) -> tuple[str, ...]:
    """
    Return what makes a host's function unfit as a guard, a sentence each; nothing if nothing is found.

    Args:
        function: What the host hands over; it is examined and not called.
    """
    guard: Any = function
    search = _Search(type(guard).__name__)
    try:
        if callable(guard):
            search.begin(guard)
            search.run()
        else:
            search.report("is not callable; a guard is a function of one argument")
    except Exception as error:  # noqa: BLE001 - the host's objects may do anything when they are looked at
        search.report(f"cannot be examined: that raises {type(error).__name__}")
    return tuple(search.found.values())
