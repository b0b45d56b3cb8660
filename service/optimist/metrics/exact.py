"""Kernel scores of one set of samples without random features: the spectrum of the n × n kernel matrix itself."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from optimist.metrics.vendi import spectrum_of_rows
from optimist.statistics.feature_maps import Cosine, gaussian_kernel


def exact_spectrum(rows: Tensor, kernel: Literal["gaussian", "cosine"] = "gaussian", sigma: float = 1.0) -> Tensor:
    """Eigenvalues of K/n, descending and ≥ 0, of finite float64 rows (n ≥ 1, d): n of them, min(n, d) for `cosine`.

    `log_vendi` scores them. `sigma` is the bandwidth of `gaussian`. Raises ValueError on an unknown kernel, no rows, a
    bandwidth that is not positive, or a row of zeros under `cosine`.
    """
    if rows.ndim != 2 or len(rows) < 1:
        raise ValueError(f"expected rows of shape (n ≥ 1, d), not {tuple(rows.shape)}")
    if kernel == "cosine":
        return spectrum_of_rows(Cosine(rows.shape[1], rows.device)(rows))
    if kernel == "gaussian":
        return torch.linalg.eigvalsh(gaussian_kernel(rows, rows, sigma) / len(rows)).flip(-1).clamp_min(0.0)
    raise ValueError(f"unknown kernel {kernel!r}: one of gaussian, cosine")
