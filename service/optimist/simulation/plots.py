"""Figures of a simulation: curves of the policies' costs, shares and estimates. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from optimist.simulation.judges.judge import CurveFigure
from optimist.simulation.result import SimulationResult
from optimist_client.route_display import short

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito for colour-blind readers, without its yellow, which is too faint on white."""
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
SUFFIXES = (".png", ".svg")


def draw(result: SimulationResult, directory: Path) -> list[Path]:
    """Write every figure as PNG and SVG to `directory`, which is created if needed, and return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    # No date and a fixed salt: the same result always gives the same files. A "$" in a name does not start a formula.
    with rc_context({"svg.hashsalt": "optimist", "text.parse_math": False}):
        for name, make in figures_of(result).items():
            figure = make()
            for suffix in SUFFIXES:
                files.append(directory / f"{name}{suffix}")
                figure.savefig(files[-1], dpi=150, metadata={"Date": None} if suffix == ".svg" else None)
    return files


def pick_share(result: SimulationResult) -> Figure:
    """The fraction of samples drawn from each generator, best first, beside the best fractions where there are such."""
    order = list(result.judge.order)
    target = [result.judge.best_shares[result.generators[g]] for g in order if result.judge.best_shares]
    figure, panels = _panels(result)
    max_share = 1.1 * max([*target, *(float(run.pick_shares.mean(axis=0).max()) for run in result.runs.values())])
    for (policy, run), axes, colour in zip(result.runs.items(), panels, cycle(COLOURS), strict=False):
        shares = run.pick_shares[:, order]
        axes.barh(range(len(order)), shares.mean(axis=0), color=colour, height=0.75)
        if len(shares) > 1:
            error = shares.std(axis=0, ddof=1) / np.sqrt(len(shares))
            axes.errorbar(shares.mean(axis=0), range(len(order)), xerr=error, fmt="none", ecolor="black", lw=1)
        axes.plot(target, range(len(target)), "|", color="black", ms=11, mew=2)
        axes.set_title(policy)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("share of samples")
        axes.set_xlim(0, max_share)
        _name_generators(axes, result, order)
    figure.suptitle(f"{result.judge.subject}: samples by generator{', best at the top' if not target else ''}")
    return figure


def estimates(result: SimulationResult) -> Figure:
    """The last estimate and interval of each generator in the first trial, with the true score."""
    order = list(result.judge.order)
    figure, panels = _panels(result)
    truth = result.judge.scores[order]
    low, high = _window(truth)
    rows = np.arange(len(order))
    for (policy, run), axes, colour in zip(result.runs.items(), panels, cycle(COLOURS), strict=False):
        value, lower, upper = run["estimates"][0, order].T
        axes.hlines(rows, np.clip(lower, low, high), np.clip(upper, low, high), color=colour, lw=2, label="interval")
        axes.plot(value, rows, "o", color=colour, ms=5, label="estimate")
        beyond = value > high
        axes.plot(np.full(beyond.sum(), high), rows[beyond], ">", color=colour, ms=12)  # outside the axes
        axes.plot(truth, rows, "|", color="black", ms=11, mew=2, label="truth")
        axes.set_title(policy)
        axes.set_xlabel(result.judge.unit)
        axes.set_xlim(low, high)
        _name_generators(axes, result, order)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    figure.suptitle(f"{result.judge.subject}: last estimates in the first trial, best at the top")
    return figure


def curves(result: SimulationResult, drawn: CurveFigure) -> Figure:
    """A curve of each policy, the mean over its trials, against batches."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    plan = result.plan
    for (policy, run), style in zip(result.runs.items(), styles(), strict=False):
        curve = run.curve(drawn.curve)
        marked = np.flatnonzero(curve.trials)
        rounds = run.marks[marked]
        mean, error = curve.mean[marked], np.nan_to_num(curve.error[marked])
        axes.plot(rounds, mean, label=policy, lw=1.8, **style)
        if drawn.has_band:
            low = np.maximum(mean - error, 0.0) if drawn.is_log else mean - error
            axes.fill_between(rounds, low, mean + error, color=style["color"], alpha=0.2, lw=0)
    axes.set_xlabel(f"batches of {plan.batch_size} samples")
    axes.set_ylabel(drawn.label.format(unit=f"in {result.judge.unit}"))
    if drawn.is_log:
        axes.set_xscale("log")
    else:
        axes.set_xlim(0, plan.rounds)
    if drawn.is_share:
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    else:
        axes.set_ylim(0, None)
    if result.judge.level is not None:
        value, name = result.judge.level
        axes.axhline(value, color="black", lw=1.0, ls=":", label=short(name))
    axes.grid(alpha=0.3)
    trials = f"mean of {plan.trials} trials{' ± standard error' * drawn.has_band}" if plan.trials > 1 else "one trial"
    axes.set_title(f"{result.judge.subject}, {trials}", fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def figures_of(result: SimulationResult) -> dict[str, Callable[[], Figure]]:
    """Makers of each figure of a result, by file name without suffix."""
    figures: dict[str, Callable[[], Figure]] = {
        name: partial(curves, result, drawn) for name, drawn in result.judge.figures.items()
    }
    figures["pick_share"] = partial(pick_share, result)
    if "estimates" in next(iter(result.runs.values())).arrays:
        figures["estimates"] = partial(estimates, result)
    return figures


def _panels(result: SimulationResult) -> tuple[Figure, list[Axes]]:
    """A figure with one panel per policy, side by side, high enough for all generators."""
    columns = min(len(result.runs), 4)
    rows = -(-len(result.runs) // columns)
    height = 1.3 + 0.22 * len(result.generators)
    figure = Figure(figsize=(1.6 + 2.6 * columns, max(2.6, height) * rows), layout="constrained")
    panels: list[Axes] = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel().tolist()
    for unused in panels[len(result.runs) :]:
        unused.set_axis_off()
    return figure, panels[: len(result.runs)]


def _name_generators(axes: Axes, result: SimulationResult, order: Sequence[int]) -> None:
    names = [result.generators[g] for g in order]
    axes.set_yticks(range(len(order)), [*map(short, names)])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)


def _window(truth: np.ndarray) -> tuple[float, float]:
    """The range of the axis: the true scores with a margin. The papers' bounds and early estimates may exceed it."""
    span = float(np.ptp(truth)) or abs(float(truth[0])) or 1.0
    return float(truth.min()) - 0.3 * span, float(truth.max()) + 0.8 * span


def styles() -> Iterator[dict[str, Any]]:
    """A colour and a dash pattern for each line, so that lines can be told apart without colour."""
    for i in count():
        yield {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}
