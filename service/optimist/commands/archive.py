"""`optimist export` and `optimist import`: write an experiment of a running service to a file, and read it back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimist.commands.shared import said_plainly
from optimist_client import Optimist, OptimistError

Url = Annotated[str, typer.Option(help="URL of the service.")]


def export_experiment(
    experiment: Annotated[str, typer.Argument(metavar="ID", help="Name of the experiment.")],
    file: Annotated[Path, typer.Argument(help="The file to write. An existing file is overwritten.")],
    url: Url = "http://127.0.0.1:8000",
) -> None:
    """Export an experiment to FILE.

    The service must be running, and the experiment continues meanwhile.
    """
    with said_plainly(OptimistError, OSError), Optimist(url) as optimist:
        optimist.experiment(experiment).export(file)
    typer.echo(f"{experiment}: {file.stat().st_size:,} bytes in {file}")


def import_experiment(
    file: Annotated[Path, typer.Argument(help="A file written by `optimist export`.")],
    name: Annotated[str | None, typer.Option(help="Name of the new experiment; by default its old name.")] = None,
    url: Url = "http://127.0.0.1:8000",
) -> None:
    """Import an experiment from FILE.

    The service must be running. The new experiment continues from the exported state.
    """
    with said_plainly(OptimistError, OSError), Optimist(url) as optimist:
        experiment = optimist.import_experiment(file, name)
        report = experiment.report()
    typer.echo(f"{experiment.name}: {report.samples:,} samples, {report.state}")
