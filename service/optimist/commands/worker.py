"""`optimist worker`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from optimist.commands.shared import DEFAULT_URL, ExperimentName, Url, format_errors, print_page
from optimist_client.display import as_text
from optimist_client.errors import OptimistError
from optimist_client.worker import work


def worker(
    experiment: ExperimentName,
    generators: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="Functions (size, seed) by the names of their generators, or a function that returns them.",
        ),
    ],
    embed: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="A function from samples to rows; by default they are rows."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Sample only this generator.")] = None,
    max_samples: Annotated[int | None, typer.Option(min=1, help="Maximum number of samples of this worker.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many loops sample at once, in threads.")] = 1,
    ahead: Annotated[int, typer.Option(min=0, help="Picks that each has in hand, so that it waits for no answer.")] = 0,
    url: Url = DEFAULT_URL,
) -> None:
    """Sample for an experiment until it ends, and print its report.

    SIGTERM gives up the open picks, which others then get, and ends it with code 143. Its access key is
    OPTIMIST_API_KEY.

    Example: optimist worker digits my_models:load
    """
    settings: dict[str, Any] = {"max_samples": max_samples, "workers": workers, "ahead": ahead}
    with format_errors(OptimistError, OSError):
        report = work(experiment, generators, url, only=only or (), embed=embed, **settings)
    print_page(*as_text(report).parts)
