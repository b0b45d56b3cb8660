"""How often are means decided wrongly whose rare values have not come, and what does it cost to allow for them?

    python benchmarks/rare_values.py [--streams 60] [--most 300] [--only late]

Generators are sampled equally often and scored whenever their samples have grown by 4 %, with independent values
(ρ = 0) and, as pairs, with values of a normal copula. No range is declared. `Stopping` looks from 20 samples of each
on, once with the extremes of the values, and once without, by which it is as it was before it allowed for values that
have not come. Of a tie at most 2 δ = 10 % should stop. Otherwise a run is wrong that names another generator than the
best one, as at most δ = 5 % should. In brackets are one-sided 95 % lower limits; medians are samples of each generator.
The rule was chosen with the beds called *chosen*; with the others nothing was chosen.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from optimist.estimates.estimate import Estimate, is_due
from optimist.estimates.pairing import COMMON_NUMBERS
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.mean import MeanScore, MeanStatistic
from optimist.policies import Arm, Stopping
from optimist.policies.stopping import FEWEST_SAMPLES
from optimist_client.metrics import Mean

BATCH, GROWTH = 5, 0.04
Array = NDArray[np.float64]
Law = Callable[[Array], Array]
"""The quantiles of probabilities."""


class Stop(NamedTuple):
    """The generator that a run names, None without a decision, and the samples of each then."""

    best: str | None = None
    samples: int = 0


@dataclass(frozen=True)
class Bed:
    """Generators of these laws, the first of which is the best one; of a tie all are."""

    name: str
    laws: Sequence[Law]
    lower: bool = False
    """Whether lower values are better."""
    tie: bool = False


def late(share: float, quick: float = 1.0, slow: float = 60.0) -> Law:
    """Answers that take `quick` seconds, and of this share `slow` ones."""
    return lambda u: np.where(
        u < 1.0 - share, quick * (1.0 + 0.04 * norm.ppf(np.minimum(u / (1.0 - share), 1.0 - 1e-9))), slow
    )


def normal(mean: float, deviation: float = 1.0) -> Law:
    """Normal values."""
    return lambda u: mean + deviation * norm.ppf(u)


def lognormal(sigma: float, factor: float = 1.0) -> Law:
    """Lognormal values."""
    return lambda u: factor * np.exp(sigma * norm.ppf(u))


def seldom(share: float) -> Law:
    """Values of which this share is above 0, up to 10."""
    return lambda u: 10.0 * ((u - 1.0 + share) / share).clip(0.0) ** 0.7


def pareto(u: Array) -> Array:
    """Pareto's law of index 2.5."""
    return (1.0 - u) ** -0.4


def points(share: float) -> Law:
    """1 in this share, else 0."""
    return lambda u: (u < share).astype(float)


def moments(law: Law) -> tuple[float, float]:
    """The mean and the deviation of a law."""
    values = law((np.arange(1_000_000) + 0.5) / 1_000_000)
    return float(values.mean()), float(values.std())


def beds() -> list[Bed]:
    """All beds."""
    made: list[Bed] = []
    for kind, laws in {
        "chosen": {"0.5 % late": late(0.005), "lognormal 1": lognormal(1.0), "3 % above 0": seldom(0.03)},
        "shown": {"2 % late": late(0.02), "lognormal 1.5": lognormal(1.5), "Pareto 2.5": pareto},
    }.items():
        for name, law in laws.items():
            lower, (mean, deviation) = "above" not in name, moments(law)
            by = 0.02 * deviation * (-1.0 if lower else 1.0)
            better, worse = normal(mean + by, 0.05 * deviation), normal(mean - by, 0.05 * deviation)
            made += [
                Bed(f"{kind}: {name}, tie of 2", (law, law), lower, tie=True),
                Bed(f"{kind}: {name}, a steady one is worse by 0.02 σ", (law, worse), lower),
                Bed(f"{kind}: {name}, a steady one is better by 0.02 σ", (better, law), lower),
            ]
    steady: Law = lambda u: 1.0 + 2.0 * u  # noqa: E731
    made += [
        Bed("shown: 3 % late, a steady one is better", (steady, late(0.03)), lower=True),
    ]
    costs = {
        "normal, 1 σ": (normal(1.0), normal(0.0)),
        "two points, 0.97 and 0.85": (points(0.97), points(0.85)),
        "exponential, 1.5 and 1": (lambda u: -1.5 * np.log1p(-u), lambda u: -np.log1p(-u)),
        "lognormal 1, times 1.5": (lognormal(1.0, 1.5), lognormal(1.0)),
    }
    made += [Bed(f"cost: {name}", laws) for name, laws in costs.items()]
    near, far = ((normal(1.0, 0.3), normal(seconds, 0.3)) for seconds in (1.15, 1.5))
    return [*made, Bed("cost: seconds, 1 and 1.15", near, True), Bed("cost: seconds, 1 and 1.5", far, True)]


def main() -> None:
    """Play all beds, and print a row of a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=60, help="number of runs per bed")
    parser.add_argument("--most", type=int, default=300, help="samples of each generator")
    parser.add_argument("--only", default="", help="a part of the names of the beds to play")
    asked = parser.parse_args()
    print("| bed | ρ | stopped | wrong | median | stopped, before | wrong, before | median, before |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for bed in beds():
        if asked.only in bed.name:
            for rho in (0.0, 0.9):
                found = [play(bed, rho, seed, asked.most) for seed in range(asked.streams)]
                cells = [cell for rule in zip(*found, strict=True) for cell in summed(bed, rule)]
                print("|", bed.name, f"| {rho:g} |", " | ".join(cells), "|", flush=True)


def play(bed: Bed, rho: float, seed: int, most: int) -> tuple[Stop, Stop]:
    """Where a run stops that allows for values that have not come, and where one that does not."""
    rng = np.random.default_rng((seed, round(10 * rho)))
    common, own = rng.standard_normal(most), rng.standard_normal((len(bed.laws), most))
    shares = norm.cdf(math.sqrt(rho) * common + math.sqrt(1.0 - rho) * own)
    rows = [torch.from_numpy(law(each))[:, None] for law, each in zip(bed.laws, shares, strict=True)]
    bound = InfluenceBound(MeanScore(Mean(higher_is_better=not bed.lower)))
    statistics, told, stops = [bound.statistic() for _ in rows], 0, [Stop(), Stop()]
    for count in range(FEWEST_SAMPLES, most + 1, BATCH):
        if not is_due(count, told, GROWTH):
            continue
        for statistic, each in zip(statistics, rows, strict=True):
            statistic.update(each[told:count])
        told = count
        with_extremes = [estimate(bound, *known, paired=rho > 0.0) for known in zip(statistics, rows, strict=True)]
        for place, known in enumerate((with_extremes, [replace(each, farthest=None) for each in with_extremes])):
            if stops[place].best is None:
                arms = [Arm(f"g{number}", each, count) for number, each in enumerate(known)]
                decision = Stopping().decide(arms, len(rows) * count // BATCH)
                stops[place] = Stop(decision.best, count) if decision.decided else stops[place]
        if all(stop.best is not None for stop in stops):
            break
    return stops[0], stops[1]


def estimate(bound: InfluenceBound, statistic: MeanStatistic, rows: Tensor, *, paired: bool) -> Estimate:
    """The estimate of the samples of indices 0, 1, …, with what pairs need."""
    known = rows[: min(statistic.samples, COMMON_NUMBERS)]
    found = bound.estimate(statistic, {"values": known} if paired else None)
    if found.pairing is None:
        return found
    return replace(found, pairing=replace(found.pairing, told=(0, statistic.samples)))


def summed(bed: Bed, stops: Sequence[Stop]) -> tuple[str, str, str]:
    """The shares of runs that stop and that are wrong, and the median samples of each."""
    stopped = sum(stop.best is not None for stop in stops)
    wrong = sum(stop.best not in (None, "g0") for stop in stops)
    middle = median([stop.samples if stop.best is not None else math.inf for stop in stops])
    shares = said(stopped, len(stops)), "–" if bed.tie else said(wrong, len(stops))
    return *shares, f"{middle:,.0f}" if middle < math.inf else "–"


def said(count: int, of: int) -> str:
    """A share in per cent with its one-sided 95 % lower limit (Wilson)."""
    share, z = count / of, 1.645
    spread = z * math.sqrt(share * (1.0 - share) / of + z * z / (4.0 * of * of))
    low = (share + z * z / (2.0 * of) - spread) / (1.0 + z * z / of)
    return f"{100.0 * share:.1f} % (≥ {max(100.0 * low, 0.0):.1f})"


if __name__ == "__main__":
    main()
