"""The class statistic of a stream of class probabilities: moments, entropies, fold sums, and the last rows."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.metrics.rows import LastRows
from optimist.metrics.statistic import Statistic
from optimist.numerics.batches import SIMPLEX_TOLERANCE
from optimist_client.errors import FixError

FOLDS = 10
"""Sample i belongs to fold i mod 10, i counted over the whole log."""
BUFFER = 512
"""Last rows kept."""


def entropy(probabilities: Tensor) -> Tensor:
    """−Σ p log p over the last dimension (…, K), with 0 · log 0 = 0; entries not negative."""
    return torch.special.entr(probabilities).sum(-1)


def normalised(probabilities: Tensor) -> Tensor:
    """Rows (b, K) divided by their sums. Raises FixError where one is not finite, negative, or off the simplex."""
    sums = probabilities.sum(-1, keepdim=True)
    # Slightly wider than the tolerance of the check of batches, which sums in another order.
    near = (sums - 1.0).abs() <= SIMPLEX_TOLERANCE + 1e-9
    # Written so that NaN fails it too.
    if not bool((probabilities >= 0.0).all() & near.all()):
        raise FixError(
            f"probabilities must be finite, not negative and sum to 1 within {SIMPLEX_TOLERANCE:g} in every row"
        )
    return probabilities / sums


class ClassStatistic(Statistic):
    """Mean and variance of p_{Y|x} and of its entropy H(Y|x), updated one batch at a time by Chan's formula in float64.

    The state is a function of the sequence of batches alone: reading a property never changes it. Variances are made of
    deviations, never of Σp² − (Σp)²/n, so identical rows have a variance of exactly zero. Tensors handed out are views
    of the state: do not write to them.
    """

    def __init__(self, classes: int, *, device: torch.device | str = "cpu") -> None:
        if classes < 1:
            raise FixError(f"need at least 1 class, not {classes}")
        self.classes = classes
        self.device = torch.device(device)
        self.samples = 0
        # Moments of the row with its entropy as one more column: (K + 1).
        self._mean = self._zeros(classes + 1)
        self._squares = self._zeros(classes + 1)
        self._folds = self._zeros(FOLDS, classes)
        self._tail = LastRows(self._zeros(0, classes), BUFFER)

    @property
    def mean(self) -> Tensor:
        """p̃, the mean row (K); zeros before the first. Never negative."""
        return self._mean[:-1]

    @property
    def variance(self) -> Tensor:
        """Variance of each class's probability (K), with 1/(n − 1). Raises FixError on fewer than 2 samples."""
        return self._variances()[:-1]

    @property
    def entropy_mean(self) -> float:
        """Ĥ, the mean of H(Y|x)."""
        return float(self._mean[-1])

    @property
    def entropy_variance(self) -> float:
        """Variance of H(Y|x), with 1/(n − 1). Raises FixError on fewer than 2 samples."""
        return float(self._variances()[-1])

    @property
    def fold_sums(self) -> Tensor:
        """Σp over each fold (10, K)."""
        return self._folds

    @property
    def fold_counts(self) -> Tensor:
        """Rows in each fold (10), float64: they follow from `samples`."""
        fold = torch.arange(FOLDS, dtype=torch.float64, device=self.device)
        return torch.floor((self.samples + FOLDS - 1 - fold) / FOLDS)

    @property
    def last_rows(self) -> Tensor:
        """The last min(samples, 512) rows (·, K), renormalised, in log order."""
        # A copy: the last bit of a sum depends on where its rows begin in memory.
        return self._tail.copy()

    def update(self, probabilities: Tensor) -> None:
        """Add a batch (b, K) of any real dtype, b ≥ 1, each row renormalised if it sums to 1 within 1e-3.

        Raises FixError, changing nothing, on another shape and on rows that are not finite, negative or off the
        simplex.
        """
        if probabilities.ndim != 2 or probabilities.shape[0] < 1 or probabilities.shape[1] != self.classes:
            raise FixError(f"expected a batch of shape (b ≥ 1, {self.classes}), not {tuple(probabilities.shape)}")
        rows = normalised(probabilities.to(self.device, torch.float64).contiguous())
        count = len(rows)
        fold = (self.samples + torch.arange(count, device=self.device)) % FOLDS
        members = fold == torch.arange(FOLDS, device=self.device)[:, None]
        self._folds = self._folds + members.to(torch.float64) @ rows
        columns = torch.cat([rows, entropy(rows)[:, None]], dim=1)
        # Means are taken about the first row, so that identical rows vary by exactly zero. They stay ≥ 0: rounding
        # subtracts far less than the share 1/b that the first row contributes.
        mean = columns[0] + (columns - columns[0]).mean(0)
        self._absorb(count, mean, (columns - mean).square().sum(0))
        self._tail.append(rows)

    def state(self) -> dict[str, Tensor]:
        """The whole state by name, views where that can be: `layout` (int64), the rest float64."""
        return {
            "layout": torch.tensor([self.samples, self.classes], dtype=torch.int64),
            "mean": self._mean,
            "squares": self._squares,
            "folds": self._folds,
            "tail": self.last_rows,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: torch.device | str = "cpu") -> ClassStatistic:
        """A copy of the statistic whose `state` this is, bit for bit, for every later update too.

        Raises KeyError on missing tensors.
        """
        samples, classes = tensors["layout"].tolist()
        statistic = cls(classes, device=device)
        state = {name: tensor.to(device, copy=True) for name, tensor in tensors.items()}
        statistic.samples = samples
        statistic._mean = state["mean"]
        statistic._squares = state["squares"]
        statistic._folds = state["folds"]
        statistic._tail = LastRows(state["tail"], BUFFER)
        return statistic

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def _variances(self) -> Tensor:
        if self.samples < 2:
            raise FixError(f"the variance of {self.samples} samples is not defined")
        return self._squares / (self.samples - 1)

    def _absorb(self, count: int, mean: Tensor, squares: Tensor) -> None:
        """Chan's update by `count` rows with that mean and those squared deviations."""
        total = self.samples + count
        shift = mean - self._mean
        self._squares = self._squares + squares + shift.square() * (self.samples * count / total)
        self._mean = self._mean + shift * (count / total)
        self.samples = total
