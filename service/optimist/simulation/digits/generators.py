"""Generators of 8×8 digit images. Each is a pure function of (size, seed), with the same bits in every process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from optimist.simulation.digits.networks import forward, sigmoid, unpack
from optimist.simulation.digits.recipe import Recipe

LEVELS = (0.5, 0.75, 1.0, 1.1, 1.2, 1.3, 1.4)
"""The truncation levels of one VAE that the demo compares."""


class Generator(Protocol):
    """A generative model that can be sampled."""

    def sample(self, size: int, seed: int) -> np.ndarray:
        """`size` images (size, 64), float32 in [0, 1], drawn with `seed` ≥ 0; FixError if either is negative."""
        ...


def _pixels(images: np.ndarray) -> np.ndarray:
    return images.clip(0.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class GaussianMixture:
    """Σ_k w_k N(m_k, F_kᵀF_k) over the coordinates of a linear basis, clipped to the pixel range.

    `weights` (K,), `means` (K, l), `factors` (K, l, l); an image is `origin` (64,) + coordinates @ `basis` (l, 64).
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    origin: np.ndarray
    basis: np.ndarray

    def sample(self, size: int, seed: int) -> np.ndarray:
        """`size` images (size, 64), float32 in [0, 1], drawn with `seed`."""
        rng = np.random.default_rng(seed)
        component = rng.choice(len(self.weights), size=size, p=self.weights)
        coordinates = rng.standard_normal((size, self.means.shape[1]))
        for k in np.unique(component):
            rows = component == k
            coordinates[rows] = self.means[k] + coordinates[rows] @ self.factors[k]
        return _pixels(self.origin + coordinates @ self.basis)


@dataclass(frozen=True)
class KernelDensity:
    """Gaussian kernel density: one of `images` (n, 64) plus noise of standard deviation `bandwidth`, clipped."""

    images: np.ndarray
    bandwidth: float

    def sample(self, size: int, seed: int) -> np.ndarray:
        """`size` images (size, 64), float32 in [0, 1], drawn with `seed`."""
        rng = np.random.default_rng(seed)
        centres = self.images[rng.integers(len(self.images), size=size)]
        return _pixels(centres + self.bandwidth * rng.standard_normal(centres.shape))


@dataclass(frozen=True)
class TruncatedVAE:
    """Decoder of a variational autoencoder on latent vectors N(0, truncation² I)."""

    decoder: Sequence[tuple[np.ndarray, np.ndarray]]
    truncation: float

    def sample(self, size: int, seed: int) -> np.ndarray:
        """`size` images (size, 64), float32 in [0, 1], drawn with `seed`."""
        latent = len(self.decoder[0][0])
        z = self.truncation * np.random.default_rng(seed).standard_normal((size, latent))
        return _pixels(sigmoid(forward(z, self.decoder)))


def mixture(name: str, tensors: Mapping[str, np.ndarray]) -> GaussianMixture:
    """The mixture over principal coordinates that `fitting.fit` stored as `name`."""
    weights, means, factors = (tensors[f"{name}.{part}"] for part in ("weights", "means", "factors"))
    return GaussianMixture(weights, means, factors, tensors["pca.mean"], tensors["pca.basis"])


def generators(tensors: Mapping[str, np.ndarray], recipe: Recipe) -> dict[str, Generator]:
    """The demo's generators by name, from the tensors that `fitting.fit` returned for `recipe`."""
    images = tensors["images"].astype(np.float64)
    origin, basis = tensors["pca.mean"], tensors["pca.basis"]
    one = np.ones(1)

    def gaussian(deviations: np.ndarray, origin: np.ndarray, basis: np.ndarray) -> GaussianMixture:
        return GaussianMixture(one, np.zeros((1, len(basis))), np.diag(deviations)[None], origin, basis)

    decoder = unpack("decoder", tensors)
    return {
        **{f"vae-{truncation}": TruncatedVAE(decoder, truncation) for truncation in recipe.truncations},
        f"gmm-{recipe.components}": mixture("gmm", tensors),
        f"kde-{recipe.bandwidth}": KernelDensity(images, recipe.bandwidth),
        "pca-gaussian": gaussian(tensors["pca.deviations"], origin, basis),
        "pixel-gaussian": gaussian(images.std(axis=0), images.mean(axis=0), np.eye(images.shape[1])),
    }


def family(decoder: Sequence[tuple[np.ndarray, np.ndarray]], other: Mapping[str, Generator]) -> dict[str, Generator]:
    """The generators that the demo compares by name: the VAE at `LEVELS`, which answer one seed alike, and `other`."""
    return {**{f"vae-{level}": TruncatedVAE(decoder, level) for level in LEVELS}, **other}
