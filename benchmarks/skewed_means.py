"""How often are two means of skewed values wrongly told apart, and what does it cost? (results: calibration, Means)

    python benchmarks/skewed_means.py [--runs 2000] [--only equal different paired paired-different price] [--shown]

Two generators of equal mean, δ = 0.05, batches of 5, an estimate whenever samples have grown by 4 %, a look after every
estimate, until the rule stops or 300 samples of each. A run is wrong if it names the one that a column says; of equal
laws, both are the same, and half of the runs that stop count. Rules: "before" has the plain errors, "now" what rare
values add (`policies.rare_values`). Generators are sampled by the rule of top-two, "paired" ones in lockstep: their
values are correlated by a normal copula. `--shown` takes the laws that nothing was chosen by.

"price" is the mean of the samples that a clear difference takes, divided by that before.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.metrics.mean import FEW
from optimist.numerics.skewness import against, against_widening
from optimist.policies import Stopping
from optimist.policies.correlation import CAP
from optimist.policies.rare_values import Moments, sampled
from optimist.policies.stopping import FEWEST_SAMPLES

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]
BATCH, GROWTH, MOST = 5, 0.04, 300
PARTS = ("equal", "different", "paired", "paired-different", "price")
PAIRED_BY = (0.3, 0.6, 0.9)
"""Correlations of the normal variables of pairs."""


def two_point(p: float) -> Draw:
    """1 with this probability, else 0."""
    return lambda rng, n: (rng.random(n) < p).astype(float)


def normal(deviation: float) -> Draw:
    """A normal law."""
    return lambda rng, n: deviation * rng.standard_normal(n)


def near_zero(share: float) -> Draw:
    """Mostly from 0 to 0.02, seldom from 0 to 1."""
    return lambda rng, n: rng.random(n) * np.where(rng.random(n) < share, 0.02, 1.0)


def reward(skew: float) -> Draw:
    """Rewards of this negative skewness, as losses."""
    return lambda rng, n: rng.gamma(4.0 / skew**2, 1.0, n)


def outliers(share: float) -> Draw:
    """Mostly N(0, 0.3²), else N(3, 1)."""

    def draw(rng: np.random.Generator, n: int) -> Array:
        return np.where(rng.random(n) < share, 3.0 + rng.standard_normal(n), 0.3 * rng.standard_normal(n))

    return draw


CHOSEN: dict[str, Draw] = {
    "normal": normal(1.0),
    "lognormal, σ 1": lambda rng, n: rng.lognormal(0.0, 1.0, n),
    "Beta(0.1, 1.9)": lambda rng, n: rng.beta(0.1, 1.9, n),
    "Beta(8, 4)": lambda rng, n: rng.beta(8.0, 4.0, n),
    "two points, 0.95": two_point(0.95),
    "two points, 0.97": two_point(0.97),
    "two points, 0.98": two_point(0.98),
    "near 0 in 97 %": near_zero(0.97),
    "reward-like, skew −2.6": reward(2.6),
    "exponential": reward(2.0),
}
SHOWN: dict[str, Draw] = {
    "lognormal, σ 0.6": lambda rng, n: rng.lognormal(0.0, 0.6, n),
    "lognormal, σ 1.3": lambda rng, n: rng.lognormal(0.0, 1.3, n),
    "Beta(0.5, 5)": lambda rng, n: rng.beta(0.5, 5.0, n),
    "Beta(0.05, 0.95)": lambda rng, n: rng.beta(0.05, 0.95, n),
    "two points, 0.9": two_point(0.9),
    "two points, 0.93": two_point(0.93),
    "two points, 0.99": two_point(0.99),
    "near 0 in 90 %": near_zero(0.9),
    "near 0 in 98 %": near_zero(0.98),
    "reward-like, skew −4": reward(4.0),
    "outliers in 5 %": outliers(0.05),
}
CHOSEN_PAIRS: dict[str, tuple[Draw, Draw]] = {
    "lognormal σ 1, normal σ 2.2": (CHOSEN["lognormal, σ 1"], normal(2.16)),
    "lognormal σ 1, normal σ 0.5": (CHOSEN["lognormal, σ 1"], normal(0.5)),
    "reward-like −2.6, normal σ 0.8": (CHOSEN["reward-like, skew −2.6"], normal(0.77)),
    "reward-like −2.6, normal σ 0.2": (CHOSEN["reward-like, skew −2.6"], normal(0.2)),
    "exponential, its mirror image": (CHOSEN["exponential"], lambda rng, n: -rng.exponential(1.0, n)),
    "two points 0.95, normal σ 0.2": (two_point(0.95), normal(0.2)),
    "two points 0.98, normal σ 0.02": (two_point(0.98), normal(0.02)),
    "normal σ 1, normal σ 0.2": (normal(1.0), normal(0.2)),
}
SHOWN_PAIRS: dict[str, tuple[Draw, Draw]] = {
    "lognormal σ 0.6, normal σ 0.5": (SHOWN["lognormal, σ 0.6"], normal(0.5)),
    "Beta(0.5, 5), normal σ 0.1": (SHOWN["Beta(0.5, 5)"], normal(0.1)),
    "reward-like −4, normal σ 0.3": (SHOWN["reward-like, skew −4"], normal(0.3)),
    "outliers in 5 %, normal σ 0.8": (SHOWN["outliers in 5 %"], normal(0.8)),
    "exponential, lognormal σ 0.6": (CHOSEN["exponential"], SHOWN["lognormal, σ 0.6"]),
    "two points 0.9, normal σ 0.3": (two_point(0.9), normal(0.3)),
}
PRICES: dict[str, tuple[Draw, Draw, float]] = {
    "normal": (normal(1.0), normal(1.0), 0.3),
    "normal, σ 1 better than 0.2": (normal(1.0), normal(0.2), 0.3),
    "normal, σ 0.2 better than 1": (normal(0.2), normal(1.0), 0.3),
    "Beta(8, 4)": (CHOSEN["Beta(8, 4)"], CHOSEN["Beta(8, 4)"], 0.05),
    "exponential": (reward(2.0), reward(2.0), 0.4),
    "lognormal, σ 1": (CHOSEN["lognormal, σ 1"], CHOSEN["lognormal, σ 1"], 0.8),
    "reward-like, skew −2.6": (reward(2.6), reward(2.6), 0.3),
    "two points, 0.75 and 0.9": (two_point(0.75), two_point(0.9), 0.15),
    "two points, 0.85 and 0.97": (two_point(0.85), two_point(0.97), 0.12),
}


@dataclass
class Outcome:
    """Shares of the runs that name the first and the second generator, and the mean samples of both until they stop."""

    first: float
    second: float
    samples: float


@cache
def quantiles(law: Draw) -> Array:
    """The values of a law in order, of mean 0."""
    values = np.sort(law(np.random.default_rng(99), 400_000))
    return values - values.mean()


def values_of(laws: Sequence[Draw], gap: float, runs: int, most: int, by: float | None) -> Array:
    """Values (runs, 2, most) of these laws, of mean 0 and `gap`; by: the correlation of pairs, None: independent."""
    rng = np.random.default_rng(0)
    common = math.sqrt(by or 0.0) * rng.standard_normal((runs, 1, most))
    u = NormalDist().cdf
    z = common + math.sqrt(1.0 - (by or 0.0)) * rng.standard_normal((runs, 2, most))
    grid = np.linspace(-6.0, 6.0, 100_001)
    places = np.interp(z, grid, [u(each) for each in grid])
    found = [table[(places[:, i] * (len(table) - 1)).astype(int)] for i, table in enumerate(map(quantiles, laws))]
    found[1] = found[1] + gap
    return np.stack(found, 1)


def central(sums: Sequence[Array], n: Array) -> tuple[Array, Array, Array]:
    """Mean, variance by 1/(n − 1) and skewness of n values from their sums of powers 1 to 3."""
    first, second, third = (each / n for each in sums)
    variance = np.maximum(second - first**2, 0.0)
    variance[variance < 1e-12 * second] = 0.0
    cubes = third - 3.0 * first * second + 2.0 * first**3
    scale = np.power(np.where(variance > 0.0, variance, 1.0), 1.5)
    return first, variance * n / np.maximum(n - 1.0, 1.0), np.where(variance > 0.0, cubes / scale, 0.0)


def differences(means: Array, variances: Array, skewness: Array, n: Array, now: bool) -> tuple[Array, Array]:
    """By how much the second of two independent means (runs, 2) is larger, and the variances of both (runs, 2)."""
    gap, variances = means[:, 1] - means[:, 0], variances / n * (1.0 + FEW / n)
    if now:
        parts = [Moments(n[:, place], variances[:, place], skewness[:, place]) for place in (0, 1)]
        found = sampled(*parts)
        variances = np.stack([found.own, found.each], 1) * found.factors(gap)[:, None]
    return gap, variances


def thresholds(told: int) -> float:
    """How many errors a difference must have after these batches."""
    return Stopping(0.05).threshold(2, told)


def play(laws: tuple[Draw, Draw], gap: float, runs: int, now: bool, most: int = MOST) -> Outcome:
    """Play top-two with two independent generators."""
    values, rng = values_of(laws, gap, runs, most, None), np.random.default_rng(1)
    sums = [np.concatenate([np.zeros((runs, 2, 1)), values**power], 2).cumsum(2) for power in (1, 2, 3)]
    told, scored = np.zeros((runs, 2), int), np.zeros((runs, 2), int)
    numbers = np.zeros((3, runs, 2))
    named, used, left = np.full(runs, -1), np.full(runs, 2 * most), np.arange(runs)
    for turn in range(1, 2 * most // BATCH + 1):
        arm = np.full(len(left), (turn - 1) % 2)
        if turn > 4:
            n = scored[left].astype(float)
            gaps, variances = differences(*numbers[:, left], n, False)
            is_unblocked = np.abs(gaps) > thresholds(turn - 1) * np.sqrt(variances.sum(1)) + 1e-12
            if now:
                parts = differences(*numbers[:, left], n, True)[1]
                variances = np.where(is_unblocked[:, None], parts, variances)
            arm = (rng.random(len(left)) * variances.sum(1) >= variances[:, 0]).astype(int)
            rarest = told[left].argmin(1)
            arm = np.where(is_unblocked & (told[left].min(1) < FEWEST_SAMPLES), rarest, arm)
            arm = np.where(told[left, arm] + BATCH > most, 1 - arm, arm)
        told[left, arm] += BATCH
        is_due = told[left, arm] >= (1.0 + GROWTH) * scored[left, arm]
        scored[left, arm] = np.where(is_due, told[left, arm], scored[left, arm])
        n = scored[left, arm]
        numbers[:, left, arm] = central([each[left, arm, n] for each in sums], n.astype(float))
        if turn < 2:
            continue
        gaps, variances = differences(*numbers[:, left], scored[left].astype(float), now)
        stops = np.abs(gaps) > thresholds(turn) * np.sqrt(variances.sum(1)) + 1e-12
        stops &= (scored[left].min(1) >= FEWEST_SAMPLES) & is_due
        named[left[stops]] = (gaps[stops] < 0.0).astype(int)
        used[left[stops]] = turn * BATCH
        left = left[~stops]
    return Outcome(float((named == 0).mean()), float((named == 1).mean()), float(used.mean()))


def play_paired(
    laws: tuple[Draw, Draw], by: float, runs: int, now: bool, most: int = MOST, gap: float = 0.0
) -> Outcome:
    """Play two generators in lockstep, compared as `policies.paired` compares estimates of equal counts."""
    values = values_of(laws, gap, runs, most, by)
    is_discrete = len(np.unique(values[:50])) < 5
    named, used = np.full(runs, -1), np.full(runs, 2 * most)
    counts = [BATCH]
    while counts[-1] < most:
        counts.append(BATCH * math.ceil(counts[-1] * (1.0 + GROWTH) / BATCH))
    for n in counts:
        left = np.flatnonzero(named < 0)
        if n < FEWEST_SAMPLES or n > most or not len(left):
            continue
        rows = values[left, :, :n]
        means, deviations = rows.mean(2), rows - rows.mean(2, keepdims=True)
        squares = np.square(deviations).sum(2)
        squares[squares < 1e-20] = 0.0
        scale = np.sqrt(squares.prod(1))
        r = np.where(scale > 0.0, deviations.prod(1).sum(1) / np.where(scale > 0.0, scale, 1.0), 0.0).clip(-CAP, CAP)
        z = np.arctanh(r)
        rho = np.copysign(np.tanh(np.maximum(np.abs(z) - 1.0 / math.sqrt(n - 3.0), 0.0)), z)
        total = squares / (n - 1.0) / n * (1.0 + FEW / n)
        steps = np.minimum(1.0 / (math.sqrt(2.0) * n), np.sqrt(total)) ** 2 if is_discrete else np.zeros_like(total)
        drawn, gaps = total - steps, means[:, 1] - means[:, 0]
        factors = np.ones(len(left))
        if now:
            root = np.power(np.where(squares > 0.0, squares / n, 1.0), 1.5)
            skewness = np.where(squares > 0.0, np.power(deviations, 3).mean(2) / root, 0.0)
            count = np.full(len(left), float(n))
            found = sampled(*(Moments(count, drawn[:, place], skewness[:, place]) for place in (0, 1)))
            drawn = np.stack([found.own, found.each], 1)
            apart = deviations[:, 1] - deviations[:, 0]
            spread = np.square(apart).mean(1)
            third = np.where(
                spread > 0.0, np.power(apart, 3).mean(1) / np.power(np.where(spread > 0.0, spread, 1.0), 1.5), 0.0
            )
            factors = np.maximum(against_widening(rho * against(third, gaps), float(n)), found.factors(gaps))
        variances = (drawn.sum(1) - 2.0 * rho * np.sqrt(drawn.prod(1))) * factors + steps.sum(1)
        stops = np.abs(gaps) > thresholds(2 * n // BATCH) * np.sqrt(variances) + 1e-12
        named[left[stops]] = (gaps[stops] < 0.0).astype(int)
        used[left[stops]] = 2 * n
    return Outcome(float((named == 0).mean()), float((named == 1).mean()), float(used.mean()))


def lower_limit(share: float, runs: int) -> float:
    """The one-sided 95 % lower limit of a share (Wilson)."""
    z = 1.645
    centre = share + z * z / (2 * runs)
    return (centre - z * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))) / (1 + z * z / runs)


def equal(found: Outcome, runs: int) -> str:
    """How often one of two equal generators is named; a star: the lower limit is above 5 %."""
    share = (found.first + found.second) / 2.0
    return f"{share:.1%}{'*' if lower_limit(share, 2 * runs) > 0.05 else ''}"


def different(found: Outcome, runs: int) -> str:
    """How often each of two generators is named; stars as in `equal`."""
    return " / ".join(
        f"{each:.1%}{'*' if lower_limit(each, runs) > 0.05 else ''}" for each in (found.first, found.second)
    )


def rows(head: Sequence[str], cases: Mapping[str, Any], cell: Callable[[Any, bool], str]) -> None:
    """Print a table of all cases, before and now."""
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for name, case in cases.items():
        print(f"| {name} | {cell(case, False)} | {cell(case, True)} |", flush=True)


def main() -> None:
    """Print the tables that the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--shown", action="store_true")
    options = parser.parse_args()
    runs, laws, pairs = options.runs, *((SHOWN, SHOWN_PAIRS) if options.shown else (CHOSEN, CHOSEN_PAIRS))
    if "equal" in options.only:
        rows(("equal laws", "before", "now"), laws, lambda law, now: equal(play((law, law), 0.0, runs, now), runs))
    if "different" in options.only:
        head = ("laws of equal mean: the first is named / the second", "before", "now")
        rows(head, pairs, lambda both, now: different(play(both, 0.0, runs, now), runs))
    for by in PAIRED_BY:
        head = (f"paired by {by}", "before", "now")
        if "paired" in options.only:
            rows(head, laws, lambda law, now, by=by: equal(play_paired((law, law), by, runs, now), runs))
        if "paired-different" in options.only:
            rows(head, pairs, lambda both, now, by=by: different(play_paired(both, by, runs, now), runs))
    if "price" in options.only:
        print(
            "| clear differences | samples before | now, times | paired by 0.6: before | now, times |\n| --- |"
            + " --- |" * 4
        )
        for name, (one, other, gap) in PRICES.items():
            before, after = (play((one, other), gap, runs, now, 800).samples for now in (False, True))
            was, became = (play_paired((one, other), 0.6, runs, now, 800, gap).samples for now in (False, True))
            print(f"| {name} | {before:.0f} | {after / before:.2f} | {was:.0f} | {became / was:.2f} |", flush=True)


if __name__ == "__main__":
    main()
