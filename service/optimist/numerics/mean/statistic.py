"""Count, mean and squared deviations of a stream of numbers, with a confidence sequence where a bound asks for one."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.numerics.mean.sequences import ConfidenceSequence, restored
from optimist.numerics.rows import check_rows, copied
from optimist.numerics.statistic import Statistic

_CPU = torch.device("cpu")


class MeanStatistic(Statistic):
    """Mean and sum of squared deviations, updated one batch at a time by Chan's formula in float64, on the CPU.

    Deviations are never taken as Σx² − (Σx)²/n, so that equal values have a variance of exactly zero.
    """

    def __init__(self, sequence: ConfidenceSequence | None = None) -> None:
        """sequence: an empty confidence sequence, which is given all values in their order."""
        self.samples = 0
        self.mean = 0.0
        self.squares = 0.0
        """Σ (x − mean)²."""
        self.sequence = sequence

    @property
    def variance(self) -> float:
        """The variance with 1/(n − 1). Raises ValueError on fewer than 2 samples."""
        if self.samples < 2:
            raise ValueError(f"the variance of {self.samples} samples is not defined")
        return self.squares / (self.samples - 1)

    def update(self, values: Tensor) -> None:
        """Add a batch (b ≥ 1, 1) of any real dtype.

        Raises ValueError, changing nothing, on another shape, on numbers that are not finite or too large, and outside
        the limits of the confidence sequence.
        """
        check_rows("values", values, 1)
        rows = copied(values, _CPU).flatten()
        if self.sequence is not None:
            self.sequence.add(rows)
        # About the first value, so that equal values vary by exactly zero.
        mean = float(rows[0] + (rows - rows[0]).mean())
        count, total, shift = len(rows), self.samples + len(rows), mean - self.mean
        self.squares += float((rows - mean).square().sum()) + shift * shift * (self.samples * count / total)
        self.mean += shift * (count / total)
        self.samples = total

    def state(self) -> dict[str, Tensor]:
        """`counts` (1,), int64, and `moments` (2,), float64: mean and squares; then the state of a sequence."""
        own = {
            "counts": torch.tensor([self.samples], dtype=torch.int64),
            "moments": torch.tensor([self.mean, self.squares], dtype=torch.float64),
        }
        return own if self.sequence is None else own | self.sequence.state()

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> MeanStatistic:
        """A copy of the statistic whose `state` this is, bit for bit. Raises KeyError on missing tensors."""
        statistic = cls(restored(tensors))
        (statistic.samples,) = tensors["counts"].tolist()
        statistic.mean, statistic.squares = tensors["moments"].tolist()
        return statistic
