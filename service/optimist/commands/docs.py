"""`optimist docs`: show the documents of this version, from the wheel or from a checkout, without a network."""

from __future__ import annotations

import html
import re
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

import optimist
from optimist.commands.shared import console, format_errors
from optimist_client.errors import FixError
from optimist_client.installed import checkout

MISSING = "# Not found\n\nThe reference is made from the code: in a checkout, `make site` builds all pages.\n"
FRAME = Path(__file__).with_name("docs.html")
"""The frame of a page, with TITLE and BODY in the places of these."""


class _Quiet(SimpleHTTPRequestHandler):
    """Serves the files of one folder, and prints nothing."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".md": "text/markdown; charset=utf-8"}

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Rendered(_Quiet):
    """Serves pages of Markdown as HTML."""

    def send_head(self) -> Any:
        page = Path(self.translate_path(self.path))
        page = page / "index.md" if page.is_dir() else page
        if page.suffix != ".md":
            return super().send_head()
        body = _rendered(page.read_text() if page.is_file() else MISSING).encode()
        self.send_response(200 if page.is_file() else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return BytesIO(body)


def docs(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: a free one.")] = 8001,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
    where: Annotated[bool, typer.Option("--where", help="Print the folder of the pages, and exit.")] = False,
) -> None:
    """Show the documents of this version: guides, and the reference of SDK, HTTP, commands and settings.

    Example: optimist docs --port 0
    """
    folder = next((candidate for candidate in candidates() if _starts(candidate)), None)
    if folder is None:
        console.print("[red]This install has no documents: they are in the folder docs/ of the sources.")
        raise typer.Exit(1)
    if where:
        typer.echo(folder)
        return
    with _serving(folder, port) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        console.print(f"The documents are at {url} until you press Ctrl-C.")
        if browser:
            webbrowser.open(url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def candidates() -> list[Path]:
    """Where pages may be: built, in the wheel or where `make site` puts them in a checkout; else as Markdown."""
    source = checkout()
    return [Path(optimist.__file__).parent / "site", *([] if source is None else [source / "site", source / "docs"])]


def _starts(folder: Path) -> list[Path]:
    """The first page of a folder of documents: built, or as Markdown."""
    return [page for page in (folder / "index.html", folder / "index.md") if page.is_file()]


def _serving(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of this folder. Prints why, and exits with status 1, where the port is taken or not allowed."""
    handler = _Quiet if _starts(folder)[0].suffix == ".html" else _Rendered
    with format_errors(ValueError):
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), partial(handler, directory=str(folder)))
        except OSError as error:
            raise FixError(f"--port {port}: {error.strerror}; --port 0 takes a free one") from None


def _rendered(text: str) -> str:
    """A page of Markdown as HTML, whose headings have the anchors that links name."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt().enable("table")
    tokens = parser.parse(text)
    headings = [(opening, inline.content) for opening, inline in pairwise(tokens) if opening.type == "heading_open"]
    for opening, heading in headings:
        opening.attrSet("id", re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-"))
    body = str(parser.renderer.render(tokens, parser.options, {}))
    title = html.escape(headings[0][1]) if headings else "Optimist"
    return FRAME.read_text(encoding="utf-8").replace("TITLE", title).replace("BODY", body)
