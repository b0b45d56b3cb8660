"""What a generator makes: its modes, and its score by type of prompt, each with the samples that show it. No I/O.

Both are spectra of unit-norm features, shown by a bounded sample of the log (`Reservoir`), through the feature maps
that the score itself sees.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from optimist.numerics.estimate import natural
from optimist.numerics.feature_maps import FeatureMap
from optimist.numerics.kernel.score import VendiScore, log_vendi, spectrum_of_rows
from optimist.numerics.kernel.statistic import KernelStatistic
from optimist.numerics.pairs.score import ConditionedScore
from optimist.numerics.pairs.statistic import JointStatistic
from optimist.numerics.reservoir import Reservoir

SMALLEST_SHARE = 1e-9
"""Eigenvalues up to this part of the largest count as zero: their eigenvectors would be rounding."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A sample, by the caller's id, and how much it shows of what it stands under."""

    id: str
    weight: float


@dataclass(frozen=True, slots=True)
class Mode:
    """An eigenvector v of C (equations.md §3c)."""

    share: float
    """Its eigenvalue; those of all modes sum to 1."""
    samples: tuple[Shown, ...]
    """The samples of the largest u(x) = vᵀφ(x), which is their weight, −1 … 1, descending."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PromptGroup:
    """An eigenvector v of K_T/n: a type of prompt, and how diverse the outputs to it are (equations.md §4)."""

    share: float
    """Its eigenvalue; those of all groups sum to 1."""
    log_score: float
    """log Vendi_α of K_X ⊙ vvᵀ."""
    prompts: tuple[Shown, ...]
    """The samples whose prompts have the largest v_j², which is their weight, 0 … 1, descending."""

    @property
    def score(self) -> float:
        """Vendi_α of K_X ⊙ vvᵀ: how many kinds of output the group's prompts get."""
        return natural(self.log_score, "log")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with `score`."""
        return {**asdict(self), "score": self.score}


def modes(
    metric: VendiScore | ConditionedScore,
    statistic: KernelStatistic | JointStatistic,
    reservoir: Reservoir,
    count: int = 5,
    samples: int = 8,
) -> list[Mode]:
    """The `count` modes of the largest share, each with the `samples` of the reservoir that show it (equations.md §3c).

    The eigenvectors are those of C over all samples seen, by the n × n Gram matrix while n ≤ width; u is signed so that
    it sums to ≥ 0 over the reservoir. RKE and Vendi have modes of φ_X; the prompt-conditioned scores have modes of the
    pairs, through the joint map φ_XT. Modes of no share are left out, so there may be fewer; modes of equal share may
    come mixed, as any basis of what they span. Raises ValueError on a statistic without samples or of another metric,
    on a reservoir without samples, and on counts below 1; KeyError where the reservoir lacks a tensor of the metric.
    """
    _check_counts(count, samples)
    kernel = _kernel_statistic(metric, statistic)
    rows = _rows(reservoir, *metric.widths)
    shares, vectors = _modes_of(kernel, count)
    scores = kernel.feature_map(torch.cat(rows, -1).to(vectors.device)) @ vectors
    scores = torch.where(scores.sum(0) < 0.0, -scores, scores)
    ids = reservoir.ids
    return [
        Mode(share, _largest(ids, column, samples)) for share, column in zip(shares.tolist(), scores.T, strict=True)
    ]


def prompt_groups(
    features_map: FeatureMap,
    prompts_map: FeatureMap,
    reservoir: Reservoir,
    order: float = 1.0,
    count: int = 5,
    samples: int = 8,
) -> list[PromptGroup]:
    """The `count` largest types of prompt with the Vendi_α of their outputs, α = `order` > 0 (equations.md §4).

    K_T/n = Σ λ_i v_i v_iᵀ, and group i is scored on K_X ⊙ v_i v_iᵀ, whose eigenvalues are those of
    Σ_j v_ij² φ_X(x_j) φ_X(x_j)ᵀ, of trace 1: sample j counts v_ij². Everything is over the reservoir's pairs, with
    their bias: a small group shows fewer kinds of output than it gets, so compare generators more than groups. Groups
    of no share are left out, so there may be fewer; groups of equal share may come mixed, as any basis of what they
    span. Raises ValueError on a reservoir without samples, on an order that is not positive, and on counts below 1;
    KeyError where the reservoir lacks features or prompts.
    """
    _check_counts(count, samples)
    features, prompts = _rows(reservoir, "features", "prompts")
    features, prompts = features_map(features.to(features_map.device)), prompts_map(prompts.to(prompts_map.device))
    n, ids = len(features), reservoir.ids
    shares, vectors = _leading(prompts @ prompts.T / n, count)
    groups: list[PromptGroup] = []
    for share, weights in zip(shares.tolist(), vectors.square().T.to(features.device), strict=True):
        spectrum = spectrum_of_rows((n * weights).sqrt()[:, None] * features)
        groups.append(PromptGroup(share, log_vendi(spectrum, order), _largest(ids, weights, samples)))
    return groups


def _kernel_statistic(
    metric: VendiScore | ConditionedScore, statistic: KernelStatistic | JointStatistic
) -> KernelStatistic:
    """The one whose covariance has the metric's modes. Raises ValueError as `metric.check` does."""
    if isinstance(metric, VendiScore) and isinstance(statistic, KernelStatistic):
        metric.check(statistic)
        return statistic
    if isinstance(metric, ConditionedScore) and isinstance(statistic, JointStatistic):
        metric.check(statistic)
        return statistic.joint
    raise ValueError("the statistic is laid out for another metric; make it with metric.statistic()")


def _rows(reservoir: Reservoir, *names: str) -> list[Tensor]:
    """The reservoir's rows (k, d) of each name. Raises ValueError where it has none at all, KeyError on other names."""
    if len(reservoir) == 0:
        raise ValueError("the reservoir holds no samples")
    tensors = reservoir.tensors
    return [tensors[name] for name in names]


def _check_counts(count: int, samples: int) -> None:
    if count < 1 or samples < 1:
        raise ValueError(f"need count ≥ 1 and samples ≥ 1, not {(count, samples)}")


def _modes_of(statistic: KernelStatistic, count: int) -> tuple[Tensor, Tensor]:
    """The up to `count` largest eigenvalues (k) of C, descending, and their eigenvectors (width, k)."""
    rows, n = statistic.rows, statistic.samples
    if rows is None:
        return _leading(statistic.moment / n, count)
    shares, vectors = _leading(rows @ rows.T / n, count)
    return shares, rows.T @ vectors / (n * shares).sqrt()


def _leading(matrix: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The up to `count` largest eigenvalues (k) that are not zero, descending, and their eigenvectors (m, k).

    `matrix` (m, m) is symmetric, positive semidefinite and of trace 1, hence what rounding adds above 1 is cut off.
    """
    values, vectors = (part.flip(-1)[..., :count] for part in torch.linalg.eigh(matrix))
    kept = values > SMALLEST_SHARE * values[0]
    return values[kept].clamp_max(1.0), vectors[:, kept]


def _largest(ids: tuple[str, ...], weights: Tensor, count: int) -> tuple[Shown, ...]:
    """The `count` samples of the largest weights (n), descending, the earlier in the log first where they tie."""
    found = weights.sort(descending=True, stable=True)
    return tuple(
        Shown(ids[sample], weight)
        for sample, weight in zip(found.indices[:count].tolist(), found.values[:count].tolist(), strict=True)
    )
