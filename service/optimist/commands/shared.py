"""Shared parts of the commands: the console, common options, and error messages without tracebacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from optimist.settings import Settings
from optimist_client.metrics import declared

console = Console(stderr=True)

LogFormat = Literal["text", "json"]

Device = Annotated[
    str | None,
    typer.Option(help="Device to compute on: cpu, cuda or cuda:<i>; by default OPTIMIST_DEVICE, or cpu."),
]

if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[tuple(declared())]
    """The names of all metrics, including those of OPTIMIST_METRICS."""


def _of(setting: str) -> str:
    """The sentence of a help text that says which metrics take a setting."""
    return f"For {', '.join(name for name, metric in declared().items() if setting in metric.settings())}."


ReferenceFile = Annotated[
    Path | None,
    typer.Option(help=f"Real features (n, d), or mean and covariance, or mu and sigma. {_of('reference')}"),
]
ORDER = f"The order α; inf for the largest eigenvalue alone. {_of('order')}"
Truncation = Annotated[int | None, typer.Option(help=f"Only the t largest eigenvalues count. {_of('truncation')}")]
KernelName = Annotated[
    Literal["gaussian", "cosine"] | None, typer.Option(help=f"The kernel; gaussian by default. {_of('kernel')}")
]
PromptSigma = Annotated[
    str | None, typer.Option(help=f"Bandwidth of the prompts' gaussian kernel. {_of('prompt_kernel')}")
]

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
