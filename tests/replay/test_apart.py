"""A replay stands by itself: no network, no process, no file but the journal, and the same on any machine."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ..support.pages import ROOT
from ..versioning.corpus import record, runs_of

GUARD = r"""
import json, os, sys
import paor.fsm.decision.workflow_mode, paor.fsm.replay.replay, lark, sqlite3  # what is imported on first use reads its own files
from paor import Journal, replay
from paor.fsm.versioning.fingerprints import code_fingerprints

code_fingerprints()
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
    """Return journals of tools of all kinds, models, plans, workflow files and workflows of tasks."""
    paths = record(tmp_path_factory.mktemp("corpus"))
    return [*paths, web_run(tmp_path_factory.mktemp("web"))]


def web_run(folder: Path) -> Path:
    """Return the journal of a run that has searched and read the web, as far as a site on this machine is one."""
    from paor import Engine, Journal, ScriptedModel, web_tools
    from paor.web import SearchHit, SearchReply

    from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS

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
    assert len(found) == len(list(runs_of(corpus))) > 100
    assert all(differences == 0 and rows > 0 for differences, rows in found.values())
    assert {path: path.read_bytes() for path in corpus} == before
    assert {folder: sorted(folder.iterdir()) for folder in folders} == folders


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


def surroundings(count: int, seed: int) -> list[dict[str, str]]:
    """Return environments that must not matter: seeds of hashing, time zones, languages."""
    chance = random.Random(seed)
    zones = ("UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia", "XYZ-13:37")
    names = ("C", "C.UTF-8", "POSIX", "de_DE.UTF-8", "tr_TR.UTF-8", "")
    return [
        {
            "PYTHONHASHSEED": str(chance.randrange(2**32)),
            "TZ": chance.choice(zones),
            "LANG": chance.choice(names),
            "LC_ALL": chance.choice(names),
        }
        for _ in range(count)
    ]


def check_surroundings(corpus: list[Path], processes: int, runs: int) -> None:
    """Replay *runs* journals in each of many surroundings; nothing may differ."""
    chance = random.Random(processes)
    total = 0
    for environment in surroundings(processes, 3):
        chosen = [chance.choice(corpus) for _ in range(runs)]
        found = guarded(sorted(set(chosen)), environment=environment)
        assert found and all(differences == 0 for differences, _ in found.values()), environment
        total += len(found)
    assert total >= processes * runs * 3 // 4


@pytest.mark.whole
def test_no_surroundings_give_a_false_alarm(corpus: list[Path]) -> None:
    """Fifteen processes, more than three hundred replays: any seed of hashing, time zone and language."""
    check_surroundings(corpus, 15, 24)


@pytest.mark.large
def test_no_surroundings_give_a_false_alarm_in_ten_thousand_replays(corpus: list[Path]) -> None:
    """The same, longer."""
    check_surroundings(corpus, 160, 90)
