"""Kernel scores of one set of samples without random features: the spectrum of the n × n kernel matrix itself."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from optimist.metrics.feature_maps import Cosine, gaussian_kernel
from optimist.metrics.vendi.entropy import eigenvalues_of, spectrum_of_rows
from optimist_client.errors import FixError

ExactKernel = Literal["gaussian", "cosine"]


def exact_spectrum(rows: Tensor, kernel: ExactKernel = "gaussian", sigma: float = 1.0) -> Tensor:
    """Eigenvalues of K/n, descending and ≥ 0, of finite float64 rows (n ≥ 1, d): n of them, min(n, d) for `cosine`.

    `log_vendi` scores them. `sigma` is the bandwidth of `gaussian`. Raises FixError on an unknown kernel, no rows, a
    bandwidth that is not positive, or a row of zeros under `cosine`.
    """
    if kernel == "cosine":
        _check(rows)
        return spectrum_of_rows(Cosine(rows.shape[1], rows.device)(rows))
    return eigenvalues_of(exact_kernel(rows, kernel, sigma) / len(rows))


def exact_kernel(rows: Tensor, kernel: ExactKernel = "gaussian", sigma: float = 1.0) -> Tensor:
    """K (n, n), its diagonal 1, of finite float64 rows (n ≥ 1, d). Raises FixError as `exact_spectrum` does."""
    _check(rows)
    if kernel == "gaussian":
        return gaussian_kernel(rows, rows, sigma)
    if kernel == "cosine":
        directions = Cosine(rows.shape[1], rows.device)(rows)
        return directions @ directions.T
    raise FixError(f"unknown kernel {kernel!r}: one of gaussian, cosine")


def _check(rows: Tensor) -> None:
    if rows.ndim != 2 or len(rows) < 1:
        raise FixError(f"expected rows of shape (n ≥ 1, d), not {tuple(rows.shape)}")
