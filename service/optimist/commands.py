"""What the `optimist` command can do. Needs the `server` extra; each command names what else it needs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from optimist import __version__
from optimist.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console(stderr=True)

DemoMetric = Literal["fid", "is", "rke", "vendi"]
DataDirectory = Annotated[Path | None, typer.Option(help="Where the embedded Redis keeps its data.")]
RedisUrl = Annotated[str | None, typer.Option(help="A running Redis instead of the embedded one.")]


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    data_dir: DataDirectory = None,
    redis_url: RedisUrl = None,
    scoring: Annotated[
        bool | None, typer.Option(help="Score in this process, or leave it to `optimist score`.")
    ] = None,
) -> None:
    """Run the service. Options not given come from OPTIMIST_* variables."""
    settings = _settings(host=host, port=port, data_directory=data_dir, redis_url=redis_url, scoring=scoring)
    with _extras("server,scoring"):
        from optimist.server import serve as run
    if settings.scoring:
        with _extras("scoring"):
            import torch  # noqa: F401  # scoring needs it; without it: --no-scoring
    where = settings.redis_url or f"embedded, data in {settings.data_directory}"
    console.print(f"Optimist {__version__} on http://{settings.host}:{settings.port} (Redis: {where})", soft_wrap=True)
    with _said_plainly():
        run(settings)


@app.command()
def score(redis_url: Annotated[str, typer.Option(help="The Redis the API replicas use.")]) -> None:
    """Run a scorer beside API replicas that were started with --no-scoring."""
    with _extras("server,scoring"):
        from optimist.server import score_for_ever
    with _said_plainly():
        score_for_ever(redis_url)


@app.command()
def demo(
    metric: Annotated[DemoMetric, typer.Option(help="What to compare the generators by.")] = "fid",
    budget: Annotated[int, typer.Option(min=1, help="Samples in all after which it ends undecided.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the experiment.")] = 0,
    port: Annotated[int | None, typer.Option(help="Port of the service; a free one by default.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data stay; default: a temporary place.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the service up afterwards.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final report as JSON on stdout.")] = False,
) -> None:
    """Compare real generators of handwritten digits through the real service."""
    with _extras("demo"):
        from optimist.simulation.demo import Demo
    from optimist_client import OptimistError

    signal.signal(signal.SIGTERM, _interrupt)  # the children end with it either way, in order
    try:
        report = Demo(metric, budget, seed, port, data_dir).run(console if as_json else Console(), keep)
    except OptimistError as error:
        console.print(f"[red]{error}", soft_wrap=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(report.model_dump_json(indent=2))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _settings(**given: Any) -> Settings:
    return Settings(**{name: value for name, value in given.items() if value is not None})


@contextmanager
def _extras(names: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "optimist":
            raise
        console.print(f"This needs {error.name}: pip install 'optimist\\[{names}]'")
        raise typer.Exit(2) from None


@contextmanager
def _said_plainly() -> Iterator[None]:
    """Errors of the store are for the operator: their message, without a traceback."""
    from optimist.store import StoreError

    try:
        yield
    except StoreError as error:
        console.print(f"[red]{error}", soft_wrap=True)
        raise typer.Exit(1) from None
