"""The result of a simulation with the goal "mixture": the truth of mixtures, tables, files and figures."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.console import Group

from optimist.estimation.question import Question
from optimist.numerics.programme import Floats, minimise
from optimist.simulation.inputs import SimulationInputs
from optimist.simulation.mixture_run import MEASURES, MixtureRun, MixtureSummary
from optimist.simulation.reporting import as_html, ended_early, format_metric, group, measured, plain
from optimist.simulation.result import SAMPLES
from optimist.simulation.sources import Draw, Source
from optimist_client.errors import FixError

if TYPE_CHECKING:
    from os import PathLike


@dataclass(frozen=True, eq=False)
class MixtureResult:
    """The results of all policies on the same samples. `result["ogd"]` is the `MixtureRun` of one policy."""

    metric: str
    generators: tuple[str, ...]
    """Their names. Picks are indices into them."""
    origin: str
    """How the true losses were obtained."""
    weights: Floats
    """The best weights (G,)."""
    least: float
    """Their loss on the metric's scale."""
    singles: Floats
    """The loss of each generator alone (G,)."""
    single_share: float
    """The excess of the best single generator, as a share of the least loss; NaN where that is not above 0."""
    batch_size: int
    rounds: int
    seed: int
    stop: bool
    paired: bool
    """Whether row i of every generator was drawn alike."""
    runs: dict[str, MixtureRun]

    def __getitem__(self, policy: str) -> MixtureRun:
        return self.runs[policy]

    @property
    def policies(self) -> tuple[str, ...]:
        """The labels of the policies, in the given order."""
        return tuple(self.runs)

    @property
    def best_single(self) -> str:
        """The best generator alone."""
        return self.generators[int(self.singles.argmin())]

    @property
    def single_excess(self) -> float:
        """Its loss above that of the best mixture."""
        return float(self.singles.min()) - self.least

    @property
    def trials(self) -> int:
        """Number of trials per policy."""
        return len(next(iter(self.runs.values())).picks)

    @cached_property
    def summaries(self) -> list[MixtureSummary]:
        """The numbers of every policy."""
        return [run.summary(policy) for policy, run in self.runs.items()]

    def rendered(self) -> Group:
        """The tables and notes for a terminal."""
        return rendered(self)

    def table(self) -> str:
        """The numbers of every policy as text, mean ± standard error, with notes on the truth."""
        return plain(rendered(self))

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """A JSON list with one object per policy (`MixtureSummary` and the truth); also written to `path` if given."""
        document = to_json(self)
        if path is not None:
            Path(path).write_text(f"{document}\n")
        return document

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write every curve to the CSV file `path`: a row per policy and round at which losses are known."""
        write_csv(self, Path(path))

    def picks_to_csv(self, path: str | PathLike[str]) -> None:
        """Write every pick to the CSV file `path`: one row per policy, trial and round."""
        write_picks(self, Path(path))

    def plot(self, directory: str | PathLike[str]) -> list[Path]:
        """Write every figure to `directory` as PNG and SVG, and return the files. Needs matplotlib."""
        from optimist.simulation.plots import draw_mixtures  # matplotlib is slow to import, and only plots need it

        return draw_mixtures(self, Path(directory))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return as_html(title(self), tables(self), notes(self))


def rendered(result: MixtureResult) -> Group:
    """The result for a terminal."""
    return group(title(result), tables(result), notes(result))


def title(result: MixtureResult) -> str:
    """A title: metric, generators, trials, batches, seed, and whether samples were paired."""
    played = f"{result.trials} trial{'s' * (result.trials > 1)} of {result.rounds:,} batches of {result.batch_size}"
    return f"{subject(result)}, {played}, seed {result.seed}"


def subject(result: MixtureResult) -> str:
    """A text that names metric and number of generators, and says whether samples were paired."""
    return (
        f"{format_metric(result.metric)} of mixtures of {len(result.generators)} generators{', paired' * result.paired}"
    )


def tables(result: MixtureResult) -> Iterator[list[list[str]]]:
    """Tables as rows of cells with headers: excess losses, gains and samples; with stopping, the stops."""
    headers = ["policy", "excess of the samples drawn", "share", "excess of the weights named", "share"]
    yield [[*headers, "gain", "its interval holds", "samples"], *map(_paid, result.summaries)]
    names = list(result.generators)
    shares = [
        [policy, *(f"{share:.2f}" for share in run.pick_shares.mean(axis=0))] for policy, run in result.runs.items()
    ]
    yield [["samples drawn", *names], *shares, ["best mixture", *(f"{weight:.2f}" for weight in result.weights)]]
    if result.stop:
        yield [["policy", "stopped", "samples to stop", "wrong stops"], *map(_stopped, result.summaries)]


def notes(result: MixtureResult) -> Iterator[str]:
    """Notes on the numbers: the best mixture, the best single generator, the truth, and trials that ended early."""
    single = f"{result.best_single} alone has {result.single_excess:.4g} more"
    if math.isfinite(result.single_share):
        single = f"{single} ({result.single_share:.1%})"
    yield f"The least loss is {result.least:.4g}; {single}. Truth: {result.origin}. Mean ± standard error over trials."
    if result.paired:
        yield "Paired: sample i of every generator had the same seed or prompt."
    for summary in result.summaries:
        yield from ended_early(summary, result[summary.policy].exhausted)


def to_json(result: MixtureResult) -> str:
    """The result as a JSON list with one object per policy."""
    common = {
        "metric": result.metric,
        "goal": "mixture",
        "rounds": result.rounds,
        "batch_size": result.batch_size,
        "seed": result.seed,
        "paired": result.paired,
        "best_weights": dict(zip(result.generators, result.weights.tolist(), strict=True)),
        "least": result.least,
        "singles": dict(zip(result.generators, result.singles.tolist(), strict=True)),
        "truth_origin": result.origin,
    }
    return json.dumps([asdict(summary) | common for summary in result.summaries], indent=2, allow_nan=False)


def write_csv(result: MixtureResult, path: Path) -> None:
    """Write one row per policy and known round: mean and standard error of every curve."""
    columns = [column for measure in MEASURES for column in (measure, f"{measure}_se")]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "round", "samples", "trials", *columns])
        for policy, run in result.runs.items():
            curves = [run.curve(measure) for measure in MEASURES]
            for place, mark in enumerate(run.marks.tolist()):
                if trials := int(curves[0].trials[place]):
                    ends = [number for curve in curves for number in (curve.mean[place], curve.error[place])]
                    cells = (f"{number:.10g}" if math.isfinite(number) else "" for number in ends)
                    writer.writerow([policy, mark, mark * result.batch_size, trials, *cells])


def write_picks(result: MixtureResult, path: Path) -> None:
    """Write one row per policy, trial and round: the picked generator."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["policy", "trial", "round", "generator"])
        for policy, run in result.runs.items():
            for trial, length in enumerate(run.lengths.tolist()):
                for place, pick in enumerate(run.picks[trial, :length].tolist(), 1):
                    writer.writerow([policy, trial, place, result.generators[pick]])


def _paid(summary: MixtureSummary) -> list[str]:
    return [
        summary.policy,
        measured(summary.drawn_excess, summary.drawn_excess_se),
        _share(summary.drawn_share, summary.drawn_share_se),
        measured(summary.named_excess, summary.named_excess_se),
        _share(summary.named_share, summary.named_share_se),
        measured(summary.gain, summary.gain_se),
        "—" if summary.gain_holds is None else f"{summary.gain_holds:.0%}",
        measured(summary.samples, summary.samples_se),
    ]


def _share(value: float | None, error: float | None) -> str:
    if value is None:
        return "—"
    return f"{measured(100.0 * value, None if error is None else 100.0 * error)} %"


def _stopped(summary: MixtureSummary) -> list[str]:
    return [
        summary.policy,
        f"{summary.decided} of {summary.trials}",
        measured(summary.stop_samples, summary.stop_samples_se),
        f"{summary.wrong_stops}",
    ]


@dataclass(frozen=True, eq=False)
class TrueMixtures:
    """The true loss of every mixture of generators, in their order, and the best mixture."""

    loss: Callable[[Floats], float]
    """The loss of weights (G,) on the metric's scale: the score where lower is better, else minus the score."""
    weights: Floats
    """The weights of the least loss (G,)."""
    origin: str = "given"
    """A text that says how it was obtained."""


def checked_truth(truth: object, inputs: SimulationInputs) -> TrueMixtures | None:
    """The truth that a caller gave, if one was. Raises FixError unless it is of mixtures of these generators."""
    if truth is None:
        return None
    if not isinstance(truth, TrueMixtures):
        raise FixError(f"truth: expected TrueMixtures for the goal 'mixture', got {type(truth).__name__}")
    count = len(inputs.sources)
    if len(truth.weights) != count:
        raise FixError(f"truth: expected the weights of {count} generators, got {len(truth.weights)}")
    return truth


def true_mixtures(sources: Mapping[str, Source], question: Question, seed: int) -> TrueMixtures:
    """The de-biased loss by all samples of each source, with the given kernels, as mixtures compute it.

    From an unlimited source `SAMPLES` samples are drawn, separate from all trials. Raises FixError, naming the
    source, if its samples cannot be scored.
    """
    statistics = []
    bound, counts = None, []
    for name, source in sources.items():
        count = SAMPLES if source.samples is None else source.samples
        rows = source.stream(Draw(seed, None, name, shuffle=source.samples is None)).take(count)
        assert rows is not None
        own = question.own({array: torch.from_numpy(np.asarray(part, np.float64)) for array, part in rows.items()})
        if bound is None:
            bound = question.bound_for({array: part.shape[1] for array, part in own.items()})
        statistic = bound.statistic()
        try:
            statistic.update(*(own[array] for array in bound.metric.widths))
        except ValueError as error:
            raise FixError(f"{source.origin}: {error}") from None
        statistics.append(statistic)
        counts.append(count)
    assert bound is not None
    objective = bound.metric.objective(statistics)
    most, least = max(counts), min(counts)
    origin = f"de-biased, {f'{least:,} to ' * (least < most)}{most:,} samples of each"
    return TrueMixtures(lambda weights: objective.analyse(weights).loss, minimise(objective), origin)
