"""`optimist simulate`: what any policy would have paid on given samples."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from optimist.commands.score import kernels_of
from optimist.commands.shared import (
    ORDER,
    KernelName,
    MetricName,
    PromptSigma,
    ReferenceFile,
    Truncation,
    console,
    extras,
    said_plainly,
)

if TYPE_CHECKING:
    from optimist.simulation.sources import Bed


def simulate(
    features: Annotated[
        Path | None,
        typer.Option(
            help="Samples: a folder with a file (or folder) for each generator, or a file with an array for each; "
            ".npy, .npz, .safetensors or .parquet. Arrays mean and covariance make a Gaussian."
        ),
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option(help="Samples: an exported experiment that kept its log, with its question.")
    ] = None,
    generators: Annotated[Literal["digits"] | None, typer.Option(help="Samples: the demo's live generators.")] = None,
    metric: Annotated[
        MetricName | None, typer.Option(help="What to compare by: the experiment's, otherwise fid.")
    ] = None,
    reference: ReferenceFile = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy or preset, perhaps with options: ucb:bound=theorem,delta=0.1. Give it several times; by "
            "default ucb and uniform."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Batches of each trial.")] = 1000,
    batch: Annotated[int, typer.Option(min=1, help="Samples of each batch.")] = 5,
    trials: Annotated[
        int, typer.Option(min=1, help="Trials of each policy, each on another draw of the samples.")
    ] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all draws.")] = 0,
    in_order: Annotated[bool, typer.Option("--in-order", help="Draw samples as they stand; mind --trials.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End a trial once the answer is sure.")] = False,
    delta: Annotated[float | None, typer.Option(help="Accepted probability of a wrong answer; 0.05.")] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="A difference that does not matter, on the metric's scale.")
    ] = None,
    truth: Annotated[
        str | None, typer.Option(help="True scores as a=1.5,b=2.5; by default made of all samples.")
    ] = None,
    order: Annotated[float | None, typer.Option(help=ORDER)] = None,
    truncation: Truncation = None,
    kernel: KernelName = None,
    sigma: Annotated[str | None, typer.Option(help="Bandwidth of the gaussian kernel: a number, or median.")] = None,
    prompt_sigma: PromptSigma = None,
    frequencies: Annotated[int | None, typer.Option(min=1, help="Random frequencies, r; 1000 by default.")] = None,
    kernel_seed: Annotated[int | None, typer.Option(min=0, help="Seed of the frequencies; 0 by default.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1: as many as there are cores.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the numbers: one object a policy.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the curves: a row a policy and round.")] = None,
    picks: Annotated[
        Path | None, typer.Option(help="Write every pick as CSV: policy, trial, round, generator.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw figures into this folder, as PNG and SVG.")] = None,
) -> None:
    """Play policies on samples, many times over, and show what they cost: regret, and samples until they are right.

    Every policy of a trial sees the same samples, drawn without replacement. Results depend on the seed, not on --jobs.
    """
    if sum(source is not None for source in (features, experiment, generators)) != 1:
        raise typer.BadParameter("expected samples by one of --features, --experiment or --generators")
    with extras("simulate" if generators is None else "simulate,demo"):
        from optimist.simulation import laboratory, reporting

        if plot is not None:
            import optimist.simulation.plots  # noqa: F401 (what it lacks is said before anything is played)
    with said_plainly(ValueError, OSError, MemoryError), extras("demo"), _warnings_shown():
        _check_places({"--json": json_file, "--csv": csv_file, "--picks": picks}, plot)
        asked = (kernel, sigma, prompt_sigma, frequencies, kernel_seed)
        # An experiment and the demo bring their kernels along.
        kernels = kernels_of(metric or "fid", *asked, exact=False) if features or any(asked) else {}
        result = laboratory.simulate(
            _samples(features, experiment, metric or "fid", reference),
            metric=metric,
            reference=reference,
            policies=policy or ["ucb", "uniform"],
            rounds=rounds,
            batch_size=batch,
            trials=trials,
            seed=seed,
            shuffle=not in_order,
            stop=stop,
            delta=delta,
            tolerance=tolerance,
            truth=None if truth is None else _scores(truth),
            order=order,
            truncation=truncation,
            kernel=kernels.get("kernel"),
            prompt_kernel=kernels.get("prompt_kernel"),
            jobs=jobs,
            progress=True,
        )
        # Where there is no terminal to fit, nothing is folded.
        Console(width=None if sys.stdout.isatty() else reporting.WIDE).print(reporting.rendered(result))
        if json_file is not None:
            result.to_json(json_file)
        if csv_file is not None:
            result.to_csv(csv_file)
        if picks is not None:
            result.picks_to_csv(picks)
        if plot is not None:
            result.plot(plot)


def _samples(features: Path | None, experiment: Path | None, metric: str, reference: Path | None) -> Bed:
    """What is drawn from; imported here as it needs torch."""
    from optimist.simulation import sources

    if features is not None:
        return sources.Bed(sources.files(features, metric, beside=reference))
    return sources.digits(metric) if experiment is None else sources.experiment(experiment)


def _scores(text: str) -> dict[str, float]:
    try:
        pairs = [(name, float(value)) for name, value in (pair.rsplit("=", 1) for pair in text.split(","))]
    except ValueError:
        raise ValueError(f"--truth: expected scores as a=1.5,b=2.5; got {text!r}") from None
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"--truth: expected each generator once, got {text!r}")
    return dict(pairs)


def _check_places(files: Mapping[str, Path | None], folder: Path | None) -> None:
    """Raise ValueError where results could not be written: it would be a pity to learn it after an hour."""
    for option, file in files.items():
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            found = "a folder" if file.is_dir() else f"no folder {file.parent}"
            raise ValueError(f"{option} {file}: expected a file in a folder that is there, found {found}")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"--plot {folder}: expected a folder, found a file")


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """What a simulation warns of, as a sentence before it begins."""
    from optimist.simulation.laboratory import SimulationWarning

    def show(message: Warning | str, *where: object) -> None:
        console.print(Text(f"{message}.", "yellow"), soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", SimulationWarning)
        warnings.showwarning = show
        yield
