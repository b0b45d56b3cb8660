"""Write the reference pages from the code: `python docs/generate`. With `--check`, only name the outdated pages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import client
import command
import licences
import routes
import variables

DOCS = Path(__file__).parents[1]
PAGES: dict[str, Callable[[], str]] = {
    "http.md": routes.page,
    "sdk-reference.md": client.page,
    "cli.md": command.page,
    "settings.md": variables.page,
    "dependencies.md": licences.page,
}
NOTE = "<!-- Generated from the code by `make docs`. Do not edit. -->\n\n"


def main(check: bool) -> int:
    """Write every page. With `check`, write nothing, name the pages that would change, and return 1 if any would."""
    stale = []
    for name, page in PAGES.items():
        file, text = DOCS / name, NOTE + page().rstrip() + "\n"
        if check and (not file.exists() or file.read_text() != text):
            stale.append(name)
        elif not check:
            file.write_text(text)
    if stale:
        print(f"stale, run `make docs`: {', '.join(stale)}")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
