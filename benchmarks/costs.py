"""What does weighing costs save, where generators are independent?

    python benchmarks/costs.py [--runs 200] [--ratios 1 3 10 100]

Scores are means of normal samples, scored as `Evaluation` scores them: when the samples of a generator have grown by
4 %, with the standard error of the samples themselves. `top-two` plays the same streams with costs weighed and not
weighed until it stops; δ = 0.05. One generator costs `ratio` times as much as each of the others: the best one, or its
closest rival. The table has the ratios weighed/not weighed of the median cost [and of the median samples], and the
geometric mean of the ratio of each run's cost ± its standard error. What theory expects of two generators with equal
deviations is (√ratio + 1)²/(2 (ratio + 1)).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from optimist.numerics.estimate import Estimate, is_due
from optimist.policies import Arm, Policy, Stopping

BATCH, GROWTH, LONGEST = 5, 0.04, 40_000
PROBLEMS: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "2: gap 0.3": ((0.0, 0.3), (1.0, 1.0)),
    "2: gap 0.3, deviations 1 and 2": ((0.0, 0.3), (1.0, 2.0)),
    "4: gaps 0.3, 0.5, 0.8": ((0.0, 0.3, 0.5, 0.8), (1.0, 1.0, 1.0, 1.0)),
    "8: gaps 0.3 to 1.5": ((0.0, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5), (1.0,) * 8),
}
"""By name: the means, of which the lowest is best, and the standard deviations."""


def main() -> None:
    """Run the simulation and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="number of runs per cell")
    parser.add_argument("--ratios", type=float, nargs="+", default=[1.0, 3.0, 10.0, 100.0], help="ratios of the costs")
    options = parser.parse_args()
    heads = [f"{ratio:g} : 1 (theory {(math.sqrt(ratio) + 1) ** 2 / (2 * ratio + 2):.2f})" for ratio in options.ratios]
    table = Table("generators", "expensive", *heads, title=f"{options.runs} runs per cell", box=box.MARKDOWN)
    for name, (means, deviations) in PROBLEMS.items():
        for expensive, place in (("best", 0), ("rival", 1)):
            plain: list[list[int]] = []
            cells: list[str] = []
            for ratio in track(options.ratios, f"{name}, {expensive}", console=Console(stderr=True)):
                costs = [ratio if arm == place else 1.0 for arm in range(len(means))]
                plain = plain or [play(means, deviations, None, seed) for seed in range(options.runs)]
                weighed = [play(means, deviations, costs, seed) for seed in range(options.runs)]
                cells.append(compared(np.array(weighed), np.array(plain), np.array(costs)))
            table.add_row(name, expensive, *cells)
    Console(width=200).print(table)


def compared(weighed: np.ndarray, plain: np.ndarray, costs: np.ndarray) -> str:
    """A cell of the table, from the samples of each generator in each run (runs, G)."""
    spent, before = weighed @ costs, plain @ costs
    samples = np.median(weighed.sum(axis=1)) / np.median(plain.sum(axis=1))
    logs = np.log(spent / before)
    mean, error = math.exp(logs.mean()), logs.std(ddof=1) / math.sqrt(len(logs))
    return f"{np.median(spent) / np.median(before):.2f} [{samples:.2f}], {mean:.2f} ± {mean * error:.2f}"


def play(means: Sequence[float], deviations: Sequence[float], costs: Sequence[float] | None, seed: int) -> list[int]:
    """Samples of each generator when `top-two` stops."""
    streams = [
        np.random.default_rng((seed, place)).normal(mean, deviation, LONGEST)
        for place, (mean, deviation) in enumerate(zip(means, deviations, strict=True))
    ]
    sums = [(np.cumsum(stream), np.cumsum(np.square(stream))) for stream in streams]
    policy = Policy("top-two", 2, Stopping(0.05), seed)
    arms = [Arm(f"{place}", cost=None if costs is None else costs[place]) for place in range(len(means))]
    due = [0] * len(arms)
    for told in range(1, LONGEST):
        place = policy.pick(arms, told - 1, told)
        n = arms[place].samples + BATCH
        arms[place] = replace(arms[place], samples=n, batches=arms[place].batches + 1)
        if is_due(n, due[place], GROWTH):
            due[place] = n
            total, squares = (float(of[n - 1]) for of in sums[place])
            error = math.sqrt((squares - total**2 / n) / (n - 1) / n)
            arms[place] = replace(arms[place], estimate=estimate(total / n, error, n))
            if policy.stopping.decide(arms, told).decided:
                break
    return [arm.samples for arm in arms]


def estimate(value: float, error: float, samples: int) -> Estimate:
    """The estimate of a mean of which lower values are better."""
    return Estimate(value, value, samples, value - 2 * error, value + 2 * error, value, error, error, "linear", True)


if __name__ == "__main__":
    main()
