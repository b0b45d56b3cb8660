"""The benchmark problems of the policies, set up like those of the papers: digits, Gaussians, and feature files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import images
import numpy as np
from numpy.typing import NDArray

from optimist.simulation.sources import ArraySource, GaussianSource, SourceSet

KERNEL: dict[str, Any] = {"name": "gaussian", "sigma": 5.0, "features": 64}
"""Half the median distance between the features of real digits; 128 columns."""
_UNIFORM = {"uniform": "uniform:rescore_growth=0.2"}  # it does not use estimates, and they take most of its time
POLICIES: dict[str, dict[str, str]] = {
    metric: {name: name for name in names} | _UNIFORM
    for metric, names in {
        "fid": ("ucb", "fid-ucb", "fd-ucb", "naive-ucb", "greedy"),
        "is": ("ucb", "is-ucb", "naive-ucb", "greedy"),
        "rke": ("ucb", "rke-ucb", "greedy"),
        "vendi": ("ucb", "vendi-ucb", "greedy"),
    }.items()
}
"""The policies of each metric; the default comes first."""
OURS = "ucb"


@dataclass(frozen=True)
class Comparison:
    """A benchmark problem for every policy of its metric. `make` takes the number of samples of a pool."""

    title: str
    metric: str
    make: Callable[[int], SourceSet]
    rounds: int = 1000
    batch: int = 5


def _digits(which: Callable[[], Any], embed: Callable[[Any], NDArray[Any]]) -> Callable[[int], SourceSet]:
    def make(size: int) -> SourceSet:
        settings = {} if embed is images.probabilities else {"reference": images.reference(embed)}
        return SourceSet(images.pools(which(), embed, size), settings)

    return make


def _kernel(which: Callable[[], Any]) -> Callable[[int], SourceSet]:
    def make(size: int) -> SourceSet:
        return SourceSet(images.pools(which(), images.features, size), {"kernel": KERNEL})

    return make


def _mixtures(size: int) -> SourceSet:
    """Mixtures of the first 1 … 10 digits in equal shares."""
    prompted = images.digits().prompted["class-gmm-4"]
    rng = np.random.default_rng(0)
    sources = {}
    for count in range(1, 11):
        prompts = [f"a handwritten {digit}" for digit in rng.integers(count, size=size)]
        rows = images.features(prompted.sample(prompts, seed=count))
        sources[f"{count}-digits"] = ArraySource({"features": rows}, f"{count} digits")
    return SourceSet(sources, {"kernel": KERNEL})


def _power_law(dimension: int, exponent: float, total: float = 50.0) -> NDArray[np.float64]:
    """Eigenvalues λ_j ∝ j^−exponent with sum `total` (54 for the digits' features)."""
    ranks = np.arange(1.0, dimension + 1.0) ** -exponent
    return total * ranks / ranks.sum()


def _scaled_gaussians(size: int) -> SourceSet:
    """d = 96, λ ∝ 1/j: the best has the variance of the reference and a shifted mean; the others have less variance."""
    real = _power_law(96, 1.0)
    arms = {"collapsed": (0.1, 0.0), "half": (0.5, 0.0), "0.7": (0.7, 0.0), "0.85": (0.85, 0.1), "best": (1.0, 0.1)}
    arms |= {"off": (1.0, 0.6), "wide": (1.3, 0.1)}
    sources = {
        name: GaussianSource(np.full(96, np.sqrt(gap / 96)), np.diag(scale * real), name)
        for name, (scale, gap) in arms.items()
    }
    return SourceSet(sources, {"reference": (np.zeros(96), np.diag(real))})


def _spectra(size: int) -> SourceSet:
    """d = 64, equal total variance, spectra λ ∝ j^−s compared with s = 1, along the same axes."""
    sources = {
        f"s-{exponent:g}": GaussianSource(np.full(64, 0.05), np.diag(_power_law(64, exponent)), f"s = {exponent:g}")
        for exponent in (0.4, 0.6, 0.8, 1.1, 1.3, 1.6, 2.0)
    }
    return SourceSet(sources, {"reference": (np.zeros(64), np.diag(_power_law(64, 1.0)))})


def _rotations(size: int) -> SourceSet:
    """d = 128, λ ∝ 1/j: the reference's spectrum, rotated by 0 … 45° in each plane of adjacent axes, and scaled."""
    real = np.diag(_power_law(128, 1.0))
    sources = {}
    for angle, scale in ((0, 0.8), (15, 1.0), (25, 0.5), (30, 1.0), (45, 0.3)):
        cosine, sine = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        turn = np.kron(np.eye(64), np.array([[cosine, -sine], [sine, cosine]]))
        turn = np.roll(turn, (1, 1), axis=(0, 1)) @ turn
        name = f"{angle}-degrees-{scale:g}"
        sources[name] = GaussianSource(np.zeros(128), scale * turn @ real @ turn.T, name)
    return SourceSet(sources, {"reference": (np.zeros(128), real)})


COMPARISONS = {
    "truncation-fid": Comparison(
        "20 truncations of a VAE, FID by the network's features", "fid", _digits(images.truncations, images.features)
    ),
    "truncation-fid-pixels": Comparison(
        "20 truncations of a VAE, FID by pixels", "fid", _digits(images.truncations, images.pixels)
    ),
    "truncation-is": Comparison("20 truncations of a VAE, IS", "is", _digits(images.truncations, images.probabilities)),
    "kinds-fid": Comparison(
        "7 models of the digits, FID by the network's features", "fid", _digits(images.kinds, images.features)
    ),
    "kinds-fid-pixels": Comparison(
        "7 models of the digits, FID by pixels", "fid", _digits(images.kinds, images.pixels)
    ),
    "kinds-is": Comparison("7 models of the digits, IS", "is", _digits(images.kinds, images.probabilities)),
    "truncation-rke": Comparison("20 truncations of a VAE, RKE", "rke", _kernel(images.truncations)),
    "mixtures-rke": Comparison("mixtures of 1 to 10 digits, RKE", "rke", _mixtures),
    "truncation-vendi": Comparison("20 truncations of a VAE, Vendi", "vendi", _kernel(images.truncations)),
    "mixtures-vendi": Comparison("mixtures of 1 to 10 digits, Vendi", "vendi", _mixtures),
    "gaussian-variance": Comparison("Gaussians of other variance, d = 96", "fid", _scaled_gaussians),
    "gaussian-spectra": Comparison("Gaussians of other spectrum, d = 64", "fid", _spectra),
    "gaussian-rotations": Comparison("Gaussians turned and scaled, d = 128", "fid", _rotations),
}
"""The comparisons that need only this repository, by name."""
