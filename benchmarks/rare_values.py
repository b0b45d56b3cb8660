"""How often are means decided wrongly whose rare values have not come, and what does it cost to allow for them?

    python benchmarks/rare_values.py [--runs 60] [--most 1000] [--only timeout]

`Evaluation` plays `top-two` with batches of 5 on independent values (ρ = 0), and paired on values of a normal copula,
until it stops or each generator has `--most` samples on average. No range is declared. A *tie* is wrong by half of its
stops: at most 2 δ = 10 % of them should stop. Otherwise it is wrong where another generator than the best is named, in
at most δ = 5 %. In brackets are one-sided 95 % lower limits. The least error by values that have not come was chosen
with the beds named *chosen*; by the others nothing was chosen.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.stats import norm

from optimist import Evaluation
from optimist_client.metrics import Mean

BATCH = 5
Array = NDArray[np.float64]
Law = Callable[[Array], Array]
"""The quantiles of probabilities."""


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
            made += [Bed(f"{kind}: {name}, tie of 5", (law,) * 5, lower, tie=True)] if kind == "chosen" else []
    steady: Law = lambda u: 1.0 + 2.0 * u  # noqa: E731
    made += [
        Bed("shown: 3 % late, a steady one is better", (steady, late(0.03)), lower=True),
        Bed("shown: 3 % late of 4, a steady one is better", (steady, *(late(0.03),) * 4), lower=True),
    ]
    costs = {
        "normal, 0.3 σ": (normal(0.3), normal(0.0)),
        "normal, 1 σ": (normal(1.0), normal(0.0)),
        "normal, 1 σ, of 5": (normal(1.0), *(normal(0.0),) * 4),
        "normal, 0.5, σ 1 better than 0.2": (normal(0.5), normal(0.0, 0.2)),
        "normal, 0.5, σ 0.2 better than 1": (normal(0.5, 0.2), normal(0.0)),
        "two points, 0.9 and 0.75": (points(0.9), points(0.75)),
        "two points, 0.97 and 0.85": (points(0.97), points(0.85)),
        "exponential, 1.5 and 1": (lambda u: -1.5 * np.log1p(-u), lambda u: -np.log1p(-u)),
        "lognormal 1, times 1.5": (lognormal(1.0, 1.5), lognormal(1.0)),
    }
    made += [Bed(f"cost: {name}", laws) for name, laws in costs.items()]
    seconds = {f"{seconds:g} s": normal(seconds, 0.3) for seconds in (1.0, 1.15, 1.5)}
    made += [Bed(f"cost: normal seconds, 1 and {name}", (seconds["1 s"], law), True) for name, law in seconds.items()][
        1:
    ]
    return made


def main() -> None:
    """Play all beds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60, help="number of runs per bed")
    parser.add_argument("--most", type=int, default=1_000, help="samples of each generator, on average, of a run")
    parser.add_argument("--only", default="", help="a part of the names of the beds to play")
    asked = parser.parse_args()
    table = Table(title=f"{asked.runs} runs per bed", box=box.MARKDOWN)
    for column in ("bed", "ρ", "stopped", "wrong", "median samples"):
        table.add_column(column, no_wrap=True)
    for bed in beds():
        if asked.only in bed.name:
            for rho in (0.0, 0.9):
                table.add_row(bed.name, f"{rho:g}", *played(bed, rho, asked.runs, asked.most))
    Console(width=160).print(table)


def played(bed: Bed, rho: float, runs: int, most: int) -> tuple[str, str, str]:
    """The shares of runs that stop and that are wrong, and the median of their samples."""
    names = [f"g{place}" for place in range(len(bed.laws))]
    found = [play(bed, names, rho, seed, most) for seed in range(runs)]
    stopped = sum(best is not None for best, _ in found)
    wrong = sum(best not in (None, names[0]) for best, _ in found)
    middle = median([samples if best is not None else math.inf for best, samples in found])
    return said(stopped, runs), "–" if bed.tie else said(wrong, runs), f"{middle:,.0f}" if middle < math.inf else "–"


def play(bed: Bed, names: Sequence[str], rho: float, seed: int, most: int) -> tuple[str | None, int]:
    """The generator that is named, None without a decision, and the samples that were told."""
    rng = np.random.default_rng((seed, round(10 * rho)))
    length = most * len(names)
    common, own = rng.standard_normal(length), rng.standard_normal((len(names), length))
    shares = norm.cdf(math.sqrt(rho) * common + math.sqrt(1.0 - rho) * own)
    values = dict(zip(names, (law(row) for law, row in zip(bed.laws, shares, strict=True)), strict=True))
    metric = Mean(higher_is_better=not bed.lower)
    evaluation = Evaluation(names, metric=metric, paired=rho > 0.0, batch_size=BATCH, seed=seed)
    samples = dict.fromkeys(names, 0)
    while sum(samples.values()) < length:
        name = evaluation.ask()
        start = samples[name]
        evaluation.tell(name, values[name][start : start + BATCH, None])
        samples[name] += BATCH
        decision = evaluation.decision(explain=False)
        if decision.decided:
            return decision.best, sum(samples.values())
    return None, length


def said(count: int, of: int) -> str:
    """A share in per cent with its one-sided 95 % lower limit (Wilson)."""
    share, z = count / of, 1.645
    spread = z * math.sqrt(share * (1.0 - share) / of + z * z / (4.0 * of * of))
    low = (share + z * z / (2.0 * of) - spread) / (1.0 + z * z / of)
    return f"{100.0 * share:.1f} % (≥ {max(100.0 * low, 0.0):.1f})"


if __name__ == "__main__":
    main()
