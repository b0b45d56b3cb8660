"""Shared parts of the commands: the console, common options, metrics as text, error messages without tracebacks."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from optimist.settings import Settings, has_password
from optimist_client import transport
from optimist_client.config import PromptsAre
from optimist_client.errors import FixError, OptimistError, UnreachableError
from optimist_client.installed import install_hint
from optimist_client.layout import Page, Table
from optimist_client.metrics import Metric, declared, find
from optimist_client.metrics.texts import parsed
from optimist_client.rows import TABLES
from optimist_client.validation import each_in_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimist.references.real_data import RealData
    from optimist_client import Optimist


console = Console(stderr=True)

DeviceName = Annotated[
    str | None,
    typer.Option(help="Device to compute on: cpu, cuda or cuda:<i>; by default OPTIMIST_DEVICE, or cpu."),
]


def without_password(url: str | None) -> str | None:
    """The URL. Raises BadParameter if it has a password: other users of the machine can read command lines."""
    if url is not None and has_password(url):
        raise typer.BadParameter(
            "expected a URL without a password, as other users can read command lines: set OPTIMIST_REDIS_PASSWORD, or "
            "OPTIMIST_REDIS_URL to the whole URL"
        )
    return url


RedisUrl = Annotated[
    str | None,
    typer.Option(
        help="URL of a Redis that is running, instead of the embedded one in --data-dir. Its password is read from "
        "OPTIMIST_REDIS_PASSWORD.",
        callback=without_password,
    ),
]

DataDir = Annotated[Path | None, typer.Option(help="Data directory of the service, which may be running or not.")]


if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[tuple(declared())]
    """The names of all metrics, OPTIMIST_METRICS included."""


ReferenceFile = Annotated[
    Path | None,
    typer.Option(
        help="Real features (n, d), or mean and covariance, or mu and sigma, for every metric that compares with real "
        "data and names no reference of its own."
    ),
]
ReferenceSamples = Annotated[
    int | None,
    typer.Option(
        help="How many real samples the mean and covariance in --reference come from, if its file does not say it as "
        "samples: differences of paired samples by fid then allow for the choice of these."
    ),
]
BOUNDS = ", ".join(sorted({name for metric in declared().values() for name in metric.bounds}))
"""The names of all bounds of all metrics."""
ExperimentName = Annotated[str, typer.Argument(metavar="ID", help="Name of the experiment.")]
DEFAULT_URL = transport.DEFAULT_URL
Url = Annotated[str, typer.Option(help="URL of the service.", envvar=transport.URL)]

OnPrompts = Annotated[
    PromptsAre,
    typer.Option(
        "--prompts-are",
        help="Of the prompts that --cluster names: sample, scores are about prompts like these; list, about exactly "
        "these, all of which every generator has answered.",
    ),
]
Costs = Annotated[str | None, typer.Option(help="What a sample of each generator costs, as a=1.5,b=2.5.")]
LimitTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        help='A limit that a good generator meets, by the label of a metric: "fid=within 2% of best", '
        '"mean=within 0.01 of production", "latency=< 1.0".',
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]


def print_page(*parts: Table | str) -> None:
    """Print tables and sentences on standard output, as `optimist_client.layout` says."""
    Console().print(Page(parts), soft_wrap=True)


def print_as(document: Any, parts: Iterable[Table | str], *, as_json: bool) -> None:
    """Print plain values as one JSON document, or else tables and sentences."""
    if as_json:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        print_page(*parts)


def output(help: str, *names: str, ending: str = "") -> Any:
    """The option of a file to write, which is refused before any work where there is no folder for it."""

    def checked(file: Path | None) -> Path | None:
        if file is not None and (file.is_dir() or not file.parent.is_dir() or not file.name.endswith(ending)):
            wanted = f"a file ending in {ending}" if ending else "a file"
            raise typer.BadParameter(f"expected {wanted} in an existing folder, got {file}")
        return file

    return typer.Option(*names, help=help, callback=checked)


def note(text: str, style: str = "") -> None:
    """Print an error, a warning or a hint on standard error; where that is no terminal, in one line, as logs have."""
    console.print(Text(text, style), soft_wrap=not console.is_terminal)


def in_utc(unix: float) -> str:
    """A moment to the minute."""
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M}"


def settings_of(**options: Any) -> Settings:
    """The settings. Options that are None are read from OPTIMIST_* variables.

    Of --data-dir and --redis-url, the one that is given wins over the variable of the other; both are refused.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "data_dir" in given and given.setdefault("redis_url", None) is not None:
        raise typer.BadParameter("expected --data-dir or --redis-url: an external Redis keeps its data elsewhere")
    try:
        return Settings(**given)
    except ValidationError as error:
        parts = [{**part, "loc": _variable(*part["loc"])} for part in error.errors(include_url=False)]
        raise typer.BadParameter(each_in_words(parts)) from None


def _variable(field: int | str, *rest: int | str) -> tuple[int | str, ...]:
    return f"OPTIMIST_{field}".upper(), *rest


@contextmanager
def extras(names: str) -> Generator[None]:
    """If an import within the context fails, exit and name the extras to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "optimist":
            raise
        note(f"This needs {error.name}: {install_hint(names)}")
        raise typer.Exit(2) from None


@contextmanager
def format_errors(*kinds: type[Exception]) -> Generator[None]:
    """Print errors of the store and of these kinds as messages without a traceback, and exit with status 1."""
    from optimist.records import StoreError

    try:
        yield
    except (StoreError, *kinds) as error:
        said = f"{error}"
        if isinstance(error, OSError) and error.filename is not None:
            said = f"{error.filename}: {error.strerror}"
        note(said, "red")
        raise typer.Exit(1) from None


@contextmanager
def redis_of(data_dir: Path | None, redis_url: str | None, *, reads: bool = False) -> Generator[str]:
    """The URL of the Redis to use: the given one, a running service's, or an embedded one started here.

    reads: whether only what is there is wanted; raises FixError then where there is no data directory.
    """
    from optimist.store import running_url, start_embedded

    settings = settings_of(data_dir=data_dir, redis_url=redis_url)
    url = settings.redis_url or running_url(settings.data_dir)
    if url is not None:
        yield url
        return
    if reads and not settings.data_dir.is_dir():
        raise FixError(f"no data directory {settings.data_dir}: expected --data-dir, --redis-url or --url")
    with start_embedded(settings.data_dir) as embedded:
        yield embedded.url


@contextmanager
def service(url: str) -> Generator[Optimist]:
    """A client of a service. Its errors, and errors of files, are printed as messages; the exit status is then 1."""
    from optimist_client import Optimist

    with format_errors(OptimistError, OSError, ValueError), Optimist(url, patience=10.0) as optimist:
        try:
            yield optimist
        except UnreachableError as error:
            raise OptimistError(f"{error}. Is it running? `optimist serve` starts a service here") from None


def limits_of(texts: Sequence[str] | None) -> dict[str, str]:
    """The limit of each metric by its label. Raises FixError for a text that is none."""
    limits: dict[str, str] = {}
    for text in texts or ():
        label, is_one, limit = map(str.strip, text.partition("="))
        if not is_one or label in limits:
            raise FixError(f"--limit: expected each metric once, as fid=within 2% of best; got {text!r}")
        limits[label] = limit
    return limits


def numbers_of(option: str, text: str) -> dict[str, float]:
    """A number for each name of a text such as "a=1.5,b=2.5". Raises FixError, with the option at its beginning."""
    try:
        pairs = [(name, float(value)) for name, value in (pair.rsplit("=", 1) for pair in text.split(","))]
    except ValueError:
        raise FixError(f"{option}: expected numbers as a=1.5,b=2.5; got {text!r}") from None
    if len(dict(pairs)) < len(pairs):
        raise FixError(f"{option}: expected each generator once, got {text!r}")
    return dict(pairs)


FORM = (
    "optionally with settings, as rke:kernel.sigma=10, mean:range=0,10 or mean:reads=clipscore,higher_is_better=false"
)


def usual_metric(metric: str | None, files: Sequence[Path], reference: Path | None) -> str:
    """The metric that was asked for, by default the mean of tables of scores, which need no reference, and else fid."""
    is_scores = reference is None and all(file.suffix.lower() in TABLES for file in files)
    return metric or ("mean" if is_scores else "fid")


METRIC = f"The metric: one of {', '.join(declared())}; {FORM}."
MetricText = Annotated[str, typer.Option(help=METRIC)]
MetricOfFiles = Annotated[
    str | None,
    typer.Option(help=f"{METRIC} By default mean of tables where there is no --reference, and else fid."),
]
Watch = Annotated[
    list[str] | None,
    typer.Option(
        help="A further metric of the same samples, in the form of --metric. Files then "
        "hold the arrays of all metrics by name."
    ),
]


def real_data(reference: Path | None, samples: int | None = None, *, is_paired: bool = True) -> RealData | None:
    """The real data of --reference and --reference-samples; None without.

    Raises FixError for a file or a number that is not valid, and for a number that differences would not use.
    """
    if samples is not None and not is_paired:
        raise FixError("--reference-samples: only differences of paired samples use it; expected --paired or --id, too")
    if reference is None:
        if samples is not None:
            raise FixError("--reference-samples goes with --reference")
        return None
    from optimist.datasets.references import read_reference

    return read_reference(reference, samples)


def metrics_of(texts: Sequence[str], real: RealData | None) -> list[Metric]:
    """The metrics of these texts. Raises FixError as `metric_of`, and where none takes the real data there are."""
    metrics = [metric_of(text, real) for text in texts]
    if real is not None and not any("reference" in metric.settings() for metric in metrics):
        raise FixError(f"--reference: no metric of {', '.join(texts)} compares with real data")
    return metrics


def metric_of(text: str, real: RealData | None) -> Metric:
    """The metric of a text. A metric that compares with real data has a `reference` of its own, a file, or else `real`.

    Raises FixError where it lacks real data, and for settings that are not valid.
    """
    from optimist.estimation.question import with_real_data

    name, settings = parsed(text)
    if "reference" in settings:
        settings["reference"] = real_data(Path(settings["reference"]))
    elif real is not None and "reference" in find(name).settings():
        settings["reference"] = real
    elif "reference" in find(name).needs:
        raise FixError(f"the metric {name!r} needs real features to compare with: --reference FILE")
    return with_real_data(name, **settings)


def embedded(prompts: list[str]) -> NDArray[Any]:
    """Embeddings of prompts, by the embedder of texts."""
    from optimist.local.embedding import embedder_of

    with extras("embed-offline"):
        embed = embedder_of("text")
    import numpy as np

    return np.asarray(embed(prompts))
