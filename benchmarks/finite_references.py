"""Differences of Fréchet distances by references of few real rows, each drawn anew, with common seeds.

    python benchmarks/finite_references.py [--repeats 60]    # root-mean-square z by three kinds of reference
    python benchmarks/finite_references.py --seconds         # time of an estimate at d = 2048

The truth is the difference against the whole population, from which both the real rows and the samples are drawn with
replacement, so that it is exact.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer  # pyright: ignore[reportMissingTypeStubs]

from discrepancies import POOL, Rows, estimate_of, truncations, without_reference
from optimist.metrics.implementations import Setting, make_metric, make_reference
from optimist.metrics.threads import limit_threads
from optimist.numerics.real_data import RealData
from optimist.policies.contrasts import contrasts_of
from optimist_client.metrics import FID

COUNTS = (80, 200, 300, 1000)


def digits() -> tuple[Rows, list[Rows]]:
    """All real digits, and two truncations of one VAE."""
    real, pools = truncations((1.1, 1.4))
    return real, list(pools.values())


def tumours() -> tuple[Rows, list[Rows]]:
    """The 30 columns of the breast cancer data, which have heavy tails; and the same rows with more and less noise."""
    columns = np.asarray(load_breast_cancer(return_X_y=True)[0], dtype=np.float64)
    real = (columns - columns.mean(0)) / columns.std(0)
    rng = np.random.default_rng(0)
    rows, noise = real[rng.integers(len(real), size=POOL)], rng.standard_normal((POOL, real.shape[1]))
    return real, [rows + scale * noise for scale in (0.3, 0.4)]


PROBLEMS: dict[str, tuple[Callable[[], tuple[Rows, list[Rows]]], tuple[int, ...]]] = {
    "digits": (digits, (500, 1800)),
    "tumours": (tumours, (200, 800)),
}
"""By name: how to make them, and the numbers of real rows."""


def score_of(data: RealData) -> Any:
    """The distance to real data."""
    prepared = make_reference(FID(), data)
    return make_metric(FID(reference=prepared), Setting({"features": data.dimension}))


def calibration(repeats: int) -> Table:
    """The table of root-mean-square z of the difference of two generators."""
    table = Table(title=f"rms z: {repeats} references, samples of common seeds", box=box.MARKDOWN)
    for column in ("problem", "real rows", "n", "share of the reference", "exact", "256 rows", "moments and m"):
        table.add_column(column, no_wrap=True)
    for name, (make, sizes) in PROBLEMS.items():
        real, pools = make()
        whole = score_of(RealData(real.mean(0), np.cov(real.T, bias=True)))
        true = _truth(whole, pools[1]) - _truth(whole, pools[0])
        for size in sizes:
            for n in COUNTS:
                found = [_draw(np.random.default_rng(repeat), real, pools, size, n, true) for repeat in range(repeats)]
                z = [f"{each:.2f}" for each in np.sqrt(np.square(found).mean(0))]
                share = 1.0 - np.mean([(finite / exact) ** 2 for exact, finite, _ in found])
                table.add_row(name, f"{size}", f"{n}", f"{share:.2f}", *z)
    return table


def _truth(score: Any, pool: Rows) -> float:
    statistic = score.statistic()
    statistic.update(torch.from_numpy(pool))
    return float(score.plug_in(statistic))


def _draw(
    rng: np.random.Generator, real: Rows, pools: list[Rows], size: int, n: int, true: float
) -> tuple[float, float, float]:
    """z with the reference taken as exact, by 256 of its rows, and by its moments and the number of its rows."""
    data = RealData.of_rows("real", real[rng.integers(len(real), size=size)])
    drawn = rng.integers(len(pools[0]), size=n)
    both = [[estimate_of(score_of(each), torch.from_numpy(pool[drawn])) for pool in pools] for each in _kinds(data)]
    exact = [without_reference(each) for each in both[0]]
    miss = both[0][1].value - both[0][0].value - true
    first, second, third = (miss / contrasts_of(each).errors(0, "stopping")[1] for each in (exact, *both))
    return first, second, third


def _kinds(data: RealData) -> tuple[RealData, RealData]:
    return data.without_rows(), RealData(data.mean, data.covariance, samples=data.samples)


def seconds(dimension: int = 2048) -> Table:
    """The table of processor times of an estimate with 256 common rows, without and with rows of the reference."""
    table = Table(title=f"seconds of an estimate, d = {dimension}, one thread", box=box.MARKDOWN)
    for column in ("n", "exact", "256 rows", "more"):
        table.add_column(column)
    rng = np.random.default_rng(0)
    scales = np.arange(1, dimension + 1) ** -0.5
    data = RealData.of_rows("real", rng.standard_normal((3 * dimension, dimension)) * scales)
    scores = [score_of(each) for each in (RealData(data.mean, data.covariance), data.without_rows())]
    for n in (500, 1500, 3000):
        rows = torch.from_numpy(rng.standard_normal((n, dimension)) * scales)
        exact, finite = (_seconds(score, rows) for score in scores)
        table.add_row(f"{n}", f"{exact:.2f}", f"{finite:.2f}", f"{finite / exact - 1:+.0%}")
    return table


def _seconds(score: Any, rows: torch.Tensor, times: int = 3) -> float:
    statistic = score.statistic()
    statistic.update(rows)
    common = {"features": rows[:256]}
    score.analyse_paired(statistic, common)
    found = []
    for _ in range(times):
        begun = time.process_time()
        score.analyse_paired(statistic, common)
        found.append(time.process_time() - begun)
    return min(found)


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--seconds", action="store_true")
    given = parser.parse_args()
    limit_threads(1)
    Console(width=200).print(seconds() if given.seconds else calibration(given.repeats))


if __name__ == "__main__":
    main()
