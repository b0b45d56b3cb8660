"""`optimist compare`: the best of several folders of images, or files of texts."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, Self, get_args

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from optimist.commands.options import takes
from optimist.commands.shared import (
    FORM,
    AsJson,
    Costs,
    LimitTexts,
    MetricText,
    ReferenceSamples,
    console,
    extras,
    format_errors,
    limits_of,
    numbers_of,
    output,
    print_as,
    real_data,
)
from optimist_client.config import ExperimentConfig
from optimist_client.display import MAX_LISTED, standings
from optimist_client.goals import BestPolicyName
from optimist_client.layout import Page
from optimist_client.models import Report
from optimist_client.progress import Line, bars, expected_total
from optimist_client.rows import NO_FIELDS, Fields

IGNORE = "--ignore-anomalies"
POLICIES = ", ".join(get_args(BestPolicyName))


@takes(Fields, "field", "id", "prompt", "cost", "by", "where", "cluster", into="fields")
@takes(ExperimentConfig, "budget", "delta", "tolerance", "good_enough", "cost_metric")
def compare(
    generators: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more folders or .zip files of images, .parquet files with images, or .jsonl or .csv files "
            "with paths of images, one for each generator; with --embed text files (.txt) of one text on each line, or "
            ".jsonl, .csv or .parquet files with texts; or one table whose field model names several."
        ),
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Real samples in the same forms, or a file (.npz, .npy, .safetensors) of their features, or of mean "
            "and covariance."
        ),
    ] = None,
    reference_samples: ReferenceSamples = None,
    embed: Annotated[
        Literal["inception", "dinov2", "clip", "swav", "efficientnet", "text"],
        typer.Option(help="What turns samples into features (see docs/embedders.md)."),
    ] = "inception",
    metric: MetricText = "fid",
    watch: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Further metrics, which are shown and decide nothing, with commas between them; each {FORM}."
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="The embedder's weights, a file or folder; by default they are downloaded once.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Device of the embedder; a GPU if there is one.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Samples that are embedded at a time.")] = 10,
    settings: dict[str, Any] | None = None,
    limit: LimitTexts = None,
    costs: Costs = None,
    policy: Annotated[
        str | None,
        typer.Option(help=f"What chooses the next generator: one of {POLICIES}; by default top-two."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random order of the samples.")] = 0,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Do not compare files of the same name (lines of the same number).")
    ] = False,
    fields: Fields = NO_FIELDS,
    plot: Annotated[Path | None, output("Write the standings as a picture (.png, .svg or .pdf).")] = None,
    page: Annotated[
        Path | None, output("Write a page (.html) with the answer and the best, typical and worst samples of each.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Directory of embeddings and of what was reached; by default OPTIMIST_CACHE or the user's."),
    ] = None,
    cache_size: Annotated[float, typer.Option(min=0.001, help="Most gigabytes of embeddings in it.")] = 4.0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not go on from where the same command was left; use cached embeddings.")
    ] = False,
    ignore_anomalies: Annotated[
        bool, typer.Option(IGNORE, help="Do not compare the scales of batches of features.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which of these GENERATORS made the best samples, embedding no more of them than that needs.

    With --good-enough or --limit: which is the cheapest one that is good enough, by --costs or the costs of tables.

    The exit code is 3 if the answer is provisional, because it rests on features on another scale than others.
    A command that was interrupted or killed goes on where it was when it is given again. This needs no service.

    Example: optimist compare old/ new/ --reference real/
    """
    if plot is not None:
        with extras("notebook"):  # before the work rather than after it
            import matplotlib as mpl

            mpl.use("agg")
    with extras("server,scoring,embed-offline"):
        from optimist.local.compare import compare as compared
    how: dict[str, Any] = {} if policy is None else {"policy": policy}
    with (
        warnings.catch_warnings(),
        format_errors(ValueError, ModuleNotFoundError, OSError, sqlite3.Error),
        Standings(console, "texts" if embed == "text" else "images") as shows,
    ):
        warnings.filterwarnings("ignore", "batch .* is ", UserWarning)  # the answer says it
        try:
            result = compared(
                generators,
                embed=embed,
                reference=reference if reference_samples is None else real_data(reference, reference_samples),
                metric=metric,
                watch=",".join(watch or ()),
                weights=weights,
                device=device,
                batch_size=batch,
                seed=seed,
                cache=cache,
                cache_bytes=int(cache_size * 2**30),
                resume=not fresh,
                fields=fields,
                examples=0 if page is None else 8,
                display=shows,
                **(settings or {}),
                **({} if limit is None else {"limits": limits_of(limit)}),
                **({} if costs is None else {"costs": numbers_of("--costs", costs)}),
                **({"paired": False} if unpaired else {}),
                **({"on_anomaly": "ignore"} if ignore_anomalies else {}),
                **how,
            )
        except KeyboardInterrupt:
            shows.__exit__(None, None, None)
            console.print("Interrupted. The same command goes on from here.")
            raise typer.Exit(130) from None
    print_as(result.to_dict(), result.page.parts, as_json=as_json)
    if plot is not None:
        with extras("notebook"), format_errors(ValueError, OSError):
            result.plot().figure.savefig(plot, dpi=200)
    if page is not None:
        with format_errors(OSError):
            result.save_page(page)
    if result.decision.provisional:
        console.print(f"Leave out: compare again without such samples. Accept: give {IGNORE}.")
        raise typer.Exit(3)


class Standings:
    """A display for `optimist.compare`. It is a context: the live table disappears with it."""

    def __init__(self, console: Console, what: str) -> None:
        """what: what the samples are, such as "images"."""
        self._console, self._what = console, what
        self._bars = bars(console)
        self._live = Live(Group(), console=console, transient=True, refresh_per_second=4)
        self._real = self._used = None
        self._line: Line | None = None
        self._real_line: Line | None = None

    def real(self, done: int, total: int) -> None:
        """So many real samples have been embedded."""
        if not self._console.is_terminal:
            self._real_line = self._real_line or Line("compare", total, unit=f" real {self._what} embedded")
            self._real_line.count(done)
            return
        if self._real is None:
            self._real = self._bars.add_task(f"real {self._what}", total=total)
        self._bars.update(self._real, completed=done)
        self._live.update(self._bars)

    def note(self, text: str) -> None:
        """Print it above what is updated."""
        self._console.print(Text(text, "yellow"), soft_wrap=not self._console.is_terminal)

    def report(self, report: Report, effort: str) -> None:
        """The standings now, and what they took."""
        if not self._console.is_terminal:
            self._line = self._line or Line("compare", report.budget)
            self._line.update(report.samples, report.decision)
            return
        if self._used is None:
            self._used = self._bars.add_task(f"{self._what} used", total=report.budget)
        total = expected_total(report.samples, report.decision, report.budget)
        self._bars.update(self._used, completed=report.samples, total=total)
        shown = Page([standings(report, MAX_LISTED), f"{report.decision.leader}  {report.why}".strip(), effort])
        self._live.update(Group(self._bars, shown))

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._live.stop()
