"""Vendi scores and RKE, of generators and of mixtures: how many kinds of sample a kernel sees (equations.md §3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from optimist.estimates.programme import Floats
from optimist.metrics.base import Analysis, Identity, Score
from optimist.metrics.feature_maps import ExactKernel, FeatureMap
from optimist.metrics.mixtures.objective import Common, Half, Objective
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.spectra.following import SMALLEST_WIDTH, TraceFollower
from optimist.metrics.state import copied
from optimist.metrics.vendi.entropy_objective import EntropyObjective
from optimist.metrics.vendi.influence import entropy_influence, kernel_warnings, with_errors
from optimist.metrics.vendi.pair_objective import ROWS, PairObjective, RowFunction
from optimist.metrics.vendi.spectrum import KernelMatrix, check_order, eigenvalues_of, log_vendi, modes_of, spectrum_by
from optimist.metrics.vendi.statistic import KernelStatistic, SecondMoment, inner_products, mixed
from optimist_client.errors import FixError
from optimist_client.metrics import RKE, Metric, Vendi
from optimist_client.models.modes import ModeInfo


class RenyiObjective(PairObjective):
    """κ = k², by the second moments of φ. The loss is log L = −log RKE."""

    is_log = True

    def of(self, rows: Tensor) -> Tensor:
        return rows.clone()

    def total(self, i: int, j: int) -> float:
        return float(self._totals[i, j])

    @cached_property
    def _totals(self) -> Floats:
        return inner_products(self.parts)

    def unbiased(self, i: int) -> float:
        """The mean of k² over pairs of different samples of i, as in an estimate of this generator alone.

        For a list of prompts a half is corrected as much as the whole is: its pairs are any of the whole's.
        """
        n, statistic = self.samples[i], self.statistics[i]
        mean = (self.total(i, i) - n) / (n * (n - 1))
        if statistic.listed is None:
            return mean
        everything = statistic.samples
        apart = statistic.square_sum - everything
        listed = statistic.listed.mean_square(apart, everything, statistic.rows)
        return mean + listed - apart / (everything * (everything - 1))

    def seen(self, features: Tensor, j: int) -> Tensor:
        return self.parts[j].within(features)

    def weighed(self, i: int, influence: Tensor, common: bool) -> Tensor:
        listed = self.statistics[i].listed
        if listed is None:
            return influence
        count = len(influence)
        prompts = (self.given[i] or {}).get("listed") if common else listed.last[len(listed.last) - count :]
        columns = influence.reshape(count, -1).unbind(1)
        last = min(self.statistics[i].samples, ROWS)
        weighted = [listed.weighed(column.contiguous(), prompts, last) for column in columns]
        return torch.stack(weighted, dim=1).reshape(influence.shape)

    def glimpsed(self, features: Tensor, j: int) -> Tensor:
        part = self.parts[j]
        if part.rows is None:
            # The last 256 samples stand for all in errors of slopes, once not all φ are held.
            part = SecondMoment(self.statistics[j].last_rows[-256:])
        return part.within(features) / part.count

    def mix(self, shares: Floats) -> RowFunction:
        return mixed(self.parts, shares)

    def itself(self, features: Tensor) -> Tensor:
        return features.new_ones(len(features))

    def matched(self, features: Tensor, others: Tensor) -> Tensor:
        return (features * others).sum(-1).square()


class VendiScore(Score):
    """log Vendi_α of the covariance C = (1/n) Σ φφᵀ of unit-norm features, for any order α ≥ 1e-6; higher is better.

    α may be inf. With `truncation` = t it is the t-truncated score (equations.md §3), at most log t; otherwise it is at
    most log width. The eigenvalues come from the n × n Gram matrix of the φ while n ≤ width, then from C itself. At
    order 2, `prompts` is the length of the list that the samples' prompts are, if the score is about these. Raises
    FixError on an order below 1e-6, or a truncation outside 1 … width.
    """

    declared: type[Metric] | Metric = Vendi

    def __init__(
        self,
        feature_map: FeatureMap,
        order: float = 1.0,
        truncation: int | None = None,
        prompts: int | None = None,
    ) -> None:
        self.feature_map = feature_map
        self.dimension, self.width = feature_map.dimension, feature_map.width
        self.widths = {"features": feature_map.dimension}
        self.prompts = prompts
        self.order = check_order(order)
        if truncation is not None and not 1 <= truncation <= feature_map.width:
            raise FixError(f"truncation must lie between 1 and the {feature_map.width} features, not {truncation!r}")
        self.truncation = truncation

    mixed = EntropyObjective

    @property
    def offers(self) -> frozenset[str]:
        """Mixtures where the score is a smooth function of the whole spectrum, and modes at every order; neither by the
        exact kernel, which has no φ."""
        if isinstance(self.feature_map, ExactKernel):
            return frozenset()
        return frozenset({"modes", "mixtures"} if self.truncation is None and self.order < math.inf else {"modes"})

    @property
    def ceiling(self) -> int:
        """The largest value on the natural scale: t of a truncated score, otherwise the width."""
        return self.width if self.truncation is None else self.truncation

    @property
    def log_ceiling(self) -> float:
        """The largest value in log."""
        return math.log(self.ceiling)

    @property
    def needs_halves(self) -> bool:
        """True if its de-biased estimate reads the two half-streams (rules/estimates.md)."""
        return self.truncation is not None or self.order > 2.0

    def statistic(self, halves: bool = True) -> KernelStatistic:
        """An empty statistic on the feature map's device.

        halves: whether it keeps the half-streams apart past n = width, which mixtures read, and the analysis where
        `needs_halves` says so.
        """
        return KernelStatistic(self.feature_map, halves=halves, prompts=self.prompts)

    def alone(self) -> KernelStatistic:
        return self.statistic(halves=self.needs_halves)

    def follow(self, statistic: KernelStatistic) -> None:
        """Keep a cache that makes the plug-in of this statistic cheap; call it again after every batch.

        Does nothing for scores that are not a function of one trace (orders below 1, ∞, truncated ones), or if a plain
        eigenproblem costs less.
        """
        has_trace = self.truncation is None and 1.0 <= self.order < math.inf
        if has_trace and self.width >= SMALLEST_WIDTH and statistic.samples:
            self.cache(statistic).setdefault("followed", _Followed(self.order, self.width)).catch_up(statistic)

    def common_features(self, statistic: KernelStatistic, rows: Tensor) -> Tensor:
        """φ (m, width) of a statistic's common rows (m, d). Most of them have long been told, and are kept."""
        kept: list[tuple[Tensor, Tensor]] = self.cache(statistic).setdefault("common", [])
        # Blocks of 64 rows, whose φ are computed, and kept, at once.
        blocks = copied(rows, self.feature_map.device).split(64)
        for index, block in enumerate(blocks):
            if index == len(kept) or not torch.equal(kept[index][0], block):
                own = block.clone()
                kept[index : index + 1] = [(own, self.feature_map(own))]
        del kept[len(blocks) :]
        return torch.cat([features for _, features in kept])

    def _square_sum(self, statistic: KernelStatistic) -> float:
        rows = statistic.rows
        if rows is None:
            return statistic.square_sum
        return float(self.matrix(statistic).of(self.feature_map, rows).square().sum())

    def matrix(self, statistic: KernelStatistic) -> KernelMatrix:
        """The kept panels of the kernel's matrix of a statistic, while this holds its rows."""
        cache = self.cache(statistic)
        if not statistic.holds_rows:
            cache.pop("matrix", None)
            return KernelMatrix()
        return cache.setdefault("matrix", KernelMatrix())

    def plug_in(self, statistic: KernelStatistic) -> float:
        """The log score of the samples as they are, 0 … log ceiling. Raises FixError on no samples."""
        self.check(statistic)
        n = statistic.samples
        followed: _Followed | None = self.cache(statistic).get("followed")
        trace = followed.trace if followed is not None and followed.samples == n else None
        if self.order == 2.0 and self.truncation is None:
            square_sum = self._square_sum(statistic) if trace is None else trace
            return max(2.0 * math.log(n) - math.log(square_sum), 0.0)
        if trace is not None and self.order == 1.0:
            return max(math.log(n) - trace / n, 0.0)
        if trace is not None:
            return max((math.log(trace) - self.order * math.log(n)) / (1.0 - self.order), 0.0)
        return log_vendi(self.spectrum(statistic), self.order, self.truncation)

    def analyse(self, statistic: KernelStatistic, common: Common | None = None) -> Analysis:
        """The de-biased log score, from n ≥ 2 samples.

        Where the prompts are a list, "listed" (m, int64) in `common` are the prompts of its rows, and influences are
        weighted as `ListedPrompts.weighed` does. Raises FixError as `Score.analyse` does, and on missing halves.
        """
        n, given = statistic.samples, common or {}
        entropy = entropy_influence(self, statistic, *([given["features"]] if given else []))
        if self.truncation is None:
            said = kernel_warnings(self.order, n, self.feature_map, entropy.estimate)
            return with_errors(entropy, n, said, statistic.listed, given.get("listed"))
        few = f"fewer samples than twice the truncation: {n} samples for {self.truncation} eigenvalues"
        return with_errors(entropy, n, (few,) if n < 2 * self.truncation else ())

    def modes(
        self, statistic: KernelStatistic, reservoir: Reservoir, count: int = 5, samples: int = 8
    ) -> list[ModeInfo]:
        """The modes of φ over all samples seen, shown by samples of the reservoir; `modes_of` says which.

        Raises FixError on a statistic without samples or of another metric, and as `modes_of` does.
        """
        self.check(statistic)
        return modes_of(statistic, reservoir, self.widths, count, samples)

    def objective(
        self, statistics: Sequence[KernelStatistic], half: Half | None = None, common: Sequence[Common | None] = ()
    ) -> Objective:
        """As `Score.objective` has it; at order 2 by means over pairs."""
        if self.order == 2.0 and self.truncation is None:
            return RenyiObjective(self, statistics, half, common)
        return super().objective(statistics, half, common)

    def identity(self) -> Identity:
        return [(self.feature_map.name, self.feature_map.tensors())]

    def spectrum(self, statistic: KernelStatistic) -> Tensor:
        """The min(n, width) largest eigenvalues of C, descending and ≥ 0. Raises FixError on no samples."""
        self.check(statistic)
        rows = statistic.rows
        if rows is not None:
            return spectrum_by(self.feature_map, rows)
        return eigenvalues_of(statistic.moment / statistic.samples)

    def half_spectra(self, statistic: KernelStatistic) -> tuple[Tensor, Tensor]:
        """The spectra of `spectrum` for the samples of even and of odd index, separately. Raises FixError on fewer than
        2 samples.

        Past n = width it needs a statistic made with `halves`, and raises FixError on another.
        """
        self.check(statistic)
        if statistic.samples < 2:
            raise FixError("halves of a stream need at least 2 samples")
        rows = statistic.rows
        if rows is not None:
            return spectrum_by(self.feature_map, rows[::2]), spectrum_by(self.feature_map, rows[1::2])
        counts = ((statistic.samples + 1) // 2, statistic.samples // 2)
        even, odd = (eigenvalues_of(statistic.half_moment(parity) / count) for parity, count in enumerate(counts))
        return even, odd


class _Followed:
    """Tr f(S) of one growing statistic: f = x^α, or x log x at order 1."""

    def __init__(self, order: float, width: int) -> None:
        self.samples = 0
        self._order = order
        self._width = width
        self._square = 0.0
        self.follower = TraceFollower(order, width)

    @property
    def bytes(self) -> int:
        return self.follower.bytes

    @property
    def trace(self) -> float | None:
        """Tr f(S); None if only the eigenvalues themselves are accurate enough."""
        return self._square if self._order == 2.0 else self.follower.value

    def catch_up(self, statistic: KernelStatistic) -> None:
        """Add the new φ, or start from the moment if the statistic no longer has all of them."""
        fresh = statistic.samples - self.samples
        if fresh == 0:
            return
        self.samples = statistic.samples
        rows = statistic.rows
        if self._order == 2.0:
            # ‖S + UUᵀ‖² = ‖S‖² + 2 tr UᵀSU + ‖UᵀU‖² on rows; one pass over S is as cheap once there is S.
            if rows is None:
                self._square = statistic.square_sum
            else:
                products = rows[-fresh:] @ rows.T
                self._square += float(products.square().sum() + products[:, :-fresh].square().sum())
            return
        latest = statistic.latest(fresh)
        if latest is None:
            self.follower = TraceFollower(self._order, self._width)
            self.follower.start(statistic.samples, lambda: statistic.moment)
        else:
            self.follower.append(latest, lambda: statistic.moment)


class RenyiKernelEntropy(VendiScore):
    """log RKE = −log ‖C‖_F², which is log Vendi of order 2 and needs no eigenvalues; higher is better."""

    declared = RKE

    def __init__(self, feature_map: FeatureMap, prompts: int | None = None) -> None:
        super().__init__(feature_map, order=2.0, prompts=prompts)
