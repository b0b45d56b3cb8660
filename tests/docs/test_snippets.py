"""The README's and the documents' snippets run, against a real service; those that do not say why."""

from __future__ import annotations

import gc
import glob
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from preludes import PRELUDES
from processes import Service, free_port
from snippets import NOT_CODE, Snippet, run_python, snippets
from typer.testing import CliRunner

from optimist.commands import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNING = [
    page
    for page in PAGES
    if any(one.language in ("python", "bash") and not one.comment.startswith("not run") for one in snippets(page))
]


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
        done = CliRunner().invoke(app, [match for word in arguments for match in sorted(glob.glob(word)) or [word]])
        assert done.exit_code == 0, f"{page.name}:{snippet.line}\n{done.output}{done.exception}"


def run_until_stopped(snippet: Snippet, page: Path) -> None:
    """Start it, have it say where it listens, stop it in order."""
    arguments, environment = command(snippet, 0)
    environment["OPTIMIST_PORT"] = str(free_port())
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
    assert said.startswith("Optimist "), f"{page.name}:{snippet.line}\n{said}{rest}"
    assert "Traceback" not in rest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path):
    unknown = [one.line for one in snippets(page) if one.language not in {*NOT_CODE, "python", "bash"}]
    assert not unknown, f"{page.name}: lines {unknown} need a language"


# Readers leave connections to the end of their process.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
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
        elif snippet.language == "bash":
            run_bash(snippet, page, shared.port)
        elif snippet.language == "python":
            run_python(snippet, page, snippet.code.replace("127.0.0.1:8000", f"127.0.0.1:{shared.port}"), namespace)
    namespace.clear()
    gc.collect()
