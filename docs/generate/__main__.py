"""Builds the documents as a site: `python docs/generate`.

The pages of docs/ and the reference, which is written from the code, go to build/docs/, and zensical makes site/ of
them. Each page then stands beside its HTML as Markdown, and llms.txt lists them all. `--pages FOLDER` writes only the
Markdown, into that folder.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import client
import command
import constants
import index
import licences
import metrics
import prometheus
import redis_keys
import routes
import variables
import waits
from notes import without_tags

ROOT = Path(__file__).parents[2]
DOCS, PAGES, SITE = ROOT / "docs", ROOT / "build" / "docs", ROOT / "site"
REFERENCE: dict[str, Callable[[], str]] = {
    "sdk.md": client.page,
    "http.md": routes.page,
    "cli.md": command.page,
    "settings.md": variables.page,
    "prometheus.md": prometheus.page,
    "waits.md": waits.page,
    "redis.md": redis_keys.page,
    "constants.md": constants.page,
    "dependencies.md": licences.page,
}
"""Pages of reference/, by what writes them."""
PARTS: dict[str, Callable[[], str]] = {"metrics.md": metrics.part}
"""Pages of docs/ with a part that is written from the code, in the place of `PLACE`."""
PLACE = "<!-- Here the site has tables that are written from the code. -->"


def write(folder: Path) -> None:
    """Write all pages, with their pictures, into a folder, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("generate"))
    for name, part in PARTS.items():
        text = (folder / name).read_text()
        if PLACE not in text:
            raise ValueError(f"{name} has no place for what is generated: {PLACE}")
        (folder / name).write_text(text.replace(PLACE, part().strip()))
    (folder / "reference").mkdir()
    for name, page in REFERENCE.items():
        (folder / "reference" / name).write_text(f"{without_tags(page()).rstrip()}\n")


def build() -> None:
    """Make the site. A broken link is an error, which zensical names."""
    write(PAGES)
    program = shutil.which("zensical", path=str(Path(sys.executable).parent)) or shutil.which("zensical")
    if program is None:
        raise SystemExit("zensical is not installed: pip install -c constraints.txt -e '.[dev]'")
    subprocess.run([program, "build", "--strict", "--clean", "--config-file", str(ROOT / "mkdocs.yml")], check=True)
    for page in PAGES.rglob("*.md"):
        shutil.copy(page, SITE / page.relative_to(PAGES))
    (SITE / "llms.txt").write_text(index.text(PAGES))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the site of the documents.")
    parser.add_argument("--pages", type=Path, metavar="FOLDER", help="only write the pages in Markdown, here")
    given = parser.parse_args()
    write(given.pages) if given.pages else build()
