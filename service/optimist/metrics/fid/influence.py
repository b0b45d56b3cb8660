"""The terms of a Fréchet distance, its de-biased value and its errors (equations.md §1; rules/estimates.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from optimist.estimates.pairing import JACKKNIFE_GROUPS, LARGEST_INDEX, jackknife_rows
from optimist.estimates.skewness import skewness
from optimist.metrics.base import Analysis, linear_share
from optimist.metrics.fid.reference import UNKNOWN, FrechetReference, by_covariance
from optimist.metrics.fid.statistic import GaussianStatistic, KeptGram
from optimist.metrics.spectra.eigen import (
    centre,
    double_centre,
    eigen_basis,
    eigen_coordinates,
    pair_sum,
    root_trace,
    square_norms,
)
from optimist.metrics.spectra.leave_one_out import leave_one_out_curve, unlike
from optimist.metrics.spectra.symmetric import congruence, symmetric_product, times_lower
from optimist_client.errors import FixError


@dataclass(frozen=True)
class FrechetTerms:
    """The terms of a Fréchet distance, before the scatter is divided by n or n − 1."""

    gap: float
    """‖μ̂ − μ_r‖²."""
    trace: float
    """Tr of the scatter."""
    root: float
    """Tr (S · scatter · S)^{1/2}."""
    reference_trace: float
    """Tr Σ_r."""

    def distance(self, degrees: int) -> float:
        """The distance with scatter / degrees as covariance, never negative. Raises FixError on degrees < 1."""
        if degrees < 1:
            raise FixError("the unbiased covariance needs at least 2 samples")
        spread = self.trace / degrees + self.reference_trace - 2.0 * self.root / math.sqrt(degrees)
        return max(self.gap + spread, 0.0)


def terms_of(
    reference: FrechetReference,
    statistic: GaussianStatistic,
    *,
    spectrum: Tensor | None = None,
    moments: tuple[Tensor, float] | None = None,
) -> FrechetTerms:
    """The distance's terms from 1 sample or more, by the Gram matrix of the rows while these are held.

    `spectrum` saves the eigenproblem where the caller has the eigenvalues of rootᵀ scatter root over the reference's
    `rank`, or of the Gram matrix; `moments`, the statistic's `mean_and_trace`, saves these.
    """
    rows = statistic.rows
    # The caller's spectrum lacks the eigenvalues between rank and support.
    spectrum = spectrum if reference.rank == reference.support else None
    if rows is not None:
        root = _gram_root(rows, reference.whole_factor, spectrum)
    else:
        root = _covariance_root(statistic.scatter, reference.whole_factor, spectrum)
    mean, trace = moments or statistic.mean_and_trace()
    return FrechetTerms(float((mean - reference.mean).square().sum()), trace, root, reference.trace)


def _gram_root(rows: Tensor, factor: Tensor, spectrum: Tensor | None) -> float:
    """Tr √(ZᵀZ) by the Gram matrix of Z: rows (n, d) minus their mean, times Rᵀ, R the factor (k, d)."""

    def whitened() -> Tensor:
        return times_lower(centre(rows)[1], factor)

    if spectrum is not None:
        return root_trace(spectrum, whitened)
    made = whitened()
    # Centred rows are linearly dependent: the smallest eigenvalue is zero plus noise, which a root would magnify.
    return root_trace(torch.linalg.eigvalsh(made @ made.T)[1:], lambda: made)


def _covariance_root(scatter: Tensor, factor: Tensor, spectrum: Tensor | None) -> float:
    """Tr √(R scatter Rᵀ), scatter (d, d); R is the factor (k, d)."""
    eigenvalues: Tensor = torch.linalg.eigvalsh(congruence(factor, scatter)) if spectrum is None else spectrum

    def whitened() -> Tensor:
        squares, eigenvectors = torch.linalg.eigh(scatter)
        # In directions without samples the eigenvalues are noise, and each would add its root.
        noise = len(squares) * torch.finfo(squares.dtype).eps * squares[-1]
        roots = torch.where(squares > noise, squares, 0.0).sqrt()
        return roots[:, None] * times_lower(eigenvectors.T, factor)

    return root_trace(eigenvalues, whitened)


BUFFER = 256
"""Number of last rows whose influence is computed."""
VANISHING = 1e-200
"""Tr M up to which the spectrum counts as zero: its products underflow in float64."""


@dataclass(frozen=True)
class _Geometry:
    """The quantities that both cases, n ≤ rank and n > rank, compute; M = S Σ S with the 1/(n − 1) covariance."""

    spread: float
    """Tr Σ² without bias."""
    eigenvalues: Tensor
    """The min(n − 1, rank) largest of M."""
    shares: Tensor
    """U of rules/estimates.md (rows, k)."""
    centred: list[Tensor]
    """The last rows minus the mean (≤ 256, d), then the common rows minus the mean (m, d) if there are any."""
    quadratic: list[Tensor]
    """yᵀ T y of each of these rows."""
    pairs: float
    """Σ_ij (s_i s_j / (s_i + s_j))², s = √eig Ms."""
    real: Tensor | None = None
    """vᵀ T v of the rows of the `FiniteReference`, where there is one."""


class FrechetInfluence:
    """Analyses statistics against one reference."""

    def __init__(self, reference: FrechetReference) -> None:
        self._reference = reference

    def analyse(
        self, statistic: GaussianStatistic, kept: dict[str, Any], *common: Tensor, first: Tensor | None = None
    ) -> Analysis:
        """The analysis of n ≥ 2 samples, with the influence of the rows `common` (m, d) if given.

        `plug_in` is FID̃ with the 1/(n − 1) covariance, as all the others are. kept: the cache of the statistic. It gets
        the last jackknife, which depends on the first rows only, and while rows are held their Gram matrix. first: the
        indices of the first samples in log order, −1 of one that has none; None: 0, 1, ….
        """
        n, reference = statistic.samples, self._reference
        mean, squares = statistic.mean_and_trace()
        geometry = (self._few if statistic.holds_rows else self._many)(statistic, kept, mean, *common)
        terms = terms_of(reference, statistic, spectrum=geometry.eigenvalues * (n - 1), moments=(mean, squares))
        plug_in, trace = terms.distance(n - 1), terms.trace / (n - 1)
        if geometry.eigenvalues.sum() > VANISHING:
            root = leave_one_out_curve(geometry.eigenvalues, geometry.shares, n - 1, reference.eigenvalues)
            extrapolated, unlikeness = float(root.extrapolated), 2.0 * abs(unlike(root, reference.eigenvalues))
            estimate = terms.gap + trace * (1.0 - 1.0 / n) + reference.trace - 2.0 * float(root.value)
        else:
            estimate, extrapolated, unlikeness = plug_in, 0.0, 0.0

        shift = mean - reference.mean
        influence, *of_common = (
            2.0 * (each @ shift) + square_norms(each) - quadratic
            for each, quadratic in zip(geometry.centred, geometry.quadratic, strict=True)
        )
        influence_variance = float(influence.var())
        square_trace = geometry.spread + trace**2 / n
        second_order = 2.0 * max(geometry.spread, 0.05 * square_trace) + geometry.pairs
        plain = influence_variance / n + second_order / n**2
        inflated = plain * (1.0 + 20.0 / n)
        deviations = self._jackknife(statistic, kept, first) if n >= 3 else None
        if deviations is None:
            jackknife = inflated
        else:
            groups = len(deviations)
            jackknife = (groups - 1) / groups * float(deviations.square().sum()) * jackknife_rows(n) / n
        sampled = 0.5 * (inflated + jackknife)
        share = _repeating(statistic.last_rows)
        repeated = share * abs(plug_in - estimate)
        doubt = math.hypot(unlikeness, repeated)
        systematic = math.hypot(0.05 * extrapolated, doubt)
        real, missing = None, 1.0
        if (finite := reference.finite) is not None and geometry.real is not None:
            real = finite.influence(shift, geometry.real)
            missing = finite.missing(real, influence_variance, n)
        said = _doubts(unlikeness, share, repeated, reference.rank, math.sqrt(sampled))
        return Analysis(
            plug_in=plug_in,
            estimate=estimate,
            details={
                "extrapolated": extrapolated,
                "doubt": doubt,
                "influence_variance": influence_variance,
                "second_order_variance": second_order,
                "plain_error": math.sqrt(plain),
                "jackknife_error": math.sqrt(jackknife),
            },
            selection_error=math.hypot(math.sqrt(inflated), 0.02 * extrapolated),
            stopping_error=math.hypot(math.sqrt(sampled), systematic),
            first_order=linear_share(influence_variance / n, plain),
            systematic_selection=0.02 * extrapolated,
            systematic_stopping=systematic,
            influence=of_common[0] if of_common else None,
            recent=influence,
            skewness=float(skewness(influence.cpu().numpy())),
            missing=missing,
            reference=real,
            jackknife=deviations if deviations is not None and len(deviations) == JACKKNIFE_GROUPS else None,
            warnings=(*said, *(_warnings(reference, n) if common else ())),
        )

    def _few(self, statistic: GaussianStatistic, kept: dict[str, Any], mean: Tensor, *common: Tensor) -> _Geometry:
        """n ≤ rank: from the n × n Gram matrix of all rows; nothing d × d is decomposed."""
        rows = statistic.rows
        assert rows is not None
        reference, m = self._reference, len(rows) - 1
        # The last 512 rows, as many as a statistic keeps where it does not hold all.
        finite, last = reference.finite, rows[-512:] - mean
        whitened, gram = kept.setdefault("gram", KeptGram(reference.factor)).take(rows)
        eigenvalues, eigenvectors = _gram_basis(gram, m)
        scale = float(eigenvalues.sum()) / reference.square_trace
        buffers = [last[-BUFFER:], *(each - mean for each in common)]
        quadratic = [reference.square_norms(each) for each in buffers]
        return _Geometry(
            spread=_spread(last),
            eigenvalues=eigenvalues,
            shares=eigenvectors.square(),
            centred=buffers,
            quadratic=[each / math.sqrt(scale) if scale > 0.0 else each * 0.0 for each in quadratic],
            pairs=scale * reference.pair_sum,
            real=finite.by_gram(whitened, eigenvalues, eigenvectors) if finite is not None else None,
        )

    def _many(self, statistic: GaussianStatistic, cache: dict[str, Any], mean: Tensor, *common: Tensor) -> _Geometry:
        """n > rank: from the scatter and the last rows; T is renewed here."""
        cache.pop("gram", None)
        reference, n, m = self._reference, statistic.samples, statistic.samples - 1
        finite = reference.finite
        scatter = statistic.scatter
        moment = congruence(reference.factor, scatter) / m
        rows = [statistic.last_rows - mean, *(each - mean for each in common)]
        whitened = [times_lower(each, reference.factor) for each in rows]
        buffers = [whitened[0][-BUFFER:], *whitened[1:]]
        trace = float(moment.trace())

        also = [] if finite is None else [finite.coordinates]
        eigenvalues, shares, *real = _covariance_shares(moment, whitened[0], m, *also)
        if trace > VANISHING:
            weight, scale = min(1.0, reference.rank / n), trace / reference.square_trace
            mixed = (1.0 - weight) * moment + (weight * scale) * reference.square
            squares, *coordinates = eigen_coordinates(mixed, *buffers)
            kept = squares > 1e-9 * squares[-1]
            roots = squares[kept].sqrt()
            quadratic = [(each[:, kept].square() / roots).sum(-1) for each in coordinates]
        else:
            roots, quadratic = moment.new_zeros(0), [each.new_zeros(len(each)) for each in buffers]
        return _Geometry(
            spread=float(scatter.square().sum()) / m**2 - (statistic.scatter_trace / m) ** 2 / n,
            eigenvalues=eigenvalues,
            shares=shares,
            centred=[rows[0][-BUFFER:], *rows[1:]],
            quadratic=quadratic,
            pairs=pair_sum(roots),
            real=by_covariance(eigenvalues, real[0]) if real else None,
        )

    def _jackknife(self, statistic: GaussianStatistic, cached: dict[str, Any], first: Tensor | None) -> Tensor:
        """Deviations (≤ 10) of the delete-a-group estimates of `jackknife_rows` rows, by group; n ≥ 3.

        first: the indices of the first samples in log order. The rows of the smallest indices among them are taken, in
        groups by their index, so that generators that were told in different orders have the same groups.
        """
        q = jackknife_rows(statistic.samples)
        groups = min(JACKKNIFE_GROUPS, q)
        chosen = group = torch.arange(q)
        if first is not None:
            chosen = torch.where(first < 0, LARGEST_INDEX, first).argsort(stable=True)[:q]
            group = torch.where(first[chosen] < 0, chosen, first[chosen])
        settled: tuple[Tensor, Tensor] | None = cached.get("jackknife")
        if settled is not None and torch.equal(settled[0], chosen):
            return settled[1]
        rows = statistic.first_rows[: int(chosen.max()) + 1]
        left = [chosen[group % groups != left_out].to(rows.device) for left_out in range(groups)]
        subsets = _Subsets(self._reference, rows, cached.get("gram") or KeptGram(self._reference.factor))
        deviations = rows.new_empty(groups)
        for size in {len(each) for each in left}:  # where no index is missing, these are two at most
            of_size = [index for index, each in enumerate(left) if len(each) == size]
            deviations[of_size] = subsets.estimates(torch.stack([left[index] for index in of_size]))
        deviations = deviations - deviations.mean()
        cached["jackknife"] = chosen, deviations
        return deviations


class _Subsets:
    """Estimates from subsets of the first rows (q, d) of a stream, of which `kept` has whitened some."""

    def __init__(self, reference: FrechetReference, rows: Tensor, kept: KeptGram) -> None:
        self._reference = reference
        mean, self._centred = centre(rows)
        self._shift = mean - reference.mean
        self._whitened, self._gram = kept.take(rows)

    def estimates(self, subsets: Tensor) -> Tensor:
        """The estimates (B) of subsets, row indices (B, p)."""
        reference, p = self._reference, subsets.shape[-1]
        m = p - 1
        norms = self._centred.square().sum(-1)[subsets].sum(-1)
        means = torch.stack([self._centred[subset].mean(0) for subset in subsets])
        trace = (norms - p * means.square().sum(-1)).clamp_min(0.0) / m
        if p <= reference.rank:
            blocks = double_centre(self._gram[subsets[:, :, None], subsets[:, None, :]])
            eigenvalues, eigenvectors = _gram_basis(blocks, m)
            shares = eigenvectors.square()
        else:
            parts = centre(self._whitened[subsets])[1]
            eigenvalues, shares, *_ = _covariance_shares(parts.mT @ parts / m, parts, m)
        gap = (means + self._shift).square().sum(-1)
        alive = eigenvalues.sum(-1) > VANISHING
        value = gap + torch.where(alive, trace * (1.0 - 1.0 / p), trace * (m / p)) + reference.trace
        if not bool(alive.any()):
            return value
        # The curves of two groups at once: of all ten they take 30 MiB more.
        parts = zip(eigenvalues[alive].split(2), shares[alive].split(2), strict=True)
        roots = [leave_one_out_curve(*part, m, reference.eigenvalues).value for part in parts]
        value[alive] -= 2.0 * torch.cat(roots)
        return value


def _repeating(rows: Tensor) -> float:
    """The share of rows (n, d) that are equal to another one."""
    whole = rows.cpu().contiguous().numpy()
    _, counts = np.unique(whole.view(np.dtype((np.void, whole.strides[0]))), return_counts=True)
    return 1.0 - float((counts == 1).sum()) / len(whole)


def _doubts(unlikeness: float, share: float, repeated: float, rank: int, sampled: float) -> tuple[str, ...]:
    """The warnings about what is most of the interval, beside the error of sampling."""
    said: list[str] = []
    if unlikeness > sampled:
        said.append(
            f"the spectrum is not the reference's: below {rank} samples the score may be off by {unlikeness:.3g}"
        )
    if repeated > sampled:
        said.append(f"rows repeat: {share:.0%} are equal to another one, and the score may be off by {repeated:.3g}")
    return tuple(said)


def _warnings(reference: FrechetReference, samples: int) -> tuple[str, ...]:
    return (UNKNOWN,) if reference.finite is None else reference.finite.warnings(samples)


def _gram_basis(gram: Tensor, degrees: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues (…, n − 1) of M and eigenvectors (…, n, n − 1), from centred whitened rows' Gram matrix (…, n, n)."""
    # The rows are centred, so that the constant vector belongs to the eigenvalue 0. Equal rows have more vectors there,
    # and a decomposition mixes them as rounding has it. Moved to twice the trace, it is the last one, alone.
    moment = gram / degrees
    above = 2.0 * moment.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None] / moment.shape[-1]
    eigenvalues, eigenvectors = eigen_basis(moment + above)
    return eigenvalues[..., :-1].clamp_min(0.0), eigenvectors[..., :-1]


def _spread(rows: Tensor) -> float:
    """Tr Σ² without bias, from rows (b, d), 1 ≤ b ≤ d."""
    gram = double_centre(symmetric_product(rows, rows.T))
    degrees = max(len(rows) - 1, 1)
    trace = float(gram.trace()) / degrees
    return float(gram.square().sum()) / degrees**2 - trace**2 / len(rows)


def _covariance_shares(moment: Tensor, whitened: Tensor, degrees: int, *others: Tensor) -> tuple[Tensor, ...]:
    """Eigenvalues (…, r) of M (…, r, r), U2 (…, rows, r) of centred whitened rows (…, rows, r), r ≥ 0, and the others.

    others: rows (…, r), which are returned in the eigenbasis.
    """
    eigenvalues, coordinates, *turned = eigen_coordinates(moment, whitened, *others)
    eigenvalues = eigenvalues.clamp_min(0.0)
    if eigenvalues.shape[-1] == 0:
        return eigenvalues, whitened.square(), *turned
    floored = torch.maximum(eigenvalues, eigenvalues.amax(-1, keepdim=True).clamp_min(VANISHING) * 1e-12)
    return eigenvalues, coordinates.square() / (degrees * floored[..., None, :]), *turned
