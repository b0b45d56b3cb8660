"""RKE of blends: L(α) = Σ α_i α_j E k², whose inverse it is (docs/mixtures.md)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from optimist.metrics.mixtures.objective import Common, Half
from optimist.metrics.mixtures.shared_chance import SharedChance
from optimist.metrics.rows import copied
from optimist.metrics.vendi.pair_objective import ROWS, PairObjective, Seen, checked, places_in
from optimist.metrics.vendi.second_moment import SecondMoment, blended, inner_products
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist.numerics.mixtures.quadratic import Floats

if TYPE_CHECKING:
    from optimist.metrics.vendi.score import VendiScore

GLIMPSED = 256
"""Last samples of a generator that stand for all in errors of slopes, once not all φ are held."""


class SquaredKernel:
    """κ = k², by the second moments of φ: `Pairs`. The loss is log L = −log RKE."""

    constant = 0.0
    is_log = True

    def __init__(
        self,
        metric: VendiScore,
        statistics: Sequence[KernelStatistic],
        half: Half | None,
        common: Sequence[Common | None] = (),
    ) -> None:
        for statistic in statistics:
            metric.check(statistic)
        samples = [statistic.samples for statistic in statistics]
        checked(samples)
        self.share = SharedChance.of(samples, common).share
        self._metric, self._statistics, self._half = metric, statistics, half
        self._parts = [statistic.part(half) for statistic in statistics]
        self.samples = tuple(part.count for part in self._parts)
        self._prompts = [None if rows is None else rows.get("listed") for rows in common]
        self._common = [None if rows is None else self._common_features(rows) for rows in common]

    def total(self, i: int, j: int) -> float:
        """⟨S_i, S_j⟩."""
        return float(self._totals[i, j])

    @cached_property
    def _totals(self) -> Floats:
        return inner_products(self._parts)

    def unbiased(self, i: int) -> float:
        """As in an estimate of this generator alone. For a list of prompts a half is corrected as much as the whole is:
        its pairs are any of the whole's."""
        n, statistic = self.samples[i], self._statistics[i]
        found = (self.total(i, i) - n) / (n * (n - 1))
        if statistic.listed is None:
            return found
        everything = statistic.samples
        apart = statistic.square_sum - everything
        listed = statistic.listed.mean_square(apart, everything, statistic.rows)
        return found + listed - apart / (everything * (everything - 1))

    def features(self, i: int) -> tuple[Tensor, Tensor]:
        """φ of the last rows."""
        rows = self._statistics[i].last_rows[-ROWS:].clone()
        return rows, places_in(self._statistics[i].samples, len(rows), self._half, rows.device)

    def common(self, i: int) -> tuple[Tensor, Tensor] | None:
        """φ of the common rows. Places in the log count as those of the indices."""
        rows = self._common[i] if self._common else None
        return None if rows is None else (rows, places_in(len(rows), len(rows), self._half, rows.device))

    def seen(self, features: Tensor, j: int) -> Tensor:
        """φᵀS_jφ."""
        return self._parts[j].within(features)

    def weighed(self, i: int, influence: Tensor, common: bool) -> Tensor:
        """As `ListedPrompts.weighed` does where prompts are a list."""
        listed = self._statistics[i].listed
        if listed is None:
            return influence
        count = len(influence)
        prompts = self._prompts[i] if common else listed.last[len(listed.last) - count :]
        columns = influence.reshape(count, -1).unbind(1)
        last = min(self._statistics[i].samples, ROWS)
        found = [listed.weighed(column.contiguous(), prompts, last) for column in columns]
        return torch.stack(found, dim=1).reshape(influence.shape)

    def glimpsed(self, features: Tensor, j: int) -> Tensor:
        """Over all samples while their φ are held, then over the last ones."""
        part = self._parts[j]
        if part.rows is None:
            part = SecondMoment(self._statistics[j].last_rows[-GLIMPSED:])
        return part.within(features) / part.count

    def blend(self, shares: Floats) -> Seen:
        """φᵀ(Σ_j shares_j S_j)φ."""
        return blended(self._parts, shares)

    def itself(self, features: Tensor) -> Tensor:
        """1."""
        return features.new_ones(len(features))

    def matched(self, features: Tensor, others: Tensor) -> Tensor:
        """k²."""
        return (features * others).sum(-1).square()

    def _common_features(self, rows: Common) -> Tensor:
        feature_map = self._metric.feature_map
        return feature_map(copied(rows["features"], feature_map.device))


def renyi_objective(
    metric: VendiScore,
    statistics: Sequence[KernelStatistic],
    half: Half | None = None,
    common: Sequence[Common | None] = (),
) -> PairObjective:
    """`Score.objective` of RKE, raises as that does."""
    return PairObjective(SquaredKernel(metric, statistics, half, common))
