"""Draws the figures of a simulation with the goal "mixture". Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from optimist.simulation.mixtures.reporting import subject
from optimist.simulation.mixtures.result import MixtureResult
from optimist.simulation.plots import COLOURS, LONGEST, save, styles


def draw(result: MixtureResult, directory: Path) -> list[Path]:
    """Write every figure as PNG and SVG to `directory`, which is created if needed, and return the files."""
    return save({name: partial(make, result) for name, make in FIGURES.items()}, directory)


def drawn_excess(result: MixtureResult) -> Figure:
    """Excess loss of the samples drawn so far against samples."""
    return _curves(result, "drawn_excess", "excess loss of the samples drawn")


def named_excess(result: MixtureResult) -> Figure:
    """Excess loss of the weights named against samples."""
    return _curves(result, "named_excess", "excess loss of the weights named")


def drawn_shares(result: MixtureResult) -> Figure:
    """The share of each generator in the samples of each policy, beside the best weights."""
    figure = Figure(figsize=(6.4, 1.8 + 0.3 * len(result.runs) * len(result.generators)), layout="constrained")
    axes = figure.subplots()
    count = len(result.runs) + 1
    rows = np.arange(len(result.generators))
    shares = {policy: run.pick_shares.mean(axis=0) for policy, run in result.runs.items()}
    bars = {"best blend": result.weights, **shares}
    for place, ((label, values), colour) in enumerate(zip(bars.items(), cycle(COLOURS[::-1]), strict=False)):
        axes.barh(rows + 0.8 * place / count, values, height=0.8 / count, label=label, color=colour)
    names = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in result.generators]
    axes.set_yticks(rows + 0.4 * (count - 1) / count, names)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("share of samples")
    axes.set_title(subject(result), fontsize="medium")
    axes.legend(fontsize="small")
    return figure


FIGURES: dict[str, Callable[[MixtureResult], Figure]] = {
    make.__name__: make for make in (drawn_excess, named_excess, drawn_shares)
}
"""The figures by file name without suffix."""


def _curves(result: MixtureResult, measure: str, label: str) -> Figure:
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    for (policy, run), style in zip(result.runs.items(), styles(), strict=False):
        curve = run.curve(measure)
        known = np.flatnonzero(curve.trials)
        samples = run.marks[known] * result.batch_size
        mean, error = curve.mean[known], np.nan_to_num(curve.error[known])
        axes.plot(samples, mean, label=policy, lw=1.8, **style)
        axes.fill_between(samples, np.maximum(mean - error, 0.0), mean + error, color=style["color"], alpha=0.2, lw=0)
    axes.axhline(result.single_excess, color="black", lw=1.0, ls=":", label=f"{result.best_single} alone"[:LONGEST])
    axes.set_xlabel("samples of all generators")
    axes.set_ylabel(label)
    axes.set_xscale("log")
    axes.set_ylim(0, None)
    axes.grid(alpha=0.3)
    trials = f"mean of {result.trials} trials ± standard error" if result.trials > 1 else "one trial"
    axes.set_title(f"{subject(result)}, {trials}", fontsize="medium")
    axes.legend(fontsize="small")
    return figure
