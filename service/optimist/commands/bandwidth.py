"""`optimist bandwidth`: choose the bandwidth of a kernel from samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from optimist.commands.shared import AsJson, extras, format_errors, print_as
from optimist_client.errors import FixError
from optimist_client.layout import Table

if TYPE_CHECKING:
    from optimist.local.offline import Bandwidths

KernelMetric = Literal["rke", "vendi"]


def bandwidth(
    file: Annotated[
        Path, typer.Argument(help="File with one array of features (n, d): .npy, .npz, .safetensors or .parquet.")
    ],
    sigmas: Annotated[
        str | None,
        typer.Option(help="The bandwidths to try, such as 5,10,20; by default 1/8 to 8 times the median distance."),
    ] = None,
    metric: Annotated[KernelMetric, typer.Option(help="The score whose variance is measured.")] = "vendi",
    subsets: Annotated[int, typer.Option(help="Number of disjoint random subsets to score.")] = 10,
    size: Annotated[
        int | None, typer.Option(help="Rows per subset; by default as many as the file allows, at most 1000.")
    ] = None,
    frequencies: Annotated[
        int, typer.Option(min=1, help="Number of random frequencies of the subsets' scores.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the subsets and frequencies.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Choose σ of the gaussian kernel by the papers' variance rule, and the number r of random features by the score.

    It selects the smallest σ for which the variance of the score between subsets is below 0.01, there and for all
    larger σ. The score is de-biased and on its natural scale. More rows per subset (--size) allow a smaller σ: use as
    many as an evaluation will have. r, for each σ, is the smallest power of two of which the score by the kernel itself
    is at most a quarter: with fewer, scores are too low.

    Example: optimist bandwidth features.npy --metric vendi
    """
    with extras("server,scoring"):
        from optimist.local.offline import choose_bandwidth
        from optimist.records import codec
    with format_errors(ValueError, ArithmeticError):
        choice = choose_bandwidth(
            file, metric, sigmas=_numbers(sigmas), subsets=subsets, size=size, features=frequencies, seed=seed
        )
    document = {"file": str(file), "metric": metric, **codec.plain(choice)}
    print_as(document, _bandwidths(choice, metric), as_json=as_json)


def _numbers(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise FixError(f"--sigmas: expected numbers such as 5,10,20, got {text!r}") from None


def _bandwidths(choice: Bandwidths, metric: str) -> Iterator[Table | str]:
    title = f"{metric.upper()} of {choice.subsets} subsets of {choice.size:,} rows"
    head = ("σ", "mean score", "variance", "features")
    rows = [
        (f"{row.sigma:.4g}", f"{row.mean:.4g}", f"{row.variance:.3g}", f"{row.features or 'exact'}")
        for row in choice.spreads
    ]
    yield Table(head, rows, title=title)
    chosen = "none found, try larger σ or more rows" if choice.chosen is None else f"{choice.chosen:.4g}"
    yield f"Smallest σ with a stable score (variance below 0.01): {chosen}."
    yield "features: the least r of which the score by the kernel is at most a quarter."
    yield f"Median distance between rows: {choice.median_distance:.4g}."
