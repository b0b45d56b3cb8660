"""`optimist docs`: show the documents of this version, from the wheel or from a checkout, without a network."""

from __future__ import annotations

import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer

import optimist
from optimist.commands.shared import console, format_errors
from optimist_client.errors import FixError

PACKAGE = Path(optimist.__file__).parent
PLACES = (PACKAGE / "site", PACKAGE.parents[1] / "site")
"""Where the site is: in the wheel, or where `make site` puts it in a checkout."""


class _Quiet(SimpleHTTPRequestHandler):
    """Serves the files of one folder, and prints nothing."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".md": "text/markdown; charset=utf-8"}

    def log_message(self, format: str, *args: object) -> None:
        pass


def docs(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: a free one.")] = 8001,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
    where: Annotated[bool, typer.Option("--where", help="Print the folder of the pages, and exit.")] = False,
) -> None:
    """Show the documents of this version: guides, and the reference of SDK, HTTP, commands and settings."""
    folder = next((place for place in PLACES if (place / "index.html").is_file()), None)
    if folder is None:
        console.print("[red]This install has no documents. In a checkout, `make site` builds them first.")
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


def _serving(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of this folder. Prints why, and exits with status 1, where the port is taken or not allowed."""
    with format_errors(ValueError):
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
        except OSError as error:
            raise FixError(f"--port {port}: {error.strerror}; --port 0 takes a free one") from None
