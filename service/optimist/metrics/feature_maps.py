"""Feature maps: rows (n, d) to unit-norm φ (n, width), whose inner products are the kernel (equations.md §3)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from optimist.anomalies.batches import LARGEST, check_rows
from optimist.metrics.spectra.symmetric import symmetric_product
from optimist.metrics.state import real_array
from optimist_client.errors import FixError


def blocks_of(rows: NDArray[np.float64], device: torch.device, size: int = 1024) -> Iterator[Tensor]:
    """The rows (n, d) on the device, `size` at a time, which limits the memory of their φ."""
    for start in range(0, len(rows), size):
        yield torch.from_numpy(rows[start : start + size]).to(device)


class FeatureMap(ABC):
    """Base of the feature maps of kernels, as the kernel statistic and the scores use them."""

    name: str
    """The name users type, such as "gaussian"."""

    def __init__(self, dimension: int, width: int, device: torch.device) -> None:
        """dimension: d, the columns of the rows that it takes; width: the columns of φ, which is computed on the
        device."""
        self.dimension, self.width, self.device = dimension, width, device

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors())

    @property
    def columns(self) -> int:
        """The columns of its output."""
        return self.width

    def products(self, features: Tensor, others: Tensor) -> Tensor:
        """The kernel (n, m) between its outputs of n rows (n, columns) and of m rows."""
        return features @ others.T

    def gram(self, features: Tensor) -> Tensor:
        """The kernel's matrix (n, n), symmetric to the last bit, of its outputs of n rows (n, columns)."""
        return symmetric_product(features, features.T)

    @abstractmethod
    def __call__(self, rows: Tensor) -> Tensor:
        """φ (n, width) of finite float64 rows (n, d), each of norm 1. Raises FixError on rows that have none."""

    def check(self, rows: Tensor) -> None:
        """Raise FixError on finite rows (n, d), of any real dtype, that have no φ."""
        self(rows.to(self.device, torch.float64))

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors, of any shape, that φ depends on beside the name; not copied."""


class GaussianFourier(FeatureMap):
    """Random Fourier features of exp(−‖x − y‖²/(2σ²)): φ(x) = r^{−1/2} [cos ωᵀx, sin ωᵀx], ω (d, r) of N(0, 1/σ²).

    All cosines stand before all sines: no spectrum depends on the order. Raises FixError on frequencies that are not
    finite or not (d ≥ 1, r ≥ 1).
    """

    name = "gaussian"

    def __init__(self, omegas: ArrayLike | Tensor, device: torch.device | str = "cpu") -> None:
        self.omegas = torch.from_numpy(matrix_of("omegas", omegas)).to(device)
        dimension, count = self.omegas.shape
        super().__init__(dimension, 2 * count, self.omegas.device)

    @classmethod
    def draw(
        cls,
        dimension: int,
        features: int,
        sigma: float,
        seed: int | tuple[int, ...] = 0,
        device: torch.device | str = "cpu",
    ) -> GaussianFourier:
        """r = `features` frequencies of the kernel of bandwidth `sigma`, the same for one seed in every process.

        Raises FixError on sizes below 1, or on a bandwidth that is not positive.
        """
        if dimension < 1 or features < 1:
            raise FixError(f"need dimension ≥ 1 and features ≥ 1, not {(dimension, features)}")
        # Always drawn by numpy, because torch's generators differ between devices.
        normal = np.random.default_rng(seed).standard_normal((dimension, features))
        normal /= check_sigma(sigma)
        return cls(torch.from_numpy(normal), device)

    def check(self, rows: Tensor) -> None:
        """Every finite row has a φ."""

    def __call__(self, rows: Tensor) -> Tensor:
        """φ (n, 2r) of finite float64 rows (n, d), each of norm 1."""
        angles = rows @ self.omegas
        features = angles.new_empty(len(rows), self.width)
        torch.cos(angles, out=features[:, : self.width // 2])
        torch.sin(angles, out=features[:, self.width // 2 :])
        return features.div_(math.sqrt(angles.shape[-1]))

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.omegas,)


class Cosine(FeatureMap):
    """The cosine kernel xᵀy / (‖x‖ ‖y‖): φ(x) = x/‖x‖, which a row of zeros does not have."""

    name = "cosine"

    def __init__(self, dimension: int, device: torch.device | str = "cpu") -> None:
        if dimension < 1:
            raise FixError(f"need dimension ≥ 1, not {dimension}")
        super().__init__(dimension, dimension, torch.device(device))

    def check(self, rows: Tensor) -> None:
        _check_directions(rows.any(-1))

    def __call__(self, rows: Tensor) -> Tensor:
        """φ (n, d) of finite float64 rows (n, d), each of norm 1. Raises FixError on a row of zeros."""
        return _directions(rows)

    def tensors(self) -> tuple[Tensor, ...]:
        return (torch.tensor(self.dimension),)


class Nystrom(FeatureMap):
    """The Gaussian kernel approximated by m landmarks: φ(x) = K_mm^{−1/2} k_m(x), scaled to norm 1; width m.

    Unscaled, ‖φ(x)‖² is the share of x that the landmarks explain, so Tr C < 1 and C is no density. Scaling each row
    gives the kernel φ(x)ᵀφ(y) / (‖φ(x)‖ ‖φ(y)‖), with Tr C = 1 by construction. Its scores lie below the exact scores
    and rise to them with m. Measured: 50 / 400 landmarks in d = 16 give log Vendi_1 = 1.29 / 1.53, exactly 1.56; on 12
    clusters in d = 8 3.02 / 4.03 of 4.33. A further column √(1 − ‖φ‖²) instead would give 2.39 / 3.91 there: rows that
    the landmarks miss become alike. C / Tr C scores alike (3.02 / 4.01) but leaves rows of unequal norm, which the
    estimators' unit-norm formulas do not allow.

    Raises FixError on landmarks that are not finite or not (m ≥ 1, d ≥ 1), or on a bandwidth that is not positive.
    """

    name = "nystrom"

    def __init__(self, landmarks: ArrayLike | Tensor, sigma: float, device: torch.device | str = "cpu") -> None:
        self.landmarks = torch.from_numpy(matrix_of("landmarks", landmarks)).to(device)
        count, dimension = self.landmarks.shape
        super().__init__(dimension, count, self.landmarks.device)
        self.sigma = check_sigma(sigma)
        eigenvalues, eigenvectors = torch.linalg.eigh(_log_kernel(self.landmarks, self.landmarks, sigma).exp())
        # Eigenvalues below this fraction of the largest are left out: their inverse is noise.
        kept = eigenvalues > 1e-10 * eigenvalues[-1]
        basis = eigenvectors[:, kept]
        self._root = (basis / eigenvalues[kept].sqrt()) @ basis.T

    def __call__(self, rows: Tensor) -> Tensor:
        """φ (n, m) of finite float64 rows (n, d), each of norm 1.

        Raises FixError on a row that the landmarks cannot distinguish from others.
        """
        exponents = _log_kernel(rows, self.landmarks, self.sigma)
        # The norm is scaled away, so distances may be taken relative to the nearest landmark: then nothing underflows.
        seen = (exponents - exponents.amax(-1, keepdim=True)).exp()
        features = seen @ self._root
        largest = features.abs().amax(-1, keepdim=True)
        if not bool((largest > 0.0).all()):
            raise FixError("a row lies outside what the landmarks can tell apart")
        return _unit_rows(features, largest)

    def tensors(self) -> tuple[Tensor, ...]:
        """The landmarks (m, d) and σ, float64."""
        return (self.landmarks, torch.tensor(self.sigma, dtype=torch.float64))


class ExactKernel(FeatureMap):
    """A kernel itself, without features: the rows represent φ, and products of rows are the kernel's values.

    The covariance of its φ, which are never computed, has the spectrum of the n × n matrix. `width`, the assumed
    largest rank of the covariance, is the number of samples that it is computed for.
    """

    name = "exact"

    def __init__(self, parts: Sequence[tuple[int, float | None]], device: torch.device | str = "cpu") -> None:
        """parts: the number of columns, one behind the other, and the bandwidth σ of each kernel of which it is the
        product; None: the cosine kernel."""
        # The matrix of 10,000 samples has 0.8 GB, and its eigenproblem takes minutes.
        super().__init__(sum(columns for columns, _ in parts), 10_000, torch.device(device))
        self.parts = tuple((columns, sigma if sigma is None else check_sigma(sigma)) for columns, sigma in parts)
        self._columns = [columns for columns, _ in parts]

    @property
    def columns(self) -> int:
        return self.dimension

    def __call__(self, rows: Tensor) -> Tensor:
        """The rows (n, d), under a cosine kernel scaled to norm 1. Raises FixError on a row that it cannot scale."""
        parts = zip(self.parts, rows.split(self._columns, -1), strict=True)
        return torch.cat([_directions(part) if sigma is None else part for (_, sigma), part in parts], -1)

    def products(self, features: Tensor, others: Tensor) -> Tensor:
        values = features.new_ones(len(features), len(others))
        split = (rows.split(self._columns, -1) for rows in (features, others))
        for (_, sigma), left, right in zip(self.parts, *split, strict=True):
            values *= left @ right.T if sigma is None else gaussian_kernel(left, right, sigma)
        return values

    def gram(self, features: Tensor) -> Tensor:
        return self.products(features, features)

    def tensors(self) -> tuple[Tensor, ...]:
        return (torch.tensor([[columns, sigma or 0.0] for columns, sigma in self.parts], dtype=torch.float64),)


def gaussian_kernel(rows: Tensor, others: Tensor, sigma: float) -> Tensor:
    """exp(−‖x − y‖²/(2σ²)) (n, m) of rows (n, d) and (m, d). Raises FixError on a bandwidth that is not positive."""
    return _log_kernel(rows, others, check_sigma(sigma)).exp()


def check_sigma(sigma: float) -> float:
    """The bandwidth σ. Raises FixError unless it is positive, and both σ and 1/σ are at most `LARGEST`."""
    if not 1.0 / LARGEST <= sigma <= LARGEST:
        raise FixError(f"sigma must be positive and finite, not {sigma!r}")
    return float(sigma)


def _log_kernel(rows: Tensor, others: Tensor, sigma: float) -> Tensor:
    # From differences: ‖x‖² + ‖y‖² − 2xᵀy is inaccurate for small distances far from the origin.
    distances = torch.cdist(rows, others, compute_mode="donot_use_mm_for_euclid_dist")
    return -0.5 * (distances / sigma).square()


def _directions(rows: Tensor) -> Tensor:
    largest = rows.abs().amax(-1, keepdim=True)
    _check_directions(largest > 0.0)
    return _unit_rows(rows, largest)


def _check_directions(have: Tensor) -> None:
    if not bool(have.all()):
        raise FixError("a row of zeros has no direction, so the cosine kernel does not apply to it")


def _unit_rows(rows: Tensor, largest: Tensor) -> Tensor:
    # Divided by the largest entry first, so that squares neither overflow nor vanish.
    scaled = rows / largest
    return scaled.div_(torch.linalg.vector_norm(scaled, dim=-1, keepdim=True))


def matrix_of(name: str, values: Any) -> NDArray[np.float64]:
    """A float64 copy (m ≥ 1, k ≥ 1) of the values. Raises FixError on another shape, NaN or anything too large."""
    matrix = real_array(name, values)
    if matrix.ndim != 2 or matrix.size == 0:
        raise FixError(f"{name}: expected a matrix with entries, got shape {matrix.shape}")
    check_rows(name, matrix, matrix.shape[1])
    return matrix
