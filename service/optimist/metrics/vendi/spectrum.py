"""The spectrum of a kernel statistic: entropies of it (equations.md §3), derivatives of these, and modes.

A mode is an eigenvector of the second moment of unit-norm features. It is shown by the samples of a bounded sample of
the log (`Reservoir`) that it is largest at, through the feature map that the score itself uses. Groups of prompts are
found and shown in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from optimist.anomalies.batches import check_number
from optimist.metrics.feature_maps import ExactKernel, FeatureMap
from optimist.metrics.reservoir import Reservoir
from optimist.metrics.spectra.eigen import eigen_coordinates, eigen_entries
from optimist.metrics.spectra.symmetric import PANEL, edges, symmetric_panel
from optimist.metrics.vendi.statistic import KernelStatistic
from optimist_client.errors import FixError
from optimist_client.models.modes import ModeInfo, Shown


def check_order(order: float) -> float:
    """α as a float, exactly 1 if it differs by no more than 1e-7. Raises FixError unless it is in 1e-6 … inf."""
    order = check_number("order", order)
    # The smallest one nearly counts the eigenvalues; smaller orders drown in rounding.
    if not order >= 1e-6:
        raise FixError(f"the order must be positive, from 1e-06 to inf, not {order!r}")
    # 1/(1 − α) magnifies rounding.
    return 1.0 if abs(order - 1.0) <= 1e-7 else order


def log_vendi(eigenvalues: Tensor, order: float = 1.0, truncation: int | None = None) -> float:
    """log Vendi_α of eigenvalues (k) of sum 1, in any order, t-truncated if asked; never negative (equations.md §3).

    Eigenvalues up to k · ε · λ_max, ε of float64, count as zero: with a low order their noise would dominate.
    Raises FixError on an order below 1e-6, or on a truncation below 1.
    """
    order = check_order(order)
    eigenvalues = eigenvalues.sort(descending=True).values.clamp_min(0.0)
    noise = len(eigenvalues) * torch.finfo(eigenvalues.dtype).eps * eigenvalues[0]
    values = truncated(eigenvalues[eigenvalues > noise], truncation)
    logs = values.log()
    if order == 1.0:
        return max(-float((values * logs).sum()), 0.0)
    top = float(logs[0])
    if math.isinf(order):
        return max(-top, 0.0)
    # By the largest, so that no power underflows.
    powers = float(torch.logsumexp(order * (logs - top), 0))
    return max(order / (1.0 - order) * top + powers / (1.0 - order), 0.0)


def truncated(eigenvalues: Tensor, truncation: int | None) -> Tensor:
    """The t largest of descending eigenvalues (k) with the rest spread evenly over them (min(k, t)).

    Raises FixError on a truncation below 1.
    """
    if truncation is None:
        return eigenvalues
    if truncation < 1:
        raise FixError(f"the truncation must be at least 1, not {truncation!r}")
    return eigenvalues[:truncation] + eigenvalues[truncation:].sum() / truncation


def spectrum_of_rows(features: Tensor) -> Tensor:
    """The min(n, width) largest eigenvalues of (1/n) ΦᵀΦ, Φ (n, width), descending and ≥ 0, by the smaller matrix."""
    count, width = features.shape
    return eigenvalues_of((features @ features.T if count <= width else features.T @ features) / count)


def spectrum_by(feature_map: FeatureMap, features: Tensor) -> Tensor:
    """The spectrum of `spectrum_of_rows`, of what the map made of n rows (n, columns); of an exact kernel all n."""
    if isinstance(feature_map, ExactKernel):
        return eigenvalues_of(feature_map.gram(features) / len(features))
    return spectrum_of_rows(features)


def eigenvalues_of(matrix: Tensor) -> Tensor:
    """Eigenvalues (m) of a symmetric, positive semi-definite matrix (m, m), descending and ≥ 0."""
    return torch.linalg.eigvalsh(matrix).flip(-1).clamp_min(0.0)


FLOOR = 1e-12
"""Smallest eigenvalue relative to the largest: smaller ones are raised to it."""


class KernelMatrix:
    """The kernel's matrix of the rows that a growing statistic holds, and where some rows are among them.

    Full panels stay as they are, so that a later matrix takes only the products of newer rows. Every number equals
    `FeatureMap.gram`'s.
    """

    def __init__(self) -> None:
        self._full: list[Tensor] = []
        self._seen, self._indices = torch.zeros(0), torch.zeros(0, dtype=torch.int64)

    @property
    def bytes(self) -> int:
        return sum(each.nbytes for each in (*self._full, self._seen, self._indices))

    def of(self, feature_map: FeatureMap, rows: Tensor) -> Tensor:
        """The matrix (n, n) of all rows (n, columns), which begin with the rows of earlier calls."""
        if isinstance(feature_map, ExactKernel):
            return feature_map.gram(rows)
        matrix = rows.new_empty(len(rows), len(rows))
        for index, (start, stop) in enumerate(edges(len(rows))):
            panel = self._full[index] if index < len(self._full) else symmetric_panel(rows, rows.T, start, stop)
            if index == len(self._full) and stop - start == PANEL:
                self._full.append(panel)
            matrix[start:stop, :stop] = panel
            matrix[:start, start:stop] = panel[:, :start].T
        return matrix

    def indices(self, statistic: KernelStatistic, rows: Tensor, seen: Tensor) -> Tensor:
        """The places (m,) of φ (m, columns) among all rows (n, columns) of the statistic, of repeats the first."""
        count = min(len(seen), len(self._seen))
        is_new = torch.ones(len(seen), dtype=torch.bool)
        indices = torch.zeros(len(seen), dtype=torch.int64)
        if count:
            is_new[:count] = (seen[:count] != self._seen[:count]).any(-1).cpu()
            indices[:count] = self._indices[:count]
        if is_new.any():
            products = statistic.products(seen[is_new.to(seen.device)], rows)
            # A φ of norm 1 is nearest to itself, and so is a repeat, to rounding.
            is_nearest = products >= products.amax(-1, keepdim=True) - 1e-14
            indices[is_new] = is_nearest.to(torch.uint8).argmax(-1).cpu()
        self._seen, self._indices = seen, indices
        return indices.to(seen.device)


def shares_of(statistic: KernelStatistic, kept: KernelMatrix, *seen: Tensor) -> tuple[Tensor, ...]:
    """Eigenvalues (k) of C, descending, k = min(n, width), and (u_iᵀφ)² (b, k) of the last φ.

    `seen`: then the same of more φ (m, width), among all that the statistic has seen.
    """
    eigenvalues, *coordinates = _eigen(statistic, kept, *seen)
    if statistic.rows is None:
        return eigenvalues, *(each.square() for each in coordinates)
    # uᵀφ of an eigenvector u of C and a row φ is the entry of the Gram matrix's eigenvector at that row, times √(n g).
    return eigenvalues, *(each.square() * (statistic.samples * eigenvalues) for each in coordinates)


def weights_of(statistic: KernelStatistic, kept: KernelMatrix, *seen: Tensor) -> tuple[Tensor, ...]:
    """The eigenvalues of `shares_of` (k), and (u_iᵀφ)²/(n g_i) (b, k), which a Gram matrix knows where g_i = 0, too."""
    eigenvalues, *coordinates = _eigen(statistic, kept, *seen)
    if statistic.rows is None:
        scale = statistic.samples * floored_at(eigenvalues)
        return eigenvalues, *(each.square() / scale for each in coordinates)
    return eigenvalues, *(each.square() for each in coordinates)


def floored_at(eigenvalues: Tensor) -> Tensor:
    """Descending eigenvalues (k), none below `FLOOR` times the largest."""
    return eigenvalues.clamp_min(FLOOR * float(eigenvalues[0]))


def _eigen(statistic: KernelStatistic, kept: KernelMatrix, *seen: Tensor) -> tuple[Tensor, ...]:
    """Eigenvalues (k) of C or of the Gram matrix over n, descending, ≥ 0, and the last φ in its eigenvectors (b, k)."""
    rows, n = statistic.rows, statistic.samples
    last = statistic.last_rows
    if rows is None:
        parts = eigen_coordinates(statistic.moment.div_(n), last, *seen, overwrite=True)
    else:
        latest = torch.arange(n - len(last), n, device=rows.device)
        indices = [kept.indices(statistic, rows, each) for each in seen]
        parts = eigen_entries(kept.of(statistic.feature_map, rows) / n, latest, *indices)
    eigenvalues, *coordinates = (part.flip(-1) for part in parts)
    return eigenvalues.clamp_min(0.0), *coordinates


def slopes(values: Tensor, order: float) -> Tensor:
    """∂ log Vendi_α / ∂λ (k) at eigenvalues (k) > 0, descending, but for a constant at α = 1."""
    if order == 1.0:
        return -values.log()
    if math.isinf(order):
        derivative = torch.zeros_like(values)
        derivative[0] = -1.0 / values[0]
        return derivative
    # Divided by the largest, so that no power underflows.
    ratio = values / values[0]
    return order / (1.0 - order) * ratio ** (order - 1.0) / (values[0] * (ratio**order).sum())


def second_order(values: Tensor, first_derivative: Tensor, order: float) -> float:
    """Variance of the second-order term, times n², from eigenvalues (k) and their `slopes` (k) of finite order."""
    derivative = first_derivative * (order - 1.0) / values if order != 1.0 else -1.0 / values
    # Pieces that fit into a core's cache.
    pieces = zip(*(each.split(64) for each in (values, first_derivative, derivative)), strict=True)
    return sum(
        float((_divided_differences(values, first_derivative, *piece) * values * piece[0][:, None]).square().sum())
        for piece in pieces
    )


def _divided_differences(values: Tensor, slopes: Tensor, own: Tensor, own_slopes: Tensor, derivative: Tensor) -> Tensor:
    """(f_i − f_j)/(g_i − g_j) (p, k) of some values with all, the derivative f′ where two are equal to rounding."""
    gaps = own[:, None] - values
    equal = gaps.abs() <= 1e-8 * torch.maximum(own[:, None], values)
    ratios = (own_slopes[:, None] - slopes) / torch.where(equal, 1.0, gaps)
    return torch.where(equal, derivative[:, None], ratios)


SMALLEST_SHARE = 1e-9
"""Eigenvalues up to this part of the largest count as zero: their eigenvectors would be rounding."""


def modes_of(
    statistic: KernelStatistic, reservoir: Reservoir, names: Iterable[str], count: int, samples: int
) -> list[ModeInfo]:
    """The `count` modes of the largest share, each with the `samples` of the reservoir that show it (equations.md §3c).

    The eigenvectors of C are over all samples seen, by the n × n Gram matrix while n ≤ width; u is signed so that
    its sum over the reservoir is ≥ 0. `names`: the reservoir's tensors that φ takes, side by side. Modes
    without a share are left out, so there may be fewer; modes of equal share may be any basis of their span.
    Raises FixError on a reservoir without samples, on counts below 1, and for an exact kernel; KeyError where the
    reservoir lacks a tensor.
    """
    check_shown(statistic.feature_map, count, samples)
    return modes_by_vectors(statistic.feature_map, reservoir, names, *_vectors(statistic, count), samples)


def modes_by_vectors(
    feature_map: FeatureMap, reservoir: Reservoir, names: Iterable[str], shares: Tensor, vectors: Tensor, samples: int
) -> list[ModeInfo]:
    """Modes of these shares (k) and unit vectors (width, k), with samples as `modes_of` has them. Raises as it does."""
    rows = rows_of(reservoir, *names)
    scores = feature_map(torch.cat(rows, -1).to(vectors.device)) @ vectors
    scores = torch.where(scores.sum(0) < 0.0, -scores, scores)
    ids = reservoir.ids
    return [
        ModeInfo(share=share, samples=largest(ids, column, samples))
        for share, column in zip(shares.tolist(), scores.T, strict=True)
    ]


def rows_of(reservoir: Reservoir, *names: str) -> list[Tensor]:
    """The reservoir's rows (k, d) of each name. Raises FixError if it is empty, KeyError on other names."""
    if len(reservoir) == 0:
        raise FixError("the reservoir holds no samples")
    tensors = reservoir.tensors
    return [tensors[name] for name in names]


def check_shown(feature_map: FeatureMap, count: int, samples: int) -> None:
    """Raise FixError unless the map has φ, and at least 1 mode, or group, and 1 sample of each are to be shown."""
    if isinstance(feature_map, ExactKernel):
        raise FixError("features='exact', the kernel itself, has no modes: they need features=r")
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


def largest(ids: tuple[str, ...], weights: Tensor, count: int) -> list[Shown]:
    """The `count` samples of the largest weights (n), descending, the earlier in the log first where they tie."""
    ranked = weights.sort(descending=True, stable=True)
    return [
        Shown(id=ids[sample], weight=weight)
        for sample, weight in zip(ranked.indices[:count].tolist(), ranked.values[:count].tolist(), strict=True)
    ]
