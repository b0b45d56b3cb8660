"""Write the reference pages, and parts of other pages, from the code: `python docs/generate`.

With `--check`, only name the outdated pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import client
import command
import licences
import metrics
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
PARTS: dict[str, Callable[[], str]] = {"metrics.md": metrics.part}
BEGINNING = "<!-- Generated from the code by `make docs`. Do not edit this part. -->"
END = "<!-- End of the generated part. -->"


def main(check: bool) -> int:
    """Write every page. With `check`, write nothing, name the pages that would change, and return 1 if any would."""
    stale = []
    texts = {name: f"{NOTE}{page().rstrip()}\n" for name, page in PAGES.items()}
    texts |= {name: _with_part((DOCS / name).read_text(), part().strip()) for name, part in PARTS.items()}
    for name, text in texts.items():
        file = DOCS / name
        if check and (not file.exists() or file.read_text() != text):
            stale.append(name)
        elif not check:
            file.write_text(text)
    if stale:
        print(f"stale, run `make docs`: {', '.join(stale)}")
    return int(bool(stale))


def _with_part(page: str, part: str) -> str:
    """The page with `part` between its two marks. Raises ValueError without both marks."""
    before, beginning, rest = page.partition(BEGINNING)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"expected the marks {BEGINNING} and {END}")
    return f"{before}{beginning}\n\n{part}\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
