"""What a batch must be before it is let in. Free of torch: the API and `Evaluation` refuse the same things."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e30
"""Largest absolute feature value taken: its fourth power, summed over any dimension, still fits a float64."""


class BatchError(ValueError):
    """The batch is not what the experiment expects; the message says what was expected and what was found."""


def check_features(features: NDArray[np.floating], dimension: int) -> None:
    """Raise `BatchError` unless `features` is (n ≥ 1, `dimension`), finite and of sane size."""
    if features.ndim != 2 or features.shape[1] != dimension:
        raise BatchError(f"features: expected shape (n, {dimension}), got {features.shape}")
    if len(features) == 0:
        raise BatchError("features: expected at least one row, got an empty batch")
    with np.errstate(invalid="ignore"):
        sound = np.abs(features) <= LARGEST  # false for NaN, too
    if not sound.all():
        row, column = np.argwhere(~sound)[0]
        raise BatchError(
            f"features: expected finite numbers of at most {LARGEST:g} in size, "
            f"got {features[row, column]} in row {row}, column {column}"
        )
