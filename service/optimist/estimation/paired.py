"""Data of a generator's samples by index, for comparisons by index: rows, indices, earlier estimates."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimates.estimate import Estimate
from optimist.estimates.pairing import (
    COMMON,
    HISTORY,
    HISTORY_GROWTH,
    INTERVALS,
    JACKKNIFE_HISTORY,
    JACKKNIFE_ROWS,
    LARGEST_INDEX,
    LATER,
    Earlier,
    common_count,
    history_array,
    history_of,
    intervals_of,
    jackknife_array,
    joined,
    packed,
)
from optimist.estimation.clustered import Clusters
from optimist.metrics.base import Statistic
from optimist.metrics.bound import InfluenceBound
from optimist.metrics.cluster_sums import UNKNOWN
from optimist.metrics.state import Stateful, below
from optimist_client.errors import FixError

IndexRuns = tuple[int, ...]
"""The indices of a batch's rows: the first and the length of each run of them, one after the other, ascending. The rows
behind them have none."""
IndexedRows = tuple[Tensor, dict[str, Tensor]]
"""Indices (m,), ascending, and rows (m, …) of these by array."""


class CommonRows(Stateful):
    """The rows of the indices 0 … `limit` − 1 as they were recorded, and the indices recorded as intervals.

    The state depends on the rows that have an index, in their order, and not on how they were split into batches. The
    first telling of an index wins. Intervals are merged, so that picks in order make one.
    """

    held = ("_starts", "_stops", "_rows", "_listed")

    def __init__(
        self, widths: Mapping[str, int], is_listed: bool = False, limit: int | None = None, takes_unknown: bool = False
    ) -> None:
        """widths: the columns of each array by name. is_listed: whether the prompts of the rows are told.

        most: None: as many as the service keeps. takes_unknown: True if rows with unknown prompts are compared.
        """
        self._takes_unknown = takes_unknown
        self.limit = common_count(sum(widths.values())) if limit is None else limit
        self._rows = {name: torch.zeros(0, width, dtype=torch.float64) for name, width in widths.items()}
        self._listed = torch.zeros(0, dtype=torch.int64) if is_listed else None
        self._starts: list[int] = []
        self._stops: list[int] = []

    @property
    def told(self) -> tuple[int, ...]:
        """The start and the end of each interval of indices recorded, ascending."""
        return tuple(end for interval in zip(self._starts, self._stops, strict=True) for end in interval)

    @staticmethod
    def check(indices: IndexRuns | None, rows: int) -> None:
        """Raise FixError unless these can be the indices of a batch of `rows` rows."""
        if indices is None:
            return
        end, is_right = 0, sum(indices[1::2]) <= rows
        for first, count in runs_of(indices):
            is_right = is_right and first >= end and count >= 0
            end = first + count
        if not (is_right and end <= LARGEST_INDEX):
            raise FixError(
                f"expected ascending indices of at most {rows} rows from 0 to {LARGEST_INDEX - 1}, got {indices}"
            )

    def add(self, batch: Mapping[str, Tensor], indices: IndexRuns | None, listed: Tensor | None = None) -> None:
        """Add a batch, tensors (n, …) by name, whose indices have passed `check`.

        listed: the index (n,) of each row's prompt in the list; None if unknown.
        """
        row = 0
        for first, count in runs_of(indices or ()):
            self._add(batch, first, count, row, listed)
            row += count

    def _add(self, batch: Mapping[str, Tensor], first: int, count: int, row: int, listed: Tensor | None) -> None:
        """Add `count` rows of a batch, from `row` on, with the indices from `first` on."""
        if count == 0:
            return
        end = first + count
        recorded = self._held() if first < self.limit else []
        added = sorted(set(range(first, min(end, self.limit))).difference(recorded))
        if added:
            positions = torch.tensor(added) - first + row
            # Picks in order add at the end: most batches need no sorting, which takes most of the time.
            is_sorted = not recorded or recorded[-1] < added[0]
            order = slice(None) if is_sorted else torch.tensor([*recorded, *added]).argsort()
            for name, rows in self._rows.items():
                self._rows[name] = torch.cat([rows, batch[name][positions].to("cpu", torch.float64)])[order]
            if self._listed is not None:
                prompts = torch.full_like(positions, UNKNOWN) if listed is None else listed[positions].to(torch.int64)
                self._listed = torch.cat([self._listed, prompts])[order]
        self._merge(first, end)

    def rows(self) -> IndexedRows:
        """The indices (m,) recorded below `limit`, ascending, and copies of their rows (m, …) by array, float64.

        Where prompts are told, "listed" holds the index of each row's prompt; rows without are left out or `UNKNOWN`.
        """
        indices = torch.tensor(self._held(), dtype=torch.int64)
        if self._listed is None:
            return indices, {name: rows.clone() for name, rows in self._rows.items()}
        kept = torch.full_like(self._listed, self._takes_unknown, dtype=torch.bool) | (self._listed != UNKNOWN)
        return indices[kept], {
            **{name: rows[kept] for name, rows in self._rows.items()},
            "listed": self._listed[kept],
        }

    def _held(self) -> list[int]:
        """The indices of the rows held, ascending."""
        intervals = zip(self._starts, self._stops, strict=True)
        return [
            index for start, stop in intervals if start < self.limit for index in range(start, min(stop, self.limit))
        ]

    def _merge(self, start: int, stop: int) -> None:
        """Mark the indices from `start` to below `stop` as recorded."""
        low, high = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if low < high:
            start, stop = min(start, self._starts[low]), max(stop, self._stops[high - 1])
        self._starts[low:high], self._stops[low:high] = [start], [stop]


def runs_of(runs: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the length of each run. Raises FixError where one of them has no length."""
    return list(zip(runs[::2], runs[1::2], strict=True))


def placed(indices: IndexRuns | None, rows: int) -> list[int]:
    """The index of each of a batch's rows, UNKNOWN for rows without."""
    told = [index for first, count in runs_of(indices or ()) for index in range(first, first + count)]
    return told + [UNKNOWN] * (rows - len(told))


def shared_rows(estimators: Sequence[IndexedRows | None]) -> list[dict[str, Tensor]]:
    """The rows of the indices common to all generators, by array; none if a generator keeps no rows by index."""
    indexed = [estimator for estimator in estimators if estimator is not None]
    if not indexed or len(indexed) < len(estimators):
        return []
    shared = indexed[0][0]
    for indices, _ in indexed[1:]:
        shared = shared[torch.isin(shared, indices)]
    if not len(shared):
        return []
    masks = [torch.isin(indices, shared) for indices, _ in indexed]
    return [{name: part[mask] for name, part in rows.items()} for mask, (_, rows) in zip(masks, indexed, strict=True)]


class Paired(Stateful):
    """The common rows of one generator, and the history of its earlier estimates.

    An estimate joins the history where one is due, no index is missing up to there, and the samples have grown by
    `HISTORY_GROWTH` since the last such count. These counts are a function of the log, and `StreamingEstimator` makes
    the estimate at each of them, whether or not anybody asks for it. So the history is a function of the log, too: it
    does not depend on who computes it, or on how many entries are applied together. Retracted batches never enter:
    after a retraction the log is applied again without them, and the history begins anew.
    """

    held = ("_common", "_first", "_newest", "_last")

    def __init__(
        self, bound: InfluenceBound, statistic: Statistic, common: int | None = None, clusters: Clusters | None = None
    ) -> None:
        """common: of how many first indices the rows are kept; None: as the service does.

        clusters: of the samples, whoever adds them.
        """
        self._bound, self._clusters = bound, clusters
        is_listed = statistic.list_length is not None
        self._common = CommonRows(bound.metric.widths, is_listed, common, statistic.compares_unknown)
        self._history: list[Earlier] = []
        self._first: list[int] = []  # indices of the first samples in log order, -1 without one
        self._newest: list[int] = []  # indices of the newest samples in log order, -1 without one
        self._last = 0  # samples at the last count of the history, also where no estimate could join it

    def check(self, indices: IndexRuns | None, rows: int) -> None:
        """Raise FixError unless these can be the indices of a batch of `rows` rows."""
        self._common.check(indices, rows)

    def add(self, batch: Mapping[str, Tensor], indices: IndexRuns | None, listed: Tensor | None) -> None:
        """Add a batch as `CommonRows.add` does."""
        self._common.add(batch, indices, listed)
        told = placed(indices, len(next(iter(batch.values()))))
        self._first += told[: JACKKNIFE_ROWS - len(self._first)]
        self._newest = [*self._newest, *told][-LATER:]

    def common(self) -> IndexedRows:
        """The common rows and their indices, as `CommonRows.rows` has them."""
        return self._common.rows()

    def estimate(self, statistic: Statistic) -> Estimate:
        """The estimate, with a `Pairing` if the metric knows the influence of the common rows. Raises as bounds do."""
        indices, rows = self._common.rows()
        clusters = self._clusters
        allow = () if clusters is None else (partial(clusters.allowed_for, indices=indices),)
        first = {"first": torch.tensor(self._first)}
        estimate = self._bound.estimate(statistic, rows | first if len(indices) else None, *allow)
        if estimate.pairing is None:
            return estimate
        history = [past for past in self._history if past.samples < statistic.samples]
        influence = np.full(self._common.limit, np.nan, dtype=np.float32)
        influence[indices.numpy()] = estimate.pairing.influence
        told, later, later_told = self._common.told, *self._later(estimate.pairing.later)
        pairing = replace(
            estimate.pairing,
            influence=influence,
            told=told if len(told) <= 2 * INTERVALS else (*told[:2], *told[2 - 2 * INTERVALS :]),
            later=later,
            later_told=later_told,
            history=tuple(history[-HISTORY:]),
            prompts=None if clusters is None else clusters.prompts,
        )
        prompted = estimate.prompted
        if prompted is not None and len(prompted.residuals):
            residuals = np.full(int(indices[-1]) + 1, np.nan)
            residuals[indices.numpy()] = prompted.residuals
            prompted = replace(prompted, residuals=residuals)
        return replace(estimate, pairing=pairing, prompted=prompted)

    def _later(self, recent: NDArray[np.float32]) -> tuple[NDArray[np.float32], tuple[int, ...]]:
        """Influences of recent samples beyond the common indices.

        recent: the available influences of the newest samples, in log order.
        """
        count = min(len(recent), len(self._newest))
        influences = zip(self._newest[len(self._newest) - count :], recent[len(recent) - count :].tolist(), strict=True)
        placed = dict(sorted((index, value) for index, value in influences if index >= self._common.limit))
        return np.array([*placed.values()], np.float32), intervals_of([*placed])

    def follow(self, statistic: Statistic) -> Estimate | None:
        """Take the estimate that is due now into the history, if this is one of its counts. Returns it if it was
        made.
        """
        samples = statistic.samples
        if self._common.told != (0, samples) or samples < 2 or samples < (1.0 + HISTORY_GROWTH) * self._last:
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
            self._history = [*self._history, earlier][-HISTORY - 1 :]
            if len(self._history) > JACKKNIFE_HISTORY + 1:
                forgotten = -JACKKNIFE_HISTORY - 2
                self._history[forgotten] = self._history[forgotten]._replace(jackknife=())
        return made

    def state(self) -> dict[str, Tensor]:
        """The whole state by name. Of the history `numbers` (k, 5), `jackknives` (k, 10), zeros for an empty one, and
        the bytes of its `influences`."""
        history = {
            "history/numbers": torch.from_numpy(history_array(self._history)),
            "history/jackknives": torch.from_numpy(jackknife_array([past.jackknife for past in self._history])),
            "history/influences": torch.tensor(bytearray(joined([past.influence for past in self._history]))).byte(),
        }
        return super().state() | history

    def restore(self, tensors: Mapping[str, Tensor]) -> Self:
        left = dict(tensors)
        history = {name: part.numpy() for name, part in below("history", left).items()}
        self._history = history_of(history["numbers"], history["jackknives"], history["influences"].tobytes())
        return super().restore(left)
