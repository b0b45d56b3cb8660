"""tr √M of a population from the spectrum of a sample, by the leave-one-out map (rules/estimates.md).

Rows of several generators that answer the same seed are alike. What is without a row must then be without all rows of
its index: Z_t, the rows of index t with the square roots of their weights, is taken out of M̂ = Σ_t Z_tᵀZ_t by

    Z_t(M̂₋ + w)⁻¹Z_tᵀ = K(I − K)⁻¹,   K = Z_t(M̂ + w)⁻¹Z_tᵀ

Rows of different indices, put together as if they were of one, show what independent rows would give. The ratio of the
two is 1 where generators are independent.

The sample's degrees of freedom tr[M̂(M̂ + wI)⁻¹] become the population's, D(x), at another ridge x(w); each row's
leave-one-out leverage, known in closed form, carries the map, which holds for rows of very unequal size. Then

    tr √M = (1/π) ∫₀^∞ x^{-1/2} D(x) dx
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class SameIndexRows:
    """Rows of the same indices of S generators with weight, and of O without, in the eigenbasis of M̂."""

    rows: Tensor
    """(S, m, k): rows times the square root of their weight α_i/n_i, over the square root of the eigenvalue."""
    others: Tensor
    """(O, m, k): rows of generators without weight, over the square root of the eigenvalue."""
    own: Tensor
    """(S): α_i/n_i."""
    weights: Tensor
    """(S): α_i."""
    shared: Tensor
    """(S + O): the share of each generator's samples that have an index in common."""

    def ratios(self, held: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
        """Factors of zᵀ(M̂₋ + w)⁻¹z for rows of each generator (S + O, W), and of the degrees of freedom that leave
        with a row (W). held, free (k, W): g/(g + w) and w/(g + w).
        """
        moved, others = _moved(self.rows, 0), _moved(self.others, len(self.rows))
        products, single, taken = self._without(self.rows, self.others, held, free)
        expected, usual, apart = self._without(moved, others, held, free)
        outside = _ratio(products, expected)
        part = float(self.weights @ self.shared[: len(self.weights)])
        return 1.0 + self.shared[:, None] * (outside - 1.0), 1.0 + part * (_ratio(single + taken - apart, usual) - 1.0)

    def _alike(self) -> Tensor:
        """Correlations (S, S) of the rows of one index."""
        flat = (self.rows - self.rows.mean(1, keepdim=True)).flatten(1)
        lengths = flat.norm(dim=1)
        correlations = (flat @ flat.T) / torch.outer(lengths, lengths).clamp_min(1e-300)
        return correlations.fill_diagonal_(0.0)

    def _without(self, rows: Tensor, others: Tensor, held: Tensor, free: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Means over the indices of zᵀ(M̂₋ + w)⁻¹z (S + O, W), and of the degrees of freedom (W) that leave with rows
        singly, and by their similarity."""
        inside, spread = _products(rows, rows, held), _products(rows, rows, held * free)
        identity = torch.eye(len(rows), dtype=held.dtype, device=held.device)
        left = identity - torch.outer(self.own.sqrt(), self.own.sqrt()) - inside
        inverse = torch.linalg.inv(_positive(left))
        outside = [(inverse * inside).sum(-1).mean(0)]
        if len(others):
            crossed = _products(others, rows, held)
            single = torch.stack([rows_of.square() @ held for rows_of in others], -1)
            outside.append((single + ((crossed @ inverse) * crossed).sum(-1)).mean(0))
        freedom = (inverse @ spread).mean(0)
        both = self._alike() * torch.outer(self.weights.sqrt(), self.weights.sqrt())
        own = freedom.diagonal(dim1=-2, dim2=-1) @ self.weights
        return torch.cat(outside, -1).T, own, (freedom * both).sum((-1, -2))


def _moved(rows: Tensor, first: int) -> Tensor:
    """A copy of the rows (A, m, k) in which each generator's are rotated by a different number."""
    moved = rows.clone()
    for number, own in enumerate(rows):
        moved[number] = own.roll(first + number, 0)
    return moved


def _products(some: Tensor, others: Tensor, scale: Tensor) -> Tensor:
    """Inner products (m, W, A, B) of rows of the same indices, (A, m, k) and (B, m, k), by weights (k, W)."""
    return torch.stack([torch.stack([(own * other) @ scale for other in others], -1) for own in some], -2)


def _positive(left: Tensor) -> Tensor:
    """The matrices, with a small multiple of 1 added where they are about to be singular."""
    floor = 1e-9 - torch.linalg.eigvalsh(left)[..., 0]
    return left + floor.clamp_min(0.0)[..., None, None] * torch.eye(
        left.shape[-1], dtype=left.dtype, device=left.device
    )


def _ratio(actual: Tensor, expected: Tensor) -> Tensor:
    # The bounds are against rounding where there is nothing left.
    return torch.where(expected > 0.0, actual / expected, 1.0).clamp(0.2, 50.0)


@dataclass(frozen=True, eq=False)
class RowWeights:
    """The rows of a mixture, which differ in weight; the weights of all rows of its samples sum to 1."""

    share: Tensor
    """(rows): the weight of each, > 0."""
    copies: Tensor
    """(rows): how many rows of the samples each one stands for, where not all are kept."""
    generators: Tensor
    """(rows): the index of each row's generator in `same`."""
    same: SameIndexRows | None = None
    """Rows of the same indices, where generators have some in common."""


@dataclass(frozen=True, eq=False)
class LeaveOneOutCurve:
    """The population's degrees of freedom by ridge, with the sample's ridges that they are read at."""

    w: Tensor
    """The sample's ridges (…, W), ascending."""
    x: Tensor
    """The population's ridges (…, W), not descending."""
    freedom: Tensor
    """D(x) (…, W)."""
    residual: Tensor
    """1 less the leave-one-out leverage of each row (…, rows, W)."""
    below: Tensor
    """∫ x^{-1/2} D dx (…) below the grid."""
    flat: Tensor
    """The extrapolated part (…) if D were constant there."""
    apart: Tensor | None = None
    """Factors (S + O, W) of zᵀ(M̂₋ + w)⁻¹z where rows of one index are alike, by generator (`SameIndexRows`)."""

    @property
    def value(self) -> Tensor:
        """De-biased tr √M (…)."""
        integrand = self.freedom * self.x.sqrt()
        inner = torch.trapezoid(integrand, self.x.log(), dim=-1)
        return (self.below + inner + 2.0 * integrand[..., -1]) / math.pi

    @property
    def extrapolated(self) -> Tensor:
        """The part of it (…) that is extrapolated, on the scale of the Fréchet distance."""
        return 2.0 * (self.below - self.flat) / math.pi

    @property
    def quadrature(self) -> Tensor:
        """Weights (…, W) by which (1/π) ∫ x^{-1/2} f dx is a sum over f (…, W) with the tails of D."""
        steps = 0.5 * self.x.log().diff(dim=-1)
        weights = torch.zeros_like(self.x)
        weights[..., 1:] += steps
        weights[..., :-1] += steps
        weights[..., 0] += 2.0 * torch.where(self.flat > 0.0, self.below / self.flat, 1.0)
        weights[..., -1] += 2.0
        return weights * self.x.sqrt() / math.pi


def leave_one_out_curve(
    eigenvalues: Tensor, shares: Tensor, degrees: int, reference: Tensor, weights: RowWeights | None = None
) -> LeaveOneOutCurve:
    """The curve of M = S Σ S, from its unbiased estimate with `degrees` = n − 1 degrees of freedom.

    `eigenvalues` (…, k): the k = min(degrees, rank) largest sample eigenvalues, the largest of them > 0;
    `shares` (…, rows, k): U of rules/estimates.md; `reference` (rank): the eigenvalues of Σ_r, all > 0, whose shape
    stands in below the grid while degrees < rank. Leading dimensions are batches. `weights`: for a mixture, whose rows
    differ in weight; without leading dimensions.
    """
    count = eigenvalues.shape[-1]
    largest = eigenvalues.amax(-1, keepdim=True)
    g = torch.maximum(eigenvalues, largest * 1e-12)[..., None]
    few, smallest = degrees < len(reference), g.amin(-2)
    if few and weights is not None:
        # Below the smallest eigenvalue that is no rounding, 1 less the leverage is rounding, too.
        smallest = torch.where(g > largest[..., None] * 1e-12, g, torch.inf).amin(-2)
    low = (smallest * (1e-3 if count < degrees else 1e-4)).log()
    steps = torch.linspace(0.0, 1.0, 161, dtype=g.dtype, device=g.device)
    w = torch.exp(low + ((largest * 1e4).log() - low) * steps)[..., None, :]

    inverse = 1.0 / (g + w)
    held = g * inverse
    free = w * inverse
    variance = shares @ (held * free)
    # A covariance's smallest eigenvalues may be rounding, as where rows are equal: their shares are unknown.
    if few and weights is None:
        residual = (shares @ free).clamp_min(1e-15)
        leverage = shares.sum(-1, keepdim=True) - residual
    else:
        leverage = shares @ held
        residual = _residuals(leverage, 1.0 / (degrees + 1) if weights is None else weights.share[:, None])
    apart = None
    if weights is None:
        freedom = held.sum(-2) - (variance / residual).mean(-2)
        mean_leverage = leverage.mean(-2)
        stretch = (leverage / residual).mean(-2) / mean_leverage
    else:
        mass = weights.share * weights.copies
        taken = (mass / mass.sum()) @ (variance / residual)
        mean_leverage = weights.copies @ leverage
        outside = leverage / residual
        if weights.same is not None:
            apart, more = weights.same.ratios(held, free)
            taken, outside = taken * more, outside * apart[weights.generators]
        freedom = held.sum(-2) - taken
        stretch = (weights.copies @ outside) / mean_leverage
    # If all rows are at the mean, the map is unknown: use the identity.
    x = (w[..., 0, :] * torch.where(mean_leverage > 0.0, stretch, 1.0)).cummax(-1).values
    flat = 2.0 * freedom[..., 0] * x[..., 0].sqrt()
    below = _tail_by_shape(freedom[..., 0], x[..., 0], reference) if few else flat
    return LeaveOneOutCurve(w[..., 0, :], x, freedom, residual, below, flat, apart)


def residuals(eigenvalues: Tensor, shares: Tensor, w: Tensor, own: Tensor) -> Tensor:
    """1 less the leave-one-out leverage (rows, W) of further rows, by their `shares` (rows, k) and weights (rows, 1).

    `eigenvalues` (k) and ridges `w` (W) as in the curve.
    """
    g = torch.maximum(eigenvalues, eigenvalues[-1] * 1e-12)[:, None]
    return _residuals(shares @ (g / (g + w)), own)


def _residuals(leverage: Tensor, own: Tensor | float) -> Tensor:
    return (1.0 - own - leverage).clamp_min(1e-9)


def _tail_by_shape(freedom: Tensor, start: Tensor, reference: Tensor) -> Tensor:
    """∫₀^start x^{-1/2} D dx (…) for D shaped as the reference's, where Σ r²/(r² + c) = D(start) fixes its scale c."""
    root = _root_of_scale(freedom, reference)
    return (2.0 * reference * torch.arctan(root / reference)).sum(-1) * (start.sqrt() / root[..., 0])


def _root_of_scale(freedom: Tensor, reference: Tensor) -> Tensor:
    """√c (…, 1), where Σ r²/(r² + c) is `freedom` (…), for r (rank) or (…, rank)."""
    rank = reference.shape[-1]
    # D ≤ 0, or full, has no c: take the nearest value that has one, where the tail is 0 or flat.
    target = freedom.clamp(1e-18, rank * (1.0 - 1e-9))[..., None]
    squares = reference.square()
    ratio = rank / target - 1.0
    low, high = ((end(squares, -1, keepdim=True) * ratio).log() for end in (torch.amin, torch.amax))
    # 45 halvings of an interval of logarithms: its end is exact to the last bits of a float64.
    for _ in range(45):
        middle = 0.5 * (low + high)
        too_small = (squares / (squares + middle.exp())).sum(-1, keepdim=True) > target
        low, high = torch.where(too_small, middle, low), torch.where(too_small, high, middle)
    return (0.25 * (low + high)).exp()


POWERS = 2.0 ** torch.arange(3.0, -5.25, -0.25, dtype=torch.float64)
"""Exponents between which it is interpolated: with 8 the largest eigenvalue is alone, with 1/32 a spectrum is flat."""


def unlike(curve: LeaveOneOutCurve, reference: Tensor) -> float:
    """Change of tr √M by an extrapolation that fits the curve: by eigenvalues r^{2p} in place of r².

    With the exponent p, D falls over the first factor of 4 above the grid's beginning as the curve does: p is 1 where
    the population's spectrum has the reference's shape. 0 where nothing is extrapolated. The curve has no leading
    dimensions.
    """
    start, full = curve.x[0], curve.freedom[0]
    # As in the power law of entropies, the slope is measured over a factor of 4.
    index = int((curve.x >= 4.0 * start).to(torch.uint8).argmax())
    later, factor = curve.freedom[index], curve.x[index] / start
    if curve.below == curve.flat or not 0.0 < later <= full < len(reference):
        return 0.0
    scaled = reference / reference[0]
    shapes = scaled ** POWERS.to(reference.device)[:, None]
    squares = shapes.square()
    # The flatter a spectrum is, the faster D falls.
    falls = (squares / (squares + factor * _root_of_scale(full.expand(len(shapes)), shapes).square())).sum(-1)
    power = np.interp(float(later), falls.flip(0).cpu().numpy(), POWERS.flip(0).numpy())
    return float(_tail_by_shape(full, start, scaled ** float(power)) - curve.below) / math.pi
