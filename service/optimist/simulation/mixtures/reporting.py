"""Formats the result of a simulation with the goal "mixture" as text, JSON or CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group

from optimist.simulation.mixtures.run import MEASURES
from optimist.simulation.reporting import ended_early, group, measured, shown

if TYPE_CHECKING:
    from optimist.simulation.mixtures.result import MixtureResult
    from optimist.simulation.mixtures.run import MixtureSummary


def rendered(result: MixtureResult) -> Group:
    """The result for a terminal."""
    return group(title(result), tables(result), notes(result))


def title(result: MixtureResult) -> str:
    """A title: metric, generators, trials, batches, seed, and whether samples were paired."""
    played = f"{result.trials} trial{'s' * (result.trials > 1)} of {result.rounds:,} batches of {result.batch_size}"
    return f"{subject(result)}, {played}, seed {result.seed}"


def subject(result: MixtureResult) -> str:
    """What is blended: metric and generators, and whether samples were paired."""
    return f"{shown(result.metric)} of blends of {len(result.generators)} generators{', paired' * result.paired}"


def tables(result: MixtureResult) -> Iterator[list[list[str]]]:
    """Tables as rows of cells with headers: excess losses, gains and samples; with stopping, the stops."""
    headers = ["policy", "excess of the samples drawn", "share", "excess of the weights named", "share"]
    yield [[*headers, "gain", "its interval holds", "samples"], *map(_paid, result.summaries)]
    names = list(result.generators)
    shares = [
        [policy, *(f"{share:.2f}" for share in run.pick_shares.mean(axis=0))] for policy, run in result.runs.items()
    ]
    yield [["samples drawn", *names], *shares, ["best blend", *(f"{weight:.2f}" for weight in result.weights)]]
    if result.stop:
        yield [["policy", "stopped", "samples to stop", "wrong stops"], *map(_stopped, result.summaries)]


def notes(result: MixtureResult) -> Iterator[str]:
    """Notes on the numbers: the best blend, the best single generator, the truth, and trials that ended early."""
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
