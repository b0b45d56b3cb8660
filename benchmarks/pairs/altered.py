"""Generators that alter the same real rows: codecs of photographs, noisy medical measurements, copulas of digits.

The rows of one number are made of the same real row, or of the same noise. Many are equal, and their sizes are unequal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_images

Rows = NDArray[np.float64]

ROWS = 10_000
"""Samples in a pool."""
SIDE = 8
"""Rows and columns of a patch."""
FEATURES = 64
CODECS = {"": ((18, 13, 9, 6), 0.02), ", smooth": ((16, 12, 8, 5), 0.0)}
"""Principal components that codecs keep of patches in [0, 1], and the deviation of the noise that each of them adds."""
MEASURES = {"0.3": (1.0, 0.3), "0.5": (1.0, 0.5), "shrunk": (0.8, 0.5)}
"""By what a generator multiplies standardised measurements, and the deviation of the noise that it adds."""
COPULAS = {"1": (1.0, 0.0), "1.1": (1.1, 0.1), "1.4": (1.4, 0.2)}
"""By what a generator multiplies the normal scores of digits, and the deviation of the noise that it adds to them."""


def patches(which: str) -> tuple[Rows, dict[str, Rows]]:
    """Features of 8 × 8 patches of two photographs, of rank 64: real ones (m, 64), and those of four codecs (rows, 64).

    The features are those of one random layer.
    """
    rng = np.random.default_rng(1)
    images = [image.mean(axis=2) / 255.0 for image in load_sample_images().images]
    corners = [rng.integers(0, np.array(image.shape) - SIDE, size=(ROWS // 2, 2)) for image in images]
    cut = np.array(
        [
            image[row : row + SIDE, column : column + SIDE].ravel()
            for image, places in zip(images, corners, strict=True)
            for row, column in places
        ]
    )
    cut = rng.permutation(cut)
    mean = cut.mean(axis=0)
    components = np.linalg.svd(cut - mean, full_matrices=False)[2]
    codecs, grain = CODECS[which]
    noise, layer = rng.standard_normal(cut.shape), rng.standard_normal((SIDE**2, FEATURES)) / SIDE

    def seen(rows: Rows) -> Rows:
        return np.maximum(8.0 * (rows - mean) @ layer + 0.5, 0.0)

    return seen(cut), {
        f"{kept} components": seen(mean + (cut - mean) @ components[:kept].T @ components[:kept] + grain * noise)
        for kept in codecs
    }


def measurements() -> tuple[Rows, dict[str, Rows]]:
    """The 30 measurements of breast cancers, standardised: real ones, and some of them with noise."""
    rows = np.asarray(load_breast_cancer(return_X_y=True)[0], dtype=np.float64)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    rng = np.random.default_rng(2)
    drawn, noise = rows[rng.integers(len(rows), size=ROWS)], rng.standard_normal((ROWS, rows.shape[1]))
    return rows, {name: factor * drawn + deviation * noise for name, (factor, deviation) in MEASURES.items()}


def digits() -> tuple[Rows, dict[str, Rows]]:
    """The 48 columns of 8 × 8 digits that vary most: real ones, and rows of a Gaussian copula with their marginals."""
    rows = np.asarray(load_digits(return_X_y=True)[0], dtype=np.float64) / 16.0
    rows = rows[:, np.sort(np.argsort(rows.var(axis=0))[-48:])]
    rng = np.random.default_rng(3)
    ranks = (rows + 1e-3 * rng.random(rows.shape)).argsort(axis=0).argsort(axis=0)
    scores = norm.ppf((ranks + 0.5) / len(rows))
    factor = np.linalg.cholesky(np.cov(scores, rowvar=False) + 1e-9 * np.eye(48))
    shared, noise = rng.standard_normal((2, ROWS, 48))
    ordered = np.sort(rows, axis=0)

    def quantiles(made: Rows) -> Rows:
        places = np.minimum((norm.cdf(made) * len(rows)).astype(int), len(rows) - 1)
        return np.take_along_axis(ordered, places, axis=0)

    return rows, {
        name: quantiles(stretch * shared @ factor.T + deviation * noise)
        for name, (stretch, deviation) in COPULAS.items()
    }


MADE: Mapping[str, Callable[[], tuple[Rows, dict[str, Rows]]]] = {
    **{f"patches{which}": partial(patches, which) for which in CODECS},
    "measurements": measurements,
    "digit copulas": digits,
}
"""By name: real rows, and the pools of rows of each generator."""
