"""The loss of blends of some generators, as a metric computes it from their statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from optimist.numerics.mixtures.quadratic import Floats, Quadratic


@dataclass(frozen=True)
class Blended:
    """One blend as the samples of an objective score it. The loss is on the metric's scale (`Score.scale`)."""

    loss: float
    """De-biased: the score where lower is better, else minus the score."""
    slopes: Floats
    """(G,): derivative of the loss by each weight, up to a number that all share; de-biased as far as possible."""
    rows: tuple[Tensor, ...]
    """For each generator the influence on the loss (b_i,) of its last rows, float64: the loss has the variance
    Σ_i Var(rows_i)/n_i + `extra`. Already multiplied by the generator's weight: zeros where the weight is 0. Rows are
    the same, in the same order, for every blend of one objective, so that differences are taken row by row."""
    extra: float = 0.0
    """Variance beyond the first order of the rows: second order, and what is extrapolated."""
    common: tuple[Tensor | None, ...] = ()
    """The same influence of the common rows (m_i,) of each generator, where these were given."""
    slope_rows: tuple[Tensor, ...] = ()
    """For each generator the influence (b_i, G) of the same rows on `slopes`; () if only `rows` are asked for."""


class Objective(Protocol):
    """The loss of blends of G generators by the samples of one half of their logs, or by all. Convex in the weights."""

    @property
    def samples(self) -> tuple[int, ...]:
        """Samples of each generator (G)."""
        ...

    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        """Second-order model, at these weights (G,), of the loss that weights are chosen by; exact if it is quadratic.

        The matrix is positive semidefinite. published: with the papers' biased estimates (the V-statistic, plug-in
        moments) in place of unbiased ones.
        """
        ...

    def deviations(self, weights: Floats) -> Floats:
        """Standard deviation (G,) of what one sample adds to its generator's entry of the gradient of `model`."""
        ...

    def analyse(self, weights: Floats, *, slopes: bool = False) -> Blended:
        """The de-biased loss of a blend and its influences. slopes: with `slope_rows`, too."""
        ...
