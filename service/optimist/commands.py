"""What the `optimist` command can do. Needs the `server` extra; each command names what else it needs."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from optimist import __version__
from optimist.estimates import natural
from optimist.kernels import MEDIAN
from optimist.settings import Settings
from optimist_client.config import METRIC_FIELDS, BoundName, MetricName

if TYPE_CHECKING:
    from optimist.offline import Bandwidths, FileScore

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console(stderr=True)

KernelMetric = Literal["rke", "vendi"]
DataDirectory = Annotated[Path | None, typer.Option(help="Where the embedded Redis keeps its data.")]
RedisUrl = Annotated[str | None, typer.Option(help="A running Redis instead of the embedded one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]


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
def score(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Samples to score: .npy, .npz or .safetensors, each array (n, d) one generator's; for scores of "
            "pairs, files of one generator each with the arrays features and prompts."
        ),
    ] = None,
    metric: Annotated[MetricName, typer.Option(help="What to score FILES by.")] = "fid",
    reference: Annotated[
        Path | None, typer.Option(help="Real features (n, d), or mean and covariance, or mu and sigma. For fid.")
    ] = None,
    bound: Annotated[BoundName, typer.Option(help="How the interval is made.")] = "influence",
    delta: Annotated[float, typer.Option(help="The interval covers 1 − delta.")] = 0.05,
    order: Annotated[float, typer.Option(help="The order α of vendi; inf for the largest eigenvalue alone.")] = 1.0,
    truncation: Annotated[int | None, typer.Option(help="Only the t largest eigenvalues of vendi count.")] = None,
    kernel: Annotated[
        Literal["gaussian", "cosine"] | None, typer.Option(help="The kernel of rke and vendi; gaussian by default.")
    ] = None,
    sigma: Annotated[
        str | None, typer.Option(help="Bandwidth of the gaussian kernel: a number (see `bandwidth`), or median.")
    ] = None,
    prompt_sigma: Annotated[
        str | None, typer.Option(help="The same for the prompts of conditional-vendi and information-vendi.")
    ] = None,
    features: Annotated[int | None, typer.Option(help="Random frequencies, r; 1000 by default.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="The n × n kernel itself; its score has no interval.")] = False,
    kernel_seed: Annotated[int | None, typer.Option(min=0, help="Seed of the frequencies; 0 by default.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="Without FILES: the Redis the API replicas use.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score FILES and print them best first. Without FILES: run a scorer process.

    With FILES nothing of the service is needed. Without them, --redis-url is, and this process scores for API replicas
    that were started with --no-scoring, until it is stopped.
    """
    if bool(files) == bool(redis_url):
        raise typer.BadParameter("expected either FILES to score, or --redis-url to run a scorer")
    if redis_url:
        with _extras("server,scoring"):
            from optimist.server import score_for_ever
        with _said_plainly():
            score_for_ever(redis_url)
        return
    with _extras("server,scoring"):
        from optimist.offline import read_reference, score_files
    with _said_plainly(ValueError):
        if metric == "fid" and reference is None:
            raise ValueError("the metric 'fid' needs real features to compare with: --reference FILE")
        rows = score_files(
            files or [],
            metric,
            reference=None if reference is None else read_reference(reference),
            **_kernels(metric, kernel, sigma, prompt_sigma, features, kernel_seed, exact),
            order=order,
            truncation=truncation,
            bound=bound,
            delta=delta,
        )
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in rows], indent=2, allow_nan=False))
    else:
        _print_scores(rows, f"{metric.upper()}, bound {bound}, intervals of {1.0 - delta:.4g}")


@app.command()
def bandwidth(
    file: Annotated[Path, typer.Argument(help="Features (n, d): .npy, .npz or .safetensors, one array.")],
    sigmas: Annotated[
        str | None, typer.Option(help="The grid, as 5,10,20; by default 1/8 to 8 times the median distance.")
    ] = None,
    metric: Annotated[KernelMetric, typer.Option(help="The score that must be steady.")] = "vendi",
    subsets: Annotated[int, typer.Option(help="How many disjoint random subsets are scored.")] = 10,
    size: Annotated[
        int | None, typer.Option(help="Rows of each; by default as many as there are, at most 1000.")
    ] = None,
    features: Annotated[int, typer.Option(help="Random frequencies of the gaussian kernel, r.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of subsets and frequencies.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Choose σ of the gaussian kernel by the papers' variance rule.

    The smallest σ of the grid from which on the score, de-biased and on its natural scale, has a variance below 0.01
    between subsets. More rows a subset (--size) allow a smaller σ: choose with as many as an evaluation will have.
    """
    with _extras("server,scoring"):
        from optimist.offline import choose_bandwidth
    with _said_plainly(ValueError, ArithmeticError):
        found = choose_bandwidth(
            file, metric, sigmas=_numbers(sigmas), subsets=subsets, size=size, features=features, seed=seed
        )
    if as_json:
        typer.echo(json.dumps({"file": str(file), "metric": metric, **found.to_dict()}, indent=2, allow_nan=False))
    else:
        _print_bandwidths(found, metric)


@app.command()
def demo(
    metric: Annotated[MetricName, typer.Option(help="What to compare the generators by.")] = "fid",
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
def _said_plainly(*kinds: type[Exception]) -> Iterator[None]:
    """Errors of the store, and of these kinds, are for the user: their message, without a traceback."""
    from optimist.store import StoreError

    try:
        yield
    except (StoreError, *kinds) as error:
        console.print(Text(str(error), "red"), soft_wrap=True)
        raise typer.Exit(1) from None


def _kernels(
    metric: str,
    name: str | None,
    sigma: str | None,
    prompt_sigma: str | None,
    features: int | None,
    seed: int | None,
    exact: bool,
) -> dict[str, dict[str, Any]]:
    """The kernels as `optimist.score` takes them. Raises ValueError for options that do not go together."""
    options: dict[str, Any] = {"sigma": _sigma(sigma), "features": features, "seed": seed}
    options = {option: value for option, value in options.items() if value is not None}
    if name == "cosine" and options:
        raise ValueError("the cosine kernel has no --sigma, --features or --kernel-seed")
    wanted = METRIC_FIELDS[metric]
    if exact and "kernel" not in wanted:
        raise ValueError(f"the metric {metric!r} has no kernel to be --exact about")
    if "kernel" in wanted and name != "cosine" and "sigma" not in options:
        raise ValueError(f"the metric {metric!r} needs --sigma, which `optimist bandwidth` finds, or --kernel cosine")
    if "prompt_kernel" in wanted and prompt_sigma is None:
        raise ValueError(f"the metric {metric!r} needs --prompt-sigma, the bandwidth of the prompts' kernel")
    if exact:
        options["features"] = None
    kernels: dict[str, dict[str, Any]] = {}
    if name or options:
        kernels["kernel"] = {"name": name or "gaussian", **options}
    if prompt_sigma is not None:
        kernels["prompt_kernel"] = {"name": "gaussian", "sigma": _sigma(prompt_sigma)}
    return kernels


def _sigma(text: str | None) -> float | str | None:
    try:
        return text if text in (None, MEDIAN) else float(text)
    except ValueError:
        raise ValueError(f"expected a bandwidth as a number or {MEDIAN!r}, got {text!r}") from None


def _numbers(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--sigmas: expected numbers such as 5,10,20, got {text!r}") from None


def _print_scores(rows: list[FileScore], title: str) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("generator", overflow="fold")
    for column in ("score", "interval", "plug-in", "samples"):
        table.add_column(column, justify="right")
    for row in rows:
        estimate = row.estimate
        score, plug_in, lower, upper = (
            f"{natural(number, estimate.scale):.4g}"
            for number in (estimate.value, estimate.plug_in, estimate.lower, estimate.upper)
        )
        table.add_row(Text(row.name), score, f"{lower} to {upper}", plug_in, f"{estimate.samples:,}")
    out = Console()
    out.print(table)
    # Below the table: sentences in a narrow column are hard to read.
    for field, sigma in rows[0].bandwidths.items():
        out.print(Text(f"σ of the {field.replace('_', ' ')}: {sigma:.4g}."), soft_wrap=True)
    for row in rows:
        for warning in row.estimate.warnings:
            out.print(Text(f"{row.name}: {warning}"), soft_wrap=True)


def _print_bandwidths(found: Bandwidths, metric: str) -> None:
    title = f"{metric.upper()} of {found.subsets} subsets of {found.size:,} rows"
    table = Table(title=title, title_justify="left")
    for column in ("σ", "mean score", "variance"):
        table.add_column(column, justify="right")
    for row in found.spreads:
        style = "bold green" if row.sigma == found.chosen else ""
        table.add_row(f"{row.sigma:.4g}", f"{row.mean:.4g}", f"{row.variance:.3g}", style=style)
    out = Console()
    out.print(table)
    chosen = "none is: try larger σ or more rows" if found.chosen is None else f"σ = {found.chosen:.4g}"
    out.print(Text(f"Smallest σ from which on the score is steady (variance below 0.01): {chosen}."), soft_wrap=True)
    out.print(Text(f"Median distance between rows: {found.median_distance:.4g}."), soft_wrap=True)
