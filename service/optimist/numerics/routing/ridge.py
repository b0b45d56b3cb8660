"""Ridge regressions of scores on features: what each generator scores on a prompt, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from optimist.numerics.routing.features import Floats
from optimist.numerics.routing.moments import Moments

RIDGES: Floats = np.geomspace(0.1, 1e5, 37)
"""Ridges κ that are weighed by their likelihood. σ²/κ is the prior variance of what a generator scores on a prompt,
less its mean: the largest κ makes a regression a mean."""
FEWEST = 3
"""Samples that the variance of all generators counts as, beside a generator's own."""


class Predictor(Protocol):
    """Means and standard errors of all generators' scores."""

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means (n, G) and standard errors (n, G) of the expected scores at features (n, r)."""
        ...


@dataclass(frozen=True, eq=False)
class Published:
    """The regressions of RFF-UCB: A = aI + Σφφᵀ, mean φᵀA⁻¹b, width √(φᵀA⁻¹φ) (arXiv 2410.13287).

    Its widths are not standard errors: noise of any size has the same.
    """

    weights: Floats
    """A⁻¹b (G, r)."""
    factors: Floats
    """Inverses of the lower Cholesky factors of A (G, r, r)."""

    @classmethod
    def of(cls, moments: Sequence[Moments], ridge: float = 1.0) -> Published:
        """The regressions of generators with these moments."""
        factors = [_inverse_factor(each.gram, ridge) for each in moments]
        weights = [factor.T @ (factor @ each.cross) for factor, each in zip(factors, moments, strict=True)]
        return cls(np.array(weights), np.array(factors))

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means (n, G) and widths (n, G) at features (n, r)."""
        return features @ self.weights.T, _lengths(self.factors, features)


@dataclass(frozen=True, eq=False)
class Regressions:
    """Our regressions: s = mean_g + (u + θ_g)ᵀ(φ − centre_g) + noise.

    u, which all generators share, says how hard a prompt is; it is fitted to the samples of all. θ_g, what generator g
    is better or worse at, is fitted to what is left. Both are ridge regressions whose ridges maximise the likelihood:
    where no generator is better at anything in particular, θ vanishes, and only the means differ.
    """

    means: Floats
    """Mean score (G,)."""
    centres: Floats
    """Mean φ (G, r)."""
    weights: Floats
    """u + θ_g (G, r)."""
    factors: Floats
    """(G, r, r): the covariance of θ_g is σ_g² FᵀF."""
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
    def of(cls, moments: Sequence[Moments]) -> Regressions:
        """The regressions of generators with these moments, of one sample or more each."""
        parts = [each.centred for each in moments]
        counts = np.array([float(each.samples) for each in moments])
        gram, cross, squares = (np.sum(each, axis=0) for each in zip(*parts, strict=True))
        shared = _Likelihood.of(gram, cross, squares, float(counts.sum()) - len(counts)).solution
        left = [
            _Likelihood.of(a, b - a @ shared, max(float(yy - 2.0 * shared @ b + shared @ a @ shared), 0.0), n - 1.0)
            for (a, b, yy), n in zip(parts, counts.tolist(), strict=True)
        ]
        ridge = _mean_ridge(np.sum([each.values for each in left], axis=0))
        own = np.array([each.noise(ridge) for each in left])
        degrees = np.maximum(counts - 1.0, 0.0)
        pooled = float(degrees @ own / degrees.sum()) if degrees.any() else 1.0
        # A few scores may be equal by chance, such as five successes: alone they would end all exploration.
        noise = (degrees * own + FEWEST * pooled) / (degrees + FEWEST)
        return cls(
            np.array([each.mean for each in moments]),
            np.array([each.centre for each in moments]),
            np.array([shared + each.at(ridge) for each in left]),
            np.array([each.factor(ridge) for each in left]),
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


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """A ridge regression through 0 in the eigenbasis of its Gram matrix, for all `RIDGES` at once."""

    eigenvalues: Floats
    basis: Floats
    cross: Floats
    squares: float
    degrees: float
    """Samples less the degrees of freedom that their means take."""
    values: Floats
    """Log marginal likelihood of each ridge, with the noise that maximises it, up to a constant."""

    @classmethod
    def of(cls, gram: Floats, cross: Floats, squares: float, degrees: float) -> _Likelihood:
        eigenvalues, basis = np.linalg.eigh(gram)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        inside = basis.T @ cross
        if degrees < 1.0:
            return cls(eigenvalues, basis, inside, squares, degrees, np.zeros(len(RIDGES)))
        left = squares - (np.square(inside)[:, None] / (eigenvalues[:, None] + RIDGES)).sum(0)
        left = np.maximum(left, 1e-12 * max(squares, 1e-300))
        growth = np.log1p(eigenvalues[:, None] / RIDGES).sum(0)
        return cls(eigenvalues, basis, inside, squares, degrees, -0.5 * (growth + degrees * np.log(left)))

    @property
    def solution(self) -> Floats:
        """The weights (r,) at the ridge of the largest likelihood."""
        return self.at(_mean_ridge(self.values))

    def at(self, ridge: float) -> Floats:
        """The weights (r,) at this ridge."""
        return self.basis @ (self.cross / (self.eigenvalues + ridge))

    def noise(self, ridge: float) -> float:
        """The variance of the noise at this ridge."""
        left = self.squares - float((np.square(self.cross) / (self.eigenvalues + ridge)).sum())
        return max(left, 1e-12 * self.squares, 1e-300) / max(self.degrees, 1.0)

    def factor(self, ridge: float) -> Floats:
        """F (r, r) with FᵀF = (gram + ridge·I)⁻¹."""
        return (self.basis / np.sqrt(self.eigenvalues + ridge)).T


def _mean_ridge(values: Floats) -> float:
    """The ridge of the mean prior variance, over ridges as likely as their log likelihoods say.

    The likeliest ridge alone would stop all exploration: of few samples it is often the largest.
    """
    weights = np.exp(values - values.max())
    return float(weights.sum() / (weights / RIDGES).sum())


def _inverse_factor(gram: Floats, ridge: float) -> Floats:
    lower = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
    return np.asarray(np.linalg.inv(lower), dtype=np.float64)


def _lengths(factors: Floats, features: Floats) -> Floats:
    return np.stack([np.linalg.norm(features @ factor.T, axis=-1) for factor in factors], axis=-1)
