"""The page of real runs whose every free field holds a hostile string: nothing runs, nothing is asked for, everything is seen as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from paor import Journal, report

from ..mcp.hostile_run import Texts, write
from .hostile_texts import HOSTILE, LONG, UNSEEN, visible
from .report_browser import Watched, opened

pytestmark = pytest.mark.whole

SHOWN_OF_LONG = 60
"""Characters at the beginning of a string by which a longer one is looked for: a field may keep no more of it."""

NOT_SHOWN = {
    *("connection.value", "phase.meaning", "question.state", "tool.description", "tool.parameter"),
    *("key", "metadata.text", "metadata.list", "value.text"),
}
"""Fields that no part of the page is about; key and metadata are searched in the list of runs, values given to a run are in no part."""


def written(text: str) -> set[str]:
    """Return the forms in which a journal may hold a text: as it is, as JSON, without what no journal holds, or on one line."""
    clean = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    found = {text, clean}
    for one in (text, clean):
        found |= {json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1], " ".join(one.split())}
    return found


def forms(text: str) -> set[str]:
    """Return the forms in which a page may show a text: those in which it was written, with the codes of what cannot be seen."""
    return {visible(form) for form in written(text)}


@dataclass
class Walked:
    """
    What was seen of a page.

    Attributes:
        texts: What was shown, view by view.
        tags, attributes: Names of its elements and of their attributes.
        links: Where its links lead.
        scripts: How many scripts it had, view by view.
    """

    texts: list[str] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    scripts: set[int] = field(default_factory=set)


LOOK = r"""
(async unseen => {
  const hidden = new RegExp(unseen, "u"), found = {texts: [], raw: [], tags: [], attributes: [], links: []};
  const wait = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  for (let turn = 0; turn < 3; turn += 1) {
    document.querySelectorAll("details").forEach(node => { node.open = true; });
    for (const node of document.querySelectorAll("button.more"))
      if (/^(show all [\d,]+ characters|whole prompt)$/.test(node.textContent)) node.click();
    await wait();
  }
  const tags = new Set(), attributes = new Set(), links = new Set();
  for (const node of document.querySelectorAll("*")) {
    tags.add(node.localName);
    for (const {name, value} of node.attributes) {
      attributes.add(name);
      if (hidden.test(value)) found.raw.push(node.localName + "@" + name);
      if (["href", "src", "action", "formaction", "data", "xlink:href"].includes(name)) links.add(value.slice(0, 60));
    }
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const {parentElement, data} = walk.currentNode;
    if (["SCRIPT", "STYLE"].includes(parentElement.tagName)) continue;
    if (hidden.test(data)) found.raw.push(parentElement.localName + "." + parentElement.className + ": " + escape(data.slice(0, 40)));
  }
  const shown = node => [...node.childNodes].filter(child => !["SCRIPT", "STYLE"].includes(child.tagName)).map(child => child.textContent).join("\n");
  found.texts.push(shown(document.body));
  return JSON.stringify({...found, tags: [...tags], attributes: [...attributes], links: [...links], hit: window.hacked ?? null, scripts: document.scripts.length, title: document.title});
})
"""
"""Opens everything that can be opened, and tells what is there; returned as JSON, in which half a character is an escape."""


def look(seen: Watched, walked: Walked) -> None:
    """Take in what the page shows now; nothing of it may be unseen, executed, or lead out of the page."""
    told = json.loads(seen.page.evaluate(f"{LOOK}({json.dumps(JS_UNSEEN)})"))
    assert told["hit"] is None, "a string was executed"
    assert told["raw"] == [], "characters that cannot be seen"
    assert not UNSEEN.search(told["title"])
    walked.texts += told["texts"]
    walked.tags |= set(told["tags"])
    walked.attributes |= set(told["attributes"])
    walked.links |= set(told["links"])
    walked.scripts.add(told["scripts"])


JS_UNSEEN = r"(?![\n\t])[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]"
"""What must stand as a code, for a regular expression of the browser: its own tables of Unicode say which characters these are."""


def walk(browser: Any, file: Path, runs: Sequence[tuple[str, Sequence[int]]]) -> Walked:
    """Look at every view of a page: the list, the inbox, and rows of runs."""
    walked, dialogs = Walked(), list[str]()
    with opened(browser, file) as seen:
        seen.page.on("dialog", lambda dialog: dialogs.append(dialog.message) or dialog.dismiss())  # type: ignore[func-returns-value]
        for place in ("#runs", "#inbox") if len(runs) > 1 else ():
            seen.page.evaluate(f"location.hash = {json.dumps(place)}")
            seen.page.wait_for_selector("main.page", state="attached")
            look(seen, walked)
        for run_id, rows in runs:
            for seq in rows:
                seen.page.evaluate(f"location.hash = {json.dumps(f'#run/{run_id}/row-{seq}')}")
                seen.page.wait_for_selector(f".detail[data-shown='{seq}'] .blk", state="attached")
                look(seen, walked)
        assert dialogs == []
        seen.silent()
    return walked


def page_of(folder: Path, give: Any, sets: int = 1) -> tuple[Path, list[tuple[str, range]]]:
    """Return the page of a journal of every kind of run, and its runs with the numbers of their rows."""
    for number in range(sets):
        write(folder / "runs.db", give, seed=number)
    with Journal(folder / "runs.db", read_only=True) as journal:
        file = folder / "runs.html"
        file.write_text(report(journal), encoding="utf-8")
        return file, [(row.run_id, range(row.head_seq + 1)) for row in journal.runs()]


@pytest.fixture(scope="module")
def hostile(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Texts, Walked, Path]]:
    """Give the strings by field, what was seen of their page, and the page; its journal is beside it."""
    texts = Texts([*HOSTILE, *LONG])
    file, runs = page_of(tmp_path_factory.mktemp("hostile"), texts)
    yield texts, walk(chromium, file, runs), file


def test_every_string_was_given_to_a_field_of_a_real_run(hostile: tuple[Texts, Walked, Path]) -> None:
    """More than three hundred, none twice, in over sixty fields; no string is left out."""
    texts, _, _ = hostile
    given = {text for field_texts in texts.fields.values() for text in field_texts}
    assert len(set(HOSTILE)) == len(HOSTILE) >= 300
    assert len(texts.fields) >= 60 and given >= {*HOSTILE, *LONG}


def test_the_page_has_no_element_that_a_page_of_harmless_texts_has_not(
    hostile: tuple[Texts, Walked, Path], chromium: Any, tmp_path: Path
) -> None:
    """Names of elements, of attributes, and the number of scripts are those of the same runs with plain words; links stay in the page."""
    _, walked, _ = hostile
    file, runs = page_of(tmp_path, lambda name: f"plain words of {name}")
    plain = walk(chromium, file, runs)
    assert walked.tags <= plain.tags | {"sup"}, walked.tags - plain.tags
    assert walked.attributes <= plain.attributes, walked.attributes - plain.attributes
    assert not [name for name in walked.attributes if name.startswith("on") or name in ("srcdoc", "src")]
    assert not walked.tags & {
        *["img", "iframe", "object", "embed", "base", "link", "video", "audio", "math", "foreignObject"]
    }
    assert all(target.startswith("#") for target in walked.links), walked.links
    assert len(walked.scripts) == 1


def test_every_string_is_seen_as_it_is(hostile: tuple[Texts, Walked, Path]) -> None:
    """Of each field each string that the journal holds: as it is or as JSON has it, each character without a shape as its code."""
    texts, walked, file = hostile
    everything, held = "\n".join(walked.texts), stored(file.parent / "runs.db")
    hidden = {
        text for name in NOT_SHOWN for text in texts.fields[name]
    }  # it may be held for such a field alone
    looked_for, missing = 0, []
    for name, given in texts.fields.items():
        for text in given:
            if name in NOT_SHOWN or text in hidden or not is_in(text, held, written):
                continue  # what a run did not come to, or kept the beginning of
            looked_for += 1
            if not is_in(text, everything, forms):
                missing.append((name, text[:60]))
    assert not missing, (len(missing), missing[:20])
    assert looked_for > 300, looked_for


SPEC_SHOWN = ("objective", "success_criteria", "context", "transcript", "rules")
"""What of a spec is on the page, in the run's head or in its prompts."""


def stored(path: Path) -> str:
    """Return every text of a journal that a page is about: of specs only `SPEC_SHOWN`."""
    with Journal(path, read_only=True) as journal:
        specs = "SELECT run << 32 | spec_payload FROM specs"
        bodies = journal.reader.query(
            f"SELECT body FROM payloads WHERE body IS NOT NULL AND id NOT IN ({specs})"
        )
        begun = journal.reader.query(f"SELECT body FROM payloads WHERE body IS NOT NULL AND id IN ({specs})")
    found = [item if isinstance(item, str) else item.decode("utf-8", "replace") for (item,) in bodies]
    for (body,) in begun:
        spec = json.loads(body)
        found += [json.dumps(spec[name], ensure_ascii=False) for name in SPEC_SHOWN]
    return "\n".join(found)


def is_in(text: str, where: str, made: Callable[[str], set[str]]) -> bool:
    """Whether each line of a text stands somewhere in one of its forms; of a long one its beginning."""
    if any(form[:SHOWN_OF_LONG] in where for form in made(text)):
        return True
    lines = [line for line in text.split("\n") if line.strip()]
    return bool(lines) and all(
        any(form.strip()[:SHOWN_OF_LONG] in where for form in made(line)) for line in lines
    )


def test_the_file_holds_no_string_outside_its_packed_parts(hostile: tuple[Texts, Walked, Path]) -> None:
    """The bytes of the file: the strings that could be markup stand nowhere in it as they are."""
    _, _, file = hostile
    source = file.read_text(encoding="utf-8")
    assert "hacked" not in source and "127.0.0.1:9" not in source
    assert not UNSEEN.search(source)
    assert source.lower().count("<script") == source.lower().count("</script>")


def test_each_string_is_shown_by_the_pages_own_functions_as_visible_says(chromium: Any) -> None:
    """Every one of them, by the one place where texts become nodes: in an element, in an attribute, in a picture, and whole once it is opened."""
    source = (resources.files("paor.fsm.report") / "assets" / "dom.js").read_text(encoding="utf-8")
    seen = chromium.new_page()
    seen.set_default_timeout(15_000)
    strings = [*HOSTILE, *(text for text in LONG if len(text) <= 20_000)]
    for first in range(0, len(strings), 60):
        batch = strings[first : first + 60]
        texts = json.dumps(json.dumps(batch))
        found = json.loads(seen.evaluate(f"(() => {{ {source}\n return {SHOW}({texts}); }})()"))
        for text, (shown, title, drawn, elements) in zip(batch, found, strict=True):
            if sum(bool(UNSEEN.match(sign)) for sign in text) < 900:
                assert shown == visible(text), text
            spelled = "".join(f"⟨{visible(sign)}⟩" if UNSEEN.match(sign) else sign for sign in text)
            assert title == spelled and drawn == spelled, text
            assert elements <= 1, text
    assert seen.evaluate("window.hacked ?? null") is None
    seen.close()


SHOW = """(texts => JSON.stringify(JSON.parse(texts).map(text => {
    const node = el("p", text), more = node.querySelector("button");
    if (more) more.click();
    const shown = more ? node.firstChild.textContent : node.textContent;
    return [shown, el("p", {title: text}).title, sv("text", text).textContent, node.querySelectorAll("*:not(.mark)").length];
})))"""
"""Shows texts in an element, as a title and in a picture; of a bounded one all of it."""


FIELDS = (
    "objective",
    "tool.result",
    "answer",
    "document.text",
    "criterion",
    "argument.text",
    "reply.raw",
    "answer",
)


def test_long_strings_are_bounded_and_shown_whole_when_they_are_opened(chromium: Any, tmp_path: Path) -> None:
    """A line of a million letters as the objective, 80,000 characters of tags as a result, and others: none is executed, none lost."""
    long = dict(zip(FIELDS, LONG, strict=True))
    write(tmp_path / "runs.db", lambda name: long.get(name, f"plain words of {name}"))
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        run_id, count = journal.runs()[-1].run_id, journal.runs()[-1].head_seq + 1
        (tmp_path / "run.html").write_text(report(journal, run_id), encoding="utf-8")
    with opened(chromium, tmp_path / "run.html") as seen:
        seen.page.wait_for_selector("h1")
        assert (
            seen.page.evaluate("document.querySelector('main').textContent.length") < 100_000
        )  # until it is asked for
    walked = walk(chromium, tmp_path / "run.html", [(run_id, (0, 1, 3, 4, 8, 12, count - 1))])
    everything = "\n".join(walked.texts)
    for name, text in long.items():
        for line in [line for line in text.split("\n") if line.strip()]:
            assert any(form[:50_000] in everything for form in forms(line)), (name, len(text))
    assert not [name for name in walked.attributes if name.startswith("on")]


def test_two_hostile_runs_are_compared(chromium: Any, tmp_path: Path) -> None:
    """The view of two runs and their first difference."""
    texts = Texts(HOSTILE, start=77)
    write(tmp_path / "runs.db", texts)
    walked = Walked()
    with Journal(tmp_path / "runs.db", read_only=True) as journal:
        ids = [row.run_id for row in journal.runs()]
        for one, two in zip(ids[::4], ids[1::4], strict=False):
            file = tmp_path / "compared.html"
            file.write_text(report(journal, one, diff=two), encoding="utf-8")
            with opened(chromium, file, "#compare") as seen:
                look(seen, walked)
                seen.silent()
    assert not [name for name in walked.attributes if name.startswith("on")]
    assert all(target.startswith("#") for target in walked.links)


def test_a_link_that_is_followed_right_after_a_step_is_not_undone(chromium: Any, tmp_path: Path) -> None:
    """The address of the row is written a moment later; by then a link may have been followed, however busy the page is."""
    file, runs = page_of(tmp_path, lambda name: f"plain words of {name}")
    run_id, rows = next(item for item in runs if len(item[1]) > 9)
    step_and_leave = """(() => {
        dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
        document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
        const end = performance.now() + 200;
        while (performance.now() < end);
        location.hash = "#runs";
    })()"""
    with opened(chromium, file) as seen:
        for seq in range(5):
            seen.page.evaluate(f"location.hash = {json.dumps(f'#run/{run_id}/row-{seq}')}")
            seen.page.wait_for_selector(f".detail[data-shown='{seq}'] .blk", state="attached")
            seen.later(200)
            seen.page.evaluate(step_and_leave)
            seen.later(200)
            assert seen.page.evaluate("[location.hash, document.body.className]") == ["#runs", "runs"]
    assert rows
