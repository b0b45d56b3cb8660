"""The covariance of a mixture, C = Σ α_i C_i, in its eigenbasis, and minus its entropy as a function of the weights.

C = Σ α_i C_i of unit trace has value, gradient and Hessian in α from one eigenproblem C = UΛUᵀ. With
F = tr g(C), g = x log x at order 1 and x^q otherwise, and C̃_i = UᵀC_iU:

    F_i = Σ_k g′(λ_k) (C̃_i)_kk          F_ij = Σ_kl g′[λ_k, λ_l] (C̃_i)_kl (C̃_j)_kl

The loss is convex and has one limit at order 1 from both sides:

    q = 1:  F            q < 1:  −log F/(1 − q), minus the log score            q > 1:  q/(q − 1) (F^{1/q} − 1)

The last is a norm. tr C^q itself is convex, too, but of a size of its own at every order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.programme import Floats, Quadratic
from optimist.metrics.mixtures.objective import Half
from optimist.metrics.spectra.eigen import differences, eigen_coordinates
from optimist.metrics.spectra.symmetric import symmetric_product
from optimist.metrics.vendi.spectrum import FLOOR, floored_at
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist_client.errors import FixError

KEPT = 512
"""Last rows of each generator by which influences are found, as in an estimate of one."""


@dataclass(frozen=True, eq=False)
class GeneratorFeatures:
    """Some samples of one generator, by all their φ (n, width) in log order, or by the last ones and their moment."""

    kept: Tensor
    """φ of the last rows (b, width)."""
    rows: Tensor | None
    """All φ, where they are kept."""
    count: int
    """n."""
    total: Callable[[], Tensor] | None = None
    """Σ φφᵀ (width, width), where not all φ are kept."""

    @classmethod
    def from_statistic(cls, statistic: KernelStatistic, half: Half | None) -> GeneratorFeatures:
        """One half of a log, None: all. Raises FixError where halves were not kept."""
        rows, samples, last = statistic.rows, statistic.samples, statistic.last_rows
        count = samples if half is None else (samples + 1 - half) // 2
        if half is not None:
            rows = None if rows is None else rows[half::2].clone()
            last = last[(samples - len(last) + half) % 2 :: 2].clone()
        if rows is None and len(last) < count:
            if half is not None and not statistic.halves:
                raise FixError("the halves of the stream are kept only with halves=True")
            return cls(last, None, count, lambda: statistic.moment if half is None else statistic.half_moment(half))
        rows = last if rows is None else rows
        return cls(rows[-KEPT:], rows, count)

    @property
    def keeps_all(self) -> bool:
        """True if `kept` are all rows."""
        return len(self.kept) == self.count

    def moment(self) -> Tensor:
        """C_i (width, width)."""
        if self.rows is not None:
            return symmetric_product(self.rows.T, self.rows) / self.count
        assert self.total is not None
        return self.total() / self.count


class MixtureSpectrum:
    """Eigenvalues of the mixture of some parts, and their rows in its eigenbasis.

    The Gram matrix's eigenvectors span the rows of the generators with a weight, and only a part of others' rows.
    vectors: whether anything is asked but `kept` and `leverages` of these generators, which costs up to twice as much.
    """

    def __init__(self, parts: Sequence[GeneratorFeatures], weights: Floats, *, vectors: bool = True) -> None:
        # Rows with smaller weights are lost in the rounding of the others.
        weights = np.where(weights < 1e-6, 0.0, weights)
        self.parts, self.weights = parts, weights / weights.sum()
        self._kept: dict[int, Tensor] = {}
        self.support: list[int] = np.flatnonzero(weights).tolist()
        """Places of the generators with a weight above 0."""
        total = sum(parts[g].count for g in self.support)
        is_held = all(parts[g].rows is not None for g in self.support)
        self.by_rows = is_held and total <= parts[0].kept.shape[1]
        """True if the eigenvectors belong to the Gram matrix."""
        if self.by_rows or vectors:
            values, eigenvectors = torch.linalg.eigh(self._gram() if self.by_rows else self._covariance())
        else:
            kept = [parts[g].kept for g in self.support]
            values, rotated = eigen_coordinates(self._covariance(), torch.cat(kept))
            self._kept = dict(zip(self.support, rotated.flip(-1).split([len(rows) for rows in kept]), strict=True))
            eigenvectors = values.new_zeros(0, 0)
        self._vectors = eigenvectors.flip(-1)
        """(N, k) of the Gram matrix, (width, k) of C."""
        self.raw = values.flip(-1).clamp_min(0.0)
        """Eigenvalues (k), descending."""
        self.values = floored_at(self.raw)
        """The eigenvalues (k), none below `FLOOR` times the largest."""

    def share(self, g: int) -> float:
        """ω of a row of this generator: its weight in C."""
        return float(self.weights[g]) / self.parts[g].count

    @cached_property
    def count(self) -> float:
        """The effective number of samples, 1/Σ ω²."""
        return 1.0 / sum(float(self.weights[g]) * self.share(g) for g in self.support)

    def squares(self, g: int) -> Tensor:
        """(v_kᵀφ)² (b, k) of the kept rows of a generator."""
        return self.kept(g).square()

    def coordinates(self, features: Tensor) -> Tensor:
        """v_kᵀφ (m, k) of any rows φ (m, width)."""
        if not self.by_rows:
            return features @ self._vectors
        return (features @ self._weighted.T) @ (self._vectors / self.values.sqrt())

    def kept(self, g: int) -> Tensor:
        """v_kᵀφ (b, k) of the kept rows of a generator."""
        if g not in self._kept:
            self._kept[g] = self._rotated(g, all_rows=False)
        return self._kept[g]

    def leverages(self, g: int) -> Tensor:
        """ω (v_kᵀφ)²/g_k (b, k) of the kept rows of a generator of the support, known where g_k is 0, too."""
        if self.by_rows:
            return self._entries(g)[-KEPT:].square()
        return self.squares(g) * (self.share(g) / self.values)

    def means(self, generators: Sequence[int], values: Tensor, beyond: float) -> list[float]:
        """tr C_i f(C) of these generators, for f with these values (k), and `beyond` outside the eigenvectors' span."""
        needs_matrix = any(self.parts[g].rows is None for g in generators)
        matrix = (self._vectors * values) @ self._vectors.T if needs_matrix else values
        traces: list[float] = []
        for g in generators:
            if self.parts[g].rows is None:
                traces.append(float((self.parts[g].moment() * matrix).sum()))
            else:
                seen = self._rotated(g, all_rows=True).square().mean(0)
                traces.append(float(seen @ values) + beyond * max(1.0 - float(seen.sum()), 0.0))
        return traces

    @cached_property
    def leading(self) -> list[Tensor]:
        """Each C_i (m, m) in the first m ≤ 512 eigenvectors, in which second derivatives are computed."""
        return [self._leading(g) for g in range(len(self.parts))]

    def _leading(self, g: int, count: int = 512) -> Tensor:
        part = self.parts[g]
        if part.rows is None:
            vectors = self._vectors[:, :count]
            return vectors.T @ (part.moment() @ vectors)
        rows = self._rotated(g, all_rows=True)[:, :count]
        return symmetric_product(rows.T, rows) / part.count

    def _rotated(self, g: int, all_rows: bool) -> Tensor:
        """v_kᵀφ of the kept rows of a generator, or of all it holds."""
        part = self.parts[g]
        if self.by_rows and g in self.support:
            entries = self._entries(g) if all_rows else self._entries(g)[-KEPT:]
            return entries * (self.raw / self.share(g)).sqrt()
        rows = part.rows if all_rows else part.kept
        assert rows is not None
        return self.coordinates(rows)

    def _entries(self, g: int) -> Tensor:
        """The Gram matrix's eigenvectors (n, k) at all rows of a generator of the support."""
        start = sum(self.parts[before].count for before in self.support if before < g)
        return self._vectors[start : start + self.parts[g].count]

    @cached_property
    def _weighted(self) -> Tensor:
        """√ω φ (N, width) of all rows of the support."""
        held = [(g, self.parts[g].rows) for g in self.support]
        return torch.cat([rows * self.share(g) ** 0.5 for g, rows in held if rows is not None])

    def _gram(self) -> Tensor:
        return symmetric_product(self._weighted, self._weighted.T)

    def _covariance(self) -> Tensor:
        first, *others = self.support
        total = float(self.weights[first]) * self.parts[first].moment()
        for g in others:
            total += float(self.weights[g]) * self.parts[g].moment()
        return total


@dataclass(frozen=True)
class Spectral:
    """g of one order, on eigenvalues (k) > 0."""

    order: float

    def trace(self, values: Tensor) -> float:
        """The trace F = Σ g(λ)."""
        return float((values * values.log()).sum() if self.order == 1.0 else (values**self.order).sum())

    def slopes(self, values: Tensor) -> Tensor:
        """The derivatives g′(λ) (k)."""
        return values.log() + 1.0 if self.order == 1.0 else self.order * values ** (self.order - 1.0)

    def curvature(self, values: Tensor) -> Tensor:
        """g′[λ_k, λ_l] (k, k)."""
        if self.order == 1.0:
            return differences(values)
        return self.order * differences(values, self.order - 1.0)

    def loss(self, trace: float) -> tuple[float, float, float]:
        """The loss as a function of F, its first and its second derivative."""
        q = self.order
        if q == 1.0:
            return trace, 1.0, 0.0
        if q < 1.0:
            return -math.log(trace) / (1.0 - q), -1.0 / (1.0 - q) / trace, 1.0 / (1.0 - q) / trace**2
        norm = trace ** (1.0 / q)
        return q / (q - 1.0) * (norm - 1.0), norm / trace / (q - 1.0), -norm / trace**2 / q

    def of_score(self, score: float) -> float:
        """The loss of a log score."""
        q = self.order
        return -score if q <= 1.0 else q / (q - 1.0) * math.expm1((1.0 - q) / q * score)

    def rate(self, score: float) -> float:
        """The fall of the loss for each unit of the log score."""
        return 1.0 if self.order <= 1.0 else math.exp((1.0 - self.order) / self.order * score)

    def in_log(self, loss: float) -> float:
        """Minus the log score of a loss."""
        q = self.order
        return loss if q <= 1.0 else q / (q - 1.0) * math.log(max(1.0 + (q - 1.0) / q * loss, 1e-300))


@dataclass(frozen=True)
class Covariances:
    """C_i of G generators in the same eigenvectors."""

    leading: Sequence[Tensor]
    """(m, m) each."""
    rest: Floats
    """(G,): traces beyond these, taken as spread evenly."""
    rest_count: int
    """The number of eigenvectors that `rest` is spread over."""

    @classmethod
    def from_moments(cls, moments: Sequence[Tensor], rank: int) -> Covariances:
        """The covariances of unit trace that are these in the leading ones of `rank` eigenvectors."""
        rest_count = rank - len(moments[0])
        rest = np.array([max(1.0 - float(each.trace()), 0.0) if rest_count else 0.0 for each in moments])
        return cls(moments, rest, rest_count)


def spectral_model(order: float, covariances: Covariances, weights: Floats, ridge: float = 0.0) -> Quadratic:
    """The second-order model, at weights (G,), of the loss of mixtures, of C + λI with `ridge` λ ≥ 0 in place of C."""
    g, leading = Spectral(order), covariances.leading
    mixture = float(weights[0]) * leading[0]
    for weight, moment in zip(weights[1:].tolist(), leading[1:], strict=True):
        mixture = mixture + weight * moment
    values, vectors = torch.linalg.eigh(mixture)
    values = (values + ridge).clamp_min(FLOOR * float(values[-1]))
    rotated = torch.stack([(vectors.T @ moment @ vectors).flatten() for moment in leading])
    first = (rotated[:, :: len(mixture) + 1] @ g.slopes(values)).cpu().numpy()
    second = ((rotated * g.curvature(values).flatten()) @ rotated.T).cpu().numpy()
    trace, count, spread = g.trace(values), covariances.rest_count, float(weights @ covariances.rest)
    if spread > 0.0:
        even = torch.tensor([spread / count + ridge], dtype=values.dtype, device=values.device)
        trace += count * g.trace(even)
        first = first + covariances.rest * float(g.slopes(even))
        second = second + np.outer(covariances.rest, covariances.rest) * float(g.curvature(even)) / count
    value, rise, bend = g.loss(trace)
    gradient = rise * first
    hessian = rise * second + bend * np.outer(first, first)
    return tangent(value, gradient, 0.5 * (hessian + hessian.T), weights)


def tangent(value: float, gradient: Floats, hessian: Floats, weights: Floats) -> Quadratic:
    """The quadratic of this value, gradient (G,) and Hessian (G, G) at weights (G,)."""
    linear = gradient - hessian @ weights
    return Quadratic(0.5 * hessian, linear, value - float(0.5 * weights @ hessian @ weights + linear @ weights))
