"""Are gains of mixtures right by FID where a half of the samples stands at the rank of the reference?

    python benchmarks/pairs/ranks.py [--problems NAME ...] [--streams 30] [--counts 80 100 …]

Mixtures of all generators of a problem from n samples of each, of common streams and of independent ones; of patches
the reference has the rank 63, so that a half of 126 samples stands at it. z = (gain − true gain of the weights
named)/`gain_error`, the true gain over the generator that is best in truth. A row: root mean square z, the share beyond
three errors, the largest, the least and the greatest gain, the true one, and how often a gain is said whose 95 %
interval is above the true one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from problems import PROBLEMS, Problem, problem_named
from streams import places_of

from optimist.estimates.mixture import Mixture
from optimist.estimates.pairing import COMMON
from optimist.metrics.mixtures.cross_fitted import cross_fitted
from optimist.metrics.threads import limit_threads

COUNTS = (60, 80, 100, 110, 120, 124, 126, 128, 130, 140, 160, 200)


def mixture_of(problem: Problem, rows: Mapping[str, torch.Tensor], is_paired: bool) -> Mixture:
    """The mixture of these rows (n, d) of each generator."""
    metric = problem.bound().metric
    statistics = []
    for own in rows.values():
        statistic = metric.statistic()
        statistic.update(own)
        statistics.append(statistic)
    common = [{"features": own[:COMMON]} for own in rows.values()] if is_paired else ()
    return cross_fitted(metric, statistics, [*rows], common)


def true_loss(problem: Problem, weights: Sequence[float]) -> float:
    """FID of the mixture of the pools with these weights."""
    pools = [problem.pools[name]["features"].astype(np.float64) for name in problem.generators]
    metric = problem.bound().metric
    means = np.array([pool.mean(0) for pool in pools])
    mean = np.array(weights) @ means
    covariance = sum(
        weight * (np.cov(pool, rowvar=False, bias=True) + np.outer(own - mean, own - mean))
        for weight, pool, own in zip(weights, pools, means, strict=True)
    )
    return _distance(metric.reference, mean, np.asarray(covariance))


def _distance(reference: object, mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> float:
    real_mean, real = reference.mean.numpy(), reference.covariance.numpy()  # pyright: ignore[reportAttributeAccessIssue]
    values, vectors = np.linalg.eigh(real)
    root = (vectors * np.sqrt(values.clip(0.0))) @ vectors.T
    cross = np.sqrt(np.linalg.eigvalsh(root @ covariance @ root).clip(0.0)).sum()
    return float(np.square(mean - real_mean).sum() + np.trace(covariance) + np.trace(real) - 2.0 * cross)


def main() -> None:
    """Measure and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["patches: fid", "patches, smooth: fid"])
    parser.add_argument("--streams", type=int, default=30)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    options = parser.parse_args()
    limit_threads(1)
    for name in (name for name in PROBLEMS if name in options.problems):
        problem = problem_named(name, "")
        least = min(true_loss(problem, vertex.tolist()) for vertex in np.eye(len(problem.generators)))
        for is_paired in (True, False):
            for n in options.counts:
                found: list[tuple[float, float, float]] = []
                for number in range(options.streams):
                    rows: dict[str, torch.Tensor] = {}
                    for place, each in enumerate(problem.generators):
                        stream = number if is_paired else 1_000 * (1 + place) + number
                        rows[each] = problem.rows(each, places_of(problem, stream)[:n])["features"]
                    made = mixture_of(problem, rows, is_paired)
                    found.append((made.gain, made.gain_error, least - true_loss(problem, made.weights)))
                gain, error, true = np.array(found).T
                z = np.divide(gain - true, error, out=np.zeros_like(gain), where=error > 0.0)
                said = float(np.mean((gain - 1.96 * error > true) & (gain > 1.96 * error)))
                print(
                    f"| {name} | {'common' if is_paired else 'independent'} | {n} | {np.sqrt(np.square(z).mean()):.2f} "
                    f"| {np.mean(np.abs(z) > 3.0):.0%} | {np.abs(z).max():.1f} | {gain.min():.2f} – {gain.max():.2f} "
                    f"| {true.mean():.2f} | {said:.0%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
