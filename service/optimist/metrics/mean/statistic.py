"""Count, mean and deviations of a stream of numbers, with a confidence sequence where a bound asks for one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optimist.metrics.mean.sequences import ConfidenceSequence, restored
from optimist.metrics.rows import check_rows, copied
from optimist.metrics.statistic import Statistic
from optimist_client.errors import FixError

_CPU = torch.device("cpu")


class MeanStatistic(Statistic):
    """Mean and sums of powers of deviations, updated one batch at a time in float64, on the CPU.

    Deviations are never taken as Σx² − (Σx)²/n, so that equal values have a variance of exactly zero. Sources: Chan et
    al. (1979) for the squares, Pébay (2008) for the cubes.
    """

    def __init__(self, sequence: ConfidenceSequence | None = None) -> None:
        """sequence: an empty confidence sequence, which is given all values in their order."""
        self.samples = 0
        self.mean = 0.0
        self.squares = 0.0
        """Σ (x − mean)²."""
        self.cubes = 0.0
        """Σ (x − mean)³."""
        self.sequence = sequence

    @property
    def variance(self) -> float:
        """The variance with 1/(n − 1). Raises FixError on fewer than 2 samples."""
        if self.samples < 2:
            raise FixError(f"the variance of {self.samples} samples is not defined")
        return self.squares / (self.samples - 1)

    @property
    def skewness(self) -> float:
        """Σ (x − mean)³/n over the deviation³ by 1/n; 0 where all values are equal, or too large for their cubes."""
        scale = self.squares * math.sqrt(self.squares / self.samples) if self.samples else 0.0
        found = self.cubes / scale if scale > 0.0 else 0.0
        return found if math.isfinite(found) else 0.0

    def update(self, values: Tensor) -> None:
        """Add a batch (b ≥ 1, 1) of any real dtype.

        Raises FixError, changing nothing, on another shape, on numbers that are not finite or too large, and outside
        the limits of the confidence sequence.
        """
        check_rows("values", values, 1)
        rows = copied(values, _CPU).flatten()
        if self.sequence is not None:
            self.sequence.add(rows)
        # About the first value, so that equal values vary by exactly zero.
        mean = float(rows[0] + (rows - rows[0]).mean())
        known, count, shift = self.samples, len(rows), mean - self.mean
        total, deviations = known + count, rows - mean
        squares, cubes = (float(deviations.pow(power).sum()) for power in (2, 3))
        self.cubes += cubes + shift * shift * shift * (known * count / total * ((known - count) / total))
        self.cubes += 3.0 * shift * ((known * squares - count * self.squares) / total)
        self.squares += squares + shift * shift * (known * count / total)
        self.mean += shift * (count / total)
        self.samples = total

    def state(self) -> dict[str, Tensor]:
        """`counts` (1,), int64, and `moments` (3,), float64: mean, squares and cubes; then the state of a sequence."""
        own = {
            "counts": torch.tensor([self.samples], dtype=torch.int64),
            "moments": torch.tensor([self.mean, self.squares, self.cubes], dtype=torch.float64),
        }
        return own if self.sequence is None else own | self.sequence.state()

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> MeanStatistic:
        """A copy of the statistic whose `state` this is, bit for bit. Raises KeyError on missing tensors."""
        statistic = cls(restored(tensors))
        (statistic.samples,) = tensors["counts"].tolist()
        statistic.mean, statistic.squares, statistic.cubes = tensors["moments"].tolist()
        return statistic
