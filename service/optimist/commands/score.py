"""`optimist score`: the scores of files of samples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from optimist.commands.shared import (
    ORDER,
    AsJson,
    Device,
    Frequencies,
    KernelName,
    KernelSeed,
    MetricText,
    PromptSigma,
    ReferenceFile,
    ReferenceSamples,
    Sigma,
    Truncation,
    Watch,
    console,
    extras,
    format_errors,
    parsed,
    real_data,
    settings_of,
    watched,
)
from optimist_client.config import BoundName
from optimist_client.errors import FixError
from optimist_client.metrics import find
from optimist_client.metrics.kernel import MEDIAN

if TYPE_CHECKING:
    from optimist.local.offline import FileScore
    from optimist.numerics.estimate import Estimate


def score(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Samples to score: .npy, .npz, .safetensors or .parquet, each array (n, d) one generator's; for "
            "scores of pairs, files of one generator each with the arrays features and prompts. Or a folder with one "
            "file (or folder) per generator, as for `simulate --features`."
        ),
    ],
    metric: MetricText = "fid",
    watch: Watch = None,
    reference: ReferenceFile = None,
    reference_samples: ReferenceSamples = None,
    bound: Annotated[BoundName, typer.Option(help="The bound that makes the interval.")] = "influence",
    delta: Annotated[float, typer.Option(help="The interval covers 1 − delta.")] = 0.05,
    order: Annotated[float, typer.Option(help=ORDER)] = 1.0,
    truncation: Truncation = None,
    kernel: KernelName = None,
    sigma: Sigma = None,
    prompt_sigma: PromptSigma = None,
    frequencies: Frequencies = None,
    exact: Annotated[bool, typer.Option("--exact", help="The n × n kernel itself; its score has no interval.")] = False,
    kernel_seed: KernelSeed = None,
    mixture: Annotated[
        bool,
        typer.Option("--mixture", help="The best blend of the generators, too, and what it gains over the best one."),
    ] = False,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Score FILES and print them best first. This needs no service. A scorer process is run by `optimist scorer`."""
    settings = settings_of(device=device)
    with extras("server,scoring"):
        from optimist.local.offline import mixture_files, score_files
    with format_errors(ValueError), progress() as begun:
        name, own = parsed(metric)
        real = real_data(reference, reference_samples)
        asked = (kernel, sigma, prompt_sigma, frequencies, kernel_seed, exact)
        kernels = shared_kernels(name, watch or [], "kernel" in own, *asked)
        shared = kernels | ({} if real is None else {"reference": real})
        taken = shared if not watch else {key: known for key, known in shared.items() if key in find(name).settings()}
        if "reference" not in own:
            check_reference(name, reference)
        how: dict[str, Any] = {"order": order, "truncation": truncation, **taken, **own}
        how |= {"delta": delta, "device": settings.device, "beside": reference, "begun": begun}
        rows = score_files(files, name, watch=watched(watch or [], shared), bound=bound, **how)
        blend = mixture_files(files, name, **how) if mixture else None
    if as_json:
        scores = [row.to_dict() for row in rows]
        found = scores if blend is None else {"scores": scores, "mixture": blend.model_dump(mode="json")}
        typer.echo(json.dumps(found, indent=2, allow_nan=False))
        return
    _print_scores(rows, f"{find(name).title}, bound {bound}, intervals of {1.0 - delta:.4g}")
    if blend is not None:
        Console().print(Text(f"{blend}"), soft_wrap=True)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Shows, on a terminal, which generator is being scored and for how long; call it with each name."""
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task("reading")
        numbers = count(1)
        yield lambda name: bar.update(shown, description=f"scoring {name} ({next(numbers)})")


def check_reference(metric: str, reference: Path | None) -> None:
    """Raise FixError if the metric needs a reference and none is given."""
    if "reference" in find(metric).needs and reference is None:
        raise FixError(f"the metric {metric!r} needs real features to compare with: --reference FILE")


def shared_kernels(metric: str, watch: Sequence[str], has_own: bool, *asked: Any) -> dict[str, dict[str, Any]]:
    """The kernels that the options give the metric and the watched ones; see `kernels_of` for `asked`.

    has_own: whether the metric has a kernel among its own settings, so that it needs none of the options.
    """
    if not any(asked) and (watch or has_own) and (has_own or "kernel" not in find(metric).settings()):
        return {}
    with_kernels = [name for name in (metric, *(parsed(text)[0] for text in watch)) if find(name).kernels]
    return kernels_of(with_kernels[0] if with_kernels and not has_own else metric, *asked)


def kernels_of(
    metric: str,
    name: str | None,
    sigma: str | None,
    prompt_sigma: str | None,
    frequencies: int | None,
    seed: int | None,
    exact: bool,
) -> dict[str, dict[str, Any]]:
    """The kernels as `optimist.score` takes them. Raises FixError for options that do not go together."""
    options: dict[str, Any] = {"sigma": _sigma(sigma), "features": frequencies, "seed": seed}
    options = {option: value for option, value in options.items() if value is not None}
    if name == "cosine" and options:
        raise FixError("the cosine kernel has no --sigma, no frequencies and no --kernel-seed")
    wanted = find(metric).settings()
    if exact and "kernel" not in wanted:
        raise FixError(f"the metric {metric!r} has no kernel to be --exact about")
    if "kernel" in find(metric).needs and name != "cosine" and "sigma" not in options:
        raise FixError(f"the metric {metric!r} needs --sigma, which `optimist bandwidth` finds, or --kernel cosine")
    if "prompt_kernel" in wanted and prompt_sigma is None:
        raise FixError(f"the metric {metric!r} needs --prompt-sigma, the bandwidth of the prompts' kernel")
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
        raise FixError(f"expected a bandwidth as a number or {MEDIAN!r}, got {text!r}") from None


def _print_scores(rows: list[FileScore], title: str) -> None:
    out = Console()
    out.print(_table(title, {row.name: row.estimate for row in rows}))
    for label in rows[0].watched:
        out.print(_table(label, {row.name: row.watched[label] for row in rows}))
    # Below the table: sentences in a narrow column are hard to read.
    for field, sigma in rows[0].bandwidths.items():
        out.print(Text(f"σ of the {field.replace('_', ' ')}: {sigma:.4g}."), soft_wrap=True)
    for row in rows:
        for warning in row.estimate.warnings:
            out.print(Text(f"{row.name}: {warning}"), soft_wrap=True)


def _table(title: str, estimates: Mapping[str, Estimate]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("generator", overflow="fold")
    for column in ("score", "interval", "plug-in", "samples"):
        table.add_column(column, justify="right")
    for name, estimate in estimates.items():
        score, plug_in, lower, upper = (
            f"{estimate.natural(number):.4g}"
            for number in (estimate.value, estimate.plug_in, estimate.lower, estimate.upper)
        )
        table.add_row(Text(name), score, f"{lower} to {upper}", plug_in, f"{estimate.samples:,}")
    return table
