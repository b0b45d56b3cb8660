"""Every policy on one benchmark problem: the papers' three curves, and the numbers of the table."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from figures import labelled
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter, StrMethodFormatter
from problems import OURS, POLICIES, Comparison
from settings import Settings

import optimist
from optimist.simulation.laboratory import SimulationWarning
from optimist.simulation.plots import COLOURS, DASHES
from optimist.simulation.result import SimulationResult

POOL = 20_000
"""Number of samples of each generator. A trial draws up to 5,000 of them; the truth is their de-biased score."""
CURVES = {
    "regret": "total regret",
    "average_regret": "average regret per batch",
    "optimal_pick_ratio": "optimal pick ratio",
}
PLACES = {OURS: 0, "fd-ucb": 2, "naive-ucb": 3, "greedy": 4, "uniform": 5}
"""The style of a policy, the same in every figure; 1 is for the metric's own preset."""


def play(comparison: Comparison, settings: Settings) -> SimulationResult:
    """Run the comparison with the papers' batches and rounds, or with few if `settings` are quick."""
    problem = comparison.make(500 if settings.quick else POOL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)  # the summary says which trials ran out of samples
        return optimist.simulate(
            problem,
            metric=comparison.metric,
            policies=POLICIES[comparison.metric],
            rounds=60 if settings.quick else comparison.rounds,
            batch_size=comparison.batch,
            trials=2 if settings.quick else settings.trials,
            jobs=settings.jobs,
            progress=settings.progress,
        )


def document(comparison: Comparison, result: SimulationResult) -> dict[str, Any]:
    """The stored result of a comparison: its set-up, the true scores and a summary of each policy."""
    return {
        "title": comparison.title,
        "metric": comparison.metric,
        "rounds": result.plan.rounds,
        "batch": result.plan.batch_size,
        "trials": result.plan.trials,
        "best": result.judge.best,
        "truth": {name: known.score for name, known in result.truth.items()},
        "policies": json.loads(result.to_json()),
    }


def figure(comparison: Comparison, result: SimulationResult) -> Figure:
    """Total regret, average regret and optimal pick ratio against batches, means over trials with standard errors."""
    drawn = Figure(figsize=(11, 3.6), layout="constrained")
    panels = drawn.subplots(1, len(CURVES))
    for axes, (measure, label) in zip(panels, CURVES.items(), strict=True):
        for policy, run in result.runs.items():
            place = PLACES.get(policy, 1)
            colour, dash = COLOURS[place], DASHES[place % len(DASHES)]
            curve = run.curve(measure)
            rounds = (
                np.flatnonzero(curve.trials == result.plan.trials) + 1
            )  # a mean over fewer trials would jump when they end
            mean, error = curve.mean[rounds - 1], np.nan_to_num(curve.error[rounds - 1])
            name = f"{policy} (ours)" if policy == OURS else policy
            style = {"color": colour, "zorder": 3.0 - 0.1 * place}  # the default is drawn on top
            axes.plot(rounds, mean, linestyle=dash, lw=1.6, label=name, **style)
            axes.fill_between(rounds, mean - error, mean + error, alpha=0.2, lw=0, **style)
        is_share = measure == "optimal_pick_ratio"
        labelled(
            axes,
            f"batches of {result.plan.batch_size} samples",
            label if is_share else f"{label} ({result.judge.unit})",
        )
        if is_share:
            axes.set_ylim(-0.02, 1.02)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        else:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(0, result.plan.rounds)
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize="small")
    drawn.suptitle(f"{comparison.title}; mean of {result.plan.trials} trials ± standard error", fontsize="medium")
    return drawn


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Every comparison's document in a folder, by name."""
    found = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    return {name: each for name, each in found.items() if "policies" in each}
