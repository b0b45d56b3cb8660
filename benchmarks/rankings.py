"""Do ranks hold for all generators together, at a fixed n and at every look, and how narrow are they?

    python benchmarks/rankings.py [--runs 500] [--generators 3 5 10] [--rho 0 0.9] [--only equal]

Generators are sampled equally often, to 10,000 samples of all together, independently (ρ = 0) and, as pairs, with
values of a normal copula. They are ranked whenever their samples have grown by 15 %, as in a report, and at 500 of each
as files are at which nobody looked before. The table has the share of the runs with any wrong rank at any look; with a
wrong answer of `top`, of half of the generators, at any look; with any two generators ordered at any look; and the mean
width of the intervals at 500 of each. After a share comes its one-sided 95 % upper limit (Clopper and Pearson). Nearly
equal generators differ by 1e-9, so that one order of each two is wrong: the share with any two ordered is that of wrong
ranks if they are equal.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta, norm

from optimist.estimates.estimate import Estimate, is_due
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.mean import MeanScore
from optimist.policies import Arm
from optimist.policies.ranks import ranking_of
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist_client.metrics import Mean
from optimist_client.models import Ranking
from rare_values import BATCH, estimate

DELTA, GROWTH = 0.05, 0.15
HORIZON, FIXED = 10_000, 500
"""Samples of all generators together at most, and of each at the fixed look."""
NEXT_TO_NOTHING = 1e-9
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bed:
    """Generators of values of these mean losses (G,), best first."""

    losses: Callable[[int], NDArray[np.floating[Any]]]
    metric: Mean = field(default_factory=Mean)
    values: Callable[[Array, float], Array] = lambda normal, loss: normal - loss
    """The values of standard normal numbers, with a mean loss."""
    are_equal: bool = False


def passes(normal: Array, loss: float) -> Array:
    """Passes in three quarters of the rows, and fewer by the loss."""
    return (norm.cdf(normal) < 0.75 - loss).astype(float)


def seconds(normal: Array, loss: float) -> Array:
    """Lognormal times."""
    return np.exp(normal) * (1.0 + loss)


BEDS = {
    "nearly equal": Bed(lambda size: np.arange(size) * NEXT_TO_NOTHING),
    "0.02 σ apart": Bed(lambda size: np.arange(size) * 0.02),
    "0.15 σ apart": Bed(lambda size: np.arange(size) * 0.15),
    "nearly equal twos, 0.3 σ apart": Bed(
        lambda size: (np.arange(size) // 2) * 0.3 + np.arange(size) * NEXT_TO_NOTHING
    ),
    "pass or fail, equal": Bed(np.zeros, Mean(range=(0, 1)), passes, are_equal=True),
    "pass or fail, 0.04 apart": Bed(lambda size: np.arange(size) * 0.04, Mean(range=(0, 1)), passes),
    "lognormal seconds, equal": Bed(np.zeros, Mean(higher_is_better=False), seconds, are_equal=True),
}


class Run(NamedTuple):
    """What was wrong in a run."""

    fixed: bool
    ranks: bool
    top: bool
    ordered: bool
    widths: tuple[float, float]
    """At the fixed look, as there and as at every look."""


def main() -> None:
    """Play all beds, and print a row of a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="number of runs per row")
    parser.add_argument("--generators", type=int, nargs="+", default=[3, 5, 10], help="numbers of generators")
    parser.add_argument("--rho", type=float, nargs="+", default=[0.0, 0.9], help="correlations of generators")
    parser.add_argument("--only", default="", help="a part of the names of the beds to play")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| generators | ρ | bed | wrong, fixed n | wrong, any look | wrong top | any order, any look "
        "| width, fixed n | width, every look |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in asked.generators:
        for rho in asked.rho:
            for name, bed in BEDS.items():
                if asked.only in name:
                    runs = [play(bed, size, rho, seed) for seed in range(asked.runs)]
                    shares = (
                        said([getattr(run, what) for run in runs]) for what in ("fixed", "ranks", "top", "ordered")
                    )
                    widths = (f"{each:.2f}" for each in np.mean([run.widths for run in runs], axis=0))
                    print(f"| {size} | {rho:g} | {name} |", " | ".join([*shares, *widths]), "|", flush=True)


def play(bed: Bed, size: int, rho: float, seed: int) -> Run:
    """One run."""
    most, losses = HORIZON // size, bed.losses(size)
    rng = np.random.default_rng((seed, size, round(10 * rho)))
    normal = math.sqrt(rho) * rng.standard_normal(most) + math.sqrt(1.0 - rho) * rng.standard_normal((size, most))
    rows = [torch.from_numpy(bed.values(each, loss))[:, None] for each, loss in zip(normal, losses, strict=True)]
    bound = InfluenceBound(MeanScore(bed.metric))
    statistics, told, half = [bound.statistic() for _ in rows], 0, size // 2
    fixed, wrong, top, ordered, widths = False, False, False, False, (math.nan, math.nan)
    for count in range(FEWEST_SAMPLES, most + 1, BATCH):
        if not is_due(count, told, GROWTH) and count != FIXED:
            continue
        for statistic, each in zip(statistics, rows, strict=True):
            statistic.update(each[told:count])
        told = count
        made = [estimate(bound, *known, paired=rho > 0.0) for known in zip(statistics, rows, strict=True)]
        ranking = ranked(bed, made, size * count // BATCH)
        wrong, top = wrong or is_wrong(bed, ranking), top or is_wrong_top(bed, ranking, half)
        ordered = ordered or width(ranking) < size
        if count == FIXED:
            once = ranked(bed, made, 1)
            fixed, widths = is_wrong(bed, once), (width(once), width(ranking))
    return Run(fixed, wrong, top, ordered, widths)


def ranked(bed: Bed, estimates: Sequence[Estimate], told: int) -> Ranking:
    """The ranks after so many batches."""
    arms = [Arm(f"{place}", each, each.samples) for place, each in enumerate(estimates)]
    return ranking_of(arms, DELTA, told, bed.metric.limits.get("values"))


def is_wrong(bed: Bed, ranking: Ranking) -> bool:
    """Whether any rank is not in its interval; of equal generators each has all ranks."""
    if bed.are_equal:
        return width(ranking) < len(ranking.ranks)
    return any(not each.first <= int(each.generator) + 1 <= each.last for each in ranking.ranks)


def is_wrong_top(bed: Bed, ranking: Ranking, k: int) -> bool:
    """Whether others than the k best generators are said to be these."""
    named = ranking.top(k)
    return named is not None and (bed.are_equal or sorted(map(int, named)) != list(range(k)))


def width(ranking: Ranking) -> float:
    """The mean number of ranks that a generator may have."""
    return sum(each.last - each.first + 1 for each in ranking.ranks) / len(ranking.ranks)


def said(wrong: Sequence[bool]) -> str:
    """A share in per cent with its one-sided 95 % upper limit."""
    count, of = sum(wrong), len(wrong)
    limit = 1.0 if count == of else float(beta.ppf(0.95, count + 1, of - count))
    return f"{100.0 * count / of:.1f} % (≤ {100.0 * limit:.1f})"


if __name__ == "__main__":
    main()
