"""Draws what common seeds save: samples until the decision, with and without them.

    python benchmarks/pairs_picture.py [--runs 20] [--output docs/pairs.png]

Four truncation levels of the demo's variational autoencoder are compared in `Evaluation`, with batches of 5 and the
default settings, until the decision. With pairs, sample i has the same latent vector at every level; without, every
level has latent vectors of its own, and `paired=False`. A run that has `LONGEST` samples of a level is undecided.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optimist import Evaluation
from optimist.metrics.threads import limit_threads
from optimist.simulation.digits.generators import TruncatedVAE
from optimist.simulation.digits.world import KERNEL, Digits, load
from optimist_client.metrics import find

LEVELS = (0.9, 1.0, 1.1, 1.2)
METRICS = ("fid", "is", "rke")
BATCH = 5
LONGEST = 8_000
"""Samples of one level after which a run counts as undecided."""
COLOURS = {False: "#888888", True: "#1a7f37"}


def main() -> None:
    """Run, print the medians, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind")
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs" / "pairs.png")
    parser.add_argument("--jobs", type=int, default=-1, help="number of processes; -1: one for each processor")
    options = parser.parse_args()
    load()
    kinds: list[tuple[str, bool]] = list(product(METRICS, (False, True)))
    tasks = [(*kind, run) for run in range(options.runs) for kind in kinds]
    spent = list(Parallel(options.jobs)(delayed(samples_to_decide)(*task) for task in tasks))
    found = {kind: [count for (*of, _), count in zip(tasks, spent, strict=True) if tuple(of) == kind] for kind in kinds}
    for (metric, paired), counts in found.items():
        undecided = sum(count is None for count in counts)
        middle = median(np.inf if count is None else count for count in counts)
        print(f"{metric}, {'paired' if paired else 'not paired'}: median {middle:,.0f}, undecided {undecided}")
    draw(found, options.output)


def samples_to_decide(metric: str, paired: bool, run: int) -> int | None:
    """Samples of all levels together until the decision; None if it is not made."""
    limit_threads(1)
    digits = load(progress=False)
    rows = {
        f"{level}": _rows(digits, metric, level, run if paired else [run, place]) for place, level in enumerate(LEVELS)
    }
    of_metric: dict[str, dict[str, Any]] = {"fid": {"reference": digits.reference()[:2]}, "rke": {"kernel": KERNEL}}
    settings = of_metric.get(metric, {})
    evaluation = Evaluation(list(rows), metric=metric, policy="top-two", paired=paired, seed=run, **settings)
    told = dict.fromkeys(rows, 0)
    while not evaluation.decision(explain=False).decided:
        name = evaluation.ask()
        if told[name] >= LONGEST:
            return None
        evaluation.tell(name, rows[name][told[name] : told[name] + BATCH])
        told[name] += BATCH
    return sum(told.values())


def _rows(digits: Digits, metric: str, level: float, seed: int | Sequence[int]) -> np.ndarray:
    """What is told of `LONGEST` samples of a level; equal seeds are equal latent vectors."""
    vae = digits.generators["vae-1.0"]
    assert isinstance(vae, TruncatedVAE)
    number = int(np.random.SeedSequence(seed).generate_state(1)[0])
    images = replace(vae, truncation=level).sample(LONGEST, number)
    return digits.probabilities(images) if metric == "is" else digits.features(images)


def draw(found: Mapping[tuple[str, bool], Sequence[int | None]], output: Path) -> None:
    """A row of dots for each metric without and with pairs, and their medians."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots()
    for place, ((_, paired), counts) in enumerate(found.items()):
        _dots(axes, place + 0.4 * (place // 2), counts, COLOURS[paired])
    labels = [f"{find(metric).title}, {'paired' if paired else 'not paired'}" for metric, paired in found]
    axes.set_yticks([place + 0.4 * (place // 2) for place in range(len(found))], labels)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    axes.set_xlabel("samples of all four levels until the decision (◦: undecided)")
    axes.grid(axis="x", which="both", alpha=0.25)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(output, dpi=110)


def _dots(axes: Axes, place: float, counts: Sequence[int | None], colour: str) -> None:
    decided = [count for count in counts if count is not None]
    lift = np.random.default_rng(0).uniform(-0.22, 0.22, len(counts))
    axes.plot(decided, place + lift[: len(decided)], "o", color=colour, ms=4, alpha=0.6, mew=0)
    ends = [len(LEVELS) * LONGEST] * (len(counts) - len(decided))
    axes.plot(ends, place + lift[len(decided) :], "o", color=colour, ms=4, mfc="none")
    middle = median(np.inf if count is None else count for count in counts)
    if np.isfinite(middle):
        axes.plot([middle, middle], [place - 0.36, place + 0.36], color=colour, lw=2)
        axes.annotate(
            f"{middle:,.0f}", (middle, place - 0.36), (0, 2), textcoords="offset points", ha="center", fontsize=8
        )


if __name__ == "__main__":
    main()
