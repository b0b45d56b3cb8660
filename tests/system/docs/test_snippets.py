"""The README's and the documents' snippets run, against a real service; those that do not say why.

The workers without the SDK of docs/workers.md come to a decision.
"""

from __future__ import annotations

import gc
import glob
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from optimist_client import Optimist
from tests.support.commands import invoked
from tests.support.places import ROOT
from tests.support.preludes import PRELUDES
from tests.support.processes import Service, free_port, serving
from tests.support.snippets import ANSWER, NOT_CODE, Snippet, run_python, snippets

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNNING = [
    page
    for page in PAGES
    if any(
        one.language in ("python", "bash", "json") and not one.comment.startswith("not run") for one in snippets(page)
    )
]
SOON = ("README.md",)
"""The pages that are run before each push."""


def command(snippet: Snippet, port: int) -> tuple[list[str], dict[str, str]]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    code = snippet.code.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    # "exec": a signal reaches the last command, not only the shell.
    if snippet.comment == "runs until stopped":
        code = f"exec {code}"
    return ["bash", "-euo", "pipefail", "-c", code], {**os.environ, "PATH": path, "NO_COLOR": "1"}


def run_bash(snippet: Snippet, page: Path, port: int) -> None:
    if all(line.startswith("optimist ") for line in snippet.code.splitlines()):
        run_commands(snippet, page, port)
        return
    arguments, environment = command(snippet, port)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, f"{page.name}:{snippet.line}\n{done.stdout}{done.stderr}"


def run_commands(snippet: Snippet, page: Path, port: int) -> None:
    """Commands of `optimist`, one a line, in this process: starting one that imports torch takes 4 s of a processor."""
    for line in snippet.code.splitlines():
        _, *words = shlex.split(line, comments=True)
        arguments = [word.replace("127.0.0.1:8000", f"127.0.0.1:{port}") for word in words]
        done = invoked(*[match for word in arguments for match in sorted(glob.glob(word)) or [word]])
        assert done.exit_code == 0, f"{page.name}:{snippet.line}\n{done.output}{done.exception}"


def run_until_stopped(snippet: Snippet, page: Path) -> None:
    """Start it, have it say where it listens, stop it in order."""
    arguments, environment = command(snippet, 0)
    environment["OPTIMIST_PORT"] = str(free_port())
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        listens = any(line.startswith("INFO: Optimist ") for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
    assert listens, f"{page.name}:{snippet.line}"
    assert "Traceback" not in rest


def check_answer(snippet: Snippet, page: Path, url: str) -> None:
    """Ask the service, and compare the shape of its answer with what the page shows."""
    where = f"{page.name}:{snippet.line}"
    assert snippet.comment.startswith(ANSWER), f"{where}: a block of JSON needs the request that it answers"
    method, path = snippet.comment.removeprefix(ANSWER).split()
    reply = httpx.request(method, f"{url}{path}")
    assert differences(json.loads(snippet.code), reply.json()) == [], where


def differences(shown: Any, real: Any, at: str = "") -> list[str]:
    """Where two JSON values have different fields, or values of different types; null stands for any."""
    if shown is None or real is None:
        return []
    if isinstance(shown, dict) and isinstance(real, dict):
        odd = [f"{at}.{name}" for name in shown.keys() ^ real.keys()]
        return odd + [
            one for name in shown.keys() & real for one in differences(shown[name], real[name], f"{at}.{name}")
        ]
    if isinstance(shown, list) and isinstance(real, list):
        return differences(shown[0], real[0], f"{at}[0]") if shown and real else []
    same = type(shown) is type(real) or {type(shown), type(real)} == {int, float}
    return [] if same else [f"{at}: {shown!r}, not {real!r}"]


def test_a_wrong_shape_is_noticed():
    real = {"picks": [{"number": 1, "worker": None}], "ended": False}
    assert differences({"picks": [{"number": 7, "worker": "a"}], "ended": True}, real) == []
    assert differences({"number": 1, "picks": [], "ended": False}, real) == [".number"]
    assert differences({"picks": [{"number": "1", "worker": None}], "ended": False}, real) == [
        ".picks[0].number: '1', not 1"
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path):
    unknown = [one.line for one in snippets(page) if one.language not in {*NOT_CODE, "python", "bash"}]
    assert not unknown, f"{page.name}: lines {unknown} need a language"


# Readers leave connections to the end of their process.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page.name in SOON else pytest.mark.long, id=page.name) for page in RUNNING],
)
def test_what_is_shown_runs(page: Path, shared: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "agg")
    prelude = PRELUDES.get(page.name)
    namespace: dict[str, Any] = prelude(shared.url) if prelude else {}
    namespace["__name__"] = "snippets"
    for snippet in snippets(page):
        if snippet.comment.startswith("not run: "):
            continue
        if snippet.comment == "runs until stopped":
            run_until_stopped(snippet, page)
        elif snippet.language == "json":
            check_answer(snippet, page, shared.url)
        elif snippet.language == "bash":
            run_bash(snippet, page, shared.port)
        elif snippet.language == "python":
            run_python(snippet, page, snippet.code.replace("127.0.0.1:8000", f"127.0.0.1:{shared.port}"), namespace)
    namespace.clear()
    gc.collect()


@pytest.mark.long
def test_workers_without_the_sdk_come_to_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "workers.md"
    *_, in_curl, in_python = (one for one in snippets(page) if one.language in ("bash", "python"))
    with serving(tmp_path / "data") as service, Optimist(service.url) as client:
        run_bash(in_curl, page, service.port)
        made: dict[str, Any] = {}
        run_python(in_python, page, in_python.code.replace("127.0.0.1:8000", f"127.0.0.1:{service.port}"), made)
        made["api"].close()
        for name in ("by-curl", "by-hand"):
            decision = client.experiment(name).report().decision
            assert (decision.decided, decision.best) == (True, "new")
