"""The Fréchet distance between a generator's features and the reference's (equations.md §1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from optimist.estimates import Scale
from optimist.metrics.reference import Reference
from optimist.spectra import centre, root_trace
from optimist.statistics import GaussianStatistic

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
        if statistic.rows is not None:
            inside = float((centre(statistic.rows)[1] @ basis).square().sum())
        else:
            inside = float(((statistic.scatter @ basis) * basis).sum())
        return min(max(1.0 - inside / statistic.scatter_trace, 0.0), 1.0)


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
