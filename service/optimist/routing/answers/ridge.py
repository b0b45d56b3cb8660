"""Ridge regressions of scores on features: what each generator scores on a prompt, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from optimist.arrays import Bools, Floats
from optimist_client.errors import FixError


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums over samples with features φ (r) and scores s that regressions of s on φ need."""

    samples: int
    gram: Floats
    """Σ φφᵀ (r, r)."""
    total: Floats
    """Σ φ (r,)."""
    cross: Floats
    """Σ sφ (r,)."""
    sum: float
    """Σ s."""
    squares: float
    """Σ s²."""

    @classmethod
    def from_rows(cls, features: Floats, scores: Floats) -> Sums:
        """The sums of features (n, r) and scores (n,), n ≥ 0. Raises FixError if a number is not finite."""
        if features.ndim != 2 or scores.shape != features.shape[:1]:
            raise FixError(f"expected features (n, r) and scores (n,), got {features.shape} and {scores.shape}")
        if not (np.isfinite(features).all() and np.isfinite(scores).all()):
            raise FixError("expected finite features and scores")
        return cls(
            len(scores),
            features.T @ features,
            features.sum(0),
            scores @ features,
            float(scores.sum()),
            float(scores @ scores),
        )

    @classmethod
    def none(cls, width: int) -> Sums:
        """The sums of no samples."""
        return cls(0, np.zeros((width, width)), np.zeros(width), np.zeros(width), 0.0, 0.0)

    def __add__(self, other: Sums) -> Sums:
        return self._with(other, 1)

    def __sub__(self, other: Sums) -> Sums:
        """Without the samples of `other`, which are among these."""
        return self._with(other, -1)

    def _with(self, other: Sums, sign: int) -> Sums:
        return Sums(
            self.samples + sign * other.samples,
            self.gram + sign * other.gram,
            self.total + sign * other.total,
            self.cross + sign * other.cross,
            self.sum + sign * other.sum,
            self.squares + sign * other.squares,
        )

    @property
    def mean(self) -> float:
        """Mean score; 0 without samples."""
        return self.sum / max(self.samples, 1)

    @property
    def centre(self) -> Floats:
        """Mean φ (r,); 0 without samples."""
        return self.total / max(self.samples, 1)

    @property
    def centred(self) -> tuple[Floats, Floats, float]:
        """Σ φφᵀ (r, r), Σ sφ (r,) and Σ s² of φ and s minus their means."""
        outer = np.outer(self.total, self.centre)
        squares = max(self.squares - self.sum * self.mean, 0.0)
        return self.gram - outer, self.cross - self.mean * self.total, squares


@dataclass(frozen=True, eq=False)
class CentredSums:
    """Sums of features and scores about their own means."""

    samples: float
    mean: float
    """Mean score."""
    centre: Floats
    """Mean φ (r,)."""
    gram: Floats
    """Σ φφᵀ (r, r) of φ minus its mean."""
    cross: Floats
    """Σ sφ (r,), both minus their means."""
    squares: float
    """Σ s² of s minus its mean."""

    @classmethod
    def from_sums(cls, sums: Sums) -> CentredSums:
        return cls(float(sums.samples), sums.mean, sums.centre, *sums.centred)

    def joined(self, samples: float, centre: Floats, mean: float) -> CentredSums:
        """With so many further samples, all at this φ and of this score."""
        part = samples / (self.samples + samples)
        away, above = centre - self.centre, mean - self.mean
        return CentredSums(
            self.samples + samples,
            self.mean + part * above,
            self.centre + part * away,
            self.gram + part * self.samples * np.outer(away, away),
            self.cross + part * self.samples * above * away,
            self.squares + part * self.samples * above * above,
        )


RIDGES: Floats = np.geomspace(0.004, 16.0, 6)
"""Ridges κ of θ, weighed by their likelihood and the prior √κ. σ²/κ is the prior variance of what a generator scores on
a prompt beyond its mean and what all share. The smallest ones are for scores with little noise, such as scores of few
prompts that come again and again. Ones above 16 are left out: few samples like them best, which ends all learning."""
SHARED_RIDGES: Floats = np.array([0.1, 1.3, 17.0, 230.0, 3000.0])
"""Ridges of u, which all generators share."""
MEAN_RIDGES: Floats = np.geomspace(0.01, 1000.0, 6)
"""Samples that the mean of all generators may count as, beside a generator's own."""


class FeaturePredictor(Protocol):
    """Means and standard errors of all generators' scores."""

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means (n, G) and standard errors (n, G) of the expected scores at features (n, r)."""
        ...


@dataclass(frozen=True, eq=False)
class PublishedRidge:
    """The regressions of RFF-UCB: A = aI + Σφφᵀ, mean φᵀA⁻¹b, width √(φᵀA⁻¹φ) (arXiv 2410.13287).

    Its widths are not standard errors: noise of any size has the same.
    """

    weights: Floats
    """A⁻¹b (G, r)."""
    factors: Floats
    """Inverses of the lower Cholesky factors of A (G, r, r)."""

    @classmethod
    def from_moments(cls, moments: Sequence[Sums], linear: int = 0, ridge: float = 1.0) -> PublishedRidge:
        """The regressions of generators with these moments, whose first `linear` columns are not used."""
        width = len(moments[0].total)
        weights, factors = np.zeros((len(moments), width)), np.zeros((len(moments), width, width))
        for index, each in enumerate(moments):
            factor = _inverse_factor(each.gram[linear:, linear:], ridge)
            weights[index, linear:] = factor.T @ (factor @ each.cross[linear:])
            factors[index, linear:, linear:] = factor
        return cls(weights, factors)

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means (n, G) and widths (n, G) at features (n, r)."""
        return features @ self.weights.T, _lengths(self.factors, features)


@dataclass(frozen=True, eq=False)
class Regressions:
    """Our regressions: s = mean_g + (u + θ_g)ᵀ(x − centre_g) + noise.

    u, which all generators share, says how hard a prompt is; θ_g, what generator g is better or worse at. Both have
    normal priors whose variances are averaged over by likelihood. u is integrated out of the likelihood: were the
    fitted u put in as if it were known, it would take up part of every θ_g, and θ would seem to vanish
    (rules/routing.md).
    """

    means: Floats
    """Mean score (G,)."""
    centres: Floats
    """Mean φ (G, r)."""
    weights: Floats
    """u + θ_g (G, r)."""
    factors: Floats
    """(G, r, r): the covariance of θ_g is σ_g² FᵀF. What is unknown of u is left out: all generators share it."""
    noise: Floats
    """σ_g (G,): standard deviation of a score about its expectation."""
    samples: Floats
    """(G,)."""

    @property
    def offsets(self) -> Floats:
        """(G,): the mean of generator g at φ is offsets[g] + weights[g]·φ."""
        return self.means - np.einsum("gr,gr->g", self.centres, self.weights)

    @property
    def factored_centres(self) -> Floats:
        """F centre_g (G, r)."""
        return np.einsum("gsr,gr->gs", self.factors, self.centres)

    @classmethod
    def from_moments(cls, moments: Sequence[Sums], linear: int = 0) -> Regressions:
        """The regressions of generators with these moments, of one sample or more each.

        linear: how many of the first columns are principal components.
        """
        counts = np.array([float(each.samples) for each in moments])
        own, shared = prior_variances([each.centred for each in moments], counts, linear)
        alone = cls._of_known_priors([CentredSums.from_sums(each) for each in moments], own, shared)
        if len(moments) == 1:
            return alone
        # Differences of means that may be chance must not outweigh what the context says, nor keep a generator of few
        # samples from all prompts.
        centre = np.sum([each.total for each in moments], axis=0) / counts.sum()
        values, errors = (each[0] for each in alone.predict(centre[None]))
        common, spread = common_mean(values, errors, alone.noise)
        located = [
            CentredSums.from_sums(each).joined(noise**2 / spread**2, centre, common)
            for each, noise in zip(moments, alone.noise.tolist(), strict=True)
        ]
        return replace(cls._of_known_priors(located, own, shared), noise=alone.noise)

    @classmethod
    def _of_known_priors(cls, located: Sequence[CentredSums], own: Floats, shared: Floats) -> Regressions:
        """The regressions by these prior variances of θ and u by column, in units of the noise."""
        counts = np.array([each.samples for each in located])
        root = np.sqrt(own)
        grams = [root[:, None] * each.gram * root for each in located]
        crosses = [root * each.cross for each in located]
        halves = [_inverse_factor(gram, 1.0) for gram in grams]
        # P = (I + A)⁻¹ of each generator.
        inverses = [half.T @ half for half in halves]
        pulls = np.sum([inverse @ cross for inverse, cross in zip(inverses, crosses, strict=True)], axis=0)
        taken = len(located) * np.eye(len(root)) - np.sum(inverses, axis=0)
        u = np.linalg.solve(np.diag(own / shared) + taken, pulls)
        weights, noises, degrees = [], [], []
        for each, inverse, scaled, pull in zip(located, inverses, grams, crosses, strict=True):
            weight = root * (u + inverse @ (pull - scaled @ u))
            weights.append(weight)
            squares = float(each.squares - 2.0 * weight @ each.cross + weight @ each.gram @ weight)
            noises.append(max(squares, 1e-12 * each.squares, 1e-300))
            degree = each.samples - 1.0
            degrees.append(max(degree - (len(root) - float(np.trace(inverse))), 0.5 * degree, 0.5))
        left, free = np.array(noises), np.array(degrees)
        # A few scores may be equal by chance, such as five successes: alone they would end all exploration. So the
        # variance of all generators counts as 3 samples of each.
        noise = (left + 3 * left.sum() / free.sum()) / (free + 3)
        if not (counts > 1.0).any():  # nothing says how large it is
            noise = np.ones(len(counts))
        return cls(
            np.array([each.mean for each in located]),
            np.array([each.centre for each in located]),
            np.array(weights),
            np.array([half * root for half in halves]),
            np.sqrt(noise),
            counts,
        )

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means (n, G) and standard errors (n, G) of the expected scores at features (n, r)."""
        means = features @ self.weights.T + self.offsets
        lengths = np.stack(
            [
                np.linalg.norm((features - centre) @ factor.T, axis=-1)
                for centre, factor in zip(self.centres, self.factors, strict=True)
            ],
            axis=-1,
        )
        return means, self.noise * np.sqrt(1.0 / self.samples + np.square(lengths))


def common_mean(values: Floats, errors: Floats, noise: Floats) -> tuple[float, float]:
    """The mean about which generators' mean scores vary, and their standard deviation, from estimates (G,) with
    errors (G,) and the noise (G,) of a score.

    The standard deviation is σ/√κ, σ² the mean of noise²; log κ is the mean over `MEAN_RIDGES`, each as likely as the
    estimates say, with the mean integrated out.
    """
    level = float(values.mean())
    apart = values - level
    # Generators of scores without noise, too.
    scale = max(float(np.square(noise).mean()), 1e-24 * float(np.square(apart).max()), 1e-200)
    precisions = 1.0 / (np.square(errors) + scale / MEAN_RIDGES[:, None])
    totals = precisions.sum(1)
    means = precisions @ apart / totals
    left = (precisions * np.square(apart - means[:, None])).sum(1)
    likelihoods = -0.5 * (np.log(totals) - np.log(precisions).sum(1) + left)
    weights = np.exp(likelihoods - likelihoods.max())
    spread = np.sqrt(scale / np.exp(weights @ np.log(MEAN_RIDGES) / weights.sum()))
    precisions = 1.0 / (np.square(errors) + spread**2)
    return level + float(precisions @ apart / precisions.sum()), float(spread)


def prior_variances(
    parts: Sequence[tuple[Floats, Floats, float]], counts: Floats, linear: int = 0
) -> tuple[Floats, Floats]:
    """The prior variances of θ and of u by column, (r,) each, in units of the noise: means over all `RIDGES`,
    `SHARED_RIDGES`, and with and without components, each weighed by its likelihood times √κ. With a flat prior of
    log κ, the smallest κ would decide the mean of 1/κ while there are few samples: scores would seem to have no noise.

    parts: `Sums.centred` of each generator; counts: samples of each (G,). The likelihood of y_g = X_g(u + θ_g) +
    noise, whose scale is the likeliest one, with θ_g and u integrated out:
    −½ [Σ_g log|I + A_g/κ| + Σ_j log(1 + μ_j/κ_u) + (N − G) log Q], μ_j the eigenvalues of Σ_g κ(I − κ(A_g + κI)⁻¹).
    """
    forms = forms_of(len(parts[0][1]), linear)
    values = np.array([_likelihoods([_of_columns(each, form == 1.0) for each in parts], counts) for form in forms])
    values += 0.5 * np.log(RIDGES)[:, None]
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    own = np.einsum("dku,k,dr->r", weights, 1.0 / RIDGES, np.array(forms))
    return own, np.einsum("dku,u,dr->r", weights, 1.0 / SHARED_RIDGES, np.array(forms))


def forms_of(width: int, linear: int, left_out: float = 1e-6) -> list[Floats]:
    """The prior variances by column that are weighed, (r,) each: of all columns alike, and with principal components or
    features left out: these have the variance `left_out`, where scores are not linear in components, or are."""
    plain = np.ones(width)
    if not 0 < linear < width:
        return [plain]
    is_linear = np.arange(width) < linear
    return [plain, np.where(is_linear, left_out, 1.0), np.where(is_linear, 1.0, left_out)]


def _of_columns(part: tuple[Floats, Floats, float], kept: Bools) -> tuple[Floats, Floats, float]:
    gram, cross, squares = part
    return gram[np.ix_(kept, kept)], cross[kept], squares


def _likelihoods(parts: Sequence[tuple[Floats, Floats, float]], counts: Floats) -> Floats:
    """Log marginal likelihoods of all `RIDGES` (rows) and `SHARED_RIDGES`, of all columns alike."""
    total = sum(squares for _, _, squares in parts)
    degrees = float(counts.sum()) - len(parts)
    if degrees < 1.0:
        return np.zeros((len(RIDGES), len(SHARED_RIDGES)))
    width, ridges = len(parts[0][1]), RIDGES[:, None]
    # All κ at once, in the eigenbasis of each A.
    precision, pull = np.zeros((len(RIDGES), width, width)), np.zeros((len(RIDGES), width))
    left, growth = np.full(len(RIDGES), total), np.zeros(len(RIDGES))
    for gram, cross, _ in parts:
        eigenvalues, vectors = np.linalg.eigh(gram)
        eigenvalues, turned = np.maximum(eigenvalues, 0.0), cross @ vectors
        shrinkage = ridges / (eigenvalues + ridges)
        precision += (vectors * (eigenvalues * shrinkage)[:, None, :]) @ vectors.T
        pull += (turned * shrinkage) @ vectors.T
        left -= (np.square(turned) / (eigenvalues + ridges)).sum(-1)
        growth += np.log1p(eigenvalues / ridges).sum(-1)
    values = np.empty((len(RIDGES), len(SHARED_RIDGES)))
    for row in range(len(RIDGES)):
        logarithms, explained = _logarithms_and_squares(precision[row], SHARED_RIDGES, pull[row])
        quadratic = np.maximum(left[row] - explained, 1e-12 * max(total, 1e-300))
        values[row] = growth[row] + logarithms - width * np.log(SHARED_RIDGES) + degrees * np.log(quadratic)
    return -0.5 * values


def _logarithms_and_squares(matrix: Floats, ridges: Floats, vector: Floats) -> tuple[Floats, Floats]:
    """log|B + κI| and vᵀ(B + κI)⁻¹v of a symmetric B ≥ 0 for each of the ridges κ, by one Cholesky factor each: that of
    B + κI with v as a further row, which becomes L⁻¹v."""
    size = len(vector)
    bordered = np.empty((len(ridges), size + 1, size + 1))
    bordered[:, :size, :size] = matrix + ridges[:, None, None] * np.eye(size)
    bordered[:, size, :size] = bordered[:, :size, size] = vector
    # vᵀ(B + κI)⁻¹v is at most |v|²/κ: with a larger corner the whole is positive definite.
    bordered[:, size, size] = 1.0 + 2.0 * (vector @ vector) / ridges
    lower = np.linalg.cholesky(bordered)
    logarithms = 2.0 * np.log(np.diagonal(lower, axis1=-2, axis2=-1)[:, :size]).sum(-1)
    return logarithms, np.square(lower[:, size, :size]).sum(-1)


def _inverse_factor(gram: Floats, ridge: float) -> Floats:
    """L⁻¹ of the Cholesky factor L of A + κI, so that (A + κI)⁻¹ = L⁻ᵀL⁻¹."""
    lower = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
    return _inverse_of_lower(np.asarray(lower, dtype=np.float64))


def _inverse_of_lower(lower: Floats) -> Floats:
    """The inverse of a lower triangular matrix (r, r), by blocks: several times as fast as for any matrix."""
    size = len(lower)
    if size <= 32:
        return np.asarray(np.linalg.inv(lower), dtype=np.float64)
    half = size // 2
    inverse = np.zeros_like(lower)
    first, last = _inverse_of_lower(lower[:half, :half]), _inverse_of_lower(lower[half:, half:])
    inverse[:half, :half], inverse[half:, half:] = first, last
    inverse[half:, :half] = -last @ (lower[half:, :half] @ first)
    return inverse


def _lengths(factors: Floats, features: Floats) -> Floats:
    return np.stack([np.linalg.norm(features @ factor.T, axis=-1) for factor in factors], axis=-1)


class KernelRidge:
    """One generator's regression, updated by a sample at a time: mean k_yᵀ(K + aI)⁻¹v and width
    a^{−1/2} √(k(y, y) − k_yᵀ(K + aI)⁻¹k_y), Gaussian kernel exp(−‖x − y‖²/(2σ²)) (arXiv 2410.13287).

    `script_start`: as the authors' script begins, whose first inverse is 1/k + a instead of 1/(k + a), so that the
    first sample counts four times at a = 1. The inverse grows by blocks, in time O(n²) a sample.
    """

    def __init__(self, bandwidth: float, ridge: float = 1.0, *, script_start: bool = False) -> None:
        self._bandwidth = bandwidth
        self._ridge = ridge
        self._script_start = script_start
        self._contexts: Floats = np.zeros((0, 0))
        self._scores: Floats = np.zeros(0)
        self._inverse: Floats = np.zeros((0, 0))

    @property
    def samples(self) -> int:
        return len(self._scores)

    def add(self, context: Floats, score: float) -> None:
        """Add one context (d,) with its score."""
        if not self.samples:
            start = 1.0 + self._ridge if self._script_start else 1.0 / (1.0 + self._ridge)
            self._inverse = np.array([[start]])
            self._contexts = context[None].astype(np.float64)
        else:
            kernel = self._kernel(context)
            u = self._inverse @ kernel
            b = 1.0 / (1.0 + self._ridge - kernel @ u)
            corner = np.array([[b]])
            self._inverse = np.block([[self._inverse + b * np.outer(u, u), -b * u[:, None]], [-b * u[None], corner]])
            self._contexts = np.concatenate([self._contexts, context[None]])
        self._scores = np.append(self._scores, score)

    def predict(self, context: Floats) -> tuple[float, float]:
        """Mean and width at a context (d,), from 1 sample on."""
        kernel = self._kernel(context)
        left = max(1.0 - kernel @ self._inverse @ kernel, 0.0)
        return float(kernel @ self._inverse @ self._scores), float(np.sqrt(left / self._ridge))

    def _kernel(self, context: Floats) -> Floats:
        squares = np.square(self._contexts - context).sum(1)
        return np.exp(-squares / (2.0 * self._bandwidth**2))
