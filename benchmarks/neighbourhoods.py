"""Precision, density, coverage and KEN: are the intervals as wide as the real errors?

    python benchmarks/neighbourhoods.py [--data DIR] [--repeats 60] [--only NAME …]
    python benchmarks/neighbourhoods.py --pairs [--repeats 60]

Generators are pools of samples, drawn with replacement, so that the truth is exact; the reference is made of real rows
(the benchmark problems of discrepancies.py). The first command prints the root-mean-square z = (value −
truth)/`stopping_error` over all generators of a benchmark problem, the mean z, and how often the 95 % interval has the
truth; for KEN also the bias as a part of the truth, of the plug-in and of the estimate. MNIST, CIFAR and text need
`--data`.

`--pairs` measures the differences of four truncations of one VAE with the same seeds, as independent and as paired.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor

from discrepancies import problems, truncations
from optimist.estimation.streaming import StreamingEstimator
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.neighbours.statistic import Balls
from optimist.metrics.threads import limit_threads
from optimist.numerics.estimate import Estimate
from optimist.numerics.real_data import RealData
from optimist.policies.contrasts import contrasts_of
from optimist_client.metrics import KEN, Coverage, Density, Gaussian, Metric, Precision

COUNTS = (20, 50, 100, 200, 500, 1000)
KERNEL = Gaussian("median", features=64)
METRICS: dict[str, Metric] = {
    "precision": Precision(),
    "density": Density(),
    "coverage at 50": Coverage(at=50),
    "coverage at 500": Coverage(at=500),
    "ken": KEN(kernel=KERNEL),
    "ken, η = 2": KEN(kernel=KERNEL, eta=2.0),
}

Rows = NDArray[np.float64]


class Drawn(Balls):
    """The balls of a pool whose samples are named by their place (n, 1): each distance is computed once."""

    def __init__(self, balls: Balls, pool: Rows) -> None:
        vars(self).update(vars(balls))
        self._table = torch.cat(list(balls.inside(torch.from_numpy(pool))))

    @property
    def dimension(self) -> int:
        """1."""
        return 1

    def inside(self, rows: Tensor) -> Iterator[Tensor]:
        """Which balls the samples at these places (b, 1) are inside (b, m), bool."""
        yield self._table[rows[:, 0].long()]


def scored(declared: Metric, prepared: Any, pool: Rows) -> tuple[Any, Rows]:
    """The score of a metric, and what it takes as the pool's samples."""
    is_near = isinstance(prepared, Balls)
    known = Drawn(prepared, pool) if is_near else prepared
    score = make_metric(declared.model_copy(update={"reference": known}), Setting(widths={}))
    return score, np.arange(len(pool), dtype=np.float64)[:, None] if is_near else pool


def truth(score: Any, pool: Rows) -> float:
    """The score of samples drawn from a pool with replacement."""
    statistic = score.statistic()
    for part in torch.from_numpy(pool).split(500):
        statistic.update(part)
    if hasattr(score, "at"):
        return 1.0 - float((1.0 - statistic.counts / len(pool)).pow(score.at).mean())
    return score.plug_in(statistic)


def prepared_for(real: Rows) -> dict[str, Any]:
    """What the metrics make of real rows; those of one family share their balls."""
    data, balls = RealData.of_rows("real", real), None
    made: dict[str, Any] = {}
    for label, declared in METRICS.items():
        if "ken" in label:
            made[label] = make_reference(declared, data)
        else:
            balls = made[label] = balls or make_reference(declared, data)
    return made


def calibration(data: Path | None, repeats: int, only: list[str]) -> Iterator[Table]:
    """A table for each benchmark problem, and one of KEN's bias."""
    for name, problem in problems(data):
        if only and name not in only:
            continue
        table = Table(title=f"{name}: rms z (mean z; coverage in %), {repeats} repeats", box=box.MARKDOWN)
        for column in ("samples", "metric", *(f"n = {n}" for n in COUNTS)):
            table.add_column(column, no_wrap=True)
        biases: dict[str, list[str]] = {}
        prepared = prepared_for(problem.real)
        for label, declared in METRICS.items():
            z: dict[int, list[float]] = {n: [] for n in COUNTS}
            bias: dict[int, list[tuple[float, float]]] = {n: [] for n in COUNTS}
            for place, pool in enumerate(problem.pools.values()):
                score, rows = scored(declared, prepared[label], pool)
                true = truth(score, rows)
                for repeat in range(repeats):
                    for n, found in _estimates(score, rows, (repeat, place)):
                        assert found.stopping_error is not None
                        z[n].append((found.value - true) / found.stopping_error)
                        bias[n].append((found.plug_in / true - 1.0, found.value / true - 1.0) if true else (0.0, 0.0))
            table.add_row(name, label, *(_cell(np.array(each)) for each in z.values()))
            if "ken" in label:
                medians = [np.median(np.array(each), axis=0) for each in bias.values()]
                biases[label] = [f"{plug_in:+.0%} → {value:+.0%}" for plug_in, value in medians]
        yield table
        of_bias = Table(title=f"{name}: median bias of the plug-in → of the estimate, of the truth", box=box.MARKDOWN)
        for column in ("samples", "metric", *(f"n = {n}" for n in COUNTS)):
            of_bias.add_column(column, no_wrap=True)
        for label, cells in biases.items():
            of_bias.add_row(name, label, *cells)
        yield of_bias


def _estimates(score: Any, rows: Rows, seed: tuple[int, int]) -> Iterator[tuple[int, Estimate]]:
    drawn = np.random.default_rng(seed).integers(len(rows), size=max(COUNTS))
    bound, done = InfluenceBound(score), 0
    statistic = bound.statistic()
    for n in COUNTS:
        statistic.update(torch.from_numpy(rows[drawn[done:n]]))
        done = n
        yield n, bound.estimate(statistic)


def _cell(z: Rows) -> str:
    covered = 100 * float((np.abs(z) < 1.96).mean())
    return f"{math.sqrt(np.square(z).mean()):.2f} ({z.mean():+.1f}; {covered:.0f})"


def pairs(repeats: int) -> Table:
    """The table of differences between truncations of one VAE, whose row i has the same latent vector."""
    real, pools = truncations()
    prepared = prepared_for(real)
    table = Table(title="differences of four truncations", box=box.MARKDOWN)
    columns = ("correlation", "mean ρ", "paired/independent variance", "rms z: independent → paired")
    for column in ("metric", "n", *columns):
        table.add_column(column, no_wrap=True)
    for label, declared in METRICS.items():
        made = {name: scored(declared, prepared[label], pool) for name, pool in pools.items()}
        true = {name: truth(*each) for name, each in made.items()}
        for n in (50, 200, 500):
            table.add_row(label, f"{n}", *_differences(made, true, n, repeats))
    return table


def _differences(
    made: Mapping[str, tuple[Any, Rows]], true: Mapping[str, float], n: int, repeats: int
) -> tuple[str, ...]:
    names = list(made)
    values, rho, shares, z = [], [], [], []
    for repeat in range(repeats):
        found: list[Estimate] = []
        for score, rows in made.values():
            drawn = torch.from_numpy(rows[np.random.default_rng(repeat).integers(len(rows), size=n)])
            estimator = StreamingEstimator(InfluenceBound(score), 0.04, paired=True)
            array = next(iter(score.widths))
            estimator.add({array: drawn}, [""] * n, indices=(0, n))
            found.append(estimator.estimate())
        values.append([each.value for each in found])
        contrasts = contrasts_of(found)
        for one, other in combinations(range(len(found)), 2):
            against, error = contrasts.against(one), contrasts.errors(one, "stopping")[other]
            alone = math.hypot(*(contrasts.stopping_errors[place] for place in (one, other)))
            sign = -1.0  # higher is better: a difference is by how much the other one is lower
            miss = against.differences[other] - sign * (true[names[other]] - true[names[one]])
            rho.append(against.correlations[other])
            shares.append((error / alone) ** 2)
            z.append((miss / alone, miss / error))
    correlations = np.corrcoef(np.array(values).T)[np.triu_indices(len(names), 1)]
    independent, paired = np.sqrt(np.square(z).mean(0))
    shown = (correlations.mean(), np.mean(rho), np.mean(shares))
    return *(f"{each:.2f}" for each in shown), f"{independent:.2f} → {paired:.2f}"


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--pairs", action="store_true")
    given = parser.parse_args()
    limit_threads(1)
    console = Console(width=200)
    if given.pairs:
        console.print(pairs(given.repeats))
        return
    for table in calibration(given.data, given.repeats, given.only):
        console.print(table)


if __name__ == "__main__":
    main()
