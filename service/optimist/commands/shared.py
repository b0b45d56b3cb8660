"""What commands share: the console for people, options, and errors said plainly."""

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

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]


def settings_of(**given: Any) -> Settings:
    """The settings, from OPTIMIST_* variables where an option is not given (None)."""
    return Settings(**{name: value for name, value in given.items() if value is not None})


@contextmanager
def extras(names: str) -> Iterator[None]:
    """Name the extras to install where something they bring is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "optimist":
            raise
        console.print(f"This needs {error.name}: pip install 'optimist\\[{names}]'")
        raise typer.Exit(2) from None


@contextmanager
def said_plainly(*kinds: type[Exception]) -> Iterator[None]:
    """Errors of the store, and of these kinds, are for the user: their message, without a traceback."""
    from optimist.store import StoreError

    try:
        yield
    except (StoreError, *kinds) as error:
        console.print(Text(str(error), "red"), soft_wrap=True)
        raise typer.Exit(1) from None
