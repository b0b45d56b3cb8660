"""The site of the documents: `optimist docs` serves it, and each page stands beside its HTML as Markdown."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SERVE = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may ignore it
from optimist.commands import docs
from optimist.commands.app import app
docs.candidates = lambda: [Path(sys.argv[1])]
app(["docs", *sys.argv[2:]])
"""


def command(site: Path, *options: str) -> list[str]:
    """`optimist docs` of an install that has its site in this folder."""
    return [sys.executable, "-c", SERVE, str(site), *options]


@contextmanager
def served(folder: Path) -> Generator[str]:
    """The URL at which `optimist docs` shows this folder."""
    shown = command(folder, "--port=0", "--no-browser")
    with subprocess.Popen(shown, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())
        assert found
        try:
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.long
def test_the_pages_are_served_until_interrupted(tmp_path: Path):
    (tmp_path / "index.html").write_text("<h1>Optimist</h1>")
    (tmp_path / "index.md").write_text("# Größen")
    with served(tmp_path) as url:
        assert httpx.get(url).text == "<h1>Optimist</h1>"
        page = httpx.get(f"{url}index.md")
        assert (page.headers["content-type"], page.text) == ("text/markdown; charset=utf-8", "# Größen")


def test_pages_that_are_not_built_are_rendered():
    """Those of a fresh clone, with every picture, and every anchor that a link within them names."""
    with served(ROOT / "docs") as url, httpx.Client(base_url=url) as client:
        first = client.get("")
        assert first.headers["content-type"] == "text/html; charset=utf-8"
        assert "<h1" in first.text
        targets = set(re.findall(r'(?:href|src)="([^":]+)"', first.text)) - {"/"}
        assert "sdk.md#a-first-run" in targets
        for target in sorted(targets):
            path, _, anchor = target.partition("#")
            reply = client.get(path)
            assert reply.status_code == 200, target
            assert not anchor or f'id="{anchor}"' in reply.text, target
        missing = client.get("reference/sdk.md")
        assert (missing.status_code, "make site" in missing.text) == (404, True)
        assert client.get("..%2fREADME.md").status_code == 404


@pytest.mark.long
def test_an_install_without_the_pages_says_so(tmp_path: Path):
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "docs/ of the sources" in done.stderr


@pytest.mark.long
def test_a_port_that_is_taken_is_named(tmp_path: Path):
    (tmp_path / "index.html").write_text("<h1>Optimist</h1>")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            command(tmp_path, f"--port={port}", "--no-browser"), capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 1
    assert f"--port {port}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_are_called_by_what_they_lead_to(page: Path):
    assert not re.findall(r"\[[^\]]*\.md\]\(", page.read_text())


@pytest.mark.long
def test_each_page_of_the_menu_has_its_html_and_its_markdown():
    if shutil.which("zensical", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("zensical is not installed")
    build = [sys.executable, str(ROOT / "docs" / "generate")]
    built = subprocess.run(build, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stdout + built.stderr
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = [page for section in menu for entries in section.values() for entry in entries for page in entry.values()]
    index = (ROOT / "site" / "llms.txt").read_text()
    for page in pages:
        assert (ROOT / "site" / page).with_suffix(".html").is_file()
        assert (ROOT / "site" / page).is_file()
        assert f"({page}): " in index
