"""Sums of values that come in clusters: by prompt, and over batches (rules/calibration.md)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.arrays import Floats
from optimist.metrics.state import Stateful
from optimist_client.errors import FixError

UNKNOWN = -1
"""Number of an unknown prompt."""


def prompts_of_batch(prompts: Tensor | None, rows: int, length: int) -> Tensor:
    """The prompts (rows,) of a batch as int64, of a list of this length; None stands for unknown prompts.

    Raises FixError for invalid prompts.
    """
    if prompts is None:
        return torch.full((rows,), UNKNOWN)
    if prompts.shape != (rows,) or prompts.dtype.is_floating_point or len(prompts) == 0:
        raise FixError(f"prompt_indices: expected {rows} whole numbers, got {tuple(prompts.shape)}")
    low, high = (int(end) for end in torch.aminmax(prompts))
    if not UNKNOWN <= low <= high < length:
        raise FixError(f"prompt_indices: expected 0 to {length - 1}, got {low if low < 0 else high}")
    return prompts.to(torch.int64)


class PromptSums(Stateful):
    """Count and mean of the values of each prompt, and their squares within prompts; of unknown prompts all values."""

    held = ("counts", "means", "squares", "stray_count", "stray_mean", "stray_squares")

    def __init__(self, length: int) -> None:
        """length: the number of prompts."""
        self.layout = (length,)
        self.counts = np.zeros(length, np.int64)
        self.means = np.zeros(length)
        self.squares = 0.0
        """Σ (x − x̄_p)² about the means of prompts."""
        self.stray_count = 0
        """Values with an unknown prompt."""
        self.stray_mean = 0.0
        self.stray_squares = 0.0
        """Σ (x − x̄)² of these about their mean."""

    @property
    def seen(self) -> NDArray[np.int64]:
        """The prompts (m,) that have a value, ascending."""
        return np.flatnonzero(self.counts)

    def residuals(self, values: Tensor, prompts: Tensor) -> Floats:
        """Values (b,) less the means of their prompts (b,), NaN for unknown prompts."""
        listed = prompts.numpy()
        return np.where(listed == UNKNOWN, np.nan, values.numpy() - self.means[listed])

    def check(self, prompts: Tensor | None, rows: int) -> NDArray[np.int64]:
        """The prompts (rows,) of a batch, as of `prompts_of_batch`."""
        return prompts_of_batch(prompts, rows, len(self.counts)).numpy()

    def add(self, values: Floats, prompts: NDArray[np.int64]) -> None:
        """Add values (b,) with their prompts (b,), which have passed `check`. Source: Chan et al. (1979)."""
        is_known = prompts != UNKNOWN
        at, group, count = np.unique(prompts[is_known], return_inverse=True, return_counts=True)
        rows = values[is_known]
        if len(at):
            first = rows[np.unique(group, return_index=True)[1]]  # as origin: equal values vary by exactly zero
            mean = first + np.bincount(group, rows - first[group]) / count
            before, shift = self.counts[at], mean - self.means[at]
            total = before + count
            self.squares += float(np.square(rows - mean[group]).sum())
            self.squares += float((shift * shift * (before * count / total)).sum())
            self.means[at] += np.where(before == 0, shift, shift * (count / total))
            self.counts[at] = total
        if len(strays := values[~is_known]):
            mean, total = float(strays.mean()), self.stray_count + len(strays)
            shift = mean - self.stray_mean
            self.stray_squares += float(np.square(strays - mean).sum())
            self.stray_squares += shift * shift * (self.stray_count * len(strays) / total)
            self.stray_mean += shift * (len(strays) / total)
            self.stray_count = total


class BatchSums(Stateful):
    """Sums from which the variance of a mean follows whose batches are clusters, about the first value."""

    held = ("batches", "_first", "_counts", "_products", "_squares")

    def __init__(self) -> None:
        self.batches = 0
        self._first = 0.0
        self._counts = 0.0  # Σ c²
        self._products = 0.0  # Σ c S
        self._squares = 0.0  # Σ S²

    def add(self, values: Floats) -> None:
        """Add a batch of values (b,)."""
        if not self.batches:
            self._first = float(values[0])
        total, count = float((values - self._first).sum()), float(len(values))
        self.batches += 1
        self._counts += count * count
        self._products += count * total
        self._squares += total * total

    def root(self, mean: float, samples: int) -> float:
        """√Σ s², s the sum of a batch's deviations from the mean of all `samples`, over their number."""
        about = mean - self._first
        squares = self._squares - 2.0 * about * self._products + about * about * self._counts
        return max(squares, 0.0) ** 0.5 / samples
