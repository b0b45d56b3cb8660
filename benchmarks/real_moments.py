"""Are paired differences of FID right where a reference is rows, its moments, or moments without a number of rows?

    python benchmarks/real_moments.py [--runs 200] [--real 2000]

Two generators of normal rows with the same seeds; a run draws both and the real rows anew. "rms z" is the error of the
difference from the population's in standard errors, right at 1; "covers" the share of 95 % intervals that hold it.
"""

from __future__ import annotations

import argparse
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

import optimist
from raw import header, line

SIZES = ((16, 1000), (32, 2000))
"""Dimension, and samples of each generator."""
SHIFTS = {"a": (0.3, 0.2), "b": (0.4, 0.3)}
"""Of each generator: the shift of its mean, and how far its law is from a normal one of unit covariance."""
KNOWN = ("exact", "rows", "moments", "moments, no number")

Array = NDArray[np.float64]


def truth(shift: float, factor: Array) -> float:
    """FID of N(shift, A Aᵀ) from N(0, I)."""
    singular = np.linalg.svd(factor, compute_uv=False)
    return len(factor) * shift**2 + float(((singular - 1.0) ** 2).sum())


def reference(known: str, real: Array) -> object:
    """What is known of the real rows (m, d)."""
    mean, covariance = real.mean(0), np.cov(real.T)
    if known == "exact":
        return np.zeros(real.shape[1]), np.eye(real.shape[1])
    return {"rows": real, "moments": (mean, covariance, len(real))}.get(known, (mean, covariance))


def errors(known: str, dimension: int, samples: int, real: int, runs: int) -> Array:
    """The error of each run's difference (runs), in standard errors."""
    draw = np.random.default_rng(0)
    factors = {
        name: np.eye(dimension) + width * draw.standard_normal((dimension, dimension)) / np.sqrt(dimension)
        for name, (_, width) in SHIFTS.items()
    }
    apart = truth(SHIFTS["b"][0], factors["b"]) - truth(SHIFTS["a"][0], factors["a"])
    found = np.empty(runs)
    for run in range(runs):
        draw = np.random.default_rng(1000 + run)
        rows = draw.standard_normal((samples, dimension))
        sets = {name: rows @ factors[name].T + shift for name, (shift, _) in SHIFTS.items()}
        made = reference(known, draw.standard_normal((real, dimension)))
        one = optimist.contrast(sets, "fid", reference=made, paired=True).between[0]
        found[run] = (one.difference * (1 if one.generator == "b" else -1) - apart) / (one.standard_error or np.nan)
    return found


def main() -> None:
    """Print a row for each dimension and for what is known of the real rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--real", type=int, default=2000)
    options = parser.parse_args()
    reach = NormalDist().inv_cdf(0.975)
    header("d", "n", "known", "rms z", "covers")
    for dimension, samples in SIZES:
        for known in KNOWN:
            found = errors(known, dimension, samples, options.real, options.runs)
            covers = f"{(np.abs(found) <= reach).mean():.1%}"
            line(f"{dimension}", f"{samples:,}", known, f"{np.sqrt((found**2).mean()):.2f}", covers)


if __name__ == "__main__":
    main()
