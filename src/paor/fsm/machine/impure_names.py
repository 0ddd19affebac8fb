"""
What a guard of a host may not use, by its name; and the name of whatever a program can hold.

The names are those of the documentation, also for what the interpreter keeps elsewhere: `os.getpid`, where it says ``posix.getpid``.
The list for paor's own files is in ``.ci/purity.py``; this one is for code that nobody here has read, and so it is longer.
"""

from __future__ import annotations

from functools import cache
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)

CLOCK = "a clock; take the time from the context"
CHANCE = "chance; take ids and choices as values"
MACHINE = "which differs between machines and processes; take it as a value"
FILES = "the file system; take what it holds as a value"
OUTSIDE = "the world outside; a guard only looks at its context"
ORDER = "threads and tasks, whose order nothing decides"
CODE = "code that cannot be examined beforehand"
WRITES = "a write; a guard changes nothing"

_RULES = (
    (CLOCK, "time sched datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today"),
    (CLOCK, "datetime.date.today"),
    (CHANCE, "random secrets os.urandom os.getrandom numpy.random"),
    (CHANCE, "uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 uuid.uuid8"),
    (MACHINE, "os sys platform locale getpass pwd grp site sysconfig gc weakref inspect tracemalloc"),
    (MACHINE, "contextvars uuid.getnode datetime.date.fromtimestamp builtins.id builtins.hash"),
    (MACHINE, "builtins.globals builtins.locals builtins.vars builtins.dir builtins.object.__hash__"),
    (FILES, "io builtins.open os.path tempfile shutil glob fileinput linecache zipfile tarfile mmap dbm"),
    (FILES, "pathlib.Path.cwd pathlib.Path.home gzip.open bz2.open lzma.open importlib.resources"),
    (OUTSIDE, "socket socketserver ssl http.client http.server urllib.request smtplib ftplib imaplib poplib"),
    (OUTSIDE, "xmlrpc webbrowser requests httpx httpx2 httpcore aiohttp urllib3 sqlite3 subprocess"),
    (OUTSIDE, "posixsubprocess signal ctypes logging syslog warnings atexit builtins.print builtins.input"),
    (OUTSIDE, "builtins.breakpoint"),
    (ORDER, "threading asyncio concurrent multiprocessing queue select selectors"),
    (CODE, "builtins.eval builtins.exec builtins.compile builtins.__import__ importlib runpy pkgutil"),
    (CODE, "pickle marshal shelve"),
    ("", "os.path.join os.path.basename os.path.dirname os.path.split os.path.splitext os.path.normpath"),
    ("", "os.path.isabs os.path.commonprefix os.path.commonpath os.path.sep os.fspath os.sep sys.maxsize"),
    ("", "sys.float_info sys.intern io.StringIO io.BytesIO"),
)
_IMPURE = {name: why for why, names in _RULES for name in names.split()}
"""Name to why it is impure, or to nothing; a module's name stands for what is in it and has no entry of its own."""


def _words(text: str, prefix: str = "") -> frozenset[str]:
    """Return the words of *text*, each with *prefix* before it."""
    return frozenset(prefix + word for word in text.split())


FILE_METHODS = _words(
    "read_text read_bytes write_text write_bytes open touch mkdir rmdir unlink iterdir glob"
)
FILE_METHODS |= _words("rglob exists is_file is_dir stat lstat hardlink_to symlink_to readlink")
"""Methods of `pathlib.Path` that ask or change the file system."""

CLOCK_METHODS = _words("now utcnow today")
MUTATORS = _words("append add update pop clear setdefault extend remove discard insert popitem sort reverse")
MUTATORS |= _words("appendleft extendleft popleft __setitem__ __delitem__")
"""Methods that change what they belong to."""

CHANGING = frozenset(
    f"builtins.{kind}.{name}" for kind in ("list", "dict", "set", "bytearray") for name in MUTATORS
)
CHANGING |= _words("heappush heappop heapify heapreplace heappushpop", "heapq.")
CHANGING |= _words("bisect.insort bisect.insort_left bisect.insort_right operator.setitem operator.delitem")
"""Functions that change what they get first."""

SETTERS = _words("setattr delattr object.__setattr__ object.__delattr__", "builtins.")
PASSING = _words("enumerate getattr iter max min next reversed zip", "builtins.")
"""Functions that hand on what they get, or parts of it."""

PASSING_METHODS = _words("get items keys values __getitem__")
LOCAL_ZONE = {"datetime.datetime.fromtimestamp": 1, "datetime.datetime.astimezone": 1, "astimezone": 0}
"""Functions that take the machine's time zone when they get no more than this many arguments."""

IMPLICIT = tuple(
    f"__{name}__"
    for name in sorted(
        _words("enter exit eq ne lt le gt ge add radd sub rsub mul rmul truediv and or contains getitem")
        | _words("iter next len bool str format getattr getattribute")
    )
)
"""Methods that operators and statements call."""

_MOVED = {"posix": "os", "nt": "os", "thread": "threading", "pathlib._local": "pathlib"}
_MOVED |= {"posixpath": "os.path", "ntpath": "os.path", "genericpath": "os.path"}
"""Where the interpreter keeps what the documentation has elsewhere; without the underscore before it."""

_DESCRIPTORS = (ClassMethodDescriptorType, MethodDescriptorType, WrapperDescriptorType)


@cache
def public(name: str) -> str:
    """Return a dotted name as the documentation has it."""
    name = name if name.startswith("__") else name.removeprefix("_")
    for moved, place in _MOVED.items():
        if name == moved or name.startswith(f"{moved}."):
            return place + name.removeprefix(moved)
    return name


@cache
def why_impure(name: str) -> str:
    """Return why what has this name is impure; nothing if it is not, or nobody knows."""
    parts = name.split(".")
    prefixes = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next((_IMPURE[prefix] for prefix in prefixes if prefix in _IMPURE), "")


def name_of(thing: object) -> str:
    """Return the full name of a module, class or function, and of anything else that of its class."""
    kind = type(thing)
    if issubclass(kind, ModuleType):
        return public(str(vars(thing).get("__name__")))
    if issubclass(kind, type):
        return public(f"{thing.__module__}.{thing.__qualname__}")  # type: ignore[attr-defined]
    if isinstance(thing, FunctionType):
        return public(f"{thing.__globals__.get('__name__')}.{thing.__qualname__}")  # `wraps` renames a module
    if isinstance(thing, MethodType):
        return name_of(thing.__func__)
    if isinstance(thing, BuiltinFunctionType | MethodWrapperType):
        return f"{name_of(thing.__self__)}.{thing.__name__}"
    if isinstance(thing, _DESCRIPTORS):
        return f"{name_of(thing.__objclass__)}.{thing.__name__}"
    return name_of(kind)
