"""`optimist simulate`: compare policies on given samples."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from optimist.commands.options import takes
from optimist.commands.shared import (
    METRIC,
    AsJson,
    Costs,
    ReferenceFile,
    ReferenceSamples,
    Watch,
    extras,
    format_errors,
    metric_of,
    note,
    numbers_of,
    output,
    print_page,
    real_data,
)
from optimist.simulation.plan import Plan
from optimist_client.errors import FixError
from optimist_client.metrics.texts import parsed


@takes(Plan, *(field for field in Plan.model_fields if field != "costs"))
def simulate(
    features: Annotated[
        Path | None,
        typer.Option(
            help="Samples: a folder with one file (or folder) per generator, or a file with one array per generator; "
            ".npy, .npz, .safetensors or .parquet. Arrays named mean and covariance define a Gaussian."
        ),
    ] = None,
    experiment: Annotated[
        Path | None,
        typer.Option(help="Samples: an exported experiment with keep_log; its metric and settings are used, too."),
    ] = None,
    generators: Annotated[Literal["digits"] | None, typer.Option(help="Samples: the demo's live generators.")] = None,
    goal: Annotated[
        str,
        typer.Option(
            help="What policies are to find: the best generator (best), the cheapest that is good enough (cheapest), "
            "the best mixture of all (mixture), or the right generator for each prompt (route), for which --features "
            "is a file as `optimist route` takes, with all scores."
        ),
    ] = "best",
    metric: Annotated[str | None, typer.Option(help=f"{METRIC} By default the experiment's, or fid.")] = None,
    watch: Watch = None,
    reference: ReferenceFile = None,
    reference_samples: ReferenceSamples = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy or preset, optionally with settings: ucb:bound=theorem,delta=0.1. "
            "By default a few of the goal."
        ),
    ] = None,
    settings: dict[str, Any] | None = None,
    costs: Costs = None,
    truth: Annotated[
        str | None, typer.Option(help="True scores as a=1.5,b=2.5; by default computed from all samples.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of processes; -1 uses all cores.")] = 1,
    csv_file: Annotated[
        Path | None, output("Write the curves to this file: one row per policy and round.", "--csv")
    ] = None,
    picks: Annotated[Path | None, output("Write every pick to this CSV file: policy, trial, round, generator.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write figures to this folder, as PNG and SVG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare policies on given samples.

    Each policy runs in many trials. The report shows their regret and the samples that they need to find the best
    generator; with --goal mixture, how much worse than the best mixture are the samples that they draw and the weights
    that they name; with --goal route, what prompts score. In each trial all policies see the same samples, drawn
    without replacement. Results do not depend on --jobs.

    Example: optimist simulate --features samples/ --reference real.npy --trials 20
    """
    if sum(source is not None for source in (features, experiment, generators)) != 1:
        raise typer.BadParameter("expected exactly one of --features, --experiment and --generators")
    with extras("simulate" if generators is None else "simulate,demo"):
        from optimist.simulation import laboratory, reporting, sources

        if plot is not None:
            import_module("optimist.simulation.plots")  # reports a missing package before the simulation
    with format_errors(ValueError, OSError, MemoryError), extras("demo"), _warnings_shown():
        if plot is not None and plot.exists() and not plot.is_dir():
            raise FixError(f"--plot {plot}: expected a folder, found a file")
        real = real_data(reference, reference_samples) if watch or reference_samples is not None else None
        samples: Any = features
        if samples is None:
            samples = sources.experiment(experiment) if experiment else sources.digits(parsed(metric or "fid")[0])
        result = laboratory.simulate(
            samples,
            goal=goal,
            metric=metric,
            watch=[metric_of(text, real) for text in watch or ()],
            policies=policy or laboratory.judge_of(goal).default,
            truth=None if truth is None else numbers_of("--truth", truth),
            jobs=jobs,
            progress=True,
            reference=reference,
            reference_samples=reference_samples,
            **(settings or {}),
            **({} if costs is None else {"costs": numbers_of("--costs", costs)}),
        )
        if as_json:
            typer.echo(reporting.to_json(result))
        else:
            print_page(*reporting.shown(result).parts)
        if csv_file is not None:
            result.to_csv(csv_file)
        if picks is not None:
            result.picks_to_csv(picks)
        if plot is not None:
            result.plot(plot)


@contextmanager
def _warnings_shown() -> Generator[None]:
    """Print the warnings of a simulation as sentences without a traceback."""
    from optimist.simulation.laboratory import SimulationWarning

    def show(message: Warning | str, *where: object) -> None:
        note(f"{message}.", "yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("always", SimulationWarning)
        warnings.showwarning = show
        yield
