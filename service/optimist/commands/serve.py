"""`optimist serve`: the service itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimist import __version__
from optimist.commands.shared import console, extras, said_plainly, settings_of
from optimist.devices import DeviceError


def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the embedded Redis keeps its data.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="A running Redis instead of the embedded one.")] = None,
    scoring: Annotated[
        bool | None, typer.Option(help="Score in this process, or leave it to `optimist score`.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where the scorer's numbers live: cpu, cuda or cuda:<i>.")] = None,
) -> None:
    """Run the service. Options not given come from OPTIMIST_* variables."""
    settings = settings_of(
        host=host, port=port, data_directory=data_dir, redis_url=redis_url, scoring=scoring, device=device
    )
    with extras("server,scoring"):
        from optimist.server import serve as run
    if settings.scoring:
        with extras("scoring"):
            import torch  # noqa: F401  # scoring needs it; without it: --no-scoring
    where = settings.redis_url or f"embedded, data in {settings.data_directory}"
    console.print(f"Optimist {__version__} on http://{settings.host}:{settings.port} (Redis: {where})", soft_wrap=True)
    with said_plainly(DeviceError):
        run(settings)
