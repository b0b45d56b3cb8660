"""The Fréchet distance between a generator's features and the reference's (equations.md §1)."""

from __future__ import annotations

from torch import Tensor

from optimist.metrics.base import Analysis, Score
from optimist.metrics.fid.influence import FrechetInfluence, FrechetTerms, terms_of
from optimist.metrics.fid.objective import FrechetObjective
from optimist.metrics.fid.reference import FrechetReference
from optimist.metrics.fid.statistic import GaussianStatistic
from optimist.metrics.mixtures.objective import Common
from optimist.metrics.spectra.eigen import centre
from optimist.metrics.spectra.following import SMALLEST_WIDTH, TraceFollower
from optimist.metrics.spectra.symmetric import congruence, increments, largest_eigenvalue
from optimist.metrics.state import copied
from optimist.metrics.unsampled import unsampled
from optimist_client.metrics import FID


class FrechetDistance(Score):
    """FID̃ = ‖μ̂ − μ_r‖² + Tr[Σ̂ + Σ_r − 2 (Σ̂Σ_r)^{1/2}], lower is better.

    The trace of the root is computed from the n × n Gram matrix of the rows while n ≤ rank, which is as long as the
    statistic keeps them, and then from the symmetric eigenproblem of S Σ̂ S, S = Σ_r^{1/2}.
    """

    declared = FID
    mixed = FrechetObjective

    def __init__(self, reference: FrechetReference) -> None:
        self.reference, self.dimension = reference, reference.dimension
        self.widths = {"features": self.dimension}
        self._influence = FrechetInfluence(reference)

    def statistic(self, scatter: bool = False, halves: bool = True) -> GaussianStatistic:
        """An empty statistic on the reference's device that keeps all rows while n ≤ rank.

        halves: whether it keeps the half of even places apart past that, which mixtures read.
        """
        dimension, keep, device = self.dimension, self.reference.rank, self.reference.device
        return GaussianStatistic(dimension, keep=keep, scatter=scatter, halves=halves, device=device)

    def alone(self) -> GaussianStatistic:
        return self.statistic(halves=False)

    def follow(self, statistic: GaussianStatistic) -> None:
        """Keep a cache that makes the plug-in of this statistic cheap; call it again after every batch.

        Does nothing if a plain eigenproblem costs less.
        """
        if self.reference.support >= SMALLEST_WIDTH and statistic.samples:
            self.cache(statistic).setdefault("followed", _Followed(self.reference)).catch_up(statistic)

    def largest_eigenvalue(self, statistic: GaussianStatistic) -> float | None:
        """λ_max of the scatter (to 1e-10), None unless it is followed, up to date and held."""
        followed: _Followed | None = self.cache(statistic).get("followed")
        if followed is None or followed.samples != statistic.samples or not statistic.holds_scatter:
            return None
        value, followed.top = largest_eigenvalue(statistic.triangle, followed.top)
        return value

    def plug_in(self, statistic: GaussianStatistic, unbiased: bool = False) -> float:
        """The distance with the 1/n covariance, or the 1/(n − 1) one if `unbiased`; never negative.

        Raises FixError on no samples, on 1 sample if `unbiased`, and on a statistic of another metric.
        """
        return self.terms(statistic).distance(statistic.samples - int(unbiased))

    def terms(self, statistic: GaussianStatistic) -> FrechetTerms:
        """The distance's terms, as `follow` keeps them if they are up to date, otherwise by `terms_of`.

        Raises FixError on no samples, and on a statistic of another metric.
        """
        self.check(statistic)
        reference = self.reference
        followed: _Followed | None = self.cache(statistic).get("followed")
        if followed is not None and followed.samples == statistic.samples:
            root = followed.trace.value
            if root is not None:
                gap = float((statistic.mean - reference.mean).square().sum())
                return FrechetTerms(gap, statistic.scatter_trace, root, reference.trace)
        return terms_of(reference, statistic)

    def analyse(self, statistic: GaussianStatistic, common: Common | None = None) -> Analysis:
        self.check(statistic, min_samples=2)
        rows = [] if common is None else [copied(common["features"], self.reference.device)]
        first = None if common is None else common.get("first")
        return self._influence.analyse(statistic, self.cache(statistic), *rows, first=first)

    def warnings(self, statistic: GaussianStatistic) -> tuple[str, ...]:
        """Warnings if there are few samples for the reference's rank, if they lie outside its span, or if none is near
        some of the real rows, where these are known."""
        samples, rank = statistic.samples, self.reference.rank
        warnings: list[str] = []
        if samples <= rank:
            warnings.append(f"fewer samples than dimensions: {samples} samples, and the reference has rank {rank}")
        share = self.outside_share(statistic)
        if share > 0.01:
            warnings.append(
                f"too few real samples: {share:.1%} of the variance lies outside the reference's span; add real ones"
            )
        real = self.reference.finite
        if real is not None and not real.is_guessed:
            warnings += unsampled(real.rows, statistic.last_rows - self.reference.mean, samples)
        return tuple(warnings)

    def outside_share(self, statistic: GaussianStatistic) -> float:
        """The share of Tr Σ̂ outside the span of Σ_r, 0 to 1: it counts in full, for any reference."""
        if self.reference.rank == self.dimension or statistic.scatter_trace == 0.0:
            return 0.0
        rows = statistic.rows
        if rows is None or statistic.holds_scatter:
            inside = statistic.triangle.inner(self.reference.projector)
        else:
            inside = float((centre(rows)[1] @ self.reference.basis()).square().sum())
        return min(max(1.0 - inside / statistic.scatter_trace, 0.0), 1.0)


class _Followed:
    """Tr (S · scatter · S)^{1/2} of one growing statistic, and the largest eigenvalue of its scatter."""

    def __init__(self, reference: FrechetReference) -> None:
        self.samples = 0
        self.top: Tensor | None = None
        self._factor = reference.whole_factor
        self._restart()

    @property
    def bytes(self) -> int:
        return self.trace.bytes

    def catch_up(self, statistic: GaussianStatistic) -> None:
        """Add the new rows, or start from the scatter if the statistic no longer has all of them."""
        fresh = statistic.samples - self.samples
        if fresh == 0:
            return

        def scatter() -> Tensor:
            return congruence(self._factor, statistic.scatter)

        rows = statistic.latest(fresh)
        if rows is None and statistic.rows is not None:
            self._restart()
            rows = statistic.rows
        if rows is None:
            self._restart()
            self.trace.start(statistic.samples, scatter)
        else:
            added = increments(self.samples, self._mean, rows)
            if len(added):
                self.trace.append(added, scatter)
        self.samples, self._mean = statistic.samples, statistic.mean

    def _restart(self) -> None:
        self.samples, self._mean = 0, self._factor.new_zeros(self._factor.shape[-1])
        self.trace = TraceFollower(0.5, len(self._factor), self._factor)
