"""The loss of mixtures of some generators, as a metric computes it from statistics, and how much chance these share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.pairing import COMMON
from optimist.estimates.programme import Floats, Quadratic
from optimist.records import MIN_MIXED

Half = Literal[0, 1]
"""The samples in even (0), or in odd (1) places of a log."""
Common = Mapping[str, Tensor]
"""Rows (m, …) of a generator by the names of `Score.widths`, of the indices 0, 1, … that all generators share, in
order."""


Influence = Callable[[int, bool], Tensor | None]
"""By a generator's index: the influences of its last rows; or of its common rows, None where it has none."""


@dataclass(frozen=True)
class MixtureAnalysis:
    """One mixture as the samples of an objective score it. The loss is on the metric's scale (`Score.scale`)."""

    loss: float
    """De-biased: the score where lower is better, else minus the score."""
    slopes: Floats
    """(G,): derivative of the loss by each weight, up to a number that all share; de-biased as far as possible. NaN
    where they cost much and were not asked for."""
    rows: Sequence[Tensor]
    """For each generator the influence on the loss (b_i,) of its last rows, float64: the loss has the variance
    Σ_i Var(rows_i)/n_i + Σ extra². Already multiplied by the generator's weight: zeros where the weight is 0. Every
    mixture of one objective has the same rows in the same order, so that differences are taken row by row."""
    extra: Floats = field(default_factory=lambda: np.zeros(0))
    """Errors (k,) beyond the first order of the rows: second order, and what is extrapolated. They are independent of
    each other, have the same meaning for every mixture of one objective, and may have a sign: the difference of two
    mixtures has the differences of their errors. With a single one of unknown sign, give it the same for every
    mixture."""
    common: Sequence[Tensor | None] = ()
    """The influence on the loss of the common rows (m,) of each generator, where these were given."""
    slope_rows: tuple[Tensor, ...] = ()
    """For each generator the influence (r_i, G) of its last rows on `slopes`, r_i ≤ b_i; () if not wanted."""
    common_slopes: tuple[Tensor | None, ...] = ()
    """The influence (m, G) of the common rows on `slopes`, where these were given and slopes asked for."""

    @classmethod
    def from_influences(
        cls, loss: float, slopes: Floats, extra: Floats, of: Influence, on_slopes: Influence | None
    ) -> MixtureAnalysis:
        """The analysis with these influences on the loss, and on the slopes (None: not wanted)."""
        generators = range(len(slopes))

        def of_last(wanted: Influence) -> tuple[Tensor, ...]:
            return tuple(rows for g in generators if (rows := wanted(g, False)) is not None)

        def of_common(wanted: Influence) -> tuple[Tensor | None, ...]:
            return tuple(wanted(g, True) for g in generators)

        analysis = cls(loss, slopes, of_last(of), extra, of_common(of))
        if on_slopes is None:
            return analysis
        return replace(analysis, slope_rows=of_last(on_slopes), common_slopes=of_common(on_slopes))


class Objective(ABC):
    """The loss of mixtures of G generators by one half of their samples, or by all. It is convex in the weights."""

    samples: tuple[int, ...]
    """Samples of each generator (G) in the half."""

    def __init__(
        self, metric: Any, statistics: Sequence[Any], half: Half | None = None, common: Sequence[Common | None] = ()
    ) -> None:
        """`Score.objective` of this metric. Raises the same errors."""
        for statistic in statistics:
            metric.check(statistic, min_samples=MIN_MIXED)
        self.metric, self.statistics, self.given = metric, statistics, common
        self.half: Half | None = half
        self.share = SharedChance.from_common([statistic.samples for statistic in statistics], common).share
        """Fraction of the smaller generator's samples with an index in common (`SharedChance`)."""
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Take the required parts of `statistics`, their `half` and the common rows `given`, and set `samples`."""

    @abstractmethod
    def model(self, weights: Floats, *, published: bool = False) -> Quadratic:
        """Second-order model, at these weights (G,), of the loss that weights minimise; exact if it is quadratic.

        The matrix is positive semidefinite; value and gradient at these weights are the loss's. published: with the
        papers' biased estimates (the V-statistic, plug-in moments) in place of unbiased ones.
        """

    def scaled(self, value: float) -> float:
        """A value of `model` as a loss on the metric's scale: log of 1/RKE, where that is the model's unit."""
        return value

    @abstractmethod
    def deviations(self, weights: Floats) -> Floats:
        """Standard deviation (G,) of one sample's addition to its generator's entry of the gradient of `model`."""

    @abstractmethod
    def analyse(self, weights: Floats, *, slopes: bool = False) -> MixtureAnalysis:
        """The de-biased loss of a mixture and its influences. slopes: with `slopes` and `slope_rows`, too."""

    def loss(self, weights: Floats) -> float:
        """The de-biased loss of a mixture."""
        return self.analyse(weights).loss


def is_in_half(samples: int, rows: int, half: Half | None, device: torch.device) -> Tensor:
    """A mask (rows,): each of the last rows of a log of `samples` that belongs to this half, None: all."""
    if half is None:
        return torch.ones(rows, dtype=torch.bool, device=device)
    return torch.arange(samples - rows, samples, device=device) % 2 == half


@dataclass(frozen=True)
class SharedChance:
    """Samples of each generator, and the share of the smaller number of two with an index in common."""

    samples: tuple[int, ...]
    share: float
    """0 where generators are independent, or without common indices."""

    @classmethod
    def from_common(cls, samples: Sequence[int], common: Sequence[Common | None]) -> SharedChance:
        """The shared chance of generators with these samples, and these rows of common indices below `COMMON`."""
        counts = [len(next(iter(rows.values()))) for rows in common if rows is not None]
        share = min(min(counts) / min(COMMON, *samples), 1.0) if counts else 0.0
        return cls(tuple(samples), share)

    def of_half(self, samples: Sequence[int]) -> SharedChance:
        """The shared chance of one half. A log in the order of the indices has the same indices there for all
        generators.
        """
        return SharedChance(tuple(samples), self.share)

    def variances(self, rows: Sequence[Tensor], common: Sequence[Tensor | None] = ()) -> Floats:
        """Variances (k,) of k numbers whose influences are `rows` (b_i, k) and, of the common rows, `common` (m, k).

        Σ_i V_i/n_i, and for two generators with common indices their covariance times the number of these indices over
        n_i n_j, by the correlation of the common rows.
        """
        spread = np.stack([influences.var(0).cpu().numpy() for influences in rows])
        variance = (spread / np.array(self.samples, dtype=np.float64)[:, None]).sum(0)
        paired = self._paired(spread, common)
        if paired is None:
            return variance
        scaled, overlap = paired
        products = np.einsum("imk,jmk->ijk", scaled, scaled)
        return np.maximum(variance + np.einsum("ij,ijk->k", overlap, products), 0.05 * variance)

    def covariance(self, rows: Sequence[Tensor], common: Sequence[Tensor | None] = ()) -> Floats:
        """Covariance (k, k) of the same k numbers, positive semidefinite."""
        centred = [part_rows - part_rows.mean(0) for part_rows in rows]
        parts = [(part_rows.T @ part_rows / max(len(part_rows) - 1, 1)).cpu().numpy() for part_rows in centred]
        covariance = sum((part / n for part, n in zip(parts, self.samples, strict=True)), np.zeros_like(parts[0]))
        paired = self._paired(np.stack([np.diag(part) for part in parts]), common)
        if paired is not None:
            scaled, overlap = paired
            others = np.einsum("ij,jmk->imk", overlap, scaled)
            covariance = covariance + np.einsum("imk,iml->kl", scaled, others)
        values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        return (vectors * np.maximum(values, 0.0)) @ vectors.T

    def _paired(self, spread: Floats, common: Sequence[Tensor | None]) -> tuple[Floats, Floats] | None:
        """Influences (g, m, k) of common rows whose products over m are covariances, from the variances (G, k), and
        their weights for two generators (g, g); None without common rows."""
        counts = np.array(self.samples, dtype=np.float64)
        # A correlation needs 10 common indices.
        paired = [g for g, rows in enumerate(common) if rows is not None and len(rows) >= 10]
        if self.share == 0.0 or len(paired) < 2:
            return None
        centred = np.stack([_centred(rows) for rows in common if rows is not None])
        lengths = np.sqrt(np.square(centred).sum(1))
        scaled = centred / np.where(lengths > 0.0, lengths, np.inf)[:, None]
        scaled *= np.sqrt(spread[paired])[:, None]
        overlap = self.share / np.maximum(counts[paired][:, None], counts[paired][None, :])
        np.fill_diagonal(overlap, 0.0)
        return scaled, overlap


def _centred(influence: Tensor) -> Floats:
    values = influence.cpu().numpy()
    return values - values.mean(0)
