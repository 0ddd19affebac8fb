"""
A short check of names: what in the source of a host's function looks like a clock, chance, the outside, or a write.

It warns and refuses nothing, since names prove nothing: it sees names that are spelled out in the function and in the functions of its
module that it names. `paor check` calls each function twice (`fsm.check.host_functions`); a replay goes by the values that were recorded.
docs/howto/machine.md says what neither sees.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from .host_rows import Host

_WHY = {
    "a clock; take the time from the context": "time sched datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today"
    " datetime.date.today email.utils.localtime",
    "chance; take ids and choices as values": "random secrets numpy.random uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7",
    "it differs between machines and processes; take it as a value": "os posix nt sys pwd grp platform locale getpass builtins.id builtins.hash"
    " builtins.globals builtins.locals builtins.vars contextvars gc weakref inspect",
    "the outside; take what it holds as a value": "io builtins.open tempfile shutil glob sqlite3 dbm shelve linecache fileinput socket ssl http"
    " urllib.request urllib3 requests httpx aiohttp ftplib smtplib imaplib webbrowser subprocess logging warnings builtins.print builtins.input ctypes signal zipfile tarfile",
    "threads and tasks, whose order nothing decides": "thread threading asyncio concurrent multiprocessing queue",
    "code that nobody sees beforehand": "builtins.eval builtins.exec builtins.compile builtins.__import__ importlib runpy pickle",
    "a write; a guard changes nothing": "builtins.setattr builtins.delattr builtins.object.__setattr__ heapq bisect.insort",
    "": "os.path.join os.path.basename os.path.dirname os.path.split os.path.splitext os.path.normpath os.sep sys.maxsize io.StringIO io.BytesIO",
}
_IMPURE = {name: why for why, names in _WHY.items() for name in names.split()}
"""Name to why it is impure, or to nothing; a module's name is that of all in it that has no entry of its own."""

_CALLS = {
    "a clock, or the machine's time zone; take the time from the context": "now utcnow today timestamp astimezone",
    "the file system; take what it holds as a value": "read_text read_bytes write_text write_bytes open touch mkdir rmdir unlink iterdir"
    " glob rglob exists is_file is_dir is_symlink stat lstat owner group resolve samefile chmod rename cwd home",
}
_METHODS = {name: why for why, names in _CALLS.items() for name in names.split()}
_CHANGES = (
    "append",
    "add",
    "update",
    "pop",
    "clear",
    "setdefault",
    "extend",
    "remove",
    "discard",
    "insert",
    "sort",
    "reverse",
)


def impure_parts(host: Host) -> Iterator[tuple[str, str]]:
    """Yield the place of each function of a host's machine that names something impure, with a line for each such name."""
    functions: dict[str, Any] = {f"guard {name}": guard.function for name, guard in host.guards.items()}
    for name, phase in host.phases.items():
        functions |= {f"{name}.{item}": getattr(phase, item) for item in ("arguments", "question")}
    functions |= {f"{'.'.join(place)}.tell": tell for place, tell in host.tells.items()}
    for place, function in functions.items():
        for told in impure_names(function) if callable(function) else ():
            yield place, told


def impure_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """
    Return what the names in a function's source make suspect, a line each; nothing where its source cannot be read.

    Args:
        function: It is read and not called.
    """
    found: dict[str, None] = {}
    left, seen = [inspect.unwrap(getattr(function, "__func__", function))], set[int]()
    for item in left:  # which grows: functions of the same module are looked at, too
        if not isinstance(item, FunctionType) or id(item) in seen:
            continue
        seen.add(id(item))
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(item)))
        except (OSError, TypeError, SyntaxError):
            continue
        outside = {**vars(builtins), **item.__globals__, **inspect.getclosurevars(item).nonlocals}
        nodes = list(ast.walk(tree))
        owners = [node.value for node in nodes if isinstance(node, ast.Attribute)]
        within = {
            id(node) for node in owners if not isinstance(node, ast.Call)
        }  # ``os.path`` of ``os.path.join``
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and _is_stored(node)}
        mine = stored - {*item.__code__.co_freevars}
        mine -= {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        for node in nodes:
            for told in _told(node, outside, mine) if id(node) not in within else ():
                found[told] = None
            if isinstance(node, ast.Name):
                named = outside.get(node.id)
                left += [named] if getattr(named, "__module__", "") == item.__module__ else []
    return tuple(found)


def _is_stored(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)


def _told(node: ast.AST, outside: dict[str, Any], mine: set[str]) -> Iterator[str]:
    """Yield what one node of a function's source makes suspect."""
    if isinstance(node, ast.Global | ast.Nonlocal):
        yield from (f"sets {name}, which is not its own" for name in node.names if name not in mine)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        yield from (line for alias in node.names if (line := _why(base + alias.name)))
    elif isinstance(node, ast.Attribute | ast.Subscript) and _is_stored(node):
        if _root(node) not in mine:
            yield f"sets {ast.unparse(node):.60}, which is not its own"
    elif isinstance(node, ast.Name | ast.Attribute):
        if _root(node) not in mine and (line := _why(_full_name(node, outside))):
            yield line
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name, root = node.func.attr, _root(node.func)
        if name in _METHODS and not isinstance(outside.get(root), ModuleType):
            yield f"calls .{name}(): {_METHODS[name]}"
        elif name in _CHANGES and root and root not in mine:
            yield f"changes {ast.unparse(node.func.value):.60} with .{name}(), which is not its own"


def _root(node: ast.expr) -> str:
    """Return the variable that an expression begins with, empty when it begins with something else."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _full_name(node: ast.expr, outside: dict[str, Any]) -> str:
    """Return the name that the documentation has for what an expression names; empty where it names nothing that is there."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in outside:
        return ""
    thing = outside[node.id]
    if isinstance(thing, ModuleType):
        name = thing.__name__
    elif isinstance(thing, type) or callable(thing):
        owner = getattr(thing, "__module__", None) or type(getattr(thing, "__self__", None)).__module__
        name = f"{owner}.{getattr(thing, '__qualname__', '')}"
    else:
        name = f"{type(thing).__module__}.{type(thing).__qualname__}"
    return ".".join((name.removeprefix("_"), *parts))


def _why(name: str) -> str:
    """Return why what has this name is impure, as one line; nothing if it is not, or not listed."""
    parts = name.split(".")
    prefixes = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    why = next((_IMPURE[prefix] for prefix in prefixes if prefix in _IMPURE), "")
    return f"uses {name}: {why}" if why else ""
