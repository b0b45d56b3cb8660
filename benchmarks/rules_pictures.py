"""Draws the pictures of the pages on rules, docs/rules/*.png: what each rule does, on data of a known law.

    python benchmarks/rules_pictures.py [--output docs/rules]

The picture of calibration has the measured numbers of docs/calibration.md; the others are computed in seconds.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import optimist
from optimist.metrics.threads import limit_threads
from optimist.policies import Stopping
from optimist.routing.answers.model import best_chances

ROOT = Path(__file__).parents[1]
GREY, GREEN, BLUE = "#888888", "#1a7f37", "#0969da"
SIZE = 16
"""Columns of the rows that are drawn."""
Floats = NDArray[np.float64]


def main() -> None:
    """Draw all pictures into the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "rules")
    folder = parser.parse_args().output
    limit_threads(1)
    for name, draw in PICTURES.items():
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=9)
        figure.savefig(folder / f"{name}.png", dpi=110)


def _estimates(axes: Axes) -> None:
    rows = np.random.default_rng(0).normal(0.3, 1.0, (2_000, SIZE))
    counts = np.unique(np.geomspace(10, len(rows), 30).astype(int))
    found = [optimist.score(rows[:count], "fid", reference=(np.zeros(SIZE), np.eye(SIZE))) for count in counts]
    axes.fill_between(counts, [one.lower for one in found], [one.upper for one in found], color=GREEN, alpha=0.15)
    axes.plot(counts, [one.plug_in for one in found], color=GREY, label="plug-in")
    axes.plot(counts, [one.value for one in found], color=GREEN, label="without bias, with its 95 % interval")
    axes.axhline(0.3**2 * SIZE, color="0.2", lw=1, ls=":", label="true FID")
    axes.set_xscale("log")
    axes.set_ylim(0, 6)
    axes.set_xlabel(f"samples ({SIZE} columns)")
    axes.set_ylabel("FID")


def _differences(axes: Axes) -> None:
    correlation = np.linspace(-0.5, 0.99, 200)
    for share, colour in ((1.0, GREEN), (0.6, BLUE)):
        common = correlation * share + correlation * np.abs(correlation) * (1 - share)
        axes.plot(correlation, np.sqrt(1 - common), color=colour, label=f"{share:.0%} of the variance is linear")
    axes.axhline(1.0, color="0.2", lw=1, ls=":", label="independent generators")
    axes.set_xlabel("correlation ρ_L of the influences of common samples")
    axes.set_ylabel("error of the difference,\nindependent = 1")


def _stopping(axes: Axes) -> None:
    rule, rng = Stopping(0.05), np.random.default_rng(16)
    batches, batch = np.arange(8, 161), 5
    gap = rng.normal([[0.0], [0.3]], 1.0, (2, batches[-1] * batch))
    samples = batches * batch // 2
    evidence = [(gap[1, :n].mean() - gap[0, :n].mean()) / np.sqrt(2 / n) for n in samples]
    needed = [rule.threshold(2, int(told)) for told in batches]
    end = next(place for place, (z, least) in enumerate(zip(evidence, needed, strict=True)) if z > least)
    axes.plot(batches[: end + 1], evidence[: end + 1], color=GREEN, label="evidence z against the hardest rival")
    axes.plot(batches[end:], evidence[end:], color=GREEN, alpha=0.35, label="the same, if sampling went on")
    axes.plot(batches, needed, color="0.2", ls=":", label="needed: z(1 − δ/L)")
    axes.plot(batches[end], evidence[end], "o", color=GREEN, label=f"decided after {batches[end]} batches")
    axes.set_xlabel("batches told, of two generators")
    axes.set_ylabel("standard errors")


def _mixtures(axes: Axes) -> None:
    rng = np.random.default_rng(5)
    weights = np.linspace(0, 1, 201)

    def loss(count: int) -> Floats:
        a, b = rng.normal(-0.6, 1.0, (count, 1)), rng.normal(0.6, 0.7, (count, 1))
        (own, between), (_, other) = [[float(np.exp(-0.5 * (x - y.T) ** 2).mean()) for y in (a, b)] for x in (a, b)]
        within = [(count * mean - 1) / (count - 1) for mean in (own, other)]  # pairs of different samples
        return weights**2 * within[0] + (1 - weights) ** 2 * within[1] + 2 * weights * (1 - weights) * between

    truth, one, other = loss(4_000), loss(20), loss(20)
    for half, judge, label in ((one, other, "weights by half A, judged by B"), (other, one, None)):
        place = int(half.argmin())
        axes.plot(weights[place], half[place], "o", mfc="none", color=GREY, label=label and "the same, judged by A")
        axes.plot(weights[place], judge[place], "o", color=GREEN, label=label)
    axes.plot(weights, one, color=GREY, lw=1, label="loss by half A, by half B")
    axes.plot(weights, other, color=GREY, lw=1)
    axes.plot(weights, truth, color="0.2", ls=":", label="true loss")
    axes.set_xlabel("weight of the first of two generators")
    axes.set_ylabel("mean kernel (1/RKE)")


def _routing(axes: Axes) -> None:
    context = np.linspace(-2, 2, 201)
    scores = np.stack([0.75 - 0.05 * context, 0.6 + 0.15 * context], 1)
    errors = np.stack([0.02 + 0.02 * context**2, 0.03 + 0.02 * context**2], 1)
    chances = np.array([best_chances(s + 0.2 * e, 0.1 * e) for s, e in zip(scores, errors, strict=True)])
    for place, (name, colour) in enumerate((("small", BLUE), ("large", GREEN))):
        axes.plot(context, scores[:, place], color=colour, label=f"predicted score of {name}, ± its error")
        low, high = scores[:, place] - errors[:, place], scores[:, place] + errors[:, place]
        axes.fill_between(context, low, high, color=colour, alpha=0.12)
    axes.plot(context, chances[:, 1] * 0.98 + 0.01, color="0.2", ls=":", label="chance of picking large")
    axes.set_ylim(0, 1.35)
    axes.set_xlabel("one direction of the context")


def _calibration(axes: Axes) -> None:
    page = (ROOT / "docs" / "calibration.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) % \|((?: [\d.]+ % \|){6}) [\d,]+", page, re.M)
    for (delta, shares), colour in zip(rows[:3], (GREY, BLUE, GREEN), strict=True):
        wrong = [float(share) / 2 for share in re.findall(r"[\d.]+", shares)]
        axes.plot(10.0 ** np.arange(2, 8), wrong, "o-", ms=4, color=colour, label=f"δ = {delta} %")
        axes.axhline(float(delta), color=colour, lw=1, ls=":")
    axes.set_xscale("log")
    axes.set_ylim(0, 26)
    axes.set_xlabel("samples of each of two equal generators (dotted: the promise)")
    axes.set_ylabel("runs that name\na certain one of them, %")


PICTURES: dict[str, Callable[[Axes], None]] = {
    "estimates": _estimates,
    "differences": _differences,
    "stopping": _stopping,
    "mixtures": _mixtures,
    "routing": _routing,
    "calibration": _calibration,
}

if __name__ == "__main__":
    main()
