"""The documentation's site: every page is there and in the menu, nothing is fetched from elsewhere, no link is broken."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ..support.pages import ROOT

pytestmark = pytest.mark.whole
pytest.importorskip("zensical", reason="needs pip install 'paor[docs]'")
PAGES = sorted(
    path.relative_to(ROOT).with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")
)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what builds it."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("build_site")


def test_every_page_is_built_and_in_the_menu_and_nothing_comes_from_elsewhere(
    site: Any, tmp_path: Path
) -> None:
    """Strictly, in an empty folder; programs that generate pages are no part of it."""
    assert site.build(tmp_path) == 0
    html = {
        path.relative_to(tmp_path / "html").as_posix(): path.read_text(encoding="utf-8")
        for path in (tmp_path / "html").rglob("*.html")
    }
    menu = set(re.findall(r'<a href="(?:\./)?([^"#]+)" class="md-nav__link', html["index.html"]))
    assert {"CHANGELOG.html", "CONTRIBUTING.html", "examples/host_app.py.html", *PAGES} <= menu <= set(html)
    foreign = re.compile(
        r'<(?:script|img|iframe|source)[^>]*\ssrc="?(?:https?:)?//|<link[^>]*\shref="?(?:https?:)?//'
    )
    assert not [name for name, text in html.items() if foreign.search(text)]
    assert all("mermaid" not in re.findall(r'class="([^"]*)"', text) for text in html.values())
    assert not [path for path in (tmp_path / "html").rglob("*") if path.suffix in (".py", ".toml", ".csv")]
    found = json.loads((tmp_path / "html" / "search.json").read_text(encoding="utf-8"))
    assert "docs/what-may-run-twice.html" in {item["location"].partition("#")[0] for item in found["items"]}
    assert "idempotency" in json.dumps(found)


@pytest.mark.parametrize("link", ["[gone](gone.md)", "[gone](tutorial.md#gone)"])
def test_a_link_that_leads_nowhere_ends_the_build(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    """To a page, to a heading; pictures are looked for in ``project/test_docs.py``."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# One\n", encoding="utf-8")
    (tmp_path / "docs" / "tutorial.md").write_text("# Two\n", encoding="utf-8")
    (tmp_path / "docs" / "index.md").write_text(f"# Three\n\n{link}\n", encoding="utf-8")
    shutil.copy(ROOT / "docs" / "site.css", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    monkeypatch.setattr(site, "ROOT", tmp_path)
    assert site.build(tmp_path / "build") != 0
    (tmp_path / "docs" / "index.md").write_text("# Three\n\n[there](tutorial.md#two)\n", encoding="utf-8")
    assert site.build(tmp_path / "build") == 0
