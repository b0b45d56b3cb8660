"""A generator's log, applied in order: the statistic, a reservoir of samples, and when estimates are due.

`Evaluation` and the scorer both keep one of these for each generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.estimates.estimate import Estimate, is_due
from optimist.estimates.pairing import common_count
from optimist.estimates.timing import Timing
from optimist.estimation.audited import AuditAnswer, AuditEstimator, judged
from optimist.estimation.clustered import ClusterKind, Clusters
from optimist.estimation.learner import Learner
from optimist.estimation.paired import IndexedRows, IndexRuns, Paired, placed
from optimist.metrics.base import Score, Statistic
from optimist.metrics.bound import Bound, InfluenceBound
from optimist.metrics.mean import MeanScore, MeanStatistic
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.state import Stateful
from optimist.metrics.threads import few_threads
from optimist.records import AskedPrompt
from optimist_client.errors import FixError
from optimist_client.models.modes import ModeInfo, PromptGroupInfo


class Timed(Stateful):
    """Mean and seconds a sample of the newest 256 batches whose time is known."""

    held = ("_batches",)

    def __init__(self) -> None:
        self._batches = np.zeros((0, 2))

    def add(self, values: Tensor, seconds: float) -> None:
        """Add a batch (b, 1) that took so many seconds."""
        batch = [[float(values.mean()), seconds / len(values)]]
        self._batches = np.concatenate([self._batches, batch])[-256:]

    @property
    def timing(self) -> Timing | None:
        """The timing of these batches; None before the first one."""
        return Timing.of(self._batches)


class StreamingEstimator(Stateful):
    """One generator's log, with estimates at the due sample counts of rules/estimates.md."""

    held = ("samples", "_last_due", "statistic", "reservoir", "_clusters", "_paired", "learned", "_timed", "_audited")

    def __init__(
        self,
        bound: Bound,
        growth: float,
        paired: bool = False,
        reads: Mapping[str, str] | None = None,
        learner: Learner | None = None,
        ordinal: int = 0,
        common: int | None = None,
        clusters: ClusterKind | None = None,
    ) -> None:
        """paired: True if estimates carry the data of comparisons by index, which only the bound "influence" has.

        reads: `Metric.array_names`, the names in a batch of the metric's own arrays; None: the same names.
        learner: of the model that picks are made from, where this metric decides.
        ordinal: of the generator, where there is a `learner`.
        common: of how many first indices a paired estimator keeps the rows; None: of as many as the service does.
        clusters: by which errors allow for samples that are alike; None: samples are independent.
        """
        self._bound = bound
        self._reads = {name: name for name in bound.metric.widths} if reads is None else dict(reads)
        self._growth = growth
        self._last_due = 0
        self.samples = 0
        """Rows of the log so far, including skipped ones; determines when estimates are due."""
        self.statistic: Statistic = bound.statistic()
        self.reservoir = Reservoir() if "modes" in bound.metric.offers else None
        self._clusters: Clusters | None = None
        self._paired: Paired | None = None
        if isinstance(bound, InfluenceBound):
            firsts = 0 if not paired else common_count(self.columns) if common is None else common
            if self.statistic.list_length is None and not self.statistic.allows_for_clusters:
                self._clusters = Clusters(clusters or "batch", clusters is not None, firsts)
            self._paired = Paired(bound, self.statistic, common, self._clusters) if paired else None
        lower = bound.metric.lower_is_better
        self.learned = None if learner is None else learner.learned(lower_is_better=lower, ordinal=ordinal)
        """Data that the learner keeps of the batches, if any."""
        self._timed = Timed() if isinstance(bound.metric, MeanScore) else None
        self._audited: AuditEstimator | None = None
        if isinstance(bound.metric, MeanScore) and bound.metric.is_audited:
            most = common_count(1) if common is None else common
            self._audited = AuditEstimator(bound.delta, most, bound.metric.answers_between, len(self._reads) > 1)
        self._made: Estimate | None = None  # the estimate at this position, where the history needed it

    @property
    def cached_bytes(self) -> int:
        """Bytes of the cache that makes estimates cheap; `forget` frees it."""
        return self._bound.metric.cached_bytes(self.statistic)

    @property
    def columns(self) -> int:
        """Columns of the rows that the metric reads, of all arrays together."""
        return sum(self.metric.widths.values())

    @property
    def metric(self) -> Score:
        """The metric, as it is implemented."""
        return self._bound.metric

    @property
    def common(self) -> IndexedRows | None:
        """The first rows by their indices (see `CommonRows.rows`); None if they are not kept."""
        return None if self._paired is None else self._paired.common()

    @property
    def has_prompts(self) -> bool:
        """True if the metric has groups of prompts."""
        return "prompt groups" in self._bound.metric.offers

    def add(
        self,
        batch: Mapping[str, Tensor],
        ids: Sequence[str],
        listed: Tensor | None = None,
        indices: IndexRuns | None = None,
        prompt: AskedPrompt | None = None,
        seconds: float | None = None,
    ) -> bool:
        """Add a batch, float64 tensors (n, …) by name with n ids. Returns whether an estimate is due exactly now.

        Arrays that the metric does not read are left alone.
        listed: the index (n,) of each row's prompt, where these are a fixed list; None where they are not known.
        indices: the index of the first row in the generator's sequence, and how many rows have one; None: no row.
        prompt: of the batch, if its ask brought one.
        seconds: the time from when the batch was asked for until it was told; None: it is not known.

        Raises FixError, and changes nothing, if the statistic or the reservoir refuses it, or if indices or prompt
        are not valid; KeyError if an array is missing.
        """
        with few_threads(self.columns, len(ids)):
            batch = self._own(batch)
            if self._paired is not None:
                self._paired.check(indices, len(ids))
            if self.reservoir is not None:
                self.reservoir.check(batch, ids)
            learned = None if self.learned is None else self.learned.read(next(iter(batch.values())), prompt)
            named = {} if self.statistic.list_length is None else {"listed": listed}
            self.statistic.update(*(batch[name] for name in self._bound.metric.widths), **named)
            if self.reservoir is not None:
                self.reservoir.update(batch, ids)
            if self._clusters is not None:
                self._clusters.add(torch.tensor(placed(indices, len(ids))), listed)
            if self._paired is not None:
                self._paired.add(batch, indices, listed)
            if self.learned is not None:
                self.learned.add(learned)
            if self._timed is not None and seconds is not None:
                self._timed.add(next(iter(batch.values())), seconds)
            if self._audited is not None:
                self._audited.add([*batch.values()], indices)
            if self._growth == 0.0 and self._bound.name != "influence":
                self._bound.metric.follow(self.statistic)
            return self.skip(len(ids))

    def _own(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The arrays of a batch that the metric reads, by its own names."""
        own = {own: batch[name] for own, name in self._reads.items()}
        return own if self._audited is None else judged(own)

    @property
    def audited(self) -> AuditEstimator:
        """The judge's scores and people's answers. Raises FixError where nobody is asked."""
        if self._audited is None:
            raise FixError("audits: expected a metric with a proxy, a judge that people audit")
        return self._audited

    def hear(self, index: int, weight: float, score: float | None) -> None:
        """Take what people say of a sample from now on, None for nothing. It is left out where the sample is not there,
        and where people are not asked."""
        if self._audited is not None:
            self._audited.hear(AuditAnswer(index, index, weight, math.nan if score is None else score))

    def skip(self, rows: int) -> bool:
        """Skip an unreadable batch of `rows` rows. Returns whether an estimate is due exactly now.

        The rows count, as they did when the store accepted the batch and computed when estimates are due.
        """
        self.samples += rows
        due = is_due(self.samples, self._last_due, self._growth)
        if due:
            self._last_due = self.samples
        self._follow(due)
        return due

    def retract(self) -> bool:
        """Pass a retraction of batches that were left out. Returns whether an estimate is due now, at once."""
        self._last_due = _due_at_once(self.samples)
        self._follow(self._last_due > 0)
        return self._last_due > 0

    def last_due_position(self, rows: Sequence[int | None]) -> int | None:
        """Index of the last of the next entries after which an estimate is due, or None.

        rows: the row count of a batch, 0 of one that is left out, None of a retraction.
        """
        samples, last_due, position = self.samples, self._last_due, None
        for index, count in enumerate(rows):
            samples += count or 0
            if count is None:
                last_due, position = _due_at_once(samples), index if samples >= 2 else position
            elif count and is_due(samples, last_due, self._growth):
                last_due, position = samples, index
        return position

    def forget(self) -> None:
        """Drop the cache that makes estimates cheap. Later estimates equal a restored estimator's bit for bit."""
        self._bound.metric.forget(self.statistic)

    def estimate(self) -> Estimate:
        """The estimate at this position of the log."""
        with few_threads(self.columns):
            if self._made is not None:
                estimate = self._made
            elif self._paired is not None:
                estimate = self._paired.estimate(self.statistic)
            elif isinstance(self._bound, InfluenceBound) and self._clusters is not None:
                estimate = self._bound.estimate(self.statistic, allow=self._clusters.allowed_for)
            else:
                estimate = self._bound.estimate(self.statistic)
        if self._audited is not None and isinstance(self.statistic, MeanStatistic):
            estimate = self._audited.estimate(estimate, self.statistic)
        timing = None if self._timed is None else self._timed.timing
        estimate = estimate if timing is None else replace(estimate, timing=timing)
        return estimate if self.learned is None else replace(estimate, change=self.learned.change)

    def influence(self, batch: Mapping[str, Tensor]) -> NDArray[np.float64] | None:
        """The influence on the estimate of added rows (n, …), by array, up to a constant; None for a metric without
        influences. Raises FixError before the second sample."""
        rows = {name: array.double() for name, array in self._own(batch).items()}
        with few_threads(self.columns):
            influence = self._bound.metric.analyse(self.statistic, rows).influence
        return None if influence is None else influence.cpu().numpy()

    def modes(self, count: int = 5, samples: int = 8) -> list[ModeInfo]:
        """The modes (see `Metric.modes`). Raises FixError for metrics without modes, and before the first sample."""
        with few_threads(self.columns):
            return self._bound.metric.modes(self.statistic, self.reservoir or Reservoir(), count, samples)

    def prompt_groups(self, count: int = 5, samples: int = 8) -> list[PromptGroupInfo]:
        """The groups (see `Metric.prompt_groups`). Raises FixError as `modes` does."""
        with few_threads(self.columns):
            return self._bound.metric.prompt_groups(self.reservoir or Reservoir(), count, samples)

    def _follow(self, is_due: bool) -> None:
        """Take the estimate into the history that is due now, if the history needs it."""
        self._made = self._paired.follow(self.statistic) if self._paired is not None and is_due else None


def _due_at_once(samples: int) -> int:
    """The samples at which an estimate was last due, after a retraction: all that are left, if they suffice for one."""
    return samples if samples >= 2 else 0


def first_rows(logs: Sequence[Sequence[Mapping[str, Tensor]]], count: int) -> dict[str, list[Tensor]]:
    """The first `count` rows of each log, by tensor name, for fixing open kernels."""
    return {name: [torch.cat([batch[name] for batch in log])[:count] for log in logs] for name in logs[0][0]}
