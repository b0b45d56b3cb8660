"""What a track of a paired experiment keeps beside its statistic, and the `Pairing` that it adds to estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimation.common_rows import CommonRows, Indexed, Indices, runs_of
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.statistic import Statistic
from optimist.numerics.estimate import Estimate
from optimist.numerics.pairing import (
    COMMON,
    INTERVALS,
    JACKKNIFE_TRAIL,
    LATER,
    TRAIL,
    TRAIL_GROWTH,
    Earlier,
    intervals_of,
    jackknife_array,
    jackknife_rows,
    trail_array,
    trail_of,
)
from optimist.numerics.past_influences import joined, packed


class Paired:
    """The common rows of one generator, and the trail of its earlier estimates.

    An estimate joins the trail where one is due, no index is missing up to there, and the samples have grown by
    `TRAIL_GROWTH` since the last such count. These counts are a function of the log, and `Track` makes the estimate at
    each of them, whether or not anybody asks for it. So the trail is a function of the log, too: it does not depend on
    who computes it, or on how many entries are applied together. Retracted batches never enter: after a retraction the
    log is applied again without them, and the trail begins anew.
    """

    def __init__(self, bound: InfluenceBound, statistic: Statistic, common: int | None = None) -> None:
        """common: of how many first indices the rows are kept; None: as the service does."""
        self._bound = bound
        self._common = CommonRows(bound.metric.widths, statistic.list_length is not None, common)
        self._trail: list[Earlier] = []
        self._ordered = 0  # first samples that were told in order of their indices, from 0 on
        self._is_ordered = True  # whether all were
        self._newest: list[int] = []  # the indices of the newest samples in log order, -1 of one that has none
        self._last = 0  # samples at the last count of the trail, also where no estimate could join it

    def check(self, indices: Indices | None, rows: int) -> None:
        """Raise FixError unless these can be the indices of a batch of `rows` rows."""
        self._common.check(indices, rows)

    def add(self, batch: Mapping[str, Tensor], indices: Indices | None, listed: Tensor | None) -> None:
        """Add a batch as `CommonRows.add` does."""
        self._common.add(batch, indices, listed)
        rows = len(next(iter(batch.values())))
        for first, count in runs_of(indices or ()):
            self._is_ordered &= first == self._ordered
            self._ordered += count if self._is_ordered else 0
            rows -= count
        self._is_ordered &= rows == 0
        told = [index for first, count in runs_of(indices or ()) for index in range(first, first + count)]
        self._newest = [*self._newest, *told, *([-1] * rows)][-LATER:]

    def common(self) -> Indexed:
        """The common rows and their indices, as `CommonRows.rows` has them."""
        return self._common.rows()

    def estimate(self, statistic: Statistic) -> Estimate:
        """The estimate, with a `Pairing` if the metric knows the influence of the common rows. Raises as bounds do."""
        indices, rows = self._common.rows()
        found = self._bound.estimate(statistic, rows if len(indices) else None)
        if found.pairing is None:
            return found
        trail = [past for past in self._trail if past.samples < statistic.samples]
        influence = np.full(self._common.most, np.nan, dtype=np.float32)
        influence[indices.numpy()] = found.pairing.influence
        told, later, later_told = self._common.told, *self._later(found.pairing.later)
        pairing = replace(
            found.pairing,
            influence=influence,
            told=told if len(told) <= 2 * INTERVALS else (*told[:2], *told[2 - 2 * INTERVALS :]),
            later=later,
            later_told=later_told,
            # Otherwise its groups are of other indices than those of other generators.
            jackknife=found.pairing.jackknife if self._ordered >= jackknife_rows(statistic.samples) else (),
            trail=tuple(trail[-TRAIL:]),
        )
        return replace(found, pairing=pairing)

    def _later(self, recent: NDArray[np.float32]) -> tuple[NDArray[np.float32], tuple[int, ...]]:
        """The influences of those of the newest samples that have later indices than the common ones.

        recent: the influences of the newest samples in log order, as many as are known.
        """
        count = min(len(recent), len(self._newest))
        known = zip(self._newest[len(self._newest) - count :], recent[len(recent) - count :].tolist(), strict=True)
        placed = dict(sorted((index, value) for index, value in known if index >= self._common.most))
        return np.array([*placed.values()], np.float32), intervals_of([*placed])

    def follow(self, statistic: Statistic) -> Estimate | None:
        """Take the estimate that is due now into the trail, if this is one of its counts. Returns it if it was made."""
        samples = statistic.samples
        if self._common.told != (0, samples) or samples < 2 or samples < (1.0 + TRAIL_GROWTH) * self._last:
            return None
        self._last = samples
        try:
            made = self.estimate(statistic)
        except (ArithmeticError, ValueError, torch.linalg.LinAlgError):  # pyright: ignore[reportPrivateImportUsage]
            # The log decides these, too. Whoever asks for the estimate gets the error.
            return None
        if made.pairing is not None and made.standard_error is not None:
            variance = max(made.standard_error**2 - made.pairing.systematic_selection**2, 0.0)
            influence = packed(made.pairing.influence[: min(samples, COMMON)])
            systematic = made.pairing.systematic_sign * made.pairing.systematic_stopping
            first_order, jackknife = made.pairing.first_order, made.pairing.jackknife
            earlier = Earlier(samples, made.value, variance, first_order, jackknife, influence, systematic)
            # One more than an estimate has, as the newest may be this one itself.
            self._trail = [*self._trail, earlier][-TRAIL - 1 :]
            if len(self._trail) > JACKKNIFE_TRAIL + 1:
                forgotten = -JACKKNIFE_TRAIL - 2
                self._trail[forgotten] = self._trail[forgotten]._replace(jackknife=())
        return made

    def state(self) -> dict[str, Tensor]:
        """The whole state by name: that of the common rows, `trail` (k, 5) and `jackknives` (k, 10), both float64,
        zeros for an empty jackknife, `past_influences`, the bytes of those of the trail, `ordered`, `newest` (≤ 256,)
        and `last`, int64, and `is_ordered`."""
        return {
            **self._common.state(),
            "trail": torch.from_numpy(trail_array(self._trail)),
            "jackknives": torch.from_numpy(jackknife_array([past.jackknife for past in self._trail])),
            "past_influences": torch.tensor(bytearray(joined([past.influence for past in self._trail]))).byte(),
            "ordered": torch.tensor(self._ordered, dtype=torch.int64),
            "is_ordered": torch.tensor(self._is_ordered),
            "newest": torch.tensor(self._newest, dtype=torch.int64),
            "last": torch.tensor(self._last, dtype=torch.int64),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a `state`, bit for bit. Raises KeyError on missing tensors."""
        self._common.restore(tensors)
        numbers, jackknives, influences = (tensors[name].numpy() for name in ("trail", "jackknives", "past_influences"))
        self._trail = trail_of(numbers, jackknives, influences.tobytes())
        self._ordered, self._is_ordered = int(tensors["ordered"]), bool(tensors["is_ordered"])
        self._newest = tensors["newest"].tolist()
        self._last = int(tensors["last"])
