"""
The purity gate: what decides may not know a clock, chance, the environment, a file or the network.

A journal replays only if the same row gives the same decision everywhere. So the vocabulary, the prompts, the pure
half of the tools and the deciding half of `fsm` take everything from outside as values, and this script reads their
syntax trees to hold them to it. A second, short list of bans holds for every Python file of the project, and the four
folders import neither the face (``from ..cli import``) nor `paor` by its name.

Names are followed through imports (``from time import monotonic as now`` is still a clock). What is not covered:
values that change hands (``f = obj.now; f()``), sets that come from another module, ties that a ``key=`` leaves among
a set's elements, and code reached by `getattr`.

A line is exempt with ``# pure: reason`` on any line of the expression or import; without a reason it is not.
Run as ``python .ci/purity.py``; prints ``file:line: what (why)`` and exits 1 when there is anything to print.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FLOORS = ("states", "prompts", "tools", "fsm")
PROJECT = ("src/paor", "tests", "docs", "examples", "benchmarks", ".ci")

PURE = tuple(
    f"src/paor/{room}"
    for room in (
        *("states", "states/base", "states/settings", "states/records", "states/run"),
        *("prompts", "prompts/building", "prompts/parsing", "prompts/offline", "prompts/clients/wire"),
        *("tools", "tools/schema"),
        *("fsm/machine", "fsm/decision", "fsm/workflow", "fsm/workflow/expressions"),
        *("fsm/replay", "fsm/explain", "fsm/diagrams", "fsm/check"),
    )
)
"""Rooms whose modules must be pure; each must exist, so that renaming a room cannot take it out of the gate."""

PURE_FILES = (
    "src/paor/fsm/journal/record.py",  # the bytes of a row and its hash: a copy of the independent script's rules
    "src/paor/prompts/clients/prices.py",  # what a request costs is recorded, and derived again
)
"""Pure modules in rooms that are not."""

ALLOWED = {
    "src/paor/prompts/building/templates.py": {"files"},  # the shipped templates, package resources
    "src/paor/fsm/workflow/reader.py": {"files"},  # the shipped workflow, a package resource
}
"""Kinds of ban that do not hold for a file."""

EFFECT = "I/O: leave it to a driver"
SET_ORDER = "the order of a set differs between runs: use sorted()"
TOP_LEVEL = "a link to a folder of the package: from outside it is paor.*, inside imports are relative"
FACE = "the folders know nothing of the face: import from the module that defines it"

Bans = dict[str, tuple[str, str]]
"""Dotted name to kind and why; the name of a module bans all that is in it."""


def _bans(*rows: tuple[str, str, str]) -> Bans:
    """Return rows of kind, why and names divided by spaces as one mapping."""
    return {name: (kind, why) for kind, why, names in rows for name in names.split()}


BANNED = _bans(
    ("clock", "a clock: take the time as a value", "time datetime.date.today datetime.datetime.today"),
    ("clock", "a clock: take the time as a value", "datetime.datetime.now datetime.datetime.utcnow"),
    ("chance", "chance: take ids and choices as values", "random secrets os.urandom"),
    ("chance", "chance: take ids and choices as values", "uuid.uuid1 uuid.uuid4 uuid.uuid7 uuid_utils"),
    ("environment", "the environment: take it as a value", "os.environ os.environb os.getpid"),
    ("environment", "the environment: take it as a value", "os.getenv os.getenvb"),
    ("files", EFFECT, "builtins.open io.open os.open importlib.resources tempfile shutil"),
    ("files", EFFECT, "pathlib.Path.cwd pathlib.Path.home"),
    ("sqlite3", EFFECT, "sqlite3"),
    ("network", EFFECT, "socket requests httpx httpx2 urllib.request http.client"),
    ("effects", EFFECT, "subprocess logging builtins.print builtins.input"),
    ("effects", "the scheduler would decide the order", "threading asyncio concurrent"),
    ("code", "runs text as code", "builtins.compile builtins.__import__"),
    ("code", "imports what no gate can see", "importlib.import_module importlib.util"),
)
"""What pure files may not import or name."""

BANNED_EVERYWHERE = _bans(
    ("code", "runs text as code", "builtins.eval builtins.exec"),
    ("code", "revives arbitrary objects", "pickle marshal shelve yaml.load yaml.load_all yaml.unsafe_load"),
    ("code", "starts a shell", "os.system"),
)
"""What no file of the project may import or name."""


def _words(text: str, prefix: str = "") -> frozenset[str]:
    """Return the words of *text*, each with *prefix* before it."""
    return frozenset(prefix + word for word in text.split())


FILE_METHODS = _words("read_text read_bytes write_text write_bytes open touch mkdir rmdir unlink iterdir")
FILE_METHODS |= _words("glob rglob exists is_file is_dir stat hardlink_to symlink_to")
"""Methods of `pathlib.Path` that ask or change the file system."""

UNORDERED_SINKS = _words("sorted any all min max sum len frozenset set", "builtins.")
ORDERED_SINKS = _words("list tuple enumerate iter zip map filter next", "builtins.")
ORDERED_METHODS = _words("join fromkeys extend")
SET_TYPES = _words("set frozenset Set AbstractSet MutableSet")
SET_METHODS = _words("union intersection difference symmetric_difference copy")
EXEMPTION = re.compile(r"#\s*pure:(?P<reason>.*)")


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One finding, printed as ``file:line: what (why)``."""

    file: str
    line: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what} ({self.why})"


def check_project(root: Path) -> list[Violation]:
    """Return what is wrong in the Python files below *root*; links to folders are not followed."""
    found: list[Violation] = []
    files = sorted({path for part in PROJECT for path in _python_files(root / part)})
    names = [path.relative_to(root).as_posix() for path in files]
    for path, name in zip(files, names, strict=True):
        found += check_source(path.read_text(encoding="utf-8"), name)
    for room in sorted({*PURE, *PURE_FILES} - {_room(name) for name in names} - {*names}):
        found.append(Violation(room, 0, "no such room or file", "keep PURE in .ci/purity.py up to date"))
    return found


def _room(name: str) -> str:
    """Return the folder of a file."""
    return name.rpartition("/")[0]


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files below *folder*, without following links to folders."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            yield from _python_files(path)
        elif path.suffix == ".py":
            yield path


def check_source(text: str, name: str) -> list[Violation]:
    """
    Return what is wrong with the module *text*.

    Args:
        text: Python source.
        name: Its path from the repository's root with forward slashes; decides which bans hold.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [Violation(name, error.lineno or 0, "does not parse", str(error.msg))]
    exempt, unreasoned = _exemptions(text)
    found = {Violation(name, line, "no reason given", "write # pure: reason") for line in unreasoned}
    for node, what, why in _Reader(tree, name).findings():
        if exempt.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            found.add(Violation(name, node.lineno, what, why))
    return sorted(found)


def _exemptions(text: str) -> tuple[set[int], set[int]]:
    """Return the lines exempt with a reason, and those that give none."""
    exempt, unreasoned = set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (match := EXEMPTION.search(token.string)):
            (exempt if match["reason"].strip() else unreasoned).add(token.start[0])
    return exempt, unreasoned


Finding = tuple[ast.expr | ast.stmt, str, str]


class _Reader:
    """One module's tree with what its names stand for."""

    def __init__(self, tree: ast.Module, name: str) -> None:
        self.nodes = list(ast.walk(tree))
        folders = name.split("/")[2:-1] if name.startswith("src/paor/") else []
        self.package = folders if folders and folders[0] in FLOORS else []
        self.pure = _room(name) in PURE or name in PURE_FILES
        self.allowed = ALLOWED.get(name, set())
        self.imported: dict[str, str] = {}
        for node in self.nodes:
            self.imported |= {local: meaning for local, meaning, _ in _imports(node)}
        self.bound = set(self.imported) | {bound for node in self.nodes for bound in _bound(node)}
        self.set_names = self._set_names()
        # `os.environ.get` is one finding, not three
        self.inner = {id(node.value) for node in self.nodes if isinstance(node, ast.Attribute)}
        # `sorted(x for x in some_set)` is fine: the generator's order never shows
        self.shielded = {
            id(argument)
            for node in self.nodes
            if isinstance(node, ast.Call) and self.dotted(node.func) in UNORDERED_SINKS
            for argument in node.args
        }

    def findings(self) -> Iterator[Finding]:
        """Yield each forbidden node with what it is and why it is forbidden."""
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._of_import(node)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield from self._of_name(node)
            elif isinstance(node, ast.Call):
                yield from self._of_call(node)
            if self.pure:
                yield from self._of_order(node)

    def _of_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
        for _, _, target in _imports(node):
            if target.split(".")[0] in FLOORS:
                yield node, f"import {target}", TOP_LEVEL
            elif self.package and target.split(".")[0] == "paor":
                yield node, f"import {target}", "inside the package imports are relative"
            elif ban := self._ban(target):
                yield node, f"import {target}", ban[1]
        if self.package and isinstance(node, ast.ImportFrom) and node.level > len(self.package):
            parts = [node.module] if node.module else [alias.name for alias in node.names]
            for part in parts:
                if part.split(".")[0] not in FLOORS:
                    yield node, f"import {'.' * node.level}{part}", FACE

    def _of_name(self, node: ast.Name | ast.Attribute) -> Iterator[Finding]:
        target = None if id(node) in self.inner else self.dotted(node)
        if target is not None and (ban := self._ban(target)):
            yield node, target.removeprefix("builtins."), ban[1]

    def _of_call(self, node: ast.Call) -> Iterator[Finding]:
        target = self.dotted(node.func) or ""
        if target.startswith("subprocess.") and any(_is_true_shell(keyword) for keyword in node.keywords):
            yield node, f"{target}(shell=True)", "starts a shell"
        if not self.pure:
            return
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in FILE_METHODS and "files" not in self.allowed and self._ban(target) is None:
            yield node, f".{method}()", EFFECT

    def _of_order(self, node: ast.AST) -> Iterator[Finding]:
        """Yield sets whose order would show: looped over, spread, joined, or turned into a sequence."""
        seen: list[ast.expr] = []
        if isinstance(node, ast.For):
            seen = [node.iter]
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            seen = [] if id(node) in self.shielded else [generator.iter for generator in node.generators]
        elif isinstance(node, ast.List | ast.Tuple):
            seen = [item.value for item in node.elts if isinstance(item, ast.Starred)]
        elif isinstance(node, ast.Call):
            seen = node.args if self._orders(node) else []
            seen = [*seen, *(argument.value for argument in node.args if isinstance(argument, ast.Starred))]
        for expression in seen:
            if self._is_set(expression):
                yield expression, "iteration over a set", SET_ORDER

    def _orders(self, call: ast.Call) -> bool:
        """Return whether the order of what *call* gets is visible in what it returns."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in ORDERED_METHODS:
            return True
        return id(call) not in self.shielded and self.dotted(call.func) in ORDERED_SINKS

    def _ban(self, target: str) -> tuple[str, str] | None:
        """Return kind and reason of the ban on *target* or on a module it is in, or None."""
        parts = target.split(".")
        for size in range(len(parts), 0, -1):
            name = ".".join(parts[:size])
            ban = BANNED_EVERYWHERE.get(name) or (BANNED.get(name) if self.pure else None)
            if ban and ban[0] not in self.allowed:
                return ban
        return None

    def dotted(self, node: ast.expr) -> str | None:
        """Return the full name of *node* (``datetime.date.today``), or None for what imports do not tell."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else None
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.imported:
            return self.imported[node.id]
        return f"builtins.{node.id}" if node.id not in self.bound and hasattr(builtins, node.id) else None

    def _set_names(self) -> set[str]:
        """Return the names that are nothing but sets wherever this module binds them."""
        sets, others = set[str](), set[str]()
        self.set_names = set()
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        (sets if self._is_set(node.value) else others).add(target.id)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                (sets if self._is_set_type(node.annotation) else others).add(node.target.id)
            elif isinstance(node, ast.arg):
                (sets if node.annotation and self._is_set_type(node.annotation) else others).add(node.arg)
        looped = {name for node in self.nodes for name in _looped(node)}
        return sets - others - looped

    def _is_set_type(self, annotation: ast.expr) -> bool:
        base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        return (self.dotted(base) or "").rsplit(".")[-1] in SET_TYPES

    def _is_set(self, node: ast.expr) -> bool:
        """Return whether *node* certainly is a set, as far as this module tells."""
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name):
            return node.id in self.set_names
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            return self._is_set(node.left) or self._is_set(node.right)
        if isinstance(node, ast.IfExp):
            return self._is_set(node.body) or self._is_set(node.orelse)
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS:
            return self._is_set(node.func.value)
        function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        return self.dotted(function) in ("builtins.set", "builtins.frozenset")


def _imports(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield for each absolute import in *node*: the name it binds, what that stands for, what is imported."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.split(".")[0]  # `import a.b` binds `a`
            yield alias.asname or top, alias.name if alias.asname else top, alias.name
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield alias.asname or alias.name, full, full


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that *node* binds, so that a parameter called `input` is not taken for the builtin."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.ImportFrom) and node.level:
        yield from (alias.asname or alias.name for alias in node.names)


def _looped(node: ast.AST) -> Iterator[str]:
    """Yield the names that a loop, an unpacking or a `with` binds to something unknown."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.For | ast.comprehension):
        targets = [node.target]
    elif isinstance(node, ast.withitem) and node.optional_vars:
        targets = [node.optional_vars]
    elif isinstance(node, ast.Assign):
        targets = [target for target in node.targets if not isinstance(target, ast.Name)]
    elif isinstance(node, ast.NamedExpr):
        targets = [node.target]
    for part in (part for target in targets for part in ast.walk(target)):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def _is_true_shell(keyword: ast.keyword) -> bool:
    """Return whether *keyword* is ``shell=`` with anything but a literal false value."""
    off = isinstance(keyword.value, ast.Constant) and not keyword.value.value
    return keyword.arg == "shell" and not off


def main() -> int:
    """Print the violations of this repository; return 1 if there are any."""
    found = check_project(Path(__file__).resolve().parent.parent)
    for violation in found:
        sys.stdout.write(f"{violation}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
