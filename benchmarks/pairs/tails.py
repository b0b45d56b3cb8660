"""Rows of very unequal size: a few of them decide what a score is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Sizes = Callable[[np.random.Generator, int], Rows]

DIMENSION = 40
ROWS = 10_000
"""Samples in a pool."""
REAL = 2_000
"""Real rows."""
FREEDOM = 5.0
SHAPE = 0.6
FEW, SMALLEST, LARGEST = 0.03, 5.0, 10.0
FEWER = 0.01
LAWS: Mapping[str, Sizes] = {
    "lognormal": lambda rng, n: np.exp(0.8 * rng.standard_normal(n)),
    "Student": lambda rng, n: np.sqrt(FREEDOM / rng.chisquare(FREEDOM, n)),
    "Pareto": lambda rng, n: rng.pareto(3.0, n) + 1.0,
    "contaminated": lambda rng, n: np.where(rng.random(n) < FEW, rng.uniform(SMALLEST, LARGEST, n), 1.0),
    "Weibull": lambda rng, n: rng.weibull(SHAPE, n),
    "outlying": lambda rng, n: np.where(rng.random(n) < FEWER, 2.0 * rng.uniform(SMALLEST, LARGEST, n), 1.0),
}
"""The law of the sizes (n,) of rows: lognormal (σ 0.8), Student's (5 degrees of freedom), Pareto's (index 3), rows of
which 3 % are 5 to 10 times as large as the others, Weibull's (shape 0.6), and rows of which 1 % are 10 to 20 times as
large. By the last two no rule was chosen."""
_VARIANCES = 1.0 / np.arange(1.0, DIMENSION + 1.0)
_ROOTS = np.sqrt(_VARIANCES / _VARIANCES.mean())


def real_rows(law: str) -> Rows:
    """Real rows (m, d): normal ones of the covariance diag λ, λ_j ∝ 1/j, each times its size. The mean square is 1."""
    rng = np.random.default_rng(1)
    return _sizes(law, rng, REAL)[:, None] * rng.standard_normal((REAL, DIMENSION)) * _ROOTS


def pools(law: str) -> dict[str, Rows]:
    """The samples of three generators (rows, d). Rows of the same number have the same size and noise, of the third one
    a part of the noise (ρ 0.8)."""
    rng = np.random.default_rng(2)
    sizes = _sizes(law, rng, ROWS)[:, None]
    noise, own = rng.standard_normal((2, ROWS, DIMENSION))
    return {
        "larger": 0.2 + 1.15 * sizes * noise * _ROOTS,
        "smoother": 0.2 + sizes * noise * _ROOTS * np.linspace(1.0, 0.5, DIMENSION),
        "noisy": 0.2 + sizes * (0.8 * noise + 0.6 * own) * _ROOTS * np.linspace(1.0, 0.8, DIMENSION),
    }


def classes(rows: Rows) -> Rows:
    """Probabilities (n, 10) of classes: those of logits that are twice the first columns."""
    logits = 2.0 * rows[:, :10]
    found = np.exp(logits - logits.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def values(rows: Rows) -> Rows:
    """A number (n, 1) for each row: its root mean square."""
    return np.sqrt(np.square(rows).mean(1, keepdims=True))


def _sizes(law: str, rng: np.random.Generator, n: int) -> Rows:
    found = LAWS[law](rng, n)
    return found / np.sqrt(np.square(found).mean())
