"""The modes of a kernel statistic, and the parts that prompt groups share with them. No I/O.

Both are spectra of unit-norm features, shown by a bounded sample of the log (`Reservoir`), through the feature maps
that the score itself uses.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from optimist.metrics.feature_maps import FeatureMap
from optimist.metrics.modes import Mode, Shown
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist_client.errors import FixError

SMALLEST_SHARE = 1e-9
"""Eigenvalues up to this part of the largest count as zero: their eigenvectors would be rounding."""


def modes_of(
    statistic: KernelStatistic, reservoir: Reservoir, names: Iterable[str], count: int, samples: int
) -> list[Mode]:
    """The `count` modes of the largest share, each with the `samples` of the reservoir that show it (equations.md §3c).

    The eigenvectors are those of C over all samples seen, by the n × n Gram matrix while n ≤ width; u is signed so that
    its sum over the reservoir is ≥ 0. `names` are those of the reservoir's tensors that φ takes, side by side. Modes
    without a share are left out, so there may be fewer; modes of equal share may be any basis of their span.
    Raises FixError on a reservoir without samples and on counts below 1; KeyError where the reservoir lacks a tensor.
    """
    check_counts(count, samples)
    return shown(statistic.feature_map, reservoir, names, *_vectors(statistic, count), samples)


def shown(
    feature_map: FeatureMap, reservoir: Reservoir, names: Iterable[str], shares: Tensor, vectors: Tensor, samples: int
) -> list[Mode]:
    """Modes of these shares (k) and unit vectors (width, k), shown as `modes_of` does. Raises as it does."""
    rows = rows_of(reservoir, *names)
    scores = feature_map(torch.cat(rows, -1).to(vectors.device)) @ vectors
    scores = torch.where(scores.sum(0) < 0.0, -scores, scores)
    ids = reservoir.ids
    return [Mode(share, largest(ids, column, samples)) for share, column in zip(shares.tolist(), scores.T, strict=True)]


def rows_of(reservoir: Reservoir, *names: str) -> list[Tensor]:
    """The reservoir's rows (k, d) of each name. Raises FixError if it is empty, KeyError on other names."""
    if len(reservoir) == 0:
        raise FixError("the reservoir holds no samples")
    tensors = reservoir.tensors
    return [tensors[name] for name in names]


def check_counts(count: int, samples: int) -> None:
    """Raise FixError unless there is at least 1 mode, or group, and 1 sample of each to show."""
    if count < 1 or samples < 1:
        raise FixError(f"need count ≥ 1 and samples ≥ 1, not {(count, samples)}")


def _vectors(statistic: KernelStatistic, count: int) -> tuple[Tensor, Tensor]:
    """The up to `count` largest eigenvalues (k) of C, descending, and their eigenvectors (width, k)."""
    rows, n = statistic.rows, statistic.samples
    if rows is None:
        return leading(statistic.moment / n, count)
    shares, vectors = leading(rows @ rows.T / n, count)
    return shares, rows.T @ vectors / (n * shares).sqrt()


def leading(matrix: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The up to `count` largest eigenvalues (k) that are not zero, descending, and their eigenvectors (m, k).

    `matrix` (m, m) is symmetric, positive semidefinite and of trace 1; so values above 1 are rounding and are clamped.
    """
    values, vectors = (part.flip(-1)[..., :count] for part in torch.linalg.eigh(matrix))
    kept = values > SMALLEST_SHARE * values[0]
    return values[kept].clamp_max(1.0), vectors[:, kept]


def largest(ids: tuple[str, ...], weights: Tensor, count: int) -> tuple[Shown, ...]:
    """The `count` samples of the largest weights (n), descending, the earlier in the log first where they tie."""
    found = weights.sort(descending=True, stable=True)
    return tuple(
        Shown(ids[sample], weight)
        for sample, weight in zip(found.indices[:count].tolist(), found.values[:count].tolist(), strict=True)
    )
