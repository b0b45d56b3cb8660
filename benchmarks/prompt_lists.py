"""Are the intervals of scores on a fixed list of prompts (`prompts_are`) as wide as the real errors?

    python benchmarks/prompt_lists.py [--repeats 100]

Samples are their prompt's point, N(0, I) in 8 dimensions, plus 0.35 of the same noise, which leaves about a tenth of
the variance of the influence values within prompts. Each repeat goes through the list in passes of its own. The table
has the root mean square of z = (value − truth)/stopping_error, for order 2 through 64 random features: `list` with the
list's estimate, `sample` with that of a sample, both on the same streams, and the mean z in brackets. The truth is the
mean score of 10 streams of 40 passes. Cells outside 0.6 – 1.2 have a star.

The last two columns are of the difference between this generator and one with 0.5 of noise, on the same prompts, with
the list's estimates: as if they were independent, and by their contrast.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table

from optimist.estimation.streaming import StreamingEstimator
from optimist.experiments.slices import prompt_order
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.feature_maps import GaussianFourier
from optimist.metrics.pairs.declared import ConditionalVendi
from optimist.metrics.threads import limit_threads
from optimist.metrics.vendi.score import RenyiKernelEntropy
from optimist.numerics.estimate import Estimate
from optimist.policies.contrasts import Contrasts

DIMENSION, FEATURES, SIGMA = 8, 64, 3.0
NOISE, OTHER = 0.35, 0.5
STREAMS, PASSES = 10, 40
"""Those of the truth, which is the mean of their scores."""
CASES = {20: (40, 100, 500, 1000), 164: (100, 328, 500, 1148)}
"""By the length of the list: the samples after which the score is compared with the truth."""
Score = RenyiKernelEntropy | ConditionalVendi


def map_of(seed: int) -> GaussianFourier:
    """A feature map of its own."""
    normals = np.random.default_rng(seed).standard_normal((DIMENSION, FEATURES))
    return GaussianFourier(torch.from_numpy(normals / SIGMA))


METRICS: dict[str, Callable[[int | None], Score]] = {
    "rke": lambda length: RenyiKernelEntropy(map_of(1), prompts=length),
    "conditional, order 2": lambda length: ConditionalVendi(map_of(1), map_of(2), 2.0, prompts=length),
}


def stream(length: int, n: int, seed: int, noise: float = NOISE) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Samples (n, d), their prompts (n, d), and the places of these in the list (n)."""
    places = prompt_order(length, seed, 0, n, passes=True)
    prompts = np.random.default_rng(length).standard_normal((length, DIMENSION))[places]
    normals = np.random.default_rng((seed, round(100 * noise))).standard_normal(prompts.shape)
    return torch.from_numpy(prompts + noise * normals), torch.from_numpy(prompts), torch.tensor(places)


def analysed(metric: Score, length: int, n: int, seed: int) -> tuple[float, float]:
    """The value and its error, from n samples."""
    samples, prompts, places = stream(length, n, seed)
    statistic = metric.statistic()
    arrays = (samples, prompts) if isinstance(metric, ConditionalVendi) else (samples,)
    statistic.update(*arrays, listed=places)
    found = metric.analyse(statistic)
    return found.estimate, found.stopping_error


def compared(metric: Score, length: int, n: int, seed: int) -> tuple[float, float, float]:
    """How much lower the other generator scores, and the error as if both were independent and by the contrast."""
    found: list[Estimate] = []
    for noise in (NOISE, OTHER):
        samples, prompts, places = stream(length, n, seed, noise)
        estimator = StreamingEstimator(InfluenceBound(metric), 0.0, paired=True)
        estimator.add({"features": samples, "prompts": prompts}, [""] * n, places, (0, n))
        found.append(estimator.estimate())
    contrasts = Contrasts(found)
    return (
        contrasts.against(0).differences[1],
        math.hypot(*contrasts.stopping_errors),
        contrasts.errors(0, "stopping")[1],
    )


def cell(z: list[float]) -> str:
    """The root mean square, with a star outside of 0.6 – 1.2, and the mean."""
    rms = float(np.sqrt(np.mean(np.square(z))))
    return f"{rms:.2f}{'' if 0.6 <= rms <= 1.2 else '*'} ({np.mean(z):+.1f})"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100, help="number of streams of each row")
    repeats = parser.parse_args().repeats
    limit_threads(1)
    table = Table(title=f"rms z (mean z), {repeats} streams", box=box.MARKDOWN)
    for column in ("metric", "prompts", "n", "sample", "list", "difference, independent", "contrast"):
        table.add_column(column)
    for name, make in METRICS.items():
        for length, counts in CASES.items():
            seeds = range(10**6, 10**6 + STREAMS)
            truth = np.mean([analysed(make(length), length, PASSES * length, seed)[0] for seed in seeds])
            difference = np.mean([compared(make(length), length, PASSES * length, seed)[0] for seed in seeds])
            for n in counts:
                z: dict[int | None, list[float]] = {None: [], length: []}
                for seed in range(repeats):
                    for listed, found in z.items():
                        value, error = analysed(make(listed), length, n, seed)
                        found.append((value - truth) / error)
                alone: list[float] = []
                paired: list[float] = []
                for seed in range(repeats):
                    value, independent, contrast = compared(make(length), length, n, seed)
                    alone.append((value - difference) / independent)
                    paired.append((value - difference) / contrast)
                table.add_row(name, f"{length}", f"{n:,}", *map(cell, (z[None], z[length], alone, paired)))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
