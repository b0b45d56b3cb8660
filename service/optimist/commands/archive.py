"""`optimist export` and `optimist import`: an experiment of a running service as a file, and from one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimist.commands.shared import said_plainly
from optimist_client import Optimist, OptimistError

Url = Annotated[str, typer.Option(help="The service.")]


def export_experiment(
    experiment: Annotated[str, typer.Argument(metavar="ID", help="Name of the experiment.")],
    file: Annotated[Path, typer.Argument(help="Where to write it; a file that is there gives way.")],
    url: Url = "http://127.0.0.1:8000",
) -> None:
    """Write an experiment of a running service to FILE; it goes on meanwhile."""
    with said_plainly(OptimistError, OSError), Optimist(url) as optimist:
        optimist.experiment(experiment).export(file)
    typer.echo(f"{experiment}: {file.stat().st_size:,} bytes in {file}")


def import_experiment(
    file: Annotated[Path, typer.Argument(help="What `optimist export` wrote.")],
    name: Annotated[str | None, typer.Option(help="What to call it; as it was called by default.")] = None,
    url: Url = "http://127.0.0.1:8000",
) -> None:
    """Make an experiment of a running service from FILE; it goes on from there."""
    with said_plainly(OptimistError, OSError), Optimist(url) as optimist:
        experiment = optimist.import_experiment(file, name)
        report = experiment.report()
    typer.echo(f"{experiment.name}: {report.samples:,} samples, {report.state}")
