"""`optimist demo`: compare real generators through the real service."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from optimist.commands.shared import MetricName, console, extras, note


def demo(
    metric: Annotated[MetricName, typer.Option(help="The metric that compares the generators.")] = "fid",
    budget: Annotated[int, typer.Option(min=1, help="Total samples after which the demo ends undecided.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the experiment.")] = 0,
    port: Annotated[int | None, typer.Option(help="Port of the service; by default a free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory for the data; by default a temporary one.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the service running afterwards.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final report as JSON on stdout.")] = False,
) -> None:
    """Compare real generators of handwritten digits through the real service.

    Example: optimist demo --metric is
    """
    with extras("demo"):
        from optimist.simulation.digits.demo import Demo
    from optimist_client import OptimistError

    signal.signal(signal.SIGTERM, _interrupt)  # so that the child processes are stopped in order
    try:
        report = Demo(metric, budget, seed, port, data_dir).run(console if as_json else Console(), keep)
    except OptimistError as error:
        note(f"{error}", "red")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(report.model_dump_json(indent=2))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
