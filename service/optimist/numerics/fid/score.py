"""The Fréchet distance between a generator's features and the reference's (equations.md §1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from optimist.numerics.estimate import Scale
from optimist.numerics.fid.reference import Reference
from optimist.numerics.fid.statistic import GaussianStatistic
from optimist.numerics.spectra import (
    SMALLEST_WIDTH,
    TraceFollower,
    centre,
    increments,
    largest_eigenvalue,
    root_trace,
    symmetric_product,
)

Route = Literal["gram", "covariance"]


@dataclass(frozen=True)
class FrechetTerms:
    """What a Fréchet distance is made of, whatever number the scatter is divided by."""

    gap: float
    """‖μ̂ − μ_r‖²."""
    trace: float
    """Tr of the scatter."""
    root: float
    """Tr (S · scatter · S)^{1/2}."""
    reference_trace: float
    """Tr Σ_r."""

    def distance(self, degrees: int) -> float:
        """The distance with scatter / degrees as covariance, never negative. Raises ValueError on degrees < 1."""
        if degrees < 1:
            raise ValueError("the unbiased covariance needs at least 2 samples")
        spread = self.trace / degrees + self.reference_trace - 2.0 * self.root / math.sqrt(degrees)
        return max(self.gap + spread, 0.0)


class FrechetDistance:
    """FID̃ = ‖μ̂ − μ_r‖² + Tr[Σ̂ + Σ_r − 2 (Σ̂Σ_r)^{1/2}], lower is better.

    The root's trace has two routes to one number: the n × n Gram matrix of the rows while n ≤ rank, which is as long as
    the statistic keeps them, then the symmetric eigenproblem of S Σ̂ S, S = Σ_r^{1/2}.
    """

    name = "fid"
    scale: Scale = "linear"
    lower_is_better = True

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self._followed: WeakKeyDictionary[GaussianStatistic, _Followed] = WeakKeyDictionary()

    @property
    def dimension(self) -> int:
        """d, the reference's."""
        return self.reference.dimension

    @property
    def widths(self) -> dict[str, int]:
        """See `Metric.widths`."""
        return {"features": self.dimension}

    def statistic(self, scatter: bool = False) -> GaussianStatistic:
        """An empty statistic on the reference's device that keeps all rows while n ≤ rank."""
        reference = self.reference
        return GaussianStatistic(reference.dimension, keep=reference.rank, scatter=scatter, device=reference.device)

    def restore(self, tensors: dict[str, Tensor]) -> GaussianStatistic:
        """See `Metric.restore`."""
        return GaussianStatistic.from_tensors(tensors, self.reference.device)

    def check(self, statistic: GaussianStatistic) -> None:
        """Raises ValueError unless the statistic has samples and the layout that `statistic` gives."""
        if (statistic.dimension, statistic.keep) != (self.dimension, self.reference.rank):
            raise ValueError(
                "the statistic is laid out for another metric or reference; make it with metric.statistic()"
            )
        if statistic.samples < 1:
            raise ValueError("a Fréchet distance needs at least 1 sample")

    def follow(self, statistic: GaussianStatistic) -> None:
        """Keep what makes the plug-in of this statistic cheap after every batch; to be called again after each.

        The plug-in then differs from that of a statistic that is not followed by rounding and 1e-7 at most. Does
        nothing where a plain eigenproblem costs less.
        """
        if self.reference.root.shape[-1] >= SMALLEST_WIDTH and statistic.samples:
            self._followed.setdefault(statistic, _Followed(self.reference)).catch_up(statistic)

    def forget(self, statistic: GaussianStatistic) -> None:
        """Drop what `follow` keeps: the next call begins anew, from the statistic alone."""
        self._followed.pop(statistic, None)

    def followed_bytes(self, statistic: GaussianStatistic) -> int:
        """Of memory that `follow` takes for this statistic."""
        followed = self._followed.get(statistic)
        return 0 if followed is None else followed.trace.bytes

    def largest_eigenvalue(self, statistic: GaussianStatistic) -> float | None:
        """λ_max of the scatter (to 1e-10), None unless it is followed, up to date and held."""
        followed = self._followed.get(statistic)
        if followed is None or followed.samples != statistic.samples or not statistic.holds_scatter:
            return None
        value, followed.top = largest_eigenvalue(statistic.scatter, followed.top)
        return value

    def plug_in(self, statistic: GaussianStatistic, unbiased: bool = False) -> float:
        """The distance with the 1/n covariance, or the 1/(n − 1) one if `unbiased`; never negative.

        Raises ValueError on no samples, on 1 sample if `unbiased`, and on a statistic of another metric.
        """
        return self.terms(statistic).distance(statistic.samples - int(unbiased))

    def terms(
        self, statistic: GaussianStatistic, *, route: Route | None = None, spectrum: Tensor | None = None
    ) -> FrechetTerms:
        """The distance's terms, by the route that n asks for unless another is named.

        `spectrum` spares the eigenproblem where the caller has the eigenvalues of rootᵀ scatter root over the
        reference's `rank`, or those of the Gram matrix. Raises ValueError on no samples, a statistic of another metric,
        and the Gram route without rows.
        """
        self.check(statistic)
        reference, rows = self.reference, statistic.rows
        followed = self._followed.get(statistic)
        if followed is not None and followed.samples == statistic.samples and route is None and spectrum is None:
            followed_root = followed.trace.value
            if followed_root is not None:
                gap = float((statistic.mean - reference.mean).square().sum())
                return FrechetTerms(gap, statistic.scatter_trace, followed_root, reference.trace)
        # The caller's spectrum leaves out what lies between rank and support.
        spectrum = spectrum if reference.rank == reference.support else None
        if rows is not None:
            mean, centred = centre(rows)
            trace = float(centred.square().sum())
        elif route != "gram":
            mean, centred, trace = statistic.mean, None, statistic.scatter_trace
        else:
            raise ValueError(f"the Gram route needs all rows, which are kept up to {statistic.keep} samples")
        if centred is not None and route != "covariance":
            root = _gram_root(centred, reference.root, spectrum)
        else:
            root = _covariance_root(statistic.scatter, reference.root, spectrum)
        return FrechetTerms(float((mean - reference.mean).square().sum()), trace, root, reference.trace)

    def outside_share(self, statistic: GaussianStatistic) -> float:
        """The share of Tr Σ̂ outside the span of Σ_r, 0 to 1: it counts in full, whatever the reference."""
        basis = self.reference.basis
        if self.reference.rank == self.dimension or statistic.scatter_trace == 0.0:
            return 0.0
        rows = statistic.rows
        if rows is None or statistic.holds_scatter:
            inside = float(statistic.scatter.flatten() @ self.reference.projector.flatten())
        else:
            inside = float((centre(rows)[1] @ basis).square().sum())
        return min(max(1.0 - inside / statistic.scatter_trace, 0.0), 1.0)


class _Followed:
    """Tr (S · scatter · S)^{1/2} of one statistic as its batches come, and the top of its scatter."""

    def __init__(self, reference: Reference) -> None:
        self.samples = 0
        self.top: Tensor | None = None
        self._root = reference.root
        self._restart()

    def catch_up(self, statistic: GaussianStatistic) -> None:
        """Take the rows that came since, or begin anew where too many did."""
        fresh = statistic.samples - self.samples
        if fresh == 0:
            return

        def scatter() -> Tensor:
            return symmetric_product(self._root.T, statistic.scatter @ self._root)

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
        self.samples, self._mean = 0, self._root.new_zeros(len(self._root))
        self.trace = TraceFollower(0.5, self._root.shape[-1], self._root)


def _gram_root(centred: Tensor, root: Tensor, spectrum: Tensor | None) -> float:
    """Tr √(ZᵀZ), Z = centred · root, from centred rows (n, d) by the Gram matrix of Z."""
    if spectrum is not None:
        return root_trace(spectrum, lambda: centred @ root)
    whitened = centred @ root
    # Centred rows are dependent: the smallest eigenvalue is zero but for noise, which a root would magnify.
    return root_trace(torch.linalg.eigvalsh(whitened @ whitened.T)[1:], lambda: whitened)


def _covariance_root(scatter: Tensor, root: Tensor, spectrum: Tensor | None) -> float:
    """Tr √(rootᵀ scatter root), scatter (d, d)."""
    eigenvalues: Tensor = torch.linalg.eigvalsh(root.T @ scatter @ root) if spectrum is None else spectrum

    def factor() -> Tensor:
        squares, eigenvectors = torch.linalg.eigh(scatter)
        # Noise in directions that no sample has would add its root for each of them.
        noise = len(squares) * torch.finfo(squares.dtype).eps * squares[-1]
        roots = torch.where(squares > noise, squares, 0.0).sqrt()
        return roots[:, None] * (eigenvectors.T @ root)

    return root_trace(eigenvalues, factor)
