"""Benchmark problems of mixtures with known losses: Gaussian mixtures in closed form, and pools drawn with replacement.

The truth is computed here from the laws themselves, without the code that is measured: by the exact mean of random
Fourier features under a normal law, E cos(ωᵀx) = exp(−ωᵀΣω/2) cos(ωᵀμ), or by the pool's own moments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optimist.simulation.digits.world import load

Floats = NDArray[np.float64]


class Law(Protocol):
    """What a generator makes."""

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Rows (n, d). Laws of one problem use the generator of random numbers alike, so that rows can be paired."""
        ...

    def waves(self, omegas: Floats) -> tuple[Floats, Floats]:
        """E cos(ωᵀx) and E sin(ωᵀx) (r,) for frequencies ω (d, r)."""
        ...

    def second(self, omegas: Floats) -> Floats:
        """E φφᵀ (2r, 2r) of φ = r^(−1/2) [cos ωᵀx, sin ωᵀx]."""
        ...

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean (d,) and covariance (d, d)."""
        ...


@dataclass(frozen=True)
class Normals:
    """Σ_k w_k N(m_k, diag v_k): `shares` (K,), `means` (K, d), `variances` (K, d)."""

    shares: Floats
    means: Floats
    variances: Floats

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Rows (n, d)."""
        chosen = np.searchsorted(np.cumsum(self.shares)[:-1], rng.random(count))
        noise = rng.standard_normal((count, self.means.shape[1]))
        return self.means[chosen] + np.sqrt(self.variances[chosen]) * noise

    def waves(self, omegas: Floats) -> tuple[Floats, Floats]:
        """E cos and E sin."""
        decay = self.shares[:, None] * np.exp(-0.5 * self.variances @ omegas**2)
        angles = self.means @ omegas
        return (decay * np.cos(angles)).sum(0), (decay * np.sin(angles)).sum(0)

    def second(self, omegas: Floats) -> Floats:
        """E φφᵀ by the products of cosines and sines as sums."""
        d, r = omegas.shape
        apart = (omegas[:, :, None] - omegas[:, None, :]).reshape(d, -1)
        together = (omegas[:, :, None] + omegas[:, None, :]).reshape(d, -1)
        (cos_apart, sin_apart), (cos_sum, sin_sum) = (
            tuple(part.reshape(r, r) for part in self.waves(angles)) for angles in (apart, together)
        )
        cosines, sines = (cos_apart + cos_sum) / 2.0, (cos_apart - cos_sum) / 2.0
        # sin(ω_b x) cos(ω_a x) = (sin((ω_a + ω_b)x) − sin((ω_a − ω_b)x)) / 2
        crossed = (sin_sum - sin_apart) / 2.0
        return np.block([[cosines, crossed], [crossed.T, sines]]) / r

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and covariance."""
        mean = self.shares @ self.means
        apart = self.means - mean
        return mean, np.diag(self.shares @ self.variances) + (apart.T * self.shares) @ apart


@dataclass(frozen=True)
class Pool:
    """Rows (n, d), drawn with replacement."""

    rows: Floats

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Rows (count, d)."""
        return self.rows[rng.integers(len(self.rows), size=count)]

    def waves(self, omegas: Floats) -> tuple[Floats, Floats]:
        """The pool's means."""
        angles = self.rows @ omegas
        return np.cos(angles).mean(0), np.sin(angles).mean(0)

    def second(self, omegas: Floats) -> Floats:
        """The pool's mean."""
        angles = self.rows @ omegas
        features = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return features.T @ features / (len(self.rows) * omegas.shape[1])

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and covariance of the pool as the whole law, 1/n."""
        return self.rows.mean(0), np.cov(self.rows, rowvar=False, ddof=0)


@dataclass(frozen=True)
class Problem:
    """Generators by name, real rows to compare with, and the bandwidth of the Gaussian kernel."""

    name: str
    laws: dict[str, Law]
    real: Callable[[], Floats]
    sigma: float
    features: int = 64
    """Frequencies. Truth and estimates use the same, so that more would change nothing but the time it takes."""

    @property
    def generators(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.laws)

    @property
    def dimension(self) -> int:
        """Columns of a row."""
        return len(next(iter(self.laws.values())).moments[0])

    @cached_property
    def real_rows(self) -> Floats:
        """Real rows (m, d)."""
        return self.real()

    @cached_property
    def omegas(self) -> Floats:
        """The frequencies (d, r) of the kernel, as the product draws them from seed 0."""
        normal = np.random.default_rng(0).standard_normal((self.dimension, self.features))
        return normal / self.sigma

    def stream(self, place: int, seed: int, paired: bool = False) -> np.random.Generator:
        """Random numbers of one generator in one run: the same for all generators if paired."""
        return np.random.default_rng((seed,) if paired else (seed, place))

    def sample(self, place: int, count: int, seed: int, paired: bool = False) -> Floats:
        """Rows (count, d) of a generator in one run."""
        return list(self.laws.values())[place].sample(count, self.stream(place, seed, paired))


def normal(mean: Sequence[float], deviation: float) -> Normals:
    """N(mean, deviation² I)."""
    return Normals(np.ones(1), np.array([mean]), np.full((1, len(mean)), deviation**2))


def _of(laws: dict[str, Law], shares: Sequence[float], noise: float, count: int = 4000) -> Callable[[], Floats]:
    """Rows drawn from the laws by these shares, with noise, so that no mixture is like them."""

    def rows() -> Floats:
        rng = np.random.default_rng(9)
        counts = np.round(np.array(shares) / np.sum(shares) * count).astype(int)
        drawn = [law.sample(n, rng) for law, n in zip(laws.values(), counts, strict=True) if n]
        together = np.concatenate(drawn)
        return together + noise * rng.standard_normal(together.shape)

    return rows


def interior() -> Problem:
    """Four normals in two dimensions: the best mixture has all of them, a uniform one has about 9 % more loss."""
    means = ((0.0, 0.0), (2.2, 0.3), (-1.4, 2.1), (-0.6, -2.2))
    deviations = (0.75, 0.7, 1.0, 0.8)
    laws: dict[str, Law] = {f"g{i}": normal(m, s) for i, (m, s) in enumerate(zip(means, deviations, strict=True))}
    return Problem("interior", laws, _of(laws, (1, 2, 4, 2), 0.9), sigma=1.5)


def sparse() -> Problem:
    """Two wide normals that make the best mixture, and two narrow ones between them that do not help."""
    means, deviations = ((-1.5, 0.0), (1.8, 0.3), (-1.0, 0.2), (1.2, 0.0)), (1.3, 1.05, 0.25, 0.25)
    laws: dict[str, Law] = {f"g{i}": normal(m, s) for i, (m, s) in enumerate(zip(means, deviations, strict=True))}
    return Problem("sparse", laws, _of(laws, (3, 2, 0, 0), 0.9), sigma=1.0)


def single() -> Problem:
    """A wide normal and three that lie within it: no mixture is better than the wide one alone."""
    means, deviations = ((0.0, 0.0), (0.4, 0.0), (-0.3, 0.3), (0.0, -0.3)), (1.5, 0.7, 0.6, 0.5)
    laws: dict[str, Law] = {f"g{i}": normal(m, s) for i, (m, s) in enumerate(zip(means, deviations, strict=True))}
    return Problem("single", laws, _of(laws, (1, 0, 0, 0), 0.9), sigma=1.5)


def clusters() -> Problem:
    """Three generators of 12 narrow clusters in eight dimensions; each favours other clusters, and they overlap."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((12, 8)) * 1.6
    favoured = (range(0, 6), range(4, 9), range(8, 12))
    laws: dict[str, Law] = {}
    for place, own in enumerate(favoured):
        shares = np.full(12, 0.02)
        shares[list(own)] += rng.uniform(0.5, 1.5, len(own))
        laws[f"g{place}"] = Normals(shares / shares.sum(), centres, np.full((12, 8), 0.15))
    real = Normals(np.full(12, 1 / 12), centres, np.full((12, 8), 0.6))
    return Problem("clusters", laws, lambda: real.sample(4000, np.random.default_rng(9)), sigma=2.0)


def wide() -> Problem:
    """Five generators in 16 dimensions that vary in different directions about different centres."""
    rng = np.random.default_rng(5)
    laws: dict[str, Law] = {}
    for place in range(5):
        variances = rng.uniform(0.05, 1.2, 16)
        laws[f"g{place}"] = Normals(np.ones(1), 0.6 * rng.standard_normal((1, 16)), variances[None])
    return Problem("wide", laws, _of(laws, (1, 2, 1, 2, 1), 0.7), sigma=4.0)


POOL = 4_000


def digits(names: Sequence[str], name: str) -> Problem:
    """Some of the demo's generators through its feature network, as pools."""
    world = load(progress=False)
    made = {**world.generators, **world.family}
    pools: dict[str, Law] = {
        each: Pool(world.features(made[each].sample(POOL, 7)).astype(np.float64)) for each in names
    }
    return Problem(name, pools, lambda: world.features(world.images).astype(np.float64), sigma=5.0)


def kinds() -> Problem:
    """Four kinds of generators of digits."""
    return digits(("vae-1.0", "vae-1.3", "gmm-40", "kde-0.2"), "digits, kinds")


def truncations() -> Problem:
    """One VAE of digits at four truncations."""
    return digits(("vae-0.5", "vae-0.75", "vae-1.0", "vae-1.3"), "digits, truncations")


def mnist(data: Path) -> Problem:
    """Five generators of MNIST's digits, in the features of a LeNet."""
    file = np.load(data / "mnist_lenet_generators.npz")
    arms = zip(file["arm_names"].tolist(), file["arm_feat"].astype(np.float64), strict=True)
    real = file["real_feat"].astype(np.float64)
    return Problem("MNIST", {name: Pool(rows) for name, rows in arms}, lambda: real, sigma=float(file["rke_sigma"]))


def texts(data: Path) -> Problem:
    """The five language models with the most answers, in MiniLM's embeddings."""
    file = np.load(data / "llmfao_minilm.npz")
    models, counts = np.unique(file["model"], return_counts=True)
    chosen = models[np.argsort(-counts, kind="stable")[:5]]
    rows = file["emb"].astype(np.float64)
    pools: dict[str, Law] = {str(file["models"][m]): Pool(rows[file["model"] == m]) for m in chosen}
    return Problem("texts", pools, lambda: rows, sigma=0.7)


CLOSED: dict[str, Callable[[], Problem]] = {made.__name__: made for made in (interior, sparse, single, clusters, wide)}
REAL: dict[str, Callable[[], Problem]] = {"kinds": kinds, "truncations": truncations}
OF_DATA: dict[str, Callable[[Path], Problem]] = {"mnist": mnist, "texts": texts}


def problem_named(name: str, data: Path | None = None) -> Problem:
    """A problem by name. Raises ValueError if it needs `data`, a directory with its file, and there is none."""
    if name in OF_DATA:
        if data is None:
            raise ValueError(f"the problem {name!r} needs --data")
        return OF_DATA[name](data)
    return {**CLOSED, **REAL}[name]()
