"""The site of the documents: `optimist docs` serves it, and each page stands beside its HTML as Markdown."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
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
from optimist.commands import app, docs
docs.PLACES = (Path(sys.argv[1]),)
app(["docs", *sys.argv[2:]])
"""


def command(site: Path, *options: str) -> list[str]:
    """`optimist docs` of an install that has its site in this folder."""
    return [sys.executable, "-c", SERVE, str(site), *options]


@pytest.mark.long
def test_the_pages_are_served_until_interrupted(tmp_path: Path):
    (tmp_path / "index.html").write_text("<h1>Optimist</h1>")
    (tmp_path / "index.md").write_text("# Größen")
    with subprocess.Popen(command(tmp_path, "--port=0", "--no-browser"), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())
        assert found
        assert httpx.get(found[0]).text == "<h1>Optimist</h1>"
        page = httpx.get(f"{found[0]}index.md")
        assert (page.headers["content-type"], page.text) == ("text/markdown; charset=utf-8", "# Größen")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.long
def test_an_install_without_the_pages_says_so(tmp_path: Path):
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "make site" in done.stderr


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
