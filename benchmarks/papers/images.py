"""The digits' generators for the experiments: embedded images, and the moments of embedded real images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.simulation.digits.generators import Generator, TruncatedVAE
from optimist.simulation.digits.world import Digits, load
from optimist.simulation.sources import ArraySource

LEVELS = tuple(round(level, 2) for level in np.linspace(0.1, 1.5, 20).tolist())
"""Truncations of the variance-controlled generators: factors of the latent vectors' standard deviation."""
Images = NDArray[np.float32]


@cache
def digits() -> Digits:
    """Real images, the feature network and the fitted generators, fitted once and stored like the demo's."""
    return load(progress=False)


def pixels(images: Images) -> NDArray[Any]:
    """The pixels (n, 64), in units of 1/16 as in scikit-learn."""
    return 16.0 * images


def features(images: Images) -> NDArray[Any]:
    """The last hidden layer (n, 64) of the network that classifies the digits."""
    return digits().features(images)


def probabilities(images: Images) -> NDArray[Any]:
    """The class probabilities (n, 10) of that network."""
    return digits().probabilities(images)


def kinds() -> dict[str, Generator]:
    """Different models fitted to the digits: mixture, kernel density, two Gaussians, and the VAE three times."""
    return {name: made for name, made in digits().generators.items() if name != "vae-0.5"}


def truncations(levels: tuple[float, ...] = LEVELS) -> dict[str, Generator]:
    """The VAE with its latent vectors scaled by each of `levels`."""
    vae = next(made for made in digits().generators.values() if isinstance(made, TruncatedVAE))
    return {f"vae-{level:.2f}": replace(vae, truncation=level) for level in levels}


def pools(
    generators: Mapping[str, Generator], embed: Callable[[Images], NDArray[Any]], size: int
) -> dict[str, ArraySource]:
    """`size` images of each generator, embedded once; trials draw from these without replacement."""
    tensor = "probabilities" if embed is probabilities else "features"
    return {
        name: ArraySource({tensor: embed(made.sample(size, seed))}, name)
        for seed, (name, made) in enumerate(generators.items())
    }


def reference(embed: Callable[[Images], NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean (d,) and covariance (d, d) of all real images under an embedding."""
    rows = embed(digits().images).astype(np.float64)
    return rows.mean(axis=0), np.cov(rows, rowvar=False)
