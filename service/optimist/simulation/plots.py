"""Draws the figures of the papers for a simulation, and those of the goal "mixture". Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from optimist.simulation.mixture_result import MixtureResult
from optimist.simulation.mixture_result import subject as mixture_subject
from optimist.simulation.reporting import format_metric, subject
from optimist.simulation.result import Result

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito for colour-blind readers, without its yellow, which is too faint on white."""
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
SUFFIXES = (".png", ".svg")
LONGEST = 40
"""Maximum characters of a generator's name in a figure; longer names are cut."""


def draw(result: Result, directory: Path) -> list[Path]:
    """Write every figure as PNG and SVG to `directory`, which is created if needed, and return the files."""
    return save({name: partial(make, result) for name, make in FIGURES.items()}, directory)


def save(figures: Mapping[str, Callable[[], Figure]], directory: Path) -> list[Path]:
    """Make figures by name, write them as PNG and SVG to a directory, and return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    # No date and a fixed salt: the same result always gives the same files. A "$" in a name does not start a formula.
    with rc_context({"svg.hashsalt": "optimist", "text.parse_math": False}):
        for name, make in figures.items():
            figure = make()
            for suffix in SUFFIXES:
                files.append(directory / f"{name}{suffix}")
                figure.savefig(files[-1], dpi=150, metadata={"Date": None} if suffix == ".svg" else None)
    return files


def total_regret(result: Result) -> Figure:
    """Cumulative regret against batches."""
    return _curves(result, "regret", f"total regret ({_unit(result)})")


def average_regret(result: Result) -> Figure:
    """Regret a batch so far against batches."""
    return _curves(result, "average_regret", f"average regret per batch ({_unit(result)})")


def optimal_pick_ratio(result: Result) -> Figure:
    """The fraction of batches that were drawn from the best generator, against batches."""
    return _curves(result, "optimal_pick_ratio", "optimal pick ratio", is_share=True)


def accuracy(result: Result) -> Figure:
    """The fraction of trials that name the best generator, against batches."""
    return _curves(result, "accuracy", "trials that name the best", is_share=True, has_band=False)


def pick_share(result: Result) -> Figure:
    """The fraction of samples drawn from each generator, best first."""
    order = np.argsort(result.gaps, kind="stable")
    figure, panels = _panels(result)
    most = 1.1 * max(float(run.pick_shares.mean(axis=0).max()) for run in result.runs.values())
    for (policy, run), axes, colour in zip(result.runs.items(), panels, cycle(COLOURS), strict=False):
        shares = run.pick_shares[:, order]
        axes.barh(range(len(order)), shares.mean(axis=0), color=colour, height=0.75)
        if len(shares) > 1:
            error = shares.std(axis=0, ddof=1) / np.sqrt(len(shares))
            axes.errorbar(shares.mean(axis=0), range(len(order)), xerr=error, fmt="none", ecolor="black", lw=1)
        axes.set_title(policy)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("share of samples")
        axes.set_xlim(0, most)
        _name_generators(axes, result, order)
    figure.suptitle(f"{subject(result)}: samples by generator, best at the top")
    return figure


def estimates(result: Result) -> Figure:
    """The last estimate and interval of each generator in the first trial, with the true score."""
    order = np.argsort(result.gaps, kind="stable")
    figure, panels = _panels(result)
    truth = np.array([known.score for known in result.truth.values()])[order]
    low, high = _window(truth)
    rows = np.arange(len(order))
    for (policy, run), axes, colour in zip(result.runs.items(), panels, cycle(COLOURS), strict=False):
        value, lower, upper = run.estimates[0, order].T
        axes.hlines(rows, np.clip(lower, low, high), np.clip(upper, low, high), color=colour, lw=2, label="interval")
        axes.plot(value, rows, "o", color=colour, ms=5, label="estimate")
        beyond = value > high
        axes.plot(np.full(beyond.sum(), high), rows[beyond], ">", color=colour, ms=12)  # outside the axes
        axes.plot(truth, rows, "|", color="black", ms=11, mew=2, label="truth")
        axes.set_title(policy)
        axes.set_xlabel(format_metric(result.metric))
        axes.set_xlim(low, high)
        _name_generators(axes, result, order)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    figure.suptitle(f"{subject(result)}: last estimates in the first trial, best at the top")
    return figure


FIGURES: dict[str, Callable[[Result], Figure]] = {
    make.__name__: make for make in (total_regret, average_regret, optimal_pick_ratio, accuracy, pick_share, estimates)
}
"""The figures by file name without suffix."""


def _curves(result: Result, measure: str, label: str, is_share: bool = False, has_band: bool = True) -> Figure:
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    for (policy, run), style in zip(result.runs.items(), styles(), strict=False):
        curve = run.curve(measure)
        rounds = np.flatnonzero(curve.trials) + 1
        mean, error = curve.mean[rounds - 1], np.nan_to_num(curve.error[rounds - 1])
        axes.plot(rounds, mean, label=policy, lw=1.8, **style)
        if has_band:
            axes.fill_between(rounds, mean - error, mean + error, color=style["color"], alpha=0.2, lw=0)
    axes.set_xlabel(f"batches of {result.batch_size} samples")
    axes.set_ylabel(label)
    axes.set_xlim(0, result.rounds)
    if is_share:
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    else:
        axes.set_ylim(0, None)
    axes.grid(alpha=0.3)
    trials = f"mean of {result.trials} trials{' ± standard error' * has_band}" if result.trials > 1 else "one trial"
    axes.set_title(f"{subject(result)}, {trials}", fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def _panels(result: Result) -> tuple[Figure, list[Axes]]:
    """A figure with one panel per policy, side by side, high enough for all generators."""
    columns = min(len(result.runs), 4)
    rows = -(-len(result.runs) // columns)
    height = 1.3 + 0.22 * len(result.generators)
    figure = Figure(figsize=(1.6 + 2.6 * columns, max(2.6, height) * rows), layout="constrained")
    panels: list[Axes] = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel().tolist()
    for unused in panels[len(result.runs) :]:
        unused.set_axis_off()
    return figure, panels[: len(result.runs)]


def _name_generators(axes: Axes, result: Result, order: np.ndarray) -> None:
    names = [result.generators[place] for place in order]
    axes.set_yticks(range(len(order)), [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)


def _window(truth: np.ndarray) -> tuple[float, float]:
    """The range of the axis: the true scores with a margin. The papers' bounds and early estimates may exceed it."""
    span = float(np.ptp(truth)) or abs(float(truth[0])) or 1.0
    return float(truth.min()) - 0.3 * span, float(truth.max()) + 0.8 * span


def _unit(result: Result) -> str:
    return f"in {format_metric(result.metric)}"


def styles() -> Iterator[dict[str, Any]]:
    """A colour and a dash pattern for each line, so that lines can be told apart without colour."""
    for place in count():
        yield {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}


def draw_mixtures(result: MixtureResult, directory: Path) -> list[Path]:
    """Write every figure as PNG and SVG to `directory`, which is created if needed, and return the files."""
    return save({name: partial(make, result) for name, make in MIXTURE_FIGURES.items()}, directory)


def drawn_excess(result: MixtureResult) -> Figure:
    """Excess loss of the samples drawn so far against samples."""
    return _excess_curves(result, "drawn_excess", "excess loss of the samples drawn")


def named_excess(result: MixtureResult) -> Figure:
    """Excess loss of the weights named against samples."""
    return _excess_curves(result, "named_excess", "excess loss of the weights named")


def drawn_shares(result: MixtureResult) -> Figure:
    """The share of each generator in the samples of each policy, beside the best weights."""
    figure = Figure(figsize=(6.4, 1.8 + 0.3 * len(result.runs) * len(result.generators)), layout="constrained")
    axes = figure.subplots()
    count = len(result.runs) + 1
    rows = np.arange(len(result.generators))
    shares = {policy: run.pick_shares.mean(axis=0) for policy, run in result.runs.items()}
    bars = {"best mixture": result.weights, **shares}
    for place, ((label, values), colour) in enumerate(zip(bars.items(), cycle(COLOURS[::-1]), strict=False)):
        axes.barh(rows + 0.8 * place / count, values, height=0.8 / count, label=label, color=colour)
    names = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in result.generators]
    axes.set_yticks(rows + 0.4 * (count - 1) / count, names)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("share of samples")
    axes.set_title(mixture_subject(result), fontsize="medium")
    axes.legend(fontsize="small")
    return figure


MIXTURE_FIGURES: dict[str, Callable[[MixtureResult], Figure]] = {
    make.__name__: make for make in (drawn_excess, named_excess, drawn_shares)
}
"""The figures by file name without suffix."""


def _excess_curves(result: MixtureResult, measure: str, label: str) -> Figure:
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
    axes.set_title(f"{mixture_subject(result)}, {trials}", fontsize="medium")
    axes.legend(fontsize="small")
    return figure
