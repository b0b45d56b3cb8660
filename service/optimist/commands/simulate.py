"""`optimist simulate`: compare policies on given samples."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from optimist.commands.shared import (
    METRIC,
    AtLeast,
    Ceiling,
    ReferenceFile,
    ReferenceSamples,
    Watch,
    console,
    extras,
    format_errors,
    metric_of,
    real_data,
)
from optimist_client.errors import FixError
from optimist_client.metrics import Metric
from optimist_client.metrics.texts import parsed
from optimist_client.tolerance import parsed as parsed_tolerance

if TYPE_CHECKING:
    from optimist.simulation.sources import SourceSet


DEFAULTS = {
    "best": ("ucb", "uniform"),
    "mixture": ("ogd", "mixture-greedy", "uniform"),
    "route": ("optimistic", "rff-ucb", "uniform", "best-single"),
}
"""The policies that are compared if none is named, by goal."""


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
        Literal["best", "mixture", "route"],
        typer.Option(
            help="What policies are to find: the best generator, the best mixture of all, or the right generator for "
            "each prompt. For the last, --features is a file as `optimist route` takes, with all scores."
        ),
    ] = "best",
    metric: Annotated[str | None, typer.Option(help=f"{METRIC} By default the experiment's, or fid.")] = None,
    watch: Watch = None,
    reference: ReferenceFile = None,
    reference_samples: ReferenceSamples = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy or preset, optionally with settings: ucb:bound=theorem,delta=0.1. May be given several "
            "times; by default ucb and uniform, for mixtures ogd, mixture-greedy and uniform."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Batches per trial.")] = 1000,
    batch: Annotated[int, typer.Option(min=1, help="Samples per batch.")] = 5,
    trials: Annotated[int, typer.Option(min=1, help="Trials per policy, each with its own random draw.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random draws.")] = 0,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Draw samples in their given order. All trials then see the same ones.")
    ] = False,
    paired: Annotated[
        bool | None,
        typer.Option(
            "--paired/--unpaired",
            help="Whether row i of every generator has the same seed or prompt, so that their scores are compared by "
            "row; by default as the samples are known to be, for files unpaired.",
        ),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="End a trial when the stopping rule decides.")] = False,
    delta: Annotated[
        float | None, typer.Option(help="Accepted probability of a wrong decision; 0.05 by default.")
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(help="A difference that does not matter: a number on the metric's scale, or a share as 1%."),
    ] = None,
    truth: Annotated[
        str | None, typer.Option(help="True scores as a=1.5,b=2.5; by default computed from all samples.")
    ] = None,
    price: Annotated[
        float, typer.Option(min=0.0, help="With --goal route: what a unit of cost is worth in units of the score.")
    ] = 0.0,
    ceiling: Ceiling = None,
    at_least: AtLeast = None,
    tries: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="With --goal route: a generator is called for its prompt until it succeeds, at most so often; scores "
            "are the probabilities of it.",
        ),
    ] = 1,
    jobs: Annotated[int, typer.Option(help="Number of processes; -1 uses all cores.")] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the results to this file: one object per policy.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write the curves to this file: one row per policy and round.")
    ] = None,
    picks: Annotated[
        Path | None, typer.Option(help="Write every pick to this CSV file: policy, trial, round, generator.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write figures to this folder, as PNG and SVG.")] = None,
) -> None:
    """Compare policies on given samples.

    Each policy runs in many trials. The report shows their regret and the samples that they need to find the best
    generator; with --goal mixture, how much worse than the best mixture are the samples that they draw and the weights
    that they name. In each trial all policies see the same samples, drawn without replacement. Results do not depend on
    --jobs.
    """
    if goal == "route":
        unused = {"--experiment": experiment, "--generators": generators, "--metric": metric, "--reference": reference}
        unused |= {"--watch": watch, "--truth": truth, "--tolerance": tolerance}
        unused |= {"--reference-samples": reference_samples}
        unused |= {"--csv": csv_file, "--picks": picks, "--plot": plot, "--delta": delta}
        if given := [option for option, value in unused.items() if value is not None]:
            raise typer.BadParameter(f"--goal route takes no {', '.join(given)}: scores are in the file")
        if features is None:
            raise typer.BadParameter("--goal route needs --features, a file as `optimist route` takes")
        played = rounds, trials, seed, json_file, price, tries, ceiling, at_least
        play_routing(features, policy or DEFAULTS[goal], *played)
        return
    if price or tries > 1 or ceiling is not None or at_least is not None:
        raise typer.BadParameter("--price, --tries, --ceiling and --at-least go with --goal route")
    if truth is not None and goal == "mixture":
        raise typer.BadParameter("--truth has scores of single generators, so it does not go with --goal mixture")
    if sum(source is not None for source in (features, experiment, generators)) != 1:
        raise typer.BadParameter("expected exactly one of --features, --experiment and --generators")
    with extras("simulate" if generators is None else "simulate,demo"):
        from optimist.simulation import laboratory, reporting

        if plot is not None:
            import optimist.simulation.plots  # noqa: F401 (report a missing package before the simulation)
    with format_errors(ValueError, OSError, MemoryError), extras("demo"), _warnings_shown():
        _check_places({"--json": json_file, "--csv": csv_file, "--picks": picks}, plot)
        real = real_data(reference, reference_samples)
        further = [metric_of(text, real) for text in watch or ()]
        # Which class the result has depends on the goal.
        asked_for: dict[str, Any] = {"goal": goal}
        result = laboratory.simulate(
            _samples(features, experiment, metric or "fid", further, reference),
            **asked_for,
            metric=metric,
            watch=further,
            reference=real,
            policies=policy or list(DEFAULTS[goal]),
            rounds=rounds,
            batch_size=batch,
            trials=trials,
            seed=seed,
            shuffle=not in_order,
            paired=paired,
            stop=stop,
            delta=delta,
            tolerance=None if tolerance is None else parsed_tolerance(tolerance),
            truth=None if truth is None else _scores(truth),
            jobs=jobs,
            progress=True,
        )
        # If the output is not a terminal, do not wrap lines.
        Console(width=None if sys.stdout.isatty() else reporting.WIDE).print(result.rendered())
        if json_file is not None:
            result.to_json(json_file)
        if csv_file is not None:
            result.to_csv(csv_file)
        if picks is not None:
            result.picks_to_csv(picks)
        if plot is not None:
            result.plot(plot)


def _samples(
    features: Path | None, experiment: Path | None, metric: str, watch: Sequence[Metric], reference: Path | None
) -> SourceSet:
    """The samples that the options name. Imports torch only here."""
    from optimist.simulation import sources
    from optimist.simulation.inputs import arrays_read

    if features is not None:
        return sources.SourceSet(sources.files(features, arrays_read(metric, watch), beside=reference))
    return sources.digits(parsed(metric)[0]) if experiment is None else sources.experiment(experiment)


def _scores(text: str) -> dict[str, float]:
    try:
        pairs = [(name, float(value)) for name, value in (pair.rsplit("=", 1) for pair in text.split(","))]
    except ValueError:
        raise FixError(f"--truth: expected scores as a=1.5,b=2.5; got {text!r}") from None
    if len(dict(pairs)) < len(pairs):
        raise FixError(f"--truth: expected each generator once, got {text!r}")
    return dict(pairs)


def _check_places(files: Mapping[str, Path | None], folder: Path | None) -> None:
    """Raise FixError if results could not be written, before a long simulation is started."""
    for option, file in files.items():
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            found = "a folder" if file.is_dir() else f"no folder {file.parent}"
            raise FixError(f"{option} {file}: expected a file in an existing folder, found {found}")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise FixError(f"--plot {folder}: expected a folder, found a file")


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print the warnings of a simulation as sentences without a traceback."""
    from optimist.simulation.laboratory import SimulationWarning

    def show(message: Warning | str, *where: object) -> None:
        console.print(Text(f"{message}.", "yellow"), soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", SimulationWarning)
        warnings.showwarning = show
        yield


def play_routing(
    file: Path,
    policies: Sequence[str],
    rounds: int,
    trials: int,
    seed: int,
    json_file: Path | None,
    price: float = 0.0,
    tries: int = 1,
    ceiling: float | None = None,
    at_least: float | None = None,
) -> None:
    """Print what each policy gets on up to `rounds` prompts in random order, beside the best single generator.

    Exits with a message if the file does not suffice, or a policy is unknown.
    """
    with extras("server,scoring"):
        from optimist.routing_gain.outcomes import prompts_in
        from optimist.simulation.routing_results import played
    with format_errors(ValueError, OSError):
        if json_file is not None and not json_file.parent.is_dir():
            raise FixError(f"--json {json_file}: expected a file in an existing folder")
        known = prompts_in(file)
        budget = {"ceiling": ceiling, "at_least": at_least}
        result = played(known, policies, rounds=rounds, trials=trials, seed=seed, price=price, tries=tries, **budget)
        if json_file is not None:
            json_file.write_text(json.dumps(result.to_dict(), indent=2, allow_nan=False))
    table = Table(title=result.sentence, title_justify="left", box=None, pad_edge=False)
    costs = () if result.single_cost is None else ("cost", "saved", "of the dearest")
    value = "score less price" if price else "mean score"
    for heading in ("policy", value, "± over trials", "part of the possible gain", *costs, *result.names):
        table.add_column(heading, overflow="fold", no_wrap=heading == "policy")
    for row in result.rows:
        share = "–" if row.share_of_ideal is None else f"{row.share_of_ideal:.2f}"
        picks = (f"{part:.0%}" for part in row.picks.values())
        money = [f"{amount:.3g}" for amount in (row.cost, row.saved, row.saved_dearest) if amount is not None]
        table.add_row(row.policy, f"{row.mean:.4f}", f"{row.error:.4f}", share, *money, *picks)
    Console().print(table)
