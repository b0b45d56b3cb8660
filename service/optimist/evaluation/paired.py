"""What a track of a paired experiment keeps beside its statistic, and the `Pairing` that it adds to estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from optimist.evaluation.common_rows import CommonRows, Indexed, Indices
from optimist.numerics.bound import InfluenceBound
from optimist.numerics.estimate import Estimate
from optimist.numerics.pairing import COMMON, TRAIL, TRAIL_GROWTH, Earlier
from optimist.numerics.statistic import Statistic


class Paired:
    """The common rows of one generator, and the trail of its earlier estimates.

    An estimate joins the trail where one is due, no index is missing up to there, and the samples have grown by
    `TRAIL_GROWTH` since the last such count. These counts are a function of the log, and `Track` makes the estimate at
    each of them, whether or not anybody asks for it. So the trail is a function of the log, too: it does not depend on
    who computes it, or on how many entries are applied together. Retracted batches never enter: after a retraction the
    log is applied again without them, and the trail begins anew.
    """

    def __init__(self, bound: InfluenceBound, statistic: Statistic) -> None:
        self._bound = bound
        self._common = CommonRows(bound.metric.widths, statistic.list_length is not None)
        self._trail: list[Earlier] = []
        self._last = 0  # samples at the last count of the trail, also where no estimate could join it

    def check(self, indices: Indices | None, rows: int) -> None:
        """Raise ValueError unless these can be the indices of a batch of `rows` rows."""
        self._common.check(indices, rows)

    def add(self, batch: Mapping[str, Tensor], indices: Indices | None, listed: Tensor | None) -> None:
        """Add a batch as `CommonRows.add` does."""
        self._common.add(batch, indices, listed)

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
        influence = np.full(COMMON, np.nan, dtype=np.float32)
        influence[indices.numpy()] = found.pairing.influence
        pairing = replace(
            found.pairing,
            influence=influence,
            end=self._common.end,
            unindexed=statistic.samples - self._common.told,
            trail=tuple(trail[-TRAIL:]),
        )
        return replace(found, pairing=pairing)

    def follow(self, statistic: Statistic) -> Estimate | None:
        """Take the estimate that is due now into the trail, if this is one of its counts. Returns it if it was made."""
        samples = statistic.samples
        is_whole = self._common.end == self._common.told == samples
        if not is_whole or samples < 2 or samples < (1.0 + TRAIL_GROWTH) * self._last:
            return None
        self._last = samples
        try:
            made = self.estimate(statistic)
        except (ArithmeticError, ValueError, torch.linalg.LinAlgError):  # pyright: ignore[reportPrivateImportUsage]
            # The log decides these, too. Whoever asks for the estimate gets the error.
            return None
        if made.pairing is not None and made.standard_error is not None:
            variance = max(made.standard_error**2 - made.pairing.systematic_selection**2, 0.0)
            earlier = Earlier(samples, made.value, variance, made.pairing.first_order)
            # One more than an estimate has, as the newest may be this one itself.
            self._trail = [*self._trail, earlier][-TRAIL - 1 :]
        return made

    def state(self) -> dict[str, Tensor]:
        """The whole state by name: that of the common rows, `trail` (k, 4), float64, and `last`, int64."""
        trail = torch.tensor(self._trail, dtype=torch.float64).reshape(-1, 4)
        return {**self._common.state(), "trail": trail, "last": torch.tensor(self._last, dtype=torch.int64)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over a `state`, bit for bit. Raises KeyError on missing tensors."""
        self._common.restore(tensors)
        self._trail = [Earlier(int(samples), *rest) for samples, *rest in tensors["trail"].tolist()]
        self._last = int(tensors["last"])
