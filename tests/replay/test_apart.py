"""A replay stands by itself: no network, no process, no file but the journal, and the same on any machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from paor import Engine, Journal, ScriptedModel, Task, web_tools
from paor.web import SearchHit, SearchReply

from ..support.flows import PLAN as PAGES
from ..support.flows import Calls, fixture
from ..support.journeys import JOURNEYS, play
from ..support.pages import ROOT
from ..support.planning import NOTHING
from ..support.worlds import ANSWER, CONTINUE, JOURNAL, PARAMETERS, SELECT, STOP, SUCCESS, engine

GUARD = r"""
import json, os, sys
import paor.fsm.decision.workflow_mode, paor.fsm.replay.replay, lark, sqlite3  # what is imported on first use reads its own files
from paor import Journal, replay

broken, allowed = [], {os.path.realpath(path) for path in sys.argv[1:]}
own = tuple(os.path.realpath(p) for p in {*sys.path, sys.prefix, sys.base_prefix, "/usr/lib", *json.loads(os.environ["OWN"])} if p)


def watch(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "urllib.", "http.")):
        broken.append(event)
    elif event in ("os.remove", "os.rename", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree"):
        broken.append(f"{event} {arguments}")
    elif event == "open" and isinstance(arguments[0], str):
        path, mode = os.path.realpath(arguments[0]), arguments[1]
        writes = isinstance(mode, str) and set(mode) & set("wax+")
        writes = writes or bool((arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes or not (path in allowed or path.startswith(own)):
            broken.append(f"open {path} {mode}")
    elif event == "sqlite3.connect":
        name = str(arguments[0])
        if not (name == ":memory:" or any(f"{path}?mode=ro" in name for path in allowed)):
            broken.append(f"sqlite3 {name}")


sys.addaudithook(watch)
found = {}
for path in sys.argv[1:]:
    with Journal(path, read_only=True) as journal:
        for row in journal.runs():
            result = replay(journal, row.run_id)
            found[f"{path} {row.run_id}"] = [len(result.divergences), result.transitions]
json.dump({"broken": broken, "found": found}, sys.stdout)
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return journals of tools of all kinds, of every mode, of a workflow file, of a workflow of tasks and of the web."""
    folder = tmp_path_factory.mktemp("corpus")
    for journey in JOURNEYS:
        (folder / journey.name).mkdir()
        with journey.engine(folder / journey.name) as scripted:
            play(journey, scripted)
    (folder / "file").mkdir()
    with engine(folder / "file", [PAGES(1, 2), PAGES(3), NOTHING, SUCCESS], Calls().tools) as scripted:
        scripted.run("Read the notes", workflow=fixture("workflow.yaml"))
    (folder / "tasks").mkdir()
    with engine(folder / "tasks", [ANSWER(), SUCCESS]) as scripted:
        scripted.run_workflow("Read both", tasks=[Task("Read one"), Task("Read the other")])
    return [*sorted(folder.glob(f"*/{JOURNAL}")), web_run(tmp_path_factory.mktemp("web"))]


def web_run(folder: Path) -> Path:
    """Return the journal of a run that has searched and read the web, as far as a site on this machine is one."""

    class Index:
        name = "index"

        def search(self, query: object) -> SearchReply:
            return SearchReply((SearchHit("https://example.org/a", "A page", "of words"),))

    script = [
        SELECT("web.search", {"query": "string"}),
        PARAMETERS(query="pages"),
        CONTINUE,
        SELECT("web.scrape", {"urls": "array"}),
        PARAMETERS(urls=["https://nothing.invalid/"]),
        STOP,
        SUCCESS,
    ]
    path = folder / "runs.db"
    with Engine(ScriptedModel(script), web_tools(Index()), Journal(path, "off"), builtins=False) as engine:
        engine.run("Search the web")
    return path


def guarded(
    paths: list[Path], *, before: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> dict[str, list[int]]:
    """Replay journals in a process that notes every door it opens; return what was found for each run."""
    own = [str(ROOT), str(Path(sys.executable).parent), os.path.realpath(sys.executable)]
    env = {**os.environ, "OWN": json.dumps(own), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    command = [*before, sys.executable, "-c", GUARD, *map(str, paths)]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    told = json.loads(ended.stdout)
    assert told["broken"] == [], told["broken"][:5]
    found: dict[str, list[int]] = told["found"]
    return found


def test_a_replay_opens_no_socket_no_process_and_no_file_but_the_journal(corpus: list[Path]) -> None:
    """Every run of the corpus, in a process whose interpreter reports each attempt; nothing is changed or created."""
    before = {path: path.read_bytes() for path in corpus}
    folders = {path.parent: sorted(path.parent.iterdir()) for path in corpus}
    found = guarded(corpus)
    assert len(found) == len(corpus) + 2 > 50
    assert all(differences == 0 and rows > 0 for differences, rows in found.values())
    assert {path: path.read_bytes() for path in corpus} == before
    assert {folder: sorted(folder.iterdir()) for folder in folders} == folders


@pytest.mark.whole
def test_the_guard_notices(tmp_path: Path, corpus: list[Path]) -> None:
    """A replay that reached out would be found out: the guard is no formality."""
    for line in (
        "import socket; socket.socket()",
        "open('there', 'w')",
        "import subprocess; subprocess.run(['true'])",
    ):
        program = GUARD.replace("found = {}", f"found = {{}}\n{line}")
        env = {**os.environ, "OWN": json.dumps([str(ROOT)])}
        ended = subprocess.run(
            [sys.executable, "-c", program, str(corpus[0])],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(ended.stdout)["broken"], line


@pytest.mark.whole
def test_a_replay_works_where_there_is_no_network(corpus: list[Path]) -> None:
    """In a name space of its own, which has no device but a loopback that is down."""
    unshare = shutil.which("unshare")
    probe = [unshare or "", "-r", "-n", "true"]
    if unshare is None or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("this system gives no name space without network")
    found = guarded(corpus[:20], before=(unshare, "-r", "-n"))
    assert found and all(differences == 0 for differences, _ in found.values())


@pytest.mark.whole
def test_no_surroundings_give_a_false_alarm(corpus: list[Path]) -> None:
    """Any seed of hashing, time zone and language, in a process each."""
    for seed, zone, language in (
        ("0", "UTC", "C"),
        ("1", "Asia/Kathmandu", "C.UTF-8"),
        ("4294967295", "America/St_Johns", "de_DE.UTF-8"),
        ("77", "Pacific/Apia", "tr_TR.UTF-8"),
        ("random", "XYZ-13:37", ""),
    ):
        environment = {"PYTHONHASHSEED": seed, "TZ": zone, "LANG": language, "LC_ALL": language}
        found = guarded(corpus, environment=environment)
        assert found and all(differences == 0 for differences, _ in found.values()), environment
