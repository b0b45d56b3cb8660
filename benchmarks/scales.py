"""Which batches are named because they are on another scale: false alarms, and power.

    python benchmarks/scales.py [--repeats 40]

False alarms: runs of lawful batches, which are checked after every few batches; a run counts if any batch was named at
any time. Power: one batch of one of three generators is multiplied by a factor, the first or the last one, or several
of few are; a run counts if these are named, and none besides. All without a reference, which would only help.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration import problem_named
from optimist.numerics.anomalies import Anomaly, Level, Levels, anomalies, keep, level_of

LOOKS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40)
ROWS = (1, 5, 20)
GENERATORS = (2, 5)
FACTORS = (4.0, 16.0, 255.0, 1 / 16)
BATCHES = (2, 3, 5, 10, 20)
SEVERAL = ((2, 4), (2, 5), (3, 6), (3, 5))
"""Wrong batches among all of a generator."""
LONG = 2000
"""Batches of each generator of a long run, of which not all levels are kept."""
POWERED = ("digits", "Gaussian, kernel", "lognormal, σ = 0.8", "Student, ν = 3")
"""The problems whose power is measured."""
POOL = 2000
Norms = Callable[[np.random.Generator, int], list[NDArray[np.float64]]]
"""The norms of a pool of rows for each of so many generators."""


def of_problem(name: str, array: str) -> Norms:
    """Generators of a benchmark problem of calibration.py."""
    problem = problem_named(name)
    pools = [
        np.linalg.norm(problem.sample(generator, POOL, seed)[array], axis=1)
        for seed, generator in enumerate(problem.generators)
    ]

    def norms(rng: np.random.Generator, count: int) -> list[NDArray[np.float64]]:
        return [pools[place % len(pools)] for place in rng.permutation(max(count, len(pools)))[:count]]

    return norms


def of_law(spread: Callable[[np.random.Generator], NDArray[np.float64]], width: int = 64) -> Norms:
    """Gaussian rows of so many columns, each times a number of this law."""

    def norms(rng: np.random.Generator, count: int) -> list[NDArray[np.float64]]:
        return [np.sqrt(rng.chisquare(width, POOL)) * spread(rng) for _ in range(count)]

    return norms


def problems() -> dict[str, Norms]:
    """All benchmark problems by name."""
    found = {
        "digits": of_problem("digits", "features"),
        "Gaussian, kernel": of_problem("Gaussian", "features"),
        "prompted digits": of_problem("prompted digits", "features"),
        "Gaussian pairs": of_problem("Gaussian pairs", "features"),
        "Gaussian, 8 columns": of_law(lambda rng: np.ones(POOL), 8),
    }
    for sigma in (0.4, 0.8, 1.2):
        found[f"lognormal, σ = {sigma}"] = of_law(lambda rng, sigma=sigma: np.exp(sigma * rng.standard_normal(POOL)))
    for degrees in (2, 3, 5):
        found[f"Student, ν = {degrees}"] = of_law(
            lambda rng, degrees=degrees: np.sqrt(degrees / rng.chisquare(degrees, POOL))
        )
    for share in (0.05, 0.3):
        found[f"{share:.0%} of rows × 5"] = of_law(
            lambda rng, share=share: np.where(rng.random(POOL) < share, 5.0, 1.0)
        )
    return found


def streams(rng: np.random.Generator, norms: Norms, generators: int, batches: int, rows: int) -> list[list[float]]:
    """The levels of batches of each generator."""
    found = []
    for pool in norms(rng, generators):
        drawn = rng.choice(pool, (batches, rows))
        found.append([level for batch in drawn if (level := level_of(batch.tolist())) is not None])
    return found


def named(levels: list[list[float]], rows: int) -> list[Anomaly]:
    """The batches that are named among these."""
    known = []
    for stream in levels:
        kept: list[Level] = []
        for position, level in enumerate(stream, start=1):
            keep(kept, Level(position, rows, level))
        known.append(Levels(kept, len(stream)))
    return anomalies(known)


def false_alarms(norms: Norms, repeats: int, rows: int, generators: int) -> int:
    """In how many runs a batch is named."""
    alarms = 0
    for seed in range(repeats):
        levels = streams(np.random.default_rng((seed, rows, generators)), norms, generators, LOOKS[-1], rows)
        alarms += any(named([one[:look] for one in levels], rows) for look in LOOKS)
    return alarms


def long_alarms(norms: Norms, repeats: int) -> int:
    """The same in long runs of two generators, at their end."""
    runs = (streams(np.random.default_rng((seed, 7)), norms, 2, LONG, 5) for seed in range(repeats))
    return sum(bool(named(levels, 5)) for levels in runs)


def power(norms: Norms, repeats: int, rows: int, factor: float, batches: int, wrong: Sequence[int]) -> float:
    """The share of runs in which exactly the batches of one generator that are on another scale are named."""
    hits = 0
    for seed in range(repeats):
        levels = streams(np.random.default_rng((seed, rows)), norms, 3, batches, rows)
        for place in wrong:
            levels[1][place] += math.log(factor)
        found = sorted((one.generator, one.position - 1) for one in named(levels, rows))
        hits += found == [(1, place) for place in wrong]
    return hits / repeats


def least_power(norms: Norms, repeats: int, rows: int, factor: float, batches: int) -> float:
    """The power where the wrong batch came first, or last, whichever is less."""
    return min(power(norms, repeats, rows, factor, batches, [wrong]) for wrong in (0, batches - 1))


def main() -> None:
    """Print both tables in Markdown."""
    parser = argparse.ArgumentParser(description="False alarms and power of the check of scales.")
    parser.add_argument("--repeats", type=int, default=40)
    repeats: int = parser.parse_args().repeats
    known = problems()
    heads = [f"{generators} × {rows}" for rows in ROWS for generators in GENERATORS]
    print(f"| generators × rows a batch | {' | '.join(heads)} | 2 × 5, long |")
    print("| --- " * (2 + len(ROWS) * len(GENERATORS)) + "|")
    for name, norms in known.items():
        counts = [false_alarms(norms, repeats, n, g) for n in ROWS for g in GENERATORS]
        cells = [*counts, long_alarms(norms, max(1, repeats // 10))]
        print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)
    print(f"\n| rows | rows a batch | {' | '.join(f'× {factor:g}' for factor in FACTORS)} |")
    print("| --- " * (2 + len(FACTORS)) + "|")
    for name in POWERED:
        for rows in ROWS:
            cells = [
                " ".join(f"{100 * least_power(known[name], repeats, rows, factor, count):.0f}" for count in BATCHES)
                for factor in FACTORS
            ]
            print(f"| {name} | {rows} | {' | '.join(cells)} |", flush=True)
    print(f"\n| rows | rows a batch | {' | '.join(f'{wrong} of {count}' for wrong, count in SEVERAL)} |")
    print("| --- " * (2 + len(SEVERAL)) + "|")
    for name in POWERED:
        for rows in ROWS:
            cells = [
                " ".join(
                    f"{100 * power(known[name], repeats, rows, factor, count, range(wrong)):.0f}"
                    for factor in (16.0, 255.0)
                )
                for wrong, count in SEVERAL
            ]
            print(f"| {name} | {rows} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
