"""
Build the documentation as a site: ``python docs/build_site.py`` writes ``build/site/html``; open ``index.html`` there.

The pages stand on the site where they stand in the repository, so their links need no change: README is the first page, and every
page of ``docs`` is in the menu, in the order of ``docs/index.md``. A program or another file that a page links to becomes a page
that shows it. Zensical makes the HTML, as ``zensical.toml`` says; a link or anchor that leads nowhere ends the build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "site"
AS_THEY_ARE = (".md", ".svg", ".css", ".png", ".html")
_FENCED = re.compile(r"(?ms)(^```.*?^```$)")
_ROW = re.compile(r"(?m)^\|.*$")
_LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(#[^)\s]*)?\)")


def main() -> int:
    """Build the site; return 0, or Zensical's exit code if something is wrong with a page."""
    code = build(OUTPUT)
    print(f"{'not built' if code else 'wrote'}: {(OUTPUT / 'html' / 'index.html').relative_to(ROOT)}")
    return code


def build(output: Path) -> int:
    """Write the folders ``pages`` and ``html`` in *output*; return Zensical's exit code."""
    for name in ("pages", "html", ".cache"):
        shutil.rmtree(output / name, ignore_errors=True)
    todo = [ROOT / "README.md"]
    todo += [path for path in (ROOT / "docs").rglob("*") if path.suffix in AS_THEY_ARE]
    done: set[Path] = set()
    while todo:
        path = todo.pop()
        if path not in done:
            done.add(path)
            todo += _copied(path, output / "pages" / _place(path.relative_to(ROOT).as_posix()))
    settings = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    menu = "\n".join(_menu())
    (output / "zensical.toml").write_text(
        settings.replace("[project]", f"[project]\nnav = [\n{menu}\n]", 1), encoding="utf-8"
    )
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=output, check=False).returncode


def _place(link: str) -> str:
    """Return where a file stands on the site; what is no page is shown in one."""
    return link if not link or link.endswith(AS_THEY_ARE) else f"{link}.md"


def _copied(path: Path, target: Path) -> list[Path]:
    """Write a file's page; return the files that it links to."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".png", ".html"):
        shutil.copyfile(path, target)
        return []
    text = path.read_text(encoding="utf-8")
    found: list[Path] = []

    def linked(link: re.Match[str]) -> str:
        """Return a link as the site needs it: of headings with one name the later are numbered with ``_``, not ``-``."""
        file = (path.parent / link[1]).resolve()
        if file.is_file():
            found.append(file)
        anchor = re.sub(r"-([1-9])$", r"_\1", link[2] or "")
        return f"]({_place(link[1])}{anchor})"

    def unescaped(row: re.Match[str]) -> str:
        """Return a row of a table as the site needs it: in code, a bar separates nothing."""
        return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0])

    if path.suffix == ".md":
        parts = _FENCED.split(text)
        parts[::2] = [_ROW.sub(unescaped, _LINK.sub(linked, part)) for part in parts[::2]]
        text = "".join(parts)
    elif path.suffix not in AS_THEY_ARE:
        language = {".py": "python", ".yaml": "yaml"}.get(path.suffix, "text")
        text = f"# {path.name}\n\n~~~~~~{language}\n{text.rstrip()}\n~~~~~~\n"
    target.write_text(text, encoding="utf-8")
    return found


def _menu() -> Iterator[str]:
    """Yield the menu as lines of TOML: README, then section by section what the tables of the index list."""
    yield '{ "paor" = "README.md" },'
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for section in index.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        pages = re.findall(r"(?m)^\| \[([^]]+)\]\(([^)]+)\)", text)
        if title == "Learn":
            pages.insert(0, ("All pages", "index.md"))
        entries = [
            f'{{ "{name.replace("`", "")}" = "{_place(os.path.normpath(f"docs/{link}"))}" }}'
            for name, link in pages
        ]
        if entries:
            yield f'{{ "{title}" = [{", ".join(entries)}] }},'


if __name__ == "__main__":
    sys.exit(main())
