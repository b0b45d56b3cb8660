"""How far differences of estimates are from the truth, in the standard errors that their contrasts have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from problems import Problem
from races import unpaired
from streams import Table

from optimist.estimates.estimate import Estimate
from optimist.policies.contrasts import Contrasts

COUNTS = (20, 50, 100, 200, 300, 500, 1_000)
UNEQUAL = (50, 200)
BAND = (0.6, 1.15)
SINGLE_HEADS = [f"n = {n}" for n in COUNTS]
HEADS = ["correlation", "variance", "as independent", *(f"n = {n}" for n in COUNTS), "50, 200"]
Streams = Sequence[Mapping[str, Table]]
Judge = Callable[[Estimate, Estimate], tuple[float, float]]
"""The difference of the losses of two estimates, the second less the first, and its standard error."""


def judged(one: Estimate, other: Estimate) -> tuple[float, float]:
    """As the stopping rule sees them."""
    contrasts = Contrasts([one, other])
    return contrasts.against(0).differences[1], contrasts.errors(0, "stopping")[1]


def judged_alone(one: Estimate, other: Estimate) -> tuple[float, float]:
    """As if the two were independent."""
    return judged(unpaired("", one), unpaired("", other))


def z(streams: Streams, truths: Mapping[str, float], counts: tuple[int, int], judge: Judge) -> NDArray[np.float64]:
    """(difference − truth)/error of all pairs of generators, the first with counts[0] samples: (pairs, streams)."""
    found: list[list[float]] = []
    for one, other in combinations(truths, 2):
        row: list[float] = []
        for tables in streams:
            a, b = _at(tables[one], counts[0]), _at(tables[other], counts[1])
            difference, error = judge(a, b)
            truth = truths[other] - truths[one]
            row.append((difference - (truth if a.lower_is_better else -truth)) / error)
        found.append(row)
    return np.array(found)


def cell(misses: NDArray[np.float64]) -> str:
    """The root mean square of all, that of the worst pair in brackets, and a star outside of `BAND`."""
    rms = float(np.sqrt(np.square(misses).mean()))
    star = "" if BAND[0] <= rms <= BAND[1] else "\\*"
    return f"{rms:.2f}{star} ({np.sqrt(np.square(misses).mean(axis=1)).max():.2f})"


def correlations(streams: Streams, samples: int) -> tuple[float, float]:
    """The mean correlation of the influences of two generators, and of two neighbours."""
    names = list(streams[0])
    all_pairs: list[float] = []
    neighbours: list[float] = []
    for tables in streams:
        contrasts = Contrasts([_at(tables[name], samples) for name in names])
        for one, other in combinations(range(len(names)), 2):
            rho = contrasts.against(one).rho[other]
            all_pairs.append(rho)
            if other == one + 1:
                neighbours.append(rho)
    return float(np.mean(all_pairs)), float(np.mean(neighbours))


def variance_ratio(streams: Streams, samples: int) -> float:
    """The variance of a difference along common streams, divided by that of independent ones; mean of all pairs."""
    values = {name: np.array([_at(tables[name], samples).value for tables in streams]) for name in streams[0]}
    ratios = [(a - b).var(ddof=1) / (a.var(ddof=1) + b.var(ddof=1)) for a, b in combinations(values.values(), 2)]
    return float(np.mean(ratios))


def errors(problem: Problem, streams: Streams, truths: Mapping[str, float]) -> list[str]:
    """Correlation, ratio of variances, and the root mean squares: independent, at equal counts, at unequal ones."""
    counts = [count for count in COUNTS if count <= problem.horizon]
    mean, neighbours = correlations(streams, max(count for count in counts if count <= 200))
    alone = [float(np.sqrt(np.square(z(streams, truths, (n, n), judged_alone)).mean())) for n in counts]
    cells = [cell(z(streams, truths, (n, n), judged)) for n in counts] + [""] * (len(COUNTS) - len(counts))
    few, many = UNEQUAL
    unequal = [z(streams, truths, pair, judged) for pair in ((few, many), (many, few))]
    return [
        f"{mean:.2f} [{neighbours:.2f}]",
        f"{variance_ratio(streams, 100):.3f}",
        f"{min(alone):.2f} – {max(alone):.2f}",
        *cells,
        cell(np.concatenate(unequal)),
    ]


def singles(problem: Problem, streams: Streams, truths: Mapping[str, float]) -> list[str]:
    """The root mean squares of (value − truth)/error of single scores, and how many are beyond three errors."""
    cells: list[str] = []
    for n in COUNTS:
        if n > problem.horizon:
            break
        found = np.array([[_miss(_at(tables[name], n), truths[name]) for tables in streams] for name in truths])
        cells.append(f"{cell(found)}, {100.0 * np.mean(np.abs(found) > 3.0):.0f} %")
    return cells + [""] * (len(COUNTS) - len(cells))


def _miss(estimate: Estimate, truth: float) -> float:
    assert estimate.stopping_error is not None
    return (estimate.value - truth) / estimate.stopping_error


def _at(table: Table, samples: int) -> Estimate:
    estimate = table.at(samples)
    assert estimate is not None
    return estimate
