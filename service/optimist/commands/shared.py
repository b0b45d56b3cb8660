"""Shared parts of the commands: the console, common options, and error messages without tracebacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from optimist.settings import Settings

console = Console(stderr=True)

LogFormat = Literal["text", "json"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]


def settings_of(**given: Any) -> Settings:
    """The settings. Options that are None are read from OPTIMIST_* variables."""
    return Settings(**{name: value for name, value in given.items() if value is not None})


@contextmanager
def extras(names: str) -> Iterator[None]:
    """If an import within the context fails, exit and name the extras to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "optimist":
            raise
        console.print(f"This needs {error.name}: pip install 'optimist\\[{names}]'")
        raise typer.Exit(2) from None


@contextmanager
def said_plainly(*kinds: type[Exception]) -> Iterator[None]:
    """Print errors of the store and of these kinds as messages without a traceback, and exit with status 1."""
    from optimist.store import StoreError

    try:
        yield
    except (StoreError, *kinds) as error:
        console.print(Text(str(error), "red"), soft_wrap=True)
        raise typer.Exit(1) from None
